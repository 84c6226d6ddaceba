//! Scheduled programs: the parts that kernels are cut into, and how each of them runs. The passes
//! of the crate `schedule` make them from planned programs, and engines generate code for them.
//!
//! A kernel becomes parts that run one after another. A parallel loop or contraction at its top is
//! a part of its own, and its range is split over threads or a grid; a reducing loop or scan runs
//! in chunks of its order; the statements between run on one thread. The kernel of a part shares
//! the values and indices of the kernel that it was cut from. Results are passed from part to part
//! through temporaries.
//!
//! The text form is that of a program with the parts as kernels, framed by what the schedule adds:
//!
//! ```text
//! schedule for cpu, 2 buffers planned, 5 operations
//! program @p {
//!   ...
//! }
//! part @k.0 of k0: chunks to %k.v1.chunks
//! part @k.1 of k0: whole joins chunk.1
//! ```

mod form;
mod machine;
pub mod ordered;
pub mod partition;
mod query;
mod row;
mod sweeps;
pub mod time_tiles;
mod variant;
mod verify;

use cranelift_entity::{EntityRef, PrimaryMap};

use crate::nest::{
    BufferId, Extent, IndexId, Kernel, KernelId, Loop, LoopKind, Program, Role, Statement, replace_kernels,
};
use crate::order::BLOCK;
use crate::{Dtype, Size, visit};

pub use form::{Form, Forms, LoopForm};
pub use machine::{Columns, Contractions, Gpu, Keyed, Machine, Radix, Scans, SweepSizes};
pub use query::{
    LEVELS, STATE, Shared, chunks_together, divides, ends_in_last_block, extreme, in_lanes, is_flat, is_scalar,
    may_repeat, prefixes_in_chunks, reduction_bytes, reductions_bytes, register_bytes, single_prefixes, tile_columns,
};
pub use row::{Beyond, Fill, Row, Staged};
pub use sweeps::{
    Bound, CommonFactor, Mask, ProductColumns, ProductRows, Rescaled, Sweep, SweepForm, Sweeps, Weighted, narrow,
};
pub use variant::{Axis, Count, Inner, Level, Refusal, Stage, Strategy, Tail, Variant};
pub use verify::verify;

/// A program as an engine runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The target that it is scheduled for.
    pub machine: Machine,
    /// The program with the temporaries that its parts need, without its kernels: its tree is that
    /// of the parts, by their numbers.
    pub program: Program,
    /// The number of its buffers that were planned; the passes have added the others.
    pub planned: usize,
    /// The operations of its largest kernel before that was cut, functions inlined.
    pub operations: usize,
    /// The parts of its kernels, in the order in which they run.
    pub parts: Vec<Part>,
}

/// A part of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The kernel of the planned program that it was cut from.
    pub of: KernelId,
    /// Its statements, with the values and indices of that kernel.
    pub kernel: Kernel,
    /// How it runs.
    pub run: Run,
    /// Loops over results of chunks or blocks. Their reductions combine these.
    pub joins: Vec<IndexId>,
    /// If the last block that ends the part before it runs it too: the word in which the blocks of
    /// all launches are counted. It is cleared before the first launch, and no launch has to clear
    /// it again.
    pub last: Option<BufferId>,
    /// Where the iterations of its loops run, if a strategy has laid them out. Otherwise the engine
    /// decides.
    pub variants: Vec<Variant>,
    /// The strategies that were asked before and do not apply.
    pub refused: Vec<(Strategy, Refusal)>,
    /// How its parallel loops run on a core, in order, if the pass `forms` has said so. Otherwise
    /// the engine decides.
    pub forms: Vec<LoopForm>,
}

/// How a part runs. If the last statement runs in a special way, those before it define scalars,
/// which every piece computes for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// In one piece.
    Whole,
    /// The last statement, a parallel loop or contraction, in ranges of its iterations.
    Ranges,
    /// The last statement, a parallel loop that loads across memory, in tiles of its iterations.
    Transpose(Transpose),
    /// The last statement, a parallel loop over columns with loops down the rows, in strips of
    /// columns.
    Strips {
        /// If it combines the results of blocks, their number for each column.
        joined: Option<Size>,
    },
    /// The last statement, a reducing loop, in chunks of its order.
    Chunks {
        /// The buffers for the results of the chunks, one for each reduction.
        results: Vec<BufferId>,
    },
    /// The last statement in blocks of rows: a reduction, or a parallel loop over columns around
    /// one. Statements after the reduction do not run.
    Blocks {
        /// The buffers for the results of the blocks, one for each reduction.
        results: Vec<BufferId>,
    },
    /// The last statement, a scan, in chunks of its order, with threads that pass the prefixes on.
    HandOff(HandOff),
    /// The last statement, a scan, in chunks of its order, with a block of its own that relays to
    /// each the prefixes before it.
    Relay(Relay),
    /// Loops over rows and over columns together, in blocks of rows.
    Tiles(Tiles),
    /// The last statement, a loop over the rows of a product, in [sweeps](Sweeps) over its columns.
    /// The part runs in place of all others of its kernel, at sizes that suit the target.
    Sweeps,
}

/// A parallel loop that loads across memory: neighbouring iterations of its innermost index access
/// elements in different rows, while those of another index access adjacent ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transpose {
    /// The index, by its number among the dims, that steps along the rows of memory that the loads
    /// cross. It is not the innermost.
    pub outer: usize,
    /// The loads that are transposed, by their statements in the body.
    pub loads: Vec<usize>,
    /// Iterations of the index `outer` in a tile.
    pub height: i64,
    /// The extents of all dims.
    pub extents: Vec<Size>,
}

/// The state that the threads of a scan pass from chunk to chunk, for each of its prefixes: the
/// number of the next chunk, and the result of the chunks so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOff {
    /// The buffer, with one entry of [`HandOff::BYTES`] after another.
    pub buffer: BufferId,
    /// How many prefixes there are.
    pub prefixes: usize,
}

/// What the blocks of a scan pass on. Each leaves the result of its chunk; one more block merges
/// these in order, and relays to each chunk the result of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// The buffer: a count of the blocks that have started, and [`Relay::words`] for each chunk.
    /// It is cleared before the first launch, and no launch has to clear it again.
    pub buffer: BufferId,
    /// How many prefixes there are.
    pub prefixes: usize,
    /// How many results are taken at a time: a multiple of the threads of a warp.
    pub window: i64,
}

/// Loops over the rows and the columns of the same array. For some rows at a time, the columns'
/// sums are updated, then the loops over rows run for these, while they are in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// The number of loops over rows, which come before those over columns.
    pub rows: usize,
    /// The buffers for the sums of blocks, for each loop over columns.
    pub sums: Vec<Vec<BufferId>>,
    /// The number of rows.
    pub height: Size,
    /// The number of columns.
    pub width: Size,
}

impl Scheduled {
    /// A program before scheduling: each kernel is one part, in one piece.
    pub fn new(program: &Program, machine: Machine) -> Scheduled {
        let part = |(of, kernel): (KernelId, &Kernel)| Part::new(of, kernel.clone(), Run::Whole, vec![]);
        Scheduled {
            machine,
            program: Program { kernels: PrimaryMap::new(), ..program.clone() },
            planned: program.buffers.len(),
            operations: 0,
            parts: program.kernels.iter().map(part).collect(),
        }
    }

    /// The program with the parts as its kernels.
    pub fn as_program(&self) -> Program {
        Program { kernels: self.parts.iter().map(|part| part.kernel.clone()).collect(), ..self.program.clone() }
    }

    /// Puts other parts in place of each.
    pub fn rewrite(&mut self, mut rewrite: impl FnMut(&mut Program, Part) -> Vec<Part>) {
        let mut numbers = vec![];
        for part in std::mem::take(&mut self.parts) {
            let first = self.parts.len();
            self.parts.extend(rewrite(&mut self.program, part));
            numbers.push(first..self.parts.len());
        }
        self.program.body = replace_kernels(&self.program.body, &mut |id| {
            numbers.get(id.index()).cloned().unwrap_or_default().map(KernelId::new).collect()
        });
    }

    /// Whether another part runs in place of one, at sizes that suit it.
    pub fn is_replaced(&self, part: &Part) -> bool {
        part.run != Run::Sweeps && self.parts.iter().any(|other| other.of == part.of && other.run == Run::Sweeps)
    }

    /// The same with a launch for each part.
    pub fn apart(mut self) -> Scheduled {
        self.parts.iter_mut().for_each(|part| part.last = None);
        self
    }

    /// The buffers that the passes have added.
    pub fn added(&self) -> impl Iterator<Item = BufferId> {
        self.program.buffers.keys().skip(self.planned)
    }
}

impl Part {
    /// A part that no strategy has laid out yet.
    pub fn new(of: KernelId, kernel: Kernel, run: Run, joins: Vec<IndexId>) -> Part {
        Part { of, kernel, run, joins, last: None, variants: vec![], refused: vec![], forms: vec![] }
    }

    /// Another part of the same kernel.
    pub fn sibling(&self, suffix: &str, kernel: Kernel, run: Run) -> Part {
        let name = format!("{}.{suffix}", self.kernel.name);
        Part::new(self.of, Kernel { name, ..kernel }, run, self.joins.clone())
    }

    /// The statements before the last one, which define scalars, and the last one, if it runs in
    /// pieces.
    pub fn root(&self) -> Option<(&[Statement], &Statement)> {
        let (last, before) = self.kernel.body.split_last()?;
        match self.run {
            Run::Whole | Run::Tiles(_) => None,
            Run::Ranges
            | Run::Transpose(_)
            | Run::Strips { .. }
            | Run::Chunks { .. }
            | Run::Blocks { .. }
            | Run::HandOff(_)
            | Run::Relay(_)
            | Run::Sweeps => Some((before, last)),
        }
    }

    /// Whether iterations that may run at the same time have scratch of their own. Otherwise the
    /// scratch, if there is any, belongs to a loop that goes step by step.
    pub fn has_scratch_of_iterations(&self, program: &Program) -> bool {
        let is_scratch = |buffer: &BufferId| program.buffers[*buffer].role == Role::Scratch;
        self.kernel.body.iter().any(|statement| match statement {
            Statement::Loop(l) if matches!(l.kind, LoopKind::Parallel | LoopKind::Reduce(_)) => {
                visit::stores(&l.body).iter().any(is_scratch)
            }
            _ => false,
        })
    }
}

/// A loop that runs in blocks of rows.
pub struct InBlocks<'l> {
    /// The indices of the columns. A reduction that stands in no loop has a single column.
    pub columns: &'l [(IndexId, Extent)],
    /// The statements that come first in each column.
    pub before: &'l [Statement],
    /// The reduction down the rows.
    pub rows: &'l Loop,
}

impl<'l> InBlocks<'l> {
    /// That of a part with [`Run::Blocks`].
    pub fn of(l: &'l Loop) -> Option<InBlocks<'l>> {
        if let LoopKind::Reduce(_) = l.kind {
            return Some(InBlocks { columns: &[], before: &[], rows: l });
        }
        let at = l.body.iter().position(|s| matches!(s, Statement::Loop(_)))?;
        let Statement::Loop(rows) = &l.body[at] else { return None };
        Some(InBlocks { columns: &l.dims, before: &l.body[..at], rows })
    }
}

impl Run {
    /// Where the results of chunks or blocks lie.
    pub fn results(&self) -> &[BufferId] {
        match self {
            Run::Chunks { results } | Run::Blocks { results } => results,
            Run::Whole
            | Run::Ranges
            | Run::Transpose(_)
            | Run::Strips { .. }
            | Run::HandOff(_)
            | Run::Relay(_)
            | Run::Tiles(_)
            | Run::Sweeps => &[],
        }
    }

    /// All buffers that it mentions.
    pub fn buffers(&self) -> Vec<BufferId> {
        match self {
            Run::HandOff(hand_off) => vec![hand_off.buffer],
            Run::Relay(relay) => vec![relay.buffer],
            Run::Tiles(tiles) => tiles.sums.concat(),
            other => other.results().to_vec(),
        }
    }
}

impl Transpose {
    /// Rows of memory in a tile.
    pub const ROWS: i64 = 256;

    /// The range of the part in tiles. Those along the index `outer` vary fastest, since they
    /// access the same rows of memory.
    pub fn range(&self) -> Vec<Size> {
        let Some((last, _)) = self.extents.split_last() else { return vec![] };
        let mut range = self.extents.clone();
        range.pop();
        let high = range.remove(self.outer).ceil_div(&self.height.into());
        range.extend([last.ceil_div(&Transpose::ROWS.into()), high]);
        range
    }
}

impl HandOff {
    /// Bytes for one prefix: a cache line of its own.
    pub const BYTES: usize = 64;
}

impl Relay {
    /// The words of a chunk for a prefix: for each of its two results, one for each 32 bits, since a
    /// word also says which launch has written it.
    pub fn words(dtype: Dtype) -> i64 {
        2 * Relay::halves(dtype)
    }

    /// The words of a result.
    pub fn halves(dtype: Dtype) -> i64 {
        if dtype.bytes() == 8 { 2 } else { 1 }
    }
}

impl Tiles {
    /// The columns of a strip, if no row has to be processed as a whole.
    pub const STRIP: i64 = 1024;
    /// Extra elements after each row of sums, because the last vector of a row may extend beyond
    /// it.
    pub const SPARE: i64 = 4;

    /// The range of the part: blocks, and strips of columns if there are no rows to take whole.
    pub fn range(&self) -> Vec<Size> {
        let strips = if self.rows == 0 { self.width.ceil_div(&Tiles::STRIP.into()) } else { Size::constant(1) };
        vec![self.height.ceil_div(&(BLOCK as i64).into()), strips]
    }
}
