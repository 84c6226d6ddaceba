//! How rows are shared out: the shapes of a warp, of blocks and of clusters that they may have, and for which lengths each is.

use ir::order::LANES_CHUNK;

use super::emit::Crew;
use super::rows::{GROUP, LONGEST, WARP};

/// Blocks of a cluster: the most that every device with clusters has.
pub(super) const CLUSTER: u32 = 8;

/// How a row is shared out.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Part of its function's name.
    pub(super) name: &'static str,
    pub(super) crew: Crew,
    /// Elements that a thread has.
    pub(super) each: i64,
    /// Most groups of a block.
    pub(super) groups: i64,
    /// Whether all threads have as many: nothing asks then which elements are there.
    pub(super) whole: bool,
    /// Whether rows are longer than what registers hold: what is behind goes through memory.
    pub(super) tail: bool,
    /// Whether that is on a shelf of the block's own.
    pub(super) shelf: bool,
}

impl Shape {
    /// All of them, those for shorter rows first. More elements for each thread keep more loads under way with as many registers.
    pub(super) const ALL: [Shape; 9] = {
        let warp =
            Shape { name: "warp", crew: Crew::Warp, each: 8, groups: 1, whole: false, tail: false, shelf: false };
        let group = Shape { name: "group", crew: Crew::Block, ..warp };
        let block = Shape { name: "block", each: LANES_CHUNK as i64 / GROUP, groups: 8, ..group };
        let cluster = Shape { name: "cluster", crew: Crew::Cluster, ..block };
        let long = Shape { name: "long", whole: true, tail: true, ..block };
        [
            Shape { name: "whole_warp", whole: true, ..warp },
            warp,
            group,
            Shape { name: "whole_cluster", whole: true, ..cluster },
            cluster,
            Shape { name: "whole_block", whole: true, ..block },
            block,
            Shape { name: "shelf", shelf: true, ..long },
            long,
        ]
    };

    /// Whether rows of a length may be shared out so.
    pub(super) fn fits(self, length: i64) -> bool {
        if self.tail {
            return length > self.most();
        }
        let held = match self.crew {
            Crew::Warp => self.most(),
            Crew::Block => self.most() / self.groups,
            Crew::Cluster => i64::from(self.threads_for(length)) * self.each * i64::from(CLUSTER),
        };
        // Of small blocks a multiprocessor has several, and while some wait others go on: so the longest rows of one block are better here,
        // and longer ones unless half of the threads have nothing.
        let least = match (self.crew, self.whole) {
            (Crew::Cluster, true) => LONGEST,
            (Crew::Cluster, false) => LONGEST + LONGEST / 2,
            _ => i64::MIN,
        };
        length >= least && length <= self.most() && !(self.whole && (length <= 0 || length % held != 0))
    }

    /// Elements of a row of a length that a shelf has.
    pub(super) fn behind(self, length: i64) -> i64 {
        if self.shelf { length.saturating_sub(self.most()).max(0) } else { 0 }
    }

    /// The longest row.
    fn most(self) -> i64 {
        match self.crew {
            Crew::Warp => WARP * self.each,
            Crew::Block => self.groups * GROUP * self.each,
            Crew::Cluster => i64::from(CLUSTER) * self.groups * GROUP * self.each,
        }
    }

    /// Threads of a block at most.
    pub(super) fn threads(self) -> u32 {
        u32::try_from(GROUP * self.groups).unwrap_or(0)
    }

    /// Threads of a block for rows of a length.
    pub(super) fn threads_for(self, length: i64) -> u32 {
        let groups = length.clamp(1, self.most()).unsigned_abs().div_ceil((GROUP * self.each).unsigned_abs());
        let groups = match self.crew {
            Crew::Warp => return self.threads(),
            Crew::Block => groups,
            // What a block has is whole in the order by chunks.
            Crew::Cluster => groups.div_ceil(CLUSTER.into()).next_power_of_two(),
        };
        u32::try_from(groups * GROUP.unsigned_abs()).unwrap_or(0)
    }

    /// Rows of a block.
    pub(super) fn rows(self) -> i64 {
        if self.crew == Crew::Warp { GROUP / WARP } else { 1 }
    }
}
