//! The hyperbolic functions.

use super::builder::{PerFloat, Value};
use super::coefficients::{SINH, TANH};
use super::exp::{Scaled, exp_normal, scaled};

/// Below, tanh is an odd polynomial; above, it is far enough from 0 that nothing cancels in 1 - 2 t / (1 + t) with
/// t = e^-2|x|.
const TANH_SMALL: f64 = 0.55;

/// tanh x. Both forms are evaluated for |x|; the sign is put back at the end, -0 included.
pub(super) fn tanh(x: Value) -> Value {
    let a = x.abs();
    let square = a * a;
    let small = (square * a).fma(square.polynomial(TANH.of(x.float())), a);
    // At -60 the result has long been 1, and t is still normal.
    let t = exp_normal((a * -2.0).at_least(-60.0));
    let large = (t / (t + 1.0)).fma(-2.0, 1.0);
    a.lt(TANH_SMALL).select(small, large).flip_sign(x.sign_bit())
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

/// e^a / 2 for a >= 0, in range where it is.
fn half_exp(a: Value) -> Value {
    // Above, the result is infinite.
    let most = PerFloat { f32: 90.0, f64: 711.0 }.of(a.float());
    let Scaled { e, half, other_half } = scaled(a.at_most(most));
    e.whole() * (half * 0.5) * other_half
}
