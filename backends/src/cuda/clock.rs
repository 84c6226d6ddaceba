//! Time measured on the device, and the bandwidth ceilings of its memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result;
use cudarc::driver::sys;

use ir::Dtype;

use super::array::DeviceArray;
use super::error::Error;
use super::gpu::Gpu;
use crate::ptx;

/// A stopwatch: events recorded on the stream.
pub(super) struct Clock<'g> {
    gpu: &'g Gpu,
    events: Vec<sys::CUevent>,
}

impl<'g> Clock<'g> {
    pub(super) fn start(gpu: &'g Gpu) -> Result<Clock<'g>, Error> {
        gpu.enter()?;
        let mut clock = Clock { gpu, events: vec![] };
        clock.mark()?;
        Ok(clock)
    }

    /// Records an event after all work queued so far.
    pub(super) fn mark(&mut self) -> Result<(), Error> {
        let mut event = std::ptr::null_mut();
        // SAFETY: it writes a handle.
        unsafe { sys::cuEventCreate(&raw mut event, 0) }.result().map_err(self.gpu.failed("make an event"))?;
        self.events.push(event);
        // SAFETY: the event and the stream are there.
        unsafe { sys::cuEventRecord(event, self.gpu.stream) }.result().map_err(self.gpu.failed("record an event"))
    }

    /// Waits for the stream, then returns the time between each two consecutive events.
    pub(super) fn laps(self) -> Result<Vec<Duration>, Error> {
        self.gpu.wait()?;
        let lap = |pair: &[sys::CUevent]| {
            let mut milliseconds = 0f32;
            // SAFETY: both events exist and record times. They have completed, because the stream
            // was synchronized. (If recording one failed, the driver returns an error.)
            unsafe { sys::cuEventElapsedTime(&raw mut milliseconds, pair[0], pair[1]) }
                .result()
                .map_err(self.gpu.failed("read a clock"))?;
            Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
        };
        self.events.windows(2).map(lap).collect()
    }

    /// Waits for the stream, then returns the time since the start.
    pub(super) fn stop(mut self) -> Result<Duration, Error> {
        self.mark()?;
        Ok(self.laps()?.iter().sum())
    }
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        for event in &self.events {
            // SAFETY: the event is there.
            _ = unsafe { sys::cuEventDestroy_v2(*event) };
        }
    }
}

impl DeviceArray {
    /// Copies the elements to another array of the same length on the same device. Waits, and
    /// returns how long the copy took there.
    pub fn copy_to(&self, to: &mut DeviceArray) -> Result<Duration, Error> {
        if !Arc::ptr_eq(&self.gpu, &to.gpu) || self.bytes() != to.bytes() {
            return Err(Error::WrongDevice);
        }
        to.settle()?;
        let clock = Clock::start(&self.gpu)?;
        self.copy(to)?;
        clock.stop()
    }

    /// Copies the elements, in the order of the stream.
    pub(super) fn copy(&self, to: &DeviceArray) -> Result<(), Error> {
        let (Some(to), Some(from)) = (to.address(), self.address()) else {
            // One of them is a number of the host, and that is never `to`.
            let number = self.download()?;
            return to.address().map_or(Ok(()), |to| self.gpu.upload(to, number.bytes()));
        };
        // SAFETY: the callers ensure that both have the same length. Freeing either before the copy
        // is done is fine, because the free is ordered after the copy on the stream.
        unsafe { result::memcpy_dtod_async(to, from, self.bytes(), self.gpu.stream) }.map_err(self.gpu.failed("copy"))
    }
}

/// The best bandwidth of a device's memory, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Reading and writing together, by the driver's own copy.
    pub copy: f64,
    /// Reading alone.
    pub read: f64,
}

/// The measurement: arrays of `CEILING` bytes, and the median of `ROUNDS` rounds of `RUNS` runs.
const CEILING: usize = 1 << 30;
const ROUNDS: usize = 7;
const RUNS: u32 = 6;

impl Ceilings {
    /// Measures the ceilings. It takes a few hundredths of a second and 2 GiB of the device's
    /// memory.
    pub fn measure(gpu: &Arc<Gpu>) -> Result<Ceilings, Error> {
        let [from, to] =
            [DeviceArray::zeros(gpu, Dtype::U8, &[CEILING])?, DeviceArray::zeros(gpu, Dtype::U8, &[CEILING])?];
        let copy = median(gpu, || from.copy(&to))?;
        let mut reader = gpu.load(None);
        ptx::Device::prepare(&mut reader, &BTreeSet::from(["read"]), include_str!("read.ptx"))?;
        let blocks = u32::try_from(gpu.facts().multiprocessors * 4).unwrap_or(1);
        let [at, to] = [&from, &to].map(|array| array.address().unwrap_or_default());
        let arguments = [at, CEILING as u64 / 16, to].into_iter().flat_map(u64::to_le_bytes).collect();
        let launch =
            ptx::Launch { kernel: "read", blocks, threads: 512, shared: 0, arguments, maps: vec![], accesses: vec![] };
        let read = median(gpu, || ptx::Device::launch(&mut reader, &launch))?;
        Ok(Ceilings { copy: 2.0 * CEILING as f64 / copy.as_secs_f64(), read: CEILING as f64 / read.as_secs_f64() })
    }
}

/// The median time of one run. Each round times several runs back to back, to hide the launch
/// overhead.
fn median(gpu: &Gpu, mut run: impl FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
    run()?;
    let mut times = vec![];
    for _ in 0..ROUNDS {
        let clock = Clock::start(gpu)?;
        for _ in 0..RUNS {
            run()?;
        }
        times.push(clock.stop()? / RUNS);
    }
    times.sort_unstable();
    Ok(times[ROUNDS / 2].max(Duration::from_nanos(1)))
}
