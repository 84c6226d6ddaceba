//! Collective operations: the threads of a warp, a block or a cluster merge what each has of a row,
//! by the steps of an order's tree.

use ir::Order;
use ir::nest::Input;
use ir::order::{Distribution, Scope, Step};

use super::build::Control;
use super::emit::Emitter;
use super::fold::{MergingCode, assign, further, number, shuffled};
use super::inst::{Address, Comparison, Opcode, Reg, Rounding, Shuffle, Space, Special, Type};
use super::rows::{GROUP, WARP};
use super::state::ThreadElements;
use ir::merging::Merging;

/// The lanes of a chunk that each thread of a warp has.
const LANES_OF_THREAD: i64 = GROUP / WARP;

impl Emitter<'_> {
    /// The states of elements, from the values of each.
    pub(super) fn ones(&mut self, inputs: &[Input], values: &[Vec<Reg>], elements: &ThreadElements) -> Vec<Vec<Reg>> {
        let mut iteration = elements.first;
        let mut ones = vec![];
        for (k, values) in values.iter().enumerate() {
            if k > 0 && inputs.contains(&Input::Number) {
                iteration = self.b().op2(Opcode::Add, Type::S64, iteration, elements.stride);
            }
            let mut values = values.iter();
            let mut state = vec![];
            for input in inputs {
                let value = match input {
                    Input::Value(_) => values.next().copied(),
                    Input::Number => Some(iteration),
                };
                state.extend(value.map(|value| number(self.b(), value)));
            }
            ones.push(state);
        }
        ones
    }

    /// Merges `more` into a variable state if a predicate is true.
    pub(super) fn add_where(&mut self, fold: Merging, valid: Option<Reg>, state: &[Reg], more: &[Reg]) {
        let sum = fold.merge(self, state, more);
        match valid {
            Some(valid) => self.b().guarded(valid, |b| assign(b, state, &sum)),
            None => assign(self.b(), state, &sum),
        }
    }

    /// Merges the valid elements of a thread into a state.
    pub(super) fn add_all(&mut self, fold: Merging, ones: &[Vec<Reg>], elements: &ThreadElements, state: &[Reg]) {
        for (k, one) in ones.iter().enumerate() {
            self.add_where(fold, elements.valid(k), state, one);
        }
    }

    /// Merges the states of a thread and those of the other threads of its warp, which are
    /// distributed over registers and threads. The first thread's first state becomes the result,
    /// which is returned.
    fn merge_by(&mut self, steps: Vec<Step>, fold: Merging, mut states: Vec<Vec<Reg>>) -> Vec<Reg> {
        for step in steps {
            if step.scope == Scope::Warp {
                let other = further(self.b(), &states[0], u32::try_from(step.distance).expect("a few threads"));
                states[0] = fold.merge(self, &states[0], &other);
                continue;
            }
            for (k, other) in step.pairs() {
                states[k] = fold.merge(self, &states[k], &states[other]);
            }
        }
        states.swap_remove(0)
    }

    /// Merges the lanes of a chunk: each thread of a warp has every 32nd. The first thread returns
    /// the result.
    pub(super) fn merge_lanes(&mut self, fold: Merging, lanes: Vec<Vec<Reg>>) -> Vec<Reg> {
        let over = Distribution::new([Scope::Warp.of(WARP as usize), Scope::Register.of(lanes.len())]);
        self.merge_by(Order::Lanes.tree().steps(&over), fold, lanes)
    }

    /// Merges the states of a warp's threads in any order. The first thread returns the result.
    fn merge_free(&mut self, fold: Merging, state: Vec<Reg>) -> Vec<Reg> {
        let over = Distribution::new([Scope::Warp.of(WARP as usize)]);
        self.merge_by(Order::Free.tree().steps(&over), fold, vec![state])
    }

    /// Joins the results of neighbouring chunks or blocks, which the threads of a warp have. The
    /// first thread returns the result.
    pub(super) fn join_in_warp(&mut self, fold: Merging, state: Vec<Reg>) -> Vec<Reg> {
        let over = Distribution::new([Scope::Warp.of(WARP as usize)]);
        self.merge_by(Order::Lanes.tree().join_steps(&over), fold, vec![state])
    }

    /// Reduces the row of a warp: each thread has the elements of every 32nd lane. All threads
    /// return the result.
    pub(super) fn fold_in_warp(&mut self, fold: Merging, ones: &[Vec<Reg>], elements: &ThreadElements) -> Vec<Reg> {
        let lanes: Vec<Vec<Reg>> = (0..LANES_OF_THREAD).map(|_| fold.variable(self)).collect();
        for (one, (k, lane)) in ones.iter().zip((0..lanes.len()).cycle().enumerate()) {
            self.add_where(fold, elements.valid(k), &lanes[lane], one);
        }
        let state = self.merge_lanes(fold, lanes);
        shuffled(self.b(), &state, Shuffle::Of, 0)
    }

    /// Reduces the row of a block in any order. All threads return the result.
    pub(super) fn fold_in_block(&mut self, fold: Merging, ones: &[Vec<Reg>], elements: &ThreadElements) -> Vec<Reg> {
        let state = fold.variable(self);
        self.add_all(fold, ones, elements, &state);
        let size = fold.bytes(self.program);
        let at = self.b().take(Space::Shared, (WARP * size) as usize);
        self.join_threads(fold, state, at)
    }

    /// Merges the states of a block's threads in any order, through a slot of shared memory per
    /// warp. All threads return the result.
    pub(super) fn join_threads(&mut self, fold: Merging, state: Vec<Reg>, at: i64) -> Vec<Reg> {
        let state = self.merge_free(fold, state);
        let size = fold.bytes(self.program);
        let (thread, threads) = (self.special(Special::Tid), self.special(Special::Ntid));
        let [warp, warps] = [thread, threads].map(|n| self.b().op2(Opcode::Shr, Type::U64, n, 5));
        let place = self.b().op2(Opcode::And, Type::B64, thread, WARP - 1);
        let first = self.b().set(Comparison::Eq, Type::S64, place, 0);
        self.when(first, |e| {
            let own = e.b().element(Space::Shared, at, warp, size);
            fold.store(e, Space::Shared, &state, own);
        });
        self.b().barrier();
        let state = fold.variable(self);
        let some = self.b().set(Comparison::Lt, Type::S64, place, warps);
        self.when(some, |e| {
            let other = e.b().element(Space::Shared, at, place, size);
            let other = fold.load(e, Space::Shared, other);
            assign(e.b(), &state, &other);
        });
        let state = self.merge_free(fold, state);
        shuffled(self.b(), &state, Shuffle::Of, 0)
    }

    /// Reduces the row of a block in the order by lanes: each group merges the lanes of its chunk,
    /// and each thread joins the chunks.
    pub(super) fn fold_in_groups(&mut self, fold: Merging, ones: &[Vec<Reg>], elements: &ThreadElements) -> Vec<Reg> {
        let Some((at, groups)) = self.row.as_ref().map(|row| (row.lanes, row.layout.groups())) else { return vec![] };
        let size = fold.bytes(self.program);
        let whole = fold.place(self.program);
        let chunks = self.b().take(Space::Shared, (groups * whole) as usize);
        let state = fold.variable(self);
        self.add_all(fold, ones, elements, &state);
        let thread = self.special(Special::Tid);
        let (group, lane) = self.group_and_lane();
        let place = self.b().element(Space::Shared, at, thread, size);
        fold.store(self, Space::Shared, &state, place);
        self.b().barrier();
        let in_first = self.b().set(Comparison::Lt, Type::S64, lane, WARP);
        self.when(in_first, |e| {
            let state = e.merge_stored_lanes(fold, place, size);
            let first = e.b().set(Comparison::Eq, Type::S64, lane, 0);
            e.when(first, |e| {
                let own = e.b().element(Space::Shared, chunks, group, whole);
                fold.store(e, Space::Shared, &state, own);
            });
        });
        self.b().barrier();
        let result = |k: i64| Address { base: None, offset: chunks + k * whole };
        let first = fold.load(self, Space::Shared, result(0));
        if groups == 1 {
            return first;
        }
        let all: Vec<Reg> = first.into_iter().map(|reg| self.b().copy(reg)).collect();
        let threads = self.special(Special::Ntid);
        let several = self.b().set(Comparison::Gt, Type::S64, threads, GROUP);
        self.when(several, |e| {
            let mut states = vec![all.clone()];
            for k in 1..groups {
                let state = fold.variable(e);
                let exists = e.b().set(Comparison::Gt, Type::S64, threads, k * GROUP);
                e.when(exists, |e| {
                    let loaded = fold.load(e, Space::Shared, result(k));
                    assign(e.b(), &state, &loaded);
                });
                states.push(state);
            }
            let joined = e.join_in_thread(fold, states);
            assign(e.b(), &all, &joined);
        });
        all
    }

    /// Merges the lanes of a chunk, which lie in shared memory, `size` bytes apart: `place` is that
    /// of a thread of the chunk's first warp. Its first thread returns the result.
    pub(super) fn merge_stored_lanes(&mut self, fold: Merging, place: Address, size: i64) -> Vec<Reg> {
        let lane = |k: i64| Address { offset: place.offset + WARP * size * k, ..place };
        let lanes = (0..LANES_OF_THREAD).map(|k| fold.load(self, Space::Shared, lane(k))).collect();
        self.merge_lanes(fold, lanes)
    }

    /// Joins the states of a cluster's blocks, which have an eighth of a row each. All blocks
    /// return the result.
    pub(super) fn fold_in_cluster(&mut self, fold: Merging, state: &[Reg]) -> Vec<Reg> {
        let blocks = i64::from(self.mapping.cluster);
        let size = fold.place(self.program);
        let at = self.b().take(Space::Shared, (blocks * size) as usize);
        let [thread, rank] = [Special::Tid, Special::ClusterCtarank].map(|s| self.special(s));
        let sends = self.b().set(Comparison::Lt, Type::S64, thread, blocks);
        self.when(sends, |e| {
            let own = e.b().element(Space::Shared, at, rank, size);
            let whose = e.b().convert(Rounding::Exact, Type::U32, Type::U64, thread);
            let base = own.base.map(|base| e.b().op2(Opcode::Mapa, Type::U64, base, whose));
            fold.store(e, Space::Cluster, state, Address { base, ..own });
        });
        self.sync();
        let place = |k: i64| Address { base: None, offset: at + k * size };
        let states = (0..blocks).map(|k| fold.load(self, Space::Shared, place(k))).collect();
        self.join_in_thread(fold, states)
    }

    /// Joins the results of neighbouring chunks, a power of two, which a thread has.
    pub(super) fn join_in_thread(&mut self, fold: Merging, states: Vec<Vec<Reg>>) -> Vec<Reg> {
        let over = Distribution::new([Scope::Register.of(states.len())]);
        self.merge_by(Order::Lanes.tree().join_steps(&over), fold, states)
    }
}
