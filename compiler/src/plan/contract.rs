//! Array contraction: a temporary that stays inside one kernel need not be kept for all of its
//! iterations.
//!
//! Consider a temporary that only one kernel mentions, always inside one of its outermost loops. It
//! loses each axis with a subscript that is, at every access, the same expression of that loop's
//! indices, because the axis has one value throughout an iteration. It becomes scratch, and every
//! iteration has its own. (The IR guarantees that iterations of parallel and reducing loops load
//! only elements that they have stored themselves.) This is done whenever an axis goes, in the loop
//! with the most such temporaries: a row per thread replaces an array in memory. A temporary that
//! loses no axis stays as it is, because each thread would need all of it.
//!
//! A table of a reduction by key that the loops behind it read once is scratch too. It loses no
//! axis, but no thread needs it: each element is read where it is completed.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;
use ir::nest::{Block, Buffer, BufferId, IndexId, Kernel, KernelId, LoopKind, Op, Program, Role, Statement, Subscript};
use ir::sabotage::{self, Bug};
use ir::{Affine, Size, effects, visit};

/// Makes temporaries scratch if that removes an axis.
pub(super) fn contract(program: &mut Program) {
    let kernels: Vec<KernelId> = program.kernels.keys().collect();
    let shared = shared(program);
    for id in kernels {
        let is_own = |buffer: BufferId| program.buffers[buffer].role == Role::Temp && !shared.contains(&buffer);
        for (buffer, lost) in lost_axes(program, &program.kernels[id], is_own) {
            let Buffer { shape, role, .. } = &mut program.buffers[buffer];
            contract_in(&mut program.kernels[id].body, buffer, shape, &lost);
            *role = Role::Scratch;
            let mut kept = lost.iter();
            shape.retain(|_| kept.next() == Some(&false));
        }
    }
}

/// The temporaries that become scratch, among those that belong to a kernel alone, each with
/// whether it loses each of its axes.
pub fn lost_axes(program: &Program, kernel: &Kernel, is_own: impl Fn(BufferId) -> bool) -> Vec<(BufferId, Vec<bool>)> {
    let lost = |(buffer, accesses): (BufferId, Vec<Access<'_>>)| {
        Some((buffer, losses(&program.buffers[buffer].shape, &accesses)?))
    };
    let whole = |buffer| (buffer, vec![false; program.buffers[buffer].shape.len()]);
    let tables: Vec<BufferId> = kernel.tables_read_once(program).into_iter().filter(|b| is_own(*b)).collect();
    // Any other table is complete in memory before it is read.
    let mut scattered = BTreeSet::new();
    visit::for_each_statement(&kernel.body, &mut |s| {
        if let Statement::Scatter { buffer, .. } = s {
            scattered.insert(*buffer);
        }
    });
    let others = candidates(kernel, |buffer| !scattered.contains(&buffer) && is_own(buffer)).into_iter();
    let others = others.map(|inside| inside.into_iter().filter_map(lost).collect::<Vec<_>>());
    let others: Vec<_> = others.filter(|lost| !lost.is_empty()).collect();
    // All scratch of a kernel belongs to one loop, and the tables have theirs.
    let alone = kernel.body.iter().filter(|s| !matches!(s, Statement::Let { .. })).count() == 1;
    let most = others.iter().map(Vec::len).max();
    let others = others.into_iter().find(|lost| (alone || tables.is_empty()) && Some(lost.len()) == most);
    tables.into_iter().map(whole).chain(others.into_iter().flatten()).collect()
}

/// The buffers that several kernels mention, or that loops over kernels carry or end by.
fn shared(program: &Program) -> BTreeSet<BufferId> {
    let mut owners: SecondaryMap<BufferId, Option<KernelId>> = SecondaryMap::new();
    let mut shared: BTreeSet<BufferId> = program.in_tree().collect();
    for (id, kernel) in &program.kernels {
        for buffer in visit::loads(&kernel.body).into_iter().chain(visit::stores(&kernel.body)) {
            if owners[buffer].replace(id).is_some_and(|owner| owner != id && !sabotage::on(Bug::OwnScratch)) {
                shared.insert(buffer);
            }
        }
    }
    shared
}

/// One access: the view of the buffer and its subscripts, with the expression of each that uses
/// only the outermost loop's indices.
struct Access<'k> {
    view: Option<&'k [Size]>,
    at: Vec<Option<&'k Affine<IndexId>>>,
}

/// For each of the outermost loops of a kernel, the buffers that it alone mentions, with their
/// accesses.
fn candidates(kernel: &Kernel, is_own: impl Fn(BufferId) -> bool) -> Vec<BTreeMap<BufferId, Vec<Access<'_>>>> {
    let (mut mentioned, mut outside) = (BTreeSet::new(), BTreeSet::new());
    let mut found = vec![];
    for outermost in &kernel.body {
        outside.extend(outermost.effects().accesses().map(|access| access.buffer));
        let inside = inside(outermost, &is_own);
        outside.extend(inside.keys().copied().filter(|buffer| !mentioned.insert(*buffer)));
        found.push(inside);
    }
    found.iter_mut().for_each(|inside| inside.retain(|buffer, _| !outside.contains(buffer)));
    found
}

/// The accesses inside an outermost statement, by buffer. They have no expressions if it is no loop
/// with independent iterations.
fn inside<'k>(outermost: &'k Statement, is_own: impl Fn(BufferId) -> bool) -> BTreeMap<BufferId, Vec<Access<'k>>> {
    let dims = match outermost {
        Statement::Loop(l) if matches!(l.kind, LoopKind::Parallel | LoopKind::Reduce(_)) => l.dims.as_slice(),
        Statement::Contract(c) => c.free.as_slice(),
        Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::Loop(_)
        | Statement::While(_) => &[],
    };
    let constant = |a: &Affine<IndexId>| {
        !dims.is_empty() && a.terms().iter().all(|(index, _)| dims.iter().any(|(i, _)| i == index))
    };
    let mut found: BTreeMap<BufferId, Vec<Access<'k>>> = BTreeMap::new();
    for block in outermost.blocks() {
        visit::for_each_statement(block, &mut |statement| {
            for effects::Access { buffer, view, at } in statement.effects().accesses().filter(|a| is_own(a.buffer)) {
                let at = at.iter().map(|subscript| match subscript {
                    Subscript::Affine(a) => Some(a).filter(|a| constant(a)),
                    Subscript::Value(_) => None,
                });
                let at = at.collect();
                found.entry(buffer).or_default().push(Access { view, at });
            }
        });
    }
    found
}

/// Which axes go, if any.
fn losses(shape: &[Size], accesses: &[Access<'_>]) -> Option<Vec<bool>> {
    let goes = |axis: usize| {
        let mut subscripts = accesses.iter().map(|access| access.at[seen_axis(shape, access.view, axis)?]);
        let first = subscripts.next().flatten();
        first.is_some() && (subscripts.all(|s| s == first) || sabotage::on(Bug::LostAxis))
    };
    let lost: Vec<bool> = (0..shape.len()).map(goes).collect();
    lost.contains(&true).then_some(lost)
}

/// The axis of the buffer that corresponds to an axis of a view: the axes on one side of it must be
/// the same.
fn seen_axis(shape: &[Size], view: Option<&[Size]>, axis: usize) -> Option<usize> {
    let Some(view) = view else { return Some(axis) };
    let after = shape.len() - axis;
    if view.len() > axis && shape[..=axis] == view[..=axis] {
        Some(axis)
    } else if view.len() >= after && shape[axis..] == view[view.len() - after..] {
        Some(view.len() - after)
    } else {
        None
    }
}

/// Takes the axes out of every access.
fn contract_in(block: &mut Block, buffer: BufferId, shape: &[Size], lost: &[bool]) {
    for statement in block {
        match statement {
            Statement::Let { op: Op::Load { buffer: from, view, at }, .. } if *from == buffer => {
                let lost: BTreeSet<usize> = (0..lost.len())
                    .filter(|axis| lost[*axis])
                    .filter_map(|axis| seen_axis(shape, view.as_deref(), axis))
                    .collect();
                retain(at, |axis| !lost.contains(&axis));
                if let Some(view) = view {
                    retain(view, |axis| !lost.contains(&axis));
                }
            }
            Statement::Store { buffer: to, at, .. } if *to == buffer => retain(at, |axis| !lost[axis]),
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::If { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => {}
        }
        statement.blocks_mut().for_each(|inner| contract_in(inner, buffer, shape, lost));
    }
}

fn retain<T>(items: &mut Vec<T>, keep: impl Fn(usize) -> bool) {
    let mut at = 0;
    items.retain(|_| {
        at += 1;
        keep(at - 1)
    });
}
