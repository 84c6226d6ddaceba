//! The tiles of the factors on their way to tensor cores: a ring of stages in dynamic shared
//! memory. Later stages are filled while the current one is multiplied. A factor that is
//! contiguous and aligned is copied with `cp.async`, bypassing registers; any other is computed
//! element by element. Elements out of bounds are filled with zeros. A tile is called *deep* if
//! it is contiguous along the inner index, otherwise *wide*.

use ir::Scalar;
use ir::nest::{Prologue, ValueId};

use super::units::{Driver, FactorTile, Side, TensorUnits, in_bytes};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::factor::Steps;
use crate::ptx::inst::{Address, Comparison, Opcode, Operand, Reg, Space, Special, Type};
use crate::ptx::pipeline::Pipeline;
use crate::ptx::scalar;
use crate::ptx::state::ExecScope;
use crate::ptx::tile::{Inner, TileSide};

/// The size of an asynchronous copy in bytes.
const WIDE: i64 = 16;
/// The number of elements that a thread computes together, so that their loads overlap.
const AT_ONCE: i64 = 4;

/// The dimensions of a ring.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    /// The threads of a block.
    pub(super) threads: u32,
    /// The rows and columns of a tile of the result.
    pub(super) tile: [i64; 2],
    /// The bytes of a factor's tile along the inner index, and of the padding behind them.
    pub(super) depth: i64,
    pub(super) padding: i64,
    /// Stages start at a multiple of these bytes.
    pub(super) align: i64,
    /// The number of stages. Each holds a tile of both factors.
    pub(super) stages: i64,
    /// The number of tiles that are on their way while one is multiplied.
    pub(super) lead: i64,
}

impl Ring {
    /// The bytes of a factor's tile with this number of outer indices.
    fn factor(self, outer: i64) -> i64 {
        outer * (self.depth + self.padding)
    }

    /// The bytes of a stage.
    pub(super) fn stage(self) -> i64 {
        self.tile.map(|outer| self.factor(outer)).iter().sum()
    }

    /// Where the factors' tiles are in a stage.
    pub(super) fn offsets(self) -> [InStage; 2] {
        let [left, right] = self.tile;
        [InStage { offset: 0, extent: left }, InStage { offset: self.factor(left), extent: right }]
    }
}

/// The tile of a factor in a stage.
#[derive(Clone, Copy)]
pub(super) struct InStage {
    pub(super) offset: i64,
    /// The number of outer indices.
    pub(super) extent: i64,
}

/// The pipeline of one factor.
pub(super) struct FactorPipeline<'c> {
    pub(super) tile: FactorTile,
    prologue: &'c Prologue,
    taken: ValueId,
    outer: TileSide<'c>,
    inner: Inner<'c>,
    /// The number of outer indices of a tile.
    extent: i64,
    copies: Option<AsyncCopies>,
}

/// The asynchronous copies of a thread, used if the factor is aligned at run time. They are in
/// one column of copies, and go down the rows of the tile.
struct AsyncCopies {
    aligned: Reg,
    /// The address of the first copy's bytes, the distance between copies and between tiles.
    pointer: Reg,
    apart: Reg,
    next: Reg,
    /// The address of the first copy in the first stage, and the distance between copies.
    place: Reg,
    between: i64,
    /// The inner index of the first copy within the tile, and the distance between copies.
    inner: Reg,
    inner_apart: i64,
    /// For each copy, the number of bytes to read if its inner index is in bounds.
    read: Vec<Reg>,
}

impl FactorPipeline<'_> {
    /// The number of elements in a row of a tile, and of its rows.
    fn rows(&self, units: &TensorUnits) -> (i64, i64) {
        if self.tile.deep { (units.depth(), self.extent) } else { (self.extent, units.depth()) }
    }
}

impl Emitter<'_> {
    /// The address of a ring: the dynamic shared memory, aligned.
    pub(super) fn ring_base(&mut self, ring: Ring) -> Reg {
        let more = self.b().mov(Type::U64, Operand::More);
        let above = self.b().op2(Opcode::Add, Type::S64, more, ring.align - 1);
        self.b().op2(Opcode::And, Type::B64, above, -ring.align)
    }

    pub(super) fn pipeline<'c>(
        &mut self,
        units: &TensorUnits,
        side: Side,
        prologue: &'c Prologue,
        outer: TileSide<'c>,
        inner: Inner<'c>,
    ) -> FactorPipeline<'c> {
        let ring = units.ring();
        let taken = units.taken[usize::from(side == Side::Right)];
        let steps = Steps::of(self.program, prologue, taken, outer.dims, inner.dims);
        let deep = steps.as_ref().map_or_else(|| self.loads_deep(prologue, inner.dims), Steps::deep);
        let base = self.ring_base(ring);
        let InStage { offset: at, extent } = ring.offsets()[usize::from(side == Side::Right)];
        let tile = FactorTile { side, deep, base, at };
        let mut pipeline = FactorPipeline { tile, prologue, taken, outer, inner, extent, copies: None };
        if let Some(steps) = steps {
            let aligned = self.aligned(&steps, outer.dims, inner.dims, WIDE / units.width());
            pipeline.copies = aligned.map(|aligned| self.async_copies(units, &pipeline, &steps, aligned));
        }
        pipeline
    }

    fn async_copies(
        &mut self,
        units: &TensorUnits,
        pipeline: &FactorPipeline<'_>,
        steps: &Steps,
        aligned: Reg,
    ) -> AsyncCopies {
        let FactorPipeline { outer: TileSide { dims, range }, inner: Inner { dims: inner_dims, from, .. }, .. } =
            *pipeline;
        let deep = pipeline.tile.deep;
        let origin = self.origin(steps, dims, inner_dims);
        let [by_outer, by_inner] = [&steps.outer, &steps.inner].map(|step| in_bytes(self, step, units.width()));
        let thread = self.special(Special::Tid);
        let (in_row, rows) = pipeline.rows(units);
        let copies_in_row = in_row * units.width() / WIDE;
        let at_once = i64::from(units.ring().threads) / copies_in_row;
        let first = self.b().op2(Opcode::And, Type::B64, thread, copies_in_row - 1);
        let first = self.b().op2(Opcode::Mul, Type::S64, first, WIDE / units.width());
        let row = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(copies_in_row.ilog2()));
        let (outer, inner) = if deep { (row, first) } else { (first, row) };
        let place = self.place_in_tile(units, pipeline, outer, inner);
        let place = self.b().op2(Opcode::Add, Type::S64, place, pipeline.tile.at);
        let outer = self.b().op2(Opcode::Add, Type::S64, outer, range.from);
        let reads = (0..if deep { rows / at_once } else { 1 }).map(|k| {
            let outer = self.b().op2(Opcode::Add, Type::S64, outer, k * at_once);
            let inside = self.b().set(Comparison::Lt, Type::S64, outer, range.count);
            // A copy of 0 bytes fills its slot with zeros.
            self.b().select(Type::B32, WIDE, 0, inside)
        });
        let reads: Vec<Reg> = reads.collect();
        let read = reads.iter().copied().cycle().take((rows / at_once) as usize).collect();
        let pointer = self.b().op(Opcode::Mad, Type::S64, &[outer.into(), by_outer.into(), origin.into()]);
        let in_all = from.map_or(inner, |from| self.b().op2(Opcode::Add, Type::S64, inner, from));
        let pointer = self.b().op(Opcode::Mad, Type::S64, &[in_all.into(), by_inner.into(), pointer.into()]);
        AsyncCopies {
            aligned,
            pointer: self.b().copy(pointer),
            apart: self.b().op2(Opcode::Mul, Type::S64, if deep { by_outer } else { by_inner }, at_once),
            next: self.b().op2(Opcode::Mul, Type::S64, by_inner, units.depth()),
            place,
            between: at_once * units.pitch(deep),
            inner,
            inner_apart: if deep { 0 } else { at_once },
            read,
        }
    }

    /// The address of an element in the first stage, if the tile is that of the left factor.
    pub(super) fn place_in_tile(
        &mut self,
        units: &TensorUnits,
        pipeline: &FactorPipeline<'_>,
        outer: Reg,
        inner: Reg,
    ) -> Reg {
        let offset = match units.driver {
            Driver::Warp(_) => self.place_in_padded(units, pipeline.tile.deep, [outer, inner]),
            Driver::WarpGroup(_) | Driver::Bulk(..) => {
                self.place_in_swizzled(units.width(), pipeline.tile.deep, [outer, inner])
            }
        };
        self.b().op2(Opcode::Add, Type::S64, offset, pipeline.tile.base)
    }

    /// Calls a function for each stage, when its tiles have arrived.
    pub(super) fn multiply_stages(
        &mut self,
        units: &TensorUnits,
        factors: [&FactorPipeline<'_>; 2],
        inner: Inner<'_>,
        multiply: impl FnOnce(&mut Self, Reg),
    ) {
        let Ring { stages, lead, .. } = units.ring();
        let by_tensor_cores = matches!(units.driver, Driver::WarpGroup(_));
        let bytes = units.ring().stage();
        let pipeline = Pipeline { stages, lead, bytes, depth: units.depth(), by_tensor_cores };
        let fill = |e: &mut Self, from: Reg, stage: Reg| {
            let some = e.b().set(Comparison::Lt, Type::S64, from, inner.end);
            e.when(some, |e| factors.iter().for_each(|factor| e.prefetch(units, factor, from, stage)));
        };
        self.for_each_stage(pipeline, inner, fill, multiply);
    }

    /// Starts to copy the tile at inner index `from` to a stage, or computes it.
    fn prefetch(&mut self, units: &TensorUnits, pipeline: &FactorPipeline<'_>, from: Reg, stage: Reg) {
        let Some(copies) = &pipeline.copies else { return self.compute_tile(units, pipeline, from, stage) };
        self.either(
            copies.aligned,
            |e| {
                let place = e.b().op2(Opcode::Add, Type::S64, copies.place, stage);
                let inner = e.b().op2(Opcode::Add, Type::S64, copies.inner, from);
                let mut pointer = copies.pointer;
                for (k, read) in (0i64..).zip(&copies.read) {
                    let inner = e.b().op2(Opcode::Add, Type::S64, inner, k * copies.inner_apart);
                    let inside = e.b().set(Comparison::Lt, Type::S64, inner, pipeline.inner.end);
                    let read = e.b().select(Type::B32, *read, 0, inside);
                    let to = Address { base: Some(place), offset: k * copies.between };
                    e.b().copy_async(to, Address { base: Some(pointer), offset: 0 }, WIDE, Some(read));
                    pointer = e.b().op2(Opcode::Add, Type::S64, pointer, copies.apart);
                }
                e.b().op_to(copies.pointer, Opcode::Add, Type::S64, &[copies.pointer.into(), copies.next.into()]);
            },
            |e| e.compute_tile(units, pipeline, from, stage),
        );
    }

    /// Computes a tile. A thread keeps one inner index in a deep tile, and one outer index in a
    /// wide tile.
    fn compute_tile(&mut self, units: &TensorUnits, pipeline: &FactorPipeline<'_>, from: Reg, stage: Reg) {
        let (TileSide { dims: outer, range: span }, Inner { dims: inner, end, .. }) = (pipeline.outer, pipeline.inner);
        // The two factors can merge the inner indices differently, so each has its own axes.
        let [outer_axes, inner_axes] = [outer, inner].map(|dims| self.axes(dims, &pipeline.prologue.body));
        let thread = self.special(Special::Tid);
        let (in_row, rows) = pipeline.rows(units);
        let column = self.b().op2(Opcode::And, Type::B64, thread, in_row - 1);
        let row = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(in_row.ilog2()));
        let step = i64::from(units.ring().threads) / in_row;
        let [(across, across_from, across_end), (down, down_from, down_end)] = if pipeline.tile.deep {
            [(&inner_axes, from, end), (&outer_axes, span.from, span.count)]
        } else {
            [(&outer_axes, span.from, span.count), (&inner_axes, from, end)]
        };
        let number = self.b().op2(Opcode::Add, Type::S64, column, across_from);
        let in_column = self.b().set(Comparison::Lt, Type::S64, number, across_end);
        // Clamp out-of-bounds indices to 0: their elements are computed too, but replaced by
        // zeros.
        let number = self.b().select(Type::B64, number, 0, in_column);
        self.unravel(across, number);
        let rows = self.int(rows);
        let ty = scalar::memory(units.element());
        self.counted(row, rows, step * AT_ONCE, |e, row| {
            let mut elements = vec![];
            for k in 0..AT_ONCE {
                let row = e.b().op2(Opcode::Add, Type::S64, row, k * step);
                let (outer, inner) = if pipeline.tile.deep { (row, column) } else { (column, row) };
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
                e.b().store(Space::Shared, ty, element, Address { base: Some(place), offset: pipeline.tile.at });
            }
        });
    }
}
