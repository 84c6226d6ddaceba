//! Loops that a strategy of the schedule has laid out on threads and blocks
//! ([`ir::sched::Variant`]).

use ir::nest::{Loop, Statement};
use ir::order::Scope;
use ir::sched::ordered::has_ordered;
use ir::sched::{Axis, Inner, Variant};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Opcode, Special, Type};
use super::state::ExecScope;
use super::state::StripShape;

impl Emitter<'_> {
    /// Runs the iterations of this block or thread, after statements that each computes for itself.
    pub(super) fn laid_out(&mut self, before: &[Statement], l: &Loop, layout: &Variant) {
        // Scratch of warps that merge into tables is in shared memory from the start.
        if matches!(layout.inner, Inner::Together(_)) && has_ordered(&l.body) {
            self.scratch_to_shared_memory(&l.body);
        }
        self.block(before);
        match &layout.inner {
            Inner::Alone => self.in_units(l, layout),
            Inner::Row(row) => self.rows(l, row),
            Inner::Together(threads) => match layout.axes.first().map_or(1, Axis::of_block) {
                1 => self.in_blocks(l),
                width => self.in_strips(l, StripShape { width, rows: *threads }),
            },
        }
    }

    /// Iterations that threads run alone.
    fn in_units(&mut self, l: &Loop, layout: &Variant) {
        let has = |scope| layout.axes.iter().any(|axis| axis.count(|other| other == scope) > 1);
        if !layout.stages.is_empty() {
            self.transpose_tiles(l, layout);
        } else if has(Scope::Vector) {
            self.in_vectors(l, layout);
        } else if has(Scope::Register) {
            self.in_columns(l, layout);
        } else {
            self.in_threads(l);
        }
    }

    /// An iteration for each block, which takes further ones if the grid has fewer blocks.
    fn in_blocks(&mut self, l: &Loop) {
        let axes = self.axes(&l.dims, &l.body);
        let [block, blocks] = [Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        self.counted(block, axes.total, blocks, |e, number| {
            e.unravel(&axes, number);
            e.in_exec_scope(ExecScope::Block, |e| e.block(&l.body));
            // The next iteration overwrites shared memory that this one reads.
            e.b().barrier();
        });
    }

    /// An iteration for each thread, which takes further ones if the grid has fewer threads.
    fn in_threads(&mut self, l: &Loop) {
        let axes = self.axes(&l.dims, &l.body);
        let [thread, block, threads, blocks] =
            [Special::Tid, Special::Ctaid, Special::Ntid, Special::Nctaid].map(|s| self.special(s));
        let first = self.b().op(Opcode::Mad, Type::S64, &[block.into(), threads.into(), thread.into()]);
        let all = self.b().op2(Opcode::Mul, Type::S64, blocks, threads);
        self.counted(first, axes.total, all, |e, number| e.iteration(&axes, number, &l.body));
    }
}
