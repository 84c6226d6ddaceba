//! The library.
#![forbid(unsafe_code)]
pub mod files;
