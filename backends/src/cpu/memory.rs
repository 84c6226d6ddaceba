//! The memory of a run: temporaries of the call, and scratch of each thread.

use std::sync::{Mutex, PoisonError};

use crate::abi::SCRATCH_ALIGN;
use crate::error::RunError;
use crate::pages::in_large_pages;

/// Memory of a call or thread is kept for the next run up to this size in bytes.
const MOST_KEPT: usize = 64 << 20;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct CacheLine {
    _bytes: [u8; SCRATCH_ALIGN],
}

const _: () = assert!(align_of::<CacheLine>() == SCRATCH_ALIGN && size_of::<CacheLine>() == SCRATCH_ALIGN);

/// Uninitialized memory, aligned to [`SCRATCH_ALIGN`].
#[derive(Default)]
pub(super) struct Block {
    lines: Vec<CacheLine>,
}

impl Block {
    pub(super) fn new(bytes: usize) -> Result<Block, RunError> {
        let mut lines: Vec<CacheLine> = Vec::new();
        lines.try_reserve_exact(bytes.div_ceil(SCRATCH_ALIGN)).map_err(|_| RunError::OutOfMemory { bytes })?;
        in_large_pages(lines.as_mut_ptr().cast(), bytes);
        Ok(Block { lines })
    }

    /// A block like that of [`Block::new`], with its bytes set to zero.
    pub(super) fn zeroed(bytes: usize) -> Result<Block, RunError> {
        let mut block = Block::new(bytes)?;
        block.lines.resize(bytes.div_ceil(SCRATCH_ALIGN), CacheLine { _bytes: [0; SCRATCH_ALIGN] });
        Ok(block)
    }

    pub(super) fn pointer(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }

    /// Grows the block to at least this size. Its contents are lost if it grows.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), RunError> {
        if self.bytes() < bytes {
            *self = Block::default();
            *self = Block::new(bytes)?;
        }
        Ok(())
    }

    /// Frees the block if it is too large to be kept.
    pub(super) fn trim(&mut self) {
        if self.bytes() > MOST_KEPT {
            *self = Block::default();
        }
    }

    fn bytes(&self) -> usize {
        self.lines.capacity().saturating_mul(SCRATCH_ALIGN)
    }
}

/// Blocks for threads, kept between kernels and runs. Their pages are already mapped, and may be in
/// the thread's cache.
#[derive(Default)]
pub(super) struct Pool {
    free: Mutex<Vec<(usize, Block)>>,
}

impl Pool {
    /// Takes a block of at least this size, preferably the one that this thread used last.
    pub(super) fn take(&self, thread: usize, bytes: usize) -> Result<Block, RunError> {
        if bytes == 0 {
            return Ok(Block::default());
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let own = free.iter().position(|(last, _)| *last == thread);
        let (_, mut block) = own.map(|at| free.swap_remove(at)).or_else(|| free.pop()).unwrap_or_default();
        drop(free);
        block.hold(bytes)?;
        Ok(block)
    }

    /// Returns a block.
    pub(super) fn keep(&self, thread: usize, mut block: Block) {
        block.trim();
        if block.bytes() > 0 {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push((thread, block));
        }
    }
}
