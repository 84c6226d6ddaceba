//! Files and libraries that programs use: paths, what names mean, errors in the right file.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A folder with files; a `/` in a name makes a folder within it.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// Runs a command in a folder with a text on standard input: whether it succeeds, and its output.
fn run(folder: &Path, line: &str, input: &str) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.args(line.split_whitespace()).current_dir(folder).env("HOME", folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!text.contains("a fault of Fuseloop"), "{line}: {text}");
    (output.status.success(), text)
}

#[track_caller]
fn prints(folder: &TempDir, line: &str, input: &str, expected: &str) {
    let (success, text) = run(folder.path(), line, input);
    // Some of the programs use more than they need.
    let printed = text.split_once("warning[W0004]").map_or(text.as_str(), |(printed, _)| printed);
    assert!(success && printed == expected, "{line}: {text}");
}

#[track_caller]
fn fails(folder: &TempDir, line: &str, input: &str, parts: &[&str]) {
    let (success, text) = run(folder.path(), line, input);
    assert!(!success && parts.iter().all(|part| text.contains(part)), "{line}: {text}");
}

#[test]
fn paths_start_from_the_folder_of_the_file_they_are_in() {
    let files = folder(&[
        ("main.fl", "use \"lib/a.fl\"\nuse \"lib/deep/../b.fl\"\nfn f(x: f32[n]) = a(x) + b(x)\n"),
        ("lib/a.fl", "use \"b.fl\"\nfn a(x: f32[n]) = b(x) * 2\n"),
        ("lib/b.fl", "\u{feff}fn b(x: f32[n]) = x + 1\n"),
        ("lib/deep/up.fl", "use \"../b.fl\"\nfn up(x: f32[n]) = b(x)\n"),
    ]);
    prints(&files, "run main.fl x=arange:3", "", "[3., 6., 9.]\n");
    prints(&files, "check main.fl", "", "fn f(x: f32[n]) -> f32[n]\n");
    prints(&files, "run lib/deep/up.fl x=arange:2", "", "[1., 2.]\n");
    prints(&files, "run - x=arange:2", "use \"lib/a.fl\"\nfn f(x: f32[n]) = a(x)\n", "[2., 4.]\n");
    let absolute = format!("use \"{}\"\nfn f(x: f32[n]) = b(x)\n", files.path().join("lib/b.fl").display());
    prints(&files, "run - x=arange:2", &absolute, "[1., 2.]\n");
    let (success, text) = run(files.path(), "build main.fl --emit ptx", "");
    assert!(success && text.contains("// lib/b.fl:1: fn b(x: f32[n]) = x + 1"), "{text}");
    for line in
        ["explain main.fl n=10", "explain main.fl --format json", "explain main.fl --format html", "bench main.fl n=4"]
    {
        assert!(run(files.path(), line, "").0, "{line}");
    }
    prints(&files, "fmt --check main.fl lib/a.fl", "", "");
}

#[test]
fn names_mean_the_nearest_function() {
    let files = folder(&[
        ("one.fl", "fn f(x: f32) = x + 1\nfn only_one(x: f32) = f(x)\nfn sum(x: f32) = f(x)\n"),
        ("two.fl", "fn f(x: f32) = x + 2\n"),
    ]);
    let both = "use \"one.fl\"\nuse \"two.fl\"\n";
    // A clash that nothing calls is none; each file calls its own functions.
    prints(&files, "run - x=0", &format!("{both}fn main(x: f32) = only_one(x)\n"), "1.0\n");
    prints(&files, "run - x=0", &format!("{both}fn f(x: f32) = x + 3\nfn main(x: f32) = f(x)\n"), "3.0\n");
    prints(&files, "run - x=0", "use \"one.fl\"\nuse \"two.fl\" (f)\nfn main(x: f32) = f(x)\n", "2.0\n");
    // A used function comes before one of the language.
    prints(&files, "run - x=0", "use \"one.fl\"\nfn main(x: f32) = sum(x)\n", "1.0\n");
    // A file that is used twice is one file.
    prints(&files, "run - x=0", "use \"one.fl\"\nuse \"./one.fl\"\nfn main(x: f32) = f(x)\n", "1.0\n");
    // Functions that a used file uses are its own business.
    fails(&files, "check -", "use \"two.fl\"\nfn main(x: f32) = only_one(x)\n", &["E0102"]);
    fails(&files, "check -", &format!("{both}fn main(x: f32) = f(x)\n"), &["E0160", "one.fl:1:4", "two.fl:1:4"]);
    fails(&files, "check -", "use \"one.fl\" (f)\nfn f(x: f32) = x\n", &["E0103", "<stdin>:2:4", "first here"]);
    let picks = "use \"one.fl\" (f)\nuse \"two.fl\" (f)\nfn main(x: f32) = f(x)\n";
    fails(&files, "check -", picks, &["E0160", "leave the name out of all but one"]);
    fails(&files, "check -", "use \"one.fl\" (g)\n", &["E0161", "it has `f`, `only_one`, `sum`"]);
    // The library that has a missing function is named.
    fails(&files, "check -", "fn main(x: f32[n]) = softmax(x)\n", &["E0102", "+ use nn"]);
}

#[test]
fn errors_show_the_file_that_they_are_in() {
    let files = folder(&[
        ("syntax.fl", "fn f(x: f32[n]) = x\n\nfn g(x: f32[n]) = x +\n"),
        ("names.fl", "# A comment.\nfn f(x: f32[n]) = x + y\nfn g(x: f32[n]) = x\n"),
        ("access.fl", "fn f(x: f32[n], i: i64[m]) = x[i]\n"),
        ("limit.fl", "@kernels(1)\nfn f(x: f32[n]) = argmax(x)\n"),
    ]);
    let parts = ["E0020", "syntax.fl:3:23", "<stdin>:1:1", "the file is used here"];
    fails(&files, "check -", "use \"syntax.fl\"\nfn h(x: f32[n]) = f(x)\n", &parts);
    let parts = ["E0101", "names.fl:2:23", "x + y", "<stdin>:2:19", "in this call of `f`"];
    fails(&files, "check -", "use \"names.fl\"\nfn h(x: f32[n]) = f(x)\n", &parts);
    // Functions that nothing calls are not checked.
    prints(&files, "run - x=arange:2", "use \"names.fl\"\nfn h(x: f32[n]) = g(x)\n", "[0., 1.]\n");
    let parts = ["E0220", "access.fl:1:32", "accessed here"];
    fails(&files, "run - x=arange:2 i=ones:1", "use \"access.fl\"\nfn h(x: f32[n], i: i64[m]) = f(x, i + 1)\n", &parts);
    let (_, text) = run(files.path(), "check - --format json", "use \"names.fl\"\nfn h(x: f32[n]) = f(x)\n");
    assert!(text.contains(r#""file":"names.fl""#) && text.contains(r#""line":2,"column":23"#), "{text}");
}

#[test]
fn hostile_files_are_refused() {
    let files = folder(&[
        ("self.fl", "use \"self.fl\"\nfn f(x: f32[n]) = x\n"),
        ("a.fl", "use \"b.fl\"\nfn f(x: f32[n]) = x\n"),
        ("b.fl", "use \"c.fl\"\n"),
        ("c.fl", "use \"./b.fl\"\n"),
        ("lib/x.fl", ""),
    ]);
    std::fs::write(files.path().join("bytes.fl"), b"fn f(x: f32[n]) = x # \xff\n").unwrap();
    std::fs::write(files.path().join("huge.fl"), " ".repeat(17 << 20)).unwrap();
    fails(&files, "check self.fl", "", &["E0173", "the file uses itself"]);
    fails(&files, "check a.fl", "", &["E0173", "c.fl:1:1", "b.fl:1:1"]);
    let refused = |path: &str, parts: &[&str]| {
        fails(&files, "check -", &format!("use \"{path}\"\nfn f(x: f32[n]) = x\n"), parts);
    };
    refused("lib", &["E0170", "`lib` is a folder", "<stdin>:1:5"]);
    refused("", &["E0170"]);
    refused("none.fl", &["E0170", "there is no file `none.fl`"]);
    refused("bytes.fl", &["E0170", "byte 22 is not UTF-8"]);
    refused("huge.fl", &["E0174"]);
    refused("/dev/zero", &["E0170", "is not a regular file"]);
    refused("nn", &["E0170", "+ use nn"]);
    refused(&"x/".repeat(5000), &["E0170"]);
    refused("a\0b", &["E0170"]);
    // A chain of as many files as may be used, and one more.
    for (links, success) in [(900, true), (1001, false)] {
        for k in 0..links {
            let text = format!("use \"{}.fl\"\nfn link{k}(x: f32) = link{}(x)\n", k + 1, k + 1);
            std::fs::write(files.path().join(format!("{k}.fl")), text).unwrap();
        }
        std::fs::write(files.path().join(format!("{links}.fl")), format!("fn link{links}(x: f32) = x + 1\n")).unwrap();
        let (done, text) = run(files.path(), "check 0.fl", "");
        assert!(done == success && (success || text.contains("E0174")), "{text}");
    }
}

#[test]
fn a_use_that_is_malformed_is_explained() {
    let none = folder(&[]);
    let wrong = |text: &str, parts: &[&str]| fails(&none, "check -", text, parts);
    let f = "fn f(x: f32[n]) = x\n";
    wrong(&format!("use 'a.fl'\n{f}"), &["E0007", " use \"a.fl\""]);
    wrong(&format!("use \"a.fl\n{f}"), &["E0007", " use \"a.fl\""]);
    wrong(&format!("use\n{f}"), &["E0020", "a path in double quotes or the name of a library"]);
    wrong(&format!("use nn softmax\n{f}"), &["E0020", "use nn (softmax)"]);
    wrong(&format!("use nn ()\n{f}"), &["E0020"]);
    wrong(&format!("use nn (softmax\n{f}"), &["E0010"]);
    wrong("fn f(x: f32[n]) {\n    use nn\n    softmax(x)\n}\n", &["E0020", "stands between functions"]);
    wrong("fn f(x: f32[n]) = use\n", &["E0020", "the keyword `use`"]);
    wrong("fn f(use: f32[n]) = 1\n", &["E0020", "`use` has a meaning in the language: choose another name"]);
    wrong("import nn\n", &["E0020", "`use nn` for a library"]);
    wrong("use torch\nfn f(x: f32[n]) = x\n", &["E0172", "the libraries are `nn` and `stats`"]);
}

#[test]
fn the_prompt_uses_files() {
    let files = folder(&[
        ("lib/one.fl", "fn one(x: f32[n]) = x + 1\nfn other(x: f32[n]) = x\n"),
        ("lib/loaded.fl", "use \"one.fl\" (one)\nfn twice(x: f32[n]) = one(x) * 2\n"),
    ]);
    let said = "use \"lib/one.fl\": one, other\n[2., 3.]  # f32[2]\nfn f(x: f32[n]) -> f32[n]\n[3., 4.]  # f32[2]\n";
    let typed = "use \"lib/one.fl\"\none([1.0, 2.0])\nfn f(x: f32[n]) = one(x) + 1\nf([1.0, 2.0])\n";
    prints(&files, "repl", typed, said);
    let said =
        "use \"lib/one.fl\" (one): one\nfn twice(x: f32[n]) -> f32[n]\n[4.]  # f32[1]\nfn one(x: f32[n]) -> f32[n]\n";
    prints(&files, "repl", ":load lib/loaded.fl\ntwice([1.0])\none\n", said);
    // A function may wait for a file.
    let (success, text) = run(files.path(), "repl", "fn f(x: f32[n]) = one(x)\nuse \"lib/one.fl\"\nf([1.0])\n");
    assert!(success && text.contains("fn f waits") && text.ends_with("[2.]  # f32[1]\n"), "{text}");
    // An error leaves the session as it was.
    let (success, text) = run(files.path(), "repl", "use nn (nothing)\nuse \"none.fl\"\nuse stats\nmean([1.0])\n");
    assert!(!success && ["E0161", "E0170", "1.0  # f32"].iter().all(|part| text.contains(part)), "{text}");
    // A saved program finds its files from another folder.
    run(files.path(), "repl", ":load lib/loaded.fl\n:save lib/saved.fl\n:save saved.fl\n");
    let saved = |name: &str| std::fs::read_to_string(files.path().join(name)).unwrap();
    assert!(saved("lib/saved.fl").starts_with("use \"one.fl\" (one)\n\nfn twice"), "{}", saved("lib/saved.fl"));
    assert!(saved("saved.fl").starts_with("use \"lib/one.fl\" (one)\n\n"), "{}", saved("saved.fl"));
    prints(&files, "run lib/saved.fl x=arange:2", "", "[2., 4.]\n");
}

/// The functions with matrix products, which add in a free order.
const CONTRACTIONS: [&str; 7] =
    ["linear", "relu_mlp", "gelu_mlp", "attention", "causal_attention", "covariance_matrix", "correlation_matrix"];

/// Every function of the libraries runs, with the same results on the interpreter.
#[test]
fn libraries_give_the_same_bits_on_every_device() {
    let none = folder(&[]);
    let file = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../compiler/src/library/{name}.fl"));
    for name in ["nn", "stats"] {
        let path = file(name).display().to_string();
        let (success, signatures) = run(none.path(), &format!("check {path}"), "");
        assert!(success, "{signatures}");
        prints(&none, &format!("fmt --check {path}"), "", "");
        let mut count = 0;
        for line in signatures.lines().filter_map(|line| line.strip_prefix("fn ")) {
            let (function, rest) = line.split_once('(').unwrap();
            let (parameters, _) = rest.split_once(')').unwrap();
            let mut arguments = String::new();
            for (parameter, ty) in items(parameters).iter().map(|one| one.trim().split_once(": ").unwrap()) {
                let shape: Vec<&str> =
                    ty.split_once('[').map_or(vec![], |(_, sizes)| sizes.trim_end_matches(']').split(", ").collect());
                let sizes: Vec<String> =
                    shape.iter().map(|size| (size.len() + 4 + size.as_bytes()[0] as usize % 7).to_string()).collect();
                arguments += &match (sizes.as_slice(), ty) {
                    ([], "i64") => format!(" {parameter}=3"),
                    ([], _) => format!(" {parameter}=0.75"),
                    (_, ty) if ty.starts_with("i64") => format!(" {parameter}=ones:{}", sizes.join("x")),
                    _ => format!(" {parameter}=random:{}", sizes.join("x")),
                };
            }
            let call = |device: &str| {
                run(none.path(), &format!("run {path} --fn {function} --device {device}{arguments}"), "")
            };
            let (cpu, interp) = (call("cpu"), call("interp"));
            let free = CONTRACTIONS.contains(&function);
            assert!(cpu.0 && interp.0 && (cpu.1 == interp.1 || free), "{function}{arguments}: {} {}", cpu.1, interp.1);
            count += 1;
        }
        assert!(count >= 18, "{name} has {count} functions");
    }
}

/// The items of a list, which may have commas in brackets.
fn items(list: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut depth = 0;
    for c in list.chars() {
        depth += i32::from(c == '[') - i32::from(c == ']');
        match found.last_mut() {
            Some(last) if c != ',' || depth > 0 => last.push(c),
            _ => found.push(String::new()),
        }
    }
    found
}
