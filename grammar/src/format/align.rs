//! Lines to text, with the comments at the ends of adjacent lines in one column.
//!
//! That is a column where the author put one of them, apart from the code, if all their code ends before it, so that
//! comments far from each other stay aligned; else two spaces behind the longest code, if no comment leaves the page
//! for that; else each stands two spaces behind its own code.

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
                    // Below another without a column for all, that one's.
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

/// How many lines after the first have comments to be aligned with its. What goes on below a comment ends them.
fn adjacent(lines: &[Line]) -> usize {
    let pairs = lines.iter().zip(lines.iter().skip(1));
    pairs.take_while(|(a, b)| b.at_end && !b.blank && (!a.code.is_empty() || b.code.is_empty())).count()
}

/// The column of the comments at the ends of adjacent lines, if they have one.
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
