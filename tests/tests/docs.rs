//! The programs of the documentation: each block checks, or gives the error that it names.

use std::fmt::Write;

/// Blocks of a page headed by three backquotes and `fl`, with the error that each must give.
fn blocks(page: &str) -> Vec<(usize, Option<String>, String)> {
    let mut found = vec![];
    let mut open: Option<(usize, Option<String>, String)> = None;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(head)) => {
                let mut words = head.split_whitespace();
                let error = match (words.next(), words.next(), words.next()) {
                    (Some("fl"), Some("error"), code) => code.map(str::to_string),
                    (Some("fl"), ..) => None,
                    _ => Some("other".into()),
                };
                open = Some((number + 1, error, String::new()));
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some((_, _, text)), None) => writeln!(text, "{line}").unwrap(),
            (None, None) => {}
        }
    }
    found.retain(|(_, error, _)| error.as_deref() != Some("other"));
    found
}

#[test]
fn programs_of_the_language_reference_mean_what_it_says() {
    let page = include_str!("../../docs/language.md");
    let blocks = blocks(page);
    assert!(blocks.len() > 8, "the page has its programs");
    for (line, error, source) in blocks {
        let file = grammar::parse(&source).unwrap_or_else(|e| panic!("line {line}: {e:?}"));
        let found = match compiler::check::check_all(&file) {
            Ok(_) => None,
            Err(errors) => Some(errors[0].code.to_string()),
        };
        assert_eq!(found, error, "the block at line {line}");
    }
}
