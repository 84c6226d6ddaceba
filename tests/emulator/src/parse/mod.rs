//! Parses text to kernels. Anything outside of the subset is an error that names its line; only
//! debugging information is skipped.
//!
//! `lexer` makes tokens, `cursor` walks them, `module` reads the text outside of kernels and `body`
//! that inside, and `decode` turns each instruction into an operation.

mod body;
mod cursor;
mod lexer;
mod module;
mod operand;

pub(crate) use body::{Body, Slot};
pub use module::Module;
pub(crate) use module::immediate;
pub(crate) use operand::Operand;

use std::fmt;

/// The reason why a text is not a module of the subset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// The problem there.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}
