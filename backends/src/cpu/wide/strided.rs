//! Loads with stride 2, 3, 4 or -1: whole vectors, from which permutations select the elements.
//! Larger strides use gathers. So do masked groups, because no element may be loaded that the loop
//! does not access.

use super::inst::{Class, Lanes, MemoryRef, Operand};
use super::lanes::{Registers, WideX86};
use super::op::{VectorOp, W32, W64};
use ir::leaf::Access;

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
}
