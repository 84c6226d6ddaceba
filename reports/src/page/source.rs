//! The source with its operations shaded by the kernel that computes them.

use std::ops::Range;

use grammar::Source;
use grammar::source::{one_line, visible};
use maud::{Markup, html};

use super::colour;

/// A span of the text that is an operation of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shade<'r> {
    /// The first of its bytes.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
    /// The kernel, from 0; the first one, if several compute it.
    pub kernel: usize,
    /// A description, shown on hovering.
    pub title: &'r str,
}

/// The parts of a source that are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// All, the program itself first.
    All,
    /// Only the files and libraries that the program uses.
    Used,
}

/// The text, line by line, and those parts from elsewhere that have operations.
pub(super) fn write(source: &Source, shown: Shown, shades: &[Shade<'_>]) -> Markup {
    let own = source.part(0);
    let used = source.parts.iter().map(|part| source.part(part.start));
    let shaded = |range: &Range<usize>| shades.iter().any(|shade| range.contains(&shade.start));
    let used: Vec<_> = used.filter(|(range, ..)| shaded(range)).collect();
    html! {
        @if shown == Shown::All || !used.is_empty() {
            h2 { "Source" }
            p.faint { "Each operation has the colour of the kernel that computes it." }
        }
        @if shown == Shown::All { (lines(&source.text, own.0, own.2, shades)) }
        @for (range, name, first) in used {
            p.faint { (one_line(name)) }
            (lines(&source.text, range, first, shades))
        }
    }
}

/// The lines of a part of the text; the first has that number. Of nested spans, the inner one shows.
fn lines(text: &str, part: Range<usize>, first: usize, shades: &[Shade<'_>]) -> Markup {
    let mut cuts: Vec<usize> = shades.iter().flat_map(|shade| [shade.start, shade.end]).collect();
    cuts.retain(|at| text.is_char_boundary(*at));
    cuts.sort_unstable();
    cuts.dedup();
    let innermost = |at: usize| {
        let around = shades.iter().filter(|shade| (shade.start..shade.end).contains(&at));
        around.min_by_key(|shade| shade.end - shade.start)
    };
    let mut begin = part.start;
    let lines = text[part].split_inclusive('\n').map(|line| {
        let range = begin..begin + line.len();
        begin = range.end;
        let inside = cuts.iter().copied().filter(|at| range.contains(at) && *at > range.start);
        let mut ends: Vec<usize> = inside.collect();
        ends.push(range.end);
        let mut at = range.start;
        let pieces = ends.into_iter().map(move |end| {
            let start = std::mem::replace(&mut at, end);
            (start, end)
        });
        pieces.collect::<Vec<_>>()
    });
    html! {
        pre.source {
            @for (number, pieces) in lines.enumerate() {
                span.number { (number + first) }
                @for (start, end) in pieces {
                    @let piece = visible(text[start..end].trim_end_matches('\n'));
                    @match innermost(start) {
                        Some(shade) if !piece.is_empty() => {
                            mark class=(colour(shade.kernel)) title={ "kernel " (shade.kernel + 1) ": " (visible(&shade.title.replace('`', ""))) } { (piece) }
                        }
                        _ => (piece),
                    }
                }
                "\n"
            }
        }
    }
}
