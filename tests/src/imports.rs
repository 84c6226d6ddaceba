//! Which files of a crate import which: from the paths in their code that lead to another module,
//! in `use` declarations and elsewhere. A module of tests at the end of a file does not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{File, lex};

/// Each file with the files that it imports from, by their paths.
pub type Imports<'f> = BTreeMap<&'f str, BTreeSet<&'f str>>;

/// The imports among these files of one crate.
pub fn imports(files: &[File]) -> Imports<'_> {
    let modules: BTreeMap<Vec<&str>, &str> = files.iter().map(|file| (module(&file.path), &*file.path)).collect();
    let mut all = Imports::new();
    for File { path, text } in files {
        let code = lex(text).code;
        let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let named = paths(code).into_iter().filter_map(|named| target(&modules, &module(path), &named));
        all.insert(path, named.filter(|to| to != path).collect());
    }
    all
}

/// The circles of files that import one another, directly or through others.
pub fn circles<'f>(imports: &Imports<'f>) -> BTreeSet<BTreeSet<&'f str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports.keys().map(|from| (*from, reach(imports, from))).collect();
    let with = |from: &&str| reached[from].iter().copied().filter(|to| reached[to].contains(from)).collect();
    reached.keys().map(with).filter(|circle: &BTreeSet<&str>| !circle.is_empty()).collect()
}

/// The files that lead somewhere from a file.
fn reach<'f>(imports: &Imports<'f>, from: &'f str) -> BTreeSet<&'f str> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(next) = left.pop() {
        left.extend(imports[next].iter().copied().filter(|to| reached.insert(*to)));
    }
    reached
}

/// The module of a file, as names from the root of its crate.
fn module(path: &str) -> Vec<&str> {
    let inside = path.rsplit_once("src/").map_or(path, |(_, inside)| inside);
    let mut names: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    names.pop_if(|last| ["mod", "lib", "main"].contains(last));
    names
}

/// The file with the item that a path in a module means, if it is one of these.
fn target<'f>(modules: &BTreeMap<Vec<&'f str>, &'f str>, here: &[&str], path: &[&str]) -> Option<&'f str> {
    let ups = path.iter().take_while(|name| **name == "super").count();
    let (base, rest) = match path[0] {
        "crate" => (&here[..0], &path[1..]),
        "self" => (here, &path[1..]),
        "super" => (&here[..here.len().checked_sub(ups)?], &path[ups..]),
        // A module inside of this one, or a crate.
        _ => (here, path),
    };
    let full = [base, rest].concat();
    let least = base.len() + usize::from(rest.len() == path.len());
    (least..=full.len()).rev().find_map(|length| modules.get(&full[..length]).copied())
}

/// The paths of several names in some code. `a::{b, c::d}` stands for `a::b` and `a::c::d`.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let tokens = tokens(code);
    let (mut found, mut at) = (vec![], 0);
    while at < tokens.len() {
        // `pub(in crate::cpu)` imports nothing.
        let scope = at >= 2 && tokens[at - 2..at] == ["(", "in"];
        if is_name(tokens[at]) && tokens.get(at + 1) == Some(&"::") && !scope {
            at = path(&tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads the path, or the group of paths, that begins at a token. Returns where it ends.
fn path<'c>(tokens: &[&'c str], mut at: usize, before: &[&'c str], found: &mut Vec<Vec<&'c str>>) -> usize {
    let mut names = before.to_vec();
    loop {
        match tokens.get(at) {
            Some(&"{") => {
                while at < tokens.len() && tokens[at] != "}" {
                    at = path(tokens, at + 1, &names, found);
                    at += tokens[at..].iter().take_while(|token| ![",", "}"].contains(token)).count();
                }
                return at + 1;
            }
            Some(name) if is_name(name) => names.push(name),
            _ => break,
        }
        at += 1;
        if tokens.get(at) != Some(&"::") {
            break;
        }
        at += 1;
    }
    if names.len() > before.len() {
        found.push(names);
    }
    at
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The names, the `::` and the other characters of some code.
fn tokens(code: &str) -> Vec<&str> {
    let (mut found, mut rest) = (vec![], code.trim_start());
    while let Some(first) = rest.chars().next() {
        let in_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = match rest.find(|c| !in_name(c)) {
            Some(0) if rest.starts_with("::") => 2,
            Some(0) => first.len_utf8(),
            Some(length) => length,
            None => rest.len(),
        };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_in_every_way_to_import() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let files = [
            file("a/src/one.rs", "use super::two::{\n    self, // super::five\n    Two,\n};\nuse std::fmt;"),
            file("a/src/two/mod.rs", "mod three;\npub(in crate::five) fn f() { three::f::<crate::four::Four>() }"),
            file("a/src/two/three.rs", "use crate::{four::{self, Four}, six as other};"),
            file("a/src/four.rs", "fn f() -> super::one::One { \"crate::five\" }"),
            file("a/src/five.rs", "use crate::four;"),
        ];
        let found = circles(&imports(&files));
        let circle = ["a/src/four.rs", "a/src/one.rs", "a/src/two/mod.rs", "a/src/two/three.rs"];
        assert_eq!(found, BTreeSet::from([BTreeSet::from(circle)]));
    }
}
