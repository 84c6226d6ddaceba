//! The helpers that compiled code calls, as code of the object: there is no process around it that
//! provides them. Their results are the same bits as those of the helpers in `jit`, except for the
//! payload of NaNs.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Module};

use super::gemm;
use super::target::Target;
use crate::cpu::jit::Helper;
use crate::error::CompileError;

/// Defines a helper. Helpers that the C library provides need no definition.
pub(super) fn define(module: &mut dyn Module, target: Target, helper: Helper, id: FuncId) -> Result<(), CompileError> {
    let body: fn(&mut FunctionBuilder<'_>, &[Value]) -> Option<Value> = match helper {
        Helper::WidenF16 => |b, v| Some(widen(b, v[0])),
        Helper::F16FromF64 => |b, v| Some(f16_from_f64(b, v[0])),
        Helper::F16FromI64 => |b, v| {
            let near = int_to_odd(b, v[0], true);
            Some(f16_from_f64(b, near))
        },
        Helper::F16FromU64 => |b, v| {
            let near = int_to_odd(b, v[0], false);
            Some(f16_from_f64(b, near))
        },
        Helper::Bf16FromF64 => |b, v| Some(bf16_from_f64(b, v[0])),
        Helper::Bf16FromI64 => |b, v| {
            let near = int_to_odd(b, v[0], true);
            Some(bf16_from_f64(b, near))
        },
        Helper::Bf16FromU64 => |b, v| {
            let near = int_to_odd(b, v[0], false);
            Some(bf16_from_f64(b, near))
        },
        Helper::Transpose1 => |b, v| transpose(b, v, I8),
        Helper::Transpose2 => |b, v| transpose(b, v, I16),
        Helper::Transpose4 => |b, v| transpose(b, v, I32),
        Helper::Transpose8 => |b, v| transpose(b, v, I64),
        Helper::RemF32 | Helper::RemF64 => return Ok(()),
        Helper::GemmF32 | Helper::GemmF64 => |_, _| None,
        // Kernels of an object never call these: see `Host`.
        Helper::Await => {
            return Err(CompileError::Internal(format!("{helper:?} in an object")));
        }
    };
    let mut function = module.make_context();
    function.func.signature = module.declarations().get_function_decl(id).signature.clone();
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function.func, &mut context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let params = b.block_params(entry).to_vec();
    let result = body(&mut b, &params);
    match helper {
        Helper::GemmF32 => gemm::body(&mut b, module, target, params[0], F32)?,
        Helper::GemmF64 => gemm::body(&mut b, module, target, params[0], F64)?,
        _ => {}
    }
    b.ins().return_(result.as_slice());
    b.seal_all_blocks();
    b.finalize(module.target_config());
    module.define_function(id, &mut function).map_err(|e| CompileError::Internal(format!("{helper:?}: {e}")))
}

fn as_bits(b: &mut FunctionBuilder<'_>, ty: Type, v: Value) -> Value {
    b.ins().bitcast(ty, MemFlagsData::new(), v)
}

/// `f16` to `f32`: shifted into place, the bits are the number scaled by 2^-112, also for
/// denormals.
fn widen(b: &mut FunctionBuilder<'_>, bits: Value) -> Value {
    let magnitude = b.ins().band_imm_u(bits, 0x7fff);
    let sign = b.ins().bxor(bits, magnitude);
    let small = b.ins().ishl_imm_u(magnitude, 13);
    let small = as_bits(b, F32, small);
    let up = b.ins().f32const(f32::from_bits((112 + 127) << 23));
    let number = b.ins().fmul(small, up);
    let number = as_bits(b, I32, number);
    let infinity = b.ins().bor_imm_u(number, 0x7f80_0000);
    let special = b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, magnitude, 0x7c00);
    let number = b.ins().select(special, infinity, number);
    let sign = b.ins().ishl_imm_u(sign, 16);
    let bits = b.ins().bor(number, sign);
    as_bits(b, F32, bits)
}

/// The bits of a number rounded to odd. A second rounding to a much narrower format then gives the
/// same result as rounding once.
fn float_to_odd(b: &mut FunctionBuilder<'_>, v: Value) -> Value {
    let near = b.ins().fdemote(F32, v);
    let back = b.ins().fpromote(F64, near);
    let bits = as_bits(b, I32, near);
    let (magnitude, given) = (b.ins().fabs(back), b.ins().fabs(v));
    let beyond = b.ins().fcmp(FloatCC::GreaterThan, magnitude, given);
    let less = b.ins().iadd_imm_s(bits, -1);
    let more = b.ins().iadd_imm_s(bits, 1);
    let other = b.ins().select(beyond, less, more);
    let odd = b.ins().band_imm_u(bits, 1);
    let other = b.ins().select(odd, bits, other);
    // If the values are equal nothing is to be done, and a NaN, which compares as unequal to all,
    // stays a NaN.
    let below = b.ins().fcmp(FloatCC::LessThan, magnitude, given);
    let inexact = b.ins().bor(beyond, below);
    b.ins().select(inexact, other, bits)
}

/// An integer, rounded to odd if it does not fit the significand of an `f64`.
fn int_to_odd(b: &mut FunctionBuilder<'_>, v: Value, signed: bool) -> Value {
    let exact = 1i64 << f64::MANTISSA_DIGITS;
    let low = b.ins().band_imm_u(v, 0x7ff);
    let some = b.ins().icmp_imm_s(IntCC::NotEqual, low, 0);
    let high = b.ins().bxor(v, low);
    let odd = b.ins().bor_imm_u(high, 0x800);
    let rounded = b.ins().select(some, odd, high);
    let (magnitude, convert): (Value, fn(&mut FunctionBuilder<'_>, Value) -> Value) = if signed {
        (b.ins().iabs(v), |b, v| b.ins().fcvt_from_sint(F64, v))
    } else {
        (v, |b, v| b.ins().fcvt_from_uint(F64, v))
    };
    let small = b.ins().icmp_imm_s(IntCC::UnsignedLessThan, magnitude, exact);
    let v = b.ins().select(small, v, rounded);
    convert(b, v)
}

/// Shifts right by `at` bits, rounding to nearest even. `below_half` is half of the last remaining
/// bit minus one, plus anything else that is to be added.
fn round_at(b: &mut FunctionBuilder<'_>, bits: Value, at: i64, below_half: i64) -> Value {
    let kept = b.ins().ushr_imm_u(bits, at);
    let odd = b.ins().band_imm_u(kept, 1);
    let up = b.ins().iadd_imm_s(odd, below_half);
    let rounded = b.ins().iadd(bits, up);
    b.ins().ushr_imm_u(rounded, at)
}

fn f16_from_f64(b: &mut FunctionBuilder<'_>, v: Value) -> Value {
    const REBIAS: i64 = 112 << 23;
    let bits = float_to_odd(b, v);
    let magnitude = b.ins().band_imm_u(bits, 0x7fff_ffff);
    let sign = b.ins().bxor(bits, magnitude);
    // Adding 0.5 to a number that becomes denormal aligns its significand with that of the result,
    // so the addition rounds it correctly.
    let number = as_bits(b, F32, magnitude);
    let half = b.ins().f32const(0.5);
    let beside = b.ins().fadd(number, half);
    let beside = as_bits(b, I32, beside);
    let denormal = b.ins().iadd_imm_s(beside, -i64::from(0.5f32.to_bits()));
    let normal = round_at(b, magnitude, 13, 0xfff - REBIAS);
    let infinity = b.ins().iconst(I32, 0x7c00);
    let normal = b.ins().smin(normal, infinity);
    let small = b.ins().icmp_imm_s(IntCC::SignedLessThan, magnitude, 113 << 23);
    let finite = b.ins().select(small, denormal, normal);
    let unordered = b.ins().icmp_imm_s(IntCC::SignedGreaterThan, magnitude, 0x7f80_0000);
    let nan = b.ins().iconst(I32, 0x7e00);
    let number = b.ins().select(unordered, nan, finite);
    let sign = b.ins().ushr_imm_u(sign, 16);
    b.ins().bor(number, sign)
}

fn bf16_from_f64(b: &mut FunctionBuilder<'_>, v: Value) -> Value {
    let bits = float_to_odd(b, v);
    let rounded = round_at(b, bits, 16, 0x7fff);
    let nan = b.ins().iconst(I32, 0x7fc0);
    let unordered = b.ins().fcmp(FloatCC::NotEqual, v, v);
    b.ins().select(unordered, nan, rounded)
}

/// Transposes a block of `rows` by `columns` elements: from an address with `step` bytes between
/// rows, to an address with `pace` bytes between columns.
fn transpose(b: &mut FunctionBuilder<'_>, params: &[Value], ty: Type) -> Option<Value> {
    let &[from, step, to, pace, rows, columns] = params else { return None };
    let width = i64::from(ty.bytes());
    counted(b, rows, &mut |b, row| {
        let first = b.ins().imul(row, step);
        let first = b.ins().iadd(from, first);
        let place = b.ins().imul_imm_s(row, width);
        let place = b.ins().iadd(to, place);
        counted(b, columns, &mut |b, column| {
            let at = b.ins().imul_imm_s(column, width);
            let at = b.ins().iadd(first, at);
            let element = b.ins().load(ty, MemFlagsData::new().with_notrap(), at, 0);
            let at = b.ins().imul(column, pace);
            let at = b.ins().iadd(place, at);
            b.ins().store(MemFlagsData::new().with_notrap(), element, at, 0);
        });
    });
    None
}

/// Emits a loop over the numbers below a limit.
pub(super) fn counted(
    b: &mut FunctionBuilder<'_>,
    limit: Value,
    body: &mut dyn FnMut(&mut FunctionBuilder<'_>, Value),
) {
    let (head, inside, out) = (b.create_block(), b.create_block(), b.create_block());
    let number = b.append_block_param(head, I64);
    let zero = b.ins().iconst(I64, 0);
    b.ins().jump(head, &[BlockArg::from(zero)]);
    b.switch_to_block(head);
    let more = b.ins().icmp(IntCC::SignedLessThan, number, limit);
    b.ins().brif(more, inside, &[], out, &[]);
    b.switch_to_block(inside);
    body(b, number);
    let next = b.ins().iadd_imm_s(number, 1);
    b.ins().jump(head, &[BlockArg::from(next)]);
    b.switch_to_block(out);
}
