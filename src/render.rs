//! Errors and warnings as text: drawn over the source as rustc draws them, or, without the feature
//! `reports`, a line for each.
//!
//! ```
//! use fuseloop::render::{Report, Source, Style, draw};
//!
//! let report = Report { labels: vec![(4..5, "here".to_owned())], ..Report::default() };
//! let report = Report { message: "this letter is special".to_owned(), ..report };
//! let text = draw(&Source::new("abc.txt", "abc def"), &report, Style::Plain);
//! assert!(text.contains("this letter is special") && text.contains("abc.txt:1:5"), "{text}");
//! ```

pub use grammar::source::{one_line, visible};
pub use grammar::{Part, Report, Severity, Source, Style};

#[cfg(feature = "reports")]
pub use reports::draw::{draw, draw_note};

/// The report in lines without a picture of the source, without a newline at the end.
#[cfg(not(feature = "reports"))]
pub fn draw(source: &Source, report: &Report, _: Style) -> String {
    in_lines(report.severity().word(), source, report)
}

/// The same for a report that is not an error.
#[cfg(not(feature = "reports"))]
pub fn draw_note(source: &Source, report: &Report, _: Style) -> String {
    in_lines("note", source, report)
}

#[cfg(not(feature = "reports"))]
fn in_lines(level: &str, source: &Source, report: &Report) -> String {
    let place = report.labels.first().map(|(span, _)| source.place(span.start));
    let place = place.map(|(name, line, column)| format!("{}:{line}:{column}: ", one_line(name)));
    let code = report.code.map(|code| format!("[{code}]"));
    let head = format!("{}{level}{}: ", place.unwrap_or_default(), code.unwrap_or_default());
    let notes = report.notes.iter().map(|note| format!("note: {}", visible(note)));
    let help = report.help.iter().map(|help| format!("help: {}", visible(help)));
    let lines: Vec<String> = std::iter::once(head + &visible(&report.message)).chain(notes).chain(help).collect();
    lines.join("\n")
}

#[cfg(all(test, not(feature = "reports")))]
mod tests {
    use super::*;

    #[test]
    fn errors_take_a_line_each_where_nothing_draws_them() {
        let error = crate::Program::parse("fn f(x: f32[n]) =\n  y").unwrap_err();
        assert_eq!(error.to_string().lines().next(), Some("<source>:2:3: error[E0101]: there is no `y` here"));
        assert_eq!(error.render(Style::Colored), error.render(Style::Plain));
    }
}
