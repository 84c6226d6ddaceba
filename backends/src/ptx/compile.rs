//! Compiles a program to PTX. Each part of a kernel becomes one or more variants, functions for
//! different sizes, and each variant records how it is launched.

use std::collections::BTreeSet;

use ir::nest::{BufferId, Contraction, Loop, LoopKind, Program, Statement};
use ir::order::{SCAN_CHUNK, Scope};
use ir::sched::{
    self, Axis, Fill, Inner, Machine, Part, Relay, Row, Run, Scheduled, chunks_together, reductions_bytes,
};
use ir::{Origin, Size, visit};

use super::contract::{Tiled, in_order};
use super::device::Target;
use super::emit::Emitter;
use super::last::{Code, in_last_block};
use super::print;
use super::reduce::{CHUNK, SHARED};
use super::relay;
use super::split::Split;
use super::state::Argument;
use super::state::{ScratchScope, SyncScope};
use super::tensor::sweeps::InSweeps;
use super::tensor::sweeps::streamed::Streamed;
use super::tensor_map::TensorView;
use crate::error::{CompileError, check};
use crate::settings::Math;

/// The block size for threads that cooperate: one thread per lane of the canonical order.
const COOPERATIVE_THREADS: u32 = 128;
/// The threads that a multiprocessor runs at once, if they have few registers.
const THREADS_AT_ONCE: u32 = 2048;
/// The largest block size.
const MAX_THREADS: u32 = 1024;

/// A program compiled to PTX.
pub struct Module {
    /// The program with the buffers that parts add, but without kernels.
    pub(super) program: Program,
    pub(super) kernels: Vec<Kernel>,
    /// The temporaries that are cleared before the first launch.
    pub(super) cleared: Vec<BufferId>,
}

/// A part of a kernel with its variants.
pub(super) struct Kernel {
    /// The index of the program's kernel that it belongs to.
    pub(super) of: usize,
    /// A call launches the first variant with a guard that holds. There is none if the launch
    /// before runs the part.
    pub(super) variants: Vec<Variant>,
    /// Whether it performs checks, or joins results, even if its loop has no iterations, so that it
    /// must be launched then too.
    pub(super) runs_anyway: bool,
    /// Whether it runs in place of the other parts of its kernel, if a variant fits.
    pub(super) replaces: bool,
    /// The buffers that it stores to, scratch aside.
    pub(super) stores: BTreeSet<BufferId>,
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
    /// The tensor maps that its launches get. It is only for sizes with such maps.
    pub(super) maps: Vec<TensorView>,
    pub(super) grid: Grid,
    /// The unit that has its own copy of each scratch buffer, and the number of units of a block if
    /// these are columns.
    pub(super) scratch_scope: ScratchScope,
    pub(super) columns: Option<i64>,
    /// The most threads of a block.
    pub(super) threads: u32,
    /// The sizes that it is for: each at most the number next to it.
    pub(super) at_most: Vec<(Size, i64)>,
    /// If others do the same in tiles of other sizes: how long a multiprocessor takes for a tile,
    /// in a unit that they share.
    pub(super) turn: Option<i64>,
    /// If it is for rows.
    pub(super) rows: Option<Rows>,
    /// The parts of the sums of a contraction, if blocks share its tiles.
    pub(super) split: Option<Split>,
}

/// The rows that a variant is for: those that the layout fits, if the device has enough shared
/// memory.
pub(super) struct Rows {
    pub(super) layout: Row,
    /// The rows that a block takes at once.
    pub(super) of_block: i64,
    /// The bytes of shared memory for each element beyond the registers.
    pub(super) staged: i64,
}

/// The number of blocks of a launch: a block, or a cluster of blocks, for this many iterations of
/// each axis of the outermost loop. Without extents, the number of iterations depends on data.
pub(super) struct Grid {
    pub(super) axes: Vec<(Option<Vec<Size>>, i64)>,
    pub(super) cluster: u32,
    /// Blocks that take no iterations.
    pub(super) others: i64,
    /// If there are at most as many as the device runs at once, so that each takes several
    /// iterations: the blocks that a multiprocessor runs.
    pub(super) at_once: Option<u32>,
}

/// The blocks of a kernel of another compiler.
pub(crate) struct Blocks {
    /// Extents, each with how many of their iterations a block takes.
    pub(crate) axes: Vec<(Option<Vec<Size>>, i64)>,
    /// Blocks that take none.
    pub(crate) others: i64,
    /// The threads of a block.
    pub(crate) threads: i64,
    /// Whether a block has scratch, and not each thread.
    pub(crate) together: bool,
}

impl Grid {
    /// Blocks that take this many iterations each.
    fn each(extents: Option<Vec<Size>>, each: i64) -> Grid {
        Grid { axes: vec![(extents, each)], ..Grid::one() }
    }

    /// That of a loop that is laid out.
    fn of(l: &Loop, layout: &sched::Variant, cluster: u32) -> Grid {
        let extents = |axis: &Axis| {
            let of = |index| l.dims.iter().find(|(other, _)| other == index)?.1.as_size().cloned();
            axis.indices.iter().map(of).collect::<Option<Vec<Size>>>()
        };
        let axes = layout.axes.iter().map(|axis| (extents(axis), axis.of_block())).collect();
        Grid { axes, cluster, ..Grid::one() }
    }

    /// A single block.
    fn one() -> Grid {
        Grid { axes: vec![], cluster: 1, others: 0, at_once: None }
    }
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
        let (mut kernels, mut cleared) = (vec![], vec![]);
        for (number, part) in parts.iter().enumerate() {
            let name = format!("kernel{number}");
            let next = parts.get(number + 1).and_then(|next| Some((next, next.last?)));
            let variants = match next {
                Some((next, ended)) => vec![and_last(program, part, next, ended, name)],
                None if part.last.is_some() => vec![],
                None => variants_of(program, part, math, &name),
            };
            // The results of no chunks are joined too.
            let faults = part.root().is_some_and(|(before, _)| before.iter().any(Statement::may_fault));
            let origins = part.kernel.origins.clone();
            let mut stores = stored(part);
            stores.extend(next.into_iter().flat_map(|(next, _)| stored(next)));
            kernels.push(Kernel {
                of: part.of.as_u32() as usize,
                variants,
                runs_anyway: faults || next.is_some(),
                replaces: part.run == Run::Sweeps,
                stores,
                origins,
            });
            match part.run {
                Run::Relay(relay) => cleared.push(relay.buffer),
                _ => cleared.extend(part.last),
            }
        }
        Ok(Module { program: program.clone(), kernels, cleared })
    }

    /// Puts a kernel of another compiler in place of the variants of a part.
    pub(crate) fn replace(&mut self, number: usize, name: &str, ptx: &str, arguments: &[Argument], blocks: &Blocks) {
        let entry = ptx.find(".visible .entry").map_or(ptx, |at| &ptx[at..]);
        self.kernels[number].variants = vec![Variant {
            name: name.to_owned(),
            text: entry.to_owned(),
            target: Target::Sm80,
            shared: 0,
            more: 0,
            arguments: arguments.to_vec(),
            maps: vec![],
            grid: Grid { axes: blocks.axes.clone(), others: blocks.others, ..Grid::one() },
            scratch_scope: if blocks.together { ScratchScope::Block } else { ScratchScope::Thread },
            columns: None,
            threads: u32::try_from(blocks.threads).unwrap_or(MAX_THREADS),
            at_most: vec![],
            turn: None,
            rows: None,
            split: None,
        }];
    }

    /// Without the variants for a single generation of devices: the others run on those of
    /// their target and on all later ones.
    #[must_use]
    pub fn for_later_devices(mut self) -> Module {
        for kernel in &mut self.kernels {
            kernel.variants.retain(|variant| variant.target != Target::Sm90a);
        }
        self
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

/// The buffers that a part stores to, also to pass on what it has reduced, or to count its blocks.
fn stored(part: &Part) -> BTreeSet<BufferId> {
    let mut stored: BTreeSet<BufferId> = visit::stores(&part.kernel.body).into_iter().collect();
    stored.extend(part.run.results());
    stored.extend(part.last);
    if let Run::Relay(relay) = &part.run {
        stored.insert(relay.buffer);
    }
    stored
}

/// The oldest device that can run all variants.
fn oldest<'v>(variants: impl Iterator<Item = &'v Variant>) -> Target {
    variants.map(|variant| variant.target).max().unwrap_or(Target::Sm80)
}

impl Variant {
    /// A variant of the code that an emitter has generated, for any sizes.
    fn new(e: Emitter<'_>, name: String, grid: Grid) -> Variant {
        let scratch_scope = e.mapping.scratch_scope;
        let columns = e.strip_shape.map(|shape| shape.width);
        let maps = e.maps.clone();
        Variant { scratch_scope, columns, maps, ..Variant::of(e.finish(name), grid) }
    }

    /// A variant with this code, without scratch.
    fn of((function, arguments): Code, grid: Grid) -> Variant {
        let target = if function.cluster.is_some() { Target::Sm90 } else { Target::Sm80 };
        let (text, shared, threads) = (function.to_string(), function.shared, function.threads);
        Variant {
            name: function.name,
            text,
            target,
            shared,
            more: 0,
            arguments,
            maps: vec![],
            grid,
            scratch_scope: ScratchScope::Thread,
            columns: None,
            threads,
            at_most: vec![],
            turn: None,
            rows: None,
            split: None,
        }
    }
}

/// Generates the variants of a part.
fn variants_of(program: &Program, part: &Part, math: Math, name: &str) -> Vec<Variant> {
    let mut variants = vec![];
    if let Some((before, Statement::Loop(l))) = part.root() {
        for (number, layout) in part.variants.iter().enumerate() {
            let another = part.variants[..number].iter().any(|other| other.row().is_none());
            let name = match layout.row() {
                Some(row) => format!("{name}_{}", row_name(row)),
                None if another => format!("{name}_{number}"),
                None => name.to_owned(),
            };
            variants.push(laid_out(program, part, (before, l), layout, name));
        }
        if !variants.is_empty() {
            return variants;
        }
    }
    variants.push(match (&part.run, part.root()) {
        (Run::Relay(relay), _) => in_chunks(program, part, relay, name.to_owned()),
        (Run::Sweeps, Some((before, Statement::Loop(l)))) => return swept(program, part, (before, l), math, name),
        (_, Some((before, Statement::Contract(c)))) => {
            return contracted(program, part, (before, c), math, name);
        }
        _ => {
            let (e, grid) = kernel(program, part, None);
            Variant::new(e, name.to_owned(), grid)
        }
    });
    variants
}

/// A part in chunks, with the part that its last block runs.
fn and_last(program: &Program, part: &Part, last: &Part, ended: BufferId, name: String) -> Variant {
    let (e, grid) = kernel(program, part, None);
    let (scratch_scope, threads) = (e.mapping.scratch_scope, e.mapping.threads);
    let first = e.finish(name.clone());
    let second = kernel(program, last, Some(threads)).0.finish(name);
    // Each block counts once, which takes as long as several loads.
    let grid = Grid { at_once: Some(THREADS_AT_ONCE / threads), ..grid };
    Variant { scratch_scope, ..Variant::of(in_last_block((&first, &second), ended), grid) }
}

/// A long scan.
fn in_chunks(program: &Program, part: &Part, scan: &Relay, name: String) -> Variant {
    let mut e = Emitter::new(program, part, relay::THREADS, ScratchScope::Block);
    let mut grid = Grid::one();
    if let Some((before, Statement::Loop(l))) = part.root() {
        e.block(before);
        e.mapping.resident = Some(relay::RESIDENT);
        e.relay(l, scan);
        grid = Grid { others: 1, ..Grid::each(Emitter::extents(&l.dims), SCAN_CHUNK as i64) };
    }
    Variant::new(e, name, grid)
}

/// A contraction and the statements before it.
fn contracted(
    program: &Program,
    part: &Part,
    (before, c): (&[Statement], &Contraction),
    math: Math,
    name: &str,
) -> Vec<Variant> {
    let c = &in_order(c);
    let tiled = Tiled::all(program, &part.kernel.values, c, math);
    let variants = tiled.iter().map(|tiled| {
        // Epilogues use scratch per element, so each thread needs its own copy.
        let mut e = Emitter::new(program, part, tiled.threads(), ScratchScope::Thread);
        e.block(before);
        e.contract(c, tiled);
        let grid = Grid { at_once: tiled.at_once(), ..Grid::each(Some(tiled.counts()), 1) };
        let variant = Variant::new(e, format!("{name}{}", tiled.suffix()), grid);
        Variant {
            more: tiled.more(),
            target: tiled.target(),
            turn: tiled.turn(),
            at_most: tiled.at_most(),
            split: tiled.split().cloned(),
            ..variant
        }
    });
    variants.collect()
}

/// A part in sweeps.
fn swept(program: &Program, part: &Part, (before, l): (&[Statement], &Loop), math: Math, name: &str) -> Vec<Variant> {
    let variants = InSweeps::all(program, part, l, math).into_iter().map(|code| {
        let mut e = Emitter::new(program, part, InSweeps::threads(), ScratchScope::Thread);
        e.block(before);
        e.in_sweeps(&code);
        let variant = Variant::new(e, format!("{name}{}", code.suffix()), Grid::each(Some(code.counts()), 1));
        Variant { more: code.memory(), target: Target::Sm90a, at_most: code.at_most(), ..variant }
    });
    let streamed = Streamed::all(program, part, l, math).into_iter().map(|code| {
        let mut e = Emitter::new(program, part, InSweeps::threads(), ScratchScope::Thread);
        e.block(before);
        e.in_streamed_sweeps(&code);
        let grid = Grid { at_once: Some(1), ..Grid::each(Some(code.counts()), 1) };
        let variant = Variant::new(e, format!("{name}{}", code.suffix()), grid);
        Variant { more: code.memory(), target: Target::Sm90a, at_most: code.at_most(), ..variant }
    });
    variants.chain(streamed).collect()
}

/// The name of a layout of rows in that of a function.
fn row_name(row: &Row) -> String {
    let unit = match row.unit() {
        Scope::Cluster => "cluster",
        Scope::Block if row.groups() > 1 => "block",
        Scope::Block => "group",
        Scope::Vector | Scope::Register | Scope::Memory | Scope::Warp | Scope::Grid => "warp",
    };
    match &row.fill {
        Fill::Masked => unit.to_owned(),
        Fill::Whole => format!("whole_{unit}"),
        Fill::Beyond(beyond) if beyond.staged.is_empty() => "long".to_owned(),
        Fill::Beyond(_) => "shelf".to_owned(),
    }
}

/// A part with a loop that a strategy has laid out.
fn laid_out(
    program: &Program,
    part: &Part,
    (before, l): (&[Statement], &Loop),
    layout: &sched::Variant,
    name: String,
) -> Variant {
    let threads = u32::try_from(layout.threads()).unwrap_or(MAX_THREADS);
    let unit = layout.row().map(Row::unit);
    let scratch_scope = match (&layout.inner, unit) {
        (Inner::Alone, _) => ScratchScope::Thread,
        (_, Some(Scope::Warp)) => ScratchScope::Warp,
        (Inner::Together(_) | Inner::Row(_), _) => ScratchScope::Block,
    };
    let mut e = Emitter::new(program, part, threads, scratch_scope);
    e.mapping.resident = layout.resident;
    if unit == Some(Scope::Cluster) {
        e.mapping.sync_scope = SyncScope::Cluster;
        e.mapping.cluster = layout.row().and_then(|row| u32::try_from(row.blocks()).ok()).unwrap_or(1);
    }
    e.laid_out(before, l, layout);
    let grid = Grid::of(l, layout, e.mapping.cluster);
    let rows = layout.row().map(|row| Rows {
        layout: row.clone(),
        of_block: layout.threads() / row.most_threads(),
        staged: row.staged_bytes(program),
    });
    Variant { at_most: layout.at_most.clone(), rows, ..Variant::new(e, name, grid) }
}

/// The code of a part that no strategy has laid out, in chunks, or in a single block: with this
/// many threads, or as many as suit it best.
fn kernel<'a>(program: &'a Program, part: &'a Part, threads: Option<u32>) -> (Emitter<'a>, Grid) {
    let (root, results) = (part.root(), part.run.results());
    // A single block combines partial results, which profits from more threads.
    let most = usize::try_from(MAX_THREADS).unwrap_or(0);
    let threads = threads.unwrap_or_else(|| match root {
        Some((_, Statement::Loop(Loop { kind: LoopKind::Reduce(reductions), .. })))
            if matches!(part.run, Run::Chunks { .. }) =>
        {
            COOPERATIVE_THREADS
                * u32::try_from(chunks_together(program, &part.kernel.values, reductions, SHARED)).unwrap_or(1)
        }
        None if reductions_bytes(program, &part.kernel.values, &part.kernel.body, most) <= SHARED => MAX_THREADS,
        _ => COOPERATIVE_THREADS,
    });
    let of_threads = root.is_some() || part.has_scratch_of_iterations(program);
    let scratch_scope = if of_threads { ScratchScope::Thread } else { ScratchScope::Block };
    let mut e = Emitter::new(program, part, threads, scratch_scope);
    // Partial results of whole reductions are combined at the top level, those of columns inside a
    // loop over the columns.
    e.mapping.runs = root.is_none();
    let grid = match root {
        Some((before, Statement::Loop(l))) if matches!(part.run, Run::Blocks { .. }) => {
            e.block(before);
            match &l.kind {
                LoopKind::Reduce(reductions) => e.reduce_blocks_apart(l, reductions, results),
                _ => e.reduce_columns(l, results),
            }
            Grid::each(Some(program.buffers[results[0]].shape.clone()), threads.into())
        }
        Some((before, Statement::Loop(l))) => {
            e.block(before);
            e.reduce_chunks(l, l.kind.reductions(), results);
            Grid::each(Emitter::extents(&l.dims), i64::from(threads / COOPERATIVE_THREADS) * CHUNK)
        }
        _ => {
            e.block(&part.kernel.body);
            Grid::one()
        }
    };
    (e, grid)
}
