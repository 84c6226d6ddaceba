//! Devices that this build leaves out: types without values, so that no kernel can be on one of
//! them.

#[cfg(not(feature = "gpu"))]
use backends::{Phases, cpu};
#[cfg(not(feature = "interp"))]
use ir::array::Array;
#[cfg(not(feature = "gpu"))]
use ir::array::ArrayMut;
use ir::array::ArrayRef;
#[cfg(not(feature = "gpu"))]
use ir::nest::Program;

use crate::error::Context;
#[cfg(not(feature = "interp"))]
use crate::kernel::Cancel;
use crate::{CompileError, RunError};

/// A kernel on a GPU.
#[cfg(not(feature = "gpu"))]
pub(in crate::kernel) enum OnGpu {}

#[cfg(not(feature = "gpu"))]
impl OnGpu {
    pub(super) fn new(_: &Program, _: &crate::Options, _: cpu::Options) -> Result<OnGpu, CompileError> {
        Err(CompileError::left_out("a GPU", "gpu"))
    }

    pub(in crate::kernel) fn run(
        &self,
        _: &Context<'_>,
        _: &[ArrayRef<'_>],
        _: &mut [ArrayMut<'_>],
        _: Option<&mut Phases>,
    ) -> Result<(), RunError> {
        match *self {}
    }

    pub(super) fn is_ready() -> bool {
        false
    }
}

#[cfg(all(feature = "reports", not(feature = "gpu")))]
impl crate::Kernel {
    /// The name of the GPU that it runs on.
    pub(crate) fn gpu_name(&self) -> Option<String> {
        None
    }
}

/// The interpreter.
#[cfg(not(feature = "interp"))]
pub(in crate::kernel) enum Interpreter {}

#[cfg(not(feature = "interp"))]
impl Interpreter {
    pub(super) fn new() -> Result<Interpreter, CompileError> {
        Err(CompileError::left_out("the interpreter", "interp"))
    }

    pub(in crate::kernel) fn run(
        &self,
        _: &Context<'_>,
        _: &[ArrayRef<'_>],
        _: Option<&Cancel>,
    ) -> Result<Vec<Array>, RunError> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, Options, Program};

    #[test]
    fn a_device_that_is_left_out_is_an_error() {
        let program = Program::parse("fn f(x: f32[n]) = x * 2").unwrap();
        let compile = |device| program.main().unwrap().compile(&Options { device, ..Options::default() });
        for (device, is_here) in [(Device::Gpu, cfg!(feature = "gpu")), (Device::Interp, cfg!(feature = "interp"))] {
            if !is_here {
                assert_eq!(compile(device).unwrap_err().code().to_string(), "E0262", "{device:?}");
            }
        }
        assert!(compile(Device::Auto).is_ok());
    }
}
