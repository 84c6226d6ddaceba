//! Machine instructions over virtual registers: the input of register allocation.
//!
//! Operands are in the order of the instruction, without the result. A number that is the same in
//! all lanes is a [`Splat`]. The allocator decides whether it is pinned in a register, broadcast by
//! the instruction that uses it, or loaded before.

use cranelift_codegen::entity::{PrimaryMap, entity_impl};
use iced_x86::Code;

/// A virtual register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Reg(u32);
entity_impl!(Reg, "r");

/// The class of a register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Vector,
    Mask,
}

/// An eight-byte slot that the caller fills, or that the function uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Slot(pub(super) u32);

/// A number that is broadcast to all lanes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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

/// A memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MemoryRef {
    /// Element `offset` of a contiguous access, relative to the current element.
    Along {
        access: usize,
        offset: i32,
    },
    /// Element `offset` of the array of an access with stride `step`, relative to the current
    /// element.
    Stepped {
        access: usize,
        step: i32,
        offset: i32,
    },
    /// Elements of an access by numbers in a vector register, relative to the current element.
    Scattered {
        access: usize,
        offset: i32,
        numbers: Reg,
    },
    Slot(Slot),
    /// An accumulator of a canonical lane in memory: `offset` bytes from the lane of the current
    /// element.
    Lane {
        offset: i32,
        width: u32,
    },
    /// A spill slot, or another vector in the function's own memory.
    Own(usize),
    /// A vector in the constant pool.
    Pool(usize),
}

/// An operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operand {
    Register(Reg),
    Splat(Splat),
    Memory(MemoryRef),
    Immediate(u8),
    /// The number of the current element, in a general-purpose register.
    Index,
    /// A reserved vector register.
    Fixed(u32),
}

/// The registers that hold a value for one group, or operands in memory instead.
pub(super) type Registers = Vec<Operand>;

/// The lanes that an instruction affects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lanes {
    All,
    /// The lanes of a mask. The others are zeroed or left unchanged.
    Some {
        mask: Reg,
        zero: bool,
    },
    /// The active lanes, those with an element: all lanes of four bytes, or one half of the lanes
    /// of eight.
    Active {
        upper: bool,
        zero: bool,
    },
}

/// An operation ([`VectorOp`](super::op::VectorOp)), or an instruction of the machine.
pub(super) struct Plain<C = Code> {
    pub(super) code: C,
    pub(super) to: Option<Reg>,
    /// The register of the result, if it is a reserved one.
    pub(super) fixed: Option<u32>,
    /// The previous content of the result's register, for instructions that also read it.
    pub(super) over: Option<Operand>,
    pub(super) from: Vec<Operand>,
    pub(super) lanes: Lanes,
    /// Whether the instruction clears its mask register, as gathers do.
    pub(super) clobbers_mask: bool,
}

/// `a * b + c`. The three forms of the instruction differ in the operand that they overwrite.
pub(super) struct Fma {
    pub(super) to: Reg,
    pub(super) wide: bool,
    pub(super) factors: [Operand; 2],
    pub(super) addend: Operand,
}

/// Instructions that are skipped if no lane needs them.
pub(super) struct Region {
    pub(super) condition: Reg,
    /// The region runs if the condition has a lane with this value.
    pub(super) when: bool,
    pub(super) body: Vec<Item>,
    /// The results, each with its value if the region is skipped and its value if it runs.
    pub(super) results: Vec<(Reg, Operand, Operand)>,
}

/// Instructions that repeat as long as a lane needs them.
pub(super) struct Repeat {
    /// The greatest number of steps, and where the function counts those that are left.
    pub(super) extent: Slot,
    pub(super) left: Slot,
    /// The address of the cancellation flag, if the run can be cancelled.
    pub(super) cancelled: Option<Slot>,
    /// The mask of the lanes that take the current step.
    pub(super) live: Carried,
    pub(super) state: Vec<Carried>,
    /// Computes the next value of `live`.
    pub(super) condition: Vec<Item>,
    /// Computes the next values of the state.
    pub(super) body: Vec<Item>,
}

/// A value in one register throughout a loop, which is assigned in each step.
pub(super) struct Carried {
    pub(super) register: Reg,
    pub(super) first: Operand,
    pub(super) next: Operand,
}

impl Repeat {
    pub(super) fn carried(&self) -> impl Iterator<Item = &Carried> {
        std::iter::once(&self.live).chain(&self.state)
    }
}

pub(super) enum Item {
    Plain(Plain),
    Fma(Fma),
    Region(Region),
    Repeat(Repeat),
}

/// Straight-line code with regions and loops.
#[derive(Default)]
pub(super) struct Body {
    pub(super) items: Vec<Item>,
    pub(super) classes: PrimaryMap<Reg, Class>,
}

impl Body {
    /// Whether the code accesses accumulators of lanes in memory.
    pub(super) fn has_lanes(&self) -> bool {
        let is_lane = |operand: &Operand| matches!(operand, Operand::Memory(MemoryRef::Lane { .. }));
        self.items.iter().any(|item| matches!(item, Item::Plain(plain) if plain.from.iter().any(is_lane)))
    }
}

/// Interleaves bodies, `ways` at a time, so that independent instructions are close together. The
/// out-of-order window of a processor is limited, and within one body most instructions depend on
/// the previous one.
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

impl<C> Plain<C> {
    /// Calls `visit` on each operand, including one that is overwritten.
    pub(super) fn for_each_operand(&self, visit: &mut impl FnMut(Operand)) {
        self.over.iter().chain(&self.from).for_each(|operand| visit(*operand));
        if let Lanes::Some { mask, .. } = self.lanes {
            visit(Operand::Register(mask));
        }
    }
}

impl Operand {
    /// The register of the operand, or the one that addresses it.
    pub(super) fn register(self) -> Option<Reg> {
        match self {
            Operand::Register(reg) | Operand::Memory(MemoryRef::Scattered { numbers: reg, .. }) => Some(reg),
            _ => None,
        }
    }
}
