//! NVIDIA's driver, through cudarc: the only room that knows it. A [`Gpu`] is a device with its context and one stream; a
//! [`Loaded`] module on it is what [`crate::ptx`] runs on.
//!
//! cudarc panics where the driver's library is missing, so that is asked first. Whatever else goes wrong comes back as an [`Error`].

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use crate::ptx::{Device, Module};

/// Why the device did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no driver.
    NoDriver,
    /// There is a driver, but no device of that number.
    NoDevice(i32),
    /// The device has no memory left for so many bytes.
    OutOfMemory(usize),
    /// The driver does not take a kernel: a bug of ours, with the driver's words.
    Rejected(String),
    /// The driver failed at something.
    Driver {
        /// What was asked of it.
        doing: &'static str,
        /// Its words.
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoDriver => f.write_str("there is no NVIDIA driver on this machine"),
            Error::NoDevice(number) => write!(f, "there is no CUDA device {number}"),
            Error::OutOfMemory(bytes) => write!(f, "the device has no memory for {bytes} bytes"),
            Error::Rejected(log) => write!(f, "the driver rejects a kernel: {log}"),
            Error::Driver { doing, message } => write!(f, "the driver failed to {doing}: {message}"),
        }
    }
}

impl std::error::Error for Error {}

fn failed(doing: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| Error::Driver { doing, message: format!("{error:?}") }
}

/// A device with its context and a stream.
pub struct Gpu {
    context: sys::CUcontext,
    stream: sys::CUstream,
    device: sys::CUdevice,
}

// SAFETY: the driver's handles may be used from any thread; the context is made current before each use.
unsafe impl Send for Gpu {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Gpu {}

/// Whether there is a driver.
fn has_driver() -> bool {
    // SAFETY: it tries to open the library, whose initialisers are NVIDIA's.
    unsafe { sys::is_culib_present() }
}

impl Gpu {
    /// The device of that number.
    pub fn new(number: i32) -> Result<Arc<Gpu>, Error> {
        if !has_driver() {
            return Err(Error::NoDriver);
        }
        result::init().map_err(|_| Error::NoDevice(number))?;
        if !(0..result::device::get_count().map_err(|_| Error::NoDevice(number))?).contains(&number) {
            return Err(Error::NoDevice(number));
        }
        let device = result::device::get(number).map_err(|_| Error::NoDevice(number))?;
        // SAFETY: the device is one that the driver gave.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(failed("make a context"))?;
        // SAFETY: the context was just made.
        unsafe { result::ctx::set_current(context) }.map_err(failed("use a context"))?;
        let stream =
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(failed("make a stream"))?;
        Ok(Arc::new(Gpu { context, stream, device }))
    }

    /// Its name, as its maker gives it.
    pub fn name(&self) -> String {
        result::device::get_name(self.device).unwrap_or_default()
    }

    fn enter(&self) -> Result<(), Error> {
        // SAFETY: the context lives as long as this.
        unsafe { result::ctx::set_current(self.context) }.map_err(failed("use a context"))
    }

    /// Loads a program's kernels.
    pub fn load(self: &Arc<Gpu>, module: &Module) -> Result<Loaded, Error> {
        self.enter()?;
        let text = CString::new(module.text()).map_err(|_| Error::Rejected("a zero byte".into()))?;
        let mut log = vec![0u8; 8192];
        let mut options =
            [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
        let mut handle = std::ptr::null_mut();
        // SAFETY: the text ends with a zero; as many options as values are given, of the types that the driver's reference says,
        // and the log lives through the call.
        let loaded = unsafe {
            sys::cuModuleLoadDataEx(&raw mut handle, text.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
        };
        if let Err(error) = loaded.result() {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            return Err(Error::Rejected(format!("{error:?}: {}", String::from_utf8_lossy(&log[..end]).trim())));
        }
        Ok(Loaded { gpu: Arc::clone(self), module: handle, functions: BTreeMap::new(), busy: Cell::new(false) })
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // What fails here cannot be mended.
        // SAFETY: nothing that uses the stream or the context is left: whoever does holds this.
        unsafe {
            _ = result::stream::destroy(self.stream);
            _ = result::primary_ctx::release(self.device);
        }
    }
}

/// A program's kernels on a device.
pub struct Loaded {
    gpu: Arc<Gpu>,
    module: sys::CUmodule,
    functions: BTreeMap<String, sys::CUfunction>,
    /// Whether something was launched that may not be done.
    busy: Cell<bool>,
}

// SAFETY: as for `Gpu`.
unsafe impl Send for Loaded {}

impl Loaded {
    fn function(&mut self, name: &str) -> Result<sys::CUfunction, Error> {
        if let Some(function) = self.functions.get(name) {
            return Ok(*function);
        }
        let symbol = CString::new(name).map_err(|_| Error::Rejected("a zero byte".into()))?;
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(self.module, symbol) }.map_err(failed("find a kernel"))?;
        self.functions.insert(name.to_owned(), function);
        Ok(function)
    }

    fn wait(&self) -> Result<(), Error> {
        if self.busy.replace(false) {
            // SAFETY: the stream lives as long as the device.
            unsafe { result::stream::synchronize(self.gpu.stream) }.map_err(failed("run a kernel"))?;
        }
        Ok(())
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        _ = self.wait();
        if self.gpu.enter().is_ok() {
            // SAFETY: it is loaded, and nothing of it runs.
            _ = unsafe { result::module::unload(self.module) };
        }
    }
}

impl Device for Loaded {
    type Error = Error;

    fn allocate(&mut self, bytes: usize) -> Result<u64, Error> {
        self.gpu.enter()?;
        // SAFETY: what is there before it is written is never taken for anything.
        unsafe { result::malloc_async(self.gpu.stream, bytes) }.map_err(|error| match error {
            DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => Error::OutOfMemory(bytes),
            other => failed("allocate memory")(other),
        })
    }

    fn free(&mut self, address: u64) {
        // SAFETY: it was allocated on this stream, behind whose launches it is freed.
        _ = unsafe { result::free_async(address, self.gpu.stream) };
    }

    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.busy.set(true);
        // SAFETY: the memory is as long; the driver has copied pageable memory before it returns.
        unsafe { result::memcpy_htod_async(to, bytes, self.gpu.stream) }.map_err(failed("copy to the device"))
    }

    fn download(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.wait()?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the memory is as long, and the copy is waited for.
        unsafe { result::memcpy_dtoh_async(bytes, from, self.gpu.stream) }.map_err(failed("copy from the device"))?;
        self.busy.set(true);
        self.wait()
    }

    fn launch(&mut self, kernel: &str, blocks: u32, threads: u32, arguments: &[u8]) -> Result<(), Error> {
        let function = self.function(kernel)?;
        self.busy.set(true);
        let mut parameters = [arguments.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the function takes one parameter, of as many bytes; the driver copies it before it returns. What its code accesses was
        // allocated for it: the promise of verified programs.
        unsafe { result::launch_kernel(function, (blocks, 1, 1), (threads, 1, 1), 0, self.gpu.stream, &mut parameters) }
            .map_err(failed("launch a kernel"))
    }
}
