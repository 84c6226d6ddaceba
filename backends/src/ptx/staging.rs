//! Stages the tail of long rows, the part that does not fit into registers, in dynamic shared
//! memory. Values that one loop of a row loads or computes then need not go through global memory
//! for the next one.
//!
//! Each element gets one slot per value that several loops use. Loads are prefetched into their
//! slots with `cp.async` at the start of the row, without going through registers. The slots of
//! values that no later loop uses are reused for computed values.

use std::collections::{BTreeMap, BTreeSet};

use ir::linear::Linear;
use ir::nest::{Block, BufferId, Program, Role, Statement};
use ir::{Dtype, Size, visit};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Address, Class, Opcode, Operand, Reg, Space, Special, Type};
use super::loops::AT_ONCE;
use super::rows::{Key, LONGEST, key};
use super::scalar;

/// The values that are staged, with their slots.
#[derive(Clone, Default)]
pub(super) struct StagingLayout {
    values: Vec<StagedValue>,
    /// The total size of the slots in bytes, per element of the tail.
    pub(super) bytes: i64,
}

/// A value per element that several loops access.
#[derive(Clone)]
struct StagedValue {
    key: Key,
    dtype: Dtype,
    /// The first and the last loop that accesses it.
    first: usize,
    last: usize,
    /// The size of all preceding slots in bytes, per element of the tail.
    offset: i64,
    /// Whether it is stored nowhere else: a scratch buffer that is not written to global memory.
    sole_copy: bool,
}

impl StagingLayout {
    /// Finds the values of a row to stage. `in_registers` are the scratch buffers that need not
    /// exist in memory.
    pub(super) fn of(program: &Program, row: &Block, resting: &BTreeSet<BufferId>) -> StagingLayout {
        let stored: BTreeSet<BufferId> = visit::stores(row).into_iter().collect();
        let mut seen: BTreeMap<Key, (usize, usize)> = BTreeMap::new();
        let mut never: BTreeSet<Key> = BTreeSet::new();
        let loops = row.iter().filter_map(|s| if let Statement::Loop(l) = s { Some(l) } else { None });
        for (number, l) in loops.enumerate() {
            let (index, _) = l.dims[0];
            visit::for_each_statement(&l.body, &mut |statement| {
                let Some((buffer, linear)) = access(program, statement) else { return };
                let Some(key) = key(buffer, &linear, index) else { return };
                // An access in a branch may not happen, so it neither fills a slot nor may read
                // one.
                if !l.body.iter().any(|top| std::ptr::eq(top, statement)) {
                    never.insert(key.clone());
                }
                seen.entry(key).or_insert((number, number)).1 = number;
            });
        }
        let mut values = vec![];
        for (key, (first, last)) in seen {
            let buffer = &program.buffers[key.0];
            let sole_copy = buffer.role == Role::Scratch && resting.contains(&key.0);
            // Stage buffers that are only loaded, and scratch that needs no other copy.
            if first < last
                && !never.contains(&key)
                && buffer.dtype != Dtype::Bool
                && (sole_copy || !stored.contains(&key.0))
            {
                values.push(StagedValue { key, dtype: buffer.dtype, first, last, offset: 0, sole_copy });
            }
        }
        let mut layout = StagingLayout { values, bytes: 0 };
        layout.assign_slots();
        layout
    }

    /// Assigns slots. The widest types come first, so that each slot is aligned to its type.
    fn assign_slots(&mut self) {
        self.values.sort_by_key(|value| (std::cmp::Reverse(value.dtype.bytes()), value.first));
        // For each slot its width, its offset, and the last loop that accesses its value.
        let mut slots: Vec<(usize, i64, usize)> = vec![];
        for value in &mut self.values {
            let width = value.dtype.bytes();
            let free =
                slots.iter_mut().find(|(bytes, _, last)| value.sole_copy && *bytes == width && *last <= value.first);
            value.offset = match free {
                Some((_, offset, last)) => {
                    *last = value.last;
                    *offset
                }
                None => {
                    slots.push((width, self.bytes, value.last));
                    self.bytes += i64::try_from(width).unwrap_or(0);
                    slots[slots.len() - 1].1
                }
            };
        }
    }

    /// Whether a scratch buffer exists in the staging buffer alone.
    pub(super) fn is_sole_copy(&self, buffer: BufferId) -> bool {
        self.values.iter().any(|value| value.sole_copy && value.key.0 == buffer)
    }
}

/// The access that a statement makes.
fn access(program: &Program, statement: &Statement) -> Option<(BufferId, Linear)> {
    let access = statement.effects().accesses().next()?;
    Some((access.buffer, Linear::of(program, access.buffer, access.view, access.at)))
}

/// The staging buffer of the current row.
pub(super) struct StagingBuffer {
    pub(super) layout: StagingLayout,
    /// By slot offset: the address where the slot of the row's first element would be, so that
    /// element numbers can be used directly.
    bases: BTreeMap<i64, Reg>,
    /// The values staged by earlier loops, and those staged by the current loop.
    filled: BTreeSet<usize>,
    filling: BTreeSet<usize>,
    /// Whether asynchronous copies are in flight.
    in_flight: bool,
}

impl Emitter<'_> {
    /// Creates the staging buffer for rows of a length.
    pub(super) fn staging(&mut self, layout: &StagingLayout, extent: Reg) -> StagingBuffer {
        let staging = self.b().mov(Type::U64, Operand::More);
        let behind = self.b().op2(Opcode::Sub, Type::S64, extent, LONGEST);
        let mut bases = BTreeMap::new();
        for value in &layout.values {
            let width = value.dtype.bytes() as i64;
            bases.entry(value.offset).or_insert_with(|| {
                let place = self.b().op(Opcode::Mad, Type::S64, &[behind.into(), value.offset.into(), staging.into()]);
                self.b().op2(Opcode::Sub, Type::S64, place, LONGEST * width)
            });
        }
        StagingBuffer {
            layout: layout.clone(),
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
        for (number, value) in staging.layout.values.iter().enumerate() {
            let width = value.dtype.bytes() as i64;
            if value.sole_copy || width < 4 {
                continue;
            }
            let (buffer, coefficient, rest) = &value.key;
            let from = self.first_address(*buffer, &Linear { affine: rest.clone(), values: vec![] });
            let Some(row) = from.base else { continue };
            let apart = self.size(&(coefficient * &Size::constant(width)));
            let base = staging.bases[&value.offset];
            let thread = self.special(Special::Tid);
            let begin = self.b().op2(Opcode::Add, Type::S64, thread, LONGEST);
            let threads = i64::from(self.mapping.threads);
            self.counted(begin, extent, threads * AT_ONCE, |e, first| {
                let elements = e.thread_elements(first, extent, threads, AT_ONCE);
                let to = e.b().op(Opcode::Mad, Type::S64, &[first.into(), width.into(), base.into()]);
                for k in 0..AT_ONCE {
                    let number = e.b().op2(Opcode::Add, Type::S64, first, k * threads);
                    let at = e.b().op(Opcode::Mad, Type::S64, &[number.into(), apart.into(), row.into()]);
                    let (to, from) =
                        (Address { base: Some(to), offset: k * threads * width }, Address { base: Some(at), ..from });
                    if let Some(valid) = usize::try_from(k).ok().and_then(|k| elements.valid(k)) {
                        e.b().guarded(valid, |b| b.copy_async(to, from, width));
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
    fn staged_slot(&mut self, buffer: BufferId, linear: &Linear) -> Option<(usize, StagedValue, Address)> {
        let (index, by) = self.addresses.displaced.filter(|_| self.row.is_none())?;
        let key = key(buffer, linear, index)?;
        let staging = self.staging.as_ref()?;
        let number = staging.layout.values.iter().position(|value| value.key == key)?;
        let (value, number_of) = (staging.layout.values[number].clone(), self.index(index));
        let base = staging.bases[&value.offset];
        let width = value.dtype.bytes() as i64;
        let at = self.b().op(Opcode::Mad, Type::S64, &[number_of.into(), width.into(), base.into()]);
        Some((number, value, Address { base: Some(at), offset: by * width }))
    }

    /// Loads an element from its slot, if it is staged already.
    pub(super) fn load_staged(&mut self, buffer: BufferId, linear: &Linear) -> Option<Reg> {
        let (number, value, at) = self.staged_slot(buffer, linear)?;
        let staging = self.staging.as_ref()?;
        // A loop may reload what it has computed itself: each element is read by the thread that
        // wrote it.
        if !(staging.filled.contains(&number) || value.sole_copy && staging.filling.contains(&number)) {
            return None;
        }
        let ty = scalar::memory(value.dtype);
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
        let ty = scalar::memory(value.dtype);
        match self.masks.valid {
            Some(valid) => self.b().guarded(valid, |b| b.store(Space::Shared, ty, element, at)),
            None => self.b().store(Space::Shared, ty, element, at),
        }
        if let Some(staging) = &mut self.staging {
            staging.filling.insert(number);
        }
        value.sole_copy
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
