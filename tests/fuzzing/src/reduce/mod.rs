//! Reduces failing cases. The candidates are simpler settings (`setting`), less source (`source`),
//! and smaller sizes and simpler elements (`data`); a candidate is kept if it still fails in the
//! same way.
//!
//! The candidates edit the program's text rather than the numbers that it was drawn from: one piece
//! goes and everything else stays.

mod data;
mod setting;
mod source;

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use crate::case::{Case, Setting, Through};
use crate::judge::{Kind, Rigour, Verdict};
use crate::supervisor::Worker;

/// A case made small.
pub struct Reduced {
    /// The case.
    pub case: Case,
    /// The failure.
    pub message: String,
    /// How many cases were judged for it.
    pub judged: u64,
    /// The least number of merges with which it fails, if that depends on merges.
    pub merges: Option<u64>,
}

/// A reduction under way.
struct Reduction<'r, 'w> {
    case: Case,
    kind: Kind,
    message: String,
    worker: &'r mut Worker<'w>,
    until: Instant,
    judged: u64,
    /// Sources that have been tried in vain with the present setting.
    vain: BTreeSet<String>,
}

/// Reduces a case as long as it fails in the same way and there is time.
pub fn reduce(case: Case, kind: Kind, message: String, worker: &mut Worker<'_>, time: Duration) -> io::Result<Reduced> {
    let until = Instant::now() + time;
    let mut reduction = Reduction { case, kind, message, worker, until, judged: 0, vain: BTreeSet::new() };
    let mut merges = None;
    loop {
        let mut smaller = reduction.settings()?;
        smaller |= reduction.data()?;
        smaller |= reduction.source()?;
        if !smaller || reduction.is_over() {
            break;
        }
    }
    let setting = &reduction.case.setting;
    if setting.options.fuse != ir::Passes::NONE && setting.through != Through::Library {
        merges = reduction.fuel()?;
    }
    let Reduction { mut case, kind, message, judged, worker, .. } = reduction;
    // In the one style, if it still fails.
    if let Ok(source) = fuseloop::format(case.setting.source.as_str()) {
        let tidy = Case { setting: Setting { source, ..case.setting.clone() }, arguments: case.arguments.clone() };
        if matches!(worker.judge(&tidy, Rigour::Products)?, Verdict::Failed { kind: k, .. } if k == kind) {
            case = tidy;
        }
    }
    Ok(Reduced { case, message, judged, merges })
}

impl Reduction<'_, '_> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Keeps a case if it fails in the same way.
    fn accept(&mut self, candidate: Case) -> io::Result<bool> {
        if self.is_over() {
            return Ok(false);
        }
        self.judged += 1;
        match self.worker.judge(&candidate, Rigour::Products)? {
            Verdict::Failed { kind, message, .. } if kind == self.kind => {
                self.case = candidate;
                self.message = message;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Takes the case with this setting.
    fn accept_setting(&mut self, setting: Setting) -> io::Result<bool> {
        let arguments = self.case.arguments.clone();
        let taken = self.accept(Case { setting, arguments })?;
        if taken {
            self.vain.clear();
        }
        Ok(taken)
    }
}
