//! Where temporaries lie in the memory of a call, and the elements of constants.

use std::collections::BTreeSet;

use ir::nest::{BufferId, Program, Role};
use ir::{Scalar, visit};

use crate::abi::SCRATCH_ALIGN;
use crate::error::RunError;

/// Where a program's temporaries lie in the memory of a call.
pub(crate) struct Slots {
    /// Temporaries that have the same memory, one after another.
    pub(crate) own: Vec<Vec<BufferId>>,
    /// Temporaries in the memory of outputs that begin after them.
    pub(crate) lent: Vec<(BufferId, BufferId)>,
}

/// The memory of a temporary.
pub(crate) enum Place {
    /// So many bytes into the memory for temporaries.
    At(usize),
    /// The same as an output's.
    Of(BufferId),
}

impl Slots {
    /// The memory that a program's plan says, and some for each other temporary of `stored`.
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

    /// The memory of a program whose kernels are run as parts, `run` being the program with what these add to it.
    pub(crate) fn of_parts(program: &Program, run: &Program) -> Slots {
        let mut stored: BTreeSet<BufferId> = program.kernels.values().flat_map(|k| visit::stores(&k.body)).collect();
        // Values that go from one part of a kernel to another.
        stored.extend(run.buffers.keys().skip(program.buffers.len()));
        Slots::new(run, stored)
    }

    /// Says where each temporary is, and returns the bytes that they take in all.
    pub(crate) fn places(
        &self,
        bytes: impl Fn(BufferId) -> Result<usize, RunError>,
        mut place: impl FnMut(BufferId, Place),
    ) -> Result<usize, RunError> {
        let mut end = 0usize;
        for members in &self.own {
            let begin = end;
            for id in members {
                place(*id, Place::At(begin));
                let bytes = bytes(*id)?.checked_next_multiple_of(SCRATCH_ALIGN);
                let own = bytes.and_then(|bytes| begin.checked_add(bytes));
                end = end.max(own.ok_or(RunError::OutOfMemory { bytes: usize::MAX })?);
            }
        }
        self.lent.iter().for_each(|(id, output)| place(*id, Place::Of(*output)));
        Ok(end)
    }
}

/// Elements in native byte order, in aligned memory.
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
