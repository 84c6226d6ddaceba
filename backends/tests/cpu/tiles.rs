//! Sums of columns by blocks of rows, alone and together with sums of rows in one pass.

use crate::harness::{check_small, check_ways as check};

const SHAPES: &[&[i64]] = &[
    &[0, 9],
    &[9, 0],
    &[1, 1],
    &[15, 2],
    &[16, 3],
    &[17, 4],
    &[255, 33],
    &[256, 5],
    &[257, 70],
    &[513, 129],
    &[4097, 5],
    &[1300, 9],
    &[20, 1029],
    &[300, 2050],
];

fn matrix(dtype: &str, buffers: &str, body: &str) -> String {
    format!(
        "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
         input 0 %x: {dtype}[n, m] {buffers} kernel @k {{ {body} }} }}"
    )
}

const ROWS: &str = "parallel i < n { v1 = reduce j < m { v0 = load %x[i, j] } with sum ORDER v0 store %r[i], v1 }";
const COLUMNS: &str = "parallel l < m { v3 = reduce k < n { v2 = load %x[k, l] } with sum BLOCKS v2 store %c[l], v3 }";

#[test]
fn rows_and_columns_in_one_pass() {
    for dtype in ["f32", "f64", "i32", "i64", "u32", "u64"] {
        let float = dtype.starts_with('f');
        let text = |body: String| {
            let body = body.replace("ORDER", if float { "lanes" } else { "free" });
            matrix(
                dtype,
                &format!("output 0 %r: {dtype}[n] output 1 %c: {dtype}[m]"),
                &body.replace("BLOCKS", if float { "blocks" } else { "free" }),
            )
        };
        check(&text(format!("{ROWS} {COLUMNS}")), SHAPES);
        check(&text(format!("{COLUMNS} {ROWS}")), SHAPES);
    }
}

#[test]
fn several_of_each_with_all_around() {
    let body = "v30 = affine n v31 = cast f32 v30 v32 = const f32 0.5
        parallel i < n {
          v1, v2 = reduce j < m { v0 = load %x[i, j] v3 = mul v0, v0 } with sum lanes v3, max free v0
          v4 = sqrt v1 store %r[i], v4
          parallel q < m { v5 = load %x[i, q] v6 = sub v5, v2 store %y[i, q], v6 } }
        parallel l < m {
          v10 = load %w[l] v11 = mul v10, v32
          v15, v16 = reduce k < n { v12 = load %x[k, l] v13 = sub v12, v11 v14 = mul v13, v13 v17 = load %g[k] v18 = mul v17, v13 } with sum blocks v14, min free v18
          v19 = div v15, v31 v33 = add v19, v10 store %c[l], v33 store %d[l], v16 }
        parallel s < n { v20 = load %x[s, 0] v21 = neg v20 store %h[s], v21 }
        parallel t < m { v24 = reduce u < n { v22 = load %x[u, t] v23 = affine 2 * u - t v25 = cast f64 v22 } with prod blocks v25 store %f[t], v24 }";
    let buffers = "input 1 %w: f32[m] input 2 %g: f32[n] output 0 %r: f32[n] output 1 %y: f32[n, m] output 2 %c: f32[m]
        output 3 %d: f32[m] output 4 %h: f32[n] output 5 %f: f64[m]";
    check(&matrix("f32", buffers, body), &SHAPES[2..]);
}

#[test]
fn storage_types_and_awkward_bodies() {
    // Extended from narrow elements; operations without vector forms; accumulators of vectors in
    // reverse.
    for narrow in ["f16", "bf16", "i8", "u8"] {
        let wide = if narrow.ends_with('6') { "f32" } else { "i32" };
        let order = if wide == "f32" { ["lanes", "blocks"] } else { ["free", "free"] };
        let body = format!(
            "parallel i < n {{ v2 = reduce j < m {{ v0 = load %x[i, j] v1 = cast {wide} v0 }} with sum {} v1 store %r[i], v2 }}
             parallel l < m {{ v5 = reduce k < n {{ v3 = load %x[k, l] v4 = cast {wide} v3 }} with sum {} v4 store %c[l], v5 }}",
            order[0], order[1]
        );
        check(&matrix(narrow, &format!("output 0 %r: {wide}[n] output 1 %c: {wide}[m]"), &body), SHAPES);
    }
    let body = "parallel l < m { v5 = reduce k < n { v3 = load %x[k, l] v4 = rem v3, v3 v6 = div v4, v3 v7 = rem v6, v4 } with sum free v7
        store %c[l], v5 }";
    check(&matrix("i32", "output 0 %c: i32[m]", body), SHAPES);
}

#[test]
fn loops_that_do_not_go_together() {
    // The second loop loads elements that the first one has stored.
    let body = "parallel i < n { v1 = reduce j < m { v0 = load %x[i, j] } with sum lanes v0 store %r[i], v1 }
        parallel l < m { v5 = reduce k < n { v2 = load %x[k, l] v3 = load %r[n - 1 - k] v4 = mul v2, v3 } with sum blocks v4 store %c[l], v5 }";
    check(&matrix("f32", "output 0 %r: f32[n] output 1 %c: f32[m]", body), SHAPES);
    // Rows that can fail.
    check_small(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
         input 0 %x: f32[n, m] input 1 %idx: i64[n] output 0 %r: f32[n] output 1 %c: f32[m] site0 = axis 1 of \"x\" at 0..0
         kernel @k {
           parallel i < n { v0 = load %idx[i] v1 = check v0 < m at site0 v2 = load %x[i, v1] store %r[i], v2 }
           parallel l < m { v4 = reduce k < n { v3 = load %x[k, l] } with sum blocks v3 store %c[l], v4 } } }",
        &[&[0, 3], &[1, 5], &[3, 9], &[600, 5], &[600, 0]],
    );
}
