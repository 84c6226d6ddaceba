//! From a program to PTX: the parts of its kernels, a function each, and how each is launched.

use std::collections::BTreeSet;

use cranelift_codegen::entity::PrimaryMap;
use ir::nest::{Contraction, Loop, LoopKind, Program, Statement};
use ir::{Origin, Size, visit};
use schedule::prepare::with_contractions_at_top;
use schedule::split::{Part, root, split_plainly};

use super::build::Control;
use super::chunks::{self, Step};
use super::columns;
use super::contract::{self, Tiled};
use super::emit::{Argument, Crew, Emitter, Owner, Team};
use super::inst::{Opcode, Special, Type};
use super::reduce::{SHARED, chunks_together, shared_bytes};
use super::rows::Rows;
use super::shares::Shape;
use super::stencil::Stencil;
use super::turn::Turn;
use super::vectors::Vectors;
use super::{Math, Target, print};
use crate::error::CompileError;

/// Threads of a block that works together: one for each lane of a reduction.
const TEAM: u32 = 128;
/// Threads of the largest block.
const LARGEST: u32 = 1024;
/// Threads of a block that each work alone.
const CROWD: u32 = 256;
/// Most iterations of inner loops, all constant, that a thread runs by itself.
const FEW: i64 = 64;

/// A program as PTX.
pub struct Module {
    /// The program as it is run, without its kernels' code.
    pub(super) program: Program,
    pub(super) kernels: Vec<Kernel>,
}

/// A part of a kernel, compiled in one way or several.
pub(super) struct Kernel {
    /// Which of the program's kernels it is a part of.
    pub(super) of: usize,
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
    /// Its PTX, and the devices that it is for.
    text: String,
    pub(super) target: Target,
    /// Bytes of a block's own memory, without those on a shelf.
    pub(super) shared: usize,
    /// Bytes that each launch adds to that.
    pub(super) more: usize,
    pub(super) arguments: Vec<Argument>,
    pub(super) grid: Grid,
    /// Whose scratch is whose.
    pub(super) owner: Owner,
    /// Threads of a block.
    pub(super) threads: Threads,
    /// When it does.
    pub(super) fits: Fits,
}

/// For which sizes of a call a variant is.
pub(super) enum Fits {
    /// All.
    Always,
    /// Those where a size is at most so much.
    AtMost(Size, i64),
    /// Those where rows are of a length that may be shared out so, with so many bytes on a shelf for each element that is there, if a
    /// block may have them.
    Rows(Size, Shape, i64),
}

/// How many threads a block has.
pub(super) enum Threads {
    /// So many.
    Number(u32),
    /// As many as rows of a length take.
    For(Size, Shape),
}

/// How many blocks a launch has.
pub(super) enum Grid {
    /// One.
    One,
    /// A thread for each iteration of a loop of these extents, or for so many; without extents, data says how many there are.
    Threads(Option<Vec<Size>>, usize),
    /// A block for each, or for so many.
    Blocks(Option<Vec<Size>>, i64),
    /// A cluster for each.
    Clusters(Option<Vec<Size>>),
    /// A block for so many columns as it has threads, of so many rows as they take.
    Patches(Option<Vec<Size>>),
    /// A block for so many chunks of elements.
    Chunks(Option<Vec<Size>>, i64),
    /// A block for each strip of so many columns.
    Strips(Option<Vec<Size>>, i64),
}

impl Module {
    /// Compiles a verified program, to give the same bits as on every other engine.
    pub fn compile(program: &Program) -> Result<Module, CompileError> {
        Module::compile_with(program, Math::Exact)
    }

    /// Compiles a verified program.
    pub fn compile_with(program: &Program, math: Math) -> Result<Module, CompileError> {
        ir::verify::verify(program).map_err(|e| CompileError::Internal(format!("the program is not verified: {e}")))?;
        let mut run = Program { kernels: PrimaryMap::new(), ..program.clone() };
        let mut parts = vec![];
        for (of, kernel) in program.kernels.values().enumerate() {
            let kernel = with_contractions_at_top(program, kernel, contract::in_tiles);
            for part in split_plainly(&mut run, kernel) {
                for part in columns::parts(&mut run, part) {
                    parts.extend(chunks::parts(&mut run, part).into_iter().map(|(part, step)| (of, part, step)));
                }
            }
        }
        let mut kernels = vec![];
        for (number, (of, part, step)) in parts.iter().enumerate() {
            let checks = root(part).is_some_and(|(before, _)| before.iter().any(Statement::may_fault));
            let variants = variants_of(&run, part, *step, math, &format!("kernel{number}"));
            kernels.push(Kernel { of: *of, variants, checks, origins: part.kernel.origins.clone() });
        }
        Ok(Module { program: run, kernels })
    }

    /// The oldest device that runs all its kernels.
    pub fn target(&self) -> Target {
        oldest(self.variants())
    }

    fn variants(&self) -> impl Iterator<Item = &Variant> {
        self.kernels.iter().flat_map(|kernel| &kernel.variants)
    }

    /// The text of all kernels in all the ways that they are made for a device.
    pub fn text(&self, target: Target) -> String {
        print::module(target, self.variants().filter(|v| v.target <= target).map(|variant| variant.text.as_str()))
    }

    /// The text of these kernels.
    pub(super) fn text_of(&self, names: &BTreeSet<&str>) -> String {
        let variants: Vec<_> = self.variants().filter(|v| names.contains(v.name.as_str())).collect();
        print::module(oldest(variants.iter().copied()), variants.iter().map(|variant| variant.text.as_str()))
    }

    /// The PTX text for devices that run all kernels, with comments before each: what `note` says of the places in the source that it
    /// computes.
    pub fn annotated(&self, note: impl Fn(&[Origin]) -> Vec<String>) -> String {
        let mut texts = vec![];
        for kernel in &self.kernels {
            let comments: String = note(&kernel.origins).into_iter().map(|line| format!("// {line}\n")).collect();
            texts.extend(kernel.variants.iter().map(|variant| format!("{comments}{}", variant.text)));
        }
        print::module(self.target(), texts.iter().map(String::as_str))
    }
}

/// The oldest device that runs all of them.
fn oldest<'v>(variants: impl Iterator<Item = &'v Variant>) -> Target {
    variants.map(|variant| variant.target).max().unwrap_or(Target::Sm80)
}

impl Variant {
    /// What an emitter has made. A block has all the threads that it was made for, unless the call's sizes say how many.
    fn new(e: Emitter<'_>, name: String, grid: Grid, threads: Option<Threads>, fits: Fits) -> Variant {
        let owner = e.owner;
        let (function, arguments) = e.finish(name.clone());
        let threads = threads.unwrap_or(Threads::Number(function.threads));
        let target = if function.cluster.is_some() { Target::Sm90 } else { Target::Sm80 };
        let (text, shared) = (function.to_string(), function.shared);
        Variant { name, text, target, shared, more: 0, arguments, grid, owner, threads, fits }
    }
}

/// A part in each way that some sizes of a call may ask for.
fn variants_of(program: &Program, part: &Part, step: Option<Step>, math: Math, name: &str) -> Vec<Variant> {
    let mut variants = vec![];
    let short = matches!(root(part), Some((_, Statement::Loop(l))) if is_short(&l.body));
    if let Some(shapes) = columns::shapes(program, part).filter(|_| !short) {
        for (number, (shape, limit)) in shapes.into_iter().enumerate() {
            let name = if number == 0 { name.to_owned() } else { format!("{name}_{number}") };
            let fits = limit.map_or(Fits::Always, |(size, most)| Fits::AtMost(size, most));
            variants.push(in_strips(program, part, shape, name, fits));
        }
        return variants;
    }
    if let Some(rows) = Rows::of(program, part).filter(|_| !short) {
        let length = rows.extent.as_constant();
        let may = |shape: &Shape| {
            length.is_none_or(|n| shape.fits(n))
                && (rows.long || !shape.tail)
                && (rows.long && rows.all_rest || shape.crew != Crew::Cluster)
                && (rows.places.bytes > 0 || !shape.shelf)
        };
        for shape in Shape::ALL.into_iter().filter(may) {
            variants.push(in_rows(program, part, &rows, format!("{name}_{}", shape.name), shape));
            // Whether there are clusters, and whether a block may have the memory, is for the device to say.
            if length.is_some() && !shape.shelf && shape.crew != Crew::Cluster {
                return variants;
            }
        }
        if rows.long {
            return variants;
        }
    }
    variants.push(match step {
        Some(step) => in_chunks(program, part, step, name.to_owned()),
        None => match root(part) {
            Some((before, Statement::Contract(c))) => contracted(program, part, (before, c), math, name.to_owned()),
            _ => kernel(program, part, name.to_owned(), !variants.is_empty()),
        },
    });
    variants
}

/// A part as strips of columns.
fn in_strips(program: &Program, part: &Part, shape: columns::Shape, name: String, fits: Fits) -> Variant {
    let mut e = Emitter::new(program, part, shape.threads(), Owner::Block);
    let mut grid = Grid::One;
    if let Some((before, Statement::Loop(l))) = root(part) {
        e.block(before);
        e.in_strips(l, shape);
        grid = Grid::Strips(Emitter::extents(&l.dims), shape.width);
    }
    Variant::new(e, name, grid, None, fits)
}

/// A step of a long scan.
fn in_chunks(program: &Program, part: &Part, step: Step, name: String) -> Variant {
    let mut e = Emitter::new(program, part, chunks::THREADS, Owner::Block);
    let mut grid = Grid::One;
    if let Some((before, Statement::Loop(l))) = root(part) {
        e.block(before);
        e.scan_chunks(l, step, &part.chunks);
        if step != Step::Befores {
            grid = Grid::Chunks(Emitter::extents(&l.dims), 1);
        }
    }
    Variant::new(e, name, grid, None, Fits::Always)
}

/// A part as rows that are shared out in some way.
fn in_rows(program: &Program, part: &Part, rows: &Rows, name: String, shape: Shape) -> Variant {
    let owner = if shape.crew == Crew::Warp { Owner::Warp } else { Owner::Block };
    let mut e = Emitter::new(program, part, shape.threads(), owner);
    e.crew = shape.crew;
    let mut extents = None;
    if let Some((before, Statement::Loop(l))) = root(part) {
        e.block(before);
        e.rows(l, rows, shape);
        extents = Emitter::extents(&l.dims);
    }
    let threads = Threads::For(rows.extent.clone(), shape);
    let fits = Fits::Rows(rows.extent.clone(), shape, rows.places.bytes);
    let grid = if shape.crew == Crew::Cluster { Grid::Clusters(extents) } else { Grid::Blocks(extents, shape.rows()) };
    Variant::new(e, name, grid, Some(threads), fits)
}

/// A contraction, and what comes before it.
fn contracted(
    program: &Program,
    part: &Part,
    (before, c): (&[Statement], &Contraction),
    math: Math,
    name: String,
) -> Variant {
    let tiled = Tiled::of(&part.kernel.values, c, math);
    // What it has of scratch, threads store for elements of their own.
    let mut e = Emitter::new(program, part, tiled.threads(), Owner::Thread);
    e.block(before);
    e.contract(c, &tiled);
    let variant = Variant::new(e, name, Grid::Blocks(Some(tiled.counts()), 1), None, Fits::Always);
    Variant { more: tiled.more(), ..variant }
}

/// One part: its code, what it is handed, and how it is launched.
fn kernel(program: &Program, part: &Part, name: String, in_rows: bool) -> Variant {
    let root = root(part);
    let alone = matches!(root, Some((_, Statement::Loop(l))) if part.chunks.is_empty() && is_short(&l.body));
    // Rows too long for registers, and results of chunks.
    let long = in_rows || root.is_none();
    let threads = match root {
        _ if alone => CROWD,
        Some((_, Statement::Loop(Loop { kind: LoopKind::Reduce(reductions), .. }))) => {
            TEAM * u32::try_from(chunks_together(program, reductions, |v| part.kernel.values[v])).unwrap_or(1)
        }
        Some((_, Statement::Loop(l))) if l.kind == LoopKind::Parallel && !part.chunks.is_empty() => TEAM,
        _ if long && shared_bytes(program, &part.kernel.values, &part.kernel.body, LARGEST) <= SHARED => LARGEST,
        _ => TEAM,
    };
    // A thread alone computes an element of a chunk.
    let owner = if alone || root.is_some() && !part.chunks.is_empty() { Owner::Thread } else { Owner::Block };
    let mut e = Emitter::new(program, part, threads, owner);
    // Results of chunks are joined at the top, those of columns within a loop over these.
    e.runs = root.is_none();
    let grid = match root {
        Some((before, Statement::Loop(l))) => {
            e.block(before);
            let extents = Emitter::extents(&l.dims);
            match &l.kind {
                LoopKind::Reduce(reductions) if !part.chunks.is_empty() => {
                    e.reduce_chunks(l, reductions, &part.chunks);
                    Grid::Chunks(extents, i64::from(threads / TEAM))
                }
                LoopKind::Parallel if !part.chunks.is_empty() => {
                    e.reduce_columns(l, &part.chunks);
                    Grid::Threads(Some(program.buffers[part.chunks[0]].shape.clone()), 1)
                }
                _ if let Some(turn) = Turn::of(&e, l).filter(|_| alone) => {
                    e.in_tiles(l, &turn);
                    Grid::Blocks(Some(turn.tiles()), 1)
                }
                _ if let Some(stencil) = Stencil::of(&e, l).filter(|_| alone) => {
                    // The assembler would rather hold more of a column's loads than have more threads.
                    e.resident = Some(5);
                    e.in_columns(l, &stencil);
                    Grid::Patches(extents)
                }
                _ if let Some(vectors) = Vectors::of(&e, l).filter(|_| alone && extents.is_some()) => {
                    e.resident = vectors.resident();
                    e.in_vectors(l, &vectors);
                    Grid::Threads(extents, vectors.each())
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
        _ => {
            e.block(&part.kernel.body);
            Grid::One
        }
    };
    Variant::new(e, name, grid, None, Fits::Always)
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
