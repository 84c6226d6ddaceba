//! Slopes that are kept in arrays.
//!
//! On the way back, an element of a recurrence adds to each element that it reads. Where the slope
//! is a function or takes a sum, all of these would compute it again, so it is computed for all
//! elements before, and kept. The element itself has a value that is known already: the slope of
//! `y[t] = tanh(...)` is `1 - y[t] * y[t]`.

use std::collections::{BTreeMap, BTreeSet};

use ir::checked::{ExprId, GuardId, IndexId, Kind};
use ir::{Affine, BinaryOp, UnaryOp};

use super::super::Checker;
use super::super::arena::Here;
use super::copy::Place;
use super::reverse::{Part, Reverse, Share};
use super::table::Slope;

/// The elements of recurrences that a derivative goes back through.
#[derive(Clone, Default)]
pub(super) struct Kept {
    /// The indices of each, and those around the recurrence.
    elements: Vec<(Vec<IndexId>, Vec<IndexId>)>,
    /// The nodes that have the value of an element.
    known: BTreeMap<ExprId, ExprId>,
}

impl Kept {
    /// Adds an element: its indices, its value, and the array that has it.
    pub fn add(
        &mut self,
        checker: &mut Checker<'_>,
        (indices, body): (&[IndexId], ExprId),
        array: ExprId,
        around: &[IndexId],
        here: Here,
    ) {
        self.elements.push((indices.to_vec(), around.to_vec()));
        let mut pending = vec![body];
        while let Some(id) = pending.pop() {
            let guard = checker.arena.out.exprs[id].guard;
            let at = indices.iter().map(|index| Affine::index(*index)).collect();
            let known = checker.arena.element(array, at, Here { guard, ..here });
            self.known.insert(id, known);
            if let Kind::If { then, otherwise, .. } = checker.arena.out.exprs[id].kind {
                // Whatever stands in a branch is computed only where that is taken.
                let inside = |id: &ExprId| checker.is_inside(checker.arena.out.exprs[*id].guard, guard);
                pending.extend([then, otherwise].into_iter().filter(inside));
            }
        }
    }
}

impl Reverse<'_, '_> {
    /// A slope, from an array if it is kept.
    pub fn kept_slope(&mut self, slope: Slope, context: &[IndexId], here: Here) -> Option<Slope> {
        Some(match slope {
            Slope::Times(factor) => Slope::Times(self.kept_factor(factor, context, here)?),
            Slope::Over(divisor) => Slope::Over(self.kept_factor(divisor, context, here)?),
            Slope::Zero | Slope::One | Slope::Minus | Slope::Where(_) | Slope::Unless(_) | Slope::Unknown => slope,
        })
    }

    fn kept_factor(&mut self, mut factor: ExprId, context: &[IndexId], here: Here) -> Option<ExprId> {
        let free = self.checker.arena.free(factor).to_vec();
        let is_of = |(own, _): &&(Vec<IndexId>, Vec<IndexId>)| own.iter().any(|index| free.contains(index));
        let Some((own, around)) = self.kept.elements.iter().find(is_of).cloned() else { return Some(factor) };
        let guard = self.checker.arena.out.exprs[factor].guard;
        if self.checker.arithmetic_of(factor).iter().any(|id| self.kept.known.contains_key(id)) {
            let known = self.kept.known.clone();
            factor = self.checker.same_indices(factor, &own, known, Here { guard, ..here })?;
        }
        let is_outer = |index: &IndexId| around.contains(index) || !context.contains(index);
        if !self.checker.is_costly(factor) || !free.iter().all(|index| own.contains(index) || is_outer(index)) {
            return Some(factor);
        }
        let axes: Vec<IndexId> = own.iter().copied().filter(|index| free.contains(index)).collect();
        let outside = self.outside_of(|index| axes.contains(index), Here { guard, ..here });
        let of = Share { of: Part::Whole, value: factor, context: context.to_vec(), guard };
        let value = self.leave(&of, factor, &axes, outside);
        let mut place = Place::new(BTreeMap::new(), outside.guard, outside);
        let copies = self.checker.copied_indices(&axes, &mut place)?;
        let value = self.checker.copy(value, &mut place)?;
        let factors = self.checker.arena.comprehension(copies, value, outside);
        let at = axes.iter().map(|index| Affine::index(*index)).collect();
        Some(self.checker.arena.element(factors, at, Here { guard, ..here }))
    }

    /// A place outside of the branches that depend on some indices.
    pub fn outside_of(&self, is_one: impl Fn(&IndexId) -> bool, here: Here) -> Here {
        let depends = |guard: &GuardId| {
            let condition = self.branches.get(guard).map(|(condition, _)| self.checker.arena.free(*condition));
            condition.is_some_and(|free| free.iter().any(&is_one))
        };
        let outermost = self.checker.arena.guards(here.guard).filter(depends).last();
        Here { guard: outermost.map_or(here.guard, |guard| self.checker.arena.out.guards[guard]), ..here }
    }
}

impl Checker<'_> {
    /// A copy of an expression at the same indices, with other nodes in place of some.
    pub(super) fn same_indices(
        &mut self,
        value: ExprId,
        indices: &[IndexId],
        known: BTreeMap<ExprId, ExprId>,
        here: Here,
    ) -> Option<ExprId> {
        let nodes: Vec<ExprId> = indices.iter().map(|index| self.arena.index_node(*index, here)).collect();
        let mut place = Place::new(indices.iter().copied().zip(nodes).collect(), here.guard, here);
        place.known = known;
        self.copy(value, &mut place)
    }

    /// Whether a scalar takes more than loads and a little arithmetic.
    fn is_costly(&self, id: ExprId) -> bool {
        self.arithmetic_of(id).iter().any(|id| {
            matches!(
                self.arena.out.exprs[*id].kind,
                Kind::Math(..)
                    | Kind::Reduce { .. }
                    | Kind::Contract { .. }
                    | Kind::Loop { .. }
                    | Kind::Binary(BinaryOp::Div, ..)
                    | Kind::Unary(UnaryOp::Sqrt, _)
            )
        })
    }

    /// A scalar and the nodes that it is computed from, as far as scalars alone give them.
    fn arithmetic_of(&self, id: ExprId) -> BTreeSet<ExprId> {
        let (mut pending, mut seen) = (vec![id], BTreeSet::new());
        while let Some(id) = pending.pop() {
            let kind = &self.arena.out.exprs[id].kind;
            let is_arithmetic = matches!(
                kind,
                Kind::Unary(..)
                    | Kind::Binary(..)
                    | Kind::Compare(..)
                    | Kind::Fma(..)
                    | Kind::Cast(_)
                    | Kind::Math(..)
                    | Kind::If { .. }
            );
            if seen.insert(id) && is_arithmetic {
                self.arena.out.for_each_operand(kind, |operand| pending.push(operand));
            }
        }
        seen
    }
}
