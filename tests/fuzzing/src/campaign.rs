//! A campaign: runs cases on several workers until there are enough, time is up, or one fails; then
//! reduces the failure.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::case::{Case, CaseError, draw};
use crate::engines::Engine;
use crate::judge::{Kind, Rigour, Verdict};
use crate::reduce::{Reduced, reduce};
use crate::supervisor::{Start, Worker};
use crate::syntax::operations;
use crate::tally::Tally;
use crate::worker::{Answer, Request};

/// The extent of a campaign.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of programs.
    pub cases: u64,
    /// For so long at most.
    pub time: Option<Duration>,
    /// Ends it early, if set meanwhile.
    pub stop: Arc<AtomicBool>,
    /// The first number.
    pub seed: u64,
    /// The engines, which take turns over the programs.
    pub engines: Vec<Engine>,
    /// How many workers.
    pub workers: usize,
    /// So long a failure may be made smaller.
    pub reduction: Duration,
    /// The time limit for one program; nearly all take a few milliseconds.
    pub patience: Duration,
    /// Where failures are kept.
    pub folder: PathBuf,
}

/// A failure, made small and saved.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The number of its case.
    pub seed: u64,
    /// The kind of failure.
    pub kind: Kind,
    /// More of it, of the small case.
    pub message: String,
    /// Seconds until it was found.
    pub found_after: f64,
    /// The operations of the drawn program and of the reduced one.
    pub operations: [usize; 2],
    /// Cases that were judged to make it small.
    pub judged: u64,
    /// The engine, and how it is reached.
    pub engine: String,
    /// The fusion options.
    pub fuse: String,
    /// The least number of merges with which it fails, if that depends on merges.
    pub merges: Option<u64>,
    /// The small program.
    pub source: String,
    /// Where it is saved.
    pub folder: PathBuf,
}

/// The result of a campaign.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The coverage.
    pub tally: Tally,
    /// The seconds until the last case, without those for reducing a failure.
    pub seconds: f64,
    /// Programs in a second.
    pub rate: f64,
    /// The first failure.
    pub failure: Option<Failure>,
}

/// The number of cases that a worker is asked for at once.
const BATCH: u64 = 8;

/// The state that workers share.
struct Shared<'p> {
    plan: &'p Plan,
    begin: Instant,
    next: AtomicU64,
    stop: AtomicBool,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    tally: Tally,
    /// The least number that failed, and how.
    failure: Option<(u64, Answer, Duration)>,
}

/// Runs a campaign. `progress` is called with the coverage so far.
pub fn run(plan: &Plan, start: Start<'_>, progress: &(dyn Fn(&Tally) + Sync)) -> io::Result<Report> {
    let shared = Shared {
        plan,
        begin: Instant::now(),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        found: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..plan.workers.max(1)).map(|_| scope.spawn(|| work(&shared, start, progress))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(io::Error::other("a panic"))))
    })?;
    let seconds = shared.begin.elapsed().as_secs_f64();
    let found = shared.found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let rate = found.tally.programs as f64 / seconds.max(1e-9);
    let failure = match found.failure {
        Some((seed, answer, after)) => Some(settle(plan, start, seed, answer, after)?),
        None => None,
    };
    Ok(Report { tally: found.tally, seconds, rate, failure })
}

/// One worker's part.
fn work(shared: &Shared<'_>, start: Start<'_>, progress: &(dyn Fn(&Tally) + Sync)) -> io::Result<()> {
    let plan = shared.plan;
    let mut worker = Worker::new(start, plan.patience)?;
    let is_over = || {
        let stops = [&shared.stop, &plan.stop].into_iter().any(|stop| stop.load(Ordering::Relaxed));
        stops || plan.time.is_some_and(|time| shared.begin.elapsed() >= time)
    };
    while !is_over() {
        let first = shared.next.fetch_add(BATCH, Ordering::Relaxed);
        let count = plan.cases.saturating_sub(first).min(BATCH);
        if count == 0 {
            break;
        }
        worker.ask(&Request::Draw { from: plan.seed.wrapping_add(first), count })?;
        for n in first..first + count {
            let answer = worker.answer()?;
            let failed = matches!(answer.verdict, Verdict::Failed { .. });
            let mut found = shared.found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            found.tally.add(&answer.tally);
            progress(&found.tally);
            if failed {
                shared.stop.store(true, Ordering::Relaxed);
                // The failure with the smallest number is reported, whichever worker found it
                // first.
                if found.failure.as_ref().is_none_or(|(other, ..)| n < *other) {
                    found.failure = Some((n, answer, shared.begin.elapsed()));
                }
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Makes a failure small and saves it.
fn settle(plan: &Plan, start: Start<'_>, number: u64, answer: Answer, after: Duration) -> io::Result<Failure> {
    let seed = plan.seed.wrapping_add(number);
    let Verdict::Failed { kind, message, .. } = answer.verdict else {
        return Err(io::Error::other("a failure that is none"));
    };
    let mut worker = Worker::new(start, plan.patience)?;
    let drawn = draw(seed, &plan.engines);
    let before = operations(&drawn.setting.source);
    // The call that shows it, alone.
    let mut cases = drawn.calls.into_iter().map(|arguments| Case { setting: drawn.setting.clone(), arguments });
    let mut failing = None;
    for case in cases.by_ref() {
        if let Verdict::Failed { kind, message, .. } = worker.judge(&case, Rigour::Bits)? {
            failing = Some((case, kind, message));
            break;
        }
    }
    let (case, kind, message) = failing.unwrap_or_else(|| {
        // It fails only after other cases, so it is kept as it was drawn.
        let case = draw(seed, &plan.engines);
        let arguments = case.calls.into_iter().next().unwrap_or_default();
        let message = match kind {
            Kind::Refused => message,
            _ => format!("only after other cases: {message}"),
        };
        (Case { setting: case.setting, arguments }, kind, message)
    });
    let Reduced { case, message, judged, merges } = reduce(case, kind, message, &mut worker, plan.reduction)?;
    let folder = plan.folder.join(seed.to_string());
    case.save(&folder).map_err(|CaseError(error)| io::Error::other(error))?;
    let setting = &case.setting;
    Ok(Failure {
        seed,
        kind,
        message,
        found_after: after.as_secs_f64(),
        operations: [before, operations(&setting.source)],
        judged,
        engine: setting.runner(),
        fuse: setting.options.fuse.to_string(),
        merges,
        source: setting.source.clone(),
        folder,
    })
}

impl Report {
    /// On one line, as JSON.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Line<'r> {
            Fuzz(&'r Report),
        }
        serde_json::to_string(&Line::Fuzz(self)).unwrap_or_default()
    }
}
