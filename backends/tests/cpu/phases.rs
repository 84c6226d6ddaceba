//! Kernels of several statements: loops over a row with scratch between them, reductions that
//! store, and several loops at the top level.

use crate::harness::{LENGTHS, check, check_small, check_ways};

const ROWS: &[&[i64]] = &[
    &[0, 5],
    &[3, 0],
    &[1, 1],
    &[5, 2],
    &[4, 3],
    &[3, 4],
    &[9, 7],
    &[33, 15],
    &[7, 16],
    &[7, 17],
    &[5, 31],
    &[3, 64],
    &[3, 127],
    &[2, 128],
    &[11, 129],
    &[3, 300],
    &[2, 4095],
    &[3, 4096],
    &[2, 4097],
    &[3, 9001],
];

/// Rows of a matrix processed by all loops of a kernel.
fn rows(dtype: &str, buffers: &str, body: &str) -> String {
    format!(
        "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
         input 0 %x: {dtype}[n, m] output %y: {dtype}[n, m] {buffers}
         kernel @k {{ parallel i < n {{ {body} }} }} }}"
    )
}

const SOFTMAX: &str = "v1 = reduce j < m { v0 = load %x[i, j] } with max free v0
     v4 = reduce k < m { v2 = load %x[i, k] v3 = sub v2, v1 v20 = mul v3, v3 store %e[k], v20 } with sum lanes v20
     parallel l < m { v5 = load %e[l] v6 = div v5, v4 store %y[i, l], v6 }";

#[test]
fn rows_kept_in_scratch() {
    for dtype in ["f32", "f64"] {
        let scratch = format!("scratch %e: {dtype}[m]");
        check(&rows(dtype, &scratch, SOFTMAX), ROWS);
        for order in ["blocks", "scan"] {
            check(&rows(dtype, &scratch, &SOFTMAX.replace("lanes", order)), ROWS);
        }
        // Materialized where the result will be.
        let inside = SOFTMAX.replace("%e[k]", "%y[i, k]").replace("%e[l]", "%y[i, l]");
        let inside = inside.replace("store %y[i, l]", "store %z[i, l]");
        check(&rows(dtype, &format!("output 1 %z: {dtype}[n, m]"), &inside), ROWS);
    }
    for dtype in ["i32", "i64", "u32"] {
        let body = "v4 = reduce k < m { v2 = load %x[i, k] v3 = mul v2, v2 store %e[k], v3 } with sum free v3
             parallel l < m { v5 = load %e[m - 1 - l] v6 = sub v5, v4 store %y[i, l], v6 }";
        check(&rows(dtype, &format!("scratch %e: {dtype}[m]"), body), ROWS);
    }
}

#[test]
fn scratch_of_every_width() {
    for (dtype, narrow) in
        [("f32", "f16"), ("f32", "bf16"), ("i32", "i8"), ("u32", "u8"), ("i64", "i8"), ("f64", "f32")]
    {
        let order = if dtype.starts_with('f') { "lanes" } else { "free" };
        let body = format!(
            "v5, v6 = reduce k < m {{ v2 = load %x[i, k] v3 = cast {narrow} v2 store %e[k], v3
               v4 = lt v2, v2 v7 = not v4 store %b[k], v7 }} with sum {order} v2, all free v7
             parallel l < m {{ v8 = load %e[l] v9 = cast {dtype} v8 v10 = load %b[l] v11 = select v10, v9, v5
               v12 = select v6, v11, v9 store %y[i, l], v12 }}"
        );
        check(&rows(dtype, &format!("scratch %e: {narrow}[m] scratch %b: bool[m]"), &body), ROWS);
    }
}

#[test]
fn scratch_of_two_axes_and_of_none() {
    check(
        "program @p { symbol a = dim 0 of input 0 symbol b = dim 1 of input 0 symbol c = dim 2 of input 0
         input 0 %x: f32[a, b, c] output %y: f32[a, b, c] scratch %e: f32[c, b] scratch %s: f64[]
         kernel @k { parallel i < a {
           v3 = reduce j < b, k < c { v0 = load %x[i, j, k] v1 = neg v0 store %e[k, j], v1 v2 = abs v0 } with sum lanes v2
           v4 = cast f64 v3 v5 = sqrt v4 store %s[], v5
           parallel p < b, q < c { v6 = load %e[q, p] v7 = load %s[] v8 = cast f32 v7 v9 = div v6, v8 store %y[i, p, q], v9 } } } }",
        &[&[0, 1, 1], &[2, 0, 3], &[1, 1, 1], &[3, 2, 5], &[2, 7, 33], &[5, 16, 16], &[2, 70, 70]],
    );
}

#[test]
fn outer_loops_of_two_axes() {
    check(
        "program @p { symbol a = dim 0 of input 0 symbol b = dim 1 of input 0 symbol c = dim 2 of input 0
         input 0 %x: f32[a, b, c] output %y: f32[b, a, c] scratch %e: f32[c]
         kernel @k { parallel i < a, j < b {
           v3 = reduce k < c { v0 = load %x[i, j, k] v1 = mul v0, v0 store %e[k], v1 } with sum lanes v1
           parallel q < c { v6 = load %e[q] v9 = div v6, v3 store %y[j, i, q], v9 } } } }",
        &[&[0, 1, 1], &[2, 0, 3], &[1, 1, 1], &[3, 2, 5], &[2, 7, 33], &[5, 16, 16], &[70, 70, 3]],
    );
    // The first axis of an array, one column at a time.
    check(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
         input 0 %x: f32[n, m] output %y: f32[n, m] scratch %e: f32[n]
         kernel @k { parallel j < m {
           v3 = reduce k < n { v0 = load %x[k, j] v1 = mul v0, v0 store %e[k], v1 } with sum blocks v1
           parallel q < n { v6 = load %e[q] v9 = div v6, v3 store %y[q, j], v9 } } } }",
        ROWS,
    );
}

#[test]
fn outermost_loops_of_every_kind() {
    for (outer, end) in [("serial", "}"), ("v9 = reduce", "} with max free v4")] {
        check(
            &format!(
                "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
                 input 0 %x: f32[n, m] output %y: f32[n, m] scratch %e: f32[m]
                 kernel @k {{ {outer} i < n {{ {SOFTMAX} {end} }} }}"
            ),
            ROWS,
        );
    }
}

#[test]
fn reductions_that_store() {
    // To an output, in every order, with one element as the remainder.
    for order in ["lanes", "blocks", "scan"] {
        check(
            &format!(
                "program @p {{ symbol n = dim 0 of input 0 input 0 %x: f32[n] output %y: f32[n] output 1 %s: f32[]
                 kernel @k {{ v3 = reduce i < n {{ v0 = load %x[i] v1 = mul v0, v0 store %y[i], v1 v2 = load %y[i] }} with sum {order} v2
                   store %s[], v3 }} }}"
            ),
            LENGTHS,
        );
    }
    // Steps of two, backwards, and rows of a wider array, several reductions at once.
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output %y: f32[2 * n] output 1 %z: f64[n] output 2 %s: f32[]
           output 3 %t: f64[] output 4 %u: i64[]
         kernel @k { v3, v4, v30, v9 = reduce i < n { v0 = load %x[i] v1 = mul v0, v0 store %y[2 * i + 1], v1 store %y[2 * i], v0
             v2 = cast f64 v1 store %z[n - 1 - i], v2 } with max free v1, sum lanes v2, @argmin.f32 free (v0, number)
           store %s[], v3 store %t[], v4 store %u[], v9 } }",
        LENGTHS,
    );
    check(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
         input 0 %x: f32[n, m] output %y: f32[n, m + 1] output 1 %s: f32[]
         kernel @k { v3 = reduce i < n, j < m { v0 = load %x[i, j] v1 = mul v0, v0 store %y[i, j + 1], v1 } with sum lanes v1
           store %s[], v3 parallel i2 < n { v5 = load %x[i2, 0] store %y[i2, 0], v5 } } }",
        &[&[0, 5], &[1, 1], &[5, 3], &[17, 33], &[70, 70], &[3, 5000]],
    );
    // Conditional stores.
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: i32[n] output %y: i32[2 * n] output 1 %s: i32[]
         kernel @k { v3 = reduce i < n { v0 = load %x[i] v1 = neg v0 v2 = lt v0, v1
             if v2 { store %y[2 * i], v0 store %y[2 * i + 1], v1 } else { store %y[2 * i + 1], v1 store %y[2 * i], v1 } } with min free v1
           store %s[], v3 } }",
        LENGTHS,
    );
    // Constant extents, which could be unrolled completely.
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n, 3] output %y: f32[n, 3] scratch %e: f32[3]
         kernel @k { parallel i < n { v3 = reduce j < 3 { v0 = load %x[i, j] v1 = mul v0, v0 store %e[j], v1 } with sum lanes v1
           parallel k < 3 { v4 = load %e[k] v5 = div v4, v3 store %y[i, k], v5 } } } }",
        &[&[0], &[1], &[5], &[33], &[300]],
    );
}

#[test]
fn loops_one_after_another() {
    // Row sums and column sums of one array.
    check(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
         input 0 %x: f32[n, m] output %y: f32[n] output 1 %z: f32[m]
         kernel @k {
           parallel i < n { v1 = reduce j < m { v0 = load %x[i, j] } with sum lanes v0 store %y[i], v1 }
           parallel k < m { v3 = reduce l < n { v2 = load %x[l, k] } with sum blocks v2 store %z[k], v3 } } }",
        ROWS,
    );
    // A scalar from a reduction used by the next loop, one from a loop used by a reduction, and
    // scalars everywhere.
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output %y: f32[n] output 1 %s: f32[] output 2 %t: bool[]
         kernel @k {
           v0 = const f32 2.0 v1 = affine n v2 = cast f32 v1
           v4, v5 = reduce i < n { v3 = load %x[i] } with sum lanes v3, max free v3
           v6 = div v4, v2 v7 = mul v6, v0 v20 = gt v5, v6
           parallel j < n { v8 = load %x[j] v9 = sub v8, v7 v10 = select v20, v9, v8 store %y[j], v10 }
           v11 = add v6, v0 store %t[], v20
           v15 = reduce k < n { v12 = load %y[k] v13 = mul v12, v11 v14 = mul v13, v0 } with sum lanes v14
           v16 = sub v15, v5
           store %s[], v16 } }",
        LENGTHS,
    );
    // Branches at the top level, with and without effects, and a loop for each of their results.
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: i32[n] input 1 %c: i32[] output %y: i32[n] output 1 %z: i32[n] output 2 %s: i32[2]
         kernel @k {
           v0 = load %c[] v1 = const i32 3 v2 = lt v0, v1
           v5 = if v2 { v3 = add v0, v0 yield v3 } else { v4 = sub v0, v1 yield v4 }
           parallel i < n { v6 = load %x[i] v7 = add v6, v5 store %y[i], v7 }
           v10 = if v2 { v8 = mul v5, v0 store %s[0], v8 store %s[1], v5 yield v8 } else { v9 = reduce k < n { v12 = load %y[k] } with sum free v12
             store %s[1], v9 store %s[0], v0 yield v9 }
           parallel j < n { v13 = load %y[n - 1 - j] v14 = sub v13, v10 v15 = sub v14, v5 store %z[j], v15 } } }",
        LENGTHS,
    );
    // Through memory of rank 0, and scans between loops.
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output %y: f32[n] output 1 %s: f32[] temp %t: f32[n]
         kernel @k {
           v1 = reduce i < n { v0 = load %x[i] } with max free v0 store %s[], v1
           v2 = load %s[]
           parallel j < n { v3 = load %x[j] v4 = sub v3, v2 store %t[j], v4 }
           scan k < n { v5 = load %t[k] v6 = prefix sum v5 store %y[k], v6 } } }",
        LENGTHS,
    );
    // Contractions with other loops after them.
    check_small(
        "program @p { symbol n = dim 0 of input 0 symbol k = dim 1 of input 0 symbol m = dim 1 of input 1
         input 0 %a: f32[n, k] input 1 %b: f32[k, m] output %y: f32[n, m] output 1 %r: f32[n] output 2 %s: f32[]
         kernel @k {
           v1 = reduce p < n { v0 = load %a[p, 0] } with max free v0 store %s[], v1
           v9: f32 = contract i < n, j < m over l < k { left { v2 = load %a[i, l] yield v2 } right { v3 = load %b[l, j] yield v3 }
             epilogue { v4 = add v9, v1 store %y[i, j], v4 } }
           parallel q < n { v6 = reduce t < m { v5 = load %y[q, t] } with sum lanes v5 store %r[q], v6 } } }",
        &[&[0, 2, 3], &[1, 1, 1], &[5, 7, 3], &[33, 20, 65]],
    );
}

#[test]
fn checks_between_loops_fault_in_their_order() {
    let text = "program @p { symbol n = dim 0 of input 0 symbol m = dim 0 of input 1
         input 0 %x: i64[n] input 1 %j: i64[m] output %y: i64[n] output 1 %z: i64[m]
         site0 = axis 0 of \"a\" at 0..0 site1 = axis 0 of \"b\" at 0..0 site2 = axis 0 of \"c\" at 0..0 site3 = axis 0 of \"d\" at 0..0
         kernel @k {
           v0 = affine n - 7 v1 = check v0 < n at site0
           parallel i < n { v2 = load %x[i] v3 = check v2 < 90 at site1 store %y[i], v3 }
           v4 = affine m - 40 v5 = check v4 < m at site2
           v8 = reduce k < m { v6 = load %j[k] } with max free v6
           parallel l < m { v7 = load %j[l] v9 = add v7, v1 v10 = add v9, v8 v12 = add v10, v5 store %z[l], v12 }
           v11 = affine n - 60 v13 = check v11 < n at site3 } }";
    check(text, &[&[3, 3], &[0, 50], &[7, 3], &[7, 50], &[60, 50], &[200, 50], &[2000, 50]]);
    check_small(text, &[&[3, 3], &[0, 50], &[7, 3], &[7, 50], &[60, 50]]);
}

#[test]
fn scans_between_two_bodies() {
    for dtype in ["f32", "f64"] {
        for op in ["sum", "prod", "max"] {
            // The input of the prefix is stored too, and used after it.
            let text = format!(
                "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] output %y: {dtype}[n] output 1 %z: {dtype}[n] output 2 %i: i32[n]
                 kernel @k {{ v20 = const {dtype} 0.25 scan i < n {{
                   v0 = load %x[n - 1 - i] v1 = mul v0, v20 v2 = sqrt v1 store %z[i], v2 v3 = prefix {op} v2
                   v4 = sub v3, v2 v5 = mul v4, v20 v6 = cast i32 v5 store %i[i], v6 store %y[n - 1 - i], v5 }} }} }}"
            );
            check(&text, LENGTHS);
        }
    }
    // Prefixes of prefixes of other types, of a value from outside, and next to a branch that
    // stores.
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: i32[n] output %y: f64[n] output 1 %z: i64[n] output 2 %b: bool[n] output 3 %k: i64[n]
         kernel @k { v20 = const f32 0.1 scan i < n {
           v0 = load %x[i] v1 = prefix sum v0 v2 = cast f64 v1 v3 = prefix sum v2 v4 = prefix sum v20 v5 = cast f64 v4 v6 = add v5, v3
           v7 = lt v0, v1 v8 = prefix any v7 v9 = prefix 1 of @argmin.f64 (v6, number) store %k[i], v9
           if v7 { v10 = affine i store %z[i], v10 store %b[i], v8 } else { v11 = affine 2 * i v12 = not v8 store %b[i], v12 store %z[i], v11 }
           store %y[i], v6 } } }",
        LENGTHS,
    );
    // A reduction per element before the prefix.
    check(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output %y: f32[n]
         kernel @k { scan i < n { v1 = reduce j < m { v0 = load %x[i, j] } with sum lanes v0 v2 = prefix sum v1
           v3 = add v2, v1 store %y[i], v3 } } }",
        ROWS,
    );
}

#[test]
fn scans_fault_where_they_would_element_by_element() {
    let text = "program @p { symbol n = dim 0 of input 0 symbol m = dim 0 of input 1
         input 0 %x: i64[n] input 1 %j: i64[m] output %y: f32[n]
         site0 = axis 0 of \"a\" at 0..0 site1 = axis 0 of \"b\" at 0..0
         kernel @k { scan i < n {
           v0 = load %x[i] v1 = add v0, v0 v2 = check v1 < 190 at site0 v3 = cast f32 v2 v4 = prefix sum v3
           v5 = cast i64 v4 v6 = check v5 < m at site1 v7 = load %j[v6] v8 = cast f32 v7 v9 = add v8, v4 store %y[i], v9 } } }";
    for m in [1, 60, 1000, 100_000] {
        let sizes: Vec<Vec<i64>> = [0, 1, 2, 5, 17, 40, 300].map(|n| vec![n, m]).to_vec();
        check(text, &sizes.iter().map(Vec::as_slice).collect::<Vec<_>>());
        check_small(text, &sizes.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    // In range for long enough to pass groups and chunks.
    let text = text.replace("v1 = add v0, v0", "v10 = mul v0, v0 v1 = min v10, v0 v11 = max v1, v10");
    let text = text.replace("check v1 < 190", "check v11 < 100000");
    check_small(&text, &[&[0, 5], &[40, 100_000], &[5000, 100], &[5000, 10_000], &[5000, 100_000]]);
}

#[test]
fn reductions_over_rows_that_are_not_one() {
    for (dtype, order) in [("f32", "lanes"), ("f64", "lanes"), ("i32", "free"), ("i64", "free")] {
        let text = format!(
            "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
             input 0 %x: {dtype}[n, m] input 1 %w: {dtype}[m] input 2 %u: {dtype}[n] output %y: {dtype}[m, n] output 1 %s: {dtype}[] output 2 %t: {dtype}[] output 3 %b: bool[]
             kernel @k {{ v9, v10, v11 = reduce i < n, j < m {{ v0 = load %x[i, j] v1 = load %w[j] v2 = mul v0, v1 v3 = load %u[i] v4 = sub v2, v3
               store %y[j, i], v4 v5 = lt v4, v0 }} with sum {order} v4, min free v2, any free v5
               store %s[], v9 store %t[], v10 store %b[], v11 }} }}"
        );
        check(&text, ROWS);
        check(&text, &[&[5000, 1], &[4097, 2], &[1000, 9], &[64, 64], &[65, 63]]);
    }
    check(
        "program @p { symbol a = dim 0 of input 0 symbol b = dim 1 of input 0 symbol c = dim 2 of input 0
         input 0 %x: f32[a, b, c] input 1 %w: f32[a, c] output %s: f32[]
         kernel @k { v9 = reduce i < a, j < b, k < c { v0 = load %x[i, j, k] v1 = load %w[i, k] v2 = mul v0, v1 } with sum lanes v2 store %s[], v9 } }",
        &[&[0, 3, 3], &[3, 0, 3], &[3, 3, 0], &[2, 3, 5], &[7, 13, 67], &[1, 1, 5000]],
    );
}

#[test]
fn whole_reductions_by_chunks() {
    // A body that is no leaf, a value from outside that is used again, and failures in any chunk.
    check(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output %s: f32[] output 1 %t: f32[]
         kernel @k { v0 = const f32 0.1 v1 = affine n v2 = cast f32 v1 v3 = mul v2, v0
           v5, v6, v7 = reduce i < n { v30, v4 = reduce j < m { v8 = load %x[i, j] } with @argmax.f32 free (v8, number) v9 = cast f32 v4 v10 = mul v9, v0 }
             with sum lanes v10, sum lanes v3, max free v0
           v11 = add v5, v6 v12 = mul v11, v3 store %s[], v12 v13 = sub v7, v0 store %t[], v13 } }",
        &[&[1, 1], &[5, 3], &[4096, 2], &[4097, 1], &[9000, 3], &[20_000, 1]],
    );
    check_small(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 0 of input 1 input 0 %x: i64[n] input 1 %w: f64[m] output %s: f64[] output 1 %y: f64[n]
         site0 = axis 0 of \"w\" at 0..0
         kernel @k { v5, v6 = reduce i < n { v0 = load %x[i] v1 = check v0 < m at site0 v2 = load %w[v1] store %y[i], v2 } with sum lanes v2, min free v2
           v7 = div v5, v6 store %s[], v7 } }",
        &[&[0, 1], &[1, 1], &[5, 5], &[12_000, 5], &[12_000, 1]],
    );
    // Elements that are rows, stored and checked: they are computed first, on all threads.
    check_small(
        "program @p { symbol a = dim 0 of input 0 symbol b = dim 1 of input 0 symbol c = dim 2 of input 0 symbol m = dim 0 of input 1
         input 0 %x: f32[a, b, c] input 1 %w: i64[m] output %s: f32[] output 1 %t: f32[] output 2 %y: f32[a, b]
         site0 = axis 0 of \"w\" at 0..0
         kernel @k { v9, v10 = reduce i < a, j < b {
             v1 = reduce k < c { v0 = load %x[i, j, k] } with max free v0
             v4 = reduce k2 < c { v3 = load %x[i, j, k2] v5 = sub v3, v1 } with sum lanes v5
             v6 = affine j v7 = check v6 < m at site0 v8 = load %w[v7] v11 = cast f32 v8 v12 = add v4, v11 store %y[i, j], v12
           } with sum lanes v12, min free v1 store %s[], v9 store %t[], v10 } }",
        &[&[0, 3, 3, 3], &[3, 0, 3, 3], &[2, 3, 0, 3], &[2, 3, 5, 2], &[70, 65, 17, 65], &[1, 5000, 3, 5000], &[1, 5000, 3, 4500]],
    );
    // Each needs the result of the previous one, and so does the loop at the end.
    check(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output %y: f32[n, m]
         kernel @k { v0 = affine n * m v1 = cast f32 v0
           v3 = reduce a < n, b < m { v2 = load %x[a, b] } with sum lanes v2 v4 = div v3, v1
           v7, v8 = reduce c < n, d < m { v5 = load %x[c, d] v6 = sub v5, v4 v9 = mul v6, v6 v10 = abs v6 } with sum lanes v9, max free v10
           v11 = add v7, v8
           parallel e < n, f < m { v12 = load %x[e, f] v13 = sub v12, v4 v14 = div v13, v11 store %y[e, f], v14 } } }",
        ROWS,
    );
}

/// Pairs and triples kept in scratch from one small loop to the next, each loaded where it was
/// stored, and once elsewhere.
#[test]
fn small_loops_that_keep_pairs() {
    check_ways(
        "program @p { symbol n = dim 0 of input 0
         input 0 %x: f32[n, 2] input 1 %w: f32[3] output 0 %y: f32[n] output 1 %z: f32[n] output 2 %u: f32[n]
         scratch %s: f32[2] scratch %t: f32[3] scratch %q: f32[1]
         kernel @k { parallel i < n {
           parallel k < 2 { v0 = load %x[i, k] v1 = load %w[k + 1] v2 = mul v0, v1 store %s[k], v2 }
           parallel l < 3 { v3 = load %s[0] v4 = load %w[2 - l] v5 = add v3, v4 store %t[l], v5 }
           v6 = load %s[1] v7 = load %t[2] v8 = sub v6, v7 store %y[i], v8
           store %q[0], v8 v9 = load %q[0] v10 = load %s[0] v11 = mul v9, v10 store %z[i], v11
           v12 = reduce j < n { v13 = load %x[j, 0] v14 = load %t[1] v15 = mul v13, v14 } with sum lanes v15
           store %u[i], v12 } } }",
        &[&[0], &[1], &[2], &[17], &[300]],
    );
}

#[test]
fn pairs_kept_and_found_by_data() {
    check_ways(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: i32[n, 2] input 1 %m: i64[] output 0 %y: i32[n] output 1 %z: i32[n]
         scratch %s: i32[2]
         kernel @k { parallel i < n {
           parallel k < 2 { v0 = load %x[i, k] store %s[k], v0 }
           v1 = load %x[i, 0] v2 = const i32 1 v3 = and v1, v2 v4 = cast i64 v3 v5 = load %s[v4] store %y[i], v5
           v8 = load %s[0] store %z[i], v8 } } }",
        &[&[0], &[1], &[5], &[40]],
    );
}
