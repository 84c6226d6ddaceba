//! Tiles of elements that are masked, as those behind the diagonal of causal attention. Their
//! statements need not run if they come to nothing: no reduction changes, and weights are 0. That
//! can depend on data (the exponential of a masked score is 0 unless the maximum of the row is
//! infinite, for instance), so each warp looks at its rows before a sweep.

use ir::nest::IndexId;
use ir::sched::{Bound, Mask, Weighted};
use ir::{Affine, CompareOp};

use super::elements::Kept;
use super::{AT_ONCE, Multiplying, OF_WARP, Running, ThreadRow};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::fold::MergingCode;
use crate::ptx::inst::{Class, Comparison, Opcode, Reg, Rounding, Type};

/// The corners of a tile of elements: its first and last row and column.
struct Corners {
    rows: [Reg; 2],
    columns: [Reg; 2],
}

impl Emitter<'_> {
    /// Whether a masked element comes to nothing, in all rows of the warp. `None` if that is not
    /// known of its reductions.
    pub(super) fn comes_to_nothing(
        &mut self,
        state: &Multiplying<'_, '_>,
        mask: &Mask<'_>,
        running: &[Running<'_>],
        weighted: Option<&Weighted<'_>>,
        rows: &[ThreadRow; 2],
    ) -> Option<Reg> {
        let mut something = self.b().mov(Type::Pred, state.never);
        for row in rows {
            self.enter_row(state.code, row);
            let fill = self.value(mask.fill);
            self.define(mask.masked, fill);
            self.element(&mask.elements, &mut Kept::default(), None);
            let mut counts = vec![];
            for Running { reduction, merging, .. } in running {
                let [input] = reduction.inputs.as_slice() else { return None };
                let zero = self.int(0);
                let (value, nothing) = (self.input(*input, zero), merging.nothing(self));
                counts.push((value, *nothing.first()?));
            }
            if let Some(weighted) = weighted {
                counts.push((self.value(weighted.weight), self.b().mov(Type::B16, 0)));
            }
            for (value, nothing) in counts {
                let ty = match self.b().class(value) {
                    Class::B64 => Type::B64,
                    _ => Type::B32,
                };
                let [value, nothing] = [value, nothing].map(|reg| match self.b().class(reg) {
                    Class::B16 => self.b().convert(Rounding::Exact, Type::U32, Type::U16, reg),
                    _ => reg,
                });
                let differs = self.b().set(Comparison::Ne, ty, value, nothing);
                let differs = self.b().op2(Opcode::And, Type::Pred, differs, row.valid);
                something = self.b().op2(Opcode::Or, Type::Pred, something, differs);
            }
        }
        let something = self.b().any(something);
        Some(self.b().op(Opcode::Not, Type::Pred, &[something.into()]))
    }

    /// Whether all elements of the warp are masked, from a column on.
    pub(super) fn is_masked(
        &mut self,
        state: &Multiplying<'_, '_>,
        mask: &Mask<'_>,
        column: Reg,
        row: &ThreadRow,
    ) -> Reg {
        let first = self.b().op2(Opcode::Sub, Type::S64, row.number, state.row);
        let last = self.b().op2(Opcode::Add, Type::S64, first, OF_WARP - 1);
        let last_column = self.b().op2(Opcode::Add, Type::S64, column, AT_ONCE - 1);
        let corners = Corners { rows: [first, last], columns: [column, last_column] };
        let mut masked = state.never;
        for (op, left, right) in &mask.comparisons {
            // The sides are as close to the comparison as they come.
            let (most, never) = match op {
                CompareOp::Lt => (false, Comparison::Ge),
                CompareOp::Le => (false, Comparison::Gt),
                CompareOp::Gt => (true, Comparison::Le),
                CompareOp::Ge => (true, Comparison::Lt),
                CompareOp::Eq | CompareOp::Ne => continue,
            };
            let left = self.extreme(state, *left, &corners, most);
            let right = self.extreme(state, *right, &corners, !most);
            let never = self.b().set(never, Type::S64, left, right);
            masked = self.b().op2(Opcode::Or, Type::Pred, masked, never);
        }
        masked
    }

    /// The greatest value of a side in a tile, or the least.
    fn extreme(&mut self, state: &Multiplying<'_, '_>, bound: Bound<'_>, corners: &Corners, most: bool) -> Reg {
        let affine = match bound {
            Bound::Affine(affine) => affine,
            Bound::Value(value) => return self.value(value),
        };
        let sweeps = &state.code.sweeps;
        let corner = |affine: &Affine<IndexId>, index: IndexId, [first, last]: [Reg; 2]| {
            let grows = affine.coefficient(index).as_constant().is_some_and(|by| by > 0);
            if grows == most { last } else { first }
        };
        self.bind(sweeps.rows.index, corner(affine, sweeps.rows.index, corners.rows));
        for index in &sweeps.columns.indices {
            self.bind(*index, corner(affine, *index, corners.columns));
        }
        self.affine(affine)
    }
}
