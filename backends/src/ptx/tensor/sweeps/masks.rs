//! Tiles of elements that are masked, as those behind the diagonal of causal attention. Their
//! statements need not run if they come to nothing: no reduction changes, and weights are 0. That
//! can depend on data (the exponential of a masked score is 0 unless the maximum of the row is
//! infinite, for instance), so each warp looks at its rows before a sweep.

use ir::nest::IndexId;
use ir::sched::{Bound, Mask, Weighted};
use ir::{Affine, CompareOp};

use super::elements::Kept;
use super::{InSweeps, Multiplying, Running, ThreadRow};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::fold::MergingCode;
use crate::ptx::inst::{Class, Comparison, Opcode, Reg, Rounding, Type};

/// The corners of a tile of elements: its first and last row and column.
pub(super) struct Corners {
    rows: [Reg; 2],
    columns: [Reg; 2],
}

impl Corners {
    /// Those of a tile with a first row and column, and some of each.
    pub(super) fn of(e: &mut Emitter<'_>, [row, column]: [Reg; 2], [rows, columns]: [i64; 2]) -> Corners {
        let [last_row, last_column] =
            [(row, rows), (column, columns)].map(|(first, count)| e.b().op2(Opcode::Add, Type::S64, first, count - 1));
        Corners { rows: [row, last_row], columns: [column, last_column] }
    }
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
            self.element((&mask.elements, &row.shortcuts), &mut Kept::default(), None);
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

    /// Whether some element of a tile may have its score: `false` only if none has.
    pub(super) fn has_scores(&mut self, code: &InSweeps<'_>, mask: &Mask<'_>, tile: &Corners) -> Reg {
        self.comparisons(code, mask, tile, true)
    }

    /// Whether all elements of a tile have their scores.
    pub(super) fn is_unmasked(&mut self, code: &InSweeps<'_>, mask: &Mask<'_>, tile: &Corners) -> Reg {
        self.comparisons(code, mask, tile, false)
    }

    /// Whether each comparison may hold somewhere in a tile, or holds everywhere.
    fn comparisons(&mut self, code: &InSweeps<'_>, mask: &Mask<'_>, tile: &Corners, somewhere: bool) -> Reg {
        let none = self.b().mov(Type::B32, 0);
        let mut all = self.b().set(Comparison::Eq, Type::B32, none, 0);
        for (op, left, right) in &mask.comparisons {
            // Whether the left side should be large.
            let (large, holds) = match op {
                CompareOp::Lt => (false, Comparison::Lt),
                CompareOp::Le => (false, Comparison::Le),
                CompareOp::Gt => (true, Comparison::Gt),
                CompareOp::Ge => (true, Comparison::Ge),
                CompareOp::Eq | CompareOp::Ne => continue,
            };
            let left = self.extreme(code, *left, tile, large == somewhere);
            let right = self.extreme(code, *right, tile, large != somewhere);
            let holds = self.b().set(holds, Type::S64, left, right);
            all = self.b().op2(Opcode::And, Type::Pred, all, holds);
        }
        all
    }

    /// The greatest value of a side in a tile, or the least.
    fn extreme(&mut self, code: &InSweeps<'_>, bound: Bound<'_>, tile: &Corners, most: bool) -> Reg {
        let affine = match bound {
            Bound::Affine(affine) => affine,
            Bound::Value(value) => return self.value(value),
        };
        let sweeps = &code.sweeps;
        let corner = |affine: &Affine<IndexId>, index: IndexId, [first, last]: [Reg; 2]| {
            let grows = affine.coefficient(index).as_constant().is_some_and(|by| by > 0);
            if grows == most { last } else { first }
        };
        self.bind(sweeps.rows.index, corner(affine, sweeps.rows.index, tile.rows));
        for index in &sweeps.columns.indices {
            self.bind(*index, corner(affine, *index, tile.columns));
        }
        self.affine(affine)
    }
}
