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

/// The distance of `y` from an exact result in units in the last place. The exact result is given
/// as the nearest float and its rounding error in such units.
pub fn ulps_f64(y: f64, rounded: f64, rest: f64) -> f64 {
    if y.to_bits() == rounded.to_bits() && (rounded.is_infinite() || rounded == 0.0) {
        return rest.abs();
    }
    if !y.is_finite() || !rounded.is_finite() || (rounded == 0.0 && y.is_sign_negative() != rounded.is_sign_negative())
    {
        return f64::INFINITY;
    }
    ((y - rounded) / (binade(rounded.abs().max(f64::MIN_POSITIVE)) * f64::EPSILON) - rest).abs()
}
