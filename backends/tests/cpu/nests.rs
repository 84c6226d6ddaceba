//! Loops, accesses, branches, checks and contractions.

use crate::harness::{check, check_small};

const TWO: &[&[i64]] = &[&[0, 0], &[0, 3], &[3, 0], &[1, 1], &[1, 5], &[5, 1], &[7, 4], &[3, 17], &[17, 33], &[64, 65]];

#[test]
fn two_dimensions() {
    let over = |output: &str, body: &str| {
        format!(
            "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
          input 0 %x: f32[n, m] input 1 %b: f32[m] input 2 %c: f32[n] output %y: f32[{output}]
          kernel @k {{ parallel i < n, j < m {{ {body} }} }} }}"
        )
    };
    // Merged to one loop; row by row with a uniform operand each; transposed input and output.
    check(&over("n, m", "v0 = load %x[i, j] v1 = mul v0, v0 store %y[i, j], v1"), TWO);
    check(&over("n, m", "v0 = load %x[i, j] v1 = load %b[j] v2 = add v0, v1 store %y[i, j], v2"), TWO);
    check(&over("n, m", "v0 = load %x[i, j] v1 = load %c[i] v2 = add v0, v1 store %y[i, j], v2"), TWO);
    check(&over("m, n", "v0 = load %x[i, j] v1 = add v0, v0 store %y[j, i], v1"), TWO);
    check(&over("n, m", "v0 = load %x[n - 1 - i, m - 1 - j] v1 = add v0, v0 store %y[i, j], v1"), TWO);
    check(&over("n, m", "v0 = load %x as [n * m][i * m + j] v1 = add v0, v0 store %y[i, j], v1"), TWO);
    check(&over("n, m", "v0 = affine i * m - j v1 = cast f32 v0 store %y[i, j], v1"), TWO);
}

#[test]
fn strides() {
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output %y: f32[(n + 1) / 2]
         kernel @k { parallel i < (n + 1) / 2 { v0 = load %x[2 * i] v1 = add v0, v0 v2 = mul v1, v0 store %y[i], v2 } } }",
        &[&[0], &[1], &[2], &[31], &[64], &[257]],
    );
}

#[test]
fn three_dimensions() {
    check(
        "program @p { symbol a = dim 0 of input 0 symbol b = dim 1 of input 0 symbol c = dim 2 of input 0
         input 0 %x: f64[a, b, c] input 1 %s: f64[b] output %y: f64[a, b, c] output 1 %z: f64[c, a, b]
         kernel @k { parallel i < a, j < b, k < c {
           v0 = load %x[i, j, k] v1 = load %s[j] v2 = mul v0, v1 store %y[i, j, k], v2 } }
         kernel @l { parallel i < a, j < b, k < c { v0 = load %y[i, j, k] v1 = sub v0, v0 v2 = add v1, v0 store %z[k, i, j], v2 } } }",
        &[&[0, 1, 2], &[1, 2, 0], &[2, 3, 4], &[5, 1, 9], &[3, 7, 16], &[4, 5, 33]],
    );
}

#[test]
fn guards() {
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output %y: f32[n]
         kernel @k { parallel i < n {
           v0 = affine i v1 = const i64 0 v2 = gt v0, v1
           v5 = if v2 { v3 = load %x[i - 1] yield v3 } else { v4 = const f32 9.0 yield v4 }
           store %y[i], v5 } } }",
        &[&[0], &[1], &[2], &[31], &[257]],
    );
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: i32[n] output %y: i32[2 * n]
         kernel @k { parallel i < 2 * n {
           v0 = affine i v1 = affine n v2 = lt v0, v1
           if v2 { v3 = load %x[i] store %y[i], v3 } else { v4 = load %x[i - n] v5 = neg v4 store %y[i], v5 } } } }",
        &[&[0], &[1], &[2], &[31], &[257]],
    );
}

#[test]
fn gathers_and_faults() {
    let text = "program @p { symbol n = dim 0 of input 0 symbol m = dim 0 of input 1
         input 0 %x: f32[n] input 1 %idx: i64[m] output %y: f32[m]
         site0 = axis 0 of \"x\" at 0..0
         kernel @k { parallel i < m { v0 = load %idx[i] v1 = check v0 < n at site0 v2 = load %x[v1] v3 = add v2, v2 store %y[i], v3 } } }";
    // Indices are -4..=4: most lengths fail somewhere, the empty one does not.
    check_small(text, &[&[5, 0], &[5, 1], &[5, 2], &[5, 9], &[5, 100], &[0, 3], &[9, 1000]]);
    // Proved in bounds by arithmetic: no check, so it is vectorized with gathers.
    check_small(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 0 of input 1
         input 0 %x: f32[n] input 1 %idx: i64[m] output %y: f32[m]
         kernel @k { parallel i < m { v0 = load %idx[i] v1 = affine n v2 = rem v0, v1 v3 = abs v2 v4 = load %x[v3]
           v5 = add v4, v4 v6 = mul v5, v4 v7 = mul v6, v4 v8 = mul v7, v4 v9 = mul v8, v6 v10 = mul v9, v6 store %y[i], v10 } } }",
        &[&[5, 0], &[5, 1], &[5, 9], &[5, 100], &[9, 1000]],
    );
}

/// The first failure in the order of iterations is reported, wherever checks have been hoisted to
/// and whatever has been stored before.
#[test]
fn checks_before_their_loops() {
    // Indices are 0..=8, and 9 - i: which check fails first depends on the lengths.
    let head = "program @p { symbol n = dim 0 of input 0 symbol k = dim 0 of input 1 symbol m = dim 0 of input 2
         input 0 %x: f32[n] input 1 %j: i32[k] input 2 %idx: i32[m] output %y: f32[m] output 1 %z: f32[m] output 2 %s: f32[]
         site0 = axis 0 of \"x\" at 0..0 site1 = axis 0 of \"j\" at 0..0 site2 = axis 0 of \"x\" at 1..1";
    let lead = "v0 = load %idx[i] v1 = cast i64 v0 v2 = const i64 4 v3 = add v1, v2 v4 = check v3 < n at site0";
    let other = "v5 = const i64 9 v6 = sub v5, v3 v7 = check v6 < k at site1";
    let sum = "v31 = reduce p < m { v22 = load %idx[p] v23 = cast i64 v22 v24 = const i64 4 v25 = add v23, v24 v26 = check v25 < n at site2
           v27 = load %x[v26] } with sum lanes v27 store %s[], v31";
    let none = "v31 = const f32 1.0 store %s[], v31";
    for (body, last) in [
        // Two checks in a loop, and a loop with a check after it.
        (format!("{lead} {other} v9 = load %x[v4] v10 = load %j[v7] v11 = cast f32 v10 v12 = add v9, v11"), sum),
        // A check of an element loaded at a checked subscript.
        (
            format!(
                "{lead} {other} v8 = load %j[v7] v9 = cast i64 v8 v13 = add v9, v2 v10 = check v13 < n at site2 v12 = load %x[v10]"
            ),
            none,
        ),
    ] {
        let text =
            format!("{head} kernel @k {{ parallel i < m {{ {body} store %y[i], v12 store %z[i], v12 }} {last} }} }}");
        check_small(
            &text,
            &[&[9, 10, 0], &[9, 10, 1], &[9, 10, 5000], &[8, 10, 100], &[9, 9, 100], &[7, 8, 40], &[0, 0, 3]],
        );
    }
}

#[test]
fn dependent_extents() {
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: i64[n] output %y: i64[n] output 1 %z: f32[n]
         kernel @k { parallel i < n {
           v1 = reduce k < i + 1 { v0 = load %x[k] } with sum free v0
           store %y[i], v1
           v5 = reduce p < n - i, l < 2 { v3 = load %x[i + p] v4 = cast f32 v3 } with sum lanes v4
           store %z[i], v5 } } }",
        &[&[0], &[1], &[2], &[31], &[257]],
    );
    check_small(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
         input 0 %x: f32[n, m] input 1 %len: i64[n] output %y: f32[n]
         kernel @k { parallel i < n { v0 = load %len[i] v1 = affine m v2 = min v0, v1
           v4 = reduce k < v2 { v3 = load %x[i, k] } with sum lanes v3 store %y[i], v4 } } }",
        &[&[0, 0], &[5, 3], &[33, 9]],
    );
}

#[test]
fn kernels_in_sequence_and_constants() {
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] temp %t: f32[n] temp %s: f32[] output %y: f32[n]
         constant %c: f32[4] = [1.5, -0.0, nan, -inf]
         kernel @a { parallel i < n { v0 = load %x[i] v1 = load %c[0] v2 = add v0, v1 store %t[i], v2 } }
         kernel @b { v0 = reduce i < n { v1 = load %t[i] } with sum lanes v1 store %s[], v0 }
         kernel @c { v9 = load %s[] parallel i < n { v0 = load %t[i] v2 = div v0, v9 store %y[i], v2 } } }"
            .replace(
                "v0 = reduce i < n { v1 = load %t[i] } with sum lanes v1 store %s[], v0",
                "v1 = reduce i < n { v0 = load %t[i] } with sum lanes v0 store %s[], v1",
            )
            .replace(
                "v9 = load %s[] parallel i < n { v0 = load %t[i] v2 = div v0, v9 store %y[i], v2 }",
                "v0 = load %s[] parallel i < n { v1 = load %t[i] v2 = div v1, v0 store %y[i], v2 }",
            )
            .as_str(),
        &[&[0], &[1], &[31], &[5000]],
    );
}

#[test]
fn serial_loops() {
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output %y: f32[n, 4]
         kernel @k { serial i < n { v0 = load %x[i] serial j < 4 { v1 = affine i + j v2 = cast f32 v1 v3 = add v0, v2 store %y[i, j], v3 } } } }",
        &[&[0], &[1], &[31]],
    );
}

#[test]
fn stencils_unroll() {
    for order in ["lanes", "blocks", "free"] {
        let op = if order == "free" { "max" } else { "sum" };
        let text = format!(
            "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output %y: f32[n - 2, m - 2]
             kernel @k {{ parallel i < n - 2, j < m - 2 {{
               v1 = reduce r < 3, s < 3 {{ v0 = load %x[i + r, j + s] }} with {op} {order} v0
               v2 = const f32 9.0 v3 = div v1, v2 store %y[i, j], v3 }} }} }}"
        );
        check(&text, &[&[2, 2], &[3, 3], &[3, 20], &[20, 35]]);
    }
}

#[test]
fn scalars() {
    check(
        "program @p { symbol k = value of input 0 input 0 %k: i32[] input 1 %a: f32[] output %y: f32[]
         kernel @k { v0 = load %a[] v1 = affine k v2 = cast f32 v1 v3 = mul v0, v2 store %y[], v3 } }",
        &[&[3], &[-5]],
    );
}

fn matmul(dtype: &str, left: &str, right: &str, epilogue: &str) -> String {
    format!(
        "program @p {{ symbol n = dim 0 of input 0 symbol k = dim 1 of input 0 symbol m = dim 1 of input 1
         input 0 %a: {dtype}[n, k] input 1 %b: {dtype}[k, m] input 2 %c: {dtype}[m] output %y: {dtype}[n, m]
         kernel @k {{ v9: {dtype} = contract i < n, j < m over l < k {{
           left {{ {left} }} right {{ {right} }} epilogue {{ {epilogue} }} }} }} }}"
    )
}

const PRODUCTS: &[&[i64]] = &[
    &[0, 0, 0],
    &[2, 0, 3],
    &[0, 4, 2],
    &[1, 1, 1],
    &[3, 5, 7],
    &[17, 9, 33],
    &[70, 300, 40],
    &[600, 3, 5],
    &[3, 700, 600],
];

#[test]
fn products() {
    for dtype in ["f32", "f64", "i32", "i64", "u32"] {
        let (left, right) = ("v0 = load %a[i, l] yield v0", "v1 = load %b[l, j] yield v1");
        check_small(&matmul(dtype, left, right, "store %y[i, j], v9"), PRODUCTS);
        // A bias and a maximum in the epilogue.
        let epilogue =
            "v2 = load %c[j] v3 = add v9, v2 v4 = const f32 0.0 v5 = cast DT v4 v6 = max v3, v5 store %y[i, j], v6"
                .replace("DT", dtype);
        check_small(&matmul(dtype, left, right, &epilogue), PRODUCTS);
        // Computed factors.
        let left = "v0 = load %a[i, l] v10 = add v0, v0 yield v10";
        let right = "v1 = load %b[l, j] v11 = load %c[j] v12 = mul v1, v11 yield v12";
        check_small(&matmul(dtype, left, right, "store %y[i, j], v9"), PRODUCTS);
    }
}

/// The products of a matrix and the same one, turned, with sizes around those of tiles.
#[test]
fn symmetric_products() {
    for dtype in ["f32", "f64"] {
        for [left, right] in [["i, l", "j, l"], ["l, i", "l, j"]] {
            let (rows, inner) = if left == "i, l" { ("n", "k") } else { ("k", "n") };
            let text = format!(
                "program @p {{ symbol n = dim 0 of input 0 symbol k = dim 1 of input 0
                 input 0 %a: {dtype}[n, k] output %y: {dtype}[{rows}, {rows}]
                 kernel @k {{ v9: {dtype} = contract i < {rows}, j < {rows} over l < {inner} {{
                   left {{ v0 = load %a[{left}] yield v0 }} right {{ v1 = load %a[{right}] yield v1 }}
                   epilogue {{ store %y[i, j], v9 }} }} }} }}"
            );
            check_small(&text, &[&[0, 3], &[3, 0], &[1, 1], &[13, 5], &[15, 40], &[97, 3], &[3, 97], &[600, 30]]);
        }
    }
}

/// Factors and results contiguous along rows, along columns and along neither, with sizes around
/// those of tiles and blocks.
#[test]
fn products_of_any_layout() {
    let sizes: &[&[i64]] = &[
        &[1, 1, 1],
        &[1, 40, 130],
        &[130, 40, 1],
        &[4, 70, 65],
        &[5, 50_000, 1],
        &[14, 192, 32],
        &[15, 193, 33],
        &[5, 16, 1057],
        &[230, 5, 47],
        &[0, 3, 5],
        &[5, 0, 9],
        &[2, 0, 3],
    ];
    let matrix = |name: &str, (i, n): (&str, &str), (j, m): (&str, &str), way: &str| match way {
        "rows" => (format!("%{name}: f32[{n}, {m}]"), format!("%{name}[{i}, {j}]")),
        "columns" => (format!("%{name}: f32[{m}, {n}]"), format!("%{name}[{j}, {i}]")),
        _ => (format!("%{name}: f32[{n}, {m}, 2]"), format!("%{name}[{i}, {j}, 1]")),
    };
    let ways = ["rows", "columns", "neither"];
    for (a, b) in ways.iter().flat_map(|a| ways.map(|b| (a, b))) {
        for y in ["rows", "columns"] {
            let (i, j, l) = (("i", "n"), ("j", "m"), ("l", "k"));
            let ((a, load_a), (b, load_b)) = (matrix("a", i, l, a), matrix("b", l, j, b));
            let (y, store_y) = matrix("y", i, j, y);
            check_small(
                &format!(
                    "program @p {{ symbol n = value of input 2 symbol k = value of input 3 symbol m = value of input 4
                     input 0 {a} input 1 {b} input 2 %n: i32[] input 3 %k: i32[] input 4 %m: i32[] output {y}
                     kernel @k {{ v9: f32 = contract i < n, j < m over l < k {{
                       left {{ v0 = load {load_a} yield v0 }} right {{ v1 = load {load_b} yield v1 }}
                       epilogue {{ store {store_y}, v9 }} }} }} }}"
                ),
                sizes,
            );
        }
    }
}

#[test]
fn products_of_many_indices() {
    // Batched attention scores: two batch indices, a transposed factor.
    check_small(
        "program @p { symbol h = dim 0 of input 0 symbol s = dim 1 of input 0 symbol d = dim 2 of input 0 symbol t = dim 1 of input 1
         input 0 %q: f32[h, s, d] input 1 %k: f32[h, t, d] output %y: f32[h, s, t]
         kernel @k { v9: f32 = contract b < h, i < s, j < t over c < d {
           left { v0 = load %q[b, i, c] yield v0 } right { v1 = load %k[b, j, c] yield v1 }
           epilogue { v2 = const f32 0.5 v3 = mul v9, v2 store %y[b, i, j], v3 } } } }",
        &[&[2, 3, 4, 5], &[0, 3, 4, 5], &[3, 1, 1, 1], &[2, 40, 33, 50]],
    );
    // A convolution: groups of several indices.
    check_small(
        "program @p { symbol b = dim 0 of input 0 symbol c = dim 1 of input 0 symbol h = dim 2 of input 0 symbol w = dim 3 of input 0
         symbol f = dim 0 of input 1 symbol r = dim 2 of input 1 symbol s = dim 3 of input 1
         input 0 %x: f32[b, c, h, w] input 1 %k: f32[f, c, r, s] output %y: f32[b, f, h - r + 1, w - s + 1]
         kernel @k { v9: f32 = contract n < b, o < f, i < h - r + 1, j < w - s + 1 over z < c, u < r, v < s {
           left { v0 = load %x[n, z, i + u, j + v] yield v0 } right { v1 = load %k[o, z, u, v] yield v1 }
           epilogue { v2 = max v9, v9 store %y[n, o, i, j], v2 } } } }",
        &[&[1, 1, 3, 3, 1, 3, 3], &[2, 3, 7, 9, 4, 3, 2], &[1, 2, 30, 40, 5, 3, 3]],
    );
    // A vector times a matrix, a dot product.
    check_small(
        "program @p { symbol k = dim 0 of input 0 symbol m = dim 1 of input 1
         input 0 %a: f64[k] input 1 %b: f64[k, m] input 2 %c: f64[k] output %y: f64[m] output 1 %z: f64[]
         kernel @k { v9: f64 = contract j < m over l < k { left { v0 = load %a[l] yield v0 } right { v1 = load %b[l, j] yield v1 } epilogue { store %y[j], v9 } } }
         kernel @l { v9: f64 = contract over l < k { left { v0 = load %a[l] yield v0 } right { v1 = load %c[l] yield v1 } epilogue { store %z[], v9 } } } }",
        &[&[0, 0], &[1, 1], &[5, 3], &[40, 70]],
    );
    // Inside a loop.
    check_small(
        "program @p { symbol g = dim 0 of input 0 symbol n = dim 1 of input 0 symbol m = dim 2 of input 1
         input 0 %a: f32[g, n, n] input 1 %b: f32[g, n, m] output %y: f32[g, n, m]
         kernel @k { parallel q < g { v7 = affine q v8 = cast f32 v7
           v9: f32 = contract i < n, j < m over l < n { left { v0 = load %a[q, i, l] yield v0 } right { v1 = load %b[q, l, j] yield v1 }
             epilogue { v2 = add v9, v8 store %y[q, i, j], v2 } } } } }",
        &[&[3, 4, 5], &[1, 30, 2]],
    );
}
