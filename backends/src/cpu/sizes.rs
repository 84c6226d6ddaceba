//! The numbers that kernels load instead of computing them from the sizes of a call: sizes
//! themselves, the widths of strips, and the distances of prefetches.

use std::collections::BTreeMap;

use ir::Size;
use ir::nest::{BufferId, Program};
use ir::sched::Tiles;

use super::formula::{Formula, Rule};
use super::machine::Memory;

/// The maximum number of columns in a strip: with `f32`, a row of it fills a page. (Narrow strips,
/// which would stay in a cache between phases, are slower: rows far apart compete for the same
/// cache sets, and the prefetcher does not help.)
pub(super) const STRIP: i64 = Tiles::STRIP;
/// If scratch would exceed `SCRATCH` bytes, strips are narrower, but have at least `LEAST`
/// columns.
const LEAST: i64 = 64;
const SCRATCH: i64 = 32 << 20;
/// The number of `f32` elements in a cache line.
const LINE: i64 = 16;
/// The maximum number of pages to prefetch at once.
pub(super) const PAGES: u32 = 4;
/// The size of a page in bytes.
pub(super) const PAGE: u32 = 4096;
/// Arrays larger than this do not stay in a core's caches.
const FAR: i64 = 2 << 20;
/// Rows larger than this do not stay in the cache between loops, together with the next row.
const LONG: i64 = 512 << 10;
/// The prefetch distance in bytes. It is a row if that is longer.
const SPAN: i64 = (PAGES * PAGE) as i64;
/// The table of sizes: the numbers that kernels load instead of computing. They are evaluated once
/// per call.
#[derive(Default)]
pub(super) struct SizeTable {
    entries: Vec<SizeEntry>,
    slots: BTreeMap<SizeEntry, usize>,
}

/// An entry of the table of sizes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SizeEntry {
    /// A size of the program.
    Size(Size),
    /// The number of columns in a strip.
    Width(Width),
    /// 1 if the size in bytes exceeds the limit, else 0.
    Exceeds(Size, i64),
    /// The prefetch distance of an array.
    Distance(Distance),
}

impl SizeEntry {
    fn formula(&self, memory: Memory) -> Formula {
        match self {
            SizeEntry::Size(size) => size.into(),
            SizeEntry::Width(width) => width.formula(),
            SizeEntry::Exceeds(size, limit) => Formula::from(size).then(Rule::Exceeds, memory.limit(*limit)),
            SizeEntry::Distance(distance) => distance.formula(memory),
        }
    }
}

impl SizeTable {
    pub(super) fn slot(&mut self, entry: SizeEntry) -> usize {
        let next = self.entries.len();
        let slot = *self.slots.entry(entry.clone()).or_insert(next);
        if slot == next {
            self.entries.push(entry);
        }
        slot
    }

    /// The formulas of the entries.
    pub(super) fn formulas(&self, memory: Memory) -> Vec<Formula> {
        self.entries.iter().map(|entry| entry.formula(memory)).collect()
    }
}

/// The number of columns in a strip.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Width {
    /// The size of scratch per column in bytes.
    pub(super) scratch: Size,
    /// The total number of columns, if sizes determine it.
    pub(super) columns: Option<Size>,
}

impl Width {
    /// The number of columns, a multiple of [`LINE`].
    pub(super) fn formula(&self) -> Formula {
        let columns = self.columns.as_ref().map_or(Formula::Constant(STRIP), Formula::from);
        let columns = columns.then(Rule::Greater, 1).then(Rule::Lesser, STRIP);
        let scratch = Formula::from(&self.scratch).then(Rule::Greater, 1);
        let fit = Formula::Constant(SCRATCH).then(Rule::Over, scratch);
        columns.then(Rule::Lesser, fit.then(Rule::Greater, LEAST)).up_to_multiple(LINE)
    }
}

/// The length of the pieces that threads take, for `total` iterations that are processed in strips:
/// whole strips if there are enough for all threads, and always whole cache lines.
pub(super) fn piece(total: i64, threads: i64, pieces: i64) -> i64 {
    let pieces = (total / STRIP).clamp(threads.min(pieces), pieces).max(1);
    let length = total / pieces + i64::from(total % pieces != 0);
    length.saturating_add(LINE - 1) / LINE * LINE
}

/// The prefetch distance of an array in a loop. It depends on the sizes of a call.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Distance {
    /// The size of the array in bytes.
    pub(super) bytes: Size,
    /// The size of a row in bytes, if there are several.
    pub(super) row: Option<Size>,
    /// Whether another loop prefetches rows that stay in the cache.
    pub(super) waits: bool,
}

impl Distance {
    /// The distance in bytes; 0 if there is nothing to prefetch, negative if the array is read as a
    /// stream.
    pub(super) fn formula(&self, memory: Memory) -> Formula {
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

/// The size of an array in bytes.
pub(super) fn bytes_of(program: &Program, buffer: BufferId) -> Size {
    let buffer = &program.buffers[buffer];
    let width = Size::constant(i64::try_from(buffer.dtype.bytes()).expect("a small number"));
    buffer.shape.iter().fold(width, |product, length| &product * length)
}
