//! Comparisons, as `setp` and `set` name them.

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
    // The unsigned have names of their own beside the common ones.
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

fn float(name: &str, ty: Type) -> Option<Compare> {
    macro_rules! of {
        (|$a:ident, $b:ident| $e:expr) => {
            by_type!(ty, T in [F16 = f16, Bf16 = bf16, F32 = f32, F64 = f64] => lanes!(T, |$a, $b| $e))
        };
    }
    match name {
        "eq" => of!(|a, b| a == b),
        "ne" => of!(|a, b| a < b || a > b),
        "lt" => of!(|a, b| a < b),
        "le" => of!(|a, b| a <= b),
        "gt" => of!(|a, b| a > b),
        "ge" => of!(|a, b| a >= b),
        "equ" => of!(|a, b| !(a < b || a > b)),
        "neu" => of!(|a, b| a != b),
        "ltu" => of!(|a, b| !(a >= b)),
        "leu" => of!(|a, b| !(a > b)),
        "gtu" => of!(|a, b| !(a <= b)),
        "geu" => of!(|a, b| !(a < b)),
        "num" => of!(|a, b| !a.is_nan() && !b.is_nan()),
        "nan" => of!(|a, b| a.is_nan() || b.is_nan()),
        _ => None,
    }
}
