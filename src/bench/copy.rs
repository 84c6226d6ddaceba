//! Copies to compare kernels with: one of arrays larger than the caches, and others that move as
//! many bytes as each kernel, so that a kernel with data in cache is compared with a copy in cache.
//! On a processor they are compiled and called as the kernels are, and use the same kind of memory.
//! A copy by the C library would be no upper bound: it takes up to 1.7 times as long on machines
//! where it chooses slow stores.

use std::collections::BTreeMap;
use std::time::Duration;

use ir::Dtype;
use ir::array::Array;
use reports::bench::Measured;

use super::BenchError;
#[cfg(feature = "gpu")]
use crate::DeviceArray;
use crate::kernel::Kernel;
use crate::{CompileError, Device, Options, Program, RunError};

/// The size in bytes of each of the two arrays of the largest copy: larger than the caches of most
/// machines.
pub(super) const LARGEST: usize = 256 << 20;

/// A copy is taken to be in cache if it is this many times as fast as the largest one.
const IN_CACHE: f64 = 1.3;

/// The copy on a processor, by words of 4 bytes.
const COPY: &str = "fn copy(x: u32[n]) -> u32[n] = x";
const WORD: usize = size_of::<u32>();

/// Copies of several sizes, on a processor or a GPU.
pub(crate) struct Copies {
    place: CopyArrays,
    /// The times measured, by the size of each array in bytes.
    times: BTreeMap<usize, Vec<Duration>>,
}

/// The source and destination arrays of the copies, by size in bytes.
enum CopyArrays {
    Host(Box<Kernel>, BTreeMap<usize, (Array, Array)>),
    #[cfg(feature = "gpu")]
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

impl CopyArrays {
    /// Arrays of these sizes.
    fn new(
        options: &Options,
        _kernel: Option<&Kernel>,
        sizes: impl Iterator<Item = usize>,
    ) -> Result<CopyArrays, BenchError> {
        #[cfg(feature = "gpu")]
        if let Some(gpu) = _kernel.and_then(Kernel::gpu) {
            let array = |bytes: usize| DeviceArray::zeros(gpu, Dtype::U8, &[bytes]).map_err(BenchError::Gpu);
            let both = |bytes: usize| Ok((bytes, (array(bytes)?, array(bytes)?)));
            return Ok(CopyArrays::Gpu(sizes.map(both).collect::<Result<_, BenchError>>()?));
        }
        let options = Options { device: Device::Cpu, ..options.clone() };
        let program = Program::parse(COPY).map_err(|e| CompileError::fault(e.to_string()))?;
        let only = program.main().map_err(|e| CompileError::fault(e.to_string()))?;
        let kernel = only.compile(&options)?;
        let array = |bytes: usize, value| {
            let mut array = crate::zeros(Dtype::U32, &[bytes.div_ceil(WORD)])?;
            // Touch the pages, so that they are mapped.
            array.bytes_mut().fill(value);
            Ok::<_, BenchError>(array)
        };
        let both = |bytes: usize| Ok((bytes, (array(bytes, 1)?, array(bytes, 2)?)));
        Ok(CopyArrays::Host(Box::new(kernel), sizes.map(both).collect::<Result<_, BenchError>>()?))
    }
}

impl Copies {
    /// The largest copy, and others that move about as many bytes as `moved`, where `kernel` runs;
    /// without one, on the CPU.
    pub(crate) fn new(
        options: &Options,
        kernel: Option<&Kernel>,
        moved: impl Iterator<Item = u64>,
    ) -> Result<Copies, BenchError> {
        // The largest of the sizes within a factor of two represents all of them.
        let mut classes: BTreeMap<u32, usize> = BTreeMap::new();
        for bytes in moved.map(length).chain([LARGEST]) {
            let class = classes.entry(bytes.ilog2()).or_default();
            *class = bytes.max(*class);
        }
        let place = CopyArrays::new(options, kernel, classes.values().copied())?;
        Ok(Copies { place, times: classes.into_values().map(|bytes| (bytes, vec![])).collect() })
    }

    /// Measures each copy once.
    pub(crate) fn measure(&mut self, counts: bool) -> Result<(), BenchError> {
        for (bytes, times) in &mut self.times {
            let time = match &mut self.place {
                CopyArrays::Host(kernel, arrays) => {
                    let Some((from, to)) = arrays.get_mut(bytes) else { continue };
                    copy(kernel, from, to)?
                }
                #[cfg(feature = "gpu")]
                CopyArrays::Gpu(arrays) => {
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

/// The time of a copy, after another one that leaves its data in the caches.
fn copy(kernel: &Kernel, from: &Array, to: &mut Array) -> Result<Duration, RunError> {
    let mut timed = || {
        let mut time = [Duration::ZERO];
        kernel.call_timed(&[from.as_ref()], &mut [to.as_mut()], &mut time)?;
        Ok(time[0])
    };
    timed()?;
    timed()
}
