//! Building kernels and scalar functions statement by statement: fresh values typed by their
//! operation, fresh index names, and a stack of open blocks. [`op_dtype`] is the one table of
//! result types.
//!
//! A builder accepts anything; `verify` checks the result.

use std::collections::BTreeSet;

use cranelift_entity::PrimaryMap;

use crate::nest::{
    Block, BufferId, Condition, Contraction, Extent, Function, FunctionId, Index, IndexId, Input, Kernel, KernelId,
    Law, Loop, LoopKind, Merge, Op, Program, Prologue, Reducer, ReducerId, Reduction, SiteId, State, Statement,
    Subscript, ValueId, While,
};
use crate::rewrite::fresh_name;
use crate::{Affine, BinaryOp, CompareOp, Dtype, MathFn, Monoid, Order, Origin, Scalar, Size, UnaryOp};

/// The types of the values of a kernel or function.
pub type Values = PrimaryMap<ValueId, Dtype>;

/// The type of an operation's result, or `None` if the operation refers to something that does not
/// exist.
pub fn op_dtype(program: &Program, values: &Values, op: &Op) -> Option<Dtype> {
    match op {
        Op::Constant(scalar) => Some(scalar.dtype()),
        Op::Affine(_) | Op::Check { .. } | Op::Place(_) => Some(Dtype::I64),
        Op::Unary(_, a) | Op::Binary(_, a, _) | Op::Fma(a, _, _) | Op::Select(_, a, _) => values.get(*a).copied(),
        Op::Compare(..) => Some(Dtype::Bool),
        Op::Cast(to, _) | Op::Bitcast(to, _) => Some(*to),
        Op::Call(function, _) => {
            let function = program.functions.get(*function)?;
            function.values.get(function.result).copied()
        }
        Op::Load { buffer, .. } => Some(program.buffers.get(*buffer)?.dtype),
        Op::Prefix(prefix) => field_dtype(program, values, prefix.merge, prefix.inputs.first(), prefix.field),
    }
}

/// The type of a value of a reduction's state; `first` is the first input. `None` if it refers to
/// something that does not exist.
pub fn field_dtype(
    program: &Program,
    values: &Values,
    merge: Merge,
    first: Option<&Input>,
    field: usize,
) -> Option<Dtype> {
    match merge {
        Merge::Reducer(id) => program.reducers.get(id)?.state().nth(field),
        Merge::Monoid(_) if field > 0 => None,
        Merge::Monoid(_) => values.get(first?.value()?).copied(),
    }
}

/// A kernel or function under construction. Statements go to the innermost open block.
pub struct Builder<'a> {
    /// The program that it will belong to. Buffers, functions and sites may be added in the
    /// meantime.
    pub program: &'a mut Program,
    indices: PrimaryMap<IndexId, Index>,
    names: BTreeSet<String>,
    values: Values,
    body: Block,
    /// Blocks begun and not ended.
    open: Vec<Block>,
}

impl<'a> Builder<'a> {
    /// An empty body.
    pub fn new(program: &'a mut Program) -> Builder<'a> {
        // Index and size names share the subscripts of the text form.
        let names = program.symbols.values().map(|s| s.name.clone()).collect();
        Builder { program, indices: PrimaryMap::new(), names, values: Values::new(), body: vec![], open: vec![] }
    }

    /// Ends the body and adds it to the program as its last kernel.
    pub fn finish_kernel(self, name: String, origins: Vec<Origin>) -> KernelId {
        let Builder { program, indices, values, body, .. } = self;
        program.push_kernel(Kernel { name, indices, values, body, origins })
    }

    /// Ends the body and returns the kernel without adding it to the program.
    pub fn into_kernel(self, name: String, origins: Vec<Origin>) -> Kernel {
        let Builder { indices, values, body, .. } = self;
        Kernel { name, indices, values, body, origins }
    }

    /// Ends the body and adds it to the program as a scalar function.
    pub fn finish_function(self, name: String, math: MathFn, params: Vec<ValueId>, result: ValueId) -> FunctionId {
        let Builder { program, values, body, .. } = self;
        program.functions.push(Function { name, math, params, values, body, result, quotients_in_range: false })
    }

    /// Ends the body and adds it to the program as the merge of a reducer.
    pub fn finish_reducer(
        self,
        name: String,
        law: Law,
        identity: Vec<Scalar>,
        params: Vec<ValueId>,
        results: Vec<ValueId>,
    ) -> ReducerId {
        let Builder { program, values, body, .. } = self;
        program.reducers.push(Reducer { name, identity, law, params, values, body, results })
    }

    /// The type of a value.
    pub fn dtype(&self, value: ValueId) -> Dtype {
        self.values[value]
    }

    /// A value without a definition: a parameter of a function, or one that the next statement will
    /// define.
    pub fn value(&mut self, dtype: Dtype) -> ValueId {
        self.values.push(dtype)
    }

    /// A new index, named like `name`.
    pub fn index(&mut self, name: &str) -> IndexId {
        let name = fresh_name(&mut self.names, name);
        self.indices.push(Index { name })
    }

    /// Opens a block, which receives all statements until [`Builder::end`].
    pub fn begin(&mut self) {
        self.open.push(vec![]);
    }

    /// Closes the innermost open block.
    pub fn end(&mut self) -> Block {
        self.open.pop().unwrap_or_default()
    }

    /// Sets the open blocks beyond the first `depth` aside, so that statements go to an outer
    /// block, before the statement that the inner ones will belong to. [`Builder::resume`] restores
    /// them.
    pub fn suspend(&mut self, depth: usize) -> Vec<Block> {
        self.open.split_off(depth.min(self.open.len()))
    }

    /// Takes back blocks set aside by [`Builder::suspend`].
    pub fn resume(&mut self, blocks: Vec<Block>) {
        self.open.extend(blocks);
    }

    /// Appends a statement.
    pub fn push(&mut self, statement: Statement) {
        self.open.last_mut().unwrap_or(&mut self.body).push(statement);
    }

    /// Defines a value.
    pub fn op(&mut self, op: Op) -> ValueId {
        // The verifier will report an operand that does not exist.
        let dtype = op_dtype(self.program, &self.values, &op).unwrap_or(Dtype::Bool);
        let value = self.values.push(dtype);
        self.push(Statement::Let { value, op });
        value
    }

    /// A constant.
    pub fn constant(&mut self, value: Scalar) -> ValueId {
        self.op(Op::Constant(value))
    }

    /// An affine expression, as `i64`.
    pub fn affine(&mut self, value: Affine<IndexId>) -> ValueId {
        self.op(Op::Affine(value))
    }

    /// A primitive of one operand.
    pub fn unary(&mut self, op: UnaryOp, a: ValueId) -> ValueId {
        self.op(Op::Unary(op, a))
    }

    /// A primitive of two operands.
    pub fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        self.op(Op::Binary(op, a, b))
    }

    /// A comparison.
    pub fn compare(&mut self, op: CompareOp, a: ValueId, b: ValueId) -> ValueId {
        self.op(Op::Compare(op, a, b))
    }

    /// `a * b + c`, rounded once.
    pub fn fma(&mut self, a: ValueId, b: ValueId, c: ValueId) -> ValueId {
        self.op(Op::Fma(a, b, c))
    }

    /// One of two values.
    pub fn select(&mut self, condition: ValueId, then: ValueId, otherwise: ValueId) -> ValueId {
        self.op(Op::Select(condition, then, otherwise))
    }

    /// A conversion; a value that already has the type is returned unchanged.
    pub fn cast(&mut self, to: Dtype, a: ValueId) -> ValueId {
        if self.values[a] == to { a } else { self.op(Op::Cast(to, a)) }
    }

    /// The same bits as another type.
    pub fn bitcast(&mut self, to: Dtype, a: ValueId) -> ValueId {
        self.op(Op::Bitcast(to, a))
    }

    /// A call of a function of the program.
    pub fn call(&mut self, function: FunctionId, arguments: Vec<ValueId>) -> ValueId {
        self.op(Op::Call(function, arguments))
    }

    /// An element of a buffer.
    pub fn load(&mut self, buffer: BufferId, at: Vec<Subscript>) -> ValueId {
        self.op(Op::Load { buffer, view: None, at })
    }

    /// An element of a buffer viewed under another shape.
    pub fn load_view(&mut self, buffer: BufferId, view: Vec<Size>, at: Vec<Subscript>) -> ValueId {
        self.op(Op::Load { buffer, view: Some(view), at })
    }

    /// A subscript that is checked at run time.
    pub fn check(&mut self, value: ValueId, bound: Size, site: SiteId) -> ValueId {
        self.op(Op::Check { value, bound, site })
    }

    /// Writes an element.
    pub fn store(&mut self, buffer: BufferId, at: Vec<Subscript>, value: ValueId) {
        self.push(Statement::Store { buffer, at, value });
    }

    /// A parallel, serial or scan loop. Without dims, only its body is emitted.
    pub fn loop_(&mut self, kind: LoopKind, dims: Vec<(IndexId, Extent)>, body: Block) {
        if dims.is_empty() {
            body.into_iter().for_each(|statement| self.push(statement));
        } else {
            self.push(Statement::Loop(Loop { dims, kind, body }));
        }
    }

    /// A reducing loop of one reduction by a primitive.
    pub fn reduce(
        &mut self,
        dims: Vec<(IndexId, Extent)>,
        body: Block,
        monoid: Monoid,
        order: Order,
        input: ValueId,
    ) -> ValueId {
        self.reduce_states(dims, body, Merge::Monoid(monoid), order, vec![Input::Value(input)])[0]
    }

    /// A reducing loop of one reduction over the states of its elements; returns the last state.
    pub fn reduce_states(
        &mut self,
        dims: Vec<(IndexId, Extent)>,
        body: Block,
        merge: Merge,
        order: Order,
        inputs: Vec<Input>,
    ) -> Vec<ValueId> {
        let results = self.state(merge, &inputs);
        let reduction = Reduction { results: results.clone(), merge, order, inputs };
        self.push(Statement::Loop(Loop { dims, kind: LoopKind::Reduce(vec![reduction]), body }));
        results
    }

    /// New values for the state of a reduction.
    fn state(&mut self, merge: Merge, inputs: &[Input]) -> Vec<ValueId> {
        let mut state = vec![];
        while let Some(dtype) = field_dtype(self.program, &self.values, merge, inputs.first(), state.len()) {
            state.push(self.values.push(dtype));
        }
        state
    }

    /// One of two blocks, joining a value of each.
    pub fn if_(&mut self, condition: ValueId, then: (Block, ValueId), otherwise: (Block, ValueId)) -> ValueId {
        let result = self.values.push(self.values[then.1]);
        let results = vec![(result, then.1, otherwise.1)];
        self.push(Statement::If { condition, then: then.0, otherwise: otherwise.0, results });
        result
    }

    /// A `while` over a state: the first, current and next value of each scalar. Returns the last
    /// values.
    pub fn while_(
        &mut self,
        counter: (IndexId, Extent),
        state: Vec<[ValueId; 3]>,
        condition: Option<Condition>,
        body: Block,
    ) -> Vec<ValueId> {
        let state = state.into_iter().map(|[first, current, next]| {
            let result = self.values.push(self.values[first]);
            State { first, current, next, result }
        });
        let state: Vec<State> = state.collect();
        let results = state.iter().map(|state| state.result).collect();
        self.push(Statement::While(While { counter, state, condition, body }));
        results
    }

    /// A contraction. `epilogue` is called with the sum and emits its uses.
    pub fn contract(
        &mut self,
        free: Vec<(IndexId, Extent)>,
        (reduce, order): (Vec<(IndexId, Extent)>, Order),
        [left, right]: [Prologue; 2],
        epilogue: impl FnOnce(&mut Self, ValueId),
    ) {
        let result = self.values.push(self.values[left.value]);
        self.begin();
        epilogue(self, result);
        let epilogue = self.end();
        self.push(Statement::Contract(Contraction { free, reduce, order, left, right, result, epilogue }));
    }
}

impl Extent {
    /// The extent of a size.
    pub fn size(size: Size) -> Extent {
        Extent::Affine(Affine::size(size))
    }

    /// The size, if no index and no value occurs in it.
    pub fn as_size(&self) -> Option<&Size> {
        match self {
            Extent::Affine(affine) => affine.as_size(),
            Extent::Value(_) => None,
        }
    }
}

impl Subscript {
    /// The subscript that is an index alone.
    pub fn index(index: IndexId) -> Subscript {
        Subscript::Affine(Affine::index(index))
    }

    /// The index, if it is one alone.
    pub fn as_index(&self) -> Option<IndexId> {
        match self {
            Subscript::Affine(affine) => affine.as_index(),
            Subscript::Value(_) => None,
        }
    }
}
