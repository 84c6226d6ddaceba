//! How long large programs take: `cargo run --release -p compiler --example large [NAME]`.
//!
//! Each line is a program that somebody could generate; 10,000 operations are to check and lower in
//! under a second, and to fuse in another; 100 operations to fuse in 5 ms.

use std::fmt::Write;
use std::time::Instant;

use compiler::lower::lower;
use compiler::pipeline::{Options, fuse};

/// A name and the program.
type Case = (&'static str, fn() -> String);

const CASES: &[Case] = &[
    ("100 operations, a chain of lets over arrays", || lets(50, |k| format!("y{k} * 0.5 + x"))),
    ("100 operations, rows that are reduced and changed", || rows(17)),
    ("100 operations, each used by two", || shared(100)),
    ("10,000 operations, rows that are reduced and changed", || rows(2_000)),
    ("10,000 operations, each used by two", || shared(10_000)),
    ("10,000 operations, 100 results that share", || {
        let results: Vec<String> = (0..100).map(|k| format!("y{}", 100 * (k + 1))).collect();
        shared(10_000).replace("    y10000\n", &format!("    ({})\n", results.join(", ")))
    }),
    ("1,000 reductions of one array", || lets(1000, |k| format!("y{k} + sum(x * {k})"))),
    ("10,000 operations, a chain of lets over arrays", || lets(5_000, |k| format!("y{k} * 0.5 + x"))),
    ("10,000 operations, scalars", || lets(5_000, |k| format!("y{k} * 0.5 + 1")).replace("x: f32[n]", "x: f32")),
    ("10,000 functions", || (0..10_000).map(|k| format!("fn g{k}(x: f32[n]) = x * {k}\n")).collect()),
    ("10,000 lets, index notation", || indexed(10_000, |k| format!("y{k}[i] + x[i]"))),
    ("2,000 stencils", || indexed(2000, |k| format!("x[i + {k}] + x[i]"))),
    ("2,000 guarded stencils", || {
        indexed(2000, |_| "if i > 0 && i < n then x[i - 1] else 0".into()).replace("[i]", "[i < n]")
    }),
    ("a sum of 900 terms", || format!("fn f(x: f32[n]) = {}x\n", "x + ".repeat(900))),
    ("a sum of 5,000 terms, 100 a let", || lets(50, |k| format!("y{k}{}", " + x".repeat(100)))),
    ("a sum of 900 subscripts", || {
        format!("fn f(x: f32[n]) = {}x[0]\n", (1..900).map(|k| format!("x[{k}] + ")).collect::<String>())
    }),
    ("a subscript of 900 terms", || format!("fn f(x: f32[n], i: i64) = x[{}i]\n", "i + ".repeat(900))),
    ("900 sizes", || {
        let sizes: Vec<String> = (0..900).map(|k| format!("x{k}: f32[n{k}]")).collect();
        let sum: Vec<String> = (0..900).map(|k| format!("x{k}")).collect();
        format!("fn f({}) = {}\n", sizes.join(", "), sum.join(" + "))
    }),
    ("900 results", || {
        let names: Vec<String> = (0..900).map(|k| format!("x + {k}")).collect();
        format!("fn f(x: f32[n]) = ({})\n", names.join(", "))
    }),
    ("calls that double 40 times", || doubling(40, "")),
    ("calls that double 40 times, arrays", || doubling(40, "[n]")),
    ("calls that double 12 times, arrays", || doubling(12, "[n]")),
    ("calls 900 deep", || {
        let mut text = "fn g0(x: f32[n]) = x\n".to_owned();
        (1..900).for_each(|k| writeln!(text, "fn g{k}(x: f32[n]) = g{}(x) + 1", k - 1).unwrap());
        text
    }),
    ("a concat of 900 arrays", || format!("fn f(x: f32[n]) = concat({}x)\n", "x, ".repeat(899))),
    ("a literal of 100,000 elements", || format!("fn f() = [{}1.5]\n", "1.5, ".repeat(99_999))),
    ("a literal of 10,000 expressions", || format!("fn f(x: f32) = [{}x]\n", "x * 2, ".repeat(9_999))),
    ("a condition of 900 comparisons", || {
        let conditions: Vec<String> = (0..900).map(|k| format!("i >= {k}")).collect();
        format!(
            "fn f(x: f32[n]) {{\n    let y[i < n] = if {} then x[i - 1] else 0\n    y\n}}\n",
            conditions.join(" && ")
        )
    }),
    ("a condition of 300 comparisons of different indices", || {
        let conditions: Vec<String> = (0..300).map(|k| format!("i + {k} * j <= n + {k} * m")).collect();
        let condition = conditions.join(" && ");
        format!(
            "fn f(x: f32[n], z: f32[m]) {{\n    let y[i < n, j < m] = if {condition} then x[i - 1] else 0\n    y\n}}\n"
        )
    }),
    ("a condition of 300 alternatives", || {
        let conditions: Vec<String> = (0..300).map(|k| format!("i != {k}")).collect();
        let condition = conditions.join(" && ");
        format!("fn f(x: f32[n]) {{\n    let y[i < n] = if {condition} then x[i - 1] else 0\n    y\n}}\n")
    }),
    ("twelve indices in one subscript", || {
        let names: Vec<String> = (0..12).map(|k| format!("i_{k}")).collect();
        let bounded: Vec<String> = names.iter().map(|i| format!("{i} < n")).collect();
        format!("fn f(x: f32[m], n: i64) {{\n    let y[{}] = x[{}]\n    y\n}}\n", bounded.join(", "), names.join(" + "))
    }),
    ("sizes that multiply", || {
        lets(60, |k| format!("concat(y{k}, y{k})")).replace("x: f32[n]", "x: f32[n], z: f32[n + 1]")
    }),
    ("reshapes of products", || {
        "fn f(x: f32[a + 1, b + 1, c + 1, d + 1, e + 1, g + 1], y: f32[a, b, c, d, e, g]) = reshape(x, _)\n".into()
    }),
    ("100 reducers in one another", || {
        let (open, close) = ("sum[j <= i](x[i] * sum[i <= j](x[j] * ".repeat(45), "))".repeat(45));
        format!("fn f(x: f32[n]) {{\n    let y[i < n] = {open}x[i]{close}\n    y\n}}\n")
    }),
    ("10,000 unknown names", || lets(10_000, |k| format!("unknown{k}"))),
    ("10,000 functions with an error each", || {
        (0..10_000).map(|k| format!("fn g{k}(x: f32[n]) = x * z{k}\n")).collect()
    }),
];

/// A function of `count` `let`s, each computed from the one before.
fn lets(count: usize, value: impl Fn(usize) -> String) -> String {
    let mut text = "fn f(x: f32[n]) {\n    let y0 = x\n".to_owned();
    (0..count).for_each(|k| writeln!(text, "    let y{} = {}", k + 1, value(k)).unwrap());
    writeln!(text, "    y{count}\n}}").unwrap();
    text
}

/// A normalization of rows, `count` times: six operations each.
fn rows(count: usize) -> String {
    lets(count, |k| format!("exp(y{k} - max(y{k}, axis = 0)) / (sum(y{k}, axis = 0) + 1)"))
        .replace("f32[n]", "f32[n, m]")
}

/// A function of `count` `let`s, each computed from the two before.
fn shared(count: usize) -> String {
    lets(count, |k| format!("y{k} + y{}", k.saturating_sub(1)))
}

/// The same in index notation; all are results of the last.
fn indexed(count: usize, value: impl Fn(usize) -> String) -> String {
    let mut text = "fn f(x: f32[n]) {\n    let y0 = x\n".to_owned();
    (0..count).for_each(|k| writeln!(text, "    let y{}[i] = {}", k + 1, value(k)).unwrap());
    writeln!(text, "    y{count}\n}}").unwrap();
    text
}

/// Functions that each call the one before twice.
fn doubling(levels: usize, shape: &str) -> String {
    let mut text = format!("fn g0(x: f32{shape}) = x + 1\n");
    (1..=levels).for_each(|k| writeln!(text, "fn g{k}(x: f32{shape}) = g{0}(x) * g{0}(x + 1)", k - 1).unwrap());
    text
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (name, source) in CASES.iter().filter(|(name, _)| name.contains(&wanted)) {
        let source = source();
        let start = Instant::now();
        let file = grammar::parse(&source);
        let parsed = start.elapsed();
        let start = Instant::now();
        let checked = file.and_then(|f| compiler::check::check_all(&f));
        let check = start.elapsed();
        let start = Instant::now();
        let lowered: Result<Vec<_>, _> = match &checked {
            Ok(all) => all.iter().map(|c| lower(c, None).map_err(|error| error.to_string())).collect(),
            Err(errors) => Err(format!("{} {}", errors[0].code, errors[0].message)),
        };
        let lowering = start.elapsed();
        let start = Instant::now();
        let outcome = lowered.and_then(|programs| {
            let operations: usize = programs.iter().map(|p| p.kernels.len()).sum();
            let fused: Result<Vec<_>, _> = programs.into_iter().map(|p| fuse(p, &Options::default())).collect();
            let kernels: usize = fused.map_err(|e| e.to_string())?.iter().map(|c| c.program.kernels.len()).sum();
            Ok(format!("{operations} operations, {kernels} kernels"))
        });
        let [parse, check, lower, fuse] = [parsed, check, lowering, start.elapsed()].map(|t| t.as_secs_f64() * 1e3);
        let outcome = outcome.unwrap_or_else(|error| error);
        println!(
            "{name:52} parse {parse:7.1}  check {check:8.1}  lower {lower:8.1}  fuse {fuse:8.1} ms  {outcome:.80}"
        );
    }
}
