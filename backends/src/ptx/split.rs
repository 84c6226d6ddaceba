//! Sums in parts: where the result of a contraction has few tiles, several blocks share one. Each
//! adds up a part of the inner indices and leaves its sums in memory. The last of them that ends
//! adds the sums of all parts, in their order, and runs the epilogue.
//!
//! The number of parts depends on sizes alone, so that results are the same on all devices. Blocks
//! are counted from launch to launch, and none waits for another, as in `last`.

use ir::Size;
use ir::groups::Groups;

use super::build::COUNTER;
use super::tile::{DEPTH, FEW_ROWS, TURNED_COLUMNS, length};

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

/// The bytes of the counters of all tiles, for each warp of a block.
pub(super) const COUNTERS: usize = (MULTIPROCESSORS * WARPS * COUNTER) as usize;
pub(super) const WARPS: i64 = 8;

/// The parts of the sums of a contraction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Split {
    /// The grid of tiles.
    tiles: Vec<Size>,
    /// The number of inner indices.
    inner: Size,
    /// The bytes of the sums of a tile.
    pub(super) bytes: i64,
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
        let across = length(&groups.columns).ceil_div(&TURNED_COLUMNS.into());
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
                let few = value(rows) < FEW_ROWS && (1..=MULTIPROCESSORS).contains(&tiles);
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
