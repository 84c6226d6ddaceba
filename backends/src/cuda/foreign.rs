//! Memory and streams of other libraries in the same process. They use the device's primary
//! context, as [`Gpu`] does, so that addresses and streams mean the same to all.

use std::ffi::c_void;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUpointer_attribute as Attribute};

use super::error::Error;
use super::gpu::Gpu;

/// The legacy default stream and that of the calling thread, as numbers for a stream. Every other
/// number is an address.
const LEGACY: usize = 1;
const OF_THREAD: usize = 2;

impl Gpu {
    /// The stream on which all calls run, as other libraries take it.
    pub fn stream(&self) -> usize {
        self.stream.addr()
    }

    /// Lets later calls wait for the work that `stream` has now.
    ///
    /// # Safety
    ///
    /// `stream` is a stream of this device's primary context that exists, or 0, 1 or 2 for its
    /// default streams.
    ///
    /// # Errors
    ///
    /// [`Error`] if the device has failed.
    pub unsafe fn follow(&self, stream: usize) -> Result<(), Error> {
        // SAFETY: as the caller guarantees; our stream lives as long as the device.
        unsafe { self.order(handle(stream), self.stream) }
    }

    /// Lets later work of `stream` wait for the calls so far.
    ///
    /// # Safety
    ///
    /// As for [`Gpu::follow`].
    ///
    /// # Errors
    ///
    /// [`Error`] if the device has failed.
    pub unsafe fn precede(&self, stream: usize) -> Result<(), Error> {
        // SAFETY: as the caller guarantees; our stream lives as long as the device.
        unsafe { self.order(self.stream, handle(stream)) }
    }

    /// Lets `second` wait for the work that `first` has now.
    ///
    /// # Safety
    ///
    /// Both are streams of the context.
    unsafe fn order(&self, first: sys::CUstream, second: sys::CUstream) -> Result<(), Error> {
        if first == second {
            return Ok(());
        }
        self.enter()?;
        let failed = || self.failed("order streams");
        let mut event = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: it writes a handle.
        unsafe { sys::cuEventCreate(&raw mut event, flags) }.result().map_err(failed())?;
        // SAFETY: the event was just made, and the streams exist. The driver keeps an event that is
        // destroyed until nothing waits for it.
        unsafe {
            let recorded = sys::cuEventRecord(event, first).result();
            let waits = recorded.and_then(|()| sys::cuStreamWaitEvent(second, event, 0).result());
            _ = sys::cuEventDestroy_v2(event);
            waits.map_err(failed())
        }
    }

    /// Lets later calls, and what is freed from now on, come after all work that a stream was
    /// given, also where that stream is no longer there.
    ///
    /// # Errors
    ///
    /// [`Error`] if the device has failed.
    pub fn follow_former(&self, stream: usize) -> Result<(), Error> {
        match stream {
            // SAFETY: the default streams are always there.
            0..=OF_THREAD => unsafe { self.follow(stream) },
            own if own == self.stream() => Ok(()),
            _ => {
                self.enter()?;
                result::ctx::synchronize().map_err(self.failed("wait for other streams"))
            }
        }
    }

    /// Checks that an address is in memory of this device.
    pub(super) fn look_for(&self, address: u64) -> Result<(), Error> {
        self.enter()?;
        let (mut kind, mut number) = (0u32, -1i32);
        // SAFETY: the driver writes a number of 32 bits for either attribute. It takes any address.
        let (found, placed) = unsafe {
            let ask = |to: *mut c_void, attribute| sys::cuPointerGetAttribute(to, attribute, address).result();
            (
                ask((&raw mut kind).cast(), Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
                ask((&raw mut number).cast(), Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
            )
        };
        let device = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as u32;
        match (found, placed) {
            (Ok(()), Ok(())) if kind != device => Err(Error::NotThere(address)),
            (Ok(()), Ok(())) if number != self.facts().number => Err(Error::WrongDevice),
            (Ok(()), Ok(())) => Ok(()),
            _ => Err(Error::NotThere(address)),
        }
    }
}

/// A stream by its number. Zero stands for the legacy default stream.
fn handle(stream: usize) -> sys::CUstream {
    std::ptr::with_exposed_provenance_mut(if stream == 0 { LEGACY } else { stream })
}
