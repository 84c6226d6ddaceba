//! The exact functions that expansions are compared with, and the distance between the two.

use ir::{MathFn, Scalar};

/// The value of a function of one argument, in `f64`: the oracle for its `f32` expansion.
pub fn reference(math: MathFn, x: f64) -> Option<f64> {
    Some(match math {
        MathFn::Exp => libm::exp(x),
        MathFn::Log => libm::log(x),
        MathFn::Sin => libm::sin(x),
        MathFn::Cos => libm::cos(x),
        MathFn::Tanh => libm::tanh(x),
        MathFn::Sigmoid => {
            let e = libm::exp(-x.abs());
            (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
        }
        MathFn::Erf => libm::erf(x),
        MathFn::ErfInv => erf_inv(x),
        MathFn::Lgamma => libm::lgamma(x),
        MathFn::Digamma => digamma(x),
        MathFn::Rsqrt => 1.0 / x.sqrt(),
        MathFn::Relu => {
            if x <= 0.0 {
                0.0
            } else {
                x
            }
        }
        // The limit at minus infinity, where the formula is infinity times zero.
        MathFn::Gelu if x == f64::NEG_INFINITY => -0.0,
        MathFn::Gelu => x * 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        MathFn::Exp2 => libm::exp2(x),
        MathFn::Expm1 => libm::expm1(x),
        MathFn::Log2 => libm::log2(x),
        MathFn::Log10 => libm::log10(x),
        MathFn::Log1p => libm::log1p(x),
        MathFn::Tan => libm::tan(x),
        MathFn::Asin => libm::asin(x),
        MathFn::Acos => libm::acos(x),
        MathFn::Atan => libm::atan(x),
        MathFn::Asinh => libm::asinh(x),
        // The library's is defined from 1 on.
        MathFn::Acosh if x < 1.0 => f64::NAN,
        MathFn::Acosh => libm::acosh(x),
        MathFn::Atanh => libm::atanh(x),
        MathFn::Cbrt => libm::cbrt(x),
        MathFn::Sinh => libm::sinh(x),
        MathFn::Cosh => libm::cosh(x),
        MathFn::Sign if x == 0.0 || x.is_nan() => x,
        MathFn::Sign => x.signum(),
        MathFn::Silu | MathFn::GeluTanh if x == f64::NEG_INFINITY => -0.0,
        MathFn::Silu => x * reference(MathFn::Sigmoid, x)?,
        MathFn::GeluTanh => {
            let w = 2.0 * (2.0 * std::f64::consts::FRAC_1_PI).sqrt() * (x + 0.044_715 * x * x * x);
            x * reference(MathFn::Sigmoid, w)?
        }
        MathFn::Softplus => x.max(0.0) + libm::log1p(libm::exp(-x.abs())),
        _ => return None,
    })
}

/// The inverse of erf, by Halley's method.
fn erf_inv(x: f64) -> f64 {
    use std::f64::consts::{FRAC_2_SQRT_PI, PI};
    let a = x.abs();
    if a == 0.0 || a == 1.0 {
        return if a == 0.0 { x } else { x * f64::INFINITY };
    }
    // Within some hundredths (S. Winitzki, "A handy approximation for the error function and its
    // inverse", 2008), except near 0.
    let log = libm::log1p(-a * a);
    let t = 2.0 / (PI * 0.147) + log / 2.0;
    let mut y = if a < 0.25 { a / FRAC_2_SQRT_PI } else { ((t * t - log / 0.147).sqrt() - t).sqrt() };
    for _ in 0..4 {
        let off = if a < 0.5 { libm::erf(y) - a } else { (1.0 - a) - libm::erfc(y) };
        let step = off / (FRAC_2_SQRT_PI * libm::exp(-y * y));
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

/// The positive zero of digamma, and its rounding error.
const ROOT: (f64, f64) = (1.461_632_144_968_362_2, 9.549_995_429_965_697e-17);

/// The derivative of the logarithm of the gamma function.
fn digamma(x: f64) -> f64 {
    use std::f64::consts::PI;
    if x == 0.0 {
        return -1.0 / x;
    }
    if x < 0.0 {
        // Exact in `f64`; NaN at integers and minus infinity.
        let r = x - x.round();
        return if r == 0.0 { f64::NAN } else { digamma(1.0 - x) - PI / libm::tan(PI * r) };
    }
    // log x - 1 / (2 x) - digamma(x) for x >= 12, by Stirling's series.
    let series = |x: f64| {
        let w = 1.0 / (x * x);
        w * (1.0 / 12.0
            - w * (1.0 / 120.0 - w * (1.0 / 252.0 - w * (1.0 / 240.0 - w * (1.0 / 132.0 - w * 691.0 / 32760.0)))))
    };
    if x >= 12.0 {
        return libm::log(x) - 0.5 / x - series(x);
    }
    // digamma(x) - digamma(root), term by term.
    let off = (x - ROOT.0) - ROOT.1;
    let near: f64 = (0..12).map(|k| off / ((x + f64::from(k)) * (ROOT.0 + f64::from(k)))).sum();
    let (far, from) = (x + 12.0, ROOT.0 + 12.0);
    near + (libm::log1p(off / from) + 0.5 * off / (far * from) - (series(far) - series(from)))
}

/// The value of a function of two arguments, in `f64`.
pub fn reference2(math: MathFn, x: f64, y: f64) -> f64 {
    match math {
        MathFn::Pow => libm::pow(x, y),
        MathFn::Atan2 => libm::atan2(x, y),
        other => panic!("{other} takes {} arguments", other.arity()),
    }
}

/// The distance of `y` from `exact` in units in the last place of an `f32` of that size; infinite
/// if only one is NaN, if only one is infinite once rounded, or if the sign of a zero differs.
pub fn ulps_f32(y: f32, exact: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
    let rounded = exact as f32;
    if Scalar::F32(y) == Scalar::F32(rounded) && (y.is_infinite() || y.is_nan() || exact == 0.0) {
        return 0.0;
    }
    if !y.is_finite() || !rounded.is_finite() || exact == 0.0 {
        return f64::INFINITY;
    }
    (f64::from(y) - exact).abs() / (binade(exact.abs().max(f32::MIN_POSITIVE.into())) * f64::from(f32::EPSILON))
}

/// The greatest power of two up to a positive normal number.
fn binade(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & (0x7ff << 52))
}

/// The distance of `y` from an exact result in units in the last place of it or, if that is
/// greater, of `least`. The exact result is given as the nearest float and its rounding error in
/// units in its last place.
pub fn ulps_f64(y: f64, rounded: f64, rest: f64, least: f64) -> f64 {
    if y.to_bits() == rounded.to_bits() && (rounded.is_infinite() || rounded == 0.0) {
        return rest.abs();
    }
    if !y.is_finite() || !rounded.is_finite() || (rounded == 0.0 && y.is_sign_negative() != rounded.is_sign_negative())
    {
        return f64::INFINITY;
    }
    let unit = |x: f64| binade(x.max(f64::MIN_POSITIVE)) * f64::EPSILON;
    let error = ((y - rounded) / unit(rounded.abs()) - rest).abs();
    error * unit(rounded.abs()) / unit(rounded.abs().max(least))
}
