//! Takes computations that nothing needs out of leaves. Where a loop is split at a condition, its
//! parts do not look at the condition, nor at the indices that it compares.

use std::collections::BTreeSet;

use super::{Leaf, LeafId, LeafStep};

/// Takes the values that nothing uses out of the steps of a leaf.
pub(super) fn without_unused(leaf: &mut Leaf) {
    let (mut used, mut pending): (BTreeSet<LeafId>, Vec<LeafId>) = (BTreeSet::new(), leaf.wanted.clone());
    leaf.for_each_step(&leaf.steps, &mut |step| {
        if !matches!(step, LeafStep::Value(_)) {
            leaf.for_each_own_use(step, &mut |id| pending.push(id));
        }
        if let LeafStep::Branch(branch) = step {
            pending.extend(branch.results.iter().map(|(result, _)| *result));
        }
    });
    while let Some(id) = pending.pop() {
        if used.insert(id) {
            leaf.for_each_own_use(&LeafStep::Value(id), &mut |operand| pending.push(operand));
        }
    }
    keep(&mut leaf.steps, &used);
}

fn keep(steps: &mut Vec<LeafStep>, used: &BTreeSet<LeafId>) {
    steps.retain(|step| !matches!(step, LeafStep::Value(id) if !used.contains(id)));
    for step in steps {
        match step {
            LeafStep::Nest(nest) => keep(&mut nest.body, used),
            LeafStep::Branch(branch) => keep(&mut branch.steps, used),
            LeafStep::While(steps) => {
                keep(&mut steps.condition, used);
                keep(&mut steps.body, used);
            }
            LeafStep::Value(_) | LeafStep::Store { .. } | LeafStep::Scalar(..) => {}
        }
    }
}
