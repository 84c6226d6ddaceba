//! Last steps over a whole function, when all ends and proofs are known.

use ir::checked::{Checked, ExprId, Extent, IndexId, Kind};
use ir::{BinaryOp, Scalar};

use super::Checker;

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
        self.finish_positions();
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
}
