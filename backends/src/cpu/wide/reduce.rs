//! Reductions over a leaf, a chunk of elements at a time, in the order by lanes: element `i` of a
//! chunk goes to lane `i % 128`, and at the end the lanes are merged by the steps of the order's
//! tree.
//!
//! If the body is short and the lanes fit in registers, they stay there, and an iteration of 128
//! elements adds to each register once. The remainder goes by single groups: each with a body of
//! its own or, if that were too much code, with the lanes in memory. Otherwise the loop takes a few
//! groups at once, and the lanes are in memory throughout. A reduction in any order does not need
//! 128 lanes, so it has fewer registers.

use cranelift_codegen::ir::Value;
use iced_x86::{Code, Instruction};
use ir::leaf::Leaf;
use ir::order::{Distribution, LANES, Scope, Step};
use ir::sabotage::{self, Bug};
use ir::{Dtype, Monoid, Order};

use super::allocate;
use super::arguments::{Argument, Shared};
use super::assemble::{Assembler, Condition, END, INDEX};
use super::constants::PinnedConstants;
use super::elementwise::{unroll, ways};
use super::function::{
    Encoded, Function, addresses, begin, one_by_one, one_partial_group, partial_groups, whole_groups,
};
use super::inst::{
    Body, Class, Item, Lanes, MemoryRef, Operand, Plain, Reg, Region, Registers, Slot, Splat, interleave,
};
use super::lanes::WideX86;
use super::liveness::pressure;
use super::op::{VectorOp, W32, W64};
use super::prefetch::Prefetches;
use super::support::takes;
use super::table::{binary, extreme};
use crate::cpu::emit::Emitter;
use crate::cpu::leaf::Emit;
use crate::cpu::leaf::is_wide;
use crate::cpu::machine::Isa;
use ir::merging::Fold;

/// The groups that the 128 lanes make.
fn all_groups(isa: Isa) -> i32 {
    LANES as i32 / isa.group()
}

/// The most operations of a body that is unrolled over all lanes, which then stay in registers.
const SHORT: usize = 64;
/// The most operations of a body that is repeated for each group of lanes in the remainder.
const BRIEF: usize = 32;
/// The most operations of a body that is bound by memory.
const PLAIN: usize = 12;
/// The registers that a body needs in addition to those of its values and of lanes.
const SPARE: u32 = 2;

/// A generated function that reduces a leaf.
pub(in crate::cpu) struct Reducer {
    function: Function,
    /// The slots of the results.
    results: Vec<(Fold, Slot)>,
}

/// Whether a reduction has an implementation here.
fn has(fold: Fold) -> bool {
    fold.dtype == Dtype::Bool || matches!(fold.dtype.bytes(), 4 | 8)
}

/// The operation on lanes: for booleans, the greatest or least number, with 1 for true.
fn over_numbers(fold: Fold) -> Fold {
    match fold.op {
        Monoid::Any => Fold { op: Monoid::Max, dtype: Dtype::I32 },
        Monoid::All => Fold { op: Monoid::Min, dtype: Dtype::I32 },
        _ => fold,
    }
}

/// The registers or memory of one reduction's lanes.
#[derive(Clone, Copy)]
struct Accumulator {
    fold: Fold,
    /// Whether the elements are booleans, which are converted to numbers.
    of_truth: bool,
    result: Slot,
    /// The first register of the lanes: those where they stay or, if they are in memory, those
    /// where they are merged.
    register: u32,
    /// The first spill slot of the lanes.
    memory: u32,
    /// The number of groups of lanes: all of them, except for registers of reductions with free
    /// order.
    groups: i32,
    /// Whether these are all groups.
    all: bool,
    /// Whether a separate register, the one after the lanes, records NaN, so that merging the lanes
    /// may ignore it.
    notes: bool,
}

impl Accumulator {
    /// The registers of a group.
    fn parts(&self) -> u32 {
        if is_wide(self.fold.dtype) { 2 } else { 1 }
    }

    fn registers(&self) -> u32 {
        self.groups.unsigned_abs() * self.parts()
    }

    /// The registers, including the one that records NaN.
    fn taken(&self) -> u32 {
        self.registers() + u32::from(self.notes)
    }

    /// The bytes of a lane.
    fn width(&self) -> usize {
        4 * self.parts() as usize
    }

    /// The merges of the lanes, which `held` registers hold at a time: the others are in memory.
    fn steps(&self, isa: Isa, held: u32) -> Vec<Step> {
        let order = if self.fold.op.depends_on_order(self.fold.dtype) { Order::Lanes } else { Order::Free };
        let over = Distribution::new([
            Scope::Vector.of(isa.bytes() as usize / self.width()),
            Scope::Register.of(held as usize),
            Scope::Memory.of((self.registers() / held) as usize),
        ]);
        order.tree().steps(&over)
    }
}

/// The lanes of a leaf's reductions.
struct Accumulators {
    all: Vec<Accumulator>,
    /// Whether lanes stay in registers in iterations over all groups.
    in_registers: bool,
}

impl Accumulators {
    /// For a body that needs this many registers; in memory if it needs too many.
    fn new(isa: Isa, folds: &[(Fold, bool)], results: &[Slot], body: Option<u32>) -> Accumulators {
        let most = all_groups(isa);
        let place = |free: i32| {
            let (mut register, mut memory) = (0, 0);
            let accumulator = |((fold, of_truth), result): (&(Fold, bool), &Slot)| {
                let groups = if fold.op.depends_on_order(fold.dtype) { most } else { free };
                let all = groups == most;
                let notes = isa == Isa::Avx512 && !all && binary(fold.primitive(), fold.dtype).is_none();
                let (fold, result, of_truth) = (*fold, *result, *of_truth);
                let accumulator = Accumulator { fold, of_truth, result, register, memory, groups, all, notes };
                register += accumulator.taken();
                memory += if accumulator.all { accumulator.registers() } else { 0 };
                accumulator
            };
            let all: Vec<Accumulator> = folds.iter().zip(results).map(accumulator).collect();
            (all, register)
        };
        for free in [4, 2, 1] {
            let (all, registers) = place(free);
            if body.is_some_and(|body| registers + body + SPARE <= isa.vectors()) {
                return Accumulators { all, in_registers: true };
            }
        }
        let all = place(most).0.into_iter().map(|accumulator| Accumulator { register: 0, ..accumulator }).collect();
        Accumulators { all, in_registers: false }
    }

    /// The reductions with lanes in memory in the remainder.
    fn in_memory(&self) -> impl Iterator<Item = &Accumulator> {
        self.all.iter().filter(|accumulator| accumulator.all)
    }

    /// The registers that are reserved for lanes.
    fn fixed(&self) -> u32 {
        if self.in_registers { self.all.iter().map(Accumulator::taken).sum() } else { 0 }
    }

    fn pieces(&self) -> usize {
        self.in_memory().map(|accumulator| accumulator.registers() as usize).sum()
    }
}

impl Reducer {
    /// Generates the function for the reductions `folds` of a leaf's values.
    pub(in crate::cpu) fn new(e: &mut Emitter<'_>, leaf: &Leaf, folds: &[Fold]) -> Option<Reducer> {
        if !takes(e, leaf) || !folds.iter().all(|fold| has(*fold)) {
            return None;
        }
        let prefetches = Prefetches::of(e, leaf);
        let (function, results) = function(e, leaf, folds, &prefetches)?;
        Some(Reducer { function: function.placed(e), results: folds.iter().copied().zip(results).collect() })
    }

    /// The result of the elements `from..to`, which are within one chunk and not empty.
    pub(in crate::cpu) fn run(&self, e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) -> Vec<Value> {
        self.function.run(e, leaf, from, to);
        self.results.iter().map(|(fold, slot)| self.function.result(e, fold.dtype, *slot)).collect()
    }
}

fn function(e: &Emitter<'_>, leaf: &Leaf, folds: &[Fold], prefetches: &Prefetches) -> Option<(Encoded, Vec<Slot>)> {
    let isa = e.wide.as_ref()?.isa;
    let mut shared = Shared::new(isa);
    let count = shared.slot(Argument::Count);
    let addresses = addresses(e, leaf, &mut shared);
    let prefetched = prefetches.slots(&mut shared);
    let results: Vec<Slot> = (0..folds.len()).map(|n| shared.slot(Argument::Result(n))).collect();
    let mut probe = WideX86 { partial: true, ..WideX86::new(e, leaf, &mut shared) };
    leaf.emit(&mut probe);
    let probe = pressure(&probe.body);
    let body = (leaf.weight() <= SHORT).then(|| u32::try_from(probe).unwrap_or(isa.vectors()));
    let folds: Vec<(Fold, bool)> = folds.iter().map(|fold| (over_numbers(*fold), fold.dtype == Dtype::Bool)).collect();
    let accumulators = Accumulators::new(isa, &folds, &results, body);

    let at_once = if accumulators.in_registers { all_groups(isa) } else { unroll(leaf.weight()) };
    let whole = whole_step(WideX86::new(e, leaf, &mut shared), &accumulators, at_once, probe);
    let rolled = prefetched.first().filter(|_| leaf.weight() <= PLAIN).map(|read| {
        let body = rolled_step(WideX86::new(e, leaf, &mut shared), &accumulators);
        (read.distance, body)
    });
    // The remaining elements are processed group by group, with the lanes where they are, if that
    // is little code.
    let chained = accumulators.in_registers && leaf.weight() <= BRIEF;
    let groups = if chained { (0..all_groups(isa)).map(Some).collect() } else { vec![None] };
    let partial =
        |group| partial_step(WideX86 { partial: true, ..WideX86::new(e, leaf, &mut shared) }, &accumulators, group);
    let rests: Vec<Body> = groups.into_iter().map(partial).collect();
    let bodies: Vec<&Body> = [&whole].into_iter().chain(rolled.iter().map(|(_, body)| body)).chain(&rests).collect();
    let constants = PinnedConstants::of(isa, &bodies, accumulators.fixed());
    let mut made = |work: &mut dyn FnMut(&mut WideX86<'_, '_>)| {
        let mut l = WideX86::new(e, leaf, &mut shared);
        work(&mut l);
        l.body
    };
    let clear =
        made(&mut |l| accumulators.all.iter().for_each(|accumulator| l.clear(accumulator, accumulators.in_registers)));
    // Lanes that were in registers are stored before the remainder and loaded after it.
    let moved = || accumulators.in_memory().filter(|_| accumulators.in_registers);
    let keep = made(&mut |l| moved().for_each(|accumulator| l.keep(accumulator)));
    let load = made(&mut |l| moved().for_each(|accumulator| l.load_lanes(accumulator)));
    let ends: Vec<_> = if accumulators.in_registers {
        endings(isa, &accumulators.all, &mut made)
    } else {
        // The reductions are merged one after another in the same registers.
        let mut all = vec![];
        for accumulator in &accumulators.all {
            let mut accumulator = *accumulator;
            let held = accumulator.registers().min(isa.vectors() / 2);
            for step in accumulator.steps(isa, held).into_iter().filter(|step| step.scope == Scope::Memory) {
                accumulator = Accumulator { groups: accumulator.groups / 2, all: false, ..accumulator };
                all.push((Some(step.left), made(&mut |l| l.merge_in_memory(&accumulator, held, step))));
            }
            all.push((None, made(&mut |l| l.load_lanes(&accumulator))));
            all.extend(endings(isa, &[accumulator], &mut made));
        }
        all
    };

    let mut asm = Assembler::new(addresses, &mut shared);
    asm.spills = accumulators.pieces();
    begin(&mut asm);
    constants.load(&mut asm);
    if !sabotage::on(Bug::DirtyRegisters) {
        allocate::assemble(&mut asm, &constants, &clear);
    }
    if let Some((distance, body)) = &rolled {
        one_by_one(&mut asm, &constants, body, *distance, at_once, count);
    }
    whole_groups(&mut asm, &constants, &whole, &prefetched, at_once, 0, count);
    asm.load_slot(END, count);
    let done = asm.label();
    for rest in rests.iter().filter(|_| !sabotage::on(Bug::LostRest)) {
        asm.general(Instruction::with2(Code::Cmp_r64_rm64, INDEX, END));
        asm.jump(Condition::GreaterOrEqual, done);
        if chained {
            one_partial_group(&mut asm, &constants, rest);
        } else {
            allocate::assemble(&mut asm, &constants, &keep);
            partial_groups(&mut asm, &constants, rest);
            allocate::assemble(&mut asm, &constants, &load);
        }
    }
    asm.place(done);
    let folded =
        accumulators.all.iter().map(|accumulator| accumulator.register + accumulator.taken()).max().unwrap_or(0);
    let fixed =
        PinnedConstants::of(isa, &[], if accumulators.in_registers { folded } else { folded.min(isa.vectors() / 2) });
    merge_lanes(&mut asm, &fixed, &ends);
    Some((Encoded::new(asm, shared)?, results))
}

/// The merges of lanes. One of lanes in memory is left out where there are not that many.
fn merge_lanes(asm: &mut Assembler, constants: &PinnedConstants, ends: &[(Option<usize>, Body)]) {
    for (half, body) in ends {
        let skip = asm.label();
        if let Some(half) = half {
            let least = i32::try_from(*half).expect("few lanes") + 1;
            asm.general(Instruction::with2(Code::Cmp_rm64_imm32, END, least));
            asm.jump(Condition::Less, skip);
        }
        allocate::assemble(asm, constants, body);
        asm.place(skip);
    }
}

/// The contribution of a group to each of the reductions.
fn elements(l: &mut WideX86<'_, '_>, accumulators: &Accumulators) -> Vec<Registers> {
    let mut wanted = l.leaf.emit(l);
    for (elements, accumulator) in
        wanted.iter_mut().zip(&accumulators.all).filter(|(_, accumulator)| accumulator.of_truth)
    {
        *elements = l.convert(Dtype::Bool, accumulator.fold.dtype, elements);
    }
    wanted
}

/// A step of this many groups, or of all lanes if they are in registers, for a leaf that needs this
/// many registers for a group.
fn whole_step(mut l: WideX86<'_, '_>, accumulators: &Accumulators, at_once: i32, pressure: usize) -> Body {
    let (isa, mut groups) = (l.isa(), vec![]);
    let mut before: Vec<Registers> = vec![];
    // The masks of each part depend only on each other, so that groups can be interleaved.
    let mut numbers: Vec<Registers> = vec![vec![]; accumulators.all.len()];
    for group in 0..at_once {
        l.offset = group * isa.group();
        let wanted = elements(&mut l, accumulators);
        for (k, (accumulator, elements)) in accumulators.all.iter().zip(&wanted).enumerate() {
            if accumulators.in_registers {
                l.take_in_registers(accumulator, group % accumulator.groups, elements);
            } else {
                l.take_in_memory(accumulator, elements);
            }
            if accumulator.notes && group % 2 == 1 {
                numbers[k] = l.ordered(accumulator, &before[k], elements, &numbers[k]);
            }
        }
        before = wanted;
        groups.push(std::mem::take(&mut l.body.items));
    }
    // Groups that accumulate into the same registers are not interleaved.
    let apart = accumulators.all.iter().map(|accumulator| accumulator.groups).min().unwrap_or(1);
    l.body.items = interleave(groups, ways(isa, pressure, accumulators.fixed()).min(apart.unsigned_abs() as usize));
    for (accumulator, numbers) in accumulators.all.iter().zip(&numbers) {
        l.note(accumulator, numbers);
    }
    l.body
}

/// An iteration over one group, whichever is next: it accumulates into the first lanes and then
/// rotates the registers by a group.
fn rolled_step(mut l: WideX86<'_, '_>, accumulators: &Accumulators) -> Body {
    let wanted = elements(&mut l, accumulators);
    for (accumulator, elements) in accumulators.all.iter().zip(&wanted) {
        if !accumulators.in_registers {
            l.take_in_memory(accumulator, elements);
            continue;
        }
        l.take_in_registers(accumulator, 0, elements);
        if accumulator.notes {
            let numbers = l.ordered(accumulator, elements, elements, &vec![]);
            l.note(accumulator, &numbers);
        }
        l.rotate(accumulator);
    }
    l.body
}

/// A step of up to a group's elements: of a particular group with lanes in registers, or of any
/// with the lanes in memory.
fn partial_step(mut l: WideX86<'_, '_>, accumulators: &Accumulators, group: Option<i32>) -> Body {
    let wanted = elements(&mut l, accumulators);
    for (accumulator, elements) in accumulators.all.iter().zip(&wanted) {
        match group {
            Some(group) if accumulator.all => l.take_in_registers(accumulator, group, elements),
            None if accumulator.all => l.take_in_memory(accumulator, elements),
            _ => l.take_in_registers(accumulator, 0, elements),
        }
    }
    l.body
}

/// Makes the body that a closure emits.
type Make<'m> = dyn FnMut(&mut dyn FnMut(&mut WideX86<'_, '_>)) -> Body + 'm;

/// Swaps blocks of 128 bits of a vector.
const ACROSS: VectorOp = VectorOp::ShuffleAcross;
/// Swaps 32-bit lanes in each block of 128 bits.
const WITHIN: VectorOp = VectorOp::ShuffleWithin;

/// The instructions that bring each half of some bytes to the other half, for the merges of a
/// vector's lanes: by the distance in bytes, the farthest first.
fn swaps(isa: Isa) -> &'static [(usize, VectorOp, u8)] {
    match isa {
        Isa::Avx512 => &[(32, ACROSS, 0x4e), (16, ACROSS, 0xb1), (8, WITHIN, 0x4e), (4, WITHIN, 0xb1)],
        Isa::Avx2 => &[(16, ACROSS, 0x4e), (8, WITHIN, 0x4e), (4, WITHIN, 0xb1)],
    }
}

/// The merges of lanes in registers, interleaved over the reductions because these are independent.
/// Each body but the last has a number of elements up to which it is skipped, because half of the
/// lanes that it merges have none.
fn endings(isa: Isa, accumulators: &[Accumulator], made: &mut Make<'_>) -> Vec<(Option<usize>, Body)> {
    let group = isa.group().unsigned_abs() as usize;
    let steps: Vec<(&Accumulator, Vec<Step>)> =
        accumulators.iter().map(|accumulator| (accumulator, accumulator.steps(isa, accumulator.registers()))).collect();
    let mut all = vec![];
    let mut left = LANES / 2;
    while left >= group && accumulators.iter().any(|accumulator| accumulator.all) {
        let skippable = made(&mut |l| {
            for (accumulator, steps) in steps.iter().filter(|(accumulator, _)| accumulator.all) {
                steps.iter().filter(|step| step.left == left).for_each(|step| l.merge_registers(accumulator, *step));
            }
        });
        all.push((Some(left), skippable));
        left /= 2;
    }
    all.push((
        None,
        made(&mut |l| {
            let noted: Vec<_> = accumulators.iter().map(|accumulator| l.noted(accumulator)).collect();
            for (accumulator, steps) in steps.iter().filter(|(accumulator, _)| !accumulator.all) {
                steps.iter().filter(|step| step.left >= group).for_each(|step| l.merge_registers(accumulator, *step));
            }
            for (accumulator, steps) in &steps {
                let in_group = steps.iter().filter(|step| step.left < group && step.scope == Scope::Register);
                in_group.for_each(|step| l.merge_registers(accumulator, *step));
            }
            for (distance, code, control) in swaps(isa) {
                let swapped = |accumulator: &Accumulator, step: &Step| {
                    step.scope == Scope::Vector && step.left * accumulator.width() == *distance
                };
                for (accumulator, _) in
                    steps.iter().filter(|(accumulator, steps)| steps.iter().any(|step| swapped(accumulator, step)))
                {
                    let own = Operand::Fixed(accumulator.register);
                    let from = if *code == ACROSS { vec![own, own] } else { vec![own] };
                    let high = l.vector(*code, &[from, vec![Operand::Immediate(*control)]].concat());
                    l.join_in(accumulator, accumulator.register, high);
                }
            }
            for (accumulator, noted) in accumulators.iter().zip(noted) {
                let code = VectorOp::StoreFirst(accumulator.parts() == 2);
                let place = Operand::Memory(MemoryRef::Slot(accumulator.result));
                let result = l.unless(noted, accumulator);
                l.store_at(code, place, result, Lanes::All);
            }
        }),
    ));
    all
}

impl WideX86<'_, '_> {
    /// Sets a reserved register.
    pub(super) fn set(&mut self, code: VectorOp, register: u32, from: &[Operand], lanes: Lanes) {
        let (to, over, from) = (None, None, from.to_vec());
        self.push(Plain { code, to, fixed: Some(register), over, from, lanes, clobbers_mask: false });
    }

    /// Merges lanes with others.
    pub(super) fn join(&mut self, fold: Fold, register: u32, x: Operand) {
        self.join_some(fold, register, x, Lanes::All);
    }

    /// Merges some lanes with others.
    fn join_some(&mut self, fold: Fold, register: u32, x: Operand, lanes: Lanes) {
        if let Some((code, _)) = binary(fold.primitive(), fold.dtype) {
            return self.set(code, register, &[Operand::Fixed(register), x], lanes);
        }
        let joined = self.one(fold.primitive(), fold.dtype, Operand::Fixed(register), x);
        self.set(copy(fold.dtype), register, &[joined], lanes);
    }

    /// Merges lanes with others. If NaN is recorded separately, the result may lose it.
    fn join_in(&mut self, accumulator: &Accumulator, register: u32, x: Operand) {
        if !accumulator.notes {
            return self.join(accumulator.fold, register, x);
        }
        let code = VectorOp::FRange(accumulator.parts() == 2);
        self.set(code, register, &[Operand::Fixed(register), x, extreme(accumulator.fold.primitive())], Lanes::All);
    }

    /// Accumulates elements into the lanes of a group.
    fn take_in_registers(&mut self, accumulator: &Accumulator, group: i32, elements: &Registers) {
        let first = accumulator.register + group.unsigned_abs() * accumulator.parts();
        for ((part, register), x) in (first..).enumerate().zip(elements) {
            match self.active_lanes(part, false) {
                Lanes::All => self.join_in(accumulator, register, *x),
                lanes => self.join_some(accumulator.fold, register, *x, lanes),
            }
        }
    }

    /// Rotates the lanes by a group: each moves to the registers of the group before, the first to
    /// the last.
    fn rotate(&mut self, accumulator: &Accumulator) {
        let (code, parts) = (copy(accumulator.fold.dtype), accumulator.parts());
        let firsts: Vec<Operand> =
            (0..parts).map(|part| self.vector(code, &[Operand::Fixed(accumulator.register + part)])).collect();
        let all = accumulator.register..accumulator.register + accumulator.registers();
        let moved = all.clone().skip(parts as usize).map(Operand::Fixed).chain(firsts);
        for (register, from) in all.zip(moved) {
            self.set(code, register, &[from], Lanes::All);
        }
    }

    /// The masks of the lanes in which two groups have numbers, restricted to other masks if given.
    fn ordered(&mut self, accumulator: &Accumulator, a: &Registers, b: &Registers, among: &Registers) -> Registers {
        let compare = VectorOp::FCompare(accumulator.parts() == 2);
        let both = |(part, (a, b)): (usize, (&Operand, &Operand))| {
            let lanes = match among.get(part).and_then(|mask| mask.register()) {
                Some(mask) => Lanes::Some { mask, zero: false },
                None => Lanes::All,
            };
            self.computes(Class::Mask, compare, None, &[*a, *b, Operand::Immediate(7)], lanes)
        };
        a.iter().zip(b).enumerate().map(both).collect()
    }

    /// Records NaN in the lanes outside some masks.
    fn note(&mut self, accumulator: &Accumulator, numbers: &Registers) {
        for numbers in numbers {
            let nan = self.mask(VectorOp::MaskNot, &[*numbers]);
            if let Some(mask) = nan.register() {
                let lanes = Lanes::Some { mask, zero: false };
                self.set(
                    copy(accumulator.fold.dtype),
                    accumulator.register + accumulator.registers(),
                    &[not_a_number(accumulator)],
                    lanes,
                );
            }
        }
    }

    /// The mask of the lanes with a NaN: recorded, or of elements of the remainder, which went to
    /// the first group.
    fn noted(&mut self, accumulator: &Accumulator) -> Option<Reg> {
        if !accumulator.notes {
            return None;
        }
        let compare = VectorOp::FCompare(accumulator.parts() == 2);
        let noted = Operand::Fixed(accumulator.register + accumulator.registers());
        let unordered = |l: &mut Self, part: u32| {
            l.mask(compare, &[Operand::Fixed(accumulator.register + part), noted, Operand::Immediate(3)])
        };
        let mut lanes = unordered(self, 0);
        for part in 1..accumulator.parts() {
            let others = unordered(self, part);
            lanes = self.mask(VectorOp::MaskOr, &[lanes, others]);
        }
        lanes.register()
    }

    /// The result: NaN if a lane has one.
    fn unless(&mut self, noted: Option<Reg>, accumulator: &Accumulator) -> Operand {
        let found = Operand::Fixed(accumulator.register);
        let Some(condition) = noted else { return found };
        let result = self.register(Class::Vector);
        let results = vec![(result, found, not_a_number(accumulator))];
        self.body.items.push(Item::Region(Region { condition, when: true, body: vec![], results }));
        Operand::Register(result)
    }

    /// Accumulates elements into their lanes in memory.
    fn take_in_memory(&mut self, accumulator: &Accumulator, elements: &Registers) {
        let wide = is_wide(accumulator.fold.dtype);
        let (width, code) = if wide { (8u32, VectorOp::Store(W64)) } else { (4, VectorOp::Store(W32)) };
        for (part, x) in elements.iter().enumerate() {
            let first = self.isa().bytes().cast_signed() * (accumulator.memory.cast_signed() + part as i32);
            let offset = first + self.offset * width.cast_signed();
            let lane = Operand::Memory(MemoryRef::Lane { offset, width });
            let old = self.vector(VectorOp::Load(W32), &[lane]);
            let joined = self.one(accumulator.fold.primitive(), accumulator.fold.dtype, old, *x);
            let mut new = joined;
            let mut lanes = self.active_lanes(part, false);
            if self.partial && self.isa() == Isa::Avx512 {
                // All lanes are stored, because a load cannot be forwarded from a masked store.
                new = self.computes(Class::Vector, copy(accumulator.fold.dtype), Some(old), &[joined], lanes);
                lanes = Lanes::All;
            }
            self.store_at(code, lane, new, lanes);
        }
    }

    /// Sets lanes to the identity.
    fn clear(&mut self, accumulator: &Accumulator, in_registers: bool) {
        use crate::cpu::leaf::LeafEmitter;
        let none = self.constant(accumulator.fold.identity())[0];
        for number in 0..accumulator.taken() {
            if in_registers {
                let from = if number == 0 { none } else { Operand::Fixed(accumulator.register) };
                self.set(copy(accumulator.fold.dtype), accumulator.register + number, &[from], Lanes::All);
            } else {
                let place = Operand::Memory(MemoryRef::Own((accumulator.memory + number) as usize));
                self.store_at(VectorOp::Store(W32), place, none, Lanes::All);
            }
        }
    }

    /// Stores lanes to memory.
    fn keep(&mut self, accumulator: &Accumulator) {
        for number in 0..accumulator.registers() {
            let place = Operand::Memory(MemoryRef::Own((accumulator.memory + number) as usize));
            let lanes = Operand::Fixed(accumulator.register + number);
            self.store_at(VectorOp::Store(W32), place, lanes, Lanes::All);
        }
    }

    /// Merges registers of lanes.
    fn merge_registers(&mut self, accumulator: &Accumulator, step: Step) {
        for (low, high) in step.pairs() {
            let [low, high] = [low, high].map(|k| accumulator.register + u32::try_from(k).expect("few registers"));
            self.join_in(accumulator, low, Operand::Fixed(high));
        }
    }

    /// Merges lanes in memory, `held` registers at a time.
    fn merge_in_memory(&mut self, accumulator: &Accumulator, held: u32, step: Step) {
        for (low, high) in step.pairs() {
            for number in 0..held as usize {
                let place = |k: usize| {
                    Operand::Memory(MemoryRef::Own(accumulator.memory as usize + k * held as usize + number))
                };
                let [a, b] = [low, high].map(|k| self.vector(VectorOp::Load(W32), &[place(k)]));
                let merged = self.one(accumulator.fold.primitive(), accumulator.fold.dtype, a, b);
                self.store_at(VectorOp::Store(W32), place(low), merged, Lanes::All);
            }
        }
    }

    /// Loads lanes from memory.
    fn load_lanes(&mut self, accumulator: &Accumulator) {
        for number in 0..accumulator.registers() {
            let from = Operand::Memory(MemoryRef::Own((accumulator.memory + number) as usize));
            self.set(VectorOp::Load(W32), accumulator.register + number, &[from], Lanes::All);
        }
    }
}

fn not_a_number(accumulator: &Accumulator) -> Operand {
    let wide = accumulator.parts() == 2;
    Operand::Splat(if wide { Splat::Bits64(f64::NAN.to_bits()) } else { Splat::Bits32(f32::NAN.to_bits()) })
}

fn copy(dtype: Dtype) -> VectorOp {
    VectorOp::Copy(is_wide(dtype))
}
