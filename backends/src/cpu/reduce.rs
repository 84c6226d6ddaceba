//! Reductions in the orders of `ir::order`.
//!
//! There are two ways to run a reducing loop. One takes any body: elements one by one, each lane of the order by
//! lanes in memory. The other takes a leaf: for each chunk, some lanes at a time live in vector registers over
//! all the rows of the chunk (which stays in the first-level cache), so that loads and sums run at full width.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use ir::nest::{Block, Loop, Reduction, ValueId};
use ir::order::{LANES, LANES_CHUNK, SCAN_CHUNK, SCAN_GROUP};
use ir::{BinaryOp, Dtype, Order};

use super::emit::{Emitter, own_memory};
use super::fold::{Fold, Levels, at_multiple, ceil_div, offset};
use super::lanes128::{self, GROUP, Operands};
use super::leaf::Leaf;
use super::nest::Axis;
use super::{scalar, vectors};

/// The lanes of a chunk in memory.
struct LaneMemory {
    fold: Fold,
    base: Value,
    lane: Type,
}

impl LaneMemory {
    fn new(e: &mut Emitter<'_>, fold: Fold) -> LaneMemory {
        let lane = lanes128::memory_lane(fold.dtype);
        LaneMemory { fold, base: e.scratch(LANES * lane.bytes() as usize), lane }
    }

    fn vector(&self) -> Type {
        lanes128::vector(self.fold.dtype, false)
    }

    fn per_vector(&self) -> usize {
        self.vector().lane_count() as usize
    }

    /// Sets the first `lanes` lanes to the value of no elements.
    fn clear(&self, e: &mut Emitter<'_>, lanes: usize) {
        let empty = lanes128::splat_constant(e, self.fold.identity());
        for vector in 0..lanes / self.per_vector() {
            e.b.ins().store(own_memory(), empty, self.base, offset(vector * 16));
        }
    }

    /// Takes one element into lane `lane`.
    fn add(&self, e: &mut Emitter<'_>, lane: Value, x: Value) {
        let address = e.element(self.base, self.lane, lane);
        let old = e.b.ins().load(self.lane, own_memory(), address, 0);
        let new = if self.fold.dtype == Dtype::Bool {
            // Lanes hold masks.
            let wide = e.b.ins().uextend(self.lane, x);
            let mask = e.b.ins().ineg(wide);
            if self.fold.primitive() == BinaryOp::Or { e.b.ins().bor(old, mask) } else { e.b.ins().band(old, mask) }
        } else {
            self.fold.join(e, old, x)
        };
        e.b.ins().store(own_memory(), new, address, 0);
    }

    /// The first `count` lanes folded in halves; the others got no element.
    fn fold(&self, e: &mut Emitter<'_>, count: usize) -> Value {
        let mut v = self.halves(e, 0, self.per_vector(), count);
        let mut lanes: Vec<Value> = (0..self.per_vector())
            .map(|lane| e.b.ins().extractlane(v, u8::try_from(lane).expect("few lanes")))
            .collect();
        while lanes.len() > 1 {
            let upper = lanes.split_off(lanes.len() / 2);
            lanes = lanes.into_iter().zip(upper).map(|(a, b)| self.fold.join(e, a, b)).collect();
        }
        v = lanes[0];
        if self.fold.dtype == Dtype::Bool { e.b.ins().icmp_imm_s(IntCC::NotEqual, v, 0) } else { v }
    }

    /// The vector of lanes `from..` after folding until `width` lanes are left.
    fn halves(&self, e: &mut Emitter<'_>, from: usize, width: usize, count: usize) -> Value {
        if width == count {
            return e.b.ins().load(self.vector(), own_memory(), self.base, offset(from * self.lane.bytes() as usize));
        }
        let low = self.halves(e, from, 2 * width, count);
        let high = self.halves(e, from + width, 2 * width, count);
        self.join(e, low, high)
    }
}

/// Prefixes inside a group of a scan, in log steps, over a group in memory.
pub(super) fn scan_group(e: &mut Emitter<'_>, fold: Fold, base: Value) -> Vec<Value> {
    let ty = scalar::register(fold.dtype);
    let at = |k: usize| offset(k * ty.bytes() as usize);
    let mut p: Vec<Value> = (0..SCAN_GROUP).map(|k| e.b.ins().load(ty, own_memory(), base, at(k))).collect();
    let mut d = 1;
    while d < SCAN_GROUP {
        for k in (d..SCAN_GROUP).rev() {
            p[k] = fold.join(e, p[k - d], p[k]);
        }
        d *= 2;
    }
    p
}

/// How one reduction takes elements one by one; its state is carried through the loops.
enum Way {
    /// As they come: (sum).
    Serial,
    /// (best, its number).
    Pick,
    /// (sum of the block).
    Blocks(Levels),
    /// ().
    Lanes(LaneMemory, Levels),
    /// (sum of the chunk's groups, sum of the chunks), and a group in memory.
    Scan(Value),
}

struct Accumulator {
    fold: Fold,
    way: Way,
}

impl Accumulator {
    fn new(e: &mut Emitter<'_>, fold: Fold, order: Order) -> Accumulator {
        let way = match order {
            _ if fold.is_arg() => Way::Pick,
            _ if !fold.op.depends_on_order(fold.dtype) => Way::Serial,
            Order::Free => Way::Serial,
            Order::Blocks => Way::Blocks(Levels::new(e, fold)),
            Order::Lanes => {
                let memory = LaneMemory::new(e, fold);
                memory.clear(e, LANES);
                Way::Lanes(memory, Levels::new(e, fold))
            }
            Order::Scan => Way::Scan(e.scratch(SCAN_GROUP * fold.dtype.bytes())),
        };
        Accumulator { fold, way }
    }

    fn initial(&self, e: &mut Emitter<'_>) -> Vec<Value> {
        let empty = self.fold.empty(e);
        match self.way {
            Way::Serial | Way::Blocks(_) => vec![empty],
            Way::Pick => vec![empty, e.int(0)],
            Way::Lanes(..) => vec![],
            Way::Scan(_) => vec![empty, empty],
        }
    }

    /// Element number `number`; `next` is one more.
    fn take(&self, e: &mut Emitter<'_>, state: &[Value], x: Value, number: Value, next: Value) -> Vec<Value> {
        let fold = self.fold;
        match &self.way {
            Way::Serial => vec![fold.join(e, state[0], x)],
            Way::Pick => {
                let (best, at) = fold.pick(e, (state[0], state[1]), x, number);
                vec![best, at]
            }
            Way::Blocks(levels) => {
                let sum = fold.join(e, state[0], x);
                levels.block(e, &[sum], number, next)
            }
            Way::Lanes(memory, levels) => {
                let lane = e.b.ins().band_imm_u(number, LANES as i64 - 1);
                memory.add(e, lane, x);
                at_multiple(e, next, LANES_CHUNK, &[], |e| {
                    let chunk = e.b.ins().ushr_imm_u(number, i64::from(LANES_CHUNK.ilog2()));
                    let sum = memory.fold(e, LANES);
                    levels.push(e, chunk, &[sum]);
                    memory.clear(e, LANES);
                    vec![]
                })
            }
            Way::Scan(group) => {
                let ty = scalar::register(fold.dtype);
                let place = e.b.ins().band_imm_u(number, SCAN_GROUP as i64 - 1);
                let address = e.element(*group, ty, place);
                e.b.ins().store(own_memory(), x, address, 0);
                at_multiple(e, next, SCAN_GROUP, state, |e| {
                    let last = scan_group(e, fold, *group)[SCAN_GROUP - 1];
                    end_group(e, fold, (state[0], state[1]), last, next)
                })
            }
        }
    }

    fn finish(&self, e: &mut Emitter<'_>, state: &[Value], count: Value) -> Value {
        let fold = self.fold;
        match &self.way {
            Way::Serial => state[0],
            Way::Pick => state[1],
            Way::Blocks(levels) => levels.finish_blocks(e, state, count)[0],
            Way::Lanes(memory, levels) => {
                let rest = e.b.ins().band_imm_u(count, LANES_CHUNK as i64 - 1);
                e.when(rest, &[], |e| {
                    let chunk = e.b.ins().ushr_imm_u(count, i64::from(LANES_CHUNK.ilog2()));
                    let sum = memory.fold(e, LANES);
                    levels.push(e, chunk, &[sum]);
                    vec![]
                });
                let chunks = ceil_div(e, count, LANES_CHUNK);
                levels.finish(e, chunks)[0]
            }
            Way::Scan(group) => {
                let rest = e.b.ins().band_imm_u(count, SCAN_GROUP as i64 - 1);
                let carry = e.when(rest, &[state[0]], |e| {
                    let ty = scalar::register(fold.dtype);
                    for (k, p) in scan_group(e, fold, *group).into_iter().enumerate() {
                        e.b.ins().store(own_memory(), p, *group, offset(k * ty.bytes() as usize));
                    }
                    let last = e.b.ins().iadd_imm_s(rest, -1);
                    let address = e.element(*group, ty, last);
                    let last = e.b.ins().load(ty, own_memory(), address, 0);
                    vec![fold.join(e, state[0], last)]
                })[0];
                fold.join(e, state[1], carry)
            }
        }
    }
}

/// The carries (of groups in the chunk, of chunks) after a group, where `next` elements have been taken.
pub(super) fn end_group(
    e: &mut Emitter<'_>,
    fold: Fold,
    (carry, chunk): (Value, Value),
    last: Value,
    next: Value,
) -> Vec<Value> {
    let carry = fold.join(e, carry, last);
    let rest = e.b.ins().band_imm_u(next, SCAN_CHUNK as i64 - 1);
    let joined = fold.join(e, chunk, carry);
    let empty = fold.empty(e);
    vec![e.b.ins().select(rest, carry, empty), e.b.ins().select(rest, chunk, joined)]
}

impl Emitter<'_> {
    /// A reducing loop.
    pub(super) fn reduce(&mut self, l: &Loop, reductions: &[Reduction]) {
        let axes = self.axes(&l.dims, &[&l.body]);
        let folds: Vec<Fold> = reductions.iter().map(|r| Fold { op: r.op, dtype: self.dtype(r.input) }).collect();
        let lanes = reductions.iter().zip(&folds).all(|(r, f)| in_lanes(*f, r.order));
        if let ([axis], true) = (axes.as_slice(), lanes) {
            let inputs: Vec<ValueId> = reductions.iter().map(|r| r.input).collect();
            if let Some(leaf) = Leaf::build(self, axis.index, &l.body, &inputs) {
                return self.reduce_leaf(axis, &l.body, &leaf, reductions, &folds);
            }
        }
        let accumulators: Vec<Accumulator> =
            reductions.iter().zip(&folds).map(|(r, f)| Accumulator::new(self, *f, r.order)).collect();
        let mut state = vec![self.int(0)];
        for a in &accumulators {
            state.extend(a.initial(self));
        }
        let lengths: Vec<usize> = accumulators.iter().map(|a| a.initial(self).len()).collect();
        let last = self.nest(&axes, &state, &mut |e, state| {
            e.block(&l.body);
            let number = state[0];
            let next = e.b.ins().iadd_imm_s(number, 1);
            let mut new = vec![next];
            let mut from = 1;
            for ((a, length), r) in accumulators.iter().zip(&lengths).zip(reductions) {
                let x = e.value(r.input);
                new.extend(a.take(e, &state[from..from + length], x, number, next));
                from += length;
            }
            new
        });
        let mut from = 1;
        for ((a, length), r) in accumulators.iter().zip(&lengths).zip(reductions) {
            let result = a.finish(self, &last[from..from + length], last[0]);
            self.define(r.result, result);
            from += length;
        }
    }

    /// A reducing loop over a leaf, by lanes; what is free of order goes by lanes too, without chunks.
    fn reduce_leaf(&mut self, axis: &Axis, body: &Block, leaf: &Leaf, reductions: &[Reduction], folds: &[Fold]) {
        let zero = self.int(0);
        for index in &axis.merged {
            self.bind(*index, zero);
        }
        let sums: Vec<LaneSum> = reductions
            .iter()
            .zip(folds)
            .map(|(r, f)| LaneSum {
                memory: LaneMemory::new(self, *f),
                levels: f.op.depends_on_order(f.dtype).then(|| Levels::new(self, *f)),
                input: r.input,
            })
            .collect();
        let n = axis.extent;
        let some = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, n, 0);
        let empty: Vec<Value> = folds.iter().map(|f| f.empty(self)).collect();
        let types: Vec<Type> = empty.iter().map(|v| self.b.func.dfg.value_type(*v)).collect();
        // Behind the test for an empty loop, since what is computed once may load.
        let results = self.when(some, &empty, |e| {
            let leaf = LeafLoop { axis, body, leaf, operands: Operands::new(e, leaf), sums: &sums };
            let short = e.b.ins().icmp_imm_s(IntCC::SignedLessThanOrEqual, n, SHORT as i64);
            e.either(
                short,
                &types,
                |e| {
                    sums.iter().for_each(|s| s.memory.clear(e, SHORT));
                    e.rest_of_chunk(&leaf, zero, n);
                    sums.iter().map(|s| s.memory.fold(e, SHORT)).collect()
                },
                |e| {
                    sums.iter().filter(|s| s.levels.is_none()).for_each(|s| s.memory.clear(e, LANES));
                    let lanes_at_once = lanes_at_once(leaf.leaf, folds);
                    e.counted(zero, n, LANES_CHUNK as i64, &[], |e, base, _| {
                        e.chunk(&leaf, base, lanes_at_once);
                        vec![]
                    });
                    let chunks = ceil_div(e, n, LANES_CHUNK);
                    sums.iter()
                        .map(|s| match &s.levels {
                            Some(levels) => levels.finish(e, chunks)[0],
                            None => s.memory.fold(e, LANES),
                        })
                        .collect()
                },
            )
        });
        for (r, result) in reductions.iter().zip(results) {
            self.define(r.result, result);
        }
    }

    /// One chunk: whole rows of lanes in registers, then what is left over.
    fn chunk(&mut self, l: &LeafLoop<'_>, base: Value, lanes_at_once: i64) {
        let left = self.b.ins().isub(l.axis.extent, base);
        let most = self.int(LANES_CHUNK as i64);
        let count = self.least(left, most);
        let end = self.b.ins().iadd(base, count);
        let in_rows = self.b.ins().band_imm_s(count, -(LANES as i64));
        let rows_end = self.b.ins().iadd(base, in_rows);
        let (first, last) = (self.int(0), self.int(LANES as i64));
        let groups = usize::try_from(lanes_at_once / GROUP).expect("a small number");
        self.counted(first, last, lanes_at_once, &[], |e, lane, _| {
            let addresses: Vec<Value> = l.sums.iter().map(|s| e.element(s.memory.base, s.memory.lane, lane)).collect();
            let mut initial = vec![];
            for (s, address) in l.sums.iter().zip(&addresses) {
                let m = &s.memory;
                for k in 0..groups * m.registers() {
                    initial.push(match s.levels {
                        Some(_) => lanes128::splat_constant(e, m.fold.identity()),
                        None => e.b.ins().load(m.vector(), own_memory(), *address, offset(16 * k)),
                    });
                }
            }
            let from = e.b.ins().iadd(base, lane);
            let last = e.counted(from, rows_end, LANES as i64, &initial, |e, i, sums| {
                let mut next = sums.to_vec();
                for group in 0..groups {
                    let parts = l.group(e, i, group as i64 * GROUP);
                    let mut at = 0;
                    for (s, parts) in l.sums.iter().zip(parts) {
                        let registers = s.memory.registers();
                        for (k, part) in parts.into_iter().enumerate() {
                            let sum = &mut next[at + group * registers + k];
                            *sum = s.memory.join(e, *sum, part);
                        }
                        at += groups * registers;
                    }
                }
                next
            });
            let mut last = last.into_iter();
            for (s, address) in l.sums.iter().zip(&addresses) {
                for k in 0..groups * s.memory.registers() {
                    let sum = last.next().expect("as many as there were");
                    e.b.ins().store(own_memory(), sum, *address, offset(16 * k));
                }
            }
            vec![]
        });
        self.rest_of_chunk(l, rows_end, end);
        let number = self.b.ins().ushr_imm_u(base, i64::from(LANES_CHUNK.ilog2()));
        for s in l.sums {
            if let Some(levels) = &s.levels {
                let sum = s.memory.fold(self, LANES);
                levels.push(self, number, &[sum]);
            }
        }
    }

    /// The elements `from..end`, less than a row, into the lanes from the first on: groups, then one by one.
    fn rest_of_chunk(&mut self, l: &LeafLoop<'_>, from: Value, end: Value) {
        let count = self.b.ins().isub(end, from);
        let in_groups = self.b.ins().band_imm_s(count, -GROUP);
        let groups_end = self.b.ins().iadd(from, in_groups);
        self.counted(from, groups_end, GROUP, &[], |e, i, _| {
            let lane = e.b.ins().isub(i, from);
            for (s, parts) in l.sums.iter().zip(l.group(e, i, 0)) {
                let m = &s.memory;
                let address = e.element(m.base, m.lane, lane);
                for (k, part) in parts.into_iter().enumerate() {
                    let old = e.b.ins().load(m.vector(), own_memory(), address, offset(16 * k));
                    let new = m.join(e, old, part);
                    e.b.ins().store(own_memory(), new, address, offset(16 * k));
                }
            }
            vec![]
        });
        self.counted(groups_end, end, 1, &[], |e, i, _| {
            e.bind(l.axis.index, i);
            e.block(l.body);
            let lane = e.b.ins().isub(i, from);
            for s in l.sums {
                let x = e.value(s.input);
                s.memory.add(e, lane, x);
            }
            vec![]
        });
        l.operands.restore(self);
    }
}

/// One reduction of a leaf by lanes; without levels where the order is free.
struct LaneSum {
    memory: LaneMemory,
    levels: Option<Levels>,
    input: ValueId,
}

/// A reducing loop over a leaf.
struct LeafLoop<'l> {
    axis: &'l Axis,
    body: &'l Block,
    leaf: &'l Leaf,
    operands: Operands,
    sums: &'l [LaneSum],
}

impl LeafLoop<'_> {
    /// The reduced values of the group that starts at `i + offset`, as lanes rest in memory.
    fn group(&self, e: &mut Emitter<'_>, i: Value, offset: i64) -> Vec<Vec<Value>> {
        let values = vectors::emit_groups(e, self.leaf, &self.operands, i, offset, 1);
        let narrow =
            |(s, v): (&LaneSum, _)| lanes128::narrow_masks(e, self.leaf, &self.operands, s.memory.fold.dtype, v);
        self.sums.iter().zip(values).map(narrow).collect()
    }
}

/// Up to so many elements go through as many lanes only.
const SHORT: usize = 16;

impl LaneMemory {
    /// Joins lanes of one register.
    fn join(&self, e: &mut Emitter<'_>, a: Value, b: Value) -> Value {
        lanes128::binary(e, self.fold.primitive(), self.fold.dtype, a, b)
    }

    /// Registers that a group fills.
    fn registers(&self) -> usize {
        GROUP as usize / self.per_vector()
    }
}

/// Whether a reduction can go by lanes.
fn in_lanes(fold: Fold, order: Order) -> bool {
    if fold.is_arg() || matches!(fold.dtype, Dtype::I8 | Dtype::U8 | Dtype::F16 | Dtype::Bf16) {
        return false;
    }
    order == Order::Lanes || !fold.op.depends_on_order(fold.dtype)
}

/// How many lanes live in registers at once: at most eight registers of sums, fewer lanes for long bodies.
fn lanes_at_once(leaf: &Leaf, folds: &[Fold]) -> i64 {
    let registers: i64 = folds.iter().map(|f| if f.dtype.bytes() == 8 { 2 } else { 1 }).sum();
    let by_registers = (8 / registers.max(1)).max(1);
    let by_weight = match leaf.weight() {
        0..=8 => 8,
        9..=24 => 4,
        25..=64 => 2,
        _ => 1,
    };
    let groups = by_registers.min(by_weight);
    GROUP * (1 << groups.ilog2())
}
