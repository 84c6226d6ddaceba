//! Arrays in a device's memory, and programs loaded on a device. A program takes either host
//! arrays, which are copied to the device and back, or arrays that are already in its memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cudarc::driver::result;

use ir::array::{Array, ArrayMut, ArrayRef, byte_len};
use ir::bind::Given;
use ir::nest::SymbolSource;
use ir::sched::Scheduled;
use ir::{Dtype, Scalar};

use super::cache::Cache;
use super::clock::Clock;
use super::error::Error;
use super::gpu::Gpu;
use super::loaded::{Loaded, Recording};
use crate::error::CompileError;
use crate::ptx::{self, Phases, Resident, ResidentCall, RunError, Runner};

/// Kernels need arrays that begin at multiples of these bytes. Those that we allocate do; views
/// of other libraries' arrays begin anywhere.
const ALIGN: u64 = 16;

/// An array in a device's memory. Work on it is asynchronous: calls that read or write it may still
/// be queued on the stream.
pub struct DeviceArray {
    pub(super) gpu: Arc<Gpu>,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: usize,
    memory: Memory,
}

/// Where the elements of an array are.
enum Memory {
    /// At this address of the device, allocated for the array.
    Own(u64),
    /// There, but somebody else owns it.
    Lent(u64),
    /// The host has this one element, and a call copies it to the device.
    Host(Scalar),
}

impl DeviceArray {
    /// A number of the host. It takes no memory of the device: a call copies it to its own, unless
    /// the last call of the same program had the same number there.
    pub fn scalar(gpu: &Arc<Gpu>, value: Scalar) -> DeviceArray {
        let bytes = value.dtype().bytes();
        DeviceArray { gpu: Arc::clone(gpu), dtype: value.dtype(), shape: vec![], bytes, memory: Memory::Host(value) }
    }

    /// An array in memory of the device that somebody else owns. Dropping it frees nothing. The
    /// driver is asked whether there is such memory, as far as it knows the memory's limits.
    ///
    /// # Safety
    ///
    /// The elements are row-major from `address` on, and the memory stays allocated until all calls
    /// that were given the array are done on the device. Nobody else writes to them meanwhile, or
    /// reads them if they are results ([`Gpu::follow`] and [`Gpu::precede`] order other streams
    /// with the calls). Each byte of a `bool` array is 0 or 1.
    ///
    /// `address` may be any multiple of an element's size. Arrays that do not begin at a multiple
    /// of 16 bytes are copied for each call, which takes as much memory again.
    ///
    /// # Errors
    ///
    /// [`Error::NotThere`] if the device has no memory there, [`Error::WrongDevice`] if it is
    /// another device's, or the error of a device that failed.
    pub unsafe fn lent(gpu: &Arc<Gpu>, dtype: Dtype, shape: &[usize], address: u64) -> Result<DeviceArray, Error> {
        let bytes = byte_len(dtype, shape).map_err(|_| Error::OutOfMemory(usize::MAX))?;
        gpu.look_for(address, bytes)?;
        Ok(DeviceArray { gpu: Arc::clone(gpu), dtype, shape: shape.to_vec(), bytes, memory: Memory::Lent(address) })
    }

    /// The device whose memory it is in.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The address of its first element in the device's memory; `None` for a number of the host.
    pub fn address(&self) -> Option<u64> {
        match self.memory {
            Memory::Own(address) | Memory::Lent(address) => Some(address),
            Memory::Host(_) => None,
        }
    }

    /// Gives a number of the host memory of the device, to be written to.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        if self.address().is_none() {
            self.memory = Memory::Own(self.gpu.allocate(self.bytes)?);
        }
        Ok(())
    }

    /// Whether kernels can use it where it is.
    fn is_aligned(&self) -> bool {
        self.address().is_none_or(|address| address.is_multiple_of(ALIGN))
    }

    /// If kernels cannot use it where it is, an array like it somewhere else. It may be dropped
    /// after the calls that use it, since memory is freed in the order of the stream.
    fn elsewhere(&self) -> Result<Option<DeviceArray>, Error> {
        if self.is_aligned() {
            return Ok(None);
        }
        Ok(Some(DeviceArray::allocate(&self.gpu, self.dtype, &self.shape)?.0))
    }

    /// An array of zeros.
    ///
    /// # Errors
    ///
    /// [`Error`] if the device has no memory for it, or has failed.
    pub fn zeros(gpu: &Arc<Gpu>, dtype: Dtype, shape: &[usize]) -> Result<DeviceArray, Error> {
        let (array, address) = DeviceArray::allocate(gpu, dtype, shape)?;
        // SAFETY: the array has that many bytes.
        unsafe { result::memset_d8_async(address, 0, array.bytes, gpu.stream) }.map_err(gpu.failed("clear memory"))?;
        Ok(array)
    }

    /// A copy of an array of the host.
    ///
    /// # Errors
    ///
    /// [`Error`] if the device has no memory for it, or has failed.
    pub fn upload(gpu: &Arc<Gpu>, from: ArrayRef<'_>) -> Result<DeviceArray, Error> {
        let (array, address) = DeviceArray::allocate(gpu, from.dtype(), from.shape())?;
        // The copy is asynchronous. Wait for it, because the caller may overwrite `from`
        // afterwards.
        gpu.upload(address, from.bytes())?;
        gpu.wait()?;
        Ok(array)
    }

    /// An array for results, with unspecified elements; `bool` arrays are all `false`, since other
    /// bytes would be invalid.
    ///
    /// # Errors
    ///
    /// [`Error`] if the device has no memory for it, or has failed.
    pub fn new(gpu: &Arc<Gpu>, dtype: Dtype, shape: &[usize]) -> Result<DeviceArray, Error> {
        match dtype {
            Dtype::Bool => DeviceArray::zeros(gpu, dtype, shape),
            _ => DeviceArray::allocate(gpu, dtype, shape).map(|(array, _)| array),
        }
    }

    /// An array in memory of its own, with the address.
    fn allocate(gpu: &Arc<Gpu>, dtype: Dtype, shape: &[usize]) -> Result<(DeviceArray, u64), Error> {
        let bytes = byte_len(dtype, shape).map_err(|_| Error::OutOfMemory(usize::MAX))?;
        let address = gpu.allocate(bytes)?;
        let memory = Memory::Own(address);
        Ok((DeviceArray { gpu: Arc::clone(gpu), dtype, shape: shape.to_vec(), bytes, memory }, address))
    }

    /// Copies it to the host, when all calls are done.
    ///
    /// # Errors
    ///
    /// [`Error`] if the host has no memory for it, or the device has failed.
    pub fn download(&self) -> Result<Array, Error> {
        let address = match self.memory {
            Memory::Own(address) | Memory::Lent(address) => address,
            Memory::Host(value) => return Ok(Array::scalar(value)),
        };
        let array = Array::zeros_in(self.dtype, &self.shape, crate::zeroed_words);
        let mut array = array.map_err(|_| Error::HostMemory(self.bytes))?;
        self.gpu.download(address, array.bytes_mut())?;
        Ok(array)
    }

    /// The type of its elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The lengths of its axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The bytes that its elements take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The array as programs take it. Downloads the element of an integer scalar if `fetch` is set,
    /// because a size parameter must be known on the host before the launch.
    fn resident(&self, fetch: bool) -> Result<Resident<'_>, Error> {
        let scalar = match self.memory {
            Memory::Host(value) => Some(value),
            Memory::Own(address) | Memory::Lent(address)
                if fetch && self.shape.is_empty() && !self.dtype.is_float() =>
            {
                let mut word = [0; 8];
                let width = self.dtype.bytes();
                self.gpu.download(address, &mut word[..width])?;
                Some(Scalar::from_bits(self.dtype, u64::from_le_bytes(word)))
            }
            Memory::Own(_) | Memory::Lent(_) => None,
        };
        Ok(Resident { dtype: self.dtype, shape: &self.shape, address: self.address(), scalar })
    }
}

impl Given for DeviceArray {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn scalar(&self) -> Option<Scalar> {
        self.resident(true).ok()?.scalar
    }
}

impl Drop for DeviceArray {
    fn drop(&mut self) {
        if let Memory::Own(address) = self.memory {
            self.gpu.free(address);
        }
    }
}

impl fmt::Debug for DeviceArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?} on {}", self.dtype, self.shape, self.gpu.facts().name)
    }
}

/// Why a call on a device gave no results.
pub type Failure = RunError<Error>;

/// Why a program is not on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// It is beyond what can be compiled.
    Compile(CompileError),
    /// The device failed.
    Device(Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Compile(error) => error.fmt(f),
            LoadError::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

/// A program loaded on a device. It runs one call at a time; other callers wait on the mutex.
pub struct Module {
    gpu: Arc<Gpu>,
    runner: Mutex<Runner<Loaded>>,
    /// Whether some size is a scalar parameter.
    scalars: bool,
}

/// Recorded calls of a program on arrays in the device's memory, which can be replayed. It keeps
/// the arrays alive, because the recording refers to their addresses.
pub struct Replay<'m> {
    module: &'m Module,
    recording: Option<Recording>,
    /// Device memory for the temporaries of the calls.
    own: Vec<u64>,
    _arrays: Vec<(Vec<DeviceArray>, Vec<DeviceArray>)>,
}

impl Gpu {
    /// Prepares this device to run a program. Assembled kernels are kept in `cache`, if one is
    /// given.
    pub fn load(self: &Arc<Gpu>, cache: Option<&Cache>) -> Loaded {
        Loaded::new(self, cache)
    }
}

impl Module {
    /// Compiles a program that is scheduled for [`Machine::PTX`](ir::sched::Machine::PTX). Kernels
    /// are assembled lazily, when a call first needs them. No call allocates more than `limit`
    /// bytes of the device's memory.
    pub fn new(
        gpu: &Arc<Gpu>,
        scheduled: &Scheduled,
        math: ptx::Math,
        limit: Option<usize>,
        cache: Option<&Cache>,
    ) -> Result<Module, LoadError> {
        let module = ptx::Module::compile_with(scheduled, math).map_err(LoadError::Compile)?;
        let loaded = gpu.load(cache);
        let scalars =
            scheduled.program.symbols.values().any(|symbol| matches!(symbol.source, SymbolSource::Scalar { .. }));
        Ok(Module { gpu: Arc::clone(gpu), runner: Mutex::new(Runner::new(module, loaded, limit)), scalars })
    }

    fn runner(&self) -> MutexGuard<'_, Runner<Loaded>> {
        self.runner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Calls the program on arrays of the host.
    pub fn run(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        phases: Option<&mut Phases>,
    ) -> Result<(), Failure> {
        self.runner().call(inputs, outputs, phases)
    }

    fn residents<'a>(&self, arrays: impl IntoIterator<Item = &'a DeviceArray>) -> Result<Vec<Resident<'a>>, Failure> {
        arrays.into_iter().map(|array| array.resident(self.scalars).map_err(RunError::Device)).collect()
    }

    /// The shapes of the results for these inputs.
    pub fn output_shapes(&self, inputs: &[&DeviceArray]) -> Result<Vec<Vec<usize>>, Failure> {
        let residents = self.residents(inputs.iter().copied())?;
        Ok(self.runner().output_shapes(&residents)?)
    }

    /// Calls the program on arrays in the device's memory. Returns without waiting for the result.
    pub fn enqueue(&self, inputs: &[&DeviceArray], outputs: &mut [&mut DeviceArray]) -> Result<(), Failure> {
        self.call(inputs, outputs, |runner, inputs, outputs| runner.enqueue(inputs, outputs))
    }

    fn call(
        &self,
        inputs: &[&DeviceArray],
        outputs: &mut [&mut DeviceArray],
        call: impl FnOnce(&mut Runner<Loaded>, &[Resident<'_>], &[Resident<'_>]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.own(inputs.iter().copied().chain(outputs.iter().map(|output| &**output)))?;
        outputs.iter_mut().try_for_each(|output| output.settle())?;
        let mut copies = vec![];
        for input in inputs {
            let copy = input.elsewhere()?;
            copy.iter().try_for_each(|copy| input.copy(copy))?;
            copies.push(copy);
        }
        let results = outputs.iter().map(|output| output.elsewhere()).collect::<Result<Vec<_>, Error>>()?;
        let inputs = inputs.iter().zip(&copies).map(|(input, copy)| copy.as_ref().unwrap_or(input));
        let inputs = self.residents(inputs)?;
        let written = outputs.iter().zip(&results).map(|(output, copy)| copy.as_ref().unwrap_or(output));
        let written = self.residents(written)?;
        call(&mut self.runner(), &inputs, &written)?;
        for (output, result) in outputs.iter().zip(&results) {
            result.iter().try_for_each(|result| result.copy(output))?;
        }
        Ok(())
    }

    /// Calls the program on arrays in the device's memory and waits for it. Adds each kernel's
    /// duration to its entry in `times`.
    pub fn run_timed(
        &self,
        inputs: &[&DeviceArray],
        outputs: &mut [&mut DeviceArray],
        times: &mut [Duration],
    ) -> Result<(), Failure> {
        self.call(inputs, outputs, |runner, inputs, outputs| runner.call_timed(inputs, outputs, times))
    }

    /// How long a call on these arrays takes, when it is repeated `times` times as a recording:
    /// kernels may run at the same time. `None` if data tells how many launches there are.
    pub fn repeated(
        &self,
        inputs: &[&DeviceArray],
        outputs: &mut [&mut DeviceArray],
        times: u32,
    ) -> Result<Option<Duration>, Failure> {
        let mut taken = None;
        self.call(inputs, outputs, |runner, inputs, outputs| {
            let (recording, own) = runner.record(&[(inputs.to_vec(), outputs.to_vec())])?;
            let repeat = |runner: &mut Runner<Loaded>, recording: &Recording| {
                // The first one is not counted: the driver prepares it.
                runner.replay(recording)?;
                let clock = Clock::start(&self.gpu)?;
                (0..times).try_for_each(|_| runner.replay(recording))?;
                clock.stop()
            };
            let repeated = recording.map(|recording| repeat(runner, &recording)).transpose();
            own.iter().for_each(|address| self.gpu.free(*address));
            taken = repeated?.map(|taken| taken / times.max(1));
            Ok(())
        })?;
        Ok(taken)
    }

    /// Checks that all arrays are in this device's memory.
    fn own<'a>(&self, mut arrays: impl Iterator<Item = &'a DeviceArray>) -> Result<(), Failure> {
        match arrays.all(|array| Arc::ptr_eq(&array.gpu, &self.gpu)) {
            true => Ok(()),
            false => Err(RunError::Device(Error::WrongDevice)),
        }
    }

    /// Records calls that are replayed together. All have the same sizes; each has its own inputs
    /// and results.
    pub fn record(&self, mut calls: Vec<(Vec<DeviceArray>, Vec<DeviceArray>)>) -> Result<Replay<'_>, Failure> {
        calls.iter_mut().flat_map(|(_, outputs)| outputs).try_for_each(DeviceArray::settle)?;
        let mut residents: Vec<ResidentCall<'_>> = vec![];
        for (inputs, outputs) in &calls {
            // A replay reads and writes where the arrays are, so none can be elsewhere.
            if let Some(array) = inputs.iter().chain(outputs).find(|array| !array.is_aligned()) {
                return Err(RunError::Device(Error::NotAligned(array.address().unwrap_or_default())));
            }
            self.own(inputs.iter().chain(outputs))?;
            residents.push((self.residents(inputs)?, self.residents(outputs)?));
        }
        let (recording, own) = self.runner().record(&residents)?;
        Ok(Replay { module: self, recording, own, _arrays: calls })
    }
}

impl Replay<'_> {
    /// Replays the calls `times` times and returns how long that took on the device.
    ///
    /// # Errors
    ///
    /// [`Error`] if the device has failed.
    pub fn time(&self, times: usize) -> Result<Duration, Error> {
        let mut runner = self.module.runner();
        let gpu = &self.module.gpu;
        let clock = Clock::start(gpu)?;
        for _ in 0..times {
            if let Some(recording) = &self.recording {
                runner.replay(recording)?;
            }
        }
        clock.stop()
    }
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        self.own.iter().for_each(|address| self.module.gpu.free(*address));
    }
}

impl From<CompileError> for LoadError {
    fn from(error: CompileError) -> LoadError {
        LoadError::Compile(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        RunError::Device(error)
    }
}
