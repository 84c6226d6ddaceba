//! Inner loops of leaves, for 128-bit vectors: groups of columns go down rows with their
//! accumulators in registers.

use std::ops::Range;

use cranelift_codegen::ir::{InstBuilder, Value};
use ir::Dtype;
use ir::leaf::{Leaf, Nest};
use ir::nest::{Extent, IndexId};

use super::emit::Emitter;
use super::fold::{Fold, LEVELS, Levels};
use super::lanes128::{Elements, GROUP, Lanes128, Operands, Registers, vector};
use super::leaf::{Done, Emit, LeafEmitter, is_wide};
use super::state::{Axis, Strip, offset, own_memory};

/// The size of a lane in memory in bytes.
pub(super) fn lane_bytes(dtype: Dtype) -> usize {
    if is_wide(dtype) { 8 } else { 4 }
}

/// The columns `from..to` of a leaf, in a strip if it goes in strips.
#[derive(Clone, Copy)]
pub(super) struct ColumnRange<'l> {
    pub(super) leaf: &'l Leaf,
    pub(super) operands: &'l Operands,
    pub(super) strip: Option<Strip>,
    pub(super) from: Value,
    pub(super) to: Value,
}

impl ColumnRange<'_> {
    /// Runs `body` on the columns, `count` groups of them at a time while there are that many left.
    pub(super) fn groups(&self, e: &mut Emitter<'_>, count: i64, body: &mut dyn FnMut(&mut Lanes128<'_, '_>)) {
        let ColumnRange { leaf, operands, strip, from, to } = *self;
        let at = |i, groups: i64, last| Elements { leaf, operands, i, offset: 0, groups: groups as usize, strip, last };
        let columns = e.b.ins().isub(to, from);
        let mut done = from;
        let mut step = count;
        while step > 0 {
            // With 4 groups of 4 columns: of 30 columns, 16 are one step of four groups, then 12
            // are three steps of a single group, and 2 are left.
            let whole = e.b.ins().band_imm_s(columns, -(step * GROUP));
            let stop = e.b.ins().iadd(from, whole);
            e.counted(done, stop, step * GROUP, &[], |e, i, _| {
                body(&mut Lanes128 { e, at: at(i, step, None) });
                vec![]
            });
            done = stop;
            step = i64::from(step > 1);
        }
        // The remaining columns are a group of their own, with surplus lanes.
        let rest = e.b.ins().band_imm_s(columns, GROUP - 1);
        e.when(rest, &[], |e| {
            let last = e.b.ins().iadd_imm_s(rest, -1);
            body(&mut Lanes128 { e, at: at(done, 1, Some(last)) });
            vec![]
        });
    }
}

pub(super) fn registers(dtype: Dtype) -> i64 {
    if is_wide(dtype) { 2 } else { 1 }
}

/// The number of groups of columns that go down the rows together: as many as the registers allow,
/// given `uses` registers per group, but fewer for long bodies, because their iterations overlap
/// anyway.
pub(super) fn groups_of(leaf: &Leaf, nest: &Nest, uses: i64) -> i64 {
    let sums: i64 = nest.accumulators.iter().map(|a| registers(a.dtype)).sum();
    let by_weight = match leaf.weight_of(&nest.body) {
        0..=9 => 8,
        10..=25 => 4,
        _ => 1,
    };
    // Of 16 registers, about 10 are left for accumulators and values of earlier phases. Round down
    // to a power of two, so that the remainder takes few steps.
    let groups = (10 / (sums + uses).max(1)).clamp(1, by_weight);
    1 << groups.ilog2()
}

/// The result of a reduction of `count` elements.
pub(super) fn finish(e: &mut Emitter<'_>, nest: &Nest, levels: &Levels, sum: &[Value], count: Value) -> Registers {
    if nest.joins { levels.finish(e, count) } else { levels.finish_blocks(e, sum, count) }
}

/// The loops of a nest.
pub(super) fn axes(e: &mut Emitter<'_>, nest: &Nest) -> Vec<Axis> {
    let axis = |(index, extent): &(IndexId, Extent)| Axis { index: *index, merged: vec![], extent: e.extent(extent) };
    nest.dims.iter().map(axis).collect()
}

impl Lanes128<'_, '_> {
    /// The address for the current column in an array as wide as the strip.
    pub(super) fn in_strip(&mut self, memory: Value, bytes: usize) -> Value {
        let Some(strip) = self.at.strip else { return memory };
        let column = self.e.b.ins().isub(self.at.i, strip.from);
        let column = self.e.b.ins().imul_imm_s(column, bytes as i64);
        self.e.b.ins().iadd(memory, column)
    }

    pub(super) fn load_lanes(&mut self, memory: Value, dtype: Dtype) -> Registers {
        let address = self.in_strip(memory, lane_bytes(dtype));
        let ty = vector(dtype, false);
        (0..self.registers(dtype)).map(|k| self.e.b.ins().load(ty, own_memory(), address, offset(16 * k))).collect()
    }

    pub(super) fn store_lanes(&mut self, memory: Value, dtype: Dtype, value: &Registers) {
        let value = if dtype == Dtype::Bool { self.mask(value, false) } else { value.clone() };
        let address = self.in_strip(memory, lane_bytes(dtype));
        for (k, part) in value.into_iter().enumerate() {
            self.e.b.ins().store(own_memory(), part, address, offset(16 * k));
        }
    }

    /// The pairwise levels of a nest's reductions for the current columns.
    pub(super) fn levels_at(&mut self, nest: &Nest, memory: &[Option<Value>]) -> Vec<Option<Levels>> {
        let mut levels = vec![];
        for (a, memory) in nest.accumulators.iter().zip(memory) {
            levels.push(a.blocks.zip(*memory).map(|(blocks, memory)| self.levels_of(blocks.fold, memory)));
        }
        levels
    }

    /// The pairwise levels of a reduction for the current columns.
    pub(super) fn levels_of(&mut self, fold: Fold, memory: Value) -> Levels {
        let slots = self.in_strip(memory, LEVELS * lane_bytes(fold.dtype));
        Levels::of(fold, vector(fold.dtype, false), self.registers(fold.dtype), slots)
    }

    /// Emits an inner loop with its accumulators in registers.
    pub(super) fn nest_in_registers(&mut self, nest: &Nest, done: &mut Done<Registers>) {
        let axes = axes(self.e, nest);
        let mut levels = vec![];
        let mut state = vec![self.e.int(0)];
        for a in &nest.accumulators {
            let (ty, registers) = (vector(a.dtype, false), self.registers(a.dtype));
            levels.push(a.blocks.map(|blocks| {
                let slots = self.e.scratch(LEVELS * registers * 16);
                Levels::of(blocks.fold, ty, registers, slots)
            }));
            state.extend(self.constant(a.identity));
        }
        let last = self.iterate(nest, &axes, None, &levels, &state, done);
        let mut sums = &last[1..];
        for (a, levels) in nest.accumulators.iter().zip(&levels) {
            let (sum, rest) = sums.split_at(self.registers(a.dtype));
            let result = match levels {
                Some(levels) => finish(self.e, nest, levels, sum, last[0]),
                None => sum.to_vec(),
            };
            done.set(a.result, result);
            sums = rest;
        }
    }

    /// Emits the iterations of an inner loop, restricted to `rows` of its first index. The
    /// loop-carried state is the iteration number and the accumulators.
    pub(super) fn iterate(
        &mut self,
        nest: &Nest,
        axes: &[Axis],
        rows: Option<Range<Value>>,
        levels: &[Option<Levels>],
        state: &[Value],
        done: &mut Done<Registers>,
    ) -> Vec<Value> {
        let at = self.at;
        let mut body = |e: &mut Emitter<'_>, state: &[Value]| {
            let mut l = Lanes128 { e, at };
            let mut rest = &state[1..];
            for a in &nest.accumulators {
                let (own, others) = rest.split_at(l.registers(a.dtype));
                done.set(a.current, own.to_vec());
                rest = others;
            }
            at.leaf.emit_steps(&nest.body, &mut l, done);
            let number = state[0];
            let next = l.e.b.ins().iadd_imm_s(number, 1);
            let mut new = vec![next];
            for (a, levels) in nest.accumulators.iter().zip(levels) {
                let sum = l.one_form(a.next, done.get(a.next));
                new.extend(match (levels, a.blocks) {
                    // The elements are partial results already: push each, and leave the
                    // accumulator as it is.
                    (Some(levels), Some(blocks)) if nest.joins => {
                        levels.push(l.e, number, &done.get(blocks.input));
                        done.get(a.current)
                    }
                    (Some(levels), _) => levels.block(l.e, &sum, number, next),
                    (None, _) => sum,
                });
            }
            new
        };
        match (rows, axes.split_first()) {
            (Some(Range { start: from, end: to }), Some((first, others))) => {
                self.e.counted(from, to, 1, state, |e, i, state| {
                    e.bind(first.index, i);
                    e.nest(others, state, &mut body)
                })
            }
            _ => self.e.nest(axes, state, &mut body),
        }
    }
}
