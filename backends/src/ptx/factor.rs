//! Loads the factors of a contraction into shared memory, tile by tile, with one row per inner
//! index.
//!
//! A factor that is a plain load with constant strides is first loaded into registers, while the
//! previous tile is multiplied, and then stored to shared memory. It is loaded by quads if it is
//! contiguous and aligned. Any other factor is computed element by element.

use ir::groups::step;
use ir::linear::Linear;
use ir::nest::{BufferId, IndexId, Op, Program, Prologue, Statement, ValueId};
use ir::{Dtype, Scalar, Size, visit};

use super::build::Control;
use super::contract::{DEPTH, Dims, Inner, QUAD, Side, THREADS, TileSide, bytes, held, length};
use super::emit::{Argument, Emitter};
use super::inst::{Address, Comparison, Opcode, Operand, Reg, Space, Special, Type};
use super::scalar;
use super::state::ExecScope;

/// A factor of the contraction being emitted.
pub(super) struct Factor<'c> {
    side: Side,
    prologue: &'c Prologue,
    outer: TileSide<'c>,
    inner: Inner<'c>,
    /// The offset of its first tile in shared memory.
    at: i64,
    matrix: Option<Matrix>,
}

/// A factor that is a plain load.
struct Matrix {
    dtype: Dtype,
    /// Whether it is contiguous along the inner index.
    deep: bool,
    /// The distance between adjacent elements in bytes, unless it is contiguous.
    apart: Option<Reg>,
    /// A predicate: quads are aligned and either completely in bounds or completely out of bounds.
    aligned: Option<Reg>,
    /// The distance between consecutive tiles in bytes.
    next: Reg,
    quads: Vec<Quad>,
}

/// Four adjacent elements of a tile that one thread loads.
struct Quad {
    pointer: Reg,
    outer: Reg,
    /// The inner index within the tile.
    inner: Reg,
    /// The address in the first tile.
    place: Reg,
    elements: Vec<Reg>,
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
    pub(super) fn factor<'c>(
        &mut self,
        side: Side,
        prologue: &'c Prologue,
        outer: TileSide<'c>,
        inner: Inner<'c>,
        at: i64,
    ) -> Factor<'c> {
        let steps = Steps::of(self.program, prologue, prologue.value, outer.dims, inner.dims);
        let matrix = steps.map(|steps| self.matrix(side, &steps, outer, inner, at));
        Factor { side, prologue, outer, inner, at, matrix }
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

    fn matrix(
        &mut self,
        side: Side,
        steps: &Steps,
        TileSide { dims: outer, range: span }: TileSide<'_>,
        Inner { dims: inner, from, .. }: Inner<'_>,
        at: i64,
    ) -> Matrix {
        let width = self.element_bytes(steps.buffer);
        let deep = steps.deep();
        let [outer_bytes, inner_bytes] =
            [&steps.outer, &steps.inner].map(|step| self.size(&(step * &Size::constant(width))));
        let along = if deep { &steps.inner } else { &steps.outer };
        let apart = (along.as_constant() != Some(1)).then_some(if deep { inner_bytes } else { outer_bytes });
        let aligned = self.aligned(steps, outer, inner, QUAD);
        let origin = self.origin(steps, outer, inner);
        let origin = match from {
            Some(from) => self.b().op(Opcode::Mad, Type::S64, &[from.into(), inner_bytes.into(), origin.into()]),
            None => origin,
        };
        let own = self.b().mov(Type::U64, Operand::Own(Space::Shared));
        let own = self.b().op2(Opcode::Add, Type::S64, own, at);
        let thread = self.special(Special::Tid);
        // Adjacent threads load adjacent quads, so that the loads are coalesced.
        let in_row = if deep { DEPTH } else { side.length } / QUAD;
        let first = self.b().op2(Opcode::And, Type::B64, thread, in_row - 1);
        let first = self.b().op2(Opcode::Mul, Type::S64, first, QUAD);
        let row = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(in_row.ilog2()));
        let rows_at_once = i64::from(THREADS) / in_row;
        let class = scalar::memory(self.program.buffers[steps.buffer].dtype).class();
        let mut quads = vec![];
        // A thread loads several quads, as far apart as all threads together reach.
        for k in 0..side.length * DEPTH / QUAD / i64::from(THREADS) {
            let row = self.b().op2(Opcode::Add, Type::S64, row, k * rows_at_once);
            let (outer, inner) = if deep { (row, first) } else { (first, row) };
            let place = self.b().op(Opcode::Mad, Type::S64, &[inner.into(), side.pitch().into(), own.into()]);
            let place = self.b().op(Opcode::Mad, Type::S64, &[outer.into(), bytes(side.sum).into(), place.into()]);
            let outer = self.b().op2(Opcode::Add, Type::S64, outer, span.from);
            let pointer = self.b().op(Opcode::Mad, Type::S64, &[outer.into(), outer_bytes.into(), origin.into()]);
            let pointer = self.b().op(Opcode::Mad, Type::S64, &[inner.into(), inner_bytes.into(), pointer.into()]);
            let pointer = self.b().copy(pointer);
            let elements = (0..QUAD).map(|_| self.b().reg(class)).collect();
            quads.push(Quad { pointer, outer, inner, place, elements });
        }
        let next = self.b().op2(Opcode::Mul, Type::S64, inner_bytes, DEPTH);
        Matrix { dtype: self.program.buffers[steps.buffer].dtype, deep, apart, aligned, next, quads }
    }

    /// Starts the loads of the tile at inner index `from` into registers.
    pub(super) fn fetch(&mut self, factor: &Factor<'_>, from: Reg) {
        let Some(matrix) = &factor.matrix else { return };
        let ty = scalar::memory(matrix.dtype);
        let (span, end) = (factor.outer.range, factor.inner.end);
        let mut inner_of = vec![];
        // Clear all elements first: those out of bounds keep the zero.
        for quad in &matrix.quads {
            for element in &quad.elements {
                let zero = scalar::constant(self.b(), Scalar::zero(matrix.dtype));
                self.b().assign(*element, zero);
            }
            inner_of.push(self.b().op2(Opcode::Add, Type::S64, quad.inner, from));
        }
        let limits = |e: &mut Self, quad: &Quad, inner: Reg, k: i64| {
            let (more_outer, more_inner) = if matrix.deep { (0, k) } else { (k, 0) };
            let [a, b] = [(quad.outer, more_outer, span.count), (inner, more_inner, end)].map(|(n, more, end)| {
                let n = if more == 0 { n } else { e.b().op2(Opcode::Add, Type::S64, n, more) };
                e.b().set(Comparison::Lt, Type::S64, n, end)
            });
            e.b().op2(Opcode::And, Type::Pred, a, b)
        };
        let by_quads = |e: &mut Self| {
            let bytes = matrix.dtype.bytes() as i64;
            // An access has at most 16 bytes, so a quad of `f64` takes two.
            let count = (16 / bytes).min(QUAD) as usize;
            for (quad, inner) in matrix.quads.iter().zip(&inner_of) {
                let inside = limits(e, quad, *inner, 0);
                for (k, elements) in (0i64..).zip(quad.elements.chunks(count)) {
                    let at = Address { base: Some(quad.pointer), offset: 16 * k };
                    let to = elements.to_vec();
                    e.b().guarded(inside, |b| b.load_several_to(to, Space::Global, ty, at));
                }
            }
        };
        let one_by_one = |e: &mut Self| {
            for (quad, inner) in matrix.quads.iter().zip(&inner_of) {
                let mut at = quad.pointer;
                for (k, element) in (0i64..).zip(&quad.elements) {
                    let inside = limits(e, quad, *inner, k);
                    let place = Address { base: Some(at), offset: 0 };
                    e.b().guarded(inside, |b| b.load_to(*element, Space::Global, ty, place));
                    at = match matrix.apart {
                        Some(apart) => e.b().op2(Opcode::Add, Type::S64, at, apart),
                        None => e.b().op2(Opcode::Add, Type::S64, at, matrix.dtype.bytes() as i64),
                    };
                }
            }
        };
        match matrix.aligned {
            Some(aligned) => self.either(aligned, by_quads, one_by_one),
            None => one_by_one(self),
        }
        for quad in &matrix.quads {
            let pointer = quad.pointer;
            self.b().op_to(pointer, Opcode::Add, Type::S64, &[pointer.into(), matrix.next.into()]);
        }
    }

    /// Stores the tile to shared memory, `behind` bytes after its first buffer.
    pub(super) fn commit(&mut self, factor: &Factor<'_>, from: Reg, behind: Reg) {
        let side = factor.side;
        let Some(matrix) = &factor.matrix else { return self.compute(factor, from, behind) };
        for quad in &matrix.quads {
            let place = self.b().op2(Opcode::Add, Type::S64, quad.place, behind);
            let elements: Vec<Reg> = quad
                .elements
                .iter()
                .map(|x| if side.sum == matrix.dtype { *x } else { scalar::cast(self.b(), side.sum, matrix.dtype, *x) })
                .collect();
            // A quad along the outer index is contiguous in the tile, one along the inner index is
            // a column.
            if !matrix.deep {
                self.store_quad(side.sum, &elements, Address { base: Some(place), offset: 0 });
                continue;
            }
            for (k, element) in (0i64..).zip(elements) {
                let at = Address { base: Some(place), offset: k * side.pitch() };
                self.b().store(Space::Shared, held(side.sum), element, at);
            }
        }
    }

    /// Computes a tile element by element and stores it.
    fn compute(&mut self, factor: &Factor<'_>, from: Reg, behind: Reg) {
        let side = factor.side;
        let (TileSide { dims: outer, range: span }, Inner { dims: inner, end, .. }) = (factor.outer, factor.inner);
        let rows = self.axes(outer, &factor.prologue.body);
        let depth = self.axes(inner, &factor.prologue.body);
        let deep = self.loads_deep(factor.prologue, inner);
        let own = self.b().mov(Type::U64, Operand::Own(Space::Shared));
        let own = self.b().op2(Opcode::Add, Type::S64, own, behind);
        let (thread, all) = (self.special(Special::Tid), self.int(side.length * DEPTH));
        let in_row = if deep { DEPTH } else { side.length };
        self.counted(thread, all, i64::from(THREADS), |e, number| {
            let first = e.b().op2(Opcode::And, Type::B64, number, in_row - 1);
            let row = e.b().op2(Opcode::Shr, Type::U64, number, i64::from(in_row.ilog2()));
            let (outer, inner) = if deep { (row, first) } else { (first, row) };
            let place = e.b().op(Opcode::Mad, Type::S64, &[inner.into(), side.pitch().into(), own.into()]);
            let place = e.b().op(Opcode::Mad, Type::S64, &[outer.into(), bytes(side.sum).into(), place.into()]);
            let outer = e.b().op2(Opcode::Add, Type::S64, outer, span.from);
            let inner = e.b().op2(Opcode::Add, Type::S64, inner, from);
            let [a, b] =
                [(outer, span.count), (inner, end)].map(|(n, end)| e.b().set(Comparison::Lt, Type::S64, n, end));
            let inside = e.b().op2(Opcode::And, Type::Pred, a, b);
            let zero = scalar::constant(e.b(), Scalar::zero(side.sum));
            let element = e.b().copy(zero);
            e.when(inside, |e| {
                e.unravel(&rows, outer);
                e.unravel(&depth, inner);
                e.in_exec_scope(ExecScope::Thread, |e| e.block(&factor.prologue.body));
                let value = e.value(factor.prologue.value);
                let value =
                    if side.sum == side.dtype { value } else { scalar::cast(e.b(), side.sum, side.dtype, value) };
                e.b().assign(element, value);
            });
            let at = Address { base: Some(place), offset: factor.at };
            e.b().store(Space::Shared, held(side.sum), element, at);
        });
    }
}
