//! Reductions and scans, in every order, over every type, alone, together and nested.

use ir::array::Array;
use ir::{Dtype, Scalar};

use crate::harness::{LENGTHS, Ways, agree, check, check_ways, compile, parse};

fn whole(dtype: Dtype, output: Dtype, body: &str) -> String {
    let results = if body.contains("@arg") { "v8, v9" } else { "v9" };
    format!(
        "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] output %y: {output}[]
         kernel @k {{ {results} = reduce i < n {{ v0 = load %x[i] {body} store %y[], v9 }} }}"
    )
}

/// A reduction of `v0` in any order.
fn free(op: &str, dtype: Dtype) -> String {
    if op.starts_with("arg") { format!("@{op}.{dtype} free (v0, number)") } else { format!("{op} free v0") }
}

#[test]
fn floats_in_every_order() {
    for dtype in [Dtype::F32, Dtype::F64] {
        for order in ["lanes", "blocks", "scan"] {
            for op in ["sum", "prod"] {
                check(&whole(dtype, dtype, &format!("}} with {op} {order} v0")), LENGTHS);
            }
            let body =
                format!("v1 = abs v0 v2 = const {dtype} 0.001 v3 = mul v1, v2 v4 = sqrt v3 }} with sum {order} v4");
            check(&whole(dtype, dtype, &body), LENGTHS);
        }
    }
}

#[test]
fn free_orders() {
    for dtype in Dtype::ALL.into_iter().filter(|d| !d.is_storage()) {
        let ops: &[&str] = match dtype {
            Dtype::Bool => &["any", "all"],
            d if d.is_float() => &["max", "min", "argmax", "argmin"],
            _ => &["sum", "prod", "max", "min", "argmax", "argmin"],
        };
        for op in ops {
            let output = if op.starts_with("arg") { Dtype::I64 } else { dtype };
            check(&whole(dtype, output, &format!("}} with {}", free(op, dtype))), LENGTHS);
        }
    }
}

#[test]
fn several_at_once() {
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n]
         output 0 %a: f32[] output 1 %b: f32[] output 2 %c: i64[] output 3 %d: f64[] output 4 %e: bool[]
         kernel @k {
           v9, v10 = reduce i < n { v0 = load %x[i] } with sum lanes v0, max free v0
           store %a[], v9 store %b[], v10
           v30, v11, v12, v13 = reduce i < n { v0 = load %x[i] v1 = cast f64 v0 v2 = const f32 3.0 v3 = gt v0, v2 }
             with @argmax.f32 free (v0, number), sum lanes v1, any free v3
           store %c[], v11 store %d[], v12 store %e[], v13 } }"
            .replace("v30, v11, v12, v13 = reduce i < n { v0 = load %x[i] v1 = cast f64 v0 v2 = const f32 3.0 v3 = gt v0, v2 }",
                     "v30, v11, v12, v13 = reduce j < n { v20 = load %x[j] v21 = cast f64 v20 v22 = const f32 3.0 v23 = gt v20, v22 }")
            .replace("free (v0, number), sum lanes v1, any free v3", "free (v20, number), sum lanes v21, any free v23")
            .as_str(),
        LENGTHS,
    );
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n]
         output 0 %a: f32[] output 1 %b: i64[] output 2 %d: f64[] output 3 %e: bool[]
         kernel @k {
           v11, v12, v13, v14 = reduce i < n { v0 = load %x[i] v1 = cast f64 v0 v2 = const f32 3.0 v3 = lt v0, v2 v4 = affine i }
             with sum lanes v0, sum free v4, sum lanes v1, all free v3
           store %a[], v11 store %b[], v12 store %d[], v13 store %e[], v14 } }",
        LENGTHS,
    );
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output 0 %a: f32[] output 1 %b: f32[] output 2 %c: f32[]
         kernel @k { v11, v12, v13 = reduce i < n { v0 = load %x[i] } with sum lanes v0, sum blocks v0, sum scan v0
           store %a[], v11 store %b[], v12 store %c[], v13 } }",
        LENGTHS,
    );
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output 0 %a: f32[] output 1 %b: f64[] output 2 %c: i64[]
         kernel @k { v11, v12, v30, v13 = reduce i < n { v0 = load %x[i] v1 = affine i v2 = cast f64 v1 v3 = cast f64 v0 v4 = mul v2, v3 }
             with sum lanes v0, prod blocks v4, @argmax.f32 free (v0, number)
           store %a[], v11 store %b[], v12 store %c[], v13 } }",
        LENGTHS,
    );
}

/// Reductions in the order by blocks, and over indices that cannot be merged.
#[test]
fn blocks_over_several_indices() {
    check(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: f64[n, m] output 0 %a: f64[] output 1 %b: f64[]
         kernel @k { v11, v12 = reduce i < n, j < m { v0 = affine i v1 = affine j v2 = mul v0, v1 v3 = cast f64 v2 v4 = load %x[i, j] v5 = mul v3, v4 }
             with sum blocks v3, sum blocks v5
           store %a[], v11 store %b[], v12 } }",
        &[&[0, 0], &[0, 5], &[5, 0], &[1, 1], &[7, 3], &[3, 130], &[300, 5], &[1, 255], &[1, 256], &[1, 257], &[2, 2048], &[3, 4097], &[300, 70]],
    );
}

#[test]
fn rows_and_columns() {
    const SHAPES: &[&[i64]] = &[
        &[0, 0],
        &[0, 5],
        &[5, 0],
        &[1, 1],
        &[7, 3],
        &[3, 130],
        &[300, 5],
        &[5, 4100],
        &[4100, 3],
        &[300, 70],
        &[257, 33],
        &[1000, 6],
    ];
    let text = |shape: &str, over: &str| {
        format!("program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output 0 %y: f32[{shape}]
          kernel @k {{ {over} }} }}")
    };
    for order in ["lanes", "blocks", "scan"] {
        check(
            &text(
                "n",
                &format!(
                    "parallel i < n {{ v1 = reduce j < m {{ v0 = load %x[i, j] }} with sum {order} v0 store %y[i], v1 }}"
                ),
            ),
            SHAPES,
        );
        check(
            &text(
                "m",
                &format!(
                    "parallel j < m {{ v1 = reduce i < n {{ v0 = load %x[i, j] }} with sum {order} v0 store %y[j], v1 }}"
                ),
            ),
            SHAPES,
        );
        check(
            &text("", &format!("v1 = reduce i < n, j < m {{ v0 = load %x[i, j] }} with sum {order} v0 store %y[], v1")),
            SHAPES,
        );
        check(
            &text("", &format!("v1 = reduce j < m, i < n {{ v0 = load %x[i, j] }} with sum {order} v0 store %y[], v1")),
            SHAPES,
        );
    }
    check(
        &text("m", "parallel j < m { v1 = reduce i < n { v0 = load %x[i, j] } with max free v0 store %y[j], v1 }"),
        SHAPES,
    );
}

/// Reductions inside a contiguous loop, which are vectorized across columns.
#[test]
fn columns_together() {
    let shapes: &[&[i64]] = &[&[0, 9], &[9, 0], &[1, 1], &[3, 4], &[300, 70], &[513, 33]];
    let text = |dtype: &str, body: &str| {
        format!("program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
          input 0 %x: {dtype}[n, m] input 1 %w: {dtype}[n] input 2 %b: f32[m] output 0 %y: {dtype}[m] output 1 %z: f32[m]
          kernel @k {{ parallel j < m {{ {body} }} }} }}")
    };
    for dtype in ["f32", "f64", "i32", "i64"] {
        let order = if dtype.starts_with('f') { "blocks" } else { "free" };
        let body = format!("
            v1 = load %b[j]
            v7, v8, v9 = reduce i < n {{ v2 = load %x[i, j] v3 = load %w[i] v4 = mul v2, v3 v5 = cast f32 v4 v6 = add v5, v1 }}
              with sum {order} v4, max free v2, sum blocks v6
            v10 = sub v7, v8 store %y[j], v10 v11 = const f32 0.0 v12 = max v9, v11 store %z[j], v12");
        check(&text(dtype, &body), shapes);
    }
    // Two reductions in sequence (variance over an axis), indices as numbers, three reduced
    // indices.
    let body = "
        v3 = reduce i < n { v1 = load %x[i, j] v0 = affine i + j v2 = cast f32 v0 v4 = add v1, v2 } with sum blocks v4
        v9 = reduce k < n { v5 = load %x[k, j] v6 = sub v5, v3 v7 = mul v6, v6 v8 = abs v7 } with sum blocks v8
        v20 = reduce p < n, q < 2, r < 3 { v10 = load %x[p, j] v11 = affine 2 * q + r v12 = cast f32 v11 v13 = mul v10, v12 } with sum blocks v13
        store %y[j], v9 store %z[j], v20";
    check(&text("f32", body), shapes);
}

/// Minima and maxima with constants, at every kind of zero.
#[test]
fn bounds() {
    for dtype in ["f32", "f64"] {
        for constant in ["0.0", "-0.0", "1.0", "-3.0", "inf", "-inf", "nan"] {
            for op in ["min", "max"] {
                let text = format!("program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] output %y: {dtype}[n]
                  kernel @k {{ parallel i < n {{ v0 = load %x[i] v1 = const {dtype} {constant} v2 = {op} v0, v1 v3 = {op} v1, v2
                    store %y[i], v3 }} }} }}");
                check(&text, &[&[1000]]);
            }
        }
    }
}

#[test]
fn softmax_in_one_kernel() {
    check(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output 0 %y: f32[n, m]
         kernel @k { parallel i < n {
           v1 = reduce j < m { v0 = load %x[i, j] } with max free v0
           v5 = reduce k < m { v2 = load %x[i, k] v3 = sub v2, v1 v4 = abs v3 } with sum lanes v4
           parallel l < m { v6 = load %x[i, l] v7 = sub v6, v1 v8 = div v7, v5 store %y[i, l], v8 } } } }",
        &[&[0, 3], &[3, 0], &[2, 1], &[3, 77], &[2, 4097]],
    );
}

#[test]
fn branches_and_checks_inside() {
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output 0 %y: f32[] output 1 %z: f32[]
         site0 = axis 0 of \"x\" at 0..0
         kernel @k {
           v9 = reduce i < n { v0 = affine 2 * i v1 = affine n v2 = lt v0, v1
             v5 = if v2 { v3 = load %x[2 * i] yield v3 } else { v4 = const f32 1.0 yield v4 } } with sum lanes v5
           store %y[], v9
           v12 = reduce j < n { v10 = affine j v13 = check v10 < n at site0 v11 = load %x[v13] } with sum lanes v11
           store %z[], v12 } }",
        LENGTHS,
    );
}

#[test]
fn scans() {
    for dtype in [Dtype::F32, Dtype::F64, Dtype::I32, Dtype::I64] {
        for op in ["sum", "prod", "max", "min", "argmax"] {
            let output = if op == "argmax" { Dtype::I64 } else { dtype };
            let prefix = match op {
                "argmax" => format!("1 of @argmax.{dtype} (v0, number)"),
                op => format!("{op} v0"),
            };
            let text = format!(
                "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] output 0 %y: {output}[n]
                 kernel @k {{ scan i < n {{ v0 = load %x[i] v1 = prefix {prefix} store %y[i], v1 }} }} }}"
            );
            check(&text, LENGTHS);
        }
    }
}

/// Prefixes of prefixes, with nothing between them.
#[test]
fn scans_of_scans() {
    for (dtype, ops) in
        [("f32", ["sum", "sum", "max"]), ("i64", ["max", "sum", "min"]), ("bool", ["all", "any", "any"])]
    {
        let [a, b, c] = ops;
        check_ways(
            &format!(
                "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] output 0 %y: {dtype}[n] output 1 %z: {dtype}[n]
                 kernel @k {{ scan i < n {{ v0 = load %x[i] v1 = prefix {a} v0 v2 = prefix {b} v1 v3 = prefix {c} v2
                   store %y[i], v1 store %z[i], v3 }} }} }}"
            ),
            LENGTHS,
        );
    }
}

#[test]
fn scans_of_rows_with_much_around() {
    check(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: f32[n, m]
         output 0 %y: f32[n, m] output 1 %z: f32[n, m + 1] output 2 %k: i64[n, m]
         kernel @k { parallel i < n {
           v20 = const f32 0.0 store %z[i, 0], v20
           scan j < m {
             v0 = load %x[i, j] v1 = mul v0, v0 v2 = prefix sum v1 v3 = add v2, v0 v4 = prefix sum v3 v5 = sub v4, v1
             v6 = prefix 1 of @argmin.f32 (v5, number) v7 = prefix max v0
             store %k[i, j], v6
             v8 = add v5, v7
             store %y[i, j], v8
             store %z[i, j + 1], v4 } } } }",
        &[&[0, 3], &[3, 0], &[2, 1], &[3, 17], &[2, 4097]],
    );
}

#[test]
fn zeros_of_both_signs_and_nan() {
    for (dtype, op) in
        [Dtype::F32, Dtype::F64].into_iter().flat_map(|d| ["max", "min", "argmax", "argmin"].map(|op| (d, op)))
    {
        let output = if op.starts_with("arg") { Dtype::I64 } else { dtype };
        let program = parse(&whole(dtype, output, &format!("}} with {}", free(op, dtype))));
        let module = compile(&program);
        let sign = if op.ends_with("max") { -1.0 } else { 1.0 };
        for n in [1usize, 3, 4, 5, 16, 17, 31, 64, 67, 4099] {
            for odd in [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                for rest in [0.0, -0.0, sign, sign * f64::INFINITY] {
                    for at in [0, n / 2, n - 1] {
                        let value = |k| interp::scalar::cast(dtype, Scalar::F64(if k == at { odd } else { rest }));
                        let elements: Vec<Scalar> = (0..n).map(value).collect();
                        let inputs = [Array::from_scalars(dtype, &[n], &elements).unwrap()];
                        agree(&program, &module, &inputs, &format!("{op} of {odd} at {at} among {n} {rest}"));
                    }
                }
            }
        }
    }
}

/// A single element decides the result, at every position.
#[test]
fn booleans_at_every_width() {
    let program = parse(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: bool[n] input 1 %w: bool[n]
         output 0 %any: bool[] output 1 %all: bool[] output 2 %sum: f32[]
         kernel @k { v90, v91, v92 = reduce i < n { v0 = load %x[i] v1 = load %w[i] v2 = and v0, v1 v3 = or v0, v1 v4 = cast f32 v0 }
           with any free v2, all free v3, sum lanes v4 store %any[], v90 store %all[], v91 store %sum[], v92 } }",
    );
    let ways = Ways::new(program);
    for n in [0, 1, 15, 16, 17, 127, 128, 129, 300, 4096, 4097, 9000] {
        let places = (0..n).filter(|k| n < 20 || k % 61 == 0 || n - k < 3).map(Some).chain([None]);
        for (place, most) in places.flat_map(|place| [(place, false), (place, true)]) {
            let scalars: Vec<_> = (0..n).map(|k| Scalar::Bool((Some(k) == place) != most)).collect();
            let x = Array::from_scalars(Dtype::Bool, &[n], &scalars).unwrap();
            let w = Array::from_scalars(Dtype::Bool, &[n], &vec![Scalar::Bool(!most); n]).unwrap();
            ways.agree(&[x, w], &format!("{n}, {place:?}, {most}"));
        }
    }
}

/// Accumulators in registers in all ways, and several reductions at once, with several groups per
/// step or one.
#[test]
fn lanes_of_every_kind() {
    let cases = [
        ("f32", "sum lanes v0, max free v0, min free v0"),
        ("f64", "sum lanes v0, min free v0"),
        ("f64", "max free v0"),
        ("i32", "sum free v0, min free v0, max free v0"),
        ("u64", "prod lanes v1, max free v0"),
        ("f32", "any free v2, all free v2"),
    ];
    for (dtype, folds) in cases {
        let folds: Vec<&str> = folds.split(", ").collect();
        let dtype_of = |fold: &str| match fold.rsplit(' ').next() {
            Some("v1") => "f32",
            Some("v2") => "bool",
            _ => dtype,
        };
        let each = |text: &dyn Fn(usize, &str) -> String, between: &str| {
            let all: Vec<String> = folds.iter().enumerate().map(|(k, fold)| text(k, fold)).collect();
            all.join(between)
        };
        check_ways(
            &format!(
                "program @p {{ symbol n = dim 0 of input 0 input 0 %x: {dtype}[n] {}
                 kernel @k {{ {} = reduce i < n {{ v0 = load %x[i] v1 = cast f32 v0 v2 = le v0, v0 }} with {} {} }} }}",
                each(&|k, fold| format!("output {k} %y{k}: {}[]", dtype_of(fold)), " "),
                each(&|k, _| format!("v1{k}"), ", "),
                folds.join(", "),
                each(&|k, _| format!("store %y{k}[], v1{k}"), " "),
            ),
            LENGTHS,
        );
    }
}
