//! What is entered, from a pipe or from a terminal that has only lines.

use std::io::{self, BufRead, Write};

use fuseloop::session::is_unfinished;

use crate::failure::Failure;

/// Before what is entered, and before each line that goes on with it.
pub const PROMPT: &str = "> ";
const GOES_ON: &str = ". ";

/// What came.
pub enum Entered {
    /// All of something: a command, or text for the session.
    Text(String),
    /// What was begun is not wanted.
    Interrupted,
    /// There is no more.
    End,
}

/// Lines of standard input.
pub struct Lines {
    prompts: bool,
    /// Bytes read so far.
    read: usize,
}

impl Lines {
    /// With prompts for a person.
    pub fn new(prompts: bool) -> Lines {
        Lines { prompts, read: 0 }
    }

    /// The next thing that is entered, of as many lines as it takes.
    pub fn read(&mut self, stdout: &mut impl Write) -> Result<Entered, Failure> {
        let mut text = String::new();
        loop {
            if self.prompts {
                write!(stdout, "{}", if text.is_empty() { PROMPT } else { GOES_ON })?;
                stdout.flush()?;
            }
            let mut line = vec![];
            let count = io::Read::take(io::stdin().lock(), fuseloop::MAX_SOURCE as u64 + 1)
                .read_until(b'\n', &mut line)
                .map_err(|e| Failure::Wrong(format!("<stdin>: {e}")))?;
            self.read += count;
            let ended = count == 0;
            let line = String::from_utf8(line).map_err(|_| Failure::Wrong("<stdin>: this is not UTF-8".to_owned()))?;
            text.push_str(&line);
            if ended && text.trim().is_empty() {
                if self.prompts {
                    writeln!(stdout)?;
                }
                return Ok(Entered::End);
            }
            if text.trim().is_empty() {
                text.clear();
            } else if ended || is_whole(&text) {
                return Ok(Entered::Text(text));
            }
        }
    }
}

/// Whether nothing is missing at the end of it. A command is a line.
pub fn is_whole(text: &str) -> bool {
    text.trim_start().starts_with(':') || text.len() > fuseloop::MAX_SOURCE || !is_unfinished(text)
}
