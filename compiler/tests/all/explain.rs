//! Reports on well-known programs: first the decisions, as data, then the text.

use std::collections::BTreeMap;
use std::fmt::Write;

use compiler::check::check;
use compiler::explain::{Amount, Decided, Report, Verdict, Why, explain};
use compiler::pipeline::{Options, compile, fuse};
use cranelift_entity::EntityRef;
use interp::scalar::ARITHMETIC;
use ir::decision::{Decision, FusionPass, Outcome, Pair, Reason};
use ir::nest::{BufferId, KernelId};
use ir::{Passes, Size};

fn report(source: &str, function: &str, fuse: Passes) -> Report {
    let file = grammar::parse(source).unwrap();
    let checked = check(&file, function).unwrap();
    let compiled = compile(&checked, &Options { fuse, ..Options::default() }).unwrap();
    explain(&checked, &compiled, fuse, source, &BTreeMap::new(), &ARITHMETIC)
}

/// Kernels, operations and pairs.
fn decided(report: &Report) -> String {
    let mut text = String::new();
    let title = |o| report.operations[o].title.as_str();
    for kernel in &report.after.kernels {
        let operations: Vec<&str> = kernel.operations.iter().map(|o| title(*o)).collect();
        writeln!(text, "kernel {}: {}", kernel.title(), operations.join(", ")).unwrap();
    }
    for pair in &report.pairs {
        let (first, second) = pair.operations();
        let bytes = pair.bytes.formula.as_ref().map(|f| report.sizes.text(f)).unwrap_or_default();
        let verdict = match &pair.verdict {
            Verdict::Fused(pass) => format!("fused {pass:?}"),
            Verdict::Apart(reason, _) => format!("apart {}", reason.name()),
        };
        writeln!(text, "{} -> {}: {verdict}, {bytes} bytes", title(first), title(second)).unwrap();
    }
    text
}

/// The loops after fusion.
fn nests(report: &Report) -> String {
    report.after.kernels.iter().map(|k| k.nest.join("\n") + "\n").collect()
}

const CHAIN: &str = "fn case_a(x: f32[n]) = relu(x + 1) * 2";
const SHARES: &str = "fn case_b(x: f32[n]) = x / sum(x)";
const SOFTMAX: &str = include_str!("../../../examples/softmax.fl");
const STENCIL: &str = "fn blur(x: f32[n, m]) {
    let e = exp(x)
    let y[i, j] = sum[r < 3, s < 3](e[i + r, j + s]) / 9
    y
}";

/// No index shadows another, and constants are folded in the loops shown.
#[test]
fn loops_name_each_index_and_fold_constants() {
    let programs = [
        "fn f(q: f32[1, n, k], x: f32[k, m]) = q @ x",
        "fn f(x: f32[b, n]) {\n let u[b] = sum[i](x[b, i])\n let w[b] = sum[i](x[b, i] ^ 2)\n w / u\n}",
        "fn f(x: f32[n, 3]) {\n let y[i] = if 0 < 1 then x[i, -1] else x[i, 0]\n y\n}",
        "fn f(x: f32[n, 3], at: i64[n]) {\n let k = 0 - 1\n let y[i] = x[i, clamp(select(k < 0, k + 3, k), 0, 2)]\n y\n}",
        "fn f(x: f32[n, 6]) {\n let y[i, j < 6] = reshape(x * 2, n, 1, 6)[i, j / 6 * 1 + 0, j]\n y\n}",
    ];
    let shown = |source: &&str| {
        let report = report(source, "f", Passes::ALL);
        let before: String = report.before.kernels.iter().map(|k| k.nest.join("\n") + "\n").collect();
        format!("{source}\n----\n{before}----\n{}\n", nests(&report))
    };
    insta::assert_snapshot!(programs.iter().map(shown).collect::<String>());
}

#[test]
fn decisions_of_what_everybody_knows() {
    let all: Vec<String> =
        [(CHAIN, "case_a"), (SHARES, "case_b"), (SOFTMAX, "softmax_rows"), (SOFTMAX, "softmax"), (STENCIL, "blur")]
            .iter()
            .map(|(source, function)| format!("{function}\n{}", decided(&report(source, function, Passes::ALL))))
            .collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn loops_read_like_the_source() {
    let mut all = String::new();
    for (source, function) in [(CHAIN, "case_a"), (SOFTMAX, "softmax_rows"), (STENCIL, "blur")] {
        all += &format!("{function}\n{}\n", nests(&report(source, function, Passes::ALL)));
    }
    // Everything that a loop nest may contain: conditions, scans, products, gathers, several
    // reductions, brackets, loops over kernels.
    let zoo = "
fn shift(x: f32[n]) {
    let y[i < n] = if i > 0 then x[i - 1] else 0
    y * 2 - (x - (1 - x)) / (x / 3)
}
fn cumulated(x: f32[n]) {
    let c[i] = sum[k <= i](exp(x[k]))
    c
}
fn layer(x: f32[n, k], w: f32[k, m], b: f32[m]) = relu(x @ w + b)
fn gathered(x: f32[m], idx: i32[n]) = -x[idx] * 2
fn extremes(x: f32[n, m]) -> (lo: f32[n], hi: f32[n]) = (min(x, axis = 1), max(x, axis = 1))
fn flat(x: f32[n, m]) = reshape(x, _) + 1
fn logic(a: bool[n], b: bool[n], k: i32[n]) = (a || b) && !(k % 3 == 1 || k < -2)
fn steps(x: f32[n], t: i64) = loop u = x, i < t while sum(u) > 1 { (x - u) / 2 }
fn plane(x: f32[n], t: i64) {
    let rec u[s <= t, i < n] = if s == 0 then x[i] else u[s - 1, n - 1 - i] + 1
    u[t]
}
";
    for function in ["shift", "cumulated", "layer", "gathered", "extremes", "flat", "logic", "steps", "plane"] {
        all += &format!("{function}\n{}\n", nests(&report(zoo, function, Passes::ALL)));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn operations_are_called_as_the_source_calls_them() {
    let source = "
fn norm(x: f32[d]) {
    let mu = mean(x)
    let var = mean((x - mu) ^ 2)
    (x - mu) * rsqrt(var + 1e-5)
}
fn twice(x: f32[n], y: f32[m]) -> (a: f32[n], b: f32[m]) = (norm(x), norm(y))
fn long(x: f32[n]) {
    let sum = sum(x * x)   # takes the name of a function
    sin(cos(sin(cos(sin(cos(x +
        sum)))))) * (exp(x) + log(x) - sqrt(x))
}
fn heat(u: f32[n], a: f32) {
    let v[i < n] = if i > 0 && i < n - 1 then u[i] + a * (u[i - 1] + u[i + 1] - 2 * u[i]) else u[i]
    v
}
fn thrice(u: f32[n], a: f32) = heat(heat(heat(u, a), a), a)
fn step(a: f32, n: i32, x: f32) {
    let inside = a * a <= 4
    (if inside then a * a + x else a, if inside then n + 1 else n)
}
fn steps(x: f32[n]) {
    let (a1, n1) = step(x * 0, i32(x * 0), x)
    let (a2, n2) = step(a1, n1, x)
    let (_, n3) = step(a2, n2, x)
    n3
}
";
    let mut all = String::new();
    for function in ["twice", "long", "thrice", "steps"] {
        let report = report(source, function, Passes::NONE);
        let titles: Vec<&str> = report.operations.values().map(|o| o.title.as_str()).collect();
        all += &format!("{function}\n{}\n\n", titles.join("\n"));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn every_reason_has_its_words() {
    let source = "fn f(x: f32[n]) {\n    let y = exp(x)\n    let z = y / 2\n    sum(y) + z\n}";
    let file = grammar::parse(source).unwrap();
    let checked = check(&file, "f").unwrap();
    let mut compiled = compile(&checked, &Options { fuse: Passes::NONE, ..Options::default() }).unwrap();
    let [producer, consumer, third] = [0, 1, 2].map(KernelId::new);
    let pair = Pair::Flow { producer, consumer, buffer: BufferId::new(1) };
    let reasons = [
        Reason::Disabled(FusionPass::Kloop),
        Reason::GlobalReduction,
        Reason::OtherIterations,
        Reason::WouldDuplicate { copies: Size::constant(9), operations: 20 },
        Reason::TooManyCopies { copies: 20, limit: 15 },
        Reason::ExtentsDiffer { first: Size::constant(3), second: Size::constant(4) },
        Reason::TooManyLiveValues { live: 40, limit: 32 },
        Reason::TooLarge { operations: 20_000, limit: 10_000 },
        Reason::Cut { operations: 20_000, limit: 10_000 },
        Reason::NotProfitable { loss: 1200 },
        Reason::LessParallel { loss: 1200 },
        Reason::OtherConsumer { consumer: third },
        Reason::PathBetween { through: third },
        Reason::Contraction,
        Reason::OtherPlan,
    ];
    let names: Vec<&str> = reasons.iter().map(Reason::name).collect();
    assert_eq!(names, Reason::NAMES);
    let decision = |reason| Decision { pair, outcome: Outcome::Refused(reason), bytes: Size::constant(0) };
    compiled.decisions = reasons.map(decision).into();
    let report = explain(&checked, &compiled, Passes::NONE, source, &BTreeMap::new(), &ARITHMETIC);
    let mut text = String::new();
    for pair in &report.pairs {
        let Verdict::Apart(reason, Why { sentence, suggestion }) = &pair.verdict else { panic!("{pair:?}") };
        writeln!(text, "{}: {sentence}\n    {}", reason.name(), suggestion.as_deref().unwrap_or("-")).unwrap();
    }
    insta::assert_snapshot!(text);
}

/// Operations in a loop over kernels cost as much as all its iterations, and are not merged with
/// those outside.
#[test]
fn loops_over_kernels_repeat_costs() {
    let source = "fn f(x: f32[n], t: i64[m]) { let y = x + x let z = y - y y + z }";
    let file = grammar::parse("fn f(x: f32[n], t: i64[m]) = x").unwrap();
    let checked = check(&file, "f").unwrap();
    let kernel = |name: &str, (op, a, b): (&str, &str, &str), text: &str| {
        let start = source.find(text).unwrap();
        format!(
            "kernel @{name} at {start}..{} {{ parallel i < n {{
                 v0 = load %{a}[i] v1 = load %{b}[i] v2 = {op} v0, v1 store %{name}[i], v2 }} }}",
            start + text.len()
        )
    };
    let unfused = format!(
        "program @f {{ symbol n = dim 0 of input 0 symbol m = dim 0 of input 1 input %x: f32[n] input %t: i64[m]
         output %out: f32[n] temp %y: f32[n] temp %a: f32[n] temp %z: f32[n]
         {} repeat m with %a = %y then %z {{ {} }} {} }}",
        kernel("y", ("add", "x", "x"), "x + x"),
        kernel("z", ("sub", "a", "y"), "y - y"),
        kernel("out", ("add", "a", "a"), "y + z"),
    );
    let compiled = fuse(unfused.parse().unwrap(), &Options::default()).unwrap();
    let report = |given: &[i64]| {
        let given = checked.symbols.keys().zip(given.iter().copied()).collect();
        explain(&checked, &compiled, Passes::ALL, source, &given, &ARITHMETIC)
    };
    let formulas = report(&[]);
    let text = |amount: &Amount| formulas.sizes.text(amount.formula.as_ref().unwrap());
    let bytes: Vec<String> = formulas.after.kernels.iter().map(|kernel| text(&kernel.figures.bytes)).collect();
    assert_eq!(bytes, ["8 * n", "12 * n * m", "8 * n"]);
    assert_eq!(text(&formulas.after.total.stores), "2 * n + n * m");
    let [Decided { bytes, verdict: Verdict::Apart(_, why), .. }, _] = &formulas.pairs[..] else {
        panic!("{:?}", formulas.pairs)
    };
    assert_eq!(text(bytes), "4 * n + 4 * n * m");
    insta::assert_snapshot!(why.sentence, @"a loop begins or ends between `x + x` and `y - y`: one of them may run more often than the other");
    assert_eq!(why.suggestion, None);
    let values = |given: &[i64]| {
        let total = report(given).after.total;
        [total.bytes, total.loads, total.stores].map(|amount| amount.value)
    };
    assert_eq!(values(&[10, 3]), [Some(520), Some(100), Some(50)]);
    assert_eq!(values(&[10, 0]), [Some(160), Some(40), Some(20)]);
}

#[test]
fn formulas_take_the_sizes_that_are_given() {
    let file = grammar::parse("fn f(x: f32[n, m], y: f32[m]) = x * y").unwrap();
    let checked = check(&file, "f").unwrap();
    let compiled = compile(&checked, &Options::default()).unwrap();
    let bytes = |given: &[(&str, i64)]| {
        let symbol = |name: &str| checked.symbols.iter().find(|(_, s)| s.name == name).unwrap().0;
        let given = given.iter().map(|(name, n)| (symbol(name), *n)).collect();
        let report = explain(&checked, &compiled, Passes::ALL, "", &given, &ARITHMETIC);
        let bytes = report.after.total.bytes;
        (report.sizes.text(&bytes.formula.unwrap()), bytes.value)
    };
    assert_eq!(bytes(&[]), ("8 * n * m + 4 * m".to_owned(), None));
    assert_eq!(bytes(&[("n", 10)]), ("84 * m".to_owned(), None));
    assert_eq!(bytes(&[("n", 10), ("m", 3)]), ("252".to_owned(), Some(252)));
}

/// Kernels that differ only in names are recognized, however long the names are; others are not.
#[test]
fn equal_kernels_are_one() {
    let source = "
fn step(u: f32[h, w], a: f32) {
    let v[i < h, j < w] = if i > 0 && i < h - 1 && j > 0 && j < w - 1
        then u[i, j] + a * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])
        else u[i, j]
    v
}
fn steps(a_long_name_of_an_array: f32[h, w], a: f32) = step(step(step(a_long_name_of_an_array, a), a), a)
";
    let like = |source, function| -> Vec<Option<usize>> {
        report(source, function, Passes::ALL).after.kernels.iter().map(|kernel| kernel.like).collect()
    };
    assert_eq!(like(source, "steps"), [None, Some(0), Some(0)]);
    assert_eq!(like(SHARES, "case_b"), [None, None]);
}

/// Loops as long as the size of a sum's terms are distinguished from those that data decide.
#[test]
fn counts_are_exact_unless_data_decide() {
    let source = "
fn triangle(x: f32[n]) {
    let y[i] = sum[k <= i](x[k] * x[i])
    y
}
fn guarded(x: f32[n], at: i64[n]) {
    let y[i < n] = if at[i] < n && at[i] >= 0 then x[at[i]] else 0
    y
}
";
    let exact = |function| report(source, function, Passes::ALL).after.total.loads.exact;
    assert_eq!([exact("triangle"), exact("guarded")], [true, false]);
}
