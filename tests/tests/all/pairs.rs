//! Functions of several arguments give the same bits on every engine, for all pairs of special
//! values and random ones, and the same as Rust if it defines them. The accuracy of `pow` and
//! `atan2` is tested in the compiler.

use fuseloop::{Array, Dtype, Scalar};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tests::engines::{Outcome, compile};

/// The expected result of a function, if Rust defines it.
type Expected = fn(Scalar, Scalar) -> Option<Scalar>;

const FLOATS: &[Dtype] = &[Dtype::F32, Dtype::F64];
const NUMBERS: &[Dtype] = &[Dtype::F32, Dtype::F64, Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64];

/// A function of elements of `a` and `b`, and its types.
const CASES: &[(&str, &[Dtype], Expected)] = &[
    ("pow(a[i], b[j])", NUMBERS, power),
    ("a[i] ^ b[j]", NUMBERS, power),
    ("atan2(a[i], b[j])", FLOATS, |_, _| None),
    ("a[i] % b[j]", NUMBERS, remainder),
    ("a[i] / b[j]", NUMBERS, quotient),
    ("mod(a[i], b[j])", NUMBERS, modulo),
    ("floor_div(a[i], b[j])", NUMBERS, floor_div),
    ("min(a[i], b[j])", NUMBERS, least),
    ("max(a[i], b[j])", NUMBERS, |a, b| swapped(least, a, b)),
    ("clamp(a[i], b[j], 1)", NUMBERS, |_, _| None),
    ("clamp(1, a[i], b[j])", NUMBERS, |_, _| None),
    ("fma(a[i], b[j], a[i])", FLOATS, fused),
    ("fma(a[i], b[j], -1)", FLOATS, |_, _| None),
];

/// Returns the second: for a result that may not depend on its arguments.
fn option<A, R>(_: A, result: Option<R>) -> Option<R> {
    result
}

/// `$float` of two floats, `$signed` and `$unsigned` of two integers of a type.
macro_rules! by_type {
    ($a:ident, $b:ident, $float:expr, $signed:expr, $unsigned:expr) => {
        match ($a, $b) {
            (Scalar::F32($a), Scalar::F32($b)) => option(($a, $b), $float).map(Scalar::F32),
            (Scalar::F64($a), Scalar::F64($b)) => option(($a, $b), $float).map(Scalar::F64),
            (Scalar::I32($a), Scalar::I32($b)) => option(($a, $b), $signed).map(Scalar::I32),
            (Scalar::I64($a), Scalar::I64($b)) => option(($a, $b), $signed).map(Scalar::I64),
            (Scalar::U32($a), Scalar::U32($b)) => option(($a, $b), $unsigned).map(Scalar::U32),
            (Scalar::U64($a), Scalar::U64($b)) => option(($a, $b), $unsigned).map(Scalar::U64),
            _ => None,
        }
    };
}

fn remainder(a: Scalar, b: Scalar) -> Option<Scalar> {
    by_type!(a, b, Some(a % b), Some(if b == 0 { 0 } else { a.wrapping_rem(b) }), Some(a.checked_rem(b).unwrap_or(0)))
}

fn quotient(a: Scalar, b: Scalar) -> Option<Scalar> {
    by_type!(a, b, Some(a / b), Some(if b == 0 { 0 } else { a.wrapping_div(b) }), Some(a.checked_div(b).unwrap_or(0)))
}

/// For integers; those of floats are NumPy's, in the corpus.
fn modulo(a: Scalar, b: Scalar) -> Option<Scalar> {
    by_type!(
        a,
        b,
        None,
        Some(match b {
            0 => 0,
            // `rem_euclid` is never negative, the divisor may be.
            _ => match a.wrapping_rem_euclid(b) {
                r if r != 0 && b < 0 => r.wrapping_add(b),
                r => r,
            },
        }),
        Some(a.checked_rem(b).unwrap_or(0))
    )
}

fn floor_div(a: Scalar, b: Scalar) -> Option<Scalar> {
    by_type!(
        a,
        b,
        None,
        Some(match b {
            0 => 0,
            _ => a.wrapping_div(b).wrapping_sub((a.wrapping_rem(b) != 0 && (a < 0) != (b < 0)).into()),
        }),
        Some(a.checked_div(b).unwrap_or(0))
    )
}

fn least(a: Scalar, b: Scalar) -> Option<Scalar> {
    by_type!(
        a,
        b,
        Some(if a.is_nan() || b.is_nan() {
            a + b
        } else if a < b || a == b && a.is_sign_negative() {
            a
        } else {
            b
        }),
        Some(a.min(b)),
        Some(a.min(b))
    )
}

/// The operand that a choice between two does not take; NaN if the choice gives that.
fn swapped(choice: Expected, a: Scalar, b: Scalar) -> Option<Scalar> {
    let chosen = choice(a, b)?;
    Some(if chosen.is_nan() || chosen == b { if chosen.is_nan() { chosen } else { a } } else { b })
}

fn fused(a: Scalar, b: Scalar) -> Option<Scalar> {
    by_type!(a, b, Some(a.mul_add(b, a)), None, None)
}

/// For integers, which wrap, with an exponent that Rust accepts.
fn power(a: Scalar, b: Scalar) -> Option<Scalar> {
    let exponent = |b: i128| u32::try_from(b).ok();
    by_type!(a, b, None, exponent(b.into()).map(|b| a.wrapping_pow(b)), exponent(b.into()).map(|b| a.wrapping_pow(b)))
}

/// Values of a type at which something changes.
fn specials(dtype: Dtype) -> Vec<Scalar> {
    let small = (-8..=10).chain([31, 63, 64, 127, -100]).map(f64::from);
    let floats = [0.25, 0.5, 1.5, 2.5, -0.0, 1e-3, 0.1, 0.3, 1e9, f64::INFINITY, f64::NAN];
    let edge: Vec<u64> = match dtype {
        Dtype::F32 => vec![1, 2, 0x7f_ffff, 0x80_0000, 0x3f7f_ffff, 0x3f80_0001, 0x4b7f_ffff, 0x4b80_0000, 0x7f7f_ffff],
        Dtype::F64 => {
            let one = 1f64.to_bits();
            vec![1, 2, (1 << 52) - 1, 1 << 52, one - 1, one + 1, 0x433f << 48, 0x4340 << 48, f64::MAX.to_bits()]
        }
        _ => (0..8 * dtype.bytes()).flat_map(|k| [1 << k, (1 << k) - 1]).collect(),
    };
    let edge = edge.into_iter().map(|bits| Scalar::from_bits(dtype, bits));
    let cast = |x: f64| interp::scalar::cast(dtype, Scalar::F64(x));
    let mut all: Vec<Scalar> = if dtype.is_float() {
        let sign = 1 << (8 * dtype.bytes() - 1);
        let positive: Vec<Scalar> = floats.into_iter().map(cast).chain(edge).collect();
        let negative: Vec<Scalar> = positive.iter().map(|x| Scalar::from_bits(dtype, x.bits() ^ sign)).collect();
        positive.into_iter().chain(negative).collect()
    } else {
        edge.collect()
    };
    all.extend(small.filter(|&x| dtype.is_float() || dtype.is_signed_int() || x >= 0.0).map(cast));
    all
}

#[test]
fn pairs_have_the_same_bits_everywhere_and_are_what_rust_gives() {
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for &(expression, dtypes, expected) in CASES {
        for &dtype in dtypes {
            let mut draw =
                |count| -> Vec<Scalar> { (0..count).map(|_| Scalar::from_bits(dtype, random.next_u64())).collect() };
            let source = format!("fn f(a: {dtype}[n], b: {dtype}[m]) {{\n    let y[i, j] = {expression}\n    y\n}}");
            let compiled = compile(&source, "f").unwrap_or_else(|e| panic!("{source}: {e:?}"));
            for (a, b) in [(specials(dtype), specials(dtype)), (draw(60), draw(60))] {
                let array = |v: &[Scalar]| Array::from_scalars(dtype, &[v.len()], v).expect("scalars of the type");
                let inputs = [array(&a), array(&b)];
                let outcome = compiled.hold(&inputs.each_ref().map(Array::as_ref));
                let outcome = outcome.unwrap_or_else(|difference| panic!("{source}: {difference}"));
                let Outcome::Results(results) = outcome else { panic!("{source}: {outcome:?}") };
                for (k, (x, y)) in a.iter().flat_map(|x| b.iter().map(move |y| (*x, *y))).enumerate() {
                    if let Some(expected) = expected(x, y) {
                        assert_eq!(results[0].get(k), Some(expected), "{expression} of {x:?} and {y:?}");
                    }
                }
            }
        }
    }
}
