//! Memory planning: which temporaries become scratch, which share a slot, and how much a call takes
//! at its peak. It changes where elements lie, but not what is computed or how often. Every program
//! is planned, fused or not.
//!
//! ```text
//! contract   temporaries that stay inside one kernel lose the axes of its outermost loop and become scratch
//! slots      temporaries that are not needed at the same time share memory
//! peak       the bytes that a call takes
//! ```

pub mod contract;
pub mod peak;
mod slots;

use cranelift_entity::{EntitySet, PrimaryMap, SecondaryMap};
use ir::nest::{Block, BufferId, Carried, Node, Program, Role};
use ir::visit;

/// Plans the memory of a program.
pub fn plan(program: &mut Program) {
    contract::contract(program);
    drop_unused(program);
    program.slots = slots::slots(program);
}

/// Removes temporaries and constants that no kernel mentions from the program.
fn drop_unused(program: &mut Program) {
    let mut used = EntitySet::new();
    for kernel in program.kernels.values() {
        used.extend(visit::loads(&kernel.body).into_iter().chain(visit::stores(&kernel.body)));
    }
    used.extend(program.in_tree());
    let stays = |id: BufferId, role: &Role| matches!(role, Role::Input(_) | Role::Output(_)) || used.contains(id);
    if program.buffers.iter().all(|(id, buffer)| stays(id, &buffer.role)) {
        return;
    }
    let mut numbers: SecondaryMap<BufferId, Option<BufferId>> = SecondaryMap::new();
    let mut buffers = PrimaryMap::new();
    for (id, buffer) in std::mem::take(&mut program.buffers) {
        if stays(id, &buffer.role) {
            numbers[id] = Some(buffers.push(buffer));
        }
    }
    program.buffers = buffers;
    let mut renumber = |buffer: &mut BufferId| *buffer = numbers[*buffer].unwrap_or(*buffer);
    for kernel in program.kernels.values_mut() {
        for_each_access(&mut kernel.body, &mut renumber);
    }
    for_each_in_tree(&mut program.body, &mut renumber);
}

fn for_each_in_tree(nodes: &mut [Node], visit: &mut impl FnMut(&mut BufferId)) {
    for node in nodes {
        match node {
            Node::Kernel(_) => {}
            Node::Repeat(repeat) => {
                for Carried { initial, current, next } in &mut repeat.carried {
                    [initial, current, next].into_iter().for_each(&mut *visit);
                }
                for_each_in_tree(&mut repeat.body, visit);
            }
            Node::Exit { unless } => visit(unless),
        }
    }
}

fn for_each_access(block: &mut Block, visit: &mut impl FnMut(&mut BufferId)) {
    for statement in block {
        statement.for_each_buffer_mut(&mut *visit);
        statement.blocks_mut().for_each(|inner| for_each_access(inner, visit));
    }
}
