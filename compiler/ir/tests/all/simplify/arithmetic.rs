//! Arithmetic on indices is simplified if extents are constants.

use ir::rewrite::{erase_unused, simplify};

use super::after;

fn simplified(body: &str) -> String {
    after(body, |_, kernel| {
        simplify(kernel);
        let before = kernel.clone();
        assert!(!simplify(kernel));
        assert_eq!(*kernel, before);
        erase_unused(&mut kernel.body);
    })
}

/// The simplified value of an expression of `i < 4`, `j < 3`, `s < n` and sizes.
fn value(expression: &str) -> String {
    let text = simplified(&format!(
        "parallel i < 4, j < 3, s < n {{
           v1 = const i64 3
           v2 = const i64 -3
           v3 = affine 3 * i + j
           {expression}
           v90 = cast f32 v9
           store %y[i, s], v90
         }}"
    ));
    let defined = text.lines().find(|line| line.contains("= cast f32")).unwrap();
    let id = defined.rsplit(' ').next().unwrap();
    let is = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{id} = "))).unwrap();
    is.to_owned()
}

#[test]
fn digits_are_taken_apart() {
    for (expression, is) in [
        ("v9 = div v3, v1", "affine i"),
        ("v9 = rem v3, v1", "affine j"),
        ("v4 = affine 3 * i + j + 5 v9 = div v4, v1", "div v1, v0"),
        ("v4 = affine 3 * i + 7 v9 = div v4, v1", "affine i + 2"),
        ("v4 = affine 3 * i + 7 v9 = rem v4, v1", "affine 1"),
        ("v4 = affine 6 * i - 3 * j + 6 v9 = div v4, v1", "affine 2 * i + 2 - j"),
        ("v4 = affine 6 * i - 3 * j + 5 v9 = div v4, v1", "div v1, v0"),
        ("v4 = affine 3 * s + j v9 = div v4, v1", "div v1, v0"),
        ("v4 = affine 3 * i + s v9 = div v4, v1", "div v1, v0"),
        ("v9 = div v3, v2", "div v1, v0"),
        ("v4 = affine i v9 = div v3, v4", "div v0, v1"),
        ("v4 = mul v1, v3 v9 = add v4, v2", "affine 9 * i + 3 * j - 3"),
        ("v4 = div v3, v1 v5 = mul v4, v1 v9 = sub v3, v5", "affine j"),
        ("v4 = affine n v9 = mul v4, v3", "affine 3 * n * i + n * j"),
        ("v4 = affine s v9 = mul v4, v3", "mul v1, v0"),
        ("v4 = affine 0 v5 = min v1, v4 v9 = max v5, v2", "affine 0"),
        ("v9 = min v3, v1", "min v1, v0"),
    ] {
        assert_eq!(value(expression), is, "{expression}");
    }
}

/// A condition on an index stays, whatever its extent, because statements under it may rely on the
/// index having a value.
#[test]
fn conditions_between_constants_are_decided() {
    insta::assert_snapshot!(simplified(
        "parallel i < 4, s < n {
           v0 = const i64 0
           v1 = affine i
           v2 = const i64 4
           v3 = lt v0, v2
           v4 = not v3
           v5 = lt v1, v2
           v10 = if v3 { v6 = load %x[i, 0] yield v6 } else { v7 = load %b[9] yield v7 }
           v11 = if v4 { v8 = load %b[8] yield v8 } else { v9 = load %x[i, 1] yield v9 }
           v12 = select v4, v10, v11
           v14 = if v5 { v13 = load %b[0] yield v13 } else { yield v12 }
           store %y[i, s], v14
         }"
    ), @r"
    kernel @k {
      parallel i < 4, s < n {
        v0 = affine i
        v1 = const i64 4
        v2 = lt v0, v1
        v3 = load %x[i, 1]
        v5 = if v2 {
          v4 = load %b[0]
          yield v4
        } else {
          yield v3
        }
        store %y[i, s], v5
      }
    }
    ");
}

#[test]
fn values_become_subscripts() {
    insta::assert_snapshot!(simplified(
        "parallel i < 4, j < 3 {
           v0 = affine 3 * i + j
           v1 = const i64 3
           v2 = div v0, v1
           v3 = rem v0, v1
           v4 = load %x[v2, v3]
           v5 = load %k[i]
           v6 = check v5 < m at site1
           v7 = load %x[v2, v6]
           v8 = add v4, v7
           store %y[i, j], v8
         }"
    ), @r"
    kernel @k {
      parallel i < 4, j < 3 {
        v0 = load %x[i, j]
        v1 = load %k[i]
        v2 = check v1 < m at site1
        v3 = load %x[i, v2]
        v4 = add v0, v3
        store %y[i, j], v4
      }
    }
    ");
}
