//! The inferred ends of indices, and the errors for impossible subscripts. The rows are those of
//! `proofs`.

use super::proofs::expect;

const NO_END: &str = "E0125 at `i`: nothing says where the index `i` ends; \
    help: give it a bound: `i < n`, or use it alone in a subscript: `x[i]`";
const UNDER_CONDITION: &str = "E0125 at `i`: nothing says where the index `i` ends; \
    help: an access under a condition on `i` does not end it: write `i < n`";

/// A condition on an index, unless it depends on random numbers, keeps the accesses under its `if`
/// from ending the index.
#[test]
fn an_access_under_an_if_on_an_index_does_not_end_it() {
    expect(&[
        ("fn f(x: f32[n]) { let p[i] = i > 0 && x[i - 1] > 0; p }", "bool[n + 1]"),
        ("fn f(x: f32[n]) { let y[i] = if mod(i, 2) == 0 then x[i] else 0; y }", UNDER_CONDITION),
        ("fn f(x: f32[n], s: i64) { let y[i] = if uniform(s, i) < 0.5 then x[i] else 0; y }", "f32[n]"),
        ("fn f(x: f32[n], s: i64) { let y[i] = if exp(uniform(s, i)) < 2 then x[i] else 0; y }", "f32[n]"),
        ("fn f(x: f32[n], s: i64) { let y[i] = if !(uniform(s, i) < 0.5) then x[i] else 0; y }", "f32[n]"),
        ("fn f(x: f32[n], s: i64) { let y[i] = if uniform(s, i) < 0.5 && s > 0 then x[i] else 0; y }", "f32[n]"),
        ("fn f(x: f32[n], s: i64) { let y[i] = if uniform(s, i) < 0.5 && i > 0 then x[i] else 0; y }", UNDER_CONDITION),
        ("fn f(x: f32[n], s: i64) { let y[i] = if uniform(s, i) < f32(i) then x[i] else 0; y }", UNDER_CONDITION),
    ]);
}

#[test]
fn subscripts_of_an_index_alone_come_before_those_of_several() {
    expect(&[
        (
            "fn f(x: f32[n], z: f32[m]) { let y[i] = z[i] + sum[r < 3](x[i + r]); y }",
            "f32[m] where n >= m + 2 unless m == 0",
        ),
        ("fn f(x: f32[n]) { let y[i] = sum[k <= i](x[k - i]); y }", NO_END),
        // Of equal ends, the first is named.
        (
            "fn f(x: f32[3], w: f32[3], z: f32[5]) { let y[i] = x[i] + w[i] + z[i]; y }",
            "E0115 at `i`: sizes differ: where `x` ends `i` is 3, where `z` ends `i` is 5",
        ),
    ]);
}

/// An index that another one bounds stands for its greatest value, or for 0 where it is subtracted
/// from that one.
#[test]
fn an_access_by_an_index_that_another_bounds_ends_that_one() {
    expect(&[
        ("fn f(x: f32[n]) { let y[i] = sum[k <= i](x[k]); y }", "f32[n]"),
        ("fn f(x: f32[n]) { let y[i] = sum[k <= i](x[n - 1 - k]); y }", "f32[n]"),
        ("fn f(x: f32[n]) { let y[i] = sum[k < i](x[n - 1 - k]); y }", "f32[n + 1]"),
        ("fn f(x: f32[n]) { let y[i] = sum[k <= i](x[n - 3 - 2 * k]); y }", "f32[(n - 1) / 2] where (n - 1) / 2 >= 0"),
        ("fn f(x: f32[n]) { let y[i] = sum[k <= 2 * i](x[n - 1 - k]); y }", "f32[(n + 1) / 2]"),
        ("fn f(x: f32[n]) { let y[i] = sum[k <= i, l <= k](x[n - 1 - l]); y }", "f32[n]"),
        ("fn f(x: f32[n]) { let y[i] = sum[k <= i](x[n - 1 - i - k]); y }", "f32[(n + 1) / 2]"),
        ("fn f(x: f32[n]) { let y[i] = sum[k <= i](x[i - k]); y }", "f32[n]"),
        ("fn f(x: f32[n]) { let y[i] = sum[k <= i](x[i + k]); y }", "f32[(n + 1) / 2]"),
        // The condition that the subscript is not negative would end `i` at 1, which is never
        // intended.
        ("fn f(x: f32[n]) { let y[i] = sum[k <= i](x[k - i]); y }", NO_END),
        ("fn f(x: f32[n]) { let y[i] = sum[k <= i](x[n - 1 + k - i]); y }", NO_END),
    ]);
}

#[test]
fn indices_without_ends_and_ends_that_are_no_numbers() {
    let seventeen = ('a'..='q').map(|name| format!("{name} < 1")).collect::<Vec<_>>().join(", ");
    expect(&[
        (
            "fn f() = sum[k](1.0)",
            "E0125 at `k`: nothing says where the index `k` ends; \
             help: give it a bound: `k < n`, or use it alone in a subscript: `x[k]`",
        ),
        (
            "fn f() { let y[i] = absent + 1; y }",
            "E0101 at `absent`: there is no `absent` here; help: names come from parameters, sizes, `let` and indices",
        ),
        (
            "fn f(x: f32[n], s: f32) { let y[i < s] = x[i]; y }",
            "E0111 at `s`: the bound of an index is an integer, this is `f32`",
        ),
        (
            "fn f(x: f32[n], k: i64[m]) { let y[i < k] = x[i]; y }",
            "E0111 at `k`: the bound of an index is an integer, this is `i64[m]`",
        ),
        (&format!("fn f() {{ let y[{seventeen}] = 1.0; y }}"), "E0134 at `y`: an array of 17 axes: the limit is 16"),
    ]);
}

#[test]
fn subscripts_of_numpy() {
    expect(&[
        (
            "fn f(x: f32[n]) = x[x > 0]",
            "E0123 at `x > 0`: a subscript is an integer, this is `bool`; help: there are no masks: write `if` in index notation",
        ),
        (
            "fn f(x: f32[n, m]) = x[None, :]",
            "E0122 at `None`: a subscript makes no new axis; \
             help: write `reshape(x, 1, n, m)`, or name the indices: `let y[i, j] = ...`",
        ),
        (
            "fn f(x: f32[n]) = x[:, newaxis]",
            "E0122 at `newaxis`: a subscript makes no new axis; \
             help: write `reshape(x, n, 1)`, or name the indices: `let y[i, j] = ...`",
        ),
        (
            "fn f(x: f32[n]) = x[None, 1:]",
            "E0122 at `None`: a subscript makes no new axis; help: name the indices, `let y[i, j] = ...`, or use `reshape`",
        ),
        (
            "fn f(x: f32[n]) = x[::0]",
            "E0127 at `::0`: the step of a slice is a positive number; \
             help: backwards, in index notation: `let y[i < n] = x[n - 1 - i]`",
        ),
    ]);
}

/// An index that bounds another from below, which then stands for it.
#[test]
fn an_access_by_an_index_that_another_bounds_from_below_ends_that_one() {
    expect(&[
        ("fn f(x: f32[n]) { let y[i] = max[i <= k < i + 3](x[k]); y }", "f32[n - 2] where n >= 2"),
        ("fn f(x: f32[n], w: f32[n]) { let y[i] = sum[i <= k < n](x[k] * w[i]); y }", "f32[n]"),
        (
            "fn f(x: f32[n], w: f32[m]) where n == m { let y[i] = sum[i <= k < n](x[k] * w[i]); y }",
            "f32[n] where n == m",
        ),
        ("fn f(x: f32[n]) { let y[i] = sum[i <= k < n](x[k]); y }", "f32[n]"),
        ("fn f(x: f32[n]) { let y[i] = sum[i < k < n](x[k]); y }", "f32[n]"),
        ("fn f(x: f32[n]) { let y[i] = sum[i <= k < n where k % 2 == 0](x[k]); y }", "f32[n]"),
        ("fn f(x: f32[n]) = sum[1 <= k < n](x[k - 1])", "f32"),
        (
            "fn f(x: f32[n]) = sum[1 <= k < n](x[k + 1])",
            "E0124 at `k + 1`: the access is outside: at k = n - 1 the subscript is n, axis 0 of `x` has n elements; \
             help: end the index earlier, or guard the access: `if ... then x[...] else 0`",
        ),
        (
            "fn f(x: f32[n]) = sum[1 <= k < n where k > 2](x[k + 1])",
            "E0124 at `k + 1`: the access is outside at k = n - 1, in spite of the condition: axis 0 of `x` has n elements; \
             help: narrow the condition around it",
        ),
    ]);
}
