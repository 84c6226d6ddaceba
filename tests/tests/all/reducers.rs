//! Reducers that no engine knows, given as IR text: states of several values, and a merge that
//! calls a function. Every engine gives the bits of the interpreter.

use backends::cpu::{self, Simd};
use backends::ptx::{self, Runner};
use ir::array::{Array, ArrayMut, ArrayRef};
use ir::nest::Program;
use ir::{Dtype, MathFn};
use schedule::{Machine, schedule};
use tests::emulated::Emulated;

/// A log-sum-exp of each row as a reducer: the greatest element, and the sum of
/// `exp(x - greatest)`, which is rescaled when a greater element follows (Milakov and Gimelshein,
/// "Online normalizer calculation for softmax", 2018). Then the variance of all elements by
/// Welford's method, in the form of Chan, Golub and LeVeque ("Updating formulae and a pairwise
/// algorithm for computing sample variances", 1979).
fn program(order: &str) -> Program {
    let text = format!(
        "program @p {{
  symbol n = dim 0 of input 0
  symbol m = dim 1 of input 0
  input %x: f64[n, m]
  output %greatest: f64[n]
  output %sum: f64[n]
  output %mean: f64
  output %squares: f64
  function @exp.f64 = exp(v0: f64) {{ yield v0 }}
  reducer @pair.f64 ordered of (f64 -inf, f64 0.0) = merge(v0: f64, v1: f64, v2: f64, v3: f64) {{
    v4 = max v0, v2
    v5 = sub v0, v4
    v6 = sub v2, v4
    v7 = call @exp.f64(v5)
    v8 = call @exp.f64(v6)
    v9 = mul v1, v7
    v10 = mul v3, v8
    v11 = const f64 0.0
    v12 = eq v1, v11
    v13 = eq v3, v11
    v14 = select v12, v11, v9
    v15 = select v13, v11, v10
    v16 = add v14, v15
    yield v4, v16
  }}
  reducer @welford.f64 ordered of (f64 0.0, f64 0.0, f64 0.0) = merge(v0: f64, v1: f64, v2: f64, v3: f64, v4: f64, v5: f64) {{
    v6 = add v0, v3
    v7 = sub v4, v1
    v8 = div v3, v6
    v9 = fma v7, v8, v1
    v10 = mul v7, v7
    v11 = mul v10, v0
    v12 = mul v11, v8
    v13 = add v2, v5
    v14 = add v13, v12
    v15 = const f64 0.0
    v16 = eq v0, v15
    v17 = eq v3, v15
    v18 = select v17, v1, v9
    v19 = select v16, v4, v18
    v20 = select v17, v2, v14
    v21 = select v16, v5, v20
    yield v6, v19, v21
  }}
  kernel @pairs {{
    parallel i < n {{
      v0 = const f64 1.0
      v1, v2 = reduce j < m {{
        v3 = load %x[i, j]
      }} with @pair.f64 {order} (v3, v0)
      store %greatest[i], v1
      store %sum[i], v2
    }}
  }}
  kernel @variance {{
    v0 = const f64 1.0
    v1 = const f64 0.0
    v2, v3, v4 = reduce i < n, j < m {{
      v5 = load %x[i, j]
    }} with @welford.f64 {order} (v0, v5, v1)
    store %mean[], v3
    store %squares[], v4
  }}
}}"
    );
    let mut program: Program = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    for function in program.functions.values_mut() {
        *function = compiler::math::define(MathFn::Exp, Dtype::F64).unwrap();
    }
    ir::verify::verify(&program).unwrap_or_else(|error| panic!("{error}\n{program}"));
    program
}

/// Elements between -8 and 8.
fn elements(shape: [usize; 2]) -> Array {
    let element = |number: usize| ((number * 7919 + 13) % 1601) as f64 / 100.0 - 8.0;
    let bytes: Vec<u8> = (0..shape[0] * shape[1]).flat_map(|number| element(number).to_ne_bytes()).collect();
    Array::from_bytes(Dtype::F64, &shape, &bytes).unwrap()
}

/// Memory for the results, filled with what none of them is.
fn empty(results: &[Array]) -> Vec<Array> {
    let filled = results.iter().map(|result| {
        let mut array = result.clone();
        array.bytes_mut().fill(0x55);
        array
    });
    filled.collect()
}

#[test]
fn merges_that_call_functions() {
    for order in ["lanes", "blocks", "scan"] {
        let program = program(order);
        let widths = [Simd::Auto, Simd::W128, Simd::W256];
        let options = |simd| cpu::Options { simd, least_share: 0, wake_from: 0, ..cpu::Options::default() };
        let on_cpu = schedule(&program, Machine::CPU).unwrap();
        let modules = widths.map(|simd| cpu::Module::compile(&on_cpu, &options(simd)).unwrap());
        let ptx = ptx::Module::compile(&schedule(&program, Machine::PTX).unwrap()).unwrap();
        let mut runner = Runner::new(ptx, Emulated::new(3), None);
        for shape in [[0, 3], [1, 0], [1, 1], [3, 17], [40, 129], [2, 4100]] {
            let x = elements(shape);
            let inputs: [ArrayRef<'_>; 1] = [x.as_ref()];
            let expected = interp::nest::run(&program, &inputs).unwrap().outputs;
            for (module, simd) in modules.iter().zip(widths) {
                for threads in [1, 2] {
                    let mut found = empty(&expected);
                    let mut lent: Vec<ArrayMut<'_>> = found.iter_mut().map(Array::as_mut).collect();
                    module.run(&inputs, &mut lent, threads).unwrap();
                    assert!(found == expected, "{order} {shape:?} {simd:?} on {threads} threads");
                }
            }
            let mut found = empty(&expected);
            let mut lent: Vec<ArrayMut<'_>> = found.iter_mut().map(Array::as_mut).collect();
            runner.call(&inputs, &mut lent, None).unwrap();
            assert!(found == expected, "{order} {shape:?} as PTX");
        }
    }
}
