//! Loops over kernels: what they carry changes places, nothing is copied.

use ir::nest::Program;
use ir::{Array, Scalar};

use crate::harness::{Random, WAYS, agree, compile_for, inputs, parse};

/// A program that takes `a: i64[n]` and the number of iterations, and gives `y: i64[n]`.
fn with(declarations: &str, tree: &str) -> Program {
    parse(&format!(
        "program @p {{ symbol n = dim 0 of input 0 symbol t = value of input 1 input %a0: i64[n] input %t: i64
         output %y: i64[n] temp %a: i64[n] temp %a1: i64[n] {declarations} {tree} }}"
    ))
}

/// A kernel that combines two arrays, one of them back to front.
fn mix(name: &str, from: [&str; 2], to: &str) -> String {
    let [a, b] = from;
    format!(
        "kernel @{name} {{ parallel i < n {{ v0 = load %{a}[n - i - 1] v1 = load %{b}[i] v2 = sub v0, v1
         store %{to}[i], v2 }} }}"
    )
}

fn hold(program: &Program, most: i64) {
    for way in WAYS {
        let module = compile_for(program, way);
        for n in [0, 1, 7, 5000] {
            for trips in (-1..=most).chain([100]) {
                let inputs = inputs(program, &[n, trips], &mut Random(7), false);
                agree(program, &module, &inputs, &format!("{n} elements, {trips} iterations\n{program}"));
            }
        }
    }
}

#[test]
fn memory_changes_places() {
    let step = mix("step", ["a", "a0"], "a1");
    hold(&with("", &format!("repeat t with %a = %a0 then %a1 {{ {step} }} {}", mix("end", ["a", "a0"], "y"))), 4);
    // In slots, with temporaries of the body and behind the loop.
    let body = mix("make", ["a", "a0"], "w") + &mix("step", ["w", "a0"], "a1");
    let end = mix("more", ["a0", "a"], "z") + &mix("end", ["z", "a0"], "y");
    let declarations =
        "temp %b: i64[n] temp %w: i64[n] temp %z: i64[n] slot0 = %w, %z slot1 = %b slot2 = %a slot3 = %a1";
    let first = mix("first", ["a0", "a0"], "b");
    hold(&with(declarations, &format!("{first} repeat t with %a = %b then %a1 {{ {body} }} {end}")), 4);
}

#[test]
fn loops_nest_and_follow_one_another() {
    let inner = format!("repeat n / 2 with %b = %a then %b1 {{ {} }}", mix("inner", ["b", "a0"], "b1"));
    let last = format!("repeat t - 1 with %c = %a then %c1 {{ {} }}", mix("last", ["c", "a"], "c1"));
    let tree = format!(
        "repeat t with %a = %a0 then %a1 {{ {inner} {} }} {last} {}",
        mix("outer", ["b", "a"], "a1"),
        mix("end", ["c", "a"], "y")
    );
    let declarations = "temp %b: i64[n] temp %b1: i64[n] temp %c: i64[n] temp %c1: i64[n]";
    let program = with(declarations, &tree);
    let module = compile_for(&program, WAYS[0]);
    for n in [0, 1, 2, 5, 6, 9] {
        for trips in 0..6 {
            agree(&program, &module, &inputs(&program, &[n, trips], &mut Random(3), false), "nested");
        }
    }
}

/// A fault in a later iteration leaves the results as they were, though they lend their memory.
#[test]
fn faults_end_loops() {
    let site = "site0 = axis 0 of \"a\" at 0..0";
    let step = "kernel @look { parallel i < n { v0 = load %a[i] v1 = check v0 < n at site0 v2 = load %a0[v1]
        store %w[i], v2 } }
        kernel @step { parallel i < n { v0 = load %w[i] v1 = const i64 1 v2 = add v0, v1 store %a1[i], v2 } }";
    let end = "kernel @end { parallel i < n { v0 = load %a[i] store %y[i], v0 } }";
    let tree = format!("repeat t with %a = %a0 then %a1 {{ {step} }} {end}");
    let program = with(&format!("temp %w: i64[n] slot0 = %w, %y {site}"), &tree);
    for way in WAYS {
        let module = compile_for(&program, way);
        for trips in 0..6 {
            let a = Array::from(vec![1i64, 2, 3, 0]);
            agree(&program, &module, &[a, Array::scalar(Scalar::I64(trips))], &format!("{trips}"));
            let a = Array::from(vec![0i64, 0]);
            agree(&program, &module, &[a, Array::scalar(Scalar::I64(trips))], &format!("{trips}"));
        }
    }
}
