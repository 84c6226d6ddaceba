//! The CPU: verified programs compiled by Cranelift, one kernel a function, for any sizes.
//!
//! `jit` owns the machine code; `compile` makes it kernel by kernel: `prepare` (with `forward`), `checks`, `split` (and `tiled`), then `nest`, `scalar`, `reduce`,
//! `lanes` (with `lane_memory`), `best`, `pick`, `kept`, `scan` and `contract` (with `gemm`) on the ground of `emit`; `leaf`, `branch`, `vectors`, `columns` (with `strips`), `pieces`, `across` (with `turn`) and
//! `lanes128` make innermost loops vector code, `wide` wider vector code where the machine has it. `run` binds a call and finds `memory`,
//! `spread` gives the kernels to the threads of `pool` where `cost` says that it pays. `listing` shows the code.

pub(crate) mod across;
mod best;
mod branch;
mod checks;
mod columns;
mod compile;
pub(crate) mod contract;
mod convert;
mod cost;
mod emit;
pub(crate) mod fold;
mod formula;
mod forward;
#[cfg(target_arch = "x86_64")]
mod gemm;
mod half;
mod jit;
mod kept;
mod lane_memory;
mod lanes;
mod lanes128;
mod leaf;
mod listing;
pub(crate) mod memory;
mod nest;
pub mod object;
#[cfg(test)]
mod objects;
mod pick;
mod pieces;
mod pool;
pub(crate) mod prepare;
mod reduce;
mod run;
mod scalar;
pub(crate) mod scan;
pub(crate) mod split;
mod spread;
mod strips;
mod tiled;
mod turn;
mod vectors;
mod wide;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ir::Dtype;
use ir::array::{ArrayMut, ArrayRef};
use ir::bind::{BindError, Fault};
use ir::nest::Program;

pub use listing::{Listing, listing};
pub use memory::zeroed_words;

use run::Watch;

/// How a program is compiled and run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most threads that a run may use, at least 1. A run that asks for more gets these.
    pub threads: usize,
    /// A thread takes part in a kernel if there are so many nanoseconds of work for it, by an estimate: handing it over costs
    /// some hundred.
    pub least_share: u64,
    /// Sleeping threads are woken for so many nanoseconds of work, by an estimate, in one kernel or in several in quick succession: they
    /// arrive some 40 000 later.
    pub wake_from: u64,
    /// Whether threads wait for each other, shortly, before a kernel begins, and give way before each piece: so that tests meet every order,
    /// however short a kernel is.
    pub meet: bool,
    /// How wide vectors are.
    pub simd: Simd,
}

/// How wide the vectors of innermost loops are. The width never changes a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Simd {
    /// As wide as this machine's.
    #[default]
    Auto,
    /// 128 bits: what Cranelift has, on every machine.
    W128,
    /// 256 bits: AVX2 with multiply-adds. Where the machine does not have it, 128.
    W256,
    /// 512 bits: AVX-512. Where the machine does not have it, the widest that it has.
    W512,
}

impl Simd {
    /// Whether this machine has vectors of this width.
    pub fn is_here(self) -> bool {
        match self {
            Simd::Auto | Simd::W128 => true,
            Simd::W256 => wide::Isa::Avx2.is_here(),
            Simd::W512 => wide::Isa::Avx512.is_here(),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options { threads: 256, least_share: 3_000, wake_from: 100_000, meet: false, simd: Simd::Auto }
    }
}

/// Why a program could not be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// A kernel is larger than this engine takes.
    TooLarge {
        /// The kernel.
        kernel: String,
        /// Its operations, functions inlined.
        operations: usize,
        /// The most it may have.
        limit: usize,
    },
    /// The code generator failed: a bug, not the user's fault.
    Internal(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::TooLarge { kernel, operations, limit } => {
                write!(f, "kernel {kernel} has {operations} operations, more than the limit of {limit}")
            }
            CompileError::Internal(message) => write!(f, "the code generator failed: {message}"),
        }
    }
}

impl std::error::Error for CompileError {}

/// Why a run gave no results. The outputs are as they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The inputs do not fit the program.
    Bind(BindError),
    /// A subscript was found outside.
    Fault(Fault),
    /// Not as many outputs as results.
    OutputCount {
        /// How many results there are.
        expected: usize,
        /// How many outputs were given.
        found: usize,
    },
    /// An output of another element type.
    OutputDtype {
        /// Which output.
        output: usize,
        /// The result's type.
        expected: Dtype,
        /// The output's type.
        found: Dtype,
    },
    /// An output of another shape.
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
        /// What was asked for.
        bytes: usize,
    },
    /// Somebody asked for it. The outputs hold nothing of use.
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

/// A compiled program: once for all sizes. It may be run from several threads at once.
pub struct Module {
    inner: run::Runner,
}

impl Module {
    /// Compiles a verified program.
    pub fn compile(program: &Program, options: &Options) -> Result<Module, CompileError> {
        Ok(Module { inner: run::Runner::new(program, compile::compile(program, options.simd)?, options) })
    }

    /// Runs the program. The outputs need not be zeroed; after an error they are as they were. At most `threads` threads
    /// work at once, the caller's among them.
    pub fn run(&self, inputs: &[ArrayRef<'_>], outputs: &mut [ArrayMut<'_>], threads: usize) -> Result<(), RunError> {
        self.inner.run(inputs, outputs, threads, Watch::default())
    }

    /// Runs the program unless, or until, `cancelled` is set: some milliseconds later at the latest if its kernels have outer loops. Only
    /// then are the outputs not as they were after an error.
    pub fn run_unless(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        threads: usize,
        cancelled: &AtomicBool,
    ) -> Result<(), RunError> {
        self.inner.run(inputs, outputs, threads, Watch { cancelled: Some(cancelled), ..Watch::default() })
    }

    /// Runs the program, and adds to the n-th of `times` how long its n-th kernel took.
    pub fn run_timed(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        threads: usize,
        times: &mut [Duration],
    ) -> Result<(), RunError> {
        self.inner.run(inputs, outputs, threads, Watch { times: Some(times), ..Watch::default() })
    }
}
