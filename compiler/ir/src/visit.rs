//! Visitors of blocks, which visit everything inside in text order.

use std::collections::BTreeSet;

use crate::Affine;
use crate::nest::{Block, BufferId, Extent, IndexId, LoopKind, Op, Reduction, Statement, Subscript, ValueId};

/// Calls `visit` on every statement, those inside blocks after the one that holds them.
pub fn for_each_statement<'b>(block: &'b [Statement], visit: &mut impl FnMut(&'b Statement)) {
    for statement in block {
        visit(statement);
        for inner in statement.blocks() {
            for_each_statement(inner, visit);
        }
    }
}

/// Calls `visit` on every operation, with the value it defines.
pub fn for_each_op<'b>(block: &'b Block, visit: &mut impl FnMut(ValueId, &'b Op)) {
    for_each_statement(block, &mut |statement| {
        if let Statement::Let { value, op } = statement {
            visit(*value, op);
        }
    });
}

/// Calls `visit` on every affine expression: subscripts, extents and operations.
pub fn for_each_affine<'b>(block: &'b Block, visit: &mut impl FnMut(&'b Affine<IndexId>)) {
    for_each_statement(block, &mut |statement| for_each_own_affine(statement, visit));
}

/// Calls `visit` on every affine expression of a statement itself (not those of its blocks).
pub fn for_each_own_affine<'s>(statement: &'s Statement, visit: &mut impl FnMut(&'s Affine<IndexId>)) {
    match statement {
        Statement::Let { op, .. } => op.for_each_affine(visit),
        Statement::Store { at, .. } | Statement::Scatter { at, .. } => affine_subscripts(at).for_each(&mut *visit),
        Statement::If { .. } | Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => {}
    }
    for (_, extent) in statement.dims() {
        if let Extent::Affine(a) = extent {
            visit(a);
        }
    }
}

pub(crate) fn affine_subscripts_mut(at: &mut [Subscript]) -> impl Iterator<Item = &mut Affine<IndexId>> {
    at.iter_mut().filter_map(|s| if let Subscript::Affine(a) = s { Some(a) } else { None })
}

fn affine_subscripts(at: &[Subscript]) -> impl Iterator<Item = &Affine<IndexId>> {
    at.iter().filter_map(|s| if let Subscript::Affine(a) = s { Some(a) } else { None })
}

/// Calls `visit` on every value that a statement itself uses (not those that only its blocks use).
pub fn for_each_use(statement: &Statement, visit: &mut impl FnMut(ValueId)) {
    for (_, extent) in statement.dims() {
        if let Extent::Value(v) = extent {
            visit(*v);
        }
    }
    match statement {
        Statement::Let { op, .. } => op.for_each_operand(visit),
        Statement::Store { at, value, .. } | Statement::Scatter { at, value, .. } => {
            for subscript in at {
                if let Subscript::Value(v) = subscript {
                    visit(*v);
                }
            }
            visit(*value);
        }
        Statement::If { condition, results, .. } => {
            visit(*condition);
            results.iter().for_each(|(_, a, b)| [*a, *b].into_iter().for_each(&mut *visit));
        }
        Statement::Loop(l) => l.kind.reductions().iter().flat_map(Reduction::values).for_each(visit),
        Statement::While(w) => {
            w.condition.iter().for_each(|condition| visit(condition.value));
            w.state.iter().for_each(|state| [state.first, state.next].into_iter().for_each(&mut *visit));
        }
        Statement::Contract(c) => {
            visit(c.left.value);
            visit(c.right.value);
        }
    }
}

/// Calls `visit` on every value that a statement itself defines (not those that its blocks define),
/// whether for the statements after it or for its own blocks.
pub fn for_each_definition(statement: &Statement, visit: &mut impl FnMut(ValueId)) {
    match statement {
        Statement::Let { value, .. } => visit(*value),
        Statement::If { results, .. } => results.iter().for_each(|(value, _, _)| visit(*value)),
        Statement::Loop(l) => l.kind.reductions().iter().flat_map(|r| &r.results).for_each(|v| visit(*v)),
        Statement::While(w) => {
            w.state.iter().for_each(|state| [state.current, state.result].into_iter().for_each(&mut *visit));
        }
        Statement::Contract(c) => visit(c.result),
        Statement::Store { .. } | Statement::Scatter { .. } => {}
    }
}

/// The indices that the loops and contractions of a block bind, in text order.
pub fn bound_indices(block: &Block) -> Vec<IndexId> {
    let mut bound = vec![];
    for_each_statement(block, &mut |statement| bound.extend(statement.dims().map(|(i, _)| *i)));
    bound
}

/// The indices that a block mentions but does not bind.
pub fn free_indices(block: &Block) -> BTreeSet<IndexId> {
    let mut free = BTreeSet::new();
    for_each_affine(block, &mut |a| free.extend(a.terms().iter().map(|(i, _)| *i)));
    for index in bound_indices(block) {
        free.remove(&index);
    }
    free
}

/// The values that a block uses but does not define.
pub fn free_values(block: &Block) -> BTreeSet<ValueId> {
    let (mut used, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for_each_statement(block, &mut |statement| {
        for_each_use(statement, &mut |v| _ = used.insert(v));
        for_each_definition(statement, &mut |v| _ = defined.insert(v));
    });
    &used - &defined
}

/// The buffer of each load in a block, in text order.
pub fn loads(block: &[Statement]) -> Vec<BufferId> {
    let mut loads = vec![];
    for_each_statement(block, &mut |statement| loads.extend(statement.effects().load.map(|load| load.buffer)));
    loads
}

/// The buffers that a block's statements store to, in text order.
pub fn stores(block: &[Statement]) -> Vec<BufferId> {
    let mut stores = vec![];
    for_each_statement(block, &mut |statement| stores.extend(statement.effects().store.map(|store| store.buffer)));
    stores
}

/// The places that statements directly in a block give, each with the value that decides on it. A
/// sort has one.
pub fn places(block: &Block) -> impl Iterator<Item = (ValueId, ValueId)> {
    block
        .iter()
        .filter_map(|s| if let Statement::Let { value, op: Op::Place(by) } = s { Some((*value, *by)) } else { None })
}

impl LoopKind {
    /// Whether the loop becomes several kernels before code generation.
    pub fn becomes_several(&self) -> bool {
        match self {
            LoopKind::Keyed { .. } | LoopKind::Sort => true,
            LoopKind::Parallel | LoopKind::Serial | LoopKind::Reduce(_) | LoopKind::Scan => false,
        }
    }

    /// The reductions over all iterations.
    pub fn reductions(&self) -> &[Reduction] {
        match self {
            LoopKind::Reduce(reductions) => reductions,
            LoopKind::Parallel | LoopKind::Serial | LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => &[],
        }
    }

    /// The reductions over all iterations, to change.
    pub fn reductions_mut(&mut self) -> &mut [Reduction] {
        match self {
            LoopKind::Reduce(reductions) => reductions,
            LoopKind::Parallel | LoopKind::Serial | LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => &mut [],
        }
    }
}

impl Op {
    /// Calls `visit` on every affine expression of the operation.
    pub fn for_each_affine<'o>(&'o self, visit: &mut impl FnMut(&'o Affine<IndexId>)) {
        match self {
            Op::Affine(a) => visit(a),
            Op::Load { at, .. } => affine_subscripts(at).for_each(visit),
            Op::Constant(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Bitcast(..)
            | Op::Call(..)
            | Op::Check { .. }
            | Op::Prefix(..)
            | Op::Place(_) => {}
        }
    }

    /// Calls `visit` on every affine expression of the operation, to replace it.
    pub fn for_each_affine_mut(&mut self, visit: &mut impl FnMut(&mut Affine<IndexId>)) {
        match self {
            Op::Affine(a) => visit(a),
            Op::Load { at, .. } => affine_subscripts_mut(at).for_each(visit),
            Op::Constant(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Bitcast(..)
            | Op::Call(..)
            | Op::Check { .. }
            | Op::Prefix(..)
            | Op::Place(_) => {}
        }
    }
}

impl Statement {
    /// The indices that the statement binds, each with its extent.
    pub fn dims(&self) -> impl Iterator<Item = &(IndexId, Extent)> {
        let (free, reduce): (&[_], &[_]) = match self {
            Statement::Loop(l) => (&l.dims, &[]),
            Statement::While(w) => (std::slice::from_ref(&w.counter), &[]),
            Statement::Contract(c) => (&c.free, &c.reduce),
            Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } | Statement::If { .. } => {
                (&[], &[])
            }
        };
        free.iter().chain(reduce)
    }

    /// The indices that the statement binds, to change.
    pub fn dims_mut(&mut self) -> impl Iterator<Item = &mut (IndexId, Extent)> {
        let (free, reduce): (&mut [_], &mut [_]) = match self {
            Statement::Loop(l) => (&mut l.dims, &mut []),
            Statement::While(w) => (std::slice::from_mut(&mut w.counter), &mut []),
            Statement::Contract(c) => (&mut c.free, &mut c.reduce),
            Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } | Statement::If { .. } => {
                (&mut [], &mut [])
            }
        };
        free.iter_mut().chain(reduce)
    }

    /// Whether the statement repeats the blocks inside: a loop, a `while` or a contraction.
    pub fn repeats(&self) -> bool {
        match self {
            Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => true,
            Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } | Statement::If { .. } => false,
        }
    }

    /// The blocks inside.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        let blocks = match self {
            Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } => [None, None, None],
            Statement::If { then, otherwise, .. } => [Some(then), Some(otherwise), None],
            Statement::Loop(l) => [Some(&l.body), None, None],
            Statement::While(w) => [w.condition.as_ref().map(|condition| &condition.body), Some(&w.body), None],
            Statement::Contract(c) => [Some(&c.left.body), Some(&c.right.body), Some(&c.epilogue)],
        };
        blocks.into_iter().flatten()
    }

    /// The blocks inside, to change.
    pub fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        let blocks = match self {
            Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } => [None, None, None],
            Statement::If { then, otherwise, .. } => [Some(then), Some(otherwise), None],
            Statement::Loop(l) => [Some(&mut l.body), None, None],
            Statement::While(w) => [w.condition.as_mut().map(|condition| &mut condition.body), Some(&mut w.body), None],
            Statement::Contract(c) => [Some(&mut c.left.body), Some(&mut c.right.body), Some(&mut c.epilogue)],
        };
        blocks.into_iter().flatten()
    }
}
