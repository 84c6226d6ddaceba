//! Source text to syntax tree: a lexer (logos), a layout rule that ends statements at newlines, a
//! grammar (lalrpop), and an arena tree. Errors are [`Diagnostic`]s.

#![forbid(unsafe_code)]

pub mod ast;
pub mod diagnostic;

pub use diagnostic::{Code, Diagnostic, Label};
