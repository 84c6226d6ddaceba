//! Copies as a yardstick for kernels: one of arrays larger than the caches, and others that move as
//! many bytes as each kernel, so that kernels whose data fit in cache are compared with copies in
//! cache. They use the same kind of memory as the arrays of calls.

use std::collections::BTreeMap;
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ir::Dtype;
use ir::array::Array;

use super::{BenchError, Measured};
use crate::{DeviceArray, Gpu};

/// The size in bytes of each of the two arrays of the largest copy: larger than the caches of most
/// machines.
pub(super) const LARGEST: usize = 256 << 20;

/// A copy is taken to be in cache if it is this many times as fast as the largest one.
const IN_CACHE: f64 = 1.3;

/// Copies of small arrays are repeated until they have moved this many bytes.
const MEASURABLE: usize = 4 << 20;

/// Copies of several sizes, by `threads` threads or by a GPU.
pub(crate) struct Copies {
    place: Place,
    /// The times measured, by the size of each array in bytes.
    times: BTreeMap<usize, Vec<Duration>>,
}

/// The source and destination arrays of the copies.
enum Place {
    /// Smaller copies use the beginning of these.
    Host {
        from: Array,
        to: Array,
        threads: usize,
    },
    Gpu(BTreeMap<usize, (DeviceArray, DeviceArray)>),
}

/// A copy to compare a kernel with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// Bytes per nanosecond.
    pub rate: f64,
    /// Whether its arrays are in cache.
    pub in_cache: bool,
}

impl Copies {
    /// The largest copy, and others that move about as many bytes as `moved`.
    pub(crate) fn new(
        threads: usize,
        gpu: Option<&Arc<Gpu>>,
        moved: impl Iterator<Item = u64>,
    ) -> Result<Copies, BenchError> {
        // The largest of the sizes within a factor of two stands for all of them.
        let mut classes: BTreeMap<u32, usize> = BTreeMap::new();
        for bytes in moved.map(length).chain([LARGEST]) {
            let class = classes.entry(bytes.ilog2()).or_default();
            *class = bytes.max(*class);
        }
        let place = match gpu {
            None => {
                let mut from = crate::zeros(Dtype::U8, &[LARGEST])?;
                let mut to = crate::zeros(Dtype::U8, &[LARGEST])?;
                // Touch the pages, so that they are mapped.
                from.bytes_mut().fill(1);
                to.bytes_mut().fill(2);
                Place::Host { from, to, threads }
            }
            Some(gpu) => {
                let array = |bytes: usize| DeviceArray::zeros(gpu, Dtype::U8, &[bytes]).map_err(BenchError::Gpu);
                let both = |bytes: &usize| Ok((*bytes, (array(*bytes)?, array(*bytes)?)));
                Place::Gpu(classes.values().map(both).collect::<Result<_, BenchError>>()?)
            }
        };
        Ok(Copies { place, times: classes.into_values().map(|bytes| (bytes, vec![])).collect() })
    }

    /// Measures each copy once.
    pub(crate) fn measure(&mut self, counts: bool) -> Result<(), BenchError> {
        for (bytes, times) in &mut self.times {
            let time = match &mut self.place {
                Place::Host { from, to, threads } => {
                    stream(&from.bytes()[..*bytes], &mut to.bytes_mut()[..*bytes], *threads)
                }
                Place::Gpu(arrays) => {
                    let Some((from, to)) = arrays.get_mut(bytes) else { continue };
                    from.copy_to(to).map_err(BenchError::Gpu)?
                }
            };
            if counts {
                times.push(time);
            }
        }
        Ok(())
    }

    /// The largest copy.
    pub(crate) fn largest(&self) -> Measured {
        self.measured(LARGEST)
    }

    /// The copy that moves about this many bytes.
    pub(super) fn beside(&self, moved: u64) -> Option<Beside> {
        let (bytes, _) = self.times.range(length(moved)..).next()?;
        let (rate, largest) = (self.measured(*bytes).rate()?, self.largest().rate()?);
        Some(Beside { rate, in_cache: *bytes < LARGEST && rate > IN_CACHE * largest })
    }

    fn measured(&self, bytes: usize) -> Measured {
        let times = self.times.get(&bytes).cloned().unwrap_or_default();
        Measured::new("copy", (Some(2 * bytes as u64), 0), times)
    }
}

/// The size of each array of a copy that moves `moved` bytes.
fn length(moved: u64) -> usize {
    usize::try_from(moved.div_ceil(2)).unwrap_or(LARGEST).clamp(1, LARGEST)
}

/// Smaller copies use one thread, as calls on so little data do.
const FEW: usize = 1 << 18;

/// For small copies, the fastest of this many batches counts, because other processes may interrupt
/// some.
const BATCHES: u32 = 16;

/// The time of one copy.
fn stream(from: &[u8], to: &mut [u8], threads: usize) -> Duration {
    if from.len() >= FEW {
        return spread(from, to, threads);
    }
    let times = u32::try_from(MEASURABLE / BATCHES as usize / from.len()).unwrap_or(1).clamp(1, 1 << 10);
    let mut batch = || {
        let start = Instant::now();
        for _ in 0..times {
            to.copy_from_slice(black_box(from));
            black_box(&mut *to);
        }
        start.elapsed() / times
    };
    (0..BATCHES).map(|_| batch()).min().unwrap_or_default()
}

/// The same on several threads. A thread's piece stays in its own caches if it fits.
fn spread(from: &[u8], to: &mut [u8], threads: usize) -> Duration {
    let piece = from.len().div_ceil(threads.max(1));
    let times = (MEASURABLE / from.len()).clamp(1, 1 << 12);
    let pieces: Vec<_> = from.chunks(piece).zip(to.chunks_mut(piece)).collect();
    let (arrived, all) = (AtomicUsize::new(0), pieces.len());
    let meet = |phase: usize| {
        arrived.fetch_add(1, Ordering::AcqRel);
        while arrived.load(Ordering::Acquire) < phase * all {
            spin_loop();
        }
    };
    let copy = |(from, to): (&[u8], &mut [u8])| {
        to.copy_from_slice(black_box(from));
        meet(1);
        let start = Instant::now();
        for _ in 0..times {
            to.copy_from_slice(black_box(from));
            black_box(&mut *to);
        }
        meet(2);
        start.elapsed()
    };
    let copy = &copy;
    let longest = std::thread::scope(|scope| {
        let started: Vec<_> = pieces.into_iter().map(|piece| scope.spawn(move || copy(piece))).collect();
        started.into_iter().filter_map(|thread| thread.join().ok()).max()
    });
    longest.unwrap_or_default() / u32::try_from(times).unwrap_or(1)
}
