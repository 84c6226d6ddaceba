//! Splits reducing loops by the orders of their reductions (loop fission), for targets where the
//! threads of a block share a loop. Threads take the elements as one order has them, so a loop with
//! reductions of several orders would be left to one thread. Both loops compute their elements.
//!
//! ```text
//! v3, v4 = reduce i < n {               v3 = reduce i < n {
//!   v0 = load %x[i]                       v0 = load %x[i]
//!   v1 = load %y[i, 0]         ->       } with sum lanes v0
//! } with sum lanes v0, sum blocks v1    v4 = reduce i_1 < n {
//!                                         v5 = load %y[i_1, 0]
//!                                       } with sum blocks v5
//! ```
//!
//! Reductions that any order suits stay with the first.

use ir::choice::Choice;
use ir::nest::{Block, Kernel, Loop, LoopKind, Program, Reduction, Statement};
use ir::rewrite::{Copier, erase_unused};
use ir::sabotage::{self, Bug};
use ir::sched::Scheduled;
use ir::{Order, visit};

use crate::maker::is_long;

/// Splits the loops of all parts.
pub fn orders(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { machine, program, parts, .. } = scheduled;
    for part in parts.iter_mut().filter(|_| machine.gpu.is_some()) {
        let body = std::mem::take(&mut part.kernel.body);
        let mut splits = false;
        part.kernel.body = in_block(program, &mut part.kernel, choice, body, &mut splits);
        if splits {
            erase_unused(&mut part.kernel.body);
        }
    }
}

fn in_block(program: &Program, kernel: &mut Kernel, choice: &mut Choice, block: Block, splits: &mut bool) -> Block {
    let mut out = vec![];
    for mut statement in block {
        for inner in statement.blocks_mut() {
            *inner = in_block(program, kernel, choice, std::mem::take(inner), splits);
        }
        if let Statement::Loop(l) = &mut statement
            && is_long(l.dims.iter())
            && visit::stores(&l.body).is_empty()
        {
            while let Some(others) = behind_the_first_order(l)
                && choice.grants(true)
            {
                let rest = apart(program, kernel, l, others);
                out.push(Statement::Loop(std::mem::replace(l, rest)));
                *splits = true;
            }
        }
        out.push(statement);
    }
    out
}

/// The reductions of other orders than the first one has, if there are any.
fn behind_the_first_order(l: &Loop) -> Option<Vec<Reduction>> {
    let ordered = || l.kind.reductions().iter().filter(|r| r.order != Order::Free);
    let first = ordered().next()?.order;
    let others: Vec<Reduction> = ordered().filter(|r| r.order != first).cloned().collect();
    Some(others).filter(|others| !others.is_empty())
}

/// Takes reductions out of a loop. Gives a loop with these.
fn apart(program: &Program, kernel: &mut Kernel, l: &mut Loop, others: Vec<Reduction>) -> Loop {
    let from = kernel.clone();
    let mut copier = Copier::new(program, &from, kernel);
    let mut rest = vec![];
    copier.copy(&[Statement::Loop(Loop { kind: LoopKind::Parallel, ..l.clone() })], &mut rest);
    let mut reductions = others.clone();
    for reduction in &mut reductions {
        for input in &mut reduction.inputs {
            *input = input.map(|value| copier.value(value));
        }
        if sabotage::on(Bug::FirstOrder) {
            reduction.order = l.kind.reductions().first().map_or(Order::Free, |first| first.order);
        }
    }
    if let LoopKind::Reduce(all) = &mut l.kind {
        all.retain(|r| !others.contains(r));
    }
    match rest.pop() {
        Some(Statement::Loop(rest)) => Loop { kind: LoopKind::Reduce(reductions), ..rest },
        _ => unreachable!("the copy of a loop is a loop"),
    }
}
