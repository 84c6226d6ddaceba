//! The text form: printed programs are read back, and any text the parser fails on gives an error.

use ir::nest::Program;
use proptest::prelude::*;

/// One of everything, as the printer writes it.
const PROGRAM: &str = r#"program @"all of it" {
  symbol n = dim 0 of input 0
  symbol "v1" = value of input 2
  symbol m = (n - 1) / 2 for dim 1 of input 0
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
    let function = "program @p {\n  function @f = exp(v0: f32) {\n    serial i < 2 {\n    }\n    yield v0\n  }\n}";
    insta::assert_snapshot!(error(function), @"3:12: a function has no loops");
    let one_sided = "program @p { kernel @k { v0 = const bool true v1 = if v0 { yield v0 } } }";
    insta::assert_snapshot!(error(one_sided), @"1:69: each side yields 1 values");
    insta::assert_snapshot!(error("program @p { ~"), @"1:14: a character that no token begins with");
    insta::assert_snapshot!(error(&format!("program @p {{ temp %t: f32[{}", "(".repeat(1000))), @"1:128: nested more than 100 deep");
    let doubling = format!(
        "program @p {{ symbol n = value of input 0 temp %t: f32[{}n{}",
        "(".repeat(60),
        " / 2 + 1) * (n + 1)".repeat(60)
    );
    insta::assert_snapshot!(error(&doubling), @"1:267: the expression is too large");
}

/// Just within each limit, and just beyond.
#[test]
fn numbers_and_sizes_have_limits() {
    let message = |text: &str| text.parse::<Program>().err().map(|error| error.message);
    let large = Some("the number is too large".to_string());
    for (value, expected) in [("v1048575", None), ("v1048576", large)] {
        assert_eq!(message(&format!("program @p {{ kernel @k {{ {value} = const i8 1 }} }}")), expected, "{value}");
    }
    let site = |number: u32| message(&format!("program @p {{ site{number} = axis 0 of \"x\" at 0..0 }}"));
    assert_eq!(site(u32::MAX - 1).as_deref(), Some("sites are numbered in order"));
    assert_eq!(site(u32::MAX).as_deref(), Some("expected a site such as `site0`, found `site4294967295`"));
    // A quotient of 62 atoms, and 4092 in all: a name comes to 2, a square to 3, a number to 1.
    let quotient = |by: usize| format!("n / {by}{}", " / 2".repeat(19));
    let most = (2..68).map(quotient).collect::<Vec<_>>().join(" + ");
    let factor = format!("{} + n", quotient(3));
    for (size, fits) in [
        (format!("{most} + n * n + 1"), true),
        (format!("{most} + n * n + n"), false),
        (format!("{most} + overflow(1) + 1"), true),
        (format!("{most} + overflow(1) + n"), false),
        (format!("({factor}) * ({factor})"), true),
        (format!("({factor}) * ({factor} + 1)"), false),
    ] {
        let found = message(&format!("program @p {{ symbol n = value of input 0 temp %t: f32[{size}] }}"));
        assert_eq!(found, (!fits).then(|| "the expression is too large".to_string()), "{size}");
    }
    let divided =
        |times: usize| format!("program @p {{ symbol n = value of input 0 temp %t: f32[n{}] }}", " / 2".repeat(times));
    let program: Program = divided(100).parse().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(program.to_string().parse::<Program>().as_ref().map(Program::to_string), Ok(program.to_string()));
    for times in [101, 100_000] {
        assert_eq!(message(&divided(times)).as_deref(), Some("nested more than 100 deep"), "{times}");
    }
}

/// Constants of every type, including NaNs by their bits, and unprintable characters.
#[test]
fn odd_values_and_names_read_back() {
    let program = "program @\"a \\u{7} \\u{1f600} \\\\ \\\"\" {
  output %r: f32
  constant %h: f16[3] = [nan, 0x7e01, 0xfe00]
  constant %b: bf16[3] = [nan, 0x7fc1, 0xffc0]
  constant %s: f32[3] = [nan, 0x7fc00001, 0xffc00000]
  constant %d: f64[3] = [nan, 0x7ff8000000000001, -1.5]
  constant %i: i8[2] = [-128, 127]
  kernel @k {
    v0 = const f32 -0.0
    reduce i < 3 {
    }
    store %r[], v0
  }
}
";
    let read: Program = program.parse().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(read.to_string(), program.replace("\\u{1f600}", "\u{1f600}"));
    assert_eq!(read.to_string().parse::<Program>().unwrap().to_string(), read.to_string());
    for wrong in ["\\u0041", "\\u{110000}", "\\u{}", "\\n"] {
        let error = format!("program @\"{wrong}\" {{ }}").parse::<Program>().unwrap_err().to_string();
        assert!(error.contains("escape") || error.contains("no character"), "{wrong}: {error}");
    }
    for wrong in ["0x1ffffffff", "-0x1", "0xg", "-"] {
        let text = format!("program @p {{ constant %c: f32[1] = [{wrong}] }}");
        assert!(text.parse::<Program>().is_err(), "{wrong}");
    }
}

#[test]
fn signs_bind_to_their_factors() {
    for (text, printed) in [
        ("2 * -n + 9", "-2 * n + 9"),
        ("-(n + 1) * 3 + 9", "-3 * n + 6"),
        ("n * -2 + 9", "-2 * n + 9"),
        ("-9223372036854775808 + n", "n - 9223372036854775808"),
    ] {
        let text = format!("program @p {{ symbol n = value of input 0 input %n: i64 temp %t: f32[{text}] }}");
        let read = text.parse::<Program>().unwrap_or_else(|e| panic!("{text}: {e}")).to_string();
        assert!(read.contains(&format!("f32[{printed}]")), "{text}: {read}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Cuts, copies and swaps of pieces of a real program, mostly invalid in deep places.
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
