//! Floating-point arithmetic. NaN results are canonical; denormals are kept.
//!
//! The `.approx` functions are computed in double precision and rounded, so they come close to the
//! hardware's results but do not reproduce its bits.

use half::{bf16, f16};

use crate::lanes::rounding::{self, Direction, add_to_odd};
use crate::lanes::{Lane, Map, by_type, map};
use crate::types::Type;

/// A map that rounds in a direction other than to nearest, which is the constant `$D` within it.
macro_rules! directed {
    ($direction:expr, $D:ident => $e:expr) => {
        directed!($direction, $D => $e, [Zero, Down, Up])
    };
    ($direction:expr, $D:ident => $e:expr, [$($name:ident),*]) => {
        match $direction {
            $(Direction::$name => {
                const $D: Direction = Direction::$name;
                Some($e)
            })*
            Direction::Nearest => None,
        }
    };
}

fn single(value: f64, direction: Direction) -> f32 {
    f32::of(rounding::F32.of(value, direction))
}

/// The sum, rounded to odd. An exact zero gets the sign that the direction implies.
fn sum(a: f64, b: f64, direction: Direction) -> f64 {
    let sum = add_to_odd(a, b);
    let cancelled = sum == 0.0 && (a.is_sign_negative() || b.is_sign_negative());
    if cancelled && direction == Direction::Down { -0.0 } else { sum }
}

/// The product and the sum each exact, then one rounding.
fn fused(a: f32, b: f32, c: f32, direction: Direction) -> f64 {
    sum(f64::from(a) * f64::from(b), f64::from(c), direction)
}

/// Uses `f32` and `f64` of the host. 16-bit types go through `f32`, which is wide enough for double
/// rounding to be harmless.
macro_rules! arithmetic {
    ($ty:expr, |$($x:ident),*| $e:expr) => {
        match $ty {
            Type::F32 => Some(map!(|$($x: f32),*| $e)),
            Type::F64 => Some(map!(|$($x: f64),*| $e)),
            Type::F16 => Some(map!(|$($x: f16),*| { $(let $x = $x.to_f32();)* f16::from_f32($e) })),
            Type::Bf16 => Some(map!(|$($x: bf16),*| { $(let $x = $x.to_f32();)* bf16::from_f32($e) })),
            _ => None,
        }
    };
}

pub(crate) fn add(ty: Type, direction: Direction) -> Option<Map> {
    match (ty, direction) {
        (_, Direction::Nearest) => arithmetic!(ty, |a, b| a + b),
        (Type::F32, _) => {
            directed!(direction, D => map!(|a: f32, b: f32| single(sum(f64::from(a), f64::from(b), D), D)))
        }
        _ => None,
    }
}

pub(crate) fn sub(ty: Type, direction: Direction) -> Option<Map> {
    match (ty, direction) {
        (_, Direction::Nearest) => arithmetic!(ty, |a, b| a - b),
        (Type::F32, _) => {
            directed!(direction, D => map!(|a: f32, b: f32| single(sum(f64::from(a), -f64::from(b), D), D)))
        }
        _ => None,
    }
}

pub(crate) fn mul(ty: Type, direction: Direction) -> Option<Map> {
    match (ty, direction) {
        (_, Direction::Nearest) => arithmetic!(ty, |a, b| a * b),
        (Type::F32, _) => directed!(direction, D => map!(|a: f32, b: f32| single(f64::from(a) * f64::from(b), D))),
        _ => None,
    }
}

pub(crate) fn fma(ty: Type, direction: Direction) -> Option<Map> {
    const D: Direction = Direction::Nearest;
    match (ty, direction) {
        (Type::F32, D) => Some(map!(|a: f32, b: f32, c: f32| a.mul_add(b, c))),
        (Type::F64, D) => Some(map!(|a: f64, b: f64, c: f64| a.mul_add(b, c))),
        (Type::F16, D) => Some(map!(|a: f16, b: f16, c: f16| {
            f16::of(rounding::F16.of(fused(a.to_f32(), b.to_f32(), c.to_f32(), D), D))
        })),
        (Type::Bf16, D) => Some(map!(|a: bf16, b: bf16, c: bf16| {
            bf16::of(rounding::BF16.of(fused(a.to_f32(), b.to_f32(), c.to_f32(), D), D))
        })),
        (Type::F32, _) => directed!(direction, D => map!(|a: f32, b: f32, c: f32| single(fused(a, b, c, D), D))),
        _ => None,
    }
}

/// Rounded to nearest.
pub(crate) fn div(ty: Type) -> Option<Map> {
    by_type!(ty, T in [F32 = f32, F64 = f64] => map!(|a: T, b: T| a / b))
}

/// Rounded to nearest.
pub(crate) fn sqrt(ty: Type) -> Option<Map> {
    by_type!(ty, T in [F32 = f32, F64 = f64] => map!(|a: T| a.sqrt()))
}

/// Rounded to nearest.
pub(crate) fn rcp(ty: Type) -> Option<Map> {
    by_type!(ty, T in [F32 = f32, F64 = f64] => map!(|a: T| 1.0 / a))
}

macro_rules! floats {
    ($ty:expr, $T:ident => $e:expr) => {
        by_type!($ty, $T in [F16 = f16, Bf16 = bf16, F32 = f32, F64 = f64] => $e)
    };
}

pub(crate) fn neg(ty: Type) -> Option<Map> {
    floats!(ty, T => map!(|a: T| -a))
}

pub(crate) fn abs(ty: Type) -> Option<Map> {
    match ty {
        Type::F16 => Some(map!(|a: u16| f16::from_bits(a & 0x7fff))),
        Type::Bf16 => Some(map!(|a: u16| bf16::from_bits(a & 0x7fff))),
        _ => by_type!(ty, T in [F32 = f32, F64 = f64] => map!(|a: T| a.abs())),
    }
}

/// The magnitude of `b` with the sign of `a`.
pub(crate) fn copysign(ty: Type) -> Option<Map> {
    match ty {
        Type::F32 => Some(map!(|a: u32, b: u32| a & 0x8000_0000 | b & 0x7fff_ffff)),
        Type::F64 => Some(map!(|a: u64, b: u64| a & 1 << 63 | b & !(1 << 63))),
        _ => None,
    }
}

/// The lesser, with -0 below +0. A number wins over a NaN, unless `nan` is set.
pub(crate) fn min(ty: Type, nan: bool) -> Option<Map> {
    if nan {
        floats!(ty, T => map!(|a: T, b: T| if a.is_nan() || less(a, b) { a } else { b }))
    } else {
        floats!(ty, T => map!(|a: T, b: T| if b.is_nan() || less(a, b) { a } else { b }))
    }
}

/// The greater, +0 above -0. A NaN loses against a number; with `nan` it wins.
pub(crate) fn max(ty: Type, nan: bool) -> Option<Map> {
    if nan {
        floats!(ty, T => map!(|a: T, b: T| if a.is_nan() || less(b, a) { a } else { b }))
    } else {
        floats!(ty, T => map!(|a: T, b: T| if b.is_nan() || less(b, a) { a } else { b }))
    }
}

/// Whether `a` is less than `b`, -0 counting as less than +0. With a NaN: no.
fn less<T: Lane + PartialOrd>(a: T, b: T) -> bool {
    // Equal numbers with other bits are zeros; the one with the higher bits is negative.
    a < b || a == b && a.bits() > b.bits()
}

/// A function of one `f32` of which the hardware has an approximation.
#[derive(Clone, Copy, Debug)]
#[rustfmt::skip]
pub(crate) enum Approximate { Ex2, Lg2, Rcp, Rsqrt, Sqrt, Sin, Cos, Tanh }

/// The function, with denormals flushed to zero on the way in and out if `flush`.
pub(crate) fn approximate(function: Approximate, flush: bool) -> Map {
    macro_rules! of {
        (|$a:ident| $e:expr) => {
            if flush {
                map!(|a: f32| {
                    let $a = f64::from(flushed(a));
                    flushed($e as f32)
                })
            } else {
                map!(|a: f32| {
                    let $a = f64::from(a);
                    $e as f32
                })
            }
        };
    }
    match function {
        Approximate::Ex2 => of!(|a| a.exp2()),
        Approximate::Lg2 => of!(|a| a.log2()),
        Approximate::Rcp => of!(|a| 1.0 / a),
        Approximate::Rsqrt => of!(|a| 1.0 / a.sqrt()),
        Approximate::Sqrt => of!(|a| a.sqrt()),
        Approximate::Sin => of!(|a| a.sin()),
        Approximate::Cos => of!(|a| a.cos()),
        Approximate::Tanh => of!(|a| a.tanh()),
    }
}

/// `div.full` and `div.approx`: near the quotient.
pub(crate) fn approximate_div(flush: bool) -> Map {
    if flush {
        map!(|a: f32, b: f32| flushed((f64::from(flushed(a)) / f64::from(flushed(b))) as f32))
    } else {
        map!(|a: f32, b: f32| (f64::from(a) / f64::from(b)) as f32)
    }
}

/// Zero of the same sign in place of a denormal.
fn flushed(a: f32) -> f32 {
    if a.is_subnormal() { 0f32.copysign(a) } else { a }
}
