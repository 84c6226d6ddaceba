//! Programs in the one style. Tokens stay as the author wrote them and in their order; only what stands between them
//! changes, so the tree does not. What does change of the tokens: `;` becomes a line end, a comma trails exactly in
//! lists of several that have a line for each, and of doubled parentheses one pair stays.
//!
//! `tokens` reads the tokens with the comments between them, `shape` finds where lines may break and what belongs
//! together, `print` decides which do, `align` writes the lines with their comments.

mod align;
mod print;
mod shape;
mod tokens;

use crate::diagnostic::Diagnostic;
use crate::parse;

/// Columns that code may fill; a comment at its end may go beyond.
const WIDTH: usize = 100;

/// Columns of a level of indentation.
const INDENT: usize = 4;

/// The program in the one style; its errors if it has any.
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
