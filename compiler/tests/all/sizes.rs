//! Sizes and the integers that are sizes: which expressions are sizes, which may be at run time,
//! and the consequences. The rows are those of `proofs`.

use compiler::check::check;
use ir::array::ArrayRef;
use ir::{Array, Scalar};

use super::proofs::expect;

const NO_SIZE: &str =
    "a size is made of numbers, size names and integer parameters; help: sizes are settled before anything runs";

/// In a size, division rounds down. A quotient by a number that may not divide is not a size.
#[test]
fn a_size_is_made_of_sizes() {
    expect(&[
        ("fn f(x: f32[n], y: f32[n / 2]) = y", "f32[n / 2]"),
        ("fn f(x: f32[n], k: i64, y: f32[n / k]) = y", "f32[n / k]"),
        ("fn f(x: f32[n], y: f32[n / 0]) = y", &format!("E0116 at `n / 0`: {NO_SIZE}")),
        ("fn f(x: f32[n], y: f32[n / -2]) = y", &format!("E0116 at `n / -2`: {NO_SIZE}")),
        ("fn f(x: f32[n], y: f32[n % 2]) = y", &format!("E0116 at `n % 2`: {NO_SIZE}")),
    ]);
}

/// A length is solved for the one name in it that nothing else binds, in any order of the
/// parameters.
#[test]
fn lengths_are_solved_for_names() {
    expect(&[
        ("fn f(x: f32[2 * n]) = x[:n] + x[n:]", "f32[n]"),
        ("fn f(x: f32[n + 1], y: f32[n]) = x[1:] + y", "f32[n]"),
        ("fn f(y: f32[n], x: f32[n + 1]) = x[1:] + y", "f32[n]"),
        ("fn f(x: f32[n + 1], y: f32[2 * (n - 1) + n]) = y[:n]", "f32[n]"),
        ("fn f(x: f32[n - 2]) = x", "f32[n - 2]"),
        ("fn f(x: f32[n + k - 1], k: i64) = iota(n)", "i64[n]"),
        ("fn f(x: f32[n + k - 1], w: f32[k]) = iota(n)", "i64[n]"),
        // A name that is solved for leaves one in the other length.
        ("fn f(x: f32[n + m], y: f32[2 * m]) = iota(n) * 2", "i64[n]"),
        ("fn g(x: f32[2 * n]) = x[:n] + x[n:]\nfn f(x: f32[4 * k]) = g(x)", "f32[2 * k]"),
        (
            "fn g(x: f32[2 * n]) = x[:n] + x[n:]\nfn f(x: f32[k]) = g(x)",
            "f32[k / 2] where k == 2 * (k / 2) and k / 2 == k - k / 2",
        ),
        ("fn g(x: f32[n + 1]) = x[:n]\nfn f(x: f32[k]) = g(x)", "f32[k - 1] where k >= 1"),
    ]);
    insta::assert_snapshot!(super::check::outcomes(&[
        "fn f(x: f32[-n]) = x",
        "fn f(x: f32[n * n]) = x",
        "fn f(x: f32[n / 2]) = x",
        "fn f(x: f32[n + m]) = x",
        "fn f(x: f32[n + m], y: f32[n - m]) = x",
        "fn f(x: f32[n * k], k: i64) = x",
        "fn g(x: f32[2 * n]) = x\nfn f(x: f32[3]) = g(x)",
        "fn g(x: f32[n + 2]) = x\nfn f(x: f32[1]) = g(x)",
    ]));
}

/// In a size, a parameter is the number that it holds, whatever its type: nothing wraps and nothing
/// needs to be converted.
#[test]
fn a_parameter_of_any_integer_type_stands_in_a_size() {
    for ty in ["i8", "u8", "i32", "u32", "i64", "u64"] {
        let iota = |size: &str| format!("fn f(x: f32[n], k: {ty}) = iota({size})");
        expect(&[
            (&iota("k + 1"), "i64[k + 1] where k + 1 >= 0"),
            (&iota("n - k"), "i64[n - k] where n >= k"),
            (&iota("2 * k"), "i64[2 * k] where 2 * k >= 0"),
            (&iota("n / k"), "i64[n / k] where n / k >= 0"),
            (&iota("-k"), "i64[-k] where 0 >= k"),
        ]);
    }
}

/// A converted parameter as a subscript is a requirement of the call if the conversion keeps every
/// value, and is checked at run time otherwise.
#[test]
fn conversions_that_keep_every_value_are_seen_through() {
    let types = ["i8", "u8", "i32", "u32", "i64", "u64"];
    let mut rows = vec![];
    for from in types {
        let keeps = |to: &&str| {
            let file = grammar::parse(&format!("fn f(x: f32[n], k: {from}) = x[{to}(k)]")).unwrap();
            check(&file, "f").unwrap().sites.is_empty()
        };
        rows.push(format!("{from}: {}", types.into_iter().filter(keeps).collect::<Vec<_>>().join(" ")));
    }
    insta::assert_snapshot!(rows.join("\n"), @r"
    i8: i8 i32 i64
    u8: u8 i32 u32 i64 u64
    i32: i32 i64
    u32: u32 i64 u64
    i64: i64
    u64: u64
    ");
}

/// Arithmetic on narrow integers may wrap where the subscript of a proof would not.
#[test]
fn subscripts_are_followed_through_arithmetic_of_wide_integers() {
    let outside = "k + 1 >= 0 and n >= k + 2";
    expect(&[
        ("fn f(x: f32[n], k: i64) = x[k + 1]", &format!("f32 where {outside}")),
        ("fn f(x: f32[n], k: i32) = x[i64(k) + 1]", &format!("f32 where {outside}")),
        ("fn f(x: f32[n], k: i64) = x[-k]", "f32 where 0 >= k and k + n >= 1"),
        ("fn f(x: f32[n], k: i32) = x[k + 1]", "f32, checked: axis 0 of x"),
        ("fn f(x: f32[n], k: i32) = x[-k]", "f32, checked: axis 0 of x"),
        ("fn f(x: f32[n], k: i32) = x[i64(k + 1)]", "f32, checked: axis 0 of x"),
        ("fn f(x: f32[n], k: u8) = x[k * 2]", "f32, checked: axis 0 of x"),
        // Of a negative number, `u64` makes 0.
        ("fn f(x: f32[3], t: f32) = if u64(t) >= 0 && u64(t) < 3 then x[i64(t)] else 0", "f32, checked: axis 0 of x"),
        ("fn f(x: f32[n]) { let y[i < n] = x[i32(i)]; y }", "f32[n], checked: axis 0 of x"),
        ("fn f(x: f32[n]) { let y[i] = x[-i + n - 1]; y }", "f32[n]"),
        ("fn f(x: f32[n]) { let y[i] = x[i64(i32(2)) * i]; y }", "f32[(n + 1) / 2]"),
    ]);
}

#[test]
fn arrays_have_sixteen_axes_and_no_more() {
    let axes = |count: usize| (0..count).map(|k| format!("n{k}")).collect::<Vec<_>>().join(", ");
    let binders = |count: usize| (0..count).map(|k| format!("a{k} < 1")).collect::<Vec<_>>().join(", ");
    let ones = |count: usize| vec!["1"; count].join(", ");
    expect(&[
        (&format!("fn f(x: f32[{}]) = x * 2", axes(16)), &format!("f32[{}]", axes(16))),
        (
            &format!("fn f(x: f32[{}]) = x * 2", axes(17)),
            &format!("E0134 at `f32[{}]`: an array of 17 axes: the limit is 16", axes(17)),
        ),
        (&format!("fn f(x: f32[n]) {{ let y[{}] = x; y }}", binders(15)), &format!("f32[{}, n]", ones(15))),
        (
            &format!("fn f(x: f32[n]) {{ let y[{}] = x; y }}", binders(16)),
            "E0134 at `y`: an array of 17 axes: the limit is 16",
        ),
    ]);
}

/// It fits any length. Other lengths must be equal.
#[test]
fn a_literal_one_is_stretched_on_either_side() {
    expect(&[
        ("fn f(x: f32[n, m], s: f32[n, 1]) = x * s", "f32[n, m]"),
        ("fn f(s: f32[n, 1], x: f32[n, m]) = s * x", "f32[n, m]"),
        ("fn f(s: f32[n, 1], x: f32[1, m]) = s * x", "f32[n, m]"),
        ("fn f(k: i64, s: f32[k], x: f32[m]) = s * x", "f32[k] where k == m"),
    ]);
    let (column, row) = (array(&[2, 1], &[2, 3]), array(&[1, 3], &[5, 7, 9]));
    let found = run("fn f(s: i64[n, 1], x: i64[1, m]) = s * x", &[column.as_ref(), row.as_ref()]);
    assert_eq!(found, Ok(vec![10, 14, 18, 15, 21, 27]));
}

/// An array of `i64`.
fn array(shape: &[usize], elements: &[i64]) -> Array {
    Array::from_slice(shape, elements).unwrap()
}

/// The elements of the result of `f`, which are `i64`.
fn run(source: &str, inputs: &[ArrayRef<'_>]) -> Result<Vec<i64>, interp::source::RunError> {
    let checked = check(&grammar::parse(source).unwrap(), "f").unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    let results = interp::source::run(&checked, inputs, &compiler::math::define)?;
    let element = |k| match results[0].get(k) {
        Some(Scalar::I64(v)) => v,
        other => panic!("{other:?}"),
    };
    Ok((0..results[0].len()).map(element).collect())
}

/// The end of a reducer's index is an ordinary number: it truncates and wraps, and division by zero
/// gives 0. So it is a size only if a size would be the same number.
#[test]
fn where_a_reducer_ends_is_an_ordinary_number() {
    for (source, length, scalar, expected) in [
        ("fn f(x: i64[n], m: i64) = sum[k < n / m](1)", 4, 2, 2),
        ("fn f(x: i64[n], m: i64) = sum[k < n / m](1)", 4, 0, 0),
        ("fn f(x: i64[n], m: i64) = sum[k < n / m](1)", 4, -1, 0),
        ("fn f(x: i64[n], m: i64) = sum[k <= n / m](1)", 4, -8, 1),
        ("fn f(x: i64[n], m: i64) = sum[k < n / 2](m)", 5, 1, 2),
        ("fn f(x: i64[n], m: i64) = sum[k <= n / 0](m)", 4, 1, 1),
        ("fn f(x: i64[n], m: i64) = sum[k <= n / -8](m)", 4, 1, 1),
        ("fn f(x: i64[n], m: i64) = sum[k <= (n - 5) / 2](m)", 4, 1, 1),
        ("fn f(x: i64[n], m: i64) = sum[k < (4611686018427387904 * n + 4) / 2](m)", 4, 1, 2),
    ] {
        let found = run(source, &[array(&[length], &vec![0; length]).as_ref(), array(&[], &[scalar]).as_ref()]);
        assert_eq!(found, Ok(vec![expected]), "{source} of {length}, {scalar}");
    }
    let no_number = "E0137 at `argmax[i < n / m, k <= i](x[i, k])`: `argmax` has no number for its elements: how far `k` runs is no \
                     size known here; help: bound `k` by a size, and choose in the body: `if k < e then ... else -inf`";
    expect(&[
        ("fn f(x: f32[n, n]) = argmax[i < n / 2, k <= i](x[i, k])", "i64, checked: elements of argmax"),
        ("fn f(x: f32[n, n], m: i64) = argmax[i < n / m, k <= i](x[i, k])", no_number),
        ("fn f(x: f32[n]) = sum[k < n / 0](if k < n then x[k] else 0)", "f32"),
    ]);
}

/// Two declared names are two sizes, unless the signature says that they are equal. Equations with
/// arithmetic are required of the call.
#[test]
fn two_names_are_two_sizes() {
    expect(&[
        ("fn f(x: f32[n], y: f32[m]) = x[::2] + y", "f32[m] where (n + 1) / 2 == m"),
        ("fn f(x: f32[n], y: f32[3]) = x + y", "f32[n] where n == 3"),
        ("fn f(x: f32[n], k: i64) { let z[i < k] = 1.0; x + z }", "f32[n] where k >= 0 and n == k"),
        ("fn f(x: f32[n], y: f32[m]) where n <= m && m <= n = x + y", "f32[n] where m >= n and n >= m and n == m"),
        (
            "fn f(x: f32[n], y: f32[m], z: f32[k]) where n == m && m == k = x + z",
            "f32[n] where n == m and m == k and n == k",
        ),
        (
            "fn f(x: f32[n], k: i64) where k == 0 { let y[i] = x[i + k] - x[i]; y }",
            "f32[n - k] where k == 0 and n - k == n, exact n - k",
        ),
    ]);
    insta::assert_snapshot!(super::check::outcomes(&[
        "fn f(x: f32[n], y: f32[m]) = x + y",
        "fn f(x: f32[n], y: f32[m]) where n > 1 = x + y",
        "fn f(x: f32[n], y: f32[m]) -> f32[m] = x + 1",
        "fn f(x: f32[n], y: f32[m]) -> (a: f32[n], f32) = (x[1:] + y[1:], 1)",
        "fn f(a: f32[n, k], b: f32[l, m]) = a @ b",
        "fn f(e: f32[n, c]) = e / sum(e, axis = 1)",
        "fn f(x: f32[n, m]) { let y[i] = x[i, i]\n y }",
        "fn f(x: f32[n], k: i64) { let y[i] = x[i] - x[i + k]\n y }",
        "fn f(x: f32[n], k: i64) = x[k:] - x",
        "fn g(x: f32[n], y: f32[n]) = x + y\nfn f(x: f32[a], y: f32[b]) = g(x, y)",
        "fn f(x: f32[n], s: f32[m], k: i64) = loop y = x, t < k { s }",
        "fn f(x: f32[n]) = reshape(x, n + n)",
    ]));
}

/// A stated condition is required of the call, and proofs rely on it.
#[test]
fn a_signature_states_conditions() {
    expect(&[
        ("fn f(x: f32[n], y: f32[m]) where n == m = x + y", "f32[n] where n == m"),
        ("fn f(x: f32[n], k: i64) where 0 <= k && k < n = x[k]", "f32 where k >= 0 and n >= k + 1"),
        ("fn f(x: f32[n], k: i64) where n > k && k >= 0 = x[k]", "f32 where n >= k + 1 and k >= 0"),
        ("fn f(x: f32[n]) where n % 2 == 0 = reshape(x, n / 2, 2)", "f32[n / 2, 2] where n == 2 * (n / 2)"),
        ("fn f(x: f32[n]) where n <= n && 1 < 2 = x", "f32[n]"),
        (
            "fn g(x: f32[n], y: f32[m]) where n == m = x * y\nfn f(x: f32[2, k], y: f32[j]) = g(x[0], y)",
            "f32[k] where k == j",
        ),
        ("fn g(x: f32[n], y: f32[m]) where n <= m = x\nfn f(x: f32[k]) = g(x, x)", "f32[k]"),
    ]);
    insta::assert_snapshot!(super::check::outcomes(&[
        "fn f(x: f32[n], k: i64) where n != k = x[k:]",
        "fn f(x: f32[n]) where n > 1 || n == 0 = x",
        "fn f(x: f32[n], b: bool) where b = x",
        "fn f(x: f32[n], r: f32) where r > 1 = x",
        "fn f(x: f32[n]) where n < n = x",
        "fn f(x: f32[n]) where n + 1 == n = x",
        "fn f(x: f32[n]) where m > 1 = x",
        "fn f(x: f32[n]) where x[0] > 1 = x",
        "fn g(x: f32[n], k: i64) where k < n = x[k]\nfn f(x: f32[n]) { let y[i] = g(x, i)\n y }",
        "fn g(x: f32[n], y: f32[m]) where n == m + 1 = x[1:] * y\nfn f(x: f32[3]) = g(x, x)",
    ]));
}
