//! Reports as self-contained HTML pages, which need no network and support light and dark mode.
//!
//! ```text
//! explain    the report on fusion: source shaded by kernel, loops, graph, decisions, blocks
//! bench      the measured gain from fusion
//! source     the text with the spans of operations
//! graph      operations, or kernels, and the flows between them, laid out in layers
//! roofline   the attainable performance by operations per byte, with kernels as points
//! ```
//!
//! `maud` escapes text from outside, and a policy in the page forbids it to load or run anything.

mod bench;
mod explain;
mod graph;
mod roofline;
mod source;

use grammar::source::visible;
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use bench::write as bench;
pub use explain::{shades, write as explain, write_part as explain_part};
pub use source::Shade;

/// The colours of kernels, which repeat.
const COLOURS: usize = 8;

/// The class that gives the parts of a kernel its colour.
fn colour(kernel: usize) -> String {
    format!("k{}", kernel % COLOURS)
}

/// A page.
fn page(title: &str, body: &Markup) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (visible(title)) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body { main { (body) } }
        }
    }
    .into_string()
}

/// Text with the parts between backquotes as code.
fn marked(text: &str) -> Markup {
    let text = visible(text);
    html! {
        @for (k, part) in text.split('`').enumerate() {
            @if k % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A figure with its name, and its former value.
fn figure(name: &str, now: &str, before: &str) -> Markup {
    html! {
        div.figure { div.name { (name) } div.now { (visible(now)) } div.before { (visible(before)) } }
    }
}
