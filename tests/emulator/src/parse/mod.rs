//! Text to kernels. What is not in the subset is an error that names its line: nothing is skipped but what
//! debuggers read.
//!
//! `lexer` makes tokens, `cursor` walks them, this file reads what stands outside of kernels, `body` what stands within,
//! and `decode` turns each instruction into an operation.

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

/// Why a text is no module of the subset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}
