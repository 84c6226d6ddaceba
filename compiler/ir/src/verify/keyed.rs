//! The rules of reductions by key, and of all loops that become several kernels.

use std::collections::BTreeSet;

use super::{Checker, Result, fail};
use crate::nest::{IndexId, Kernel, Loop, LoopKind, Op, Rows, Statement, Subscript};
use crate::visit;

/// A keyed loop, or a sort, becomes several kernels. So it stands at the top of its kernel, or in a
/// parallel loop there, behind statements that store nothing: each of its kernels may compute these
/// again. Behind a keyed loop there are parallel loops over sizes, and scalars.
pub(super) fn apart(k: &Kernel) -> Result {
    let may_be_behind = |s: &Statement| match s {
        Statement::Let { .. } => !s.may_fault(),
        Statement::Loop(l) => l.kind == LoopKind::Parallel && l.dims.iter().all(|(_, n)| n.as_size().is_some()),
        Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::While(_)
        | Statement::Contract(_) => false,
    };
    for statement in &k.body {
        let mut inside = vec![std::slice::from_ref(statement)];
        let mut right = true;
        if let Some(Rows { before, inner, behind, .. }) = Rows::of(statement) {
            right = visit::stores(before).is_empty()
                && (behind.is_empty() || inner.kind != LoopKind::Sort && behind.iter().all(may_be_behind));
            inside = vec![before, &inner.body, behind];
        }
        for block in inside {
            visit::for_each_statement(block, &mut |s| {
                right &= !matches!(s, Statement::Loop(l) if l.kind.becomes_several());
            });
        }
        if !right {
            return fail(
                format!("kernel @{}", k.name),
                "has a keyed loop or a sort where it does not stand on its own",
            );
        }
    }
    Ok(())
}

impl Checker<'_> {
    /// The tables of a keyed loop: nothing else is stored, one statement alone scatters to each,
    /// the loop loads nothing from them, and the leading subscripts come from outside.
    pub(super) fn keyed(&self, statement: &Statement, l: &Loop, row: usize) -> Result {
        let bound: BTreeSet<IndexId> = l.dims.iter().map(|(i, _)| *i).chain(visit::bound_indices(&l.body)).collect();
        let outside = |at: &Subscript| match at {
            Subscript::Affine(a) => a.terms().iter().all(|(index, _)| !bound.contains(index)),
            Subscript::Value(_) => false,
        };
        let (mut tables, mut loaded) = (BTreeSet::new(), BTreeSet::new());
        let mut wrong = None;
        visit::for_each_statement(&l.body, &mut |inner| match inner {
            Statement::Scatter { at, .. } if at.len() < row || !at[..row].iter().all(outside) => {
                wrong = Some("a table with subscripts of its row that come from inside");
            }
            Statement::Scatter { buffer, .. } => {
                if !tables.insert(*buffer) {
                    wrong = Some("two statements scatter to one table");
                }
            }
            Statement::Store { .. } => wrong = Some("a keyed loop stores nothing but to tables"),
            Statement::Let { op: Op::Load { buffer, .. }, .. } => {
                loaded.insert(*buffer);
            }
            Statement::Let { .. }
            | Statement::If { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => {}
        });
        if !tables.is_disjoint(&loaded) {
            wrong = Some("a keyed loop loads from a table to which it scatters");
        }
        wrong.map_or(Ok(()), |wrong| self.fail(Some(statement), wrong))
    }
}
