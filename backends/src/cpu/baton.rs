//! How the threads of a scan pass the running prefix from one chunk to the next. Compiled code
//! calls one function here, [`Hand::wait`]; it then updates the prefix itself and passes the turn
//! on (`scan`).

use super::sync::{AtomicBool, AtomicI64, Ordering, PATIENCE, UnsafeCell, spin_loop, yield_now};

/// The entry of a baton for one prefix, in a cache line of its own.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct Hand {
    /// The number of the chunk whose turn it is.
    pub(super) turn: AtomicI64,
    /// The result of all chunks before that one. Only the thread whose turn it is may access it.
    pub(super) so_far: UnsafeCell<[u8; 8]>,
    /// Whether some thread has used up its patience while waiting.
    pub(super) crowded: AtomicBool,
}

impl Hand {
    /// The offset of `so_far`.
    pub(super) const SO_FAR: i32 = std::mem::offset_of!(Hand, so_far) as i32;

    /// Waits until it is the turn of chunk `number`, that is, until the previous chunk has passed
    /// its prefix on. Returns early if the run is cancelled.
    pub(super) fn wait(&self, number: i64, cancelled: &AtomicBool) {
        let mut patience = PATIENCE;
        while self.turn.load(Ordering::Acquire) != number && !cancelled.load(Ordering::Relaxed) {
            if patience > 0 {
                patience -= 1;
                spin_loop();
            } else {
                // The thread whose turn it is may have been preempted, and may be again: fewer
                // threads would do better.
                self.crowded.store(true, Ordering::Relaxed);
                yield_now();
            }
        }
    }
}
