//! `fuseloop fmt` as a user meets it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const LOOSE: &str = "fn f(x:f32[n])=x*2 # twice\n";
const FORMATTED: &str = "fn f(x: f32[n]) = x * 2  # twice\n";
const WRONG: &str = "fn f(x:f32[n])=x*\n";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("loose.fl", LOOSE), ("formatted.fl", FORMATTED), ("wrong.fl", WRONG)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.args(line.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command
}

/// Exit code, stdout and stderr.
fn outcome(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn run(folder: &Path, line: &str) -> (Option<i32>, String, String) {
    outcome(command(folder, line).output().unwrap())
}

fn read(folder: &TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name)).unwrap()
}

#[test]
fn formats_in_place_and_leaves_errors() {
    let folder = folder();
    let before = folder.path().join("formatted.fl").metadata().unwrap().modified().unwrap();
    let (code, stdout, stderr) = run(folder.path(), "fmt wrong.fl none.fl loose.fl formatted.fl");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("error[E0020]") && stderr.contains("wrong.fl:1:"), "{stderr}");
    assert!(stderr.contains("none.fl: No such file"), "{stderr}");
    assert_eq!(read(&folder, "loose.fl"), FORMATTED);
    assert_eq!(read(&folder, "wrong.fl"), WRONG);
    assert_eq!(folder.path().join("formatted.fl").metadata().unwrap().modified().unwrap(), before, "not written");
    assert_eq!(run(folder.path(), "fmt loose.fl"), (Some(0), String::new(), String::new()));
}

#[test]
fn checks_without_writing() {
    let folder = folder();
    let (code, stdout, stderr) = run(folder.path(), "fmt --check formatted.fl loose.fl");
    assert_eq!(code, Some(1));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[..2], ["--- loose.fl", "+++ loose.fl (formatted)"]);
    assert_eq!(lines[3..], [format!("-{}", LOOSE.trim_end()), format!("+{}", FORMATTED.trim_end())]);
    assert!(stderr.contains("1 of 2 files not formatted: loose.fl"), "{stderr}");
    assert_eq!(read(&folder, "loose.fl"), LOOSE);
    assert_eq!(run(folder.path(), "fmt --check formatted.fl"), (Some(0), String::new(), String::new()));
}

#[test]
fn formats_standard_input() {
    let folder = folder();
    let pipe = |line: &str, text: &str| {
        let mut command = command(folder.path(), line);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        outcome(child.wait_with_output().unwrap())
    };
    assert_eq!(pipe("fmt -", LOOSE), (Some(0), FORMATTED.to_owned(), String::new()));
    let (code, stdout, stderr) = pipe("fmt -", WRONG);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("<stdin>:1:"), "{stderr}");
    assert_eq!(pipe("fmt --check -", LOOSE).0, Some(1));
    assert_eq!(run(folder.path(), "fmt").0, Some(2));
    let (_, help, _) = run(folder.path(), "fmt --help");
    assert!(help.contains("Example: fuseloop fmt "), "{help}");
}

#[test]
fn the_examples_are_formatted() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let programs = std::fs::read_dir(&examples).unwrap().map(|entry| entry.unwrap().path());
    let programs: Vec<_> = programs.filter(|path| path.extension().is_some_and(|e| e == "fl")).collect();
    assert!(programs.len() > 20);
    let output = command(&examples, "fmt --check").args(programs).output().unwrap();
    assert_eq!(outcome(output), (Some(0), String::new(), String::new()));
}

#[test]
fn errors_as_json() {
    let folder = folder();
    let (code, stdout, stderr) = run(folder.path(), "fmt --check --format json loose.fl wrong.fl formatted.fl");
    assert_eq!((code, stderr.as_str()), (Some(1), ""));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{stdout}");
    assert!(lines[0].contains(r#""code":"E0020""#) && lines[0].contains(r#""file":"wrong.fl""#), "{stdout}");
    assert!(lines[1].contains("1 of 3 files not formatted: loose.fl"), "{stdout}");
}
