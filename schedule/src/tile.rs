//! Sums columns block by block: several rows of each column at a time, on all threads, and in the
//! same pass over memory as sums of rows (or any loop over the same rows).
//!
//! A kernel of such loops becomes several parts. The first processes blocks of rows. Within a block
//! it takes some rows at a time: first it adds them to the columns' sums, which are in a temporary
//! with a row for each block; then, while they are in the cache, it runs the loops over these rows.
//! Each of the other parts combines the sums of blocks in a loop over columns.

use ir::choice::Choice;
use ir::nest::{
    Block, Buffer, BufferId, Extent, Index, IndexId, Kernel, Loop, LoopKind, Op, Program, Reduction, Role, Rows,
    Statement, Subscript, ValueId, is_length,
};
use ir::order::BLOCK;
use ir::sched::{Columns, Part, Run, Scheduled, Tiles, is_scalar};
use ir::{Affine, Dtype, Order, Size, visit};

/// A loop over columns that reduces each.
struct Column<'k> {
    l: &'k Loop,
    index: IndexId,
    width: &'k Size,
    /// The statements of a column before its reduction, the reduction, and those after it.
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
        let pure = |s: &Statement| matches!(s, Statement::Let { op, .. } if !op.effects().may_fault);
        let stores = |s: &Statement| is_scalar(s) || matches!(s, Statement::Store { .. });
        let in_blocks = |r: &Reduction| {
            let Some(r) = r.single() else { return false };
            let dtype = kernel.values[r.input];
            let number = matches!(dtype, Dtype::F32 | Dtype::F64 | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64);
            number && matches!(r.order, Order::Blocks | Order::Free)
        };
        let mut along = false;
        visit::for_each_op(&reduce.body, &mut |_, op| {
            let last = op.effects().load.and_then(|load| load.at.last());
            along |= matches!(last, Some(Subscript::Affine(last)) if last.coefficient(index).as_constant() == Some(1));
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

    /// The reduction, with the statements before it that it needs.
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

/// The index of a loop with only one, and its extent.
fn one_dim(l: &Loop) -> Option<(IndexId, &Size)> {
    let [(index, extent)] = l.dims.as_slice() else { return None };
    Some((*index, extent.as_size()?))
}

/// Splits kernels of loops over columns and over rows, for targets that run them together.
pub fn tile(scheduled: &mut Scheduled, choice: &mut Choice) {
    if scheduled.machine.columns != Columns::Tiles {
        return;
    }
    scheduled.rewrite(|program, part| parts(program, &part, choice).unwrap_or_else(|| vec![part]));
}

/// The parts of a kernel of loops over columns, and over rows.
fn parts(program: &mut Program, whole: &Part, choice: &mut Choice) -> Option<Vec<Part>> {
    let kernel = &whole.kernel;
    let (scalars, loops): (Vec<&Statement>, Vec<&Statement>) = kernel.body.iter().partition(|s| is_scalar(s));
    let (mut columns, mut rows) = (vec![], vec![]);
    for statement in &loops {
        let Statement::Loop(l) = statement else { return None };
        match Column::new(kernel, l) {
            Some(column) => columns.push(column),
            None if matches!(l.kind, LoopKind::Parallel) && Rows::of(statement).is_none() => rows.push(l),
            None => return None,
        }
    }
    let (height, width) = columns.first().map(|c| (c.height.clone(), c.width.clone()))?;
    let mut same = columns.iter().all(|c| *c.height == height && *c.width == width);
    same &= rows.iter().all(|l| one_dim(l).is_some_and(|(_, n)| *n == height));
    if !same
        || !is_length(&program.symbols, &height)
        || !is_length(&program.symbols, &width)
        || !independent(program, kernel)
    {
        return None;
    }
    let read: Vec<BufferId> = columns.iter().flat_map(|c| visit::loads(&c.reduce.body)).collect();
    if !rows.iter().all(|l| visit::loads(&l.body).iter().any(|b| read.contains(b))) || !choice.grants(true) {
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
    let tiles = Run::Tiles(Tiles { rows: rows.len(), sums, height, width });
    let part = |(number, (body, run))| {
        let kernel = Kernel { name: format!("{}.{number}", made.name), body, ..made.clone() };
        Part::new(whole.of, kernel, run, joins.clone())
    };
    let all = std::iter::once((first, tiles)).chain(bodies.into_iter().map(|body| (body, Run::Ranges)));
    Some(all.enumerate().map(part).collect())
}

/// Whether the loops of a kernel may run together, after all of its scalars: only the loop itself
/// uses the values that it stores, nothing is in scratch, and at most one statement may end the
/// run.
fn independent(program: &Program, kernel: &Kernel) -> bool {
    let mut free = kernel.body.iter().filter(|s| s.may_fault()).count() < 2;
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

/// The buffers for the sums of a column's blocks, and the loop that combines them.
fn join(program: &mut Program, kernel: &mut Kernel, column: &Column<'_>) -> (Vec<BufferId>, Loop, IndexId) {
    let index = kernel.indices.push(Index { name: format!("block.{}", kernel.indices.len()) });
    let blocks = column.height.ceil_div(&(BLOCK as i64).into());
    let (mut buffers, mut body, mut joined) = (vec![], vec![], vec![]);
    if let LoopKind::Reduce(reductions) = &column.reduce.kind {
        for r in reductions.iter().filter_map(Reduction::single) {
            let dtype = kernel.values[r.result];
            let name = format!("{}.{}.blocks", kernel.name, r.result);
            let shape = vec![blocks.clone(), column.width + &Size::constant(Tiles::SPARE)];
            let buffer = program.buffers.push(Buffer { name, dtype, shape, role: Role::Temp });
            let value: ValueId = kernel.values.push(dtype);
            let at = [index, column.index].map(|i| Subscript::Affine(Affine::index(i))).to_vec();
            body.push(Statement::Let { value, op: Op::Load { buffer, view: None, at } });
            joined.push(Reduction::monoid(r.result, r.monoid, r.order, value));
            buffers.push(buffer);
        }
    }
    let dims = vec![(index, Extent::Affine(Affine::size(blocks)))];
    (buffers, Loop { dims, kind: LoopKind::Reduce(joined), body }, index)
}
