//! The phases of a leaf with inner loops: straight-line code and loops, one after another, and the
//! values that pass from one to another.

use std::collections::BTreeSet;

use ir::leaf::{Inst, Leaf, LeafId, LeafStep, Nest};

/// A part of the body that runs for a whole strip before the next one does.
pub(super) enum Phase<'l> {
    Line(&'l [LeafStep]),
    Nest(&'l Nest),
}

/// Whether a value is cheaper to recompute than to load.
pub(super) fn again(leaf: &Leaf, id: LeafId) -> bool {
    leaf.is_uniform(id) || matches!(leaf.values[id].1, Inst::Affine { .. })
}

/// For each phase, the values of earlier phases that it uses.
pub(super) fn uses(leaf: &Leaf, phases: &[Phase<'_>]) -> Vec<BTreeSet<LeafId>> {
    let mut before = BTreeSet::new();
    let mut all = vec![];
    for phase in phases {
        let (mut uses, mut defined) = (BTreeSet::new(), BTreeSet::new());
        let mut scan = |steps: &[LeafStep]| {
            leaf.for_each_use(steps, &mut |id| _ = uses.insert(id));
            leaf.for_each_step(steps, &mut |s| {
                if let LeafStep::Value(id) = s {
                    defined.insert(*id);
                }
            });
        };
        match phase {
            Phase::Line(steps) => scan(steps),
            Phase::Nest(nest) => {
                scan(&nest.body);
                for a in &nest.accumulators {
                    uses.insert(a.next);
                    uses.extend(a.blocks.map(|blocks| blocks.input));
                    defined.insert(a.result);
                }
            }
        }
        uses.retain(|id| before.contains(id));
        before.extend(defined);
        all.push(uses);
    }
    all
}

pub(super) fn phases(leaf: &Leaf) -> Vec<Phase<'_>> {
    let mut phases = vec![];
    for run in leaf.steps.chunk_by(|a, b| !matches!(a, LeafStep::Nest(_)) && !matches!(b, LeafStep::Nest(_))) {
        phases.push(match run {
            [LeafStep::Nest(nest)] => Phase::Nest(nest),
            line => Phase::Line(line),
        });
    }
    phases
}
