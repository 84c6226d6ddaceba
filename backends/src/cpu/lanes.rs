//! Reductions of a leaf, several elements at once.
//!
//! Reductions with free order are kept in registers over the whole loop. Sums in the order by lanes
//! keep the lanes of the current chunk in memory: a step of the loop adds its elements to theirs,
//! so that elements are processed in memory order and the body is emitted only once. (Reading
//! several rows of lanes side by side would save trips to the lanes, but prefetchers do not
//! recognize it: it has a quarter of the speed on arrays larger than the caches.) A leaf with
//! vectors wider than Cranelift's is a function that processes a chunk and folds its lanes itself.
//! Sums in the order by blocks read their elements from contiguous memory, so that these are
//! computed as vectors too.

use std::ops::Range;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::Order;
use ir::leaf::Leaf;
use ir::nest::{Block, BufferId, Loop, LoopKind, Reduction, ValueId};
use ir::order::{BLOCK, LANES, LANES_CHUNK};
use ir::sched::{Form, extreme};

use super::best::Best;
use super::emit::Emitter;
use super::fold::{Fold, FoldCode, Levels, Merging, MergingCode, ceil_div};
use super::lane_memory::{LaneMemory, fold_free};
use super::lanes128::{self, GROUP, Operands};
use super::materialize::{Materialized, ScratchArray};
use super::pick::{self, Pick};
use super::scalar;
use super::state::Axis;
use super::state::offset;
use super::state::own_memory;
use super::vectors;
use super::wide::reduce::Reducer;

/// The most operations of a short body, which is unrolled.
const SHORT: usize = 8;

/// How one reduction accumulates its elements.
enum Way {
    /// In the order by lanes, with the lanes in memory.
    Lanes(LaneMemory, Levels),
    /// In the order by lanes, by a function generated for the leaf.
    Wide(Levels),
    /// In any order, in registers.
    Free,
    /// The minimum or maximum of floats, in registers.
    Best(Best),
    /// The position of the extreme, from elements in contiguous memory.
    Pick(Pick),
    /// In the order by blocks, from elements in contiguous memory: the levels of a chunk's blocks,
    /// and those of the chunks.
    Blocks(Levels, Levels),
}

/// A reduction that this module can vectorize.
#[derive(Clone, Copy)]
pub(super) struct Member<'r> {
    reduction: &'r Reduction,
    /// The fold of the value: that of the reduction itself or, if it `picks`, the one that finds
    /// the extreme.
    fold: Fold,
    /// Whether its result is the position of the extreme.
    picks: bool,
    input: ValueId,
}

impl<'r> Member<'r> {
    fn of(e: &Emitter<'_>, reduction: &'r Reduction) -> Option<Member<'r>> {
        if let Some((fold, input)) = extreme(e.unit.program, &|value| e.dtype(value), reduction) {
            return Some(Member { reduction, fold, picks: true, input });
        }
        let r = reduction.single()?;
        let fold = Fold { op: r.monoid, dtype: e.dtype(r.input) };
        Some(Member { reduction, fold, picks: false, input: r.input })
    }

    fn all(e: &Emitter<'_>, reductions: &'r [Reduction]) -> Option<Vec<Member<'r>>> {
        reductions.iter().map(|r| Member::of(e, r)).collect()
    }

    /// Whether it is in the order by blocks, which takes its elements from contiguous memory.
    fn in_blocks(&self) -> bool {
        self.reduction.order == Order::Blocks
    }
}

/// One reduction over a leaf.
struct Lane {
    fold: Fold,
    way: Way,
    input: ValueId,
}

impl Lane {
    fn new(e: &mut Emitter<'_>, member: &Member<'_>, wide: bool) -> Lane {
        let Member { reduction, fold, picks, input } = *member;
        let levels = |e: &mut Emitter<'_>| Levels::new(e, Merging::Fold(fold));
        let way = match (Best::new(fold), reduction.order) {
            _ if wide => Way::Wide(levels(e)),
            _ if picks => Way::Pick(Pick::new(fold)),
            (Some(best), _) => Way::Best(best),
            (None, Order::Blocks) => Way::Blocks(levels(e), levels(e)),
            (None, Order::Lanes) => Way::Lanes(LaneMemory::new(e, fold), levels(e)),
            (None, Order::Free | Order::Scan) => Way::Free,
        };
        Lane { fold, way, input }
    }

    /// The number of values that the loop carries if an iteration takes `groups` groups.
    fn carried(&self, groups: usize) -> usize {
        match &self.way {
            Way::Lanes(..) | Way::Wide(_) | Way::Blocks(..) => 0,
            Way::Free => groups * self.registers(),
            Way::Best(_) => Best::carried(groups * self.registers()),
            Way::Pick(_) => 2,
        }
    }

    fn initial(&self, e: &mut Emitter<'_>, groups: usize) -> Vec<Value> {
        match &self.way {
            Way::Lanes(..) | Way::Wide(_) | Way::Blocks(..) => vec![],
            Way::Free => vec![lanes128::splat_constant(e, self.fold.identity()); groups * self.registers()],
            Way::Best(best) => best.initial(e, groups * self.registers()),
            Way::Pick(pick) => pick.initial(e),
        }
    }

    /// The registers of a group.
    fn registers(&self) -> usize {
        let ty = lanes128::vector(self.fold.dtype, false);
        GROUP as usize / ty.lane_count() as usize
    }

    /// The lanes in memory.
    fn memory(&self) -> Option<&LaneMemory> {
        if let Way::Lanes(memory, _) = &self.way { Some(memory) } else { None }
    }

    /// The levels of the chunks.
    fn levels(&self) -> Option<&Levels> {
        match &self.way {
            Way::Lanes(_, levels) | Way::Wide(levels) | Way::Blocks(_, levels) => Some(levels),
            Way::Free | Way::Best(_) | Way::Pick(_) => None,
        }
    }

    /// Accumulates registers of elements into the state, or into their lanes.
    fn take(&self, e: &mut Emitter<'_>, state: &mut [Value], x: &[Value]) {
        match &self.way {
            Way::Best(best) => return best.take(e, state, x),
            Way::Pick(_) | Way::Wide(_) | Way::Blocks(..) => return,
            Way::Lanes(..) | Way::Free => {}
        }
        for (sum, x) in state.iter_mut().zip(x) {
            *sum = lanes128::binary(e, self.fold.primitive(), self.fold.dtype, *sum, *x);
        }
    }

    /// Accumulates one element.
    fn take_one(&self, e: &mut Emitter<'_>, state: &mut [Value], lane: Value, x: Value) {
        match &self.way {
            Way::Lanes(memory, _) => return memory.add(e, lane, x),
            Way::Pick(_) | Way::Wide(_) | Way::Blocks(..) => return,
            Way::Free | Way::Best(_) => {}
        }
        let x = lanes128::one_lane(e, self.fold.identity(), x);
        self.take(e, state, &[x]);
    }
}

/// How the elements are computed, a chunk at a time, if the leaf only loads them from memory.
pub(super) struct Source<'l> {
    axes: &'l [Axis],
    body: &'l Block,
    materialized: &'l Materialized,
}

/// A range of a loop's chunks, and the buffers of their results.
pub(super) struct Chunks<'c> {
    pub(super) range: Range<Value>,
    pub(super) buffers: &'c [BufferId],
}

/// How a reducing loop runs.
pub(super) enum Reducing<'r> {
    /// Over a leaf.
    Leaf(&'r Axis, Leaf, Vec<Member<'r>>),
    /// Over elements that are stored contiguously first.
    Materialized(Vec<Member<'r>>),
    /// With any body, element by element.
    OneByOne,
}

/// A loop whose body is a leaf: its axis, its body, and the leaf that was built from it.
pub(super) struct Vectorized<'l> {
    pub(super) axis: &'l Axis,
    pub(super) body: &'l Block,
    pub(super) leaf: &'l Leaf,
}

/// A reducing loop over a leaf.
struct LeafLoop<'l> {
    axis: &'l Axis,
    body: &'l Block,
    source: Option<Source<'l>>,
    leaf: &'l Leaf,
    operands: Operands,
    /// The function generated for the leaf, if there is one.
    wide: Option<&'l Reducer>,
    lanes: &'l [Lane],
    /// The number of groups that a step takes as long as there are enough.
    groups: usize,
}

impl Emitter<'_> {
    /// Chooses how a reducing loop in this form runs. This emits nothing.
    pub(super) fn reducing<'r>(
        &self,
        form: &Form,
        axes: &'r [Axis],
        l: &Loop,
        reductions: &'r [Reduction],
    ) -> Reducing<'r> {
        if *form == Form::Vectors
            && let Some(members) = Member::all(self, reductions)
            && let Some((last, outer)) = axes.split_last()
            && let Some(leaf) = self.member_leaf(last, &l.body, &members)
        {
            let apart = !outer.is_empty() || members.iter().any(|m| m.picks);
            return if apart { Reducing::Materialized(members) } else { Reducing::Leaf(last, leaf, members) };
        }
        Reducing::OneByOne
    }

    /// The leaf that computes what reductions take.
    fn member_leaf(&self, axis: &Axis, body: &Block, members: &[Member<'_>]) -> Option<Leaf> {
        let inputs: Vec<ValueId> = members.iter().map(|m| m.input).collect();
        self.leaf(axis.index, body, &inputs)
    }

    /// Some chunks of a reducing loop with reductions that go by [chunks](in_chunks).
    pub(super) fn reduce_chunks(&mut self, l: &Loop, chunks: &Chunks<'_>) {
        let LoopKind::Reduce(reductions) = &l.kind else { return };
        let axes = self.axes(&l.dims, &[&l.body]);
        let Some(members) = Member::all(self, reductions) else { return };
        if let [axis] = axes.as_slice()
            && !members.iter().any(Member::in_blocks)
            && self.form(axis.index, &l.body) == Form::Vectors
            && let Some(leaf) = self.member_leaf(axis, &l.body, &members)
        {
            return self.reduce_leaf(&Vectorized { axis, body: &l.body, leaf: &leaf }, None, Some(chunks), &members);
        }
        self.reduce_materialized(&axes, &l.body, Some(chunks), &members);
    }

    /// A reducing loop over rows that do not form one row, with a body that is not a leaf, or with
    /// a reduction that needs it: its elements are stored contiguously first.
    pub(super) fn reduce_materialized(
        &mut self,
        axes: &[Axis],
        body: &Block,
        chunks: Option<&Chunks<'_>>,
        members: &[Member<'_>],
    ) {
        let Some((last, outer)) = axes.split_last() else { return };
        let inputs: Vec<ValueId> = members.iter().map(|m| m.input).collect();
        let materialized = Materialized::new(self, inputs.clone(), LANES_CHUNK + pick::ROOM);
        let mut filling = body.clone();
        filling.extend(materialized.stores(last.index));
        let mut extent = last.extent;
        for axis in outer {
            extent = self.b.ins().imul(extent, axis.extent);
        }
        let axis = Axis { index: self.new_index(), merged: vec![], extent };
        let loads = materialized.loads(axis.index);
        let leaf = self.leaf(axis.index, &loads, &inputs).expect("loads side by side are a leaf");
        // Values from outside of the loop are visible after it.
        let outside: Vec<Option<Value>> = inputs.iter().map(|v| self.defined(*v)).collect();
        let source = Source { axes, body: &filling, materialized: &materialized };
        self.reduce_leaf(&Vectorized { axis: &axis, body: &loads, leaf: &leaf }, Some(source), chunks, members);
        for (v, value) in inputs.into_iter().zip(outside) {
            if let Some(value) = value {
                self.define(v, value);
            }
        }
    }

    /// A reducing loop over a leaf, or some of its chunks.
    pub(super) fn reduce_leaf(
        &mut self,
        of: &Vectorized<'_>,
        source: Option<Source<'_>>,
        chunks: Option<&Chunks<'_>>,
        members: &[Member<'_>],
    ) {
        let Vectorized { axis, body, leaf } = *of;
        let zero = self.int(0);
        for index in &axis.merged {
            self.bind(*index, zero);
        }
        let folds: Vec<Fold> = members.iter().map(|m| m.fold).collect();
        let apart = members.iter().any(|m| m.picks || m.in_blocks());
        let wide = if apart { None } else { Reducer::new(self, leaf, &folds) };
        let mut lanes: Vec<Lane> = members.iter().map(|m| Lane::new(self, m, wide.is_some())).collect();
        for lane in &mut lanes {
            if let Way::Pick(pick) = &mut lane.way {
                pick.widen(self, axis.index, body, lane.input);
            }
        }
        let ordered = lanes.iter().any(|lane| lane.levels().is_some());
        let groups = if leaf.weight() <= SHORT { 4 } else { 1 };
        let n = axis.extent;
        let some = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, n, 0);
        let empty: Vec<Value> = members.iter().flat_map(|m| self.merging(m.reduction).empty(self)).collect();
        // This is inside the test for an empty loop, because hoisted operations may load.
        let results = self.when(some, &empty, |e| {
            if let Some(source) = &source {
                source.materialized.begin(e, zero);
            }
            let operands = Operands::new(e, leaf);
            let l = LeafLoop { axis, body, source, leaf, operands, wide: wide.as_ref(), lanes: &lanes, groups };
            let mut state = vec![];
            for lane in &lanes {
                state.extend(lane.initial(e, groups));
            }
            if let Some(chunks) = chunks {
                e.some_chunks(&l, &state, chunks);
                return empty.clone();
            }
            if ordered || l.source.is_some() {
                return e.all_chunks(&l, state);
            }
            let state = e.chunk(&l, zero..n, &state);
            e.results(&l, &state, &[])
        });
        let defined = members.iter().flat_map(|m| &m.reduction.results);
        for (v, result) in defined.zip(results) {
            self.define(*v, result);
        }
    }

    /// Reduces all chunks and returns the results.
    fn all_chunks(&mut self, l: &LeafLoop<'_>, mut state: Vec<Value>) -> Vec<Value> {
        let n = l.axis.extent;
        let ordered: Vec<(Fold, &Levels)> =
            l.lanes.iter().filter_map(|lane| Some((lane.fold, lane.levels()?))).collect();
        let carried = state.len();
        // The result of the last chunk: a single chunk needs no levels.
        for (fold, _) in &ordered {
            state.push(fold.empty(self));
        }
        let several = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, n, LANES_CHUNK as i64);
        let zero = self.int(0);
        let last = self.counted(zero, n, LANES_CHUNK as i64, &state, |e, base, state| {
            e.poll();
            let (mut next, sums) = e.one_chunk(l, base, &state[..carried]);
            e.when(several, &[], |e| {
                let number = e.b.ins().ushr_imm_u(base, i64::from(LANES_CHUNK.ilog2()));
                for ((_, levels), sum) in ordered.iter().zip(&sums) {
                    levels.push(e, number, &[*sum]);
                }
                vec![]
            });
            next.extend(sums);
            next
        });
        let (state, sums) = last.split_at(carried);
        let sums = self.when(several, sums, |e| {
            let chunks = ceil_div(e, n, LANES_CHUNK);
            ordered.iter().map(|(_, levels)| levels.finish(e, chunks)[0]).collect()
        });
        self.results(l, state, &sums)
    }

    /// Reduces a range of chunks and stores their results.
    fn some_chunks(&mut self, l: &LeafLoop<'_>, state: &[Value], chunks: &Chunks<'_>) {
        let count = ceil_div(self, l.axis.extent, LANES_CHUNK);
        let Range { start: begin, end } = chunks.range;
        let end = self.least(end, count);
        self.counted(begin, end, 1, &[], |e, number, _| {
            e.poll();
            let base = e.b.ins().ishl_imm_u(number, i64::from(LANES_CHUNK.ilog2()));
            let (state, sums) = e.one_chunk(l, base, state);
            for (result, buffer) in e.results(l, &state, &sums).into_iter().zip(chunks.buffers) {
                let base = e.base(*buffer);
                let ty = e.b.func.dfg.value_type(result);
                let address = e.element(base, ty, number);
                let flags = e.buffer_memory(*buffer);
                e.b.ins().store(flags, result, address, 0);
            }
            vec![]
        });
    }

    /// Reduces the chunk that begins at `base`. Returns the carried values, and the results of the
    /// reductions that have an order.
    fn one_chunk(&mut self, l: &LeafLoop<'_>, base: Value, state: &[Value]) -> (Vec<Value>, Vec<Value>) {
        let left = self.b.ins().isub(l.axis.extent, base);
        let most = self.int(LANES_CHUNK as i64);
        let count = self.least(left, most);
        let end = self.b.ins().iadd(base, count);
        let ordered: Vec<&LaneMemory> = l.lanes.iter().filter_map(Lane::memory).collect();
        ordered.iter().for_each(|memory| memory.clear(self, count));
        let mut part = base..end;
        if let Some(source) = &l.source {
            source.materialized.fill(self, source.axes, part, source.body);
            let zero = self.int(0);
            source.materialized.begin(self, zero);
            part = zero..count;
        }
        if let Some(wide) = l.wide {
            return (state.to_vec(), wide.run(self, l.leaf, part.start, part.end));
        }
        let state = self.pick(l, base, count, state);
        let state = self.chunk(l, part, &state);
        let sums = l.lanes.iter().filter_map(|lane| match (&lane.way, &l.source) {
            (Way::Lanes(memory, _), _) => Some(memory.fold(self, count)),
            (Way::Blocks(levels, _), Some(source)) => {
                let array = source.materialized.array(self, lane.input);
                Some(self.blocks_side_by_side(lane.fold, levels, array, count))
            }
            _ => None,
        });
        (state, sums.collect())
    }

    /// The results of the blocks of `count` contiguous elements. Several are summed at once,
    /// because several additions can start during the latency of one.
    fn blocks_side_by_side(&mut self, fold: Fold, levels: &Levels, array: ScratchArray, count: Value) -> Value {
        const AT_ONCE: i64 = 4;
        let ty = scalar::register(fold.dtype);
        let empty = fold.empty(self);
        let block = BLOCK as i64;
        let several = self.b.ins().band_imm_s(count, -(AT_ONCE * block));
        let zero = self.int(0);
        let mut some = |from: Value, to: Value, blocks: i64| {
            self.counted(from, to, blocks * block, &[], |e, first, _| {
                let past = e.b.ins().iadd_imm_s(first, block);
                let past = e.least(past, count);
                let sums = e.counted(first, past, 1, &vec![empty; blocks as usize], |e, k, sums| {
                    let address = e.element(array.base, ty, k);
                    let mut joined = vec![];
                    for (number, sum) in sums.iter().enumerate() {
                        let x = e.b.ins().load(ty, array.flags, address, offset(number * BLOCK * ty.bytes() as usize));
                        joined.push(fold.join(e, *sum, x));
                    }
                    joined
                });
                let number = e.b.ins().ushr_imm_u(first, i64::from(BLOCK.ilog2()));
                for (k, sum) in sums.into_iter().enumerate() {
                    let number = e.b.ins().iadd_imm_s(number, k as i64);
                    levels.push(e, number, &[sum]);
                }
                vec![]
            });
        };
        some(zero, several, AT_ONCE);
        some(several, count, 1);
        let blocks = ceil_div(self, count, BLOCK);
        levels.finish(self, blocks)[0]
    }

    /// The results of the reductions, in the order in which they are written.
    fn results(&mut self, l: &LeafLoop<'_>, state: &[Value], sums: &[Value]) -> Vec<Value> {
        let (mut state, mut sums) = (state, sums.iter());
        let mut results = vec![];
        for lane in l.lanes {
            let (own, rest) = state.split_at(lane.carried(l.groups));
            state = rest;
            match &lane.way {
                Way::Lanes(..) | Way::Wide(_) | Way::Blocks(..) => results.extend(sums.next()),
                Way::Free => results.push(fold_free(self, lane.fold, own.to_vec())),
                Way::Best(best) => results.push(best.finish(self, own)),
                Way::Pick(_) => results.extend(own),
            }
        }
        results
    }

    /// The part of the state that belongs to picks, after `count` contiguous elements, the first
    /// with the number `base`.
    fn pick(&mut self, l: &LeafLoop<'_>, base: Value, count: Value, state: &[Value]) -> Vec<Value> {
        let Some(source) = &l.source else { return state.to_vec() };
        let mut rest = state;
        let mut new = vec![];
        for lane in l.lanes {
            let (own, others) = rest.split_at(lane.carried(l.groups));
            rest = others;
            match &lane.way {
                Way::Pick(pick) => {
                    let array = source.materialized.array(self, lane.input);
                    new.extend(pick.take(self, own, array, base, count));
                }
                Way::Lanes(..) | Way::Wide(_) | Way::Blocks(..) | Way::Free | Way::Best(_) => new.extend(own),
            }
        }
        new
    }

    /// Reduces the elements `base..end`, of one chunk if there are lanes: several groups per
    /// iteration, then single groups, then single elements. Returns the carried values.
    fn chunk(&mut self, l: &LeafLoop<'_>, elements: Range<Value>, state: &[Value]) -> Vec<Value> {
        let mut state = state.to_vec();
        if l.lanes.iter().all(|lane| matches!(lane.way, Way::Pick(_) | Way::Blocks(..))) {
            return state;
        }
        let Range { start: mut at, end } = elements;
        let mut groups = l.groups;
        while groups > 0 {
            let step = groups as i64 * GROUP;
            let left = self.b.ins().isub(end, at);
            let whole = self.b.ins().band_imm_s(left, -step);
            let stop = self.b.ins().iadd(at, whole);
            state = self.counted(at, stop, step, &state, |e, i, state| e.step(l, i, groups, state));
            at = stop;
            groups = usize::from(groups > 1);
        }
        let state = self.counted(at, end, 1, &state, |e, i, state| {
            e.bind(l.axis.index, i);
            e.block(l.body);
            let lane = e.b.ins().band_imm_u(i, LANES as i64 - 1);
            let mut state = state.to_vec();
            let mut own = state.as_mut_slice();
            for reduction in l.lanes {
                let (first, rest) = own.split_at_mut(reduction.carried(l.groups));
                own = rest;
                let x = e.value(reduction.input);
                reduction.take_one(e, first, lane, x);
            }
            state
        });
        l.operands.restore(self);
        state
    }

    /// Accumulates some groups, from element `i` on.
    fn step(&mut self, l: &LeafLoop<'_>, i: Value, groups: usize, state: &[Value]) -> Vec<Value> {
        let lane = self.b.ins().band_imm_u(i, LANES as i64 - 1);
        let mut state = state.to_vec();
        let mut sums: Vec<Option<(Value, Vec<Value>)>> = vec![];
        for reduction in l.lanes {
            sums.push(reduction.memory().map(|memory| {
                let address = self.element(memory.base, memory.lane, lane);
                let registers = 0..groups * reduction.registers();
                let load = |k| self.b.ins().load(memory.vector(), own_memory(), address, offset(16 * k));
                (address, registers.map(load).collect())
            }));
        }
        let mut elements: Vec<Vec<Value>> = vec![vec![]; l.lanes.len()];
        for group in 0..groups {
            for (elements, parts) in elements.iter_mut().zip(l.group(self, i, group as i64 * GROUP)) {
                elements.extend(parts);
            }
        }
        let mut own = state.as_mut_slice();
        for ((reduction, sums), x) in l.lanes.iter().zip(&mut sums).zip(&elements) {
            let (first, rest) = own.split_at_mut(reduction.carried(l.groups));
            own = rest;
            reduction.take(self, sums.as_mut().map_or(first, |(_, sums)| sums), x);
        }
        for (address, sums) in sums.into_iter().flatten() {
            for (k, sum) in sums.into_iter().enumerate() {
                self.b.ins().store(own_memory(), sum, address, offset(16 * k));
            }
        }
        state
    }
}

impl LeafLoop<'_> {
    /// The values of the group that starts at `i + offset`, in the form that lanes have in memory.
    fn group(&self, e: &mut Emitter<'_>, i: Value, offset: i64) -> Vec<Vec<Value>> {
        let values = vectors::emit_group(e, self.leaf, &self.operands, i, offset);
        let narrow = |(lane, v): (&Lane, _)| lanes128::narrow_masks(e, self.leaf, &self.operands, lane.fold.dtype, v);
        self.lanes.iter().zip(values).map(narrow).collect()
    }
}
