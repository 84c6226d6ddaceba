//! The meaning of the name under the pointer: its type or signature, with the conditions that calls
//! must meet, and a sentence about it.

use std::ops::Range;
use std::rc::Rc;

use fuseloop::editor::{Names, Occurrence, Role};
use fuseloop::{Placed, reference};
use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind, Position};

use super::documents::{Document, Documents};
use super::facts::Facts;

/// The text to show at a position.
pub fn of(documents: &Documents, document: &Document, position: Position) -> Option<Hover> {
    let at = document.byte(position);
    let names = &*documents.names(document);
    let text = match names.at(at) {
        Some(one) if one.role == Role::Function => match names.function(&one.text) {
            Some(declared) => {
                let checked = names.signature(&one.text).map(|signature| signature.to_string());
                let facts = facts(documents, names, &one.text);
                let figures = facts.and_then(|facts| facts.figures.clone()).unwrap_or_default();
                let mut parts = vec![code(&checked.unwrap_or(declared.signature)), declared.comment, figures];
                parts.retain(|part| !part.is_empty());
                parts.join("\n\n")
            }
            None => about(&one.text)?,
        },
        Some(one) => {
            let ty = names.type_of(&one).map(|ty| format!(": {ty}")).unwrap_or_default();
            let computed = computed(documents, names, &one).unwrap_or_default();
            format!("{}\n\n{}{computed}", code(&format!("{}{ty}", one.text)), role(one.role))
        }
        None => about(document.word(at)?)?,
    };
    let contents = MarkupContent { kind: MarkupKind::Markdown, value: text.trim_end().to_owned() };
    Some(Hover { contents: HoverContents::Markup(contents), range: None })
}

/// A phrase about names of a kind.
pub(super) fn role(role: Role) -> &'static str {
    match role {
        Role::Function => "a function",
        Role::Parameter => "a parameter",
        Role::Size => "a size",
        Role::Let => "a `let`",
        Role::Index => "an index",
        Role::State => "a state of a loop",
    }
}

/// The facts about a function of the text.
fn facts(documents: &Documents, names: &Names, name: &str) -> Option<Rc<Facts>> {
    let function = names.functions().find(|function| function.name == name)?;
    Some(documents.facts.of(names, &function))
}

/// The kernel that computes a `let`, and the conditions on calls that come from it.
fn computed(documents: &Documents, names: &Names, one: &Occurrence) -> Option<String> {
    let (name, statement) = names.statement(one).filter(|_| one.role == Role::Let)?;
    let mut said = String::new();
    let function = names.functions().find(|function| function.name == name)?;
    if let Some(facts) = facts(documents, names, name) {
        let (kernels, start) = (&facts.kernels, function.bytes.start);
        let title = format!("`{}`", one.text);
        let within = |at: &Range<usize>| statement.start <= start + at.start && start + at.end <= statement.end;
        let computes =
            |kernel: &Placed| kernel.operations.iter().any(|(operation, at)| *operation == title && within(at));
        if let Some(number) = kernels.iter().position(computes) {
            let kernel = &kernels[number];
            let titles = kernel.operations.iter().map(|(name, _)| name.as_str()).filter(|name| *name != title);
            let others: Vec<&str> = titles.collect();
            let with = if others.is_empty() { String::new() } else { format!(" with {}", others.join(", ")) };
            said += &format!(
                "\n\ncomputed by kernel {} of {}{with}: moves {}, executes {}",
                number + 1,
                kernels.len(),
                kernel.bytes,
                kernel.work
            );
        }
    }
    for requirement in names.requirements(name, &statement) {
        said += &format!("\n\nneeds `{requirement}`");
    }
    Some(said)
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

/// A text as a block of the language.
pub fn code(text: &str) -> String {
    format!("```fuseloop\n{text}\n```")
}
