//! Conditions that the signature of a function states: `fn f(x: f32[n], y: f32[m]) where n == m`.
//!
//! Each is required of the call before anything runs, so that the proofs in the body may rely on
//! it. Of a called function it is decided by the sizes of the call, or required of the outer one.

use grammar::Diagnostic;
use grammar::ast::{self, BinaryOp, ExprKind};
use ir::Size;
use ir::checked::GuardId;
use ir::nest::{Purpose, Relation, Requirement};

use super::{Checker, codes, origin};

impl<'a> Checker<'a> {
    /// Requires the condition of a function, if it states one.
    pub(super) fn stated(&mut self, function: &'a ast::Function, guard: GuardId) -> Option<()> {
        let mut pending: Vec<ast::ExprId> = function.condition.into_iter().collect();
        while let Some(id) = pending.pop() {
            match self.ast(id).kind {
                ExprKind::Binary(BinaryOp::And, left, right) => pending.extend([right, left]),
                ExprKind::Binary(op, left, right) if let Some((relation, more)) = relation(op) => {
                    let ((left, from_left), (right, from_right)) =
                        (self.compared(function, left, guard)?, self.compared(function, right, guard)?);
                    // Nothing is subtracted that can be added to the other side.
                    let (left, right) = (&left + &from_right, &right + &from_left);
                    let more = Size::constant(i64::from(more));
                    let (left, right) = match op {
                        BinaryOp::Gt | BinaryOp::Ge => (&right + &more, left),
                        _ => (&left + &more, right),
                    };
                    self.state(id, left, relation, right)?;
                }
                _ => {
                    self.not_checkable(id);
                    return None;
                }
            }
        }
        Some(())
    }

    /// One side of a comparison, and what is subtracted from it. `a % k` is what is left of the
    /// division of sizes, which rounds down.
    fn compared(&mut self, function: &ast::Function, id: ast::ExprId, guard: GuardId) -> Option<(Size, Size)> {
        if let ExprKind::Binary(BinaryOp::Rem, dividend, divisor) = self.ast(id).kind
            && let Some(divisor) = self.plain_size(divisor).filter(|d| d.as_constant().is_some_and(|d| d > 0))
        {
            let (dividend, _) = self.compared(function, dividend, guard)?;
            let multiple = &dividend.floor_div(&divisor) * &divisor;
            return Some((dividend, multiple));
        }
        if let Some(size) = self.plain_size(id) {
            return Some((size, Size::constant(0)));
        }
        let is_param = |name: &str| function.params.iter().any(|param| param.name.text == name);
        match self.unbound(id) {
            Some((name, _)) if !is_param(name) => drop(self.size(id, guard)),
            _ => self.not_checkable(id),
        }
        None
    }

    fn not_checkable(&mut self, id: ast::ExprId) {
        let message = "this cannot be checked before the function runs";
        let error = Diagnostic::new(codes::STATED, self.ast(id).span, message);
        let help = "compare sizes and integer parameters by `==`, `<`, `<=`, `>` or `>=`, and join comparisons by `&&`";
        self.report.error(error.help(help));
    }

    fn state(&mut self, id: ast::ExprId, left: Size, relation: Relation, right: Size) -> Option<()> {
        let span = self.ast(id).span;
        let holds = (&right - &left).as_constant().map(|room| match relation {
            Relation::Equal => room == 0,
            Relation::AtMost => room >= 0,
        });
        let (left_is, right_is) = (self.arena.show(&left), self.arena.show(&right));
        if holds == Some(false) {
            let message = match relation {
                Relation::Equal => format!("this condition does not hold: {left_is} is not {right_is}"),
                Relation::AtMost => format!("this condition does not hold: {left_is} is more than {right_is}"),
            };
            self.report.error(Diagnostic::new(codes::STATED, span, message));
            return None;
        }
        if holds.is_none() {
            self.requirements.require(Requirement {
                left,
                relation,
                right,
                unless_empty: vec![],
                left_is: format!("`{left_is}`"),
                right_is: format!("`{right_is}`"),
                purpose: Purpose::Stated,
                origin: origin(span),
            });
        }
        Some(())
    }
}

/// How the sides of a comparison must compare, and whether one of them must be greater by 1.
fn relation(op: BinaryOp) -> Option<(Relation, bool)> {
    Some(match op {
        BinaryOp::Eq => (Relation::Equal, false),
        BinaryOp::Le | BinaryOp::Ge => (Relation::AtMost, false),
        BinaryOp::Lt | BinaryOp::Gt => (Relation::AtMost, true),
        _ => return None,
    })
}
