//! Erasing what has no effect.

use std::collections::BTreeSet;

use cranelift_entity::EntitySet;

use super::replace::replace;
use crate::nest::{Block, BufferId, Contraction, Kernel, Loop, LoopKind, Op, Statement, ValueId};
use crate::visit::for_each_use;

/// Erases the stores to buffers that nothing loads from, and what is then unused.
pub fn erase_stores(kernel: &mut Kernel, buffers: &BTreeSet<BufferId>) {
    replace(&mut kernel.body, &mut |statement, out| match statement {
        Statement::Store { buffer, .. } if buffers.contains(&buffer) => {}
        other => out.push(other),
    });
    erase_unused(&mut kernel.body);
}

/// Erases what has no effect: definitions that nothing uses, and loops, contractions and branches with nothing left
/// in them. Stores and checks stay.
pub fn erase_unused(body: &mut Block) {
    erase_unused_but(body, &mut EntitySet::new());
}

/// `used` holds the values that are used after the block, and at the end those used in it too.
fn erase_unused_but(block: &mut Block, used: &mut EntitySet<ValueId>) {
    let mut kept = vec![];
    while let Some(mut statement) = block.pop() {
        match &mut statement {
            Statement::Let { op: Op::Check { .. }, .. } | Statement::Store { .. } => {}
            Statement::Let { value, .. } => {
                if !used.contains(*value) {
                    continue;
                }
            }
            Statement::If { results, .. } => results.retain(|(value, _, _)| used.contains(*value)),
            Statement::Loop(Loop { kind: LoopKind::Reduce(reductions), .. }) => {
                reductions.retain(|r| used.contains(r.result));
            }
            Statement::Contract(c) => {
                // The epilogue comes last, and without it nobody asks for the sum.
                erase_unused_but(&mut c.epilogue, used);
                if c.epilogue.is_empty() {
                    statement = factors(c);
                }
            }
            Statement::Loop(_) => {}
        }
        for_each_use(&statement, &mut |v| _ = used.insert(v));
        // A block that runs once more after itself uses nothing of its last time: one walk is enough.
        match &mut statement {
            Statement::Contract(c) => {
                erase_unused_but(&mut c.left.body, used);
                erase_unused_but(&mut c.right.body, used);
            }
            other => other.blocks_mut().for_each(|inner| erase_unused_but(inner, used)),
        }
        if let Statement::Loop(Loop { kind, .. }) = &mut statement
            && matches!(kind, LoopKind::Reduce(reductions) if reductions.is_empty())
        {
            *kind = LoopKind::Parallel;
        }
        let idle = match &statement {
            Statement::If { results, .. } => results.is_empty(),
            Statement::Loop(l) => !matches!(l.kind, LoopKind::Reduce(_)),
            Statement::Let { .. } | Statement::Store { .. } | Statement::Contract(_) => false,
        };
        if !(idle && statement.blocks().all(Vec::is_empty)) {
            kept.push(statement);
        }
    }
    kept.reverse();
    *block = kept;
}

/// What a contraction without an epilogue still does: compute its factors, which may hold checks.
fn factors(c: &mut Contraction) -> Statement {
    let mut dims = std::mem::take(&mut c.free);
    dims.append(&mut c.reduce);
    let mut body = std::mem::take(&mut c.left.body);
    body.append(&mut c.right.body);
    Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body })
}
