//! Loops that are laid out in columns, such as stencils: each thread computes consecutive rows of a
//! column, so that loads of one row are reused in registers by the next ones.

use ir::nest::Loop;
use ir::order::Scope;
use ir::sched::Variant;

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Comparison, Opcode, Reg, Special, Type};
use super::state::Argument;
use super::state::ThreadElements;

impl Emitter<'_> {
    /// Processes the patches of this block, with a column for each thread.
    pub(super) fn in_columns(&mut self, l: &Loop, layout: &Variant) {
        let ([(row, rows), (column, columns)], [down, _]) = (l.dims.as_slice(), layout.axes.as_slice()) else { return };
        let each = down.count(|scope| scope == Scope::Register);
        let [rows, columns] = [rows, columns].map(|extent| self.extent(extent));
        let [rows, columns] = [rows, columns].map(|n| self.b().op2(Opcode::Max, Type::S64, n, 0));
        let wide = i64::from(self.mapping.threads);
        let ceil_div_by = self.ceil_div_by(columns, wide);
        let tall = self.ceil_div_by(rows, each);
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
            let at = e.b().op(Opcode::Mad, Type::S64, &[span.into(), wide.into(), thread.into()]);
            let first = e.b().op2(Opcode::Mul, Type::S64, band, each);
            e.bind(*column, at);
            // A thread beyond the last column has no rows.
            let inside = e.b().set(Comparison::Lt, Type::S64, at, columns);
            let end = e.b().select(Type::B64, rows, 0, inside);
            let elements: ThreadElements = e.thread_elements(first, end, 1, each);
            e.elements(*row, &l.body, &elements, &[]);
        });
    }

    fn ceil_div_by(&mut self, count: Reg, of: i64) -> Reg {
        let sum = self.b().op2(Opcode::Add, Type::S64, count, of - 1);
        self.b().op2(Opcode::Shr, Type::U64, sum, i64::from(of.ilog2()))
    }
}
