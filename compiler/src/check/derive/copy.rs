//! Copies of expressions at other indices.
//!
//! The derivative of a sum is read element by element, and the derivative of an element in a sum
//! over all its uses. So an expression that was written under one index is needed under another.
//! Each binder has indices of its own, so a copy has its own binders too. Whatever does not mention
//! an index that changes is shared, not copied.

use std::collections::BTreeMap;

use grammar::ast::Span;
use ir::checked::{Expr, ExprId, Extent, Factor, GuardId, IndexId, Kind, LoopId, Prefix, RecurrenceId};
use ir::{Affine, BinaryOp, Order, Scalar};

use super::super::Checker;
use super::super::access::Pending;
use super::super::arena::{Branch, Here};

/// Where a copy stands, and what its indices stand for.
#[derive(Clone)]
pub(super) struct Place {
    /// The value of each index that changes, an `i64` scalar.
    pub values: BTreeMap<IndexId, ExprId>,
    /// The branch of the original that `here` takes the place of.
    pub base: GuardId,
    /// The place of the copy.
    pub here: Here,
    /// The copies so far, each with the values of the indices that the original mentions.
    copies: BTreeMap<(ExprId, Vec<ExprId>), ExprId>,
    /// The branches so far, each with the copies of the branch around it and of its condition.
    branches: BTreeMap<(GuardId, GuardId, Option<ExprId>), GuardId>,
    /// The loops so far, likewise, each with the index that numbers its steps.
    pub loops: BTreeMap<(LoopId, Vec<ExprId>), (LoopId, IndexId)>,
    /// The values of states within a step.
    pub states: BTreeMap<(LoopId, usize), ExprId>,
    /// The recurrences so far, likewise, each with its arrays.
    pub recurrences: BTreeMap<(RecurrenceId, Vec<ExprId>), Vec<ExprId>>,
    /// The arrays of recurrences within the body of one: by array and body.
    pub earlier: BTreeMap<(RecurrenceId, usize, usize), ExprId>,
    /// The nodes that replace others, at the values of the indices.
    pub known: BTreeMap<ExprId, ExprId>,
}

impl Place {
    /// A place in a branch that replaces another one.
    pub fn new(values: BTreeMap<IndexId, ExprId>, base: GuardId, here: Here) -> Place {
        Place {
            values,
            base,
            here,
            copies: BTreeMap::new(),
            branches: BTreeMap::new(),
            loops: BTreeMap::new(),
            states: BTreeMap::new(),
            recurrences: BTreeMap::new(),
            earlier: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// Shares no further copy with those so far.
    pub fn stand_apart(&mut self) {
        self.copies.clear();
        self.branches.clear();
    }
}

impl Checker<'_> {
    /// A copy of an expression at a place. `None` means that an error is reported.
    pub(super) fn copy(&mut self, id: ExprId, place: &mut Place) -> Option<ExprId> {
        if let Some(known) = place.known.get(&id).copied() {
            // Indices of binders in between have copies.
            let is_same = |index: &IndexId| match place.values.get(index) {
                Some(value) => matches!(self.arena.out.exprs[*value].kind, Kind::Index(other) if other == *index),
                None => true,
            };
            if self.arena.free(known).iter().all(is_same) {
                return Some(known);
            }
            place.known.remove(&id);
            let copy = self.copy(known, place);
            place.known.insert(id, known);
            return copy;
        }
        let inside = self.is_inside(self.arena.out.exprs[id].guard, place.base);
        let value = |index: &IndexId| place.values.get(index).copied();
        let mut mentioned: Vec<ExprId> = self.arena.free(id).iter().filter_map(value).collect();
        // A copy stands in a copy of its branch, which depends on the indices of the condition.
        let guards = self.arena.guards(self.arena.out.exprs[id].guard);
        for guard in guards.take_while(|guard| !self.arena.out.within(place.base, *guard)) {
            let condition = self.arena.branches(guard).next().and_then(|branch| branch.condition);
            mentioned.extend(condition.iter().flat_map(|(condition, _)| self.arena.free(*condition)).filter_map(value));
        }
        if !inside && mentioned.is_empty() {
            return Some(id);
        }
        let key = (id, mentioned);
        if let Some(copy) = place.copies.get(&key) {
            return Some(*copy);
        }
        if self.is_full(place.here.span) {
            return None;
        }
        // A binder hides outer indices of the same number, which are back behind it.
        let outer = self.arena.out.bound(&self.arena.out.exprs[id].kind).next().map(|_| place.values.clone());
        let copy = stacker::maybe_grow(128 << 10, 4 << 20, || self.copied(id, place))?;
        if let Some(outer) = outer {
            place.values = outer;
        }
        if self.arena.out.exprs[copy].name.is_none() {
            self.arena.out.exprs[copy].name = self.arena.out.exprs[id].name.clone();
        }
        place.copies.insert(key, copy);
        Some(copy)
    }

    fn copied(&mut self, id: ExprId, place: &mut Place) -> Option<ExprId> {
        let Expr { kind, ty, origin, guard, .. } = self.arena.out.exprs[id].clone();
        let guard = self.copied_branch(guard, place)?;
        let here = Here { span: Span { start: origin.start, end: origin.end }, guard };
        let kind = match kind {
            Kind::Constant(_) | Kind::Size(_) | Kind::Param(_) => kind,
            Kind::Index(index) => match place.values.get(&index) {
                Some(value) => return Some(*value),
                None => kind,
            },
            Kind::Unary(op, a) => Kind::Unary(op, self.copy(a, place)?),
            Kind::Binary(op, a, b) => {
                let (a, b) = (self.copy(a, place)?, self.copy(b, place)?);
                match op {
                    BinaryOp::And if self.always_holds(a) => return Some(b),
                    BinaryOp::And if self.always_holds(b) => return Some(a),
                    _ => Kind::Binary(op, a, b),
                }
            }
            Kind::Compare(op, a, b) => Kind::Compare(op, self.copy(a, place)?, self.copy(b, place)?),
            Kind::Fma(a, b, c) => Kind::Fma(self.copy(a, place)?, self.copy(b, place)?, self.copy(c, place)?),
            Kind::Cast(a) => Kind::Cast(self.copy(a, place)?),
            Kind::Bitcast(a) => Kind::Bitcast(self.copy(a, place)?),
            Kind::Reshape(a) => Kind::Reshape(self.copy(a, place)?),
            Kind::Math(function, list) => Kind::Math(function, self.copy_all(&list, place)?),
            Kind::ArrayLiteral(list) => Kind::ArrayLiteral(self.copy_all(&list, place)?),
            Kind::If { condition, then, otherwise } => {
                let condition = self.copy(condition, place)?;
                if self.never_holds(condition) {
                    return self.copy(otherwise, place);
                }
                let then = self.copy(then, place)?;
                // A branch that mentions nothing that changes is not copied, and stays one.
                let outside = self.arena.out.within(here.guard, self.arena.out.exprs[then].guard);
                if outside && self.always_holds(condition) {
                    return Some(then);
                }
                let otherwise = self.copy(otherwise, place)?;
                let never = matches!(self.arena.out.exprs[otherwise].kind, Kind::Constant(Scalar::Bool(false)));
                if never && self.always_holds(then) {
                    return Some(condition);
                }
                Kind::If { condition, then, otherwise }
            }
            Kind::Access { array, at } => {
                let array = self.copy(array, place)?;
                let mut pending = vec![];
                for subscript in at {
                    pending.push(Pending::unproved(self.copy(subscript.value, place)?, here.span));
                }
                return Some(self.checked_element(array, pending, &[], here));
            }
            Kind::Reduce { op, over, body, order, prefix, by } => {
                if let Some(prefix) = prefix
                    && let Some(value) = place.values.get(&prefix.of).copied()
                    && !matches!(self.arena.out.exprs[value].kind, Kind::Index(_))
                {
                    return self.copied_scan(id, prefix, value, place, here);
                }
                let prefix = prefix.map(|prefix| Prefix { of: self.index_at(prefix.of, place), ..prefix });
                let over = self.copied_indices(&over, place)?;
                let by = by.into_iter().map(|factor| self.copied_factor(factor, place)).collect::<Option<Vec<_>>>()?;
                let body = self.copy(body, place)?;
                let order = match (order, over.last()) {
                    (Order::Lanes | Order::Blocks, Some(last)) => self.arena.order_of(body, *last),
                    (order, _) => order,
                };
                Kind::Reduce { op, over, body, order, prefix, by }
            }
            Kind::Contract { over, left, right } => {
                let over = self.copied_indices(&over, place)?;
                Kind::Contract { over, left: self.copy(left, place)?, right: self.copy(right, place)? }
            }
            Kind::Comprehension { indices, body } => {
                let indices = self.copied_indices(&indices, place)?;
                Kind::Comprehension { indices, body: self.copy(body, place)? }
            }
            Kind::Sort { index, body, result } => {
                let index = [self.copied_indices(&index, place)?[0]];
                Kind::Sort { index, body: self.copy(body, place)?, result }
            }
            Kind::Loop { of, number, .. } => return self.copied_last((id, of, number), ty, place, here),
            Kind::State { of, number } => match place.states.get(&(of, number)) {
                Some(state) => return Some(*state),
                None if self.arena.free(id).iter().any(|index| place.values.contains_key(index)) => {
                    self.not_derived(id, "a step of a loop at another value of an index around it");
                    return None;
                }
                None => return Some(id),
            },
            Kind::Recurrence { recurrence, array } => {
                return self.copied_array((id, recurrence, array), place, here);
            }
            // Which elements of it are read is for the order to prove.
            Kind::Earlier { recurrence, array, within } => {
                return Some(place.earlier.get(&(recurrence, array, within)).copied().unwrap_or(id));
            }
        };
        let copy = self.arena.node(kind, ty, here);
        if matches!(self.arena.out.exprs[copy].kind, Kind::Reduce { .. }) {
            self.unfinished.copied(id, copy);
        }
        Some(copy)
    }

    fn copy_all(&mut self, list: &[ExprId], place: &mut Place) -> Option<Vec<ExprId>> {
        list.iter().map(|id| self.copy(*id, place)).collect()
    }

    /// A scan is along an index. At any other number it is an element of the array of all.
    fn copied_scan(
        &mut self,
        id: ExprId,
        prefix: Prefix,
        value: ExprId,
        place: &mut Place,
        here: Here,
    ) -> Option<ExprId> {
        let along = self.copied_indices(&[prefix.of], place)?;
        let scan = self.copied(id, place)?;
        let array = self.arena.comprehension(along, scan, here);
        Some(self.checked_element(array, vec![Pending::unproved(value, here.span)], &[], here))
    }

    fn copied_factor(&mut self, factor: Factor, place: &mut Place) -> Option<Factor> {
        Some(match factor {
            Factor::Holds(condition) => Factor::Holds(self.copy(condition, place)?),
            Factor::Key { of, key } => Factor::Key { of: self.index_at(of, place), key: self.copy(key, place)? },
        })
    }

    /// The index that an index stands for in a copy, where it stands for one.
    fn index_at(&self, index: IndexId, place: &Place) -> IndexId {
        match place.values.get(&index).map(|value| &self.arena.out.exprs[*value].kind) {
            Some(Kind::Index(other)) => *other,
            _ => index,
        }
    }

    /// Indices of their own for a binder of a copy.
    pub(super) fn copied_indices(&mut self, indices: &[IndexId], place: &mut Place) -> Option<Vec<IndexId>> {
        let mut copies = vec![];
        for index in indices {
            let original = self.arena.out.indices[*index].clone();
            let extent = self.extent_at(*index, place)?;
            let copy = self.arena.out.indices.push(ir::checked::Index { extent, ..original });
            let node = self.arena.index_node(copy, place.here);
            place.values.insert(*index, node);
            copies.push(copy);
        }
        Some(copies)
    }

    /// How far an index runs, at a place.
    pub(super) fn extent_at(&mut self, index: IndexId, place: &mut Place) -> Option<Extent> {
        Some(match self.arena.out.indices[index].extent.clone() {
            Extent::Dynamic(end) => Extent::Dynamic(self.copy(end, place)?),
            Extent::Affine(extent) => {
                let affine = |index: IndexId| match place.values.get(&index) {
                    Some(value) => self.arena.affine(*value).cloned(),
                    None => Some(Affine::index(index)),
                };
                match substituted(&extent, affine) {
                    Some(extent) => Extent::Affine(extent),
                    None => {
                        let end = self.arena.affine_node(&extent, place.here);
                        Extent::Dynamic(self.copy(end, place)?)
                    }
                }
            }
        })
    }

    /// The branch of a copy.
    pub(super) fn copied_branch(&mut self, guard: GuardId, place: &mut Place) -> Option<GuardId> {
        if self.arena.out.within(place.base, guard) {
            return Some(place.here.guard);
        }
        let outer = self.copied_branch(self.arena.out.guards[guard], place)?;
        let branch = self.arena.branches(guard).next().cloned().unwrap_or_default();
        let condition = match branch.condition {
            Some((condition, holds)) => Some((self.copy(condition, place)?, holds)),
            None => None,
        };
        // An `if` with a condition that always holds becomes its branch.
        if condition.is_some_and(|(condition, holds)| holds && self.always_holds(condition)) {
            return Some(outer);
        }
        // The condition depends on the values of indices, so a branch may have several copies.
        let key = (guard, outer, condition.map(|(condition, _)| condition));
        if let Some(copy) = place.branches.get(&key) {
            return Some(*copy);
        }
        let copy = self.arena.branch(outer, Branch { condition, ..branch });
        place.branches.insert(key, copy);
        Some(copy)
    }

    /// Whether a branch is inside another one, and not that one itself.
    pub(super) fn is_inside(&self, guard: GuardId, outer: GuardId) -> bool {
        guard != outer && self.arena.out.within(guard, outer)
    }

    /// A zero-based scalar `i64`, as an affine expression if it is one.
    pub(super) fn number_node(&mut self, value: &Affine<IndexId>, here: Here) -> ExprId {
        match (value.as_index(), value.as_size()) {
            (Some(index), _) => self.arena.index_node(index, here),
            (None, Some(size)) => self.arena.size_node(size.clone(), here),
            (None, None) => self.arena.affine_node(value, here),
        }
    }
}

/// An affine expression with other ones in place of its indices, if there is one for each.
fn substituted(
    affine: &Affine<IndexId>,
    value: impl Fn(IndexId) -> Option<Affine<IndexId>>,
) -> Option<Affine<IndexId>> {
    let mut sum = Affine::size(affine.constant_part().clone());
    for (index, coefficient) in affine.terms() {
        sum = sum.add(&value(*index)?.scale(coefficient));
    }
    Some(sum)
}
