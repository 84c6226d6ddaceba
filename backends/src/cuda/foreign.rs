//! Memory and streams of other libraries in the same process. They use the device's primary
//! context, as [`Gpu`] does, so that addresses and streams mean the same to all.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::PoisonError;

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
        // A stream waits for the latest record at the time when it is told to, so one event serves
        // all, as long as no other thread records it in between.
        let event = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the event lives as long as the device, and the streams exist.
        let waits = unsafe {
            let recorded = sys::cuEventRecord(event.0, first).result();
            recorded.and_then(|()| sys::cuStreamWaitEvent(second, event.0, 0).result())
        };
        waits.map_err(self.failed("order streams"))
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

    /// Checks that the first and the last of some bytes are in memory of this device.
    pub(super) fn look_for(&self, address: u64, bytes: usize) -> Result<(), Error> {
        let Some(last) = (bytes as u64).checked_sub(1) else { return Ok(()) };
        let last = address.checked_add(last).ok_or(Error::NotThere(address))?;
        self.enter()?;
        // Mostly both are in the same allocation.
        let rest = self.look_at(address)?;
        if rest.contains(&last) { Ok(()) } else { self.look_at(last).map(drop) }
    }

    /// The addresses of the allocation of this device that has this one, as far as the driver tells
    /// them.
    fn look_at(&self, address: u64) -> Result<Range<u64>, Error> {
        let (mut kind, mut number, mut start, mut length) = (0u32, -1i32, 0u64, 0usize);
        let mut attributes = [
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        ];
        let mut to: [*mut c_void; 4] =
            [(&raw mut kind).cast(), (&raw mut number).cast(), (&raw mut start).cast(), (&raw mut length).cast()];
        // SAFETY: there are four attributes, and the driver writes 32 bits for each of the first
        // two, and 64 for each of the others. It takes any address.
        let asked = unsafe { sys::cuPointerGetAttributes(4, attributes.as_mut_ptr(), to.as_mut_ptr(), address) };
        match asked.result() {
            Ok(()) if kind != sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 => Err(Error::NotThere(address)),
            Ok(()) if number != self.facts().number => Err(Error::WrongDevice),
            Ok(()) => Ok(start..start.saturating_add(length as u64)),
            Err(_) => Err(Error::NotThere(address)),
        }
    }
}

/// A stream by its number. Zero stands for the legacy default stream.
fn handle(stream: usize) -> sys::CUstream {
    std::ptr::with_exposed_provenance_mut(if stream == 0 { LEGACY } else { stream })
}
