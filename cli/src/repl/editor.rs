//! A line editor for terminals: syntax highlighting, completion, history, and continuation lines
//! until the entry is complete.
//!
//! Input typed or pasted ahead is never lost: rustyline keeps the bytes that it has read beyond a
//! line for the next one (its feature `buffer-redux`), and what it has not read stays in the
//! terminal's buffer.

use std::borrow::Cow;
use std::path::PathBuf;

use fuseloop::session::LAST;
use fuseloop::{Highlight, Session, Style, builtins, highlight};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::config::{BellStyle, ColorMode};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Helper};

use super::choices;
use super::commands::COMMANDS;
use super::lines::{Entered, Entry, GOES_ON, PROMPT};
use crate::arguments::{DeviceName, MathName, passes_by_name};
use crate::failure::Failure;

/// The number of entries that the history keeps.
const HISTORY: usize = 10_000;
/// The indentation of a line for each open bracket.
const INDENT: &str = "    ";

/// The colours of classes of words, as terminal escapes.
const COLOURS: [(Highlight, &str); 7] = [
    (Highlight::Keyword, "\x1b[35m"),
    (Highlight::Type, "\x1b[36m"),
    (Highlight::Number, "\x1b[33m"),
    (Highlight::Text, TEXT),
    (Highlight::Comment, "\x1b[2m"),
    (Highlight::Wrong, "\x1b[31m"),
    (Highlight::Mark, "\x1b[34m"),
];
const COMMAND: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";
const TEXT: &str = "\x1b[32m";

/// The editor.
pub struct Editor {
    inner: rustyline::Editor<Words, FileHistory>,
    /// The file of the history, or `None` if there is no place for it.
    history: Option<PathBuf>,
}

impl Editor {
    /// An editor with the history of earlier sessions, if it can be read.
    pub fn new(style: Style) -> rustyline::Result<Editor> {
        let config = Config::builder()
            .max_history_size(HISTORY)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .bell_style(BellStyle::None)
            .color_mode(if style == Style::Colored { ColorMode::Enabled } else { ColorMode::Disabled })
            .build();
        let mut inner = rustyline::Editor::with_config(config)?;
        inner.set_helper(Some(Words { names: vec![], files: FilenameCompleter::new() }));
        let history = history();
        if let Some(path) = &history {
            // There may be none yet, and a session works without one.
            let _ = inner.load_history(path);
        }
        Ok(Editor { inner, history })
    }

    /// Reads the next entry, of any number of lines. Input typed ahead of its end is left for the
    /// next call.
    pub fn read(&mut self, session: &Session) -> Result<Entered, Failure> {
        self.know(session);
        let mut entry = Entry::default();
        let mut text = String::new();
        loop {
            let prompt = if entry.is_blank() { PROMPT } else { GOES_ON };
            let indent = INDENT.repeat(entry.depth());
            let (line, ended) = match self.inner.readline_with_initial(prompt, (&indent, "")) {
                Ok(line) => (line, false),
                Err(ReadlineError::Interrupted) => {
                    self.remember(&text)?;
                    return Ok(Entered::Interrupted);
                }
                Err(ReadlineError::Eof) if entry.is_blank() => return Ok(Entered::End),
                Err(ReadlineError::Eof) => (String::new(), true),
                Err(error) => return Err(Failure::Wrong(format!("the terminal: {error}"))),
            };
            let line = indented(&line, &indent) + "\n";
            entry.push(&line);
            text.push_str(&line);
            if entry.is_blank() {
                text.clear();
            } else if ended || entry.is_whole() {
                self.remember(&text)?;
                return Ok(Entered::Pieces(entry.into_pieces()));
            }
        }
    }

    /// The width of the terminal in characters.
    pub fn width(&mut self) -> Option<usize> {
        self.inner.dimensions().map(|(columns, _)| usize::from(columns))
    }

    /// Makes the names of a session available for completion.
    fn know(&mut self, session: &Session) {
        let Some(words) = self.inner.helper_mut() else { return };
        let functions = session.functions().map(|signature| signature.name.clone());
        let values = session.values().map(|(name, _)| name.to_owned()).filter(|name| name != LAST);
        let used = session.used().map(str::to_owned);
        words.names = functions.chain(used).chain(values).chain(builtins().map(str::to_owned)).collect();
        words.names.extend(KEYWORDS.map(str::to_owned));
        words.names.sort_unstable();
        words.names.dedup();
    }

    /// Adds to the history.
    fn remember(&mut self, text: &str) -> Result<(), Failure> {
        let text = text.trim_end();
        if !text.is_empty() {
            self.inner.add_history_entry(text).map_err(|e| Failure::Wrong(format!("the history: {e}")))?;
        }
        Ok(())
    }

    /// Saves the history, if there is a place for it.
    pub fn keep_history(&mut self) {
        if let Some(path) = &self.history {
            let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            // If this fails, only the history is lost.
            let _ = folder.map(|()| self.inner.append_history(path));
        }
    }
}

/// Corrects the indentation of a line for which `indent` was offered: a line with indentation of
/// its own, such as a pasted one, keeps only that, and a closing bracket is aligned with the line
/// that opened it.
fn indented(line: &str, indent: &str) -> String {
    match line.strip_prefix(indent) {
        Some(own) if own.is_empty() || own.trim_start() != own => own.to_owned(),
        Some(closing) if closing.starts_with([')', ']', '}']) => {
            format!("{}{closing}", indent.strip_prefix(INDENT).unwrap_or_default())
        }
        _ => line.to_owned(),
    }
}

/// The file for the history, in the user's state folder.
fn history() -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = given("XDG_STATE_HOME").or_else(|| given("HOME").map(|home| home.join(".local").join("state")))?;
    folder.is_absolute().then(|| folder.join("fuseloop").join("history"))
}

/// Words that begin an entry.
const KEYWORDS: [&str; 24] = [
    "use", "fn", "let", "rec", "if", "then", "else", "where", "loop", "while", "load", "bool", "i8", "u8", "i16",
    "u16", "i32", "i64", "u32", "u64", "f16", "bf16", "f32", "f64",
];

/// The names that completion and highlighting know.
struct Words {
    /// The names that a word can be completed to, in order.
    names: Vec<String>,
    files: FilenameCompleter,
}

impl Helper for Words {}

impl Hinter for Words {
    type Hint = String;
}

impl Validator for Words {}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..at];
        let candidates = |start: usize, words: &mut dyn Iterator<Item = String>| {
            let found = words.filter(|word| word.starts_with(&line[start..at]));
            (start, found.map(|word| Pair { display: word.clone(), replacement: word }).collect())
        };
        let in_quotes = before.bytes().filter(|byte| *byte == b'"').count() % 2 == 1;
        let start = before.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
        Ok(match before.trim_start().strip_prefix(':').map(|rest| rest.split_once(char::is_whitespace)) {
            Some(None) => candidates(start, &mut COMMANDS.iter().map(|command| command.name.to_owned())),
            Some(Some(("load" | "save" | "save!", _))) => self.files.complete_path(line, at)?,
            Some(Some(("device", _))) => candidates(start, &mut choices::<DeviceName>().into_iter()),
            Some(Some(("math", _))) => candidates(start, &mut choices::<MathName>().into_iter()),
            Some(Some(("fuse", _))) => candidates(start, &mut passes_by_name().map(str::to_owned)),
            _ if in_quotes => self.files.complete_path(line, at)?,
            // Nothing is offered before anything is typed, because that would be the whole list.
            _ if start == at => (at, vec![]),
            _ => candidates(start, &mut self.names.iter().cloned()),
        })
    }
}

impl Highlighter for Words {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        let mut painted = String::with_capacity(2 * line.len());
        let mut end = 0;
        let command = line.trim_start().starts_with(':');
        if command {
            end = line
                .trim_start()
                .find(char::is_whitespace)
                .map_or(line.len(), |at| at + line.len() - line.trim_start().len());
            painted.extend([COMMAND, &line[..end], PLAIN]);
        }
        let from = end;
        for (span, class) in highlight(&line[from..]) {
            let (start, stop) = (from + span.start as usize, from + span.end as usize);
            let word = &line[start..stop];
            let colour = match COLOURS.iter().find(|(known, _)| *known == class) {
                Some((Highlight::Wrong, _)) if word.starts_with('"') || command => {
                    Some(TEXT).filter(|_| word.starts_with('"'))
                }
                found => found.map(|(_, colour)| *colour),
            };
            painted.push_str(&line[end..start]);
            match colour {
                Some(colour) => painted.extend([colour, word, PLAIN]),
                None => painted.push_str(word),
            }
            end = stop;
        }
        painted.push_str(&line[end..]);
        Cow::Owned(painted)
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}
