//! The passes in order: what stands between a checked program and the engines.

use ir::checked::Checked;
use ir::nest::Program;
use ir::verify::{VerifyError, verify};

use crate::lower::{LowerError, lower};

/// One step over loop nests.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Its name, as options and reports give it.
    pub name: &'static str,
    /// What it is for, in a line.
    pub purpose: &'static str,
    /// Rewrites the program; says whether it changed anything.
    pub run: fn(&mut Program) -> bool,
}

/// The passes that follow lowering, in order. There are none yet: what lowering makes is what runs.
pub const PASSES: &[Pass] = &[];

/// Why a checked program did not become loop nests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipelineError {
    /// It could not be lowered.
    Lower(LowerError),
    /// A pass left a program that breaks a rule: a bug of ours. Looked for in debug builds.
    Broken {
        /// The pass.
        pass: &'static str,
        /// The rule.
        error: VerifyError,
    },
}

impl std::fmt::Display for PipelineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PipelineError::Lower(error) => error.fmt(f),
            PipelineError::Broken { pass, error } => write!(f, "after `{pass}`: {error}"),
        }
    }
}

impl std::error::Error for PipelineError {}

/// Lowers a checked program and runs the passes.
pub fn compile(checked: &Checked) -> Result<Program, PipelineError> {
    let mut program = lower(checked).map_err(PipelineError::Lower)?;
    check("lower", &program)?;
    for pass in PASSES {
        if (pass.run)(&mut program) {
            check(pass.name, &program)?;
        }
    }
    Ok(program)
}

fn check(pass: &'static str, program: &Program) -> Result<(), PipelineError> {
    if cfg!(debug_assertions) {
        verify(program).map_err(|error| PipelineError::Broken { pass, error })?;
    }
    Ok(())
}
