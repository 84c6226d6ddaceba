//! A terminal as its user sees it: tests send keys, and wait for what appears on the screen.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use vt100::Parser;

/// The longest that a test waits.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// `fuseloop repl` in a terminal.
pub struct Terminal {
    pty: Pty,
    child: Child,
    bytes: Receiver<Vec<u8>>,
    screen: Parser,
    /// All output so far, as it came.
    pub log: String,
    /// The complete lines of the log: where each begins, and its plain text.
    ended: Vec<(usize, String)>,
    /// The start of the incomplete last line.
    open: usize,
}

/// A line without escape sequences for the cursor and colours.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut chars = line.chars().filter(|c| *c != '\r');
    while let Some(c) = chars.next() {
        // Skip escape sequences.
        if c != '\u{1b}' {
            text.push(c);
        } else if chars.next() == Some('[') {
            chars.find(char::is_ascii_alphabetic);
        }
    }
    text
}

impl Terminal {
    /// Starts it in a folder, which is also the home folder.
    pub fn start(folder: &Path, term: &str, arguments: &[&str]) -> Terminal {
        Terminal::start_sized(folder, term, arguments, (40, 120))
    }

    /// The same, with this many rows and columns.
    pub fn start_sized(folder: &Path, term: &str, arguments: &[&str], (rows, columns): (u16, u16)) -> Terminal {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let command = Command::new(env!("CARGO_BIN_EXE_fuseloop")).arg("repl").args(arguments).current_dir(folder);
        let command = command.env_remove("XDG_STATE_HOME").env_remove("NO_COLOR").env("HOME", folder).env("TERM", term);
        let child = command.spawn(pts).unwrap();
        let mut reader = File::from(pty.as_fd().try_clone_to_owned().unwrap());
        let (sender, bytes) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of the child is an error here.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let size = |n| NonZeroU16::new(n).unwrap();
        let screen = Parser::new(size(rows), size(columns), 0);
        Terminal { pty, child, bytes, screen, log: String::new(), ended: Vec::new(), open: 0 }
    }

    /// Presses keys.
    pub fn keys(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).unwrap();
    }

    /// Writes more keys than the terminal's buffer holds, from a thread, so that output is read
    /// meanwhile.
    pub fn keys_meanwhile(&mut self, keys: &str) {
        let mut writer = File::from(self.pty.as_fd().try_clone_to_owned().unwrap());
        let keys = keys.to_owned();
        std::thread::spawn(move || writer.write_all(keys.as_bytes()));
    }

    /// Whether a line was printed after position `from` of the log, by itself or after a prompt.
    pub fn printed(&self, from: usize, line: &str) -> bool {
        let is = |seen: &str| seen.trim_start_matches("> ").trim_start_matches(". ") == line;
        // If `from` is in the middle of a line, only the part after it counts.
        let begun = self.log[from..].split_once('\n').is_some_and(|(first, _)| is(&plain(first)));
        begun || self.ended.iter().rev().take_while(|(begin, _)| *begin > from).any(|(_, seen)| is(seen))
    }

    /// The lines on the screen, up to the last one with something on it.
    pub fn lines(&self) -> Vec<String> {
        let contents = self.screen.screen().contents();
        contents.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits until a condition on the screen holds.
    #[track_caller]
    pub fn wait(&mut self, what: &str, wanted: impl Fn(&Terminal) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !wanted(self) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.bytes.recv_timeout(left) else {
                panic!("{what} never came:\n{}\n{:?}", self.lines().join("\n"), self.log);
            };
            self.screen.process(&bytes);
            self.log.push_str(&String::from_utf8_lossy(&bytes));
            while let Some((line, _)) = self.log[self.open..].split_once('\n') {
                let end = self.open + line.len() + 1;
                self.ended.push((self.open, plain(line)));
                self.open = end;
            }
        }
    }

    /// Waits until this is the last line.
    #[track_caller]
    pub fn sees(&mut self, last: &str) {
        self.wait(last, |terminal| terminal.lines().last().is_some_and(|line| line == last.trim_end()));
    }

    /// Waits until there is an empty prompt.
    #[track_caller]
    pub fn prompt(&mut self) {
        self.sees(">");
    }

    /// Types text after the contents of the last line, presses Enter and waits for the next prompt.
    #[track_caller]
    pub fn enter(&mut self, before: &str, typed: &str) {
        self.keys(typed);
        self.sees(&format!("{before}{typed}"));
        self.keys("\r");
        self.prompt();
    }

    /// Whether there is such a line. (Terminals differ in the text that they show after `^C`.)
    pub fn has(&self, line: &str) -> bool {
        self.lines().iter().any(|seen| seen.strip_prefix("^C").unwrap_or(seen) == line)
    }

    /// Asserts that there is such a line.
    #[track_caller]
    pub fn shows(&self, line: &str) {
        assert!(self.has(line), "{line}\n{}", self.lines().join("\n"));
    }

    /// The colour of the first cell that shows this text.
    pub fn colour_of(&self, text: &str) -> vt100::Color {
        let screen = self.screen.screen();
        let lines: Vec<String> = screen.rows(0, 120).collect();
        let place = lines.iter().enumerate().find_map(|(row, line)| Some((row, line.find(text)?)));
        let (row, column) = place.unwrap_or_else(|| panic!("no {text} in {lines:?}"));
        screen.cell(row as u16, column as u16).unwrap().fgcolor()
    }

    /// Waits for the process to end and returns its exit code.
    pub fn ends(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end:\n{}", self.lines().join("\n"));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
