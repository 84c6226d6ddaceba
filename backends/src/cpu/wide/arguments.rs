//! The arguments of a leaf's function, and other uses of its slots and of its constant pool.

use ir::nest::{Extent, IndexId, ValueId};
use ir::{Affine, Size};

use super::inst::{MemoryRef, Operand, Slot};
use crate::cpu::machine::Isa;

/// An argument of a leaf's function, or another use of a slot.
#[derive(Clone, PartialEq)]
pub(super) enum Argument {
    /// The number of elements.
    Count,
    /// The address of an access at the first element.
    Address(usize),
    /// The stride of an access in bytes.
    Stride(usize),
    /// The value of a scalar.
    Value(ValueId),
    /// A `bool`, as a mask of all lanes.
    Mask(ValueId),
    /// An affine expression at the first element. Also holds its coefficient of the leaf's index.
    Affine(Affine<IndexId>, Size),
    Size(Size),
    /// The number of elements to peel until the non-temporal stores are aligned; negative if they
    /// are not to be used.
    Peel,
    /// The prefetch distance of an access in bytes, 0 for none.
    Distance(usize),
    /// A value precomputed from a scalar divisor.
    Divisor(ValueId, Divisor),
    /// The greatest number of steps of a loop.
    Steps(Extent),
    /// The address of the cancellation flag.
    Cancelled,
    /// Not passed in: a slot where the function counts the steps that a loop has left.
    StepsLeft(IndexId),
    /// Not passed in: a slot where the function keeps the number of active lanes.
    ActiveLanes,
    /// Not passed in: a slot where the function stores a result.
    Result(usize),
}

/// The values precomputed from a divisor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Divisor {
    /// The rounded reciprocal.
    Reciprocal,
    /// Its error, approximately.
    Rest,
    Negated,
    /// The size of the range of safe dividends, as the bits of magnitudes times two; 0 if the
    /// divisor is not safe.
    Span,
}

/// The state shared by all versions of a leaf's body.
pub(super) struct Shared {
    pub(super) isa: Isa,
    pub(super) arguments: Vec<Argument>,
    pub(super) vectors: Vec<[u8; 64]>,
    /// Whether an instruction was needed that the machine does not have.
    pub(super) failed: bool,
}

impl Shared {
    pub(super) fn new(isa: Isa) -> Shared {
        Shared { isa, arguments: vec![], vectors: vec![], failed: false }
    }

    pub(super) fn slot(&mut self, argument: Argument) -> Slot {
        let found = self.arguments.iter().position(|known| *known == argument);
        let number = found.unwrap_or_else(|| {
            self.arguments.push(argument);
            self.arguments.len() - 1
        });
        Slot(u32::try_from(number).expect("few slots"))
    }

    pub(super) fn vector(&mut self, bytes: [u8; 64]) -> Operand {
        let found = self.vectors.iter().position(|known| *known == bytes);
        Operand::Memory(MemoryRef::Pool(found.unwrap_or_else(|| {
            self.vectors.push(bytes);
            self.vectors.len() - 1
        })))
    }

    /// A vector of the integers `first`, `first + step` and so on, of eight bytes each.
    pub(super) fn numbers(&mut self, first: i64, step: i64) -> Operand {
        let mut bytes = [0; 64];
        for (lane, bytes) in bytes.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&first.wrapping_add(step.wrapping_mul(lane as i64)).to_le_bytes());
        }
        self.vector(bytes)
    }
}
