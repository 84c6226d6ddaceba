//! Merging of states, and the pairwise levels of `ir::order`.
//!
//! Levels are merged on arrival with a binary counter: partial result `n` is merged with the
//! pending one of each level that has its bit set in `n`. At the end, the pending ones are merged
//! from the newest to the oldest. That gives the same pairs as the tree.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use ir::Order;
use ir::nest::Program;
use ir::sabotage::{self, Bug};

use super::emit::Emitter;
use super::state::{offset, own_memory};
use super::{lanes128, scalar};
pub(super) use ir::merging::{Fold, Merging};

/// Code for merging elements by a primitive.
pub(super) trait FoldCode {
    /// The result of an empty reduction.
    fn empty(self, e: &mut Emitter<'_>) -> Value;
    /// Merges two elements. `a` precedes `b` in the order.
    fn join(self, e: &mut Emitter<'_>, a: Value, b: Value) -> Value;
}

impl FoldCode for Fold {
    fn empty(self, e: &mut Emitter<'_>) -> Value {
        scalar::constant(&mut e.b, self.identity())
    }

    fn join(self, e: &mut Emitter<'_>, a: Value, b: Value) -> Value {
        scalar::binary(&mut e.b, &mut e.helpers, self.primitive(), self.dtype, a, b)
    }
}

/// Code for merging states.
pub(super) trait MergingCode {
    /// The state of an empty reduction.
    fn empty(self, e: &mut Emitter<'_>) -> Vec<Value>;
    /// Merges two states, or several of a fold next to each other. `a` precedes `b` in the order.
    fn join(self, e: &mut Emitter<'_>, a: &[Value], b: &[Value]) -> Vec<Value>;
    /// The register types of the state's values.
    fn registers(self, program: &Program) -> Vec<Type>;
}

impl MergingCode for Merging {
    fn empty(self, e: &mut Emitter<'_>) -> Vec<Value> {
        match self {
            Merging::Fold(fold) => vec![fold.empty(e)],
            Merging::Reducer(id) => {
                let program = e.unit.program;
                program.reducers[id].identity.iter().map(|value| scalar::constant(&mut e.b, *value)).collect()
            }
        }
    }

    fn join(self, e: &mut Emitter<'_>, a: &[Value], b: &[Value]) -> Vec<Value> {
        match self {
            Merging::Fold(fold) => a.iter().zip(b).map(|(a, b)| fold.join(e, *a, *b)).collect(),
            Merging::Reducer(id) => e.merge(id, a, b),
        }
    }

    fn registers(self, program: &Program) -> Vec<Type> {
        self.dtypes(program).into_iter().map(scalar::register).collect()
    }
}

/// The layout of values in memory: a state, or several registers of states.
#[derive(Clone)]
pub(super) struct Layout {
    pub(super) types: Vec<Type>,
    /// The distance between values in bytes.
    stride: usize,
}

impl Layout {
    pub(super) fn new(types: Vec<Type>) -> Layout {
        let stride = types.iter().map(|ty| ty.bytes() as usize).max().unwrap_or(1);
        Layout { types, stride }
    }

    pub(super) fn bytes(&self) -> usize {
        self.stride * self.types.len()
    }

    pub(super) fn load(&self, e: &mut Emitter<'_>, base: Value, at: usize) -> Vec<Value> {
        let places = self.types.iter().enumerate();
        places.map(|(k, ty)| e.b.ins().load(*ty, own_memory(), base, offset(at + k * self.stride))).collect()
    }

    pub(super) fn store(&self, e: &mut Emitter<'_>, state: &[Value], base: Value, at: usize) {
        for (k, value) in state.iter().enumerate() {
            e.b.ins().store(own_memory(), *value, base, offset(at + k * self.stride));
        }
    }

    /// The address of item `number` of an array.
    pub(super) fn element(&self, e: &mut Emitter<'_>, base: Value, number: Value) -> Value {
        match self.types.as_slice() {
            [ty] => e.element(base, *ty, number),
            _ => {
                let bytes = e.b.ins().imul_imm_s(number, self.bytes() as i64);
                e.b.ins().iadd(base, bytes)
            }
        }
    }
}

/// The number of levels, enough for any number of partial results.
pub(super) const LEVELS: usize = 64;

/// Pending partial results of pairwise levels: of one reduction, or of one per lane of some
/// registers.
pub(super) struct Levels {
    merging: Merging,
    slots: Value,
    layout: Layout,
}

impl Levels {
    pub(super) fn new(e: &mut Emitter<'_>, merging: Merging) -> Levels {
        let layout = Layout::new(merging.registers(e.unit.program));
        Levels { merging, slots: e.scratch(LEVELS * layout.bytes()), layout }
    }

    /// Levels for `registers` registers of a type. The memory has [`LEVELS`] times their size.
    pub(super) fn of(fold: Fold, ty: Type, registers: usize, slots: Value) -> Levels {
        Levels { merging: Merging::Fold(fold), slots, layout: Layout::new(vec![ty; registers]) }
    }

    fn bytes(&self) -> i64 {
        self.layout.bytes() as i64
    }

    fn empty(&self, e: &mut Emitter<'_>) -> Vec<Value> {
        match self.merging {
            Merging::Fold(fold) => {
                let ty = self.layout.types[0];
                let empty = if ty.is_vector() { lanes128::splat_constant(e, fold.identity()) } else { fold.empty(e) };
                vec![empty; self.layout.types.len()]
            }
            Merging::Reducer(_) => self.merging.empty(e),
        }
    }

    /// Merges the pending result of a slot with a newer one.
    fn join(&self, e: &mut Emitter<'_>, slot: Value, newer: &[Value]) -> Vec<Value> {
        let Merging::Fold(fold) = self.merging else {
            let older = self.layout.load(e, slot, 0);
            return self.merging.join(e, &older, newer);
        };
        // One register after another, which keeps the register pressure low.
        let mut joined = vec![];
        for (k, (newer, ty)) in newer.iter().zip(&self.layout.types).enumerate() {
            let older = e.b.ins().load(*ty, own_memory(), slot, offset(k * self.layout.stride));
            joined.push(fold.join(e, older, *newer));
        }
        joined
    }

    /// Adds partial result `number`.
    pub(super) fn push(&self, e: &mut Emitter<'_>, number: Value, x: &[Value]) {
        let state = e.repeat(&[&[number, self.slots], x].concat(), |e, state| {
            let (bits, slot, x) = (state[0], state[1], &state[2..]);
            // As in counting in binary: partial result 5 (101) finds a pending result in level 0,
            // merges with it, and moves to level 1, which is free, so it stays there.
            let pending = e.b.ins().band_imm_u(bits, 1);
            let joined = e.when(pending, x, |e| self.join(e, slot, x));
            let bits = e.b.ins().ushr_imm_u(bits, 1);
            let up = e.b.ins().imul_imm_s(pending, self.bytes());
            let slot = e.b.ins().iadd(slot, up);
            (pending, [&[bits, slot], joined.as_slice()].concat())
        });
        self.layout.store(e, &state[2..], state[1], 0);
    }

    /// The result of `count` partial results.
    pub(super) fn finish(&self, e: &mut Emitter<'_>, count: Value) -> Vec<Value> {
        let empty = self.empty(e);
        e.when(count, &empty, |e| {
            let state = e.repeat(&[&[count, self.slots], empty.as_slice()].concat(), |e, state| {
                let (bits, slot, sum) = (state[0], state[1], &state[2..]);
                // The bits of the count tell which levels have a pending result: 6 (110) has those
                // of four and of two. The smaller one is the newer, so it is merged first, from the
                // right.
                let pending = e.b.ins().band_imm_u(bits, 1);
                let joined = e.when(pending, sum, |e| self.join(e, slot, sum));
                let bits = e.b.ins().ushr_imm_u(bits, 1);
                let slot = e.b.ins().iadd_imm_s(slot, self.bytes());
                (bits, [&[bits, slot], joined.as_slice()].concat())
            });
            state[2..].to_vec()
        })
    }

    /// Ends a block after its last element, `number`. Returns the accumulator for the next element.
    /// `next` is `number + 1`.
    pub(super) fn block(&self, e: &mut Emitter<'_>, sum: &[Value], number: Value, next: Value) -> Vec<Value> {
        let chunk = Order::Blocks.tree().chunk();
        at_multiple(e, next, chunk, sum, |e| {
            let block = e.b.ins().ushr_imm_u(number, i64::from(chunk.ilog2()));
            self.push(e, block, sum);
            self.empty(e)
        })
    }

    /// The result of `count` elements in the order by blocks. `sum` is that of the last, incomplete
    /// block.
    pub(super) fn finish_blocks(&self, e: &mut Emitter<'_>, sum: &[Value], count: Value) -> Vec<Value> {
        self.finish_chunks(e, Order::Blocks, count, |_, _| sum.to_vec())
    }

    /// The result of `count` elements in an order that joins its chunks by pairwise levels. `last`
    /// computes the result of the last chunk from its number of elements, if it is incomplete.
    pub(super) fn finish_chunks(
        &self,
        e: &mut Emitter<'_>,
        order: Order,
        count: Value,
        last: impl FnOnce(&mut Emitter<'_>, Value) -> Vec<Value>,
    ) -> Vec<Value> {
        let chunk = order.tree().chunk();
        let rest = if sabotage::on(Bug::LostBlock) { e.int(0) } else { e.b.ins().band_imm_u(count, chunk as i64 - 1) };
        e.when(rest, &[], |e| {
            let number = e.b.ins().ushr_imm_u(count, i64::from(chunk.ilog2()));
            let result = last(e, rest);
            self.push(e, number, &result);
            vec![]
        });
        let chunks = ceil_div(e, count, chunk);
        self.finish(e, chunks)
    }
}

/// Runs `then` if `count` is a multiple of a power of two.
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

/// Divides by a power of two, rounding up.
pub(super) fn ceil_div(e: &mut Emitter<'_>, count: Value, by: usize) -> Value {
    let sum = e.b.ins().iadd_imm_s(count, by as i64 - 1);
    e.b.ins().ushr_imm_u(sum, i64::from(by.ilog2()))
}
