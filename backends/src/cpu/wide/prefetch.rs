//! Software prefetching of arrays that do not fit into the caches.
//!
//! The hardware prefetcher keeps too few lines in flight to saturate the memory bandwidth. How to
//! make it fetch more depends on the vendor ([`Memory`]):
//!
//! - Intel's prefetcher runs along a page until its end once the page is touched. So each step of a
//!   leaf prefetches as many lines as it reads, but spread over several of the next **pages**, and
//!   the processor then runs along each of them. Reading 64 MB takes 0.7 of the time that way, and
//!   so does a copy with non-temporal stores. Prefetching the same lines in order gains only 10 %
//!   (one core of a Xeon of 2023).
//! - AMD's gets slower by that: 64 MB and 1 GB take 1.5 times as long (one core of an EPYC of
//!   2023). It works best if a single instruction reads a whole **stream**. A loop with one load
//!   for each of two arrays reaches 27 GB/s, while eight loads for each, of eight lines, reach 19
//!   (two arrays of 256 MB; from the caches, eight loads are faster). So a reduction with little
//!   computation, which is limited by memory, is not unrolled. Loops with stores do not gain.
//!
//! If several loops go over the same row, the one with the most computation prefetches the next
//! row. Memory then works while it computes, and the first loop finds its row in the cache.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use ir::Size;
use ir::leaf::{Access, Inst, Leaf, LeafStep};
use ir::nest::Role;

use super::arguments::{Argument, Shared};
use super::assemble::{Assembler, Condition, INDEX, OTHER, SPARE};
use super::inst::Slot;
use crate::cpu::emit::Emitter;
use crate::cpu::sizes::{Distance, PAGE, PAGES, bytes_of};

/// The size of a cache line.
const LINE: u32 = 64;
/// Accesses that are fewer elements apart than this read the same pages.
const NEAR: i64 = 1024;
/// A loop counts as reading whole rows even if it skips up to this many elements of each.
const SLACK: i64 = 64;

/// The accesses of a leaf that are prefetched.
#[derive(Default)]
pub(super) struct Prefetches(Vec<usize>);

/// A prefetched access and the slot of its distance.
pub(super) struct Prefetch {
    access: usize,
    pub(super) distance: Slot,
}

/// The prefetch distance of an access.
pub(super) fn distance(e: &Emitter<'_>, leaf: &Leaf, access: usize) -> Distance {
    let a = &leaf.accesses[access];
    let width = Size::constant(e.buffer_dtype(a.buffer).bytes() as i64);
    let several = !a.start.affine.terms().is_empty();
    Distance {
        bytes: bytes_of(e.unit.program, a.buffer),
        row: e.length(leaf.index).filter(|_| several).map(|length| length * &width),
        waits: e.wide.as_ref().is_some_and(|wide| wide.waits(a.buffer, leaf.index)),
    }
}

impl Prefetches {
    /// The accesses of a leaf that load all of an array.
    pub(super) fn of(e: &Emitter<'_>, leaf: &Leaf) -> Prefetches {
        let mut found: Vec<usize> = vec![];
        leaf.for_each_step(&leaf.steps, &mut |step| {
            let LeafStep::Value(id) = step else { return };
            let Inst::Load(access) = leaf.values[*id].1 else { return };
            let a = &leaf.accesses[access];
            if is_dense(e, leaf, a) && !found.iter().any(|other| is_near(a, &leaf.accesses[*other])) {
                found.push(access);
            }
        });
        Prefetches(found)
    }

    /// The prefetches, each with the slot of its distance.
    pub(super) fn slots(&self, shared: &mut Shared) -> Vec<Prefetch> {
        let prefetch =
            |access: &usize| Prefetch { access: *access, distance: shared.slot(Argument::Distance(*access)) };
        self.0.iter().map(prefetch).collect()
    }
}

/// Whether the loops around the leaf continue where it ends, so that together they read the array
/// contiguously.
fn is_dense(e: &Emitter<'_>, leaf: &Leaf, a: &Access) -> bool {
    let is_array = e.unit.program.buffers.get(a.buffer).is_some_and(|buffer| buffer.role != Role::Scratch);
    if !is_array || !a.contiguous() || a.inner || a.spread || !a.start.values.is_empty() {
        return false;
    }
    // An access that begins at the same element each time the leaf runs has been read before, if
    // the leaf runs more than once.
    let around = leaf.accesses.iter().any(|a| !a.start.affine.terms().is_empty());
    let rows = a.start.affine.terms();
    let follows = |stride: &Size| {
        let apart = e.length(leaf.index).map(|length| stride - length);
        apart.and_then(|apart| apart.as_constant()).is_some_and(|apart| (0..=SLACK).contains(&apart))
    };
    !around || rows.iter().any(|(_, stride)| follows(stride))
}

/// Whether two accesses read the same elements at about the same time.
fn is_near(a: &Access, b: &Access) -> bool {
    a.behind(b).is_some_and(|apart| apart.abs() < NEAR)
}

/// Emits the prefetches of a step of this many elements.
pub(super) fn emit(asm: &mut Assembler, prefetches: &[Prefetch], step: i32) {
    for Prefetch { access, distance } in prefetches {
        let width = asm.addresses[*access].width;
        let lines = step.unsigned_abs() * width / LINE;
        if lines == 0 {
            continue;
        }
        let pages = lines.min(PAGES);
        let skip = asm.label();
        asm.general(Instruction::with2(Code::Cmp_rm64_imm8, Assembler::slot(*distance), 0));
        asm.jump(Condition::LessOrEqual, skip);
        let base = asm.address(*access);
        let at = MemoryOperand::with_base_index_scale(base, INDEX, width);
        asm.general(Instruction::with2(Code::Lea_r64_m, SPARE, at));
        // The position within a span of pages determines how far each page has been prefetched.
        let done = Register::R11D;
        asm.general(Instruction::with2(Code::Mov_r32_rm32, done, Register::EAX));
        asm.general(Instruction::with2(Code::And_rm32_imm32, done, (pages * PAGE - 1).cast_signed()));
        asm.general(Instruction::with2(Code::Sub_r64_rm64, SPARE, OTHER));
        asm.general(Instruction::with2(Code::Add_r64_rm64, SPARE, Assembler::slot(*distance)));
        asm.general(Instruction::with2(Code::Shr_rm32_imm8, done, pages.ilog2()));
        for page in 0..pages {
            for line in 0..lines / pages {
                let bytes = i64::from(page * PAGE + line * LINE);
                let line = MemoryOperand::with_base_index_scale_displ_size(SPARE, OTHER, 1, bytes, 1);
                asm.general(Instruction::with1(Code::Prefetcht0_m8, line));
            }
        }
        asm.place(skip);
    }
}
