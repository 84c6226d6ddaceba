//! The instructions for each operation, for lanes of four and eight bytes.

use iced_x86::{Code, Register};
use ir::{BinaryOp, CompareOp, Dtype};

use super::inst::Operand;

/// Instructions on floats.
pub(super) struct Float {
    pub(super) add: Code,
    pub(super) sub: Code,
    pub(super) mul: Code,
    pub(super) div: Code,
    pub(super) min: Code,
    pub(super) max: Code,
    pub(super) sqrt: Code,
    pub(super) round: Code,
    pub(super) range: Code,
    pub(super) compare: Code,
}

static FLOATS: [Float; 2] = [
    Float {
        add: Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
        sub: Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
        mul: Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
        div: Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
        min: Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
        max: Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
        sqrt: Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er,
        round: Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae,
        range: Code::EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae,
        compare: Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
    },
    Float {
        add: Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er,
        sub: Code::EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er,
        mul: Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er,
        div: Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er,
        min: Code::EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae,
        max: Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae,
        sqrt: Code::EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er,
        round: Code::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae,
        range: Code::EVEX_Vrangepd_zmm_k1z_zmm_zmmm512b64_imm8_sae,
        compare: Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae,
    },
];

/// Instructions on integers, and bitwise ones.
pub(super) struct Int {
    pub(super) add: Code,
    pub(super) sub: Code,
    pub(super) mul: Code,
    pub(super) and: Code,
    pub(super) or: Code,
    pub(super) xor: Code,
    pub(super) abs: Code,
    /// Minimum and maximum, signed and unsigned.
    pub(super) min: [Code; 2],
    pub(super) max: [Code; 2],
    /// Shifts by a constant.
    pub(super) shl: Code,
    pub(super) shr: Code,
    pub(super) sar: Code,
    /// Shifts by an amount per lane.
    pub(super) shl_each: Code,
    pub(super) shr_each: Code,
    pub(super) sar_each: Code,
    /// Comparisons, signed and unsigned.
    pub(super) compare: [Code; 2],
    pub(super) blend: Code,
}

static INTS: [Int; 2] = [
    Int {
        add: Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
        sub: Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
        mul: Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
        and: Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
        or: Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
        xor: Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        abs: Code::EVEX_Vpabsd_zmm_k1z_zmmm512b32,
        min: [Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32, Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32],
        max: [Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32, Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32],
        shl: Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8,
        shr: Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8,
        sar: Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8,
        shl_each: Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
        shr_each: Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
        sar_each: Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
        compare: [Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8],
        blend: Code::EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32,
    },
    Int {
        add: Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
        sub: Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64,
        mul: Code::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64,
        and: Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64,
        or: Code::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64,
        xor: Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64,
        abs: Code::EVEX_Vpabsq_zmm_k1z_zmmm512b64,
        min: [Code::EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64, Code::EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64],
        max: [Code::EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64, Code::EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64],
        shl: Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8,
        shr: Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8,
        sar: Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8,
        shl_each: Code::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64,
        shr_each: Code::EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64,
        sar_each: Code::EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64,
        compare: [Code::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8, Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8],
        blend: Code::EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64,
    },
];

pub(super) fn float(wide: bool) -> &'static Float {
    &FLOATS[usize::from(wide)]
}

pub(super) fn int(wide: bool) -> &'static Int {
    &INTS[usize::from(wide)]
}

/// Whether an instruction joins or moves lanes of eight bytes.
pub(super) fn is_long(code: Code) -> bool {
    let (f, t) = (float(true), int(true));
    // Only instructions that merge into accumulators or copy them come here, with a mask.
    let floats = [f.add, f.mul, Code::EVEX_Vmovapd_zmm_k1z_zmmm512];
    let ints = [t.add, t.mul, t.and, t.or, t.xor];
    [floats.as_slice(), &ints, &t.min, &t.max].iter().any(|codes| codes.contains(&code))
}

/// The instruction of an operation, and whether it is commutative. Returns `None` for the minimum
/// and maximum of floats, which need several instructions.
pub(super) fn binary(op: BinaryOp, dtype: Dtype) -> Option<(Code, bool)> {
    let wide = dtype.bytes() == 8;
    let (t, f) = (int(wide), float(wide));
    let unsigned = usize::from(!dtype.is_signed_int());
    Some(match op {
        BinaryOp::Add if dtype.is_float() => (f.add, true),
        BinaryOp::Sub if dtype.is_float() => (f.sub, false),
        BinaryOp::Mul if dtype.is_float() => (f.mul, true),
        BinaryOp::Div | BinaryOp::Rem => (f.div, false),
        BinaryOp::Min | BinaryOp::Max if dtype.is_float() => return None,
        BinaryOp::Add => (t.add, true),
        BinaryOp::Sub => (t.sub, false),
        BinaryOp::Mul => (t.mul, true),
        BinaryOp::Min => (t.min[unsigned], true),
        BinaryOp::Max => (t.max[unsigned], true),
        BinaryOp::And => (t.and, true),
        BinaryOp::Or => (t.or, true),
        BinaryOp::Xor => (t.xor, true),
        BinaryOp::Shl => (t.shl_each, false),
        BinaryOp::Shr if dtype.is_signed_int() => (t.sar_each, false),
        BinaryOp::Shr => (t.shr_each, false),
    })
}

/// The immediate of [`Float::range`] for the minimum or maximum, with -0 below +0. Of a number and
/// a NaN it returns the number.
pub(super) fn extreme(op: BinaryOp) -> Operand {
    Operand::Immediate(if op == BinaryOp::Min { 0b0100 } else { 0b0101 })
}

/// The instruction of a comparison and its predicate.
pub(super) fn compare(op: CompareOp, dtype: Dtype) -> (Code, u8) {
    let wide = dtype.bytes() == 8;
    if dtype.is_float() {
        let predicate = match op {
            // The quiet predicates, which are false for NaN, except for that of `Ne`, which is
            // true.
            CompareOp::Eq => 0x00,
            CompareOp::Ne => 0x04,
            CompareOp::Lt => 0x11,
            CompareOp::Le => 0x12,
            CompareOp::Gt => 0x1e,
            CompareOp::Ge => 0x1d,
        };
        return (float(wide).compare, predicate);
    }
    let predicate = match op {
        CompareOp::Eq => 0,
        CompareOp::Lt => 1,
        CompareOp::Le => 2,
        CompareOp::Ne => 4,
        CompareOp::Ge => 5,
        CompareOp::Gt => 6,
    };
    // Lanes hold extended narrow integers, so those compare as signed.
    let signed = dtype.is_signed_int() || dtype.narrow_range().is_some();
    (int(wide).compare[usize::from(!signed)], predicate)
}

/// The first register of the class that an operand requires, if that is narrower than the machine's
/// vectors. The result counts as an operand.
pub(super) fn narrower(code: Code, operand: usize) -> Option<Register> {
    let (ymm, xmm): (&[usize], &[usize]) = match code {
        Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er
        | Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er
        | Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae
        | Code::EVEX_Vcvttps2qq_zmm_k1z_ymmm256b32_sae
        | Code::EVEX_Vcvttps2uqq_zmm_k1z_ymmm256b32_sae
        | Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae
        | Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256
        | Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256
        | Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256
        | Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256
        | Code::EVEX_Vmovdqu16_ymmm256_k1z_ymm
        | Code::EVEX_Vpscatterqd_vm64z_k1_ymm => (&[1], &[]),
        Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er
        | Code::EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er
        | Code::EVEX_Vcvtuqq2ps_ymm_k1z_zmmm512b64_er
        | Code::EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae
        | Code::EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae
        | Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae
        | Code::EVEX_Vpmovqd_ymmm256_k1z_zmm
        | Code::EVEX_Vpmovdw_ymmm256_k1z_zmm
        | Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8
        | Code::EVEX_Vmovdqu16_ymm_k1z_ymmm256
        | Code::EVEX_Vpgatherqd_ymm_k1_vm64z => (&[0], &[]),
        Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8 => (&[2], &[]),
        Code::EVEX_Vpblendmw_ymm_k1z_ymm_ymmm256 => (&[0, 1, 2], &[]),
        Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128
        | Code::EVEX_Vmovdqu8_xmmm128_k1z_xmm
        | Code::EVEX_Vptestmb_kr_k1_xmm_xmmm128
        | Code::EVEX_Vmovd_rm32_xmm
        | Code::EVEX_Vmovq_rm64_xmm
        | Code::VEX_Vmovdqu_xmm_xmmm128
        | Code::VEX_Vmovdqu_xmmm128_xmm
        | Code::VEX_Vmovq_xmm_xmmm64
        | Code::VEX_Vmovq_xmmm64_xmm
        | Code::VEX_Vmovd_rm32_xmm
        | Code::VEX_Vmovq_rm64_xmm
        | Code::VEX_Vmovq_xmm_rm64
        | Code::VEX_Vpunpckldq_xmm_xmm_xmmm128
        | Code::VEX_Vpgatherqd_xmm_vm64y_xmm
        | Code::VEX_Vpblendvb_xmm_xmm_xmmm128_xmm
        | Code::VEX_Vpackssdw_xmm_xmm_xmmm128 => (&[], &[0, 1, 2, 3]),
        Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8
        | Code::VEX_Vextracti128_xmmm128_ymm_imm8
        | Code::VEX_Vcvtpd2ps_xmm_ymmm256
        | Code::VEX_Vcvttpd2dq_xmm_ymmm256 => (&[], &[0]),
        Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8 => (&[], &[2]),
        Code::VEX_Vcvtdq2pd_ymm_xmmm128
        | Code::VEX_Vcvtps2pd_ymm_xmmm128
        | Code::VEX_Vcvtph2ps_ymm_xmmm128
        | Code::VEX_Vpmovsxbd_ymm_xmmm64
        | Code::VEX_Vpmovzxbd_ymm_xmmm64
        | Code::VEX_Vpmovsxdq_ymm_xmmm128
        | Code::VEX_Vpmovzxdq_ymm_xmmm128
        | Code::VEX_Vpmovsxwd_ymm_xmmm128
        | Code::VEX_Vpmovzxwd_ymm_xmmm128
        | Code::VEX_Vpbroadcastd_ymm_xmmm32
        | Code::VEX_Vpbroadcastq_ymm_xmmm64 => (&[], &[1]),
        _ => (&[], &[]),
    };
    match operand {
        operand if ymm.contains(&operand) => Some(Register::YMM0),
        operand if xmm.contains(&operand) => Some(Register::XMM0),
        _ => None,
    }
}

/// Whether an instruction is a full-width load or move.
pub(super) fn moves(code: Code) -> bool {
    matches!(
        code,
        Code::EVEX_Vmovaps_zmm_k1z_zmmm512
            | Code::EVEX_Vmovapd_zmm_k1z_zmmm512
            | Code::EVEX_Vmovups_zmm_k1z_zmmm512
            | Code::EVEX_Vmovupd_zmm_k1z_zmmm512
            | Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512
            | Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512
            | Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512
    )
}

/// Whether an instruction can take a broadcast number from memory. Arithmetic instructions can,
/// moves cannot.
pub(super) fn folds(code: Code) -> bool {
    let other = matches!(
        code,
        Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128
            | Code::EVEX_Vmovdqu16_ymm_k1z_ymmm256
            | Code::EVEX_Vmovups_zmmm512_k1z_zmm
            | Code::EVEX_Vmovupd_zmmm512_k1z_zmm
            | Code::EVEX_Vmovdqu8_xmmm128_k1z_xmm
            | Code::EVEX_Vmovdqu16_ymmm256_k1z_ymm
            | Code::EVEX_Vmovntps_m512_zmm
            | Code::EVEX_Vmovd_rm32_xmm
            | Code::EVEX_Vmovq_rm64_xmm
            | Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32
            | Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64
            | Code::EVEX_Vpbroadcastq_zmm_k1z_r64
            | Code::EVEX_Vpmovdb_xmmm128_k1z_zmm
            | Code::EVEX_Vpmovdw_ymmm256_k1z_zmm
            | Code::EVEX_Vpmovqd_ymmm256_k1z_zmm
            | Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128
            | Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128
            | Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256
            | Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256
            | Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256
            | Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256
            | Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8
            | Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8
            | Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae
            | Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae
            | Code::EVEX_Vpblendmw_ymm_k1z_ymm_ymmm256
            | Code::EVEX_Vptestmb_kr_k1_xmm_xmmm128
            | Code::EVEX_Vpgatherqd_ymm_k1_vm64z
            | Code::EVEX_Vpgatherqq_zmm_k1_vm64z
            | Code::EVEX_Vpscatterqd_vm64z_k1_ymm
            | Code::EVEX_Vpscatterqq_vm64z_k1_zmm
            | Code::VEX_Vmovaps_ymm_ymmm256
            | Code::VEX_Vmovups_ymm_ymmm256
            | Code::VEX_Vmovups_ymmm256_ymm
            | Code::VEX_Vmovntps_m256_ymm
            | Code::VEX_Vmovdqu_xmm_xmmm128
            | Code::VEX_Vmovdqu_xmmm128_xmm
            | Code::VEX_Vmovq_xmm_xmmm64
            | Code::VEX_Vmovq_xmmm64_xmm
            | Code::VEX_Vmovq_xmm_rm64
            | Code::VEX_Vmovd_rm32_xmm
            | Code::VEX_Vmovq_rm64_xmm
            | Code::VEX_Vmaskmovps_ymm_ymm_m256
            | Code::VEX_Vmaskmovpd_ymm_ymm_m256
            | Code::VEX_Vmaskmovps_m256_ymm_ymm
            | Code::VEX_Vmaskmovpd_m256_ymm_ymm
            | Code::VEX_Vpbroadcastd_ymm_xmmm32
            | Code::VEX_Vpbroadcastq_ymm_xmmm64
            | Code::VEX_Vpslld_ymm_ymm_imm8
            | Code::VEX_Vpsrld_ymm_ymm_imm8
            | Code::VEX_Vpsrad_ymm_ymm_imm8
            | Code::VEX_Vpsllq_ymm_ymm_imm8
            | Code::VEX_Vpsrlq_ymm_ymm_imm8
            | Code::VEX_Vextracti128_xmmm128_ymm_imm8
            | Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8
            | Code::VEX_Vpgatherqd_xmm_vm64y_xmm
            | Code::VEX_Vpgatherqq_ymm_vm64y_ymm
    );
    !moves(code) && !other
}

/// Whether an instruction takes a mask as its last operand, a register that is encoded in an
/// immediate byte.
pub(super) fn blends(code: Code) -> bool {
    matches!(code, Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm | Code::VEX_Vpblendvb_xmm_xmm_xmmm128_xmm)
}

/// Which operand of an instruction can be in memory: the last one that is not an immediate, with
/// some exceptions.
pub(super) fn from_memory(code: Code, from: &[Operand]) -> Option<usize> {
    match code {
        code if blends(code) => Some(1),
        _ => from.iter().rposition(|operand| !matches!(operand, Operand::Immediate(_))),
    }
}
