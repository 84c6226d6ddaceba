//! `argmax` and `argmin`. Beyond what other reducers need, there must be an element, and each must have a number.
//!
//! That there is one is settled like a subscript (`bounds`): an index that runs to `e` needs the element `e - 1`. Where it has to
//! be checked as the program runs, the check is a term that is added to the place and is always zero.

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{ExprId, Extent, IndexId, Kind, Type};
use ir::nest::{Purpose, Relation, Requirement};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Extreme, Monoid, Order, ReduceOp, Scalar, Size};

use super::{Checker, codes, origin};

/// The place of a greatest or least element, as it was first written out.
pub(super) struct Position {
    /// The sum of the place and the checks.
    value: ExprId,
    /// The reduction that gives the place.
    reduce: ExprId,
    /// The checks, each an access to an array of zeros.
    checks: Vec<ExprId>,
}

/// An index that must have a value, whose end was not known when its reducer was written out.
pub(super) struct Wanted {
    op: ReduceOp,
    index: IndexId,
    span: Span,
}

impl Checker<'_> {
    /// Whether one of some indices bounds another.
    pub(super) fn bound_one_another(&self, over: &[IndexId]) -> bool {
        over.iter().any(|i| match &self.out.indices[*i].extent {
            Extent::Affine(extent) => extent.terms().iter().any(|(j, _)| over.contains(j)),
            Extent::Dynamic(e) => self.free(*e).iter().any(|j| over.contains(j)),
        })
    }

    /// A place, with what makes sure that there is one.
    pub(super) fn position(&mut self, op: ReduceOp, reduce: ExprId, over: &[IndexId], span: Span) -> Option<ExprId> {
        let mut checks = vec![];
        for index in over {
            if self.unsolved.contains(index) {
                self.wanted.push(Wanted { op, index: *index, span });
                continue;
            }
            let count = match self.out.indices[*index].extent.clone() {
                Extent::Affine(n) if n.as_size().and_then(Size::as_constant).is_some_and(|n| n > 0) => continue,
                Extent::Affine(extent) => self.affine_node(&extent, span),
                Extent::Dynamic(count) => count,
            };
            checks.push(self.element_of(op, count, span)?);
        }
        self.with_checks(reduce, checks, span)
    }

    /// Zero, by way of an access that is inside if a count is at least 1.
    fn element_of(&mut self, op: ReduceOp, count: ExprId, span: Span) -> Option<ExprId> {
        let (zero, one) = (self.constant(Scalar::I64(0), span), self.constant(Scalar::I64(1), span));
        let index = self.index("k", Affine::constant(1), span);
        let zeros = self.comprehension(vec![index], zero, span);
        let some = self.binary(BinaryOp::Min, count, one, span)?;
        let at = self.binary(BinaryOp::Sub, some, one, span)?;
        let last = self.binary(BinaryOp::Sub, count, one, span)?;
        Some(self.wanted_element(zeros, at, last, op, span))
    }

    fn with_checks(&mut self, reduce: ExprId, checks: Vec<ExprId>, span: Span) -> Option<ExprId> {
        let mut value = reduce;
        for check in &checks {
            value = self.binary(BinaryOp::Add, value, *check, span)?;
        }
        if !checks.is_empty() {
            self.positions.push(Position { value, reduce, checks });
        }
        Some(value)
    }

    /// The place among elements whose indices bound one another: the row-major number in the smallest box around them. It is
    /// the least number of an element that is as great as the greatest, so the body is written out twice, over indices
    /// of its own each time.
    pub(super) fn ragged_position(
        &mut self,
        extreme: Extreme,
        first: (Vec<IndexId>, ExprId),
        second: (Vec<IndexId>, ExprId),
        span: Span,
    ) -> Option<ExprId> {
        let op = ReduceOp::Position(extreme);
        let mut number = Affine::constant(0);
        for (k, index) in second.0.iter().enumerate() {
            let length = match &self.out.indices[*index].extent {
                Extent::Affine(extent) if !self.unsolved.contains(index) => self.corner(extent, true),
                Extent::Affine(_) | Extent::Dynamic(_) => None,
            };
            // The first length takes no part in the number.
            let Some(length) = length.or_else(|| (k == 0).then(Size::default)) else {
                let name = &self.out.indices[*index].name;
                let message =
                    format!("`{op}` has no number for its elements: how far `{name}` runs is no size known here");
                let help =
                    format!("bound `{name}` by a size, and choose in the body: `if {name} < e then ... else -inf`");
                self.error(Diagnostic::new(codes::NO_NUMBER, span, message).help(help));
                return None;
            };
            number = number.scale(&length).add(&Affine::index(*index));
        }
        let ((over, element), (again, body)) = (first, second);
        let (element, body) = (self.widened(element, span), self.widened(body, span));
        let dtype = self.dtype(body);
        let reduce = |monoid, over, body| {
            let op = ReduceOp::Monoid(monoid);
            Kind::Reduce { op, over, body, order: Order::Free, prefix: None }
        };
        let extreme = self.node(reduce(extreme.monoid(), over, element), Type::scalar(dtype), span);
        let mut leads = self.compare(CompareOp::Eq, body, extreme, span)?;
        if dtype.is_float() {
            let nan = self.compare(CompareOp::Ne, body, body, span)?;
            leads = self.binary(BinaryOp::Or, leads, nan, span)?;
        }
        let (number, none) = (self.affine_node(&number, span), self.constant(Scalar::I64(i64::MAX), span));
        let i64s = Type::scalar(Dtype::I64);
        let own = self.node(Kind::If { condition: leads, then: number, otherwise: none }, i64s.clone(), span);
        let place = self.node(reduce(Monoid::Min, again, own), i64s, span);
        let room = self.binary(BinaryOp::Sub, none, place, span)?;
        let check = self.element_of(op, room, span)?;
        self.with_checks(place, vec![check], span)
    }

    /// What is proved by now needs no check; what waited for its end becomes a requirement.
    pub(super) fn finish_positions(&mut self) {
        for Position { value, reduce, checks } in std::mem::take(&mut self.positions) {
            let checked = |id: &ExprId| match &self.out.exprs[*id].kind {
                Kind::Access { at, .. } => at.iter().any(|s| s.check.is_some()),
                _ => false,
            };
            if !checks.iter().any(checked) {
                let kind = std::mem::replace(&mut self.out.exprs[reduce].kind, Kind::Constant(Scalar::I64(0)));
                self.out.exprs[value].kind = kind;
            }
        }
        for Wanted { op, index, span } in std::mem::take(&mut self.wanted) {
            let Extent::Affine(extent) = &self.out.indices[index].extent else { continue };
            match extent.as_size().cloned() {
                Some(extent) => self.want_element(op, &extent, vec![], span),
                None => continue,
            }
        }
    }

    /// Requires an extent to be at least 1.
    pub(super) fn want_element(&mut self, op: ReduceOp, extent: &Size, unless_empty: Vec<Size>, span: Span) {
        match extent.as_constant() {
            Some(n) if n > 0 => {}
            Some(_) => self.no_element(op, "", span),
            None if sabotage::on(Bug::ElementsUnasked) => {}
            None => self.require(Requirement {
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

    /// Reports that there is no element, where `at` some index.
    pub(super) fn no_element(&mut self, op: ReduceOp, at: &str, span: Span) {
        let message = format!("{at}`{op}` of no element has no answer");
        let help = format!("make sure that there is one: `if ... then {op}[...](...) else -1`");
        self.error(Diagnostic::new(codes::EMPTY_REDUCTION, span, message).help(help));
    }
}
