//! Selects PTX for each primitive of `ir::ops` on scalars. All operations are total: zero divisors
//! are replaced before the division, shift amounts are clamped, and conversions saturate.
//!
//! Values in registers: a `bool` is a predicate, integers of 8 and 16 bits are extended to 32 bits,
//! 16-bit floats are their bits, and all others are themselves.

use ir::sabotage::{self, Bug};
use ir::{BinaryOp, CompareOp, Dtype, Scalar, UnaryOp};

use super::build::{Builder, Control};
use super::inst::{Comparison, Opcode, Operand, Reg, Rounding, Type};

impl Control for Builder {
    fn b(&mut self) -> &mut Builder {
        self
    }
}

/// The type for arithmetic and comparisons.
pub(super) fn arithmetic(dtype: Dtype) -> Type {
    match dtype {
        Dtype::Bool => Type::Pred,
        Dtype::I8 | Dtype::I16 | Dtype::I32 => Type::S32,
        Dtype::U8 | Dtype::U16 | Dtype::U32 => Type::U32,
        Dtype::I64 => Type::S64,
        Dtype::U64 => Type::U64,
        Dtype::F16 => Type::F16,
        Dtype::Bf16 => Type::Bf16,
        Dtype::F32 => Type::F32,
        Dtype::F64 => Type::F64,
    }
}

/// The type for loads and stores.
pub(super) fn memory(dtype: Dtype) -> Type {
    match dtype {
        Dtype::Bool | Dtype::U8 => Type::U8,
        Dtype::I8 => Type::S8,
        Dtype::I16 => Type::ExtendedS16,
        Dtype::U16 => Type::ExtendedU16,
        Dtype::F16 | Dtype::Bf16 => Type::B16,
        Dtype::I32 | Dtype::U32 | Dtype::F32 => Type::B32,
        Dtype::I64 | Dtype::U64 | Dtype::F64 => Type::B64,
    }
}

/// The type for bitwise operations and moves.
fn bits(dtype: Dtype) -> Type {
    match dtype {
        Dtype::Bool => Type::Pred,
        Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::U16 => Type::B32,
        other => memory(other),
    }
}

/// A predicate as 0 or 1.
pub(super) fn number_of(b: &mut Builder, condition: Reg) -> Reg {
    b.select(Type::U32, 1, 0, condition)
}

/// Whether a number is not 0.
pub(super) fn is_set(b: &mut Builder, number: Reg) -> Reg {
    b.set(Comparison::Ne, Type::U32, number, 0)
}

/// A constant.
pub(super) fn constant(b: &mut Builder, value: Scalar) -> Reg {
    let int = |bits: u64| Operand::Int(bits.cast_signed());
    match value {
        // A predicate has no immediate form, so it is compared from a number.
        Scalar::Bool(v) => {
            let number = b.mov(Type::U32, i64::from(v));
            is_set(b, number)
        }
        Scalar::I8(v) => b.mov(Type::S32, i64::from(v)),
        Scalar::I16(v) => b.mov(Type::S32, i64::from(v)),
        Scalar::I32(v) => b.mov(Type::S32, i64::from(v)),
        Scalar::F32(v) => b.mov(Type::F32, Operand::F32(v.to_bits())),
        Scalar::F64(v) => b.mov(Type::F64, Operand::F64(v.to_bits())),
        other => {
            let number = b.mov(bits(other.dtype()), int(other.bits()));
            if other.dtype().bytes() == 8 && other.bits() <= u64::from(u32::MAX) {
                b.set_narrow(number, Type::U32, int(other.bits()));
            }
            number
        }
    }
}

/// A primitive of one operand.
pub(super) fn unary(b: &mut Builder, op: UnaryOp, dtype: Dtype, a: Reg) -> Reg {
    let ty = arithmetic(dtype);
    let round = |b: &mut Builder, rounding| b.convert(rounding, ty, ty, a);
    match op {
        UnaryOp::Neg if dtype.is_float() => b.op(Opcode::Neg, ty, &[a.into()]),
        UnaryOp::Neg => subtract(b, ty, 0, a),
        UnaryOp::Not => b.op(Opcode::Not, bits(dtype), &[a.into()]),
        UnaryOp::Abs if dtype.is_float() => b.op(Opcode::Abs, ty, &[a.into()]),
        UnaryOp::Abs if dtype.is_signed_int() => {
            // `sign` is all ones for negative values, so `(a ^ sign) - sign` is the absolute value.
            // `max(a, -a)` would run into the assembler bug that `subtract` describes.
            let sign = b.op2(Opcode::Shr, ty, a, if ty == Type::S64 { 63 } else { 31 });
            let flipped = b.op2(Opcode::Xor, bits(dtype), a, sign);
            subtract(b, ty, flipped, sign)
        }
        UnaryOp::Abs => a,
        UnaryOp::Sqrt => b.op(Opcode::SqrtRn, ty, &[a.into()]),
        UnaryOp::Floor => round(b, Rounding::Rmi),
        UnaryOp::Ceil => round(b, Rounding::Rpi),
        UnaryOp::Trunc => round(b, Rounding::Rzi),
        UnaryOp::Round => round(b, if sabotage::on(Bug::PtxRounding) { Rounding::Rzi } else { Rounding::Rni }),
    }
}

/// A wrapping integer difference, always as an unsigned subtraction. NVIDIA's assembler (that of
/// driver 580) drops the sign of a signed negation that feeds a minimum or maximum.
fn subtract(b: &mut Builder, ty: Type, x: impl Into<Operand>, y: Reg) -> Reg {
    let ty = match ty {
        Type::S32 => Type::U32,
        Type::S64 => Type::U64,
        ty => ty,
    };
    b.op2(Opcode::Sub, ty, x, y)
}

/// A primitive of two operands of one type.
pub(super) fn binary(b: &mut Builder, op: BinaryOp, dtype: Dtype, x: Reg, y: Reg) -> Reg {
    let ty = arithmetic(dtype);
    let float = dtype.is_float();
    let opcode = match op {
        BinaryOp::Div if !float => return divide(b, op, dtype, x, y),
        BinaryOp::Rem if float => return float_remainder(b, dtype, x, y),
        BinaryOp::Rem => return divide(b, op, dtype, x, y),
        BinaryOp::Shl | BinaryOp::Shr => return shift(b, op, dtype, x, y),
        BinaryOp::Min | BinaryOp::Max if dtype == Dtype::F64 => return least_or_greatest(b, op, x, y),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Min | BinaryOp::Max if dtype == Dtype::Bool => {
            let opcode = match op {
                BinaryOp::And | BinaryOp::Min => Opcode::And,
                BinaryOp::Xor => Opcode::Xor,
                _ => Opcode::Or,
            };
            return b.op2(opcode, Type::Pred, x, y);
        }
        BinaryOp::And => return b.op2(Opcode::And, bits(dtype), x, y),
        BinaryOp::Or => return b.op2(Opcode::Or, bits(dtype), x, y),
        BinaryOp::Xor => return b.op2(Opcode::Xor, bits(dtype), x, y),
        BinaryOp::Add if float => Opcode::AddRn,
        BinaryOp::Add => Opcode::Add,
        BinaryOp::Sub if float => Opcode::SubRn,
        BinaryOp::Sub => return subtract(b, ty, x, y),
        BinaryOp::Mul if float => Opcode::MulRn,
        BinaryOp::Mul if dtype.bytes() == 8 => return b.product(ty, x, y),
        BinaryOp::Mul => Opcode::Mul,
        BinaryOp::Div => Opcode::DivRn,
        BinaryOp::Min if float => Opcode::MinNan,
        BinaryOp::Max if float => Opcode::MaxNan,
        BinaryOp::Min | BinaryOp::Max if ty == Type::S32 => return by_comparison(b, op, x, y),
        BinaryOp::Min => Opcode::Min,
        BinaryOp::Max => Opcode::Max,
    };
    b.op2(opcode, ty, x, y)
}

/// Integer quotient or remainder. Divisors 0 and -1 are replaced by 1, and their results are
/// selected afterwards: x / 0 = 0, and x / -1 must wrap for the minimum instead of overflowing.
fn divide(b: &mut Builder, op: BinaryOp, dtype: Dtype, x: Reg, y: Reg) -> Reg {
    let ty = arithmetic(dtype);
    let special = match ty {
        // Both at once, and never `y == 0`: NVIDIA's assembler (CUDA 13.0, for compute capability
        // 9.0) turns a selection by that into one by `y > 0` if `y` is `max(max(a, 0), 0)`.
        Type::S32 | Type::S64 => {
            let unsigned = if ty == Type::S64 { Type::U64 } else { Type::U32 };
            let next = b.op2(Opcode::Add, unsigned, y, 1);
            b.set(Comparison::Lt, unsigned, next, 2)
        }
        _ => b.set(Comparison::Eq, ty, y, 0),
    };
    let safe = b.select(bits(dtype), 1, y, special);
    if op == BinaryOp::Rem {
        // The remainder by 1 is 0, which is also the result for the divisors 0 and -1.
        return b.op2(Opcode::Rem, ty, x, safe);
    }
    let quotient = b.op2(Opcode::Div, ty, x, safe);
    if sabotage::on(Bug::PtxDivision) {
        return quotient;
    }
    // By 0 and by -1 the quotient is the product.
    let product = binary(b, BinaryOp::Mul, dtype, x, y);
    b.select(bits(dtype), product, quotient, special)
}

/// A shift by any amount. Amounts beyond the width count as the width. Negative amounts do too,
/// because they are large as unsigned numbers.
fn shift(b: &mut Builder, op: BinaryOp, dtype: Dtype, x: Reg, mut amount: Reg) -> Reg {
    if dtype.bytes() == 8 {
        // The instructions clamp the amount, but take only 32 bits of it.
        let least = b.op2(Opcode::Min, Type::U64, amount, 64);
        amount = b.convert(Rounding::Exact, Type::U32, Type::U64, least);
    }
    if op == BinaryOp::Shl {
        b.op2(Opcode::Shl, bits(dtype), x, amount)
    } else {
        b.op2(Opcode::Shr, arithmetic(dtype), x, amount)
    }
}

/// A minimum or maximum of signed 32-bit integers by comparison and selection. NVIDIA's assembler
/// (CUDA 12.6 to 13.3, for compute capability 9.0 and 10.0) turns `max(max(a, -b), c)` into a
/// three-operand instruction and drops the negation of `b`.
fn by_comparison(b: &mut Builder, op: BinaryOp, x: Reg, y: Reg) -> Reg {
    let comparison = if op == BinaryOp::Min { Comparison::Lt } else { Comparison::Gt };
    let first = b.set(comparison, Type::S32, x, y);
    b.select(Type::B32, x, y, first)
}

/// A minimum or maximum of `f64`. The instructions return the other operand if one is NaN, but the
/// result must be NaN.
fn least_or_greatest(b: &mut Builder, op: BinaryOp, x: Reg, y: Reg) -> Reg {
    let opcode = if op == BinaryOp::Min { Opcode::Min } else { Opcode::Max };
    let number = b.op2(opcode, Type::F64, x, y);
    let nan = b.set(Comparison::Nan, Type::F64, x, y);
    b.select(Type::F64, Operand::F64(f64::NAN.to_bits()), number, nan)
}

/// The exact remainder of floats by long division: doubles the divisor while it is at most the
/// dividend, then subtracts it wherever it fits while halving it back.
fn float_remainder(b: &mut Builder, dtype: Dtype, x: Reg, y: Reg) -> Reg {
    let (ty, wide) = (arithmetic(dtype), dtype == Dtype::F64);
    let float = |v: f64| if wide { Operand::F64(v.to_bits()) } else { Operand::F32((v as f32).to_bits()) };
    let infinity = float(f64::INFINITY);
    let whole = b.op(Opcode::Abs, ty, &[x.into()]);
    let divisor = b.op(Opcode::Abs, ty, &[y.into()]);
    let finite = b.set(Comparison::Lt, ty, whole, infinity);
    let divides = b.set(Comparison::Gt, ty, divisor, float(0.0));
    let valid = b.op2(Opcode::And, Type::Pred, finite, divides);
    // If the divisor is greater, the dividend is the remainder, and nothing is to be done. This
    // includes an infinite divisor.
    let fits = b.set(Comparison::Le, ty, divisor, whole);
    let takes = b.op2(Opcode::And, Type::Pred, valid, fits);
    let rest = b.copy(whole);
    b.when(takes, |b| {
        let part = b.copy(divisor);
        let double = b.copy(divisor);
        b.while_(
            // The largest doubled divisor that is at most the dividend. Doubling is exact; an
            // overflow gives infinity, which ends the loop.
            |b| {
                b.op_to(double, Opcode::AddRn, ty, &[part.into(), part.into()]);
                b.set(Comparison::Le, ty, double, rest)
            },
            |b| b.assign(part, double),
        );
        b.while_(
            |b| b.set(Comparison::Ge, ty, part, divisor),
            |b| {
                // Each difference is exact, since rest < 2 * part (Sterbenz).
                let less = b.set(Comparison::Le, ty, part, rest);
                b.guarded(less, |b| b.op_to(rest, Opcode::SubRn, ty, &[rest.into(), part.into()]));
                b.op_to(part, Opcode::MulRn, ty, &[part.into(), float(0.5)]);
            },
        );
    });
    // The result has the sign of the dividend, even if it is zero.
    let bits = bits(dtype);
    let sign = b.op2(Opcode::And, bits, x, if wide { i64::MIN } else { 0x8000_0000 });
    let signed = b.op2(Opcode::Or, bits, rest, sign);
    b.select(ty, signed, float(f64::NAN), valid)
}

/// A comparison.
pub(super) fn compare(b: &mut Builder, op: CompareOp, dtype: Dtype, x: Reg, y: Reg) -> Reg {
    let comparison = match op {
        CompareOp::Eq => Comparison::Eq,
        CompareOp::Ne if dtype.is_float() && !sabotage::on(Bug::PtxNan) => Comparison::Neu,
        CompareOp::Ne => Comparison::Ne,
        CompareOp::Lt => Comparison::Lt,
        CompareOp::Le => Comparison::Le,
        CompareOp::Gt => Comparison::Gt,
        CompareOp::Ge => Comparison::Ge,
    };
    match dtype {
        Dtype::Bool => {
            // `setp` does not compare predicates.
            let (x, y) = (number_of(b, x), number_of(b, y));
            b.set(comparison, Type::U32, x, y)
        }
        Dtype::F16 | Dtype::Bf16 => {
            let (x, y) = (widen_half(b, dtype, x), widen_half(b, dtype, y));
            b.set(comparison, Type::F32, x, y)
        }
        _ => b.set(comparison, arithmetic(dtype), x, y),
    }
}

/// `a * b + c`, rounded once.
pub(super) fn fma(b: &mut Builder, dtype: Dtype, [x, y, z]: [Reg; 3]) -> Reg {
    b.op(Opcode::FmaRn, arithmetic(dtype), &[x.into(), y.into(), z.into()])
}

/// One of two values.
pub(super) fn select(b: &mut Builder, dtype: Dtype, condition: Reg, yes: Reg, no: Reg) -> Reg {
    if dtype == Dtype::Bool {
        // `selp` does not select predicates.
        let yes = b.op2(Opcode::And, Type::Pred, condition, yes);
        let not = b.op(Opcode::Not, Type::Pred, &[condition.into()]);
        let no = b.op2(Opcode::And, Type::Pred, not, no);
        return b.op2(Opcode::Or, Type::Pred, yes, no);
    }
    let (yes, no) = if sabotage::on(Bug::PtxSelect) { (no, yes) } else { (yes, no) };
    b.select(bits(dtype), yes, no, condition)
}

/// Extends a 16-bit float to `f32`, which is exact.
fn widen_half(b: &mut Builder, dtype: Dtype, a: Reg) -> Reg {
    if dtype == Dtype::F16 {
        return b.convert(Rounding::Exact, Type::F32, Type::F16, a);
    }
    let wide = b.convert(Rounding::Exact, Type::U32, Type::U16, a);
    b.op2(Opcode::Shl, Type::B32, wide, 16)
}

/// An `f32` as a 16-bit float.
fn narrow_half(b: &mut Builder, dtype: Dtype, a: Reg) -> Reg {
    b.convert(Rounding::Rn, arithmetic(dtype), Type::F32, a)
}

/// The same bits as another type of the same width.
pub(super) fn bitcast(b: &mut Builder, to: Dtype, from: Dtype, a: Reg) -> Reg {
    match (from, to) {
        (Dtype::Bool, _) if to != Dtype::Bool => number_of(b, a),
        (_, Dtype::Bool) if from != Dtype::Bool => is_set(b, a),
        (Dtype::F16 | Dtype::Bf16, Dtype::I16 | Dtype::U16) => {
            let wide = b.convert(Rounding::Exact, Type::U32, Type::U16, a);
            fit(b, to, wide)
        }
        (Dtype::I16 | Dtype::U16, Dtype::F16 | Dtype::Bf16) => b.convert(Rounding::Exact, Type::U16, Type::U32, a),
        _ => fit(b, to, a),
    }
}

/// Truncates to the bits of an integer of 8 or 16 bits and extends back to 32 bits.
fn fit(b: &mut Builder, to: Dtype, a: Reg) -> Reg {
    match to.narrow_range() {
        Some((0, most)) => b.op2(Opcode::And, Type::B32, a, i64::from(most)),
        Some(_) => {
            let amount = 32 - 8 * to.bytes() as i64;
            let up = b.op2(Opcode::Shl, Type::B32, a, amount);
            b.op2(Opcode::Shr, Type::S32, up, amount)
        }
        None => a,
    }
}

/// Conversion to a type.
pub(super) fn cast(b: &mut Builder, to: Dtype, from: Dtype, a: Reg) -> Reg {
    match (from, to) {
        _ if from == to => a,
        (Dtype::F16 | Dtype::Bf16, _) => {
            let wide = widen_half(b, from, a);
            cast(b, to, Dtype::F32, wide)
        }
        (Dtype::Bool, _) => {
            let number = number_of(b, a);
            cast(b, to, Dtype::U32, number)
        }
        (_, Dtype::Bool) if from.is_float() => {
            let zero = constant(b, Scalar::zero(from));
            b.set(Comparison::Neu, arithmetic(from), a, zero)
        }
        (_, Dtype::Bool) => b.set(Comparison::Ne, arithmetic(from), a, 0),
        (Dtype::F32, Dtype::F16 | Dtype::Bf16) => narrow_half(b, to, a),
        (Dtype::F64, Dtype::F16 | Dtype::Bf16) => {
            // Rounding to f32 to nearest first would round twice: just above a tie of f16, the f32
            // can be the tie, which then rounds to even.
            let odd = to_odd(b, a);
            narrow_half(b, to, odd)
        }
        (_, Dtype::F16 | Dtype::Bf16) => {
            let wide = if from.bytes() == 8 { int_to_odd(b, from, a) } else { cast(b, Dtype::F64, from, a) };
            cast(b, to, Dtype::F64, wide)
        }
        (Dtype::F32, Dtype::F64) => b.convert(Rounding::Exact, Type::F64, Type::F32, a),
        (Dtype::F64, Dtype::F32) => b.convert(Rounding::Rn, Type::F32, Type::F64, a),
        (Dtype::F32 | Dtype::F64, _) => float_to_int(b, to, from, a),
        (_, Dtype::F32 | Dtype::F64) => b.convert(Rounding::Rn, arithmetic(to), arithmetic(from), a),
        _ => int_to_int(b, to, from, a),
    }
}

fn int_to_int(b: &mut Builder, to: Dtype, from: Dtype, a: Reg) -> Reg {
    match (from.bytes() == 8, to.bytes() == 8) {
        (true, true) => a,
        (false, true) => {
            let wide = b.convert(Rounding::Exact, arithmetic(to), arithmetic(from), a);
            b.set_narrow(wide, arithmetic(from), a);
            wide
        }
        (true, false) => {
            let low = b.convert(Rounding::Exact, Type::U32, Type::U64, a);
            fit(b, to, low)
        }
        (false, false) => fit(b, to, a),
    }
}

/// Truncates to an integer with saturation, NaN to 0. For conversions from or to 64 bits the
/// instruction handles NaN differently, so a selection is needed.
fn float_to_int(b: &mut Builder, to: Dtype, from: Dtype, a: Reg) -> Reg {
    let (ty, from_type) = (arithmetic(to), arithmetic(from));
    let mut int = b.convert(Rounding::Rzi, ty, from_type, a);
    if to.bytes() == 8 || from == Dtype::F64 {
        let nan = b.set(Comparison::Nan, from_type, a, a);
        int = b.select(bits(to), 0, int, nan);
    }
    let Some((least, greatest)) = to.narrow_range() else { return int };
    let int = b.op2(Opcode::Max, ty, int, i64::from(least));
    b.op2(Opcode::Min, ty, int, i64::from(greatest))
}

/// Converts `f64` to `f32` with rounding to odd. A second rounding to a narrower type then gives
/// the same result as rounding once (Boldo and Melquiond, "When Double Rounding is Odd").
fn to_odd(b: &mut Builder, a: Reg) -> Reg {
    let cut = b.convert(Rounding::Rz, Type::F32, Type::F64, a);
    let back = b.convert(Rounding::Exact, Type::F64, Type::F32, cut);
    let inexact = b.set(Comparison::Neu, Type::F64, back, a);
    sticky(b, Type::B32, cut, inexact)
}

/// Converts a 64-bit integer to `f64` with rounding to odd.
fn int_to_odd(b: &mut Builder, from: Dtype, a: Reg) -> Reg {
    let cut = b.convert(Rounding::Rz, Type::F64, arithmetic(from), a);
    let back = b.convert(Rounding::Rzi, arithmetic(from), Type::F64, cut);
    let inexact = b.set(Comparison::Ne, arithmetic(from), back, a);
    sticky(b, Type::B64, cut, inexact)
}

/// Sets the last bit if the truncation was inexact, which makes it a rounding to odd.
fn sticky(b: &mut Builder, ty: Type, cut: Reg, inexact: Reg) -> Reg {
    let last = b.select(ty, 1, 0, inexact);
    b.op2(Opcode::Or, ty, cut, last)
}
