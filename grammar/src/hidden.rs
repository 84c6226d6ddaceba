//! Invisible characters. Bidirectional controls, which change the order in which text is shown, can
//! make a program look like another one, so they are rejected everywhere, even in comments (Boucher
//! and Anderson, "Trojan Source", 2021). So is a byte order mark except at the beginning. The
//! others are allowed in comments.

use crate::ast::Span;
use crate::codes;
use crate::diagnostic::Diagnostic;
use crate::report::Errors;

/// A byte order mark, which is allowed at the beginning of a source.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// Characters that are rejected even in comments, with their Unicode names.
const NOWHERE: [(char, &str); 13] = [
    ('\u{061c}', "ARABIC LETTER MARK"),
    ('\u{200e}', "LEFT-TO-RIGHT MARK"),
    ('\u{200f}', "RIGHT-TO-LEFT MARK"),
    ('\u{202a}', "LEFT-TO-RIGHT EMBEDDING"),
    ('\u{202b}', "RIGHT-TO-LEFT EMBEDDING"),
    ('\u{202c}', "POP DIRECTIONAL FORMATTING"),
    ('\u{202d}', "LEFT-TO-RIGHT OVERRIDE"),
    ('\u{202e}', "RIGHT-TO-LEFT OVERRIDE"),
    ('\u{2066}', "LEFT-TO-RIGHT ISOLATE"),
    ('\u{2067}', "RIGHT-TO-LEFT ISOLATE"),
    ('\u{2068}', "FIRST STRONG ISOLATE"),
    ('\u{2069}', "POP DIRECTIONAL ISOLATE"),
    (BYTE_ORDER_MARK, "BYTE ORDER MARK"),
];

/// Characters that are allowed in comments.
const IN_COMMENTS: [(char, &str); 7] = [
    ('\u{00ad}', "SOFT HYPHEN"),
    ('\u{180e}', "MONGOLIAN VOWEL SEPARATOR"),
    ('\u{200b}', "ZERO WIDTH SPACE"),
    ('\u{200c}', "ZERO WIDTH NON-JOINER"),
    ('\u{200d}', "ZERO WIDTH JOINER"),
    ('\u{2060}', "WORD JOINER"),
    ('\u{2063}', "INVISIBLE SEPARATOR"),
];

fn name_of(table: &[(char, &'static str)], c: char) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == c).map(|(_, name)| *name)
}

/// Reports each character from byte `start` on that is not allowed anywhere in a source.
pub(crate) fn refuse(source: &str, start: usize, errors: &mut Errors) {
    let text = source.get(start..).unwrap_or_default();
    // Fast path: all of them are multi-byte characters.
    if text.is_ascii() {
        return;
    }
    for (at, c) in text.char_indices().map(|(at, c)| (start + at, c)) {
        if let Some(name) = name_of(&NOWHERE, c).filter(|_| at > 0 || c != BYTE_ORDER_MARK) {
            let note = match c {
                BYTE_ORDER_MARK => "it is allowed only at the beginning of a file",
                _ => "it changes the order in which the text around it is shown, even in a comment",
            };
            errors.push(diagnostic(at, c, name).note(note));
        }
    }
}

/// Whether [`refuse`] reports this character (except for a byte order mark at the beginning).
pub(crate) fn is_refused(c: char) -> bool {
    name_of(&NOWHERE, c).is_some()
}

/// The error for a character that is allowed only in comments, if it is one, for use outside of
/// them.
pub(crate) fn complaint(at: usize, c: char) -> Option<Diagnostic> {
    name_of(&IN_COMMENTS, c).map(|name| diagnostic(at, c, name))
}

fn diagnostic(at: usize, c: char, name: &str) -> Diagnostic {
    let span = Span { start: at as u32, end: (at + c.len_utf8()) as u32 };
    let message = format!("a character that nobody sees: U+{:04X}, {name}", c as u32);
    Diagnostic::new(codes::HIDDEN, span, message).help("remove it").suggest(span, "")
}
