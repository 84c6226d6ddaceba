//! Literal expressions and the functions of the language: their types and values.

use std::collections::BTreeSet;

use compiler::check::{check, names, scalar_functions};
use ir::checked::{Checked, Kind};
use ir::{Dtype, Scalar};

use super::check::outcomes;

fn checked(source: &str) -> Checked {
    let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    check(&file, "f").unwrap_or_else(|errors| panic!("{source}: {errors:?}"))
}

/// The elements of an expression without a context, each with its type.
fn value(expression: &str) -> String {
    let checked = checked(&format!("fn f() = {expression}"));
    let program = compiler::lower::lower(&checked, None).unwrap();
    ir::verify::verify(&program).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let results = interp::source::run(&checked, &[], &compiler::math::define).unwrap();
    let elements: Vec<Scalar> = (0..results[0].len()).filter_map(|k| results[0].get(k)).collect();
    match (results[0].shape(), elements.as_slice()) {
        ([], [only]) => format!("{only:?}"),
        _ => format!("{elements:?}"),
    }
}

/// It is a float if it contains a decimal point, a named constant or a function of floats, however
/// deep.
#[test]
fn a_literal_expression_without_a_context_is_integer_or_f32() {
    let rows = [
        ("1 + 0.5 + 1", "F32(2.5)"),
        ("-0.5 + 1", "F32(0.5)"),
        ("2 ^ 3 + 0.5", "F32(8.5)"),
        ("abs(-3) + 1", "I64(4)"),
        ("abs(0.5) + 1", "F32(1.5)"),
        ("sqrt(4)", "F32(2.0)"),
        ("sqrt(4) + 1", "F32(3.0)"),
        ("uniform(1, 2) * 0 + 1", "F32(1.0)"),
        ("(if 1 < 2 then 1 else 2) + 1", "I64(2)"),
        ("(if 1 < 2 then 1 else 2) + 0.5", "F32(1.5)"),
        ("(if 1 < 2 then 1 else 0.5) + 1", "F32(2.0)"),
        ("[1, 2] + 1", "[I64(2), I64(3)]"),
        ("[1, 2] + 0.5", "[F32(1.5), F32(2.5)]"),
        ("[1, 0.5] + 1", "[F32(2.0), F32(1.5)]"),
        ("pi", "F32(3.1415927)"),
        ("inf", "F32(inf)"),
        ("[1, nan]", "[F32(1.0), F32(NaN)]"),
        ("true", "Bool(true)"),
        ("false", "Bool(false)"),
    ];
    for (expression, expected) in rows {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

/// A number takes the type that it is converted to, and so is rounded once. A float literal cannot
/// take an integer type, and is an `f64`.
#[test]
fn a_conversion_is_a_context() {
    let rows = [
        ("f64(pi)", "F64(3.141592653589793)"),
        ("f64(1 / 2)", "F64(0.5)"),
        ("f32(1.0000000596046447753906250001)", "F32(1.0000001)"),
        ("f32(18446744073709551615)", "F32(1.8446744e19)"),
        ("u64(18446744073709551615)", "U64(18446744073709551615)"),
        ("i64(16777217.0)", "I64(16777217)"),
        ("bool(1 / 2)", "Bool(false)"),
        ("bool(0.5)", "Bool(true)"),
    ];
    for (expression, expected) in rows {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn operators_and_tests_of_numbers() {
    let rows = [
        ("3 ^ 5", "I64(243)"),
        ("(-3) ^ 2", "I64(9)"),
        ("2 ^ -0", "I64(1)"),
        ("2.0 ^ -2", "F32(0.25)"),
        ("[1 == 2, 2 == 2, 1 != 2, 2 != 2]", "[Bool(false), Bool(true), Bool(true), Bool(false)]"),
        ("[1 < 2, 2 < 2, 1 <= 2, 2 <= 2, 3 <= 2]", "[Bool(true), Bool(false), Bool(true), Bool(true), Bool(false)]"),
        ("[1 > 2, 2 > 2, 1 >= 2, 2 >= 2]", "[Bool(false), Bool(false), Bool(false), Bool(true)]"),
        ("[isinf(f64(inf)), isinf(f64(1)), isfinite(f64(1e300))]", "[Bool(true), Bool(false), Bool(true)]"),
    ];
    for (expression, expected) in rows {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

/// `-0.5` is a number rather than arithmetic, which would widen it.
#[test]
fn a_sign_belongs_to_its_number() {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64] {
        let checked = checked(&format!("fn f() -> {dtype} = -0.5"));
        let Kind::Constant(value) = checked.exprs[checked.results[0].1].kind else { panic!("{dtype}") };
        assert_eq!(Some(value), Scalar::parse(dtype, "-0.5"));
    }
}

#[test]
fn only_literal_expressions_take_the_type_of_their_context() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32[2, 1]) = x + transpose([[1, 2]])",
        "fn f() = sqrt(transpose([[1, 4]]))",
        "fn f(x: f64) = sqrt(x) + 1",
        "fn f(b: bool, x: f64) = x * (if b then 1 else 2)",
        "fn f(b: bool, x: f64) = (if b then 1 else x) * 2.5",
        "fn f(b: bool) -> f64 = if b then 1 else sum[i < 3](2)",
        "fn f(b: bool) = if b then 1 else sum[i < 3](0.5)",
        "fn f(b: bool, x: i64[2, 1]) = if b then transpose([[1, 2]]) else x",
        "fn exp(x: f64) = x * 2\nfn f() = exp(1) + 2",
    ]), @r"
    fn f(x: f32[2, 1]) = x + transpose([[1, 2]])
      => E0110 at `x + transpose([[1, 2]])`: the operands have different types: `f32` and `i64`
         help: nothing converts by itself: write `f32(...)` or `i64(...)`
         write `f32(` for ``
         write `)` for ``

    fn f() = sqrt(transpose([[1, 4]]))
      => E0111 at `sqrt(transpose([[1, 4]]))`: `sqrt` takes floats, this is `i64`
         help: convert the argument: `f32(...)`

    fn f(x: f64) = sqrt(x) + 1
      => fn f(x: f64) -> f64

    fn f(b: bool, x: f64) = x * (if b then 1 else 2)
      => fn f(b: bool, x: f64) -> f64

    fn f(b: bool, x: f64) = (if b then 1 else x) * 2.5
      => fn f(b: bool, x: f64) -> f64

    fn f(b: bool) -> f64 = if b then 1 else sum[i < 3](2)
      => fn f(b: bool) -> f64

    fn f(b: bool) = if b then 1 else sum[i < 3](0.5)
      => fn f(b: bool) -> f32

    fn f(b: bool, x: i64[2, 1]) = if b then transpose([[1, 2]]) else x
      => fn f(b: bool, x: i64[2, 1]) -> i64[2, 1]

    fn exp(x: f64) = x * 2
    fn f() = exp(1) + 2
      => fn exp(x: f64) -> f64
      => fn f() -> f64
    ");
}

/// Sizes and indices are floats next to floats, and integers elsewhere.
#[test]
fn sizes_and_indices_take_the_type_of_floats() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f64[n]) = 1 / n * sum(x)",
        "fn f(x: f32[n]) { let y[i] = (i + 1) / n * x[i]\n y }",
        "fn f(x: f64[n]) { let y[i] = if x[i] > n / 2 then i / 2 else x[i]\n y }",
        "fn f(x: f32[n]) -> f64 = size(x, 0) / 2",
        "fn f(n: i64) -> f32[n] { let y[i < n] = sin(2 * pi * i / 8)\n y }",
        "fn f(n: i64) { let (y, z)[i < n] = (0.5 * i, i / 2)\n (y, z) }",
        "fn g(a: f32) = a * 2\nfn f(x: f32[n]) { let y[i] = g(i) + x[i]\n y }",
        "fn f(x: f16[n]) = x / n",
        "fn f(x: f32[n]) { let y[i] = x[i] * bit_and(i, 1)\n y }",
        "fn f(x: f32[n], k: i64) = x * k",
        "fn f(x: f32[n]) { let half = n / 2\n x * half }",
        "fn f(x: i32[n]) { let y[i] = x[i] + i\n y }",
        "fn f(x: f16[n]) { let y[i] = if i > 2 then i else x[i]\n y }",
        "fn f(x: f32[n], k: i64) -> i64[k] { let y[c < k] = sum[i where x[i] == c](1)\n y }",
    ]));
}

/// Each use gives it a type. Names in it mean the same as where the `let` stands.
#[test]
fn a_let_of_a_literal_expression_has_no_type_until_it_is_used() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32[n], y: f64[n]) { let c = 1 / 3\n (x * c, y * c, c) }",
        "fn f(x: u32, y: f16[n]) { let c = 3\n let d = c + 1\n (x + d, y * d, if x > 1 then c else y, d) }",
        "fn f(x: f64[n]) { let z[i < n] = 0\n let y[i] = x[i] + z[i]\n (y, x + z, z) }",
        "fn f(x: f64[n]) { let h[i < n] = 0.5 - 0.5 * cos(2 * pi * i / n)\n x * h }",
        "fn f(x: f64[n]) { let t = [1, 2, 4]\n let y[i] = x[i] * t[i % 3]\n (y, t) }",
        "fn f(x: f64) { let pi = 3\n let c = pi + 0.5\n let pi = true\n (x * c, pi) }",
        "fn f(x: f64[n]) { let (a, b) = (0.1, 2)\n let y[i < b] = x[i] * a + b\n y }",
        "fn f(x: f64) { let big = 1e300\n x * big }",
        "fn f(x: f32) { let big = 1e300\n let more = big * 2\n x * more }",
        "fn f(x: u64) { let big = 18446744073709551615\n x - big }",
        "fn f(x: u8[n]) { let c = 300\n let y[i] = if x[i] > 2 then x[i] else c\n y }",
        "fn f(x: i32[n]) { let c = 0.5\n x * c }",
        "fn f(b: bool) { let c = 1\n b && c }",
        "fn f(x: f64[n], s: i64) { let u[i] = uniform(s, i) + x[i] * 0\n let v = uniform(s, 1)\n u * v }",
        "fn f(x: f64[n]) { let exp = 2\n exp(x) }",
        "fn f(x: f64[n], k: i64) { let c = if k > 0 then 1 else 2\n loop y = c * x, t < k { let d = 0.5\n y * d + c } }",
        "fn f(x: f64[n]) { let c = 0\n let rec y[t < n] = if t == 0 then c else y[t - 1] + x[t] * c\n y }",
        "fn f(k: i64) { let c = 0\n loop c = c, t < k { c + 0.5 } }",
    ]));
}

/// A chain of doublings is checked in time linear in its length at each type.
#[test]
fn a_chain_of_literals_is_checked_once_at_each_type() {
    let doubled: String = (1..200).map(|k| format!("let a{k} = a{} + a{}\n", k - 1, k - 1)).collect();
    let checked = checked(&format!("fn f(x: f64, y: f32) {{ let a0 = 1\n {doubled} (x * a199, y * a199, a199) }}"));
    assert!(checked.exprs.len() < 2_000, "{}", checked.exprs.len());
}

/// The functions listed for a type are exactly those that take scalars of that type alone and
/// return one.
#[test]
fn functions_that_keep_a_type() {
    // These take a value of any type.
    let indifferent = [("select", 3), ("transpose", 1)];
    for dtype in [Dtype::Bool, Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64, Dtype::F32, Dtype::F64] {
        let keeps = |name: &str, arguments: usize| {
            let list = |each: &dyn Fn(usize) -> String| (0..arguments).map(each).collect::<Vec<_>>().join(", ");
            let (params, args) = (list(&|k| format!("x{k}: {dtype}")), list(&|k| format!("x{k}")));
            let file = grammar::parse(&format!("fn f({params}) = {name}({args})")).unwrap();
            let checked = check(&file, "f");
            checked.is_ok_and(|c| c.exprs[c.results[0].1].ty == ir::checked::Type::scalar(dtype))
        };
        let calls = names().flat_map(|name| (1..=3).map(move |arguments| (name, arguments)));
        let calls = calls.filter(|call| !indifferent.contains(call));
        let keeping: BTreeSet<_> = calls.filter(|(name, arguments)| keeps(name, *arguments)).collect();
        assert_eq!(scalar_functions(dtype).collect::<BTreeSet<_>>(), keeping, "{dtype}");
    }
}

/// Even on a small stack, because the compiler may run on a caller's thread.
#[test]
fn an_expression_may_be_as_deep_as_the_limit() {
    let most = grammar::MAX_DEPTH as usize - 1;
    let expressions = [
        format!("{}x", "x + ".repeat(most)),
        format!("{}1", "1 + ".repeat(most)),
        format!("{}x", "-".repeat(most)),
        format!("{}x{}", "sqrt(".repeat(most), ")".repeat(most)),
        format!("{}x", "if x > 0 then 1 else ".repeat(most - 1)),
    ];
    for expression in expressions {
        let file = grammar::parse(&format!("fn f(x: f32) = {expression}")).unwrap();
        let thread = std::thread::Builder::new().stack_size(192 << 10);
        let checked =
            thread.spawn(move || check(&file, "f").map(|checked| checked.exprs.len())).unwrap().join().unwrap();
        assert!(checked.unwrap() >= most);
    }
}
