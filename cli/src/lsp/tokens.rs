//! Semantic tokens: the class of each word.

use fuseloop::{Highlight, highlight};
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

/// The words of a text, each relative to the one before, as the protocol writes them.
pub fn of(document: &Document) -> Vec<SemanticToken> {
    let text = document.text.as_str();
    let words = if text.len() > MAX_TEXT { vec![] } else { highlight(text) };
    let word = |at: usize| words.get(at).and_then(|(span, _)| text.get(span.start as usize..span.end as usize));
    let mut tokens = vec![];
    let mut cursor = Cursor::new(text);
    let (mut line, mut character) = (0, 0);
    for (at, (span, class)) in words.iter().enumerate() {
        let name = word(at).unwrap_or_default();
        let before = at.checked_sub(1).and_then(word);
        let called = matches!(word(at + 1), Some("("));
        let (kind, modifiers) = match class {
            Highlight::Keyword => (SemanticTokenType::KEYWORD, 0),
            Highlight::Type => (SemanticTokenType::TYPE, 0),
            Highlight::Name if before == Some("fn") => (SemanticTokenType::FUNCTION, 1),
            Highlight::Name if before == Some("@") && name == "kernels" => (SemanticTokenType::DECORATOR, 0),
            Highlight::Name => {
                let known = fuseloop::reference::find(name);
                let builtin = called && known.iter().any(|entry| entry.kind.is_called());
                match called {
                    true => (SemanticTokenType::FUNCTION, if builtin { 2 } else { 0 }),
                    false => (SemanticTokenType::VARIABLE, 0),
                }
            }
            Highlight::Number => (SemanticTokenType::NUMBER, 0),
            Highlight::Text => (SemanticTokenType::STRING, 0),
            Highlight::Mark => (SemanticTokenType::OPERATOR, 0),
            Highlight::Comment => (SemanticTokenType::COMMENT, 0),
            Highlight::Bracket | Highlight::Wrong => continue,
        };
        let (start, end) = (cursor.position(span.start as usize), cursor.position(span.end as usize));
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
