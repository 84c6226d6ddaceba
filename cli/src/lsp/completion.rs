//! Completion: names of the function, functions of the program and of the language, keywords.

use std::collections::BTreeSet;

use fuseloop::editor::{Names, Role};
use fuseloop::reference::{self, Kind};
use lsp_types::{CompletionItem, CompletionItemKind, Documentation, Position};

use super::documents::Document;
use super::hover;

/// The words that may stand at a position; the editor picks those that fit the letters before it.
pub fn of(names: &Names, document: &Document, position: Position) -> Vec<CompletionItem> {
    let at = document.byte(position);
    let mut seen = BTreeSet::new();
    let mut items = vec![];
    let mut add = |label: &str, kind, detail: Option<String>, about: &str| {
        if !label.is_empty() && seen.insert(label.to_owned()) {
            items.push(CompletionItem {
                label: label.to_owned(),
                kind: Some(kind),
                detail,
                documentation: (!about.is_empty()).then(|| Documentation::String(about.to_owned())),
                ..CompletionItem::default()
            });
        }
    };
    let inside = names.functions().find(|function| function.bytes.start <= at && at <= function.bytes.end);
    let near = inside.iter().flat_map(|function| names.within(function));
    for one in near.filter(|one| one.role != Role::Function && (one.span.start as usize) < at) {
        add(&one.text, CompletionItemKind::VARIABLE, names.type_of(&one), hover::role(one.role));
    }
    for function in names.callable() {
        add(&function.name, CompletionItemKind::FUNCTION, Some(function.signature), &function.comment);
    }
    for entry in reference::ENTRIES {
        let kind = match entry.kind {
            Kind::Scalar | Kind::Whole | Kind::Reducer => CompletionItemKind::FUNCTION,
            Kind::Conversion => CompletionItemKind::TYPE_PARAMETER,
            Kind::Constant => CompletionItemKind::CONSTANT,
            Kind::Keyword => CompletionItemKind::KEYWORD,
        };
        add(entry.name(), kind, Some(entry.signature.to_owned()), entry.about);
    }
    items
}
