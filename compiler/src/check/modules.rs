//! The functions of each file of a program, and which of them a name means there: one of the file
//! itself; else one that it picks from a file that it uses; else one of the files that it uses as a
//! whole. Functions of the language come last.
//!
//! So a file that is used can gain functions without changing what the names of its users mean, as
//! long as these define or pick what they call.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use grammar::Diagnostic;
use grammar::ast::{File, ModuleId, Name, Span, Use, Used};

use super::builtin::nearest;
use super::{Checker, codes};
use crate::library::Library;

/// The meaning of a function's name in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// No function of the program.
    Nothing,
    /// The function of that number.
    Function(usize),
    /// Several functions of files that it uses.
    Clash(Vec<usize>),
}

/// The files of a program, each with its functions by name.
pub(super) struct Modules<'a> {
    file: &'a File,
    own: SecondaryMap<ModuleId, BTreeMap<&'a str, usize>>,
}

impl<'a> Modules<'a> {
    /// Looks through the functions of all files. Reports names that a file defines twice, and
    /// picked names that it cannot have.
    pub fn new(file: &'a File, errors: &mut Vec<Diagnostic>) -> Modules<'a> {
        let mut own: SecondaryMap<ModuleId, BTreeMap<&str, usize>> = SecondaryMap::new();
        for (k, function) in file.functions.iter().enumerate() {
            let names = &mut own[function.module];
            if let Some(first) = names.get(function.name.text.as_str()) {
                errors.push(twice(&function.name, &file.functions[*first].name));
            } else {
                names.insert(function.name.text.as_str(), k);
            }
        }
        let modules = Modules { file, own };
        for (module, uses) in file.modules.iter().map(|(module, one)| (module, &one.uses)) {
            for one in uses {
                one.names.iter().for_each(|name| errors.extend(modules.wrong_pick(module, one, name)));
            }
        }
        modules
    }

    /// The error about a name that a file picks, if it is not in the used file or the file defines
    /// it itself.
    fn wrong_pick(&self, module: ModuleId, one: &Use, name: &Name) -> Option<Diagnostic> {
        let used = one.module?;
        if !self.own[used].contains_key(name.text.as_str()) {
            let message = format!("there is no function `{}` in {}", name.text, written(one));
            let error = Diagnostic::new(codes::NOT_IN_FILE, name.span, message);
            let names = self.own[used].keys().copied();
            return Some(match nearest(&name.text, names.clone()) {
                Some(near) => error.help(format!("did you mean `{near}`?")).suggest(name.span, near),
                None => error.help(format!("it has {}", listed(names))),
            });
        }
        let own = *self.own[module].get(name.text.as_str())?;
        Some(
            twice(&self.file.functions[own].name, name).help("rename the function, or leave the name out of the `use`"),
        )
    }

    /// The functions of a file, by name.
    pub fn own(&self, module: ModuleId) -> &BTreeMap<&'a str, usize> {
        &self.own[module]
    }

    /// The meaning of a name in a file.
    pub fn find(&self, module: ModuleId, name: &str) -> Meaning {
        if let Some(own) = self.own[module].get(name) {
            return Meaning::Function(*own);
        }
        let picked = self.used(module, name, |one| one.names.iter().any(|picked| picked.text == name));
        if picked != Meaning::Nothing {
            return picked;
        }
        self.used(module, name, |one| one.names.is_empty())
    }

    /// The functions of that name in the files of certain `use`s.
    fn used(&self, module: ModuleId, name: &str, counts: impl Fn(&Use) -> bool) -> Meaning {
        let mut found = vec![];
        for one in self.uses(module).iter().filter(|one| counts(one)) {
            let function = one.module.and_then(|used| self.own[used].get(name));
            // A file may be used twice.
            found.extend(function.filter(|function| !found.contains(*function)));
        }
        match found.as_slice() {
            [] => Meaning::Nothing,
            [one] => Meaning::Function(*one),
            _ => Meaning::Clash(found),
        }
    }

    /// The names of functions that a file can call.
    pub fn visible(&self, module: ModuleId) -> impl Iterator<Item = &str> {
        let own = self.own[module].keys().copied();
        let used = self.uses(module).iter().flat_map(|one| {
            let whole = one.module.filter(|_| one.names.is_empty());
            let all = whole.into_iter().flat_map(|used| self.own[used].keys().copied());
            one.names.iter().map(|name| name.text.as_str()).chain(all)
        });
        own.chain(used)
    }

    fn uses(&self, module: ModuleId) -> &'a [Use] {
        self.file.modules.get(module).map_or(&[], |one| &one.uses)
    }
}

/// The error that a file defines a name twice.
fn twice(again: &Name, first: &Name) -> Diagnostic {
    let message = format!("the function `{}` is defined twice", again.text);
    Diagnostic::new(codes::DUPLICATE_NAME, again.span, message).here("again here").label(first.span, "first here")
}

/// The file or library that a `use` names, as it is written there.
fn written(one: &Use) -> String {
    match &one.what {
        Used::Path(path) => format!("\"{}\"", path.text),
        Used::Library(name) => format!("`{}`", name.text),
    }
}

/// The first names of a list, for a message.
fn listed<'n>(mut names: impl Iterator<Item = &'n str>) -> String {
    const LONGEST: usize = 8;
    let first: Vec<String> = names.by_ref().take(LONGEST).map(|name| format!("`{name}`")).collect();
    match (first.is_empty(), names.count()) {
        (true, _) => "no function".to_owned(),
        (_, 0) => first.join(", "),
        (_, more) => format!("{} and {more} more", first.join(", ")),
    }
}

impl<'a> Checker<'a> {
    /// The file of the function that is being inlined.
    fn module(&self) -> ModuleId {
        self.source.file.functions[self.report.calls.function()].module
    }

    /// The meaning of a function's name where the walk is.
    pub(super) fn meaning(&self, name: &str) -> Meaning {
        self.source.modules.find(self.module(), name)
    }

    /// Whether the program has a function of that name where the walk is.
    pub(super) fn has_function(&self, name: &str) -> bool {
        self.meaning(name) != Meaning::Nothing
    }

    /// The names of the program's functions where the walk is.
    pub(super) fn function_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.source.modules.visible(self.module())
    }

    /// Reports a call of a function of a library that the file does not use.
    pub(super) fn unused_library(&mut self, error: Diagnostic, library: Library) {
        let module = self.module();
        let line = format!("use {}", library.name);
        let (at, text) = match self.source.modules.uses(module).last() {
            Some(last) => (last.span.end, format!("\n{line}")),
            None => (self.source.file.modules.get(module).map_or(0, |one| one.start), format!("{line}\n")),
        };
        let help = format!("it is in the library `{}`: write `{line}` between the functions", library.name);
        self.report.error(error.help(help).suggest(Span { start: at, end: at }, text));
    }

    /// Reports a call of a name that several used files define.
    pub(super) fn clash(&mut self, callee: &Name, functions: &[usize]) {
        let name = &callee.text;
        let message = format!("`{name}` is in several files that are used here");
        let mut error = Diagnostic::new(codes::CLASH, callee.span, message);
        for function in functions {
            error = error.label(self.source.file.functions[*function].name.span, "one is here");
        }
        let uses = self.source.modules.uses(self.module());
        let of =
            |function: &usize| uses.iter().find(|one| one.module == Some(self.source.file.functions[*function].module));
        let pick = functions.first().and_then(of).filter(|one| one.names.is_empty());
        self.report.error(match (pick, uses.last()) {
            (Some(one), Some(last)) => {
                let line = format!("use {} ({name})", written(one).trim_matches('`'));
                let end = Span { start: last.span.end, ..last.span };
                error.help(format!("pick the one that is meant: `{line}`")).suggest(end, format!("\n{line}"))
            }
            _ => error.help("leave the name out of all but one `use`"),
        });
    }
}
