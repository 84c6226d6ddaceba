//! The hyperbolic functions and their inverses.
//!
//! The inverses are odd polynomials near 0. Elsewhere they are logarithms of a sum or a quotient,
//! with the rounding error taken into account.

use super::builder::{PerFloat, Value};
use super::coefficients::{ASINH, ATANH, SINH, TANH};
use super::exp::{Scaled, half_expm1_of_twice, scaled};
use super::log::log_of_sum;

/// Below, tanh is an odd polynomial.
const TANH_SMALL: f64 = 0.3;

/// From here on tanh is 1.
const TANH_LIMIT: PerFloat<f64> = PerFloat { f32: 10.0, f64: 20.0 };

/// tanh x = h / (h + 1) with h = (e^2|x| - 1) / 2. Both forms are evaluated for |x|; the sign is
/// restored at the end, -0 included.
pub(super) fn tanh(x: Value) -> Value {
    let float = x.float();
    let a = x.abs().at_most(TANH_LIMIT.of(float));
    let square = a * a;
    let small = (square * a).fma(square.polynomial(TANH.of(float)), a);
    let h = half_expm1_of_twice(a);
    a.lt(TANH_SMALL).select(small, h / (h + 1.0)).flip_sign(x.sign_bit())
}

/// cosh x = h + 1 / (4 h) with h = e^|x| / 2.
pub(super) fn cosh(x: Value) -> Value {
    let h = half_exp(x.abs());
    h + x.real(0.25) / h
}

/// sinh x: up to 1 an odd polynomial, beyond h - 1 / (4 h).
pub(super) fn sinh(x: Value) -> Value {
    let a = x.abs();
    let square = a * a;
    let small = (square * a).fma(square.polynomial(SINH.of(x.float())), a);
    let h = half_exp(a);
    a.lt(1.0).select(small, h - x.real(0.25) / h).flip_sign(x.sign_bit())
}

/// e^a / 2 for a >= 0, without overflowing earlier than the result does.
fn half_exp(a: Value) -> Value {
    // Above, the result is infinite.
    let most = PerFloat { f32: 90.0, f64: 711.0 }.of(a.float());
    let Scaled { e, half, other_half } = scaled(a.at_most(most));
    e.whole() * (half * 0.5) * other_half
}

/// From here on x^2 + 1 and x^2 - 1 round to x^2.
const SQUARES: PerFloat<f64> = PerFloat { f32: 16_777_216.0, f64: 9_007_199_254_740_992.0 };

/// asinh x: up to a half an odd polynomial; beyond, log(|x| + sqrt(x^2 + 1)).
pub(super) fn asinh(x: Value) -> Value {
    let a = x.abs();
    let square = a * a;
    let small = (square * a).fma(square.polynomial(ASINH.of(x.float())), a);
    a.lt(0.5).select(small, log_with_root(a, 1.0)).flip_sign(x.sign_bit())
}

/// acosh x = log(x + sqrt(x^2 - 1)), NaN below 1.
pub(super) fn acosh(x: Value) -> Value {
    x.lt(1.0).select(x.real(f64::NAN), log_with_root(x, -1.0))
}

/// log(a + sqrt(a^2 + `one`)) for a > 0, and log(2 a) where that is the same.
fn log_with_root(a: Value, one: f64) -> Value {
    let square = a * a;
    let square_lo = a.fma(a, -square);
    let sum = square + one;
    // Either term may be the greater (Knuth's sum).
    let second = sum - square;
    let sum_lo = (square - (sum - second)) + (second.real(one) - second) + square_lo;
    let root = sum.sqrt();
    // The root may be 0; otherwise it is far above the least number.
    let root_lo = (root.fma(-root, sum) + sum_lo) * 0.5 / (root + a.float().least_normal());
    let u = a + root;
    // The root is less than a if `one` is negative, else greater.
    let (greater, lesser) = if one < 0.0 { (a, root) } else { (root, a) };
    let c = (greater - u) + lesser + root_lo;
    let large = a.gt(SQUARES.of(a.float()));
    log_of_sum(large.select(a, u), large.select(a.real(0.0), c), Some(large))
}

/// Up to here atanh is an odd polynomial.
const ATANH_SMALL: f64 = 0.1716;

/// atanh x: an odd polynomial near 0; beyond, log((1 + |x|) / (1 - |x|)) / 2.
pub(super) fn atanh(x: Value) -> Value {
    let a = x.abs();
    let square = a * a;
    let small = (square * a).fma(square.polynomial(ATANH.of(x.float())), a);
    let (above, below) = (a + 1.0, -a + 1.0);
    let (above_lo, below_lo) = (a - (above - 1.0), (-below + 1.0) - a);
    let u = above / below;
    let c = (u.fma(-below, above) + u.fma(-below_lo, above_lo)) / below;
    a.lt(ATANH_SMALL).select(small, log_of_sum(u, c, None) * 0.5).flip_sign(x.sign_bit())
}
