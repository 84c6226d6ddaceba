//! The end of a long row, behind what registers hold, in memory that its launch gives to a block: what one loop of the row loads or computes
//! need not come from the device's memory for the next, nor go there.
//!
//! An element has a place for each thing that several loops access it for. What loops load is on its way there from the beginning of the
//! row on, past all registers. What a loop computes may take the place of what no later one loads.

use std::collections::{BTreeMap, BTreeSet};

use ir::nest::{Block, BufferId, Op, Program, Role, Statement};
use ir::{Dtype, Size, visit};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Address, Class, Opcode, Operand, Reg, Space, Special, Type};
use super::loops::AT_ONCE;
use super::rows::{Key, LONGEST, key};
use super::scalar;
use crate::access::Linear;

/// What lies on the shelf, and where.
#[derive(Clone, Default)]
pub(super) struct Places {
    things: Vec<Thing>,
    /// Bytes for each element of all places.
    pub(super) bytes: i64,
}

/// What several loops access an element for.
#[derive(Clone)]
struct Thing {
    key: Key,
    dtype: Dtype,
    /// The first loop and the last one.
    first: usize,
    last: usize,
    /// Bytes of the places before its own, for each element.
    before: i64,
    /// Whether it need be nowhere else.
    rests: bool,
}

impl Places {
    /// Those of a row, some of whose scratch may rest.
    pub(super) fn of(program: &Program, row: &Block, resting: &BTreeSet<BufferId>) -> Places {
        let stored: BTreeSet<BufferId> = visit::stores(row).into_iter().collect();
        let mut seen: BTreeMap<Key, (usize, usize)> = BTreeMap::new();
        let mut never: BTreeSet<Key> = BTreeSet::new();
        let loops = row.iter().filter_map(|s| if let Statement::Loop(l) = s { Some(l) } else { None });
        for (number, l) in loops.enumerate() {
            let (index, _) = l.dims[0];
            visit::for_each_statement(&l.body, &mut |statement| {
                let Some((buffer, linear)) = access(program, statement) else { return };
                let Some(key) = key(buffer, &linear, index) else { return };
                // Of what happens in a branch it is not known whether it has happened.
                if !l.body.iter().any(|top| std::ptr::eq(top, statement)) {
                    never.insert(key.clone());
                }
                seen.entry(key).or_insert((number, number)).1 = number;
            });
        }
        let mut things = vec![];
        for (key, (first, last)) in seen {
            let buffer = &program.buffers[key.0];
            let rests = buffer.role == Role::Scratch && resting.contains(&key.0);
            if first < last
                && !never.contains(&key)
                && buffer.dtype != Dtype::Bool
                && (rests || !stored.contains(&key.0))
            {
                things.push(Thing { key, dtype: buffer.dtype, first, last, before: 0, rests });
            }
        }
        let mut places = Places { things, bytes: 0 };
        places.share_out();
        places
    }

    /// Gives each thing a place. Wider ones come first: so each lies where its type may.
    fn share_out(&mut self) {
        self.things.sort_by_key(|thing| (std::cmp::Reverse(thing.dtype.bytes()), thing.first));
        // Of each place its width, what is before it, and the last loop that accesses what has it.
        let mut places: Vec<(usize, i64, usize)> = vec![];
        for thing in &mut self.things {
            let width = thing.dtype.bytes();
            let free =
                places.iter_mut().find(|(bytes, _, last)| thing.rests && *bytes == width && *last <= thing.first);
            thing.before = match free {
                Some((_, before, last)) => {
                    *last = thing.last;
                    *before
                }
                None => {
                    places.push((width, self.bytes, thing.last));
                    self.bytes += i64::try_from(width).unwrap_or(0);
                    places[places.len() - 1].1
                }
            };
        }
    }

    /// Scratch that is nowhere else.
    pub(super) fn rest(&self, buffer: BufferId) -> bool {
        self.things.iter().any(|thing| thing.rests && thing.key.0 == buffer)
    }
}

/// What a statement accesses.
fn access(program: &Program, statement: &Statement) -> Option<(BufferId, Linear)> {
    match statement {
        Statement::Let { op: Op::Load { buffer, view, at }, .. } => {
            Some((*buffer, Linear::of(program, *buffer, view.as_deref(), at)))
        }
        Statement::Store { buffer, at, .. } => Some((*buffer, Linear::of(program, *buffer, None, at))),
        _ => None,
    }
}

/// The shelf of a row at hand.
pub(super) struct Shelf {
    pub(super) places: Places,
    /// Where the place of the row's first element would be, by what is before it.
    bases: BTreeMap<i64, Reg>,
    /// What has been put there, before the loop at hand and in it.
    filled: BTreeSet<usize>,
    fills: BTreeSet<usize>,
    /// Whether some of that is on its way.
    comes: bool,
}

impl Emitter<'_> {
    /// A shelf for rows of a length.
    pub(super) fn shelf(&mut self, places: &Places, extent: Reg) -> Shelf {
        let shelf = self.b().mov(Type::U64, Operand::More);
        let behind = self.b().op2(Opcode::Sub, Type::S64, extent, LONGEST);
        let mut bases = BTreeMap::new();
        for thing in &places.things {
            let width = thing.dtype.bytes() as i64;
            bases.entry(thing.before).or_insert_with(|| {
                let place = self.b().op(Opcode::Mad, Type::S64, &[behind.into(), thing.before.into(), shelf.into()]);
                self.b().op2(Opcode::Sub, Type::S64, place, LONGEST * width)
            });
        }
        Shelf { places: places.clone(), bases, filled: BTreeSet::new(), fills: BTreeSet::new(), comes: false }
    }

    /// Begins to copy what the loops of the row will load.
    pub(super) fn fetch_shelf(&mut self, extent: Reg) {
        let Some(mut shelf) = self.shelf.take() else { return };
        for (number, thing) in shelf.places.things.iter().enumerate() {
            let width = thing.dtype.bytes() as i64;
            if thing.rests || width < 4 {
                continue;
            }
            let (buffer, coefficient, rest) = &thing.key;
            let from = self.first_address(*buffer, &Linear { affine: rest.clone(), values: vec![] });
            let Some(row) = from.base else { continue };
            let apart = self.size(&(coefficient * &Size::constant(width)));
            let base = shelf.bases[&thing.before];
            let thread = self.special(Special::Tid);
            let begin = self.b().op2(Opcode::Add, Type::S64, thread, LONGEST);
            let threads = i64::from(self.threads);
            self.counted(begin, extent, threads * AT_ONCE, |e, first| {
                let mine = e.mine(first, extent, threads, AT_ONCE);
                let to = e.b().op(Opcode::Mad, Type::S64, &[first.into(), width.into(), base.into()]);
                for k in 0..AT_ONCE {
                    let number = e.b().op2(Opcode::Add, Type::S64, first, k * threads);
                    let at = e.b().op(Opcode::Mad, Type::S64, &[number.into(), apart.into(), row.into()]);
                    let (to, from) =
                        (Address { base: Some(to), offset: k * threads * width }, Address { base: Some(at), ..from });
                    if let Some(valid) = usize::try_from(k).ok().and_then(|k| mine.valid(k)) {
                        e.b().guarded((valid, true), |b| b.copy_async(to, from, width));
                    }
                }
            });
            shelf.filled.insert(number);
            shelf.comes = true;
        }
        self.shelf = Some(shelf);
    }

    /// Waits for it, the first time.
    pub(super) fn await_shelf(&mut self) {
        let Some(shelf) = &mut self.shelf else { return };
        if std::mem::replace(&mut shelf.comes, false) {
            self.b().await_copies();
            self.sync();
        }
    }

    /// The thing that an access is about, and where the element at hand has its place.
    fn on_shelf(&mut self, buffer: BufferId, linear: &Linear) -> Option<(usize, Thing, Address)> {
        let (index, by) = self.ahead.filter(|_| self.row.is_none())?;
        let key = key(buffer, linear, index)?;
        let shelf = self.shelf.as_ref()?;
        let number = shelf.places.things.iter().position(|thing| thing.key == key)?;
        let (thing, number_of) = (shelf.places.things[number].clone(), self.index(index));
        let base = shelf.bases[&thing.before];
        let width = thing.dtype.bytes() as i64;
        let at = self.b().op(Opcode::Mad, Type::S64, &[number_of.into(), width.into(), base.into()]);
        Some((number, thing, Address { base: Some(at), offset: by * width }))
    }

    /// An element that lies on the shelf.
    pub(super) fn take_from_shelf(&mut self, buffer: BufferId, linear: &Linear) -> Option<Reg> {
        let (number, thing, at) = self.on_shelf(buffer, linear)?;
        let shelf = self.shelf.as_ref()?;
        // What a loop has computed it may load again.
        if !(shelf.filled.contains(&number) || thing.rests && shelf.fills.contains(&number)) {
            return None;
        }
        let ty = scalar::memory(thing.dtype);
        let Some(valid) = self.valid else { return Some(self.b().load(Space::Shared, ty, at)) };
        let to = match ty.class() {
            Class::B16 => self.b().mov(Type::B16, 0),
            Class::B64 => self.b().mov(Type::B64, 0),
            Class::Pred | Class::B32 => self.b().mov(Type::B32, 0),
        };
        self.b().guarded((valid, true), |b| b.load_to(to, Space::Shared, ty, at));
        Some(to)
    }

    /// Puts an element on the shelf, if it has a place there; whether it need be nowhere else.
    pub(super) fn put_on_shelf(&mut self, buffer: BufferId, linear: &Linear, value: Reg) -> bool {
        let Some((number, thing, at)) = self.on_shelf(buffer, linear) else { return false };
        let ty = scalar::memory(thing.dtype);
        match self.valid {
            Some(valid) => self.b().guarded((valid, true), |b| b.store(Space::Shared, ty, value, at)),
            None => self.b().store(Space::Shared, ty, value, at),
        }
        if let Some(shelf) = &mut self.shelf {
            shelf.fills.insert(number);
        }
        thing.rests
    }

    /// What a loop has put on the shelf is there for the next one.
    pub(super) fn settle_shelf(&mut self) {
        let Some(shelf) = &mut self.shelf else { return };
        let fills = std::mem::take(&mut shelf.fills);
        if !fills.is_empty() {
            shelf.filled.extend(fills);
            self.sync();
        }
    }
}
