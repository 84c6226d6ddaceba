//! Inlay hints: types, the ends of indices, and fusion: which lines become one kernel, and which
//! operations wait for another kernel.

use std::collections::{BTreeMap, BTreeSet};

use fuseloop::editor::HintKind;
use lsp_types::{InlayHint, InlayHintKind, InlayHintLabel, InlayHintTooltip, MarkupContent, MarkupKind};

use super::documents::{Document, Documents};
use super::facts::Facts;
use super::hover::code;

/// The hints on the functions that touch a range.
pub fn of(documents: &Documents, document: &Document, range: lsp_types::Range) -> Vec<InlayHint> {
    let wanted = document.lines.bytes(&document.text, range);
    let names = documents.names(document);
    let touched = names.functions().filter(|f| f.bytes.start <= wanted.end && wanted.start <= f.bytes.end);
    let mut hints = vec![];
    for function in touched {
        let facts = documents.facts.of(&names, &function);
        let start = function.bytes.start;
        for hint in &facts.hints {
            let kind = match hint.kind {
                HintKind::Type => Some(InlayHintKind::TYPE),
                HintKind::End => Some(InlayHintKind::PARAMETER),
            };
            hints.push(InlayHint { kind, ..inlay(document, start + hint.at, hint.text.clone()) });
        }
        hints.extend(fusion(document, start, &facts));
    }
    hints.retain(|hint| range.start <= hint.position && hint.position <= range.end);
    hints
}

fn inlay(document: &Document, at: usize, text: String) -> InlayHint {
    InlayHint {
        position: document.range(&(at..at)).start,
        label: InlayHintLabel::String(text),
        kind: None,
        text_edits: None,
        tooltip: None,
        padding_left: None,
        padding_right: None,
        data: None,
    }
}

/// The hints on fusion of a function that begins at `start`, at the ends of lines.
fn fusion(document: &Document, start: usize, facts: &Facts) -> Vec<InlayHint> {
    let line = |at: usize| document.range(&(start + at..start + at)).start.line;
    // For each line the texts, each with its explanation.
    let mut remarks: BTreeMap<u32, Vec<(String, String)>> = BTreeMap::new();
    for kernel in &facts.kernels {
        let lines: BTreeSet<u32> = kernel.operations.iter().map(|(_, place)| line(place.end)).collect();
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else { continue };
        let text = match last - first {
            0 => continue,
            1 => format!("one kernel with line {}", first + 1),
            _ => format!("one kernel with lines {} to {last}", first + 1),
        };
        let about = format!("moves {}, executes {}\n\n{}", kernel.bytes, kernel.work, code(&kernel.nest.join("\n")));
        remarks.entry(*last).or_default().push((text, about));
    }
    for wait in &facts.waits {
        let help = wait.suggestion.as_ref().map(|help| format!("\n\n{help}")).unwrap_or_default();
        let remark = (format!("waits for {}: {}", wait.on, wait.bytes), format!("{}{help}", wait.why));
        let there = remarks.entry(line(wait.at.end)).or_default();
        if !there.contains(&remark) {
            there.push(remark);
        }
    }
    let hint = |(line, remarks): (u32, Vec<(String, String)>)| {
        let end = document.end_of_line(line);
        remarks.into_iter().map(move |(text, about)| InlayHint {
            padding_left: Some(true),
            tooltip: Some(InlayHintTooltip::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value: about })),
            ..inlay(document, end, text)
        })
    };
    remarks.into_iter().flat_map(hint).collect()
}
