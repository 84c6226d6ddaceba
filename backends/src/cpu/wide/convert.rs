//! Conversions between types, with the same bits as the scalar operations. Conversions from floats
//! to integers saturate, and map NaN to 0.

use ir::{CompareOp, Dtype, Scalar};

use super::inst::{Operand, Registers, Splat};
use super::lanes::WideX86;
use super::op::{VectorOp, W32};
use crate::cpu::leaf::LeafEmitter;
use crate::cpu::leaf::is_wide;

const INT_TO_INT: [VectorOp; 3] = [VectorOp::SExtendWords, VectorOp::UExtendWords, VectorOp::ToWords];

impl WideX86<'_, '_> {
    /// Converts a value to another type.
    pub(super) fn convert(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        match (from, to) {
            _ if from == to => a.clone(),
            (Dtype::F16, _) => {
                let float = vec![self.vector(VectorOp::F16ToF32, a)];
                self.convert(Dtype::F32, to, &float)
            }
            (Dtype::Bf16, _) => {
                let wide = self.vector(VectorOp::UExtendHalfwords, a);
                let float = self.vector(VectorOp::Shl(W32), &[wide, Operand::Immediate(16)]);
                self.convert(Dtype::F32, to, &vec![float])
            }
            (_, Dtype::F16) => {
                let float = self.convert(from, Dtype::F32, a);
                vec![self.vector(VectorOp::F32ToF16, &[float[0], Operand::Immediate(0)])]
            }
            (_, Dtype::Bf16) => {
                let float = self.convert(from, Dtype::F32, a);
                vec![self.rounded_bf16(float[0])]
            }
            (Dtype::Bool, _) => {
                let registers = if is_wide(to) { 2 } else { 1 };
                let one = self.constant(Scalar::one(to))[0];
                let code = VectorOp::Keep(is_wide(to));
                let masks = self.masks(a, registers);
                masks.into_iter().map(|mask| self.zeroed(code, mask, &[one])).collect()
            }
            (_, Dtype::Bool) => {
                let zero = self.constant(Scalar::zero(from));
                self.compare(CompareOp::Ne, from, a, &zero)
            }
            (Dtype::F32, Dtype::F64) => self.widened(a, VectorOp::F32ToF64),
            (Dtype::F64, Dtype::F32) => self.narrowed(a, VectorOp::F64ToF32),
            (Dtype::F32 | Dtype::F64, _) => self.float_to_int(from, to, a),
            (_, Dtype::F32 | Dtype::F64) => self.int_to_float(from, to, a),
            _ => self.int_to_int(from, to, a),
        }
    }

    /// Converts 16 lanes to two registers of 8 wider ones.
    fn widened(&mut self, a: &Registers, code: VectorOp) -> Registers {
        let halves = self.halves(a[0]);
        halves.into_iter().map(|half| self.vector(code, &[half])).collect()
    }

    /// Converts two registers of 8 lanes to one of 16 narrower ones.
    fn narrowed(&mut self, a: &Registers, code: VectorOp) -> Registers {
        let parts: Registers = a.iter().map(|part| self.vector(code, &[*part])).collect();
        vec![self.joined(&parts)]
    }

    /// Rounds to nearest even, with integer arithmetic on the low half and the last remaining bit,
    /// because the instruction for it flushes denormals to zero.
    fn rounded_bf16(&mut self, v: Operand) -> Operand {
        let splat = |bits| Operand::Splat(Splat::Bits32(bits));
        let high = self.vector(VectorOp::UShr(W32), &[v, Operand::Immediate(16)]);
        let last = self.vector(VectorOp::And(W32), &[high, splat(1)]);
        let up = self.vector(VectorOp::Add(W32), &[v, last]);
        let up = self.vector(VectorOp::Add(W32), &[up, splat(0x7fff)]);
        let rounded = self.vector(VectorOp::UShr(W32), &[up, Operand::Immediate(16)]);
        let unordered = self.mask(VectorOp::FCompare(W32), &[v, v, Operand::Immediate(3)]);
        let quiet = self.merged(VectorOp::Or(W32), unordered, &[high, splat(0x40)], rounded);
        self.vector(VectorOp::ToHalfwords, &[quiet])
    }

    fn float_to_int(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        let zero = self.constant(Scalar::zero(from))[0];
        match to {
            Dtype::U32 | Dtype::U64 => {
                // Map negative numbers and NaN to zero: the instruction returns its second operand
                // for a NaN. The conversion maps numbers that are too large to all ones.
                let least: Registers =
                    a.iter().map(|a| self.vector(VectorOp::FMax(is_wide(from)), &[*a, zero])).collect();
                match (is_wide(from), is_wide(to)) {
                    (false, false) => vec![self.vector(VectorOp::F32ToU32, &least)],
                    (false, true) => self.widened(&least, VectorOp::F32ToU64),
                    (true, false) => self.narrowed(&least, VectorOp::F64ToU32),
                    (true, true) => least.iter().map(|v| self.vector(VectorOp::F64ToU64, &[*v])).collect(),
                }
            }
            _ => {
                let wide = is_wide(to);
                let whole = match (is_wide(from), wide) {
                    (false, false) => vec![self.vector(VectorOp::F32ToI32, a)],
                    (false, true) => self.widened(a, VectorOp::F32ToI64),
                    (true, false) => self.narrowed(a, VectorOp::F64ToI32),
                    (true, true) => a.iter().map(|v| self.vector(VectorOp::F64ToI64, &[*v])).collect(),
                };
                // The conversion returns the minimum for anything out of range, which is right for
                // numbers that are too small, but wrong for those that are too large and for NaN.
                let limit = match (from, wide) {
                    (Dtype::F32, false) => Scalar::F32(2_147_483_648.0),
                    (Dtype::F32, true) => Scalar::F32(9_223_372_036_854_775_808.0),
                    (_, false) => Scalar::F64(2_147_483_648.0),
                    (_, true) => Scalar::F64(9_223_372_036_854_775_808.0),
                };
                let limit = self.constant(limit);
                let limit = vec![limit[0]; a.len()];
                let above = self.compare(CompareOp::Ge, from, a, &limit);
                let number = self.compare(CompareOp::Eq, from, a, a);
                let above = self.masks(&above, whole.len());
                let number = self.masks(&number, whole.len());
                let greatest = if wide { Scalar::I64(i64::MAX) } else { Scalar::I32(i32::MAX) };
                let greatest = self.constant(greatest)[0];
                let code = VectorOp::Keep(wide);
                let mut parts = vec![];
                for ((whole, above), number) in whole.into_iter().zip(above).zip(number) {
                    let saturated = self.merged(code, above, &[greatest], whole);
                    parts.push(self.zeroed(code, number, &[saturated]));
                }
                match to.narrow_range() {
                    Some((least, most)) => self.clamped(&parts, least, most),
                    None => parts,
                }
            }
        }
    }

    fn clamped(&mut self, a: &Registers, least: i32, most: i32) -> Registers {
        let splat = |n: i32| Operand::Splat(Splat::Bits32(n.cast_unsigned()));
        let low = self.vector(VectorOp::SMax(W32), &[a[0], splat(least)]);
        vec![self.vector(VectorOp::SMin(W32), &[low, splat(most)])]
    }

    fn int_to_float(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        let unsigned = matches!(from, Dtype::U32 | Dtype::U64);
        match (is_wide(from), is_wide(to), unsigned) {
            (false, false, false) => vec![self.vector(VectorOp::I32ToF32, a)],
            (false, false, true) => vec![self.vector(VectorOp::U32ToF32, a)],
            (false, true, false) => self.widened(a, VectorOp::I32ToF64),
            (false, true, true) => self.widened(a, VectorOp::U32ToF64),
            (true, false, false) => self.narrowed(a, VectorOp::I64ToF32),
            (true, false, true) => self.narrowed(a, VectorOp::U64ToF32),
            (true, true, false) => a.iter().map(|v| self.vector(VectorOp::I64ToF64, &[*v])).collect(),
            (true, true, true) => a.iter().map(|v| self.vector(VectorOp::U64ToF64, &[*v])).collect(),
        }
    }

    fn int_to_int(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        let [signed, unsigned, narrow] = INT_TO_INT;
        let parts = match (is_wide(from), is_wide(to)) {
            (false, true) => return self.widened(a, if from == Dtype::U32 { unsigned } else { signed }),
            (true, false) => self.narrowed(a, narrow),
            _ => a.clone(),
        };
        match to.narrow_range() {
            Some((0, most)) => {
                vec![self.vector(VectorOp::And(W32), &[parts[0], Operand::Splat(Splat::Bits32(most.cast_unsigned()))])]
            }
            Some(_) => {
                let amount = Operand::Immediate(32 - 8 * to.bytes() as u8);
                let high = self.vector(VectorOp::Shl(W32), &[parts[0], amount]);
                vec![self.vector(VectorOp::SShr(W32), &[high, amount])]
            }
            None => parts,
        }
    }
}
