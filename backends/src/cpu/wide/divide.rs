//! Division of floats by a loop-invariant divisor. A division of 16 floats takes ten cycles. If a
//! body does little else, the reciprocal of the divisor is computed once, and each quotient takes
//! four instructions instead, with the same bits.
//!
//! The reciprocal is split into a rounded part and its error, so the first quotient is off by less
//! than one ulp. Its remainder is exact, and multiplied by the rounded reciprocal it corrects the
//! quotient to the correctly rounded one (Markstein, "Computation of elementary functions on the
//! IBM RISC System/6000 processor", 1990). That holds if nothing overflows or becomes denormal on
//! the way. If the divisor or the dividend of any lane is outside of a safe range, the group is
//! divided.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use ir::nest::ValueId;
use ir::{Dtype, Scalar};

use super::arguments::{Argument, Divisor};
use super::inst::{Class, Item, Operand, Region, Registers, Slot, Splat};
use super::lanes::WideX86;
use super::op::VectorOp;
use crate::cpu::emit::Emitter;
use crate::cpu::leaf::is_wide;
use crate::cpu::scalar;

/// With more operations than this, a body is not dominated by a division.
const LIGHT: usize = 8;

/// The safe range of magnitudes of dividends and divisors, as bits without a sign: a minimum, and
/// the first value beyond. They are powers of two that keep the exponents of quotients and
/// remainders far from the limits.
fn magnitudes(wide: bool) -> (i64, i64) {
    if wide { ((1023 - 400) << 52, (1023 + 400) << 52) } else { ((127 - 60) << 23, (127 + 60) << 23) }
}

/// Computes a value from a divisor.
pub(super) fn argument(e: &mut Emitter<'_>, value: ValueId, part: Divisor) -> Value {
    let dtype = e.dtype(value);
    let divisor = e.value(value);
    let negated = e.b.ins().fneg(divisor);
    let one = scalar::constant(&mut e.b, Scalar::one(dtype));
    let reciprocal = e.b.ins().fdiv(one, divisor);
    match part {
        Divisor::Reciprocal => reciprocal,
        Divisor::Rest => {
            let lacks = e.b.ins().fma(negated, reciprocal, one);
            e.b.ins().fmul(lacks, reciprocal)
        }
        Divisor::Negated => negated,
        Divisor::Span => {
            let (least, past) = magnitudes(is_wide(dtype));
            let ty = scalar::register(dtype).as_int();
            let bits = e.b.ins().bitcast(ty, MemFlagsData::new(), divisor);
            // Doubling the bits drops the sign.
            let twice = e.b.ins().iadd(bits, bits);
            let [first, span, none] = [2 * least, 2 * (past - least), 0].map(|k| e.b.ins().iconst(ty, k));
            let above = e.b.ins().isub(twice, first);
            let inside = e.b.ins().icmp(IntCC::UnsignedLessThan, above, span);
            e.b.ins().select(inside, span, none)
        }
    }
}

impl WideX86<'_, '_> {
    /// The scalar of an operand, if it pays to multiply by its reciprocal.
    pub(super) fn divisor(&self, operand: Operand) -> Option<ValueId> {
        let Operand::Splat(Splat::Slot32(Slot(slot)) | Splat::Slot64(Slot(slot))) = operand else { return None };
        match self.shared.arguments.get(slot as usize) {
            Some(Argument::Value(value)) if self.leaf.weight() <= LIGHT => Some(*value),
            _ => None,
        }
    }

    /// Divides by a scalar.
    pub(super) fn quotients(&mut self, dtype: Dtype, a: &Registers, value: ValueId, divisor: Operand) -> Registers {
        a.iter().map(|a| self.quotient(dtype, *a, value, divisor)).collect()
    }

    fn quotient(&mut self, dtype: Dtype, a: Operand, value: ValueId, divisor: Operand) -> Operand {
        let wide = is_wide(dtype);
        let part = |l: &mut Self, part| {
            let slot = l.shared.slot(Argument::Divisor(value, part));
            Operand::Splat(if wide { Splat::Slot64(slot) } else { Splat::Slot32(slot) })
        };
        let least = 2 * magnitudes(wide).0.cast_unsigned();
        let least = Operand::Splat(if wide { Splat::Bits64(least) } else { Splat::Bits32(least as u32) });
        // One unsigned comparison checks both ends of the safe range.
        let twice = self.vector(VectorOp::Add(wide), &[a, a]);
        let above = self.vector(VectorOp::Sub(wide), &[twice, least]);
        let span = part(self, Divisor::Span);
        let not_below = Operand::Immediate(5);
        let outside = self.mask(VectorOp::UCompare(wide), &[above, span, not_below]);

        let reciprocal = part(self, Divisor::Reciprocal);
        let rest = part(self, Divisor::Rest);
        let negated = part(self, Divisor::Negated);
        let low = self.vector(VectorOp::FMul(wide), &[a, rest]);
        let near = self.fused(wide, a, reciprocal, low);
        let remainder = self.fused(wide, near, negated, a);
        let quotient = self.fused(wide, remainder, reciprocal, near);

        let Some(condition) = outside.register() else { return quotient };
        let outer = std::mem::take(&mut self.body.items);
        let divided = self.vector(VectorOp::FDiv(wide), &[a, divisor]);
        let body = std::mem::replace(&mut self.body.items, outer);
        let result = self.register(Class::Vector);
        let results = vec![(result, quotient, divided)];
        self.body.items.push(Item::Region(Region { condition, when: true, body, results }));
        Operand::Register(result)
    }
}
