//! The tokens of IR text.

/// Generated from `token.logos`.
#[expect(clippy::all, unused, unused_qualifications, reason = "generated")]
mod generated {
    include!("token.generated");
}

pub use generated::Token;

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
