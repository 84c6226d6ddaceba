//! The epilogue of a contraction's tile. Accumulators are staged in shared memory, a few rows at a
//! time, and the epilogue runs along these rows, so that its loads and stores are coalesced.

use ir::Dtype;
use ir::linear::Linear;
use ir::nest::{Contraction, Role, Statement};
use ir::sabotage::{self, Bug};
use ir::sched::is_flat;

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Address, Comparison, Opcode, Operand, Reg, Space, Special, Type};
use super::loops::Axes;
use super::scalar;
use super::state::Argument;
use super::state::DeferredStore;
use super::state::ExecScope;
use super::tile::{Dims, TileRange, TileSide, bytes, held, length};

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
    /// The indices of the columns.
    dims: &'c Dims,
}

/// Rows of a result tile staged in shared memory, and the threads that share them.
pub(super) struct StagedAccumulator {
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
    /// The number of threads, a power of two.
    pub(super) threads: i64,
    /// The number of adjacent elements that a thread stores together.
    pub(super) neighbours: i64,
}

impl StagedAccumulator {
    /// Its bytes of shared memory.
    pub(super) const fn bytes(&self) -> i64 {
        self.rows * self.pitch
    }
}

/// Where staged rows are in shared memory, and which element of the tile is their first.
pub(super) struct StagedAt {
    pub(super) memory: Reg,
    pub(super) row: Operand,
    pub(super) column: Operand,
}

impl Emitter<'_> {
    pub(super) fn begin_epilogue<'c>(
        &mut self,
        c: &'c Contraction,
        sum: Dtype,
        dtype: Dtype,
        [rows, columns]: [TileSide<'c>; 2],
    ) -> Epilogue<'c> {
        let dims = columns.dims;
        let [rows, columns] = [rows, columns].map(|side| (self.axes(side.dims, &c.epilogue), side.range));
        Epilogue { c, sum, dtype, rows, columns, dims }
    }

    /// Runs the epilogue over staged rows. Each thread stays in one column, or in some
    /// neighbours.
    pub(super) fn epilogue_rows(&mut self, epilogue: &Epilogue<'_>, staged: &StagedAccumulator, at: &StagedAt) {
        let Epilogue { c, columns: (columns, across), .. } = epilogue;
        let thread = self.special(Special::Tid);
        let thread = self.b().op2(Opcode::And, Type::B64, thread, staged.threads - 1);
        let in_row = staged.side / staged.neighbours;
        let begin = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(in_row.ilog2()));
        let column = self.b().op2(Opcode::And, Type::B64, thread, in_row - 1);
        let column = self.b().op2(Opcode::Mul, Type::S64, column, staged.neighbours);
        let width = bytes(epilogue.sum);
        let base = self.b().op(Opcode::Mad, Type::S64, &[column.into(), width.into(), at.memory.into()]);
        let column = self.b().op2(Opcode::Add, Type::S64, column, across.from);
        let column = self.b().op2(Opcode::Add, Type::S64, column, at.column);
        let neighbours = (0..staged.neighbours).map(|k| {
            let column = self.b().op2(Opcode::Add, Type::S64, column, k);
            (column, self.b().set(within(), Type::S64, column, across.count))
        });
        let neighbours: Vec<(Reg, Reg)> = neighbours.collect();
        let end = self.int(staged.rows);
        let step = staged.threads / in_row;
        // Elements are processed together only if none loads what another one stores.
        let together = is_flat(&c.epilogue) && self.shared.buffers.is_empty();
        let pairs = if together { self.pairs(epilogue, staged.neighbours) } else { None };
        self.when(neighbours[0].1, |e| {
            let rows = if together { AT_ONCE } else { 1 };
            e.counted(begin, end, step * rows, |e, low| {
                let element = |e: &mut Self, low: Reg, guarded: bool| {
                    let (row, inside) = e.row_of(epilogue, staged, low, at.row);
                    let elements = e.staged_elements(epilogue, staged, base, low);
                    for ((column, in_row), element) in neighbours.iter().zip(elements) {
                        let inside = e.b().op2(Opcode::And, Type::Pred, inside, *in_row);
                        e.unravel(columns, *column);
                        let make = |e: &mut Self| e.epilogue_element(epilogue, element, row);
                        if guarded { e.masked(inside, make) } else { e.when(inside, make) }
                    }
                };
                if !together {
                    return element(e, low, false);
                }
                // Issue the loads of several rows before the first store.
                let stores = e.deferring(|e| {
                    for k in 0..rows {
                        let low = e.b().op2(Opcode::Add, Type::S64, low, k * step);
                        element(e, low, true);
                    }
                });
                let of_row = (stores.len() / rows as usize).max(1);
                stores.chunks(of_row).for_each(|of_row| e.store_neighbours(of_row, staged.neighbours, pairs));
            });
        });
    }

    /// The row of the result that a staged row belongs to, and whether it is in bounds.
    fn row_of(&mut self, epilogue: &Epilogue<'_>, staged: &StagedAccumulator, low: Reg, first: Operand) -> (Reg, Reg) {
        let (_, down) = &epilogue.rows;
        let mut row = low;
        if staged.run < staged.rows {
            let run = self.b().op2(Opcode::Shr, Type::U64, low, i64::from(staged.run.ilog2()));
            let rest = self.b().op2(Opcode::And, Type::B64, low, staged.run - 1);
            row = self.b().op(Opcode::Mad, Type::S64, &[run.into(), staged.apart.into(), rest.into()]);
        }
        let row = self.b().op2(Opcode::Add, Type::S64, row, first);
        let row = self.b().op2(Opcode::Add, Type::S64, row, down.from);
        let inside = self.b().set(within(), Type::S64, row, down.count);
        (row, inside)
    }

    /// The neighbours of a thread in a staged row.
    fn staged_elements(
        &mut self,
        epilogue: &Epilogue<'_>,
        staged: &StagedAccumulator,
        base: Reg,
        low: Reg,
    ) -> Vec<Reg> {
        let place = self.b().op(Opcode::Mad, Type::S64, &[low.into(), staged.pitch.into(), base.into()]);
        let (ty, at) = (held(epilogue.sum), Address { base: Some(place), offset: 0 });
        if staged.neighbours == 1 {
            return vec![self.b().load(Space::Shared, ty, at)];
        }
        self.b().load_several(Space::Shared, ty, staged.neighbours as usize, at)
    }

    fn epilogue_element(&mut self, epilogue: &Epilogue<'_>, element: Reg, row: Reg) {
        let Epilogue { c, sum, dtype, rows: (rows, _), .. } = epilogue;
        self.unravel(rows, row);
        let element = if sum == dtype { element } else { scalar::cast(self.b(), *dtype, *sum, element) };
        self.define(c.result, element);
        self.in_exec_scope(ExecScope::Thread, |e| e.block(&c.epilogue));
    }

    /// A predicate: the elements that neighbours store are adjacent, aligned as one, and all of
    /// them in bounds if one is. `None` if they never are.
    fn pairs(&mut self, epilogue: &Epilogue<'_>, neighbours: i64) -> Option<Reg> {
        let Epilogue { c, dims, .. } = epilogue;
        let [(column, _)] = dims else { return None };
        if neighbours == 1 {
            return None;
        }
        let mut multiples = vec![length(dims)];
        for statement in &c.epilogue {
            let Statement::Store { buffer, at, .. } = statement else { continue };
            let linear = Linear::of(self.program, *buffer, None, at);
            let is_scratch = self.program.buffers[*buffer].role == Role::Scratch;
            if is_scratch || !linear.values.is_empty() || linear.affine.coefficient(*column).as_constant() != Some(1) {
                return None;
            }
            multiples.push(linear.affine.constant_part().clone());
            let others = linear.affine.terms().iter().filter(|(index, _)| index != column);
            multiples.extend(others.map(|(_, step)| step.clone()));
        }
        let multiples = multiples.into_iter().map(|size| (size, neighbours)).collect();
        let aligned = self.argument(Argument::Multiples(multiples));
        Some(self.b().set(Comparison::Ne, Type::S64, aligned, 0))
    }

    /// Makes the stores of a row's neighbours, which are one neighbour's after the other's: wide
    /// ones where `pairs` holds.
    fn store_neighbours(&mut self, stores: &[DeferredStore], neighbours: i64, pairs: Option<Reg>) {
        let Some(pairs) = pairs else {
            return stores.iter().for_each(|store| self.make_store(*store));
        };
        let single = self.b().op(Opcode::Not, Type::Pred, &[pairs.into()]);
        let of_each = stores.len() / neighbours as usize;
        for (number, first) in stores.iter().enumerate().take(of_each) {
            let of_all: Vec<&DeferredStore> = stores.iter().skip(number).step_by(of_each).collect();
            let values = of_all.iter().map(|store| store.value).collect();
            let wide = first.only.map_or(pairs, |only| self.b().op2(Opcode::And, Type::Pred, only, pairs));
            self.b().guarded(wide, |b| b.store_several(first.space, first.ty, values, first.at));
            for store in of_all {
                let only = store.only.map_or(single, |only| self.b().op2(Opcode::And, Type::Pred, only, single));
                self.make_store(DeferredStore { only: Some(only), ..*store });
            }
        }
    }
}

/// The comparison of an index with the number of its values.
fn within() -> Comparison {
    if sabotage::on(Bug::PtxEdge) { Comparison::Le } else { Comparison::Lt }
}
