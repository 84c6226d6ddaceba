//! Turns lines into text and aligns the comments at the ends of adjacent lines.
//!
//! The comments share a column that the author used for one of them, if that comment stands apart
//! from its code and all the code ends before the column; so comments that the author set far to
//! the right stay aligned. Otherwise they stand two spaces behind the longest code, unless a
//! comment would then exceed the page width. If neither is possible, each comment stands two spaces
//! behind its own code.

use super::WIDTH;
use super::print::Line;
use super::tokens::Text;

/// Spaces between code and comment, at least.
const APART: usize = 2;

/// The text of a program.
pub(super) fn write(text: &Text<'_>, lines: &[Line]) -> String {
    let mut out = String::with_capacity(text.source.len() * 5 / 4);
    let mut rest = lines;
    while let Some(first) = rest.first() {
        let lines = if first.at_end { 1 + adjacent(rest) } else { 1 };
        let (run, after) = rest.split_at(lines);
        rest = after;
        let column = column(text, run);
        let mut previous = 0;
        for line in run {
            if line.blank {
                out.push('\n');
            }
            pad(&mut out, if line.code.is_empty() && line.at_end { 0 } else { line.indent });
            out.push_str(&line.code);
            if let Some(comment) = line.comment {
                if line.at_end {
                    let width = width(line);
                    // A comment below another one that has no shared column goes under that one.
                    let own = if width > 0 { width + APART } else { previous };
                    previous = column.unwrap_or(own);
                    pad(&mut out, previous - width);
                }
                out.push_str(text.text(text.comments[comment].span));
            }
            out.push('\n');
        }
    }
    out
}

/// The number of lines after the first that have comments aligned with its comment. A comment that
/// continues below its line ends them.
fn adjacent(lines: &[Line]) -> usize {
    let pairs = lines.iter().zip(lines.iter().skip(1));
    pairs.take_while(|(a, b)| b.at_end && !b.blank && (!a.code.is_empty() || b.code.is_empty())).count()
}

/// The shared column of the comments at the ends of adjacent lines, if there is one.
fn column(text: &Text<'_>, run: &[Line]) -> Option<usize> {
    let comments = || run.iter().filter_map(|line| Some((line, &text.comments[line.comment?])));
    let least = run.iter().map(width).max()? + APART;
    let authors = comments().filter_map(|(_, comment)| comment.column).filter(|column| *column > least).min();
    let fits = || {
        comments().filter(|(line, _)| !line.code.is_empty()).all(|(line, comment)| {
            let length = (comment.span.end - comment.span.start) as usize;
            least + length <= WIDTH || width(line) + APART + length > WIDTH
        })
    };
    authors.or_else(|| fits().then_some(least))
}

/// Columns of a line's code.
fn width(line: &Line) -> usize {
    if line.code.is_empty() { 0 } else { line.indent + line.code.len() }
}

fn pad(out: &mut String, spaces: usize) {
    out.extend(std::iter::repeat_n(' ', spaces));
}
