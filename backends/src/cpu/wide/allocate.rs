//! Register allocation for straight-line code in a single pass. A value occupies a register from
//! its definition until its last use. If no register is free, the value with the furthest next use
//! is spilled (Belady, 1966). Each value is defined once, so it is stored at most once.
//!
//! A region that can be skipped begins and ends with the same values in the same registers. Its
//! results get their registers before it begins, initialized with their values for the case that it
//! is skipped. A step of a loop does so too; the values that the loop carries have their registers
//! throughout it.

use cranelift_codegen::entity::SecondaryMap;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assemble::{ACTIVE, Assembler, Chosen, Condition, SPARE};
use super::check::{self, Contents, Event};
use super::constants::{PinnedConstants, broadcast};
use super::inst::{Body, Class, Fma, Item, Lanes, MemoryRef, Operand, Plain, Reg, Region, Repeat, Splat};
use super::liveness::{Uses, for_each_operand};
use super::table;
use crate::cpu::machine::{Form, Isa};

/// The mask registers to allocate. `k0` cannot be used as a mask, and two hold the active lanes.
const MASKS: std::ops::Range<u32> = 3..8;

impl Class {
    /// A register of the class by its number.
    fn chosen(self, number: u32) -> Chosen {
        match self {
            Class::Vector => Chosen::Vector(number),
            Class::Mask => Chosen::Mask(number),
        }
    }
}

/// The content of a register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    Value(Reg),
    /// A temporary of the current instruction.
    Taken,
    /// A pinned number, or a register that is not available.
    Kept,
}

/// The locations of values.
#[derive(Clone)]
struct State {
    vectors: [Holds; 32],
    masks: [Holds; 8],
    register: SecondaryMap<Reg, Option<u32>>,
    /// Whether its spill slot holds the value.
    saved: SecondaryMap<Reg, bool>,
}

/// The state of the allocator.
struct Allocator<'a, 'b> {
    asm: &'a mut Assembler,
    constants: &'a PinnedConstants,
    body: &'b Body,
    uses: Uses,
    state: State,
    spill: SecondaryMap<Reg, Option<usize>>,
    at: usize,
    /// The emitted code, for the checker.
    events: Vec<Event<'b>>,
    /// The values that the current instruction uses, which must not be spilled.
    pinned: Vec<Reg>,
}

/// Whether each allocation is checked.
const CHECKS: bool = cfg!(debug_assertions);

/// Allocates registers for a body and encodes it.
pub(super) fn assemble(asm: &mut Assembler, constants: &PinnedConstants, body: &Body) {
    let events = events(asm, constants, body);
    if CHECKS && !asm.has_failed() {
        let checked = Contents::at_beginning(body, constants).follow(&events);
        assert_eq!(checked, Ok(()), "each operand is where it is read");
    }
}

/// The same, without a check. Returns what the checker needs.
pub(super) fn events<'b>(asm: &mut Assembler, constants: &PinnedConstants, body: &'b Body) -> Vec<Event<'b>> {
    let mut state =
        State { vectors: [Holds::Nothing; 32], masks: [Holds::Kept; 8], register: of_all(body), saved: of_all(body) };
    MASKS.for_each(|mask| state.masks[mask as usize] = Holds::Nothing);
    (asm.isa.vectors()..32).for_each(|register| state.vectors[register as usize] = Holds::Kept);
    (0..constants.fixed).for_each(|register| state.vectors[register as usize] = Holds::Kept);
    constants.splats.iter().for_each(|(_, register)| state.vectors[*register as usize] = Holds::Kept);
    let uses = Uses::of(body);
    let mut allocator =
        Allocator { asm, constants, body, uses, state, spill: of_all(body), at: 0, events: vec![], pinned: vec![] };
    allocator.items(&body.items);
    allocator.events
}

/// A map with an entry for each value of a body.
fn of_all<T: Clone + Default>(body: &Body) -> SecondaryMap<Reg, T> {
    let mut map = SecondaryMap::new();
    map.resize(body.classes.len());
    map
}

impl<'b> Allocator<'_, 'b> {
    /// Records emitted code.
    fn note(&mut self, event: impl FnOnce() -> Event<'b>) {
        if CHECKS {
            self.events.push(event());
        }
    }

    /// Copies from one place to another, or loads a number.
    fn copies(&mut self, code: Code, to: Chosen, from: Chosen) {
        self.asm.vector(code, &[to, from], None);
        self.note(|| Event::Move { to, from });
    }

    fn items(&mut self, items: &'b [Item]) {
        for item in items {
            self.pinned.clear();
            for_each_operand(item, &mut |operand| self.pinned.extend(operand.register()));
            match item {
                Item::Plain(plain) => self.plain(plain),
                Item::Fma(fma) => self.fma(fma),
                Item::Region(region) => {
                    self.region(region);
                    continue;
                }
                Item::Repeat(repeat) => {
                    self.repeat(repeat);
                    continue;
                }
            }
            self.at += 1;
        }
    }

    fn class(&self, reg: Reg) -> Class {
        self.body.classes[reg]
    }

    fn file(&mut self, class: Class) -> &mut [Holds] {
        match class {
            Class::Vector => &mut self.state.vectors,
            Class::Mask => &mut self.state.masks,
        }
    }

    /// Finds a free register of a class, or frees one by spilling.
    fn free(&mut self, class: Class) -> u32 {
        let file = self.file(class);
        // If none is free, evict the value whose next use is furthest away (Belady's rule): it is
        // optimal in straight-line code if all reloads cost the same.
        let found = file.iter().position(|holds| *holds == Holds::Nothing);
        let number = found.unwrap_or_else(|| {
            // Positions of uses are greater than 0, so (0, 0) means that nothing was found.
            let mut furthest = (0, 0);
            for (number, holds) in self.state_of(class).iter().enumerate() {
                let Holds::Value(reg) = *holds else { continue };
                if !self.pinned.contains(&reg) {
                    let next = self.uses.next(reg, self.at).unwrap_or(usize::MAX);
                    furthest = furthest.max((next, number));
                }
            }
            if furthest == (0, 0) {
                self.asm.give_up("an instruction needs more registers than there are");
            }
            self.evict(class, furthest.1);
            furthest.1
        });
        self.file(class)[number] = Holds::Taken;
        number as u32
    }

    fn state_of(&self, class: Class) -> &[Holds] {
        match class {
            Class::Vector => &self.state.vectors,
            Class::Mask => &self.state.masks,
        }
    }

    fn evict(&mut self, class: Class, number: usize) {
        let Holds::Value(reg) = self.state_of(class)[number] else { return };
        // A value is defined once, so that its spill slot stays valid after a reload.
        if !self.state.saved[reg] {
            let spill = self.spill_of(reg);
            let code = match class {
                Class::Vector => self.asm.isa.moves().store,
                Class::Mask => Code::VEX_Kmovw_m16_kr,
            };
            self.copies(code, Chosen::Spill(spill), class.chosen(number as u32));
            self.state.saved[reg] = true;
        }
        self.state.register[reg] = None;
        self.file(class)[number] = Holds::Nothing;
    }

    fn spill_of(&mut self, reg: Reg) -> usize {
        if let Some(spill) = self.spill[reg] {
            return spill;
        }
        let spill = self.asm.spills;
        self.asm.spills += 1;
        self.spill[reg] = Some(spill);
        spill
    }

    fn reload(&mut self, reg: Reg, number: u32) {
        let spill = self.spill_of(reg);
        let code = match self.class(reg) {
            Class::Vector => self.asm.isa.moves().load,
            Class::Mask => Code::VEX_Kmovw_kr_km16,
        };
        self.copies(code, self.class(reg).chosen(number), Chosen::Spill(spill));
    }

    /// The register of a value, reloaded if it was spilled.
    fn have(&mut self, reg: Reg) -> u32 {
        if let Some(number) = self.state.register[reg] {
            return number;
        }
        let number = self.free(self.class(reg));
        self.reload(reg, number);
        self.hold(reg, number);
        number
    }

    fn hold(&mut self, reg: Reg, number: u32) {
        let class = self.class(reg);
        self.file(class)[number as usize] = Holds::Value(reg);
        self.state.register[reg] = Some(number);
    }

    /// Whether the current instruction is the last use of a value.
    fn dies(&self, reg: Reg) -> bool {
        self.uses.places(reg).last().is_none_or(|last| *last <= self.at)
    }

    fn release(&mut self, reg: Reg) {
        if let Some(number) = self.state.register[reg].take() {
            let class = self.class(reg);
            self.file(class)[number as usize] = Holds::Nothing;
        }
    }

    fn release_pinned(&mut self) {
        for k in 0..self.pinned.len() {
            if self.dies(self.pinned[k]) {
                self.release(self.pinned[k]);
            }
        }
        self.pinned.clear();
    }

    /// A number in a register. If it is not pinned, it is loaded for the current instruction and
    /// added to `loaded`.
    fn splat(&mut self, splat: Splat, loaded: &mut Vec<u32>) -> u32 {
        self.constants.find(splat).unwrap_or_else(|| {
            let number = self.free(Class::Vector);
            self.broadcasts(splat, number);
            loaded.push(number);
            number
        })
    }

    fn broadcasts(&mut self, splat: Splat, number: u32) {
        broadcast(self.asm, splat, number);
        self.note(|| Event::Move { to: Chosen::Vector(number), from: Chosen::Broadcast(splat) });
    }

    /// The assigned form of an operand. `folds` says whether the instruction can take it from
    /// memory.
    fn operand(&mut self, operand: Operand, folds: bool, loaded: &mut Vec<u32>) -> Chosen {
        match operand {
            Operand::Register(reg) => self.class(reg).chosen(self.have(reg)),
            Operand::Immediate(value) => Chosen::Immediate(value),
            Operand::Index => Chosen::Index,
            Operand::Fixed(register) => Chosen::Vector(register),
            Operand::Memory(place) => {
                let numbers = if let MemoryRef::Scattered { numbers, .. } = place { self.have(numbers) } else { 0 };
                Chosen::Memory(place, numbers)
            }
            Operand::Splat(splat) => match self.constants.find(splat) {
                None if folds && self.folds(splat) => Chosen::Broadcast(splat),
                _ => Chosen::Vector(self.splat(splat, loaded)),
            },
        }
    }

    /// A register with a copy of an operand, for an instruction that overwrites it. Reuses the
    /// operand's register if this is its last use.
    fn copy(&mut self, operand: Operand) -> u32 {
        match operand {
            Operand::Register(reg) => {
                let from = self.have(reg);
                let class = self.class(reg);
                // In x * x, the other operand still needs the register.
                let once = self.pinned.iter().filter(|pinned| **pinned == reg).count() == 1;
                if once && self.dies(reg) {
                    self.state.register[reg] = None;
                    self.pinned.retain(|pinned| *pinned != reg);
                    self.file(class)[from as usize] = Holds::Taken;
                    return from;
                }
                let number = self.free(class);
                let code = match class {
                    Class::Vector => self.asm.isa.moves().copy,
                    Class::Mask => Code::VEX_Kmovw_kr_km16,
                };
                self.copies(code, class.chosen(number), class.chosen(from));
                number
            }
            Operand::Splat(splat) => {
                let number = self.free(Class::Vector);
                match self.constants.find(splat) {
                    Some(from) => {
                        self.copies(self.asm.isa.moves().copy, Chosen::Vector(number), Chosen::Vector(from));
                    }
                    None => self.broadcasts(splat, number),
                }
                number
            }
            Operand::Memory(_) | Operand::Immediate(_) | Operand::Index | Operand::Fixed(_) => {
                let number = self.free(Class::Vector);
                let mut loaded = vec![];
                let from = self.operand(operand, false, &mut loaded);
                self.copies(self.asm.isa.moves().load, Chosen::Vector(number), from);
                number
            }
        }
    }

    /// Whether an instruction can read the number from memory. Without embedded broadcasts, memory
    /// must hold a copy for each lane.
    fn folds(&self, splat: Splat) -> bool {
        self.asm.isa == Isa::Avx512 || matches!(splat, Splat::Bits32(_) | Splat::Bits64(_))
    }

    /// A masked load or store of 16 bytes.
    fn in_part(&mut self, plain: &'b Plain) {
        let mut loaded = vec![];
        let number = match (plain.to, plain.from.get(1)) {
            (Some(_), None) => Some(self.free(Class::Vector)),
            (None, Some(value)) => match self.operand(*value, false, &mut loaded) {
                Chosen::Vector(number) => Some(number),
                _ => None,
            },
            _ => None,
        };
        match (number, plain.from.first()) {
            (Some(number), Some(Operand::Memory(MemoryRef::Along { access, offset }))) => {
                self.asm.in_part(plain.code, *access, *offset, number);
                self.note(|| {
                    let place = Chosen::Memory(MemoryRef::Along { access: *access, offset: *offset }, 0);
                    let (to, from) = match (plain.to, Chosen::Vector(number)) {
                        (Some(_), register) => (Some(register), vec![place]),
                        (None, register) => (None, vec![place, register]),
                    };
                    Event::Plain { plain, to, from, mask: None }
                });
                plain.to.iter().for_each(|to| self.hold(*to, number));
            }
            _ => self.asm.give_up("only what lies along memory is moved in part"),
        }
        self.pinned.extend(plain.to);
        self.release_pinned();
        loaded.into_iter().for_each(|number| self.state.vectors[number as usize] = Holds::Nothing);
    }

    fn plain(&mut self, plain: &'b Plain) {
        if self.asm.isa == Isa::Avx2 && matches!(plain.lanes, Lanes::Active { .. }) {
            return self.in_part(plain);
        }
        let mut loaded = vec![];
        // The two-operand form of x86: the instruction overwrites its first operand.
        let over = plain.over.map(|over| self.copy(over));
        let rm = table::from_memory(plain.code, &plain.from);
        let can = table::folds(plain.code);
        // Leave room for the result, which comes first.
        let mut operands: Vec<Chosen> = Vec::with_capacity(plain.from.len() + 1);
        for (k, operand) in plain.from.iter().enumerate() {
            operands.push(self.operand(*operand, can && Some(k) == rm, &mut loaded));
        }
        // A gather clears its mask, so it gets a copy.
        let (mask, spent) = match plain.lanes {
            Lanes::All => (None, None),
            Lanes::Active { upper, zero } if plain.clobbers_mask => {
                let number = self.free(Class::Mask);
                let active = ACTIVE[usize::from(upper)] as u32 - Register::K0 as u32;
                self.copies(Code::VEX_Kmovw_kr_km16, Chosen::Mask(number), Chosen::Mask(active));
                (Some((Register::K0 + number, zero)), Some(number))
            }
            Lanes::Active { upper, zero } => (Some((ACTIVE[usize::from(upper)], zero)), None),
            Lanes::Some { mask, zero } => (Some((Register::K0 + self.have(mask), zero)), None),
        };
        // A gather must not write to a register that it reads from, so its operands stay allocated.
        if !plain.clobbers_mask {
            self.release_pinned();
            loaded.drain(..).for_each(|number| self.state.vectors[number as usize] = Holds::Nothing);
        }
        if let Some(to) = plain.to {
            let class = self.class(to);
            let number = over.unwrap_or_else(|| self.free(class));
            operands.insert(0, class.chosen(number));
            self.asm.vector(plain.code, &operands, mask);
            self.note_plain(plain, operands, mask);
            self.hold(to, number);
            if self.dies(to) {
                self.release(to);
            }
        } else {
            plain.fixed.iter().for_each(|register| operands.insert(0, Chosen::Vector(*register)));
            self.asm.vector(plain.code, &operands, mask);
            self.note_plain(plain, operands, mask);
        }
        self.release_pinned();
        loaded.into_iter().for_each(|number| self.state.vectors[number as usize] = Holds::Nothing);
        if let Some(number) = spent {
            self.state.masks[number as usize] = Holds::Nothing;
        }
    }

    fn note_plain(&mut self, plain: &'b Plain, mut operands: Vec<Chosen>, mask: Option<(Register, bool)>) {
        self.note(|| {
            if plain.to.is_none() && plain.fixed.is_some() {
                operands.remove(0);
            }
            let to = plain.to.map(|_| operands.remove(0));
            let mask = mask.map(|(mask, _)| check::number(mask));
            Event::Plain { plain, to, from: operands, mask }
        });
    }

    fn fma(&mut self, fma: &'b Fma) {
        let Fma { to, wide, factors: [a, b], addend: c } = *fma;
        let dies = |operand: Operand| matches!(operand, Operand::Register(reg) if self.dies(reg));
        let splat = |operand: Operand| matches!(operand, Operand::Splat(_));
        // Prefer to overwrite a value that dies here, and to leave a number for the operand that
        // can be in memory.
        let options = [
            (a, b, c, Form::F213),
            (b, a, c, Form::F213),
            (a, c, b, Form::F132),
            (b, c, a, Form::F132),
            (c, a, b, Form::F231),
            (c, b, a, Form::F231),
        ];
        let cost = |(over, middle, last, _): &(Operand, Operand, Operand, Form)| {
            usize::from(!dies(*over) || over == middle || over == last) * 2
                + usize::from(splat(*middle))
                + usize::from(splat(*over))
        };
        let (over, middle, last, form) = options.into_iter().min_by_key(cost).unwrap_or(options[0]);
        let number = self.copy(over);
        let mut loaded = vec![];
        let middle = self.operand(middle, false, &mut loaded);
        let last = self.operand(last, true, &mut loaded);
        let operands = [Chosen::Vector(number), middle, last];
        self.asm.vector(form.code(self.asm.isa, wide), &operands, None);
        self.note(|| Event::Fma { fma, form, operands });
        self.hold(to, number);
        if self.dies(to) {
            self.release(to);
        }
        self.release_pinned();
        loaded.into_iter().for_each(|number| self.state.vectors[number as usize] = Holds::Nothing);
    }

    fn region(&mut self, region: &'b Region) {
        let condition = self.have(region.condition);
        // Initialize the results with their values for the case that the region is skipped.
        let mut registers = vec![];
        for (result, without, _) in &region.results {
            let number = self.copy(*without);
            let class = self.class(*result);
            self.file(class)[number as usize] = Holds::Kept;
            registers.push(number);
            self.state.register[*result] = Some(number);
        }
        let end = self.asm.label();
        self.test(condition);
        self.asm.jump(if region.when { Condition::None } else { Condition::All }, end);
        self.release_pinned();
        // If the region is skipped, its spills and reloads do not happen. So at its end, all values
        // must be where they are here. Values that it spills for the first time are not valid in
        // their slots on the other path, so `saved` is restored as well.
        let before = self.state.clone();
        self.at += 1;
        let around = std::mem::take(&mut self.events);
        self.items(&region.body);
        for ((result, _, with), number) in region.results.iter().zip(&registers) {
            self.assign(*result, *number, *with);
        }
        self.restore(before);
        let body = std::mem::replace(&mut self.events, around);
        self.note(|| Event::Region { region, condition, registers: registers.clone(), body });
        self.asm.place(end);
        for ((result, ..), number) in region.results.iter().zip(registers) {
            self.hold(*result, number);
            if self.dies(*result) {
                self.release(*result);
            }
        }
        self.at += 1;
    }

    /// Tests a mask of all lanes for a jump if no lane, or every lane, is set.
    fn test(&mut self, mask: u32) {
        let (test, operands) = match self.asm.isa {
            Isa::Avx512 => (Code::VEX_Kortestw_kr_kr, [Chosen::Mask(mask); 2]),
            Isa::Avx2 => {
                let ones = Chosen::Broadcast(Splat::Bits32(u32::MAX));
                (Code::VEX_Vptest_ymm_ymmm256, [Chosen::Vector(mask), ones])
            }
        };
        self.asm.vector(test, &operands, None);
    }

    /// Moves an operand to the register that holds a value.
    fn assign(&mut self, value: Reg, number: u32, from: Operand) {
        self.pinned = from.register().into_iter().collect();
        let mut loaded = vec![];
        let from = self.operand(from, false, &mut loaded);
        let code = match self.class(value) {
            Class::Vector => self.asm.isa.moves().load,
            Class::Mask => Code::VEX_Kmovw_kr_km16,
        };
        self.copies(code, self.class(value).chosen(number), from);
        loaded.into_iter().for_each(|number| self.state.vectors[number as usize] = Holds::Nothing);
    }

    fn repeat(&mut self, repeat: &'b Repeat) {
        let mut registers = vec![];
        for carried in repeat.carried() {
            let number = self.copy(carried.first);
            let class = self.class(carried.register);
            self.file(class)[number as usize] = Holds::Kept;
            registers.push(number);
            self.state.register[carried.register] = Some(number);
        }
        self.release_pinned();
        let (again, end) = (self.asm.label(), self.asm.label());
        self.asm.load_slot(SPARE, repeat.extent);
        self.asm.general(Instruction::with2(Code::Mov_rm64_r64, Assembler::slot(repeat.left), SPARE));
        self.asm.general(Instruction::with2(Code::Cmp_rm64_imm8, Assembler::slot(repeat.left), 0));
        self.asm.jump(Condition::LessOrEqual, end);
        // Every step begins, and every exit leaves, with all values where they are here.
        let before = self.state.clone();
        self.at += 1;
        self.asm.align();
        self.asm.place(again);
        if let Some(cancelled) = repeat.cancelled {
            self.asm.load_slot(SPARE, cancelled);
            let flag = MemoryOperand::with_base(SPARE);
            self.asm.general(Instruction::with2(Code::Cmp_rm8_imm8, flag, 0));
            self.asm.jump(Condition::NotEqual, end);
        }
        let around = std::mem::take(&mut self.events);
        self.items(&repeat.condition);
        self.assign(repeat.live.register, registers[0], repeat.live.next);
        self.restore(before.clone());
        let condition = std::mem::take(&mut self.events);
        self.at += 1;
        self.test(registers[0]);
        self.asm.jump(Condition::None, end);
        self.items(&repeat.body);
        for (carried, number) in repeat.state.iter().zip(&registers[1..]) {
            self.assign(carried.register, *number, carried.next);
        }
        self.restore(before);
        let body = std::mem::replace(&mut self.events, around);
        self.note(|| Event::Repeat { repeat, registers: registers.clone(), condition, body });
        self.at += 1;
        self.asm.general(Instruction::with2(Code::Add_rm64_imm32, Assembler::slot(repeat.left), -1));
        self.asm.jump(Condition::NotEqual, again);
        self.asm.place(end);
        for (carried, number) in repeat.carried().zip(registers) {
            self.hold(carried.register, number);
        }
        self.release_dead();
        self.at += 1;
    }

    /// Restores the locations of all live values to those before a region or a step.
    fn restore(&mut self, before: State) {
        for class in [Class::Vector, Class::Mask] {
            let holds: Vec<Holds> = match class {
                Class::Vector => before.vectors.to_vec(),
                Class::Mask => before.masks.to_vec(),
            };
            for (number, holds) in holds.into_iter().enumerate() {
                let Holds::Value(reg) = holds else { continue };
                if self.dies(reg) {
                    continue;
                }
                if self.state.register[reg] != Some(number as u32) {
                    // If it is in another register now, it was spilled in the meantime, so its slot
                    // is valid.
                    self.reload(reg, number as u32);
                }
            }
        }
        self.state = before;
        self.release_dead();
    }

    fn release_dead(&mut self) {
        let all: Vec<Reg> = self.body.classes.keys().collect();
        for reg in all {
            if self.state.register[reg].is_some() && self.dies(reg) {
                self.release(reg);
            }
        }
    }
}
