//! Kernels in the reference interpreter.

use interp::nest::{run, run_unless};
use ir::array::{Array, ArrayRef};

use crate::error::Context;
use crate::kernel::Cancel;
use crate::{CompileError, RunError};

/// The interpreter, which runs loop nests as they are.
pub(in crate::kernel) struct Interpreter;

impl Interpreter {
    pub(super) fn new() -> Result<Interpreter, CompileError> {
        Ok(Interpreter)
    }

    /// Runs a program, and gives its results.
    pub(in crate::kernel) fn run(
        &self,
        context: &Context<'_>,
        inputs: &[ArrayRef<'_>],
        cancel: Option<&Cancel>,
    ) -> Result<Vec<Array>, RunError> {
        let outcome = match cancel {
            Some(cancel) => run_unless(context.program, inputs, &cancel.0),
            None => run(context.program, inputs),
        };
        outcome.map(|o| o.outputs).map_err(|e| context.interp(e, inputs))
    }
}
