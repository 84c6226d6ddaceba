//! Sessions: what persists, what errors leave, and where they are drawn.

use super::*;
use crate::print::to_text;

/// What is printed of each value.
fn texts(session: &mut Session, text: &str) -> Vec<String> {
    let outcomes = session.enter(text).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let text = |(name, value): &(String, Arc<Array>)| format!("{name} {}", to_text(value.as_ref().as_ref()));
    outcomes
        .iter()
        .flat_map(|outcome| match outcome {
            Outcome::Defined { signature } => vec![signature.to_string()],
            Outcome::Bound { values } => values.iter().map(text).collect(),
            Outcome::Value { results } => results.iter().map(text).collect(),
        })
        .collect()
}

#[test]
fn values_and_functions_persist() {
    let mut session = Session::default();
    assert_eq!(texts(&mut session, "sum(iota(10))"), ["out 45"]);
    assert_eq!(texts(&mut session, "_ + 1; _ * 2"), ["out 46", "out 92"]);
    assert_eq!(texts(&mut session, "let n = 4; let y[i < n] = i * i; y"), ["n 4", "y [0 1 4 9]", "out [0 1 4 9]"]);
    assert_eq!(texts(&mut session, "let y = y + 1"), ["y [ 1  2  5 10]"]);
    assert_eq!(texts(&mut session, "reshape(_, _, 2)"), ["out [[0 1]\n [4 9]]"]);
    let defined = texts(&mut session, "fn two(x: f32[n]) = (g(x), sum(x))\nfn g(x: f32[n]) = x * 2\n");
    assert_eq!(defined[1], "fn g(x: f32[n]) -> f32[n]");
    assert_eq!(texts(&mut session, "let (a, b) = two([1.0, 2.5])"), ["a [2. 5.]", "b 3.5"]);
    assert_eq!(texts(&mut session, "two(a)"), ["out0 [ 4. 10.]", "out1 7.0"]);
    // What calls a function that is defined anew calls the new one.
    texts(&mut session, "fn g(x: f32[n]) = -x");
    assert_eq!(texts(&mut session, "two(a)")[0], "out0 [-2. -5.]");
}

#[test]
fn errors_leave_it_as_it_was_and_are_drawn_over_what_was_typed() {
    let mut session = Session::default();
    texts(&mut session, "let x = [1, 2, 3]; fn f(v: i64[n]) {\n    v * 2\n}");
    let error = session.enter("let x = 7; x + y").unwrap_err().to_string();
    assert!(error.contains("--> <input>:1:16") && error.contains("let x = 7; x + y"), "{error}");
    assert_eq!(texts(&mut session, "x"), ["out [1 2 3]"]);
    let error = session.enter("x + [1, 2]").unwrap_err().to_string();
    assert!(error.contains("x + [1, 2]\n  | ^^^^^^^^^^"), "{error}");
    assert!(session.enter("let x = 1; sum(").is_err() && is_unfinished("let x = 1; sum("));
}

#[test]
fn errors_in_functions_are_drawn_over_these() {
    let mut session = Session::default();
    session.enter_from("a.fl", "\n\nfn f(v: i64[n]) = v + [1, 2]", &Cancel::default()).unwrap();
    let error = session.enter("f([1, 2, 3])").unwrap_err().to_string();
    assert!(error.contains("--> a.fl:3:19") && error.contains("::: <input>:1:1"), "{error}");
}

#[test]
fn files_are_loaded_where_they_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (name, value) in [("a-b.npy", 1i64), ("a_b.npy", 2)] {
        let place = crate::files::Place::parse(&file(name)).unwrap();
        let array = Array::scalar(crate::Scalar::I64(value));
        crate::files::save(&[(place, array.as_ref())], crate::files::Packing::Stored).unwrap();
    }
    let mut session = Session::default();
    let (a, b) = (file("a-b.npy"), file("a_b.npy"));
    assert_eq!(texts(&mut session, &format!("let x = 10 * load(\"{a}\") + load(\"{b}\")")), ["x 12"]);
    let error = session.enter("1 + load(\"none.npy\")").unwrap_err().to_string();
    assert!(error.contains("1 + load(\"none.npy\")\n  |          ^^^^^^^^^^"), "{error}");
    assert!(session.enter("load(\"a.txt\")").is_err());
}
