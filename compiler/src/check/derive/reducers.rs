//! Sums that derivatives consist of, and the shares of what is reduced, scanned or sorted.

use std::collections::BTreeMap;

use ir::checked::{ExprId, IndexId, Kind, Prefix, Sorted, Type};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Extreme, Monoid, Order, ReduceOp, Scalar, Size, UnaryOp};

use super::super::Checker;
use super::super::arena::Here;
use super::super::reduce::Body;
use super::super::reducers::reducer;
use super::copy::Place;
use super::leaders::Running;
use super::reverse::{Part, Reverse, Share};
use super::table::Slope;

impl Checker<'_> {
    /// The sum of a scalar over indices that it was written under.
    pub(super) fn sum_over(&mut self, value: ExprId, over: &[IndexId], here: Here) -> Option<ExprId> {
        if over.is_empty() || self.is_zero(value) {
            return Some(value);
        }
        let mut place = Place::new(BTreeMap::new(), here.guard, here);
        let over = self.copied_indices(over, &mut place)?;
        let value = self.copy(value, &mut place)?;
        self.sum(Body { over, filter: None, value }, here)
    }

    /// The sum of what a reducer goes over. Factors that all elements share stay outside.
    pub(super) fn sum(&mut self, body: Body, here: Here) -> Option<ExprId> {
        let Body { over, filter, value } = body;
        if over.is_empty() || self.is_zero(value) {
            return Some(value);
        }
        let is_same = |id: ExprId| {
            !self.arena.free(id).iter().any(|index| over.contains(index))
                && !self.is_inside(self.arena.out.exprs[id].guard, here.guard)
        };
        match self.arena.out.exprs[value].kind {
            Kind::Unary(UnaryOp::Neg, of) => {
                let sum = self.sum(Body { over, filter, value: of }, here)?;
                return Some(self.minus(sum, here));
            }
            Kind::Binary(BinaryOp::Mul, a, b) if is_same(a) => {
                let sum = self.sum(Body { over, filter, value: b }, here)?;
                return Some(self.times(a, sum, here));
            }
            Kind::Binary(BinaryOp::Mul, a, b) if is_same(b) => {
                let sum = self.sum(Body { over, filter, value: a }, here)?;
                return Some(self.times(sum, b, here));
            }
            Kind::Binary(BinaryOp::Div, a, b) if is_same(b) => {
                let sum = self.sum(Body { over, filter, value: a }, here)?;
                return Some(self.over(sum, b, here));
            }
            _ => {}
        }
        if let Some((condition, holds, inner)) = self.selected_part(value)
            && is_same(condition)
        {
            let within = self.in_branch_of(inner, here);
            let sum = self.sum(Body { over, filter, value: inner }, within)?;
            return Some(self.only_if(condition, sum, holds, here));
        }
        if filter.is_none()
            && let Some((condition, true, inner)) = self.selected_part(value)
            && let Some((index, key)) = self.key_of(condition, &over)
        {
            return self.at_key(index, key, Body { over, filter, value: inner }, here);
        }
        if filter.is_none()
            && let Some((condition, true, inner)) = self.selected_part(value)
            && self.is_by_key(condition, &over)
        {
            return self.sum(Body { over, filter: Some(condition), value: inner }, here);
        }
        if filter.is_some() {
            return self.reduction(reducer("sum")?, Body { over, filter, value }, None, here);
        }
        let mentioned = self.arena.bounded_by(self.arena.free(value));
        let counts = |index: &IndexId| {
            let length = self.arena.out.indices[*index].extent.as_size();
            !mentioned.contains(index) && length.is_some_and(|length| self.facts().never_negative(length))
        };
        let (others, over): (Vec<IndexId>, Vec<IndexId>) = over.into_iter().partition(counts);
        let bounds = self.arena.bounded_by(&over);
        let (kept, others): (Vec<IndexId>, Vec<IndexId>) = others.into_iter().partition(|index| bounds.contains(index));
        let over: Vec<IndexId> = kept.into_iter().chain(over).collect();
        let value = match over.is_empty() {
            true => value,
            false => self.reduction(reducer("sum")?, Body { over, filter: None, value }, None, here)?,
        };
        Some(self.multiplied(value, &others, here))
    }

    /// Whether a condition says that a key of the elements is the value of an index around them.
    fn is_by_key(&self, condition: ExprId, over: &[IndexId]) -> bool {
        let Kind::Compare(CompareOp::Eq, a, b) = self.arena.out.exprs[condition].kind else { return false };
        let goes = |id: ExprId| self.arena.free(id).iter().any(|index| over.contains(index));
        let is_index = |id: ExprId| matches!(self.arena.out.exprs[id].kind, Kind::Index(_)) && !goes(id);
        is_index(a) && goes(b) || is_index(b) && goes(a)
    }

    /// The sum of a value over indices that nothing depends on.
    fn multiplied(&mut self, value: ExprId, over: &[IndexId], here: Here) -> ExprId {
        let count = over.iter().fold(Size::constant(1), |product, index| &product * &self.arena.length(*index));
        let dtype = self.arena.dtype(value);
        let factor = match count.as_constant() {
            Some(count) => self.float(count as f64, dtype, here),
            None => {
                let count = self.arena.size_node(count, here);
                self.arena.node(Kind::Cast(count), Type::scalar(dtype), here)
            }
        };
        self.times(value, factor, here)
    }

    /// The slope of a reduction in what is reduced, at its indices.
    pub(super) fn reduced_slope(
        &mut self,
        id: ExprId,
        monoid: Monoid,
        over: &[IndexId],
        body: ExprId,
        here: Here,
    ) -> Option<Slope> {
        match monoid {
            Monoid::Sum => Some(Slope::One),
            Monoid::Max => self.extreme_slope((id, Extreme::Greatest), over, body, here),
            Monoid::Min if sabotage::on(Bug::GreatestGets) => {
                self.extreme_slope((id, Extreme::Greatest), over, body, here)
            }
            Monoid::Min => self.extreme_slope((id, Extreme::Least), over, body, here),
            Monoid::Prod => self.factor_slope(id, over, body, here),
            Monoid::Any | Monoid::All => Some(Slope::Zero),
        }
    }

    /// The slope of a maximum in an element: 1 in the first one that is equal to it.
    fn extreme_slope(
        &mut self,
        (id, extreme): (ExprId, Extreme),
        over: &[IndexId],
        body: ExprId,
        here: Here,
    ) -> Option<Slope> {
        let Some(number) = self.row_major(over) else {
            self.not_derived(id, "a maximum over several indices that bound one another");
            return None;
        };
        let mut place = Place::new(BTreeMap::new(), here.guard, here);
        let own = self.copied_indices(over, &mut place)?;
        let element = self.copy(body, &mut place)?;
        let mine = self.number_node(&number, here);
        if own.len() == 1 {
            // Where there are no elements, no slope is asked for.
            let op = ReduceOp::Position(extreme);
            let order = match op.depends_on_order(self.arena.dtype(element)) {
                true => self.arena.order_of(element, own[0]),
                false => Order::Free,
            };
            let kind = Kind::Reduce { op, over: own, body: element, order, prefix: None, by: vec![] };
            let first = self.arena.node(kind, Type::scalar(Dtype::I64), here);
            return Some(Slope::Where(self.relation(CompareOp::Eq, mine, first, here)));
        }
        let theirs = self.copy(mine, &mut place)?;
        let equal = self.relation(CompareOp::Eq, element, id, here);
        let none = self.arena.constant(Scalar::I64(i64::MAX), here);
        let kind = Kind::If { condition: equal, then: theirs, otherwise: none };
        let numbers = self.arena.node(kind, Type::scalar(Dtype::I64), here);
        let first = self.reduction(reducer("min")?, Body { over: own, filter: None, value: numbers }, None, here)?;
        Some(Slope::Where(self.relation(CompareOp::Eq, mine, first, here)))
    }

    /// The slope of a product in a factor: the product of the others. Where no factor is 0 that is
    /// a quotient; where one is, only that one has a slope.
    fn factor_slope(&mut self, id: ExprId, over: &[IndexId], body: ExprId, here: Here) -> Option<Slope> {
        let dtype = self.arena.dtype(body);
        let (zero, one) = (self.zero_like(body, here), self.float(1.0, dtype, here));
        let mut both = vec![];
        for name in ["sum", "prod"] {
            let mut place = Place::new(BTreeMap::new(), here.guard, here);
            let own = self.copied_indices(over, &mut place)?;
            let element = self.copy(body, &mut place)?;
            let is_zero = self.relation(CompareOp::Eq, element, zero, here);
            let (then, otherwise) = if name == "sum" { (one, zero) } else { (one, element) };
            let kind = Kind::If { condition: is_zero, then, otherwise };
            let value = self.arena.node(kind, Type::scalar(dtype), here);
            let own = Body { over: own, filter: None, value };
            both.push(self.reduction(reducer(name)?, own, None, here)?);
        }
        let (zeros, others) = (both[0], both[1]);
        let none = self.relation(CompareOp::Eq, zeros, zero, here);
        let single = self.relation(CompareOp::Eq, zeros, one, here);
        let is_zero = self.relation(CompareOp::Eq, body, zero, here);
        let quotient = if sabotage::on(Bug::AllFactors) { id } else { self.over(id, body, here) };
        let rest = self.only_if(none, quotient, true, here);
        let alone = self.only_if(single, others, true, here);
        let kind = Kind::If { condition: is_zero, then: alone, otherwise: rest };
        Some(Slope::Times(self.arena.node(kind, Type::scalar(dtype), here)))
    }

    /// The row-major number of a setting of indices that run over a box.
    fn row_major(&self, over: &[IndexId]) -> Option<Affine<IndexId>> {
        if let [index] = over {
            return Some(Affine::index(*index));
        }
        let mut number = Affine::constant(0);
        for index in over {
            let length = self.arena.out.indices[*index].extent.as_size()?;
            number = number.scale(length).add(&Affine::index(*index));
        }
        Some(number)
    }
}

impl Reverse<'_, '_> {
    /// Gives the elements of a running sum their share: the sum of all later derivatives, as a
    /// running sum from the end.
    pub fn scanned(
        &mut self,
        id: ExprId,
        monoid: Monoid,
        prefix: Prefix,
        (along, body): (IndexId, ExprId),
        derivative: ExprId,
        context: &[IndexId],
    ) -> Option<()> {
        // Elements at other values of the index may be in no branch that depends on it.
        let within = self.here(id);
        let here = self.outside_of(|index| *index == prefix.of, within);
        let share = Share { of: Part::Whole, value: derivative, context: context.to_vec(), guard: within.guard };
        let derivative = self.leave(&share, derivative, &[prefix.of], here);
        match monoid {
            Monoid::Sum => {}
            Monoid::Max | Monoid::Min => {
                return self.led(&Running { id, monoid, prefix, along, body }, derivative, context, here);
            }
            Monoid::Prod => {
                return self.multiplied_up(&Running { id, monoid, prefix, along, body }, derivative, context, here);
            }
            Monoid::Any | Monoid::All => return Some(()),
        }
        let arena = &mut self.checker.arena;
        let Some(length) = arena.out.indices[prefix.of].extent.as_size().cloned() else {
            self.checker.not_derived(id, "a running sum along an index without a known end");
            return None;
        };
        let last = Affine::size(&length - &Size::constant(1));
        let name = arena.out.indices[along].name.clone();
        let reversed = arena.index(&name, Affine::size(length.clone()), here.span);
        let count = Affine::index(reversed).add(&Affine::constant(i64::from(prefix.inclusive)));
        let later = arena.index(&name, count, here.span);
        let from_end = last.sub(&Affine::index(later));
        let from_end = if sabotage::on(Bug::SumFromBegin) { Affine::index(later) } else { from_end };
        let value = self.checker.number_node(&from_end, here);
        let mut place = Place::new(BTreeMap::from([(prefix.of, value)]), here.guard, here);
        let element = self.checker.copy(derivative, &mut place)?;
        let kind = Kind::Reduce {
            op: ReduceOp::Monoid(Monoid::Sum),
            over: vec![later],
            body: element,
            order: Order::Scan,
            prefix: Some(Prefix { of: reversed, inclusive: prefix.inclusive }),
            by: vec![],
        };
        let ty = Type::scalar(self.checker.arena.dtype(element));
        let sum = self.checker.arena.node(kind, ty, here);
        let sums = self.checker.arena.comprehension(vec![reversed], sum, here);
        // The elements, each once.
        let count = match prefix.inclusive {
            true => length,
            false => &length - &Size::constant(1),
        };
        let each = self.checker.arena.index(&name, Affine::size(count), here.span);
        let node = self.checker.arena.index_node(each, here);
        let mut place = Place::new(BTreeMap::from([(along, node)]), here.guard, here);
        let body = self.checker.copy(body, &mut place)?;
        let value = self.checker.arena.element(sums, vec![last.sub(&Affine::index(each))], here);
        let mut inner: Vec<IndexId> = context.iter().copied().filter(|index| *index != prefix.of).collect();
        inner.push(each);
        self.share(body, Part::Whole, value, &inner, here.guard);
        Some(())
    }

    /// Gives the elements of a sorted array their share: that of the place where each has come to.
    pub fn sorted(
        &mut self,
        index: IndexId,
        body: ExprId,
        derivative: ExprId,
        inner: &[IndexId],
        here: Here,
    ) -> Option<()> {
        let mut place = Place::new(BTreeMap::new(), here.guard, here);
        let own = self.checker.copied_indices(&[index], &mut place)?;
        let element = self.checker.copy(body, &mut place)?;
        let length = self.checker.arena.length(index);
        let ty = Type { dtype: Dtype::I64, shape: vec![length.clone()] };
        let kind = Kind::Sort { index: [own[0]], body: element, result: Sorted::Numbers };
        let numbers = self.checker.arena.node(kind, ty, here);
        let at = self.checker.arena.index("p", Affine::size(length), here.span);
        let (came_to, from) = if sabotage::on(Bug::UnturnedSort) { (index, at) } else { (at, index) };
        let number = self.checker.arena.element(numbers, vec![Affine::index(came_to)], here);
        let value = self.checker.arena.element(derivative, vec![Affine::index(at)], here);
        let mine = self.checker.arena.index_node(from, here);
        let came = self.checker.relation(CompareOp::Eq, number, mine, here);
        let value = self.checker.sum(Body { over: vec![at], filter: Some(came), value }, here)?;
        self.share(body, Part::Whole, value, inner, here.guard);
        Some(())
    }
}
