//! Sums of columns, block by block: several rows of each column at a time, on all threads, and in one pass over memory with
//! sums of rows (any loop over the same rows).
//!
//! A kernel of such loops becomes parts. The first takes blocks of rows; in a block it takes some rows at a time, first
//! their share of the columns' sums, which lie in a temporary with a row for each block, then, while they are in the cache,
//! what is done for each of these rows. The other parts join the sums of blocks, a loop over columns each.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use ir::nest::{
    Block, Buffer, BufferId, Extent, Index, IndexId, Kernel, Loop, LoopKind, Op, Program, Reduction, Role, Statement,
    Subscript, ValueId,
};
use ir::order::BLOCK;
use ir::{Affine, Dtype, Order, Size, visit};

use super::columns::{self, MOST};
use super::emit::{Emitter, Linear};
use super::fold::{Fold, offset};
use super::lanes128::{Lanes128, Operands, Parts, vector};
use super::leaf::{Access, Done, Leaf, LeafEmitter, Step};
use super::split::Part;
use super::strips::{self, Rows};
use crate::nests::may_fault;
use crate::nests::{extent_size, is_length, is_scalar};

/// Rows that are in the cache between the sums of their columns and what is done for them.
const ROWS: i64 = 16;
/// Elements behind each row of sums: the last vector of a row may reach beyond it.
const SPARE: i64 = 4;

/// What the first part of a tiled kernel does. Its body is scalars, then loops over rows, then loops over columns.
pub(super) struct Tiled {
    /// How many loops go over rows.
    rows: usize,
    /// Of each loop over columns, where the sums of blocks go.
    sums: Vec<Vec<BufferId>>,
    /// How many rows and columns there are.
    height: Size,
    width: Size,
}

impl Tiled {
    /// The range of the part: blocks, and strips of columns if there are no rows to take whole.
    pub(super) fn range(&self) -> Vec<Size> {
        let strips = if self.rows == 0 { self.width.ceil_div(MOST) } else { Size::constant(1) };
        vec![self.height.ceil_div(BLOCK as i64), strips]
    }
}

/// A loop over columns that reduces each.
struct Column<'k> {
    l: &'k Loop,
    index: IndexId,
    width: &'k Size,
    /// What is computed of a column first, the reduction, and what comes of it.
    before: &'k [Statement],
    reduce: &'k Loop,
    after: &'k [Statement],
    height: &'k Size,
}

impl<'k> Column<'k> {
    fn new(kernel: &Kernel, l: &'k Loop) -> Option<Column<'k>> {
        let (index, width) = one_dim(l)?;
        let at = l.body.iter().position(|s| matches!(s, Statement::Loop(_)))?;
        let (before, rest) = l.body.split_at(at);
        let [Statement::Loop(reduce), after @ ..] = rest else { return None };
        let (LoopKind::Parallel, LoopKind::Reduce(reductions)) = (&l.kind, &reduce.kind) else { return None };
        let (_, height) = one_dim(reduce)?;
        let pure = |s: &Statement| matches!(s, Statement::Let { op, .. } if !matches!(op, Op::Check { .. }));
        let stores = |s: &Statement| is_scalar(s) || matches!(s, Statement::Store { .. });
        let in_blocks = |r: &Reduction| {
            let fold = Fold { op: r.op, dtype: kernel.values[r.input] };
            let number =
                matches!(fold.dtype, Dtype::F32 | Dtype::F64 | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64);
            number && !fold.is_arg() && (r.order == Order::Blocks || !r.op.depends_on_order(fold.dtype))
        };
        let mut along = false;
        visit::for_each_op(&reduce.body, &mut |_, op| {
            if let Op::Load { at, .. } = op
                && let Some(Subscript::Affine(last)) = at.last()
            {
                along |= last.coefficient(index).as_constant() == Some(1);
            }
        });
        let fits = before.iter().chain(&reduce.body).all(pure) && after.iter().all(stores);
        (fits && along && reductions.iter().all(in_blocks)).then_some(Column {
            l,
            index,
            width,
            before,
            reduce,
            after,
            height,
        })
    }

    /// The reduction, with what it needs of what comes before it inside.
    fn alone(&self) -> Loop {
        let mut reduce = self.reduce.clone();
        for statement in self.before.iter().rev() {
            let Statement::Let { value, .. } = statement else { continue };
            if visit::free_values(&reduce.body).contains(value) {
                reduce.body.insert(0, statement.clone());
            }
        }
        reduce
    }
}

/// The index of a loop that has just one, and how often it runs.
fn one_dim(l: &Loop) -> Option<(IndexId, &Size)> {
    let [(index, extent)] = l.dims.as_slice() else { return None };
    Some((*index, extent_size(extent)?))
}

/// The parts of a kernel of loops over columns, and over rows.
pub(super) fn tile(program: &mut Program, kernel: &Kernel) -> Option<Vec<Part>> {
    let (scalars, loops): (Vec<&Statement>, Vec<&Statement>) = kernel.body.iter().partition(|s| is_scalar(s));
    let (mut columns, mut rows) = (vec![], vec![]);
    for statement in &loops {
        let Statement::Loop(l) = statement else { return None };
        match Column::new(kernel, l) {
            Some(column) => columns.push(column),
            None if matches!(l.kind, LoopKind::Parallel) => rows.push(l),
            None => return None,
        }
    }
    let (height, width) = columns.first().map(|c| (c.height.clone(), c.width.clone()))?;
    let mut same = columns.iter().all(|c| *c.height == height && *c.width == width);
    same &= rows.iter().all(|l| one_dim(l).is_some_and(|(_, n)| *n == height));
    if !same || !is_length(program, &height) || !is_length(program, &width) || !independent(program, kernel) {
        return None;
    }
    let read: Vec<BufferId> = columns.iter().flat_map(|c| visit::loads(&c.reduce.body)).collect();
    if !rows.iter().all(|l| visit::loads(&l.body).iter().any(|b| read.contains(b))) {
        return None;
    }
    let mut made = kernel.clone();
    let mut first: Block = scalars.iter().map(|s| (*s).clone()).collect();
    let mut bodies = vec![];
    let mut joins = vec![];
    first.extend(rows.iter().map(|l| Statement::Loop((*l).clone())));
    let mut sums = vec![];
    for column in &columns {
        let dims = column.l.dims.clone();
        let body = vec![Statement::Loop(column.alone())];
        first.push(Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body }));
        let (buffers, join, index) = join(program, &mut made, column);
        sums.push(buffers);
        joins.push(index);
        let mut body = column.before.to_vec();
        body.push(Statement::Loop(join));
        body.extend(column.after.iter().cloned());
        let mut block: Block = scalars.iter().map(|s| (*s).clone()).collect();
        block.push(Statement::Loop(Loop { body, ..column.l.clone() }));
        bodies.push(block);
    }
    let tiled = Tiled { rows: rows.len(), sums, height, width };
    let part = |number: usize, body, tiled| {
        let kernel = Kernel { name: format!("{}.{number}", made.name), body, ..made.clone() };
        Part { kernel, chunks: vec![], joins: joins.clone(), baton: None, tiled }
    };
    let mut parts = vec![part(0, first, Some(tiled))];
    parts.extend(bodies.into_iter().enumerate().map(|(number, body)| part(number + 1, body, None)));
    Some(parts)
}

/// Whether the loops of a kernel may run together, behind all of its scalars: nothing uses what a loop stores but that loop, nothing is in
/// scratch, and one statement at most may end the run.
fn independent(program: &Program, kernel: &Kernel) -> bool {
    let mut free = kernel.body.iter().filter(|s| may_fault(s)).count() < 2;
    let memory: Vec<_> = kernel
        .body
        .iter()
        .map(|s| {
            let block: Block = vec![s.clone()];
            (visit::loads(&block), visit::stores(&block))
        })
        .collect();
    for (at, (_, stores)) in memory.iter().enumerate() {
        for buffer in stores {
            free &= program.buffers[*buffer].role != Role::Scratch;
            free &= !memory.iter().enumerate().any(|(other, (loads, _))| other != at && loads.contains(buffer));
        }
    }
    free
}

/// Where the sums of a column's blocks go, and the loop that joins them.
fn join(program: &mut Program, kernel: &mut Kernel, column: &Column<'_>) -> (Vec<BufferId>, Loop, IndexId) {
    let index = kernel.indices.push(Index { name: format!("block.{}", kernel.indices.len()) });
    let blocks = column.height.ceil_div(BLOCK as i64);
    let (mut buffers, mut body, mut joined) = (vec![], vec![], vec![]);
    if let LoopKind::Reduce(reductions) = &column.reduce.kind {
        for r in reductions {
            let dtype = kernel.values[r.result];
            let name = format!("{}.{}.blocks", kernel.name, r.result);
            let shape = vec![blocks.clone(), column.width + &Size::constant(SPARE)];
            let buffer = program.buffers.push(Buffer { name, dtype, shape, role: Role::Temp });
            let value: ValueId = kernel.values.push(dtype);
            let at = [index, column.index].map(|i| Subscript::Affine(Affine::index(i))).to_vec();
            body.push(Statement::Let { value, op: Op::Load { buffer, view: None, at } });
            joined.push(Reduction { input: value, ..r.clone() });
            buffers.push(buffer);
        }
    }
    let dims = vec![(index, Extent::Affine(Affine::size(blocks)))];
    (buffers, Loop { dims, kind: LoopKind::Reduce(joined), body }, index)
}

/// Where the sums of a block's columns are.
struct Sums {
    /// Of each reduction: the operation, its row in memory, how that is accessed.
    rows: Vec<(Fold, Value, MemFlagsData)>,
}

impl Sums {
    fn address(&self, e: &mut Emitter<'_>, k: usize, column: Value) -> Value {
        let (fold, row, _) = self.rows[k];
        let bytes = e.b.ins().imul_imm_s(column, fold.dtype.bytes() as i64);
        e.b.ins().iadd(row, bytes)
    }

    fn load(&self, l: &mut Lanes128<'_, '_>) -> Parts {
        let mut all = vec![];
        for (k, (fold, _, flags)) in self.rows.iter().enumerate() {
            let address = self.address(l.e, k, l.at.i);
            let ty = vector(fold.dtype, false);
            for part in 0..l.registers(fold.dtype) {
                all.push(l.e.b.ins().load(ty, *flags, address, offset(16 * part)));
            }
        }
        all
    }

    fn store(&self, l: &mut Lanes128<'_, '_>, mut sums: &[Value]) {
        for (k, (fold, _, flags)) in self.rows.iter().enumerate() {
            let address = self.address(l.e, k, l.at.i);
            let (own, rest) = sums.split_at(l.registers(fold.dtype));
            for (part, sum) in own.iter().enumerate() {
                l.e.b.ins().store(*flags, *sum, address, offset(16 * part));
            }
            sums = rest;
        }
    }
}

impl Emitter<'_> {
    /// The first part of a tiled kernel, or the range of it.
    pub(super) fn tiled(&mut self, t: &Tiled, body: &Block, (begin, end): (Value, Value)) {
        let (scalars, loops): (Vec<&Statement>, Vec<&Statement>) = body.iter().partition(|s| is_scalar(s));
        scalars.into_iter().for_each(|s| self.statement(s));
        let loops: Vec<&Loop> =
            loops.iter().filter_map(|s| if let Statement::Loop(l) = s { Some(l) } else { None }).collect();
        let (rows, columns) = loops.split_at(t.rows);
        let [height, width, strips] = [&t.height, &t.width, &t.range()[1]].map(|size| self.size(size));
        self.counted(begin, end, 1, &[], |e, number, _| {
            let block = e.b.ins().udiv(number, strips);
            let strip = e.b.ins().urem(number, strips);
            let first = e.b.ins().imul_imm_s(block, BLOCK as i64);
            let past = e.b.ins().iadd_imm_s(first, BLOCK as i64);
            let past = e.least(past, height);
            let (mut from, mut to) = (e.int(0), width);
            if t.rows == 0 {
                from = e.b.ins().imul_imm_s(strip, MOST);
                to = e.b.ins().iadd_imm_s(from, MOST);
                to = e.least(to, width);
            }
            let leaves: Vec<Option<Leaf>> = columns.iter().map(|l| Leaf::build(e, l.dims[0].0, &l.body, &[])).collect();
            let mut sums = vec![];
            for (l, buffers) in columns.iter().zip(&t.sums) {
                sums.push(e.sums(l, buffers, block, width));
            }
            let wide: Vec<Option<Rows>> = leaves
                .iter()
                .zip(&t.sums)
                .map(|(leaf, sums)| e.wide_rows(leaf.as_ref()?, sums, (block, width)))
                .collect();
            for ((l, leaf), sums) in columns.iter().zip(&leaves).zip(&sums) {
                match leaf {
                    Some(leaf) => e.clear_sums(leaf, sums, (from, to)),
                    None => e.sum_columns(l, sums, (first, past), (from, to)),
                }
            }
            e.counted(first, past, ROWS, &[], |e, row, _| {
                e.poll();
                let next = e.b.ins().iadd_imm_s(row, ROWS);
                let stop = e.least(next, past);
                // Columns first: several rows are read at once, which memory likes better than one after another.
                for ((leaf, sums), wide) in leaves.iter().zip(&sums).zip(&wide) {
                    match (leaf, wide) {
                        (_, Some(wide)) => wide.run(e, (row, stop), (from, to)),
                        (Some(leaf), None) => e.add_rows(leaf, sums, (row, stop), (from, to)),
                        (None, None) => {}
                    }
                }
                for l in rows {
                    e.counted(row, stop, 1, &[], |e, i, _| {
                        e.bind(l.dims[0].0, i);
                        e.block(&l.body);
                        vec![]
                    });
                }
                vec![]
            });
            vec![]
        });
    }

    /// Where the sums of a block go.
    fn sums(&mut self, l: &Loop, buffers: &[BufferId], block: Value, width: Value) -> Sums {
        let mut rows = vec![];
        let row = self.b.ins().iadd_imm_s(width, SPARE);
        let row = self.b.ins().imul(row, block);
        for (r, buffer) in reductions(l).iter().zip(buffers) {
            let fold = Fold { op: r.op, dtype: self.dtype(r.input) };
            let base = self.base(*buffer);
            let bytes = self.b.ins().imul_imm_s(row, fold.dtype.bytes() as i64);
            rows.push((fold, self.b.ins().iadd(base, bytes), self.buffer_memory(*buffer)));
        }
        Sums { rows }
    }

    fn clear_sums(&mut self, leaf: &Leaf, sums: &Sums, part: (Value, Value)) {
        let operands = Operands::new(self, leaf);
        columns::groups(self, (leaf, &operands, None), part, 4, &mut |l| {
            let empty: Parts = sums.rows.iter().flat_map(|(fold, ..)| l.constant(fold.identity())).collect();
            sums.store(l, &empty);
        });
    }

    /// What adds rows to the sums of columns, as a leaf that goes wider than Cranelift's vectors.
    fn wide_rows(&mut self, leaf: &Leaf, buffers: &[BufferId], (block, width): (Value, Value)) -> Option<Rows> {
        let [Step::Nest(nest)] = leaf.steps.as_slice() else { return None };
        let row = self.b.ins().iadd_imm_s(width, SPARE);
        let row = self.b.ins().imul(row, block);
        let index = self.new_index();
        self.bind(index, row);
        let home = |k: usize| Access {
            buffer: buffers[k],
            start: Linear { affine: Affine::index(index), values: vec![] },
            stride: Size::constant(1),
            gathered: vec![],
            inner: false,
            spread: false,
        };
        for (value, op) in &leaf.uniform {
            self.let_(*value, op);
        }
        Rows::new(self, leaf, nest, &|| strips::Part::new(leaf, &BTreeSet::new(), &BTreeMap::new()), &home)
    }

    /// Adds some rows to the sums of columns.
    fn add_rows(&mut self, leaf: &Leaf, sums: &Sums, rows: (Value, Value), part: (Value, Value)) {
        let operands = Operands::new(self, leaf);
        for step in &leaf.steps {
            let Step::Nest(nest) = step else { continue };
            let axes = columns::axes(self, nest);
            let groups = columns::groups_of(leaf, nest, 0);
            let levels: Vec<_> = nest.reductions.iter().map(|_| None).collect();
            columns::groups(self, (leaf, &operands, None), part, groups, &mut |l| {
                let mut state = vec![l.e.int(0)];
                state.extend(sums.load(l));
                let last = l.iterate(nest, &axes, Some(rows), &levels, &state, &mut Done::new(leaf));
                sums.store(l, &last[1..]);
            });
        }
    }

    /// The sums of a block, one column after another.
    fn sum_columns(&mut self, l: &Loop, sums: &Sums, (first, past): (Value, Value), (from, to): (Value, Value)) {
        let [Statement::Loop(reduce)] = l.body.as_slice() else { return };
        let inputs: Vec<ValueId> = reductions(l).iter().map(|r| r.input).collect();
        self.counted(from, to, 1, &[], |e, j, _| {
            e.bind(l.dims[0].0, j);
            let empty: Vec<Value> = sums.rows.iter().map(|(fold, ..)| fold.empty(e)).collect();
            let found = e.counted(first, past, 1, &empty, |e, i, state| {
                e.bind(reduce.dims[0].0, i);
                e.block(&reduce.body);
                let mut next = vec![];
                for (((fold, ..), input), old) in sums.rows.iter().zip(&inputs).zip(state) {
                    let x = e.value(*input);
                    next.push(fold.join(e, *old, x));
                }
                next
            });
            for (k, sum) in found.into_iter().enumerate() {
                let address = sums.address(e, k, j);
                e.b.ins().store(sums.rows[k].2, sum, address, 0);
            }
            vec![]
        });
    }
}

/// The reductions of a loop over columns.
fn reductions(l: &Loop) -> &[Reduction] {
    match l.body.as_slice() {
        [Statement::Loop(Loop { kind: LoopKind::Reduce(reductions), .. })] => reductions,
        _ => &[],
    }
}
