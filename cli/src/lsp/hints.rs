//! Inlay hints: types, the ends of indices, and fusion: which lines become one kernel, and which
//! operations wait for another kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fuseloop::Explanation;
use fuseloop::editor::{Declared, HintKind};
use lsp_types::{InlayHint, InlayHintKind, InlayHintLabel, InlayHintTooltip, MarkupContent, MarkupKind};

use super::documents::{Document, Documents};
use super::hover::code;

/// The hints on the functions that touch a range.
pub fn of(documents: &Documents, document: &Document, range: lsp_types::Range) -> Vec<InlayHint> {
    let wanted = document.lines.bytes(&document.text, range);
    let names = documents.names(document);
    let touched = names.functions().filter(|f| f.bytes.start <= wanted.end && wanted.start <= f.bytes.end);
    let mut hints = vec![];
    for function in touched {
        for hint in names.hints(&function.name) {
            let kind = match hint.kind {
                HintKind::Type => Some(InlayHintKind::TYPE),
                HintKind::End => Some(InlayHintKind::PARAMETER),
            };
            hints.push(InlayHint { kind, ..inlay(document, hint.at, hint.text) });
        }
        if let Some(explanation) = documents.explanation(document, &function.name) {
            hints.extend(fusion(document, &function, &explanation));
        }
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

/// The hints on fusion, at the ends of lines.
fn fusion(document: &Document, function: &Declared, explanation: &Explanation) -> Vec<InlayHint> {
    let line = |at: usize| document.range(&(at..at)).start.line;
    let own = |place: &Range<usize>| function.bytes.start <= place.start && place.end <= function.bytes.end;
    // For each line the texts, each with its explanation.
    let mut remarks: BTreeMap<u32, Vec<(String, String)>> = BTreeMap::new();
    for kernel in explanation.kernels() {
        let places = kernel.operations.iter().map(|(_, place)| place).filter(|place| own(place));
        let lines: BTreeSet<u32> = places.map(|place| line(place.end)).collect();
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else { continue };
        let text = match last - first {
            0 => continue,
            1 => format!("one kernel with line {}", first + 1),
            _ => format!("one kernel with lines {} to {last}", first + 1),
        };
        let about = format!("moves {}, executes {}\n\n{}", kernel.bytes, kernel.work, code(&kernel.nest.join("\n")));
        remarks.entry(*last).or_default().push((text, about));
    }
    for wait in explanation.waits().into_iter().filter(|wait| own(&wait.at)) {
        let help = wait.suggestion.map(|help| format!("\n\n{help}")).unwrap_or_default();
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
