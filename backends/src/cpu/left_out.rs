//! The CPU engine on targets without one: a type without values, so that no kernel can be on it.

#[path = "options.rs"]
mod options;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ir::array::{ArrayMut, ArrayRef};
use ir::bind::Binding;
use ir::sched::{Machine, Scheduled};

pub use crate::error::{CompileError, RunError};
pub use options::{MemoryRegime, Options, Simd};

use crate::error::{check, internal};

/// A compiled program. There is none.
pub enum Module {}

impl Module {
    /// Fails.
    pub fn compile(scheduled: &Scheduled, _: &Options) -> Result<Module, CompileError> {
        check(scheduled, Machine::CPU)?;
        Err(left_out())
    }

    /// See [`Module`].
    pub fn beside(&self, _: &Binding, _: usize) -> Result<u128, RunError> {
        match *self {}
    }

    /// See [`Module`].
    pub fn run(&self, _: &[ArrayRef<'_>], _: &mut [ArrayMut<'_>], _: usize) -> Result<(), RunError> {
        match *self {}
    }

    /// See [`Module`].
    pub fn run_unless(
        &self,
        _: &[ArrayRef<'_>],
        _: &mut [ArrayMut<'_>],
        _: usize,
        _: &AtomicBool,
    ) -> Result<(), RunError> {
        match *self {}
    }

    /// See [`Module`].
    pub fn run_timed(
        &self,
        _: &[ArrayRef<'_>],
        _: &mut [ArrayMut<'_>],
        _: usize,
        _: &mut [Duration],
    ) -> Result<(), RunError> {
        match *self {}
    }
}

/// The form of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Cranelift IR before optimization.
    Clif,
    /// Machine instructions in AT&T syntax.
    Asm,
}

/// Fails.
pub fn listing(_: &Scheduled, _: Simd, _: Listing) -> Result<String, CompileError> {
    Err(left_out())
}

/// The number of threads that can run at once.
pub fn cores() -> usize {
    1
}

fn left_out() -> CompileError {
    internal(&"there is no CPU engine for this target")
}
