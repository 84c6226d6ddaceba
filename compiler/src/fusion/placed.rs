//! Elementwise work on sorted elements: it is done for each where the sort stores it, at its place.
//!
//! ```text
//! sort i < n {                          sort i < n {
//!   v = load x[i]; p = place v            v = load x[i]; p = place v
//!   store sorted[p], v                    store y[p], f(v, w[p])
//! }                                     }
//! parallel j < n { store y[j], f(sorted[j], w[j]) }
//! ```
//!
//! Elements that the numbers of an `argsort` reach are loaded after it: with random loads among its
//! stores at random places, the last pass of a sort takes longer than both apart.

use std::collections::{BTreeMap, BTreeSet};

use ir::nest::{Block, BufferId, Extent, IndexId, Kernel, Loop, LoopKind, Op, Rows, Statement, Subscript, ValueId};
use ir::rewrite::{for_each_use_mut, replace};
use ir::sabotage::{self, Bug};
use ir::{Affine, visit};

use super::fuse_loops::rename_all;
use super::legality::loops::Matched;
use super::outline::Outline;

/// A sort on its own, or at the end of a parallel loop over rows.
struct Sorting<'s> {
    rows: &'s [(IndexId, Extent)],
    element: &'s (IndexId, Extent),
    body: &'s Block,
    place: ValueId,
}

impl<'s> Sorting<'s> {
    fn of(l: &'s Loop) -> Option<Sorting<'s>> {
        let Rows { outer: rows, inner: sort, .. } = Rows::of_loop(l)?;
        let (LoopKind::Sort, [element]) = (&sort.kind, &sort.dims[..]) else { return None };
        let (place, _) = visit::places(&sort.body).next()?;
        Some(Sorting { rows, element, body: &sort.body, place })
    }
}

/// Whether a loop sorts.
pub(super) fn sorts(l: &Loop) -> bool {
    Sorting::of(l).is_some()
}

/// Whether a sort of a kernel loads a buffer at places. A producer with checks may not be computed
/// there, because only the first of the kernels that a sort becomes makes checks, and it knows no
/// places.
pub(super) fn loads_at_places(kernel: &Kernel, buffer: BufferId) -> bool {
    let loops = kernel.body.iter().filter_map(|s| if let Statement::Loop(l) = s { Sorting::of(l) } else { None });
    loops.into_iter().any(|sort| {
        let mut placed = BTreeSet::from([sort.place]);
        let mut found = false;
        visit::for_each_statement(sort.body, &mut |statement| {
            let mut depends = false;
            visit::for_each_use(statement, &mut |value| depends |= placed.contains(&value));
            if depends {
                visit::for_each_definition(statement, &mut |value| _ = placed.insert(value));
                found |= statement.effects().load.is_some_and(|load| load.buffer == buffer);
            }
        });
        found
    })
}

/// The indices of a loop that sorts, each with the one of a later parallel loop over its elements,
/// if that may be done as they find their places. That of the sort comes last.
pub(super) fn matched((first, a): (&Loop, &Outline), (later, b): (&Loop, &Outline)) -> Option<Matched> {
    let sort = Sorting::of(first)?;
    let flows = || a.stores.keys().filter(|buffer| b.loads.contains_key(buffer));
    let (stored, loaded) = flows().next().map(|buffer| (&a.stores[buffer], &b.loads[buffer]))?;
    let (place, rows) = stored.same.as_ref()?.split_last()?;
    let (position, along) = loaded.same.as_ref()?.split_last()?;
    let position = position.as_index()?;
    let mut pairs = Matched::new();
    for (own, other) in rows.iter().zip(along) {
        match (own.as_index(), other.as_index()) {
            (Some(i), Some(j)) if sort.rows.iter().any(|(row, _)| *row == i) => pairs.push((i, j)),
            _ if own == other => {}
            _ => return None,
        }
    }
    pairs.push((sort.element.0, position));
    let extent = |dims: &[(IndexId, Extent)], index| dims.iter().find(|(i, _)| *i == index).map(|(_, e)| e.clone());
    let dims = [sort.rows, std::slice::from_ref(sort.element)].concat();
    let all = |of: fn(&(IndexId, IndexId)) -> IndexId, dims: &[(IndexId, Extent)]| {
        dims.len() == pairs.len() && dims.iter().all(|(i, _)| pairs.iter().any(|pair| of(pair) == *i))
    };
    let over_the_same = later.kind == LoopKind::Parallel
        && *place == Subscript::Value(sort.place)
        && all(|pair| pair.0, &dims)
        && all(|pair| pair.1, &later.dims)
        && pairs.iter().all(|(i, j)| extent(&dims, *i) == extent(&later.dims, *j));
    let together = flows().all(|buffer| a.stores[buffer].same == stored.same && b.loads[buffer].same == loaded.same);
    (over_the_same && together && is_placed(&later.body, position)).then_some(pairs)
}

/// Whether a body works on one position alone: it stores there, and loads there or at places that
/// do not depend on it.
fn is_placed(body: &Block, position: IndexId) -> bool {
    let mentions = |affine: &Affine<IndexId>| !affine.coefficient(position).is_zero();
    let alone = |s: &Subscript| s.as_index() == Some(position);
    let apart = |s: &Subscript| matches!(s, Subscript::Affine(affine) if !mentions(affine));
    body.iter().all(|statement| match statement {
        Statement::Let { op: Op::Load { view, at, .. }, .. } => {
            view.is_none() && at.iter().all(|s| alone(s) || apart(s))
        }
        Statement::Let { op: Op::Affine(affine), .. } => !mentions(affine) || affine.as_index() == Some(position),
        Statement::Let { op: Op::Check { .. }, .. } => false,
        Statement::Let { .. } => true,
        Statement::Store { at, .. } => {
            at.split_last().is_some_and(|(last, rest)| alone(last) && rest.iter().all(apart))
        }
        // A sort stores directly in its body.
        Statement::If { then, otherwise, .. } => {
            [then, otherwise].into_iter().all(|b| visit::stores(b).is_empty() && is_placed(b, position))
        }
        Statement::Scatter { .. } | Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => false,
    })
}

/// Makes a loop that sorts do the work of a later one too.
pub(super) fn merge(earlier: &mut Loop, mut later: Loop, matched: &Matched) {
    let Some((_, position)) = matched.last().copied() else { return };
    let Some((element, place)) = Sorting::of(earlier).map(|sort| (sort.element.0, sort.place)) else { return };
    let stored = visit::stores(&earlier.body);
    let back: Matched = matched.iter().map(|(i, j)| (*j, *i)).filter(|(j, _)| *j != position).collect();
    rename_all(&mut later.body, &back);
    let sort = match earlier.body.last_mut() {
        Some(Statement::Loop(inner)) if earlier.kind == LoopKind::Parallel => &mut inner.body,
        _ => &mut earlier.body,
    };
    let mut same: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    replace(&mut later.body, &mut |mut statement, out| {
        let load = statement.effects().load.map(|load| load.buffer);
        let elsewhere = load.is_some_and(|b| !stored.contains(&b)) && sabotage::on(Bug::PlacedElsewhere);
        let to = if elsewhere { Subscript::index(element) } else { Subscript::Value(place) };
        for_each_use_mut(&mut statement, &mut |value| *value = same.get(value).copied().unwrap_or(*value));
        if let Statement::Let { value, op: Op::Affine(affine) } = &statement
            && affine.as_index() == Some(position)
        {
            same.insert(*value, place);
            return;
        }
        if let Statement::Let { op: Op::Load { at, .. }, .. } | Statement::Store { at, .. } = &mut statement {
            at.iter_mut().filter(|s| s.as_index() == Some(position)).for_each(|s| *s = to.clone());
        }
        out.push(statement);
    });
    sort.append(&mut later.body);
}
