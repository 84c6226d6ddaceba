//! Fuseloop's code generators and their run time: verified loop nests in, running machine code out.

pub mod abi;
mod access;
mod call;
pub mod cpu;
pub mod cuda;
pub mod ptx;
