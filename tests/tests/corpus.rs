//! Runs every case of every file in `programs/` and `errors/`, and every function of every example
//! and of the benchmark, on every engine, unfused and fused.

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};
use tests::corpus::cases;
use tests::examples;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut trials = vec![];
    for folder in ["programs", "errors"] {
        for path in fl_files(&root.join(folder)) {
            let source = std::fs::read_to_string(&path).expect("the corpus is UTF-8");
            let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let cases = cases(&source);
            assert!(!cases.is_empty(), "{file} has no case");
            for case in cases {
                let source = source.clone();
                let name = format!("{folder}/{file}: {}", case.text);
                trials.push(Trial::test(name, move || case.check(&source).map_err(Failed::from)));
            }
        }
    }
    for folder in ["examples", "bench"] {
        for path in fl_files(&root.join("..").join(folder)) {
            let source = std::fs::read_to_string(&path).expect("an example is UTF-8");
            let name = format!("{folder}/{}", path.file_name().unwrap_or_default().display());
            trials.push(Trial::test(name, move || examples::hold(&source).map_err(Failed::from)));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// The programs of a folder.
fn fl_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("the folder is readable").path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "fl")).collect();
    paths.sort();
    paths
}
