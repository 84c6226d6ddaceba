//! Derivatives of generated programs: a function that calls the entry and takes the derivative of
//! one of its results.

use compiler::check::check;
use compiler::lower::{LowerError, lower};
use grammar::ast;
use ir::checked::{Checked, Kind};

use crate::generate::Program;

/// The direction of a derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `grad`, of the sum of all elements of a result.
    Back,
    /// `jvp`, of a result, where each value changes by itself.
    On,
}

/// The name of the function with the derivative.
pub const ENTRY: &str = "derived";

/// The codes of errors that say that there is no derivative: of this, or of a recurrence or a sort
/// that would come to stand under a condition.
pub const REFUSED: [&str; 3] = ["E0154", "E0150", "E0151"];

/// The text of a function with the derivative of the first result of floats, in all parameters of
/// floats. `None` if there are none.
#[must_use]
pub fn function(program: &Program, of: &Checked, direction: Direction, name: &str) -> Option<String> {
    let floats = |n: &usize| of.params[*n].ty.dtype.is_float();
    let names: Vec<&str> = (0..of.params.len()).filter(floats).map(|n| of.params[n].name.as_str()).collect();
    let results = of.results.iter().map(|(_, id)| &of.exprs[*id].ty);
    let number = results.clone().position(|ty| ty.dtype.is_float())?;
    if names.is_empty() {
        return None;
    }
    let targets: Vec<&str> = (0..of.results.len()).map(|n| if n == number { "of" } else { "_" }).collect();
    let target = if targets.len() == 1 { "of".to_owned() } else { format!("({})", targets.join(", ")) };
    let given: Vec<&str> = program.params.iter().map(|param| param.name.as_str()).collect();
    let ty = &of.exprs[of.results[number].1].ty;
    let value = match direction {
        Direction::Back => {
            let value = if ty.is_scalar() { "of" } else { "sum(of)" };
            format!("grad[{}]({value})", names.join(", "))
        }
        Direction::On => {
            let change = |n: usize| {
                let param = &of.params[n];
                let (name, computed) = (&param.name, param.ty.dtype.compute());
                if computed == param.ty.dtype { name.clone() } else { format!("{computed}({name})") }
            };
            let changes: Vec<String> = (0..of.params.len()).filter(floats).map(change).collect();
            format!("jvp[{}](of, {})", names.join(", "), changes.join(", "))
        }
    };
    let heads = program.heads().join(", ");
    let call = format!("{}({})", program.entry, given.join(", "));
    Some(format!("fn {name}({heads}) {{\n    let {target} = {call}\n    {value}\n}}\n"))
}

/// The program with the derivative as its entry. `None` if there is none: the result does not
/// consist of floats, a construct has no derivative, or no kernel computes a loop of it. Nor is
/// there one with matrix products, which are exact in generated programs but not in their
/// derivatives.
#[must_use]
pub fn derive(program: &Program, direction: Direction) -> Option<Program> {
    let of = checked(&program.source, program.entry).ok()?;
    let source = format!("{}{}", program.source, function(program, &of, direction, ENTRY)?);
    match checked(&source, ENTRY) {
        Ok(derived) if derived.exprs.values().any(|expr| matches!(expr.kind, Kind::Contract { .. })) => None,
        Ok(derived) if matches!(lower(&derived, None), Err(LowerError::Loop(..))) => None,
        Err(code) if REFUSED.contains(&code.as_str()) => None,
        // Another error is one of the compiler, which the judge will see.
        Ok(_) | Err(_) => {
            let mut program = Program { source, entry: ENTRY, ..program.clone() };
            program.constructs.insert(match direction {
                Direction::Back => "gradient",
                Direction::On => "change",
            });
            Some(program)
        }
    }
}

/// A checked function, or the code of the first error.
fn checked(source: &str, entry: &str) -> Result<Checked, String> {
    let file: Result<ast::File, _> = grammar::parse(source);
    file.and_then(|file| check(&file, entry))
        .map_err(|errors| errors.first().map(|error| error.code.to_string()).unwrap_or_default())
}
