//! Reductions by one thread, in each of the orders.

use ir::Order;
use ir::nest::{Loop, Reduction, Statement};
use ir::order::{BLOCK, LANES, LANES_CHUNK};
use ir::sabotage::{self, Bug};

use super::build::Control;
use super::emit::Emitter;
use super::fold::{Levels, MergingCode, assign};
use super::inst::{Comparison, Opcode, Reg, Rounding, Space, Type};
use super::loops::Axes;
use super::reduce::{CHUNK, Sum};
use super::state::Running;
use ir::merging::Merging;

/// The number of lanes whose elements a thread computes at once, a power of two, and the most
/// statements for an element and the most reductions for which it does.
pub(super) const SEVERAL: i64 = 16;
const MOST_STATEMENTS: usize = 12;
const MOST_SUMS: usize = 4;

/// A loop with reductions in the order by lanes, as one thread goes through it.
struct Alone<'r> {
    l: &'r Loop,
    reductions: &'r [Reduction],
    axes: Axes,
    sums: Vec<Sum>,
}

/// The elements of several lanes: the first, the distance between them, and the end of all.
struct Span {
    first: Reg,
    end: Reg,
    stride: i64,
}

/// The lanes of a chunk that may have elements, a power of two.
struct FewLanes {
    count: Reg,
    /// How far a number with its bits reversed is shifted to be that of a lane.
    shift: Reg,
    /// The level at which one result is left.
    depth: Reg,
}

impl Emitter<'_> {
    pub(super) fn reduce_alone(&mut self, l: &Loop, reductions: &[Reduction]) {
        let (lanes, others): (Vec<_>, Vec<_>) = reductions.iter().cloned().partition(|r| r.order == Order::Lanes);
        if !others.is_empty() || lanes.is_empty() {
            self.reduce_ascending(l, &others);
        }
        if !lanes.is_empty() {
            self.reduce_lanes(l, &lanes);
        }
    }

    /// Accumulates one element after another.
    fn reduce_ascending(&mut self, l: &Loop, reductions: &[Reduction]) {
        let axes = self.axes(&l.dims, &l.body);
        let sums = self.sums(reductions);
        let mut levels = vec![];
        let mut running = vec![];
        for sum in &sums {
            let bytes = Levels::bytes(sum.fold, self.program);
            let at = sum.is(Order::Blocks).then(|| self.b().take(Space::Local, bytes));
            levels.push(at.map(|at| Levels { fold: sum.fold, space: Space::Local, at }));
            running.push(sum.is(Order::Scan).then(|| Running::new(self, sum.fold)));
        }
        let zero = self.int(0);
        let each = |e: &mut Self, number: Reg| {
            e.iteration(&axes, number, &l.body);
            for (((r, sum), levels), running) in reductions.iter().zip(&sums).zip(&levels).zip(&running) {
                let one = e.one(&r.inputs, number);
                if let Some(running) = running {
                    let prefix = running.take(e, &one, number);
                    assign(e.b(), &sum.state, &prefix);
                    continue;
                }
                sum.fold.add(e, &sum.state, &one);
                if let Some(levels) = levels {
                    let place = e.b().op2(Opcode::And, Type::B64, number, BLOCK as i64 - 1);
                    let full = e.b().set(Comparison::Eq, Type::S64, place, BLOCK as i64 - 1);
                    e.when(full, |e| {
                        let block = e.b().op2(Opcode::Shr, Type::U64, number, i64::from(BLOCK.ilog2()));
                        levels.push(e, block, &sum.state);
                        sum.fold.clear(e, &sum.state);
                    });
                }
            }
        };
        self.holding_rows(l, |e| e.counted(zero, axes.total, 1, each));
        for (sum, levels) in sums.iter().zip(&levels) {
            let Some(levels) = levels else { continue };
            let rest = self.b().op2(Opcode::And, Type::B64, axes.total, BLOCK as i64 - 1);
            let some = self.b().set(Comparison::Ne, Type::S64, rest, 0);
            let whole = self.b().op2(Opcode::Shr, Type::U64, axes.total, i64::from(BLOCK.ilog2()));
            if !sabotage::on(Bug::PtxRest) {
                self.when(some, |e| levels.push(e, whole, &sum.state));
            }
            let blocks = self.ceil_div(axes.total, BLOCK as i64);
            let state = levels.finish(self, blocks);
            assign(self.b(), &sum.state, &state);
        }
        self.define_results(reductions, &sums);
        for levels in levels.iter().rev().zip(running.iter().rev()) {
            match levels {
                (Some(levels), _) => {
                    let bytes = Levels::bytes(levels.fold, self.program);
                    self.b().give_back(Space::Local, bytes);
                }
                (_, Some(running)) => running.give_back(self),
                (None, None) => {}
            }
        }
    }

    /// In the order by lanes.
    fn reduce_lanes(&mut self, l: &Loop, reductions: &[Reduction]) {
        let (axes, sums) = (self.axes(&l.dims, &l.body), self.sums(reductions));
        let alone = Alone { l, reductions, axes, sums };
        if l.dims.first().is_some_and(|(index, _)| self.holds_along(*index)) {
            self.few_lanes(&alone);
        } else if self.takes_several(l, reductions) {
            let few = self.b().set(Comparison::Le, Type::S64, alone.axes.total, SEVERAL);
            self.either(
                few,
                |e| e.few_lanes(&alone),
                |e| e.go_through_lanes(&alone, |e, base, end, memory| e.several_lanes(&alone, base, end, memory)),
            );
        } else {
            let is_fold = alone.sums.iter().all(|sum| matches!(sum.fold, Merging::Fold(_)));
            self.go_through_lanes(&alone, |e, base, end, memory| {
                let lanes = e.lanes_of(base, end, is_fold);
                e.each_lane(&alone, base, end, &lanes, memory);
                lanes.depth
            });
        }
        self.define_results(reductions, &alone.sums);
    }

    /// Whether a thread may compute the elements of several lanes at once: there is code for each,
    /// and the states of the lanes are in registers.
    pub(super) fn takes_several(&self, l: &Loop, reductions: &[Reduction]) -> bool {
        let lets = l.body.iter().all(|s| matches!(s, Statement::Let { .. }) && !s.may_fault());
        let is_fold = |r: &Reduction| matches!(self.merging(r), Merging::Fold(_));
        let folds = reductions.len() <= MOST_SUMS && reductions.iter().all(is_fold);
        let apart = self.row.is_none() && self.masks.valid.is_none() && self.addresses.is_free();
        lets && folds && apart && l.body.len() <= MOST_STATEMENTS && l.dims.len() == 1
    }

    /// At most as many elements as a thread computes at once, each in a lane of its own.
    fn few_lanes(&mut self, alone: &Alone<'_>) {
        let zero = self.int(0);
        let states = self.empty_lanes(&alone.sums);
        self.take_several(alone, &states, Span { first: zero, end: alone.axes.total, stride: 1 });
        for (sum, states) in alone.sums.iter().zip(states) {
            let state = self.merge_halves(sum.fold, states);
            assign(self.b(), &sum.state, &state);
        }
    }

    /// States for several lanes of each reduction, without elements.
    fn empty_lanes(&mut self, sums: &[Sum]) -> Vec<Vec<Vec<Reg>>> {
        sums.iter().map(|sum| (0..SEVERAL).map(|_| sum.fold.variable(self)).collect()).collect()
    }

    /// Merges an element into the state of each of several lanes, where there is one.
    fn take_several(&mut self, alone: &Alone<'_>, states: &[Vec<Vec<Reg>>], span: Span) {
        let Alone { l, reductions, sums, .. } = alone;
        let elements = self.thread_elements(span.first, span.end, span.stride, SEVERAL);
        let inputs = self.elements(l.dims[0].0, &l.body, &elements, reductions);
        for (((r, sum), values), states) in reductions.iter().zip(sums).zip(&inputs).zip(states) {
            let ones = self.ones(&r.inputs, values, &elements);
            for (place, (state, one)) in states.iter().zip(&ones).enumerate() {
                self.add_where(sum.fold, elements.valid(place), state, one);
            }
        }
    }

    /// The result of lanes: those of the upper half are merged into those of the lower one.
    fn merge_halves(&mut self, fold: Merging, mut states: Vec<Vec<Reg>>) -> Vec<Reg> {
        while states.len() > 1 {
            let upper = states.split_off(states.len() / 2);
            states = states.iter().zip(&upper).map(|(x, y)| fold.merge(self, x, y)).collect();
        }
        states.swap_remove(0)
    }

    /// The lanes of a chunk from `base` to `end`, every few ones together. Returns the level at
    /// which their result is.
    fn several_lanes(&mut self, alone: &Alone<'_>, base: Reg, end: Reg, memory: &[(Levels, Levels)]) -> Reg {
        let stride = LANES as i64 / SEVERAL;
        let (zero, groups) = (self.int(0), self.int(stride));
        self.counted(zero, groups, 1, |e, group| {
            let reversed = e.b().op(Opcode::Brev, Type::B64, &[group.into()]);
            let lane = e.b().op2(Opcode::Shr, Type::U64, reversed, 64 - i64::from(stride.ilog2()));
            let first = e.b().op2(Opcode::Add, Type::S64, base, lane);
            let states = e.empty_lanes(&alone.sums);
            e.counted(first, end, LANES as i64, |e, first| {
                e.take_several(alone, &states, Span { first, end, stride });
            });
            for ((sum, (lanes, _)), states) in alone.sums.iter().zip(memory).zip(states) {
                let state = e.merge_halves(sum.fold, states);
                lanes.push(e, group, &state);
            }
        });
        self.int(i64::from(stride.ilog2()))
    }

    /// The lanes of a chunk, one after another, in an order in which the results can be pushed to
    /// pairwise levels.
    fn each_lane(&mut self, alone: &Alone<'_>, base: Reg, end: Reg, lanes: &FewLanes, memory: &[(Levels, Levels)]) {
        let Alone { l, reductions, axes, sums } = alone;
        let zero = self.int(0);
        self.counted(zero, lanes.count, 1, |e, turn| {
            // Halves of the lanes are pairs of the lanes with their bits reversed.
            let reversed = e.b().op(Opcode::Brev, Type::B64, &[turn.into()]);
            let lane = e.b().op2(Opcode::Shr, Type::U64, reversed, lanes.shift);
            let first = e.b().op2(Opcode::Add, Type::S64, base, lane);
            sums.iter().for_each(|sum| sum.fold.clear(e, &sum.state));
            e.counted(first, end, LANES as i64, |e, number| e.take(axes, number, l, reductions, sums));
            for (sum, (lanes, _)) in sums.iter().zip(memory) {
                lanes.push(e, turn, &sum.state);
            }
        });
    }

    /// Chunk after chunk, each from its first element to its end: `chunk` has the results of lanes
    /// at pairwise levels, and tells the level at which one is left.
    fn go_through_lanes(
        &mut self,
        alone: &Alone<'_>,
        chunk: impl FnOnce(&mut Self, Reg, Reg, &[(Levels, Levels)]) -> Reg,
    ) {
        let Alone { axes, sums, .. } = alone;
        let mut memory = vec![];
        for sum in sums {
            let [lanes, chunks] = [(); 2].map(|()| {
                let bytes = Levels::bytes(sum.fold, self.program);
                let at = self.b().take(Space::Local, bytes);
                Levels { fold: sum.fold, space: Space::Local, at }
            });
            memory.push((lanes, chunks));
        }
        let zero = self.int(0);
        self.counted(zero, axes.total, CHUNK, |e, base| {
            let end = e.b().op2(Opcode::Add, Type::S64, base, CHUNK);
            let end = e.b().op2(Opcode::Min, Type::S64, end, axes.total);
            let depth = chunk(e, base, end, &memory);
            let number = e.b().op2(Opcode::Shr, Type::U64, base, i64::from(LANES_CHUNK.ilog2()));
            for (lanes, chunks) in &memory {
                let whole = lanes.pending(e, depth);
                chunks.push(e, number, &whole);
            }
        });
        let count = self.ceil_div(axes.total, CHUNK);
        for (sum, (_, chunks)) in sums.iter().zip(&memory) {
            let state = chunks.finish(self, count);
            assign(self.b(), &sum.state, &state);
        }
        for sum in sums.iter().rev() {
            let bytes = Levels::bytes(sum.fold, self.program);
            self.b().give_back(Space::Local, bytes);
            self.b().give_back(Space::Local, bytes);
        }
    }

    /// The lanes that one thread goes through for the elements of a chunk from `base` to `end`. In
    /// a short chunk the lanes of the upper half, or quarter, and so on have no element: there is
    /// nothing to merge with them, which leaves the bits of a primitive as they are.
    fn lanes_of(&mut self, base: Reg, end: Reg, may_be_few: bool) -> FewLanes {
        if !may_be_few {
            let [count, shift, depth] = [LANES as i64, 64 - i64::from(LANES.ilog2()), i64::from(LANES.ilog2())];
            let shift = self.b().mov(Type::U32, shift);
            return FewLanes { count: self.int(count), shift, depth: self.int(depth) };
        }
        let elements = self.b().op2(Opcode::Sub, Type::S64, end, base);
        let last = self.b().op2(Opcode::Sub, Type::S64, elements, 1);
        let last = self.b().op2(Opcode::Min, Type::S64, last, LANES as i64 - 1);
        // All bits below the highest one; at least one, so that shifts stay below 64.
        let mut bits = self.b().op2(Opcode::Or, Type::B64, last, 1);
        for by in [1, 2, 4] {
            let lower = self.b().op2(Opcode::Shr, Type::U64, bits, by);
            bits = self.b().op2(Opcode::Or, Type::B64, bits, lower);
        }
        let count = self.b().op2(Opcode::Add, Type::S64, bits, 1);
        let bits = self.b().convert(Rounding::Exact, Type::U32, Type::U64, bits);
        let depth = self.b().op(Opcode::Popc, Type::B32, &[bits.into()]);
        let width = self.b().mov(Type::U32, 64);
        let shift = self.b().op2(Opcode::Sub, Type::U32, width, depth);
        let depth = self.b().convert(Rounding::Exact, Type::U64, Type::U32, depth);
        FewLanes { count, shift, depth }
    }
}
