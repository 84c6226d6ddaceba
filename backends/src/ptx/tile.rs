//! The tiles of contractions: their sides, what they cover, and how their elements lie in shared
//! memory.

use ir::groups::Groups;
use ir::nest::{Extent, IndexId};
use ir::{Dtype, Size};

use super::inst::{Reg, Type};
use super::split::Split;

/// The number of threads in a block.
pub(super) const THREADS: u32 = 256;
/// The number of inner iterations per tile of the factors.
pub(super) const DEPTH: i64 = 16;
/// Products with fewer rows than this have their sums in parts on tensor cores.
pub(super) const FEW_ROWS: i64 = 64;
/// The columns of the result in tiles for few rows there.
pub(super) const TURNED_COLUMNS: i64 = 128;
/// The indices of a group with their extents.
pub(super) type Dims = [(IndexId, Extent)];

/// The number of adjacent elements that a thread loads at once.
pub(super) const QUAD: i64 = 4;
/// A side of a result tile, and the tile of the factor along it.
#[derive(Clone, Copy)]
pub(super) struct Side {
    /// Its rows or columns.
    pub(super) length: i64,
    pub(super) dtype: Dtype,
    /// The type of the accumulators.
    pub(super) sum: Dtype,
}

impl Side {
    /// The distance in bytes between rows of the factor's tile in shared memory. The padding of one
    /// quad avoids bank conflicts.
    pub(super) fn pitch(&self) -> i64 {
        (self.length + QUAD) * bytes(self.sum)
    }

    /// The bytes of the factor's tile.
    pub(super) fn bytes(&self) -> i64 {
        DEPTH * self.pitch()
    }
}

/// The range of rows or columns that a tile covers: its start, and the total number.
#[derive(Clone, Copy)]
pub(super) struct TileRange {
    pub(super) from: Reg,
    pub(super) count: Reg,
}

/// One side of a tile: the indices of its rows or columns, and the range that it covers.
#[derive(Clone, Copy)]
pub(super) struct TileSide<'c> {
    pub(super) dims: &'c Dims,
    pub(super) range: TileRange,
}

/// The indices that a contraction sums over, and the number of their values.
#[derive(Clone, Copy)]
pub(super) struct Inner<'c> {
    pub(super) dims: &'c Dims,
    /// The first one that a block sums over, if it is not 0.
    pub(super) from: Option<Reg>,
    /// One past the last one that it sums over.
    pub(super) end: Reg,
}

/// The numbers of tiles.
pub(super) struct TileCounts {
    /// Along each axis, the innermost one last.
    pub(super) along: Vec<Reg>,
    pub(super) all: Reg,
    /// Whether 32 bits suffice for them.
    pub(super) small: Reg,
}

/// The tiles of a contraction.
pub(super) struct TileGrid<'t> {
    pub(super) groups: &'t Groups,
    /// The rows and columns of a tile.
    pub(super) tile: [i64; 2],
    /// The length of the batch, and the number of tiles along each side.
    pub(super) counts: TileCounts,
    /// The number of rows, columns and inner indices.
    pub(super) lengths: [Reg; 3],
    /// The parts of the sums, if blocks share tiles.
    pub(super) split: Option<&'t Split>,
}

/// A tile of a contraction, or a part of its sums.
pub(super) struct TileSums<'t> {
    pub(super) sides: [TileSide<'t>; 2],
    pub(super) inner: Inner<'t>,
    pub(super) part: Option<TilePart<'t>>,
}

/// The part of a tile's sums that a block adds up.
pub(super) struct TilePart<'s> {
    pub(super) split: &'s Split,
    pub(super) tile: Reg,
    /// Its number among the parts of all tiles, and that of the tile's first one.
    pub(super) number: Reg,
    pub(super) first: Reg,
    pub(super) parts: Reg,
}

/// The product of the extents.
pub(super) fn length(dims: &[(IndexId, Extent)]) -> Size {
    let extents = dims.iter().filter_map(|(_, extent)| extent.as_size());
    extents.fold(Size::constant(1), |product, n| &product * n)
}

/// The size of an element in shared memory.
pub(super) fn bytes(dtype: Dtype) -> i64 {
    if dtype.bytes() == 8 { 8 } else { 4 }
}

/// The type of an element in shared memory.
pub(super) fn held(dtype: Dtype) -> Type {
    if dtype.bytes() == 8 { Type::B64 } else { Type::B32 }
}
