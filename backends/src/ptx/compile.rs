//! Compiles a program to PTX. Each part of a kernel becomes one or more variants, functions for
//! different sizes, and each variant records how it is launched.

use std::collections::BTreeSet;

use ir::nest::{BufferId, Contraction, Loop, LoopKind, Program, Statement};
use ir::sched::{Machine, Part, Phase, Run, Scheduled};
use ir::{Origin, Size, visit};

use super::build::Control;
use super::chunks;
use super::columns;
use super::contract::Tiled;
use super::emit::{Argument, Emitter};
use super::inst::{Opcode, Special, Type};
use super::ordered::{LANES, has_ordered, stores_too};
use super::reduce::{SHARED, chunks_together, shared_bytes};
use super::row_mapping::RowMapping;
use super::rows::Rows;
use super::state::{ExecScope, ScratchScope, SyncScope};
use super::stencil::Stencil;
use super::transpose::Transpose;
use super::vectors::Vectors;
use super::{Math, Target, print};
use crate::error::{CompileError, check};

/// The block size for threads that cooperate: one thread per lane of the canonical order.
const COOPERATIVE_THREADS: u32 = 128;
/// The largest block size.
const MAX_THREADS: u32 = 1024;
/// The block size for threads that work independently.
const INDEPENDENT_THREADS: u32 = 256;
/// The limit on the iterations of inner loops, with constant extents, that a single thread runs.
const MAX_SEQUENTIAL: i64 = 64;

/// A program compiled to PTX.
pub struct Module {
    /// The program with the buffers that parts add, but without kernels.
    pub(super) program: Program,
    pub(super) kernels: Vec<Kernel>,
}

/// A part of a kernel with its variants.
pub(super) struct Kernel {
    /// The index of the program's kernel that it belongs to.
    pub(super) of: usize,
    /// A call launches the first variant with a guard that holds.
    pub(super) variants: Vec<Variant>,
    /// Whether it performs checks even if its loop has no iterations, so that it must be launched
    /// then too.
    pub(super) checks: bool,
    /// The source locations of its operations.
    origins: Vec<Origin>,
}

/// One version of a part: a function and its launch parameters.
pub(super) struct Variant {
    pub(super) name: String,
    /// The PTX text, and the oldest device that runs it.
    text: String,
    pub(super) target: Target,
    /// The size of the static shared memory in bytes.
    pub(super) shared: usize,
    /// The size of the dynamic shared memory in bytes, except for staging buffers.
    pub(super) more: usize,
    pub(super) arguments: Vec<Argument>,
    pub(super) grid: Grid,
    /// The unit that has its own copy of each scratch buffer.
    pub(super) scratch_scope: ScratchScope,
    /// The block size.
    pub(super) threads: Threads,
    /// The sizes that it is for.
    pub(super) guard: Guard,
}

/// The sizes of a call that a variant is for.
pub(super) enum Guard {
    /// Any size.
    Always,
    /// The size is at most this number.
    AtMost(Size, i64),
    /// The mapping supports rows of this length. The number is the size of the staging buffer in
    /// bytes per staged element, and the device must have enough shared memory for it.
    Rows(Size, RowMapping, i64),
}

/// The block size of a variant.
pub(super) enum Threads {
    /// A fixed number.
    Number(u32),
    /// As many as the mapping needs for rows of this length.
    For(Size, RowMapping),
}

/// The number of blocks of a launch, from the extents of the outermost loop. Without extents, the
/// number of iterations depends on data.
pub(super) enum Grid {
    /// A single block.
    One,
    /// A thread per iteration, or per this many iterations.
    Threads(Option<Vec<Size>>, usize),
    /// A block per iteration, or per this many iterations.
    Blocks(Option<Vec<Size>>, i64),
    /// A cluster per iteration.
    Clusters(Option<Vec<Size>>),
    /// For stencils: a block per patch, which has a column for each thread and a few rows.
    Patches(Option<Vec<Size>>),
    /// A block per this many chunks of iterations.
    Chunks(Option<Vec<Size>>, i64),
    /// A block per strip of this many columns.
    Strips(Option<Vec<Size>>, i64),
}

impl Module {
    /// Compiles a program that is scheduled for [`Machine::PTX`]. The results are bit-identical to
    /// those of every other engine.
    pub fn compile(scheduled: &Scheduled) -> Result<Module, CompileError> {
        Module::compile_with(scheduled, Math::Exact)
    }

    /// Compiles such a program with the given precision.
    pub fn compile_with(scheduled: &Scheduled, math: Math) -> Result<Module, CompileError> {
        check(scheduled, Machine::PTX)?;
        let Scheduled { program, parts, .. } = scheduled;
        let mut kernels = vec![];
        for (number, part) in parts.iter().enumerate() {
            let checks = part.root().is_some_and(|(before, _)| before.iter().any(Statement::may_fault));
            let variants = variants_of(program, part, math, &format!("kernel{number}"));
            kernels.push(Kernel {
                of: part.of.as_u32() as usize,
                variants,
                checks,
                origins: part.kernel.origins.clone(),
            });
        }
        Ok(Module { program: program.clone(), kernels })
    }

    /// The oldest device that can run all kernels, in each of their variants.
    pub fn target(&self) -> Target {
        oldest(self.variants())
    }

    fn variants(&self) -> impl Iterator<Item = &Variant> {
        self.kernels.iter().flat_map(|kernel| &kernel.variants)
    }

    /// The PTX of all variants that a device can run.
    pub fn text(&self, target: Target) -> String {
        print::module(target, self.variants().filter(|v| v.target <= target).map(|variant| variant.text.as_str()))
    }

    /// The PTX of the variants with these names.
    pub(super) fn text_of(&self, names: &BTreeSet<&str>) -> String {
        let variants: Vec<_> = self.variants().filter(|v| names.contains(v.name.as_str())).collect();
        print::module(oldest(variants.iter().copied()), variants.iter().map(|variant| variant.text.as_str()))
    }

    /// The PTX of all variants. Comments before each show `note` of the source locations that it
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

/// The oldest device that can run all variants.
fn oldest<'v>(variants: impl Iterator<Item = &'v Variant>) -> Target {
    variants.map(|variant| variant.target).max().unwrap_or(Target::Sm80)
}

impl Variant {
    /// A variant of the code that an emitter has generated. The block size is the one that the
    /// emitter was created with, unless it depends on the sizes of a call.
    fn new(e: Emitter<'_>, name: String, grid: Grid, threads: Option<Threads>, guard: Guard) -> Variant {
        let scratch_scope = e.mapping.scratch_scope;
        let (function, arguments) = e.finish(name.clone());
        let threads = threads.unwrap_or(Threads::Number(function.threads));
        let target = if function.cluster.is_some() { Target::Sm90 } else { Target::Sm80 };
        let (text, shared) = (function.to_string(), function.shared);
        Variant { name, text, target, shared, more: 0, arguments, grid, scratch_scope, threads, guard }
    }
}

/// Generates the variants of a part.
fn variants_of(program: &Program, part: &Part, math: Math, name: &str) -> Vec<Variant> {
    let mut variants = vec![];
    let short = matches!(part.root(), Some((_, Statement::Loop(l))) if is_short(&l.body));
    if let Run::Strips { joined } = &part.run
        && !short
    {
        let extents = part.root().and_then(|(_, s)| if let Statement::Loop(l) = s { Some(&l.dims) } else { None });
        let lengths = extents.into_iter().flatten().filter_map(|(_, extent)| extent.as_size());
        let columns = lengths.fold(Size::constant(1), |all, length| &all * length);
        for (number, (shape, limit)) in columns::shapes(joined.as_ref(), &columns).into_iter().enumerate() {
            let name = if number == 0 { name.to_owned() } else { format!("{name}_{number}") };
            let guard = limit.map_or(Guard::Always, |(size, most)| Guard::AtMost(size, most));
            variants.push(in_strips(program, part, shape, name, guard));
        }
        return variants;
    }
    if let Some(rows) = Rows::of(program, part).filter(|_| !short) {
        let length = rows.extent.as_constant();
        let may = |mapping: &RowMapping| {
            length.is_none_or(|n| mapping.fits(n))
                && (rows.long || !mapping.tail)
                && (rows.long && rows.scratch_in_registers || mapping.sync_scope != SyncScope::Cluster)
                && (rows.staging.bytes > 0 || !mapping.staged)
        };
        for mapping in RowMapping::ALL.into_iter().filter(may) {
            variants.push(in_rows(program, part, &rows, format!("{name}_{}", mapping.name), mapping));
            // If the length is constant, the first mapping that fits is the only variant. The
            // others also need a fallback, because only the device knows if it supports clusters
            // and how much shared memory it has.
            if length.is_some() && !mapping.staged && mapping.sync_scope != SyncScope::Cluster {
                return variants;
            }
        }
        if rows.long {
            return variants;
        }
    }
    variants.push(match (&part.run, part.root()) {
        (Run::Phase { phase, results }, _) => in_chunks(program, part, *phase, results, name.to_owned()),
        (_, Some((before, Statement::Contract(c)))) => contracted(program, part, before, c, math, name.to_owned()),
        _ => kernel(program, part, name.to_owned(), !variants.is_empty()),
    });
    variants
}

/// A part processed in strips of columns.
fn in_strips(program: &Program, part: &Part, shape: columns::StripShape, name: String, guard: Guard) -> Variant {
    let mut e = Emitter::new(program, part, shape.threads(), ScratchScope::Block);
    let mut grid = Grid::One;
    if let Some((before, Statement::Loop(l))) = part.root() {
        e.block(before);
        e.in_strips(l, shape);
        grid = Grid::Strips(Emitter::extents(&l.dims), shape.width);
    }
    Variant::new(e, name, grid, None, guard)
}

/// A phase of a long scan.
fn in_chunks(program: &Program, part: &Part, phase: Phase, results: &[BufferId], name: String) -> Variant {
    let mut e = Emitter::new(program, part, chunks::THREADS, ScratchScope::Block);
    let mut grid = Grid::One;
    if let Some((before, Statement::Loop(l))) = part.root() {
        e.block(before);
        e.scan_chunks(l, phase, results);
        if phase != Phase::Befores {
            grid = Grid::Chunks(Emitter::extents(&l.dims), 1);
        }
    }
    Variant::new(e, name, grid, None, Guard::Always)
}

/// A part with rows in registers, in one of the mappings.
fn in_rows(program: &Program, part: &Part, rows: &Rows, name: String, mapping: RowMapping) -> Variant {
    let scratch_scope = if mapping.sync_scope == SyncScope::Warp { ScratchScope::Warp } else { ScratchScope::Block };
    let mut e = Emitter::new(program, part, mapping.threads(), scratch_scope);
    e.mapping.sync_scope = mapping.sync_scope;
    let mut extents = None;
    if let Some((before, Statement::Loop(l))) = part.root() {
        e.block(before);
        e.rows(l, rows, mapping);
        extents = Emitter::extents(&l.dims);
    }
    let threads = Threads::For(rows.extent.clone(), mapping);
    let guard = Guard::Rows(rows.extent.clone(), mapping, rows.staging.bytes);
    let grid = if mapping.sync_scope == SyncScope::Cluster {
        Grid::Clusters(extents)
    } else {
        Grid::Blocks(extents, mapping.rows())
    };
    Variant::new(e, name, grid, Some(threads), guard)
}

/// A contraction and the statements before it.
fn contracted(
    program: &Program,
    part: &Part,
    before: &[Statement],
    c: &Contraction,
    math: Math,
    name: String,
) -> Variant {
    let tiled = Tiled::of(&part.kernel.values, c, math);
    // Epilogues use scratch per element, so each thread needs its own copy.
    let mut e = Emitter::new(program, part, tiled.threads(), ScratchScope::Thread);
    e.block(before);
    e.contract(c, &tiled);
    let variant = Variant::new(e, name, Grid::Blocks(Some(tiled.counts()), 1), None, Guard::Always);
    Variant { more: tiled.more(), ..variant }
}

/// A part in its general form: loops over threads or blocks, or a single block.
fn kernel(program: &Program, part: &Part, name: String, in_rows: bool) -> Variant {
    let (root, results) = (part.root(), part.run.results());
    let ordered = matches!(root, Some((_, Statement::Loop(l))) if has_ordered(&l.body));
    let independent =
        matches!(root, Some((_, Statement::Loop(l))) if results.is_empty() && is_short(&l.body) && !ordered);
    // Whether it handles rows that are too long for registers, or combines partial results. Both
    // profit from more threads.
    let long = in_rows || root.is_none();
    let threads = match root {
        _ if independent => INDEPENDENT_THREADS,
        // A table for each warp, unless the warps of a block store to neighbouring places.
        Some((_, Statement::Loop(l))) if ordered => {
            if stores_too(&l.body) {
                INDEPENDENT_THREADS
            } else {
                LANES
            }
        }
        Some((_, Statement::Loop(Loop { kind: LoopKind::Reduce(reductions), .. }))) => {
            COOPERATIVE_THREADS
                * u32::try_from(chunks_together(program, reductions, |v| part.kernel.values[v])).unwrap_or(1)
        }
        Some((_, Statement::Loop(l))) if l.kind == LoopKind::Parallel && !results.is_empty() => COOPERATIVE_THREADS,
        _ if long && shared_bytes(program, &part.kernel.values, &part.kernel.body, MAX_THREADS) <= SHARED => {
            MAX_THREADS
        }
        _ => COOPERATIVE_THREADS,
    };
    // In a chunk, each element is computed by a single thread.
    let scratch_scope =
        if independent || root.is_some() && !results.is_empty() { ScratchScope::Thread } else { ScratchScope::Block };
    let mut e = Emitter::new(program, part, threads, scratch_scope);
    // Partial results of whole reductions are combined at the top level, those of columns inside a
    // loop over the columns.
    e.mapping.runs = root.is_none();
    if let Some((_, Statement::Loop(l))) = root.filter(|_| ordered) {
        e.scratch_to_shared_memory(&l.body);
    }
    let grid = match root {
        Some((before, Statement::Loop(l))) => {
            e.block(before);
            let extents = Emitter::extents(&l.dims);
            match &l.kind {
                LoopKind::Reduce(reductions) if !results.is_empty() => {
                    e.reduce_chunks(l, reductions, results);
                    Grid::Chunks(extents, i64::from(threads / COOPERATIVE_THREADS))
                }
                LoopKind::Parallel if !results.is_empty() => {
                    e.reduce_columns(l, results);
                    Grid::Threads(Some(program.buffers[results[0]].shape.clone()), 1)
                }
                _ if let Run::Transpose(tiles) = &part.run
                    && let Some(transpose) = Transpose::of(&e, l, tiles).filter(|_| independent) =>
                {
                    e.transpose_tiles(l, &transpose);
                    Grid::Blocks(Some(transpose.tiles()), 1)
                }
                _ if let Some(stencil) = Stencil::of(&e, l).filter(|_| independent) => {
                    // Without this the assembler hoists all loads of a column. Their registers cost
                    // more in occupancy than they gain in latency.
                    e.mapping.resident = Some(5);
                    e.in_columns(l, &stencil);
                    Grid::Patches(extents)
                }
                _ if let Some(vectors) = Vectors::of(&e, l).filter(|_| independent && extents.is_some()) => {
                    e.mapping.resident = vectors.resident();
                    e.in_vectors(l, &vectors);
                    Grid::Threads(extents, vectors.each())
                }
                _ if independent => {
                    let axes = e.axes(&l.dims, &l.body);
                    let [thread, block, threads, blocks] =
                        [Special::Tid, Special::Ctaid, Special::Ntid, Special::Nctaid].map(|s| e.special(s));
                    let first = e.b().op(Opcode::Mad, Type::S64, &[block.into(), threads.into(), thread.into()]);
                    let all = e.b().op2(Opcode::Mul, Type::S64, blocks, threads);
                    e.counted(first, axes.total, all, |e, number| e.iteration(&axes, number, &l.body));
                    Grid::Threads(extents, 1)
                }
                LoopKind::Parallel
                | LoopKind::Serial
                | LoopKind::Scan
                | LoopKind::Keyed { .. }
                | LoopKind::Sort
                | LoopKind::Reduce(_) => {
                    let axes = e.axes(&l.dims, &l.body);
                    let [block, blocks] = [Special::Ctaid, Special::Nctaid].map(|s| e.special(s));
                    e.counted(block, axes.total, blocks, |e, number| {
                        e.unravel(&axes, number);
                        e.in_exec_scope(ExecScope::Block, |e| e.block(&l.body));
                        // The next iteration overwrites shared memory that this one reads.
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
    Variant::new(e, name, grid, None, Guard::Always)
}

/// Whether one thread can run a body alone: all inner extents are constants with a small product.
/// The iterations of a serial loop have to follow each other in any case.
fn is_short(body: &[Statement]) -> bool {
    let mut iterations = 1i64;
    let mut known = true;
    visit::for_each_statement(body, &mut |statement| {
        if let Statement::Loop(l) = statement
            && l.kind != LoopKind::Serial
        {
            match Emitter::extents(&l.dims).and_then(|e| e.iter().map(Size::as_constant).collect::<Option<Vec<_>>>()) {
                Some(extents) => extents.iter().for_each(|n| iterations = iterations.saturating_mul((*n).max(1))),
                None => known = false,
            }
        }
    });
    known && iterations <= MAX_SEQUENTIAL
}
