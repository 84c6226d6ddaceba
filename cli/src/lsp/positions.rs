//! Positions as the protocol counts them: lines from 0, ended by `\n`, `\r\n` or `\r`, and UTF-16
//! units within the line.

use std::ops::Range;

/// The lines of a text.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The byte at which each line begins.
    starts: Vec<usize>,
}

impl Lines {
    /// Looks through a text.
    pub fn new(text: &str) -> Lines {
        let bytes = text.as_bytes();
        let ends = |at: &usize| bytes[*at] == b'\n' || bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
        let starts = (0..bytes.len()).filter(ends).map(|at| at + 1);
        Lines { starts: std::iter::once(0).chain(starts).collect() }
    }

    /// The position of a byte.
    pub fn position(&self, text: &str, at: usize) -> lsp_types::Position {
        let at = floor(text, at);
        let line = self.starts.partition_point(|start| *start <= at).saturating_sub(1);
        let units = text[self.starts[line]..at].encode_utf16().count();
        lsp_types::Position::new(line as u32, units as u32)
    }

    /// The range of these bytes.
    pub fn range(&self, text: &str, bytes: &Range<usize>) -> lsp_types::Range {
        let start = self.position(text, bytes.start);
        lsp_types::Range::new(start, self.position(text, bytes.end.max(bytes.start)))
    }

    /// The byte at a position. One beyond its line is at the end of the line; one beyond the text
    /// is at the end of the text; one between the two units of a character is before it.
    pub fn byte(&self, text: &str, position: lsp_types::Position) -> usize {
        let line = position.line as usize;
        let Some(start) = self.starts.get(line).copied() else { return text.len() };
        let end = self.starts.get(line + 1).copied().unwrap_or(text.len());
        let content = text[start..end].trim_end_matches(['\n', '\r']);
        let mut left = position.character as usize;
        for (at, c) in content.char_indices() {
            if left < c.len_utf16() {
                return start + at;
            }
            left -= c.len_utf16();
        }
        start + content.len()
    }

    /// The bytes of a range.
    pub fn bytes(&self, text: &str, range: lsp_types::Range) -> Range<usize> {
        let start = self.byte(text, range.start);
        start..self.byte(text, range.end).max(start)
    }
}

/// The start of the character that a byte belongs to, or the end of the text.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The positions of bytes in ascending order, in one pass even over a text of one long line.
pub struct Cursor<'t> {
    text: &'t str,
    at: usize,
    position: lsp_types::Position,
}

impl<'t> Cursor<'t> {
    /// Starts at the beginning of a text.
    pub fn new(text: &'t str) -> Cursor<'t> {
        Cursor { text, at: 0, position: lsp_types::Position::new(0, 0) }
    }

    /// The position of a byte that is not before the last one asked for.
    pub fn position(&mut self, at: usize) -> lsp_types::Position {
        let at = floor(self.text, at).max(self.at);
        let mut chars = self.text[self.at..at].chars().peekable();
        while let Some(c) = chars.next() {
            let ends =
                c == '\n' || c == '\r' && chars.peek().map_or(!self.text[at..].starts_with('\n'), |c| *c != '\n');
            self.position = match ends {
                true => lsp_types::Position::new(self.position.line + 1, 0),
                false => lsp_types::Position::new(self.position.line, self.position.character + c.len_utf16() as u32),
            };
        }
        self.at = at;
        self.position
    }
}
