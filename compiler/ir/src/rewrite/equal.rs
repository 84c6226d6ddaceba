//! Equality of two operations, or of two statements with blocks: they compute the same if they are
//! equal up to the names of the values and indices that they define themselves.
//!
//! Only pure computations are compared: operations, and branches, reductions and `while`s over
//! them. Each element is stored once and loaded only after that, so equal loads give equal values
//! wherever one is visible to the other.

use std::hash::{Hash, Hasher};
use std::mem::discriminant;

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use rustc_hash::FxHasher;

use crate::Affine;
use crate::nest::{Block, Extent, IndexId, Input, Loop, LoopKind, Op, Statement, Subscript, ValueId, While};
use crate::sabotage::{self, Bug};

/// The meaning of a name that the compared statements define: its position among the names of its
/// kind. It is valid until the end of that comparison.
#[derive(Clone, Copy, Default)]
struct Local {
    comparison: u32,
    number: u32,
}

/// The values known to be equal, and the definitions of the statements being compared.
#[derive(Default)]
pub(super) struct Equality {
    /// For each value, the one that it equals, unless that is itself.
    equal: SecondaryMap<ValueId, PackedOption<ValueId>>,
    values: SecondaryMap<ValueId, Local>,
    indices: SecondaryMap<IndexId, Local>,
    /// How many comparisons are over.
    over: u32,
    /// The values that the first statement defines, by their numbers.
    defined: Vec<ValueId>,
    bound: u32,
}

impl Equality {
    /// The value that represents all those equal to `value`.
    pub(super) fn of(&self, value: ValueId) -> ValueId {
        self.equal[value].expand().unwrap_or(value)
    }

    /// Records that `value` equals `first`, which represents itself.
    pub(super) fn learn(&mut self, value: ValueId, first: ValueId) {
        self.equal[value] = first.into();
    }

    /// A hash of an operation.
    pub(super) fn hash_of_op(&self, op: &Op) -> u64 {
        let mut hasher = FxHasher::default();
        self.hash_op(op, &mut hasher);
        hasher.finish()
    }

    /// A hash of a branch or reduction without its results, unless it does more than compute.
    pub(super) fn hash_of(&mut self, statement: &Statement) -> Option<u64> {
        let mut hasher = FxHasher::default();
        let computes = self.hash_inside(statement, &mut hasher);
        self.end();
        computes.map(|()| hasher.finish())
    }

    /// Whether two branches or reductions that only compute are equal up to their results. If so,
    /// `then` is told the first's name for each value that the second uses at its end.
    pub(super) fn compare(
        &mut self,
        first: &Statement,
        second: &Statement,
        then: impl FnOnce(&dyn Fn(ValueId) -> ValueId),
    ) -> bool {
        let same = self.same_inside(first, second);
        if same {
            then(&|value| match self.values[value] {
                local if local.comparison > self.over => self.of(self.defined[local.number as usize]),
                _ => self.of(value),
            });
        }
        self.end();
        same
    }

    /// Ends a comparison, which invalidates its names.
    fn end(&mut self) {
        self.over += 1;
        self.defined.clear();
        self.bound = 0;
    }

    /// The next value that both statements define (one, if only one is examined).
    fn define(&mut self, first: ValueId, second: ValueId) {
        let local = Local { comparison: self.over + 1, number: self.defined.len() as u32 };
        (self.values[first], self.values[second]) = (local, local);
        self.defined.push(first);
    }

    fn bind(&mut self, first: IndexId, second: IndexId) {
        let local = Local { comparison: self.over + 1, number: self.bound };
        (self.indices[first], self.indices[second]) = (local, local);
        self.bound += 1;
    }

    /// A number that names with the same meaning share.
    fn value(&self, value: ValueId) -> u64 {
        self.number(self.values[value], self.of(value).as_u32())
    }

    fn input(&self, input: Input) -> Option<u64> {
        input.value().map(|value| self.value(value))
    }

    fn index(&self, index: IndexId) -> u64 {
        self.number(self.indices[index], index.as_u32())
    }

    fn number(&self, local: Local, global: u32) -> u64 {
        if local.comparison > self.over { 1 << 32 | u64::from(local.number) } else { global.into() }
    }

    fn hash_op(&self, op: &Op, h: &mut FxHasher) {
        discriminant(op).hash(h);
        match op {
            Op::Constant(scalar) => (scalar.dtype(), scalar.bits()).hash(h),
            Op::Affine(a) => self.hash_affine(a, h),
            Op::Unary(op, _) => op.hash(h),
            Op::Binary(op, ..) => op.hash(h),
            Op::Compare(op, ..) => op.hash(h),
            Op::Prefix(prefix) => (prefix.merge, prefix.field).hash(h),
            Op::Cast(to, _) | Op::Bitcast(to, _) => to.hash(h),
            Op::Place(_) => {}
            Op::Call(function, _) => function.hash(h),
            Op::Load { buffer, view, at } => {
                (buffer, view).hash(h);
                for subscript in at {
                    if let Subscript::Affine(a) = subscript
                        && !sabotage::on(Bug::SharedLoads)
                    {
                        self.hash_affine(a, h);
                    }
                }
            }
            Op::Check { bound, .. } => bound.hash(h),
            Op::Fma(..) | Op::Select(..) => {}
        }
        op.for_each_operand(|v| self.value(v).hash(h));
    }

    pub(super) fn same_op(&self, a: &Op, b: &Op) -> bool {
        let same = |v: &[&ValueId], w: &[&ValueId]| v.iter().zip(w).all(|(v, w)| self.value(**v) == self.value(**w));
        match (a, b) {
            (Op::Constant(a), Op::Constant(b)) => a.dtype() == b.dtype() && a.bits() == b.bits(),
            (Op::Affine(a), Op::Affine(b)) => self.same_affine(a, b),
            (Op::Unary(p, a), Op::Unary(q, b)) => p == q && same(&[a], &[b]),
            (Op::Binary(p, a, b), Op::Binary(q, c, d)) => p == q && same(&[a, b], &[c, d]),
            (Op::Compare(p, a, b), Op::Compare(q, c, d)) => p == q && same(&[a, b], &[c, d]),
            (Op::Fma(a, b, c), Op::Fma(d, e, f)) | (Op::Select(a, b, c), Op::Select(d, e, f)) => {
                same(&[a, b, c], &[d, e, f])
            }
            (Op::Cast(p, a), Op::Cast(q, b)) | (Op::Bitcast(p, a), Op::Bitcast(q, b)) => p == q && same(&[a], &[b]),
            (Op::Call(f, a), Op::Call(g, b)) => {
                f == g && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(&[a], &[b]))
            }
            (Op::Load { buffer, view, at }, Op::Load { buffer: other, view: seen, at: there }) => {
                let subscript = |(a, b): (&Subscript, &Subscript)| match (a, b) {
                    (Subscript::Affine(a), Subscript::Affine(b)) => self.same_affine(a, b),
                    (Subscript::Value(a), Subscript::Value(b)) => same(&[a], &[b]),
                    _ => false,
                };
                let same = at.len() == there.len() && at.iter().zip(there).all(subscript);
                buffer == other && view == seen && (same || sabotage::on(Bug::SharedLoads))
            }
            // Wherever the first check passes, the second one does, whatever its error would say.
            (Op::Check { value: a, bound, .. }, Op::Check { value: b, bound: other, .. }) => {
                bound == other && same(&[a], &[b])
            }
            _ => false,
        }
    }

    /// Independent of the order of terms, which are sorted by ids.
    fn hash_affine(&self, a: &Affine<IndexId>, h: &mut FxHasher) {
        a.constant_part().hash(h);
        let mut terms = 0u64;
        for (index, coefficient) in a.terms() {
            let mut hasher = FxHasher::default();
            (self.index(*index), coefficient).hash(&mut hasher);
            terms = terms.wrapping_add(hasher.finish());
        }
        terms.hash(h);
    }

    fn same_affine(&self, a: &Affine<IndexId>, b: &Affine<IndexId>) -> bool {
        a.constant_part() == b.constant_part()
            && a.terms().len() == b.terms().len()
            && a.terms().iter().all(|(i, c)| b.terms().iter().any(|(j, d)| self.index(*i) == self.index(*j) && c == d))
    }

    fn hash_extent(&self, extent: &Extent, h: &mut FxHasher) {
        match extent {
            Extent::Affine(a) => self.hash_affine(a, h),
            Extent::Value(v) => self.value(*v).hash(h),
        }
    }

    fn same_extent(&self, a: &Extent, b: &Extent) -> bool {
        match (a, b) {
            (Extent::Affine(a), Extent::Affine(b)) => self.same_affine(a, b),
            (Extent::Value(a), Extent::Value(b)) => self.value(*a) == self.value(*b),
            _ => false,
        }
    }

    fn hash_inside(&mut self, statement: &Statement, h: &mut FxHasher) -> Option<()> {
        discriminant(statement).hash(h);
        match statement {
            Statement::If { condition, then, otherwise, .. } => {
                self.value(*condition).hash(h);
                self.hash_block(then, h)?;
                self.hash_block(otherwise, h)
            }
            Statement::Loop(Loop { dims, kind: LoopKind::Reduce(_), body }) => {
                dims.iter().for_each(|(_, extent)| self.hash_extent(extent, h));
                dims.iter().for_each(|(index, _)| self.bind(*index, *index));
                self.hash_block(body, h)
            }
            Statement::While(w) => {
                self.hash_extent(&w.counter.1, h);
                self.bind(w.counter.0, w.counter.0);
                for state in &w.state {
                    self.value(state.first).hash(h);
                    self.define(state.current, state.current);
                }
                w.condition.is_some().hash(h);
                if let Some(condition) = &w.condition {
                    self.hash_block(&condition.body, h)?;
                    self.value(condition.value).hash(h);
                }
                self.hash_block(&w.body, h)?;
                w.state.iter().for_each(|state| self.value(state.next).hash(h));
                Some(())
            }
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::Loop(_)
            | Statement::Contract(_) => None,
        }
    }

    fn hash_block(&mut self, block: &Block, h: &mut FxHasher) -> Option<()> {
        block.len().hash(h);
        block.iter().try_for_each(|statement| {
            match statement {
                Statement::Let { op: Op::Prefix(..) | Op::Place(_), .. } => return None,
                Statement::Let { value, op } => {
                    self.hash_op(op, h);
                    self.define(*value, *value);
                }
                Statement::If { results, .. } => {
                    self.hash_inside(statement, h)?;
                    for (value, yes, no) in results {
                        (self.value(*yes), self.value(*no)).hash(h);
                        self.define(*value, *value);
                    }
                }
                Statement::Loop(Loop { kind: LoopKind::Reduce(reductions), .. }) => {
                    self.hash_inside(statement, h)?;
                    for r in reductions {
                        (r.merge, r.order).hash(h);
                        r.inputs.iter().for_each(|input| self.input(*input).hash(h));
                        r.results.iter().for_each(|v| self.define(*v, *v));
                    }
                }
                Statement::While(w) => {
                    self.hash_inside(statement, h)?;
                    w.state.iter().for_each(|state| self.define(state.result, state.result));
                }
                Statement::Store { .. } | Statement::Scatter { .. } | Statement::Loop(_) | Statement::Contract(_) => {
                    return None;
                }
            }
            Some(())
        })
    }

    fn same_inside(&mut self, a: &Statement, b: &Statement) -> bool {
        match (a, b) {
            (
                Statement::If { condition: a, then: yes, otherwise: no, .. },
                Statement::If { condition: b, then, otherwise, .. },
            ) => self.value(*a) == self.value(*b) && self.same_block(yes, then) && self.same_block(no, otherwise),
            (Statement::Loop(a), Statement::Loop(b)) => {
                let same = |((_, a), (_, b)): (&(IndexId, Extent), &(IndexId, Extent))| self.same_extent(a, b);
                if a.dims.len() != b.dims.len() || !a.dims.iter().zip(&b.dims).all(same) {
                    return false;
                }
                a.dims.iter().zip(&b.dims).for_each(|((i, _), (j, _))| self.bind(*i, *j));
                self.same_block(&a.body, &b.body)
            }
            (Statement::While(a), Statement::While(b)) => self.same_while(a, b),
            _ => false,
        }
    }

    fn same_while(&mut self, a: &While, b: &While) -> bool {
        let mut same = a.state.len() == b.state.len() && self.same_extent(&a.counter.1, &b.counter.1);
        self.bind(a.counter.0, b.counter.0);
        for (s, t) in a.state.iter().zip(&b.state) {
            same = same && self.value(s.first) == self.value(t.first);
            self.define(s.current, t.current);
        }
        same = same
            && match (&a.condition, &b.condition) {
                (Some(a), Some(b)) => self.same_block(&a.body, &b.body) && self.value(a.value) == self.value(b.value),
                (a, b) => a.is_none() && b.is_none(),
            };
        same = same && self.same_block(&a.body, &b.body);
        same && a.state.iter().zip(&b.state).all(|(s, t)| self.value(s.next) == self.value(t.next))
    }

    fn same_block(&mut self, first: &Block, second: &Block) -> bool {
        first.len() == second.len() && first.iter().zip(second).all(|(a, b)| self.same_statement(a, b))
    }

    fn same_statement(&mut self, a: &Statement, b: &Statement) -> bool {
        match (a, b) {
            (Statement::Let { value: v, op: p }, Statement::Let { value: w, op: q }) => {
                let same = self.same_op(p, q);
                self.define(*v, *w);
                same
            }
            (Statement::If { results: r, .. }, Statement::If { results: s, .. }) => {
                let mut same = r.len() == s.len() && self.same_inside(a, b);
                for ((v, yes, no), (w, then, otherwise)) in r.iter().zip(s) {
                    same = same && self.value(*yes) == self.value(*then) && self.value(*no) == self.value(*otherwise);
                    self.define(*v, *w);
                }
                same
            }
            (
                Statement::Loop(Loop { kind: LoopKind::Reduce(r), .. }),
                Statement::Loop(Loop { kind: LoopKind::Reduce(s), .. }),
            ) => {
                let mut same = r.len() == s.len() && self.same_inside(a, b);
                for (r, s) in r.iter().zip(s) {
                    same = same
                        && (r.merge, r.order, r.inputs.len()) == (s.merge, s.order, s.inputs.len())
                        && r.inputs.iter().zip(&s.inputs).all(|(a, b)| self.input(*a) == self.input(*b));
                    r.results.iter().zip(&s.results).for_each(|(v, w)| self.define(*v, *w));
                }
                same
            }
            (Statement::While(v), Statement::While(w)) => {
                let same = self.same_while(v, w);
                v.state.iter().zip(&w.state).for_each(|(s, t)| self.define(s.result, t.result));
                same
            }
            _ => false,
        }
    }
}
