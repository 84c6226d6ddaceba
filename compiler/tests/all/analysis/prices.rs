//! Bytes and prices.

use ir::Size;
use ir::nest::Program;

use super::{lowered, program, shown};
use compiler::analysis::cost::{self, Machine, Price};
use compiler::analysis::footprint;
use compiler::analysis::work::Functions;

/// The bytes that all kernels move.
fn bytes(program: &Program) -> String {
    let moved = program.kernels.values().flat_map(|kernel| footprint::symbolic(program, kernel));
    shown(program, &moved.fold(Size::default(), |sum, m| &sum + &m.bytes))
}

fn prices(program: &Program) -> Vec<Price> {
    let functions = Functions::of(program);
    program.kernels.values().map(|kernel| cost::nominally(program, &functions, kernel, |_| false)).collect()
}

/// A program of a matrix `x` and one kernel, with the other buffers that it needs.
fn matrix(buffers: &str, body: &str) -> Program {
    program(&format!(
        "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input %x: f32[n, m] {buffers}
         kernel @k {{ {body} }} }}"
    ))
}

#[test]
fn chains() {
    let unfused = lowered("fn f(x: f32[n], bias: f32[n]) = relu(x * 2 + bias)");
    assert_eq!(bytes(&unfused), "28 * n");
    let fused = program(
        "program @f { symbol n = dim 0 of input 0 input %x: f32[n] input %bias: f32[n] output %out: f32[n]
         kernel @out { parallel i < n {
           v0 = load %x[i] v1 = const f32 2.0 v2 = mul v0, v1 v3 = load %bias[i] v4 = add v2, v3
           v5 = const f32 0.0 v6 = max v4, v5
           store %out[i], v6
         } } }",
    );
    assert_eq!(bytes(&fused), "12 * n");
    let price = &prices(&fused)[0];
    assert_eq!((price.memory, price.cache), (12.0 * 1024.0, 0.0));
    let sum = |program: &Program| prices(program).iter().map(|p| p.time).sum::<f64>();
    assert!(sum(&fused) * 2.5 < sum(&unfused));
}

#[test]
fn neighbours_are_read_once() {
    let blur = lowered("fn f(x: f32[n, m]) {\n let y[i, j] = sum[r < 3, s < 3](x[i + r, j + s]) / 9\n y\n}");
    // x, the sums written and read, and the result.
    assert_eq!(bytes(&blur), "16 * n * m - 24 * n - 24 * m + 48");
    let first = &prices(&blur)[0];
    assert_eq!(first.memory, 4.0 * (1024.0 * 1024.0 + 1022.0 * 1022.0));
    assert_eq!(first.cache, 4.0 * 10.0 * 1022.0 * 1022.0 - first.memory);
    let shift = lowered("fn f(x: f32[n]) {\n let y[i < n] = x[i] + (if i > 0 then x[i - 1] else 0)\n y\n}");
    // The shifted elements are an operation of their own.
    assert_eq!(bytes(&shift), "20 * n");
}

#[test]
fn rows_and_columns_stay_in_the_cache() {
    let rows = "parallel i < n {
        v1 = reduce j < m { v0 = load %x[i, j] } with max free v0
        v4 = reduce k < m { v2 = load %x[i, k] v3 = sub v2, v1 } with sum lanes v3
        parallel l < m { v5 = load %x[i, l] v6 = div v5, v4 store %y[i, l], v6 } }";
    let rows = matrix("output %y: f32[n, m]", rows);
    assert_eq!(bytes(&rows), "8 * n * m");
    let columns = "parallel i < m {
        v1 = reduce j < n { v0 = load %x[j, i] } with max free v0
        parallel l < n { v5 = load %x[l, i] v6 = sub v5, v1 store %y[l, i], v6 } }";
    let columns = matrix("output %y: f32[n, m]", columns);
    assert_eq!(bytes(&columns), "8 * n * m");
    // Rows that fit into no cache are read three times.
    let long = cost::given(|symbol| if symbol.as_u32() == 0 { 8 } else { 1 << 20 });
    let price = cost::price(&rows, rows.kernels.values().next().unwrap(), &long, &Machine::NOMINAL);
    assert_eq!(price.memory, 4.0 * 4.0 * f64::from(8 << 20));
}

#[test]
fn loops_that_could_run_together_read_once() {
    let both = matrix(
        "output %r: f32[n] output %c: f32[m]",
        "parallel i < n { v1 = reduce j < m { v0 = load %x[i, j] } with sum lanes v0 store %r[i], v1 }
         parallel k < m { v3 = reduce l < n { v2 = load %x[l, k] } with sum blocks v2 store %c[k], v3 }",
    );
    assert_eq!(bytes(&both), "4 * n + 4 * n * m + 4 * m");
    let apart = matrix(
        "output %y: f32[n, m]",
        "v1 = reduce i < n, j < m { v0 = load %x[i, j] } with sum lanes v0
         parallel k < n, l < m { v2 = load %x[k, l] v3 = div v2, v1 store %y[k, l], v3 }",
    );
    assert_eq!(bytes(&apart), "12 * n * m");
}

#[test]
fn scratch_is_cache_traffic() {
    let text = matrix(
        "output %y: f32[n, m] scratch %e: f32[m]",
        "parallel i < n {
           v2 = reduce j < m { v0 = load %x[i, j] v1 = mul v0, v0 store %e[j], v1 } with sum lanes v1
           parallel k < m { v3 = load %e[k] v4 = div v3, v2 store %y[i, k], v4 } }",
    );
    assert_eq!(bytes(&text), "8 * n * m");
    assert_eq!(prices(&text)[0].cache, 8.0 * 1024.0 * 1024.0);
}

#[test]
fn contractions_touch_everything_once() {
    let product = lowered("fn f(x: f32[n, k], w: f32[k, m], bias: f32[m]) = x @ w");
    assert_eq!(bytes(&product), "4 * n * k + 4 * n * m + 4 * k * m");
}

#[test]
fn other_accesses() {
    let gather = lowered("fn f(x: f32[m], idx: i32[n], y: f32[n]) = x[idx] + y");
    assert_eq!(bytes(&gather), "4 * m + 20 * n");
    let views = lowered("fn f(x: f32[n, m]) = reshape(x, m, n) * 2");
    assert_eq!(bytes(&views), "8 * n * m");
    let scan = lowered("fn f(x: f32[n, m]) {\n let c[i, j] = sum[k <= i](x[k, j])\n c\n}");
    assert_eq!(bytes(&scan), "8 * n * m");
    let both = lowered("fn f(x: f32[n], y: f32[m]) = concat(x, y)");
    assert_eq!(bytes(&both), "8 * n + 8 * m");
    let ragged = lowered("fn f(x: i32[n, m], len: i64[n]) {\n let z[i] = sum[j < len[i]](x[i, j])\n z\n}");
    assert_eq!(bytes(&ragged), "12 * n + 4 * n * m");
    // Memory is transferred in lines: every other element costs all of them, every hundredth costs
    // 16 for each.
    let strided = lowered("fn f(x: f32[n], z: f32[n]) = (x[::2], z[::100])");
    assert_eq!(bytes(&strided), "12 * ((n + 1) / 2) + 68 * ((n + 99) / 100) - 4");
}

#[test]
fn functions_cost_what_they_hold() {
    let program = lowered("fn f(x: f32[n]) = (exp(x), x + 1)");
    let [exp, add] = prices(&program)[..] else { panic!("two kernels") };
    assert!(exp.operations > 10.0 * add.operations);
    assert!(exp.statements > 10 && add.statements < 6);
    assert!(exp.live > add.live);
    assert_eq!(add.live, 1);
    let per_element = exp.operations / 1024.0;
    assert!(!Machine::NOMINAL.is_expensive(1.0, 4.0));
    assert!(Machine::NOMINAL.is_expensive(per_element, 4.0));
}
