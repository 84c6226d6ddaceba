//! Loom's versions of the names of `super::super::sync`: atomics, locks and cells, with exploration
//! of all interleavings, and a clock on which every wait has already timed out, so that threads go
//! on to what follows a wait. Threads that are asleep when a test is over are ended.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

pub(super) use loom::cell::UnsafeCell;
pub(super) use loom::hint::spin_loop;
pub(super) use loom::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};
pub(super) use loom::sync::{Mutex, MutexGuard};
pub(super) use loom::thread::yield_now;

/// Each iteration of a spin loop is a step to explore, and one covers the same cases as many.
pub(super) const LOOKS: u32 = 1;
pub(super) const PATIENCE: u32 = 1;

thread_local! {
    /// The threads of the pool. Loom runs all threads of a test on one system thread.
    static WORKERS: RefCell<Vec<loom::thread::JoinHandle<()>>> = const { RefCell::new(vec![]) };
}

/// The panic payload that unwinds a thread that is asleep when the test is over.
struct Over;

pub(super) fn spawn(_: &str, run: impl FnOnce() + Send + 'static) -> bool {
    let worker = loom::thread::spawn(|| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run))
            && !panic.is::<Over>()
        {
            resume_unwind(panic);
        }
    });
    WORKERS.with_borrow_mut(|workers| workers.push(worker));
    true
}

/// Joins the threads of the pool.
pub(super) fn join() {
    for worker in WORKERS.take() {
        worker.join().unwrap();
    }
}

pub(super) fn cores() -> usize {
    usize::MAX
}

pub(super) fn core() -> i32 {
    -1
}

/// A moment long past.
#[derive(Clone, Copy)]
pub(super) struct Instant;

impl Instant {
    pub(super) fn now() -> Instant {
        Instant
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as of the clock whose place it takes")]
    pub(super) fn elapsed(&self) -> Duration {
        Duration::MAX
    }
}

pub(super) struct Condvar {
    inner: loom::sync::Condvar,
    over: AtomicBool,
}

impl Condvar {
    pub(super) fn new() -> Condvar {
        Condvar { inner: loom::sync::Condvar::new(), over: AtomicBool::new(false) }
    }

    pub(super) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let guard = match self.over.load(Ordering::Relaxed) {
            true => guard,
            false => self.inner.wait(guard).unwrap_or_else(PoisonError::into_inner),
        };
        if self.over.load(Ordering::Relaxed) {
            drop(guard);
            resume_unwind(Box::new(Over));
        }
        Ok(guard)
    }

    pub(super) fn notify_one(&self) {
        self.inner.notify_one();
    }

    pub(super) fn notify_all(&self) {
        self.inner.notify_all();
    }

    /// Ends all threads that wait now or later. `behind` acquires the waiters' lock, so that none
    /// is between its check and its wait.
    pub(super) fn close(&self, behind: impl FnOnce()) {
        self.over.store(true, Ordering::Relaxed);
        behind();
        self.notify_all();
    }
}
