//! Checks register allocation: each instruction finds the values that it asks for. The allocator
//! writes down where it reads and writes, and the checker follows the contents of all registers and
//! spill slots through that, without a look at the allocator's own books. (The idea is that of the
//! checker of regalloc2, by Fallin.)
//!
//! Where two paths meet, a place has the contents that it has on both. A loop is followed until the
//! contents at its beginning stay the same.

use std::collections::BTreeMap;

use cranelift_codegen::entity::PrimaryMap;
use iced_x86::Register;

use super::assemble::{ACTIVE, Chosen};
use super::constants::PinnedConstants;
use super::inst::{Body, Class, Fma, Lanes, MemoryRef, Operand, Plain, Reg, Region, Repeat};
use crate::cpu::machine::Form;

/// A step of the allocator.
pub(super) enum Event<'b> {
    /// Copied the content of one place to another, or loaded a number.
    Move { to: Chosen, from: Chosen },
    /// Emitted an instruction, with its mask.
    Plain { plain: &'b Plain, to: Option<Chosen>, from: Vec<Chosen>, mask: Option<u32> },
    /// Emitted a multiply-add: the operand that it overwrites, and the others.
    Fma { fma: &'b Fma, form: Form, operands: [Chosen; 3] },
    /// Emitted a region, with the register of its condition and those of its results.
    Region { region: &'b Region, condition: u32, registers: Vec<u32>, body: Vec<Event<'b>> },
    /// Emitted a loop, with the registers of the values that it carries.
    Repeat { repeat: &'b Repeat, registers: Vec<u32>, condition: Vec<Event<'b>>, body: Vec<Event<'b>> },
}

/// Something that a place may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Of(Operand),
    /// The active lanes, or the upper half of them.
    Active(bool),
}

/// A register or a spill slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Location {
    Vector(u32),
    Mask(u32),
    Spill(usize),
}

impl Location {
    fn of(chosen: Chosen) -> Option<Location> {
        match chosen {
            Chosen::Vector(number) => Some(Location::Vector(number)),
            Chosen::Mask(number) => Some(Location::Mask(number)),
            Chosen::Spill(number) => Some(Location::Spill(number)),
            Chosen::Memory(..) | Chosen::Broadcast(_) | Chosen::Immediate(_) | Chosen::Index => None,
        }
    }
}

/// The contents of places.
#[derive(Clone)]
pub(super) struct Contents<'b> {
    classes: &'b PrimaryMap<Reg, Class>,
    places: BTreeMap<Location, Vec<Content>>,
}

type Result = std::result::Result<(), String>;

impl<'b> Contents<'b> {
    /// At the beginning of a body: pinned numbers are in their registers, and the masks of active
    /// lanes in theirs.
    pub(super) fn at_beginning(body: &'b Body, constants: &PinnedConstants) -> Contents<'b> {
        let numbers = constants.splats.iter();
        let numbers =
            numbers.map(|(number, register)| (Location::Vector(*register), vec![Content::Of(Operand::Splat(*number))]));
        let masks = [false, true].into_iter().zip(ACTIVE);
        let masks = masks.map(|(upper, mask)| (Location::Mask(number(mask)), vec![Content::Active(upper)]));
        Contents { classes: &body.classes, places: numbers.chain(masks).collect() }
    }

    /// Follows some events.
    ///
    /// # Errors
    /// An operand that is not where the allocator reads it.
    pub(super) fn follow(&mut self, events: &[Event<'_>]) -> Result {
        for event in events {
            match event {
                Event::Move { to, from } => self.moves(*to, *from)?,
                Event::Plain { plain, to, from, mask } => self.plain(plain, *to, from, *mask)?,
                Event::Fma { fma, form, operands } => self.fma(fma, *form, *operands)?,
                Event::Region { region, condition, registers, body } => {
                    self.region(region, *condition, registers, body)?;
                }
                Event::Repeat { repeat, registers, condition, body } => {
                    self.repeat(repeat, registers, condition, body)?;
                }
            }
        }
        Ok(())
    }

    fn moves(&mut self, to: Chosen, from: Chosen) -> Result {
        let content = match (from, Location::of(from)) {
            (_, Some(place)) => self.places.get(&place).cloned().unwrap_or_default(),
            (Chosen::Broadcast(splat), None) => vec![Content::Of(Operand::Splat(splat))],
            (Chosen::Memory(memory, numbers), None) => {
                self.holds_numbers(memory, numbers)?;
                vec![Content::Of(Operand::Memory(memory))]
            }
            (Chosen::Immediate(value), None) => vec![Content::Of(Operand::Immediate(value))],
            (Chosen::Index | Chosen::Vector(_) | Chosen::Mask(_) | Chosen::Spill(_), None) => {
                vec![Content::Of(Operand::Index)]
            }
        };
        let place = Location::of(to).ok_or("a move to nowhere")?;
        self.places.insert(place, content);
        Ok(())
    }

    fn has(&self, place: Location, content: Content) -> Result {
        let found = self.places.get(&place).map_or(&[][..], Vec::as_slice);
        if found.contains(&content) {
            return Ok(());
        }
        Err(format!("{place:?} should hold {content:?} and holds {found:?}"))
    }

    /// Whether an operand is where it is read.
    fn reads(&self, operand: Operand, chosen: Chosen) -> Result {
        match (operand, chosen) {
            (Operand::Fixed(register), Chosen::Vector(number)) if register == number => Ok(()),
            (Operand::Immediate(value), Chosen::Immediate(other)) if value == other => Ok(()),
            (Operand::Index, Chosen::Index) => Ok(()),
            (Operand::Splat(splat), Chosen::Broadcast(other)) if splat == other => Ok(()),
            (Operand::Memory(memory), Chosen::Memory(other, numbers)) if memory == other => {
                self.holds_numbers(memory, numbers)
            }
            (_, chosen) => match Location::of(chosen) {
                Some(place) => self.has(place, Content::Of(operand)),
                None => Err(format!("{operand:?} is read from elsewhere")),
            },
        }
    }

    /// Whether the numbers of elements are in a register.
    fn holds_numbers(&self, memory: MemoryRef, register: u32) -> Result {
        let MemoryRef::Scattered { numbers, .. } = memory else { return Ok(()) };
        self.has(Location::Vector(register), Content::Of(Operand::Register(numbers)))
    }

    fn writes(&mut self, to: Chosen, reg: Reg) {
        if let Some(place) = Location::of(to) {
            self.places.insert(place, vec![Content::Of(Operand::Register(reg))]);
        }
    }

    fn plain(&mut self, plain: &Plain, to: Option<Chosen>, from: &[Chosen], mask: Option<u32>) -> Result {
        if plain.from.len() != from.len() {
            return Err("an instruction with another number of operands".to_owned());
        }
        plain.from.iter().zip(from).try_for_each(|(operand, chosen)| self.reads(*operand, *chosen))?;
        match (plain.lanes, mask.map(Location::Mask)) {
            (Lanes::All, None) => {}
            (Lanes::Some { mask, .. }, Some(place)) => self.has(place, Content::Of(Operand::Register(mask)))?,
            (Lanes::Active { upper, .. }, Some(place)) => self.has(place, Content::Active(upper))?,
            // Lanes that no mask register holds are moved in part.
            (Lanes::Active { .. }, None) => {}
            (Lanes::All, Some(_)) | (Lanes::Some { .. }, None) => return Err("other lanes".to_owned()),
        }
        if let (Some(over), Some(to)) = (plain.over, to) {
            self.overwrites(over, to)?;
        }
        if plain.clobbers_mask {
            // A gather writes to its result while it still reads its mask and its numbers.
            let numbers =
                |chosen: &Chosen| matches!((chosen, to), (Chosen::Memory(_, n), Some(Chosen::Vector(to))) if *n == to);
            if from.iter().any(numbers) {
                return Err("a gather overwrites the numbers that it reads".to_owned());
            }
            mask.into_iter().for_each(|mask| _ = self.places.remove(&Location::Mask(mask)));
        }
        match (plain.to, to, plain.fixed) {
            (Some(reg), Some(to), _) => self.writes(to, reg),
            (None, None, Some(fixed)) => _ = self.places.remove(&Location::Vector(fixed)),
            (None, None, None) => {}
            _ => return Err("a result in no place".to_owned()),
        }
        Ok(())
    }

    /// Whether an operand is in a place that an instruction overwrites.
    fn holds(&self, operand: Operand, place: Location) -> Result {
        // The content of a reserved register is not followed.
        if matches!(operand, Operand::Fixed(_)) { Ok(()) } else { self.has(place, Content::Of(operand)) }
    }

    fn overwrites(&self, operand: Operand, chosen: Chosen) -> Result {
        self.holds(operand, Location::of(chosen).ok_or("an overwritten operand in no place")?)
    }

    fn fma(&mut self, fma: &Fma, form: Form, [over, middle, last]: [Chosen; 3]) -> Result {
        let ([a, b], addend) = match form {
            Form::F213 => ([over, middle], last),
            Form::F132 => ([over, last], middle),
            Form::F231 => ([middle, last], over),
        };
        let [x, y] = fma.factors;
        let is_over = |chosen: Chosen| Location::of(chosen).is_some() && Location::of(chosen) == Location::of(over);
        let reads = |operand, chosen| {
            if is_over(chosen) { self.overwrites(operand, chosen) } else { self.reads(operand, chosen) }
        };
        reads(x, a).and_then(|()| reads(y, b)).or_else(|_| reads(x, b).and_then(|()| reads(y, a)))?;
        reads(fma.addend, addend)?;
        self.writes(over, fma.to);
        Ok(())
    }

    /// The place of a value that keeps a register of this number.
    fn place(&self, reg: Reg, number: u32) -> Location {
        match self.classes[reg] {
            Class::Vector => Location::Vector(number),
            Class::Mask => Location::Mask(number),
        }
    }

    /// From now on the values are what their registers hold, which has to be the operands.
    fn define(&mut self, values: &[(Reg, Operand)], registers: &[u32]) -> Result {
        let mut places = vec![];
        for ((reg, operand), number) in values.iter().zip(registers) {
            let place = self.place(*reg, *number);
            self.holds(*operand, place)?;
            places.push((*reg, place));
        }
        for content in self.places.values_mut() {
            content.retain(|c| !values.iter().any(|(reg, _)| *c == Content::Of(Operand::Register(*reg))));
        }
        for (reg, place) in places {
            self.places.entry(place).or_default().push(Content::Of(Operand::Register(reg)));
        }
        Ok(())
    }

    fn region(&mut self, region: &Region, condition: u32, registers: &[u32], body: &[Event<'_>]) -> Result {
        self.holds(Operand::Register(region.condition), self.place(region.condition, condition))?;
        let mut skipped = self.clone();
        let without: Vec<_> = region.results.iter().map(|(reg, without, _)| (*reg, *without)).collect();
        skipped.define(&without, registers)?;
        self.follow(body)?;
        let with: Vec<_> = region.results.iter().map(|(reg, _, with)| (*reg, *with)).collect();
        self.define(&with, registers)?;
        self.meet(&skipped);
        Ok(())
    }

    fn repeat(&mut self, repeat: &Repeat, registers: &[u32], condition: &[Event<'_>], body: &[Event<'_>]) -> Result {
        let first: Vec<_> = repeat.carried().map(|carried| (carried.register, carried.first)).collect();
        self.define(&first, registers)?;
        let mut begin = self.clone();
        let next: Vec<_> = repeat.state.iter().map(|carried| (carried.register, carried.next)).collect();
        loop {
            let mut step = begin.clone();
            step.follow(condition)?;
            step.define(&[(repeat.live.register, repeat.live.next)], &registers[..1])?;
            let left = step.clone();
            step.follow(body)?;
            step.define(&next, &registers[1..])?;
            let before = begin.clone();
            begin.meet(&step);
            if begin.places == before.places {
                self.meet(&begin);
                self.meet(&left);
                return Ok(());
            }
        }
    }

    /// Keeps what both have.
    fn meet(&mut self, other: &Contents) {
        for (place, content) in &mut self.places {
            let others = other.places.get(place).map_or(&[][..], Vec::as_slice);
            content.retain(|c| others.contains(c));
        }
        self.places.retain(|_, content| !content.is_empty());
    }
}

/// The number of a mask register.
pub(super) fn number(mask: Register) -> u32 {
    mask as u32 - Register::K0 as u32
}
