//! The errors of wrong programs: each case with its diagnostics, in one snapshot for each kind of
//! mistake.

use std::fmt::Write;

use grammar::ast::Span;

/// The diagnostics of each source in plain form: the place, the message and the help.
fn report(cases: &[&str]) -> String {
    let mut report = String::new();
    for source in cases {
        for line in source.lines() {
            writeln!(report, "| {line}").unwrap();
        }
        match grammar::parse(source) {
            Ok(file) => writeln!(report, "parses: {file}").unwrap(),
            Err(diagnostics) => {
                for diagnostic in diagnostics {
                    let place = place(source, diagnostic.labels[0].span);
                    writeln!(report, "{} {place}: {}", diagnostic.code, diagnostic.message).unwrap();
                    for label in &diagnostic.labels[1..] {
                        writeln!(report, "    {}: {}", place_of(source, label.span), label.text).unwrap();
                    }
                    for note in &diagnostic.notes {
                        writeln!(report, "    note: {note}").unwrap();
                    }
                    if let Some(help) = &diagnostic.help {
                        writeln!(report, "    help: {help}").unwrap();
                    }
                    for edit in &diagnostic.suggestion {
                        let at = place_of(source, edit.span);
                        writeln!(report, "    {at}: write {:?}", edit.replacement).unwrap();
                    }
                }
            }
        }
        report.push('\n');
    }
    report
}

fn place(source: &str, span: Span) -> String {
    format!("{} {:?}", place_of(source, span), &source[span.start as usize..span.end as usize])
}

fn place_of(source: &str, span: Span) -> String {
    let before = &source[..span.start as usize];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("{line}:{column}")
}

#[test]
fn characters_and_numbers() {
    insta::assert_snapshot!(report(&[
        "fn f(x: f32) = x $ 2",
        "fn f(α: f32) = α",
        "fn f(x: f32) = x − 1",
        "fn f(x: f32) = x \u{202e} 1",
        "fn f(x: f32) = x \u{7} 1",
        "fn f(x: f32) = 2x",
        "fn f(x: f32) = 1.2.3 + 1e + 1_.5 + 1f32 + 1__0",
        "fn f(x: i64) = x + 0x + 0b + 0xg + 0b12 + 0x1.5 + 0b1e+1 + 0x1fu8 + 0x_f + 0b1_",
        "fn f(x: i64) = x + 0XFF + 0B1 + 0o17",
        "fn f(x: i64) = x + 0x1_0000_0000_0000_0000",
        "fn f(x: i64) = x + 18446744073709551615 + 18446744073709551616",
        "fn f(x: f32) = \"text\"",
        "fn f(x: f32) = 'it",
        "fn f(x: f32) = “text”",
        "fn f(x: f32) = ‘it",
        "fn f(x: f32) = 1._5",
        "fn f(x: i64) = 12345678901234567890123456789012345678901234567890",
    ]));
}

/// Bidirectional controls and invisible characters.
#[test]
fn characters_that_nobody_sees() {
    insta::assert_snapshot!(report(&[
        "\u{feff}fn f(x: f32) = x",
        "fn f(x: f32) = \u{feff}x",
        "# \u{feff}\nfn f(x: f32) = x",
        "fn f(x: f32) = x # \u{202e} 1\u{2069}",
        "fn f(x: f32) = \u{200b}x # a\u{200b}b",
        "fn f(x: f32) = x # שלום, e\u{301}",
    ]));
}

#[test]
fn operators_of_other_languages() {
    insta::assert_snapshot!(report(&[
        "fn f(x: bool) = x & x",
        "fn f(x: bool) = x | x",
        "fn f(x: f32) = x ** 2",
        "fn f(x: f32) = x // 2",
        "// a comment\nfn f(x: f32) = x /* two */",
        "fn f(x: bool) = x ? 1 : 2",
        "fn f(x: f32[n]) = x.sum()",
        "fn f(x: i32) = x << 2",
        "fn f(x: i32) = +x",
        "fn f(x: i32) = x + +x",
        "fn f(x: bool) = x and x",
        "fn f(x: bool) = not x",
        "fn f(x: bool) = x == !x",
        "fn f(x: f32) = 0 < x <= 1",
        "fn f(x: f32) = a < b == c < d",
        "fn f(x: f32) = if x = 0 then 1 else 2",
        "/* a\n   comment */\nfn f(x: f32) = x",
        "fn f(x: i64) = x!",
        "fn f(x: f32) = first_quantile < median_of_them <= third_quantile",
        "fn f(x: f32) = first_quantile < median_of_them <= third_quantiles",
        "fn f(x: f32) = x + if x = 0 then 1 else 2",
        "fn f(x: f32) = if any(x + 1 = 2) then x else 0",
    ]));
}

#[test]
fn words_of_other_languages() {
    insta::assert_snapshot!(report(&[
        "def f(x: f32):\n    return x",
        "def f(x): return x",
        "fn f(x: f32[n]) { for i in 0..n { x[i] } }",
        "fn f(x: f32[n]) = x[0..n]",
        "fn f(x: f32[n]) {\n    while x[0] > 0 { x }\n    x\n}",
        "fn f(x: f32) { return x }",
        "fn f(x: f32[n]) {\n    for i in n { x[i] }\n    x\n}",
        "fn f(x: f32) { y = x + 1\n y }",
        "fn f(x: f32) { let mut y = x\n y }",
        "fn f(x: f32) = if x > 0 { 1 } else { 2 }",
        "fn f(x: f32) = if x > 0 then 1 elif x < 0 then 2 else 3",
        "fn f(x: f32) = if x > 0 1 else 2",
        "fn f(x: f32) = if x > 0 then 1",
        "fn f(x: f32) = { x }",
        "fn f(x: f32) = let y = x",
        "let y = 1",
        "fn if(x: f32) = x",
        "fn f(f32: f32) = x",
        "fn f(x: f32) = x > 0 then 1 else 2",
        "fn f(x: f32) {\n    if x > 0 then x;\n    else 0\n}",
        "fn f(x: f32) = x * { x }",
        "fn f(x: f32) { g(z) = 2 * z\n g(x) }",
        "fn let(x: f32) = x",
    ]));
}

#[test]
fn mistakes_of_users_of_numpy_rust_and_julia() {
    insta::assert_snapshot!(report(&[
        "fn f(x: f32[n]) = np.sum(x)",
        "fn f(x: f32[n]) = x.shape[0]",
        "fn f(x: f32[n]) = x.T",
        "fn f(x: f32[n]) = x.astype(f64)",
        "fn f(x: f32[n], y: f32[n]) = x .* y",
        "fn f(x: f32[n]) = exp.(x)",
        "fn f(x: f32[n]) = x'",
        "fn f(x: f32[n]) = x[...]",
        "fn f(x: f32[n]) = x[0..3]",
        "fn f(x: f32[n]) = x as f64",
        "fn f(x: &[f32]) = x",
        "fn f(x: f32[?]) = x",
        "fn f(x: f32[:]) = x",
        "fn f(x: [f32; n]) = x",
        "fn f(x: Vec[n]) = x",
        "fn f(x: f32[n]): f32[n] = x",
        "fn f(x: f32[n], k = 1) = x",
        "fn f(x: f32[n], k: i64 = 1) = x",
        "f(x: f32) = x",
        "fn f(x: f32[n]) { let y: f32[n] = x * 2\n y }",
        "fn f(x: f32[n]) { x[0] = 1\n x }",
        "fn f(x: f32[n]) { x += 1\n x }",
        "fn f(x: f32) { if x > 0 { x } else { 0 } }",
        "fn f(x: f32) = if x > 0: x else 0",
        "fn f(x: f32) = x if x > 0 else 0",
        "fn f(x: f32[n, m]) = reshape(x, (m, n))",
        "fn f(x: f32[n]) = sum(x[i] for i in 0:n)",
        "fn f(x: f32[n]) = x.map(g)",
        "fn f(x: f32) = x === 1",
        "fn f(x: f32) { g(x + 1 = 2) }",
        "fn f(x: f32[n]) { x[i = 2] }",
        "pub fn f(x: f32) = x",
    ]));
}

#[test]
fn types() {
    insta::assert_snapshot!(report(&[
        "fn f(x: double) = x",
        "fn f(x: f23[n], y: Float64, z: whatever[n], w: i16) -> f322 = x",
        "fn f(x) = x",
        "fn f(x: f32[]) = x",
        "fn f(x: f32[n) = x",
        "fn f(x: f32 y: f32) = x",
        "fn f(x: f32) -> = x",
        "fn f(x: f32) -> () = x",
        "fn f(x: f32) = f32[n]",
        "fn f(x: f32) = f32(x, x)",
        "fn f(x: bol, y: f32x4) = x",
        "fn f(x: f32) -> f32:\n    x",
    ]));
}

#[test]
fn functions_and_blocks() {
    insta::assert_snapshot!(report(&[
        "fn f(x: f32) {\n    let y = x\n}",
        "fn f(x: f32) {\n    let (a, b) = g(x);\n}",
        "fn f(x: f32) {\n}",
        "fn f(x: f32) {\n    x + 1\n    x\n}",
        "fn f(x: f32) {\n    x\n    let y = x\n}",
        "fn f(x: f32)\n    x + 1",
        "fn f(x: f32) x + 1",
        "fn f = 1",
        "fn (x: f32) = x",
        "fn f(x: f32) = ",
        "fn f(x: f32) = x fn g(x: f32) = x",
        "fn f(x: f32) { x } x",
        "x + 1",
        "@fast\nx",
        "@\nfn f(x: f32) = x",
        "fn f(x: f32) {\n    let = 1\n    let 2 = x\n    let y[i + 1] = x\n    let y[] = x\n    let (a + b) = x\n    x\n}",
        "fn f(x: f32) {\n    fn g(y: f32) = y\n    g(x)\n}",
        "fn f(x: f32) {\n    let y = x\n        + 1\n    y\n}",
        "fn f(x: bool) {\n    let y = x\n        && x\n    y\n}",
        "fn f(x: f32[n, n]) {\n    let y = x\n        @ x\n    y\n}",
        "fn f(x: f32) {\n    g(x\n}",
        "fn f(x: f32) {\n    x)\n}",
    ]));
}

/// A block without a result is offered the result of its last `let`, wherever the block ends.
#[test]
fn blocks_end_with_the_result_that_is_suggested() {
    let blocks = [
        ("{ let a = g(x); }", "{ let a = g(x); a }"),
        ("{ let a = g(x);}", "{ let a = g(x); a}"),
        ("{ let a = g(x) }", "{ let a = g(x); a }"),
        ("{let a = g(x)}", "{let a = g(x); a}"),
        ("{ let a = g(x);; }", "{ let a = g(x);; a }"),
        ("{\n    let a = g(x)\n}", "{\n    let a = g(x)\n    a\n}"),
        ("{\n    let a = g(x); # why\n\n}", "{\n    let a = g(x); # why\n\n    a\n}"),
        ("{\n    let a = g(x)\n    }", "{\n    let a = g(x)\n        a\n    }"),
        ("{\n    let a = g(x) # why\n; }", "{\n    let a = g(x) # why\n; a }"),
        ("{ let a = g(x); let (b, c) = h(a) }", "{ let a = g(x); let (b, c) = h(a); (b, c) }"),
        ("{ let (b, _) = h(x) }", "{ let (b, _) = h(x); b }"),
        ("{ let (_, b, c) = h(x); }", "{ let (_, b, c) = h(x); (b, c) }"),
    ];
    for (block, mended) in blocks {
        let source = format!("fn f(x: f32) {block}");
        let errors = grammar::parse(&source).unwrap_err();
        let [grammar::Diagnostic { code: grammar::codes::NO_RESULT, suggestion, .. }] = &*errors else {
            panic!("{block} {errors:?}")
        };
        let [edit] = &**suggestion else { panic!("{block} {suggestion:?}") };
        let mut text = source.clone();
        text.replace_range(edit.span.start as usize..edit.span.end as usize, &edit.replacement);
        assert_eq!(text, format!("fn f(x: f32) {mended}"));
        assert!(grammar::parse(&text).is_ok(), "{text}");
    }
    for discards in ["{ let _ = g(x) }", "{ let (_, _) = h(x); }"] {
        let errors = grammar::parse(&format!("fn f(x: f32) {discards}")).unwrap_err();
        assert!(errors.len() == 1 && errors[0].suggestion.is_empty(), "{discards} {errors:?}");
    }
}

#[test]
fn expressions() {
    insta::assert_snapshot!(report(&[
        "fn f(x: f32) = x +",
        "fn f(x: f32) = x + * 2",
        "fn f(x: f32) = (x + 1",
        "fn f(x: f32) = x + 1)",
        "fn f(x: f32) = g(x, [1, 2)",
        "fn f(x: f32) = g(x]",
        "fn f(x: f32) = ()",
        "fn f(x: f32) = x y",
        "fn f(x: f32) = g(x y)",
        "fn f(x: f32) = g(, x)",
        "fn f(x: f32) = g(x; y)",
        "fn f(x: f32) = (x, x) + 1",
        "fn f(x: f32) { let y = (x, (x, x))\n (y, g((y, y))) }",
        "fn f(x: f32) = x[]",
        "fn f(x: f32) = x[1:2:3:4]",
        "fn f(x: f32) = x[i](x)",
        "fn f(x: f32) = sum[k + 1, 1:2, k < n](x[k])",
        "fn f(x: f32) = sum[k]()",
        "fn f(x: f32) = sum[k](x, y) + sum[k](axis = 1)",
        "fn f(x: f32) = (sum)(x)",
        "fn f(x: f32) = g(axis = 1, x)",
        "fn f(x: f32) = let",
        "fn f(x: f32) = sum[2 * # it's \"k\"\n k](x[k])",
    ]));
}

#[test]
fn errors_in_several_places_are_all_reported() {
    insta::assert_snapshot!(report(&[
        "fn f(x: double) = x +\n\nfn g(x: f32) {\n    let a = (x\n    let b = x y\n    let c = x & b\n    c *\n}\n\n\
         fn h(x: f32] = x\nfn ok(x: f32) = x\n@kernels(1\nfn k(x: f32) = 1 < 2 < 3\n",
        "fn f(x: f32) {\n    let y = x\n\nfn g(x: f32) {\n    x\n}\n}",
    ]));
}

#[test]
fn recurrences() {
    insta::assert_snapshot!(report(&[
        "fn f(x: f32[n]) {\n    let rec y = x\n    y\n}",
        "fn f(x: f32[n]) {\n    let rec (a, b)[t] = x[t]\n    b\n}",
        "fn f(x: f32[n]) {\n    let rec a[t] = x[t],\n    a\n}",
        "fn f(x: f32[n]) {\n    rec a[t] = x[t]\n    a\n}",
        "fn f(rec: f32[n]) = rec",
        "fn f(x: f32[n]) = x + rec",
        "fn f(x: f32[n]) {\n    let rec = x\n    y\n}",
        "fn f(x: f32[n]) {\n    let rec y[1 <= t < n] = x[t]\n    y\n}",
        "fn f(x: f32[n]) {\n    let rec y[t < n] = x[t]\n}",
        "fn f(x: f32[n]) {\n    let rec y[t < n] = x[t], z[t < n] = y[t]\n}",
    ]));
}

#[test]
fn bounds_and_conditions_of_indices() {
    insta::assert_snapshot!(report(&[
        "fn f(x: f32[n]) where = x",
        "fn f(x: f32[n]) where n > = x",
        "fn f(x: f32[n]) where n > 1\nfn g() = 1",
        "fn f(x: f32[n]) where n > 1 fn g() = 1",
        "fn f(x: f32[n]) where n > 1",
        "fn f(x: f32[n]) where n > 1 x",
        "fn f(x: f32[n]) where n = 1 {\n x }",
        "fn f(x: f32[n] where n > 1) = x",
        "fn f(x: f32[n]) = x where n > 1",
        "fn f(x: f32[n]) = where(x > 0, x, 0)",
        "fn f(x: f32[n]) = sum(x, where = x > 0)",
        "fn f(x: f32[n]) = sum[where x[i] > 0](x[i])",
        "fn f(x: f32[n]) = sum[i where](x[i])",
        "fn f(x: f32[n]) = x[i where i > 0]",
        "fn f(x: f32[n], where: f32) = x",
        "fn f(x: f32[n]) = sum[0 <= i < n < m](x[i])",
        "fn f(x: f32[n]) = sum[(0 <= i) < n](x[i])",
        "fn f(x: f32[n]) = sum[n > i >= 0](x[i])",
        "fn f(x: f32[n]) = sum[i > 0](x[i])",
        "fn f(x: f32[n]) = sum[i < n where 0 < x[i] < 1](x[i])",
        "fn f(x: f32[n]) = x[0 <= i < n]",
        "fn f(x: f32[n]) {\n    let y[1 <= i < n] = x[i]\n    y\n}",
        "fn f(x: f32[n]) {\n    let y[i + 1] = x[i]\n    y\n}",
        "fn f(x: f32[n]) {\n    let y[i where i > 0] = x[i]\n    y\n}",
    ]));
}

#[test]
fn loops() {
    insta::assert_snapshot!(report(&[
        "fn f() = loop t < 3 { t }",
        "fn f() = loop x = 1, t < 3, k < 4 { x }",
        "fn f() = loop x = 1, x > 2 { x }",
        "fn f() = loop x = 1, t { x }",
        "fn f() = loop x = 1, t < 3",
        "fn f() = loop x = 1 t < 3 { x }",
        "fn f() = loop x = 1, t < 3 { let y = x }",
        "fn f() = loop x = 1, t < 3 { x; x }",
        "fn f() = loop x = 1, t < 3 { }",
        "fn f() {\n    let a = loop x = 1, t < 3 {\n        let y = +\n        let z = )\n        y $\n    }\n    let b = +\n    a\n}",
        "fn f() = while x < 3 { x }",
        "fn f() {\n    while x < 3 { x }\n}",
        "fn loop(x: f32) = x",
        "fn f(while: f32) = 1",
        "fn f() {\n    let loop = 1\n    loop\n}",
        "fn f(n: i64) = if n < 3 { 1 } else { 2 }",
    ]));
}
