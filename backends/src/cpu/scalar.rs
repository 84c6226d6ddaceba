//! Selects Cranelift instructions for each primitive of `ir::ops` on scalars. All operations are
//! total: zero divisors are replaced before the division, shift amounts are clamped, and
//! conversions saturate.
//!
//! Values in registers: a `bool` is an `i8`, 0 or 1, 16-bit floats are their bits in `i16` (Cranelift
//! has no arithmetic on them), integers have the type of their width, and `f32` and `f64` are
//! themselves.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, InstructionData, MemFlagsData, Opcode, Type, Value};
use cranelift_frontend::FunctionBuilder;
use ir::sabotage::{self, Bug};
use ir::{BinaryOp, CompareOp, Dtype, Scalar, UnaryOp};

use super::jit::{Helper, Helpers};

/// The register type of a value.
pub(super) fn register(dtype: Dtype) -> Type {
    match dtype {
        Dtype::Bool | Dtype::I8 | Dtype::U8 => I8,
        Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::Bf16 => I16,
        Dtype::I32 | Dtype::U32 => I32,
        Dtype::I64 | Dtype::U64 => I64,
        Dtype::F32 => F32,
        Dtype::F64 => F64,
    }
}

/// A constant.
pub(super) fn constant(b: &mut FunctionBuilder<'_>, value: Scalar) -> Value {
    match value {
        Scalar::F32(v) => b.ins().f32const(v),
        Scalar::F64(v) => b.ins().f64const(v),
        other => b.ins().iconst(register(other.dtype()), other.bits().cast_signed()),
    }
}

/// A primitive of one operand.
pub(super) fn unary(b: &mut FunctionBuilder<'_>, op: UnaryOp, dtype: Dtype, a: Value) -> Value {
    let float = dtype.is_float();
    match op {
        UnaryOp::Neg if float => b.ins().fneg(a),
        UnaryOp::Neg => b.ins().ineg(a),
        UnaryOp::Not if dtype == Dtype::Bool => b.ins().bxor_imm_u(a, 1),
        UnaryOp::Not => b.ins().bnot(a),
        UnaryOp::Abs if float => b.ins().fabs(a),
        UnaryOp::Abs if dtype.is_signed_int() => b.ins().iabs(a),
        UnaryOp::Abs => a,
        UnaryOp::Sqrt => b.ins().sqrt(a),
        UnaryOp::Floor => b.ins().floor(a),
        UnaryOp::Ceil => b.ins().ceil(a),
        UnaryOp::Trunc => b.ins().trunc(a),
        UnaryOp::Round => b.ins().nearest(a),
    }
}

/// A primitive of two operands of one type.
pub(super) fn binary(
    b: &mut FunctionBuilder<'_>,
    helpers: &mut Helpers<'_>,
    op: BinaryOp,
    dtype: Dtype,
    x: Value,
    y: Value,
) -> Value {
    let (float, signed, bool) = (dtype.is_float(), dtype.is_signed_int(), dtype == Dtype::Bool);
    match op {
        BinaryOp::Add if float => b.ins().fadd(x, y),
        BinaryOp::Add => b.ins().iadd(x, y),
        BinaryOp::Sub if float => b.ins().fsub(x, y),
        BinaryOp::Sub => b.ins().isub(x, y),
        BinaryOp::Mul if float => b.ins().fmul(x, y),
        BinaryOp::Mul => b.ins().imul(x, y),
        BinaryOp::Div if float => b.ins().fdiv(x, y),
        BinaryOp::Rem if float => {
            let helper = if dtype == Dtype::F32 { Helper::RemF32 } else { Helper::RemF64 };
            helpers.call(b, helper, &[x, y])
        }
        BinaryOp::Div | BinaryOp::Rem => divide(b, op, dtype, x, y),
        BinaryOp::Min if float => b.ins().fmin(x, y),
        BinaryOp::Max if float => b.ins().fmax(x, y),
        BinaryOp::Min if bool => b.ins().band(x, y),
        BinaryOp::Max if bool => b.ins().bor(x, y),
        BinaryOp::Min if signed => b.ins().smin(x, y),
        BinaryOp::Max if signed => b.ins().smax(x, y),
        BinaryOp::Min => b.ins().umin(x, y),
        BinaryOp::Max => b.ins().umax(x, y),
        BinaryOp::And if bool && let Some(inside) = in_range(b, x, y) => inside,
        BinaryOp::And => b.ins().band(x, y),
        BinaryOp::Or => b.ins().bor(x, y),
        BinaryOp::Xor => b.ins().bxor(x, y),
        BinaryOp::Shl | BinaryOp::Shr => shift(b, op, dtype, x, y),
    }
}

/// `v >= 0 && v < bound` by one comparison: as an unsigned number, a negative one is greater than
/// every bound.
fn in_range(b: &mut FunctionBuilder<'_>, x: Value, y: Value) -> Option<Value> {
    let data = |v: Value| b.func.dfg.value_def(v).inst().map(|inst| b.func.dfg.insts[inst]);
    let compared = |v: Value| match data(v) {
        Some(InstructionData::IntCompare { cond, args, .. }) => Some((cond, args)),
        _ => None,
    };
    let constant = |v: Value| match data(v) {
        Some(InstructionData::UnaryImm { opcode: Opcode::Iconst, imm }) => Some(imm.bits()),
        _ => None,
    };
    let (mut low, mut high) = (compared(x)?, compared(y)?);
    if low.0 == IntCC::SignedLessThan {
        std::mem::swap(&mut low, &mut high);
    }
    let ((IntCC::SignedGreaterThanOrEqual, [value, zero]), (IntCC::SignedLessThan, [other, bound])) = (low, high)
    else {
        return None;
    };
    if value != other || constant(zero) != Some(0) || b.func.dfg.value_type(value) != I64 {
        return None;
    }
    let limit = if constant(bound).is_some_and(|n| n >= 0) { bound } else { b.ins().smax(bound, zero) };
    Some(b.ins().icmp(IntCC::UnsignedLessThan, value, limit))
}

/// Integer quotient or remainder. Divisors 0 and -1 are replaced by 1, because they can trap.
fn divide(b: &mut FunctionBuilder<'_>, op: BinaryOp, dtype: Dtype, x: Value, y: Value) -> Value {
    let ty = register(dtype);
    let one = b.ins().iconst(ty, 1);
    let zero = b.ins().iconst(ty, 0);
    let by_zero = b.ins().icmp(IntCC::Equal, y, zero);
    if !dtype.is_signed_int() {
        // The quotient by 0 is 0, and so is the remainder, which is what the remainder by 1 is.
        let safe = b.ins().select(by_zero, one, y);
        if op == BinaryOp::Rem {
            return b.ins().urem(x, safe);
        }
        let quotient = b.ins().udiv(x, safe);
        return b.ins().select(by_zero, zero, quotient);
    }
    // The least number divided by -1 overflows, which traps on x86. So divide by 1 and negate,
    // which wraps; the remainder by 1 is 0, like that by -1.
    let by_minus_one = b.ins().icmp_imm_s(IntCC::Equal, y, -1);
    let special = b.ins().bor(by_zero, by_minus_one);
    let safe = if sabotage::on(Bug::DividesByZero) { y } else { b.ins().select(special, one, y) };
    if op == BinaryOp::Rem {
        return b.ins().srem(x, safe);
    }
    let quotient = b.ins().sdiv(x, safe);
    let negated = b.ins().ineg(x);
    let quotient = b.ins().select(by_minus_one, negated, quotient);
    b.ins().select(by_zero, zero, quotient)
}

/// A shift by any amount. A negative amount is beyond every width as an unsigned number.
fn shift(b: &mut FunctionBuilder<'_>, op: BinaryOp, dtype: Dtype, x: Value, amount: Value) -> Value {
    let ty = register(dtype);
    let width = i64::from(ty.bits());
    if op == BinaryOp::Shr && dtype.is_signed_int() {
        // Cranelift's shifts use the amount modulo the width. A shift by the width or more gives
        // only copies of the sign, as does one by the width minus 1.
        let most = b.ins().iconst(ty, width - 1);
        let amount = b.ins().umin(amount, most);
        return b.ins().sshr(x, amount);
    }
    let shifted = if op == BinaryOp::Shl { b.ins().ishl(x, amount) } else { b.ins().ushr(x, amount) };
    let inside = b.ins().icmp_imm_u(IntCC::UnsignedLessThan, amount, width);
    let zero = b.ins().iconst(ty, 0);
    if sabotage::on(Bug::ShiftedTooFar) { shifted } else { b.ins().select(inside, shifted, zero) }
}

/// The condition of an integer comparison. A `bool` compares as unsigned.
pub(super) fn int_condition(op: CompareOp, signed: bool) -> IntCC {
    match (op, signed) {
        (CompareOp::Eq, _) => IntCC::Equal,
        (CompareOp::Ne, _) => IntCC::NotEqual,
        (CompareOp::Lt, true) => IntCC::SignedLessThan,
        (CompareOp::Le, true) => IntCC::SignedLessThanOrEqual,
        (CompareOp::Gt, true) => IntCC::SignedGreaterThan,
        (CompareOp::Ge, true) => IntCC::SignedGreaterThanOrEqual,
        (CompareOp::Lt, false) => IntCC::UnsignedLessThan,
        (CompareOp::Le, false) => IntCC::UnsignedLessThanOrEqual,
        (CompareOp::Gt, false) => IntCC::UnsignedGreaterThan,
        (CompareOp::Ge, false) => IntCC::UnsignedGreaterThanOrEqual,
    }
}

/// The condition of a float comparison. All but `Ne` are false for NaN.
pub(super) fn float_condition(op: CompareOp) -> FloatCC {
    match op {
        CompareOp::Eq => FloatCC::Equal,
        CompareOp::Ne => FloatCC::NotEqual,
        CompareOp::Lt if sabotage::on(Bug::LessThanItself) => FloatCC::LessThanOrEqual,
        CompareOp::Lt => FloatCC::LessThan,
        CompareOp::Le => FloatCC::LessThanOrEqual,
        CompareOp::Gt => FloatCC::GreaterThan,
        CompareOp::Ge => FloatCC::GreaterThanOrEqual,
    }
}

/// A comparison, with a `bool` as the result.
pub(super) fn compare(b: &mut FunctionBuilder<'_>, op: CompareOp, dtype: Dtype, x: Value, y: Value) -> Value {
    if dtype.is_float() {
        b.ins().fcmp(float_condition(op), x, y)
    } else {
        b.ins().icmp(int_condition(op, dtype.is_signed_int()), x, y)
    }
}

/// Extends a 16-bit float to `f32`.
fn widen_half(b: &mut FunctionBuilder<'_>, helpers: &mut Helpers<'_>, dtype: Dtype, bits: Value) -> Value {
    let wide = b.ins().uextend(I32, bits);
    if dtype == Dtype::Bf16 {
        // A bf16 is the upper half of an f32.
        let bits = b.ins().ishl_imm_u(wide, 16);
        b.ins().bitcast(F32, MemFlagsData::new(), bits)
    } else {
        helpers.call(b, Helper::WidenF16, &[wide])
    }
}

/// The same bits as another type of the same width.
pub(super) fn bitcast(b: &mut FunctionBuilder<'_>, from: Dtype, to: Dtype, v: Value) -> Value {
    let (from, to) = (register(from), register(to));
    if from == to { v } else { b.ins().bitcast(to, MemFlagsData::new(), v) }
}

/// Converts to a type; see `ir::nest::Op::Cast`.
pub(super) fn cast(b: &mut FunctionBuilder<'_>, helpers: &mut Helpers<'_>, from: Dtype, to: Dtype, v: Value) -> Value {
    if from == to {
        return v;
    }
    match (from, to) {
        (Dtype::F16 | Dtype::Bf16, _) => {
            let wide = widen_half(b, helpers, from, v);
            cast(b, helpers, Dtype::F32, to, wide)
        }
        (_, Dtype::F16 | Dtype::Bf16) => {
            let narrow = narrow_half(b, helpers, from, to, v);
            b.ins().ireduce(I16, narrow)
        }
        (Dtype::F32 | Dtype::F64, _) => from_float(b, from, to, v),
        _ => from_int(b, from, to, v),
    }
}

/// Rounds a value to a 16-bit float once, and returns its bits in `i32`. Wide sources use a helper
/// that avoids double rounding.
fn narrow_half(b: &mut FunctionBuilder<'_>, helpers: &mut Helpers<'_>, from: Dtype, to: Dtype, v: Value) -> Value {
    let half = to == Dtype::F16;
    match from {
        Dtype::I64 => helpers.call(b, if half { Helper::F16FromI64 } else { Helper::Bf16FromI64 }, &[v]),
        Dtype::U64 => helpers.call(b, if half { Helper::F16FromU64 } else { Helper::Bf16FromU64 }, &[v]),
        _ => {
            // All other types convert to f64 exactly, so that only the helper rounds.
            let wide = cast(b, helpers, from, Dtype::F64, v);
            helpers.call(b, if half { Helper::F16FromF64 } else { Helper::Bf16FromF64 }, &[wide])
        }
    }
}

fn from_float(b: &mut FunctionBuilder<'_>, from: Dtype, to: Dtype, v: Value) -> Value {
    match to {
        Dtype::F32 => b.ins().fdemote(F32, v),
        Dtype::F64 => b.ins().fpromote(F64, v),
        Dtype::Bool => {
            let zero = constant(b, Scalar::zero(from));
            b.ins().fcmp(FloatCC::NotEqual, v, zero)
        }
        _ => match to.narrow_range() {
            Some((least, most)) => {
                let most = most + i32::from(to == Dtype::I8 && sabotage::on(Bug::Saturation));
                // Cranelift saturates to 32 and 64 bits only. NaN becomes 0 in this step already.
                let wide = b.ins().fcvt_to_sint_sat(I32, v);
                let [least, most] = [least, most].map(|k| b.ins().iconst(I32, i64::from(k)));
                let wide = b.ins().smax(wide, least);
                let wide = b.ins().smin(wide, most);
                b.ins().ireduce(register(to), wide)
            }
            None if to.is_signed_int() => b.ins().fcvt_to_sint_sat(register(to), v),
            None => b.ins().fcvt_to_uint_sat(register(to), v),
        },
    }
}

fn from_int(b: &mut FunctionBuilder<'_>, from: Dtype, to: Dtype, v: Value) -> Value {
    let signed = from.is_signed_int();
    match to {
        Dtype::Bool => {
            let zero = b.ins().iconst(register(from), 0);
            b.ins().icmp(IntCC::NotEqual, v, zero)
        }
        Dtype::F32 | Dtype::F64 => {
            // Few targets can convert from narrow registers, so extend first, which is exact.
            let v = if register(from).bits() < 32 { resize(b, signed, I32, v) } else { v };
            let ty = register(to);
            if signed { b.ins().fcvt_from_sint(ty, v) } else { b.ins().fcvt_from_uint(ty, v) }
        }
        _ => resize(b, signed, register(to), v),
    }
}

/// Truncates or sign-extends an integer to another width.
fn resize(b: &mut FunctionBuilder<'_>, signed: bool, to: Type, v: Value) -> Value {
    let from = b.func.dfg.value_type(v);
    match (from.bits().cmp(&to.bits()), signed) {
        (std::cmp::Ordering::Equal, _) => v,
        (std::cmp::Ordering::Greater, _) => b.ins().ireduce(to, v),
        (std::cmp::Ordering::Less, true) => b.ins().sextend(to, v),
        (std::cmp::Ordering::Less, false) => b.ins().uextend(to, v),
    }
}
