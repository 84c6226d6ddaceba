//! The rules of the code base that a machine can check: which crate may import which, where
//! `unsafe` may occur, how long a file may be and which leftovers none may contain.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, MetadataCommand};
use tests::imports::{circles, imports};
use tests::source::{File, files, root};

/// The workspace crates that a crate may import: always, and in its tests.
const EDGES: &[(&str, &[&str], &[&str])] = &[
    ("grammar", &[], &[]),
    ("generate", &[], &[]),
    ("ir", &[], &[]),
    ("compiler", &["grammar", "ir"], &["interp"]),
    ("interp", &["grammar", "ir"], &[]),
    ("schedule", &["ir"], &["interp"]),
    ("backends", &["ir"], &["interp", "schedule", "guarded"]),
    ("model", &[], &[]),
    ("files", &["grammar", "ir"], &["reports"]),
    ("reports", &["grammar", "ir", "compiler"], &[]),
    ("fuseloop", &["grammar", "ir", "compiler", "schedule", "interp", "backends", "files", "reports"], &[]),
    // `fuseloop fuzz` runs the tester, which imports every stage.
    ("cli", &["fuseloop", "fuzzing"], &[]),
    ("playground", &["fuseloop"], &[]),
    ("tree-sitter-fuseloop", &[], &["grammar", "fuseloop"]),
    ("bench", &["fuseloop"], &[]),
    ("bench-gpu", &["fuseloop"], &[]),
    ("tests", &["grammar", "ir", "compiler", "schedule", "interp", "backends", "fuseloop", "fuzzing", "emulator"], &[]),
    (
        "fuzzing",
        &["grammar", "ir", "compiler", "schedule", "interp", "backends", "fuseloop", "emulator", "guarded", "opened"],
        &[],
    ),
    ("guarded", &[], &[]),
    ("opened", &["ir", "schedule", "backends", "guarded"], &[]),
    ("emulator", &[], &[]),
    ("fuzz", &["tests"], &[]),
];

/// Crates without `unsafe`, by the file that forbids it. (`bench` allows it only in `ceilings.rs`,
/// for non-temporal stores and a loop that must keep its one load.)
const SAFE: &[&str] = &[
    "grammar/src/lib.rs",
    "grammar/generate/src/lib.rs",
    "compiler/ir/src/lib.rs",
    "compiler/src/lib.rs",
    "schedule/src/lib.rs",
    "interp/src/lib.rs",
    "files/src/lib.rs",
    "reports/src/lib.rs",
    "src/lib.rs",
    "cli/src/main.rs",
    "bench/gpu/src/main.rs",
    "tests/src/lib.rs",
    "tests/emulator/src/lib.rs",
    "tests/fuzzing/src/lib.rs",
];

/// No file is longer.
const MAX_LINES: usize = 1000;

/// Folders with few files that import one another in a circle.
const LAYERED: &[&str] = &["backends/src/"];
/// The most files in such a circle.
const MOST_IN_CIRCLE: usize = 4;

/// Every source file of the workspace, with its path from the root.
fn sources() -> Vec<(String, String)> {
    let found: Vec<(String, String)> =
        files(&["rs", "lalrpop"]).into_iter().map(|file| (file.path, file.text)).collect();
    assert!(found.len() > 20, "the walk lost its way: {} files", found.len());
    found
}

fn report(faults: &[String]) {
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

#[test]
fn crates_import_what_the_table_says() {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".into(), "--locked".into()])
        .exec()
        .expect("cargo metadata answers");
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let mut faults = vec![];
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some((_, always, in_tests)) = EDGES.iter().find(|(crate_name, ..)| *crate_name == name) else {
            faults.push(format!("{name} is not in the table of crates"));
            continue;
        };
        for dependency in &package.dependencies {
            let to = dependency.name.as_str();
            let tests_only = dependency.kind == DependencyKind::Development;
            let allowed = if ours.contains(to) {
                always.contains(&to) || tests_only && in_tests.contains(&to)
            } else if to.starts_with("cranelift") {
                // Anyone may use the typed index maps, but not the code generator. `opened`
                // generates calls to functions with the types that a header declares.
                ["backends", "opened"].contains(&name) || to == "cranelift-entity"
            } else {
                to != "cudarc" || ["backends", "fuzzing"].contains(&name)
            };
            if !allowed {
                faults.push(format!("{name} imports {to}"));
            }
        }
    }
    report(&faults);
}

/// A new engine must not depend on another one: code that two of them need is in neither folder.
#[test]
fn engines_import_nothing_of_each_other() {
    let mut faults = vec![];
    for (path, text) in sources() {
        let others: &[&str] = match path.strip_prefix("backends/src/").and_then(|path| path.split_once('/')) {
            Some(("cpu", _)) => &["crate::ptx", "crate::cuda"],
            Some(("ptx", _)) => &["crate::cpu", "crate::cuda"],
            Some(("cuda", _)) => &["crate::cpu"],
            _ => continue,
        };
        for other in others {
            for (number, line) in text.lines().enumerate().filter(|(_, line)| line.contains(other)) {
                faults.push(format!("{path}:{} imports of another engine: {}", number + 1, line.trim()));
            }
        }
    }
    report(&faults);
}

#[test]
fn files_stand_in_layers() {
    let mut faults = vec![];
    for folder in LAYERED {
        let files: Vec<File> = files(&["rs"]).into_iter().filter(|file| file.path.starts_with(folder)).collect();
        let imports = imports(&files);
        assert!(imports.values().any(|to| to.len() > MOST_IN_CIRCLE), "no imports were found in {folder}");
        for circle in circles(&imports).iter().filter(|circle| circle.len() > MOST_IN_CIRCLE) {
            faults.push(format!("{} files of {folder} import one another in a circle:", circle.len()));
            for file in circle {
                let within: Vec<&str> = imports[file].intersection(circle).copied().collect();
                faults.push(format!("{file} imports {}", within.join(", ")));
            }
        }
    }
    report(&faults);
}

#[test]
fn unsafe_stands_in_the_backends_alone() {
    let sources = sources();
    let mut faults = vec![];
    for safe in SAFE {
        let text = sources.iter().find(|(path, _)| path == safe).map(|(_, text)| text.as_str());
        if !text.is_some_and(|text| text.lines().any(|line| line == "#![forbid(unsafe_code)]")) {
            faults.push(format!("{safe} does not forbid unsafe code"));
        }
    }
    report(&faults);
}

#[test]
fn files_have_a_header_and_a_bounded_length() {
    let mut faults = vec![];
    for (path, text) in sources() {
        let header = if path.ends_with(".rs") { "//! " } else { "//" };
        if !text.starts_with(header) {
            faults.push(format!("{path} does not start by saying what it is for"));
        }
        let lines = text.lines().count();
        if lines > MAX_LINES {
            faults.push(format!("{path} has {lines} lines, more than {MAX_LINES}"));
        }
    }
    report(&faults);
}

#[test]
fn nothing_is_left_lying_about() {
    // Each is written in two halves, so that this file does not find itself.
    let everywhere: Vec<String> = [
        ("TO", "DO"),
        ("FIX", "ME"),
        ("XX", "X"),
        ("todo", "!"),
        ("unimpl", "emented!"),
        ("#[ign", "ore"),
        ("#[al", "low("),
        ("#![al", "low("),
        (", al", "low("),
        ("dbg", "!("),
    ]
    .map(|(a, b)| format!("{a}{b}"))
    .into();
    // The compiler is a function of its input: hash order, files, the environment and clocks stay
    // outside.
    let in_compiler = ["HashMap", "HashSet", "std::fs", "std::env", "std::time", "println!"].map(String::from);
    let mut faults = vec![];
    for (path, text) in sources() {
        let compiler = path.starts_with("compiler/") && path.contains("/src/") && !path.contains("/tests");
        let needles = everywhere.iter().chain(if compiler { &in_compiler[..] } else { &[] });
        for needle in needles {
            if let Some(line) = text.lines().position(|line| line.contains(needle.as_str())) {
                faults.push(format!("{path}:{} has `{needle}`", line + 1));
            }
        }
    }
    report(&faults);
}
