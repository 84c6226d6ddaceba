//! The text form: what is printed reads back, and no text makes the parser fail otherwise than by an error.

use ir::nest::Program;
use proptest::prelude::*;

/// One of everything, as the printer writes it.
const PROGRAM: &str = r#"program @"all of it" {
  symbol n = dim 0 of input 0
  symbol "v1" = value of input 2
  input %x: f32[n, 3]
  input 2 %k: i32
  input 1 %idx: i64[(n + 1) / 2]
  output %y: f32[n]
  temp %"odd name": f16[2 * n + "v1" - 1]
  scratch %row: f32[n]
  constant %c: f32[6] = [1.5, -0.0, nan, -inf, 1e-45, 0x7f800001]
  constant %h: bf16[2] = [1.0, 0.100097656]
  constant %b: bool[2] = [true, false]
  slot0 = %"odd name", %y
  slot1 = %y
  site0 = axis 0 of "x \"quoted\"" at 12..20
  site1 = axis 1 of "y" at 0..0
  require n == "v1" as "axis 0 of x", "k" at 3..9
  require n - 1 <= 3 * (n / 2) unless empty(n, "v1") as "left", "right" at 0..0
  function @tanh.f32 = tanh(v0: f32) {
    v1 = const f32 1.0
    v2 = lt v0, v1
    v5 = if v2 {
      v3 = neg v0
      yield v3
    } else {
      v4 = fma v0, v1, v0
      yield v4
    }
    yield v5
  }
  kernel @max at 3..9, 10..12 {
    parallel i < n, j < 3 {
      v0 = load %x[i, j]
      v1 = call @tanh.f32(v0)
      v2 = affine n * i - j - n + 1
      v3 = check v2 < n at site0
      v4, v5 = reduce p < i + 1, q < v3 {
        v6 = load %x as [3 * n][3 * p + q]
        v7 = load %idx[v3]
        v8 = select v7, v6, v1
      } with max free v6, sum lanes v8
      if v2 {
        store %y[i], v4
      }
    }
    scan s < n {
      v9 = load %c[s]
      v10 = prefix sum v9
      store %y[(n + 1) * s], v10
    }
    v13: f64 = contract f < 2 over g < 3 {
      left {
        v11 = load %x[f, g]
        yield v11
      }
      right {
        v12 = cast f32 v9
        yield v12
      }
      epilogue {
        store %y[f], v13
      }
    }
    serial t < -n + 9 {
      v14 = const f64 1e300
      v15 = bitcast i64 v14
      v16 = not v15
    }
  }
  kernel @second {
    indices b, a
    parallel a < n {
      parallel b < n {
        v1 = load %k[]
        store %y[b + 2 * a], v1
      }
    }
  }
}
"#;

#[test]
fn what_is_printed_reads_back() {
    let program: Program = PROGRAM.parse().unwrap();
    let text = program.to_string();
    assert_eq!(text, PROGRAM);
    assert_eq!(text.parse::<Program>().unwrap(), program);
}

#[test]
fn errors_say_where() {
    let error = |text: &str| text.parse::<Program>().unwrap_err().to_string();
    insta::assert_snapshot!(error("program @\"a b\"("), @"1:15: expected `{`, found `(`");
    insta::assert_snapshot!(error("program @p {\n  kernel @k { store %y[0], v0 }\n}"), @"2:22: there is no buffer %y");
    insta::assert_snapshot!(error("program @p {\n  temp %t: f32[n]\n}"), @"2:16: there is no index or size n");
    insta::assert_snapshot!(error("program @p { ~"), @"1:14: a character that no token begins with");
    insta::assert_snapshot!(error(&format!("program @p {{ temp %t: f32[{}", "(".repeat(1000))), @"1:128: nested more than 100 deep");
    let doubling = format!(
        "program @p {{ symbol n = value of input 0 temp %t: f32[{}n{}",
        "(".repeat(60),
        " / 2 + 1) * (n + 1)".repeat(60)
    );
    insta::assert_snapshot!(error(&doubling), @"1:267: the expression is too large");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Cuts, copies and swaps of pieces of a real program: mostly wrong in deep places.
    #[test]
    fn no_text_is_too_odd(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4usize), 1..6)) {
        let mut words: Vec<&str> = PROGRAM.split_inclusive([' ', '\n', '[', ']', ',']).collect();
        for (a, b, kind) in edits {
            let (a, b) = (a.index(words.len()), b.index(words.len()));
            match kind {
                0 => { words.remove(a); }
                1 => words.swap(a, b),
                2 => words.insert(a, words[b]),
                _ => words[a] = words[b],
            }
        }
        if let Ok(program) = words.concat().parse::<Program>() {
            let text = program.to_string();
            prop_assert_eq!(text.parse::<Program>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn no_characters_are_too_odd(text in "\\PC*") {
        let _ = text.parse::<Program>();
    }
}
