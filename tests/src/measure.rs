//! Measures of Rust code that the program `counts` prints, taken from its text: functions and their
//! parameters, wildcards in matches, large types, and circles of imports. Good to a percent.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{File, lex};

/// The measures of some files.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Files.
    pub files: usize,
    /// Lines, comments and blank ones included.
    pub lines: usize,
    /// The length of each function in lines, ascending.
    pub functions: Vec<usize>,
    /// Functions with a tuple pattern among their parameters.
    pub tuples: usize,
    /// Arms of matches on `_`.
    pub wildcards: usize,
    /// Comments inside code: neither documentation nor headers.
    pub inline: usize,
    /// For each type with methods, by its outermost folder and name, their number.
    pub methods: BTreeMap<String, usize>,
    /// For each struct, likewise, the number of its fields.
    pub fields: BTreeMap<String, usize>,
    /// The files of each circle of direct imports, the largest circle first.
    pub circles: Vec<Vec<String>>,
}

/// The text of a file without its tests, if they come last.
fn product(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests").map_or(text, |(product, _)| product)
}

/// Measures the sources of a package, which lie in `folder`.
pub fn measure(files: &[File], folder: &str) -> Code {
    let mut code = Code::default();
    let mut modules = BTreeMap::new();
    for file in files {
        let lexed = lex(product(&file.text));
        let path = inside(&file.path, folder);
        code.files += 1;
        code.lines += product(&file.text).lines().count();
        code.inline += lexed.comments.iter().filter(|comment| comment.marker == "//").count();
        code.wildcards += lexed.code.matches("_ =>").count();
        for (head, body) in items(&lexed.code, "fn ") {
            code.functions.push(body.lines().count().max(1));
            code.tuples += usize::from(has_tuple(head));
        }
        for (head, body) in items(&lexed.code, "struct ") {
            code.fields.insert(named(path, head), body.matches(": ").count());
        }
        for (head, body) in items(&lexed.code, "impl") {
            let of = head.rsplit_once(" for ").map_or(head, |(_, of)| of);
            let of = if of.starts_with('<') { of.split_once("> ").map_or(of, |(_, of)| of) } else { of };
            *code.methods.entry(named(path, of.trim())).or_default() += items(body, "fn ").len();
        }
        modules.insert(module(&file.path, folder), lexed.code);
    }
    code.functions.sort_unstable();
    code.circles = circles(&modules);
    code
}

/// The items that begin with a keyword: for each the text between the keyword and its braces, and
/// the braces with their contents.
fn items<'c>(code: &'c str, keyword: &str) -> Vec<(&'c str, &'c str)> {
    let mut found = vec![];
    for (at, _) in code.match_indices(keyword) {
        let starts = code[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '_');
        let rest = &code[at + keyword.len()..];
        let Some(open) = rest.find(['{', ';']) else { continue };
        if starts && rest[open..].starts_with('{') {
            found.push((&rest[..open], braces(&rest[open..])));
        }
    }
    found
}

/// A text up to the brace that closes the one at its beginning.
fn braces(text: &str) -> &str {
    let mut depth = 0;
    for (at, brace) in text.match_indices(['{', '}']) {
        depth += if brace == "{" { 1 } else { -1 };
        if depth == 0 {
            return &text[..=at];
        }
    }
    text
}

/// The type at the beginning of a text, without parameters, behind the outermost folder of its file:
/// types of one name in different folders are different.
fn named(path: &str, text: &str) -> String {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    let name = text[..end].rsplit(':').next().unwrap_or_default();
    path.split_once('/').map_or(name.to_owned(), |(folder, _)| format!("{folder}::{name}"))
}

/// The path of a file within `src`.
fn inside<'p>(path: &'p str, folder: &str) -> &'p str {
    path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/').trim_start_matches("src/")
}

/// Whether a parameter of a function is a tuple pattern.
fn has_tuple(head: &str) -> bool {
    let parameters = head.split_once('(').map_or("", |(_, parameters)| parameters);
    let mut depth = 0;
    let mut begins = true;
    for character in parameters.chars() {
        match character {
            '(' if begins && depth == 0 => return true,
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth -= 1,
            _ => {}
        }
        begins = depth == 0 && (character == ',' || begins && character.is_whitespace());
    }
    false
}

/// The path of a file's module: `cpu::nest` for `src/cpu/nest.rs`, and nothing for the root.
fn module(path: &str, folder: &str) -> String {
    let path = inside(path, folder).trim_end_matches(".rs").replace('/', "::");
    path.trim_end_matches("mod").trim_end_matches("::").trim_start_matches("lib").trim_start_matches("main").to_owned()
}

/// The modules that one imports, directly or not.
fn reached<'m>(from: &'m str, edges: &BTreeMap<&'m str, BTreeSet<&'m str>>) -> BTreeSet<&'m str> {
    let mut seen = BTreeSet::new();
    let mut left = vec![from];
    while let Some(next) = left.pop() {
        left.extend(edges[next].iter().filter(|to| seen.insert(**to)));
    }
    seen
}

/// The circles among modules that import one another, given as code by path.
fn circles(modules: &BTreeMap<String, String>) -> Vec<Vec<String>> {
    let edges: BTreeMap<&str, BTreeSet<&str>> =
        modules.iter().map(|(path, code)| (path.as_str(), imports(path, code, modules))).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> = edges.keys().map(|path| (*path, reached(path, &edges))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (path, all) in &reached {
        let circle: Vec<String> =
            all.iter().filter(|other| reached[**other].contains(path)).map(|other| (*other).to_owned()).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    let mut found: Vec<Vec<String>> = found.into_iter().collect();
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// The parts of a text between commas that are in no inner braces.
fn outer_parts(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let is_outer = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    text.split(is_outer).collect()
}

/// The other modules that one names by a path from `crate` or `super`.
fn imports<'m>(path: &str, code: &str, modules: &'m BTreeMap<String, String>) -> BTreeSet<&'m str> {
    let above = path.rsplit_once("::").map_or("", |(above, _)| above);
    let mut found = BTreeSet::new();
    for (root, base) in [("crate::", ""), ("super::", above)] {
        for (at, _) in code.match_indices(root) {
            let rest = &code[at + root.len()..];
            let group = rest.starts_with('{').then(|| braces(rest).trim_matches(['{', '}']));
            for part in group.map_or(vec![rest], outer_parts) {
                let end = part.trim().find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
                let named = &part.trim()[..end.unwrap_or(part.trim().len())];
                let mut to =
                    [base, named].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("::");
                // The longest beginning of the path that is a module.
                while !modules.contains_key(to.as_str()) && !to.is_empty() {
                    to = to.rsplit_once("::").map_or(String::new(), |(module, _)| module.to_owned());
                }
                found.extend(modules.get_key_value(to.as_str()).map(|(to, _)| to.as_str()).filter(|to| *to != path));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn functions_types_and_circles_are_counted() {
        let a = "use crate::b::B;\nstruct A { x: u8, y: u8 }\nimpl<'a> Show for A {\n    fn f((x, y): (u8, u8)) {\n        match x {\n            _ => {}\n        }\n    }\n}\n";
        let b = "use super::a;\npub struct B;\n// Why.\nfn g(f: fn((u8, u8))) {}\n";
        let code = measure(&[file("p/src/a.rs", a), file("p/src/b.rs", b), file("p/src/lib.rs", "//! Root.\n")], "p");
        assert_eq!((code.files, code.functions, code.tuples), (3, vec![1, 5], 1));
        assert_eq!((code.wildcards, code.inline), (1, 1));
        assert_eq!((code.fields["A"], code.methods["A"]), (2, 1));
        assert_eq!(code.circles, [["a", "b"]]);
    }
}
