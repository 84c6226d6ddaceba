//! Serial loops that merge values into elements of tables and depend on each other by way of these
//! alone. Threads may take an iteration each, if those that merge into the same element take turns
//! in the order of the iterations.
//!
//! A *ticket* is an element that an iteration loads before it merges into it.

use std::collections::BTreeSet;

use super::is_flat;
use crate::nest::{Block, BufferId, Loop, Op, Statement, Subscript, ValueId};
use crate::visit;

/// Whether a block of statements has such a loop.
pub fn has_ordered(block: &[Statement]) -> bool {
    block.iter().any(|s| matches!(s, Statement::Loop(l) if is_ordered(&l.body)))
}

/// Whether such a loop stores something besides its tables.
pub fn stores_too(block: &[Statement]) -> bool {
    let beyond_tables = |l: &Loop| {
        let tables = tables(&l.body);
        visit::stores(&l.body).iter().any(|buffer| !tables.contains(buffer))
    };
    block.iter().any(|s| matches!(s, Statement::Loop(l) if is_ordered(&l.body) && beyond_tables(l)))
}

/// Whether the iterations of a serial loop depend on each other by way of tables alone.
pub fn is_ordered(body: &Block) -> bool {
    let tables = tables(body);
    let stored: BTreeSet<BufferId> = visit::stores(body).into_iter().collect();
    let apart = visit::loads(body).iter().all(|buffer| tables.contains(buffer) || !stored.contains(buffer));
    // Which of several faults ends the run depends on the order of iterations.
    let faults = body.iter().any(Statement::may_fault);
    !tables.is_empty() && is_flat(body) && apart && !faults && takes_tickets(body, &tables)
}

/// The tables that a block merges into.
pub fn tables(block: &Block) -> BTreeSet<BufferId> {
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
pub fn ticket(block: &[Statement], at: usize) -> Option<ValueId> {
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
