//! The derivative of an array from shares of its elements.
//!
//! A share says: the element `x[s(i)]` gets the value `v(i)`, at each setting of some indices `i`.
//! So the derivative at `a` is the sum of `v(i)` over all `i` with `s(i) == a`. Each axis is solved
//! for an index if it can be:
//!
//! | subscript | index | only where |
//! |---|---|---|
//! | `i` | `a` | `a` is below the end of `i`, unless that is the length of the axis |
//! | `i + b` | `a - b` | that is in the range of `i` |
//! | `b - i` | `b - a` | that is in the range of `i` |
//! | `k * i + b` | `(a - b) / k` | nothing is left, and it is in the range of `i` |
//! | `k * i + j + b`, `j` below `k` | `(a - b) / k`, and `j` is what is left | both are in range |
//!
//! The indices that are not solved for are summed over, with `s(i) == a` as a condition for each
//! axis that is not solved: a sum by key, if a subscript is data.

use std::collections::{BTreeMap, BTreeSet};

use ir::checked::{ExprId, Extent, GuardId, IndexId, Kind, Type};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Monoid, ReduceOp, Scalar, Size, UnaryOp};

use super::super::Checker;
use super::super::arena::{Arena, Branch, Here};
use super::super::reduce::Body;
use super::copy::Place;
use super::reverse::{Part, Reverse, Share};

/// A share of elements, while its subscripts are solved.
struct Solving<'s> {
    /// The subscripts.
    at: &'s [ExprId],
    /// The indices that are still to be solved for.
    open: Vec<IndexId>,
    /// Those that stay, each with its copy, which is summed over.
    own: Vec<(IndexId, IndexId)>,
    /// Those that are solved, with their values.
    place: Place,
    /// The axes that are solved.
    solved: Vec<bool>,
    /// The conditions on the element.
    conditions: Vec<ExprId>,
}

/// An axis that can be solved: `factor * index + rest`.
struct Solution {
    index: IndexId,
    factor: Size,
    /// Whether the index is subtracted.
    negative: bool,
    /// An index that counts what is left of the division by the factor.
    left: Option<IndexId>,
    rest: Affine<IndexId>,
}

impl Reverse<'_, '_> {
    /// The derivative of an array: the sum of its shares.
    pub fn array(&mut self, id: ExprId, shares: &[Share], here: Here) -> Option<ExprId> {
        if let [share @ Share { of: Part::Whole, value, .. }] = shares
            && self.extra(id, share).is_empty()
            && self.checker.arena.out.within(here.guard, share.guard)
        {
            return Some(*value);
        }
        let ty = self.checker.arena.ty(id).clone();
        let dtype = ty.dtype.compute();
        let axes = self.named_axes(shares, &ty.shape, here);
        let mut total = self.checker.zero_like(id, here);
        for share in shares {
            let value = match &share.of {
                Part::Whole => {
                    let at = axes.iter().map(|index| Affine::index(*index)).collect();
                    let element = self.checker.arena.element(share.value, at, Here { guard: share.guard, ..here });
                    let over = self.extra(id, share);
                    let value = self.leave(share, element, &over, here);
                    self.checker.sum_over(value, &over, here)?
                }
                Part::Element(at) => self.inverse(id, share, at, &axes, here)?,
            };
            let value = self.checker.converted(value, dtype, here);
            total = self.checker.plus(total, value, here);
        }
        Some(self.checker.arena.comprehension(axes, total, here))
    }

    /// New indices for the axes of an array, named as the first share names them.
    fn named_axes(&mut self, shares: &[Share], shape: &[Size], here: Here) -> Vec<IndexId> {
        let axes = self.checker.arena.axis_indices(shape, here.span);
        if let Some(Share { of: Part::Element(at), .. }) = shares.first() {
            for (axis, at) in axes.iter().zip(at) {
                if let Kind::Index(index) = self.checker.arena.out.exprs[*at].kind {
                    self.checker.arena.out.indices[*axis].name = self.checker.arena.out.indices[index].name.clone();
                }
            }
        }
        axes
    }

    /// The element of the derivative at some axes, from a share of elements.
    fn inverse(&mut self, id: ExprId, share: &Share, at: &[ExprId], axes: &[IndexId], here: Here) -> Option<ExprId> {
        let open = self.extra(id, share);
        let value = self.leave(share, share.value, &open, here);
        let checker = &mut *self.checker;
        let place = Place::new(BTreeMap::new(), here.guard, here);
        let (own, solved, conditions) = (vec![], vec![false; at.len()], vec![]);
        let mut solving = Solving { at, open: open.clone(), own, place, solved, conditions };
        let shape = checker.arena.ty(id).shape.clone();
        checker.solve_plain(&mut solving, axes, &shape)?;
        checker.solve_affine(&mut solving, axes)?;
        checker.leave_open(&open, &mut solving)?;
        let Solving { own, mut place, solved, conditions, .. } = solving;
        let copy_of = |index: &IndexId| own.iter().find(|(original, _)| original == index).map(|(_, copy)| *copy);
        let mut over: Vec<IndexId> = open.iter().filter_map(copy_of).collect();
        let (mut value, mut keys) = (value, vec![]);
        // A sum of sums is one sum, if no value of the inner one would be computed twice. A
        // condition on the inner one is one on the elements.
        let (condition, sum) = match checker.selected_part(value) {
            Some((condition, true, then)) => (Some(condition), then),
            _ => (None, value),
        };
        if !over.is_empty()
            && let Kind::Reduce { op, over: inner, body, prefix: None, by, .. } = &checker.arena.out.exprs[sum].kind
            && *op == ReduceOp::Monoid(Monoid::Sum)
            && by.is_empty()
            && open.iter().all(|index| checker.arena.free(sum).contains(index))
        {
            let (inner, body) = (inner.clone(), *body);
            let copies = checker.copied_indices(&inner, &mut place)?;
            // Indices of the access go last, since they often run along memory, unless an inner one
            // ends where they say.
            let plain = copies.iter().all(|copy| checker.arena.out.indices[*copy].extent.as_size().is_some());
            let at = if plain { 0 } else { over.len() };
            over.splice(at..at, copies);
            keys.extend(condition);
            value = body;
        }
        for (axis, _) in solved.iter().enumerate().filter(|(_, solved)| !**solved) {
            let guard = self.checker.arena.out.exprs[at[axis]].guard;
            let condition = self.checker.stands_for(at[axis], axes[axis], Here { guard, ..here });
            let condition = self.only_inside(condition, (share, guard), here);
            keys.push(condition);
        }
        if !conditions.is_empty() || !keys.is_empty() {
            let changed: Vec<IndexId> = place.values.keys().copied().collect();
            value = self.checker.kept_outside(value, &changed, here)?;
        }
        self.checker.selected_sum(value, over, (conditions, keys), place)
    }

    /// A condition that is looked at only in the branch that it stands in, and does not hold
    /// outside: its subscripts may be inside only there.
    fn only_inside(&mut self, mut condition: ExprId, (share, guard): (&Share, GuardId), here: Here) -> ExprId {
        for guard in self.branches_of(share, guard) {
            let Some((taken, holds)) = self.branches.get(&guard).copied() else { continue };
            if self.checker.arena.out.within(here.guard, guard) {
                break;
            }
            let arena = &mut self.checker.arena;
            let outer = Here { guard: arena.out.guards[guard], ..here };
            let bools = Type::scalar(Dtype::Bool);
            let taken = if holds { taken } else { arena.node(Kind::Unary(UnaryOp::Not, taken), bools.clone(), outer) };
            let never = arena.constant(Scalar::Bool(false), outer);
            condition = arena.node(Kind::If { condition: taken, then: condition, otherwise: never }, bools, outer);
        }
        condition
    }
}

impl Checker<'_> {
    /// Solves axes with a subscript that is an index.
    fn solve_plain(&mut self, solving: &mut Solving<'_>, axes: &[IndexId], shape: &[Size]) -> Option<()> {
        let here = solving.place.here;
        let index_of = |axis: usize| match self.arena.out.exprs[solving.at[axis]].kind {
            Kind::Index(index) => Some((axis, index)),
            _ => None,
        };
        let mut plain: Vec<(usize, IndexId)> = (0..axes.len()).filter_map(index_of).collect();
        // Where a range ends at an index, that index is solved for first.
        plain.sort_by_key(|(_, index)| self.arena.bounded_by(&[*index]).len());
        for (axis, index) in plain {
            if !solving.open.contains(&index) {
                continue;
            }
            let value = self.arena.index_node(axes[axis], here);
            let whole = self.arena.out.indices[index].extent.as_size() == Some(&shape[axis]);
            solving.solve(axis, index, value);
            if !whole && !sabotage::on(Bug::RangeUnasked) {
                self.ends(value, index, solving)?;
            }
        }
        Some(())
    }

    /// Solves axes with a subscript that is affine.
    fn solve_affine(&mut self, solving: &mut Solving<'_>, axes: &[IndexId]) -> Option<()> {
        for (axis, at) in axes.iter().enumerate() {
            let Some(subscript) = self.arena.affine(solving.at[axis]).cloned() else { continue };
            if solving.solved[axis] {
                continue;
            }
            if let Some(solution) = self.solution(&subscript, &solving.open) {
                self.solve_axis(solving, axis, *at, solution)?;
            }
        }
        Some(())
    }

    /// The index that an affine subscript is solved for: the one with the greatest factor.
    fn solution(&self, subscript: &Affine<IndexId>, open: &[IndexId]) -> Option<Solution> {
        let unsolved = || subscript.terms().iter().filter(|(index, _)| open.contains(index));
        let magnitude = |factor: &Size| match factor.as_constant() {
            Some(factor) => Some((Size::constant(factor.checked_abs()?), factor < 0)),
            None => self.facts().never_negative(factor).then(|| (factor.clone(), false)),
        };
        let rank = |factor: &Size| factor.as_constant().map_or(i64::MAX, i64::saturating_abs);
        // Of equal factors that of the longest range, then the first: the fewest are left to sum.
        let long =
            |index: IndexId| self.arena.out.indices[index].extent.as_size().and_then(Size::as_constant).is_none();
        let best = unsolved().rev().max_by_key(|(index, factor)| (rank(factor), long(*index)))?;
        let (index, (factor, negative)) = (best.0, magnitude(&best.1)?);
        let one = Size::constant(1);
        let is_left = |(other, by): &&(IndexId, Size)| {
            let fits = |length: &Size| {
                let room = &factor - length;
                room.as_constant().map_or_else(|| self.facts().never_negative(&room), |room| room >= 0)
            };
            *other != index && *by == one && self.arena.out.indices[*other].extent.as_size().is_some_and(fits)
        };
        let left = if factor == one || negative { None } else { unsolved().find(is_left).map(|(other, _)| *other) };
        let solved = Affine::index(index).scale(&best.1);
        let rest = subscript.sub(&solved);
        let rest = match left {
            Some(left) => rest.sub(&Affine::index(left)),
            None => rest,
        };
        Some(Solution { index, factor, negative, left, rest })
    }

    fn solve_axis(&mut self, solving: &mut Solving<'_>, axis: usize, at: IndexId, solution: Solution) -> Option<()> {
        let here = solving.place.here;
        let Solution { index, factor, negative, left, rest } = solution;
        let others: Vec<IndexId> = rest.terms().iter().map(|(other, _)| *other).collect();
        self.leave_open(&others, solving)?;
        let more = i64::from(sabotage::on(Bug::InverseByOne));
        let rest = self.number_node(&rest.add(&Affine::constant(more)), here);
        let rest = self.copy(rest, &mut solving.place)?;
        let at = self.arena.index_node(at, here);
        let (a, b) = if negative { (rest, at) } else { (at, rest) };
        let distance = self.whole(BinaryOp::Sub, a, b, here);
        let zero = self.arena.constant(Scalar::I64(0), here);
        if !self.arena.affine(distance).is_some_and(|distance| self.is_at_least(distance, 0)) {
            solving.conditions.push(self.relation(CompareOp::Le, zero, distance, here));
        }
        if factor == Size::constant(1) {
            solving.solve(axis, index, distance);
            return self.ends(distance, index, solving);
        }
        let factor = self.arena.size_node(factor, here);
        let quotient = self.whole(BinaryOp::Div, distance, factor, here);
        let remainder = self.whole(BinaryOp::Rem, distance, factor, here);
        solving.solve(axis, index, quotient);
        self.ends(quotient, index, solving)?;
        match left {
            Some(left) => {
                solving.solve(axis, left, remainder);
                self.ends(remainder, left, solving)?;
            }
            None => solving.conditions.push(self.relation(CompareOp::Eq, remainder, zero, here)),
        }
        Some(())
    }

    /// Gives up to solve for some indices, and for those that bound them: they are summed over.
    fn leave_open(&mut self, indices: &[IndexId], solving: &mut Solving<'_>) -> Option<()> {
        let bounds = self.arena.bounded_by(indices);
        let (kept, open) = solving.open.iter().partition(|index| bounds.contains(index));
        solving.open = open;
        let kept: Vec<IndexId> = kept;
        let copies = self.copied_indices(&kept, &mut solving.place)?;
        solving.own.extend(kept.into_iter().zip(copies));
        Some(())
    }

    /// Notes that a number that an index is solved for must be below its end.
    fn ends(&mut self, value: ExprId, index: IndexId, solving: &mut Solving<'_>) -> Option<()> {
        let mut outer = self.arena.bounded_by(&[index]);
        outer.retain(|other| *other != index);
        self.leave_open(&outer, solving)?;
        let place = &mut solving.place;
        let end = match self.extent_at(index, place)? {
            Extent::Affine(end) => self.number_node(&end, place.here),
            Extent::Dynamic(end) => end,
        };
        let condition = self.relation(CompareOp::Lt, value, end, place.here);
        solving.conditions.push(condition);
        Some(())
    }

    /// Whether a subscript of any integer type is the number that an index has.
    fn stands_for(&mut self, subscript: ExprId, index: IndexId, here: Here) -> ExprId {
        let index = match sabotage::on(Bug::NextKey) {
            true => self.number_node(&Affine::index(index).add(&Affine::constant(1)), here),
            false => self.arena.index_node(index, here),
        };
        let wide = if self.arena.dtype(subscript) == Dtype::U64 { Dtype::U64 } else { Dtype::I64 };
        let [a, b] = [subscript, index].map(|value| match self.arena.dtype(value) == wide {
            true => value,
            false => self.arena.node(Kind::Cast(value), Type::scalar(wide), here),
        });
        let (left, right) = if self.arena.free(subscript).is_empty() { (b, a) } else { (a, b) };
        self.relation(CompareOp::Eq, left, right, here)
    }

    fn whole(&mut self, op: BinaryOp, a: ExprId, b: ExprId, here: Here) -> ExprId {
        let (left, right) = (self.arena.affine(a), self.arena.affine(b));
        let short = match (op, left, right) {
            (BinaryOp::Sub, Some(left), Some(right)) => Some(left.sub(right)),
            _ => None,
        };
        match short {
            Some(short) => self.number_node(&short, here),
            None => self.arena.node(Kind::Binary(op, a, b), Type::scalar(Dtype::I64), here),
        }
    }

    /// Whether a sum of indices and sizes is never below a number.
    pub(super) fn is_at_least(&self, value: &Affine<IndexId>, least: i64) -> bool {
        let never_negative = |size: &Size| match size.as_constant() {
            Some(constant) => constant >= 0,
            None => self.facts().never_negative(size),
        };
        let mut rest = value.constant_part() - &Size::constant(least);
        for (index, factor) in value.terms() {
            if never_negative(factor) {
                continue;
            }
            // The index is at most its last value.
            match self.arena.out.indices[*index].extent.as_size() {
                Some(end) if never_negative(&-factor) => rest = &rest + &(factor * &(end - &Size::constant(1))),
                _ => return false,
            }
        }
        never_negative(&rest)
    }

    /// An index that a condition holds for one value of, with that value, which is the same for all
    /// of some indices.
    pub(super) fn key_of(&self, condition: ExprId, over: &[IndexId]) -> Option<(IndexId, ExprId)> {
        let Kind::Compare(CompareOp::Eq, a, b) = self.arena.out.exprs[condition].kind else { return None };
        let mut sides = [(a, b), (b, a)].into_iter();
        sides.find_map(|(index, key)| match self.arena.out.exprs[index].kind {
            Kind::Index(index) if over.contains(&index) => {
                let same = !self.arena.free(key).iter().any(|other| over.contains(other));
                // No other range may end at the index.
                let alone =
                    over.iter().all(|other| *other == index || !self.arena.bounded_by(&[*other]).contains(&index));
                (same && alone && self.arena.dtype(key) == Dtype::I64).then_some((index, key))
            }
            _ => None,
        })
    }

    /// A sum over an index that has one value: the body at this value, if it is in range.
    pub(super) fn at_key(&mut self, index: IndexId, key: ExprId, body: Body, here: Here) -> Option<ExprId> {
        let mut place = Place::new(BTreeMap::from([(index, key)]), here.guard, here);
        let end = match self.extent_at(index, &mut place)? {
            Extent::Affine(end) => self.number_node(&end, here),
            Extent::Dynamic(end) => end,
        };
        let zero = self.arena.constant(Scalar::I64(0), here);
        let conditions =
            vec![self.relation(CompareOp::Le, zero, key, here), self.relation(CompareOp::Lt, key, end, here)];
        let over = body.over.into_iter().filter(|other| *other != index).collect();
        let value = self.kept_along(body.value, index, key, here)?;
        self.selected_sum(value, over, (conditions, vec![]), place)
    }

    /// A value of an index that a key will take the place of. Reductions that depend on the index,
    /// and on nothing that the key depends on, become arrays along the index: they are looked up
    /// at the key of each element, not computed again for it.
    fn kept_along(&mut self, value: ExprId, index: IndexId, key: ExprId, here: Here) -> Option<ExprId> {
        self.kept_where(value, &[index], here, |arena, id| {
            let apart = || arena.free(id).iter().all(|other| !arena.free(key).contains(other));
            matches!(arena.out.exprs[id].kind, Kind::Reduce { prefix: None, .. }) && apart()
        })
    }

    /// A value that will stand in a branch at other values of some indices. Loops with arrays,
    /// recurrences and sorts that depend on these become arrays along them: no kernel computes one
    /// in a branch.
    fn kept_outside(&mut self, value: ExprId, indices: &[IndexId], here: Here) -> Option<ExprId> {
        self.kept_where(value, indices, here, |arena, id| {
            let is_whole = |kind: &Kind| matches!(kind, Kind::Recurrence { .. } | Kind::Sort { .. });
            match &arena.out.exprs[id].kind {
                Kind::Loop { .. } => arena.has_inside(id, |id| {
                    let expr = &arena.out.exprs[id];
                    is_whole(&expr.kind) || matches!(expr.kind, Kind::State { .. }) && !expr.ty.is_scalar()
                }),
                kind => is_whole(kind),
            }
        })
    }

    /// A value with arrays along some indices: these take the place of the outermost parts that
    /// depend on them and are to be kept.
    fn kept_where(
        &mut self,
        value: ExprId,
        indices: &[IndexId],
        here: Here,
        is_kept: impl Fn(&Arena, ExprId) -> bool,
    ) -> Option<ExprId> {
        let (mut pending, mut seen, mut found) = (vec![value], BTreeSet::new(), vec![]);
        let mut bound: BTreeSet<IndexId> = BTreeSet::new();
        while let Some(id) = pending.pop() {
            let arena = &self.arena;
            let mentioned = arena.mentioned(id);
            if !mentioned.iter().any(|index| indices.contains(index)) || !seen.insert(id) {
                continue;
            }
            let changes = |index: &&IndexId| indices.contains(index) || bound.contains(index);
            let along: Vec<IndexId> = mentioned.iter().filter(changes).copied().collect();
            let is_plain = |index: &IndexId| arena.out.indices[*index].extent.as_size().is_some();
            let is_step = |index: &IndexId| arena.out.steps[*index].is_some();
            let stays = arena.reads_earlier(id) || arena.free(id).iter().any(is_step);
            let moves = along.iter().all(is_plain) && !stays && arena.out.within(here.guard, arena.out.exprs[id].guard);
            if moves && is_kept(arena, id) {
                found.push((id, along));
            } else {
                let kind = &arena.out.exprs[id].kind;
                bound.extend(arena.out.bound(kind));
                arena.out.for_each_operand(kind, |operand| pending.push(operand));
            }
        }
        let mut known = BTreeMap::new();
        for (id, along) in found {
            let mut place = Place::new(BTreeMap::new(), here.guard, here);
            let mut axes = self.copied_indices(&along, &mut place)?;
            let mut body = self.copy(id, &mut place)?;
            let shape = self.arena.ty(id).shape.clone();
            let at = |axes: &[IndexId]| axes.iter().map(|index| Affine::index(*index)).collect::<Vec<_>>();
            if !shape.is_empty() {
                let own = self.arena.axis_indices(&shape, here.span);
                body = self.arena.element(body, at(&own), here);
                axes.extend(own);
            }
            let array = self.arena.comprehension(axes, body, here);
            let own = self.arena.axis_indices(&shape, here.span);
            let mut element = self.arena.element(array, at(&[along, own.clone()].concat()), here);
            if !own.is_empty() {
                element = self.arena.comprehension(own, element, here);
            }
            known.insert(id, element);
        }
        if known.is_empty() { Some(value) } else { self.same_indices(value, indices, known, here) }
    }

    /// The sum of a value over indices where conditions hold, and keys, which are conditions that
    /// are looked at only where the others hold, and at the place. Those that mention none of the
    /// indices are looked at once.
    fn selected_sum(
        &mut self,
        value: ExprId,
        over: Vec<IndexId>,
        (conditions, keys): (Vec<ExprId>, Vec<ExprId>),
        mut place: Place,
    ) -> Option<ExprId> {
        let here = place.here;
        let inner = |id: &ExprId| self.arena.free(*id).iter().any(|index| over.contains(index));
        let (inner, outer): (Vec<ExprId>, Vec<ExprId>) = conditions.into_iter().partition(inner);
        let goes = |key: &ExprId| {
            let values = self.arena.free(*key).iter().filter_map(|index| place.values.get(index));
            values.flat_map(|value| self.arena.free(*value)).any(|index| over.contains(index))
        };
        let (inner_keys, outer_keys): (Vec<ExprId>, Vec<ExprId>) = keys.into_iter().partition(goes);
        let once = self.conjunction(&outer, here);
        let branch = |checker: &mut Checker<'_>, condition: Option<ExprId>, outer: Here| match condition {
            Some(condition) => {
                let branch = Branch { condition: Some((condition, true)), ..Branch::default() };
                Here { guard: checker.arena.branch(outer.guard, branch), ..outer }
            }
            None => outer,
        };
        let within = branch(self, once, here);
        let once = self.with_keys(once, &outer_keys, &place, (within, here))?;
        let inside = branch(self, once, here);
        // Nothing that was copied for the conditions is inside of them.
        place.stand_apart();
        let value = match over.is_empty() {
            true => {
                place.here = inside;
                self.copy(value, &mut place)?
            }
            false => {
                let each = self.conjunction(&inner, inside);
                let within = branch(self, each, inside);
                let each = self.with_keys(each, &inner_keys, &place, (within, inside))?;
                place.here = branch(self, each, inside);
                let value = self.copy(value, &mut place)?;
                self.sum(Body { over, filter: each, value }, inside)?
            }
        };
        Some(match once {
            Some(condition) => self.only_if(condition, value, true, here),
            None => value,
        })
    }
}

impl Checker<'_> {
    /// Whether a condition holds, and keys at a place, which are looked at only in its branch.
    fn with_keys(
        &mut self,
        condition: Option<ExprId>,
        keys: &[ExprId],
        place: &Place,
        (branch, here): (Here, Here),
    ) -> Option<Option<ExprId>> {
        // Copies in this branch are of no use in others.
        let mut place = place.clone();
        place.here = branch;
        let mut keys = keys.iter().map(|key| self.copy(*key, &mut place)).collect::<Option<Vec<_>>>()?;
        keys.retain(|key| !self.always_holds(*key));
        let (Some(condition), Some(keys)) = (condition, self.conjunction(&keys, branch)) else {
            return Some(condition.or_else(|| self.conjunction(&keys, here)));
        };
        let never = self.arena.constant(Scalar::Bool(false), here);
        let kind = Kind::If { condition, then: keys, otherwise: never };
        Some(Some(self.arena.node(kind, Type::scalar(Dtype::Bool), here)))
    }
}

impl Solving<'_> {
    fn solve(&mut self, axis: usize, index: IndexId, value: ExprId) {
        self.open.retain(|open| *open != index);
        self.place.values.insert(index, value);
        self.solved[axis] = true;
    }
}
