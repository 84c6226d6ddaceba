//! Brings the factors of a contraction to the stages of a pipeline in shared memory, tile by tile,
//! with one row per inner index.
//!
//! A factor that is a plain load with constant strides is copied with `cp.async`, bypassing
//! registers: by quads if it is contiguous along rows of the tile and aligned, otherwise element by
//! element. Any other factor is computed.

use ir::groups::step;
use ir::linear::Linear;
use ir::nest::{BufferId, IndexId, Op, Program, Prologue, Statement, ValueId};
use ir::sched::is_flat;
use ir::{Scalar, Size, visit};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Address, Comparison, Opcode, Operand, Reg, Space, Special, Type};
use super::loops::{AT_ONCE, Axes};
use super::scalar;
use super::state::Argument;
use super::state::ExecScope;
use super::tile::{DEPTH, Dims, Inner, QUAD, Side, THREADS, TileSide, bytes, held, length};

/// The factors of the contraction being emitted.
pub(super) struct Factors<'c> {
    factors: [Factor<'c>; 2],
    inner: Inner<'c>,
    /// If both are copied, a predicate: their tiles are plain ([`AsyncCopies::plain`]).
    plain: Option<Reg>,
}

/// A factor, whose tile is at an offset in each stage.
struct Factor<'c> {
    side: Side,
    prologue: &'c Prologue,
    outer: TileSide<'c>,
    inner: Inner<'c>,
    at: i64,
    copies: Option<AsyncCopies>,
}

/// The asynchronous copies of a thread, for a factor that is a plain load.
struct AsyncCopies {
    /// The bytes of an element.
    width: i64,
    /// Whether adjacent threads copy adjacent inner indices.
    deep: bool,
    /// A predicate: quads are aligned and either completely in bounds or completely out of bounds,
    /// so they are copied at once.
    aligned: Option<Reg>,
    /// A predicate: all outer indices of the tile are in bounds, and it is copied as is best.
    plain: Reg,
    best: Spread,
    /// The address of the first element's bytes, and its place in the first stage.
    pointer: Reg,
    place: Reg,
    /// The distance in bytes between the copies of a thread, as is best.
    apart: Reg,
    /// The distance in bytes between consecutive tiles.
    next: Reg,
}

/// The indices of a computed tile along one side: a thread's first one in the tile, that of the
/// tile, and the end of all.
struct Computed {
    axes: Axes,
    first: Reg,
    from: Reg,
    end: Reg,
}

/// How the copies of a tile are spread over the threads: adjacent threads copy adjacent elements,
/// so that the loads are coalesced.
#[derive(Clone, Copy)]
struct Spread {
    /// The adjacent elements of a copy.
    elements: i64,
    /// The copies in a row.
    in_row: i64,
    /// The number of a thread's copies, and of rows from one to the next.
    count: i64,
    step: i64,
}

impl Spread {
    /// Copies of `elements`, along the inner index if they are deep.
    fn new(side: Side, deep: bool, elements: i64) -> Spread {
        let in_row = if deep { DEPTH } else { side.length } / elements;
        let step = i64::from(THREADS) / in_row;
        Spread { elements, in_row, count: side.length * DEPTH / elements / i64::from(THREADS), step }
    }
}

/// The strides of a plain load.
pub(super) struct Steps {
    pub(super) buffer: BufferId,
    pub(super) linear: Linear,
    pub(super) outer: Size,
    pub(super) inner: Size,
}

impl Steps {
    /// The strides of the value that a prologue loads. Nothing may follow the load, except for the
    /// conversion of `loaded` to the prologue's value.
    pub(super) fn of(
        program: &Program,
        prologue: &Prologue,
        loaded: ValueId,
        outer: &Dims,
        inner: &Dims,
    ) -> Option<Steps> {
        let [Statement::Let { value, op: Op::Load { buffer, view, at } }, rest @ ..] = prologue.body.as_slice() else {
            return None;
        };
        let linear = Linear::of(program, *buffer, view.as_deref(), at);
        let rest_is_known = rest.len() == usize::from(loaded != prologue.value);
        let even = linear.values.is_empty() && *value == loaded && rest_is_known;
        let [down, across] = [outer, inner].map(|dims| step(&linear.affine, &dims.to_vec()));
        Some(Steps { buffer: *buffer, outer: down?, inner: across?, linear }).filter(|_| even)
    }

    /// Whether the load is contiguous along the inner index, or strided along both.
    pub(super) fn deep(&self) -> bool {
        self.outer.as_constant() != Some(1)
    }
}

impl Emitter<'_> {
    /// The factors of a contraction: prologues with the sides of the tile along them.
    pub(super) fn factors<'c>(
        &mut self,
        sides: [(Side, &'c Prologue, TileSide<'c>); 2],
        inner: Inner<'c>,
    ) -> Factors<'c> {
        let [left, right] = sides;
        let factors = [(left, 0), (right, left.0.bytes())].map(|((side, prologue, outer), at)| {
            let steps = Steps::of(self.program, prologue, prologue.value, outer.dims, inner.dims);
            // The tile holds elements as they are in memory.
            let as_it_is =
                |steps: &Steps| self.element_bytes(steps.buffer) == bytes(side.sum) && side.sum == side.dtype;
            let steps = steps.filter(as_it_is);
            let factor = Factor { side, prologue, outer, inner, at, copies: None };
            Factor { copies: steps.map(|steps| self.copies_of(&factor, &steps)), ..factor }
        });
        let plain = match &factors {
            [Factor { copies: Some(left), .. }, Factor { copies: Some(right), .. }] => {
                Some(self.b().op2(Opcode::And, Type::Pred, left.plain, right.plain))
            }
            _ => None,
        };
        Factors { factors, inner, plain }
    }

    /// A predicate: groups of `count` elements are aligned, and either completely in bounds or
    /// completely out of bounds. Returns `None` if the load is not contiguous.
    pub(super) fn aligned(&mut self, steps: &Steps, outer: &Dims, inner: &Dims, count: i64) -> Option<Reg> {
        let (along, other) = if steps.deep() { (&steps.inner, &steps.outer) } else { (&steps.outer, &steps.inner) };
        if along.as_constant() != Some(1) {
            return None;
        }
        let affine = &steps.linear.affine;
        let mut multiples = vec![affine.constant_part().clone(), other.clone()];
        multiples.push(length(if steps.deep() { inner } else { outer }));
        let fixed = |index: &IndexId| !outer.iter().chain(inner).any(|(own, _)| own == index);
        multiples.extend(affine.terms().iter().filter(|(index, _)| fixed(index)).map(|(_, step)| step.clone()));
        let multiples = multiples.into_iter().map(|size| (size, count)).collect();
        let aligned = self.argument(Argument::Multiples(multiples));
        Some(self.b().set(Comparison::Ne, Type::S64, aligned, 0))
    }

    /// The address of the factor's first element for the current batch.
    pub(super) fn origin(&mut self, steps: &Steps, outer: &Dims, inner: &Dims) -> Reg {
        let zero = self.int(0);
        outer.iter().chain(inner).for_each(|(index, _)| self.bind(*index, zero));
        let Address { base, offset } = self.address(steps.buffer, &steps.linear);
        self.b().op2(Opcode::Add, Type::S64, base.unwrap_or(zero), offset)
    }

    /// Whether any load of a prologue is contiguous along the inner index.
    pub(super) fn loads_deep(&self, prologue: &Prologue, inner: &Dims) -> bool {
        let mut deep = false;
        visit::for_each_op(&prologue.body, &mut |_, op| {
            if let (Some(load), Some((last, _))) = (op.effects().load, inner.last()) {
                let linear = Linear::of(self.program, load.buffer, load.view, load.at);
                deep |= linear.affine.coefficient(*last).as_constant() == Some(1);
            }
        });
        deep
    }

    fn copies_of(&mut self, factor: &Factor<'_>, steps: &Steps) -> AsyncCopies {
        let Factor { side, outer: TileSide { dims, range }, inner: Inner { dims: inner_dims, from, .. }, .. } = *factor;
        let (width, deep) = (bytes(side.sum), steps.deep());
        let [by_outer, by_inner] = [&steps.outer, &steps.inner].map(|step| self.size(&(step * &Size::constant(width))));
        // The tile of a factor with few rows has fewer quads than there are threads.
        let quads = !deep && side.length * DEPTH >= QUAD * i64::from(THREADS);
        let aligned = if quads { self.aligned(steps, dims, inner_dims, QUAD) } else { None };
        let origin = self.origin(steps, dims, inner_dims);
        let origin = match from {
            Some(from) => self.b().op(Opcode::Mad, Type::S64, &[from.into(), by_inner.into(), origin.into()]),
            None => origin,
        };
        let one_by_one = Spread::new(side, deep, 1);
        let best = if aligned.is_some() { Spread::new(side, deep, QUAD) } else { one_by_one };
        let [one, first] = [one_by_one, best].map(|spread| self.first_copied(deep, spread));
        let [outer, inner] = match aligned {
            Some(aligned) => [0, 1].map(|k| self.b().select(Type::B64, first[k], one[k], aligned)),
            None => first,
        };
        let place = self.place_in_stage(factor, outer, inner);
        let outer = self.b().op2(Opcode::Add, Type::S64, outer, range.from);
        let pointer = self.b().op(Opcode::Mad, Type::S64, &[outer.into(), by_outer.into(), origin.into()]);
        let pointer = self.b().op(Opcode::Mad, Type::S64, &[inner.into(), by_inner.into(), pointer.into()]);
        let last = self.b().op2(Opcode::Add, Type::S64, range.from, side.length);
        let whole = self.b().set(Comparison::Le, Type::S64, last, range.count);
        let plain = match aligned {
            Some(aligned) => self.b().op2(Opcode::And, Type::Pred, whole, aligned),
            None => whole,
        };
        AsyncCopies {
            width,
            deep,
            aligned,
            plain,
            best,
            pointer: self.b().copy(pointer),
            place,
            apart: self.b().op2(Opcode::Mul, Type::S64, if deep { by_outer } else { by_inner }, best.step),
            next: self.b().op2(Opcode::Mul, Type::S64, by_inner, DEPTH),
        }
    }

    /// The outer and the inner index of a thread's first copy within the tile.
    fn first_copied(&mut self, deep: bool, spread: Spread) -> [Reg; 2] {
        let thread = self.special(Special::Tid);
        let across = self.b().op2(Opcode::And, Type::B64, thread, spread.in_row - 1);
        let across = self.b().op2(Opcode::Mul, Type::S64, across, spread.elements);
        let down = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(spread.in_row.ilog2()));
        if deep { [down, across] } else { [across, down] }
    }

    /// The address of an element in the first stage.
    fn place_in_stage(&mut self, factor: &Factor<'_>, outer: Reg, inner: Reg) -> Reg {
        let more = self.b().mov(Type::U64, Operand::More);
        let side = factor.side;
        let place = self.b().op(Opcode::Mad, Type::S64, &[inner.into(), side.pitch().into(), more.into()]);
        let place = self.b().op(Opcode::Mad, Type::S64, &[outer.into(), bytes(side.sum).into(), place.into()]);
        self.b().op2(Opcode::Add, Type::S64, place, factor.at)
    }

    /// Starts to fill a stage with the tiles at inner index `from`, if there are any.
    pub(super) fn fill_tiles(&mut self, Factors { factors, inner, plain }: &Factors<'_>, from: Reg, stage: Reg) {
        let some = |e: &mut Self| {
            let some = e.b().set(Comparison::Lt, Type::S64, from, inner.end);
            e.when(some, |e| factors.iter().for_each(|factor| e.fill_tile(factor, from, stage)));
        };
        let copied = || factors.iter().filter_map(|factor| Some((factor, factor.copies.as_ref()?)));
        match plain {
            // A single branch: warps wait for each.
            Some(plain) => {
                let end = self.b().op2(Opcode::Add, Type::S64, from, DEPTH);
                let whole = self.b().set(Comparison::Le, Type::S64, end, inner.end);
                let plain = self.b().op2(Opcode::And, Type::Pred, whole, *plain);
                let all = |e: &mut Self| {
                    copied().for_each(|(factor, copies)| e.copy_tile(factor, copies, copies.best, (None, stage)));
                };
                self.either(plain, all, some);
            }
            None => some(self),
        }
        for (_, AsyncCopies { pointer, next, .. }) in copied() {
            self.b().op_to(*pointer, Opcode::Add, Type::S64, &[(*pointer).into(), (*next).into()]);
        }
    }

    /// Starts to copy the tile at inner index `from` to a stage, or computes it.
    fn fill_tile(&mut self, factor: &Factor<'_>, from: Reg, stage: Reg) {
        let Some(copies) = &factor.copies else { return self.compute(factor, from, stage) };
        let make = |e: &mut Self, spread| e.copy_tile(factor, copies, spread, (Some(from), stage));
        let one_by_one = Spread::new(factor.side, copies.deep, 1);
        match copies.aligned {
            Some(aligned) => self.either(aligned, |e| make(e, copies.best), |e| make(e, one_by_one)),
            None => make(self, one_by_one),
        }
    }

    /// Starts the copies of a tile. With its first inner index, elements out of bounds become 0.
    fn copy_tile(
        &mut self,
        factor: &Factor<'_>,
        copies: &AsyncCopies,
        spread: Spread,
        (from, stage): (Option<Reg>, Reg),
    ) {
        let limits = from.map(|from| {
            let (TileSide { range, .. }, Inner { end, .. }) = (factor.outer, factor.inner);
            let [outer, inner] = self.first_copied(copies.deep, spread);
            [(outer, range.from, range.count), (inner, from, end)]
                .map(|(first, from, end)| (self.b().op2(Opcode::Add, Type::S64, first, from), end))
        });
        let place = self.b().op2(Opcode::Add, Type::S64, copies.place, stage);
        let apart = match copies.best.step / spread.step {
            1 => copies.apart,
            times => self.b().op2(Opcode::Shr, Type::S64, copies.apart, i64::from(times.ilog2())),
        };
        let between = spread.step * if copies.deep { copies.width } else { factor.side.pitch() };
        let bytes = (spread.elements * copies.width).min(16);
        let mut pointer = copies.pointer;
        for k in 0..spread.count {
            let inside = limits.map(|limits| {
                let more = if copies.deep { [k * spread.step, 0] } else { [0, k * spread.step] };
                let [a, b] = [0, 1].map(|side| {
                    let (first, end) = limits[side];
                    let index = self.b().op2(Opcode::Add, Type::S64, first, more[side]);
                    self.b().set(Comparison::Lt, Type::S64, index, end)
                });
                self.b().op2(Opcode::And, Type::Pred, a, b)
            });
            let read = inside.map(|inside| self.b().select(Type::B32, bytes, 0, inside));
            for offset in (0..spread.elements * copies.width).step_by(bytes as usize) {
                let to = Address { base: Some(place), offset: k * between + offset };
                self.b().copy_async(to, Address { base: Some(pointer), offset }, bytes, read);
            }
            pointer = self.b().op2(Opcode::Add, Type::S64, pointer, apart);
        }
    }

    /// Computes a tile and stores it. A thread takes several elements at a time: their loads
    /// overlap.
    fn compute(&mut self, factor: &Factor<'_>, from: Reg, stage: Reg) {
        let side = factor.side;
        let (TileSide { dims: outer, range: span }, Inner { dims: inner, end, .. }) = (factor.outer, factor.inner);
        let body = &factor.prologue.body;
        let [outer, inner] = [outer, inner].map(|dims| self.axes(dims, body));
        let deep = self.loads_deep(factor.prologue, factor.inner.dims);
        let spread = Spread::new(side, deep, 1);
        let Spread { count, step, .. } = spread;
        let at_once = if is_flat(body) { AT_ONCE.min(count) } else { 1 };
        // A thread stays in its column of the tile, as that lies in memory.
        let [first_outer, first_inner] = self.first_copied(deep, spread);
        let outer = Computed { axes: outer, first: first_outer, from: span.from, end: span.count };
        let inner = Computed { axes: inner, first: first_inner, from, end };
        let [across, down] = if deep { [inner, outer] } else { [outer, inner] };
        let index = self.b().op2(Opcode::Add, Type::S64, across.first, across.from);
        let in_column = self.b().set(Comparison::Lt, Type::S64, index, across.end);
        self.unravel(&across.axes, index);
        let last = self.int(count * step);
        self.counted(down.first, last, step * at_once, |e, row| {
            let zero = scalar::constant(e.b(), Scalar::zero(side.sum));
            let elements = (0..at_once).map(|k| {
                let row = e.b().op2(Opcode::Add, Type::S64, row, k * step);
                let index = e.b().op2(Opcode::Add, Type::S64, row, down.from);
                let inside = e.b().set(Comparison::Lt, Type::S64, index, down.end);
                let inside = e.b().op2(Opcode::And, Type::Pred, inside, in_column);
                let compute = |e: &mut Self| {
                    e.unravel(&down.axes, index);
                    e.in_exec_scope(ExecScope::Thread, |e| e.block(body));
                    let value = e.value(factor.prologue.value);
                    if side.sum == side.dtype { value } else { scalar::cast(e.b(), side.sum, side.dtype, value) }
                };
                let element = if at_once > 1 {
                    let value = e.masked(inside, compute);
                    scalar::select(e.b(), side.sum, inside, value, zero)
                } else {
                    let element = e.b().copy(zero);
                    e.when(inside, |e| {
                        let value = compute(e);
                        e.b().assign(element, value);
                    });
                    element
                };
                (row, element)
            });
            for (row, element) in elements.collect::<Vec<_>>() {
                let [outer, inner] = if deep { [row, across.first] } else { [across.first, row] };
                let place = e.place_in_stage(factor, outer, inner);
                let place = e.b().op2(Opcode::Add, Type::S64, place, stage);
                e.b().store(Space::Shared, held(side.sum), element, Address { base: Some(place), offset: 0 });
            }
        });
    }
}
