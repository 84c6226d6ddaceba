//! Running maxima and minima: which element each of them is, and the shares and changes that
//! follow.
//!
//! An element leads from its place on if it goes beyond all before it. The leader at a place is the
//! last one that does so, which is a running maximum of numbers.

use std::collections::BTreeMap;

use ir::checked::{ExprId, IndexId, Kind, Prefix, Subscript, Type};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Monoid, Order, ReduceOp, Scalar, Size};

use super::super::Checker;
use super::super::arena::Here;
use super::super::reduce::Body;
use super::copy::Place;
use super::reverse::{Part, Reverse};

/// A running maximum, minimum or product.
pub(super) struct Running {
    /// The node.
    pub id: ExprId,
    pub monoid: Monoid,
    pub prefix: Prefix,
    /// The index that runs.
    pub along: IndexId,
    pub body: ExprId,
}

impl Running {
    /// The number of elements, for a number of places. The last one is at no place's end if these
    /// leave the element at their end out.
    pub fn elements(&self, places: &Size) -> Size {
        if self.prefix.inclusive { places.clone() } else { places - &Size::constant(1) }
    }
}

impl Checker<'_> {
    /// The number of places of a running reduction.
    pub(super) fn places_of(&mut self, running: &Running) -> Option<Size> {
        let length = self.arena.out.indices[running.prefix.of].extent.as_size().cloned();
        if length.is_none() {
            self.not_derived(running.id, "a running reduction along an index without a known end");
        }
        length
    }

    /// An index over places, and a value of the element with that number; another value where there
    /// is no such element.
    pub(super) fn element_or(
        &mut self,
        running: &Running,
        value: ExprId,
        (otherwise, places): (ExprId, &Size),
        here: Here,
    ) -> Option<(IndexId, ExprId)> {
        if running.prefix.inclusive {
            return self.at_each(value, running.along, places, here);
        }
        let name = self.arena.out.indices[running.along].name.clone();
        let index = self.arena.index(&name, Affine::size(places.clone()), here.span);
        let node = self.arena.index_node(index, here);
        let copy = |checker: &mut Self, inside: Here| {
            checker.copy(value, &mut Place::new(BTreeMap::from([(running.along, node)]), here.guard, inside))
        };
        Some((index, self.if_later((index, 1, places), copy, otherwise, here)?))
    }

    /// An index over elements, and a value at it.
    pub(super) fn at_each(
        &mut self,
        value: ExprId,
        of: IndexId,
        count: &Size,
        here: Here,
    ) -> Option<(IndexId, ExprId)> {
        let name = self.arena.out.indices[of].name.clone();
        let index = self.arena.index(&name, Affine::size(count.clone()), here.span);
        let node = self.arena.index_node(index, here);
        let value = self.copy(value, &mut Place::new(BTreeMap::from([(of, node)]), here.guard, here))?;
        Some((index, value))
    }

    /// A running reduction of an array up to the place of an index.
    pub(super) fn running(&mut self, array: ExprId, monoid: Monoid, prefix: Prefix, here: Here) -> ExprId {
        let end = Affine::index(prefix.of).add(&Affine::constant(i64::from(prefix.inclusive)));
        let index = self.arena.index("k", end, here.span);
        let body = self.arena.element(array, vec![Affine::index(index)], here);
        let ty = Type::scalar(self.arena.dtype(body));
        let op = ReduceOp::Monoid(monoid);
        let kind = Kind::Reduce { op, over: vec![index], body, order: Order::Scan, prefix: Some(prefix), by: vec![] };
        self.arena.node(kind, ty, here)
    }

    /// The number of the element that leads at the place of the prefix; -1 if there is none.
    fn leader(&mut self, running: &Running, count: &Size, here: Here) -> Option<ExprId> {
        let least = if running.monoid == Monoid::Max { f64::NEG_INFINITY } else { f64::INFINITY };
        let least = self.float(least, self.arena.dtype(running.body), here);
        let (index, element) = self.element_or(running, running.body, (least, count), here)?;
        let elements = self.arena.comprehension(vec![index], element, here);
        let own = self.arena.index("k", Affine::size(count.clone()), here.span);
        let before = self.running(elements, running.monoid, Prefix { of: own, inclusive: false }, here);
        let element = self.arena.element(elements, vec![Affine::index(own)], here);
        let beyond = if running.monoid == Monoid::Max { CompareOp::Gt } else { CompareOp::Lt };
        let condition = self.relation(beyond, element, before, here);
        let then = self.arena.index_node(own, here);
        let otherwise = self.arena.constant(Scalar::I64(-1), here);
        let kind = Kind::If { condition, then, otherwise };
        let number = self.arena.node(kind, Type::scalar(Dtype::I64), here);
        let numbers = self.arena.comprehension(vec![own], number, here);
        Some(self.running(numbers, Monoid::Max, running.prefix, here))
    }

    /// The change of a running maximum for the changes of its elements: that of the leader.
    pub(super) fn led(&mut self, running: &Running, change: ExprId, here: Here) -> Option<ExprId> {
        let count = self.places_of(running)?;
        let leader = self.leader(running, &count, here)?;
        let zero = self.zero_like(change, here);
        let (index, change) = self.element_or(running, change, (zero, &count), here)?;
        let changes = self.arena.comprehension(vec![index], change, here);
        // A 0 comes before the changes, for places without a leader.
        let own = self.arena.index("k", Affine::size(&count + &Size::constant(1)), here.span);
        let (node, one) = (self.arena.index_node(own, here), self.arena.constant(Scalar::I64(1), here));
        let i64s = Type::scalar(Dtype::I64);
        let before = self.arena.node(Kind::Binary(BinaryOp::Sub, node, one), i64s.clone(), here);
        let mine = self.arena.index("k", Affine::size(count), here.span);
        let at = self.arena.index_node(mine, here);
        let same = self.relation(CompareOp::Eq, at, before, here);
        let value = self.arena.element(changes, vec![Affine::index(mine)], here);
        let value = self.sum(Body { over: vec![mine], filter: Some(same), value }, here)?;
        let shifted = self.arena.comprehension(vec![own], value, here);
        // Before the first element there are not even leaders that are none.
        let none = self.arena.constant(Scalar::I64(-1), here);
        let leader = self.arena.node(Kind::Binary(BinaryOp::Max, leader, none), i64s.clone(), here);
        let at = self.arena.node(Kind::Binary(BinaryOp::Add, leader, one), i64s, here);
        let ty = Type::scalar(self.arena.dtype(shifted));
        // The number of a leader is inside.
        let at = vec![Subscript { value: at, affine: None, check: None }];
        Some(self.arena.node(Kind::Access { array: shifted, at }, ty, here))
    }
}

impl Reverse<'_, '_> {
    /// Gives the elements of a running maximum their share: that of all places where each leads.
    pub fn led(&mut self, running: &Running, derivative: ExprId, context: &[IndexId], here: Here) -> Option<()> {
        let count = self.checker.places_of(running)?;
        let leader = self.checker.leader(running, &count, here)?;
        let (each, body) = self.checker.at_each(running.body, running.along, &running.elements(&count), here)?;
        let name = self.checker.arena.out.indices[running.prefix.of].name.clone();
        let place = self.checker.arena.index(&name, Affine::size(count), here.span);
        let node = self.checker.arena.index_node(place, here);
        let mut at = Place::new(BTreeMap::from([(running.prefix.of, node)]), here.guard, here);
        let (leader, value) = (self.checker.copy(leader, &mut at)?, self.checker.copy(derivative, &mut at)?);
        let mine = self.checker.arena.index_node(each, here);
        let leads = self.checker.relation(CompareOp::Eq, leader, mine, here);
        let value = self.checker.sum(Body { over: vec![place], filter: Some(leads), value }, here)?;
        let mut inner: Vec<IndexId> = context.iter().copied().filter(|index| *index != running.prefix.of).collect();
        inner.push(each);
        self.share(body, Part::Whole, value, &inner, here.guard);
        Some(())
    }
}
