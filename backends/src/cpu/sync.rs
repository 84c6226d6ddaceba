//! The synchronization primitives of `pool` and `carry`, from the standard library. `model`
//! compiles both modules a second time with those of a model checker, so everything that they share
//! between threads, and every use of the clock, must go through this module.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread::yield_now;
pub(super) use std::time::Instant;

use std::cell;
use std::sync::LazyLock;
use std::thread;

/// How often a thread polls for a job before it checks the clock.
pub(super) const LOOKS: u32 = 32;
/// How often a thread polls for its turn before it yields its processor.
pub(super) const PATIENCE: u32 = 500;

/// A value shared between threads. Its users ensure exclusive access themselves.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct UnsafeCell<T>(cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(super) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(cell::UnsafeCell::new(value))
    }

    /// Passes a pointer for reading.
    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Passes a pointer for writing.
    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Starts a detached thread; `false` if the system cannot create one.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> bool {
    thread::Builder::new().name(name.to_owned()).spawn(run).is_ok()
}

/// The number of threads that can run at once. It is cached, because the system reads several files
/// to find out.
pub fn cores() -> usize {
    static CORES: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));
    *CORES
}

/// The core that this thread runs on; negative if unknown.
#[cfg(target_os = "linux")]
pub(super) fn core() -> i32 {
    // SAFETY: it takes no arguments and accesses no memory.
    unsafe { libc::sched_getcpu() }
}

/// The core that this thread runs on: unknown.
#[cfg(not(target_os = "linux"))]
pub(super) fn core() -> i32 {
    -1
}
