//! The trigonometric functions.
//!
//! |x| is reduced by multiples of pi (for the tangent, of pi / 2). Only the parity of the multiple
//! matters, and the remainder goes into a polynomial. Up to a bound, the remainder is computed with
//! pi in three parts and fused steps (Cody and Waite): the first step is exact, and the third is
//! below the rounding error. Beyond, in an `If`, x / (2 pi) is computed modulo 1 in integers, with
//! as many bits of 1 / (2 pi) as the exponent requires (Payne and Hanek, "Radian reduction for
//! trigonometric functions", 1983).

use ir::Dtype;

use super::builder::{Float, PerFloat, Value};
use super::coefficients::{
    COS, FRAC_1_PI, FRAC_2_PI, FRAC_PI_2, FRAC_PI_2_LO, FRAC_PI_2_LOLO, PI, PI_LO, PI_LOLO, SIN, SIN_WIDE, TAU, TAU_LO,
    TURN,
};

/// Up to here three parts of pi reach.
const NEAR: PerFloat<f64> = PerFloat { f32: 131_072.0, f64: 1_099_511_627_776.0 };

/// The leading zeros of `TURN`, which make the bit position of any argument beyond `NEAR` positive.
const LEADING: i64 = 16;

/// sin x = sin r or -sin r at |x| = n pi + r, with the sign of x.
pub(super) fn sin(x: Value) -> Value {
    let float = x.float();
    let a = x.abs();
    let [r, n] = a.gt(NEAR.of(float)).branch(
        || {
            let Far { r, n, .. } = far(a, HALF_TURN, HALF_TURN / 2);
            [r, n]
        },
        || {
            let magic = 1.5 * float.integral();
            let shifted = a.fma(FRAC_1_PI.of(float), magic);
            [less_half_turns(a, shifted - magic), shifted.bits()]
        },
    );
    alternating_sine(r, n, Some(x.sign_bit()))
}

/// cos x = -sin r or sin r at |x| = (n + 1/2) pi + r.
pub(super) fn cos(x: Value) -> Value {
    let float = x.float();
    let a = x.abs();
    let [r, n] = a.gt(NEAR.of(float)).branch(
        || {
            let Far { r, n, .. } = far(a, HALF_TURN, 0);
            [r, n + 1]
        },
        || {
            let magic = 1.5 * float.integral() + 1.0;
            let shifted = a.fma(FRAC_1_PI.of(float), -0.5) + magic;
            [less_half_turns(a, shifted - magic + 0.5), shifted.bits()]
        },
    );
    alternating_sine(r, n, None)
}

/// x - n pi.
fn less_half_turns<'b>(x: Value<'b>, n: Value<'b>) -> Value<'b> {
    let float = x.float();
    let second = n.fma(-PI_LO.of(float), n.fma(-PI.of(float), x));
    n.fma(-PI_LOLO.of(float), second)
}

/// sin r for |r| <= pi / 2, its sign flipped for an odd n and where `sign` is set.
fn alternating_sine<'b>(r: Value<'b>, n: Value<'b>, sign: Option<Value<'b>>) -> Value<'b> {
    let square = r * r;
    let sine = (square * r).fma(square.polynomial(SIN_WIDE.of(r.float())), r);
    let odd = n << i64::from(n.width() - 1);
    sine.flip_sign(sign.map_or(odd, |sign| sign ^ odd))
}

/// tan x: the quotient of the two, inverted and negated in odd quadrants. The rounding error of
/// each number is tracked, because here those of three numbers would add up.
pub(super) fn tan(x: Value) -> Value {
    let float = x.float();
    let Reduced { r, r_lo, n } = reduce(x.abs());
    let square = r * r;
    let square_lo = r.fma(r, -square);
    let bend = square * r * square.polynomial(SIN.of(float));
    let sine = r + bend;
    let flat = square.fma(-0.5, 1.0);
    let bend_of_cosine = square * square * square.polynomial(COS.of(float));
    let cosine = flat + bend_of_cosine;
    let sine_lo = r_lo.fma(cosine, (r - sine) + bend);
    let flat_lo = square_lo.fma(-0.5, square.fma(-0.5, x.real(1.0) - flat));
    let cosine_lo = r_lo.fma(-sine, (flat - cosine) + bend_of_cosine + flat_lo);
    let odd = (n & 1).eq(1);
    let (above, below) = (odd.select(cosine, sine), odd.select(sine, cosine));
    let (above_lo, below_lo) = (odd.select(cosine_lo, sine_lo), odd.select(sine_lo, cosine_lo));
    let y = above / below;
    let y = y + (y.fma(-below, above) + y.fma(-below_lo, above_lo)) / below;
    let sign = n << PerFloat { f32: 31, f64: 63 }.of(float);
    y.flip_sign(sign ^ x.sign_bit())
}

/// a = n pi / 2 + r + r_lo for a >= 0, with n modulo 4 in the low bits of an integer.
struct Reduced<'b> {
    r: Value<'b>,
    r_lo: Value<'b>,
    n: Value<'b>,
}

fn reduce(a: Value) -> Reduced {
    let float = a.float();
    let [r, r_lo, n] = a.gt(NEAR.of(float)).branch(
        || {
            let Far { r, angle, n } = far(a, HALF_TURN / 2, HALF_TURN / 4);
            [r, angle.lo(), n]
        },
        || {
            let magic = 1.5 * float.integral();
            let shifted = a.fma(FRAC_2_PI.of(float), magic);
            let n = shifted - magic;
            let first = n.fma(-FRAC_PI_2.of(float), a);
            // The second step, with its rounding errors (Knuth's sum, an exact product).
            let lo = FRAC_PI_2_LO.of(float);
            let product = n * lo;
            let second = first - product;
            let taken = second - first;
            let lost = (first - (second - taken)) - (product + taken) - n.fma(lo, -product);
            let rest = n.fma(-FRAC_PI_2_LOLO.of(float), lost);
            let r = second + rest;
            [r, rest - (r - second), shifted.bits()]
        },
    );
    Reduced { r, r_lo, n }
}

/// Half a turn in the units of [`turns`].
const HALF_TURN: u64 = 1 << 63;

/// The remainder of an angle beyond [`NEAR`], and the number of parts of a turn that were
/// subtracted from it, in low bits.
struct Far<'b> {
    r: Value<'b>,
    angle: Angle<'b>,
    n: Value<'b>,
}

/// a = n `part` - `part` / 2 + `before` + r.
fn far(a: Value, part: u64, before: u64) -> Far {
    let float = a.float();
    let (turn, rest) = turns(a);
    let turn = if before == 0 { turn } else { turn + before.cast_signed() };
    let n = turn >> i64::from(part.trailing_zeros());
    let n = match float {
        Float::F32 => n.cast(Dtype::I32),
        Float::F64 => n,
    };
    let angle = angle((turn & (part - 1).cast_signed()) - (part / 2).cast_signed(), rest);
    // a 0 is NaN for infinity.
    Far { r: angle.r + a * 0.0, angle, n }
}

/// a / (2 pi) modulo 1 for a beyond `NEAR`, as an integer in units of 2^-64; in `f64` another holds
/// 64 more bits.
fn turns(a: Value) -> (Value, Option<Value>) {
    let float = a.float();
    let fraction = i64::from(float.fraction());
    let bits = a.bits().cast(Dtype::U64);
    let m = (bits & ((1 << fraction) - 1)) | (1 << fraction);
    // a = m 2^k: the product's bits above the point come from the bits of 1 / (2 pi) above bit k,
    // which are left out.
    let position = (bits >> fraction) + (LEADING - float.bias() - fraction);
    let (index, shift) = (position >> 6, position & 63);
    let (wanted, steps): (usize, &[usize]) = match float {
        Float::F32 => (3, &[1]),
        Float::F64 => (4, &[8, 4, 2, 1]),
    };
    let mut words: Vec<Value> =
        TURN[..wanted + steps.iter().sum::<usize>()].iter().map(|w| m.integer(w.cast_signed())).collect();
    for &step in steps {
        let bit = 1 << step.trailing_zeros();
        let far = (index & bit).eq(bit);
        words = (0..wanted + step - 1).map(|i| far.select(words[i + step], words[i])).collect();
    }
    // A shift by the width gives 0.
    let back = shift.integer(64) - shift;
    let window = |i: usize| (words[i] << shift) | (words[i + 1] >> back);
    match float {
        Float::F32 => (m * window(0) + ((m * (window(1) >> 32)) >> 32), None),
        Float::F64 => {
            let middle = window(1);
            let low = m * middle;
            let rest = low + high_product(m, window(2));
            let carry = rest.lt(low).select(m.integer(1), m.integer(0));
            (m * window(0) + high_product(m, middle) + carry, Some(rest))
        }
    }
}

/// The high 64 bits of a 128-bit product, from products of 32 bits.
fn high_product<'b>(a: Value<'b>, b: Value<'b>) -> Value<'b> {
    let low = i64::from(u32::MAX);
    let (a1, a0, b1, b0) = (a >> 32, a & low, b >> 32, b & low);
    let middle = a0 * b1 + ((a0 * b0) >> 32);
    let other_middle = a1 * b0 + (middle & low);
    a1 * b1 + (middle >> 32) + (other_middle >> 32)
}

/// The angle in radians of a signed part of a turn in units of 2^-64, with 64 more bits in `rest`,
/// before [`Angle::lo`] is added.
fn angle<'b>(turn: Value<'b>, rest: Option<Value<'b>>) -> Angle<'b> {
    let unit = 2f64.powi(-64);
    let signed = |v: Value<'b>| v.bitcast(Dtype::I64).cast(Dtype::F64);
    let Some(rest) = rest else {
        let exact = signed(turn) * (TAU.f64 * unit);
        return Angle { r: exact.cast(Dtype::F32), exact: Exact::Wide(exact) };
    };
    // Two exact parts, their sum and its rounding error, times two parts of 2 pi.
    let high = signed(turn & !0x7ff);
    let low = (((turn & 0x7ff) << 53) | (rest >> 11)).cast(Dtype::F64) * 2f64.powi(-53);
    let sum = high + low;
    let lost = low - (sum - high);
    let (tau, tau_lo) = (TAU.f64 * unit, TAU_LO.f64 * unit);
    let product = sum * tau;
    let product_lo = sum.fma(tau, -product) + (sum * tau_lo + lost * tau);
    Angle { r: product + product_lo, exact: Exact::Sum(product, product_lo) }
}

/// A rounded angle and where it came from.
struct Angle<'b> {
    r: Value<'b>,
    exact: Exact<'b>,
}

enum Exact<'b> {
    /// An `f64` that was rounded to `f32`.
    Wide(Value<'b>),
    /// A sum.
    Sum(Value<'b>, Value<'b>),
}

impl<'b> Angle<'b> {
    /// The rounding error.
    fn lo(&self) -> Value<'b> {
        match self.exact {
            Exact::Wide(exact) => (exact - self.r.cast(Dtype::F64)).cast(Dtype::F32),
            Exact::Sum(high, low) => low - (self.r - high),
        }
    }
}
