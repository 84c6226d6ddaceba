//! Splits loops that go down columns, for targets that run them in strips: neighbouring iterations
//! of the outer loop access adjacent elements, those of an inner loop elements in different rows. A
//! long reduction on its own becomes two parts: the first reduces each column in blocks of rows, as
//! its order prescribes, and the second combines the results.

use ir::choice::Choice;
use ir::linear::Linear;
use ir::nest::{BufferId, Kernel, Loop, LoopKind, Program, Reduction, Role, Single, Statement, is_length};
use ir::order::BLOCK;
use ir::sched::{Columns, Part, Run, Scheduled, is_scalar};
use ir::{Size, visit};

use crate::maker::{Pieces, goes_by_blocks};

/// Splits reductions down columns, and marks the loops that run in strips.
pub fn columns(scheduled: &mut Scheduled, choice: &mut Choice) {
    if scheduled.machine.columns != Columns::Strips {
        return;
    }
    scheduled.rewrite(|program, part| {
        let mut parts = match in_blocks(program, &part, choice) {
            Some(both) => both.into(),
            None => vec![part],
        };
        for part in &mut parts {
            if let Some(joined) = strips(program, part).filter(|_| choice.grants(true)) {
                part.run = Run::Strips { joined };
            }
        }
        parts
    });
}

/// Whether a part may run in strips of columns; if it does, the number of results of blocks that it
/// combines.
fn strips(program: &Program, part: &Part) -> Option<Option<Size>> {
    let (_, Statement::Loop(l)) = part.root()? else { return None };
    if l.kind != LoopKind::Parallel || part.run != Run::Ranges || !in_strips(program, l) {
        return None;
    }
    let joined = |s: &Statement| {
        let Statement::Loop(Loop { dims, .. }) = s else { return None };
        dims[0].1.as_size().filter(|_| part.joins.contains(&dims[0].0)).cloned()
    };
    Some(l.body.iter().find_map(joined))
}

/// Whether a parallel loop goes down columns and may run in strips.
fn in_strips(program: &Program, l: &Loop) -> bool {
    let Some((column, _)) = l.dims.last() else { return false };
    // Threads past the last column reload its elements at any time, so nothing that the loop loads
    // may be overwritten meanwhile.
    let (stored, loaded) = (visit::stores(&l.body), visit::loads(&l.body));
    let of_strip = |buffer: &BufferId| program.buffers[*buffer].role == Role::Scratch;
    let overwrites = |b: &BufferId| {
        let slot = program.slots.values().find(|members| members.contains(b));
        loaded.contains(b) || slot.is_some_and(|members| members.iter().any(|b| loaded.contains(b)))
    };
    let (mut down, mut along) = (0, 0);
    let mut fits = !stored.iter().any(|b| !of_strip(b) && overwrites(b));
    for statement in &l.body {
        let Statement::Loop(inner) = statement else {
            // The threads of a strip may diverge in a branch, so it must not contain a barrier.
            fits &= is_scalar(statement) || matches!(statement, Statement::Store { .. });
            continue;
        };
        fits &= inner.dims.iter().all(|(_, extent)| extent.as_size().is_some());
        fits &= match &inner.kind {
            LoopKind::Parallel | LoopKind::Scan => true,
            LoopKind::Serial | LoopKind::Keyed { .. } | LoopKind::Sort => false,
            LoopKind::Reduce(reductions) => reductions.iter().all(|r| goes_by_blocks(r.order)),
        };
        let Some((row, _)) = inner.dims.last() else { continue };
        visit::for_each_statement(&inner.body, &mut |s| {
            let Some(load) = s.effects().load.filter(|load| !of_strip(&load.buffer)) else { return };
            let linear = Linear::of(program, load.buffer, load.view, load.at).affine;
            let step = |index| linear.coefficient(index).as_constant();
            down += usize::from(step(*column) == Some(1) && step(*row) != Some(1));
            along += usize::from(step(*row) == Some(1) && step(*column) != Some(0));
        });
    }
    fits && down > along
}

/// A reduction down columns as one part that reduces blocks of rows, and one that combines their
/// results.
fn in_blocks(program: &mut Program, part: &Part, choice: &mut Choice) -> Option<[Part; 2]> {
    let (before, Statement::Loop(l)) = part.root()? else { return None };
    let loops: Vec<usize> = (0..l.body.len()).filter(|at| matches!(l.body[*at], Statement::Loop(_))).collect();
    let [at] = loops[..] else { return None };
    let Statement::Loop(rows) = &l.body[at] else { return None };
    let LoopKind::Reduce(reductions) = &rows.kind else { return None };
    let singles: Vec<Single> = reductions.iter().map(Reduction::single).collect::<Option<_>>()?;
    let extents = |l: &Loop| l.dims.iter().map(|(_, e)| e.as_size().cloned()).collect::<Option<Vec<_>>>();
    let (columns, down) = (extents(l)?, extents(rows)?);
    let lengths = columns.iter().chain(&down).all(|size| is_length(&program.symbols, size));
    let stores = l.body[..at].iter().any(|s| !is_scalar(s)) || !visit::stores(&rows.body).is_empty();
    let joins = rows.dims.iter().any(|(index, _)| part.joins.contains(index));
    if joins || strips(program, part).is_none() || !lengths || stores {
        return None;
    }
    let count = down.iter().fold(Size::constant(1), |product, n| &product * n).ceil_div(&(BLOCK as i64).into());
    if count.as_constant().is_some_and(|n| n < 2) || !choice.grants(true) {
        return None;
    }
    let mut kernel = Kernel { body: before.to_vec(), ..part.kernel.clone() };
    let Pieces { results, join } = Pieces::new(program, &mut kernel, ("block", count), &l.dims, singles);
    let index = join.dims[0].0;
    let mut outer = l.clone();
    outer.body[at] = Statement::Loop(join);
    kernel.body.push(Statement::Loop(outer));
    // The rest of an iteration needs the results, and scratch belongs to one kernel.
    let mut first = part.kernel.clone();
    if let Some(Statement::Loop(l)) = first.body.last_mut() {
        l.body.truncate(at + 1);
    }
    let blocks = part.sibling("blocks", first, Run::Blocks { results });
    let mut join = part.sibling("joined", kernel, Run::Ranges);
    join.joins.push(index);
    Some([blocks, join])
}
