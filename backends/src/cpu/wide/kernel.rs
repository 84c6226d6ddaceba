//! The properties of a kernel that its leaves need, from the kernel alone.

use std::collections::BTreeSet;

use ir::leaf::Access;
use ir::nest::{BufferId, IndexId, Kernel, Loop, Program, Role, Statement};
use ir::{Size, visit};

use crate::cpu::machine::Isa;
use crate::cpu::sizes::bytes_of;

/// From this total size on, results are written with non-temporal stores, which avoid reading a
/// cache line before it is overwritten. If the data fits into a cache they are slower.
pub(super) const NON_TEMPORAL: i64 = 24 << 20;
/// With more operations than this, a body is not limited by memory bandwidth.
pub(super) const BUSY: usize = 64;

/// The properties of a kernel that its leaves need.
pub(in crate::cpu) struct Wide {
    pub(super) isa: Isa,
    /// The total size in bytes of the arrays that it accesses.
    pub(super) bytes: Size,
    /// Results that it stores to but does not load.
    results: Vec<BufferId>,
    /// Whether a leaf has non-temporal stores.
    pub(super) non_temporal: bool,
    /// Loops that do not prefetch an array, because another loop over the same rows does.
    waiting: BTreeSet<(BufferId, IndexId)>,
}

impl Wide {
    pub(in crate::cpu) fn of(isa: Isa, program: &Program, kernel: &Kernel) -> Wide {
        let loads = visit::loads(&kernel.body);
        let stores = visit::stores(&kernel.body);
        let all: BTreeSet<BufferId> = loads.iter().chain(&stores).copied().collect();
        let mut bytes = Size::constant(0);
        for buffer in all {
            if program.buffers[buffer].role != Role::Scratch {
                bytes = &bytes + &bytes_of(program, buffer);
            }
        }
        let is_result = |buffer: &BufferId| matches!(program.buffers[*buffer].role, Role::Output(_));
        let results = stores.into_iter().filter(|buffer| is_result(buffer) && !loads.contains(buffer)).collect();
        Wide { isa, bytes, results, non_temporal: false, waiting: waiting(program, kernel) }
    }

    /// Whether a leaf has non-temporal stores.
    pub(in crate::cpu) fn has_non_temporal_stores(&self) -> bool {
        self.non_temporal
    }

    /// Whether a loop leaves the prefetches of an array to another loop over the same rows.
    pub(super) fn waits(&self, buffer: BufferId, index: IndexId) -> bool {
        self.waiting.contains(&(buffer, index))
    }

    /// Whether an access to elements of this size in bytes may use non-temporal stores.
    pub(super) fn allows_non_temporal(&self, access: &Access, bytes: usize) -> bool {
        self.results.contains(&access.buffer) && access.contiguous() && bytes >= 4
    }
}

/// The loops that do not prefetch an array because another loop over the same rows does: the one
/// with the most operations.
fn waiting(program: &Program, kernel: &Kernel) -> BTreeSet<(BufferId, IndexId)> {
    let mut found = BTreeSet::new();
    visit::for_each_statement(&kernel.body, &mut |statement| {
        let Statement::Loop(around) = statement else { return };
        let mut phases: Vec<(&Loop, usize)> = vec![];
        visit::for_each_statement(&around.body, &mut |statement| {
            if let Statement::Loop(l) = statement
                && !l.body.iter().any(|s| matches!(s, Statement::Loop(_)))
            {
                phases.push((l, program.operations_of(&l.body, |_| true)));
            }
        });
        for buffer in visit::loads(&around.body) {
            let users = phases.iter().filter(|(l, _)| visit::loads(&l.body).contains(&buffer));
            let indices = || users.clone().filter_map(|(l, operations)| Some((l.dims.last()?.0, operations)));
            let Some((longest, _)) = indices().max_by_key(|(_, operations)| **operations) else { continue };
            found.extend(indices().map(|(index, _)| (buffer, index)).filter(|(_, index)| *index != longest));
        }
    });
    found
}
