//! Lets loops over the rows of products run in sweeps (`ir::sched::Sweeps`), without memory for
//! the products. The other parts of their kernels run where the target has no code for the sweeps,
//! or at sizes that do not suit it. So this pass comes last, and begins with the kernels as they
//! were planned.

use std::collections::{BTreeMap, BTreeSet};

use ir::choice::Choice;
use ir::nest::{Buffer, BufferId, Kernel, KernelId, LoopKind, Program, Role, Statement};
use ir::rewrite::{fresh_name, replace};
use ir::sched::{Part, Run, Scheduled, SweepForm, Sweeps, is_scalar};
use ir::visit;

use crate::forward::is_scratch;

/// Adds the parts that run in sweeps, each before the others of its kernel.
pub fn sweeps(scheduled: &mut Scheduled, planned: &Program, choice: &mut Choice) {
    if scheduled.machine.sweeps.is_none() {
        return;
    }
    let mut before = None;
    scheduled.rewrite(|program, part| {
        let first = before.replace(part.of) != Some(part.of);
        let whole = planned.kernels.get(part.of).filter(|kernel| first && runs_in_sweeps(planned, kernel));
        let whole = whole.filter(|_| choice.grants(true)).map(|kernel| of_kernel(program, part.of, kernel));
        whole.into_iter().chain([part]).collect()
    });
}

fn runs_in_sweeps(program: &Program, kernel: &Kernel) -> bool {
    let Some((Statement::Loop(l), before)) = kernel.body.split_last() else { return false };
    l.kind == LoopKind::Parallel
        && before.iter().all(is_scalar)
        && Sweeps::of(program, kernel, SweepForm::Exact).is_some()
}

/// The part, with scratch of its own.
fn of_kernel(program: &mut Program, of: KernelId, kernel: &Kernel) -> Part {
    let mut kernel = Kernel { name: format!("{}.sweeps", kernel.name), ..kernel.clone() };
    let mut names: BTreeSet<String> = program.buffers.values().map(|b| b.name.clone()).collect();
    let mut scratch: BTreeSet<BufferId> = visit::stores(&kernel.body).into_iter().collect();
    scratch.retain(|id| is_scratch(program, *id));
    let mut own = BTreeMap::new();
    for id in scratch {
        let Buffer { name, dtype, shape, .. } = program.buffers[id].clone();
        let name = fresh_name(&mut names, &format!("{name}.sweeps"));
        own.insert(id, program.buffers.push(Buffer { name, dtype, shape, role: Role::Scratch }));
    }
    replace(&mut kernel.body, &mut |mut statement, out| {
        statement.for_each_buffer_mut(|buffer| *buffer = own.get(buffer).copied().unwrap_or(*buffer));
        out.push(statement);
    });
    Part::new(of, kernel, Run::Sweeps, vec![])
}
