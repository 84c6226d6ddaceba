//! Runs a program on both engines with the same unusual inputs.

use backends::cpu::{MemoryRegime, Module, Options, RunError, Simd};
use guarded::{Edge, Guarded};
use interp::nest::Outcome;
use ir::array::{Array, ArrayMut, ArrayRef};
use ir::nest::{Program, Reducer, SymbolSource};
use ir::{BinaryOp, Binding, Dtype, Scalar, UnaryOp};
use schedule::{Machine, schedule};

/// A stream of random bits.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random value of a type: mostly small, sometimes unusual.
    pub fn scalar(&mut self, dtype: Dtype) -> Scalar {
        let bits = self.next();
        let pick = (bits >> 32) % 64;
        let small = (bits % 2001) as f64 / 64.0 - 15.0;
        match dtype {
            Dtype::F32 => Scalar::F32(match pick {
                0 => f32::NAN,
                1 => f32::INFINITY,
                2 => f32::NEG_INFINITY,
                3 => -0.0,
                4 => 0.0,
                5 => f32::from_bits(bits as u32 & 0x807f_ffff),
                6 => f32::from_bits(bits as u32),
                _ => small as f32 * 1.001,
            }),
            Dtype::F64 => Scalar::F64(match pick {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => -0.0,
                4 => 0.0,
                5 => f64::from_bits(bits & 0x800f_ffff_ffff_ffff),
                6 => f64::from_bits(self.next()),
                _ => small * 1.000_000_001,
            }),
            Dtype::F16 => Scalar::F16(half::f16::from_f64(small)),
            Dtype::Bf16 => Scalar::Bf16(half::bf16::from_f64(small)),
            _ => Scalar::from_bits(
                dtype,
                match pick {
                    0 => 0,
                    1 => u64::MAX,
                    2 => 1 << (8 * dtype.bytes() - 1),
                    3 => (1 << (8 * dtype.bytes() - 1)) - 1,
                    4 => self.next(),
                    _ => (bits % 100).wrapping_sub(40),
                },
            ),
        }
    }

    pub fn array(&mut self, dtype: Dtype, shape: &[usize]) -> Array {
        let elements: Vec<Scalar> = (0..shape.iter().product()).map(|_| self.scalar(dtype)).collect();
        Array::from_scalars(dtype, shape, &elements).unwrap()
    }

    /// An array of small integers, without infinities and NaN, for which contractions are exact.
    pub fn small(&mut self, dtype: Dtype, shape: &[usize]) -> Array {
        let elements: Vec<Scalar> = (0..shape.iter().product())
            .map(|_| interp::scalar::cast(dtype, Scalar::I64((self.next() % 9) as i64 - 4)))
            .collect();
        Array::from_scalars(dtype, shape, &elements).unwrap()
    }
}

/// Random inputs, given the values of the size names in order.
pub fn inputs(program: &Program, sizes: &[i64], random: &mut Random, small: bool) -> Vec<Array> {
    let value = |s: ir::SymbolId| sizes[s.as_u32() as usize];
    program
        .inputs()
        .into_iter()
        .enumerate()
        .map(|(number, id)| {
            let buffer = &program.buffers[id];
            for symbol in program.symbols.keys() {
                if program.symbols[symbol].source == (SymbolSource::Scalar { input: number }) {
                    return Array::scalar(Scalar::from_bits(buffer.dtype, value(symbol) as u64));
                }
            }
            let shape: Vec<usize> = buffer.shape.iter().map(|s| s.eval(&value).unwrap().try_into().unwrap()).collect();
            if small { random.small(buffer.dtype, &shape) } else { random.array(buffer.dtype, &shape) }
        })
        .collect()
}

/// Parses a program. `@argmax` and `@argmin` of a type, such as `@argmax.f32`, need no definition.
pub fn parse(text: &str) -> Program {
    let text = &define(text);
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    ir::verify::verify(&program).unwrap_or_else(|e| panic!("{e}\n{text}"));
    program
}

/// The reducer `@argmax` of a type.
pub fn argmax(dtype: Dtype) -> Reducer {
    let text = define(&format!("program @p {{ kernel @argmax.{dtype} {{ }} }}"));
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    program.reducers.values().next().unwrap().clone()
}

/// Puts definitions of the reducers that the text mentions before its first kernel.
fn define(text: &str) -> String {
    let mut definitions = String::new();
    for (name, extreme, beats) in [("argmax", "max", "gt"), ("argmin", "min", "lt")] {
        for dtype in Dtype::ALL.into_iter().filter(|dtype| text.contains(&format!("@{name}.{dtype} "))) {
            let least = if name == "argmax" { Scalar::least(dtype) } else { Scalar::greatest(dtype) };
            let least = ir::print::scalar(least);
            definitions += &format!(
                "reducer @{name}.{dtype} first {extreme} of ({dtype} {least}, i64 0) =
                   merge(v0: {dtype}, v1: i64, v2: {dtype}, v3: i64) {{
  v4 = {beats} v2, v0 v5 = ne v2, v2 v6 = eq v0, v0 v7 = and v5, v6 v8 = or v4, v7
  v9 = {beats} v0, v2 v10 = ne v0, v0 v11 = eq v2, v2 v12 = and v10, v11 v13 = or v9, v12
  v14 = lt v3, v1 v15 = not v13 v16 = and v15, v14 v17 = or v8, v16
  v18 = select v17, v2, v0 v19 = select v17, v3, v1 yield v18, v19 }}\n"
            );
        }
    }
    text.replacen("kernel @", &format!("{definitions}kernel @"), 1)
}

/// Compiles with thresholds that make any work worth several threads.
pub fn compile(program: &Program) -> Module {
    compile_for(program, (Simd::Auto, MemoryRegime::Auto))
}

/// The ways to compile a program: each vector width, for arrays that fit into the caches and for
/// larger ones.
pub const WAYS: [(Simd, MemoryRegime); 6] = [
    (Simd::W128, MemoryRegime::Auto),
    (Simd::W256, MemoryRegime::Auto),
    (Simd::Auto, MemoryRegime::Auto),
    (Simd::W256, MemoryRegime::Pages),
    (Simd::W256, MemoryRegime::Streams),
    (Simd::Auto, MemoryRegime::Streams),
];

/// Compiles a program in one of these ways.
pub fn compile_for(program: &Program, (simd, memory_regime): (Simd, MemoryRegime)) -> Module {
    let options = Options { least_share: 0, wake_from: 0, simd, memory_regime, ..Options::default() };
    let scheduled = schedule(program, Machine::CPU).unwrap_or_else(|e| panic!("{e}"));
    Module::compile(&scheduled, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Fresh outputs, filled with garbage.
pub fn outputs(program: &Program, inputs: &[Array]) -> Vec<Array> {
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let binding = Binding::new(program, &inputs).unwrap();
    let rubbish = |id| {
        let mut array = Array::zeros(program.buffers[id].dtype, &binding.shape(program, id).unwrap()).unwrap();
        let bool = program.buffers[id].dtype == Dtype::Bool;
        array.bytes_mut().fill(if bool { 1 } else { 0xa5 });
        array
    };
    program.outputs().into_iter().map(rubbish).collect()
}

/// Runs a module into fresh outputs. The inputs end at unmapped memory.
pub fn run(program: &Program, module: &Module, inputs: &[Array], threads: usize) -> (Result<(), RunError>, Vec<Array>) {
    let mut outputs = outputs(program, inputs);
    let own: Vec<Guarded> = inputs.iter().map(|input| Guarded::of(input.bytes(), Edge::Back).unwrap()).collect();
    let inputs = inputs.iter().zip(&own).map(|(x, own)| ArrayRef::new(x.dtype(), x.shape(), own.bytes()).unwrap());
    let inputs: Vec<ArrayRef<'_>> = inputs.collect();
    let mut given: Vec<ArrayMut<'_>> = outputs.iter_mut().map(Array::as_mut).collect();
    let result = module.run(&inputs, &mut given, threads);
    drop(given);
    (result, outputs)
}

/// Runs both engines on the same inputs, with one and two threads.
pub fn agree(program: &Program, module: &Module, inputs: &[Array], what: &str) {
    holds(program, module, inputs, &expected(program, inputs), what);
}

/// The results of the interpreter.
fn expected(program: &Program, inputs: &[Array]) -> Result<Outcome, interp::nest::RunError> {
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    interp::nest::run(program, &inputs)
}

fn holds(
    program: &Program,
    module: &Module,
    inputs: &[Array],
    expected: &Result<Outcome, interp::nest::RunError>,
    what: &str,
) {
    for threads in [1, 2] {
        let (result, found) = run(program, module, inputs, threads);
        match (expected, result) {
            (Ok(expected), Ok(())) => {
                for (n, (expected, found)) in expected.outputs.iter().zip(&found).enumerate() {
                    if expected != found {
                        let differ: Vec<_> = (0..expected.len())
                            .filter(|k| expected.get(*k) != found.get(*k))
                            .take(5)
                            .map(|k| (k, expected.get(k), found.get(k)))
                            .collect();
                        panic!(
                            "{what}, {threads} threads, output {n}: (element, expected, found) {differ:?}\n{program}"
                        );
                    }
                }
            }
            (Err(interp::nest::RunError::Fault(expected)), Err(RunError::Fault(found))) => {
                assert_eq!(*expected, found, "{what}, {threads} threads\n{program}");
                let untouched = outputs(program, inputs);
                assert!(found_untouched(&untouched, &run(program, module, inputs, threads).1), "outputs after a fault");
            }
            (Err(interp::nest::RunError::Bind(expected)), Err(RunError::Bind(found))) => assert_eq!(*expected, found),
            (expected, found) => {
                panic!("{what}: expected {:?}, found {found:?}\n{program}", expected.as_ref().map(|_| ()))
            }
        }
    }
}

fn found_untouched(before: &[Array], after: &[Array]) -> bool {
    before.iter().zip(after).all(|(a, b)| a.bytes() == b.bytes())
}

/// The types that support arithmetic.
pub fn compute_types() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.into_iter().filter(|d| !d.is_storage())
}

/// Whether an operation with one operand supports a type.
pub fn takes_one(op: UnaryOp, dtype: Dtype) -> bool {
    match op {
        UnaryOp::Not => !dtype.is_float(),
        UnaryOp::Neg | UnaryOp::Abs => dtype != Dtype::Bool,
        _ => dtype.is_float(),
    }
}

/// Whether an operation with two operands supports a type.
pub fn takes_two(op: BinaryOp, dtype: Dtype) -> bool {
    match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => !dtype.is_float(),
        BinaryOp::Shl | BinaryOp::Shr => dtype.is_int(),
        _ => dtype != Dtype::Bool,
    }
}

/// Parses, compiles once, and compares the results for each tuple of sizes.
pub fn check(text: &str, sizes: &[&[i64]]) {
    check_with(text, sizes, false);
}

/// The same, with small integers as inputs.
pub fn check_small(text: &str, sizes: &[&[i64]]) {
    check_with(text, sizes, true);
}

/// The same, in each way of compiling.
pub fn check_ways(text: &str, sizes: &[&[i64]]) {
    let ways = Ways::new(parse(text));
    let mut random = Random(text.len() as u64);
    for sizes in sizes {
        let inputs = inputs(&ways.program, sizes, &mut random, false);
        ways.agree(&inputs, &format!("sizes {sizes:?}"));
    }
}

/// A program, compiled in each way.
pub struct Ways {
    program: Program,
    modules: [((Simd, MemoryRegime), Module); WAYS.len()],
}

impl Ways {
    pub fn new(program: Program) -> Ways {
        let modules = WAYS.map(|way| (way, compile_for(&program, way)));
        Ways { program, modules }
    }

    /// Checks that each way gives the interpreter's results, which are computed once.
    pub fn agree(&self, inputs: &[Array], what: &str) {
        let expected = expected(&self.program, inputs);
        for (way, module) in &self.modules {
            holds(&self.program, module, inputs, &expected, &format!("{way:?}, {what}"));
        }
    }
}

fn check_with(text: &str, sizes: &[&[i64]], small: bool) {
    let program = parse(text);
    let module = compile(&program);
    let mut random = Random(text.len() as u64);
    for sizes in sizes {
        let inputs = inputs(&program, sizes, &mut random, small);
        agree(&program, &module, &inputs, &format!("sizes {sizes:?}"));
    }
}

/// Sizes at which the behaviour changes.
pub const LENGTHS: &[&[i64]] = &[
    &[0],
    &[1],
    &[2],
    &[3],
    &[4],
    &[5],
    &[7],
    &[15],
    &[16],
    &[17],
    &[31],
    &[33],
    &[127],
    &[128],
    &[129],
    &[255],
    &[256],
    &[257],
    &[513],
    &[4095],
    &[4096],
    &[4097],
    &[10000],
    &[12289],
];
