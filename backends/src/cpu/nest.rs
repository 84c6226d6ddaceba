//! Loop nests and control flow. Adjacent loops are merged where all accesses allow it, and
//! innermost loops become leaves, which are vectorized, where possible.

use std::ops::Range;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::Size;
use ir::leaf::Leaf;
use ir::linear::mergeable;
use ir::nest::{Block, Extent, FunctionId, IndexId, Loop, LoopKind, Op, ReducerId, Statement, ValueId, While};
use ir::sabotage::{self, Bug};
use ir::sched::Form;

use super::emit::Emitter;
use super::state::{Axis, Scope, own_memory};
use super::{columns, scalar, vectors};
use crate::abi::FaultRecord;

/// From this length on, a row that goes into a table is taken in vectors.
const SHORT_ROW: i64 = 16;

impl<'a> Emitter<'a> {
    /// Statements one after another.
    pub(super) fn block(&mut self, block: &Block) {
        for statement in block {
            self.statement(statement);
        }
    }

    pub(super) fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Let { value, op } => self.let_(*value, op),
            Statement::Store { buffer, at, value } => {
                let linear = self.linear(*buffer, None, at);
                let value = self.value(*value);
                self.store(*buffer, &linear, value);
            }
            Statement::Scatter { buffer, at, value, monoid } => {
                let linear = self.linear(*buffer, None, at);
                let dtype = self.dtype(*value);
                let (before, value) = (self.load(*buffer, &linear), self.value(*value));
                let merged = scalar::binary(&mut self.b, &mut self.helpers, monoid.primitive(), dtype, before, value);
                self.store(*buffer, &linear, merged);
            }
            Statement::If { condition, then, otherwise, results } => {
                let condition = self.value(*condition);
                let types: Vec<_> = results.iter().map(|(r, ..)| scalar::register(self.dtype(*r))).collect();
                // Both closures need the emitter, one after the other.
                let values = self.either(
                    condition,
                    &types,
                    |e| {
                        e.block(then);
                        results.iter().map(|(_, a, _)| e.value(*a)).collect()
                    },
                    |e| {
                        e.block(otherwise);
                        results.iter().map(|(_, _, b)| e.value(*b)).collect()
                    },
                );
                for ((result, ..), value) in results.iter().zip(values) {
                    self.define(*result, value);
                }
            }
            Statement::Loop(l) => self.loop_(l),
            Statement::While(w) => self.while_(w),
            Statement::Contract(c) => self.contract(c, None),
        }
    }

    pub(super) fn let_(&mut self, value: ValueId, op: &Op) {
        let dtype = self.dtype(value);
        let result = match op {
            Op::Constant(c) => scalar::constant(&mut self.b, *c),
            Op::Affine(affine) => self.affine(affine),
            Op::Unary(op, a) => {
                let a = self.value(*a);
                scalar::unary(&mut self.b, *op, dtype, a)
            }
            Op::Binary(op, x, y) => {
                let (x, y) = (self.value(*x), self.value(*y));
                scalar::binary(&mut self.b, &mut self.helpers, *op, dtype, x, y)
            }
            Op::Compare(op, x, y) => {
                let dtype = self.dtype(*x);
                let (x, y) = (self.value(*x), self.value(*y));
                scalar::compare(&mut self.b, *op, dtype, x, y)
            }
            Op::Fma(a, b, c) => {
                let (a, b, c) = (self.value(*a), self.value(*b), self.value(*c));
                self.b.ins().fma(a, b, c)
            }
            Op::Select(c, x, y) => {
                let (c, x, y) = (self.value(*c), self.value(*x), self.value(*y));
                self.b.ins().select(c, x, y)
            }
            Op::Cast(to, a) => {
                let from = self.dtype(*a);
                let a = self.value(*a);
                scalar::cast(&mut self.b, &mut self.helpers, from, *to, a)
            }
            Op::Bitcast(to, a) => {
                let from = self.dtype(*a);
                let a = self.value(*a);
                scalar::bitcast(&mut self.b, from, *to, a)
            }
            Op::Call(function, arguments) => self.call(*function, arguments),
            Op::Load { buffer, view, at } => {
                let linear = self.linear(*buffer, view.as_deref(), at);
                self.load(*buffer, &linear)
            }
            Op::Check { value, bound, site } => self.check(*value, bound, i64::from(site.as_u32())),
            // The emitter of the scan defines it before the body.
            Op::Prefix(..) | Op::Place(_) => self.value(value),
        };
        self.define(value, result);
    }

    /// Inlines a function of the program.
    fn call(&mut self, function: FunctionId, arguments: &[ValueId]) -> Value {
        let function = &self.unit.program.functions[function];
        let arguments: Vec<Value> = arguments.iter().map(|a| self.value(*a)).collect();
        let outer = std::mem::replace(&mut self.scope, Scope::new(&function.values));
        for (param, argument) in function.params.iter().zip(arguments) {
            self.define(*param, argument);
        }
        self.block(&function.body);
        let result = self.value(function.result);
        self.scope = outer;
        result
    }

    /// Inlines the merge of a reducer of the program.
    pub(super) fn merge(&mut self, id: ReducerId, a: &[Value], b: &[Value]) -> Vec<Value> {
        let reducer = &self.unit.program.reducers[id];
        let outer = std::mem::replace(&mut self.scope, Scope::new(&reducer.values));
        for (param, argument) in reducer.params.iter().zip(a.iter().chain(b)) {
            self.define(*param, *argument);
        }
        self.block(&reducer.body);
        let results = reducer.results.iter().map(|v| self.value(*v)).collect();
        self.scope = outer;
        results
    }

    /// Emits a bounds check. If it fails, the function records the fault and returns.
    fn check(&mut self, value: ValueId, bound: &Size, site: i64) -> Value {
        let index = self.value(value);
        let limit = self.size(bound);
        let zero = self.int(0);
        // Treat a negative bound as 0. As unsigned numbers, negative subscripts are out of bounds
        // too.
        let most = self.b.ins().smax(limit, zero);
        let condition = if sabotage::on(Bug::CheckedBound) {
            IntCC::UnsignedGreaterThan
        } else {
            IntCC::UnsignedGreaterThanOrEqual
        };
        let outside = self.b.ins().icmp(condition, index, most);
        let (fail, inside) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(fail);
        self.b.ins().brif(outside, fail, &[], inside, &[]);
        self.b.switch_to_block(fail);
        let site = self.int(site);
        for (field, value) in [
            (std::mem::offset_of!(FaultRecord, site), site),
            (std::mem::offset_of!(FaultRecord, index), index),
            (std::mem::offset_of!(FaultRecord, bound), limit),
        ] {
            let offset = i32::try_from(field).expect("a small record");
            self.b.ins().store(own_memory(), value, self.params.fault, offset);
        }
        self.b.ins().jump(self.exits.fault, &[]);
        self.b.switch_to_block(inside);
        index
    }

    fn loop_(&mut self, l: &Loop) {
        match &l.kind {
            LoopKind::Parallel => self.parallel(l, None),
            LoopKind::Serial | LoopKind::Keyed { .. } | LoopKind::Sort => {
                let axes = self.axes(&l.dims, &[&l.body]);
                self.nest(&axes, &[], &mut |e, _| {
                    e.block(&l.body);
                    vec![]
                });
            }
            LoopKind::Reduce(reductions) => self.reduce(l, reductions),
            LoopKind::Scan => self.scan(l),
        }
    }

    fn while_(&mut self, w: &While) {
        let (counter, extent) = &w.counter;
        let extent = self.extent(extent);
        let first: Vec<Value> = w.state.iter().map(|state| self.value(state.first)).collect();
        let last = self.steps(extent, &first, |e, step, current, exit| {
            e.poll();
            e.bind(*counter, step);
            for (state, value) in w.state.iter().zip(current) {
                e.define(state.current, *value);
            }
            if let Some(condition) = &w.condition {
                e.block(&condition.body);
                let holds = e.value(condition.value);
                e.leave_unless(holds, exit, current);
            }
            e.block(&w.body);
            w.state.iter().map(|state| e.value(state.next)).collect()
        });
        for (state, value) in w.state.iter().zip(last) {
            self.define(state.result, value);
        }
    }

    /// A parallel loop: the whole loop, or the iterations `range` in row-major order.
    pub(super) fn parallel(&mut self, l: &Loop, range: Option<Range<Value>>) {
        let axes = self.axes(&l.dims, &[&l.body]);
        let Some((last, outer)) = axes.split_last() else { return self.block(&l.body) };
        match range {
            Some(range) => {
                self.columns.ranged = Some(last.index);
                self.ranged(&axes, range, &mut |e, from, to| e.innermost(last, from, to, &l.body));
            }
            None => {
                self.nest(outer, &[], &mut |e, _| {
                    let zero = e.int(0);
                    e.innermost(last, zero, last.extent, &l.body);
                    vec![]
                });
            }
        }
    }

    /// Iterations `from..to` of a leaf, at least one: vectors, and then the rest.
    fn vectors(&mut self, leaf: &Leaf, axis: &Axis, from: Value, to: Value, body: &Block) {
        if let Some(done) = vectors::run(self, leaf, from, to).filter(|_| !sabotage::on(Bug::LostTail)) {
            self.each(axis, done, to, body);
        }
    }

    /// Iterations `from..to` of a parallel loop, in its form.
    pub(super) fn innermost(&mut self, axis: &Axis, from: Value, to: Value, body: &Block) {
        self.bind_merged(axis);
        let form = self.form(axis.index, body);
        self.in_form(&form, axis, from..to, body);
    }

    /// The same in a form.
    pub(super) fn in_form(&mut self, form: &Form, axis: &Axis, range: Range<Value>, body: &Block) {
        let Range { start: from, end: to } = range;
        match form {
            Form::Vectors => match self.leaf(axis.index, body, &[]) {
                Some(leaf) => self.in_vectors(&leaf, axis, from..to, body),
                None => self.each(axis, from, to, body),
            },
            Form::Single { inside, .. } => {
                self.enter(inside);
                self.each(axis, from, to, body);
            }
            Form::Split { at, holds, fails } => self.split(*at, [holds, fails], axis, from..to, body),
        }
    }

    /// Iterations of a leaf.
    fn in_vectors(&mut self, leaf: &Leaf, axis: &Axis, range: Range<Value>, body: &Block) {
        let Range { start: from, end: to } = range;
        let scatters = body.iter().any(|s| matches!(s, Statement::Scatter { .. }));
        let vectors = |e: &mut Self| {
            if leaf.in_strips() {
                columns::run(e, leaf, from, to);
            } else {
                e.vectors(leaf, axis, from, to, body);
            }
            vec![]
        };
        if scatters && !leaf.in_strips() {
            // The rows that go into a table are often short, and there are many of them.
            let count = self.b.ins().isub(to, from);
            let long = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, count, SHORT_ROW);
            let scalars = |e: &mut Self| {
                e.each(axis, from, to, body);
                vec![]
            };
            self.either(long, &[], vectors, scalars);
        } else {
            let some = self.b.ins().icmp(IntCC::SignedLessThan, from, to);
            self.when(some, &[], vectors);
        }
    }

    /// Iterations `from..to` of a loop, one by one.
    fn each(&mut self, axis: &Axis, from: Value, to: Value, body: &Block) {
        self.counted(from, to, 1, &[], |e, i, _| {
            e.poll();
            e.bind(axis.index, i);
            e.block(body);
            vec![]
        });
    }

    fn bind_merged(&mut self, axis: &Axis) {
        let zero = self.int(0);
        for index in &axis.merged {
            self.bind(*index, zero);
        }
    }

    /// The number of iterations of an extent, at least 0.
    pub(super) fn extent(&mut self, extent: &Extent) -> Value {
        let value = match extent {
            Extent::Affine(affine) => self.affine(affine),
            Extent::Value(value) => self.value(*value),
        };
        let zero = self.int(0);
        self.b.ins().smax(value, zero)
    }

    /// Evaluates the extents of a loop, and merges adjacent indices where all accesses of the
    /// bodies allow it.
    pub(super) fn axes(&mut self, dims: &[(IndexId, Extent)], bodies: &[&Block]) -> Vec<Axis> {
        let mut axes: Vec<Axis> = vec![];
        for (k, (index, extent)) in dims.iter().enumerate() {
            let count = self.extent(extent);
            match axes.last_mut() {
                Some(last)
                    if sabotage::on(Bug::MergedLoops)
                        || mergeable(self.unit.program, dims[k - 1].0, *index, extent, bodies) =>
                {
                    last.merged.push(std::mem::replace(&mut last.index, *index));
                    last.extent = self.b.ins().imul(last.extent, count);
                }
                _ => {
                    if let Extent::Affine(extent) = extent
                        && let Some(length) = extent.as_size()
                    {
                        self.set_length(*index, length.clone());
                    }
                    axes.push(Axis { index: *index, merged: vec![], extent: count });
                }
            }
        }
        axes
    }

    /// A loop nest with carried values.
    pub(super) fn nest(
        &mut self,
        axes: &[Axis],
        carried: &[Value],
        body: &mut dyn FnMut(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let Some((axis, inner)) = axes.split_first() else { return body(self, carried) };
        self.bind_merged(axis);
        let zero = self.int(0);
        self.counted(zero, axis.extent, 1, carried, |e, i, carried| {
            e.poll();
            e.bind(axis.index, i);
            e.nest(inner, carried, body)
        })
    }

    /// Iterations `begin..end` of a loop nest in row-major order. Calls `row` for each range of the
    /// last axis. The outer indices are computed by division once, and from then on incremented
    /// like an odometer.
    pub(super) fn ranged(
        &mut self,
        axes: &[Axis],
        Range { start: begin, end }: Range<Value>,
        row: &mut dyn FnMut(&mut Self, Value, Value),
    ) {
        let Some((last, outer)) = axes.split_last() else { return };
        let mut total = last.extent;
        for axis in outer {
            total = self.b.ins().imul(total, axis.extent);
        }
        let end = self.least(end, total);
        for axis in axes {
            self.bind_merged(axis);
        }
        if outer.is_empty() {
            return row(self, begin, end);
        }
        // Skip the divisions below if the range is empty: then an extent may be 0.
        let some = self.b.ins().icmp(IntCC::SignedLessThan, begin, end);
        self.when(some, &[], |e| {
            // The total is positive here, so no extent is 0 and the divisions are safe.
            let mut number = e.b.ins().udiv(begin, last.extent);
            let column = e.b.ins().urem(begin, last.extent);
            let mut state = vec![begin, column];
            let mut digits = vec![];
            for axis in outer.iter().rev() {
                digits.push(e.b.ins().urem(number, axis.extent));
                number = e.b.ins().udiv(number, axis.extent);
            }
            state.extend(digits.into_iter().rev());
            e.repeat(&state, |e, state| {
                e.poll();
                let (at, column, digits) = (state[0], state[1], &state[2..]);
                for (axis, digit) in outer.iter().zip(digits) {
                    e.bind(axis.index, *digit);
                }
                // The rest of the row, or of the range if that ends before.
                let left = e.b.ins().isub(end, at);
                let stop = e.b.ins().iadd(column, left);
                let stop = e.least(stop, last.extent);
                row(e, column, stop);
                let done = e.b.ins().isub(stop, column);
                let at = e.b.ins().iadd(at, done);
                let zero = e.int(i64::from(sabotage::on(Bug::RowsBegin)));
                let mut next = vec![at, zero];
                next.extend(e.odometer(outer, digits));
                (e.b.ins().icmp(IntCC::SignedLessThan, at, end), next)
            });
            vec![]
        });
    }

    /// The outer indices of the next row: increments the last one, and carries on overflow.
    fn odometer(&mut self, axes: &[Axis], digits: &[Value]) -> Vec<Value> {
        let mut next = vec![];
        let mut carry = self.int(1);
        let zero = self.int(0);
        // Increment the last digit. A digit that is full becomes 0 and carries to the one before.
        for (axis, digit) in axes.iter().zip(digits).rev() {
            let sum = self.b.ins().iadd(*digit, carry);
            let full = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, sum, axis.extent);
            next.push(if sabotage::on(Bug::Odometer) { sum } else { self.b.ins().select(full, zero, sum) });
            carry = self.b.ins().uextend(I64, full);
        }
        next.reverse();
        next
    }
}
