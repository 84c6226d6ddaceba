//! Element types and single values.

use std::cmp::Ordering;
use std::fmt;

/// The type of an array element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dtype {
    /// Truth value; one byte in memory, 0 or 1.
    Bool,
    /// 8-bit signed integer (storage only: arithmetic widens to `i32`).
    I8,
    /// 8-bit unsigned integer (storage only: arithmetic widens to `i32`).
    U8,
    /// 16-bit signed integer (storage only: arithmetic widens to `i32`).
    I16,
    /// 16-bit unsigned integer (storage only: arithmetic widens to `i32`).
    U16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer; the type of indices.
    I64,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// IEEE half precision (storage only: arithmetic widens to `f32`).
    F16,
    /// bfloat16 (storage only: arithmetic widens to `f32`).
    Bf16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl Dtype {
    /// Every type, in declaration order.
    pub const ALL: [Dtype; 13] = [
        Dtype::Bool,
        Dtype::I8,
        Dtype::U8,
        Dtype::I16,
        Dtype::U16,
        Dtype::I32,
        Dtype::I64,
        Dtype::U32,
        Dtype::U64,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::F32,
        Dtype::F64,
    ];

    /// The name in source and IR text.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::I8 => "i8",
            Dtype::U8 => "u8",
            Dtype::I16 => "i16",
            Dtype::U16 => "u16",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::U32 => "u32",
            Dtype::U64 => "u64",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes an element takes in memory.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::Bool | Dtype::I8 | Dtype::U8 => 1,
            Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::I32 | Dtype::U32 | Dtype::F32 => 4,
            Dtype::I64 | Dtype::U64 | Dtype::F64 => 8,
        }
    }

    /// Whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64)
    }

    /// Whether this is an integer type (`bool` is not).
    pub fn is_int(self) -> bool {
        !self.is_float() && self != Dtype::Bool
    }

    /// Whether this is a signed integer type.
    pub fn is_signed_int(self) -> bool {
        matches!(self, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64)
    }

    /// Whether values of this type are only stored, and widened before arithmetic.
    pub fn is_storage(self) -> bool {
        self.compute() != self
    }

    /// The type in which arithmetic on this one is done.
    pub fn compute(self) -> Dtype {
        match self {
            Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::U16 => Dtype::I32,
            Dtype::F16 | Dtype::Bf16 => Dtype::F32,
            other => other,
        }
    }

    /// The least and the greatest value of an integer that is only stored, in the type in which
    /// arithmetic on it is done; none of other types.
    pub fn narrow_range(self) -> Option<(i32, i32)> {
        match self {
            Dtype::I8 => Some((i8::MIN.into(), i8::MAX.into())),
            Dtype::U8 => Some((0, u8::MAX.into())),
            Dtype::I16 => Some((i16::MIN.into(), i16::MAX.into())),
            Dtype::U16 => Some((0, u16::MAX.into())),
            _ => None,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value with its type. Equality is on bits, except that any NaN equals any NaN of its type.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// `bool`
    Bool(bool),
    /// `i8`
    I8(i8),
    /// `u8`
    U8(u8),
    /// `i16`
    I16(i16),
    /// `u16`
    U16(u16),
    /// `i32`
    I32(i32),
    /// `i64`
    I64(i64),
    /// `u32`
    U32(u32),
    /// `u64`
    U64(u64),
    /// `f16`
    F16(half::f16),
    /// `bf16`
    Bf16(half::bf16),
    /// `f32`
    F32(f32),
    /// `f64`
    F64(f64),
}

impl Scalar {
    /// The type of the value.
    pub fn dtype(self) -> Dtype {
        match self {
            Scalar::Bool(_) => Dtype::Bool,
            Scalar::I8(_) => Dtype::I8,
            Scalar::U8(_) => Dtype::U8,
            Scalar::I16(_) => Dtype::I16,
            Scalar::U16(_) => Dtype::U16,
            Scalar::I32(_) => Dtype::I32,
            Scalar::I64(_) => Dtype::I64,
            Scalar::U32(_) => Dtype::U32,
            Scalar::U64(_) => Dtype::U64,
            Scalar::F16(_) => Dtype::F16,
            Scalar::Bf16(_) => Dtype::Bf16,
            Scalar::F32(_) => Dtype::F32,
            Scalar::F64(_) => Dtype::F64,
        }
    }

    /// The value's bits, zero-extended.
    pub fn bits(self) -> u64 {
        match self {
            Scalar::Bool(v) => v.into(),
            Scalar::I8(v) => v.cast_unsigned().into(),
            Scalar::U8(v) => v.into(),
            Scalar::I16(v) => v.cast_unsigned().into(),
            Scalar::U16(v) => v.into(),
            Scalar::I32(v) => v.cast_unsigned().into(),
            Scalar::I64(v) => v.cast_unsigned(),
            Scalar::U32(v) => v.into(),
            Scalar::U64(v) => v,
            Scalar::F16(v) => v.to_bits().into(),
            Scalar::Bf16(v) => v.to_bits().into(),
            Scalar::F32(v) => v.to_bits().into(),
            Scalar::F64(v) => v.to_bits(),
        }
    }

    /// The value of type `dtype` with the low bits of `bits`; a `bool` is their lowest bit.
    #[expect(clippy::cast_possible_truncation, reason = "keeping the low bits is the purpose")]
    pub fn from_bits(dtype: Dtype, bits: u64) -> Scalar {
        match dtype {
            Dtype::Bool => Scalar::Bool(bits & 1 == 1),
            Dtype::I8 => Scalar::I8(bits as i8),
            Dtype::U8 => Scalar::U8(bits as u8),
            Dtype::I16 => Scalar::I16(bits as i16),
            Dtype::U16 => Scalar::U16(bits as u16),
            Dtype::I32 => Scalar::I32(bits as i32),
            Dtype::I64 => Scalar::I64(bits.cast_signed()),
            Dtype::U32 => Scalar::U32(bits as u32),
            Dtype::U64 => Scalar::U64(bits),
            Dtype::F16 => Scalar::F16(half::f16::from_bits(bits as u16)),
            Dtype::Bf16 => Scalar::Bf16(half::bf16::from_bits(bits as u16)),
            Dtype::F32 => Scalar::F32(f32::from_bits(bits as u32)),
            Dtype::F64 => Scalar::F64(f64::from_bits(bits)),
        }
    }

    /// Whether the value is a NaN.
    pub fn is_nan(self) -> bool {
        match self {
            Scalar::F16(v) => v.is_nan(),
            Scalar::Bf16(v) => v.is_nan(),
            Scalar::F32(v) => v.is_nan(),
            Scalar::F64(v) => v.is_nan(),
            _ => false,
        }
    }

    /// The NaN of a type that files contain; none of a type without NaN.
    pub fn nan(dtype: Dtype) -> Option<Scalar> {
        match dtype {
            Dtype::F16 => Some(Scalar::F16(half::f16::NAN)),
            Dtype::Bf16 => Some(Scalar::Bf16(half::bf16::NAN)),
            Dtype::F32 => Some(Scalar::F32(f32::NAN)),
            Dtype::F64 => Some(Scalar::F64(f64::NAN)),
            _ => None,
        }
    }

    /// The value of a type nearest to a decimal (or `inf`, `-inf`, `nan`, `true`, `false`), rounded
    /// once. `None` for an integer out of range; a decimal beyond the range of a float type is
    /// infinite.
    pub fn parse(dtype: Dtype, text: &str) -> Option<Scalar> {
        Some(match dtype {
            Dtype::Bool => Scalar::Bool(text.parse().ok()?),
            Dtype::I8 => Scalar::I8(text.parse().ok()?),
            Dtype::U8 => Scalar::U8(text.parse().ok()?),
            Dtype::I16 => Scalar::I16(text.parse().ok()?),
            Dtype::U16 => Scalar::U16(text.parse().ok()?),
            Dtype::I32 => Scalar::I32(text.parse().ok()?),
            Dtype::I64 => Scalar::I64(text.parse().ok()?),
            Dtype::U32 => Scalar::U32(text.parse().ok()?),
            Dtype::U64 => Scalar::U64(text.parse().ok()?),
            Dtype::F16 => Scalar::F16(half::f16::from_f32(odd(text)?)),
            Dtype::Bf16 => Scalar::Bf16(half::bf16::from_f32(odd(text)?)),
            Dtype::F32 => Scalar::F32(text.parse().ok()?),
            Dtype::F64 => Scalar::F64(text.parse().ok()?),
        })
    }

    /// The same, but a number beyond the range of a float type is none either; infinity must be
    /// written as a word.
    pub fn parse_finite(dtype: Dtype, text: &str) -> Option<Scalar> {
        let infinite = |value: &Scalar| match value {
            Scalar::F16(v) => v.is_infinite(),
            Scalar::Bf16(v) => v.is_infinite(),
            Scalar::F32(v) => v.is_infinite(),
            Scalar::F64(v) => v.is_infinite(),
            _ => false,
        };
        let is_number = text.contains(|c: char| c.is_ascii_digit());
        Scalar::parse(dtype, text).filter(|value| !(is_number && infinite(value)))
    }

    /// The value zero (`false`, `+0.0`) of a type.
    pub fn zero(dtype: Dtype) -> Scalar {
        Scalar::from_bits(dtype, 0)
    }

    /// The value one (`true`) of a type.
    pub fn one(dtype: Dtype) -> Scalar {
        match dtype {
            Dtype::F16 => Scalar::F16(half::f16::ONE),
            Dtype::Bf16 => Scalar::Bf16(half::bf16::ONE),
            Dtype::F32 => Scalar::F32(1.0),
            Dtype::F64 => Scalar::F64(1.0),
            _ => Scalar::from_bits(dtype, 1),
        }
    }

    /// The least value of a type: minus infinity, `false`.
    pub fn least(dtype: Dtype) -> Scalar {
        match dtype {
            Dtype::F16 => Scalar::F16(half::f16::NEG_INFINITY),
            Dtype::Bf16 => Scalar::Bf16(half::bf16::NEG_INFINITY),
            Dtype::F32 => Scalar::F32(f32::NEG_INFINITY),
            Dtype::F64 => Scalar::F64(f64::NEG_INFINITY),
            _ if dtype.is_signed_int() => Scalar::from_bits(dtype, 1 << (8 * dtype.bytes() - 1)),
            _ => Scalar::from_bits(dtype, 0),
        }
    }

    /// The greatest value of a type: infinity, `true`.
    pub fn greatest(dtype: Dtype) -> Scalar {
        match dtype {
            Dtype::F16 => Scalar::F16(half::f16::INFINITY),
            Dtype::Bf16 => Scalar::Bf16(half::bf16::INFINITY),
            Dtype::F32 => Scalar::F32(f32::INFINITY),
            Dtype::F64 => Scalar::F64(f64::INFINITY),
            Dtype::Bool => Scalar::Bool(true),
            _ if dtype.is_signed_int() => Scalar::from_bits(dtype, (1 << (8 * dtype.bytes() - 1)) - 1),
            _ => Scalar::from_bits(dtype, u64::MAX),
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.dtype() == other.dtype() && (self.bits() == other.bits() || (self.is_nan() && other.is_nan()))
    }
}

impl Eq for Scalar {}

/// A decimal rounded to odd: an inexact result is the neighbour with an odd last bit, which keeps
/// the next rounding right (Boldo and Melquiond, "When double rounding is odd").
fn odd(text: &str) -> Option<f32> {
    let near: f32 = text.parse().ok()?;
    if !near.is_finite() || near == 0.0 || near.to_bits() & 1 == 1 {
        return Some(near);
    }
    // An `f32` has at most 112 significant digits.
    Some(f32::from_bits(match digits(text).cmp(&digits(&format!("{near:.120e}"))) {
        Ordering::Less => near.to_bits() - 1,
        Ordering::Equal => near.to_bits(),
        Ordering::Greater => near.to_bits() + 1,
    }))
}

/// The magnitude of a decimal that is not 0, comparable: with `(e, d)` it is `0.d` times ten to the
/// power `e`.
fn digits(text: &str) -> (i64, String) {
    let text = text.trim_start_matches(['+', '-']);
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX) - i64::try_from(all.len() - digits.len()).unwrap_or(0);
    let exponent: i64 = exponent.parse().unwrap_or(0);
    (exponent.saturating_add(point), digits.trim_end_matches('0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_rounded_once() {
        let bits = |dtype, text| Scalar::parse(dtype, text).map(Scalar::bits);
        // 1 + 2^-11 is the midpoint between 1 and the next f16, 1 + 2^-8 in bf16; anything above
        // rounds up.
        assert_eq!(bits(Dtype::F16, "1.00048828125"), Some(0x3c00));
        assert_eq!(bits(Dtype::F16, "1.000488281250000000000000000000001"), Some(0x3c01));
        assert_eq!(bits(Dtype::F16, "1000488.281249999999999999999999999e-6"), Some(0x3c00));
        assert_eq!(bits(Dtype::F16, "-1.000488281250000000000000000000001"), Some(0xbc01));
        assert_eq!(bits(Dtype::Bf16, "1.00390625"), Some(0x3f80));
        assert_eq!(bits(Dtype::Bf16, "1.003906250000000000000000000000001"), Some(0x3f81));
        // Half the least f16.
        assert_eq!(bits(Dtype::F16, "2.98023223876953125e-8"), Some(0));
        assert_eq!(bits(Dtype::F16, "0.00000002980232238769531250000000000000000001"), Some(1));
        assert_eq!(bits(Dtype::F16, "65519.99"), Some(0x7bff));
        assert_eq!(bits(Dtype::F16, "65520"), Some(0x7c00));
        assert_eq!(bits(Dtype::F16, "1e-400"), Some(0));
        assert_eq!(bits(Dtype::U8, "256"), None);
    }
}
