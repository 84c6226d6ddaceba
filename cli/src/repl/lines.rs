//! Reads entries line by line, from a pipe or a terminal without cursor movement. (`editor` handles
//! other terminals.)

use std::io::{self, BufRead, Write};

use fuseloop::session::Typed;

use crate::failure::Failure;

/// The prompt for an entry, and the one for its continuation lines.
pub const PROMPT: &str = "> ";
pub const GOES_ON: &str = ". ";

/// The next input.
pub enum Entered {
    /// Commands and text for the session, in order.
    Pieces(Vec<String>),
    /// Ctrl-C discarded the current entry.
    Interrupted,
    /// The input has ended.
    End,
}

/// An entry being read. A command is one line, other entries take as many as they need, and pasted
/// text may contain several of both.
#[derive(Default)]
pub struct Entry {
    pieces: Vec<String>,
    typed: Typed,
}

impl Entry {
    /// Adds lines, each with its newline.
    pub fn push(&mut self, text: &str) {
        for line in text.split_inclusive('\n') {
            if line.trim_start().starts_with(':') && self.typed.is_whole() {
                self.end_piece();
                self.pieces.push(line.to_owned());
            } else {
                self.typed.push(line);
            }
        }
    }

    fn end_piece(&mut self) {
        let text = std::mem::take(&mut self.typed).into_text();
        if !text.trim().is_empty() {
            self.pieces.push(text);
        }
    }

    /// Whether it contains only blank lines so far.
    pub fn is_blank(&self) -> bool {
        self.pieces.is_empty() && self.typed.text().trim().is_empty()
    }

    /// Whether it is complete.
    pub fn is_whole(&self) -> bool {
        self.typed.is_whole()
    }

    /// The number of brackets left open.
    pub fn depth(&self) -> usize {
        self.typed.depth()
    }

    /// The commands and texts entered.
    pub fn into_pieces(mut self) -> Vec<String> {
        self.end_piece();
        self.pieces
    }
}

/// Lines of standard input.
pub struct Lines {
    prompts: bool,
}

impl Lines {
    /// Prompts are printed if a person types.
    pub fn new(prompts: bool) -> Lines {
        Lines { prompts }
    }

    /// Reads the next entry, of any number of lines.
    pub fn read(&mut self, stdout: &mut impl Write) -> Result<Entered, Failure> {
        let mut entry = Entry::default();
        loop {
            if self.prompts {
                write!(stdout, "{}", if entry.is_blank() { PROMPT } else { GOES_ON })?;
                stdout.flush()?;
            }
            let mut line = vec![];
            let count = io::Read::take(io::stdin().lock(), fuseloop::MAX_SOURCE as u64 + 1)
                .read_until(b'\n', &mut line)
                .map_err(|e| Failure::Wrong(format!("<stdin>: {e}")))?;
            let line = String::from_utf8(line).map_err(|_| Failure::Wrong("<stdin>: this is not UTF-8".to_owned()))?;
            entry.push(&line);
            if count == 0 && entry.is_blank() {
                if self.prompts {
                    writeln!(stdout)?;
                }
                return Ok(Entered::End);
            }
            if !entry.is_blank() && (count == 0 || entry.is_whole()) {
                return Ok(Entered::Pieces(entry.into_pieces()));
            }
        }
    }
}
