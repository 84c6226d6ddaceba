//! The test harness as a library: the program generator, the cases of the corpus, what formatting must keep, the
//! engines under one name. The test binaries, and the fuzzer, stand on it.

#![forbid(unsafe_code)]

pub mod corpus;
pub mod emulated;
pub mod engines;
pub mod examples;
pub mod format;
pub mod generate;
pub mod page;
pub mod sweep;
pub mod ways;
