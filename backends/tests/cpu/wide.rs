//! Vectors of 512 bits against those of 128: the same bits, any NaN equal to any NaN. Where the machine has no AVX-512 both are
//! the same code, and these tests hold trivially.

use backends::cpu::{Module, Options, Simd};
use ir::array::Array;
use ir::nest::Program;
use ir::{BinaryOp, CompareOp, Dtype, Scalar, UnaryOp};
use proptest::prelude::*;

use crate::harness::{Random, inputs, parse, run};

/// Lengths about the groups of sixteen and what several of them at once leave over.
const LENGTHS: [usize; 12] = [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000];

fn module(program: &Program, simd: Simd) -> Module {
    let options = Options { least_share: 0, wake_from: 0, simd, ..Options::default() };
    Module::compile(program, &options).unwrap_or_else(|e| panic!("{e}\n{program}"))
}

/// A program at both widths.
struct Both {
    program: Program,
    narrow: Module,
    wide: Module,
}

impl Both {
    fn new(program: Program) -> Both {
        let (narrow, wide) = (module(&program, Simd::W128), module(&program, Simd::W512));
        Both { program, narrow, wide }
    }

    fn agree(&self, inputs: &[Array], threads: usize) {
        let (a, expected) = run(&self.program, &self.narrow, inputs, threads);
        let (b, found) = run(&self.program, &self.wide, inputs, threads);
        assert_eq!(format!("{a:?}"), format!("{b:?}"), "{}", self.program);
        for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
            if expected != found {
                let differ = (0..expected.len()).find(|k| expected.get(*k) != found.get(*k)).unwrap_or(0);
                let values: Vec<_> = inputs.iter().map(|x| x.get(if x.len() == 1 { 0 } else { differ })).collect();
                panic!(
                    "output {number} of {} elements, element {differ}: 128 bits give {:?}, 512 give {:?}; inputs {values:?}\n{}",
                    expected.len(),
                    expected.get(differ),
                    found.get(differ),
                    self.program
                );
            }
        }
    }
}

/// The odd values of a type.
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

/// Odd values for operand `k` of an operation: crossed with those of the others where there is room, then any bits.
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

/// A kernel of vectors `v0, v1..` and then scalars; its result is `v100`.
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
    let both = Both::new(parse(&pointwise(vectors, &[], output, body)));
    let mut random = Random(body.len() as u64);
    for n in LENGTHS {
        let inputs: Vec<Array> = (0..).zip(vectors).map(|(k, dtype)| odd(&mut random, *dtype, n, k)).collect();
        both.agree(&inputs, 1);
    }
}

/// One vector, and one scalar of every odd value.
fn hold_uniform(vector: Dtype, scalar: Dtype, output: Dtype, body: &str) {
    let both = Both::new(parse(&pointwise(&[vector], &[scalar], output, body)));
    let mut random = Random(body.len() as u64);
    for value in special(scalar) {
        let n = 30 + random.next() as usize % 40;
        both.agree(&[odd(&mut random, vector, n, 0), Array::scalar(value)], 1);
    }
}

fn compute_types() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.into_iter().filter(|d| !d.is_storage())
}

#[test]
fn unary() {
    for dtype in compute_types() {
        for op in UnaryOp::ALL {
            let legal = match op {
                UnaryOp::Not => !dtype.is_float(),
                UnaryOp::Neg | UnaryOp::Abs => dtype != Dtype::Bool,
                _ => dtype.is_float(),
            };
            if legal {
                hold(&[dtype], dtype, &format!("v100 = {op} v0\n"));
            }
        }
    }
}

#[test]
fn binary() {
    for dtype in compute_types() {
        for op in BinaryOp::ALL {
            let legal = match op {
                BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => !dtype.is_float(),
                BinaryOp::Shl | BinaryOp::Shr => dtype.is_int(),
                _ => dtype != Dtype::Bool,
            };
            if legal {
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
    // The bits of a NaN are any NaN's, so floats lose theirs before they show them.
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
            // Operands that are needed again, and that are not.
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
        Both::new(program).agree(&inputs, 1);
    }
}
