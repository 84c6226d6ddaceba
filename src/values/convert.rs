//! Arrays of files as the parameter's type: another element type, or fewer axes of length 1.

use ir::array::{ArrayError, ArrayMut, ArrayRef};
use ir::{Array, Dtype};

use crate::{Options, Program};

/// Whether a type has every value of another, so that a conversion changes none.
pub(crate) fn is_exact(from: Dtype, to: Dtype) -> bool {
    // The bits of an integer's magnitude, and of a float's significand.
    let bits = |dtype: Dtype| match dtype {
        Dtype::F16 => 11,
        Dtype::Bf16 => 8,
        Dtype::F32 => 24,
        Dtype::F64 => 53,
        _ if dtype.is_signed_int() => 8 * dtype.bytes() - 1,
        _ => 8 * dtype.bytes(),
    };
    let wide = matches!(to, Dtype::F32 | Dtype::F64);
    match (from, to) {
        _ if from == to => true,
        (Dtype::Bool, _) | (_, Dtype::Bool) => false,
        _ if from.is_float() => wide && bits(to) >= bits(from),
        _ if to.is_float() => bits(to) >= bits(from) && (wide || from.bytes() == 1),
        _ => bits(to) >= bits(from) && (to.is_signed_int() || !from.is_signed_int()),
    }
}

/// The same elements in another shape of as many.
pub(crate) fn reshaped(array: Array, shape: &[usize]) -> Result<Array, ArrayError> {
    if array.shape() == shape { Ok(array) } else { Array::from_bytes(array.dtype(), shape, array.bytes()) }
}

/// The elements as another type, converted as the language converts them: by the library itself.
pub(crate) fn converted(array: Array, to: Dtype) -> Result<Array, ArrayError> {
    if array.dtype() == to {
        return Ok(array);
    }
    let mut out = crate::zeros(to, array.shape())?;
    let flat = [array.len()];
    let (from, mut into) =
        (ArrayRef::new(array.dtype(), &flat, array.bytes())?, ArrayMut::new(to, &flat, out.bytes_mut())?);
    let source = format!("fn converted(x: {}[n]) = {to}(x)", array.dtype());
    // The function is always right, so only memory can be missing.
    let done = Program::parse(source).ok().and_then(|program| {
        let kernel = program.first().compile(&Options::default()).ok()?;
        kernel.call_into((from,), (&mut into,)).ok()
    });
    done.ok_or(ArrayError::OutOfMemory { bytes: array.bytes().len() })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use ir::Scalar;

    use super::*;

    /// A conversion is exact where converting back gives the same bits, for the extremes and for
    /// odd numbers of every width.
    #[test]
    fn exact_conversions_come_back() {
        for from in Dtype::ALL {
            for to in Dtype::ALL {
                let mut bits: Vec<u64> = (0..64).flat_map(|k| [(1 << k) - 1, 1 << k, (1 << k) | 1]).collect();
                bits.push(u64::MAX);
                let scalars: Vec<Scalar> = bits.into_iter().map(|bits| Scalar::from_bits(from, bits)).collect();
                let x = Array::from_scalars(from, &[scalars.len()], &scalars).unwrap();
                let back = converted(converted(x.clone(), to).unwrap(), from).unwrap();
                assert!(back == x || !is_exact(from, to), "{from} to {to}");
            }
        }
    }
}
