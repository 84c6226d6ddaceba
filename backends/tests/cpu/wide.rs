//! Vectors of 256 and 512 bits against those of 128: the same bits, with all NaN equal. Widths that
//! the machine does not have are skipped.

use backends::cpu::{MemoryRegime, Module, RunError, Simd};
use ir::array::{Array, ArrayMut};
use ir::nest::Program;
use ir::{BinaryOp, CompareOp, Dtype, Scalar, UnaryOp};
use proptest::prelude::*;

use crate::harness::{Random, WAYS, check_ways, compile_for, compute_types, inputs, parse, run, takes_one, takes_two};

/// Lengths around multiples of a group of 16, and the remainders of several groups per step.
const LENGTHS: [usize; 12] = [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000];

/// The outcome of a run.
type Ran = (Result<(), RunError>, Vec<Array>);

/// A program compiled at each width.
struct Widths {
    program: Program,
    narrow: Module,
    wide: Vec<((Simd, MemoryRegime), Module)>,
}

impl Widths {
    fn new(program: Program) -> Widths {
        let narrow = compile_for(&program, WAYS[0]);
        let wide = WAYS[1..].iter().filter(|(simd, _)| simd.is_here());
        let wide = wide.map(|way| (*way, compile_for(&program, *way))).collect();
        Widths { program, narrow, wide }
    }

    fn agree(&self, inputs: &[Array], threads: usize) {
        let narrow = run(&self.program, &self.narrow, inputs, threads);
        for (way, module) in &self.wide {
            self.agrees(*way, &narrow, &run(&self.program, module, inputs, threads), inputs);
        }
    }

    fn agrees(&self, way: (Simd, MemoryRegime), (a, expected): &Ran, (b, found): &Ran, inputs: &[Array]) {
        assert_eq!(format!("{a:?}"), format!("{b:?}"), "{}", self.program);
        for (number, (expected, found)) in expected.iter().zip(found).enumerate() {
            if expected != found {
                let differ = (0..expected.len()).find(|k| expected.get(*k) != found.get(*k)).unwrap_or(0);
                let values: Vec<_> = inputs.iter().map(|x| x.get(if x.len() == 1 { 0 } else { differ })).collect();
                panic!(
                    "output {number} of {} elements, element {differ}: 128 bits give {:?}, {way:?} {:?}; inputs {values:?}\n{}",
                    expected.len(),
                    expected.get(differ),
                    found.get(differ),
                    self.program
                );
            }
        }
    }
}

/// The unusual values of a type.
fn special(dtype: Dtype) -> Vec<Scalar> {
    let float =
        |values: &[f64]| values.iter().map(|v| interp::scalar::cast(dtype, Scalar::F64(*v))).collect::<Vec<_>>();
    let bits = |bits: &[u64]| bits.iter().map(|bits| Scalar::from_bits(dtype, *bits)).collect::<Vec<_>>();
    let top = 1u64 << (8 * dtype.bytes() - 1);
    let numbers = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        3.7,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        127.5,
        255.5,
        32767.5,
        65535.5,
        2_147_483_647.0,
        2_147_483_648.0,
        -2_147_483_649.0,
        4_294_967_296.0,
        9.3e18,
        -9.3e18,
        1.9e19,
    ];
    match dtype {
        Dtype::Bool => bits(&[0, 1]),
        Dtype::F32 => {
            [float(&numbers), bits(&[1, 0x8000_0001, 0x7f_ffff, 0x0080_0000, 0x7f7f_ffff, 0x3f80_8000])].concat()
        }
        Dtype::F64 => [float(&numbers), bits(&[1, top | 1, (1 << 52) - 1, 1 << 52, (0x7ff << 52) - 1])].concat(),
        Dtype::F16 => [float(&numbers[..15]), bits(&[1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff])].concat(),
        Dtype::Bf16 => [float(&numbers), bits(&[1, 0x8001, 0x7f, 0x80, 0x7f7f])].concat(),
        _ => {
            let width = 8 * dtype.bytes() as u64;
            let minus = |n: u64| n.wrapping_neg();
            bits(&[
                0,
                1,
                2,
                7,
                minus(1),
                minus(2),
                top,
                top - 1,
                top + 1,
                width - 1,
                width,
                width + 1,
                100,
                minus(width),
            ])
        }
    }
}

fn any_bits(random: &mut Random, dtype: Dtype) -> Scalar {
    let bits = random.next();
    Scalar::from_bits(dtype, if dtype == Dtype::Bool { bits & 1 } else { bits })
}

/// Unusual values for operand `k` of an operation: all combinations with those of the other
/// operands, as far as there is room, then random bits.
fn odd(random: &mut Random, dtype: Dtype, n: usize, k: u32) -> Array {
    let values = special(dtype);
    let crossed = |at: usize| values[at / 29usize.pow(k % 2) % 29 % values.len()];
    let element = |at: usize| match at {
        _ if n < 1000 && random.next().is_multiple_of(2) => values[random.next() as usize % values.len()],
        _ if n < 1000 || at >= 29 * 29 => any_bits(random, dtype),
        _ if k == 2 => values[random.next() as usize % values.len()],
        _ => crossed(at),
    };
    let elements: Vec<Scalar> = (0..n).map(element).collect();
    Array::from_scalars(dtype, &[n], &elements).unwrap()
}

/// A kernel of vectors `v0, v1..` and then scalars. Its result is `v100`.
fn pointwise(vectors: &[Dtype], scalars: &[Dtype], output: Dtype, body: &str) -> String {
    let mut text = String::from("program @p {\n  symbol n = dim 0 of input 0\n");
    for (k, dtype) in vectors.iter().chain(scalars).enumerate() {
        let shape = if k < vectors.len() { "n" } else { "" };
        text += &format!("  input {k} %x{k}: {dtype}[{shape}]\n");
    }
    text += &format!("  output %y: {output}[n]\n  kernel @k {{\n    parallel i < n {{\n");
    for k in 0..vectors.len() + scalars.len() {
        let at = if k < vectors.len() { "i" } else { "" };
        text += &format!("      v{k} = load %x{k}[{at}]\n");
    }
    text + body + "      store %y[i], v100\n    }\n  }\n}\n"
}

fn hold(vectors: &[Dtype], output: Dtype, body: &str) {
    let widths = Widths::new(parse(&pointwise(vectors, &[], output, body)));
    let mut random = Random(body.len() as u64);
    for n in LENGTHS {
        let inputs: Vec<Array> = (0..).zip(vectors).map(|(k, dtype)| odd(&mut random, *dtype, n, k)).collect();
        widths.agree(&inputs, 1);
    }
}

/// One vector, and one scalar with each unusual value.
fn hold_uniform(vector: Dtype, scalar: Dtype, output: Dtype, body: &str) {
    let widths = Widths::new(parse(&pointwise(&[vector], &[scalar], output, body)));
    let mut random = Random(body.len() as u64);
    for value in special(scalar) {
        let n = 30 + random.next() as usize % 40;
        widths.agree(&[odd(&mut random, vector, n, 0), Array::scalar(value)], 1);
    }
}

#[test]
fn unary() {
    for dtype in compute_types() {
        for op in UnaryOp::ALL {
            if takes_one(*op, dtype) {
                hold(&[dtype], dtype, &format!("v100 = {op} v0\n"));
            }
        }
    }
}

#[test]
fn binary() {
    for dtype in compute_types() {
        for op in BinaryOp::ALL {
            if takes_two(*op, dtype) {
                hold(&[dtype, dtype], dtype, &format!("v100 = {op} v0, v1\n"));
                hold_uniform(dtype, dtype, dtype, &format!("v100 = {op} v0, v1\n"));
                hold_uniform(dtype, dtype, dtype, &format!("v100 = {op} v1, v0\n"));
            }
        }
    }
}

#[test]
fn comparisons_and_choices() {
    for dtype in compute_types() {
        for op in CompareOp::ALL {
            hold(&[dtype, dtype], Dtype::Bool, &format!("v100 = {op} v0, v1\n"));
            hold_uniform(dtype, dtype, Dtype::Bool, &format!("v100 = {op} v1, v0\n"));
        }
    }
    for dtype in Dtype::ALL {
        hold(&[dtype, dtype, Dtype::Bool], dtype, "v100 = select v2, v0, v1\n");
        for by in [Dtype::F32, Dtype::F64] {
            hold(&[by, by, dtype], dtype, "v3 = lt v0, v1\n v4 = load %x2[0]\n v100 = select v3, v2, v4\n");
        }
    }
}

#[test]
fn conversions() {
    for from in Dtype::ALL {
        for to in Dtype::ALL {
            hold(&[from], to, &format!("v100 = cast {to} v0\n"));
        }
    }
    // The bits of a NaN are unspecified, so NaN are replaced before the bits are shown.
    for (float, ints) in [(Dtype::F32, [Dtype::I32, Dtype::U32]), (Dtype::F64, [Dtype::I64, Dtype::U64])] {
        for int in ints {
            hold(&[int], float, &format!("v100 = bitcast {float} v0\n"));
            let body =
                format!("v1 = eq v0, v0\n v2 = const {float} 1.0\n v3 = select v1, v0, v2\n v100 = bitcast {int} v3\n");
            hold(&[float], int, &body);
        }
    }
}

#[test]
fn fused_multiply_add() {
    for dtype in [Dtype::F32, Dtype::F64] {
        for operands in ["v0, v1, v2", "v0, v0, v1", "v0, v1, v0", "v0, v1, v1", "v0, v0, v0"] {
            // Operands that are used again, and operands that are not.
            hold(&[dtype; 3], dtype, &format!("v100 = fma {operands}\n"));
            let body = format!("v3 = fma {operands}\n v4 = fma v3, v1, v2\n v5 = sub v4, v0\n v100 = fma v0, v3, v5\n");
            hold(&[dtype; 3], dtype, &body);
        }
    }
}

#[test]
fn constants() {
    for dtype in [Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64] {
        let width = 8 * dtype.bytes() as i64;
        for op in ["shl", "shr"] {
            for amount in [0, 1, width - 1, width, width + 1, 100, 255, 256, 257, -1, -width] {
                if amount >= 0 || dtype.is_signed_int() {
                    hold(&[dtype], dtype, &format!("v1 = const {dtype} {amount}\n v100 = {op} v0, v1\n"));
                }
            }
        }
    }
    for dtype in [Dtype::F32, Dtype::F64] {
        for constant in ["0.0", "-0.0", "1.0", "-3.0", "inf", "-inf", "nan"] {
            for op in ["min", "max", "sub", "div"] {
                for order in ["v0, v1", "v1, v0"] {
                    hold(&[dtype], dtype, &format!("v1 = const {dtype} {constant}\n v100 = {op} {order}\n"));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bodies(seed in any::<u64>(), operations in 1..60usize, n in prop::sample::select(vec![0i64, 1, 15, 17, 65, 130, 300])) {
        let program = crate::random::program(seed, operations);
        ir::verify::verify(&program).unwrap_or_else(|e| panic!("{e}\n{program}"));
        let inputs = inputs(&program, &[n], &mut Random(seed ^ 1), false);
        Widths::new(program).agree(&inputs, 1);
    }
}

/// Parses a program and runs it at lengths around the groups.
fn hold_text(text: &str, sizes: impl Fn(i64) -> Vec<i64>, lengths: &[i64]) {
    let widths = Widths::new(parse(text));
    let mut random = Random(text.len() as u64);
    for n in lengths {
        let inputs = inputs(&widths.program, &sizes(*n), &mut random, false);
        for threads in [1, 2] {
            widths.agree(&inputs, threads);
        }
    }
}

const AROUND: [i64; 12] = [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000];

#[test]
fn accesses() {
    for dtype in Dtype::ALL {
        // Strides that are constants and sizes, forwards and backwards, and values shared by all
        // elements.
        for (shape, at) in [
            ("2 * n", "2 * i"),
            ("3 * n + 1", "3 * i + 1"),
            ("4 * n", "4 * i + 3"),
            ("n", "n - 1 - i"),
            ("n, m", "i, 1"),
            ("2 * n, m", "2 * i + 1, 0"),
        ] {
            let text = format!(
                "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %w: f32[n, m] input 1 %x: {dtype}[{shape}]
                 output 0 %y: {dtype}[n]
                 kernel @k {{ parallel i < n {{ v0 = load %x[{at}] store %y[i], v0 }} }} }}"
            );
            hold_text(&text, |n| vec![n, 3], &AROUND);
        }
        let text = format!(
            "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] output 0 %y: {dtype}[n, 2]
             kernel @k {{ parallel i < n {{ v0 = load %x[i] store %y[i, 0], v0 store %y[i, 1], v0 }} }} }}"
        );
        hold_text(&text, |n| vec![n], &AROUND);
    }
}

/// Elements at small distances, in the same vector and in the next one, in several rows.
#[test]
fn neighbours() {
    let lengths = [1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79, 80, 81, 97, 500];
    for dtype in ["f32", "u32", "f64", "i64"] {
        for [a, b, c] in [[0, 1, 2], [0, 7, 15], [0, 8, 16], [3, 5, 40]] {
            let text = format!(
                "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
                 input 0 %x: {dtype}[n, m] output 0 %y: {dtype}[n - 1, m - {c}]
                 kernel @k {{ parallel i < n - 1, j < m - {c} {{
                   v0 = load %x[i, j + {a}] v1 = load %x[i, j + {b}] v2 = load %x[i, j + {c}]
                   v3 = load %x[i + 1, j + {c}] v4 = load %x[i + 1, j + {a}] v5 = load %x[i + 1, j + {b}]
                   v6 = add v0, v1 v7 = add v6, v2 v8 = add v7, v3 v9 = add v8, v4 v10 = add v9, v5
                   store %y[i, j], v10 }} }} }}"
            );
            hold_text(&text, |n| vec![3, n + c], &lengths);
        }
    }
    // More of them than there are registers.
    let loads: String = (0..40).map(|k| format!("v{k} = load %x[{} * m + i + {}] ", k / 4, k % 4)).collect();
    let sums: String =
        (0..39).map(|k| format!("v{} = add v{}, v{} ", 101 + k, if k == 0 { 0 } else { 100 + k }, k + 1)).collect();
    let text = format!(
        "program @p {{ symbol m = dim 1 of input 0 input 0 %w: f32[2, m] input 1 %x: f32[10 * m] output 0 %y: f32[m - 3]
         kernel @k {{ parallel i < m - 3 {{ {loads} {sums} store %y[i], v139 }} }} }}"
    );
    hold_text(&text, |n| vec![n + 3], &lengths);
}

/// More strided accesses than there are registers for addresses, next to contiguous ones.
#[test]
fn many_steps() {
    let mut text = String::from("program @p { symbol n = dim 0 of input 0 input 0 %x0: f32[n] output 0 %y: f32[n]\n");
    let mut body = String::from("v0 = load %x0[i]");
    for k in 1..14 {
        let (step, last) = (k % 4 + 1, 20 + k - 1);
        text += &format!("input {k} %x{k}: f32[{step} * n]\n");
        let before = if k == 1 { "v0".to_string() } else { format!("v{last}") };
        body += &format!(" v{k} = load %x{k}[{step} * i + {}] v{} = sub v{k}, {before}", step - 1, last + 1);
    }
    text += &format!("kernel @k {{ parallel i < n {{ {body} store %y[i], v33 }} }} }}");
    hold_text(&text, |n| vec![n], &AROUND);
}

/// Gathers by loaded subscripts, and scatters by the same.
#[test]
fn gathers_and_scatters() {
    for dtype in Dtype::ALL {
        for (shape, at) in [("m", "v1"), ("m, 3", "v1, 2"), ("n, m", "i, v1"), ("m, m", "v1, v1")] {
            let text = format!(
                "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 0 of input 1 input 0 %k: u8[n] input 1 %w: u8[m]
                 input 2 %x: {dtype}[{shape}] output 0 %y: {dtype}[n] output 1 %z: {dtype}[n, 256]
                 kernel @k {{ parallel i < n {{ v0 = load %k[i] v1 = cast i64 v0 v2 = load %x[{at}] store %y[i], v2
                   store %z[i, v1], v2 }} }} }}"
            );
            hold_text(&text, |n| vec![n, 256], &AROUND[..11]);
        }
    }
}

/// More arrays than there are registers for addresses, all live at once.
#[test]
fn many_arrays_and_values() {
    for (dtype, count) in [("f32", 14), ("f32", 40), ("f64", 14), ("f64", 24), ("i32", 40), ("u8", 14)] {
        let wide = if dtype == "u8" { "i32" } else { dtype };
        let mut text = String::from("program @p { symbol n = dim 0 of input 0\n");
        for k in 0..count {
            text += &format!("input {k} %x{k}: {dtype}[n]\n");
        }
        text += &format!(
            "output 0 %y: {wide}[n] output 1 %z: {wide}[n, 2] output 2 %b: bool[n]\nkernel @k {{ parallel i < n {{\n"
        );
        for k in 0..count {
            text += &format!("v{} = load %x{k}[i] v{k} = cast {wide} v{}\n", 100 + k, 100 + k);
        }
        // Comparisons that are all live until they are combined, from the last to the first.
        for k in 1..count {
            text += &format!("v{} = lt v{k}, v{}\n", 200 + k, k - 1);
        }
        let (mut sum, mut any) = ("v0".to_string(), "v201".to_string());
        for k in (1..count).rev() {
            text +=
                &format!("v{} = select v{}, v{k}, {sum}\n v{} = sub v{}, v{k}\n", 300 + k, 200 + k, 400 + k, 300 + k);
            text += &format!("v{} = xor {any}, v{}\n", 500 + k, 200 + k);
            (sum, any) = (format!("v{}", 400 + k), format!("v{}", 500 + k));
        }
        text += &format!(
            "store %y[i], {sum} store %z[i, 1], v{} store %z[i, 0], v0 store %b[i], {any} }} }} }}",
            400 + count - 1
        );
        hold_text(&text, |n| vec![n], &AROUND);
    }
}

/// Conditional sides that are skipped if no lane needs them, nested, with floats and `bool` as
/// results.
#[test]
fn long_branches() {
    let side = |from: usize, value: &str, dtype: &str| {
        let mut text = format!("v{from} = add {value}, {value}\n");
        for k in from + 1..from + 24 {
            text += &format!("v{k} = {} v{}, {value}\n", ["add", "sub", "mul", "max"][k % 4], k - 1);
        }
        text + &format!("v{} = const {dtype} 3 v{} = gt v{}, v{}\n", from + 30, from + 31, from + 23, from + 30)
            .replace(" 3 ", if dtype.starts_with('f') { " 3.0 " } else { " 3 " })
    };
    for dtype in ["f32", "f64", "i32", "i64"] {
        let (outer, inner, other) = (side(100, "v0", dtype), side(200, "v123", dtype), side(300, "v0", dtype));
        for condition in ["v3 = lt v0, v1", "v3 = ne v0, v0", "v3 = ge v0, v0", "v3 = load %c[i]"] {
            let text = format!(
                "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] input 1 %w: {dtype}[n] input 2 %c: bool[n]
                 output 0 %y: {dtype}[n] output 1 %z: bool[n]
                 kernel @k {{ parallel i < n {{ v0 = load %x[i] v1 = load %w[i] v2 = load %c[i] {condition}
                   v10, v11 = if v3 {{ {outer}
                       v20, v21 = if v2 {{ {inner} yield v223, v231 }} else {{ v40 = sub v1, v123 yield v40, v131 }}
                       yield v20, v21 }}
                     else {{ {other} yield v323, v331 }}
                   v12 = add v10, v0 store %y[i], v12 store %z[i], v11 }} }} }}"
            );
            hold_text(&text, |n| vec![n], &AROUND);
        }
    }
}

/// The result of a long side is a value from outside, which is also used after the branch.
#[test]
fn long_branches_that_yield_what_was_there_before() {
    let long: String = (0..24).map(|k| format!("v{} = mul v{}, v1\n", 101 + k, 100 + k)).collect();
    for condition in ["v3 = lt v0, v1", "v3 = ge v0, v0", "v3 = ne v0, v0"] {
        for (then, otherwise) in [("yield v0, v124", "yield v4, v4"), ("yield v0, v0", "yield v4, v1")] {
            let then = format!("v100 = add v0, v1 {long} {then}");
            for (then, otherwise) in [(then.as_str(), otherwise), (otherwise, then.as_str())] {
                let text = format!(
                    "program @p {{ symbol n = dim 0 of input 0 input 0 %x: f32[n] input 1 %w: f32[n]
                     output 0 %y: f32[n] output 1 %z: f32[n]
                     kernel @k {{ parallel i < n {{ v0 = load %x[i] v1 = load %w[i] {condition} v4 = add v0, v0
                       v10, v11 = if v3 {{ {then} }} else {{ {otherwise} }}
                       v12 = sub v10, v0 v13 = sub v11, v0 store %y[i], v12 store %z[i], v13 }} }} }}"
                );
                check_ways(&text, &AROUND.each_ref().map(std::slice::from_ref));
            }
        }
    }
}

#[test]
fn reductions() {
    const LENGTHS: [i64; 16] = [0, 1, 15, 16, 17, 127, 128, 129, 255, 1000, 4095, 4096, 4097, 8192, 19_999, 20_000];
    for dtype in ["f32", "f64", "i32", "i64", "u32", "u64"] {
        let order = |op: &str| if dtype.starts_with('f') && (op == "sum" || op == "prod") { "lanes" } else { "free" };
        let long = (0..30).map(|k| format!("v{} = {} v{}, v1\n", 60 + k, ["add", "mul", "sub", "min"][k % 4], 59 + k));
        let long = format!("v59 = add v0, v1\n{}", long.collect::<String>());
        for (body, value) in [("", "v0"), ("v2 = mul v0, v1", "v2"), (long.as_str(), "v89")] {
            for op in ["sum", "prod", "max", "min"] {
                let text = format!(
                    "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] input 1 %w: {dtype}[n] output %y: {dtype}[]
                     kernel @k {{ v9 = reduce i < n {{ v0 = load %x[i] v1 = load %w[i] {body} }} with {op} {} {value} store %y[], v9 }} }}",
                    order(op)
                );
                hold_text(&text, |n| vec![n], &LENGTHS);
            }
            // Several at once, of two widths.
            let text = format!(
                "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] input 1 %w: {dtype}[n]
                 output 0 %a: {dtype}[] output 1 %b: {dtype}[] output 2 %c: f64[] output 3 %d: f32[] output 4 %e: {dtype}[n]
                 kernel @k {{ v90, v91, v92, v93 = reduce i < n {{ v0 = load %x[i] v1 = load %w[i] {body}
                     v94 = cast f64 v0 v95 = cast f32 v1 store %e[i], {value} }}
                   with sum {} {value}, max free {value}, sum lanes v94, sum lanes v95
                   store %a[], v90 store %b[], v91 store %c[], v92 store %d[], v93 }} }}",
                order("sum")
            );
            hold_text(&text, |n| vec![n], &LENGTHS);
        }
    }
}

/// Dividends near multiples of a divisor and near midpoints between two quotients, of all
/// magnitudes, and unusual ones.
fn dividends(random: &mut Random, dtype: Dtype, divisor: Scalar, n: usize) -> Array {
    let (top, fraction) = if dtype == Dtype::F32 { (0x7f80_0000u64, 23) } else { (0x7ff0_0000_0000_0000, 52) };
    let element = |k: usize| {
        let any = random.next();
        // Mostly exponents near that of one, so that most groups need no division.
        let exponent = ((top >> fraction) / 2 - 50 + random.next() % 100) << fraction;
        let near =
            Scalar::from_bits(dtype, exponent | any & ((1 << fraction) - 1) | (any >> 63) << (8 * dtype.bytes() - 1));
        let away = (any >> 40) % 5;
        match k % 16 {
            0 if k.is_multiple_of(64) => special(dtype)[any as usize % special(dtype).len()],
            1 if k % 64 == 1 => any_bits(random, dtype),
            0..8 => near,
            _ => {
                let multiple = interp::scalar::binary(BinaryOp::Mul, near, divisor);
                Scalar::from_bits(dtype, multiple.bits().wrapping_add(away).wrapping_sub(2))
            }
        }
    };
    let elements: Vec<Scalar> = (0..n).map(element).collect();
    Array::from_scalars(dtype, &[n], &elements).unwrap()
}

#[test]
fn divisions_by_one_number() {
    for dtype in [Dtype::F32, Dtype::F64] {
        let widths = Widths::new(parse(&pointwise(&[dtype], &[dtype], dtype, "      v100 = div v0, v1\n")));
        let mut random = Random(7);
        let mut divisors = special(dtype);
        let one = Scalar::one(dtype).bits();
        let fraction = (1u64 << if dtype == Dtype::F32 { 23 } else { 52 }) - 1;
        divisors.extend(
            [one | 1, one | 2, one | fraction, one | (fraction - 1)].map(|bits| Scalar::from_bits(dtype, bits)),
        );
        divisors.extend((0..60).map(|_| Scalar::from_bits(dtype, one | random.next() & fraction)));
        divisors.extend((0..20).map(|_| any_bits(&mut random, dtype)));
        for divisor in divisors {
            widths.agree(&[dividends(&mut random, dtype, divisor, 3003), Array::scalar(divisor)], 1);
        }
    }
}

/// Memory in which a result begins `after` bytes after a multiple of 64, with guard bytes around
/// it.
struct Placed {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Placed {
    fn new(length: usize, after: usize) -> Placed {
        let bytes = vec![0xa5; length + 256];
        let start = bytes.as_ptr().align_offset(64) + 64 + after;
        Placed { bytes, start, length }
    }

    fn part(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }

    fn holds(&self, expected: &Array) -> bool {
        let (before, rest) = self.bytes.split_at(self.start);
        let (part, behind) = rest.split_at(self.length);
        part == expected.bytes() && before.iter().chain(behind).all(|byte| *byte == 0xa5)
    }
}

/// A result with non-temporal stores that is not contiguous: all elements are in their place.
#[test]
fn large_results_of_scattered_elements() {
    let text = "program @p { symbol m = dim 0 of input 0 symbol n = dim 1 of input 0 input 0 %x: f32[m, n] output 0 %y: f32[n, m]
        kernel @k { parallel i < n, j < m { v0 = load %x[j, i] store %y[i, j], v0 } } }";
    let widths = Widths::new(parse(text));
    let shape = [1777, 1999];
    let elements: Vec<u8> = (0..1777 * 1999u32).flat_map(|k| (k as f32).to_le_bytes()).collect();
    widths.agree(&[Array::from_bytes(Dtype::F32, &shape, &elements).unwrap()], 1);
}

/// Results with non-temporal stores, at every offset within a cache line.
#[test]
fn large_results() {
    for (a, b) in [(Dtype::F32, Dtype::F64), (Dtype::I32, Dtype::U32), (Dtype::I64, Dtype::U8)] {
        let text = format!(
            "program @p {{ symbol n = dim 0 of input 0 input 0 %x: i32[n] output 0 %y: {a}[n] output 1 %z: {b}[n]
             kernel @k {{ parallel i < n {{ v0 = load %x[i] v1 = affine i v2 = cast i32 v1 v3 = xor v0, v2
               v4 = cast {a} v3 store %y[i], v4 v5 = cast {b} v0 store %z[i], v5 }} }} }}"
        );
        let widths = Widths::new(parse(&text));
        let each = 4 + a.bytes() + b.bytes();
        for more in [1, 18] {
            let n = (24 << 20) / each + more;
            let elements: Vec<u8> = (0..n as u32).flat_map(|k| k.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
            let x = Array::from_bytes(Dtype::I32, &[n], &elements).unwrap();
            let expected = run(&widths.program, &widths.narrow, std::slice::from_ref(&x), 1).1;
            // The other result at another offset, and both aligned at the same element.
            for (place, shift) in (0..64).step_by(a.bytes()).flat_map(|place| [(place, 24), (place, 0)]) {
                for (simd, module) in &widths.wide {
                    let mut y = Placed::new(n * a.bytes(), place);
                    let mut z = Placed::new(n * b.bytes(), (place / a.bytes() * b.bytes() + shift) % 64);
                    let shape = [n];
                    let mut results =
                        [ArrayMut::new(a, &shape, y.part()).unwrap(), ArrayMut::new(b, &shape, z.part()).unwrap()];
                    module.run(&[x.as_ref()], &mut results, 1 + place / a.bytes() % 2).unwrap();
                    let right = y.holds(&expected[0]) && z.holds(&expected[1]);
                    assert!(right, "{simd:?}: {n} elements at {place}\n{}", widths.program);
                }
            }
        }
    }
}

/// Arrays that are prefetched: rows of some lengths, twice in sequence, next to one that is read
/// once per row, and of several types at once.
#[test]
fn large_arrays_in_rows() {
    let mut random = Random(29);
    for (dtype, other) in [("f32", "f64"), ("f64", "u8"), ("i32", "u8")] {
        let text = format!(
            "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
             input 0 %x: {dtype}[n, m] input 1 %z: {other}[n, m] input 2 %g: {dtype}[m] output %y: {dtype}[n, m]
             kernel @k {{ parallel i < n {{
               v4 = reduce k < m {{ v0 = load %x[i, k] v1 = load %z[i, k] v2 = cast {dtype} v1 v3 = add v0, v2 }} with sum {} v3
               parallel l < m {{ v5 = load %x[i, l] v6 = sub v5, v4 v7 = load %g[l] v8 = mul v6, v7 store %y[i, l], v8 }} }} }} }}",
            if dtype == "i32" { "free" } else { "lanes" }
        );
        let widths = Widths::new(parse(&text));
        for shape in [[1300, 417], [4100, 128], [3, 180_001]] {
            let [x, z] = [dtype, other].map(|name| random.array(Dtype::from_name(name).unwrap(), &shape));
            let g = random.array(x.dtype(), &shape[1..]);
            for threads in [1, 2] {
                widths.agree(&[x.clone(), z.clone(), g.clone()], threads);
            }
        }
    }
}

/// Chunks are passed from thread to thread, and a prefix of a prefix waits twice.
#[test]
fn scans_at_both_widths_and_on_many_threads() {
    for (dtype, op) in [("f32", "sum"), ("f64", "prod"), ("f32", "min"), ("i32", "max"), ("u64", "sum")] {
        let text = format!(
            "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] output 0 %y: {dtype}[n] output 1 %z: {dtype}[n]
             kernel @k {{ v9 = const {dtype} 3 scan i < n {{ v0 = load %x[n - 1 - i] v1 = add v0, v9 v2 = prefix {op} v1 v3 = sub v2, v0
               v4 = prefix {op} v3 store %y[i], v4 store %z[n - 1 - i], v2 }} }} }}"
        );
        let widths = Widths::new(parse(&text));
        for n in LENGTHS.iter().map(|n| *n as i64).chain([4095, 4096, 4097, 8192, 70_001]) {
            let inputs = inputs(&widths.program, &[n], &mut Random(7), false);
            [1, 2, 5].into_iter().for_each(|threads| widths.agree(&inputs, threads));
        }
    }
}
