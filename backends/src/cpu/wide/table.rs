//! The vector operations of primitives, and properties of machine instructions.

use iced_x86::{Code, Register};
use ir::{BinaryOp, CompareOp, Dtype};

use super::inst::Operand;
use super::op::{VectorOp, W64};

/// Whether an operation joins or moves lanes of eight bytes.
pub(super) fn is_long(op: VectorOp) -> bool {
    // Only operations that merge into accumulators or copy them come here, with a mask.
    matches!(
        op,
        VectorOp::FAdd(W64)
            | VectorOp::FMul(W64)
            | VectorOp::Copy(W64)
            | VectorOp::Add(W64)
            | VectorOp::Mul(W64)
            | VectorOp::And(W64)
            | VectorOp::Or(W64)
            | VectorOp::Xor(W64)
            | VectorOp::SMin(W64)
            | VectorOp::UMin(W64)
            | VectorOp::SMax(W64)
            | VectorOp::UMax(W64)
    )
}

/// The operation of a primitive, and whether it is commutative. Returns `None` for the minimum and
/// maximum of floats, which need several operations.
pub(super) fn binary(op: BinaryOp, dtype: Dtype) -> Option<(VectorOp, bool)> {
    let wide = dtype.bytes() == 8;
    let signed = dtype.is_signed_int();
    Some(match op {
        BinaryOp::Add if dtype.is_float() => (VectorOp::FAdd(wide), true),
        BinaryOp::Sub if dtype.is_float() => (VectorOp::FSub(wide), false),
        BinaryOp::Mul if dtype.is_float() => (VectorOp::FMul(wide), true),
        BinaryOp::Div | BinaryOp::Rem => (VectorOp::FDiv(wide), false),
        BinaryOp::Min | BinaryOp::Max if dtype.is_float() => return None,
        BinaryOp::Add => (VectorOp::Add(wide), true),
        BinaryOp::Sub => (VectorOp::Sub(wide), false),
        BinaryOp::Mul => (VectorOp::Mul(wide), true),
        BinaryOp::Min if signed => (VectorOp::SMin(wide), true),
        BinaryOp::Min => (VectorOp::UMin(wide), true),
        BinaryOp::Max if signed => (VectorOp::SMax(wide), true),
        BinaryOp::Max => (VectorOp::UMax(wide), true),
        BinaryOp::And => (VectorOp::And(wide), true),
        BinaryOp::Or => (VectorOp::Or(wide), true),
        BinaryOp::Xor => (VectorOp::Xor(wide), true),
        BinaryOp::Shl => (VectorOp::ShlEach(wide), false),
        BinaryOp::Shr if signed => (VectorOp::SShrEach(wide), false),
        BinaryOp::Shr => (VectorOp::UShrEach(wide), false),
    })
}

/// The immediate of [`VectorOp::FRange`] for the minimum or maximum, with -0 below +0. Of a number
/// and a NaN it returns the number.
pub(super) fn extreme(op: BinaryOp) -> Operand {
    Operand::Immediate(if op == BinaryOp::Min { 0b0100 } else { 0b0101 })
}

/// The operation of a comparison and its predicate.
pub(super) fn compare(op: CompareOp, dtype: Dtype) -> (VectorOp, u8) {
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
        return (VectorOp::FCompare(wide), predicate);
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
    (if signed { VectorOp::SCompare(wide) } else { VectorOp::UCompare(wide) }, predicate)
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
