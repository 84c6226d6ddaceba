//! The long sides of branches in leaves, which are skipped if no lane needs them.

use cranelift_codegen::ir::types::I32X4;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::Dtype;
use ir::leaf::{Branch, LeafId};

use super::lanes128::{Lanes128, Registers, little};
use super::leaf::{Done, Emit};

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
