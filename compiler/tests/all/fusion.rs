//! The fusion passes on IR text. Each file of `fusion/` is a program, with a comment that names the
//! passes to run and explains the expected outcome. The snapshot shows the resulting program and
//! the decisions. Both programs give the same bits.

use std::fmt::Write;
use std::path::Path;

use compiler::pipeline::{Compiled, Options, fuse};
use interp::nest::{Outcome, RunError, run};
use ir::array::ArrayRef;
use ir::decision::{Outcome as Decided, Pair};
use ir::nest::Program;
use ir::{Array, Dtype, Passes, Scalar, verify};

#[test]
fn passes_merge_what_they_may() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/fusion");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let passes = text.strip_prefix("# ").and_then(|t| t.split_once(':')).expect("a comment `# passes: what`").0;
        let fuse_only: Passes = passes.parse().unwrap_or_else(|pass| panic!("{name}: there is no pass {pass}"));
        let program: Program = text.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
        verify::verify(&program).unwrap_or_else(|e| panic!("{name}: {e}"));
        let compiled = fuse(program, &Options { fuse: fuse_only, ..Options::default() }).unwrap();
        verify::verify(&compiled.program).unwrap_or_else(|e| panic!("{name}: {e}\n{}", compiled.program));
        hold(name, &compiled);
        insta::assert_snapshot!(name, outcome(&compiled));
    }
}

/// The kernels, in their loops, and the decisions.
fn outcome(compiled: &Compiled) -> String {
    let mut text = ir::print::tree(&compiled.program);
    let name = |id| &compiled.unfused.kernels[id].name;
    for decision in &compiled.decisions {
        let pair = match decision.pair {
            Pair::Flow { producer, consumer, .. } => format!("{} -> {}", name(producer), name(consumer)),
            Pair::Shared { first, second, .. } => format!("{} + {}", name(first), name(second)),
        };
        let outcome = match &decision.outcome {
            Decided::Fused(pass) => format!("fused by {pass}"),
            Decided::Refused(reason) => format!("refused: {reason:?}"),
        };
        writeln!(text, "{pair}: {outcome}").unwrap();
    }
    text
}

/// Checks that both programs give the same bits, with all sizes equal and with different ones.
fn hold(name: &str, compiled: &Compiled) {
    let mut seed = 1;
    for lengths in [[0, 0, 0], [1, 1, 1], [3, 5, 2], [5, 3, 7], [4, 4, 4], [17, 2, 9]] {
        let inputs = inputs(&compiled.unfused, lengths, &mut seed);
        let inputs: Vec<ArrayRef<'_>> = inputs.iter().map(Array::as_ref).collect();
        match (run(&compiled.unfused, &inputs), run(&compiled.program, &inputs)) {
            (Ok(before), Ok(after)) => assert_eq!(bits(&before), bits(&after), "{name}: {}", compiled.program),
            (Err(RunError::Bind(_)), Err(RunError::Bind(_))) | (Err(RunError::Fault(_)), _) => {}
            (before, after) => panic!("{name}: {before:?}\n{after:?}\n{}", compiled.program),
        }
    }
}

/// The results, any NaN as one.
fn bits(outcome: &Outcome) -> Vec<Vec<Scalar>> {
    outcome.outputs.iter().map(|array| (0..array.len()).filter_map(|n| array.get(n)).collect()).collect()
}

/// Small numbers of every kind; the sizes of a program take the lengths in turn.
fn inputs(program: &Program, lengths: [i64; 3], seed: &mut u64) -> Vec<Array> {
    let array = |id| {
        let buffer = &program.buffers[id];
        let length = |size: &ir::Size| size.eval(&|s| lengths[s.as_u32() as usize % 3]).unwrap_or(0);
        let shape: Vec<usize> = buffer.shape.iter().map(|n| usize::try_from(length(n)).unwrap_or(0)).collect();
        let elements: Vec<Scalar> = (0..shape.iter().product()).map(|_| element(buffer.dtype, seed)).collect();
        Array::from_scalars(buffer.dtype, &shape, &elements).unwrap()
    };
    program.inputs().into_iter().map(array).collect()
}

fn element(dtype: Dtype, seed: &mut u64) -> Scalar {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let small = (*seed >> 33) % 9;
    let special = [f32::NAN, f32::INFINITY, -0.0, 1e-42, -3.5];
    match dtype {
        Dtype::F32 if small >= 7 => Scalar::F32(special[(*seed >> 40) as usize % special.len()]),
        Dtype::F32 => Scalar::F32(small as f32 - 2.5),
        Dtype::F64 => Scalar::F64(small as f64 - 2.5),
        Dtype::Bool => Scalar::Bool(small.is_multiple_of(2)),
        integer => Scalar::from_bits(integer, small % 4),
    }
}
