//! Temporaries with the same bits on both sides of their diagonal: readers take them along rows,
//! and get the bits that the program means.

use compiler::lower::lower;
use ir::{Array, Dtype, Scalar};
use proptest::prelude::*;

use super::kernels;
use super::programs::checked;

/// The elements of `d` that are read where a program asks for `d[j, i]` in the loop over `i, j`.
fn reads(expression: &str) -> &'static str {
    reads_of("f32", expression)
}

/// The same for elements of a type.
fn reads_of(dtype: &str, expression: &str) -> &'static str {
    let source = format!(
        "fn f(x: {dtype}[n], y: {dtype}[n], m: {dtype}[n, n]) {{
            let d[i < n, j < n] = {expression}
            let s[i] = sum[j](exp(f32(d[j, i])))
            s
        }}"
    );
    let kernels = kernels(&checked(&source));
    match (kernels.contains("load %d[i, j]"), kernels.contains("load %d[j, i]")) {
        (true, false) => "along rows",
        (false, true) => "across",
        _ => panic!("{expression}\n{kernels}"),
    }
}

#[test]
fn symmetric_temporaries_are_read_along_rows() {
    for symmetric in [
        "x[i] * x[j]",
        "x[i] + x[j]",
        "(x[i] - x[j]) ^ 2",
        "abs(x[i] - x[j]) + y[i] * y[j]",
        "abs((x[i] - x[j]) * (y[i] * y[j]))",
        "exp(-abs(x[i] - x[j]))",
        "sum[k](m[i, k] * m[j, k] + abs(m[i, k] - m[j, k]))",
        "abs(m[i, j] - m[j, i])",
        "m[i, j] + m[j, i]",
    ] {
        assert_eq!(reads(symmetric), "along rows", "{symmetric}");
    }
    for other in [
        "x[i] - x[j]",
        "x[i] * y[j]",
        "m[i, j] * 2",
        "x[i] / x[j]",
        "(x[i] - x[j]) * x[i]",
        // A zero has another sign on the other side.
        "(x[i] - x[j]) * (y[i] - y[j])",
        "x[i] * x[j] * y[i]",
        "min(x[i], y[j])",
        "sum[k](m[k, i] * m[j, k])",
        "sum[k <= i](m[i, k]) + sum[k <= j](m[j, k]) * x[i]",
    ] {
        assert_eq!(reads(other), "across", "{other}");
    }
}

#[test]
fn unsigned_differences_have_no_absolute_value() {
    for (dtype, meant) in [("i32", "along rows"), ("i8", "along rows"), ("u32", "across"), ("u64", "across")] {
        assert_eq!(reads_of(dtype, "abs(x[i] - x[j])"), meant, "{dtype}");
        assert_eq!(reads_of(dtype, "(x[i] - x[j]) ^ 2"), "along rows", "{dtype}");
    }
}

/// Expressions over elements of vectors and a matrix on both sides of the diagonal.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec!["x[i]", "x[j]", "y[i]", "y[j]", "m[i, j]", "m[j, i]", "0.5"]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 16, 2, |inner| {
        let unary = prop::sample::select(vec!["abs", "-", "exp"]);
        let binary = prop::sample::select(vec!["+", "-", "*", "-", "*", "/"]);
        prop_oneof![
            (unary, inner.clone()).prop_map(|(op, a)| format!("{op}({a})")),
            inner.clone().prop_map(|a| format!("({a}) ^ 2")),
            (inner.clone(), binary, inner).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
        ]
    })
}

/// The same with the indices exchanged.
fn mirror(expression: &str) -> String {
    let swap = |c| match c {
        'i' => 'j',
        'j' => 'i',
        other => other,
    };
    let mut inside = false;
    let change = |c: char| {
        inside = (inside || c == '[') && c != ']';
        if inside { swap(c) } else { c }
    };
    expression.chars().map(change).collect()
}

/// Zeros of both signs, numbers that are equal, and what is not finite.
const ODD: [f32; 8] = [0.0, -0.0, 1.0, 1.0, -1.0, f32::INFINITY, f32::NAN, 0.3];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn reading_along_rows_keeps_bits(
        [one, two] in [expression(), expression()],
        joined in 0..4usize,
        seed in 0..1000usize,
    ) {
        let [other, its] = [mirror(&one), mirror(&two)];
        let both = match joined {
            0 => format!("{one} + {other}"),
            1 => format!("({one} - {other}) ^ 2 * ({two} * ({its}))"),
            2 => format!("({one} - {other}) * ({two} - ({its}))"),
            _ => one,
        };
        let source = format!(
            "fn f(x: f32[n], y: f32[n], m: f32[n, n]) {{
                let d[i < n, j < n] = {both}
                let e[i, j] = d[j, i] * 2
                let s[i] = sum[j](exp(d[j, i]))
                let t[i < n, j < n] = if i == j then 0 else 1 / d[j, i]
                (s, t, e)
            }}"
        );
        let checked = checked(&source);
        let program = lower(&checked, None).expect("it lowers");
        let array = |shape: &[usize], from: usize| {
            let element = |k: usize| Scalar::F32(ODD[(k * 5 + from + seed * (k + 1)) % ODD.len()]);
            let elements: Vec<_> = (0..shape.iter().product()).map(element).collect();
            Array::from_scalars(Dtype::F32, shape, &elements).unwrap()
        };
        let inputs = [array(&[3], 0), array(&[3], 3), array(&[3, 3], 1)];
        let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
        let found = interp::nest::run(&program, &inputs).expect("it runs").outputs;
        let meant = interp::source::run(&checked, &inputs, &compiler::math::define).expect("it runs");
        let bits = |mut arrays: Vec<Array>| {
            arrays.iter_mut().for_each(Array::canonical_nan);
            arrays.iter().map(|array| array.bytes().to_vec()).collect::<Vec<_>>()
        };
        prop_assert_eq!(bits(found), bits(meant), "{}", source);
    }
}
