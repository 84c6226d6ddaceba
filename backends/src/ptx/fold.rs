//! The states of reductions: merging, memory, exchange between threads, and the pairwise levels of
//! `ir::order`. In a state, a `bool` is held as a number.

use ir::nest::Program;
use ir::sched::{LEVELS, STATE, register_bytes};
use ir::{Dtype, Monoid, Scalar};

use super::build::{Builder, Control};
use super::emit::Emitter;
use super::inst::{Address, Class, Comparison, Opcode, Operand, Reg, Rounding, Shuffle, Space, Type};
use super::scalar;
use ir::merging::Merging;

fn class(dtype: Dtype) -> Class {
    scalar::memory(dtype).class()
}

fn ty(dtype: Dtype) -> Type {
    match class(dtype) {
        Class::B16 => Type::B16,
        Class::B64 => Type::B64,
        Class::Pred | Class::B32 => Type::B32,
    }
}

/// Code for merging states.
pub(super) trait MergingCode {
    /// The state of an empty reduction.
    fn nothing(self, e: &mut Emitter<'_>) -> Vec<Reg>;
    /// The values that a state holds.
    fn values(self, e: &mut Emitter<'_>, state: &[Reg]) -> Vec<Reg>;
    /// Merges two states. `x` precedes `y` in the order.
    fn merge(self, e: &mut Emitter<'_>, x: &[Reg], y: &[Reg]) -> Vec<Reg>;
    /// A variable for a state, initialized to that of an empty reduction.
    fn variable(self, e: &mut Emitter<'_>) -> Vec<Reg>;
    /// Makes a variable the state of an empty reduction.
    fn clear(self, e: &mut Emitter<'_>, state: &[Reg]);
    /// Merges `more` into a variable.
    fn add(self, e: &mut Emitter<'_>, state: &[Reg], more: &[Reg]);
    /// The size of a state in bytes, in an array of states of one reduction.
    fn bytes(self, program: &Program) -> i64;
    /// The size of a slot that fits the state of any reduction by a primitive, or a larger one.
    fn place(self, program: &Program) -> i64;
    fn load(self, e: &mut Emitter<'_>, space: Space, at: Address) -> Vec<Reg>;
    fn store(self, e: &mut Emitter<'_>, space: Space, state: &[Reg], at: Address);
}

impl MergingCode for Merging {
    fn nothing(self, e: &mut Emitter<'_>) -> Vec<Reg> {
        let identity = match self {
            Merging::Fold(fold) => vec![fold.identity()],
            Merging::Reducer(id) => e.program.reducers[id].identity.clone(),
        };
        let constant = |value| match value {
            Scalar::Bool(v) => e.b().mov(Type::U32, i64::from(v)),
            number => scalar::constant(e.b(), number),
        };
        identity.into_iter().map(constant).collect()
    }

    fn values(self, e: &mut Emitter<'_>, state: &[Reg]) -> Vec<Reg> {
        let dtypes = self.dtypes(e.program);
        let value = |(reg, dtype): (&Reg, Dtype)| if dtype == Dtype::Bool { scalar::is_set(e.b(), *reg) } else { *reg };
        state.iter().zip(dtypes).map(value).collect()
    }

    fn merge(self, e: &mut Emitter<'_>, x: &[Reg], y: &[Reg]) -> Vec<Reg> {
        match self {
            Merging::Fold(fold) => {
                let b = e.b();
                if fold.dtype != Dtype::Bool {
                    return vec![scalar::binary(b, fold.primitive(), fold.dtype, x[0], y[0])];
                }
                // States hold booleans as 0 and 1.
                let op = match fold.op {
                    Monoid::All | Monoid::Min | Monoid::Prod => Opcode::And,
                    Monoid::Any | Monoid::Max | Monoid::Sum => Opcode::Or,
                };
                vec![b.op2(op, Type::B32, x[0], y[0])]
            }
            Merging::Reducer(id) => {
                let arguments = [self.values(e, x), self.values(e, y)].concat();
                let results = e.merge(id, &arguments);
                results.into_iter().map(|reg| number(e.b(), reg)).collect()
            }
        }
    }

    fn variable(self, e: &mut Emitter<'_>) -> Vec<Reg> {
        self.nothing(e).into_iter().map(|reg| e.b().copy(reg)).collect()
    }

    fn clear(self, e: &mut Emitter<'_>, state: &[Reg]) {
        let nothing = self.nothing(e);
        assign(e.b(), state, &nothing);
    }

    fn add(self, e: &mut Emitter<'_>, state: &[Reg], more: &[Reg]) {
        let sum = self.merge(e, state, more);
        assign(e.b(), state, &sum);
    }

    fn bytes(self, program: &Program) -> i64 {
        match self {
            Merging::Fold(fold) => register_bytes(fold.dtype) as i64,
            Merging::Reducer(id) => 8 * program.reducers[id].identity.len() as i64,
        }
    }

    fn place(self, program: &Program) -> i64 {
        self.bytes(program).max(STATE as i64)
    }

    fn load(self, e: &mut Emitter<'_>, space: Space, at: Address) -> Vec<Reg> {
        let place = |k: usize| Address { offset: at.offset + 8 * k as i64, ..at };
        let types = types(self, e.program);
        types.into_iter().enumerate().map(|(k, ty)| e.b().load(space, ty, place(k))).collect()
    }

    fn store(self, e: &mut Emitter<'_>, space: Space, state: &[Reg], at: Address) {
        let types = types(self, e.program);
        for (k, (ty, reg)) in types.into_iter().zip(state).enumerate() {
            e.b().store(space, ty, *reg, Address { offset: at.offset + 8 * k as i64, ..at });
        }
    }
}

fn types(merging: Merging, program: &Program) -> Vec<Type> {
    merging.dtypes(program).into_iter().map(ty).collect()
}

/// The state of the lane that is `by` higher.
pub(super) fn further(b: &mut Builder, state: &[Reg], by: u32) -> Vec<Reg> {
    shuffled(b, state, Shuffle::Down, by)
}

/// The state of another lane of the warp.
pub(super) fn shuffled(b: &mut Builder, state: &[Reg], whose: Shuffle, by: u32) -> Vec<Reg> {
    let one = |b: &mut Builder, reg: Reg| match b.class(reg) {
        Class::B16 => {
            // A shuffle exchanges 32 bits, so shorter values are extended.
            let wide = b.convert(Rounding::Exact, Type::U32, Type::U16, reg);
            let other = b.shuffle(whose, wide, by);
            b.convert(Rounding::Exact, Type::U16, Type::U32, other)
        }
        Class::B64 => {
            // Exchange the halves one after the other.
            let low = b.convert(Rounding::Exact, Type::U32, Type::U64, reg);
            let high = b.op2(Opcode::Shr, Type::U64, reg, 32);
            let high = b.convert(Rounding::Exact, Type::U32, Type::U64, high);
            let [low, high] = [low, high].map(|part| {
                let other = b.shuffle(whose, part, by);
                b.convert(Rounding::Exact, Type::U64, Type::U32, other)
            });
            let high = b.op2(Opcode::Shl, Type::B64, high, 32);
            b.op2(Opcode::Or, Type::B64, low, high)
        }
        Class::Pred | Class::B32 => b.shuffle(whose, reg, by),
    };
    state.iter().map(|reg| one(b, *reg)).collect()
}

/// A value as it is held in a state: a `bool` as a number.
pub(super) fn number(b: &mut Builder, value: Reg) -> Reg {
    if b.class(value) == Class::Pred { scalar::number_of(b, value) } else { value }
}

pub(super) fn assign(b: &mut Builder, to: &[Reg], from: &[Reg]) {
    to.iter().zip(from).for_each(|(to, from)| b.assign(*to, *from));
}

/// Pending partial results of pairwise levels, merged on arrival with a binary counter: partial
/// result `n` is merged with the pending one of each level that has its bit set in `n`. At the end,
/// the pending ones are merged from the newest to the oldest. Only one thread does this.
#[derive(Clone, Copy)]
pub(super) struct Levels {
    pub(super) fold: Merging,
    pub(super) space: Space,
    pub(super) at: i64,
}

impl Levels {
    /// The size of the levels in bytes.
    pub(super) fn bytes(fold: Merging, program: &Program) -> usize {
        LEVELS * fold.place(program) as usize
    }

    fn slot(self, e: &mut Emitter<'_>, level: Reg) -> Address {
        let size = self.fold.place(e.program);
        e.b().element(self.space, self.at, level, size)
    }

    /// The pending partial result of a level.
    pub(super) fn pending(self, e: &mut Emitter<'_>, level: Reg) -> Vec<Reg> {
        let slot = self.slot(e, level);
        self.fold.load(e, self.space, slot)
    }

    /// Adds partial result `number`.
    pub(super) fn push(self, e: &mut Emitter<'_>, number: Reg, state: &[Reg]) {
        let bits = e.b().copy(number);
        let level = e.b().mov(Type::S64, 0);
        let sum: Vec<Reg> = state.iter().map(|reg| e.b().copy(*reg)).collect();
        // Partial result 5 (101), for example, finds a pending one in level 0, merges with it, and
        // stays in level 1, which is free.
        e.while_(
            |e| bit(e.b(), bits),
            |e| {
                let slot = self.slot(e, level);
                let older = self.fold.load(e, self.space, slot);
                let joined = self.fold.merge(e, &older, &sum);
                assign(e.b(), &sum, &joined);
                up(e.b(), bits, level);
            },
        );
        let slot = self.slot(e, level);
        self.fold.store(e, self.space, &sum, slot);
    }

    /// The result of `count` partial results.
    pub(super) fn finish(self, e: &mut Emitter<'_>, count: Reg) -> Vec<Reg> {
        let bits = e.b().copy(count);
        let level = e.b().mov(Type::S64, 0);
        let sum = self.fold.variable(e);
        // The bits of the count tell which levels have a pending result. The result at the lowest
        // level is the newest.
        e.while_(
            |e| e.b().set(Comparison::Ne, Type::S64, bits, 0),
            |e| {
                let pending = bit(e.b(), bits);
                e.when(pending, |e| {
                    let slot = self.slot(e, level);
                    let older = self.fold.load(e, self.space, slot);
                    let joined = self.fold.merge(e, &older, &sum);
                    assign(e.b(), &sum, &joined);
                });
                up(e.b(), bits, level);
            },
        );
        sum
    }
}

/// Whether the lowest bit is set.
fn bit(b: &mut Builder, bits: Reg) -> Reg {
    let last = b.op2(Opcode::And, Type::B64, bits, 1);
    b.set(Comparison::Ne, Type::S64, last, 0)
}

/// Advances to the next bit and level.
fn up(b: &mut Builder, bits: Reg, level: Reg) {
    b.op_to(bits, Opcode::Shr, Type::U64, &[bits.into(), Operand::Int(1)]);
    b.op_to(level, Opcode::Add, Type::S64, &[level.into(), Operand::Int(1)]);
}
