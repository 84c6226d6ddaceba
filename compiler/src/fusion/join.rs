//! Loops of one block made one: where two loops run over the same, an iteration does the work of both, and what the first
//! stored the second finds at hand.
//!
//! A pair of loops is joined if
//! - the second can move up to the first: nothing that it needs waits for the first, but through buffers; of a load that may
//!   be outside where a check fails that is the check, too;
//! - some indices match: a buffer that the first stores and the second loads is stored with the one index alone on some
//!   axis and loaded with the other index alone on that axis, so that each iteration loads what the same iteration
//!   stored (where nothing flows between them, outermost indices match that run along the same axis of a buffer both load);
//!   several indices may stand on an axis if they are the digits of a number there, `8 * i + j` where `j < 8`;
//! - the kinds agree: the indices of parallel loops part freely into those that match, outside, and the rest, inside; those
//!   of a reduction or scan stay together and in order, since their numbering is part of the meaning.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::EntitySet;
use ir::nest::{
    Block, BufferId, Contraction, Extent, IndexId, Loop, LoopKind, Op, Program, Statement, Subscript, ValueId,
};
use ir::rewrite::{Inside, digits, for_each_affine_mut};
use ir::sabotage::{self, Bug};
use ir::{Affine, Size, visit};

use super::form::extents;

/// What is joined besides loops that have something in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Also {
    /// Nothing.
    Nothing,
    /// Of the outermost, loops over the same extents that have nothing in common.
    SameExtents,
    /// Contractions with elementwise loops over just their free indices, which go to their epilogues.
    Epilogues,
}

/// Joins the loops of a block, and of those inside. Says whether there were any.
pub(super) fn join(program: &Program, block: &mut Block, also: Also) -> bool {
    let mut changed = false;
    if block.iter().filter(|s| matches!(s, Statement::Loop(_) | Statement::Contract(_))).count() > 1 {
        let inside = block.iter().any(is_check).then(|| Inside::new(program));
        let leans = |s: &Statement| {
            let mut any = false;
            inside.iter().for_each(|inside| inside.each_leaning(s, &mut |_, _| any = true));
            any
        };
        let mut outlines: Vec<Outline> =
            block.iter().map(|s| Outline { leans: leans(s), ..Outline::of(program, s) }).collect();
        let mut at = 1;
        while at < block.len() {
            let Some((first, matched)) = partner(block, &outlines, at, also) else {
                at += 1;
                continue;
            };
            at = join_at(program, block, &mut outlines, (first, at), &matched);
            changed = true;
        }
    }
    for inner in block.iter_mut().flat_map(Statement::blocks_mut) {
        changed |= join(program, inner, Also::Nothing);
    }
    changed
}

/// Indices of a loop that match those of a later one.
type Matched = Vec<(IndexId, IndexId)>;

/// How a statement accesses a buffer.
struct Access {
    /// For each axis the affine subscript that stands there in every access.
    axes: Vec<Option<Affine<IndexId>>>,
    /// The subscripts, if all accesses have the same.
    same: Option<Vec<Subscript>>,
    /// Whether each stands directly in the loop's body.
    direct: bool,
}

/// What a statement has to do with those around it.
#[derive(Default)]
struct Outline {
    defines: Vec<ValueId>,
    uses: Vec<ValueId>,
    loads: BTreeMap<BufferId, Access>,
    stores: BTreeMap<BufferId, Access>,
    /// The extents of the indices that it binds, where they are sizes.
    extents: BTreeMap<IndexId, Size>,
    /// Whether it is a check.
    checks: bool,
    /// Whether it loads what may be outside where a check before it fails.
    leans: bool,
}

/// Whether a statement is a check.
fn is_check(statement: &Statement) -> bool {
    statement.effects().may_fault
}

impl Outline {
    fn of(program: &Program, statement: &Statement) -> Outline {
        let extents = extents(std::slice::from_ref(statement));
        let mut outline = Outline { checks: is_check(statement), extents, ..Outline::default() };
        outline.look(program, statement, 0);
        visit::for_each_definition(statement, &mut |value| outline.defines.push(value));
        let mut inside = EntitySet::new();
        for block in statement.blocks() {
            visit::for_each_statement(block, &mut |s| visit::for_each_definition(s, &mut |v| _ = inside.insert(v)));
        }
        if let Statement::Contract(c) = statement {
            inside.insert(c.result);
        }
        outline.uses.retain(|value| !inside.contains(*value));
        outline
    }

    fn look(&mut self, program: &Program, statement: &Statement, depth: usize) {
        visit::for_each_use(statement, &mut |value| self.uses.push(value));
        match statement {
            Statement::Let { op: Op::Load { buffer, view, at }, .. } => {
                let plain = view.as_ref().is_none_or(|view| *view == program.buffers[*buffer].shape);
                note(&mut self.loads, *buffer, plain.then_some(at), depth);
            }
            Statement::Store { buffer, at, .. } => note(&mut self.stores, *buffer, Some(at), depth),
            _ => statement.blocks().flatten().for_each(|inner| self.look(program, inner, depth + 1)),
        }
    }
}

/// Notes an access; subscripts that see another shape say nothing.
fn note(accesses: &mut BTreeMap<BufferId, Access>, buffer: BufferId, at: Option<&Vec<Subscript>>, depth: usize) {
    let affine = |s: &Subscript| if let Subscript::Affine(a) = s { Some(a.clone()) } else { None };
    match accesses.get_mut(&buffer) {
        None => {
            let axes = at.map_or(vec![], |at| at.iter().map(affine).collect());
            accesses.insert(buffer, Access { axes, same: at.cloned(), direct: depth == 1 });
        }
        Some(known) => {
            let axes = at.map_or(&[][..], |at| at);
            known.axes.truncate(axes.len());
            for (known, axis) in known.axes.iter_mut().zip(axes) {
                *known = known.take().filter(|known| matches!(axis, Subscript::Affine(axis) if known == axis));
            }
            known.same = known.same.take().filter(|same| Some(same) == at);
            known.direct &= depth == 1;
        }
    }
}

/// The nearest loop before the one at `second` that it can be joined with, and the indices that match.
fn partner(block: &Block, outlines: &[Outline], second: usize, also: Also) -> Option<(usize, Matched)> {
    let Statement::Loop(later) = &block[second] else { return None };
    (0..second).rev().find_map(|first| {
        let (a, b) = (&outlines[first], &outlines[second]);
        let (matched, agree) = match &block[first] {
            Statement::Loop(earlier) => {
                let matched = matched((&earlier.dims, a), (&later.dims, b), also);
                let agree = kinds_agree(earlier, later, &matched) && scans_forward((earlier, a), (later, b), &matched);
                (matched, agree)
            }
            Statement::Contract(c) if also == Also::Epilogues => {
                let matched = matched((&c.free, a), (&later.dims, b), also);
                let all = matched.len() == c.free.len() && matched.len() == later.dims.len();
                let agree = all && later.kind == LoopKind::Parallel && is_elementwise(&later.body);
                (matched, agree)
            }
            _ => return None,
        };
        (agree && needed(outlines, first, second).is_some()).then_some((first, matched))
    })
}

/// Whether a block holds no loops.
fn is_elementwise(block: &Block) -> bool {
    block.iter().all(|s| match s {
        Statement::Let { .. } | Statement::Store { .. } => true,
        Statement::If { then, otherwise, .. } => is_elementwise(then) && is_elementwise(otherwise),
        Statement::Loop(_) | Statement::Contract(_) => false,
    })
}

type Dims = [(IndexId, Extent)];

/// The indices that match.
fn matched((first, a): (&Dims, &Outline), (second, b): (&Dims, &Outline), also: Also) -> Matched {
    let mut pairs: Matched = vec![];
    let extent = |dims: &Dims, index: IndexId| dims.iter().find(|(i, _)| *i == index).map(|(_, extent)| extent.clone());
    let consider = |i: IndexId, j: IndexId, pairs: &mut Matched| {
        let free = pairs.iter().all(|(k, l)| *k != i && *l != j);
        if free && extent(first, i).is_some_and(|e| extent(second, j) == Some(e) || sabotage::on(Bug::JoinedLengths)) {
            pairs.push((i, j));
        }
    };
    let along = |x: &Access, y: &Access| -> Matched {
        let axes = x.axes.iter().zip(&y.axes);
        axes.filter_map(|(i, j)| same_digits((i.as_ref()?, a), (j.as_ref()?, b))).flatten().collect()
    };
    let mut flows = a.stores.iter().filter_map(|(buffer, stored)| Some((stored, b.loads.get(buffer)?)));
    if let Some((stored, loaded)) = flows.next() {
        along(stored, loaded).into_iter().for_each(|(i, j)| consider(i, j, &mut pairs));
        for (stored, loaded) in flows {
            let also = along(stored, loaded);
            pairs.retain(|pair| also.contains(pair) || sabotage::on(Bug::JoinedFlows));
        }
        return pairs;
    }
    let mut scalars = true;
    for (x, y) in a.loads.iter().filter_map(|(buffer, x)| Some((x, b.loads.get(buffer)?))) {
        along(x, y).into_iter().for_each(|(i, j)| consider(i, j, &mut pairs));
        scalars &= x.axes.is_empty();
    }
    let in_order = || first.iter().zip(second).map(|((i, _), (j, _))| (*i, *j));
    if also == Also::SameExtents && scalars && first.len() == second.len() {
        in_order().for_each(|(i, j)| consider(i, j, &mut pairs));
        return if pairs.len() == first.len() { pairs } else { vec![] };
    }
    // What both read is not worth another order of a loop's indices, which is that of its accesses.
    let all = pairs.len() == first.len() && pairs.len() == second.len();
    if all { pairs } else { in_order().take_while(|pair| pairs.contains(pair)).collect() }
}

/// The indices of two subscripts that match if each place of the axis belongs to one setting of them: single ones, or the digits of a
/// number.
fn same_digits((i, a): (&Affine<IndexId>, &Outline), (j, b): (&Affine<IndexId>, &Outline)) -> Option<Matched> {
    // What is bound outside of both is the same throughout.
    let common =
        |index| if i.coefficient(index) == j.coefficient(index) { Affine::constant(0) } else { Affine::index(index) };
    let (i, j) = (i.substitute(&mut |index| common(index)), j.substitute(&mut |index| common(index)));
    if let (Some(i), Some(j)) = (i.as_index(), j.as_index()) {
        return Some(vec![(i, j)]);
    }
    let (first, second) = (digits(&i, &a.extents)?, digits(&j, &b.extents)?);
    let same = first.iter().map(|(_, n)| n).eq(second.iter().map(|(_, n)| n));
    same.then(|| first.iter().zip(&second).map(|((i, _), (j, _))| (*i, *j)).collect())
}

/// Whether loops of these kinds may share the indices that match.
fn kinds_agree(first: &Loop, second: &Loop, matched: &Matched) -> bool {
    let all = |l: &Loop| l.dims.len() == matched.len();
    match (&first.kind, &second.kind) {
        _ if matched.is_empty() => false,
        (LoopKind::Parallel, LoopKind::Parallel) => true,
        (LoopKind::Parallel, LoopKind::Reduce(_) | LoopKind::Scan) => all(second) || sabotage::on(Bug::JoinedReduction),
        (LoopKind::Reduce(_) | LoopKind::Scan, LoopKind::Parallel) => all(first),
        (LoopKind::Reduce(_), LoopKind::Reduce(_)) | (LoopKind::Scan, LoopKind::Scan) => {
            let in_order = first.dims.iter().zip(&second.dims).all(|((i, _), (j, _))| matched.contains(&(*i, *j)));
            all(first) && all(second) && in_order
        }
        _ => false,
    }
}

/// Whether what flows between loops, of which one is a scan, is forwarded to the last load: a scan loads nothing that it
/// stores.
fn scans_forward((first, a): (&Loop, &Outline), (second, b): (&Loop, &Outline), matched: &Matched) -> bool {
    if first.kind != LoopKind::Scan && second.kind != LoopKind::Scan {
        return true;
    }
    let apart = |o: &Outline| !o.stores.keys().any(|buffer| o.loads.contains_key(buffer));
    let flow = |(buffer, stored): (&BufferId, &Access)| {
        let Some(loaded) = b.loads.get(buffer) else { return true };
        let (Some(stored_at), Some(loaded_at)) = (&stored.same, &loaded.same) else { return false };
        let stored_at: Vec<Subscript> = stored_at.iter().map(|s| renamed(s, matched)).collect();
        let forwarded = stored.direct && first.dims.len() == matched.len() && stored_at == *loaded_at;
        forwarded || sabotage::on(Bug::JoinedScan)
    };
    apart(a) && apart(b) && a.stores.iter().all(flow)
}

fn renamed(subscript: &Subscript, matched: &Matched) -> Subscript {
    match subscript {
        Subscript::Affine(a) => Subscript::Affine(rename(a, matched)),
        Subscript::Value(v) => Subscript::Value(*v),
    }
}

fn rename(affine: &Affine<IndexId>, matched: &Matched) -> Affine<IndexId> {
    let to = |index| matched.iter().find(|(i, _)| *i == index).map_or(index, |(_, j)| *j);
    affine.substitute(&mut |index| Affine::index(to(index)))
}

/// The statements between two that the second needs, if none of what it needs waits for the first. (What flows between
/// the two themselves through buffers is for `matched` to judge.)
fn needed(outlines: &[Outline], first: usize, second: usize) -> Option<BTreeSet<usize>> {
    let earlier = &outlines[first];
    let (mut results, mut values, mut buffers) = (EntitySet::new(), EntitySet::new(), EntitySet::new());
    results.extend(earlier.defines.iter().copied());
    let mut needed = BTreeSet::new();
    let mut leans = false;
    for at in (first + 1..=second).rev() {
        let o = &outlines[at];
        let gives = o.defines.iter().any(|v| values.contains(*v))
            || o.stores.keys().any(|b| buffers.contains(*b))
            || o.checks && leans;
        if at == second || gives {
            let loads = at != second
                && !sabotage::on(Bug::JoinedPast)
                && earlier.stores.keys().any(|buffer| o.loads.contains_key(buffer));
            if loads || o.uses.iter().any(|value| results.contains(*value)) {
                return None;
            }
            values.extend(o.uses.iter().copied());
            buffers.extend(o.loads.keys().copied());
            leans |= o.leans;
            needed.insert(at);
        }
    }
    needed.remove(&second);
    Some(needed)
}

/// Joins two loops of a block and says where the one stands that came of them: what the second needs goes before it.
fn join_at(
    program: &Program,
    block: &mut Block,
    outlines: &mut Vec<Outline>,
    (first, second): (usize, usize),
    matched: &Matched,
) -> usize {
    let needed = needed(outlines, first, second).unwrap_or_default();
    let later = block.remove(second);
    let later_leans = outlines.remove(second).leans;
    let place = first + needed.len();
    reorder(block, (first, second), &needed);
    reorder(outlines, (first, second), &needed);
    match (&mut block[place], later) {
        (Statement::Loop(earlier), Statement::Loop(later)) => merge(earlier, later, matched),
        (Statement::Contract(c), Statement::Loop(later)) => epilogue(c, later, matched),
        _ => {}
    }
    let leans = outlines[place].leans || later_leans;
    outlines[place] = Outline { leans, ..Outline::of(program, &block[place]) };
    place
}

/// Puts what is `needed` before the rest, from one place up to another.
fn reorder<T>(items: &mut Vec<T>, (from, to): (usize, usize), needed: &BTreeSet<usize>) {
    let tail = items.split_off(to);
    let (front, rest): (Vec<_>, Vec<_>) =
        items.split_off(from).into_iter().enumerate().partition(|(n, _)| needed.contains(&(from + n)));
    items.extend(front.into_iter().chain(rest).map(|(_, item)| item).chain(tail));
}

/// Makes the earlier loop do the work of the later one too, with the indices of that.
fn merge(earlier: &mut Loop, later: Loop, matched: &Matched) {
    rename_all(&mut earlier.body, matched);
    for (index, _) in &mut earlier.dims {
        *index = matched.iter().find(|(i, _)| i == index).map_or(*index, |(_, j)| *j);
    }
    // A reduction's or scan's indices keep their order.
    let mut dims = if earlier.kind == LoopKind::Parallel { later.dims.clone() } else { earlier.dims.clone() };
    dims.retain(|(i, _)| matched.iter().any(|(_, j)| i == j));
    let mut body = inner(std::mem::take(&mut earlier.dims), std::mem::take(&mut earlier.body), &dims);
    body.extend(inner(later.dims, later.body, &dims));
    let kind = match (std::mem::replace(&mut earlier.kind, LoopKind::Parallel), later.kind) {
        (LoopKind::Reduce(mut reductions), LoopKind::Reduce(more)) => {
            reductions.extend(more);
            LoopKind::Reduce(reductions)
        }
        (LoopKind::Parallel, kind) | (kind, _) => kind,
    };
    *earlier = Loop { dims, kind, body };
}

/// Makes a contraction's epilogue do the work of a loop over its free indices too.
fn epilogue(c: &mut Contraction, mut later: Loop, matched: &Matched) {
    let back: Matched = matched.iter().map(|(i, j)| (*j, *i)).collect();
    rename_all(&mut later.body, &back);
    c.epilogue.append(&mut later.body);
}

fn rename_all(block: &mut Block, matched: &Matched) {
    let changes = |(index, _): &(IndexId, Size)| matched.iter().any(|(i, j)| i == index && i != j);
    for statement in block {
        for_each_affine_mut(statement, &mut |affine| {
            if affine.terms().iter().any(changes) {
                *affine = rename(affine, matched);
            }
        });
    }
}

/// A body under those of its indices that are not outside.
fn inner(mut dims: Vec<(IndexId, Extent)>, body: Block, outside: &[(IndexId, Extent)]) -> Block {
    dims.retain(|(index, _)| !outside.iter().any(|(i, _)| i == index));
    if dims.is_empty() { body } else { vec![Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body })] }
}
