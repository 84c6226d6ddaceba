//! The functions that are a few primitives.

use super::builder::Value;

/// 1 / sqrt(x): infinity with the sign of a zero, NaN below.
pub(super) fn rsqrt(x: Value) -> Value {
    x.real(1.0) / x.sqrt()
}

/// min(max(x, lo), hi)
pub(super) fn clamp<'b>(x: Value<'b>, lo: Value<'b>, hi: Value<'b>) -> Value<'b> {
    x.max(lo).min(hi)
}

/// max(x, +0): a comparison that NaN fails keeps NaN, and one that -0 meets makes it +0.
pub(super) fn relu(x: Value) -> Value {
    x.le(0.0).select(x.real(0.0), x)
}

/// -1, 0 or 1; zeros and NaN stay.
pub(super) fn sign(x: Value) -> Value {
    x.gt(0.0).select(x.real(1.0), x.lt(0.0).select(x.real(-1.0), x))
}
