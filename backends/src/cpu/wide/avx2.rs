//! Selects AVX2 instructions, with half as many lanes as AVX-512 and with masks as vectors. There
//! is one for most operations; many others become short sequences. Leaves with operations that have
//! neither are rejected (`support`) and use 128-bit vectors.
//!
//! Masked loads and stores use mask instructions for lanes of four and eight bytes. For narrower
//! lanes they work byte by byte (`Assembler::in_part`), which only happens for the last elements of
//! a range.

use iced_x86::Code;
use ir::BinaryOp;

use super::arguments::Argument;
use super::inst::{Class, Item, Lanes, MemoryRef, Operand, Plain, Reg, Registers, Slot, Splat};
use super::lanes::WideX86;
use super::op::{VectorOp, W32, W64};
use super::table;

/// The instruction for an operation, if there is one.
fn same(op: VectorOp) -> Option<Code> {
    Some(match op {
        VectorOp::FAdd(W32) => Code::VEX_Vaddps_ymm_ymm_ymmm256,
        VectorOp::FSub(W32) => Code::VEX_Vsubps_ymm_ymm_ymmm256,
        VectorOp::FMul(W32) => Code::VEX_Vmulps_ymm_ymm_ymmm256,
        VectorOp::FDiv(W32) => Code::VEX_Vdivps_ymm_ymm_ymmm256,
        VectorOp::FMin(W32) => Code::VEX_Vminps_ymm_ymm_ymmm256,
        VectorOp::FMax(W32) => Code::VEX_Vmaxps_ymm_ymm_ymmm256,
        VectorOp::FSqrt(W32) => Code::VEX_Vsqrtps_ymm_ymmm256,
        VectorOp::FRound(W32) => Code::VEX_Vroundps_ymm_ymmm256_imm8,
        VectorOp::FCompare(W32) => Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
        VectorOp::FAdd(W64) => Code::VEX_Vaddpd_ymm_ymm_ymmm256,
        VectorOp::FSub(W64) => Code::VEX_Vsubpd_ymm_ymm_ymmm256,
        VectorOp::FMul(W64) => Code::VEX_Vmulpd_ymm_ymm_ymmm256,
        VectorOp::FDiv(W64) => Code::VEX_Vdivpd_ymm_ymm_ymmm256,
        VectorOp::FMin(W64) => Code::VEX_Vminpd_ymm_ymm_ymmm256,
        VectorOp::FMax(W64) => Code::VEX_Vmaxpd_ymm_ymm_ymmm256,
        VectorOp::FSqrt(W64) => Code::VEX_Vsqrtpd_ymm_ymmm256,
        VectorOp::FRound(W64) => Code::VEX_Vroundpd_ymm_ymmm256_imm8,
        VectorOp::FCompare(W64) => Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8,
        VectorOp::Add(W32) => Code::VEX_Vpaddd_ymm_ymm_ymmm256,
        VectorOp::Sub(W32) => Code::VEX_Vpsubd_ymm_ymm_ymmm256,
        VectorOp::Mul(W32) => Code::VEX_Vpmulld_ymm_ymm_ymmm256,
        VectorOp::Add(W64) => Code::VEX_Vpaddq_ymm_ymm_ymmm256,
        VectorOp::Sub(W64) => Code::VEX_Vpsubq_ymm_ymm_ymmm256,
        VectorOp::And(W32) | VectorOp::And(W64) | VectorOp::MaskAnd => Code::VEX_Vpand_ymm_ymm_ymmm256,
        VectorOp::Or(W32) | VectorOp::Or(W64) | VectorOp::MaskOr => Code::VEX_Vpor_ymm_ymm_ymmm256,
        VectorOp::Xor(W32) | VectorOp::Xor(W64) | VectorOp::MaskXor => Code::VEX_Vpxor_ymm_ymm_ymmm256,
        VectorOp::MaskAndNot => Code::VEX_Vpandn_ymm_ymm_ymmm256,
        VectorOp::MaskXnor => Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
        VectorOp::Abs(W32) => Code::VEX_Vpabsd_ymm_ymmm256,
        VectorOp::SMin(W32) => Code::VEX_Vpminsd_ymm_ymm_ymmm256,
        VectorOp::UMin(W32) => Code::VEX_Vpminud_ymm_ymm_ymmm256,
        VectorOp::SMax(W32) => Code::VEX_Vpmaxsd_ymm_ymm_ymmm256,
        VectorOp::UMax(W32) => Code::VEX_Vpmaxud_ymm_ymm_ymmm256,
        VectorOp::Shl(W32) => Code::VEX_Vpslld_ymm_ymm_imm8,
        VectorOp::UShr(W32) => Code::VEX_Vpsrld_ymm_ymm_imm8,
        VectorOp::SShr(W32) => Code::VEX_Vpsrad_ymm_ymm_imm8,
        VectorOp::Shl(W64) => Code::VEX_Vpsllq_ymm_ymm_imm8,
        VectorOp::UShr(W64) => Code::VEX_Vpsrlq_ymm_ymm_imm8,
        VectorOp::ShlEach(W32) => Code::VEX_Vpsllvd_ymm_ymm_ymmm256,
        VectorOp::UShrEach(W32) => Code::VEX_Vpsrlvd_ymm_ymm_ymmm256,
        VectorOp::SShrEach(W32) => Code::VEX_Vpsravd_ymm_ymm_ymmm256,
        VectorOp::ShlEach(W64) => Code::VEX_Vpsllvq_ymm_ymm_ymmm256,
        VectorOp::UShrEach(W64) => Code::VEX_Vpsrlvq_ymm_ymm_ymmm256,
        VectorOp::I32ToF32 => Code::VEX_Vcvtdq2ps_ymm_ymmm256,
        VectorOp::I32ToF64 => Code::VEX_Vcvtdq2pd_ymm_xmmm128,
        VectorOp::F32ToF64 => Code::VEX_Vcvtps2pd_ymm_xmmm128,
        VectorOp::F64ToF32 => Code::VEX_Vcvtpd2ps_xmm_ymmm256,
        VectorOp::F32ToI32 => Code::VEX_Vcvttps2dq_ymm_ymmm256,
        VectorOp::F64ToI32 => Code::VEX_Vcvttpd2dq_xmm_ymmm256,
        VectorOp::F16ToF32 => Code::VEX_Vcvtph2ps_ymm_xmmm128,
        VectorOp::F32ToF16 => Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8,
        VectorOp::SExtendWords => Code::VEX_Vpmovsxdq_ymm_xmmm128,
        VectorOp::UExtendWords => Code::VEX_Vpmovzxdq_ymm_xmmm128,
        VectorOp::SExtendHalfwords => Code::VEX_Vpmovsxwd_ymm_xmmm128,
        VectorOp::UExtendHalfwords => Code::VEX_Vpmovzxwd_ymm_xmmm128,
        VectorOp::Join => Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8,
        VectorOp::Half => Code::VEX_Vextracti128_xmmm128_ymm_imm8,
        VectorOp::ShuffleWithin => Code::VEX_Vpshufd_ymm_ymmm256_imm8,
        VectorOp::Copy(_) | VectorOp::Keep(_) | VectorOp::Load(_) | VectorOp::LoadNumbers => {
            Code::VEX_Vmovups_ymm_ymmm256
        }
        VectorOp::LoadHalfwords => Code::VEX_Vmovdqu_xmm_xmmm128,
        VectorOp::LoadBytes => Code::VEX_Vmovq_xmm_xmmm64,
        VectorOp::SExtendBytes => Code::VEX_Vpmovsxbd_ymm_xmmm64,
        VectorOp::UExtendBytes => Code::VEX_Vpmovzxbd_ymm_xmmm64,
        // The slot holds a mask of all lanes, so any part of it can be broadcast.
        VectorOp::MaskLoad => Code::VEX_Vpbroadcastd_ymm_xmmm32,
        VectorOp::Store(W32) | VectorOp::Store(W64) => Code::VEX_Vmovups_ymmm256_ymm,
        VectorOp::StoreNonTemporal => Code::VEX_Vmovntps_m256_ymm,
        VectorOp::StoreHalfwords => Code::VEX_Vmovdqu_xmmm128_xmm,
        VectorOp::StoreBytes => Code::VEX_Vmovq_xmmm64_xmm,
        VectorOp::StoreFirst(W32) => Code::VEX_Vmovd_rm32_xmm,
        VectorOp::StoreFirst(W64) => Code::VEX_Vmovq_rm64_xmm,
        _ => return None,
    })
}

const SIGN: Operand = Operand::Splat(Splat::Bits32(1 << 31));
const LONG_SIGN: Operand = Operand::Splat(Splat::Bits64(1 << 63));
const ONES: Operand = Operand::Splat(Splat::Bits32(u32::MAX));
const ZERO: Operand = Operand::Splat(Splat::Bits32(0));

fn bits(bits: u32) -> Operand {
    Operand::Splat(Splat::Bits32(bits))
}

fn long_bits(bits: u64) -> Operand {
    Operand::Splat(Splat::Bits64(bits))
}

fn is_zero(operand: Operand) -> bool {
    matches!(operand, Operand::Splat(Splat::Bits32(0) | Splat::Bits64(0)))
}

impl WideX86<'_, '_> {
    /// Emits the instructions for an operation.
    pub(super) fn push_as_avx2(&mut self, plain: &Plain<VectorOp>) {
        let done = if plain.to.is_none() && plain.fixed.is_none() {
            self.store_as_avx2(plain)
        } else {
            self.value_as_avx2(plain).map(|value| self.name(value, plain.to, plain.fixed))
        };
        debug_assert!(done.is_some(), "AVX2 has nothing for {:?}, or it is not written here", plain.code);
        self.shared.failed |= done.is_none();
    }

    /// Makes the value that was computed last the result of an instruction.
    fn name(&mut self, value: Operand, to: Option<Reg>, fixed: Option<u32>) {
        match self.body.items.last_mut() {
            Some(Item::Plain(last)) if last.to.is_some() && last.to == value.register() => {
                (last.to, last.fixed) = (to, fixed);
            }
            _ => {
                let copy = Code::VEX_Vmovups_ymm_ymmm256;
                self.emit(Plain { to, fixed, ..plain(copy, None, &[value]) });
            }
        }
    }

    fn emit(&mut self, plain: Plain) {
        self.body.items.push(Item::Plain(plain));
    }

    fn avx2(&mut self, code: Code, from: &[Operand]) -> Operand {
        let to = self.register(Class::Vector);
        self.emit(plain(code, Some(to), from));
        Operand::Register(to)
    }

    fn and(&mut self, a: Operand, b: Operand) -> Operand {
        self.avx2(Code::VEX_Vpand_ymm_ymm_ymmm256, &[a, b])
    }

    fn xor(&mut self, a: Operand, b: Operand) -> Operand {
        self.avx2(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[a, b])
    }

    fn or(&mut self, a: Operand, b: Operand) -> Operand {
        self.avx2(Code::VEX_Vpor_ymm_ymm_ymmm256, &[a, b])
    }

    /// Selects `yes` where the mask is set, else `no`.
    fn blend(&mut self, mask: Operand, yes: Operand, no: Operand) -> Operand {
        if is_zero(no) {
            return self.and(mask, yes);
        }
        if is_zero(yes) {
            return self.avx2(Code::VEX_Vpandn_ymm_ymm_ymmm256, &[mask, no]);
        }
        self.avx2(Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm, &[no, yes, mask])
    }

    fn upper(&mut self, v: Operand) -> Operand {
        self.avx2(Code::VEX_Vextracti128_xmmm128_ymm_imm8, &[v, Operand::Immediate(1)])
    }

    /// Extends a mask of 32-bit lanes to two of 64-bit lanes.
    pub(super) fn masks_of_halves(&mut self, mask: Operand) -> Registers {
        let upper = self.upper(mask);
        [mask, upper].map(|half| self.avx2(Code::VEX_Vpmovsxdq_ymm_xmmm128, &[half])).to_vec()
    }

    /// The mask of active lanes, from lane `first` on: 32-bit lanes, or 64-bit lanes if `wide`.
    fn there_mask(&mut self, first: i32, wide: bool) -> Operand {
        let mut numbers = [0; 64];
        for (lane, bytes) in numbers.chunks_exact_mut(4).enumerate() {
            let lane = if wide { lane / 2 } else { lane } as i32;
            bytes.copy_from_slice(&(first + lane).to_le_bytes());
        }
        let numbers = self.shared.vector(numbers);
        let slot: Slot = self.shared.slot(Argument::ActiveLanes);
        let count = self.avx2(Code::VEX_Vpbroadcastd_ymm_xmmm32, &[Operand::Memory(MemoryRef::Slot(slot))]);
        self.avx2(Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256, &[count, numbers])
    }

    fn half_there(&mut self, upper: bool) -> Operand {
        self.there_mask(if upper { self.isa().half() } else { 0 }, true)
    }

    /// Selects a store.
    fn store_as_avx2(&mut self, p: &Plain<VectorOp>) -> Option<()> {
        let (place, value) = (*p.from.first()?, *p.from.get(1)?);
        let value = match p.code {
            VectorOp::ToBytes => self.bytes(value),
            VectorOp::ToHalfwords => self.halfwords(value),
            _ => value,
        };
        let (code, from) = match (p.code, p.lanes) {
            (VectorOp::Store(W32), Lanes::Active { .. }) => {
                let mask = self.there_mask(0, false);
                (Code::VEX_Vmaskmovps_m256_ymm_ymm, vec![place, mask, value])
            }
            (VectorOp::Store(W64), Lanes::Active { upper, .. }) => {
                let mask = self.half_there(upper);
                (Code::VEX_Vmaskmovpd_m256_ymm_ymm, vec![place, mask, value])
            }
            (VectorOp::ToBytes, lanes) => {
                return self.store_narrow(Code::VEX_Vmovq_xmmm64_xmm, lanes, place, value);
            }
            (VectorOp::ToHalfwords, lanes) => {
                return self.store_narrow(Code::VEX_Vmovdqu_xmmm128_xmm, lanes, place, value);
            }
            (code, lanes @ Lanes::Active { .. }) => return self.store_narrow(same(code)?, lanes, place, value),
            (code, Lanes::All) => (same(code)?, vec![place, value]),
            (_, Lanes::Some { .. }) => return None,
        };
        self.emit(plain(code, None, &from));
        Some(())
    }

    /// Stores up to 16 bytes.
    fn store_narrow(&mut self, code: Code, lanes: Lanes, place: Operand, value: Operand) -> Option<()> {
        matches!(code, Code::VEX_Vmovq_xmmm64_xmm | Code::VEX_Vmovdqu_xmmm128_xmm).then_some(())?;
        self.emit(Plain { lanes, ..plain(code, None, &[place, value]) });
        Some(())
    }

    /// Packs the lowest byte of each lane.
    fn bytes(&mut self, v: Operand) -> Operand {
        let each = self.shared.vector(std::array::from_fn(|k| if k % 16 < 4 { (k % 16 * 4) as u8 } else { 0x80 }));
        let v = self.avx2(Code::VEX_Vpshufb_ymm_ymm_ymmm256, &[v, each]);
        let upper = self.upper(v);
        self.avx2(Code::VEX_Vpunpckldq_xmm_xmm_xmmm128, &[v, upper])
    }

    /// Packs the lower half of each 32-bit lane.
    fn halfwords(&mut self, v: Operand) -> Operand {
        let low = |k: usize| if k % 16 < 8 { (k % 16 / 2 * 4 + k % 2) as u8 } else { 0x80 };
        let each = self.shared.vector(std::array::from_fn(low));
        let v = self.avx2(Code::VEX_Vpshufb_ymm_ymm_ymmm256, &[v, each]);
        self.avx2(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[v, Operand::Immediate(0x08)])
    }

    /// The result of an instruction. Masked-off lanes keep their previous content or become zero.
    fn value_as_avx2(&mut self, p: &Plain<VectorOp>) -> Option<Operand> {
        let from = p.from.as_slice();
        match (p.code, p.lanes) {
            (VectorOp::Blend(W32) | VectorOp::Blend(W64), Lanes::Some { mask, .. }) => {
                Some(self.blend(Operand::Register(mask), from[1], from[0]))
            }
            (VectorOp::BlendHalfwords, Lanes::Some { mask, .. }) => {
                let mask = Operand::Register(mask);
                let upper = self.upper(mask);
                let mask = self.avx2(Code::VEX_Vpackssdw_xmm_xmm_xmmm128, &[mask, upper]);
                Some(self.avx2(Code::VEX_Vpblendvb_xmm_xmm_xmmm128_xmm, &[from[0], from[1], mask]))
            }
            // Keep the bytes where the mask is set.
            (VectorOp::LoadBytes, Lanes::Some { mask, .. }) => {
                let bytes = self.bytes(Operand::Register(mask));
                Some(self.and(bytes, from[0]))
            }
            (VectorOp::Gather(W32), Lanes::Active { upper, .. }) => {
                let mask = self.there_mask(if upper { self.isa().half() } else { 0 }, false);
                Some(self.gathered(Code::VEX_Vpgatherqd_xmm_vm64y_xmm, p, mask))
            }
            (VectorOp::Gather(W64), Lanes::Active { upper, .. }) => {
                let mask = self.half_there(upper);
                Some(self.gathered(Code::VEX_Vpgatherqq_ymm_vm64y_ymm, p, mask))
            }
            (code, Lanes::Active { upper, .. }) => match p.fixed {
                None => self.loaded_in_part(code, from, upper),
                Some(register) => {
                    let value = self.all_as_avx2(code, from)?;
                    let mask = if table::is_long(code) { self.half_there(upper) } else { self.there_mask(0, false) };
                    Some(self.blend(mask, value, Operand::Fixed(register)))
                }
            },
            (code, Lanes::All) => self.all_as_avx2(code, from),
            (code, Lanes::Some { mask, zero }) => {
                let mask = Operand::Register(mask);
                let others = if zero { ZERO } else { p.over.or(p.fixed.map(Operand::Fixed))? };
                let moves = matches!(code, VectorOp::Keep(W32) | VectorOp::Keep(W64));
                let value = if moves { from[0] } else { self.all_as_avx2(code, from)? };
                Some(self.blend(mask, value, others))
            }
        }
    }

    fn gathered(&mut self, code: Code, p: &Plain<VectorOp>, mask: Operand) -> Operand {
        let to = self.register(Class::Vector);
        let plain = plain(code, Some(to), &[p.from[0], mask]);
        self.emit(Plain { over: p.over, clobbers_mask: true, ..plain });
        Operand::Register(to)
    }

    /// A load of the active lanes, zero in the others.
    fn loaded_in_part(&mut self, op: VectorOp, from: &[Operand], upper: bool) -> Option<Operand> {
        let narrow = |l: &mut Self| {
            let to = l.register(Class::Vector);
            let lanes = Lanes::Active { upper: false, zero: true };
            l.emit(Plain { lanes, ..plain(Code::VEX_Vmovdqu_xmm_xmmm128, Some(to), from) });
            Operand::Register(to)
        };
        Some(match op {
            VectorOp::Load(W32) => {
                let mask = self.there_mask(0, false);
                self.avx2(Code::VEX_Vmaskmovps_ymm_ymm_m256, &[mask, from[0]])
            }
            VectorOp::Load(W64) => {
                let mask = self.half_there(upper);
                self.avx2(Code::VEX_Vmaskmovpd_ymm_ymm_m256, &[mask, from[0]])
            }
            VectorOp::LoadBytes | VectorOp::LoadHalfwords => narrow(self),
            VectorOp::SExtendBytes
            | VectorOp::UExtendBytes
            | VectorOp::SExtendHalfwords
            | VectorOp::UExtendHalfwords => {
                let packed = narrow(self);
                self.avx2(same(op)?, &[packed])
            }
            _ => return None,
        })
    }

    /// The result of an instruction on all lanes.
    fn all_as_avx2(&mut self, op: VectorOp, from: &[Operand]) -> Option<Operand> {
        if let Some(code) = same(op) {
            return Some(self.avx2(code, from));
        }
        let first = *from.first()?;
        let second = from.get(1).copied().unwrap_or(first);
        Some(match op {
            VectorOp::SplatIndex => {
                let low = self.avx2(Code::VEX_Vmovq_xmm_rm64, from);
                self.avx2(Code::VEX_Vpbroadcastq_ymm_xmmm64, &[low])
            }
            // A rotation by half a register: both operands are the same.
            VectorOp::ShuffleAcross if from[2] == Operand::Immediate(0x4e) => {
                self.avx2(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[first, from[2]])
            }
            VectorOp::MaskNot => self.xor(first, ONES),
            // The upper half comes first.
            VectorOp::MaskJoin => self.evens(second, first, 0xd8),
            VectorOp::ToWords => self.evens(first, first, 0x08),
            VectorOp::TestBytes => {
                let wide = self.avx2(Code::VEX_Vpmovzxbd_ymm_xmmm64, &[first]);
                self.avx2(Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256, &[wide, ZERO])
            }
            VectorOp::ToHalfwords => self.halfwords(first),
            VectorOp::U32ToF32 => self.unsigned_to_float(first),
            VectorOp::U32ToF64 => {
                // The bits of 2^52 and above.
                let wide = self.avx2(Code::VEX_Vpmovzxdq_ymm_xmmm128, &[first]);
                let more = self.or(wide, long_bits(0x4330_0000_0000_0000));
                self.avx2(Code::VEX_Vsubpd_ymm_ymm_ymmm256, &[more, long_bits(0x4330_0000_0000_0000)])
            }
            VectorOp::F32ToU32 | VectorOp::F64ToU32 => self.float_to_unsigned(op == VectorOp::F64ToU32, first),
            _ => return self.long_as_avx2(op, from),
        })
    }

    /// Takes the even 32-bit lanes of two vectors, then permutes the 64-bit lanes of the result.
    fn evens(&mut self, low: Operand, high: Operand, order: u8) -> Operand {
        let evens = self.avx2(Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8, &[low, high, Operand::Immediate(0x88)]);
        self.avx2(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[evens, Operand::Immediate(order)])
    }

    /// Minimum or maximum of floats: NaN if either is, and -0 below +0.
    pub(super) fn extreme_as_avx2(&mut self, op: BinaryOp, wide: bool, a: Operand, b: Operand) -> Operand {
        // The instruction returns its second operand for two zeros and for NaN, so compute it with
        // both orders of operands and combine the bits.
        let both = |l: &mut Self, code| [[a, b], [b, a]].map(|pair| l.vector(code, &pair));
        if op == BinaryOp::Min {
            let [one, other] = both(self, VectorOp::FMin(wide));
            return self.or(one, other);
        }
        let [one, other] = both(self, VectorOp::FMax(wide));
        let greatest = self.and(one, other);
        let unordered = self.vector(VectorOp::FCompare(wide), &[a, b, Operand::Immediate(3)]);
        self.or(greatest, unordered)
    }

    /// Converts unsigned integers to `f32`: the 16-bit halves become floats via the mantissas of
    /// 2^23 and 2^39, and their sum is rounded once.
    fn unsigned_to_float(&mut self, v: Operand) -> Operand {
        let low = self.and(v, bits(0xffff));
        let low = self.or(low, bits(0x4b00_0000));
        let high = self.avx2(Code::VEX_Vpsrld_ymm_ymm_imm8, &[v, Operand::Immediate(16)]);
        let high = self.or(high, bits(0x5300_0000));
        let high = self.avx2(Code::VEX_Vsubps_ymm_ymm_ymmm256, &[high, bits(0x5300_0080)]);
        self.avx2(Code::VEX_Vaddps_ymm_ymm_ymmm256, &[low, high])
    }

    /// Converts non-negative floats to unsigned integers. From 2^31 on, converts the excess and
    /// sets the top bit.
    fn float_to_unsigned(&mut self, wide: bool, v: Operand) -> Operand {
        let (truncate, sub, half) = if wide {
            let half = long_bits(2_147_483_648.0f64.to_bits());
            (Code::VEX_Vcvttpd2dq_xmm_ymmm256, Code::VEX_Vsubpd_ymm_ymm_ymmm256, half)
        } else {
            let half = bits(2_147_483_648.0f32.to_bits());
            (Code::VEX_Vcvttps2dq_ymm_ymmm256, Code::VEX_Vsubps_ymm_ymm_ymmm256, half)
        };
        let most = long_bits(4_294_967_295.0f64.to_bits());
        let v = if wide { self.avx2(Code::VEX_Vminpd_ymm_ymm_ymmm256, &[v, most]) } else { v };
        // The conversion returns just the top bit if the number does not fit a signed integer.
        let small = self.avx2(truncate, &[v]);
        let rest = self.avx2(sub, &[v, half]);
        let rest = self.avx2(truncate, &[rest]);
        let large = self.avx2(Code::VEX_Vpsrad_ymm_ymm_imm8, &[small, Operand::Immediate(31)]);
        let rest = self.and(rest, large);
        let number = self.or(small, rest);
        if wide {
            return number;
        }
        let limit = bits(4_294_967_296.0f32.to_bits());
        let above = self.avx2(Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8, &[v, limit, Operand::Immediate(0x1d)]);
        self.or(number, above)
    }

    /// Selects comparisons of integers, and operations on eight-byte integers that AVX2 lacks.
    fn long_as_avx2(&mut self, op: VectorOp, from: &[Operand]) -> Option<Operand> {
        let [a, b] = [*from.first()?, from.get(1).copied().unwrap_or(Operand::Immediate(0))];
        Some(match op {
            VectorOp::SCompare(W32) => self.compared(false, false, from),
            VectorOp::UCompare(W32) => self.compared(false, true, from),
            VectorOp::SCompare(W64) => self.compared(true, false, from),
            VectorOp::UCompare(W64) => self.compared(true, true, from),
            VectorOp::SMin(W64) => self.by_greater(false, [a, b], [b, a]),
            VectorOp::UMin(W64) => self.by_greater(true, [a, b], [b, a]),
            VectorOp::SMax(W64) => self.by_greater(false, [a, b], [a, b]),
            VectorOp::UMax(W64) => self.by_greater(true, [a, b], [a, b]),
            VectorOp::Abs(W64) => {
                let sign = self.negative(a);
                let turned = self.xor(a, sign);
                self.avx2(Code::VEX_Vpsubq_ymm_ymm_ymmm256, &[turned, sign])
            }
            VectorOp::SShr(W64) => self.shifted(Code::VEX_Vpsrlq_ymm_ymm_imm8, a, b),
            VectorOp::SShrEach(W64) => self.shifted(Code::VEX_Vpsrlvq_ymm_ymm_ymmm256, a, b),
            VectorOp::Mul(W64) => {
                let shift = |l: &mut Self, code, v| l.avx2(code, &[v, Operand::Immediate(32)]);
                let times = |l: &mut Self, a, b| l.avx2(Code::VEX_Vpmuludq_ymm_ymm_ymmm256, &[a, b]);
                let a_high = shift(self, Code::VEX_Vpsrlq_ymm_ymm_imm8, a);
                let one = times(self, a_high, b);
                let b_high = shift(self, Code::VEX_Vpsrlq_ymm_ymm_imm8, b);
                let other = times(self, b_high, a);
                let high = self.avx2(Code::VEX_Vpaddq_ymm_ymm_ymmm256, &[one, other]);
                let high = shift(self, Code::VEX_Vpsllq_ymm_ymm_imm8, high);
                let low = times(self, a, b);
                self.avx2(Code::VEX_Vpaddq_ymm_ymm_ymmm256, &[low, high])
            }
            VectorOp::I64ToF64 => self.long_to_float(a, false),
            VectorOp::U64ToF64 => self.long_to_float(a, true),
            _ => return None,
        })
    }

    /// All ones for negative eight-byte integers.
    fn negative(&mut self, v: Operand) -> Operand {
        self.avx2(Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256, &[ZERO, v])
    }

    /// An arithmetic right shift: complements negative numbers before and after a logical shift.
    fn shifted(&mut self, code: Code, v: Operand, amount: Operand) -> Operand {
        let sign = self.negative(v);
        let turned = self.xor(v, sign);
        let turned = self.avx2(code, &[turned, amount]);
        self.xor(turned, sign)
    }

    /// For eight-byte integers, selects `yes` where the first is greater, else `no`.
    fn by_greater(&mut self, unsigned: bool, [a, b]: [Operand; 2], [yes, no]: [Operand; 2]) -> Operand {
        let greater = self.greater(true, unsigned, a, b);
        self.blend(greater, yes, no)
    }

    fn greater(&mut self, wide: bool, unsigned: bool, a: Operand, b: Operand) -> Operand {
        let (code, sign) = if wide {
            (Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256, LONG_SIGN)
        } else {
            (Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256, SIGN)
        };
        // Flipping the sign bit maps the order of unsigned integers to that of signed ones.
        let [a, b] = if unsigned { [a, b].map(|v| self.xor(v, sign)) } else { [a, b] };
        self.avx2(code, &[a, b])
    }

    fn compared(&mut self, wide: bool, unsigned: bool, from: &[Operand]) -> Operand {
        let (a, b) = (from[0], from[1]);
        let equal = if wide { Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256 } else { Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256 };
        let Operand::Immediate(predicate) = from[2] else { return ZERO };
        let found = match predicate & 3 {
            0 => self.avx2(equal, &[a, b]),
            1 => self.greater(wide, unsigned, b, a),
            _ => self.greater(wide, unsigned, a, b),
        };
        // The predicates 0, 1 and 2 are equal, less, and less or equal; adding 4 negates them.
        if matches!(predicate, 2 | 4 | 5) { self.xor(found, ONES) } else { found }
    }

    /// Converts eight-byte integers to `f64`: the 32-bit halves become floats via the mantissas of
    /// 2^52 and 2^84, and their sum is rounded once.
    fn long_to_float(&mut self, v: Operand, unsigned: bool) -> Operand {
        let exponent = 0x4530_0000_0000_0000u64;
        let turned = if unsigned { exponent } else { exponent | 1 << 31 };
        // 2^84 + 2^52, and also + 2^63 if the sign bit was flipped.
        let excess = if unsigned { 0x4530_0000_0010_0000 } else { 0x4530_0000_8010_0000 };
        let high = self.avx2(Code::VEX_Vpsrlq_ymm_ymm_imm8, &[v, Operand::Immediate(32)]);
        let high = self.xor(high, long_bits(turned));
        let high = self.avx2(Code::VEX_Vsubpd_ymm_ymm_ymmm256, &[high, long_bits(excess)]);
        let low = self.and(v, long_bits(u64::from(u32::MAX)));
        let low = self.or(low, long_bits(0x4330_0000_0000_0000));
        self.avx2(Code::VEX_Vaddpd_ymm_ymm_ymmm256, &[high, low])
    }
}

/// An unmasked instruction.
fn plain(code: Code, to: Option<Reg>, from: &[Operand]) -> Plain {
    Plain { code, to, fixed: None, over: None, from: from.to_vec(), lanes: Lanes::All, clobbers_mask: false }
}
