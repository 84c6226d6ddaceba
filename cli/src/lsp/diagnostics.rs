//! Errors and warnings while typing.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::SyncSender;

use fuseloop::Source;
use fuseloop::render::{Report, Severity};
use lsp_types::{Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Uri};

use super::documents::{Copied, Document, Documents};
use super::positions::Lines;
use super::server::caught;
use super::transport::Message;
use super::{threads, uris};

/// The errors of a program, or its warnings.
#[derive(Debug)]
pub struct Reports {
    /// The source that their places are in.
    pub source: Source,
    /// Each of them.
    pub all: Vec<Report>,
}

/// The errors or warnings of a text, as the protocol writes them.
pub fn of(documents: &Documents, document: &Document) -> Vec<Diagnostic> {
    let Reports { source, all } = &*documents.reports(document);
    all.iter().map(|report| diagnostic(documents, document, source, report)).collect()
}

/// Finds the errors or warnings of one of some texts on a thread of its own, and sends what `done`
/// makes of them.
pub fn start(
    documents: Copied,
    uri: Uri,
    sender: SyncSender<Message>,
    done: impl FnOnce(Option<Reports>) -> Message + Send + 'static,
) -> io::Result<()> {
    threads::start(move || {
        let find = || {
            let documents = documents.open();
            Some(documents.find(documents.get(&uri)?))
        };
        // The server may have ended meanwhile.
        let _ = sender.send(done(caught(find).flatten()));
    })
}

/// The place of a report in its own text: its first label, or, if that is in a file which the text
/// uses, the first label that is not.
pub fn place(document: &Document, report: &Report) -> Range<usize> {
    let own = report.labels.iter().map(|(bytes, _)| bytes).find(|bytes| bytes.end <= document.text.len());
    own.cloned().unwrap_or(0..0)
}

fn diagnostic(documents: &Documents, document: &Document, source: &Source, report: &Report) -> Diagnostic {
    let place = place(document, report);
    let mut message = report.message.clone();
    if let Some((_, said)) = report.labels.first().filter(|(_, said)| !said.is_empty()) {
        message += &format!("\n{said}");
    }
    report.notes.iter().for_each(|note| message += &format!("\nnote: {note}"));
    report.help.iter().for_each(|help| message += &format!("\nhelp: {help}"));
    let related: Vec<DiagnosticRelatedInformation> = report
        .labels
        .iter()
        .filter(|(bytes, said)| *bytes != place && !said.is_empty() || bytes.end > document.text.len())
        .filter_map(|(bytes, said)| {
            let location = location(documents, document, source, bytes)?;
            let message = if said.is_empty() { report.message.clone() } else { said.clone() };
            Some(DiagnosticRelatedInformation { location, message })
        })
        .collect();
    Diagnostic {
        range: document.range(&place),
        severity: Some(match report.severity() {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
        }),
        code: report.code.map(|code| NumberOrString::String(code.to_string())),
        source: Some("fuseloop".to_owned()),
        message,
        related_information: (!related.is_empty()).then_some(related),
        ..Diagnostic::default()
    }
}

/// The place of bytes of a source, in the text itself or in a file that it uses. `None` for a
/// library, which is no file.
pub fn location(documents: &Documents, document: &Document, source: &Source, bytes: &Range<usize>) -> Option<Location> {
    if bytes.start <= document.text.len() {
        return Some(Location::new(document.uri.clone(), document.range(bytes)));
    }
    let (part, name, _) = source.part(bytes.start);
    let path = Path::new(name);
    let uri = uris::of(path)?;
    let text = source.text.get(part.clone())?;
    let within = bytes.start - part.start..bytes.end.min(part.end).saturating_sub(part.start);
    // A byte order mark is not in the source.
    let mark = documents.text_of(path).is_some_and(|text| text.starts_with('\u{feff}'));
    let mut range = Lines::new(text).range(text, &within);
    if mark {
        range.start.character += u32::from(range.start.line == 0);
        range.end.character += u32::from(range.end.line == 0);
    }
    Some(Location::new(uri, range))
}
