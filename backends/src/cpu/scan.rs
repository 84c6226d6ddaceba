//! Loops that compute running reductions.
//!
//! There are two ways. One takes elements one by one: if the body may fault, because the first
//! fault must be the one that is reported, and for states of several values, such as that of
//! `argmax`. The other takes a chunk of the order at a time: for each prefix in turn, the part of
//! the body that computes its input runs over the chunk as a vectorized leaf and leaves the chunk's
//! own prefixes in memory; then the rest of the body runs over the chunk and merges them with the
//! result of the chunks before. Operations that both parts need are computed twice, which is
//! cheaper than keeping their results.
//!
//! A scan at the top of a kernel runs on several threads: each takes the next chunk and passes on
//! the result of the chunks up to its own as soon as it has it, before its second pass over the
//! elements. See [`HandOff`].

use std::collections::BTreeSet;
use std::ops::Range;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I8X16;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::Order;
use ir::build::Values;
use ir::nest::{self, Block, IndexId, Loop, Op, Statement, ValueId};
use ir::order::{Distribution, SCAN_CHUNK, SCAN_GROUP, Scope};
use ir::sabotage::{self, Bug};
use ir::sched::{HandOff, prefixes_in_chunks};
use ir::visit;

use super::carry::Carry;
use super::emit::Emitter;
use super::fold::{Fold, FoldCode, Layout, Merging, MergingCode};
use super::jit::Helper;
use super::lanes128::{self, little};
use super::materialize::{Materialized, ScratchArray};
use super::reduce::{end_group, scan_group};
use super::scalar;
use super::state::Axis;
use super::state::offset;
use super::state::own_memory;
use super::wide::scan::Scanner;

const _: () = assert!(SCAN_CHUNK.is_multiple_of(SCAN_GROUP));

/// One prefix of the body.
struct Prefix<'k> {
    result: ValueId,
    prefix: &'k nest::Prefix,
    merging: Merging,
    layout: Layout,
}

impl<'k> Prefix<'k> {
    /// The prefixes of a scan.
    fn all(e: &Emitter<'_>, l: &'k Loop) -> Vec<Prefix<'k>> {
        let prefix = |statement: &'k Statement| {
            let Statement::Let { value, op: Op::Prefix(prefix) } = statement else { return None };
            let merging = Merging::of_prefix(e.scope.dtypes, prefix);
            let layout = Layout::new(merging.registers(e.unit.program));
            Some(Prefix { result: *value, prefix, merging, layout })
        };
        l.body.iter().filter_map(prefix).collect()
    }

    /// The values that are carried from element to element or from group to group.
    fn initial(&self, e: &mut Emitter<'_>) -> Vec<Value> {
        let empty = self.merging.empty(e);
        if self.merging.depends_on_order(e.unit.program) { [empty.clone(), empty].concat() } else { empty }
    }

    /// The memory of a group: its elements, and then their prefixes.
    fn bytes(&self) -> usize {
        2 * SCAN_GROUP * self.layout.bytes()
    }

    /// Takes one element. Returns the carried values and the prefix. If the order matters, `group`
    /// is the memory of the current group.
    fn take(&self, e: &mut Emitter<'_>, state: &[Value], number: Value, group: Value) -> (Vec<Value>, Vec<Value>) {
        let (merging, layout) = (self.merging, &self.layout);
        let x = e.state(&self.prefix.inputs, number);
        if !merging.depends_on_order(e.unit.program) {
            let sum = merging.join(e, state, &x);
            return (sum.clone(), sum);
        }
        let (carry, chunk) = state.split_at(state.len() / 2);
        let place = e.b.ins().band_imm_u(number, SCAN_GROUP as i64 - 1);
        let address = layout.element(e, group, place);
        layout.store(e, &x, address, 0);
        // Elements after this one are left over from the previous group and do not affect the
        // prefixes up to it.
        let prefixes = scan_group(e, merging, layout, group);
        let done = SCAN_GROUP * layout.bytes();
        for (k, prefix) in prefixes.iter().enumerate() {
            layout.store(e, prefix, group, done + k * layout.bytes());
        }
        let prefix = layout.load(e, address, done);
        let inner = merging.join(e, carry, &prefix);
        let whole = merging.join(e, chunk, &inner);
        let next = e.b.ins().iadd_imm_s(number, 1);
        let rest = e.b.ins().band_imm_u(next, SCAN_GROUP as i64 - 1);
        let full = e.b.ins().icmp_imm_s(IntCC::Equal, rest, 0);
        let last = &prefixes[SCAN_GROUP - 1];
        (e.when(full, state, |e| end_group(e, merging, state, last, next)), whole)
    }
}

/// One prefix of a scan that is computed by chunks: of single values, by a primitive.
#[derive(Clone, Copy)]
pub(super) struct ChunkPrefix {
    result: ValueId,
    input: ValueId,
    fold: Fold,
    /// Its position in the body.
    at: usize,
}

/// The prefixes of a scan, if it is computed by chunks.
pub(super) fn in_chunks(values: &Values, l: &Loop) -> Option<Vec<ChunkPrefix>> {
    prefixes_in_chunks(l)?;
    let prefix = |(at, statement): (usize, &Statement)| {
        let Statement::Let { value, op: Op::Prefix(prefix) } = statement else { return None };
        let (op, input) = prefix.single()?;
        Some(ChunkPrefix { result: *value, input, fold: Fold { op, dtype: values[input] }, at })
    };
    Some(l.body.iter().enumerate().filter_map(prefix).collect())
}

impl Emitter<'_> {
    pub(super) fn scan(&mut self, l: &Loop) {
        let [(index, extent)] = l.dims.as_slice() else { return };
        let n = self.extent(extent);
        match in_chunks(self.scope.dtypes, l) {
            Some(prefixes) => {
                let all = self.int(0)..n;
                self.scan_chunks(l, Axis { index: *index, merged: vec![], extent: n }, all, &prefixes, None);
            }
            None => self.scan_elements(l, *index, n, &Prefix::all(self, l)),
        }
    }

    /// The chunks `begin..end` of a scan.
    pub(super) fn scan_part(&mut self, l: &Loop, Range { start: begin, end }: Range<Value>, hand_off: HandOff) {
        let [(index, extent)] = l.dims.as_slice() else { return };
        let Some(prefixes) = in_chunks(self.scope.dtypes, l) else { return };
        let n = self.extent(extent);
        let shift = i64::from(SCAN_CHUNK.ilog2());
        let first = self.b.ins().ishl_imm_u(begin, shift);
        let past = self.b.ins().ishl_imm_u(end, shift);
        let past = self.least(past, n);
        let axis = Axis { index: *index, merged: vec![], extent: n };
        self.scan_chunks(l, axis, first..past, &prefixes, Some(hand_off));
    }

    fn scan_elements(&mut self, l: &Loop, index: IndexId, n: Value, prefixes: &[Prefix<'_>]) {
        let states: Vec<Vec<Value>> = prefixes.iter().map(|p| p.initial(self)).collect();
        let groups: Vec<Value> = prefixes.iter().map(|p| self.scratch(p.bytes())).collect();
        let zero = self.int(0);
        self.counted(zero, n, 1, &states.concat(), |e, i, state| {
            e.poll();
            e.bind(index, i);
            let mut state = state;
            let mut new = vec![];
            let mut next = prefixes.iter().zip(&states).zip(&groups);
            for statement in &l.body {
                if let Statement::Let { op: Op::Prefix(..) | Op::Place(_), .. } = statement {
                    let Some(((p, initial), group)) = next.next() else { continue };
                    let (own, rest) = state.split_at(initial.len());
                    state = rest;
                    let (taken, so_far) = p.take(e, own, i, *group);
                    new.extend(taken);
                    e.define(p.result, so_far[p.prefix.field]);
                } else {
                    e.statement(statement);
                }
            }
            new
        });
    }

    /// Scans the elements `from..past`: whole chunks, but for the last.
    fn scan_chunks(
        &mut self,
        l: &Loop,
        axis: Axis,
        Range { start: from, end: past }: Range<Value>,
        prefixes: &[ChunkPrefix],
        hand_off: Option<HandOff>,
    ) {
        let parts: Vec<PrefixValues> = prefixes.iter().map(|p| PrefixValues::new(self, *p)).collect();
        let inner = Materialized::new(self, parts.iter().map(|part| part.inner).collect(), SCAN_CHUNK);
        // The part of the body that computes a value, or that stores. Prefixes are loaded from
        // memory.
        let with = |found: &[PrefixValues], body: Block, wanted: Option<ValueId>| {
            let mut used = visit::free_values(&body);
            used.extend(wanted);
            let loads = inner.loads(axis.index);
            let mut all = vec![];
            for part in found.iter().filter(|part| used.contains(&part.prefix.result)) {
                let load = |s: &&Statement| matches!(s, Statement::Let { value, .. } if *value == part.inner);
                all.extend(loads.iter().find(load).cloned());
                let op = Op::Binary(part.prefix.fold.primitive(), part.before, part.inner);
                all.push(Statement::Let { value: part.prefix.result, op });
            }
            all.extend(body);
            all
        };
        let mut leading = vec![];
        for (k, part) in parts.iter().enumerate() {
            let p = part.prefix;
            let leading_to = needed(&l.body[..p.at], BTreeSet::from([p.input]), false);
            let mut body = with(&parts[..k], leading_to, Some(p.input));
            let keeps = |s: &Statement| matches!(s, Statement::Store { value, .. } if *value == part.inner);
            if let Some(Statement::Store { buffer, at, .. }) = inner.stores(axis.index).into_iter().find(keeps) {
                body.push(Statement::Store { buffer, at, value: p.input });
            }
            leading.push((Scanner::new(self, axis.index, &body, p.input, p.fold), body));
        }
        let rest = with(&parts, needed(&l.body, BTreeSet::new(), true), None);
        let empty: Vec<Value> = parts.iter().map(|part| part.prefix.fold.empty(self)).collect();
        self.counted(from, past, SCAN_CHUNK as i64, &empty, |e, first, before| {
            e.poll();
            let end = e.b.ins().iadd_imm_s(first, SCAN_CHUNK as i64);
            let end = e.least(end, past);
            inner.begin(e, first);
            let number = e.b.ins().ushr_imm_u(first, i64::from(SCAN_CHUNK.ilog2()));
            let mut next = vec![];
            for (k, (part, (wide, leading))) in parts.iter().zip(&leading).enumerate() {
                let sum = match wide {
                    Some(wide) => wide.run(e, first, end),
                    None => {
                        e.innermost(&axis, first, end, leading);
                        let array = inner.array(e, part.inner);
                        let count = e.b.ins().isub(end, first);
                        e.prefixes_in_place(part.prefix.fold, array, count)
                    }
                };
                let fold = part.prefix.fold;
                let Some(hand_off) = hand_off else {
                    e.define(part.before, before[k]);
                    next.push(if sabotage::on(Bug::ScanChunks) { sum } else { fold.join(e, before[k], sum) });
                    continue;
                };
                let base = e.base(hand_off.buffer);
                let own = e.b.ins().iadd_imm_s(base, (k * HandOff::BYTES) as i64);
                if let Some(cancelled) = e.cancelled().filter(|_| !sabotage::on(Bug::UnawaitedChunk)) {
                    e.helpers.run(&mut e.b, Helper::Await, &[own, number, cancelled]);
                    e.poll();
                }
                let found = e.b.ins().load(scalar::register(fold.dtype), own_memory(), own, Carry::SO_FAR);
                let before = e.b.ins().select(number, found, empty[k]);
                let so_far = fold.join(e, before, sum);
                e.b.ins().store(own_memory(), so_far, own, Carry::SO_FAR);
                let turn = e.b.ins().iadd_imm_s(number, 1);
                e.b.ins().atomic_store(own_memory(), turn, own);
                e.define(part.before, before);
                next.push(so_far);
            }
            e.innermost(&axis, first, end, &rest);
            next
        });
    }

    /// Replaces the elements of a chunk in memory by the chunk's own prefixes. Returns the chunk's
    /// result.
    fn prefixes_in_place(&mut self, fold: Fold, array: ScratchArray, count: Value) -> Value {
        let zero = self.int(0);
        let ty = scalar::register(fold.dtype);
        let empty = fold.empty(self);
        if !in_groups(fold) {
            let sum = self.counted(zero, count, 1, &[empty], |e, k, sum| {
                let address = e.element(array.base, ty, k);
                let x = e.b.ins().load(ty, array.flags, address, 0);
                let sum = fold.join(e, sum[0], x);
                e.b.ins().store(array.flags, sum, address, 0);
                vec![sum]
            });
            return sum[0];
        }
        let carried = lanes128::splat_constant(self, fold.identity());
        let last = self.counted(zero, count, SCAN_GROUP as i64, &[carried], |e, k, carried| {
            let array = ScratchArray { base: e.element(array.base, ty, k), ..array };
            vec![vector_group(e, fold, array, carried[0])]
        });
        self.b.ins().extractlane(last[0], 0)
    }
}

/// A prefix in a scan by chunks.
struct PrefixValues {
    prefix: ChunkPrefix,
    /// The result of the elements of the chunk alone.
    inner: ValueId,
    /// The result of the chunks before.
    before: ValueId,
}

impl PrefixValues {
    fn new(e: &mut Emitter<'_>, prefix: ChunkPrefix) -> PrefixValues {
        let dtype = prefix.fold.dtype;
        PrefixValues { prefix, inner: e.new_value(dtype), before: e.new_value(dtype) }
    }
}

/// Whether the prefixes of a group are computed as vectors.
fn in_groups(fold: Fold) -> bool {
    matches!(fold.dtype.bytes(), 4 | 8)
}

/// Makes the elements of a group of a scan, in memory, its prefixes, each merged with the result of
/// the groups before (`carried`). Returns the new `carried`. An element with nothing before it is
/// merged with the identity, which the last merge makes invisible. After the last element of all
/// there may be garbage: no earlier prefix depends on it.
fn vector_group(e: &mut Emitter<'_>, fold: Fold, array: ScratchArray, carried: Value) -> Value {
    let ty = lanes128::vector(fold.dtype, false);
    let lanes = ty.lane_count() as usize;
    let width = ty.lane_type().bytes() as usize;
    let at = |k: usize| offset(16 * k);
    let join = |e: &mut Emitter<'_>, a, b| lanes128::binary(e, fold.primitive(), fold.dtype, a, b);
    let empty = lanes128::splat_constant(e, fold.identity());
    let mut p = vec![];
    for k in 0..SCAN_GROUP / lanes {
        p.push(e.b.ins().load(ty, array.flags, array.base, at(k)));
    }
    let over = Distribution::new([Scope::Vector.of(lanes), Scope::Register.of(p.len())]);
    for step in Order::Scan.tree().steps(&over) {
        if step.scope == Scope::Register {
            for (before, k) in step.pairs() {
                p[k] = join(e, p[before], p[k]);
            }
            continue;
        }
        for k in (0..p.len()).rev() {
            let low = if k == 0 { empty } else { p[k - 1] };
            let first = 16 - step.distance * width;
            let before = shuffle(e, low, p[k], &std::array::from_fn(|byte| (first + byte) as u8));
            p[k] = join(e, before, p[k]);
        }
    }
    for (k, prefix) in p.iter().enumerate() {
        let all = join(e, carried, *prefix);
        e.b.ins().store(array.flags, all, array.base, at(k));
    }
    let last = p[p.len() - 1];
    let last = shuffle(e, last, last, &std::array::from_fn(|byte| (16 - width + byte % width) as u8));
    join(e, carried, last)
}

/// Selects bytes of two registers by their numbers.
fn shuffle(e: &mut Emitter<'_>, a: Value, b: Value, bytes: &[u8; 16]) -> Value {
    let ty = e.b.func.dfg.value_type(a);
    let [a, b] = [a, b].map(|v| e.b.ins().bitcast(I8X16, little(), v));
    let mask = e.b.func.dfg.immediates.push(bytes.as_slice().into());
    let shuffled = e.b.ins().shuffle(a, b, mask);
    e.b.ins().bitcast(ty, little(), shuffled)
}

/// The statements that define a `wanted` value or, with `effects`, store, and those that they
/// depend on. Prefixes are left out, because they are in memory.
fn needed(body: &[Statement], mut wanted: BTreeSet<ValueId>, effects: bool) -> Block {
    let mut kept = vec![];
    for statement in body.iter().rev() {
        if matches!(statement, Statement::Let { op: Op::Prefix(..) | Op::Place(_), .. }) {
            continue;
        }
        let one = vec![statement.clone()];
        let mut is_needed = effects && !visit::stores(&one).is_empty();
        visit::for_each_definition(statement, &mut |v| is_needed |= wanted.contains(&v));
        if is_needed {
            wanted.extend(visit::free_values(&one));
            kept.extend(one);
        }
    }
    kept.reverse();
    kept
}
