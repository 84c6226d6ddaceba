//! Fuseloop's code generators and their run time: verified loop nests in, running machine code out.
//!
//! `cpu` and `ptx` generate code for what the passes of `schedule` make of kernels, and `cuda` runs the latter's. What both need is here: `access`,
//! `groups` and `fold` are what they ask of subscripts, contractions and reductions, `slots` says where temporaries lie, `pages` gives zeroed memory, `call` looks at the
//! arrays of a call.

pub mod abi;
mod access;
mod call;
pub mod cpu;
pub mod cuda;
mod error;
pub mod float_mode;
mod fold;
mod groups;
mod pages;
pub mod ptx;
mod slots;

pub use pages::zeroed_words;
