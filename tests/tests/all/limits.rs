//! The limits that the language reference states: each is enforced, a program just within it
//! passes, and programs that double at each level end at it. (The errors themselves are on their
//! pages, which `docs` runs.)

use std::fmt::Write;

use fuseloop::{Device, Options, Program, RunErrorKind, Simd};

fn first_code(source: &str) -> Option<String> {
    Program::parse(source).err().map(|errors| errors.diagnostics()[0].code.to_string())
}

#[test]
fn the_reference_states_the_limits_that_there_are() {
    let page = include_str!("../../../docs/language.md");
    let (_, limits) = page.split_once("## Limits").expect("the page has its limits");
    let thousands = |n: usize| {
        let digits = n.to_string();
        let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap()).collect();
        groups.join(",")
    };
    for (what, limit) in [
        ("a source", format!("{} MiB", grammar::MAX_SOURCE >> 20)),
        ("the depth of an expression", thousands(grammar::MAX_DEPTH as usize)),
        ("operations of a function", thousands(compiler::check::MAX_EXPRS)),
        ("calls of a function", thousands(compiler::check::MAX_CALLS as usize)),
        ("calls in one another", thousands(compiler::check::MAX_CALL_DEPTH)),
        ("axes of an array", thousands(compiler::check::MAX_RANK)),
        (
            "an axis of an argument; a scalar parameter in a condition",
            format!("2^{}", compiler::check::MAX_SCALAR.ilog2()),
        ),
        ("operations of a kernel", thousands(schedule::Machine::CPU.operations.expect("the CPU has a limit"))),
        ("statements of a compiled function", thousands(compiler::lower::MAX_STATEMENTS)),
        ("reductions, and `if`s", thousands(ir::verify::MAX_DEPTH)),
        ("errors of a source", thousands(grammar::MAX_ERRORS)),
    ] {
        let row = limits.lines().find(|line| line.starts_with(&format!("| {what}")));
        assert!(row.is_some_and(|row| row.contains(&format!("| {limit} |"))), "{what}: {limit}, {row:?}");
    }
}

#[test]
fn what_is_within_a_limit_passes() {
    let axes = |n: usize| (0..n).map(|k| format!("n{k}")).collect::<Vec<_>>().join(", ");
    assert_eq!(first_code(&format!("fn f(x: f32[{}]) = x * 2", axes(16))), None);
    assert_eq!(first_code(&format!("fn f(x: f32[{}]) = x * 2", axes(17))).as_deref(), Some("E0134"));
    let params: Vec<String> = (0..300).map(|k| format!("x{k}: f32[n{k}]")).collect();
    let results: Vec<String> = (0..300).map(|k| format!("x{k} + 1")).collect();
    assert_eq!(first_code(&format!("fn f({}) = ({})", params.join(", "), results.join(", "))), None);
    let params: Vec<String> = (0..20_000).map(|k| format!("x{k}: i64")).collect();
    let results: Vec<String> = (0..20_000).map(|k| format!("x{k}")).collect();
    assert_eq!(first_code(&format!("fn f({}) = ({})", params.join(", "), results.join(", "))), None);
    let functions: String = (0..20_000).map(|k| format!("fn g{k}(x: f32[n]) = x + {k}\n")).collect();
    assert_eq!(first_code(&functions), None);
    assert_eq!(first_code(&format!("fn f() = [{}1]", "1, ".repeat(50_000))), None);
}

#[test]
fn calls_that_double_stop_at_the_limit() {
    for shape in ["", "[n]"] {
        let mut source = format!("fn g0(x: f32{shape}) = x + 1\n");
        for k in 1..=40 {
            writeln!(source, "fn g{k}(x: f32{shape}) = g{0}(x) * g{0}(x + 1)", k - 1).unwrap();
        }
        assert_eq!(first_code(&source).as_deref(), Some("E0133"));
    }
}

/// Nested calls without operations in between, on a stack of the default size of a Rust thread.
#[test]
fn calls_in_one_another_stop_at_the_limit() {
    let chain = |depth: usize| -> String {
        let calls = (0..depth).map(|k| format!("fn g{k}x(x: i32) = g{}x(x)\n", k + 1));
        calls.chain([format!("fn g{depth}x(x: i32) = x\n")]).collect()
    };
    let cycle: String = (0..5000).map(|k| format!("fn g{k}x(x: i32) = g{}x(x)\n", (k + 1) % 5000)).collect();
    let codes = move || [chain(1000), chain(1001), cycle].map(|source| first_code(&source));
    let codes = std::thread::Builder::new().stack_size(2 << 20).spawn(codes).unwrap().join().unwrap();
    assert_eq!(codes.map(Option::unwrap_or_default), ["", "E0133", "E0105"]);
}

#[test]
fn calls_are_counted_before_they_are_inlined() {
    for (first, call) in [("(x: f32) = x", "g{}(g{}(x))"), ("(x: f32) = (x, x)", "(0, 0)")] {
        let mut source = format!("fn g0{first}\n");
        for k in 1..=60 {
            let body = match call.starts_with('g') {
                true => format!("= {}", call.replace("{}", &(k - 1).to_string())),
                false => format!("{{ let (a, b) = g{0}(x)\n let (c, d) = g{0}(a)\n (b, d) }}", k - 1),
            };
            writeln!(source, "fn g{k}(x: f32) {body}").unwrap();
        }
        assert_eq!(first_code(&source).as_deref(), Some("E0133"));
    }
}

/// Programs with proofs that once took quadratic, cubic or exponential time. The example `large`
/// measures them at 20 times this size.
#[test]
fn long_programs_are_no_hard_proofs() {
    let lets = |value: &dyn Fn(usize) -> String| {
        let mut source = "fn f(x: f32[n]) {\n    let y0 = x\n".to_owned();
        (0..1000).for_each(|k| writeln!(source, "    let y{}[i] = {}", k + 1, value(k)).unwrap());
        source + "    y1000\n}\n"
    };
    assert_eq!(first_code(&lets(&|k| format!("y{k}[i] + x[i]"))), None);
    assert_eq!(first_code(&lets(&|k| format!("x[i + {k}] + x[i]"))), None);
    let conditions: Vec<String> = (0..300).map(|k| format!("i + {k} * j <= n + {k} * m")).collect();
    let guarded = format!("if {} then x[i - 1] else 0", conditions.join(" && "));
    let source = format!("fn f(x: f32[n], z: f32[m]) {{\n    let y[i < n, j < m] = {guarded}\n    y\n}}\n");
    assert_eq!(first_code(&source).as_deref(), Some("E0124"));
}

#[test]
fn so_many_errors_are_shown_and_no_more() {
    for line in ["fn f{}(x: f32[n]) = x * z{}\n", "fn f{}(x: f32[n]) = x $ 2\n"] {
        let source: String = (0..1000).map(|k| line.replace("{}", &format!("_{k}"))).collect();
        let errors = Program::parse(source.as_str()).unwrap_err();
        assert_eq!(errors.reports().count(), 100);
        let drawn = errors.to_string();
        assert!(
            drawn.matches("error[E").count() == 100 && drawn.contains("only the first 100 errors"),
            "{}",
            drawn.len()
        );
    }
}

/// Proofs that rely on a condition on a scalar hold for values up to 2^48 of either sign.
#[test]
fn scalars_in_conditions_stop_at_the_limit() {
    let source =
        "fn f(x: f32[n], k: i64) {\n    let y[i < n] = if i + k >= 0 && i + k < n then x[i + k] else 0\n    y\n}\n";
    let kernel = Program::parse(source).unwrap().main().unwrap().compile(&Options::default()).unwrap();
    let x = fuseloop::Array::zeros(fuseloop::Dtype::F32, &[3]).unwrap();
    for sign in [1, -1] {
        for (k, code) in [(1i64 << 48, None), ((1 << 48) + 1, Some("E0209"))] {
            let called = kernel.call((&x, sign * k));
            assert_eq!(called.err().map(|e| e.code().to_string()).as_deref(), code);
        }
    }
}

/// Everything under an `if` that guards an access is one kernel.
#[test]
fn kernels_stop_at_the_limit_of_their_operations() {
    let nested = |count: usize| {
        let sines = format!("{}x[i - 1]{}", "sin(".repeat(count), ")".repeat(count));
        let source = format!("fn f(x: f32[n]) {{\n    let y[i < n] = if i > 0 then {sines} else 0\n    y\n}}\n");
        let compiled = Program::parse(source).unwrap().main().unwrap().compile(&Options::default());
        compiled.err().map(|e| e.code().to_string())
    };
    assert_eq!(nested(100), None);
    assert_eq!(nested(900).as_deref(), Some("E0250"));
}

#[test]
fn calls_in_one_another_are_counted_at_once() {
    let means = |count: usize| format!("{}x[j]{}", "mean[i < n, j < i](".repeat(count), ")".repeat(count));
    let begin = std::time::Instant::now();
    first_code(&format!("fn f(x: f32[n]) = {}", means(40)));
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "the count doubles with each mean");
}

#[test]
fn memory_is_counted_before_it_is_allocated() {
    let program = Program::parse("fn f(n: i64) { let y[i < n, j < n] = i * j\n (sum(y), y) }").unwrap();
    let options = Options { max_memory: Some(1 << 20), ..Options::default() };
    let kernel = program.main().unwrap().compile(&options).unwrap();
    // 8 EiB: an attempt to allocate this first would not return with this error.
    let error = kernel.call((1i64 << 30,)).unwrap_err();
    assert!(matches!(error.kind(), RunErrorKind::Memory { needed, .. } if *needed >= 1 << 63), "{error}");
}

/// Loops in kernels and over kernels, of scalars and arrays, that take `n` steps.
const LOOPS: &[&str] = &[
    "loop x = 0, t < n { x + t }",
    "loop x = 0 while x < n { x + 1 }",
    "{\n let y[i < 40] = loop x = i while x < n + i { x + 1 }\n y\n}",
    "loop y = iota(5) while sum(y) < 10 + 5 * n { y + 1 }",
    "loop y = iota(5), t < n { y + t }",
    "loop y = iota(3), t < 2 { loop z = y, s < n { z + s } }",
    "{\n let rec y[t < 1500, j < 1500] = if t == 0 then 0 else y[t - 1, 1499 - j] + 1\n loop x = y[1499, 0], t < n { x + 1 }\n}",
];

#[test]
fn loops_are_held_to_a_number_of_steps() {
    let mut all = vec![Options { device: Device::Interp, ..Options::default() }];
    all.extend([Simd::Auto, Simd::W128].map(|simd| Options { simd, ..Options::default() }));
    for body in LOOPS {
        let equals = if body.starts_with('{') { "" } else { "= " };
        let program = Program::parse(format!("@kernels(9)\nfn f(n: i64) {equals}{body}")).unwrap();
        for options in &all {
            let call = |steps: i64, max_steps| {
                let options = Options { max_steps, ..options.clone() };
                program.main().unwrap().compile(&options).unwrap().call((steps,))
            };
            for steps in [0, 1, 7] {
                assert_eq!(call(steps, Some(7)).unwrap(), call(steps, None).unwrap(), "{body}");
            }
            let error = call(8, Some(7)).unwrap_err();
            assert_eq!(error.code().to_string(), "E0244", "{body}");
            assert!(error.to_string().contains("a loop takes more than 7 steps"), "{error}");
        }
    }
}

/// The statements of a program's kernels, functions once.
fn statements(program: &ir::nest::Program) -> usize {
    let mut count = 0;
    for kernel in program.kernels.values() {
        ir::visit::for_each_statement(&kernel.body, &mut |_| count += 1);
    }
    count
}

/// Large programs fuse to kernels of bounded size, without more code than before.
#[test]
fn large_programs_fuse_without_growing() {
    let lets = |count: usize, shape: &str, value: &dyn Fn(usize) -> String| {
        let mut source = format!("fn f(x: f32{shape}) {{\n    let y0 = x\n");
        (0..count).for_each(|k| writeln!(source, "    let y{} = {}", k + 1, value(k)).unwrap());
        source + &format!("    y{count}\n}}\n")
    };
    let rows = |k| format!("exp(y{k} - max(y{k}, axis = 0)) / (sum(y{k}, axis = 0) + 1)");
    for (name, source, kernels) in [
        ("a chain", lets(5000, "[n]", &|k| format!("y{k} * 0.5 + x")), 20),
        ("each used by two", lets(2000, "[n]", &|k| format!("y{k} + y{}", k.saturating_sub(1))), 400),
        ("reduced and changed", lets(100, "[n, m]", &rows), 300),
        ("reduced and changed, with sharing", lets(200, "[n, m]", &|k| format!("y{k} / sum(y{k} * x, axis = 0)")), 400),
    ] {
        let file = grammar::parse(&source).unwrap();
        let checked = compiler::check::check(&file, "f").unwrap();
        let compiled = compiler::pipeline::compile(&checked, &Default::default()).unwrap();
        let (before, after) = (statements(&compiled.unfused), statements(&compiled.program));
        assert!(compiled.program.kernels.len() <= kernels, "{name}: {} kernels", compiled.program.kernels.len());
        assert!(after <= 2 * before, "{name}: {before} statements, {after} after fusion");
    }
}
