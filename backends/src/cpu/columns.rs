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
use std::ops::Range;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::leaf::{Inst, Leaf, LeafId, LeafStep, Nest};
use ir::nest::{BufferId, Extent, IndexId};
use ir::sched::Tiles;
use ir::{Dtype, Size};

use super::emit::{Emitter, own_memory};
use super::fold::{Fold, LEVELS, Levels, offset};
use super::formula::{Formula, Rule};
use super::lanes128::{Elements, GROUP, Lanes128, Operands, Registers, is_wide, vector};
use super::leaf::{Done, Emit, LeafEmitter};
use super::nest::Axis;
use super::strips::Strips;

/// The maximum number of columns in a strip: with `f32`, a row of it fills a page. (Narrow strips,
/// which would stay in a cache between phases, are slower: rows far apart compete for the same
/// cache sets, and the prefetcher does not help.)
pub(super) const MOST: i64 = Tiles::STRIP;
/// If scratch would exceed `SCRATCH` bytes, strips are narrower, but have at least `LEAST` columns.
const LEAST: i64 = 64;
const SCRATCH: i64 = 32 << 20;
/// The number of `f32` elements in a cache line.
const LINE: i64 = 16;
/// The number of rows that a group of columns processes at a time.
const ROWS: i64 = 16;

/// A strip of columns.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    pub(super) from: Value,
    pub(super) to: Value,
    /// The distance between rows of scratch in columns.
    pub(super) width: Value,
}

/// The requirements of a kernel's passes over columns.
#[derive(Default)]
pub(super) struct Columns {
    /// The last index of the loop that is distributed over threads.
    pub(super) ranged: Option<IndexId>,
    /// Whether strips extend along that index.
    pub(super) strips: bool,
    /// The current strip.
    pub(super) strip: Option<Strip>,
    /// Scratch buffers that each column of a strip has a copy of.
    pub(super) spread: Vec<(BufferId, Width)>,
}

impl Columns {
    /// The number of copies of a scratch buffer that a thread needs.
    pub(super) fn times(&self, buffer: BufferId) -> Formula {
        let widths = self.spread.iter().filter(|(b, _)| *b == buffer).map(|(_, width)| width.formula());
        widths.reduce(|a, b| a.then(Rule::Greater, b)).unwrap_or(Formula::Constant(1))
    }
}

/// The number of columns in a strip.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Width {
    /// The size of scratch per column in bytes.
    scratch: Size,
    /// The total number of columns, if sizes determine it.
    columns: Option<Size>,
}

impl Width {
    /// The number of columns, a multiple of [`LINE`].
    pub(super) fn formula(&self) -> Formula {
        let columns = self.columns.as_ref().map_or(Formula::Constant(MOST), Formula::from);
        let columns = columns.then(Rule::Greater, 1).then(Rule::Lesser, MOST);
        let scratch = Formula::from(&self.scratch).then(Rule::Greater, 1);
        let fit = Formula::Constant(SCRATCH).then(Rule::Over, scratch);
        columns.then(Rule::Lesser, fit.then(Rule::Greater, LEAST)).up_to_multiple(LINE)
    }
}

/// The length of the pieces that threads take, for `total` iterations that are processed in strips:
/// whole strips if there are enough for all threads, and always whole cache lines.
pub(super) fn piece(total: i64, threads: i64, pieces: i64) -> i64 {
    let pieces = (total / MOST).clamp(threads.min(pieces), pieces).max(1);
    let length = total / pieces + i64::from(total % pieces != 0);
    length.saturating_add(LINE - 1) / LINE * LINE
}

/// A part of the body that runs for a whole strip before the next one does.
pub(super) enum Phase<'l> {
    Line(&'l [LeafStep]),
    Nest(&'l Nest),
}

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
        phases.kept.entry(*id).or_insert_with(|| e.scratch(MOST as usize * lane_bytes(leaf.values[*id].0)));
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

/// Whether a value is cheaper to recompute than to load.
pub(super) fn again(leaf: &Leaf, id: LeafId) -> bool {
    leaf.is_uniform(id) || matches!(leaf.values[id].1, Inst::Affine { .. })
}

/// The size of a lane in memory in bytes.
fn lane_bytes(dtype: Dtype) -> usize {
    if is_wide(dtype) { 8 } else { 4 }
}

/// For each phase, the values of earlier phases that it uses.
pub(super) fn uses(leaf: &Leaf, phases: &[Phase<'_>]) -> Vec<BTreeSet<LeafId>> {
    let mut before = BTreeSet::new();
    let mut all = vec![];
    for phase in phases {
        let (mut uses, mut defined) = (BTreeSet::new(), BTreeSet::new());
        let mut scan = |steps: &[LeafStep]| {
            leaf.for_each_use(steps, &mut |id| _ = uses.insert(id));
            leaf.for_each_step(steps, &mut |s| {
                if let LeafStep::Value(id) = s {
                    defined.insert(*id);
                }
            });
        };
        match phase {
            Phase::Line(steps) => scan(steps),
            Phase::Nest(nest) => {
                scan(&nest.body);
                for a in &nest.accumulators {
                    uses.insert(a.next);
                    uses.extend(a.blocks.map(|blocks| blocks.input));
                    defined.insert(a.result);
                }
            }
        }
        uses.retain(|id| before.contains(id));
        before.extend(defined);
        all.push(uses);
    }
    all
}

pub(super) fn phases(leaf: &Leaf) -> Vec<Phase<'_>> {
    let mut phases = vec![];
    for run in leaf.steps.chunk_by(|a, b| !matches!(a, LeafStep::Nest(_)) && !matches!(b, LeafStep::Nest(_))) {
        phases.push(match run {
            [LeafStep::Nest(nest)] => Phase::Nest(nest),
            line => Phase::Line(line),
        });
    }
    phases
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
            .map(|a| self.kept.get(&a.result).copied().unwrap_or_else(|| e.scratch(MOST as usize * 8)))
            .collect();
        let levels: Vec<Option<Value>> = nest
            .accumulators
            .iter()
            .map(|a| a.blocks.map(|_| e.scratch(MOST as usize * LEVELS * lane_bytes(a.dtype))))
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

fn registers(dtype: Dtype) -> i64 {
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
fn finish(e: &mut Emitter<'_>, nest: &Nest, levels: &Levels, sum: &[Value], count: Value) -> Registers {
    if nest.joins { levels.finish(e, count) } else { levels.finish_blocks(e, sum, count) }
}

/// The loops of a nest.
pub(super) fn axes(e: &mut Emitter<'_>, nest: &Nest) -> Vec<Axis> {
    let axis = |(index, extent): &(IndexId, Extent)| Axis { index: *index, merged: vec![], extent: e.extent(extent) };
    nest.dims.iter().map(axis).collect()
}

impl Lanes128<'_, '_> {
    /// The address for the current column in an array as wide as the strip.
    fn in_strip(&mut self, memory: Value, bytes: usize) -> Value {
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
    fn levels_at(&mut self, nest: &Nest, memory: &[Option<Value>]) -> Vec<Option<Levels>> {
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
