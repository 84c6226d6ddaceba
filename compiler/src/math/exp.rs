//! The exponential family.
//!
//! The classical reduction: x = k log 2 + r with |r| <= log 2 / 2, log 2 in two parts (Cody and Waite, "Software
//! Manual for the Elementary Functions", 1980), e^r by a minimax polynomial, and 2^k put together from
//! exponent bits. k comes from adding 1.5 * 2^fraction, which leaves the nearest integer in the low bits of
//! the sum: no conversion to integer is needed, and 128-bit SIMD has none in 64 bits.

use super::builder::{PerFloat, Value};
use super::coefficients::{EXP, LN_2, LN_2_LO, LOG2_E};

/// Arguments below give e^x = 0 and arguments above infinity.
const LEAST: PerFloat<f64> = PerFloat { f32: -104.0, f64: -746.0 };
const MOST: PerFloat<f64> = PerFloat { f32: 89.0, f64: 710.0 };

/// e^x
pub(super) fn exp(x: Value) -> Value {
    let x = x.at_most(MOST.of(x.float())).at_least(LEAST.of(x.float()));
    let Scaled { r, slope, half, other_half } = scaled(x, None);
    slope.fma(r, 1.0) * half * other_half
}

/// 1 / (1 + e^-x), from e^-|x| alone so that nothing overflows: that is e^x / (1 + e^x) below zero.
pub(super) fn sigmoid(x: Value) -> Value {
    let Scaled { r, slope, half, other_half } = scaled((-x.abs()).at_least(LEAST.of(x.float())), None);
    let e = slope.fma(r, 1.0) * half;
    let one = x.real(1.0);
    let negative = x.lt(0.0);
    // The second factor of 2^k comes last, where it rounds a denormal result once.
    negative.select(e, one) / e.fma(other_half, one) * negative.select(other_half, one)
}

/// e^x for x <= 0 whose e^x is normal.
pub(super) fn exp_normal(x: Value) -> Value {
    let (r, bits) = reduce(x, x.float().bias());
    slope(r).fma(r, 1.0) * (bits << i64::from(x.float().fraction())).as_float()
}

/// e^x = (1 + r slope) half other_half.
pub(super) struct Scaled<'b> {
    pub(super) r: Value<'b>,
    /// (e^r - 1) / r
    pub(super) slope: Value<'b>,
    /// A factor of 2^k, and another: their product may be out of range where that of all is not.
    pub(super) half: Value<'b>,
    pub(super) other_half: Value<'b>,
}

/// The parts of e^(x + tail) for a tail that is lost in x, and an x for which e^x is not far out of range.
pub(super) fn scaled<'b>(x: Value<'b>, tail: Option<Value<'b>>) -> Scaled<'b> {
    let (fraction, bias) = (i64::from(x.float().fraction()), x.float().bias());
    // The low bits hold k + 2 bias: the first factor takes the floor of half of it, the second what is left.
    let (r, bits) = reduce(x, 2 * bias);
    let r = tail.map_or(r, |tail| r + tail);
    let half = (bits >> 1) << fraction;
    let other_half = (bits << fraction) - half;
    Scaled { r, slope: slope(r), half: half.as_float(), other_half: other_half.as_float() }
}

/// x = k log 2 + r: r, and an integer that is k + `offset` in its low bits.
#[expect(clippy::cast_precision_loss, reason = "offsets are small")]
fn reduce(x: Value, offset: i64) -> (Value, Value) {
    let float = x.float();
    let magic = 1.5 * float.integral() + offset as f64;
    let shifted = x.fma(LOG2_E.of(float), magic);
    let k = shifted - magic;
    let r = k.fma(-LN_2_LO.of(float), k.fma(-LN_2.of(float), x));
    (r, shifted.bits())
}

/// (e^r - 1) / r for |r| <= 0.348.
fn slope(r: Value) -> Value {
    r.polynomial(EXP.of(r.float())).fma(r, 1.0)
}
