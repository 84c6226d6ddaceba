//! The compiler: syntax tree to checked program to loop nests, and those merged.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod check;
pub mod explain;
pub mod fusion;
pub mod lower;
pub mod math;
pub mod pipeline;
pub mod plan;
