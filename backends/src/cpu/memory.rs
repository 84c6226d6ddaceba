//! Memory of a run: temporaries of the call, and of each thread what its kernels keep for themselves.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use ir::Scalar;
use ir::nest::{BufferId, Program, Role};

use super::RunError;
use crate::abi::SCRATCH_ALIGN;

/// A call's or a thread's memory that is kept for the next run may have so many bytes.
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

/// Blocks for calls or threads, kept between kernels and runs so that their pages are there and in a cache.
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

/// Where a program's temporaries lie in the memory of a call.
pub(super) struct Slots {
    /// Temporaries that have the same memory, one after another.
    own: Vec<Vec<BufferId>>,
    /// Temporaries in the memory of outputs that begin after them.
    lent: Vec<(BufferId, BufferId)>,
}

/// The memory of a temporary.
pub(super) enum Place {
    /// So many bytes into the memory for temporaries.
    At(usize),
    /// The same as an output's.
    Of(BufferId),
}

impl Slots {
    /// The memory that a program's plan says, and some for each other temporary of `stored`.
    pub(super) fn new(program: &Program, mut stored: BTreeSet<BufferId>) -> Slots {
        let mut slots = Slots { own: vec![], lent: vec![] };
        let is_temp = |id: &BufferId| program.buffers[*id].role == Role::Temp;
        for members in program.slots.values() {
            members.iter().for_each(|id| _ = stored.remove(id));
            match members.iter().find(|id| !is_temp(id)) {
                Some(output) => slots.lent.extend(members.iter().filter(|id| is_temp(id)).map(|id| (*id, *output))),
                None => slots.own.push(members.clone()),
            }
        }
        slots.own.extend(stored.into_iter().filter(is_temp).map(|id| vec![id]));
        slots
    }

    /// The bytes that temporaries take in all, and where each is.
    pub(super) fn places(
        &self,
        bytes: impl Fn(BufferId) -> Result<usize, RunError>,
    ) -> Result<(usize, Vec<(BufferId, Place)>), RunError> {
        let (mut end, mut places) = (0usize, vec![]);
        for members in &self.own {
            let begin = end;
            for id in members {
                places.push((*id, Place::At(begin)));
                let bytes = bytes(*id)?.checked_next_multiple_of(SCRATCH_ALIGN);
                let own = bytes.and_then(|bytes| begin.checked_add(bytes));
                end = end.max(own.ok_or(RunError::OutOfMemory { bytes: usize::MAX })?);
            }
        }
        places.extend(self.lent.iter().map(|(id, output)| (*id, Place::Of(*output))));
        Ok((end, places))
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
