//! The state that emitted code depends on, in groups: the mapping of the kernel onto threads, the
//! masks of accesses, addresses, scans, and the row, columns or loop that threads are at.

use std::collections::{BTreeMap, BTreeSet};

use ir::merging::Merging;
use ir::nest::{BufferId, IndexId, Prefix, SiteId, Subscript, ValueId};
use ir::sched::{Row, Staged};
use ir::{Affine, Size};

use super::inst::{Address, Reg, Space, Type};
use super::split::{OfSplit, Split};

/// The threads that execute the current code together, with the same control flow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExecScope {
    /// The whole block. All threads have the same values and reach the same barriers; loops
    /// distribute their iterations over the threads.
    Block,
    /// The threads of a block that share a column of a strip. They have the same values; barriers
    /// are still reached by the whole block.
    Column,
    /// A single thread. It must not reach a barrier.
    Thread,
}

/// The threads that a synchronization waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncScope {
    Warp,
    Block,
    Cluster,
}

/// The unit that has its own copy of each scratch buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScratchScope {
    Block,
    Warp,
    Thread,
}

/// The mapping of a kernel onto threads.
pub(super) struct Mapping<'a> {
    /// The threads of a block.
    pub(super) threads: u32,
    pub(super) exec_scope: ExecScope,
    pub(super) sync_scope: SyncScope,
    pub(super) scratch_scope: ScratchScope,
    /// The blocks of a cluster.
    pub(super) cluster: u32,
    /// The number of blocks that must fit on a multiprocessor.
    pub(super) resident: Option<u32>,
    /// Indices of loops over partial results, one iteration per chunk or block.
    pub(super) joins: &'a [IndexId],
    /// Whether these are partial results of several chunks each.
    pub(super) runs: bool,
}

/// The predicates that accesses are guarded by.
pub(super) struct Masks {
    /// If set, loads, stores and checks are guarded by this predicate.
    pub(super) valid: Option<Reg>,
    /// Predicate: true until one of this thread's bounds checks fails, if the kernel has any, or one
    /// that another thread has made for all of them. After that its subscripts are garbage, so loads
    /// that use them must be guarded by it.
    pub(super) passed: Option<Reg>,
    /// Loads that are only known to be in bounds if an earlier check has passed.
    pub(super) leaning: Vec<(BufferId, Vec<Subscript>)>,
}

/// Parts of addresses that are computed before the accesses.
#[derive(Default)]
pub(super) struct Addresses {
    /// An index that currently stands for its register plus this constant. It lets unrolled code
    /// address neighbouring elements by a constant offset.
    pub(super) displaced: Option<(IndexId, i64)>,
    /// Hoisted addresses of accesses, computed with the index at its register's value.
    pub(super) bases: Vec<(BufferId, Affine<IndexId>, Address)>,
    /// Strength-reduced addresses of the current loop.
    pub(super) pointers: Vec<Pointer>,
}

impl Addresses {
    /// Whether no loop is being emitted whose elements have addresses in common.
    pub(super) fn is_free(&self) -> bool {
        self.displaced.is_none() && self.bases.is_empty()
    }
}

/// The scans being emitted.
#[derive(Default)]
pub(super) struct Scans {
    /// The running reductions, with their inputs.
    pub(super) running: BTreeMap<ValueId, (Running, Prefix)>,
    /// The iteration number of the innermost scan.
    pub(super) number: Option<Reg>,
    /// The chunks of a long scan.
    pub(super) chunks: Option<Chunks>,
}

/// A check that may have failed.
#[derive(Clone, Copy)]
pub(super) struct Failed {
    /// A predicate: it has.
    pub(super) outside: Reg,
    pub(super) index: Reg,
    pub(super) bound: Reg,
    pub(super) site: SiteId,
}

/// The shape of a strip.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct StripShape {
    /// The number of columns.
    pub(super) width: i64,
    /// The number of threads per column.
    pub(super) rows: i64,
}

/// The current strip.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    pub(super) shape: StripShape,
    /// The index of the thread within its column.
    pub(super) row: Reg,
    /// Whether the column exists. A thread beyond the last column repeats the work of the last one,
    /// but only stores to its own scratch.
    pub(super) in_bounds: Reg,
    /// Whether the thread is the first of its column.
    pub(super) leader: Reg,
}

/// The accumulated ranges of operands and results.
#[derive(Clone, Copy)]
pub(super) struct FastDivision {
    /// The smallest dividend and the largest divisor, as magnitudes.
    pub(super) least: Reg,
    pub(super) greatest: Reg,
    /// 0, or NaN if a result was infinite or NaN: `result * 0 + finite` keeps track of that.
    pub(super) finite: Reg,
    /// The last divisor, if its range is accumulated: elements may have one in common.
    pub(super) divisor: Option<Reg>,
}

/// The elements of a loop that a thread has.
pub(super) struct ThreadElements {
    /// The number of the first element.
    pub(super) first: Reg,
    /// The distance between elements.
    pub(super) stride: i64,
    /// The number of elements.
    pub(super) count: usize,
    /// Predicates: the element exists. Empty if all do. If one does not, all later ones do not
    /// either.
    pub(super) valid: Vec<Reg>,
}

/// Identifies the elements that an access of a loop touches: the coefficient of the loop's index,
/// and the rest of the subscript.
pub(super) type Key = (BufferId, Size, Affine<IndexId>);

/// The row that a warp, block or cluster holds in registers.
pub(super) struct RegisterRow {
    pub(super) elements: ThreadElements,
    pub(super) layout: Row,
    /// Elements that have been loaded or stored, in registers.
    pub(super) cached: Vec<(Key, Vec<Reg>)>,
    /// The current loop and which of the thread's elements is being emitted.
    pub(super) at: Option<(IndexId, usize)>,
    /// Shared memory with a slot per thread.
    pub(super) lanes: i64,
    /// Whether the blocks of the cluster have synchronized in this row.
    pub(super) cluster_synced: bool,
}

/// A row in registers.
pub(super) struct HeldRow {
    /// The index that runs along it.
    pub(super) index: IndexId,
    pub(super) buffer: BufferId,
    pub(super) affine: Affine<IndexId>,
    pub(super) elements: Vec<Reg>,
}

/// The staging buffer of the current row.
pub(super) struct StagingBuffer {
    pub(super) values: Vec<Staged>,
    /// The number of elements in registers, and of those that a thread takes at a time beyond.
    pub(super) held: i64,
    pub(super) each: i64,
    /// By slot offset: the address where the slot of the row's first element would be, so that
    /// element numbers can be used directly.
    pub(super) bases: BTreeMap<i64, Reg>,
    /// The values staged by earlier loops, and those staged by the current loop.
    pub(super) filled: BTreeSet<usize>,
    pub(super) filling: BTreeSet<usize>,
    /// Whether asynchronous copies are in flight.
    pub(super) in_flight: bool,
}

/// A strength-reduced address, which advances with the loop.
pub(super) struct Pointer {
    pub(super) buffer: BufferId,
    pub(super) affine: Affine<IndexId>,
    /// The address for the current iteration, and the variable that carries it from one round to
    /// the next.
    pub(super) at: Reg,
    pub(super) carried: Reg,
    /// The constant offset to the element in bytes.
    pub(super) offset: i64,
    /// The distance between iterations in bytes.
    pub(super) step: Reg,
}

/// A deferred store.
#[derive(Clone, Copy)]
pub(super) struct DeferredStore {
    pub(super) space: Space,
    pub(super) ty: Type,
    pub(super) value: Reg,
    pub(super) at: Address,
    /// The guard of the store.
    pub(super) only: Option<Reg>,
}

/// One running reduction.
#[derive(Clone)]
pub(super) struct Running {
    pub(super) fold: Merging,
    /// The reduction so far or, if the order matters, that of the chunk's groups before the current
    /// one.
    pub(super) state: Vec<Reg>,
    /// The reduction of the chunks before the current one.
    pub(super) before: Vec<Reg>,
    /// The elements of a group after each step, if order matters.
    pub(super) steps: Option<i64>,
}

/// The words that the chunks of a long scan pass on.
#[derive(Clone)]
pub(super) struct Chunks {
    /// The number of chunks.
    pub(super) count: Reg,
    /// The address of the first word.
    pub(super) words: Reg,
    /// The number of the launch, in the high half.
    pub(super) launch: Reg,
    /// The number of the block's chunk.
    pub(super) number: Reg,
    /// The prefixes, each with the number of its first plane. A plane has one word of each chunk.
    pub(super) planes: BTreeMap<ValueId, (Merging, i64)>,
}

/// A kernel argument. Each takes eight bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Argument {
    /// The address of the record of a failed check. It holds the number of the site plus one, or 0
    /// if no check has failed (four bytes and four of padding), then the subscript and the bound.
    Fault,
    /// The address of a buffer. For scratch, it is the first of one copy per block, warp or thread.
    Buffer(BufferId),
    /// The distance in bytes between the copies of a scratch buffer.
    Stride(BufferId),
    /// A size.
    Size(Size),
    /// 1 if each size is a multiple of the number next to it, else 0.
    Multiples(Vec<(Size, i64)>),
    /// 1 if the product of the sizes is at most 2^31, else 0. Then 32-bit arithmetic suffices.
    Small(Vec<Size>),
    /// The constants that replace a division by this size, for dividends below 2^31: a 32-bit
    /// factor in the low half, and in the high half by how much the product is shifted.
    Reciprocal(Size),
    /// A word of a contraction in parts.
    OfSplit(Split, OfSplit),
}
