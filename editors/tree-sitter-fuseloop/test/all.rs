//! The grammar for tree-sitter against the language's own parser, lexer and reference.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fuseloop::reference::{self, Kind};
use grammar::Highlight;
use tree_sitter::{Language, Node, Parser, Query, QueryCursor, StreamingIterator, Tree};

fn language() -> Language {
    tree_sitter_fuseloop::LANGUAGE.into()
}

fn parse(text: &str) -> Tree {
    let mut parser = Parser::new();
    parser.set_language(&language()).expect("the library knows the version of the parser");
    parser.parse(text, None).expect("no time limit")
}

/// Every file of the repository with this ending.
fn files(ending: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut found, mut left) = (vec![], vec![root]);
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(&folder).expect("the repository is readable") {
            let path = entry.expect("the repository is readable").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                let ours = !name.starts_with('.') && !["target", "node_modules"].contains(&name);
                left.extend(ours.then_some(path));
            } else if path.extension().is_some_and(|found| found == ending) {
                let text = std::fs::read_to_string(&path).expect("sources are UTF-8");
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

/// The programs of the repository: files, and blocks of its pages.
fn programs() -> Vec<(String, String)> {
    let mut programs: Vec<(String, String)> =
        files("fl").into_iter().map(|(path, text)| (path.display().to_string(), text)).collect();
    for (path, text) in files("md") {
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            if line.trim() == "```fl" {
                let block: Vec<&str> =
                    lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
                programs.push((format!("{}:{}", path.display(), number + 1), block.join("\n")));
            }
        }
    }
    assert!(programs.len() > 200, "the walk lost its way: {} programs", programs.len());
    programs
}

fn first_error(node: Node<'_>) -> Option<Range<usize>> {
    if node.is_error() || node.is_missing() {
        return Some(node.byte_range());
    }
    let mut cursor = node.walk();
    node.children(&mut cursor).filter(Node::has_error).find_map(first_error)
}

#[test]
fn programs_that_the_compiler_reads_have_no_errors() {
    let mut accepted = 0;
    for (name, text) in programs() {
        let own = grammar::parse(&text).is_ok();
        accepted += usize::from(own);
        if own && let Some(error) = first_error(parse(&text).root_node()) {
            panic!("{name}: {:?}", text.get(error.start.saturating_sub(40)..(error.end + 20).min(text.len())));
        }
    }
    assert!(accepted > 200, "{accepted} programs");
}

#[test]
fn line_ends_and_spaces_do_not_matter() {
    for (name, text) in programs().into_iter().filter(|(_, text)| grammar::parse(text).is_ok()) {
        let sexp = parse(&text).root_node().to_sexp();
        let carriage = text.replace('\n', "\r\n");
        assert_eq!(parse(&carriage).root_node().to_sexp(), sexp, "{name}");
        let formatted = grammar::format(&text).expect("it has no errors");
        assert_eq!(parse(&formatted).root_node().to_sexp(), sexp, "{name}");
    }
}

/// Every beginning of a text has a tree for all of it.
#[test]
fn half_typed_texts_are_parsed() {
    for (_, text) in programs().into_iter().filter(|(_, text)| text.len() < 600) {
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            assert_eq!(parse(&text[..at]).root_node().end_byte(), at.max(parse(&text[..at]).root_node().start_byte()));
        }
    }
}

/// The classes of the words of a text by the query, by their places.
fn highlighted(query: &Query, text: &str) -> BTreeMap<usize, (Range<usize>, String)> {
    let tree = parse(text);
    let mut cursor = QueryCursor::new();
    let mut matches = cursor.matches(query, tree.root_node(), text.as_bytes());
    let mut found = BTreeMap::new();
    while let Some(one) = matches.next() {
        for capture in one.captures() {
            let class = query.capture_names()[capture.index as usize].to_owned();
            let range = capture.node.byte_range();
            let before = found.insert(range.start, (range, class.clone()));
            assert!(before.is_none(), "two patterns match {:?}: {before:?}, {class}", capture.node);
        }
    }
    found
}

#[test]
fn words_have_the_classes_that_the_lexer_gives_them() {
    let query = Query::new(&language(), tree_sitter_fuseloop::HIGHLIGHTS_QUERY).expect("a valid query");
    for (name, text) in programs().into_iter().filter(|(_, text)| grammar::parse(text).is_ok()) {
        let found = highlighted(&query, &text);
        for (span, class) in grammar::highlight(&text) {
            let range = span.start as usize..span.end as usize;
            let word = &text[range.clone()];
            let Some((place, is)) = found.get(&range.start) else {
                panic!("{name}: `{word}` at {range:?} has no class")
            };
            let group = is.split('.').next().unwrap_or_default();
            let expected: &[&str] = match class {
                Highlight::Keyword => &["keyword"],
                Highlight::Type => &["type"],
                Highlight::Name => &["variable", "function", "constant", "type", "attribute", "module"],
                Highlight::Number => &["number"],
                Highlight::Text => &["string"],
                Highlight::Mark => &["operator", "punctuation", "attribute"],
                Highlight::Bracket => &["punctuation"],
                Highlight::Comment => &["comment"],
                Highlight::Wrong => &[],
            };
            assert!(expected.contains(&group) && *place == range, "{name}: `{word}` at {range:?} is {is} at {place:?}");
        }
    }
}

#[test]
fn the_functions_and_constants_of_the_language_are_known() {
    let query = Query::new(&language(), tree_sitter_fuseloop::HIGHLIGHTS_QUERY).expect("a valid query");
    let class = |text: &str, word: &str| {
        let at = text.find(word).expect("the text has the word");
        highlighted(&query, text).remove(&at).map(|(_, class)| class)
    };
    for entry in reference::ENTRIES {
        let name = entry.name();
        let (text, expected) = match entry.kind {
            Kind::Scalar | Kind::Whole => (format!("fn f(x: i8) = {name}(x)"), "function.builtin"),
            Kind::Reducer => (format!("fn f(x: i8[n]) = {name}[i](x[i])"), "function.builtin"),
            Kind::Conversion => (format!("fn f(x: i8) = {name}(x)"), "type.builtin"),
            Kind::Constant => (format!("fn f(x: i8) = {name}"), "constant.builtin"),
            Kind::Keyword => continue,
        };
        let at = text.rfind(&format!(" {name}")).expect("the text has the word") + 1;
        let found = highlighted(&query, &text).remove(&at).map(|(_, class)| class);
        assert_eq!(found.as_deref(), Some(expected), "{name}");
    }
    assert_eq!(class("fn f(x: i8) = mine(x)", "mine").as_deref(), Some("function.call"));
}

/// The declaration of each name by the query of scopes is where the compiler finds it.
#[test]
fn declarations_are_found() {
    let query = Query::new(&language(), tree_sitter_fuseloop::LOCALS_QUERY).expect("a valid query");
    let index = |name: &str| query.capture_index_for_name(name).expect("the query has the capture");
    let declared_by: Vec<u32> =
        [".function", ".parameter", ".var"].map(|kind| index(&format!("local.definition{kind}"))).into();
    for (name, text) in programs() {
        let Ok(file) = grammar::parse(&text) else { continue };
        let tree = parse(&text);
        let mut cursor = QueryCursor::new();
        let mut captures = cursor.captures(&query, tree.root_node(), text.as_bytes());
        let mut found = vec![];
        while let Some((one, at)) = captures.next() {
            let capture = one.captures()[*at];
            found.extend(declared_by.contains(&capture.index).then(|| capture.node.start_byte()));
        }
        for one in file.own().flat_map(|function| grammar::occurrences(&file, function)) {
            let Some(declared) = one.declared.filter(|_| one.text != "_") else { continue };
            assert!(found.contains(&(declared.start as usize)), "{name}: `{}` at {declared:?}", one.text);
        }
    }
}

/// `test/corpus` has texts with their trees, as `tree-sitter test` reads them. With `UPDATE_DOCS` set
/// they are written.
#[test]
fn the_corpus_has_its_trees() {
    const RULE: &str = "==================\n";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("test/corpus");
    let mut cases = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is readable") {
        let path = entry.expect("the corpus is readable").path();
        let text = std::fs::read_to_string(&path).expect("it is UTF-8");
        let mut parts = text.split(RULE).skip(1);
        let mut written = String::new();
        while let (Some(name), Some(case)) = (parts.next(), parts.next()) {
            let (source, _) = case.split_once("\n---\n").expect("a tree follows `---`");
            let tree = indented(&parse(source).root_node().to_sexp());
            written += &format!("{RULE}{name}{RULE}{source}\n---\n\n{tree}\n\n");
            cases += 1;
        }
        let written = written.trim_end().to_owned() + "\n";
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, written).expect("the corpus can be written");
        } else {
            assert!(text == written, "{} has other trees than\n{written}", path.display());
        }
    }
    assert!(cases > 5, "{cases} cases");
}

/// A tree with a node on each line.
fn indented(sexp: &str) -> String {
    let mut text = String::new();
    let mut depth = 0;
    for word in sexp.split(' ') {
        if word.starts_with('(') {
            let field = text.ends_with(": ");
            if !field && !text.is_empty() {
                text += &format!("\n{}", "  ".repeat(depth));
            }
            depth += 1;
        } else if !text.is_empty() {
            text += &format!("\n{}", "  ".repeat(depth));
        }
        text += word;
        depth -= word.matches(')').count();
        text += if word.ends_with(':') { " " } else { "" };
    }
    text
}
