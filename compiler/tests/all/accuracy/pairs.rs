//! The functions of two arguments: every pair of special values is compared with C's annex F,
//! random and structured pairs with an independent `f64` function. (`f64` results are in the table
//! too.)

use compiler::math::define;
use interp::scalar::Evaluator;
use ir::{Dtype, MathFn, Scalar};

use super::LIMIT;
use super::reference::{reference2, ulps_f32, ulps_f64};

/// Zeros, ones, infinities, NaN, the edges of the types, integers around the sizes where parity
/// ends, and values in between.
fn specials(dtype: Dtype) -> Vec<f64> {
    let (digits, least, tiniest, most) = match dtype {
        Dtype::F32 => (24, f32::MIN_POSITIVE.into(), f64::from(f32::from_bits(1)), f64::from(f32::MAX)),
        _ => (53, f64::MIN_POSITIVE, f64::from_bits(1), f64::MAX),
    };
    let integral = 2f64.powi(digits);
    let unit = 2f64.powi(1 - digits);
    let positive = [
        0.0,
        tiniest,
        3.0 * tiniest,
        least,
        least * (1.0 + unit),
        1e-20,
        0.25,
        0.5,
        1.0 - unit / 2.0,
        1.0,
        1.0 + unit,
        1.5,
        2.0,
        2.5,
        3.0,
        7.0,
        10.0,
        64.0,
        127.0,
        149.0,
        1023.0,
        1074.0,
        1e9,
        integral / 2.0 - 0.5,
        integral / 2.0 + 1.0,
        integral - 1.0,
        integral,
        integral + 2.0,
        2f64.powi(125),
        most / 2.0,
        most,
        f64::INFINITY,
        f64::NAN,
    ];
    positive.into_iter().chain(positive.map(|x| -x)).collect()
}

/// The distance of a function's value from the reference.
fn error(evaluator: &mut Evaluator, math: MathFn, dtype: Dtype, x: f64, y: f64) -> f64 {
    let arguments = [x, y].map(|v| interp::scalar::cast(dtype, Scalar::F64(v)));
    let exact = reference2(math, x, y);
    match evaluator.call(&arguments) {
        Scalar::F32(z) => ulps_f32(z, exact),
        Scalar::F64(z) if z.is_nan() && exact.is_nan() => 0.0,
        // The reference itself is rounded in the last place.
        Scalar::F64(z) => (ulps_f64(z, exact, 0.0, 0.0) - 1.0).max(0.0),
        other => panic!("{other:?} is no float"),
    }
}

#[test]
fn special_pairs() {
    for math in [MathFn::Pow, MathFn::Atan2] {
        for dtype in [Dtype::F32, Dtype::F64] {
            let function = define(math, dtype);
            let mut evaluator = Evaluator::new(function.as_ref().expect("the function is expanded"));
            for &x in &specials(dtype) {
                for &y in &specials(dtype) {
                    let error = error(&mut evaluator, math, dtype, x, y);
                    assert!(error < LIMIT, "{math}.{dtype}({x:e}, {y:e}) is {error} units off");
                }
            }
        }
    }
}

/// A small generator of bits (Steele, Lea and Flood's SplitMix64).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Any `f32`.
    fn float(&mut self) -> f64 {
        f32::from_bits(Scalar::from_bits(Dtype::U32, self.bits()).bits() as u32).into()
    }

    /// Between 0 and 1.
    fn part(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * 2f64.powi(-53)
    }
}

#[test]
fn random_pairs() {
    let single = |x: f64| f64::from(x as f32);
    for (math, count) in [(MathFn::Pow, 400_000), (MathFn::Atan2, 400_000)] {
        let function = define(math, Dtype::F32);
        let mut evaluator = Evaluator::new(function.as_ref().expect("the function is expanded"));
        let mut random = Random(1);
        let mut worst = (0.0, 0.0, 0.0);
        for i in 0..count {
            let x = random.float();
            let (x, y) = match (math, i % 4) {
                (_, 0) => (x, random.float()),
                // A power in range, including a denormal one, of any base or of one near 1.
                (MathFn::Pow, kind) => {
                    let base = match kind {
                        1 => x.abs(),
                        2 => 1.0 + (random.part() - 0.5) * 2f64.powi(-((random.bits() % 24) as i32)),
                        _ => random.part() * 2.0,
                    };
                    let base = single(base);
                    (base, single((random.part() * 280.0 - 150.0) / base.log2()))
                }
                // Coordinates of similar size, and points near the diagonal.
                (_, 1) => (x, single(x * random.part() * 4.0)),
                (_, 2) => (x, single(-x * random.part())),
                _ => (x, single(x * (1.0 + random.part() * 1e-5))),
            };
            let error = error(&mut evaluator, math, Dtype::F32, x, y);
            if error > worst.0 {
                worst = (error, x, y);
            }
        }
        println!("{math}.f32: {:.3} units at {:e}, {:e}", worst.0, worst.1, worst.2);
        assert!(worst.0 < LIMIT, "{math}.f32({:e}, {:e}) is {} units off", worst.1, worst.2, worst.0);
    }
}

#[test]
fn exact_powers() {
    for dtype in [Dtype::F32, Dtype::F64] {
        let digits: i32 = if dtype == Dtype::F32 { 24 } else { 53 };
        let function = define(MathFn::Pow, dtype);
        let mut evaluator = Evaluator::new(function.as_ref().expect("the function is expanded"));
        for base in 1..=100 {
            let base = f64::from(base);
            for exponent in 0..=digits {
                let power = base.powi(exponent);
                if power >= 2f64.powi(digits) {
                    break;
                }
                for (x, y, power) in [
                    (base, f64::from(exponent), power),
                    (-base, f64::from(exponent), if exponent % 2 == 1 { -power } else { power }),
                    (base * base, f64::from(exponent) / 2.0, power),
                ] {
                    let arguments = [x, y].map(|v| interp::scalar::cast(dtype, Scalar::F64(v)));
                    let expected = interp::scalar::cast(dtype, Scalar::F64(power));
                    assert_eq!(evaluator.call(&arguments), expected, "{x} ^ {y} in {dtype}");
                }
            }
        }
    }
}

#[test]
fn quadrants_and_diagonals_are_exact() {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    for dtype in [Dtype::F32, Dtype::F64] {
        let function = define(MathFn::Atan2, dtype);
        let mut evaluator = Evaluator::new(function.as_ref().expect("the function is expanded"));
        let numbers = specials(dtype).into_iter().filter(|&x| x > 0.0);
        for a in numbers.filter(|a| !a.is_nan()) {
            for (y, x, angle) in [
                (0.0, a, 0.0),
                (a, a, FRAC_PI_4),
                (a, 0.0, FRAC_PI_2),
                (a, -0.0, FRAC_PI_2),
                (a, -a, FRAC_PI_2 + FRAC_PI_4),
                (0.0, -a, PI),
                (0.0, -0.0, PI),
                (0.0, 0.0, 0.0),
            ] {
                for sign in [1.0, -1.0] {
                    let arguments = [sign * y, x].map(|v| interp::scalar::cast(dtype, Scalar::F64(v)));
                    let expected = interp::scalar::cast(dtype, Scalar::F64(sign * angle));
                    assert_eq!(evaluator.call(&arguments), expected, "atan2({}, {x})", sign * y);
                }
            }
        }
    }
}
