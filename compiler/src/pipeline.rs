//! The passes in order: from a checked program to the input of the engines.

use cranelift_entity::SecondaryMap;
use ir::checked::Checked;
use ir::choice::Policy;
use ir::decision::{Decision, Passes};
use ir::nest::{KernelId, Program};
use ir::rewrite::extremes;
use ir::verify::{VerifyError, verify};

use crate::fusion::search;
use crate::lower::{LowerError, lower};
use crate::plan::plan;
use crate::planes::planes;

/// The passes to run, how they decide, and a limit. No option changes a bit of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The passes that may merge kernels.
    pub fuse: Passes,
    /// Who chooses among what is legal.
    pub policy: Policy,
    /// A limit on the number of merges, over all passes; `None` is no limit. It serves to find a
    /// wrong merge by bisection.
    pub fuel: Option<u64>,
    /// The most steps of a `loop`: a call in which one takes more ends in a fault.
    pub max_steps: Option<u64>,
}

/// A function's loop nests, before and after fusion.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// One kernel an operation.
    pub unfused: Program,
    /// The fused program.
    pub program: Program,
    /// The operations that each kernel of `program` computes, as kernels of `unfused`, in ascending
    /// order.
    pub members: SecondaryMap<KernelId, Vec<KernelId>>,
    /// The decision on each pair of operations.
    pub decisions: Vec<Decision>,
}

/// The reason why a checked program was not compiled to loop nests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipelineError {
    /// It could not be lowered.
    Lower(LowerError),
    /// A pass violated a rule of the IR, which is a bug. This is checked in debug builds.
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
pub fn compile(checked: &Checked, options: &Options) -> Result<Compiled, PipelineError> {
    let loops = planes(checked);
    let unfused = lower(loops.as_ref().unwrap_or(checked), options.max_steps).map_err(PipelineError::Lower)?;
    check("lower", &unfused)?;
    fuse(unfused, options)
}

/// Runs the passes over a program with one kernel for each operation.
pub fn fuse(unfused: Program, options: &Options) -> Result<Compiled, PipelineError> {
    let graph =
        search(&unfused, options, |pass, graph| if VERIFIES { check(pass.name(), &graph.program()) } else { Ok(()) })?;
    let (mut program, members, decisions) = graph.finish();
    for id in program.kernels.keys() {
        let mut kernel = std::mem::take(&mut program.kernels[id]);
        extremes(&program, &mut kernel);
        program.kernels[id] = kernel;
    }
    check("extremes", &program)?;
    plan(&mut program);
    check("plan", &program)?;
    Ok(Compiled { unfused, program, members, decisions })
}

/// Whether each pass is checked.
const VERIFIES: bool = cfg!(debug_assertions);

fn check(pass: &'static str, program: &Program) -> Result<(), PipelineError> {
    if VERIFIES {
        verify(program).map_err(|error| PipelineError::Broken { pass, error })?;
    }
    Ok(())
}
