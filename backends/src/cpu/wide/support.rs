//! Which leaves are supported here: those with an instruction, or a short sequence, for each
//! operation.

use std::collections::BTreeSet;

use ir::leaf::{Inst, Leaf, LeafId, LeafStep};
use ir::nest::{Extent, IndexId, Op};
use ir::{Affine, BinaryOp, Dtype};

use super::kernel::Wide;
use crate::cpu::emit::Emitter;
use crate::cpu::machine::Isa;

/// Whether all operations of a leaf are supported here.
pub(in crate::cpu) fn takes(e: &Emitter<'_>, leaf: &Leaf) -> bool {
    has_steps(e, leaf, &leaf.steps) && !leaf.steps.iter().any(|step| matches!(step, LeafStep::Nest(_)))
}

/// Whether all steps are supported here. The steps of an inner loop form a leaf of their own.
pub(in crate::cpu) fn has_steps(e: &Emitter<'_>, leaf: &Leaf, steps: &[LeafStep]) -> bool {
    let Some(Wide { isa, .. }) = e.wide else { return false };
    let mut all = true;
    leaf.for_each_step(steps, &mut |step| {
        all &= match step {
            LeafStep::Value(id) => {
                let (dtype, inst) = &leaf.values[*id];
                has(isa, leaf, inst, *dtype)
            }
            LeafStep::Store { access, value } => {
                leaf.accesses[*access].contiguous() || isa != Isa::Avx2 && leaf.values[*value].0.bytes() >= 4
            }
            LeafStep::Nest(_) | LeafStep::Branch(_) | LeafStep::Scalar(..) => true,
            LeafStep::While(_) => false,
        };
    });
    all
}

/// Whether all operations of a leaf with loops are supported here. Nothing in a loop may depend on
/// its counter, which the function does not have as a number.
pub(super) fn takes_loops(isa: Isa, leaf: &Leaf) -> bool {
    let mut counters: BTreeSet<IndexId> = BTreeSet::new();
    leaf.for_each_step(&leaf.steps, &mut |step| {
        if let LeafStep::While(steps) = step {
            counters.insert(steps.counter);
        }
    });
    let apart = |affine: &Affine<IndexId>| affine.terms().iter().all(|(index, _)| !counters.contains(index));
    let mut all = true;
    leaf.for_each_step(&leaf.steps, &mut |step| {
        all &= match step {
            LeafStep::Value(id) => {
                let (dtype, inst) = &leaf.values[*id];
                let fixed = if let Inst::Affine { base, .. } = inst { apart(base) } else { true };
                fixed && has(isa, leaf, inst, *dtype)
            }
            LeafStep::Store { access, .. } => leaf.accesses[*access].contiguous(),
            LeafStep::While(steps) => match &steps.extent {
                Some(Extent::Affine(affine)) => apart(affine),
                Some(Extent::Value(_)) => true,
                None => false,
            },
            LeafStep::Scalar(_, op) => matches!(op, Op::Constant(_)),
            LeafStep::Branch(_) => true,
            LeafStep::Nest(_) => false,
        };
    });
    all
}

/// Whether an operation is supported.
fn has(isa: Isa, leaf: &Leaf, inst: &Inst, dtype: Dtype) -> bool {
    if isa == Isa::Avx2 && !has_in_avx2(leaf, inst, dtype) {
        return false;
    }
    let of = |id: &LeafId| leaf.values[*id].0;
    match inst {
        Inst::Constant(_) | Inst::Affine { .. } | Inst::Select(..) | Inst::Fma(..) => true,
        Inst::Uniform(_) | Inst::Unary(..) => !dtype.is_storage(),
        Inst::Load(access) => {
            let a = &leaf.accesses[*access];
            a.contiguous() || dtype.bytes() >= 4
        }
        Inst::Binary(BinaryOp::Rem, ..) => false,
        Inst::Binary(BinaryOp::Div, ..) => dtype.is_float(),
        Inst::Binary(op, ..) => {
            let bits = matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Min | BinaryOp::Max);
            !dtype.is_storage() && (dtype != Dtype::Bool || bits)
        }
        Inst::Compare(_, a, _) => !matches!(of(a), Dtype::F16 | Dtype::Bf16),
        Inst::Cast(a) => converts(of(a), dtype),
        Inst::Bitcast(a) => of(a).bytes() == dtype.bytes() && dtype.bytes() >= 4,
        Inst::Result => false,
    }
}

/// Whether an operation that AVX-512 supports is supported here. Conversions between eight-byte
/// integers and floats are only supported to `f64`.
fn has_in_avx2(leaf: &Leaf, inst: &Inst, dtype: Dtype) -> bool {
    let Inst::Cast(from) = inst else { return true };
    let long = |dtype: Dtype| matches!(dtype, Dtype::I64 | Dtype::U64);
    let from = leaf.values[*from].0;
    !(long(from) && dtype == Dtype::F32 || from.is_float() && long(dtype))
}

/// Whether a conversion is supported. Conversions to 16-bit floats are only supported from types
/// that convert to `f32` exactly, because others would round twice.
fn converts(from: Dtype, to: Dtype) -> bool {
    match to {
        _ if from == to => true,
        Dtype::F16 | Dtype::Bf16 => from.is_storage() || matches!(from, Dtype::F32 | Dtype::Bool),
        _ => true,
    }
}
