//! Products by warps: `ldmatrix` and `mma`. Four warps each take a quarter of the tile. The rows
//! of the factors' tiles are padded so that a warp's loads cause no bank conflicts.

use ir::{Dtype, Scalar};

use super::pipeline::{FactorPipeline, Ring};
use super::units::{Fragment, Side, TensorUnits, staged};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::epilogue::StagedAccumulator;
use crate::ptx::inst::{Address, Factors, Opcode, Reg, Space, Special, Type};
use crate::ptx::scalar;
use crate::ptx::tile::Inner;

/// The side of a result tile, and of a warp's part of it.
const SIDE: i64 = 128;
const WARP_TILE: i64 = SIDE / 2;
/// The bytes along the inner index of a factor's tile, and of one tensor core instruction.
const DEPTH: i64 = 64;
const STEP: i64 = 32;
/// The bytes between the end of a deep row and the start of the next.
const PADDING: i64 = 16;
pub(super) const RING: Ring =
    Ring { threads: 128, tile: [SIDE; 2], depth: DEPTH, padding: PADDING, align: 16, stages: 3, lead: 2 };
/// The number of rows of a warp's part that are staged at a time, since the memory of the factors
/// holds half of the tile.
const RUN: i64 = WARP_TILE / 2;
pub(super) const PASSES: i64 = WARP_TILE / RUN;
pub(super) const STAGED: StagedAccumulator = staged((SIDE, 2 * RUN, RUN, WARP_TILE), RING.threads);

/// The origin of a warp's part of the tile, and the thread's lane.
pub(super) struct WarpTile {
    pub(super) down: Reg,
    pub(super) across: Reg,
    lane: Reg,
}

/// The accumulators of a thread, for each 16 rows and 8 columns of its warp's part.
type Sums = Vec<Vec<[Reg; 4]>>;

/// The fragments that are staged in a pass.
pub(super) fn of_pass(sums: &Sums, pass: i64) -> impl Iterator<Item = Fragment> {
    let count = (RUN / 16) as usize;
    let rows = sums.iter().skip(pass as usize * count).take(count);
    (0i64..).zip(rows).flat_map(|(down, sums)| {
        (0i64..).zip(sums).map(move |(across, sums)| Fragment { down: 16 * down, across: 8 * across, sums: *sums })
    })
}

/// The distance between rows of a padded tile in bytes. For a wide tile, the rows that a warp
/// loads at once begin four banks apart, or eight if it loads single elements.
pub(super) fn padded(width: i64, deep: bool) -> i64 {
    if deep { DEPTH + PADDING } else { (SIDE + 8) * width }
}

impl Emitter<'_> {
    pub(super) fn warp_tile(&mut self) -> WarpTile {
        let thread = self.special(Special::Tid);
        let lane = self.b().op2(Opcode::And, Type::B64, thread, 31);
        // The warps form a 2 x 2 grid: bit 5 of the thread selects the half across, bit 6 the
        // half down.
        let mut part = |shift: i64| {
            let warp = self.b().op2(Opcode::Shr, Type::U64, thread, shift);
            let half = self.b().op2(Opcode::And, Type::B64, warp, 1);
            self.b().op2(Opcode::Mul, Type::S64, half, WARP_TILE)
        };
        WarpTile { across: part(5), down: part(6), lane }
    }

    /// The offset of an element in a tile.
    pub(super) fn place_in_padded(&mut self, units: &TensorUnits, deep: bool, [outer, inner]: [Reg; 2]) -> Reg {
        let (row, column) = if deep { (outer, inner) } else { (inner, outer) };
        let within = self.b().op2(Opcode::Mul, Type::S64, column, units.width());
        self.b().op(Opcode::Mad, Type::S64, &[row.into(), padded(units.width(), deep).into(), within.into()])
    }

    /// Multiplies all tiles.
    pub(super) fn multiply_by_warps(
        &mut self,
        units: &TensorUnits,
        by: Factors,
        pipelines: [&FactorPipeline<'_>; 2],
        tile: &WarpTile,
        inner: Inner<'_>,
    ) -> Sums {
        let zero = scalar::constant(self.b(), Scalar::F32(0.0));
        let sums: Sums = (0..WARP_TILE / 16)
            .map(|_| (0..WARP_TILE / 8).map(|_| [(); 4].map(|()| self.b().copy(zero))).collect())
            .collect();
        let places = [(pipelines[0], tile.down), (pipelines[1], tile.across)]
            .map(|(pipeline, first)| self.first_fragment(units, pipeline, first, tile.lane));
        self.multiply_stages(units, pipelines, inner, |e, stage| {
            let places = places.map(|place| e.b().op2(Opcode::Add, Type::S64, place, stage));
            for step in 0..DEPTH / STEP {
                e.step(units, by, pipelines, places, step, &sums);
            }
        });
        sums
    }

    /// Multiplies one inner step: the left fragments of 16 rows by the right fragments of 8
    /// columns.
    fn step(
        &mut self,
        units: &TensorUnits,
        by: Factors,
        pipelines: [&FactorPipeline<'_>; 2],
        places: [Reg; 2],
        step: i64,
        sums: &[Vec<[Reg; 4]>],
    ) {
        let [left, right] = [0, 1].map(|side| {
            let fragments = (0..WARP_TILE / 16).map(|k| self.fragment(units, pipelines[side], places[side], k, step));
            fragments.collect::<Vec<_>>()
        });
        for (sums, a) in sums.iter().zip(left) {
            // A right fragment covers 16 columns, an instruction only 8, so it serves two of
            // them.
            for (pair, b) in sums.chunks(2).zip(&right) {
                for (half, sum) in pair.iter().enumerate() {
                    self.b().multiply(by, *sum, a, [b[2 * half], b[2 * half + 1]]);
                }
            }
        }
    }

    /// The address of this thread's first load. For `ldmatrix`, each lane addresses one row of
    /// one of the four matrices; otherwise it addresses a single element.
    fn first_fragment(&mut self, units: &TensorUnits, pipeline: &FactorPipeline<'_>, first: Reg, lane: Reg) -> Reg {
        let mut part = |shift: i64, count: i64| {
            let rest = self.b().op2(Opcode::Shr, Type::U64, lane, shift);
            self.b().op2(Opcode::And, Type::B64, rest, count - 1)
        };
        // `ldmatrix` can only transpose 16-bit elements, so for wide TF32 tiles each lane loads
        // its own elements.
        let (outer, inner) = if units.element() == Dtype::F32 && !pipeline.tile.deep {
            (part(2, 8), part(0, 4))
        } else {
            let (row, second, third) = (part(0, 8), part(3, 2), part(4, 2));
            let (below, behind) = if pipeline.tile.side == Side::Left { (second, third) } else { (third, second) };
            let eight = 16 / units.width();
            let (down, across) =
                if pipeline.tile.deep { ((below, 8), (behind, eight)) } else { ((behind, 8), (below, 8)) };
            let down = self.b().op(Opcode::Mad, Type::S64, &[down.0.into(), down.1.into(), row.into()]);
            let across = self.b().op2(Opcode::Mul, Type::S64, across.0, across.1);
            if pipeline.tile.deep { (down, across) } else { (across, down) }
        };
        let outer = self.b().op2(Opcode::Add, Type::S64, outer, first);
        self.place_in_tile(units, pipeline, outer, inner)
    }

    /// Loads a fragment for 16 rows of a factor. The four registers are in the order that the
    /// instruction expects. For the left factor these are rows 0 to 7, rows 8 to 15, then both
    /// again with the second half of the inner indices. For the right factor, each half of the
    /// rows has both halves of the inner indices next to each other.
    fn fragment(
        &mut self,
        units: &TensorUnits,
        pipeline: &FactorPipeline<'_>,
        place: Reg,
        number: i64,
        step: i64,
    ) -> [Reg; 4] {
        let (row, column) = (16 * number, step * STEP / units.width());
        let offset = |row: i64, column: i64| {
            let (down, across) = if pipeline.tile.deep { (row, column) } else { (column, row) };
            pipeline.tile.at + down * units.pitch(pipeline.tile.deep) + across * units.width()
        };
        let at = |offset: i64| Address { base: Some(place), offset };
        let tf32 = units.element() == Dtype::F32;
        let loaded = if tf32 && !pipeline.tile.deep {
            let middle = if pipeline.tile.side == Side::Left { [(8, 0), (0, 4)] } else { [(0, 4), (8, 0)] };
            [(0, 0), middle[0], middle[1], (8, 4)].map(|(below, behind)| {
                self.b().load(Space::Shared, Type::B32, at(offset(row + below, column + behind)))
            })
        } else {
            self.b().load_matrices(at(offset(row, column)), !pipeline.tile.deep)
        };
        if tf32 { loaded.map(|element| self.b().rounded(element)) } else { loaded }
    }
}
