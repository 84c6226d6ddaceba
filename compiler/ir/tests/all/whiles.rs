//! Rewrites of loops over carried scalars, on text before and after.

use ir::nest::{Kernel, Program};
use ir::print;
use ir::rewrite::{erase_unused, forward, hoist, renumber, share, simplify};

/// The loop over rows in the kernel, after a rewrite.
fn after(body: &str, rewrite: impl FnOnce(&Program, &mut Kernel)) -> String {
    let text = format!(
        "program @p {{ symbol n = dim 0 of input 0 input %x: f32[n] input %k: i64[n] output %y: f32[n] output %z: f32[n]
         site0 = axis 0 of \"x\" at 0..0
         kernel @k {{ parallel i < n {{ {body} }} }} }}"
    );
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    ir::verify::verify(&program).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let id = program.kernels.keys().next().unwrap();
    let mut kernel = program.kernels[id].clone();
    rewrite(&program, &mut kernel);
    let mut rewritten = program.clone();
    rewritten.kernels[id] = kernel.clone();
    ir::verify::verify(&rewritten).unwrap_or_else(|e| panic!("{e}\n{rewritten}"));
    print::kernel(&program, &renumber(&program, &kernel))
}

fn is_after(body: &str, rewrite: impl FnOnce(&Program, &mut Kernel), expected: &str) {
    let found = after(body, rewrite);
    assert_eq!(found, after(expected, |_, _| {}), "{found}");
}

/// The second value is used by nothing outside. It goes with the code that computes it, unless the
/// first one depends on it.
#[test]
fn unused_state_is_erased() {
    let erase = |_: &Program, kernel: &mut Kernel| erase_unused(&mut kernel.body);
    is_after(
        "v0 = load %x[i] v1, v2 = while t < 9 with v3 = v0, v4 = v0 do { v5 = neg v3 v6 = add v4, v3 yield v5, v6 }
         store %y[i], v1",
        erase,
        "v0 = load %x[i] v1 = while t < 9 with v3 = v0 do { v5 = neg v3 yield v5 } store %y[i], v1",
    );
    let all = "v0 = load %x[i] v1, v2 = while t < 9 with v3 = v0, v4 = v0 if { v7 = gt v4, v3 yield v7 } do {
         v5 = neg v3 v6 = add v4, v3 yield v5, v6 } store %y[i], v1";
    is_after(all, erase, all);
    is_after(
        "v0 = load %x[i] v1 = while t < 9 with v3 = v0 if { v7 = gt v3, v3 yield v7 } do { v5 = neg v3 yield v5 } store %y[i], v0",
        erase,
        "v0 = load %x[i] store %y[i], v0",
    );
}

/// A check in a step stays, with the state that it depends on.
#[test]
fn checks_in_steps_stay() {
    is_after(
        "v0 = load %k[i] v1, v2, v8 = while t < 9 with v3 = v0, v4 = v0, v9 = v0 do {
           v5 = check v3 < n at site0 v6 = load %k[v5] v7 = neg v4 v10 = neg v9 yield v6, v7, v10
         }
         v11 = cast f32 v8 store %y[i], v11",
        |_, kernel| erase_unused(&mut kernel.body),
        "v0 = load %k[i] v1, v8 = while t < 9 with v3 = v0, v9 = v0 do {
           v5 = check v3 < n at site0 v6 = load %k[v5] v10 = neg v9 yield v6, v10
         }
         v11 = cast f32 v8 store %y[i], v11",
    );
}

/// Arithmetic that no step changes leaves the loop, and so does a load that is in bounds without
/// the condition. A load at the counter stays.
#[test]
fn invariant_code_leaves_the_steps() {
    is_after(
        "v0 = load %x[i] v1 = while t < n with v2 = v0 if { v3 = mul v0, v0 v4 = lt v2, v3 yield v4 } do {
           v5 = load %x[i] v6 = load %x[t] v7 = neg v5 v8 = add v6, v7 v9 = add v8, v2 yield v9
         }
         store %y[i], v1",
        |program, kernel| _ = hoist(program, kernel),
        "v0 = load %x[i] v3 = mul v0, v0 v5 = load %x[i] v7 = neg v5
         v1 = while t < n with v2 = v0 if { v4 = lt v2, v3 yield v4 } do {
           v6 = load %x[t] v8 = add v6, v7 v9 = add v8, v2 yield v9
         }
         store %y[i], v1",
    );
}

/// Only the condition shows that this load is in bounds.
#[test]
fn guarded_loads_stay_in_the_steps() {
    let body = "v0 = load %x[i] v10 = affine i + 1 v11 = affine n v1 = while t < 5 with v2 = v0 if {
           v3 = lt v10, v11 yield v3
         } do { v4 = load %x[i + 1] v5 = add v4, v2 yield v5 }
         store %y[i], v1";
    let hoisted = after(body, |program, kernel| _ = hoist(program, kernel));
    let (before, inside) = hoisted.split_once("while").unwrap();
    assert!(!before.contains("[i + 1]") && inside.contains("[i + 1]"), "{hoisted}");
}

#[test]
fn equal_loops_are_shared() {
    is_after(
        "v0 = load %x[i]
         v1, v2 = while t < 9 with v3 = v0, v4 = v0 if { v5 = gt v3, v4 yield v5 } do { v6 = neg v3 yield v6, v3 }
         v7, v8 = while u < 9 with v9 = v0, v10 = v0 if { v11 = gt v9, v10 yield v11 } do { v12 = neg v9 yield v12, v9 }
         store %y[i], v1 store %z[i], v8",
        |_, kernel| _ = share(kernel),
        "v0 = load %x[i]
         v1, v2 = while t < 9 with v3 = v0, v4 = v0 if { v5 = gt v3, v4 yield v5 } do { v6 = neg v3 yield v6, v3 }
         store %y[i], v1 store %z[i], v2",
    );
    let different = "v0 = load %x[i]
         v1 = while t < 9 with v3 = v0 do { v6 = neg v3 yield v6 }
         v7 = while u < 8 with v9 = v0 do { v12 = neg v9 yield v12 }
         v13 = while w < 9 with v14 = v1 do { v15 = neg v14 yield v15 }
         v16 = add v7, v13 store %y[i], v16";
    is_after(different, |_, kernel| assert_eq!(share(kernel), 0), different);
}

#[test]
fn values_are_forwarded_and_simplified() {
    is_after(
        "v0 = load %x[i] store %z[i], v0 v1 = while t < 3 with v2 = v0 do { v3 = load %z[i] v4 = add v3, v2 yield v4 } store %y[i], v1",
        |program, kernel| assert_eq!(forward(program, kernel), 1),
        "v0 = load %x[i] store %z[i], v0 v1 = while t < 3 with v2 = v0 do { v4 = add v0, v2 yield v4 } store %y[i], v1",
    );
    is_after(
        "v0 = load %k[i]
         v1 = while t < 3 with v2 = v0 do { v3 = affine 3 * t + 1 v5 = const i64 3 v6 = rem v3, v5 v7 = add v6, v2 yield v7 }
         v8 = cast f32 v1 store %y[i], v8",
        |_, kernel| {
            simplify(kernel);
            erase_unused(&mut kernel.body);
        },
        "v0 = load %k[i] v1 = while t < 3 with v2 = v0 do { v6 = affine 1 v7 = add v6, v2 yield v7 }
         v8 = cast f32 v1 store %y[i], v8",
    );
}

/// The verifier's message on a kernel with this body.
fn refused(body: &str, message: &str) {
    let text = format!(
        "program @p {{ symbol n = dim 0 of input 0 input %x: f32[n] output %y: f32[n]
         kernel @k {{ parallel i < n {{ v0 = load %x[i] {body} }} }} }}"
    );
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let error = ir::verify::verify(&program).unwrap_err();
    assert!(error.to_string().ends_with(message), "{error}");
}

#[test]
fn rules() {
    let stores = "v1 = while t < 3 with v2 = v0 if { v3 = const bool true yield v3 } do { store %y[i], v2 yield v2 }";
    refused(stores, "a `while` with a condition stores nothing");
    refused("v1 = while t < 3 with v2 = v9 do { yield v2 }", "v9 is not defined here");
    refused("v1 = while t < 3 with v2 = v0 do { yield v2 } store %y[i], v2", "v2 is not defined here");
    refused("v1 = while t < 3 with v2 = v0 do { v3 = neg v1 yield v3 }", "v1 is not defined here");
    refused(
        "v1 = while t < 3 with v2 = v0 if { v3 = neg v2 v4 = gt v2, v3 yield v4 } do { yield v3 }",
        "v3 is not defined here",
    );
    refused("v1 = while t < 3 with v2 = v0 if { yield v2 } do { yield v2 }", "v2 is f32, expected bool");
    refused("v1 = while t < 3 with v2 = v0 do { v3 = affine t yield v3 }", "v0 and v3 have different types");
    refused("v1 = while t < v0 with v2 = v0 do { yield v2 }", "v0 is f32, expected i64");
    refused("v1 = while t < 3 with v2 = v0 do { yield v2 } store %y[t], v1", "index t is not bound here");
    refused("v1 = while t < 3 with v2: f64 = v0 do { yield v2 }", "v2 is f64, its definition is f32");
}

#[test]
fn text_that_is_no_loop() {
    for (body, message) in [
        ("v1 = while t < 3 do { }", "the loop carries and yields 1 values"),
        ("v1 = while t < 3 with v2 = v0 do { }", "the loop carries and yields 1 values"),
        ("while t < 3 with v2 = v0 do { yield v2 }", "the loop carries and yields 0 values"),
        ("v1 = while t < 3 with v2 = v0 { yield v2 }", "expected `do`, found `{`"),
        ("v1 = while t < 3 with v2 = v0 if { } do { yield v2 }", "this block yields one value"),
    ] {
        let text = format!("program @p {{ kernel @k {{ v0 = const f32 0.0 {body} }} }}");
        let error = text.parse::<Program>().unwrap_err();
        assert_eq!(error.message, message, "{body}");
    }
}
