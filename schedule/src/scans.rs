//! Scans at the top of a kernel in chunks of their order, as far as a target passes the results of
//! chunks on: threads of a CPU hand off one state from chunk to chunk, and a block of a GPU relays
//! to the others what is before their chunks.

use std::collections::BTreeSet;

use ir::choice::Choice;
use ir::nest::{Buffer, BufferId, Kernel, Loop, Op, Program, Role, Statement};
use ir::order::SCAN_CHUNK;
use ir::sched::{HandOff, Machine, Relay, Run, Scans, is_scalar, prefixes_in_chunks, single_prefixes};
use ir::{Dtype, Size, visit};

/// The relaying block takes the results of this many chunks at a time. To load them takes about as
/// long as to merge them.
const WINDOW: i64 = 128;

/// How a scan runs in chunks, with a temporary for what they pass on.
pub fn in_chunks(
    program: &mut Program,
    machine: &Machine,
    kernel: &Kernel,
    l: &Loop,
    choice: &mut Choice,
) -> Option<Run> {
    let [(_, extent)] = l.dims.as_slice() else { return None };
    let extent = extent.as_size()?;
    match machine.scans {
        Scans::Whole => None,
        Scans::HandOff => {
            let prefixes = prefixes_in_chunks(l)?;
            let words = Size::constant(i64::try_from(prefixes * HandOff::BYTES / 8).ok()?);
            choice.grants(true).then(|| {
                let buffer = temporary(program, kernel, "carry", words);
                Run::HandOff(HandOff { buffer, prefixes })
            })
        }
        Scans::Relay => {
            let prefixes = independent_prefixes(program, kernel, l)?;
            let words: i64 = prefixes.iter().map(|dtype| Relay::words(*dtype)).sum();
            let chunks = extent.ceil_div(&(SCAN_CHUNK as i64).into());
            let words = &Size::constant(1) + &(&chunks * &Size::constant(words));
            choice.grants(true).then(|| {
                let warp = machine.gpu.map_or(1, |gpu| gpu.warp);
                let window = if choice.grants(true) { WINDOW } else { warp };
                let buffer = temporary(program, kernel, "results", words);
                Run::Relay(Relay { buffer, prefixes: prefixes.len(), window })
            })
        }
    }
}

fn temporary(program: &mut Program, kernel: &Kernel, what: &str, words: Size) -> BufferId {
    let name = format!("{}.{}.{what}", kernel.name, program.buffers.len());
    program.buffers.push(Buffer { name, dtype: Dtype::U64, shape: vec![words], role: Role::Temp })
}

/// The types of a scan's prefixes, if none depends on another, and blocks can compute those of
/// their chunks at the same time.
fn independent_prefixes(program: &Program, kernel: &Kernel, l: &Loop) -> Option<Vec<Dtype>> {
    let flat = l.body.iter().all(|s| is_scalar(s) || matches!(s, Statement::Store { .. }));
    let stored = visit::stores(&l.body);
    let overwrites =
        program.slots.values().any(|members| members.iter().any(|b| stored.contains(b)) && members.len() > 1);
    let scratch = stored.iter().any(|b| program.buffers[*b].role == Role::Scratch);
    let prefixes = single_prefixes(l)?;
    let mut dependent = BTreeSet::new();
    for statement in &l.body {
        let used = visit::free_values(&vec![statement.clone()]);
        let depends = used.iter().any(|v| dependent.contains(v));
        if let Statement::Let { value, op: Op::Prefix(_) } = statement {
            if depends {
                return None;
            }
            dependent.insert(*value);
        } else if depends {
            visit::for_each_definition(statement, &mut |v| _ = dependent.insert(v));
        }
    }
    let fits = flat && !overwrites && !scratch && !prefixes.is_empty();
    fits.then(|| prefixes.iter().filter_map(|(_, prefix)| Some(kernel.values[prefix.single()?.1])).collect())
}
