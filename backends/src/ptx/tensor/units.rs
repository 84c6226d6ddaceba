//! A contraction by tensor cores as data: who drives them, the tiles of its factors, and fragments
//! of the result.

use ir::nest::{IndexId, ValueId};
use ir::{Dtype, Size};

use crate::ptx::emit::Emitter;
use crate::ptx::epilogue::StagedAccumulator;
use crate::ptx::inst::{Factors, Reg, TileFactors};
use crate::ptx::tensor_map::TensorView;

/// A contraction that tensor cores can compute.
pub(in crate::ptx) struct TensorUnits {
    pub(super) driver: Driver,
    /// The value of each prologue that they multiply.
    pub(super) taken: [ValueId; 2],
    pub(super) dtype: Dtype,
}

/// The threads that drive tensor cores together.
pub(super) enum Driver {
    /// A warp, with factors in its registers.
    Warp(Factors),
    /// Four warps, with factors in shared memory.
    WarpGroup(TileFactors),
    /// Four warps, with factors that bulk copies bring to shared memory.
    Bulk(TileFactors, Box<BulkFactors>),
}

/// A factor as a tensor in memory.
pub(super) struct FactorView {
    pub(super) view: TensorView,
    /// Whether it is contiguous along the inner index.
    pub(super) deep: bool,
    /// The indices of the dimensions after the first two.
    pub(super) batch: Vec<IndexId>,
}

/// Both factors of a product.
pub(super) struct BulkFactors {
    /// The factor along the rows of a tile, then the one along its columns.
    pub(super) views: [FactorView; 2],
    /// Whether the rows of a tile are the columns of the result.
    pub(super) turned: bool,
}

/// Which of the two factors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The tile of a factor in the stages of a ring.
#[derive(Clone, Copy)]
pub(super) struct FactorTile {
    pub(super) side: Side,
    /// Whether it is contiguous along the inner index.
    pub(super) deep: bool,
    /// The address of the ring, and the offset of the tile within a stage.
    pub(super) base: Reg,
    pub(super) at: i64,
}

/// Accumulators of a thread: four for 16 rows and 8 columns of the tile. Each half of them is two
/// adjacent elements of a row; the second half is eight rows below.
pub(super) struct Fragment {
    /// The first row, counted from that of the thread's first fragment, and the first column.
    pub(super) down: i64,
    pub(super) across: i64,
    pub(super) sums: [Reg; 4],
}

/// Rows of the result in the memory of the factors: runs of adjacent rows. The rows that one
/// instruction touches begin eight banks apart.
pub(super) const fn staged((columns, rows, run, apart): (i64, i64, i64, i64), threads: u32) -> StagedAccumulator {
    let pitch = (columns + 8) * 4;
    StagedAccumulator { pitch, side: columns, rows, run, apart, threads: threads as i64, neighbours: 1 }
}

/// A size times the width of an element, in a register.
pub(super) fn in_bytes(e: &mut Emitter<'_>, size: &Size, width: i64) -> Reg {
    e.size(&(size * &Size::constant(width)))
}
