//! Integer arithmetic, modulo two to the width. Types of 16, 32 and 64 bits, as far as an
//! instruction has them.

use crate::lanes::{Map, by_type, integers, map};
use crate::types::Type;

pub(crate) fn add(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T| a.wrapping_add(b)))
}

pub(crate) fn sub(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T| a.wrapping_sub(b)))
}

/// Only `s32` saturates.
pub(crate) fn add_saturating(ty: Type) -> Option<Map> {
    by_type!(ty, T in [S32 = i32] => map!(|a: T, b: T| a.saturating_add(b)))
}

/// Only `s32` saturates.
pub(crate) fn sub_saturating(ty: Type) -> Option<Map> {
    by_type!(ty, T in [S32 = i32] => map!(|a: T, b: T| a.saturating_sub(b)))
}

/// The low half of the product.
pub(crate) fn mul_lo(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T| a.wrapping_mul(b)))
}

/// The high half of the product.
pub(crate) fn mul_hi(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T| ((a as i128).wrapping_mul(b as i128) >> T::BITS) as T))
}

/// The whole product, twice as wide as its operands.
pub(crate) fn mul_wide(ty: Type) -> Option<Map> {
    match ty {
        Type::U16 => Some(map!(|a: u16, b: u16| u32::from(a) * u32::from(b))),
        Type::S16 => Some(map!(|a: i16, b: i16| i32::from(a) * i32::from(b))),
        Type::U32 => Some(map!(|a: u32, b: u32| u64::from(a) * u64::from(b))),
        Type::S32 => Some(map!(|a: i32, b: i32| i64::from(a) * i64::from(b))),
        _ => None,
    }
}

/// The low half of a product, plus `c`.
pub(crate) fn mad_lo(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T, c: T| a.wrapping_mul(b).wrapping_add(c)))
}

/// The high half of a product, plus `c`.
pub(crate) fn mad_hi(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T, c: T| (((a as i128).wrapping_mul(b as i128) >> T::BITS) as T).wrapping_add(c)))
}

/// The whole product, plus a `c` of its width.
pub(crate) fn mad_wide(ty: Type) -> Option<Map> {
    match ty {
        Type::U16 => Some(map!(|a: u16, b: u16, c: u32| (u32::from(a) * u32::from(b)).wrapping_add(c))),
        Type::S16 => Some(map!(|a: i16, b: i16, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c))),
        Type::U32 => Some(map!(|a: u32, b: u32, c: u64| (u64::from(a) * u64::from(b)).wrapping_add(c))),
        Type::S32 => Some(map!(|a: i32, b: i32, c: i64| (i64::from(a) * i64::from(b)).wrapping_add(c))),
        _ => None,
    }
}

/// Division towards zero. Lanes that divide by zero have already been reported as faults.
pub(crate) fn div(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T| if b == 0 { 0 } else { a.wrapping_div(b) }))
}

/// With the sign of `a`.
pub(crate) fn rem(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T| if b == 0 { 0 } else { a.wrapping_rem(b) }))
}

pub(crate) fn abs(ty: Type) -> Option<Map> {
    by_type!(ty, T in [S16 = i16, S32 = i32, S64 = i64] => map!(|a: T| a.wrapping_abs()))
}

pub(crate) fn neg(ty: Type) -> Option<Map> {
    by_type!(ty, T in [S16 = i16, S32 = i32, S64 = i64] => map!(|a: T| a.wrapping_neg()))
}

pub(crate) fn min(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T| a.min(b)))
}

pub(crate) fn max(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T| a.max(b)))
}

/// `c + |a - b|`.
pub(crate) fn sad(ty: Type) -> Option<Map> {
    integers!(ty, T => map!(|a: T, b: T, c: T| c.wrapping_add(if a < b { b.wrapping_sub(a) } else { a.wrapping_sub(b) })))
}
