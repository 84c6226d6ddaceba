//! Last steps over a whole function, when all ends and proofs are known.

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{Checked, ExprId, Extent, IndexId, Kind};
use ir::nest::{Purpose, Relation, Requirement};
use ir::{BinaryOp, ReduceOp, Scalar, Size};

use super::{Checker, codes};

impl Checker<'_> {
    /// Last steps over the whole function, when all bounds are known.
    pub(super) fn finish(&mut self) {
        for (id, guard) in std::mem::take(&mut self.short_circuits) {
            if self.branches[guard].needed {
                continue;
            }
            if let Kind::If { condition, then, otherwise } = self.out.exprs[id].kind {
                let and = matches!(self.out.exprs[otherwise].kind, Kind::Constant(Scalar::Bool(false)));
                let (op, right) = if and { (BinaryOp::And, then) } else { (BinaryOp::Or, otherwise) };
                self.out.exprs[id].kind = Kind::Binary(op, condition, right);
            }
        }
        for id in std::mem::take(&mut self.contractions) {
            let Kind::Reduce { over, body, .. } = &self.out.exprs[id].kind else { continue };
            let rectangular = |i: &IndexId| match &self.out.indices[*i].extent {
                Extent::Affine(extent) => extent.as_size().is_some(),
                Extent::Dynamic(_) => false,
            };
            if let (true, Kind::Binary(_, left, right)) = (over.iter().all(rectangular), &self.out.exprs[*body].kind) {
                let (over, left, right) = (over.clone(), *left, *right);
                self.out.exprs[id].kind = Kind::Contract { over, left, right };
            }
        }
        self.require_elements();
        // Only branches that protect an access stay.
        let ids: Vec<ExprId> = self.out.exprs.keys().collect();
        for id in ids {
            let mut guard = self.out.exprs[id].guard;
            while guard != Checked::TOP && !self.branches[guard].needed {
                guard = self.out.guards[guard];
            }
            self.out.exprs[id].guard = guard;
        }
    }

    /// `argmax` and `argmin` of nothing have no answer: the call must bring an element.
    fn require_elements(&mut self) {
        let mut wanted = vec![];
        for expr in self.out.exprs.values() {
            let Kind::Reduce { op: op @ (ReduceOp::ArgMax | ReduceOp::ArgMin), over, prefix: None, .. } = &expr.kind
            else {
                continue;
            };
            for index in over {
                if let Extent::Affine(extent) = &self.out.indices[*index].extent
                    && let Some(extent) = extent.as_size().filter(|s| s.as_constant().is_none_or(|c| c < 1))
                {
                    wanted.push((*op, extent.clone(), expr.origin));
                }
            }
        }
        for (op, extent, origin) in wanted {
            if extent.as_constant().is_some() {
                let span = Span { start: origin.start, end: origin.end };
                let message = format!("`{op}` of no element has no answer");
                self.error(Diagnostic::new(codes::EMPTY_REDUCTION, span, message));
                continue;
            }
            self.require(Requirement {
                left: Size::constant(1),
                relation: Relation::AtMost,
                right: extent,
                unless_empty: vec![],
                left_is: "one".into(),
                right_is: format!("the number of elements that `{op}` looks at"),
                purpose: Purpose::Elements,
                origin,
            });
        }
    }
}
