//! The analyses of kernels, from source text and from IR text.

mod operations;
mod prices;
mod traffic;

use ir::Size;
use ir::nest::Program;

/// The unfused program of the last function of a source.
fn lowered(source: &str) -> Program {
    let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{errors:?}"));
    let name = &file.functions.last().expect("a function").name.text;
    let checked = compiler::check::check(&file, name).unwrap_or_else(|errors| panic!("{errors:#?}"));
    compiler::lower::lower(&checked, None).expect("lowers")
}

/// A program from IR text.
fn program(text: &str) -> Program {
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}"));
    ir::verify::verify(&program).unwrap_or_else(|e| panic!("{e}"));
    program
}

/// A size in the program's names.
fn shown(program: &Program, size: &Size) -> String {
    size.display(&|symbol| program.symbols[symbol].name.as_str()).to_string()
}
