//! Emits the inside of a kernel: from scalar expressions to statements.
//!
//! The emitter keeps the open blocks, and for each index of the checked program its meaning in the
//! kernel ([`Binding`]): a loop index, or the subscript at which an array that has no buffer of its
//! own is read (its body is then emitted there, under that binding). A value is emitted in the
//! outermost block where all its indices are bound and all its guards hold. Each block remembers
//! its values by expression and bindings, so that nothing is emitted twice where the first value is
//! visible.

use std::collections::BTreeMap;

use cranelift_entity::EntityRef;
use ir::build::Builder;
use ir::checked::{self, Checked, ExprId, GuardId, IndexId, Kind, LoopId, RecurrenceId};
use ir::nest::{
    self, Block, BufferId, Extent, FunctionId, Input, Kernel, LoopKind, Merge, Op, ReducerId, Statement, Subscript,
    ValueId,
};
use ir::sabotage::{self, Bug};
use ir::verify::MAX_DEPTH;
use ir::{Affine, BinaryOp, CompareOp, Dtype, MathFn, Monoid, Order, Origin, ReduceOp, Scalar, Size};

use super::operand::{Element, Operand, is_guarding, unchecked};
use super::{Known, LowerError, MAX_STATEMENTS, Target};

/// The meaning of an index of the checked program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    /// An affine expression of the kernel's indices.
    Affine(Affine<nest::IndexId>),
    /// A value.
    Value(ValueId),
}

/// The meaning of an index, and the outermost block where it applies: the body of a loop, or the
/// block of an access, because its subscripts may be in bounds only there.
struct Bound {
    to: Binding,
    depth: usize,
}

/// An open block.
struct Frame {
    /// Under which guard it runs.
    guard: GuardId,
    /// The values that it already contains.
    memo: BTreeMap<(ExprId, Vec<Binding>), ValueId>,
}

/// The elements of a reduction as states, and which value of the last state is the result.
pub(super) struct State {
    pub merge: Merge,
    pub inputs: Vec<Input>,
    pub result: usize,
}

/// A loop's indices with their extents.
pub(super) type Dims = Vec<(nest::IndexId, Extent)>;

/// A kernel in the making.
pub(super) struct Emitter<'a> {
    known: &'a Known<'a>,
    builder: Builder<'a>,
    functions: &'a mut BTreeMap<(MathFn, Dtype), FunctionId>,
    reducers: &'a mut BTreeMap<(ReduceOp, Dtype), ReducerId>,
    statements: &'a mut usize,
    bindings: BTreeMap<IndexId, Bound>,
    /// The buffers of the arrays that the kernel is about to complete.
    recurrences: BTreeMap<(RecurrenceId, usize), BufferId>,
    /// The current values of the states of the loops that are open.
    states: BTreeMap<(LoopId, usize), ValueId>,
    /// The kernel's body and the open blocks in it.
    frames: Vec<Frame>,
    /// The outermost block that values may go to: the body of the outermost loop.
    floor: usize,
}

impl<'a> Emitter<'a> {
    /// An empty kernel.
    pub fn new(known: &'a Known<'a>, target: &'a mut Target) -> Emitter<'a> {
        Emitter {
            known,
            builder: Builder::new(&mut target.program),
            functions: &mut target.functions,
            reducers: &mut target.reducers,
            statements: &mut target.statements,
            bindings: BTreeMap::new(),
            recurrences: BTreeMap::new(),
            states: BTreeMap::new(),
            frames: vec![Frame { guard: Checked::TOP, memo: BTreeMap::new() }],
            floor: 0,
        }
    }

    /// Ends the kernel and returns it.
    pub fn finish(self, name: String, origin: Origin) -> Kernel {
        self.builder.into_kernel(name, vec![origin])
    }

    /// The outermost loop: emits `body` at each setting of indices that run over a box.
    pub fn parallel(
        &mut self,
        indices: &[IndexId],
        body: impl FnOnce(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        if indices.is_empty() {
            return body(self);
        }
        let dims = self.bind_box(indices)?;
        self.floor = 1;
        self.open(Checked::TOP)?;
        body(self)?;
        let body = self.close();
        self.builder.loop_(LoopKind::Parallel, dims, body);
        Ok(())
    }

    /// Confines values to blocks that are opened from now on.
    pub fn stay_inside(&mut self) {
        self.floor = self.frames.len();
    }

    /// Indices of the next block to be opened, which run over a box.
    pub fn bind_box(&mut self, indices: &[IndexId]) -> Result<Dims, LowerError> {
        let size = |i: &IndexId| self.known.facts.size(*i).map(Extent::size);
        let extents = indices.iter().map(size).collect::<Result<Vec<_>, _>>()?;
        Ok(self.bind(indices, extents))
    }

    /// Indices of the next block to be opened, with their own extents.
    fn bind_own(&mut self, indices: &[IndexId]) -> Result<Dims, LowerError> {
        let mut extents = vec![];
        for index in indices {
            extents.push(match &self.known.checked.indices[*index].extent {
                checked::Extent::Affine(extent) => match self.affine(extent)? {
                    Binding::Affine(extent) => Extent::Affine(extent),
                    Binding::Value(value) => Extent::Value(value),
                },
                checked::Extent::Dynamic(extent) => Extent::Value(self.value(*extent)?),
            });
        }
        Ok(self.bind(indices, extents))
    }

    fn bind(&mut self, indices: &[IndexId], extents: Vec<Extent>) -> Dims {
        let mut dims = vec![];
        for (index, extent) in indices.iter().zip(extents) {
            let here = self.builder.index(&self.known.facts.axis(*index).name);
            let bound = Bound { to: Binding::Affine(Affine::index(here)), depth: self.frames.len() };
            self.bindings.insert(*index, bound);
            dims.push((here, extent));
        }
        dims
    }

    /// Binds an index to the same value as another one.
    pub fn bind_like(&mut self, index: IndexId, other: IndexId) -> Result<(), LowerError> {
        let Bound { to, depth } = self.bound(other)?;
        let bound = Bound { to: to.clone(), depth: *depth };
        self.bindings.insert(index, bound);
        Ok(())
    }

    /// The value of an index.
    pub fn index_value(&mut self, index: IndexId) -> Result<ValueId, LowerError> {
        let binding = self.bound(index)?.to.clone();
        self.integer_of(binding)
    }

    /// The extent of an index that runs over a box.
    pub fn size_of(&self, index: IndexId) -> Result<Size, LowerError> {
        self.known.facts.size(index)
    }

    /// The name of an index.
    pub fn name_of(&self, index: IndexId) -> String {
        self.known.facts.axis(index).name.clone()
    }

    /// Names the buffer of an array of a recurrence that the kernel completes.
    pub fn completes(&mut self, recurrence: RecurrenceId, array: usize, buffer: BufferId) {
        self.recurrences.insert((recurrence, array), buffer);
    }

    /// The number at which an index ends.
    pub fn end_of(&mut self, index: IndexId) -> Result<ValueId, LowerError> {
        match &self.known.checked.indices[index].extent {
            checked::Extent::Affine(extent) => {
                let end = self.affine(extent)?;
                self.integer_of(end)
            }
            checked::Extent::Dynamic(extent) => self.value(*extent),
        }
    }

    /// The number of a step of a loop, checked if there is a limit on its steps.
    pub fn limited(&mut self, of: LoopId, number: ValueId) -> Result<ValueId, LowerError> {
        match self.known.limits[of].clone() {
            Some((bound, site)) => self.op(Op::Check { value: number, bound, site }),
            None => Ok(number),
        }
    }

    /// A loop index with a name, for the next block to be opened.
    pub fn loop_index(&mut self, name: &str) -> nest::IndexId {
        self.builder.index(name)
    }

    /// Binds an index of the next block to be opened to an affine expression of loop indices.
    pub fn bind_affine(&mut self, index: IndexId, to: Affine<nest::IndexId>) {
        self.bindings.insert(index, Bound { to: Binding::Affine(to), depth: self.frames.len() });
    }

    /// Binds an index of the next block to be opened to a value.
    pub fn bind_value(&mut self, index: IndexId, to: ValueId) {
        self.bindings.insert(index, Bound { to: Binding::Value(to), depth: self.frames.len() });
    }

    /// Binds indices to the subscripts of an access that is computed in the innermost block.
    fn bind_to(&mut self, indices: &[IndexId], at: &[Binding]) {
        let depth = self.frames.len() - 1;
        for (index, to) in indices.iter().zip(at) {
            self.bindings.insert(*index, Bound { to: to.clone(), depth });
        }
    }

    /// Opens a block.
    pub fn open(&mut self, guard: GuardId) -> Result<(), LowerError> {
        if self.frames.len() == MAX_DEPTH {
            return Err(LowerError::TooDeep);
        }
        self.builder.begin();
        self.frames.push(Frame { guard, memo: BTreeMap::new() });
        Ok(())
    }

    /// Opens a block for an expression under the condition of the branch that it was written in.
    pub fn open_for(&mut self, id: ExprId) -> Result<(), LowerError> {
        let (around, own) = (self.frames[self.frames.len() - 1].guard, self.known.checked.exprs[id].guard);
        self.open(if self.known.checked.within(own, around) { own } else { around })
    }

    /// Closes the innermost block.
    pub fn close(&mut self) -> Block {
        self.frames.pop();
        self.builder.end()
    }

    /// Appends a statement.
    pub fn push(&mut self, statement: Statement) {
        self.builder.push(statement);
    }

    /// The builder, for statements that only one kind of kernel has.
    pub fn builder(&mut self) -> &mut Builder<'a> {
        &mut self.builder
    }

    /// Defines a value in the innermost block.
    pub fn op(&mut self, op: Op) -> Result<ValueId, LowerError> {
        self.count()?;
        Ok(self.builder.op(op))
    }

    /// Stores an element.
    pub fn store(&mut self, buffer: BufferId, at: &[Affine<IndexId>], value: ValueId) -> Result<(), LowerError> {
        self.count()?;
        let at = at.iter().map(|s| self.subscript(s)).collect::<Result<_, _>>()?;
        self.builder.store(buffer, at, value);
        Ok(())
    }

    /// The value of an index.
    pub fn index(&mut self, index: IndexId) -> Result<ValueId, LowerError> {
        let binding = self.bound(index)?.to.clone();
        self.integer_of(binding)
    }

    pub fn count(&mut self) -> Result<(), LowerError> {
        *self.statements += 1;
        if *self.statements > MAX_STATEMENTS { Err(LowerError::TooLarge) } else { Ok(()) }
    }

    fn integer(&mut self, affine: Affine<nest::IndexId>) -> Result<ValueId, LowerError> {
        self.op(Op::Affine(affine))
    }

    pub fn size(&mut self, size: &Size) -> Result<ValueId, LowerError> {
        self.integer(Affine::size(size.clone()))
    }

    fn bound(&self, index: IndexId) -> Result<&Bound, LowerError> {
        self.bindings.get(&index).ok_or(LowerError::Malformed("an index outside what binds it"))
    }

    /// An affine expression of the checked program, here.
    fn affine(&mut self, affine: &Affine<IndexId>) -> Result<Binding, LowerError> {
        let mut sum = Affine::size(affine.constant_part().clone());
        let mut values = vec![];
        for (index, coefficient) in affine.terms() {
            if let Some(buffer) = self.known.steps.get(index) {
                let buffer = buffer.ok_or(LowerError::Malformed("a step without a number"))?;
                let step = self.op(Op::Load { buffer, view: None, at: vec![] })?;
                values.push((step, coefficient));
                continue;
            }
            match &self.bound(*index)?.to {
                Binding::Affine(a) => sum = sum.add(&a.scale(coefficient)),
                Binding::Value(value) => values.push((*value, coefficient)),
            }
        }
        let mut total = None;
        for (mut value, coefficient) in values {
            if coefficient.as_constant() != Some(1) {
                let coefficient = self.size(coefficient)?;
                value = self.op(Op::Binary(BinaryOp::Mul, value, coefficient))?;
            }
            total = Some(match total {
                None => value,
                Some(total) => self.op(Op::Binary(BinaryOp::Add, total, value))?,
            });
        }
        let Some(total) = total else { return Ok(Binding::Affine(sum)) };
        if sum.as_size().is_some_and(Size::is_zero) {
            return Ok(Binding::Value(total));
        }
        let rest = self.integer(sum)?;
        Ok(Binding::Value(self.op(Op::Binary(BinaryOp::Add, total, rest))?))
    }

    pub fn subscript(&mut self, affine: &Affine<IndexId>) -> Result<Subscript, LowerError> {
        Ok(match self.affine(affine)? {
            Binding::Affine(affine) => Subscript::Affine(affine),
            Binding::Value(value) => Subscript::Value(value),
        })
    }

    fn integer_of(&mut self, binding: Binding) -> Result<ValueId, LowerError> {
        match binding {
            Binding::Affine(affine) => self.integer(affine),
            Binding::Value(value) => Ok(value),
        }
    }

    /// The outermost block in which an expression may be computed.
    fn place(&self, id: ExprId) -> Result<usize, LowerError> {
        let mut depth = self.floor;
        for index in self.known.facts.bound_in_kernel(id, &self.known.steps) {
            depth = depth.max(self.bound(index)?.depth);
        }
        let guard = self.known.checked.exprs[id].guard;
        let innermost = self.frames.len() - 1;
        let open = self.known.facts.is_open(guard);
        while depth < innermost && !open && !self.known.checked.within(self.frames[depth].guard, guard) {
            depth += 1;
        }
        Ok(depth.min(innermost))
    }

    /// The value of a scalar expression.
    pub fn value(&mut self, id: ExprId) -> Result<ValueId, LowerError> {
        let depth = self.place(id)?;
        let free = self.known.facts.bound_in_kernel(id, &self.known.steps);
        let key = (id, free.map(|i| Ok(self.bound(i)?.to.clone())).collect::<Result<_, LowerError>>()?);
        if let Some(value) = self.frames[..=depth].iter().rev().find_map(|frame| frame.memo.get(&key)) {
            return Ok(*value);
        }
        let blocks = self.builder.suspend(depth);
        let frames = self.frames.split_off(depth + 1);
        let value = stacker::maybe_grow(64 << 10, 4 << 20, || self.compute(id))?;
        self.frames[depth].memo.insert(key, value);
        self.frames.extend(frames);
        self.builder.resume(blocks);
        Ok(value)
    }

    /// Computes a scalar expression in the innermost block: loads it if it has a buffer.
    pub fn compute(&mut self, id: ExprId) -> Result<ValueId, LowerError> {
        match &self.known.operands[id] {
            Some(operand @ Operand::Element(_)) => self.load(operand),
            _ => self.operation(id),
        }
    }

    /// Loads an operand in the innermost block.
    pub fn load(&mut self, operand: &Operand) -> Result<ValueId, LowerError> {
        match operand {
            Operand::Inline { expr, .. } => self.operation(*expr),
            Operand::Element(Element { buffer, view, at }) => {
                let at = at.iter().map(|s| self.subscript(s)).collect::<Result<_, _>>()?;
                self.op(Op::Load { buffer: *buffer, view: view.clone(), at })
            }
        }
    }

    /// Computes a scalar expression in the innermost block from its operands.
    pub fn operation(&mut self, id: ExprId) -> Result<ValueId, LowerError> {
        let checked = self.known.checked;
        let expr = &checked.exprs[id];
        let op = match &expr.kind {
            Kind::Constant(value) => Op::Constant(*value),
            Kind::Size(size) => Op::Affine(Affine::size(size.clone())),
            Kind::Index(index) => return self.index(*index),
            Kind::Param(number) => Op::Load { buffer: BufferId::new(*number), view: None, at: vec![] },
            Kind::Unary(op, a) => Op::Unary(*op, self.value(*a)?),
            Kind::Binary(BinaryOp::Sub, a, b) if sabotage::on(Bug::SwappedOperands) => {
                Op::Binary(BinaryOp::Sub, self.value(*b)?, self.value(*a)?)
            }
            Kind::Binary(op, a, b) => Op::Binary(*op, self.value(*a)?, self.value(*b)?),
            Kind::Compare(op, a, b) => Op::Compare(*op, self.value(*a)?, self.value(*b)?),
            Kind::Fma(a, b, c) => Op::Fma(self.value(*a)?, self.value(*b)?, self.value(*c)?),
            Kind::Cast(a) => Op::Cast(expr.ty.dtype, self.value(*a)?),
            Kind::Bitcast(a) => Op::Bitcast(expr.ty.dtype, self.value(*a)?),
            Kind::Math(function, operands) => {
                let operands = operands.iter().map(|a| self.value(*a)).collect::<Result<_, _>>()?;
                Op::Call(self.function(*function, expr.ty.dtype)?, operands)
            }
            Kind::If { condition, then, otherwise } => {
                let condition = self.value(*condition)?;
                if is_guarding(checked, id, *then, *otherwise) {
                    let then = self.branch(*then, expr.guard)?;
                    let otherwise = self.branch(*otherwise, expr.guard)?;
                    self.count()?;
                    return Ok(self.builder.if_(condition, then, otherwise));
                }
                let (then, otherwise) =
                    if sabotage::on(Bug::SwappedBranches) { (otherwise, then) } else { (then, otherwise) };
                Op::Select(condition, self.value(*then)?, self.value(*otherwise)?)
            }
            Kind::Access { array, at } => {
                let at = self.subscripts(*array, at)?;
                return self.element(*array, &at);
            }
            Kind::Reduce { op, over, body, order, prefix, by } => {
                if !by.is_empty() {
                    // It stands on its own unless it is in the step of a loop in a kernel.
                    return Err(self.known.misfit(id));
                }
                // The last prefix of a scan must have the bits that the scan gives.
                let order = if prefix.is_some() { Order::Scan } else { *order };
                return self.reduce(over, *op, order, |k| k.compute(*body));
            }
            Kind::Contract { over, left, right } => {
                return self.reduce(over, ReduceOp::Monoid(Monoid::Sum), Order::Blocks, |k| {
                    let (left, right) = (k.value(*left)?, k.value(*right)?);
                    k.op(Op::Binary(BinaryOp::Mul, left, right))
                });
            }
            Kind::State { of, number } => {
                return self.states.get(&(*of, *number)).copied().ok_or_else(|| self.known.misfit(id));
            }
            Kind::Loop { of, number, .. } => return self.last_state(*of, *number, id),
            Kind::Comprehension { .. }
            | Kind::Reshape(_)
            | Kind::ArrayLiteral(_)
            | Kind::Sort { .. }
            | Kind::Recurrence { .. }
            | Kind::Earlier { .. } => {
                return Err(LowerError::Malformed("an array where a scalar should be"));
            }
        };
        self.op(op)
    }

    /// A part of the last state of a loop over scalars.
    fn last_state(&mut self, of: LoopId, number: usize, id: ExprId) -> Result<ValueId, LowerError> {
        let checked = self.known.checked;
        let (one, here) = (&checked.loops[of], &checked.exprs[id]);
        let parts = &one.states[number].needs;
        if parts.iter().any(|part| !checked.exprs[one.states[*part].first].ty.is_scalar()) {
            return Err(self.known.misfit(id));
        }
        let firsts = parts.iter().map(|part| self.value(one.states[*part].first)).collect::<Result<Vec<_>, _>>()?;
        let mut currents = vec![];
        for (part, first) in parts.iter().zip(&firsts) {
            let current = self.builder.value(self.builder.dtype(*first));
            self.states.insert((of, *part), current);
            currents.push(current);
        }
        let counter = self.bind_own(&[one.step])?.pop().ok_or(LowerError::Malformed("a loop without steps"))?;
        let condition = match one.condition {
            Some(condition) => {
                self.open(self.frames[self.frames.len() - 1].guard)?;
                let value = self.value(condition)?;
                Some(nest::Condition { body: self.close(), value })
            }
            None => None,
        };
        // The branch of the body, if that has an access that the condition guards.
        let guards = parts.iter().map(|part| checked.exprs[one.states[*part].next].guard);
        let inside = guards.into_iter().find(|guard| !checked.within(here.guard, *guard));
        self.open(inside.unwrap_or(self.frames[self.frames.len() - 1].guard))?;
        if self.known.limits[of].is_some() {
            let number = self.integer(Affine::index(counter.0))?;
            self.limited(of, number)?;
        }
        let nexts = parts.iter().map(|part| self.value(one.states[*part].next)).collect::<Result<Vec<_>, _>>()?;
        let nexts = if sabotage::on(Bug::StepHeld) { currents.clone() } else { nexts };
        let body = self.close();
        self.count()?;
        let state = firsts.into_iter().zip(currents).zip(nexts).map(|((first, current), next)| [first, current, next]);
        let results = self.builder.while_(counter, state.collect(), condition, body);
        let result = parts.iter().zip(results).find(|(part, _)| **part == number);
        result.map(|(_, value)| value).ok_or(LowerError::Malformed("a state that does not need itself"))
    }

    /// One branch of an `if` that stands under the guard `outer`.
    fn branch(&mut self, id: ExprId, outer: GuardId) -> Result<(Block, ValueId), LowerError> {
        let own = self.known.checked.exprs[id].guard;
        self.open(if self.known.checked.within(own, outer) { own } else { outer })?;
        let value = self.value(id)?;
        Ok((self.close(), value))
    }

    /// A reducing loop. If the extent of an index depends on another index of the same reduction,
    /// it reduces the results of reductions over the inner indices.
    fn reduce(
        &mut self,
        over: &[IndexId],
        op: ReduceOp,
        order: Order,
        body: impl FnOnce(&mut Self) -> Result<ValueId, LowerError>,
    ) -> Result<ValueId, LowerError> {
        let (outer, inner) = over.split_at(self.box_len(over));
        if !inner.is_empty() && matches!(op, ReduceOp::Position(_)) {
            return Err(LowerError::Malformed("a position among elements that form no box"));
        }
        let dims = self.bind_own(outer)?;
        self.open(self.frames[self.frames.len() - 1].guard)?;
        let input = if inner.is_empty() { body(self)? } else { self.reduce(inner, op, order, body)? };
        let block = self.close();
        let order = if op.depends_on_order(self.builder.dtype(input)) && !sabotage::on(Bug::ForgottenOrder) {
            order
        } else {
            Order::Free
        };
        self.count()?;
        let state = self.state(op, input)?;
        let results = self.builder.reduce_states(dims, block, state.merge, order, state.inputs);
        Ok(results[state.result])
    }

    /// How the elements of a reduction become states, and the last state the result.
    pub fn state(&mut self, op: ReduceOp, input: ValueId) -> Result<State, LowerError> {
        if let ReduceOp::Monoid(monoid) = op {
            return Ok(State { merge: Merge::Monoid(monoid), inputs: vec![Input::Value(input)], result: 0 });
        }
        let key = (op, self.builder.dtype(input));
        let id = match self.reducers.get(&key) {
            Some(id) => *id,
            None => {
                let definition = crate::math::define_reducer(op, key.1);
                let definition = definition.ok_or(LowerError::Malformed("a reducer without a definition"))?;
                let id = self.builder.program.reducers.push(definition);
                self.reducers.insert(key, id);
                id
            }
        };
        Ok(State { merge: Merge::Reducer(id), inputs: vec![Input::Value(input), Input::Number], result: 1 })
    }

    /// The number of leading indices with extents that do not depend on those before them.
    fn box_len(&self, over: &[IndexId]) -> usize {
        let depends = |k: usize| match &self.known.checked.indices[over[k]].extent {
            checked::Extent::Affine(extent) => extent.terms().iter().any(|(i, _)| over[..k].contains(i)),
            checked::Extent::Dynamic(extent) => self.known.facts.free(*extent).iter().any(|i| over[..k].contains(i)),
        };
        (0..over.len()).find(|k| depends(*k)).unwrap_or(over.len())
    }

    fn function(&mut self, function: MathFn, dtype: Dtype) -> Result<FunctionId, LowerError> {
        if let Some(id) = self.functions.get(&(function, dtype)) {
            return Ok(*id);
        }
        let definition = crate::math::define(function, dtype);
        let definition = definition.ok_or(LowerError::Malformed("a function without a definition"))?;
        let id = self.builder.program.functions.push(definition);
        self.functions.insert((function, dtype), id);
        Ok(id)
    }

    /// The subscripts of an access, checked if they must be.
    fn subscripts(&mut self, array: ExprId, at: &[checked::Subscript]) -> Result<Vec<Binding>, LowerError> {
        let shape = &self.known.checked.exprs[array].ty.shape;
        let mut bindings = vec![];
        for (subscript, bound) in at.iter().zip(shape) {
            if let Some(affine) = unchecked(subscript) {
                bindings.push(self.affine(affine)?);
                continue;
            }
            let mut value = match &subscript.affine {
                Some(affine) => {
                    let binding = self.affine(affine)?;
                    self.integer_of(binding)?
                }
                None => self.value(subscript.value)?,
            };
            if self.builder.dtype(value) == Dtype::U64 && subscript.check.is_some() {
                let greatest = self.op(Op::Constant(Scalar::U64(i64::MAX.cast_unsigned())))?;
                value = self.op(Op::Binary(BinaryOp::Min, value, greatest))?;
            }
            if self.builder.dtype(value) != Dtype::I64 {
                value = self.op(Op::Cast(Dtype::I64, value))?;
            }
            if let Some(site) = subscript.check.filter(|_| !sabotage::on(Bug::DroppedCheck)) {
                value = self.op(Op::Check { value, bound: bound.clone(), site })?;
            }
            bindings.push(Binding::Value(value));
        }
        Ok(bindings)
    }

    /// An element of an array expression: loaded if the array has a buffer, else computed.
    fn element(&mut self, array: ExprId, at: &[Binding]) -> Result<ValueId, LowerError> {
        let known = self.known;
        if let Some(lambda) = &known.lambdas[array] {
            self.bind_to(&lambda.axes, at);
            return self.load(&lambda.operand);
        }
        let expr = &known.checked.exprs[array];
        match &expr.kind {
            Kind::Comprehension { indices, body } => {
                let (own, rest) = at.split_at(indices.len().min(at.len()));
                self.bind_to(indices, own);
                if rest.is_empty() { self.compute(*body) } else { self.element(*body, rest) }
            }
            Kind::Reshape(inner) => {
                let number = self.number(at, &expr.ty.shape)?;
                let at = self.position(number, &known.checked.exprs[*inner].ty.shape)?;
                self.element(*inner, &at)
            }
            Kind::ArrayLiteral(elements) => {
                let mut elements = elements.iter().map(|e| self.value(*e)).collect::<Result<Vec<_>, _>>()?.into_iter();
                let number = self.number(at, &expr.ty.shape)?;
                let number = self.integer_of(number)?;
                let first = elements.next().ok_or(LowerError::Malformed("an array literal of nothing"))?;
                elements.zip(1 + i64::from(sabotage::on(Bug::LiteralShifted))..).try_fold(
                    first,
                    |others, (element, k)| {
                        let k = self.op(Op::Constant(Scalar::I64(k)))?;
                        let here = self.op(Op::Compare(CompareOp::Eq, number, k))?;
                        self.op(Op::Select(here, element, others))
                    },
                )
            }
            Kind::State { .. } | Kind::Loop { .. } | Kind::Sort { .. } | Kind::Recurrence { .. } => {
                Err(known.misfit(array))
            }
            Kind::Earlier { recurrence, array, .. } => {
                let here = self.recurrences.get(&(*recurrence, *array)).copied();
                let buffer = here.ok_or(LowerError::Malformed("a recurrence inside another"))?;
                let outside = known.outside(*recurrence);
                let outside =
                    outside.iter().map(|i| Ok(self.bound(*i)?.to.clone())).collect::<Result<Vec<_>, LowerError>>()?;
                let at = outside.iter().chain(at).map(|binding| match binding.clone() {
                    Binding::Affine(affine) => Subscript::Affine(affine),
                    Binding::Value(value) => Subscript::Value(value),
                });
                let at = at.collect();
                self.op(Op::Load { buffer, view: None, at })
            }
            _ => Err(LowerError::Malformed("an element of what is no array")),
        }
    }

    /// The row-major number of a position.
    fn number(&mut self, at: &[Binding], shape: &[Size]) -> Result<Binding, LowerError> {
        let mut number = Binding::Affine(Affine::constant(0));
        for (subscript, length) in at.iter().zip(shape) {
            number = match (number, subscript) {
                (Binding::Affine(none), _) if none == Affine::constant(0) => subscript.clone(),
                (Binding::Affine(number), Binding::Affine(s)) => Binding::Affine(number.scale(length).add(s)),
                (number, subscript) => {
                    let (number, length) = (self.integer_of(number)?, self.size(length)?);
                    let subscript = self.integer_of(subscript.clone())?;
                    let row = self.op(Op::Binary(BinaryOp::Mul, number, length))?;
                    Binding::Value(self.op(Op::Binary(BinaryOp::Add, row, subscript))?)
                }
            };
        }
        Ok(number)
    }

    /// The position of a row-major number.
    fn position(&mut self, number: Binding, shape: &[Size]) -> Result<Vec<Binding>, LowerError> {
        let [_, inner @ ..] = shape else { return Ok(vec![]) };
        if inner.is_empty() {
            return Ok(vec![number]);
        }
        let mut rest = self.integer_of(number)?;
        let mut at = vec![];
        for length in inner.iter().rev() {
            let length = self.size(length)?;
            at.push(Binding::Value(self.op(Op::Binary(BinaryOp::Rem, rest, length))?));
            rest = self.op(Op::Binary(BinaryOp::Div, rest, length))?;
        }
        at.push(Binding::Value(rest));
        at.reverse();
        Ok(at)
    }
}
