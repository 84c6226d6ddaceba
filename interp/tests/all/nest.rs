//! Each construct of the IR, run from text.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use interp::nest::{Outcome, Problem, RunError, run, run_unless};
use ir::bind::Fault;
use ir::nest::{Program, SiteId};
use ir::{Array, Scalar};

fn program(text: &str) -> Program {
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}"));
    ir::verify::verify(&program).unwrap_or_else(|e| panic!("{e}"));
    program
}

fn try_run(text: &str, inputs: &[Array]) -> Result<Outcome, RunError> {
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    run(&program(text), &inputs)
}

fn one(text: &str, inputs: &[Array]) -> Array {
    try_run(text, inputs).unwrap().outputs.remove(0)
}

fn f32s(values: impl IntoIterator<Item = f32>) -> Array {
    Array::from(values.into_iter().collect::<Vec<f32>>())
}

fn f32_matrix(n: usize, m: usize, values: impl Fn(usize, usize) -> f32) -> Array {
    Array::from_slice(&[n, m], &(0..n * m).map(|k| values(k / m, k % m)).collect::<Vec<f32>>()).unwrap()
}

fn i64s(values: impl IntoIterator<Item = i64>) -> Array {
    Array::from(values.into_iter().collect::<Vec<i64>>())
}

/// Values of mixed sign and magnitude, so that every order gives a different sum.
fn rough(n: usize) -> Vec<f32> {
    (0..n as u32)
        .map(|k| ((k.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0) * 1.7f32.powi((k % 41) as i32))
        .collect()
}

/// The first of the greatest elements, with its number.
const ARGMAX: &str = "reducer @argmax.f32 first max of (f32 -inf, i64 0) = merge(v0: f32, v1: i64, v2: f32, v3: i64) {
  v4 = gt v2, v0 v5 = ne v2, v2 v6 = eq v0, v0 v7 = and v5, v6 v8 = or v4, v7
  v9 = gt v0, v2 v10 = ne v0, v0 v11 = eq v2, v2 v12 = and v10, v11 v13 = or v9, v12
  v14 = lt v3, v1 v15 = not v13 v16 = and v15, v14 v17 = or v8, v16
  v18 = select v17, v2, v0 v19 = select v17, v3, v1 yield v18, v19 }";

fn vector_program(header: &str, body: &str) -> String {
    format!("program @p {{ symbol n = dim 0 of input 0 input %x: f32[n] {header} kernel @k {{ {body} }} }}")
}

fn sum(order: &str, x: &[f32]) -> f32 {
    let text = vector_program(
        "output %s: f32",
        &format!("v1 = reduce i < n {{ v0 = load %x[i] }} with sum {order} v0 store %s[], v1"),
    );
    let Some(Scalar::F32(sum)) = one(&text, &[f32s(x.iter().copied())]).get(0) else { unreachable!() };
    sum
}

/// Pairwise, by recursion on the largest power of two below the length instead of level after
/// level.
fn tree(x: &[f32]) -> f32 {
    match x.len() {
        0 => 0.0,
        1 => x[0],
        n => {
            let left = n.next_power_of_two() / 2;
            tree(&x[..left]) + tree(&x[left..])
        }
    }
}

#[test]
fn sums_by_lanes() {
    for n in [0, 1, 127, 128, 129, 4096, 5000, 13_000] {
        let x = rough(n);
        let chunk = |chunk: &[f32]| {
            let mut padded = chunk.to_vec();
            padded.resize(4096, 0.0);
            let mut lanes: Vec<f32> = (0..128).map(|l| (0..32).fold(0.0, |a, row| a + padded[row * 128 + l])).collect();
            while lanes.len() > 1 {
                let (low, high) = lanes.split_at(lanes.len() / 2);
                lanes = low.iter().zip(high).map(|(a, b)| a + b).collect();
            }
            lanes[0]
        };
        let expected = tree(&x.chunks(4096).map(chunk).collect::<Vec<_>>());
        assert_eq!(sum("lanes", &x).to_bits(), expected.to_bits(), "{n}");
    }
}

#[test]
fn sums_by_blocks() {
    for n in [0, 1, 255, 256, 257, 5000] {
        let x = rough(n);
        let expected = tree(&x.chunks(256).map(|b| b.iter().fold(0.0, |a, v| a + v)).collect::<Vec<_>>());
        assert_eq!(sum("blocks", &x).to_bits(), expected.to_bits(), "{n}");
    }
}

/// All prefixes at once, group by group.
fn prefixes(x: &[f32]) -> Vec<f32> {
    let (mut out, mut chunk_carry) = (vec![], 0.0);
    for chunk in x.chunks(4096) {
        let mut carry = 0.0;
        for group in chunk.chunks(16) {
            let mut p = group.to_vec();
            for d in [1, 2, 4, 8] {
                for i in (d..p.len()).rev() {
                    p[i] += p[i - d];
                }
            }
            out.extend(p.iter().map(|p| chunk_carry + (carry + p)));
            carry += p[p.len() - 1];
        }
        chunk_carry += carry;
    }
    out
}

#[test]
fn scans() {
    let x = rough(9001);
    let text = vector_program(
        &format!("output %y: f32[n] output %m: i64[n] output %h: f32[n] {ARGMAX}"),
        "scan i < n { v0 = load %x[i] v1 = prefix sum v0 v2 = prefix 1 of @argmax.f32 (v0, number) v3 = prefix max v0
         store %y[i], v1 store %m[i], v2 store %h[i], v3 }",
    );
    let outcome = try_run(&text, &[f32s(x.iter().copied())]).unwrap();
    assert_eq!(outcome.outputs[0], f32s(prefixes(&x)));
    let (mut best, mut numbers, mut highest) = (0, vec![], vec![]);
    for k in 0..x.len() {
        best = if x[k] > x[best] { k } else { best };
        numbers.push(best as i64);
        highest.push(x[best]);
    }
    assert_eq!(outcome.outputs[1], i64s(numbers));
    assert_eq!(outcome.outputs[2], f32s(highest));
    assert_eq!(sum("scan", &x).to_bits(), prefixes(&x)[9000].to_bits());
    assert_eq!(sum("scan", &[]).to_bits(), 0);
}

#[test]
fn reductions_of_every_kind() {
    let text = vector_program(
        &format!(
            "output %max: f32 output %min: f32 output %best: f32 output %argmax: i64 output %any: bool output %all: bool
             output %prod: f32 {ARGMAX}"
        ),
        "v8 = const f32 2.0
         v1, v2, v3, v4, v5, v6, v7 = reduce i < n { v0 = load %x[i] v9 = lt v0, v8 }
           with max free v0, min free v0, @argmax.f32 free (v0, number), any free v9, all free v9, prod lanes v0
         store %max[], v1 store %min[], v2 store %best[], v3 store %argmax[], v4
         store %any[], v5 store %all[], v6 store %prod[], v7",
    );
    let scalars = |x: &[f32]| {
        let outcome = try_run(&text, &[f32s(x.iter().copied())]).unwrap();
        outcome.outputs.iter().map(|o| ir::print::scalar(o.get(0).unwrap())).collect::<Vec<_>>().join(" ")
    };
    insta::assert_snapshot!(scalars(&[]), @"-inf inf -inf 0 false true 1.0");
    insta::assert_snapshot!(scalars(&[1.0, 3.0, -2.0, 3.0]), @"3.0 -2.0 3.0 1 true false -18.0");
    insta::assert_snapshot!(scalars(&[1.0, f32::NAN, -2.0, f32::NAN]), @"nan nan nan 1 true false nan");
    insta::assert_snapshot!(scalars(&[-0.0, 0.0]), @"0.0 -0.0 -0.0 0 true true -0.0");
}

#[test]
fn softmax_over_rows() {
    let text = "program @softmax {
        symbol n = dim 0 of input 0
        symbol m = dim 1 of input 0
        input %x: f32[n, m]
        output %y: f32[n, m]
        temp %hi: f32[n]
        kernel @max {
          parallel i < n {
            v1 = reduce j < m { v0 = load %x[i, j] } with max free v0
            store %hi[i], v1
          }
        }
        kernel @sub {
          parallel i < n, j < m {
            v0 = load %x[i, j]
            v1 = load %hi[i]
            v2 = sub v0, v1
            store %y[i, j], v2
          }
        }
      }";
    let x = f32_matrix(3, 4, |i, j| (i * 4 + j) as f32);
    let outcome = try_run(text, &[x]).unwrap();
    assert_eq!(outcome.outputs[0], f32_matrix(3, 4, |_, j| j as f32 - 3.0));
    let traffic = |kernel: usize| outcome.traffic[kernel].values().map(|t| (t.loads, t.stores)).collect::<Vec<_>>();
    assert_eq!(traffic(0), [(12, 0), (0, 3)]);
    assert_eq!(traffic(1), [(12, 0), (0, 12), (12, 0)]);
    assert_eq!(outcome.traffic[1].values().nth(1).unwrap().bytes(), 48);
    assert_eq!(one(text, &[f32_matrix(0, 4, |_, _| 0.0)]).shape(), [0, 4]);
    assert_eq!(one(text, &[f32_matrix(4, 0, |_, _| 0.0)]).shape(), [4, 0]);
}

#[test]
fn contractions() {
    let text = "program @p {
        symbol n = dim 0 of input 0
        symbol k = dim 1 of input 0
        symbol m = dim 1 of input 1
        input %a: f32[n, k]
        input %b: f32[k, m]
        output %c: f32[n, m]
        kernel @mm {
          v2 = contract i < n, j < m over l < k {
            left { v0 = load %a[i, l] yield v0 }
            right { v1 = load %b[l, j] yield v1 }
            epilogue { v3 = const f32 1.0 v4 = add v2, v3 store %c[i, j], v4 }
          }
        }
      }";
    let c = one(text, &[f32_matrix(2, 3, |i, l| (i + l) as f32), f32_matrix(3, 4, |l, j| (l * j) as f32)]);
    let expected = |i: usize, j: usize| (0..3).map(|l| ((i + l) * (l * j)) as f32).sum::<f32>() + 1.0;
    assert_eq!(c, f32_matrix(2, 4, expected));
    let c = one(text, &[f32_matrix(2, 0, |_, _| 0.0), f32_matrix(0, 4, |_, _| 0.0)]);
    assert_eq!(c, f32_matrix(2, 4, |_, _| 1.0));
}

#[test]
fn guards_and_joined_values() {
    let text = vector_program(
        "output %y: f32[n]",
        "parallel i < n {
           v0 = affine i v1 = const i64 0 v2 = gt v0, v1
           v5 = if v2 { v3 = load %x[i - 1] yield v3 } else { v4 = const f32 7.0 yield v4 }
           store %y[i], v5
         }",
    );
    assert_eq!(one(&text, &[f32s([1.0, 2.0, 3.0])]), f32s([7.0, 1.0, 2.0]));
}

const GATHER: &str = r#"program @p {
    symbol n = dim 0 of input 0
    symbol m = dim 0 of input 1
    input %x: f32[n]
    input %idx: i64[m]
    output %y: f32[m]
    site0 = axis 0 of "x" at 1..2
    kernel @gather {
      parallel i < m {
        v0 = load %idx[i]
        v1 = check v0 < n at site0
        v2 = load %x[v1]
        store %y[i], v2
      }
    }
  }"#;

#[test]
fn gathers_and_faults() {
    let x = || f32s([1.0, 2.0, 3.0]);
    assert_eq!(one(GATHER, &[x(), i64s([2, 0, 2])]), f32s([3.0, 1.0, 3.0]));
    for index in [3, -1, i64::MIN] {
        let fault = Fault { site: SiteId::from_u32(0), index, bound: 3 };
        assert_eq!(try_run(GATHER, &[x(), i64s([0, index])]).unwrap_err(), RunError::Fault(fault));
    }
}

#[test]
fn extents_from_indices_and_data() {
    let text = "program @p {
        symbol n = dim 0 of input 0
        input %len: i64[n]
        output %y: i64[n]
        output %z: i64[n]
        kernel @k {
          parallel i < n {
            v0 = load %len[i]
            v2 = reduce j < v0 { v1 = affine j } with sum free v1
            v4 = reduce t < i + 1 { v3 = affine t } with sum free v3
            store %y[i], v2
            store %z[i], v4
          }
        }
      }";
    let outcome = try_run(text, &[i64s([3, 0, -5, 4])]).unwrap();
    assert_eq!(outcome.outputs, [i64s([3, 0, 0, 6]), i64s([0, 1, 3, 6])]);
}

#[test]
fn views_see_the_same_elements() {
    let text = "program @p {
        symbol n = dim 0 of input 0
        symbol m = dim 1 of input 0
        input %x: f32[n, m]
        output %y: f32[n * m]
        kernel @k { parallel i < n * m { v0 = load %x as [n * m][i] store %y[i], v0 } }
      }";
    assert_eq!(one(text, &[f32_matrix(2, 3, |i, j| (3 * i + j) as f32)]), f32s((0..6).map(|k| k as f32)));
    assert_eq!(one(text, &[f32_matrix(2, 0, |_, _| 0.0)]).len(), 0);
    let wrong = text.replace("as [n * m]", "as [n]");
    let error = try_run(&wrong, &[f32_matrix(2, 3, |_, _| 0.0)]).unwrap_err();
    insta::assert_debug_snapshot!(error, @r#"
    Internal {
        kernel: "k",
        access: "v0 = load %x as [n][i]",
        problem: View,
    }
    "#);
}

#[test]
fn constants_and_functions() {
    let text = "program @p {
        output %y: f32[3]
        constant %c: f32[3] = [1.0, -2.0, 3.5]
        function @relu.f32 = relu(v0: f32) { v1 = const f32 0.0 v2 = max v0, v1 yield v2 }
        kernel @k { parallel i < 3 { v0 = load %c[2 - i] v1 = call @relu.f32(v0) store %y[i], v1 } }
      }";
    assert_eq!(one(text, &[]), f32s([3.5, 0.0, 1.0]));
}

/// Rules that `verify` cannot check are enforced by a run.
#[test]
fn broken_rules_are_found() {
    let problem = |header: &str, body: &str| match try_run(&vector_program(header, body), &[f32s([1.0, 2.0])]) {
        Err(RunError::Internal { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    let y = "output %y: f32[n] temp %t: f32[n]";
    let outside = Problem::Outside { axis: 0, index: 2, length: 2 };
    assert_eq!(problem(y, "parallel i < n { v0 = load %x[i + 1] store %y[i], v0 }"), outside);
    assert_eq!(problem(y, "parallel i < n { v0 = load %x[i] store %y[i + 1], v0 }"), outside);
    assert_eq!(problem(y, "parallel i < n { v0 = load %x[i] store %y[0], v0 }"), Problem::StoredTwice);
    assert_eq!(problem(y, "parallel i < n { v0 = load %t[i] store %y[i], v0 }"), Problem::NotStored);
    assert_eq!(problem(y, "v0 = const f32 1.0 store %y[0], v0"), Problem::Missing);
    // Another iteration of a parallel loop may not have run yet; an earlier loop has.
    let shifted = "v0 = load %x[i] store %t[i], v0 v1 = load %t[0] store %y[i], v1";
    assert_eq!(problem(y, &format!("parallel i < n {{ {shifted} }}")), Problem::NotStored);
    assert_eq!(problem(y, &format!("parallel i < n {{ parallel j < 1 {{ {shifted} }} }}")), Problem::NotStored);
    let earlier =
        "parallel i < n { v0 = load %x[i] store %t[i], v0 } parallel j < n { v1 = load %t[0] store %y[j], v1 }";
    assert!(try_run(&vector_program(y, earlier), &[f32s([1.0, 2.0])]).is_ok());
}

/// Buffers that share a slot. The verifier would reject these programs; the interpreter must find
/// out by itself.
#[test]
fn slots_hold_what_is_needed() {
    let run_with = |slot: &str, kernels: &str| {
        let text = format!(
            "program @p {{ symbol n = dim 0 of input 0 input %x: f32[n] output %y: f32[n] temp %t: f32[n] temp %u: f32[n]
             temp %b: i8[4 * n] slot0 = {slot} {kernels} }}"
        );
        match run(&text.parse().unwrap(), &[f32s([1.0, 2.0, 3.0]).as_ref()]) {
            Ok(outcome) => Ok(outcome.outputs[0].clone()),
            Err(RunError::Internal { problem, .. }) => Err(problem),
            Err(other) => panic!("{other:?}"),
        }
    };
    let map = |name: &str, from: &str, at: &str, to: &str| {
        format!("kernel @{name} {{ parallel i < n {{ v0 = load %{from}[{at}] v1 = add v0, v0 store %{to}[i], v1 }} }}")
    };
    let chain = |at: &str| [map("a", "x", "i", "t"), map("b", "t", at, "u"), map("c", "u", "i", "y")].concat();
    assert_eq!(run_with("%t, %u, %y", &chain("i")), Ok(f32s([8.0, 16.0, 24.0])));
    assert_eq!(run_with("%t, %y", &chain("n - i - 1")), Ok(f32s([24.0, 16.0, 8.0])));
    // Element 2 is overwritten before it is read, or (in another order) read before it is
    // overwritten.
    for at in ["n - i - 1", "0", "n - 1"] {
        assert_eq!(run_with("%t, %u", &chain(at)), Err(Problem::Overwritten), "{at}");
    }
    let ahead =
        chain("i").replace("v1 = add v0, v0 store %u[i], v1", "v2 = load %t[n - 1] v1 = add v0, v2 store %u[i], v1");
    assert_eq!(run_with("%t, %u", &ahead), Err(Problem::Overwritten));
    let late = [map("a", "x", "i", "t"), map("b", "x", "i", "u"), map("c", "t", "i", "y")].concat();
    assert_eq!(run_with("%t, %u", &late), Err(Problem::Overwritten));
    let bytes = |at: &str| {
        let store = format!("kernel @b {{ v0 = const i8 1 v1 = lt v0, v0 if v1 {{ }} else {{ store %b[{at}], v0 }} }}");
        [map("a", "x", "i", "t"), store, map("c", "t", "i", "y")].concat()
    };
    assert_eq!(run_with("%t", &bytes("5")), Ok(f32s([4.0, 8.0, 12.0])));
    assert_eq!(run_with("%t, %b", &bytes("5")), Err(Problem::Overwritten));
    assert_eq!(run_with("%t, %b", &bytes("5").replace("load %t[i]", "load %t[0]")), Ok(f32s([4.0, 4.0, 4.0])));
}

/// A row of exponentials in scratch, kept while they are summed.
const SOFTMAX: &str = "program @softmax {
    symbol n = dim 0 of input 0
    symbol m = dim 1 of input 0
    input %x: f32[n, m]
    output %y: f32[n, m]
    scratch %e: f32[m]
    kernel @k {
      parallel i < n {
        v1 = reduce j < m { v0 = load %x[i, j] } with max free v0
        v4 = reduce k < m {
          v2 = load %x[i, k]
          v3 = sub v2, v1
          store %e[k], v3
        } with sum lanes v3
        parallel l < m {
          v5 = load %e[l]
          v6 = div v5, v4
          store %y[i, l], v6
        }
      }
    }
  }";

#[test]
fn scratch_of_a_row() {
    let outcome = try_run(SOFTMAX, &[f32_matrix(3, 2, |i, j| (i * 5 + 3 * j) as f32)]).unwrap();
    assert_eq!(outcome.outputs[0], f32_matrix(3, 2, |_, j| if j == 0 { 1.0 } else { -0.0 }));
    let traffic: Vec<_> = outcome.traffic[0].values().map(|t| (t.loads, t.stores)).collect();
    assert_eq!(traffic, [(12, 0), (0, 6), (6, 6)]);
    assert_eq!(one(SOFTMAX, &[f32_matrix(0, 4, |_, _| 0.0)]).shape(), [0, 4]);
    // The outermost loop may be of any kind.
    let contract = "program @p {
        symbol n = dim 0 of input 0
        input %x: f32[n]
        output %y: f32[n]
        scratch %e: f32
        kernel @k {
          v2 = contract i < n over j < n {
            left { v0 = load %x[i] yield v0 }
            right { v1 = load %x[j] yield v1 }
            epilogue { store %e[], v2 v3 = load %e[] store %y[i], v3 }
          }
        }
      }";
    assert_eq!(one(contract, &[f32s([1.0, 2.0, 4.0])]), f32s([7.0, 14.0, 28.0]));
    let all_one = contract.replace("i < n over", "over").replace("[i]", "[0]").replace("%y: f32[n]", "%y: f32[1]");
    assert_eq!(one(&all_one, &[f32s([1.0, 2.0, 4.0])]), f32s([7.0]));
}

#[test]
fn scratch_of_another_iteration_is_not_seen() {
    let problem = |outer: &str, from: &str, to: &str| {
        let body = format!(
            "{outer} i < n {{
               v0 = load %x[i] v1 = affine i v2 = const i64 0 v3 = eq v1, v2
               if v3 {{ store %e[0], v0 }}
               {from} {to}
             }}"
        );
        match try_run(&vector_program("output %y: f32[n] scratch %e: f32[n]", &body), &[f32s([1.0, 2.0])]) {
            Err(RunError::Internal { problem, .. }) => Some(problem),
            Err(other) => panic!("{other:?}"),
            Ok(_) => None,
        }
    };
    for outer in ["parallel", "serial", "reduce"] {
        // The iteration with i = 1 has stored only element 1.
        let own = "store %e[1], v0 v4 = load %e[1]";
        assert_eq!(problem(outer, own, "store %y[i], v4"), None, "{outer}");
        assert_eq!(problem(outer, "v4 = load %e[0]", "store %y[i], v4"), Some(Problem::NotStored), "{outer}");
        assert_eq!(problem(outer, &format!("{own} {}", "store %e[1], v4"), ""), Some(Problem::StoredTwice), "{outer}");
    }
}

/// Stores in the body of a reduction are visible to the same iteration and to the statements after
/// the loop.
#[test]
fn reductions_that_store() {
    let header = "output %y: f32[n] output %s: f32 temp %t: f32[n]";
    let body = |at: &str| {
        format!(
            "v3 = reduce i < n {{
               v0 = load %x[i] v1 = neg v0 store %t[i], v1
               v2 = load %t[{at}]
             }} with sum lanes v2
             store %s[], v3
             parallel j < n {{ v4 = load %t[n - 1 - j] store %y[j], v4 }}"
        )
    };
    let run = |at| try_run(&vector_program(header, &body(at)), &[f32s([1.0, 2.0])]);
    let outcome = run("i").unwrap();
    assert_eq!(outcome.outputs, [f32s([-2.0, -1.0]), Array::scalar(Scalar::F32(-3.0))]);
    let Err(RunError::Internal { access, problem, .. }) = run("0") else { panic!() };
    assert_eq!((access.as_str(), problem), ("v2 = load %t[0]", Problem::NotStored));
    let twice = body("i").replace("store %t[i]", "store %t[0]").replace("load %t[i]", "load %t[0]");
    let Err(RunError::Internal { problem, .. }) = try_run(&vector_program(header, &twice), &[f32s([1.0, 2.0])]) else {
        panic!()
    };
    assert_eq!(problem, Problem::StoredTwice);
}

#[test]
fn sizes_in_kernels_wrap() {
    let text = "program @p {
        symbol k = value of input 0
        input %k: i64
        output %y: i64
        kernel @one { v0 = affine 9223372036854775807 * k store %y[], v0 }
      }";
    let y = |k| try_run(text, &[Array::scalar(Scalar::I64(k))]).unwrap().outputs[0].get(0);
    assert_eq!([1, 2, 3].map(y), [i64::MAX, -2, i64::MAX - 2].map(|v| Some(Scalar::I64(v))));
}

/// A run that would take hours ends when it is cancelled.
#[test]
fn runs_are_cancelled() {
    let text = "program @p {
        output %s: f32
        kernel @k {
            v1 = reduce i < 1000000000, j < 1000000000 { v0 = const f32 1 } with sum lanes v0
            store %s[], v1
        }
    }";
    let program = program(text);
    let cancelled = Arc::new(AtomicBool::new(false));
    let wish = Arc::clone(&cancelled);
    let run = std::thread::spawn(move || run_unless(&program, &[], &wish).map(|_| ()));
    cancelled.store(true, Ordering::Relaxed);
    assert_eq!(run.join().unwrap(), Err(RunError::Cancelled));
}
