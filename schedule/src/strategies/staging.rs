//! The values of a long row that go to shared memory: those of the elements that do not fit into
//! registers, if several loops of the row access them. Then they need not go through global memory
//! from one loop to the next.
//!
//! Each element gets a slot for each such value. The slots of values that no later loop uses are
//! reused for computed values.

use std::collections::{BTreeMap, BTreeSet};

use ir::linear::Linear;
use ir::nest::{Block, BufferId, Program, Role, Statement};
use ir::sched::Staged;
use ir::{Dtype, visit};

use super::rows::{Key, key};

/// The values of a row to stage. `registers` are the scratch buffers that need not exist in memory.
pub(super) fn values(program: &Program, row: &Block, registers: &BTreeSet<BufferId>) -> Vec<Staged> {
    let stored: BTreeSet<BufferId> = visit::stores(row).into_iter().collect();
    let mut seen: BTreeMap<Key, (usize, usize)> = BTreeMap::new();
    let mut never: BTreeSet<Key> = BTreeSet::new();
    let loops = row.iter().filter_map(|s| if let Statement::Loop(l) = s { Some(l) } else { None });
    for (number, l) in loops.enumerate() {
        let (index, _) = l.dims[0];
        visit::for_each_statement(&l.body, &mut |statement| {
            let Some(access) = statement.effects().accesses().next() else { return };
            let linear = Linear::of(program, access.buffer, access.view, access.at);
            let Some(key) = key(access.buffer, &linear, index) else { return };
            // An access in a branch may not happen, so it neither fills a slot nor may read one.
            if !l.body.iter().any(|top| std::ptr::eq(top, statement)) {
                never.insert(key.clone());
            }
            seen.entry(key).or_insert((number, number)).1 = number;
        });
    }
    let mut values = vec![];
    for (key, loops) in seen {
        let buffer = &program.buffers[key.0];
        let sole = buffer.role == Role::Scratch && registers.contains(&key.0);
        // Buffers that are only loaded, and scratch that needs no other copy.
        if loops.0 < loops.1
            && !never.contains(&key)
            && buffer.dtype != Dtype::Bool
            && (sole || !stored.contains(&key.0))
        {
            let (buffer, step, rest) = key;
            values.push(Staged { buffer, step, rest, loops, offset: 0, sole });
        }
    }
    slots(program, &mut values);
    values
}

/// Assigns slots. The widest types come first, so that each slot is aligned to its type.
fn slots(program: &Program, values: &mut [Staged]) {
    let width = |value: &Staged| program.buffers[value.buffer].dtype.bytes();
    values.sort_by_key(|value| (std::cmp::Reverse(width(value)), value.loops.0));
    // For each slot its width, its offset, and the last loop that accesses its value.
    let mut slots: Vec<(usize, i64, usize)> = vec![];
    let mut bytes = 0;
    for value in values {
        let width = width(value);
        let (first, last) = value.loops;
        let free = slots.iter_mut().find(|(bytes, _, last)| value.sole && *bytes == width && *last <= first);
        value.offset = match free {
            Some((_, offset, used)) => {
                *used = last;
                *offset
            }
            None => {
                let offset = bytes;
                slots.push((width, offset, last));
                bytes += i64::try_from(width).unwrap_or(0);
                offset
            }
        };
    }
}
