//! Serial loops that merge values into elements of tables, by the lanes of a warp: a lane takes an
//! iteration, and lanes that merge into the same element take turns, in the order of the
//! iterations. So the elements have the bits that one thread would give them.
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

use std::collections::BTreeSet;

use ir::linear::Linear;
use ir::nest::{Block, BufferId, Loop, Op, Statement, Subscript, ValueId};
use ir::sabotage::{self, Bug};
use ir::{Monoid, Scalar, visit};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Class, Comparison, Opcode, Reg, Rounding, Special, Type};
use super::rows::is_flat;
use super::scalar;
use super::state::ExecScope;

/// The lanes of a warp.
pub(super) const LANES: u32 = 32;

/// Whether a block of statements has a serial loop that a warp runs.
pub(super) fn has_ordered(block: &[Statement]) -> bool {
    block.iter().any(|s| matches!(s, Statement::Loop(l) if is_ordered(&l.body)))
}

/// Whether the iterations of a serial loop depend on each other by way of tables alone.
pub(super) fn is_ordered(body: &Block) -> bool {
    let tables = tables(body);
    let stored: BTreeSet<BufferId> = visit::stores(body).into_iter().collect();
    let apart = visit::loads(body).iter().all(|buffer| tables.contains(buffer) || !stored.contains(buffer));
    // Which of several faults ends the run depends on the order of iterations.
    let faults = body.iter().any(Statement::may_fault);
    !tables.is_empty() && is_flat(body) && apart && !faults && takes_tickets(body, &tables)
}

/// The tables that a block merges into.
fn tables(block: &Block) -> BTreeSet<BufferId> {
    let mut tables = BTreeSet::new();
    visit::for_each_statement(block, &mut |s| {
        if let Statement::Scatter { buffer, .. } = s {
            tables.insert(*buffer);
        }
    });
    tables
}

/// Whether each load from a table is a ticket, and no element is merged into twice.
fn takes_tickets(block: &Block, tables: &BTreeSet<BufferId>) -> bool {
    let loads = visit::loads(block).iter().filter(|buffer| tables.contains(buffer)).count();
    let mut scatters: Vec<BufferId> = vec![];
    let mut tickets = 0;
    let mut blocks = vec![block];
    while let Some(block) = blocks.pop() {
        for (at, statement) in block.iter().enumerate() {
            blocks.extend(statement.blocks());
            if let Statement::Scatter { buffer, .. } = statement {
                scatters.push(*buffer);
                tickets += usize::from(ticket(block, at).is_some());
            }
        }
    }
    let distinct: BTreeSet<&BufferId> = scatters.iter().collect();
    loads == tickets && distinct.len() == scatters.len()
}

/// The element that a block loads before it merges into it by the statement `at`, if nothing uses it
/// in between.
fn ticket(block: &[Statement], at: usize) -> Option<ValueId> {
    let Statement::Scatter { buffer, at: element, .. } = &block[at] else { return None };
    let is_it = |s: &Statement| is_load_of(s, *buffer, element);
    let (place, value) = block[..at].iter().enumerate().find_map(|(place, s)| Some((place, is_it(s)?)))?;
    (!visit::free_values(&block[place + 1..=at].to_vec()).contains(&value)).then_some(value)
}

/// The value of a load of an element.
fn is_load_of(statement: &Statement, of: BufferId, element: &[Subscript]) -> Option<ValueId> {
    match statement {
        Statement::Let { value, op: Op::Load { buffer, view: None, at } } if *buffer == of && at == element => {
            Some(*value)
        }
        _ => None,
    }
}

impl Emitter<'_> {
    /// Runs such a loop, in the first warp of the block.
    pub(super) fn in_lanes(&mut self, l: &Loop) {
        let axes = self.axes(&l.dims, &l.body);
        let lane = self.special(Special::Tid);
        self.sync();
        let first = self.b().set(Comparison::Lt, Type::S64, lane, i64::from(LANES));
        self.when(first, |e| {
            let zero = e.int(0);
            e.counted(zero, axes.total, i64::from(LANES), |e, base| {
                let number = e.b().op2(Opcode::Add, Type::S64, base, lane);
                let valid = e.b().set(Comparison::Lt, Type::S64, number, axes.total);
                e.unravel(&axes, number);
                e.in_exec_scope(ExecScope::Thread, |e| e.masked(valid, |e| e.ordered_block(&l.body)));
            });
        });
        self.b().barrier();
    }

    /// The statements of an iteration. Lanes do not part at a branch around a merge, because all
    /// of them have to arrive there.
    fn ordered_block(&mut self, block: &Block) {
        let scatters = (0..block.len()).filter(|at| matches!(block[*at], Statement::Scatter { .. }));
        let tickets: BTreeSet<ValueId> = scatters.filter_map(|at| ticket(block, at)).collect();
        for (at, statement) in block.iter().enumerate() {
            match statement {
                Statement::Let { value, .. } if tickets.contains(value) => {}
                Statement::Scatter { buffer, at: element, value, monoid } => {
                    self.take_turns(*buffer, element, *value, *monoid, ticket(block, at));
                }
                Statement::If { condition, then, otherwise, results } if !tables_of(statement).is_empty() => {
                    let condition = self.value(*condition);
                    let valid = self.masks.valid.expect("lanes are masked");
                    let yes = self.b().op2(Opcode::And, Type::Pred, valid, condition);
                    let not = self.b().op(Opcode::Not, Type::Pred, &[condition.into()]);
                    let no = self.b().op2(Opcode::And, Type::Pred, valid, not);
                    self.masked(yes, |e| e.ordered_block(then));
                    self.masked(no, |e| e.ordered_block(otherwise));
                    for (value, then, otherwise) in results {
                        let (then, otherwise) = (self.value(*then), self.value(*otherwise));
                        let chosen = self.b().copy(otherwise);
                        self.b().guarded(condition, |b| b.assign(chosen, then));
                        self.define(*value, chosen);
                    }
                }
                _ => self.statement(statement),
            }
        }
    }

    /// Merges a value of each lane into an element of a table.
    fn take_turns(
        &mut self,
        buffer: BufferId,
        at: &[Subscript],
        value: ValueId,
        monoid: Monoid,
        ticket: Option<ValueId>,
    ) {
        let valid = self.masks.valid.expect("lanes are masked");
        let linear = Linear::of(self.program, buffer, None, at);
        let address = self.address(buffer, &linear);
        // Lanes that merge nothing are like no other: addresses are positive.
        let lane = self.special(Special::Tid);
        let own = self.b().op(Opcode::Not, Type::B64, &[lane.into()]);
        let place = match address.base {
            Some(base) => base,
            None => self.int(0),
        };
        let place = self.b().select(Type::B64, place, own, valid);
        let alike = self.b().alike(place);
        let narrow = self.b().convert(Rounding::Exact, Type::U32, Type::U64, lane);
        let one = self.b().mov(Type::B32, 1);
        let bit = self.b().op2(Opcode::Shl, Type::B32, one, narrow);
        let below = self.b().op2(Opcode::Sub, Type::U32, bit, 1);
        let before = self.b().op2(Opcode::And, Type::B32, alike, below);
        let turn = self.b().op(Opcode::Popc, Type::B32, &[before.into()]);
        let taken = ticket.map(|ticket| {
            let dtype = self.dtype(ticket);
            let zero = scalar::constant(self.b(), Scalar::zero(dtype));
            let taken = self.b().copy(zero);
            self.define(ticket, taken);
            taken
        });
        let now = self.b().mov(Type::U32, 0);
        let more = self.b().reg(Class::Pred);
        self.b().assign(more, valid);
        let any = |e: &mut Self| e.b().any(more);
        self.while_(any, |e| {
            let mine = e.b().set(Comparison::Eq, Type::U32, turn, now);
            let mine = e.b().op2(Opcode::And, Type::Pred, mine, valid);
            e.masked(mine, |e| e.merge_into(buffer, at, value, monoid, taken));
            e.b().warp_barrier();
            let step = if sabotage::on(Bug::SkippedTurn) { 2 } else { 1 };
            e.b().op_to(now, Opcode::Add, Type::U32, &[now.into(), step.into()]);
            let left = e.b().set(Comparison::Ge, Type::U32, turn, now);
            e.b().op_to(more, Opcode::And, Type::Pred, &[left.into(), valid.into()]);
        });
    }

    fn merge_into(&mut self, buffer: BufferId, at: &[Subscript], value: ValueId, monoid: Monoid, taken: Option<Reg>) {
        let before = self.load(buffer, None, at);
        if let (Some(taken), Some(mine)) = (taken, self.masks.valid) {
            self.b().guarded(mine, |b| b.assign(taken, before));
        }
        self.store_merged(buffer, at, before, value, monoid);
    }
}

fn tables_of(statement: &Statement) -> BTreeSet<BufferId> {
    statement.blocks().flat_map(tables).collect()
}
