//! The faults of a running kernel, with their places.

use std::fmt;

use crate::types::Space;

/// The reason why a kernel was stopped: PTX leaves its behaviour undefined, or it was launched in a
/// way that it excludes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kernel's name.
    pub kernel: String,
    /// The line of the instruction in the module's text, or of the kernel if it did not get that
    /// far.
    pub line: u32,
    /// The thread that came to it.
    pub thread: Thread,
    /// The problem.
    pub what: Problem,
}

/// A thread of a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    /// `%ctaid`.
    pub block: [u32; 3],
    /// `%tid`.
    pub thread: [u32; 3],
}

/// A kind of fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// An access outside of every allocation and variable, or across the end of one.
    OutOfBounds {
        /// The space of the access.
        space: Space,
        /// Its first byte.
        address: u64,
    },
    /// An access with an address that is not a multiple of its size.
    Misaligned {
        /// The space of the access.
        space: Space,
        /// Its first byte.
        address: u64,
    },
    /// A read of a byte that nobody wrote.
    Uninitialised {
        /// The space of the access.
        space: Space,
        /// The byte.
        address: u64,
    },
    /// A write to memory that is constant.
    ReadOnly {
        /// The first byte.
        address: u64,
    },
    /// Two unordered accesses, at least one of them a write.
    Race {
        /// The space of both.
        space: Space,
        /// A byte of both.
        address: u64,
        /// The thread that was there before.
        other: Thread,
        /// The line of its access.
        line: u32,
    },
    /// Lanes that a mask names never reach the instruction, or a lane executes one with a mask that
    /// leaves it out.
    NotConverged {
        /// The mask.
        mask: u32,
        /// The lanes that came.
        came: u32,
    },
    /// A shuffle from a lane that takes no part in it.
    BadShuffle {
        /// That lane.
        from: u32,
    },
    /// Threads of a warp wait at different aligned barriers.
    BarrierDivergence,
    /// Some threads of a block wait at a barrier that counts a condition, some at one that does not.
    MixedBarriers,
    /// No thread can go on, or none has made progress for a very long time.
    Deadlock,
    /// Products are issued without a `wgmma.fence` since the last wait.
    ProductsNotFenced,
    /// Registers of a left factor changed before their products were waited for.
    FragmentChanged,
    /// A tile is multiplied that was written without a `fence.proxy.async` before the barrier.
    TileNotFenced {
        /// A byte of it.
        address: u64,
    },
    /// A tile changed before its products were waited for.
    TileChanged {
        /// A byte of it.
        address: u64,
    },
    /// A descriptor that differs between lanes, or of a layout that is not in the subset.
    BadDescriptor {
        /// The descriptor.
        descriptor: u64,
    },
    /// An arrival barrier that nobody has made.
    NoBarrier {
        /// Where it would be.
        address: u64,
    },
    /// More threads arrive at a barrier than a phase of it has.
    TooManyArrive {
        /// The barrier.
        address: u64,
    },
    /// A copy of a box from something that is no tensor map, or one of another number of
    /// dimensions.
    NoTensorMap {
        /// The generic address.
        address: u64,
    },
    /// The instruction `trap`.
    Trap,
    /// A register is read before it was written.
    UndefinedRegister,
    /// An integer is divided by zero.
    DivisionByZero,
    /// The module has no such kernel.
    UnknownKernel,
    /// The arguments and the parameters differ in length.
    Arguments {
        /// Bytes of the parameters.
        expected: u32,
        /// Bytes of the arguments.
        found: usize,
    },
    /// A shape that no device supports, or that contradicts the declaration of the kernel.
    Shape,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::OutOfBounds { space, address } => write!(f, "access outside of {space:?} memory at {address:#x}"),
            Problem::Misaligned { space, address } => {
                write!(f, "misaligned access to {space:?} memory at {address:#x}")
            }
            Problem::Uninitialised { space, address } => {
                write!(f, "read of {space:?} memory at {address:#x}, which nobody wrote")
            }
            Problem::ReadOnly { address } => write!(f, "write to constant memory at {address:#x}"),
            Problem::Race { space, address, other, line } => {
                write!(f, "race in {space:?} memory at {address:#x} with {other} on line {line}")
            }
            Problem::NotConverged { mask, came } => write!(f, "of lanes {mask:#010x} only {came:#010x} come"),
            Problem::BadShuffle { from } => write!(f, "shuffle from lane {from}, which takes no part"),
            Problem::MixedBarriers => f.write_str("a barrier with a condition meets one without"),
            Problem::BarrierDivergence => f.write_str("threads of a warp wait at different barriers"),
            Problem::Deadlock => f.write_str("no thread gets on"),
            Problem::ProductsNotFenced => f.write_str("products of registers without a fence before them"),
            Problem::FragmentChanged => f.write_str("a left factor changed before its products were waited for"),
            Problem::TileNotFenced { address } => {
                write!(f, "product of a tile at {address:#x}, which was written without a fence behind it")
            }
            Problem::TileChanged { address } => {
                write!(f, "the tile at {address:#x} changed before its products were waited for")
            }
            Problem::BadDescriptor { descriptor } => write!(f, "descriptor {descriptor:#018x}"),
            Problem::NoBarrier { address } => write!(f, "no arrival barrier at {address:#x}"),
            Problem::TooManyArrive { address } => {
                write!(f, "more threads than a phase has arrive at the barrier at {address:#x}")
            }
            Problem::NoTensorMap { address } => write!(f, "no tensor map at {address:#x}"),
            Problem::Trap => f.write_str("trap"),
            Problem::UndefinedRegister => f.write_str("read of a register that was not written"),
            Problem::DivisionByZero => f.write_str("integer division by zero"),
            Problem::UnknownKernel => f.write_str("no such kernel"),
            Problem::Arguments { expected, found } => {
                write!(f, "{found} bytes of arguments for {expected} of parameters")
            }
            Problem::Shape => f.write_str("a shape of launch that cannot be"),
        }
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {:?} of block {:?}", self.thread, self.block)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.kernel, self.line, self.thread, self.what)
    }
}

impl std::error::Error for Fault {}
