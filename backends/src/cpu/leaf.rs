//! Leaves: innermost loops with straight-line bodies, described as data, and the trait for
//! generating vector code from them.
//!
//! A [`Leaf`] is independent of the vector width and of the instructions: it is a list of
//! operations on values that vary with the leaf's index, over operands that are computed before the
//! loop (uniform values, addresses). It is built from the scope of an [`Emitter`], which knows
//! types and buffers. Calls are inlined, and branches without effects become selects.
//! [`LeafEmitter`] has a method for each kind of operation. Its implementations choose the number
//! of elements per vector, and may fall back to scalar code for single operations.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::entity::{PrimaryMap, entity_impl};
use ir::linear::Linear;
use ir::nest::{
    Block, BufferId, Extent, FunctionId, IndexId, Input, Loop, LoopKind, Op, Reduction, Role, Statement, Subscript,
    ValueId,
};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Order, Scalar, Size, UnaryOp, visit};

use super::branch::{Arm, Branch};
use super::emit::Emitter;
use super::fold::{Fold, Merging};
use super::nest::mentions;
use super::whiles::{Steps, carries};

/// A value that varies with the leaf's index, or is treated as if it did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LeafId(u32);
entity_impl!(LeafId, "l");

/// An innermost loop with a straight-line body.
pub(super) struct Leaf {
    pub(super) index: IndexId,
    /// All values of the body with their definitions.
    pub(super) values: PrimaryMap<LeafId, (Dtype, Inst)>,
    /// The body in order.
    pub(super) steps: Vec<LeafStep>,
    /// Scalars to compute once, before the loop.
    pub(super) uniform: Vec<(ValueId, Op)>,
    /// The accesses of loads and stores.
    pub(super) accesses: Vec<Access>,
    /// Values that the caller needs, such as the inputs of reductions.
    pub(super) wanted: Vec<LeafId>,
}

/// One step of the body.
pub(super) enum LeafStep {
    /// Computes a value.
    Value(LeafId),
    /// Writes an element.
    Store { access: usize, value: LeafId },
    /// Computes a scalar that depends on the index of an inner loop.
    Scalar(ValueId, Op),
    /// A loop inside the body, run for all elements at once: column sums, or a pass over columns.
    Nest(Nest),
    /// Computes values, unless no lane needs them.
    Branch(Branch),
    /// A loop over carried scalars.
    While(Steps),
}

/// A loop inside a leaf. Its extents are the same for all elements.
pub(super) struct Nest {
    pub(super) dims: Vec<(IndexId, Extent)>,
    pub(super) body: Vec<LeafStep>,
    pub(super) accumulators: Vec<Accumulator>,
    /// Whether it combines partial results of blocks.
    pub(super) joins: bool,
}

/// A value that a [`Nest`] carries: the state of one of its reductions, or a part of it.
#[derive(Clone)]
pub(super) struct Accumulator {
    pub(super) dtype: Dtype,
    /// Its value before the first element.
    pub(super) identity: Scalar,
    /// Its value before an element, which the body sees, and after it.
    pub(super) current: LeafId,
    pub(super) next: LeafId,
    /// Its value after the last element.
    pub(super) result: LeafId,
    /// If the reduction is in the order by blocks, how it combines their results.
    pub(super) blocks: Option<Blocks>,
}

/// A reduction in the order by blocks.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) fold: Fold,
    /// The element, which is the result of a block already if the loop joins these.
    pub(super) input: LeafId,
}

/// The definition of a value.
#[derive(Clone, Debug)]
pub(super) enum Inst {
    Constant(Scalar),
    /// A scalar from outside of the leaf, or one that is computed before the loop.
    Uniform(ValueId),
    /// `base + coefficient * index`.
    Affine {
        base: Affine<IndexId>,
        coefficient: Size,
    },
    Load(usize),
    Unary(UnaryOp, LeafId),
    Binary(BinaryOp, LeafId, LeafId),
    Compare(CompareOp, LeafId, LeafId),
    Fma(LeafId, LeafId, LeafId),
    Select(LeafId, LeafId, LeafId),
    Cast(LeafId),
    Bitcast(LeafId),
    /// A value that an inner loop defines: the result of a reduction, or a carried value.
    Result,
}

impl Inst {
    fn for_each_operand(&self, visit: &mut impl FnMut(LeafId)) {
        match self {
            Inst::Constant(_) | Inst::Uniform(_) | Inst::Affine { .. } | Inst::Load(_) | Inst::Result => {}
            Inst::Unary(_, a) | Inst::Cast(a) | Inst::Bitcast(a) => visit(*a),
            Inst::Binary(_, a, b) | Inst::Compare(_, a, b) => [*a, *b].into_iter().for_each(visit),
            Inst::Fma(a, b, c) | Inst::Select(a, b, c) => [*a, *b, *c].into_iter().for_each(visit),
        }
    }
}

/// An access of a leaf.
pub(super) struct Access {
    pub(super) buffer: BufferId,
    /// The address at index 0.
    pub(super) start: Linear,
    /// The distance between iterations in elements.
    pub(super) stride: Size,
    /// Subscripts that vary in other ways, with their strides: a gather or scatter.
    pub(super) gathered: Vec<(LeafId, Size)>,
    /// Whether it is inside an inner loop, so that its start depends on the indices there.
    pub(super) inner: bool,
    /// Whether the buffer is scratch that each element of the leaf has a copy of. Copies of
    /// adjacent elements are interleaved.
    pub(super) spread: bool,
}

impl Access {
    /// Whether neighbouring iterations access neighbouring elements.
    pub(super) fn contiguous(&self) -> bool {
        self.gathered.is_empty() && self.stride.as_constant() == Some(1)
    }

    /// The distance in elements from another access, if both are to the same array and the distance
    /// is constant.
    pub(super) fn behind(&self, other: &Access) -> Option<i64> {
        let apart = self.start.affine.sub(&other.start.affine);
        // Their difference is constant only if all indices cancel: a[i + 1] is 1 further than a[i],
        // but a[i, j] is n * i further than a[0, j].
        let alike = self.buffer == other.buffer && self.start.values == other.start.values;
        if alike { apart.as_size().and_then(Size::as_constant) } else { None }
    }
}

/// A way to generate vector code for a leaf. The results have the same bits as the scalar
/// operations, element by element.
pub(super) trait LeafEmitter {
    /// The registers that hold a value for all elements of a step.
    type Vector: Clone;

    fn constant(&mut self, value: Scalar) -> Self::Vector;
    fn uniform(&mut self, dtype: Dtype, value: ValueId) -> Self::Vector;
    fn affine(&mut self, base: &Affine<IndexId>, coefficient: &Size) -> Self::Vector;
    fn load(&mut self, access: usize, gathered: &[Self::Vector]) -> Self::Vector;
    fn store(&mut self, access: usize, gathered: &[Self::Vector], value: &Self::Vector);
    fn unary(&mut self, op: UnaryOp, dtype: Dtype, a: &Self::Vector) -> Self::Vector;
    fn binary(&mut self, op: BinaryOp, dtype: Dtype, a: &Self::Vector, b: &Self::Vector) -> Self::Vector;
    /// A shift by a uniform amount.
    fn shift(&mut self, op: BinaryOp, dtype: Dtype, a: &Self::Vector, amount: &Inst) -> Self::Vector;
    fn compare(&mut self, op: CompareOp, dtype: Dtype, a: &Self::Vector, b: &Self::Vector) -> Self::Vector;
    fn fma(&mut self, dtype: Dtype, a: &Self::Vector, b: &Self::Vector, c: &Self::Vector) -> Self::Vector;
    fn select(&mut self, dtype: Dtype, c: &Self::Vector, a: &Self::Vector, b: &Self::Vector) -> Self::Vector;
    fn cast(&mut self, from: Dtype, to: Dtype, a: &Self::Vector) -> Self::Vector;
    fn bitcast(&mut self, from: Dtype, to: Dtype, a: &Self::Vector) -> Self::Vector;
    /// A minimum or maximum with a constant that is not NaN.
    fn bound(&mut self, op: BinaryOp, dtype: Dtype, a: &Self::Vector, constant: Scalar) -> Self::Vector;
    fn scalar(&mut self, value: ValueId, op: &Op);
    /// Emits an inner loop and defines the results of its reductions in `done`.
    fn nest(&mut self, nest: &Nest, done: &mut Done<Self::Vector>);
    /// Emits a conditional side of a branch and defines its results in `done`.
    fn branch(&mut self, branch: &Branch, done: &mut Done<Self::Vector>);
    /// Emits a loop over carried scalars and defines its results in `done`.
    fn steps(&mut self, steps: &Steps, done: &mut Done<Self::Vector>);
}

/// The values emitted so far.
pub(super) struct Done<V>(Vec<Option<V>>);

impl<V: Clone> Done<V> {
    pub(super) fn new(leaf: &Leaf) -> Done<V> {
        Done(vec![None; leaf.values.len()])
    }

    pub(super) fn get(&self, id: LeafId) -> V {
        self.0[id.as_u32() as usize].clone().expect("steps are in order of definition")
    }

    pub(super) fn set(&mut self, id: LeafId, value: V) {
        self.0[id.as_u32() as usize] = Some(value);
    }
}

impl Leaf {
    /// Emits one step of the leaf. Returns the values that the caller needs.
    pub(super) fn emit<L: LeafEmitter>(&self, l: &mut L) -> Vec<L::Vector> {
        let mut done = Done::new(self);
        self.emit_steps(&self.steps, l, &mut done);
        self.wanted.iter().map(|id| done.get(*id)).collect()
    }

    /// Emits some steps.
    pub(super) fn emit_steps<L: LeafEmitter>(&self, steps: &[LeafStep], l: &mut L, done: &mut Done<L::Vector>) {
        for step in steps {
            match step {
                LeafStep::Scalar(value, op) => l.scalar(*value, op),
                LeafStep::Nest(nest) => l.nest(nest, done),
                LeafStep::Branch(branch) => l.branch(branch, done),
                LeafStep::While(steps) => l.steps(steps, done),
                LeafStep::Store { access, value } => {
                    let gathered = self.gathered::<L>(*access, done);
                    l.store(*access, &gathered, &done.get(*value));
                }
                LeafStep::Value(id) => {
                    let value = self.emit_value(*id, l, done);
                    done.set(*id, value);
                }
            }
        }
    }

    fn gathered<L: LeafEmitter>(&self, access: usize, done: &Done<L::Vector>) -> Vec<L::Vector> {
        self.accesses[access].gathered.iter().map(|(v, _)| done.get(*v)).collect()
    }

    /// Emits a value. Its operands must have been emitted.
    pub(super) fn emit_value<L: LeafEmitter>(&self, id: LeafId, l: &mut L, done: &Done<L::Vector>) -> L::Vector {
        let (dtype, inst) = &self.values[id];
        let dtype = *dtype;
        let of = |id: &LeafId| self.values[*id].0;
        let v = |id: &LeafId| done.get(*id);
        match inst {
            Inst::Constant(c) => l.constant(*c),
            Inst::Uniform(value) => l.uniform(dtype, *value),
            Inst::Affine { base, coefficient } => l.affine(base, coefficient),
            Inst::Load(access) => l.load(*access, &self.gathered::<L>(*access, done)),
            Inst::Unary(op, a) => l.unary(*op, dtype, &v(a)),
            Inst::Binary(op @ (BinaryOp::Shl | BinaryOp::Shr), a, b) if self.is_uniform(*b) => {
                l.shift(*op, dtype, &v(a), &self.values[*b].1)
            }
            // Such as max(x, 0): if one operand is known not to be NaN, fewer instructions suffice.
            Inst::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) => match (self.number(*a), self.number(*b)) {
                (_, Some(constant)) => l.bound(*op, dtype, &v(a), constant),
                (Some(constant), None) => l.bound(*op, dtype, &v(b), constant),
                (None, None) => l.binary(*op, dtype, &v(a), &v(b)),
            },
            Inst::Binary(op, a, b) => l.binary(*op, dtype, &v(a), &v(b)),
            Inst::Compare(op, a, b) => l.compare(*op, of(a), &v(a), &v(b)),
            Inst::Fma(a, b, c) => l.fma(dtype, &v(a), &v(b), &v(c)),
            Inst::Select(c, a, b) => l.select(dtype, &v(c), &v(a), &v(b)),
            Inst::Cast(a) => l.cast(of(a), dtype, &v(a)),
            Inst::Bitcast(a) => l.bitcast(of(a), dtype, &v(a)),
            Inst::Result => v(&id),
        }
    }

    /// The value as a constant, if it is a float and not NaN.
    fn number(&self, id: LeafId) -> Option<Scalar> {
        match self.values[id].1 {
            Inst::Constant(c) if c.dtype().is_float() && !c.is_nan() => Some(c),
            _ => None,
        }
    }

    /// Whether a value is the same for all elements.
    pub(super) fn is_uniform(&self, id: LeafId) -> bool {
        matches!(self.values[id].1, Inst::Constant(_) | Inst::Uniform(_))
    }

    /// The number of operations in the body, without uniform values.
    pub(super) fn weight(&self) -> usize {
        self.weight_of(&self.steps)
    }

    /// The number of operations in some steps.
    pub(super) fn weight_of(&self, steps: &[LeafStep]) -> usize {
        let mut weight = 0;
        self.for_each_step(steps, &mut |step| {
            weight += usize::from(!matches!(step, LeafStep::Value(id) if self.is_uniform(*id)));
        });
        weight
    }

    /// Calls `visit` on every step, including those of inner loops.
    pub(super) fn for_each_step<'l>(&'l self, steps: &'l [LeafStep], visit: &mut impl FnMut(&'l LeafStep)) {
        for step in steps {
            visit(step);
            match step {
                LeafStep::Nest(nest) => self.for_each_step(&nest.body, visit),
                LeafStep::Branch(branch) => self.for_each_step(&branch.steps, visit),
                LeafStep::While(steps) => {
                    self.for_each_step(&steps.condition, visit);
                    self.for_each_step(&steps.body, visit);
                }
                LeafStep::Value(_) | LeafStep::Store { .. } | LeafStep::Scalar(..) => {}
            }
        }
    }

    /// Calls `visit` on every value that the steps use.
    pub(super) fn for_each_use(&self, steps: &[LeafStep], visit: &mut impl FnMut(LeafId)) {
        self.for_each_step(steps, &mut |step| self.for_each_own_use(step, visit));
    }

    /// Calls `visit` on every value that a step uses, without those that its inner steps use.
    pub(super) fn for_each_own_use(&self, step: &LeafStep, visit: &mut impl FnMut(LeafId)) {
        let access = match step {
            LeafStep::Value(id) => {
                let inst = &self.values[*id].1;
                inst.for_each_operand(visit);
                if let Inst::Load(access) = inst { Some(*access) } else { None }
            }
            LeafStep::Store { access, value } => {
                visit(*value);
                Some(*access)
            }
            LeafStep::Nest(nest) => {
                for accumulator in &nest.accumulators {
                    visit(accumulator.next);
                    accumulator.blocks.iter().for_each(|blocks| visit(blocks.input));
                }
                None
            }
            LeafStep::Branch(branch) => {
                branch.for_each_operand(&mut *visit);
                None
            }
            LeafStep::While(steps) => {
                steps.for_each_operand(&mut *visit);
                None
            }
            LeafStep::Scalar(..) => None,
        };
        for (v, _) in access.map_or(&[][..], |access| &self.accesses[access].gathered) {
            visit(*v);
        }
    }

    /// Whether it has a loop over carried scalars.
    pub(super) fn carries(&self) -> bool {
        let mut found = false;
        self.for_each_step(&self.steps, &mut |step| found |= matches!(step, LeafStep::While(_)));
        found
    }

    /// Whether the leaf is processed in strips of elements, because it has inner loops or
    /// per-element scratch.
    pub(super) fn in_strips(&self) -> bool {
        self.steps.iter().any(|s| matches!(s, LeafStep::Nest(_))) || self.accesses.iter().any(|a| a.spread)
    }

    /// Builds a leaf over `index` from a loop body, if possible and profitable. `wanted` are the
    /// values that the caller needs.
    pub(super) fn build(e: &Emitter<'_>, index: IndexId, body: &Block, wanted: &[ValueId]) -> Option<Leaf> {
        let stored: BTreeSet<BufferId> = visit::stores(body).into_iter().collect();
        let is_scratch = |b: &BufferId| e.unit.program.buffers.get(*b).is_some_and(|b| b.role == Role::Scratch);
        let mut spread: BTreeSet<BufferId> = stored.iter().copied().filter(is_scratch).collect();
        // A buffer that is subscripted by the leaf's index has elements for all iterations already.
        visit::for_each_statement(body, &mut |statement| {
            for access in statement.effects().accesses().filter(|access| mentions(access.at, index)) {
                spread.remove(&access.buffer);
            }
        });
        // A leaf with scratch per iteration runs in strips, which return no values.
        if !(spread.is_empty() || wanted.is_empty()) {
            return None;
        }
        let leaf =
            Leaf { index, values: PrimaryMap::new(), steps: vec![], uniform: vec![], accesses: vec![], wanted: vec![] };
        let (names, splats) = (BTreeMap::new(), BTreeMap::new());
        let mut build = Build { e, index, stored, spread, leaf, inside: false, active: None, names, splats };
        build.block(body, true)?;
        // Phases of strips keep no state of loops.
        if build.leaf.in_strips() && carries(body) {
            return None;
        }
        for value in wanted {
            let id = build.varying(*value);
            build.leaf.wanted.push(id);
        }
        super::unused::without_unused(&mut build.leaf);
        super::vectors::worthwhile(e, &build.leaf).then_some(build.leaf)
    }
}

/// How the leaf knows a value of the body. Values from outside are uniform.
#[derive(Clone, Copy)]
pub(super) enum Name {
    Constant(Scalar),
    Uniform,
    Varying(LeafId),
}

/// A leaf under construction.
pub(super) struct Build<'b, 'a> {
    e: &'b Emitter<'a>,
    pub(super) index: IndexId,
    /// Buffers that the body stores to. Loads from them must not be hoisted.
    stored: BTreeSet<BufferId>,
    /// Those that are scratch of a single iteration.
    spread: BTreeSet<BufferId>,
    pub(super) leaf: Leaf,
    /// Whether the current steps are those of an inner loop.
    pub(super) inside: bool,
    /// The elements that the current steps are meant for, unless for all. Steps that only compute
    /// may run for the others too.
    pub(super) active: Option<LeafId>,
    pub(super) names: BTreeMap<ValueId, Name>,
    /// Uniform values that have been broadcast to a vector.
    pub(super) splats: BTreeMap<ValueId, LeafId>,
}

impl Build<'_, '_> {
    /// Returns `None` if the block is not straight-line code. It may only access memory at the
    /// `top` level.
    pub(super) fn block(&mut self, block: &Block, top: bool) -> Option<()> {
        for statement in block {
            match statement {
                Statement::Let { value, op } => {
                    let name = self.op(*value, op, top)?;
                    self.names.insert(*value, name);
                }
                Statement::Store { buffer, at, value } if top => {
                    let access = self.access(*buffer, None, at)?;
                    let value = self.varying(*value);
                    // All iterations would write the same element, which cannot be vectorized.
                    if self.leaf.accesses[access].gathered.is_empty() && self.leaf.accesses[access].stride.is_zero() {
                        return None;
                    }
                    self.leaf.steps.push(LeafStep::Store { access, value });
                }
                // Where all iterations merge into elements of their own.
                Statement::Scatter { buffer, at, value, monoid } if top => {
                    let access = self.access(*buffer, None, at)?;
                    let Access { stride, gathered, spread, .. } = &self.leaf.accesses[access];
                    if stride.is_zero() || !gathered.is_empty() || *spread {
                        return None;
                    }
                    let value = self.varying(*value);
                    let dtype = self.leaf.values[value].0;
                    let before = self.push(dtype, Inst::Load(access));
                    let merged = self.push(dtype, Inst::Binary(monoid.primitive(), before, value));
                    self.leaf.steps.push(LeafStep::Store { access, value: merged });
                }
                Statement::If { condition, then, otherwise, results } => {
                    let condition_id = self.varying(*condition);
                    // If-conversion: both sides are emitted one after the other, and the results
                    // are selected. A side that is expensive is skipped if no lane takes it.
                    let then = self.arm(then, (condition_id, true), results.iter().map(|r| r.1))?;
                    let otherwise = self.arm(otherwise, (condition_id, false), results.iter().map(|r| r.2))?;
                    self.sides(condition_id, then, otherwise);
                    for (result, a, b) in results {
                        let name = self.op(*result, &Op::Select(*condition, *a, *b), false)?;
                        self.names.insert(*result, name);
                    }
                }
                Statement::Loop(l) if top => self.nest(l)?,
                Statement::While(w) => self.carried(w)?,
                Statement::Store { .. } | Statement::Scatter { .. } | Statement::Loop(_) | Statement::Contract(_) => {
                    return None;
                }
            }
        }
        Some(())
    }

    /// One side of a branch: the one for elements with this condition.
    fn arm(
        &mut self,
        block: &Block,
        (condition, taken): (LeafId, bool),
        results: impl Iterator<Item = ValueId>,
    ) -> Option<Arm> {
        self.side(|build| {
            let outer = build.active;
            if carries(block) {
                build.active = Some(build.active_in(condition, taken));
            }
            build.block(block, false)?;
            build.active = outer;
            Some(results.map(|v| build.varying(v)).collect())
        })
    }

    /// Adds a loop of the body.
    fn nest(&mut self, l: &Loop) -> Option<()> {
        let reductions: &[Reduction] = match &l.kind {
            LoopKind::Parallel | LoopKind::Serial => &[],
            LoopKind::Reduce(reductions) => reductions,
            LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => return None,
        };
        // All elements of the leaf must run the inner loop equally often.
        let same = l.dims.iter().all(|(_, extent)| match extent {
            Extent::Affine(affine) => affine.coefficient(self.index).is_zero(),
            Extent::Value(v) => !matches!(self.name(*v), Name::Varying(_)),
        });
        if !same || !reductions.iter().all(|r| matches!(r.order, Order::Blocks | Order::Free)) {
            return None;
        }
        // Collect the steps of the loop's body separately.
        let splats = self.splats.clone();
        let outer = std::mem::take(&mut self.leaf.steps);
        let inside = std::mem::replace(&mut self.inside, true);
        let straight = self.block(&l.body, true);
        let accumulators: Option<Vec<Vec<Accumulator>>> =
            reductions.iter().map(|r| self.accumulators(r, &l.dims)).collect();
        self.inside = inside;
        let body = std::mem::replace(&mut self.leaf.steps, outer);
        // Values that were broadcast inside of the loop are not defined after it, if it has no
        // iterations.
        self.splats = splats;
        straight?;
        let accumulators = accumulators?.concat();
        let results = reductions.iter().flat_map(|r| &r.results);
        for (value, accumulator) in results.zip(&accumulators) {
            self.names.insert(*value, Name::Varying(accumulator.result));
        }
        let joins = l.dims.iter().any(|(index, _)| self.e.unit.part.joins.contains(index));
        self.leaf.steps.push(LeafStep::Nest(Nest { dims: l.dims.clone(), body, accumulators, joins }));
        Some(())
    }

    /// The state of a reduction over some dims, and the steps that merge an element into it.
    fn accumulators(&mut self, r: &Reduction, dims: &[(IndexId, Extent)]) -> Option<Vec<Accumulator>> {
        let mut inputs = vec![];
        for input in &r.inputs {
            inputs.push(match input {
                Input::Value(value) => self.varying(*value),
                Input::Number => {
                    let base = number(dims)?;
                    self.push(Dtype::I64, Inst::Affine { base, coefficient: Size::constant(0) })
                }
            });
        }
        let merging = Merging::of(self.e.scope.dtypes, r);
        let identity: Vec<Scalar> = match merging {
            Merging::Fold(fold) => vec![fold.identity()],
            Merging::Reducer(id) => self.e.unit.program.reducers[id].identity.clone(),
        };
        let dtypes = merging.dtypes(self.e.unit.program);
        let mut result = |dtype: &Dtype| self.leaf.values.push((*dtype, Inst::Result));
        let current: Vec<LeafId> = dtypes.iter().map(&mut result).collect();
        let last: Vec<LeafId> = dtypes.iter().map(&mut result).collect();
        let mut blocks = None;
        let next = match merging {
            Merging::Fold(fold) => {
                let joined = Inst::Binary(fold.primitive(), current[0], inputs[0]);
                let ordered = merging.depends_on_order(self.e.unit.program);
                blocks = ordered.then_some(Blocks { fold, input: inputs[0] });
                vec![self.push(fold.dtype, joined)]
            }
            Merging::Reducer(id) => {
                if merging.depends_on_order(self.e.unit.program) || dtypes.iter().any(|dtype| dtype.is_storage()) {
                    return None;
                }
                let reducer = &self.e.unit.program.reducers[id];
                let mut names: BTreeMap<ValueId, LeafId> =
                    reducer.params.iter().copied().zip(current.iter().chain(&inputs).copied()).collect();
                self.inline(&reducer.body, &reducer.values, &mut names)?;
                reducer.results.iter().map(|value| names.get(value).copied()).collect::<Option<_>>()?
            }
        };
        let mut all = vec![];
        for (((dtype, identity), (current, next)), result) in
            dtypes.into_iter().zip(identity).zip(current.into_iter().zip(next)).zip(last)
        {
            all.push(Accumulator { dtype, identity, current, next, result, blocks });
        }
        Some(all)
    }

    pub(super) fn dtype(&self, v: ValueId) -> Dtype {
        self.e.dtype(v)
    }

    pub(super) fn name(&self, v: ValueId) -> Name {
        self.names.get(&v).copied().unwrap_or(Name::Uniform)
    }

    pub(super) fn push(&mut self, dtype: Dtype, inst: Inst) -> LeafId {
        let id = self.leaf.values.push((dtype, inst));
        self.leaf.steps.push(LeafStep::Value(id));
        id
    }

    /// The value as one that varies.
    pub(super) fn varying(&mut self, v: ValueId) -> LeafId {
        let inst = match self.name(v) {
            Name::Varying(id) => return id,
            Name::Constant(c) => Inst::Constant(c),
            Name::Uniform => Inst::Uniform(v),
        };
        if let Some(id) = self.splats.get(&v) {
            return *id;
        }
        let id = self.push(self.e.dtype(v), inst);
        self.splats.insert(v, id);
        id
    }

    fn op(&mut self, value: ValueId, op: &Op, top: bool) -> Option<Name> {
        let dtype = self.e.dtype(value);
        let mut uniform = true;
        op.for_each_operand(|v| uniform &= !matches!(self.name(v), Name::Varying(_)));
        match op {
            Op::Affine(affine) => uniform = affine.coefficient(self.index).is_zero(),
            Op::Load { .. } if !top => return None,
            Op::Load { buffer, .. } if self.spread.contains(buffer) => uniform = false,
            Op::Load { buffer, at, .. } => {
                uniform &= !mentions(at, self.index);
                if uniform && self.stored.contains(buffer) {
                    return None;
                }
            }
            // Checks are hoisted before the loop, so they must come before all other checks of the
            // body, and at the top level.
            Op::Check { .. } => {
                let nests = self.leaf.steps.iter().any(|s| matches!(s, LeafStep::Nest(_)));
                if !uniform || !top || (nests && !self.inside) {
                    return None;
                }
            }
            Op::Prefix(..) | Op::Place(_) => return None,
            Op::Constant(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Bitcast(..)
            | Op::Call(..) => {}
        }
        if uniform {
            if self.inside {
                // It may depend on the inner loop's index, so it stays in the loop, as a scalar.
                self.leaf.steps.push(LeafStep::Scalar(value, op.clone()));
            } else {
                self.leaf.uniform.push((value, op.clone()));
            }
            return Some(if let Op::Constant(c) = op { Name::Constant(*c) } else { Name::Uniform });
        }
        let inst = match op {
            Op::Affine(affine) => {
                let coefficient = affine.coefficient(self.index);
                let term = Affine::index(self.index).scale(&coefficient);
                // 2 * i + j, for i the leaf's index, has base j and coefficient 2.
                Inst::Affine { base: affine.sub(&term), coefficient }
            }
            Op::Load { buffer, view, at } => Inst::Load(self.access(*buffer, view.as_deref(), at)?),
            Op::Call(function, arguments) => {
                let arguments: Vec<LeafId> = arguments.iter().map(|a| self.varying(*a)).collect();
                return self.call(*function, &arguments).map(Name::Varying);
            }
            other => self.primitive(other, &mut |build, v| Some(build.varying(v)))?,
        };
        Some(Name::Varying(self.push(dtype, inst)))
    }

    /// An operation on values. `get` finds its operands.
    fn primitive(&mut self, op: &Op, get: &mut dyn FnMut(&mut Self, ValueId) -> Option<LeafId>) -> Option<Inst> {
        Some(match op {
            Op::Constant(c) => Inst::Constant(*c),
            Op::Unary(op, a) => Inst::Unary(*op, get(self, *a)?),
            Op::Binary(op, a, b) => Inst::Binary(*op, get(self, *a)?, get(self, *b)?),
            Op::Compare(op, a, b) => Inst::Compare(*op, get(self, *a)?, get(self, *b)?),
            Op::Fma(a, b, c) => Inst::Fma(get(self, *a)?, get(self, *b)?, get(self, *c)?),
            Op::Select(c, a, b) => Inst::Select(get(self, *c)?, get(self, *a)?, get(self, *b)?),
            Op::Cast(_, a) => Inst::Cast(get(self, *a)?),
            Op::Bitcast(_, a) => Inst::Bitcast(get(self, *a)?),
            Op::Affine(_) | Op::Call(..) | Op::Load { .. } | Op::Check { .. } | Op::Prefix(..) | Op::Place(_) => {
                return None;
            }
        })
    }

    /// Inlines a function of the program.
    fn call(&mut self, function: FunctionId, arguments: &[LeafId]) -> Option<LeafId> {
        let function = &self.e.unit.program.functions[function];
        let mut names: BTreeMap<ValueId, LeafId> = BTreeMap::new();
        names.extend(function.params.iter().copied().zip(arguments.iter().copied()));
        self.inline(&function.body, &function.values, &mut names)?;
        names.get(&function.result).copied()
    }

    fn inline(
        &mut self,
        block: &Block,
        dtypes: &ir::build::Values,
        names: &mut BTreeMap<ValueId, LeafId>,
    ) -> Option<()> {
        for statement in block {
            match statement {
                Statement::Let { value, op } => {
                    let inst = self.primitive(op, &mut |_, v| names.get(&v).copied())?;
                    names.insert(*value, self.push(dtypes[*value], inst));
                }
                Statement::If { condition, then, otherwise, results } => {
                    let condition = names.get(condition).copied()?;
                    let then = self.side(|build| {
                        build.inline(then, dtypes, names)?;
                        results.iter().map(|(_, yes, _)| names.get(yes).copied()).collect()
                    })?;
                    let otherwise = self.side(|build| {
                        build.inline(otherwise, dtypes, names)?;
                        results.iter().map(|(.., no)| names.get(no).copied()).collect()
                    })?;
                    let pairs: Vec<_> = then.results.iter().copied().zip(otherwise.results.iter().copied()).collect();
                    self.sides(condition, then, otherwise);
                    for ((result, ..), (yes, no)) in results.iter().zip(pairs) {
                        let id = self.push(dtypes[*result], Inst::Select(condition, yes, no));
                        names.insert(*result, id);
                    }
                }
                Statement::Store { .. }
                | Statement::Scatter { .. }
                | Statement::Loop(_)
                | Statement::While(_)
                | Statement::Contract(_) => {
                    return None;
                }
            }
        }
        Some(())
    }

    /// Returns `None` if per-iteration scratch is accessed at a data-dependent element.
    fn access(&mut self, buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]) -> Option<usize> {
        let mut start = self.e.linear(buffer, view, at);
        let mut stride = start.affine.coefficient(self.index);
        start.affine = start.affine.sub(&Affine::index(self.index).scale(&stride));
        let mut gathered = vec![];
        // A subscript that varies within the leaf becomes part of a gather; the others belong to
        // the start.
        start.values.retain(|(v, stride)| match self.names.get(v) {
            Some(Name::Varying(id)) => {
                gathered.push((*id, stride.clone()));
                false
            }
            _ => true,
        });
        let spread = self.spread.contains(&buffer);
        if spread {
            stride = Size::constant(1);
        }
        if spread && !gathered.is_empty() {
            return None;
        }
        self.leaf.accesses.push(Access { buffer, start, stride, gathered, inner: self.inside, spread });
        Some(self.leaf.accesses.len() - 1)
    }
}

/// The number of an iteration, row-major over some dims.
fn number(dims: &[(IndexId, Extent)]) -> Option<Affine<IndexId>> {
    let mut number = Affine::constant(0);
    for (index, extent) in dims {
        number = number.scale(extent.as_size()?).add(&Affine::index(*index));
    }
    Some(number)
}
