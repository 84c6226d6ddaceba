//! The number of kernels that programs become, in any style of writing. A row is a program and that
//! number.

use std::fmt::Write;

use compiler::check::check;
use compiler::pipeline::{Compiled, Options, compile};
use compiler::plan::{peak::Peak, plan};
use ir::Size;
use ir::decision::{Outcome, Reason};
use ir::nest::{Program, Role};

fn compiled(source: &str) -> Program {
    both(source).program
}

fn both(source: &str) -> Compiled {
    let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    let checked = check(&file, "f").unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    compile(&checked, &Options::default()).unwrap()
}

/// Compares the number of kernels of programs with the expected one, for all rows at once.
fn expect(rows: &[(&str, usize)]) {
    let mut wrong = String::new();
    for (source, expected) in rows {
        let program = compiled(source);
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

/// The result of a product or a reduction is stored where a reshape or merged axes put it.
#[test]
fn merged_axes_are_stored_in_place() {
    expect(&[
        ("fn f(q: f32[n, k], x: f32[k, m]) = reshape(q @ x, n * m)", 1),
        ("fn f(q: f32[n, k], x: f32[k, m], z: f32[n * m]) = relu(reshape(q @ x, n * m) + z)", 1),
        (
            "fn f(a: f32[b, h, n, k], x: f32[b, h, k, 8]) {
                let c = a @ x
                let y[i, j, l < h * 8] = c[i, l / 8, j, l % 8]
                y
             }",
            1,
        ),
        ("fn f(x: f32[n, m, k], z: f32[n * m]) = sqrt(reshape(sum(x, axis = 2), n * m)) + z", 1),
        (
            "fn f(x: f32[n, m, k]) {
                let e = exp(x)
                let p[i, j, l] = e[i, j, l] / sum(e[i, j])
                let y[i, l < m * k] = p[i, l / k, l % k]
                y
             }",
            1,
        ),
    ]);
}

/// An axis that one kernel stores is loaded by another as several axes, by the digits of the
/// position.
#[test]
fn split_axes_are_computed_in_place() {
    expect(&[
        ("fn f(x: f32[n, k], y: f32[k, 64]) = reshape(x @ y, n, 8, 8)", 1),
        ("fn f(x: f32[n, 64, k]) = reshape(sum(x, axis = 2), n, 8, 8)", 1),
        ("fn f(x: f32[n, k], y: f32[k, h * d], z: f32[h, d]) = reshape(x @ y, n, h, d) + z", 1),
        (
            "fn f(x: f32[b, t, k], w: f32[k, 64]) {
                let p = x @ w
                let q[b, h < 8, t, d < 8] = p[b, t, h * 8 + d]
                q
             }",
            1,
        ),
        // Only some of the positions, or some of them twice, does not count.
        (
            "fn f(x: f32[b, t, k], w: f32[k, 64]) {
                let p = x @ w
                let q[b, h < 7, t, d < 8] = p[b, t, h * 8 + d]
                q
             }",
            2,
        ),
        (
            "fn f(x: f32[b, t, k], w: f32[k, 64]) {
                let p = x @ w
                let q[b, h < 8, t, d < 8] = p[b, t, h * 7 + d]
                q
             }",
            2,
        ),
        (
            "fn f(x: f32[2, 3, 4, 5]) {
                let f[i < 6, j < 20] = x[i / 3, i % 3, j / 5, j % 5]
                let m[i] = max(f[i])
                let y[i < 2, j < 3, k < 4, l < 5] = f[i * 3 + j, k * 5 + l] - m[i * 3 + j]
                y
             }",
            1,
        ),
        (
            "fn f(x: f32[a, b, c, d], g: f32[c * d]) {
                let f[i < a * b, j < c * d] = x[i / b, i % b, j / d, j % d]
                let m[i] = mean(f[i])
                let v[i, j] = f[i, j] - m[i]
                let s[i] = sqrt(mean(v[i] * v[i]) + 0.01)
                let z[i, j] = v[i, j] / s[i] * g[j]
                let y[i < a, j < b, k < c, l < d] = z[i * b + j, k * d + l]
                y
             }",
            1,
        ),
        (
            "fn f(x: f32[n, m]) {
                let (u, w) = (exp(x), x * x)
                let a = sum(reshape(u, n * m))
                let b = sum(w)
                a / b
             }",
            1,
        ),
    ]);
}

/// A key that several heads share is read in place.
#[test]
fn repeated_heads_are_read_in_place() {
    expect(&[
        (
            "fn f(q: f32[2, 9, 4, 8], x: f32[2, 3, 6, 8]) {
                let y[i, j, k, l] = sum[r](q[i, j, k, r] * x[i, j / 3, l, r])
                y
             }",
            1,
        ),
        (
            "fn f(q: f32[2, 9, 4, 8], x: f32[2, 3, 6, 8]) {
                let y[i, j, k, l] = sum[r](q[i, j, k, r] * (x[i, j / 3, l, r] * 0.5))
                y
             }",
            1,
        ),
    ]);
}

/// A result is not stored a second time just to be scaled for a product.
#[test]
fn factors_are_scaled_as_they_are_read() {
    for x in ["x: f64[n]", "x: f64[n, m]"] {
        let source = format!(
            "fn f(A: f64[n, n], u: f64[n], v: f64[n], {x}, alpha: f64) {{
                let a[i, j] = A[i, j] + u[i] * v[j]
                (a, alpha * a @ x)
             }}"
        );
        let program = compiled(&source);
        assert_eq!(program.kernels.len(), 2, "{program}");
        assert!(program.buffers.values().all(|buffer| buffer.role != Role::Temp), "{program}");
    }
}

/// Loops are not turned inside out for the sake of a small array, because the data of an iteration
/// would no longer fit into a cache.
#[test]
fn rows_stay_rows() {
    let source = "fn f(m: f32[s, t], x: f32[b, s, t]) {
        let on[k] = max(m[k]) > 0
        let e[i, k] = exp(x[i, k] - max(x[i, k]))
        let y[i, k, l] = if on[k] then e[i, k, l] / sum(e[i, k]) else 0
        y
    }";
    let program = compiled(source);
    let scratch: Vec<_> = program.buffers.values().filter(|buffer| buffer.role == Role::Scratch).collect();
    assert_eq!(program.kernels.len(), 2, "{program}");
    assert!(scratch.iter().all(|buffer| buffer.shape.len() == 1), "{program}");
}

/// Three rows are too few for all cores. The expensive elementwise work gets a loop of its own with
/// enough iterations, unless the rows are so short that one core finishes before the others start.
/// With more rows everything is one kernel.
#[test]
fn no_loop_has_fewer_iterations_than_cores_without_need() {
    let softmax = |rows: &str, columns: &str| {
        format!(
            "fn f(x: f32[{rows}, {columns}]) {{
               let e[i] = exp(x[i] - max(x[i]))
               let y[i] = e[i] / sum(e[i])
               y }}"
        )
    };
    let [few, short, many, some] =
        [("3", "m"), ("3", "100"), ("n", "m"), ("64", "m")].map(|(rows, columns)| softmax(rows, columns));
    expect(&[(&few, 4), (&short, 1), (&many, 1), (&some, 1)]);
    // The five indices of an image in three parts: not only the outermost one is shared.
    expect(&[(
        "fn f(x: f32[3, n, m]) {
           let a[g, i, j] = exp(x[g, i, j])
           let b[g] = max[i, j](a[g, i, j])
           let y[g, i, j] = a[g, i, j] / b[g]
           y }",
        3,
    )]);
}

/// If one pass takes operations from another that could make better use of them, the passes run in
/// another order.
#[test]
fn the_cheapest_order_of_passes_is_taken() {
    expect(&[
        (
            "fn f(q: f32[2, 4, 8], x: f32[2, 4, 8]) {
               let a = q * 0.5
               let b = x * 0.5
               let y[j, k, l] = sum[r](a[j, k, r] * b[j, l, r])
               y }",
            1,
        ),
        ("fn f(y: f32[n, m]) { let w = abs(transpose(y) @ y)\n (w, sum(w)) }", 2),
    ]);
}

/// Places where nothing crosses are not better for a cut than none: here all arrays are empty.
#[test]
fn small_programs_are_not_cut() {
    let source = "fn f(x: f32[a, b, 0]) = sum[l < a * b](sum[k](x[l / b, l % b, k])) + sum(x * x)";
    for decision in both(source).decisions {
        assert!(!matches!(decision.outcome, Outcome::Refused(Reason::Cut { .. })), "{decision:?}");
    }
}

/// A program that is too large for a kernel is cut between two steps, not across all of them.
#[test]
fn steps_are_cut_where_little_crosses() {
    let steps = |count: usize| {
        let mut text = String::from(
            "fn step(a: f32, b: f32, n: i32, x: f32, y: f32) {
               let inside = a * a + b * b <= 4
               (if inside then a * a - b * b + x else a, if inside then 2 * a * b + y else b, if inside then n + 1 else n) }
             fn f(x: f32[h, w], y: f32[h, w]) {
               let (a0, b0, n0) = (x * 0, y * 0, i32(x * 0))\n",
        );
        for k in 0..count {
            writeln!(text, "let (a{0}, b{0}, n{0}) = step(a{k}, b{k}, n{k}, x, y)", k + 1).unwrap();
        }
        text + &format!("n{count} }}")
    };
    for (count, kernels) in [(4, 1), (64, 2), (256, 9)] {
        let Compiled { mut unfused, program, .. } = both(&steps(count));
        let at = |program: &Program| Peak::of(program).at(&|size: &Size| size.eval(&|_| 1000).unwrap(), 2);
        assert_eq!(program.kernels.len(), kernels);
        plan(&mut unfused);
        assert!(at(&program) <= at(&unfused).min(20_000_000), "{count} steps: {}", at(&program));
    }
}

/// Two passes over columns would compute less, because each thread keeps the result of the first.
/// But they would read memory in narrow strips.
#[test]
fn a_blur_runs_along_its_rows() {
    let program = compiled(
        "fn f(x: f32[n, m]) { let across = x[:, :m - 2] + x[:, 1:m - 1] + x[:, 2:]
           across[:n - 2] + across[1:n - 1] + across[2:] }",
    );
    assert_eq!(program.kernels.len(), 1, "{program}");
    assert!(program.buffers.values().all(|buffer| buffer.role != Role::Scratch), "{program}");
}
