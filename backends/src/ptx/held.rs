//! Short rows that a thread keeps in registers while it goes through another loop: the loads of
//! sums along them that do not depend on that loop happen once, before it.
//!
//! ```text
//! reduce j < k {                          if d <= 16:
//!   v1 = reduce p < d {                     r0, ... = load %x[i, 0], ...
//!     v0 = load %x[i, p]            ->      reduce j < k { v1 = the sum of r0, ... }
//!     ...                                 else:
//!   } with sum lanes                        the loop as it stands
//! } with argmin v1
//! ```

use ir::linear::Linear;
use ir::nest::{BufferId, IndexId, Loop, LoopKind, Op, Statement};
use ir::{Affine, Order, visit};

use super::alone::SEVERAL;
use super::build::Control;
use super::emit::Emitter;
use super::inst::{Comparison, Opcode, Reg, Type};
use super::state::HeldRow;

/// The most rows that a thread holds at a time.
const MOST_ROWS: usize = 2;

/// A row that a loop would load again in each iteration.
struct Row<'l> {
    along: &'l Loop,
    load: &'l Op,
}

impl Emitter<'_> {
    /// Emits a loop that a thread goes through alone, with the rows in registers that it would load
    /// again in each iteration.
    pub(super) fn holding_rows(&mut self, l: &Loop, emit: impl Fn(&mut Self)) {
        let inner = l.body.iter().filter_map(|s| if let Statement::Loop(l) = s { Some(l) } else { None });
        let rows: Vec<_> = inner.flat_map(|inner| self.rows_to_hold(l, inner)).collect();
        if rows.len() > MOST_ROWS || !self.held.is_empty() {
            return emit(self);
        }
        let mut few = None;
        for Row { along, .. } in &rows {
            let count = self.extent(&along.dims[0].1);
            let fits = self.b().set(Comparison::Le, Type::S64, count, SEVERAL);
            few = Some(few.map_or(fits, |few| self.b().op2(Opcode::And, Type::Pred, few, fits)));
        }
        let Some(mut few) = few else { return emit(self) };
        // Where the loop has no iterations, the rows may not exist either.
        for (_, extent) in &l.dims {
            let count = self.extent(extent);
            let some = self.b().set(Comparison::Gt, Type::S64, count, 0);
            few = self.b().op2(Opcode::And, Type::Pred, few, some);
        }
        self.either(
            few,
            |e| {
                rows.iter().for_each(|row| e.hold_row(row));
                emit(e);
                e.held.clear();
            },
            &emit,
        );
    }

    /// The loads of a sum along a row that are the same in all iterations of the loop around it.
    fn rows_to_hold<'l>(&self, around: &Loop, along: &'l Loop) -> Vec<Row<'l>> {
        let LoopKind::Reduce(reductions) = &along.kind else { return vec![] };
        let [(index, extent)] = along.dims.as_slice() else { return vec![] };
        let by_lanes = reductions.iter().all(|r| r.order == Order::Lanes);
        if extent.as_size().is_none() || !by_lanes || !self.takes_several(along, reductions) {
            return vec![];
        }
        let stored = visit::stores(&around.body);
        let moves =
            |affine: &Affine<IndexId>| around.dims.iter().any(|(index, _)| !affine.coefficient(*index).is_zero());
        let stays = |op: &Op| {
            let Op::Load { buffer, view, at } = op else { return false };
            let linear = Linear::of(self.program, *buffer, view.as_deref(), at);
            let is_row = linear.values.is_empty() && !linear.affine.coefficient(*index).is_zero();
            is_row && !moves(&linear.affine) && !stored.contains(buffer)
        };
        let ops = along.body.iter().filter_map(|s| if let Statement::Let { op, .. } = s { Some(op) } else { None });
        ops.filter(|op| stays(op)).map(|load| Row { along, load }).collect()
    }

    /// Loads a row of at most [`SEVERAL`] elements.
    fn hold_row(&mut self, row: &Row<'_>) {
        let Op::Load { buffer, view, at } = row.load else { return };
        let (index, extent) = &row.along.dims[0];
        let affine = Linear::of(self.program, *buffer, view.as_deref(), at).affine;
        let (zero, end) = (self.int(0), self.extent(extent));
        let elements = self.thread_elements(zero, end, 1, SEVERAL);
        self.bind(*index, zero);
        let mut held = vec![];
        for place in 0..elements.count {
            self.select_element(*index, &elements, place);
            held.push(self.load(*buffer, view.as_deref(), at));
        }
        self.deselect_element();
        self.held.push(HeldRow { index: *index, buffer: *buffer, affine, elements: held });
    }

    /// Whether the rows along an index are in registers, so that they are short.
    pub(super) fn holds_along(&self, index: IndexId) -> bool {
        self.held.iter().any(|row| row.index == index)
    }

    /// The register with an element, if it is one of a row in registers.
    pub(super) fn held_element(&self, buffer: BufferId, linear: &Linear) -> Option<Reg> {
        let (index, by) = self.addresses.displaced.filter(|_| linear.values.is_empty())?;
        let is_it = |row: &&HeldRow| row.index == index && row.buffer == buffer && row.affine == linear.affine;
        self.held.iter().find(is_it)?.elements.get(usize::try_from(by).ok()?).copied()
    }
}
