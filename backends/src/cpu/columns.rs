//! Leaves with inner loops: passes over columns, vectorized across the columns.
//!
//! Columns are processed in strips. A strip runs one phase of the body after another; a phase is
//! either straight-line code or an inner loop. In a loop, a group of columns walks down a few rows
//! with its accumulators in registers, then the next group does. So each row is read in stretches
//! as wide as the strip, which suits the prefetcher, and the accumulators stay in the cache in
//! between. Values that one phase computes for a later one are stored in arrays as wide as the
//! strip, and so is per-column scratch. If the last columns do not fill a vector, the surplus lanes
//! repeat the last column.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::Size;
use ir::leaf::{Leaf, LeafId, LeafStep, Nest};
use ir::nest::BufferId;

use super::emit::Emitter;
use super::fold::LEVELS;
use super::inner_loops::{ColumnRange, axes, finish, groups_of, lane_bytes, registers};
use super::lanes128::{Lanes128, Operands, Registers};
use super::leaf::{Done, Emit, LeafEmitter};
use super::phases::{Phase, again, phases, uses};
use super::sizes::{STRIP, Width};
use super::state::Strip;
use super::strips::Strips;

/// The number of rows that a group of columns processes at a time.
const ROWS: i64 = 16;

/// The phases of a leaf's body.
struct Phases<'l> {
    leaf: &'l Leaf,
    operands: Operands,
    phases: Vec<Phase<'l>>,
    /// For each phase, the values of earlier phases that it uses.
    uses: Vec<BTreeSet<LeafId>>,
    /// The arrays of values that later phases use.
    kept: BTreeMap<LeafId, Value>,
    strip: Strip,
}

/// Runs the leaf over `from..to`, which must not be empty.
pub(super) fn run(e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) {
    let spread: BTreeSet<BufferId> = leaf.accesses.iter().filter(|a| a.spread).map(|a| a.buffer).collect();
    let mut scratch = Size::default();
    for buffer in spread.iter().map(|b| &e.unit.program.buffers[*b]) {
        let bytes = Size::constant(i64::try_from(buffer.dtype.bytes()).expect("a small number"));
        scratch = &scratch + &buffer.shape.iter().fold(bytes, |product, length| &product * length);
    }
    let width = Width { scratch, columns: e.length(leaf.index).cloned() };
    let width = e.width(width, spread);
    e.columns.strips |= e.columns.ranged == Some(leaf.index);
    let strip = Strip { from, to, width };
    if let Some(strips) = Strips::new(e, leaf) {
        e.repeat(&[from], |e, state| {
            let next = e.b.ins().iadd(state[0], width);
            let stop = e.least(next, to);
            strips.run(e, Strip { from: state[0], to: stop, width });
            (e.b.ins().icmp(IntCC::SignedLessThan, next, to), vec![next])
        });
        return;
    }
    let operands = Operands::new(e, leaf);
    let mut phases = Phases { leaf, operands, phases: phases(leaf), uses: vec![], kept: BTreeMap::new(), strip };
    phases.uses = uses(leaf, &phases.phases);
    // A value for a later phase is kept in memory, in an array as wide as a strip.
    for id in phases.uses.iter().flatten().filter(|id| !again(leaf, **id)) {
        phases.kept.entry(*id).or_insert_with(|| e.scratch(STRIP as usize * lane_bytes(leaf.values[*id].0)));
    }
    // All phases for one strip, then the next strip.
    e.repeat(&[from], |e, state| {
        let next = e.b.ins().iadd(state[0], width);
        phases.strip = Strip { from: state[0], to: e.least(next, to), width };
        for number in 0..phases.phases.len() {
            match phases.phases[number] {
                Phase::Line(steps) => phases.line(e, number, steps),
                Phase::Nest(nest) => phases.nest(e, number, nest),
            }
        }
        (e.b.ins().icmp(IntCC::SignedLessThan, next, to), vec![next])
    });
}

impl Phases<'_> {
    /// Runs `body` on the columns of the strip, group by group.
    fn groups(&self, e: &mut Emitter<'_>, count: i64, body: &mut dyn FnMut(&mut Lanes128<'_, '_>)) {
        let Strip { from, to, .. } = self.strip;
        let columns = ColumnRange { leaf: self.leaf, operands: &self.operands, strip: Some(self.strip), from, to };
        columns.groups(e, count, body);
    }

    /// Reloads or recomputes the values that a phase uses.
    fn restore(&self, l: &mut Lanes128<'_, '_>, number: usize) -> Done<Registers> {
        let mut done = Done::new(self.leaf);
        for id in &self.uses[number] {
            let value = match self.kept.get(id) {
                Some(memory) => l.load_lanes(*memory, self.leaf.values[*id].0),
                None => self.leaf.emit_value(*id, l, &done),
            };
            done.set(*id, value);
        }
        done
    }

    /// Stores a value, if a later phase uses it.
    fn keep(&self, l: &mut Lanes128<'_, '_>, id: LeafId, value: &Registers) {
        if let Some(memory) = self.kept.get(&id) {
            l.store_lanes(*memory, self.leaf.values[id].0, value);
        }
    }

    fn line(&self, e: &mut Emitter<'_>, number: usize, steps: &[LeafStep]) {
        let weight = self.leaf.weight_of(steps);
        // Four groups at a time hide the latency of short bodies. Long ones would only spill.
        self.groups(e, if weight > 16 { 1 } else { 4 }, &mut |l| {
            let mut done = self.restore(l, number);
            self.leaf.emit_steps(steps, l, &mut done);
            for step in steps {
                if let LeafStep::Value(id) = step {
                    self.keep(l, *id, &done.get(*id));
                }
            }
        });
    }

    fn nest(&self, e: &mut Emitter<'_>, number: usize, nest: &Nest) {
        let axes = axes(e, nest);
        let Some((first, others)) = axes.split_first() else { return };
        let sums: Vec<Value> = nest
            .accumulators
            .iter()
            .map(|a| self.kept.get(&a.result).copied().unwrap_or_else(|| e.scratch(STRIP as usize * 8)))
            .collect();
        let levels: Vec<Option<Value>> = nest
            .accumulators
            .iter()
            .map(|a| a.blocks.map(|_| e.scratch(STRIP as usize * LEVELS * lane_bytes(a.dtype))))
            .collect();
        let uses = self.uses[number].iter().filter(|id| self.kept.contains_key(id));
        let groups = groups_of(self.leaf, nest, uses.map(|id| registers(self.leaf.values[*id].0)).sum());
        if !nest.accumulators.is_empty() {
            self.groups(e, groups, &mut |l| {
                for (a, memory) in nest.accumulators.iter().zip(&sums) {
                    let empty = l.constant(a.identity);
                    l.store_lanes(*memory, a.dtype, &empty);
                }
            });
        }
        let mut inner = e.int(1);
        for axis in others {
            inner = e.b.ins().imul(inner, axis.extent);
        }
        let zero = e.int(0);
        // A few rows of all columns, then the next rows.
        e.counted(zero, first.extent, ROWS, &[], |e, row, _| {
            e.poll();
            let next = e.b.ins().iadd_imm_s(row, ROWS);
            let rows = row..e.least(next, first.extent);
            // The number of iterations before these rows, by which the order of a reduction numbers
            // elements.
            let before = e.b.ins().imul(row, inner);
            self.groups(e, groups, &mut |l| {
                let mut done = self.restore(l, number);
                let mut state = vec![before];
                for (a, memory) in nest.accumulators.iter().zip(&sums) {
                    state.extend(l.load_lanes(*memory, a.dtype));
                }
                let levels = l.levels_at(nest, &levels);
                let last = l.iterate(nest, &axes, Some(rows.clone()), &levels, &state, &mut done);
                let mut last = &last[1..];
                for (a, memory) in nest.accumulators.iter().zip(&sums) {
                    let (sum, rest) = last.split_at(l.registers(a.dtype));
                    l.store_lanes(*memory, a.dtype, &sum.to_vec());
                    last = rest;
                }
            });
            vec![]
        });
        if levels.iter().any(Option::is_some) {
            let count = e.b.ins().imul(first.extent, inner);
            self.groups(e, groups, &mut |l| {
                for ((a, memory), levels) in nest.accumulators.iter().zip(&sums).zip(l.levels_at(nest, &levels)) {
                    let Some(levels) = levels else { continue };
                    let sum = l.load_lanes(*memory, a.dtype);
                    let result = finish(l.e, nest, &levels, &sum, count);
                    l.store_lanes(*memory, a.dtype, &result);
                }
            });
        }
    }
}
