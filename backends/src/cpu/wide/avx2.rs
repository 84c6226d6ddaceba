//! Translates AVX-512 instructions to AVX2, with half as many lanes and with masks as vectors. Most
//! have an equivalent of the same name; many others become short sequences. Leaves with operations
//! that have neither are rejected ([`has`]) and use 128-bit vectors.
//!
//! Masked loads and stores use mask instructions for lanes of four and eight bytes. For narrower
//! lanes they work byte by byte (`Assembler::in_part`), which only happens for the last elements of
//! a range.

use iced_x86::Code;
use ir::leaf::{Inst, Leaf};
use ir::{BinaryOp, Dtype};

use super::inst::{Class, Item, Lanes, MemoryRef, Operand, Plain, Reg, Slot, Splat};
use super::lanes::{Argument, Registers, WideX86};
use super::table;

/// Whether an operation that AVX-512 supports is supported here. Conversions between eight-byte
/// integers and floats are only supported to `f64`.
pub(super) fn has(leaf: &Leaf, inst: &Inst, dtype: Dtype) -> bool {
    let Inst::Cast(from) = inst else { return true };
    let long = |dtype: Dtype| matches!(dtype, Dtype::I64 | Dtype::U64);
    let from = leaf.values[*from].0;
    !(long(from) && dtype == Dtype::F32 || from.is_float() && long(dtype))
}

/// The equivalent AVX2 instruction.
fn same(code: Code) -> Option<Code> {
    Some(match code {
        Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er => Code::VEX_Vaddps_ymm_ymm_ymmm256,
        Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er => Code::VEX_Vsubps_ymm_ymm_ymmm256,
        Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er => Code::VEX_Vmulps_ymm_ymm_ymmm256,
        Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er => Code::VEX_Vdivps_ymm_ymm_ymmm256,
        Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae => Code::VEX_Vminps_ymm_ymm_ymmm256,
        Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae => Code::VEX_Vmaxps_ymm_ymm_ymmm256,
        Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er => Code::VEX_Vsqrtps_ymm_ymmm256,
        Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae => Code::VEX_Vroundps_ymm_ymmm256_imm8,
        Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae => Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
        Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er => Code::VEX_Vaddpd_ymm_ymm_ymmm256,
        Code::EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er => Code::VEX_Vsubpd_ymm_ymm_ymmm256,
        Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er => Code::VEX_Vmulpd_ymm_ymm_ymmm256,
        Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er => Code::VEX_Vdivpd_ymm_ymm_ymmm256,
        Code::EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae => Code::VEX_Vminpd_ymm_ymm_ymmm256,
        Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae => Code::VEX_Vmaxpd_ymm_ymm_ymmm256,
        Code::EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er => Code::VEX_Vsqrtpd_ymm_ymmm256,
        Code::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae => Code::VEX_Vroundpd_ymm_ymmm256_imm8,
        Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae => Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8,
        Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32 => Code::VEX_Vpaddd_ymm_ymm_ymmm256,
        Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32 => Code::VEX_Vpsubd_ymm_ymm_ymmm256,
        Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32 => Code::VEX_Vpmulld_ymm_ymm_ymmm256,
        Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64 => Code::VEX_Vpaddq_ymm_ymm_ymmm256,
        Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64 => Code::VEX_Vpsubq_ymm_ymm_ymmm256,
        Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32
        | Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64
        | Code::VEX_Kandw_kr_kr_kr => Code::VEX_Vpand_ymm_ymm_ymmm256,
        Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32 | Code::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64 | Code::VEX_Korw_kr_kr_kr => {
            Code::VEX_Vpor_ymm_ymm_ymmm256
        }
        Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32
        | Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64
        | Code::VEX_Kxorw_kr_kr_kr => Code::VEX_Vpxor_ymm_ymm_ymmm256,
        Code::VEX_Kandnw_kr_kr_kr => Code::VEX_Vpandn_ymm_ymm_ymmm256,
        Code::VEX_Kxnorw_kr_kr_kr => Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
        Code::EVEX_Vpabsd_zmm_k1z_zmmm512b32 => Code::VEX_Vpabsd_ymm_ymmm256,
        Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32 => Code::VEX_Vpminsd_ymm_ymm_ymmm256,
        Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32 => Code::VEX_Vpminud_ymm_ymm_ymmm256,
        Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32 => Code::VEX_Vpmaxsd_ymm_ymm_ymmm256,
        Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32 => Code::VEX_Vpmaxud_ymm_ymm_ymmm256,
        Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8 => Code::VEX_Vpslld_ymm_ymm_imm8,
        Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8 => Code::VEX_Vpsrld_ymm_ymm_imm8,
        Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8 => Code::VEX_Vpsrad_ymm_ymm_imm8,
        Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8 => Code::VEX_Vpsllq_ymm_ymm_imm8,
        Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8 => Code::VEX_Vpsrlq_ymm_ymm_imm8,
        Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32 => Code::VEX_Vpsllvd_ymm_ymm_ymmm256,
        Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32 => Code::VEX_Vpsrlvd_ymm_ymm_ymmm256,
        Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32 => Code::VEX_Vpsravd_ymm_ymm_ymmm256,
        Code::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64 => Code::VEX_Vpsllvq_ymm_ymm_ymmm256,
        Code::EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64 => Code::VEX_Vpsrlvq_ymm_ymm_ymmm256,
        Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er => Code::VEX_Vcvtdq2ps_ymm_ymmm256,
        Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er => Code::VEX_Vcvtdq2pd_ymm_xmmm128,
        Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae => Code::VEX_Vcvtps2pd_ymm_xmmm128,
        Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er => Code::VEX_Vcvtpd2ps_xmm_ymmm256,
        Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae => Code::VEX_Vcvttps2dq_ymm_ymmm256,
        Code::EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae => Code::VEX_Vcvttpd2dq_xmm_ymmm256,
        Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae => Code::VEX_Vcvtph2ps_ymm_xmmm128,
        Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae => Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8,
        Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256 => Code::VEX_Vpmovsxdq_ymm_xmmm128,
        Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256 => Code::VEX_Vpmovzxdq_ymm_xmmm128,
        Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256 => Code::VEX_Vpmovsxwd_ymm_xmmm128,
        Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256 => Code::VEX_Vpmovzxwd_ymm_xmmm128,
        Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8 => Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8,
        Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8 => Code::VEX_Vextracti128_xmmm128_ymm_imm8,
        Code::EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8 => Code::VEX_Vpshufd_ymm_ymmm256_imm8,
        code if table::moves(code) => Code::VEX_Vmovups_ymm_ymmm256,
        Code::EVEX_Vmovdqu16_ymm_k1z_ymmm256 => Code::VEX_Vmovdqu_xmm_xmmm128,
        Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128 => Code::VEX_Vmovq_xmm_xmmm64,
        Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128 => Code::VEX_Vpmovsxbd_ymm_xmmm64,
        Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128 => Code::VEX_Vpmovzxbd_ymm_xmmm64,
        // The slot holds a mask of all lanes, so any part of it can be broadcast.
        Code::VEX_Kmovw_kr_km16 => Code::VEX_Vpbroadcastd_ymm_xmmm32,
        Code::EVEX_Vmovups_zmmm512_k1z_zmm | Code::EVEX_Vmovupd_zmmm512_k1z_zmm => Code::VEX_Vmovups_ymmm256_ymm,
        Code::EVEX_Vmovntps_m512_zmm => Code::VEX_Vmovntps_m256_ymm,
        Code::EVEX_Vmovdqu16_ymmm256_k1z_ymm => Code::VEX_Vmovdqu_xmmm128_xmm,
        Code::EVEX_Vmovdqu8_xmmm128_k1z_xmm => Code::VEX_Vmovq_xmmm64_xmm,
        Code::EVEX_Vmovd_rm32_xmm => Code::VEX_Vmovd_rm32_xmm,
        Code::EVEX_Vmovq_rm64_xmm => Code::VEX_Vmovq_rm64_xmm,
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
    /// Emits the translation of an AVX-512 instruction.
    pub(super) fn push_as_avx2(&mut self, plain: &Plain) {
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

    /// Translates a store.
    fn store_as_avx2(&mut self, p: &Plain) -> Option<()> {
        let (place, value) = (*p.from.first()?, *p.from.get(1)?);
        let value = match p.code {
            Code::EVEX_Vpmovdb_xmmm128_k1z_zmm => self.bytes(value),
            Code::EVEX_Vpmovdw_ymmm256_k1z_zmm => self.halfwords(value),
            _ => value,
        };
        let (code, from) = match (p.code, p.lanes) {
            (Code::EVEX_Vmovups_zmmm512_k1z_zmm, Lanes::Active { .. }) => {
                let mask = self.there_mask(0, false);
                (Code::VEX_Vmaskmovps_m256_ymm_ymm, vec![place, mask, value])
            }
            (Code::EVEX_Vmovupd_zmmm512_k1z_zmm, Lanes::Active { upper, .. }) => {
                let mask = self.half_there(upper);
                (Code::VEX_Vmaskmovpd_m256_ymm_ymm, vec![place, mask, value])
            }
            (Code::EVEX_Vpmovdb_xmmm128_k1z_zmm, lanes) => {
                return self.store_narrow(Code::VEX_Vmovq_xmmm64_xmm, lanes, place, value);
            }
            (Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, lanes) => {
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
    fn value_as_avx2(&mut self, p: &Plain) -> Option<Operand> {
        let from = p.from.as_slice();
        match (p.code, p.lanes) {
            (
                Code::EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32 | Code::EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64,
                Lanes::Some { mask, .. },
            ) => Some(self.blend(Operand::Register(mask), from[1], from[0])),
            (Code::EVEX_Vpblendmw_ymm_k1z_ymm_ymmm256, Lanes::Some { mask, .. }) => {
                let mask = Operand::Register(mask);
                let upper = self.upper(mask);
                let mask = self.avx2(Code::VEX_Vpackssdw_xmm_xmm_xmmm128, &[mask, upper]);
                Some(self.avx2(Code::VEX_Vpblendvb_xmm_xmm_xmmm128_xmm, &[from[0], from[1], mask]))
            }
            // Keep the bytes where the mask is set.
            (Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128, Lanes::Some { mask, .. }) => {
                let bytes = self.bytes(Operand::Register(mask));
                Some(self.and(bytes, from[0]))
            }
            (Code::EVEX_Vpgatherqd_ymm_k1_vm64z, Lanes::Active { upper, .. }) => {
                let mask = self.there_mask(if upper { self.isa().half() } else { 0 }, false);
                Some(self.gathered(Code::VEX_Vpgatherqd_xmm_vm64y_xmm, p, mask))
            }
            (Code::EVEX_Vpgatherqq_zmm_k1_vm64z, Lanes::Active { upper, .. }) => {
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
                let moves = matches!(code, Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512 | Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512);
                let value = if moves { from[0] } else { self.all_as_avx2(code, from)? };
                Some(self.blend(mask, value, others))
            }
        }
    }

    fn gathered(&mut self, code: Code, p: &Plain, mask: Operand) -> Operand {
        let to = self.register(Class::Vector);
        let plain = plain(code, Some(to), &[p.from[0], mask]);
        self.emit(Plain { over: p.over, clobbers_mask: true, ..plain });
        Operand::Register(to)
    }

    /// A load of the active lanes, zero in the others.
    fn loaded_in_part(&mut self, code: Code, from: &[Operand], upper: bool) -> Option<Operand> {
        let narrow = |l: &mut Self| {
            let to = l.register(Class::Vector);
            let lanes = Lanes::Active { upper: false, zero: true };
            l.emit(Plain { lanes, ..plain(Code::VEX_Vmovdqu_xmm_xmmm128, Some(to), from) });
            Operand::Register(to)
        };
        Some(match code {
            Code::EVEX_Vmovups_zmm_k1z_zmmm512 => {
                let mask = self.there_mask(0, false);
                self.avx2(Code::VEX_Vmaskmovps_ymm_ymm_m256, &[mask, from[0]])
            }
            Code::EVEX_Vmovupd_zmm_k1z_zmmm512 => {
                let mask = self.half_there(upper);
                self.avx2(Code::VEX_Vmaskmovpd_ymm_ymm_m256, &[mask, from[0]])
            }
            Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128 | Code::EVEX_Vmovdqu16_ymm_k1z_ymmm256 => narrow(self),
            Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128
            | Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128
            | Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256
            | Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256 => {
                let packed = narrow(self);
                self.avx2(same(code)?, &[packed])
            }
            _ => return None,
        })
    }

    /// The result of an instruction on all lanes.
    fn all_as_avx2(&mut self, code: Code, from: &[Operand]) -> Option<Operand> {
        if let Some(code) = same(code) {
            return Some(self.avx2(code, from));
        }
        let first = *from.first()?;
        let second = from.get(1).copied().unwrap_or(first);
        Some(match code {
            Code::EVEX_Vpbroadcastq_zmm_k1z_r64 => {
                let low = self.avx2(Code::VEX_Vmovq_xmm_rm64, from);
                self.avx2(Code::VEX_Vpbroadcastq_ymm_xmmm64, &[low])
            }
            // A rotation by half a register: both operands are the same.
            Code::EVEX_Vshuff64x2_zmm_k1z_zmm_zmmm512b64_imm8 if from[2] == Operand::Immediate(0x4e) => {
                self.avx2(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[first, from[2]])
            }
            Code::VEX_Knotw_kr_kr => self.xor(first, ONES),
            // The upper half comes first.
            Code::VEX_Kunpckbw_kr_kr_kr => self.evens(second, first, 0xd8),
            Code::EVEX_Vpmovqd_ymmm256_k1z_zmm => self.evens(first, first, 0x08),
            Code::EVEX_Vptestmb_kr_k1_xmm_xmmm128 => {
                let wide = self.avx2(Code::VEX_Vpmovzxbd_ymm_xmmm64, &[first]);
                self.avx2(Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256, &[wide, ZERO])
            }
            Code::EVEX_Vpmovdw_ymmm256_k1z_zmm => self.halfwords(first),
            Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er => self.unsigned_to_float(first),
            Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er => {
                // The bits of 2^52 and above.
                let wide = self.avx2(Code::VEX_Vpmovzxdq_ymm_xmmm128, &[first]);
                let more = self.or(wide, long_bits(0x4330_0000_0000_0000));
                self.avx2(Code::VEX_Vsubpd_ymm_ymm_ymmm256, &[more, long_bits(0x4330_0000_0000_0000)])
            }
            Code::EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae | Code::EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae => {
                self.float_to_unsigned(code == Code::EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae, first)
            }
            _ => return self.long_as_avx2(code, from),
        })
    }

    /// Takes the even 32-bit lanes of two vectors, then permutes the 64-bit lanes of the result.
    fn evens(&mut self, low: Operand, high: Operand, order: u8) -> Operand {
        let evens = self.avx2(Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8, &[low, high, Operand::Immediate(0x88)]);
        self.avx2(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[evens, Operand::Immediate(order)])
    }

    /// Minimum or maximum of floats: NaN if either is, and -0 below +0.
    pub(super) fn extreme_as_avx2(&mut self, op: BinaryOp, wide: bool, a: Operand, b: Operand) -> Operand {
        let t = table::float(wide);
        // The instruction returns its second operand for two zeros and for NaN, so compute it with
        // both orders of operands and combine the bits.
        let both = |l: &mut Self, code| [[a, b], [b, a]].map(|pair| l.vector(code, &pair));
        if op == BinaryOp::Min {
            let [one, other] = both(self, t.min);
            return self.or(one, other);
        }
        let [one, other] = both(self, t.max);
        let greatest = self.and(one, other);
        let unordered = self.vector(t.compare, &[a, b, Operand::Immediate(3)]);
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

    /// Translates comparisons of integers, and operations on eight-byte integers that AVX2 lacks.
    fn long_as_avx2(&mut self, code: Code, from: &[Operand]) -> Option<Operand> {
        let [a, b] = [*from.first()?, from.get(1).copied().unwrap_or(Operand::Immediate(0))];
        Some(match code {
            Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8 => self.compared(false, false, from),
            Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8 => self.compared(false, true, from),
            Code::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8 => self.compared(true, false, from),
            Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8 => self.compared(true, true, from),
            Code::EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64 => self.by_greater(false, [a, b], [b, a]),
            Code::EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64 => self.by_greater(true, [a, b], [b, a]),
            Code::EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64 => self.by_greater(false, [a, b], [a, b]),
            Code::EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64 => self.by_greater(true, [a, b], [a, b]),
            Code::EVEX_Vpabsq_zmm_k1z_zmmm512b64 => {
                let sign = self.negative(a);
                let turned = self.xor(a, sign);
                self.avx2(Code::VEX_Vpsubq_ymm_ymm_ymmm256, &[turned, sign])
            }
            Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8 => self.shifted(Code::VEX_Vpsrlq_ymm_ymm_imm8, a, b),
            Code::EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64 => self.shifted(Code::VEX_Vpsrlvq_ymm_ymm_ymmm256, a, b),
            Code::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64 => {
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
            Code::EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er => self.long_to_float(a, false),
            Code::EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er => self.long_to_float(a, true),
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
