//! Variants of a part: which unit of a machine runs each iteration of its loops, and for which
//! sizes. A strategy of the crate `schedule` makes each of them, engines select instructions for
//! them, and the interpreter runs them.
//!
//! A variant lays its loops out in *axes*. An axis is the range of one index, or of several
//! adjacent ones of a loop as one, and the digits of an iteration's number say where it runs, the
//! lowest first:
//!
//! ```text
//! axis i, j: vector 4, block 256, grid     iteration 1030 is lane 2 of thread 1 of block 1
//! ```
//!
//! An axis listed further down varies faster, in the numbers of threads and of blocks.

use std::fmt;

use super::Row;
use crate::Size;
use crate::nest::IndexId;
use crate::order::Scope;

/// One way to run a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The strategy that made it.
    pub strategy: Strategy,
    /// The sizes that it is for: each at most the number next to it. (And those that the layout of
    /// rows fits.)
    pub at_most: Vec<(Size, i64)>,
    /// The layout of its parallel loop.
    pub axes: Vec<Axis>,
    /// Who runs an iteration.
    pub inner: Inner,
    /// How the iterations at the end of a range run, if they do not fill the units of an axis.
    pub tail: Tail,
    /// The copies of elements that a block makes for its iterations before it runs them.
    pub stages: Vec<Stage>,
    /// The number of blocks that have to fit on a multiprocessor at once, if code should be
    /// selected for that.
    pub resident: Option<u32>,
    /// Whether the first block has the last iterations.
    pub descending: bool,
}

/// Who runs an iteration of the parallel loop, with the loops that it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inner {
    /// One thread.
    Alone,
    /// This many threads of a block, which go through the loops together.
    Together(i64),
    /// The units that the layout of its rows says.
    Row(Box<Row>),
}

/// A range of iterations and where they run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Adjacent indices of one loop.
    pub indices: Vec<IndexId>,
    /// The digits of an iteration's number, the lowest first.
    pub levels: Vec<Level>,
}

/// A digit of an iteration's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The unit that it selects.
    pub scope: Scope,
    /// How many there are.
    pub count: Count,
}

/// How many units a digit has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This many.
    Exactly(i64),
    /// As many as it takes, but no more than this many.
    UpTo(i64),
    /// As many as it takes.
    Any,
}

/// How the iterations at the end of a range run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Units without an iteration do nothing.
    Masked,
    /// A block that has fewer iterations than it takes runs them with a thread for each in turn. So
    /// does every block, unless each size is a multiple of the number next to it.
    Single(Vec<(Size, i64)>),
}

/// A copy of the elements that loads of the body need, into the shared memory of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The loads, by their statements in the body.
    pub loads: Vec<usize>,
    /// The threads that copy the elements of each iteration.
    pub axes: Vec<Axis>,
    /// How far the rows of a copy are apart beyond their length, in bytes, at least an element.
    /// This shifts the rows against each other, so that accesses down a column go to different
    /// banks.
    pub padding: i64,
}

/// A strategy: one way to lay loops out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// Square tiles, which a block reads along memory and writes along memory.
    Tiles,
    /// A few rows of a column for each thread, with loads that overlap.
    Stencil,
    /// Several adjacent iterations for each thread.
    Vectors,
    /// An iteration for each thread.
    Threads,
    /// Strips of adjacent columns for each block, with loops down the rows.
    Strips,
    /// Rows in the registers of a warp, a block or a cluster.
    Rows,
    /// An iteration for each block: its threads go through the loops together.
    Blocks,
}

/// Why a strategy does not apply to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// No load crosses memory.
    NotAcross,
    /// The part stores to memory that it also loads.
    InPlace,
    /// The elements do not fit into the shared memory of a block.
    TooLarge,
    /// The loop does not have exactly two indices with sizes as extents.
    NotTwoIndices,
    /// No two loads of one array are a constant distance apart.
    NoOverlap,
    /// An iteration contains loops.
    Loops,
    /// An iteration is too long for one thread.
    Long,
    /// No loop goes down columns.
    NotDown,
    /// The loops of an iteration do not all go over one length, in an order that threads share.
    NotRows,
    /// An iteration has too many reductions or prefixes to keep in shared memory.
    TooMany,
    /// An iteration has scratch.
    Scratch,
    /// No access goes along memory.
    NotAlong,
    /// The number of iterations is data.
    Data,
    /// A choice in a test.
    Chosen,
}

/// Each refusal with its name in text.
const REFUSALS: [(Refusal, &str); 14] = [
    (Refusal::NotAcross, "not_across"),
    (Refusal::InPlace, "in_place"),
    (Refusal::TooLarge, "too_large"),
    (Refusal::NotTwoIndices, "not_two_indices"),
    (Refusal::NoOverlap, "no_overlap"),
    (Refusal::Loops, "loops"),
    (Refusal::Long, "long"),
    (Refusal::NotDown, "not_down"),
    (Refusal::NotRows, "not_rows"),
    (Refusal::TooMany, "too_many"),
    (Refusal::Scratch, "scratch"),
    (Refusal::NotAlong, "not_along"),
    (Refusal::Data, "data"),
    (Refusal::Chosen, "chosen"),
];

impl Variant {
    /// A variant for all sizes. One thread runs an iteration.
    pub fn new(strategy: Strategy, axes: Vec<Axis>) -> Variant {
        let (at_most, stages) = (vec![], vec![]);
        Variant {
            strategy,
            at_most,
            axes,
            inner: Inner::Alone,
            tail: Tail::Masked,
            stages,
            resident: None,
            descending: false,
        }
    }

    /// The most threads of a block.
    pub fn threads(&self) -> i64 {
        let inner = match &self.inner {
            Inner::Alone => 1,
            Inner::Together(threads) => *threads,
            Inner::Row(row) => row.most_threads(),
        };
        threads(&self.axes).saturating_mul(inner)
    }

    /// The layout of its rows.
    pub fn row(&self) -> Option<&Row> {
        if let Inner::Row(row) = &self.inner { Some(row) } else { None }
    }
}

impl Stage {
    /// The threads of a block.
    pub fn threads(&self) -> i64 {
        threads(&self.axes)
    }
}

fn threads(axes: &[Axis]) -> i64 {
    axes.iter().map(|axis| axis.count(Scope::is_of_block)).fold(1, i64::saturating_mul)
}

impl Axis {
    /// An axis with these levels, the lowest first.
    pub fn new(indices: impl IntoIterator<Item = IndexId>, levels: impl IntoIterator<Item = Level>) -> Axis {
        Axis { indices: indices.into_iter().collect(), levels: levels.into_iter().collect() }
    }

    /// How many units of some scopes take part, in all.
    pub fn count(&self, of: impl Fn(Scope) -> bool) -> i64 {
        self.levels.iter().filter(|level| of(level.scope)).filter_map(Level::most).fold(1, i64::saturating_mul)
    }

    /// The number of iterations that a block takes at once.
    pub fn of_block(&self) -> i64 {
        self.count(|scope| scope != Scope::Grid)
    }
}

impl Level {
    /// A digit with this many units.
    pub fn of(scope: Scope, count: i64) -> Level {
        Level { scope, count: Count::Exactly(count) }
    }

    /// A digit with as many units as it takes, up to a number.
    pub fn up_to(scope: Scope, count: i64) -> Level {
        Level { scope, count: Count::UpTo(count) }
    }

    /// A digit with as many units as it takes.
    pub fn all(scope: Scope) -> Level {
        Level { scope, count: Count::Any }
    }

    /// The most units that it has, if there is a limit.
    pub fn most(&self) -> Option<i64> {
        match self.count {
            Count::Exactly(count) | Count::UpTo(count) => Some(count),
            Count::Any => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scope.name())?;
        match self.count {
            Count::Exactly(count) => write!(f, " {count}"),
            Count::UpTo(count) => write!(f, " up to {count}"),
            Count::Any => Ok(()),
        }
    }
}

impl Strategy {
    /// All of them.
    pub const ALL: [Strategy; 7] = [
        Strategy::Tiles,
        Strategy::Stencil,
        Strategy::Vectors,
        Strategy::Threads,
        Strategy::Strips,
        Strategy::Rows,
        Strategy::Blocks,
    ];

    /// Its name in text.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Tiles => "tiles",
            Strategy::Stencil => "stencil",
            Strategy::Vectors => "vectors",
            Strategy::Threads => "threads",
            Strategy::Strips => "strips",
            Strategy::Rows => "rows",
            Strategy::Blocks => "blocks",
        }
    }
}

impl Refusal {
    /// Its name in text.
    pub fn name(self) -> &'static str {
        REFUSALS.iter().find(|(refusal, _)| *refusal == self).map_or("", |(_, name)| name)
    }

    /// The refusal of a name.
    pub fn from_name(name: &str) -> Option<Refusal> {
        REFUSALS.iter().find(|(_, other)| *other == name).map(|(refusal, _)| *refusal)
    }
}
