//! The tokens of IR text.

use logos::Logos;

/// A token. White space and `#` comments separate tokens.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n\f]+", skip(r"#[^\n]*", allow_greedy = true))]
pub enum Token<'s> {
    /// A word: a keyword, a name, or names with dots between.
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")]
    Word(&'s str),
    /// `v0`
    #[regex(r"v[0-9]+", priority = 10)]
    Value(&'s str),
    /// Digits.
    #[regex(r"[0-9]+")]
    Int(&'s str),
    /// Digits with a fraction or an exponent.
    #[regex(r"[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")]
    Float(&'s str),
    /// The bits of a scalar.
    #[regex(r"0x[0-9a-fA-F]+")]
    Bits(&'s str),
    /// Quoted text, with its quotes.
    #[regex(r#""([^"\\\n]|\\[^\n])*""#)]
    Text(&'s str),
    /// One of the marks.
    #[regex(r"==|<=|\.\.|[{}\[\](),:=<+\-*/%@]")]
    Mark(&'s str),
}

impl std::fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Word(s) | Token::Value(s) | Token::Int(s) | Token::Float(s) | Token::Bits(s) | Token::Mark(s) => {
                write!(f, "`{s}`")
            }
            Token::Text(s) => f.write_str(s),
        }
    }
}
