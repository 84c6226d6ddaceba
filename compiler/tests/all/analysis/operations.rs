//! Counts of operations, compared with counts by hand.

use interp::scalar::ARITHMETIC;
use ir::nest::Program;

use super::{lowered, program, shown};
use compiler::analysis::traffic::{self, Count};

/// The operations of all kernels of a program, as a formula.
fn operations(program: &Program) -> String {
    let counts = program.kernels.values().map(|kernel| traffic::polynomials(program, kernel).operations);
    let sum = counts.reduce(|a, b| a.plus(&b)).expect("a kernel");
    let most = if sum.exact { "" } else { "at most " };
    sum.elements.map_or("as the data say".to_owned(), |n| format!("{most}{}", shown(program, &n)))
}

/// The same, as a number for given sizes.
fn at(program: &Program, sizes: &[i64]) -> Count<u64> {
    let counts = traffic::predict(program, &|symbol| sizes[symbol.as_u32() as usize], &ARITHMETIC);
    let counts = counts.into_iter().map(|counts| counts.operations);
    let plus = |a: Count<u64>, b: Count<u64>| Count {
        elements: a.elements.zip(b.elements).map(|(a, b)| a + b),
        exact: a.exact && b.exact,
    };
    counts.reduce(plus).expect("a kernel")
}

#[test]
fn as_one_counts_by_hand() {
    let rows = [
        ("fn f(x: f32[n]) = max(x, 0)", "n"),
        ("fn f(x: f32[n]) = relu(x)", "n"),
        ("fn f(x: i32[n]) = relu(x)", "n"),
        ("fn f(x: f32[n], b: f32[n]) = relu(x * 2 + b)", "3 * n"),
        ("fn f(x: f32[n]) = clamp(x, -1, 1)", "2 * n"),
        ("fn f(x: f32[n]) = rsqrt(x)", "2 * n"),
        ("fn f(x: f32[n]) = fma(x, 2, 1)", "2 * n"),
        ("fn f(x: u64[n]) = (x * 3) % 7", "2 * n"),
        ("fn f(x: f32[n]) = f64(x)", "n"),
        ("fn f(x: f32[n]) = if x > 0 then x else 0", "n"),
        ("fn f(x: f32[n]) = if x > 0 then x * 2 else x + 1", "3 * n"),
        ("fn f(x: f32[n]) = (sum(x * x), max(x))", "3 * n"),
        ("fn f(x: f32[n]) = argmax(x)", "n"),
        ("fn f(x: f32[n]) {\n let c[i] = sum[k <= i](x[k])\n c\n}", "n"),
        ("fn f(x: f32[n, k], w: f32[k, m]) = x @ w", "2 * n * k * m"),
        ("fn f(x: f32[n, k], w: f32[k, m]) = relu(x @ (w * 2))", "2 * n * k * m + n * m + k * m"),
        ("fn f(x: f32[n]) {\n let y[i] = x[i + 1] - x[i]\n y\n}", "n - 1"),
        ("fn f(x: f32[n, m]) = transpose(x)", "0"),
    ];
    for (source, expected) in rows {
        let program = lowered(source);
        assert_eq!(operations(&program), expected, "{source}\n{program}");
        let sizes = [3, 4, 5];
        let number = at(&program, &sizes);
        let value = |symbol: ir::SymbolId| sizes[symbol.as_u32() as usize];
        let counts = program.kernels.values().map(|kernel| traffic::polynomials(&program, kernel).operations);
        let sum: i64 = counts.map(|count| count.elements.expect("a formula").eval(&value).expect("a value")).sum();
        assert_eq!(number, Count { elements: u64::try_from(sum).ok(), exact: true }, "{source}\n{program}");
    }
}

/// A sum by group compares each key with each group.
#[test]
fn choices_cost_what_they_compare() {
    let grouped = lowered(
        "fn f(key: i64[n], v: f32[n], g: i64) {\n let s[k < g] = sum[i](if key[i] == k then v[i] else 0)\n s\n}",
    );
    assert_eq!(operations(&grouped), "2 * g * n");
}

/// Two branches that cost the same do not make the branches inside them certain.
#[test]
fn a_choice_inside_equal_branches_stays_one() {
    let body = |op: &str| {
        format!(
            "v3 = lt v1, v2 v4 = if v3 {{ v5 = load %x[i] v6 = mul v5, v5 yield v6 }} else {{ v7 = load %x[i] yield v7 }}
             v8 = {op} v4, v4 yield v8"
        )
    };
    let nested = program(&format!(
        "program @p {{ symbol n = dim 0 of input 0 input 0 %x: f32[n] output 0 %y: f32[n]
         kernel @k {{ parallel i < n {{
            v0 = load %x[i] v1 = affine i v2 = const i64 4 v9 = const f32 0.0 v10 = gt v0, v9
            v11 = if v10 {{ {} }} else {{ {} }}
            store %y[i], v11 }} }} }}",
        body("add"),
        body("sub")
            .replace("v3", "v13")
            .replace("v4", "v14")
            .replace("v5", "v15")
            .replace("v6", "v16")
            .replace("v7", "v17")
            .replace("v8", "v18"),
    ));
    assert_eq!(operations(&nested), "at most 4 * n");
}

#[test]
fn branches_count_where_they_run() {
    let shift = lowered("fn f(x: f32[n]) {\n let y[i < n] = if i > 0 then x[i - 1] * x[i] + 1 else x[i] * 2\n y\n}");
    // `x[i] * 2` needs no guard and counts separately; the guarded part runs where `i` is not 0.
    assert_eq!(operations(&shift), "at most 4 * n");
    assert_eq!(at(&shift, &[10]), Count { elements: Some(10 + 10 + 2 * 9), exact: true });
    let ragged = lowered("fn f(x: i32[n, m], len: i64[n]) {\n let z[i] = sum[j < len[i]](x[i, j])\n z\n}");
    assert_eq!(operations(&ragged), "as the data say");
}

/// Work on a factor of a matrix product counts once for each element of the factor, whatever is
/// fused.
#[test]
fn factors_are_packed_once() {
    let fused = program(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input %x: f32[n, m] output %y: f32[n, n]
         kernel @k { v4 = contract i < n, j < n over k < m {
           left { v0 = load %x[i, k] v1 = neg v0 yield v1 } right { v2 = load %x[j, k] yield v2 }
           epilogue { store %y[i, j], v4 } } } }",
    );
    assert_eq!(operations(&fused), "2 * n * n * m + n * m");
    assert_eq!(at(&fused, &[3, 4]), Count { elements: Some(12 + 72), exact: true });
}
