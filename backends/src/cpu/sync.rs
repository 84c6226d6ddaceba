//! What threads synchronize by, from the standard library. `pool` and `baton` take it from here, and `model` compiles both a second time with
//! a model checker's in its place. So whatever these two share between threads, and whatever they ask of the clock, has to be named here.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread::yield_now;
pub(super) use std::time::Instant;

use std::cell;
use std::thread;

/// How often a thread looks for a job before it looks at the clock.
pub(super) const LOOKS: u32 = 32;
/// How often a thread looks whether it is its turn before it lets others have its processor.
pub(super) const PATIENCE: u32 = 500;

/// A value that threads share by rules of their own.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct UnsafeCell<T>(cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(super) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(cell::UnsafeCell::new(value))
    }

    /// Lends where the value is, to be read.
    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Lends where the value is, to be written.
    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Starts a thread that nobody waits for; `false` if the system makes none.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> bool {
    thread::Builder::new().name(name.to_owned()).spawn(run).is_ok()
}

/// How many threads can run at once.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The core that this thread runs on; negative if that is not to be known.
#[cfg(target_os = "linux")]
pub(super) fn core() -> i32 {
    // SAFETY: it takes nothing and touches nothing.
    unsafe { libc::sched_getcpu() }
}

/// The core that this thread runs on: not to be known.
#[cfg(not(target_os = "linux"))]
pub(super) fn core() -> i32 {
    -1
}
