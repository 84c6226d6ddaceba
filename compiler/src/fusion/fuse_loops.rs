//! Loops of one block made one: where two loops run over the same, an iteration does the work of
//! both, and the second finds in the cache what the first stored. Whether two loops may become one
//! is asked of [`super::legality::loops`].

use std::collections::BTreeSet;

use ir::nest::{Block, Contraction, Extent, IndexId, Loop, LoopKind, Program, Statement};
use ir::rewrite::{Inside, for_each_affine_mut};
use ir::{Affine, Size};

use super::legality::loops::{self, How, Joint, Matched};
use super::outline::{Outline, is_check};
use super::{keyed, placed, rows};

/// Which loops are fused in addition to those that have something in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Also {
    /// Nothing.
    Nothing,
    /// Among outermost loops, those over the same extents that have nothing in common.
    SameExtents,
    /// Contractions with elementwise loops over exactly their free indices, which become part of
    /// their epilogues.
    Epilogues,
    /// As with the same extents; and contractions with loops over their rows ([`rows`]).
    Rows,
}

/// Fuses the loops of a block, and those inside. Returns whether any were fused.
pub(super) fn fuse_loops(program: &Program, block: &mut Block, also: Also) -> bool {
    let mut changed = false;
    if block.iter().filter(|s| s.repeats()).count() > 1 {
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
            // The nearest loop before it goes first.
            let joint = |first| Some((first, loops::may_fuse(program, block, &outlines, (first, at), also)?));
            let Some((first, joint)) = (0..at).rev().find_map(joint) else {
                at += 1;
                continue;
            };
            at = fuse_at(program, block, &mut outlines, (first, at), &joint);
            changed = true;
        }
    }
    for inner in block.iter_mut().flat_map(Statement::blocks_mut) {
        changed |= fuse_loops(program, inner, Also::Nothing);
    }
    changed
}

/// Fuses two loops of a block and returns the place of the result. The statements that the second
/// needs go before it.
fn fuse_at(
    program: &Program,
    block: &mut Block,
    outlines: &mut Vec<Outline>,
    (first, second): (usize, usize),
    Joint { matched, needed, how }: &Joint,
) -> usize {
    let mut later = block.remove(second);
    if let Statement::Contract(c) = &later {
        later = Statement::Loop(rows::around(program, c.clone(), matched.iter().map(|(_, j)| *j)));
    }
    let later_leans = outlines.remove(second).leans;
    let place = first + needed.len();
    reorder(block, (first, second), needed);
    reorder(outlines, (first, second), needed);
    if let Statement::Loop(later) = later {
        match (&mut block[place], how) {
            (Statement::Loop(earlier), How::Together | How::Rows) => merge(earlier, later, matched),
            (Statement::Loop(earlier), How::Placed) => placed::merge(earlier, later, matched),
            (Statement::Loop(earlier), How::Keyed) => keyed::merge(earlier, later, matched),
            (Statement::Loop(earlier), How::Behind) => keyed::put_behind(earlier, later, matched),
            (Statement::Contract(c), How::Epilogue) => epilogue(c, later, matched),
            (earlier @ Statement::Contract(_), How::Rows) => rows::merge(program, earlier, later, matched),
            // Other statements are never fused.
            _ => {}
        }
    }
    let leans = outlines[place].leans || later_leans;
    outlines[place] = Outline { leans, ..Outline::of(program, &block[place]) };
    place
}

/// Moves the `needed` items before the others, within a range.
fn reorder<T>(items: &mut Vec<T>, (from, to): (usize, usize), needed: &BTreeSet<usize>) {
    let tail = items.split_off(to);
    let (front, rest): (Vec<_>, Vec<_>) =
        items.split_off(from).into_iter().enumerate().partition(|(n, _)| needed.contains(&(from + n)));
    items.extend(front.into_iter().chain(rest).map(|(_, item)| item).chain(tail));
}

/// An expression with the names that the later loop has for its indices.
pub(super) fn rename(affine: &Affine<IndexId>, matched: &Matched) -> Affine<IndexId> {
    let to = |index| matched.iter().find(|(i, _)| *i == index).map_or(index, |(_, j)| *j);
    affine.substitute(&mut |index| Affine::index(to(index)))
}

/// Makes the earlier loop do the work of the later one too, with the indices of the latter.
pub(super) fn merge(earlier: &mut Loop, later: Loop, matched: &Matched) {
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

pub(super) fn rename_all(block: &mut Block, matched: &Matched) {
    let changes = |(index, _): &(IndexId, Size)| matched.iter().any(|(i, j)| i == index && i != j);
    for statement in block {
        for_each_affine_mut(statement, &mut |affine| {
            if affine.terms().iter().any(changes) {
                *affine = rename(affine, matched);
            }
        });
    }
}

/// A body inside loops over those of its indices that are not bound outside.
fn inner(mut dims: Vec<(IndexId, Extent)>, body: Block, outside: &[(IndexId, Extent)]) -> Block {
    dims.retain(|(index, _)| !outside.iter().any(|(i, _)| i == index));
    if dims.is_empty() { body } else { vec![Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body })] }
}
