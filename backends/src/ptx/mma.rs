//! Contractions by tensor cores. They take factors of 16-bit floats (their products are exact in
//! `f32`), and under [`Math::Fast`] also `f32` factors rounded to TF32. Accumulators are `f32`.
//!
//! A block of four warps computes a square tile of the result, each warp a quarter of it in
//! registers. The tiles of the factors are in dynamic shared memory, in a pipeline of several
//! stages: later stages are copied while the current one is multiplied. A factor that is contiguous
//! and aligned is copied with `cp.async`, bypassing registers; any other is computed element by
//! element. Elements out of bounds are filled with zeros. A tile is called *deep* if it is
//! contiguous along the inner index, otherwise *wide*. The rows of either are padded so that a
//! warp's loads cause no bank conflicts.

use ir::build::Values;
use ir::nest::{Contraction, Op, Prologue, Statement, ValueId};
use ir::{Dtype, Scalar, Size};

use super::build::Control;
use super::contract::{Inner, TileSide};
use super::emit::Emitter;
use super::epilogue::StagedAccumulator;
use super::inst::{Address, Comparison, Factors, Opcode, Operand, Reg, Space, Special, Type};
use super::state::ExecScope;
use super::{Math, scalar};

/// The number of threads in a block.
pub(super) const THREADS: u32 = 128;
/// The side of a result tile.
pub(super) const SIDE: i64 = 128;
/// The side of a warp's part of it.
const WARP_TILE: i64 = SIDE / 2;
/// The bytes along the inner index of a factor's tile, and of one tensor core instruction.
const DEPTH: i64 = 64;
const STEP: i64 = 32;
/// The size of a factor's tile. The padding keeps its rows in different banks.
const FACTOR: i64 = SIDE * (DEPTH + WIDE);
/// The number of pipeline stages. Each holds a tile of both factors.
const STAGES: i64 = 3;
const STAGE: i64 = 2 * FACTOR;
/// The size of an asynchronous copy in bytes.
const WIDE: i64 = 16;
/// The size of the dynamic shared memory in bytes.
pub(super) const MEMORY: usize = (STAGES * STAGE) as usize;
/// The distance between staged rows of the result in bytes. The rows that one instruction touches
/// begin eight banks apart.
const ROW: i64 = (SIDE + 8) * 4;
/// The number of rows of a warp's part that are staged at a time.
const RUN: i64 = WARP_TILE / 2;
/// The number of elements that a thread computes together, so that their loads overlap.
const AT_ONCE: i64 = 4;

/// A contraction that tensor cores can compute.
pub(super) struct TensorUnits {
    factors: Factors,
    /// The value of each prologue that they multiply.
    taken: [ValueId; 2],
    dtype: Dtype,
}

impl TensorUnits {
    pub(super) fn of(values: &Values, c: &Contraction, math: Math) -> Option<TensorUnits> {
        let dtype = values[c.result];
        let narrow = [&c.left, &c.right].map(|prologue| narrow(values, prologue));
        if let [Some((left, of_left)), Some((right, of_right))] = narrow
            && of_left == of_right
        {
            let factors = if of_left == Dtype::F16 { Factors::F16 } else { Factors::Bf16 };
            return Some(TensorUnits { factors, taken: [left, right], dtype });
        }
        let taken = [c.left.value, c.right.value];
        (math == Math::Fast && dtype == Dtype::F32).then_some(TensorUnits { factors: Factors::Tf32, taken, dtype })
    }

    /// The type of an element in a factor's tile.
    fn element(&self) -> Dtype {
        match self.factors {
            Factors::F16 => Dtype::F16,
            Factors::Bf16 => Dtype::Bf16,
            Factors::Tf32 => Dtype::F32,
        }
    }

    fn width(&self) -> i64 {
        if self.factors == Factors::Tf32 { 4 } else { 2 }
    }

    /// The number of inner indices per tile.
    fn depth(&self) -> i64 {
        DEPTH / self.width()
    }

    /// The distance between rows of a factor's tile in bytes. For a wide tile, the rows that a warp
    /// loads at once begin four banks apart, or eight if it loads single elements.
    fn pitch(&self, deep: bool) -> i64 {
        if deep { DEPTH + WIDE } else { SIDE * self.width() + 8 * self.width() }
    }
}

/// The 16-bit float value of a factor, possibly before its conversion to `f32`.
fn narrow(values: &Values, prologue: &Prologue) -> Option<(ValueId, Dtype)> {
    let found = prologue.body.iter().find_map(|statement| {
        let Statement::Let { value, op: Op::Cast(Dtype::F32, from) } = statement else { return None };
        Some(*from).filter(|_| *value == prologue.value)
    });
    let taken = found.unwrap_or(prologue.value);
    Some((taken, values[taken])).filter(|(_, dtype)| matches!(dtype, Dtype::F16 | Dtype::Bf16))
}

/// Which of the two factors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    /// The offset of its tile within a stage.
    fn at(self) -> i64 {
        if self == Side::Left { 0 } else { FACTOR }
    }
}

/// The pipeline of one factor.
struct FactorPipeline<'c> {
    side: Side,
    prologue: &'c Prologue,
    taken: ValueId,
    outer: TileSide<'c>,
    inner: Inner<'c>,
    deep: bool,
    pitch: i64,
    async_copies: Option<AsyncCopies>,
}

/// A factor in memory: whether it is aligned, its address with all indices at 0, and the distances
/// between elements along its outer and inner indices in bytes.
struct Source {
    aligned: Reg,
    origin: Reg,
    by_outer: Reg,
    by_inner: Reg,
}

/// The asynchronous copies of a factor, used if it is aligned at run time.
struct AsyncCopies {
    aligned: Reg,
    /// The distance between consecutive tiles in bytes.
    next: Reg,
    copies: Vec<AsyncCopy>,
}

/// An asynchronous copy of a thread.
struct AsyncCopy {
    pointer: Reg,
    /// The inner index within the tile.
    inner: Reg,
    /// The number of bytes to copy if the inner index is in bounds.
    read: Reg,
    /// The address in the first stage.
    place: Reg,
}

/// The origin of a warp's part of the tile, and the thread's lane.
struct WarpTile {
    down: Reg,
    across: Reg,
    lane: Reg,
}

impl Emitter<'_> {
    pub(super) fn multiply_by_tensor_units(
        &mut self,
        c: &Contraction,
        units: &TensorUnits,
        [rows, columns]: [TileSide<'_>; 2],
        inner: Inner<'_>,
    ) {
        let left = self.pipeline(units, Side::Left, &c.left, rows, inner);
        let right = self.pipeline(units, Side::Right, &c.right, columns, inner);
        let lanes = self.lanes();
        let sums = self.accumulate(units, [&left, &right], &lanes, inner.count);
        let epilogue = self.begin_epilogue(c, Dtype::F32, units.dtype, [rows, columns]);
        let staged = StagedAccumulator {
            memory: Operand::More,
            at: 0,
            pitch: ROW,
            side: SIDE,
            rows: 2 * RUN,
            run: RUN,
            apart: WARP_TILE,
        };
        let more = self.b().mov(Type::U64, Operand::More);
        // Each fragment holds two adjacent elements of a row and two more, eight rows below.
        let group = self.b().op2(Opcode::Shr, Type::U64, lanes.lane, 2);
        let pair = self.b().op2(Opcode::And, Type::B64, lanes.lane, 3);
        let low = self.b().op2(Opcode::Shr, Type::U64, lanes.down, 1);
        let low = self.b().op2(Opcode::Add, Type::S64, low, group);
        let column = self.b().op(Opcode::Mad, Type::S64, &[pair.into(), 2.into(), lanes.across.into()]);
        let place = self.b().op(Opcode::Mad, Type::S64, &[low.into(), ROW.into(), more.into()]);
        let place = self.b().op(Opcode::Mad, Type::S64, &[column.into(), 4.into(), place.into()]);
        // The staging area holds half of the tile, so stage the rows of each warp in two passes.
        for (pass, sums) in (0i64..).zip(sums.chunks((RUN / 16) as usize)) {
            for (down, sums) in (0i64..).zip(sums) {
                for (across, sum) in (0i64..).zip(sums) {
                    for (half, pair) in (0i64..).zip(sum.chunks(2)) {
                        let offset = (16 * down + 8 * half) * ROW + 8 * across * 4;
                        let at = Address { base: Some(place), offset };
                        self.b().store_several(Space::Shared, Type::B32, pair.to_vec(), at);
                    }
                }
            }
            self.b().barrier();
            self.epilogue_rows(&epilogue, &staged, pass * RUN);
            self.b().barrier();
        }
    }

    fn lanes(&mut self) -> WarpTile {
        let thread = self.special(Special::Tid);
        let lane = self.b().op2(Opcode::And, Type::B64, thread, 31);
        // The warps form a 2 x 2 grid: bit 5 of the thread selects the half across, bit 6 the half
        // down.
        let mut part = |shift: i64| {
            let warp = self.b().op2(Opcode::Shr, Type::U64, thread, shift);
            let half = self.b().op2(Opcode::And, Type::B64, warp, 1);
            self.b().op2(Opcode::Mul, Type::S64, half, WARP_TILE)
        };
        WarpTile { across: part(5), down: part(6), lane }
    }

    fn pipeline<'c>(
        &mut self,
        units: &TensorUnits,
        side: Side,
        prologue: &'c Prologue,
        outer: TileSide<'c>,
        inner: Inner<'c>,
    ) -> FactorPipeline<'c> {
        let taken = units.taken[usize::from(side == Side::Right)];
        let steps = self.steps(prologue, taken, outer.dims, inner.dims);
        let deep = steps.as_ref().map_or_else(|| self.loads_deep(prologue, inner.dims), super::factor::Steps::deep);
        let mut pipeline =
            FactorPipeline { side, prologue, taken, outer, inner, deep, pitch: units.pitch(deep), async_copies: None };
        if let Some(steps) = steps {
            let aligned = self.aligned(&steps, outer.dims, inner.dims, WIDE / units.width());
            pipeline.async_copies = aligned.map(|aligned| {
                let origin = self.origin(&steps, outer.dims, inner.dims);
                let [by_outer, by_inner] =
                    [&steps.outer, &steps.inner].map(|step| self.size(&(step * &Size::constant(units.width()))));
                self.async_copies(units, &pipeline, Source { aligned, origin, by_outer, by_inner })
            });
        }
        pipeline
    }

    fn async_copies(&mut self, units: &TensorUnits, pipeline: &FactorPipeline<'_>, source: Source) -> AsyncCopies {
        let Source { aligned, origin, by_outer, by_inner } = source;
        let thread = self.special(Special::Tid);
        let in_row = if pipeline.deep { DEPTH } else { SIDE * units.width() } / WIDE;
        let at_once = i64::from(THREADS) / in_row;
        let first = self.b().op2(Opcode::And, Type::B64, thread, in_row - 1);
        let first = self.b().op2(Opcode::Mul, Type::S64, first, WIDE / units.width());
        let row = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(in_row.ilog2()));
        let rows = if pipeline.deep { SIDE } else { units.depth() };
        let span = pipeline.outer.range;
        // Each thread keeps one column of copies and steps down the rows.
        let copies = (0..rows / at_once).map(|k| {
            let row = self.b().op2(Opcode::Add, Type::S64, row, k * at_once);
            let (outer, inner) = if pipeline.deep { (row, first) } else { (first, row) };
            let place = self.place_in_tile(units, pipeline, outer, inner);
            let outer = self.b().op2(Opcode::Add, Type::S64, outer, span.from);
            let inside = self.b().set(Comparison::Lt, Type::S64, outer, span.count);
            // A copy of 0 bytes fills its slot with zeros.
            let read = self.b().select(Type::B32, WIDE, 0, inside);
            let pointer = self.b().op(Opcode::Mad, Type::S64, &[outer.into(), by_outer.into(), origin.into()]);
            let pointer = self.b().op(Opcode::Mad, Type::S64, &[inner.into(), by_inner.into(), pointer.into()]);
            AsyncCopy { pointer: self.b().copy(pointer), inner, read, place }
        });
        let copies = copies.collect();
        let next = self.b().op2(Opcode::Mul, Type::S64, by_inner, units.depth());
        AsyncCopies { aligned, next, copies }
    }

    /// The address of an element in the first stage.
    fn place_in_tile(&mut self, units: &TensorUnits, pipeline: &FactorPipeline<'_>, outer: Reg, inner: Reg) -> Reg {
        let more = self.b().mov(Type::U64, Operand::More);
        let (row, column) = if pipeline.deep { (outer, inner) } else { (inner, outer) };
        let place = self.b().op(Opcode::Mad, Type::S64, &[row.into(), pipeline.pitch.into(), more.into()]);
        self.b().op(Opcode::Mad, Type::S64, &[column.into(), units.width().into(), place.into()])
    }

    /// Starts to copy the tile at inner index `from` to a stage, or computes it.
    fn prefetch(&mut self, units: &TensorUnits, pipeline: &FactorPipeline<'_>, from: Reg, stage: Reg) {
        let Some(async_copies) = &pipeline.async_copies else { return self.compute_tile(units, pipeline, from, stage) };
        self.either(
            async_copies.aligned,
            |e| {
                for copy in &async_copies.copies {
                    let inner = e.b().op2(Opcode::Add, Type::S64, copy.inner, from);
                    let inside = e.b().set(Comparison::Lt, Type::S64, inner, pipeline.inner.count);
                    let read = e.b().select(Type::B32, copy.read, 0, inside);
                    let place = e.b().op2(Opcode::Add, Type::S64, copy.place, stage);
                    let to = Address { base: Some(place), offset: pipeline.side.at() };
                    e.b().copy_wide(to, Address { base: Some(copy.pointer), offset: 0 }, read);
                    let pointer = copy.pointer;
                    e.b().op_to(pointer, Opcode::Add, Type::S64, &[pointer.into(), async_copies.next.into()]);
                }
            },
            |e| e.compute_tile(units, pipeline, from, stage),
        );
    }

    /// Computes a tile. A thread keeps one inner index in a deep tile, and one outer index in a
    /// wide tile.
    fn compute_tile(&mut self, units: &TensorUnits, pipeline: &FactorPipeline<'_>, from: Reg, stage: Reg) {
        let (TileSide { dims: outer, range: span }, Inner { dims: inner, count: end }) =
            (pipeline.outer, pipeline.inner);
        // The two factors can merge the inner indices differently, so each has its own axes.
        let [outer_axes, inner_axes] = [outer, inner].map(|dims| self.axes(dims, &pipeline.prologue.body));
        let thread = self.special(Special::Tid);
        let in_row = if pipeline.deep { units.depth() } else { SIDE };
        let column = self.b().op2(Opcode::And, Type::B64, thread, in_row - 1);
        let row = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(in_row.ilog2()));
        let (step, rows) = (i64::from(THREADS) / in_row, if pipeline.deep { SIDE } else { units.depth() });
        let [(across, across_from, across_end), (down, down_from, down_end)] = if pipeline.deep {
            [(&inner_axes, from, end), (&outer_axes, span.from, span.count)]
        } else {
            [(&outer_axes, span.from, span.count), (&inner_axes, from, end)]
        };
        let number = self.b().op2(Opcode::Add, Type::S64, column, across_from);
        let in_column = self.b().set(Comparison::Lt, Type::S64, number, across_end);
        // Clamp out-of-bounds indices to 0: their elements are computed too, but replaced by zeros.
        let number = self.b().select(Type::B64, number, 0, in_column);
        self.unravel(across, number);
        let rows = self.int(rows);
        let ty = scalar::memory(units.element());
        self.counted(row, rows, step * AT_ONCE, |e, row| {
            let mut elements = vec![];
            for k in 0..AT_ONCE {
                let row = e.b().op2(Opcode::Add, Type::S64, row, k * step);
                let (outer, inner) = if pipeline.deep { (row, column) } else { (column, row) };
                let place = e.place_in_tile(units, pipeline, outer, inner);
                let place = e.b().op2(Opcode::Add, Type::S64, place, stage);
                let number = e.b().op2(Opcode::Add, Type::S64, row, down_from);
                let inside = e.b().set(Comparison::Lt, Type::S64, number, down_end);
                let inside = e.b().op2(Opcode::And, Type::Pred, inside, in_column);
                let number = e.b().select(Type::B64, number, 0, inside);
                e.unravel(down, number);
                e.masked(inside, |e| e.in_exec_scope(ExecScope::Thread, |e| e.block(&pipeline.prologue.body)));
                let zero = scalar::constant(e.b(), Scalar::zero(units.element()));
                let value = e.value(pipeline.taken);
                elements.push((e.b().select(ty, value, zero, inside), place));
            }
            for (element, place) in elements {
                e.b().store(Space::Shared, ty, element, Address { base: Some(place), offset: pipeline.side.at() });
            }
        });
    }

    /// Multiplies all tiles. Returns the accumulators of this thread, four for each 16 rows and 8
    /// columns of its warp's part.
    fn accumulate(
        &mut self,
        units: &TensorUnits,
        pipelines: [&FactorPipeline<'_>; 2],
        lanes: &WarpTile,
        depth: Reg,
    ) -> Vec<Vec<[Reg; 4]>> {
        let zero = scalar::constant(self.b(), Scalar::F32(0.0));
        let sums: Vec<Vec<[Reg; 4]>> = (0..WARP_TILE / 16)
            .map(|_| (0..WARP_TILE / 8).map(|_| [(); 4].map(|()| self.b().copy(zero))).collect())
            .collect();
        let places = [(pipelines[0], lanes.down), (pipelines[1], lanes.across)]
            .map(|(pipeline, first)| self.first_fragment(units, pipeline, first, lanes.lane));
        let (start, stages) = (self.int(0), self.int((STAGES - 1) * STAGE));
        // The inner index of the next tile to prefetch, and its stage.
        let (coming, comes_to) = (self.b().copy(start), self.b().copy(start));
        let prefetch = |e: &mut Self| {
            let some = e.b().set(Comparison::Lt, Type::S64, coming, depth);
            e.when(some, |e| pipelines.iter().for_each(|pipeline| e.prefetch(units, pipeline, coming, comes_to)));
            e.b().group_copies();
            e.b().op_to(coming, Opcode::Add, Type::S64, &[coming.into(), units.depth().into()]);
            e.advance_stage(comes_to);
        };
        // Fill the pipeline: all stages but one.
        self.while_(|e| e.b().set(Comparison::Lt, Type::S64, comes_to, stages), prefetch);
        let (inner, stage) = (self.b().copy(start), self.b().copy(start));
        self.while_(
            |e| e.b().set(Comparison::Lt, Type::S64, inner, depth),
            |e| {
                // The barrier has two purposes: the current tile is complete, and all warps are
                // done with the previous one, so that its stage can be overwritten.
                e.b().await_groups((STAGES - 2) as u32);
                e.b().barrier();
                prefetch(e);
                let places = places.map(|place| e.b().op2(Opcode::Add, Type::S64, place, stage));
                for step in 0..DEPTH / STEP {
                    e.step(units, pipelines, places, step, &sums);
                }
                e.b().op_to(inner, Opcode::Add, Type::S64, &[inner.into(), units.depth().into()]);
                e.advance_stage(stage);
            },
        );
        // The epilogue reuses this memory, so no copy may be in flight.
        self.b().await_copies();
        self.b().barrier();
        sums
    }

    /// Advances to the next stage of the ring.
    fn advance_stage(&mut self, stage: Reg) {
        let next = self.b().op2(Opcode::Add, Type::S64, stage, STAGE);
        let is_last = self.b().set(Comparison::Eq, Type::S64, next, STAGES * STAGE);
        let next = self.b().select(Type::B64, 0, next, is_last);
        self.b().assign(stage, next);
    }

    /// Multiplies one inner step: the left fragments of 16 rows by the right fragments of 8
    /// columns.
    fn step(
        &mut self,
        units: &TensorUnits,
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
            // A right fragment covers 16 columns, an instruction only 8, so it serves two of them.
            for (pair, b) in sums.chunks(2).zip(&right) {
                for (half, sum) in pair.iter().enumerate() {
                    self.b().multiply(units.factors, *sum, a, [b[2 * half], b[2 * half + 1]]);
                }
            }
        }
    }

    /// The address of this thread's first load. For `ldmatrix`, each lane addresses one row of one
    /// of the four matrices; otherwise it addresses a single element.
    fn first_fragment(&mut self, units: &TensorUnits, pipeline: &FactorPipeline<'_>, first: Reg, lane: Reg) -> Reg {
        let mut part = |shift: i64, count: i64| {
            let rest = self.b().op2(Opcode::Shr, Type::U64, lane, shift);
            self.b().op2(Opcode::And, Type::B64, rest, count - 1)
        };
        // `ldmatrix` can only transpose 16-bit elements, so for wide TF32 tiles each lane loads its
        // own elements.
        let (outer, inner) = if units.factors == Factors::Tf32 && !pipeline.deep {
            (part(2, 8), part(0, 4))
        } else {
            let (row, second, third) = (part(0, 8), part(3, 2), part(4, 2));
            let (below, behind) = if pipeline.side == Side::Left { (second, third) } else { (third, second) };
            let eight = 16 / units.width();
            let (down, across) = if pipeline.deep { ((below, 8), (behind, eight)) } else { ((behind, 8), (below, 8)) };
            let down = self.b().op(Opcode::Mad, Type::S64, &[down.0.into(), down.1.into(), row.into()]);
            let across = self.b().op2(Opcode::Mul, Type::S64, across.0, across.1);
            if pipeline.deep { (down, across) } else { (across, down) }
        };
        let outer = self.b().op2(Opcode::Add, Type::S64, outer, first);
        self.place_in_tile(units, pipeline, outer, inner)
    }

    /// Loads a fragment for 16 rows of a factor. The four registers are in the order that the
    /// instruction expects. For the left factor these are rows 0 to 7, rows 8 to 15, then both
    /// again with the second half of the inner indices. For the right factor, each half of the rows
    /// has both halves of the inner indices next to each other.
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
            let (down, across) = if pipeline.deep { (row, column) } else { (column, row) };
            pipeline.side.at() + down * pipeline.pitch + across * units.width()
        };
        let at = |offset: i64| Address { base: Some(place), offset };
        let tf32 = units.factors == Factors::Tf32;
        let loaded = if tf32 && !pipeline.deep {
            let middle = if pipeline.side == Side::Left { [(8, 0), (0, 4)] } else { [(0, 4), (8, 0)] };
            [(0, 0), middle[0], middle[1], (8, 4)].map(|(below, behind)| {
                self.b().load(Space::Shared, Type::B32, at(offset(row + below, column + behind)))
            })
        } else {
            self.b().load_matrices(at(offset(row, column)), !pipeline.deep)
        };
        if tf32 { loaded.map(|element| self.b().rounded(element)) } else { loaded }
    }
}
