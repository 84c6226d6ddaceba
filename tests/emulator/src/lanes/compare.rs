//! Comparisons, as `setp` and `set` name them.

use std::cmp::Ordering;

use half::{bf16, f16};

use crate::lanes::{Compare, Lane, by_type};
use crate::types::{Class, Row, Type};

/// A comparison by its name, for operands of a type.
pub(crate) fn compare(name: &str, ty: Type) -> Option<Compare> {
    match ty.class() {
        Class::Float => float(name, ty),
        Class::Pred => None,
        Class::Bits if !matches!(name, "eq" | "ne") => None,
        Class::Unsigned | Class::Signed | Class::Bits => integer(name, ty),
    }
}

/// Lanes where `holds`.
#[inline(always)]
fn holds<T: Lane>(a: &Row, b: &Row, holds: fn(T, T) -> bool) -> u32 {
    let mut mask = 0;
    for lane in 0..a.len() {
        mask |= u32::from(holds(T::of(a[lane]), T::of(b[lane]))) << lane;
    }
    mask
}

macro_rules! lanes {
    ($T:ty, |$a:ident, $b:ident| $e:expr) => {{
        let compare: Compare = |a, b| holds::<$T>(a, b, |$a, $b| $e);
        compare
    }};
}

fn integer(name: &str, ty: Type) -> Option<Compare> {
    macro_rules! of {
        (|$a:ident, $b:ident| $e:expr) => {
            by_type!(ty, T in [B16 | U16 = u16, B32 | U32 = u32, B64 | U64 = u64, S16 = i16, S32 = i32, S64 = i64] => lanes!(T, |$a, $b| $e))
        };
    }
    // Unsigned types have further names in addition to the common ones.
    let unsigned = ty.class() == Class::Unsigned;
    match name {
        "eq" => of!(|a, b| a == b),
        "ne" => of!(|a, b| a != b),
        "lt" => of!(|a, b| a < b),
        "le" => of!(|a, b| a <= b),
        "gt" => of!(|a, b| a > b),
        "ge" => of!(|a, b| a >= b),
        "lo" if unsigned => of!(|a, b| a < b),
        "ls" if unsigned => of!(|a, b| a <= b),
        "hi" if unsigned => of!(|a, b| a > b),
        "hs" if unsigned => of!(|a, b| a >= b),
        _ => None,
    }
}

/// How two floats can compare, a bit each.
const LESS: u32 = 1;
const EQUAL: u32 = 2;
const GREATER: u32 = 4;
const UNORDERED: u32 = 8;

fn outcome<T: PartialOrd>(a: T, b: T) -> u32 {
    match a.partial_cmp(&b) {
        Some(Ordering::Less) => LESS,
        Some(Ordering::Equal) => EQUAL,
        Some(Ordering::Greater) => GREATER,
        None => UNORDERED,
    }
}

fn float(name: &str, ty: Type) -> Option<Compare> {
    macro_rules! of {
        ($outcomes:expr) => {
            by_type!(ty, T in [F16 = f16, Bf16 = bf16, F32 = f32, F64 = f64] => {
                lanes!(T, |a, b| outcome(a, b) & ($outcomes) != 0)
            })
        };
    }
    match name {
        "eq" => of!(EQUAL),
        "ne" => of!(LESS | GREATER),
        "lt" => of!(LESS),
        "le" => of!(LESS | EQUAL),
        "gt" => of!(GREATER),
        "ge" => of!(GREATER | EQUAL),
        "equ" => of!(EQUAL | UNORDERED),
        "neu" => of!(LESS | GREATER | UNORDERED),
        "ltu" => of!(LESS | UNORDERED),
        "leu" => of!(LESS | EQUAL | UNORDERED),
        "gtu" => of!(GREATER | UNORDERED),
        "geu" => of!(GREATER | EQUAL | UNORDERED),
        "num" => of!(LESS | EQUAL | GREATER),
        "nan" => of!(UNORDERED),
        _ => None,
    }
}
