//! Reductions by key. Two that go over the same elements become one, and elementwise work on their
//! results goes behind them: it is done for each key where its result is completed, from what the
//! chunks of the order have found.
//!
//! ```text
//! keyed K row 0 over i < n {            parallel {
//!   scatter %t[key], sum v                keyed K row 0 over i < n { scatter %t[key], sum v }
//! }                                       parallel k < K { store %y[k], f(load %t[k]) }
//! parallel k < K {                      }
//!   store %y[k], f(load %t[k])
//! }
//! ```
//!
//! One for each row is in a parallel loop already, whose indices the work shares.

use ir::nest::{Block, Extent, IndexId, Loop, LoopKind, Op, Program, Rows, Statement};

use super::fuse_loops::{self, Also, rename_all};
use super::legality::loops::{self, Matched};
use super::outline::Outline;

/// A reduction by key with its rows.
fn rows_of(statement: &Statement) -> Option<Rows<'_>> {
    Rows::of(statement).filter(|rows| matches!(rows.inner.kind, LoopKind::Keyed { .. }))
}

/// The indices of a reduction by key, those of its rows first, each with the one of a later
/// reduction that it matches, if they may be one.
pub(super) fn matched(
    (first, a): (&Statement, &Outline),
    (later, b): (&Statement, &Outline),
    also: Also,
) -> Option<Matched> {
    let (first, later) = (rows_of(first)?, rows_of(later)?);
    let dims = |rows: &Rows<'_>| [rows.outer, &rows.inner.dims].concat();
    let (dims, others) = (dims(&first), dims(&later));
    let pairs = loops::matched((&dims, a), (&others, b), also);
    let in_order = dims.iter().zip(&others).all(|((i, _), (j, _))| pairs.contains(&(*i, *j)));
    // A table is complete only behind the first.
    let apart = !a.stores.keys().any(|buffer| b.loads.contains_key(buffer));
    let same = first.inner.kind == later.inner.kind && first.outer.len() == later.outer.len();
    (same && dims.len() == others.len() && in_order && apart).then_some(pairs)
}

/// Makes a reduction by key do the work of a later one too.
pub(super) fn merge(earlier: &mut Loop, mut later: Loop, matched: &Matched) {
    let back: Matched = matched.iter().map(|(i, j)| (*j, *i)).collect();
    rename_all(&mut later.body, &back);
    let outer = if earlier.kind == LoopKind::Parallel { std::mem::take(&mut earlier.dims) } else { vec![] };
    let first = std::mem::replace(earlier, Loop { dims: outer, kind: LoopKind::Parallel, body: vec![] });
    let (mut before, mut both, mut behind) = apart(first);
    let (before_later, others, behind_later) = apart(later);
    before.extend(before_later);
    both.iter_mut().zip(others).for_each(|(keyed, other)| keyed.body.extend(other.body));
    behind.extend(behind_later);
    let alone = earlier.dims.is_empty() && before.is_empty() && behind.is_empty();
    match both {
        Some(keyed) if alone => *earlier = keyed,
        keyed => earlier.body = before.into_iter().chain(keyed.map(Statement::Loop)).chain(behind).collect(),
    }
}

/// The statements before a reduction by key in its rows, the reduction, and those behind it.
fn apart(l: Loop) -> (Block, Option<Loop>, Block) {
    if l.kind != LoopKind::Parallel {
        return (vec![], Some(l), vec![]);
    }
    let (mut before, mut keyed, mut behind) = (vec![], None, vec![]);
    for statement in l.body {
        match (statement, &keyed) {
            (Statement::Loop(l), None) if l.kind.becomes_several() => keyed = Some(l),
            (other, None) => before.push(other),
            (other, Some(_)) => behind.push(other),
        }
    }
    (before, keyed, behind)
}

/// The indices of the rows of a reduction by key, each with the one of a later parallel loop over
/// its tables, if that may go behind it.
pub(super) fn matched_behind(
    program: &Program,
    (first, a): (&Statement, &Outline),
    (later, b): (&Loop, &Outline),
) -> Option<Matched> {
    let rows = rows_of(first)?;
    let LoopKind::Keyed { row, .. } = rows.inner.kind else { return None };
    let extent = |l: &[(IndexId, Extent)], index| l.iter().find(|(i, _)| *i == index).map(|(_, extent)| extent.clone());
    let mut pairs = Matched::new();
    for (stored, loaded) in a.stores.iter().filter_map(|(buffer, stored)| Some((stored, b.loads.get(buffer)?))) {
        let mut found = Matched::new();
        for (own, other) in stored.axes.iter().zip(&loaded.axes).take(row) {
            match (own.as_ref()?.as_index(), other.as_ref()?.as_index()) {
                (Some(i), Some(j)) if extent(rows.outer, i)? == extent(&later.dims, j)? => {
                    // On a diagonal the work is not done for each row.
                    if found.iter().any(|(_, other)| *other == j) {
                        return None;
                    }
                    found.push((i, j));
                }
                _ if own == other => {}
                _ => return None,
            }
        }
        if found.len() != rows.outer.len() || !pairs.is_empty() && pairs != found {
            return None;
        }
        pairs = found;
    }
    if later.kind != LoopKind::Parallel || !is_elementwise(&later.body) {
        return None;
    }
    // The work is done where the elements of a table are completed.
    let alone = Statement::Loop(rows.inner.clone());
    let mut both = Loop { dims: rows.outer.to_vec(), kind: LoopKind::Parallel, body: vec![alone] };
    put_behind(&mut both, later.clone(), &pairs);
    let both = Statement::Loop(both);
    Rows::of(&both).is_some_and(|rows| !rows.read_once(program).is_empty()).then_some(pairs)
}

/// Whether a body is elementwise work that nothing else has to wait for: no checks, which each of
/// the kernels that the reduction becomes would have to make.
fn is_elementwise(body: &Block) -> bool {
    body.iter().all(|statement| match statement {
        Statement::Let { op, .. } => !matches!(op, Op::Check { .. }),
        Statement::Store { .. } => true,
        Statement::If { then, otherwise, .. } => is_elementwise(then) && is_elementwise(otherwise),
        Statement::Loop(l) => l.kind == LoopKind::Parallel && is_elementwise(&l.body),
        Statement::Scatter { .. } | Statement::While(_) | Statement::Contract(_) => false,
    })
}

/// Puts a later loop behind a reduction by key.
pub(super) fn put_behind(earlier: &mut Loop, later: Loop, matched: &Matched) {
    if earlier.kind != LoopKind::Parallel {
        let alone = std::mem::replace(earlier, Loop { dims: vec![], kind: LoopKind::Parallel, body: vec![] });
        earlier.body.push(Statement::Loop(alone));
    }
    fuse_loops::merge(earlier, later, matched);
}
