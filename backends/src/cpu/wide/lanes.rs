//! Writes leaves in vector operations, on groups of 16 elements. With AVX2 a group has 8; the
//! comments here speak of 16 lanes.
//!
//! A value of up to four bytes fills one register, one of eight bytes two. Integers of one and two
//! bytes are extended to 32-bit lanes, and 16-bit floats are packed as their bits. A `bool` is one
//! mask of 16 lanes, or two of 8 if it results from a comparison of eight-byte values.

use cranelift_codegen::entity::PrimaryMap;
use ir::leaf::Leaf;
use ir::sabotage::{self, Bug};
use ir::{BinaryOp, Dtype, Size};

use super::arguments::{Argument, Shared};
use super::inst::{Body, Class, Fma, Item, Lanes, Operand, Plain, Reg, Registers, Splat};
use super::neighbours::Loaded;
use super::op::{VectorOp, W64};
use super::{avx512, table};
use crate::cpu::emit::Emitter;
use crate::cpu::leaf::is_wide;
use crate::cpu::machine::Isa;

/// The code generator for one step of a leaf.
pub(super) struct WideX86<'l, 'a> {
    pub(super) e: &'l Emitter<'a>,
    pub(super) leaf: &'l Leaf,
    pub(super) shared: &'l mut Shared,
    pub(super) body: Body,
    /// The offset of the group from the current element.
    pub(super) offset: i32,
    /// Whether some lanes may be inactive.
    pub(super) partial: bool,
    /// Whether to use non-temporal stores.
    pub(super) non_temporal: bool,
    /// The vectors that the step has loaded for neighbouring accesses.
    pub(super) loaded: Option<&'l Loaded<'l>>,
}

impl<'l, 'a> WideX86<'l, 'a> {
    /// For whole steps, with an empty body.
    pub(super) fn new(e: &'l Emitter<'a>, leaf: &'l Leaf, shared: &'l mut Shared) -> WideX86<'l, 'a> {
        let body = Body { items: vec![], classes: PrimaryMap::new() };
        WideX86 { e, leaf, shared, body, offset: 0, partial: false, non_temporal: false, loaded: None }
    }

    pub(super) fn isa(&self) -> Isa {
        self.shared.isa
    }

    pub(super) fn register(&mut self, class: Class) -> Reg {
        self.body.classes.push(if self.isa() == Isa::Avx2 { Class::Vector } else { class })
    }

    pub(super) fn push(&mut self, plain: Plain<VectorOp>) {
        match self.isa() {
            Isa::Avx512 => self.body.items.push(Item::Plain(avx512::select(plain))),
            Isa::Avx2 => self.push_as_avx2(&plain),
        }
    }

    pub(super) fn computes(
        &mut self,
        class: Class,
        code: VectorOp,
        over: Option<Operand>,
        from: &[Operand],
        lanes: Lanes,
    ) -> Operand {
        let to = self.register(class);
        self.push(Plain { code, to: Some(to), over, fixed: None, from: from.to_vec(), lanes, clobbers_mask: false });
        Operand::Register(to)
    }

    /// Stores lanes of a register to memory.
    pub(super) fn store_at(&mut self, code: VectorOp, place: Operand, value: Operand, lanes: Lanes) {
        let (to, fixed, over, from) = (None, None, None, vec![place, value]);
        self.push(Plain { code, to, fixed, over, from, lanes, clobbers_mask: false });
    }

    /// Emits an instruction that computes a vector.
    pub(super) fn vector(&mut self, code: VectorOp, from: &[Operand]) -> Operand {
        self.computes(Class::Vector, code, None, from, Lanes::All)
    }

    /// Emits a masked instruction that keeps `others` in the other lanes.
    pub(super) fn merged(&mut self, code: VectorOp, mask: Operand, from: &[Operand], others: Operand) -> Operand {
        let Some(mask) = mask.register() else { return others };
        self.computes(Class::Vector, code, Some(others), from, Lanes::Some { mask, zero: false })
    }

    /// Emits a masked instruction that zeroes the other lanes.
    pub(super) fn zeroed(&mut self, code: VectorOp, mask: Operand, from: &[Operand]) -> Operand {
        let Some(mask) = mask.register() else { return mask };
        self.computes(Class::Vector, code, None, from, Lanes::Some { mask, zero: true })
    }

    /// Emits an instruction that computes a mask.
    pub(super) fn mask(&mut self, code: VectorOp, from: &[Operand]) -> Operand {
        self.computes(Class::Mask, code, None, from, Lanes::All)
    }

    /// Combines a `bool` into one mask.
    pub(super) fn whole(&mut self, v: &Registers) -> Operand {
        match v.as_slice() {
            [low, high] => self.mask(VectorOp::MaskJoin, &[*high, *low]),
            _ => v[0],
        }
    }

    /// Splits a `bool` into masks for values that fill this many registers.
    pub(super) fn masks(&mut self, v: &Registers, registers: usize) -> Registers {
        match (v.len(), registers) {
            (1, 2) if self.isa() == Isa::Avx2 => self.masks_of_halves(v[0]),
            (1, 2) => vec![v[0], self.mask(VectorOp::MaskShr, &[v[0], Operand::Immediate(8)])],
            (2, 1) => vec![self.whole(v)],
            _ => v.clone(),
        }
    }

    pub(super) fn each(&mut self, a: &Registers, mut op: impl FnMut(&mut Self, Operand) -> Operand) -> Registers {
        a.iter().map(|a| op(self, *a)).collect()
    }

    pub(super) fn each2(
        &mut self,
        a: &Registers,
        b: &Registers,
        mut op: impl FnMut(&mut Self, Operand, Operand) -> Operand,
    ) -> Registers {
        a.iter().zip(b).map(|(a, b)| op(self, *a, *b)).collect()
    }

    /// The active lanes of a part.
    pub(super) fn active_lanes(&self, part: usize, zero: bool) -> Lanes {
        if self.partial { Lanes::Active { upper: part == 1, zero } } else { Lanes::All }
    }

    /// Emits an operation on a single register.
    pub(super) fn one(&mut self, op: BinaryOp, dtype: Dtype, a: Operand, b: Operand) -> Operand {
        match table::binary(op, dtype) {
            None => self.extreme(op, is_wide(dtype), a, b),
            // Only the second operand can be a broadcast from memory.
            Some((code, true)) if matches!(a, Operand::Splat(_)) => self.vector(code, &[b, a]),
            Some((code, _)) => self.vector(code, &[a, b]),
        }
    }

    /// `a * b + c`, rounded once.
    pub(super) fn fused(&mut self, wide: bool, a: Operand, b: Operand, c: Operand) -> Operand {
        let to = self.register(Class::Vector);
        self.body.items.push(Item::Fma(Fma { to, wide, factors: [a, b], addend: c }));
        Operand::Register(to)
    }

    /// Minimum or maximum of floats: NaN if either is, and -0 below +0.
    pub(super) fn extreme(&mut self, op: BinaryOp, wide: bool, a: Operand, b: Operand) -> Operand {
        if self.isa() == Isa::Avx2 {
            return self.extreme_as_avx2(op, wide, a, b);
        }
        // `vrange` orders zeros by sign, but returns the other operand for a quiet NaN. So where an
        // operand is NaN, the sum replaces its result, which is NaN.
        let range = self.vector(VectorOp::FRange(wide), &[a, b, table::extreme(op)]);
        if sabotage::on(Bug::WideNan) {
            return range;
        }
        let unordered = self.mask(VectorOp::FCompare(wide), &[a, b, Operand::Immediate(3)]);
        self.merged(VectorOp::FAdd(wide), unordered, &[a, b], range)
    }

    /// Multiplies eight-byte integers by a size.
    pub(super) fn times(&mut self, v: Operand, size: &Size) -> Operand {
        match size.as_constant() {
            Some(1) => v,
            Some(c) => {
                let c = Operand::Splat(Splat::Bits64(c.cast_unsigned()));
                self.vector(VectorOp::Mul(W64), &[v, c])
            }
            None => {
                let slot = self.shared.slot(Argument::Size(size.clone()));
                let c = Operand::Splat(Splat::Slot64(slot));
                self.vector(VectorOp::Mul(W64), &[v, c])
            }
        }
    }

    /// Combines two registers of 8 lanes to one of 16 narrower ones.
    pub(super) fn joined(&mut self, parts: &[Operand]) -> Operand {
        self.vector(VectorOp::Join, &[parts[0], parts[1], Operand::Immediate(1)])
    }

    /// Splits a register of 16 lanes into halves.
    pub(super) fn halves(&mut self, v: Operand) -> Registers {
        match v {
            Operand::Splat(_) => vec![v, v],
            _ => {
                let upper = Operand::Immediate(u8::from(!sabotage::on(Bug::UpperHalf)));
                vec![v, self.vector(VectorOp::Half, &[v, upper])]
            }
        }
    }
}

/// Whether an access may use non-temporal stores.
pub(super) fn allows_non_temporal(e: &Emitter<'_>, leaf: &Leaf, access: usize) -> bool {
    let a = &leaf.accesses[access];
    e.wide.as_ref().is_some_and(|wide| wide.allows_non_temporal(a, e.buffer_dtype(a.buffer).bytes()))
}
