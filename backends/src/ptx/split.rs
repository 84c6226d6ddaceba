//! Sums in parts: where the result of a contraction has few tiles, several blocks share one. Each
//! adds up a part of the inner indices and leaves its sums in memory. The last of them that ends
//! adds the sums of all parts, in their order, and runs the epilogue.
//!
//! The number of parts depends on sizes alone, so that results are the same on all devices. Blocks
//! are counted from launch to launch, and none waits for another, as in `last`.

use ir::nest::Contraction;
use ir::{BinaryOp, Scalar, Size};

use super::build::{COUNTER, Control};
use super::contract::{DEPTH, Inner, THREADS, TileGrid, Tiles, bytes, held};
use super::emit::{Argument, Emitter};
use super::inst::{Address, Comparison, Opcode, Reg, Space, Special, Type};
use super::scalar;

/// The number of blocks that the parts of all tiles make at most: a device has some hundred
/// multiprocessors.
const BLOCKS: i64 = 256;
/// The fewest inner indices that are split.
const LEAST: i64 = 256;
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
/// The bytes of the counters of all tiles.
pub(super) const COUNTERS: usize = (BLOCKS * COUNTER) as usize;

/// The parts of the sums of a contraction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Split {
    /// The grid of tiles.
    pub(super) tiles: Vec<Size>,
    /// The number of inner indices.
    pub(super) inner: Size,
    /// The bytes of the sums of a tile.
    pub(super) bytes: i64,
    /// Whether the tiles are small.
    pub(super) small: bool,
    /// The same in tiles of twice or half the sides, to be taken instead where that takes less
    /// time, in parts or not.
    pub(super) other: Option<Box<Split>>,
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

impl Split {
    fn count(&self, value: &impl Fn(&Size) -> i64) -> i64 {
        self.tiles.iter().fold(1, |count, size| count.saturating_mul(value(size).max(0)))
    }

    /// The number of parts. With one, the contraction is better not split, or not in these tiles.
    pub(super) fn parts(&self, value: &impl Fn(&Size) -> i64) -> i64 {
        let other_is_better = |other: &Split| (other.time(value), !other.small) < (self.time(value), !self.small);
        if self.other.as_deref().is_some_and(other_is_better) { 1 } else { self.best(value) }
    }

    /// The number of parts that takes the least time, the fewest of several.
    fn best(&self, value: &impl Fn(&Size) -> i64) -> i64 {
        let (tiles, inner) = (self.count(value), value(&self.inner));
        if tiles == 0 || inner < LEAST {
            return 1;
        }
        // Parts take `inner / parts` steps and then `parts * PRICE`: from the root on, more of them
        // take longer.
        let most = (BLOCKS / tiles).min((inner / PRICE).isqrt()).max(1);
        // As lengths are rounded up, fewer parts may have all inner indices.
        let all = (1..=most).map(|parts| inner.cast_unsigned().div_ceil(part_of(inner, parts)).cast_signed());
        all.min_by_key(|parts| (self.time_of(*parts, value), *parts)).unwrap_or(1)
    }

    /// The time that the best parts take.
    fn time(&self, value: &impl Fn(&Size) -> i64) -> i64 {
        self.time_of(self.best(value), value)
    }

    /// The time that parts take on some hundred multiprocessors.
    fn time_of(&self, parts: i64, value: &impl Fn(&Size) -> i64) -> i64 {
        let inner = value(&self.inner).max(1);
        let blocks = self.count(value).saturating_mul(parts).saturating_add(MULTIPROCESSORS - 1) / MULTIPROCESSORS;
        // Shared memory keeps small tiles waiting, and the latency of loads larger ones, while
        // others multiply.
        let (each, unit) = if self.small { (WHOLE, SMALLER) } else { (BESIDE_OTHERS, LARGER) };
        let slower = blocks.saturating_mul(each).max(WHOLE);
        let multiplied = slower.saturating_mul(part_of(inner, parts).cast_signed()) / WHOLE;
        multiplied.saturating_add(if parts > 1 { JOIN + parts * PRICE } else { 0 }).saturating_mul(unit)
    }

    /// The number of inner indices in a part.
    pub(super) fn length(&self, value: &impl Fn(&Size) -> i64) -> i64 {
        part_of(value(&self.inner).max(1), self.parts(value)).cast_signed()
    }

    /// The bytes of the sums of all parts; `None` if they overflow.
    pub(super) fn memory(&self, value: &impl Fn(&Size) -> i64) -> Option<usize> {
        let sums = self.count(value).checked_mul(self.parts(value))?.checked_mul(self.bytes)?;
        usize::try_from(sums).ok()
    }
}

/// The length of the parts of some inner indices: a multiple of what is multiplied at a time.
fn part_of(inner: i64, parts: i64) -> u64 {
    inner.cast_unsigned().div_ceil(parts.cast_unsigned()).next_multiple_of(DEPTH.cast_unsigned())
}

impl Emitter<'_> {
    /// Multiplies the parts of this block's tiles.
    pub(super) fn multiply_in_parts(&mut self, c: &Contraction, tiles: &Tiles, split: &Split, grid: &TileGrid<'_>) {
        let of = |e: &mut Self, of: OfSplit| e.argument(Argument::OfSplit(split.clone(), of));
        let [parts, length] = [OfSplit::Parts, OfSplit::Length].map(|word| of(self, word));
        let [sums_at, ended] = [OfSplit::Sums, OfSplit::Ended].map(|word| of(self, word));
        let [block, blocks] = [Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        let all = self.b().op2(Opcode::Mul, Type::S64, grid.counts.all, parts);
        self.counted(block, all, blocks, |e, number| {
            let tile = e.divide(None, number, parts);
            let before = e.b().op2(Opcode::Mul, Type::S64, tile, parts);
            let part = e.b().op2(Opcode::Sub, Type::S64, number, before);
            let sides = e.tile_sides(grid, tile);
            let [.., depth] = grid.lengths;
            let from = e.b().op2(Opcode::Mul, Type::S64, part, length);
            let end = e.b().op2(Opcode::Add, Type::S64, from, length);
            let end = e.b().op2(Opcode::Min, Type::S64, end, depth);
            let inner = Inner { dims: &grid.groups.inner, from: Some(from), end };
            let sums = e.tile_sums(c, tiles, sides, inner);

            let first = e.place_of_sums(tiles, split, sums_at, before);
            let own = e.place_of_sums(tiles, split, sums_at, number);
            e.each_sum(tiles, &sums, |e, sum, offset| {
                e.b().store(Space::Global, held(tiles.sum), sum, Address { base: Some(own), offset });
            });
            let last =
                e.ends_last(parts, |e| e.b().op(Opcode::Mad, Type::S64, &[tile.into(), COUNTER.into(), ended.into()]));
            e.when(last, |e| {
                let zero = scalar::constant(e.b(), Scalar::zero(tiles.sum));
                sums.iter().flatten().for_each(|sum| e.b().assign(*sum, zero));
                let from = e.b().copy(first);
                let none = e.int(0);
                let at_once = tiles.parts_at_once();
                e.counted(none, parts, at_once, |e, number| {
                    let mut loaded = vec![];
                    for k in 0..at_once {
                        let place = e.b().op2(Opcode::Add, Type::S64, number, k);
                        let is_one = e.b().set(Comparison::Lt, Type::S64, place, parts);
                        let mut part = vec![];
                        e.each_sum(tiles, &sums, |e, _, offset| {
                            let at = Address { base: Some(from), offset: offset + k * split.bytes };
                            let more = e.b().copy(zero);
                            e.b().guarded(is_one, |b| b.load_to(more, Space::Global, held(tiles.sum), at));
                            part.push(more);
                        });
                        loaded.push((is_one, part));
                    }
                    for (is_one, part) in loaded {
                        for (sum, more) in sums.iter().flatten().zip(part) {
                            let more = scalar::binary(e.b(), BinaryOp::Add, tiles.sum, *sum, more);
                            e.b().guarded(is_one, |b| b.assign(*sum, more));
                        }
                    }
                    let next = at_once * split.bytes;
                    e.b().op_to(from, Opcode::Add, Type::S64, &[from.into(), next.into()]);
                });
                e.tile_epilogue(c, tiles, sides, &sums);
            });
        });
    }

    /// The address of this thread's first sum of a part.
    fn place_of_sums(&mut self, tiles: &Tiles, split: &Split, sums: Reg, number: Reg) -> Reg {
        let thread = self.special(Special::Tid);
        let at = self.b().op(Opcode::Mad, Type::S64, &[number.into(), split.bytes.into(), sums.into()]);
        self.b().op(Opcode::Mad, Type::S64, &[thread.into(), bytes(tiles.sum).into(), at.into()])
    }

    /// Visits this thread's sums, with their distances from the first one: those of a block are
    /// next to each other.
    fn each_sum(&mut self, tiles: &Tiles, sums: &[Vec<Reg>], mut visit: impl FnMut(&mut Self, Reg, i64)) {
        let row = i64::from(THREADS) * bytes(tiles.sum);
        for (number, sum) in (0i64..).zip(sums.iter().flatten()) {
            visit(self, *sum, number * row);
        }
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
            small,
            other: other.map(Box::new),
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
