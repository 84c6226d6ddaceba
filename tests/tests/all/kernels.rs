//! Fusion, counted: the number of kernels that programs must become, and operations that must not
//! fuse, with the reason, as `explain --format json` reports them. A test shows every row that
//! differs.

use std::fmt::Write;
use std::path::Path;

use compiler::pipeline::{Options, compile};
use ir::nest::{Program, Role};
use ir::{Array, Passes};
use serde_json::Value;

/// A program, its expected number of kernels, and the reason.
struct Row {
    name: &'static str,
    text: Text,
    kernels: u64,
    why: &'static str,
}

/// The source of a program. The function is called `f` unless it is named.
enum Text {
    Here(&'static str),
    Example(&'static str, &'static str),
}
use Text::{Example, Here};

const fn row(name: &'static str, text: Text, kernels: u64, why: &'static str) -> Row {
    Row { name, text, kernels, why }
}

/// Programs that must fuse completely.
const FUSED: &[Row] = &[
    row("case_a", Example("chains", "case_a"), 1, "a chain is one loop"),
    row("case_b", Example("chains", "case_b"), 2, "every element waits for the sum of all"),
    row("case_c", Example("chains", "case_c"), 1, "work before and after a reduction belongs to it"),
    row("case_d", Example("chains", "case_d"), 1, "two producers of one consumer"),
    row("sin and cos", Example("sincos", "sincos"), 1, "one read, two results"),
    row("sum and max", Here("fn f(x: f32[n]) = (sum(x), max(x))"), 1, "one read, two reductions"),
    row(
        "sum and max of many axes",
        Here("fn f(x: f32[a, b, c, d, e, g, h]) = (sum(x), max(x))"),
        1,
        "whatever the size",
    ),
    row(
        "row and column sums",
        Here("fn f(x: f32[n, m]) = (sum(x, axis = 1), sum(x, axis = 0))"),
        1,
        "one read, reduced along either axis",
    ),
    row("softmax of rows", Example("softmax", "softmax_rows"), 1, "a row stays in cache from step to step"),
    row("softmax over the last axis", Here(SOFTMAX_LAST), 1, "the same, by axis"),
    row("softmax over the first axis", Here(SOFTMAX_FIRST), 1, "and so does a block of columns"),
    row("layer norm", Example("layer_norm", "layer_norm_rows"), 1, "reduce, pointwise, reduce, pointwise within a row"),
    row("cross entropy", Example("cross_entropy", "cross_entropy"), 1, "the mean of rows ends in what the rows give"),
    row("dropout", Example("dropout", "dropout"), 1, "draws are elementwise"),
    row("relu(x @ w + b)", Example("linear_relu", "linear_relu"), 1, "an epilogue of the contraction"),
    row("mean squared error", Here("fn f(x: f32[n], y: f32[n]) = mean((x - y) ^ 2)"), 1, "the reduction's input"),
    row("log-sum-exp of rows", Here(LOG_SUM_EXP), 1, "two reductions of a row, the second takes the first"),
    row(
        "RMS norm",
        Here(
            "fn g(x: f32[d], gain: f32[d]) = x * rsqrt(mean(x * x) + 1e-5) * gain\n\
             fn f(x: f32[n, d], gain: f32[d]) {\n let y[i] = g(x[i], gain)\n y\n}",
        ),
        1,
        "reduce, then pointwise within a row",
    ),
    row(
        "residual add + layer norm",
        Here(
            "fn norm(x: f32[d], gain: f32[d], bias: f32[d]) {\n let mu = mean(x)\n let var = mean((x - mu) ^ 2)\n\
             (x - mu) * rsqrt(var + 1e-5) * gain + bias\n}\n\
             fn f(x: f32[n, d], r: f32[n, d], gain: f32[d], bias: f32[d]) {\n let s = x + r\n let y[i] = norm(s[i], gain, bias)\n (s, y)\n}",
        ),
        1,
        "the sum is a result as well as what is normalised",
    ),
    row(
        "L2-normalised rows",
        Here("fn f(x: f32[n, m]) {\n let y[i, j] = x[i, j] / sqrt(sum(x[i] * x[i]))\n y\n}"),
        1,
        "reduce, then pointwise within a row",
    ),
    row(
        "variance of rows",
        Here("fn f(x: f32[n, m]) {\n let v[i] = mean((x[i] - mean(x[i])) ^ 2)\n v\n}"),
        1,
        "two reductions of a row, the second takes the first",
    ),
    row(
        "argmax of softmax of rows",
        Here(
            "fn softmax(x: f32[m]) {\n let e = exp(x - max(x))\n e / sum(e)\n}\n\
             fn f(x: f32[n, m]) {\n let y[i] = argmax(softmax(x[i]))\n y\n}",
        ),
        1,
        "what is reduced need not be stored",
    ),
    row("x[::2] + y", Example("strided", "strided"), 1, "a slice is a subscript"),
    row("x[idx] + y", Example("gathered", "gathered"), 1, "so is a gather"),
    row("transpose + add", Example("transposed", "transposed"), 1, "and a transposition"),
    row("transpose(x) + y", Here("fn f(x: f32[n, m], y: f32[m, n]) = transpose(x) + y"), 1, "by name, too"),
    row(
        "3x3 blur, then relu",
        Here("fn f(x: f32[n, m]) {\n let y[i, j] = sum[r < 3, s < 3](x[i + r, j + s]) / 9\n relu(y)\n}"),
        1,
        "pointwise after a stencil",
    ),
    row("concat, then relu", Here("fn f(x: f32[n], y: f32[m]) = relu(concat(x, y))"), 1, "nothing is copied"),
    row(
        "cumsum(exp(x))",
        Here("fn f(x: f32[n]) {\n let e = exp(x)\n let c[i] = sum[k <= i](e[k])\n c\n}"),
        1,
        "a scan's input",
    ),
    row("conv, batch norm, relu", Example("conv_bn_relu", "conv_bn_relu"), 1, "an epilogue of the contraction"),
    row("a chain of 40 operations", Here(CHAIN), 1, "a chain is one loop, however long"),
    row("relu(x * 2 + b)", Example("relu_axpb", "relu_axpb"), 1, "a chain"),
    row("rms", Example("rms", "rms"), 1, "work before and after a reduction"),
    row(
        "dropout of softmax of rows",
        Here(
            "fn softmax(x: f32[m]) {\n let e = exp(x - max(x))\n e / sum(e)\n}\n\
             fn f(x: f32[n, m], rate: f32, seed: u32) {\n let p[i] = softmax(x[i])\n\
             let y[i, j] = if uniform(seed, i, j) < rate then 0 else p[i, j] / (1 - rate)\n y\n}",
        ),
        1,
        "more work at the end of a row",
    ),
    row(
        "reshape, then add",
        Here("fn f(x: f32[n, m], y: f32[n * m]) = reshape(relu(x), n * m) + y"),
        1,
        "a reshape is a view",
    ),
    row("statistics of columns", Example("statistics", "statistics"), 1, "one read for four results"),
];

/// Programs that may take at most this number of kernels.
const AT_MOST: &[Row] = &[
    row("attention", Example("attention", "attention"), 3, "two contractions with the softmax between"),
    row("attention of many heads", Example("attention", "multi_head"), 3, "the same for each head"),
];

/// Programs that must not fuse: the remaining kernels, and the reason why some pair is refused.
const APART: &[(Row, &str)] = &[
    (
        row(
            "an expensive producer of a stencil",
            Here("fn f(x: f32[n, m]) {\n let e = exp(x)\n let y[i, j] = sum[r < 3, s < 3](e[i + r, j + s]) / 9\n y\n}"),
            2,
            "exp would be computed nine times an element",
        ),
        "would-duplicate",
    ),
    (row("x / sum(x)", Example("chains", "case_b"), 2, "every element waits"), "global-reduction"),
    (
        row("softmax of a vector", Example("softmax", "softmax"), 3, "every step waits for all of the one before"),
        "global-reduction",
    ),
    (
        row(
            "(a @ b) @ c",
            Here("fn f(a: f32[n, k], b: f32[k, m], c: f32[m, l]) = (a @ b) @ c"),
            2,
            "each is tuned alone",
        ),
        "contraction",
    ),
    (
        row(
            "a running sum, backwards",
            Here("fn f(x: f32[n]) {\n let c[i] = sum[k <= i](x[k])\n let y[i < n] = c[n - 1 - i]\n y\n}"),
            2,
            "the first element needs the last",
        ),
        "other-iterations",
    ),
    (
        row(
            "sums of arrays of different lengths",
            Here("fn f(x: f32[n]) = (sum(x), sum(x[1:]))"),
            2,
            "the loops differ",
        ),
        "extents-differ",
    ),
];

/// Bytes loaded and stored as the interpreter counts them: unfused, and the maximum when fused.
const BYTES: &[(&str, Text, u64, u64)] = &[
    // For n = 1,000,000 that is 28 and 12 MB.
    ("relu(x * 2 + b)", Example("relu_axpb", "relu_axpb"), 28 * N, 12 * N),
    ("concat, then relu", Here("fn f(x: f32[n], y: f32[n]) = relu(concat(x, y))"), 32 * N, 16 * N),
    ("sin and cos", Example("sincos", "sincos"), 16 * N, 12 * N),
    ("mean squared error", Here("fn f(x: f32[n], y: f32[n]) = mean((x - y) ^ 2)"), 28 * N + 12, 8 * N + 4),
];

const SOFTMAX_LAST: &str = "fn f(x: f32[n, m]) {\n let hi = max(x, axis = 1)\n let e[i, j] = exp(x[i, j] - hi[i])\n\
     let z = sum(e, axis = 1)\n let y[i, j] = e[i, j] / z[i]\n y\n}";
const SOFTMAX_FIRST: &str = "fn f(x: f32[n, m]) {\n let e = exp(x - max(x, axis = 0))\n e / sum(e, axis = 0)\n}";
const LOG_SUM_EXP: &str = "fn f(x: f32[n, m]) {\n let hi = max(x, axis = 1)\n\
     let y[i] = hi[i] + log(sum[j](exp(x[i, j] - hi[i])))\n y\n}";
const CHAIN: &str = "fn f(x: f32[n]) {\n let a = ((((((((x + 1) * 2 - 3) * 0.5 + x) * x - 1) / 3 + 2) * x + 1) - x) * 1.5 + 4) * x\n\
     let b = ((((((((a + 1) * 2 - 3) * 0.5 + x) * a - 1) / 3 + 2) * x + 1) - a) * 1.5 + 4) * x\n\
     relu((((((b - 1) * 2 + x) * 3 - 4) * 5 + a) * 6 - 7) * 8)\n}";

/// The value of every size name when bytes are counted.
const N: u64 = 1000;

impl Text {
    /// The source and the function.
    fn source(&self) -> (String, &'static str) {
        match self {
            Here(source) => ((*source).to_owned(), "f"),
            Example(file, entry) => {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
                (std::fs::read_to_string(folder.join(format!("{file}.fl"))).expect("the example is there"), *entry)
            }
        }
    }

    /// The report of `fuseloop explain --format json`.
    fn explained(&self) -> Value {
        let (source, entry) = self.source();
        let program = fuseloop::Program::parse(source.as_str()).unwrap_or_else(|errors| panic!("{errors}"));
        let function = program.function(entry).expect("the function is there");
        let explanation = function.explain(&fuseloop::Options::default(), &[]).expect("it compiles");
        serde_json::from_str(&explanation.to_json()).expect("it is JSON")
    }

    fn compile(&self, fuse: Passes) -> Program {
        let (source, entry) = self.source();
        let file = grammar::parse(&source).expect("it has no errors");
        let checked = compiler::check::check(&file, entry).expect("it has no errors");
        compile(&checked, &Options { fuse, ..Options::default() }).expect("it compiles").program
    }
}

/// The pairs of operations that stay apart.
fn apart(explained: &Value) -> impl Iterator<Item = &Value> {
    explained["pairs"].as_array().into_iter().flatten().filter(|pair| pair["fused"] == false)
}

/// Fails with all mismatches.
fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} rows come out otherwise:\n{}", wrong.len(), wrong.join("\n"));
}

/// The result, and the reasons for extra kernels: each pair that stays apart.
fn mismatch(row: &Row, explained: &Value) -> String {
    let found = &explained["kernels"]["after"];
    let mut text = format!("{}: {found} kernels, not {} ({})\n", row.name, row.kernels, row.why);
    for pair in apart(explained) {
        let title = |which: &str| &explained["operations"][pair[which].as_u64().unwrap_or(0) as usize]["title"];
        let _ = writeln!(text, "    {} and {}: {} {}", title("first"), title("second"), pair["reason"], pair["why"]);
    }
    text
}

#[test]
fn what_must_fuse_does() {
    let mut wrong = vec![];
    for (row, exact) in FUSED.iter().map(|r| (r, true)).chain(AT_MOST.iter().map(|r| (r, false))) {
        let explained = row.text.explained();
        let found = explained["kernels"]["after"].as_u64().unwrap_or(u64::MAX);
        if found > row.kernels || exact && found != row.kernels {
            wrong.push(mismatch(row, &explained));
        }
    }
    report(&wrong);
}

#[test]
fn what_must_not_fuse_does_not_and_says_why() {
    let mut wrong = vec![];
    for (row, wanted) in APART {
        let explained = row.text.explained();
        let says = apart(&explained).any(|pair| pair["reason"] == *wanted);
        if explained["kernels"]["after"] != row.kernels || !says {
            wrong.push(format!("{}    expected: {wanted}", mismatch(row, &explained)));
        }
    }
    report(&wrong);
}

/// Bytes loaded and stored in memory when every size is [`N`].
fn bytes(program: &Program) -> u64 {
    let inputs: Vec<Array> = program
        .inputs()
        .into_iter()
        .map(|id| {
            let buffer = &program.buffers[id];
            let n = i64::try_from(N).expect("it is small");
            let shape: Vec<usize> =
                buffer.shape.iter().map(|size| usize::try_from(size.eval(&|_| n).unwrap()).unwrap()).collect();
            Array::zeros(buffer.dtype, &shape).expect("there is memory")
        })
        .collect();
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let run = interp::nest::run(program, &inputs).expect("it runs");
    let traffic = run.traffic.iter().flatten();
    traffic.filter(|(id, _)| program.buffers[**id].role != Role::Scratch).map(|(_, traffic)| traffic.bytes()).sum()
}

#[test]
fn bytes_go_where_they_must() {
    let mut wrong = vec![];
    for (name, text, before, after) in BYTES {
        let unfused = bytes(&text.compile(Passes::NONE));
        let fused = bytes(&text.compile(Passes::ALL));
        if unfused != *before || fused > *after {
            wrong.push(format!("{name}: {unfused} bytes unfused, not {before}; {fused} fused, not {after}"));
        }
    }
    report(&wrong);
}
