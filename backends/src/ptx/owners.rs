//! Merges into tables of at most 32 elements: each lane of a warp owns an element, and has it in a
//! register while the warp goes through the iterations. All lanes see the value of each iteration,
//! one after another, and the one that owns its element merges it. No element waits for memory.

use std::collections::BTreeMap;

use ir::linear::Linear;
use ir::nest::{Block, BufferId, IndexId, Loop, Statement, Subscript, ValueId};
use ir::sabotage::{self, Bug};
use ir::{Dtype, Monoid, visit};

use super::build::Control;
use super::emit::Emitter;
use super::fold::{number, shuffled};
use super::inst::{Comparison, Opcode, Reg, Rounding, Shuffle, Special, Type};
use super::ordered::LANES;
use super::scalar;

/// The values that lanes are given at a time.
const AT_ONCE: usize = 16;

/// The tables that lanes own the elements of, with the register of a lane's own.
#[derive(Default)]
pub(super) struct Owned {
    pub(super) states: BTreeMap<BufferId, State>,
}

/// The element of a table that a lane owns.
#[derive(Clone, Copy)]
pub(super) struct State {
    reg: Reg,
    monoid: Monoid,
}

/// The lanes that may own elements.
pub(super) struct Owners {
    /// A predicate: there are no more elements than lanes.
    pub(super) few: Reg,
    pub(super) elements: Vec<Element>,
}

/// A table with an element for each value of a subscript.
pub(super) struct Element {
    buffer: BufferId,
    at: Vec<Subscript>,
    key: ValueId,
    length: ir::Size,
    monoid: Monoid,
}

impl Emitter<'_> {
    /// The elements that a loop merges into, if lanes may own them: a single subscript of each is
    /// data, and the others are the same in all iterations.
    pub(super) fn owned(&mut self, l: &Loop) -> Option<Owners> {
        let mut elements: Vec<Element> = vec![];
        let mut apart = true;
        visit::for_each_statement(&l.body, &mut |s| {
            let Statement::Scatter { buffer, at, monoid, .. } = s else { return };
            let element = self.element_by_key(l, *buffer, at, *monoid);
            apart &= element.is_some() && !elements.iter().any(|other| other.buffer == *buffer);
            elements.extend(element);
        });
        if !apart || elements.is_empty() || self.program_loads(&l.body, &elements) {
            return None;
        }
        let few = elements.iter().map(|element| {
            let length = self.size(&element.length);
            self.b().set(Comparison::Le, Type::S64, length, i64::from(LANES))
        });
        let few: Vec<Reg> = few.collect();
        let few = few.into_iter().reduce(|a, b| self.b().op2(Opcode::And, Type::Pred, a, b))?;
        Some(Owners { few, elements })
    }

    /// Whether a block loads an element of the tables otherwise.
    fn program_loads(&self, block: &Block, elements: &[Element]) -> bool {
        let mut loads = false;
        visit::for_each_op(block, &mut |_, op| {
            loads |= op.effects().load.is_some_and(|load| elements.iter().any(|e| e.buffer == load.buffer));
        });
        loads
    }

    fn element_by_key(&self, l: &Loop, buffer: BufferId, at: &[Subscript], monoid: Monoid) -> Option<Element> {
        let of_value = |s: &Subscript| if let Subscript::Value(key) = s { Some(*key) } else { None };
        let mut keys = at.iter().enumerate().filter_map(|(axis, s)| Some((axis, of_value(s)?)));
        let (axis, key) = keys.next().filter(|_| keys.next().is_none())?;
        let is_own = |index: IndexId| l.dims.iter().any(|(own, _)| *own == index);
        let mut same = true;
        for subscript in at {
            if let Subscript::Affine(affine) = subscript {
                same &= !affine.terms().iter().any(|(index, _)| is_own(*index));
            }
        }
        let length = self.program.buffers[buffer].shape[axis].clone();
        same.then(|| Element { buffer, at: at.to_vec(), key, length, monoid })
    }

    /// Emits code while each lane has its elements in registers.
    pub(super) fn with_owners(&mut self, elements: &[Element], make: impl FnOnce(&mut Self, &Owned)) {
        let lane = self.special(Special::Tid);
        let mut owned = Owned::default();
        let mut places = vec![];
        for element in elements {
            self.define(element.key, lane);
            let linear = Linear::of(self.program, element.buffer, None, &element.at);
            let address = self.address(element.buffer, &linear);
            let length = self.size(&element.length);
            let owns = self.b().set(Comparison::Lt, Type::S64, lane, length);
            let (dtype, space) = (self.program.buffers[element.buffer].dtype, self.space(element.buffer));
            let ty = scalar::memory(dtype);
            let loaded = self.masked(owns, |e| e.load(element.buffer, None, &element.at));
            let loaded = number(self.b(), loaded);
            let reg = self.b().copy(loaded);
            owned.states.insert(element.buffer, State { reg, monoid: element.monoid });
            places.push((owns, space, ty, reg, address));
        }
        make(self, &owned);
        for (owns, space, ty, reg, address) in places {
            self.b().guarded(owns, |b| b.store(space, ty, reg, address));
        }
    }

    /// Merges the values of all lanes into the elements that they belong to.
    pub(super) fn merge_by_owners(&mut self, buffer: BufferId, at: &[Subscript], value: ValueId, state: State) {
        let valid = self.masks.valid.expect("threads are masked");
        let key = at.iter().find_map(|s| if let Subscript::Value(key) = s { Some(*key) } else { None });
        let key = self.value(key.expect("an element has a key"));
        let key = self.b().convert(Rounding::Exact, Type::U32, Type::U64, key);
        let thread = self.special(Special::Tid);
        let lane = self.b().convert(Rounding::Exact, Type::U32, Type::U64, thread);
        // The iterations with values for this lane, by a vote about each bit of their keys.
        let mut own = self.b().ballot(valid);
        for bit in 0..LANES.ilog2() {
            let [of_key, of_lane] = [key, lane].map(|number| {
                let bit = self.b().op2(Opcode::And, Type::B32, number, 1i64 << bit);
                self.b().set(Comparison::Ne, Type::U32, bit, 0)
            });
            let set = self.b().ballot(of_key);
            let not = self.b().op(Opcode::Not, Type::B32, &[set.into()]);
            let same = self.b().select(Type::B32, set, not, of_lane);
            own = self.b().op2(Opcode::And, Type::B32, own, same);
        }
        let value = self.value(value);
        let value = number(self.b(), value);
        let dtype = self.program.buffers[buffer].dtype;
        let step = if sabotage::on(Bug::SkippedTurn) { 2 } else { 1 };
        let lanes: Vec<u32> = (0..LANES).step_by(step).collect();
        for lanes in lanes.chunks(AT_ONCE) {
            // Values are on their way together: the assembler leaves shuffles where they are.
            let given: Vec<Reg> =
                lanes.iter().map(|from| shuffled(self.b(), &[value], Shuffle::Of, *from)[0]).collect();
            for (from, given) in lanes.iter().zip(given) {
                let bit = self.b().op2(Opcode::And, Type::B32, own, 1i64 << from);
                let is_own = self.b().set(Comparison::Ne, Type::U32, bit, 0);
                let merged = self.merged(dtype, state, given);
                self.b().guarded(is_own, |b| b.assign(state.reg, merged));
            }
        }
    }

    fn merged(&mut self, dtype: Dtype, state: State, value: Reg) -> Reg {
        let is_bool = dtype == Dtype::Bool;
        let [before, value] = [state.reg, value].map(|reg| if is_bool { scalar::is_set(self.b(), reg) } else { reg });
        let merged = scalar::binary(self.b(), state.monoid.primitive(), dtype, before, value);
        number(self.b(), merged)
    }
}
