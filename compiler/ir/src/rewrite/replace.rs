//! Replaces statements and loads by code, and values by other values.

use std::collections::BTreeMap;

use crate::nest::{Block, BufferId, Extent, IndexId, Input, Kernel, Op, Statement, Subscript, ValueId};
use crate::visit::affine_subscripts_mut;
use crate::{Affine, Size};

/// Replaces every statement by the statements that `with` pushes for it, beginning with those in
/// nested blocks.
pub fn replace(block: &mut Block, with: &mut impl FnMut(Statement, &mut Block)) {
    let old = std::mem::take(block);
    for mut statement in old {
        for inner in statement.blocks_mut() {
            replace(inner, with);
        }
        with(statement, block);
    }
}

/// Replaces the loads from a buffer by code. `with` is called with the kernel (without its body),
/// the load's view and subscripts and the block to append to, and returns the value of the element.
/// Returns the number of loads replaced.
pub fn replace_loads(
    kernel: &mut Kernel,
    buffer: BufferId,
    mut with: impl FnMut(&mut Kernel, Option<&[Size]>, &[Subscript], &mut Block) -> ValueId,
) -> usize {
    let mut body = std::mem::take(&mut kernel.body);
    let mut values = BTreeMap::new();
    replace(&mut body, &mut |statement, out| match statement {
        Statement::Let { value, op: Op::Load { buffer: from, view, at } } if from == buffer => {
            // A subscript may itself have been loaded from the buffer.
            let renamed = |s| match s {
                Subscript::Value(v) => Subscript::Value(values.get(&v).copied().unwrap_or(v)),
                Subscript::Affine(a) => Subscript::Affine(a),
            };
            let at: Vec<Subscript> = at.into_iter().map(renamed).collect();
            let element = with(kernel, view.as_deref(), &at, out);
            values.insert(value, element);
        }
        other @ (Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::Loop(_)
        | Statement::While(_)
        | Statement::Contract(_)) => out.push(other),
    });
    replace_values(&mut body, &values);
    kernel.body = body;
    values.len()
}

/// Replaces values wherever a block uses them.
pub fn replace_values(block: &mut Block, values: &BTreeMap<ValueId, ValueId>) {
    for statement in block {
        for_each_use_mut(statement, &mut |v| *v = values.get(v).copied().unwrap_or(*v));
        for inner in statement.blocks_mut() {
            replace_values(inner, values);
        }
    }
}

/// Calls `visit` on every value that a statement itself uses, which may replace it.
pub fn for_each_use_mut(statement: &mut Statement, visit: &mut impl FnMut(&mut ValueId)) {
    for (_, extent) in statement.dims_mut() {
        if let Extent::Value(v) = extent {
            visit(v);
        }
    }
    match statement {
        Statement::Let { op, .. } => op.for_each_operand_mut(visit),
        Statement::Store { at, value, .. } | Statement::Scatter { at, value, .. } => {
            for subscript in at {
                if let Subscript::Value(v) = subscript {
                    visit(v);
                }
            }
            visit(value);
        }
        Statement::If { condition, results, .. } => {
            visit(condition);
            results.iter_mut().for_each(|(_, a, b)| [a, b].into_iter().for_each(&mut *visit));
        }
        Statement::Loop(l) => {
            for input in l.kind.reductions_mut().iter_mut().flat_map(|r| &mut r.inputs) {
                if let Input::Value(value) = input {
                    visit(value);
                }
            }
        }
        Statement::While(w) => {
            w.condition.iter_mut().for_each(|condition| visit(&mut condition.value));
            w.state.iter_mut().for_each(|s| [&mut s.first, &mut s.next].into_iter().for_each(&mut *visit));
        }
        Statement::Contract(c) => {
            visit(&mut c.left.value);
            visit(&mut c.right.value);
        }
    }
}

/// Calls `visit` on every affine expression of a statement and of the blocks inside, to replace it.
pub fn for_each_affine_mut(statement: &mut Statement, visit: &mut impl FnMut(&mut Affine<IndexId>)) {
    for (_, extent) in statement.dims_mut() {
        if let Extent::Affine(a) = extent {
            visit(a);
        }
    }
    match statement {
        Statement::Let { op, .. } => op.for_each_affine_mut(visit),
        Statement::Store { at, .. } | Statement::Scatter { at, .. } => affine_subscripts_mut(at).for_each(&mut *visit),
        Statement::If { .. } | Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => {}
    }
    for inner in statement.blocks_mut().flatten() {
        for_each_affine_mut(inner, visit);
    }
}
