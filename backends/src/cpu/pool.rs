//! The thread pool. Its threads are created on demand, live as long as the process, and are shared
//! by all programs.
//!
//! A job is a function that each participating thread calls once, and that returns when no work is
//! left; how the work is divided is up to the job. The caller always participates, so a job
//! completes without any help: threads that are busy, asleep or cannot be created only cost their
//! help. When the caller has finished its part, it closes the job to newcomers and waits for the
//! threads inside.
//!
//! There is one job at a time. A caller that finds the pool busy works alone. Concurrent callers
//! occupy enough threads by themselves, no one waits for the pool, and nested jobs cannot deadlock.
//!
//! An idle thread polls for the next job for [`SPIN`] and then sleeps. Measured on two cores of a
//! server: from submitting a job to a polling thread until the caller has the result and has closed
//! the job, 0.65 us (0.25 us if no thread joins). Waking a sleeping thread costs the caller 3 to 4
//! us, and the thread arrives 8 to 40 us later. So a job goes to the threads that are awake.
//! Sleeping threads are only woken if the estimated time of this job, and of those shortly before
//! it that ran without help, reaches the caller's threshold.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{LazyLock, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use super::sync::{
    AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Condvar, Instant, LOOKS, Mutex, MutexGuard, Ordering, UnsafeCell,
    core, cores, fence, spawn, spin_loop,
};
use crate::float_mode;

/// How long a thread polls for a job before it sleeps. A caller that returns within this time finds
/// it awake.
const SPIN: Duration = Duration::from_micros(60);
/// The upper limit of [`JobHistory::patience`].
const MOST_PATIENCE: u64 = 256;
/// The maximum number of threads in a job, including the caller.
pub(super) const MOST_THREADS: usize = 256;

/// The function that every thread of a job calls.
pub(super) type Work<'w> = dyn Fn(Thread) + Sync + 'w;

/// A thread of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thread {
    /// The caller, and no other thread will join.
    Alone,
    /// The caller; other threads may join.
    Caller,
    /// Another thread, with a unique number from 1.
    Helper(usize),
}

/// The threads of the process.
static POOL: LazyLock<Pool> = LazyLock::new(Pool::new);

/// Calls `work` on the caller's thread, and concurrently on up to `helpers` others. `estimate` is
/// how long the work takes one thread, in nanoseconds; sleeping threads are woken if it reaches
/// `wake_from`.
pub(super) fn run(helpers: usize, estimate: u64, wake_from: u64, work: &Work<'_>) {
    POOL.run(helpers, estimate, wake_from, work);
}

pub(super) struct Pool {
    job: Job,
    /// Held by the owner of the job.
    job_lock: Mutex<JobHistory>,
    /// The number of threads that poll, work, or have been woken.
    awake: AtomicUsize,
    /// Whether there are more threads than cores. Then idle threads do not poll.
    crowded: AtomicBool,
    /// Whether the last thread that was woken found itself on the caller's core.
    useless: AtomicBool,
    pub(super) sleepers: Mutex<Sleepers>,
    pub(super) wakeup: Condvar,
    /// The payload of a thread's panic.
    pub(super) panic: Mutex<Option<Box<dyn Any + Send>>>,
    done: Condvar,
}

/// The current job: everything that a joining thread has to fetch from the caller's core, in one
/// cache line (or in the pair of lines that some processors fetch together).
#[repr(align(128))]
struct Job {
    /// A packed counter: [`INSIDE`] for each thread inside the job, other than the caller, and
    /// [`SEAT`] for each thread that may still join. [`WAITING`] is set if the caller sleeps until
    /// the others have left.
    state: AtomicU64,
    /// Written by the holder of `job_lock` while there are neither seats nor threads inside, and
    /// read by threads inside.
    work: UnsafeCell<Option<*const Work<'static>>>,
    /// The caller's core. A thread that the system runs on the same core must not poll for jobs,
    /// because the caller would have to wait for it.
    core: AtomicI32,
}

const INSIDE: u64 = 1;
const SEAT: u64 = 1 << 32;
const WAITING: u64 = 1 << 63;
const ALL_INSIDE: u64 = SEAT - 1;
const ALL_SEATS: u64 = (WAITING - 1) & !ALL_INSIDE;

// SAFETY: `work` is the only field that is not `Sync`. It is written while the writer holds
// `job_lock` and `state` has neither seats nor threads inside. It is read by threads inside. They
// got there by taking a seat, which the writer offers after the write (release and acquire on
// `state`).
unsafe impl Sync for Job {}
// SAFETY: as above. No field belongs to a particular thread.
unsafe impl Send for Job {}

/// The recent history of jobs.
pub(super) struct JobHistory {
    /// When the last job ended that wanted help and got none.
    pub(super) ended: Option<Instant>,
    /// The total estimate in nanoseconds of such jobs in quick succession.
    pub(super) unaided: u64,
    /// The factor on the threshold for waking threads for such jobs. It grows when waking was
    /// useless.
    pub(super) patience: u64,
    /// Whether threads have been woken since the last check.
    pub(super) called: bool,
}

/// The sleeping threads.
pub(super) struct Sleepers {
    /// The number of threads that exist.
    workers: usize,
    asleep: usize,
    /// The number of threads that have been woken but have not noticed yet.
    called: usize,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool {
            job: Job { state: AtomicU64::new(0), work: UnsafeCell::new(None), core: AtomicI32::new(-1) },
            job_lock: Mutex::new(JobHistory { ended: None, unaided: 0, patience: 1, called: false }),
            awake: AtomicUsize::new(0),
            crowded: AtomicBool::new(false),
            useless: AtomicBool::new(false),
            sleepers: Mutex::new(Sleepers { workers: 0, asleep: 0, called: 0 }),
            wakeup: Condvar::new(),
            panic: Mutex::new(None),
            done: Condvar::new(),
        }
    }

    pub(super) fn run(&'static self, helpers: usize, estimate: u64, wake_from: u64, work: &Work<'_>) {
        let mut job_lock = match self.job_lock.try_lock() {
            Ok(job_lock) => job_lock,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return work(Thread::Alone),
        };
        let helpers = helpers.min(MOST_THREADS - 1);
        let awake = || self.awake.load(Ordering::Relaxed);
        // Wake sleeping threads only if this job, with recent ones, is long enough.
        let wake = awake() < helpers && job_lock.reaches(estimate, wake_from, &self.useless);
        if awake().min(helpers) == 0 && !wake {
            work(Thread::Alone);
            job_lock.ended = Some(Instant::now());
            return;
        }
        // SAFETY: only the lifetime changes. Threads call it only while they are inside the job,
        // and `Closing` waits for the last of them before this function returns or unwinds, so
        // `work` is still borrowed.
        let erased = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        // SAFETY: this caller holds `job_lock`, and the previous holder has left neither seats nor
        // threads inside.
        self.job.work.with_mut(|work| unsafe { *work = Some(erased) });
        let closing = Closing(self);
        self.job.core.store(core(), Ordering::Relaxed);
        self.job.state.store(SEAT * helpers as u64, Ordering::Release);
        // Pairs with the fence in `serve`: a thread that goes to sleep either sees the seats, or is
        // counted as asleep here.
        fence(Ordering::SeqCst);
        if awake() < helpers && (wake || estimate >= wake_from) {
            self.wake(helpers);
            (job_lock.unaided, job_lock.called) = (0, true);
        }
        work(Thread::Caller);
        drop(closing);
        let panic = lock(&self.panic).take();
        drop(job_lock);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Wakes or creates threads until `helpers` are awake, or no more are available.
    fn wake(&'static self, helpers: usize) {
        let mut sleepers = lock(&self.sleepers);
        let missing = helpers.saturating_sub(self.awake.load(Ordering::Relaxed));
        let called = missing.min(sleepers.asleep);
        sleepers.asleep -= called;
        sleepers.called += called;
        self.awake.fetch_add(called, Ordering::Relaxed);
        for _ in 0..called {
            self.wakeup.notify_one();
        }
        for _ in called..missing {
            let number = sleepers.workers + 1;
            // Otherwise the thread would inherit this caller's floating-point mode, also for later
            // jobs of other callers.
            let serve = move || float_mode::standard(|| self.serve(number));
            if !spawn(&format!("fuseloop {number}"), serve) {
                break;
            }
            sleepers.workers = number;
            self.awake.fetch_add(1, Ordering::Relaxed);
            self.crowded.store(number >= cores(), Ordering::Relaxed);
        }
    }

    /// The main loop of a thread.
    fn serve(&self, number: usize) {
        loop {
            while let Some(is_last) = self.watch() {
                self.help(number, is_last);
            }
            let mut sleepers = lock(&self.sleepers);
            self.awake.fetch_sub(1, Ordering::Relaxed);
            // Check again after the decrement: a caller may have offered seats in the meantime,
            // counting on this thread (see `run`).
            fence(Ordering::SeqCst);
            if self.job.state.load(Ordering::Relaxed) & ALL_SEATS != 0 {
                self.awake.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            sleepers.asleep += 1;
            while sleepers.called == 0 {
                sleepers = self.wakeup.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
            }
            sleepers.called -= 1;
        }
    }

    /// Polls for a seat for a while, and takes it. Returns whether it was the last one.
    fn watch(&self) -> Option<bool> {
        let mut begin = None;
        loop {
            for _ in 0..LOOKS {
                let state = self.job.state.load(Ordering::Relaxed);
                if state & ALL_SEATS != 0 {
                    let inside = state - SEAT + INSIDE;
                    if self.job.state.compare_exchange_weak(state, inside, Ordering::Acquire, Ordering::Relaxed).is_ok()
                    {
                        return Some(inside & ALL_SEATS == 0);
                    }
                }
                spin_loop();
            }
            let core = core();
            if core >= 0 && core == self.job.core.load(Ordering::Relaxed) {
                self.useless.store(true, Ordering::Relaxed);
                return None;
            }
            if self.crowded.load(Ordering::Relaxed) || begin.get_or_insert_with(Instant::now).elapsed() > SPIN {
                return None;
            }
        }
    }

    /// Performs this thread's part of the current job. The thread has taken a seat.
    fn help(&self, number: usize, is_last: bool) {
        // SAFETY: this thread is inside, so no one writes.
        if let Some(work) = self.job.work.with(|work| unsafe { *work }) {
            // SAFETY: this thread is inside until the end of the function, and the caller waits for
            // it, so the borrow is still alive.
            let work = unsafe { &*work };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(Thread::Helper(number)))) {
                *lock(&self.panic) = Some(panic);
            }
        }
        if !is_last {
            // The work has returned, so nothing is left to do for others.
            self.job.state.fetch_and(!ALL_SEATS, Ordering::Relaxed);
        }
        let before = self.job.state.fetch_sub(INSIDE, Ordering::Release);
        if before & WAITING != 0 && before & ALL_INSIDE == INSIDE {
            drop(lock(&self.panic));
            self.done.notify_all();
        }
    }

    /// Closes the current job, and waits until all threads have left.
    fn close(&self) {
        let mut state = self.job.state.fetch_and(!ALL_SEATS, Ordering::Acquire);
        let mut begin = None;
        while state & ALL_INSIDE != 0 {
            if self.crowded.load(Ordering::Relaxed) || begin.get_or_insert_with(Instant::now).elapsed() > SPIN {
                return self.wait();
            }
            spin_loop();
            state = self.job.state.load(Ordering::Acquire);
        }
    }

    /// Sleeps until all threads have left.
    fn wait(&self) {
        // The last thread to leave takes this lock too, so it cannot notify between the check and
        // the wait.
        let mut guard = lock(&self.panic);
        self.job.state.fetch_or(WAITING, Ordering::Relaxed);
        while self.job.state.load(Ordering::Acquire) & ALL_INSIDE != 0 {
            guard = self.done.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.job.state.fetch_and(!WAITING, Ordering::Relaxed);
    }
}

impl JobHistory {
    /// Whether to wake threads for a job that would otherwise run without help.
    pub(super) fn reaches(&mut self, estimate: u64, wake_from: u64, useless: &AtomicBool) -> bool {
        if self.ended.is_none_or(|ended| ended.elapsed() > SPIN) {
            self.unaided = 0;
        }
        if std::mem::take(&mut self.called) {
            let useless = useless.swap(false, Ordering::Relaxed);
            self.patience = if useless { (self.patience * 4).min(MOST_PATIENCE) } else { 1 };
        }
        self.unaided = self.unaided.saturating_add(estimate);
        estimate >= wake_from || self.unaided >= wake_from.saturating_mul(self.patience)
    }
}

/// Closes the current job when dropped, also if the caller's own part panics.
struct Closing<'p>(&'p Pool);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
        if thread::panicking() {
            // The caller's own panic takes precedence.
            lock(&self.0.panic).take();
        }
    }
}
