//! Puts parts that follow each other into one launch of a GPU, with a barrier for the grid between
//! them, if a reduction in chunks begins them and each needs results of those before: the sum of
//! an array in one launch, its division by the sum in the same one. This saves the time between
//! launches, and what the last part reads may still be in the cache.

use std::collections::BTreeSet;

use ir::choice::Choice;
use ir::nest::{Buffer, BufferId, Role};
use ir::sched::{Part, Run, Scheduled, TURNS, followers, shares_launches};
use ir::{Dtype, Size, visit};

/// Chooses the parts that run in the launch of the part before them.
pub fn launches(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Some(gpu) = scheduled.machine.gpu else { return };
    let followers = followers(&scheduled.program.body);
    let mut begin = 0;
    while begin < scheduled.parts.len() {
        let first = &scheduled.parts[begin];
        let shares = |part: &Part| shares_launches(&scheduled.program, gpu, part);
        let mut end = begin + 1;
        if matches!(first.run, Run::Chunks { .. }) && shares(first) {
            let mut stored = stores(first);
            while let Some(part) = scheduled.parts.get(end)
                && followers.contains(&end)
                && shares(part)
                && visit::loads(&part.kernel.body).iter().any(|buffer| stored.contains(buffer))
            {
                stored.extend(stores(part));
                end += 1;
            }
        }
        if end - begin > 1 && choice.grants(true) {
            let name = format!("{}.{}.turns", scheduled.parts[begin].kernel.name, scheduled.program.buffers.len());
            let words = Size::constant(TURNS * i64::try_from(end - begin).unwrap_or(0));
            let buffer = Buffer { name, dtype: Dtype::U64, shape: vec![words], role: Role::Temp };
            let buffer = scheduled.program.buffers.push(buffer);
            scheduled.parts[begin + 1..end].iter_mut().for_each(|part| part.barrier = Some(buffer));
        }
        begin = end;
    }
}

/// The memory that a part writes.
fn stores(part: &Part) -> BTreeSet<BufferId> {
    let results = part.run.results().iter().copied();
    visit::stores(&part.kernel.body).into_iter().chain(results).collect()
}
