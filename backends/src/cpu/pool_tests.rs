//! The pool on system threads: every piece is done, panics propagate, sleeps do no harm. `model`
//! explores interleavings.

use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::pool::{JobHistory, Pool, Thread, lock};

fn pool() -> &'static Pool {
    Box::leak(Box::new(Pool::new()))
}

/// Runs a job of `numbers` pieces and checks that each is done exactly once, whichever threads
/// help.
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

/// Many concurrent callers, with sleeps between so that pool threads fall asleep and are woken.
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

/// The caller is done at once and has to wait for the others, for a short or a long time.
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

/// A panic of a helper or of the caller propagates out of the call, and the next call works as
/// usual.
#[test]
fn a_panic_comes_out_of_the_call() {
    let pool = pool();
    for helper in [false, true] {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            pool.run(1, 0, 0, &|thread| {
                if matches!(thread, Thread::Helper(_)) == helper {
                    // `panic!` would print a message.
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

/// Short jobs at long intervals wake no thread; in quick succession they eventually do.
#[test]
fn short_jobs_let_sleepers_lie() {
    let useless = AtomicBool::new(false);
    let mut history = JobHistory { ended: None, unaided: 0, patience: 1, called: false };
    for _ in 0..10 {
        assert!(!history.reaches(30, 100, &useless));
    }
    let mut history =
        JobHistory { ended: Some(Instant::now() + Duration::from_secs(60)), unaided: 0, patience: 1, called: false };
    assert_eq!([(); 4].map(|()| history.reaches(30, 100, &useless)), [false, false, false, true]);
    assert!(history.reaches(100, 100, &useless));
}
