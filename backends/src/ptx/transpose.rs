//! Loops that are laid out in tiles with a stage: a block loads elements in the order in which they
//! lie in memory into shared memory, then runs the body along the rows of its tile. So both global
//! loads and stores are coalesced.

use std::collections::BTreeMap;

use ir::linear::Linear;
use ir::nest::{Block, IndexId, Loop, Op, Statement, ValueId};
use ir::sabotage::{self, Bug};
use ir::sched::{Axis, Variant};
use ir::{Dtype, Size};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Address, Comparison, Opcode, Operand, Reg, Space, Special, Type};
use super::scalar;
use super::state::ExecScope;
use super::unroll::TILE;

/// The tile of a load in shared memory: its offset, the distance between rows in bytes, and its
/// side length.
#[derive(Clone, Copy)]
struct Tile {
    at: i64,
    pitch: i64,
    side: i64,
    ty: Type,
    bytes: i64,
}

/// A dimension of a tile: its index, the first iteration, and the end of the tile or the loop.
#[derive(Clone, Copy)]
struct Side {
    index: IndexId,
    from: Reg,
    to: Reg,
}

/// The part of the loops that a tile covers, and the place in it that a thread begins at: `x` along
/// the dimension in which the threads are adjacent, `y` along the other.
#[derive(Clone, Copy)]
struct Region {
    outer: Side,
    last: Side,
    x: Reg,
    y: Reg,
}

/// The size of the element that a statement loads.
fn width(e: &Emitter<'_>, statement: &Statement) -> i64 {
    statement.effects().load.map_or(0, |load| e.element_bytes(load.buffer))
}

impl Emitter<'_> {
    /// Processes the tiles of this block.
    pub(super) fn transpose_tiles(&mut self, l: &Loop, layout: &Variant) {
        let ([rest @ .., outer, last], [stage]) = (layout.axes.as_slice(), layout.stages.as_slice()) else { return };
        let side = last.of_block();
        let extent = |axis: &Axis| {
            let found = l.dims.iter().find(|(index, _)| axis.indices == [*index]);
            found.and_then(|(_, extent)| extent.as_size().cloned()).unwrap_or_else(|| Size::constant(0))
        };
        // The grid of tiles. Those along the rows of the stored buffer vary fastest.
        let sizes: Vec<Size> = layout.axes.iter().map(|axis| extent(axis).ceil_div(&axis.of_block().into())).collect();
        let counts = self.tile_counts(sizes);
        let tile = |e: &mut Self, at: &usize| (*at, e.tile(&l.body[*at], side, stage.padding));
        let tiles: Vec<(usize, Tile)> = stage.loads.iter().map(|at| tile(self, at)).collect();
        let ends = [outer, last].map(|axis| self.size(&extent(axis)));
        let (outer, last) = (outer.indices[0], last.indices[0]);
        let [thread, block, blocks] = [Special::Tid, Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        let x = self.b().op2(Opcode::And, Type::B64, thread, side - 1);
        let y = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(side.ilog2()));
        self.counted(block, counts.all, blocks, |e, number| {
            let digits = e.digits(number, &counts);
            for (axis, digit) in rest.iter().rev().zip(&digits[2..]) {
                e.bind(axis.indices[0], *digit);
            }
            // The first two digits are the tile along the last and the outer index.
            let from = [digits[1], digits[0]].map(|digit| e.b().op2(Opcode::Mul, Type::S64, digit, side));
            let [outer, last] = [(outer, 0), (last, 1)].map(|(index, k)| {
                let to = e.b().op2(Opcode::Add, Type::S64, from[k], side);
                Side { index, from: from[k], to: e.b().op2(Opcode::Min, Type::S64, to, ends[k]) }
            });
            e.in_exec_scope(ExecScope::Thread, |e| e.in_tile(l, &tiles, Region { outer, last, x, y }));
            e.b().barrier();
        });
    }

    fn tile(&mut self, load: &Statement, side: i64, padding: i64) -> Tile {
        let bytes = width(self, load);
        let Statement::Let { op: Op::Load { buffer, .. }, .. } = load else { unreachable!("a load was found there") };
        let ty = scalar::memory(self.program.buffers[*buffer].dtype);
        let pitch = side * bytes + padding.max(bytes);
        let at = self.b().take(Space::Shared, usize::try_from(side * pitch).unwrap_or(0));
        Tile { at, pitch, side, ty, bytes }
    }

    fn in_tile(&mut self, l: &Loop, tiles: &[(usize, Tile)], region: Region) {
        let Region { outer, last, x, y } = region;
        // Load: adjacent threads take adjacent iterations of the outer loop, along which the loads
        // are contiguous.
        let [o, j] = [outer, last].map(|side| self.b().op2(Opcode::Add, Type::S64, side.from, x));
        self.bind(outer.index, o);
        let some = self.b().set(Comparison::Lt, Type::S64, o, outer.to);
        self.when(some, |e| {
            for (at, tile) in tiles {
                let statement = vec![l.body[*at].clone()];
                let Statement::Let { op: Op::Load { buffer, view, at }, .. } = &statement[0] else { continue };
                let to = e.within(*tile, y, x);
                e.down(last, y, tile.side, &statement, &[(to, tile.pitch)], |e| {
                    let linear = Linear::of(e.program, *buffer, view.as_deref(), at);
                    let from = e.address(*buffer, &linear);
                    let element = e.b().load(Space::Global, tile.ty, from);
                    e.b().store(Space::Shared, tile.ty, element, Address { base: Some(to), offset: 0 });
                });
            }
        });
        if !sabotage::on(Bug::TileBarrier) {
            self.b().barrier();
        }
        // Compute and store: adjacent threads take adjacent iterations of the innermost loop.
        self.bind(last.index, j);
        let some = self.b().set(Comparison::Lt, Type::S64, j, last.to);
        self.when(some, |e| {
            let mut transposed: BTreeMap<ValueId, (Tile, Reg)> = BTreeMap::new();
            let mut steps = vec![];
            for (at, tile) in tiles {
                let Statement::Let { value, .. } = &l.body[*at] else { continue };
                let from = e.within(*tile, x, y);
                transposed.insert(*value, (*tile, from));
                steps.push((from, tile.bytes));
            }
            let side = tiles.first().map_or(1, |(_, tile)| tile.side);
            e.down(outer, y, side, &l.body, &steps, |e| {
                for statement in &l.body {
                    match statement {
                        Statement::Let { value, .. } if transposed.contains_key(value) => {
                            let (tile, from) = transposed[value];
                            let from = Address { base: Some(from), offset: 0 };
                            let element = e.b().load(Space::Shared, tile.ty, from);
                            let is_bool = e.dtype(*value) == Dtype::Bool;
                            let element = if is_bool { scalar::is_set(e.b(), element) } else { element };
                            e.define(*value, element);
                        }
                        Statement::Let { .. }
                        | Statement::Store { .. }
                        | Statement::Scatter { .. }
                        | Statement::If { .. }
                        | Statement::Loop(_)
                        | Statement::While(_)
                        | Statement::Contract(_) => e.statement(statement),
                    }
                }
            });
        });
    }

    /// Runs a thread's iterations along one dimension of a tile, and advances its shared-memory
    /// addresses.
    fn down(
        &mut self,
        side: Side,
        first: Reg,
        length: i64,
        body: &Block,
        places: &[(Reg, i64)],
        mut each: impl FnMut(&mut Self),
    ) {
        let step = i64::from(self.mapping.threads) / length;
        let from = self.b().op2(Opcode::Add, Type::S64, side.from, first);
        self.unrolled_loop(side.index, from..side.to, step, (body, &TILE), |e, _| {
            each(e);
            for (place, bytes) in places {
                e.b().op_to(*place, Opcode::Add, Type::S64, &[(*place).into(), (step * bytes).into()]);
            }
        });
    }

    /// The address of a thread's first element of a tile, in a variable.
    fn within(&mut self, tile: Tile, row: Reg, column: Reg) -> Reg {
        let base = self.b().mov(Type::U64, Operand::Own(Space::Shared));
        let base = self.b().op2(Opcode::Add, Type::S64, base, tile.at);
        let row = self.b().op(Opcode::Mad, Type::S64, &[row.into(), tile.pitch.into(), base.into()]);
        let first = self.b().op(Opcode::Mad, Type::S64, &[column.into(), tile.bytes.into(), row.into()]);
        self.b().copy(first)
    }
}
