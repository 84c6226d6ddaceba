//! The compiler: from the syntax tree to the checked program, and from that to fused loop nests.

#![forbid(unsafe_code)]

// The passes over kernels match statements and operations without wildcards, as `ir` does.

#[warn(clippy::wildcard_enum_match_arm)]
pub mod analysis;
pub mod check;
#[warn(clippy::wildcard_enum_match_arm)]
pub mod explain;
#[warn(clippy::wildcard_enum_match_arm)]
pub mod fusion;
pub mod library;
pub mod lower;
pub mod math;
pub mod partition;
pub mod pipeline;
#[warn(clippy::wildcard_enum_match_arm)]
pub mod plan;
mod planes;
pub mod written;
