//! The inverses of the trigonometric functions.

use super::builder::{PerFloat, Value};
use super::coefficients::{ASIN, ATAN, FRAC_PI_2, FRAC_PI_2_LO};

/// The common part of both arc functions of |x|. Up to a half, asin |x| = s + `bend` with s = |x|.
/// Beyond, acos |x| = 2 asin(sqrt((1 - |x|) / 2)) is 2 (s + `bend`), where `bend` includes the
/// rounding error of the root.
struct Arc<'b> {
    large: Value<'b>,
    s: Value<'b>,
    bend: Value<'b>,
}

fn arc(x: Value) -> Arc {
    let float = x.float();
    let a = x.abs();
    let large = a.gt(0.5);
    let half = a.fma(-0.5, 0.5);
    let square = large.select(half, a * a);
    let root = half.sqrt();
    // The root may be 0; otherwise it is far above the least number.
    let root_lo = root.fma(-root, half) * 0.5 / (root + float.least_normal());
    let (s, s_lo) = (large.select(root, a), large.select(root_lo, a.real(0.0)));
    Arc { large, s, bend: (square * s).fma(square.polynomial(ASIN.of(float)), s_lo) }
}

/// asin x: an odd polynomial up to a half; beyond, pi / 2 - acos |x|. NaN beyond 1, from the root.
pub(super) fn asin(x: Value) -> Value {
    let float = x.float();
    let Arc { large, s, bend } = arc(x);
    let quarter = x.real(FRAC_PI_2.of(float));
    let first = s.fma(-2.0, quarter);
    let first_lo = s.fma(-2.0, quarter - first);
    let far = first + (bend.fma(-2.0, first_lo) + FRAC_PI_2_LO.of(float));
    large.select(far, s + bend).flip_sign(x.sign_bit())
}

/// acos x: pi / 2 - asin x up to a half; beyond, 2 asin(sqrt((1 - |x|) / 2)), which is subtracted
/// from pi for a negative x.
pub(super) fn acos(x: Value) -> Value {
    let float = x.float();
    let Arc { large, s, bend } = arc(x);
    let (quarter, quarter_lo) = (x.real(FRAC_PI_2.of(float)), x.real(FRAC_PI_2_LO.of(float)));
    let sign = x.sign_bit();
    // x, or half of the value that is subtracted from pi.
    let (s_signed, bend_signed) = (s.flip_sign(sign), bend.flip_sign(sign));
    let near = quarter - (s_signed - (quarter_lo - bend_signed));
    let far = x.lt(0.0).select(quarter + (s_signed + (bend_signed + quarter_lo)), s + bend);
    large.select(far + far, near)
}

/// atan x
pub(super) fn atan(x: Value) -> Value {
    let a = x.abs();
    let steep = a.gt(1.0);
    let one = x.real(1.0);
    let (lesser, greater) = (steep.select(one, a), steep.select(a, one));
    quadrants(lesser, greater, &[(steep, 1.0)]).flip_sign(x.sign_bit())
}

/// Between these a quotient needs no scaling.
const LEAST: PerFloat<f64> = PerFloat { f32: 8.271_806e-25, f64: 1.494_968_046_476_498e-154 };
const MOST: PerFloat<f64> = PerFloat { f32: 4.253_529_6e37, f64: 4.494_232_837_155_79e307 };

/// The angle of the point (x, y): exact quadrants, signs of zeros and infinities as in C's annex F.
pub(super) fn atan2<'b>(y: Value<'b>, x: Value<'b>) -> Value<'b> {
    let float = x.float();
    let (ay, ax) = (y.abs(), x.abs());
    let steep = ay.gt(ax);
    let (lesser, greater) = (steep.select(ax, ay), steep.select(ay, ax));
    let (one, infinity) = (x.real(1.0), x.real(f64::INFINITY));
    let ordinary = greater.gt(LEAST.of(float)) & greater.lt(MOST.of(float));
    let [lesser, greater] = ordinary.branch(
        || [lesser, greater],
        || {
            let infinite = greater.eq(infinity);
            // Times 0 keeps a NaN.
            let at_infinity = lesser.eq(infinity).select(one, lesser * 0.0);
            let scale = greater.gt(1.0).select(x.real(0.25), x.real(float.integral() * 4.0));
            let nothing = greater.eq(0.0);
            let scaled = infinite.select(at_infinity, lesser * scale);
            [scaled, (infinite | nothing).select(one, greater * scale)]
        },
    );
    // The sign, of a zero too.
    let left = (x.sign_bit() | float.bits_of(1.0)).as_float().lt(0.0);
    quadrants(lesser, greater, &[(steep, 1.0), (left, 2.0)]).flip_sign(y.sign_bit())
}

/// The arc tangent of `lesser / greater`, at most 1, subtracted successively from each number of
/// quarter turns for which the condition holds.
fn quadrants<'b>(lesser: Value<'b>, greater: Value<'b>, from: &[(Value<'b>, f64)]) -> Value<'b> {
    let float = lesser.float();
    let t = lesser / greater;
    let square = t * t;
    let mut angle = (square * t).fma(square.polynomial(ATAN.of(float)), t);
    let mut quarters = t.real(0.0);
    for &(condition, whole) in from {
        angle = condition.select(-angle, angle);
        quarters = condition.select(-quarters + whole, quarters);
    }
    quarters.fma(FRAC_PI_2.of(float), quarters.fma(FRAC_PI_2_LO.of(float), angle))
}
