//! Conversions between types, with the same bits as the scalar operations. Conversions from floats
//! to integers saturate, and map NaN to 0.

use iced_x86::Code;
use ir::{CompareOp, Dtype, Scalar};

use super::inst::{Operand, Splat};
use super::lanes::{Registers, WideX86};
use super::table;
use crate::cpu::lanes128::is_wide;
use crate::cpu::leaf::LeafEmitter;

/// Whether a conversion is supported. Conversions to 16-bit floats are only supported from types
/// that convert to `f32` exactly, because others would round twice.
pub(super) fn has(from: Dtype, to: Dtype) -> bool {
    match to {
        _ if from == to => true,
        Dtype::F16 | Dtype::Bf16 => from.is_storage() || matches!(from, Dtype::F32 | Dtype::Bool),
        _ => true,
    }
}

const INT_TO_INT: [Code; 3] =
    [Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256, Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256, Code::EVEX_Vpmovqd_ymmm256_k1z_zmm];

impl WideX86<'_, '_> {
    /// Converts a value to another type.
    pub(super) fn convert(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        match (from, to) {
            _ if from == to => a.clone(),
            (Dtype::F16, _) => {
                let float = vec![self.vector(Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, a)];
                self.convert(Dtype::F32, to, &float)
            }
            (Dtype::Bf16, _) => {
                let wide = self.vector(Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, a);
                let float = self.vector(table::int(false).shl, &[wide, Operand::Immediate(16)]);
                self.convert(Dtype::F32, to, &vec![float])
            }
            (_, Dtype::F16) => {
                let float = self.convert(from, Dtype::F32, a);
                vec![self.vector(Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae, &[float[0], Operand::Immediate(0)])]
            }
            (_, Dtype::Bf16) => {
                let float = self.convert(from, Dtype::F32, a);
                vec![self.rounded_bf16(float[0])]
            }
            (Dtype::Bool, _) => {
                let registers = if is_wide(to) { 2 } else { 1 };
                let one = self.constant(Scalar::one(to))[0];
                let code = if is_wide(to) {
                    Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512
                } else {
                    Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512
                };
                let masks = self.masks(a, registers);
                masks.into_iter().map(|mask| self.zeroed(code, mask, &[one])).collect()
            }
            (_, Dtype::Bool) => {
                let zero = self.constant(Scalar::zero(from));
                self.compare(CompareOp::Ne, from, a, &zero)
            }
            (Dtype::F32, Dtype::F64) => self.widened(a, Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae),
            (Dtype::F64, Dtype::F32) => self.narrowed(a, Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er),
            (Dtype::F32 | Dtype::F64, _) => self.float_to_int(from, to, a),
            (_, Dtype::F32 | Dtype::F64) => self.int_to_float(from, to, a),
            _ => self.int_to_int(from, to, a),
        }
    }

    /// Converts 16 lanes to two registers of 8 wider ones.
    fn widened(&mut self, a: &Registers, code: Code) -> Registers {
        let halves = self.halves(a[0]);
        halves.into_iter().map(|half| self.vector(code, &[half])).collect()
    }

    /// Converts two registers of 8 lanes to one of 16 narrower ones.
    fn narrowed(&mut self, a: &Registers, code: Code) -> Registers {
        let parts: Registers = a.iter().map(|part| self.vector(code, &[*part])).collect();
        vec![self.joined(&parts)]
    }

    /// Rounds to nearest even, with integer arithmetic on the low half and the last remaining bit,
    /// because the instruction for it flushes denormals to zero.
    fn rounded_bf16(&mut self, v: Operand) -> Operand {
        let t = table::int(false);
        let splat = |bits| Operand::Splat(Splat::Bits32(bits));
        let high = self.vector(t.shr, &[v, Operand::Immediate(16)]);
        let last = self.vector(t.and, &[high, splat(1)]);
        let up = self.vector(t.add, &[v, last]);
        let up = self.vector(t.add, &[up, splat(0x7fff)]);
        let rounded = self.vector(t.shr, &[up, Operand::Immediate(16)]);
        let unordered = self.mask(table::float(false).compare, &[v, v, Operand::Immediate(3)]);
        let quiet = self.merged(t.or, unordered, &[high, splat(0x40)], rounded);
        self.vector(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, &[quiet])
    }

    fn float_to_int(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        let f = table::float(is_wide(from));
        let zero = self.constant(Scalar::zero(from))[0];
        match to {
            Dtype::U32 | Dtype::U64 => {
                // Map negative numbers and NaN to zero: the instruction returns its second operand
                // for a NaN. The conversion maps numbers that are too large to all ones.
                let least: Registers = a.iter().map(|a| self.vector(f.max, &[*a, zero])).collect();
                match (is_wide(from), is_wide(to)) {
                    (false, false) => vec![self.vector(Code::EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae, &least)],
                    (false, true) => self.widened(&least, Code::EVEX_Vcvttps2uqq_zmm_k1z_ymmm256b32_sae),
                    (true, false) => self.narrowed(&least, Code::EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae),
                    (true, true) => least
                        .iter()
                        .map(|v| self.vector(Code::EVEX_Vcvttpd2uqq_zmm_k1z_zmmm512b64_sae, &[*v]))
                        .collect(),
                }
            }
            _ => {
                let wide = is_wide(to);
                let whole = match (is_wide(from), wide) {
                    (false, false) => vec![self.vector(Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae, a)],
                    (false, true) => self.widened(a, Code::EVEX_Vcvttps2qq_zmm_k1z_ymmm256b32_sae),
                    (true, false) => self.narrowed(a, Code::EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae),
                    (true, true) => {
                        a.iter().map(|v| self.vector(Code::EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae, &[*v])).collect()
                    }
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
                let code =
                    if wide { Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512 } else { Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512 };
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
        let t = table::int(false);
        let splat = |n: i32| Operand::Splat(Splat::Bits32(n.cast_unsigned()));
        let low = self.vector(t.max[0], &[a[0], splat(least)]);
        vec![self.vector(t.min[0], &[low, splat(most)])]
    }

    fn int_to_float(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        let unsigned = matches!(from, Dtype::U32 | Dtype::U64);
        match (is_wide(from), is_wide(to), unsigned) {
            (false, false, false) => vec![self.vector(Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, a)],
            (false, false, true) => vec![self.vector(Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er, a)],
            (false, true, false) => self.widened(a, Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er),
            (false, true, true) => self.widened(a, Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er),
            (true, false, false) => self.narrowed(a, Code::EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er),
            (true, false, true) => self.narrowed(a, Code::EVEX_Vcvtuqq2ps_ymm_k1z_zmmm512b64_er),
            (true, true, false) => {
                a.iter().map(|v| self.vector(Code::EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er, &[*v])).collect()
            }
            (true, true, true) => {
                a.iter().map(|v| self.vector(Code::EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er, &[*v])).collect()
            }
        }
    }

    fn int_to_int(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        let [signed, unsigned, narrow] = INT_TO_INT;
        let parts = match (is_wide(from), is_wide(to)) {
            (false, true) => return self.widened(a, if from == Dtype::U32 { unsigned } else { signed }),
            (true, false) => self.narrowed(a, narrow),
            _ => a.clone(),
        };
        let t = table::int(false);
        match to.narrow_range() {
            Some((0, most)) => {
                vec![self.vector(t.and, &[parts[0], Operand::Splat(Splat::Bits32(most.cast_unsigned()))])]
            }
            Some(_) => {
                let amount = Operand::Immediate(32 - 8 * to.bytes() as u8);
                let high = self.vector(t.shl, &[parts[0], amount]);
                vec![self.vector(t.sar, &[high, amount])]
            }
            None => parts,
        }
    }
}
