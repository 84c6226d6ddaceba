//! From a program to PTX: the parts of its kernels, a function each, and how each is launched.

use cranelift_codegen::entity::PrimaryMap;
use ir::nest::{KernelId, LoopKind, Program, Statement};
use ir::{Origin, Size, visit};

use super::build::Control;
use super::chunks::{self, Step};
use super::columns::{self, Limit, Shape};
use super::contract::{self, Tiles};
use super::emit::{Argument, Crew, Emitter, Owner, Team};
use super::inst::{Function, Opcode, Special, Type};
use super::print;
use super::reduce::shared_bytes;
use super::rows::{BLOCK_ROW, Rows, WARP_ROW};
use super::turn::Turn;
use super::vectors::Vectors;
use crate::call::kernel_sizes;
use crate::cpu::CompileError;
use crate::cpu::prepare::with_contractions_at_top;
use crate::cpu::scan::may_fault;
use crate::cpu::split::{Part, root, split_plainly};

/// Threads of a block that works together: one for each lane of a reduction.
const TEAM: u32 = 128;
/// Bytes of shared memory that a block has without asking for more, less some.
const SHARED: usize = 40 << 10;
/// Threads of the largest block.
const LARGEST: u32 = 1024;
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

/// A part of a kernel, compiled in one way or several.
pub(super) struct Kernel {
    /// The first one that fits a call's sizes is launched.
    pub(super) variants: Vec<Variant>,
    /// Whether it checks something even where its loop is empty.
    pub(super) checks: bool,
    /// What of the source it computes.
    origins: Vec<Origin>,
}

/// A function, and how it is launched.
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) arguments: Vec<Argument>,
    pub(super) grid: Grid,
    /// Threads of a block.
    pub(super) threads: Threads,
    /// It fits where a size is at most so much.
    pub(super) fits: Limit,
}

/// How many threads a block has.
pub(super) enum Threads {
    /// So many.
    Number(u32),
    /// A group for so many elements of a row.
    Groups(Size),
}

/// How many blocks a launch has.
pub(super) enum Grid {
    /// One.
    One,
    /// A thread for each iteration of a loop of these extents, or for so many; without extents, data says how many there are.
    Threads(Option<Vec<Size>>, usize),
    /// A block for each, or for so many.
    Blocks(Option<Vec<Size>>, i64),
    /// A block for each chunk of so many elements.
    Chunks(Option<Vec<Size>>),
    /// A block for each strip of so many columns.
    Strips(Option<Vec<Size>>, i64),
}

impl Module {
    /// Compiles a verified program.
    pub fn compile(program: &Program) -> Result<Module, CompileError> {
        ir::verify::verify(program).map_err(|e| CompileError::Internal(format!("the program is not verified: {e}")))?;
        let mut run = Program { kernels: PrimaryMap::new(), ..program.clone() };
        let mut parts = vec![];
        for kernel in program.kernels.values() {
            let kernel = with_contractions_at_top(program, kernel, contract::in_tiles);
            for part in split_plainly(&mut run, kernel) {
                for part in columns::parts(&mut run, part) {
                    parts.extend(chunks::parts(&mut run, part));
                }
            }
        }
        let sizes = kernel_sizes(program);
        let mut functions = vec![];
        let mut kernels = vec![];
        for (number, (part, step)) in parts.iter().enumerate() {
            let checks = root(part).is_some_and(|(before, _)| before.iter().any(may_fault));
            let mut variants = vec![];
            for (function, variant) in variants_of(&run, part, *step, &format!("kernel{number}")) {
                functions.push(function);
                variants.push(variant);
            }
            kernels.push(Kernel { variants, checks, origins: part.kernel.origins.clone() });
        }
        Ok(Module { text: print::module(&functions), program: run, kernels, sizes })
    }

    /// The PTX text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The PTX text with comments before each kernel: what `note` says of the places in the source that it computes.
    pub fn annotated(&self, note: impl Fn(&[Origin]) -> Vec<String>) -> String {
        let mut text = self.text.clone();
        for kernel in &self.kernels {
            let comments: String = note(&kernel.origins).into_iter().map(|line| format!("// {line}\n")).collect();
            for variant in &kernel.variants {
                let entry = format!(".visible .entry {}(", variant.name);
                text = text.replacen(&entry, &format!("{comments}{entry}"), 1);
            }
        }
        text
    }
}

/// A part in each way that some sizes of a call may ask for.
fn variants_of(program: &Program, part: &Part, step: Option<Step>, name: &str) -> Vec<(Function, Variant)> {
    let mut variants = vec![];
    let short = matches!(root(part), Some((_, Statement::Loop(l))) if is_short(&l.body));
    if let Some(shapes) = columns::shapes(program, part).filter(|_| !short) {
        for (number, (shape, fits)) in shapes.into_iter().enumerate() {
            let name = if number == 0 { name.to_owned() } else { format!("{name}_{number}") };
            variants.push(in_strips(program, part, shape, name, fits));
        }
        return variants;
    }
    if let Some(rows) = Rows::of(program, part) {
        for (suffix, crew, most) in [("_warp", Crew::Warp, WARP_ROW), ("_block", Crew::Block, BLOCK_ROW)] {
            if rows.extent.as_constant().is_none_or(|n| n <= most) {
                variants.push(in_rows(program, part, &rows, format!("{name}{suffix}"), crew, most));
            }
            if rows.extent.as_constant().is_some_and(|n| n <= most) {
                return variants;
            }
        }
    }
    let name = name.to_owned();
    let (function, arguments, grid) = match step {
        Some(step) => in_chunks(program, part, step, name.clone()),
        None => kernel(program, part, name.clone(), !variants.is_empty()),
    };
    let threads = Threads::Number(function.threads);
    variants.push((function, Variant { name, arguments, grid, threads, fits: None }));
    variants
}

/// A part as strips of columns.
fn in_strips(program: &Program, part: &Part, shape: Shape, name: String, fits: Limit) -> (Function, Variant) {
    let mut e = Emitter::new(program, part, shape.threads(), Owner::Block);
    let mut grid = Grid::One;
    if let Some((before, Statement::Loop(l))) = root(part) {
        e.block(before);
        e.in_strips(l, shape);
        grid = Grid::Strips(Emitter::extents(&l.dims), shape.width);
    }
    let (function, arguments) = e.finish(name.clone());
    let threads = Threads::Number(function.threads);
    (function, Variant { name, arguments, grid, threads, fits })
}

/// A step of a long scan.
fn in_chunks(program: &Program, part: &Part, step: Step, name: String) -> (Function, Vec<Argument>, Grid) {
    let mut e = Emitter::new(program, part, chunks::THREADS, Owner::Block);
    let mut grid = Grid::One;
    if let Some((before, Statement::Loop(l))) = root(part) {
        e.block(before);
        e.scan_chunks(l, step, &part.chunks);
        if step != Step::Befores {
            grid = Grid::Chunks(Emitter::extents(&l.dims));
        }
    }
    let (function, arguments) = e.finish(name);
    (function, arguments, grid)
}

/// A part as rows of at most so many elements.
fn in_rows(program: &Program, part: &Part, rows: &Rows, name: String, crew: Crew, most: i64) -> (Function, Variant) {
    let (owner, threads, each) = match crew {
        Crew::Warp => (Owner::Warp, TEAM, i64::from(TEAM) / 32),
        Crew::Block => (Owner::Block, LARGEST, 1),
    };
    let mut e = Emitter::new(program, part, threads, owner);
    let mut extents = None;
    if let Some((before, Statement::Loop(l))) = root(part) {
        e.block(before);
        e.rows(l, rows);
        extents = Emitter::extents(&l.dims);
    }
    let (function, arguments) = e.finish(name.clone());
    let threads = match crew {
        Crew::Warp => Threads::Number(TEAM),
        Crew::Block => Threads::Groups(rows.extent.clone()),
    };
    let fits = Some((rows.extent.clone(), most));
    (function, Variant { name, arguments, grid: Grid::Blocks(extents, each), threads, fits })
}

/// One part: its code, what it is handed, and how it is launched.
fn kernel(program: &Program, part: &Part, name: String, in_rows: bool) -> (Function, Vec<Argument>, Grid) {
    let root = root(part);
    let alone = matches!(root, Some((_, Statement::Loop(l))) if part.chunks.is_empty() && is_short(&l.body));
    // Rows too long for registers, and results of chunks.
    let long = in_rows || root.is_none();
    let threads = match root {
        _ if alone => CROWD,
        Some((_, Statement::Contract(_))) => contract::THREADS,
        Some((_, Statement::Loop(l))) if l.kind == LoopKind::Parallel && !part.chunks.is_empty() => TEAM,
        _ if long && shared_bytes(&part.kernel.values, &part.kernel.body, LARGEST) <= SHARED => LARGEST,
        _ => TEAM,
    };
    let mut e = Emitter::new(program, part, threads, if alone { Owner::Thread } else { Owner::Block });
    let grid = match root {
        Some((before, Statement::Loop(l))) => {
            e.block(before);
            let extents = Emitter::extents(&l.dims);
            match &l.kind {
                LoopKind::Reduce(reductions) if !part.chunks.is_empty() => {
                    e.reduce_chunks(l, reductions, &part.chunks);
                    Grid::Chunks(extents)
                }
                LoopKind::Parallel if !part.chunks.is_empty() => {
                    e.reduce_columns(l, &part.chunks);
                    Grid::Threads(Some(program.buffers[part.chunks[0]].shape.clone()), 1)
                }
                _ if let Some(turn) = Turn::of(&e, l).filter(|_| alone) => {
                    e.in_tiles(l, &turn);
                    Grid::Blocks(Some(turn.tiles()), 1)
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
                    Grid::Blocks(extents, 1)
                }
            }
        }
        Some((before, Statement::Contract(c))) => {
            e.block(before);
            let tiles = Tiles::of(&e, c);
            e.contract(c, &tiles);
            Grid::Blocks(Some(tiles.counts()), 1)
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
