//! The rules of fusing two loops of one kernel. They only say yes or no; a report gives the reason
//! of the two kernels ([`super::Fusing`]).
//!
//! A pair of loops may be fused if
//! - the second can move up to the first: none of its operands depends on the first, except through
//!   buffers. For a load that may be out of bounds if a check fails, the check is an operand too;
//! - some indices match: a buffer that the first stores and the second loads is stored with one
//!   index alone on some axis and loaded with the other index alone on that axis, so that each
//!   iteration loads the elements that the same iteration stored. (If nothing flows between them,
//!   outermost indices match that run along the same axis of a buffer that both load.) Several
//!   indices may be on one axis if they are the digits of a number, `8 * i + j` with `j < 8`;
//! - the kinds agree: the indices of parallel loops can be split freely into those that match,
//!   outside, and the rest, inside; those of a reduction or scan stay together and in order,
//!   because their numbering is part of the meaning.
//!
//! A loop behind a sort or a reduction by key has rules of its own for indices and kinds
//! ([`placed`], [`keyed`]), and so has a contraction with a loop over its rows ([`rows`]).

use std::collections::BTreeSet;

use cranelift_entity::EntitySet;
use ir::Affine;
use ir::nest::{Block, BufferId, Extent, IndexId, Loop, LoopKind, Program, Statement, Subscript};
use ir::rewrite::digits;
use ir::sabotage::{self, Bug};

use super::super::fuse_loops::{Also, rename};
use super::super::outline::{Access, Outline};
use super::super::{keyed, placed, rows};

/// Indices of a loop, each with the one of a later loop that it matches.
pub type Matched = Vec<(IndexId, IndexId)>;

/// How two loops of a block may be fused.
pub struct Joint {
    /// The indices that match.
    pub matched: Matched,
    /// The statements between the two that the second needs, so that they go before the first.
    pub needed: BTreeSet<usize>,
    /// How the later becomes part of the earlier.
    pub how: How,
}

/// How a later loop becomes part of an earlier loop or contraction.
pub enum How {
    /// They become one loop.
    Together,
    /// Work on sorted elements goes where the sort stores them.
    Placed,
    /// Two reductions by key become one.
    Keyed,
    /// Work on the tables of a reduction by key goes behind it.
    Behind,
    /// Work on a product goes into its epilogue.
    Epilogue,
    /// A contraction and a loop over its rows become one loop.
    Rows,
}

/// How the loop or contraction at `second` of a block may be fused with that at `first`, if it may.
pub fn may_fuse(
    program: &Program,
    block: &Block,
    outlines: &[Outline],
    (first, second): (usize, usize),
    also: Also,
) -> Option<Joint> {
    let (a, b) = (&outlines[first], &outlines[second]);
    let rows = || rows::matched(program, (&block[first], a), (&block[second], b), also);
    let (how, matched) = match &block[second] {
        Statement::Loop(later) => with_loop(program, (&block[first], a), (&block[second], later, b), also, &rows)?,
        Statement::Contract(_) if also == Also::Rows && block[first].repeats() => (How::Rows, rows()?),
        Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::While(_)
        | Statement::Contract(_) => return None,
    };
    let needed = needed(outlines, first, second)?;
    // Every kernel that a sort becomes would make them again.
    let checks = matches!(how, How::Placed) && needed.iter().any(|n| outlines[*n].checks);
    (!checks).then_some(Joint { matched, needed, how })
}

/// How a loop may be fused with a statement before it, and the indices that match.
fn with_loop(
    program: &Program,
    (first, a): (&Statement, &Outline),
    (second, later, b): (&Statement, &Loop, &Outline),
    also: Also,
    rows: &dyn Fn() -> Option<Matched>,
) -> Option<(How, Matched)> {
    let outermost = matches!(also, Also::SameExtents | Also::Rows);
    Some(match first {
        Statement::Loop(earlier) if earlier.multiplies() || later.multiplies() => {
            let agree = |matched: &Matched| kinds_agree(earlier, later, matched);
            (How::Rows, rows().filter(agree)?)
        }
        Statement::Loop(earlier) if placed::sorts(earlier) => (How::Placed, placed::matched((earlier, a), (later, b))?),
        Statement::Loop(earlier) => {
            if let Some(matched) = keyed::matched((first, a), (second, b), also) {
                (How::Keyed, matched)
            } else if let Some(matched) =
                outermost.then(|| keyed::matched_behind(program, (first, a), (later, b))).flatten()
            {
                (How::Behind, matched)
            } else {
                let matched = matched((&earlier.dims, a), (&later.dims, b), also);
                let agree = kinds_agree(earlier, later, &matched) && scans_forward((earlier, a), (later, b), &matched);
                (How::Together, Some(matched).filter(|_| agree)?)
            }
        }
        Statement::Contract(c) if also == Also::Epilogues => {
            let matched = matched((&c.free, a), (&later.dims, b), also);
            let all = matched.len() == c.free.len() && matched.len() == later.dims.len();
            let agree = all && later.kind == LoopKind::Parallel && is_elementwise(&later.body);
            (How::Epilogue, Some(matched).filter(|_| agree)?)
        }
        Statement::Contract(_) if also == Also::Rows => (How::Rows, rows()?),
        Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::While(_)
        | Statement::Contract(_) => return None,
    })
}

/// Whether a block holds no loops.
pub fn is_elementwise(block: &Block) -> bool {
    block.iter().all(|s| match s {
        Statement::Let { .. } | Statement::Store { .. } => true,
        Statement::If { then, otherwise, .. } => is_elementwise(then) && is_elementwise(otherwise),
        Statement::Scatter { .. } | Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => false,
    })
}

type Dims = [(IndexId, Extent)];

/// The indices that match.
pub fn matched((first, a): (&Dims, &Outline), (second, b): (&Dims, &Outline), also: Also) -> Matched {
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
    if matches!(also, Also::SameExtents | Also::Rows) && scalars && first.len() == second.len() {
        in_order().for_each(|(i, j)| consider(i, j, &mut pairs));
        return if pairs.len() == first.len() { pairs } else { vec![] };
    }
    // A shared read does not justify changing the order of a loop's indices, which is that of its
    // accesses.
    let all = pairs.len() == first.len() && pairs.len() == second.len();
    if all { pairs } else { in_order().take_while(|pair| pairs.contains(pair)).collect() }
}

/// The indices of two subscripts that match if each place on the axis belongs to one setting of
/// them: single ones, or the digits of a number.
fn same_digits((i, a): (&Affine<IndexId>, &Outline), (j, b): (&Affine<IndexId>, &Outline)) -> Option<Matched> {
    // An index bound outside of both is the same throughout.
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

/// Whether loops of these kinds may share the matching indices.
fn kinds_agree(first: &Loop, second: &Loop, matched: &Matched) -> bool {
    let all = |l: &Loop| l.dims.len() == matched.len();
    // A loop that becomes several kernels stands on its own in its parallel loop.
    if matched.is_empty() || holds_several(&first.body) || holds_several(&second.body) {
        return false;
    }
    match (&first.kind, &second.kind) {
        (LoopKind::Parallel, LoopKind::Parallel) => true,
        (LoopKind::Parallel, LoopKind::Reduce(_) | LoopKind::Scan) => all(second) || sabotage::on(Bug::JoinedReduction),
        (LoopKind::Reduce(_) | LoopKind::Scan, LoopKind::Parallel) => all(first),
        (LoopKind::Reduce(_), LoopKind::Reduce(_)) | (LoopKind::Scan, LoopKind::Scan) => {
            let in_order = first.dims.iter().zip(&second.dims).all(|((i, _), (j, _))| matched.contains(&(*i, *j)));
            all(first) && all(second) && in_order
        }
        (LoopKind::Serial | LoopKind::Keyed { .. } | LoopKind::Sort, _)
        | (_, LoopKind::Serial | LoopKind::Keyed { .. } | LoopKind::Sort) => false,
        (LoopKind::Reduce(_), LoopKind::Scan) | (LoopKind::Scan, LoopKind::Reduce(_)) => false,
    }
}

/// Whether a loop that becomes several kernels is among the statements of a body.
pub fn holds_several(body: &Block) -> bool {
    body.iter().any(|s| matches!(s, Statement::Loop(l) if l.kind.becomes_several()))
}

/// If one of the loops is a scan, whether the elements that flow between them are all forwarded,
/// since a scan may not load a buffer that it stores.
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

/// The statements between two that the second needs, if none of its operands depends on the first.
/// (`matched` judges the flow through buffers between the two.)
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
