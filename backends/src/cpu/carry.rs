//! The hand-off of the carry between the threads of a scan, from each chunk to the next (a chained
//! scan, as with decoupled look-back on GPUs). Compiled code calls one function here,
//! [`Carry::wait`]; then it updates the carry itself and signals the next chunk (`scan`).

use super::sync::{AtomicBool, AtomicI64, Ordering, PATIENCE, UnsafeCell, spin_loop, yield_now};

/// The carry of one prefix. It is padded to a cache line.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct Carry {
    /// The index of the chunk that may access the carry.
    pub(super) turn: AtomicI64,
    /// The result of all earlier chunks. Only the thread of the current chunk may access it.
    pub(super) so_far: UnsafeCell<[u8; 8]>,
    /// Whether some thread has waited so long that it yielded its core.
    pub(super) crowded: AtomicBool,
}

impl Carry {
    /// The offset of `so_far`.
    pub(super) const SO_FAR: i32 = std::mem::offset_of!(Carry, so_far) as i32;

    /// Waits until it is the turn of chunk `number`, that is, until the previous chunk has updated
    /// the carry. Returns early if the run is cancelled.
    pub(super) fn wait(&self, number: i64, cancelled: &AtomicBool) {
        let mut patience = PATIENCE;
        while self.turn.load(Ordering::Acquire) != number && !cancelled.load(Ordering::Relaxed) {
            if patience > 0 {
                patience -= 1;
                spin_loop();
            } else {
                // The thread of the current chunk was probably preempted, and may be again. Fewer
                // threads would do better.
                self.crowded.store(true, Ordering::Relaxed);
                yield_now();
            }
        }
    }
}
