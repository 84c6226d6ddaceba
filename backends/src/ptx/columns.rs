//! Loops along columns: adjacent iterations of the outer loop access adjacent elements, and an
//! inner loop moves from row to row. So adjacent threads process adjacent columns, which coalesces
//! their accesses.
//!
//! A reduction alone takes two launches: in the first, each thread reduces one block of rows (in
//! the sense of `ir::order`) of one column; the second combines these partial results. The
//! combination, and anything else, is processed in *strips*: a block processes a few columns, with
//! several threads per column, which divide the rows among themselves and communicate through
//! shared memory. Scratch of adjacent columns is interleaved.

use std::ops::Range;

use ir::nest::{BufferId, Loop, LoopKind, Reduction, Statement};
use ir::order::BLOCK;
use ir::sched::InBlocks;

use super::build::{Builder, Control};
use super::emit::Emitter;
use super::fold::{Levels, MergingCode, assign};
use super::inst::{Address, Comparison, Opcode, Reg, Space, Special, Type};
use super::loops::Axes;
use super::state::{Argument, ExecScope, Strip, StripShape};
use super::unroll::{STRIP, TILE, Unrolling, WIDE_STRIP};
use ir::merging::Merging;

/// A block of more threads than this leaves each few registers.
const MANY_THREADS: u32 = 512;

impl StripShape {
    /// The address of the first element of a column's scratch, for this thread.
    pub(super) fn scratch(self, b: &mut Builder, first: Reg, block: Reg, stride: Reg, thread: Reg, bytes: i64) -> Reg {
        let owners = b.op2(Opcode::Mul, Type::S64, block, self.width);
        let base = b.op(Opcode::Mad, Type::S64, &[owners.into(), stride.into(), first.into()]);
        let column = b.op2(Opcode::And, Type::B64, thread, self.width - 1);
        b.op(Opcode::Mad, Type::S64, &[column.into(), bytes.into(), base.into()])
    }
}

/// A reduction in progress, with the state of each thread.
struct Sum {
    fold: Merging,
    /// The accumulator of the thread.
    state: Vec<Reg>,
    /// The pairwise levels of the results of its blocks, if the order matters.
    levels: Option<Levels>,
}

impl Emitter<'_> {
    /// Reduces blocks of rows, with a thread for each block of each column. Stores the partial
    /// results to `buffers`.
    pub(super) fn reduce_columns(&mut self, l: &Loop, buffers: &[BufferId]) {
        let Some(InBlocks { columns, before, rows }) = InBlocks::of(l) else { return };
        let LoopKind::Reduce(reductions) = &rows.kind else { return };
        let columns = self.axes(columns, &l.body);
        let down = self.axes(&rows.dims, &rows.body);
        let count = self.ceil_div(down.total, BLOCK as i64);
        let all = self.b().op2(Opcode::Mul, Type::S64, count, columns.total);
        let shape = self.program.buffers[buffers[0]].shape.clone();
        let small = self.argument(Argument::Small(shape));
        let small = self.b().set(Comparison::Ne, Type::S64, small, 0);
        let [thread, block, threads, blocks] =
            [Special::Tid, Special::Ctaid, Special::Ntid, Special::Nctaid].map(|s| self.special(s));
        let first = self.b().op(Opcode::Mad, Type::S64, &[block.into(), threads.into(), thread.into()]);
        let step = self.b().op2(Opcode::Mul, Type::S64, blocks, threads);
        let sums: Vec<Sum> = self.sums_of(reductions).into_iter().map(|fold| self.sum(fold, false)).collect();
        self.counted(first, all, step, |e, number| {
            // Adjacent threads have adjacent columns of the same block, so that their loads
            // coalesce.
            let block = e.divide(Some(small), number, columns.total);
            let before_it = e.b().op2(Opcode::Mul, Type::S64, block, columns.total);
            let column = e.b().op2(Opcode::Sub, Type::S64, number, before_it);
            e.unravel(&columns, column);
            e.in_exec_scope(ExecScope::Thread, |e| e.block(before));
            sums.iter().for_each(|sum| sum.fold.clear(e, &sum.state));
            let first = e.b().op2(Opcode::Shl, Type::B64, block, i64::from(BLOCK.ilog2()));
            let end = e.b().op2(Opcode::Add, Type::S64, first, BLOCK as i64);
            let end = e.b().op2(Opcode::Min, Type::S64, end, down.total);
            e.take_rows(&down, first..end, rows, reductions, &sums);
            for (sum, buffer) in sums.iter().zip(buffers) {
                let values = sum.fold.values(e, &sum.state);
                e.store_at(*buffer, number, values[0]);
            }
        });
    }

    fn sums_of(&self, reductions: &[Reduction]) -> Vec<Merging> {
        reductions.iter().map(|r| self.merging(r)).collect()
    }

    fn sum(&mut self, fold: Merging, levels: bool) -> Sum {
        let state = fold.variable(self);
        let ordered = levels && fold.depends_on_order(self.program);
        let bytes = Levels::bytes(fold, self.program);
        let at = ordered.then(|| self.b().take(Space::Local, bytes));
        Sum { fold, state, levels: at.map(|at| Levels { fold, space: Space::Local, at }) }
    }

    /// How loops down the rows are unrolled.
    fn unrolling(&self) -> &'static Unrolling {
        match self.mapping.resident {
            None => &TILE,
            Some(_) if self.mapping.threads > MANY_THREADS => &WIDE_STRIP,
            Some(_) => &STRIP,
        }
    }

    /// Accumulates a range of rows.
    fn take_rows(&mut self, axes: &Axes, range: Range<Reg>, l: &Loop, reductions: &[Reduction], sums: &[Sum]) {
        let take = |e: &mut Self, number: Reg| {
            for (r, sum) in reductions.iter().zip(sums) {
                let one = e.one(&r.inputs, number);
                sum.fold.add(e, &sum.state, &one);
            }
        };
        match axes.only() {
            Some(index) => self.unrolled_loop(index, range, 1, (&l.body, self.unrolling()), |e, number| {
                e.in_exec_scope(ExecScope::Thread, |e| e.block(&l.body));
                take(e, number);
            }),
            None => self.counted(range.start, range.end, 1, |e, number| {
                e.iteration(axes, number, &l.body);
                take(e, number);
            }),
        }
    }

    /// Processes the strips of this block.
    pub(super) fn in_strips(&mut self, l: &Loop, shape: StripShape) {
        self.strip_shape = Some(shape);
        let axes = self.axes(&l.dims, &l.body);
        let [thread, block, blocks] = [Special::Tid, Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        let lane = self.b().op2(Opcode::And, Type::B64, thread, shape.width - 1);
        let row = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(shape.width.ilog2()));
        let leader = self.b().set(Comparison::Eq, Type::S64, row, 0);
        let last = self.b().op2(Opcode::Sub, Type::S64, axes.total, 1);
        let strips = self.ceil_div(axes.total, shape.width);
        self.counted(block, strips, blocks, |e, strip| {
            let column = e.b().op(Opcode::Mad, Type::S64, &[strip.into(), shape.width.into(), lane.into()]);
            let in_bounds = e.b().set(Comparison::Le, Type::S64, column, last);
            // Threads beyond the last column repeat it, because all threads must reach the
            // barriers.
            let column = e.b().op2(Opcode::Min, Type::S64, column, last);
            e.unravel(&axes, column);
            e.strip = Some(Strip { shape, row, in_bounds, leader });
            e.in_exec_scope(ExecScope::Column, |e| e.block(&l.body));
            // The next strip overwrites shared memory that this one reads.
            e.b().barrier();
        });
    }

    /// A loop executed by the threads of a column.
    pub(super) fn column_loop(&mut self, l: &Loop) {
        let Some(strip) = self.strip else { return };
        match &l.kind {
            LoopKind::Reduce(reductions) => self.reduce_in_strip(strip, l, reductions),
            LoopKind::Parallel => {
                let axes = self.axes(&l.dims, &l.body);
                match axes.only() {
                    Some(index) => self.unrolled_loop(
                        index,
                        strip.row..axes.total,
                        strip.shape.rows,
                        (&l.body, self.unrolling()),
                        |e, _| {
                            e.in_exec_scope(ExecScope::Thread, |e| e.block(&l.body));
                        },
                    ),
                    None => {
                        self.counted(strip.row, axes.total, strip.shape.rows, |e, number| {
                            e.iteration(&axes, number, &l.body)
                        });
                    }
                }
            }
            LoopKind::Serial | LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => {
                let alone = Statement::Loop(l.clone());
                self.when(strip.leader, |e| e.in_exec_scope(ExecScope::Thread, |e| e.statement(&alone)));
            }
        }
        self.settle(&l.body);
    }

    /// Reduces rows with the threads of a column. Each thread takes a range of adjacent blocks of
    /// rows. Its length is a power of two, so that its result is a node of the canonical pairwise
    /// tree; then the threads combine their results pairwise.
    fn reduce_in_strip(&mut self, strip: Strip, l: &Loop, reductions: &[Reduction]) {
        let axes = self.axes(&l.dims, &l.body);
        let joins = l.dims.iter().any(|(index, _)| self.mapping.joins.contains(index));
        let block = if joins { 1 } else { BLOCK as i64 };
        let sums: Vec<Sum> = self.sums_of(reductions).into_iter().map(|fold| self.sum(fold, true)).collect();
        let count = self.ceil_div(axes.total, block);
        // The smallest power of two of blocks per thread for which all threads of the column have
        // enough: with 32 threads and 100 blocks, 4 each, and the last 7 threads have none.
        let share = self.int(1);
        let share = self.b().copy(share);
        self.while_(
            |e| {
                let all = e.b().op2(Opcode::Mul, Type::S64, share, strip.shape.rows);
                e.b().set(Comparison::Lt, Type::S64, all, count)
            },
            |e| e.b().op_to(share, Opcode::Shl, Type::B64, &[share.into(), 1.into()]),
        );
        let first = self.b().op2(Opcode::Mul, Type::S64, strip.row, share);
        let end = self.b().op2(Opcode::Add, Type::S64, first, share);
        let end = self.b().op2(Opcode::Min, Type::S64, end, count);
        if sums.iter().all(|sum| sum.levels.is_none()) {
            let rows = [first, end].map(|n| self.b().op2(Opcode::Mul, Type::S64, n, block));
            let end = self.b().op2(Opcode::Min, Type::S64, rows[1], axes.total);
            self.take_rows(&axes, rows[0]..end, l, reductions, &sums);
        } else {
            self.counted(first, end, 1, |e, number| {
                for sum in sums.iter().filter(|sum| sum.levels.is_some()) {
                    sum.fold.clear(e, &sum.state);
                }
                let from = e.b().op2(Opcode::Mul, Type::S64, number, block);
                let to = e.b().op2(Opcode::Add, Type::S64, from, block);
                let to = e.b().op2(Opcode::Min, Type::S64, to, axes.total);
                e.take_rows(&axes, from..to, l, reductions, &sums);
                // The levels are those of the thread's own subtree, so they count from its first
                // block.
                let number = e.b().op2(Opcode::Sub, Type::S64, number, first);
                for sum in &sums {
                    if let Some(levels) = sum.levels {
                        levels.push(e, number, &sum.state);
                    }
                }
            });
            let own = self.b().op2(Opcode::Sub, Type::S64, end, first);
            let own = self.b().op2(Opcode::Max, Type::S64, own, 0);
            for sum in &sums {
                if let Some(levels) = sum.levels {
                    let state = levels.finish(self, own);
                    assign(self.b(), &sum.state, &state);
                }
            }
        }
        for (r, sum) in reductions.iter().zip(&sums) {
            self.merge_in_column(strip, sum);
            self.define_state(&r.results, sum.fold, &sum.state);
        }
        for sum in sums.iter().rev().filter(|sum| sum.levels.is_some()) {
            let bytes = Levels::bytes(sum.fold, self.program);
            self.b().give_back(Space::Local, bytes);
        }
    }

    /// Combines the accumulators of each column's threads pairwise, neighbours first, and
    /// broadcasts the result to them.
    fn merge_in_column(&mut self, strip: Strip, sum: &Sum) {
        let fold = sum.fold;
        let size = fold.bytes(self.program);
        let bytes = self.mapping.threads as usize * size as usize;
        let at = self.b().take(Space::Shared, bytes);
        let thread = self.special(Special::Tid);
        let place = self.b().element(Space::Shared, at, thread, size);
        fold.store(self, Space::Shared, &sum.state, place);
        for step in (0..strip.shape.rows.ilog2()).map(|k| 1i64 << k) {
            self.b().barrier();
            let number = self.b().op2(Opcode::And, Type::B64, strip.row, 2 * step - 1);
            let joins = self.b().set(Comparison::Eq, Type::S64, number, 0);
            self.when(joins, |e| {
                let own = fold.load(e, Space::Shared, place);
                // The threads of a column are `width` apart.
                let other = Address { offset: place.offset + size * strip.shape.width * step, ..place };
                let other = fold.load(e, Space::Shared, other);
                let joined = fold.merge(e, &own, &other);
                fold.store(e, Space::Shared, &joined, place);
            });
        }
        self.b().barrier();
        let lane = self.b().op2(Opcode::And, Type::B64, thread, strip.shape.width - 1);
        let place = self.b().element(Space::Shared, at, lane, size);
        let state = fold.load(self, Space::Shared, place);
        assign(self.b(), &sum.state, &state);
        // Later code may reuse the shared memory.
        self.b().barrier();
        self.b().give_back(Space::Shared, bytes);
    }
}
