//! How many kernels programs become, whoever spells them. A row is a program and the number of its kernels.

use std::fmt::Write;

use compiler::check::check;
use compiler::pipeline::{Options, compile};

/// Compares the number of kernels of programs with what it is to be, all at once.
fn expect(rows: &[(&str, usize)]) {
    let mut wrong = String::new();
    for (source, expected) in rows {
        let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
        let checked = check(&file, "f").unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
        let program = compile(&checked, &Options::default()).unwrap().program;
        if program.kernels.len() != *expected {
            writeln!(wrong, "{source}\n    expected {expected}, got {program}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn axes_of_one_are_no_loops() {
    expect(&[
        ("fn f(q: f32[1, n, k], x: f32[1, k, m]) = q @ x", 1),
        ("fn f(q: f32[1, n, k], x: f32[1, k, m]) { let y[i, j, l] = sum[r](q[i, j, r] * x[i, r, l])\n y }", 1),
        ("fn f(q: f32[1, n, k], x: f32[1, k, m]) { let y[i < 1, j, l] = sum[r](q[0, j, r] * x[0, r, l])\n y }", 1),
        ("fn f(q: f32[n, k], x: f32[k, m]) = reshape(q @ x, 1, n, m)", 1),
        ("fn f(x: f32[n, m]) = reshape(mean(x), 1, 1)", 1),
        ("fn f(x: f32[n, m]) { let y[i < 1, j < 1] = sqrt(sum[r, s](x[r, s] * x[r, s]))\n y }", 1),
        ("fn f(x: f32[n]) { let e[j] = exp(x[j] - max(x))\n let y[j] = e[j] / sum(e)\n y }", 3),
        (
            "fn f(x: f32[1, n]) { let e[i < 1, j] = exp(x[0, j] - max(x[0]))\n let y[i < 1, j] = e[0, j] / sum(e[0])\n y }",
            3,
        ),
        ("fn f(x: f32[1, n]) { let e[i, j] = exp(x[i, j] - max(x[i]))\n let y[i, j] = e[i, j] / sum(e[i])\n y }", 3),
    ]);
}

#[test]
fn places_are_counted_by_the_range_of_subscripts() {
    expect(&[
        (
            "fn f(x: f32[2160], z: f32[6, 360]) {
               let a[i] = log(sum[r < 8](x[i] + f32(r)))
               let y[j < 6, l < 360] = a[360 * j + l] + z[j, l]
               y }",
            1,
        ),
        (
            "fn f(x: f32[2160], z: f32[6, 360]) {
               let a[i] = log(sum[r < 8](x[i] + f32(r)))
               let y[j < 6, k < 18, l < 20] = a[360 * j + 20 * k + l] + z[j, 20 * k + l]
               y }",
            1,
        ),
    ]);
}
