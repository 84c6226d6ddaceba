//! Reductions in the orders of `ir::order`.
//!
//! Joining chunks by pairwise levels is done as the elements come, by a binary counter: partial result number `n` is
//! joined with the pending one of each level whose bit of `n` is set, and at the end what is pending is joined from
//! the newest to the oldest. These are the same pairs.
//!
//! There are two ways to run a reducing loop. One takes any body: elements one by one, each lane of the order by
//! lanes in memory. The other takes a leaf: for each chunk, some lanes at a time live in vector registers over
//! all the rows of the chunk (which stays in the first-level cache), so that loads and sums run at full width.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use ir::nest::{Block, Loop, Reduction, ValueId};
use ir::order::{BLOCK, LANES, LANES_CHUNK, SCAN_CHUNK, SCAN_GROUP};
use ir::{BinaryOp, Dtype, Order, ReduceOp, Scalar};

use super::emit::{Emitter, own_memory};
use super::lanes128::{self, GROUP, Operands};
use super::leaf::Leaf;
use super::nest::Axis;
use super::scalar;

/// A reduction's operation on elements of a type.
#[derive(Clone, Copy)]
pub(super) struct Fold {
    pub(super) op: ReduceOp,
    pub(super) dtype: Dtype,
}

impl Fold {
    /// The primitive that joins two elements; `argmax` and `argmin` have none.
    pub(super) fn primitive(self) -> BinaryOp {
        match self.op {
            ReduceOp::Sum => BinaryOp::Add,
            ReduceOp::Prod => BinaryOp::Mul,
            ReduceOp::Max | ReduceOp::ArgMax => BinaryOp::Max,
            ReduceOp::Min | ReduceOp::ArgMin => BinaryOp::Min,
            ReduceOp::Any => BinaryOp::Or,
            ReduceOp::All => BinaryOp::And,
        }
    }

    /// The value of no elements.
    pub(super) fn identity(self) -> Scalar {
        let infinite = |negative: bool| {
            let v = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
            if self.dtype == Dtype::F64 { Scalar::F64(v) } else { Scalar::F32(v as f32) }
        };
        let signed = self.dtype.is_signed_int();
        let bits = 8 * self.dtype.bytes();
        match self.op {
            ReduceOp::Sum | ReduceOp::Any => Scalar::zero(self.dtype),
            ReduceOp::Prod | ReduceOp::All => Scalar::one(self.dtype),
            ReduceOp::Max | ReduceOp::ArgMax | ReduceOp::Min | ReduceOp::ArgMin => {
                let least = matches!(self.op, ReduceOp::Max | ReduceOp::ArgMax);
                match self.dtype {
                    Dtype::Bool => Scalar::Bool(!least),
                    d if d.is_float() => infinite(least),
                    d if signed && least => Scalar::from_bits(d, 1 << (bits - 1)),
                    d if signed => Scalar::from_bits(d, (1 << (bits - 1)) - 1),
                    d => Scalar::from_bits(d, if least { 0 } else { u64::MAX }),
                }
            }
        }
    }

    pub(super) fn empty(self, e: &mut Emitter<'_>) -> Value {
        scalar::constant(&mut e.b, self.identity())
    }

    pub(super) fn join(self, e: &mut Emitter<'_>, a: Value, b: Value) -> Value {
        scalar::binary(&mut e.b, &mut e.helpers, self.primitive(), self.dtype, a, b)
    }

    pub(super) fn is_arg(self) -> bool {
        matches!(self.op, ReduceOp::ArgMax | ReduceOp::ArgMin)
    }

    /// One element more for `argmax` or `argmin`: (best, its number). The first is always taken; after it a better
    /// one, or the first NaN.
    pub(super) fn pick(
        self,
        e: &mut Emitter<'_>,
        (best, at): (Value, Value),
        x: Value,
        number: Value,
    ) -> (Value, Value) {
        let first = e.b.ins().icmp_imm_s(IntCC::Equal, number, 0);
        let op = if self.op == ReduceOp::ArgMax { ir::CompareOp::Gt } else { ir::CompareOp::Lt };
        let better = scalar::compare(&mut e.b, op, self.dtype, x, best);
        let mut take = e.b.ins().bor(first, better);
        if self.dtype.is_float() {
            let nan = e.b.ins().fcmp(FloatCC::Unordered, x, x);
            let before = e.b.ins().fcmp(FloatCC::Ordered, best, best);
            let first_nan = e.b.ins().band(nan, before);
            take = e.b.ins().bor(take, first_nan);
        }
        (e.b.ins().select(take, x, best), e.b.ins().select(take, number, at))
    }
}

/// Pending partial results of pairwise levels.
struct Levels {
    fold: Fold,
    slots: Value,
    ty: Type,
}

impl Levels {
    fn new(e: &mut Emitter<'_>, fold: Fold) -> Levels {
        let ty = scalar::register(fold.dtype);
        Levels { fold, slots: e.scratch(64 * ty.bytes() as usize), ty }
    }

    /// Takes partial result number `number`.
    fn push(&self, e: &mut Emitter<'_>, number: Value, x: Value) {
        let width = i64::from(self.ty.bytes());
        let state = e.repeat(&[number, self.slots, x], |e, state| {
            let (bits, slot, x) = (state[0], state[1], state[2]);
            let pending = e.b.ins().band_imm_u(bits, 1);
            let joined = e.when(pending, &[x], |e| {
                let older = e.b.ins().load(self.ty, own_memory(), slot, 0);
                vec![self.fold.join(e, older, x)]
            })[0];
            let bits = e.b.ins().ushr_imm_u(bits, 1);
            let up = e.b.ins().imul_imm_s(pending, width);
            (pending, vec![bits, e.b.ins().iadd(slot, up), joined])
        });
        e.b.ins().store(own_memory(), state[2], state[1], 0);
    }

    /// The result of `count` partial results.
    fn finish(&self, e: &mut Emitter<'_>, count: Value) -> Value {
        let empty = self.fold.empty(e);
        e.when(count, &[empty], |e| {
            let state = e.repeat(&[count, self.slots, empty], |e, state| {
                let (bits, slot, sum) = (state[0], state[1], state[2]);
                let pending = e.b.ins().band_imm_u(bits, 1);
                let joined = e.when(pending, &[sum], |e| {
                    let older = e.b.ins().load(self.ty, own_memory(), slot, 0);
                    vec![self.fold.join(e, older, sum)]
                })[0];
                let bits = e.b.ins().ushr_imm_u(bits, 1);
                let slot = e.b.ins().iadd_imm_s(slot, i64::from(self.ty.bytes()));
                (bits, vec![bits, slot, joined])
            });
            vec![state[2]]
        })[0]
    }
}

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

    /// Sets all lanes to the value of no elements.
    fn clear(&self, e: &mut Emitter<'_>) {
        let empty = lanes128::splat_constant(e, self.fold.identity());
        for vector in 0..LANES / self.per_vector() {
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

    /// The lanes folded in halves.
    fn fold(&self, e: &mut Emitter<'_>) -> Value {
        let mut v = self.halves(e, 0, self.per_vector());
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
    fn halves(&self, e: &mut Emitter<'_>, from: usize, width: usize) -> Value {
        if width == LANES {
            return e.b.ins().load(self.vector(), own_memory(), self.base, offset(from * self.lane.bytes() as usize));
        }
        let low = self.halves(e, from, 2 * width);
        let high = self.halves(e, from + width, 2 * width);
        lanes128::binary(e, self.fold.primitive(), self.fold.dtype, low, high)
    }
}

fn offset(bytes: usize) -> i32 {
    i32::try_from(bytes).expect("a small offset")
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
                memory.clear(e);
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
                at_multiple(e, next, BLOCK, &[sum], |e| {
                    let block = e.b.ins().ushr_imm_u(number, i64::from(BLOCK.ilog2()));
                    levels.push(e, block, sum);
                    vec![fold.empty(e)]
                })
            }
            Way::Lanes(memory, levels) => {
                let lane = e.b.ins().band_imm_u(number, LANES as i64 - 1);
                memory.add(e, lane, x);
                at_multiple(e, next, LANES_CHUNK, &[], |e| {
                    let chunk = e.b.ins().ushr_imm_u(number, i64::from(LANES_CHUNK.ilog2()));
                    let sum = memory.fold(e);
                    levels.push(e, chunk, sum);
                    memory.clear(e);
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
            Way::Blocks(levels) => {
                let rest = e.b.ins().band_imm_u(count, BLOCK as i64 - 1);
                e.when(rest, &[], |e| {
                    let block = e.b.ins().ushr_imm_u(count, i64::from(BLOCK.ilog2()));
                    levels.push(e, block, state[0]);
                    vec![]
                });
                let blocks = ceil_div(e, count, BLOCK);
                levels.finish(e, blocks)
            }
            Way::Lanes(memory, levels) => {
                let rest = e.b.ins().band_imm_u(count, LANES_CHUNK as i64 - 1);
                e.when(rest, &[], |e| {
                    let chunk = e.b.ins().ushr_imm_u(count, i64::from(LANES_CHUNK.ilog2()));
                    let sum = memory.fold(e);
                    levels.push(e, chunk, sum);
                    vec![]
                });
                let chunks = ceil_div(e, count, LANES_CHUNK);
                levels.finish(e, chunks)
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

/// Runs `then` where `count` is a multiple of a power of two.
fn at_multiple(
    e: &mut Emitter<'_>,
    count: Value,
    of: usize,
    otherwise: &[Value],
    then: impl FnOnce(&mut Emitter<'_>) -> Vec<Value>,
) -> Vec<Value> {
    let rest = e.b.ins().band_imm_u(count, of as i64 - 1);
    let whole = e.b.ins().icmp_imm_s(IntCC::Equal, rest, 0);
    e.when(whole, otherwise, |e| then(e))
}

fn ceil_div(e: &mut Emitter<'_>, count: Value, by: usize) -> Value {
    let sum = e.b.ins().iadd_imm_s(count, by as i64 - 1);
    e.b.ins().ushr_imm_u(sum, i64::from(by.ilog2()))
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
        let memories: Vec<LaneMemory> = folds.iter().map(|f| LaneMemory::new(self, *f)).collect();
        let levels: Vec<Option<Levels>> = reductions
            .iter()
            .zip(folds)
            .map(|(_, f)| f.op.depends_on_order(f.dtype).then(|| Levels::new(self, *f)))
            .collect();
        for (memory, _) in memories.iter().zip(&levels).filter(|(_, levels)| levels.is_none()) {
            memory.clear(self);
        }
        let n = axis.extent;
        let some = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, n, 0);
        let mut initial = vec![];
        for (memory, levels) in memories.iter().zip(&levels) {
            if levels.is_none() {
                initial.push(memory.fold.empty(self));
            }
        }
        // Behind the test for an empty loop, since what is computed once may load.
        let free = self.when(some, &initial, |e| {
            let operands = Operands::new(e, leaf);
            let lanes_at_once = lanes_at_once(leaf, folds);
            e.counted(zero, n, LANES_CHUNK as i64, &[], |e, base, _| {
                e.chunk(axis, body, leaf, &operands, &memories, &levels, reductions, base, lanes_at_once);
                vec![]
            });
            memories.iter().zip(&levels).filter(|(_, l)| l.is_none()).map(|(m, _)| m.fold(e)).collect()
        });
        let chunks = ceil_div(self, n, LANES_CHUNK);
        let mut free = free.into_iter();
        for (levels, r) in levels.iter().zip(reductions) {
            let result = match levels {
                Some(levels) => levels.finish(self, chunks),
                None => free.next().expect("one for each"),
            };
            self.define(r.result, result);
        }
    }

    /// One chunk: whole rows of lanes in vectors, then what is left over one by one.
    #[expect(clippy::too_many_arguments, reason = "the state of one loop, split for reading")]
    fn chunk(
        &mut self,
        axis: &Axis,
        body: &Block,
        leaf: &Leaf,
        operands: &Operands,
        memories: &[LaneMemory],
        levels: &[Option<Levels>],
        reductions: &[Reduction],
        base: Value,
        lanes_at_once: i64,
    ) {
        let left = self.b.ins().isub(axis.extent, base);
        let most = self.int(LANES_CHUNK as i64);
        let count = self.least(left, most);
        let end = self.b.ins().iadd(base, count);
        let in_rows = self.b.ins().band_imm_s(count, -(LANES as i64));
        let rows_end = self.b.ins().iadd(base, in_rows);
        let (first, last) = (self.int(0), self.int(LANES as i64));
        self.counted(first, last, lanes_at_once, &[], |e, lane, _| {
            let mut sums = vec![];
            let groups = usize::try_from(lanes_at_once / GROUP).expect("a small number");
            let addresses: Vec<Value> = memories.iter().map(|m| e.element(m.base, m.lane, lane)).collect();
            for ((m, levels), address) in memories.iter().zip(levels).zip(&addresses) {
                let registers = groups * m.registers();
                for k in 0..registers {
                    sums.push(match levels {
                        Some(_) => lanes128::splat_constant(e, m.fold.identity()),
                        None => e.b.ins().load(m.vector(), own_memory(), *address, offset(16 * k)),
                    });
                }
            }
            let from = e.b.ins().iadd(base, lane);
            // Lanes of a row beyond the last whole one are none: `rows_end` cuts all lanes alike.
            let sums = e.counted(from, rows_end, LANES as i64, &sums, |e, i, sums| {
                let mut next = sums.to_vec();
                for group in 0..groups {
                    let values = lanes128::emit_group(e, leaf, operands, i, group as i64 * GROUP);
                    let mut at = 0;
                    for (m, value) in memories.iter().zip(values) {
                        let value = lanes128::narrow_masks(e, leaf, operands, m.fold.dtype, value);
                        let registers = m.registers();
                        for (k, part) in value.into_iter().enumerate() {
                            let sum = &mut next[at + group * registers + k];
                            *sum = lanes128::binary(e, m.fold.primitive(), m.fold.dtype, *sum, part);
                        }
                        at += groups * registers;
                    }
                }
                next
            });
            let mut at = 0;
            for (m, address) in memories.iter().zip(&addresses) {
                for k in 0..groups * m.registers() {
                    e.b.ins().store(own_memory(), sums[at + k], *address, offset(16 * k));
                }
                at += groups * m.registers();
            }
            vec![]
        });
        self.counted(rows_end, end, 1, &[], |e, i, _| {
            e.bind(axis.index, i);
            e.block(body);
            let lane = e.b.ins().isub(i, rows_end);
            for (m, r) in memories.iter().zip(reductions) {
                let x = e.value(r.input);
                m.add(e, lane, x);
            }
            vec![]
        });
        let number = self.b.ins().ushr_imm_u(base, i64::from(LANES_CHUNK.ilog2()));
        for (m, levels) in memories.iter().zip(levels) {
            if let Some(levels) = levels {
                let sum = m.fold(self);
                levels.push(self, number, sum);
            }
        }
    }
}

impl LaneMemory {
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
