//! Arrays on the command line: elements, tables and pictures as arguments and results, how results
//! are printed, and the messages for what does not fit.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use pty_process::Size;
use tempfile::TempDir;

const SOURCE: &str = "fn scale(x: f32[n], by: f32) = x * by
fn grid(x: f64[n, m]) = x + 1
fn above(x: f32[n], t: f32) = x > t
fn inverted(image: u8[h, w]) { let y[i, j] = u8(255 - i32(image[i, j])); y }
fn red(image: u8[h, w, c]) { let y[i < h, j < w] = image[i, j, 0]; y }
fn deep(x: u16[h, w]) = x
fn counted(n: i64) = iota(n)
";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.fl"), SOURCE).unwrap();
    for (name, text) in [
        ("good.csv", "low,high\n1,2.5\n3e-1,-4\n"),
        ("cell.csv", "low,high\n1,2.5\n3,four\n"),
        ("ragged.csv", "1,2\n3\n"),
        ("words.png", "not a picture"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The command with its words, which are not split at spaces.
fn run(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    let output = command.args(["run", "a.fl", "--fn"]).args(words).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[track_caller]
fn prints(folder: &Path, words: &[&str]) -> String {
    let (code, text) = run(folder, words);
    assert_eq!(code, Some(0), "{words:?}\n{text}");
    text
}

#[test]
fn elements_are_arguments_and_results_are_elements() {
    let folder = folder();
    let folder = folder.path();
    let first = prints(folder, &["scale", "x=1,2,3", "by=0.123456789"]);
    assert!(first.starts_with("[0.12345679, 0.24691358, "), "{first}");
    assert_eq!(prints(folder, &["scale", &format!("x={}", first.trim()), "by=1"]), first);
    assert_eq!(prints(folder, &["grid", "x=[[1,2],[3,4]]"]), "[[2., 3.],\n [4., 5.]]\n");
    assert_eq!(prints(folder, &["above", "x=-1,2", "t=0"]), "[false,  true]\n");
    assert_eq!(prints(folder, &["scale", "x=[]", "by=1"]), "[]\n");
}

#[test]
fn tables_go_in_and_out() {
    let folder = folder();
    let folder = folder.path();
    assert_eq!(prints(folder, &["grid", "x=good.csv", "-o", "out.csv"]), "");
    assert_eq!(std::fs::read_to_string(folder.join("out.csv")).unwrap(), "2.0,3.5\n1.3,-3.0\n");
    assert_eq!(prints(folder, &["scale", "x=0.5,1.5", "by=1", "-o", "out=column.csv"]), "");
    assert_eq!(std::fs::read_to_string(folder.join("column.csv")).unwrap(), "0.5\n1.5\n");
    assert_eq!(prints(folder, &["scale", "x=column.csv", "by=2"]), "[1., 3.]\n");
    assert_eq!(prints(folder, &["grid", "x=column.csv"]), "[[1.5],\n [2.5]]\n");
}

#[test]
fn pictures_go_in_and_out() {
    let folder = folder();
    let folder = folder.path();
    assert_eq!(prints(folder, &["inverted", "image=[[0,1,255]]", "-o", "out.png"]), "");
    assert_eq!(prints(folder, &["inverted", "image=out.png"]), "[[  0,   1, 255]]\n");
    // Exact conversions need no word.
    assert_eq!(prints(folder, &["grid", "x=out.png"]), "[[256., 255.,   1.]]\n");
}

#[test]
fn what_does_not_fit_is_explained() {
    let folder = folder();
    let folder = folder.path();
    prints(folder, &["grid", "x=[[0.1]]", "-o", "wide.npy"]);
    prints(folder, &["deep", "x=[[1,60000]]", "-o", "deep.png"]);
    let mut all = String::new();
    for words in [
        &["grid", "x=cell.csv"][..],
        &["grid", "x=ragged.csv"],
        &["scale", "x=good.csv", "by=1"],
        &["scale", "x=none.csv", "by=1"],
        &["red", "image=words.png"],
        &["inverted", "image=deep.png"],
        &["red", "image=deep.png:u8"],
        &["inverted", "image=[[1,256]]"],
        &["deep", "x=[[1]]", "-o", "out.png", "-o", "out=deep.png:u8"],
        &["counted", "n=3", "-o", "out.png"],
        &["scale", "x=[1,2", "by=1"],
        &["scale", "x=[1, two]", "by=1"],
        &["grid", "x=[[1,2],[3]]"],
        &["scale", "x=wide.npy", "by=1"],
        &["scale", "x=wide.npy:f64", "by=1"],
        &["scale", "x=1,2", "by=1", "-o", "out.png"],
        &["counted", "n=3", "-o", "out.csv:x"],
        &["grid", "x=[[1]]", "--print", "some"],
        &["grid", "x=[[1]]", "--precision", "-1"],
    ] {
        let (code, text) = run(folder, words);
        all += &format!("$ {}\n{text}exit code {}\n\n", words.join(" "), code.unwrap_or(-1));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_prompt_loads_and_saves_tables_and_pictures() {
    let folder = folder();
    std::fs::write(folder.path().join("column.csv"), "n\n1\n2\n").unwrap();
    let entries = [
        "load(\"good.csv\")",
        "load(\"good.csv:f32\") * 2",
        ":load column.csv",
        "column",
        "let grey = u8([[0, 255], [7, 8]])",
        ":save grey grey.png",
        "load(\"grey.png\") + 1",
        "load(\"grey.png:f64\") / 2",
        ":save column out.csv",
        "load(\"out.csv\")",
        "load(\"words.png\")",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.arg("repl").current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all((entries.join("\n") + "\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn options_say_how_much_is_printed() {
    let folder = folder();
    let folder = folder.path();
    assert_eq!(prints(folder, &["scale", "x=1,2,3", "by=0.1", "--precision", "2"]), "[0.1, 0.2, 0.3]\n");
    assert_eq!(prints(folder, &["counted", "n=2000"]), "[   0,    1,    2, ..., 1997, 1998, 1999]\n");
    let all = prints(folder, &["counted", "n=2000", "--print", "all"]);
    assert!(!all.contains("...") && all.matches(',').count() == 1999 && all.lines().all(|line| line.len() <= 75));
    assert_eq!(prints(folder, &["counted", "n=9", "--print", "8"]), "[0, 1, 2, ..., 6, 7, 8]\n");
}

#[test]
fn lines_fit_the_terminal() {
    let folder = folder();
    for columns in [30, 200] {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(Size::new(24, columns)).unwrap();
        let command = pty_process::blocking::Command::new(env!("CARGO_BIN_EXE_fuseloop"));
        let command = command.args(["run", "a.fl", "--fn", "counted", "n=60"]).current_dir(folder.path());
        let mut child = command.env("TERM", "xterm").spawn(pts).unwrap();
        let mut pty = pty;
        let mut bytes = vec![];
        // The end of the child is an error here.
        let _ = pty.read_to_end(&mut bytes);
        child.wait().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let widest = text.lines().map(|line| line.trim_end().len()).max().unwrap();
        assert!(widest <= usize::from(columns) && widest > usize::from(columns) - 5, "{columns}: {text}");
    }
}
