//! Contractions as matrix products (`gemm`).
//!
//! The free indices are rows (in the left factor only), columns (in the right one only) or batch
//! (the others). For each batch there is one matrix product. Its rows, columns and inner indices
//! are the flattened index groups. A factor that is a plain load is used in place, with a constant
//! stride along each group or else by tables of distances; any other is packed into panels by a
//! compiled loop nest. If the epilogue is a single store with constant strides, the product is
//! written in place too. Otherwise a tile of the result goes to scratch, and the epilogue runs over
//! it while it is in the cache.

use std::borrow::Cow;
use std::ops::Range;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::groups::{Dims, Groups, step};
use ir::linear::Linear;
use ir::nest::{Block, BufferId, Contraction, IndexId, Op, Prologue, Statement, Subscript};
use ir::sabotage::{self, Bug};
use ir::{Affine, Dtype, Size, visit};

use super::emit::Emitter;
use super::jit::{Gemm, Host};
use super::scalar;
use super::state::Axis;
use super::state::offset;
use super::state::own_memory;
use crate::abi::{GemmCall, Packed};

/// The size of a tile of the result, which takes a few MB.
const ROWS: i64 = 1024;
const COLUMNS: i64 = 1024;

/// The contraction with the factor on the left that has rows, if only one has: threads share rows.
fn with_rows(c: &Contraction) -> Cow<'_, Contraction> {
    let groups = Groups::new(c);
    if !groups.rows.is_empty() || groups.columns.is_empty() {
        return Cow::Borrowed(c);
    }
    let mut turned = c.clone();
    std::mem::swap(&mut turned.left, &mut turned.right);
    Cow::Owned(turned)
}

/// The extents, batch and rows, that multiply to the range of the kernel.
pub(super) fn range(c: &Contraction) -> Option<Vec<Size>> {
    let groups = Groups::new(&with_rows(c));
    groups.batch.iter().chain(&groups.rows).map(|(_, extent)| extent.as_size().cloned()).collect()
}

/// The flattened, row-major number of a group's indices, as an affine expression.
fn number(dims: &Dims) -> Affine<IndexId> {
    let mut sum = Affine::constant(0);
    let mut stride = Size::constant(1);
    for (index, extent) in dims.iter().rev() {
        sum = sum.add(&Affine::index(*index).scale(&stride));
        stride = extent.as_size().map_or_else(Size::default, |n| &stride * n);
    }
    sum
}

/// A matrix in memory: an access with the indices of both groups at 0, and its strides along them.
struct InPlace {
    buffer: BufferId,
    origin: Linear,
    down: Size,
    across: Size,
}

impl InPlace {
    /// The matrix of an access, if it has constant strides along both groups.
    fn new(buffer: BufferId, linear: &Linear, down: &Dims, across: &Dims) -> Option<InPlace> {
        let affine = &linear.affine;
        let (down_step, across_step) = (step(affine, down)?, step(affine, across)?);
        let origin = without(linear, &[down, across]);
        Some(InPlace { buffer, origin, down: down_step, across: across_step })
    }
}

/// An access with the indices of some groups at 0.
fn without(linear: &Linear, groups: &[&Dims]) -> Linear {
    let mut affine = linear.affine.clone();
    for (index, _) in groups.iter().copied().flatten() {
        affine = affine.sub(&term(&linear.affine, *index));
    }
    Linear { affine, values: vec![] }
}

/// The part of an expression that an index has.
fn term(affine: &Affine<IndexId>, index: IndexId) -> Affine<IndexId> {
    Affine::index(index).scale(&affine.coefficient(index))
}

/// A matrix in memory without constant strides: an access with the indices of both groups at 0, and
/// how far it moves with them.
struct Spread {
    buffer: BufferId,
    origin: Linear,
    rows: Distances,
    columns: Distances,
}

/// How far an access moves along a group, and a table of that for a range of the group.
struct Distances {
    distance: Affine<IndexId>,
    table: BufferId,
}

/// The location of a factor or of the result.
enum Matrix {
    InPlace(Box<InPlace>),
    Spread(Box<Spread>),
    Panel(Panel),
}

/// Part of a matrix, packed in scratch, with strides between rows and between columns.
#[derive(Clone, Copy)]
struct Panel {
    local: BufferId,
    down: i64,
    across: i64,
}

/// A factor, and how to fill it if it is packed.
struct Factor<'c> {
    matrix: Matrix,
    prologue: &'c Prologue,
    down: Dims,
    across: Dims,
}

/// The address of a range of a matrix, its strides in elements, and the addresses of its tables of
/// distances, or 0.
struct MatrixPart {
    start: Value,
    down: Value,
    across: Value,
    rows: Value,
    columns: Value,
}

/// A range of a matrix along one group.
#[derive(Clone, Copy)]
struct TileRange {
    /// An index that is bound to the first number.
    origin: IndexId,
    from: Value,
    to: Value,
}

/// A group of indices, and the part of a matrix along it.
#[derive(Clone, Copy)]
struct Along<'d> {
    dims: &'d Dims,
    span: TileRange,
}

/// One contraction as a product of matrices.
struct Product<'c> {
    contraction: &'c Contraction,
    groups: &'c Groups,
    left: Factor<'c>,
    right: Factor<'c>,
    result: Matrix,
    gemm: Gemm,
    /// Whether the right factor stays the same as long as its address does.
    stays: bool,
    /// Whether the product is of a matrix and the same one, turned, and so symmetric.
    mirrors: bool,
    /// The record of the call that multiplies two tiles.
    call: Value,
    columns: Value,
    inner: Value,
}

impl Emitter<'_> {
    /// Emits a contraction, or a range of its batch and rows.
    pub(super) fn contract(&mut self, c: &Contraction, part: Option<Range<Value>>) {
        let c = &*with_rows(c);
        let groups = Groups::new(c);
        let dtype = self.dtype(c.result);
        let gemm = Gemm::new(dtype, self.helpers.host());
        let left = self.factor(&c.left, &groups.rows, &groups.inner, dtype, gemm.rows as i64, gemm.inner as i64);
        let right = self.factor(&c.right, &groups.inner, &groups.columns, dtype, gemm.inner as i64, COLUMNS);
        let result = match plain_store(c) {
            Some((buffer, at)) if self.buffer_dtype(buffer) == dtype => Some((buffer, self.linear(buffer, None, at))),
            _ => None,
        };
        let result = result.filter(|(_, linear)| linear.values.is_empty());
        let result = result.and_then(|(buffer, linear)| InPlace::new(buffer, &linear, &groups.rows, &groups.columns));
        let result = result.map(|m| Matrix::InPlace(Box::new(m))).unwrap_or_else(|| {
            // Tiles of the result go to scratch memory, from which the epilogue loads them, in the
            // order in which it stores.
            let local = self.local(dtype, (ROWS * COLUMNS) as usize);
            let (down, across) =
                if self.prefers(&c.epilogue, &groups.rows, &groups.columns) { (1, ROWS) } else { (COLUMNS, 1) };
            Matrix::Panel(Panel { local, down, across })
        });
        let call = self.scratch(size_of::<GemmCall>());
        let stays = part.is_none() && self.stays(&right);
        let mirrors = self.mirrors(&groups, [&left.matrix, &right.matrix, &result]);
        let work = if stays { self.cleared_scratch(gemm.work) } else { self.scratch(gemm.work) };
        self.b.ins().store(own_memory(), work, call, offset(std::mem::offset_of!(GemmCall, work)));
        let mut axes = self.axes(&groups.batch, &[&c.left.body, &c.right.body, &c.epilogue]);
        let [rows, columns, inner] = [&groups.rows, &groups.columns, &groups.inner].map(|dims| self.count(dims));
        axes.push(Axis { index: self.new_index(), merged: vec![], extent: rows });
        let product = Product {
            contraction: c,
            groups: &groups,
            left,
            right,
            result,
            gemm,
            stays,
            mirrors,
            call,
            columns,
            inner,
        };
        let mut product = |e: &mut Self, from: Value, to: Value| e.product(&product, from, to);
        if let Some(part) = part {
            self.ranged(&axes, part, &mut product);
        } else {
            axes.pop();
            self.nest(&axes, &[], &mut |e, _| {
                let zero = e.int(0);
                product(e, zero, rows);
                vec![]
            });
        }
    }

    /// The number of elements of a group.
    fn count(&mut self, dims: &Dims) -> Value {
        let mut count = self.int(1);
        for (_, extent) in dims {
            let n = self.extent(extent);
            count = self.b.ins().imul(count, n);
        }
        count
    }

    /// Whether a factor is in place, in memory that the kernel does not store to.
    fn stays(&self, factor: &Factor<'_>) -> bool {
        matches!(&factor.matrix, Matrix::InPlace(m) if !visit::stores(&self.unit.part.kernel.body).contains(&m.buffer))
    }

    /// Whether a product in place is of a matrix and the same one, turned.
    fn mirrors(&self, groups: &Groups, all: [&Matrix; 3]) -> bool {
        let [Matrix::InPlace(left), Matrix::InPlace(right), Matrix::InPlace(_)] = all else { return false };
        let length = |dims: &Dims| {
            let sizes = dims.iter().map(|(_, extent)| extent.as_size().cloned()).collect::<Option<Vec<_>>>();
            sizes.map(|sizes| sizes.iter().fold(Size::constant(1), |product, size| &product * size))
        };
        let rows = length(&groups.rows);
        self.helpers.host() == Host::Here
            && left.buffer == right.buffer
            && left.origin.affine == right.origin.affine
            && (&left.down, &left.across) == (&right.across, &right.down)
            && rows.is_some()
            && rows == length(&groups.columns)
    }

    fn factor<'c>(
        &mut self,
        prologue: &'c Prologue,
        down: &Dims,
        across: &Dims,
        dtype: Dtype,
        most_down: i64,
        most_across: i64,
    ) -> Factor<'c> {
        let plain = match prologue.body.as_slice() {
            [Statement::Let { value, op: Op::Load { buffer, view, at } }] if *value == prologue.value => {
                Some((*buffer, self.linear(*buffer, view.as_deref(), at)))
            }
            _ => None,
        };
        let plain = plain.filter(|(_, linear)| linear.values.is_empty());
        let plain = plain.and_then(|(buffer, linear)| {
            let in_place = InPlace::new(buffer, &linear, down, across).map(|m| Matrix::InPlace(Box::new(m)));
            // The product of an object takes no tables.
            in_place.or_else(|| {
                let here = self.helpers.host() == Host::Here;
                here.then(|| self.spread(buffer, &linear, (down, most_down), (across, most_across)))
            })
        });
        let matrix = plain.unwrap_or_else(|| {
            let local = self.local(dtype, (most_down * most_across) as usize);
            let fast_down = self.prefers(&prologue.body, down, across);
            // The unit stride is along the group in which the prologue reads contiguously, so that
            // packing can be vectorized.
            let (down, across) = if fast_down { (1, most_down) } else { (most_across, 1) };
            Matrix::Panel(Panel { local, down, across })
        });
        Factor { matrix, prologue, down: down.clone(), across: across.clone() }
    }

    /// A factor in place, with tables for the most rows and columns of a range.
    fn spread(
        &mut self,
        buffer: BufferId,
        linear: &Linear,
        (down, most_down): (&Dims, i64),
        (across, most_across): (&Dims, i64),
    ) -> Matrix {
        let mut distances = |dims: &Dims, most: i64| {
            let terms = dims.iter().map(|(index, _)| term(&linear.affine, *index));
            let distance = terms.fold(Affine::constant(0), |sum, term| sum.add(&term));
            Distances { distance, table: self.local(Dtype::I64, most as usize) }
        };
        let (rows, columns) = (distances(down, most_down), distances(across, most_across));
        Matrix::Spread(Box::new(Spread { buffer, origin: without(linear, &[down, across]), rows, columns }))
    }

    /// Whether accesses are contiguous along the first group rather than along the second.
    fn prefers(&self, block: &Block, first: &Dims, second: &Dims) -> bool {
        let along = |dims: &Dims| {
            let Some((last, _)) = dims.last() else { return false };
            let mut found = false;
            visit::for_each_statement(block, &mut |statement| {
                for access in statement.effects().accesses() {
                    let linear = self.linear(access.buffer, access.view, access.at);
                    found |= linear.affine.coefficient(*last).as_constant() == Some(1);
                }
            });
            found
        };
        // Accesses may be contiguous along both, as in the sum of a matrix and a transposed one.
        // Then prefer the second group, unless the first has several dimensions.
        along(first) && (!along(second) || first.len() > 1)
    }

    /// The product of rows `from..to` with all columns for the current batch.
    fn product(&mut self, product: &Product<'_>, from: Value, to: Value) {
        let Product { left, right, result, gemm, columns, inner, .. } = product;
        let (columns, inner) = (*columns, *inner);
        let all_whole = [&left.matrix, &right.matrix, result].iter().all(|m| matches!(m, Matrix::InPlace(_)));
        // If all matrices are in place, one call of the GEMM multiplies them whole: it does its own
        // blocking. Otherwise the loops below follow its block sizes, since packed factors hold one
        // block.
        let step = |n: i64| (!all_whole).then_some(n);
        let [row, column, at, block] = [(); 4].map(|()| self.new_index());
        let zero = self.int(0);
        self.tiles(row, from..to, step(ROWS), &mut |e, rows| {
            e.tiles(column, zero..columns, step(COLUMNS), &mut |e, columns| {
                e.tabulate_columns(right, columns);
                // The loop over inner indices runs at least once, so that the result is 0 if there
                // is nothing to sum.
                e.repeat(&[zero], |e, state| {
                    e.poll();
                    let from = state[0];
                    e.bind(at, from);
                    let next = if all_whole { inner } else { e.b.ins().iadd_imm_s(from, gemm.inner as i64) };
                    let to = e.least(next, inner);
                    let span = TileRange { origin: at, from, to };
                    let more = e.b.ins().icmp(IntCC::SignedLessThan, next, inner);
                    e.tabulate_columns(left, span);
                    e.tabulate_rows(right, span);
                    // A block of the right factor is packed once for all blocks of rows below it.
                    e.fill(right, span, columns);
                    e.tiles(block, rows.from..rows.to, step(gemm.rows as i64), &mut |e, block| {
                        e.tabulate_rows(left, block);
                        e.fill(left, block, span);
                        let placed = TileRange { origin: rows.origin, ..block };
                        // The GEMM packs the right factor in `work` on its first block of rows, and
                        // finds it there for the others.
                        let again = e.b.ins().icmp(IntCC::NotEqual, block.from, rows.from);
                        let packed = if all_whole && product.stays {
                            e.int(Packed::Stays as i64)
                        } else {
                            e.b.ins().uextend(I64, again)
                        };
                        e.multiply(product, [block, span, columns], placed, packed);
                        let Matrix::Panel(panel) = result else { return };
                        let done = if sabotage::on(Bug::LostEpilogue) {
                            e.int(0)
                        } else {
                            e.b.ins().icmp_imm_s(IntCC::Equal, more, 0)
                        };
                        // The tile is complete after the last block of inner indices.
                        e.when(done, &[], |e| {
                            e.epilogue(product, *panel, placed, columns);
                            vec![]
                        });
                    });
                    (more, vec![next])
                });
            });
        });
    }

    /// Runs `body` on each tile of `from..to`, or on the whole range at once.
    fn tiles(
        &mut self,
        origin: IndexId,
        Range { start: from, end: to }: Range<Value>,
        step: Option<i64>,
        body: &mut dyn FnMut(&mut Self, TileRange),
    ) {
        let Some(step) = step else {
            let some = self.b.ins().icmp(IntCC::SignedLessThan, from, to);
            self.when(some, &[], |e| {
                e.bind(origin, from);
                body(e, TileRange { origin, from, to });
                vec![]
            });
            return;
        };
        self.counted(from, to, step, &[], |e, from, _| {
            e.bind(origin, from);
            let next = e.b.ins().iadd_imm_s(from, step);
            let to = e.least(next, to);
            body(e, TileRange { origin, from, to });
            vec![]
        });
    }

    /// Fills a range of a packed factor.
    fn fill(&mut self, factor: &Factor<'_>, down: TileRange, across: TileRange) {
        let Matrix::Panel(panel) = &factor.matrix else { return };
        let (down, across) = (Along { dims: &factor.down, span: down }, Along { dims: &factor.across, span: across });
        let mut body = factor.prologue.body.clone();
        let at = vec![Subscript::Affine(panel.element(down, across))];
        body.push(Statement::Store { buffer: panel.local, at, value: factor.prologue.value });
        self.over_panel(*panel, down, across, &body);
    }

    /// Fills the table of a range of rows, if the factor has one.
    fn tabulate_rows(&mut self, factor: &Factor<'_>, span: TileRange) {
        if let Matrix::Spread(m) = &factor.matrix {
            self.tabulate(&m.rows, Along { dims: &factor.down, span });
        }
    }

    /// The same for columns.
    fn tabulate_columns(&mut self, factor: &Factor<'_>, span: TileRange) {
        if let Matrix::Spread(m) = &factor.matrix {
            self.tabulate(&m.columns, Along { dims: &factor.across, span });
        }
    }

    fn tabulate(&mut self, Distances { distance, table }: &Distances, along: Along<'_>) {
        let value = self.new_value(Dtype::I64);
        let at = vec![Subscript::Affine(number(along.dims).sub(&Affine::index(along.span.origin)))];
        let body = vec![
            Statement::Let { value, op: Op::Affine(distance.clone()) },
            Statement::Store { buffer: *table, at, value },
        ];
        self.two_groups(Along { dims: &vec![], ..along }, along, &body);
    }

    /// Runs a body whose iterations are independent over a panel, in the order of its memory.
    fn over_panel(&mut self, panel: Panel, down: Along<'_>, across: Along<'_>, body: &Block) {
        let (outer, inner) = if panel.down == 1 { (across, down) } else { (down, across) };
        self.two_groups(outer, inner, body);
    }

    /// Runs a parallel body over ranges of two groups.
    fn two_groups(&mut self, outer: Along<'_>, inner: Along<'_>, body: &Block) {
        let outer_axes = self.axes(outer.dims, &[body]);
        let inner_axes = self.axes(inner.dims, &[body]);
        let inside = |e: &mut Self| match inner_axes.split_last() {
            Some((last, _)) => {
                e.ranged(&inner_axes, inner.span.from..inner.span.to, &mut |e, from, to| {
                    e.innermost(last, from, to, body)
                });
            }
            None => e.block(body),
        };
        let Some((last, _)) = outer_axes.split_last() else { return inside(self) };
        self.ranged(&outer_axes, outer.span.from..outer.span.to, &mut |e, from, to| {
            e.counted(from, to, 1, &[], |e, i, _| {
                e.bind(last.index, i);
                inside(e);
                vec![]
            });
        });
    }

    fn epilogue(&mut self, product: &Product<'_>, panel: Panel, rows: TileRange, columns: TileRange) {
        let Product { contraction: c, groups, .. } = product;
        let down = Along { dims: &groups.rows, span: rows };
        let across = Along { dims: &groups.columns, span: columns };
        let at = vec![Subscript::Affine(panel.element(down, across))];
        let load = Op::Load { buffer: panel.local, view: None, at };
        let mut body = vec![Statement::Let { value: c.result, op: load }];
        body.extend(c.epilogue.iter().cloned());
        self.over_panel(panel, down, across, &body);
    }

    /// A range of a matrix.
    fn part(&mut self, matrix: &Matrix, down: TileRange, across: TileRange) -> MatrixPart {
        match matrix {
            Matrix::Panel(panel) => {
                let mut elements = self.int(0);
                for (span, step) in [(down, panel.down), (across, panel.across)] {
                    let before = self.before(span);
                    let before = self.b.ins().imul_imm_s(before, step);
                    elements = self.b.ins().iadd(elements, before);
                }
                let start = self.base(panel.local);
                let start = self.element(start, scalar::register(self.buffer_dtype(panel.local)), elements);
                let turned = sabotage::on(Bug::TurnedPanel);
                let (down, across) = if turned { (panel.across, panel.down) } else { (panel.down, panel.across) };
                let none = self.int(0);
                MatrixPart { start, down: self.int(down), across: self.int(across), rows: none, columns: none }
            }
            Matrix::InPlace(m) => {
                let (start, near) = self.address(m.buffer, &m.origin);
                let (down_step, across_step) = (self.size(&m.down), self.size(&m.across));
                let rows = self.b.ins().imul(down.from, down_step);
                let columns = self.b.ins().imul(across.from, across_step);
                let elements = self.b.ins().iadd(rows, columns);
                let width = self.buffer_dtype(m.buffer).bytes();
                let bytes = self.b.ins().imul_imm_s(elements, width as i64);
                let start = self.b.ins().iadd_imm_s(start, i64::from(near));
                let (start, none) = (self.b.ins().iadd(start, bytes), self.int(0));
                MatrixPart { start, down: down_step, across: across_step, rows: none, columns: none }
            }
            Matrix::Spread(m) => {
                let (start, near) = self.address(m.buffer, &m.origin);
                let start = self.b.ins().iadd_imm_s(start, i64::from(near));
                let [rows, columns] = [(&m.rows, down), (&m.columns, across)].map(|(distances, span)| {
                    let before = self.before(span);
                    let table = self.base(distances.table);
                    self.element(table, I64, before)
                });
                let none = self.int(0);
                MatrixPart { start, down: none, across: none, rows, columns }
            }
        }
    }

    /// The number of elements between a range's origin, where panels and tables begin, and its
    /// beginning.
    fn before(&mut self, span: TileRange) -> Value {
        let origin = self.index_value(span.origin);
        self.b.ins().isub(span.from, origin)
    }

    /// Emits one call of the matrix product. Rows of the result are relative to the panel.
    fn multiply(
        &mut self,
        product: &Product<'_>,
        [rows, inner, columns]: [TileRange; 3],
        placed: TileRange,
        packed: Value,
    ) {
        let Product { left, right, result, gemm, call, mirrors, .. } = product;
        let [m, k, n] = [rows, inner, columns].map(|span| self.b.ins().isub(span.to, span.from));
        let a = self.part(&left.matrix, rows, inner);
        let b = self.part(&right.matrix, inner, columns);
        let c = self.part(result, placed, columns);
        // The first block of inner indices overwrites the result, later ones add to it.
        let more = self.b.ins().icmp_imm_s(IntCC::NotEqual, inner.from, 0);
        let accumulate = self.b.ins().uextend(I64, more);
        macro_rules! fields {
            ($($field:ident = $value:expr),* $(,)?) => {
                [$((std::mem::offset_of!(GemmCall, $field), $value)),*]
            };
        }
        let own = if *mirrors { rows.from } else { self.int(-1) };
        let fields = fields![
            m = m,
            k = k,
            n = n,
            a = a.start,
            a_row = a.down,
            a_column = a.across,
            a_rows = a.rows,
            a_columns = a.columns,
            b = b.start,
            b_row = b.down,
            b_column = b.across,
            b_rows = b.rows,
            b_columns = b.columns,
            c = c.start,
            c_row = c.down,
            c_column = c.across,
            own = own,
            accumulate = accumulate,
            packed = packed,
        ];
        for (at, value) in fields {
            self.b.ins().store(own_memory(), value, *call, offset(at));
        }
        self.helpers.run(&mut self.b, gemm.helper, &[*call]);
    }
}

impl Panel {
    /// The position of an element, relative to the beginning of its ranges.
    fn element(&self, down: Along<'_>, across: Along<'_>) -> Affine<IndexId> {
        let one = |along: Along<'_>, step: i64| {
            number(along.dims).sub(&Affine::index(along.span.origin)).scale(&Size::constant(step))
        };
        one(down, self.down).add(&one(across, self.across))
    }
}

/// The store of the epilogue, if it consists of nothing else.
fn plain_store(c: &Contraction) -> Option<(BufferId, &[Subscript])> {
    match c.epilogue.as_slice() {
        [Statement::Store { buffer, at, value }] if *value == c.result => Some((*buffer, at)),
        _ => None,
    }
}
