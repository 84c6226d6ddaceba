//! Branches in leaves. A leaf computes both sides of a branch and selects element by element. But a
//! long side, which is typically a rare and expensive case (the sine of a huge number), is skipped
//! if no element of a vector needs it.

use super::build::Build;
use super::{Leaf, LeafId, LeafStep, Obstacle};

/// A side with at least this many operations is long.
const LONG: usize = 16;

/// The long side of a branch.
pub struct Branch {
    /// A `bool`, and the value for which the side is needed.
    pub condition: (LeafId, bool),
    /// Its steps.
    pub steps: Vec<LeafStep>,
    /// The results of the side, each with the result of the other side, which is used if the side
    /// is skipped.
    pub results: Vec<(LeafId, LeafId)>,
}

impl Branch {
    /// Calls `visit` on each value that it uses in addition to those of its steps.
    pub fn for_each_operand(&self, mut visit: impl FnMut(LeafId)) {
        visit(self.condition.0);
        self.results.iter().for_each(|(_, other)| visit(*other));
    }
}

impl Leaf {
    /// Whether steps define a value. It may have been defined before them.
    fn defines(&self, steps: &[LeafStep], id: LeafId) -> bool {
        let mut found = false;
        self.for_each_step(steps, &mut |step| {
            found |= match step {
                LeafStep::Value(value) => *value == id,
                LeafStep::Nest(nest) => nest.accumulators.iter().any(|a| a.result == id),
                LeafStep::Branch(branch) => branch.results.iter().any(|(result, _)| *result == id),
                LeafStep::While(steps) => steps.state.iter().any(|s| s.result == id),
                LeafStep::Store { .. } | LeafStep::Scalar(..) => false,
            };
        });
        found
    }
}

/// One side of a branch under construction.
pub(super) struct Arm {
    pub(super) steps: Vec<LeafStep>,
    pub(super) results: Vec<LeafId>,
}

impl Build<'_> {
    /// The steps and results of a side.
    pub(super) fn side(
        &mut self,
        build: impl FnOnce(&mut Self) -> Result<Vec<LeafId>, Obstacle>,
    ) -> Result<Arm, Obstacle> {
        let outer = std::mem::take(&mut self.leaf.steps);
        let splats = self.splats.clone();
        let results = build(self);
        self.splats = splats;
        let steps = std::mem::replace(&mut self.leaf.steps, outer);
        Ok(Arm { steps, results: results? })
    }

    /// Adds both sides of a branch. The shorter one always runs; the other one is conditional if it
    /// is long.
    pub(super) fn sides(&mut self, condition: LeafId, then: Arm, otherwise: Arm) {
        let swap = self.leaf.weight_of(&then.steps) < self.leaf.weight_of(&otherwise.steps);
        let (long, short) = if swap { (otherwise, then) } else { (then, otherwise) };
        self.leaf.steps.extend(short.steps);
        // Scalars of a loop may be used after the branch, so they cannot be conditional.
        let scalars = long.steps.iter().any(|step| matches!(step, LeafStep::Scalar(..)));
        if scalars || self.leaf.is_uniform(condition) || self.leaf.weight_of(&long.steps) < LONG {
            self.leaf.steps.extend(long.steps);
            return;
        }
        // A result from before the branch is always available.
        let results = long
            .results
            .into_iter()
            .zip(short.results)
            .filter(|(result, _)| self.leaf.defines(&long.steps, *result))
            .collect();
        self.leaf.steps.push(LeafStep::Branch(Branch { condition: (condition, !swap), steps: long.steps, results }));
    }
}
