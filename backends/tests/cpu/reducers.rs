//! Reducers that no engine has special code for: states of several values, merged by IR.

use ir::build::Builder;
use ir::nest::{Law, Program, ReducerId};
use ir::{BinaryOp, Dtype, Scalar};

use crate::harness::{Random, WAYS, agree, compile_for, inputs, parse};

/// The sum of the elements and the index of the last one: a reduction that depends on the order for
/// every type.
pub fn counted_sum(program: &mut Program, dtype: Dtype) -> ReducerId {
    let name = format!("counted.{}.{dtype}", program.reducers.len());
    let mut b = Builder::new(program);
    let params = [dtype, Dtype::I64, dtype, Dtype::I64].map(|t| b.value(t));
    let sum = b.binary(BinaryOp::Add, params[0], params[2]);
    let last = b.binary(BinaryOp::Max, params[1], params[3]);
    let identity = vec![Scalar::zero(dtype), Scalar::I64(-1)];
    b.finish_reducer(name, Law::Ordered, identity, params.to_vec(), vec![sum, last])
}

/// Mean and variance by Welford's method, in the form of Chan, Golub and LeVeque ("Updating
/// formulae and a pairwise algorithm for computing sample variances", 1979): the state is a count,
/// a mean and a sum of squares.
const WELFORD: &str = "
  reducer @welford.f64 ordered of (f64 0.0, f64 0.0, f64 0.0) = merge(v0: f64, v1: f64, v2: f64, v3: f64, v4: f64, v5: f64) {
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
  }";

/// The structure of a log-sum-exp: the maximum, and a sum that is rescaled when the maximum grows, by
/// `1 / (1 + d^2)` in place of `exp(d)`: the tests of the whole compiler have one that calls `exp`.
const PAIR: &str = "
  reducer @pair.f64 ordered of (f64 -inf, f64 0.0) = merge(v0: f64, v1: f64, v2: f64, v3: f64) {
    v4 = max v0, v2
    v5 = sub v0, v4
    v6 = sub v2, v4
    v7 = mul v5, v5
    v8 = mul v6, v6
    v9 = const f64 1.0
    v10 = add v7, v9
    v11 = add v8, v9
    v12 = div v1, v10
    v13 = div v3, v11
    v14 = const f64 0.0
    v15 = eq v1, v14
    v16 = eq v3, v14
    v17 = select v15, v14, v12
    v18 = select v16, v14, v13
    v19 = add v17, v18
    yield v4, v19
  }";

fn program(order: &str) -> Program {
    parse(&format!(
        "program @p {{
  symbol n = dim 0 of input 0
  symbol m = dim 1 of input 0
  input %x: f64[n, m]
  output %mean: f64[n]
  output %squares: f64[n]
  output %most: f64[n]
  output %sum: f64[n]
  output %whole: f64
{WELFORD}
{PAIR}
  kernel @k {{
    parallel i < n {{
      v0 = const f64 1.0
      v1 = const f64 0.0
      v2, v3, v4, v5, v6 = reduce j < m {{
        v7 = load %x[i, j]
      }} with @welford.f64 {order} (v0, v7, v1), @pair.f64 {order} (v7, v0)
      store %mean[i], v3
      store %squares[i], v4
      store %most[i], v5
      store %sum[i], v6
    }}
    v8 = const f64 1.0
    v9 = const f64 0.0
    v10, v11, v12 = reduce k < n {{
      v13 = load %mean[k]
    }} with @welford.f64 {order} (v8, v13, v9)
    store %whole[], v11
  }}
}}"
    ))
}

#[test]
fn states_of_several_values() {
    for order in ["lanes", "blocks", "scan"] {
        let program = program(order);
        for way in WAYS {
            let module = compile_for(&program, way);
            for sizes in [[1, 0], [0, 3], [1, 1], [3, 5], [2, 127], [2, 129], [300, 17], [2, 4097], [1, 9000]] {
                let mut random = Random(7 + sizes[1] as u64);
                let inputs = inputs(&program, &sizes, &mut random, false);
                agree(&program, &module, &inputs, &format!("{order} {sizes:?}"));
            }
        }
    }
}

const SCAN: &str = "
  kernel @k {
    scan i < n {
      v0 = load %x[i]
      v1 = const f64 1.0
      v2 = const f64 0.0
      v3 = prefix 1 of @welford.f64 (v1, v0, v2)
      store %y[i], v3
    }
  }
}";

#[test]
fn prefixes_of_states() {
    let head = "program @p {\n  symbol n = dim 0 of input 0\n  input %x: f64[n]\n  output %y: f64[n]\n";
    let program = parse(&format!("{head}{WELFORD}\n{SCAN}"));
    let module = compile_for(&program, WAYS[0]);
    for n in [0, 1, 15, 16, 17, 100, 4096, 5000] {
        let inputs = inputs(&program, &[n], &mut Random(n as u64), false);
        agree(&program, &module, &inputs, &format!("{n}"));
    }
}
