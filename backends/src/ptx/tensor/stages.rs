//! Stages of shared memory that one thread fills by bulk copies, and warps empty. Each has two
//! arrival barriers: `full`, where the bytes of its tiles arrive, and `free`, where the warps
//! arrive that are done with them.

use super::pipeline::Ring;
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::inst::{Address, Comparison, Opcode, Reg, Special, Type};

/// The threads that multiply, and those of the group that copies.
pub(super) const MULTIPLY: i64 = 256;
pub(super) const COPY: i64 = 128;
/// The registers of each: together as many as a multiprocessor has.
const TO_MULTIPLY: u32 = 232;
const TO_COPY: u32 = 40;
pub(super) const WARP: i64 = 32;
/// The bytes of a stage's two barriers, and where the second one is.
pub(super) const BARRIERS: i64 = 16;
const FREE: i64 = 8;
/// How long the thread that fills stages sleeps between two looks at one that is not free.
const NAP: u32 = 64;

/// A ring of stages in memory.
#[derive(Clone, Copy)]
pub(super) struct Stages {
    pub(super) ring: Ring,
    pub(super) base: Reg,
    pub(super) barriers: Reg,
}

/// A thread's place in a ring: the number of a stage, and the parity of the phase of its barriers.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) number: Reg,
    pub(super) parity: Reg,
}

impl Emitter<'_> {
    /// Makes the barriers of some rings, and shares out the block: one thread of the last group
    /// copies, and the others multiply, with most of the registers.
    pub(super) fn copy_and_multiply(
        &mut self,
        rings: &[Stages],
        copy: impl FnOnce(&mut Self),
        multiply: impl FnOnce(&mut Self),
    ) {
        let thread = self.special(Special::Tid);
        self.make_arrivals(rings);
        let copies = self.b().set(Comparison::Ge, Type::S64, thread, MULTIPLY);
        self.either(
            copies,
            |e| {
                e.b().set_registers(false, TO_COPY);
                let one = e.b().set(Comparison::Eq, Type::S64, thread, MULTIPLY);
                e.when(one, copy);
            },
            |e| {
                e.b().set_registers(true, TO_MULTIPLY);
                multiply(e);
            },
        );
    }

    /// Makes the barriers of some rings. All warps that multiply empty each stage.
    fn make_arrivals(&mut self, rings: &[Stages]) {
        let thread = self.special(Special::Tid);
        let first = self.b().set(Comparison::Eq, Type::S64, thread, 0);
        self.when(first, |e| {
            for Stages { ring, barriers, .. } in rings {
                for number in 0..ring.stages {
                    let at = |at| Address { base: Some(*barriers), offset: number * BARRIERS + at };
                    e.b().init_arrivals(at(0), 1);
                    e.b().init_arrivals(at(FREE), (MULTIPLY / WARP) as u32);
                }
            }
            e.b().fence_arrivals();
        });
        self.b().barrier();
    }

    pub(super) fn first_turn(&mut self) -> Turn {
        let (number, parity) = (self.int(0), self.b().mov(Type::B32, 0));
        Turn { number: self.b().copy(number), parity: self.b().copy(parity) }
    }

    /// Advances to the next stage. After the last one, the next phase begins.
    pub(super) fn advance(&mut self, stages: &Stages, Turn { number, parity }: Turn) {
        let next = self.b().op2(Opcode::Add, Type::S64, number, 1);
        let is_last = self.b().set(Comparison::Eq, Type::S64, next, stages.ring.stages);
        let next = self.b().select(Type::B64, 0, next, is_last);
        let flips = self.b().select(Type::B32, 1, 0, is_last);
        self.b().assign(number, next);
        self.b().op_to(parity, Opcode::Xor, Type::B32, &[parity.into(), flips.into()]);
    }

    /// The barriers of a stage: `full` and `free`.
    pub(super) fn barriers(&mut self, stages: &Stages, turn: Turn) -> [Address; 2] {
        let mad = [turn.number.into(), BARRIERS.into(), stages.barriers.into()];
        let base = Some(self.b().op(Opcode::Mad, Type::S64, &mad));
        [0, FREE].map(|offset| Address { base, offset })
    }

    /// The address of a stage.
    pub(super) fn stage(&mut self, stages: &Stages, turn: Turn) -> Reg {
        let mad = [turn.number.into(), stages.ring.stage().into(), stages.base.into()];
        self.b().op(Opcode::Mad, Type::S64, &mad)
    }

    /// Waits until a stage is free, and lets the bytes of its tiles arrive. Returns the address of
    /// the stage, and where they arrive.
    pub(super) fn fill_stage(&mut self, stages: &Stages, turn: Turn) -> (Reg, Address) {
        let [full, free] = self.barriers(stages, turn);
        // Stages are free at first: the phase before the first one counts as ended.
        let before = self.b().op2(Opcode::Xor, Type::B32, turn.parity, 1);
        // The stages after it are full, so there is time. Until then the thread leaves the cycles
        // of its scheduler to others.
        self.while_(|e| e.is_under_way(free, before), |e| e.b().sleep(NAP));
        self.b().arrive_expecting(full, u32::try_from(stages.ring.stage()).expect("a small number"));
        (self.stage(stages, turn), full)
    }

    /// Waits for the end of the phase with a parity.
    pub(super) fn await_phase(&mut self, at: Address, parity: Reg) {
        self.while_(|e| e.is_under_way(at, parity), |_| {});
    }

    fn is_under_way(&mut self, at: Address, parity: Reg) -> Reg {
        let ended = self.b().try_wait(at, parity);
        self.b().op(Opcode::Not, Type::Pred, &[ended.into()])
    }
}
