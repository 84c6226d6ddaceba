//! Serial loops that merge values into elements of tables, by the threads of a block: each takes an
//! iteration, the warps take turns, and within a warp so do the lanes that merge into the same
//! element, in the order of the iterations. So the elements have the bits that one thread would
//! give them.
//!
//! ```text
//! serial e < n {                     lane e of 32 iterations:
//!   v0 = load %table[k]                alike = the lanes with the same k
//!   scatter %table[k], add v1          turn = the number of lanes in alike before this one
//!   store %y[v0], v2                   for each turn: load, merge, store
//! }                                    store %y[v0], v2
//! ```
//!
//! A *ticket* is an element that an iteration loads before it merges into it.
//!
//! A warp alone takes several sets of 32 iterations at a time, if these only merge: a statement
//! runs for all of them before the next one does, so that their loads overlap. If there are at most
//! 32 elements to merge into, each lane owns one (`owners`).

use std::collections::BTreeSet;

use ir::linear::Linear;
use ir::nest::{Block, BufferId, IndexId, Loop, Op, Statement, Subscript, ValueId};
use ir::sabotage::{self, Bug};
use ir::sched::ordered::{stores_too, tables, ticket};
use ir::{BinaryOp, Dtype, Monoid, Scalar, Size};

use super::build::Control;
use super::emit::{Emitter, Names};
use super::inst::{Comparison, Opcode, Reg, Rounding, Special, Type};
use super::owners::{Owned, Owners};
use super::scalar;
use super::state::ExecScope;

/// The lanes of a warp.
pub(super) const LANES: u32 = 32;
/// The sets of iterations that a warp takes at a time.
const SETS: i64 = 4;
/// The most bits that lanes vote about.
const MOST_BITS: u32 = 24;

impl Emitter<'_> {
    /// Runs such a loop: each thread of the block takes an iteration, or several.
    pub(super) fn in_lanes(&mut self, l: &Loop) {
        let axes = self.axes(&l.dims, &l.body);
        let thread = self.special(Special::Tid);
        let zero = self.int(0);
        self.sync();
        let threads = i64::from(self.mapping.threads);
        let only_merges = !has_tickets(&l.body) && !stores_too(&[Statement::Loop(l.clone())]);
        let alone = only_merges && self.mapping.threads == LANES;
        let sets = if alone { SETS } else { 1 };
        let all = |e: &mut Self, tables: &Owned| {
            e.counted(zero, axes.total, threads * sets, |e, base| {
                let first = e.b().op2(Opcode::Add, Type::S64, base, thread);
                let mut taken = vec![];
                for number in 0..sets {
                    let number = e.b().op2(Opcode::Add, Type::S64, first, number * threads);
                    let valid = e.b().set(Comparison::Lt, Type::S64, number, axes.total);
                    e.unravel(&axes, number);
                    taken.push(Set { names: e.names(), valid });
                }
                e.in_exec_scope(ExecScope::Thread, |e| e.ordered_block((l, tables), &l.body, &mut taken));
            });
        };
        match if alone { self.owned(l) } else { None } {
            Some(Owners { few, elements }) => self.either(
                few,
                |e| e.with_owners(&elements, |e, tables| all(e, tables)),
                |e| all(e, &Owned::default()),
            ),
            None => all(self, &Owned::default()),
        }
        self.agree(&l.body);
        self.b().barrier();
    }

    /// Emits code for the iterations of a set.
    fn in_set<T>(&mut self, set: &mut Set, make: impl FnOnce(&mut Self) -> T) -> T {
        self.exchange_names(&mut set.names);
        let made = self.masked(set.valid, make);
        self.exchange_names(&mut set.names);
        made
    }

    /// The statements of some sets of iterations. Lanes do not part at a branch around a merge,
    /// because all of them have to arrive there.
    fn ordered_block(&mut self, (l, owned): (&Loop, &Owned), block: &Block, sets: &mut [Set]) {
        let scatters = (0..block.len()).filter(|at| matches!(block[*at], Statement::Scatter { .. }));
        let tickets: BTreeSet<ValueId> = scatters.filter_map(|at| ticket(block, at)).collect();
        for (at, statement) in block.iter().enumerate() {
            match statement {
                Statement::Let { value, .. } if tickets.contains(value) => {}
                Statement::Scatter { buffer, at: element, value, .. } if let Some(state) = owned.states.get(buffer) => {
                    for set in &mut *sets {
                        self.in_set(set, |e| e.merge_by_owners(*buffer, element, *value, *state));
                    }
                }
                Statement::Scatter { buffer, at: element, value, monoid } => {
                    let is_constant =
                        |s: &Statement| matches!(s, Statement::Let { value: v, op: Op::Constant(_) } if v == value);
                    let same = block.iter().any(is_constant);
                    let mut merges = vec![];
                    for set in &mut *sets {
                        merges.push(self.in_set(set, |e| {
                            let ticket = ticket(block, at).map(|ticket| e.ticket(ticket));
                            let (buffer, value, monoid) = (*buffer, *value, *monoid);
                            let merge = Merge { buffer, at: element, value, same, monoid, ticket };
                            let turn = e.turn(l, &merge);
                            (merge, turn)
                        }));
                    }
                    for (set, (merge, turn)) in sets.iter_mut().zip(&merges) {
                        self.in_set(set, |e| e.take_turns(merge, turn));
                    }
                }
                Statement::If { condition, then, otherwise, results } if !tables_of(statement).is_empty() => {
                    let valid: Vec<Reg> = sets.iter().map(|set| set.valid).collect();
                    let (mut yes, mut no) = (vec![], vec![]);
                    for set in &mut *sets {
                        let valid = set.valid;
                        self.in_set(set, |e| {
                            let condition = e.value(*condition);
                            yes.push(e.b().op2(Opcode::And, Type::Pred, valid, condition));
                            let not = e.b().op(Opcode::Not, Type::Pred, &[condition.into()]);
                            no.push(e.b().op2(Opcode::And, Type::Pred, valid, not));
                        });
                    }
                    for (branch, taken) in [(then, yes), (otherwise, no)] {
                        sets.iter_mut().zip(taken).for_each(|(set, taken)| set.valid = taken);
                        self.ordered_block((l, owned), branch, sets);
                    }
                    sets.iter_mut().zip(valid).for_each(|(set, valid)| set.valid = valid);
                    for set in &mut *sets {
                        self.in_set(set, |e| e.choose_results(*condition, results));
                    }
                }
                _ => sets.iter_mut().for_each(|set| self.in_set(set, |e| e.statement(statement))),
            }
        }
    }

    /// Defines the results of a branch after both sides have run.
    fn choose_results(&mut self, condition: ValueId, results: &[(ValueId, ValueId, ValueId)]) {
        let condition = self.value(condition);
        for (value, then, otherwise) in results {
            let (then, otherwise) = (self.value(*then), self.value(*otherwise));
            let chosen = self.b().copy(otherwise);
            self.b().guarded(condition, |b| b.assign(chosen, then));
            self.define(*value, chosen);
        }
    }

    /// A register for a ticket.
    fn ticket(&mut self, ticket: ValueId) -> Reg {
        let zero = Scalar::zero(self.dtype(ticket));
        let zero = scalar::constant(self.b(), zero);
        let reg = self.b().copy(zero);
        self.define(ticket, reg);
        reg
    }

    /// Merges a value of each thread into an element of a table.
    fn take_turns(&mut self, merge: &Merge<'_>, turn: &Turn) {
        let is_integer = matches!(self.dtype(merge.value), Dtype::I64 | Dtype::I32);
        let sums = (merge.same && is_integer && merge.monoid == Monoid::Sum).then(|| self.lane_sums(merge, turn));
        let merge_all = |e: &mut Self| match &sums {
            Some(sums) => e.add_at_once(merge, turn, sums),
            None => e.in_turn(merge, turn),
        };
        let warps = i64::from(self.mapping.threads / LANES);
        if warps == 1 {
            merge_all(self);
            return self.b().warp_barrier();
        }
        let thread = self.special(Special::Tid);
        let warp = self.b().op2(Opcode::Shr, Type::U64, thread, 5);
        let (zero, all) = (self.int(0), self.int(warps));
        self.counted(zero, all, 1, |e, next| {
            let mine = e.b().set(Comparison::Eq, Type::S64, warp, next);
            e.when(mine, merge_all);
            e.b().barrier();
        });
    }

    /// The turn of each lane of a warp.
    fn turn(&mut self, l: &Loop, merge: &Merge<'_>) -> Turn {
        let valid = self.masks.valid.expect("threads are masked");
        let linear = Linear::of(self.program, merge.buffer, None, merge.at);
        let alike = match self.bits(l, merge, &linear) {
            Some(bits) => self.alike_in(&linear, bits, valid),
            None => self.alike_at(merge.buffer, &linear, valid),
        };
        let thread = self.special(Special::Tid);
        let lane = self.b().convert(Rounding::Exact, Type::U32, Type::U64, thread);
        let lane = self.b().op2(Opcode::And, Type::B32, lane, i64::from(LANES) - 1);
        let one = self.b().mov(Type::B32, 1);
        let bit = self.b().op2(Opcode::Shl, Type::B32, one, lane);
        let below = self.b().op2(Opcode::Sub, Type::U32, bit, 1);
        let before = self.b().op2(Opcode::And, Type::B32, alike, below);
        let number = self.b().op(Opcode::Popc, Type::B32, &[before.into()]);
        Turn { valid, alike, number }
    }

    /// How many bits tell the elements apart that the lanes may merge into, if few do: a subscript
    /// is below the length of its axis, and the others are those of all lanes.
    fn bits(&self, l: &Loop, merge: &Merge<'_>, linear: &Linear) -> Option<u32> {
        let shape = &self.program.buffers[merge.buffer].shape;
        let is_value = |s: &Subscript| matches!(s, Subscript::Value(_));
        let first = merge.at.iter().position(is_value)?;
        let is_own = |(index, _): &(IndexId, Size)| l.dims.iter().any(|(own, _)| own == index);
        let elements = shape[first..].iter().map(Size::as_constant).product::<Option<i64>>()?;
        let apart =
            !linear.affine.terms().iter().any(is_own) && linear.values.iter().all(|(_, s)| s.as_constant().is_some());
        let bits = 64 - (elements - 1).max(1).leading_zeros();
        (apart && bits <= MOST_BITS).then_some(bits)
    }

    /// The lanes that merge into the same element, by a vote about each bit of its place. (An
    /// instruction that compares the lanes takes several times as long if most of them differ.)
    fn alike_in(&mut self, linear: &Linear, bits: u32, valid: Reg) -> Reg {
        let mut place = self.int(0);
        for (value, stride) in &linear.values {
            let (value, stride) = (self.value(*value), self.size(stride));
            place = self.b().op(Opcode::Mad, Type::S64, &[value.into(), stride.into(), place.into()]);
        }
        let place = self.b().convert(Rounding::Exact, Type::U32, Type::U64, place);
        let mut alike = self.b().ballot(valid);
        for bit in 0..bits {
            let own = self.b().op2(Opcode::And, Type::B32, place, 1i64 << bit);
            let is_set = self.b().set(Comparison::Ne, Type::U32, own, 0);
            let set = self.b().ballot(is_set);
            let not = self.b().op(Opcode::Not, Type::B32, &[set.into()]);
            let same = self.b().select(Type::B32, set, not, is_set);
            alike = self.b().op2(Opcode::And, Type::B32, alike, same);
        }
        alike
    }

    /// The lanes that merge into the same element, by its address.
    fn alike_at(&mut self, buffer: BufferId, linear: &Linear, valid: Reg) -> Reg {
        let address = self.address(buffer, linear);
        let place = match address.base {
            Some(base) => base,
            None => self.int(0),
        };
        // Lanes that merge nothing are like no other: addresses are positive.
        let thread = self.special(Special::Tid);
        let own = self.b().op(Opcode::Not, Type::B64, &[thread.into()]);
        let place = self.b().select(Type::B64, place, own, valid);
        self.b().alike(place)
    }

    /// The sums that lanes add to the element they share, if all add the same value.
    fn lane_sums(&mut self, merge: &Merge<'_>, turn: &Turn) -> Sums {
        let dtype = self.dtype(merge.value);
        let value = self.value(merge.value);
        let all = self.b().op(Opcode::Popc, Type::B32, &[turn.alike.into()]);
        let [before, all] = [turn.number, all].map(|count| {
            let b = self.b();
            let count =
                if dtype == Dtype::I64 { b.convert(Rounding::Exact, Type::U64, Type::U32, count) } else { count };
            scalar::binary(b, BinaryOp::Mul, dtype, count, value)
        });
        let first = self.b().set(Comparison::Eq, Type::U32, turn.number, 0);
        let first = self.b().op2(Opcode::And, Type::Pred, first, turn.valid);
        Sums { before, all, first }
    }

    /// Adds the same integer for each of the lanes that are alike.
    fn add_at_once(&mut self, merge: &Merge<'_>, turn: &Turn, sums: &Sums) {
        let dtype = self.dtype(merge.value);
        let before = self.load(merge.buffer, None, merge.at);
        self.b().warp_barrier();
        let sum = scalar::binary(self.b(), BinaryOp::Add, dtype, before, sums.all);
        self.masked(sums.first, |e| e.store_register(merge.buffer, merge.at, sum));
        if let Some(ticket) = merge.ticket {
            let taken = scalar::binary(self.b(), BinaryOp::Add, dtype, before, sums.before);
            self.b().guarded(turn.valid, |b| b.assign(ticket, taken));
        }
    }

    /// Lets lanes that are alike merge one after another.
    fn in_turn(&mut self, merge: &Merge<'_>, turn: &Turn) {
        let now = self.b().mov(Type::U32, 0);
        let more = self.b().copy(turn.valid);
        self.while_(
            |e| e.b().any(more),
            |e| {
                let mine = e.b().set(Comparison::Eq, Type::U32, turn.number, now);
                let mine = e.b().op2(Opcode::And, Type::Pred, mine, turn.valid);
                e.masked(mine, |e| {
                    let before = e.load(merge.buffer, None, merge.at);
                    if let Some(ticket) = merge.ticket {
                        e.b().guarded(mine, |b| b.assign(ticket, before));
                    }
                    e.store_merged(merge.buffer, merge.at, before, merge.value, merge.monoid);
                });
                e.b().warp_barrier();
                let step = if sabotage::on(Bug::SkippedTurn) { 2 } else { 1 };
                e.b().op_to(now, Opcode::Add, Type::U32, &[now.into(), step.into()]);
                let left = e.b().set(Comparison::Ge, Type::U32, turn.number, now);
                e.b().op_to(more, Opcode::And, Type::Pred, &[left.into(), turn.valid.into()]);
            },
        );
    }
}

/// An iteration for each thread.
struct Set {
    names: Names,
    /// Whether the thread has one, and it runs the current statements.
    valid: Reg,
}

/// A merge into an element of a table.
struct Merge<'s> {
    buffer: BufferId,
    at: &'s [Subscript],
    value: ValueId,
    /// Whether it is the same in all lanes.
    same: bool,
    monoid: Monoid,
    /// The register of the ticket.
    ticket: Option<Reg>,
}

/// The sums of the equal values that lanes add to an element they share.
struct Sums {
    /// The sum of the lanes before this one, and of all that are alike.
    before: Reg,
    all: Reg,
    /// Whether this lane is the first of them.
    first: Reg,
}

/// When a lane merges.
struct Turn {
    /// Whether it merges at all.
    valid: Reg,
    /// The lanes that merge into the same element, as bits.
    alike: Reg,
    /// The number of those before this one.
    number: Reg,
}

/// The tables that the branches of a statement merge into.
fn tables_of(statement: &Statement) -> BTreeSet<BufferId> {
    statement.blocks().flat_map(tables).collect()
}

/// Whether a block merges into elements that it loads before.
fn has_tickets(block: &Block) -> bool {
    let nested = |s: &Statement| s.blocks().any(has_tickets);
    (0..block.len()).any(|at| ticket(block, at).is_some()) || block.iter().any(nested)
}
