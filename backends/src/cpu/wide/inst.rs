//! Machine instructions over registers that are not chosen yet: what leaves become before registers are allocated.
//!
//! Operands stand as the instruction takes them, its result apart. A number that all lanes share is a [`Splat`]: whether
//! it rests in a register, is broadcast by the instruction that takes it, or is loaded before it, is not its user's business.

use cranelift_codegen::entity::{PrimaryMap, entity_impl};
use iced_x86::Code;

/// A register that is not chosen yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Reg(u32);
entity_impl!(Reg, "r");

/// What a register holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Vector,
    Mask,
}

/// Eight bytes that the caller hands over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(pub(super) u32);

/// A number in all lanes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Splat {
    Bits32(u32),
    Bits64(u64),
    /// The low four bytes of a slot.
    Slot32(Slot),
    Slot64(Slot),
}

impl Splat {
    pub(super) fn is_wide(self) -> bool {
        matches!(self, Splat::Bits64(_) | Splat::Slot64(_))
    }
}

/// Where something lies in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Element `offset` of an access that runs along memory, counted from the one at hand.
    Along {
        access: usize,
        offset: i32,
    },
    /// Element `offset` of the array of an access that steps by `step`, counted from the element at hand.
    Stepped {
        access: usize,
        step: i32,
        offset: i32,
    },
    /// The elements of an access by numbers in a register, counted from where it is at hand.
    Scattered {
        access: usize,
        offset: i32,
        numbers: Reg,
    },
    Slot(Slot),
    /// So many bytes behind the lane that the element at hand belongs to, of lanes of some width.
    Lane {
        offset: i32,
        width: u32,
    },
    /// A register's bytes of the function's own memory.
    Own(usize),
    /// A register's bytes of the pool of constants.
    Pool(usize),
}

/// What an instruction takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    Register(Reg),
    Splat(Splat),
    Memory(Place),
    Immediate(u8),
    /// The number of the element at hand, in a general register.
    Index,
    /// A vector register that is used for nothing else.
    Fixed(u32),
}

/// Which lanes an instruction concerns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lanes {
    All,
    /// Those that a mask has, and what becomes of the others: nothing, or zero.
    Some {
        mask: Reg,
        zero: bool,
    },
    /// Those that there are elements for: the lower half of eight bytes, or all of four; or the upper half.
    There {
        upper: bool,
        zero: bool,
    },
}

/// An instruction.
pub(super) struct Plain {
    pub(super) code: Code,
    pub(super) to: Option<Reg>,
    /// The register that the result goes to, if that is one used for nothing else.
    pub(super) fixed: Option<u32>,
    /// What the result's register holds before: for instructions that also read it.
    pub(super) over: Option<Operand>,
    pub(super) from: Vec<Operand>,
    pub(super) lanes: Lanes,
    /// Whether it leaves its mask empty.
    pub(super) spends_mask: bool,
}

/// `a * b + c`, whose three forms differ in which operand they overwrite.
pub(super) struct Fma {
    pub(super) to: Reg,
    pub(super) wide: bool,
    pub(super) factors: [Operand; 2],
    pub(super) addend: Operand,
}

/// Instructions that run if a lane needs them.
pub(super) struct Region {
    pub(super) condition: Reg,
    /// Needed where the condition has a lane that is this.
    pub(super) when: bool,
    pub(super) body: Vec<Item>,
    /// What it gives: the result, its value without the region, and with it.
    pub(super) results: Vec<(Reg, Operand, Operand)>,
}

pub(super) enum Item {
    Plain(Plain),
    Fma(Fma),
    Region(Region),
}

/// Straight-line code, but for its regions.
#[derive(Default)]
pub(super) struct Body {
    pub(super) items: Vec<Item>,
    pub(super) classes: PrimaryMap<Reg, Class>,
}

impl Body {
    /// Whether it takes lanes in memory.
    pub(super) fn has_lanes(&self) -> bool {
        let is_lane = |operand: &Operand| matches!(operand, Operand::Memory(Place::Lane { .. }));
        self.items.iter().any(|item| matches!(item, Item::Plain(plain) if plain.from.iter().any(is_lane)))
    }
}

/// The items of some bodies, of so many at a time in turn: a processor looks ahead only so far, and in one body most instructions
/// wait for the one before.
pub(super) fn interleave(bodies: Vec<Vec<Item>>, ways: usize) -> Vec<Item> {
    let mut all = vec![];
    let mut bodies = bodies.into_iter();
    loop {
        let mut some: Vec<_> = bodies.by_ref().take(ways).map(Vec::into_iter).collect();
        if some.is_empty() {
            return all;
        }
        let mut count = None;
        while count != Some(all.len()) {
            count = Some(all.len());
            all.extend(some.iter_mut().filter_map(Iterator::next));
        }
    }
}

impl Plain {
    /// Calls `visit` on each operand, what is overwritten too.
    pub(super) fn for_each_operand(&self, visit: &mut impl FnMut(Operand)) {
        self.over.iter().chain(&self.from).for_each(|operand| visit(*operand));
        if let Lanes::Some { mask, .. } = self.lanes {
            visit(Operand::Register(mask));
        }
    }
}

impl Operand {
    /// The register that it is or is addressed by.
    pub(super) fn register(self) -> Option<Reg> {
        match self {
            Operand::Register(reg) | Operand::Memory(Place::Scattered { numbers: reg, .. }) => Some(reg),
            _ => None,
        }
    }
}
