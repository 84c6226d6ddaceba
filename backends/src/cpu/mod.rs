//! The CPU engine: compiles verified programs with Cranelift, one function per part of a kernel,
//! for any sizes.
//!
//! | file | holds |
//! |---|---|
//! | `compile`, `jit` | from a program to machine code; ownership of the code; helpers that it calls |
//! | `emit`, `state`, `nest`, `scalar` | the code generator and its state; loop nests; scalar operations |
//! | `leaf` | code for leaves (`ir::leaf`), independent of the vector width |
//! | `vectors`, `lanes128`, `branch`, `whiles`, `wide` | the same for 128-bit vectors of Cranelift, and for our own AVX2 and AVX-512 |
//! | `index_split`, `transpose_tiles`, `transpose` | loops that are split at comparisons; tiled transposition |
//! | `columns`, `strips`, `tiled` | loops along columns, several columns at a time |
//! | `reduce`, `lanes`, `lane_memory`, `fold`, `best`, `pick` | reductions in the canonical order |
//! | `scan`, `carry`, `materialize` | scans; the hand-off of carries between their threads; temporaries materialized in scratch |
//! | `contract`, `gemm` | contractions, as matrix products where possible |
//! | `run`, `memory`, `formula` | the run time: sizes of a call, memory |
//! | `steps`, `time_tiles` | kernels in order, and loops over them |
//! | `distribute`, `pool`, `sync`, `cost` | kernels on several threads, as far as the estimated cost justifies |
//! | `object` | programs compiled to object files |
//! | `listing` | the generated code as text |

mod best;
mod branch;
mod carry;
mod columns;
mod compile;
mod contract;
mod convert;
mod cost;
mod distribute;
mod emit;
mod fold;
mod formula;
#[cfg(target_arch = "x86_64")]
mod gemm;
mod half;
mod index_split;
mod jit;
mod lane_memory;
mod lanes;
mod lanes128;
mod leaf;
mod listing;
mod materialize;
mod memory;
mod nest;
#[cfg(feature = "objects")]
pub mod object;
#[cfg(all(test, feature = "objects"))]
mod objects;
mod pick;
mod pool;
#[cfg(test)]
mod pool_tests;
mod reduce;
mod run;
mod scalar;
mod scan;
mod state;
mod steps;
mod strips;
mod sync;
mod tiled;
mod time_tiles;
mod transpose;
mod transpose_tiles;
mod unfolded;
mod vectors;
mod whiles;
mod wide;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ir::array::{ArrayMut, ArrayRef};
use ir::bind::Binding;
use ir::sched::{Machine, Scheduled};

pub use crate::error::{CompileError, RunError};
pub use listing::{Listing, listing};
pub use sync::cores;

use crate::error::check;
use run::Watch;

/// The options for compiling and running a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The maximum number of threads of a run, at least 1. A run that asks for more gets this many.
    pub threads: usize,
    /// The minimum work per thread in nanoseconds, by an estimate: a kernel uses as many threads as
    /// have this much to do. Handing work to a thread costs a few hundred nanoseconds.
    pub least_share: u64,
    /// The work in nanoseconds, by an estimate, for which sleeping threads are woken: in one
    /// kernel, or in several in quick succession. They arrive some 40,000 ns later.
    pub wake_from: u64,
    /// For tests: threads wait shortly for each other before a kernel begins, and yield before each
    /// piece. This exposes more interleavings, however short the kernel is.
    pub rendezvous: bool,
    /// The width of vectors.
    pub simd: Simd,
    /// Which arrays are accessed as if they did not fit into the caches.
    pub memory_regime: MemoryRegime,
}

/// The width of vectors in innermost loops. It never changes a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Simd {
    /// The widest that this machine has.
    #[default]
    Auto,
    /// 128 bits: Cranelift's vectors, available on every machine.
    W128,
    /// 256 bits: AVX2 with fused multiply-add. Falls back to 128 bits.
    W256,
    /// 512 bits: AVX-512. Falls back to the widest that the machine has.
    W512,
}

/// Which arrays are prefetched and stored to as if they did not fit into the caches. It never
/// changes a result. All regimes but [`MemoryRegime::Auto`] are for tests, so that small arrays and
/// any machine exercise every way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryRegime {
    /// Large arrays, in the way that is fastest on this processor.
    #[default]
    Auto,
    /// All arrays, prefetched on several pages at once.
    Pages,
    /// All arrays, read as streams by a single instruction each.
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
        Options {
            threads: 256,
            least_share: 3_000,
            wake_from: 100_000,
            rendezvous: false,
            simd: Simd::Auto,
            memory_regime: MemoryRegime::Auto,
        }
    }
}

/// A compiled program, for all sizes. Several threads may run it at the same time.
pub struct Module {
    inner: run::Runner,
}

impl Module {
    /// Compiles a program that is scheduled for [`Machine::CPU`](ir::sched::Machine::CPU).
    pub fn compile(scheduled: &Scheduled, options: &Options) -> Result<Module, CompileError> {
        check(scheduled, Machine::CPU)?;
        Ok(Module { inner: run::Runner::new(scheduled, compile::compile(scheduled, options)?, options) })
    }

    /// The memory in bytes that a call of these sizes needs on `threads` threads, in addition to
    /// the program's buffers.
    pub fn beside(&self, binding: &Binding, threads: usize) -> Result<u128, RunError> {
        self.inner.beside(binding, threads)
    }

    /// Runs the program. The outputs need not be initialized, and are unchanged after an error. At
    /// most `threads` threads work at once, including the caller.
    pub fn run(&self, inputs: &[ArrayRef<'_>], outputs: &mut [ArrayMut<'_>], threads: usize) -> Result<(), RunError> {
        self.inner.run(inputs, outputs, threads, Watch::default())
    }

    /// Runs the program until it is done or `cancelled` is set. It stops within milliseconds if its
    /// kernels have outer loops. Outputs are only unspecified after a cancellation.
    pub fn run_unless(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        threads: usize,
        cancelled: &AtomicBool,
    ) -> Result<(), RunError> {
        self.inner.run(inputs, outputs, threads, Watch { cancelled: Some(cancelled), ..Watch::default() })
    }

    /// Runs the program, and adds the duration of its n-th kernel to the n-th of `times`.
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
