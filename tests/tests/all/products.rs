//! Matrix products on tensor cores, emulated: exact ones are compared on bits, others within the
//! bound of their roundings.

use backends::ptx::{Math, Module, Runner, Target};
use ir::array::Array;
use ir::{Dtype, Scalar};
use schedule::{Machine, schedule};
use tests::emulated::Emulated;
use tests::engines::{Engine, Form, Outcome, compile_in};

/// Devices with tensor cores for warps, and with those for warp groups. The seeds give them one
/// multiprocessor, for the largest tiles, or three.
const DEVICES: [(Target, u64); 3] = [(Target::Sm80, 0), (Target::Sm90a, 0), (Target::Sm90a, 6)];

/// A program's fused form with its checked source. Its kernels must multiply with this
/// instruction.
fn compiled(source: &str, math: Math, instruction: &str) -> tests::engines::Compiled {
    let compiled = compile_in(source, "main", &[]).unwrap_or_else(|e| panic!("{source}: {e:?}"));
    let module = module(&compiled.forms[1], math);
    assert!(module.text(Target::Sm80).contains(&format!("mma.sync.aligned.{instruction}")), "{source}");
    let by_groups = module.text(Target::Sm90a).contains("wgmma.mma_async");
    assert_eq!(by_groups, !instruction.contains("tf32"), "{source}");
    assert!(module.for_later_devices().target() < Target::Sm90a, "{source}");
    compiled
}

fn module(form: &Form, math: Math) -> Module {
    let scheduled = schedule(&form.program, Machine::PTX).expect("it is scheduled");
    Module::compile_with(&scheduled, math).expect("it compiles")
}

fn run(
    form: &Form,
    math: Math,
    (target, seed): (Target, u64),
    inputs: &[Array],
    outputs: &mut [Array],
) -> Result<(), String> {
    let module = module(form, math);
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let mut outputs: Vec<_> = outputs.iter_mut().map(Array::as_mut).collect();
    Runner::new(module, Emulated::of(seed, target), None)
        .call(&inputs, &mut outputs, None)
        .map_err(|error| error.to_string())
}

/// Small integers, and some elements that are none.
fn whole(dtype: Dtype, shape: &[usize], special: &[(usize, f64)]) -> Array {
    let mut array = Array::zeros(dtype, shape).expect("a small array");
    for k in 0..array.len() {
        let number = (k * 7 + k / 5) % 5;
        let number = special.iter().find(|(at, _)| *at == k).map_or(number as f64 - 1.0, |(_, value)| *value);
        array.set(k, Scalar::parse(dtype, &number.to_string()).expect("a number"));
    }
    array
}

const CALLS: &[(&str, &[&[&[usize]]])] = &[
    ("a: T[n, k], b: T[k, m]) { a @ b }", &[&[&[1, 1], &[1, 1]], &[&[3, 0], &[0, 4]], &[&[0, 3], &[3, 2]]]),
    // With and without asynchronous copies; less than a tile, several tiles, and more than are in
    // flight.
    (
        "a: T[n, k], b: T[k, m]) { a @ b }",
        &[&[&[72, 40], &[40, 136]], &[&[130, 33], &[33, 67]], &[&[8, 200], &[200, 16]]],
    ),
    // Few rows with sums in parts: aligned or not, and with a part that is empty.
    (
        "a: T[n, k], b: T[k, m]) { a @ b }",
        &[&[&[1, 264], &[264, 136]], &[&[63, 520], &[520, 8]], &[&[5, 259], &[259, 24]], &[&[2, 1100], &[1100, 264]]],
    ),
    (
        "a: T[p, n, k], b: T[p, m, k], c: f32[m]) {
            let y[q, i, j] = relu(sum[l](f32(a[q, i, l]) * f32(b[q, j, l])) + c[j])
            y
        }",
        &[&[&[3, 4, 512], &[3, 40, 512], &[40]]],
    ),
    (
        "a: T[k, n], b: T[m, k], c: f32[m]) { max(transpose(a) @ transpose(b) + c, c) }",
        &[&[&[104, 136], &[16, 104], &[16]]],
    ),
    (
        "a: T[n, k], b: T[m, k], c: f32[n, m]) { c + a @ transpose(b) }",
        &[&[&[9, 48], &[24, 48], &[9, 24]], &[&[9, 47], &[24, 47], &[9, 24]]],
    ),
    ("a: f32[n, k], b: T[k, m]) { T(a * 2) @ T(max(b, 0)) }", &[&[&[5, 19], &[19, 9]], &[&[130, 130], &[130, 8]]]),
    ("a: T[p, n, k], b: T[p, k, m]) { f32(a) @ f32(b) }", &[&[&[3, 16, 40], &[3, 40, 24]], &[&[2, 5, 3], &[2, 3, 9]]]),
    (
        "x: T[c, h, w], k: T[o, c, 3, 3]) {
            let y[q, i < h - 2, j < w - 2] = sum[r < c, u < 3, v < 3](f32(x[r, i + u, j + v]) * f32(k[q, r, u, v]))
            y
        }",
        &[&[&[3, 6, 7], &[10, 3, 3, 3]], &[&[0, 6, 7], &[10, 0, 3, 3]]],
    ),
];

/// Products of 16-bit floats are exact, and sums of small integers are exact in any order.
#[test]
fn exact_products() {
    for (dtype, instruction) in [("bf16", "m16n8k16.row.col.f32.bf16"), ("f16", "m16n8k16.row.col.f32.f16")] {
        for (rest, calls) in CALLS {
            hold(&format!("fn main({}", rest.replace('T', dtype)), Math::Exact, instruction, calls);
        }
    }
}

/// Under fast math, small integers are exact in `f32` too: eleven bits hold them.
#[test]
fn fast_products_of_small_numbers() {
    for (rest, calls) in CALLS {
        hold(&format!("fn main({}", rest.replace('T', "f32")), Math::Fast, "m16n8k8.row.col.f32.tf32", calls);
    }
    let mixed = "fn main(a: bf16[n, k], b: f16[k, m]) { f32(a) @ f32(b) }";
    hold(mixed, Math::Fast, "m16n8k8.row.col.f32.tf32", &[&[&[5, 19], &[19, 9]]]);
}

fn hold(source: &str, math: Math, instruction: &str, calls: &[&[&[usize]]]) {
    let compiled = compiled(source, math, instruction);
    let form = &compiled.forms[1];
    let dtypes: Vec<Dtype> = form.program.inputs().into_iter().map(|id| form.program.buffers[id].dtype).collect();
    for shapes in calls {
        // A NaN or an infinity spreads exactly as far as it should, and none enters from beyond
        // the edges.
        for special in [&[][..], &[(0, f64::NAN), (2, f64::INFINITY)]] {
            let inputs: Vec<Array> =
                shapes.iter().zip(&dtypes).map(|(shape, dtype)| whole(*dtype, shape, special)).collect();
            let views: Vec<_> = inputs.iter().map(Array::as_ref).collect();
            let Outcome::Results(meant) = form.run(&compiled.checked, Engine::Source, &views) else {
                panic!("{source} {shapes:?} has results")
            };
            for device in DEVICES {
                let mut found: Vec<Array> =
                    meant.iter().map(|array| Array::zeros(array.dtype(), array.shape()).expect("it fits")).collect();
                run(form, math, device, &inputs, &mut found)
                    .unwrap_or_else(|error| panic!("{source} {shapes:?} {device:?}: {error}"));
                let meant = Outcome::Results(meant.clone());
                assert_eq!(Outcome::Results(found), meant, "{source} {shapes:?} {device:?}");
            }
        }
    }
}

/// Numbers of any size, against sums in `f64`.
#[test]
fn bounds() {
    let unit = f64::from(f32::EPSILON);
    let rounded = 2f64.powi(-11);
    for (dtype, math, instruction, of_factors) in [
        (Dtype::Bf16, Math::Exact, "m16n8k16.row.col.f32.bf16", 0.0),
        (Dtype::F16, Math::Exact, "m16n8k16.row.col.f32.f16", 0.0),
        (Dtype::F32, Math::Fast, "m16n8k8.row.col.f32.tf32", 2.0 * rounded + rounded * rounded),
    ] {
        let source = format!("fn main(a: {dtype}[n, k], b: {dtype}[k, m]) {{ a @ b }}");
        let compiled = compiled(&source, math, instruction);
        let sizes = [(17, 100, 24), (9, 33, 15)];
        for ((n, k, m), device) in sizes.into_iter().flat_map(|sizes| DEVICES.map(|device| (sizes, device))) {
            let mut state = 9u64;
            let mut draw = |shape: &[usize]| {
                let mut array = Array::zeros(dtype, shape).expect("a small array");
                for at in 0..array.len() {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                    let number =
                        ((state >> 40) as f64 / f64::from(1 << 23) - 1.0) * 2f64.powi((state >> 33) as i32 % 8);
                    array.set(at, Scalar::parse(dtype, &format!("{number:e}")).expect("a number"));
                }
                array
            };
            let inputs = [draw(&[n, k]), draw(&[k, m])];
            let mut found = [Array::zeros(Dtype::F32, &[n, m]).expect("a small array")];
            run(&compiled.forms[1], math, device, &inputs, &mut found).expect("it runs");
            let at = |array: &Array, at: usize| match array.get(at) {
                Some(Scalar::F32(x)) => f64::from(x),
                Some(Scalar::F16(x)) => x.to_f64(),
                Some(Scalar::Bf16(x)) => x.to_f64(),
                other => panic!("{other:?} is in no array here"),
            };
            for (i, j) in (0..n).flat_map(|i| (0..m).map(move |j| (i, j))) {
                let products = (0..k).map(|r| at(&inputs[0], i * k + r) * at(&inputs[1], r * m + j));
                let (sum, size) = products.fold((0.0, 0.0), |(sum, size), p: f64| (sum + p, size + p.abs()));
                let error = (at(&found[0], i * m + j) - sum).abs();
                let bound = (of_factors + k as f64 * unit * (1.0 + of_factors)) * size;
                assert!(error <= bound, "{source} {i} {j}: {error} above {bound}");
                assert!(math == Math::Exact || error > 0.0 || size == 0.0 || k < 9, "{source}: nothing is rounded");
            }
        }
    }
}
