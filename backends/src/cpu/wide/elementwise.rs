//! Leaves that store results, each element by itself.

use cranelift_codegen::ir::Value;
use iced_x86::{Code, Instruction};
use ir::leaf::Leaf;

use super::arguments::{Argument, Shared};
use super::assemble::{Assembler, Condition, END, INDEX, SPARE};
use super::constants::PinnedConstants;
use super::function::{
    Encoded, Function, addresses, all_there, begin, non_temporal_accesses, one_partial_group, partial_groups,
    whole_groups,
};
use super::inst::{Body, interleave};
use super::lanes::WideX86;
use super::liveness::pressure;
use super::neighbours::Neighbours;
use super::prefetch::Prefetches;
use super::support::takes;
use crate::cpu::emit::Emitter;
use crate::cpu::leaf::Emit;
use crate::cpu::machine::Isa;

/// The unroll factor in groups. Short bodies are unrolled by four, because the loop overhead would
/// cost as much as they do, and all but the longest by two, so that two independent dependency
/// chains overlap.
pub(super) fn unroll(weight: usize) -> i32 {
    match weight {
        0..=12 => 4,
        13..=320 => 2,
        _ => 1,
    }
}

/// How many groups to interleave, given the register pressure of one and the number of reserved
/// registers.
pub(super) fn ways(isa: Isa, pressure: usize, fixed: u32) -> usize {
    let ways = ((isa.vectors() - fixed) as usize).saturating_sub(2) / pressure.max(1);
    if ways >= 4 { 4 } else { ways.clamp(1, 2) }
}

/// A leaf with its function, which can run in several places.
pub(in crate::cpu) struct Ready {
    leaf: Leaf,
    function: Function,
}

impl Ready {
    /// Compiles the leaf, if it is supported here.
    pub(in crate::cpu) fn new(e: &mut Emitter<'_>, leaf: Leaf) -> Option<Ready> {
        let function = compiled(e, &leaf, &Prefetches::default())?;
        Some(Ready { leaf, function })
    }

    /// Runs it over `from..to`, which must not be empty.
    pub(in crate::cpu) fn run(&self, e: &mut Emitter<'_>, from: Value, to: Value) {
        self.function.run_leaf(e, &self.leaf, from, to);
    }
}

/// The function of a leaf that goes over whole arrays, if it is supported here.
pub(in crate::cpu) fn function(e: &mut Emitter<'_>, leaf: &Leaf) -> Option<Function> {
    let prefetches = Prefetches::of(e, leaf);
    compiled(e, leaf, &prefetches)
}

fn compiled(e: &mut Emitter<'_>, leaf: &Leaf, prefetches: &Prefetches) -> Option<Function> {
    if !takes(e, leaf) {
        return None;
    }
    encoded(e, leaf, prefetches).map(|encoded| encoded.placed(e))
}

/// Compiles the leaf to a function. There are up to three versions of the body: unrolled, masked
/// for the remainder, and unrolled with non-temporal stores.
fn encoded(e: &Emitter<'_>, leaf: &Leaf, prefetches: &Prefetches) -> Option<Encoded> {
    let isa = e.wide.as_ref()?.isa;
    let mut shared = Shared::new(isa);
    let count = shared.slot(Argument::Count);
    let addresses = addresses(e, leaf, &mut shared);
    let prefetched = prefetches.slots(&mut shared);
    let groups = unroll(leaf.weight());
    let neighbours = Neighbours::of(e, leaf, isa, groups);
    let beyond = neighbours.beyond(isa);
    let body = |groups: i32, partial: bool, non_temporal: bool, shared: &mut Shared| {
        let mut l = WideX86 { partial, non_temporal, ..WideX86::new(e, leaf, shared) };
        let loaded = (!partial).then(|| l.load_neighbours(&neighbours));
        l.loaded = loaded.as_ref();
        // Shared loads come before all groups, which are then interleaved.
        let mut first = std::mem::take(&mut l.body.items);
        let mut all = vec![];
        let mut most = 0;
        for group in 0..groups {
            l.offset = group * isa.group();
            leaf.emit(&mut l);
            if group == 0 {
                most = pressure(&l.body);
            }
            all.push(std::mem::take(&mut l.body.items));
        }
        let fixed = u32::try_from(first.len()).unwrap_or(0);
        first.extend(interleave(all, ways(isa, most, fixed)));
        l.body.items = first;
        l.body
    };
    // The masked version also handles whole groups, so a body that is not unrolled needs no other.
    let whole = (groups > 1).then(|| body(groups, false, false, &mut shared));
    let rest = body(1, true, false, &mut shared);
    let peel = (!non_temporal_accesses(e, leaf).is_empty()).then(|| shared.slot(Argument::Peel));
    let non_temporal = peel.map(|slot| (slot, body(groups, false, true, &mut shared)));
    let bodies: Vec<&Body> = whole.iter().chain([&rest]).chain(non_temporal.iter().map(|(_, body)| body)).collect();
    let constants = PinnedConstants::of(isa, &bodies, 0);
    let mut asm = Assembler::new(addresses, &mut shared);
    begin(&mut asm);
    constants.load(&mut asm);
    if let Some((peel, body)) = &non_temporal {
        // Peel a masked group until the stores are aligned, then run the non-temporal version.
        let (aligned, plain) = (asm.label(), asm.label());
        asm.load_slot(END, *peel);
        asm.general(Instruction::with2(Code::Cmp_r64_rm64, END, INDEX));
        // A negative count means that non-temporal stores are not to be used.
        asm.jump(Condition::Less, plain);
        asm.jump(Condition::Equal, aligned);
        // Peel no more than there are elements.
        asm.load_slot(SPARE, count);
        asm.general(Instruction::with2(Code::Cmp_r64_rm64, SPARE, END));
        asm.general(Instruction::with2(Code::Cmovl_r64_rm64, END, SPARE));
        one_partial_group(&mut asm, &constants, &rest);
        asm.general(Instruction::with2(Code::Mov_r64_rm64, INDEX, END));
        all_there(&mut asm);
        asm.place(aligned);
        whole_groups(&mut asm, &constants, body, &prefetched, groups, beyond, count);
        asm.place(plain);
    }
    if let Some(whole) = &whole {
        whole_groups(&mut asm, &constants, whole, &prefetched, groups, beyond, count);
    }
    asm.load_slot(END, count);
    partial_groups(&mut asm, &constants, &rest);
    Encoded::new(asm, shared)
}
