//! The compiler: syntax tree to checked program to loop nests.

#![forbid(unsafe_code)]

pub mod check;
pub mod lower;
pub mod math;
pub mod pipeline;
