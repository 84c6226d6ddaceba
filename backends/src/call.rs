//! Checks that every engine makes before it runs a call's kernels: sizes, byte lengths, and the
//! caller's arrays.

use ir::bind::{Binding, Given};
use ir::nest::{BufferId, Program};

use crate::error::RunError;

/// The size of a buffer in bytes.
pub(crate) fn bytes(program: &Program, binding: &Binding, id: BufferId) -> Result<usize, RunError> {
    let mut bytes = program.buffers[id].dtype.bytes();
    let mut empty = false;
    for length in binding.lengths(program, id) {
        let length = length?;
        empty |= length == 0;
        // Count a length of 0 as 1: the product of the other lengths must not overflow either, as
        // for arrays.
        let product = bytes.checked_mul(length.max(1)).filter(|bytes| isize::try_from(*bytes).is_ok());
        bytes = product.ok_or(RunError::OutOfMemory { bytes: usize::MAX })?;
    }
    Ok(if empty { 0 } else { bytes })
}

/// Checks that the caller's output arrays have the types and shapes of the results.
pub(crate) fn check_outputs(
    program: &Program,
    results: &[BufferId],
    binding: &Binding,
    outputs: &[impl Given],
) -> Result<(), RunError> {
    if results.len() != outputs.len() {
        return Err(RunError::OutputCount { expected: results.len(), found: outputs.len() });
    }
    for (output, (id, given)) in results.iter().zip(outputs).enumerate() {
        let expected = program.buffers[*id].dtype;
        if expected != given.dtype() {
            return Err(RunError::OutputDtype { output, expected, found: given.dtype() });
        }
        let lengths = binding.lengths(program, *id);
        if lengths.len() != given.shape().len() || !lengths.zip(given.shape()).all(|(n, found)| n == Ok(*found)) {
            let expected = binding.shape(program, *id)?;
            return Err(RunError::OutputShape { output, expected, found: given.shape().to_vec() });
        }
    }
    Ok(())
}
