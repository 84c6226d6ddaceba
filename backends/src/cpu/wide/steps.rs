//! Loops over carried scalars in leaves, with wide vectors: the steps of a group are a loop in the
//! function of the leaf. The remainder after the last whole group is for scalar code, because its
//! inactive lanes could take more steps than any element.

use ir::leaf::{Leaf, Steps};
use ir::{BinaryOp, CompareOp, Dtype, Scalar};

use super::arguments::{Argument, Shared};
use super::assemble::Assembler;
use super::constants::PinnedConstants;
use super::function::{Encoded, Function, addresses, begin, whole_groups};
use super::inst::{Carried, Class, Item, Operand, Registers, Repeat};
use super::lanes::WideX86;
use super::support::takes_loops;
use crate::cpu::emit::Emitter;
use crate::cpu::leaf::{Done, Emit, LeafEmitter};
use crate::cpu::machine::Isa;

/// The function of a leaf with loops, for whole groups of this many elements, if it is supported
/// here.
pub(in crate::cpu) fn function(e: &mut Emitter<'_>, leaf: &Leaf) -> Option<(Function, i64)> {
    let isa = e.wide.as_ref()?.isa;
    if !takes_loops(isa, leaf) {
        return None;
    }
    encoded(e, leaf, isa).map(|encoded| (encoded.placed(e), isa.group().into()))
}

fn encoded(e: &Emitter<'_>, leaf: &Leaf, isa: Isa) -> Option<Encoded> {
    let mut shared = Shared::new(isa);
    let count = shared.slot(Argument::Count);
    let addresses = addresses(e, leaf, &mut shared);
    let mut l = WideX86::new(e, leaf, &mut shared);
    leaf.emit(&mut l);
    let body = l.body;
    let constants = PinnedConstants::of(isa, &[&body], 0);
    let mut asm = Assembler::new(addresses, &mut shared);
    begin(&mut asm);
    constants.load(&mut asm);
    whole_groups(&mut asm, &constants, &body, &[], 1, 0, count);
    Encoded::new(asm, shared)
}

impl WideX86<'_, '_> {
    /// Emits a loop and defines its results.
    pub(super) fn repeat(&mut self, steps: &Steps, done: &mut Done<Registers>) {
        // `takes` has made sure that there is one.
        let Some(extent) = &steps.extent else { return };
        let extent = self.shared.slot(Argument::Steps(extent.clone()));
        let left = self.shared.slot(Argument::StepsLeft(steps.counter));
        let cancelled = self.e.polls().then(|| self.shared.slot(Argument::Cancelled));
        let all = match steps.active {
            Some(active) => self.whole(&done.get(active)),
            None => {
                let zero = self.constant(Scalar::I32(0));
                self.compare(CompareOp::Eq, Dtype::I32, &zero, &zero)[0]
            }
        };
        let live = self.register(Class::Mask);
        let mask = Operand::Register(live);
        done.set(steps.live, vec![mask]);
        let mut first = vec![];
        for s in &steps.state {
            let values = self.one_form(self.leaf.values[s.first].0, &done.get(s.first));
            let class = if self.leaf.values[s.first].0 == Dtype::Bool { Class::Mask } else { Class::Vector };
            let registers = values.iter().map(|_| Operand::Register(self.register(class))).collect();
            done.set(s.current, registers);
            first.extend(values);
        }
        let outer = std::mem::take(&mut self.body.items);
        self.leaf.emit_steps(&steps.condition, self, done);
        let mut next_live = mask;
        if let Some(holds) = steps.holds {
            next_live = self.binary(BinaryOp::And, Dtype::Bool, &vec![mask], &done.get(holds))[0];
        }
        let condition = std::mem::take(&mut self.body.items);
        self.leaf.emit_steps(&steps.body, self, done);
        let (mut state, mut firsts) = (vec![], first.into_iter());
        for s in &steps.state {
            let dtype = self.leaf.values[s.current].0;
            let next = self.one_form(dtype, &done.get(s.next));
            let current = done.get(s.current);
            // A new value even if all lanes are live, so that registers can be assigned in turn.
            let next = self.select(dtype, &vec![mask], &next, &current);
            for ((current, first), next) in current.iter().zip(&mut firsts).zip(next) {
                state.extend(current.register().map(|register| Carried { register, first, next }));
            }
            done.set(s.result, current);
        }
        let body = std::mem::replace(&mut self.body.items, outer);
        let live = Carried { register: live, first: all, next: next_live };
        self.body.items.push(Item::Repeat(Repeat { extent, left, cancelled, live, state, condition, body }));
    }

    /// Booleans as a single mask. Other values are unchanged.
    fn one_form(&mut self, dtype: Dtype, v: &Registers) -> Registers {
        if dtype == Dtype::Bool { vec![self.whole(v)] } else { v.clone() }
    }
}
