//! Products by warp groups: `wgmma`. Two groups of four warps each take half of the rows of the
//! tile. Tensor cores read the tiles of both factors from shared memory, by descriptors, which
//! the PTX ISA defines under "Asynchronous Warpgroup Level Matrix Multiply-Accumulate".
//!
//! A tile consists of rows of 128 bytes, with the eight chunks of 16 bytes permuted by the number
//! of the row (128-byte swizzling): so neither copies to it nor reads cause bank conflicts.

use super::pipeline::{FactorPipeline, Ring};
use super::units::{FactorTile, Fragment, Side, TensorUnits};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::inst::{Comparison, Opcode, Reg, TileFactors, Type};
use crate::ptx::scalar;
use crate::ptx::tile::Inner;
use ir::Scalar;

/// The bytes of a row of a tile.
pub(super) const ROW: i64 = 128;
/// The bytes of a chunk, which stays together.
const CHUNK: i64 = 16;
/// The bytes of the rows over which the order of chunks repeats; tiles are aligned to it.
pub(super) const PERIOD: i64 = 8 * ROW;
/// The bytes of a box of 64 rows.
pub(super) const BOX: i64 = 64 * ROW;
/// The inner indices of an instruction.
pub(super) const STEP: i64 = 16;

/// The pipeline for a kind of instruction. With narrow tiles, two blocks fit on a
/// multiprocessor, so that one can multiply while the other waits. With wide tiles only one
/// fits, and the products of a stage begin before those of the last one have ended.
pub(super) fn ring(by: TileFactors) -> Ring {
    let (stages, lead) = if by.columns > 128 { (4, 2) } else { (3, 2) };
    Ring { threads: 256, tile: [128, by.columns], depth: ROW, padding: 0, align: PERIOD, stages, lead }
}

/// Products of two tiles into the accumulators of a thread.
pub(super) struct Products {
    by: TileFactors,
    pub(super) sums: Vec<Reg>,
    /// The descriptors of the tiles in the first stage, and which of them are wide.
    tiles: [Reg; 2],
    wide: [bool; 2],
    /// A predicate that holds.
    always: Reg,
}

/// The fragments of a thread.
pub(super) fn fragments(sums: &[Reg]) -> impl Iterator<Item = Fragment> {
    let (fragments, _) = sums.as_chunks::<4>();
    (0..).zip(fragments).map(|(k, sums)| Fragment { down: 0, across: 8 * k, sums: *sums })
}

impl Emitter<'_> {
    /// The offset of an element in a tile: a deep tile has a row for each outer index, a wide one
    /// boxes of 64 outer indices, with a row for each inner index.
    pub(super) fn place_in_swizzled(&mut self, width: i64, deep: bool, [outer, inner]: [Reg; 2]) -> Reg {
        let in_row = ROW / width;
        let (row, column) = if deep {
            (outer, inner)
        } else {
            let column = self.b().op2(Opcode::And, Type::B64, outer, in_row - 1);
            let number = self.b().op2(Opcode::Shr, Type::U64, outer, i64::from(in_row.ilog2()));
            // A box has as many rows as a tile has inner indices.
            (self.b().op(Opcode::Mad, Type::S64, &[number.into(), (BOX / ROW).into(), inner.into()]), column)
        };
        let within = self.b().op2(Opcode::Mul, Type::S64, column, width);
        let turn = self.b().op2(Opcode::And, Type::B64, row, PERIOD / ROW - 1);
        let turn = self.b().op2(Opcode::Mul, Type::S64, turn, CHUNK);
        let within = self.b().op2(Opcode::Xor, Type::B64, within, turn);
        self.b().op(Opcode::Mad, Type::S64, &[row.into(), ROW.into(), within.into()])
    }

    /// The descriptor of a factor's tile in the first stage, for this thread's warp group.
    fn descriptor(&mut self, tile: FactorTile) -> Reg {
        let mut at = self.b().op2(Opcode::Add, Type::S64, tile.base, tile.at);
        if tile.side == Side::Left {
            let warp = self.warp();
            let group = self.b().op2(Opcode::Shr, Type::U64, warp, 2);
            at = self.b().op(Opcode::Mad, Type::S64, &[group.into(), BOX.into(), at.into()]);
        }
        self.descriptor_at(at)
    }

    /// The descriptor of a tile at an address.
    pub(super) fn descriptor_at(&mut self, at: Reg) -> Reg {
        let at = self.b().op2(Opcode::Shr, Type::U64, at, 4);
        // The distance between boxes along a wide row, that between groups of eight rows, and the
        // kind of swizzling.
        self.b().op2(Opcode::Or, Type::B64, at, ((BOX / 16) << 16) | ((PERIOD / 16) << 32) | (1 << 62))
    }

    /// Products of these factors' tiles, into sums that are 0.
    pub(super) fn products_of(&mut self, by: TileFactors, tiles: [FactorTile; 2]) -> Products {
        let zero = scalar::constant(self.b(), Scalar::F32(0.0));
        // Each group of 128 threads has 64 rows and all columns.
        let sums = (0..64 * by.columns / 128).map(|_| self.b().copy(zero)).collect();
        let always = self.b().set(Comparison::Eq, Type::B32, zero, zero);
        Products {
            by,
            sums,
            tiles: tiles.map(|tile| self.descriptor(tile)),
            wide: tiles.map(|tile| !tile.deep),
            always,
        }
    }

    /// Sets the sums to 0.
    pub(super) fn clear(&mut self, products: &Products) {
        let zero = scalar::constant(self.b(), Scalar::F32(0.0));
        products.sums.iter().for_each(|sum| self.b().assign(*sum, zero));
    }

    /// Starts the products of a stage, given its offset, as a group.
    pub(super) fn start_products(&mut self, units: &TensorUnits, products: &Products, stage: Reg) {
        let stage = self.b().op2(Opcode::Shr, Type::U64, stage, 4);
        let tiles = products.tiles.map(|tile| self.b().op2(Opcode::Add, Type::S64, tile, stage));
        self.b().fence_products();
        for step in 0..units.depth() / STEP {
            let tiles = [0, 1].map(|side| {
                // The next inner indices are further along a deep row, or in later wide rows.
                let apart = if products.wide[side] { STEP * ROW } else { STEP * units.width() };
                self.b().op2(Opcode::Add, Type::S64, tiles[side], step * apart / 16)
            });
            self.b().multiply_tiles((products.by, products.wide), products.sums.clone(), tiles, products.always);
        }
        self.b().group_products();
    }

    /// Multiplies all tiles. Returns the accumulators of this thread.
    pub(super) fn multiply_by_warp_groups(
        &mut self,
        units: &TensorUnits,
        by: TileFactors,
        factors: [&FactorPipeline<'_>; 2],
        inner: Inner<'_>,
    ) -> Vec<Reg> {
        let products = self.products_of(by, factors.map(|factor| factor.tile));
        self.multiply_stages(units, factors, inner, |e, stage| e.start_products(units, &products, stage));
        products.sums
    }
}
