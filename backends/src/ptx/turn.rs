//! Loops that load across memory, as `schedule::across` finds them: a transposition is one. They go in square tiles, a block each: what is
//! loaded across is read along memory into the block's own memory, then the body runs along the rows of the tile. Both ways, neighbouring
//! threads take neighbouring elements.

use std::collections::BTreeMap;

use ir::nest::{Block, IndexId, Loop, Op, Statement, ValueId};
use ir::sabotage::{self, Bug};
use ir::{Dtype, Size};
use schedule::across::Across;

use super::build::Control;
use super::emit::{Argument, Emitter, Team};
use super::inst::{Address, Comparison, Opcode, Operand, Reg, Space, Special, Type};
use super::scalar;
use crate::access::Linear;

/// Sides of a tile: as long as they may be.
const SIDES: [i64; 2] = [64, 32];
/// Bytes of a block's own memory.
const MEMORY: i64 = 48 << 10;
/// Bytes by which a row of a tile is longer than its elements, so that a column's lie in all banks.
const SPARE: i64 = 4;

/// A loop in tiles.
pub(super) struct Turn {
    across: Across,
    side: i64,
}

/// Where a load's tile lies, its bytes from row to row, and the length of its sides.
#[derive(Clone, Copy)]
struct Tile {
    at: i64,
    pitch: i64,
    side: i64,
    ty: Type,
    bytes: i64,
}

/// A loop of a tile: its index, where the tile begins, and where the tile or the loop ends.
#[derive(Clone, Copy)]
struct Side {
    index: IndexId,
    from: Reg,
    to: Reg,
}

impl Turn {
    /// How a loop goes in tiles, if it does.
    pub(super) fn of(e: &Emitter<'_>, l: &Loop) -> Option<Turn> {
        let across = Across::of(e.program, l).filter(|_| e.shared.is_empty() && !e.in_place)?;
        let bytes =
            |side: i64| -> i64 { across.loads.iter().map(|at| side * pitch(side, width(e, &l.body[*at]))).sum() };
        let side = SIDES.into_iter().find(|side| bytes(*side) <= MEMORY)?;
        Some(Turn { across, side })
    }

    /// The tiles: those along the rows of what is stored run fastest.
    pub(super) fn tiles(&self) -> Vec<Size> {
        let Turn { across, side } = self;
        let Some((last, others)) = across.extents.split_last() else { return vec![] };
        let mut tiles = others.to_vec();
        let outer = tiles.remove(across.outer);
        tiles.extend([outer.ceil_div(*side), last.ceil_div(*side)]);
        tiles
    }
}

/// Bytes from a row of a tile to the next.
fn pitch(side: i64, bytes: i64) -> i64 {
    side * bytes + SPARE.max(bytes)
}

/// Bytes of what a statement loads.
fn width(e: &Emitter<'_>, statement: &Statement) -> i64 {
    let Statement::Let { op: Op::Load { buffer, .. }, .. } = statement else { return 0 };
    e.element_bytes(*buffer)
}

impl Emitter<'_> {
    /// The tiles that fall to this block.
    pub(super) fn in_tiles(&mut self, l: &Loop, turn: &Turn) {
        let Some((last, others)) = l.dims.split_last() else { return };
        let Turn { across, side } = turn;
        let side = *side;
        let sizes = turn.tiles();
        let small = self.argument(Argument::Small(sizes.clone()));
        let small = self.b().set(Comparison::Ne, Type::S64, small, 0);
        let counts: Vec<Reg> = sizes.iter().map(|size| self.size(size)).collect();
        let all = counts.iter().skip(1).fold(counts[0], |all, n| self.b().op2(Opcode::Mul, Type::S64, all, *n));
        let tiles: Vec<(usize, Tile)> = across.loads.iter().map(|at| (*at, self.tile(&l.body[*at], side))).collect();
        let (outer, last) = (others[across.outer].0, last.0);
        let rest: Vec<IndexId> = others.iter().map(|(index, _)| *index).filter(|index| *index != outer).collect();
        let ends = [&across.extents[across.outer], &across.extents[l.dims.len() - 1]].map(|size| self.size(size));
        let [thread, block, blocks] = [Special::Tid, Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        let x = self.b().op2(Opcode::And, Type::B64, thread, side - 1);
        let y = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(side.ilog2()));
        let place = (x, y);
        self.counted(block, all, blocks, |e, number| {
            let digits = e.digits(number, &counts, small);
            for (index, digit) in rest.iter().rev().zip(&digits[2..]) {
                e.bind(*index, *digit);
            }
            let from = [digits[1], digits[0]].map(|digit| e.b().op2(Opcode::Mul, Type::S64, digit, side));
            let [outer, last] = [(outer, 0), (last, 1)].map(|(index, k)| {
                let to = e.b().op2(Opcode::Add, Type::S64, from[k], side);
                Side { index, from: from[k], to: e.b().op2(Opcode::Min, Type::S64, to, ends[k]) }
            });
            e.as_team(Team::Thread, |e| e.in_tile(l, &tiles, (outer, last), place));
            e.b().barrier();
        });
    }

    fn tile(&mut self, load: &Statement, side: i64) -> Tile {
        let bytes = width(self, load);
        let Statement::Let { op: Op::Load { buffer, .. }, .. } = load else { unreachable!("a load was found there") };
        let ty = scalar::memory(self.program.buffers[*buffer].dtype);
        let pitch = pitch(side, bytes);
        let at = self.b().take(Space::Shared, usize::try_from(side * pitch).unwrap_or(0));
        Tile { at, pitch, side, ty, bytes }
    }

    fn in_tile(&mut self, l: &Loop, tiles: &[(usize, Tile)], (outer, last): (Side, Side), (x, y): (Reg, Reg)) {
        // Neighbouring threads along the outer loop.
        let [o, j] = [outer, last].map(|side| self.b().op2(Opcode::Add, Type::S64, side.from, x));
        self.bind(outer.index, o);
        let some = self.b().set(Comparison::Lt, Type::S64, o, outer.to);
        self.when(some, |e| {
            for (at, tile) in tiles {
                let statement = vec![l.body[*at].clone()];
                let Statement::Let { op: Op::Load { buffer, view, at }, .. } = &statement[0] else { continue };
                let to = e.within(*tile, (y, tile.pitch), (x, tile.bytes));
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
        // Neighbouring threads along the last one.
        self.bind(last.index, j);
        let some = self.b().set(Comparison::Lt, Type::S64, j, last.to);
        self.when(some, |e| {
            let mut turned: BTreeMap<ValueId, (Tile, Reg)> = BTreeMap::new();
            let mut steps = vec![];
            for (at, tile) in tiles {
                let Statement::Let { value, .. } = &l.body[*at] else { continue };
                let from = e.within(*tile, (x, tile.pitch), (y, tile.bytes));
                turned.insert(*value, (*tile, from));
                steps.push((from, tile.bytes));
            }
            let side = tiles.first().map_or(SIDES[0], |(_, tile)| tile.side);
            e.down(outer, y, side, &l.body, &steps, |e| {
                for statement in &l.body {
                    match statement {
                        Statement::Let { value, .. } if turned.contains_key(value) => {
                            let (tile, from) = turned[value];
                            let from = Address { base: Some(from), offset: 0 };
                            let element = e.b().load(Space::Shared, tile.ty, from);
                            let is_bool = e.dtype(*value) == Dtype::Bool;
                            let element = if is_bool { scalar::is_set(e.b(), element) } else { element };
                            e.define(*value, element);
                        }
                        other => e.statement(other),
                    }
                }
            });
        });
    }

    /// The iterations of a side that fall to a thread; places in the block's memory move along.
    fn down(
        &mut self,
        side: Side,
        first: Reg,
        length: i64,
        body: &Block,
        places: &[(Reg, i64)],
        mut each: impl FnMut(&mut Self),
    ) {
        let step = i64::from(self.threads) / length;
        let from = self.b().op2(Opcode::Add, Type::S64, side.from, first);
        self.along(side.index, (from, side.to), step, body, |e, _| {
            each(e);
            for (place, bytes) in places {
                e.b().op_to(*place, Opcode::Add, Type::S64, &[(*place).into(), (step * bytes).into()]);
            }
        });
    }

    /// The address of a thread's first element of a tile, in a register that moves.
    fn within(&mut self, tile: Tile, (row, pitch): (Reg, i64), (column, bytes): (Reg, i64)) -> Reg {
        let base = self.b().mov(Type::U64, Operand::Own(Space::Shared));
        let base = self.b().op2(Opcode::Add, Type::S64, base, tile.at);
        let row = self.b().op(Opcode::Mad, Type::S64, &[row.into(), pitch.into(), base.into()]);
        let first = self.b().op(Opcode::Mad, Type::S64, &[column.into(), bytes.into(), row.into()]);
        self.b().copy(first)
    }
}
