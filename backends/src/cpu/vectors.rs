//! Vectorized loops: decides whether a leaf profits from vectors and how far to unroll, and emits
//! the loop. A scalar loop handles the remainder, except with wide vectors, which mask it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::leaf::Leaf;
use ir::nest::{Block, IndexId, ValueId};

use super::emit::Emitter;
use super::lanes128::{Elements, GROUP, Lanes128, Operands, Registers};
use super::leaf::Emit;
use super::whiles;
use super::wide::function::Function;
use super::wide::support::takes;
use super::wide::{elementwise, steps};

impl Emitter<'_> {
    /// The vector form of a loop, if it has one and there are instructions for it.
    pub(super) fn leaf(&self, index: IndexId, body: &Block, wanted: &[ValueId]) -> Option<Leaf> {
        Leaf::build(self.site(&|value| self.dtype(value)), index, body, wanted)
            .ok()
            .filter(|leaf| takes(self, leaf) || leaf.is_native())
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

/// How a leaf runs.
enum Way {
    /// In a function with wide vectors, which masks the remainder.
    Wide(Function),
    /// Whole groups in such a function, with the number of elements of a group.
    WideGroups(Function, i64),
    /// Whole groups in 128-bit vectors.
    Groups,
}

/// Chooses how a leaf runs. This emits nothing.
fn choose(e: &mut Emitter<'_>, leaf: &Leaf) -> Way {
    if let Some(function) = elementwise::function(e, leaf) {
        return Way::Wide(function);
    }
    if leaf.carries()
        && let Some((function, group)) = steps::function(e, leaf)
    {
        return Way::WideGroups(function, group);
    }
    Way::Groups
}

/// Runs whole groups of `from..to`, which must not be empty. Returns where the remainder begins, or
/// `None` if there is none.
pub(super) fn run(e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) -> Option<Value> {
    match choose(e, leaf) {
        Way::Wide(function) => {
            function.run_leaf(e, leaf, from, to);
            None
        }
        Way::WideGroups(function, group) => {
            let count = e.b.ins().isub(to, from);
            let whole = e.b.ins().band_imm_s(count, -group);
            let stop = e.b.ins().iadd(from, whole);
            let some = e.b.ins().icmp(IntCC::SignedLessThan, from, stop);
            e.when(some, &[], |e| {
                function.run_leaf(e, leaf, from, stop);
                vec![]
            });
            Some(stop)
        }
        Way::Groups => Some(in_groups(e, leaf, from, to)),
    }
}

/// Runs whole groups in 128-bit vectors. Returns where the remainder begins.
fn in_groups(e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) -> Value {
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
    done
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
