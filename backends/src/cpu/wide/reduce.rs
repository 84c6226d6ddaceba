//! Reductions over a leaf, a chunk of elements at a time, in the order by lanes: element `i` of a chunk belongs to lane `i` modulo 128,
//! and at the end the lanes are folded in halves.
//!
//! Lanes rest in registers where the body is short, so that a step of 128 elements adds to each register once; else in memory, with a
//! step of sixteen elements.

use cranelift_codegen::ir::{InstBuilder, Value};
use iced_x86::{Code, Instruction, Register};
use ir::Dtype;
use ir::order::LANES;

use super::allocate::{self, Residents, pressure};
use super::assemble::{Assembler, Condition, END, OTHER};
use super::inst::{Body, Lanes, Operand, Place, Plain, Slot};
use super::lanes::{GROUP, Given, Shared, WideX86};
use super::{Function, addresses, begin, end, partial_groups, takes, whole_groups};
use crate::cpu::emit::{Emitter, own_memory};
use crate::cpu::fold::Fold;
use crate::cpu::lanes128::is_wide;
use crate::cpu::leaf::Leaf;
use crate::cpu::scalar;

/// Groups that have lanes of their own.
const GROUPS: i32 = LANES as i32 / GROUP;
/// Operations of a body that is short.
const SHORT: usize = 12;
/// Vector registers.
const VECTORS: usize = 32;

/// A leaf's reductions as a function.
pub(in crate::cpu) struct Reducer {
    function: Function,
    memory: Value,
    /// Where the results lie.
    results: Vec<(Fold, Slot)>,
}

/// Whether a reduction is done here.
fn has(fold: Fold) -> bool {
    !fold.is_arg() && matches!(fold.dtype.bytes(), 4 | 8)
}

/// Where the lanes of one reduction rest.
struct Home {
    fold: Fold,
    /// The first of its registers, or of its pieces of memory.
    first: u32,
}

impl Home {
    fn parts(&self) -> u32 {
        if is_wide(self.fold.dtype) { 2 } else { 1 }
    }

    fn registers(&self) -> u32 {
        GROUPS.unsigned_abs() * self.parts()
    }
}

impl Reducer {
    /// The reductions `folds` of what a leaf wants.
    pub(in crate::cpu) fn new(e: &mut Emitter<'_>, leaf: &Leaf, folds: &[Fold]) -> Option<Reducer> {
        if e.wide.is_none() || !takes(leaf) || !folds.iter().all(|fold| has(*fold)) {
            return None;
        }
        let (function, results) = function(e, leaf, folds)?;
        let memory = e.scratch(function.memory);
        Some(Reducer { function, memory, results: folds.iter().copied().zip(results).collect() })
    }

    /// What the elements `from..to`, of one chunk and not empty, give.
    pub(in crate::cpu) fn run(&self, e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) -> Vec<Value> {
        self.function.run(e, leaf, self.memory, from, to);
        let results = self.results.iter().map(|(fold, slot)| {
            let at = i32::try_from(slot.0 * 8).expect("few slots");
            e.b.ins().load(scalar::register(fold.dtype), own_memory(), self.memory, at)
        });
        results.collect()
    }
}

fn function(e: &Emitter<'_>, leaf: &Leaf, folds: &[Fold]) -> Option<(Function, Vec<Slot>)> {
    let mut shared = Shared::default();
    let count = shared.slot(Given::Count);
    let addresses = addresses(e, leaf, &mut shared);
    let results: Vec<Slot> = (0..folds.len()).map(|n| shared.slot(Given::Result(n))).collect();
    let mut first = 0;
    let homes: Vec<Home> = folds
        .iter()
        .map(|fold| {
            let home = Home { fold: *fold, first };
            first += home.registers();
            home
        })
        .collect();
    let mut probe = WideX86 { partial: true, ..WideX86::new(e, leaf, &mut shared) };
    leaf.emit(&mut probe);
    let in_registers = leaf.weight() <= SHORT && first as usize + pressure(&probe.body) + 4 <= VECTORS;
    let make = |groups: std::ops::Range<i32>, partial: bool, shared: &mut Shared| {
        let mut l = WideX86 { partial, ..WideX86::new(e, leaf, shared) };
        for group in groups {
            // Behind whole steps each group is taken as the one at hand.
            l.offset = if partial { 0 } else { group * GROUP };
            let wanted = leaf.emit(&mut l);
            for (home, elements) in homes.iter().zip(&wanted) {
                for (part, x) in elements.iter().enumerate() {
                    if in_registers {
                        let register = home.first + group.unsigned_abs() * home.parts() + part as u32;
                        l.take_in_register(home.fold, register, part, *x);
                    } else {
                        l.take_in_memory(home, part, *x);
                    }
                }
            }
        }
        l.body
    };
    let mut bodies = vec![];
    if in_registers {
        bodies.push(make(0..GROUPS, false, &mut shared));
        (0..GROUPS).for_each(|group| bodies.push(make(group..group + 1, true, &mut shared)));
    } else {
        bodies.push(make(0..1, true, &mut shared));
    }
    let fixed = if in_registers { first } else { 0 };
    let residents = Residents::of(&bodies.iter().collect::<Vec<_>>(), fixed);
    let mut l = WideX86::new(e, leaf, &mut shared);
    homes.iter().for_each(|home| l.clear(home, in_registers));
    let beginning = l.body;
    let ends = endings(e, leaf, &homes, &results, in_registers, &mut shared);

    let slots = u32::try_from(shared.given.len()).ok()?;
    let mut asm = Assembler::new(addresses, slots, &shared.vectors);
    if !in_registers {
        asm.spills = first as usize;
    }
    begin(&mut asm);
    residents.load(&mut asm);
    allocate::assemble(&mut asm, &residents, &beginning);
    if in_registers {
        whole_groups(&mut asm, &residents, &bodies[0], GROUPS, count);
        asm.load_slot(END, count);
        let done = asm.label();
        for body in &bodies[1..] {
            asm.general(Instruction::with2(Code::Cmp_r64_rm64, super::INDEX, END));
            asm.jump(Condition::GreaterOrEqual, done);
            super::one_partial_group(&mut asm, &residents, body);
        }
        asm.place(done);
    } else {
        asm.load_slot(END, count);
        partial_groups(&mut asm, &residents, &bodies[0]);
    }
    let fixed = Residents::of(&[], most_lanes(&homes, in_registers));
    for (half, body) in ends {
        let skip = asm.label();
        if let Some(half) = half {
            asm.general(Instruction::with2(Code::Mov_r32_imm32, Register::R11D, half + 1));
            asm.general(Instruction::with2(Code::Cmp_r64_rm64, END, OTHER));
            asm.jump(Condition::Less, skip);
        }
        allocate::assemble(&mut asm, &fixed, &body);
        asm.place(skip);
    }
    end(&mut asm);
    let (code, memory) = asm.finish().ok()?;
    Some((Function { code, given: shared.given, memory }, results))
}

/// Registers that folding uses for nothing else.
fn most_lanes(homes: &[Home], in_registers: bool) -> u32 {
    let all = homes.iter().map(Home::registers);
    if in_registers { all.sum() } else { all.max().unwrap_or(0) }
}

/// The lanes folded in halves: halves of more than eight lanes only if there are more elements than that.
fn endings(
    e: &Emitter<'_>,
    leaf: &Leaf,
    homes: &[Home],
    results: &[Slot],
    in_registers: bool,
    shared: &mut Shared,
) -> Vec<(Option<i32>, Body)> {
    let mut all = vec![];
    let mut bodied = |half: Option<i32>, work: &mut dyn FnMut(&mut WideX86<'_, '_>)| {
        let mut l = WideX86::new(e, leaf, shared);
        work(&mut l);
        all.push((half, l.body));
    };
    for (home, result) in homes.iter().zip(results) {
        let (wide, first) = (is_wide(home.fold.dtype), if in_registers { home.first } else { 0 });
        if !in_registers {
            bodied(None, &mut |l| {
                for register in 0..home.registers() {
                    let from = Operand::Memory(Place::Own((home.first + register) as usize));
                    l.set(Code::EVEX_Vmovups_zmm_k1z_zmmm512, register, &[from]);
                }
            });
        }
        let per_register = if wide { 8 } else { 16 };
        let mut half = LANES as i32 / 2;
        while half >= per_register {
            let registers = (half / per_register).unsigned_abs();
            bodied((half >= 16).then_some(half), &mut |l| {
                for k in 0..registers {
                    let (low, high) = (first + k, first + k + registers);
                    l.join(home.fold, low, Operand::Fixed(high));
                }
            });
            half /= 2;
        }
        bodied(None, &mut |l| {
            let swap = Code::EVEX_Vshuff64x2_zmm_k1z_zmm_zmmm512b64_imm8;
            let within = Code::EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8;
            let own = Operand::Fixed(first);
            for control in [0x4e, 0xb1] {
                let high = l.vector(swap, &[own, own, Operand::Immediate(control)]);
                l.join(home.fold, first, high);
            }
            let halves: &[u8] = if wide { &[0x4e] } else { &[0x4e, 0xb1] };
            for control in halves {
                let high = l.vector(within, &[own, Operand::Immediate(*control)]);
                l.join(home.fold, first, high);
            }
            let code = if wide { Code::EVEX_Vmovq_rm64_xmm } else { Code::EVEX_Vmovd_rm32_xmm };
            l.store_at(code, Operand::Memory(Place::Slot(*result)), own, Lanes::All);
        });
    }
    all
}

impl WideX86<'_, '_> {
    /// Sets a register that is used for nothing else.
    fn set(&mut self, code: Code, register: u32, from: &[Operand]) {
        self.set_some(code, register, from, Lanes::All);
    }

    fn set_some(&mut self, code: Code, register: u32, from: &[Operand], lanes: Lanes) {
        let (to, over, from) = (None, None, from.to_vec());
        self.push(Plain { code, to, fixed: Some(register), over, from, lanes, spends_mask: false });
    }

    /// Joins lanes with others.
    fn join(&mut self, fold: Fold, register: u32, x: Operand) {
        let joined = self.one(fold.primitive(), fold.dtype, Operand::Fixed(register), x);
        self.set(Code::EVEX_Vmovaps_zmm_k1z_zmmm512, register, &[joined]);
    }

    /// Takes elements into the lanes of a register.
    fn take_in_register(&mut self, fold: Fold, register: u32, part: usize, x: Operand) {
        let lanes = self.there(part, false);
        if let Some((code, _)) = super::table::binary(fold.primitive(), fold.dtype) {
            return self.set_some(code, register, &[Operand::Fixed(register), x], lanes);
        }
        let joined = self.one(fold.primitive(), fold.dtype, Operand::Fixed(register), x);
        let code = copy(fold.dtype);
        self.set_some(code, register, &[joined], lanes);
    }

    /// Takes elements into the lanes that they belong to.
    fn take_in_memory(&mut self, home: &Home, part: usize, x: Operand) {
        let wide = is_wide(home.fold.dtype);
        let width = if wide { 8 } else { 4 };
        let offset = (home.first * 64).cast_signed() + 64 * part as i32;
        let lane = Operand::Memory(Place::Lane { offset, width });
        let old = self.vector(Code::EVEX_Vmovups_zmm_k1z_zmmm512, &[lane]);
        let joined = self.one(home.fold.primitive(), home.fold.dtype, old, x);
        let lanes = self.there(part, false);
        let code = if wide { Code::EVEX_Vmovupd_zmmm512_k1z_zmm } else { Code::EVEX_Vmovups_zmmm512_k1z_zmm };
        self.store_at(code, lane, joined, lanes);
    }

    /// Gives lanes the value of no elements.
    fn clear(&mut self, home: &Home, in_registers: bool) {
        use crate::cpu::leaf::LeafEmitter;
        let none = self.constant(home.fold.identity())[0];
        for register in home.first..home.first + home.registers() {
            if in_registers {
                self.set(copy(home.fold.dtype), register, &[none]);
            } else {
                let place = Operand::Memory(Place::Own(register as usize));
                self.store_at(Code::EVEX_Vmovups_zmmm512_k1z_zmm, place, none, Lanes::All);
            }
        }
    }
}

fn copy(dtype: Dtype) -> Code {
    if is_wide(dtype) { Code::EVEX_Vmovapd_zmm_k1z_zmmm512 } else { Code::EVEX_Vmovaps_zmm_k1z_zmmm512 }
}
