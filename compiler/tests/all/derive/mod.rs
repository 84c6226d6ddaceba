//! Derivatives: that `grad` and `jvp` are the limits of difference quotients, in `f64`, that fused
//! programs give the bits of the definition, and which derivatives are refused.

mod programs;

use ir::checked::Checked;
use ir::{Array, Dtype, Scalar, Size};

use compiler::check::{check, check_gradient};
use compiler::pipeline::{Options, compile};

/// A program with a function `f` of a scalar result, and functions for its derivatives.
pub struct Case {
    of: Checked,
    gradient: Checked,
    change: Checked,
    /// The parameters that are floats, by number.
    floats: Vec<usize>,
}

/// Lengths of the sizes of a program, in order.
const LENGTHS: [[i64; 4]; 5] = [[5, 3, 4, 2], [1, 1, 1, 1], [3, 5, 2, 4], [0, 2, 0, 3], [6, 6, 3, 3]];

fn checked(source: &str, name: &str) -> Checked {
    let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    check(&file, name).unwrap_or_else(|errors| panic!("{source}: {errors:?}"))
}

impl Case {
    pub fn new(source: &str) -> Case {
        let of = checked(source, "f");
        let file = grammar::parse(source).unwrap();
        let function = file.functions.iter().find(|function| function.name.text == "f").unwrap();
        let text = |start: u32, end: u32| &source[start as usize..end as usize];
        let params: Vec<(&str, &str)> = function
            .params
            .iter()
            .map(|param| (param.name.text.as_str(), text(param.ty.span.start, param.ty.span.end)))
            .collect();
        let floats: Vec<usize> = (0..of.params.len()).filter(|number| of.params[*number].ty.dtype.is_float()).collect();
        let names = |list: &[&str]| list.join(", ");
        let all: Vec<&str> = params.iter().map(|(name, _)| *name).collect();
        let some: Vec<&str> = floats.iter().map(|number| params[*number].0).collect();
        let declared: Vec<String> = params.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
        let changes: Vec<String> =
            floats.iter().map(|number| format!("d{}: {}", params[*number].0, params[*number].1)).collect();
        let changed: Vec<String> = some.iter().map(|name| format!("d{name}")).collect();
        let source = format!(
            "{source}\nfn gradient({d}) = grad[{s}](f({a}))\nfn change({d}, {c}) = jvp[{s}](f({a}), {t})",
            d = declared.join(", "),
            s = names(&some),
            a = names(&all),
            c = changes.join(", "),
            t = changed.join(", "),
        );
        Case { of, gradient: checked(&source, "gradient"), change: checked(&source, "change"), floats }
    }

    /// Arguments for some lengths: floats between 0.2 and 1.2, integers between 0 and 2.
    fn inputs(&self, lengths: [i64; 4], seed: usize) -> Vec<Array> {
        let mut inputs = vec![];
        for (k, param) in self.of.params.iter().enumerate() {
            let value = |s: ir::SymbolId| lengths[s.as_u32() as usize % 4];
            let length = |s: &Size| usize::try_from(s.eval(&value).unwrap()).unwrap_or(0);
            let shape: Vec<usize> = param.ty.shape.iter().map(length).collect();
            let count = shape.iter().product::<usize>();
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let number = |n: usize| match param.ty.dtype {
                dtype if dtype.is_float() => {
                    let part = ((n + 1) * (2 * k + 7) * (seed + 3) * 37) % 101;
                    interp::scalar::cast(dtype, Scalar::F64(0.2 + part as f64 / 101.0))
                }
                dtype => interp::scalar::cast(dtype, Scalar::I64(((n * 2 + seed + k) % 3) as i64)),
            };
            let elements: Vec<Scalar> = (0..count).map(number).collect();
            inputs.push(Array::from_scalars(param.ty.dtype, &shape, &elements).unwrap());
        }
        inputs
    }

    /// Compares the derivatives with difference quotients; returns whether the program runs with
    /// these lengths.
    pub fn agrees(&self, source: &str, lengths: [i64; 4], seed: usize) -> bool {
        let inputs = self.inputs(lengths, seed);
        let changes: Vec<Array> = self.floats.iter().map(|number| change(&inputs[*number], seed)).collect();
        let step = 1e-5;
        let moved = |by: f64| -> Option<f64> {
            let mut inputs = inputs.clone();
            for (number, change) in self.floats.iter().zip(&changes) {
                let input = &mut inputs[*number];
                for k in 0..input.len() {
                    let sum = float(input, k) + by * float(change, k);
                    input.set(k, interp::scalar::cast(input.dtype(), Scalar::F64(sum)));
                }
            }
            Some(float(&run(&self.of, &inputs)?[0], 0))
        };
        let (Some(after), Some(before)) = (moved(step), moved(-step)) else { return false };
        let quotient = (after - before) / (2.0 * step);
        if !quotient.is_finite() {
            return false;
        }
        let gradient = run(&self.gradient, &inputs).expect("runs where the function does");
        let mut product = 0.0;
        for ((derivative, change), number) in gradient.iter().zip(&changes).zip(&self.floats) {
            assert_eq!(derivative.shape(), inputs[*number].shape(), "{source}");
            product += (0..change.len()).map(|k| float(derivative, k) * float(change, k)).sum::<f64>();
        }
        let both = [inputs, changes].concat();
        let forward = float(&run(&self.change, &both).expect("runs where the function does")[0], 0);
        for (found, what) in [(product, "grad"), (forward, "jvp")] {
            let near = (found - quotient).abs() <= 1e-6 * (1.0 + quotient.abs());
            assert!(near, "{what} {found}, difference quotient {quotient}, {lengths:?}\n{source}");
        }
        true
    }
}

/// A direction to move an argument in.
fn change(input: &Array, seed: usize) -> Array {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let number = |n: usize| ((n * 5 + seed) % 7) as f64 / 3.0 - 0.9;
    let elements: Vec<Scalar> = (0..input.len()).map(|n| Scalar::F64(number(n))).collect();
    Array::from_scalars(Dtype::F64, input.shape(), &elements).unwrap()
}

fn float(array: &Array, number: usize) -> f64 {
    match interp::scalar::cast(Dtype::F64, array.get(number).unwrap()) {
        Scalar::F64(value) => value,
        other => panic!("{other:?}"),
    }
}

/// Runs a program as it is defined and as it is lowered and fused, which must give the same bits.
fn run(checked: &Checked, inputs: &[Array]) -> Option<Vec<Array>> {
    let borrowed: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let meant = interp::source::run(checked, &borrowed, &compiler::math::define).ok()?;
    let fused = compile(checked, &Options::default()).expect("compiles").program;
    let outcome = match interp::nest::run(&fused, &borrowed) {
        Ok(outcome) => outcome,
        // A subscript may be checked even if its value is not needed.
        Err(interp::nest::RunError::Fault(fault)) => {
            let may = interp::source::may_fault(checked, &borrowed, &compiler::math::define, fault);
            assert_eq!(may, Ok(true), "{fault:?}\n{fused}");
            return None;
        }
        Err(error) => panic!("{error:?}\n{fused}"),
    };
    assert_eq!(outcome.outputs, meant, "{fused}");
    Some(meant)
}

/// The programs with derivatives that have a text.
fn written() -> impl Iterator<Item = &'static &'static str> {
    [programs::ALL, programs::LOOPS, programs::RECURRENCES, programs::RANDOM].into_iter().flatten()
}

#[test]
fn derivatives_are_limits_of_difference_quotients() {
    let mut wrong = vec![];
    for source in written().chain(programs::UNWRITTEN) {
        let found = std::panic::catch_unwind(|| {
            let case = Case::new(source);
            LENGTHS.iter().enumerate().filter(|(seed, lengths)| case.agrees(source, **lengths, *seed)).count()
        });
        match found {
            Ok(runs) if runs > 1 => {}
            Ok(runs) => wrong.push(format!("runs {runs} times: {source}")),
            Err(_) => wrong.push(source.to_string()),
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// `jvp` goes through loops that `grad` refuses: its value is the limit of difference quotients.
#[test]
fn changes_go_through_any_loop() {
    for source in programs::FORWARD {
        let file = grammar::parse(&format!("{source}\nfn g(x: f64) = grad[x](f(x))")).unwrap();
        if source.starts_with("fn f(x: f64)") {
            let errors = check(&file, "g").unwrap_err();
            assert_eq!(errors[0].code.to_string(), "E0154", "{source}");
        }
        let declared = source.split_once('(').unwrap().1.split_once(") ").unwrap().0;
        let names: Vec<&str> = declared.split(", ").map(|param| param.split_once(':').unwrap().0).collect();
        let change = declared.split(", ").next().unwrap();
        let source = format!("{source}\nfn change({declared}, d{change}) = jvp[x](f({}), dx)", names.join(", "));
        let (of, changed) = (checked(&source, "f"), checked(&source, "change"));
        let x = |by: f64| match of.params[0].ty.shape.is_empty() {
            true => Array::from_scalars(Dtype::F64, &[], &[Scalar::F64(0.3 + by)]).unwrap(),
            false => Array::from_scalars(Dtype::F64, &[2], &[Scalar::F64(0.3 + by), Scalar::F64(0.7 + by)]).unwrap(),
        };
        let k = Array::from_scalars(Dtype::I64, &[2], &[Scalar::I64(3), Scalar::I64(5)]).unwrap();
        let inputs = |by: f64| match names.len() {
            1 => vec![x(by)],
            _ => vec![x(by), k.clone()],
        };
        let at = |by: f64| float(&run(&of, &inputs(by)).unwrap()[0], 0);
        let quotient = (at(1e-6) - at(-1e-6)) / 2e-6;
        let ones = match of.params[0].ty.shape.is_empty() {
            true => Array::from_scalars(Dtype::F64, &[], &[Scalar::F64(1.0)]).unwrap(),
            false => Array::from_scalars(Dtype::F64, &[2], &[Scalar::F64(1.0); 2]).unwrap(),
        };
        let found = float(&run(&changed, &[inputs(0.0), vec![ones]].concat()).unwrap()[0], 0);
        assert!((found - quotient).abs() <= 1e-5 * quotient.abs().max(1.0), "{found} {quotient}: {source}");
    }
}

/// A derivative that is written as a program and read again gives the same bits.
#[test]
fn written_derivatives_are_the_same() {
    let mut wrong = vec![];
    for source in written() {
        let case = Case::new(source);
        let gradient = check_gradient(&grammar::parse(source).unwrap(), "f", &[]).unwrap();
        let text = match compiler::written::write(&gradient) {
            Ok(text) => text,
            Err(unwritten) => {
                wrong.push(format!("{unwritten:?}: {source}"));
                continue;
            }
        };
        let written = match grammar::parse(&text).and_then(|file| check(&file, "f_grad")) {
            Ok(written) => written,
            Err(errors) => {
                wrong.push(format!("{}: {source}\n{text}", errors[0].message));
                continue;
            }
        };
        for (seed, lengths) in LENGTHS.iter().enumerate() {
            let inputs = case.inputs(*lengths, seed);
            let borrowed: Vec<_> = inputs.iter().map(Array::as_ref).collect();
            let run = |checked: &Checked| interp::source::run(checked, &borrowed, &compiler::math::define).ok();
            if run(&case.of).is_some() && run(&written) != run(&gradient) {
                wrong.push(format!("other bits for {lengths:?}: {source}\n{text}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
    for source in programs::UNWRITTEN {
        let gradient = check_gradient(&grammar::parse(source).unwrap(), "f", &[]).unwrap();
        assert!(compiler::written::write(&gradient).is_err(), "{source}");
    }
}

/// The way back through a recurrence is one from the other end.
#[test]
fn a_written_recurrence_reads_as_one() {
    let source = "fn f(x: f64[n], a: f64) {
        let rec y[t < n] = if t == 0 then x[t] else a * y[t - 1] + x[t]
        sum(y * y)
    }";
    let gradient = check_gradient(&grammar::parse(source).unwrap(), "f", &["x".to_owned()]).unwrap();
    insta::assert_snapshot!(compiler::written::write(&gradient).unwrap());
}

/// A sum of products in the way back through a recurrence is a product of rows.
#[test]
fn a_written_network_multiplies_rows() {
    let source = "fn f(x: f64[n, h], u: f64[h, h]) {
        let rec s[t < n, j < h] = tanh(x[t, j] + (if t == 0 then 0 else sum[k](u[k, j] * s[t - 1, k])))
        sum(s)
    }";
    let gradient = check_gradient(&grammar::parse(source).unwrap(), "f", &["x".to_owned()]).unwrap();
    let text = compiler::written::write(&gradient).unwrap();
    let product = "if t + 1 < n then ds2[t + 1] * ((1 - s[t + 1]) * (1 + s[t + 1])) @ u[j] else 0";
    assert!(text.contains(product), "{text}");
}

/// The way back through a loop is one over the states that a first one keeps.
#[test]
fn a_written_loop_reads_as_one() {
    let source = "fn f(at: f64, damping: f64) {
        let (x, _) = loop x = at, v = 0, t < 9 { (x + 0.1 * v, v - 0.1 * (x + damping * v)) }
        x
    }";
    let gradient = check_gradient(&grammar::parse(source).unwrap(), "f", &["damping".to_owned()]).unwrap();
    let expected = "fn f_grad(at: f64, damping: f64) -> f64 {
    let zeros[i < 9] = f64(0)
    let (_, _, all_v) = loop x = at, v = f64(0), all_v = zeros, t < 9 {
        let all_v2[i < 9] = if i == t then v else all_v[i]
        (x + 0.1 * v, v - 0.1 * (x + damping * v), all_v2)
    }
    let (_, _, ddamping) = loop dx = f64(1), dv = f64(0), ddamping = f64(0), t < 9 {
        let v = all_v[8 - t]
        let dv2 = dv - dv * 0.1 * damping + dx * 0.1
        let dx2 = dx - dv * 0.1
        (dx2, dv2, ddamping - dv * 0.1 * v)
    }
    ddamping
}
";
    assert_eq!(compiler::written::write(&gradient).unwrap(), expected);
}

/// A random number is the one of the same seed and indices.
#[test]
fn a_written_dropout_draws_the_same_numbers() {
    let source = "fn f(x: f32[n, m], rate: f32, seed: u32) {
        let y[i, j] = if uniform(seed, i, j) < rate then 0 else x[i, j] / (1 - rate)
        mean(y * y)
    }";
    let gradient = check_gradient(&grammar::parse(source).unwrap(), "f", &["x".to_owned()]).unwrap();
    let expected = "fn f_grad(x: f32[n, m], rate: f32, seed: u32) -> f32[n, m] {
    let y[i < n, j < m] = if uniform(seed, i, j) < rate then 0 else x[i, j] / (1 - rate)
    let dx[i < n, j < m] =
        if uniform(seed, i, j) < rate then 0 else 2 * (1 / f32(n * m) * y[i, j]) / (1 - rate)
    dx
}
";
    assert_eq!(compiler::written::write(&gradient).unwrap(), expected);
}

const CROSS_ENTROPY: &str = "fn loss(w: f32[d, c], x: f32[n, d], label: i64[n]) {
    let z = x @ w
    let nll[i] = log(sum(exp(z[i]))) - z[i, label[i]]
    mean(nll)
}";

/// The derivative is the one that a person would write, in as many kernels.
#[test]
fn a_derivative_reads_as_if_written_by_hand() {
    let gradient = check_gradient(&grammar::parse(CROSS_ENTROPY).unwrap(), "loss", &["w".to_owned()]).unwrap();
    let text = compiler::written::write(&gradient).unwrap();
    let expected = "fn loss_grad(w: f32[d, c], x: f32[n, d], label: i64[n]) -> f32[d, c] {
    let z = x @ w
    let dz[i, j] =
        (if label[i] == j then -(1 / f32(n)) else 0) +
        1 / f32(n) / sum[k](exp(z[i, k])) * exp(z[i, j])
    transpose(x) @ dz
}
";
    assert_eq!(text, expected);
    let by_hand = checked(expected, "loss_grad");
    let kernels = |checked: &Checked| compile(checked, &Options::default()).unwrap().program.kernels.len();
    assert_eq!(kernels(&gradient), kernels(&by_hand));
    assert_eq!(kernels(&gradient), 2);
}

/// The maximum of a softmax only keeps `exp` in range, and so does that of a norm.
#[test]
fn what_a_value_does_not_depend_on_is_left_out() {
    let written = |body: &str| {
        let source = format!("fn f(x: f64[n]) {{\n{body}\n}}");
        let gradient = check_gradient(&grammar::parse(&source).unwrap(), "f", &[]).unwrap();
        compiler::written::write(&gradient).unwrap()
    };
    assert_eq!(
        written("max(x) + log(sum(exp(x - max(x))))"),
        "fn f_grad(x: f64[n]) -> f64[n] {
    let t = x - max[i](x[i])
    1 / sum[i](exp(t[i])) * exp(t)
}
"
    );
    let steps = |body: &str| written(body).matches("argmax[").count();
    assert_eq!(steps("let s = max(abs(x))\ns * sqrt(sum((x / s) ^ 2))"), 0);
    assert!(steps("sum(exp(x - max(x)))") > 0);
}

/// A sum by key is turned around by reading at the key.
#[test]
fn the_derivative_of_a_sum_by_key_reads_at_the_key() {
    let source = "fn loss(x: f64[n, d], near: i64[n], y: f64[m, d]) {
        let s[c < m, j] = sum[i where near[i] == c](x[i, j])
        sum((s - y) ^ 2)
    }";
    let gradient = check_gradient(&grammar::parse(source).unwrap(), "loss", &["x".to_owned()]).unwrap();
    let expected = "fn loss_grad(x: f64[n, d], near: i64[n], y: f64[m, d]) -> f64[n, d] {
    let s[c < m, j < d] = sum[i < n where near[i] == c](x[i, j])
    let ds = 2 * (s - y)
    let dx[i < n, j < d] = if 0 <= near[i] && near[i] < m then ds[near[i], j] else 0
    dx
}
";
    assert_eq!(compiler::written::write(&gradient).unwrap(), expected);
}

/// On the way back through a recurrence each function of an element is computed once, or not at
/// all where the element itself says what it is.
#[test]
fn slopes_of_a_recurrence_are_computed_once() {
    let count = |function: &str, slope: &str| {
        let source = format!(
            "fn f(x: f64[n, d], w: f64[d, h], u: f64[h, h]) {{
                let rec s[t <= n, j < h] = if t == 0 then 0
                    else {function}(sum[i](x[t - 1, i] * w[i, j]) + sum[k](u[k, j] * s[t - 1, k]))
                sum(s[n] * s[n])
            }}
            fn g(x: f64[n, d], w: f64[d, h], u: f64[h, h]) = grad[x, w, u](f(x, w, u))"
        );
        let program = compile(&checked(&source, "g"), &Options::default()).unwrap().program;
        program.to_string().matches(&format!("call @{slope}.")).count()
    };
    assert_eq!(count("tanh", "tanh"), 1);
    assert_eq!(count("sin", "cos"), 1);
}

/// The way back through a long loop keeps the states that blocks of steps begin with, and those of
/// one block: neither its memory nor its loads and stores grow as those of all states would.
#[test]
fn the_way_back_through_a_long_loop_goes_by_blocks() {
    let source = "fn f(x: f64[n], z: f64[s]) {
        let (y, v) = loop y = x, v = x, t < s { (y + 0.1 * v + z[t], v - 0.1 * sin(y)) }
        sum(y * v)
    }
    fn g(x: f64[n], z: f64[s]) = grad[x](f(x, z))";
    let program = compile(&checked(source, "g"), &Options::default()).unwrap().program;
    let peak = compiler::plan::peak::Peak::of(&program);
    let bytes = |n: i64, s: i64| {
        let value = |symbol: ir::SymbolId| if program.symbols[symbol].name == "n" { n } else { s };
        peak.at(&|size: &Size| size.eval(&value).unwrap(), 1)
    };
    // Two states of 1000 numbers for each block of 32 steps, in two arrays that take turns, and
    // the arguments.
    let (short, long) = (bytes(1000, 3200), bytes(1000, 6400));
    assert!(long - short <= 100 * 2 * 2 * 8 * 1000 + 3200 * 8, "{short} {long}");
    let passes = |s: usize| passes(&program, &[&[2], &[s]]);
    let (short, long) = (passes(320), passes(640));
    assert!(long < 2 * short + short / 10, "{short} {long}");
}

/// The loads and stores of a program on arrays of these shapes.
fn passes(program: &ir::nest::Program, shapes: &[&[usize]]) -> u64 {
    let array = |shape: &&[usize]| {
        let elements = vec![Scalar::F64(0.1); shape.iter().product()];
        Array::from_scalars(Dtype::F64, shape, &elements).unwrap()
    };
    let inputs: Vec<Array> = shapes.iter().map(array).collect();
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let traffic = interp::nest::run(program, &inputs).unwrap().traffic;
    traffic.iter().flat_map(|kernel| kernel.values()).map(|traffic| traffic.loads + traffic.stores).sum()
}

/// The place of the least element of each key is found once for each key, not for each element.
#[test]
fn the_least_of_a_key_is_found_once_for_each_key() {
    let source = "fn f(y: f64[k, n]) {
        let a[i < k] = min[r < k, t < n where (r + t) * 7919 % (k) == i](y[r, t])
        sum(a)
    }
    fn g(y: f64[k, n]) = grad[y](f(y))";
    let program = compile(&checked(source, "g"), &Options::default()).unwrap().program;
    let (short, long) = (passes(&program, &[&[2, 100]]), passes(&program, &[&[2, 200]]));
    assert!(long < 2 * short + short / 10, "{short} {long}");
}

/// The derivative of `f` in its only parameter, at some numbers.
fn at(source: &str, dtype: Dtype, numbers: &[f64]) -> (Dtype, Vec<f64>) {
    let source = format!("{source}\nfn gradient(x: {dtype}[n]) = grad[x](f(x))");
    let elements: Vec<Scalar> = numbers.iter().map(|n| interp::scalar::cast(dtype, Scalar::F64(*n))).collect();
    let input = Array::from_scalars(dtype, &[numbers.len()], &elements).unwrap();
    let found = run(&checked(&source, "gradient"), &[input]).unwrap_or_else(|| panic!("{source} runs"));
    (found[0].dtype(), (0..found[0].len()).map(|k| float(&found[0], k)).collect())
}

#[test]
fn at_kinks_a_derivative_is_defined() {
    for (body, numbers, expected) in [
        ("sum(abs(x))", &[-1.0, 0.0, 2.0][..], &[-1.0, 0.0, 1.0][..]),
        ("sum(relu(x))", &[-1.0, 0.0, 2.0], &[0.0, 0.0, 1.0]),
        ("sum(max(x, 1))", &[0.0, 1.0, 2.0], &[0.0, 1.0, 1.0]),
        ("sum(min(1, x))", &[0.0, 1.0, 2.0], &[1.0, 0.0, 0.0]),
        ("sum(clamp(x, 0, 1))", &[-1.0, 0.0, 0.5, 1.0, 2.0], &[0.0, 1.0, 1.0, 1.0, 0.0]),
        ("max(x)", &[1.0, 3.0, 3.0], &[0.0, 1.0, 0.0]),
        ("min(x)", &[1.0, 1.0, 3.0], &[1.0, 0.0, 0.0]),
        ("prod(x)", &[2.0, 0.0, 3.0], &[0.0, 6.0, 0.0]),
        ("prod(x)", &[0.0, 0.0, 3.0], &[0.0, 0.0, 0.0]),
        ("sum(x ^ 2.0)", &[0.0, 1.0], &[0.0, 2.0]),
        ("sum(floor(x) + round(x))", &[0.5, 1.5], &[0.0, 0.0]),
        // The branch that is not taken has no value.
        ("sum(if x > 0 then sqrt(x) else 0)", &[0.0, 4.0], &[0.0, 0.25]),
        ("sum(select(x > 0, log(x), 0))", &[0.0, 4.0], &[0.0, 0.25]),
        ("sum[i where x[i] > 0](1 / x[i])", &[0.0, 2.0], &[0.0, -0.25]),
        ("sum(x)", &[], &[]),
        ("max(x) + prod(x)", &[], &[]),
    ] {
        let source = format!("fn f(x: f64[n]) = {body}");
        let (_, found) = at(&source, Dtype::F64, numbers);
        assert_eq!(found, expected, "{body} at {numbers:?}");
    }
}

#[test]
fn the_derivative_in_a_storage_type_is_of_the_type_that_it_is_computed_in() {
    for (dtype, wide) in
        [(Dtype::F16, Dtype::F32), (Dtype::Bf16, Dtype::F32), (Dtype::F32, Dtype::F32), (Dtype::F64, Dtype::F64)]
    {
        let source = format!("fn f(x: {dtype}[n]) = sum(x * x) + {wide}({dtype}(sum(x)))");
        assert_eq!(at(&source, dtype, &[1.0, 2.0]), (wide, vec![3.0, 5.0]), "{dtype}");
    }
}

/// The corpus and the examples: whatever has a derivative has the same bits fused, and written.
#[test]
fn derivatives_of_the_corpus_agree() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec![];
    for folder in ["tests/programs", "examples"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|path| path.extension().is_some_and(|ending| ending == "fl")));
    }
    files.sort();
    let (mut derived, mut written, mut wrong) = (0, 0, vec![]);
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let Ok(file) = grammar::parse(&text) else { continue };
        for function in &file.functions {
            let part = |start: u32, end: u32| &text[start as usize..end as usize];
            let params = function.params.iter().map(|p| (&p.name.text, part(p.ty.span.start, p.ty.span.end)));
            let declared: Vec<String> = params.map(|(name, ty)| format!("{name}: {ty}")).collect();
            let names: Vec<&str> = function.params.iter().map(|p| p.name.text.as_str()).collect();
            let called = format!("{}({})", function.name.text, names.join(", "));
            for value in [format!("sum({called} * {called})"), called] {
                let source = format!("{text}\nfn total_of_it({}) = {value}", declared.join(", "));
                let Ok(file) = grammar::parse(&source) else { continue };
                let Ok(gradient) = check_gradient(&file, "total_of_it", &[]) else { continue };
                derived += 1;
                match std::panic::catch_unwind(|| is_the_same(&source, gradient)) {
                    Ok(is_written) => written += usize::from(is_written),
                    Err(_) => wrong.push(format!("{}: {}", path.display(), value)),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(derived > 100 && written > 90, "{derived} derivatives, {written} written");
}

/// Compares a derivative with itself fused, and written and read again, if it can be.
fn is_the_same(source: &str, gradient: Checked) -> bool {
    let written = compiler::written::write(&gradient).ok().map(|text| {
        let file = grammar::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        let written = check(&file, "total_of_it_grad");
        written.unwrap_or_else(|errors| panic!("{source}\n{errors:?}\n{text}"))
    });
    let case = Case { of: gradient.clone(), change: gradient.clone(), gradient, floats: vec![] };
    for (seed, lengths) in LENGTHS.iter().enumerate().take(2) {
        let inputs = case.inputs(*lengths, seed);
        let found = run(&case.gradient, &inputs);
        if let (Some(written), true) = (&written, found.is_some()) {
            assert_eq!(run(written, &inputs), found, "{source}");
        }
    }
    written.is_some()
}
