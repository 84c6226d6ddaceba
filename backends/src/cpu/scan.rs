//! Loops that compute running reductions.
//!
//! Where no prefix depends on the order, elements go one by one. Else they go in the groups of `ir::order`: first,
//! for each prefix in turn, the part of the body that leads to its input runs over the group and leaves the
//! inputs in memory, where they become prefixes; then the whole body runs over the group and finds them there.
//! Computing the leading part again is cheaper than keeping all that it defines.

use std::collections::BTreeSet;

use cranelift_codegen::ir::{InstBuilder, Value};
use ir::nest::{Loop, Op, Statement, ValueId};
use ir::order::SCAN_GROUP;
use ir::{ReduceOp, visit};

use super::emit::{Emitter, own_memory};
use super::fold::Fold;
use super::reduce::{end_group, scan_group};
use super::scalar;

/// One prefix of the body.
struct Prefix<'b> {
    result: ValueId,
    input: ValueId,
    fold: Fold,
    /// What the input needs of the body before it.
    leading: Vec<&'b Statement>,
}

impl Prefix<'_> {
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

    /// One element more of a prefix that is free of order: the state, and the prefix.
    fn take(&self, e: &mut Emitter<'_>, state: &[Value], x: Value, number: Value) -> (Vec<Value>, Value) {
        if self.fold.is_arg() {
            let (best, at) = self.fold.pick(e, (state[0], state[1]), x, number);
            (vec![best, at], at)
        } else {
            let sum = self.fold.join(e, state[0], x);
            (vec![sum], sum)
        }
    }
}

impl Emitter<'_> {
    pub(super) fn scan(&mut self, l: &Loop) {
        let [(index, extent)] = l.dims.as_slice() else { return };
        let n = self.extent(extent);
        let prefixes: Vec<Prefix<'_>> = l
            .body
            .iter()
            .enumerate()
            .filter_map(|(k, s)| match s {
                Statement::Let { value, op: Op::Prefix(op, input) } => {
                    let fold = Fold { op: *op, dtype: self.dtype(*input) };
                    Some(Prefix { result: *value, input: *input, fold, leading: leading(&l.body[..k], *input) })
                }
                _ => None,
            })
            .collect();
        let states: Vec<Vec<Value>> = prefixes.iter().map(|p| p.initial(self)).collect();
        let lengths: Vec<usize> = states.iter().map(Vec::len).collect();
        let initial: Vec<Value> = states.concat();
        let zero = self.int(0);
        if !prefixes.iter().any(Prefix::is_ordered) {
            self.counted(zero, n, 1, &initial, |e, i, state| {
                e.bind(*index, i);
                let mut state = state.to_vec();
                let mut from = 0;
                let mut next = prefixes.iter().zip(&lengths);
                for statement in &l.body {
                    if let Statement::Let { op: Op::Prefix(..), .. } = statement {
                        let Some((p, length)) = next.next() else { continue };
                        let x = e.value(p.input);
                        let (new, prefix) = p.take(e, &state[from..from + length], x, i);
                        state[from..from + length].copy_from_slice(&new);
                        e.define(p.result, prefix);
                        from += length;
                    } else {
                        e.statement(statement);
                    }
                }
                state
            });
            return;
        }
        let groups: Vec<Value> = prefixes
            .iter()
            .map(|p| self.scratch(SCAN_GROUP * scalar::register(prefix_dtype(p)).bytes() as usize))
            .collect();
        self.counted(zero, n, SCAN_GROUP as i64, &initial, |e, first, state| {
            let past = e.b.ins().iadd_imm_s(first, SCAN_GROUP as i64);
            let end = e.least(past, n);
            let mut next = vec![];
            let mut from = 0;
            for (k, length) in lengths.iter().enumerate() {
                let state = &state[from..from + length];
                from += length;
                next.extend(e.prefix_group(&prefixes[..=k], &groups[..=k], state, *index, (first, end, past)));
            }
            e.counted(first, end, 1, &[], |e, i, _| {
                e.bind(*index, i);
                e.load_prefixes(&prefixes, &groups, first, i);
                e.block(&l.body);
                vec![]
            });
            next
        });
    }

    /// Leaves the prefixes of the last of `prefixes` for the group `first..end` in memory; the ones before it are
    /// there already. Returns its new state.
    fn prefix_group(
        &mut self,
        prefixes: &[Prefix<'_>],
        groups: &[Value],
        state: &[Value],
        index: ir::nest::IndexId,
        (first, end, past): (Value, Value, Value),
    ) -> Vec<Value> {
        let (Some((p, before)), Some(group)) = (prefixes.split_last(), groups.last()) else { return vec![] };
        let ty = scalar::register(prefix_dtype(p));
        let carried = if p.is_ordered() { &[] } else { state };
        let taken = self.counted(first, end, 1, carried, |e, i, state| {
            e.bind(index, i);
            e.load_prefixes(before, groups, first, i);
            for statement in &p.leading {
                e.statement(statement);
            }
            let x = e.value(p.input);
            let (state, x) = if p.is_ordered() { (vec![], x) } else { p.take(e, state, x, i) };
            let place = e.b.ins().isub(i, first);
            let address = e.element(*group, ty, place);
            e.b.ins().store(own_memory(), x, address, 0);
            state
        });
        if !p.is_ordered() {
            return taken;
        }
        let (carry, chunk) = (state[0], state[1]);
        let prefixes = scan_group(self, p.fold, *group);
        for (k, prefix) in prefixes.iter().enumerate() {
            let inner = p.fold.join(self, carry, *prefix);
            let whole = p.fold.join(self, chunk, inner);
            let offset = i32::try_from(k * ty.bytes() as usize).expect("a small offset");
            self.b.ins().store(own_memory(), whole, *group, offset);
        }
        end_group(self, p.fold, (carry, chunk), prefixes[SCAN_GROUP - 1], past)
    }

    /// Defines prefixes from the group in memory that starts at `first`.
    fn load_prefixes(&mut self, prefixes: &[Prefix<'_>], groups: &[Value], first: Value, i: Value) {
        for (p, group) in prefixes.iter().zip(groups) {
            let ty = scalar::register(prefix_dtype(p));
            let place = self.b.ins().isub(i, first);
            let address = self.element(*group, ty, place);
            let value = self.b.ins().load(ty, own_memory(), address, 0);
            self.define(p.result, value);
        }
    }
}

fn prefix_dtype(p: &Prefix<'_>) -> ir::Dtype {
    match p.fold.op {
        ReduceOp::ArgMax | ReduceOp::ArgMin => ir::Dtype::I64,
        _ => p.fold.dtype,
    }
}

/// The statements of `before` that `input` depends on, and those that may end the run, in order; earlier prefixes
/// are left out, they are in memory.
fn leading(before: &[Statement], input: ValueId) -> Vec<&Statement> {
    let mut needed = BTreeSet::from([input]);
    let mut kept = vec![];
    for statement in before.iter().rev() {
        if matches!(statement, Statement::Let { op: Op::Prefix(..), .. }) {
            continue;
        }
        let mut is_needed = may_fault(statement);
        visit::for_each_definition(statement, &mut |v| is_needed |= needed.contains(&v));
        if is_needed {
            let mut insert = |v| {
                needed.insert(v);
            };
            visit::for_each_use(statement, &mut insert);
            for block in statement.blocks() {
                visit::for_each_statement(block, &mut |s| visit::for_each_use(s, &mut insert));
            }
            kept.push(statement);
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
