//! Input typed or pasted ahead of the prompt is read completely and in order: on terminals with and
//! without the line editor, in one write or in several, before the first prompt and while a command
//! runs.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::mpsc;

use super::terminal::{PATIENCE, Terminal};

const TERMS: [&str; 2] = ["xterm-256color", "dumb"];

/// Five lines that each use the previous result, and the output of the last one.
fn five(round: usize) -> (String, String) {
    let lines = format!("let a = {round}000\rlet b = a + 200\rlet c = b + 30\rlet d = c + 4\rd\r");
    (lines, format!("{}  # i64", 1000 * round + 234))
}

/// Waits for a line. (The terminal may echo input typed ahead between the lines before it.)
#[track_caller]
fn prints(t: &mut Terminal, from: usize, line: &str) {
    t.wait(line, |t| t.printed(from, line));
    assert!(!t.log[from..].contains("error"), "{}", &t.log[from..]);
}

#[test]
fn five_lines_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for term in TERMS {
        // The first lines are sent before there is a prompt.
        let mut t = Terminal::start(folder.path(), term, &[]);
        for round in 1..=20 {
            let from = t.log.len();
            let (lines, last) = five(round);
            // All lines at once, or in two parts.
            let (first, second) = lines.split_at((round * 7) % lines.len());
            t.keys(if round % 2 == 0 { &lines } else { first });
            t.keys(if round % 2 == 0 { "" } else { second });
            prints(&mut t, from, &last);
        }
        // Ctrl-D has to come at a prompt, because between prompts the terminal itself handles it.
        t.prompt();
        t.keys("\u{4}");
        assert_eq!(t.ends(), Some(0));
    }
}

/// More than any buffer in between holds.
#[test]
fn three_hundred_lines_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for term in TERMS {
        let mut t = Terminal::start(folder.path(), term, &[]);
        let lines: String = (1..=300).map(|k| format!("let value_{k} = value_{} + {k}\r", k - 1)).collect();
        t.keys_meanwhile(&format!("let value_0 = 0\r{lines}value_300\r"));
        prints(&mut t, 0, "45150  # i64");
    }
}

/// Bracketed paste: the pasted text is one entry, and Enter ends it.
#[test]
fn a_bracketed_paste() {
    let folder = tempfile::tempdir().unwrap();
    let mut t = Terminal::start(folder.path(), TERMS[0], &[]);
    for round in 1..=5 {
        let from = t.log.len();
        let (lines, last) = five(round);
        t.keys(&format!("\u{1b}[200~{}\u{1b}[201~\r", lines.trim_end()));
        prints(&mut t, from, &last);
    }
    // Commands among the pasted lines are run as commands.
    let from = t.log.len();
    t.keys("\u{1b}[200~let e = 5\r:type e\rlet e = 2.5\r:type e\rfn f(x: f32[n]) {\r    x * e(x)\r}\rfn e(x: f32[n]) = 2.5\u{1b}[201~\r");
    for line in ["e: i64", "i64", "e: f32", "f32", "fn f(x: f32[n]) -> f32[n]", "fn e(x: f32[n]) -> f32"] {
        prints(&mut t, from, line);
    }
    t.prompt();
    t.keys("\u{4}");
    assert_eq!(t.ends(), Some(0));
}

/// Functions of several lines, with comments, blank lines and their own indentation, which call
/// later ones.
#[test]
fn a_program_pasted_without_brackets() {
    let program = "# First of all.\n\nfn above(x: f32[n]) -> f32[n] {\n    # A comment.\n    let y[i] = below(x[i]) +\n        \
                   1\n\n    let z = (\n        y + sum[\n            k < 3\n        ](f32(k))\n    )\n    if sum(z) > 0\n        then z\n        \
                   else x\n}\n\nfn below(x: f32) = 2 * x\nabove([1.0, 2.0])\n";
    let folder = tempfile::tempdir().unwrap();
    for term in TERMS {
        let mut t = Terminal::start(folder.path(), term, &[]);
        t.keys(&program.replace('\n', "\r"));
        prints(&mut t, 0, "[6., 8.]  # f32[2]");
        // The text is saved as it was pasted.
        t.keys(":save program.fl\r:quit\r");
        assert_eq!(t.ends(), Some(0));
        let saved = std::fs::read_to_string(folder.path().join("program.fl")).unwrap();
        let function = &program[program.find("fn above").unwrap()..program.find("\n\nfn below").unwrap()];
        assert!(saved.contains(function), "{term}:\n{saved}");
        std::fs::remove_file(folder.path().join("program.fl")).unwrap();
    }
}

#[test]
fn five_lines_while_something_runs() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("slow.fl");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for term in TERMS {
        let mut t = Terminal::start(folder.path(), term, &[]);
        t.prompt();
        for round in 1..=5 {
            let from = t.log.len();
            // Loading blocks until the FIFO has a writer.
            t.keys(":load slow.fl\r");
            let (opened, runs) = mpsc::channel();
            let writer = fifo.clone();
            std::thread::spawn(move || opened.send(OpenOptions::new().write(true).open(writer)));
            let mut writer = runs.recv_timeout(PATIENCE).expect("somebody reads").unwrap();
            let (lines, last) = five(round);
            t.keys(&lines);
            writer.write_all(b"fn slow() = 1").unwrap();
            drop(writer);
            t.wait("the function", |t| t.printed(from, "fn slow() -> i64"));
            prints(&mut t, from, &last);
        }
        let from = t.log.len();
        let (lines, last) = five(6);
        t.keys(":bench sum(iota(100))\r");
        t.keys(&lines);
        prints(&mut t, from, &last);
    }
}
