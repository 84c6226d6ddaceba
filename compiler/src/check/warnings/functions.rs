//! Functions that a file does not need: its own that `main` does not call, directly or through
//! others, and those that it uses from other files and never calls.
//!
//! A file without a `main` is a library: all its functions are for others to call.

use std::collections::BTreeSet;

use grammar::Diagnostic;
use grammar::ast::{File, ModuleId, Span, Use};

use super::super::Source;
use super::{codes, is_meant, underscore};

/// The warnings about functions of a program's own file, and about its `use` lines.
pub(super) fn unused(file: &File) -> Vec<Diagnostic> {
    let source = Source::new(file, &mut vec![]);
    let own = |k: &usize| file.functions[*k].module == ModuleId::PROGRAM;
    let all: Vec<usize> = (0..file.functions.len()).filter(own).collect();
    let called: BTreeSet<usize> = all.iter().flat_map(|k| source.graph.callees(*k)).copied().collect();
    let mut found: Vec<Diagnostic> = vec![];
    if source.modules.own(ModuleId::PROGRAM).contains_key("main") {
        let needed = needed(&source, &all);
        for k in all.into_iter().filter(|k| !needed.contains(k)) {
            let name = &file.functions[k].name;
            let warning =
                Diagnostic::new(codes::UNUSED_FUNCTION, name.span, format!("`main` does not need `{}`", name.text));
            let taken = source.modules.own(ModuleId::PROGRAM).contains_key(format!("_{}", name.text).as_str());
            found.push(match called.contains(&k) || taken {
                true => warning.help("remove it, with the functions that call it"),
                false => underscore(warning, name.span),
            });
        }
    }
    let uses = file.modules.get(ModuleId::PROGRAM).map_or(&[][..], |program| &program.uses);
    uses.iter().for_each(|one| unused_use(&source, one, &called, &mut found));
    found
}

/// The functions that `main` and those that are meant to be unused call, and these themselves.
fn needed(source: &Source<'_>, own: &[usize]) -> BTreeSet<usize> {
    let is_entry = |k: &&usize| {
        let name = source.file.functions[**k].name.text.as_str();
        name == "main" || is_meant(name)
    };
    let mut pending: Vec<usize> = own.iter().filter(is_entry).copied().collect();
    let mut needed = BTreeSet::new();
    while let Some(k) = pending.pop() {
        if needed.insert(k) {
            pending.extend(source.graph.callees(k));
        }
    }
    needed
}

/// Warns of a `use` without a function that is called, or of the picked ones that are not.
fn unused_use(source: &Source<'_>, one: &Use, called: &BTreeSet<usize>, found: &mut Vec<Diagnostic>) {
    let Some(used) = one.module else { return };
    let functions = source.modules.own(used);
    let is_called = |name: &str| functions.get(name).is_some_and(|k| called.contains(k));
    let names: Vec<&str> = match one.names.as_slice() {
        [] => functions.keys().copied().collect(),
        picked => picked.iter().map(|name| name.text.as_str()).collect(),
    };
    if !names.iter().any(|name| is_called(name)) {
        let name = one.what.name();
        let warning = Diagnostic::new(codes::UNUSED_USE, one.span, format!("no function of `{}` is called", name.text));
        found.push(warning.help("remove it").suggest(one.span, ""));
        return;
    }
    for (k, name) in one.names.iter().enumerate().filter(|(_, name)| !is_called(&name.text)) {
        // The name goes with the comma before it, or the one behind it if it is the first.
        let span = match (k.checked_sub(1).map(|before| &one.names[before]), one.names.get(k + 1)) {
            (Some(before), _) => Span { start: before.span.end, ..name.span },
            (None, Some(next)) => Span { end: next.span.start, ..name.span },
            (None, None) => name.span,
        };
        let warning = Diagnostic::new(codes::UNUSED_USE, name.span, format!("`{}` is never called", name.text));
        found.push(warning.help("do not pick it").suggest(span, ""));
    }
}
