//! How the threads of a scan hand on from chunk to chunk what the chunks so far give. Compiled code has one function of it to call,
//! [`Hand::wait`]; then it reads and writes what is handed on, and makes it the next one's turn (`scan`).

use ir::nest::BufferId;

use super::sync::{AtomicBool, AtomicI64, Ordering, PATIENCE, UnsafeCell, spin_loop, yield_now};

/// What the threads of a scan hand on from chunk to chunk, for each of its prefixes: whose turn it is, and what the chunks so far
/// give.
#[derive(Clone, Copy)]
pub(super) struct Baton {
    pub(super) buffer: BufferId,
    pub(super) prefixes: usize,
}

/// A line of a baton, for one prefix.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct Hand {
    /// The number of the chunk whose turn it is.
    pub(super) turn: AtomicI64,
    /// What the chunks so far give: of the one whose turn it is.
    pub(super) so_far: UnsafeCell<[u8; 8]>,
    /// Whether a thread has waited in vain for long.
    pub(super) crowded: AtomicBool,
}

impl Baton {
    /// Bytes for one prefix.
    pub(super) const BYTES: usize = size_of::<Hand>();
    /// Where in them stands what the chunks so far give.
    pub(super) const SO_FAR: i32 = std::mem::offset_of!(Hand, so_far) as i32;
}

impl Hand {
    /// Waits until it is the turn of a number: until the thread that has the one before it has come so far. If the run is cancelled
    /// that may never be.
    pub(super) fn wait(&self, number: i64, cancelled: &AtomicBool) {
        let mut patience = PATIENCE;
        while self.turn.load(Ordering::Acquire) != number && !cancelled.load(Ordering::Relaxed) {
            if patience > 0 {
                patience -= 1;
                spin_loop();
            } else {
                // Who has it may have lost its processor, and will again: better to be fewer.
                self.crowded.store(true, Ordering::Relaxed);
                yield_now();
            }
        }
    }
}
