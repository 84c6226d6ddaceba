//! Fuseloop's code generators and their run time: verified loop nests in, running machine code out.
//!
//! `cpu` and `ptx` generate code, and `cuda` runs the latter's. What both begin with is here: `prepare` (with `forward`) makes a kernel ready, `nests`,
//! `access`, `groups` and `fold` are what they ask of loops, subscripts, contractions and reductions, `slots` says where temporaries lie, `call` looks at the
//! arrays of a call.

pub mod abi;
mod access;
mod call;
pub mod cpu;
pub mod cuda;
mod error;
pub mod float_mode;
mod fold;
mod forward;
mod groups;
mod nests;
mod prepare;
pub mod ptx;
mod slots;
