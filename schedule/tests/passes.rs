//! The passes on IR text: kernels before a pass are written here, kernels after it are snapshots, and the verifier accepts both.

use std::fmt::Write;

use cranelift_entity::PrimaryMap;
use insta::assert_snapshot;
use ir::nest::{KernelId, Program, Statement};
use ir::verify::verify;
use schedule::across::Across;
use schedule::split::{Part, split, split_plainly};
use schedule::{checks, prepare};

/// A program of one kernel over the arrays that the tests need.
fn program(arrays: &str, body: &str) -> Program {
    let text = format!("program @p {{ symbol n = dim 0 of input 0 {arrays} kernel @k {{ {body} }} }}");
    let program: Program = text.parse().expect("a program");
    verify(&program).expect("a program that keeps the rules");
    program
}

/// The first kernel of a program, prepared for who takes no contraction whole, and its checks hoisted.
fn prepared(mut program: Program) -> String {
    let id = KernelId::from_u32(0);
    let mut kernel = prepare::prepare(&program, &program.kernels[id], |_, _| false);
    checks::ahead(&program, &mut kernel);
    program.kernels[id] = kernel;
    verify(&program).expect("a kernel that keeps the rules");
    program.to_string()
}

/// The parts of the first kernel, with what each hands to others.
fn parts(program: Program, cut: impl Fn(&mut Program, ir::nest::Kernel) -> Vec<Part>) -> String {
    let mut run = Program { kernels: PrimaryMap::new(), ..program.clone() };
    let parts = cut(&mut run, program.kernels[KernelId::from_u32(0)].clone());
    let mut notes = String::new();
    for part in &parts {
        let id = run.kernels.push(part.kernel.clone());
        let name = |buffer| &run.buffers[buffer].name;
        let chunks: Vec<_> = part.chunks.iter().map(|buffer| name(*buffer).as_str()).collect();
        let baton = part.baton.map(|baton| format!(", {} prefixes in {}", baton.prefixes, name(baton.buffer)));
        let tiled = part.tiled.as_ref().map(|t| format!(", blocks of {:?} with {} loops over rows", t.range(), t.rows));
        let (baton, tiled) = (baton.unwrap_or_default(), tiled.unwrap_or_default());
        writeln!(notes, "part {}: chunks in {chunks:?}{baton}{tiled}", id.as_u32()).expect("text");
    }
    verify(&run).expect("parts that keep the rules");
    format!("{run}\n{notes}")
}

const SUM: &str = "v1 = reduce a < n { v2 = load %x[a] v4 = mul v2, v2 } with sum lanes v4 store %y[], v1";
const SCAN: &str = "scan a < n { v1 = load %x[a] v2 = prefix sum v1 store %y[a], v2 }";
const COLUMNS_AND_ROWS: &str =
    "parallel j < m { v1 = reduce i < n { v0 = load %x[i, j] } with sum blocks v0 store %y[j], v1 }
    parallel k < n { v3 = reduce l < m { v2 = load %x[k, l] } with max free v2 store %z[k], v3 }";

#[test]
fn products_become_loops() {
    let arrays = "input 0 %x: f32[n, 8] input 1 %y: f32[8, n] output 0 %z: f32[n, n]";
    let body = "v2 = contract i < n, j < n over k < 8 {
        left { v0 = load %x[i, k] yield v0 } right { v1 = load %y[k, j] yield v1 } epilogue { store %z[i, j], v2 } }";
    assert_snapshot!(prepared(program(arrays, body)));
}

#[test]
fn small_reductions_become_straight_code() {
    let arrays = "input 0 %x: f32[n] output 0 %y: f32[n]";
    let body = "parallel i < n { v1 = reduce r < 3 { v2 = affine i * 0 + r v0 = cast f32 v2 } with sum lanes v0 store %y[i], v1 }";
    assert_snapshot!(prepared(program(arrays, body)));
}

#[test]
fn checks_go_before_their_loop() {
    let arrays = "symbol m = dim 0 of input 1 input 0 %at: i64[n] input 1 %x: f32[m] output 0 %y: f32[n] site0 = axis 0 of \"x\" at 1..2";
    let body = "parallel i < n { v3 = load %at[i] v4 = check v3 < m at site0 v5 = load %x[v4] store %y[i], v5 }";
    assert_snapshot!(prepared(program(arrays, body)));
}

#[test]
fn a_sum_is_shared_out_by_chunks() {
    let sum = program("input 0 %x: f32[n] output 0 %y: f32", SUM);
    assert_snapshot!(parts(sum, |run, kernel| split(run, kernel, true)));
}

#[test]
fn a_scan_hands_on_its_prefixes_if_there_are_threads() {
    let scan = || program("input 0 %x: f32[n] output 0 %y: f32[n]", SCAN);
    assert_snapshot!("with_threads", parts(scan(), |run, kernel| split(run, kernel, true)));
    assert_snapshot!("alone", parts(scan(), |run, kernel| split(run, kernel, false)));
}

#[test]
fn columns_and_rows_go_together_in_tiles() {
    let arrays = "symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output 0 %y: f32[m] output 1 %z: f32[n]";
    let both = || program(arrays, COLUMNS_AND_ROWS);
    assert_snapshot!("tiled", parts(both(), |run, kernel| split(run, kernel, true)));
    assert_snapshot!("plainly", parts(both(), split_plainly));
}

#[test]
fn a_scalar_goes_from_part_to_part_through_memory() {
    let arrays = "input 0 %x: f32[n] output 0 %y: f32[n]";
    let body = "v1 = reduce a < n { v2 = load %x[a] } with max free v2
        parallel i < n { v3 = load %x[i] v4 = sub v3, v1 store %y[i], v4 }";
    assert_snapshot!(parts(program(arrays, body), |run, kernel| split(run, kernel, true)));
}

#[test]
fn a_transposition_loads_across_memory() {
    let arrays = "symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output 0 %y: f32[m, n]";
    let found = |body: &str| {
        let program = program(arrays, body);
        let [Statement::Loop(l)] = program.kernels[KernelId::from_u32(0)].body.as_slice() else { panic!("one loop") };
        Across::of(&program, l).map(|across| (across.outer, across.loads))
    };
    assert_eq!(found("parallel i < m, j < n { v0 = load %x[j, i] store %y[i, j], v0 }"), Some((0, vec![0])));
    assert_eq!(found("parallel j < n, i < m { v0 = load %x[j, i] store %y[i, j], v0 }"), None);
}
