//! Loops of vectors: when a leaf is worth them, how many groups go at once, and the loop itself. What is left over
//! is for the scalar loop behind.

use cranelift_codegen::ir::{InstBuilder, Value};
use ir::{BinaryOp, Dtype};

use super::convert::native_cast;
use super::emit::Emitter;
use super::lanes128::{GROUP, Lanes128, Operands, Parts, is_wide, native_binary};
use super::leaf::{Inst, Leaf, LeafId, Step};

/// Whether the operations of a leaf are mostly ones that vectors have.
pub(super) fn worthwhile(leaf: &Leaf) -> bool {
    let (mut native, mut other) = (0, 0);
    leaf.for_each_step(&leaf.steps, &mut |step| {
        let good = match step {
            Step::Value(id) if leaf.is_uniform(*id) => return,
            Step::Scalar(..) | Step::Reduce(_) => return,
            Step::Value(id) => is_native(leaf, *id),
            Step::Store { access, .. } => leaf.accesses[*access].contiguous(),
        };
        *(if good { &mut native } else { &mut other }) += 1;
    });
    native > other
}

/// Whether the operation has a vector form that is better than lane by lane.
fn is_native(leaf: &Leaf, id: LeafId) -> bool {
    let (dtype, inst) = &leaf.values[id];
    match inst {
        Inst::Load(access) => leaf.accesses[*access].contiguous(),
        Inst::Binary(BinaryOp::Shl | BinaryOp::Shr, _, amount) => leaf.is_uniform(*amount),
        Inst::Binary(op, ..) => native_binary(*op, *dtype),
        Inst::Cast(a) => native_cast(leaf.values[*a].0, *dtype),
        _ => true,
    }
}

/// How many groups to have in flight: several for short bodies, whose loop would cost as much as they do. Iterations of a
/// longer one overlap in the processor by themselves, and its code is the most of what there is to compile.
pub(super) fn unroll(weight: usize) -> i64 {
    match weight {
        0..=16 => 4,
        _ => 1,
    }
}

/// Runs the leaf over `from..to` (not empty) as far as whole groups reach; returns where it stopped.
pub(super) fn run(e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) -> Value {
    let operands = Operands::new(e, leaf);
    // With reductions inside, all groups go through the inner loop together, with their sums in registers.
    let together = !leaf.inner().is_empty();
    let mut groups = if together { groups_of_sums(leaf) } else { unroll(leaf.weight()) };
    let mut done = from;
    while groups > 0 {
        let step = groups * GROUP;
        let count = e.b.ins().isub(to, done);
        let whole = e.b.ins().band_imm_s(count, -step);
        let stop = e.b.ins().iadd(done, whole);
        e.counted(done, stop, step, &[], |e, i, _| {
            if together {
                emit_groups(e, leaf, &operands, i, 0, groups as usize);
            } else {
                for group in 0..groups {
                    emit_groups(e, leaf, &operands, i, group * GROUP, 1);
                }
            }
            vec![]
        });
        done = stop;
        groups = if groups > 1 { 1 } else { 0 };
    }
    done
}

/// How many groups to take at once where the body holds reductions: at most eight registers of sums.
fn groups_of_sums(leaf: &Leaf) -> i64 {
    let registers = |dtype: Dtype| if is_wide(dtype) { 2 } else { 1 };
    let most = leaf.inner().iter().map(|i| i.reductions.iter().map(|r| registers(r.fold.dtype)).sum::<i64>()).max();
    let groups = (8 / most.unwrap_or(1).max(1)).min(if leaf.weight() > 24 { 2 } else { 8 }).max(1);
    1 << groups.ilog2()
}

/// Emits `groups` groups of elements, the first starting at `i + offset`; returns the wanted values.
pub(super) fn emit_groups(
    e: &mut Emitter<'_>,
    leaf: &Leaf,
    operands: &Operands,
    i: Value,
    offset: i64,
    groups: usize,
) -> Vec<Parts> {
    leaf.emit(&mut Lanes128::new(e, leaf, operands, i, offset, groups))
}
