//! Strided loads: transpositions, alone and inside expressions.

use ir::Dtype;

use crate::harness::check_ways as check;

const SHAPES: &[&[i64]] = &[
    &[0, 5],
    &[5, 0],
    &[1, 1],
    &[1, 40],
    &[40, 1],
    &[15, 17],
    &[16, 16],
    &[64, 256],
    &[65, 257],
    &[63, 511],
    &[300, 33],
    &[129, 300],
    &[3, 1100],
];

fn matrices(dtype: Dtype, body: &str) -> String {
    format!(
        "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
         input 0 %x: {dtype}[n, m] input 1 %y: {dtype}[m, n] output %z: {dtype}[m, n]
         kernel @k {{ parallel i < m, j < n {{ {body} }} }} }}"
    )
}

#[test]
fn elements_of_every_width() {
    for dtype in Dtype::ALL {
        check(&matrices(dtype, "v0 = load %x[j, i] store %z[i, j], v0"), SHAPES);
        if !dtype.is_storage() && dtype != Dtype::Bool {
            let body = "v0 = load %x[j, i] v1 = load %y[i, j] v2 = add v0, v1 store %z[i, j], v2";
            check(&matrices(dtype, body), SHAPES);
        }
    }
}

#[test]
fn parts_of_arrays_forwards_and_backwards() {
    // Shifted, in reverse, every other row, and next to loads that are contiguous.
    let body =
        "v0 = load %x[n - 1 - j, i] v1 = load %y[i, j] v2 = load %w[i] v3 = load %x[j, i] v4 = load %v[2 * j, i + 1]
        v5 = sub v0, v1 v6 = mul v5, v2 v7 = fma v3, v4, v6 v8 = affine i - j v9 = cast f32 v8 v10 = add v7, v9
        store %z[i, j], v10";
    let text = matrices(Dtype::F32, body);
    let text = text.replace("output %z", "input 2 %w: f32[m] input 3 %v: f32[2 * n, m + 1] output %z");
    check(&text, SHAPES);
}

#[test]
fn several_results_and_branches() {
    let body = "v0 = load %x[j, i] v1 = load %y[i, j] v2 = lt v0, v1
        v5 = if v2 { v3 = neg v0 yield v3 } else { v4 = sqrt v1 yield v4 }
        store %z[i, j], v5 store %c[i, j], v2";
    let text = matrices(Dtype::F64, body).replace("output %z", "output 1 %c: bool[m, n] output 0 %z");
    check(&text, SHAPES);
}

#[test]
fn permutations_of_three_axes() {
    for (shape, at) in [("bac", "jik"), ("acb", "ikj"), ("cba", "kji"), ("bca", "jki"), ("cab", "kij")] {
        let list = |names: &str| names.chars().map(String::from).collect::<Vec<_>>().join(", ");
        let dim = |name| shape.find(name).unwrap();
        let [a, b, c] = ['a', 'b', 'c'].map(dim);
        let text = format!(
            "program @p {{ symbol a = dim {a} of input 0 symbol b = dim {b} of input 0 symbol c = dim {c} of input 0
             input 0 %x: f32[{}] output %z: f32[a, b, c]
             kernel @k {{ parallel i < a, j < b, k < c {{ v0 = load %x[{}] store %z[i, j, k], v0 }} }} }}",
            list(shape),
            list(at)
        );
        check(&text, &[&[2, 3, 5], &[3, 70, 70], &[70, 3, 70], &[70, 70, 3], &[33, 40, 17], &[2, 65, 300]]);
    }
}
