//! Vectorized loops: decides whether a leaf profits from vectors and how far to unroll, and emits
//! the loop. A scalar loop handles the remainder, except with wide vectors, which mask it.

use cranelift_codegen::ir::{InstBuilder, Value};
use ir::BinaryOp;

use super::convert::native_cast;
use super::emit::Emitter;
use super::lanes128::{Elements, GROUP, Lanes128, Operands, Registers, native_binary};
use super::leaf::{Inst, Leaf, LeafId, LeafStep};
use super::{whiles, wide};

/// Whether most operations of a leaf have vector instructions.
pub(super) fn worthwhile(e: &Emitter<'_>, leaf: &Leaf) -> bool {
    if wide::takes(e, leaf) {
        return true;
    }
    let (mut native, mut other) = (0, 0);
    leaf.for_each_step(&leaf.steps, &mut |step| {
        let good = match step {
            LeafStep::Value(id) if leaf.is_uniform(*id) => return,
            LeafStep::Scalar(..) | LeafStep::Nest(_) | LeafStep::Branch(_) | LeafStep::While(_) => return,
            LeafStep::Value(id) => is_native(leaf, *id),
            LeafStep::Store { access, .. } => leaf.accesses[*access].contiguous(),
        };
        *(if good { &mut native } else { &mut other }) += 1;
    });
    // A leaf with loops inside must be contiguous along its own index. Otherwise the inner loops
    // are the contiguous ones, and they become leaves themselves.
    let inside = || leaf.accesses.iter().filter(|a| a.inner && a.gathered.is_empty());
    let across = inside().filter(|a| !a.contiguous()).count();
    native > other && (across == 0 || across < inside().filter(|a| a.contiguous()).count())
}

/// Whether an operation has a vector form that is better than one scalar operation per lane.
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

/// The unroll factor. Short bodies are unrolled, because the loop overhead would cost as much as
/// they do. Iterations of long ones overlap anyway, due to out-of-order execution, and unrolling
/// them would dominate the compile time.
pub(super) fn unroll(weight: usize) -> i64 {
    match weight {
        0..=16 => 4,
        _ => 1,
    }
}

/// Runs whole groups of `from..to`, which must not be empty. Returns where the remainder begins, or
/// `None` if there is none.
pub(super) fn run(e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) -> Option<Value> {
    if wide::run(e, leaf, from, to).is_some() {
        return None;
    }
    if leaf.carries()
        && let Some(done) = wide::run_whole(e, leaf, from, to)
    {
        return Some(done);
    }
    let operands = Operands::new(e, leaf);
    let together = whiles::together(leaf);
    let mut groups = if together > 1 { together as i64 } else { unroll(leaf.weight()) };
    let mut done = from;
    // The unrolled loop first, then single groups.
    while groups > 0 {
        let step = groups * GROUP;
        let count = e.b.ins().isub(to, done);
        let whole = e.b.ins().band_imm_s(count, -step);
        let stop = e.b.ins().iadd(done, whole);
        e.counted(done, stop, step, &[], |e, i, _| {
            if together > 1 {
                emit_groups(e, leaf, &operands, i, groups as usize);
                return vec![];
            }
            for group in 0..groups {
                emit_group(e, leaf, &operands, i, group * GROUP);
            }
            vec![]
        });
        done = stop;
        groups = if groups > 1 { 1 } else { 0 };
    }
    Some(done)
}

/// Emits the group of elements that starts at `i + offset`. Returns the values that are needed
/// outside of the leaf.
pub(super) fn emit_group(
    e: &mut Emitter<'_>,
    leaf: &Leaf,
    operands: &Operands,
    i: Value,
    offset: i64,
) -> Vec<Registers> {
    let at = Elements { leaf, operands, i, offset, groups: 1, strip: None, last: None };
    leaf.emit(&mut Lanes128 { e, at })
}

/// Emits several groups from element `i` on as one.
fn emit_groups(e: &mut Emitter<'_>, leaf: &Leaf, operands: &Operands, i: Value, groups: usize) {
    let at = Elements { leaf, operands, i, offset: 0, groups, strip: None, last: None };
    leaf.emit(&mut Lanes128 { e, at });
}
