//! Arrays beyond the caches, fetched before their turn.
//!
//! A processor fetches ahead by itself, but keeps too few lines in flight to fill the time that memory takes, and how it is brought to
//! keep more hangs on its maker ([`Memory`]):
//!
//! - Intel's fetch ahead to the end of the page that they read. So a step of a leaf asks for as many lines as it reads, of the pages
//!   behind those at hand, and spreads them over several **pages**, each of which the processor then runs along by itself. Read alone, 64
//!   MB come in 0.7 of the time that way, and a copy past the caches in 0.7; asked for in their order the same lines gain a tenth (one
//!   core of a Xeon of 2023).
//! - AMD's lose by that: 64 MB and 1 GB take 1.5 times as long (one core of an EPYC of 2023). They do best where one instruction reads
//!   all of a **stream**: a loop of one load for each of two arrays gets 27 GB/s where eight loads for each, of eight lines, get 19 (two
//!   arrays of 256 MB; from the caches eight are faster). So a reduction with little to do, which waits for nothing but memory, goes group
//!   by group. What stores does not gain.
//!
//! Where several phases go over the same row, the one that has most to do otherwise reads the next row ahead: memory works while it
//! computes, and the first phase finds its row in the cache.

use std::collections::BTreeSet;

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use ir::nest::{BufferId, IndexId, Kernel, Loop, Program, Role, Statement};
use ir::{Size, visit};

use super::assemble::{Assembler, Condition, INDEX, OTHER, SPARE};
use super::inst::Slot;
use super::lanes::{Given, Shared};
use super::machine::Memory;
use crate::cpu::emit::Emitter;
use crate::cpu::formula::{Formula, Rule};
use crate::cpu::leaf::{Access, Inst, Leaf, Step};

/// Arrays of more bytes than this are not in a core's caches.
const FAR: i64 = 2 << 20;
/// Rows of more bytes than this do not stay in them, beside the next one, from phase to phase.
const LONG: i64 = 512 << 10;
/// How many bytes ahead, or a row if that is more.
const SPAN: i64 = (PAGES * PAGE) as i64;
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

/// An access that is read ahead, and how far.
pub(super) struct Read {
    access: usize,
    pub(super) distance: Slot,
}

/// How far a leaf's access is read ahead.
pub(super) fn distance(e: &Emitter<'_>, leaf: &Leaf, access: usize) -> Distance {
    let a = &leaf.accesses[access];
    let width = Size::constant(e.buffer_dtype(a.buffer).bytes() as i64);
    let several = !a.start.affine.terms().is_empty();
    Distance {
        bytes: super::bytes_of(e.program, a.buffer),
        row: e.length(leaf.index).filter(|_| several).map(|length| length * &width),
        waits: e.wide.as_ref().is_some_and(|wide| wide.waiting.contains(&(a.buffer, leaf.index))),
    }
}

/// How far ahead a loop reads an array, hanging on the sizes of a call.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cpu) struct Distance {
    /// Of the array.
    bytes: Size,
    /// Of a row, where there are several.
    row: Option<Size>,
    /// Whether another loop reads rows ahead that stay in a cache.
    waits: bool,
}

impl Distance {
    /// In bytes; 0 where nothing is to be read ahead, less where it is by streams.
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

/// The loops over arrays that other loops over the same rows read ahead: the longest one of each row does.
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

impl Ahead {
    /// The accesses of a leaf that load all of an array.
    pub(super) fn of(e: &Emitter<'_>, leaf: &Leaf) -> Ahead {
        let mut found: Vec<usize> = vec![];
        leaf.for_each_step(&leaf.steps, &mut |step| {
            let Step::Value(id) = step else { return };
            let Inst::Load(access) = leaf.values[*id].1 else { return };
            let a = &leaf.accesses[access];
            if is_dense(e, leaf, a) && !found.iter().any(|other| is_near(a, &leaf.accesses[*other])) {
                found.push(access);
            }
        });
        Ahead(found)
    }

    /// With their slots.
    pub(super) fn reads(&self, shared: &mut Shared) -> Vec<Read> {
        let read = |access: &usize| Read { access: *access, distance: shared.slot(Given::Distance(*access)) };
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
    let follows = |stride: &Size| {
        let apart = e.length(leaf.index).map(|length| stride - length);
        apart.and_then(|apart| apart.as_constant()).is_some_and(|apart| (0..=SLACK).contains(&apart))
    };
    !around || rows.iter().any(|(_, stride)| follows(stride))
}

/// Whether two accesses read the same elements about the same time.
fn is_near(a: &Access, b: &Access) -> bool {
    a.behind(b).is_some_and(|apart| apart.abs() < NEAR)
}

/// Asks for as much as a step of so many elements reads.
pub(super) fn fetch(asm: &mut Assembler, reads: &[Read], step: i32) {
    for Read { access, distance } in reads {
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
        // Where it is in a span of pages; of each page behind that one goes as far.
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
