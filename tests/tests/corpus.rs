//! Every case of every file in `programs/` and `errors/`, through every engine.

use std::path::Path;

use libtest_mimic::{Arguments, Failed, Trial};
use tests::corpus::cases;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut trials = vec![];
    for folder in ["programs", "errors"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("the corpus is there");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("the corpus is readable").path()).collect();
        paths.sort();
        for path in paths {
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
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
