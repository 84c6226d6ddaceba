//! Prefixes of a chunk of a scan: those of each group of sixteen elements, in registers, merged
//! with the result of the groups before it in the chunk.

use cranelift_codegen::ir::Value;
use ir::Order;
use ir::leaf::{Leaf, LeafStep};
use ir::nest::{Block, IndexId, ValueId};
use ir::order::{Distribution, SCAN_GROUP, Scope};
use ir::sabotage::{self, Bug};

use super::allocate;
use super::arguments::{Argument, Shared};
use super::assemble::{Assembler, END};
use super::constants::PinnedConstants;
use super::function::{Encoded, Function, addresses, begin, partial_groups, whole_groups};
use super::inst::{Lanes, MemoryRef, Operand, Registers, Slot, Splat};
use super::lanes::WideX86;
use super::op::{VectorOp, W32, W64};
use super::support::takes;
use crate::cpu::emit::Emitter;
use crate::cpu::leaf::is_wide;
use crate::cpu::leaf::{Emit, LeafEmitter};
use ir::merging::Fold;

/// The register with the result of the groups so far in all its lanes.
const CARRIED: u32 = 0;
/// Groups that a step takes at once.
const AT_ONCE: i32 = 2;

/// The computation of a prefix's operand, and the prefixes of a chunk alone, as a function.
pub(in crate::cpu) struct Scanner {
    function: Function,
    leaf: Leaf,
    fold: Fold,
    /// Where what all elements give lies.
    result: Slot,
}

impl Scanner {
    /// For a body with a last statement that stores `input`, where the prefixes go; if it is one
    /// that is supported here.
    pub(in crate::cpu) fn new(
        e: &mut Emitter<'_>,
        index: IndexId,
        body: &Block,
        input: ValueId,
        fold: Fold,
    ) -> Option<Scanner> {
        // A step is one group of scans.
        let groups_fit = usize::try_from(e.wide.as_ref()?.isa.group()) == Ok(SCAN_GROUP);
        if !groups_fit || !matches!(fold.dtype.bytes(), 4 | 8) {
            return None;
        }
        let mut leaf = e.leaf(index, body, &[input])?;
        let Some(LeafStep::Store { access, .. }) = leaf.steps.pop() else { return None };
        if !takes(e, &leaf) {
            return None;
        }
        let (function, result) = function(e, &leaf, access, fold)?;
        Some(Scanner { function: function.placed(e), leaf, fold, result })
    }

    /// Runs it over the elements `from..to`, not empty, and returns what all of them give, which is
    /// rubbish unless they are whole groups.
    pub(in crate::cpu) fn run(&self, e: &mut Emitter<'_>, from: Value, to: Value) -> Value {
        self.function.run_leaf(e, &self.leaf, from, to);
        self.function.result(e, self.fold.dtype, self.result)
    }
}

fn function(e: &Emitter<'_>, leaf: &Leaf, to: usize, fold: Fold) -> Option<(Encoded, Slot)> {
    let isa = e.wide.as_ref()?.isa;
    let mut shared = Shared::new(isa);
    let count = shared.slot(Argument::Count);
    let addresses = addresses(e, leaf, &mut shared);
    let result = shared.slot(Argument::Result(0));
    let make = |groups: i32, partial: bool, shared: &mut Shared| {
        let mut l = WideX86 { partial, ..WideX86::new(e, leaf, shared) };
        for group in 0..groups {
            l.offset = group * isa.group();
            let x = leaf.emit(&mut l).swap_remove(0);
            let prefixes = l.prefixes(fold, x);
            l.store(to, &[], &prefixes);
        }
        l.body
    };
    let bodies = [make(AT_ONCE, false, &mut shared), make(1, true, &mut shared)];
    let constants = PinnedConstants::of(isa, &bodies.iter().collect::<Vec<_>>(), CARRIED + 1);
    let copy = VectorOp::Copy(is_wide(fold.dtype));
    let mut l = WideX86::new(e, leaf, &mut shared);
    let none = l.constant(fold.identity())[0];
    l.set(copy, CARRIED, &[none], Lanes::All);
    let beginning = l.body;
    let mut l = WideX86::new(e, leaf, &mut shared);
    let low = VectorOp::StoreFirst(is_wide(fold.dtype));
    l.store_at(low, Operand::Memory(MemoryRef::Slot(result)), Operand::Fixed(CARRIED), Lanes::All);
    let ending = l.body;

    let mut asm = Assembler::new(addresses, &mut shared);
    begin(&mut asm);
    constants.load(&mut asm);
    allocate::assemble(&mut asm, &constants, &beginning);
    whole_groups(&mut asm, &constants, &bodies[0], &[], AT_ONCE, 0, count);
    asm.load_slot(END, count);
    partial_groups(&mut asm, &constants, &bodies[1]);
    allocate::assemble(&mut asm, &constants, &ending);
    Some((Encoded::new(asm, shared)?, result))
}

impl WideX86<'_, '_> {
    /// The prefixes of a group and of those before it.
    fn prefixes(&mut self, fold: Fold, x: Registers) -> Registers {
        let join = |l: &mut Self, a, b| l.one(fold.primitive(), fold.dtype, a, b);
        let wide = is_wide(fold.dtype);
        let (lanes, align, spread) = if wide {
            (8, VectorOp::Align(W64), VectorOp::Permute(W64))
        } else {
            (16, VectorOp::Align(W32), VectorOp::Permute(W32))
        };
        let none = self.constant(fold.identity())[0];
        let mut p = x;
        let over = Distribution::new([Scope::Vector.of(lanes), Scope::Register.of(p.len())]);
        for step in Order::Scan.tree().steps(&over) {
            if step.scope == Scope::Register {
                for (before, k) in step.pairs() {
                    p[k] = join(self, p[before], p[k]);
                }
                continue;
            }
            for k in (0..p.len()).rev() {
                let low = if k == 0 { none } else { p[k - 1] };
                let before = self.vector(align, &[p[k], low, Operand::Immediate((lanes - step.distance) as u8)]);
                p[k] = join(self, before, p[k]);
            }
        }
        let carried = Operand::Fixed(CARRIED);
        let all = p.iter().map(|p| join(self, carried, *p)).collect();
        let last = Operand::Splat(if wide { Splat::Bits64(7) } else { Splat::Bits32(15) });
        let last = self.vector(spread, &[last, p[p.len() - 1]]);
        if !sabotage::on(Bug::WideCarry) {
            self.join(fold, CARRIED, last);
        }
        all
    }
}
