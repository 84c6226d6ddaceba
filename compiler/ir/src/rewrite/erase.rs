//! Erases code without effect.

use std::collections::BTreeSet;

use cranelift_entity::EntitySet;

use super::replace::replace;
use crate::nest::{Block, BufferId, Contraction, Kernel, Loop, LoopKind, Op, Statement, ValueId};
use crate::visit::for_each_use;

/// Erases the stores to buffers that nothing loads from, and the code that is then unused.
pub fn erase_stores(kernel: &mut Kernel, buffers: &BTreeSet<BufferId>) {
    replace(&mut kernel.body, &mut |statement, out| {
        if !statement.effects().store.is_some_and(|store| buffers.contains(&store.buffer)) {
            out.push(statement);
        }
    });
    erase_unused(&mut kernel.body);
}

/// Erases code without effect: unused definitions, and loops, contractions and branches with
/// nothing left in them. Stores and checks stay. A scan or reducing loop without any prefix or
/// reduction left becomes a parallel one.
pub fn erase_unused(body: &mut Block) {
    erase_unused_but(body, &mut EntitySet::new());
}

/// `used` holds the values that are used after the block, and on return also those used in it.
fn erase_unused_but(block: &mut Block, used: &mut EntitySet<ValueId>) {
    // From the end, so that uses come before definitions.
    let mut kept: Vec<bool> = block.iter_mut().rev().map(|statement| is_used(statement, used)).collect();
    if kept.contains(&false) {
        block.retain(|_| kept.pop().unwrap_or(true));
    }
}

/// Whether a statement, without its unused contents, still has an effect.
fn is_used(statement: &mut Statement, used: &mut EntitySet<ValueId>) -> bool {
    match statement {
        Statement::Let { value, op } => {
            if !op.effects().may_fault && !used.contains(*value) {
                return false;
            }
        }
        Statement::Store { .. } => {}
        Statement::If { results, .. } => results.retain(|(value, _, _)| used.contains(*value)),
        Statement::Loop(Loop { kind: LoopKind::Reduce(reductions), .. }) => {
            reductions.retain(|r| r.results.iter().any(|v| used.contains(*v)));
        }
        Statement::Contract(c) => {
            // The epilogue comes last, and without it the sum is unused.
            erase_unused_but(&mut c.epilogue, used);
            if c.epilogue.is_empty() {
                *statement = factors(c);
            }
        }
        Statement::Loop(_) => {}
    }
    for_each_use(statement, &mut |v| _ = used.insert(v));
    // An iteration of a block uses nothing from the previous one, so one walk is enough.
    if let Statement::Contract(c) = statement {
        erase_unused_but(&mut c.left.body, used);
        erase_unused_but(&mut c.right.body, used);
    } else {
        statement.blocks_mut().for_each(|inner| erase_unused_but(inner, used));
    }
    match statement {
        Statement::Let { .. } | Statement::Store { .. } | Statement::Contract(_) => return true,
        Statement::If { results, .. } if !results.is_empty() => return true,
        Statement::If { .. } => {}
        Statement::Loop(l) => match &l.kind {
            LoopKind::Reduce(reductions) if !reductions.is_empty() => return true,
            LoopKind::Reduce(_) => l.kind = LoopKind::Parallel,
            LoopKind::Scan if !has_prefix(&l.body) => l.kind = LoopKind::Parallel,
            LoopKind::Parallel | LoopKind::Serial | LoopKind::Scan => {}
        },
    }
    !statement.blocks().all(Vec::is_empty)
}

fn has_prefix(body: &Block) -> bool {
    body.iter().any(|statement| matches!(statement, Statement::Let { op: Op::Prefix(..), .. }))
}

/// The remaining effect of a contraction without an epilogue: computing its factors, which may
/// contain checks.
fn factors(c: &mut Contraction) -> Statement {
    let mut dims = std::mem::take(&mut c.free);
    dims.append(&mut c.reduce);
    let mut body = std::mem::take(&mut c.left.body);
    body.append(&mut c.right.body);
    Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body })
}
