//! Accesses that are not contiguous: other strides, and subscripts that are data. Each lane
//! computes the number of its element, relative to the current one.

use ir::Size;

use super::inst::{Class, Lanes, MemoryRef, Operand, Plain, Splat};
use super::lanes::{Registers, WideX86};
use super::op::{VectorOp, W64};

impl WideX86<'_, '_> {
    /// The element numbers of an access for the lanes of a part, relative to its current address.
    fn numbers(&mut self, access: usize, gathered: &[Registers], part: usize) -> Operand {
        let a = &self.leaf.accesses[access];
        let mut sum: Option<Operand> = None;
        for (subscript, (_, stride)) in gathered.iter().zip(&a.gathered) {
            let term = self.times(subscript[part], stride);
            sum = Some(sum.map_or(term, |sum| self.vector(VectorOp::Add(W64), &[sum, term])));
        }
        if a.stride.is_zero()
            && let Some(sum) = sum
        {
            return sum;
        }
        let lanes = self.lane_numbers(part, &a.stride);
        match sum {
            Some(sum) => self.vector(VectorOp::Add(W64), &[sum, lanes]),
            None => self.vector(VectorOp::LoadNumbers, &[lanes]),
        }
    }

    /// The number of each lane times a size.
    fn lane_numbers(&mut self, part: usize, times: &Size) -> Operand {
        let first = i64::from(self.isa().half()) * part as i64;
        if let Some(step) = times.as_constant() {
            return self.shared.numbers(first.wrapping_mul(step), step);
        }
        let lanes = self.shared.numbers(first, 1);
        let lanes = self.vector(VectorOp::LoadNumbers, &[lanes]);
        self.times(lanes, times)
    }

    /// Gathers lanes of four or eight bytes.
    pub(super) fn gather(&mut self, access: usize, gathered: &[Registers], wide: bool) -> Registers {
        let code = VectorOp::Gather(wide);
        let zero = Operand::Splat(Splat::Bits32(0));
        let mut parts = vec![];
        for part in 0..2 {
            let Some(numbers) = self.numbers(access, gathered, part).register() else { continue };
            let place = Operand::Memory(MemoryRef::Scattered { access, offset: self.offset, numbers });
            let to = self.register(Class::Vector);
            let lanes = Lanes::Active { upper: part == 1, zero: false };
            self.push(Plain {
                code,
                to: Some(to),
                fixed: None,
                over: Some(zero),
                from: vec![place],
                lanes,
                clobbers_mask: true,
            });
            parts.push(Operand::Register(to));
        }
        if wide { parts } else { vec![self.joined(&parts)] }
    }

    pub(super) fn scatter(&mut self, access: usize, gathered: &[Registers], wide: bool, value: &Registers) {
        let code = VectorOp::Scatter(wide);
        let parts = if wide { value.clone() } else { self.halves(value[0]) };
        for (part, value) in parts.into_iter().enumerate() {
            let Some(numbers) = self.numbers(access, gathered, part).register() else { continue };
            let place = Operand::Memory(MemoryRef::Scattered { access, offset: self.offset, numbers });
            let lanes = Lanes::Active { upper: part == 1, zero: false };
            let (to, fixed, over, from) = (None, None, None, vec![place, value]);
            self.push(Plain { code, to, fixed, over, from, lanes, clobbers_mask: true });
        }
    }
}
