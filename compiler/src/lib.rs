//! Fuseloop's compiler: from the syntax tree to loop nests.

#![forbid(unsafe_code)]

pub mod math;
