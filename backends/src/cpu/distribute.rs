//! Distributes a kernel over threads.
//!
//! The range of a kernel is partitioned into pieces, several per thread, so that a slow thread does
//! not hold up the others. Each thread begins with its own stretch of adjacent pieces. It is the
//! same stretch whenever the kernel runs, because its part of the arrays may still be in the
//! thread's cache. A thread that has finished its stretch steals pieces from the others. Every
//! other kernel processes its pieces in reverse order, because the caches still hold what the
//! previous kernel accessed last. The partition does not affect results: iterations are
//! independent, and reductions are split into chunks that are the same for any number of threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cranelift_codegen::entity::EntityRef;
use ir::Size;
use ir::bind::Fault;
use ir::nest::{BufferId, SiteId};
use ir::sabotage::{self, Bug};
use ir::sched::HandOff;

use super::carry::Carry;
use super::compile::CompiledKernel;
use super::memory::Pool;
use super::options::Options;
use super::pool::{self, Thread};
use super::sizes;
use crate::abi::FaultRecord;

/// The minimum duration of a piece in nanoseconds, by the estimate.
const LEAST_PIECE: u64 = 1_000;
/// The maximum duration of a piece if the run can be cancelled: threads check for that between
/// pieces.
const MOST_PIECE: u64 = 4_000_000;
/// From this duration on, a kernel that runs in reverse is split into pieces even on one thread,
/// because its arrays may exceed the cache.
const BACK_IN_PIECES: u64 = 1_000_000;
/// The alignment of long pieces: whole vectors, cache lines and pages of most arrays.
const EVEN: i64 = 4096;
/// How long threads wait for each other if [`Options::rendezvous`] is set.
const RENDEZVOUS: Duration = Duration::from_millis(3);

/// The flag of runs that cannot be cancelled.
static NEVER: AtomicBool = AtomicBool::new(false);

/// The memory of a buffer or a thread. Addresses are shared between threads; only kernels access
/// the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Address(pub(super) *mut u8);

// SAFETY: an address by itself gives no access. Only kernels access the memory (see `Task::piece`),
// and this file while no kernel is running.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// The scratch memory of a thread while it runs a kernel.
pub(super) struct ThreadScratch {
    pub(super) bytes: usize,
    /// The offsets of its scratch buffers.
    pub(super) buffers: Vec<(BufferId, usize)>,
    /// The offset of the thread's own table of the addresses of all buffers, if it has scratch
    /// buffers.
    pub(super) table: usize,
}

/// The properties of a kernel at the sizes of a call.
pub(super) struct Extents {
    pub(super) own: ThreadScratch,
    /// The number of iterations in its range, if it has one.
    total: Option<i64>,
    /// The estimated time on one thread in nanoseconds.
    pub(super) estimate: u64,
    /// Whether it processes its pieces in reverse order.
    back: bool,
}

impl Extents {
    /// `back` asks for the reverse order, if the kernel supports it.
    pub(super) fn new(
        kernel: &CompiledKernel,
        own: ThreadScratch,
        back: bool,
        value: &impl Fn(&Size) -> i64,
    ) -> Extents {
        let total = kernel.range.as_ref().map(|extents| {
            let total = extents.iter().fold(1i64, |total, extent| total.saturating_mul(value(extent).max(0)));
            total / kernel.step + i64::from(total % kernel.step != 0)
        });
        Extents { own, total, estimate: kernel.cost.nanoseconds(value), back: back && kernel.turns }
    }

    /// The end of its range, or the greatest number if it cannot be split.
    pub(super) fn total(&self) -> i64 {
        self.total.unwrap_or(i64::MAX)
    }
}

/// One kernel of a run.
pub(super) struct Task<'r> {
    pub(super) kernel: &'r CompiledKernel,
    pub(super) extents: &'r Extents,
    /// The memory of each buffer.
    pub(super) addresses: &'r [Address],
    /// The table of sizes.
    pub(super) sizes: &'r [i64],
    /// The scratch memory of the caller's thread.
    pub(super) scratch: Address,
    /// Scratch memory for the other threads.
    pub(super) memory: &'r Pool,
    /// Set if the results are no longer wanted.
    pub(super) cancelled: Option<&'r AtomicBool>,
}

/// A partition of a range into pieces of equal length, except for the last.
struct Partition {
    total: i64,
    length: i64,
    count: i64,
}

const _: () = assert!(size_of::<Carry>() == HandOff::BYTES);

/// The next piece of a stretch. It is padded to a cache line to avoid false sharing.
#[repr(align(64))]
pub(super) struct Next(AtomicI64);

impl Task<'_> {
    /// Runs the kernel on at most `threads` threads. `next` is memory for their stretches.
    pub(super) fn run(&self, options: &Options, threads: usize, next: &mut Vec<Next>) -> Result<(), Fault> {
        let Extents { total, estimate, .. } = *self.extents;
        if let Some(hand_off) = self.kernel.hand_off {
            for prefix in 0..hand_off.prefixes {
                // SAFETY: the buffer is a temporary of `HandOff::BYTES` for each prefix
                // (`split::hand_off`), aligned like all temporaries to `SCRATCH_ALIGN`, which
                // suffices for an entry, and no thread is in the kernel.
                unsafe { self.carry(hand_off, prefix).write(Carry::default()) };
            }
        }
        // Use as many threads as have at least the minimum share of work.
        let worth = estimate.checked_div(options.least_share).and_then(|n| usize::try_from(n).ok());
        let threads = threads.min(options.threads).min(worth.unwrap_or(usize::MAX)).min(pool::MOST_THREADS);
        if let (Some(total), 2..) = (total, threads) {
            let pieces = self.pieces(total, threads, if options.least_share == 0 { u64::MAX } else { estimate });
            let threads = threads.min(usize::try_from(pieces.count).unwrap_or(usize::MAX));
            if threads > 1 {
                let pool = |work: &pool::Work<'_>| pool::run(threads - 1, estimate, options.wake_from, work);
                return self.run_on_threads(&pieces, threads, next, options.rendezvous, pool);
            }
        }
        self.run_alone(total)
    }

    /// Runs the whole range on this thread.
    fn run_alone(&self, total: Option<i64>) -> Result<(), Fault> {
        let Extents { estimate, back, .. } = *self.extents;
        let most = if back { BACK_IN_PIECES } else { MOST_PIECE };
        let pieces = match total {
            Some(total) if (back || self.cancelled.is_some()) && estimate > most => self.pieces(total, 1, estimate),
            _ => Partition { total: self.extents.total(), length: i64::MAX, count: 1 },
        };
        let mut numbers = (0..pieces.count).take_while(|_| !self.is_cancelled());
        self.with(self.scratch, |buffers| {
            numbers.try_for_each(|number| {
                let number = if back { pieces.count - 1 - number } else { number };
                self.piece(buffers, self.scratch, pieces.range(number))
            })
        })
    }

    /// Whether the results are no longer wanted.
    fn is_cancelled(&self) -> bool {
        self.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
    }

    fn carry(&self, hand_off: HandOff, prefix: usize) -> *mut Carry {
        self.addresses[hand_off.buffer.index()].0.cast::<Carry>().wrapping_add(prefix)
    }

    /// Whether threads of a scan have waited long for each other, which happens if there are more
    /// threads than cores.
    fn is_crowded(&self) -> bool {
        self.kernel.hand_off.is_some_and(|hand_off| {
            // SAFETY: the carries were initialized before the kernel began. This
            // borrows only one field, which all threads access atomically.
            (0..hand_off.prefixes).any(|p| unsafe { (*self.carry(hand_off, p)).crowded.load(Ordering::Relaxed) })
        })
    }

    fn pieces(&self, total: i64, threads: usize, estimate: u64) -> Partition {
        if self.kernel.hand_off.is_some() {
            return Partition { total, length: 1, count: total };
        }
        let threads = i64::try_from(threads).unwrap_or(1);
        let worth = i64::try_from(estimate / LEAST_PIECE).unwrap_or(i64::MAX);
        let count = threads.saturating_mul(self.kernel.pieces).min(worth.max(threads));
        // Pieces must be short enough for a cancelled run to end soon.
        let patient = if self.cancelled.is_some() { estimate / MOST_PIECE } else { 0 };
        let count = count.max(i64::try_from(patient).unwrap_or(i64::MAX)).min(total).max(1);
        let length = if self.kernel.columns.strips && count > 1 {
            sizes::piece(total, threads, count)
        } else {
            let length = total / count + i64::from(total % count != 0);
            // Align the length, but by at most an eighth of it, so that the pieces stay balanced.
            let even = (1 << (length / 8).max(1).ilog2()).min(EVEN);
            length.saturating_add(even - 1) / even * even
        };
        Partition { total, length, count: total / length.max(1) + i64::from(total % length.max(1) != 0) }
    }

    /// Runs the pieces on all threads that `run` provides.
    fn run_on_threads(
        &self,
        pieces: &Partition,
        threads: usize,
        next: &mut Vec<Next>,
        rendezvous: bool,
        run: impl FnOnce(&pool::Work<'_>),
    ) -> Result<(), Fault> {
        // A piece of a scan waits for the previous one, so the pieces must start in order: all
        // threads take them from one stretch.
        let stretches = if self.kernel.hand_off.is_some() { 1 } else { threads };
        let begin = |stretch: usize| pieces.count * stretch as i64 / stretches as i64;
        next.clear();
        next.extend((0..stretches).map(|stretch| Next(AtomicI64::new(begin(stretch)))));
        let next: &[Next] = next;
        // The lowest piece in which a check has failed. Higher pieces need not run; lower ones
        // must, since theirs would be the first failure in sequential order.
        let lowest = AtomicI64::new(i64::MAX);
        let fault: Mutex<Option<(i64, Fault)>> = Mutex::new(None);
        let note = |piece: i64, found: Fault| {
            lowest.fetch_min(piece, Ordering::Relaxed);
            let mut fault = fault.lock().unwrap_or_else(PoisonError::into_inner);
            if fault.is_none_or(|(before, _)| piece < before) {
                *fault = Some((piece, found));
            }
        };
        let arrived = AtomicUsize::new(0);
        run(&|thread| {
            let (number, mut block) = match thread {
                Thread::Alone => return self.run_alone(Some(pieces.total)).unwrap_or_else(|found| note(0, found)),
                Thread::Caller => (0, None),
                Thread::Helper(number) => {
                    // Without scratch memory this thread cannot help, so the others do its part.
                    let Ok(block) = self.memory.take(number, self.extents.own.bytes) else { return };
                    (number, Some(block))
                }
            };
            if rendezvous {
                arrived.fetch_add(1, Ordering::Relaxed);
                let begin = Instant::now();
                while arrived.load(Ordering::Relaxed) < threads && begin.elapsed() < RENDEZVOUS {
                    std::thread::yield_now();
                }
            }
            let scratch = block.as_mut().map_or(self.scratch, |block| Address(block.pointer()));
            self.with(scratch, |buffers| {
                // The own stretch first, then those of the others.
                for turn in 0..stretches {
                    let stretch = (number + turn) % stretches;
                    let (first, end) = (begin(stretch), begin(stretch + 1));
                    // Helpers leave a scan if there are too few cores for them. The caller stays
                    // until it is done.
                    while (number == 0 || !self.is_crowded()) && !self.is_cancelled() {
                        let piece = next[stretch].0.fetch_add(1, Ordering::Relaxed);
                        if piece >= end || piece > lowest.load(Ordering::Relaxed) {
                            break;
                        }
                        let piece = if self.extents.back { first + (end - 1 - piece) } else { piece };
                        if rendezvous {
                            std::thread::yield_now();
                        }
                        if let Err(found) = self.piece(buffers, scratch, pieces.range(piece)) {
                            note(piece, found);
                        }
                    }
                }
            });
            if let Some(block) = block {
                self.memory.keep(number, block);
            }
        });
        fault.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, fault)| Err(fault))
    }

    /// Calls `run` with the addresses of all buffers, those of scratch buffers inside this thread's
    /// memory.
    fn with<T>(&self, scratch: Address, run: impl FnOnce(&[Address]) -> T) -> T {
        if self.extents.own.buffers.is_empty() {
            return run(self.addresses);
        }
        let (table, count) = (scratch.0.wrapping_add(self.extents.own.table).cast::<Address>(), self.addresses.len());
        // SAFETY: the thread's memory has room for this many addresses there (`Runner::own`), at a
        // multiple of `SCRATCH_ALIGN` like the memory itself, and nothing else uses that room.
        let addresses = unsafe {
            std::ptr::copy_nonoverlapping(self.addresses.as_ptr(), table, count);
            std::slice::from_raw_parts_mut(table, count)
        };
        for (id, offset) in &self.extents.own.buffers {
            addresses[id.index()] = Address(scratch.0.wrapping_add(*offset));
        }
        run(addresses)
    }

    /// Runs a piece of the kernel on this thread.
    pub(super) fn piece(&self, buffers: &[Address], scratch: Address, piece: Range<i64>) -> Result<(), Fault> {
        let cancelled = std::ptr::from_ref(self.cancelled.unwrap_or(&NEVER));
        let mut fault = FaultRecord { site: 0, index: 0, bound: 0, cancelled };
        // SAFETY: the requirements of `KernelFn` hold. Each address points to memory of the
        // buffer's size under this call's binding, shared only with buffers that are not live at
        // the same time (`slots`); the sizes are this call's; the flag outlives the call; the
        // scratch is exclusive to this thread, aligned and long enough. An `Address` has the layout
        // of a pointer.
        //
        // That the code then stays inside its buffers depends on the compiler, and release builds
        // do not check it again. The checker has proved each subscript in bounds for all sizes that
        // meet the program's requirements, or has the code check it (`check::access`,
        // `check::prove`); binding held this call to the requirements. Lowering and fusion keep
        // subscripts with the loops that they were proved for: they inline a producer's body where
        // its elements are loaded, at subscripts inside its own loops, or join loops of equal
        // extents. No kernel stores to inputs or constants, which `ir::verify` checks, and
        // iterations of a parallel loop store to different elements, since each element of an array
        // has one definition. Tests check all of this on every program that they run: the
        // interpreter checks each access and each store, and compiled code runs on arrays with no
        // mapped memory next to them.
        let status = unsafe {
            (self.kernel.function)(
                buffers.as_ptr().cast(),
                self.sizes.as_ptr(),
                piece.start,
                piece.end,
                scratch.0,
                std::ptr::from_mut(&mut fault),
            )
        };
        if status == 0 {
            return Ok(());
        }
        let site = SiteId::from_u32(u32::try_from(fault.site).unwrap_or(0));
        Err(Fault { site, index: fault.index, bound: fault.bound })
    }
}

impl Partition {
    fn range(&self, piece: i64) -> Range<i64> {
        let begin = piece.saturating_mul(self.length);
        begin..begin.saturating_add(self.length).min(self.total - i64::from(sabotage::on(Bug::LastIteration)))
    }
}
