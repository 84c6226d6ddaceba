//! Loads of every second, third or fourth element, and of elements in reverse: whole vectors, of which permutations pick the elements.
//! (What lies further apart is gathered, and so is a group that is not whole: no element is touched that the loop does not have.)

use iced_x86::Code;

use super::inst::{Class, Lanes, Operand, Place};
use super::lanes::{Parts, WideX86};
use crate::cpu::leaf::Access;

/// How far apart elements may lie.
const MOST: i64 = 4;

/// The elements from one of an access to the next, if it is one for here.
pub(super) fn step(a: &Access) -> Option<i32> {
    let step = a.stride.as_constant().filter(|step| *step == -1 || (2..=MOST).contains(step))?;
    if a.gathered.is_empty() { i32::try_from(step).ok() } else { None }
}

impl WideX86<'_, '_> {
    /// A whole group of an access that steps by `step`.
    pub(super) fn strided(&mut self, access: usize, step: i32, wide: bool) -> Parts {
        let lanes = if wide { 8 } else { 16 };
        let first = self.offset;
        let parts = (0..16 / lanes).map(|part| first + part * lanes);
        match step {
            -1 => parts.map(|offset| self.reversed(access, offset, lanes)).collect(),
            _ => parts.map(|offset| self.picked(access, step, offset, lanes)).collect(),
        }
    }

    /// As many elements as a register holds, from number `offset` on, which lie in reverse.
    fn reversed(&mut self, access: usize, offset: i32, lanes: i32) -> Operand {
        let code = if lanes == 8 {
            Code::EVEX_Vpermq_zmm_k1z_zmm_zmmm512b64
        } else {
            Code::EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32
        };
        let numbers = self.lane_numbers_by(lanes, |lane| lanes - 1 - lane);
        let place = Operand::Memory(Place::Stepped { access, step: -1, offset: 1 - lanes - offset });
        self.vector(code, &[numbers, place])
    }

    /// A number for each lane.
    fn lane_numbers_by(&mut self, lanes: i32, number: impl Fn(i32) -> i32) -> Operand {
        let mut bytes = [0; 64];
        let width = 64 / lanes.unsigned_abs() as usize;
        for (lane, bytes) in (0..lanes).zip(bytes.chunks_exact_mut(width)) {
            bytes[..4].copy_from_slice(&number(lane).to_le_bytes());
        }
        let numbers = self.shared.vector(bytes);
        self.vector(Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, &[numbers])
    }

    /// As many elements as a register holds, from number `offset` on.
    fn picked(&mut self, access: usize, step: i32, offset: i32, lanes: i32) -> Operand {
        // The last vector ends with the last element.
        let begin = |vector: i32| (vector * lanes).min((lanes - 1) * (step - 1));
        let load = |vector| Operand::Memory(Place::Stepped { access, step, offset: offset * step + begin(vector) });
        let code = if lanes == 8 {
            Code::EVEX_Vpermt2q_zmm_k1z_zmm_zmmm512b64
        } else {
            Code::EVEX_Vpermt2d_zmm_k1z_zmm_zmmm512b32
        };
        let mut found = load(0);
        for vector in 1..step {
            // Elements of the first vectors are there already, or for the first time are picked from one; others come from this one.
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
