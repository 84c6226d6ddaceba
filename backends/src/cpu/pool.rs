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
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::float_mode;

/// How long a thread watches for a job before it sleeps. A caller who comes again within this time finds it awake.
const SPIN: Duration = Duration::from_micros(60);
/// So often it looks before it looks at the clock.
const LOOKS: u32 = 32;
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
static POOL: Pool = Pool::new();

/// Calls `work` on the caller's thread, and at once on up to `helpers` others. `estimate` says in nanoseconds how long that takes one thread,
/// `wake_from` how long it must be that sleeping threads are called.
pub(super) fn run(helpers: usize, estimate: u64, wake_from: u64, work: &Work<'_>) {
    POOL.run(helpers, estimate, wake_from, work);
}

struct Pool {
    job: Job,
    /// The right to have a job.
    turn: Mutex<Turn>,
    /// Threads that watch or work, or have been called.
    awake: AtomicUsize,
    /// Whether there are too many threads for the cores: then nobody watches.
    crowded: AtomicBool,
    /// Whether the last thread that was called found itself on the caller's core.
    useless: AtomicBool,
    beds: Mutex<Beds>,
    bell: Condvar,
    /// What a thread's panic left.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
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

/// What the last callers did.
struct Turn {
    /// When the last job ended that would have liked help, and had none.
    ended: Option<Instant>,
    /// The estimated nanoseconds of such jobs in quick succession.
    unaided: u64,
    /// How many times as much it takes to call sleepers for such jobs, since it was of no use before.
    patience: u64,
    /// Whether sleepers have been called since that was asked.
    called: bool,
}

/// Threads that sleep.
struct Beds {
    /// Threads that there are.
    workers: usize,
    asleep: usize,
    /// Of those that have been called, the ones that have not yet noticed.
    called: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    const fn new() -> Pool {
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

    fn run(&'static self, helpers: usize, estimate: u64, wake_from: u64, work: &Work<'_>) {
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
        unsafe { *self.job.work.get() = Some(erased) };
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
            // The thread inherits the caller's floating-point mode, whatever that is, and its later jobs are other callers'.
            let serve = move || float_mode::standard(|| self.serve(number));
            if thread::Builder::new().name(format!("fuseloop {number}")).spawn(serve).is_err() {
                break;
            }
            beds.workers = number;
            self.awake.fetch_add(1, Ordering::Relaxed);
            let cores = thread::available_parallelism().map_or(1, usize::from);
            self.crowded.store(number >= cores, Ordering::Relaxed);
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
        if let Some(work) = unsafe { *self.job.work.get() } {
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
    fn reaches(&mut self, estimate: u64, wake_from: u64, useless: &AtomicBool) -> bool {
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

/// The core that this thread runs on; negative if that is not to be known.
#[cfg(target_os = "linux")]
fn core() -> i32 {
    // SAFETY: it takes nothing and touches nothing.
    unsafe { libc::sched_getcpu() }
}

/// The core that this thread runs on: not to be known.
#[cfg(not(target_os = "linux"))]
fn core() -> i32 {
    -1
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> &'static Pool {
        Box::leak(Box::new(Pool::new()))
    }

    /// A job of so many numbers: each is counted once, whoever comes.
    fn count(pool: &'static Pool, helpers: usize, numbers: usize, each: impl Fn() + Sync) {
        let next = AtomicUsize::new(0);
        let seen: Vec<AtomicUsize> = (0..numbers).map(|_| AtomicUsize::new(0)).collect();
        pool.run(helpers, 0, 0, &|_| {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(seen) = seen.get(at) else { return };
                each();
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{helpers} helpers, {numbers} numbers");
    }

    #[test]
    fn every_piece_is_done_once() {
        let pool = pool();
        for round in 0..3000 {
            count(pool, round % 8, round % 40, spin_loop);
        }
    }

    /// Many callers at once, with naps between so that threads fall asleep and are called.
    #[test]
    fn callers_do_not_disturb_each_other() {
        let pool = pool();
        thread::scope(|scope| {
            for caller in 0..6 {
                scope.spawn(move || {
                    for round in 0..400 {
                        count(pool, 1 + (caller + round) % 7, 20, || (0..200).for_each(|_| spin_loop()));
                        if round % 50 == 0 {
                            thread::sleep(Duration::from_micros(200));
                        }
                    }
                });
            }
        });
    }

    /// The caller is done at once and has to wait for the others, a short while and a long one.
    #[test]
    fn waits_for_who_is_inside() {
        let pool = pool();
        for nap in [0, 20, 300] {
            for _ in 0..30 {
                let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
                pool.run(3, 0, 0, &|thread| {
                    if let Thread::Helper(_) = thread {
                        begun.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_micros(nap));
                        ended.fetch_add(1, Ordering::Relaxed);
                    } else {
                        let patience = Instant::now();
                        while begun.load(Ordering::Relaxed) == 0 && patience.elapsed() < Duration::from_secs(5) {
                            thread::yield_now();
                        }
                    }
                });
                assert!(begun.load(Ordering::Relaxed) > 0);
                assert_eq!(begun.load(Ordering::Relaxed), ended.load(Ordering::Relaxed));
            }
        }
    }

    #[test]
    fn jobs_may_start_jobs() {
        let pool = pool();
        count(pool, 3, 50, || count(pool, 3, 5, spin_loop));
    }

    /// A panic, of a helper or of the caller, comes out of the call, and the next one is as ever.
    #[test]
    fn a_panic_comes_out_of_the_call() {
        let pool = pool();
        for helper in [false, true] {
            let panic = catch_unwind(AssertUnwindSafe(|| {
                pool.run(1, 0, 0, &|thread| {
                    if matches!(thread, Thread::Helper(_)) == helper {
                        // Not `panic!`, which would print.
                        resume_unwind(Box::new("odd"));
                    }
                    let patience = Instant::now();
                    while thread == Thread::Caller
                        && lock(&pool.panic).is_none()
                        && patience.elapsed() < Duration::from_secs(5)
                    {
                        thread::yield_now();
                    }
                });
            }));
            assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"odd"));
            count(pool, 3, 50, spin_loop);
        }
    }

    /// Short jobs now and then call nobody; in quick succession they do in the end.
    #[test]
    fn short_jobs_let_sleepers_lie() {
        let useless = AtomicBool::new(false);
        let mut turn = Turn { ended: None, unaided: 0, patience: 1, called: false };
        for _ in 0..10 {
            assert!(!turn.reaches(30, 100, &useless));
        }
        let mut turn =
            Turn { ended: Some(Instant::now() + Duration::from_secs(60)), unaided: 0, patience: 1, called: false };
        assert_eq!([(); 4].map(|()| turn.reaches(30, 100, &useless)), [false, false, false, true]);
        assert!(turn.reaches(100, 100, &useless));
    }
}
