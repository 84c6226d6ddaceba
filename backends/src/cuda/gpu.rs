//! A device with its context, a single stream, which orders all work, and the driver's memory pool.
//! A process opens each device once, because creating a context takes a tenth of a second.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUmemPool_attribute as PoolAttribute};

use super::code::Code;
use super::error::{Error, failed, is_fatal, words};
use super::transfer::Staging;
use crate::ptx;

/// A device with its context and a stream.
pub struct Gpu {
    context: sys::CUcontext,
    pub(super) stream: sys::CUstream,
    facts: Facts,
    /// The event that one stream waits for at another: see [`Gpu::follow`].
    pub(super) order: Mutex<Event>,
    pool: sys::CUmemoryPool,
    /// The properties that plans depend on.
    pub(super) limits: ptx::Facts,
    /// The error at which the context was lost.
    lost: OnceLock<String>,
    /// Loaded modules by their text.
    pub(super) codes: Mutex<BTreeMap<String, Weak<Code>>>,
    /// Pinned buffers that large transfers go through.
    pub(super) staging: Mutex<Staging>,
}

/// An event without a time.
pub(super) struct Event(pub(super) sys::CUevent);

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    /// An event of the current context, to which nothing was recorded.
    pub(super) fn new() -> Result<Event, DriverError> {
        let mut event = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: it writes a handle.
        unsafe { sys::cuEventCreate(&raw mut event, flags) }.result()?;
        Ok(Event(event))
    }
}

// SAFETY: the driver's handles may be used from any thread, and the context is made current before
// each use that requires one.
unsafe impl Send for Gpu {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Gpu {}

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its number.
    pub number: i32,
    /// Its name, as its maker gives it.
    pub name: String,
    /// Its compute capability.
    pub capability: (i32, i32),
    /// Bytes of its memory.
    pub memory: usize,
    /// Its multiprocessors.
    pub multiprocessors: i32,
    /// Bytes of its second-level cache.
    pub cache: i32,
    /// The CUDA version of the driver: 1000 times the major and 10 times the minor number.
    pub driver: i32,
}

/// The devices of this process. Each is initialized on first use and kept until the process ends,
/// with its context and stream.
static DEVICES: Mutex<BTreeMap<i32, Arc<Gpu>>> = Mutex::new(BTreeMap::new());

/// The number of devices.
fn count() -> Result<i32, Error> {
    // SAFETY: it tries to open the library, and its initializers are NVIDIA's.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::NoDriver);
    }
    result::init().map_err(|_| Error::NoDevice(0))?;
    result::device::get_count().map_err(|_| Error::NoDevice(0))
}

fn attribute(device: sys::CUdevice, attribute: Attribute) -> i32 {
    // SAFETY: the device is one that the driver gave.
    unsafe { result::device::get_attribute(device, attribute) }.unwrap_or_default()
}

impl Facts {
    /// The properties of all devices of this machine; empty if there is no driver.
    pub fn all() -> Vec<Facts> {
        (0..count().unwrap_or(0))
            .filter_map(|number| result::device::get(number).ok().map(|d| Facts::of(number, d)))
            .collect()
    }

    fn of(number: i32, device: sys::CUdevice) -> Facts {
        let mut driver = 0;
        // SAFETY: it writes a number. Where it fails, that stays 0.
        _ = unsafe { sys::cuDriverGetVersion(&raw mut driver) };
        Facts {
            number,
            name: result::device::get_name(device).unwrap_or_default(),
            capability: (
                attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            ),
            // SAFETY: the device is one that the driver gave.
            memory: unsafe { result::device::total_mem(device) }.unwrap_or_default(),
            multiprocessors: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            cache: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
            driver,
        }
    }
}

impl Gpu {
    /// Opens the device with this number. All callers in the process share it.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no driver or no such device, or if it failed earlier in this process.
    pub fn get(number: i32) -> Result<Arc<Gpu>, Error> {
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = devices.get(&number) {
            return Ok(Arc::clone(gpu));
        }
        let gpu = Arc::new(Gpu::new(number)?);
        devices.insert(number, Arc::clone(&gpu));
        Ok(gpu)
    }

    /// Whether the device with this number has already been opened.
    pub fn is_ready(number: i32) -> bool {
        DEVICES.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&number)
    }

    fn new(number: i32) -> Result<Gpu, Error> {
        if !(0..count()?).contains(&number) {
            return Err(Error::NoDevice(number));
        }
        let device = result::device::get(number).map_err(|_| Error::NoDevice(number))?;
        let facts = Facts::of(number, device);
        let (major, minor) = facts.capability;
        if major < 8 {
            return Err(Error::TooOld(major, minor));
        }
        // SAFETY: the device is one that the driver gave.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(failed("make a context"))?;
        // SAFETY: the context was just retained. If anything fails from here on it stays retained,
        // which is harmless: retaining it again only increments a count.
        unsafe { result::ctx::set_current(context) }.map_err(failed("use a context"))?;
        let stream =
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(failed("make a stream"))?;
        let order = Mutex::new(Event::new().map_err(failed("make an event"))?);
        let mut pool = std::ptr::null_mut();
        // SAFETY: the device is one that the driver gave.
        unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, device) }.result().map_err(failed("find its memory"))?;
        let mut keep = u64::MAX;
        // SAFETY: the attribute is a 64-bit number. The pool keeps freed memory, because getting it
        // from the system again would take milliseconds.
        unsafe {
            sys::cuMemPoolSetAttribute(pool, PoolAttribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, (&raw mut keep).cast())
        }
        .result()
        .map_err(failed("keep its memory"))?;
        let (codes, staging) = (Mutex::default(), Mutex::default());
        let clusters = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) != 0;
        let limits = ptx::Facts {
            shared: usize::try_from(attribute(
                device,
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            ))
            .unwrap_or(0),
            target: match facts.capability {
                (9, 0) if clusters => ptx::Target::Sm90a,
                (9.., _) if clusters => ptx::Target::Sm90,
                _ => ptx::Target::Sm80,
            },
            multiprocessors: u32::try_from(facts.multiprocessors).unwrap_or(1),
        };
        Ok(Gpu { context, stream, facts, order, pool, limits, lost: OnceLock::new(), codes, staging })
    }

    /// The properties of this device.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Makes the device's context current on this thread. Fails if the device was lost.
    pub(super) fn enter(&self) -> Result<(), Error> {
        if let Some(message) = self.lost.get() {
            return Err(Error::Lost(message.clone()));
        }
        // SAFETY: the context lives as long as this.
        unsafe { result::ctx::set_current(self.context) }.map_err(self.failed("use a context"))
    }

    /// Converts an error of the driver. Remembers a fatal one, after which the device counts as
    /// lost.
    pub(super) fn failed(&self, doing: &'static str) -> impl Fn(DriverError) -> Error {
        move |error| {
            if is_fatal(error) {
                _ = self.lost.set(words(error));
            }
            failed(doing)(error)
        }
    }

    /// The number of bytes that can be allocated: free memory of the device, and memory that the
    /// pool holds but nobody uses.
    pub(super) fn available(&self) -> Result<usize, Error> {
        self.enter()?;
        let (free, _) = result::mem_get_info().map_err(self.failed("count its memory"))?;
        let number = |attribute| {
            let mut number = 0u64;
            // SAFETY: the attribute is a number of 64 bits.
            _ = unsafe { sys::cuMemPoolGetAttribute(self.pool, attribute, (&raw mut number).cast()) };
            usize::try_from(number).unwrap_or(0)
        };
        let reserved = number(PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
        Ok(free + reserved.saturating_sub(number(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)))
    }

    pub(super) fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        self.enter()?;
        // SAFETY: the stream exists. The memory is uninitialized until kernels or copies write to
        // it; the host reads it only through copies by the driver.
        unsafe { result::malloc_async(self.stream, bytes.max(1)) }.map_err(|error| match error {
            DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => Error::OutOfMemory(bytes),
            other => self.failed("allocate memory")(other),
        })
    }

    pub(super) fn free(&self, address: u64) {
        if self.enter().is_ok() {
            // SAFETY: `allocate` returned the address, and its owner frees it once. The free is
            // ordered after all launches that access it, because they are on the same stream.
            _ = unsafe { result::free_async(address, self.stream) };
        }
    }

    /// Waits until all queued work is done.
    ///
    /// # Errors
    ///
    /// [`Error`] if the device has failed.
    pub fn wait(&self) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: the stream lives as long as the device.
        unsafe { result::stream::synchronize(self.stream) }.map_err(self.failed("run a kernel"))
    }
}
