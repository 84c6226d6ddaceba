//! A cursor over tokens.

use crate::parse::ParseError;
use crate::parse::lexer::{Kind, Token, tokens};
use crate::types::Type;

/// Where a reader stands in the text.
pub(crate) struct Cursor<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Result<Cursor<'t>, ParseError> {
        Ok(Cursor { tokens: tokens(text)?, at: 0 })
    }

    pub(crate) fn peek(&self) -> Token<'t> {
        self.tokens[self.at]
    }

    /// The token after the next.
    pub(crate) fn second(&self) -> Token<'t> {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    pub(crate) fn line(&self) -> u32 {
        self.peek().line
    }

    pub(crate) fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        // The last token is the end, which can be read any number of times.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Consumes the next token if it is of this kind.
    pub(crate) fn take(&mut self, kind: Kind) -> Option<Token<'t>> {
        (self.peek().kind == kind).then(|| self.next())
    }

    /// Consumes `.name` if it is next, and returns whether it was.
    pub(crate) fn take_dot(&mut self, name: &str) -> bool {
        let found = self.peek().kind == Kind::Dot && &self.peek().text[1..] == name;
        if found {
            self.next();
        }
        found
    }

    pub(crate) fn expect(&mut self, kind: Kind, what: &str) -> Result<Token<'t>, ParseError> {
        self.take(kind).ok_or_else(|| self.error(format!("{what} expected, not `{}`", self.peek().text)))
    }

    pub(crate) fn word(&mut self) -> Result<&'t str, ParseError> {
        Ok(self.expect(Kind::Word, "a name")?.text)
    }

    /// `.name`, without its dot.
    pub(crate) fn dot(&mut self) -> Result<&'t str, ParseError> {
        Ok(&self.expect(Kind::Dot, "a directive")?.text[1..])
    }

    pub(crate) fn ty(&mut self) -> Result<Type, ParseError> {
        let name = self.dot()?;
        Type::named(name).ok_or_else(|| self.error(format!("`.{name}` is no type")))
    }

    /// An integer with its sign.
    pub(crate) fn integer(&mut self) -> Result<i128, ParseError> {
        let negative = self.take(Kind::Minus).is_some();
        let token = self.expect(Kind::Integer, "a number")?;
        let digits = token.text.trim_end_matches('U');
        let (digits, radix) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
            [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
            [b'0', _, ..] => (&digits[1..], 8),
            _ => (digits, 10),
        };
        // No integer of PTX is wider than 64 bits.
        match u64::from_str_radix(digits, radix) {
            Ok(value) => Ok(if negative { -i128::from(value) } else { i128::from(value) }),
            Err(_) => Err(self.error(format!("`{}` is no number", token.text))),
        }
    }

    /// A count or a size.
    pub(crate) fn count(&mut self) -> Result<u32, ParseError> {
        let value = self.integer()?;
        u32::try_from(value).map_err(|_| self.error(format!("{value} is no size")))
    }

    /// `.align N`, or `natural` without it.
    pub(crate) fn align(&mut self, natural: u32) -> Result<u32, ParseError> {
        if !self.take_dot("align") {
            return Ok(natural);
        }
        let align = self.count()?;
        if align.is_power_of_two() && align <= 1024 {
            Ok(align)
        } else {
            Err(self.error(format!("{align} is no alignment")))
        }
    }

    /// Skips the rest of the line.
    pub(crate) fn skip_line(&mut self, line: u32) {
        while self.line() == line && self.peek().kind != Kind::End {
            self.next();
        }
    }

    pub(crate) fn error(&self, what: String) -> ParseError {
        ParseError { line: self.line(), what }
    }
}
