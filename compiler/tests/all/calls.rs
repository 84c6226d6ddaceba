//! Calls of functions: the limits on their number and depth, the arguments that fit, and the
//! wording of errors inside called functions.

use std::fmt::Write;

use compiler::check::{check, check_all};
use grammar::Diagnostic;

use super::check::outcomes;

/// The errors of one function of a program, or of all of them.
fn errors(source: &str, entry: Option<&str>) -> Vec<Diagnostic> {
    let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    let checked = match entry {
        Some(entry) => check(&file, entry).map(drop),
        None => check_all(&file).map(drop),
    };
    checked.err().unwrap_or_default()
}

/// The errors of one function of a program, or of all of them: the place, the message, the other
/// places, and the help.
fn told(source: &str, entry: Option<&str>) -> String {
    let mut text = String::new();
    let at = |span: grammar::ast::Span| &source[span.start as usize..span.end as usize];
    for error in errors(source, entry) {
        writeln!(text, "{} at `{}`: {}", error.code, at(error.labels[0].span), error.message).unwrap();
        for label in &error.labels[1..] {
            writeln!(text, "   {}: `{}`", label.text, at(label.span)).unwrap();
        }
        if let Some(help) = &error.help {
            writeln!(text, "   help: {help}").unwrap();
        }
        for edit in &error.suggestion {
            writeln!(text, "   write `{}` for `{}`", edit.replacement, at(edit.span)).unwrap();
        }
    }
    text.trim_end().to_owned()
}

/// A function that makes this many calls of others, with an invalid argument, so that no call is
/// ever inlined.
fn calling(name: &str, calls: &[(usize, &str)]) -> String {
    let calls = calls.iter().flat_map(|(count, of)| vec![format!("{of}(x)"); *count]);
    format!("fn {name}(x: i64) {{ let x = absent\n ({}) }}\n", calls.collect::<Vec<_>>().join(", "))
}

const LEAF: &str = "fn leaf(x: i64) = x\n";

/// They are counted before the first one is inlined.
#[test]
fn a_function_has_so_many_calls_and_no_more() {
    let thousand = calling("a", &[(999, "leaf")]) + LEAF;
    let within = calling("f", &[(1000, "a")]) + &thousand;
    insta::assert_snapshot!(told(&within, Some("f")), @r"
    E0101 at `absent`: there is no `absent` here
       help: names come from parameters, sizes, `let` and indices
    ");
    let beyond = calling("f", &[(1000, "a"), (1, "leaf")]) + &thousand;
    insta::assert_snapshot!(told(&beyond, Some("f")), @r"
    E0133 at `f`: `f` has more than 1000000 calls when those in functions that it calls count
       help: each call is inlined: call less often, with arrays instead of many calls
    ");
}

#[test]
fn calls_count_wherever_they_stand() {
    let big = calling("big", &[(1000, "a")]) + &calling("a", &[(999, "leaf")]) + LEAF;
    for f in [
        "fn f(x: f32[big(1)]) = x",
        "fn f(x: f32) -> f32[big(1)] = x",
        "fn f(x: f32) -> (f32, f32[big(1)]) = (x, x)",
        "fn f() { let y = big(1)\n 0 }",
        "fn f() { let y[i < big(1)] = 1.5\n y }",
        "fn f() = sum[i < big(1)](1.5)",
        "fn f(x: f32[n]) = x[big(1)]",
        "fn f(x: f32[n]) = x[0:big(1)]",
        "fn f(b: bool) = if b then f32(-big(1)) else 0",
    ] {
        let found: Vec<String> = errors(&format!("{f}\n{big}"), Some("f")).iter().map(|e| e.code.to_string()).collect();
        assert_eq!(found, ["E0133"], "{f}");
    }
}

/// A call beyond the limit is not checked, nor is anything after it.
#[test]
fn all_functions_together_have_so_many_calls_and_no_more() {
    let a = calling("a", &[(999, "leaf")]);
    let code_and_place = |source: &str| {
        let place = |e: &Diagnostic| source[..e.labels[0].span.start as usize].matches("fn ").count();
        errors(source, None).iter().map(|e| format!("{} in {}: {}", e.code, place(e), e.message)).collect::<Vec<_>>()
    };
    let together = |more: usize| {
        let half = calling("f", &[(500, "a")]) + &a + LEAF;
        half + &calling("g", &[(499, "a"), (more, "leaf")]) + &calling("h", &[(1, "leaf")])
    };
    let missing = |k: usize| format!("E0101 in {k}: there is no `absent` here");
    assert_eq!(code_and_place(&together(0)), [1, 2, 4, 5].map(missing));
    let many =
        |k: usize| format!("E0133 in {k}: the functions have more than 1000000 calls when their calls are inlined");
    assert_eq!(code_and_place(&together(2)), [missing(1), missing(2), many(4)]);
    let as_many_as_one_may = a.clone() + LEAF + &calling("f", &[(1000, "a")]);
    assert_eq!(code_and_place(&as_many_as_one_may), [missing(1), many(3)]);
    let too_many_alone = calling("f", &[(1001, "a")]) + &a + LEAF;
    assert_eq!(
        code_and_place(&too_many_alone),
        ["E0133 in 1: `f` has more than 1000000 calls when those in functions that it calls count"]
    );
}

/// Even on a small stack. Functions that are called twice are not a cycle.
#[test]
fn calls_in_one_another_are_so_deep_and_no_deeper() {
    let chain = |depth: usize| -> String {
        let calls = (0..depth).map(|k| format!("fn g{k}(x: i64) = g{}(leaf(x))\n", k + 1));
        calls.chain([format!("fn g{depth}(x: i64) = x\n{LEAF}")]).collect()
    };
    let cycle: String = (0..1500).map(|k| format!("fn g{k}(x: i64) = g{}(x)\n", (k + 1) % 1500)).collect();
    let sources = [chain(1000), chain(1001), chain(1100), cycle];
    let files = sources.each_ref().map(|source| grammar::parse(source).unwrap());
    let check = move || {
        files.map(|file| check(&file, "g0").err().map(|e| (e.len(), e[0].code.to_string(), e[0].message.clone())))
    };
    let found = std::thread::Builder::new().stack_size(256 << 10).spawn(check).unwrap().join().unwrap();
    let error = |code: &str, message: &str| Some((1, code.to_owned(), message.to_owned()));
    let deep = error("E0133", "calls are more than 1000 deep in one another here");
    let cyclic = error("E0105", "`g1001` calls itself through other functions");
    assert_eq!(found, [None, deep.clone(), deep, cyclic]);
}

/// A parameter is one, each product another.
#[test]
fn operations_are_counted_with_every_call_inlined() {
    let program = |calls: usize, more: usize| {
        let line = |count: usize| format!("let x = x{}\n", " * x".repeat(count));
        let products = |count: usize| line(5).repeat(count / 5) + &line(count % 5);
        let calls = "let x = a(x)\n".repeat(calls);
        format!("fn a(x: f32) {{ {} x }}\nfn f(x: f32) {{ {calls}{} x }}", products(999), products(more))
    };
    insta::assert_snapshot!(told(&program(1001, 0), Some("f")), @"");
    insta::assert_snapshot!(told(&program(1001, 2), Some("f")), @"E0133 at `x`: the function has more than 1000000 operations when its calls are inlined");
    insta::assert_snapshot!(told(&program(999, 998), None), @"");
    insta::assert_snapshot!(told(&program(999, 999), None), @"E0133 at `f`: the functions have more than 1000000 operations when their calls are inlined");
}

/// An error shows the three innermost calls that led to it, whether it is found at once or at the
/// end.
#[test]
fn errors_show_the_calls_that_led_to_them() {
    let nested = "fn a(x: i64) = y\nfn b(x: i64) = a(x + 1)\nfn c(x: i64) = b(x + 2)\nfn d(x: i64) = c(x + 3)\nfn f(x: i64) = d(x + 4)";
    insta::assert_snapshot!(told(nested, Some("f")), @r"
    E0101 at `y`: there is no `y` here
       in this call of `a`: `a(x + 1)`
       in this call of `b`: `b(x + 2)`
       in this call of `c`: `c(x + 3)`
       help: names come from parameters, sizes, `let` and indices
    ");
    let outside = "fn at(x: f32[n], k: i64) = x[k]\nfn third(x: f32[n]) = at(x, 3)\nfn f(x: f32[2]) = third(x)";
    insta::assert_snapshot!(told(outside, Some("f")), @r"
    E0124 at `k`: the access is outside: the subscript is 3, axis 0 of `x` has 2 elements
       in this call of `at`: `at(x, 3)`
       in this call of `third`: `third(x)`
    ");
    let guarded =
        "fn before(x: f32[n]) { let y[i < n] = if i > 0 then x[i - 2] else 0\n y }\nfn f(x: f32[m]) = before(x)";
    insta::assert_snapshot!(told(guarded, Some("f")), @r"
    E0124 at `i - 2`: the access is outside at i = 1, in spite of the condition: axis 0 of `x` starts at 0
       in this call of `before`: `before(x)`
       help: narrow the condition around it
    ");
    let nothing = "fn most(x: f32[n]) = argmax(x)\nfn f(x: f32[0]) = most(x)";
    insta::assert_snapshot!(told(nothing, Some("f")), @r"
    E0136 at `argmax(x)`: `argmax` of no element has no answer
       in this call of `most`: `most(x)`
       help: make sure that there is one: `if ... then argmax[...](...) else -1`
    ");
}

/// In a called function, sizes have the caller's names, and an edit with those would be wrong.
#[test]
fn edits_are_proposed_in_the_names_of_their_function() {
    let declared = "fn g(x: f32[n]) -> f32 = x\nfn f(y: f32[m]) = g(y)";
    insta::assert_snapshot!(told(declared, Some("g")), @r"
    E0120 at `x`: the result is `f32[n]`, declared is the scalar `f32`
       declared here: `f32`
       help: declare what it is
       write `f32[n]` for `f32`
    ");
    insta::assert_snapshot!(told(declared, Some("f")), @r"
    E0120 at `x`: the result is `f32[m]`, declared is the scalar `f32`
       declared here: `f32`
       in this call of `g`: `g(y)`
       help: declare what it is
    ");
    let from_the_end = "fn g(x: f32[n]) = x[-1]\nfn f(y: f32[m]) = g(y)";
    insta::assert_snapshot!(told(from_the_end, Some("g")), @r"
    E0124 at `-1`: the access is outside: the subscript is -1, axis 0 of `x` starts at 0
       help: negative subscripts do not count from the end: write `n - 1`
       write `n - 1` for `-1`
    ");
    insta::assert_snapshot!(told(from_the_end, Some("f")), @r"
    E0124 at `-1`: the access is outside: the subscript is -1, axis 0 of `y` starts at 0
       in this call of `g`: `g(y)`
    ");
}

#[test]
fn an_error_is_told_once_and_no_more_errors_than_anybody_reads() {
    let twice = "fn g(x: f32) = y\nfn f(x: f32) = g(x) + g(x)";
    assert_eq!(errors(twice, None).len(), 1);
    // However often it is called, other errors are reported too.
    let often = format!("fn g(x: f32) = y\nfn f(x: f32) = ({}z)", "g(x), ".repeat(150));
    let found: Vec<String> = errors(&often, Some("f")).into_iter().map(|e| e.message).collect();
    assert_eq!(found, ["there is no `y` here", "there is no `z` here"]);
    let names: Vec<String> = (0..150).map(|k| format!("y{k}")).collect();
    assert_eq!(errors(&format!("fn f(x: f32) = ({})", names.join(", ")), Some("f")).len(), grammar::MAX_ERRORS);
    let functions: String = names.iter().map(|name| format!("fn f{name}(x: f32) = {name}\n")).collect();
    assert_eq!(errors(&functions, None).len(), grammar::MAX_ERRORS);
}

#[test]
fn arguments_fit_their_parameters_or_lift_them() {
    insta::assert_snapshot!(outcomes(&[
        "fn g(x: f32[n], s: f32) = sum(x) * s\nfn f(x: f32[n], s: f32[m]) = g(x, s)",
        "fn g(x: f32, y: f32) = x * y\nfn f(x: f32[n, m], y: f32[m]) = (g(x, y), g(x, 2))",
        "fn g(x: f32[n], y: f32[n + 1]) = x\nfn f(x: f32[m], y: f32[k]) = g(x, y)",
        // An index without an end is reported after a lifted call as it is before it.
        "fn sq(x: f32) = x * x\nfn f(x: f32[n]) { let y = sq(x)\n sum[k](1.5) }",
        "fn g(x: f32[m]) = x\nfn f(x: f64[n, n]) = g(x)",
        "fn g(x: f32[m]) = x\nfn f(x: f64[n]) = g(x)",
        "fn g(x: f32) = x\nfn f(x: f64[n]) = g(x)",
        "fn g(x: f32[n]) = x\nfn f(x: f32) = g(x)",
        "fn g(x: f32[n, m]) = x\nfn f(x: f32[n]) = g(x)",
        "fn g(x: f32) = x\nfn f(x: f32) = g(x = x)",
    ]), @r"
    fn g(x: f32[n], s: f32) = sum(x) * s
    fn f(x: f32[n], s: f32[m]) = g(x, s)
      => fn g(x: f32[n], s: f32) -> f32
      => fn f(x: f32[n], s: f32[m]) -> f32[m]

    fn g(x: f32, y: f32) = x * y
    fn f(x: f32[n, m], y: f32[m]) = (g(x, y), g(x, 2))
      => fn g(x: f32, y: f32) -> f32
      => fn f(x: f32[n, m], y: f32[m]) -> (out0: f32[n, m], out1: f32[n, m])

    fn g(x: f32[n], y: f32[n + 1]) = x
    fn f(x: f32[m], y: f32[k]) = g(x, y)
      => fn g(x: f32[n], y: f32[n + 1]) -> f32[n]
      => fn f(x: f32[m], y: f32[k]) -> f32[m]
         where k == m + 1

    fn sq(x: f32) = x * x
    fn f(x: f32[n]) { let y = sq(x)
     sum[k](1.5) }
      => E0125 at `k`: nothing says where the index `k` ends
         help: give it a bound: `k < n`, or use it alone in a subscript: `x[k]`

    fn g(x: f32[m]) = x
    fn f(x: f64[n, n]) = g(x)
      => E0114 at `x`: `x` is declared `f32` with 1 axis, the argument is `f64[n, n]`
         help: it needs another type, `f32`, and another number of axes

    fn g(x: f32[m]) = x
    fn f(x: f64[n]) = g(x)
      => E0110 at `x`: `x` is declared `f32`, the argument is `f64`
         help: convert it: `f32(...)`
         write `f32(` for ``
         write `)` for ``

    fn g(x: f32) = x
    fn f(x: f64[n]) = g(x)
      => E0110 at `x`: `x` is declared `f32`, the argument is `f64`
         help: convert it: `f32(...)`
         write `f32(` for ``
         write `)` for ``

    fn g(x: f32[n]) = x
    fn f(x: f32) = g(x)
      => E0114 at `x`: `x` has 1 axis, the argument has 0

    fn g(x: f32[n, m]) = x
    fn f(x: f32[n]) = g(x)
      => E0114 at `x`: `x` has 2 axes, the argument has 1

    fn g(x: f32) = x
    fn f(x: f32) = g(x = x)
      => E0107 at `x`: arguments of `g` have no names
         help: give them in order
    ");
}

#[test]
fn results_are_as_many_as_are_declared_or_named() {
    insta::assert_snapshot!(outcomes(&[
        "fn f() -> (a: f64, b: i32) = (0.5, 1)",
        "fn f(x: f32) -> (f32, f32) = (x, x, x)",
        "fn f(x: f32) -> (f32, f32, f32) = (x, x)",
        "fn f(x: f32) { let (a, b) = (x, x + 1)\n a * b }",
        "fn f(x: f32) { let (a, b) = (x, x, x)\n a }",
        "fn f(x: f32) { let (a, b) = x\n a }",
        // A discarded value is not called `_` if it has another name.
        "fn pair(x: f32[n]) = (x, x)\nfn f(x: f32[3], y: f32[5]) { let (_, d) = pair(x * 2)\n d + y }",
        "fn f(x: f32[3]) = (x + 1)[0, 0]",
    ]), @r"
    fn f() -> (a: f64, b: i32) = (0.5, 1)
      => fn f() -> (a: f64, b: i32)

    fn f(x: f32) -> (f32, f32) = (x, x, x)
      => E0120 at `(x, x, x)`: 2 results are declared, the body gives 3

    fn f(x: f32) -> (f32, f32, f32) = (x, x)
      => E0120 at `(x, x)`: 3 results are declared, the body gives 2

    fn f(x: f32) { let (a, b) = (x, x + 1)
     a * b }
      => fn f(x: f32) -> f32

    fn f(x: f32) { let (a, b) = (x, x, x)
     a }
      => E0119 at `let (a, b) = (x, x, x)`: 2 names for 3 values

    fn f(x: f32) { let (a, b) = x
     a }
      => E0119 at `let (a, b) = x`: 2 names for 1 value

    fn pair(x: f32[n]) = (x, x)
    fn f(x: f32[3], y: f32[5]) { let (_, d) = pair(x * 2)
     d + y }
      => E0115 at `d + y`: sizes differ: axis 0 of `d` is 3, axis 0 of `y` is 5

    fn f(x: f32[3]) = (x + 1)[0, 0]
      => E0122 at `(x + 1)[0, 0]`: 2 subscripts for this array, which has 1 axis
    ");
    let two_for_one = errors("fn f(x: f32) -> f32 = (x, x)", None);
    assert!(two_for_one[0].message.ends_with("declared, the body gives 2"), "{two_for_one:?}");
}

#[test]
fn values_hide_functions_and_decorators_stand_once() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32[n]) { let exp = x * 2\n exp(exp) }",
        "fn g(x: f32) = x\nfn f(g: f32[n]) = g(1)",
        "fn f(x: f32[n]) = x(1)",
        "fn f(x: f32[n]) { let exp = absent\n exp(x) }",
        "@kernels(1)\n@fast\nfn f(x: f32) = x",
        "@fast\n@kernels(1)\n@fast\nfn f(x: f32) = x",
        "@fast(1)\nfn f(x: f32) = x",
    ]), @r"
    fn f(x: f32[n]) { let exp = x * 2
     exp(exp) }
      => E0102 at `exp`: `exp` is a value here, not a function
         help: a parameter, `let` or index hides the function `exp`: rename one of them

    fn g(x: f32) = x
    fn f(g: f32[n]) = g(1)
      => E0102 at `g`: `g` is a value here, not a function
         help: a parameter, `let` or index hides the function `g`: rename one of them

    fn f(x: f32[n]) = x(1)
      => E0102 at `x`: `x` is a value here, not a function
         help: index it: `x[i]`

    fn f(x: f32[n]) { let exp = absent
     exp(x) }
      => E0101 at `absent`: there is no `absent` here
         help: names come from parameters, sizes, `let` and indices

    @kernels(1)
    @fast
    fn f(x: f32) = x
      => fn f(x: f32) -> f32

    @fast
    @kernels(1)
    @fast
    fn f(x: f32) = x
      => E0108 at `@fast`: `@fast` is given twice

    @fast(1)
    fn f(x: f32) = x
      => E0108 at `@fast(1)`: `@fast` takes no arguments
         help: write `@fast`
    ");
}
