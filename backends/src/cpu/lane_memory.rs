//! The accumulators of a chunk in the order by lanes, in memory because there are more than
//! registers can hold, and the merges of their tree.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use ir::order::{Distribution, LANES, Pattern, Scope, Step};
use ir::sabotage::{self, Bug};
use ir::{BinaryOp, Dtype, Order};

use super::emit::Emitter;
use super::fold::{Fold, FoldCode, Layout, Merging, MergingCode};
use super::lanes128;
use super::state::offset;
use super::state::own_memory;

/// The minimum number of lanes that are merged. Those without elements hold the identity.
const FEWEST: usize = 16;
/// The lanes of a chunk in memory.
pub(super) struct LaneMemory {
    fold: Fold,
    pub(super) base: Value,
    pub(super) lane: Type,
}

impl LaneMemory {
    pub(super) fn new(e: &mut Emitter<'_>, fold: Fold) -> LaneMemory {
        let lane = lanes128::memory_lane(fold.dtype);
        LaneMemory { fold, base: e.scratch(LANES * lane.bytes() as usize), lane }
    }

    pub(super) fn vector(&self) -> Type {
        lanes128::vector(self.fold.dtype, false)
    }

    /// The number of registers that this many lanes fill.
    fn registers(&self, lanes: usize) -> usize {
        lanes / self.vector().lane_count() as usize
    }

    /// Sets the lanes that are merged after a chunk of `count` elements (at least 1) to the
    /// identity.
    pub(super) fn clear(&self, e: &mut Emitter<'_>, count: Value) {
        if sabotage::on(Bug::UnclearedLanes) {
            return;
        }
        let empty = lanes128::splat_constant(e, self.fold.identity());
        let most = e.int(LANES as i64);
        let count = e.b.ins().umin(count, most);
        // The next power of two.
        let last = e.b.ins().iadd_imm_s(count, -1);
        let last = e.b.ins().bor_imm_u(last, FEWEST as i64 - 1);
        let zeros = e.b.ins().clz(last);
        let all = e.int(-1);
        let mask = e.b.ins().ushr(all, zeros);
        let zero = e.int(0);
        e.counted(zero, mask, FEWEST as i64, &[], |e, lane, _| {
            let address = e.element(self.base, self.lane, lane);
            for k in 0..self.registers(FEWEST) {
                e.b.ins().store(own_memory(), empty, address, offset(16 * k));
            }
            vec![]
        });
    }

    /// Accumulates one element into lane `lane`.
    pub(super) fn add(&self, e: &mut Emitter<'_>, lane: Value, x: Value) {
        let address = e.element(self.base, self.lane, lane);
        let old = e.b.ins().load(self.lane, own_memory(), address, 0);
        let new = if self.fold.dtype == Dtype::Bool {
            // Lanes hold masks, all bits of a boolean alike.
            let wide = e.b.ins().uextend(self.lane, x);
            let mask = e.b.ins().ineg(wide);
            if self.fold.primitive() == BinaryOp::Or { e.b.ins().bor(old, mask) } else { e.b.ins().band(old, mask) }
        } else {
            self.fold.join(e, old, x)
        };
        e.b.ins().store(own_memory(), new, address, 0);
    }

    /// The lanes as one value after `count` elements (at least 1). Steps that would merge nothing
    /// but lanes without elements are skipped, as far as these steps are in memory.
    pub(super) fn fold(&self, e: &mut Emitter<'_>, count: Value) -> Value {
        let in_registers = FEWEST / 2;
        let over = Distribution::new([
            Scope::Vector.of(self.vector().lane_count() as usize),
            Scope::Register.of(self.registers(in_registers)),
            Scope::Memory.of(LANES / in_registers),
        ]);
        let steps = Order::Lanes.tree().steps(&over);
        let (in_memory, rest): (Vec<Step>, Vec<Step>) =
            steps.into_iter().partition(|s: &Step| s.scope == Scope::Memory);
        let mut parts = vec![];
        for step in in_memory {
            // The lanes that are left stay in registers after the last of these steps.
            if step.left == in_registers {
                parts = (0..self.registers(step.left)).map(|k| self.halves(e, 16 * k, step.left)).collect();
                continue;
            }
            let some = e.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, count, step.left as i64);
            e.when(some, &[], |e| {
                for k in 0..self.registers(step.left) {
                    let sum = self.halves(e, 16 * k, step.left);
                    e.b.ins().store(own_memory(), sum, self.base, offset(16 * k));
                }
                vec![]
            });
        }
        fold_registers(e, self.fold, parts, &rest)
    }

    /// A vector of lanes merged with the one `half` lanes further on.
    fn halves(&self, e: &mut Emitter<'_>, at: usize, half: usize) -> Value {
        let low = e.b.ins().load(self.vector(), own_memory(), self.base, offset(at));
        let up = at + half * self.lane.bytes() as usize;
        let high = e.b.ins().load(self.vector(), own_memory(), self.base, offset(up));
        lanes128::binary(e, self.fold.primitive(), self.fold.dtype, low, high)
    }
}

/// The lanes of a chunk in memory, for any reduction.
pub(super) enum LanesInMemory {
    /// Single values, merged as vectors.
    Vectors(LaneMemory),
    /// States of a reducer.
    States(StateLanes),
}

impl LanesInMemory {
    pub(super) fn new(e: &mut Emitter<'_>, merging: Merging) -> LanesInMemory {
        match merging {
            Merging::Fold(fold) => LanesInMemory::Vectors(LaneMemory::new(e, fold)),
            Merging::Reducer(_) => LanesInMemory::States(StateLanes::new(e, merging)),
        }
    }

    /// Prepares the lanes for a chunk of `count` elements (at least 1).
    pub(super) fn clear(&self, e: &mut Emitter<'_>, count: Value) {
        match self {
            LanesInMemory::Vectors(lanes) => lanes.clear(e, count),
            LanesInMemory::States(lanes) => lanes.clear(e),
        }
    }

    /// Accumulates one element into lane `lane`.
    pub(super) fn add(&self, e: &mut Emitter<'_>, lane: Value, x: &[Value]) {
        match self {
            LanesInMemory::Vectors(lanes) => lanes.add(e, lane, x[0]),
            LanesInMemory::States(lanes) => lanes.add(e, lane, x),
        }
    }

    /// The lanes as one state after `count` elements (at least 1).
    pub(super) fn fold(&self, e: &mut Emitter<'_>, count: Value) -> Vec<Value> {
        match self {
            LanesInMemory::Vectors(lanes) => vec![lanes.fold(e, count)],
            LanesInMemory::States(lanes) => lanes.fold(e),
        }
    }
}

/// The lanes of a chunk as states of a reducer. All of them are merged: those without elements hold
/// the identity.
pub(super) struct StateLanes {
    merging: Merging,
    layout: Layout,
    base: Value,
}

impl StateLanes {
    fn new(e: &mut Emitter<'_>, merging: Merging) -> StateLanes {
        let layout = Layout::new(merging.registers(e.unit.program));
        StateLanes { merging, base: e.scratch(LANES * layout.bytes()), layout }
    }

    /// Sets all lanes to the identity.
    fn clear(&self, e: &mut Emitter<'_>) {
        let empty = self.merging.empty(e);
        let (zero, all) = (e.int(0), e.int(LANES as i64));
        e.counted(zero, all, 1, &[], |e, lane, _| {
            let address = self.layout.element(e, self.base, lane);
            self.layout.store(e, &empty, address, 0);
            vec![]
        });
    }

    /// Accumulates one element into lane `lane`.
    fn add(&self, e: &mut Emitter<'_>, lane: Value, x: &[Value]) {
        let address = self.layout.element(e, self.base, lane);
        let old = self.layout.load(e, address, 0);
        let new = self.merging.join(e, &old, x);
        self.layout.store(e, &new, address, 0);
    }

    /// The lanes as one state, by a loop over the steps of halves, so that the code of a merge is
    /// emitted once.
    fn fold(&self, e: &mut Emitter<'_>) -> Vec<Value> {
        let steps = Order::Lanes.tree().steps(&Distribution::new([Scope::Memory.of(LANES)]));
        let half = e.int(steps.first().map_or(0, |step| step.distance) as i64);
        e.repeat(&[half], |e, state| {
            let half = state[0];
            let zero = e.int(0);
            e.counted(zero, half, 1, &[], |e, lane, _| {
                let low = self.layout.element(e, self.base, lane);
                let other = e.b.ins().iadd(lane, half);
                let high = self.layout.element(e, self.base, other);
                let (a, b) = (self.layout.load(e, low, 0), self.layout.load(e, high, 0));
                let sum = self.merging.join(e, &a, &b);
                self.layout.store(e, &sum, low, 0);
                vec![]
            });
            let next = e.b.ins().ushr_imm_u(half, 1);
            (next, vec![next])
        });
        self.layout.load(e, self.base, 0)
    }
}

/// The lanes of some registers (a power of two) as one value, by steps over registers and then over
/// the lanes of a vector.
pub(super) fn fold_registers(e: &mut Emitter<'_>, fold: Fold, mut parts: Vec<Value>, steps: &[Step]) -> Value {
    let (registers, lanes): (Vec<Step>, Vec<Step>) =
        steps.iter().copied().partition(|step: &Step| step.scope == Scope::Register);
    for (low, high) in registers.into_iter().flat_map(Step::pairs) {
        parts[low] = lanes128::binary(e, fold.primitive(), fold.dtype, parts[low], parts[high]);
    }
    let count = e.b.func.dfg.value_type(parts[0]).lane_count();
    let mut values: Vec<Value> =
        (0..count).map(|lane| e.b.ins().extractlane(parts[0], u8::try_from(lane).expect("few lanes"))).collect();
    let lanes = match sabotage::on(Bug::FoldedNeighbours) {
        true => Distribution::new([Scope::Vector.of(values.len())]).steps(Pattern::Pairs),
        false => lanes,
    };
    for (low, high) in lanes.into_iter().flat_map(Step::pairs) {
        values[low] = fold.join(e, values[low], values[high]);
    }
    if fold.dtype == Dtype::Bool { e.b.ins().icmp_imm_s(IntCC::NotEqual, values[0], 0) } else { values[0] }
}

/// The values of any order in some registers (a power of two) as one.
pub(super) fn fold_free(e: &mut Emitter<'_>, fold: Fold, parts: Vec<Value>) -> Value {
    let lanes = e.b.func.dfg.value_type(parts[0]).lane_count() as usize;
    let over = Distribution::new([Scope::Vector.of(lanes), Scope::Register.of(parts.len())]);
    fold_registers(e, fold, parts, &Order::Free.tree().steps(&over))
}
