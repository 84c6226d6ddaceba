//! No program text causes a panic: the programs of the examples, the corpus and the reference are
//! checked and lowered, or refused, with words removed, inserted or exchanged.
//!
//! 1,000 mutants, or as many as `PROPTEST_CASES` says.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// The material for mutants: each program as its words, with the blanks after them.
fn programs() -> Vec<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = vec![];
    for folder in ["examples", "tests/programs", "tests/errors", "grammar/tests/all/programs"] {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { continue };
        let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        paths.sort();
        for path in paths.iter().filter(|p| p.extension().is_some_and(|e| e == "fl")) {
            found.push(words(&std::fs::read_to_string(path).unwrap()));
        }
    }
    assert!(found.len() > 40, "the programs are where they were");
    found
}

fn words(source: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![];
    for c in source.lines().filter(|l| !l.starts_with('#')).flat_map(|l| l.chars().chain(['\n'])) {
        let joins = |w: &String| w.chars().all(|p| p.is_alphanumeric() || p == '_' || p == '.');
        match words.last_mut() {
            Some(last) if c.is_whitespace() => last.push(c),
            Some(last) if (c.is_alphanumeric() || c == '_' || c == '.') && joins(last) => last.push(c),
            _ => words.push(c.to_string()),
        }
    }
    words
}

/// 0 for names, 1 for numbers, and each mark by itself.
fn class(word: &str) -> u32 {
    match word.trim_end().chars().next() {
        Some(c) if c.is_alphabetic() => 0,
        Some(c) if c.is_ascii_digit() => 1,
        Some('+' | '-' | '*' | '/' | '%' | '@' | '<' | '>') => 2,
        Some(c) => 3 + u32::from(c),
        None => 3,
    }
}

/// An edit of a program: (which edit, where, from where).
type Edit = (u8, prop::sample::Index, prop::sample::Index, prop::sample::Index);

fn mutate(programs: &[Vec<String>], which: usize, edits: &[Edit]) -> String {
    let mut words = programs[which].clone();
    for (edit, at, from, word) in edits.iter().filter(|_| !programs[which].is_empty()) {
        if words.is_empty() {
            break;
        }
        let k = at.index(words.len());
        let donor = &programs[from.index(programs.len())];
        match edit % 5 {
            0 => drop(words.remove(k)),
            1 => words.insert(k, donor[word.index(donor.len())].clone()),
            // Most often a name for a name, a number for a number, an operator for an operator.
            2 | 3 => {
                let from = if edit % 5 == 2 { donor } else { &programs[which] };
                let start = word.index(from.len());
                let alike = from[start..].iter().chain(&from[..start]).find(|w| class(w) == class(&words[k]));
                words[k] = alike.cloned().unwrap_or_default();
            }
            _ => {
                let end = (k + 12).min(words.len());
                let piece = words[k..end].to_vec();
                let to = word.index(words.len());
                words.splice(to..to, piece);
            }
        }
    }
    words.concat()
}

#[test]
fn no_mutant_is_a_panic() {
    let programs = programs();
    let config = crate::random_cases(1000, 3);
    let index = any::<prop::sample::Index>;
    let edits = prop::collection::vec((any::<u8>(), index(), index(), index()), 1..4);
    let (mut refused, mut lowered) = (0, 0);
    let mut counts = (&mut refused, &mut lowered);
    let tally = std::cell::RefCell::new(&mut counts);
    let result = TestRunner::new(config).run(&(index(), edits), |(which, edits)| {
        let source = mutate(&programs, which.index(programs.len()), &edits);
        let mut tally = tally.borrow_mut();
        match grammar::parse(&source).and_then(|file| compiler::check::check_all(&file)) {
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                let inside = |l: &grammar::Label| source.get(l.span.start as usize..l.span.end as usize).is_some();
                prop_assert!(
                    errors.iter().all(|e| e.labels.iter().all(inside)),
                    "a span outside\n{source}\n{errors:?}"
                );
                *tally.0 += 1;
            }
            Ok(all) => {
                for checked in all {
                    let program = compiler::pipeline::compile(&checked, &compiler::pipeline::Options::default());
                    prop_assert!(program.is_ok(), "{:?}\n{source}", program.err());
                }
                *tally.1 += 1;
            }
        }
        Ok(())
    });
    println!("{refused} refused, {lowered} lowered");
    if let Err(error) = result {
        panic!("{error}");
    }
}
