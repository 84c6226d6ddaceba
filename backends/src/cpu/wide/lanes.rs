//! Writes leaves in vector operations, on groups of 16 elements. With AVX2 a group has 8; the
//! comments here speak of 16 lanes.
//!
//! A value of up to four bytes fills one register, one of eight bytes two. Integers of one and two
//! bytes are extended to 32-bit lanes, and 16-bit floats are packed as their bits. A `bool` is one
//! mask of 16 lanes, or two of 8 if it results from a comparison of eight-byte values.

use cranelift_codegen::entity::PrimaryMap;
use ir::leaf::{Branch, Inst, Leaf, Nest, Steps};
use ir::nest::{Extent, IndexId, Op, ValueId};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

use super::avx512;
use super::divide::Divisor;
use super::inst::{Body, Class, Fma, Item, Lanes, MemoryRef, Operand, Plain, Reg, Region, Slot, Splat};
use super::machine::Isa;
use super::neighbours::Loaded;
use super::op::{VectorOp, W32, W64};
use super::{strided, table};
use crate::cpu::emit::Emitter;
use crate::cpu::lanes128::is_wide;
use crate::cpu::leaf::{Done, Emit, LeafEmitter};

/// The registers that hold a value for one group, or operands in memory instead.
pub(super) type Registers = Vec<Operand>;

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

    fn each(&mut self, a: &Registers, mut op: impl FnMut(&mut Self, Operand) -> Operand) -> Registers {
        a.iter().map(|a| op(self, *a)).collect()
    }

    fn each2(
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
    fn extreme(&mut self, op: BinaryOp, wide: bool, a: Operand, b: Operand) -> Operand {
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

/// The bits of a constant in a lane.
fn splat(value: Scalar) -> Splat {
    match value {
        Scalar::I8(v) => Splat::Bits32(i32::from(v).cast_unsigned()),
        Scalar::I16(v) => Splat::Bits32(i32::from(v).cast_unsigned()),
        _ if is_wide(value.dtype()) => Splat::Bits64(value.bits()),
        // Two copies, since 16-bit lanes are packed.
        Scalar::F16(_) | Scalar::Bf16(_) => Splat::Bits32((value.bits() as u32) << 16 | value.bits() as u32),
        _ => Splat::Bits32(value.bits() as u32),
    }
}

/// Whether an operation is supported.
pub(super) fn has(leaf: &Leaf, inst: &Inst, dtype: Dtype) -> bool {
    let of = |id: &ir::leaf::LeafId| leaf.values[*id].0;
    match inst {
        Inst::Constant(_) | Inst::Affine { .. } | Inst::Select(..) | Inst::Fma(..) => true,
        Inst::Uniform(_) | Inst::Unary(..) => !dtype.is_storage(),
        Inst::Load(access) => {
            let a = &leaf.accesses[*access];
            a.contiguous() || dtype.bytes() >= 4
        }
        Inst::Binary(BinaryOp::Rem, ..) => false,
        Inst::Binary(BinaryOp::Div, ..) => dtype.is_float(),
        Inst::Binary(op, ..) => {
            let bits = matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Min | BinaryOp::Max);
            !dtype.is_storage() && (dtype != Dtype::Bool || bits)
        }
        Inst::Compare(_, a, _) => !matches!(of(a), Dtype::F16 | Dtype::Bf16),
        Inst::Cast(a) => super::convert::has(of(a), dtype),
        Inst::Bitcast(a) => of(a).bytes() == dtype.bytes() && dtype.bytes() >= 4,
        Inst::Result => false,
    }
}

impl LeafEmitter for WideX86<'_, '_> {
    type Vector = Registers;

    fn constant(&mut self, value: Scalar) -> Registers {
        match value {
            Scalar::Bool(v) => {
                // A constant mask: any mask compared with itself.
                let code = if v { VectorOp::MaskXnor } else { VectorOp::MaskXor };
                let any = Operand::Memory(MemoryRef::Slot(self.shared.slot(Argument::Count)));
                let any = self.mask(VectorOp::MaskLoad, &[any]);
                vec![self.mask(code, &[any, any])]
            }
            _ => vec![Operand::Splat(splat(value)); if is_wide(value.dtype()) { 2 } else { 1 }],
        }
    }

    fn uniform(&mut self, dtype: Dtype, value: ValueId) -> Registers {
        if dtype == Dtype::Bool {
            let slot = self.shared.slot(Argument::Mask(value));
            return vec![self.mask(VectorOp::MaskLoad, &[Operand::Memory(MemoryRef::Slot(slot))])];
        }
        let slot = self.shared.slot(Argument::Value(value));
        if is_wide(dtype) {
            vec![Operand::Splat(Splat::Slot64(slot)); 2]
        } else {
            vec![Operand::Splat(Splat::Slot32(slot))]
        }
    }

    fn affine(&mut self, base: &Affine<IndexId>, coefficient: &Size) -> Registers {
        let first = self.shared.slot(Argument::Affine(base.clone(), coefficient.clone()));
        let first = Operand::Splat(Splat::Slot64(first));
        // coefficient * (current element + lane) + base, in 64 bits: the index may exceed 32.
        let here = self.vector(VectorOp::SplatIndex, &[Operand::Index]);
        let half = i64::from(self.isa().half());
        let mut parts = vec![];
        for part in 0..2 {
            let lanes = self.shared.numbers(half * part + i64::from(self.offset), 1);
            let number = self.vector(VectorOp::Add(W64), &[here, lanes]);
            let moved = self.times(number, coefficient);
            parts.push(self.vector(VectorOp::Add(W64), &[moved, first]));
        }
        parts
    }

    fn load(&mut self, access: usize, gathered: &[Registers]) -> Registers {
        if let Some(loaded) = self.neighbour(access) {
            return loaded;
        }
        let a = &self.leaf.accesses[access];
        let dtype = self.e.buffer_dtype(a.buffer);
        // AVX2 has no permutations of two vectors.
        let whole = !self.partial && self.isa() == Isa::Avx512;
        if let (Some(step), true, 4..) = (strided::step(a), whole, dtype.bytes()) {
            return self.strided(access, step, is_wide(dtype));
        }
        if !a.contiguous() {
            return self.gather(access, gathered, is_wide(dtype));
        }
        let along = |offset| Operand::Memory(MemoryRef::Along { access, offset });
        let here = along(self.offset);
        let lanes = self.active_lanes(0, true);
        let one = |l: &mut Self, code| vec![l.computes(Class::Vector, code, None, &[here], lanes)];
        match dtype {
            Dtype::Bool => {
                // `vptestmb` sets the mask where a byte is not 0.
                let bytes = self.computes(Class::Vector, VectorOp::LoadBytes, None, &[here], lanes);
                vec![self.mask(VectorOp::TestBytes, &[bytes, bytes])]
            }
            Dtype::I8 => one(self, VectorOp::SExtendBytes),
            Dtype::U8 => one(self, VectorOp::UExtendBytes),
            Dtype::I16 => one(self, VectorOp::SExtendHalfwords),
            Dtype::U16 => one(self, VectorOp::UExtendHalfwords),
            Dtype::F16 | Dtype::Bf16 => one(self, VectorOp::LoadHalfwords),
            Dtype::F32 | Dtype::I32 | Dtype::U32 => one(self, VectorOp::Load(W32)),
            Dtype::F64 | Dtype::I64 | Dtype::U64 => {
                let upper = self.active_lanes(1, true);
                let low = self.computes(Class::Vector, VectorOp::Load(W64), None, &[here], lanes);
                let second = along(self.offset + self.isa().half());
                let high = self.computes(Class::Vector, VectorOp::Load(W64), None, &[second], upper);
                vec![low, high]
            }
        }
    }

    fn store(&mut self, access: usize, gathered: &[Registers], value: &Registers) {
        let a = &self.leaf.accesses[access];
        let dtype = self.e.buffer_dtype(a.buffer);
        if !a.contiguous() {
            return self.scatter(access, gathered, is_wide(dtype), value);
        }
        let store = |l: &mut Self, code, part: usize, value| {
            let place = Operand::Memory(MemoryRef::Along { access, offset: l.offset + l.isa().half() * part as i32 });
            let lanes = l.active_lanes(part, false);
            l.store_at(code, place, value, lanes);
        };
        match dtype {
            Dtype::Bool => {
                let mask = self.whole(value);
                // A boolean in memory is a byte, 0 or 1.
                let ones = Operand::Splat(Splat::Bits32(0x0101_0101));
                let bytes = self.zeroed(VectorOp::LoadBytes, mask, &[ones]);
                store(self, VectorOp::StoreBytes, 0, bytes);
            }
            Dtype::I8 | Dtype::U8 => store(self, VectorOp::ToBytes, 0, value[0]),
            Dtype::I16 | Dtype::U16 => store(self, VectorOp::ToHalfwords, 0, value[0]),
            Dtype::F16 | Dtype::Bf16 => store(self, VectorOp::StoreHalfwords, 0, value[0]),
            _ => {
                let code = match (
                    self.non_temporal && super::allows_non_temporal(self.e, self.leaf, access),
                    is_wide(dtype),
                ) {
                    (true, _) => VectorOp::StoreNonTemporal,
                    (false, false) => VectorOp::Store(W32),
                    (false, true) => VectorOp::Store(W64),
                };
                for (part, value) in value.iter().enumerate() {
                    store(self, code, part, *value);
                }
            }
        }
    }

    fn unary(&mut self, op: UnaryOp, dtype: Dtype, a: &Registers) -> Registers {
        let wide = is_wide(dtype);
        let splat = |bits: u64| Operand::Splat(if wide { Splat::Bits64(bits) } else { Splat::Bits32(bits as u32) });
        let sign = if wide { 1 << 63 } else { 1 << 31 };
        // Bit 3 suppresses the exception for inexact results.
        let round = |mode: u8| Operand::Immediate(8 | mode);
        self.each(a, |l, a| match op {
            UnaryOp::Not if dtype == Dtype::Bool => l.mask(VectorOp::MaskNot, &[a]),
            UnaryOp::Not => l.vector(VectorOp::Xor(wide), &[a, splat(u64::MAX)]),
            UnaryOp::Neg if dtype.is_float() => l.vector(VectorOp::Xor(wide), &[a, splat(sign)]),
            UnaryOp::Neg => l.vector(VectorOp::Sub(wide), &[splat(0), a]),
            UnaryOp::Abs if dtype.is_float() => l.vector(VectorOp::And(wide), &[a, splat(!sign)]),
            UnaryOp::Abs if dtype.is_signed_int() => l.vector(VectorOp::Abs(wide), &[a]),
            UnaryOp::Abs => a,
            UnaryOp::Sqrt => l.vector(VectorOp::FSqrt(wide), &[a]),
            UnaryOp::Round => l.vector(VectorOp::FRound(wide), &[a, round(0)]),
            UnaryOp::Floor => l.vector(VectorOp::FRound(wide), &[a, round(1)]),
            UnaryOp::Ceil => l.vector(VectorOp::FRound(wide), &[a, round(2)]),
            UnaryOp::Trunc => l.vector(VectorOp::FRound(wide), &[a, round(3)]),
        })
    }

    fn binary(&mut self, op: BinaryOp, dtype: Dtype, a: &Registers, b: &Registers) -> Registers {
        if dtype == Dtype::Bool {
            let code = match op {
                BinaryOp::And | BinaryOp::Min => VectorOp::MaskAnd,
                BinaryOp::Xor => VectorOp::MaskXor,
                _ => VectorOp::MaskOr,
            };
            let (a, b) = (self.whole(a), self.whole(b));
            return vec![self.mask(code, &[a, b])];
        }
        if op == BinaryOp::Div
            && let Some(value) = self.divisor(b[0])
        {
            return self.quotients(dtype, a, value, b[0]);
        }
        self.each2(a, b, |l, a, b| l.one(op, dtype, a, b))
    }

    fn shift(&mut self, op: BinaryOp, dtype: Dtype, a: &Registers, amount: &Inst) -> Registers {
        let bits = 8 * dtype.bytes() as u64;
        match amount {
            Inst::Constant(amount) => {
                // Immediates have eight bits. A larger amount counts as 255, which gives 0 like
                // every amount of at least the width. Arithmetic shifts by the width minus 1 give
                // copies of the sign.
                let (code, most) = if op == BinaryOp::Shl {
                    (VectorOp::Shl(is_wide(dtype)), 255)
                } else if dtype.is_signed_int() {
                    (VectorOp::SShr(is_wide(dtype)), bits - 1)
                } else {
                    (VectorOp::UShr(is_wide(dtype)), 255)
                };
                let amount = Operand::Immediate(u8::try_from(amount.bits().min(most)).unwrap_or(u8::MAX));
                self.each(a, |l, a| l.vector(code, &[a, amount]))
            }
            Inst::Uniform(value) => {
                let amount = self.uniform(dtype, *value);
                self.binary(op, dtype, a, &amount)
            }
            _ => unreachable!("only uniform amounts come here"),
        }
    }

    fn compare(&mut self, op: CompareOp, dtype: Dtype, a: &Registers, b: &Registers) -> Registers {
        if dtype == Dtype::Bool {
            let (a, b) = (self.whole(a), self.whole(b));
            let not = |l: &mut Self, v| l.mask(VectorOp::MaskNot, &[v]);
            let (andn, or) = (VectorOp::MaskAndNot, VectorOp::MaskOr);
            return vec![match op {
                CompareOp::Eq => self.mask(VectorOp::MaskXnor, &[a, b]),
                CompareOp::Ne => self.mask(VectorOp::MaskXor, &[a, b]),
                CompareOp::Lt => self.mask(andn, &[a, b]),
                CompareOp::Gt => self.mask(andn, &[b, a]),
                CompareOp::Le => {
                    let not = not(self, a);
                    self.mask(or, &[not, b])
                }
                CompareOp::Ge => {
                    let not = not(self, b);
                    self.mask(or, &[a, not])
                }
            }];
        }
        let (code, predicate) = table::compare(op, dtype);
        self.each2(a, b, |l, a, b| l.mask(code, &[a, b, Operand::Immediate(predicate)]))
    }

    fn fma(&mut self, dtype: Dtype, a: &Registers, b: &Registers, c: &Registers) -> Registers {
        let wide = is_wide(dtype);
        a.iter().zip(b).zip(c).map(|((a, b), c)| self.fused(wide, *a, *b, *c)).collect()
    }

    fn select(&mut self, dtype: Dtype, c: &Registers, a: &Registers, b: &Registers) -> Registers {
        if dtype == Dtype::Bool {
            let (c, a, b) = (self.whole(c), self.whole(a), self.whole(b));
            let yes = self.mask(VectorOp::MaskAnd, &[c, a]);
            let no = self.mask(VectorOp::MaskAndNot, &[c, b]);
            return vec![self.mask(VectorOp::MaskOr, &[yes, no])];
        }
        let code = match dtype {
            Dtype::F16 | Dtype::Bf16 => VectorOp::BlendHalfwords,
            _ => VectorOp::Blend(is_wide(dtype)),
        };
        let masks = self.masks(c, a.len());
        let mut parts = vec![];
        for ((mask, a), b) in masks.iter().zip(a).zip(b) {
            let Some(mask) = mask.register() else { continue };
            let (a, b) = if sabotage::on(Bug::WideSelect) { (b, a) } else { (a, b) };
            parts.push(self.computes(Class::Vector, code, None, &[*b, *a], Lanes::Some { mask, zero: false }));
        }
        parts
    }

    fn cast(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        self.convert(from, to, a)
    }

    fn bitcast(&mut self, _: Dtype, _: Dtype, a: &Registers) -> Registers {
        a.clone()
    }

    fn bound(&mut self, op: BinaryOp, dtype: Dtype, a: &Registers, constant: Scalar) -> Registers {
        let wide = is_wide(dtype);
        let sign = 1u64 << (8 * dtype.bytes() - 1);
        let c = Operand::Splat(splat(constant));
        // min(x, -0) has the same problem with zeros, which an addition does not correct.
        if op == BinaryOp::Min && constant.bits() == sign {
            return self.each(a, |l, a| l.extreme(op, wide, a, c));
        }
        let code = if op == BinaryOp::Min { VectorOp::FMin(wide) } else { VectorOp::FMax(wide) };
        // The instruction returns its second operand if either is NaN and for two zeros of any
        // signs. That is only wrong for `max(-0, +0)`, and adding +0 corrects it.
        let chosen = self.each(a, |l, a| l.vector(code, &[c, a]));
        if op == BinaryOp::Max && constant.bits() == 0 {
            return self.each(&chosen, |l, v| l.vector(VectorOp::FAdd(wide), &[v, c]));
        }
        chosen
    }

    fn scalar(&mut self, _: ValueId, op: &Op) {
        debug_assert!(matches!(op, Op::Constant(_)), "other scalars of loops do not come here");
    }

    fn nest(&mut self, _: &Nest, _: &mut Done<Registers>) {
        unreachable!("no loops come here")
    }

    fn steps(&mut self, steps: &Steps, done: &mut Done<Registers>) {
        self.repeat(steps, done);
    }

    fn branch(&mut self, branch: &Branch, done: &mut Done<Registers>) {
        let (condition, when) = branch.condition;
        let condition = self.whole(&done.get(condition));
        let Some(condition) = condition.register() else { return };
        // Booleans get the form of a single mask in both cases, since both are moved to the same
        // register.
        let mut others = vec![];
        for (result, other) in &branch.results {
            let other = done.get(*other);
            let bool = self.leaf.values[*result].0 == Dtype::Bool;
            others.push(if bool { vec![self.whole(&other)] } else { other });
        }
        // Emit the branch's steps into an empty list, which becomes the region's body.
        let outer = std::mem::take(&mut self.body.items);
        self.leaf.emit_steps(&branch.steps, self, done);
        let mut results = vec![];
        for ((result, _), others) in branch.results.iter().zip(others) {
            let found = done.get(*result);
            let bool = self.leaf.values[*result].0 == Dtype::Bool;
            let found = if bool { vec![self.whole(&found)] } else { found };
            let mut registers = vec![];
            for (found, other) in found.into_iter().zip(others) {
                let to = self.register(if bool { Class::Mask } else { Class::Vector });
                results.push((to, other, found));
                registers.push(Operand::Register(to));
            }
            done.set(*result, registers);
        }
        let body = std::mem::replace(&mut self.body.items, outer);
        self.body.items.push(Item::Region(Region { condition, when, body, results }));
    }
}
