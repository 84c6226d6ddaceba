//! Kernels, decoded once: a list of operations on numbered rows, and the initial contents of the
//! rows.

use crate::lanes::convert::Conversion;
use crate::lanes::{Compare, Map};
use crate::types::{Condition, Pred, Reg, Space, Type};

/// A kernel, ready to run.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// Where its body starts.
    pub(crate) line: u32,
    /// Blocks of a cluster, next to one another.
    pub(crate) cluster: u32,
    pub(crate) operations: Vec<Instruction>,
    pub(crate) rows: Vec<RowKind>,
    pub(crate) preds: Vec<PredKind>,
    /// Bytes of the parameter space.
    pub(crate) parameters: u32,
    /// `.maxntid`: the maximum number of threads of a block in each dimension.
    pub(crate) most: Option<[u32; 3]>,
    /// `.reqntid`: the only shape of a block.
    pub(crate) required: Option<[u32; 3]>,
    pub(crate) shared: Layout,
    /// The alignment of the shared memory that launches add, if the module names it.
    pub(crate) dynamic: Option<u32>,
    pub(crate) local: Layout,
}

/// The initial contents of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowKind {
    /// Nothing: it is written by instructions.
    Register,
    Constant(u64),
    Special(Special),
    /// The address of a global variable of the module, which a launch decides.
    Global(u32),
    /// The address of the shared memory that a launch adds, behind all variables.
    Dynamic,
}

/// The initial value of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PredKind {
    Register,
    Constant(bool),
}

/// A special register. Those with a dimension count it from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Thread(u8),
    Threads(u8),
    Block(u8),
    Blocks(u8),
    Lane,
    Warp,
    /// Lanes with a number that compares in this way with the thread's own.
    LanesEqual,
    LanesBelow,
    LanesUpTo,
    LanesAbove,
    LanesFrom,
    /// The block's number in its cluster.
    Rank,
}

/// The positions of a space's variables. Between them lie gaps that no access may touch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) bytes: u32,
    pub(crate) extents: Vec<(u32, u32)>,
}

impl Layout {
    /// Allocates a variable. The gap before it reveals accesses past the end of its neighbour.
    pub(crate) fn place(&mut self, bytes: u32, align: u32) -> u32 {
        const GAP: u32 = 64;
        let start = if self.bytes == 0 { 0 } else { (self.bytes + GAP).next_multiple_of(align) };
        self.bytes = start + bytes;
        self.extents.push((start, bytes));
        start
    }

    /// Bytes of the variables alone.
    pub(crate) fn sum(&self) -> u32 {
        self.extents.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// An operation with its guard and its line.
#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) guard: Option<Condition>,
    pub(crate) op: Op,
    pub(crate) line: u32,
}

/// A factor of a warp group's product.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tile {
    /// It lies in shared memory, where a descriptor says, and may be contiguous along its outer
    /// index.
    Shared { descriptor: Reg, wide: bool },
    /// The rows of the left one, in fragments of the threads.
    Fragments([Reg; 4]),
}

/// An operation.
#[derive(Debug)]
pub(crate) enum Op {
    /// A function of rows. Sources that it does not need are a constant.
    Map {
        map: Map,
        d: Reg,
        from: [Reg; 4],
    },
    /// Division. An active lane with zero in `b` is a fault.
    Divide {
        map: Map,
        d: Reg,
        a: Reg,
        b: Reg,
        mask: u64,
    },
    Convert {
        how: Conversion,
        d: Reg,
        a: Reg,
    },
    /// Addition or subtraction with the carry flag.
    Carry {
        how: Carry,
        d: Reg,
        a: Reg,
        b: Reg,
    },
    Compare {
        how: Compare,
        p: Pred,
        q: Option<Pred>,
        a: Reg,
        b: Reg,
        combine: Option<(Logic, Condition)>,
    },
    /// A comparison with a number as its result: `yes` or zero.
    Set {
        how: Compare,
        d: Reg,
        a: Reg,
        b: Reg,
        combine: Option<(Logic, Condition)>,
        yes: u64,
    },
    Select {
        d: Reg,
        a: Reg,
        b: Reg,
        p: Condition,
    },
    Logic {
        how: Logic,
        d: Pred,
        a: Condition,
        b: Condition,
    },
    /// Rows of `bits` bits joined into one, the first lowest.
    Pack {
        d: Reg,
        parts: Vec<Reg>,
        bits: u32,
    },
    Unpack {
        parts: Vec<Reg>,
        a: Reg,
        bits: u32,
    },
    LoadParameter {
        into: Vec<Reg>,
        at: u32,
        ty: Type,
        register: u32,
    },
    Load {
        into: Vec<Reg>,
        at: Address,
        access: Access,
        register: u32,
    },
    Store {
        from: Vec<Reg>,
        at: Address,
        access: Access,
    },
    Atomic {
        how: Atomic,
        d: Option<Reg>,
        at: Address,
        b: Reg,
        c: Reg,
        access: Access,
    },
    Fence {
        scope: Scope,
    },
    Barrier {
        id: u32,
        aligned: bool,
        /// `.red.and.pred`: whether the condition holds in all threads that meet.
        all: Option<(Pred, Condition)>,
    },
    ArriveInCluster,
    AwaitCluster {
        aligned: bool,
    },
    SyncWarp {
        mask: Reg,
    },
    Shuffle {
        mode: Shuffle,
        d: Reg,
        p: Option<Pred>,
        a: Reg,
        b: Reg,
        c: Reg,
        mask: Reg,
    },
    Vote {
        mode: Vote,
        a: Condition,
        mask: Reg,
    },
    /// `match.any`: the lanes whose value is the lane's own.
    Match {
        d: Reg,
        a: Reg,
        mask: Reg,
    },
    Reduce {
        how: Atomic,
        ty: Type,
        d: Reg,
        a: Reg,
        mask: Reg,
    },
    /// `mma`: the product of two matrices that lie in the registers of all lanes, plus a third.
    Multiply {
        factors: Factors,
        d: Vec<Reg>,
        a: Vec<Reg>,
        b: Vec<Reg>,
        c: Vec<Reg>,
        mask: Reg,
    },
    /// `bar.sync` and `bar.arrive` of a part of a block: this many threads arrive at a barrier, and
    /// some of them wait until all have.
    Meet {
        id: Reg,
        threads: Reg,
        waits: bool,
    },
    /// `wgmma.mma_async`: the product of two tiles, plus the contents of the registers.
    MultiplyTiles {
        factors: Factors,
        sums: Vec<Reg>,
        left: Tile,
        right: Tile,
        /// Whether it is added to the contents of the registers.
        accumulate: Condition,
        mask: Reg,
    },
    /// `wgmma.fence`, `wgmma.commit_group` and `wgmma.wait_group`.
    FenceProducts {
        mask: Reg,
    },
    GroupProducts {
        mask: Reg,
    },
    AwaitProducts {
        but: u32,
        mask: Reg,
    },
    /// `fence.proxy.async`, and `fence.mbarrier_init`: tiles may be read by descriptors
    /// afterwards, and copies may arrive at barriers.
    FenceTiles,
    /// `mbarrier.init`: a barrier, with the number of arrivals in a phase.
    InitArrivals {
        at: Address,
        count: Reg,
    },
    /// `mbarrier.arrive`, which may expect bytes of copies.
    Arrive {
        at: Address,
        bytes: Reg,
    },
    /// `mbarrier.try_wait.parity`: whether the phase of this parity has ended.
    TryWait {
        to: Pred,
        at: Address,
        parity: Reg,
    },
    /// `cp.async.bulk.tensor`: begins to copy a box of a tensor to shared memory.
    CopyBox {
        to: Address,
        map: Reg,
        from: Vec<Reg>,
        arrivals: Address,
    },
    /// `ldmatrix`: matrices of 8 x 8 elements of 16 bits. Each lane holds the address of a row.
    LoadMatrices {
        into: Vec<Reg>,
        at: Address,
        transposed: bool,
        mask: Reg,
    },
    ActiveMask {
        d: Reg,
    },
    Branch {
        target: u32,
    },
    Exit,
    Trap,
    /// Begins to copy bytes from global to shared memory: as many as `read` says, followed by
    /// zeros.
    Copy {
        to: Address,
        from: Address,
        bytes: u32,
        read: Reg,
    },
    /// Those since the last one are a group.
    GroupCopies,
    /// Waits for the thread's copies: for all but those of its last groups, or for all.
    AwaitCopies {
        but: Option<u32>,
    },
    /// An instruction without effect here, such as `nanosleep`.
    Nothing,
}

/// An address: a row and an offset, within the width of the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: Reg,
    pub(crate) offset: i64,
    pub(crate) mask: u64,
}

/// How memory is accessed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// `None` for a generic address, which determines the space itself.
    pub(crate) space: Option<Space>,
    /// Of an element.
    pub(crate) ty: Type,
    pub(crate) strength: Strength,
    pub(crate) acquire: bool,
    pub(crate) release: bool,
}

/// The threads that an access or a fence is ordered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Block,
    /// The device or more.
    Device,
}

/// The guarantees of an access towards others that overlap in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    /// `ld.global.nc`: the memory is not written while the kernel runs.
    Constant,
    Weak,
    Strong(Scope),
}

/// `add.cc` and its kin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carry {
    pub(crate) subtract: bool,
    pub(crate) takes: bool,
    pub(crate) gives: bool,
    pub(crate) bits: u32,
}

/// Logic of predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum Logic { And, Or, Xor }

impl Logic {
    pub(crate) fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            Logic::And => a & b,
            Logic::Or => a | b,
            Logic::Xor => a ^ b,
        }
    }
}

/// The function of an atomic operation, or of a reduction over a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum Atomic { Add, Min, Max, And, Or, Xor, Exchange, CompareAndSwap, Increment, Decrement }

/// The element type of the factors of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factors {
    F16,
    Bf16,
    /// An `f32`, where only the upper 19 bits count.
    Tf32,
}

/// Which lane a shuffle reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum Shuffle { Up, Down, Butterfly, Index }

/// The question of a vote, with the destination of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum Vote { Any(Pred), All(Pred), Uniform(Pred), Ballot(Reg) }
