//! Loops that compute running reductions.
//!
//! There are two ways. One takes elements one by one: where no prefix depends on the order and there is little
//! around, or where the body may end the run, so that the first fault is the right one. The other takes a chunk at a time:
//! for each prefix in turn, the part of the body that leads to its input runs over the chunk as a leaf and leaves the
//! inputs in memory, where they become prefixes; then what is left of the body runs over the chunk and finds them there.
//! Computing the leading part again where both need it is cheaper than keeping all that it defines.

use std::collections::BTreeSet;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I8X16;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::nest::{Block, IndexId, Loop, Op, Statement, ValueId};
use ir::order::{SCAN_CHUNK, SCAN_GROUP};
use ir::visit;

use super::emit::{Emitter, own_memory};
use super::fold::{Fold, offset};
use super::kept::{Kept, Place};
use super::lanes128::{self, little};
use super::nest::Axis;
use super::reduce::{end_group, scan_group};
use super::scalar;

/// Elements that are kept at once: they stay in the first-level cache.
const KEPT: usize = 1024;
const _: () = assert!(SCAN_CHUNK.is_multiple_of(KEPT) && KEPT.is_multiple_of(SCAN_GROUP));
/// Statements of a body that is worth the way by chunks though no prefix depends on the order.
const LONG: usize = 6;

/// One prefix of the body.
struct Prefix {
    result: ValueId,
    input: ValueId,
    fold: Fold,
    /// Its place in the body.
    at: usize,
}

impl Prefix {
    fn is_ordered(&self) -> bool {
        self.fold.op.depends_on_order(self.fold.dtype)
    }

    /// What is carried from element to element or from group to group.
    fn initial(&self, e: &mut Emitter<'_>) -> Vec<Value> {
        let empty = self.fold.empty(e);
        match (self.is_ordered(), self.fold.is_arg()) {
            (true, _) => vec![empty, empty],
            (false, true) => vec![empty, e.int(0)],
            (false, false) => vec![empty],
        }
    }

    /// One element more: the state, and the prefix. An ordered one has memory for its group.
    fn take(&self, e: &mut Emitter<'_>, state: &[Value], x: Value, number: Value, group: Value) -> (Vec<Value>, Value) {
        let fold = self.fold;
        if fold.is_arg() {
            let (best, at) = fold.pick(e, (state[0], state[1]), x, number);
            return (vec![best, at], at);
        }
        if !self.is_ordered() {
            let sum = fold.join(e, state[0], x);
            return (vec![sum], sum);
        }
        let (carry, chunk) = (state[0], state[1]);
        let ty = scalar::register(fold.dtype);
        let place = e.b.ins().band_imm_u(number, SCAN_GROUP as i64 - 1);
        let address = e.element(group, ty, place);
        e.b.ins().store(own_memory(), x, address, 0);
        // What stands behind the element is left from the group before and changes nothing up to it.
        let prefixes = scan_group(e, fold, group);
        let last = prefixes[SCAN_GROUP - 1];
        let done = i32::try_from(SCAN_GROUP).expect("a small number") * ty.bytes().cast_signed();
        for (k, prefix) in prefixes.into_iter().enumerate() {
            e.b.ins().store(own_memory(), prefix, group, done + offset(k * ty.bytes() as usize));
        }
        let prefix = e.b.ins().load(ty, own_memory(), address, done);
        let inner = fold.join(e, carry, prefix);
        let whole = fold.join(e, chunk, inner);
        let next = e.b.ins().iadd_imm_s(number, 1);
        let rest = e.b.ins().band_imm_u(next, SCAN_GROUP as i64 - 1);
        let full = e.b.ins().icmp_imm_s(IntCC::Equal, rest, 0);
        (e.when(full, state, |e| end_group(e, fold, (carry, chunk), last, next)), whole)
    }
}

impl Emitter<'_> {
    pub(super) fn scan(&mut self, l: &Loop) {
        let [(index, extent)] = l.dims.as_slice() else { return };
        let n = self.extent(extent);
        let mut prefixes = vec![];
        for (at, statement) in l.body.iter().enumerate() {
            if let Statement::Let { value, op: Op::Prefix(op, input) } = statement {
                let fold = Fold { op: *op, dtype: self.dtype(*input) };
                prefixes.push(Prefix { result: *value, input: *input, fold, at });
            }
        }
        let worth = prefixes.iter().any(Prefix::is_ordered) || l.body.len() > LONG;
        if worth && !l.body.iter().any(may_fault) {
            self.scan_chunks(l, *index, n, &prefixes);
        } else {
            self.scan_elements(l, *index, n, &prefixes);
        }
    }

    fn scan_elements(&mut self, l: &Loop, index: IndexId, n: Value, prefixes: &[Prefix]) {
        let states: Vec<Vec<Value>> = prefixes.iter().map(|p| p.initial(self)).collect();
        let bytes = |p: &Prefix| 2 * SCAN_GROUP * scalar::register(p.fold.dtype).bytes() as usize;
        let groups: Vec<Value> = prefixes.iter().map(|p| self.scratch(bytes(p))).collect();
        let zero = self.int(0);
        self.counted(zero, n, 1, &states.concat(), |e, i, state| {
            e.bind(index, i);
            let mut state = state;
            let mut new = vec![];
            let mut next = prefixes.iter().zip(&states).zip(&groups);
            for statement in &l.body {
                if let Statement::Let { op: Op::Prefix(..), .. } = statement {
                    let Some(((p, initial), group)) = next.next() else { continue };
                    let (own, rest) = state.split_at(initial.len());
                    state = rest;
                    let x = e.value(p.input);
                    let (taken, prefix) = p.take(e, own, x, i, *group);
                    new.extend(taken);
                    e.define(p.result, prefix);
                } else {
                    e.statement(statement);
                }
            }
            new
        });
    }

    fn scan_chunks(&mut self, l: &Loop, index: IndexId, n: Value, prefixes: &[Prefix]) {
        let inputs = Kept::new(self, prefixes.iter().map(|p| p.input).collect(), KEPT);
        let results = Kept::new(self, prefixes.iter().map(|p| p.result).collect(), KEPT);
        let with = |values: &[ValueId], mut body: Block| {
            let mut all: Block = results.loads(index);
            all.retain(|s| matches!(s, Statement::Let { value, .. } if values.contains(value)));
            all.append(&mut body);
            all
        };
        let found: Vec<ValueId> = prefixes.iter().map(|p| p.result).collect();
        let mut leading = vec![];
        for (k, p) in prefixes.iter().enumerate() {
            let mut body = with(&found[..k], needed(&l.body[..p.at], BTreeSet::from([p.input]), false));
            let stores = inputs.stores(index).into_iter();
            body.extend(stores.filter(|s| matches!(s, Statement::Store { value, .. } if *value == p.input)));
            leading.push(body);
        }
        let rest = with(&found, needed(&l.body, BTreeSet::new(), true));
        let axis = Axis { index, merged: vec![], extent: n };
        let states: Vec<Vec<Value>> = prefixes.iter().map(|p| p.initial(self)).collect();
        let zero = self.int(0);
        self.counted(zero, n, KEPT as i64, &states.concat(), |e, first, state| {
            let past = e.b.ins().iadd_imm_s(first, KEPT as i64);
            let end = e.least(past, n);
            inputs.begin(e, first);
            results.begin(e, first);
            let mut state = state;
            let mut next = vec![];
            for ((p, initial), leading) in prefixes.iter().zip(&states).zip(&leading) {
                let (own, rest) = state.split_at(initial.len());
                state = rest;
                e.innermost(&axis, first, end, leading);
                let places = (inputs.place(e, p.input), results.place(e, p.result));
                next.extend(e.prefixes(p, own, places, (first, end)));
            }
            e.innermost(&axis, first, end, &rest);
            next
        });
    }

    /// Makes the inputs `first..end` prefixes; returns the state behind them.
    fn prefixes(
        &mut self,
        p: &Prefix,
        state: &[Value],
        (inputs, results): (Place, Place),
        (first, end): (Value, Value),
    ) -> Vec<Value> {
        let count = self.b.ins().isub(end, first);
        let zero = self.int(0);
        let ty = scalar::register(p.fold.dtype);
        if !p.is_ordered() {
            return self.counted(zero, count, 1, state, |e, k, state| {
                let address = e.element(inputs.base, ty, k);
                let x = e.b.ins().load(ty, inputs.flags, address, 0);
                let number = e.b.ins().iadd(first, k);
                let (state, prefix) = p.take(e, state, x, number, zero);
                let address = e.element(results.base, scalar::register(e.dtype(p.result)), k);
                e.b.ins().store(results.flags, prefix, address, 0);
                state
            });
        }
        let (carry, chunk) = (state[0], state[1]);
        let vector = lanes128::vector(p.fold.dtype, false);
        let whole = self.b.ins().splat(vector, chunk);
        let carried = self.b.ins().splat(vector, carry);
        let last = self.counted(zero, count, SCAN_GROUP as i64, &[carried], |e, k, carried| {
            let from = Place { base: e.element(inputs.base, ty, k), ..inputs };
            let to = Place { base: e.element(results.base, ty, k), ..results };
            vec![vector_group(e, p.fold, (from, to), carried[0], whole)]
        });
        let carry = self.b.ins().extractlane(last[0], 0);
        // The chunk of the order ends with this one.
        let rest = self.b.ins().band_imm_u(end, SCAN_CHUNK as i64 - 1);
        let joined = p.fold.join(self, chunk, carry);
        let empty = p.fold.empty(self);
        vec![self.b.ins().select(rest, carry, empty), self.b.ins().select(rest, chunk, joined)]
    }
}

/// A group of a scan, from memory to memory: prefixes by doubling, then joined with what the groups before (`carried`) and
/// the chunks before (`whole`) give. Returns the new `carried`. What has nothing before it is joined with the value of
/// no elements, which leaves no trace behind the last join.
fn vector_group(e: &mut Emitter<'_>, fold: Fold, (from, to): (Place, Place), carried: Value, whole: Value) -> Value {
    let ty = lanes128::vector(fold.dtype, false);
    let lanes = ty.lane_count() as usize;
    let width = ty.lane_type().bytes() as usize;
    let at = |k: usize| offset(16 * k);
    let join = |e: &mut Emitter<'_>, a, b| lanes128::binary(e, fold.primitive(), fold.dtype, a, b);
    let empty = lanes128::splat_constant(e, fold.identity());
    let mut p = vec![];
    for k in 0..SCAN_GROUP / lanes {
        p.push(e.b.ins().load(ty, from.flags, from.base, at(k)));
    }
    let mut d = 1;
    while d < SCAN_GROUP {
        for k in (0..p.len()).rev() {
            let before = if d < lanes {
                let low = if k == 0 { empty } else { p[k - 1] };
                let first = 16 - d * width;
                shuffle(e, low, p[k], &std::array::from_fn(|byte| (first + byte) as u8))
            } else if k >= d / lanes {
                p[k - d / lanes]
            } else {
                continue;
            };
            p[k] = join(e, before, p[k]);
        }
        d *= 2;
    }
    for (k, prefix) in p.iter().enumerate() {
        let inner = join(e, carried, *prefix);
        let all = join(e, whole, inner);
        e.b.ins().store(to.flags, all, to.base, at(k));
    }
    let last = p[p.len() - 1];
    let last = shuffle(e, last, last, &std::array::from_fn(|byte| (16 - width + byte % width) as u8));
    join(e, carried, last)
}

/// Bytes of two registers, by their numbers.
fn shuffle(e: &mut Emitter<'_>, a: Value, b: Value, bytes: &[u8; 16]) -> Value {
    let ty = e.b.func.dfg.value_type(a);
    let [a, b] = [a, b].map(|v| e.b.ins().bitcast(I8X16, little(), v));
    let mask = e.b.func.dfg.immediates.push(bytes.as_slice().into());
    let shuffled = e.b.ins().shuffle(a, b, mask);
    e.b.ins().bitcast(ty, little(), shuffled)
}

/// The statements that define what is `wanted` or, with `effects`, store, and what those need of the ones before them;
/// prefixes are left out, they are in memory.
fn needed(body: &[Statement], mut wanted: BTreeSet<ValueId>, effects: bool) -> Block {
    let mut kept = vec![];
    for statement in body.iter().rev() {
        if matches!(statement, Statement::Let { op: Op::Prefix(..), .. }) {
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

/// Whether a statement may end the run.
pub(super) fn may_fault(statement: &Statement) -> bool {
    let mut found = matches!(statement, Statement::Let { op: Op::Check { .. }, .. });
    for block in statement.blocks() {
        visit::for_each_op(block, &mut |_, op| found |= matches!(op, Op::Check { .. }));
    }
    found
}
