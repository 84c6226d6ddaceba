//! Classifies the words of a text, for editors that highlight it.

use crate::ast::Span;
use crate::lexer::{Lexer, Tok};

/// The class of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Highlight {
    /// `fn`, `let`, `if` and their like.
    Keyword,
    /// `f32` and its like.
    Type,
    /// A name, or `_`.
    Name,
    /// A number.
    Number,
    /// The path of a file, in quotes.
    Text,
    /// An operator or punctuation.
    Mark,
    /// A bracket.
    Bracket,
    /// From `#` to the end of the line.
    Comment,
    /// Not part of the language.
    Wrong,
}

/// The words and comments of a text, in order. The text between them is white space.
///
/// ```
/// use grammar::{Highlight, highlight};
///
/// let words = highlight("let y = 2 # twice");
/// assert_eq!(words.iter().map(|(_, class)| *class).collect::<Vec<_>>(), [
///     Highlight::Keyword, Highlight::Name, Highlight::Mark, Highlight::Number, Highlight::Comment
/// ]);
/// assert_eq!(highlight("use \"a.fl\"")[1].1, Highlight::Text);
/// ```
pub fn highlight(source: &str) -> Vec<(Span, Highlight)> {
    let mut found = vec![];
    if source.len() > crate::MAX_SOURCE {
        return found;
    }
    let mut lexer = Lexer::new(source);
    let mut end = 0;
    while let Some((token, _)) = lexer.next() {
        comment(source, end..token.span.start as usize, &mut found);
        end = token.span.end as usize;
        found.extend(class(token.tok).map(|class| (token.span, class)));
    }
    comment(source, end..source.len(), &mut found);
    found
}

/// The lexer skips comments, so there is at most one between two tokens.
fn comment(source: &str, gap: std::ops::Range<usize>, found: &mut Vec<(Span, Highlight)>) {
    if let Some(hash) = source.get(gap.clone()).and_then(|text| text.find('#')) {
        let span = Span { start: (gap.start + hash) as u32, end: gap.end as u32 };
        found.push((span, Highlight::Comment));
    }
}

fn class(tok: Tok) -> Option<Highlight> {
    Some(match tok {
        _ if tok.is_keyword() => Highlight::Keyword,
        Tok::Dtype(_) => Highlight::Type,
        Tok::Name | Tok::Hole => Highlight::Name,
        Tok::Number => Highlight::Number,
        Tok::Text => Highlight::Text,
        Tok::Wrong => Highlight::Wrong,
        Tok::Newline | Tok::Block | Tok::AsUse | Tok::AsHeader | Tok::AsStatement | Tok::AsResult => return None,
        tok if tok.closes() || tok.closed_by().is_some() => Highlight::Bracket,
        _ => Highlight::Mark,
    })
}
