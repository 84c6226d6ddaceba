//! What a reduction does with its elements, and how partial results are joined by the pairwise levels of
//! `ir::order`.
//!
//! Levels are joined as the elements come, by a binary counter: partial result number `n` is joined with the pending one of
//! each level whose bit of `n` is set, and at the end what is pending is joined from the newest to the oldest. These
//! are the same pairs.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use ir::ReduceOp;
use ir::order::BLOCK;
use ir::sabotage::{self, Bug};

use super::emit::{Emitter, own_memory};
use super::{lanes128, scalar};
pub(super) use crate::fold::Fold;

impl Fold {
    pub(super) fn empty(self, e: &mut Emitter<'_>) -> Value {
        scalar::constant(&mut e.b, self.identity())
    }

    pub(super) fn join(self, e: &mut Emitter<'_>, a: Value, b: Value) -> Value {
        scalar::binary(&mut e.b, &mut e.helpers, self.primitive(), self.dtype, a, b)
    }

    /// One element more for `argmax` or `argmin`: (best, its number). The first is always taken; after it a better
    /// one, or the first NaN.
    pub(super) fn pick(
        self,
        e: &mut Emitter<'_>,
        (best, at): (Value, Value),
        x: Value,
        number: Value,
    ) -> (Value, Value) {
        let first = e.b.ins().icmp_imm_s(IntCC::Equal, number, 0);
        let op = match self.op {
            ReduceOp::ArgMax if sabotage::on(Bug::LastOfEquals) => ir::CompareOp::Ge,
            ReduceOp::ArgMax => ir::CompareOp::Gt,
            _ => ir::CompareOp::Lt,
        };
        let better = scalar::compare(&mut e.b, op, self.dtype, x, best);
        let mut take = e.b.ins().bor(first, better);
        if self.dtype.is_float() {
            let nan = e.b.ins().fcmp(FloatCC::Unordered, x, x);
            let before = e.b.ins().fcmp(FloatCC::Ordered, best, best);
            let first_nan = e.b.ins().band(nan, before);
            take = e.b.ins().bor(take, first_nan);
        }
        (e.b.ins().select(take, x, best), e.b.ins().select(take, number, at))
    }
}

/// So many levels are enough for any number of partial results.
pub(super) const LEVELS: usize = 64;

/// Pending partial results of pairwise levels: of one reduction, or of one for each lane of some registers.
pub(super) struct Levels {
    fold: Fold,
    slots: Value,
    ty: Type,
    registers: usize,
}

impl Levels {
    pub(super) fn new(e: &mut Emitter<'_>, fold: Fold) -> Levels {
        let ty = scalar::register(fold.dtype);
        Levels::of(fold, ty, 1, e.scratch(LEVELS * ty.bytes() as usize))
    }

    /// Levels of so many registers of a type, in memory of [`LEVELS`] times their bytes.
    pub(super) fn of(fold: Fold, ty: Type, registers: usize, slots: Value) -> Levels {
        Levels { fold, slots, ty, registers }
    }

    fn bytes(&self) -> i64 {
        self.registers as i64 * i64::from(self.ty.bytes())
    }

    fn empty(&self, e: &mut Emitter<'_>) -> Vec<Value> {
        let empty =
            if self.ty.is_vector() { lanes128::splat_constant(e, self.fold.identity()) } else { self.fold.empty(e) };
        vec![empty; self.registers]
    }

    /// What is pending at a slot, joined with what came after it.
    fn join(&self, e: &mut Emitter<'_>, slot: Value, newer: &[Value]) -> Vec<Value> {
        let mut joined = vec![];
        for (k, newer) in newer.iter().enumerate() {
            let older = e.b.ins().load(self.ty, own_memory(), slot, offset(k * self.ty.bytes() as usize));
            joined.push(self.fold.join(e, older, *newer));
        }
        joined
    }

    /// Takes partial result number `number`.
    pub(super) fn push(&self, e: &mut Emitter<'_>, number: Value, x: &[Value]) {
        let state = e.repeat(&[&[number, self.slots], x].concat(), |e, state| {
            let (bits, slot, x) = (state[0], state[1], &state[2..]);
            let pending = e.b.ins().band_imm_u(bits, 1);
            let joined = e.when(pending, x, |e| self.join(e, slot, x));
            let bits = e.b.ins().ushr_imm_u(bits, 1);
            let up = e.b.ins().imul_imm_s(pending, self.bytes());
            let slot = e.b.ins().iadd(slot, up);
            (pending, [&[bits, slot], joined.as_slice()].concat())
        });
        for (k, x) in state[2..].iter().enumerate() {
            e.b.ins().store(own_memory(), *x, state[1], offset(k * self.ty.bytes() as usize));
        }
    }

    /// The result of `count` partial results.
    pub(super) fn finish(&self, e: &mut Emitter<'_>, count: Value) -> Vec<Value> {
        let empty = self.empty(e);
        e.when(count, &empty, |e| {
            let state = e.repeat(&[&[count, self.slots], empty.as_slice()].concat(), |e, state| {
                let (bits, slot, sum) = (state[0], state[1], &state[2..]);
                let pending = e.b.ins().band_imm_u(bits, 1);
                let joined = e.when(pending, sum, |e| self.join(e, slot, sum));
                let bits = e.b.ins().ushr_imm_u(bits, 1);
                let slot = e.b.ins().iadd_imm_s(slot, self.bytes());
                (bits, [&[bits, slot], joined.as_slice()].concat())
            });
            state[2..].to_vec()
        })
    }

    /// The blocks' order, element by element: the sum of the block so far after element `number`, `next` being one more.
    pub(super) fn block(&self, e: &mut Emitter<'_>, sum: &[Value], number: Value, next: Value) -> Vec<Value> {
        at_multiple(e, next, BLOCK, sum, |e| {
            let block = e.b.ins().ushr_imm_u(number, i64::from(BLOCK.ilog2()));
            self.push(e, block, sum);
            self.empty(e)
        })
    }

    /// The result of `count` elements in the blocks' order; `sum` is that of the block that is not full.
    pub(super) fn finish_blocks(&self, e: &mut Emitter<'_>, sum: &[Value], count: Value) -> Vec<Value> {
        let rest = if sabotage::on(Bug::LostBlock) { e.int(0) } else { e.b.ins().band_imm_u(count, BLOCK as i64 - 1) };
        e.when(rest, &[], |e| {
            let block = e.b.ins().ushr_imm_u(count, i64::from(BLOCK.ilog2()));
            self.push(e, block, sum);
            vec![]
        });
        let blocks = ceil_div(e, count, BLOCK);
        self.finish(e, blocks)
    }
}

/// Runs `then` where `count` is a multiple of a power of two.
pub(super) fn at_multiple(
    e: &mut Emitter<'_>,
    count: Value,
    of: usize,
    otherwise: &[Value],
    then: impl FnOnce(&mut Emitter<'_>) -> Vec<Value>,
) -> Vec<Value> {
    let rest = e.b.ins().band_imm_u(count, of as i64 - 1);
    let whole = e.b.ins().icmp_imm_s(IntCC::Equal, rest, 0);
    e.when(whole, otherwise, |e| then(e))
}

/// The quotient by a power of two, rounded up.
pub(super) fn ceil_div(e: &mut Emitter<'_>, count: Value, by: usize) -> Value {
    let sum = e.b.ins().iadd_imm_s(count, by as i64 - 1);
    e.b.ins().ushr_imm_u(sum, i64::from(by.ilog2()))
}

/// A small number of bytes as the offset of an access.
pub(super) fn offset(bytes: usize) -> i32 {
    i32::try_from(bytes).expect("a small offset")
}
