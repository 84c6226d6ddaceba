//! Evaluates a checked program element by element, as the language reference reads and without
//! lowering. It defines the meaning that every other engine must reproduce.
//!
//! `machine` computes an element when it is asked for and remembers it, so values that no result
//! needs are never computed, and shared ones are computed once. Nothing is planned, moved or
//! combined. A run is slow, but its memory is bounded: each array expression keeps the elements for
//! the current setting of its free indices, and for earlier settings while there is room.
//!
//! An access that is out of bounds is an error only if a result needs it. An engine that computes
//! whole arrays may encounter one that no result needs, or several in another order; [`may_fault`]
//! says which errors a program can end in.

mod facts;
mod faults;
mod keyed;
mod loops;
mod machine;
mod recurrence;
mod reduce;
mod sort;

use std::collections::BTreeMap;

use ir::array::{Array, ArrayError, ArrayRef};
use ir::bind::{BindError, Binding, Fault};
use ir::checked::{Checked, Kind};
use ir::nest::Function;
use ir::size::SizeError;
use ir::{Dtype, MathFn};

use facts::Facts;
use machine::{Machine, Stop};

/// The definitions of named scalar functions, as a compiled program would carry them.
pub type Definitions<'a> = &'a dyn Fn(MathFn, Dtype) -> Option<Function>;

/// The memory limit for the elements of a program, at one setting of the free indices each.
const MAX_BYTES: usize = 4 << 30;

/// The reason why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The inputs do not fit the program.
    Bind(BindError),
    /// A length of a result has no value.
    Size(SizeError),
    /// An axis of a result has a negative length.
    Length {
        /// Which result.
        result: usize,
        /// The axis.
        axis: usize,
        /// The length.
        length: i64,
    },
    /// A subscript that is checked at run time, and that a result needs, is out of bounds.
    Fault(Fault),
    /// The memory for the arrays could not be allocated.
    OutOfMemory {
        /// The size of the failed allocation.
        bytes: usize,
    },
    /// The checked program breaks its own rules: a bug of the compiler.
    Internal(String),
}

/// Runs a checked program.
pub fn run(checked: &Checked, inputs: &[ArrayRef<'_>], definitions: Definitions<'_>) -> Result<Vec<Array>, RunError> {
    let facts = Facts::new(checked);
    let functions = functions(checked, &facts, definitions)?;
    let mut machine = prepare(checked, inputs, &facts, &functions)?;
    let mut results = vec![];
    for (_, id) in &checked.results {
        let shape: Vec<usize> = machine.shape(*id).iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let mut array = Array::zeros(checked.exprs[*id].ty.dtype, &shape).map_err(no_memory)?;
        for number in 0..array.len() {
            let element = machine.numbered(*id, number).map_err(|stop| explain(checked, stop))?;
            array.set(number, element);
        }
        results.push(array);
    }
    Ok(results)
}

/// Whether an engine may end a run with this fault: some access of the program has that subscript
/// and that bound at some setting of the indices that it mentions, with every enclosing `if` taken.
pub fn may_fault(
    checked: &Checked,
    inputs: &[ArrayRef<'_>],
    definitions: Definitions<'_>,
    fault: Fault,
) -> Result<bool, RunError> {
    let facts = Facts::new(checked);
    let functions = functions(checked, &facts, definitions)?;
    let machine = prepare(checked, inputs, &facts, &functions)?;
    Ok(faults::may_fault(checked, &facts, machine, fault))
}

type Functions = BTreeMap<(MathFn, Dtype), Function>;

/// The functions that a program calls.
fn functions(checked: &Checked, facts: &Facts, definitions: Definitions<'_>) -> Result<Functions, RunError> {
    let mut functions = Functions::new();
    for (_, expr) in checked.exprs.iter().filter(|(id, _)| facts.reached(*id)) {
        if let Kind::Math(function, _) = expr.kind {
            let key = (function, expr.ty.dtype);
            if let std::collections::btree_map::Entry::Vacant(entry) = functions.entry(key) {
                let undefined = || RunError::Internal(format!("{function} of {} has no definition", expr.ty.dtype));
                entry.insert(definitions(function, expr.ty.dtype).ok_or_else(undefined)?);
            }
        }
    }
    Ok(functions)
}

/// A machine for one call. Everything that can be refused is refused before anything runs.
fn prepare<'a>(
    checked: &'a Checked,
    inputs: &'a [ArrayRef<'a>],
    facts: &'a Facts,
    functions: &'a Functions,
) -> Result<Machine<'a>, RunError> {
    let params: Vec<(Dtype, usize)> = checked.params.iter().map(|p| (p.ty.dtype, p.ty.shape.len())).collect();
    let binding = Binding::of_call(&checked.symbols, &params, &checked.requires, inputs).map_err(RunError::Bind)?;
    for (result, (_, id)) in checked.results.iter().enumerate() {
        for (axis, size) in checked.exprs[*id].ty.shape.iter().enumerate() {
            let length = binding.size(size).map_err(RunError::Size)?;
            if length < 0 {
                return Err(RunError::Length { result, axis, length });
            }
        }
    }
    let machine = Machine::new(checked, inputs, facts, functions, binding);
    match machine.bytes() {
        Some(bytes) if bytes <= MAX_BYTES => Ok(machine),
        bytes => Err(RunError::OutOfMemory { bytes: bytes.unwrap_or(usize::MAX) }),
    }
}

fn no_memory(error: ArrayError) -> RunError {
    match error {
        ArrayError::OutOfMemory { bytes } => RunError::OutOfMemory { bytes },
        _ => RunError::OutOfMemory { bytes: usize::MAX },
    }
}

fn explain(checked: &Checked, stop: Stop) -> RunError {
    match stop {
        Stop::Fault(fault) => RunError::Fault(fault),
        Stop::NoStep => RunError::Internal("a state is read outside of its loop".to_string()),
        Stop::NotEarlier { array } => {
            let origin = checked.exprs[array].origin;
            RunError::Internal(format!("an element of the recurrence at {origin:?} is read before it is computed"))
        }
        Stop::Unproved { access, axis, index, length } => {
            let origin = checked.exprs[access].origin;
            RunError::Internal(format!(
                "{index} is outside axis {axis} of {length} at {origin:?}, and no check says so"
            ))
        }
    }
}
