//! From a program to PTX: the parts of its kernels, a function each, and how each is launched.

use cranelift_codegen::entity::PrimaryMap;
use ir::nest::{BufferId, KernelId, LoopKind, Program, Role, Statement};
use ir::{Size, visit};

use super::build::Control;
use super::emit::{Argument, Emitter, Team};
use super::inst::{Function, Opcode, Special, Type};
use super::print;
use super::vectors::Vectors;
use crate::call::kernel_sizes;
use crate::cpu::CompileError;
use crate::cpu::prepare::without_contractions;
use crate::cpu::scan::may_fault;
use crate::cpu::split::{Part, root, split_plainly};

/// Threads of a block that works together: one for each lane of a reduction.
const TEAM: u32 = 128;
/// Threads of a block that each work alone.
const CROWD: u32 = 256;
/// Most iterations of inner loops, all constant, that a thread runs by itself.
const FEW: i64 = 64;

/// A program as PTX.
pub struct Module {
    text: String,
    /// The program as it is run, without its kernels' code.
    pub(super) program: Program,
    pub(super) kernels: Vec<Kernel>,
    /// Sizes that kernels mention.
    pub(super) sizes: Vec<(KernelId, Size)>,
}

/// How a kernel is launched.
pub(super) struct Kernel {
    pub(super) name: String,
    pub(super) arguments: Vec<Argument>,
    pub(super) grid: Grid,
    /// Threads of a block.
    pub(super) threads: u32,
    /// Whether it checks something even where its loop is empty.
    pub(super) checks: bool,
    /// Scratch buffers that it uses.
    pub(super) scratch: Vec<BufferId>,
}

/// How many blocks a launch has.
pub(super) enum Grid {
    /// One.
    One,
    /// A thread for each iteration of a loop of these extents, or for so many; without extents, data says how many there are.
    Threads(Option<Vec<Size>>, usize),
    /// A block for each.
    Blocks(Option<Vec<Size>>),
    /// A block for each chunk of so many elements.
    Chunks(Option<Vec<Size>>),
}

impl Module {
    /// Compiles a verified program.
    pub fn compile(program: &Program) -> Result<Module, CompileError> {
        ir::verify::verify(program).map_err(|e| CompileError::Internal(format!("the program is not verified: {e}")))?;
        let mut run = Program { kernels: PrimaryMap::new(), ..program.clone() };
        let mut parts = vec![];
        for kernel in program.kernels.values() {
            parts.extend(split_plainly(&mut run, without_contractions(program, kernel)));
        }
        let sizes = kernel_sizes(program);
        let mut functions = vec![];
        let mut kernels = vec![];
        for (number, part) in parts.iter().enumerate() {
            let name = format!("kernel{number}");
            let (function, arguments, grid) = kernel(&run, part, name.clone());
            let threads = function.threads;
            let checks = root(part).is_some_and(|(before, _)| before.iter().any(may_fault));
            functions.push(function);
            kernels.push(Kernel { name, arguments, grid, threads, checks, scratch: scratch(&run, part) });
        }
        Ok(Module { text: print::module(&functions), program: run, kernels, sizes })
    }

    /// The PTX text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The scratch buffers that a part uses.
fn scratch(program: &Program, part: &Part) -> Vec<BufferId> {
    let mut found = visit::stores(&part.kernel.body);
    found.retain(|id| program.buffers[*id].role == Role::Scratch);
    found.sort_unstable();
    found.dedup();
    found
}

/// One part: its code, what it is handed, and how it is launched.
fn kernel(program: &Program, part: &Part, name: String) -> (Function, Vec<Argument>, Grid) {
    let root = root(part);
    let alone = matches!(root, Some((_, Statement::Loop(l))) if part.chunks.is_empty() && is_short(&l.body));
    let mut e = Emitter::new(program, part, if alone { CROWD } else { TEAM }, alone);
    let grid = match root {
        Some((before, Statement::Loop(l))) => {
            e.block(before);
            let extents = Emitter::extents(&l.dims);
            match &l.kind {
                LoopKind::Reduce(reductions) if !part.chunks.is_empty() => {
                    e.reduce_chunks(l, reductions, &part.chunks);
                    Grid::Chunks(extents)
                }
                _ if let Some(vectors) = Vectors::of(&e, l).filter(|_| alone) => {
                    e.in_vectors(l, &vectors);
                    Grid::Threads(extents, vectors.width)
                }
                _ if alone => {
                    let axes = e.axes(&l.dims, &l.body);
                    let [thread, block, threads, blocks] =
                        [Special::Tid, Special::Ctaid, Special::Ntid, Special::Nctaid].map(|s| e.special(s));
                    let first = e.b().op(Opcode::Mad, Type::S64, &[block.into(), threads.into(), thread.into()]);
                    let all = e.b().op2(Opcode::Mul, Type::S64, blocks, threads);
                    e.counted(first, axes.total, all, |e, number| e.iteration(&axes, number, &l.body));
                    Grid::Threads(extents, 1)
                }
                _ => {
                    let axes = e.axes(&l.dims, &l.body);
                    let [block, blocks] = [Special::Ctaid, Special::Nctaid].map(|s| e.special(s));
                    e.counted(block, axes.total, blocks, |e, number| {
                        e.unravel(&axes, number);
                        e.as_team(Team::Block, |e| e.block(&l.body));
                        // The next iteration writes anew what this one reads.
                        e.b().barrier();
                    });
                    Grid::Blocks(extents)
                }
            }
        }
        _ => {
            e.block(&part.kernel.body);
            Grid::One
        }
    };
    let (function, arguments) = e.finish(name);
    (function, arguments, grid)
}

/// Whether a thread may run a body by itself: its loops have few iterations.
fn is_short(body: &[Statement]) -> bool {
    let mut iterations = 1i64;
    let mut known = true;
    visit::for_each_statement(body, &mut |statement| {
        if let Statement::Loop(l) = statement {
            match Emitter::extents(&l.dims).and_then(|e| e.iter().map(Size::as_constant).collect::<Option<Vec<_>>>()) {
                Some(extents) => extents.iter().for_each(|n| iterations = iterations.saturating_mul((*n).max(1))),
                None => known = false,
            }
        }
    });
    known && iterations <= FEW
}
