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
//! A loop that only reduces may also go over the columns of a product, as for the greatest element
//! of each. Two contractions with nothing but elementwise work between them stay apart: a product
//! is faster on large tiles, and the array between the two moves only once in each direction.

use ir::nest::{Contraction, IndexId, Loop, LoopKind, Program, Statement};
use ir::visit;

use super::fuse_loops::{Also, merge as merge_loops};
use super::legality::loops::{Matched, holds_several, is_elementwise, matched as matching};
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
    let is_tile = |s: &Statement| {
        matches!(s, Statement::Contract(_)) || matches!(s, Statement::Loop(l) if is_elementwise(&l.body))
    };
    if is_tile(first) && is_tile(second) {
        return None;
    }
    let dims = |s: &Statement| s.dims().filter(|(i, _)| free(s, *i)).cloned().collect::<Vec<_>>();
    let (mine, theirs) = (dims(first), dims(second));
    let found = matching((&mine, a), (&theirs, b), also);
    let sized = mine.iter().filter(|(i, _)| found.iter().any(|(j, _)| i == j)).all(|(_, e)| e.as_size().is_some());
    let one = side(program, first, found.iter().map(|(i, _)| *i))?;
    let other = side(program, second, found.iter().map(|(_, j)| *j))?;
    // A loop down the columns of an array gives columns of that to a product. These are computed
    // along memory in a loop of their own.
    let down = |index: &IndexId| matches!(first, Statement::Loop(l) if !l.multiplies()) && is_last(a, b, *index);
    let rows = found.iter().any(|(i, j)| one.rows.contains(i) && other.rows.contains(j) && !down(i));
    let reduces = || matches!((first, second), (Statement::Contract(_), Statement::Loop(l)) if only_reduces(l));
    (sized && rows && (!(one.columns || other.columns) || reduces())).then_some(found)
}

/// Whether an index is in the last subscript of what the first statement stores and the second
/// loads.
fn is_last(a: &Outline, b: &Outline, index: IndexId) -> bool {
    let mut flows = a.stores.iter().filter(|(buffer, _)| b.loads.contains_key(buffer));
    flows.any(|(_, stored)| {
        stored.axes.last().is_some_and(|last| last.as_ref().is_some_and(|a| !a.coefficient(index).is_zero()))
    })
}

/// Whether a loop stores nothing for each element that it loads, and multiplies nothing.
fn only_reduces(l: &Loop) -> bool {
    let stores = |s: &Statement| s.blocks().any(|block| !visit::stores(block).is_empty());
    !l.multiplies() && !l.body.iter().any(stores)
}

/// Whether an index is one of the points of a contraction, or of a loop.
fn free(statement: &Statement, index: IndexId) -> bool {
    !matches!(statement, Statement::Contract(c) if c.reduce.iter().any(|(i, _)| *i == index))
}

/// A statement in a loop over the matching indices.
struct Side {
    /// Those along which iterations are rows or columns.
    rows: Vec<IndexId>,
    /// Whether they are columns.
    columns: bool,
}

/// One of two statements in a loop over the indices that match. A loop around contractions keeps
/// all of its indices around them.
fn side(program: &Program, statement: &Statement, found: impl Iterator<Item = IndexId>) -> Option<Side> {
    let found: Vec<IndexId> = found.collect();
    match statement {
        // A loop that becomes several kernels stands on its own.
        Statement::Loop(l) if l.kind != LoopKind::Parallel || holds_several(&l.body) => None,
        Statement::Contract(c) => {
            // Its points keep their order, which is that of memory: rows come first, and a column
            // is last.
            let order: Vec<bool> = c.free.iter().map(|(index, _)| found.contains(index)).collect();
            let in_front = |order: &[bool]| order.is_sorted_by(|a, b| a >= b);
            let columns = !in_front(&order);
            let l = around(program, c.clone(), found.into_iter());
            let mut rows = l.along_rows(program);
            if columns {
                let [before @ .., true] = order.as_slice() else { return None };
                rows.retain(|index| {
                    l.column(program) == Some(*index) && c.free.last().is_some_and(|(i, _)| i == index)
                });
                return in_front(before).then_some(Side { rows, columns });
            }
            Some(Side { rows, columns })
        }
        Statement::Loop(l) if l.multiplies() => {
            let all = l.dims.iter().all(|(index, _)| found.contains(index));
            all.then(|| Side { rows: l.along_rows(program), columns: l.column(program).is_some() })
        }
        Statement::Loop(_) => Some(Side { rows: found, columns: false }),
        Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::While(_) => None,
    }
}

/// A contraction in a loop over some of its free indices. If these are its first, its left factor
/// differs from iteration to iteration, if only one does.
pub(super) fn around(program: &Program, mut c: Contraction, indices: impl Iterator<Item = IndexId>) -> Loop {
    let indices: Vec<IndexId> = indices.collect();
    let in_front = c.free.iter().map(|(index, _)| indices.contains(index)).is_sorted_by(|a, b| a >= b);
    let (dims, free) = std::mem::take(&mut c.free).into_iter().partition(|(index, _)| indices.contains(index));
    c.free = free;
    let mut l = Loop { dims, kind: LoopKind::Parallel, body: vec![Statement::Contract(c)] };
    if in_front
        && l.column(program).is_some()
        && let [Statement::Contract(c)] = l.body.as_mut_slice()
    {
        std::mem::swap(&mut c.left, &mut c.right);
    }
    l
}

/// Makes a contraction do the work of a later loop too.
pub(super) fn merge(program: &Program, earlier: &mut Statement, later: Loop, matched: &Matched) {
    // Any other statement is left as it is.
    if let Statement::Contract(c) = earlier {
        let mut l = around(program, c.clone(), matched.iter().map(|(i, _)| *i));
        merge_loops(&mut l, later, matched);
        *earlier = Statement::Loop(l);
    }
}
