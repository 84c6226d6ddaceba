//! Sweeps over products with many inner indices, emulated: they give the bits of the parts that
//! they replace, and those of the interpreter where sums are exact.

use backends::ptx::{Facts, Math, Module, Runner, Target};
use interp::nest::run_scheduled;
use ir::array::Array;
use ir::sched::{Run, Scheduled};
use ir::{Dtype, Scalar};
use tests::emulated::Emulated;

use super::sweeps::{in_parts, scheduled_of};

/// Functions of `x`, `e` and `bias`. `T` is the type of factors.
const PROGRAMS: &str = "
@kernels(1)
fn splade(x: T[b, s, h], e: T[v, h], bias: f32[v]) -> f32[b, v] {
    let y[i, w] = max[t](log1p(relu(sum[c](f32(x[i, t, c]) * f32(e[w, c])) + bias[w])))
    y
}
@kernels(1)
fn least(x: T[b, s, h], e: T[v, h], bias: f32[v]) -> f32[b, v] {
    let y[i, w] = min[t](sum[c](f32(x[i, t, c]) * f32(e[w, c])) * bias[w])
    y
}
@kernels(1)
fn some(x: T[b, s, h], e: T[v, h], bias: f32[v]) -> bool[b, v] {
    let y[i, w] = any[t](sum[c](f32(x[i, t, c]) * f32(e[w, c])) > bias[w])
    y
}
@kernels(1)
fn largest(x: T[b, s, h], e: T[v, h], bias: f32[v]) -> i64[b, v] {
    let score[i, w, t] = sum[c](f32(x[i, t, c]) * f32(e[w, c])) + bias[w]
    let at[i, w] = argmax(score[i, w])
    at
}
@kernels(1)
fn turned(x: T[b, h, s], e: T[h, v], bias: f32[v]) -> f32[b, v] {
    let y[i, w] = max[t](sum[c](f32(x[i, c, t]) * f32(e[c, w])) + bias[w])
    y
}
@kernels(1)
fn down(x: T[b, h, s], e: T[h, v], bias: f32[v]) -> f32[b, v] {
    let score[i, t, w] = sum[c](f32(x[i, c, t]) * f32(e[c, w])) + bias[w]
    max(score, axis = 1)
}
@kernels(1)
fn normal(x: T[b, h, s], e: T[h, v], bias: f32[v]) -> f32[b, v] {
    let score[i, w, t] = sum[c](f32(x[i, c, t]) * f32(e[c, w])) + bias[w]
    let m[i, w] = max(score[i, w])
    let z[i, w] = sum[t](exp(score[i, w, t] - m[i, w]))
    let y[i, w] = m[i, w] + log(z[i, w])
    y
}
@kernels(1)
fn weights(x: T[b, h, s], e: T[h, v], bias: f32[v]) -> f32[b, v, s] {
    let score[i < b, w < v, t < s] = if t <= w then sum[c](f32(x[i, c, t]) * f32(e[c, w])) + bias[w] else -inf
    let m[i, w] = max(score[i, w])
    let p[i, w, t] = exp(score[i, w, t] - m[i, w])
    let z[i, w] = sum(p[i, w])
    let y[i, w, t] = p[i, w, t] / z[i, w]
    y
}
";

const FACTS: Facts = Facts { shared: 227 << 10, target: Target::Sm90a, multiprocessors: 132 };

fn scheduled(name: &str, dtype: &str) -> Scheduled {
    scheduled_of(PROGRAMS, name, dtype)
}

/// Whole numbers, some of them equal.
fn array(dtype: Dtype, shape: &[usize], seed: usize) -> Array {
    let mut array = Array::zeros(dtype, shape).expect("a small array");
    for k in 0..array.len() {
        let number = (k * 7919 + seed * 31) % 1013 % 9;
        set(&mut array, k, &(number as f64 - 4.0).to_string());
    }
    array
}

fn set(array: &mut Array, at: usize, text: &str) {
    array.set(at, Scalar::parse(array.dtype(), text).expect("a number"));
}

/// Whether factors lie in memory in columns.
fn is_turned(name: &str) -> bool {
    matches!(name, "turned" | "down" | "normal" | "weights")
}

/// The inputs for sizes of `b`, `s`, `v` and `h`.
fn inputs(name: &str, dtype: Dtype, [b, s, v, h]: [usize; 4]) -> [Array; 3] {
    let shapes = if is_turned(name) { [vec![b, h, s], vec![h, v]] } else { [vec![b, s, h], vec![v, h]] };
    [array(dtype, &shapes[0], 1), array(dtype, &shapes[1], 2), array(Dtype::F32, &[v], 3)]
}

/// Runs a schedule on an emulated device, and in the interpreter. NaNs are all of one kind.
fn run(scheduled: &Scheduled, inputs: &[Array]) -> [Vec<Array>; 2] {
    let refs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let module = Module::compile_with(scheduled, Math::Exact).unwrap();
    let mut runner = Runner::new(module, Emulated::of(6, Target::Sm90a), None);
    let expected = run_scheduled(scheduled, &refs).unwrap();
    let mut outputs = expected.clone();
    let mut views: Vec<_> = outputs.iter_mut().map(Array::as_mut).collect();
    runner.call(&refs, &mut views, None).unwrap_or_else(|error| panic!("{error}"));
    [outputs, expected].map(|mut arrays| {
        arrays.iter_mut().for_each(Array::canonical_nan);
        arrays
    })
}

fn launches(scheduled: &Scheduled, inputs: &[Array]) -> usize {
    let module = Module::compile_with(scheduled, Math::Exact).unwrap();
    let refs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    module.plan_for(&refs, FACTS).unwrap().launches.len()
}

/// Sizes of `b`, `s`, `v` and `h`.
const SIZES: [[usize; 4]; 9] = [
    [2, 8, 72, 8],
    [1, 72, 72, 128],
    [2, 5, 130, 200],
    [1, 129, 65, 144],
    [1, 1, 70, 136],
    [1, 127, 65, 192],
    [1, 128, 128, 768],
    [2, 130, 131, 136],
    [1, 256, 65, 136],
];

/// Holds a function to the interpreter, and to the parts that the sweeps replace.
fn hold(name: &str, (dtype, text): (Dtype, &str), sizes: &[[usize; 4]]) {
    let whole = scheduled(name, text);
    assert!(whole.parts.iter().any(|part| part.run == Run::Sweeps), "{name}");
    let parts = in_parts(&whole);
    for sizes in sizes {
        let [b, s, v, h] = *sizes;
        // Rows must be aligned.
        if is_turned(name) && (s % 8 > 0 || v % 8 > 0) {
            continue;
        }
        let mut inputs = inputs(name, dtype, *sizes);
        if b == 2 && s > 5 {
            // Scores that are infinite, or no numbers, or -0.
            for (array, at, text) in [(0, 3, "inf"), (1, 40 * h, "-inf"), (1, 60 * h, "nan"), (2, 7, "nan")] {
                set(&mut inputs[array], at, text);
            }
            (0..h).for_each(|c| set(&mut inputs[1], c, "-0"));
            set(&mut inputs[2], 0, "-0");
        }
        assert_eq!(launches(&whole, &inputs), 1, "{name}, {sizes:?}");
        let [one, expected] = run(&whole, &inputs);
        let [other, _] = run(&parts, &inputs);
        for ((one, other), expected) in one.iter().zip(&other).zip(&expected) {
            assert_eq!(one.bytes(), other.bytes(), "{name}, {text}, {sizes:?}");
            assert_eq!(one.bytes(), expected.bytes(), "{name}, {text}, {sizes:?}");
        }
    }
}

#[test]
fn bits_stay() {
    hold("splade", (Dtype::Bf16, "bf16"), &SIZES);
    hold("splade", (Dtype::F16, "f16"), &SIZES[..2]);
    for name in ["least", "some", "largest", "turned", "down", "normal"] {
        hold(name, (Dtype::Bf16, "bf16"), &SIZES[..4]);
    }
    hold("weights", (Dtype::Bf16, "bf16"), &SIZES[..1]);
}

/// Several tiles of columns.
#[test]
fn tiles_of_columns() {
    let inputs = inputs("turned", Dtype::Bf16, [1, 264, 10240, 8]);
    let whole = scheduled("turned", "bf16");
    assert_eq!(launches(&whole, &inputs), 1);
    let [one, expected] = run(&whole, &inputs);
    assert_eq!(one[0].bytes(), expected[0].bytes());
}

#[test]
fn other_sizes_run_in_parts() {
    let of = |name: &str, sizes| launches(&scheduled(name, "bf16"), &inputs(name, Dtype::Bf16, sizes));
    assert_eq!(of("splade", [1, 256, 64, 4096]), 1);
    assert_eq!(of("normal", [1, 128, 64, 128]), 1);
    assert_eq!(of("splade", [1, 257, 10240, 136]), 1);
    // Few rows, rows that are not aligned, few blocks, long sums that several sweeps would repeat.
    for sizes in [[1, 256, 63, 136], [1, 256, 64, 140], [1, 257, 10239, 136]] {
        assert!(of("splade", sizes) > 1, "{sizes:?}");
    }
    assert!(of("normal", [1, 128, 64, 136]) > 1);
}

#[test]
fn no_memory_for_products() {
    let inputs = inputs("splade", Dtype::Bf16, [2, 256, 1024, 136]);
    let module = Module::compile_with(&scheduled("splade", "bf16"), Math::Exact).unwrap();
    let plan = module.plan_for(&inputs.each_ref().map(Array::as_ref), FACTS).unwrap();
    assert_eq!(plan.launches.len(), 1);
    assert!(plan.own < 1 << 12, "{}", plan.own);
}
