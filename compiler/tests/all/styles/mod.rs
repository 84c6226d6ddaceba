//! Programs that mean the same become the same, however they are written. Each row of `programs` is
//! one program in three styles: over whole arrays, in index notation, and in another way
//! (functions, merged or kept axes, other names for the parts). All three become as many kernels
//! with the same loops, which execute as many operations, load and store as many elements, and move
//! as many bytes.

mod programs;

use std::fmt::Write;

use compiler::analysis::accesses::Accesses;
use compiler::analysis::cost::{Machine, given};
use compiler::analysis::footprint::moved;
use compiler::analysis::predict::predict;
use compiler::check::check;
use compiler::pipeline::{Options, compile};
use interp::scalar::ARITHMETIC;
use ir::nest::{Block, Extent, IndexId, LoopKind, Program, Statement};
use ir::{Size, SymbolId};

use programs::PROGRAMS;

/// The kernels of a compiled program, as far as the styles are compared.
#[derive(Debug, PartialEq)]
struct Made {
    /// The loops of each kernel, with how often they run.
    loops: Vec<String>,
    operations: u64,
    elements: u64,
    bytes: f64,
}

#[test]
fn styles_come_out_the_same() {
    let mut wrong = String::new();
    for (name, kernels, styles) in PROGRAMS {
        let made = styles.map(|source| (made(&program(source)), program(source)));
        if made.iter().any(|(m, _)| *m != made[0].0 || m.loops.len() != *kernels) {
            for (style, (made, program)) in made.iter().enumerate() {
                writeln!(wrong, "{name}, style {style}, not {kernels} kernels alike: {made:#?}").unwrap();
                program.kernels.values().for_each(|k| wrong.push_str(&ir::print::kernel(program, k)));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn program(source: &str) -> Program {
    let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    let checked = check(&file, "f").unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    compile(&checked, &Options::default()).unwrap().program
}

fn made(program: &Program) -> Made {
    // Sizes of the same name are the same in each style.
    let length = |symbol: SymbolId| 3 + program.symbols[symbol].name.bytes().map(i64::from).sum::<i64>() % 11;
    let size = |size: &Size| size.eval(&length).unwrap();
    let counts = predict(program, &length, &ARITHMETIC);
    // A scalar stays where it is computed with, wherever its load is.
    let arrays = counts.iter().flat_map(|c| c.traffic.iter()).filter(|(b, _)| !program.buffers[**b].shape.is_empty());
    let traffic = arrays.flat_map(|(_, traffic)| [traffic.loads, traffic.stores]);
    let bytes = program.kernels.values().map(|kernel| {
        let moved = moved::<f64>(program, &Accesses::of(kernel), &given(length), &Machine::NOMINAL);
        moved.iter().map(|m| m.bytes).sum::<f64>()
    });
    let mut loops: Vec<String> = program.kernels.values().map(|kernel| outline(&kernel.body, &size)).collect();
    loops.sort();
    Made {
        loops,
        operations: counts.iter().filter_map(|c| c.operations.elements).sum(),
        elements: traffic.filter_map(|count| count.elements).sum(),
        bytes: bytes.sum(),
    }
}

/// The loops of a block, in order. Merged axes count as many iterations as the axes.
fn outline(block: &Block, size: &impl Fn(&Size) -> i64) -> String {
    let times =
        |dims: &[(IndexId, Extent)]| -> i64 { dims.iter().filter_map(|(_, e)| e.as_size()).map(size).product() };
    let mut text = String::new();
    for statement in block {
        let head = match statement {
            Statement::Loop(l) => match &l.kind {
                LoopKind::Reduce(reductions) => format!("{} reductions of {}", reductions.len(), times(&l.dims)),
                kind => format!("{kind:?} {}", times(&l.dims)),
            },
            Statement::Contract(c) => format!("contract {} over {}", times(&c.free), times(&c.reduce)),
            _ => continue,
        };
        let inner: String = statement.blocks().map(|block| outline(block, size)).collect();
        write!(text, "{head} {{ {inner}}} ").unwrap();
    }
    text
}
