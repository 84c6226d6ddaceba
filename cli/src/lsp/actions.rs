//! Quick fixes: the suggestions that errors and warnings carry.

use std::collections::HashMap;

use lsp_types::{CodeAction, CodeActionKind, CodeActionOrCommand, TextEdit, WorkspaceEdit};

use super::diagnostics;
use super::documents::{Document, Documents};

/// The fixes of the errors and warnings that touch a range.
pub fn of(documents: &Documents, document: &Document, range: lsp_types::Range) -> Vec<CodeActionOrCommand> {
    let wanted = document.lines.bytes(&document.text, range);
    let reports = documents.reports(document);
    let mut actions = vec![];
    for report in &reports.all {
        let place = diagnostics::place(document, report);
        let touches = place.start <= wanted.end && wanted.start <= place.end;
        let own = report.suggestion.iter().all(|(bytes, _)| bytes.end <= document.text.len());
        if !touches || !own || report.suggestion.is_empty() {
            continue;
        }
        let edit = |(bytes, new): &(std::ops::Range<usize>, String)| TextEdit::new(document.range(bytes), new.clone());
        let edits: Vec<TextEdit> = report.suggestion.iter().map(edit).collect();
        let title = report.help.clone().unwrap_or_else(|| format!("fix: {}", report.message));
        actions.push(CodeActionOrCommand::CodeAction(CodeAction {
            title,
            kind: Some(CodeActionKind::QUICKFIX),
            edit: Some(WorkspaceEdit::new(HashMap::from([(document.uri.clone(), edits)]))),
            is_preferred: Some(true),
            ..CodeAction::default()
        }));
    }
    actions
}
