//! 16-bit floats in `Lanes128`. Cranelift has no arithmetic on them: in a lane of 32 bits stand their bits, zeros above, and
//! conversions to and from `f32` are integer arithmetic. Every NaN narrows to one NaN; the rest is rounded once, to
//! nearest even.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32X4, I16X8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use ir::{CompareOp, Dtype};

use super::lanes128::{Lanes128, Parts, little, splat_bits};
use super::scalar;

/// The bits of `f16` that are not its sign, and those of its infinity and of a NaN.
const F16_MAGNITUDE: u64 = 0x7fff;
const F16_INFINITY: u64 = 0x7c00;
const F16_NAN: u64 = 0x7e00;
/// A NaN of `bf16`.
const BF16_NAN: u64 = 0x7fc0;
/// The same of `f32`.
const F32_SIGN: u64 = 0x8000_0000;
const F32_INFINITY: u64 = 0x7f80_0000;
/// What the exponents of `f16` and `f32` differ by, as `f32` bits; and as a factor, 2^112.
const REBIAS: u64 = 112 << 23;
const UP: u64 = (112 + 127) << 23;
/// The least normal number of `f16`, in `f32`.
const F16_LEAST_NORMAL: u64 = 113 << 23;
/// A half, whose last bit weighs what that of a denormal `f16` does.
const HALF: u64 = 126 << 23;

impl Lanes128<'_, '_> {
    /// 16-bit floats as `f32`: exact.
    pub(super) fn widen_half(&mut self, from: Dtype, v: &Parts) -> Parts {
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
            // As a float the shifted bits are 2^112 too small: denormals too.
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

    /// `f32` as 16-bit floats.
    pub(super) fn narrow_half(&mut self, to: Dtype, v: &Parts) -> Parts {
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
            // Beside a half, the addition rounds a number that will be denormal.
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

    /// The bits from `at` up, those below rounded to nearest even; `below_half` is just less than a half of the last bit that
    /// stays, and whatever else is to be added.
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

    /// Four numbers of 16 bits in memory.
    pub(super) fn load_halves(&mut self, flags: MemFlagsData, address: Value, near: i32) -> Value {
        let b = &mut self.e.b;
        let four = b.ins().load(I64, flags, address, near);
        let four = b.ins().scalar_to_vector(I64X2, four);
        let four = b.ins().bitcast(I16X8, little(), four);
        b.ins().uwiden_low(four)
    }

    /// Four numbers of 16 bits to memory.
    pub(super) fn store_halves(&mut self, flags: MemFlagsData, v: Value, address: Value, near: i32) {
        // As signed numbers they keep their bits.
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
