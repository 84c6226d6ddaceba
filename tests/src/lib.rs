//! The test harness as a library: the cases of the corpus, what formatting must keep, and, from the
//! differential tester, the program generator and the engines under one name. The test binaries
//! stand on it.

#![forbid(unsafe_code)]

pub mod bytes;
pub mod corpus;
pub mod examples;
pub mod format;
pub mod generate;
pub mod imports;
pub mod measure;
pub mod objects;
pub mod page;
pub mod prose;
pub mod source;
pub mod sweep;

pub use fuzzing::{emulated, engines, ways};
