//! A program taken apart into files: all functions but the entry move to other files, and those of
//! the shipped libraries are used from there.

use std::collections::{BTreeMap, BTreeSet};

use fuseloop::{Errors, Loader, Located, NotRead, Program};
use grammar::ast::Function;

use crate::syntax::{mentions, text};

/// A program with the files that it uses.
#[derive(Debug, Default)]
pub struct Linked {
    /// The program.
    pub program: String,
    /// The text of each file.
    files: BTreeMap<&'static str, String>,
    /// Whether it uses a shipped library.
    pub of_library: bool,
}

/// The names of the files. Each uses those before it.
const FILES: [&str; 2] = ["first.fl", "second.fl"];

impl Linked {
    /// The parts of a program; `None` if there is nothing but the entry.
    pub fn new(source: &str, entry: &str) -> Option<Linked> {
        let file = grammar::parse(source).ok()?;
        let start = |one: &Function| one.decorators.first().map_or(one.span.start, |first| first.span.start) as usize;
        let (own, others): (Vec<&Function>, Vec<&Function>) =
            file.functions.iter().partition(|one| one.name.text == entry);
        let [own] = own[..] else { return None };
        let program = source.get(start(own)..own.span.end as usize)?;
        let mut shipped: Vec<(&str, BTreeSet<&str>)> = vec![];
        for library in compiler::library::ALL {
            let theirs = grammar::parse(library.text).ok()?;
            let theirs: BTreeSet<&str> = theirs.functions.iter().map(|one| text(library.text, one.span)).collect();
            let same = others.iter().filter(|one| theirs.contains(text(source, one.span)));
            shipped.push((library.name, same.map(|one| one.name.text.as_str()).collect()));
        }
        let rest: Vec<&str> = others
            .iter()
            .filter(|one| !shipped.iter().any(|(_, names)| names.contains(one.name.text.as_str())))
            .map(|one| text(source, one.span))
            .collect();
        if others.is_empty() {
            return None;
        }
        // The libraries that a text calls.
        let uses = |body: &str| -> String {
            let of = |(library, names): &(&str, BTreeSet<&str>)| {
                let called: Vec<&str> = names.iter().copied().filter(|name| mentions(body, name)).collect();
                if called.is_empty() { String::new() } else { format!("use {library} ({})\n", called.join(", ")) }
            };
            shipped.iter().map(of).collect()
        };
        let mut linked = Linked { of_library: !uses(program).is_empty(), ..Linked::default() };
        let mut before = String::new();
        for (name, functions) in FILES.iter().zip(rest.chunks(rest.len().div_ceil(FILES.len()).max(1))) {
            let body = functions.join("\n");
            linked.of_library |= !uses(&body).is_empty();
            linked.files.insert(name, format!("{before}{}{body}\n", uses(&body)));
            before += &format!("use \"{name}\"\n");
        }
        linked.program = format!("{before}{}{program}\n", uses(program));
        Some(linked)
    }

    /// The program, read with its files.
    ///
    /// # Errors
    ///
    /// Those of all the files.
    pub fn read(&self) -> Result<Program, Errors> {
        Program::parse_with(self.program.as_str(), self)
    }

    /// Whether it uses a file.
    pub fn of_file(&self) -> bool {
        !self.files.is_empty()
    }
}

impl Loader for Linked {
    fn locate(&self, path: &str, _: Option<&Located>) -> Result<Located, NotRead> {
        Ok(Located { id: path.into(), path: path.into() })
    }

    fn read(&self, file: &Located) -> Result<String, NotRead> {
        let named = file.id.to_str().and_then(|name| self.files.get(name));
        named.cloned().ok_or_else(|| NotRead(format!("there is no file `{}`", file.id.display())))
    }
}
