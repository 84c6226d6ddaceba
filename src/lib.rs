//! The library.
#![forbid(unsafe_code)]
pub mod files;
pub mod print;
pub use ir::{Array, Dtype, Scalar};
