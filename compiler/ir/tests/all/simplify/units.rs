//! An axis of length 1 is no loop.

use ir::rewrite::drop_units;

use super::after;

fn dropped(body: &str) -> String {
    after(body, |program, kernel| {
        drop_units(program, kernel);
        let before = kernel.clone();
        assert_eq!(drop_units(program, kernel), 0);
        assert_eq!(*kernel, before);
    })
}

#[test]
fn indices_of_one_value_are_zero() {
    insta::assert_snapshot!(dropped(
        "parallel i < 1, j < m {
           serial p < 1 {
             v0 = load %x[i, j]
             v1 = affine 3 * i + p + j
             v2 = cast f32 v1
             v3 = add v0, v2
             store %y[i + p, j], v3
           }
         }"
    ), @r"
    kernel @k {
      parallel j < m {
        v0 = load %x[0, j]
        v1 = affine j
        v2 = cast f32 v1
        v3 = add v0, v2
        store %y[0, j], v3
      }
    }
    ");
}

/// A kernel may end up without a loop; reductions, scans and the sums of contractions keep one
/// index.
#[test]
fn what_needs_an_index_keeps_one() {
    insta::assert_snapshot!(dropped(
        "parallel i < 1 {
           v1 = reduce j < 1, l < 1 { v0 = load %x[j, l] } with sum lanes v0
           store %z[i], v1
         }"
    ), @r"
    kernel @k {
      v1 = reduce l < 1 {
        v0 = load %x[0, l]
      } with sum lanes v0
      store %z[0], v1
    }
    ");
    insta::assert_snapshot!(dropped(
        "parallel i < n {
           v1 = reduce j < 1, l < m { v0 = load %x[i + j, l] } with sum lanes v0
           store %z[i], v1
         }"
    ), @r"
    kernel @k {
      parallel i < n {
        v1 = reduce l < m {
          v0 = load %x[i, l]
        } with sum lanes v0
        store %z[i], v1
      }
    }
    ");
    insta::assert_snapshot!(dropped(
        "v2 = contract p < 1, i < n, j < m over q < 1, l < 1 {
           left { v0 = load %x[i, q + l] yield v0 }
           right { v1 = load %x[l, j] yield v1 }
           epilogue { store %y[i + p, j], v2 }
         }"
    ), @r"
    kernel @k {
      v2 = contract i < n, j < m over l < 1 {
        left {
          v0 = load %x[i, l]
          yield v0
        }
        right {
          v1 = load %x[l, j]
          yield v1
        }
        epilogue {
          store %y[i, j], v2
        }
      }
    }
    ");
    insta::assert_snapshot!(dropped("scan s < 1 { v0 = load %c[] v1 = prefix sum v0 store %z[s], v1 }"), @r"
    kernel @k {
      scan s < 1 {
        v0 = load %c[]
        v1 = prefix sum v0
        store %z[s], v1
      }
    }
    ");
}

/// A subscript along an axis of length 1 is 0 in either shape.
#[test]
fn views_with_axes_of_one_are_their_buffers() {
    insta::assert_snapshot!(dropped(
        "parallel i < 1, j < n, l < m {
           v0 = load %x as [1, n, m][i, j, l]
           v1 = load %x as [n, 1, m, 1][j, 0, l, i]
           v2 = load %x as [m, n][0, j]
           v3 = load %c as [1, 1][i, i]
           v4 = add v0, v1 v5 = add v2, v3 v6 = add v4, v5
           store %y[j, l], v6
         }"
    ), @r"
    kernel @k {
      parallel j < n, l < m {
        v0 = load %x[j, l]
        v1 = load %x[j, l]
        v2 = load %x as [m, n][0, j]
        v3 = load %c[]
        v4 = add v0, v1
        v5 = add v2, v3
        v6 = add v4, v5
        store %y[j, l], v6
      }
    }
    ");
}
