//! Which instruction does which operation, for lanes of four bytes and of eight.

use iced_x86::Code;
use ir::{BinaryOp, CompareOp, Dtype};

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

/// Instructions on integers, and on any lanes as bits.
pub(super) struct Int {
    pub(super) add: Code,
    pub(super) sub: Code,
    pub(super) mul: Code,
    pub(super) and: Code,
    pub(super) or: Code,
    pub(super) xor: Code,
    pub(super) abs: Code,
    /// The least and the greatest, signed and unsigned.
    pub(super) min: [Code; 2],
    pub(super) max: [Code; 2],
    /// Shifts by a constant.
    pub(super) shl: Code,
    pub(super) shr: Code,
    pub(super) sar: Code,
    /// Shifts of each lane by its own amount.
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

/// The instruction of an operation, and whether its operands may change places; none for the least and greatest of floats, which
/// take several.
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

/// The instruction of a comparison, and which it makes.
pub(super) fn compare(op: CompareOp, dtype: Dtype) -> (Code, u8) {
    let wide = dtype.bytes() == 8;
    if dtype.is_float() {
        let predicate = match op {
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
    // Lanes hold one-byte numbers widened, so they compare as signed.
    let signed = dtype.is_signed_int() || dtype == Dtype::U8;
    (int(wide).compare[usize::from(!signed)], predicate)
}
