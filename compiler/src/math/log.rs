//! The logarithms.
//!
//! x = 2^e m with m near 1 and f = m - 1, exact; log(1 + f) = f + t with a small t, so that the sum
//! of e log 2, f and t loses little. In `f32` t is a polynomial in f. In `f64` that would be long,
//! so t is the series of 2 atanh(s) with s = f / (2 + f), as in FreeBSD's msun (`e_log.c`).

use super::builder::{Float, PerFloat, Value};
use super::coefficients::{
    LN_2, LN_2_LO, LOG_ATANH, LOG_DIRECT, LOG2_E, LOG2_E_LO, LOG10_2, LOG10_2_LO, LOG10_E, LOG10_E_LO,
};
use super::exp::exp_finer;

/// log x
pub(super) fn log(x: Value) -> Value {
    let float = x.float();
    let Parts { e, f, t } = parts(x);
    let y = e.fma(LN_2.of(float), f + e.fma(LN_2_LO.of(float), t));
    at_the_ends(x, y)
}

/// log x of a positive finite x in two parts, the second being the rounding error of the first.
pub(super) fn log_in_parts(x: Value) -> (Value, Value) {
    let float = x.float();
    let Parts { e, f, t } = parts(x);
    let whole = e * LN_2.of(float);
    let whole_lo = e.fma(LN_2_LO.of(float), e.fma(LN_2.of(float), -whole));
    let sum = whole + f;
    let sum_lo = ((whole - sum) + f) + (whole_lo + t);
    let hi = sum + sum_lo;
    (hi, sum_lo - (hi - sum))
}

/// The logarithm to base 2, exact at powers of 2.
pub(super) fn log2(x: Value) -> Value {
    let float = x.float();
    let Parts { e, f, t } = parts(x);
    let (unit, unit_lo) = (LOG2_E.of(float), LOG2_E_LO.of(float));
    at_the_ends(x, e + f.fma(unit, t.fma(unit, f * unit_lo)))
}

/// The logarithm to base 10.
pub(super) fn log10(x: Value) -> Value {
    let float = x.float();
    let Parts { e, f, t } = parts(x);
    let (unit, unit_lo) = (LOG10_E.of(float), LOG10_E_LO.of(float));
    let y = f.fma(unit, t.fma(unit, f.fma(unit_lo, e * LOG10_2_LO.of(float))));
    at_the_ends(x, e.fma(LOG10_2.of(float), y))
}

/// log(1 + x) = log u + c / u with u = 1 + x rounded and c its rounding error.
pub(super) fn log1p(x: Value) -> Value {
    let u = x + 1.0;
    // The sum minus the greater of 1 and x is exact.
    let c = x.gt(1.0).select(-(u - x - 1.0), x - (u - 1.0));
    // If u is 1 the result is x, including its sign.
    u.eq(1.0).select(x, log_of_sum(u, c, None))
}

/// log(u + c), where c is the rounding error of u; or log(2 u + 2 c) where `twice` is true.
pub(super) fn log_of_sum<'b>(u: Value<'b>, c: Value<'b>, twice: Option<Value<'b>>) -> Value<'b> {
    let float = u.float();
    let Parts { e, f, t } = parts(u);
    let e = twice.map_or(e, |twice| e + twice.select(u.real(1.0), u.real(0.0)));
    let y = e.fma(LN_2.of(float), f + (e.fma(LN_2_LO.of(float), t) + c / u));
    at_the_ends(u, y)
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)
pub(super) fn softplus(x: Value) -> Value {
    x.max(0.0) + log1p(exp_finer(-x.abs()))
}

/// x = 2^e (1 + f) and log(1 + f) = f + t, for a positive finite x.
struct Parts<'b> {
    e: Value<'b>,
    f: Value<'b>,
    t: Value<'b>,
}

/// The least m: two thirds balances f; the square root of a half keeps s small.
const LEAST_M: PerFloat<f64> = PerFloat { f32: 2.0 / 3.0, f64: std::f64::consts::FRAC_1_SQRT_2 };

fn parts(x: Value) -> Parts {
    let float = x.float();
    let (e, m) = split(x, LEAST_M.of(float), true);
    let f = m - 1.0;
    let t = match float {
        Float::F32 => f * f * f.polynomial(LOG_DIRECT),
        Float::F64 => {
            let s = f / (f + 2.0);
            let z = s * s;
            let half_square = f * f * 0.5;
            s.fma(z.fma(z.polynomial(LOG_ATANH), half_square), -half_square)
        }
    };
    Parts { e, f, t }
}

/// x = 2^e m with `least_m` <= m < 2 `least_m`, for a positive finite x; it may be denormal if
/// `any`.
pub(super) fn split(x: Value, least_m: f64, any: bool) -> (Value, Value) {
    let float = x.float();
    let (fraction, integral) = (i64::from(float.fraction()), float.integral());
    #[expect(clippy::cast_precision_loss, reason = "exponents are small")]
    let zero = x.real(integral + float.bias() as f64);
    let (scaled, zero) = if any {
        // A denormal is first scaled to a normal number.
        let tiny = x.lt(float.least_normal());
        #[expect(clippy::cast_precision_loss, reason = "exponents are small")]
        let tiny_zero = integral + (float.bias() + fraction) as f64;
        (tiny.select(x * integral, x), tiny.select(x.real(tiny_zero), zero))
    } else {
        (x, zero)
    };
    // The biased exponent counts from `least_m`. Placed in the low bits of 2^fraction, it becomes a
    // float without a conversion.
    let least = float.bits_of(least_m);
    let bits = scaled.bits() + (float.bits_of(1.0) - least);
    let e = ((bits >> fraction) | float.bits_of(integral)).as_float() - zero;
    let m = ((bits & ((1 << fraction) - 1)) + least).as_float();
    (e, m)
}

/// `y` where x is positive and finite; minus infinity at zeros, NaN below, infinity at infinity.
pub(super) fn at_the_ends<'b>(x: Value<'b>, y: Value<'b>) -> Value<'b> {
    let infinity = x.real(f64::INFINITY);
    let below = x.eq(0.0).select(x.real(f64::NEG_INFINITY), x.real(f64::NAN));
    x.eq(infinity).select(infinity, x.gt(0.0).select(y, below))
}
