//! Minimum or maximum of many floats in vectors: NaN if there is one, and -0 below +0.
//!
//! Processor instructions do neither (on x86 they return the second operand if either is NaN or
//! both are zeros), and a correct sequence takes seven of them. For many elements it is cheaper to
//! track three things: the extreme according to a single instruction, which ignores NaN; whether
//! there was a NaN; and the signs of all elements. If the extreme is a zero, the signs determine
//! its sign: the maximum is +0 unless every sign bit is set, and the minimum is +0 unless some sign
//! bit is set.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32X4, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value};
use ir::{Dtype, Monoid, Scalar};

use super::emit::Emitter;
use super::fold::Fold;
use super::lanes128::{self, little};

/// The state of the search: registers of extremes, the combined sign bits, and the combined NaN
/// masks.
pub(super) struct Best {
    fold: Fold,
    greatest: bool,
    float: Type,
    int: Type,
}

impl Best {
    /// Returns `None` for other reductions.
    pub(super) fn new(fold: Fold) -> Option<Best> {
        let greatest = match fold.op {
            Monoid::Max => true,
            Monoid::Min => false,
            Monoid::Sum | Monoid::Prod | Monoid::Any | Monoid::All => return None,
        };
        if !matches!(fold.dtype, Dtype::F32 | Dtype::F64) {
            return None;
        }
        let float = lanes128::vector(fold.dtype, false);
        Some(Best { fold, greatest, float, int: if float == F32X4 { I32X4 } else { I64X2 } })
    }

    /// The number of values in the state, for `registers` registers at a time.
    pub(super) fn carried(registers: usize) -> usize {
        registers + 2
    }

    pub(super) fn initial(&self, e: &mut Emitter<'_>, registers: usize) -> Vec<Value> {
        let mut state = vec![lanes128::splat_constant(e, self.fold.identity()); registers];
        state.push(lanes128::splat_bits(e, self.int, if self.greatest { u64::MAX } else { 0 }));
        state.push(lanes128::splat_bits(e, self.int, 0));
        state
    }

    /// Merges elements. There are at most as many registers of them as the state has.
    pub(super) fn take(&self, e: &mut Emitter<'_>, state: &mut [Value], x: &[Value]) {
        let [best @ .., signs, nans] = state else { return };
        for (best, x) in best.iter_mut().zip(x) {
            *best = self.better(e, *x, *best);
        }
        for x in x {
            let bits = e.b.ins().bitcast(self.int, little(), *x);
            *signs = if self.greatest { e.b.ins().band(*signs, bits) } else { e.b.ins().bor(*signs, bits) };
        }
        for pair in x.chunks(2) {
            let nan = e.b.ins().fcmp(FloatCC::Unordered, pair[0], pair[pair.len() - 1]);
            *nans = e.b.ins().bor(*nans, nan);
        }
    }

    /// The better of two vectors or scalars, and `old` if they are unordered or equal. It is one
    /// instruction on x86.
    fn better(&self, e: &mut Emitter<'_>, new: Value, old: Value) -> Value {
        let (low, high) = if self.greatest { (old, new) } else { (new, old) };
        let takes = e.b.ins().fcmp(FloatCC::LessThan, low, high);
        let ty = e.b.func.dfg.value_type(new);
        if !ty.is_vector() {
            return e.b.ins().select(takes, new, old);
        }
        let takes = e.b.ins().bitcast(ty, little(), takes);
        e.b.ins().bitselect(takes, new, old)
    }

    pub(super) fn finish(&self, e: &mut Emitter<'_>, state: &[Value]) -> Value {
        let [best @ .., signs, nans] = state else { unreachable!("there are signs and NaN") };
        let mut best = best.to_vec();
        while best.len() > 1 {
            let upper = best.split_off(best.len() / 2);
            best = best.into_iter().zip(upper).map(|(a, b)| self.better(e, a, b)).collect();
        }
        let lanes = self.float.lane_count();
        let mut scalar = e.b.ins().extractlane(best[0], 0);
        for lane in 1..lanes {
            let other = e.b.ins().extractlane(best[0], u8::try_from(lane).expect("few lanes"));
            scalar = self.better(e, other, scalar);
        }
        let int = self.int.lane_type();
        let mut bits = e.b.ins().bitcast(int, MemFlagsData::new(), scalar);
        let magnitude = e.b.ins().ishl_imm_u(bits, 1);
        let zero = e.b.ins().icmp_imm_s(IntCC::Equal, magnitude, 0);
        let high = e.b.ins().vhigh_bits(I32, *signs);
        let all = (1i64 << lanes) - 1;
        let (condition, bound) = if self.greatest { (IntCC::Equal, all) } else { (IntCC::NotEqual, 0) };
        let negative = e.b.ins().icmp_imm_s(condition, high, bound);
        let (plus, minus) =
            (e.b.ins().iconst(int, 0), e.b.ins().iconst(int, if int == I64 { i64::MIN } else { 1 << 31 }));
        let signed = e.b.ins().select(negative, minus, plus);
        bits = e.b.ins().select(zero, signed, bits);
        let nan = e.b.ins().vany_true(*nans);
        let quiet = if int == I64 { Scalar::F64(f64::NAN) } else { Scalar::F32(f32::NAN) };
        let quiet = e.b.ins().iconst(int, quiet.bits().cast_signed());
        bits = e.b.ins().select(nan, quiet, bits);
        e.b.ins().bitcast(self.float.lane_type(), MemFlagsData::new(), bits)
    }
}
