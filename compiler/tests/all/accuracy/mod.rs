//! Compares the expansions with the exact functions: `f32` over a sweep of bit patterns and around
//! every place where something changes, `f64` over a table of correctly rounded results, and the
//! values that must be exact. The program `sweep` of the crate `tests` visits all 2^32 arguments of
//! each `f32` function, through compiled code.

mod pairs;
mod reference;

use compiler::math::define;
use interp::scalar::Evaluator;
use ir::nest::{Block, Statement, ValueId};
use ir::{Dtype, MathFn, Scalar};
use reference::{reference, ulps_f32};

/// Units from the exact result.
const LIMIT: f64 = 2.0;

/// The greatest error over some arguments, and the argument where it occurs.
fn worst_f32(math: MathFn, arguments: impl Iterator<Item = u32>) -> Option<(f64, f32)> {
    let function = define(math, Dtype::F32)?;
    let mut evaluator = Evaluator::new(&function);
    let mut worst = (0.0, 0.0);
    for bits in arguments {
        let x = f32::from_bits(bits);
        let exact = reference(math, x.into())?;
        let Scalar::F32(y) = evaluator.call(&[Scalar::F32(x)]) else { panic!("{math} of f32 is f32") };
        let error = ulps_f32(y, exact);
        if error > worst.0 {
            worst = (error, x);
        }
    }
    Some(worst)
}

/// Every 4093rd bit pattern.
fn sweep() -> impl Iterator<Item = u32> {
    (0..=u32::MAX).step_by(4093)
}

/// Both signs of the neighbours of every power of two, and of the places where an expansion changes
/// its method.
fn neighbourhoods() -> impl Iterator<Item = u32> {
    let thresholds = [
        0.5f32,
        0.55,
        std::f32::consts::FRAC_PI_4,
        std::f32::consts::FRAC_PI_2,
        2.0 / 3.0,
        0.996_625_6,
        4.0 / 3.0,
        1.461_632_1,
        2.457_024_8,
        3.0,
        88.722_84,
        87.336_55,
        103.972_08,
        14.4375,
        131_072.0,
    ];
    let powers = (0..=255u32).map(|exponent| exponent << 23);
    powers.chain(thresholds.map(f32::to_bits)).flat_map(|centre| {
        (centre.saturating_sub(40)..=centre + 40).flat_map(|bits| [bits & 0x7fff_ffff, bits | 0x8000_0000])
    })
}

#[test]
fn f32_functions_are_within_two_units() {
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = MathFn::ALL
            .chunks(MathFn::ALL.len().div_ceil(2))
            .map(|some| {
                scope.spawn(move || {
                    some.iter()
                        .filter_map(|&math| Some((math, worst_f32(math, sweep().chain(neighbourhoods()))?)))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no expansion panics")).collect()
    });
    for (math, (error, x)) in &results {
        println!("{math}.f32: {error:.3} units at {x:e}");
    }
    for (math, (error, x)) in results {
        assert!(error < LIMIT, "{math}.f32 is {error} units from the exact result at {x:e}");
    }
}

#[test]
fn f64_functions_are_within_two_units() {
    let mut worst = Vec::new();
    for section in include_str!("f64.txt").split_inclusive("\n\n") {
        let mut lines = section.split_whitespace();
        let math = lines.next().and_then(MathFn::from_name).expect("a function's name heads each section");
        let function = define(math, Dtype::F64).expect("the table has only functions that are expanded");
        let mut evaluator = Evaluator::new(&function);
        let mut greatest = (0.0, vec![]);
        let fields: Vec<&str> = lines.collect();
        for point in fields.chunks_exact(math.arity() + 2) {
            let bits = |text: &&str| f64::from_bits(u64::from_str_radix(text, 16).expect("bits are hexadecimal"));
            let (arguments, result) = point.split_at(math.arity());
            let arguments: Vec<_> = arguments.iter().map(|text| Scalar::F64(bits(text))).collect();
            let rest: f64 = result[1].parse().expect("the rest is a number");
            let Scalar::F64(y) = evaluator.call(&arguments) else { panic!("{math} of f64 is f64") };
            let least = if cancels(math) && bits(&point[0]) < 0.0 { 1.0 } else { 0.0 };
            let error = reference::ulps_f64(y, bits(&result[0]), rest / 1000.0, least);
            if error > greatest.0 {
                greatest = (error, arguments);
            }
        }
        println!("{math}.f64: {:.3} units at {:?}", greatest.0, greatest.1);
        worst.push((math, greatest));
    }
    for (math, (error, x)) in worst {
        assert!(error < LIMIT, "{math}.f64 is {error} units from the exact result at {x:?}");
    }
}

/// Whether results for negative arguments are differences, which are precise only in absolute terms
/// where they are small.
fn cancels(math: MathFn) -> bool {
    matches!(math, MathFn::Lgamma | MathFn::Digamma)
}

/// f(x) in both float types, for an `x` and a result that are exact in both.
fn both(math: MathFn, arguments: &[f64]) -> (Scalar, Scalar) {
    let call = |dtype| {
        let function = define(math, dtype).expect("the function is expanded");
        let arguments: Vec<_> = arguments.iter().map(|&x| interp::scalar::cast(dtype, Scalar::F64(x))).collect();
        interp::scalar::call(&function, &arguments)
    };
    (call(Dtype::F32), call(Dtype::F64))
}

#[test]
fn exact_values() {
    use MathFn::{Acos, Acosh, Asin, Asinh, Atan, Atanh, Cbrt};
    use MathFn::{Clamp, Cos, Cosh, Digamma, Erf, ErfInv, Exp, Exp2, Expm1, Gelu, GeluTanh};
    use MathFn::{Lgamma, Log, Log1p, Log2, Log10, Relu, Rsqrt};
    use MathFn::{Sigmoid, Sign, Silu, Sin, Sinh, Softplus, Tan, Tanh};
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let cases: &[(MathFn, &[f64], f64)] = &[
        (Exp, &[0.0], 1.0),
        (Exp, &[-0.0], 1.0),
        (Exp, &[INF], INF),
        (Exp, &[-INF], 0.0),
        (Exp, &[1e30], INF),
        (Exp, &[-1e30], 0.0),
        (Log, &[1.0], 0.0),
        (Log, &[0.0], -INF),
        (Log, &[-0.0], -INF),
        (Log, &[-1.0], NAN),
        (Log, &[-INF], NAN),
        (Log, &[INF], INF),
        (Sin, &[0.0], 0.0),
        (Sin, &[-0.0], -0.0),
        (Sin, &[INF], NAN),
        (Sin, &[-INF], NAN),
        (Cos, &[0.0], 1.0),
        (Cos, &[-0.0], 1.0),
        (Cos, &[INF], NAN),
        (Tanh, &[0.0], 0.0),
        (Tanh, &[-0.0], -0.0),
        (Tanh, &[INF], 1.0),
        (Tanh, &[-INF], -1.0),
        (Sigmoid, &[0.0], 0.5),
        (Sigmoid, &[-0.0], 0.5),
        (Sigmoid, &[INF], 1.0),
        (Sigmoid, &[-INF], 0.0),
        (Erf, &[0.0], 0.0),
        (Erf, &[-0.0], -0.0),
        (Erf, &[INF], 1.0),
        (Erf, &[-INF], -1.0),
        (ErfInv, &[0.0], 0.0),
        (ErfInv, &[-0.0], -0.0),
        (ErfInv, &[1.0], INF),
        (ErfInv, &[-1.0], -INF),
        (ErfInv, &[1.5], NAN),
        (ErfInv, &[-INF], NAN),
        (Lgamma, &[1.0], 0.0),
        (Lgamma, &[2.0], 0.0),
        (Lgamma, &[0.0], INF),
        (Lgamma, &[-0.0], INF),
        (Lgamma, &[-1.0], INF),
        (Lgamma, &[-2.0], INF),
        (Lgamma, &[-1e30], INF),
        (Lgamma, &[INF], INF),
        (Lgamma, &[-INF], INF),
        (Digamma, &[0.0], -INF),
        (Digamma, &[-0.0], INF),
        (Digamma, &[-1.0], NAN),
        (Digamma, &[-3.0], NAN),
        (Digamma, &[-1e30], NAN),
        (Digamma, &[INF], INF),
        (Digamma, &[-INF], NAN),
        (Rsqrt, &[4.0], 0.5),
        (Rsqrt, &[0.0], INF),
        (Rsqrt, &[-0.0], -INF),
        (Rsqrt, &[INF], 0.0),
        (Rsqrt, &[-1.0], NAN),
        (Relu, &[-0.0], 0.0),
        (Relu, &[0.0], 0.0),
        (Relu, &[-3.0], 0.0),
        (Relu, &[3.0], 3.0),
        (Relu, &[-INF], 0.0),
        (Gelu, &[0.0], 0.0),
        (Gelu, &[-0.0], -0.0),
        (Gelu, &[INF], INF),
        (Gelu, &[-INF], -0.0),
        (GeluTanh, &[-0.0], -0.0),
        (GeluTanh, &[INF], INF),
        (GeluTanh, &[-INF], -0.0),
        (Silu, &[-0.0], -0.0),
        (Silu, &[INF], INF),
        (Silu, &[-INF], -0.0),
        (Softplus, &[INF], INF),
        (Softplus, &[-INF], 0.0),
        (Exp2, &[-0.0], 1.0),
        (Exp2, &[10.0], 1024.0),
        (Exp2, &[-126.0], 2f64.powi(-126)),
        (Exp2, &[-140.0], 2f64.powi(-140)),
        (Exp2, &[127.0], 2f64.powi(127)),
        (Exp2, &[INF], INF),
        (Exp2, &[-INF], 0.0),
        (Expm1, &[0.0], 0.0),
        (Expm1, &[-0.0], -0.0),
        (Expm1, &[INF], INF),
        (Expm1, &[-INF], -1.0),
        (Log2, &[1.0], 0.0),
        (Log2, &[8.0], 3.0),
        (Log2, &[2f64.powi(-140)], -140.0),
        (Log2, &[0.0], -INF),
        (Log2, &[-1.0], NAN),
        (Log10, &[1.0], 0.0),
        (Log10, &[1000.0], 3.0),
        (Log10, &[INF], INF),
        (Log10, &[0.0], -INF),
        (Log1p, &[0.0], 0.0),
        (Log1p, &[-0.0], -0.0),
        (Log1p, &[-1.0], -INF),
        (Log1p, &[-1.5], NAN),
        (Log1p, &[INF], INF),
        (Asin, &[-0.0], -0.0),
        (Asin, &[1.5], NAN),
        (Acos, &[1.0], 0.0),
        (Acos, &[-1.5], NAN),
        (Acos, &[INF], NAN),
        (Atan, &[0.0], 0.0),
        (Atan, &[-0.0], -0.0),
        (Asinh, &[-0.0], -0.0),
        (Asinh, &[INF], INF),
        (Asinh, &[-INF], -INF),
        (Acosh, &[1.0], 0.0),
        (Acosh, &[0.5], NAN),
        (Acosh, &[-INF], NAN),
        (Acosh, &[INF], INF),
        (Atanh, &[-0.0], -0.0),
        (Atanh, &[1.0], INF),
        (Atanh, &[-1.0], -INF),
        (Atanh, &[1.5], NAN),
        (Atanh, &[INF], NAN),
        (Cbrt, &[0.0], 0.0),
        (Cbrt, &[-0.0], -0.0),
        (Cbrt, &[INF], INF),
        (Cbrt, &[-INF], -INF),
        (Tan, &[0.0], 0.0),
        (Tan, &[-0.0], -0.0),
        (Tan, &[-INF], NAN),
        (Sinh, &[-0.0], -0.0),
        (Sinh, &[-INF], -INF),
        (Cosh, &[-0.0], 1.0),
        (Cosh, &[-INF], INF),
        (Sign, &[-0.0], -0.0),
        (Sign, &[-7.5], -1.0),
        (Sign, &[INF], 1.0),
        (Clamp, &[5.0, 0.0, 1.0], 1.0),
        (Clamp, &[-5.0, 0.0, 1.0], 0.0),
        (Clamp, &[0.5, 0.0, 1.0], 0.5),
        (Clamp, &[0.5, 1.0, 0.0], 0.0),
        (Clamp, &[-0.0, 0.0, 1.0], 0.0),
        (Clamp, &[NAN, 0.0, 1.0], NAN),
        (Clamp, &[0.5, NAN, 1.0], NAN),
    ];
    let powers = (-149..128).flat_map(|k| {
        let (k, power) = (f64::from(k), 2f64.powi(k));
        [(Log2, power, k), (Exp2, k, power)]
    });
    let tens = (0..=10).map(|k| (Log10, 10f64.powi(k), f64::from(k)));
    let cubes = (-200..=200).map(|k| (Cbrt, f64::from(k * k * k), f64::from(k)));
    let huge = (-49..=42).map(|k| (Cbrt, 2f64.powi(3 * k), 2f64.powi(k)));
    for (math, x, result) in powers.chain(tens).chain(cubes).chain(huge) {
        let expected = (interp::scalar::cast(Dtype::F32, Scalar::F64(result)), Scalar::F64(result));
        assert_eq!(both(math, &[x]), expected, "{math}({x:e})");
    }
    for k in 11..=22 {
        let function = define(Log10, Dtype::F64).expect("the function is expanded");
        let log = interp::scalar::call(&function, &[Scalar::F64(10f64.powi(k))]);
        assert_eq!(log, Scalar::F64(k.into()), "log10(1e{k})");
    }
    for dtype in [Dtype::F32, Dtype::F64] {
        let angle = |math, x: f64| {
            let function = define(math, dtype).expect("the function is expanded");
            interp::scalar::call(&function, &[interp::scalar::cast(dtype, Scalar::F64(x))])
        };
        let of = |x: f64| interp::scalar::cast(dtype, Scalar::F64(x));
        use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
        assert_eq!(angle(Asin, 1.0), of(FRAC_PI_2));
        assert_eq!(angle(Asin, -1.0), of(-FRAC_PI_2));
        assert_eq!(angle(Acos, 0.0), of(FRAC_PI_2));
        assert_eq!(angle(Acos, -1.0), of(PI));
        assert_eq!(angle(Atan, INF), of(FRAC_PI_2));
        assert_eq!(angle(Atan, -INF), of(-FRAC_PI_2));
        assert_eq!(angle(Atan, 1.0), of(FRAC_PI_4));
    }
    for &(math, arguments, result) in cases {
        let expected = (interp::scalar::cast(Dtype::F32, Scalar::F64(result)), Scalar::F64(result));
        assert_eq!(both(math, arguments), expected, "{math}{arguments:?}");
    }
}

#[test]
fn expansions_verify_and_use_all_that_they_compute() {
    for &math in MathFn::ALL {
        for dtype in [Dtype::F32, Dtype::F64] {
            let Some(function) = define(math, dtype) else { continue };
            if math == MathFn::Uniform {
                // A draw is two words, but an `f32` takes only one.
                continue;
            }
            let used = used(&function.body, function.result);
            for value in function.values.keys().filter(|v| !function.params.contains(v)) {
                assert!(used.contains(&value), "{value} of {} is computed in vain", function.name);
            }
            let mut program = ir::nest::Program { name: math.to_string(), ..Default::default() };
            program.functions.push(function);
            if let Err(error) = ir::verify::verify(&program) {
                panic!("{math} of {dtype}: {error:?}");
            }
        }
    }
}

/// The values that some statement uses, and the result.
fn used(block: &Block, result: ValueId) -> Vec<ValueId> {
    let mut values = vec![result];
    for statement in block {
        match statement {
            Statement::Let { op, .. } => op.for_each_operand(|v| values.push(v)),
            Statement::If { condition, then, otherwise, results } => {
                values.push(*condition);
                values.extend(results.iter().flat_map(|&(_, a, b)| [a, b]));
                values.extend(used(then, result));
                values.extend(used(otherwise, result));
            }
            other => panic!("{other:?} stands in no expansion"),
        }
    }
    values
}

#[test]
fn nan_in_gives_nan_out_whatever_its_bits() {
    for &math in MathFn::ALL.iter().filter(|math| !math.is_random()) {
        for (dtype, quiet, payloads) in [(Dtype::F32, 0x7fc0_0000, 22), (Dtype::F64, 0x7ff8_0000_0000_0000, 51)] {
            let Some(function) = define(math, dtype) else { continue };
            let mut evaluator = Evaluator::new(&function);
            for sign in [0, 1 << (8 * dtype.bytes() - 1)] {
                for bit in 0..=payloads {
                    let nan = Scalar::from_bits(dtype, quiet | sign | ((1 << bit) - 1));
                    let mut arguments = vec![Scalar::one(dtype); math.arity()];
                    arguments[0] = nan;
                    assert!(evaluator.call(&arguments).is_nan(), "{math} of {:x}", nan.bits());
                }
            }
        }
    }
}

#[test]
fn symmetries_and_bounds_are_exact() {
    use MathFn::{Cos, Erf, Sigmoid, Sin, Tanh};
    for (math, odd, least) in
        [(Sin, true, -1.0), (Cos, false, -1.0), (Tanh, true, -1.0), (Erf, true, -1.0), (Sigmoid, false, 0.0)]
    {
        for dtype in [Dtype::F32, Dtype::F64] {
            let function = define(math, dtype).expect("the function is expanded");
            let mut evaluator = Evaluator::new(&function);
            let mut at = |x: f64| match evaluator.call(&[interp::scalar::cast(dtype, Scalar::F64(x))]) {
                Scalar::F32(y) => f64::from(y),
                Scalar::F64(y) => y,
                other => panic!("{other:?} is no float"),
            };
            for i in 0..20_000 {
                let x = f64::from(i) * 0.000_931 + f64::from(i % 7) * 1e4;
                let (plus, minus) = (at(x), at(-x));
                assert!(
                    (least..=1.0).contains(&plus) && (least..=1.0).contains(&minus),
                    "{math} of {x} is out of bounds"
                );
                if math != Sigmoid {
                    assert!(
                        minus.to_bits() == if odd { -plus } else { plus }.to_bits(),
                        "{math} of {x} is not symmetric"
                    );
                }
            }
        }
    }
}

/// Functions that reductions take out of their loops never fall, and give no NaN. A visit of all
/// `f32` found nothing else.
#[test]
fn never_falls() {
    for math in MathFn::ALL {
        let Some(domain) = ir::rewrite::never_falls(*math, Dtype::F32) else { continue };
        let function = define(*math, Dtype::F32).unwrap();
        let mut evaluator = Evaluator::new(&function);
        let mut call = |x: f32| match evaluator.call(&[Scalar::F32(x)]) {
            Scalar::F32(y) if !y.is_nan() => y,
            other => panic!("{math} of {x:?} is {other:?}"),
        };
        let arguments = sweep().step_by(25).chain(neighbourhoods()).map(f32::from_bits).filter(|x| match domain {
            ir::rewrite::Domain::All => *x < f32::INFINITY,
            ir::rewrite::Domain::Positive => x.is_sign_positive() && *x < f32::INFINITY,
        });
        for x in arguments {
            let next = x.next_up();
            assert!(call(x).total_cmp(&call(next)).is_le(), "{math} falls at {x:?}");
        }
    }
}
