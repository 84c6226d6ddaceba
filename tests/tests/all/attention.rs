//! Rows of matrix products: attention in its forms, and other loops over the rows of a product, are
//! one kernel each, take no memory for the product, and give the bits of the unfused program.

use fuseloop::{Array, Dtype, Kernel, Options, Passes, Program, Scalar, Simd};

/// Functions of `q`, `k` and `v`, and some of a few other arrays, for any sizes.
const PROGRAMS: &str = "
fn softmax(x: f32[m]) -> f32[m] {
    let e = exp(x - max(x))
    e / sum(e)
}
fn norm(x: f32[m]) = (x - mean(x)) / sqrt(mean((x - mean(x)) ^ 2) + 0.00001)
@kernels(1)
fn plain(q: f32[s, d], k: f32[t, d], v: f32[t, d]) {
    let score[i, j] = sum[c](q[i, c] * k[j, c]) / sqrt(f32(d))
    let p[i] = softmax(score[i])
    p @ v
}
@kernels(1)
fn causal(q: f32[s, d], k: f32[t, d], v: f32[t, d]) {
    let score[i < s, j < t] = if j <= i then sum[c](q[i, c] * k[j, c]) / sqrt(f32(d)) else -inf
    let p[i] = softmax(score[i])
    p @ v
}
@kernels(1)
fn windowed(q: f32[s, d], k: f32[t, d], v: f32[t, d]) {
    let score[i < s, j < t] = if j <= i && i - j < 9 then sum[c](q[i, c] * k[j, c]) / sqrt(f32(d)) else -inf
    let p[i] = softmax(score[i])
    p @ v
}
@kernels(1)
fn biased(q: f32[s, d], k: f32[t, d], v: f32[t, d]) {
    let score[i, j] = sum[c](q[i, c] * k[j, c]) / sqrt(f32(d)) + q[i, 0] * f32(j)
    let p[i] = softmax(score[i])
    p @ v
}
@kernels(1)
fn several_heads(q: f32[s, d], k: f32[t, d], v: f32[t, d]) {
    let score[h < 4, i, j] = sum[c]((q[i, c] * f32(h + 1)) * k[j, c]) / sqrt(f32(d))
    let p[h, i] = softmax(score[h, i])
    let o[h, i, c] = sum[j](p[h, i, j] * v[j, c])
    o
}
@kernels(1)
fn divided_late(q: f32[s, d], k: f32[t, d], v: f32[t, d]) {
    let score[i, j] = sum[c](q[i, c] * k[j, c]) / sqrt(f32(d))
    let top[i] = max(score[i])
    let e[i, j] = exp(score[i, j] - top[i])
    let z[i] = sum(e[i])
    let o[i, c] = sum[j](e[i, j] * v[j, c]) / z[i]
    o
}
@kernels(1)
fn largest(q: f32[s, d], k: f32[t, d], v: f32[t, d]) {
    let score = q @ transpose(k)
    let at[i] = argmax(score[i] + v[0, 0])
    at
}
@kernels(1)
fn normalized(q: f32[s, d], k: f32[t, d], v: f32[t, d]) {
    let y[i, j] = sum[c](q[i, c] * k[j, c]) + v[j, 0]
    let n[i] = norm(y[i])
    n
}
@kernels(1)
fn of_normalized(q: f32[s, d], k: f32[t, d], v: f32[t, d]) {
    let n[i] = norm(q[i])
    n @ transpose(k) + v[0, 0]
}
";

const NAMES: [&str; 9] = [
    "plain",
    "causal",
    "windowed",
    "biased",
    "several_heads",
    "divided_late",
    "largest",
    "normalized",
    "of_normalized",
];

fn matrix(rows: usize, columns: usize, seed: usize) -> Array {
    let element = |n: usize| Scalar::F32(((n * 7919 + seed * 31) % 1013) as f32 / 300.0 - 1.5);
    let elements: Vec<Scalar> = (0..rows * columns).map(element).collect();
    Array::from_scalars(Dtype::F32, &[rows, columns], &elements).unwrap()
}

/// The kernel of a function of [`PROGRAMS`]; with other options than its plan, as many as there
/// are.
fn kernel(name: &str, options: &Options) -> Kernel {
    let held = options.fuse == Passes::ALL;
    let source = if held { PROGRAMS.to_owned() } else { PROGRAMS.replace("@kernels(1)", "") };
    Program::parse(source).unwrap().function(name).unwrap().compile(options).unwrap()
}

#[test]
fn rows_of_products_have_the_bits_of_the_unfused_program() {
    let unfused = Options { fuse: Passes::NONE, threads: 1, ..Options::default() };
    let others = [(Simd::Auto, 1), (Simd::Auto, 3), (Simd::W128, 2)];
    for name in NAMES {
        // Products of one vector width have one order.
        let pairs = others.map(|(simd, threads)| {
            let alone = kernel(name, &Options { simd, ..unfused.clone() });
            (alone, kernel(name, &Options { simd, threads, ..Options::default() }))
        });
        for (s, t, d) in [(1, 1, 1), (3, 5, 2), (28, 7, 16), (61, 130, 8), (300, 33, 5), (0, 4, 2), (4, 9, 64)] {
            let arguments = (&matrix(s, d, 1), &matrix(t, d, 2), &matrix(t, d, 3));
            for ((alone, fused), how) in pairs.iter().zip(others) {
                let (expected, result) = (alone.call(arguments).unwrap(), fused.call(arguments).unwrap());
                assert_eq!(result, expected, "{name} of {s}, {t}, {d} by {how:?}");
            }
        }
    }
}

/// A product of 4096 x 4096 takes 64 MiB.
#[test]
fn rows_of_products_take_no_memory_for_the_product() {
    let options = Options { max_memory: Some(24 << 20), threads: 2, ..Options::default() };
    let arguments = (&matrix(4096, 4, 1), &matrix(4096, 4, 2), &matrix(4096, 4, 3));
    kernel("plain", &options).call(arguments).unwrap();
    let apart = kernel("plain", &Options { fuse: Passes::NONE, ..options });
    assert_eq!(apart.call(arguments).unwrap_err().code().to_string(), "E0240");
}

/// The statements of a loop around a product run one after another, so an array that one of them
/// loads is no place for the result of another.
#[test]
fn no_result_is_stored_where_an_earlier_row_is_loaded() {
    let source = "fn f(x: i32[m, 3 * m - 1]) {
    let a[i, j] = sum[r](clamp(x[i, 1], 1, 1) * x[j, r]) + 1
    let b[i < m, j] = a[j, 1]
    let c[i] = b[1, i]
    c
}";
    let arguments = Array::from_scalars(Dtype::I32, &[5, 14], &[1; 70].map(Scalar::I32)).unwrap();
    let program = Program::parse(source).unwrap();
    let result = |fuse| {
        let kernel = program.main().unwrap().compile(&Options { fuse, ..Options::default() }).unwrap();
        kernel.call((&arguments,)).unwrap()
    };
    assert_eq!(result("nest".parse().unwrap()), result(Passes::NONE));
}
