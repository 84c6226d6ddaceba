//! The exponential family.
//!
//! The classical reduction: x = k log 2 + r with |r| <= log 2 / 2, where log 2 is in two parts
//! (Cody and Waite, "Software Manual for the Elementary Functions", 1980); e^r by a minimax
//! polynomial; and 2^k assembled from exponent bits. Adding 1.5 * 2^fraction leaves the nearest
//! integer k in the low bits of the sum, without a conversion to integer, which 128-bit SIMD does
//! not have in 64 bits.

use super::builder::{Float, PerFloat, Value};
use super::coefficients::{
    EXP, EXP_WIDE, EXP2, GELU_TANH_CUBIC, GELU_TANH_CUBIC_LO, GELU_TANH_LINEAR, GELU_TANH_LINEAR_LO, LN_2, LN_2_LO,
    LOG2_E,
};

/// The argument below which e^x is 0, and the one above which it is infinity.
const LEAST: PerFloat<f64> = PerFloat { f32: -104.0, f64: -746.0 };
const MOST: PerFloat<f64> = PerFloat { f32: 89.0, f64: 710.0 };

/// e^x. Half of k is rounded to an integer: a wider polynomial costs less than two different
/// factors.
pub(super) fn exp(x: Value) -> Value {
    let float = x.float();
    let x = x.at_most(MOST.of(float)).at_least(LEAST.of(float));
    let magic = magic(float, float.bias());
    let shifted = x.fma(0.5 * LOG2_E.of(float), magic);
    let half_k = shifted - magic;
    let r = half_k.fma(-2.0 * LN_2_LO.of(float), half_k.fma(-2.0 * LN_2.of(float), x));
    // 2^k is this squared; it may be out of range where e^x is not.
    let half = (shifted.bits() << i64::from(float.fraction())).as_float();
    let e = Exp { r, curve: r.polynomial(EXP_WIDE.of(float)) };
    e.whole() * half * half
}

/// e^x for x <= 0, within 0.9 units, for functions that round it further.
pub(super) fn exp_finer(x: Value) -> Value {
    let Scaled { e, half, other_half } = scaled(x.at_least(LEAST.of(x.float())));
    e.whole() * half * other_half
}

/// 2^x: the reduction is exact, and integers give exact results.
pub(super) fn exp2(x: Value) -> Value {
    let float = x.float();
    let least = PerFloat { f32: -151.0, f64: -1076.0 }.of(float);
    let most = PerFloat { f32: 128.0, f64: 1024.0 }.of(float);
    let x = x.at_most(most).at_least(least);
    let magic = magic(float, 2 * float.bias());
    let shifted = x + magic;
    let r = x - (shifted - magic);
    let (half, other_half) = powers(shifted.bits());
    r.polynomial(EXP2.of(float)).fma(r, 1.0) * half * other_half
}

/// e^x - 1 = 2^k (e^r - 1) + (2^k - 1). The second part is exact where it matters.
pub(super) fn expm1(x: Value) -> Value {
    let float = x.float();
    // Below, the result is -1.
    let x = x.at_most(MOST.of(float)).at_least(PerFloat { f32: -20.0, f64: -40.0 }.of(float));
    // Half of 2^k, which itself may be out of range.
    let Reduced { k, r, bits, .. } = reduce(x, float.bias() - 1);
    let power = (bits << i64::from(float.fraction())).as_float();
    let e = exp_reduced(r);
    let far = power.fma(e.less_one(), power - 0.5) * 2.0;
    // With k = 0, x is r up to the sign of a zero.
    k.eq(0.0).select(e.slope() * x, far)
}

/// 1 / (1 + e^-x)
pub(super) fn sigmoid(x: Value) -> Value {
    let x = x.at_least(GATE_LEAST.of(x.float())).at_most(GATE_MOST.of(x.float()));
    let Gate { power, divisor } = gate(x);
    power / divisor
}

/// x / (1 + e^-x); at minus infinity the limit, -0.
pub(super) fn silu(x: Value) -> Value {
    let near = x.at_least(GATE_LEAST.of(x.float()));
    let Gate { power, divisor } = gate(near);
    x.gt(GATE_MOST.of(x.float())).select(x, near * power / divisor)
}

/// Below the first, x / (1 + e^-x) is -0; above the second, it is x.
const GATE_LEAST: PerFloat<f64> = PerFloat { f32: -110.0, f64: -760.0 };
const GATE_MOST: PerFloat<f64> = PerFloat { f32: 20.0, f64: 40.0 };

/// Below the first, [`gelu_tanh`] is -0; above the second, it is x.
const GELU_LEAST: PerFloat<f64> = PerFloat { f32: -11.0, f64: -21.6 };
const GELU_MOST: PerFloat<f64> = PerFloat { f32: 5.5, f64: 8.0 };

/// x / (1 + e^-w) with w = 2 sqrt(2 / pi) (x + 0.044715 x^3), which is the tanh form of gelu
/// without its cancellation; at minus infinity the limit, -0. w needs about twice the precision,
/// because e^x magnifies its rounding error. It is computed as w / log 2 = x (linear + cubic x^2),
/// so that the integral part of the exponent is not rounded.
pub(super) fn gelu_tanh(x: Value) -> Value {
    let float = x.float();
    let near = x.at_least(GELU_LEAST.of(float));
    let square = near * near;
    let square_lo = near.fma(near, -square);
    let (linear, cubic) = (near.real(GELU_TANH_LINEAR.of(float)), near.real(GELU_TANH_CUBIC.of(float)));
    let sum = cubic.fma(square, linear);
    // `linear` has few bits, so that this difference is exact.
    let sum_lo = cubic.fma(square, linear - sum);
    let rest = cubic.fma(square_lo, square.fma(GELU_TANH_CUBIC_LO.of(float), GELU_TANH_LINEAR_LO.of(float)));
    let magic = magic(float, gate_offset(float));
    let shifted = near.fma(sum, magic);
    let whole = shifted - magic;
    let r = near.fma(sum_lo + rest, near.fma(sum, -whole));
    // The first coefficient is kept separate, to avoid a rounding that matters.
    let (bend, slope) = (scaled_to_gate(float, EXP2.of(float)), -EXP2.of(float)[0] * gate_scale(float));
    let Gate { power, divisor } =
        gate_of(shifted.bits(), |lost| r.fma(slope, (r * r).fma(r.polynomial(&bend[1..]), lost)));
    x.gt(GELU_MOST.of(float)).select(x, near * power / divisor)
}

/// 1 / (1 + e^-w) = power / divisor, where power is a power of 2.
struct Gate<'b> {
    power: Value<'b>,
    divisor: Value<'b>,
}

/// The binary logarithm of the scale of [`Gate`]'s terms, which keeps the power normal where the
/// quotient is denormal.
const GATE_SCALE: PerFloat<i32> = PerFloat { f32: 40, f64: 100 };

/// The offset of k.
fn gate_offset(float: Float) -> i64 {
    i64::from(GATE_SCALE.of(float)) + float.bias()
}

/// The scale of [`Gate`]'s terms.
fn gate_scale(float: Float) -> f64 {
    2f64.powi(GATE_SCALE.of(float))
}

/// The scaled coefficients of (e^-r - 1) / r in powers of r, from those of (e^r - 1) / r.
fn scaled_to_gate(float: Float, coefficients: &[f64]) -> Vec<f64> {
    let scale = gate_scale(float);
    coefficients.iter().zip(0..).map(|(c, i)| if i % 2 == 0 { -scale * c } else { scale * c }).collect()
}

fn gate(w: Value) -> Gate {
    let float = w.float();
    let Reduced { r, bits, .. } = reduce(w, gate_offset(float));
    let slope: Vec<f64> = [1.0].iter().chain(EXP.of(float)).copied().collect();
    let slope = scaled_to_gate(float, &slope);
    gate_of(bits, |lost| r.polynomial(&slope).fma(r, lost))
}

/// The quotient 2^k / (2^k + e^-r), from k with an offset in the low bits of an integer, and a
/// function that adds the scaled e^-r - 1 to a number. The least of the divisor's three terms is
/// added first, so that only one rounding matters.
fn gate_of<'b>(bits: Value<'b>, add_less_one: impl FnOnce(Value<'b>) -> Value<'b>) -> Gate<'b> {
    let float = bits.float();
    let scale = gate_scale(float);
    let power = (bits << i64::from(float.fraction())).as_float();
    let sum = power + scale;
    let lost = power - (sum - scale);
    Gate { power, divisor: add_less_one(lost) + sum }
}

/// (e^2a - 1) / 2 for a in [0, 30].
pub(super) fn half_expm1_of_twice(a: Value) -> Value {
    let float = a.float();
    let magic = magic(float, float.bias());
    let shifted = a.fma(2.0 * LOG2_E.of(float), magic);
    let k = shifted - magic;
    let r = k.fma(-0.5 * LN_2.of(float), a);
    // The low part of log 2 matters where k is small but not 0; in `f32` it is negligible.
    let r = match float {
        Float::F32 => r,
        Float::F64 => k.fma(-0.5 * LN_2_LO.of(float), r),
    };
    let power = (shifted.bits() << i64::from(float.fraction())).as_float();
    let curve: Vec<f64> = EXP.of(float).iter().zip(1..).map(|(c, i)| c * 2f64.powi(i)).collect();
    let half_less_one = (r * r).fma(r.polynomial(&curve), r);
    power.fma(half_less_one, power.fma(0.5, -0.5))
}

/// `from` - 2^x for a moderate x.
pub(super) fn less_exp2(x: Value, from: f64) -> Value {
    let float = x.float();
    // With twice as large an exponent's range added, the sign bit is set: the power is negative.
    let magic = magic(float, float.bias() + 2 * (float.bias() + 1));
    let shifted = x + magic;
    let r = x - (shifted - magic);
    let power = (shifted.bits() << i64::from(float.fraction())).as_float();
    r.polynomial(EXP2.of(float)).fma(r, 1.0).fma(power, from)
}

/// e^x = e half other_half.
pub(super) struct Scaled<'b> {
    pub(super) e: Exp<'b>,
    /// A factor of 2^k, and another one. Their product may be out of range where the whole product
    /// is not.
    pub(super) half: Value<'b>,
    pub(super) other_half: Value<'b>,
}

/// The parts of e^x, for an x where it is not far out of range.
pub(super) fn scaled(x: Value) -> Scaled {
    let Reduced { r, bits, .. } = reduce(x, 2 * x.float().bias());
    let (half, other_half) = powers(bits);
    Scaled { e: exp_reduced(r), half, other_half }
}

/// e^x = (1 + r + bend) half other_half, where only r and bend are rounded.
pub(super) struct Fine<'b> {
    pub(super) r: Value<'b>,
    pub(super) bend: Value<'b>,
    pub(super) half: Value<'b>,
    pub(super) other_half: Value<'b>,
}

/// The parts of e^(x + `x_lo`), as in [`scaled`], with the rounding error of r kept in the lesser
/// term.
pub(super) fn fine<'b>(x: Value<'b>, x_lo: Option<Value<'b>>) -> Fine<'b> {
    let float = x.float();
    let Reduced { k, first, r: rounded, bits } = reduce(x, 2 * float.bias());
    let lo = k.fma(-LN_2_LO.of(float), first - rounded);
    let (r, lo) = match x_lo {
        None => (rounded, lo),
        Some(x_lo) => {
            let lo = lo + x_lo;
            let r = rounded + lo;
            (r, lo - (r - rounded))
        }
    };
    let (half, other_half) = powers(bits);
    Fine { r, bend: (r * r).fma(exp_reduced(r).curve, lo), half, other_half }
}

/// Two factors of 2^k from k + 2 bias in low bits: the first takes half of k rounded down, the
/// second the rest.
pub(super) fn powers(bits: Value) -> (Value, Value) {
    let fraction = i64::from(bits.float().fraction());
    let half = (bits >> 1) << fraction;
    let other_half = (bits << fraction) - half;
    (half.as_float(), other_half.as_float())
}

/// Added to a number of moderate size, this leaves the nearest integer plus `offset` in the low
/// bits.
#[expect(clippy::cast_precision_loss, reason = "offsets are small")]
pub(super) fn magic(float: Float, offset: i64) -> f64 {
    1.5 * float.integral() + offset as f64
}

/// x = k log 2 + r, and an integer with k and an offset in its low bits.
struct Reduced<'b> {
    k: Value<'b>,
    /// r using only the first part of log 2, which is exact.
    first: Value<'b>,
    r: Value<'b>,
    bits: Value<'b>,
}

fn reduce(x: Value, offset: i64) -> Reduced {
    let float = x.float();
    let magic = magic(float, offset);
    let shifted = x.fma(LOG2_E.of(float), magic);
    let k = shifted - magic;
    let first = k.fma(-LN_2.of(float), x);
    let r = k.fma(-LN_2_LO.of(float), first);
    Reduced { k, first, r, bits: shifted.bits() }
}

/// e^r = 1 + r + r^2 `curve` for |r| <= 0.348.
pub(super) struct Exp<'b> {
    r: Value<'b>,
    curve: Value<'b>,
}

fn exp_reduced(r: Value) -> Exp {
    Exp { r, curve: r.polynomial(EXP.of(r.float())) }
}

impl<'b> Exp<'b> {
    /// (e^r - 1) / r
    fn slope(&self) -> Value<'b> {
        self.curve.fma(self.r, 1.0)
    }

    /// e^r
    pub(super) fn whole(&self) -> Value<'b> {
        self.slope().fma(self.r, 1.0)
    }

    /// e^r - 1, with one rounding that matters.
    pub(super) fn less_one(&self) -> Value<'b> {
        (self.r * self.r).fma(self.curve, self.r)
    }
}
