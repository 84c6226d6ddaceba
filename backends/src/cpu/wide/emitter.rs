//! The operations of leaves in vector operations.

use ir::leaf::{Branch, Inst, Nest, Steps};
use ir::nest::{IndexId, Op, ValueId};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

use super::arguments::Argument;
use super::inst::{Class, Item, Lanes, MemoryRef, Operand, Region, Registers, Splat};
use super::lanes::{WideX86, allows_non_temporal};
use super::op::{VectorOp, W32, W64};
use super::{loads, table};
use crate::cpu::leaf::is_wide;
use crate::cpu::leaf::{Done, Emit, LeafEmitter};
use crate::cpu::machine::Isa;

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
        if let (Some(step), true, 4..) = (loads::step(a), whole, dtype.bytes()) {
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
                let code = match (self.non_temporal && allows_non_temporal(self.e, self.leaf, access), is_wide(dtype)) {
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
