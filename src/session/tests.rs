//! Sessions: what persists, what an error leaves unchanged, and where errors are drawn.

use super::*;
use crate::print::{Format, to_text};
use crate::{Dtype, Scalar};

/// The printed form of each value.
fn texts(session: &mut Session, text: &str) -> Vec<String> {
    let outcomes = session.enter(text).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let text = |(name, value): &(String, Arc<Array>)| {
        format!("{name} {}", to_text(value.as_ref().as_ref(), &Format::default()))
    };
    outcomes
        .iter()
        .flat_map(|outcome| match outcome {
            Outcome::Used { line, .. } => vec![line.clone()],
            Outcome::Defined { signature, .. } => vec![signature.to_string()],
            Outcome::Waits { name, errors } => vec![format!("{name} waits\n{errors}")],
            Outcome::Refused { errors } => vec![format!("refused\n{errors}")],
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
    assert_eq!(
        texts(&mut session, "let n = 4; let y[i < n] = i * i; y"),
        ["n 4", "y [0, 1, 4, 9]", "out [0, 1, 4, 9]"]
    );
    assert_eq!(texts(&mut session, "let y = y + 1"), ["y [ 1,  2,  5, 10]"]);
    assert_eq!(texts(&mut session, "reshape(_, _, 2)"), ["out [[0, 1],\n [4, 9]]"]);
    let defined = texts(&mut session, "fn two(x: f32[n]) = (g(x), sum(x))\nfn g(x: f32[n]) = x * 2\n");
    assert_eq!(defined[1], "fn g(x: f32[n]) -> f32[n]");
    assert_eq!(texts(&mut session, "let (a, b) = two([1.0, 2.5])"), ["a [2., 5.]", "b 3.5"]);
    assert_eq!(texts(&mut session, "a; two(a)")[1..], ["out0 [ 4., 10.]", "out1 7.0"]);
    let error = session.enter("_").unwrap_err().to_string();
    assert!(error.contains("there is no last value") && error.contains("let (a, b) = f(x)"), "{error}");
    // A caller of a function that is defined again calls the new one.
    texts(&mut session, "fn g(x: f32[n]) = -x");
    assert_eq!(texts(&mut session, "two(a)")[0], "out0 [-2., -5.]");
}

/// Cells of a notebook: each is a program of its own, which knows those before it.
#[test]
fn a_text_is_completed_to_a_program() {
    let mut session = Session::default();
    let mut run = |name: &str, text: &str| {
        let program = crate::Program::parse_with(session.complete(name, text), &crate::Folder::default());
        let program = program.map_err(|errors| errors.to_string())?;
        session.enter_from(name, text, &Cancel::default()).map_err(|error| error.to_string())?;
        Ok::<_, String>((program, session.callers(&["f"]).join(" ")))
    };
    let signatures = |program: &crate::Program| program.functions().map(ToString::to_string).collect::<Vec<_>>();
    run("one", "\nuse nn (softmax)\n\nfn f(x: f32[n], y: f32) = softmax(x)").unwrap();
    // The warning about `f` was given with its own text.
    let (program, callers) = run("two", "fn g(x: f32[n]) = f(softmax(x), 1)").unwrap();
    assert_eq!(signatures(&program), ["fn g(x: f32[n]) -> f32[n]"]);
    assert!(program.warnings().is_empty(), "{}", program.warnings());
    assert_eq!(callers, "g");
    // A function replaces one that was picked, and one that others call.
    let (_, callers) = run("three", "fn softmax(x: f32[n]) = log_softmax(x)\nuse nn (log_softmax)").unwrap();
    assert_eq!(callers, "g");
    let (_, callers) = run("four", "fn f(x: f32[n]) = x\nfn h(x: f32[n]) = 1 + f(log_softmax(x))").unwrap();
    assert_eq!(callers, "g h");
    let error = run("five", "fn k(x: f32[n]) = g(x)").unwrap_err();
    assert!(error.contains("--> two:1:19"), "{error}");
    assert!(run("six", "let x = 1").is_err());
    assert_eq!(
        session.definition("h"),
        Some(("four".to_owned(), "\nfn h(x: f32[n]) = 1 + f(log_softmax(x))".to_owned()))
    );
}

/// A value that is printed can be entered again, with a type in front, and has the same bits.
#[test]
fn values_can_be_entered_again() {
    let mut session = Session::default();
    // Odd bits of every width, signs, extremes and NaNs.
    let bits = [0, 1, 2, 0x7f, 0x80, 0x3c01, 0x7c00, 0x7e00, 0x8000, 0x3eaa_aaab, 0x8000_0000, 0x7f80_0000]
        .into_iter()
        .chain([0x3fb9_9999_9999_999a, 0xbff5_5555_5555_5555, 1 << 63, 0x7ff0_0000_0000_0000, u64::MAX]);
    let bits: Vec<u64> = bits.collect();
    for dtype in Dtype::ALL {
        let scalars: Vec<Scalar> = bits.iter().map(|bits| Scalar::from_bits(dtype, *bits)).collect();
        let array = Array::from_scalars(dtype, &[scalars.len()], &scalars).unwrap();
        let text = format!("{dtype}({})", to_text(array.as_ref(), &Format::default()));
        let outcomes = session.enter(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let [Outcome::Value { results }] = outcomes.as_slice() else { panic!("{text}") };
        assert_eq!(*results[0].1, array, "{text}");
    }
}

#[test]
fn errors_leave_it_as_it_was_and_are_drawn_over_what_was_typed() {
    let mut session = Session::default();
    texts(&mut session, "let x = [1, 2, 3]; fn f(v: i64[n]) {\n    v * 2\n}");
    let error = session.enter("let x = 7; x + y").unwrap_err().to_string();
    assert!(error.contains("--> <input>:1:16") && error.contains("let x = 7; x + y"), "{error}");
    assert_eq!(texts(&mut session, "x"), ["out [1, 2, 3]"]);
    let error = session.enter("x + [1, 2]").unwrap_err().to_string();
    assert!(error.contains("x + [1, 2]\n  | ^^^^^^^^^^"), "{error}");
    assert!(session.enter("let x = 1; sum(").is_err());
}

#[test]
fn functions_may_be_entered_in_any_order() {
    let mut session = Session::default();
    let waits = texts(&mut session, "fn f(x: f32[n]) = g(x) + h(x)");
    assert!(waits[0].starts_with("f waits") && waits[0].contains("no function `g`"), "{waits:?}");
    assert!(texts(&mut session, "fn g(x: f32[n]) = h(x)")[0].starts_with("g waits"));
    assert!(session.enter("f([1.0])").unwrap_err().to_string().contains("no function `h`"));
    assert_eq!(session.functions().count(), 0);
    let defined = texts(&mut session, "fn h(x: f32[n]) = 2 * x");
    let signature = |name| format!("fn {name}(x: f32[n]) -> f32[n]");
    assert_eq!(defined, ["h", "f", "g"].map(signature));
    assert_eq!(texts(&mut session, "f([1.0])"), ["out [4.]"]);
    // Functions that wait for a waiting one are not tried until the last is defined, and only the
    // last is reported as missing.
    for k in 0..300 {
        texts(&mut session, &format!("fn w{k}(x: f32[n]) = w{}(x)", k + 1));
    }
    let missing: Vec<String> = session.missing().map(Errors::to_string).collect();
    assert!(missing.len() == 1 && missing[0].contains("no function `w300`"), "{missing:?}");
    assert_eq!((session.waiting().count(), texts(&mut session, "fn w300(x: f32[n]) = x").len()), (300, 301));
    assert_eq!((session.waiting().count(), session.missing().count()), (0, 0));
    // A waiting function that does not fit the one it waited for is refused, and calling a value is
    // an error at once.
    assert!(texts(&mut session, "fn a(x: f32[n]) = b(x)")[0].starts_with("a waits"));
    let defined = texts(&mut session, "fn b(x: i64) = x");
    assert!(defined[1].starts_with("refused\nerror[E0") && defined[1].contains("--> fn a:1:"), "{defined:?}");
    assert_eq!(session.waiting().count(), 0);
    assert!(session.enter("fn c(x: f32[n]) = x(1)").is_err() && session.enter("fn c(x: f32[n]) = y + d(x)").is_err());
}

#[test]
fn what_is_open_goes_on() {
    let whole = |text: &str| {
        let mut typed = Typed::default();
        // Adding line by line gives the same as all at once.
        text.split_inclusive('\n').for_each(|line| typed.push(line));
        let mut at_once = Typed::default();
        at_once.push(text);
        assert_eq!(typed.is_whole(), at_once.is_whole(), "{text}");
        typed.is_whole()
    };
    for goes_on in [
        "1 +",
        "fn f(x: f32[n]) {",
        "fn f(x: f32[n]) {\n    let y = x +\n",
        "fn f(x: f32[n]) {\n    let y = x +   # more\n\n",
        "fn f(x: f32[n]) {\n    let y[i] = sum[k < 3](\n        x[i +\n",
        "fn f(x: f32[n]) {\n    let y = if x > 0 then\n",
        "fn f(x: f32[n]) {\n    let y = if x > 0 then x\n",
        "fn f(x: f32[n]) {\n    let y = x + * 2\n    y\n",
        "fn f(x: f32[n]) {\n    let",
        "fn f(x: f32[n])\n",
        "fn f(x: f32[n])\n    -> f32[n]\n",
        "fn f(x: f32[n]) -> f32[n] =\n",
        "@kernels(1)\n",
        "let x = [1,\n",
        "let y =\n",
        "if true\n",
        "if true then 1\n",
        "load(\"a.npy\") -\n",
    ] {
        assert!(!whole(goes_on), "{goes_on}");
    }
    for ends in [
        "",
        "# nothing\n",
        "1",
        "1; 2;",
        "2 * )",
        "x]",
        "fn f(x: f32[n]) {\n    let y = x +\n        1\n    y }\n",
        "fn f(x: f32[n]) {\n    let y = x + * 2\n    y\n}\n",
        "let x = 1 2 3\n",
        &"(".repeat(3000),
    ] {
        assert!(whole(ends), "{ends}");
    }
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
        let array = Array::scalar(value);
        crate::files::save(&[(place, array.as_ref())], crate::files::Packing::Stored).unwrap();
    }
    let mut session = Session::default();
    let (a, b) = (file("a-b.npy"), file("a_b.npy"));
    assert_eq!(texts(&mut session, &format!("let x = 10 * load(\"{a}\") + load(\"{b}\")")), ["x 12"]);
    let error = session.enter("1 + load(\"none.npy\")").unwrap_err().to_string();
    assert!(error.contains("1 + load(\"none.npy\")\n  |          ^^^^^^^^^^"), "{error}");
    assert!(session.enter("load(\"a.txt\")").is_err());
}
