//! Pointwise kernels: every primitive on every type, alone and mixed.

use ir::{BinaryOp, CompareOp, Dtype, UnaryOp};

use crate::harness::{LENGTHS, check, compute_types, takes_one, takes_two};

const SHORT: &[&[i64]] = &[&[0], &[1], &[3], &[4], &[31], &[257]];

fn pointwise(inputs: &[Dtype], output: Dtype, body: &str) -> String {
    let mut text = String::from("program @p {\n  symbol n = dim 0 of input 0\n");
    for (k, dtype) in inputs.iter().enumerate() {
        text += &format!("  input {k} %x{k}: {dtype}[n]\n");
    }
    text += &format!("  output %y: {output}[n]\n  kernel @k {{\n    parallel i < n {{\n");
    for k in 0..inputs.len() {
        text += &format!("      v{k} = load %x{k}[i]\n");
    }
    text + body + "      store %y[i], v100\n    }\n  }\n}\n"
}

#[test]
fn copies() {
    for dtype in Dtype::ALL {
        check(&pointwise(&[dtype], dtype, "v100 = load %x0[i]\n"), SHORT);
    }
}

#[test]
fn unary() {
    for dtype in compute_types() {
        for op in UnaryOp::ALL {
            if takes_one(*op, dtype) {
                check(&pointwise(&[dtype], dtype, &format!("v100 = {op} v0\n")), SHORT);
            }
        }
    }
}

#[test]
fn binary() {
    for dtype in compute_types() {
        for op in BinaryOp::ALL {
            if takes_two(*op, dtype) {
                check(&pointwise(&[dtype, dtype], dtype, &format!("v100 = {op} v0, v1\n")), SHORT);
            }
        }
    }
}

#[test]
fn shifts_by_one_amount() {
    for dtype in [Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64] {
        for op in ["shl", "shr"] {
            for amount in [0, 1, 23, 31, 32, 63, 64, 100] {
                let body = format!("v1 = const {dtype} {amount}\nv100 = {op} v0, v1\n");
                check(&pointwise(&[dtype], dtype, &body), &[&[0], &[31]]);
            }
            let text = format!(
                "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] input 1 %s: {dtype}[] output %y: {dtype}[n]
                 kernel @k {{ parallel i < n {{ v0 = load %x[i] v1 = load %s[] v2 = {op} v0, v1 store %y[i], v2 }} }} }}"
            );
            check(&text, &[&[31][..]; 20]);
        }
    }
}

#[test]
fn compares_and_selects() {
    for dtype in compute_types() {
        for op in CompareOp::ALL {
            check(&pointwise(&[dtype, dtype], Dtype::Bool, &format!("v100 = {op} v0, v1\n")), SHORT);
        }
        for other in Dtype::ALL {
            let body = "v3 = lt v0, v1\n v100 = select v3, v2, v4\n"
                .replace("v4", "v5")
                .replace("v3 =", "v5 = load %x2[i] v3 =");
            check(&pointwise(&[dtype, dtype, other], other, &body), SHORT);
        }
    }
    // A mask of one width that selects among values of another, and combinations of masks of both
    // widths.
    let body = "v3 = lt v0, v0\n v4 = lt v1, v1\n v5 = ne v1, v1\n v6 = or v3, v4\n v7 = xor v5, v6\n v8 = lt v7, v3\n
                v9 = select v7, v4, v8\n v10 = ge v9, v7\n v100 = select v10, v0, v2\n";
    check(&pointwise(&[Dtype::F32, Dtype::F64, Dtype::F32], Dtype::F32, body), LENGTHS);
}

#[test]
fn casts() {
    for from in Dtype::ALL {
        for to in Dtype::ALL {
            check(&pointwise(&[from], to, &format!("v100 = cast {to} v0\n")), &[&[3], &[1000]]);
        }
    }
}

#[test]
fn bitcasts() {
    for (a, b) in
        [(Dtype::F32, Dtype::I32), (Dtype::F32, Dtype::U32), (Dtype::F64, Dtype::I64), (Dtype::U64, Dtype::F64)]
    {
        check(&pointwise(&[a], b, &format!("v100 = bitcast {b} v0\n")), SHORT);
        check(&pointwise(&[b], a, &format!("v100 = bitcast {a} v0\n")), SHORT);
    }
}

#[test]
fn chains_at_all_lengths() {
    let body = "v2 = mul v0, v1\n v3 = add v2, v0\n v4 = const f32 0.5\n v5 = fma v3, v4, v1\n v100 = max v5, v2\n";
    check(&pointwise(&[Dtype::F32, Dtype::F32], Dtype::F32, body), LENGTHS);
    let body = "v2 = affine 3 * i - 7\n v3 = cast f64 v2\n v4 = add v3, v0\n v5 = cast f64 v1\n v100 = sub v4, v5\n";
    check(&pointwise(&[Dtype::F64, Dtype::I32], Dtype::F64, body), LENGTHS);
}

#[test]
fn functions_and_pure_branches() {
    let text = "program @p { symbol n = dim 0 of input 0 input %x: f32[n] output %y: f32[n]
      function @tanh.f32 = tanh(v0: f32) {
        v1 = const f32 1.0
        v2 = lt v0, v1
        v5 = if v2 { v3 = neg v0 yield v3 } else { v4 = fma v0, v1, v0 v6 = const i32 3 v7 = bitcast i32 v4 v8 = shl v7, v6
          v9 = bitcast f32 v8 yield v9 }
        yield v5
      }
      kernel @k { parallel i < n {
        v0 = load %x[i] v1 = call @tanh.f32(v0) v2 = const f32 2.0
        v3 = gt v1, v2
        v6 = if v3 { v4 = call @tanh.f32(v2) yield v4 } else { v5 = add v0, v1 yield v5 }
        store %y[i], v6
      } } }";
    check(text, LENGTHS);
}
