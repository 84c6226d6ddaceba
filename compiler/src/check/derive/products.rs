//! Running products. The slope in a factor is the product of the others, which is no quotient: a
//! factor may be 0. It is the product of those before, times a sum from the other end:
//!
//! ```text
//! p[i] = prod[k <= i](x[k])
//! change   dp[i] = x[i] * dp[i - 1] + prod[j < i](x[j]) * dx[i]
//! back     s[k] = dp[k] + x[k + 1] * s[k + 1]
//!          dx[k] = prod[j < k](x[j]) * s[k]
//! ```

use ir::checked::{ExprId, IndexId, Kind, Prefix, Type};
use ir::{Affine, CompareOp, Monoid, Size};

use super::super::Checker;
use super::super::access::Pending;
use super::super::arena::{Branch, Here};
use super::leaders::Running;
use super::reverse::{Part, Reverse};

impl Checker<'_> {
    /// A value where an index that is later by some places is below an end, and another one
    /// elsewhere.
    pub(super) fn if_later(
        &mut self,
        (index, later, end): (IndexId, i64, &Size),
        value: impl FnOnce(&mut Self, Here) -> Option<ExprId>,
        otherwise: ExprId,
        here: Here,
    ) -> Option<ExprId> {
        let place = self.number_node(&Affine::index(index).add(&Affine::constant(later)), here);
        let end = self.arena.size_node(end.clone(), here);
        let condition = self.relation(CompareOp::Lt, place, end, here);
        let branch = Branch { condition: Some((condition, true)), ..Branch::default() };
        let inside = Here { guard: self.arena.branch(here.guard, branch), ..here };
        let then = value(self, inside)?;
        let ty = Type::scalar(self.arena.dtype(then));
        Some(self.arena.node(Kind::If { condition, then, otherwise }, ty, here))
    }

    /// An element of an array at a place that a condition around it keeps inside.
    fn guarded_element(&mut self, array: ExprId, at: &Affine<IndexId>, here: Here) -> ExprId {
        let at = self.number_node(at, here);
        self.checked_element(array, vec![Pending::unproved(at, here.span)], &[], here)
    }

    /// The factors of a running product, one for each place, and the products of those before each.
    fn factors(&mut self, running: &Running, count: &Size, here: Here) -> Option<(ExprId, ExprId)> {
        let one = self.float(1.0, self.arena.dtype(running.body), here);
        let (index, factor) = self.element_or(running, running.body, (one, count), here)?;
        let factors = self.arena.comprehension(vec![index], factor, here);
        let own = self.arena.index("k", Affine::size(count.clone()), here.span);
        let before = self.running(factors, Monoid::Prod, Prefix { of: own, inclusive: false }, here);
        Some((factors, self.arena.comprehension(vec![own], before, here)))
    }

    /// The change of a running product for the changes of its factors.
    pub(super) fn multiplied_up(&mut self, running: &Running, change: ExprId, here: Here) -> Option<ExprId> {
        let count = self.places_of(running)?;
        let (factors, before) = self.factors(running, &count, here)?;
        let zero = self.zero_like(running.body, here);
        let (index, change) = self.element_or(running, change, (zero, &count), here)?;
        let changes = self.arena.comprehension(vec![index], change, here);
        let name = self.arena.out.indices[running.prefix.of].name.clone();
        let own = self.arena.index(&name, Affine::size(count.clone()), here.span);
        let of = self.begin_recurrence(vec![vec![own]]);
        let ty = Type { dtype: self.arena.dtype(running.body), shape: vec![count.clone()] };
        let earlier = self.arena.node(Kind::Earlier { recurrence: of, array: 0, within: 0 }, ty, here);
        let at = vec![Affine::index(own)];
        let [mine, before, factor] =
            [changes, before, factors].map(|array| self.arena.element(array, at.clone(), here));
        let added = self.times(before, mine, here);
        // Where the index is 0, that is all.
        let place = self.arena.index_node(own, here);
        let nothing = self.number_node(&Affine::constant(0), here);
        let condition = self.relation(CompareOp::Lt, nothing, place, here);
        let branch = Branch { condition: Some((condition, true)), ..Branch::default() };
        let inside = Here { guard: self.arena.branch(here.guard, branch), ..here };
        let previous = Affine::index(own).sub(&Affine::constant(1));
        let last = self.guarded_element(earlier, &previous, inside);
        let carried = self.times(factor, last, inside);
        let carried = self.only_if(condition, carried, true, here);
        let body = self.plus(carried, added, here);
        let all = self.end_recurrence(of, vec![body], vec!["dp".to_owned()], here)[0];
        let (condition, previous) = match running.prefix.inclusive {
            true => return Some(self.arena.element(all, vec![Affine::index(running.prefix.of)], here)),
            false => {
                let place = self.arena.index_node(running.prefix.of, here);
                let condition = self.relation(CompareOp::Lt, nothing, place, here);
                (condition, Affine::index(running.prefix.of).sub(&Affine::constant(1)))
            }
        };
        let branch = Branch { condition: Some((condition, true)), ..Branch::default() };
        let inside = Here { guard: self.arena.branch(here.guard, branch), ..here };
        let value = self.guarded_element(all, &previous, inside);
        Some(self.only_if(condition, value, true, here))
    }
}

impl Reverse<'_, '_> {
    /// Gives the factors of a running product their share.
    pub fn multiplied_up(
        &mut self,
        running: &Running,
        derivative: ExprId,
        context: &[IndexId],
        here: Here,
    ) -> Option<()> {
        let checker = &mut *self.checker;
        let count = checker.places_of(running)?;
        let (factors, before) = checker.factors(running, &count, here)?;
        let (index, value) = checker.at_each(derivative, running.prefix.of, &count, here)?;
        let given = checker.arena.comprehension(vec![index], value, here);
        let zero = checker.zero_like(running.body, here);
        let name = checker.arena.out.indices[running.along].name.clone();
        let own = checker.arena.index(&name, Affine::size(count.clone()), here.span);
        let of = checker.begin_recurrence(vec![vec![own]]);
        let ty = Type { dtype: checker.arena.dtype(running.body), shape: vec![count.clone()] };
        let earlier = checker.arena.node(Kind::Earlier { recurrence: of, array: 0, within: 0 }, ty, here);
        let next = Affine::index(own).add(&Affine::constant(1));
        let mine = running.prefix.inclusive.then(|| checker.arena.element(given, vec![Affine::index(own)], here));
        let later = |checker: &mut Checker<'_>, inside: Here| {
            let factor = checker.guarded_element(factors, &next, inside);
            let sum = checker.guarded_element(earlier, &next, inside);
            let carried = checker.times(factor, sum, inside);
            Some(match mine {
                Some(_) => carried,
                None => {
                    let given = checker.guarded_element(given, &next, inside);
                    checker.plus(given, carried, inside)
                }
            })
        };
        let mut body = checker.if_later((own, 1, &count), later, zero, here)?;
        if let Some(mine) = mine {
            body = checker.plus(mine, body, here);
        }
        let sums = checker.end_recurrence(of, vec![body], vec!["dp".to_owned()], here)[0];
        let (each, factor) = checker.at_each(running.body, running.along, &running.elements(&count), here)?;
        let at = vec![Affine::index(each)];
        let [before, sum] = [before, sums].map(|array| checker.arena.element(array, at.clone(), here));
        let value = checker.times(before, sum, here);
        let mut inner: Vec<IndexId> = context.iter().copied().filter(|index| *index != running.prefix.of).collect();
        inner.push(each);
        self.share(factor, Part::Whole, value, &inner, here.guard);
        Some(())
    }
}
