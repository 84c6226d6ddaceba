//! Prunes kernels that no result needs. The checker has dropped the expressions that nothing
//! mentions; a condition that lowering finds constant takes the readers of others away.

use std::collections::BTreeSet;

use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::nest::{KernelId, Program, Role};
use ir::visit;

/// Removes the kernels that store only temporaries that nothing loads. Those with checks stay.
/// Kernels may not be inside a loop yet.
pub fn prune(program: &mut Program) {
    let mut loaded = BTreeSet::new();
    let mut needed: SecondaryMap<KernelId, bool> = SecondaryMap::new();
    for (id, kernel) in program.kernels.iter().rev() {
        let stores = visit::stores(&kernel.body);
        needed[id] = stores.iter().any(|b| loaded.contains(b) || matches!(program.buffers[*b].role, Role::Output(_)))
            || kernel.body.iter().any(|statement| statement.may_fault());
        if needed[id] {
            loaded.extend(visit::loads(&kernel.body));
        }
    }
    if program.kernels.keys().all(|id| needed[id]) {
        return;
    }
    program.body.clear();
    for (id, kernel) in std::mem::replace(&mut program.kernels, PrimaryMap::new()) {
        if needed[id] {
            program.push_kernel(kernel);
        }
    }
}
