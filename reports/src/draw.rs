//! Draws errors and warnings over the source, as rustc does. The errors themselves are data and independent of
//! this module.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};
use grammar::source::{clamp, one_line, unprintable, visible};
use grammar::{Report, Severity, Source, Style};

/// The report over its source, without a newline at the end.
pub fn draw(source: &Source, report: &Report, style: Style) -> String {
    let level = match report.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    draw_as(level, source, report, style)
}

/// The same for a note.
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
    // The parts that have labels, in order.
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

/// Whether an edit is short enough to be shown with the lines that it changes.
fn is_short(text: &str, (span, replacement): &(Range<usize>, String)) -> bool {
    const LONGEST: usize = 500;
    let Range { start, end } = clamp(text, span);
    let first = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let last = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
    last - first + replacement.len() <= LONGEST
}

/// The source text with each unprintable character replaced by a printable one of the same number
/// of bytes, so that places do not move.
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
    use grammar::Code;

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
}
