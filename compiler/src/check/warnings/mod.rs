//! Warnings: the parts of a program without errors that are probably not meant.
//!
//! They are found in the syntax tree alone, so a function has its warnings once, however often it
//! is called. A name that begins with `_` is never warned about.

mod functions;
mod names;
mod reducers;

use grammar::ast::{File, Function, Span};
use grammar::{Diagnostic, MAX_ERRORS};

/// The codes of warnings, from 1000: 1001 is W0001.
pub mod codes {
    grammar::codes! {
        UNUSED_LET = 1001, "a `let` that is never used";
        UNUSED_PARAMETER = 1002, "a parameter that is never used";
        UNUSED_FUNCTION = 1003, "a function that `main` does not need";
        UNUSED_USE = 1004, "a `use` that is not needed";
        NO_RECURRENCE = 1005, "a `let rec` that does not refer to itself";
        QUADRATIC = 1006, "a reducer that looks at all elements for each index";
    }
}

/// The warnings about a program's own file, in the order of the source.
pub fn of_program(file: &File) -> Vec<Diagnostic> {
    let mut all: Vec<Diagnostic> = file.own().flat_map(|function| names::unused(file, function)).collect();
    all.extend(functions::unused(file));
    sorted(all)
}

/// The warnings about one function, in the order of the source.
pub fn of_function(file: &File, function: &Function) -> Vec<Diagnostic> {
    sorted(names::unused(file, function))
}

fn sorted(mut all: Vec<Diagnostic>) -> Vec<Diagnostic> {
    all.sort_by_key(|warning| warning.labels[0].span);
    all.truncate(MAX_ERRORS);
    all
}

/// Whether the programmer says that a name is not used.
fn is_meant(name: &str) -> bool {
    name.starts_with('_')
}

/// The edit that puts `_` before a name.
fn underscore(warning: Diagnostic, name: Span) -> Diagnostic {
    let start = Span { end: name.start, ..name };
    warning.help("remove it, or begin its name with `_`").suggest(start, "_")
}
