//! The rules of slots: buffers that share memory are never needed at the same time.

use cranelift_entity::{EntitySet, packed_option::ReservedValue};

use super::{Result, fail};
use crate::live::{Lives, bytes};
use crate::nest::{BufferId, Program, Role};

/// Checks all slots.
pub(super) fn slots(program: &Program) -> Result {
    if program.slots.is_empty() {
        return Ok(());
    }
    let lives = Lives::of(program);
    let mut placed = EntitySet::new();
    for (slot, members) in &program.slots {
        let broken = |buffer: BufferId, message: &str| {
            let name = program.buffers.get(buffer).map_or("", |b| &b.name);
            fail(slot.to_string(), format!("%{name} {message}"))
        };
        if members.is_empty() {
            return fail(slot.to_string(), "has no buffer");
        }
        let is_output = |id: BufferId| program.buffers.get(id).is_some_and(|b| matches!(b.role, Role::Output(_)));
        let host = members.iter().copied().find(|id| is_output(*id));
        let mut before = BufferId::reserved_value();
        for id in members.iter().copied() {
            match program.buffers.get(id).map(|b| &b.role) {
                Some(Role::Temp) if lives.live_range(id).is_none() => return broken(id, "is mentioned by no kernel"),
                Some(Role::Temp | Role::Output(_)) => {}
                _ => return broken(id, "is no temporary or output"),
            }
            if !placed.insert(id) {
                return broken(id, "has memory already");
            }
            if let Some(host) = host {
                let [own, its] = [id, host].map(|id| &program.buffers[id]);
                if host != id && is_output(id) {
                    return broken(id, "is a second output");
                }
                if own.dtype.bytes() != its.dtype.bytes() || bytes(own) != bytes(its) {
                    return broken(id, "has another size than the output there");
                }
            }
            if !before.is_reserved_value() && !lives.follows(before, id) {
                return broken(id, "is there before the one ahead of it is done with");
            }
            before = id;
        }
    }
    Ok(())
}
