//! Checks that buffers that share a slot do not overwrite each other. Here each buffer has an array
//! of its own; this module additionally tracks which buffer's bytes the slot would hold. A program
//! with shared slots therefore means the same as one without.

use std::collections::TryReserveError;

use cranelift_entity::{EntityRef, SecondaryMap};
use ir::nest::{BufferId, Carried, Program};

/// The slots of a run that have more than one buffer.
#[derive(Default)]
pub(super) struct Sharing {
    /// For each such buffer, its slot and the number of units of one element.
    places: SecondaryMap<BufferId, Option<(usize, usize)>>,
    slots: Vec<Vec<Unit>>,
    /// The buffer in whose memory the contents of a carried buffer are, if it is another.
    lies_in: SecondaryMap<BufferId, Option<BufferId>>,
}

/// A part of a slot as large as its smallest element.
#[derive(Clone, Copy)]
struct Unit {
    /// The buffer that the bytes belong to.
    owner: BufferId,
    /// The time of the first read since `since`.
    read: u64,
    /// The beginning of the kernel that last read it.
    since: u64,
}

impl Sharing {
    /// The slots. `elements` gives the number of elements of a buffer.
    pub(super) fn new(program: &Program, elements: impl Fn(BufferId) -> usize) -> Result<Sharing, TryReserveError> {
        let mut sharing = Sharing::default();
        for members in program.slots.values().filter(|members| members.len() > 1) {
            let width = |id: BufferId| program.buffers[id].dtype.bytes();
            let unit = members.iter().map(|id| width(*id)).min().unwrap_or(1);
            let mut units = 0;
            for id in members {
                let each = width(*id) / unit;
                sharing.places[*id] = Some((sharing.slots.len(), each));
                units = units.max(elements(*id).saturating_mul(each));
            }
            let mut slot = vec![];
            slot.try_reserve_exact(units)?;
            slot.resize(units, Unit { owner: BufferId::new(0), read: 0, since: 0 });
            sharing.slots.push(slot);
        }
        Ok(sharing)
    }

    /// The buffer whose memory holds the contents of one.
    fn home(&self, buffer: BufferId) -> BufferId {
        self.lies_in[buffer].unwrap_or(buffer)
    }

    /// Begins the first iteration of a loop over kernels: what it carries is in the memory of its
    /// first contents.
    pub(super) fn enter(&mut self, carried: &Carried) {
        self.lies_in[carried.current] = Some(self.home(carried.initial));
        self.lies_in[carried.next] = None;
    }

    /// Ends an iteration: the next one reads what this one has stored, and stores in the other of
    /// the two memories.
    pub(super) fn exchange(&mut self, carried: &Carried) {
        let stored = self.home(carried.next);
        let other = if stored == carried.next { carried.current } else { carried.next };
        self.lies_in[carried.current] = Some(stored);
        self.lies_in[carried.next] = Some(other);
    }

    fn units(&mut self, buffer: BufferId, element: usize) -> &mut [Unit] {
        let Some((slot, each)) = self.places[buffer] else { return &mut [] };
        self.slots[slot].get_mut(element * each..(element + 1) * each).unwrap_or_default()
    }

    /// Whether an element is still intact at `time`, in a kernel that began at `began`.
    pub(super) fn load(&mut self, buffer: BufferId, element: usize, time: u64, began: u64) -> bool {
        let mut there = true;
        let buffer = self.home(buffer);
        for unit in self.units(buffer, element) {
            there &= unit.owner == buffer;
            if unit.since != began {
                (unit.since, unit.read) = (began, time);
            }
        }
        there
    }

    /// Whether an element may be stored. If this kernel has loaded the bytes of another buffer
    /// there, `sees` must say that this iteration can rely on the load having happened.
    pub(super) fn store(&mut self, buffer: BufferId, element: usize, began: u64, sees: impl Fn(u64) -> bool) -> bool {
        let mut may = true;
        let buffer = self.home(buffer);
        for unit in self.units(buffer, element) {
            may &= unit.owner == buffer || unit.since != began || sees(unit.read);
            unit.owner = buffer;
        }
        may
    }
}
