//! The CPU: verified programs compiled by Cranelift, one kernel a function, for any sizes.
//!
//! `jit` owns the machine code. `compile` generates it kernel by kernel: `checks`, `split` (and
//! `tiled`), then `nest`, `scalar`, `reduce`, `lanes` (with `lane_memory`), `best`, `pick`, `kept`,
//! `scan` and `contract` (with `gemm`), all on top of `emit`; `leaf`, `branch`, `vectors`,
//! `columns` (with `strips`), `pieces`, `across` (with `turn`) and `lanes128` vectorize innermost
//! loops, and `wide` uses wider vectors where the machine has them. `run` binds a call and finds
//! `memory`. `spread` distributes a kernel over the threads of `pool` where `cost` estimates that
//! it pays; threads synchronize through `sync`, those of a scan through `baton`. `listing` shows
//! the code.

pub(crate) mod across;
mod baton;
mod best;
mod branch;
mod columns;
mod compile;
mod contract;
mod convert;
mod cost;
mod emit;
mod fold;
mod formula;
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
mod memory;
mod nest;
pub mod object;
#[cfg(test)]
mod objects;
mod pick;
mod pieces;
mod pool;
#[cfg(test)]
mod pool_tests;
mod reduce;
mod run;
mod scalar;
mod scan;
mod spread;
mod strips;
mod sync;
mod tiled;
mod turn;
mod unfolded;
mod vectors;
mod wide;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ir::array::{ArrayMut, ArrayRef};
use ir::bind::Binding;
use ir::nest::Program;

pub use crate::error::{CompileError, RunError};
pub use compile::MOST_OPERATIONS;
pub use listing::{Listing, listing};
pub use sync::cores;

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
    /// Which arrays are read and written in the ways of those beyond the caches.
    pub far: Far,
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

/// Which arrays are read and written in the ways of those that the caches do not hold. No way changes a result: the others than
/// [`Far::Auto`] are for tests, which meet each way on small arrays and on every machine so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Far {
    /// Large ones, in the way that this machine's processor gains by.
    #[default]
    Auto,
    /// Every array; read ahead, several pages at once.
    Pages,
    /// Every array; read by one instruction each that loads.
    Streams,
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
        Options { threads: 256, least_share: 3_000, wake_from: 100_000, meet: false, simd: Simd::Auto, far: Far::Auto }
    }
}

/// A compiled program: once for all sizes. It may be run from several threads at once.
pub struct Module {
    inner: run::Runner,
}

impl Module {
    /// Compiles a verified program.
    pub fn compile(program: &Program, options: &Options) -> Result<Module, CompileError> {
        Ok(Module { inner: run::Runner::new(program, compile::compile(program, options)?, options) })
    }

    /// Bytes that a call with these sizes takes on `threads` threads, in addition to the buffers of
    /// the program.
    pub fn beside(&self, binding: &Binding, threads: usize) -> Result<u128, RunError> {
        self.inner.beside(binding, threads)
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
