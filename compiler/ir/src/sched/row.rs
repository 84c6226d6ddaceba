//! The layout of rows: loops of one length inside the iterations of another loop, such as those of
//! a softmax. Each unit has the same elements in all of them, so that values which one loop loads or
//! computes stay in its registers for the next ones.
//!
//! ```text
//! row m whole: warp 32, register 8                a warp has 8 elements a thread, 32 apart
//! row m: block 128, register 32, block up to 8    a block has up to 8 groups of 128 threads
//! ```

use std::collections::BTreeSet;

use super::{Count, Level};
use crate::nest::{BufferId, IndexId, Program};
use crate::order::Scope;
use crate::{Affine, Size};

/// How the elements of a row are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of elements.
    pub length: Size,
    /// The digits of an element's number, the lowest first. The highest may have as many units as
    /// the row takes.
    pub levels: Vec<Level>,
    /// How the elements fill the units.
    pub fill: Fill,
    /// Shorter rows are not laid out like this.
    pub at_least: i64,
    /// Scratch that only exists in registers, as far as the elements are there.
    pub registers: BTreeSet<BufferId>,
}

/// How the elements of a row fill the units of its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Some units may have no element.
    Masked,
    /// All units that take part have an element, since the length is a multiple of their number.
    Whole,
    /// There are more elements than units. The others are laid out in another way.
    Beyond(Beyond),
}

/// The layout of the elements of a row for which there are no registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The digits of an element's number.
    pub levels: Vec<Level>,
    /// Values that the threads keep in the shared memory of the block, if it is large enough.
    pub staged: Vec<Staged>,
}

/// A value for each element of a row that several of its loops access, in a slot of shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The array and the elements that the loops access: `rest + step * number`.
    pub buffer: BufferId,
    /// The distance between neighbouring elements.
    pub step: Size,
    /// The first of them.
    pub rest: Affine<IndexId>,
    /// The first and the last loop that accesses it.
    pub loops: (usize, usize),
    /// The size of all preceding slots in bytes, per element.
    pub offset: i64,
    /// Whether it exists nowhere else.
    pub sole: bool,
}

impl Beyond {
    /// The number of elements that a thread takes at a time.
    pub fn each(&self) -> i64 {
        let held = self.levels.iter().filter(|level| level.scope == Scope::Register);
        held.filter_map(Level::most).product()
    }
}

impl Row {
    /// The bytes of shared memory for each element beyond the registers, for a program with these
    /// buffers.
    pub fn staged_bytes(&self, program: &Program) -> i64 {
        let width = |buffer: BufferId| i64::try_from(program.buffers[buffer].dtype.bytes()).unwrap_or(0);
        self.staged().iter().map(|value| value.offset + width(value.buffer)).max().unwrap_or(0)
    }

    /// The unit that has a row: a warp, a block or a cluster of blocks.
    pub fn unit(&self) -> Scope {
        let is = |scope| self.levels.iter().any(|level| level.scope == scope);
        [Scope::Cluster, Scope::Block].into_iter().find(|scope| is(*scope)).unwrap_or(Scope::Warp)
    }

    /// The number of units that some levels have at most.
    fn most(&self, of: impl Fn(&Level) -> bool) -> i64 {
        self.levels.iter().filter(|level| of(level)).filter_map(Level::most).fold(1, i64::saturating_mul)
    }

    /// The number of elements for each thread.
    pub fn each(&self) -> i64 {
        self.most(|level| level.scope == Scope::Register)
    }

    /// The number of groups of threads that a block has at most.
    pub fn groups(&self) -> i64 {
        self.most(|level| matches!(level.count, Count::UpTo(_)))
    }

    /// The number of blocks in a cluster.
    pub fn blocks(&self) -> i64 {
        self.most(|level| level.scope == Scope::Cluster)
    }

    /// The number of threads that a block has at most for a row.
    pub fn most_threads(&self) -> i64 {
        self.most(|level| level.scope.is_of_block())
    }

    /// The number of elements that the units have at most.
    pub fn capacity(&self) -> i64 {
        self.most(|_| true)
    }

    /// The threads of a block that take part in a row of a length.
    pub fn threads(&self, length: i64) -> i64 {
        let group = self.most_threads() / self.groups();
        let held = group * self.each() * self.blocks();
        let groups = length.clamp(1, self.capacity()).unsigned_abs().div_ceil(held.unsigned_abs());
        // A power of two, so that the part of each block is a complete subtree in the pairwise
        // order of chunks.
        let groups = if self.blocks() > 1 { groups.next_power_of_two() } else { groups };
        group * i64::try_from(groups).unwrap_or(i64::MAX)
    }

    /// Whether rows of a length are laid out like this.
    pub fn fits(&self, length: i64) -> bool {
        match &self.fill {
            Fill::Beyond(_) => length > self.capacity(),
            Fill::Masked => (self.at_least..=self.capacity()).contains(&length),
            Fill::Whole => {
                // Groups take part as a whole, and all groups of a cluster do.
                let threads =
                    if self.blocks() > 1 { self.threads(length) } else { self.most_threads() / self.groups() };
                let held = threads * self.each() * self.blocks();
                (self.at_least.max(1)..=self.capacity()).contains(&length) && length % held == 0
            }
        }
    }

    /// The layout of the elements for which there are no registers.
    pub fn beyond(&self) -> Option<&Beyond> {
        if let Fill::Beyond(beyond) = &self.fill { Some(beyond) } else { None }
    }

    /// The values in shared memory.
    pub fn staged(&self) -> &[Staged] {
        self.beyond().map_or(&[], |beyond| &beyond.staged)
    }
}
