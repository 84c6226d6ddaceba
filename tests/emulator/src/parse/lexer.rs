//! Text to tokens, each with its line. PTX is split at dots: `ld.global.f32` is a word and two
//! modifiers.

use logos::Logos;

use crate::parse::ParseError;

/// A kind of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Logos)]
#[logos(skip(r"[ \t\r\n\x0c]+"))]
#[logos(skip(r"//[^\n]*", allow_greedy = true))]
#[logos(skip(r"/\*[^*]*\*+([^/*][^*]*\*+)*/"))]
#[rustfmt::skip]
pub(crate) enum Kind {
    #[regex(r"[%$_A-Za-z][A-Za-z0-9_$]*")] Word,
    #[regex(r"\.[A-Za-z0-9_]+(::[A-Za-z0-9_]+)*")] Dot,
    #[regex(r"[0-9]+U?|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?")] Integer,
    #[regex(r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?")] Float,
    #[regex(r#""[^"\n]*""#)] Text,
    #[token(",")] Comma,
    #[token(":")] Colon,
    #[token(";")] Semicolon,
    #[token("{")] OpenBrace,
    #[token("}")] CloseBrace,
    #[token("[")] OpenSquare,
    #[token("]")] CloseSquare,
    #[token("(")] OpenRound,
    #[token(")")] CloseRound,
    #[token("<")] Less,
    #[token(">")] Greater,
    #[token("=")] Equals,
    #[token("@")] At,
    #[token("!")] Bang,
    #[token("+")] Plus,
    #[token("-")] Minus,
    #[token("|")] Bar,
    End,
}

/// A token, as it stands in the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'t> {
    pub(crate) kind: Kind,
    pub(crate) text: &'t str,
    pub(crate) line: u32,
}

/// All tokens of a text, followed by an end token.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut tokens = vec![];
    let (mut line, mut counted) = (1, 0);
    for (kind, span) in Kind::lexer(text).spanned() {
        line += text.as_bytes()[counted..span.start].iter().filter(|b| **b == b'\n').count() as u32;
        counted = span.start;
        let text = &text[span];
        let kind = kind.map_err(|()| ParseError { line, what: format!("`{text}` is no token") })?;
        tokens.push(Token { kind, text, line });
    }
    tokens.push(Token { kind: Kind::End, text: "the end of the text", line });
    Ok(tokens)
}
