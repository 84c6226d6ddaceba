//! Contractions by tensor cores. They take factors of 16-bit floats (their products are exact in
//! `f32`), and under [`Math::Fast`] also `f32` factors rounded to TF32. Accumulators are `f32`.
//!
//! A block computes a tile of the result in registers. The tiles of the factors are in dynamic
//! shared memory, in a pipeline of several stages (`pipeline`). They are multiplied by warps,
//! which load their fragments into registers (`mma`), or, on devices of compute capability 9.0,
//! by groups of four warps, where tensor cores read the tiles themselves (`wgmma`). There, bulk
//! copies bring the tiles of factors that are matrices in memory (`bulk`).

mod bulk;
mod mma;
mod pipeline;
mod stages;
pub(super) mod sweeps;
mod units;
mod wgmma;

use ir::Dtype;
use ir::build::Values;
use ir::groups::Groups;
use ir::nest::{Contraction, Program};
use ir::sched::narrow;

use super::build::Control;
use super::device::Target;
use super::emit::Emitter;
use super::epilogue::StagedAt;
use super::inst::{Address, Factors, Opcode, Operand, Reg, Space, Special, TileFactors, TileType, Type};
use super::parts::Joining;
use super::tile::{FEW_ROWS, TURNED_COLUMNS, TileGrid, TileSums};
use crate::settings::Math;
use bulk::IN_ROW;
use pipeline::Ring;
pub(super) use units::TensorUnits;
use units::{BulkFactors, Driver, FactorView, Fragment, Side, staged};

/// The rows of the result in tiles for few rows.
const TURNED_ROWS: [i64; 2] = [16, FEW_ROWS];

impl TensorUnits {
    /// The ways to compute a contraction, the fastest first. The last one runs on all devices.
    pub(super) fn of(
        program: &Program,
        values: &Values,
        (c, groups): (&Contraction, &Groups),
        math: Math,
    ) -> Vec<TensorUnits> {
        let dtype = values[c.result];
        let narrow = [&c.left, &c.right].map(|prologue| narrow(values, prologue));
        if let [Some((left, of_left)), Some((right, of_right))] = narrow
            && of_left == of_right
        {
            let (factors, ty) =
                if of_left == Dtype::F16 { (Factors::F16, TileType::F16) } else { (Factors::Bf16, TileType::Bf16) };
            let bulk = |columns: i64| {
                let by = TileFactors { ty, columns };
                let [rows, columns] = wgmma::ring(by).tile;
                let left = FactorView::of(program, &c.left, left, (groups, &groups.rows), rows)?;
                let right = FactorView::of(program, &c.right, right, (groups, &groups.columns), columns)?;
                Some(Driver::Bulk(by, Box::new(BulkFactors { views: [left, right], turned: false })))
            };
            let turned = |rows: i64| {
                let by = TileFactors { ty, columns: rows };
                let right = FactorView::of(program, &c.right, right, (groups, &groups.columns), TURNED_COLUMNS)?;
                let left = FactorView::of(program, &c.left, left, (groups, &groups.rows), rows)?;
                if rows < IN_ROW && !left.deep {
                    return None;
                }
                Some(Driver::Bulk(by, Box::new(BulkFactors { views: [right, left], turned: true })))
            };
            let wide = [256, 128, 64].into_iter().filter_map(bulk);
            let mut by_groups: Vec<Driver> = TURNED_ROWS.into_iter().filter_map(turned).chain(wide).collect();
            if by_groups.is_empty() {
                by_groups.extend([256, 128].map(|columns| Driver::WarpGroup(TileFactors { ty, columns })));
            }
            let drivers = by_groups.into_iter().chain([Driver::Warp(factors)]);
            return drivers.map(|driver| TensorUnits { driver, taken: [left, right], dtype }).collect();
        }
        if math != Math::Fast || dtype != Dtype::F32 {
            return vec![];
        }
        let taken = [c.left.value, c.right.value];
        vec![TensorUnits { driver: Driver::Warp(Factors::Tf32), taken, dtype }]
    }

    /// The oldest device that has them.
    pub(super) fn target(&self) -> Target {
        match self.driver {
            Driver::Warp(_) => Target::Sm80,
            Driver::WarpGroup(_) | Driver::Bulk(..) => Target::Sm90a,
        }
    }

    /// The end of the name of a kernel that uses them.
    pub(super) fn suffix(&self) -> String {
        match &self.driver {
            Driver::Warp(_) => String::new(),
            Driver::WarpGroup(_) => format!("_wgmma{}", self.tile()[1]),
            Driver::Bulk(_, factors) if factors.turned => format!("_turned{}", self.tile()[0]),
            Driver::Bulk(..) => format!("_bulk{}", self.tile()[1]),
        }
    }

    /// How long a multiprocessor takes for a tile, if there are two sizes of them. Wide tiles
    /// need less memory traffic for a product, and less energy.
    pub(super) fn turn(&self) -> Option<i64> {
        match &self.driver {
            Driver::Warp(_) => None,
            Driver::WarpGroup(by) | Driver::Bulk(by, _) => Some(match by.columns {
                256.. => 15,
                128.. => 8,
                _ => 5,
            }),
        }
    }

    /// The blocks that fit on a multiprocessor.
    pub(super) fn resident(&self) -> u32 {
        match &self.driver {
            Driver::WarpGroup(by) if by.columns > 128 => 1,
            Driver::Bulk(..) => 1,
            Driver::Warp(_) | Driver::WarpGroup(_) => 2,
        }
    }

    /// The blocks of a multiprocessor, if each takes one tile after another.
    pub(super) fn at_once(&self) -> Option<u32> {
        matches!(self.driver, Driver::Bulk(..)).then_some(1)
    }

    /// The most rows of the result that it is for, if there is a limit.
    pub(super) fn most_rows(&self) -> Option<i64> {
        self.is_turned().then(|| self.tile()[0].min(FEW_ROWS - 1))
    }

    /// Whether it is for few rows.
    fn is_turned(&self) -> bool {
        matches!(&self.driver, Driver::Bulk(_, factors) if factors.turned)
    }

    /// Whether it may get products with few rows, so that it has their sums in parts. Wide tiles
    /// that bulk copies bring do not: turned ones take no longer and come first.
    pub(super) fn joins(&self) -> bool {
        !matches!(self.driver, Driver::Bulk(..)) || self.is_turned()
    }

    /// The rows and columns of a tile of the result.
    pub(super) fn tile(&self) -> [i64; 2] {
        let [rows, columns] = self.ring().tile;
        if self.is_turned() { [columns, rows] } else { [rows, columns] }
    }

    /// The number of threads in a block.
    pub(super) fn threads(&self) -> u32 {
        self.ring().threads
    }

    /// The size of the dynamic shared memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let ring = self.ring();
        let behind = if let Driver::Bulk(by, factors) = &self.driver { factors.behind(*by, ring) } else { 0 };
        (ring.stages * ring.stage() + behind + ring.align - 1) as usize
    }

    /// The pipeline of the factors' tiles.
    fn ring(&self) -> Ring {
        match &self.driver {
            Driver::Warp(_) => mma::RING,
            Driver::WarpGroup(factors) => wgmma::ring(*factors),
            Driver::Bulk(by, factors) => factors.ring(*by),
        }
    }

    /// The type of an element in a factor's tile.
    fn element(&self) -> Dtype {
        let (Driver::WarpGroup(by) | Driver::Bulk(by, _)) = &self.driver else {
            return match self.driver {
                Driver::Warp(Factors::F16) => Dtype::F16,
                Driver::Warp(Factors::Bf16) => Dtype::Bf16,
                _ => Dtype::F32,
            };
        };
        match by.ty {
            TileType::F16 => Dtype::F16,
            TileType::Bf16 => Dtype::Bf16,
        }
    }

    fn width(&self) -> i64 {
        self.element().bytes() as i64
    }

    /// The distance between rows of a tile in bytes.
    fn pitch(&self, deep: bool) -> i64 {
        match self.driver {
            Driver::Warp(_) => mma::padded(self.width(), deep),
            Driver::WarpGroup(_) | Driver::Bulk(..) => wgmma::ROW,
        }
    }

    /// The number of inner indices per tile.
    fn depth(&self) -> i64 {
        self.ring().depth / self.width()
    }
}

impl Emitter<'_> {
    pub(super) fn multiply_by_tensor_units(&mut self, c: &Contraction, units: &TensorUnits, grid: &TileGrid<'_>) {
        match &units.driver {
            Driver::Warp(by) => self.for_each_tile(grid, |e, tile| e.tile_by_warps(c, units, *by, &tile)),
            Driver::WarpGroup(by) => self.for_each_tile(grid, |e, tile| e.tile_by_warp_groups(c, units, *by, &tile)),
            Driver::Bulk(by, factors) => self.multiply_in_bulk(c, units, (*by, factors), grid),
        }
    }

    fn tile_by_warps(&mut self, c: &Contraction, units: &TensorUnits, by: Factors, tile: &TileSums<'_>) {
        let TileSums { sides: [rows, columns], inner, part } = tile;
        let left = self.pipeline(units, Side::Left, &c.left, *rows, *inner);
        let right = self.pipeline(units, Side::Right, &c.right, *columns, *inner);
        let corner = self.warp_tile();
        let sums = self.multiply_by_warps(units, by, [&left, &right], &corner, *inner);
        let all: Vec<Reg> = sums.iter().flatten().flatten().copied().collect();
        let joining = (Joining::Block, units.threads(), 1);
        self.with_all_parts(part.as_ref(), joining, (Dtype::F32, &all), |e| {
            // The memory of the factors is free afterwards, and holds a part of the tile at a time.
            let epilogue = e.begin_epilogue(c, Dtype::F32, units.dtype, tile.sides);
            let memory = e.b().mov(Type::U64, Operand::More);
            for pass in 0..mma::PASSES {
                let low = e.b().op2(Opcode::Shr, Type::U64, corner.down, 1);
                e.stage_fragments((memory, mma::STAGED.pitch), [low, corner.across], mma::of_pass(&sums, pass));
                e.b().barrier();
                let row = (pass * mma::STAGED.run).into();
                e.epilogue_rows(&epilogue, &mma::STAGED, &StagedAt { memory, row, column: 0.into() });
                e.b().barrier();
            }
        });
    }

    fn tile_by_warp_groups(&mut self, c: &Contraction, units: &TensorUnits, by: TileFactors, tile: &TileSums<'_>) {
        let TileSums { sides: [rows, columns], inner, part } = tile;
        let left = self.pipeline(units, Side::Left, &c.left, *rows, *inner);
        let right = self.pipeline(units, Side::Right, &c.right, *columns, *inner);
        let sums = self.multiply_by_warp_groups(units, by, [&left, &right], *inner);
        let joining = (Joining::Block, units.threads(), 1);
        self.with_all_parts(part.as_ref(), joining, (Dtype::F32, &sums), |e| {
            // The memory of the factors is free afterwards, and holds the tile.
            let epilogue = e.begin_epilogue(c, Dtype::F32, units.dtype, tile.sides);
            let memory = e.b().mov(Type::U64, Operand::More);
            let (warp, start) = (e.warp(), e.int(0));
            let low = e.b().op2(Opcode::Mul, Type::S64, warp, 16);
            let [rows, columns] = units.tile();
            let staged = staged((columns, rows, rows, 0), units.threads());
            e.stage_fragments((memory, staged.pitch), [low, start], wgmma::fragments(&sums));
            e.b().barrier();
            e.epilogue_rows(&epilogue, &staged, &StagedAt { memory, row: 0.into(), column: 0.into() });
            e.b().barrier();
        });
    }

    /// Stores fragments in shared memory, from a row and a column on.
    fn stage_fragments(
        &mut self,
        (memory, pitch): (Reg, i64),
        [row, column]: [Reg; 2],
        fragments: impl IntoIterator<Item = Fragment>,
    ) {
        let thread = self.special(Special::Tid);
        let lane = self.b().op2(Opcode::And, Type::B64, thread, 31);
        let group = self.b().op2(Opcode::Shr, Type::U64, lane, 2);
        let pair = self.b().op2(Opcode::And, Type::B64, lane, 3);
        let row = self.b().op2(Opcode::Add, Type::S64, row, group);
        let column = self.b().op(Opcode::Mad, Type::S64, &[pair.into(), 2.into(), column.into()]);
        let place = self.b().op(Opcode::Mad, Type::S64, &[row.into(), pitch.into(), memory.into()]);
        let place = self.b().op(Opcode::Mad, Type::S64, &[column.into(), 4.into(), place.into()]);
        for Fragment { down, across, sums } in fragments {
            for (half, pair) in (0i64..).zip(sums.chunks(2)) {
                let at = Address { base: Some(place), offset: (down + 8 * half) * pitch + across * 4 };
                self.b().store_several(Space::Shared, Type::B32, pair.to_vec(), at);
            }
        }
    }

    /// The same with rows and columns exchanged, from the first ones on.
    fn stage_turned_fragments(&mut self, (memory, pitch): (Reg, i64), fragments: impl IntoIterator<Item = Fragment>) {
        let thread = self.special(Special::Tid);
        let lane = self.b().op2(Opcode::And, Type::B64, thread, 31);
        let group = self.b().op2(Opcode::Shr, Type::U64, lane, 2);
        let pair = self.b().op2(Opcode::And, Type::B64, lane, 3);
        let place = self.b().op(Opcode::Mad, Type::S64, &[pair.into(), (2 * pitch).into(), memory.into()]);
        let place = self.b().op(Opcode::Mad, Type::S64, &[group.into(), 4.into(), place.into()]);
        for Fragment { down, across, sums } in fragments {
            for (half, pair) in (0i64..).zip(sums.chunks(2)) {
                for (k, sum) in (0i64..).zip(pair) {
                    let at = Address { base: Some(place), offset: (across + k) * pitch + (down + 8 * half) * 4 };
                    self.b().store(Space::Shared, Type::B32, *sum, at);
                }
            }
        }
    }

    /// The number of the thread's warp.
    pub(super) fn warp(&mut self) -> Reg {
        let thread = self.special(Special::Tid);
        self.b().op2(Opcode::Shr, Type::U64, thread, 5)
    }
}
