//! `argmax` and `argmin`. Beyond what other reducers need, there must be an element, and each must
//! have a number.
//!
//! That there is one is settled like a subscript (`bounds`): an index that runs to `e` needs the
//! element `e - 1`. Where it has to be checked as the program runs, the check is a term that is
//! added to the position and is always zero.

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{ExprId, Extent, IndexId, Kind, Type};
use ir::nest::{Purpose, Relation, Requirement};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Extreme, Monoid, Order, ReduceOp, Scalar, Size};

use super::arena::{Arena, Here};
use super::finish::{Position, Wanted};
use super::reduce::Body;
use super::report::Report;
use super::requirements::Requirements;
use super::{Checker, codes, origin};

impl Checker<'_> {
    /// A position, with the checks that there is one.
    pub(super) fn position(&mut self, op: ReduceOp, reduce: ExprId, over: &[IndexId], here: Here) -> Option<ExprId> {
        let mut checks = vec![];
        for index in over {
            if self.arena.ends.unsolved.contains(index) {
                self.unfinished.wanted.push(Wanted { op, index: *index, span: here.span });
                continue;
            }
            let count = match self.arena.out.indices[*index].extent.clone() {
                Extent::Affine(n) if n.as_size().and_then(Size::as_constant).is_some_and(|n| n > 0) => continue,
                Extent::Affine(extent) => self.arena.affine_node(&extent, here),
                Extent::Dynamic(count) => count,
            };
            checks.push(self.element_of(op, count, here)?);
        }
        self.with_checks(reduce, checks, here)
    }

    /// Zero, by way of an access that is inside if a count is at least 1.
    fn element_of(&mut self, op: ReduceOp, count: ExprId, here: Here) -> Option<ExprId> {
        let (zero, one) = (self.arena.constant(Scalar::I64(0), here), self.arena.constant(Scalar::I64(1), here));
        let index = self.arena.index("k", Affine::constant(1), here.span);
        let zeros = self.arena.comprehension(vec![index], zero, here);
        let some = self.binary(BinaryOp::Min, count, one, here)?;
        let at = self.binary(BinaryOp::Sub, some, one, here)?;
        let last = self.binary(BinaryOp::Sub, count, one, here)?;
        Some(self.wanted_element(zeros, at, last, op, here))
    }

    fn with_checks(&mut self, reduce: ExprId, checks: Vec<ExprId>, here: Here) -> Option<ExprId> {
        let mut value = reduce;
        for check in &checks {
            value = self.binary(BinaryOp::Add, value, *check, here)?;
        }
        if !checks.is_empty() {
            self.unfinished.positions.push(Position { value, reduce, checks });
        }
        Some(value)
    }

    /// The place among elements with indices that bound one another or that a condition selects:
    /// the value of the index, of several their row-major number in the smallest box around them.
    /// It is the least number of an element that is as great as the greatest, so the body is
    /// written out twice, over indices of its own each time.
    pub(super) fn ragged_position(&mut self, extreme: Extreme, body: Body, again: Body, here: Here) -> Option<ExprId> {
        let op = ReduceOp::Position(extreme);
        let number = self.number_of(op, &again, here)?;
        let first = self.arena.widened(body.value, here);
        let first = self.selected(body.filter, first, extreme.monoid(), here);
        let second = self.arena.widened(again.value, here);
        let dtype = self.arena.dtype(second);
        let reduce = |monoid, over, body| {
            let op = ReduceOp::Monoid(monoid);
            Kind::Reduce { op, over, body, order: Order::Free, prefix: None, by: vec![] }
        };
        let extreme = self.arena.node(reduce(extreme.monoid(), body.over, first), Type::scalar(dtype), here);
        let mut leads = self.compare(CompareOp::Eq, second, extreme, here)?;
        if dtype.is_float() {
            let nan = self.compare(CompareOp::Ne, second, second, here)?;
            leads = self.binary(BinaryOp::Or, leads, nan, here)?;
        }
        let none = self.arena.constant(Scalar::I64(i64::MAX), here);
        let i64s = Type::scalar(Dtype::I64);
        let own = self.arena.node(Kind::If { condition: leads, then: number, otherwise: none }, i64s.clone(), here);
        let own = self.selected(again.filter, own, Monoid::Min, here);
        let place = self.arena.node(reduce(Monoid::Min, again.over, own), i64s, here);
        if again.filter.is_some() {
            self.unfinished.keyed.extend([extreme, place]);
        }
        let room = self.binary(BinaryOp::Sub, none, place, here)?;
        let check = self.element_of(op, room, here)?;
        self.with_checks(place, vec![check], here)
    }

    /// The number of an element of a body, as an `i64`.
    fn number_of(&mut self, op: ReduceOp, body: &Body, here: Here) -> Option<ExprId> {
        if let [index] = body.over.as_slice() {
            let number = self.arena.index_node(*index, here);
            return match self.first_value(&body.over) {
                Some(first) => self.binary(BinaryOp::Add, first, number, here),
                None => Some(number),
            };
        }
        let mut number = Affine::constant(0);
        for (k, index) in body.over.iter().enumerate() {
            let length = match &self.arena.out.indices[*index].extent {
                Extent::Affine(extent) if !self.arena.ends.unsolved.contains(index) => {
                    self.facts().corner(extent, true)
                }
                Extent::Affine(_) | Extent::Dynamic(_) => None,
            };
            // The first length takes no part in the number.
            let Some(length) = length.or_else(|| (k == 0).then(Size::default)) else {
                let name = &self.arena.out.indices[*index].name;
                let message =
                    format!("`{op}` has no number for its elements: how far `{name}` runs is no size known here");
                let help =
                    format!("bound `{name}` by a size, and choose in the body: `if {name} < e then ... else -inf`");
                self.report.error(Diagnostic::new(codes::NO_NUMBER, here.span, message).help(help));
                return None;
            };
            number = number.scale(&length).add(&Affine::index(*index));
        }
        Some(self.arena.affine_node(&number, here))
    }
}

impl Arena {
    /// Whether one of some indices bounds another.
    pub fn bound_one_another(&self, over: &[IndexId]) -> bool {
        over.iter().any(|i| match &self.out.indices[*i].extent {
            Extent::Affine(extent) => extent.terms().iter().any(|(j, _)| over.contains(j)),
            Extent::Dynamic(e) => self.free(*e).iter().any(|j| over.contains(j)),
        })
    }
}

/// Requires an extent to be at least 1; reports an error if it never is.
pub(super) fn require_element(
    requirements: &mut Requirements,
    report: &mut Report<'_>,
    op: ReduceOp,
    extent: &Size,
    unless_empty: Vec<Size>,
    span: Span,
) {
    match extent.as_constant() {
        Some(n) if n > 0 => {}
        Some(_) => report.error(no_element(op, "", span)),
        None if sabotage::on(Bug::ElementsUnasked) => {}
        None => requirements.require(Requirement {
            left: Size::constant(1),
            relation: Relation::AtMost,
            right: extent.clone(),
            unless_empty,
            left_is: "one".into(),
            right_is: format!("the number of elements that `{op}` looks at"),
            purpose: Purpose::Elements,
            origin: origin(span),
        }),
    }
}

/// The error that there is no element, where `at` some index.
pub(super) fn no_element(op: ReduceOp, at: &str, span: Span) -> Diagnostic {
    let message = format!("{at}`{op}` of no element has no answer");
    let help = format!("make sure that there is one: `if ... then {op}[...](...) else -1`");
    Diagnostic::new(codes::EMPTY_REDUCTION, span, message).help(help)
}
