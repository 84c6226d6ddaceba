//! The CPU engine: compiles verified programs with Cranelift, one function per part of a kernel,
//! for any sizes.
//!
//! The files stand in layers, and import nothing of the layers above:
//!
//! | layer | files | holds |
//! |---|---|---|
//! | running | `run`, `steps`, `time_tiles` | calls; kernels in order, and loops over them |
//! | | `distribute`, `pool`, `memory` | kernels on several threads; memory |
//! | compiling | `compile`, `listing`, `object` | from a program to machine code, to text, and to object files |
//! | loops | `scan`, `reduce`, `lanes`, `lane_memory`, `best`, `pick`, `tiled` | scans and reductions in the canonical order |
//! | | `contract` | contractions, as matrix products where possible |
//! | | `nest`, `index_split`, `transpose_tiles`, `unfolded` | loop nests; loops that are split at comparisons; tiled transposition |
//! | | `columns`, `strips`, `phases` | loops along columns, several columns at a time |
//! | leaves | `vectors`, `materialize` | leaves (`ir::leaf`) in the widest vectors; temporaries materialized in scratch |
//! | | `wide` | leaves with our own AVX2 and AVX-512 |
//! | | `lanes128`, `inner_loops`, `branch`, `whiles`, `convert`, `half`, `fold` | leaves with 128-bit vectors of Cranelift; pairwise levels |
//! | | `leaf` | code for leaves, independent of the vector width |
//! | statements | `emit`, `state`, `scalar` | the code generator and its state; scalar operations |
//! | | `jit`, `gemm`, `transpose`, `carry` | ownership of the code; the helpers that it calls |
//! | data | `sizes`, `formula`, `cost`, `wide/kernel` | the numbers that kernels load; facts about kernels |
//! | | `machine`, `options`, `sync` | instruction sets and memory systems; options; primitives of threads |

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
mod gemm;
#[cfg(test)]
mod gemm_tests;
mod half;
mod index_split;
mod inner_loops;
mod jit;
mod lane_memory;
mod lanes;
mod lanes128;
mod leaf;
mod listing;
mod machine;
mod materialize;
mod memory;
mod nest;
#[cfg(feature = "objects")]
pub mod object;
#[cfg(all(test, feature = "objects"))]
mod objects;
mod options;
mod phases;
mod pick;
mod pool;
#[cfg(test)]
mod pool_tests;
mod reduce;
mod run;
mod scalar;
mod scan;
mod sizes;
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
pub use options::{MemoryRegime, Options, Simd};
pub use sync::cores;

use crate::error::check;
use steps::Watch;

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
