//! 16-bit floats in `Lanes128`. Cranelift has no arithmetic on them. A 32-bit lane holds their
//! bits, zero-extended, and conversions from and to `f32` use integer arithmetic. All NaNs narrow
//! to the same NaN; all other values are rounded once, to nearest even.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32X4, I16X8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use ir::{CompareOp, Dtype};

use super::lanes128::{Lanes128, Registers, little, splat_bits};
use super::scalar;

/// The bits of `f16` without the sign, and those of infinity and of a NaN.
const F16_MAGNITUDE: u64 = 0x7fff;
const F16_INFINITY: u64 = 0x7c00;
const F16_NAN: u64 = 0x7e00;
/// A NaN of `bf16`.
const BF16_NAN: u64 = 0x7fc0;
/// The same for `f32`.
const F32_SIGN: u64 = 0x8000_0000;
const F32_INFINITY: u64 = 0x7f80_0000;
/// The difference between the exponents of `f16` and `f32`: as `f32` bits, and as the factor 2^112.
const REBIAS: u64 = 112 << 23;
const UP: u64 = (112 + 127) << 23;
/// The smallest normal `f16`, as `f32` bits.
const F16_LEAST_NORMAL: u64 = 113 << 23;
/// The bits of 0.5. Its last bit has the weight of the last bit of a denormal `f16`.
const HALF: u64 = 126 << 23;

impl Lanes128<'_, '_> {
    /// Extends 16-bit floats to `f32`, which is exact.
    pub(super) fn widen_half(&mut self, from: Dtype, v: &Registers) -> Registers {
        if from == Dtype::Bf16 {
            return self.each(v, |l, v| {
                let high = l.shift_left(v, 16);
                l.e.b.ins().bitcast(F32X4, little(), high)
            });
        }
        let [magnitude_bits, infinity, f32_infinity] =
            [F16_MAGNITUDE, F16_INFINITY, F32_INFINITY].map(|k| splat_bits(self.e, I32X4, k));
        let up = splat_bits(self.e, F32X4, UP);
        self.each(v, |l, v| {
            let magnitude = l.e.b.ins().band(v, magnitude_bits);
            let sign = l.e.b.ins().bxor(v, magnitude);
            // Shifted into place, the bits are the number scaled by 2^-112, also for denormals.
            let small = l.shift_left(magnitude, 13);
            let b = &mut l.e.b;
            let small = b.ins().bitcast(F32X4, little(), small);
            let number = b.ins().fmul(small, up);
            let number = b.ins().bitcast(I32X4, little(), number);
            let special = b.ins().icmp(IntCC::SignedGreaterThanOrEqual, magnitude, infinity);
            let exponent = b.ins().band(special, f32_infinity);
            let number = b.ins().bor(number, exponent);
            let sign = l.shift_left(sign, 16);
            let bits = l.e.b.ins().bor(number, sign);
            l.e.b.ins().bitcast(F32X4, little(), bits)
        })
    }

    /// Rounds `f32` to 16-bit floats.
    pub(super) fn narrow_half(&mut self, to: Dtype, v: &Registers) -> Registers {
        let one = splat_bits(self.e, I32X4, 1);
        if to == Dtype::Bf16 {
            let [below_half, nan] = [0x7fff, BF16_NAN].map(|k| splat_bits(self.e, I32X4, k));
            return self.each(v, |l, v| {
                let unordered = l.e.b.ins().fcmp(scalar::float_condition(CompareOp::Ne), v, v);
                let bits = l.e.b.ins().bitcast(I32X4, little(), v);
                let rounded = l.round_at(bits, 16, below_half, one);
                l.e.b.ins().bitselect(unordered, nan, rounded)
            });
        }
        let consts = [F32_SIGN, 0xfff_u64.wrapping_sub(REBIAS), F16_LEAST_NORMAL, HALF, F16_INFINITY, F32_INFINITY];
        let [sign_bit, below_half, least, half_bits, infinity, f32_infinity] =
            consts.map(|k| splat_bits(self.e, I32X4, k));
        let nan = splat_bits(self.e, I32X4, F16_NAN);
        let half = splat_bits(self.e, F32X4, HALF);
        self.each(v, |l, v| {
            let b = &mut l.e.b;
            let bits = b.ins().bitcast(I32X4, little(), v);
            let sign = b.ins().band(bits, sign_bit);
            let magnitude = b.ins().bxor(bits, sign);
            // Adding 0.5 to a number that becomes denormal aligns its significand with that of the
            // result, so the addition rounds it correctly.
            let number = b.ins().bitcast(F32X4, little(), magnitude);
            let beside = b.ins().fadd(number, half);
            let beside = b.ins().bitcast(I32X4, little(), beside);
            let denormal = b.ins().isub(beside, half_bits);
            let normal = l.round_at(magnitude, 13, below_half, one);
            let b = &mut l.e.b;
            let normal = b.ins().smin(normal, infinity);
            let small = b.ins().icmp(IntCC::SignedLessThan, magnitude, least);
            let finite = b.ins().bitselect(small, denormal, normal);
            let unordered = b.ins().icmp(IntCC::SignedGreaterThan, magnitude, f32_infinity);
            let number = b.ins().bitselect(unordered, nan, finite);
            let amount = b.ins().iconst(I32, 16);
            let sign = b.ins().ushr(sign, amount);
            b.ins().bor(number, sign)
        })
    }

    /// Shifts right by `at` bits, rounding to nearest even. `below_half` is half of the last
    /// remaining bit minus one, plus anything else that is to be added.
    fn round_at(&mut self, bits: Value, at: i64, below_half: Value, one: Value) -> Value {
        let b = &mut self.e.b;
        let amount = b.ins().iconst(I32, at);
        let kept = b.ins().ushr(bits, amount);
        let odd = b.ins().band(kept, one);
        let up = b.ins().iadd(odd, below_half);
        let rounded = b.ins().iadd(bits, up);
        b.ins().ushr(rounded, amount)
    }

    fn shift_left(&mut self, v: Value, by: i64) -> Value {
        let amount = self.e.b.ins().iconst(I32, by);
        self.e.b.ins().ishl(v, amount)
    }

    /// Loads four 16-bit values into `i32` lanes.
    pub(super) fn load_halves(&mut self, flags: MemFlagsData, signed: bool, address: Value, near: i32) -> Value {
        let b = &mut self.e.b;
        let four = b.ins().load(I64, flags, address, near);
        let four = b.ins().scalar_to_vector(I64X2, four);
        let four = b.ins().bitcast(I16X8, little(), four);
        if signed { b.ins().swiden_low(four) } else { b.ins().uwiden_low(four) }
    }

    /// Stores four 16-bit values.
    pub(super) fn store_halves(&mut self, flags: MemFlagsData, v: Value, address: Value, near: i32) {
        // Saturation does not apply: as signed numbers, the values keep their bits.
        let high = self.shift_left(v, 16);
        let b = &mut self.e.b;
        let amount = b.ins().iconst(I32, 16);
        let signed = b.ins().sshr(high, amount);
        let four = b.ins().snarrow(signed, signed);
        let four = b.ins().bitcast(I64X2, little(), four);
        let four = b.ins().extractlane(four, 0);
        b.ins().store(flags, four, address, near);
    }
}
