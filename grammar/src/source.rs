//! A source text with its name, and text made safe to show.
//!
//! Text from outside (source text, file names, messages that quote them) may contain anything. So
//! spans are clamped to the text, and terminal escapes and bidirectional controls are written out.

use std::collections::BTreeSet;
use std::ops::Range;

/// A source text and the name that errors use for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The name, such as the path it was read from.
    pub name: String,
    /// The text.
    pub text: String,
    /// The parts that come from elsewhere, in order. Empty for a text in one piece.
    pub parts: Vec<Part>,
}

/// A part of a text that comes from elsewhere. It extends to the next part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The byte at which it begins.
    pub start: usize,
    /// The name that errors use for it.
    pub name: String,
    /// The number of its first line within its origin, from 1.
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

    /// Adds a part on a line of its own. Its first line is `line` of a text called `name`.
    pub fn push_part(&mut self, name: impl Into<String>, line: usize, text: &str) {
        self.text.push('\n');
        self.parts.push(Part { start: self.text.len(), name: name.into(), line });
        self.text.push_str(text);
    }

    /// The part that contains a byte: its range, its name, and the number of its first line.
    pub fn part(&self, at: usize) -> (Range<usize>, &str, usize) {
        let number = self.parts.partition_point(|part| part.start <= at);
        let end = self.parts.get(number).map_or(self.text.len(), |next| next.start);
        match number.checked_sub(1).map(|before| &self.parts[before]) {
            Some(part) => (part.start..end, &part.name, part.line),
            None => (0..end, &self.name, 1),
        }
    }

    /// Where a byte is: the name that errors give its part, its line and its character there, from
    /// 1.
    pub fn place(&self, at: usize) -> (&str, usize, usize) {
        let at = clamp(&self.text, &(at..at)).start;
        let (part, name, first) = self.part(at);
        let before = &self.text[part.start..at];
        let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = first + before.bytes().filter(|byte| *byte == b'\n').count();
        (name, line, before[begin..].chars().count() + 1)
    }

    /// The lines that contain these bytes of the text, without repetition, for comments.
    pub fn lines_of(&self, bytes: impl IntoIterator<Item = usize>) -> Vec<String> {
        let begin = |at: usize| self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let inside = bytes.into_iter().filter(|at| self.text.is_char_boundary(*at));
        let lines: BTreeSet<usize> = inside.map(begin).collect();
        let shown = |begin: usize| {
            let (part, name, first) = self.part(begin);
            let line = first + self.text[part.start..begin].bytes().filter(|byte| *byte == b'\n').count();
            let text = self.text[begin..].lines().next().unwrap_or_default();
            one_line(&format!("{name}:{line}: {}", text.trim()))
        };
        lines.into_iter().map(shown).collect()
    }
}

/// The span within the text, at character boundaries.
pub fn clamp(text: &str, span: &Range<usize>) -> Range<usize> {
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

/// The text with control characters written out, for messages that go to a terminal without being
/// drawn. Line ends stay.
pub fn visible(text: &str) -> String {
    shown(text, |c| c != '\n' && unprintable(c))
}

/// The same, with line ends written out too, for names from outside.
pub fn one_line(text: &str) -> String {
    shown(text, unprintable)
}

/// The text with some of its characters written out.
fn shown(text: &str, is_written_out: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_written_out(c) { shown.push_str(&written_out(c)) } else { shown.push(c) }
    }
    shown
}

fn written_out(c: char) -> String {
    if c.is_ascii() { c.escape_default().to_string() } else { c.escape_unicode().to_string() }
}

/// Whether a terminal may interpret a character as a command, or the character changes how the text
/// around it is displayed.
pub fn unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
