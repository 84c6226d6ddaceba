//! The protocols of `pool` and `carry` under loom, a model checker. Their source is compiled here a
//! second time with loom's atomics, locks and threads in place of the system's (`sync`), and each
//! test runs under every interleaving of its steps and every value that an atomic operation may
//! read under the memory model. Loom finds data races, deadlocks, and interleavings with wrong
//! results. `cargo test -p model` runs the tests; a plain `cargo test` does not build them.
//!
//! The number of interleavings explodes, so a job has one or two helpers, and a test with two
//! bounds the number of preemptions.

#![cfg(test)]

#[path = "../../src/cpu/carry.rs"]
#[expect(dead_code, reason = "the tests need a part")]
mod carry;
#[path = "../../src/float_mode.rs"]
mod float_mode;
#[path = "../../src/cpu/pool.rs"]
#[expect(dead_code, reason = "the tests need a part")]
mod pool;
mod sync;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use self::carry::Carry;
use self::pool::{Pool, Thread};

/// Runs a test under every interleaving, or only those with at most this many preemptions.
fn check(interruptions: Option<usize>, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = interruptions;
    builder.check(test);
}

/// A pool. Its threads end with the test.
fn with_pool(test: impl FnOnce(&'static Pool)) {
    let pool: *mut Pool = Box::into_raw(Box::new(Pool::new()));
    // SAFETY: the pool is freed in the last line, after its threads have ended.
    let lent = unsafe { &*pool };
    test(lent);
    lent.wakeup.close(|| drop(pool::lock(&lent.sleepers)));
    sync::join();
    // SAFETY: the threads have ended, so nothing refers to the pool any more.
    drop(unsafe { Box::from_raw(pool) });
}

/// The state that a caller lends to a job: the numbers to take, a count of those done, and a value
/// that no atomic operation guards.
struct Lent {
    next: AtomicUsize,
    done: AtomicUsize,
    value: UnsafeCell<usize>,
}

// SAFETY: only the threads of a job read the value, and only the caller writes it, before and after
// the job. Loom checks this.
unsafe impl Sync for Lent {}

impl Lent {
    fn read(&self) -> usize {
        // SAFETY: loom checks that there is no concurrent write.
        self.value.with(|value| unsafe { *value })
    }

    fn write(&self, new: usize) {
        // SAFETY: loom checks that there is no concurrent access.
        self.value.with_mut(|value| unsafe { *value = new });
    }
}

/// Runs a job of `numbers` steps on memory that the caller owns again when this returns.
fn job(pool: &'static Pool, helpers: usize, numbers: usize) {
    let lent = Lent { next: AtomicUsize::new(0), done: AtomicUsize::new(0), value: UnsafeCell::new(0) };
    lent.write(7);
    pool.run(helpers, 0, 0, &|_: Thread| {
        assert_eq!(lent.read(), 7);
        while lent.next.fetch_add(1, Ordering::Relaxed) < numbers {
            lent.done.fetch_add(1, Ordering::Relaxed);
        }
    });
    lent.write(8);
    assert_eq!(lent.done.load(Ordering::Relaxed), numbers);
}

#[test]
fn a_job_is_done_when_its_caller_goes_on() {
    check(None, || with_pool(|pool| job(pool, 1, 2)));
}

/// The thread is asleep, or about to sleep, when the second job comes.
#[test]
fn a_thread_that_sleeps_is_found_by_the_next_job() {
    check(Some(3), || {
        with_pool(|pool| {
            job(pool, 1, 1);
            job(pool, 1, 1);
        });
    });
}

#[test]
fn two_threads_help() {
    check(Some(2), || with_pool(|pool| job(pool, 2, 2)));
}

/// A caller that finds the pool busy with another job works alone.
#[test]
fn callers_at_once_do_not_wait_for_each_other() {
    check(Some(2), || {
        with_pool(|pool| {
            let other = loom::thread::spawn(move || job(pool, 1, 1));
            job(pool, 1, 1);
            other.join().unwrap();
        });
    });
}

/// Two threads take the chunks of a scan in order and pass on the result so far, as compiled code
/// does: each combines its chunk with what the previous chunk left.
fn scan(chunks: i64, cancels: bool) {
    let (carry, next) = (Arc::new(Carry::default()), Arc::new(AtomicI64::new(0)));
    let cancelled = Arc::new(AtomicBool::new(false));
    let work = {
        let (carry, next, cancelled) = (Arc::clone(&carry), Arc::clone(&next), Arc::clone(&cancelled));
        move || {
            loop {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                if chunk >= chunks {
                    return;
                }
                carry.wait(chunk, &cancelled);
                if cancelled.load(Ordering::Relaxed) {
                    return;
                }
                // SAFETY: it is this chunk's turn, so nothing else accesses the value: loom checks
                // that.
                carry.so_far.with_mut(|so_far| unsafe { (*so_far)[0] = 2 * (*so_far)[0] + 1 });
                carry.turn.store(chunk + 1, Ordering::Release);
            }
        }
    };
    let other = loom::thread::spawn(work.clone());
    if cancels {
        cancelled.store(true, Ordering::Relaxed);
    }
    work();
    other.join().unwrap();
    if !cancels {
        // SAFETY: the other thread has ended.
        assert_eq!(carry.so_far.with(|so_far| unsafe { (*so_far)[0] }), (1 << chunks) - 1);
    }
}

#[test]
fn chunks_hand_on_in_their_order() {
    check(None, || scan(3, false));
}

#[test]
fn nobody_waits_for_a_cancelled_chunk() {
    check(None, || scan(3, true));
}
