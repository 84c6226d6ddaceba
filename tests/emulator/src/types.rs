//! The vocabulary that parsing and execution share: PTX's types, state spaces, rows of lanes and
//! the ids of registers.

/// One register of a warp: the bits of each lane, zero-extended.
pub(crate) type Row = [u64; LANES];

/// Threads of a warp.
pub(crate) const LANES: usize = 32;

/// A row of a warp's register file: a register, a constant or a special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg(pub(crate) u32);

/// A predicate register, or a constant predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pred(pub(crate) u32);

impl Reg {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl Pred {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A predicate as an operand: `%p` or `!%p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub(crate) pred: Pred,
    pub(crate) negated: bool,
}

/// The lanes of a mask, ascending.
pub(crate) fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// The mask of lanes for which something holds.
pub(crate) fn mask_of(mask: u32, holds: impl Fn(usize) -> bool) -> u32 {
    lanes(mask).filter(|lane| holds(*lane)).fold(0, |found, lane| found | 1 << lane)
}

/// A state space that an instruction can name and a fault can lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Memory of the device.
    Global,
    /// Memory of one block.
    Shared,
    /// That of any block of a cluster.
    Cluster,
    /// Memory of one thread.
    Local,
    /// Constants of the module.
    Constant,
}

/// A type of an operand. Packed pairs count as plain bits in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum Type { Pred, B8, B16, B32, B64, U8, U16, U32, U64, S8, S16, S32, S64, F16, Bf16, F16x2, Bf16x2, F32, F64 }

/// Families of types. Within a family, width alone decides whether an operand fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Pred,
    Bits,
    Unsigned,
    Signed,
    Float,
}

const TYPES: &[(&str, Type, u32, Class)] = &[
    ("pred", Type::Pred, 0, Class::Pred),
    ("b8", Type::B8, 1, Class::Bits),
    ("b16", Type::B16, 2, Class::Bits),
    ("b32", Type::B32, 4, Class::Bits),
    ("b64", Type::B64, 8, Class::Bits),
    ("u8", Type::U8, 1, Class::Unsigned),
    ("u16", Type::U16, 2, Class::Unsigned),
    ("u32", Type::U32, 4, Class::Unsigned),
    ("u64", Type::U64, 8, Class::Unsigned),
    ("s8", Type::S8, 1, Class::Signed),
    ("s16", Type::S16, 2, Class::Signed),
    ("s32", Type::S32, 4, Class::Signed),
    ("s64", Type::S64, 8, Class::Signed),
    ("f16", Type::F16, 2, Class::Float),
    ("bf16", Type::Bf16, 2, Class::Float),
    ("f16x2", Type::F16x2, 4, Class::Float),
    ("bf16x2", Type::Bf16x2, 4, Class::Float),
    ("f32", Type::F32, 4, Class::Float),
    ("f64", Type::F64, 8, Class::Float),
];

impl Type {
    /// The type that text writes so.
    pub(crate) fn named(name: &str) -> Option<Type> {
        TYPES.iter().find(|(n, ..)| *n == name).map(|(_, ty, ..)| *ty)
    }

    pub(crate) fn name(self) -> &'static str {
        TYPES[self as usize].0
    }

    /// Bytes in memory; a predicate has none.
    pub(crate) fn bytes(self) -> u32 {
        TYPES[self as usize].2
    }

    pub(crate) fn bits(self) -> u32 {
        8 * self.bytes()
    }

    pub(crate) fn class(self) -> Class {
        TYPES[self as usize].3
    }

    pub(crate) fn signed(self) -> bool {
        self.class() == Class::Signed
    }

    pub(crate) fn integer(self) -> bool {
        matches!(self.class(), Class::Unsigned | Class::Signed)
    }

    /// The bits that a register of this type holds.
    pub(crate) fn mask(self) -> u64 {
        mask(self.bits())
    }

    /// Whether an instruction of this type accepts a register of type `register`: it has the same
    /// width, and a float is not mixed with another float type or an integer.
    pub(crate) fn takes(self, register: Type) -> bool {
        let (a, b) = (self.class(), register.class());
        let kinds = a == b || a == Class::Bits || b == Class::Bits || self.integer() && register.integer();
        self.bytes() == register.bytes() && kinds && (a != Class::Float || b != Class::Float || self == register)
    }
}

/// A mask of the `bits` low bits.
pub(crate) fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::{TYPES, Type};

    #[test]
    fn types_stand_where_their_numbers_say() {
        for (index, (name, ty, ..)) in TYPES.iter().enumerate() {
            assert_eq!(*ty as usize, index, "{name}");
            assert_eq!(Type::named(name), Some(*ty));
        }
    }
}
