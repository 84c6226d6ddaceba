//! Reductions in the orders of `ir::order` by the threads of a block together. (`alone` has those
//! by one thread.)
//!
//! In the order by lanes, each group of 128 threads, one per lane, takes a chunk; the first warp of
//! the group merges the lanes through shared memory, registers and shuffles. The order by blocks is
//! in `blocks`. The first thread joins the results of all rounds by pairwise levels.

use ir::nest::{BufferId, IndexId, Input, Loop, Reduction, Statement, ValueId};
use ir::order::{Distribution, LANES, LANES_CHUNK, Scope};
use ir::sabotage::{self, Bug};
use ir::sched::{chunks_together, is_flat, reduction_bytes, tile_columns};
use ir::{Order, visit};

use super::build::Control;
use super::emit::Emitter;
use super::fold::{Levels, MergingCode, assign, number};
use super::inst::{Address, Comparison, Opcode, Reg, Space, Special, Type};
use super::loops::{AT_ONCE, Axes};
use super::state::ThreadElements;
use ir::merging::Merging;

pub(super) const CHUNK: i64 = LANES_CHUNK as i64;

/// A reduction in progress, as each thread sees it.
pub(super) struct Sum {
    pub(super) fold: Merging,
    pub(super) order: Order,
    /// The state of the thread so far.
    pub(super) state: Vec<Reg>,
}

impl Sum {
    pub(super) fn is(&self, order: Order) -> bool {
        self.order == order
    }
}

impl Emitter<'_> {
    pub(super) fn sums(&mut self, reductions: &[Reduction]) -> Vec<Sum> {
        let mut sums = vec![];
        for r in reductions {
            let fold = self.merging(r);
            let state = fold.variable(self);
            sums.push(Sum { fold, order: r.order, state });
        }
        sums
    }

    /// Runs an iteration of the loop and accumulates the element of each reduction.
    pub(super) fn take(&mut self, axes: &Axes, number: Reg, l: &Loop, reductions: &[Reduction], sums: &[Sum]) {
        self.iteration(axes, number, &l.body);
        for (r, sum) in reductions.iter().zip(sums) {
            let one = self.one(&r.inputs, number);
            sum.fold.add(self, &sum.state, &one);
        }
    }

    /// Accumulates several elements of each reduction.
    fn take_all(
        &mut self,
        index: IndexId,
        elements: &ThreadElements,
        l: &Loop,
        reductions: &[Reduction],
        sums: &[Sum],
    ) {
        let inputs = self.elements(index, &l.body, elements, reductions);
        for ((r, sum), values) in reductions.iter().zip(sums).zip(&inputs) {
            let ones = self.ones(&r.inputs, values, elements);
            self.add_all(sum.fold, &ones, elements, &sum.state);
        }
    }

    pub(super) fn define_results(&mut self, reductions: &[Reduction], sums: &[Sum]) {
        for (r, sum) in reductions.iter().zip(sums) {
            self.define_state(&r.results, sum.fold, &sum.state);
        }
    }

    /// Defines the values of a state.
    pub(super) fn define_state(&mut self, results: &[ValueId], fold: Merging, state: &[Reg]) {
        let values = fold.values(self, state);
        results.iter().zip(values).for_each(|(v, value)| self.define(*v, value));
    }

    /// How the states of a reduction are merged.
    pub(super) fn merging(&self, r: &Reduction) -> Merging {
        Merging::of(self.dtypes(), r)
    }

    /// The state that the element of iteration `number` is.
    pub(super) fn one(&mut self, inputs: &[Input], iteration: Reg) -> Vec<Reg> {
        let mut state = vec![];
        for input in inputs {
            let value = input.value().map_or(iteration, |value| self.value(value));
            state.push(number(self.b(), value));
        }
        state
    }

    pub(super) fn ceil_div(&mut self, count: Reg, by: i64) -> Reg {
        let sum = self.b().op2(Opcode::Add, Type::S64, count, by - 1);
        self.b().op2(Opcode::Shr, Type::U64, sum, i64::from(by.ilog2()))
    }

    pub(super) fn reduce_together(&mut self, l: &Loop, reductions: &[Reduction]) {
        let only = |order| reductions.iter().all(|r| r.order == order || r.order == Order::Free);
        let joins = l.dims.iter().any(|(index, _)| self.mapping.joins.contains(index));
        let passes = self.passes(reductions);
        // A value that is stored a second time may depend on elements that the first store has
        // overwritten.
        let again = passes.len() > 1 && !visit::stores(&l.body).is_empty();
        if again || !(joins || only(Order::Lanes) || only(Order::Blocks)) {
            let results: Vec<ValueId> = reductions.iter().flat_map(|r| r.results.iter().copied()).collect();
            self.one_for_all(&Statement::Loop(l.clone()), &results);
            return;
        }
        // A block of threads has a result for several chunks of the order by lanes, and for each
        // block of the order by blocks.
        let runs = self.mapping.runs && only(Order::Lanes);
        let run = if runs { chunks_together(self.program, self.dtypes(), reductions, SHARED) } else { 1 };
        for reductions in passes {
            if joins {
                self.join_chunks(l, reductions, run);
            } else if only(Order::Lanes) {
                self.reduce_chunks_together(l, reductions);
            } else {
                self.reduce_blocks(l, reductions);
            }
        }
        self.settle(&l.body);
    }

    /// The reductions in groups for which a block has enough shared memory.
    fn passes<'r>(&self, reductions: &'r [Reduction]) -> Vec<&'r [Reduction]> {
        let threads = self.mapping.threads as usize;
        let bytes = |r: &Reduction| reduction_bytes(self.program, self.dtypes(), r, threads);
        let (mut passes, mut begin, mut taken) = (vec![], 0, 0);
        for (k, r) in reductions.iter().enumerate() {
            if k > begin && taken + bytes(r) > SHARED {
                passes.push(&reductions[begin..k]);
                (begin, taken) = (k, 0);
            }
            taken += bytes(r);
        }
        passes.push(&reductions[begin..]);
        passes
    }

    /// In the order by lanes: each iteration takes a chunk for each group of threads.
    fn reduce_chunks_together(&mut self, l: &Loop, reductions: &[Reduction]) {
        let axes = self.axes(&l.dims, &l.body);
        let sums = self.sums(reductions);
        let memory = self.shared_of(&sums);
        let zero = self.int(0);
        let round = CHUNK * self.groups();
        self.counted(zero, axes.total, round, |e, base| {
            e.chunk(&axes, base, l, reductions, &sums);
            e.fold_chunk(&sums, &memory);
            let number = e.b().op2(Opcode::Shr, Type::U64, base, i64::from(round.ilog2()));
            e.push_first(number, &sums, &memory, e.groups(), LANES as i64);
        });
        let count = self.ceil_div(axes.total, round);
        self.finish_together(count, reductions, &sums, &memory);
    }

    /// A row with its beginning in the threads' registers, and its result: a chunk in each group;
    /// the other chunks follow.
    pub(super) fn reduce_long(
        &mut self,
        l: &Loop,
        reductions: &[Reduction],
        (inputs, elements): (&[Vec<Vec<Reg>>], &ThreadElements),
        length: i64,
    ) {
        let axes = self.axes(&l.dims, &l.body);
        let sums = self.sums(reductions);
        let memory = self.shared_of(&sums);
        for (((r, sum), values), memory) in reductions.iter().zip(&sums).zip(inputs).zip(&memory) {
            let ones = self.ones(&r.inputs, values, elements);
            self.add_all(sum.fold, &ones, elements, &sum.state);
            if !sum.is(Order::Free) {
                self.fold_lanes(sum, memory.at);
            }
        }
        let (zero, held) = (self.int(0), self.int(length));
        self.push_first(zero, &sums, &memory, self.groups(), LANES as i64);
        self.beyond_registers(|e| {
            e.counted(held, axes.total, length, |e, base| {
                e.chunk(&axes, base, l, reductions, &sums);
                e.fold_chunk(&sums, &memory);
                let number = e.b().op2(Opcode::Shr, Type::U64, base, i64::from(length.ilog2()));
                e.push_first(number, &sums, &memory, e.groups(), LANES as i64);
            });
        });
        let count = self.ceil_div(axes.total, length);
        self.finish_together(count, reductions, &sums, &memory);
    }

    /// Reduces the block's share of the chunks of a loop at the top of a kernel. The results go to
    /// buffers.
    pub(super) fn reduce_chunks(&mut self, l: &Loop, reductions: &[Reduction], buffers: &[BufferId]) {
        let axes = self.axes(&l.dims, &l.body);
        let sums = self.sums(reductions);
        // The reductions are merged one after another in the same memory.
        let bytes = sums.iter().map(|sum| sum.fold.bytes(self.program)).max().unwrap_or(0) as usize
            * self.mapping.threads as usize;
        let at = self.b().take(Space::Shared, bytes);
        let run = CHUNK * self.groups();
        let count = self.ceil_div(axes.total, run);
        let (block, blocks) = (self.special(Special::Ctaid), self.special(Special::Nctaid));
        self.counted(block, count, blocks, |e, number| {
            let base = e.b().op2(Opcode::Shl, Type::B64, number, i64::from(run.ilog2()));
            for sum in &sums {
                sum.fold.clear(e, &sum.state);
            }
            e.chunk(&axes, base, l, reductions, &sums);
            let first = e.is_first();
            for (sum, buffer) in sums.iter().zip(buffers) {
                let free = sum.is(Order::Free).then(|| e.join_threads(sum.fold, sum.state.clone(), at));
                if free.is_none() {
                    e.fold_lanes(sum, at);
                }
                e.when(first, |e| {
                    let state = free.unwrap_or_else(|| e.joined(sum, at, e.groups(), LANES as i64));
                    let values = sum.fold.values(e, &state);
                    e.store_at(*buffer, number, values[0]);
                });
                e.b().barrier();
            }
        });
        self.b().give_back(Space::Shared, bytes);
    }

    /// The number of groups of 128 threads.
    fn groups(&self) -> i64 {
        i64::from(self.mapping.threads) / LANES as i64
    }

    /// Accumulates a chunk for each group: each thread has a lane.
    fn chunk(&mut self, axes: &Axes, base: Reg, l: &Loop, reductions: &[Reduction], sums: &[Sum]) {
        let thread = self.special(Special::Tid);
        let (mut base, mut lane) = (base, thread);
        if self.groups() > 1 {
            let group = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(LANES.ilog2()));
            lane = self.b().op2(Opcode::And, Type::B64, thread, LANES as i64 - 1);
            base = self.b().op(Opcode::Mad, Type::S64, &[group.into(), CHUNK.into(), base.into()]);
        }
        let first = self.b().op2(Opcode::Add, Type::S64, base, lane);
        let end = self.b().op2(Opcode::Add, Type::S64, base, CHUNK);
        let end = self.b().op2(Opcode::Min, Type::S64, end, axes.total);
        for sum in sums.iter().filter(|sum| !sum.is(Order::Free)) {
            sum.fold.clear(self, &sum.state);
        }
        match axes.only().filter(|_| is_flat(&l.body)) {
            Some(index) => {
                // With few loads per element there are registers for more elements.
                let loads = visit::loads(&l.body).len();
                let count = if loads < 2 { 2 * AT_ONCE } else { AT_ONCE };
                self.counted(first, end, LANES as i64 * count, |e, number| {
                    let elements = e.thread_elements(number, end, LANES as i64, count);
                    e.take_all(index, &elements, l, reductions, sums);
                });
            }
            None => self.counted(first, end, LANES as i64, |e, number| e.take(axes, number, l, reductions, sums)),
        }
    }

    /// Merges the lanes of the reductions that have an order. Each group's result is in its first
    /// slot of shared memory.
    fn fold_chunk(&mut self, sums: &[Sum], memory: &[Shared]) {
        for (sum, memory) in sums.iter().zip(memory).filter(|(sum, _)| !sum.is(Order::Free)) {
            self.fold_lanes(sum, memory.at);
        }
    }

    /// The size of a slot of shared memory, and the address of slot `number`.
    pub(super) fn place(&mut self, sum: &Sum, at: i64, number: Reg) -> (i64, Address) {
        let size = sum.fold.bytes(self.program);
        (size, self.b().element(Space::Shared, at, number, size))
    }

    /// Merges the lanes of each group's chunk; the result is in the group's first place of shared
    /// memory.
    fn fold_lanes(&mut self, sum: &Sum, at: i64) {
        let fold = sum.fold;
        let thread = self.special(Special::Tid);
        let (size, place) = self.place(sum, at, thread);
        fold.store(self, Space::Shared, &sum.state, place);
        if !sabotage::on(Bug::LanesBarrier) {
            self.b().barrier();
        }
        let lane = self.b().op2(Opcode::And, Type::B64, thread, LANES as i64 - 1);
        let warp = self.b().set(Comparison::Lt, Type::S64, lane, 32);
        self.when(warp, |e| {
            let state = e.merge_stored_lanes(fold, place, size);
            let first = e.b().set(Comparison::Eq, Type::S64, lane, 0);
            e.when(first, |e| fold.store(e, Space::Shared, &state, place));
        });
        self.b().barrier();
    }

    /// The values in this many places of shared memory, at a constant distance, merged in pairs.
    fn joined(&mut self, sum: &Sum, at: i64, places: i64, apart: i64) -> Vec<Reg> {
        let size = sum.fold.bytes(self.program);
        let place = |k: i64| Address { base: None, offset: at + k * apart * size };
        let states = (0..places).map(|k| sum.fold.load(self, Space::Shared, place(k))).collect();
        self.join_in_thread(sum.fold, states)
    }

    /// The first thread takes the ordered values in this many places, at a constant distance, as
    /// partial result `number`.
    pub(super) fn push_first(&mut self, number: Reg, sums: &[Sum], memory: &[Shared], places: i64, apart: i64) {
        if sums.iter().all(|sum| sum.is(Order::Free)) {
            return;
        }
        let first = self.is_first();
        self.when(first, |e| {
            for (sum, memory) in sums.iter().zip(memory).filter(|(sum, _)| !sum.is(Order::Free)) {
                let state = e.joined(sum, memory.at, places, apart);
                memory.levels.push(e, number, &state);
            }
        });
        self.b().barrier();
    }

    /// The results of runs of this many chunks: each thread has several, at a distance of the
    /// block's threads; warps merge neighbours, and then the results of warps are merged.
    fn join_chunks(&mut self, l: &Loop, reductions: &[Reduction], run: i64) {
        let axes = self.axes(&l.dims, &l.body);
        let Some(index) = axes.only() else { unreachable!("results of chunks have one index") };
        let runs = self.ceil_div(axes.total, run);
        let sums = self.sums(reductions);
        let memory = self.shared_of(&sums);
        let (zero, thread, threads) = (self.int(0), self.special(Special::Tid), i64::from(self.mapping.threads));
        let round = threads * AT_ONCE;
        self.counted(zero, runs, round, |e, base| {
            let first = e.b().op2(Opcode::Add, Type::S64, base, thread);
            let elements = e.thread_elements(first, runs, threads, AT_ONCE);
            let inputs = e.elements(index, &l.body, &elements, reductions);
            for (((r, sum), values), memory) in reductions.iter().zip(&sums).zip(&inputs).zip(&memory) {
                let ones = e.ones(&r.inputs, values, &elements);
                if sum.is(Order::Free) {
                    e.add_all(sum.fold, &ones, &elements, &sum.state);
                } else {
                    e.join_warps(sum, &ones, &elements, memory.at);
                }
            }
            let number = e.b().op2(Opcode::Shr, Type::U64, base, i64::from(round.ilog2()));
            e.push_first(number, &sums, &memory, AT_ONCE * threads / (32 * 32), 1);
        });
        let count = self.ceil_div(runs, round);
        self.finish_together(count, reductions, &sums, &memory);
    }

    /// Joins neighbouring results of the threads in two rounds, by warps and then by the results of
    /// warps. The results are in the first slots of shared memory.
    fn join_warps(&mut self, sum: &Sum, ones: &[Vec<Reg>], elements: &ThreadElements, at: i64) {
        let fold = sum.fold;
        let thread = self.special(Special::Tid);
        let warps = i64::from(self.mapping.threads) / 32;
        let warp = self.b().op2(Opcode::Shr, Type::U64, thread, 5);
        let place = self.b().op2(Opcode::And, Type::B64, thread, 31);
        let head = self.b().set(Comparison::Eq, Type::S64, place, 0);
        let (size, own) = self.place(sum, at, warp);
        for (k, one) in (0..).zip(ones) {
            let state = fold.variable(self);
            self.add_where(fold, elements.valid(k), &state, one);
            let state = self.join_in_warp(fold, state);
            let own = Address { offset: own.offset + k as i64 * warps * size, ..own };
            self.when(head, |e| fold.store(e, Space::Shared, &state, own));
        }
        self.b().barrier();
        let again = self.b().set(Comparison::Lt, Type::S64, thread, AT_ONCE * warps);
        let joined = fold.variable(self);
        self.when(again, |e| {
            let (_, from) = e.place(sum, at, thread);
            let state = fold.load(e, Space::Shared, from);
            let state = e.join_in_warp(fold, state);
            assign(e.b(), &joined, &state);
        });
        self.b().barrier();
        let leads = self.b().op2(Opcode::And, Type::Pred, again, head);
        self.when(leads, |e| fold.store(e, Space::Shared, &joined, own));
        self.b().barrier();
    }

    /// Joins the states of neighbouring threads in shared memory; the result is in the first place.
    pub(super) fn join_pairs(&mut self, sum: &Sum, at: i64) {
        let fold = sum.fold;
        let thread = self.special(Special::Tid);
        let (size, place) = self.place(sum, at, thread);
        fold.store(self, Space::Shared, &sum.state, place);
        let over = Distribution::new([Scope::Block.of(self.mapping.threads as usize)]);
        for step in Order::Blocks.tree().join_steps(&over) {
            let distance = step.distance as i64;
            self.b().barrier();
            let own = self.b().op2(Opcode::And, Type::B64, thread, 2 * distance - 1);
            let joins = self.b().set(Comparison::Eq, Type::S64, own, 0);
            self.when(joins, |e| {
                let own = fold.load(e, Space::Shared, place);
                let other = Address { offset: place.offset + size * distance, ..place };
                let other = fold.load(e, Space::Shared, other);
                let joined = fold.merge(e, &own, &other);
                fold.store(e, Space::Shared, &joined, place);
            });
        }
        self.b().barrier();
    }

    /// The results of `count` partial results, in all threads.
    pub(super) fn finish_together(&mut self, count: Reg, reductions: &[Reduction], sums: &[Sum], memory: &[Shared]) {
        for (sum, memory) in sums.iter().zip(memory) {
            if sum.is(Order::Free) {
                let joined = self.join_threads(sum.fold, sum.state.clone(), memory.at);
                assign(self.b(), &sum.state, &joined);
                continue;
            }
            let first = self.is_first();
            self.when(first, |e| {
                let state = memory.levels.finish(e, count);
                sum.fold.store(e, Space::Shared, &state, Address { base: None, offset: memory.at });
            });
        }
        self.b().barrier();
        for (sum, memory) in sums.iter().zip(memory).filter(|(sum, _)| !sum.is(Order::Free)) {
            let state = sum.fold.load(self, Space::Shared, Address { base: None, offset: memory.at });
            assign(self.b(), &sum.state, &state);
        }
        // Later code may use the memory for other purposes.
        self.b().barrier();
        self.define_results(reductions, sums);
        self.free_shared(sums);
    }

    /// Takes shared memory for reductions.
    pub(super) fn shared_of(&mut self, sums: &[Sum]) -> Vec<Shared> {
        let mut memory = vec![];
        for sum in sums {
            let (slots, levels) = self.bytes_of(sum);
            let at = self.b().take(Space::Shared, slots);
            let levels = self.b().take(Space::Shared, levels);
            memory.push(Shared { at, levels: Levels { fold: sum.fold, space: Space::Shared, at: levels } });
        }
        memory
    }

    fn free_shared(&mut self, sums: &[Sum]) {
        for sum in sums.iter().rev() {
            let (slots, levels) = self.bytes_of(sum);
            self.b().give_back(Space::Shared, levels);
            self.b().give_back(Space::Shared, slots);
        }
    }

    /// The bytes of the slots of a reduction, and of its levels.
    pub(super) fn bytes_of(&self, sum: &Sum) -> (usize, usize) {
        let (size, threads) = (sum.fold.bytes(self.program) as usize, self.mapping.threads as usize);
        let columns = if sum.is(Order::Blocks) { tile_columns(size, threads) + 1 } else { 1 };
        (size * threads * columns, Levels::bytes(sum.fold, self.program))
    }
}

/// The shared memory of a reduction: a slot for each thread, or a row of a tile, and the levels.
pub(super) struct Shared {
    pub(super) at: i64,
    pub(super) levels: Levels,
}

/// The bytes of shared memory for reductions: a little less than a block has by default.
pub(super) const SHARED: usize = 40 << 10;
