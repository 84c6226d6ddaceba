//! The threads that help a caller: made when first asked for, kept as long as the process, shared by all programs.
//!
//! A job is a function that every thread who takes part calls once, and that returns when nothing is left to do; how work is
//! handed out is the job's own affair. The caller always takes part, so a job ends without any help: threads that are
//! busy, asleep or not to be had cost nothing but their help. When the caller has finished, it closes the job, and waits only for
//! threads that are inside.
//!
//! There is one job at a time. A caller who finds another's at hand does its own alone: callers at once have threads enough
//! among them, nobody waits for a turn, and nested jobs cannot lock each other out.
//!
//! A thread that has nothing to do watches for the next job for [`SPIN`], then sleeps. Measured on two cores of a server: from
//! handing a job to a thread that watches until the caller has its answer and has closed the job, 0.65 us (0.25 us if nobody
//! comes); waking one takes the caller 3 to 4 us, and the thread arrives 8 to 40 us later. So a job goes to whoever is awake, and sleepers are
//! called only where the estimated time of this job, and of those just before it that went without help, reaches what the
//! caller says.

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

/// How long a thread watches for a job before it sleeps. A caller who comes again within this time finds it awake.
const SPIN: Duration = Duration::from_micros(60);
/// The most that [`Turn::patience`] grows to.
const MOST_PATIENCE: u64 = 256;
/// The most threads of a job, the caller among them.
pub(super) const MOST_THREADS: usize = 256;

/// What every thread of a job calls.
pub(super) type Work<'w> = dyn Fn(Thread) + Sync + 'w;

/// A thread of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thread {
    /// The caller, and there will be no other.
    Alone,
    /// The caller, others may come.
    Caller,
    /// Another, with a number of its own from 1.
    Helper(usize),
}

/// The threads of the process.
static POOL: LazyLock<Pool> = LazyLock::new(Pool::new);

/// Calls `work` on the caller's thread, and at once on up to `helpers` others. `estimate` says in nanoseconds how long that takes one thread,
/// `wake_from` how long it must be that sleeping threads are called.
pub(super) fn run(helpers: usize, estimate: u64, wake_from: u64, work: &Work<'_>) {
    POOL.run(helpers, estimate, wake_from, work);
}

pub(super) struct Pool {
    job: Job,
    /// The right to have a job.
    turn: Mutex<Turn>,
    /// Threads that watch or work, or have been called.
    awake: AtomicUsize,
    /// Whether there are too many threads for the cores: then nobody watches.
    crowded: AtomicBool,
    /// Whether the last thread that was called found itself on the caller's core.
    useless: AtomicBool,
    pub(super) beds: Mutex<Beds>,
    pub(super) bell: Condvar,
    /// What a thread's panic left.
    pub(super) panic: Mutex<Option<Box<dyn Any + Send>>>,
    done: Condvar,
}

/// The job at hand: what a thread that joins has to fetch from the caller's core, on one cache line (or the two that some fetch at once).
#[repr(align(128))]
struct Job {
    /// [`INSIDE`] for each thread inside besides the caller, [`SEAT`] for each that may still join, [`WAITING`] if the caller sleeps
    /// until the others are done.
    state: AtomicU64,
    /// Written by who holds `turn` while nobody is inside and no seat is free, read by who is inside.
    work: UnsafeCell<Option<*const Work<'static>>>,
    /// The caller's core. A thread that the system has put on the same one does not watch for jobs: the caller would have to
    /// wait for it.
    core: AtomicI32,
}

const INSIDE: u64 = 1;
const SEAT: u64 = 1 << 32;
const WAITING: u64 = 1 << 63;
const ALL_INSIDE: u64 = SEAT - 1;
const ALL_SEATS: u64 = (WAITING - 1) & !ALL_INSIDE;

// SAFETY: `work` is the only part that is not `Sync`. It is written while the writer holds `turn`, and while `state` has neither
// seats nor threads inside; it is read by threads that are inside, who came there by taking a seat, which the writer offers
// after writing (release and acquire on `state`).
unsafe impl Sync for Job {}
// SAFETY: as above. Nothing in it belongs to a thread.
unsafe impl Send for Job {}

/// What the last callers did.
pub(super) struct Turn {
    /// When the last job ended that would have liked help, and had none.
    pub(super) ended: Option<Instant>,
    /// The estimated nanoseconds of such jobs in quick succession.
    pub(super) unaided: u64,
    /// How many times as much it takes to call sleepers for such jobs, since it was of no use before.
    pub(super) patience: u64,
    /// Whether sleepers have been called since that was asked.
    pub(super) called: bool,
}

/// Threads that sleep.
pub(super) struct Beds {
    /// Threads that there are.
    workers: usize,
    asleep: usize,
    /// Of those that have been called, the ones that have not yet noticed.
    called: usize,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool {
            job: Job { state: AtomicU64::new(0), work: UnsafeCell::new(None), core: AtomicI32::new(-1) },
            turn: Mutex::new(Turn { ended: None, unaided: 0, patience: 1, called: false }),
            awake: AtomicUsize::new(0),
            crowded: AtomicBool::new(false),
            useless: AtomicBool::new(false),
            beds: Mutex::new(Beds { workers: 0, asleep: 0, called: 0 }),
            bell: Condvar::new(),
            panic: Mutex::new(None),
            done: Condvar::new(),
        }
    }

    pub(super) fn run(&'static self, helpers: usize, estimate: u64, wake_from: u64, work: &Work<'_>) {
        let mut turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return work(Thread::Alone),
        };
        let helpers = helpers.min(MOST_THREADS - 1);
        let awake = || self.awake.load(Ordering::Relaxed);
        let wake = awake() < helpers && turn.reaches(estimate, wake_from, &self.useless);
        if awake().min(helpers) == 0 && !wake {
            work(Thread::Alone);
            turn.ended = Some(Instant::now());
            return;
        }
        // SAFETY: only the lifetime changes. Threads call it only while they are inside, and `Closing` waits
        // for the last of them before this function returns or unwinds, so while `work` is borrowed.
        let erased = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        // SAFETY: this caller has the turn, and the one before it left neither seats nor threads inside.
        self.job.work.with_mut(|work| unsafe { *work = Some(erased) });
        let closing = Closing(self);
        self.job.core.store(core(), Ordering::Relaxed);
        self.job.state.store(SEAT * helpers as u64, Ordering::Release);
        // Who is about to sleep either sees the seats, or is seen to be asleep here: see `serve`.
        fence(Ordering::SeqCst);
        if awake() < helpers && (wake || estimate >= wake_from) {
            self.wake(helpers);
            (turn.unaided, turn.called) = (0, true);
        }
        work(Thread::Caller);
        drop(closing);
        let panic = lock(&self.panic).take();
        drop(turn);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Calls sleepers, or makes threads, until `helpers` are awake, or as many as can be had.
    fn wake(&'static self, helpers: usize) {
        let mut beds = lock(&self.beds);
        let missing = helpers.saturating_sub(self.awake.load(Ordering::Relaxed));
        let called = missing.min(beds.asleep);
        beds.asleep -= called;
        beds.called += called;
        self.awake.fetch_add(called, Ordering::Relaxed);
        for _ in 0..called {
            self.bell.notify_one();
        }
        for _ in called..missing {
            let number = beds.workers + 1;
            // Otherwise the thread would inherit this caller's floating-point mode, also for later
            // jobs of other callers.
            let serve = move || float_mode::standard(|| self.serve(number));
            if !spawn(&format!("fuseloop {number}"), serve) {
                break;
            }
            beds.workers = number;
            self.awake.fetch_add(1, Ordering::Relaxed);
            self.crowded.store(number >= cores(), Ordering::Relaxed);
        }
    }

    /// The life of a thread.
    fn serve(&self, number: usize) {
        loop {
            while let Some(is_last) = self.watch() {
                self.help(number, is_last);
            }
            let mut beds = lock(&self.beds);
            self.awake.fetch_sub(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.job.state.load(Ordering::Relaxed) & ALL_SEATS != 0 {
                self.awake.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            beds.asleep += 1;
            while beds.called == 0 {
                beds = self.bell.wait(beds).unwrap_or_else(PoisonError::into_inner);
            }
            beds.called -= 1;
        }
    }

    /// Waits a while for a seat, and takes it. Returns whether that was the last one.
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

    /// Does what there is to do of the job at hand; the thread has a seat.
    fn help(&self, number: usize, is_last: bool) {
        // SAFETY: this thread is inside, so nobody writes.
        if let Some(work) = self.job.work.with(|work| unsafe { *work }) {
            // SAFETY: this thread is inside until the last line, so the caller still waits, and what it lent is there.
            let work = unsafe { &*work };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(Thread::Helper(number)))) {
                *lock(&self.panic) = Some(panic);
            }
        }
        if !is_last {
            // The work has returned: there is none left for others.
            self.job.state.fetch_and(!ALL_SEATS, Ordering::Relaxed);
        }
        let before = self.job.state.fetch_sub(INSIDE, Ordering::Release);
        if before & WAITING != 0 && before & ALL_INSIDE == INSIDE {
            drop(lock(&self.panic));
            self.done.notify_all();
        }
    }

    /// Closes the job at hand, and waits until nobody is inside.
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

    /// Sleeps until nobody is inside.
    fn wait(&self) {
        // The last thread that leaves takes this lock too: it cannot ring between the look and the sleep.
        let mut guard = lock(&self.panic);
        self.job.state.fetch_or(WAITING, Ordering::Relaxed);
        while self.job.state.load(Ordering::Acquire) & ALL_INSIDE != 0 {
            guard = self.done.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.job.state.fetch_and(!WAITING, Ordering::Relaxed);
    }
}

impl Turn {
    /// Whether sleepers are to be called for a job, which may then go without help.
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

/// Closes the job at hand when it goes, also when the caller's own part panics.
struct Closing<'p>(&'p Pool);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
        if thread::panicking() {
            // The caller's own panic goes first.
            lock(&self.0.panic).take();
        }
    }
}
