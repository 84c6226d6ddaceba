//! Loop splitting at branches that access memory.

use crate::harness::{LENGTHS, check};

const SHAPES: &[&[i64]] = &[&[0, 3], &[3, 0], &[1, 1], &[2, 2], &[3, 17], &[17, 3], &[5, 33], &[9, 64], &[4, 130]];

#[test]
fn concatenation_and_edges() {
    for (op, then, otherwise) in
        [("lt", "i", "i - n"), ("ge", "i - n", "i"), ("gt", "i - n", "i"), ("le", "i", "i - n")]
    {
        // With `gt` and `le` the split point is one further: the array is read near it.
        let bound = if op == "gt" || op == "le" { "n - 1" } else { "n" };
        for (a, b) in [("affine i", "BOUND"), ("BOUND", "affine i")] {
            let turned = match op {
                "lt" => "gt",
                "gt" => "lt",
                "le" => "ge",
                _ => "le",
            };
            let op = if a == "BOUND" { turned } else { op };
            let define = |text: &str| if text == "BOUND" { format!("affine {bound}") } else { text.to_string() };
            check(
                &format!(
                    "program @p {{ symbol n = dim 0 of input 0 input 0 %x: f32[n] output %y: f32[2 * n]
                     kernel @k {{ parallel i < 2 * n {{ v0 = {} v1 = {} v2 = {op} v0, v1
                       v5 = if v2 {{ v3 = load %x[{then}] yield v3 }} else {{ v4 = load %x[{otherwise}] v6 = neg v4 yield v6 }}
                       v7 = add v5, v5 store %y[i], v7 }} }} }}",
                    define(a), define(b)
                ),
                LENGTHS,
            );
        }
    }
    // Both ends of a stencil, a negated condition, a decreasing index, and an equality, which
    // cannot be split at.
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output 0 %y: f32[n] output 1 %z: f32[n]
         kernel @k { v30 = affine n - 1 v31 = const i64 0 parallel i < n {
           v0 = affine i v1 = const i64 0 v2 = gt v0, v1 v3 = lt v0, v30
           v6 = if v2 { v4 = load %x[i - 1] yield v4 } else { v5 = const f32 7.0 yield v5 }
           v9 = if v3 { v7 = load %x[i + 1] yield v7 } else { v8 = const f32 8.0 yield v8 }
           v10 = add v6, v9 v11 = load %x[i] v12 = sub v10, v11 store %y[i], v12
           v13 = and v2, v3 v14 = not v13
           v17 = if v14 { v15 = const f32 1.0 yield v15 } else { v16 = load %x[n - 1 - i] yield v16 }
           v18 = affine n - 1 - i v19 = ge v18, v31 v20 = ne v0, v31 v21 = or v20, v3
           v24 = if v19 { v22 = load %x[i] yield v22 } else { v23 = const f32 2.0 yield v23 }
           v27 = if v21 { v25 = load %x[i] yield v25 } else { v26 = const f32 3.0 yield v26 }
           v28 = add v24, v27 v29 = mul v17, v28 store %z[i], v29 } } }",
        LENGTHS,
    );
}

#[test]
fn padding_in_two_dimensions() {
    for dtype in ["f32", "f16", "i8", "f64", "bool"] {
        let zero = if dtype == "bool" {
            "true"
        } else if dtype == "i8" {
            "3"
        } else {
            "1.5"
        };
        check(
            &format!(
                "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: {dtype}[n, m] output %y: {dtype}[n + 2, m + 3]
                 kernel @k {{ parallel i < n + 2, j < m + 3 {{
                   v0 = affine i - 1 v1 = const i64 0 v2 = ge v0, v1 v3 = affine n v4 = lt v0, v3 v5 = and v2, v4
                   v6 = affine j - 2 v7 = ge v6, v1 v8 = affine m v9 = lt v6, v8 v10 = and v7, v9 v11 = and v5, v10
                   v14 = if v11 {{ v12 = load %x[i - 1, j - 2] yield v12 }} else {{ v13 = const {dtype} {zero} yield v13 }}
                   store %y[i, j], v14 }} }} }}"
            ),
            SHAPES,
        );
    }
    // Inside passes over columns, with bounds from data.
    check(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: f32[n, m] input 1 %t: i64[] output %y: f32[n, m] output 1 %s: f32[m]
         kernel @k { v20 = load %t[] v21 = affine n v22 = lt v20, v21 parallel j < m {
           v0 = affine j v1 = lt v0, v20
           v5 = reduce i < n { v4 = if v1 { v2 = load %x[i, j] yield v2 } else { v3 = load %x[n - 1 - i, 0] yield v3 } } with sum blocks v4
           store %s[j], v5
           parallel l < n { v8 = if v22 { v6 = load %x[l, j] yield v6 } else { v7 = load %x[l, m - 1 - j] yield v7 } v9 = add v8, v5
             if v1 { store %y[l, j], v9 } else { v10 = neg v9 store %y[l, j], v10 } } } } }",
        &[&[0, 3], &[3, 0], &[1, 1], &[2, 2], &[3, 17], &[17, 3], &[5, 33], &[9, 64], &[300, 50], &[3, 99], &[9, 64]],
    );
}
