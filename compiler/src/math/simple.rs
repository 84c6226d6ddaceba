//! The functions that take only a few primitives.

use super::builder::Value;

/// 1 / sqrt(x): infinity with the sign of a zero, NaN below.
pub(super) fn rsqrt(x: Value) -> Value {
    x.real(1.0) / x.sqrt()
}

/// min(max(x, lo), hi)
pub(super) fn clamp<'b>(x: Value<'b>, lo: Value<'b>, hi: Value<'b>) -> Value<'b> {
    x.max(lo).min(hi)
}

/// max(x, +0): a comparison that is false for NaN keeps NaN, and one that is true for -0 makes it
/// +0.
pub(super) fn relu(x: Value) -> Value {
    x.le(0.0).select(x.real(0.0), x)
}

/// -1, 0 or 1; zeros and NaN stay.
pub(super) fn sign(x: Value) -> Value {
    x.gt(0.0).select(x.real(1.0), x.lt(0.0).select(x.real(-1.0), x))
}

/// The remainder with the divisor's sign, for zeros too, as in Python and NumPy; NaN for a divisor
/// of 0.
pub(super) fn modulo<'b>(a: Value<'b>, b: Value<'b>) -> Value<'b> {
    let r = a % b;
    let zero = b.lt(0.0).select(a.real(-0.0), a.real(0.0));
    r.eq(0.0).select(zero, opposed(r, b).select(r + b, r))
}

/// The quotient rounded down, by the steps of NumPy's `npy_divmod`; `a / b` for a divisor of 0.
pub(super) fn floor_div<'b>(a: Value<'b>, b: Value<'b>) -> Value<'b> {
    let r = a % b;
    let exact = (a - r) / b;
    let q = r.eq(0.0).select(exact, opposed(r, b).select(exact - 1.0, exact));
    // `a - r` may have been rounded to either side of a multiple.
    let floor = q.floor();
    let nearest = (q - floor).gt(0.5).select(floor + 1.0, floor);
    let quotient = a / b;
    b.eq(0.0).select(quotient, q.eq(0.0).select(quotient * 0.0, nearest))
}

/// Whether one is negative and the other is not.
fn opposed<'b>(a: Value<'b>, b: Value<'b>) -> Value<'b> {
    a.lt(0.0) ^ b.lt(0.0)
}
