//! Sums in parts: where the result of a contraction has few tiles, several blocks share one. Each
//! adds up a part of the inner indices and leaves its sums in memory. The last of them that ends
//! adds the sums of all parts, in their order, and runs the epilogue.
//!
//! The number of parts depends on sizes alone, so that results are the same on all devices. Blocks
//! are counted from launch to launch, and none waits for another, as in `last`.

use ir::groups::Groups;
use ir::{BinaryOp, Dtype, Scalar, Size};

use super::build::{COUNTER, Control};
use super::contract::{DEPTH, bytes, held, length};
use super::emit::{Argument, Emitter};
use super::inst::{Address, Comparison, Opcode, Reg, Space, Special, Type};
use super::scalar;
use super::tensor;

/// The number of blocks that the parts of all tiles make at most: a device has some hundred
/// multiprocessors.
const BLOCKS: i64 = 256;
/// The fewest inner indices that are split.
pub(super) const LEAST: i64 = 256;
/// How many inner indices a block multiplies in the time in which it adds the sums of a part.
const PRICE: i64 = 8;
/// The same for what joining takes with any number of parts: sums go through memory.
const JOIN: i64 = 80;
/// The share of its time alone that a large tile takes on a multiprocessor with others, in
/// sixteenths.
const BESIDE_OTHERS: i64 = 12;
const WHOLE: i64 = 16;
/// The number of multiprocessors that a device surely has.
const MULTIPROCESSORS: i64 = BLOCKS / 2;
/// How long an inner index takes in a tile, and in one of twice the sides.
const SMALLER: i64 = 3;
const LARGER: i64 = 8;

/// For few rows on tensor cores: the most parts, and how many inner indices a block multiplies in
/// the time in which the first ones come from memory, in which sums go through memory, and in which
/// it adds the sums of a part.
const MOST_FEW: i64 = 16;
const BEGIN_FEW: i64 = 128;
const JOIN_FEW: i64 = 320;
const PRICE_FEW: i64 = 32;
/// The inner indices that tensor cores take at a time.
const STAGE: i64 = 64;

/// The most sums of a part that a thread loads together.
const LOADED: usize = 64;

/// The bytes of the counters of all tiles, for each warp of a block.
pub(super) const COUNTERS: usize = (MULTIPROCESSORS * WARPS * COUNTER) as usize;
const WARPS: i64 = 8;

/// The parts of the sums of a contraction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Split {
    /// The grid of tiles.
    tiles: Vec<Size>,
    /// The number of inner indices.
    inner: Size,
    /// The bytes of the sums of a tile.
    bytes: i64,
    rule: Rule,
}

/// How many parts there are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    /// Those that take the least time in tiles of this size, small ones or large ones. With one
    /// part, or where tiles of twice or half the sides take less time, in parts or not, other code
    /// is better.
    Tiles { small: bool, other: Option<Box<Split>> },
    /// In tiles for few rows, also with one part: as many as pay, since memory is faster the more
    /// loads are on their way.
    Wide,
    /// On tensor cores: parts if there are few rows. As code with tiles of another size has to
    /// have the same parts, they follow from the number of tiles in the code for few rows.
    FewRows { rows: Size, tiles: Vec<Size> },
}

/// An argument of a contraction in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfSplit {
    /// The number of parts.
    Parts,
    /// The number of inner indices in a part, but for the last ones.
    Length,
    /// The address of the sums: those of the parts of a tile follow one another.
    Sums,
    /// The address of the counters of the parts of each tile that have ended.
    Ended,
}

/// The part of a tile's sums that a block adds up.
pub(super) struct TilePart<'s> {
    split: &'s Split,
    pub(super) tile: Reg,
    /// Its number among the parts of all tiles, and that of the tile's first one.
    number: Reg,
    first: Reg,
    parts: Reg,
}

/// The threads that learn together whether they are the last ones with sums of a tile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Joining {
    Block,
    Warp,
}

impl Split {
    /// The parts of tiles by threads, and of tiles of other sides, if there are such.
    pub(super) fn by_tiles(
        groups: &Groups,
        tiles: Vec<Size>,
        bytes: i64,
        (small, other): (bool, Option<Split>),
    ) -> Split {
        let rule = Rule::Tiles { small, other: other.map(Box::new) };
        Split { tiles, inner: length(&groups.inner), bytes, rule }
    }

    /// The parts of tiles by threads for few rows.
    pub(super) fn of_wide_tiles(groups: &Groups, tiles: Vec<Size>, bytes: i64) -> Split {
        Split { tiles, inner: length(&groups.inner), bytes, rule: Rule::Wide }
    }

    /// The parts of tiles on tensor cores.
    pub(super) fn of_few_rows(groups: &Groups, tiles: Vec<Size>, bytes: i64) -> Split {
        let batch = groups.batch.iter().filter_map(|(_, extent)| extent.as_size().cloned());
        let across = length(&groups.columns).ceil_div(&tensor::TURNED_COLUMNS.into());
        let rule = Rule::FewRows { rows: length(&groups.rows), tiles: batch.chain([across]).collect() };
        Split { tiles, inner: length(&groups.inner), bytes, rule }
    }

    /// Whether code in these parts is for some sizes.
    pub(super) fn fits(&self, value: &impl Fn(&Size) -> i64) -> bool {
        !matches!(self.rule, Rule::Tiles { .. }) || self.parts(value) > 1
    }

    /// The number of parts.
    pub(super) fn parts(&self, value: &impl Fn(&Size) -> i64) -> i64 {
        let inner = value(&self.inner);
        match &self.rule {
            Rule::Tiles { other: Some(other), .. } if other.is_better(self, value) => 1,
            Rule::Tiles { .. } => self.best(value),
            Rule::Wide => self.most(value),
            Rule::FewRows { rows, tiles } => {
                let tiles = count(tiles, value);
                let few = value(rows) < tensor::FEW_ROWS && (1..=MULTIPROCESSORS).contains(&tiles);
                let time = |parts: &i64| {
                    let join = if *parts > 1 { JOIN_FEW + parts * PRICE_FEW } else { 0 };
                    turns(tiles * parts) * (inner / parts + BEGIN_FEW) + join
                };
                let best = (1..=MOST_FEW).min_by_key(time).filter(|_| few && inner >= LEAST);
                best.map_or(1, |parts| self.needed(inner, parts))
            }
        }
    }

    /// The most parts of tiles by threads. Parts take `inner / parts` steps and then
    /// `parts * PRICE`: from the root on, more of them take longer.
    fn most(&self, value: &impl Fn(&Size) -> i64) -> i64 {
        let (tiles, inner) = (count(&self.tiles, value), value(&self.inner));
        if tiles == 0 || inner < LEAST {
            return 1;
        }
        self.needed(inner, (BLOCKS / tiles).min((inner / PRICE).isqrt()).max(1))
    }

    /// The number of parts that takes the least time in tiles by threads, the fewest of several.
    fn best(&self, value: &impl Fn(&Size) -> i64) -> i64 {
        let all = (1..=self.most(value)).map(|parts| self.needed(value(&self.inner), parts));
        all.min_by_key(|parts| (self.time_of(*parts, value), *parts)).unwrap_or(1)
    }

    /// Whether this takes less time than tiles of other sides, each in the best parts.
    fn is_better(&self, other: &Split, value: &impl Fn(&Size) -> i64) -> bool {
        let time = |split: &Split| (split.time_of(split.best(value), value), !split.is_small());
        time(self) < time(other)
    }

    fn is_small(&self) -> bool {
        !matches!(self.rule, Rule::Tiles { small: false, .. })
    }

    /// The time that parts take on some hundred multiprocessors.
    fn time_of(&self, parts: i64, value: &impl Fn(&Size) -> i64) -> i64 {
        let inner = value(&self.inner).max(1);
        // Shared memory keeps small tiles waiting, and the latency of loads larger ones, while
        // others multiply.
        let (each, unit) = if self.is_small() { (WHOLE, SMALLER) } else { (BESIDE_OTHERS, LARGER) };
        let slower = turns(count(&self.tiles, value).saturating_mul(parts)).saturating_mul(each).max(WHOLE);
        let multiplied = slower.saturating_mul(self.part_of(inner, parts).cast_signed()) / WHOLE;
        multiplied.saturating_add(if parts > 1 { JOIN + parts * PRICE } else { 0 }).saturating_mul(unit)
    }

    /// The number of inner indices in a part.
    pub(super) fn length(&self, value: &impl Fn(&Size) -> i64) -> i64 {
        self.part_of(value(&self.inner), self.parts(value)).cast_signed()
    }

    /// The length of the parts of some inner indices: a multiple of what is multiplied at a time.
    fn part_of(&self, inner: i64, parts: i64) -> u64 {
        let at_once = if let Rule::FewRows { .. } = self.rule { STAGE } else { DEPTH };
        inner.max(1).cast_unsigned().div_ceil(parts.cast_unsigned()).next_multiple_of(at_once.cast_unsigned())
    }

    /// The parts that are left of some: as lengths are rounded up, fewer may have all inner
    /// indices.
    fn needed(&self, inner: i64, parts: i64) -> i64 {
        inner.max(1).cast_unsigned().div_ceil(self.part_of(inner, parts)).cast_signed()
    }

    /// The bytes of the sums of all parts; `None` if they overflow.
    pub(super) fn memory(&self, value: &impl Fn(&Size) -> i64) -> Option<usize> {
        let parts = self.parts(value);
        let stored = if parts > 1 { parts } else { 0 };
        usize::try_from(count(&self.tiles, value).checked_mul(stored)?.checked_mul(self.bytes)?).ok()
    }
}

/// The number of tiles in a grid.
fn count(tiles: &[Size], value: &impl Fn(&Size) -> i64) -> i64 {
    tiles.iter().fold(1, |count, size| count.saturating_mul(value(size).max(0)))
}

/// How many blocks a multiprocessor takes one after another.
fn turns(blocks: i64) -> i64 {
    blocks.saturating_add(MULTIPROCESSORS - 1) / MULTIPROCESSORS
}

impl Emitter<'_> {
    /// Emits a loop over the parts of this block's tiles, given the number of tiles. `make` gets
    /// the part, the first inner index of it and one past the last.
    pub(super) fn for_each_part<'s>(
        &mut self,
        split: &'s Split,
        tiles: Reg,
        depth: Reg,
        make: impl FnOnce(&mut Self, TilePart<'s>, [Reg; 2]),
    ) {
        let [parts, length] =
            [OfSplit::Parts, OfSplit::Length].map(|word| self.argument(Argument::OfSplit(split.clone(), word)));
        let [block, blocks] = [Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        let all = self.b().op2(Opcode::Mul, Type::S64, tiles, parts);
        self.counted(block, all, blocks, |e, number| {
            let tile = e.divide(None, number, parts);
            let first = e.b().op2(Opcode::Mul, Type::S64, tile, parts);
            let part = e.b().op2(Opcode::Sub, Type::S64, number, first);
            let from = e.b().op2(Opcode::Mul, Type::S64, part, length);
            let end = e.b().op2(Opcode::Add, Type::S64, from, length);
            let end = e.b().op2(Opcode::Min, Type::S64, end, depth);
            make(e, TilePart { split, tile, number, first, parts }, [from, end]);
        });
    }

    /// Adds this thread's sums of all parts of a tile, if it is one of the last that have sums of
    /// it, and continues with the whole sums. `threads` of a block have sums, of `dtype`, and load
    /// those of `at_once` parts together.
    pub(super) fn with_all_parts(
        &mut self,
        part: Option<&TilePart<'_>>,
        (joining, threads, at_once): (Joining, u32, i64),
        (dtype, sums): (Dtype, &[Reg]),
        make: impl FnOnce(&mut Self),
    ) {
        let Some(TilePart { split, tile, number, first, parts }) = part else { return make(self) };
        let (split, parts) = (*split, *parts);
        let complete = self.int(1);
        let complete = self.b().copy(complete);
        let several = self.b().set(Comparison::Gt, Type::S64, parts, 1);
        self.when(several, |e| {
            let [sums_at, ended] =
                [OfSplit::Sums, OfSplit::Ended].map(|word| e.argument(Argument::OfSplit(split.clone(), word)));
            // The sums of a block's threads are next to each other.
            let row = i64::from(threads) * bytes(dtype);
            let place = |e: &mut Self, number: Reg| {
                let thread = e.special(Special::Tid);
                let at = e.b().op(Opcode::Mad, Type::S64, &[number.into(), split.bytes.into(), sums_at.into()]);
                e.b().op(Opcode::Mad, Type::S64, &[thread.into(), bytes(dtype).into(), at.into()])
            };
            let (from, own) = (place(e, *first), place(e, *number));
            for (k, sum) in (0i64..).zip(sums) {
                e.b().store(Space::Global, held(dtype), *sum, Address { base: Some(own), offset: k * row });
            }
            let counter = |e: &mut Self| {
                let mut number = *tile;
                if joining == Joining::Warp {
                    let warp = e.warp();
                    number = e.b().op(Opcode::Mad, Type::S64, &[number.into(), WARPS.into(), warp.into()]);
                }
                e.b().op(Opcode::Mad, Type::S64, &[number.into(), COUNTER.into(), ended.into()])
            };
            let last = match joining {
                Joining::Block => e.ends_last(parts, counter),
                Joining::Warp => e.warp_ends_last(parts, counter),
            };
            let is_last = e.b().select(Type::B64, 1, 0, last);
            e.b().assign(complete, is_last);
            e.when(last, |e| {
                let zero = scalar::constant(e.b(), Scalar::zero(dtype));
                sums.iter().for_each(|sum| e.b().assign(*sum, zero));
                let from = e.b().copy(from);
                let none = e.int(0);
                e.counted(none, parts, at_once, |e, number| {
                    let there = (0..at_once).map(|k| {
                        let place = e.b().op2(Opcode::Add, Type::S64, number, k);
                        e.b().set(Comparison::Lt, Type::S64, place, parts)
                    });
                    let there: Vec<Reg> = there.collect();
                    let numbered: Vec<(i64, Reg)> = (0..).zip(sums.iter().copied()).collect();
                    for sums in numbered.chunks(LOADED) {
                        let loads = (0i64..).zip(&there).map(|(k, is_one)| {
                            let load = |(number, _): &(i64, Reg)| {
                                let at = Address { base: Some(from), offset: number * row + k * split.bytes };
                                let more = e.b().copy(zero);
                                e.b().guarded(*is_one, |b| b.load_to(more, Space::Global, held(dtype), at));
                                more
                            };
                            sums.iter().map(load).collect::<Vec<_>>()
                        });
                        let loaded: Vec<Vec<Reg>> = loads.collect();
                        for (is_one, part) in there.iter().zip(loaded) {
                            for ((_, sum), more) in sums.iter().zip(part) {
                                let more = scalar::binary(e.b(), BinaryOp::Add, dtype, *sum, more);
                                e.b().guarded(*is_one, |b| b.assign(*sum, more));
                            }
                        }
                    }
                    let next = at_once * split.bytes;
                    e.b().op_to(from, Opcode::Add, Type::S64, &[from.into(), next.into()]);
                });
            });
        });
        let complete = self.b().set(Comparison::Ne, Type::S64, complete, 0);
        self.when(complete, make);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a result of some small tiles and inner indices, in small and in large tiles.
    fn parts(small: i64, large: i64, inner: i64) -> [i64; 2] {
        let of = |small: bool, tiles: i64, other: Option<Split>| Split {
            tiles: vec![Size::constant(tiles)],
            inner: Size::constant(inner),
            bytes: 4,
            rule: Rule::Tiles { small, other: other.map(Box::new) },
        };
        let value = |size: &Size| size.as_constant().unwrap_or(0);
        let [few, many] = [of(true, small, None), of(false, large, None)];
        [of(true, small, Some(many)).parts(&value), of(false, large, Some(few)).parts(&value)]
    }

    #[test]
    fn sums_are_split_where_that_saves_time() {
        assert_eq!(parts(1, 1, 8192), [32, 1]);
        assert_eq!(parts(32, 8, 256), [4, 1]);
        // Enough tiles for all multiprocessors.
        assert_eq!(parts(512, 128, 256), [1, 1]);
        assert_eq!(parts(128, 64, 256), [1, 1]);
        // Few and long sums.
        assert_eq!(parts(64, 16, 2048), [1, 8]);
        assert_eq!(parts(32, 8, 255), [1, 1]);
    }
}
