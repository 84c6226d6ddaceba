//! Recurrences: `let rec y[t < n] = e`, arrays that refer to earlier elements of themselves.

use grammar::Diagnostic;
use grammar::ast::Equation;
use ir::checked::{ExprId, GuardId};

use super::{Checker, codes};

impl Checker<'_> {
    /// The arrays of a recurrence.
    pub(super) fn recurrence(&mut self, equations: &[Equation], _guard: GuardId) -> Option<Vec<ExprId>> {
        let span = equations.first()?.name.span;
        let message = "recurrences are not compiled yet";
        self.report.error(Diagnostic::new(codes::NOT_EARLIER, span, message));
        None
    }
}
