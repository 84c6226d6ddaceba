//! The best partitions of small programs, and how far plans are from them.

use compiler::check::check;
use compiler::fusion::{Best, best};
use compiler::lower::lower;
use compiler::pipeline::{Options, compile};
use ir::decision::Passes;

fn found(source: &str, options: &Options) -> Option<Best> {
    let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    let checked = check(&file, "f").unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    best(&lower(&checked, None).unwrap(), options)
}

/// A program, the number of operations in each kernel of its best partition, and the bytes that
/// this moves with each size at 10.
#[test]
fn the_best_partitions() {
    let rows: &[(&str, &[usize], i64)] = &[
        ("fn f(x: f32[n]) = relu(x * 2 + 1)", &[3], 80),
        // A row is read again while it is in the cache; a vector is read again from memory, except
        // for its sum.
        ("fn f(x: f32[n, m]) {\n let e[i] = exp(x[i] - max(x[i]))\n let y[i] = e[i] / sum(e[i])\n y }", &[5], 800),
        ("fn f(x: f32[n]) {\n let e[i] = exp(x[i] - max(x))\n let y[i] = e[i] / sum(e)\n y }", &[1, 3, 1], 216),
        ("fn f(y: f32[n, m]) {\n let w = abs(transpose(y) @ y)\n (w, sum(w)) }", &[2, 1], 1204),
        ("fn f() = 1", &[1], 8),
    ];
    for (source, kernels, bytes) in rows {
        let best = found(source, &Options::default()).unwrap();
        assert_eq!(best.kernels.iter().map(Vec::len).collect::<Vec<_>>(), *kernels, "{source}");
        assert_eq!(best.bytes.eval(&|_| 10), Ok(*bytes), "{source}: {:?}", best.bytes);
        assert_eq!((best.gap, best.time), (1.0, 1.0), "{source}");
    }
}

#[test]
fn plans_of_fewer_passes_are_far_from_it() {
    let options = Options { fuse: Passes::NONE, ..Options::default() };
    let best = found("fn f(x: f32[n]) = relu(x * 2 + 1)", &options).unwrap();
    assert_eq!((best.kernels.len(), best.bytes.eval(&|_| 10), best.gap), (1, Ok(80), 3.0));
}

#[test]
fn larger_programs_have_none() {
    let sum = |terms: usize| format!("fn f(x: f32[n]) = {}", vec!["x"; terms].join(" + "));
    assert!(found(&sum(15), &Options::default()).is_some());
    assert!(found(&sum(16), &Options::default()).is_none());
}

/// However soon merges end, no two kernels of a plan have one name.
#[test]
fn kernels_of_a_plan_have_names_of_their_own() {
    let source = "
fn g(x: f64) {
    let (a, b)[i < 3] = if x == 1 then (1, x) else (1, 1)
    b[clamp(a[1], 1, 1)]
}
fn f(z: f64[m, n, k]) {
    let a[i, j, l] = mean[r <= j where !z[i, r, l] <= 1](z)
    g(g(a))
}";
    let file = grammar::parse(source).unwrap();
    let checked = check(&file, "f").unwrap();
    for fuel in 0..24 {
        for fuse in ["nest", "all"] {
            let options = Options { fuse: fuse.parse().unwrap(), fuel: Some(fuel), ..Options::default() };
            compile(&checked, &options).unwrap_or_else(|error| panic!("{fuse}, {fuel}: {error}"));
        }
    }
}
