//! The checker on programs of one idea each: inferred types and errors.
//!
//! Each case is a program; the snapshot shows its signatures, its run-time checks and its errors.

use ir::nest::CheckKind;
use std::fmt::Write;

use compiler::check::Signature;

/// Everything the checker says of a program.
fn outcome(source: &str) -> String {
    let mut text = format!("{}\n", source.trim());
    let file = match grammar::parse(source) {
        Ok(file) => file,
        Err(errors) => panic!("{source}: {errors:?}"),
    };
    match compiler::check::check_all(&file) {
        Ok(all) => {
            for checked in all {
                writeln!(text, "  => {}", Signature::new(&checked).to_string().replace("\n    ", "\n     ")).unwrap();
                for site in checked.sites.values() {
                    let what = match &site.what {
                        CheckKind::Axis { array, axis } => format!("axis {axis} of {array}"),
                        CheckKind::Elements(op) => format!("elements of {op}"),
                        CheckKind::Steps => "steps".to_owned(),
                    };
                    writeln!(text, "     checked: {what}").unwrap();
                }
            }
        }
        Err(errors) => {
            for e in errors {
                let span = e.labels[0].span;
                let at = &source[span.start as usize..span.end as usize];
                writeln!(text, "  => {} at `{at}`: {}", e.code, e.message).unwrap();
                if let Some(help) = e.help {
                    writeln!(text, "     help: {help}").unwrap();
                }
                for edit in e.suggestion {
                    let at = &source[edit.span.start as usize..edit.span.end as usize];
                    writeln!(text, "     write `{}` for `{at}`", edit.replacement).unwrap();
                }
            }
        }
    }
    text
}

pub fn outcomes(sources: &[&str]) -> String {
    sources.iter().map(|s| outcome(s) + "\n").collect()
}

#[test]
fn literals_take_the_type_of_their_context() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32[n]) = x + 1 / 2",
        "fn f(x: f64) = x * pi + sqrt(2)",
        "fn f() = 1 / 2",
        "fn f() = 0.5",
        "fn f() = if true then 1 else 2.5",
        "fn f(x: i32) = x + 0.5",
        "fn f(x: i32) = x + 3000000000",
        "fn f() -> i32 = -2147483648",
        "fn f() = [[1, 2], [3, 4]]",
        "fn f() = [[1, 2], [3]]",
        "fn f(x: f64) = [1, x, 2]",
        "fn f() = i32(2.7) + i32(7)",
        "fn f(x: f32) = x * 1e999",
        "fn f(x: f32, b: bool) = if b then 0 else x",
    ]));
}

#[test]
fn types_do_not_convert() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32[n], y: f64[n]) = x + y",
        "fn f(x: f32[n], k: i64[n]) { let y[i] = x[i] * k[i]\n y }",
        "fn f(b: bool) = b + 1",
        "fn f(x: f32) = x && true",
        "fn f(x: i64[n]) = exp(x)",
        "fn f(x: i32[n]) = sum(x) + max(x) + abs(x)",
        "fn f(x: f32) = if x then 1 else 2",
        "fn f(x: f32, y: i32) = if true then x else y",
        "fn f(x: u32) = x",
        "fn f(x: i64[n]) = mean(x)",
        "fn f(x: f32[n]) = any(x)",
        "fn f(x: i64) = x ^ -1",
        "fn f(x: f32[n]) = x ^ 3 + x ^ 0 + x ^ -2",
        "fn f(x: f32, y: f32) = x ^ y",
    ]));
}

#[test]
fn a_type_that_does_not_fit_is_traced_to_where_it_began() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f64[n]) { let w[i] = if x[i] > 0 then 1 - 1 / (n - i) else 1\n let y[i] = x[i] * w[i]\n y }",
        "fn f(d: bool[n]) -> f64[n] { let w[i] = if d[i] then 1 - 1 / (n - i) else 1\n w }",
        "fn f(x: f64[n]) { let w[i < n] = i / n\n x * w }",
        "fn f(x: i64[n]) = log(1 + x / 2)",
        "fn f(x: f64[n]) { let s = loop s = 0.5, t < 3 { s * 2 }\n x * s }",
        "fn f(a: f64) = loop y = 1.0, e = inf while e > a { (y / 2, y) }",
        "fn g(x: f64) = x * x\nfn f(n: i64) { let (y, _) = loop y = 1.0, z = f64(0), t < n { (y / 2, g(y)) }\n y }",
        "fn f(x: i64[n], k: i64) -> f64[k] { let p[v < k] = mean[i where x[i] < v](if x[i] > 0 then 1.0 else 0.0)\n p }",
        "fn f(x: f32[n], y: f64[n]) = x * 2.0 + y",
        "fn f(n: i64) -> f64 = sqrt(n)",
        "fn f(x: f64[n]) = x * f32(2)",
        "fn f(x: f64[n], k: i64) = x * sqrt(f32(1 / k))",
    ]));
}

#[test]
fn shapes_are_decided_or_required() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32[n, m], y: f32[m]) = x + y",
        "fn f(x: f32[n, m], y: f32[n]) = x + y",
        "fn f(x: f32[3], y: f32[5]) = x + y",
        "fn f(x: f32[n], y: f32[n + 1]) = x + y",
        "fn f(x: f32[n, m], y: f32[n, 1]) = x * y",
        "fn f(x: f32[n], y: f32[n - 2]) = y",
        "fn f(x: f32[n - 2]) = x",
        "fn f(k: i64) = iota(k)",
        "fn f(k: i64, x: f32[k, 2 * k]) = x",
        "fn f(x: f32[n, m]) = reshape(x, m, n)",
        "fn f(x: f32[n, m]) = reshape(x, m, _)",
        "fn f(x: f32[n]) = reshape(x, _, 2)",
        "fn f(x: f32[6]) = reshape(x, 2, 4)",
        "fn f(x: f32[n, k], y: f32[m, k]) = concat(x, y)",
        "fn f(x: f32[n, k], y: f32[n, m]) = concat(x, y, x, axis = 1)",
        "fn f(x: f32[n], y: f32[n]) = concat(x, y, axis = 1)",
        "fn f(x: f32[b, n, k], y: f32[k, m]) = x @ y",
        "fn f(x: f32[n], y: f32[n]) = x @ y",
        "fn f(x: f32[n, m]) = transpose(x) @ x",
        "fn f(x: f32[n, m]) -> f32[m, n] = x",
        "fn f(x: f32[n, m]) = size(x, 1) + size(x, 2)",
        "fn f(x: f32[n]) -> f32 = x",
    ]));
}

#[test]
fn an_index_ends_where_its_accesses_do() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32[n]) { let y[i] = x[i] + x[i + 2]\n y }",
        "fn f(x: f32[m]) { let y[i] = x[2 * i]\n y }",
        "fn f(x: f32[n]) { let y[i] = x[n - 1 - i]\n y }",
        "fn f(x: f32[n], z: f32[m]) { let y[i] = x[i] + z[i]\n y }",
        "fn f(x: f32[3], z: f32[5]) { let y[i] = x[i] + z[i]\n y }",
        "fn f(x: f32[5]) { let y[i] = x[i] + x[i + 2]\n y }",
        "fn f(x: f32[n], w: f32[r]) { let y[i] = sum[j](x[i + j] * w[j])\n y }",
        "fn f(x: f32[n]) { let c[i] = sum[k <= i](x[k])\n c }",
        "fn f(x: f32[n]) { let c[i] = sum[k < i](x[k])\n c }",
        "fn f(x: f32[n]) { let c[i < n] = sum[k < i](x[k])\n c }",
        "fn f(x: f32[n]) { let y[i] = 1.0\n y }",
        "fn f(x: f32[n]) { let y[i] = if i > 0 then x[i - 1] else 0\n y }",
        "fn f(x: f32[n], y: f32[n]) { let z[i] = y[i] + (if i > 0 then x[i - 1] else 0)\n z }",
        "fn f(x: f32[n, m]) { let z[i, j < 1] = sum(x[i])\n z }",
        "fn f(x: f32[n]) { let y[i, j < i] = x[j]\n y }",
        "fn f(x: f32[n]) { let y[i] = sum[j](x[i + j])\n y }",
        "fn f(x: f32[n]) { let y[i < n - 2] = sum[j](x[i + j])\n y }",
        "fn f(x: f32[n]) { let y[i, i] = x[i]\n y }",
        "fn f(x: f32[b, n], len: i64[b]) { let y[i] = sum[j < len[i]](x[i, j])\n y }",
        "fn f(x: f32[b, n], len: i64[b]) { let y[i] = sum[j < min(len[i], n)](x[i, j])\n y }",
        "fn f(x: f32[b, n], len: i64[b]) { let y[i] = mean[j < n](if j < len[i] then x[i, j] else 0)\n y }",
    ]));
}

#[test]
fn every_access_is_inside() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32[n]) { let y[i] = x[i - 1]\n y }",
        "fn f(x: f32[n]) { let y[i < n] = x[i + 1]\n y }",
        "fn f(x: f32[3]) = x[3]",
        "fn f(x: f32[n]) = x[0]",
        "fn f(x: f32[n], k: i64) = x[k]",
        "fn f(x: f32[n], k: i64) { let y[i < k] = x[i]\n y }",
        "fn f(x: f32[n], k: i32[m]) = x[k]",
        "fn f(x: f32[n]) { let y[i < n] = if i > 0 && i < n - 1 then x[i - 1] + x[i + 1] else 0\n y }",
        "fn f(x: f32[n]) { let y[i < n] = if i == 0 || i == n - 1 then 0 else x[i - 1] + x[i + 1]\n y }",
        "fn f(x: f32[n]) { let y[i < n] = if !(i < 1) then x[i - 1] else 0\n y }",
        "fn f(x: f32[n]) { let y[i < n] = x[clamp(i - 1, 0, n - 1)]\n y }",
        "fn f(x: f32[n]) { let y[i < 2 * n] = x[i / 2]\n y }",
        "fn f(x: f32[n]) { let y[i < n] = x[i % 3]\n y }",
        "fn f(x: f32[3], y: f32[n]) { let z[i] = y[i] * x[i % 3]\n z }",
        "fn f(x: f32[n]) { let y[i < n] = if i > 0 then x[i - 2] else 0\n y }",
        "fn f(x: f32[n], k: i64) { let y[i < n] = if i >= k && k >= 0 then x[i - k] else 0\n y }",
        "fn f(x: f32[n]) { let c[i < n] = sum[k <= i](x[k + 1])\n c }",
        "fn f(x: f32[n]) = x[1:n - 1] - x[:n - 2]",
        "fn f(x: f32[n]) = x[2:1]",
        "fn f(x: f32[n], m: i64) = x[:m]",
        "fn f(x: f32[n]) = x[::-1]",
        "fn f(x: f32[n]) = x[0.5]",
        "fn f(x: f32[n]) = x[0, 1]",
        "fn f(x: f32) = x[0]",
        "fn f(x: f32[n, m], i: i32[k], j: i32[k]) = x[i, j]",
        "fn f(x: f32[n, m], i: i32[k]) = x[i, 1:]",
        "fn f(x: f32[n], y: f32[m]) { let p = x[1:] + y\n let q[i] = p[i] + y[i]\n q }",
        "fn f(x: f32[n]) { let p[i < n] = i > 0 && x[i - 1] > 0\n p }",
        "fn f(x: f32[n, n], p: i32[n]) { let y[i] = x[p[i], i]\n y }",
        "fn f(x: f32[n], y: f32[m]) { let z[i] = x[i] + y[i]\n let w[i] = z[i] * y[m - 1 - i]\n w }",
        "fn f(x: f32[n], y: f32[m]) { let z[i] = x[i] + y[i]\n let w[i < n] = z[i] * y[m - 2 - i]\n w }",
        "fn f(x: f32[n]) { let y[i < 100] = if 2 * i <= 2 * n - 1 then x[i] else 0\n y }",
        "fn f(x: f32[n]) { let d[j < 0 - n] = 7\n x[d] }",
        "fn f(x: f32[n]) { let d[j < 0] = 1\n x[clamp(d, 1, 0 - 1)] }",
        "fn f(x: f32[n], d: f32[n]) { let y[j] = if d[j] > 0 then x[0] else 0\n y }",
        "fn f(x: f32[n], d: f32[n]) { let y[j < n] = if j > 2 then x[0] else d[j]\n y }",
        "fn f(x: f32[n]) { let y[i < 100] = if 2 * i <= 2 * n then x[i] else 0\n y }",
    ]));
}

#[test]
fn functions_are_inlined_lifted_and_applied_to_rows() {
    insta::assert_snapshot!(outcomes(&[
        "fn sq(x: f32) = x * x\nfn f(x: f32[n, m]) = sq(x)",
        "fn norm(x: f32[m]) = x / sqrt(sum(x * x))\nfn f(x: f32[n, m]) { let y[i] = norm(x[i])\n y }",
        "fn norm(x: f32[m]) = x / sqrt(sum(x * x))\nfn f(x: f32[n, m]) = norm(x)",
        "fn both(x: f32[n]) = (min(x), max(x))\nfn f(x: f32[n]) { let (lo, hi) = both(x)\n (x - lo) / (hi - lo) }",
        "fn both(x: f32[n]) = (min(x), max(x))\nfn f(x: f32[n]) = both(x) + 1",
        "fn both(x: f32[n]) = (min(x), max(x))\nfn f(x: f32[n]) { let (a, b, c) = both(x)\n a }",
        "fn f(x: f32) = f(x)",
        "fn f(x: f32) = g(x)\nfn g(x: f32) = f(x)",
        "fn g(x: f32, y: f32) = x\nfn f(x: f32) = g(x)",
        "fn g(x: f32[n], y: f32[n]) = x + y\nfn f(x: f32[3], y: f32[4]) = g(x, y)",
        "fn at(x: f32[n], i: i64) = x[i]\nfn f(x: f32[n]) { let y[i] = at(x, i)\n y }",
        "fn pad(x: f32[n], k: i64) { let y[i < n + k] = if i < n then x[i] else 0\n y }\nfn f(x: f32[n]) = pad(x, 2)",
        "fn pad(x: f32[n], k: i64) { let y[i < n + k] = if i < n then x[i] else 0\n y }\nfn f(x: f32[n]) { let y[i < 3] = sum(pad(x, i))\n y }",
        "fn sum(x: f32) = x + 1\nfn f(x: f32[n]) = sum(x)",
        "fn f(x: f32[n]) { let exp = x * 2\n exp }",
        "fn f(x: f32[n]) -> (s: f32, f32[n]) = (sum(x), x)",
        "fn f(x: f32, x: f32) = x",
        "fn f(x: f32) = y",
        "fn f(value: f32) = valeu",
        "fn f(x: f32) = sgmoid(x)",
        "fn f(x: f32) = exp",
        "fn f(x: f32[n]) = softmax[i](x[i])",
        "fn f(x: f32[n]) = sum(x, axis = 1) + sum(x, 1)",
        "fn f(x: f32[n]) = sum(x, dim = 0)",
        "@kernels(0)\nfn f(x: f32) = x",
        "@inline\nfn f(x: f32) = x",
        "fn f(x: f32) = x\nfn f(y: f32) = y",
        "fn f(x: f32[n]) = argmax(x)",
        "fn f(x: f32[n]) = argmax[k < 0](x[k])",
    ]));
}

#[test]
fn mistakes_of_users_of_numpy_rust_and_julia() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32[n]) = sum(x) / len(x)",
        "fn f(x: f32[n]) = maximum(x, 0)",
        "fn f(x: f32[n], y: f32[n]) = cov(x, y)",
        "fn f(x: f64[n], q: f64[3]) = quantile(x, q)",
        "fn f(x: f32[n], y: f32[n]) = dot(x, y)",
        "fn f(x: i64[n]) = float(x)",
        "fn f(x: f32[n]) = softmax(x)",
        "fn f(x: f32[n]) = zeros(n)",
        "fn f(n: i64) = arange(n)",
        "fn f(x: f32[n]) = sort(x)",
        "fn f(x: f32[n]) = print(x)",
        "fn f(x: f32[n]) = logical_and(x > 0, x < 1)",
        "fn f(x: f32[n], y: f32[n]) = concatenate(x, y)",
        "fn f(x: f32[n], y: f32[n]) = concat([1, 2])",
        "fn f(x: f32[n, m]) = sum(x, axis = -1)",
        "fn f(x: f32[n, m]) = sum(x, axis = 1, keepdims = true)",
        "fn f(x: f32[n, m]) = sum(x, dim = 0)",
        "fn f(x: f32[n, m]) = mean(x, 0)",
        "fn f(x: f32[n, m]) = reshape(x, -1)",
        "fn f(x: f32[n]) = x[-1]",
        "fn f(x: f32[n]) = x[-2:]",
        "fn f(x: f32[n]) = x == True",
        "fn f(x: f32[n]) = None",
        "fn f(x: f32[n]) = NaN * x",
        "fn f(x: f32[N]) = x * f32(n)",
        "fn f(x: f32[n, m]) = x[i, j]",
        "fn f(x: f32[n]) { let y[i] = y[i - 1] + x[i]\n y }",
        "fn f(x: f32[n], y: f64[n]) = x + y",
        "fn f(x: f32[n]) { let y[i] = x[i] * i\n y }",
        "fn f(x: f32[n], s: f32) = x[s]",
        "fn f(x: f32[n]) = sum(x)[0]",
        "fn f(x: f32[n, m]) -> f32[n] = x",
    ]));
}

#[test]
fn independent_errors_are_all_reported() {
    insta::assert_snapshot!(outcome(
        "fn f(x: f32[n]) {\n let a = x + true\n let b = y\n let c = a + b\n exp(c) + iota }\nfn g() = nothing(1)"
    ));
}
