//! The part of long rows that does not fit into registers, in dynamic shared memory. Values that
//! one loop of a row loads or computes then need not go through global memory for the next one.
//!
//! Loads are prefetched into their slots with `cp.async` at the start of the row, without going
//! through registers.

use std::collections::{BTreeMap, BTreeSet};

use ir::linear::Linear;
use ir::nest::BufferId;
use ir::sched::{Beyond, Row, Staged};
use ir::{Dtype, Size};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Address, Class, Opcode, Operand, Reg, Space, Special, Type};
use super::rows::key;
use super::scalar;
use super::state::StagingBuffer;

impl StagingBuffer {
    /// Whether a scratch buffer exists in the staging buffer alone.
    pub(super) fn is_sole_copy(&self, buffer: BufferId) -> bool {
        self.values.iter().any(|value| value.sole && value.buffer == buffer)
    }
}

impl Emitter<'_> {
    /// The type of a staged value.
    fn staged_type(&self, value: &Staged) -> Dtype {
        self.program.buffers[value.buffer].dtype
    }

    /// Creates the staging buffer for rows of a length.
    pub(super) fn staging(&mut self, row: &Row, extent: Reg) -> StagingBuffer {
        let staging = self.b().mov(Type::U64, Operand::More);
        let held = row.capacity();
        let behind = self.b().op2(Opcode::Sub, Type::S64, extent, held);
        let mut bases = BTreeMap::new();
        for value in row.staged() {
            let width = self.staged_type(value).bytes() as i64;
            bases.entry(value.offset).or_insert_with(|| {
                let place = self.b().op(Opcode::Mad, Type::S64, &[behind.into(), value.offset.into(), staging.into()]);
                self.b().op2(Opcode::Sub, Type::S64, place, held * width)
            });
        }
        StagingBuffer {
            values: row.staged().to_vec(),
            held,
            each: row.beyond().map_or(1, Beyond::each),
            bases,
            filled: BTreeSet::new(),
            filling: BTreeSet::new(),
            in_flight: false,
        }
    }

    /// Starts the asynchronous copies of values that the loops of the row will load. `cp.async`
    /// copies at least four bytes, so narrower values are staged by the first loop that loads them.
    pub(super) fn prefetch_staged(&mut self, extent: Reg) {
        let Some(mut staging) = self.staging.take() else { return };
        let (held, each) = (staging.held, staging.each);
        for (number, value) in staging.values.iter().enumerate() {
            let width = self.staged_type(value).bytes() as i64;
            if value.sole || width < 4 {
                continue;
            }
            let Staged { buffer, step, rest, .. } = value;
            let from = self.first_address(*buffer, &Linear { affine: rest.clone(), values: vec![] });
            let Some(row) = from.base else { continue };
            let apart = self.size(&(step * &Size::constant(width)));
            let base = staging.bases[&value.offset];
            let thread = self.special(Special::Tid);
            let begin = self.b().op2(Opcode::Add, Type::S64, thread, held);
            let threads = i64::from(self.mapping.threads);
            self.counted(begin, extent, threads * each, |e, first| {
                let elements = e.thread_elements(first, extent, threads, each);
                let to = e.b().op(Opcode::Mad, Type::S64, &[first.into(), width.into(), base.into()]);
                for k in 0..each {
                    let number = e.b().op2(Opcode::Add, Type::S64, first, k * threads);
                    let at = e.b().op(Opcode::Mad, Type::S64, &[number.into(), apart.into(), row.into()]);
                    let (to, from) =
                        (Address { base: Some(to), offset: k * threads * width }, Address { base: Some(at), ..from });
                    if let Some(valid) = usize::try_from(k).ok().and_then(|k| elements.valid(k)) {
                        e.b().guarded(valid, |b| b.copy_async(to, from, width, None));
                    }
                }
            });
            staging.filled.insert(number);
            staging.in_flight = true;
        }
        self.staging = Some(staging);
    }

    /// Waits for the asynchronous copies, once per row.
    pub(super) fn await_staged(&mut self) {
        let Some(staging) = &mut self.staging else { return };
        if std::mem::replace(&mut staging.in_flight, false) {
            self.b().await_copies();
            self.sync();
        }
    }

    /// The staged value of an access, and the address of its slot for the current element.
    fn staged_slot(&mut self, buffer: BufferId, linear: &Linear) -> Option<(usize, Staged, Address)> {
        let (index, by) = self.addresses.displaced.filter(|_| self.row.is_none())?;
        let (_, step, rest) = key(buffer, linear, index)?;
        let staging = self.staging.as_ref()?;
        let is_it = |value: &Staged| value.buffer == buffer && value.step == step && value.rest == rest;
        let number = staging.values.iter().position(is_it)?;
        let (value, number_of) = (staging.values[number].clone(), self.index(index));
        let base = staging.bases[&value.offset];
        let width = self.staged_type(&value).bytes() as i64;
        let at = self.b().op(Opcode::Mad, Type::S64, &[number_of.into(), width.into(), base.into()]);
        Some((number, value, Address { base: Some(at), offset: by * width }))
    }

    /// Loads an element from its slot, if it is staged already.
    pub(super) fn load_staged(&mut self, buffer: BufferId, linear: &Linear) -> Option<Reg> {
        let (number, value, at) = self.staged_slot(buffer, linear)?;
        let staging = self.staging.as_ref()?;
        // A loop may reload what it has computed itself: each element is read by the thread that
        // wrote it.
        if !(staging.filled.contains(&number) || value.sole && staging.filling.contains(&number)) {
            return None;
        }
        let ty = scalar::memory(self.staged_type(&value));
        let Some(valid) = self.masks.valid else { return Some(self.b().load(Space::Shared, ty, at)) };
        let to = match ty.class() {
            Class::B16 => self.b().mov(Type::B16, 0),
            Class::B64 => self.b().mov(Type::B64, 0),
            Class::Pred | Class::B32 => self.b().mov(Type::B32, 0),
        };
        self.b().guarded(valid, |b| b.load_to(to, Space::Shared, ty, at));
        Some(to)
    }

    /// Stores an element to its slot, if it has one. Returns whether that is the only copy, so that
    /// no store to global memory is needed.
    pub(super) fn store_staged(&mut self, buffer: BufferId, linear: &Linear, element: Reg) -> bool {
        let Some((number, value, at)) = self.staged_slot(buffer, linear) else { return false };
        let ty = scalar::memory(self.staged_type(&value));
        match self.masks.valid {
            Some(valid) => self.b().guarded(valid, |b| b.store(Space::Shared, ty, element, at)),
            None => self.b().store(Space::Shared, ty, element, at),
        }
        if let Some(staging) = &mut self.staging {
            staging.filling.insert(number);
        }
        value.sole
    }

    /// Ends a loop: synchronizes, so that later loops can read what it has staged.
    pub(super) fn settle_staged(&mut self) {
        let Some(staging) = &mut self.staging else { return };
        let filling = std::mem::take(&mut staging.filling);
        if !filling.is_empty() {
            staging.filled.extend(filling);
            self.sync();
        }
    }
}
