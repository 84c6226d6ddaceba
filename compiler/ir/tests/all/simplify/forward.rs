//! Stored elements are not loaded again, and elements that are never loaded are not stored.

use std::collections::BTreeSet;

use ir::rewrite::{erase_stores, forward};

use super::after;

fn forwarded(body: &str) -> String {
    after(body, |program, kernel| {
        forward(program, kernel);
        assert_eq!(forward(program, kernel), 0);
    })
}

#[test]
fn what_was_stored_is_not_loaded() {
    insta::assert_snapshot!(forwarded(
        "parallel i < n {
           parallel j < m {
             v0 = load %x[i, j]
             store %t[i, j], v0
             v1 = load %t[i, j]
             v2 = neg v1
             store %e[j], v2
             v3 = load %t as [n, m][i, j]
             v4 = reduce l < 2 { v5 = load %e[j] v6 = mul v5, v3 } with sum lanes v6
             v7 = load %t as [m, n][j, i]
             v8 = add v4, v7
             store %y[i, j], v8
           }
           v10 = reduce p < m { v9 = load %e[p] } with sum lanes v9
           store %z[i], v10
         }"
    ), @r"
    kernel @k {
      parallel i < n {
        parallel j < m {
          v0 = load %x[i, j]
          store %t[i, j], v0
          v1 = neg v0
          store %e[j], v1
          v3 = reduce l < 2 {
            v2 = mul v1, v0
          } with sum lanes v2
          v4 = load %t as [m, n][j, i]
          v5 = add v3, v4
          store %y[i, j], v5
        }
        v7 = reduce p < m {
          v6 = load %e[p]
        } with sum lanes v6
        store %z[i], v7
      }
    }
    ");
    // A subscript may itself have been stored, and a branch has stored nothing for later
    // statements.
    insta::assert_snapshot!(forwarded(
        "parallel i < n {
           v0 = load %x[i, 0]
           v1 = const bool true
           if v1 { store %e[0], v0 v2 = load %e[0] store %z[i], v2 }
           parallel j < m {
             v3 = load %b[j]
             store %t[i, j], v3
             v4 = load %e[0]
             v5 = load %t[i, j]
             v6 = sub v4, v5
             v9 = if v1 { v7 = load %t[i, j] yield v7 } else { v8 = load %t[i, 0] yield v8 }
             v10 = add v6, v9
             store %y[i, j], v10
           }
         }"
    ), @r"
    kernel @k {
      parallel i < n {
        v0 = load %x[i, 0]
        v1 = const bool true
        if v1 {
          store %e[0], v0
          store %z[i], v0
        }
        parallel j < m {
          v2 = load %b[j]
          store %t[i, j], v2
          v3 = load %e[0]
          v4 = sub v3, v2
          v6 = if v1 {
            yield v2
          } else {
            v5 = load %t[i, 0]
            yield v5
          }
          v7 = add v4, v6
          store %y[i, j], v7
        }
      }
    }
    ");
}

#[test]
fn stores_that_nothing_needs_go_with_what_they_alone_need() {
    let erase = |body: &str, name: &str| {
        after(body, |program, kernel| {
            let of_name = |id: &_| program.buffers[*id].name == name;
            erase_stores(kernel, &program.buffers.keys().filter(of_name).collect::<BTreeSet<_>>());
        })
    };
    insta::assert_snapshot!(erase(
        "parallel i < n {
           v3 = reduce j < m { v0 = load %x[i, j] v1 = neg v0 v2 = load %b[j] store %t[i, j], v2 } with sum lanes v1
           v6 = reduce l < m { v4 = load %x[i, l] store %t[i, l], v4 store %y[i, l], v4 } with max free v4
           store %z[i], v3
         }",
        "t"
    ), @r"
    kernel @k {
      parallel i < n {
        v2 = reduce j < m {
          v0 = load %x[i, j]
          v1 = neg v0
        } with sum lanes v1
        parallel l < m {
          v3 = load %x[i, l]
          store %y[i, l], v3
        }
        store %z[i], v2
      }
    }
    ");
    insta::assert_snapshot!(erase(
        "v9 = contract i < n, j < m over l < m {
           left { v0 = load %k[i] v1 = check v0 < n at site0 v2 = load %x[v1, l] yield v2 }
           right { v3 = load %x[l, j] yield v3 }
           epilogue { store %t[i, j], v9 }
         }
         v10 = contract p < n over q < m {
           left { v4 = load %x[p, q] yield v4 }
           right { v5 = load %b[q] yield v5 }
           epilogue { store %t[p, 0], v10 }
         }",
        "t"
    ), @r"
    kernel @k {
      parallel i < n, j < m, l < m {
        v0 = load %k[i]
        v1 = check v0 < n at site0
      }
    }
    ");
}
