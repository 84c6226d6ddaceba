//! Lays programs out in the one style. Tokens keep their text and their order, and only the white
//! space between them changes, so the syntax tree does not. There are three exceptions: `;` becomes
//! a line break, a list with one element per line gets a trailing comma (and others lose it), and
//! doubled parentheses are reduced to one pair.
//!
//! `tokens` reads the tokens and the comments between them, `shape` finds the possible line breaks
//! and the groups, `print` decides which breaks are taken, and `align` writes the lines with their
//! comments.

mod align;
mod print;
mod shape;
mod tokens;

use crate::diagnostic::Diagnostic;
use crate::parse;

/// Code is at most this wide; a comment at the end of a line may go beyond.
const WIDTH: usize = 100;

/// Columns of a level of indentation.
const INDENT: usize = 4;

/// The program in the one style, or its errors if it does not parse.
///
/// ```
/// let program = "fn f(x : f32[n])=x^2+1 # why\n";
/// assert_eq!(grammar::format(program).unwrap(), "fn f(x: f32[n]) = x ^ 2 + 1  # why\n");
/// ```
pub fn format(source: &str) -> Result<String, Vec<Diagnostic>> {
    parse(source)?;
    let text = tokens::read(source);
    let items = shape::items(&text);
    Ok(align::write(&text, &print::lines(&text, &items)))
}
