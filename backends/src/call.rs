//! What every engine does before a call's kernels run: sizes with their values, lengths in bytes, the caller's arrays.

use std::collections::BTreeSet;

use ir::bind::{BindError, Binding, Given};
use ir::nest::{BufferId, KernelId, Program};
use ir::size::Atom;
use ir::{Size, visit};

use crate::error::RunError;

/// Sizes that kernels mention: a call is refused if one has no value.
pub(crate) fn kernel_sizes(program: &Program) -> Vec<(KernelId, Size)> {
    let mut found = vec![];
    for (id, kernel) in program.kernels.iter() {
        let mut seen = BTreeSet::new();
        visit::for_each_size(&kernel.body, &mut |size| {
            if size.as_constant().is_none() && size.as_symbol().is_none() && seen.insert(size) {
                found.push((id, size.clone()));
            }
        });
    }
    found
}

/// Whether each of them has one.
pub(crate) fn check_kernel_sizes(sizes: &[(KernelId, Size)], binding: &Binding) -> Result<(), BindError> {
    sizes.iter().try_for_each(|(kernel, size)| {
        binding.size(size).map(|_| ()).map_err(|error| BindError::KernelSize { kernel: *kernel, error })
    })
}

/// Bytes of a buffer.
pub(crate) fn bytes(program: &Program, binding: &Binding, id: BufferId) -> Result<usize, RunError> {
    let mut bytes = program.buffers[id].dtype.bytes();
    let mut empty = false;
    for length in binding.lengths(program, id) {
        let length = length?;
        empty |= length == 0;
        // The lengths beside one of 0 have to multiply too, as for arrays.
        let product = bytes.checked_mul(length.max(1)).filter(|bytes| isize::try_from(*bytes).is_ok());
        bytes = product.ok_or(RunError::OutOfMemory { bytes: usize::MAX })?;
    }
    Ok(if empty { 0 } else { bytes })
}

/// Whether the caller's arrays are what the results are.
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

/// The value of a size modulo 2^64: where a coefficient or stride alone leaves the range of `i64`, the element number
/// that it is part of, which is inside the array, still comes out right.
pub(crate) fn wrapping(size: &Size, binding: &Binding) -> i64 {
    let value = |size: &Size| binding.size(size).unwrap_or_else(|_| wrapping(size, binding));
    let mut sum = 0i64;
    for (product, coefficient) in size.terms() {
        let mut term = *coefficient;
        for atom in product {
            term = term.wrapping_mul(match atom {
                Atom::Symbol(s) => binding.symbol(*s),
                Atom::FloorDiv(a, b) => value(a).checked_div_euclid(value(b)).unwrap_or(0),
                Atom::Overflow => 0,
            });
        }
        sum = sum.wrapping_add(term);
    }
    sum
}
