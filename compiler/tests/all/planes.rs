//! Recurrences that become loops over kernels, as IR text, and those that do not.

use compiler::check::check;
use compiler::pipeline::{Options, compile};
use ir::nest::Program;

fn unfused(source: &str) -> Program {
    let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    let checked = check(&file, "f").unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    compile(&checked, &Options::default()).unwrap().unfused
}

#[test]
fn a_step_computes_the_next_plane() {
    insta::assert_snapshot!(
        "planes",
        unfused(
            "fn f(x: f32[n, m]) {
                let rec y[t < n, j < m] = if t == 0 then x[t, j] else x[t, j] + y[t - 1, m - 1 - j]
                y[n - 1]
            }"
        )
    );
}

/// The first array has no plane 0 before the loop, and reads those that the step before computed.
#[test]
fn several_arrays_take_turns() {
    insta::assert_snapshot!(
        "planes_of_several_arrays",
        unfused(
            "fn f(a: f32[n, d]) {
                let rec z[t < n, j < d] = a[t, j] + h[t, d - 1 - j],
                        c[t <= n, j < d] = if t == 0 then 0 else z[t - 1, j] + c[t - 1, j],
                        h[t <= n, j < d] = if t == 0 then 0 else c[t, j]
                h[n]
            }"
        )
    );
}

/// Two planes are kept, the loop goes down, and nothing says that there is a plane 0.
#[test]
fn planes_go_down() {
    insta::assert_snapshot!(
        "planes_go_down",
        unfused(
            "fn f(x: f32[m], steps: i64) {
                let rec y[t <= steps, j < m] =
                    if t >= steps - 1 then x[j] else y[t + 1, m - 1 - j] - y[t + 2, j]
                y[0]
            }"
        )
    );
}

#[test]
fn other_recurrences_are_one_kernel() {
    for source in [
        "fn f(x: f32[n, m]) { let rec y[t < n, j < m] = if t == 0 then x[t, j] else y[t - 1, m - 1 - j]\n y }",
        "fn f(x: f32[n, m], k: i64) { let rec y[t < k, j < m] = if t == 0 then x[0, j] else y[t - 1, m - 1 - j]\n y[k - 1] }",
        "fn f(x: f32[n, m]) { let rec y[t < n, j < m] = if t == 0 then x[t, j] else y[t - 1, m - 1 - j]\n y[0] }",
        "fn f(x: f32[n, m]) { let rec y[t < n, j < m] = if t == 0 then x[t, j] else y[t - 1, j]\n y[n - 1] }",
        "fn f(x: f32[n, m]) { let rec y[t < n, j < m] = if t == 0 then x[t, j] else y[t / 2, m - 1 - j]\n y[n - 1] }",
        "fn f(x: f32[n, 8]) { let rec y[t < n, j < 8] = if t == 0 then x[t, j] else y[t - 1, 7 - j]\n y[n - 1] }",
        "fn f(x: f32[n, m]) { let rec y[t < n, j < m] = if t < 9 then x[t, j] else y[t - 9, m - 1 - j]\n y[n - 1] }",
        "fn f(x: f32[n]) { let rec y[t < n] = if t == 0 then x[t] else y[t - 1] + x[t]\n y[n - 1] }",
        "fn f(x: f32[n, m]) { let rec y[t < n, j < m] = if t == 0 then x[t, j] else sum[k < t](y[k, m - 1 - j])\n y[n - 1] }",
        "fn f(x: f32[n, m]) {
            let rec y[t < n, j < m] = if t == 0 || j == 0 then x[t, j] else y[t - 1, j] + y[t, j - 1]
            y[n - 1] }",
        "fn f(x: f32[b, n, m]) {
            let z[i < b, j < m] = last(x[i])[j]
            z }
         fn last(x: f32[n, m]) {
            let rec y[t < n, j < m] = if t == 0 then x[t, j] else y[t - 1, m - 1 - j]
            y[n - 1] }",
    ] {
        assert!(unfused(source).repeats().is_empty(), "{source}");
    }
}
