//! Reductions in the order by blocks, by the threads of a block together. Each thread has a block
//! of the order to add up, and a row of a tile in shared memory. All threads compute the elements
//! of the tile, so that neighbouring threads have neighbouring elements, and then each adds up its
//! row.
//!
//! ```text
//! thread     0 .. S-1   S .. 2S-1  ...       the elements of a column of blocks
//! computes   row 0      row 1      ...       rows T/S, T/S + 1, ... next
//! adds up    row = thread
//! ```

use ir::Order;
use ir::nest::{BufferId, Loop, Reduction};
use ir::order::BLOCK;
use ir::sched::is_flat;

use super::build::Control;
use super::emit::Emitter;
use super::fold::MergingCode;
use super::inst::{Address, Comparison, Opcode, Reg, Space, Special, Type};
use super::loops::{AT_ONCE, Axes};
use super::reduce::{SHARED, Shared, Sum};

const LENGTH: i64 = BLOCK as i64;
/// The most statements of a body that waits for loads more than it computes.
const LIGHT: usize = 8;

impl Emitter<'_> {
    /// A loop by the block of threads alone.
    pub(super) fn reduce_blocks(&mut self, l: &Loop, reductions: &[Reduction]) {
        let axes = self.axes(&l.dims, &l.body);
        let sums = self.sums(reductions);
        let memory = self.shared_of(&sums);
        let zero = self.int(0);
        let round = LENGTH * i64::from(self.mapping.threads);
        self.counted(zero, axes.total, round, |e, base| {
            e.add_up_blocks(&axes, base, l, reductions, &sums, &memory);
            for (sum, memory) in sums.iter().zip(&memory).filter(|(sum, _)| !sum.is(Order::Free)) {
                // Blocks without elements hold the identity.
                e.join_pairs(sum, memory.at);
            }
            let number = e.b().op2(Opcode::Shr, Type::U64, base, i64::from(round.ilog2()));
            e.push_first(number, &sums, &memory, 1, 1);
        });
        let count = self.ceil_div(axes.total, round);
        self.finish_together(count, reductions, &sums, &memory);
    }

    /// The share of the block of threads in a loop at the top of a kernel. The results of its
    /// blocks go to buffers.
    pub(super) fn reduce_blocks_apart(&mut self, l: &Loop, reductions: &[Reduction], buffers: &[BufferId]) {
        let axes = self.axes(&l.dims, &l.body);
        let mut sums = self.sums(reductions);
        // Each block has a result of its own, even if the order is free.
        sums.iter_mut().for_each(|sum| sum.order = Order::Blocks);
        if sums.iter().map(|sum| self.bytes_of(sum).0).sum::<usize>() > SHARED {
            return self.reduce_columns(l, buffers);
        }
        let memory = self.shared_of(&sums);
        let count = self.ceil_div(axes.total, LENGTH);
        let [thread, block, blocks] =
            [Special::Tid, Special::Ctaid, Special::Nctaid].map(|special| self.special(special));
        let threads = i64::from(self.mapping.threads);
        let first = self.b().op2(Opcode::Mul, Type::S64, block, threads);
        let step = self.b().op2(Opcode::Mul, Type::S64, blocks, threads);
        self.counted(first, count, step, |e, first| {
            let base = e.b().op2(Opcode::Mul, Type::S64, first, LENGTH);
            e.add_up_blocks(&axes, base, l, reductions, &sums, &memory);
            let number = e.b().op2(Opcode::Add, Type::S64, first, thread);
            let valid = e.b().set(Comparison::Lt, Type::S64, number, count);
            e.when(valid, |e| {
                for (sum, buffer) in sums.iter().zip(buffers) {
                    let values = sum.fold.values(e, &sum.state);
                    e.store_at(*buffer, number, values[0]);
                }
            });
        });
    }

    /// Adds up the blocks that begin with element `base`, one for each thread.
    fn add_up_blocks(
        &mut self,
        axes: &Axes,
        base: Reg,
        l: &Loop,
        reductions: &[Reduction],
        sums: &[Sum],
        memory: &[Shared],
    ) {
        let threads = i64::from(self.mapping.threads);
        let thread = self.special(Special::Tid);
        let sizes: Vec<i64> = sums.iter().map(|sum| sum.fold.bytes(self.program)).collect();
        let in_order = |k: &usize| !sums[*k].is(Order::Free);
        let ordered: Vec<usize> = (0..sums.len()).filter(in_order).collect();
        let columns = ordered.iter().map(|k| self.tile_columns(&sums[*k])).min().unwrap_or(1);
        ordered.iter().for_each(|k| sums[*k].fold.clear(self, &sums[*k].state));
        let left = self.b().op2(Opcode::Sub, Type::S64, axes.total, base);
        let rows = self.ceil_div(left, LENGTH);
        let most = self.int(threads);
        let rows = self.b().op2(Opcode::Min, Type::S64, rows, most);
        let row = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(columns.ilog2()));
        let column = self.b().op2(Opcode::And, Type::B64, thread, columns - 1);
        // Several elements of a flat body at a time, so that their loads overlap.
        let index = axes.only().filter(|_| is_flat(&l.body));
        let at_once = if l.body.len() <= LIGHT { AT_ONCE } else { 2 };
        let (apart, at_once) = (threads / columns, if index.is_some() { columns.min(at_once) } else { 1 });
        let (zero, length) = (self.int(0), self.int(LENGTH));
        self.counted(zero, length, columns, |e, tile| {
            let from = e.b().op2(Opcode::Add, Type::S64, base, tile);
            let first = e.b().op2(Opcode::Add, Type::S64, from, column);
            e.counted(row, rows, apart * at_once, |e, row| {
                let number = e.b().op(Opcode::Mad, Type::S64, &[row.into(), LENGTH.into(), first.into()]);
                let slot = e.b().op(Opcode::Mad, Type::S64, &[row.into(), (columns + 1).into(), column.into()]);
                let Some(index) = index else {
                    let valid = e.b().set(Comparison::Lt, Type::S64, number, axes.total);
                    return e.when(valid, |e| {
                        e.iteration(axes, number, &l.body);
                        for (k, (r, sum)) in reductions.iter().zip(sums).enumerate() {
                            let one = e.one(&r.inputs, number);
                            if sum.is(Order::Free) {
                                sum.fold.add(e, &sum.state, &one);
                            } else {
                                let at = e.b().element(Space::Shared, memory[k].at, slot, sizes[k]);
                                sum.fold.store(e, Space::Shared, &one, at);
                            }
                        }
                    });
                };
                let elements = e.thread_elements(number, axes.total, apart * LENGTH, at_once);
                let inputs = e.elements(index, &l.body, &elements, reductions);
                for (k, ((r, sum), values)) in reductions.iter().zip(sums).zip(&inputs).enumerate() {
                    let ones = e.ones(&r.inputs, values, &elements);
                    if sum.is(Order::Free) {
                        e.add_all(sum.fold, &ones, &elements, &sum.state);
                        continue;
                    }
                    let at = e.b().element(Space::Shared, memory[k].at, slot, sizes[k]);
                    for (number, one) in (0..).zip(&ones) {
                        let offset = at.offset + number * apart * (columns + 1) * sizes[k];
                        let store = |e: &mut Self| sum.fold.store(e, Space::Shared, one, Address { offset, ..at });
                        match elements.valid(number as usize) {
                            Some(valid) => e.when(valid, store),
                            None => store(e),
                        }
                    }
                }
            });
            e.b().barrier();
            let own = e.b().op(Opcode::Mad, Type::S64, &[thread.into(), LENGTH.into(), from.into()]);
            let left = e.b().op2(Opcode::Sub, Type::S64, axes.total, own);
            let any = e.b().set(Comparison::Gt, Type::S64, left, 0);
            let whole = e.b().set(Comparison::Ge, Type::S64, left, columns);
            e.when(any, |e| {
                let slot = e.b().op2(Opcode::Mul, Type::S64, thread, columns + 1);
                for k in &ordered {
                    let (fold, size) = (sums[*k].fold, sizes[*k]);
                    let at = e.b().element(Space::Shared, memory[*k].at, slot, size);
                    let add = |e: &mut Self, at: Address| {
                        let one = fold.load(e, Space::Shared, at);
                        fold.add(e, &sums[*k].state, &one);
                    };
                    e.either(
                        whole,
                        |e| (0..columns).for_each(|column| add(e, Address { offset: at.offset + column * size, ..at })),
                        |e| {
                            e.counted(zero, left, 1, |e, column| {
                                let slot = e.b().op2(Opcode::Add, Type::S64, slot, column);
                                let at = e.b().element(Space::Shared, memory[*k].at, slot, size);
                                add(e, at);
                            });
                        },
                    );
                }
            });
            e.b().barrier();
        });
    }

    /// The columns of the tile of a reduction.
    fn tile_columns(&self, sum: &Sum) -> i64 {
        let size = sum.fold.bytes(self.program) as usize;
        ir::sched::tile_columns(size, self.mapping.threads as usize) as i64
    }
}
