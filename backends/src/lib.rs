//! Fuseloop's code generators and their run time: verified loop nests in, running machine code out.
//!
//! `cpu` and `ptx` generate code for the parts that the passes of `schedule` split kernels into;
//! `cuda` runs the code that `ptx` generates. The engines share the other modules: `fold` analyses
//! reductions, `slots` assigns memory to temporaries, `pages` allocates zeroed memory, and `call`
//! checks the arrays of a call.

pub mod abi;
mod call;
pub mod cpu;
pub mod cuda;
mod error;
pub mod float_mode;
mod fold;
mod pages;
pub mod ptx;
mod slots;

pub use pages::zeroed_words;
