//! Operands as they are written. The instruction decides what a name means and whether it fits.

use crate::parse::ParseError;
use crate::parse::cursor::Cursor;
use crate::parse::lexer::Kind;

/// An operand of an instruction.
#[derive(Clone, Debug)]
pub(crate) enum Operand<'t> {
    /// A register, a variable or a label.
    Name(&'t str),
    /// `%tid.x`: a part of a special register.
    Part(&'t str, &'t str),
    /// `!%p`.
    Not(&'t str),
    /// `%d|%p`.
    Pair(&'t str, &'t str),
    Integer(i128),
    /// `0f3F800000`.
    Single(u32),
    /// `0d3FF0000000000000`.
    Double(u64),
    /// `1.5`.
    Decimal(f64),
    /// `{%a, %b}`.
    Vector(Vec<Operand<'t>>),
    /// `[%a+4]`.
    Address(&'t str, i64),
    /// `[%map, {%x, %y}]`.
    Box(&'t str, Vec<Operand<'t>>),
}

impl<'t> Operand<'t> {
    pub(crate) fn read(cursor: &mut Cursor<'t>) -> Result<Operand<'t>, ParseError> {
        let token = cursor.peek();
        match token.kind {
            Kind::OpenBrace => {
                cursor.next();
                let mut parts = vec![];
                while cursor.take(Kind::CloseBrace).is_none() {
                    if !parts.is_empty() {
                        cursor.expect(Kind::Comma, "`,` or `}`")?;
                    }
                    if cursor.peek().kind == Kind::OpenBrace {
                        return Err(cursor.error("a vector within a vector".into()));
                    }
                    parts.push(Operand::read(cursor)?);
                }
                Ok(Operand::Vector(parts))
            }
            Kind::OpenSquare => {
                cursor.next();
                Operand::address(cursor)
            }
            Kind::Bang => {
                cursor.next();
                Ok(Operand::Not(cursor.word()?))
            }
            Kind::Word => {
                cursor.next();
                if cursor.take(Kind::Bar).is_some() {
                    return Ok(Operand::Pair(token.text, cursor.word()?));
                }
                if cursor.peek().kind == Kind::Dot {
                    return Ok(Operand::Part(token.text, cursor.dot()?));
                }
                Ok(Operand::Name(token.text))
            }
            Kind::Float => {
                cursor.next();
                Ok(float(token.text, false))
            }
            Kind::Minus if cursor.second().kind == Kind::Float => {
                cursor.next();
                match float(cursor.next().text, true) {
                    decimal @ Operand::Decimal(_) => Ok(decimal),
                    _ => Err(cursor.error("the bits of a number take no sign".into())),
                }
            }
            Kind::Minus | Kind::Integer => Ok(Operand::Integer(cursor.integer()?)),
            _ => Err(cursor.error(format!("an operand expected, not `{}`", token.text))),
        }
    }

    /// Reads the rest of an address, after `[`.
    fn address(cursor: &mut Cursor<'t>) -> Result<Operand<'t>, ParseError> {
        let base = cursor.word()?;
        if cursor.take(Kind::Comma).is_some() {
            let Operand::Vector(parts) = Operand::read(cursor)? else {
                return Err(cursor.error("coordinates in braces expected".into()));
            };
            cursor.expect(Kind::CloseSquare, "`]`")?;
            return Ok(Operand::Box(base, parts));
        }
        // The sign of a negative offset follows the plus.
        let offset = if cursor.take(Kind::Plus).is_some() { cursor.integer()? } else { 0 };
        cursor.expect(Kind::CloseSquare, "`]`")?;
        match i64::try_from(offset) {
            Ok(offset) => Ok(Operand::Address(base, offset)),
            Err(_) => Err(cursor.error(format!("{offset} is no offset"))),
        }
    }
}

/// A token of kind `Float`: the lexer has checked its digits.
fn float<'t>(text: &str, negative: bool) -> Operand<'t> {
    match text.as_bytes() {
        [_, b'f' | b'F', ..] => Operand::Single(u32::from_str_radix(&text[2..], 16).unwrap_or_default()),
        [_, b'd' | b'D', ..] => Operand::Double(u64::from_str_radix(&text[2..], 16).unwrap_or_default()),
        _ => {
            let value: f64 = text.parse().unwrap_or_default();
            Operand::Decimal(if negative { -value } else { value })
        }
    }
}
