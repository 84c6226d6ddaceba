//! Accesses that are not whole vectors from one place: other strides, subscripts that are data, and
//! loads of almost the same elements.
//!
//! With stride 2, 3, 4 or -1, permutations select the elements from whole vectors. Larger strides
//! use gathers, for which each lane computes the number of its element, relative to the current
//! one. So do masked groups, because no element may be loaded that the loop does not access.

use ir::Size;
use ir::leaf::Access;

use super::inst::{Class, Lanes, MemoryRef, Operand, Plain, Registers, Splat};
use super::lanes::WideX86;
use super::neighbours::{Family, Loaded, Neighbours, lanes};
use super::op::{VectorOp, W32, W64};
use crate::cpu::leaf::is_wide;

/// The maximum stride.
const MOST: i64 = 4;

/// The stride of an access, if it is handled here.
pub(super) fn step(a: &Access) -> Option<i32> {
    let step = a.stride.as_constant().filter(|step| *step == -1 || (2..=MOST).contains(step))?;
    if a.gathered.is_empty() { i32::try_from(step).ok() } else { None }
}

impl WideX86<'_, '_> {
    /// Loads a whole group of an access with stride `step`.
    pub(super) fn strided(&mut self, access: usize, step: i32, wide: bool) -> Registers {
        let lanes = if wide { 8 } else { 16 };
        let first = self.offset;
        let parts = (0..16 / lanes).map(|part| first + part * lanes);
        match step {
            -1 => parts.map(|offset| self.reversed(access, offset, lanes)).collect(),
            _ => parts.map(|offset| self.picked(access, step, offset, lanes)).collect(),
        }
    }

    /// Loads the elements of a register from number `offset` on, in reverse.
    fn reversed(&mut self, access: usize, offset: i32, lanes: i32) -> Operand {
        let code = if lanes == 8 { VectorOp::Permute(W64) } else { VectorOp::Permute(W32) };
        let numbers = self.lane_numbers_by(lanes, |lane| lanes - 1 - lane);
        let place = Operand::Memory(MemoryRef::Stepped { access, step: -1, offset: 1 - lanes - offset });
        self.vector(code, &[numbers, place])
    }

    /// A vector with a number for each lane.
    fn lane_numbers_by(&mut self, lanes: i32, number: impl Fn(i32) -> i32) -> Operand {
        let mut bytes = [0; 64];
        let width = 64 / lanes.unsigned_abs() as usize;
        for (lane, bytes) in (0..lanes).zip(bytes.chunks_exact_mut(width)) {
            bytes[..4].copy_from_slice(&number(lane).to_le_bytes());
        }
        let numbers = self.shared.vector(bytes);
        self.vector(VectorOp::LoadNumbers, &[numbers])
    }

    /// Loads the elements of a register from number `offset` on, with a positive stride.
    fn picked(&mut self, access: usize, step: i32, offset: i32, lanes: i32) -> Operand {
        // The last vector ends with the last element, so that nothing behind it is loaded.
        let begin = |vector: i32| (vector * lanes).min((lanes - 1) * (step - 1));
        let load = |vector| Operand::Memory(MemoryRef::Stepped { access, step, offset: offset * step + begin(vector) });
        let code = if lanes == 8 { VectorOp::PermuteBoth(W64) } else { VectorOp::PermuteBoth(W32) };
        let mut found = load(0);
        for vector in 1..step {
            // Each permutation keeps the lanes that earlier vectors have filled, and takes the
            // others from this vector. The first one also selects those of vector 0.
            let numbers = self.lane_numbers_by(lanes, |lane| {
                let place = lane * step;
                match place / lanes {
                    0 if vector == 1 => place,
                    own if own >= vector => lanes + (place - begin(vector)) % lanes,
                    _ => lane,
                }
            });
            found = self.computes(Class::Vector, code, Some(found), &[numbers, load(vector)], Lanes::All);
        }
        found
    }

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

    /// Loads the vectors of each family for a step.
    pub(super) fn load_neighbours<'n>(&mut self, neighbours: &'n Neighbours) -> Loaded<'n> {
        let mut vectors = vec![];
        for family in &neighbours.0 {
            let first = family.members.iter().find(|(_, apart)| *apart == 0).map_or(0, |(access, _)| *access);
            let place = |n| Operand::Memory(MemoryRef::Along { access: first, offset: n * lanes(family.dtype) });
            let mut load = |n| self.vector(VectorOp::Load(W32), &[place(n)]);
            vectors.push((0..family.vectors).map(&mut load).collect());
        }
        Loaded { neighbours, vectors }
    }

    /// The elements of an access for the current group, if they have been loaded.
    pub(super) fn neighbour(&mut self, access: usize) -> Option<Registers> {
        let loaded = self.loaded?;
        let find = |(family, vectors): (&Family, _)| {
            let (_, apart) = family.members.iter().find(|(member, _)| *member == access)?;
            Some((family.dtype, *apart, vectors))
        };
        let (dtype, apart, vectors): (_, _, &Registers) =
            loaded.neighbours.0.iter().zip(&loaded.vectors).find_map(find)?;
        let lanes = lanes(dtype);
        let code = VectorOp::Align(is_wide(dtype));
        let mut parts = vec![];
        for part in 0..self.isa().group() / lanes {
            let begin = self.offset + apart + part * lanes;
            let vector = |number: i32| vectors.get(usize::try_from(number).ok()?).copied();
            let (low, by) = (vector(begin / lanes)?, u8::try_from(begin % lanes).ok()?);
            parts.push(match by {
                0 => low,
                _ => self.vector(code, &[vector(begin / lanes + 1)?, low, Operand::Immediate(by)]),
            });
        }
        Some(parts)
    }
}
