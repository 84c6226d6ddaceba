//! Loops over kernels, run from text.

use std::sync::atomic::AtomicBool;

use interp::nest::{Problem, RunError, run, run_unless};
use ir::nest::Program;
use ir::{Array, Scalar};

fn i64s(values: &[i64]) -> Array {
    Array::from(values.to_vec())
}

fn parse(declarations: &str, tree: &str) -> Program {
    format!(
        "program @p {{ symbol n = dim 0 of input 0 symbol t = value of input 1 input %a0: i64[n] input %t: i64
         output %y: i64[n] temp %a: i64[n] temp %a1: i64[n] {declarations} {tree} }}"
    )
    .parse()
    .unwrap_or_else(|e| panic!("{e}\n{tree}"))
}

fn run_with(program: &Program, a: &[i64], trips: i64) -> Result<Array, RunError> {
    let (a, trips) = (i64s(a), Array::scalar(Scalar::I64(trips)));
    run(program, &[a.as_ref(), trips.as_ref()]).map(|mut outcome| outcome.outputs.remove(0))
}

/// A kernel that combines two arrays, element by element.
fn map(name: &str, op: &str, from: [&str; 2], to: &str) -> String {
    let [a, b] = from;
    format!(
        "kernel @{name} {{ parallel i < n {{ v0 = load %{a}[i] v1 = load %{b}[i] v2 = {op} v0, v1 store %{to}[i], v2 }} }}"
    )
}

fn right(program: &Program) {
    ir::verify::verify(program).unwrap_or_else(|e| panic!("{e}\n{program}"));
}

#[test]
fn a_loop_hands_on_what_it_carries() {
    let step = map("step", "add", ["a", "a0"], "a1");
    let tree = format!("repeat t with %a = %a0 then %a1 {{ {step} }} {}", map("end", "add", ["a", "a"], "y"));
    let program = parse("", &tree);
    right(&program);
    for trips in [i64::MIN, -1, 0, 1, 2, 3, 10] {
        let times = 2 * (trips.max(0) + 1);
        assert_eq!(run_with(&program, &[1, 2, 3], trips), Ok(i64s(&[times, 2 * times, 3 * times])), "{trips}");
    }
    let arguments = [i64s(&[1]), Array::scalar(Scalar::I64(7))];
    let outcome = run(&program, &[arguments[0].as_ref(), arguments[1].as_ref()]).unwrap();
    let loads: Vec<u64> = outcome.traffic.iter().map(|kernel| kernel.values().map(|t| t.loads).sum()).collect();
    assert_eq!(loads, [14, 2]);
}

/// The numbers of Fibonacci: what is carried moves at once.
#[test]
fn what_is_carried_moves_at_once() {
    let body = map("sum", "add", ["a", "b"], "b1") + &map("copy", "max", ["b", "b"], "a1");
    let tree = format!(
        "repeat t with %a = %a0 then %a1, %b = %a0 then %b1 {{ {body} }} {}",
        map("end", "max", ["a", "a"], "y")
    );
    let program = parse("temp %b: i64[n] temp %b1: i64[n]", &tree);
    right(&program);
    let numbers: Vec<_> = (0..8).map(|trips| run_with(&program, &[1], trips).unwrap().get(0).unwrap()).collect();
    assert_eq!(numbers, [1, 1, 2, 3, 5, 8, 13, 21].map(Scalar::I64));
}

#[test]
fn loops_nest() {
    let inner = format!("repeat t with %b = %a then %b1 {{ {} }}", map("inner", "add", ["b", "b"], "b1"));
    let outer = format!("repeat 2 with %a = %a0 then %a1 {{ {inner} {} }}", map("outer", "add", ["b", "a0"], "a1"));
    let program = parse("temp %b: i64[n] temp %b1: i64[n]", &(outer + &map("end", "max", ["a", "a"], "y")));
    right(&program);
    // (a 2^t + a) 2^t + a
    for trips in 0..5 {
        let power = 1 << trips;
        assert_eq!(run_with(&program, &[1], trips), Ok(i64s(&[(power + 1) * power + 1])), "{trips}");
    }
}

#[test]
fn an_iteration_stores_all_that_is_carried() {
    let step = "kernel @step { parallel i < n - 1 { v0 = load %a[i] store %a1[i], v0 } }";
    let end = map("end", "add", ["a", "a"], "y");
    let program = parse("", &format!("repeat t with %a = %a0 then %a1 {{ {step} }} {end}"));
    right(&program);
    assert_eq!(run_with(&program, &[1, 2], 0), Ok(i64s(&[2, 4])));
    assert!(matches!(run_with(&program, &[1, 2], 1), Err(RunError::Internal { problem: Problem::Missing, .. })));
    // Nor does it find what the iteration before has stored for itself.
    let first =
        "kernel @first { v0 = load %t[] v1 = load %k[] v2 = eq v0, v1 if v2 { v3 = const i64 5 store %w[], v3 } }";
    let rest = "kernel @rest { parallel i < n { v0 = load %a[i] v1 = load %w[] v2 = add v0, v1 store %a1[i], v2 } }
        kernel @count { v0 = load %k[] v1 = const i64 1 v2 = sub v0, v1 store %k1[], v2 }";
    let carried = "%a = %a0 then %a1, %k = %t then %k1";
    let program = parse(
        "temp %w: i64 temp %k: i64 temp %k1: i64",
        &format!("repeat t with {carried} {{ {first} {rest} }} {end}"),
    );
    right(&program);
    assert_eq!(run_with(&program, &[1, 2], 1), Ok(i64s(&[12, 14])));
    assert!(matches!(run_with(&program, &[1, 2], 2), Err(RunError::Internal { problem: Problem::NotStored, .. })));
}

/// Buffers of one slot in loops. The verifier would refuse the wrong ones; the interpreter finds
/// them by itself.
#[test]
fn slots_hold_what_loops_need() {
    let body = map("make", "add", ["a", "a0"], "w") + &map("step", "add", ["w", "a0"], "a1");
    let first = map("first", "add", ["a0", "a0"], "b");
    let tree = format!(
        "{first} repeat t with %a = %b then %a1 {{ {body} }} {} {}",
        map("more", "add", ["a0", "a0"], "z"),
        map("end", "add", ["a", "z"], "y")
    );
    let declarations = |slot: &str| format!("temp %b: i64[n] temp %w: i64[n] temp %z: i64[n] slot0 = {slot}");
    let result = |slot: &str, trips: i64| run_with(&parse(&declarations(slot), &tree), &[1], trips);
    let overwritten = |result| matches!(result, Err(RunError::Internal { problem: Problem::Overwritten, .. }));
    for trips in 0..4 {
        assert_eq!(result("%w, %z", trips), Ok(i64s(&[2 * trips + 4])), "{trips}");
    }
    // The two that are exchanged, each with what is stored while its contents are needed.
    assert!(overwritten(result("%a1, %z", 1)) && result("%a1, %z", 2).is_ok());
    assert!(overwritten(result("%a, %z", 2)) && result("%a, %z", 3).is_ok());
    // The initial buffer is needed as long as the result.
    assert!(overwritten(result("%b, %z", 0)) && result("%b, %z", 1).is_ok());
}

#[test]
fn a_loop_can_be_left() {
    let step = "kernel @step { parallel i < n { v0 = load %a[i] store %a1[i], v0 } }";
    let tree = format!("repeat t with %a = %a0 then %a1 {{ {step} }} {}", map("end", "add", ["a", "a"], "y"));
    let arguments = [i64s(&[]), Array::scalar(Scalar::I64(i64::MAX))];
    let inputs = arguments.each_ref().map(Array::as_ref);
    assert_eq!(run_unless(&parse("", &tree), &inputs, &AtomicBool::new(true)).unwrap_err(), RunError::Cancelled);
}

#[test]
fn an_exit_hands_nothing_on() {
    let below = "kernel @below { v0 = reduce i < n { v1 = load %a[i] } with sum free v1 v2 = affine t v3 = lt v0, v2 store %c[], v3 }";
    let step = map("step", "add", ["a", "a0"], "a1");
    let end = map("end", "add", ["a", "a"], "y");
    for body in [format!("{below} exit unless %c {step}"), format!("{below} {step} exit unless %c")] {
        let program = parse("temp %c: bool", &format!("repeat forever with %a = %a0 then %a1 {{ {body} }} {end}"));
        right(&program);
        // 1 + 2 = 3 more in each step, as long as the sum is below.
        for (limit, times) in [(0, 1), (3, 1), (4, 2), (6, 2), (7, 3)] {
            assert_eq!(run_with(&program, &[1, 2], limit), Ok(i64s(&[2 * times, 4 * times])), "{limit}");
        }
    }
}
