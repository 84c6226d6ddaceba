//! The state that emitted code depends on, in groups: the mapping of the kernel onto threads, the
//! masks of accesses, addresses, and scans. The functions here change a part of it for the code
//! that a closure emits, and restore it afterwards.

use std::collections::BTreeMap;

use ir::Affine;
use ir::nest::{BufferId, IndexId, Prefix, Subscript, ValueId};

use super::emit::Emitter;
use super::inst::{Address, Reg};
use super::relay::Chunks;
use super::scan::Running;
use super::unroll::{DeferredStore, Pointer};

/// The threads that execute the current code together, with the same control flow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExecScope {
    /// The whole block. All threads have the same values and reach the same barriers; loops
    /// distribute their iterations over the threads.
    Block,
    /// The threads of a block that share a column of a strip. They have the same values; barriers
    /// are still reached by the whole block.
    Column,
    /// A single thread. It must not reach a barrier.
    Thread,
}

/// The threads that a synchronization waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncScope {
    Warp,
    Block,
    Cluster,
}

/// The unit that has its own copy of each scratch buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScratchScope {
    Block,
    Warp,
    Thread,
}

/// The mapping of a kernel onto threads.
pub(super) struct Mapping<'a> {
    /// The threads of a block.
    pub(super) threads: u32,
    pub(super) exec_scope: ExecScope,
    pub(super) sync_scope: SyncScope,
    pub(super) scratch_scope: ScratchScope,
    /// The blocks of a cluster.
    pub(super) cluster: u32,
    /// The number of blocks that must fit on a multiprocessor.
    pub(super) resident: Option<u32>,
    /// Indices of loops over partial results, one iteration per chunk or block.
    pub(super) joins: &'a [IndexId],
    /// Whether these are partial results of several chunks each.
    pub(super) runs: bool,
}

/// The predicates that accesses are guarded by.
pub(super) struct Masks {
    /// If set, loads, stores and checks are guarded by this predicate.
    pub(super) valid: Option<Reg>,
    /// Predicate: true until one of this thread's bounds checks fails, if the kernel has any, or one
    /// that another thread has made for all of them. After that its subscripts are garbage, so loads
    /// that use them must be guarded by it.
    pub(super) passed: Option<Reg>,
    /// Loads that are only known to be in bounds if an earlier check has passed.
    pub(super) leaning: Vec<(BufferId, Vec<Subscript>)>,
}

/// Parts of addresses that are computed before the accesses.
#[derive(Default)]
pub(super) struct Addresses {
    /// An index that currently stands for its register plus this constant. It lets unrolled code
    /// address neighbouring elements by a constant offset.
    pub(super) displaced: Option<(IndexId, i64)>,
    /// Hoisted addresses of accesses, computed with the index at its register's value.
    pub(super) bases: Vec<(BufferId, Affine<IndexId>, Address)>,
    /// Strength-reduced addresses of the current loop.
    pub(super) pointers: Vec<Pointer>,
}

impl Addresses {
    /// Whether no loop is being emitted whose elements have addresses in common.
    pub(super) fn is_free(&self) -> bool {
        self.displaced.is_none() && self.bases.is_empty()
    }
}

/// The scans being emitted.
#[derive(Default)]
pub(super) struct Scans {
    /// The running reductions, with their inputs.
    pub(super) running: BTreeMap<ValueId, (Running, Prefix)>,
    /// The iteration number of the innermost scan.
    pub(super) number: Option<Reg>,
    /// The chunks of a long scan.
    pub(super) chunks: Option<Chunks>,
}

impl Emitter<'_> {
    /// Emits code for the threads of an execution scope.
    pub(super) fn in_exec_scope<T>(&mut self, exec_scope: ExecScope, make: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.mapping.exec_scope, exec_scope);
        let made = make(self);
        self.mapping.exec_scope = outer;
        made
    }

    /// Emits code whose loads, stores and checks are guarded by a predicate.
    pub(super) fn masked<T>(&mut self, valid: Reg, make: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.masks.valid.replace(valid);
        let made = make(self);
        self.masks.valid = outer;
        made
    }

    /// Emits code whose stores are deferred, and so are the reports of its checks. Returns the
    /// stores.
    pub(super) fn deferring(&mut self, make: impl FnOnce(&mut Self)) -> Vec<DeferredStore> {
        let outer = self.deferred.replace(vec![]);
        self.reporting_at_end(make);
        std::mem::replace(&mut self.deferred, outer).unwrap_or_default()
    }

    /// Emits code whose stores are not deferred, because it is conditional or runs several times.
    pub(super) fn without_deferral<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let (deferred, failed) = (self.deferred.take(), self.failed.take());
        let made = make(self);
        (self.deferred, self.failed) = (deferred, failed);
        made
    }
}
