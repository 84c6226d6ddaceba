//! Compile-time and run-time errors of the engines.

use std::fmt;

use ir::Dtype;
use ir::bind::{BindError, Fault};
use ir::sched::{Machine, Scheduled};

/// Why a program could not be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// The code generator failed: a bug of ours, not an error of the user.
    Internal(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Internal(message) => write!(f, "the code generator failed: {message}"),
        }
    }
}

impl std::error::Error for CompileError {}

/// A failure of a part of the code generator.
pub(crate) fn internal(error: &dyn fmt::Display) -> CompileError {
    CompileError::Internal(error.to_string())
}

/// Fails unless a program keeps the rules of scheduled ones and is scheduled for a target.
pub(crate) fn check(scheduled: &Scheduled, machine: Machine) -> Result<(), CompileError> {
    let Machine { name, .. } = machine;
    if scheduled.machine != machine {
        let other = scheduled.machine.name;
        return Err(CompileError::Internal(format!("the program is scheduled for {other}, not for {name}")));
    }
    ir::sched::verify(scheduled).map_err(|e| CompileError::Internal(format!("the program is not verified: {e}")))
}

/// Why a run gave no results. The outputs are unchanged, unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The inputs do not match the program.
    Bind(BindError),
    /// A subscript was out of bounds.
    Fault(Fault),
    /// The number of outputs differs from the number of results.
    OutputCount {
        /// The number of results.
        expected: usize,
        /// The number of outputs given.
        found: usize,
    },
    /// An output has the wrong element type.
    OutputDtype {
        /// Which output.
        output: usize,
        /// The result's type.
        expected: Dtype,
        /// The output's type.
        found: Dtype,
    },
    /// An output has the wrong shape.
    OutputShape {
        /// Which output.
        output: usize,
        /// The result's shape.
        expected: Vec<usize>,
        /// The output's shape.
        found: Vec<usize>,
    },
    /// There is no memory for a temporary array.
    OutOfMemory {
        /// The bytes asked for.
        bytes: usize,
    },
    /// The run was cancelled. The contents of the outputs are unspecified.
    Cancelled,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Bind(error) => write!(f, "the inputs do not fit: {error:?}"),
            RunError::Fault(fault) => {
                write!(f, "{}: subscript {} is outside 0..{}", fault.site, fault.index, fault.bound)
            }
            RunError::OutputCount { expected, found } => write!(f, "{found} outputs for {expected} results"),
            RunError::OutputDtype { output, expected, found } => {
                write!(f, "output {output} has type {found}, the result {expected}")
            }
            RunError::OutputShape { output, expected, found } => {
                write!(f, "output {output} has shape {found:?}, the result {expected:?}")
            }
            RunError::OutOfMemory { bytes } => write!(f, "no memory for {bytes} bytes"),
            RunError::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<BindError> for RunError {
    fn from(error: BindError) -> RunError {
        RunError::Bind(error)
    }
}
