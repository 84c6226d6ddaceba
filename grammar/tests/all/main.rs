//! Tests of the lexer, the parser and the formatter.

mod errors;
mod format;
mod forms;
mod limits;
mod programs;
mod prompt;
mod properties;
mod source;
