//! The reference table: it is complete, its examples have the values that it gives, and the
//! language reference and `:help` agree with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fuseloop::reference::{self, ENTRIES, Kind};

use super::terminal::Terminal;
use super::{hold, pipe, text};

#[test]
fn everything_has_an_entry() {
    let with_name = |entry: &&reference::Entry| !matches!(entry.kind, Kind::Conversion | Kind::Keyword);
    let there: BTreeSet<&str> = ENTRIES.iter().filter(with_name).map(reference::Entry::name).collect();
    assert_eq!(there, fuseloop::builtins().collect());
    let conversions = ENTRIES.iter().filter(|entry| entry.kind == Kind::Conversion).map(reference::Entry::name);
    let types = fuseloop::Dtype::ALL.map(fuseloop::Dtype::name);
    assert_eq!(conversions.collect::<BTreeSet<_>>(), types.into_iter().collect());
}

#[test]
fn examples_have_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let lines = |part: fn(&reference::Entry) -> &'static str| -> String {
        ENTRIES.iter().map(|entry| format!("{}\n", part(entry))).collect()
    };
    let said = pipe(folder.path(), &lines(|entry| entry.example));
    assert_eq!(text(&said.stderr), "");
    assert_eq!(text(&said.stdout), lines(|entry| entry.value));
}

/// `UPDATE_DOCS=1` rewrites the table.
#[test]
fn the_language_reference_has_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/language.md");
    let page = fs::read_to_string(&path).unwrap();
    let table = page.find("## Functions of the language").and_then(|head| Some(head + page[head..].find("\n| ")? + 1));
    let start = table.expect("the page has the table");
    let end = start + page[start..].find("\n\n").expect("it ends") + 1;
    let now = reference::table(&[Kind::Scalar, Kind::Whole]);
    hold(&path, &page, &format!("{}{now}{}", &page[..start], &page[end..]));
}

#[test]
fn names_errors_and_commands_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let shows = |entered: &str, wanted: &str| {
        let said = pipe(folder.path(), &format!("{entered}\n"));
        let said = text(&said.stdout) + &text(&said.stderr);
        assert!(said.contains(wanted), "{entered}: {said}");
    };
    for entered in [":help clamp", "help clamp", "?clamp", ":? clamp", ":h clamp"] {
        shows(entered, "clamp(x, lo, hi)  # numbers\n    `min(max(x, lo), hi)`");
        shows(entered, "> clamp(7, 0, 5)\n    5  # i64\n");
    }
    shows(":help max", "max(x, y)  # numbers\n");
    shows(":help max", "max(x)  # numbers\n");
    shows(":help if", "if c then x else y\n");
    shows(":help f64", "f64(x)  # all\n");
    shows(":help E0124", "# E0124: ");
    shows(":help save", ":save [NAME ...] FILE\n");
    shows(":help nonsense", "there is no help on `nonsense`");
    for entered in ["help", "?", ":?"] {
        shows(entered, "  :quit");
    }
    for entered in ["sum", ":type sum"] {
        shows(entered, "sum(x)  # numbers\n");
    }
    shows("f32", "f32(x)  # all\n");
    shows("fn soft(x: f32[m]) = exp(x)\nsoft", "fn soft(x: f32[m]) -> f32[m]\nfn soft(x: f32[m]) -> f32[m]\n");
    shows("let a = 1\n:ls", "a: i64\na: i64\n");
    // A name of the session takes precedence.
    shows("let help = 3\nhelp", "3  # i64\n");
    for entered in ["exit", "quit", "exit()", ":exit", "quit\n1 + 1"] {
        let said = pipe(folder.path(), &format!("{entered}\n1 + 2\n"));
        assert_eq!((said.status.code(), text(&said.stdout).as_str()), (Some(0), ""), "{entered}");
    }
    shows("fn two(x: f32[n]) = (x, sum(x))\ntwo([1.0])\n_", "there is no last value");
    shows("[1 == 1, 1 == 2]", "[ true, false]  # bool[2]\n");
}

/// Arrays and lists are wrapped to the terminal's width.
#[test]
fn in_a_narrow_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let mut t = Terminal::start_sized(folder.path(), "xterm-256color", &[], (40, 60));
    t.prompt();
    t.keys("f32(iota(30)) / 7\r");
    t.wait("the array", |t| t.lines().iter().any(|line| line.ends_with(']')));
    t.prompt();
    t.keys(":help\r");
    t.wait("the list", |t| t.lines().iter().any(|line| line.contains(":quit")));
    t.prompt();
    for line in t.log.lines() {
        let width = line.chars().count();
        assert!(width <= 60 || line.contains('\u{1b}'), "{width}: {line}");
    }
}
