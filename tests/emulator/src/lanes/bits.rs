//! Operations on bits: logic, shifts, fields and counts.

use crate::lanes::{Map, by_type, map};
use crate::types::Type;

macro_rules! words {
    ($ty:expr, $T:ident => $e:expr) => {
        by_type!($ty, $T in [B16 = u16, B32 = u32, B64 = u64] => $e)
    };
}

pub(crate) fn and(ty: Type) -> Option<Map> {
    words!(ty, T => map!(|a: T, b: T| a & b))
}

pub(crate) fn or(ty: Type) -> Option<Map> {
    words!(ty, T => map!(|a: T, b: T| a | b))
}

pub(crate) fn xor(ty: Type) -> Option<Map> {
    words!(ty, T => map!(|a: T, b: T| a ^ b))
}

pub(crate) fn not(ty: Type) -> Option<Map> {
    words!(ty, T => map!(|a: T| !a))
}

/// One where the operand is zero, else zero.
pub(crate) fn cnot(ty: Type) -> Option<Map> {
    words!(ty, T => map!(|a: T| T::from(a == 0)))
}

/// Amounts past the width shift everything out.
pub(crate) fn shl(ty: Type) -> Option<Map> {
    words!(ty, T => map!(|a: T, b: u32| a.checked_shl(b).unwrap_or(0)))
}

/// Amounts past the width leave zeros, or copies of the sign.
pub(crate) fn shr(ty: Type) -> Option<Map> {
    by_type!(ty, T in [B16 | U16 = u16, B32 | U32 = u32, B64 | U64 = u64, S16 = i16, S32 = i32, S64 = i64] =>
        map!(|a: T, b: u32| a >> b.min(T::BITS - 1) >> u32::from(b >= T::BITS)))
}

/// The high word of `b:a` shifted left.
pub(crate) fn shf_left(wrap: bool) -> Map {
    if wrap {
        map!(|a: u32, b: u32, c: u32| (join(b, a) << (c & 31) >> 32) as u32)
    } else {
        map!(|a: u32, b: u32, c: u32| (join(b, a) << c.min(32) >> 32) as u32)
    }
}

/// The low word of `b:a` shifted right.
pub(crate) fn shf_right(wrap: bool) -> Map {
    if wrap {
        map!(|a: u32, b: u32, c: u32| (join(b, a) >> (c & 31)) as u32)
    } else {
        map!(|a: u32, b: u32, c: u32| (join(b, a) >> c.min(32)) as u32)
    }
}

fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

pub(crate) fn popc(ty: Type) -> Option<Map> {
    by_type!(ty, T in [B32 = u32, B64 = u64] => map!(|a: T| a.count_ones()))
}

pub(crate) fn clz(ty: Type) -> Option<Map> {
    by_type!(ty, T in [B32 = u32, B64 = u64] => map!(|a: T| a.leading_zeros()))
}

pub(crate) fn brev(ty: Type) -> Option<Map> {
    by_type!(ty, T in [B32 = u32, B64 = u64] => map!(|a: T| a.reverse_bits()))
}

/// The position of the highest bit that differs from the sign, or all ones if there is none.
pub(crate) fn bfind(ty: Type) -> Option<Map> {
    by_type!(ty, T in [U32 = u32, U64 = u64, S32 = i32, S64 = i64] => map!(|a: T| {
        let magnitude = magnitude(a as i128);
        (T::BITS - 1).wrapping_sub(magnitude.leading_zeros() - (128 - T::BITS))
    }))
}

/// The shift to the left that makes that bit the highest.
pub(crate) fn bfind_shift(ty: Type) -> Option<Map> {
    by_type!(ty, T in [U32 = u32, U64 = u64, S32 = i32, S64 = i64] => map!(|a: T| {
        let magnitude = magnitude(a as i128);
        if magnitude == 0 { u32::MAX } else { magnitude.leading_zeros() - (128 - T::BITS) }
    }))
}

/// The bits of a number that differ from its sign.
fn magnitude(a: i128) -> u128 {
    (a ^ (a >> 127)) as u128
}

/// The field of `a` at bit `b` of `c` bits, extended by its sign if the type has one.
pub(crate) fn bfe(ty: Type) -> Option<Map> {
    by_type!(ty, T in [U32 = u32, U64 = u64, S32 = i32, S64 = i64] => map!(|a: T, b: u32, c: u32| {
        let (at, length) = (b & 0xff, c & 0xff);
        // 128 bits hold the operand with its sign, so that a field past the end finds copies of it.
        let field = (a as i128) >> at.min(127);
        if length == 0 { 0 } else if length >= T::BITS { field as T } else { extend(field, length, T::MIN != 0) as T }
    }))
}

/// The low `length` bits of a field, extended.
fn extend(field: i128, length: u32, signed: bool) -> i128 {
    let shift = 128 - length;
    if signed { field << shift >> shift } else { ((field << shift) as u128 >> shift) as i128 }
}

/// `b` with its field at bit `c` of `d` bits replaced by `a`'s low bits.
pub(crate) fn bfi(ty: Type) -> Option<Map> {
    by_type!(ty, T in [B32 = u32, B64 = u64] => map!(|a: T, b: T, c: u32, d: u32| {
        let (at, length) = (c & 0xff, d & 0xff);
        let ones = if length >= T::BITS { T::MAX } else { (1 << length) - 1 };
        let field = ones.checked_shl(at).unwrap_or(0);
        b & !field | a.checked_shl(at).unwrap_or(0) & field
    }))
}

/// Four bytes of `b:a`, each chosen by a digit of `c`. The high bit of the digit replicates the
/// byte's sign instead.
pub(crate) fn prmt() -> Map {
    map!(|a: u32, b: u32, c: u32| {
        let bytes = join(b, a).to_le_bytes();
        u32::from_le_bytes([0, 4, 8, 12].map(|digit| {
            let byte = bytes[(c >> digit & 7) as usize];
            if c >> digit & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 }
        }))
    })
}

/// Any function of three bits, by its truth table: bit `4a + 2b + c` of `d`.
pub(crate) fn lop3() -> Map {
    map!(|a: u32, b: u32, c: u32, d: u32| {
        let mut result = 0;
        for row in 0..8 {
            let (x, y, z) = (spread(row & 4), spread(row & 2), spread(row & 1));
            result |= spread(d >> row & 1) & !(a ^ x) & !(b ^ y) & !(c ^ z);
        }
        result
    })
}

/// All ones, unless `bit` is zero.
fn spread(bit: u32) -> u32 {
    if bit == 0 { 0 } else { u32::MAX }
}

/// The operand itself.
pub(crate) fn copy(ty: Type) -> Option<Map> {
    match ty.bits() {
        8 => Some(map!(|a: u8| a)),
        16 => Some(map!(|a: u16| a)),
        32 => Some(map!(|a: u32| a)),
        64 => Some(map!(|a: u64| a)),
        _ => None,
    }
}
