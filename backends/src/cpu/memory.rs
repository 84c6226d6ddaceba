//! Memory of a run: temporaries of the call, and of each thread what its kernels keep for themselves.

use std::sync::{Mutex, PoisonError};

use ir::Scalar;

use super::RunError;
use crate::abi::SCRATCH_ALIGN;

/// A thread's memory that is kept for the next run may have so many bytes.
const MOST_KEPT: usize = 64 << 20;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; SCRATCH_ALIGN],
}

const _: () = assert!(align_of::<Line>() == SCRATCH_ALIGN && size_of::<Line>() == SCRATCH_ALIGN);

/// Memory without contents, aligned to [`SCRATCH_ALIGN`].
pub(super) struct Block {
    lines: Vec<Line>,
}

impl Block {
    pub(super) fn new(bytes: usize) -> Result<Block, RunError> {
        let mut lines: Vec<Line> = Vec::new();
        lines.try_reserve_exact(bytes.div_ceil(SCRATCH_ALIGN)).map_err(|_| RunError::OutOfMemory { bytes })?;
        Ok(Block { lines })
    }

    pub(super) fn pointer(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }

    fn bytes(&self) -> usize {
        self.lines.capacity().saturating_mul(SCRATCH_ALIGN)
    }
}

/// Blocks for threads, kept between kernels and runs so that their pages are there and in a cache.
#[derive(Default)]
pub(super) struct Pool {
    free: Mutex<Vec<Block>>,
}

impl Pool {
    /// A block of at least so many bytes.
    pub(super) fn take(&self, bytes: usize) -> Result<Block, RunError> {
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.filter(|block| block.bytes() >= bytes).map_or_else(|| Block::new(bytes), Ok)
    }

    /// Takes a block back.
    pub(super) fn keep(&self, block: Block) {
        if block.bytes() <= MOST_KEPT {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(block);
        }
    }
}

/// Elements in native byte order, in aligned memory.
pub(super) fn words(elements: &[Scalar]) -> Vec<u64> {
    let mut bytes = vec![];
    for element in elements {
        let width = element.dtype().bytes();
        let all = element.bits().to_ne_bytes();
        bytes.extend_from_slice(if cfg!(target_endian = "little") { &all[..width] } else { &all[8 - width..] });
    }
    bytes
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        })
        .collect()
}
