//! Semantic tokens: the class of each word.

use fuseloop::editor::{Class, words};
use lsp_types::{SemanticToken, SemanticTokenModifier, SemanticTokenType, SemanticTokensLegend};

use super::documents::Document;
use super::positions::Cursor;

/// The limit on the bytes of a text with semantic tokens: each takes more memory than it has bytes.
const MAX_TEXT: usize = 2 << 20;

/// The classes, in the order of their numbers.
const TYPES: [SemanticTokenType; 9] = [
    SemanticTokenType::KEYWORD,
    SemanticTokenType::TYPE,
    SemanticTokenType::VARIABLE,
    SemanticTokenType::FUNCTION,
    SemanticTokenType::NUMBER,
    SemanticTokenType::STRING,
    SemanticTokenType::OPERATOR,
    SemanticTokenType::COMMENT,
    SemanticTokenType::DECORATOR,
];

/// Declares the classes to the editor.
pub fn legend() -> SemanticTokensLegend {
    let modifiers = vec![SemanticTokenModifier::DECLARATION, SemanticTokenModifier::DEFAULT_LIBRARY];
    SemanticTokensLegend { token_types: TYPES.to_vec(), token_modifiers: modifiers }
}

/// The type of a class, and its modifiers as bits: a declaration, and a part of the language.
fn token(class: Class) -> (SemanticTokenType, u32) {
    match class {
        Class::Keyword => (SemanticTokenType::KEYWORD, 0),
        Class::Type => (SemanticTokenType::TYPE, 0),
        Class::Variable => (SemanticTokenType::VARIABLE, 0),
        Class::Definition => (SemanticTokenType::FUNCTION, 1),
        Class::Function => (SemanticTokenType::FUNCTION, 0),
        Class::Builtin => (SemanticTokenType::FUNCTION, 2),
        Class::Decorator => (SemanticTokenType::DECORATOR, 0),
        Class::Number => (SemanticTokenType::NUMBER, 0),
        Class::Text => (SemanticTokenType::STRING, 0),
        Class::Operator => (SemanticTokenType::OPERATOR, 0),
        Class::Comment => (SemanticTokenType::COMMENT, 0),
    }
}

/// The words of a text, each relative to the one before, as the protocol writes them.
pub fn of(document: &Document) -> Vec<SemanticToken> {
    let text = document.text.as_str();
    let words = if text.len() > MAX_TEXT { vec![] } else { words(text) };
    let mut tokens = vec![];
    let mut cursor = Cursor::new(text);
    let (mut line, mut character) = (0, 0);
    for (place, class) in words {
        let (kind, modifiers) = token(class);
        let (start, end) = (cursor.position(place.start), cursor.position(place.end));
        let Some(number) = TYPES.iter().position(|one| *one == kind).filter(|_| start.line == end.line) else {
            continue;
        };
        tokens.push(SemanticToken {
            delta_line: start.line - line,
            delta_start: if start.line == line { start.character - character } else { start.character },
            length: end.character - start.character,
            token_type: number as u32,
            token_modifiers_bitset: modifiers,
        });
        (line, character) = (start.line, start.character);
    }
    tokens
}
