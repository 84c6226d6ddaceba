//! Stencils: loops over two indices that load one buffer at several offsets. Each thread computes
//! eight consecutive rows of a column, so that loads of one row are reused in registers by the next
//! ones. Horizontal neighbours come from the L1 cache.

use ir::linear::Linear;
use ir::nest::{IndexId, Loop};

use super::build::Control;
use super::emit::{Argument, Emitter};
use super::inst::{Comparison, Opcode, Reg, Special, Type};
use super::rows::{ThreadElements, is_flat};

/// The number of rows per thread.
pub(super) const ROWS_PER_THREAD: i64 = 8;

/// The last two indices of a loop that is a stencil.
pub(super) struct Stencil {
    row: IndexId,
    column: IndexId,
}

impl Stencil {
    /// Recognizes a stencil: two loads of one buffer that differ by a constant offset, contiguous
    /// along the columns.
    pub(super) fn of(e: &Emitter<'_>, l: &Loop) -> Option<Stencil> {
        let [(row, rows), (column, columns)] = l.dims.as_slice() else { return None };
        rows.as_size().and(columns.as_size())?;
        let mut found: Vec<(_, Linear)> = vec![];
        for statement in &l.body {
            let Some(load) = statement.effects().load else { continue };
            let linear = Linear::of(e.program, load.buffer, load.view, load.at);
            let along = linear.values.is_empty() && linear.affine.coefficient(*column).as_constant() == Some(1);
            if along && !linear.affine.coefficient(*row).is_zero() && !e.shared.contains(&load.buffer) {
                found.push((load.buffer, linear));
            }
        }
        // Two loads of the same buffer that only differ by a constant.
        let overlaps = |(k, (buffer, linear)): (usize, &(_, Linear))| {
            found[..k].iter().any(|(b, l)| b == buffer && l.affine.terms() == linear.affine.terms())
        };
        let is = is_flat(&l.body) && found.iter().enumerate().any(overlaps);
        is.then_some(Stencil { row: *row, column: *column })
    }
}

impl Emitter<'_> {
    /// Processes the patches of this block, with a column for each thread.
    pub(super) fn in_columns(&mut self, l: &Loop, stencil: &Stencil) {
        let (rows, columns) = (self.extent(&l.dims[0].1), self.extent(&l.dims[1].1));
        let [rows, columns] = [rows, columns].map(|n| self.b().op2(Opcode::Max, Type::S64, n, 0));
        let wide = i64::from(self.mapping.threads);
        let ceil_div_by = self.ceil_div_by(columns, wide);
        let tall = self.ceil_div_by(rows, ROWS_PER_THREAD);
        let all = self.b().op2(Opcode::Mul, Type::S64, ceil_div_by, tall);
        let small = Emitter::extents(&l.dims).map(|extents| {
            let small = self.argument(Argument::Small(extents));
            self.b().set(Comparison::Ne, Type::S64, small, 0)
        });
        let [thread, block, blocks] = [Special::Tid, Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        self.counted(block, all, blocks, |e, number| {
            let band = e.divide(small, number, ceil_div_by);
            let before = e.b().op2(Opcode::Mul, Type::S64, band, ceil_div_by);
            let span = e.b().op2(Opcode::Sub, Type::S64, number, before);
            let column = e.b().op(Opcode::Mad, Type::S64, &[span.into(), wide.into(), thread.into()]);
            let first = e.b().op2(Opcode::Mul, Type::S64, band, ROWS_PER_THREAD);
            e.bind(stencil.column, column);
            // A thread beyond the last column has no rows.
            let inside = e.b().set(Comparison::Lt, Type::S64, column, columns);
            let end = e.b().select(Type::B64, rows, 0, inside);
            let elements: ThreadElements = e.thread_elements(first, end, 1, ROWS_PER_THREAD);
            e.elements(stencil.row, &l.body, &elements, &[]);
        });
    }

    fn ceil_div_by(&mut self, count: Reg, of: i64) -> Reg {
        let sum = self.b().op2(Opcode::Add, Type::S64, count, of - 1);
        self.b().op2(Opcode::Shr, Type::U64, sum, i64::from(of.ilog2()))
    }
}
