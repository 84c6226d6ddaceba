//! Calls that are replayed, on the emulator, which launches kernels in any order that the
//! recording leaves open: their results have the same bits.

use backends::ptx::{Module, Runner};
use ir::array::Array;
use ir::{Dtype, Scalar, visit};
use schedule::{Machine, schedule};
use tests::emulated::Emulated;
use tests::engines::{Engine, Outcome, compile_in};

/// Programs with kernels that need nothing of each other, with the shapes of their arguments.
const PROGRAMS: &[(&str, &[&[usize]])] = &[
    // Products in parts, with sums and counters of their own, and one that needs two of them.
    (
        "fn main(x: f32[n, k], w: f32[k, m], v: f32[k, m]) {
            let a = x @ w
            let b = x @ v
            (a, b, transpose(a) @ max(b, 0))
        }",
        &[&[9, 300], &[300, 7], &[300, 7]],
    ),
    // A loop exchanges the memory of what it carries.
    (
        "fn main(x: f32[n], y: f32[n]) {
            loop a = x, b = y, t < 5 { (b / (sum(a) + 1), a + sum(b) / 64) }
        }",
        &[&[4500], &[4500]],
    ),
    // Chunks with results that the last block joins, sums by key, and a sort.
    (
        "fn main(x: f32[n], y: f32[n]) {
            let c[k < 6] = sum[i where i64(x[i]) == k](y[i])
            let mu = mean(x)
            let p[i] = sum[k <= i](x[k])
            (mu, c, sort(y), sum((y - mu) ^ 2), mean(y), p)
        }",
        &[&[9000], &[9000]],
    ),
];

#[test]
fn recorded_launches_run_in_any_order() {
    let mut open = 0;
    for (source, shapes) in PROGRAMS {
        let compiled = compile_in(source, "main", &[]).unwrap_or_else(|e| panic!("{source}: {e:?}"));
        let arrays: Vec<Array> = shapes.iter().map(|shape| numbers(shape)).collect();
        let inputs: Vec<_> = arrays.iter().map(Array::as_ref).collect();
        for form in &compiled.forms {
            let meant = form.run(&compiled.checked, Engine::Nest, &inputs);
            let scheduled = schedule(&form.program, Machine::PTX).unwrap();
            for seed in 0..6 {
                let device = Emulated::new(seed);
                let most_ready = device.most_ready();
                let mut runner = Runner::new(Module::compile(&scheduled).unwrap(), device, None);
                for call in 0..3 {
                    let found = form.run_on(&mut runner, &inputs);
                    assert!(found == meant, "call {call}, seed {seed} of {source}");
                    assert!(matches!(found, Outcome::Results(_)), "{source}");
                }
                open += usize::from(most_ready.get() > 1);
            }
        }
    }
    assert!(open > 6, "{open}");
}

/// Work on a sum of two products follows the one that ends later, so the other one waits for
/// nothing.
#[test]
fn work_follows_the_later_product() {
    let source = "fn main(x: f32[n, k], w: f32[k, m], h: f32[n, k], u: f32[k, k], v: f32[k, m]) {
        tanh(x @ w + (h @ u) @ v)
    }";
    let compiled = compile_in(source, "main", &[]).unwrap();
    let program = &compiled.forms[1].program;
    let output = program.outputs()[0];
    let last = program.kernels.values().find(|kernel| visit::stores(&kernel.body).contains(&output)).unwrap();
    let inputs = program.inputs();
    assert_eq!(program.kernels.len(), 3, "{program}");
    assert!(!visit::loads(&last.body).contains(&inputs[0]), "{program}");
}

/// Small whole numbers.
fn numbers(shape: &[usize]) -> Array {
    let mut array = Array::zeros(Dtype::F32, shape).unwrap();
    for k in 0..array.len() {
        array.set(k, Scalar::F32(((k * 7 + k / 5) % 6) as f32));
    }
    array
}
