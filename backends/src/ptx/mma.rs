//! Contractions by tensor units: factors of 16-bit floats, whose products are exact in `f32`, and under [`Math::Fast`] those of `f32`
//! rounded to eleven bits. Sums are of `f32`.
//!
//! A block of four warps has a square tile of the result, each warp a quarter of it in registers. The factors' tiles lie in memory that a launch
//! adds to the block's, several of them, so that some are on their way while one is multiplied. Those that lie in memory as
//! wide copies take them are copied past registers; any others are computed, element by element. What is outside of a factor is 0
//! there. A tile is *deep* if neighbours along the inner numbers lie next to each other, else *wide*: what a warp loads of either lies in
//! all banks.

use ir::build::Values;
use ir::nest::{Contraction, Op, Prologue, Statement, ValueId};
use ir::{Dtype, Scalar, Size};

use super::build::Control;
use super::contract::{Dims, Span};
use super::emit::{Emitter, Team};
use super::finish::Shown;
use super::inst::{Address, Comparison, Factors, Opcode, Operand, Reg, Space, Special, Type};
use super::{Math, scalar};

/// Threads of a block.
pub(super) const THREADS: u32 = 128;
/// Rows and columns of a tile of the result.
pub(super) const SIDE: i64 = 128;
/// Those of a warp's part.
const PART: i64 = SIDE / 2;
/// Bytes of inner numbers in a factor's tile, and in a step of the units.
const DEPTH: i64 = 64;
const STEP: i64 = 32;
/// What a factor's tile takes: deep, with what keeps its rows in different banks.
const FACTOR: i64 = SIDE * (DEPTH + WIDE);
/// Tiles of both factors that are there or on their way.
const SLOTS: i64 = 3;
const SLOT: i64 = 2 * FACTOR;
/// Bytes of a wide copy.
const WIDE: i64 = 16;
/// Bytes that a launch adds to a block's memory.
pub(super) const MEMORY: usize = (SLOTS * SLOT) as usize;
/// Bytes of a row of the result in the block's memory: rows of a step begin eight banks apart.
const ROW: i64 = (SIDE + 8) * 4;
/// Rows of a warp's part that lie there at a time.
const RUN: i64 = PART / 2;
/// Elements that a thread computes together: their loads are under way at the same time.
const AT_ONCE: i64 = 4;

/// A contraction that tensor units take.
pub(super) struct Units {
    factors: Factors,
    /// What they take of each prologue.
    taken: [ValueId; 2],
    dtype: Dtype,
}

impl Units {
    pub(super) fn of(values: &Values, c: &Contraction, math: Math) -> Option<Units> {
        let dtype = values[c.result];
        let narrow = [&c.left, &c.right].map(|prologue| narrow(values, prologue));
        if let [Some((left, of_left)), Some((right, of_right))] = narrow
            && of_left == of_right
        {
            let factors = if of_left == Dtype::F16 { Factors::F16 } else { Factors::Bf16 };
            return Some(Units { factors, taken: [left, right], dtype });
        }
        let taken = [c.left.value, c.right.value];
        (math == Math::Fast && dtype == Dtype::F32).then_some(Units { factors: Factors::Tf32, taken, dtype })
    }

    /// The type of an element in a tile.
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

    /// Inner numbers of a tile.
    fn depth(&self) -> i64 {
        DEPTH / self.width()
    }

    /// From a row of a wide tile to the next: those that a warp loads at once begin four banks apart, or eight of single elements.
    fn pitch(&self, deep: bool) -> i64 {
        if deep { DEPTH + WIDE } else { SIDE * self.width() + 8 * self.width() }
    }
}

/// The 16-bit float that a factor is, or was before it became an `f32`.
fn narrow(values: &Values, prologue: &Prologue) -> Option<(ValueId, Dtype)> {
    let found = prologue.body.iter().find_map(|statement| match statement {
        Statement::Let { value, op: Op::Cast(Dtype::F32, from) } if *value == prologue.value => Some(*from),
        _ => None,
    });
    let taken = found.unwrap_or(prologue.value);
    Some((taken, values[taken])).filter(|(_, dtype)| matches!(dtype, Dtype::F16 | Dtype::Bf16))
}

/// Which of the two a factor is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    /// Its place in a slot.
    fn at(self) -> i64 {
        if self == Side::Left { 0 } else { FACTOR }
    }
}

/// A factor at work.
struct Feed<'c> {
    side: Side,
    prologue: &'c Prologue,
    taken: ValueId,
    outer: (&'c Dims, Span),
    inner: (&'c Dims, Reg),
    deep: bool,
    pitch: i64,
    direct: Option<Direct>,
}

/// How a factor is copied where it lies so.
struct Direct {
    aligned: Reg,
    /// Bytes from a tile to the next.
    next: Reg,
    chunks: Vec<Chunk>,
}

/// What a thread copies at once.
struct Chunk {
    pointer: Reg,
    /// The inner number in the tile.
    inner: Reg,
    /// Bytes that are read if that is inside.
    read: Reg,
    /// Its place in a slot.
    place: Reg,
}

/// A warp's part of the tile, and a thread's place in it.
struct Lanes {
    down: Reg,
    across: Reg,
    lane: Reg,
}

impl Emitter<'_> {
    pub(super) fn by_units(
        &mut self,
        c: &Contraction,
        units: &Units,
        [rows, columns]: [(&Dims, Span); 2],
        inner: (&Dims, Reg),
    ) {
        let left = self.feed(units, (Side::Left, &c.left), (rows, inner));
        let right = self.feed(units, (Side::Right, &c.right), (columns, inner));
        let lanes = self.lanes();
        let sums = self.multiplied(units, [&left, &right], &lanes, inner.1);
        let finish = self.begin_finish(c, (Dtype::F32, units.dtype), [rows, columns]);
        let shown =
            Shown { memory: Operand::More, at: 0, pitch: ROW, side: SIDE, rows: 2 * RUN, run: RUN, apart: PART };
        let more = self.b().mov(Type::U64, Operand::More);
        // A thread has two neighbours of a row, and two eight rows below.
        let group = self.b().op2(Opcode::Shr, Type::U64, lanes.lane, 2);
        let pair = self.b().op2(Opcode::And, Type::B64, lanes.lane, 3);
        let low = self.b().op2(Opcode::Shr, Type::U64, lanes.down, 1);
        let low = self.b().op2(Opcode::Add, Type::S64, low, group);
        let column = self.b().op(Opcode::Mad, Type::S64, &[pair.into(), 2.into(), lanes.across.into()]);
        let place = self.b().op(Opcode::Mad, Type::S64, &[low.into(), ROW.into(), more.into()]);
        let place = self.b().op(Opcode::Mad, Type::S64, &[column.into(), 4.into(), place.into()]);
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
            self.finish_rows(&finish, &shown, pass * RUN);
            self.b().barrier();
        }
    }

    fn lanes(&mut self) -> Lanes {
        let thread = self.special(Special::Tid);
        let lane = self.b().op2(Opcode::And, Type::B64, thread, 31);
        let mut part = |shift: i64| {
            let warp = self.b().op2(Opcode::Shr, Type::U64, thread, shift);
            let half = self.b().op2(Opcode::And, Type::B64, warp, 1);
            self.b().op2(Opcode::Mul, Type::S64, half, PART)
        };
        Lanes { across: part(5), down: part(6), lane }
    }

    fn feed<'c>(
        &mut self,
        units: &Units,
        (side, prologue): (Side, &'c Prologue),
        (outer, inner): ((&'c Dims, Span), (&'c Dims, Reg)),
    ) -> Feed<'c> {
        let taken = units.taken[usize::from(side == Side::Right)];
        let steps = self.steps(prologue, taken, outer.0, inner.0);
        let deep = steps.as_ref().map_or_else(|| self.loads_deep(prologue, inner.0), super::factor::Steps::deep);
        let mut feed = Feed { side, prologue, taken, outer, inner, deep, pitch: units.pitch(deep), direct: None };
        if let Some(steps) = steps {
            let aligned = self.aligned(&steps, outer.0, inner.0, WIDE / units.width());
            feed.direct = aligned.map(|aligned| {
                let origin = self.origin(&steps, outer.0, inner.0);
                let [by_outer, by_inner] =
                    [&steps.outer, &steps.inner].map(|step| self.size(&(step * &Size::constant(units.width()))));
                self.direct(units, &feed, aligned, origin, (by_outer, by_inner))
            });
        }
        feed
    }

    fn direct(
        &mut self,
        units: &Units,
        feed: &Feed<'_>,
        aligned: Reg,
        origin: Reg,
        (by_outer, by_inner): (Reg, Reg),
    ) -> Direct {
        let thread = self.special(Special::Tid);
        let in_row = if feed.deep { DEPTH } else { SIDE * units.width() } / WIDE;
        let at_once = i64::from(THREADS) / in_row;
        let first = self.b().op2(Opcode::And, Type::B64, thread, in_row - 1);
        let first = self.b().op2(Opcode::Mul, Type::S64, first, WIDE / units.width());
        let row = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(in_row.ilog2()));
        let rows = if feed.deep { SIDE } else { units.depth() };
        let span = feed.outer.1;
        let chunks = (0..rows / at_once).map(|k| {
            let row = self.b().op2(Opcode::Add, Type::S64, row, k * at_once);
            let (outer, inner) = if feed.deep { (row, first) } else { (first, row) };
            let place = self.place_in_tile(units, feed, outer, inner);
            let outer = self.b().op2(Opcode::Add, Type::S64, outer, span.from);
            let inside = self.b().set(Comparison::Lt, Type::S64, outer, span.count);
            let read = self.b().select(Type::B32, WIDE, 0, inside);
            let pointer = self.b().op(Opcode::Mad, Type::S64, &[outer.into(), by_outer.into(), origin.into()]);
            let pointer = self.b().op(Opcode::Mad, Type::S64, &[inner.into(), by_inner.into(), pointer.into()]);
            Chunk { pointer: self.b().copy(pointer), inner, read, place }
        });
        let chunks = chunks.collect();
        let next = self.b().op2(Opcode::Mul, Type::S64, by_inner, units.depth());
        Direct { aligned, next, chunks }
    }

    /// Where an element lies, in the first slot.
    fn place_in_tile(&mut self, units: &Units, feed: &Feed<'_>, outer: Reg, inner: Reg) -> Reg {
        let more = self.b().mov(Type::U64, Operand::More);
        let (row, column) = if feed.deep { (outer, inner) } else { (inner, outer) };
        let place = self.b().op(Opcode::Mad, Type::S64, &[row.into(), feed.pitch.into(), more.into()]);
        self.b().op(Opcode::Mad, Type::S64, &[column.into(), units.width().into(), place.into()])
    }

    /// Begins to bring the tile at an inner number to a slot, or does it.
    fn bring(&mut self, units: &Units, feed: &Feed<'_>, from: Reg, slot: Reg) {
        let Some(direct) = &feed.direct else { return self.computed(units, feed, from, slot) };
        self.either(
            direct.aligned,
            |e| {
                for chunk in &direct.chunks {
                    let inner = e.b().op2(Opcode::Add, Type::S64, chunk.inner, from);
                    let inside = e.b().set(Comparison::Lt, Type::S64, inner, feed.inner.1);
                    let read = e.b().select(Type::B32, chunk.read, 0, inside);
                    let place = e.b().op2(Opcode::Add, Type::S64, chunk.place, slot);
                    let to = Address { base: Some(place), offset: feed.side.at() };
                    e.b().copy_wide(to, Address { base: Some(chunk.pointer), offset: 0 }, read);
                    let pointer = chunk.pointer;
                    e.b().op_to(pointer, Opcode::Add, Type::S64, &[pointer.into(), direct.next.into()]);
                }
            },
            |e| e.computed(units, feed, from, slot),
        );
    }

    /// Computes a tile. A thread stays at an inner number of a deep one, and at an outer number of a wide one.
    fn computed(&mut self, units: &Units, feed: &Feed<'_>, from: Reg, slot: Reg) {
        let ((outer, span), (inner, end)) = (feed.outer, feed.inner);
        // The other factor may count the inner numbers by other indices.
        let [outer_axes, inner_axes] = [outer, inner].map(|dims| self.axes(dims, &feed.prologue.body));
        let thread = self.special(Special::Tid);
        let in_row = if feed.deep { units.depth() } else { SIDE };
        let column = self.b().op2(Opcode::And, Type::B64, thread, in_row - 1);
        let row = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(in_row.ilog2()));
        let (step, rows) = (i64::from(THREADS) / in_row, if feed.deep { SIDE } else { units.depth() });
        let [(across, across_from, across_end), (down, down_from, down_end)] = if feed.deep {
            [(&inner_axes, from, end), (&outer_axes, span.from, span.count)]
        } else {
            [(&outer_axes, span.from, span.count), (&inner_axes, from, end)]
        };
        let number = self.b().op2(Opcode::Add, Type::S64, column, across_from);
        let in_column = self.b().set(Comparison::Lt, Type::S64, number, across_end);
        // What is outside may be computed too, at any place there is.
        let number = self.b().select(Type::B64, number, 0, in_column);
        self.unravel(across, number);
        let rows = self.int(rows);
        let ty = scalar::memory(units.element());
        self.counted(row, rows, step * AT_ONCE, |e, row| {
            let mut elements = vec![];
            for k in 0..AT_ONCE {
                let row = e.b().op2(Opcode::Add, Type::S64, row, k * step);
                let (outer, inner) = if feed.deep { (row, column) } else { (column, row) };
                let place = e.place_in_tile(units, feed, outer, inner);
                let place = e.b().op2(Opcode::Add, Type::S64, place, slot);
                let number = e.b().op2(Opcode::Add, Type::S64, row, down_from);
                let inside = e.b().set(Comparison::Lt, Type::S64, number, down_end);
                let inside = e.b().op2(Opcode::And, Type::Pred, inside, in_column);
                let number = e.b().select(Type::B64, number, 0, inside);
                e.unravel(down, number);
                e.valid = Some(inside);
                e.as_team(Team::Thread, |e| e.block(&feed.prologue.body));
                e.valid = None;
                let zero = scalar::constant(e.b(), Scalar::zero(units.element()));
                let value = e.value(feed.taken);
                elements.push((e.b().select(ty, value, zero, inside), place));
            }
            for (element, place) in elements {
                e.b().store(Space::Shared, ty, element, Address { base: Some(place), offset: feed.side.at() });
            }
        });
    }

    /// The sums of this thread: for each sixteen rows of its warp's part and each eight columns four.
    fn multiplied(&mut self, units: &Units, feeds: [&Feed<'_>; 2], lanes: &Lanes, depth: Reg) -> Vec<Vec<[Reg; 4]>> {
        let zero = scalar::constant(self.b(), Scalar::F32(0.0));
        let sums: Vec<Vec<[Reg; 4]>> =
            (0..PART / 16).map(|_| (0..PART / 8).map(|_| [(); 4].map(|()| self.b().copy(zero))).collect()).collect();
        let places = [(feeds[0], lanes.down), (feeds[1], lanes.across)]
            .map(|(feed, first)| self.first_fragment(units, feed, first, lanes.lane));
        let (start, slots) = (self.int(0), self.int((SLOTS - 1) * SLOT));
        // The tile that is brought next, and its slot.
        let (coming, comes_to) = (self.b().copy(start), self.b().copy(start));
        let bring = |e: &mut Self| {
            let some = e.b().set(Comparison::Lt, Type::S64, coming, depth);
            e.when(some, |e| feeds.iter().for_each(|feed| e.bring(units, feed, coming, comes_to)));
            e.b().group_copies();
            e.b().op_to(coming, Opcode::Add, Type::S64, &[coming.into(), units.depth().into()]);
            e.turn(comes_to);
        };
        self.while_(|e| e.b().set(Comparison::Lt, Type::S64, comes_to, slots), bring);
        let (inner, slot) = (self.b().copy(start), self.b().copy(start));
        self.while_(
            |e| e.b().set(Comparison::Lt, Type::S64, inner, depth),
            |e| {
                // This tile has come, and all have multiplied the one before, to whose slot the next one goes.
                e.b().await_groups((SLOTS - 2) as u32);
                e.b().barrier();
                bring(e);
                let places = places.map(|place| e.b().op2(Opcode::Add, Type::S64, place, slot));
                for step in 0..DEPTH / STEP {
                    e.step(units, feeds, places, step, &sums);
                }
                e.b().op_to(inner, Opcode::Add, Type::S64, &[inner.into(), units.depth().into()]);
                e.turn(slot);
            },
        );
        // What is still on its way goes where the result will lie.
        self.b().await_copies();
        self.b().barrier();
        sums
    }

    /// On to the next slot.
    fn turn(&mut self, slot: Reg) {
        let next = self.b().op2(Opcode::Add, Type::S64, slot, SLOT);
        let is_last = self.b().set(Comparison::Eq, Type::S64, next, SLOTS * SLOT);
        let next = self.b().select(Type::B64, 0, next, is_last);
        self.b().assign(slot, next);
    }

    /// A step of the units: sixteen rows by eight columns at a time.
    fn step(&mut self, units: &Units, feeds: [&Feed<'_>; 2], places: [Reg; 2], step: i64, sums: &[Vec<[Reg; 4]>]) {
        let [left, right] = [0, 1].map(|side| {
            let fragments = (0..PART / 16).map(|k| self.fragment(units, feeds[side], places[side], (k, step)));
            fragments.collect::<Vec<_>>()
        });
        for (sums, a) in sums.iter().zip(left) {
            for (pair, b) in sums.chunks(2).zip(&right) {
                for (half, sum) in pair.iter().enumerate() {
                    self.b().multiply(units.factors, *sum, a, [b[2 * half], b[2 * half + 1]]);
                }
            }
        }
    }

    /// The address of what a thread loads first: for matrices of 8 x 8 elements of 16 bits a row of one of four, else an element.
    fn first_fragment(&mut self, units: &Units, feed: &Feed<'_>, first: Reg, lane: Reg) -> Reg {
        let mut part = |shift: i64, count: i64| {
            let rest = self.b().op2(Opcode::Shr, Type::U64, lane, shift);
            self.b().op2(Opcode::And, Type::B64, rest, count - 1)
        };
        let (outer, inner) = if units.factors == Factors::Tf32 && !feed.deep {
            (part(2, 8), part(0, 4))
        } else {
            let (row, second, third) = (part(0, 8), part(3, 2), part(4, 2));
            let (below, behind) = if feed.side == Side::Left { (second, third) } else { (third, second) };
            let eight = 16 / units.width();
            let (down, across) = if feed.deep { ((below, 8), (behind, eight)) } else { ((behind, 8), (below, 8)) };
            let down = self.b().op(Opcode::Mad, Type::S64, &[down.0.into(), down.1.into(), row.into()]);
            let across = self.b().op2(Opcode::Mul, Type::S64, across.0, across.1);
            if feed.deep { (down, across) } else { (across, down) }
        };
        let outer = self.b().op2(Opcode::Add, Type::S64, outer, first);
        self.place_in_tile(units, feed, outer, inner)
    }

    /// Sixteen rows of a factor in a step, in an order that gives the units registers side by side: of the left one the first eight, the next eight,
    /// then those behind; of the right one the first eight, those behind, then the next eight.
    fn fragment(&mut self, units: &Units, feed: &Feed<'_>, place: Reg, (number, step): (i64, i64)) -> [Reg; 4] {
        let (row, column) = (16 * number, step * STEP / units.width());
        let offset = |row: i64, column: i64| {
            let (down, across) = if feed.deep { (row, column) } else { (column, row) };
            feed.side.at() + down * feed.pitch + across * units.width()
        };
        let at = |offset: i64| Address { base: Some(place), offset };
        let tf32 = units.factors == Factors::Tf32;
        let loaded = if tf32 && !feed.deep {
            let middle = if feed.side == Side::Left { [(8, 0), (0, 4)] } else { [(0, 4), (8, 0)] };
            [(0, 0), middle[0], middle[1], (8, 4)].map(|(below, behind)| {
                self.b().load(Space::Shared, Type::B32, at(offset(row + below, column + behind)))
            })
        } else {
            self.b().load_matrices(at(offset(row, column)), !feed.deep)
        };
        if tf32 { loaded.map(|element| self.b().rounded(element)) } else { loaded }
    }
}
