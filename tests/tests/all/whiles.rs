//! Loops over carried scalars give the bits of the nest interpreter on every engine, in every
//! place where one may stand, whatever ends them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use backends::cpu::{Module, Options, RunError, Simd};
use ir::array::Array;
use ir::nest::Program;
use ir::{Dtype, Scalar};
use schedule::{Machine, schedule};
use tests::engines::Outcome;
use tests::generate::data::Random;

use crate::everywhere;

/// The numbers of rows and columns in each call.
const SIZES: [[usize; 2]; 5] = [[0, 3], [1, 1], [7, 5], [33, 4], [70, 3]];

/// How every call with several rows ends.
#[derive(PartialEq)]
enum Ends {
    Well,
    /// In a failed check, if there are many rows.
    InFault,
}

/// Elements are small, and those of `%k` between -2 and 6.
fn calls(program: &Program, sizes: &[[usize; 2]]) -> Vec<Vec<Array>> {
    let mut random = Random::new(7);
    let mut array = |dtype, shape: &[usize]| {
        let mut element = || match dtype {
            Dtype::F32 => Scalar::F32(random.below(64) as f32 / 32.0 - 1.0),
            Dtype::F64 => Scalar::F64(random.below(640) as f64 / 32.0),
            _ => Scalar::I64(random.below(9) - 2),
        };
        let elements: Vec<Scalar> = (0..shape.iter().product()).map(|_| element()).collect();
        Array::from_scalars(dtype, shape, &elements).unwrap()
    };
    let dtypes: Vec<(Dtype, usize)> =
        program.inputs().into_iter().map(|id| (program.buffers[id].dtype, program.buffers[id].shape.len())).collect();
    sizes.iter().map(|shape| dtypes.iter().map(|(dtype, rank)| array(*dtype, &shape[..*rank])).collect()).collect()
}

fn holds_everywhere(outputs: &str, kernels: &str, ends: Ends) {
    let text = format!(
        "program @p {{
           symbol n = dim 0 of input 0
           symbol m = dim 1 of input 0
           input %x: f32[n, m]
           input %d: f64[n]
           input %k: i64[n]
           {outputs}
           site0 = axis 0 of \"a\" at 0..0
           {kernels}
         }}"
    );
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let calls = calls(&program, &SIZES);
    for seed in [1, 2] {
        let ran = everywhere::run(&program, seed, &calls).unwrap_or_else(|e| panic!("{e}"));
        let expected = |outcome: &Outcome| match ends {
            Ends::Well => matches!(outcome, Outcome::Results(_)),
            Ends::InFault => matches!(outcome, Outcome::Fault(_)),
        };
        assert!(ran.outcomes.iter().skip(3).all(expected), "{:?}\n{program}", ran.outcomes);
    }
}

/// Points that escape after different numbers of steps, or never.
const ESCAPE: &str = "
  v0 = load %x[i, 0] v1 = load %d[i] v2 = cast f32 v1 v60 = const f32 0.03125 v61 = mul v2, v60
  v3 = const f32 0.0 v4 = const i64 0
  v5, v6, v7 = while t < 50 with v8 = v3, v9 = v3, v10 = v4 if {
    v11 = mul v8, v8 v12 = fma v9, v9, v11 v13 = const f32 4.0 v14 = lt v12, v13
    yield v14
  } do {
    v15 = mul v8, v8 v16 = mul v9, v9 v17 = sub v15, v16 v18 = add v17, v0
    v19 = mul v8, v9 v20 = add v19, v19 v21 = add v20, v61
    v22 = const i64 1 v23 = add v10, v22
    yield v18, v21, v23
  }";

#[test]
fn escape_times() {
    let kernel = format!("kernel @k {{ parallel i < n {{ {ESCAPE} store %y[i], v7 store %z[i], v5 }} }}");
    holds_everywhere("output %y: i64[n] output %z: f32[n]", &kernel, Ends::Well);
}

#[test]
fn in_reductions_and_scans() {
    let kernels = format!(
        "kernel @r {{ v50, v51 = reduce i < n {{ {ESCAPE} }} with sum lanes v5, sum free v7 store %s[], v50 store %u[], v51 }}
         kernel @b {{ v50 = reduce i < n {{ {ESCAPE} }} with sum blocks v6 store %b[], v50 }}
         kernel @p {{ scan i < n {{ {ESCAPE} v50 = prefix sum v7 store %p[i], v50 }} }}"
    );
    holds_everywhere("output %s: f32 output %u: i64 output %b: f32 output %p: i64[n]", &kernels, Ends::Well);
}

/// The condition compares with NaN in some rows, which ends the loop.
#[test]
fn newton() {
    let kernel = "kernel @k { parallel i < n {
      v0 = load %d[i] v1 = const f64 9.0 v2 = sub v0, v1
      v3 = while t < 100 with v4 = v2 if {
        v5 = fma v4, v4, v6 v7 = abs v5 v8 = const f64 1.0e-12 v9 = gt v7, v8 yield v9
      } do {
        v10 = div v2, v4 v11 = add v4, v10 v12 = const f64 0.5 v13 = mul v11, v12 v14 = sqrt v13 v15 = add v13, v14
        v16 = sub v15, v14 yield v16
      }
      store %y[i], v3 } }";
    let kernel = kernel.replace("v3 = while", "v6 = neg v2 v3 = while");
    holds_everywhere("output %y: f64[n]", &kernel, Ends::Well);
}

#[test]
fn integers_of_all_widths() {
    let kernel = |dtype: &str, y: &str| {
        format!(
            "kernel @{y} {{ parallel i < n {{
               v0 = load %k[i] v1 = affine 3 * i + 3 v2 = add v0, v1 v3 = cast {dtype} v2 v4 = const {dtype} 0
               v5, v6, v7 = while t < 120 with v8 = v3, v9 = v4, v10 = v4 if {{
                 v11 = const {dtype} 1 v12 = gt v8, v11 yield v12
               }} do {{
                 v13 = const {dtype} 1 v14 = and v8, v13 v15 = eq v14, v4
                 v16 = const {dtype} 3 v17 = mul v8, v16 v18 = add v17, v13
                 v19 = if v15 {{ v20 = shr v8, v13 yield v20 }} else {{ yield v18 }}
                 v21 = add v9, v13 v22 = affine t v23 = cast {dtype} v22 v24 = add v10, v23
                 yield v19, v21, v24
               }}
               v25 = add v6, v7 store %{y}[i], v25 }} }}"
        )
    };
    let kernels = [("i32", "a"), ("i64", "b"), ("u32", "c"), ("u64", "e")].map(|(dtype, y)| kernel(dtype, y)).concat();
    holds_everywhere("output %a: i32[n] output %b: i64[n] output %c: u32[n] output %e: u64[n]", &kernels, Ends::Well);
}

/// The extent is data, and may be 0 or negative. The two values change places.
#[test]
fn extents_from_data() {
    let kernel = "kernel @k { parallel i < n {
      v0 = load %k[i] v1 = const f32 0.0 v2 = const f32 1.0
      v3, v4 = while t < v0 with v5 = v1, v6 = v2 do { v7 = add v5, v6 yield v6, v7 }
      v8 = while u < n - i - 5 with v9 = v3 do { v10 = add v9, v2 yield v10 }
      v11 = while w < 0 with v12 = v8 do { v13 = neg v12 yield v13 }
      store %y[i], v11 store %z[i], v4 } }";
    holds_everywhere("output %y: f32[n] output %z: f32[n]", kernel, Ends::Well);
}

#[test]
fn nested() {
    let kernel = "kernel @k { parallel i < n {
      v0 = load %x[i, 0] v1 = load %k[i]
      v2, v3 = while t < 6 with v4 = v0, v5 = v1 if {
        v6 = const i64 20 v7 = lt v5, v6 yield v7
      } do {
        v8, v9 = while u < t + 2 with v10 = v4, v11 = v5 if {
          v12 = const f32 3.0 v13 = lt v10, v12 yield v13
        } do {
          v14 = const f32 0.75 v15 = add v10, v14 v16 = const i64 1 v17 = add v11, v16 yield v15, v17
        }
        v18 = const f32 -0.5 v19 = mul v8, v18 v20 = affine t v21 = add v9, v20
        yield v19, v21
      }
      store %y[i], v2 store %z[i], v3 } }";
    holds_everywhere("output %y: f32[n] output %z: i64[n]", kernel, Ends::Well);
}

/// Rows that are added up until a limit; the counter is in a subscript.
const ROW: &str = "
  v0 = const f32 0.0 v1 = const i64 0
  v2, v3 = while t < m with v4 = v0, v5 = v1 if {
    v6 = const f32 0.5 v7 = lt v4, v6 yield v7
  } do {
    v8 = load %x[i, t] v9 = add v4, v8 v10 = affine t yield v9, v10
  }";

#[test]
fn loads_at_the_counter() {
    let kernels = format!(
        "kernel @k {{ parallel i < n {{ {ROW} store %y[i], v2 store %z[i], v3 }} }}
         kernel @r {{ v20 = reduce i < n {{ {ROW} }} with max free v2 store %s[], v20 }}"
    );
    holds_everywhere("output %y: f32[n] output %z: i64[n] output %s: f32", &kernels, Ends::Well);
}

/// The same element in all rows, which only rows with steps to take may load.
#[test]
fn loads_that_rows_share() {
    let kernel = "kernel @k { parallel i < n {
      v0 = load %k[i] v1 = const f64 0.0
      v2 = while t < v0 with v3 = v1 if {
        v4 = affine t - n v5 = const i64 0 v6 = lt v4, v5 yield v6
      } do {
        v7 = load %d[t] v8 = add v3, v7 yield v8
      }
      store %y[i], v2 } }";
    holds_everywhere("output %y: f64[n]", kernel, Ends::Well);
}

/// Follows subscripts from element to element; they stay inside if they are `wrapped`.
fn chase(wrapped: bool) -> String {
    let place = if wrapped { "v15 = rem v13, v14" } else { "v15 = add v13, v14" };
    format!(
        "kernel @k {{ parallel i < n {{
           v0 = affine i v1 = const i64 0 v2 = load %k[i]
           v3, v4 = while t < v2 with v5 = v0, v6 = v1 if {{
             v7 = check v5 < n at site0 v8 = load %k[v7] v9 = const i64 4 v10 = ne v8, v9 yield v10
           }} do {{
             v11 = load %k[v5] v12 = abs v11 v13 = add v5, v12 v14 = affine n {place}
             v16 = check v15 < n at site0 v17 = load %x[v16, m - 1] v18 = cast i64 v17 v19 = add v6, v18
             yield v16, v19
           }}
           store %y[i], v3 store %z[i], v4 }} }}"
    )
}

#[test]
fn checks_in_steps() {
    holds_everywhere("output %y: i64[n] output %z: i64[n]", &chase(true), Ends::Well);
    holds_everywhere("output %y: i64[n] output %z: i64[n]", &chase(false), Ends::InFault);
}

#[test]
fn reductions_in_steps() {
    let kernel = "kernel @k { parallel i < n {
      v0 = const f32 1.0
      v1 = while t < 4 with v2 = v0 if {
        v3 = reduce j < m { v4 = load %x[i, j] v5 = mul v4, v2 } with max free v5 v6 = const f32 0.1 v7 = gt v3, v6 yield v7
      } do {
        v8 = reduce l < m { v9 = load %x[i, l] v10 = mul v9, v2 } with sum lanes v10 yield v8
      }
      store %y[i], v1 } }";
    holds_everywhere("output %y: f32[n]", kernel, Ends::Well);
}

/// Without a loop around, and with a loop that uses the result.
#[test]
fn alone_in_a_kernel() {
    let kernels = "kernel @a {
      v0 = const f32 0.0
      v1 = while t < n with v2 = v0 if { v3 = const f32 8.0 v4 = lt v2, v3 yield v4 } do {
        v5 = load %x[t, 0] v6 = abs v5 v7 = add v2, v6 yield v7
      }
      store %y[], v1
      parallel i < n { v8 = load %x[i, 0] v9 = mul v8, v1 store %z[i], v9 } }
    kernel @b {
      v0 = const f32 1.0
      v1 = while t < 5 with v2 = v0 do { v3 = reduce i < n { v4 = load %x[i, 0] v5 = mul v4, v2 } with sum lanes v5 yield v3 }
      store %s[], v1 }";
    holds_everywhere("output %y: f32 output %z: f32[n] output %s: f32", kernels, Ends::Well);
}

#[test]
fn states_of_all_types() {
    let kernels = "kernel @k { parallel i < n {
      v0 = load %x[i, 0] v1 = cast f16 v0 v2 = cast i8 v0 v3 = const bool true v4 = cast u8 v0
      v5, v6, v7, v8 = while t < 9 with v9 = v1, v10 = v2, v11 = v3, v12 = v4 if { yield v11 } do {
        v13 = cast f32 v9 v14 = const f32 0.3 v15 = add v13, v14 v16 = cast f16 v15
        v17 = cast i32 v10 v18 = const i32 100 v19 = add v17, v18 v20 = cast i8 v19
        v21 = const f32 1.0 v22 = lt v15, v21 v23 = cast i32 v12 v24 = sub v23, v18 v25 = cast u8 v24
        yield v16, v20, v22, v25
      }
      store %a[i], v5 store %b[i], v6 store %c[i], v7 store %e[i], v8 } }
    kernel @w { parallel i < n {
      v0 = load %d[i] v1 = load %x[i, 0] v2 = const bool true v3 = const bool false
      v4, v5, v6, v7 = while t < 9 with v8 = v0, v9 = v1, v10 = v2, v11 = v3 if { yield v10 } do {
        v12 = sqrt v8 v13 = neg v9 v14 = cast f64 v13 v15 = const f64 1.5 v16 = add v14, v15 v17 = gt v12, v16
        v18 = xor v11, v17 v19 = not v18 yield v12, v13, v17, v19
      }
      store %f[i], v4 store %g[i], v5 store %h[i], v6 store %l[i], v7 } }";
    let outputs = "output %a: f16[n] output %b: i8[n] output %c: bool[n] output %e: u8[n]
      output %f: f64[n] output %g: f32[n] output %h: bool[n] output %l: bool[n]";
    holds_everywhere(outputs, kernels, Ends::Well);
}

/// Loads and long computations in a branch of the body.
#[test]
fn branches_in_steps() {
    let kernel = "kernel @k { parallel i < n {
      v0 = load %k[i] v1 = const f32 0.0
      v2, v3 = while t < 12 with v4 = v0, v5 = v1 if { v6 = const i64 9 v7 = lt v4, v6 yield v7 } do {
        v8 = const i64 3 v9 = lt v4, v8
        v10 = if v9 {
          v11 = load %x[i, 0] v12 = add v11, v5 v13 = mul v12, v12 v14 = sqrt v13 v15 = div v14, v12 v16 = fma v15, v12, v13
          v17 = mul v16, v12 v18 = sqrt v17 yield v18
        } else { v19 = neg v5 yield v19 }
        v20 = const i64 1 v21 = add v4, v20
        yield v21, v10
      }
      store %y[i], v3 } }";
    holds_everywhere("output %y: f32[n]", kernel, Ends::Well);
}

#[test]
fn around_products() {
    let kernel = "kernel @k {
      v0 = contract i < n, j < n over l < m {
        left {
          v1 = load %x[i, l]
          v2 = while t < 2 with v3 = v1 do { v4 = add v3, v3 yield v4 }
          yield v2
        }
        right { v5 = load %x[j, l] yield v5 }
        epilogue {
          v6 = while u < 8 with v7 = v0 if { v8 = const f32 64.0 v9 = lt v7, v8 yield v9 } do { v10 = add v7, v7 yield v10 }
          store %y[i, j], v6
        }
      } }
    kernel @s { parallel i < n { v0 = load %y[i, 0] store %z[i], v0 } }";
    holds_everywhere("temp %y: f32[n, n] output %z: f32[n]", kernel, Ends::Well);
}

/// More and more states, until no register is left for one; a loop in the steps, and a branch that
/// is skipped if no row takes it.
#[test]
fn many_states() {
    for (dtype, count) in [("f64", 3), ("f64", 5), ("f64", 6), ("f64", 8), ("f32", 9), ("f32", 13), ("f32", 17)] {
        let list = |name: &str| (0..count).map(|k| format!("v{name}{k}")).collect::<Vec<_>>().join(", ");
        let mut first = String::new();
        let mut next = String::new();
        let mut carried = vec![];
        let mut sum = String::new();
        for k in 0..count {
            first += &format!("v50{k} = const {dtype} {k}.25 v20{k} = mul v2, v50{k} ");
            carried.push(format!("v30{k} = v20{k}"));
            next += &format!("v40{k} = fma v30{k}, v4, v30{} ", (k + 1) % count);
            if k > 0 {
                sum += &format!("v60{k} = add v60{}, v10{k} ", k - 1);
            }
        }
        let steps = "v800 = mul v300, v300 ".to_owned()
            + &(1..20).map(|k| format!("v80{k} = fma v80{}, v4, v301 ", k - 1)).collect::<String>();
        let kernel = format!(
            "kernel @k {{ parallel i < n {{
               v1 = load %d[i] v2 = cast {dtype} v1 v3 = const {dtype} 40.0 v4 = const {dtype} 0.5 v5 = const {dtype} 9.0
               {first}
               {} = while t < 20 with {} if {{ v6 = lt v300, v3 yield v6 }} do {{
                 {next}
                 v7 = gt v300, v5
                 v8 = if v7 {{ {steps} yield v8019 }} else {{ yield v400 }}
                 v9 = while u < 3 with v70 = v8 if {{ v71 = lt v70, v5 yield v71 }} do {{ v72 = add v70, v401 yield v72 }}
                 yield v9{}
               }}
               v600 = add v100, v2 {} store %y[i], v60{} }} }}",
            list("10"),
            carried.join(", "),
            (1..count).map(|k| format!(", v40{k}")).collect::<String>(),
            sum,
            count - 1,
        );
        holds_everywhere(&format!("output %y: {dtype}[n]"), &kernel, Ends::Well);
    }
}

/// In vectors, in scalar code, and alone in a kernel: each step looks whether the run is cancelled.
#[test]
fn long_loops_can_be_cancelled() {
    let long = "while t < 1000000000000 with v2 = v0 do";
    for kernel in [
        format!("parallel i < n {{ v0 = load %x[i] v1 = {long} {{ v3 = sqrt v2 yield v3 }} store %y[i], v1 }}"),
        format!("parallel i < n {{ v0 = load %x[i] v1 = {long} {{ v3 = load %x[i] yield v3 }} store %y[i], v1 }}"),
        format!("v0 = const f32 2.0 v1 = {long} {{ v3 = sqrt v2 yield v3 }} parallel i < n {{ store %y[i], v1 }}"),
    ] {
        let text = format!(
            "program @p {{ symbol n = dim 0 of input 0 input %x: f32[n] output %y: f32[n] kernel @k {{ {kernel} }} }}"
        );
        let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let x = Array::from(vec![3.0f32; 100]);
        let scheduled = schedule(&program, Machine::CPU).unwrap();
        for simd in [Simd::W128, Simd::Auto] {
            let module = Module::compile(&scheduled, &Options { simd, ..Options::default() }).unwrap();
            let (cancelled, mut y) = (AtomicBool::new(false), x.clone());
            let result = thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(30));
                    cancelled.store(true, Ordering::Relaxed);
                });
                module.run_unless(&[x.as_ref()], &mut [y.as_mut()], 1, &cancelled)
            });
            assert!(matches!(result, Err(RunError::Cancelled)), "{simd:?}: {result:?}\n{text}");
        }
        let cancelled = AtomicBool::new(true);
        let result = interp::nest::run_unless(&program, &[x.as_ref()], &cancelled);
        assert!(matches!(result, Err(interp::nest::RunError::Cancelled)));
    }
}
