//! Invariant code is hoisted out of loops.

use ir::rewrite::hoist;

use super::after;

fn hoisted(body: &str) -> String {
    after(body, |program, kernel| {
        hoist(program, kernel);
        let before = kernel.clone();
        assert_eq!(hoist(program, kernel), 0);
        assert_eq!(*kernel, before);
    })
}

#[test]
fn what_does_not_change_leaves_its_loops() {
    insta::assert_snapshot!(hoisted(
        "parallel i < n {
           parallel j < m {
             v0 = const f32 2.0
             v1 = load %c[]
             v2 = mul v0, v1
             v3 = load %x[i, 0]
             v4 = mul v2, v3
             v5 = load %b[j]
             v6 = load %b[0]
             v7 = add v4, v5
             v8 = add v7, v6
             store %y[i, j], v8
           }
         }"
    ), @r"
    kernel @k {
      v0 = const f32 2.0
      v1 = load %c[]
      v2 = mul v0, v1
      parallel i < n {
        v3 = load %x[i, 0]
        v4 = mul v2, v3
        v5 = load %b[0]
        parallel j < m {
          v6 = load %b[j]
          v7 = add v4, v6
          v8 = add v7, v5
          store %y[i, j], v8
        }
      }
    }
    ");
}

#[test]
fn whole_reductions_and_branches_leave_loops() {
    insta::assert_snapshot!(hoisted(
        "parallel i < n {
           parallel j < m {
             v2 = reduce l < m { v0 = load %x[i, l] v1 = load %b[j] v10 = mul v0, v0 } with sum lanes v10
             v3 = const bool true
             v6 = if v3 { v4 = load %x[i, 0] yield v4 } else { v5 = load %b[0] yield v5 }
             v9 = reduce p < m { v7 = load %x[i, p] v8 = load %b[j] v11 = mul v7, v8 } with sum lanes v11
             v12 = add v2, v6 v13 = add v12, v9
             store %y[i, j], v13
           }
         }"
    ), @r"
    kernel @k {
      v0 = const bool true
      parallel i < n {
        v3 = reduce l < m {
          v1 = load %x[i, l]
          v2 = mul v1, v1
        } with sum lanes v2
        v6 = if v0 {
          v4 = load %x[i, 0]
          yield v4
        } else {
          v5 = load %b[0]
          yield v5
        }
        v7 = add v3, v6
        parallel j < m {
          v8 = load %b[j]
          v9 = load %b[j]
          v12 = reduce p < m {
            v10 = load %x[i, p]
            v11 = mul v10, v9
          } with sum lanes v11
          v13 = add v7, v12
          store %y[i, j], v13
        }
      }
    }
    ");
}

/// Nothing leaves a branch. A check stays, and so do its uses and the kernel's stores.
#[test]
fn what_must_stay_stays() {
    insta::assert_snapshot!(hoisted(
        "parallel i < n {
           v20 = load %c[]
           store %t[i, 0], v20
           parallel j < m {
             v0 = affine j
             v1 = affine i
             v2 = lt v0, v1
             v9 = if v2 {
               v3 = load %x[i, 0]
               v5 = reduce l < m { v4 = load %x[i, l] v6 = load %b[0] v7 = mul v6, v4 } with sum lanes v7
               v8 = add v3, v5
               yield v8
             } else { yield v20 }
             v10 = load %k[i]
             v11 = check v10 < n at site0
             v12 = load %x[v11, 0]
             v13 = load %t[i, 0]
             v14 = add v9, v12
             v15 = add v14, v13
             store %y[i, j], v15
           }
         }"
    ), @r"
    kernel @k {
      v0 = load %c[]
      parallel i < n {
        store %t[i, 0], v0
        v1 = affine i
        v2 = load %k[i]
        parallel j < m {
          v3 = affine j
          v4 = lt v3, v1
          v11 = if v4 {
            v5 = load %x[i, 0]
            v6 = load %b[0]
            v9 = reduce l < m {
              v7 = load %x[i, l]
              v8 = mul v6, v7
            } with sum lanes v8
            v10 = add v5, v9
            yield v10
          } else {
            yield v0
          }
          v12 = check v2 < n at site0
          v13 = load %x[v12, 0]
          v14 = load %t[i, 0]
          v15 = add v11, v13
          v16 = add v15, v14
          store %y[i, j], v16
        }
      }
    }
    ");
    insta::assert_snapshot!(hoisted(
        "scan s < n {
           v0 = load %c[]
           v1 = prefix sum v0
           v2 = load %b[0]
           v3 = add v1, v2
           store %z[s], v3
         }"
    ), @r"
    kernel @k {
      v0 = load %c[]
      scan s < n {
        v1 = prefix sum v0
        v2 = load %b[0]
        v3 = add v1, v2
        store %z[s], v3
      }
    }
    ");
}

/// A check fails only if its loops run, so neither a branch nor a reduction is hoisted with it.
#[test]
fn what_holds_a_check_stays() {
    insta::assert_snapshot!(hoisted(
        "parallel i < n {
           v0 = load %k[i]
           v1 = load %c[]
           v2 = lt v1, v1
           parallel j < m {
             v5 = if v2 { v3 = check v0 < n at site0 v4 = load %x[v3, 0] yield v4 } else { yield v1 }
             v8 = reduce l < 2 { v6 = check v0 < n at site0 v7 = load %x[v6, l] } with sum lanes v7
             v9 = add v5, v8
             store %y[i, j], v9
           }
         }"
    ), @r"
    kernel @k {
      v0 = load %c[]
      v1 = lt v0, v0
      parallel i < n {
        v2 = load %k[i]
        parallel j < m {
          v5 = if v1 {
            v3 = check v2 < n at site0
            v4 = load %x[v3, 0]
            yield v4
          } else {
            yield v0
          }
          v8 = reduce l < 2 {
            v6 = check v2 < n at site0
            v7 = load %x[v6, l]
          } with sum lanes v7
          v9 = add v5, v8
          store %y[i, j], v9
        }
      }
    }
    ");
}

#[test]
fn contractions_are_loops_too() {
    insta::assert_snapshot!(hoisted(
        "v20 = contract i < n, j < m over l < m {
           left { v0 = load %x[i, l] v1 = load %c[] v2 = mul v0, v1 yield v2 }
           right { v3 = load %x[l, j] yield v3 }
           epilogue { v4 = load %c[] v5 = load %b[0] v6 = add v5, v4 v7 = add v6, v20 store %y[i, j], v7 }
         }"
    ), @r"
    kernel @k {
      v0 = load %c[]
      v1 = load %c[]
      v5 = contract i < n, j < m over l < m {
        left {
          v2 = load %x[i, l]
          v3 = mul v2, v0
          yield v3
        }
        right {
          v4 = load %x[l, j]
          yield v4
        }
        epilogue {
          v6 = load %b[0]
          v7 = add v6, v1
          v8 = add v7, v5
          store %y[i, j], v8
        }
      }
    }
    ");
    insta::assert_snapshot!(hoisted(
        "parallel p < n {
           v20 = contract j < m over l < m {
             left { v0 = load %x[p, l] v1 = load %x[p, 0] v2 = mul v0, v1 yield v2 }
             right { v3 = load %x[p, 1] yield v3 }
             epilogue { v5 = load %b[0] v6 = neg v5 v7 = add v6, v20 store %y[p, j], v7 }
           }
         }"
    ), @r"
    kernel @k {
      parallel p < n {
        v0 = load %x[p, 0]
        v1 = load %x[p, 1]
        v2 = load %b[0]
        v3 = neg v2
        v6 = contract j < m over l < m {
          left {
            v4 = load %x[p, l]
            v5 = mul v4, v0
            yield v5
          }
          right {
            yield v1
          }
          epilogue {
            v7 = add v3, v6
            store %y[p, j], v7
          }
        }
      }
    }
    ");
}

/// A load that does not mention its loop's index leaves the loop if it is in bounds even without
/// iterations: because of the enclosing loops (`%k[0]` in one over `n`), the requirements of the
/// program, always (`%b[1]`) or while enclosing loops run (`%k[2]`), its check, or its type.
#[test]
fn loads_stay_in_loops_that_may_be_empty() {
    insta::assert_snapshot!(hoisted(
        "parallel i < 3 {
           parallel j < n {
             v0 = load %k[0]
             v1 = load %b[1]
             v2 = load %b[2]
             v3 = load %k[i]
             v4 = check v3 < m at site1
             parallel p < m {
               v5 = load %k[0]
               v6 = load %k[1]
               v7 = load %b[v4]
               v8 = load %b[v3]
               v9 = add v7, v8
               v10 = add v5, v6
               store %t[j, p], v9
               store %z[j], v9
             }
           }
           v20 = reduce l < 4 {
             v21 = reduce r < n { v11 = load %k[i] v14 = load %b[i] v12 = load %x[i, l] v13 = add v12, v14 } with sum lanes v13
           } with sum lanes v21
           v30 = reduce q < m - 5 {
             v35 = reduce t < n { v31 = load %k[2] v32 = load %k[3] v34 = add v31, v32 v33 = cast f32 v34 } with sum lanes v33
           } with sum lanes v35
           v40 = affine 0
           v41 = reduce s < v40 { v42 = load %b[0] v43 = load %b[s] v44 = add v42, v43 } with sum lanes v44
           v45 = add v41, v20
           store %y[i, 0], v45
         }"
    ), @r"
    kernel @k {
      v0 = affine 0
      parallel i < 3 {
        v1 = load %b[1]
        parallel j < n {
          v2 = load %k[0]
          v3 = load %b[2]
          v4 = load %k[i]
          v5 = check v4 < m at site1
          v6 = load %k[0]
          v7 = load %b[v5]
          parallel p < m {
            v8 = load %k[1]
            v9 = load %b[v4]
            v10 = add v7, v9
            v11 = add v6, v8
            store %t[j, p], v10
            store %z[j], v10
          }
        }
        v17 = reduce l < 4 {
          v16 = reduce r < n {
            v12 = load %k[i]
            v13 = load %b[i]
            v14 = load %x[i, l]
            v15 = add v14, v13
          } with sum lanes v15
        } with sum lanes v16
        v23 = reduce q < m - 5 {
          v18 = load %k[2]
          v22 = reduce t < n {
            v19 = load %k[3]
            v20 = add v18, v19
            v21 = cast f32 v20
          } with sum lanes v21
        } with sum lanes v22
        v24 = load %b[0]
        v27 = reduce s < v0 {
          v25 = load %b[s]
          v26 = add v24, v25
        } with sum lanes v26
        v28 = add v27, v17
        store %y[i, 0], v28
      }
    }
    ");
}

/// A load that is in bounds only if a check passes (`%k[2]`, where `m - 5` is above 0) stays after
/// it; one that always is (`%b[1]`) does not.
#[test]
fn what_needs_a_check_stays_behind_it() {
    insta::assert_snapshot!(hoisted(
        "parallel i < n {
           v0 = load %k[i]
           v6 = reduce l < 4 {
             v1 = check v0 < m - 5 at site0
             v2 = load %k[2]
             v3 = load %b[1]
             v4 = cast f32 v2
             v5 = add v3, v4
           } with sum lanes v5
           store %z[i], v6
         }"
    ), @r"
    kernel @k {
      parallel i < n {
        v0 = load %k[i]
        v1 = load %b[1]
        v6 = reduce l < 4 {
          v2 = check v0 < m - 5 at site0
          v3 = load %k[2]
          v4 = cast f32 v3
          v5 = add v1, v4
        } with sum lanes v5
        store %z[i], v6
      }
    }
    ");
}
