//! What a reduction does with its elements: a state of one register, or of two for `argmax` and `argmin`; how states are
//! joined, kept in memory and passed between threads; and the pairwise levels of `ir::order`.
//!
//! A `bool` is a number here. Of `argmax`, the second register is the element's number, -1 for no element.

use ir::sabotage::{self, Bug};
use ir::{BinaryOp, CompareOp, Dtype, Scalar};

use super::build::{Builder, Control};
use super::inst::{Address, Class, Comparison, Opcode, Operand, Reg, Rounding, Shuffle, Space, Type};
use super::scalar;
use crate::fold::Fold;

/// Bytes that a state takes in memory.
pub(super) const STATE: i64 = 16;
/// So many levels are enough for any number of partial results.
const LEVELS: usize = 64;

impl Fold {
    fn class(self) -> Class {
        scalar::memory(self.dtype).class()
    }

    fn ty(self) -> Type {
        match self.class() {
            Class::B16 => Type::B16,
            Class::B64 => Type::B64,
            Class::Pred | Class::B32 => Type::B32,
        }
    }

    fn types(self) -> Vec<Type> {
        if self.is_arg() { vec![self.ty(), Type::S64] } else { vec![self.ty()] }
    }

    /// The state of no elements.
    pub(super) fn nothing(self, b: &mut Builder) -> Vec<Reg> {
        if self.is_arg() {
            return vec![b.mov(self.ty(), 0), b.mov(Type::S64, -1)];
        }
        match self.identity() {
            Scalar::Bool(v) => vec![b.mov(Type::U32, i64::from(v))],
            number => vec![scalar::constant(b, number)],
        }
    }

    /// The state of one element.
    pub(super) fn one(self, b: &mut Builder, value: Reg, number: Reg) -> Vec<Reg> {
        let value = if self.dtype == Dtype::Bool { scalar::number_of(b, value) } else { value };
        if self.is_arg() { vec![value, number] } else { vec![value] }
    }

    /// What a state says.
    pub(super) fn result(self, b: &mut Builder, state: &[Reg]) -> Reg {
        match self.dtype {
            _ if self.is_arg() => b.op2(Opcode::Max, Type::S64, state[1], 0),
            Dtype::Bool => scalar::is_set(b, state[0]),
            _ => state[0],
        }
    }

    /// Two states as one, the first of earlier elements.
    pub(super) fn merge(self, b: &mut Builder, x: &[Reg], y: &[Reg]) -> Vec<Reg> {
        if self.is_arg() {
            return self.better(b, x, y);
        }
        vec![match (self.dtype, self.primitive()) {
            (Dtype::Bool, BinaryOp::And | BinaryOp::Min) => b.op2(Opcode::And, Type::B32, x[0], y[0]),
            (Dtype::Bool, _) => b.op2(Opcode::Or, Type::B32, x[0], y[0]),
            (dtype, op) => scalar::binary(b, op, dtype, x[0], y[0]),
        }]
    }

    /// The better of two elements: the first NaN, the greater or lesser, the first of equals.
    fn better(self, b: &mut Builder, x: &[Reg], y: &[Reg]) -> Vec<Reg> {
        let above = |b: &mut Builder, x: Reg, y: Reg| {
            let op = match self.primitive() {
                BinaryOp::Max if sabotage::on(Bug::PtxTie) => CompareOp::Ge,
                BinaryOp::Max => CompareOp::Gt,
                _ => CompareOp::Lt,
            };
            let (dtype, x, y) = match self.dtype {
                Dtype::Bool => (Dtype::U32, x, y),
                Dtype::F16 | Dtype::Bf16 => {
                    let wide = [x, y].map(|v| scalar::cast(b, Dtype::F32, self.dtype, v));
                    (Dtype::F32, wide[0], wide[1])
                }
                dtype => (dtype, x, y),
            };
            let greater = scalar::compare(b, op, dtype, x, y);
            if !dtype.is_float() {
                return greater;
            }
            let ty = scalar::arithmetic(dtype);
            let nan = b.set(Comparison::Nan, ty, x, x);
            let number = b.set(Comparison::Eq, ty, y, y);
            let first_nan = b.op2(Opcode::And, Type::Pred, nan, number);
            b.op2(Opcode::Or, Type::Pred, greater, first_nan)
        };
        let later = above(b, y[0], x[0]);
        let earlier = above(b, x[0], y[0]);
        let before = b.set(Comparison::Lt, Type::S64, y[1], x[1]);
        let not_earlier = b.op(Opcode::Not, Type::Pred, &[earlier.into()]);
        let tie = b.op2(Opcode::And, Type::Pred, not_earlier, before);
        let wins = b.op2(Opcode::Or, Type::Pred, later, tie);
        let is_one = b.set(Comparison::Ge, Type::S64, y[1], 0);
        let wins = b.op2(Opcode::And, Type::Pred, wins, is_one);
        let alone = b.set(Comparison::Lt, Type::S64, x[1], 0);
        let wins = b.op2(Opcode::Or, Type::Pred, wins, alone);
        vec![b.select(self.ty(), y[0], x[0], wins), b.select(Type::B64, y[1], x[1], wins)]
    }

    /// A state that is written anew.
    pub(super) fn variable(self, b: &mut Builder) -> Vec<Reg> {
        self.nothing(b).into_iter().map(|reg| b.copy(reg)).collect()
    }

    pub(super) fn clear(self, b: &mut Builder, state: &[Reg]) {
        let nothing = self.nothing(b);
        assign(b, state, &nothing);
    }

    /// Takes a state into a variable one.
    pub(super) fn add(self, b: &mut Builder, state: &[Reg], more: &[Reg]) {
        let sum = self.merge(b, state, more);
        assign(b, state, &sum);
    }

    /// Bytes that a state takes where many lie side by side.
    pub(super) fn bytes(self) -> i64 {
        match self.class() {
            _ if self.is_arg() => STATE,
            Class::B16 => 2,
            Class::Pred | Class::B32 => 4,
            Class::B64 => 8,
        }
    }

    pub(super) fn load(self, b: &mut Builder, space: Space, at: Address) -> Vec<Reg> {
        let place = |k: usize| Address { offset: at.offset + 8 * k as i64, ..at };
        self.types().into_iter().enumerate().map(|(k, ty)| b.load(space, ty, place(k))).collect()
    }

    pub(super) fn store(self, b: &mut Builder, space: Space, state: &[Reg], at: Address) {
        for (k, (ty, reg)) in self.types().into_iter().zip(state).enumerate() {
            b.store(space, ty, *reg, Address { offset: at.offset + 8 * k as i64, ..at });
        }
    }

    /// The state of the thread so many further in the warp.
    pub(super) fn further(self, b: &mut Builder, state: &[Reg], by: u32) -> Vec<Reg> {
        self.of(b, state, Shuffle::Down, by)
    }

    /// The state of another thread of the warp.
    pub(super) fn of(self, b: &mut Builder, state: &[Reg], whose: Shuffle, by: u32) -> Vec<Reg> {
        let one = |b: &mut Builder, reg: Reg| match b.class(reg) {
            Class::B16 => {
                let wide = b.convert(Rounding::Exact, Type::U32, Type::U16, reg);
                let other = b.shuffle(whose, wide, by);
                b.convert(Rounding::Exact, Type::U16, Type::U32, other)
            }
            Class::B64 => {
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
}

pub(super) fn assign(b: &mut Builder, to: &[Reg], from: &[Reg]) {
    to.iter().zip(from).for_each(|(to, from)| b.assign(*to, *from));
}

/// Pending partial results of pairwise levels, joined as they come by a binary counter: number `n` is joined with what is pending at each
/// level whose bit of `n` is set, and at the end what is pending is joined from the newest to the oldest. One thread does it.
#[derive(Clone, Copy)]
pub(super) struct Levels {
    pub(super) fold: Fold,
    pub(super) space: Space,
    pub(super) at: i64,
}

impl Levels {
    pub(super) const BYTES: usize = LEVELS * STATE as usize;

    fn slot(self, b: &mut Builder, level: Reg) -> Address {
        b.element(self.space, self.at, level, STATE)
    }

    /// What is pending at a level.
    pub(super) fn pending(self, b: &mut Builder, level: i64) -> Vec<Reg> {
        let level = b.mov(Type::S64, level);
        let slot = self.slot(b, level);
        self.fold.load(b, self.space, slot)
    }

    /// Takes partial result `number`.
    pub(super) fn push(self, b: &mut Builder, number: Reg, state: &[Reg]) {
        let bits = b.copy(number);
        let level = b.mov(Type::S64, 0);
        let sum: Vec<Reg> = state.iter().map(|reg| b.copy(*reg)).collect();
        b.while_(
            |b| bit(b, bits),
            |b| {
                let slot = self.slot(b, level);
                let older = self.fold.load(b, self.space, slot);
                let joined = self.fold.merge(b, &older, &sum);
                assign(b, &sum, &joined);
                up(b, bits, level);
            },
        );
        let slot = self.slot(b, level);
        self.fold.store(b, self.space, &sum, slot);
    }

    /// The state of `count` partial results.
    pub(super) fn finish(self, b: &mut Builder, count: Reg) -> Vec<Reg> {
        let bits = b.copy(count);
        let level = b.mov(Type::S64, 0);
        let sum = self.fold.variable(b);
        b.while_(
            |b| b.set(Comparison::Ne, Type::S64, bits, 0),
            |b| {
                let pending = bit(b, bits);
                b.when(pending, |b| {
                    let slot = self.slot(b, level);
                    let older = self.fold.load(b, self.space, slot);
                    let joined = self.fold.merge(b, &older, &sum);
                    assign(b, &sum, &joined);
                });
                up(b, bits, level);
            },
        );
        sum
    }
}

/// Whether the last bit is set.
fn bit(b: &mut Builder, bits: Reg) -> Reg {
    let last = b.op2(Opcode::And, Type::B64, bits, 1);
    b.set(Comparison::Ne, Type::S64, last, 0)
}

/// The next bit and level.
fn up(b: &mut Builder, bits: Reg, level: Reg) {
    b.op_to(bits, Opcode::Shr, Type::U64, &[bits.into(), Operand::Int(1)]);
    b.op_to(level, Opcode::Add, Type::S64, &[level.into(), Operand::Int(1)]);
}
