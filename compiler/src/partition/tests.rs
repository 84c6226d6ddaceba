//! The reports on the axes of small functions.

use super::Partition;

/// The cuts of a function as text, a line each.
fn cuts(source: &str) -> Vec<String> {
    let file = grammar::parse(source).unwrap();
    let checked = crate::check::check(&file, "f").unwrap();
    Partition::new(&checked, source).summary(&checked).iter().map(|cut| cut.to_string()).collect()
}

#[test]
fn what_each_axis_allows() {
    let cases: [(&str, &[&str]); 10] = [
        ("fn f(x: f32[n], by: f32) = x * by", &["axis 0 of `x`, axis 0 of `out`: mapped"]),
        (
            "fn f(x: f32[n]) { let y[i] = x[i] + x[i + 2]\n let z[i] = y[i + 1] - x[i]\n z }",
            &["axis 0 of `x`, axis 0 of `out`: stencil that reads `x` from +0 to +3"],
        ),
        ("fn f(x: f32[n]) = sum(x)", &["axis 0 of `x`: reduced by `sum(x)` in chunks of 4096"]),
        (
            "fn f(x: f32[n, m]) = sum(x, axis = 0)",
            &[
                "axis 0 of `x`: reduced by `sum(x, axis = 0)` in chunks of 256",
                "axis 1 of `x`, axis 0 of `out`: mapped",
            ],
        ),
        (
            "fn f(x: f32[n]) { let c[i] = sum[k < i](x[k])\n c }",
            &["axis 0 of `x`, axis 0 of `out`: scanned by `sum[k < i](x[k])` in chunks of 4096"],
        ),
        (
            "fn f(x: f64[n], i: i64[n], k: i64) { let t[c < k] = sum[j where i[j] == c](x[j])\n t }",
            &[
                "axis 0 of `x`, axis 0 of `i`: keyed by `sum[j where i[j] == c](x[j])` in chunks of keyed_chunk(k)",
                "axis 0 of `out`: whole, because each key of `sum[j where i[j] == c](x[j])` takes elements of all blocks",
            ],
        ),
        (
            "fn f(x: f32[m], i: i64[n]) = x[i]",
            &[
                "axis 0 of `x`: whole, because `x[i]` reads it wherever data says",
                "axis 0 of `i`, axis 0 of `out`: mapped",
            ],
        ),
        (
            "fn f(x: f32[n, m]) = sum(x)",
            &[
                "axis 0 of `x`: reduced by `sum(x)` in chunks of 4096",
                "axis 1 of `x`: whole, because `sum(x)` adds its elements along another axis first",
            ],
        ),
        (
            "fn f(u: f32[n], k: i64) { let rec y[t <= k, i < n] = if t == 0 || i == 0 then u[i] else y[t - 1, i - 1]\n y[k] }",
            &[
                "axis 0 of `u`, axis 0 of `out`: whole, because each element depends on earlier ones: `if t == 0 || i == 0 then u[i] else y[t - 1, i - 1]`",
            ],
        ),
        (
            "fn f(x: f32[n], k: i64) = loop y = x, t < k { let z[i < n] = if i > 0 then y[i - 1] else 0\n z }",
            &["axis 0 of `x`, axis 0 of `out`: whole, because it reaches further beyond a block with each step"],
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(cuts(source), expected, "{source}");
    }
}
