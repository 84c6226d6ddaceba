//! The errors of GPUs, in the user's terms.

use backends::cuda::{Error as GpuError, Failure, LoadError};
use grammar::Code;
use ir::bind::Given;

use super::{CompileError, Context, RunError, RunErrorKind, codes};

impl From<GpuError> for CompileError {
    fn from(error: GpuError) -> CompileError {
        CompileError::of(code(&error), error.to_string())
    }
}

impl From<LoadError> for CompileError {
    fn from(error: LoadError) -> CompileError {
        match error {
            LoadError::Compile(error) => error.into(),
            LoadError::Device(error) => error.into(),
        }
    }
}

/// The code of a GPU error.
pub(super) fn code(error: &GpuError) -> Code {
    match error {
        GpuError::NoDriver | GpuError::NoDevice(_) | GpuError::TooOld(..) => codes::NO_GPU,
        GpuError::OutOfMemory(_) => codes::DEVICE_MEMORY,
        GpuError::HostMemory(_) => codes::ARRAY,
        GpuError::Rejected(_) => codes::FAULT,
        GpuError::WrongDevice
        | GpuError::NotThere(_)
        | GpuError::NotAligned(_)
        | GpuError::Threads(_)
        | GpuError::Driver { .. }
        | GpuError::Lost(_) => codes::GPU,
    }
}

impl Context<'_> {
    /// A failed call on a GPU.
    pub fn gpu(&self, error: Failure, inputs: &[impl Given]) -> RunError {
        match error {
            Failure::Call(error) => self.cpu(error, inputs),
            Failure::Memory { needed, limit } => self.error(RunErrorKind::DeviceMemory { needed, limit }),
            Failure::Device(error) => self.error(RunErrorKind::Gpu(error)),
        }
    }
}
