//! Arrays beyond the caches, fetched before their turn.
//!
//! A processor fetches ahead by itself, but only to the end of the page that it reads, and that keeps too few lines in flight to fill
//! the time that memory takes. So a step of a leaf asks for as many lines as it reads, of the pages behind those at hand, and spreads them
//! over several pages, each of which the processor then runs along by itself. Read alone, 64 MB come in 0.7 of the time that way, and a
//! copy past the caches in 0.7; asked for in their order the same lines gain a tenth (one core of a Xeon of 2023).

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use ir::nest::Role;

use super::assemble::{Assembler, Condition, INDEX, OTHER, SPARE};
use super::inst::Slot;
use super::lanes::{Given, Shared};
use crate::cpu::emit::Emitter;
use crate::cpu::leaf::{Access, Inst, Leaf, Step};

/// Arrays of more bytes than this are not in a core's caches.
pub(super) const FAR: i64 = 2 << 20;
/// Pages that are run along at once, at most.
const PAGES: u32 = 4;
/// Bytes of a page, and of a line.
const PAGE: u32 = 4096;
const LINE: u32 = 64;
/// Accesses whose distance is that of fewer elements read the same pages.
const NEAR: i64 = 1024;
/// So many elements of a row may stay unread.
const SLACK: i64 = 64;

/// Accesses that a leaf reads ahead.
#[derive(Default)]
pub(super) struct Ahead(Vec<usize>);

/// An access that is read ahead where the slot is not 0.
pub(super) struct Read {
    access: usize,
    far: Slot,
}

impl Ahead {
    /// The accesses of a leaf that load what nothing before it in the kernel has loaded, and all of it.
    pub(super) fn of(e: &mut Emitter<'_>, leaf: &Leaf) -> Ahead {
        let Some(wide) = &e.wide else { return Ahead(vec![]) };
        let mut found: Vec<usize> = vec![];
        leaf.for_each_step(&leaf.steps, &mut |step| {
            let Step::Value(id) = step else { return };
            let Inst::Load(access) = leaf.values[*id].1 else { return };
            let a = &leaf.accesses[access];
            // Copies of a body, of which one runs, come one after another.
            let first = e.cuts > 0 || !wide.fetched.contains(&a.buffer);
            if first && is_dense(e, leaf, a) && !found.iter().any(|other| is_near(a, &leaf.accesses[*other])) {
                found.push(access);
            }
        });
        if let Some(wide) = &mut e.wide {
            wide.fetched.extend(found.iter().map(|access| leaf.accesses[*access].buffer));
        }
        Ahead(found)
    }

    /// With their slots.
    pub(super) fn reads(&self, shared: &mut Shared) -> Vec<Read> {
        let read = |access: &usize| Read { access: *access, far: shared.slot(Given::Far(*access)) };
        self.0.iter().map(read).collect()
    }
}

/// Whether a loop around the leaf goes on where it ends.
fn is_dense(e: &Emitter<'_>, leaf: &Leaf, a: &Access) -> bool {
    let is_array = e.program.buffers.get(a.buffer).is_some_and(|buffer| buffer.role != Role::Scratch);
    if !is_array || !a.contiguous() || a.inner || a.spread || !a.start.values.is_empty() {
        return false;
    }
    // What begins at the same place whenever the leaf runs has been read before, if it runs more than once.
    let around = leaf.accesses.iter().any(|a| !a.start.affine.terms().is_empty());
    let rows = a.start.affine.terms();
    let follows = |stride: &ir::Size| {
        let apart = e.length(leaf.index).map(|length| stride - length);
        apart.and_then(|apart| apart.as_constant()).is_some_and(|apart| (0..=SLACK).contains(&apart))
    };
    !around || rows.iter().any(|(_, stride)| follows(stride))
}

/// Whether two accesses read the same elements about the same time.
fn is_near(a: &Access, b: &Access) -> bool {
    let apart = a.start.affine.sub(&b.start.affine);
    let apart = apart.as_size().and_then(ir::Size::as_constant);
    a.buffer == b.buffer && apart.is_some_and(|apart| apart.abs() < NEAR)
}

/// Asks for as much as a step of so many elements reads.
pub(super) fn fetch(asm: &mut Assembler, reads: &[Read], step: i32) {
    for Read { access, far } in reads {
        let width = asm.addresses[*access].width;
        let lines = step.unsigned_abs() * width / LINE;
        if lines == 0 {
            continue;
        }
        let pages = lines.min(PAGES);
        let (span, skip) = (pages * PAGE, asm.label());
        asm.general(Instruction::with2(Code::Cmp_rm64_imm8, Assembler::slot(*far), 0));
        asm.jump(Condition::Equal, skip);
        let base = asm.address(*access);
        let at = MemoryOperand::with_base_index_scale(base, INDEX, width);
        asm.general(Instruction::with2(Code::Lea_r64_m, SPARE, at));
        // Where it is in a span of pages; of each page behind that one goes as far.
        let done = Register::R11D;
        asm.general(Instruction::with2(Code::Mov_r32_rm32, done, Register::EAX));
        asm.general(Instruction::with2(Code::And_rm32_imm32, done, (span - 1).cast_signed()));
        asm.general(Instruction::with2(Code::Sub_r64_rm64, SPARE, OTHER));
        asm.general(Instruction::with2(Code::Shr_rm32_imm8, done, pages.ilog2()));
        for page in 0..pages {
            for line in 0..lines / pages {
                let bytes = i64::from(span + page * PAGE + line * LINE);
                let line = MemoryOperand::with_base_index_scale_displ_size(SPARE, OTHER, 1, bytes, 1);
                asm.general(Instruction::with1(Code::Prefetcht0_m8, line));
            }
        }
        asm.place(skip);
    }
}
