//! Tests of the compiler: what the checker infers and refuses, lowered programs, analyses of
//! kernels, fusion, the wording of reports, and the accuracy of the elementary functions.

mod accuracy;
mod analysis;
mod best;
mod branches;
mod calls;
mod check;
mod derive;
mod ends;
mod explain;
mod fusion;
mod helps;
mod kernels;
mod literals;
mod lower;
mod misuse;
mod plan;
mod planes;
mod proofs;
mod sizes;
mod styles;
