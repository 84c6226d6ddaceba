//! Passes over columns: inner loops in a loop that is contiguous in memory, processed in strips of
//! columns.

use crate::harness::{LENGTHS, check_small, check_ways as check};

const SHAPES: &[&[i64]] = &[
    &[0, 9],
    &[9, 0],
    &[1, 1],
    &[3, 4],
    &[16, 2],
    &[17, 3],
    &[31, 33],
    &[300, 70],
    &[513, 129],
    &[4097, 5],
    &[20, 1029],
    &[9, 3001],
];

fn columns(dtype: &str, buffers: &str, body: &str) -> String {
    format!(
        "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
         input 0 %x: {dtype}[n, m] output %y: {dtype}[n, m] {buffers}
         kernel @k {{ parallel j < m {{ {body} }} }} }}"
    )
}

const SOFTMAX: &str = "v1 = reduce i < n { v0 = load %x[i, j] } with max free v0
    v4 = reduce k < n { v2 = load %x[k, j] v3 = sub v2, v1 v20 = abs v3 store %e[k], v20 } with sum blocks v20
    parallel l < n { v5 = load %e[l] v6 = div v5, v4 store %y[l, j], v6 }";

#[test]
fn softmax_over_the_first_axis() {
    for dtype in ["f32", "f64"] {
        let scratch = format!("scratch %e: {dtype}[n]");
        check(&columns(dtype, &scratch, SOFTMAX), SHAPES);
        // Materialized where the result will be, and not at all.
        let inside = SOFTMAX.replace("%e[k]", "%y[k, j]").replace("%e[l]", "%y[l, j]");
        let inside = inside.replace("store %y[l, j]", "store %z[l, j]");
        check(&columns(dtype, &format!("output 1 %z: {dtype}[n, m]"), &inside), SHAPES);
        let again = SOFTMAX.replace("store %e[k], v20", "").replace("v5 = load %e[l]", "v5 = load %x[l, j]");
        check(&columns(dtype, "", &again), SHAPES);
    }
    // An order that only single columns can follow.
    check(&columns("f32", "scratch %e: f32[n]", &SOFTMAX.replace("blocks", "lanes")), SHAPES);
    check(&columns("f32", "scratch %e: f32[n]", &SOFTMAX.replace("blocks", "scan")), SHAPES);
}

#[test]
fn layer_norm_over_the_first_axis() {
    let body = "v20 = affine n v21 = cast f32 v20 v22 = load %b[j]
        v1, v40 = reduce i < n { v0 = load %x[i, j] v41 = lt v0, v22 } with sum blocks v0, any free v41
        v2 = div v1, v21
        v6 = reduce k < n { v3 = load %x[k, j] v4 = sub v3, v2 v5 = mul v4, v4 store %e[k], v4 } with sum blocks v5
        v7 = div v6, v21 v8 = sqrt v7 store %s[j], v8 store %t[j], v40
        parallel l < n { v9 = load %e[l] v10 = div v9, v8 v11 = load %g[l] v12 = fma v10, v11, v22
          v13 = select v40, v12, v2 store %y[l, j], v13 }";
    let buffers = "input 1 %g: f32[n] input 2 %b: f32[m] output 1 %s: f32[m] output 2 %t: bool[m] scratch %e: f32[n]";
    check(&columns("f32", buffers, body), SHAPES);
}

#[test]
fn every_type() {
    for (dtype, narrow) in
        [("f32", "f16"), ("f32", "bf16"), ("i32", "i8"), ("u32", "u8"), ("i64", "i8"), ("u64", "u32"), ("f64", "f32")]
    {
        let order = if dtype.starts_with('f') { "blocks" } else { "free" };
        let body = format!(
            "v5, v6, v30, v31 = reduce k < n {{ v2 = load %x[k, j] v3 = cast {narrow} v2 store %e[k], v3
               v4 = lt v2, v2 v7 = not v4 store %b[k], v7 v15 = affine 3 * k - j }}
               with sum {order} v2, all free v7, min free v15, any free v4
             parallel l < n {{ v8 = load %e[n - 1 - l] v9 = cast {dtype} v8 v10 = load %b[l] v11 = select v10, v9, v5
               v12 = select v6, v11, v9 v13 = cast {dtype} v30 v14 = add v12, v13 v16 = select v31, v12, v14
               v17 = cast {narrow} v16 store %z[l, j], v17 store %y[l, j], v16 }}"
        );
        let buffers = format!("output 1 %z: {narrow}[n, m] scratch %e: {narrow}[n] scratch %b: bool[n]");
        check(&columns(dtype, &buffers, &body), SHAPES);
    }
}

#[test]
fn loops_in_loops() {
    // A reduction for each row of the result; scratch of two axes; a triangular loop; serial loops.
    let body = "parallel k < 3 { v9 = reduce i < n { v0 = load %x[i, j] v1 = affine k v2 = cast f32 v1 v3 = mul v0, v2
            store %e[i, k], v3 } with sum blocks v3 store %r[k, j], v9 }
        serial p < n, q < 3 { v10 = load %e[p, q] v11 = load %r[q, j] v12 = add v10, v11 store %f[q, p], v12 }
        parallel l < n { v13 = reduce s < 3 { v14 = load %f[s, l] } with max free v14 v15 = reduce t < l { v16 = load %x[t, j] } with max free v16
          v17 = add v13, v15 store %y[l, j], v17 }";
    let buffers = "output 1 %r: f32[3, m] scratch %e: f32[n, 3] scratch %f: f32[3, n]";
    check(&columns("f32", buffers, body), &SHAPES[..9]);
    // A middle axis; indices from outside of the leaf.
    check(
        "program @p { symbol a = dim 0 of input 0 symbol n = dim 1 of input 0 symbol m = dim 2 of input 0
         input 0 %x: f32[a, n, m] output %y: f32[a, n, m] scratch %e: f32[n]
         kernel @k { v30 = const f32 0.5 parallel o < a, j < m {
           v1 = reduce i < n { v0 = load %x[o, i, j] } with max free v0
           v4 = reduce k < n { v2 = load %x[o, k, j] v3 = sub v2, v1 v20 = mul v3, v30 store %e[k], v20 } with sum blocks v20
           parallel l < n { v5 = load %e[l] v6 = div v5, v4 store %y[o, l, j], v6 } } } }",
        &[&[0, 3, 4], &[3, 0, 4], &[2, 3, 1], &[3, 17, 35], &[5, 300, 7], &[33, 5, 9]],
    );
}

#[test]
fn transposed_out_and_gathered_rows() {
    let body = "v1 = reduce i < n { v0 = load %x[i, j] v21 = load %w[i] v22 = mul v0, v21 } with sum blocks v22
        parallel l < n { v5 = load %x[l, j] v6 = div v5, v1 store %t[j, l], v6 store %y[l, j], v1 }";
    check(&columns("f32", "input 1 %w: f32[n] output 1 %t: f32[m, n]", body), SHAPES);
    let text = "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 symbol k = dim 0 of input 1
         input 0 %x: f32[n, m] input 1 %idx: i64[k] output %y: f32[m] output 1 %z: f32[k, m]
         site0 = axis 0 of \"x\" at 0..0 site1 = axis 0 of \"x\" at 1..1
         kernel @k { parallel j < m {
           v4 = reduce i < k { v0 = load %idx[i] v1 = check v0 < n at site0 v2 = load %x[v1, j] } with sum blocks v2
           store %y[j], v4
           parallel l < k { v5 = load %idx[k - 1 - l] v6 = check v5 < n at site1 v7 = load %x[v6, j] store %z[l, j], v7 } } } }";
    check_small(text, &[&[5, 3, 0], &[5, 33, 1], &[5, 0, 9], &[5, 7, 2], &[9, 40, 3], &[0, 5, 1]]);
    let positive = text
        .replace("v1 = check v0", "v10 = abs v0 v1 = check v10")
        .replace("v6 = check v5", "v11 = abs v5 v6 = check v11");
    check_small(&positive, &[&[5, 3, 0], &[5, 33, 1], &[5, 0, 9], &[5, 7, 2], &[9, 40, 30], &[5, 65, 600]]);
    // Rows selected by data, with one check per row.
    let rows = "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 symbol k = dim 0 of input 1
         input 0 %x: f32[n, m] input 1 %idx: i64[k] output %y: f32[k, m] site0 = axis 0 of \"x\" at 0..0
         kernel @k { parallel i < k, j < m { v0 = load %idx[i] v10 = abs v0 v1 = check v10 < n at site0 v2 = load %x[v1, j]
           v3 = add v2, v2 store %y[i, j], v3 } } }";
    check_small(rows, &[&[5, 3, 0], &[5, 33, 1], &[5, 0, 9], &[1, 0, 9], &[4, 7, 20], &[9, 40, 30], &[0, 5, 1]]);
}

/// Scalars computed once per row, with several rows at once: weights, some of them computed from
/// others.
#[test]
fn weighted_rows() {
    for dtype in ["f32", "f64"] {
        let buffers = format!("input 1 %w: {dtype}[n] output 1 %s: {dtype}[m]");
        let weighted = "v3 = reduce i < n { v0 = load %x[i, j] v1 = load %w[i] v2 = mul v1, v0 } with sum blocks v2 store %s[j], v3
             parallel l < n { v10 = load %x[l, j] v11 = add v10, v3 store %y[l, j], v11 }";
        check(&columns(dtype, &buffers, weighted), SHAPES);
        let computed = weighted.replace(
            "v1 = load %w[i] v2 = mul v1, v0",
            &format!(
                "v20 = load %w[n - 1 - i] v21 = affine 2 * i + n v22 = cast {dtype} v21 v23 = load %w[i]
                 v1 = fma v20, v22, v23 v2 = mul v1, v0"
            ),
        );
        check(&columns(dtype, &buffers, &computed), SHAPES);
        // Two weights that depend on the row, and a weight that is an index.
        let two = weighted.replace(
            "v2 = mul v1, v0",
            &format!(
                "v21 = affine i v22 = cast {dtype} v21 v23 = load %x[i, j] v24 = mul v22, v23 v2 = fma v1, v0, v24"
            ),
        );
        check(&columns(dtype, &buffers, &two), SHAPES);
    }
}

#[test]
fn sums_of_columns() {
    for order in ["blocks", "lanes", "scan"] {
        check(
            &format!("program @p {{ symbol n = dim 0 of input 0 input 0 %x: f32[n, 7] output %y: f32[7]
             kernel @k {{ parallel j < 7 {{ v1 = reduce i < n {{ v0 = load %x[i, j] }} with sum {order} v0 store %y[j], v1 }} }} }}"),
            LENGTHS,
        );
    }
}
