//! Global memory, as a host sees it.

use crate::fault::Problem;
use crate::region::{Bad, Region};
use crate::types::Space;

/// Where the first allocation lies.
const FIRST: u64 = 0x7f00_0000_0000;

/// The gap between allocations. Every access there is out of bounds.
const GAP: u64 = 4096;

/// Global memory: allocations with gaps between them, so that an access past the end of one is
/// never within another.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    allocations: Vec<Allocation>,
    /// The allocation that was accessed last, since the next access is mostly to the same one.
    last: usize,
}

#[derive(Clone, Debug)]
struct Allocation {
    base: u64,
    region: Region,
}

impl Memory {
    /// Memory without allocations.
    #[must_use]
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Allocates uninitialized bytes and returns their address, aligned to 256 bytes.
    pub fn allocate(&mut self, bytes: usize) -> u64 {
        let base = match self.allocations.last() {
            None => FIRST,
            Some(last) => (last.base + last.region.len() as u64 + GAP).next_multiple_of(256),
        };
        self.allocations.push(Allocation { base, region: Region::unwritten(bytes) });
        base
    }

    /// Writes bytes.
    ///
    /// # Panics
    /// An error if they lie outside of every allocation, which is a mistake of the caller.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        let written = self.find(address).map(|(region, at)| region.put(at, bytes));
        assert!(matches!(written, Some(Ok(_))), "write of {} bytes at {address:#x}, outside of memory", bytes.len());
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// An error if they lie outside of every allocation, or if one was never written.
    pub fn read(&self, address: u64, bytes: usize) -> Result<Vec<u8>, Problem> {
        let outside = Problem::OutOfBounds { space: Space::Global, address };
        let allocation = self.index(address).map(|index| &self.allocations[index]).ok_or(outside.clone())?;
        allocation.region.get(address - allocation.base, bytes).map(<[u8]>::to_vec).map_err(|bad| match bad {
            Bad::Outside => outside,
            Bad::Unwritten(at) => Problem::Uninitialised { space: Space::Global, address: allocation.base + at },
        })
    }

    /// Reads bytes, taking those that were never written for zero.
    ///
    /// # Panics
    /// An error if they lie outside of every allocation, which is a mistake of the caller.
    #[must_use]
    pub fn read_any(&self, address: u64, bytes: usize) -> Vec<u8> {
        let found = self.index(address).map(|index| &self.allocations[index]);
        match found.map(|a| a.region.get_any(address - a.base, bytes)) {
            Some(Ok(bytes)) => bytes.to_vec(),
            _ => panic!("read of {bytes} bytes at {address:#x}, outside of memory"),
        }
    }

    /// The last allocation that begins at or below an address.
    fn index(&self, address: u64) -> Option<usize> {
        self.allocations.partition_point(|a| a.base <= address).checked_sub(1)
    }

    /// The region that an address may lie in, and the offset in it.
    pub(crate) fn find(&mut self, address: u64) -> Option<(&mut Region, u64)> {
        let lies = |a: &Allocation| address.checked_sub(a.base).is_some_and(|at| at < a.region.len() as u64);
        if !self.allocations.get(self.last).is_some_and(lies) {
            self.last = self.index(address)?;
        }
        let allocation = self.allocations.get_mut(self.last)?;
        Some((&mut allocation.region, address - allocation.base))
    }

    /// Forgets the recorded accesses before a launch.
    pub(crate) fn forget_accesses(&mut self) {
        for allocation in &mut self.allocations {
            allocation.region.shadow.clear();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.allocations.len()
    }

    /// Frees all allocations except the first `count`.
    pub(crate) fn free_behind(&mut self, count: usize) {
        self.allocations.truncate(count);
    }
}
