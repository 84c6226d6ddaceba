//! Passes over columns with wide vectors.
//!
//! Each phase of a strip becomes a leaf of its own: straight-line code directly, and a loop over
//! rows as a leaf that runs its body for a few rows at a time. Accumulators, and values that one
//! phase computes for a later one, are in arrays as wide as the strip, which stay in the L1 cache.
//! So each row is read sequentially, and one load and store of the accumulators serves several
//! rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cranelift_codegen::entity::PrimaryMap;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::leaf::{Access, Branch, Inst, Leaf, LeafId, LeafStep, Nest};
use ir::linear::Linear;
use ir::nest::{BufferId, IndexId, Op, ValueId};
use ir::order::BLOCK;
use ir::{Affine, Dtype, Size};

use super::emit::Emitter;
use super::fold::{Fold, LEVELS, ceil_div};
use super::inner_loops::{ColumnRange, axes};
use super::lanes128::Operands;
use super::leaf::LeafEmitter;
use super::phases::{Phase, again, phases, uses};
use super::sizes::STRIP;
use super::state::{Axis, Strip};
use super::wide::elementwise::Ready;
use super::wide::support::has_steps;

/// The number of rows that a leaf processes at once, for bodies with at most this many operations.
const AT_ONCE: [(usize, i64); 2] = [(7, 4), (17, 2)];
/// For a distance between rows in this range (in bytes), rows are processed one at a time. Several
/// streams through the same page defeat the prefetcher (measured: half the speed), unless the rows
/// share cache lines.
const ONE_BY_ONE: (i64, i64) = (129, 4095);

/// The phases of a leaf as leaves with wide vectors.
pub(super) struct Strips<'l> {
    leaf: &'l Leaf,
    operands: Operands,
    passes: Vec<Pass<'l>>,
}

enum Pass<'l> {
    Line(Ready),
    Down(Box<Down<'l>>),
}

/// A loop over the rows of a strip.
struct Down<'l> {
    nest: &'l Nest,
    sums: Vec<BufferId>,
    /// Initializes the accumulators.
    clear: Option<Ready>,
    rows: RowLoop,
}

/// The leaves of a loop over rows: for several rows at once, and for one.
pub(super) struct RowLoop {
    index: IndexId,
    several: Option<(i64, Ready)>,
    one: Ready,
    /// The distance between loaded rows in bytes.
    pitch: Option<Size>,
}

impl<'l> Strips<'l> {
    /// Compiles the phases of a leaf, if all of them are supported with wide vectors.
    pub(super) fn new(e: &mut Emitter<'_>, leaf: &'l Leaf) -> Option<Strips<'l>> {
        if !takes(e, leaf) {
            return None;
        }
        let operands = Operands::new(e, leaf);
        let phases = phases(leaf);
        let uses = uses(leaf, &phases);
        let mut kept: BTreeMap<LeafId, BufferId> = BTreeMap::new();
        for id in uses.iter().flatten().filter(|id| !again(leaf, **id)) {
            kept.entry(*id).or_insert_with(|| e.local(leaf.values[*id].0, STRIP as usize));
        }
        let mut passes = vec![];
        for (phase, uses) in phases.iter().zip(&uses) {
            passes.push(match phase {
                Phase::Line(steps) => {
                    let mut part = PhaseBuilder::new(leaf, uses, &kept);
                    part.steps(steps);
                    for step in *steps {
                        if let LeafStep::Value(id) = step
                            && let Some(buffer) = kept.get(id)
                        {
                            part.store(along(*buffer), part.names[id]);
                        }
                    }
                    Pass::Line(part.ready(e)?)
                }
                Phase::Nest(nest) => {
                    let mut sums = vec![];
                    for a in &nest.accumulators {
                        sums.push(kept.get(&a.result).copied().unwrap_or_else(|| e.local(a.dtype, STRIP as usize)));
                    }
                    let clear = if sums.is_empty() { None } else { Some(clear(e, leaf, nest, &sums)?) };
                    let rows =
                        RowLoop::new(e, leaf, nest, &|| PhaseBuilder::new(leaf, uses, &kept), &|k| along(sums[k]))?;
                    Pass::Down(Box::new(Down { nest, sums, clear, rows }))
                }
            });
        }
        Some(Strips { leaf, operands, passes })
    }

    /// Runs all phases for a strip.
    pub(super) fn run(&self, e: &mut Emitter<'_>, strip: Strip) {
        e.columns.strip = Some(strip);
        for pass in &self.passes {
            match pass {
                Pass::Line(leaf) => leaf.run(e, strip.from, strip.to),
                Pass::Down(down) => {
                    let Down { nest, clear, rows, .. } = &**down;
                    clear.iter().for_each(|leaf| leaf.run(e, strip.from, strip.to));
                    let axes = axes(e, nest);
                    let Some((last, outer)) = axes.split_last() else { continue };
                    if nest.accumulators.iter().any(|a| a.blocks.is_some()) {
                        self.blocks(e, down, last, strip);
                        continue;
                    }
                    e.nest(outer, &[], &mut |e, _| {
                        let zero = e.int(0);
                        rows.run(e, zero..last.extent, strip.from..strip.to);
                        vec![]
                    });
                }
            }
        }
    }

    /// A loop with reductions in the order by blocks.
    fn blocks(&self, e: &mut Emitter<'_>, down: &Down<'_>, axis: &Axis, strip: Strip) {
        let Down { nest, sums, rows, .. } = down;
        let Strip { from, to, .. } = strip;
        let columns = ColumnRange { leaf: self.leaf, operands: &self.operands, strip: Some(strip), from, to };
        let zero = e.int(0);
        // A single block needs no pairwise levels.
        let several = e.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, axis.extent, BLOCK as i64);
        let accumulators: Vec<(Fold, Value, Value)> = nest
            .accumulators
            .iter()
            .zip(sums)
            .filter_map(|(a, sum)| Some((a.blocks?.fold, *sum)))
            .map(|(fold, sum)| (fold, e.base(sum), e.scratch(STRIP as usize * LEVELS * fold.dtype.bytes())))
            .collect();
        let each = |e: &mut Emitter<'_>, finish: bool, number: Value| {
            for (fold, memory, levels) in &accumulators {
                columns.groups(e, 1, &mut |l| {
                    let levels = l.levels_of(*fold, *levels);
                    let sum = l.load_lanes(*memory, fold.dtype);
                    if finish {
                        let sum = levels.finish(l.e, number);
                        l.store_lanes(*memory, fold.dtype, &sum);
                    } else {
                        levels.push(l.e, number, &sum);
                        let empty = l.constant(fold.identity());
                        l.store_lanes(*memory, fold.dtype, &empty);
                    }
                });
            }
        };
        e.counted(zero, axis.extent, BLOCK as i64, &[], |e, first, _| {
            e.poll();
            let past = e.b.ins().iadd_imm_s(first, BLOCK as i64);
            let past = e.least(past, axis.extent);
            rows.run(e, first..past, from..to);
            e.when(several, &[], |e| {
                let number = e.b.ins().ushr_imm_u(first, i64::from(BLOCK.ilog2()));
                each(e, false, number);
                vec![]
            });
            vec![]
        });
        e.when(several, &[], |e| {
            let blocks = ceil_div(e, axis.extent, BLOCK);
            each(e, true, blocks);
            vec![]
        });
    }
}

/// Whether each phase can be a leaf with wide vectors.
fn takes(e: &Emitter<'_>, leaf: &Leaf) -> bool {
    let mut all = has_steps(e, leaf, &leaf.steps);
    for step in &leaf.steps {
        if let LeafStep::Nest(nest) = step {
            let blocks = nest.accumulators.iter().any(|a| a.blocks.is_some());
            all &= !(blocks && (nest.joins || nest.dims.len() != 1));
        }
    }
    all
}

/// An access to an array as wide as the strip.
fn along(buffer: BufferId) -> Access {
    let start = Linear { affine: Affine::constant(0), values: vec![] };
    Access { buffer, start, stride: Size::constant(1), gathered: vec![], inner: false, spread: true }
}

/// A leaf that initializes the accumulators.
fn clear(e: &mut Emitter<'_>, leaf: &Leaf, nest: &Nest, sums: &[BufferId]) -> Option<Ready> {
    let mut part = PhaseBuilder::new(leaf, &BTreeSet::new(), &BTreeMap::new());
    for (a, buffer) in nest.accumulators.iter().zip(sums) {
        let empty = part.push(a.dtype, Inst::Constant(a.identity));
        part.store(along(*buffer), empty);
    }
    part.ready(e)
}

impl RowLoop {
    /// Compiles the loop's body. `begin` creates the leaf, and `accumulator` is the access to an
    /// accumulator.
    pub(super) fn new<'l>(
        e: &mut Emitter<'_>,
        leaf: &Leaf,
        nest: &Nest,
        begin: &dyn Fn() -> PhaseBuilder<'l>,
        accumulator: &dyn Fn(usize) -> Access,
    ) -> Option<RowLoop> {
        let loops = nest.body.iter().any(|step| matches!(step, LeafStep::Nest(_)));
        if loops || !has_steps(e, leaf, &leaf.steps) {
            return None;
        }
        let row = nest.dims.last()?.0;
        // Scalars that each row computes for all columns need distinct names for each of several
        // rows.
        let mut scalars = vec![];
        leaf.for_each_step(&nest.body, &mut |step| {
            if let LeafStep::Scalar(value, _) = step {
                scalars.push(*value);
            }
        });
        let mut body = |count: i64| {
            let mut part = begin();
            let mut state: Vec<LeafId> = vec![];
            for (k, a) in nest.accumulators.iter().enumerate() {
                state.push(part.load(accumulator(k), a.dtype));
            }
            for number in 0..count {
                part.row = Some((row, number));
                // Each row has its own accesses, since these include the row's offset.
                part.accesses.clear();
                if number > 0 {
                    // The first row keeps the names, so that a body of one row needs no new values.
                    part.scalars = scalars.iter().map(|value| (*value, e.new_value(e.dtype(*value)))).collect();
                }
                part.names.extend(nest.accumulators.iter().map(|a| a.current).zip(state));
                part.steps(&nest.body);
                state = nest.accumulators.iter().map(|a| part.names[&a.next]).collect();
            }
            for (k, value) in state.into_iter().enumerate() {
                part.store(accumulator(k), value);
            }
            part.ready(e)
        };
        let weight = leaf.weight_of(&nest.body);
        let calls = nest.body.iter().any(|step| matches!(step, LeafStep::Scalar(_, Op::Call(..))));
        let count = AT_ONCE.iter().find(|(most, _)| weight <= *most && !calls).map(|(_, count)| *count);
        let several = match count {
            Some(count) => Some((count, body(count)?)),
            None => None,
        };
        let one = body(1)?;
        let mut pitch = None;
        leaf.for_each_step(&nest.body, &mut |step| {
            if let LeafStep::Value(id) = step
                && let Inst::Load(access) = leaf.values[*id].1
            {
                let Access { buffer, start, .. } = &leaf.accesses[access];
                let bytes = i64::try_from(e.unit.program.buffers[*buffer].dtype.bytes()).expect("a small number");
                // The first access that moves with the row decides. The others rarely have another
                // pitch.
                let far = &start.affine.coefficient(row) * &Size::constant(bytes);
                pitch = pitch.take().or(Some(far).filter(|far| far.as_constant() != Some(0)));
            }
        });
        Some(RowLoop { index: row, several, one, pitch })
    }

    /// Runs some rows for some columns.
    pub(super) fn run(&self, e: &mut Emitter<'_>, rows: Range<Value>, columns: Range<Value>) {
        let Range { start: from, end: to } = rows;
        let some = |e: &mut Emitter<'_>, Range { start: from, end: to }: Range<Value>, step: i64, leaf: &Ready| {
            e.counted(from, to, step, &[], |e, i, _| {
                e.poll();
                e.bind(self.index, i);
                leaf.run(e, columns.start, columns.end);
                vec![]
            });
        };
        let mut rest = from;
        if let Some((count, leaf)) = &self.several {
            let rows = e.b.ins().isub(to, from);
            // `count` is a power of two: this rounds down to a multiple of it.
            let mut whole = e.b.ins().band_imm_s(rows, -count);
            if let Some(pitch) = &self.pitch {
                let pitch = e.size(pitch);
                // An unsigned comparison checks both bounds of the range of pitches: below the
                // lower bound `beyond` wraps.
                let beyond = e.b.ins().iadd_imm_s(pitch, -ONE_BY_ONE.0);
                let apart = ONE_BY_ONE.1 - ONE_BY_ONE.0;
                let apart = e.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, beyond, apart);
                let none = e.int(0);
                whole = e.b.ins().select(apart, whole, none);
            }
            rest = e.b.ins().iadd(from, whole);
            some(e, from..rest, *count, leaf);
        }
        some(e, rest..to, 1, &self.one);
    }
}

/// A leaf under construction, made of steps of another leaf.
pub(super) struct PhaseBuilder<'l> {
    of: &'l Leaf,
    leaf: Leaf,
    /// The values of the other leaf under their names here.
    names: BTreeMap<LeafId, LeafId>,
    /// The accesses of the other leaf under their numbers here.
    accesses: BTreeMap<usize, usize>,
    /// The scalars that have another name here.
    scalars: BTreeMap<ValueId, ValueId>,
    /// The row index, and the offset from the current row that the steps are for.
    row: Option<(IndexId, i64)>,
}

impl<'l> PhaseBuilder<'l> {
    /// Begins a leaf by reloading or recomputing the values of earlier phases that it uses.
    pub(super) fn new(of: &'l Leaf, uses: &BTreeSet<LeafId>, kept: &BTreeMap<LeafId, BufferId>) -> PhaseBuilder<'l> {
        let leaf = Leaf {
            index: of.index,
            values: PrimaryMap::new(),
            steps: vec![],
            uniform: vec![],
            accesses: vec![],
            wanted: vec![],
        };
        let mut part = PhaseBuilder {
            of,
            leaf,
            names: BTreeMap::new(),
            accesses: BTreeMap::new(),
            scalars: BTreeMap::new(),
            row: None,
        };
        for id in uses {
            match kept.get(id) {
                Some(buffer) => {
                    let value = part.load(along(*buffer), of.values[*id].0);
                    part.names.insert(*id, value);
                }
                // It is cheaper to recompute than to load.
                None => part.steps(&[LeafStep::Value(*id)]),
            }
        }
        part
    }

    fn push(&mut self, dtype: Dtype, inst: Inst) -> LeafId {
        let id = self.leaf.values.push((dtype, inst));
        self.leaf.steps.push(LeafStep::Value(id));
        id
    }

    fn load(&mut self, access: Access, dtype: Dtype) -> LeafId {
        self.leaf.accesses.push(access);
        self.push(dtype, Inst::Load(self.leaf.accesses.len() - 1))
    }

    fn store(&mut self, access: Access, value: LeafId) {
        self.leaf.accesses.push(access);
        self.leaf.steps.push(LeafStep::Store { access: self.leaf.accesses.len() - 1, value });
    }

    /// Appends steps of the other leaf.
    fn steps(&mut self, steps: &[LeafStep]) {
        for step in steps {
            match step {
                LeafStep::Value(id) => {
                    let (dtype, inst) = &self.of.values[*id];
                    let inst = self.inst(inst);
                    let new = self.push(*dtype, inst);
                    self.names.insert(*id, new);
                }
                LeafStep::Store { access, value } => {
                    let (access, value) = (self.access(*access), self.names[value]);
                    self.leaf.steps.push(LeafStep::Store { access, value });
                }
                LeafStep::Scalar(value, op) => {
                    let op = self.op(op);
                    self.leaf.uniform.push((self.scalar(*value), op));
                }
                LeafStep::Branch(branch) => {
                    let condition = (self.names[&branch.condition.0], branch.condition.1);
                    let others: Vec<LeafId> = branch.results.iter().map(|(_, other)| self.names[other]).collect();
                    // `steps` appends to the leaf: collect the branch's steps in an empty list,
                    // then restore that of the leaf.
                    let outer = std::mem::take(&mut self.leaf.steps);
                    self.steps(&branch.steps);
                    let steps = std::mem::replace(&mut self.leaf.steps, outer);
                    let results = branch.results.iter().zip(others).map(|((id, _), other)| (self.names[id], other));
                    self.leaf.steps.push(LeafStep::Branch(Branch { condition, steps, results: results.collect() }));
                }
                LeafStep::Nest(_) | LeafStep::While(_) => unreachable!("loops inside of phases are not taken"),
            }
        }
    }

    /// The name of a scalar here.
    fn scalar(&self, value: ValueId) -> ValueId {
        self.scalars.get(&value).copied().unwrap_or(value)
    }

    /// The definition of a scalar, for the row that the steps are for.
    fn op(&self, op: &Op) -> Op {
        let mut op = op.clone();
        op.for_each_operand_mut(|value| *value = self.scalar(*value));
        op.for_each_affine_mut(&mut |affine| *affine = self.shifted(affine));
        op
    }

    fn inst(&mut self, inst: &Inst) -> Inst {
        let name = |id: &LeafId| self.names[id];
        match inst {
            Inst::Constant(_) => inst.clone(),
            Inst::Uniform(value) => Inst::Uniform(self.scalar(*value)),
            Inst::Affine { base, coefficient } => {
                Inst::Affine { base: self.shifted(base), coefficient: coefficient.clone() }
            }
            Inst::Load(access) => Inst::Load(self.access(*access)),
            Inst::Unary(op, a) => Inst::Unary(*op, name(a)),
            Inst::Binary(op, a, b) => Inst::Binary(*op, name(a), name(b)),
            Inst::Compare(op, a, b) => Inst::Compare(*op, name(a), name(b)),
            Inst::Fma(a, b, c) => Inst::Fma(name(a), name(b), name(c)),
            Inst::Select(c, a, b) => Inst::Select(name(c), name(a), name(b)),
            Inst::Cast(a) => Inst::Cast(name(a)),
            Inst::Bitcast(a) => Inst::Bitcast(name(a)),
            Inst::Result => unreachable!("results of loops are loaded"),
        }
    }

    /// An expression, for the row that the steps are for.
    fn shifted(&self, affine: &Affine<IndexId>) -> Affine<IndexId> {
        let Some((row, number)) = self.row else { return affine.clone() };
        // Row + 2 in place of row, for example, adds twice the row's coefficient.
        affine.add(&Affine::size(affine.coefficient(row)).scale(&Size::constant(number)))
    }

    fn access(&mut self, access: usize) -> usize {
        if let Some(found) = self.accesses.get(&access) {
            return *found;
        }
        let a = &self.of.accesses[access];
        let values = a.start.values.iter().map(|(value, stride)| (self.scalar(*value), stride.clone())).collect();
        let start = Linear { affine: self.shifted(&a.start.affine), values };
        let gathered = a.gathered.iter().map(|(id, stride)| (self.names[id], stride.clone())).collect();
        let (buffer, stride) = (a.buffer, a.stride.clone());
        self.leaf.accesses.push(Access { buffer, start, stride, gathered, inner: false, spread: a.spread });
        self.accesses.insert(access, self.leaf.accesses.len() - 1);
        self.leaf.accesses.len() - 1
    }

    fn ready(self, e: &mut Emitter<'_>) -> Option<Ready> {
        Ready::new(e, self.leaf)
    }
}
