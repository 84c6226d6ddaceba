//! `fuseloop explain`: the contents of its formats, that a large program fits on two screens, that
//! the documentation lists every field, and that `@kernels(n)` is enforced.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAMS: &str = "\
fn chain(x: f32[n], b: f32[n]) = relu(x * 2 + b)
fn shares(x: f32[n]) = x / sum(x)
fn softmax(x: f32[m]) {
    let e = exp(x - max(x))
    e / sum(e)
}
fn softmax_rows(x: f32[n, m]) {
    let y[i] = softmax(x[i])
    y
}
";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn fuseloop(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.args(line.split_whitespace()).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn session(folder: &Path, line: &str) -> String {
    let output = fuseloop(folder, line);
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    format!("$ fuseloop {line}\n{stdout}{stderr}({})\n\n", output.status.code().unwrap())
}

fn json(folder: &Path, line: &str) -> Value {
    let output = fuseloop(folder, line);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn reports_for_people() {
    let folder = folder(&[("p.fl", PROGRAMS)]);
    let lines = [
        "explain p.fl --fn chain n=1000000",
        "explain p.fl --fn shares",
        "explain p.fl --fn shares --fuse kloop,kinput n=8",
        "explain p.fl --fn softmax_rows n=4096",
    ];
    insta::assert_snapshot!(lines.iter().map(|line| session(folder.path(), line)).collect::<String>());
}

/// Figures that overflow 64 bits stay formulas, and no figure hides work in a branch or in loads
/// from cache.
#[test]
fn figures_that_could_mislead() {
    let source = "\
fn scale(x: f32[n], y: f32[n]) = relu(x * 2 + y)
fn gram(x: f32[n, m]) = x @ transpose(x)
fn grouped(key: i64[n], v: f32[n], g: i64) {
    let s[k < g] = sum[i](if key[i] == k then v[i] else 0)
    s
}
fn ragged(x: i32[n, m], len: i64[n]) {
    let z[i] = sum[j < len[i]](x[i, j])
    z
}
fn standardised(x: f32[n]) = (x - mean(x)) / sqrt(mean((x - mean(x)) ^ 2))
";
    let folder = folder(&[("f.fl", source)]);
    let lines = [
        "--fn scale n=9223372036854775807",
        "--fn gram n=3037000500 m=3",
        "--fn grouped",
        "--fn ragged",
        "--fn ragged n=4 m=3",
        "--fn standardised --fuse none",
    ];
    // The summary, and the figures of the first kernel.
    let shown = |line: &&str| {
        let all = session(folder.path(), &format!("explain f.fl {line}"));
        let (head, rest) = all.split_once("\nkernel 1").unwrap();
        format!("{head}\nkernel 1{}\n\n", rest.split_once("\n\n").unwrap().0)
    };
    insta::assert_snapshot!(lines.iter().map(shown).collect::<String>());
    let page = fuseloop(folder.path(), "explain f.fl --fn gram --format html --device gpu").stdout;
    assert!(String::from_utf8(page).unwrap().contains("Drawn for n = m = 1024"));
}

/// 256 steps towards the Mandelbrot set: 3,324 operations.
fn mandelbrot() -> String {
    let mut text = "\
fn step(a: f32, b: f32, n: i32, x: f32, y: f32) {
    let inside = a * a + b * b <= 4
    (if inside then a * a - b * b + x else a, if inside then 2 * a * b + y else b, if inside then n + 1 else n)
}
fn main(x: f32[h, w], y: f32[h, w]) {
    let (a0, b0, n0) = (x * 0, y * 0, i32(x * 0))
"
    .to_owned();
    for k in 1..=256 {
        let before = k - 1;
        text += &format!("    let (a{k}, b{k}, n{k}) = step(a{before}, b{before}, n{before}, x, y)\n");
    }
    text + "    n256\n}\n"
}

#[test]
fn a_large_program_fits_two_screens() {
    let folder = folder(&[("m.fl", &mandelbrot())]);
    let text = |line: &str| String::from_utf8(fuseloop(folder.path(), line).stdout).unwrap();
    let short = text("explain m.fl");
    assert!(short.lines().count() <= 100, "{short}");
    // Kernels that differ only in names are shown once, `let`s keep their names, and decisions on
    // the same line of the source are merged.
    assert!(short.contains(", with other arrays: `a"), "{short}");
    assert!(!short.contains("the part in"), "{short}");
    assert!(short.contains("256 times") && short.contains("more lines (--all)"), "{short}");
    assert!(short.matches("\nnote: ").count() <= 4, "{short}");
    let all = text("explain m.fl --all");
    assert!(all.lines().count() > 5000 && !all.contains("(--all)"));
}

/// The notes on pairs that move the most come first, and those that move only a few bytes are
/// counted.
#[test]
fn notes_are_sorted_and_ties_folded() {
    let source = "\
fn blurred(x: f32[n], w: f32[m]) {
    let e = exp(w - max(w))
    let y = e / sum(e)
    let d = exp(x - max(x))
    let z[i] = d[i] + d[i + 1] + d[i + 2]
    (y, z)
}
";
    let folder = folder(&[("s.fl", source)]);
    let text = String::from_utf8(fuseloop(folder.path(), "explain s.fl n=1000 m=100").stdout).unwrap();
    let (_, notes) = text.split_once("\nnote: ").unwrap();
    insta::assert_snapshot!(notes);
}

#[test]
fn graphs() {
    let folder = folder(&[("p.fl", PROGRAMS)]);
    insta::assert_snapshot!(session(folder.path(), "explain p.fl --fn shares --format dot"));
}

#[test]
fn fusion_more_than_halves_what_moves() {
    let folder = folder(&[("p.fl", PROGRAMS)]);
    let chain = json(folder.path(), "explain p.fl --fn chain n=1000000 --format json");
    // 28 MB become 12.
    assert_eq!(chain["before"]["bytes"]["value"], 28_000_000);
    assert_eq!(chain["after"]["bytes"]["value"], 12_000_000);
    assert_eq!(chain["kernels"]["before"], 3);
    assert_eq!(chain["kernels"]["after"], 1);
    assert_eq!(chain["after"]["loads"]["value"], 2_000_000);
    let none = json(folder.path(), "explain p.fl --fn chain n=1000000 --format json --fuse none");
    assert_eq!(none["before"], none["after"]);
    assert_eq!(none["pairs"][0]["reason"], "disabled");
}

#[test]
fn mistakes_on_the_command_line() {
    let folder =
        folder(&[("p.fl", PROGRAMS), ("q.fl", "fn q(x: f32[n], y: f32[m]) = x[::2] + y"), ("c.fl", "fn c() = 1")]);
    let lines = [
        "explain p.fl",
        "explain p.fl --fn chain k=3",
        "explain p.fl --fn chain n=3 n=4",
        "explain p.fl --fn chain n=-1",
        "explain p.fl --fn chain n=x",
        "explain p.fl --fn chain --format pdf",
        "explain p.fl --fn chain --fuse kloop,fast",
        "explain q.fl n=9 m=4",
        "explain c.fl n=9",
    ];
    insta::assert_snapshot!(lines.iter().map(|line| session(folder.path(), line)).collect::<String>());
}

#[test]
fn no_choice_of_passes_changes_a_result() {
    let folder = folder(&[("p.fl", PROGRAMS)]);
    let run = |fuse: &str| {
        let line = format!("run p.fl --fn softmax_rows x=random:5x7 --fuse {fuse}");
        fuseloop(folder.path(), &line)
    };
    let all = run("all");
    assert!(all.status.success());
    for fuse in ["none", "kloop", "kloop,nest,siblings"] {
        assert_eq!(run(fuse).stdout, all.stdout, "{fuse}");
    }
}

#[test]
fn functions_are_held_to_their_kernels() {
    let source = "@kernels(1)\nfn shares(x: f32[n]) = x / sum(x)\n@kernels(1)\nfn chain(x: f32[n]) = relu(x * 2) + 1\n";
    let folder = folder(&[("k.fl", source)]);
    let lines = [
        "check k.fl",
        "check k.fl --format json",
        "run k.fl --fn shares x=ones:3",
        "run k.fl --fn shares x=ones:3 --fuse none",
        // Passes that the user disables for comparison do not count.
        "run k.fl --fn chain x=ones:3 --fuse none",
    ];
    insta::assert_snapshot!(lines.iter().map(|line| session(folder.path(), line)).collect::<String>());
    assert!(fuseloop(folder.path(), "explain k.fl --fn shares").status.success(), "what is refused can be explained");
}

/// The names in the first column of the table under a heading.
fn fields(page: &str, heading: &str) -> Vec<String> {
    let section = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("there is no `{heading}`")).1;
    let lines = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    lines.filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned())).collect()
}

/// Only with `--best`: how far the plan is from the partition that moves the fewest bytes, or that
/// the program is too large to search.
#[test]
fn the_best_partition_is_looked_for_where_it_is_asked_for() {
    let sum = format!("fn sums(x: f32[n]) = {}\n", vec!["x"; 20].join(" + "));
    let folder = folder(&[("p.fl", "fn f(x: f32[n]) = exp(x * 2)\n"), ("large.fl", &sum)]);
    let lines = |arguments: &str| -> Vec<String> {
        let text = session(folder.path(), arguments);
        text.lines().filter(|line| line.contains("best partition")).map(|line| line.trim().to_owned()).collect()
    };
    assert!(lines("explain p.fl").is_empty());
    assert_eq!(lines("explain p.fl --best"), ["best partition: moves as many bytes as this plan"]);
    let apart =
        "best partition: 1 kernel that would move 8 * n bytes (-50 %), in 0.53 times the time by the cost model";
    assert_eq!(lines("explain p.fl --best --fuse none"), [apart]);
    let large = "best partition: not looked for, since there are more than 14 operations";
    assert_eq!(lines("explain large.fl --best"), [large]);
}

#[test]
fn the_documentation_lists_every_field() {
    let page = include_str!("../../../docs/json.md");
    let folder = folder(&[("p.fl", PROGRAMS)]);
    let explanation = json(folder.path(), "explain p.fl --fn shares --format json --device gpu --best --schedule");
    let documented = [
        ("## `explanation`", &explanation, 1),
        ("### Each of `operations`", &explanation["operations"][0], 0),
        ("### `before` and `after`", &explanation["after"], 0),
        ("### Each of their `kernels`", &explanation["after"]["kernels"][0], 0),
        ("### Each of `pairs`", &explanation["pairs"][0], 0),
        ("### Each of `partition`", &explanation["partition"][0], 0),
        ("### `best`", &explanation["best"], 0),
        ("### Each of `schedule`", &explanation["schedule"][0], 0),
    ];
    for (heading, object, untold) in documented {
        let mut fields = fields(page, heading);
        // Every line has a type.
        fields.extend((0..untold).map(|_| "type".to_owned()));
        fields.sort();
        let mut found: Vec<_> = object.as_object().unwrap().keys().cloned().collect();
        found.sort();
        assert_eq!(fields, found, "{heading}");
    }
    let amount: Vec<_> = explanation["after"]["bytes"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(amount, ["exact", "formula", "value"]);
}
