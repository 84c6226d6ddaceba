//! Small sources and the trees they make: operators, layout, every form of the grammar.

fn parse(source: &str) -> String {
    match grammar::parse(source) {
        Ok(file) => file.to_string(),
        Err(diagnostics) => panic!("{source}\n{diagnostics:#?}"),
    }
}

/// The tree of an expression.
fn expr(source: &str) -> String {
    let printed = parse(&format!("fn f() = {source}"));
    printed.strip_prefix("fn f\n  ").unwrap().trim_end().to_owned()
}

/// The statements of a block, one line each.
fn block(source: &str) -> String {
    let printed = parse(&format!("fn f() {{{source}}}"));
    printed.strip_prefix("fn f\n").unwrap().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

fn rejected(source: &str) {
    assert!(grammar::parse(source).is_err(), "{source}");
}

#[test]
fn a_signature_may_state_a_condition() {
    let stated = |source: &str| parse(source).lines().next().unwrap_or_default().to_owned();
    assert_eq!(stated("fn f(x: f32[n]) where n > 1 = x"), "fn f x: f32[n] where (> n 1)");
    assert_eq!(
        stated("fn f(x: f32[n], k: i64) -> f32[k]\n where k <= n &&\n 0 < k {\n x[:k]\n}"),
        "fn f x: f32[n] k: i64 -> f32[k] where (&& (<= k n) (< 0 k))"
    );
    rejected("fn f(x: f32[n]) where = x");
    rejected("fn f(x: f32[n]) where n = 1 = x");
    rejected("fn f(x: f32[n]) = x where n > 1");
    rejected("fn f(x: f32[n]) where 0 < n < 9 = x");
}

#[test]
fn operators_bind_as_the_page_says() {
    let table = [
        ("a || b && c", "(|| a (&& b c))"),
        ("a && b || c", "(|| (&& a b) c)"),
        ("!a && b", "(&& (! a) b)"),
        ("!a == b", "(! (== a b))"),
        ("!!a || !b", "(|| (! (! a)) (! b))"),
        ("a + b < c * d", "(< (+ a b) (* c d))"),
        ("a - b - c + d", "(+ (- (- a b) c) d)"),
        ("a / b * c % d @ e", "(@ (% (* (/ a b) c) d) e)"),
        ("a + b @ c", "(+ a (@ b c))"),
        ("-a * b", "(* (- a) b)"),
        ("a * -b", "(* a (- b))"),
        ("a - -b", "(- a (- b))"),
        ("--a", "(- (- a))"),
        ("-x ^ 2", "(- (^ x 2))"),
        ("x ^ -2", "(^ x (- 2))"),
        ("a ^ b ^ c", "(^ a (^ b c))"),
        ("a ^ -b ^ c", "(^ a (- (^ b c)))"),
        ("a ^ -b * c", "(* (^ a (- b)) c)"),
        ("a ^ x[i]", "(^ a (at x i))"),
        ("(a + b) * c", "(* (+ a b) c)"),
        ("(a < b) == c", "(== (< a b) c)"),
        ("a == (b != c)", "(== a (!= b c))"),
        ("if a then b else c + d", "(if a b (+ c d))"),
        ("1 + if a then b else c + d", "(+ 1 (if a b (+ c d)))"),
        ("2 ^ -if a then b else c", "(^ 2 (- (if a b c)))"),
        ("!if a then b else c || d", "(! (if a b (|| c d)))"),
        ("if a then if b then c else d else e", "(if a (if b c d) e)"),
        ("if a then b else if c then d else e", "(if a b (if c d e))"),
        ("(if a then b else c) + d", "(+ (if a b c) d)"),
    ];
    for (source, tree) in table {
        assert_eq!(expr(source), tree, "{source}");
    }
}

#[test]
fn every_form_of_expression() {
    let table = [
        ("1_000 + 1.5 + 2. + .5 + 1e-5 + 1_0.0_1E+2", "(+ (+ (+ (+ (+ 1000 1.5) 2.) .5) 1e-5) 10.01E+2)"),
        ("18446744073709551615", "18446744073709551615"),
        ("007", "7"),
        ("0xff + 0xA_b + 0b1010_0001 + 0x00 + 0b0", "(+ (+ (+ (+ 255 171) 161) 0) 0)"),
        ("0xffff_ffff_ffff_ffff", "18446744073709551615"),
        ("0xe+1 - 0x1e-5", "(- (- (+ 14 1) 30) 5)"),
        ("true + inf + nan + pi", "(+ (+ (+ true inf) nan) pi)"),
        ("f()", "(f)"),
        ("f(a, axis = 1,)", "(f a axis=1)"),
        ("reshape(x, n, _)", "(reshape x n _)"),
        ("_x + x_1", "(+ _x x_1)"),
        ("f32(a)", "(f32 a)"),
        ("bf16(a,)", "(bf16 a)"),
        ("sum[k](x[k])", "(sum[k] (at x k))"),
        ("sum[k < n, l <= k + 1, m](1)", "(sum[k<n l<=(+ k 1) m] 1)"),
        ("sum[k,](1,)", "(sum[k] 1)"),
        ("sum[a <= k < n, 0 < l <= k](1)", "(sum[a<=k<n 0<l<=k] 1)"),
        ("sum[a + 1 < k < if c then n else m](1)", "(sum[(+ a 1)<k<(if c n m)] 1)"),
        ("sum[i, j where x[i] > y[j] && !c](1)", "(sum[i j where (&& (> (at x i) (at y j)) (! c))] 1)"),
        ("sum[i where if a then b else c](sum[j where d](1))", "(sum[i where (if a b c)] (sum[j where d] 1))"),
        ("x[i, 1:n, ::2, :, 1:, :n, 1:n:2, a::b]", "(at x i 1:n ::2 : 1: :n 1:n:2 a::b)"),
        ("x[1:2]", "(at x 1:2)"),
        ("x[i][j][k]", "(at (at (at x i) j) k)"),
        ("f(x)[i]", "(at (f x) i)"),
        ("(x + y)[i]", "(at (+ x y) i)"),
        ("sum[k](x)[i]", "(at (sum[k] x) i)"),
        ("x[y[i]]", "(at x (at y i))"),
        ("[1, 2][i]", "(at (array [1 2]) i)"),
        ("[[1.0, 2.0], [3.0, 4.0,],]", "(array [(array [1.0 2.0]) (array [3.0 4.0])])"),
        ("[]", "(array )"),
        ("(a)", "a"),
        ("(a,)", "a"),
        ("(a, b)", "(tuple [a b])"),
        ("((a, b,))", "(tuple [a b])"),
    ];
    for (source, tree) in table {
        assert_eq!(expr(source), tree, "{source}");
    }
}

/// The operands of each form of expression, in the order of its text, without the limits of
/// indices.
#[test]
fn the_operands_of_every_form() {
    let operands = |source: &str| {
        let source = format!("fn f() = {source}");
        let file = grammar::parse(&source).unwrap();
        let mut found = vec![];
        file.exprs[file.functions[0].result].kind.for_each_operand(|operand| {
            let span = file.exprs[operand].span;
            found.push(source[span.start as usize..span.end as usize].to_owned());
        });
        found.join("; ")
    };
    let table = [
        ("1", ""),
        ("1.5", ""),
        ("a", ""),
        ("_", ""),
        ("-a", "a"),
        ("f32(a)", "a"),
        ("a + 2 * b", "a; 2 * b"),
        ("if a then b else c", "a; b; c"),
        ("f(a, axis = b)", "a; b"),
        ("sum[k < a, l, m <= b](c)", "a; b; c"),
        ("sum[a <= k < b where c](d)", "a; b; c; d"),
        ("x[a, b:c:d, :, e:]", "x; a; b; c; d; e"),
        ("[a, (b)]", "a; (b)"),
        ("(a, b)", "a; b"),
    ];
    for (source, expected) in table {
        assert_eq!(operands(source), expected, "{source}");
    }
}

#[test]
fn every_form_of_function() {
    let head = |source: &str| parse(source).lines().next().unwrap().to_owned();
    assert_eq!(head("fn f() -> f32 = 1"), "fn f -> f32");
    assert_eq!(head("fn f(x: f32[n - 2, 3,], k: i64,) = 1"), "fn f x: f32[(- n 2) 3] k: i64");
    assert_eq!(head("fn f() -> (s: f32[n], i64,) = 1"), "fn f -> s: f32[n] i64");
    assert_eq!(head("@kernels(1)\n\n@fast fn f() = 1"), "@kernels[1] @fast fn f");
    let all = "fn f(a: bool, b: i8, c: u8, d: i32, e: i64, f: u32, g: u64, h: f16, i: bf16, j: f32, k: f64) = 1";
    assert_eq!(head(all), "fn f a: bool b: i8 c: u8 d: i32 e: i64 f: u32 g: u64 h: f16 i: bf16 j: f32 k: f64");
}

#[test]
fn every_form_of_let() {
    assert_eq!(block("let y = x\n y"), "y = x; y");
    assert_eq!(block("let (s, c,) = f(x)\n s"), "(s c) = (f x); s");
    assert_eq!(block("let y[i] = x\n y"), "y[i] = x; y");
    assert_eq!(block("let y[i, j < n, k <= i + 1,] = x\n y"), "y[i j<n k<=(+ i 1)] = x; y");
    assert_eq!(block("let (s, _)[i, j < n] = f(x[i, j])\n s"), "(s _)[i j<n] = (f (at x i j)); s");
    assert_eq!(block("let (s, c)[i] = (x[i], i)\n s"), "(s c)[i] = (tuple [(at x i) i]); s");
    assert_eq!(block("let y = x\n (y, y)"), "y = x; (tuple [y y])");
    assert_eq!(block("let rec y[t < n] = y[t - 1]\n y"), "rec y[t<n] = (at y (- t 1)); y");
    assert_eq!(block("let rec a[t] = b[t],\n b[t,] = a[t - 1]; a"), "rec a[t] = (at b t) b[t] = (at a (- t 1)); a");
    rejected("fn f() { let rec y = y; y }");
    rejected("fn f() { let rec y[t] = y[t], ; y }");
    rejected("fn f() { let rec (a, b)[t] = a[t]; b }");
}

#[test]
fn a_newline_ends_a_statement() {
    assert_eq!(block("let v = a / b\n(v, w)"), "v = (/ a b); (tuple [v w])");
    assert_eq!(block("let v = a\n-b"), "v = a; (- b)");
    assert_eq!(block("let v = x\n[v]"), "v = x; (array [v])");
    assert_eq!(block("let v = a # + b\n# comment\n\n  v  # end\n"), "v = a; v");
    assert_eq!(block("let v = a\r\n\tv\r\n"), "v = a; v");
    assert_eq!(block("let v = a; let w = b;; v;"), "v = a; w = b; v");
    assert_eq!(block(";\n; v ;\n;"), "v");
    assert_eq!(parse("\u{feff}fn f() = a; fn g() = b;"), "fn f\n  a\nfn g\n  b\n");
    assert_eq!(parse("fn f() { a } fn g() { b } @fast fn h() = c"), "fn f\n  a\nfn g\n  b\n@fast fn h\n  c\n");
    assert_eq!(parse(""), "");
    assert_eq!(parse("\n# nothing\n;\n"), "");
}

#[test]
fn a_newline_is_passed_over_where_no_statement_can_end() {
    assert_eq!(block("let v =\n  a +\n  b\nv"), "v = (+ a b); v");
    assert_eq!(block("let\nv\n=\na\nv"), "v = a; v");
    assert_eq!(block("f(\na\n,\nb\n)"), "(f a b)");
    assert_eq!(block("x[\ni\n-\n1\n:\n]"), "(at x (- i 1):)");
    assert_eq!(block("if a\nthen b\nelse c"), "(if a b c)");
    assert_eq!(block("if\na then\nb else\nc"), "(if a b c)");
    assert_eq!(block("!\n-\na @\nb"), "(! (@ (- a) b))");
    assert_eq!(parse("@fast\nfn\nf(x: f32[\nn],\n y: f32)\n-> f32\n= x\nfn g()\n{\na\n}\n").lines().count(), 4);
    rejected("fn f() {\n let v = a\n + b\n v }");
    rejected("fn f() {\n let v = a\n @ b\n v }");
}

#[test]
fn what_is_no_program() {
    for source in [
        "fn f() = x fn g() = y",
        "fn f() = a; b",
        "fn f() = a +; b",
        "fn f() = f(a; b)",
        "fn f() { a; b }",
        "fn f() { let a = 1 }",
        "fn f() {}",
        "fn f() = a < b < c",
        "fn f() = a == !b",
        "fn f() = (a, b) + c",
        "fn f() = if a then b",
        "fn f() = x[]",
        "fn f() = f(,)",
        "fn f() = a b",
        "fn f() = f32",
        "fn f(x) = x",
        "fn f()",
        "f() = a",
        "fn let() = a",
        "fn f() = 1 { a }",
        "@fast",
        "fn f() = a }",
        "fn f() = {",
    ] {
        rejected(source);
    }
}

#[test]
fn loops_have_states_a_counter_and_a_condition() {
    let table = [
        ("loop x = a, t < n { x + 1 }", "(loop x=a [t<n] {(+ x 1)})"),
        ("loop t <= n, x = 1 while x < 9 { x * 2 }", "(loop x=1 [t<=n] while (< x 9) {(* x 2)})"),
        ("loop x = a, 1 <= t < n { let y = x; y }", "(loop x=a [1<=t<n] {y = x; y})"),
        ("loop x = a, y = b while c { (y, x) }", "(loop x=a y=b while c {(tuple [y x])})"),
        ("1 + loop x = a while c { x } * 2", "(+ 1 (* (loop x=a while c {x}) 2))"),
        ("f(loop x = a, t < n { x }, b)", "(f (loop x=a [t<n] {x}) b)"),
        ("(loop x = a, t < n { x })[0]", "(at (loop x=a [t<n] {x}) 0)"),
        (
            "loop x = loop y = a, t < n { y }, t < n { loop z = x, k < t { z } }",
            "(loop x=(loop y=a [t<n] {y}) [t<n] {(loop z=x [k<t] {z})})",
        ),
        ("if loop x = c, t < n { !x } then a else b", "(if (loop x=c [t<n] {(! x)}) a b)"),
    ];
    for (source, tree) in table {
        assert_eq!(expr(source), tree, "{source}");
    }
    let lines = "let x = loop a = 1,\n b = 2\n while a < b\n {\n let c = a + b; let d[i < 2] = c\n\n (c, d[0]) }\n x";
    assert_eq!(block(lines), "x = (loop a=1 b=2 while (< a b) {c = (+ a b); d[i<2] = c; (tuple [c (at d 0)])}); x");
    [
        "loop x = a { (x, }",
        "loop { 1 }",
        "loop x { x }",
        "loop x = a",
        "loop x = a, t < n",
        "(loop x = (a, b), t < n { x })",
    ]
    .into_iter()
    .for_each(|source| rejected(&format!("fn f() = {source}")));
}

#[test]
fn files_are_used_between_functions() {
    let table = [
        ("use nn", "use nn\n"),
        ("use \"a b/../c.fl\"", "use \"a b/../c.fl\"\n"),
        ("use nn (softmax)", "use nn softmax\n"),
        ("use nn (\n    softmax,\n    gelu_mlp,\n)", "use nn softmax gelu_mlp\n"),
        ("use nn; use stats # both", "use nn\nuse stats\n"),
        ("fn f() = 1\nuse\n    nn\nfn g() { 2 }\nuse stats", "use nn\nuse stats\nfn f\n  1\nfn g\n  2\n"),
        ("@kernels(1)\nfn f() = 1\nuse nn\n@fast\nfn g() = 2", "use nn\n@kernels[1] fn f\n  1\n@fast fn g\n  2\n"),
    ];
    for (source, tree) in table {
        assert_eq!(parse(source), tree, "{source}");
    }
    for source in
        ["use", "use 1", "use nn stats", "use \"a.fl", "use 'a.fl'", "use nn ()", "use nn (a b)", "use nn\n(a)"]
    {
        rejected(source);
    }
    for source in ["fn f() { use nn\n 1 }", "fn f() = use nn", "fn use() = 1", "fn f() = \"a.fl\"", "@fast\nuse nn"] {
        rejected(source);
    }
}

/// Files are read one behind the other into one tree, and places are those of the whole text.
#[test]
fn files_are_read_into_one_program() {
    let mut text = "use \"b.fl\"\nfn f(x: f32) = g(x)\n".to_owned();
    let mut file = grammar::ast::File::default();
    let first = grammar::parse_module(&text, 0, &mut file).unwrap();
    let start = text.len();
    text.push_str("# é\nfn g(x: f32) = x + 1\n");
    let second = grammar::parse_module(&text, start, &mut file).unwrap();
    assert_eq!(file.functions.iter().map(|function| function.module).collect::<Vec<_>>(), [first, second]);
    assert_eq!(file.own().count(), 1);
    let name = &file.functions[1].name;
    assert_eq!(&text[name.span.start as usize..name.span.end as usize], "g");
    let start = text.len();
    text.push_str("fn h(x: f32) = x +\n");
    let errors = grammar::parse_module(&text, start, &mut file).unwrap_err();
    assert_eq!(errors[0].labels[0].span.start as usize, text.len());
    assert_eq!((file.functions.len(), file.modules.len()), (2, 3));
}
