//! The documentation is correct: its programs check or give the errors that they name, every error
//! has its page, and the suggestion of a page's error fixes its example.
//!
//! `UPDATE_DOCS=1` rewrites the generated list of errors.

use std::ops::Range;
use std::path::Path;

use fuseloop::render::draw;
use fuseloop::{Code, Source, Style, errors};
use tests::page::blocks;

/// Codes with no example on their page: no user program should give them, only one in Rust, or only
/// with a GPU.
const NO_EXAMPLE: &[u16] = &[212, 242, 243, 260, 261, 262, 263, 299];

/// Codes with a session with files as their example, which `cli/tests/sessions.rs` runs.
const SESSIONS: [Range<u16>; 4] = [160..161, 170..171, 173..175, 300..400];

fn assert_no_faults(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n\n"));
}

#[test]
fn programs_of_the_language_reference_mean_what_it_says() {
    let blocks = blocks(include_str!("../../../docs/language.md"));
    assert!(blocks.len() > 8, "the page has its programs");
    assert_no_faults(&blocks.iter().filter_map(|block| block.fault()).collect::<Vec<_>>());
}

#[test]
fn programs_of_the_page_on_derivatives_check() {
    let blocks = blocks(include_str!("../../../docs/derivatives.md"));
    assert!(blocks.len() >= 3, "the page has its programs");
    assert_no_faults(&blocks.iter().filter_map(|block| block.fault()).collect::<Vec<_>>());
}

#[test]
fn programs_of_the_page_for_numpy_users_check() {
    let blocks = blocks(include_str!("../../../docs/numpy.md"));
    assert!(blocks.len() >= 5, "the page has its programs");
    assert_no_faults(&blocks.iter().filter_map(|block| block.fault()).collect::<Vec<_>>());
}

#[test]
fn every_error_has_a_page_whose_examples_give_it() {
    let mut faults = vec![];
    for entry in errors::all() {
        let code = entry.code.to_string();
        let title = format!("# {code}: {}", entry.title);
        if entry.page.lines().next() != Some(&*title) {
            faults.push(format!("docs/errors/{code}.md does not begin with `{title}`"));
            continue;
        }
        let blocks = blocks(entry.page);
        let wrong = blocks.iter().filter(|block| block.error.is_some()).count();
        if !NO_EXAMPLE.contains(&entry.code.0) && !SESSIONS.iter().any(|codes| codes.contains(&entry.code.0)) {
            let own = blocks.first().is_some_and(|block| block.error.as_ref() == Some(&code));
            if !own || wrong == blocks.len() {
                faults.push(format!("{code}: a page has an example of its error, then one that is right"));
            }
        }
        faults.extend(blocks.iter().filter_map(|block| Some(format!("{code}, {}", block.fault()?))));
    }
    let numbers: Vec<u16> = errors::all().map(|entry| entry.code.0).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "a number stands for one error: {numbers:?}");
    let stray = errors::pages().filter(|page| !numbers.contains(page));
    faults.extend(stray.map(|page| format!("docs/errors/{}.md is the page of no error", Code(page))));
    assert!(numbers.len() >= 60, "there are {} errors", numbers.len());
    assert_no_faults(&faults);
}

/// The first example of each page, drawn: program, message and suggestion.
#[test]
fn what_each_error_says() {
    let mut all = String::new();
    for entry in errors::all() {
        let Some(block) = blocks(entry.page).into_iter().find(|block| block.error.is_some()) else { continue };
        let (source, report) = block.outcome();
        let report = report.expect("the example has its error");
        all += &draw(&Source::from(source.as_str()), &report, Style::Plain);
        all += "\n\n";
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_list_of_errors_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors/README.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, errors::index()).expect("the list can be written");
    }
    let list = std::fs::read_to_string(path).unwrap_or_default();
    assert!(list == errors::index(), "`UPDATE_DOCS=1 cargo test --test all docs::` rewrites it");
}
