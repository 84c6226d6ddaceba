//! Every rule of the verifier, with IR that violates it.

use ir::nest::{Index, Program, Role};
use ir::verify::verify;
use ir::{Dtype, Scalar};

const HEADER: &str = r#"
  symbol n = dim 0 of input 0
  input %x: f32[n]
  input %k: i32[n]
  input %h: bf16[n]
  output %y: f32[n]
  temp %t: f32[n]
  site0 = axis 0 of "x" at 0..0
  function @exp.f32 = exp(v0: f32) { yield v0 }
"#;

fn parse(parts: &str) -> Program {
    format!("program @p {{ {parts} }}").parse().unwrap_or_else(|e| panic!("{e}\n{parts}"))
}

fn with_kernel(body: &str) -> Program {
    parse(&format!("{HEADER} kernel @k {{ {body} }}"))
}

fn message(program: &Program) -> String {
    verify(program).expect_err("it breaks a rule").to_string()
}

/// Checks a table of kernel bodies and the messages they get.
fn table(cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        assert_eq!(message(&with_kernel(body)), format!("kernel @k: {expected}"), "{body}");
    }
}

#[test]
fn right_programs_pass() {
    let body = "
      parallel i < n {
        v0 = load %x[i]
        v1 = call @exp.f32(v0)
        v2 = load %h[i]
        v3 = cast f32 v2
        v5 = lt v1, v3
        v4 = select v5, v1, v3
        store %t[i], v4
      }
      scan s < n {
        v6 = load %x as [n, 1][s, 0]
        v7 = prefix sum v6
        store %y[s], v7
      }";
    verify(&with_kernel(body)).unwrap();
}

#[test]
fn declarations() {
    let cases = [
        ("symbol n = dim 0 of input 0", "size n: there is no input 0"),
        ("symbol n = dim 1 of input 0 input %x: f32[3]", "size n: input 0 has no axis 1"),
        ("symbol n = value of input 0 input %x: f32", "size n: input 0 is no integer scalar"),
        ("symbol n = value of input 0 input %x: i32[2]", "size n: input 0 is no integer scalar"),
        ("symbol n = 3 for dim 1 of input 0 input %x: f32[3]", "size n: input 0 has no axis 1"),
        ("input 1 %x: f32", "inputs: are not numbered from 0 without gaps: there is no number 0"),
        ("input %x: f32 input 0 %y: f32", "inputs: are not numbered from 0 without gaps: there is no number 1"),
        ("output %x: f32 output 2 %y: f32", "outputs: are not numbered from 0 without gaps: there is no number 1"),
        ("constant %c: f32[2] = [1.0]", "buffer c: has 1 elements, another number than its shape"),
        (
            "symbol n = dim 0 of input 0 input %x: f32[n] constant %c: f32[n] = [1.0]",
            "buffer c: has 1 elements, another number than its shape",
        ),
        ("kernel @k { } kernel @k { }", "kernel k: the name is there twice"),
    ];
    for (parts, expected) in cases {
        assert_eq!(message(&parse(parts)), expected, "{parts}");
    }
}

/// Programs that text cannot express, since the parser resolves names.
#[test]
fn declarations_that_text_cannot_say() {
    let program = || with_kernel("parallel i < n { parallel j < n { } }");
    let mut p = program();
    p.buffers.values_mut().for_each(|b| b.name = "same".into());
    assert_eq!(message(&p), "buffer same: the name is there twice");
    let mut p = program();
    let symbol = p.symbols.values().next().cloned().unwrap();
    p.symbols.push(symbol);
    assert_eq!(message(&p), "size n: the name is there twice");
    let mut p = program();
    let f = p.functions.values().next().cloned().unwrap();
    p.functions.push(f);
    assert_eq!(message(&p), "function exp.f32: the name is there twice");
    let mut p = program();
    p.kernels.values_mut().for_each(|k| _ = k.indices.push(Index { name: "i".into() }));
    assert_eq!(message(&p), "kernel @k: index i: the name is there twice");
    let mut p = program();
    p.kernels.values_mut().for_each(|k| _ = k.indices.push(Index { name: "n".into() }));
    assert_eq!(message(&p), "kernel @k: index n: the name is there twice");
    let mut p = program();
    p.symbols.clear();
    assert_eq!(message(&p), "buffer x: a size name of its shape is not there");
    p.buffers.clear();
    assert_eq!(message(&p), "kernel @k: `parallel i < ? {`: a size name is not there");
    let mut p = parse("symbol n = dim 0 of input 0 input %x: f32[1] require n == 3 as \"a\", \"b\" at 0..0");
    p.symbols.clear();
    assert_eq!(message(&p), "requirement 0: a size name of it is not there");
    let mut p = parse("constant %c: f32[1] = [1.0]");
    p.buffers.values_mut().for_each(|b| b.role = Role::Constant(vec![Scalar::one(Dtype::F64)]));
    assert_eq!(message(&p), "buffer c: is f32 and has an element of type f64");
    let mut p = with_kernel("v0 = load %x[0] v1 = call @exp.f32(v0) v2 = const i64 0 v3 = check v2 < 1 at site0");
    p.sites.clear();
    assert_eq!(message(&p), "kernel @k: `v3 = check v2 < 1 at site0`: there is no site0");
    p.functions.clear();
    assert_eq!(message(&p), "kernel @k: `v1: f32 = call @f0(v0)`: no such function");
    p.buffers.clear();
    assert_eq!(message(&p), "size n: there is no input 0");
    p.symbols.clear();
    assert_eq!(message(&p), "kernel @k: `v0: f32 = load %b0[0]`: no such buffer");
}

#[test]
fn functions() {
    let cases = [
        ("exp(v0: f32, v1: f32) { yield v0 }", "exp has 1 parameters"),
        ("exp(v0: f32) { yield v1 }", "v1 is not defined here"),
        ("pow(v0: f32, v0: f32) { yield v0 }", "v0 is defined twice"),
        (
            "exp(v0: f32) { v1 = load %x[] yield v1 }",
            "`v1 = load %x[]`: a function computes from its parameters alone, without calls",
        ),
        ("exp(v0: f32) { store %y[], v0 yield v0 }", "`store %y[], v0`: a function holds `let` and `if` only"),
    ];
    for (function, expected) in cases {
        let program = parse(&format!("input %x: f32 output %y: f32 function @f = {function}"));
        assert_eq!(message(&program), format!("function @f: {expected}"));
    }
}

#[test]
fn reducers() {
    let cases = [
        (
            "free of (f32 0.0) = merge(v0: f32) { yield v0 }",
            "reducer @r: 1 identities, 1 parameters and 1 results are no merge of two states",
        ),
        ("free of (f32 0.0) = merge(v0: f32, v1: f64) { yield v0 }", "reducer @r: v1 is f64, the state has f32"),
        (
            "free of (f32 0.0) = merge(v0: f32, v1: f32) { v2 = eq v0, v1 yield v2 }",
            "reducer @r: v2 is bool, the state has f32",
        ),
        (
            "free of (f32 0.0) = merge(v0: f32, v1: f32) { v2 = load %x[0] yield v2 }",
            "reducer @r: `v2 = load %x[0]`: a merge computes from two states alone",
        ),
        (
            "free of (f32 0.0) = merge(v0: f32, v1: f32) { store %y[0], v0 yield v1 }",
            "reducer @r: `store %y[0], v0`: a function holds `let` and `if` only",
        ),
    ];
    for (reducer, expected) in cases {
        assert_eq!(message(&parse(&format!("{HEADER} reducer @r {reducer}"))), expected, "{reducer}");
    }
    let two = "reducer @r free of (f32 0.0, i64 0) = merge(v0: f32, v1: i64, v2: f32, v3: i64) { yield v0, v1 }";
    let cases = [
        (
            "v1 = reduce i < n { v0 = load %x[i] } with @r free v0",
            "`v1 = reduce i < n {`: the state of @r has 2 values",
        ),
        (
            "v1, v2 = reduce i < n { v0 = load %x[i] } with @r free (number, v0)",
            "`v1, v2 = reduce i < n {`: a number is i64, the state has f32",
        ),
        (
            "v1, v2 = reduce i < n { v0 = load %x[i] } with @r free (v0, v0)",
            "`v1, v2 = reduce i < n {`: v0 is f32, the state has i64",
        ),
        (
            "v1, v2 = reduce i < n { v0 = load %x[i] } with @r lanes (v0, number)",
            "`v1, v2 = reduce i < n {`: the order of r over f32 is free",
        ),
        (
            "scan i < n { v0 = load %x[i] v1 = prefix 2 of @r (v0, number) }",
            "`v1: bool = prefix 2 of @r (v0, number)`: it mentions what is not there",
        ),
        ("v1 = reduce i < n { } with sum free number", "`v1: bool = reduce i < n {`: sum takes one value"),
    ];
    for (body, expected) in cases {
        let program = parse(&format!("{HEADER} {two} kernel @k {{ {body} }}"));
        assert_eq!(message(&program), format!("kernel @k: {expected}"), "{body}");
    }
}

#[test]
fn definitions_and_scopes() {
    table(&[
        ("store %y[0], v0", "`store %y[0], v0`: v0 is not defined here"),
        ("v0: f32 = neg v1 v1 = load %x[0]", "`v0 = neg v1`: v1 is not defined here"),
        ("v0 = load %x[0] v0 = load %x[0]", "`v0 = load %x[0]`: v0 is defined twice"),
        ("parallel i < n { v0 = load %x[i] } store %y[0], v0", "`store %y[0], v0`: v0 is not defined here"),
        (
            "v0 = const bool true if v0 { v1 = load %x[0] } else { store %y[0], v1 }",
            "`store %y[0], v1`: v1 is not defined here",
        ),
        (
            "v0 = const bool true v2 = if v0 { v1 = load %x[0] yield v1 } else { yield v1 }",
            "`v2 = if v0 {`: v1 is not defined here",
        ),
        (
            "v1 = reduce i < n { v0 = load %x[i] store %t[i], v1 } with max free v0",
            "`store %t[i], v1`: v1 is not defined here",
        ),
        ("v1 = reduce i < n { } with max free v0", "`v1 = reduce i < n {`: v0 is not defined here"),
        ("v0: f64 = load %x[0]", "`v0: f64 = load %x[0]`: v0 is f64, its definition is f32"),
    ]);
}

#[test]
fn indices() {
    table(&[
        ("indices i parallel i < i { }", "`parallel i < i {`: index i is not bound here"),
        ("parallel i < n, j < i { }", "`parallel i < n, j < i {`: index i is not bound here"),
        ("parallel i < n { } v0 = affine i", "`v0 = affine i`: index i is not bound here"),
        (
            "indices i parallel i < n { parallel i < n { } }",
            "`parallel i < n {`: binds an index that is bound elsewhere",
        ),
        (
            "indices i parallel i < n { } parallel i < n { }",
            "`parallel i < n {`: binds an index that is bound elsewhere",
        ),
        (
            "parallel i < n { store %y[j], v0 }".replace("j", "i, i").leak(),
            "`store %y[i, i], v0`: 2 subscripts for 1 axes",
        ),
    ]);
    let mut program = with_kernel("parallel i < n { }");
    program.kernels.values_mut().for_each(|k| k.indices.clear());
    assert_eq!(message(&program), "kernel @k: `parallel ?i0 < n {`: there is no index i0");
    program.kernels.values_mut().for_each(|k| {
        if let Some(ir::nest::Statement::Loop(l)) = k.body.first_mut() {
            l.dims.clear();
        }
    });
    assert_eq!(message(&program), "kernel @k: `parallel {`: a loop has an index");
}

#[test]
fn accesses() {
    table(&[
        ("v0 = load %x[]", "`v0 = load %x[]`: 0 subscripts for 1 axes"),
        ("v0 = load %x as [n, 1][0]", "`v0 = load %x as [n, 1][0]`: 1 subscripts for 2 axes"),
        ("v0 = load %k[0] v1 = load %x[v0]", "`v1 = load %x[v0]`: v0 is i32, expected i64"),
        ("v0 = load %x[0] store %x[0], v0", "`store %x[0], v0`: only outputs, temporaries and scratch are stored to"),
        ("v0 = load %k[0] store %y[0], v0", "`store %y[0], v0`: v0 is i32, expected f32"),
        ("v0 = load %x[0] v1 = check v0 < n at site0", "`v1 = check v0 < n at site0`: v0 is f32, expected i64"),
        ("v0 = const i64 0 v1 = check v0 < n at site1", "`v1 = check v0 < n at site1`: there is no site1"),
        ("v0 = load %k[0] parallel i < v0 { }", "`parallel i < v0 {`: v0 is i32, expected i64"),
    ]);
}

#[test]
fn types_of_operations() {
    let operands = "v0 = load %x[0] v1 = load %k[0] v2 = load %h[0] v3 = lt v0, v0 v4 = const f64 1.0 ";
    let cases = [
        ("v9 = neg v3", "neg takes numbers, v3 is bool"),
        ("v9 = neg v2", "neg takes numbers, v2 is bf16"),
        ("v9 = not v0", "not takes bools and integers, v0 is f32"),
        ("v9 = sqrt v1", "sqrt takes floats, v1 is i32"),
        ("v9 = floor v2", "floor takes floats, v2 is bf16"),
        ("v9 = add v0, v1", "v1 is i32, expected f32"),
        ("v9 = add v3, v3", "add takes numbers, v3 is bool"),
        ("v9 = max v2, v2", "max takes numbers, v2 is bf16"),
        ("v9 = and v0, v0", "and takes bools and integers, v0 is f32"),
        ("v9 = shl v3, v3", "shl takes integers, v3 is bool"),
        ("v9 = lt v0, v4", "v4 is f64, expected f32"),
        ("v9 = eq v2, v2", "eq takes no bf16"),
        ("v9 = fma v1, v1, v1", "fma takes floats, v1 is i32"),
        ("v9 = fma v0, v0, v4", "v4 is f64, expected f32"),
        ("v9 = fma v0, v4, v0", "v4 is f64, expected f32"),
        ("v9 = select v1, v0, v0", "v1 is i32, expected bool"),
        ("v9 = select v3, v0, v4", "v4 is f64, expected f32"),
        ("v9 = bitcast i64 v0", "there is no bitcast from f32 to i64"),
        ("v9 = bitcast i32 v3", "bitcast takes numbers, v3 is bool"),
        ("v9 = bitcast f16 v2", "bitcast takes numbers, v2 is bf16"),
        ("v9 = call @exp.f32(v4)", "v4 is f64, expected f32"),
        ("v9 = call @exp.f32(v0, v0)", "@exp.f32 has 1 parameters"),
        ("v9 = prefix sum v0", "a prefix stands directly in the body of a scan"),
    ];
    for (op, expected) in cases {
        assert_eq!(message(&with_kernel(&format!("{operands} {op}"))), format!("kernel @k: `{op}`: {expected}"));
    }
    table(&[
        (&format!("{operands} if v0 {{ }}"), "`if v0 {`: v0 is f32, expected bool"),
        (
            &format!("{operands} v9 = if v3 {{ yield v0 }} else {{ yield v4 }}"),
            "`v9 = if v3 {`: v0 and v4 have different types",
        ),
    ]);
}

#[test]
fn reductions_and_scans() {
    table(&[
        (
            "v1 = reduce i < n { v0 = load %k[i] } with sum lanes v0",
            "`v1 = reduce i < n {`: the order of sum over i32 is free",
        ),
        (
            "v1 = reduce i < n { v0 = load %x[i] } with sum free v0",
            "`v1 = reduce i < n {`: the order of sum over f32 is not free",
        ),
        ("v1 = reduce i < n { v0 = load %x[i] } with any free v0", "`v1 = reduce i < n {`: any takes bools, v0 is f32"),
        (
            "v1 = reduce i < n { v0 = load %h[i] } with max free v0",
            "`v1 = reduce i < n {`: max takes numbers, v0 is bf16",
        ),
        (
            "v1: i64 = reduce i < n { v0 = load %x[i] } with sum lanes v0",
            "`v1: i64 = reduce i < n {`: v1 is i64, its definition is f32",
        ),
        (
            "keyed 5 row 0 over i < n { v0 = load %x[i] store %t[i], v0 }",
            "`keyed 5 row 0 over i < n {`: a keyed loop stores nothing but to tables",
        ),
        (
            "keyed 5 row 1 over i < n { v0 = load %x[i] scatter %t[i], sum v0 }",
            "`keyed 5 row 1 over i < n {`: a table with subscripts of its row that come from inside",
        ),
        (
            "keyed 5 row 0 over i < n { v0 = load %x[i] scatter %t[0], sum v0 scatter %t[1], sum v0 }",
            "`keyed 5 row 0 over i < n {`: two statements scatter to one table",
        ),
        (
            "keyed 5 row 0 over i < n { v0 = load %t[i] scatter %t[0], sum v0 }",
            "`keyed 5 row 0 over i < n {`: a keyed loop loads from a table to which it scatters",
        ),
        (
            "v0 = load %x[0] scatter %x[0], sum v0",
            "`scatter %x[0], sum v0`: only outputs, temporaries and scratch are tables",
        ),
        (
            "serial i < n { keyed 5 row 0 over j < n { v0 = load %x[j] scatter %t[0], sum v0 } }",
            "has a keyed loop or a sort where it does not stand on its own",
        ),
        (
            "parallel i < n { keyed 5 row 0 over j < n { } serial k < n { } }",
            "has a keyed loop or a sort where it does not stand on its own",
        ),
        (
            "parallel { keyed 5 row 0 over j < n { } parallel i < 5 { keyed 5 row 0 over k < n { } } }",
            "has a keyed loop or a sort where it does not stand on its own",
        ),
        ("parallel { keyed 5 row 0 over j < n { } }", "`parallel {`: a loop has an index"),
        ("sort i < n, j < n { }", "`sort i < n, j < n {`: a sort has one index"),
        ("sort i < n { v0 = load %x[i] }", "`sort i < n {`: a sort has one place directly in its body"),
        (
            "sort i < n { v0 = load %x[i] v1 = place v0 store %t[i], v0 }",
            "`sort i < n {`: a sort stores directly in its body, at its place",
        ),
        (
            "sort i < n { v0 = load %t[i] v1 = place v0 store %t[v1], v0 }",
            "`sort i < n {`: a sort loads what it stores",
        ),
        ("sort i < n { v0 = const bool true v1 = place v0 }", "`v1 = place v0`: a sort takes numbers, v0 is bool"),
        (
            "parallel i < n { v0 = load %x[i] v1 = place v0 }",
            "`v1 = place v0`: a place stands directly in the body of a sort",
        ),
        (
            "serial i < n { sort j < n { v0 = load %x[j] v1 = place v0 store %t[v1], v0 } }",
            "has a keyed loop or a sort where it does not stand on its own",
        ),
        ("scan i < n, j < n { }", "`scan i < n, j < n {`: a scan has one index"),
        ("scan i < n { v0 = load %t[i] store %t[i], v0 }", "`scan i < n {`: a scan loads from %t, to which it stores"),
        (
            "scan i < n { v0 = load %x[i] v1 = const bool true if v1 { v2 = prefix sum v0 } }",
            "`v2 = prefix sum v0`: a prefix stands directly in the body of a scan",
        ),
        (
            "scan i < n { v0 = load %x[i] serial j < 2 { v2 = prefix sum v0 } }",
            "`v2 = prefix sum v0`: a prefix stands directly in the body of a scan",
        ),
        (
            "scan s < n { v2 = contract i < n over k < n {
               left { v0 = load %x[i] yield v0 }
               right { v1 = load %x[k] yield v1 }
               epilogue { v3 = prefix sum v2 store %y[i], v3 } } }",
            "`v3 = prefix sum v2`: a prefix stands directly in the body of a scan",
        ),
        ("scan i < n { v0 = load %x[i] v1 = prefix all v0 }", "`v1 = prefix all v0`: all takes bools, v0 is f32"),
    ]);
}

#[test]
fn contractions() {
    let contract = |dims: &str, left: &str, right: &str, epilogue: &str| {
        let body =
            format!("v2 = contract {dims} {{ left {{ {left} }} right {{ {right} }} epilogue {{ {epilogue} }} }}");
        message(&with_kernel(&body)).replace("kernel @k: ", "")
    };
    let (l, r, e) = ("v0 = load %x[i] yield v0", "v1 = load %x[k] yield v1", "store %y[i], v2");
    let d = "i < n over k < n";
    assert_eq!(
        contract("i < n over", l, "v1 = load %x[i] yield v1", e),
        "`v2 = contract i < n over {`: a contraction sums over an index"
    );
    assert_eq!(contract("i < n over k < i", l, r, e), "`v2 = contract i < n over k < i {`: index i is not bound here");
    assert_eq!(
        contract(d, l, "v1 = load %k[k] yield v1", e),
        "`v2 = contract i < n over k < n {`: the factors have different types"
    );
    assert_eq!(
        contract(d, "v0 = load %h[i] yield v0", "v1 = load %h[k] yield v1", ""),
        "`v2 = contract i < n over k < n {`: a contraction takes numbers, v0 is bf16"
    );
    assert_eq!(contract(d, l, r, ""), "`v2 = contract i < n over k < n {`: the epilogue stores nothing");
    assert_eq!(
        contract(d, "v0 = load %x[i] store %y[i], v0 yield v0", r, e),
        "`store %y[i], v0`: a prologue stores nothing"
    );
    assert_eq!(contract(d, l, r, "store %y[k], v2"), "`store %y[k], v2`: index k is not bound here");
    assert_eq!(contract(d, l, r, "store %y[i], v0"), "`store %y[i], v0`: v0 is not defined here");
    assert_eq!(contract(d, l, "v1 = neg v0 yield v1", e), "`v1 = neg v0`: v0 is not defined here");
}

#[test]
fn reductions_may_store_and_kernels_hold_several_loops() {
    let body = "
      v2 = reduce i < n {
        v0 = load %x[i]
        v1 = neg v0
        store %t[i], v1
      } with max free v1
      parallel j < n {
        v3 = load %t[j]
        v4 = sub v3, v2
        store %y[j], v4
      }";
    verify(&with_kernel(body)).unwrap();
}

#[test]
fn scratch() {
    let kernels = |kernels: &str| parse(&format!("{HEADER} scratch %s: f32[n] {kernels}"));
    let row = "v0 = load %x[0]
      parallel i < n {
        parallel j < n { store %s[j], v0 }
        parallel k < n { v1 = load %s[k] }
      }";
    verify(&kernels(&format!("kernel @k {{ {row} }} kernel @l {{ }}"))).unwrap();
    let contract = "v2 = contract i < n over k < n {
        left { v0 = load %x[i] yield v0 }
        right { v1 = load %x[k] yield v1 }
        epilogue { store %s[i], v2 v3 = load %s[i] store %y[i], v3 }
      }";
    verify(&kernels(&format!("kernel @k {{ {contract} }}"))).unwrap();

    // Other statements may stand next to the loop around the scratch if they do not mention it.
    for beside in ["parallel l < n { }", "store %y[0], v0", "v9 = const bool true if v9 { }"] {
        verify(&kernels(&format!("kernel @k {{ {row} {beside} }}"))).unwrap();
    }

    let outside = "kernel @k: the scratch %s is mentioned outside of one outermost loop";
    let cases = [
        (format!("kernel @k {{ {row} }} kernel @l {{ {row} }}"), "kernel @l: another kernel mentions the scratch %s"),
        (format!("kernel @k {{ {row} parallel l < n {{ v9 = load %s[l] }} }}"), outside),
        (
            format!("kernel @k {{ parallel l < n {{ v9 = load %s[l] }} {} }}", contract.replace("%x[i]", "%s[i]")),
            outside,
        ),
        (format!("kernel @k {{ {row} store %s[0], v0 }}"), outside),
        (format!("kernel @k {{ {row} v9 = const bool true if v9 {{ v8 = load %s[0] }} }}"), outside),
        ("kernel @k { v0 = load %x[0] store %s[0], v0 }".into(), outside),
        (format!("kernel @k {{ {row} v9 = load %s[0] }}"), outside),
    ];
    for (text, expected) in cases {
        assert_eq!(message(&kernels(&text)), expected, "{text}");
    }
}

#[test]
fn slots() {
    let of = |slots: &str, first: &str, second: &str| {
        let more = "temp %u: f32[n] temp %w: f32[n] temp %unused: f32[n] temp %small: f32[n - 1] temp %line: f32[1, n] output %z: f32[n]";
        let kernels = format!(
            "kernel @a {{ parallel i < n {{ v0 = load %x[i] store %t[i], v0 }} }}
             kernel @b {{ {first} }}
             kernel @c {{ {second} }}"
        );
        parse(&format!("{HEADER} {more} {slots} {kernels}"))
    };
    let next = |from: &str, to: &str| format!("parallel i < n {{ v0 = load %{from}[i] store %{to}[i], v0 }}");
    let (b, c) = (next("t", "u"), next("u", "y"));
    for right in ["slot0 = %t", "slot0 = %t, %y slot1 = %u", "slot0 = %t, %u", "slot0 = %t, %u, %y"] {
        verify(&of(right, &b, &c)).unwrap();
    }
    let cases = [
        ("slot0 = %x", "slot0: %x is no temporary or output"),
        ("slot0 = %unused", "slot0: %unused is mentioned by no kernel"),
        ("slot0 = %t slot1 = %t", "slot1: %t has memory already"),
        ("slot0 = %y, %z", "slot0: %z is a second output"),
        ("slot0 = %u, %t", "slot0: %t is there before the one ahead of it is done with"),
        ("slot0 = %t, %y, %u", "slot0: %u is there before the one ahead of it is done with"),
    ];
    for (slots, expected) in cases {
        assert_eq!(message(&of(slots, &b, &c)), expected, "{slots}");
    }
    let small = next("t", "small");
    assert_eq!(
        message(&of("slot0 = %small, %y", &small, &next("x", "y"))),
        "slot0: %small has another size than the output there"
    );
    verify(&of("slot0 = %small, %u", &small, &next("x", "u"))).unwrap();
    let line = "parallel i < n { v0 = load %t[i] store %line[0, i], v0 }";
    verify(&of("slot0 = %line, %y", line, &next("x", "y"))).unwrap();
    // A result lives until the call ends, whatever still reads it.
    let found = message(&of("slot0 = %y, %u", &next("x", "y"), &next("x", "u")));
    assert_eq!(found, "slot0: %u is there before the one ahead of it is done with");
    let not_in_place = [
        "parallel i < n { v0 = load %t[n - i - 1] store %u[i], v0 }",
        "parallel i < n { v0 = load %t[i] v1 = load %t[0] store %u[i], v0 }",
        "parallel i < n { v0 = load %t[i] store %u[i], v0 v1 = load %t[i] }",
        "parallel i < n { v0 = load %t as [n, 1][i, 0] store %u[i], v0 }",
        "serial i < n { v0 = load %t[i] store %u[i], v0 }",
        "parallel i < n { serial j < 1 { v0 = load %t[i] store %u[i], v0 } }",
        "v0 = load %t[0] store %u[0], v0",
        "parallel i < n { v0 = load %t[i] store %u[i], v0 } parallel j < n { v1 = load %t[j] }",
        "parallel i < n { v0 = load %t[0] parallel j < 1 - i { v1 = neg v0 store %u[0], v1 } }",
    ];
    for first in not_in_place {
        let found = message(&of("slot0 = %t, %u", first, &c));
        assert_eq!(found, "slot0: %u is there before the one ahead of it is done with", "{first}");
    }
    assert!(verify(&of("slot0 = %t, %u", &b, &next("t", "y"))).is_err());
    let at_once = "parallel i < n { v0 = load %x[i] store %w[i], v0 v1 = load %w[i] store %u[i], v1 }";
    let found = message(&of("slot0 = %w, %u", at_once, &c));
    assert_eq!(found, "slot0: %u is there before the one ahead of it is done with");
}

#[test]
fn depth() {
    let mut program = with_kernel("parallel i < n { }");
    for kernel in program.kernels.values_mut() {
        for _ in 0..100 {
            let inner = std::mem::take(&mut kernel.body);
            let condition = kernel.values.push(Dtype::Bool);
            let value = ir::nest::Op::Constant(Scalar::Bool(true));
            kernel.body = vec![
                ir::nest::Statement::Let { value: condition, op: value },
                ir::nest::Statement::If { condition, then: inner, otherwise: vec![], results: vec![] },
            ];
        }
    }
    assert!(message(&program).ends_with("blocks nest more than 100 deep"), "{}", message(&program));
    // Consecutive blocks are no deeper than one.
    verify(&with_kernel(&format!("v0 = const bool true {}", "if v0 { if v0 { } } ".repeat(200)))).unwrap();
}
