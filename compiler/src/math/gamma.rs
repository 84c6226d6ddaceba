//! The logarithm of the gamma function and its derivative, digamma.
//!
//! From 3 on they are the series of Stirling, with a logarithm in two parts. Between 1 and 3 they
//! are polynomials, times the distances from their zeros, so that results near these keep their
//! precision. Below 1, gamma(1 + x) = x gamma(x) leads there. Below 0,
//!
//! ```text
//! gamma(x) gamma(1 - x) = pi / sin(pi x),
//! ```
//!
//! where sin(pi x) and its derivative are computed from the exact distance to the nearest integer.
//! These sums cancel near the zeros between negative integers, where a result has only the absolute
//! precision of its terms.
//!
//! An `f32` result is an `f64` one, rounded, so that it is precise near those zeros too.

use ir::Dtype;

use super::builder::{Float, Value};
use super::coefficients::{
    COT_PI, DIGAMMA_FAR, DIGAMMA_NEAR, DIGAMMA_ROOT, DIGAMMA_ROOT_LO, HALF_LOG_TAU_LESS, HALF_LOG_TAU_MORE, LGAMMA_FAR,
    LGAMMA_NEAR, SIN_PI,
};
use super::log::log_in_parts;

/// From here on the series of Stirling are taken.
const FAR: f64 = 3.0;

/// log |gamma x|: infinity at zero, the negative integers and both infinities.
pub(super) fn lgamma(x: Value) -> Value {
    in_f64(x, lgamma_f64)
}

/// The derivative of log |gamma x|. At a zero it is infinite, with the opposite sign; at the
/// negative integers, where it jumps from infinity to minus infinity, NaN.
pub(super) fn digamma(x: Value) -> Value {
    in_f64(x, digamma_f64)
}

fn in_f64<'b>(x: Value<'b>, function: impl FnOnce(Value<'b>) -> Value<'b>) -> Value<'b> {
    match x.float() {
        Float::F32 => function(x.cast(Dtype::F64)).cast(Dtype::F32),
        Float::F64 => function(x),
    }
}

fn lgamma_f64(x: Value) -> Value {
    let a = x.abs();
    let negative = x.lt(0.0);
    // |sin(pi x)| / pi, and its rounding error.
    let [sine, sine_lo] = negative.branch(
        || {
            let r = from_integer(a).abs();
            let square = r * r;
            let bend = square * r * square.polynomial(SIN_PI);
            let sine = r + bend;
            [sine, (r - sine) + bend]
        },
        || [x.real(1.0), x.real(0.0)],
    );
    // log gamma(a) or, if x is negative, log gamma(1 + a); or one of the two that differs from it by
    // log a, which is then a factor of the divisor.
    let [y, y_lo, divisor, divisor_lo] = a.lt(FAR).branch(
        || {
            let Near { v, shifted } = near(a, negative);
            let other = shifted.select(a, a - 1.0);
            let zeros = v * other;
            let zeros_lo = v.fma(other, -zeros);
            let slow = v.polynomial(LGAMMA_NEAR);
            let y = zeros * slow;
            let y_lo = zeros_lo.fma(slow, zeros.fma(slow, -y));
            let factor = (negative ^ shifted).select(a, x.real(1.0));
            let divisor = sine * factor;
            [y, y_lo, divisor, sine_lo.fma(factor, sine.fma(factor, -divisor))]
        },
        || {
            let (log, log_lo) = log_in_parts(a);
            let factor = a + negative.select(x.real(0.5), x.real(-0.5));
            // Exact, because the logarithm is at least 1.
            let log = log - 1.0;
            let product = factor * log;
            let product_lo = factor.fma(log_lo, factor.fma(log, -product));
            let reciprocal = x.real(1.0) / a;
            let series = reciprocal * (reciprocal * reciprocal).polynomial(LGAMMA_FAR);
            let constant = negative.select(x.real(HALF_LOG_TAU_MORE.f64), x.real(HALF_LOG_TAU_LESS.f64));
            let (y, y_lo) = sum(product, constant);
            let rest = y.lt(f64::INFINITY).select(y_lo + (product_lo + series), x.real(0.0));
            [y, rest, sine, sine_lo]
        },
    );
    let [y] = x.lt(1.0).branch(
        || {
            let (log, log_lo) = log_in_parts(divisor);
            let log_lo = log_lo + divisor_lo / divisor;
            let (y, y_lo) = (negative.select(-y, y), negative.select(-y_lo, y_lo));
            let (sum, sum_lo) = sum(y, -log);
            [sum + (sum_lo + (y_lo - log_lo))]
        },
        || [y + y_lo],
    );
    (a.eq(f64::INFINITY) | divisor.eq(0.0)).select(x.real(f64::INFINITY), y)
}

fn digamma_f64(x: Value) -> Value {
    let a = x.abs();
    let negative = x.lt(0.0);
    // digamma(a) or digamma(1 + a), as in `lgamma_f64`.
    let [y, y_lo] = a.lt(FAR).branch(
        || {
            let Near { v, shifted } = near(a, negative);
            let (root, root_lo) = (DIGAMMA_ROOT.f64, DIGAMMA_ROOT_LO.f64);
            let first = a - shifted.select(x.real(root - 1.0), x.real(root));
            let off = first - root_lo;
            let off_lo = (first - off) - root_lo;
            let slow = v.polynomial(DIGAMMA_NEAR);
            let y = off * slow;
            [y, off_lo.fma(slow, off.fma(slow, -y))]
        },
        || {
            let (log, log_lo) = log_in_parts(a);
            let reciprocal = x.real(1.0) / a;
            let square = reciprocal * reciprocal;
            let half = negative.select(x.real(0.5), x.real(-0.5));
            let rest = square.fma(-square.polynomial(DIGAMMA_FAR), log_lo);
            [log, reciprocal.fma(half, rest)]
        },
    );
    let [y] = x.lt(1.0).branch(
        || {
            // pi cot(pi a) is a pole and a smooth function, -1 / x a pole alone.
            let r = negative.select(from_integer(a), -x);
            let pole = x.real(1.0) / r;
            let pole_lo = pole.fma(-r, 1.0) * pole;
            let square = r * r;
            let slope = negative.select(x.real(COT_PI[0]), x.real(0.0));
            let smooth = r * slope;
            let bend = square * r * square.polynomial(&COT_PI[1..]);
            let smooth_lo = negative.select(bend, x.real(0.0)) + r.fma(slope, -smooth);
            // The step from digamma(a) to digamma(1 + a), where only the former is known.
            let between = a.lt(FAR) & a.lt(2.0).not();
            let step = between.select(x.real(1.0) / a, x.real(0.0));
            let (cotangent, cotangent_lo) = sum(pole, -smooth);
            let (sum, sum_lo) = sum(y, cotangent);
            let y = sum + (sum_lo + cotangent_lo + (y_lo + step + (pole_lo - smooth_lo)));
            // So close to a pole, that is the result, and it may be infinite.
            let at_zero = a.lt(POLE).select(pole, x.real(f64::NAN));
            [r.abs().lt(POLE).select(at_zero, y)]
        },
        || [y + y_lo],
    );
    x.eq(f64::INFINITY).select(x, y)
}

/// Below, 1 / x is the same as -digamma x.
const POLE: f64 = 1e-100;

/// Where the polynomials are taken, for a < `FAR`: at gamma(2 + v), where 2 + v is a or, if
/// `shifted`, 1 + a.
struct Near<'b> {
    v: Value<'b>,
    shifted: Value<'b>,
}

fn near<'b>(a: Value<'b>, negative: Value<'b>) -> Near<'b> {
    let shifted = a.lt(negative.select(a.real(2.0), a.real(1.0)));
    Near { v: a - shifted.select(a.real(1.0), a.real(2.0)), shifted }
}

/// a less the nearest integer, exact; NaN of infinity.
fn from_integer(a: Value) -> Value {
    let rest = a - a.floor();
    rest.gt(0.5).select(rest - 1.0, rest)
}

/// A sum and its rounding error, whichever is the greater (Knuth's sum).
fn sum<'b>(a: Value<'b>, b: Value<'b>) -> (Value<'b>, Value<'b>) {
    let sum = a + b;
    let second = sum - a;
    (sum, (a - (sum - second)) + (b - second))
}
