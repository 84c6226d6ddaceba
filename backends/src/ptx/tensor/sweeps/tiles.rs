//! Sweeps that need the results of those before: they go over their tiles in halves.

use ir::Scalar;
use ir::sabotage::{self, Bug};
use ir::sched::{Sweep, Weighted};

use super::{AT_ONCE, BlockRows, COLUMNS, Multiplying, Running, ThreadRow, Tile};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::inst::{Address, Comparison, Opcode, Reg, Type};
use crate::ptx::scalar;

/// The matrix of the weights that are still to be multiplied, and where its stage is given back. At
/// first there is none, and the first products are overwritten.
pub(super) struct LastMatrix {
    pub(super) matrix: Reg,
    free: Reg,
    /// 1 if there is one.
    there: Reg,
}

impl LastMatrix {
    pub(super) fn new(e: &mut Emitter<'_>, state: &Multiplying<'_, '_>) -> LastMatrix {
        let none = e.b().mov(Type::B32, 0);
        let b = e.b();
        LastMatrix { matrix: b.copy(state.right), free: b.copy(state.tiles.barriers), there: b.copy(none) }
    }

    pub(super) fn is_there(&self, e: &mut Emitter<'_>) -> Reg {
        e.b().set(Comparison::Ne, Type::B32, self.there, 0)
    }

    /// Gives its stage back.
    pub(super) fn give_back(&self, e: &mut Emitter<'_>, state: &Multiplying<'_, '_>) {
        let is_there = self.is_there(e);
        let gives = e.b().op2(Opcode::And, Type::Pred, is_there, state.leads);
        let free = Address { base: Some(self.free), offset: 0 };
        e.b().guarded(gives, |b| b.arrive(free));
    }

    pub(super) fn keep(&self, e: &mut Emitter<'_>, (matrix, free): (Reg, Address)) {
        e.b().assign(self.matrix, matrix);
        let (base, offset) = (free.base.expect("a register"), free.offset);
        e.b().op_to(self.free, Opcode::Add, Type::S64, &[base.into(), offset.into()]);
        e.b().op_to(self.there, Opcode::Mov, Type::B32, &[1.into()]);
    }

    /// Waits for its products, the last ones. Without any tile, the results are 0.
    pub(super) fn end(&self, e: &mut Emitter<'_>, state: &Multiplying<'_, '_>) {
        e.b().await_products(0);
        self.give_back(e, state);
        let none = e.b().set(Comparison::Eq, Type::B32, self.there, 0);
        let zero = scalar::constant(e.b(), Scalar::F32(0.0));
        e.when(none, |e| state.results.iter().for_each(|sum| e.b().assign(*sum, zero)));
    }
}

impl Emitter<'_> {
    /// Goes over the tiles of a sweep, in halves: while the statements of one run, the weights of
    /// the one before are multiplied.
    pub(super) fn tiles(
        &mut self,
        state: &Multiplying<'_, '_>,
        (sweep, weighted): (&Sweep<'_>, Option<&Weighted<'_>>),
        running: &[Running<'_>],
        rows: &[ThreadRow; 2],
        of_block: &BlockRows,
    ) {
        let Multiplying { code, tiles, turn, leads, .. } = state;
        let end = self.size(code.sweeps.columns.count);
        let last = LastMatrix::new(self, state);
        let idle = sweep.mask.as_ref().and_then(|mask| self.comes_to_nothing(state, mask, running, weighted, rows));
        // The products of weights may go on while statements run.
        let but = u32::from(weighted.is_some());
        self.for_each_columns(code, (sweep, of_block.first), end, |e, from| {
            let after = e.b().op2(Opcode::Add, Type::S64, from, COLUMNS);
            let beyond = if sabotage::on(Bug::SweptBeyond) { from } else { after };
            let whole = e.b().set(Comparison::Le, Type::S64, beyond, end);
            let whole = e.b().op2(Opcode::And, Type::Pred, whole, of_block.whole);
            let tile = Tile { from, end, whole, idle };
            let later = last.is_there(e);
            let (columns, free) = e.full_stage(state);
            e.advance(tiles, *turn);
            e.start_scores(state, columns, [0, AT_ONCE]);
            if weighted.is_some() {
                let matrix = e.b().select(Type::B64, last.matrix, columns, later);
                e.start_results(state, matrix, [1].as_slice(), state.always);
            }
            e.b().await_products(but);
            e.half(state, (sweep, weighted), running, rows, (&tile, 0));
            let matrix = weighted.map(|_| e.full_stage(state));
            e.start_scores(state, columns, [AT_ONCE, AT_ONCE]);
            if let Some((matrix, _)) = matrix {
                e.start_results(state, matrix, [0].as_slice(), later);
            }
            e.b().await_products(but);
            e.b().guarded(*leads, |b| b.arrive(free));
            if let Some(matrix) = matrix {
                last.give_back(e, state);
                last.keep(e, matrix);
                e.advance(tiles, *turn);
            }
            e.half(state, (sweep, weighted), running, rows, (&tile, 1));
            e.end_chunk(running, (from, after, end));
        });
        if weighted.is_some() {
            self.start_results(state, last.matrix, [1].as_slice(), state.always);
            last.end(self, state);
        }
    }
}
