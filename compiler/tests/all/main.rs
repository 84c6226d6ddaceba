//! Tests of the compiler: what the checker infers and refuses, what programs lower to, what is told of kernels, what fuses, how reports
//! read, and how near the elementary functions come.

mod accuracy;
mod analysis;
mod check;
mod explain;
mod fusion;
mod lower;
mod plan;
