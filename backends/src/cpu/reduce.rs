//! Reductions in the orders of `ir::order`.
//!
//! There are two ways to run a reducing loop. The one here takes any body, elements one by one; `lanes` takes a leaf,
//! several at once.

use cranelift_codegen::ir::{InstBuilder, Value};
use ir::Order;
use ir::nest::{Loop, Reduction};
use ir::order::{LANES, LANES_CHUNK, SCAN_CHUNK, SCAN_GROUP};
use ir::sabotage::{self, Bug};

use super::emit::{Emitter, own_memory};
use super::fold::{Fold, Levels, at_multiple, ceil_div, offset};
use super::lane_memory::LaneMemory;
use super::scalar;

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
    /// Of elements that are results of chunks: ().
    Levels(Levels),
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
    fn new(e: &mut Emitter<'_>, fold: Fold, order: Order, joins: bool) -> Accumulator {
        let way = match order {
            _ if fold.is_arg() => Way::Pick,
            _ if !fold.op.depends_on_order(fold.dtype) => Way::Serial,
            Order::Free => Way::Serial,
            _ if joins => Way::Levels(Levels::new(e, fold)),
            Order::Blocks => Way::Blocks(Levels::new(e, fold)),
            Order::Lanes => {
                let memory = LaneMemory::new(e, fold);
                let all = e.int(LANES as i64);
                memory.clear(e, all);
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
            Way::Lanes(..) | Way::Levels(_) => vec![],
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
            Way::Levels(levels) => {
                levels.push(e, number, &[x]);
                vec![]
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
                    let all = e.int(LANES as i64);
                    let sum = memory.fold(e, all);
                    levels.push(e, chunk, &[sum]);
                    memory.clear(e, all);
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
            Way::Levels(levels) => levels.finish(e, count)[0],
            Way::Blocks(levels) => levels.finish_blocks(e, state, count)[0],
            Way::Lanes(memory, levels) => {
                let rest = e.b.ins().band_imm_u(count, LANES_CHUNK as i64 - 1);
                e.when(rest, &[], |e| {
                    let chunk = e.b.ins().ushr_imm_u(count, i64::from(LANES_CHUNK.ilog2()));
                    let sum = memory.fold(e, rest);
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
    vec![
        if sabotage::on(Bug::ScanGroups) { empty } else { e.b.ins().select(rest, carry, empty) },
        e.b.ins().select(rest, chunk, joined),
    ]
}

impl Emitter<'_> {
    /// A reducing loop.
    pub(super) fn reduce(&mut self, l: &Loop, reductions: &[Reduction]) {
        let axes = self.axes(&l.dims, &[&l.body]);
        let folds: Vec<Fold> = reductions.iter().map(|r| Fold { op: r.op, dtype: self.dtype(r.input) }).collect();
        let joins = l.dims.iter().any(|(index, _)| self.joins.contains(index));
        if !joins && self.reduce_by_lanes(&axes, l, reductions).is_some() {
            return;
        }
        let accumulators: Vec<Accumulator> =
            reductions.iter().zip(&folds).map(|(r, f)| Accumulator::new(self, *f, r.order, joins)).collect();
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
}
