//! Splits long scans into phases, for targets where a block processes a chunk of the order: one
//! launch reduces each chunk, one computes the prefix before each chunk from these, and one
//! computes the prefixes of all elements.

use std::collections::BTreeSet;

use ir::choice::Choice;
use ir::nest::{Buffer, BufferId, LoopKind, Op, Prefix, Program, Role, Statement, ValueId};
use ir::order::SCAN_CHUNK;
use ir::sched::{Part, Phase, Run, Scans, Scheduled, is_scalar};
use ir::{Dtype, visit};

/// Splits scans at the top of parts that have not been split.
pub fn phases(scheduled: &mut Scheduled, choice: &mut Choice) {
    if scheduled.machine.scans != Scans::Phases {
        return;
    }
    scheduled.rewrite(|program, part| match results(program, &part, choice) {
        Some(results) => Phase::ALL.map(|phase| launch(&part, phase, &results)).into(),
        None => vec![part],
    });
}

fn launch(part: &Part, phase: Phase, results: &[BufferId]) -> Part {
    part.sibling(phase.name(), part.kernel.clone(), Run::Phase { phase, results: results.to_vec() })
}

/// Memory for the results of chunks, if a part is a scan with independent prefixes.
fn results(program: &mut Program, part: &Part, choice: &mut Choice) -> Option<Vec<BufferId>> {
    let (Statement::Loop(l), before) = part.kernel.body.split_last()? else { return None };
    let [(_, extent)] = l.dims.as_slice() else { return None };
    let extent = extent.as_size()?;
    let flat = l.body.iter().all(|s| is_scalar(s) || matches!(s, Statement::Store { .. }));
    let stored = visit::stores(&l.body);
    let overwrites =
        program.slots.values().any(|members| members.iter().any(|b| stored.contains(b)) && members.len() > 1);
    let scratch = stored.iter().any(|b| program.buffers[*b].role == Role::Scratch);
    if l.kind != LoopKind::Scan || !before.iter().all(is_scalar) || !flat || overwrites || scratch {
        return None;
    }
    let prefixes = independent_prefixes(&l.body)?;
    if prefixes.is_empty() || prefixes.iter().any(|(_, prefix)| prefix.single().is_none()) || !choice.grants(true) {
        return None;
    }
    let count = extent.ceil_div(&(SCAN_CHUNK as i64).into());
    let buffer = |(value, _): (ValueId, &Prefix)| {
        let name = format!("{}.{value}.chunks", part.kernel.name);
        program.buffers.push(Buffer { name, dtype: Dtype::U64, shape: vec![count.clone()], role: Role::Temp })
    };
    Some(prefixes.into_iter().map(buffer).collect())
}

/// The prefixes of a scan's body, if they are independent of each other.
fn independent_prefixes(body: &[Statement]) -> Option<Vec<(ValueId, &Prefix)>> {
    let mut prefixes = vec![];
    let mut dependent: BTreeSet<ValueId> = BTreeSet::new();
    for statement in body {
        let used = visit::free_values(&vec![statement.clone()]);
        let depends = used.iter().any(|v| dependent.contains(v));
        if let Statement::Let { value, op: Op::Prefix(prefix) } = statement {
            if depends {
                return None;
            }
            prefixes.push((*value, prefix));
            dependent.insert(*value);
        } else if depends {
            visit::for_each_definition(statement, &mut |v| _ = dependent.insert(v));
        }
    }
    Some(prefixes)
}
