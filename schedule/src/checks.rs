//! Hoists bounds checks of gathered indices out of loops. A vectorizable loop first tests all of
//! them; only if one fails does a second loop go over them in order, to end the run at the first.
//! The loop itself then cannot fault, so it is a leaf like any other, and may store directly to the
//! results.

use std::collections::BTreeSet;

use ir::build::Values;
use ir::choice::Choice;
use ir::nest::{Block, Kernel, Loop, LoopKind, Op, Program, Reduction, Statement, Subscript, ValueId};
use ir::rewrite::Copier;
use ir::sabotage::{self, Bug};
use ir::sched::Scheduled;
use ir::{Affine, BinaryOp, CompareOp, Dtype, Monoid, Order, Scalar, visit};

/// The maximum number of operations that compute the checked subscripts, since they are executed
/// twice.
const MOST: usize = 16;

/// Hoists the checks of kernels' loops out of them where that is possible, for targets that gain
/// from it.
pub fn hoist(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { machine, program, parts, .. } = scheduled;
    for part in parts.iter_mut().filter(|_| machine.hoists_checks) {
        ahead(program, &mut part.kernel, choice);
    }
}

fn ahead(program: &Program, kernel: &mut Kernel, choice: &mut Choice) {
    let mut body = vec![];
    for mut statement in std::mem::take(&mut kernel.body) {
        if let Statement::Loop(l) = &mut statement
            && let Some(leading) = leading(l)
            && choice.grants(true)
        {
            let look = look(&mut kernel.values, l, &leading);
            let result = look.1;
            let fault = Statement::Loop(Loop { dims: l.dims.clone(), kind: LoopKind::Serial, body: leading });
            let from = kernel.clone();
            let mut copier = Copier::new(program, &from, kernel);
            copier.copy(&[Statement::Loop(look.0)], &mut body);
            let found = copier.value(result);
            let mut then = vec![];
            Copier::new(program, &from, kernel).copy(&[fault], &mut then);
            let none = define(&mut kernel.values, &mut body, Dtype::I32, Op::Constant(Scalar::I32(0)));
            let condition = define(&mut kernel.values, &mut body, Dtype::Bool, Op::Compare(CompareOp::Ne, found, none));
            body.push(Statement::If { condition, then, otherwise: vec![], results: vec![] });
            for statement in &mut l.body {
                if let Statement::Let { op, .. } = statement
                    && let Op::Check { value, .. } = op
                {
                    *op = Op::Cast(Dtype::I64, *value);
                }
            }
        }
        body.push(statement);
    }
    kernel.body = body;
}

/// The checks of a loop and the operations that they depend on, if all of these may run for any
/// iteration, in any order, before the loop does.
fn leading(l: &Loop) -> Option<Block> {
    let checks = |s: &Statement| matches!(s, Statement::Let { op: Op::Check { .. }, .. });
    let free = matches!(l.kind, LoopKind::Parallel | LoopKind::Reduce(_));
    if !free || !l.body.iter().any(checks) || l.body.iter().any(|s| s.may_fault() && !checks(s)) {
        return None;
    }
    let stored = visit::stores(&l.body);
    let mut wanted = BTreeSet::new();
    let mut kept = vec![];
    for statement in l.body.iter().rev() {
        let mut is_needed = checks(statement);
        visit::for_each_definition(statement, &mut |v| is_needed |= wanted.contains(&v));
        if !is_needed {
            continue;
        }
        match statement {
            Statement::Let { op: Op::Call(..) | Op::Prefix(..) | Op::Place(_), .. } => return None,
            Statement::Let { op: Op::Load { buffer, at, .. }, .. } => {
                // A load at a subscript from data may itself be out of bounds.
                if stored.contains(buffer) || at.iter().any(|s| matches!(s, Subscript::Value(_))) {
                    return None;
                }
            }
            Statement::Let { .. } => {}
            Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::If { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => return None,
        }
        let one = vec![statement.clone()];
        wanted.extend(visit::free_values(&one));
        kept.extend(one);
    }
    kept.reverse();
    (kept.len() <= MOST).then_some(kept)
}

/// A loop that tests whether a check fails, and its result: 1 if one does.
fn look(values: &mut Values, l: &Loop, leading: &Block) -> (Loop, ValueId) {
    let mut body = vec![];
    let zero = define(values, &mut body, Dtype::I64, Op::Constant(Scalar::I64(0)));
    let mut outside = define(values, &mut body, Dtype::Bool, Op::Constant(Scalar::Bool(false)));
    for statement in leading {
        let Statement::Let { value: result, op: Op::Check { value, bound, .. } } = statement else {
            body.push(statement.clone());
            continue;
        };
        let bound = define(values, &mut body, Dtype::I64, Op::Affine(Affine::size(bound.clone())));
        for (op, limit) in [(CompareOp::Lt, zero), (CompareOp::Ge, bound)] {
            if op == CompareOp::Lt && sabotage::on(Bug::NegativeSubscript) {
                continue;
            }
            let one = define(values, &mut body, Dtype::Bool, Op::Compare(op, *value, limit));
            outside = define(values, &mut body, Dtype::Bool, Op::Binary(BinaryOp::Or, outside, one));
        }
        body.push(Statement::Let { value: *result, op: Op::Cast(Dtype::I64, *value) });
    }
    let [none, one] = [0, 1].map(|n| define(values, &mut body, Dtype::I32, Op::Constant(Scalar::I32(n))));
    let input = define(values, &mut body, Dtype::I32, Op::Select(outside, one, none));
    let result = values.push(Dtype::I32);
    let any = Reduction::monoid(result, Monoid::Max, Order::Free, input);
    (Loop { dims: l.dims.clone(), kind: LoopKind::Reduce(vec![any]), body }, result)
}

fn define(values: &mut Values, body: &mut Block, dtype: Dtype, op: Op) -> ValueId {
    let value = values.push(dtype);
    body.push(Statement::Let { value, op });
    value
}
