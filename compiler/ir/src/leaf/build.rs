//! Builds the vector form of a loop.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::PrimaryMap;

use super::branch::Arm;
use super::steps::carries;
use super::{Access, Accumulator, Blocks, Inst, Leaf, LeafId, LeafStep, Nest, Obstacle};
use crate::build::Values;
use crate::linear::{Linear, mentions};
use crate::merging::Merging;
use crate::nest::{
    Block, BufferId, Extent, FunctionId, IndexId, Input, Loop, LoopKind, Op, Program, Reduction, Role, Statement,
    Subscript, ValueId,
};
use crate::{Affine, Dtype, Order, Scalar, Size, visit};

/// A loop, as far as its vector form depends on where it stands.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The program.
    pub program: &'a Program,
    /// The types of the values in scope.
    pub dtype: &'a dyn Fn(ValueId) -> Dtype,
    /// See [`crate::sched::Part::joins`].
    pub joins: &'a [IndexId],
}

type Result<T = ()> = std::result::Result<T, Obstacle>;

impl Leaf {
    /// The vector form of a loop over `index`. `wanted` are the values that the caller needs, such
    /// as the inputs of reductions.
    ///
    /// # Errors
    /// The obstacle that keeps its iterations from running in vectors.
    pub fn build(site: Site<'_>, index: IndexId, body: &Block, wanted: &[ValueId]) -> Result<Leaf> {
        let stored: BTreeSet<BufferId> = visit::stores(body).into_iter().collect();
        let is_scratch = |b: &BufferId| site.program.buffers.get(*b).is_some_and(|b| b.role == Role::Scratch);
        let mut spread: BTreeSet<BufferId> = stored.iter().copied().filter(is_scratch).collect();
        // A buffer that is subscripted by the leaf's index has elements for all iterations already.
        visit::for_each_statement(body, &mut |statement| {
            for access in statement.effects().accesses().filter(|access| mentions(access.at, index)) {
                spread.remove(&access.buffer);
            }
        });
        // A leaf with scratch per iteration runs in strips, which return no values.
        if !(spread.is_empty() || wanted.is_empty()) {
            return Err(Obstacle::Scratch);
        }
        let leaf =
            Leaf { index, values: PrimaryMap::new(), steps: vec![], uniform: vec![], accesses: vec![], wanted: vec![] };
        let (names, splats) = (BTreeMap::new(), BTreeMap::new());
        let mut build = Build { site, index, stored, spread, leaf, inside: false, active: None, names, splats };
        build.block(body, true)?;
        // Phases of strips keep no state of loops.
        if build.leaf.in_strips() && carries(body) {
            return Err(Obstacle::Carries);
        }
        for value in wanted {
            let id = build.varying(*value);
            build.leaf.wanted.push(id);
        }
        super::unused::without_unused(&mut build.leaf);
        let leaf = build.leaf;
        if leaf.is_across() {
            return Err(Obstacle::Across);
        }
        let has_loops = leaf.steps.iter().any(|step| matches!(step, LeafStep::Nest(_)));
        if has_loops && !leaf.is_native() { Err(Obstacle::Slow) } else { Ok(leaf) }
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
pub(super) struct Build<'a> {
    site: Site<'a>,
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

impl Build<'_> {
    /// Adds the steps of a block of straight-line code, which accesses memory only at the `top`
    /// level.
    pub(super) fn block(&mut self, block: &Block, top: bool) -> Result {
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
                        return Err(Obstacle::SameElement);
                    }
                    self.leaf.steps.push(LeafStep::Store { access, value });
                }
                // Where all iterations merge into elements of their own.
                Statement::Scatter { buffer, at, value, monoid } if top => {
                    let access = self.access(*buffer, None, at)?;
                    let Access { stride, gathered, spread, .. } = &self.leaf.accesses[access];
                    if stride.is_zero() || !gathered.is_empty() || *spread {
                        return Err(Obstacle::Shared);
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
                Statement::Contract(_) => return Err(Obstacle::Product),
                Statement::Store { .. } | Statement::Scatter { .. } | Statement::Loop(_) => {
                    return Err(Obstacle::Branch);
                }
            }
        }
        Ok(())
    }

    /// One side of a branch: the one for elements with this condition.
    fn arm(
        &mut self,
        block: &Block,
        (condition, taken): (LeafId, bool),
        results: impl Iterator<Item = ValueId>,
    ) -> Result<Arm> {
        self.side(|build| {
            let outer = build.active;
            if carries(block) {
                build.active = Some(build.active_in(condition, taken));
            }
            build.block(block, false)?;
            build.active = outer;
            Ok(results.map(|v| build.varying(v)).collect())
        })
    }

    /// Adds a loop of the body.
    fn nest(&mut self, l: &Loop) -> Result {
        let reductions: &[Reduction] = match &l.kind {
            LoopKind::Parallel | LoopKind::Serial => &[],
            LoopKind::Reduce(reductions) => reductions,
            LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => return Err(Obstacle::InOrder),
        };
        // All elements of the leaf must run the inner loop equally often.
        let same = l.dims.iter().all(|(_, extent)| match extent {
            Extent::Affine(affine) => affine.coefficient(self.index).is_zero(),
            Extent::Value(v) => !matches!(self.name(*v), Name::Varying(_)),
        });
        if !same {
            return Err(Obstacle::Lengths);
        }
        if !reductions.iter().all(|r| matches!(r.order, Order::Blocks | Order::Free)) {
            return Err(Obstacle::InOrder);
        }
        // Collect the steps of the loop's body separately.
        let splats = self.splats.clone();
        let outer = std::mem::take(&mut self.leaf.steps);
        let inside = std::mem::replace(&mut self.inside, true);
        let straight = self.block(&l.body, true);
        let accumulators: Result<Vec<Vec<Accumulator>>> =
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
        let joins = l.dims.iter().any(|(index, _)| self.site.joins.contains(index));
        self.leaf.steps.push(LeafStep::Nest(Nest { dims: l.dims.clone(), body, accumulators, joins }));
        Ok(())
    }

    /// The state of a reduction over some dims, and the steps that merge an element into it.
    fn accumulators(&mut self, r: &Reduction, dims: &[(IndexId, Extent)]) -> Result<Vec<Accumulator>> {
        let mut inputs = vec![];
        for input in &r.inputs {
            inputs.push(match input {
                Input::Value(value) => self.varying(*value),
                Input::Number => {
                    let base = number(dims).ok_or(Obstacle::Lengths)?;
                    self.push(Dtype::I64, Inst::Affine { base, coefficient: Size::constant(0) })
                }
            });
        }
        let merging = Merging::new(self.site.dtype, r.merge, &r.inputs);
        let identity: Vec<Scalar> = match merging {
            Merging::Fold(fold) => vec![fold.identity()],
            Merging::Reducer(id) => self.site.program.reducers[id].identity.clone(),
        };
        let dtypes = merging.dtypes(self.site.program);
        let mut result = |dtype: &Dtype| self.leaf.values.push((*dtype, Inst::Result));
        let current: Vec<LeafId> = dtypes.iter().map(&mut result).collect();
        let last: Vec<LeafId> = dtypes.iter().map(&mut result).collect();
        let mut blocks = None;
        let next = match merging {
            Merging::Fold(fold) => {
                let joined = Inst::Binary(fold.primitive(), current[0], inputs[0]);
                let ordered = merging.depends_on_order(self.site.program);
                blocks = ordered.then_some(Blocks { fold, input: inputs[0] });
                vec![self.push(fold.dtype, joined)]
            }
            Merging::Reducer(id) => {
                if merging.depends_on_order(self.site.program) || dtypes.iter().any(|dtype| dtype.is_storage()) {
                    return Err(Obstacle::InOrder);
                }
                let reducer = &self.site.program.reducers[id];
                let mut names: BTreeMap<ValueId, LeafId> =
                    reducer.params.iter().copied().zip(current.iter().chain(&inputs).copied()).collect();
                self.inline(&reducer.body, &reducer.values, &mut names)?;
                reducer.results.iter().map(|value| names[value]).collect()
            }
        };
        let mut all = vec![];
        for (((dtype, identity), (current, next)), result) in
            dtypes.into_iter().zip(identity).zip(current.into_iter().zip(next)).zip(last)
        {
            all.push(Accumulator { dtype, identity, current, next, result, blocks });
        }
        Ok(all)
    }

    pub(super) fn dtype(&self, v: ValueId) -> Dtype {
        (self.site.dtype)(v)
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
        let id = self.push(self.dtype(v), inst);
        self.splats.insert(v, id);
        id
    }

    fn op(&mut self, value: ValueId, op: &Op, top: bool) -> Result<Name> {
        let dtype = self.dtype(value);
        let mut uniform = true;
        op.for_each_operand(|v| uniform &= !matches!(self.name(v), Name::Varying(_)));
        match op {
            Op::Affine(affine) => uniform = affine.coefficient(self.index).is_zero(),
            Op::Load { .. } if !top => return Err(Obstacle::Branch),
            Op::Load { buffer, .. } if self.spread.contains(buffer) => uniform = false,
            Op::Load { buffer, at, .. } => {
                uniform &= !mentions(at, self.index);
                if uniform && self.stored.contains(buffer) {
                    return Err(Obstacle::Overwritten);
                }
            }
            // Checks are hoisted before the loop, so they must come before all other checks of the
            // body, and at the top level.
            Op::Check { .. } => {
                let nests = self.leaf.steps.iter().any(|s| matches!(s, LeafStep::Nest(_)));
                if !uniform || !top || (nests && !self.inside) {
                    return Err(if top { Obstacle::Checks } else { Obstacle::Branch });
                }
            }
            Op::Prefix(..) | Op::Place(_) => return Err(Obstacle::InOrder),
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
            return Ok(if let Op::Constant(c) = op { Name::Constant(*c) } else { Name::Uniform });
        }
        if let Op::Call(function, arguments) = op {
            let arguments: Vec<LeafId> = arguments.iter().map(|a| self.varying(*a)).collect();
            return self.call(*function, &arguments).map(Name::Varying);
        }
        let inst = if let Op::Affine(affine) = op {
            let coefficient = affine.coefficient(self.index);
            let term = Affine::index(self.index).scale(&coefficient);
            // 2 * i + j, for i the leaf's index, has base j and coefficient 2.
            Inst::Affine { base: affine.sub(&term), coefficient }
        } else if let Op::Load { buffer, view, at } = op {
            Inst::Load(self.access(*buffer, view.as_deref(), at)?)
        } else {
            self.primitive(op, &mut |build, v| build.varying(v))?
        };
        Ok(Name::Varying(self.push(dtype, inst)))
    }

    /// An operation on values. `get` finds its operands.
    fn primitive(&mut self, op: &Op, get: &mut dyn FnMut(&mut Self, ValueId) -> LeafId) -> Result<Inst> {
        Ok(match op {
            Op::Constant(c) => Inst::Constant(*c),
            Op::Unary(op, a) => Inst::Unary(*op, get(self, *a)),
            Op::Binary(op, a, b) => Inst::Binary(*op, get(self, *a), get(self, *b)),
            Op::Compare(op, a, b) => Inst::Compare(*op, get(self, *a), get(self, *b)),
            Op::Fma(a, b, c) => Inst::Fma(get(self, *a), get(self, *b), get(self, *c)),
            Op::Select(c, a, b) => Inst::Select(get(self, *c), get(self, *a), get(self, *b)),
            Op::Cast(_, a) => Inst::Cast(get(self, *a)),
            Op::Bitcast(_, a) => Inst::Bitcast(get(self, *a)),
            // A function only computes with its arguments.
            Op::Affine(_) | Op::Call(..) | Op::Load { .. } | Op::Check { .. } | Op::Prefix(..) | Op::Place(_) => {
                return Err(Obstacle::Branch);
            }
        })
    }

    /// Inlines a function of the program.
    fn call(&mut self, function: FunctionId, arguments: &[LeafId]) -> Result<LeafId> {
        let function = &self.site.program.functions[function];
        let mut names: BTreeMap<ValueId, LeafId> = BTreeMap::new();
        names.extend(function.params.iter().copied().zip(arguments.iter().copied()));
        self.inline(&function.body, &function.values, &mut names)?;
        Ok(names[&function.result])
    }

    fn inline(&mut self, block: &Block, dtypes: &Values, names: &mut BTreeMap<ValueId, LeafId>) -> Result {
        for statement in block {
            match statement {
                Statement::Let { value, op } => {
                    let inst = self.primitive(op, &mut |_, v| names[&v])?;
                    names.insert(*value, self.push(dtypes[*value], inst));
                }
                Statement::If { condition, then, otherwise, results } => {
                    let condition = names[condition];
                    let then = self.side(|build| {
                        build.inline(then, dtypes, names)?;
                        Ok(results.iter().map(|(_, yes, _)| names[yes]).collect())
                    })?;
                    let otherwise = self.side(|build| {
                        build.inline(otherwise, dtypes, names)?;
                        Ok(results.iter().map(|(.., no)| names[no]).collect())
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
                | Statement::Contract(_) => return Err(Obstacle::Branch),
            }
        }
        Ok(())
    }

    /// Adds an access.
    fn access(&mut self, buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]) -> Result<usize> {
        let mut start = Linear::of(self.site.program, buffer, view, at);
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
            return Err(Obstacle::Scratch);
        }
        self.leaf.accesses.push(Access { buffer, start, stride, gathered, inner: self.inside, spread });
        Ok(self.leaf.accesses.len() - 1)
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
