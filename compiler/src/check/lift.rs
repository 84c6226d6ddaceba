//! Scalar operations over arrays: axes are matched from the last backwards; sizes must be equal, or
//! one operand lacks the axis or has a literal 1 there. The operation is written out as a
//! comprehension.

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{ExprId, IndexId};
use ir::sabotage::{self, Bug};
use ir::{Affine, Size};

use super::arena::{Arena, Here};
use super::{Checker, MAX_RANK, Side, codes};

impl Checker<'_> {
    /// Applies a scalar operation to operands of any ranks.
    pub(super) fn lift(
        &mut self,
        operands: &[ExprId],
        here: Here,
        operation: impl FnOnce(&mut Arena, &[ExprId]) -> ExprId,
    ) -> Option<ExprId> {
        let indices = self.lifted_indices(operands, here.span)?;
        if indices.is_empty() {
            return Some(operation(&mut self.arena, operands));
        }
        let elements: Vec<_> = operands.iter().map(|a| self.arena.lifted_element(*a, &indices, here)).collect();
        let body = operation(&mut self.arena, &elements);
        Some(self.arena.comprehension(indices, body, here))
    }

    /// An index for each axis of the shape that operands have together.
    pub(super) fn lifted_indices(&mut self, operands: &[ExprId], span: Span) -> Option<Vec<IndexId>> {
        let shape = self.broadcast(operands, span)?;
        self.check_rank(shape.len(), span)?;
        Some(self.arena.axis_indices(&shape, span))
    }

    pub(super) fn check_rank(&mut self, rank: usize, span: Span) -> Option<()> {
        if rank > MAX_RANK {
            let message = format!("an array of {rank} axes: the limit is {MAX_RANK}");
            self.report.error(Diagnostic::new(codes::TOO_MANY_AXES, span, message));
            return None;
        }
        Some(())
    }

    fn broadcast(&mut self, operands: &[ExprId], span: Span) -> Option<Vec<Size>> {
        let rank = operands.iter().map(|a| self.arena.ty(*a).shape.len()).max().unwrap_or(0);
        let mut shape = vec![];
        for axis in 0..rank {
            let mut agreed: Option<Side> = None;
            for operand in operands {
                let own = &self.arena.ty(*operand).shape;
                let Some(own_axis) = (axis + own.len()).checked_sub(rank) else { continue };
                let side = Side::new(&own[own_axis], format!("axis {own_axis} of {}", self.arena.describe(*operand)));
                agreed = Some(match agreed {
                    None => side,
                    Some(other) if other.size.as_constant() == Some(1) => side,
                    Some(other) if side.size.as_constant() == Some(1) => other,
                    Some(other) => {
                        let is = other.is.clone();
                        Side { size: self.unify(other, side, span)?, is }
                    }
                });
            }
            shape.push(agreed.map_or(Size::constant(1), |side| side.size));
        }
        Some(shape)
    }
}

impl Arena {
    /// The element of an operand at the indices of the shape that it is lifted to.
    pub(super) fn lifted_element(&mut self, operand: ExprId, indices: &[IndexId], here: Here) -> ExprId {
        let shape = self.ty(operand).shape.clone();
        let own = &indices[indices.len() - shape.len()..];
        let stretched = |k: usize| shape[k].as_constant() == Some(1) && !sabotage::on(Bug::StretchedAxis);
        let at =
            own.iter().enumerate().map(|(k, i)| if stretched(k) { Affine::constant(0) } else { Affine::index(*i) });
        self.element(operand, at.collect(), here)
    }
}
