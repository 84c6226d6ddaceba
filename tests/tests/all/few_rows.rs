//! Products with few rows on tensor cores, emulated: their sums are in parts, which depend on sizes
//! alone, so that fused and unfused programs give the same bits.

use backends::ptx::{Facts, Math, Module, Runner, Target};
use ir::array::Array;
use ir::{Dtype, Scalar};
use schedule::{Machine, schedule};
use tests::emulated::Emulated;
use tests::engines::{Form, Outcome, compile_in};

/// Functions of `x`, `w` and `v`.
const PROGRAMS: [(&str, &str); 5] = [
    (
        "softmax",
        "fn main(x: bf16[n, k], w: bf16[m, k], v: bf16[m, e]) {
            let score[i, j] = sum[c](f32(x[i, c]) * f32(w[j, c]))
            let top[i] = max(score[i])
            let p[i, j] = exp(score[i, j] - top[i])
            let z[i] = sum(p[i])
            let y[i, j] = p[i, j] / z[i]
            y
        }",
    ),
    (
        "attention",
        "fn main(x: bf16[n, k], w: bf16[m, k], v: bf16[m, e]) {
            let score[i, j] = sum[c](f32(x[i, c]) * f32(w[j, c])) / sqrt(f32(k))
            let top[i] = max(score[i])
            let p[i, j] = exp(score[i, j] - top[i])
            let o[i, c] = sum[j](f32(bf16(p[i, j])) * f32(v[j, c])) / sum(p[i])
            o
        }",
    ),
    // The few rows are columns of the loop in which the product is reduced.
    (
        "down",
        "fn main(x: bf16[n, k], w: bf16[m, k], v: bf16[m, e]) {
            let y[j] = max[i](sum[c](f32(x[i, c]) * f32(w[j, c])) + f32(v[j, 0]))
            y
        }",
    ),
    (
        "few_columns",
        "fn main(x: bf16[n, k], w: bf16[m, k], v: bf16[m, e]) {
            let y[j] = max[i](sum[c](f32(w[j, c]) * f32(x[i, c])) + f32(v[j, 0]))
            y
        }",
    ),
    // A factor that is computed.
    (
        "computed",
        "fn main(x: bf16[n, k], w: bf16[m, k], v: bf16[m, e]) {
            let a = bf16(relu(f32(x)) * 0.75)
            let y[i, j] = sum[c](f32(a[i, c]) * f32(w[j, c])) + f32(v[j, 0])
            y
        }",
    ),
];

fn array(shape: &[usize], seed: usize) -> Array {
    let mut array = Array::zeros(Dtype::Bf16, shape).expect("a small array");
    for k in 0..array.len() {
        let number = ((k * 7919 + seed * 31) % 1013) as f64 / 300.0 - 1.5;
        array.set(k, Scalar::parse(Dtype::Bf16, &number.to_string()).expect("a number"));
    }
    array
}

fn module(form: &Form) -> Module {
    let scheduled = schedule(&form.program, Machine::PTX).expect("it is scheduled");
    Module::compile_with(&scheduled, Math::Exact).expect("it compiles")
}

#[test]
fn fused_and_unfused_agree() {
    for (name, source) in PROGRAMS {
        let compiled = compile_in(source, "main", &[]).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        for [n, k, m, e] in
            [[5, 264, 136, 8], [1, 1032, 72, 16], [63, 256, 300, 40], [64, 264, 72, 8], [80, 300, 20, 24]]
        {
            let inputs = [array(&[n, k], 1), array(&[m, k], 2), array(&[m, e], 3)];
            let views: Vec<_> = inputs.iter().map(Array::as_ref).collect();
            let Outcome::Results(like) =
                compiled.forms[1].run(&compiled.checked, tests::engines::Engine::Source, &views)
            else {
                panic!("{name} has results")
            };
            for target in [Target::Sm80, Target::Sm90a] {
                let [unfused, fused] = [0, 1].map(|form| {
                    let mut outputs = like.clone();
                    let mut results: Vec<_> = outputs.iter_mut().map(Array::as_mut).collect();
                    Runner::new(module(&compiled.forms[form]), Emulated::of(6, target), None)
                        .call(&views, &mut results, None)
                        .unwrap_or_else(|error| panic!("{name}: {error}"));
                    outputs
                });
                for (unfused, fused) in unfused.iter().zip(&fused) {
                    assert_eq!(unfused.bytes(), fused.bytes(), "{name}, {n} x {k} x {m} x {e}, {target:?}");
                }
            }
        }
    }
}

/// All multiprocessors share a product with few rows, and only a part of each sum is in memory.
#[test]
fn blocks_share_tiles() {
    let source = "fn main(x: bf16[n, k], w: bf16[m, k]) {
        let y[i, j] = sum[c](f32(x[i, c]) * f32(w[j, c]))
        y
    }";
    let compiled = compile_in(source, "main", &[]).unwrap_or_else(|e| panic!("{e:?}"));
    let facts = Facts { shared: 227 << 10, target: Target::Sm90a, multiprocessors: 132 };
    let module = module(&compiled.forms[1]);
    let planned = |n: usize, k: usize, m: usize| {
        let [x, w] = [array(&[n, k], 1), array(&[m, k], 2)];
        let plan = module.plan_for(&[x.as_ref(), w.as_ref()], facts).unwrap();
        let [launch] = plan.launches.as_slice() else { panic!("one launch") };
        (launch.kernel.clone(), launch.blocks)
    };
    assert_eq!(planned(16, 4096, 1024), ("kernel0_turned16".to_owned(), 88));
    assert_eq!(planned(63, 64, 1024), ("kernel0_turned64".to_owned(), 8));
    assert_eq!(planned(64, 4096, 1024), ("kernel0_bulk64".to_owned(), 16));
}
