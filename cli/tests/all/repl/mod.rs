//! The prompt: as a person types at a terminal, by transcripts, and on a pipe.
//!
//! A transcript is the text on a terminal that can show only lines: `>` stands before an entry, `.`
//! before each continuation line. `UPDATE_DOCS=1` rewrites the transcripts.

mod help;
mod save;
mod terminal;
mod typed_ahead;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use terminal::Terminal;

fn pipe(folder: &Path, text: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.arg("repl").current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn results_can_be_entered_again() {
    let folder = tempfile::tempdir().unwrap();
    for entered in [
        "iota(40) - 20",
        "[1.5, -2.0, 0.0]",
        "[1.5e-7, 2e20, inf]",
        "[[true, false], [false, true]]",
        "reshape(iota(24), 2, 3, 4)",
        "f64([0.1709528, 1.5])",
    ] {
        let said = text(&pipe(folder.path(), entered).stdout);
        let (value, ty) = match said.strip_prefix("# ") {
            Some(rest) => rest.split_once('\n').map(|(ty, value)| (value, ty)).unwrap(),
            None => said.split_once("  # ").unwrap(),
        };
        let element = ty.split('[').next().unwrap();
        let again = text(&pipe(folder.path(), &format!("{element}({})", value.trim_end())).stdout);
        assert_eq!(again, said, "{entered}");
    }
}

#[test]
fn a_reduction_too_long_for_the_memory_leaves_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let said = pipe(folder.path(), "sum[k < 9223372036854775807](k)\n1\n");
    assert_eq!((said.status.code(), text(&said.stdout).as_str()), (Some(1), "1  # i64\n"));
    assert!(text(&said.stderr).contains("E0240"), "{}", text(&said.stderr));
}

#[test]
fn on_a_pipe_there_are_results_and_errors_and_no_prompts() {
    let folder = tempfile::tempdir().unwrap();
    let said = pipe(folder.path(), "sum(iota(10))");
    assert_eq!(
        (said.status.code(), text(&said.stdout).as_str(), text(&said.stderr).as_str()),
        (Some(0), "45  # i64\n", "")
    );
    let said = pipe(folder.path(), "fn f(x: f32[n]) {\n\n  x * 2\n}\r\n\nf([1.0,\n 2.5])\ny\n1 +\n");
    let results = "fn f(x: f32[n]) -> f32[n]\n[2., 5.]  # f32[2]\n";
    assert_eq!((said.status.code(), text(&said.stdout).as_str()), (Some(1), results));
    let errors = text(&said.stderr);
    assert!(errors.contains("there is no `y` here") && errors.contains("found the end of the input"), "{errors}");
    for hostile in
        ["\0", "\u{1b}[2J", ":\n", ":help x\n", "_\n", "@\n", "fn\n", ")\n", &"(".repeat(3000), "load(\"\")\n"]
    {
        let said = pipe(folder.path(), hostile);
        let errors = text(&said.stderr);
        assert_eq!(said.status.code(), Some(1), "{hostile:?}: {errors}");
        assert!(!errors.contains("panicked") && !errors.contains('\u{1b}'), "{errors}");
    }
    assert_eq!(pipe(folder.path(), "").status.code(), Some(0));
}

/// A file that `check` accepts can be entered line by line: functions may call later ones.
#[test]
fn what_check_takes_can_be_entered() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut programs = 0;
    for place in ["examples", "tests/programs"] {
        for file in fs::read_dir(root.join(place)).unwrap() {
            let path = file.unwrap().path();
            let Some("fl") = path.extension().and_then(|ending| ending.to_str()) else { continue };
            let program = fs::read_to_string(&path).unwrap();
            let said = pipe(folder.path(), &program);
            assert_eq!(said.status.code(), Some(0), "{}:\n{}", path.display(), text(&said.stderr));
            programs += 1;
        }
    }
    assert!(programs > 50, "{programs} programs");
}

#[test]
fn functions_wait_for_what_they_call() {
    let folder = tempfile::tempdir().unwrap();
    let said = pipe(folder.path(), "fn f(x: f32[n]) = g(x)\nfn g(x: f32[n]) = 2 * x\nf([1.0])\n");
    let waits = "fn f waits: there is no function `g` yet\n  = help: a function is defined by `fn`, above or below\n";
    let results = "fn g(x: f32[n]) -> f32[n]\nfn f(x: f32[n]) -> f32[n]\n[2.]  # f32[1]\n";
    assert_eq!((said.status.code(), text(&said.stdout)), (Some(0), format!("{waits}{results}")));
    for (program, error) in [
        ("fn f(x: f32[n]) = g(x)\n", "there is no function `g`"),
        ("fn f(x: f32[n]) = g(x)\nfn g(x: i64) = x\n1\n", "--> fn f:1:21"),
    ] {
        let said = pipe(folder.path(), program);
        assert_eq!(said.status.code(), Some(1));
        assert!(text(&said.stderr).contains(error), "{}", text(&said.stderr));
    }
}

/// Input continues while a bracket is open, even after an error, so that one mistake gives one
/// error. Reading takes time linear in the length of the text.
#[test]
fn what_is_open_is_one_entry() {
    let folder = tempfile::tempdir().unwrap();
    let said = pipe(folder.path(), "fn bad(x: f32[n]) {\n    let y = x +\n");
    let errors = text(&said.stderr);
    assert!(errors.contains("expected an expression, found the end of the input"), "{errors}");
    assert!(!errors.contains("``"), "{errors}");
    let said = pipe(folder.path(), "fn bad(x: f32[n]) {\n    let y = x + * 2\n    let z = y\n    z\n}\n1 + 1\n");
    assert_eq!((text(&said.stderr).matches("error").count(), text(&said.stdout).as_str()), (1, "2  # i64\n"));
    let long = format!("sum([\n{}])\n", "1,\n".repeat(100_000));
    assert_eq!(text(&pipe(folder.path(), &long).stdout), "100000  # i64\n");
}

/// The precision that may be given up is chosen as in a command's arguments.
#[test]
fn fast_math() {
    let folder = tempfile::tempdir().unwrap();
    let is_fast = |before: &str| {
        let entered = format!("fn f(a: f32[n, k], b: f32[k, m]) = a @ b\n{before}\n:ptx f\n");
        let said = pipe(folder.path(), &entered);
        assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
        text(&said.stdout).contains(".tf32.")
    };
    assert!(!is_fast("") && !is_fast(":math fast\n:math exact"));
    assert!(is_fast(":math fast"));
}

#[test]
fn one_types_is_completed_coloured_and_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let mut t = Terminal::start(folder.path(), "xterm-256color", &[]);
    t.prompt();
    t.keys("fn double(x: f32[n]) {");
    t.sees("> fn double(x: f32[n]) {");
    // A continuation line has a prompt of its own and is indented.
    t.keys("\r");
    t.sees(".");
    t.keys("2 * x");
    t.sees(".     2 * x");
    t.keys("\r}\r");
    t.prompt();
    t.shows("fn double(x: f32[n]) -> f32[n]");
    assert_ne!(t.colour_of("fn double"), vt100::Color::Default);
    // Names, functions of the language, commands and files.
    t.keys("dou\t");
    t.sees("> double");
    t.enter("> double", "([1.5, 2.0])");
    t.shows("[3., 4.]  # f32[2]");
    t.keys(":expl\t");
    t.sees("> :explain");
    t.keys("\u{3}");
    t.prompt();
    t.keys(":ma\t");
    t.sees("> :math");
    t.keys(" fa\t");
    t.sees("> :math fast");
    t.keys("\u{3}");
    t.prompt();
    t.enter("> ", "let kept = _ + 1");
    t.enter("> ", ":save kept some_file.npy");
    t.keys("load(\"some_f\t");
    t.wait("the file", |t| t.lines().last().is_some_and(|line| line.starts_with("> load(\"some_file.npy")));
    let so_far = t.lines().pop().unwrap();
    t.enter(&so_far, if so_far.ends_with('"') { ") * 2" } else { "\") * 2" });
    t.shows("[ 8., 10.]  # f32[2]");
    // An error is drawn under what was typed, and the session is as it was.
    t.enter("> ", "kept + [1.0, 2.0, 3.0]");
    t.shows("1 | kept + [1.0, 2.0, 3.0]");
    t.shows("  | ^^^^^^^^^^^^^^^^^^^^^^");
    t.enter("> ", "kept");
    t.shows("[4., 5.]  # f32[2]");
    t.keys("\u{4}");
    assert_eq!(t.ends(), Some(0));
    // The history of earlier entries is still there.
    let mut t = Terminal::start(folder.path(), "xterm-256color", &[]);
    t.prompt();
    t.keys("\u{1b}[A");
    t.sees("> kept");
    assert!(folder.path().join(".local/state/fuseloop/history").is_file());
}

#[test]
fn without_a_place_for_history_it_works_as_well() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".local"), "a file").unwrap();
    let mut t = Terminal::start(folder.path(), "xterm", &[]);
    t.prompt();
    t.enter("> ", "1 + 1");
    t.shows("2  # i64");
    t.keys(":quit\r");
    assert_eq!(t.ends(), Some(0));
}

#[test]
fn ctrl_c_ends_what_runs_and_keeps_the_session() {
    let folder = tempfile::tempdir().unwrap();
    for (term, device) in [("xterm", "cpu"), ("dumb", "cpu"), ("xterm", "interp")] {
        let mut t = Terminal::start(folder.path(), term, &["--device", device]);
        t.prompt();
        t.enter("> ", "let n = 3000000");
        // Work for hours.
        t.keys("sum[i < n, j < n](sin(f64(i * j)))");
        t.sees("> sum[i < n, j < n](sin(f64(i * j)))");
        t.keys("\r");
        std::thread::sleep(Duration::from_millis(1500));
        let start = Instant::now();
        t.keys("\u{3}");
        t.wait("the end", |t| t.has("error: interrupted"));
        let took = start.elapsed();
        t.prompt();
        assert!(
            took < Duration::from_millis(if cfg!(debug_assertions) { 2000 } else { 100 }),
            "{term} {device}: {took:?}"
        );
        t.enter("> ", "n + 1");
        t.shows("3000001  # i64");
        t.keys("\u{4}");
        assert_eq!(t.ends(), Some(0));
    }
}

/// The files that transcripts read.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").canonicalize().unwrap();
    std::os::unix::fs::symlink(examples, folder.path().join("examples")).unwrap();
    folder
}

/// The transcript that results from entering the same again.
fn again(transcript: &str) -> String {
    let folder = folder();
    let mut t = Terminal::start(folder.path(), "dumb", &[]);
    let whole = |t: &Terminal| t.log.ends_with("\n> ");
    t.wait("the prompt", whole);
    let begin = t.log.len() - "> ".len();
    for line in transcript.lines() {
        let goes_on = line.strip_prefix(". ").or((line == ".").then_some(""));
        let Some(entered) = line.strip_prefix("> ").or(goes_on) else { continue };
        let before = t.log.len();
        t.keys(&format!("{entered}\n"));
        t.wait("a prompt", |t| {
            let said = &t.log[before..];
            said.contains('\n') && (said.ends_with("\n> ") || said.ends_with("\n. "))
        });
    }
    let seen = t.log[begin..].replace("\r\n", "\n");
    seen.strip_suffix("> ").unwrap_or(&seen).to_owned()
}

/// Compares a text with the file, or updates the file.
fn hold(path: &Path, text: &str, now: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, now).unwrap();
    } else {
        assert_eq!(text, now, "{}", path.display());
    }
}

#[test]
fn transcripts_are_what_is_seen() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        hold(&path, &text, &again(&text));
    }
}

#[test]
fn pages_show_what_is_seen() {
    for page in ["README.md", "docs/repl.md", "docs/tutorial.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
        let text = fs::read_to_string(&path).unwrap();
        let mut now = String::new();
        for (k, part) in text.split("```").enumerate() {
            let block = part.strip_prefix("text\n").filter(|block| k % 2 == 1 && block.starts_with("> "));
            now += if k == 0 { "" } else { "```" };
            now += &block.map_or(part.to_owned(), |block| format!("text\n{}", again(block)));
        }
        hold(&path, &text, &now);
    }
}

#[test]
fn a_function_has_its_warnings_once_where_it_is_entered() {
    let folder = tempfile::tempdir().unwrap();
    let said =
        pipe(folder.path(), "fn f(x: f32[n], by: f32) = g(x)\nfn g(x: f32[n]) = 2 * x\nf([1.0], 3)\nf([2.0], 3)\n");
    assert_eq!(said.status.code(), Some(0));
    assert_eq!(text(&said.stderr).matches("warning[W0002]: the parameter `by` is never used").count(), 1);
    assert!(text(&said.stdout).ends_with("[2.]  # f32[1]\n[4.]  # f32[1]\n"), "{}", text(&said.stdout));
}
