//! Errors drawn over the source, as rustc draws them. The errors themselves are data and know nothing of this.
//!
//! What comes from outside (source text, file names, messages that quote them) may hold anything: spans are clamped
//! to the text, and terminal escapes and bidirectional controls are shown, never sent.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};
use grammar::ast::Span;
use grammar::{Code, Diagnostic};
use ir::Origin;

/// A source text and the name that errors give it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Such as the path it was read from.
    pub name: String,
    /// The text.
    pub text: String,
    /// What of the text comes from elsewhere, in order. None of a text that is in one piece.
    pub parts: Vec<Part>,
}

/// A part of a text that comes from elsewhere: it goes on up to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The byte at which it begins.
    pub start: usize,
    /// The name that errors give it.
    pub name: String,
    /// The number of its first line there, from 1.
    pub line: usize,
}

impl From<String> for Source {
    fn from(text: String) -> Source {
        Source::new("<source>", text)
    }
}

impl From<&String> for Source {
    fn from(text: &String) -> Source {
        Source::new("<source>", text.as_str())
    }
}

impl From<&str> for Source {
    fn from(text: &str) -> Source {
        Source::new("<source>", text)
    }
}

impl Source {
    /// A text in one piece.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { name: name.into(), text: text.into(), parts: vec![] }
    }

    /// The part that a byte is in: its bytes, its name, and the number of its first line.
    fn part(&self, at: usize) -> (Range<usize>, &str, usize) {
        let number = self.parts.partition_point(|part| part.start <= at);
        let end = self.parts.get(number).map_or(self.text.len(), |next| next.start);
        match number.checked_sub(1).map(|before| &self.parts[before]) {
            Some(part) => (part.start..end, &part.name, part.line),
            None => (0..end, &self.name, 1),
        }
    }

    /// The lines in which places of the text begin, each once, as comments show them.
    pub(crate) fn lines_of(&self, origins: &[Origin]) -> Vec<String> {
        let begin = |at: usize| self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let places = origins.iter().filter(|origin| origin.end > 0);
        let starts = places.filter_map(|origin| usize::try_from(origin.start).ok());
        let lines: BTreeSet<usize> = starts.filter(|start| self.text.is_char_boundary(*start)).map(begin).collect();
        let shown = |begin: usize| {
            let (part, name, first) = self.part(begin);
            let line = first + self.text[part.start..begin].bytes().filter(|byte| *byte == b'\n').count();
            let text = self.text[begin..].lines().next().unwrap_or_default();
            one_line(&format!("{name}:{line}: {}", text.trim()))
        };
        lines.into_iter().map(shown).collect()
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

/// An error with all that is said of it, ready to be drawn or written as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Which kind of error, if it has a code.
    pub code: Option<Code>,
    /// What is wrong.
    pub message: String,
    /// Bytes of the source, each with its part in the error; the first is the place itself.
    pub labels: Vec<(Range<usize>, String)>,
    /// What else helps to understand it.
    pub notes: Vec<String>,
    /// What to do about it.
    pub help: Option<String>,
    /// The edits that do it, together: bytes of the source, and what to put there.
    pub suggestion: Vec<(Range<usize>, String)>,
}

impl Report {
    /// A sentence alone.
    pub fn new(code: Code, message: impl Into<String>) -> Report {
        Report { code: Some(code), message: message.into(), ..Report::default() }
    }
}

fn bytes(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}

impl From<&Diagnostic> for Report {
    fn from(d: &Diagnostic) -> Report {
        Report {
            code: Some(d.code),
            message: d.message.clone(),
            labels: d.labels.iter().map(|l| (bytes(l.span), l.text.clone())).collect(),
            notes: d.notes.clone(),
            help: d.help.clone(),
            suggestion: d.suggestion.iter().map(|s| (bytes(s.span), s.replacement.clone())).collect(),
        }
    }
}

/// The report over its source, without a newline at the end.
pub fn draw(source: &Source, report: &Report, style: Style) -> String {
    draw_as(Level::ERROR, source, report, style)
}

/// The same of what is no error.
pub fn draw_note(source: &Source, report: &Report, style: Style) -> String {
    draw_as(Level::NOTE, source, report, style)
}

fn draw_as(level: Level<'_>, source: &Source, report: &Report, style: Style) -> String {
    let text = printable(&source.text);
    let mut title = level.primary_title(visible(&report.message));
    if let Some(code) = &report.code {
        title = title.id(code.to_string());
    }
    let mut group = Group::with_title(title);
    // The parts that labels are in, in their order.
    let mut parts: Vec<(Range<usize>, &str, usize)> = vec![];
    let labels = report.labels.iter().map(|(span, label)| (clamp(&text, span), label));
    let labels: Vec<_> = labels.map(|(span, label)| (source.part(span.start), span, label)).collect();
    for (part, ..) in &labels {
        if !parts.contains(part) {
            parts.push(part.clone());
        }
    }
    for part in parts {
        let within = labels.iter().enumerate().filter(|(_, (of, ..))| *of == part);
        let annotations = within.map(|(k, (_, span, label))| {
            let kind = if k == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
            let annotation = kind.span(span.start - part.0.start..span.end.min(part.0.end) - part.0.start);
            if label.is_empty() { annotation } else { annotation.label(visible(label)) }
        });
        let (bytes, name, line) = part.clone();
        let snippet = Snippet::source(&text[bytes]).line_start(line).path(one_line(name));
        group = group.element(snippet.annotations(annotations));
    }
    group = group.elements(report.notes.iter().map(|note| Level::NOTE.message(visible(note))));
    let mut groups = vec![];
    let first = report.suggestion.first().map(|(span, _)| source.part(clamp(&text, span).start));
    let together = |(span, _): &(Range<usize>, String)| first == Some(source.part(clamp(&text, span).start));
    if report.suggestion.is_empty() || !report.suggestion.iter().all(|edit| is_short(&text, edit) && together(edit)) {
        groups.push(group.elements(report.help.iter().map(|help| Level::HELP.message(visible(help)))));
    } else {
        let title = report.help.as_deref().map_or_else(|| "write instead".into(), visible);
        let (part, _, line) = first.unwrap_or((0..text.len(), "", 1));
        let edits = report.suggestion.iter().map(|(span, new)| {
            let span = clamp(&text, span);
            Patch::new(span.start - part.start..span.end.min(part.end) - part.start, visible(new))
        });
        let edited = Snippet::source(&text[part.clone()]).line_start(line).patches(edits.collect::<Vec<_>>());
        groups.extend([group, Level::HELP.secondary_title(title).element(edited)]);
    }
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Colored => Renderer::styled(),
    };
    renderer.render(&groups)
}

/// Whether an edit can be shown with the lines that it changes.
fn is_short(text: &str, (span, replacement): &(Range<usize>, String)) -> bool {
    const LONGEST: usize = 500;
    let Range { start, end } = clamp(text, span);
    let first = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let last = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
    last - first + replacement.len() <= LONGEST
}

/// The span within the text, at character boundaries.
pub(crate) fn clamp(text: &str, span: &Range<usize>) -> Range<usize> {
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

/// The text with control characters written out, for messages that go to a terminal undrawn. Line ends stay.
pub fn visible(text: &str) -> String {
    let show = |c: char| if c != '\n' && unprintable(c) { written_out(c) } else { c.to_string() };
    text.chars().map(show).collect()
}

/// The same, line ends too: of names that somebody else chose.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if unprintable(c) { written_out(c) } else { c.to_string() }).collect()
}

fn written_out(c: char) -> String {
    if c.is_ascii() { c.escape_default().to_string() } else { c.escape_unicode().to_string() }
}

/// Whether a terminal takes a character for a command, or it changes how what stands around it is read.
pub(crate) fn unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The source text with a sign of the same number of bytes for each character that is not to reach a terminal: places
/// stay where they are.
fn printable(text: &str) -> Cow<'_, str> {
    let replace = |c: char| !matches!(c, '\n' | '\r' | '\t') && unprintable(c);
    if !text.contains(replace) {
        return Cow::Borrowed(text);
    }
    let sign = |c: char| match c.len_utf8() {
        _ if !replace(c) => c,
        1 => '?',
        2 => '\u{a4}',
        3 => char::REPLACEMENT_CHARACTER,
        _ => '\u{1f7d9}',
    };
    Cow::Owned(text.chars().map(sign).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(span: Range<usize>) -> Report {
        Report { labels: vec![(span, "here".to_owned())], ..Report::new(Code(115), "wrong") }
    }

    #[test]
    fn draws_over_the_source() {
        let source = Source::new("a.fl", "fn f(x: f32[n]) = y\n");
        let mut report = report(18..19);
        report.notes.push("a note".to_owned());
        report.help = Some("a hint".to_owned());
        let drawn = draw(&source, &report, Style::Plain);
        assert!(drawn.starts_with("error[E0115]: wrong\n --> a.fl:1:19\n"), "{drawn}");
        for part in ["^ here", "note: a note", "help: a hint"] {
            assert!(drawn.contains(part), "{drawn}");
        }
        assert!(!drawn.contains('\x1b'));
        assert!(draw(&source, &report, Style::Colored).contains('\x1b'));
        report.suggestion = vec![(18..19, "x".to_owned())];
        let drawn = draw(&source, &report, Style::Plain);
        assert!(drawn.contains("help: a hint\n") && drawn.contains("+ fn f(x: f32[n]) = x"), "{drawn}");
    }

    #[test]
    fn survives_any_span_and_text() {
        let hostile = "x\x1b[2J\u{9b}31m\x07\x7f\u{202e}y\u{200b}\u{2067}\u{e0041}\u{61c}";
        for text in ["", "\n", "é\u{1F600}", "a\r\nb", hostile, &"long ".repeat(100_000)] {
            let source = Source::new(format!("{hostile}\n"), text);
            for start in [0, 1, 2, 5, text.len(), text.len() + 1, usize::MAX] {
                for end in [0, 1, 3, text.len(), text.len() + 9, usize::MAX] {
                    let mut report = report(start..end);
                    report.message = hostile.to_owned();
                    report.labels[0].1 = hostile.to_owned();
                    for suggestion in [vec![], vec![(start..end, hostile.to_owned())]] {
                        report.suggestion = suggestion;
                        let drawn = draw(&source, &report, Style::Plain);
                        assert!(!drawn.contains(|c| c != '\n' && unprintable(c)), "{drawn:?}");
                        assert!(drawn.len() < 4000);
                    }
                }
            }
        }
    }

    #[test]
    fn writes_out_what_is_not_to_be_sent() {
        assert_eq!(visible("a\nb\x1b[0m\u{202e}é"), "a\nb\\u{1b}[0m\\u{202e}é");
        assert_eq!(one_line("a\nb\r"), "a\\nb\\r");
    }
}
