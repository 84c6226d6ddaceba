//! Formatting changes no program: those of the repository, of the program generator and of the
//! grammar, unmodified and with line ends, comments and long names inserted.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tests::format::{check, noisy, program};
use tests::generate::recipes;

/// Checks a property on `cases` cases, or as many as `PROPTEST_CASES` says, and shows the program
/// that violates it.
fn hold<S: Strategy>(cases: u32, of: &S, property: impl Fn(&S::Value) -> Result<(), String>) {
    let mut config = Config { failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    match TestRunner::new(config).run(of, |case| property(&case).map_err(TestCaseError::fail)) {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(error) => panic!("{error}"),
    }
}

fn words(most: usize) -> impl Strategy<Value = Vec<u16>> {
    vec(any::<u16>(), 0..most)
}

/// Every program of the repository in a file or on a page, with its place.
fn programs() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = vec![];
    for folder in ["examples", "tests/programs", "tests/errors", "docs", "docs/errors", "."] {
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("fl") => found.push((path.clone(), read_to_string(&path).unwrap())),
                Some("md") => {
                    let page = read_to_string(&path).unwrap();
                    let blocks = page.split("\n```fl").skip(1).filter_map(|block| block.split_once('\n'));
                    let blocks = blocks.filter_map(|(_, block)| block.split_once("```"));
                    found.extend(blocks.map(|(block, _)| (path.clone(), block.to_owned())));
                }
                _ => {}
            }
        }
    }
    found.retain(|(_, source)| grammar::parse(source).is_ok());
    assert!(found.len() > 60, "{}", found.len());
    found
}

#[test]
fn programs_of_the_repository() {
    for (path, source) in programs() {
        check(&source).unwrap_or_else(|message| panic!("{}: {message}", path.display()));
    }
}

#[test]
fn noisy_programs_of_the_repository() {
    let all: Vec<String> = programs().into_iter().map(|(_, source)| source).collect();
    let cases = (proptest::sample::select(all), words(400));
    hold(1000, &cases, |(source, words)| check(&noisy(source, words)));
}

#[test]
fn random_programs() {
    hold(1000, &(recipes(), words(400)), |(recipe, words)| {
        let source = recipe.program().source;
        check(&source).and_then(|()| check(&noisy(&source, words)))
    });
}

#[test]
fn programs_of_the_grammar() {
    hold(3000, &(words(150), words(400)), |(form, words)| {
        let source = program(form);
        check(&source).and_then(|()| check(&noisy(&source, words)))
    });
}
