//! The error function and functions based on it.

use super::builder::{Float, PerFloat, Value};
use super::coefficients::{
    ERF, ERF_INV, ERF_INV_FAR, ERF_INV_TAIL, ERFC_LOG2, GELU_EXP, GELU_FAR, GELU_FAR_CENTER, GELU_INVERSE_PERIOD,
    GELU_LEVEL, GELU_NEAR, GELU_NEAR_CENTER, GELU_PERIOD, NORMAL_TAIL, NORMAL_TAIL_C, NORMAL_TAIL_K,
};
use super::exp::{Fine, fine, less_exp2, magic};
use super::log::log_in_parts;

/// From here on erf is 1.
const ERF_LIMIT: PerFloat<f64> = PerFloat { f32: 4.0, f64: 6.0 };

/// erf x: up to 1 an odd polynomial; beyond, 1 - 2^p(|x|) with a polynomial p, after N. Juffa.
pub(super) fn erf(x: Value) -> Value {
    let float = x.float();
    let a = x.abs().at_most(ERF_LIMIT.of(float));
    let small = a.fma((a * a).polynomial(ERF.of(float)), a);
    let large = less_exp2(a.polynomial(ERFC_LOG2.of(float)), 1.0);
    a.lt(1.0).select(small, large).flip_sign(x.sign_bit())
}

/// Up to here [`erf_inv`] takes a polynomial in w, about the second number.
const CENTRAL: PerFloat<f64> = PerFloat { f32: 5.0, f64: 6.25 };
const CENTER: PerFloat<f64> = PerFloat { f32: 1.875, f64: 3.125 };

/// Up to here it takes one in the root of w, and beyond another one.
const TAIL: f64 = 16.0;

/// The inverse of erf: x times a function of w = -log(1 - x^2), which is smooth in w near 0 and in
/// the root of w in the tails (M. Giles, "Approximating the erfinv function", 2010). 1 - x^2 is
/// rounded once, and the rounding errors of w and its root are kept.
pub(super) fn erf_inv(x: Value) -> Value {
    let float = x.float();
    let (log, log_lo) = log_in_parts((-x).fma(x, 1.0));
    let w = -log;
    let [factor] = w.gt(CENTRAL.of(float)).branch(
        || {
            let root = w.sqrt();
            let root_lo = (root.fma(-root, w) - log_lo) * 0.5 / root;
            let powers = |center: f64, c: &[f64]| [((root - center) + root_lo).polynomial(c)];
            let tail = || powers(PerFloat { f32: 3.0, f64: 3.25 }.of(float), ERF_INV_TAIL.of(float));
            match float {
                // An `f32` below 1 has no w beyond.
                Float::F32 => tail(),
                Float::F64 => w.gt(TAIL).branch(|| powers(5.0, ERF_INV_FAR), tail),
            }
        },
        || [((w - CENTER.of(float)) - log_lo).polynomial(ERF_INV.of(float))],
    );
    let a = x.abs();
    let end = a.eq(1.0).select(x * f64::INFINITY, x.real(f64::NAN));
    a.lt(1.0).select(x * factor, end)
}

/// gelu x = x P(X < x) for a normal X. It is computed as max(x, 0) - a P(X > a) with a = |x|, which
/// avoids cancellation. At minus infinity the result is the limit, -0.
pub(super) fn gelu(x: Value) -> Value {
    match x.float() {
        Float::F32 => gelu_of_f32(x),
        Float::F64 => gelu_of_f64(x),
    }
}

/// From here on a P(X > a) rounds to 0.
const TAIL_LIMIT: PerFloat<f64> = PerFloat { f32: 14.4375, f64: 39.0 };

/// The binary logarithm of the scale of [`gelu_of_f32`]'s tail: that keeps 2^k normal, and products
/// with a denormal x precise.
const TAIL_SCALE: i32 = 38;

/// Below this is one in 700 numbers of a normal distribution.
const FAR: f64 = -3.0;

/// gelu of an `f32`, without a division.
///
/// 2 P(X > a) is 2^(-w / c) (1 + g) with w = a^2 + a, a constant c near 2 log 2, and a polynomial g
/// in a. Up to 3, w grows as the tail shrinks, so g is small and its rounding weighs little; c has
/// few bits, so w - k c has only one rounding that matters. Below -3, w has a constant in place of
/// the linear term, and g is a longer polynomial. Above 3 the tail needs few bits.
fn gelu_of_f32(x: Value) -> Value {
    let a = x.abs().at_most(TAIL_LIMIT.f32);
    let magic = magic(Float::F32, Float::F32.bias() + i64::from(TAIL_SCALE));
    let near = || {
        // w is a (a + 1). The rounding error of a + 1 would be magnified.
        let next = a + 1.0;
        let next_lo = a - (next - 1.0);
        let shifted = a.fma(next * -GELU_INVERSE_PERIOD, magic);
        let first = a.fma(next, (shifted - magic) * GELU_PERIOD);
        let g = a * (a - GELU_NEAR_CENTER).polynomial(GELU_NEAR);
        [shifted.bits(), a.fma(next_lo, first), g]
    };
    let far = || {
        let shifted = a.fma(a, GELU_LEVEL).fma(-GELU_INVERSE_PERIOD, magic);
        let r = a.fma(a, (shifted - magic).fma(GELU_PERIOD, GELU_LEVEL));
        [shifted.bits(), r, (a - GELU_FAR_CENTER).polynomial(GELU_FAR)]
    };
    let [bits, r, g] = x.lt(FAR).branch(far, near);
    // 2^(-r / c) - 1. The 1 of (1 + e) (1 + g) is added in the product with a, which rounds once.
    let e = r * r.polynomial(GELU_EXP);
    let scaled = a * (bits << i64::from(Float::F32.fraction())).as_float();
    let tail = scaled.fma(e.fma(g, e) + g, scaled);
    tail.fma(-0.5 * 2f64.powi(-TAIL_SCALE), x.max(-0.0))
}

/// gelu of an `f64`.
///
/// The tail is e^(-a^2 / 2) times a slow function of a, a polynomial in u = a / (1 + k a) (in that
/// form Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", 1981). The
/// square is exact in two parts, because e^x would magnify its rounding.
fn gelu_of_f64<'b>(x: Value<'b>) -> Value<'b> {
    let a = x.abs().at_most(TAIL_LIMIT.f64);
    let k = NORMAL_TAIL_K;
    let d = a.fma(k, 1.0);
    let u = a / d;
    // The rounding errors of d and u: 1 / d is 1 - k u.
    let d_lo = a.fma(k, x.real(1.0) - d);
    let u_lo = u.fma(-d_lo, u.fma(-d, a)) * u.fma(-k, 1.0);
    // The last two steps of the polynomial, with their rounding errors.
    let v = u - NORMAL_TAIL_C;
    let step = |sum: Value<'b>, c: f64| {
        let next = v.fma(sum, c);
        (next, v.fma(sum, v.real(c) - next))
    };
    let c = NORMAL_TAIL;
    let (others, others_lo) = step(v.polynomial(&c[2..]), c[1]);
    let (g, g_lo) = step(others, c[0]);
    let g_lo = v.fma(others_lo, g_lo);
    let slow = u * g;
    // The derivative of u g by u is nearly g + u others.
    let slow_lo = u.fma(g_lo, u_lo.fma(u.fma(others, g), u.fma(g, -slow)));
    let square = a * a;
    let square_lo = a.fma(a, -square);
    let Fine { r, bend, half, other_half } = fine(square * -0.5, Some(square_lo * -0.5));
    // e^(-a^2 / 2) - 1, and its rounding error.
    let less_one = r + bend;
    let slow_lo = slow.fma((r - less_one) + bend, slow_lo);
    let tail = (slow + slow.fma(less_one, slow_lo)) * half * other_half;
    x.max(-0.0) - tail
}
