//! Powers and the cube root.
//!
//! x^y = 2^(y log2 |x|), with the sign and the special cases of C's annex F. The product magnifies
//! the error of the logarithm by up to the range of the exponent. So an `f32` power is computed in
//! `f64`, and an `f64` one from a logarithm in two parts, the second being the rounding error of
//! the first: the series of atanh, with its first terms computed in this way.

use ir::Dtype;

use super::builder::{Float, PerFloat, Value};
use super::coefficients::{
    CBRT_2, FIFTH, FIFTH_LO, INVERSE_CBRT, LN_2, LN_2_LO, LOG2_E, LOG2_E_LO, POW_EXP2, POW_EXP2_BEND, POW_LOG_TAIL,
    POW_LOG2, THIRD, THIRD_LO,
};
use super::exp::{magic, powers};
use super::log::{at_the_ends, split};

/// x^y
pub(super) fn pow<'b>(x: Value<'b>, y: Value<'b>) -> Value<'b> {
    let float = x.float();
    let most = PerFloat { f32: f32::MAX.into(), f64: f64::MAX }.of(float);
    // The greatest finite exponent serves for an infinite one, and its product with a logarithm of
    // 0 is 0.
    let finite = y.at_most(most).at_least(-most);
    let size = match float {
        Float::F32 => size_f32(x.abs(), finite),
        Float::F64 => size_f64(x.abs(), finite),
    };
    let negative = (x.sign_bit() | float.bits_of(1.0)).as_float().lt(0.0);
    let [signed] = negative.branch(
        || {
            // Infinity is whole and even.
            let whole = y.floor().eq(y);
            let half = y * 0.5;
            let odd = whole & half.floor().eq(half).not();
            let none = x.lt(0.0) & x.gt(f64::NEG_INFINITY) & whole.not();
            [none.select(x.real(f64::NAN), odd.select(-size, size))]
        },
        || [size],
    );
    // Even of NaN.
    (x.eq(1.0) | y.eq(0.0)).select(x.real(1.0), signed)
}

/// a^y in `f64` for a >= 0 and a finite y, both `f32`.
fn size_f32<'b>(a: Value<'b>, y: Value<'b>) -> Value<'b> {
    let a = a.cast(Dtype::F64);
    let (e, m) = split(a, std::f64::consts::FRAC_1_SQRT_2, false);
    let f = m - 1.0;
    let s = f / (f + 2.0);
    let log = at_the_ends(a, s.fma((s * s).polynomial(POW_LOG2), e));
    // Beyond, the result is 0 or infinite.
    let t = (y.cast(Dtype::F64) * log).at_most(200.0).at_least(-200.0);
    let magic = magic(Float::F64, Float::F64.bias());
    let shifted = t + magic;
    let r = t - (shifted - magic);
    let power = (shifted.bits() << i64::from(Float::F64.fraction())).as_float();
    (r.polynomial(POW_EXP2).fma(r, 1.0) * power).cast(Dtype::F32)
}

/// a^y for a >= 0 and a finite y.
fn size_f64<'b>(a: Value<'b>, y: Value<'b>) -> Value<'b> {
    let (log, log_lo) = log2_twofold(a);
    let t = y * log;
    let t_lo = y.fma(log, -t) + y * log_lo;
    // Beyond, the result is 0 or infinite.
    let limit = 1100.0;
    let t_lo = t.abs().lt(limit).select(t_lo, t.real(0.0));
    let t = t.at_most(limit).at_least(-limit);
    let magic = magic(Float::F64, 2 * Float::F64.bias());
    let shifted = t + magic;
    let first = t - (shifted - magic);
    let r = first + t_lo;
    let r_lo = (first - r) + t_lo;
    // 2^(r + r_lo) = 1 + r log 2 + ...; the derivative by r is log 2 (1 + r log 2 + ...).
    let bend = (r * r).fma(r.polynomial(POW_EXP2_BEND), r_lo * r.fma(LN_2.f64 * LN_2.f64, LN_2.f64));
    let bend = r.fma(LN_2.f64, r.fma(LN_2_LO.f64, bend));
    let (half, other_half) = powers(shifted.bits());
    (bend + 1.0) * half * other_half
}

/// log2(a) for a >= 0 in two parts. The second is meaningless where the first is infinite.
fn log2_twofold(a: Value) -> (Value, Value) {
    let (e, m) = split(a, std::f64::consts::FRAC_1_SQRT_2, true);
    // s = f / (2 + f)
    let f = m - 1.0;
    let d = f + 2.0;
    let d_lo = f - (d - 2.0);
    let s = f / d;
    let s = Twofold { hi: s, lo: (s.fma(-d, f) - s * d_lo) / d };
    let z = s.times(s);
    // atanh s = s + s z (1/3 + z (1/5 + z ...))
    let c = z.times(Twofold::sum(a.real(FIFTH.f64), z.hi * z.hi.polynomial(POW_LOG_TAIL), a.real(FIFTH_LO.f64)));
    let c = z.times(Twofold::sum(a.real(THIRD.f64), c.hi, c.lo + THIRD_LO.f64));
    let c = s.times(c);
    let atanh = Twofold::sum(s.hi, c.hi, s.lo + c.lo);
    let unit = Twofold { hi: a.real(2.0 * LOG2_E.f64), lo: a.real(2.0 * LOG2_E_LO.f64) };
    let log = atanh.times(unit);
    let log = Twofold::sum(e, log.hi, log.lo);
    (at_the_ends(a, log.hi), log.lo)
}

/// A number in two parts. The second is at most a little more than the rounding error of the first.
#[derive(Clone, Copy)]
struct Twofold<'b> {
    hi: Value<'b>,
    lo: Value<'b>,
}

impl<'b> Twofold<'b> {
    /// greater + lesser + lo, where lo is small. (Fast2Sum: Dekker, "A floating-point technique for
    /// extending the available precision", 1971.)
    fn sum(greater: Value<'b>, lesser: Value<'b>, lo: Value<'b>) -> Twofold<'b> {
        let hi = greater + lesser;
        Twofold { hi, lo: (greater - hi) + lesser + lo }
    }

    fn times(self, other: Twofold<'b>) -> Twofold<'b> {
        let hi = self.hi * other.hi;
        let lo = self.hi.fma(other.hi, -hi) + self.hi.fma(other.lo, self.lo * other.hi);
        Twofold { hi, lo }
    }
}

/// The cube root: with x = 2^3k v, 1 / cbrt(v) is computed by a polynomial and a Newton step, the
/// root from that, and then a last step with the rounding error of the cube. So cubes have exact
/// roots.
pub(super) fn cbrt(x: Value) -> Value {
    let float = x.float();
    let a = x.abs();
    let (e, m) = split(a, 1.0, true);
    let magic = magic(float, float.bias());
    let shifted = e.fma(1.0 / 3.0, magic);
    let rest = (shifted - magic).fma(-3.0, e);
    let (up, down) = (rest.gt(0.0), rest.lt(0.0));
    let one = x.real(1.0);
    let v = m * up.select(x.real(2.0), down.select(x.real(0.5), one));
    let step = CBRT_2.of(float);
    let r = m.polynomial(INVERSE_CBRT.of(float)) * up.select(x.real(1.0 / step), down.select(x.real(step), one));
    let off = (v * r).fma(-(r * r), 1.0);
    // cbrt(1 / (1 - off)) = 1 + off / 3 + 2 off^2 / 9 + ...
    let bend = match float {
        Float::F32 => x.real(1.0 / 3.0),
        Float::F64 => off.fma(2.0 / 9.0, 1.0 / 3.0),
    };
    let r = (r * off).fma(bend, r);
    let root = v * r * r;
    let square = root * root;
    let square_lo = root.fma(root, -square);
    let off = root.fma(-square, v) - root * square_lo;
    let root = (off * (1.0 / 3.0)).fma(r * r, root);
    let y = root * (shifted.bits() << i64::from(float.fraction())).as_float();
    // Zero, infinity and NaN are their own roots.
    (a.gt(0.0) & a.lt(f64::INFINITY)).select(y.flip_sign(x.sign_bit()), x)
}
