//! Reductions in the orders of `ir::order`.
//!
//! There are two ways to run a reducing loop. This module takes any body and accumulates elements
//! one by one; `lanes` vectorizes loops over leaves.

use cranelift_codegen::ir::{InstBuilder, Value};
use ir::Order;
use ir::nest::{Input, Loop, Reduction};
use ir::order::{Distribution, LANES, LANES_CHUNK, SCAN_CHUNK, SCAN_GROUP, Scope, Step};
use ir::sabotage::{self, Bug};
use ir::sched::Form;

use super::emit::Emitter;
use super::fold::{Layout, Levels, Merging, MergingCode, at_multiple};
use super::lane_memory::LanesInMemory;
use super::lanes::{Reducing, Vectorized};
use super::state::Axis;

/// The inclusive prefixes inside a group of a scan. Its elements are in memory.
pub(super) fn scan_group(e: &mut Emitter<'_>, merging: Merging, layout: &Layout, base: Value) -> Vec<Vec<Value>> {
    let mut p: Vec<Vec<Value>> = (0..SCAN_GROUP).map(|k| layout.load(e, base, k * layout.bytes())).collect();
    let steps = Order::Scan.tree().steps(&Distribution::new([Scope::Register.of(SCAN_GROUP)]));
    for (before, k) in steps.into_iter().flat_map(Step::pairs) {
        p[k] = merging.join(e, &p[before], &p[k]);
    }
    p
}

/// How one reduction accumulates elements one by one. Each variant says which values its loop
/// carries.
enum Way {
    /// In ascending order; carries the state.
    Serial,
    /// By pairwise levels, because the elements are results of chunks; carries nothing.
    Levels(Levels),
    /// By blocks; carries the state of the current block.
    Blocks(Levels),
    /// By lanes; carries nothing.
    Lanes(LanesInMemory, Levels),
    /// As the last prefix of a scan, with the current group in memory; carries the state of the
    /// chunk's groups and that of the chunks before.
    Scan(Value),
}

struct Accumulator {
    merging: Merging,
    layout: Layout,
    way: Way,
}

impl Accumulator {
    /// For as many elements as the product of the axes.
    fn new(e: &mut Emitter<'_>, merging: Merging, order: Order, joins: bool, axes: &[Axis]) -> Accumulator {
        let layout = Layout::new(merging.registers(e.unit.program));
        let way = match order {
            _ if !merging.depends_on_order(e.unit.program) => Way::Serial,
            Order::Free => Way::Serial,
            _ if joins => Way::Levels(Levels::new(e, merging)),
            Order::Blocks => Way::Blocks(Levels::new(e, merging)),
            Order::Lanes => {
                let memory = LanesInMemory::new(e, merging);
                // A short row, as one of a sparse matrix, meets few lanes. (The length of an inner
                // axis may depend on the index of an outer one.)
                let count = match axes {
                    [axis] => {
                        let one = e.int(1);
                        e.b.ins().smax(axis.extent, one)
                    }
                    _ => e.int(LANES as i64),
                };
                memory.clear(e, count);
                Way::Lanes(memory, Levels::new(e, merging))
            }
            Order::Scan => Way::Scan(e.scratch(SCAN_GROUP * layout.bytes())),
        };
        Accumulator { merging, layout, way }
    }

    fn initial(&self, e: &mut Emitter<'_>) -> Vec<Value> {
        match self.way {
            Way::Serial | Way::Blocks(_) => self.merging.empty(e),
            Way::Lanes(..) | Way::Levels(_) => vec![],
            Way::Scan(_) => [self.merging.empty(e), self.merging.empty(e)].concat(),
        }
    }

    /// Element number `number`; `next` is one more.
    fn take(&self, e: &mut Emitter<'_>, state: &[Value], x: &[Value], number: Value, next: Value) -> Vec<Value> {
        match &self.way {
            Way::Serial => self.merging.join(e, state, x),
            Way::Levels(levels) => {
                levels.push(e, number, x);
                vec![]
            }
            Way::Blocks(levels) => {
                let sum = self.merging.join(e, state, x);
                levels.block(e, &sum, number, next)
            }
            Way::Lanes(memory, levels) => {
                let lane = e.b.ins().band_imm_u(number, LANES as i64 - 1);
                memory.add(e, lane, x);
                at_multiple(e, next, LANES_CHUNK, &[], |e| {
                    let chunk = e.b.ins().ushr_imm_u(number, i64::from(LANES_CHUNK.ilog2()));
                    let all = e.int(LANES as i64);
                    let sum = memory.fold(e, all);
                    levels.push(e, chunk, &sum);
                    memory.clear(e, all);
                    vec![]
                })
            }
            Way::Scan(group) => {
                let place = e.b.ins().band_imm_u(number, SCAN_GROUP as i64 - 1);
                let address = self.layout.element(e, *group, place);
                self.layout.store(e, x, address, 0);
                at_multiple(e, next, SCAN_GROUP, state, |e| {
                    let prefixes = scan_group(e, self.merging, &self.layout, *group);
                    end_group(e, self.merging, state, &prefixes[SCAN_GROUP - 1], next)
                })
            }
        }
    }

    fn finish(&self, e: &mut Emitter<'_>, state: &[Value], count: Value) -> Vec<Value> {
        match &self.way {
            Way::Serial => state.to_vec(),
            Way::Levels(levels) => levels.finish(e, count),
            Way::Blocks(levels) => levels.finish_blocks(e, state, count),
            Way::Lanes(memory, levels) => levels.finish_chunks(e, Order::Lanes, count, |e, rest| memory.fold(e, rest)),
            Way::Scan(group) => {
                let rest = e.b.ins().band_imm_u(count, SCAN_GROUP as i64 - 1);
                let (carry, chunk) = state.split_at(state.len() / 2);
                let carry = e.when(rest, carry, |e| {
                    for (k, p) in scan_group(e, self.merging, &self.layout, *group).into_iter().enumerate() {
                        self.layout.store(e, &p, *group, k * self.layout.bytes());
                    }
                    let last = e.b.ins().iadd_imm_s(rest, -1);
                    let address = self.layout.element(e, *group, last);
                    let last = self.layout.load(e, address, 0);
                    self.merging.join(e, carry, &last)
                });
                self.merging.join(e, chunk, &carry)
            }
        }
    }
}

/// The carries after a group, of the chunk's groups and then of the chunks, when `next` elements
/// have been taken.
pub(super) fn end_group(
    e: &mut Emitter<'_>,
    merging: Merging,
    carries: &[Value],
    last: &[Value],
    next: Value,
) -> Vec<Value> {
    let (carry, chunk) = carries.split_at(carries.len() / 2);
    let carry = merging.join(e, carry, last);
    let rest = e.b.ins().band_imm_u(next, SCAN_CHUNK as i64 - 1);
    let joined = merging.join(e, chunk, &carry);
    let empty = merging.empty(e);
    let mut new = vec![];
    for (carry, empty) in carry.into_iter().zip(empty) {
        new.push(if sabotage::on(Bug::ScanGroups) { empty } else { e.b.ins().select(rest, carry, empty) });
    }
    for (chunk, joined) in chunk.iter().zip(joined) {
        new.push(e.b.ins().select(rest, *chunk, joined));
    }
    new
}

impl Emitter<'_> {
    /// How the states of a reduction are merged.
    pub(super) fn merging(&self, r: &Reduction) -> Merging {
        Merging::of(self.scope.dtypes, r)
    }

    /// The state that the element of iteration `number` is.
    pub(super) fn state(&self, inputs: &[Input], number: Value) -> Vec<Value> {
        inputs.iter().map(|input| input.value().map_or(number, |value| self.value(value))).collect()
    }

    /// A reducing loop.
    pub(super) fn reduce(&mut self, l: &Loop, reductions: &[Reduction]) {
        let axes = self.axes(&l.dims, &[&l.body]);
        let form = self.form_of_reduction(l);
        match self.reducing(&form, &axes, l, reductions) {
            Reducing::Leaf(axis, leaf, members) => {
                self.reduce_leaf(&Vectorized { axis, body: &l.body, leaf: &leaf }, None, None, &members);
            }
            Reducing::Materialized(members) => self.reduce_materialized(&axes, &l.body, None, &members),
            Reducing::OneByOne => {
                if let Form::Single { inside, .. } = form {
                    self.enter(&inside);
                }
                self.reduce_one_by_one(&axes, l, reductions);
            }
        }
    }

    /// A reducing loop with any body, element by element.
    fn reduce_one_by_one(&mut self, axes: &[Axis], l: &Loop, reductions: &[Reduction]) {
        let joins = l.dims.iter().any(|(index, _)| self.unit.part.joins.contains(index));
        let accumulators: Vec<Accumulator> =
            reductions.iter().map(|r| Accumulator::new(self, self.merging(r), r.order, joins, axes)).collect();
        let mut state = vec![self.int(0)];
        for a in &accumulators {
            state.extend(a.initial(self));
        }
        let lengths: Vec<usize> = accumulators.iter().map(|a| a.initial(self).len()).collect();
        let last = self.nest(axes, &state, &mut |e, state| {
            e.block(&l.body);
            let number = state[0];
            let next = e.b.ins().iadd_imm_s(number, 1);
            let mut new = vec![next];
            let mut from = 1;
            for ((a, length), r) in accumulators.iter().zip(&lengths).zip(reductions) {
                let x = e.state(&r.inputs, number);
                new.extend(a.take(e, &state[from..from + length], &x, number, next));
                from += length;
            }
            new
        });
        let mut from = 1;
        for ((a, length), r) in accumulators.iter().zip(&lengths).zip(reductions) {
            let results = a.finish(self, &last[from..from + length], last[0]);
            r.results.iter().zip(results).for_each(|(v, result)| self.define(*v, result));
            from += length;
        }
    }
}
