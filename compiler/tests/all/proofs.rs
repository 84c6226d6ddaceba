//! Which accesses are proved, which become requirements of a call, which are checked at run time,
//! and which are refused.
//!
//! A row is a program and the checker's verdict on its last function: its result; `where`, with the
//! requirements of a call; `exact`, before a size that must not wrap; `checked`, before an
//! expression that is checked at run time. If none of the three occurs, everything is proved.

use std::collections::BTreeSet;
use std::fmt::Write;

use compiler::check::{Signature, check, check_all};
use ir::checked::{Checked, Kind};
use ir::nest::{CheckKind, Purpose};
use ir::{Monoid, ReduceOp};

/// The checks that a function makes as it runs.
fn checks(checked: &Checked) -> Vec<String> {
    let mut sites = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut pending: Vec<_> = checked.results.iter().map(|(_, value)| *value).collect();
    while let Some(id) = pending.pop() {
        if !seen.insert(id) {
            continue;
        }
        let kind = &checked.exprs[id].kind;
        if let Kind::Access { at, .. } = kind {
            sites.extend(at.iter().filter_map(|s| s.check));
        }
        checked.for_each_operand(kind, |operand| pending.push(operand));
    }
    let place = |what: &CheckKind| match what {
        CheckKind::Axis { array, axis } => format!("axis {axis} of {array}"),
        CheckKind::Elements(op) => format!("elements of {op}"),
        CheckKind::Steps => "steps".to_owned(),
    };
    sites.into_iter().map(|site| place(&checked.sites[site].what)).collect()
}

fn said(source: &str) -> String {
    let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    let all = match check_all(&file) {
        Ok(all) => all,
        Err(errors) => {
            let said = errors.iter().map(|e| {
                let span = e.labels[0].span;
                let at = &source[span.start as usize..span.end as usize];
                let help = e.help.as_ref().map_or_else(String::new, |help| format!("; help: {help}"));
                format!("{} at `{at}`: {}{help}", e.code, e.message)
            });
            return said.collect::<Vec<_>>().join(" | ");
        }
    };
    let checked = all.last().unwrap();
    let signature = Signature::new(checked).to_string();
    let (_, result) = signature.split_once(") -> ").unwrap();
    let mut said = result.split_whitespace().collect::<Vec<_>>().join(" ");
    for requirement in checked.requires.iter().filter(|r| r.purpose == Purpose::Value) {
        write!(said, ", exact {}", requirement.left.display(&|s| checked.symbols[s].name.as_str())).unwrap();
    }
    for place in checks(checked) {
        write!(said, ", checked: {place}").unwrap();
    }
    said
}

/// Compares the verdicts on programs with the expected ones, for all rows at once.
pub fn expect(rows: &[(&str, &str)]) {
    let mut wrong = String::new();
    for (source, expected) in rows {
        let said = said(source);
        if said != *expected {
            writeln!(wrong, "{source}\n    expected: {expected}\n    is said:  {said}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The end of a reducer is an ordinary number. Above 2^63 it wraps to a lesser one, which
/// invalidates no proof; one that might fall below -2^63 has to be exact. A sum of few lengths is
/// small.
#[test]
fn a_proof_relies_on_ends_that_do_not_wrap_to_greater_ones() {
    expect(&[
        ("fn f(x: f32[n]) = sum[k < n - 1](if k < n then x[k] else 0)", "f32"),
        ("fn f(x: f32[n]) = sum[k < n / 2 - 1](if k < n then x[k] else 0)", "f32"),
        ("fn f(x: f32[n]) = sum[k < n * n](if k < n then x[k] else 0)", "f32"),
        ("fn f(x: f32[n], m: i64) = sum[k < m](if k < n then x[k] else 0)", "f32"),
        ("fn f(x: f32[n], m: i64) = sum[k < m + 1](if k < n then x[k] else 0)", "f32"),
        ("fn f(x: f32[n], m: i64) = sum[k < m - 1](if k < n then x[k] else 0)", "f32, exact m - 1"),
        ("fn f(x: f32[n], m: i64) = sum[k < 2 * m](if k < n then x[k] else 0)", "f32, exact 2 * m"),
        ("fn f(x: f32[n], m: i64, p: i64) = sum[k < m + p](if k < n then x[k] else 0)", "f32, exact m + p"),
        (
            "fn f(x: f32[n]) = sum[k < 1000000000000000 * n - 1](if k < n then x[k] else 0)",
            "f32, exact 1000000000000000 * n - 1",
        ),
        (
            "fn f(x: f32[n]) = sum[k < n - 1000000000000000](if k < n then x[k] else 0)",
            "f32, exact n - 1000000000000000",
        ),
        (
            "fn g(x: f32[n], y: f32[q]) = sum[k < q - 1](if k < n then x[k] else 0)
             fn f(x: f32[n], p: i64) { let y[i < p * p / 2] = 1.0; g(x, y) }",
            "f32 where (p * p) / 2 >= 0, exact (p * p) / 2 - 1",
        ),
        (
            "fn g(x: f32[n], y: f32[q], m: i64) = sum[k < m + q](if k < n then x[k] else 0)
             fn f(x: f32[n], m: i64) { let y[i < (n - 4) / 2 + 3] = 1.0; g(x, y, m) }",
            "f32, exact m + (n - 4) / 2 + 3",
        ),
        ("fn f(x: f32[n], y: f32[m]) = concat(x, y)", "f32[n + m]"),
    ]);
}

/// If a length divides the end of an index, the quotient and the remainder of the index by that
/// length are digits. By a number that may be negative, they are not.
#[test]
fn digits_of_an_index_are_inside() {
    expect(&[
        ("fn f(x: f32[n, m]) { let y[l < n * m] = x[l / m, l % m]; y }", "f32[n * m], exact n * m"),
        (
            "fn f(x: f32[n, m, 8]) { let y[l < 8 * n * m] = x[l / 8 / m, l / 8 % m, l % 8]; y }",
            "f32[8 * n * m], exact 8 * n * m",
        ),
        (
            "fn f(x: f32[n, m]) { let y[l < n * m] = x[l / n, l % n]; y }",
            "f32[n * m], exact n * m, checked: axis 0 of x, checked: axis 1 of x",
        ),
        (
            "fn f(x: f32[n, m], p: i64) { let y[l < n * p] = x[l / p, 0]; y }",
            "f32[p * n] where p * n >= 0 and m >= 1 unless p * n <= 0, checked: axis 0 of x",
        ),
    ]);
}

/// Arithmetic that is not linear, or may wrap, proves nothing, neither as a subscript nor as a
/// condition.
#[test]
fn integers_are_followed_as_far_as_they_are_exact() {
    expect(&[
        (
            "fn at(x: f32[n], k: i64) = if k >= 0 && k < n - 1 then x[k + 1] else 0\nfn f(x: f32[n], t: i64[m]) = at(x, t)",
            "f32[m]",
        ),
        (
            "fn at(x: f32[n], k: i64) = if k >= 1 && k <= n then x[k - 1] else 0\nfn f(x: f32[n], t: i64[m]) = at(x, t)",
            "f32[m]",
        ),
        (
            "fn at(x: f32[n], k: i64) = if k <= 0 && k > -n then x[-k] else 0\nfn f(x: f32[n], t: i64[m]) = at(x, t)",
            "f32[m]",
        ),
        (
            "fn at(x: f32[199], k: i64) = if k >= 0 && k < 100 then x[k * 2] else 0\nfn f(x: f32[199], t: i64[m]) = at(x, t)",
            "f32[m]",
        ),
        (
            "fn at(x: f32[199], k: i64) = if k >= 0 && k < 100 then x[2 * k] else 0\nfn f(x: f32[199], t: i64[m]) = at(x, t)",
            "f32[m]",
        ),
        (
            "fn at(x: f32[n], k: i32) = if k >= 0 && i64(k) < n then x[k] else 0\nfn f(x: f32[n], t: i32[m]) = at(x, t)",
            "f32[m]",
        ),
        // A condition that may wrap can hold where it would not for exact numbers.
        (
            "fn at(x: f32[n], k: i64) = if k >= 0 && k + 1 < n then x[k + 1] else 0\nfn f(x: f32[n], t: i64[m]) = at(x, t)",
            "f32[m], checked: axis 0 of x",
        ),
        (
            "fn at(x: f32[n], k: i64, l: i64) = if k >= 0 && l >= 0 && k + l < n then x[k + l] else 0
             fn f(x: f32[n], s: i64[m], t: i64[m]) = at(x, s, t)",
            "f32[m], checked: axis 0 of x",
        ),
        (
            "fn f(x: f32[n]) { let y[i < 100] = if 4611686018427387904 * i < n then x[i] else 0; y }",
            "f32[100], checked: axis 0 of x",
        ),
        (
            "fn f(x: f32[n]) { let y[i < 100] = if i + 9223372036854775807 < n then x[i] else 0; y }",
            "f32[100], checked: axis 0 of x",
        ),
        // Narrow arithmetic wraps elsewhere, and so may a conversion.
        (
            "fn at(x: f32[n], k: i32) = if k >= 0 && i64(k) < n - 1 then x[k + 1] else 0\nfn f(x: f32[n], t: i32[m]) = at(x, t)",
            "f32[m], checked: axis 0 of x",
        ),
        (
            "fn at(x: f32[n], k: i32) = if k <= 0 && i64(k) > -n then x[-k] else 0\nfn f(x: f32[n], t: i32[m]) = at(x, t)",
            "f32[m], checked: axis 0 of x",
        ),
        (
            "fn at(x: f32[n], k: i64) = if k >= 0 && k < n then x[i32(k)] else 0\nfn f(x: f32[n], t: i64[m]) = at(x, t)",
            "f32[m], checked: axis 0 of x",
        ),
        (
            "fn at(x: f32[9], k: i64, l: i64) = x[k * l]\nfn f(x: f32[9], s: i64[m], t: i64[m]) = at(x, s, t)",
            "f32[m], checked: axis 0 of x",
        ),
    ]);
}

/// Division and remainder by positive numbers are understood. By others they may be anything, and
/// by 0 they are 0.
#[test]
fn quotients_are_followed_by_positive_numbers() {
    expect(&[
        ("fn f(x: f32[9], t: i64[m]) { let y[i] = x[t[i] % 5 + 4]; y }", "f32[m]"),
        ("fn f(x: f32[8], t: i64[m]) { let y[i] = x[t[i] % 5 + 4]; y }", "f32[m], checked: axis 0 of x"),
        ("fn f(x: f32[9], t: u8[m]) { let y[i] = x[i64(t[i]) / 30]; y }", "f32[m]"),
        ("fn f(x: f32[8], t: u8[m]) { let y[i] = x[i64(t[i]) / 30]; y }", "f32[m], checked: axis 0 of x"),
        ("fn f(x: f32[9], t: i64[m]) { let y[i] = x[t[i] / 0 + 9]; y }", "f32[m], checked: axis 0 of x"),
        ("fn f(x: f32[9], t: i64[m]) { let y[i] = x[t[i] % 0 + 9]; y }", "f32[m], checked: axis 0 of x"),
        ("fn f(x: f32[9], t: i64[m]) { let y[i] = x[t[i] / -2]; y }", "f32[m], checked: axis 0 of x"),
        ("fn f(x: f32[9], t: i64[m]) { let y[i] = x[t[i] / t[i]]; y }", "f32[m], checked: axis 0 of x"),
    ]);
}

#[test]
fn types_have_ranges() {
    expect(&[
        ("fn f(x: f32[256], t: u8[n]) = x[t]", "f32[n]"),
        ("fn f(x: f32[255], t: u8[n]) = x[t]", "f32[n], checked: axis 0 of x"),
        ("fn f(x: f32[256], t: i8[n]) { let y[i] = x[i64(t[i]) + 128]; y }", "f32[n]"),
        ("fn f(x: f32[255], t: i8[n]) { let y[i] = x[i64(t[i]) + 128]; y }", "f32[n], checked: axis 0 of x"),
        ("fn f(x: f32[256], t: i8[n]) { let y[i] = x[i64(t[i]) + 127]; y }", "f32[n], checked: axis 0 of x"),
        ("fn at(x: f32[9], k: u32) = if k < 9 then x[k] else 0\nfn f(x: f32[9], t: u32[m]) = at(x, t)", "f32[m]"),
        ("fn at(x: f32[9], k: u64) = if k < 9 then x[k] else 0\nfn f(x: f32[9], t: u64[m]) = at(x, t)", "f32[m]"),
        (
            "fn at(x: f32[9], k: i32) = if k < 9 then x[k] else 0\nfn f(x: f32[9], t: i32[m]) = at(x, t)",
            "f32[m], checked: axis 0 of x",
        ),
    ]);
}

#[test]
fn conditions_say_what_they_mean() {
    expect(&[
        ("fn f(x: f32[9]) { let y[i < 99] = if i < 3 || i == 5 then x[i] else 0; y }", "f32[99]"),
        ("fn f(x: f32[9]) { let y[i < 99] = if i > 2 && i != 5 then 0 else x[i]; y }", "f32[99]"),
        // An `if` as a condition is no `||`.
        (
            "fn f(x: f32[n], d: f32[n]) {
                 let y[i < n] = if (if i > 0 then d[i] > 0 else true) then 0 else x[n - 1 + i]
                 y
             }",
            "f32[n], checked: axis 0 of x",
        ),
        // For floats, it is possible that neither of two is at most the other.
        (
            "fn at(x: f32[9], a: f32, b: f32, k: i64) = if a <= b || b <= a then 0 else x[k]
             fn f(x: f32[9], a: f32[m], b: f32[m], k: i64[m]) = at(x, a, b, k)",
            "f32[m], checked: axis 0 of x",
        ),
    ]);
}

#[test]
fn terms_of_the_same_size_are_added_up() {
    expect(&[
        ("fn f(w: f32[n], x: f32[3 * n]) { let y[i < 2 * n] = if i < n then x[2 * n + i] else 0; y }", "f32[2 * n]"),
        (
            "fn f(w: f32[n], x: f32[3 * n]) { let y[i < 2 * n] = if i <= n then x[2 * n + i] else 0; y }",
            "E0124 at `2 * n + i`: the access is outside at i = n, in spite of the condition: axis 0 of `x` has 3 * n elements; \
             help: narrow the condition around it",
        ),
        (
            "fn f(w: f32[n], x: f32[3 * n]) { let y[i < 2 * n] = x[2 * n + i]; y }",
            "E0124 at `2 * n + i`: the access is outside: at i = 2 * n - 1 the subscript is 4 * n - 1, axis 0 of `x` has 3 * n \
             elements; help: end the index earlier, or guard the access: `if ... then x[...] else 0`",
        ),
    ]);
}

#[test]
fn what_depends_on_sizes_alone_is_required_of_the_call() {
    expect(&[
        ("fn f(x: f32[n]) { let y[i < 3] = x[i]; y }", "f32[3] where n >= 3"),
        ("fn f(x: f32[n]) { let y[i < 1] = x[i]; y }", "f32[1] where n >= 1"),
        ("fn f(x: f32[n], m: i64) { let y[i < m] = x[n - 1 - i]; y }", "f32[m] where m >= 0 and n >= m unless m == 0"),
        (
            "fn f(x: f32[n], a: f32[p], b: f32[q]) { let y[i < 3] = x[(p + q) * i]; y }",
            "f32[3] where n >= 2 * p + 2 * q + 1",
        ),
        // The sign of a difference is not known.
        ("fn f(x: f32[n], a: f32[p], b: f32[q]) { let y[i < 3] = x[(p - q) * i]; y }", "f32[3], checked: axis 0 of x"),
        ("fn f(x: f32[10], w: f32[n]) { let y[i < 3] = sum[k < n * i + 5](x[k]); y }", "f32[3] where 5 >= 2 * n"),
        // A fact that holds only while an index runs does not help elsewhere.
        (
            "fn f(x: f32[n], m: i64) { let y[i < m] = x[i + 2] + x[i + 1]; y }",
            "f32[m] where m >= 0 and n >= m + 2 unless m == 0",
        ),
        (
            "fn f(x: f32[n], m: i64) { let y[i < m] = x[i + 2]; y + x[1] }",
            "f32[m] where m >= 0 and n >= m + 2 unless m == 0 and n >= 2",
        ),
    ]);
}

/// An access is refused if it is out of bounds at an index that is certainly reached. One that data
/// may avoid is checked.
#[test]
fn what_is_surely_outside_is_refused() {
    let narrow = "axis 0 of `x` starts at 0; help: narrow the condition around it";
    let at_1 = format!("E0124 at `i - 2`: the access is outside at i = 1, in spite of the condition: {narrow}");
    expect(&[
        (
            "fn f(x: f32[0]) = x[0]",
            "E0124 at `0`: the access is outside: the subscript is 0, axis 0 of `x` has 0 elements",
        ),
        ("fn f(x: f32[n]) { let y[i < n] = if !(i < 1) then x[i - 2] else 0; y }", &at_1),
        ("fn f(x: f32[n]) { let y[i < n] = if i > 0 && i < n - 1 then x[i - 2] else 0; y }", &at_1),
        (
            "fn f(x: f32[n]) { let y[i < 100] = if i < n then x[i + 1] else 0; y }",
            "E0124 at `i + 1`: the access is outside at i = n - 1, in spite of the condition: axis 0 of `x` has n elements; \
             help: narrow the condition around it",
        ),
        (
            "fn f(x: f32[n], d: f32[n]) { let y[i < n] = if i > 0 && d[i] > 0 then x[i - 2] else 0; y }",
            "f32[n], checked: axis 0 of x",
        ),
        (
            "fn f(x: f32[n], d: i64[n]) { let y[i < n] = if i > 0 && d[i] > 0 then x[i - 2] else 0; y }",
            "f32[n], checked: axis 0 of x",
        ),
        ("fn f(x: f32[3], len: i64[b]) { let y[i] = sum[j < len[i]](x[j + 5]); y }", "f32[b], checked: axis 0 of x"),
    ]);
}

/// The existence of an element is proved like a subscript, even if an index ends only when an
/// enclosing one does.
#[test]
fn a_place_has_an_element_and_a_number() {
    expect(&[
        ("fn f(x: f32[n, n]) = argmax[i < n, j <= i](x[i, j])", "i64, checked: elements of argmax"),
        (
            "fn f(x: f32[n, m], len: i64[n]) = argmax[i < n, k < len[i]](x[i, k])",
            "E0137 at `argmax[i < n, k < len[i]](x[i, k])`: `argmax` has no number for its elements: how far `k` runs is no size known \
             here; help: bound `k` by a size, and choose in the body: `if k < e then ... else -inf`",
        ),
        (
            "fn f(x: f32[n], z: f32[m]) { let y[c] = z[c] + f32(argmax[i < m, k <= i, j](z[k] * x[c + j])); y }",
            "E0137 at `argmax[i < m, k <= i, j](z[k] * x[c + j])`: `argmax` has no number for its elements: how far `j` runs is no size \
             known here; help: bound `j` by a size, and choose in the body: `if j < e then ... else -inf`",
        ),
        (
            "fn f(x: f32[n]) = argmax[k < -1](x[k])",
            "E0136 at `argmax[k < -1](x[k])`: `argmax` of no element has no answer; \
             help: make sure that there is one: `if ... then argmax[...](...) else -1`",
        ),
        ("fn f(x: f32[5], z: f32[3]) { let y[c] = z[c] + f32(argmax[j](x[c + j])); y }", "f32[3]"),
        ("fn f(x: f32[n], z: f32[3]) { let y[c] = z[c] + f32(argmax[j](x[c + j])); y }", "f32[3] where n >= 3"),
        (
            "fn f(x: f32[2], z: f32[3]) { let y[c] = z[c] + f32(argmax[j](x[c + j])); y }",
            "E0136 at `argmax[j](x[c + j])`: `argmax` of no element has no answer; \
             help: make sure that there is one: `if ... then argmax[...](...) else -1`",
        ),
    ]);
}

/// If indices bound one another, the position is the least number of an element that is as great,
/// or as small, as any.
#[test]
fn places_among_elements_whose_indices_bound_one_another() {
    for (reducer, extreme) in [("argmax", ReduceOp::Monoid(Monoid::Max)), ("argmin", ReduceOp::Monoid(Monoid::Min))] {
        let file = grammar::parse(&format!("fn f(x: f32[n, n]) = {reducer}[i < n, j <= i](x[i, j])")).unwrap();
        let checked = check(&file, "f").unwrap();
        let reducers = checked.exprs.values().filter_map(|e| match e.kind {
            Kind::Reduce { op, .. } => Some(op),
            _ => None,
        });
        assert_eq!(reducers.collect::<Vec<_>>(), [extreme, ReduceOp::Monoid(Monoid::Min)], "{reducer}");
    }
}

/// A scalar parameter may be negative, and so may a quotient of lengths.
#[test]
fn what_only_may_be_negative_is_not_taken_to_be_positive() {
    expect(&[
        ("fn f(x: f32[n], m: i64) { let y[i < 3] = x[m * i]; y }", "f32[3], checked: axis 0 of x"),
        ("fn f(x: f32[n], w: f32[m], m: i64) { let y[i < 3] = x[m * i]; y }", "f32[3] where n >= 2 * m + 1"),
        (
            "fn f(x: f32[n], m: i64) { let y[i < m, j < m] = x[m * i + j]; y }",
            "f32[m, m] where m >= 0 and n >= m * m unless m == 0",
        ),
        (
            "fn f(x: f32[n], w: f32[r], d: i64) { let y[i] = sum[j](w[j] * x[i + d * j]); y }",
            "f32[d + n - d * r] where d + n >= d * r, checked: axis 0 of x",
        ),
        (
            "fn g(x: f32[n], y: f32[q]) { let z[i < 3] = x[(q - 5) * i]; z }
             fn f(x: f32[n]) { let y[i < (n - 8) / 2 + 5] = 1.0; g(x, y) }",
            "f32[3], checked: axis 0 of x",
        ),
    ]);
}

/// An index that a scalar parameter ends has the parameter as its bound. If its multiples must not
/// wrap, the parameter is bounded. A term that only lowers it cannot wrap.
#[test]
fn indices_are_as_large_as_what_ends_them() {
    let bounded = "p + 281474976710656 >= 0 and 281474976710656 >= p";
    for (source, said) in [
        ("fn f(x: f32[n], p: i64) = sum[i < p](if 4096 * i < n then x[i] else 0)", format!("f32 where {bounded}")),
        ("fn f(x: f32[n], p: i64) = sum[i < p](if i + 1 < n then x[i] else 0)", "f32".to_string()),
        ("fn f(x: f32[n], p: i64) = sum[i < p](if i + 2 < n then x[i] else 0)", format!("f32 where {bounded}")),
        ("fn f(x: f32[n], p: i64) = sum[i < p](if i - 1 < n && i > 1 then x[i - 2] else 0)", "f32".to_string()),
        ("fn f(x: f32[n], p: i64) = sum[i < p, j <= i](if j + i < n then x[j] else 0)", format!("f32 where {bounded}")),
        (
            "fn f(x: f32[n], p: i64) = sum[i < p](if n > 0 then x[min(2 * i, n - 1)] else 0)",
            format!("f32 where {bounded}"),
        ),
        ("fn f(x: f32[n], p: i64) = sum[i < p](if i < n then x[i] else 0)", "f32".to_string()),
        (
            "fn f(x: f32[n], p: i64) = sum[i < p](if !(4096 * i >= n || i > 7) then x[i] else 0)",
            format!("f32 where {bounded}"),
        ),
    ] {
        expect(&[(source, &said)]);
    }
}

/// However many terms there are, and wherever they occur, arithmetic on scalar parameters may wrap
/// unless they are small enough together.
#[test]
fn scalar_parameters_are_exact_only_within_limits() {
    let names: Vec<String> = (0..16).map(|k| format!("k{k}")).collect();
    let list = |text: &dyn Fn(&String) -> String, by: &str| names.iter().map(text).collect::<Vec<_>>().join(by);
    let (scalars, sum) = (list(&|k| format!("{k}: i64"), ", "), list(&|k| format!("4096 * {k}"), " + "));
    let positive = list(&|k| format!("{k} >= 0"), " && ");
    let product = format!("k{}", " * 4096".repeat(12));
    expect(&[
        (
            &format!("fn f(x: f32[9], {scalars}) = if {positive} && {sum} < 9 then x[k0] else 0"),
            "f32, checked: axis 0 of x",
        ),
        (
            "fn g(x: f32[n], y: f32[q]) = if 4096 * q < n then x[q] else 0
             fn f(x: f32[n], p: i64) { let y[i < p / 2] = 1.0; g(x, y) }",
            "f32 where p / 2 >= 0 and p + 281474976710656 >= 0 and 281474976710656 >= p",
        ),
        (
            "fn f(x: f32[9], w: f32[m], m: i64) = x[min(4096 * m, 8)]",
            "f32 where m + 281474976710656 >= 0 and 281474976710656 >= m",
        ),
        ("fn f(x: f32[9], w: f32[m], m: i64) = x[min(m, 8)]", "f32"),
        // A number beyond 128 bits is not followed.
        (
            &format!(
                "fn at(x: f32[9], k: i64) = if k >= 0 && k < 9 then x[{product}] else 0\nfn f(x: f32[9], t: i64[m]) = at(x, t)"
            ),
            "f32[m], checked: axis 0 of x",
        ),
    ]);
}

/// The effort of proofs grows with the subscripts to prove, not with each pair or choice of them: a
/// clamped start is proved from its own choices, whatever the other terms are.
#[test]
fn many_starts_take_few_steps() {
    type Start<'s> = &'s dyn Fn(usize) -> String;
    // This many starts in one access, each clamped; whether all are proved, and the number of
    // inequalities that took.
    let starts = |count: usize, most: &str, start: Start| {
        let list = |text: &dyn Fn(usize) -> String| (0..count).map(text).collect::<Vec<_>>().join(", ");
        let (n, m, r) = (list(&|k| format!("n{k}")), list(&|k| format!("m{k}")), list(&|k| format!("r{k}")));
        let x = list(&|k| format!("n{k} + m{k}"));
        let at = list(&|k| format!("clamp({}, 0, {}) + r{k}", start(k), most.replace('#', &k.to_string())));
        let source = format!(
            "fn f(a: i64, d: i64[8], x: f32[{x}], z: f32[{n}], w: f32[{m}]) {{
                let y[i < 8] = sum[{r}](w[{r}] * x[{at}])
                y
            }}"
        );
        let file = grammar::parse(&source).unwrap();
        let checked = check(&file, "f").unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
        (checks(&checked).is_empty(), checked.combined)
    };
    let rows: [(bool, &str, Start); 3] = [
        (true, "n#", &|_| "i + a".to_owned()),
        (true, "n#", &|k| format!("d[{k}]")),
        (false, "n# - m#", &|_| "i + a".to_owned()),
    ];
    for (proved, most, start) in rows {
        let [four, eight] = [4, 8].map(|count| starts(count, most, start));
        assert_eq!((four.0, eight.0), (proved, proved), "{most}");
        assert!(2 * eight.1 <= 5 * four.1, "{most}: {} of four starts, {} of eight", four.1, eight.1);
    }
}
