//! Equal expressions are computed once.

use ir::rewrite::share;

use super::after;

fn shared(body: &str) -> String {
    after(body, |_, kernel| {
        let count = share(kernel);
        assert_eq!(share(&mut kernel.clone()), 0, "once is enough: {count} the first time");
    })
}

#[test]
fn equal_definitions_in_reach_are_one() {
    insta::assert_snapshot!(shared(
        "v0 = load %c[]
         parallel i < n {
           v1 = load %c[]
           v2 = load %x[i, 0]
           v3 = add v1, v2
           parallel j < m {
             v4 = load %x[i, 0]
             v5 = add v0, v4
             v6 = add v4, v0
             v7 = sub v5, v3
             v8 = mul v7, v6
             store %y[i, j], v8
           }
         }"
    ), @r"
    kernel @k {
      v0 = load %c[]
      parallel i < n {
        v1 = load %x[i, 0]
        v2 = add v0, v1
        parallel j < m {
          v3 = add v1, v0
          v4 = sub v2, v2
          v5 = mul v4, v3
          store %y[i, j], v5
        }
      }
    }
    ");
}

#[test]
fn blocks_beside_each_other_share_nothing() {
    insta::assert_snapshot!(shared(
        "v0 = const bool true
         v3 = if v0 { v1 = load %c[] yield v1 } else { v2 = load %c[] yield v2 }
         parallel i < n { v4 = load %c[] v5 = add v4, v3 store %z[i], v5 }"
    ), @r"
    kernel @k {
      v0 = const bool true
      v3 = if v0 {
        v1 = load %c[]
        yield v1
      } else {
        v2 = load %c[]
        yield v2
      }
      parallel i < n {
        v4 = load %c[]
        v5 = add v4, v3
        store %z[i], v5
      }
    }
    ");
}

#[test]
fn constants_are_equal_by_type_and_bits() {
    insta::assert_snapshot!(shared(
        "parallel i < n {
           v0 = const f32 0.0 v1 = const f32 -0.0 v2 = const f32 nan v3 = const f32 0x7fc00001 v4 = const f32 nan
           v5 = const f64 0.0 v6 = cast f32 v5 v7 = const f64 0.0 v8 = cast f32 v7 v9 = cast f64 v6 v10 = cast f64 v8
           v11 = add v0, v1 v12 = add v2, v3 v13 = add v4, v11 v14 = add v12, v13 v15 = sub v9, v10 v16 = cast f32 v15
           v17 = add v14, v16
           store %z[i], v17
         }"
    ), @r"
    kernel @k {
      parallel i < n {
        v0 = const f32 0.0
        v1 = const f32 -0.0
        v2 = const f32 nan
        v3 = const f32 0x7fc00001
        v4 = const f64 0.0
        v5 = cast f32 v4
        v6 = cast f64 v5
        v7 = add v0, v1
        v8 = add v2, v3
        v9 = add v2, v7
        v10 = add v8, v9
        v11 = sub v6, v6
        v12 = cast f32 v11
        v13 = add v10, v12
        store %z[i], v13
      }
    }
    ");
}

#[test]
fn a_check_that_has_passed_is_not_made_again() {
    insta::assert_snapshot!(shared(
        "parallel i < n {
           v0 = load %k[i]
           v1 = check v0 < n at site0
           v2 = load %k[i]
           v3 = check v2 < n at site1
           v4 = check v2 < m at site1
           v5 = load %x[v1, v4]
           v6 = load %x[v3, v4]
           v7 = sub v5, v6
           store %z[i], v7
         }"
    ), @r"
    kernel @k {
      parallel i < n {
        v0 = load %k[i]
        v1 = check v0 < n at site0
        v2 = check v0 < m at site1
        v3 = load %x[v1, v2]
        v4 = sub v3, v3
        store %z[i], v4
      }
    }
    ");
}

#[test]
fn equal_reductions_are_one_loop() {
    insta::assert_snapshot!(shared(
        "parallel i < n {
           v2 = reduce j < m { v0 = load %x[i, j] v1 = neg v0 } with max free v1
           v5 = reduce l < m { v3 = load %x[i, l] v4 = neg v3 } with sum lanes v4
           v8 = reduce p < m { v6 = load %x[i, p] v7 = neg v6 } with max free v7
           v11 = reduce q < n { v9 = load %x[q, 0] v10 = neg v9 } with max free v10
           v14, v15 = reduce r < m { v12 = load %x[i, r] v13 = load %x[i, r] } with max free v12, max free v13
           v16 = add v2, v5
           v17 = add v16, v8
           v18 = add v17, v11
           v19 = add v14, v15
           v20 = add v18, v19
           store %z[i], v20
         }"
    ), @r"
    kernel @k {
      parallel i < n {
        v2, v3 = reduce j < m {
          v0 = load %x[i, j]
          v1 = neg v0
        } with max free v1, sum lanes v1
        v6 = reduce q < n {
          v4 = load %x[q, 0]
          v5 = neg v4
        } with max free v5
        v8 = reduce r < m {
          v7 = load %x[i, r]
        } with max free v7
        v9 = add v2, v3
        v10 = add v9, v2
        v11 = add v10, v6
        v12 = add v8, v8
        v13 = add v11, v12
        store %z[i], v13
      }
    }
    ");
}

#[test]
fn equal_branches_are_one() {
    insta::assert_snapshot!(shared(
        "v0 = const f32 1.0
         parallel i < n, j < m {
           v1 = affine i
           v2 = affine j
           v3 = lt v1, v2
           v6 = if v3 { v4 = load %x[i, 0] yield v4 } else { v5 = load %b[j] yield v5 }
           v9, v10 = if v3 { v7 = load %x[i, 0] yield v7, v0 } else { v8 = load %b[j] yield v8, v8 }
           v13 = if v3 { v11 = load %x[i, 1] yield v11 } else { v12 = load %b[j] yield v12 }
           v14 = add v6, v9
           v15 = add v14, v10
           v16 = add v15, v13
           store %y[i, j], v16
         }"
    ), @r"
    kernel @k {
      v0 = const f32 1.0
      parallel i < n, j < m {
        v1 = affine i
        v2 = affine j
        v3 = lt v1, v2
        v6, v7 = if v3 {
          v4 = load %x[i, 0]
          yield v4, v0
        } else {
          v5 = load %b[j]
          yield v5, v5
        }
        v10 = if v3 {
          v8 = load %x[i, 1]
          yield v8
        } else {
          v9 = load %b[j]
          yield v9
        }
        v11 = add v6, v6
        v12 = add v11, v7
        v13 = add v12, v10
        store %y[i, j], v13
      }
    }
    ");
}

/// Even if nothing else in the kernel is repeated.
#[test]
fn equal_results_are_one() {
    insta::assert_snapshot!(shared(
        "parallel i < n {
           v1, v2 = reduce j < m { v0 = load %x[i, j] } with max free v0, max free v0
           v3 = add v1, v2
           store %z[i], v3
         }"
    ), @r"
    kernel @k {
      parallel i < n {
        v1 = reduce j < m {
          v0 = load %x[i, j]
        } with max free v0
        v2 = add v1, v1
        store %z[i], v2
      }
    }
    ");
    insta::assert_snapshot!(shared(
        "v0 = const bool true
         parallel i < n {
           v1 = load %c[]
           v2 = load %b[0]
           v3, v4 = if v0 { yield v1, v1 } else { yield v2, v2 }
           v5 = add v3, v4
           store %z[i], v5
         }"
    ), @r"
    kernel @k {
      v0 = const bool true
      parallel i < n {
        v1 = load %c[]
        v2 = load %b[0]
        v3 = if v0 {
          yield v1
        } else {
          yield v2
        }
        v4 = add v3, v3
        store %z[i], v4
      }
    }
    ");
}

/// Names that refer to an outer value in one and to an inner one in the other do not confuse the
/// comparison.
#[test]
fn names_inside_and_outside_are_told_apart() {
    insta::assert_snapshot!(shared(
        "parallel i < n {
           v0 = load %c[]
           v3 = reduce j < m { v1 = load %x[i, j] v2 = mul v1, v1 } with sum lanes v2
           v6 = reduce l < m { v4 = load %x[i, l] v5 = mul v4, v0 } with sum lanes v5
           v9 = reduce p < m { v7 = load %x[i, p] v8 = mul v0, v7 } with sum lanes v8
           v12 = reduce q < m { v10 = load %x[i, q] v11 = mul v10, v0 } with sum lanes v10
           v13 = add v3, v6 v14 = add v9, v12 v15 = add v13, v14
           store %z[i], v15
         }"
    ), @r"
    kernel @k {
      parallel i < n {
        v0 = load %c[]
        v3 = reduce j < m {
          v1 = load %x[i, j]
          v2 = mul v1, v1
        } with sum lanes v2
        v6, v7 = reduce l < m {
          v4 = load %x[i, l]
          v5 = mul v4, v0
        } with sum lanes v5, sum lanes v4
        v10 = reduce p < m {
          v8 = load %x[i, p]
          v9 = mul v0, v8
        } with sum lanes v9
        v11 = add v3, v6
        v12 = add v10, v7
        v13 = add v11, v12
        store %z[i], v13
      }
    }
    ");
}

/// An equal body is not enough if the operand of the reduction depends on the first loop.
#[test]
fn results_of_what_follows_need_a_loop_of_their_own() {
    insta::assert_snapshot!(shared(
        "parallel i < n {
           v0 = load %c[]
           v1 = reduce j < m { } with sum lanes v0
           v2 = reduce l < m { } with sum lanes v1
           v3 = reduce p < m { } with max free v0
           v4 = add v1, v2
           v5 = add v3, v4
           store %z[i], v5
         }"
    ), @r"
    kernel @k {
      parallel i < n {
        v0 = load %c[]
        v1, v2 = reduce j < m {
        } with sum lanes v0, max free v0
        v3 = reduce l < m {
        } with sum lanes v1
        v4 = add v1, v3
        v5 = add v2, v4
        store %z[i], v5
      }
    }
    ");
}

/// Whether the first of two texts computes the second. `$0` to `$3` stand for values that a text
/// defines, `$i` and `$k` for its indices.
fn is_shared(first: &str, second: &str) -> bool {
    let own = |text: &str, number: u32| {
        let named = (0..4).fold(text.to_owned(), |text, k| text.replace(&format!("${k}"), &format!("v{number}{k}")));
        named.replace("$i", &format!("j{number}")).replace("$k", &format!("k{number}"))
    };
    let body = format!(
        "parallel i < n {{ v0 = load %c[] v1 = load %x[i, 0] v2 = load %k[i] v3 = add v2, v2 v4 = lt v0, v1 v5 = lt v1, v0 {} {}
           store %z[i], v0 }}",
        own(first, 1),
        own(second, 2),
    );
    let mut count = 0;
    after(&body, |_, kernel| count = share(kernel));
    count > 0
}

/// The first text of each group is computed once if it occurs twice; none of the others is computed
/// by it.
#[test]
fn what_is_equal_in_part_is_not_equal() {
    let texts: &[&[&str]] = &[
        &["$0 = neg v0", "$0 = abs v0", "$0 = neg v1"],
        &["$0 = add v0, v1", "$0 = sub v0, v1", "$0 = add v1, v0", "$0 = add v0, v0", "$0 = add v1, v1"],
        &["$0 = eq v1, v0", "$0 = le v1, v0", "$0 = eq v0, v0", "$0 = eq v1, v1"],
        &["$0 = fma v0, v1, v0", "$0 = fma v1, v1, v0", "$0 = fma v0, v0, v0", "$0 = fma v0, v1, v1"],
        &["$0 = select v4, v0, v1", "$0 = select v4, v1, v1", "$0 = select v4, v0, v0"],
        &["$0 = cast f64 v0", "$0 = cast i32 v0", "$0 = cast f64 v1"],
        &["$0 = affine 2 * i + n", "$0 = affine i + n", "$0 = affine 2 * i + m", "$0 = affine n", "$0 = affine 2 * i"],
        &["$0 = load %x[i, 1]", "$0 = load %x[i, 2]", "$0 = load %t[i, 1]", "$0 = load %x as [m, n][i, 1]"],
        &["$0 = load %b[v2]", "$0 = load %b[v3]", "$0 = load %b[i]"],
        &["$0 = load %x[i, v2]", "$0 = load %x[v2, i]"],
        &["$0 = check v2 < n at site0", "$0 = check v2 < m at site0", "$0 = check v3 < n at site0"],
        &["$0 = call @tanh.f32(v0)", "$0 = call @tanh.f32(v1)", "$0 = call @cosh.f32(v0)"],
        &[
            "$0, $1 = if v4 { $2 = neg v0 yield $2, v1 } else { $3 = neg v1 yield $3, v0 }",
            "$0, $1 = if v4 { $2 = abs v0 yield $2, v1 } else { $3 = neg v1 yield $3, v0 }",
        ],
        &[
            "$0 = if v4 { $2 = neg v0 yield $2 } else { $3 = neg v1 yield $3 }",
            "$0 = if v5 { $2 = neg v0 yield $2 } else { $3 = neg v1 yield $3 }",
            "$0 = if v4 { $2 = neg v0 yield $2 } else { $3 = abs v1 yield $3 }",
        ],
        &[
            "$0 = if v4 { $1 = if v5 { yield v0 } else { yield v1 } $2 = neg $1 yield $2 } else { yield v0 }",
            "$0 = if v4 { $1 = if v5 { yield v1 } else { yield v1 } $2 = neg $1 yield $2 } else { yield v0 }",
            "$0 = if v4 { $1 = if v5 { yield v0 } else { yield v0 } $2 = neg $1 yield $2 } else { yield v0 }",
            "$0 = if v4 { $1 = if v4 { yield v0 } else { yield v1 } $2 = neg $1 yield $2 } else { yield v0 }",
            "$0 = if v4 { $1, $3 = if v5 { yield v0, v1 } else { yield v1, v0 } $2 = neg $1 yield $2 } else { yield v0 }",
        ],
        &[
            "$0 = if v4 { $1 = if v5 { $2 = neg v0 yield $2 } else { yield v1 } $3 = neg $1 yield $3 } else { yield v0 }",
            "$0 = if v4 { $1 = if v5 { $2 = abs v0 yield $2 } else { yield v1 } $3 = neg $1 yield $3 } else { yield v0 }",
        ],
        &[
            "$0 = reduce $i < m { $1 = load %b[$i] } with sum lanes $1",
            "$0 = reduce $i < m { $1 = load %e[$i] } with sum lanes $1",
            "$0 = reduce $i < m - 1 { $1 = load %b[$i] } with sum lanes $1",
        ],
        &[
            "$0 = reduce $i < m { $1 = reduce $k < n { $2 = load %x[$k, $i] $3 = neg $2 } with sum lanes $3 } with max free $1",
            "$0 = reduce $i < m { $1 = reduce $k < n { $2 = load %x[$k, $i] $3 = neg $2 } with sum blocks $3 } with max free $1",
            "$0 = reduce $i < m { $1 = reduce $k < n { $2 = load %x[$k, $i] $3 = neg $2 } with max free $3 } with max free $1",
            "$0 = reduce $i < m { $1 = reduce $k < n { $2 = load %x[$k, $i] $3 = neg $2 } with sum lanes $2 } with max free $1",
            "$0 = reduce $i < m { $1 = reduce $k < 3 { $2 = load %x[$k, $i] $3 = neg $2 } with sum lanes $3 } with max free $1",
        ],
        &[
            "$0 = reduce $i < 2, $k < 2 { $1 = load %x[$i, $k] } with sum lanes $1",
            "$0 = reduce $i < 2, $k < 2 { $1 = load %x[$k, $i] } with sum lanes $1",
            "$0 = reduce $i < 2 { $1 = load %x[$i, $i] } with sum lanes $1",
        ],
    ];
    for group in texts {
        for (k, other) in group.iter().enumerate() {
            assert_eq!(is_shared(group[0], other), k == 0, "{}\n{other}", group[0]);
        }
    }
    // A check passes wherever an equal one did, whatever its error would say.
    assert!(is_shared("$0 = check v2 < n at site0", "$0 = check v2 < n at site1"));
}
