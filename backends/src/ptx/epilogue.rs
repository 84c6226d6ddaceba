//! The epilogue of a contraction's tile. Accumulators are staged in shared memory, a few rows at a
//! time, and the epilogue runs along these rows, so that its loads and stores are coalesced.

use ir::Dtype;
use ir::nest::Contraction;
use ir::sabotage::{self, Bug};
use ir::sched::is_flat;

use super::build::Control;
use super::contract::{TileRange, TileSide, bytes, held};
use super::emit::Emitter;
use super::inst::{Address, Comparison, Opcode, Operand, Reg, Space, Special, Type};
use super::loops::Axes;
use super::scalar;
use super::state::ExecScope;

/// The number of elements that a thread processes together, so that their loads overlap.
const AT_ONCE: i64 = 4;

/// The epilogue of a contraction.
pub(super) struct Epilogue<'c> {
    c: &'c Contraction,
    /// The type of the accumulators.
    sum: Dtype,
    /// The type of the result.
    dtype: Dtype,
    rows: (Axes, TileRange),
    columns: (Axes, TileRange),
}

/// Rows of a result tile staged in shared memory.
pub(super) struct StagedAccumulator {
    pub(super) memory: Operand,
    pub(super) at: i64,
    /// The distance between rows in bytes.
    pub(super) pitch: i64,
    /// The number of elements in a row.
    pub(super) side: i64,
    /// The number of rows.
    pub(super) rows: i64,
    /// Staged rows consist of runs: `run` adjacent rows of the tile, then again as many that begin
    /// `apart` rows further down.
    pub(super) run: i64,
    pub(super) apart: i64,
}

impl Emitter<'_> {
    pub(super) fn begin_epilogue<'c>(
        &mut self,
        c: &'c Contraction,
        sum: Dtype,
        dtype: Dtype,
        [rows, columns]: [TileSide<'_>; 2],
    ) -> Epilogue<'c> {
        let [rows, columns] = [rows, columns].map(|side| (self.axes(side.dims, &c.epilogue), side.range));
        Epilogue { c, sum, dtype, rows, columns }
    }

    /// Runs the epilogue over the staged rows. They begin with row `first` of the tile. Each thread
    /// stays in one column.
    pub(super) fn epilogue_rows(&mut self, epilogue: &Epilogue<'_>, staged: &StagedAccumulator, first: i64) {
        let Epilogue { c, sum, columns: (columns, across), .. } = epilogue;
        let thread = self.special(Special::Tid);
        let begin = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(staged.side.ilog2()));
        let column = self.b().op2(Opcode::And, Type::B64, thread, staged.side - 1);
        let base = self.b().mov(Type::U64, staged.memory);
        let base = self.b().op(Opcode::Mad, Type::S64, &[column.into(), bytes(*sum).into(), base.into()]);
        let column = self.b().op2(Opcode::Add, Type::S64, column, across.from);
        let within = if sabotage::on(Bug::PtxEdge) { Comparison::Le } else { Comparison::Lt };
        let in_row = self.b().set(within, Type::S64, column, across.count);
        let end = self.int(staged.rows);
        let step = i64::from(self.mapping.threads) / staged.side;
        // Elements are processed together only if none loads what another one stores.
        let together = is_flat(&c.epilogue) && self.shared.buffers.is_empty();
        self.when(in_row, |e| {
            e.unravel(columns, column);
            let each = if together { AT_ONCE } else { 1 };
            e.counted(begin, end, step * each, |e, low| {
                if !together {
                    let (row, inside) = e.row_of(epilogue, staged, low, first);
                    return e.when(inside, |e| e.epilogue_element(epilogue, staged, base, low, row));
                }
                // Issue the loads of several rows before the first store.
                let stores = e.deferring(|e| {
                    for k in 0..AT_ONCE {
                        let low = e.b().op2(Opcode::Add, Type::S64, low, k * step);
                        let (row, inside) = e.row_of(epilogue, staged, low, first);
                        e.masked(inside, |e| e.epilogue_element(epilogue, staged, base, low, row));
                    }
                });
                stores.into_iter().for_each(|store| e.make_store(store));
            });
        });
    }

    /// The row of the result that a staged row belongs to, and whether it is in bounds.
    fn row_of(&mut self, epilogue: &Epilogue<'_>, staged: &StagedAccumulator, low: Reg, first: i64) -> (Reg, Reg) {
        let (_, down) = &epilogue.rows;
        let run = self.b().op2(Opcode::Shr, Type::U64, low, i64::from(staged.run.ilog2()));
        let rest = self.b().op2(Opcode::And, Type::B64, low, staged.run - 1);
        let row = self.b().op(Opcode::Mad, Type::S64, &[run.into(), staged.apart.into(), rest.into()]);
        let row = self.b().op2(Opcode::Add, Type::S64, row, first);
        let row = self.b().op2(Opcode::Add, Type::S64, row, down.from);
        let within = if sabotage::on(Bug::PtxEdge) { Comparison::Le } else { Comparison::Lt };
        let inside = self.b().set(within, Type::S64, row, down.count);
        (row, inside)
    }

    fn epilogue_element(&mut self, epilogue: &Epilogue<'_>, staged: &StagedAccumulator, base: Reg, low: Reg, row: Reg) {
        let Epilogue { c, sum, dtype, rows: (rows, _), .. } = epilogue;
        let place = self.b().op(Opcode::Mad, Type::S64, &[low.into(), staged.pitch.into(), base.into()]);
        let element = self.b().load(Space::Shared, held(*sum), Address { base: Some(place), offset: staged.at });
        self.unravel(rows, row);
        let element = if sum == dtype { element } else { scalar::cast(self.b(), *dtype, *sum, element) };
        self.define(c.result, element);
        self.in_exec_scope(ExecScope::Thread, |e| e.block(&c.epilogue));
    }
}
