//! Reports for people and for programs: errors drawn over the source.

#![forbid(unsafe_code)]

pub mod draw;

pub use draw::Style;
