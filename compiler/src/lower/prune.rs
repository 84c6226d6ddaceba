//! Prunes kernels that no result needs. The checker has dropped the expressions that nothing
//! mentions; a condition that lowering finds constant takes the readers of others away.

use std::collections::BTreeSet;

use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::nest::{BufferId, KernelId, Program, Role, replace_kernels};
use ir::visit;

/// Removes the kernels that store only temporaries that nothing loads. Those with checks stay, and
/// those that store buffers that a loop over kernels hands on or ends by.
pub fn prune(program: &mut Program) {
    let mut loaded: BTreeSet<BufferId> = program.in_tree().collect();
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
    let mut renumbered: SecondaryMap<KernelId, Option<KernelId>> = SecondaryMap::new();
    let all = std::mem::replace(&mut program.kernels, PrimaryMap::new());
    for (id, kernel) in all.into_iter().filter(|(id, _)| needed[*id]) {
        renumbered[id] = Some(program.kernels.push(kernel));
    }
    program.body = replace_kernels(&program.body, &mut |id| renumbered[id].into_iter().collect());
}
