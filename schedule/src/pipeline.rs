//! The passes in order: from a planned program to the input of code generators.

use std::fmt;

use ir::choice::Choice;
use ir::nest::Program;
use ir::sched::{Machine, Scheduled, verify};
use ir::verify::VerifyError;

use crate::across::across;
use crate::borders::borders;
use crate::carry::carry;
use crate::checks::hoist;
use crate::columns::columns;
use crate::descend::descend;
use crate::forms::forms;
use crate::forward::forward;
use crate::jam::jam;
use crate::join::join;
use crate::maker::operations;
use crate::masks::masks;
use crate::orders::orders;
use crate::prepare::prepare;
use crate::rows::rows;
use crate::split::split;
use crate::strategies::strategies;
use crate::sweeps::sweeps;
use crate::tile::tile;
use crate::transpose::transpose;

/// A pass rewrites a program as far as the choice grants it, and changes no bit of any result.
pub type Pass = fn(&mut Scheduled, &mut Choice);

/// The passes that rewrite kernels, with their names.
pub const REWRITES: [(&str, Pass); 10] = [
    ("masks", masks),
    ("rows", rows),
    ("prepare", prepare),
    ("forward", forward),
    ("borders", borders),
    ("across", across),
    ("hoist", hoist),
    ("carry", carry),
    ("jam", jam),
    ("orders", orders),
];

/// The passes that split the kernels into parts, with their names.
pub const SPLITS: [(&str, Pass); 8] = [
    ("tile", tile),
    ("split", split),
    ("columns", columns),
    ("transpose", transpose),
    ("strategies", strategies),
    ("descend", descend),
    ("join", join),
    ("forms", forms),
];

/// Why a program could not be scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleError {
    /// A kernel is larger than the target takes.
    TooLarge {
        /// The kernel.
        kernel: String,
        /// Its operations, functions inlined.
        operations: usize,
        /// The most that it may have.
        limit: usize,
    },
    /// The program violated a rule before the passes or after one of them, which is a bug. The
    /// latter is checked in debug builds.
    Broken {
        /// The pass, or what made the program.
        pass: &'static str,
        /// The rule.
        error: VerifyError,
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScheduleError::TooLarge { kernel, operations, limit } => {
                write!(f, "kernel {kernel} has {operations} operations, more than the limit of {limit}")
            }
            ScheduleError::Broken { pass, error } => write!(f, "after `{pass}`: {error}"),
        }
    }
}

impl std::error::Error for ScheduleError {}

/// Schedules a planned program for a target.
pub fn schedule(program: &Program, machine: Machine) -> Result<Scheduled, ScheduleError> {
    schedule_with(program, machine, &mut Choice::default())
}

/// Schedules a planned program using only rewrites that a choice grants.
pub fn schedule_with(program: &Program, machine: Machine, choice: &mut Choice) -> Result<Scheduled, ScheduleError> {
    let broken = |pass| move |error| ScheduleError::Broken { pass, error };
    ir::verify::verify(program).map_err(broken("plan"))?;
    let mut scheduled = Scheduled::new(program, machine);
    let mut run = |passes: &[(&'static str, Pass)], scheduled: &mut Scheduled| {
        for (name, pass) in passes {
            pass(scheduled, choice);
            if VERIFIES {
                // A hoisted check reads ahead in the kernel of its loop. The rules of slots, which
                // compare whole statements, hold again when the kernels are split.
                let slots = std::mem::take(&mut scheduled.program.slots);
                let verified = verify(scheduled);
                scheduled.program.slots = slots;
                verified.map_err(broken(name))?;
            }
        }
        Ok(())
    };
    run(&REWRITES, &mut scheduled)?;
    measure(&mut scheduled)?;
    run(&SPLITS, &mut scheduled)?;
    sweeps(&mut scheduled, program, choice);
    if VERIFIES {
        verify(&scheduled).map_err(broken("the last pass"))?;
    }
    Ok(scheduled)
}

/// Whether each pass is checked.
const VERIFIES: bool = cfg!(debug_assertions);

/// Counts the operations of the kernels before they are split, up to the limit of the target.
fn measure(scheduled: &mut Scheduled) -> Result<(), ScheduleError> {
    for part in &scheduled.parts {
        let operations = operations(&scheduled.program, &part.kernel.body);
        if let Some(limit) = scheduled.machine.operations.filter(|limit| operations > *limit) {
            return Err(ScheduleError::TooLarge { kernel: part.kernel.name.clone(), operations, limit });
        }
        scheduled.operations = scheduled.operations.max(operations);
    }
    Ok(())
}
