//! Random programs as PTX, on the emulator, give the bits of the interpreters: unfused, fused as
//! the cost model decides, and with random legal merges; without races and without reads of
//! uninitialized memory.
//!
//! 20 programs, or as many as `PROPTEST_CASES` says (100 in `.ci/run`); the same ones each time
//! unless `PROPTEST_RNG_SEED` is set.

use backends::ptx::{Module, Phases, RunError, Runner, Target};
use ir::array::Array;
use ir::nest::Role;
use ir::sched::Run;
use ir::{Dtype, Scalar};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use schedule::{Machine, schedule};
use tests::emulated::Emulated;
use tests::engines::{Engine, Form, Outcome, Rejected, compile_in, hold_on};
use tests::generate::{Program, recipes};
use tests::ways;

/// How often each program is called, each time with other sizes and elements.
const CALLS: u64 = 3;

/// A program's code for CUDA devices.
fn module(program: &ir::nest::Program) -> Module {
    Module::compile(&schedule(program, Machine::PTX).unwrap()).unwrap()
}

#[test]
fn the_emulator_agrees() {
    let config = Config { max_shrink_iters: 300, ..crate::random_cases(20, 6) };
    let held = TestRunner::new(config).run(&recipes(), |recipe| hold(&recipe.program()).map_err(TestCaseError::fail));
    held.unwrap_or_else(|error| panic!("{error}"));
}

/// A check before a loop is made even if the loop is empty.
#[test]
fn empty_loops_check() {
    let source = "fn main(z: i64[n], at: i64) { if z[clamp(at, 0, n - 1)] > 4 then z else z + 1 }";
    let compiled = compile_in(source, "main", &[]).unwrap();
    let forms: Vec<&Form> = compiled.forms.iter().collect();
    let inputs = [Array::zeros(Dtype::I64, &[0]).unwrap(), Array::scalar(Scalar::I64(0))];
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    hold_on(&[Engine::Ptx], &compiled.checked, &forms, &inputs).unwrap();
}

/// After a failed check, a thread continues with a subscript that is in bounds if there is one. For
/// an array without elements that is computed where it is read, there is none.
#[test]
fn nothing_is_read_behind_a_check_that_nothing_passes() {
    let source = "
        fn main(x: i32[n, n], b: i64) {
            let a[i < n, j < n] = prod[r < n](x[r, j] + i32(i))
            let d[i < n - 2, j < n] = a[i, j] + a[i + 1, j] - a[i + 2, j]
            let e[i < n, j < n] = sum[r < n]([d[clamp(b, 0, n - 3), clamp(b, 0, n - 1)], 1][j % 2])
            e
        }";
    let compiled = compile_in(source, "main", &[]).unwrap();
    let forms: Vec<&Form> = compiled.forms.iter().collect();
    for n in [2, 3, 70] {
        let x = Array::zeros(Dtype::I32, &[n, n]).unwrap();
        let b = Array::scalar(Scalar::I64(1));
        hold_on(&[Engine::Ptx], &compiled.checked, &forms, &[x.as_ref(), b.as_ref()]).unwrap();
    }
}

/// NVIDIA's assembler of CUDA 12.6 to 13.3 loses a negation in nested minima or maxima of signed
/// 32-bit numbers, so that there are none.
#[test]
fn signed_minima_and_maxima_are_comparisons() {
    let source = "
        fn main(x: i8[m, n], y: i32[m, n]) -> (i32[n], i32[m], i32[m, n], i32[n]) {
            let z = max(max(x, 0 - y), -i32(x))
            (max(0 - x, axis = 0), min(y * -1, axis = 1), z, min(-x, axis = 0))
        }";
    let compiled = compile_in(source, "main", &[]).unwrap();
    for form in &compiled.forms {
        let text = module(&form.program).text(Target::Sm80);
        assert!(!["min.s32", "max.s32"].iter().any(|name| text.contains(name)), "{text}");
    }
    let numbers = |least: i64| (0..5 * 7).map(move |k| least.wrapping_mul(k % 3) + k % 2);
    let x: Vec<Scalar> = numbers(i8::MIN.into()).map(|v| Scalar::I8(v as i8)).collect();
    let y: Vec<Scalar> = numbers(i32::MIN.into()).map(|v| Scalar::I32(v as i32)).collect();
    let inputs =
        [Array::from_scalars(Dtype::I8, &[5, 7], &x).unwrap(), Array::from_scalars(Dtype::I32, &[5, 7], &y).unwrap()];
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let forms: Vec<&Form> = compiled.forms.iter().collect();
    hold_on(&[Engine::Ptx], &compiled.checked, &forms, &inputs).unwrap();
}

/// An iteration may load elements that it stored itself, even if only a run tells which.
#[test]
fn an_iteration_loads_what_it_stored() {
    let source = "
        fn main(y: i32[n, n]) {
            let z[i] = sum[r < n]([1, 1, y[r, i]][1 % 1])
            z
        }";
    let compiled = compile_in(source, "main", &[]).unwrap();
    let forms: Vec<&Form> = compiled.forms.iter().collect();
    for n in [1, 3, 33, 300] {
        let elements: Vec<Scalar> = (0..n * n).map(|k| Scalar::I32(k as i32)).collect();
        let y = Array::from_scalars(Dtype::I32, &[n, n], &elements).unwrap();
        hold_on(&[Engine::Ptx], &compiled.checked, &forms, &[y.as_ref()]).unwrap();
    }
}

/// Rows of every length at which a shape of launch begins or ends: in the registers of a warp and
/// of a block, by groups of its threads that take turns, in one chunk and two, and longer ones.
#[test]
fn rows_of_any_length() {
    let source = "
        fn main(x: f32[n, m], w: f32[m]) -> (f32[n, m], f32[n, m], i64[n], f64[n], f32[n, m], bool[n], f32[n, m]) {
            let e[i, j] = exp(x[i, j] - max(x[i]))
            let softmax[i, j] = e[i, j] / sum(e[i])
            let d[i, j] = x[i, j] - mean(x[i])
            let norm[i, j] = d[i, j] * w[j] + sum[k](d[i, k] ^ 2)
            let best[i] = argmax(x[i])
            let wide[i] = prod[j](f64(x[i, j]) * 0.5 + 1)
            let running[i, j] = sum[k <= j](x[i, k])
            let large[i] = any(x[i] > 1000)
            let scaled[i, j] = sqrt(w[j]) / (sum(x[i]) / f32(m)) + 1 / x[i, j]
            (softmax, norm, best, wide, running, large, scaled)
        }";
    hold_rows(
        source,
        &[1, 2, 31, 33, 128, 255, 256, 257, 1000, 1024, 1025, 2049, 4095, 4096, 4097, 5121, 8192, 8193, 9000],
    );
}

const LONG_ROWS: &str = "
    fn main(x: f32[n, m], w: f32[m]) -> (f32[n, m], f32[n, m], i64[n], f64[n], f32[n]) {
        let e[i, j] = exp(x[i, j] - max(x[i]))
        let softmax[i, j] = e[i, j] / sum(e[i])
        let d[i, j] = x[i, j] - mean(x[i])
        let norm[i, j] = d[i, j] * w[j] + sum[k](d[i, k] ^ 2)
        let best[i] = argmax(x[i])
        let wide[i] = prod[j](f64(x[i, j]) * 0.5 + 1)
        (softmax, norm, best, wide, max(x, axis = 1))
    }";

/// Rows longer than the registers of a block hold.
#[test]
fn long_rows() {
    hold_rows(LONG_ROWS, &[32_768, 32_769, 41_500, 66_000]);
}

/// Rows of this length if clusters of blocks have registers for them.
#[test]
fn rows_of_clusters() {
    let compiled = compile_in(LONG_ROWS, "main", &[]).unwrap();
    let form = &compiled.forms[1];
    for (k, m) in [32_768, 41_500, 50_257, 65_536, 131_073, 262_145].into_iter().enumerate() {
        let inputs = rows(k, m);
        let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
        let meant = form.run(&compiled.checked, Engine::Nest, &inputs);
        let Outcome::Results(results) = &meant else { panic!("{m}: {meant:?}") };
        let mut outputs = results.clone();
        let module = module(&form.program);
        let device = Emulated::new(1);
        let done = {
            let mut outputs: Vec<_> = outputs.iter_mut().map(Array::as_mut).collect();
            outputs.iter_mut().for_each(|output| output.bytes_mut().fill(0));
            Runner::new(module, device, None).call(&inputs, &mut outputs, None)
        };
        done.unwrap_or_else(|error| panic!("{m}: {error}"));
        assert!(Outcome::Results(outputs) == meant, "{m}");
    }
}

/// Loads at several distances, of rows and columns that end within a thread's and a block's part.
#[test]
fn stencils() {
    let source = "
        fn main(x: f32[n, m], w: f32[m]) -> (f32[n - 2, m - 1], f32[n + m, m]) {
            let here = x[1:n - 1, 1:] - x[:n - 2, 1:] + x[2:, 1:] * x[1:n - 1, :m - 1]
            let around[i < n + m, j < m] = w[j] + (if i > j then w[m - 1 - j] else 1.5)
            (here, around)
        }";
    hold_rows(source, &[1, 2, 7, 255, 257, 300]);
    let source = "
        fn main(x: f32[n, m], w: f32[m]) -> f32[m - 2, n] {
            let y[j < m - 2, i < n] = x[i, j] + x[i, j + 1] * x[i, j + 2]
            let z[j < m - 2, i < n] = y[j, i] - w[j + 2]
            z
        }";
    hold_rows(source, &[2, 3, 10, 100]);
    let source = "
        fn main(x: f32[n, m], w: f32[m]) -> f32[m - 3, m - 2] {
            let y[i < m, j < m] = w[i] * 2 + w[j]
            let z[i < m - 3, j < m - 2] = y[i, j] - y[i + 1, j + 2] + y[i + 3, j] * x[0, j + 1]
            z
        }";
    hold_rows(source, &[3, 4, 12, 261]);
}

/// Quotients and roots of each pair of special values among ordinary ones: a thread's elements are
/// computed without branches, and again if one of them does not allow that.
#[test]
fn divisions() {
    let edges = [
        0u32,
        1,
        0x007f_ffff,
        0x0080_0000,
        0x2b7f_ffff,
        0x2b80_0000,
        0x2b80_0001,
        0x3eaa_aaab,
        0x3f40_0000,
        0x3f80_0000,
    ];
    let more = [
        0x3fff_ffff,
        0x4049_0fdb,
        0x677f_ffff,
        0x6780_0000,
        0x6780_0001,
        0x7e80_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7fc0_0000,
    ];
    let special: Vec<u32> = edges.into_iter().chain(more).flat_map(|bits| [bits, bits | 1 << 31]).collect();
    let ordinary = |k: usize| 0x3f00_0000 + (k as u32).wrapping_mul(2_654_435_761) % 0x0200_0000;
    let pair = |k: usize| match k / 2048 {
        0 => (special[k % special.len()], special[k / special.len() % special.len()]),
        1 if k.is_multiple_of(37) => (special[k % special.len()], ordinary(k)),
        1 if k.is_multiple_of(41) => (ordinary(k), special[k % special.len()]),
        _ => (ordinary(k), ordinary(k * 3 + 1)),
    };
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let element = |bits: u32| {
            if dtype == Dtype::F32 {
                Scalar::F32(f32::from_bits(bits))
            } else {
                Scalar::from_bits(dtype, (bits >> 16).into())
            }
        };
        for body in
            ["x / y", "1 / y - x / 0.75", "sqrt(x)", "if x < y then sqrt(y) / x else f32(y)", "(sigmoid(x) * y, x / y)"]
        {
            let source = format!("fn main(x: {dtype}[n], y: {dtype}[n]) {{ {body} }}");
            let compiled = compile_in(&source, "main", &[]).unwrap_or_else(|e| panic!("{source}: {e:?}"));
            let forms: Vec<&Form> = compiled.forms.iter().collect();
            for n in [0, 1, 3, 1027, 6150] {
                let [x, y]: [Vec<Scalar>; 2] =
                    [0, 1].map(|side| (0..n).map(|k| element(if side == 0 { pair(k).0 } else { pair(k).1 })).collect());
                let inputs = [x, y].map(|elements| Array::from_scalars(dtype, &[n], &elements).unwrap());
                let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
                hold_on(&[Engine::Ptx], &compiled.checked, &forms, &inputs)
                    .unwrap_or_else(|e| panic!("{source} {n}: {e}"));
            }
        }
    }
}

/// Full reductions over no chunk, part of one, and many, and the kernels that combine them.
#[test]
fn chunks_of_any_number() {
    let source =
        "fn main(x: f32[n, m], w: f32[m]) = (sum(x), min(x), argmax(w), mean((x - 1) ^ 2), sum[i, j](x[i, j] * w[j]))";
    hold_rows(source, &[1, 100, 1365, 1366, 4096, 5000, 50_000]);
}

fn hold_rows(source: &str, lengths: &[usize]) {
    let compiled = compile_in(source, "main", &[]).unwrap();
    let forms: Vec<&Form> = compiled.forms.iter().collect();
    for (k, m) in lengths.iter().enumerate() {
        let inputs = rows(k, *m);
        let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
        hold_on(&[Engine::Ptx], &compiled.checked, &forms, &inputs).unwrap_or_else(|why| panic!("{m}: {why}"));
    }
}

/// Arrays of three rows of `k` elements, and of one.
fn rows(k: usize, m: usize) -> [Array; 2] {
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-42, 3e38, -1e-40];
    let element = |n: usize| {
        // Only some rows have what spoils sums.
        let row = n / m;
        let odd = n % 7919 == 5 && row == k % 5;
        let plain = ((n * 2_654_435_761) % 1_000_003) as f32 / 65536.0 - 7.0;
        Scalar::F32(if odd { special[(n / 7919 + k) % special.len()] } else { plain })
    };
    let x: Vec<Scalar> = (0..3 * m).map(element).collect();
    let w: Vec<Scalar> = (0..m).map(|n| element(n * 3 + 1)).collect();
    [Array::from_scalars(Dtype::F32, &[3, m], &x).unwrap(), Array::from_scalars(Dtype::F32, &[m], &w).unwrap()]
}

/// Calls a function with arrays of some shapes, in all forms.
fn hold_shapes(source: &str, calls: &[&[&[usize]]]) {
    let compiled = compile_in(source, "main", &[]).unwrap_or_else(|e| panic!("{source}: {e:?}"));
    let forms: Vec<&Form> = compiled.forms.iter().collect();
    for shapes in calls {
        let inputs: Vec<Array> = compiled.forms[0]
            .program
            .inputs()
            .iter()
            .zip(*shapes)
            .map(|(id, shape)| special(compiled.forms[0].program.buffers[*id].dtype, shape))
            .collect();
        let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
        hold_on(&[Engine::Ptx], &compiled.checked, &forms, &inputs)
            .unwrap_or_else(|e| panic!("{source} {shapes:?}: {e}"));
    }
}

/// An array with special values of its type here and there, and numbers with sums that round.
fn special(dtype: Dtype, shape: &[usize]) -> Array {
    let mut array = Array::zeros(dtype, shape).unwrap();
    let mut state = 7u64;
    for k in 0..array.len() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = (state >> 40) as f64 / f64::from(1 << 20) - 8.0;
        let value = match state >> 33 & 1023 {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2..30 => -0.0,
            30..40 => 1e-40,
            _ => number,
        };
        let scalar = match dtype {
            Dtype::F32 => Scalar::F32(value as f32),
            Dtype::F64 => Scalar::F64(value),
            Dtype::Bool => Scalar::Bool(state >> 50 & 1 == 1),
            other => Scalar::from_bits(other, state >> 32 & if other.is_float() { 0x7bff } else { 0x7f }),
        };
        array.set(k, scalar);
    }
    array
}

/// Reductions down columns: in blocks of rows, in strips, with rows of scratch, and of all kinds of
/// states.
#[test]
fn columns() {
    let shapes: &[&[&[usize]]] = &[&[&[0, 3]], &[&[3, 0]], &[&[1, 1]], &[&[255, 3]], &[&[257, 33]], &[&[1300, 9]]];
    for body in [
        "sum(x, axis=0)",
        "(sum(x, axis=0), sum(x, axis=1))",
        "max(x, axis=0) - min(x, axis=0)",
        "(argmax(x, axis=0), prod(x, axis=0))",
        "any(x > 7.9, axis=0)",
        "let e = exp(x - max(x, axis=0)); e / sum(e, axis=0)",
        "let m = mean(x, axis=0); sqrt(sum((x - m) * (x - m), axis=0))",
    ] {
        hold_shapes(&format!("fn main(x: f32[n, m]) {{ {body} }}"), shapes);
    }
    hold_shapes("fn main(x: f16[n, m]) { sum(x, axis=0) }", shapes);
    let pairs = "fn main(x: f32[n, m]) { let y[j] = sum[i < n, k < n](max(x[i, j], x[k, j])); y }";
    hold_shapes(pairs, &[&[&[20, 33]], &[&[40, 3]]]);
    hold_shapes("fn main(x: i64[n, m]) { sum(x, axis=0) }", shapes);
    let three: &[&[&[usize]]] = &[&[&[2, 300, 5]], &[&[3, 20, 40]], &[&[0, 4, 4]]];
    hold_shapes("fn main(x: f32[a, n, m]) { sum(x, axis=1) }", three);
    hold_shapes("fn main(x: f64[a, n, m]) { sum(sum(x, axis=0), axis=0) }", three);
}

/// More simultaneous reductions and prefixes than a block has memory for: of whole arrays, of rows
/// and of columns.
#[test]
fn many_at_once() {
    let all = |one: &dyn Fn(usize) -> String| (1..=60).map(one).collect::<Vec<_>>().join(" + ");
    let sums = all(&|k| format!("sum(x * {k})"));
    hold_shapes(&format!("fn main(x: f64[n]) {{ {sums} }}"), &[&[&[1]], &[&[5000]], &[&[40_000]]]);
    hold_shapes(&format!("fn main(x: f64[n]) {{ let y = x * 2; (y, {sums}) }}"), &[&[&[5000]]]);
    for axis in [0, 1] {
        let sums = all(&|k| format!("sum(x * {k}, axis={axis})"));
        hold_shapes(&format!("fn main(x: f64[n, m]) {{ {sums} }}"), &[&[&[3, 4]], &[&[40, 70]], &[&[2, 300]]]);
    }
    let prefixes: String = (1..=60).map(|k| format!("let c{k}[i] = sum[k <= i](x[k] * {k});\n")).collect();
    let c = all(&|k| format!("c{k}"));
    hold_shapes(&format!("fn main(x: f64[n]) {{ {prefixes} {c} }}"), &[&[&[3]], &[&[5000]]]);
}

/// Scans along one long array: less than a chunk, one and several; with free and with fixed order.
#[test]
fn long_scans() {
    let lengths: &[&[&[usize]]] = &[&[&[0]], &[&[1]], &[&[17]], &[&[4095]], &[&[4096]], &[&[4097]], &[&[9000]]];
    for body in [
        "let c[i] = sum[k <= i](x[k]); c",
        "let c[i] = max[k <= i](x[k] * 2); let d[i] = prod[k <= i](x[k] / 8); c + exp(d)",
        "let c[i] = any[k <= i](x[k] > 7.99); c",
        "let c[i] = argmax[k <= i](x[k]); c",
    ] {
        hold_shapes(&format!("fn main(x: f32[n]) {{ {body} }}"), lengths);
    }
    for dtype in ["f16", "f64", "i64", "u8"] {
        hold_shapes(&format!("fn main(x: {dtype}[n]) {{ let c[i] = sum[k <= i](x[k]); c }}"), lengths);
    }
}

/// More chunks than are relayed at a time, in several calls, with blocks that start in any order.
#[test]
fn scans_beyond_a_window() {
    let source = "fn main(x: f32[n], z: f64[n]) -> (f32[n], f64[n], bool[n]) {
        let c[i] = sum[k <= i](x[k])
        let d[i] = prod[k <= i](z[k])
        let e[i] = any[k <= i](x[k] > 124.99)
        (c, d, e)
    }";
    let compiled = compile_in(source, "main", &[]).unwrap();
    let form = &compiled.forms[0];
    let mut scheduled = schedule(&form.program, Machine::PTX).unwrap();
    for part in &mut scheduled.parts {
        if let Run::Relay(relay) = &mut part.run {
            relay.window = 32;
        }
    }
    for seed in [0, 3, 4] {
        let mut runner = Runner::new(Module::compile(&scheduled).unwrap(), Emulated::new(seed), None);
        for n in [70 * 4096 - 5, 33 * 4096, 33 * 4096] {
            let x: Vec<f32> = (0..n).map(|k| (k * 7 % 1000) as f32 * 0.125).collect();
            let z: Vec<f64> = (0..n).map(|k| 1.0 + (k % 5) as f64 * 0.01 - 0.02).collect();
            let (x, z) = (Array::from_slice(&[n], &x).unwrap(), Array::from_slice(&[n], &z).unwrap());
            let inputs = [x.as_ref(), z.as_ref()];
            let meant = form.run(&compiled.checked, Engine::Nest, &inputs);
            let mut outputs = [Dtype::F32, Dtype::F64, Dtype::Bool].map(|dtype| Array::zeros(dtype, &[n]).unwrap());
            runner.call(&inputs, &mut outputs.each_mut().map(Array::as_mut), None).unwrap();
            assert!(Outcome::Results(outputs.into()) == meant, "{seed} {n}");
        }
    }
}

/// The last block of a launch joins the results of its chunks: in several calls, with blocks that
/// end in any order.
#[test]
fn last_blocks_join_chunks() {
    let sources = [
        "fn main(x: f32[n]) -> f32 = sum(x)",
        "fn main(x: f32[n]) -> f32[n] {
            let e = exp(x - max(x))
            e / sum(e)
        }",
        "fn main(x: f32[n]) -> f32[n] {
            let at = argmin(x)
            let y = f64(x) - sum(f64(x)) / f64(n)
            f32(y * sum(y * y)) + x[at]
        }",
        "fn main(x: f32[n]) -> f32[n] {
            loop y = x, t < 3 { y / (sum(y) + 1) }
        }",
        "fn main(x: f32[n]) -> f32[n] {
            let low = i64(min(x))
            let y[i] = x[i] + x[clamp(low, 0, n - 1)] + x[low - low]
            y
        }",
    ];
    let mut last = 0;
    for source in sources {
        let compiled = compile_in(source, "main", &[]).unwrap();
        let form = &compiled.forms[0];
        let scheduled = schedule(&form.program, Machine::PTX).unwrap();
        last += scheduled.parts.iter().filter(|part| part.last.is_some()).count();
        for seed in 0..4 {
            let mut runner = Runner::new(Module::compile(&scheduled).unwrap(), Emulated::new(seed), None);
            // Only sums have a value without elements.
            let empty = if source == sources[0] { 0 } else { 2 };
            for n in [70_001, 16_384, 16_384, 1, empty, 5000] {
                let x: Vec<f32> = (0..n).map(|k| (k * 7 % 1000) as f32 * 0.125 + 0.5).collect();
                let x = Array::from_slice(&[n], &x).unwrap();
                let inputs = [x.as_ref()];
                let meant = form.run(&compiled.checked, Engine::Nest, &inputs);
                let outputs = form.program.outputs();
                let buffer = &form.program.buffers[outputs[0]];
                let shape = if buffer.shape.is_empty() { vec![] } else { vec![n] };
                let mut outputs = [Array::zeros(buffer.dtype, &shape).unwrap()];
                runner.call(&inputs, &mut outputs.each_mut().map(Array::as_mut), None).unwrap();
                assert!(Outcome::Results(outputs.into()) == meant, "{source} {seed} {n}");
            }
        }
    }
    assert_eq!(last, 7);
}

/// Elements that compute an array of their own with a length known only at run time: each thread
/// has its own.
#[test]
fn arrays_of_an_element() {
    let of_products = "
        fn main(x: f32[m, k]) {
            let a[i < m] = m
            let b[i, j] = sum[r < k]((x[i, r] + 1) * x[clamp(a[j], 0, m - 1), clamp(a[j], 0, k - 1)]) +
                [x[clamp(a[j], 0, m - 1), clamp(a[j], 0, k - 1)], x[j, clamp(a[i], 0, k - 1)]][i % 2]
            let c[i, j] = sum[r < k]((x[i, r] + 1) * x[j, k - 1 - r]) + 3
            (c, b)
        }";
    let of_rows = "
        fn main(x: f32[m, k]) {
            let d[i < m, j < m] = sum[r < k]([x[i, r], 2][(i + r) % 2] * x[j, r])
            let e[i, r] = [x[i, r], 1][(i + r) % 2]
            (d, max(e, axis = 1) * sum(e, axis = 1), e / sum(e))
        }";
    for source in [of_products, of_rows] {
        let compiled = compile_in(source, "main", &[]).unwrap();
        let forms: Vec<&Form> = compiled.forms.iter().collect();
        for (m, k) in [(1, 1), (7, 9), (40, 300), (130, 20)] {
            let elements: Vec<Scalar> = (0..m * k).map(|n| Scalar::F32((n * 7 % 11) as f32 - 5.0)).collect();
            let x = Array::from_scalars(Dtype::F32, &[m, k], &elements).unwrap();
            let held = hold_on(&[Engine::Ptx], &compiled.checked, &forms, &[x.as_ref()]);
            held.unwrap_or_else(|why| panic!("{m} {k}: {why}"));
        }
    }
}

/// Sums by many keys, whose elements are sorted: rows in columns of their own and others, several
/// tables, elements of several indices, and elements that no key takes.
#[test]
fn sums_by_many_keys() {
    let programs = [
        "let y[k < v, j] = sum[i where id[i] == k](x[i, j])
         y",
        "let y[k < v] = sum[i where id[i] == k](0.3 * f32(i))
         let c[k < v] = sum[i where id[i] == k](1)
         let g[k < v] = max[i where id[i] == k](id[i] * 3 - i)
         (y, c, g)",
        "let y[k < v] = sum[i, j < m where id[i] + j == k](x[i, j])
         y",
        "let y[k < v, l < 4] = sum[i, j < m where id[i] == k && j % 4 == l](x[i, j])
         y",
        "let y[j < m, k < v] = sum[i where (id[i] + j) % 4000 == k](x[i, j])
         y",
    ];
    for (n, m, v) in [(0, 3, 2048), (1, 1, 3000), (900, 3, 2047), (900, 5, 2048), (9000, 2, 2100), (700, 2, 70_000)] {
        let id: Vec<i64> = (0..n).map(|k| [7, k * 37 % (v + 100), -3][(k % 3) as usize]).collect();
        let x: Vec<f32> = (0..n * m).map(|k| (k * 7 % 1000) as f32 * 0.37 - 100.0).collect();
        let id = Array::from_slice(&[n as usize], &id).unwrap();
        let x = Array::from_slice(&[n as usize, m as usize], &x).unwrap();
        let w = Array::from_slice(&[v as usize], &vec![0.0f32; v as usize]).unwrap();
        let inputs = [id.as_ref(), x.as_ref(), w.as_ref()];
        for body in programs {
            let source = format!("fn main(id: i64[n], x: f32[n, m], w: f32[v]) {{ {body} }}");
            let compiled = compile_in(&source, "main", &[]).unwrap();
            let forms: Vec<&Form> = compiled.forms.iter().collect();
            let held = hold_on(&[Engine::Ptx], &compiled.checked, &forms, &inputs);
            held.unwrap_or_else(|why| panic!("{n} {m} {v} {source}: {why}"));
        }
    }
}

/// A value that is the same for all elements may have prefixes that are not.
#[test]
fn prefixes_of_what_is_the_same() {
    let shapes: &[&[&[usize]]] = &[&[&[3], &[20]], &[&[3], &[50]], &[&[2], &[300]], &[&[2], &[5000]]];
    hold_shapes("fn main(x: f32[n], y: f32[m]) { let c[i < n, j < m] = 2 * sum[k <= j](x[i]); c }", shapes);
}

/// Transpositions alone and inside expressions, of elements of each width.
#[test]
fn transpositions() {
    let square = |n: usize, m: usize| [vec![n, m], vec![m, n]];
    for dtype in ["f32", "f64", "f16", "u8", "bool"] {
        for (n, m) in [(0, 3), (3, 0), (1, 1), (64, 64), (63, 65), (130, 70)] {
            let [x, y] = square(n, m);
            let plain = format!("fn main(x: {dtype}[n, m]) {{ let y[i, j] = x[j, i]; y }}");
            hold_shapes(&plain, &[&[&x]]);
            if dtype != "bool" {
                let sum = format!("fn main(x: {dtype}[n, m], y: {dtype}[m, n]) {{ transpose(x) + y }}");
                hold_shapes(&sum, &[&[&x, &y]]);
            }
        }
    }
    let sizes: &[&[&[usize]]] = &[&[&[3, 40, 70]], &[&[1, 33, 32]]];
    hold_shapes("fn main(x: f32[b, n, m]) { let y[k, i, j] = exp(x[k, j, i]) + f32(i); y }", sizes);
}

/// Matrix products of small integers, which are exact: whole and partial tiles, factors in place
/// and computed, of each type.
#[test]
fn contractions() {
    let whole = |dtype: Dtype, shape: &[usize]| {
        let mut array = Array::zeros(dtype, shape).unwrap();
        for k in 0..array.len() {
            let number = ((k * 7 + k / 5) % 5).to_string();
            array.set(k, Scalar::parse(dtype, &number).unwrap());
        }
        array
    };
    let cases: &[(&str, &[&[&[usize]]])] = &[
        ("a: T[n, k], b: T[k, m]) { a @ b }", &[&[&[1, 1], &[1, 1]], &[&[3, 0], &[0, 4]], &[&[0, 3], &[3, 2]]]),
        ("a: T[n, k], b: T[k, m]) { a @ b }", &[&[&[65, 20], &[20, 132]], &[&[130, 33], &[33, 67]]]),
        (
            "a: T[k, n], b: T[m, k], c: T[m]) { max(transpose(a) @ transpose(b) + c, c) }",
            &[&[&[20, 68], &[72, 20], &[72]]],
        ),
        ("a: T[n, k], b: T[k, m]) { (a + a) @ max(b, b * b) }", &[&[&[5, 19], &[19, 9]]]),
        (
            "a: T[n, k], b: T[k, m]) { let c[i < n, j < m] = sum[r < k](a[i, k - 1 - r] * b[r, m - 1 - j]); c }",
            &[&[&[5, 19], &[19, 9]], &[&[65, 20], &[20, 68]]],
        ),
        ("a: T[p, n, k], b: T[p, k, m]) { a @ b }", &[&[&[3, 12, 20], &[3, 20, 36]]]),
        // Several blocks share a tile.
        ("a: T[n, k], b: T[k, m]) { a @ b }", &[&[&[5, 256], &[256, 9]], &[&[130, 601], &[601, 7]]]),
        (
            "a: T[k, n], b: T[m, k], c: T[m]) { max(transpose(a) @ transpose(b) + c, c) }",
            &[&[&[260, 68], &[72, 260], &[72]]],
        ),
        ("a: T[n, k], b: T[k, m]) { (a + a) @ max(b, b * b) }", &[&[&[5, 263], &[263, 9]]]),
        ("a: T[p, n, k], b: T[p, k, m]) { a @ b }", &[&[&[3, 12, 300], &[3, 300, 36]]]),
    ];
    for dtype in ["f32", "f64", "f16", "bf16", "i64", "i8", "u32"] {
        for (rest, calls) in cases {
            let source = format!("fn main({}", rest.replace('T', dtype));
            let compiled = compile_in(&source, "main", &[]).unwrap_or_else(|e| panic!("{source}: {e:?}"));
            let forms: Vec<&Form> = compiled.forms.iter().collect();
            for shapes in *calls {
                let dtype = compiled.forms[0].program.buffers.values().next().map_or(Dtype::F32, |buffer| buffer.dtype);
                let inputs: Vec<Array> = shapes.iter().map(|shape| whole(dtype, shape)).collect();
                let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
                hold_on(&[Engine::Ptx], &compiled.checked, &forms, &inputs)
                    .unwrap_or_else(|e| panic!("{source} {shapes:?}: {e}"));
            }
        }
    }
}

/// Calls with the same sizes share their memory, and from the second on replay a recording; all
/// give the results of a first call. The next call forgets a fault.
#[test]
fn calls_follow_one_another() {
    let source = "fn main(x: f32[n, m], at: i64[m]) -> (f32[n, m], f32[m]) {
        let e = exp(x - max(x))
        (e / sum(e), sum(x, axis = 0)[at])
    }";
    let compiled = compile_in(source, "main", &[]).unwrap();
    for form in &compiled.forms {
        let module = module(&form.program);
        let device = Emulated::new(5);
        let mut runner = Runner::new(module, device, None);
        for (n, m, beyond) in [
            (3, 5, 0),
            (3, 5, 0),
            (3, 5, 0),
            (7, 2, 0),
            (3, 5, 9),
            (3, 5, 0),
            (2, 300, 0),
            (1, 1, 0),
            (1, 1, 0),
            (1, 1, 0),
        ] {
            let x: Vec<f32> = (0..n * m).map(|k| k as f32 * 0.25 + beyond as f32).collect();
            let x = Array::from_slice(&[n, m], &x).unwrap();
            let at = Array::from((0..m).map(|k| (m - 1 - k + beyond) as i64).collect::<Vec<_>>());
            let inputs = [x.as_ref(), at.as_ref()];
            let meant = form.run(&compiled.checked, Engine::Nest, &inputs);
            let mut outputs = [Array::zeros(Dtype::F32, &[n, m]).unwrap(), Array::zeros(Dtype::F32, &[m]).unwrap()];
            let mut phases = Phases::default();
            let done = runner.call(&inputs, &mut outputs.each_mut().map(Array::as_mut), Some(&mut phases));
            match done {
                Ok(()) => assert_eq!(Outcome::Results(outputs.into()), meant),
                Err(error) => assert!(beyond > 0 && matches!(meant, Outcome::Fault(_)), "{error}"),
            }
        }
    }
}

/// Blocks that share a tile of a product are counted from call to call, whatever the sizes were.
#[test]
fn products_in_parts_follow_one_another() {
    let source = "fn main(x: f32[n, k], y: f32[k, m]) -> f32[n, m] = (x @ y) + 1";
    let compiled = compile_in(source, "main", &[]).unwrap();
    for form in &compiled.forms {
        let mut runner = Runner::new(module(&form.program), Emulated::new(5), None);
        for (n, k, m) in [(3, 300, 5), (3, 300, 5), (3, 300, 5), (140, 700, 9), (3, 20, 5), (3, 300, 5), (9, 2000, 1)] {
            let whole = |shape: &[usize]| {
                let elements: Vec<f32> = (0..shape.iter().product()).map(|k: usize| (k * 7 % 5) as f32).collect();
                Array::from_slice(shape, &elements).unwrap()
            };
            let inputs = [whole(&[n, k]), whole(&[k, m])];
            let inputs = inputs.each_ref().map(Array::as_ref);
            let meant = form.run(&compiled.checked, Engine::Nest, &inputs);
            let mut outputs = [Array::zeros(Dtype::F32, &[n, m]).unwrap()];
            runner.call(&inputs, &mut outputs.each_mut().map(Array::as_mut), None).unwrap();
            assert_eq!(Outcome::Results(outputs.into()), meant, "{n} {k} {m}");
        }
    }
}

/// Threads of a block that share the iterations of a reduction have a row of scratch each, where
/// the loop is the only one of its kernel and where it has others around it.
#[test]
fn threads_that_reduce_have_their_own_rows() {
    let source = "
        fn alone(x: f32[n, m]) -> f32 {
            let e[i, j] = exp(x[i, j])
            let s[i] = sum[j](e[i, j])
            sum[i](max[j < m](e[i, j] / s[i]))
        }
        fn among_others(x: f32[n, m]) -> f32 {
            let most = x[0, 0] + min[j < 3](x[0, j])
            let e[i, j] = exp(x[i, j] - most)
            let s[i] = sum[j](e[i, j])
            sum[i < n](max[j < m](e[i, j] / s[i]))
        }";
    for name in ["alone", "among_others"] {
        let compiled = compile_in(source, name, &[]).unwrap();
        let forms: Vec<&Form> = compiled.forms.iter().collect();
        let has_scratch = |form: &Form| form.program.buffers.values().any(|buffer| buffer.role == Role::Scratch);
        assert!(compiled.forms.iter().any(has_scratch), "{name}");
        for (n, m) in [(1, 3), (7, 40), (300, 9)] {
            let x: Vec<f32> = (0..n * m).map(|k| (k * 7 % 13) as f32 / 4.0).collect();
            let x = Array::from_slice(&[n, m], &x).unwrap();
            hold_on(&[Engine::Ptx], &compiled.checked, &forms, &[x.as_ref()]).unwrap();
        }
    }
}

/// The memory of a call is known before any of it is allocated.
#[test]
fn memory_is_counted_before_it_is_taken() {
    let compiled = compile_in("fn main(x: f32[n]) = x - mean(x)", "main", &[]).unwrap();
    let x = Array::zeros(Dtype::F32, &[1000]).unwrap();
    let run = |limit| {
        let module = module(compiled.program());
        let device = Emulated::new(5);
        let mut out = Array::zeros(Dtype::F32, &[1000]).unwrap();
        Runner::new(module, device, Some(limit)).call(&[x.as_ref()], &mut [out.as_mut()], None)
    };
    let Err(RunError::Memory { needed, limit: 8000 }) = run(8000) else {
        panic!("more than inputs and results is needed")
    };
    assert!((8000..12_000).contains(&needed), "{needed}");
    run(needed).unwrap();
}

fn hold(program: &Program) -> Result<(), String> {
    let compiled = match compile_in(&program.source, program.entry, &ways::drawn(program.data)[..1]) {
        Ok(compiled) => compiled,
        Err(Rejected::Source(_)) => return Ok(()),
        Err(Rejected::Compiler(message)) => return Err(message),
    };
    let forms: Vec<&Form> = compiled.forms.iter().collect();
    (0..CALLS).try_for_each(|n| {
        let call = program.call(n);
        let inputs: Vec<_> = call.inputs.iter().map(|(_, array)| Array::as_ref(array)).collect();
        hold_on(&[Engine::Ptx], &compiled.checked, &forms, &inputs)
            .map(|_| ())
            .map_err(|why| format!("{why}\n{call:?}"))
    })
}
