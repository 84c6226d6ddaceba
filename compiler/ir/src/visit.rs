//! Looking at blocks: everything inside, in text order.

use std::collections::BTreeSet;

use crate::Affine;
use crate::nest::{Block, BufferId, Extent, IndexId, LoopKind, Op, Reduction, Statement, Subscript, ValueId};

type Dims = [(IndexId, Extent)];

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
    for_each_statement(block, &mut |statement| {
        let (at, extents): (&[Subscript], [&Dims; 2]) = match statement {
            Statement::Let { op: Op::Affine(a), .. } => return visit(a),
            Statement::Let { op: Op::Load { at, .. }, .. } | Statement::Store { at, .. } => (at, [&[], &[]]),
            Statement::Loop(l) => (&[], [&l.dims, &[]]),
            Statement::Contract(c) => (&[], [&c.free, &c.reduce]),
            Statement::Let { .. } | Statement::If { .. } => return,
        };
        for subscript in at {
            if let Subscript::Affine(a) = subscript {
                visit(a);
            }
        }
        for (_, extent) in extents.into_iter().flatten() {
            if let Extent::Affine(a) = extent {
                visit(a);
            }
        }
    });
}

/// Calls `visit` on every value that a statement itself uses (not those that only its blocks use).
pub fn for_each_use(statement: &Statement, visit: &mut impl FnMut(ValueId)) {
    let mut extents = |dims: &Dims| {
        for (_, extent) in dims {
            if let Extent::Value(v) = extent {
                visit(*v);
            }
        }
    };
    match statement {
        Statement::Let { op, .. } => op.for_each_operand(visit),
        Statement::Store { at, value, .. } => {
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
        Statement::Loop(l) => {
            extents(&l.dims);
            if let LoopKind::Reduce(reductions) = &l.kind {
                reductions.iter().flat_map(Reduction::values).for_each(visit);
            }
        }
        Statement::Contract(c) => {
            extents(&c.free);
            extents(&c.reduce);
            visit(c.left.value);
            visit(c.right.value);
        }
    }
}

/// Calls `visit` on every value that a statement itself defines (not those that its blocks define).
pub fn for_each_definition(statement: &Statement, visit: &mut impl FnMut(ValueId)) {
    match statement {
        Statement::Let { value, .. } => visit(*value),
        Statement::If { results, .. } => results.iter().for_each(|(value, _, _)| visit(*value)),
        Statement::Loop(l) => {
            if let LoopKind::Reduce(reductions) = &l.kind {
                reductions.iter().flat_map(|r| &r.results).for_each(|v| visit(*v));
            }
        }
        Statement::Contract(c) => visit(c.result),
        Statement::Store { .. } => {}
    }
}

/// The indices that the loops and contractions of a block bind, in text order.
pub fn bound_indices(block: &Block) -> Vec<IndexId> {
    let mut bound = vec![];
    for_each_statement(block, &mut |statement| match statement {
        Statement::Loop(l) => bound.extend(l.dims.iter().map(|(i, _)| *i)),
        Statement::Contract(c) => bound.extend(c.free.iter().chain(&c.reduce).map(|(i, _)| *i)),
        Statement::Let { .. } | Statement::Store { .. } | Statement::If { .. } => {}
    });
    bound
}

/// The indices that a block mentions and does not bind.
pub fn free_indices(block: &Block) -> BTreeSet<IndexId> {
    let mut free = BTreeSet::new();
    for_each_affine(block, &mut |a| free.extend(a.terms().iter().map(|(i, _)| *i)));
    for index in bound_indices(block) {
        free.remove(&index);
    }
    free
}

/// The values that a block uses and does not define.
pub fn free_values(block: &Block) -> BTreeSet<ValueId> {
    let (mut used, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for_each_statement(block, &mut |statement| {
        for_each_use(statement, &mut |v| _ = used.insert(v));
        for_each_definition(statement, &mut |v| _ = defined.insert(v));
    });
    &used - &defined
}

/// How often each buffer is loaded from in the text of a block, in text order.
pub fn loads(block: &Block) -> Vec<BufferId> {
    let mut loads = vec![];
    for_each_statement(block, &mut |statement| loads.extend(statement.effects().load.map(|load| load.buffer)));
    loads
}

/// The buffers that a block's statements store to, in text order.
pub fn stores(block: &Block) -> Vec<BufferId> {
    let mut stores = vec![];
    for_each_statement(block, &mut |statement| stores.extend(statement.effects().store.map(|store| store.buffer)));
    stores
}

impl Statement {
    /// The blocks inside.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        let blocks = match self {
            Statement::Let { .. } | Statement::Store { .. } => [None, None, None],
            Statement::If { then, otherwise, .. } => [Some(then), Some(otherwise), None],
            Statement::Loop(l) => [Some(&l.body), None, None],
            Statement::Contract(c) => [Some(&c.left.body), Some(&c.right.body), Some(&c.epilogue)],
        };
        blocks.into_iter().flatten()
    }

    /// The blocks inside, to change.
    pub fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        let blocks = match self {
            Statement::Let { .. } | Statement::Store { .. } => [None, None, None],
            Statement::If { then, otherwise, .. } => [Some(then), Some(otherwise), None],
            Statement::Loop(l) => [Some(&mut l.body), None, None],
            Statement::Contract(c) => [Some(&mut c.left.body), Some(&mut c.right.body), Some(&mut c.epilogue)],
        };
        blocks.into_iter().flatten()
    }
}
