//! The shape of a launch: its threads, by number and by position.

use crate::fault::Thread;
use crate::types::LANES;

/// Blocks of a grid, threads of a block, and blocks of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: u32,
}

impl Shape {
    pub(crate) fn blocks(&self) -> u64 {
        self.grid.iter().map(|size| u64::from(*size)).product()
    }

    /// Threads of a block.
    pub(crate) fn threads(&self) -> usize {
        self.block.iter().map(|size| *size as usize).product()
    }

    pub(crate) fn warps(&self) -> usize {
        self.threads().div_ceil(LANES)
    }

    /// The block of this rank in the cluster of block `of`. The numbers, or slots, of a cluster's
    /// blocks are consecutive and start at a multiple of its size.
    pub(crate) fn mate(&self, of: u32, rank: u32) -> u32 {
        of - of % self.cluster + rank
    }

    pub(crate) fn block_at(&self, number: u32) -> [u32; 3] {
        place(self.grid, number)
    }

    pub(crate) fn thread_at(&self, number: usize) -> [u32; 3] {
        place(self.block, number as u32)
    }

    pub(crate) fn thread(&self, block: u32, number: usize) -> Thread {
        Thread { block: self.block_at(block), thread: self.thread_at(number) }
    }

    /// Whether a device has room for it, and an emulation can finish.
    pub(crate) fn possible(&self) -> bool {
        let [x, y, z] = self.block;
        let [gx, gy, gz] = self.grid;
        let block = x >= 1 && y >= 1 && z >= 1 && x <= 1024 && y <= 1024 && z <= 64 && x * y * z <= 1024;
        let grid = gx >= 1 && gy >= 1 && gz >= 1 && gx < 1 << 31 && gy < 1 << 16 && gz < 1 << 16;
        let grid = grid && gx.is_multiple_of(self.cluster) && (self.cluster == 1 || gy == 1 && gz == 1);
        block && grid && self.blocks() <= 1 << 24
    }
}

fn place([x, y, _]: [u32; 3], number: u32) -> [u32; 3] {
    [number % x, number / x % y, number / x / y]
}
