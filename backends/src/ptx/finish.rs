//! The end of a contraction's tile: its sums lie in the block's memory, some rows at a time, and the epilogue runs along these.

use ir::Dtype;
use ir::nest::Contraction;
use ir::sabotage::{self, Bug};

use super::build::Control;
use super::contract::{Dims, Span, bytes, held};
use super::emit::{Emitter, Team};
use super::inst::{Address, Comparison, Opcode, Operand, Reg, Space, Special, Type};
use super::loops::Axes;
use super::rows::is_flat;
use super::scalar;

/// Elements that a thread takes together: their loads are under way at the same time.
const AT_ONCE: i64 = 4;

/// What is to be done with a contraction's sums.
pub(super) struct Finish<'c> {
    c: &'c Contraction,
    /// What sums are held in, and what they become.
    dtypes: (Dtype, Dtype),
    rows: (Axes, Span),
    columns: (Axes, Span),
}

/// Rows of a tile in a block's memory.
pub(super) struct Shown {
    pub(super) memory: Operand,
    pub(super) at: i64,
    /// Bytes from a row to the next.
    pub(super) pitch: i64,
    /// Elements of a row.
    pub(super) side: i64,
    /// How many there are.
    pub(super) rows: i64,
    /// So many are neighbours in the tile; then come those that are so many rows further from their first.
    pub(super) run: i64,
    pub(super) apart: i64,
}

impl Emitter<'_> {
    pub(super) fn begin_finish<'c>(
        &mut self,
        c: &'c Contraction,
        dtypes: (Dtype, Dtype),
        [rows, columns]: [(&Dims, Span); 2],
    ) -> Finish<'c> {
        let [rows, columns] = [rows, columns].map(|(dims, span)| (self.axes(dims, &c.epilogue), span));
        Finish { c, dtypes, rows, columns }
    }

    /// The epilogue over rows in the block's memory, of which the first is that row of the tile. Each thread stays in a column.
    pub(super) fn finish_rows(&mut self, finish: &Finish<'_>, shown: &Shown, first: i64) {
        let Finish { c, dtypes: (sum, _), columns: (columns, across), .. } = finish;
        let thread = self.special(Special::Tid);
        let begin = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(shown.side.ilog2()));
        let column = self.b().op2(Opcode::And, Type::B64, thread, shown.side - 1);
        let base = self.b().mov(Type::U64, shown.memory);
        let base = self.b().op(Opcode::Mad, Type::S64, &[column.into(), bytes(*sum).into(), base.into()]);
        let column = self.b().op2(Opcode::Add, Type::S64, column, across.from);
        let within = if sabotage::on(Bug::PtxEdge) { Comparison::Le } else { Comparison::Lt };
        let in_row = self.b().set(within, Type::S64, column, across.count);
        let end = self.int(shown.rows);
        let step = i64::from(self.threads) / shown.side;
        // What an element stores another one may load, if that is what the epilogue is like.
        let together = is_flat(&c.epilogue) && self.shared.is_empty();
        self.when(in_row, |e| {
            e.unravel(columns, column);
            let each = if together { AT_ONCE } else { 1 };
            e.counted(begin, end, step * each, |e, low| {
                if !together {
                    let (row, inside) = e.row_of(finish, shown, low, first);
                    return e.when(inside, |e| e.finish_element(finish, shown, (base, low, row)));
                }
                let outer = e.waiting.replace(vec![]);
                for k in 0..AT_ONCE {
                    let low = e.b().op2(Opcode::Add, Type::S64, low, k * step);
                    let (row, inside) = e.row_of(finish, shown, low, first);
                    e.valid = Some(inside);
                    e.finish_element(finish, shown, (base, low, row));
                }
                e.valid = None;
                let stores = std::mem::replace(&mut e.waiting, outer).unwrap_or_default();
                stores.into_iter().for_each(|store| e.store_pending(store));
            });
        });
    }

    /// The row of the result that lies there, and whether there is one.
    fn row_of(&mut self, finish: &Finish<'_>, shown: &Shown, low: Reg, first: i64) -> (Reg, Reg) {
        let (_, down) = &finish.rows;
        let run = self.b().op2(Opcode::Shr, Type::U64, low, i64::from(shown.run.ilog2()));
        let rest = self.b().op2(Opcode::And, Type::B64, low, shown.run - 1);
        let row = self.b().op(Opcode::Mad, Type::S64, &[run.into(), shown.apart.into(), rest.into()]);
        let row = self.b().op2(Opcode::Add, Type::S64, row, first);
        let row = self.b().op2(Opcode::Add, Type::S64, row, down.from);
        let within = if sabotage::on(Bug::PtxEdge) { Comparison::Le } else { Comparison::Lt };
        let inside = self.b().set(within, Type::S64, row, down.count);
        (row, inside)
    }

    fn finish_element(&mut self, finish: &Finish<'_>, shown: &Shown, (base, low, row): (Reg, Reg, Reg)) {
        let Finish { c, dtypes: (sum, dtype), rows: (rows, _), .. } = finish;
        let place = self.b().op(Opcode::Mad, Type::S64, &[low.into(), shown.pitch.into(), base.into()]);
        let element = self.b().load(Space::Shared, held(*sum), Address { base: Some(place), offset: shown.at });
        self.unravel(rows, row);
        let element = if sum == dtype { element } else { scalar::cast(self.b(), *dtype, *sum, element) };
        self.define(c.result, element);
        self.as_team(Team::Thread, |e| e.block(&c.epilogue));
    }
}
