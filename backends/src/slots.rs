//! Memory of a call's temporaries, and the elements of constants as words.

use std::collections::BTreeSet;

use ir::nest::{BufferId, Program, Role};
use ir::sched::Scheduled;
use ir::{Scalar, visit};

use crate::abi::SCRATCH_ALIGN;
use crate::error::RunError;

/// The memory of a program's temporaries within a call.
pub(crate) struct Slots {
    /// Groups of temporaries with disjoint lifetimes; each group shares one block of memory.
    pub(crate) own: Vec<Vec<BufferId>>,
    /// Temporaries that share memory with an output that is written later.
    pub(crate) lent: Vec<(BufferId, BufferId)>,
}

/// The memory of a temporary.
pub(crate) enum SlotLocation {
    /// The offset in bytes into the memory for temporaries.
    At(usize),
    /// The memory of this output.
    Of(BufferId),
}

impl Slots {
    /// Follows the program's memory plan, and adds a slot for each temporary of `stored` that the
    /// plan does not mention.
    pub(crate) fn new(program: &Program, mut stored: BTreeSet<BufferId>) -> Slots {
        let mut slots = Slots { own: vec![], lent: vec![] };
        let is_temp = |id: &BufferId| program.buffers[*id].role == Role::Temp;
        for members in program.slots.values() {
            members.iter().for_each(|id| _ = stored.remove(id));
            match members.iter().find(|id| !is_temp(id)) {
                Some(output) => slots.lent.extend(members.iter().filter(|id| is_temp(id)).map(|id| (*id, *output))),
                None => slots.own.push(members.clone()),
            }
        }
        slots.own.extend(stored.into_iter().filter(is_temp).map(|id| vec![id]));
        slots
    }

    /// The slots of a scheduled program.
    pub(crate) fn of_parts(scheduled: &Scheduled) -> Slots {
        let parts = scheduled.parts.iter();
        let mut stored: BTreeSet<BufferId> = parts.flat_map(|part| visit::stores(&part.kernel.body)).collect();
        // Loops over kernels exchange the memory of `current` and of `next`, which kernels store to.
        stored.extend(scheduled.program.carried().map(|carried| carried.current));
        // Buffers that carry values from one part of a kernel to another.
        stored.extend(scheduled.added());
        Slots::new(&scheduled.program, stored)
    }

    /// Calls `place` with the location of each temporary and returns the total size in bytes.
    pub(crate) fn places(
        &self,
        bytes: impl Fn(BufferId) -> Result<usize, RunError>,
        mut place: impl FnMut(BufferId, SlotLocation),
    ) -> Result<usize, RunError> {
        let mut end = 0usize;
        for members in &self.own {
            let begin = end;
            for id in members {
                place(*id, SlotLocation::At(begin));
                let bytes = bytes(*id)?.checked_next_multiple_of(SCRATCH_ALIGN);
                let own = bytes.and_then(|bytes| begin.checked_add(bytes));
                end = end.max(own.ok_or(RunError::OutOfMemory { bytes: usize::MAX })?);
            }
        }
        self.lent.iter().for_each(|(id, output)| place(*id, SlotLocation::Of(*output)));
        Ok(end)
    }
}

/// Elements in native byte order, in memory aligned to words.
pub(crate) fn words(elements: &[Scalar]) -> Vec<u64> {
    let mut bytes = vec![];
    for element in elements {
        let width = element.dtype().bytes();
        let all = element.bits().to_ne_bytes();
        bytes.extend_from_slice(if cfg!(target_endian = "little") { &all[..width] } else { &all[8 - width..] });
    }
    bytes
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        })
        .collect()
}
