//! Text to tokens. A token carries no text: its span says where that stands.
//!
//! Numbers are decimal, `42`, `1_000`, `1.5`, `2.`, `.5`, `1e-5`, or integers in hexadecimal or
//! binary digits, `0xff`, `0b1010_0001`. Names are ASCII letters, digits and `_`. A comment runs
//! from `#` to the end of the line. `\r` counts as a space, so that both kinds of line ends work. A
//! byte order mark may begin a text.

use std::num::ParseIntError;

use logos::{FilterResult, Lexer as Scanner, Logos, SpannedIter};

use crate::ast::{Dtype, Span};
use crate::diagnostic::Diagnostic;
use crate::report::quote;
use crate::{codes, hidden, hints};

/// The kinds of tokens, generated from `tokens.logos`.
#[expect(clippy::all, unused, unused_qualifications, reason = "generated")]
mod tokens {
    use super::{Dtype, Reason, byte_order_mark, comment, number, wrong};

    include!("tokens.generated");
}

pub(crate) use tokens::Tok;

/// A token where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) tok: Tok,
    pub(crate) span: Span,
}

/// Why a piece of text is not a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reason {
    #[default]
    Character,
    Number(&'static str),
    Range,
    Operator,
    Text,
}

fn wrong(reason: Reason) -> Result<(), Reason> {
    Err(reason)
}

/// Skips the byte order mark at the beginning; `hidden` has reported any other.
fn byte_order_mark(scanner: &mut Scanner<'_, Tok>) -> FilterResult<(), Reason> {
    if scanner.span().start == 0 { FilterResult::Skip } else { FilterResult::Error(Reason::Character) }
}

/// Skips a comment in the syntax of another language, so that its contents are not reported as
/// well.
fn comment(scanner: &mut Scanner<'_, Tok>) -> Result<(), Reason> {
    let rest = scanner.remainder();
    let end = match scanner.slice() {
        "/*" => rest.find("*/").map(|end| end + 2),
        _ => rest.find('\n'),
    };
    scanner.bump(end.unwrap_or(rest.len()));
    Err(Reason::Operator)
}

/// Takes everything that could be meant as one number before judging it.
fn number(scanner: &mut Scanner<'_, Tok>) -> Result<(), Reason> {
    let rest = scanner.remainder().as_bytes();
    // In `0xe+1` the `e` is a digit.
    let hexadecimal = scanner.slice() == "0" && matches!(rest.first(), Some(b'x' | b'X'));
    let mut previous = b'0';
    let mut length = 0;
    for &byte in rest {
        let sign_of_exponent = matches!(byte, b'+' | b'-') && matches!(previous, b'e' | b'E') && !hexadecimal;
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.') || sign_of_exponent) {
            break;
        }
        previous = byte;
        length += 1;
    }
    scanner.bump(length);
    if scanner.slice().contains("..") {
        return Err(Reason::Range);
    }
    match malformed(scanner.slice().as_bytes()) {
        None => Ok(()),
        Some(why) => Err(Reason::Number(why)),
    }
}

/// The error in a number, if there is one.
fn malformed(text: &[u8]) -> Option<&'static str> {
    let digits = |text: &[u8]| match text.first() {
        Some(b'0'..=b'9') => text.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'_')).count(),
        _ => 0,
    };
    match text {
        [b'0', b'x', digits @ ..] => return malformed_digits(Radix::Hexadecimal, digits),
        [b'0', b'b', digits @ ..] => return malformed_digits(Radix::Binary, digits),
        [b'0', b'X', ..] => return Some("write `0x` before hexadecimal digits"),
        [b'0', b'B', ..] => return Some("write `0b` before binary digits"),
        [b'0', b'o' | b'O', ..] => return Some("numbers are decimal, hexadecimal (`0x1f`) or binary (`0b101`)"),
        _ => {}
    }
    let mut rest = &text[digits(text)..];
    if let Some(after) = rest.strip_prefix(b".") {
        rest = &after[digits(after)..];
    }
    if let [b'e' | b'E', after @ ..] = rest {
        let after = after.strip_prefix(b"+").or(after.strip_prefix(b"-")).unwrap_or(after);
        let count = digits(after);
        if count == 0 {
            return Some("an exponent has digits: `1e-5`");
        }
        rest = &after[count..];
    }
    match rest {
        [] => None,
        [b'.', ..] => Some("a number has one decimal point, before the exponent"),
        [b'_', ..] => Some("`_` belongs between digits"),
        [b'f' | b'i' | b'u' | b'b', ..] => Some("a type goes around the number: `f32(1)`"),
        _ => Some("put an operator between a number and a name: `2 * x`"),
    }
}

/// The error in the digits after `0x` or `0b`, if there is one.
fn malformed_digits(radix: Radix, digits: &[u8]) -> Option<&'static str> {
    let own = |byte: &u8| char::from(*byte).is_digit(radix.number());
    let wrong = digits.iter().copied().find(|byte| *byte != b'_' && !own(byte));
    match (radix, digits, wrong) {
        (Radix::Hexadecimal, [], _) => Some("digits follow `0x`: `0x1f`"),
        (Radix::Binary, [], _) => Some("digits follow `0b`: `0b101`"),
        (_, _, Some(b'.')) => Some("a number with a decimal point is decimal"),
        (_, _, Some(b'i' | b'u')) => Some("a type goes around the number: `u8(0x1f)`"),
        (Radix::Hexadecimal, _, Some(_)) => Some("hexadecimal digits are 0 to 9 and a to f"),
        (Radix::Binary, _, Some(_)) => Some("binary digits are 0 and 1"),
        (_, [b'_', ..] | [.., b'_'], None) => Some("`_` belongs between digits"),
        (_, _, None) => None,
    }
}

/// How an integer is written when it is not decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Radix {
    Hexadecimal,
    Binary,
}

impl Radix {
    fn number(self) -> u32 {
        match self {
            Radix::Hexadecimal => 16,
            Radix::Binary => 2,
        }
    }
}

/// The value of a well-formed integer, an error if it does not fit into 64 bits; `None` if the
/// number has a decimal point or an exponent.
pub(crate) fn integer(written: &str) -> Option<Result<u64, ParseIntError>> {
    let (radix, digits) = match (written.strip_prefix("0x"), written.strip_prefix("0b")) {
        (Some(digits), _) => (Radix::Hexadecimal.number(), digits),
        (_, Some(digits)) => (Radix::Binary.number(), digits),
        _ => (10, written),
    };
    let digits = digits.replace('_', "");
    digits.chars().all(|digit| digit.is_digit(radix)).then(|| u64::from_str_radix(&digits, radix))
}

/// The tokens of a text, with an error wherever there is none.
pub(crate) struct Lexer<'s> {
    source: &'s str,
    scanner: SpannedIter<'s, Tok>,
    wrong_until: u32,
    /// The token before, other than line ends.
    previous: Option<Tok>,
}

impl<'s> Lexer<'s> {
    /// Starts at the beginning of `source`. The caller has checked that offsets fit into `u32`.
    pub(crate) fn new(source: &'s str) -> Lexer<'s> {
        Lexer::at(source, 0)
    }

    /// Starts at byte `start` of `source`.
    pub(crate) fn at(source: &'s str, start: usize) -> Lexer<'s> {
        let mut scanner = Tok::lexer(source);
        scanner.bump(start);
        Lexer { source, scanner: scanner.spanned(), wrong_until: u32::MAX, previous: None }
    }

    /// The next token. A run of characters that form no token is reported once.
    pub(crate) fn next(&mut self) -> Option<(Token, Option<Diagnostic>)> {
        let (result, range) = self.scanner.next()?;
        let span = Span { start: range.start as u32, end: range.end as u32 };
        let after_use = self.previous == Some(Tok::Use);
        let result = result.and_then(|tok| if tok == Tok::Text && !after_use { Err(Reason::Text) } else { Ok(tok) });
        let token = *result.as_ref().unwrap_or(&Tok::Wrong);
        if token != Tok::Newline {
            self.previous = Some(token);
        }
        Some(match result {
            Ok(tok) => (Token { tok, span }, None),
            Err(reason) => {
                let again = span.start == self.wrong_until;
                self.wrong_until = span.end;
                let found = self.source[range].chars().next().unwrap_or_default();
                let said = again || hidden::is_refused(found);
                let complaint = (!said).then(|| complaint(reason, self.source, span));
                (Token { tok: Tok::Wrong, span }, complaint)
            }
        })
    }
}

fn complaint(reason: Reason, source: &str, span: Span) -> Diagnostic {
    let (before, rest) = source.split_at(span.start as usize);
    let (text, after) = rest.split_at((span.end - span.start) as usize);
    match reason {
        Reason::Character => {
            let found = text.chars().next().unwrap_or_default();
            if let Some(hidden) = hidden::complaint(before.len(), found) {
                return hidden;
            }
            let shown = if found.is_control() { format!("U+{:04X}", found as u32) } else { quote(text) };
            let diagnostic = Diagnostic::new(codes::CHARACTER, span, format!("unexpected character {shown}"));
            match hints::CHARACTERS.iter().find(|(known, _)| *known == found) {
                Some((_, instead)) => diagnostic.help(format!("write `{instead}`")).suggest(span, *instead),
                None if found.is_alphanumeric() => {
                    diagnostic.help("names are made of the letters a to z, digits and `_`")
                }
                None => diagnostic,
            }
        }
        Reason::Number(why) => {
            Diagnostic::new(codes::NUMBER, span, format!("{} is not a number", quote(text))).help(why)
        }
        Reason::Range => {
            let at = span.start + text.find("..").unwrap_or(0) as u32;
            let help = match before.trim_end().rsplit(|c: char| !c.is_ascii_alphanumeric()).next() {
                Some("in") => hints::NO_LOOPS,
                _ => "a range is `0:n` in a slice, `i < n` for an index",
            };
            Diagnostic::new(codes::OPERATOR, Span { start: at, end: at + 2 }, "there is no `..`").help(help)
        }
        Reason::Operator => {
            // The mark of a comment is its first two characters.
            let mark = if text.starts_with("//") || text.starts_with("/*") { &text[..2] } else { text };
            let diagnostic = Diagnostic::new(codes::OPERATOR, span, format!("there is no `{mark}`"));
            let first_of_a_type = before.trim_end().ends_with([':', '>', '[']);
            match (mark, hints::look_up(hints::OPERATORS, mark)) {
                (".", _) => diagnostic.help(hints::dot(before, after)),
                ("&", _) if first_of_a_type => diagnostic.help("there are no references: an array is `x: f32[n]`"),
                ("?", _) if first_of_a_type => diagnostic.help("a size that the call decides is a name: `f32[n]`"),
                (_, Some((help, Some(instead)))) => diagnostic.help(help).suggest(span, instead),
                (_, Some((help, None))) => diagnostic.help(help),
                _ => diagnostic,
            }
        }
        Reason::Text if text.starts_with('\'') && before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == ')') => {
            Diagnostic::new(codes::OPERATOR, span, "there is no `'`").help("write `transpose(x)`")
        }
        Reason::Text if before.trim_end().ends_with("use") => {
            let path = text.trim_matches(|c: char| hints::QUOTES.contains(&c)).trim_end();
            let instead = format!("\"{path}\"");
            let diagnostic = Diagnostic::new(codes::TEXT, span, "the path of a file stands in double quotes");
            diagnostic.help(format!("write `{instead}`")).suggest(span, instead)
        }
        Reason::Text => Diagnostic::new(codes::TEXT, span, "there is no text in quotes")
            .help("values are numbers, `true`, `false` and arrays of them"),
    }
}

impl Tok {
    /// The token as it is written, where it is always written in the same way.
    #[rustfmt::skip]
    pub(crate) fn text(self) -> Option<&'static str> {
        Some(match self {
            Tok::Fn => "fn", Tok::Let => "let", Tok::Rec => "rec", Tok::If => "if", Tok::Then => "then", Tok::Else => "else", Tok::Where => "where",
            Tok::Loop => "loop", Tok::While => "while", Tok::Use => "use",
            Tok::Dtype(dtype) => dtype.name(),
            Tok::Hole => "_",
            Tok::OpenRound => "(", Tok::CloseRound => ")",
            Tok::OpenSquare => "[", Tok::CloseSquare => "]",
            Tok::OpenBrace => "{", Tok::CloseBrace => "}",
            Tok::Comma => ",", Tok::Colon => ":", Tok::Arrow => "->", Tok::Equals => "=", Tok::Semicolon => ";",
            Tok::OrOr => "||", Tok::AndAnd => "&&", Tok::Bang => "!",
            Tok::Eq => "==", Tok::Ne => "!=", Tok::Lt => "<", Tok::Le => "<=", Tok::Gt => ">", Tok::Ge => ">=",
            Tok::Plus => "+", Tok::Minus => "-", Tok::Star => "*", Tok::Slash => "/", Tok::Percent => "%",
            Tok::At => "@", Tok::Caret => "^",
            Tok::Name | Tok::Number | Tok::Text | Tok::Newline | Tok::Wrong
            | Tok::Block | Tok::AsUse | Tok::AsHeader | Tok::AsStatement | Tok::AsResult => return None,
        })
    }

    /// Whether it is a word with a meaning in the language, other than a type.
    pub(crate) fn is_keyword(self) -> bool {
        let of_statements = matches!(self, Tok::Fn | Tok::Let | Tok::Rec | Tok::Loop | Tok::While | Tok::Use);
        of_statements || matches!(self, Tok::If | Tok::Then | Tok::Else | Tok::Where)
    }

    /// Whether it is a comparison.
    pub(crate) fn compares(self) -> bool {
        matches!(self, Tok::Eq | Tok::Ne | Tok::Lt | Tok::Le | Tok::Gt | Tok::Ge)
    }

    /// Whether it is a binary operator.
    pub(crate) fn operates(self) -> bool {
        let arithmetic = [Tok::Plus, Tok::Minus, Tok::Star, Tok::Slash, Tok::Percent, Tok::At, Tok::Caret];
        self.compares() || matches!(self, Tok::OrOr | Tok::AndAnd) || arithmetic.contains(&self)
    }

    /// The bracket that closes this one.
    pub(crate) fn closed_by(self) -> Option<Tok> {
        match self {
            Tok::OpenRound => Some(Tok::CloseRound),
            Tok::OpenSquare => Some(Tok::CloseSquare),
            Tok::OpenBrace => Some(Tok::CloseBrace),
            _ => None,
        }
    }

    /// Whether it closes a bracket.
    pub(crate) fn closes(self) -> bool {
        matches!(self, Tok::CloseRound | Tok::CloseSquare | Tok::CloseBrace)
    }
}
