//! Reports: the pages of `fuseloop help`, all errors of a file at once, JSON with stable fields,
//! and no control characters on a terminal from a source, a name or a file.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Characters that a terminal might take for a command or for a change of direction.
const HOSTILE: &str = "\x1b[2J\x1b]0;t\x07\u{9b}31m\x7f\u{202e}\u{2066}\u{200b}\u{e0041}";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn fuseloop(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// Exit code, standard output and standard error.
fn session(folder: &Path, line: &str) -> String {
    let output = fuseloop(folder, &line.split_whitespace().collect::<Vec<_>>());
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    format!("$ fuseloop {line}\n{stdout}{stderr}({})\n\n", output.status.code().unwrap())
}

#[test]
fn help_explains_errors_and_commands() {
    let folder = folder(&[]);
    let session = |line: &str| session(folder.path(), line);
    for text in ["E0115", "e0115", "e115", "115"] {
        assert!(session(&format!("help {text}")).contains("\n# E0115: sizes that can never be equal\n"), "{text}");
    }
    let list = session("help errors");
    assert!(list.lines().count() > 60 && list.contains("\nE0101  unknown name\n"), "{list}");
    assert!(session("help run").contains("Usage: fuseloop run"));
    assert_eq!(session("help").split_once('\n').unwrap().1, session("--help").split_once('\n').unwrap().1);
    insta::assert_snapshot!(
        [session("help E0114x"), session("help 116000"), session("help 8"), session("help rum")].concat()
    );
}

#[test]
fn all_independent_errors_are_shown_and_no_others() {
    let source = "\
fn a(x: f32[n]) = x + y                          # a name
fn b(x: f32[n], y: f64[n]) {
    let p = x * y                                # types
    let q = p + 1                                # nothing: p is known to be wrong
    let r = x[-1]                                # an access
    let s[i] = q[i] + r                          # nothing
    s + expp(x)                                  # a function
}
fn c(x: f32[3], y: f32[5]) = x + y               # sizes
fn d(x: f32[n]) -> f32 = x                       # the result
fn e(x: f32[n]) = a(x) + b(x, x)                 # nothing new in a; b takes an f64
";
    let folder = folder(&[("five.fl", source)]);
    insta::assert_snapshot!(session(folder.path(), "check five.fl"));
}

#[test]
fn json_keeps_its_fields() {
    let folder = folder(&[
        (
            "ok.fl",
            "fn f(x: f32[m], y: f32[n]) -> (s: f32[n], hi: f32) = (x[::2] / y, max(x))\nfn g(k: i64) = iota(k)\n",
        ),
        ("bad.fl", "# é\nfn f(value: f32[n], k: i64[n]) = valeu * 2\nfn g(x: f32[n], k: i64[n]) = x * k\n"),
        ("syntax.fl", "fn f(x: f32[n]) = (x ** 2\n"),
    ]);
    let lines = [
        "check --format json ok.fl",
        "check --format json bad.fl",
        "check --format json syntax.fl",
        "check --format json none.fl",
        "run --format json ok.fl --fn f x=arange:5 y=zeros:3",
        "run --format json ok.fl --fn g k=2000",
        "run --format json ok.fl --fn g k=2 -o out=a.npy",
        "run --format json ok.fl --fn f x=arange:5 y=zeros:4",
        "run --format json ok.fl --fn f x=arange:5",
        "run --format json ok.fl --fn f x=none.npy y=zeros:4",
        "run --format json ok.fl --fn g k=1000000 --max-memory 1M",
    ];
    let text: String = lines.iter().map(|line| session(folder.path(), line)).collect();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        assert!(line.starts_with(r#"{"type":""#) && line.ends_with('}'), "{line}");
    }
    // Times differ from run to run.
    let times = |line: &str| line.starts_with(r#"{"type":"times","#);
    let stages = |line: &str| line.split(',').filter_map(|f| f.split(':').next()).collect::<Vec<_>>().join(", ");
    let text: Vec<String> = text.lines().map(|l| if times(l) { stages(l) } else { l.to_owned() }).collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn nothing_hidden_in_text_reaches_the_terminal() {
    let name = format!("a{}.fl", HOSTILE.replace('/', ""));
    let sources = [
        format!("fn f(x: f32[n]) = y # {HOSTILE}\n"),
        format!("fn f(x: f32[n]) = x {HOSTILE} + 1\n"),
        format!("fn f{HOSTILE}(x: f32[n]) = \"{HOSTILE}\"\n"),
        format!("fn f(x: f{HOSTILE}32[n]) = x ** 2 // {HOSTILE}\n"),
        HOSTILE.to_string(),
    ];
    for source in &sources {
        let folder = folder(&[(&name, source)]);
        for format in ["text", "json"] {
            harmless(&fuseloop(folder.path(), &["check", &name, "--format", format]));
            harmless(&fuseloop(folder.path(), &["run", &name, "x=ones:1", "--format", format]));
        }
        harmless(&fuseloop(folder.path(), &["fmt", "--check", &name]));
    }
    let folder = folder(&[(&name, "fn f(x: f32[n], k: i64) = x * 2\n"), (&format!("{HOSTILE}.npy"), "no array")]);
    let argument = |name: &str| format!("{name}={HOSTILE}");
    let calls = [
        vec![argument("x"), "k=1".to_owned()],
        vec![format!("x={HOSTILE}.npy"), "k=1".to_owned()],
        vec![format!("x=none{HOSTILE}.npz:{HOSTILE}"), "k=1".to_owned()],
        vec![format!("x=zeros:{HOSTILE}"), "k=1".to_owned()],
        vec!["x=ones:3".to_owned(), argument("k")],
        vec!["x=ones:3".to_owned(), "k=1".to_owned(), argument(HOSTILE)],
        vec!["x=ones:3".to_owned(), "k=1".to_owned(), HOSTILE.to_owned()],
        vec!["x=ones:3".to_owned(), "k=1".to_owned(), "-o".to_owned(), argument("out")],
        vec!["x=ones:3".to_owned(), "k=1".to_owned(), "-o".to_owned(), format!("{HOSTILE}=a.npy")],
        vec!["x=ones:3".to_owned(), "k=1".to_owned(), "-o".to_owned(), format!("out=none/{HOSTILE}.npy")],
        vec!["x=ones:3".to_owned(), "k=1".to_owned(), "--fn".to_owned(), HOSTILE.to_owned()],
        vec!["x=ones:3".to_owned(), "k=1".to_owned(), "--device".to_owned(), HOSTILE.to_owned()],
        vec!["x=ones:3".to_owned(), "k=1".to_owned(), format!("--{HOSTILE}")],
    ];
    for call in &calls {
        for format in ["text", "json"] {
            let mut line = vec!["run", name.as_str(), "--format", format];
            line.extend(call.iter().map(String::as_str));
            let output = fuseloop(folder.path(), &line);
            assert_ne!(output.status.code(), Some(0), "{call:?}");
            harmless(&output);
        }
    }
    for line in [&[HOSTILE][..], &["help", HOSTILE], &["check", HOSTILE], &["run", HOSTILE], &[&format!("@{HOSTILE}")]]
    {
        harmless(&fuseloop(folder.path(), line));
    }
}

/// Asserts that only text and line ends were printed.
#[track_caller]
fn harmless(output: &Output) {
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(bytes.clone()).expect("what is printed is UTF-8");
        let hidden =
            |c: char| c != '\n' && (c.is_control() || HOSTILE.chars().any(|h| h == c && !h.is_ascii_graphic()));
        assert!(!text.contains(hidden), "{text:?}");
        assert!(!text.contains("panicked"), "{text}");
    }
}

/// Every field that a command writes as JSON, at any depth, is on the page that lists them.
#[test]
fn the_page_lists_every_field() {
    let source = "fn f(x: f32[n]) -> (a: f32[n], b: f32) = (exp(x), sum(x))\n\
        fn g(x: f32[n, m], at: i64[k]) = x[at] + sum(x)\n";
    let folder = folder(&[("a.fl", source), ("wrong.fl", "fn f(x: f32[n]) = x + y\nfn g(x: i32[n]) = exp(x)\n")]);
    let page = include_str!("../../../docs/json.md");
    let mut types = std::collections::BTreeSet::new();
    for line in [
        "check a.fl",
        "check wrong.fl",
        "run a.fl --fn f x=ones:3 --time",
        "run a.fl --fn g x=ones:2,3 at=ones:4",
        "explain a.fl --fn g",
        "explain a.fl --fn g --device gpu n=100 m=10 k=5",
        "bench a.fl --fn f n=1000",
        "devices",
    ] {
        let line = format!("{line} --format json");
        let output = fuseloop(folder.path(), &line.split_whitespace().collect::<Vec<_>>());
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let mut objects = 0;
        for object in String::from_utf8(output.stdout).unwrap().lines() {
            let object: Value = serde_json::from_str(object).unwrap();
            types.insert(object["type"].as_str().expect("a type").to_owned());
            documented(&object, page, &line);
            objects += 1;
        }
        assert!(objects > 0, "{line} writes nothing");
    }
    let all = ["benchmark", "device", "diagnostic", "explanation", "result", "signature", "times"];
    assert!(types.iter().eq(all), "{types:?}");
}

fn documented(value: &Value, page: &str, line: &str) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                assert!(page.contains(&format!("`{field}`")), "{line}: docs/json.md says nothing of `{field}`");
                // These are names from the program.
                if field != "sizes" {
                    documented(value, page, line);
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|value| documented(value, page, line)),
        _ => {}
    }
}
