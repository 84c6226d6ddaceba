//! Mappings of rows to threads: which unit (a warp, a block, or a cluster of blocks) holds a row in
//! registers, how many elements each thread has, and for which lengths that works.

use ir::order::LANES_CHUNK;

use super::rows::{GROUP, LONGEST, WARP};
use super::state::SyncScope;

/// The number of blocks in a cluster: the largest that every device with clusters supports.
pub(super) const CLUSTER: u32 = 8;

/// A mapping of rows to threads.
#[derive(Clone, Copy)]
pub(super) struct RowMapping {
    /// The suffix of the function's name.
    pub(super) name: &'static str,
    pub(super) sync_scope: SyncScope,
    /// The number of elements per thread.
    pub(super) each: i64,
    /// The maximum number of 128-thread groups in a block.
    pub(super) groups: i64,
    /// Whether every thread has all its elements, so that no masks are needed.
    pub(super) whole: bool,
    /// Whether rows are longer than the registers can hold. The tail goes through memory.
    pub(super) tail: bool,
    /// Whether the tail is staged in shared memory.
    pub(super) staged: bool,
}

impl RowMapping {
    /// All mappings, those for shorter rows first. They prefer more elements per thread to more
    /// threads, because that keeps more loads in flight for the same number of registers.
    pub(super) const ALL: [RowMapping; 9] = {
        let warp = RowMapping {
            name: "warp",
            sync_scope: SyncScope::Warp,
            each: 8,
            groups: 1,
            whole: false,
            tail: false,
            staged: false,
        };
        let group = RowMapping { name: "group", sync_scope: SyncScope::Block, ..warp };
        let block = RowMapping { name: "block", each: LANES_CHUNK as i64 / GROUP, groups: 8, ..group };
        let cluster = RowMapping { name: "cluster", sync_scope: SyncScope::Cluster, ..block };
        let long = RowMapping { name: "long", whole: true, tail: true, ..block };
        [
            RowMapping { name: "whole_warp", whole: true, ..warp },
            warp,
            group,
            RowMapping { name: "whole_cluster", whole: true, ..cluster },
            cluster,
            RowMapping { name: "whole_block", whole: true, ..block },
            block,
            RowMapping { name: "shelf", staged: true, ..long },
            long,
        ]
    };

    /// Whether rows of a length can be mapped like this.
    pub(super) fn fits(self, length: i64) -> bool {
        if self.tail {
            return length > self.longest_row();
        }
        let held = match self.sync_scope {
            SyncScope::Warp => self.longest_row(),
            SyncScope::Block => self.longest_row() / self.groups,
            SyncScope::Cluster => i64::from(self.threads_for(length)) * self.each * i64::from(CLUSTER),
        };
        // A cluster needs enough work. A multiprocessor runs several small blocks, which hide each
        // other's latency, so the longest rows of a single block stay with the block. Longer rows
        // go to a cluster, unless half of its threads would be idle.
        let least = match (self.sync_scope, self.whole) {
            (SyncScope::Cluster, true) => LONGEST,
            (SyncScope::Cluster, false) => LONGEST + LONGEST / 2,
            _ => i64::MIN,
        };
        length >= least && length <= self.longest_row() && !(self.whole && (length <= 0 || length % held != 0))
    }

    /// The number of elements in the tail of a row that are staged.
    pub(super) fn staged_elements(self, length: i64) -> i64 {
        if self.staged { length.saturating_sub(self.longest_row()).max(0) } else { 0 }
    }

    /// The longest row that the registers hold.
    fn longest_row(self) -> i64 {
        match self.sync_scope {
            SyncScope::Warp => WARP * self.each,
            SyncScope::Block => self.groups * GROUP * self.each,
            SyncScope::Cluster => i64::from(CLUSTER) * self.groups * GROUP * self.each,
        }
    }

    /// The maximum number of threads in a block.
    pub(super) fn threads(self) -> u32 {
        u32::try_from(GROUP * self.groups).unwrap_or(0)
    }

    /// The number of threads in a block for rows of a length.
    pub(super) fn threads_for(self, length: i64) -> u32 {
        let groups = length.clamp(1, self.longest_row()).unsigned_abs().div_ceil((GROUP * self.each).unsigned_abs());
        let groups = match self.sync_scope {
            SyncScope::Warp => return self.threads(),
            SyncScope::Block => groups,
            // A power of two, so that the part of each block is a complete subtree in the pairwise
            // order of chunks.
            SyncScope::Cluster => groups.div_ceil(CLUSTER.into()).next_power_of_two(),
        };
        u32::try_from(groups * GROUP.unsigned_abs()).unwrap_or(0)
    }

    /// The number of rows that a block processes at a time.
    pub(super) fn rows(self) -> i64 {
        if self.sync_scope == SyncScope::Warp { GROUP / WARP } else { 1 }
    }
}
