//! The meaning of the name under the pointer: its type or signature, with the conditions that calls
//! must meet, and a sentence about it.

use fuseloop::editor::{Names, Role};
use fuseloop::{Function, Options, Program, reference};
use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind, Position};

use super::documents::Document;

/// The text to show at a position. `program` is there if the text has no errors.
pub fn of(names: &Names, program: Option<&Program>, document: &Document, position: Position) -> Option<Hover> {
    let at = document.byte(position);
    let text = match names.at(at) {
        Some(one) if one.role == Role::Function => match names.function(&one.text) {
            Some(declared) => {
                let checked = names.signature(&one.text).map(|signature| signature.to_string());
                let function = program.and_then(|program| program.function(&one.text).ok());
                let kernels = function.and_then(kernels).map(|said| format!("\n\n{said}")).unwrap_or_default();
                format!("{}\n\n{}{kernels}", code(&checked.unwrap_or(declared.signature)), declared.comment)
            }
            None => about(&one.text)?,
        },
        Some(one) => {
            let ty = names.type_of(&one).map(|ty| format!(": {ty}")).unwrap_or_default();
            format!("{}\n\n{}", code(&format!("{}{ty}", one.text)), role(one.role))
        }
        None => about(document.word(at)?)?,
    };
    let contents = MarkupContent { kind: MarkupKind::Markdown, value: text.trim_end().to_owned() };
    Some(Hover { contents: HoverContents::Markup(contents), range: None })
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Function => "a function",
        Role::Parameter => "a parameter",
        Role::Size => "a size",
        Role::Let => "a `let`",
        Role::Index => "an index",
        Role::State => "a state of a loop",
    }
}

/// The kernels of a function with the bytes that they move, where it compiles.
fn kernels(function: Function<'_>) -> Option<String> {
    let explanation = function.explain(&Options::default(), &[]).ok()?;
    let text = explanation.to_string();
    Some(text.lines().next()?.to_owned())
}

/// The entries of the reference for a word of the language.
pub fn about(word: &str) -> Option<String> {
    let entries = reference::find(word);
    let lines: Vec<String> = entries
        .iter()
        .map(|entry| {
            let example = format!("{} # {}", entry.example, entry.value);
            format!("{}\n\n{}\n\n{}", code(entry.signature), entry.about, code(&example))
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n\n"))
}

fn code(text: &str) -> String {
    format!("```fuseloop\n{text}\n```")
}
