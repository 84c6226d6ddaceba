//! Tests of the compiler: what the checker infers and refuses, what programs lower to, what is told of kernels, what fuses, how reports
//! read, and how near the elementary functions come.

mod accuracy;
mod analysis;
mod best;
mod branches;
mod calls;
mod check;
mod ends;
mod explain;
mod fusion;
mod helps;
mod kernels;
mod literals;
mod lower;
mod misuse;
mod plan;
mod proofs;
mod sizes;
mod styles;
