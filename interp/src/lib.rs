//! The reference interpreter: the meaning of a program, slow and obvious.

#![forbid(unsafe_code)]

pub mod nest;
pub mod reduce;
pub mod scalar;
pub mod source;
