//! Errors drawn over the source, as rustc draws them. The errors themselves are data and know nothing of this.
//!
//! What comes from outside (source text, file names, messages that quote them) may hold anything: spans are clamped
//! to the text, and terminal escapes and bidirectional controls are shown, never sent.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use grammar::Diagnostic;

/// A source text and the name that errors give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Such as the path it was read from.
    pub name: String,
    /// The text.
    pub text: String,
}

impl From<&str> for Source {
    fn from(text: &str) -> Source {
        Source { name: "<source>".to_owned(), text: text.to_owned() }
    }
}

/// Whether what is drawn carries colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Text alone.
    #[default]
    Plain,
    /// With ANSI colours.
    Colored,
}

/// Something to draw: a sentence, the places it is about, and what else helps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub id: Option<String>,
    pub message: String,
    /// The first is the place itself.
    pub labels: Vec<(Range<usize>, String)>,
    pub notes: Vec<String>,
    pub help: Option<String>,
}

impl Report {
    pub fn new(message: impl Into<String>) -> Report {
        Report { message: message.into(), ..Report::default() }
    }
}

impl From<&Diagnostic> for Report {
    fn from(d: &Diagnostic) -> Report {
        let labels = d.labels.iter().map(|l| (l.span.start as usize..l.span.end as usize, l.text.clone()));
        Report {
            id: Some(d.code.to_string()),
            message: d.message.clone(),
            labels: labels.collect(),
            notes: d.notes.clone(),
            help: d.help.clone(),
        }
    }
}

/// The report over its source, without a newline at the end.
pub(crate) fn draw(source: &Source, report: &Report, style: Style) -> String {
    let mut title = Level::ERROR.primary_title(visible(&report.message));
    if let Some(id) = &report.id {
        title = title.id(id);
    }
    let mut group = Group::with_title(title);
    if !report.labels.is_empty() {
        let annotations = report.labels.iter().enumerate().map(|(k, (span, text))| {
            let kind = if k == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
            let annotation = kind.span(clamp(&source.text, span));
            if text.is_empty() { annotation } else { annotation.label(visible(text)) }
        });
        group = group.element(Snippet::source(&source.text).path(visible(&source.name)).annotations(annotations));
    }
    group = group.elements(report.notes.iter().map(|note| Level::NOTE.message(visible(note))));
    group = group.elements(report.help.iter().map(|help| Level::HELP.message(visible(help))));
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Colored => Renderer::styled(),
    };
    renderer.render(&[group])
}

/// The span within the text, at character boundaries.
fn clamp(text: &str, span: &Range<usize>) -> Range<usize> {
    let boundary = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = boundary(span.start);
    start..boundary(span.end).max(start)
}

/// The text with control characters written out, for messages that go to a terminal undrawn.
pub fn visible(text: &str) -> String {
    let show = |c: char| match c {
        '\n' => "\n".to_owned(),
        // Bidirectional controls and their kin change how what follows is read.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
            c.escape_unicode().to_string()
        }
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(span: Range<usize>) -> Report {
        Report { labels: vec![(span, "here".to_owned())], ..Report::new("wrong") }
    }

    #[test]
    fn draws_over_the_source() {
        let source = Source { name: "a.fl".to_owned(), text: "fn f(x: f32[n]) = y\n".to_owned() };
        let mut report = report(18..19);
        report.id = Some("E0100".to_owned());
        report.notes.push("a note".to_owned());
        report.help = Some("a hint".to_owned());
        let drawn = draw(&source, &report, Style::Plain);
        assert!(drawn.starts_with("error[E0100]: wrong\n --> a.fl:1:19\n"), "{drawn}");
        for part in ["^ here", "note: a note", "help: a hint"] {
            assert!(drawn.contains(part), "{drawn}");
        }
        assert!(!drawn.contains('\x1b'));
        assert!(draw(&source, &report, Style::Colored).contains('\x1b'));
    }

    #[test]
    fn survives_any_span_and_text() {
        for text in ["", "\n", "é\u{1F600}", "a\r\nb", "x\x1b[2J\u{202e}y", &"long ".repeat(100_000)] {
            let source = Source { name: "n\x1b[31m\n".to_owned(), text: text.to_owned() };
            for start in [0, 1, 2, 5, text.len(), text.len() + 1, usize::MAX] {
                for end in [0, 1, 3, text.len(), text.len() + 9, usize::MAX] {
                    let drawn = draw(&source, &report(start..end), Style::Plain);
                    assert!(!drawn.contains(['\x1b', '\u{202e}']), "{drawn}");
                    assert!(drawn.len() < 2000);
                }
            }
        }
    }
}
