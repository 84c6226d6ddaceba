//! Branches in leaves. A leaf computes both sides of a branch and selects lane by lane. But a long
//! side, which is typically a rare and expensive case (the sine of a huge number), is skipped if no
//! lane needs it.

use cranelift_codegen::ir::types::I32X4;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::Dtype;

use super::lanes128::{Lanes128, Registers, little};
use super::leaf::{Build, Done, Leaf, LeafId, LeafStep};

/// A side with at least this many operations is long.
const LONG: usize = 16;

/// The long side of a branch.
pub(super) struct Branch {
    /// A `bool`, and the value for which the side is needed.
    pub(super) condition: (LeafId, bool),
    pub(super) steps: Vec<LeafStep>,
    /// The results of the side, each with the result of the other side, which is used if the side
    /// is skipped.
    pub(super) results: Vec<(LeafId, LeafId)>,
}

impl Branch {
    /// Calls `visit` on each value that it uses in addition to those of its steps.
    pub(super) fn for_each_operand(&self, mut visit: impl FnMut(LeafId)) {
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

impl Build<'_, '_> {
    /// The steps and results of a side.
    pub(super) fn side(&mut self, build: impl FnOnce(&mut Self) -> Option<Vec<LeafId>>) -> Option<Arm> {
        let outer = std::mem::take(&mut self.leaf.steps);
        let splats = self.splats.clone();
        let results = build(self);
        self.splats = splats;
        let steps = std::mem::replace(&mut self.leaf.steps, outer);
        Some(Arm { steps, results: results? })
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

impl Lanes128<'_, '_> {
    /// Emits the steps under the condition that a lane needs them.
    pub(super) fn run_branch(&mut self, branch: &Branch, done: &mut Done<Registers>) {
        let (condition, when) = branch.condition;
        let needed = self.any(&done.get(condition), when);
        let mut others = vec![];
        let mut lengths = vec![];
        for (result, other) in &branch.results {
            let other = self.one_form(*result, done.get(*other));
            lengths.push(other.len());
            others.extend(other);
        }
        let at = self.at;
        let found = self.e.when(needed, &others, |e| {
            let mut l = Lanes128 { e, at };
            at.leaf.emit_steps(&branch.steps, &mut l, done);
            branch.results.iter().flat_map(|(result, _)| l.one_form(*result, done.get(*result))).collect()
        });
        let mut found = found.as_slice();
        for ((result, _), length) in branch.results.iter().zip(lengths) {
            let (own, rest) = found.split_at(length);
            done.set(*result, own.to_vec());
            found = rest;
        }
    }

    /// Normalizes masks to one width, since both sides must agree. Other values are unchanged.
    pub(super) fn one_form(&mut self, id: LeafId, v: Registers) -> Registers {
        if self.at.leaf.values[id].0 == Dtype::Bool { self.mask(&v, false) } else { v }
    }

    /// Whether some lane of a mask is `value`.
    pub(super) fn any(&mut self, mask: &Registers, value: bool) -> Value {
        let b = &mut self.e.b;
        let mut all = b.ins().bitcast(I32X4, little(), mask[0]);
        for part in &mask[1..] {
            let part = b.ins().bitcast(I32X4, little(), *part);
            all = if value { b.ins().bor(all, part) } else { b.ins().band(all, part) };
        }
        let all = if value { all } else { b.ins().bnot(all) };
        b.ins().vany_true(all)
    }
}
