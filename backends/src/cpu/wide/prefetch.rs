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

use std::collections::BTreeSet;

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use ir::leaf::{Access, Inst, Leaf, LeafStep};
use ir::nest::{BufferId, IndexId, Kernel, Loop, Program, Role, Statement};
use ir::{Size, visit};

use super::assemble::{Assembler, Condition, INDEX, OTHER, SPARE};
use super::inst::Slot;
use super::lanes::{Argument, Shared};
use super::machine::Memory;
use crate::cpu::emit::Emitter;
use crate::cpu::formula::{Formula, Rule};

/// Arrays larger than this do not stay in a core's caches.
const FAR: i64 = 2 << 20;
/// Rows larger than this do not stay in the cache between loops, together with the next row.
const LONG: i64 = 512 << 10;
/// The prefetch distance in bytes. It is a row if that is longer.
const SPAN: i64 = (PAGES * PAGE) as i64;
/// The maximum number of pages to prefetch at once.
const PAGES: u32 = 4;
/// The size of a page, and of a cache line.
const PAGE: u32 = 4096;
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
        bytes: super::bytes_of(e.unit.program, a.buffer),
        row: e.length(leaf.index).filter(|_| several).map(|length| length * &width),
        waits: e.wide.as_ref().is_some_and(|wide| wide.waiting.contains(&(a.buffer, leaf.index))),
    }
}

/// The prefetch distance of an array in a loop. It depends on the sizes of a call.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cpu) struct Distance {
    /// The size of the array in bytes.
    bytes: Size,
    /// The size of a row in bytes, if there are several.
    row: Option<Size>,
    /// Whether another loop prefetches rows that stay in the cache.
    waits: bool,
}

impl Distance {
    /// The distance in bytes; 0 if there is nothing to prefetch, negative if the array is read as a
    /// stream.
    pub(in crate::cpu) fn formula(&self, memory: Memory) -> Formula {
        self.along_pages(memory).then(Rule::Times, if memory.along_pages { 1 } else { -1 })
    }

    fn along_pages(&self, memory: Memory) -> Formula {
        let far = Formula::from(&self.bytes).then(Rule::Exceeds, memory.limit(FAR));
        let Some(row) = self.row.as_ref().map(Formula::from) else { return far.then(Rule::Times, SPAN) };
        let long = row.clone().then(Rule::Exceeds, LONG).then(Rule::Times, SPAN);
        if self.waits {
            return far.then(Rule::Times, long);
        }
        let short = Formula::Constant(LONG + 1).then(Rule::Exceeds, row.clone());
        let next = row.then(Rule::Lesser, LONG).then(Rule::Greater, 1).up_to_multiple(SPAN);
        far.then(Rule::Times, long.then(Rule::Plus, short.then(Rule::Times, next)))
    }
}

/// The loops that do not prefetch an array because another loop over the same rows does: the one
/// with the most operations.
pub(super) fn waiting(program: &Program, kernel: &Kernel) -> BTreeSet<(BufferId, IndexId)> {
    let mut found = BTreeSet::new();
    visit::for_each_statement(&kernel.body, &mut |statement| {
        let Statement::Loop(around) = statement else { return };
        let mut phases: Vec<(&Loop, usize)> = vec![];
        visit::for_each_statement(&around.body, &mut |statement| {
            if let Statement::Loop(l) = statement
                && !l.body.iter().any(|s| matches!(s, Statement::Loop(_)))
            {
                phases.push((l, program.operations_of(&l.body, |_| true)));
            }
        });
        for buffer in visit::loads(&around.body) {
            let users = phases.iter().filter(|(l, _)| visit::loads(&l.body).contains(&buffer));
            let indices = || users.clone().filter_map(|(l, operations)| Some((l.dims.last()?.0, operations)));
            let Some((longest, _)) = indices().max_by_key(|(_, operations)| **operations) else { continue };
            found.extend(indices().map(|(index, _)| (buffer, index)).filter(|(_, index)| *index != longest));
        }
    });
    found
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
