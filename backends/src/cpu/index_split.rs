//! Code for loops that are split at a comparison ([`ir::sched::partition`]).

use std::ops::Range;

use cranelift_codegen::ir::{InstBuilder, Value};
use ir::nest::{Block, ValueId};
use ir::sched::Form;
use ir::sched::partition::{Comparand, Split, Threshold, given};
use ir::{CompareOp, Dtype};

use super::emit::Emitter;
use super::scalar;
use super::state::Axis;

impl Emitter<'_> {
    /// Emits iterations of a parallel loop that is split at a `bool`, with the form of each part:
    /// where it holds, and where not.
    pub(super) fn split(
        &mut self,
        at: ValueId,
        [holds, fails]: [&Form; 2],
        axis: &Axis,
        range: Range<Value>,
        body: &Block,
    ) {
        let dtype = |value| self.dtype(value);
        let site = self.site(&dtype);
        let [yes, no] = [true, false].map(|side| given(site, body, at, side));
        let Some(split) = Split::of(site, axis.index, body, at) else { return };
        let Range { start: from, end: to } = range;
        let condition = match &split {
            Split::Threshold(threshold) => {
                let (point, below) = self.split_point(threshold);
                // The comparison may change outside of the range. Then one part is empty.
                let point = self.b.ins().smax(point, from);
                let point = self.least(point, to);
                let (low, high) = if below { ((holds, &yes), (fails, &no)) } else { ((fails, &no), (holds, &yes)) };
                self.in_form(low.0, axis, from..point, low.1);
                self.in_form(high.0, axis, point..to, high.1);
                return;
            }
            Split::Same(op, operands) => {
                let [a, b] = operands.each_ref().map(|o| self.operand(o));
                scalar::compare(&mut self.b, *op, Dtype::I64, a, b)
            }
            Split::Outside => self.value(at),
        };
        let run = |e: &mut Self, form: &Form, body: &Block| {
            e.in_form(form, axis, from..to, body);
            vec![]
        };
        self.either(condition, &[], |e| run(e, holds, &yes), |e| run(e, fails, &no));
    }

    /// The iteration at which a comparison changes, and whether it holds before or after it.
    fn split_point(&mut self, threshold: &Threshold) -> (Value, bool) {
        let base = self.affine(&threshold.base);
        let bound = self.operand(&threshold.bound);
        // Clamp, so that the arithmetic cannot wrap. The base is far inside these limits.
        let [least, most] = [-(1i64 << 62), 1 << 62].map(|k| self.int(k));
        let bound = self.b.ins().smax(bound, least);
        let bound = self.b.ins().smin(bound, most);
        // base + i < bound changes at i = bound - base; base - i < bound, that is, i > base -
        // bound, at base - bound.
        let (at, op) = if threshold.sign > 0 {
            (self.b.ins().isub(bound, base), threshold.op)
        } else {
            (self.b.ins().isub(base, bound), threshold.op.swapped())
        };
        let past = self.b.ins().iadd_imm_s(at, 1);
        // i < at holds for the iterations before `at`, i <= at before `at + 1`, and the others from
        // there on.
        match op {
            CompareOp::Lt => (at, true),
            CompareOp::Le => (past, true),
            CompareOp::Gt => (past, false),
            CompareOp::Ge | CompareOp::Eq | CompareOp::Ne => (at, false),
        }
    }

    fn operand(&mut self, operand: &Comparand) -> Value {
        match operand {
            Comparand::Outside(v) => self.value(*v),
            Comparand::Affine(a) => self.affine(a),
            Comparand::Constant(k) => self.int(*k),
        }
    }
}
