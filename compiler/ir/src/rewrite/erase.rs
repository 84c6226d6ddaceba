//! Erases code without effect.

use std::collections::BTreeSet;

use cranelift_entity::{EntitySet, SecondaryMap};

use super::replace::replace;
use crate::nest::{Block, BufferId, Contraction, Kernel, Loop, LoopKind, Op, Statement, ValueId, While};
use crate::visit::{for_each_definition, for_each_statement, for_each_use};

/// Erases the stores to buffers that nothing loads from, and the code that is then unused.
pub fn erase_stores(kernel: &mut Kernel, buffers: &BTreeSet<BufferId>) {
    replace(&mut kernel.body, &mut |statement, out| {
        if !statement.effects().store.is_some_and(|store| buffers.contains(&store.buffer)) {
            out.push(statement);
        }
    });
    erase_unused(&mut kernel.body);
}

/// Erases code without effect: unused definitions and parts of the state of a `while`, and loops,
/// contractions and branches with nothing left in them. Stores and checks stay. A scan or reducing
/// loop without any prefix or reduction left becomes a parallel one.
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
        Statement::Store { .. } | Statement::Scatter { .. } => {}
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
        Statement::While(_) if statement.may_fault() => {}
        Statement::While(w) if w.state.iter().all(|state| !used.contains(state.result)) => return false,
        Statement::Loop(_) | Statement::While(_) => {}
    }
    if let Statement::While(w) = statement {
        let needed = needed_state(w, used);
        w.state.retain(|state| needed.contains(state.current));
    }
    // A statement that is erased uses nothing. One that gives values stays, and uses those that
    // its blocks end with.
    let gives = match statement {
        Statement::If { results, .. } => !results.is_empty(),
        Statement::Loop(l) => !l.kind.reductions().is_empty(),
        Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::While(_)
        | Statement::Contract(_) => true,
    };
    if gives {
        for_each_use(statement, &mut |v| _ = used.insert(v));
    }
    // Only the state of a `while` passes from one iteration to the next, so one walk is enough.
    if let Statement::Contract(c) = statement {
        erase_unused_but(&mut c.left.body, used);
        erase_unused_but(&mut c.right.body, used);
    } else {
        statement.blocks_mut().for_each(|inner| erase_unused_but(inner, used));
    }
    if gives {
        return true;
    }
    if let Statement::Loop(l) = statement {
        match &l.kind {
            LoopKind::Reduce(_) => l.kind = LoopKind::Parallel,
            LoopKind::Scan if !has_prefix(&l.body) => l.kind = LoopKind::Parallel,
            LoopKind::Parallel | LoopKind::Serial | LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => {}
        }
    }
    let stays = !statement.blocks().all(Vec::is_empty);
    if stays {
        for_each_use(statement, &mut |v| _ = used.insert(v));
    }
    stays
}

/// Of the values inside a `while`, at least those that its used results, condition and checks
/// depend on.
fn needed_state(w: &While, used: &EntitySet<ValueId>) -> EntitySet<ValueId> {
    // The values that each one is computed from. A statement with several results is taken to
    // compute all of them from everything that it uses.
    let mut from: SecondaryMap<ValueId, Vec<ValueId>> = SecondaryMap::new();
    let mut open: Vec<ValueId> = w.condition.iter().map(|condition| condition.value).collect();
    for state in &w.state {
        from[state.current] = vec![state.next];
        if used.contains(state.result) {
            open.extend([state.current, state.next]);
        }
    }
    for block in w.condition.iter().map(|condition| &condition.body).chain([&w.body]) {
        for_each_statement(block, &mut |statement| {
            let mut uses = vec![];
            for_each_use(statement, &mut |value| uses.push(value));
            if statement.may_fault() {
                open.extend(&uses);
            }
            for_each_definition(statement, &mut |value| from[value].clone_from(&uses));
        });
    }
    let mut needed = EntitySet::new();
    while let Some(value) = open.pop() {
        if needed.insert(value) {
            open.extend(&from[value]);
        }
    }
    needed
}

fn has_prefix(body: &Block) -> bool {
    body.iter().any(|statement| matches!(statement, Statement::Let { op: Op::Prefix(..) | Op::Place(_), .. }))
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
