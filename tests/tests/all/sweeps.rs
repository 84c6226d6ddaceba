//! Loops over rows of products in sweeps, emulated: they give the bits of the parts that they
//! replace, without memory for the products.

use backends::ptx::{Facts, Math, Module, Runner, Target};
use interp::nest::run_scheduled;
use ir::array::Array;
use ir::sched::{Machine, Run, Scheduled, SweepForm, Sweeps};
use ir::{Dtype, Scalar};
use schedule::schedule;
use tests::emulated::Emulated;
use tests::engines::compile_in;

/// Functions of `q`, `k` and `v`. `T` is the type of their elements.
const PROGRAMS: &str = "
@kernels(1)
fn plain(q: T[b, s, d], k: T[b, t, d], v: T[b, t, e]) -> T[b, s, e] {
    let score[h, i, j] = sum[c](f32(q[h, i, c]) * f32(k[h, j, c])) / sqrt(f32(d))
    let m[h, i] = max(score[h, i])
    let p[h, i, j] = exp(score[h, i, j] - m[h, i])
    let z[h, i] = sum(p[h, i])
    let o[h, i, c] = T(sum[j](f32(T(p[h, i, j])) * f32(v[h, j, c])) / z[h, i])
    o
}
@kernels(1)
fn divided(q: T[b, s, d], k: T[b, t, d], v: T[b, t, e]) -> T[b, s, e] {
    let score[h, i, j] = sum[c](f32(q[h, i, c]) * f32(k[h, j, c])) / sqrt(f32(d))
    let m[h, i] = max(score[h, i])
    let p[h, i, j] = exp(score[h, i, j] - m[h, i])
    let z[h, i] = sum(p[h, i])
    let o[h, i, c] = T(sum[j](f32(T(p[h, i, j] / z[h, i])) * f32(v[h, j, c])))
    o
}
@kernels(1)
fn lifted(q: T[b, s, d], k: T[b, t, d], v: T[b, t, e]) -> (T[b, s, e], f32[b, s], i64[b, s], f32[b, s]) {
    let score[h, i, j] = sum[c](f32(q[h, i, c]) * f32(k[h, j, c])) / sqrt(f32(d))
    let m[h, i] = max(score[h, i])
    let total[h, i] = sum(score[h, i])
    let at[h, i] = argmin(score[h, i])
    let p[h, i, j] = exp((score[h, i, j] - m[h, i]) * 0.5)
    let z[h, i] = sum(p[h, i])
    let o[h, i, c] = T(sum[j](f32(T(score[h, i, j])) * f32(v[h, j, c])))
    let height[h, i] = m[h, i] + 2 * log(z[h, i])
    (o, total, at, height)
}
@kernels(1)
fn causal(q: T[b, s, d], k: T[b, t, d], v: T[b, t, e]) -> f32[b, s, e] {
    let score[h < b, i < s, j < t] = if j <= i then sum[c](f32(q[h, i, c]) * f32(k[h, j, c])) else -inf
    let m[h, i] = max(score[h, i])
    let p[h, i, j] = exp(score[h, i, j] - m[h, i])
    let z[h, i] = sum(p[h, i])
    let o[h, i, c] = sum[j](f32(T(p[h, i, j] / z[h, i])) * f32(v[h, j, c]))
    o
}
@kernels(1)
fn windowed(q: T[b, s, d], k: T[b, t, d], v: T[b, t, e]) -> f32[b, s, e] {
    let score[h < b, i < s, j < t] = if j <= i && i - j < 40 then sum[c](f32(q[h, i, c]) * f32(k[h, j, c])) else -inf
    let m[h, i] = max(score[h, i])
    let p[h, i, j] = exp(score[h, i, j] - m[h, i])
    let o[h, i, c] = sum[j](f32(T(p[h, i, j])) * f32(v[h, j, c])) / sum(p[h, i])
    o
}
@kernels(1)
fn weights(q: T[b, s, d], k: T[b, t, d], v: T[b, t, e]) -> f32[b, s, t] {
    let score[h, i, j] = sum[c](f32(q[h, i, c]) * f32(k[h, j, c])) + f32(v[h, j, 0])
    let m[h, i] = max(score[h, i])
    let p[h, i, j] = exp(score[h, i, j] - m[h, i])
    let z[h, i] = sum(p[h, i])
    let w[h, i, j] = p[h, i, j] / z[h, i]
    w
}
@kernels(1)
fn largest(q: T[b, s, d], k: T[b, t, d], v: T[b, t, e]) -> i64[b, s] {
    let score[h, i, j] = sum[c](f32(q[h, i, c]) * f32(k[h, j, c])) + f32(v[h, j, 0])
    let at[h, i] = argmax(score[h, i])
    at
}
@kernels(1)
fn up_to_largest(q: T[b, s, d], k: T[b, t, d], v: T[b, t, e]) -> f32[b, s] {
    let score[h, i, j] = sum[c](f32(q[h, i, c]) * f32(k[h, j, c])) + 0.5
    let at[h, i] = argmax(score[h, i])
    let total[h < b, i < s] = sum[j < t](if j <= at[h, i] then score[h, i, j] else 0)
    total
}
";

const NAMES: [&str; 5] = ["plain", "causal", "windowed", "weights", "largest"];

fn scheduled(name: &str, dtype: &str) -> Scheduled {
    scheduled_of(PROGRAMS, name, dtype)
}

/// The schedule of one of some programs. `T` stands for the type in them.
pub fn scheduled_of(programs: &str, name: &str, dtype: &str) -> Scheduled {
    let source = programs.replace('T', dtype);
    let compiled = compile_in(&source, name, &[]).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    schedule(&compiled.forms[1].program, Machine::PTX).expect("it is scheduled")
}

/// Without the parts in sweeps.
pub fn in_parts(scheduled: &Scheduled) -> Scheduled {
    let mut scheduled = scheduled.clone();
    scheduled.rewrite(|_, part| if part.run == Run::Sweeps { vec![] } else { vec![part] });
    scheduled
}

fn array(dtype: Dtype, shape: &[usize], seed: usize) -> Array {
    let mut array = Array::zeros(dtype, shape).expect("a small array");
    for k in 0..array.len() {
        let number = ((k * 7919 + seed * 31) % 1013) as f64 / 300.0 - 1.5;
        array.set(k, Scalar::parse(dtype, &number.to_string()).expect("a number"));
    }
    array
}

fn run(scheduled: &Scheduled, math: Math, inputs: &[Array]) -> Vec<Array> {
    let refs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let mut runner = Runner::new(Module::compile_with(scheduled, math).unwrap(), Emulated::of(6, Target::Sm90a), None);
    let mut outputs = run_scheduled(scheduled, &refs).unwrap();
    let mut views: Vec<_> = outputs.iter_mut().map(Array::as_mut).collect();
    runner.call(&refs, &mut views, None).unwrap_or_else(|error| panic!("{error}"));
    outputs
}

/// Sizes of `b`, `s`, `t`, `d` and `e`.
const SIZES: [[usize; 5]; 8] = [
    [1, 64, 64, 8, 8],
    [1, 64, 128, 64, 64],
    [2, 130, 129, 16, 8],
    [1, 70, 1, 40, 16],
    [1, 65, 300, 72, 24],
    [1, 100, 257, 128, 128],
    [1, 64, 5, 8, 136],
    [1, 64, 8300, 8, 8],
];

#[test]
fn bits_stay() {
    for name in NAMES {
        for (dtype, text) in [(Dtype::Bf16, "bf16"), (Dtype::F16, "f16")] {
            if dtype == Dtype::F16 && name != "plain" {
                continue;
            }
            let whole = scheduled(name, text);
            assert!(whole.parts.iter().any(|part| part.run == Run::Sweeps), "{name}");
            let parts = in_parts(&whole);
            for [b, s, t, d, e] in SIZES {
                let mut inputs =
                    [array(dtype, &[b, s, d], 1), array(dtype, &[b, t, d], 2), array(dtype, &[b, t, e], 3)];
                if b == 2 {
                    // Scores that are infinite, or no numbers, and infinite results of weights that
                    // are 0.
                    for (array, at, text) in
                        [(0, 3, "inf"), (1, 40 * d, "-inf"), (1, 70 * d, "nan"), (2, 100 * e, "inf")]
                    {
                        inputs[array].set(at, Scalar::parse(dtype, text).expect("a number"));
                    }
                }
                let [one, other] = [&whole, &parts].map(|scheduled| run(scheduled, Math::Exact, &inputs));
                for (one, other) in one.iter().zip(&other) {
                    assert_eq!(one.bytes(), other.bytes(), "{name}, {text}, {b} x {s} x {t} x {d} x {e}");
                }
            }
        }
    }
}

/// A mask that differs from row to row by data.
#[test]
fn masks_by_data() {
    let whole = scheduled("up_to_largest", "bf16");
    assert!(whole.parts.iter().any(|part| part.run == Run::Sweeps));
    let inputs = [[1, 70, 8], [1, 300, 8], [1, 300, 8]].map(|shape| array(Dtype::Bf16, &shape, shape[1]));
    let [one, other] = [&whole, &in_parts(&whole)].map(|scheduled| run(scheduled, Math::Exact, &inputs));
    assert_eq!(one[0].bytes(), other[0].bytes());
}

#[test]
fn no_memory_for_products() {
    let facts = Facts { shared: 227 << 10, target: Target::Sm90a, multiprocessors: 132 };
    let module = Module::compile_with(&scheduled("plain", "bf16"), Math::Exact).unwrap();
    let [q, k, v] = [(); 3].map(|()| array(Dtype::Bf16, &[1, 1024, 64], 1));
    let plan = module.plan_for(&[q.as_ref(), k.as_ref(), v.as_ref()], facts).unwrap();
    assert_eq!(plan.launches.len(), 1);
    assert!(plan.own < 1 << 12, "{}", plan.own);
}

#[test]
fn other_sizes_run_in_parts() {
    let facts = Facts { shared: 227 << 10, target: Target::Sm90a, multiprocessors: 132 };
    let module = Module::compile_with(&scheduled("plain", "bf16"), Math::Exact).unwrap();
    let launches = |facts, s, d, e| {
        let inputs = [[1, s, d], [1, 100, d], [1, 100, e]].map(|shape| array(Dtype::Bf16, &shape, 1));
        module.plan_for(&inputs.each_ref().map(Array::as_ref), facts).unwrap().launches.len()
    };
    assert_eq!(launches(facts, 64, 128, 128), 1);
    // Few rows, rows that are not aligned, wide ones, and other devices.
    for (s, d, e) in [(63, 128, 128), (64, 60, 128), (64, 128, 12), (64, 136, 128), (64, 128, 136), (64, 0, 8)] {
        assert!(launches(facts, s, d, e) > 1, "{s} x {d} x {e}");
    }
    assert!(launches(Facts { target: Target::Sm90, ..facts }, 64, 128, 128) > 1);
}

/// Weights under [`Math::Fast`] are within the bound that `docs/gpu.md` gives: exponentials of
/// numbers that are `u` below 0, divided by their sum.
#[test]
fn fast_weights() {
    let [s, t, d] = [70, 300, 24];
    let inputs = [[1, s, d], [1, t, d], [1, t, 8]].map(|shape| array(Dtype::Bf16, &shape, shape[1]));
    let whole = scheduled("weights", "bf16");
    let [exact, fast] = [Math::Exact, Math::Fast].map(|math| run(&whole, math, &inputs));
    assert_ne!(exact[0].bytes(), fast[0].bytes());
    for k in 0..exact[0].len() {
        let [exact, fast] = [&exact[0], &fast[0]].map(|array| number(array, k));
        let row: f64 = (0..t).map(|j| exact_of(&inputs, k / t, j)).fold(f64::MIN, f64::max);
        let below = row - exact_of(&inputs, k / t, k % t);
        let bound = ((2.0 * below + 8.0) + t as f64) * f64::from(f32::EPSILON);
        assert!((exact - fast).abs() <= bound * exact + f64::from(f32::MIN_POSITIVE), "{k}: {exact}, {fast}");
    }
}

fn number(array: &Array, at: usize) -> f64 {
    match array.get(at) {
        Some(Scalar::Bf16(x)) => x.to_f64(),
        Some(Scalar::F32(x)) => x.into(),
        Some(Scalar::I64(x)) => x as f64,
        _ => panic!("an element of these types"),
    }
}

/// The score of `weights`.
fn exact_of(inputs: &[Array], i: usize, j: usize) -> f64 {
    let at = |array: &Array, row: usize, column: usize| number(array, row * array.shape()[2] + column);
    let products = (0..inputs[0].shape()[2]).map(|c| at(&inputs[0], i, c) * at(&inputs[1], j, c));
    products.sum::<f64>() + at(&inputs[2], j, 0)
}

/// Attention in one sweep under [`Math::Fast`]: weights that are divided before they are rounded
/// or not at all, masks, and scores far apart, so that sums are rescaled.
#[test]
fn online() {
    let [names, masks] = [["plain", "divided", "causal", "windowed"], ["", "", "j <= i", "j <= i && i - j < 40"]];
    for (name, mask) in names.into_iter().zip(masks) {
        let whole = scheduled(name, "bf16");
        let sweeps = whole.parts.iter().find(|part| part.run == Run::Sweeps).expect("it runs in sweeps");
        let count = |form| Sweeps::of(&whole.program, &sweeps.kernel, form).expect("it has them").sweeps.len();
        assert!(count(SweepForm::Exact) > 1, "{name}");
        assert_eq!(count(SweepForm::Online), 1, "{name}");
        for [b, s, t, d, e] in [[1, 64, 0, 8, 8], [1, 70, 1, 40, 16], [2, 130, 129, 16, 8], [1, 65, 300, 72, 24]] {
            let inputs = [
                array(Dtype::Bf16, &[b, s, d], 1),
                array(Dtype::Bf16, &[b, t, d], 2),
                array(Dtype::Bf16, &[b, t, e], 3),
            ];
            let [exact, fast] = [Math::Exact, Math::Fast].map(|math| run(&whole, math, &inputs));
            for at in 0..fast[0].len() {
                let (row, c) = (at / e, at % e);
                let (h, i) = (row / s, row % s);
                let seen = |j: &usize| match mask {
                    "" => true,
                    "j <= i" => *j <= i,
                    _ => *j <= i && i - *j < 40,
                };
                let dot = |j: usize| {
                    let products =
                        (0..d).map(|c| number(&inputs[0], row * d + c) * number(&inputs[1], (h * t + j) * d + c));
                    products.sum::<f64>()
                };
                let scale = if matches!(name, "plain" | "divided") { (d as f64).sqrt() } else { 1.0 };
                let scores: Vec<(usize, f64)> = (0..t).filter(seen).map(|j| (j, dot(j) / scale)).collect();
                let most = scores.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
                let weights =
                    scores.iter().map(|(j, score)| ((score - most).exp(), number(&inputs[2], (h * t + j) * e + c)));
                let (mut sum, mut result, mut magnitude) = (0.0, 0.0, 0.0);
                for (weight, value) in weights {
                    (sum, result, magnitude) =
                        (sum + weight, result + weight * value, magnitude + weight * value.abs());
                }
                let [exact, fast] = [&exact[0], &fast[0]].map(|array| number(array, at));
                let place = format!("{name}, {b} x {s} x {t} x {d} x {e}, {at}: {exact}, {fast}, {}", result / sum);
                assert_eq!(exact.is_nan(), fast.is_nan(), "{place}");
                // A weight has eight bits, and so has a result.
                let result = result / sum;
                let bound = magnitude / sum * 2.01 * 2f64.powi(-8) + 1e-5;
                assert!(fast.is_nan() || t == 0 && fast == exact || (fast - result).abs() <= bound, "{place}");
            }
        }
    }
}

/// Only the sums that are proportional to the exponentials are multiplied when a maximum grows.
#[test]
fn online_beside_others() {
    let whole = scheduled("lifted", "bf16");
    let sweeps = whole.parts.iter().find(|part| part.run == Run::Sweeps).expect("it runs in sweeps");
    let online = Sweeps::of(&whole.program, &sweeps.kernel, SweepForm::Online).expect("it has them");
    assert_eq!(online.sweeps.len(), 1);
    let inputs = [[1, 65, 72], [1, 300, 72], [1, 300, 24]].map(|shape| array(Dtype::Bf16, &shape, shape[2]));
    let [exact, fast] = [Math::Exact, Math::Fast].map(|math| run(&whole, math, &inputs));
    for (which, (exact, fast)) in exact.iter().zip(&fast).enumerate() {
        let all: Vec<[f64; 2]> = (0..exact.len()).map(|at| [exact, fast].map(|array| number(array, at))).collect();
        let most = all.iter().map(|[exact, _]| exact.abs()).fold(0.0, f64::max);
        for [exact, fast] in all {
            assert!((exact - fast).abs() <= most * 2f64.powi(-7), "{which}: {exact}, {fast}");
        }
    }
}
