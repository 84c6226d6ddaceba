//! A report suggests a change only if it gives a better plan: each suggestion is followed here.

use std::collections::BTreeSet;

use compiler::check::check;
use compiler::explain::{Report, Verdict, explain};
use compiler::pipeline::{Options, compile};
use interp::scalar::ARITHMETIC;
use ir::Passes;
use ir::decision::Reason;

fn report(source: &str, fuse: &str) -> Report {
    let checked = check(&grammar::parse(source).unwrap(), "f").unwrap_or_else(|e| panic!("{source}: {e:?}"));
    let fuse: Passes = fuse.parse().unwrap();
    let compiled = compile(&checked, &Options { fuse, ..Options::default() }).unwrap();
    explain(&checked, &compiled, fuse, source, &Default::default(), &ARITHMETIC)
}

/// The suggestions of a report, with the reasons.
fn suggestions(report: &Report) -> Vec<(&'static str, &str)> {
    let pairs = report.pairs.iter().filter_map(|decided| match &decided.verdict {
        Verdict::Apart(reason, why) => Some((reason.name(), why.suggestion.as_deref()?)),
        Verdict::Fused(_) => None,
    });
    pairs.collect()
}

/// A program with a refusal, and the same with the suggestion followed.
struct Row {
    reason: &'static str,
    before: &'static str,
    after: &'static str,
    /// The passes before and after.
    fuse: [&'static str; 2],
}

const fn row(reason: &'static str, before: &'static str, after: &'static str) -> Row {
    Row { reason, before, after, fuse: ["all", "all"] }
}

const ROWS: &[Row] = &[
    Row {
        reason: "disabled",
        before: "fn f(x: f32[n]) = exp(x) + 1",
        after: "fn f(x: f32[n]) = exp(x) + 1",
        fuse: ["none", "kloop"],
    },
    row(
        "global-reduction",
        "fn f(x: f32[n, m]) = x / sum(x)",
        "fn f(x: f32[n, m]) {\n let y[i] = x[i] / sum(x[i])\n y\n}",
    ),
    row(
        "other-iterations",
        "fn f(x: f32[n, m]) {\n let s[i] = sum[j](x[i, j])\n let y[i, j] = x[i, j] / s[n - 1 - i]\n y\n}",
        "fn f(x: f32[n, m]) {\n let s[i] = sum[j](x[i, j])\n let y[i, j] = x[i, j] / s[i]\n y\n}",
    ),
    // Several elements for one.
    row(
        "would-duplicate",
        "fn f(x: f32[n]) {\n let e = exp(x)\n let y[i] = e[i] + e[i + 1] + e[i + 2]\n y\n}",
        "fn f(x: f32[n]) {\n let e = x * 2\n let y[i] = e[i] + e[i + 1] + e[i + 2]\n y\n}",
    ),
    row(
        "would-duplicate",
        "fn f(x: f32[n]) {\n let e = exp(x)\n let y[i] = e[i] + e[i + 1] + e[i + 2]\n y\n}",
        "fn f(x: f32[n]) {\n let e = exp(x)\n let y[i] = e[i]\n y\n}",
    ),
    // A window of them.
    row(
        "would-duplicate",
        "fn f(x: f32[n]) {\n let e = exp(x)\n let y[i] = sum[k < 3](e[i + k])\n y\n}",
        "fn f(x: f32[n]) {\n let e = x * 2\n let y[i] = sum[k < 3](e[i + k])\n y\n}",
    ),
    row(
        "too-many-copies",
        "fn f(x: f32[n]) {
            let e = x * 2
            let y[i < n - 20] = e[i] + e[i + 1] + e[i + 2] + e[i + 3] + e[i + 4] + e[i + 5] + e[i + 6] + e[i + 7] +
                e[i + 8] + e[i + 9] + e[i + 10] + e[i + 11] + e[i + 12] + e[i + 13] + e[i + 14] + e[i + 15]
            y
        }",
        "fn f(x: f32[n]) {\n let e = x * 2\n let y[i < n - 20] = sum[k < 16](e[i + k])\n y\n}",
    ),
    row("extents-differ", "fn f(x: f32[n]) = (sqrt(x[1:]), exp(x))", "fn f(x: f32[n]) = (sqrt(x), exp(x))"),
];

#[test]
fn who_follows_a_suggestion_gets_a_better_plan() {
    for Row { reason, before, after, fuse } in ROWS {
        let (refused, followed) = (report(before, fuse[0]), report(after, fuse[1]));
        let suggested = suggestions(&refused);
        assert!(suggested.iter().any(|(name, _)| name == reason), "{before}: {suggested:?}, {reason} is expected");
        let [then, now] = [&refused, &followed].map(|report| {
            let bytes = report.after.total.bytes.nominal().unwrap();
            (report.after.kernels.len(), bytes)
        });
        assert!(now.0 < then.0 && now.1 <= then.1, "{before} has {then:?}, {after} has {now:?}");
        // The refusal is gone.
        let left = suggestions(&followed);
        assert!(left.iter().all(|(name, _)| name != reason), "{after}: {left:?}");
    }
}

/// Nothing is suggested if no change to the program helps.
#[test]
fn what_cannot_be_followed_is_not_suggested() {
    let programs = [
        // A vector has no other axis to reduce along.
        "fn f(x: f32[n]) = x / sum(x)",
        "fn f(x: f32[n]) {\n let e = exp(x - max(x))\n e / sum(e)\n}",
        // Each element of a row is used for all rows, however cheap it is.
        "fn f(x: f32[n, m], w: f32[m]) {\n let e = exp(w)\n let y[i, j] = x[i, j] * e[j]\n y\n}",
        // `abs` is elementwise already, and the sum of a product is not.
        "fn f(y: f32[n, m]) {\n let w = abs(transpose(y) @ y)\n (w, sum(w))\n}",
        "fn f(x: f32[n, k], w: f32[k, m], v: f32[m, l]) = x @ w @ v",
    ];
    for program in programs {
        let report = report(program, "all");
        assert!(report.after.kernels.len() > 1, "{program}: it has one kernel");
        assert_eq!(suggestions(&report), [], "{program}");
    }
}

#[test]
fn each_reason_with_a_suggestion_is_followed() {
    let followed: BTreeSet<&str> = ROWS.iter().map(|row| row.reason).collect();
    let without = [
        "too-many-live-values",
        "too-large",
        "cut",
        "not-profitable",
        "less-parallel",
        "other-consumer",
        "path-between",
        "contraction",
        "other-plan",
    ];
    let all: BTreeSet<&str> = followed.iter().chain(&without).copied().collect();
    assert_eq!(all, Reason::NAMES.iter().copied().collect());
}
