//! Tiled contractions (matrix products). A block computes a tile of the result, and each thread a
//! part of it in registers: a square, or a half or quarter of one for small results. For few rows,
//! tiles are lower and wider. The factors go through shared memory, a few inner iterations at a
//! time, in a pipeline: the next tiles are copied while the current ones are multiplied. Finally
//! the tile itself is staged in shared memory, and the epilogue runs along its rows.
//!
//! Each element is accumulated in one chain over ascending inner indices: with `fma` in `f32` (also
//! for 16-bit floats, rounded at the end) or `f64`, with products and sums for integers.
//! Alternatively, tensor cores multiply (`tensor`).

use ir::build::Values;
use ir::groups::Groups;
use ir::nest::{Contraction, Program};
use ir::{BinaryOp, Dtype, Scalar, Size};

use super::build::Control;
use super::device::Target;
use super::emit::Emitter;
use super::epilogue::{Epilogue, StagedAccumulator, StagedAt};
use super::inst::{Address, Comparison, Opcode, Operand, Reg, Space, Special, Type};
use super::parts::Joining;
use super::pipeline::Pipeline;
use super::scalar;
use super::split::Split;
use super::state::Argument;
use super::tensor::TensorUnits;
use super::tile::{
    DEPTH, Dims, Inner, QUAD, Side, THREADS, TileCounts, TileGrid, TileRange, TileSide, TileSums, bytes, held, length,
};
use crate::settings::Math;

/// The threads of a warp down and across a tile.
const OF_WARP: [i64; 2] = [4, 8];
/// The warps of a block down and across a tile, and the same for few rows.
const WARPS: [i64; 2] = [4, 2];
const FEW_WARPS: [i64; 2] = [1, 8];
/// A tiled contraction and the units that multiply its tiles.
pub(super) struct Tiled {
    pub(super) groups: Groups,
    multiplier: Multiplier,
    /// The parts of the sums, if blocks share tiles.
    split: Option<Split>,
}

/// The units that multiply the tiles.
enum Multiplier {
    /// Threads. Each accumulates its part in registers.
    Threads(Tiles),
    /// Tensor cores. The threads of a warp drive them together.
    TensorUnits(TensorUnits),
}

/// The tiling for multiplication by threads.
pub(super) struct Tiles {
    /// The rows and columns of a thread's part in quads.
    quads: [i64; 2],
    /// The warps down and across the tile.
    warps: [i64; 2],
    pub(super) dtype: Dtype,
    /// The type of the accumulators.
    pub(super) sum: Dtype,
}

impl Tiled {
    /// The ways to compute a contraction, the fastest first. The last one runs on all devices.
    pub(super) fn all(program: &Program, values: &Values, c: &Contraction, math: Math) -> Vec<Tiled> {
        let dtype = values[c.result];
        let groups = Groups::new(c);
        let units = TensorUnits::of(program, values, (c, &groups), math);
        if !units.is_empty() {
            return units.into_iter().map(|units| Tiled::by_units(Groups::new(c), units)).collect();
        }
        let whole = |multiplier| Tiled { groups: Groups::new(c), multiplier, split: None };
        let sum = if matches!(dtype, Dtype::F16 | Dtype::Bf16) { Dtype::F32 } else { dtype };
        let by_threads = |quads| whole(Multiplier::Threads(Tiles { quads, warps: WARPS, dtype, sum }));
        let few = whole(Multiplier::Threads(Tiles { quads: [1; 2], warps: FEW_WARPS, dtype, sum }));
        let few = few.split_as(Split::of_wide_tiles, sum);
        let small = by_threads([1; 2]);
        if sum.bytes() == 8 {
            return vec![few, by_threads([1; 2]).in_parts(sum, None), small];
        }
        let square = by_threads([2; 2]);
        let [small_sums, large_sums] = [[1; 2], [2; 2]].map(|quads| by_threads(quads).in_parts(sum, None).split);
        let [small_parts, in_parts] =
            [([1; 2], large_sums), ([2; 2], small_sums)].map(|(quads, other)| by_threads(quads).in_parts(sum, other));
        vec![few, small_parts, in_parts, by_threads([2, 1]), small, square]
    }

    /// The same with the sums of tiles in parts, unless tiles of other sides take less time.
    fn in_parts(self, sum: Dtype, other: Option<Split>) -> Tiled {
        let [height, width] = self.tile();
        let small = height * width <= (16 * QUAD) * (16 * QUAD);
        self.split_as(|groups, tiles, bytes| Split::by_tiles(groups, tiles, bytes, (small, other)), sum)
    }

    /// By tensor cores: in parts, if there are few rows.
    fn by_units(groups: Groups, units: TensorUnits) -> Tiled {
        let joins = units.joins();
        let whole = Tiled { groups, multiplier: Multiplier::TensorUnits(units), split: None };
        if joins { whole.split_as(Split::of_few_rows, Dtype::F32) } else { whole }
    }

    /// The same with sums in parts, given the grid of tiles and the bytes of the sums of one.
    fn split_as(self, split: impl FnOnce(&Groups, Vec<Size>, i64) -> Split, sum: Dtype) -> Tiled {
        let [height, width] = self.tile();
        let split = split(&self.groups, self.counts(), height * width * bytes(sum));
        Tiled { split: Some(split), ..self }
    }

    /// The parts of the sums, if blocks share tiles.
    pub(super) fn split(&self) -> Option<&Split> {
        self.split.as_ref()
    }

    /// The sizes that it is for: each at most the number next to it.
    pub(super) fn at_most(&self) -> Vec<(Size, i64)> {
        let most_rows = match &self.multiplier {
            Multiplier::TensorUnits(units) => units.most_rows(),
            Multiplier::Threads(tiles) => (tiles.warps == FEW_WARPS).then(|| tiles.sides()[0].length),
        };
        most_rows.map(|most| (length(&self.groups.rows), most)).into_iter().collect()
    }

    /// The oldest device that runs it.
    pub(super) fn target(&self) -> Target {
        match &self.multiplier {
            Multiplier::Threads(_) => Target::Sm80,
            Multiplier::TensorUnits(units) => units.target(),
        }
    }

    /// The number of threads in a block.
    pub(super) fn threads(&self) -> u32 {
        match &self.multiplier {
            Multiplier::Threads(_) => THREADS,
            Multiplier::TensorUnits(units) => units.threads(),
        }
    }

    /// The size of the dynamic shared memory in bytes.
    pub(super) fn more(&self) -> usize {
        match &self.multiplier {
            Multiplier::Threads(tiles) => tiles.memory(),
            Multiplier::TensorUnits(units) => units.memory(),
        }
    }

    /// The grid of tiles: the batch, then the tiles along rows and columns.
    pub(super) fn counts(&self) -> Vec<Size> {
        let tile = self.tile();
        let mut counts: Vec<Size> =
            self.groups.batch.iter().map(|(_, e)| e.as_size().cloned().unwrap_or_default()).collect();
        let outer = [(&self.groups.rows, tile[0]), (&self.groups.columns, tile[1])];
        counts.extend(outer.map(|(dims, side)| length(dims).ceil_div(&side.into())));
        counts
    }

    /// The rows and columns of a tile of the result.
    fn tile(&self) -> [i64; 2] {
        match &self.multiplier {
            Multiplier::Threads(tiles) => tiles.sides().map(|side| side.length),
            Multiplier::TensorUnits(units) => units.tile(),
        }
    }

    /// The end of its kernel's name.
    pub(super) fn suffix(&self) -> String {
        match &self.multiplier {
            Multiplier::Threads(tiles) => {
                let size = match tiles.quads {
                    _ if tiles.warps == FEW_WARPS => return "_few".to_owned(),
                    [2, 1] => "_narrow",
                    [1, 1] if tiles.sum.bytes() < 8 => "_small",
                    _ => "",
                };
                let parts = if self.split.is_some() { "_parts" } else { "" };
                format!("{size}{parts}")
            }
            Multiplier::TensorUnits(units) => units.suffix(),
        }
    }

    /// If there are ways with tiles of other sizes: how long a multiprocessor takes for a tile,
    /// in a unit that they share.
    pub(super) fn turn(&self) -> Option<i64> {
        match &self.multiplier {
            Multiplier::Threads(_) if self.split.is_some() => None,
            // Threads load a quad for each side in each step, and a part of a square of products
            // takes a little more than that part of the time.
            Multiplier::Threads(tiles) => Some(4 * tiles.quads[0] * tiles.quads[1] + 1),
            Multiplier::TensorUnits(units) => units.turn(),
        }
    }

    /// The blocks of a multiprocessor, if each takes one tile after another.
    pub(super) fn at_once(&self) -> Option<u32> {
        match &self.multiplier {
            Multiplier::Threads(_) => None,
            Multiplier::TensorUnits(units) => units.at_once(),
        }
    }

    /// The blocks that fit on a multiprocessor.
    fn resident(&self) -> u32 {
        match &self.multiplier {
            // While one block waits, others multiply.
            Multiplier::Threads(tiles) if tiles.quads == [2, 1] || tiles.warps == FEW_WARPS => 3,
            Multiplier::Threads(_) => 2,
            Multiplier::TensorUnits(units) => units.resident(),
        }
    }
}

impl Tiles {
    /// The sides of a result tile: its rows and its columns.
    pub(super) fn sides(&self) -> [Side; 2] {
        [0, 1].map(|side| {
            let length = self.warps[side] * OF_WARP[side] * QUAD * self.quads[side];
            Side { length, dtype: self.dtype, sum: self.sum }
        })
    }

    /// The parts of sums that a thread loads at a time: as many registers as a square has.
    fn parts_at_once(&self) -> i64 {
        let registers = self.quads.iter().product::<i64>() * QUAD * QUAD * bytes(self.sum) / 4;
        (4 * QUAD * QUAD / registers).max(1)
    }

    /// The pipeline of the factors' tiles.
    fn pipeline(&self) -> Pipeline {
        let bytes = self.sides().iter().map(|side| side.bytes()).sum();
        Pipeline { stages: 3, lead: 2, bytes, depth: DEPTH, by_tensor_cores: false }
    }

    /// The size of the dynamic shared memory in bytes.
    fn memory(&self) -> usize {
        let Pipeline { stages, bytes, .. } = self.pipeline();
        usize::try_from(stages * bytes).unwrap_or(0)
    }
}

/// The contraction with the factor first whose indices come first in the result: the parts of sums
/// must not depend on the order in which fusion leaves the factors.
pub(super) fn in_order(c: &Contraction) -> Contraction {
    let Groups { rows, columns, .. } = Groups::new(c);
    let place = |dims: &Dims| c.free.iter().position(|(index, _)| dims.iter().any(|(other, _)| other == index));
    let mut c = c.clone();
    if let (Some(rows), Some(columns)) = (place(&rows), place(&columns))
        && columns < rows
    {
        std::mem::swap(&mut c.left, &mut c.right);
    }
    c
}

/// The origin of a thread's part in the tile, and its row when the quads of all threads are
/// packed together for the epilogue.
struct Corner {
    down: Reg,
    across: Reg,
    low: Reg,
}

impl Emitter<'_> {
    /// Computes the tiles of this block.
    pub(super) fn contract(&mut self, c: &Contraction, tiled: &Tiled) {
        self.mapping.resident = Some(tiled.resident());
        let grid = self.tile_grid(tiled);
        match &tiled.multiplier {
            Multiplier::Threads(tiles) => {
                self.for_each_tile(&grid, |e, tile| e.multiply_by_threads(c, tiles, &tile));
            }
            Multiplier::TensorUnits(units) => self.multiply_by_tensor_units(c, units, &grid),
        }
    }

    fn tile_grid<'t>(&mut self, tiled: &'t Tiled) -> TileGrid<'t> {
        let counts = self.tile_counts(tiled.counts());
        let Groups { rows, columns, inner, .. } = &tiled.groups;
        let lengths = [rows, columns, inner].map(|dims| self.size(&length(dims)));
        TileGrid { groups: &tiled.groups, tile: tiled.tile(), counts, lengths, split: tiled.split.as_ref() }
    }

    pub(super) fn tile_counts(&mut self, sizes: Vec<Size>) -> TileCounts {
        let small = self.argument(Argument::Small(sizes.clone()));
        let small = self.b().set(Comparison::Ne, Type::S64, small, 0);
        let along: Vec<Reg> = sizes.iter().map(|size| self.size(size)).collect();
        let all = along.iter().skip(1).fold(along[0], |all, n| self.b().op2(Opcode::Mul, Type::S64, all, *n));
        TileCounts { along, all, small }
    }

    /// Emits a loop over the tiles of this block, or over parts of their sums.
    pub(super) fn for_each_tile<'t>(&mut self, grid: &TileGrid<'t>, make: impl FnOnce(&mut Self, TileSums<'t>)) {
        let ([.., depth], dims) = (grid.lengths, &grid.groups.inner);
        if let Some(split) = grid.split {
            return self.for_each_part(split, grid.counts.all, depth, |e, part, [from, end]| {
                let sides = e.tile_sides(grid, part.tile);
                make(e, TileSums { sides, inner: Inner { dims, from: Some(from), end }, part: Some(part) });
            });
        }
        let [block, blocks] = [Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        self.counted(block, grid.counts.all, blocks, |e, number| {
            let sides = e.tile_sides(grid, number);
            make(e, TileSums { sides, inner: Inner { dims, from: None, end: depth }, part: None });
        });
    }

    /// The sides of the tile of a number. Tile 0 is the one at (0, 0), 1 the one at (0, 1), and so
    /// on: blocks that run at the same time share rows of the left factor, which stay in the L2
    /// cache.
    fn tile_sides<'t>(&mut self, grid: &TileGrid<'t>, number: Reg) -> [TileSide<'t>; 2] {
        let Groups { batch, rows, columns, .. } = grid.groups;
        let [down, across, _] = grid.lengths;
        let digits = self.digits(number, &grid.counts);
        // The first two digits select the tile, the others are the batch.
        for ((index, _), digit) in batch.iter().rev().zip(&digits[2..]) {
            self.bind(*index, *digit);
        }
        let [height, width] = grid.tile;
        let row = self.b().op2(Opcode::Mul, Type::S64, digits[1], height);
        let column = self.b().op2(Opcode::Mul, Type::S64, digits[0], width);
        [
            TileSide { dims: rows, range: TileRange { from: row, count: down } },
            TileSide { dims: columns, range: TileRange { from: column, count: across } },
        ]
    }

    fn multiply_by_threads(&mut self, c: &Contraction, tiles: &Tiles, tile: &TileSums<'_>) {
        let sums = self.tile_sums(c, tiles, tile.sides, tile.inner);
        let all: Vec<Reg> = sums.iter().flatten().copied().collect();
        let joining = (Joining::Block, THREADS, tiles.parts_at_once());
        self.with_all_parts(tile.part.as_ref(), joining, (tiles.sum, &all), |e| {
            let epilogue = e.begin_epilogue(c, tiles.sum, tiles.dtype, tile.sides);
            e.epilogue_tile(&epilogue, tiles, &sums);
        });
    }

    /// This thread's sums of a tile, over some inner indices. The result is row by row.
    fn tile_sums(
        &mut self,
        c: &Contraction,
        tiles: &Tiles,
        [rows, columns]: [TileSide<'_>; 2],
        inner: Inner<'_>,
    ) -> Vec<Vec<Reg>> {
        let [down, across] = tiles.sides();
        let factors = self.factors([(down, &c.left, rows), (across, &c.right, columns)], inner);
        let [high, wide] = tiles.quads.map(|quads| QUAD * quads);
        let zero = scalar::constant(self.b(), Scalar::zero(tiles.sum));
        let sums: Vec<Vec<Reg>> = (0..high).map(|_| (0..wide).map(|_| self.b().copy(zero)).collect()).collect();
        let corner = self.corner(tiles);
        let more = self.b().mov(Type::U64, Operand::More);
        let places = [(corner.down, 0), (corner.across, down.bytes())].map(|(first, at)| {
            let place = self.b().op(Opcode::Mad, Type::S64, &[first.into(), bytes(tiles.sum).into(), more.into()]);
            self.b().op2(Opcode::Add, Type::S64, place, at)
        });
        self.for_each_stage(
            tiles.pipeline(),
            inner,
            |e, from, stage| e.fill_tiles(&factors, from, stage),
            |e, stage| {
                let places = places.map(|place| e.b().op2(Opcode::Add, Type::S64, place, stage));
                e.multiply_tiles(tiles, places, &sums);
            },
        );
        sums
    }

    /// Adds the products of a stage to the sums: an outer product per inner index.
    fn multiply_tiles(&mut self, tiles: &Tiles, places: [Reg; 2], sums: &[Vec<Reg>]) {
        let [down, across] = tiles.sides();
        for step in 0..DEPTH {
            let left = Address { base: Some(places[0]), offset: step * down.pitch() };
            let right = Address { base: Some(places[1]), offset: step * across.pitch() };
            let left = self.quads(tiles.sum, left, (tiles.quads[0], OF_WARP[0]));
            let right = self.quads(tiles.sum, right, (tiles.quads[1], OF_WARP[1]));
            for (row, (sums, x)) in sums.iter().zip(&left).enumerate() {
                let mut products: Vec<(Reg, Reg)> = sums.iter().copied().zip(right.iter().copied()).collect();
                // Rows by turns forwards and backwards, so that an operand is used again at once.
                if row % 2 == 1 {
                    products.reverse();
                }
                products.into_iter().for_each(|(sum, y)| self.add_product(tiles.sum, sum, *x, y));
            }
        }
    }

    /// The place of the tile with a number along each axis, the last one first.
    pub(super) fn digits(&mut self, number: Reg, counts: &TileCounts) -> Vec<Reg> {
        let mut digits = vec![];
        let mut number = number;
        for count in counts.along.iter().skip(1).rev() {
            let whole = self.divide(Some(counts.small), number, *count);
            let before = self.b().op2(Opcode::Mul, Type::S64, whole, *count);
            digits.push(self.b().op2(Opcode::Sub, Type::S64, number, before));
            number = whole;
        }
        digits.push(number);
        digits
    }

    /// The origin of this thread's part. A warp is arranged as four rows of eight threads, a
    /// block as four rows of two warps, or as a row of them. Loads by a warp then touch every bank,
    /// without conflicts.
    fn corner(&mut self, tiles: &Tiles) -> Corner {
        let thread = self.special(Special::Tid);
        let mut part = |shift: i64, count: i64| {
            let rest = self.b().op2(Opcode::Shr, Type::U64, thread, shift);
            self.b().op2(Opcode::And, Type::B64, rest, count - 1)
        };
        let [high, wide] = tiles.warps;
        let (lane_across, lane_down) = (part(0, OF_WARP[1]), part(3, OF_WARP[0]));
        let (warp_across, warp_down) = (part(5, wide), part(5 + i64::from(wide.ilog2()), high));
        let mut at = |warp: Reg, quads: i64, lane: Reg| {
            let before = self.b().op2(Opcode::Mul, Type::S64, warp, quads * QUAD);
            self.b().op(Opcode::Mad, Type::S64, &[lane.into(), QUAD.into(), before.into()])
        };
        let [down, across] = tiles.quads;
        let (across, low) = (at(warp_across, 8 * across, lane_across), at(warp_down, 4, lane_down));
        Corner { across, down: at(warp_down, 4 * down, lane_down), low }
    }

    /// A thread's elements of a row of a factor's tile. Its quads are as far apart as the quads of
    /// all threads across.
    fn quads(&mut self, dtype: Dtype, first: Address, (quads, threads): (i64, i64)) -> Vec<Reg> {
        let mut all = vec![];
        for quad in 0..quads {
            let offset = first.offset + quad * threads * QUAD * bytes(dtype);
            all.extend(self.load_quad(dtype, Address { offset, ..first }));
        }
        all
    }

    /// Loads four adjacent elements from shared memory.
    fn load_quad(&mut self, dtype: Dtype, at: Address) -> Vec<Reg> {
        let mut all = vec![];
        for place in pieces(dtype, at) {
            all.extend(self.b().load_several(Space::Shared, held(dtype), place.1, place.0));
        }
        all
    }

    fn store_quad(&mut self, dtype: Dtype, quad: &[Reg], at: Address) {
        let mut rest = quad;
        for (place, count) in pieces(dtype, at) {
            let (own, others) = rest.split_at(count);
            self.b().store_several(Space::Shared, held(dtype), own.to_vec(), place);
            rest = others;
        }
    }

    /// A copy that the assembler does not take for the value itself, if that has 32 bits.
    fn separated(&mut self, dtype: Dtype, value: Reg) -> Reg {
        if held(dtype) != Type::B32 {
            return value;
        }
        // Grids have one dimension, which the assembler does not know.
        let zero = self.b().mov(Type::U32, Operand::Special(Special::CtaidZ));
        self.b().op2(Opcode::Or, Type::B32, value, zero)
    }

    fn add_product(&mut self, dtype: Dtype, sum: Reg, x: Reg, y: Reg) {
        if dtype.is_float() {
            let ty = scalar::arithmetic(dtype);
            return self.b().op_to(sum, Opcode::FmaRn, ty, &[x.into(), y.into(), sum.into()]);
        }
        // For integers, the assembler contracts both to a single instruction.
        let product = scalar::binary(self.b(), BinaryOp::Mul, dtype, x, y);
        let more = scalar::binary(self.b(), BinaryOp::Add, dtype, sum, product);
        self.b().assign(sum, more);
    }

    /// Stages one quad of each thread's rows at a time in shared memory and runs the epilogue over
    /// them.
    fn epilogue_tile(&mut self, epilogue: &Epilogue<'_>, tiles: &Tiles, sums: &[Vec<Reg>]) {
        let [_, across] = tiles.sides();
        let pitch = across.pitch();
        let corner = self.corner(tiles);
        let memory = self.b().mov(Type::U64, Operand::More);
        let row = self.b().op(Opcode::Mad, Type::S64, &[corner.low.into(), pitch.into(), memory.into()]);
        let place = self.b().op(Opcode::Mad, Type::S64, &[corner.across.into(), bytes(tiles.sum).into(), row.into()]);
        // The four rows of threads in a warp contribute four quads of consecutive rows.
        let run = OF_WARP[0] * QUAD;
        let staged = StagedAccumulator {
            pitch,
            side: across.length,
            // One quad for each row of threads.
            rows: tiles.warps[0] * run,
            run,
            apart: run * tiles.quads[0],
            threads: i64::from(THREADS),
            neighbours: 1,
        };
        for quad in 0..tiles.quads[0] {
            let own_rows = &sums[usize::try_from(quad * QUAD).unwrap_or(0)..];
            for (k, sums) in (0i64..).zip(&own_rows[..QUAD as usize]) {
                for (group, sums) in (0i64..).zip(sums.chunks(QUAD as usize)) {
                    // Quads in memory are quads of registers. The sums stay free of that: a sum
                    // and its factors then lie in different banks of registers.
                    let sums: Vec<Reg> = sums.iter().map(|sum| self.separated(tiles.sum, *sum)).collect();
                    let offset = k * pitch + group * 8 * QUAD * bytes(tiles.sum);
                    self.store_quad(tiles.sum, &sums, Address { base: Some(place), offset });
                }
            }
            self.b().barrier();
            let at = StagedAt { memory, row: (quad * run).into(), column: 0.into() };
            self.epilogue_rows(epilogue, &staged, &at);
            self.b().barrier();
        }
    }
}

/// The accesses for four adjacent elements in shared memory.
fn pieces(dtype: Dtype, at: Address) -> Vec<(Address, usize)> {
    let count = usize::try_from(16 / bytes(dtype)).unwrap_or(1);
    (0..QUAD as usize / count).map(|k| (Address { offset: at.offset + 16 * k as i64, ..at }, count)).collect()
}
