//! Lets a part go through arrays from their end if the part before it that touched them went from
//! their beginning: of an array that is larger than a cache, the end is still there.

use std::collections::BTreeSet;

use ir::choice::Choice;
use ir::nest::{BufferId, Program};
use ir::sched::{Part, Scheduled, Strategy};
use ir::visit;

/// Chooses the direction of loops in vectors.
pub fn descend(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { program, parts, .. } = scheduled;
    for number in 1..parts.len() {
        let (before, rest) = parts.split_at_mut(number);
        let [part, ..] = rest else { continue };
        let [variant] = part.variants.as_mut_slice() else { continue };
        let loaded = arrays(program, visit::loads(&part.kernel.body));
        let touches = |part: &&Part| !touched(program, part).is_disjoint(&loaded);
        let ascends = |part: &Part| part.variants.iter().all(|variant| !variant.descending);
        let last = before.iter().rev().find(touches);
        if variant.strategy == Strategy::Vectors && last.is_some_and(ascends) && choice.grants(true) {
            variant.descending = true;
        }
    }
}

/// The arrays that a part loads or stores.
fn touched(program: &Program, part: &Part) -> BTreeSet<BufferId> {
    let body = &part.kernel.body;
    arrays(program, visit::loads(body).into_iter().chain(visit::stores(body)))
}

fn arrays(program: &Program, buffers: impl IntoIterator<Item = BufferId>) -> BTreeSet<BufferId> {
    buffers.into_iter().filter(|id| !program.buffers[*id].shape.is_empty()).collect()
}
