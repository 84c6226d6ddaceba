//! Transfers of arrays from and to the device. The driver copies pageable memory through a buffer
//! of its own on one thread, at a fraction of the bus bandwidth. So large arrays go through pinned
//! staging buffers in pieces: while some pieces are in flight, several threads copy others from or
//! to the caller's memory.

use std::sync::{MutexGuard, PoisonError};

use cudarc::driver::result;
use cudarc::driver::sys;

use super::error::Error;
use super::gpu::Gpu;

/// The size of a piece in bytes.
const PIECE: usize = 4 << 20;
/// The number of threads that copy, and the number of staging buffers of each: two, so that one is
/// filled while the other is in flight.
const THREADS: usize = 4;
const PIECES: usize = 2;
/// Transfers of at least this many bytes go through the staging buffers.
const LARGE: usize = 8 << 20;

/// Pinned staging buffers, allocated for the first large transfer.
#[derive(Default)]
pub(super) struct Staging {
    slots: Vec<Slot>,
}

/// A staging buffer for one piece, always initialized.
struct Slot {
    memory: *mut u8,
    /// Completed when the last copy from or to the memory is done.
    free: sys::CUevent,
}

// SAFETY: the memory is the slot's alone, and the driver's handles may be used from any thread.
unsafe impl Send for Slot {}

impl Slot {
    fn new() -> Result<Slot, Error> {
        // SAFETY: it allocates memory in the context that `Gpu::enter` has made current.
        let memory = unsafe { result::malloc_host(PIECE, 0) }.map_err(super::error::failed("pin memory"))?;
        // SAFETY: `PIECE` bytes were just allocated. They are initialized because they are lent as
        // `u8`s.
        unsafe { memory.cast::<u8>().write_bytes(0, PIECE) };
        let mut free = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: it writes a handle. An event that nothing was recorded to counts as past.
        let made = unsafe { sys::cuEventCreate(&raw mut free, flags) }.result();
        let slot = Slot { memory: memory.cast(), free };
        made.map_err(super::error::failed("make an event"))?;
        Ok(slot)
    }

    fn wait(&self, gpu: &Gpu) -> Result<(), Error> {
        // SAFETY: the event is there.
        unsafe { sys::cuEventSynchronize(self.free) }.result().map_err(gpu.failed("copy"))
    }

    fn mark(&self, gpu: &Gpu) -> Result<(), Error> {
        // SAFETY: the event and the stream are there.
        unsafe { sys::cuEventRecord(self.free, gpu.stream) }.result().map_err(gpu.failed("copy"))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: this slot owns both, and no copy from or to its memory is in flight: a transfer
        // that uses a slot waits for all copies before it ends (`Gpu::share`), or the context is
        // lost and copies nothing any more.
        unsafe {
            if !self.free.is_null() {
                _ = sys::cuEventDestroy_v2(self.free);
            }
            _ = result::free_host(self.memory.cast());
        }
    }
}

impl Gpu {
    fn staging(&self) -> Result<MutexGuard<'_, Staging>, Error> {
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        while staging.slots.len() < THREADS * PIECES {
            staging.slots.push(Slot::new()?);
        }
        Ok(staging)
    }

    /// Copies bytes to the device, ordered after earlier launches. Memory that the caller has
    /// pinned may be read until the stream is next synchronized, so a caller must do that before it
    /// ends its borrow.
    pub(super) fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        self.enter()?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() < LARGE {
            // SAFETY: the device's memory has that many bytes. The driver reads pageable memory
            // before it returns, and pinned memory while this function's callers still borrow it,
            // see above.
            return unsafe { result::memcpy_htod_async(to, bytes, self.stream) }
                .map_err(self.failed("copy to the device"));
        }
        let mut staging = self.staging()?;
        let pieces: Vec<(u64, &[u8])> =
            bytes.chunks(PIECE).enumerate().map(|(n, piece)| (to + (n * PIECE) as u64, piece)).collect();
        self.share(&mut staging, pieces, |slots, pieces| {
            for (n, (to, piece)) in pieces.into_iter().enumerate() {
                let slot = &slots[n % PIECES];
                slot.wait(self)?;
                // SAFETY: the slot has room for a piece, and its last copy is done, so only this
                // thread uses it.
                let copy = unsafe { std::slice::from_raw_parts_mut(slot.memory, piece.len()) };
                copy.copy_from_slice(piece);
                // SAFETY: the device's memory has that many bytes, and nothing writes to the slot
                // before the event after this copy has completed; if recording the event failed,
                // `share` synchronizes the stream.
                unsafe { result::memcpy_htod_async(to, copy, self.stream) }
                    .map_err(self.failed("copy to the device"))?;
                slot.mark(self)?;
            }
            slots.iter().try_for_each(|slot| slot.wait(self))
        })
    }

    /// Copies bytes from the device, ordered after earlier launches, and waits.
    pub(super) fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.enter()?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() < LARGE {
            // SAFETY: both have the same length. The copy is waited for; if the wait fails the
            // context is lost, and copies nothing any more.
            unsafe { result::memcpy_dtoh_async(bytes, from, self.stream) }
                .map_err(self.failed("copy from the device"))?;
            return self.wait();
        }
        let mut staging = self.staging()?;
        let pieces: Vec<(u64, &mut [u8])> =
            bytes.chunks_mut(PIECE).enumerate().map(|(n, piece)| (from + (n * PIECE) as u64, piece)).collect();
        self.share(&mut staging, pieces, |slots, pieces| {
            let mut under_way: std::collections::VecDeque<(usize, &mut [u8])> = Default::default();
            let arrive = |(n, piece): (usize, &mut [u8])| {
                let slot = &slots[n % PIECES];
                slot.wait(self)?;
                // SAFETY: the slot has room for a piece, and the copy into it is done.
                piece.copy_from_slice(unsafe { std::slice::from_raw_parts(slot.memory, piece.len()) });
                Ok(())
            };
            for (n, (from, piece)) in pieces.into_iter().enumerate() {
                // With all staging buffers in flight, the oldest piece must leave its own first.
                if under_way.len() == PIECES
                    && let Some(first) = under_way.pop_front()
                {
                    arrive(first)?;
                }
                let slot = &slots[n % PIECES];
                // SAFETY: the slot has room for a piece, and its last content has been read, so
                // only this thread uses it.
                let room = unsafe { std::slice::from_raw_parts_mut(slot.memory, piece.len()) };
                // SAFETY: the device's memory has that many bytes, and nothing reads the slot
                // before the event after this copy has completed; if recording the event failed,
                // `share` synchronizes the stream.
                unsafe { result::memcpy_dtoh_async(room, from, self.stream) }
                    .map_err(self.failed("copy from the device"))?;
                slot.mark(self)?;
                under_way.push_back((n, piece));
            }
            under_way.into_iter().try_for_each(arrive)
        })
    }

    /// Has several threads each transfer every [`THREADS`]th piece, with slots of their own. No
    /// copy is in flight when this returns.
    fn share<T: Send>(
        &self,
        staging: &mut Staging,
        pieces: Vec<(u64, T)>,
        work: impl Fn(&[Slot], Vec<(u64, T)>) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let mut shares: Vec<Vec<(u64, T)>> = (0..THREADS).map(|_| vec![]).collect();
        for (n, piece) in pieces.into_iter().enumerate() {
            shares[n % THREADS].push(piece);
        }
        let work = &work;
        let done = std::thread::scope(|scope| {
            let mut threads = vec![];
            for (slots, share) in staging.slots.chunks_mut(PIECES).zip(shares) {
                let help = move || {
                    self.enter()?;
                    work(slots, share)
                };
                let made = std::thread::Builder::new().spawn_scoped(scope, help);
                threads.push(made.map_err(|error| Error::Threads(error.kind().to_string())));
            }
            threads.into_iter().map(|made| made.map(std::thread::ScopedJoinHandle::join)).collect::<Vec<_>>()
        });
        if !done.iter().all(|end| matches!(end, Ok(Ok(Ok(()))))) {
            // Other transfers will reuse the staging buffers, so no copy may be in flight.
            _ = self.wait();
        }
        done.into_iter().try_for_each(|end| end?.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}
