//! Fuses contractions with loops over their rows, or columns: a softmax of each row of a product,
//! and the product of the result with another matrix. The loop then computes a row of a product in
//! each iteration, and no later iteration needs that row. Engines run such a loop in tiles of
//! iterations, in which these rows are one product ([`Loop::along_rows`]).
//!
//! ```text
//! contract i < n, j < m over k < d {         parallel i < n {
//!   left load %x[i, k]                         contract j < m over k < d {
//!   right load %y[k, j]                          left load %x[i, k]
//!   epilogue store %z[i, j]                      right load %y[k, j]
//! }                                     ->       epilogue store %z[i, j]
//! parallel i < n {                             }
//!   reduce j < m { load %z[i, j] }             reduce j < m { load %z[i, j] }
//! }                                          }
//! ```
//!
//! The loop may also go over columns, as that of the greatest element of each column of a product. Two contractions with nothing but elementwise work between them
//! stay apart: a product is faster on large tiles, and the array between the two moves only once in
//! each direction.

use ir::nest::{Contraction, IndexId, Loop, LoopKind, Program, Statement};

use super::fuse_loops::{Also, merge as merge_loops};
use super::legality::loops::{Matched, is_elementwise, matched as matching};
use super::outline::Outline;

/// The indices that match, if one of the two is a contraction, or a loop around some, and they may
/// become a loop over its rows.
pub(super) fn matched(
    program: &Program,
    (first, a): (&Statement, &Outline),
    (second, b): (&Statement, &Outline),
    also: Also,
) -> Option<Matched> {
    // The tile of a product, with elementwise work, stays in registers without a loop around it.
    let is_tile = |s: &Statement| match s {
        Statement::Loop(l) => is_elementwise(&l.body),
        other => matches!(other, Statement::Contract(_)),
    };
    if is_tile(first) && is_tile(second) {
        return None;
    }
    let dims = |s: &Statement| s.dims().filter(|(i, _)| free(s, *i)).cloned().collect::<Vec<_>>();
    let (mine, theirs) = (dims(first), dims(second));
    let found = matching((&mine, a), (&theirs, b), also);
    let sized = mine.iter().filter(|(i, _)| found.iter().any(|(j, _)| i == j)).all(|(_, e)| e.as_size().is_some());
    let (one, other) =
        (side(program, first, found.iter().map(|(i, _)| *i))?, side(program, second, found.iter().map(|(_, j)| *j))?);
    let rows = found.iter().any(|(i, j)| one.contains(i) && other.contains(j));
    (sized && rows).then_some(found)
}

/// Whether an index is one of the points of a contraction, or of a loop.
fn free(statement: &Statement, index: IndexId) -> bool {
    !matches!(statement, Statement::Contract(c) if c.reduce.iter().any(|(i, _)| *i == index))
}

/// Those of the matching indices that are rows on one side. A loop around contractions keeps all of
/// its indices around them.
fn side(program: &Program, statement: &Statement, found: impl Iterator<Item = IndexId>) -> Option<Vec<IndexId>> {
    match statement {
        Statement::Contract(c) => {
            let found: Vec<IndexId> = found.collect();
            let order: Vec<bool> = c.free.iter().map(|(index, _)| found.contains(index)).collect();
            let l = around(c.clone(), found.into_iter());
            let mut rows = l.along_rows(program);
            // Its points keep their order, which is that of memory: rows come first, and a column
            // is last.
            let in_front = |order: &[bool]| order.is_sorted_by(|a, b| a >= b);
            if !in_front(&order) {
                let ((last, _), [before @ .., true]) = (c.free.last()?, order.as_slice()) else { return None };
                rows.retain(|index| index == last && l.is_column(program, *last));
                return in_front(before).then_some(rows);
            }
            Some(rows)
        }
        Statement::Loop(l) if l.multiplies() => {
            let found: Vec<IndexId> = found.collect();
            let all = l.dims.iter().all(|(index, _)| found.contains(index));
            all.then(|| l.along_rows(program))
        }
        Statement::Loop(l) => (l.kind == LoopKind::Parallel).then(|| found.collect()),
        Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::While(_) => None,
    }
}

/// A contraction in a loop over some of its free indices.
pub(super) fn around(mut c: Contraction, indices: impl Iterator<Item = IndexId>) -> Loop {
    let indices: Vec<IndexId> = indices.collect();
    let (dims, free) = std::mem::take(&mut c.free).into_iter().partition(|(index, _)| indices.contains(index));
    c.free = free;
    Loop { dims, kind: LoopKind::Parallel, body: vec![Statement::Contract(c)] }
}

/// Makes a contraction do the work of a later loop too.
pub(super) fn merge(earlier: &mut Statement, later: Loop, matched: &Matched) {
    // Any other statement is left as it is.
    if let Statement::Contract(c) = earlier {
        let mut l = around(c.clone(), matched.iter().map(|(i, _)| *i));
        merge_loops(&mut l, later, matched);
        *earlier = Statement::Loop(l);
    }
}
