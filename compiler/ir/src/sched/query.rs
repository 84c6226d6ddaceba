//! Queries about statements that the passes, the verifier and code generators share.

use crate::nest::{Loop, LoopKind, Op, Statement};
use crate::{Dtype, Order};

/// Whether each part may recompute the statement for itself.
pub fn is_scalar(statement: &Statement) -> bool {
    match statement {
        Statement::Let { .. } => true,
        Statement::If { then, otherwise, .. } => then.iter().chain(otherwise).all(is_scalar),
        Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::Loop(_)
        | Statement::While(_)
        | Statement::Contract(_) => false,
    }
}

/// Whether a reduction by a primitive can go by lanes.
pub fn in_lanes(dtype: Dtype, order: Order) -> bool {
    !dtype.is_storage() && matches!(order, Order::Lanes | Order::Free)
}

/// The number of prefixes of a scan that can run in chunks: none of them has a composite state, and
/// the body never ends the run.
pub fn prefixes_in_chunks(l: &Loop) -> Option<usize> {
    let mut prefixes = vec![];
    for statement in &l.body {
        if let Statement::Let { op: Op::Prefix(prefix), .. } = statement {
            prefixes.push(prefix);
        }
    }
    let single = prefixes.iter().all(|prefix| prefix.single().is_some());
    let fit = l.kind == LoopKind::Scan && single && !l.body.iter().any(Statement::may_fault);
    fit.then_some(prefixes.len())
}
