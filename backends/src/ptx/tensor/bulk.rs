//! Products by warp groups of tiles that bulk copies bring: `cp.async.bulk.tensor`. One thread of
//! a group of its own starts the copies of both factors' tiles, stage by stage; two groups of
//! four warps multiply, with most of the registers. Each stage has two arrival barriers: `full`,
//! where the bytes of its tiles arrive, and `free`, where the warps arrive that have multiplied
//! them. So the warps need no common barrier, and copies for the next tile of the result begin
//! while this one's epilogue runs.
//!
//! Both factors must be matrices in memory that tensor maps can describe. Copies fill elements
//! out of bounds with zeros.
//!
//! A tile of an instruction has no fewer than 64 rows, but may have few columns. So a product with
//! few rows is turned: its columns are the rows of the tiles. Then nearly all that is copied are
//! elements of the right factor, and blocks share the tiles (`split`), as memory is only read at
//! full speed by all multiprocessors together.

use ir::groups::Groups;
use ir::nest::{Contraction, IndexId, Program, Prologue, ValueId};
use ir::{Dtype, Size};

use super::pipeline::{InStage, Ring};
use super::stages::{BARRIERS, COPY, MULTIPLY, Stages, WARP};
use super::units::{BulkFactors, FactorTile, FactorView, Side, TensorUnits};
use super::wgmma::{self, BOX};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::epilogue::{Epilogue, StagedAccumulator, StagedAt};
use crate::ptx::factor::Steps;
use crate::ptx::inst::{Address, Comparison, Opcode, Operand, Reg, Rounding, Special, TileFactors, Type};
use crate::ptx::parts::Joining;
use crate::ptx::tensor_map::{MOST_DIMS, TensorView};
use crate::ptx::tile::{Dims, Inner, TileGrid, length};

/// The shared memory of a block in bytes, on devices of compute capability 9.0.
pub(super) const MEMORY: i64 = 227 << 10;
/// The elements of a row of a box.
pub(super) const IN_ROW: i64 = 64;
/// The rows of the tile that a warp has the accumulators of, and the columns that it stages at a
/// time. Threads store two neighbours at once.
const STAGED: StagedAccumulator =
    StagedAccumulator { pitch: (64 + 8) * 4, side: 64, rows: 16, run: 16, apart: 16, threads: WARP, neighbours: 2 };
/// The accumulators of a thread for these.
const OF_PASS: usize = 32;

impl BulkFactors {
    /// The rows and columns of the result as the rows and columns of a tile, and back.
    fn turn<T>(&self, [rows, columns]: [T; 2]) -> [T; 2] {
        if self.turned { [columns, rows] } else { [rows, columns] }
    }

    /// The ring for a kind of instruction: as many stages as there is memory for.
    pub(super) fn ring(&self, by: TileFactors) -> Ring {
        let ring = Ring { threads: (MULTIPLY + COPY) as u32, ..wgmma::ring(by) };
        Ring { stages: (MEMORY - self.staged_bytes(by) - ring.align) / (ring.stage() + BARRIERS), ..ring }
    }

    /// The bytes of shared memory behind the ring: the elements that warps stage, and the barriers.
    pub(super) fn behind(&self, by: TileFactors, ring: Ring) -> i64 {
        self.staged_bytes(by) + ring.stages * BARRIERS
    }

    /// The elements that a warp stages: in a turned tile, all rows of the result and the columns of
    /// a warp.
    fn staged(&self, by: TileFactors) -> StagedAccumulator {
        let rows = by.columns;
        let turned = StagedAccumulator { pitch: (16 + 4) * 4, side: 16, rows, run: rows, apart: rows, ..STAGED };
        if self.turned { turned } else { STAGED }
    }

    fn staged_bytes(&self, by: TileFactors) -> i64 {
        MULTIPLY / WARP * self.staged(by).bytes()
    }
}

impl FactorView {
    /// A factor that is a plain load, with adjacent elements along one side of its tiles.
    pub(super) fn of(
        program: &Program,
        prologue: &Prologue,
        taken: ValueId,
        (groups, outer): (&Groups, &Dims),
        extent: i64,
    ) -> Option<FactorView> {
        let inner = &groups.inner;
        let Steps { buffer, linear, outer: down, inner: across } = Steps::of(program, prologue, taken, outer, inner)?;
        let deep = across.as_constant() == Some(1);
        if !deep && down.as_constant() != Some(1) {
            return None;
        }
        let side = |extent: i64| u32::try_from(extent).ok();
        let (one, rows) = (Size::constant(1), side(if deep { extent } else { IN_ROW })?);
        let mut dims = if deep {
            vec![(length(inner), one, side(IN_ROW)?), (length(outer), down, rows)]
        } else {
            vec![(length(outer), one, side(IN_ROW)?), (length(inner), across, rows)]
        };
        let mut batch = vec![];
        let own = |index: &IndexId| outer.iter().chain(inner).any(|(other, _)| other == index);
        for (index, step) in linear.affine.terms().iter().filter(|(index, _)| !own(index)) {
            let (_, extent) = groups.batch.iter().find(|(other, _)| other == index)?;
            dims.push((extent.as_size()?.clone(), step.clone(), 1));
            batch.push(*index);
        }
        let start = linear.affine.constant_part().clone();
        let view = TensorView { buffer, dtype: program.buffers[buffer].dtype, start, dims };
        (view.dims.len() <= MOST_DIMS).then_some(FactorView { view, deep, batch })
    }
}

impl Emitter<'_> {
    /// Computes the tiles of this block.
    pub(super) fn multiply_in_bulk(
        &mut self,
        c: &Contraction,
        units: &TensorUnits,
        (by, factors): (TileFactors, &BulkFactors),
        grid: &TileGrid<'_>,
    ) {
        let ring = units.ring();
        let base = self.ring_base(ring);
        let staged = self.b().op2(Opcode::Add, Type::S64, base, ring.stages * ring.stage());
        let barriers = self.b().op2(Opcode::Add, Type::S64, staged, factors.staged_bytes(by));
        let stages = Stages { ring, base, barriers };
        self.copy_and_multiply(
            &[stages],
            |e| e.copy_all(units, factors, &stages, grid),
            |e| e.multiply_all(c, units, (by, factors), (&stages, staged), grid),
        );
    }

    /// Copies the factors' tiles for all tiles of the result.
    fn copy_all(&mut self, units: &TensorUnits, factors: &BulkFactors, stages: &Stages, grid: &TileGrid<'_>) {
        let views = &factors.views;
        let maps = views.each_ref().map(|factor| self.tensor_map(factor.view.clone()));
        let turn = self.first_turn();
        self.for_each_tile(grid, |e, tile| {
            let fixed: Vec<Vec<Reg>> = views
                .iter()
                .zip(&factors.turn(tile.sides))
                .map(|(factor, side)| {
                    let batch = factor.batch.iter().map(|index| e.index(*index));
                    let all: Vec<Reg> = std::iter::once(side.range.from).chain(batch).collect();
                    all.into_iter().map(|number| e.word(number)).collect()
                })
                .collect();
            e.for_each_stage_of(units, tile.inner, |e, from| {
                let (stage, full) = e.fill_stage(stages, turn);
                let from = e.word(from);
                for ((factor, map), (fixed, at)) in views.iter().zip(maps).zip(fixed.iter().zip(stages.ring.offsets()))
                {
                    e.copy_boxes((factor, map), fixed, from, at, (stage, full));
                }
                e.advance(stages, turn);
            });
        });
    }

    /// Copies a tile of a factor to a stage, from an inner index on. `fixed` are its first outer
    /// index and those of the batch.
    pub(super) fn copy_boxes(
        &mut self,
        (factor, map): (&FactorView, Reg),
        fixed: &[Reg],
        from: Reg,
        at: InStage,
        (stage, full): (Reg, Address),
    ) {
        let (outer, batch) = (fixed[0], &fixed[1..]);
        let boxes = if factor.deep { 1 } else { at.extent / IN_ROW };
        for k in 0..boxes {
            let to = Address { base: Some(stage), offset: at.offset + k * BOX };
            let across = self.b().op2(Opcode::Add, Type::S32, outer, k * IN_ROW);
            let mut place = if factor.deep { vec![from, outer] } else { vec![across, from] };
            place.extend(batch);
            self.b().copy_box(to, map, place, full);
        }
    }

    /// Multiplies the factors' tiles for all tiles of the result.
    fn multiply_all(
        &mut self,
        c: &Contraction,
        units: &TensorUnits,
        (by, factors): (TileFactors, &BulkFactors),
        (stages, staged): (&Stages, Reg),
        grid: &TileGrid<'_>,
    ) {
        let ([down, across], [first, second]) = (stages.ring.offsets(), &factors.views);
        let tiles = [
            FactorTile { side: Side::Left, deep: first.deep, base: stages.base, at: down.offset },
            FactorTile { side: Side::Right, deep: second.deep, base: stages.base, at: across.offset },
        ];
        let products = self.products_of(by, tiles);
        let turn = self.first_turn();
        let (thread, warp) = (self.special(Special::Tid), self.warp());
        let lane = self.b().op2(Opcode::And, Type::B64, thread, WARP - 1);
        let leads = self.b().set(Comparison::Eq, Type::S64, lane, 0);
        let of_warp = factors.staged(by);
        let staged = self.b().op(Opcode::Mad, Type::S64, &[warp.into(), of_warp.bytes().into(), staged.into()]);
        let first = self.b().op2(Opcode::Mul, Type::S64, warp, STAGED.rows);
        self.for_each_tile(grid, |e, tile| {
            e.clear(&products);
            e.for_each_stage_of(units, tile.inner, |e, _| {
                let [full, free] = e.barriers(stages, turn);
                e.await_phase(full, turn.parity);
                let stage = e.b().op2(Opcode::Mul, Type::S64, turn.number, stages.ring.stage());
                e.start_products(units, &products, stage);
                e.b().await_products(0);
                e.b().guarded(leads, |b| b.arrive(free));
                e.advance(stages, turn);
            });
            let joining = (Joining::Warp, MULTIPLY as u32, 1);
            e.with_all_parts(tile.part.as_ref(), joining, (Dtype::F32, &products.sums), |e| {
                let epilogue = e.begin_epilogue(c, Dtype::F32, units.dtype, tile.sides);
                let memory = staged;
                if factors.turned {
                    // A warp has the accumulators of some columns of the result.
                    e.stage_turned_fragments((memory, of_warp.pitch), wgmma::fragments(&products.sums));
                    e.b().warp_barrier();
                    let at = StagedAt { memory, row: 0.into(), column: first.into() };
                    e.epilogue_rows(&epilogue, &of_warp, &at);
                    e.b().warp_barrier();
                } else {
                    e.epilogue_by_warps(&epilogue, &products.sums, (memory, first.into()));
                }
            });
        });
    }

    /// Runs the epilogue of the rows that a warp has the accumulators of.
    fn epilogue_by_warps(&mut self, epilogue: &Epilogue<'_>, sums: &[Reg], (memory, row): (Reg, Operand)) {
        let start = self.int(0);
        for (pass, sums) in (0i64..).zip(sums.chunks(OF_PASS)) {
            self.stage_fragments((memory, STAGED.pitch), [start, start], wgmma::fragments(sums));
            self.b().warp_barrier();
            let column = (pass * STAGED.side).into();
            self.epilogue_rows(epilogue, &STAGED, &StagedAt { memory, row, column });
            self.b().warp_barrier();
        }
    }

    /// Emits a loop over the first inner index of each stage.
    fn for_each_stage_of(&mut self, units: &TensorUnits, inner: Inner<'_>, make: impl FnOnce(&mut Self, Reg)) {
        let start = inner.from.unwrap_or_else(|| self.int(0));
        self.counted(start, inner.end, units.depth(), make);
    }

    /// The low 32 bits of a number.
    pub(super) fn word(&mut self, number: Reg) -> Reg {
        self.b().convert(Rounding::Exact, Type::U32, Type::U64, number)
    }
}
