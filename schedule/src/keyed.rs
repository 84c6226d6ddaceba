//! Reductions by key as loops that every target runs: the elements go in chunks of the order, each
//! into tables of its own, and further loops combine the tables of all chunks.
//!
//! ```text
//! keyed K row 0 over i < n {         parallel chunk < n / C {
//!   scatter %y[key], add v             parallel k < K { store %y.chunks[chunk, k], 0 }
//! }                                    serial e < min(C, n - chunk * C) {
//!                                        scatter %y.chunks[chunk, key], add v
//!                                      }
//!                                    }
//!                                    parallel k < K {
//!                                      v = reduce c < n / C { load %y.chunks[c, k] } with add
//!                                      store %y[k], v
//!                                    }
//! ```
//!
//! Where the tables of several chunks fit into a cache, an iteration takes a group of chunks, into
//! tables in scratch that it then combines. If the group is complete, it takes an element of each
//! chunk in turn: an addition to an element of a table waits for the one before it, and in this way
//! several are under way at once even if all elements have the same key.
//!
//! Loops behind a keyed one combine the elements of a table where they read them, if each is read
//! once; other tables are complete before these loops.
//!
//! With many keys there are few chunks, too few for a GPU: there, each takes its elements by ranges
//! of keys (`bins`). Elements that are rows go column by column there, each column of a chunk in an
//! iteration of its own (`columns`).

mod bins;
mod columns;

use std::collections::BTreeSet;

use ir::nest::{
    Block, Buffer, BufferId, Extent, IndexId, Kernel, Loop, LoopKind, Op, Program, Reduction, Role, Rows, Statement,
    Subscript, ValueId,
};
use ir::order::KEYED_CHUNK;
use ir::rewrite::{Copier, replace};
use ir::sabotage::{self, Bug};
use ir::sched::{Keyed, Machine};
use ir::{Affine, BinaryOp, CompareOp, Monoid, Order, Scalar, Size, visit};

use crate::maker::{Expanded, Maker, needed, subscripts};
use columns::Share;

/// The greatest chunk that is taken in groups: its tables have at most a quarter as many elements,
/// and those of a group fit into the cache of a core.
const GROUPED: i64 = 1 << 18;

/// The loops in place of a statement that is a reduction by key: a keyed loop, or a parallel loop
/// around one. `None` for any other.
pub fn expand(
    program: &mut Program,
    machine: &Machine,
    kernel: &mut Kernel,
    statement: &Statement,
) -> Option<Expanded> {
    let whole = Rows::of(statement)?;
    let read_once = whole.read_once(program);
    let Rows { outer, before, inner, behind } = whole;
    let LoopKind::Keyed { keys, row } = &inner.kind else { return None };
    let lengths: Vec<Size> = inner.dims.iter().filter_map(|(_, extent)| extent.as_size().cloned()).collect();
    let elements = lengths.iter().fold(Size::constant(1), |product, length| &product * length);
    let chunk = Size::keyed_chunk(keys);
    let count = elements.ceil_div(&chunk);
    // 1 if chunks are taken in groups, or by bins, else 0. (The quotient is at most that of the
    // least chunk.)
    let none = Size::constant(0);
    let (each, grouped, binned) = match machine.keyed {
        Keyed::Groups(each) => {
            let fits = Size::constant(GROUPED).floor_div(&chunk).ceil_div(&Size::constant(GROUPED / KEYED_CHUNK));
            (each, fits, none)
        }
        Keyed::Bins if bins::key(program, inner, *row).is_some() => (1, none, bins::pay(keys, &count, &columns(inner))),
        Keyed::Bins => (1, none.clone(), none),
    };
    let groups = &grouped * &count.ceil_div(&Size::constant(each));
    let singles = &(&(&Size::constant(1) - &grouped) - &binned) * &count;
    let rows = &(&groups + &singles) + &(&binned * &count);
    let tables = tables(program, inner, *row, &rows);
    for table in tables.iter().filter(|table| !read_once.contains(&table.whole)) {
        let role = &mut program.buffers[table.whole].role;
        if *role == Role::Scratch {
            *role = Role::Temp;
        }
    }
    let maker = Maker { program, kernel };
    let mut expansion =
        Expansion { maker, outer, before, inner, tables: &tables, lengths, elements, count, chunk, joins: vec![] };
    let mut loops = vec![];
    let columns = if machine.keyed == Keyed::Bins { expansion.columns_apart() } else { None };
    if !binned.is_zero() {
        let (bins, sorted) = expansion.bins(machine.radix, &binned);
        loops.extend(sorted);
        let single = columns.is_none().then(|| expansion.one_column());
        for column in columns.iter().flatten().chain(&single) {
            loops.push(expansion.by_column(column, Share::Bin(&bins)));
        }
    }
    for column in columns.iter().flatten() {
        loops.push(expansion.by_column(column, Share::Chunk(&singles)));
    }
    let singles = if columns.is_some() { Size::constant(0) } else { singles };
    for (count, each) in [(singles, 1), (groups, each)].into_iter().filter(|(count, _)| !count.is_zero()) {
        let mut dims = vec![(expansion.maker.index("chunk"), Extent::size(count))];
        let body = if each == 1 { expansion.one_chunk(dims[0].0) } else { expansion.group(dims[0].0, each) };
        dims.extend_from_slice(outer);
        loops.push(Loop { dims, kind: LoopKind::Parallel, body });
    }
    for table in tables.iter().filter(|table| !read_once.contains(&table.whole)) {
        let whole = Place { buffer: table.whole, lead: vec![] };
        let shape = expansion.maker.program.buffers[table.whole].shape.clone();
        loops.push(expansion.combine(table, table.chunks, Extent::size(rows.clone()), &shape, &whole));
    }
    for (at, statement) in behind.iter().enumerate() {
        if let Statement::Loop(l) = statement {
            loops.push(expansion.behind(l, &behind[..at], &read_once, &rows));
        }
    }
    Some(Expanded { loops, joins: expansion.joins })
}

/// The columns of the longest row that elements merge into tables; 1 if they are no rows, or if the
/// length is not known before.
fn columns(l: &Loop) -> Size {
    let mut columns = Size::constant(1);
    visit::for_each_statement(&l.body, &mut |s| {
        if let Statement::Loop(row) = s
            && row.body.iter().any(bins::scatters)
        {
            let lengths = row.dims.iter().filter_map(|(_, extent)| extent.as_size());
            columns = lengths.fold(Size::constant(1), |product, length| &product * length);
        }
    });
    columns
}

/// A table, and those of the chunks or groups, one after another.
struct Table {
    whole: BufferId,
    chunks: BufferId,
    /// The leading subscripts of the part of the table that the loop computes.
    row: Vec<Subscript>,
    /// The shape of that part.
    shape: Vec<Size>,
    monoid: Monoid,
}

impl Table {
    /// The place of a chunk or group among those that lie one after another.
    fn place(&self, chunk: IndexId) -> Place {
        Place { buffer: self.chunks, lead: [vec![Subscript::index(chunk)], self.row.clone()].concat() }
    }
}

/// The place of a part of a table: the subscripts `lead`, followed by those within the part.
struct Place {
    buffer: BufferId,
    lead: Vec<Subscript>,
}

impl Place {
    fn at(&self, inside: &[Subscript]) -> Vec<Subscript> {
        [&self.lead, inside].concat()
    }
}

/// The tables of a keyed loop, with buffers for this many chunks or groups.
fn tables(program: &mut Program, l: &Loop, row: usize, count: &Size) -> Vec<Table> {
    let mut tables = vec![];
    visit::for_each_statement(&l.body, &mut |s| {
        if let Statement::Scatter { buffer, at, monoid, .. } = s {
            let Buffer { name, dtype, shape, .. } = &program.buffers[*buffer];
            let (name, dtype, inside) = (format!("{name}.chunks"), *dtype, shape[row..].to_vec());
            let shape = [std::slice::from_ref(count), shape].concat();
            let chunks = program.buffers.push(Buffer { name, dtype, shape, role: Role::Temp });
            tables.push(Table { whole: *buffer, chunks, row: at[..row].to_vec(), shape: inside, monoid: *monoid });
        }
    });
    tables
}

/// A reduction by key on its way to loops over chunks.
struct Expansion<'a> {
    maker: Maker<'a>,
    /// The indices of the parallel loop around it.
    outer: &'a [(IndexId, Extent)],
    /// The statements before it in the parallel loop around it, which store nothing.
    before: &'a [Statement],
    inner: &'a Loop,
    tables: &'a [Table],
    /// The lengths of its dims, and their product.
    lengths: Vec<Size>,
    elements: Size,
    /// The number of chunks, and the elements of one.
    count: Size,
    chunk: Size,
    joins: Vec<IndexId>,
}

impl Expansion<'_> {
    /// A chunk, which goes into tables of its own.
    fn one_chunk(&mut self, chunk: IndexId) -> Block {
        let mut body = self.before.to_vec();
        let places: Vec<Place> = self.tables.iter().map(|table| table.place(chunk)).collect();
        for (table, place) in self.tables.iter().zip(&places) {
            let cleared = self.clear(table, place, vec![]);
            body.push(cleared);
        }
        self.elements_from(&self.first_of(chunk), &places, &mut body);
        body
    }

    /// The number of the first element of a chunk.
    fn first_of(&self, chunk: IndexId) -> Affine<IndexId> {
        let number = if sabotage::on(Bug::KeyedSum) { Affine::constant(0) } else { Affine::index(chunk) };
        number.scale(&self.chunk)
    }

    /// A group of `each` chunks, which go into tables in scratch.
    fn group(&mut self, group: IndexId, each: i64) -> Block {
        let mut body = self.before.to_vec();
        let scratch: Vec<BufferId> = self.tables.iter().map(|table| self.scratch(table, each)).collect();
        let places = |number: &Subscript| -> Vec<Place> {
            scratch.iter().map(|buffer| Place { buffer: *buffer, lead: vec![number.clone()] }).collect()
        };
        // The chunks of this group, and whether all of them are complete.
        let each_size = Size::constant(each);
        let rest = Affine::size(self.count.clone()).sub(&Affine::index(group).scale(&each_size));
        let [rest, most] = [rest, Affine::constant(each)].map(|a| self.maker.define(&mut body, Op::Affine(a)));
        let chunks = self.maker.define(&mut body, Op::Binary(BinaryOp::Min, rest, most));
        let in_group = &self.chunk * &each_size;
        let first = Affine::index(group).scale(&in_group);
        let spare = Affine::size(&self.elements - &in_group).sub(&first);
        let spare = self.maker.define(&mut body, Op::Affine(spare));
        let zero = self.maker.define(&mut body, Op::Constant(Scalar::I64(0)));
        let complete = self.maker.define(&mut body, Op::Compare(CompareOp::Ge, spare, zero));
        for table in 0..self.tables.len() {
            let number = self.maker.index("chunk");
            let place = &places(&Subscript::index(number))[table];
            let cleared = self.clear(&self.tables[table], place, vec![(number, Extent::Value(chunks))]);
            body.push(cleared);
        }
        // One element of each chunk in turn. Elements that are rows keep the processor busy alone.
        let mut single = chunks;
        if !self.inner.body.iter().any(holds_loop) {
            let chunk = self.maker.define(&mut body, Op::Affine(Affine::size(self.chunk.clone())));
            let together = self.maker.define(&mut body, Op::Select(complete, chunk, zero));
            single = self.maker.define(&mut body, Op::Select(complete, zero, chunks));
            let element = self.maker.index("element");
            let mut several = vec![];
            for number in 0..each {
                let start = Affine::size(&self.chunk * &Size::constant(number));
                let at = first.add(&start).add(&Affine::index(element));
                let place = places(&Subscript::Affine(Affine::constant(number)));
                several.extend(self.element(Subscript::Affine(at), &place));
            }
            let dims = vec![(element, Extent::Value(together))];
            body.push(Statement::Loop(Loop { dims, kind: LoopKind::Serial, body: several }));
        }
        let number = self.maker.index("chunk");
        let first = first.add(&Affine::index(number).scale(&self.chunk));
        let mut alone = vec![];
        self.elements_from(&first, &places(&Subscript::index(number)), &mut alone);
        let dims = vec![(number, Extent::Value(single))];
        body.push(Statement::Loop(Loop { dims, kind: LoopKind::Serial, body: alone }));
        for (table, scratch) in self.tables.iter().zip(&scratch) {
            let combined = self.combine(table, *scratch, Extent::Value(chunks), &table.shape, &table.place(group));
            body.push(Statement::Loop(combined));
        }
        body
    }

    /// Scratch for the tables of a group.
    fn scratch(&mut self, table: &Table, each: i64) -> BufferId {
        let shape = [vec![Size::constant(each)], table.shape.clone()].concat();
        let Buffer { name, dtype, .. } = &self.maker.program.buffers[table.whole];
        let buffer = Buffer { name: format!("{name}.group"), dtype: *dtype, shape, role: Role::Scratch };
        self.maker.program.buffers.push(buffer)
    }

    /// Appends a loop over the elements of the chunk that begins with the number `first`.
    fn elements_from(&mut self, first: &Affine<IndexId>, places: &[Place], body: &mut Block) {
        self.elements_of(&self.inner.body, first, &[], places, body);
    }

    /// The same with another body for an element, where the given indices are others.
    fn elements_of(
        &mut self,
        each: &Block,
        first: &Affine<IndexId>,
        others: &[(IndexId, IndexId)],
        places: &[Place],
        body: &mut Block,
    ) {
        let left = Affine::size(self.elements.clone()).sub(first);
        let [left, most] = [left, Affine::size(self.chunk.clone())].map(|a| self.maker.define(body, Op::Affine(a)));
        let length = self.maker.define(body, Op::Binary(BinaryOp::Min, left, most));
        let element = self.maker.index("element");
        let number = Subscript::Affine(first.add(&Affine::index(element)));
        let elements = self.element_of(each, number, others, places);
        let dims = vec![(element, Extent::Value(length))];
        body.push(Statement::Loop(Loop { dims, kind: LoopKind::Serial, body: elements }));
    }

    /// The body of the keyed loop for the element of a number. It scatters to `places`.
    fn element(&mut self, number: Subscript, places: &[Place]) -> Block {
        self.element_of(&self.inner.body, number, &[], places)
    }

    /// The same with another body, where the given indices are others.
    fn element_of(
        &mut self,
        body: &Block,
        number: Subscript,
        others: &[(IndexId, IndexId)],
        places: &[Place],
    ) -> Block {
        let mut out = vec![];
        let mut at = vec![];
        if let [_] = self.lengths[..] {
            at.push(number);
        } else {
            let mut rest = self.maker.value(&mut out, &number);
            for length in self.lengths.clone().into_iter().skip(1).rev() {
                let length = self.maker.define(&mut out, Op::Affine(Affine::size(length)));
                at.push(Subscript::Value(self.maker.define(&mut out, Op::Binary(BinaryOp::Rem, rest, length))));
                rest = self.maker.define(&mut out, Op::Binary(BinaryOp::Div, rest, length));
            }
            at.push(Subscript::Value(rest));
            at.reverse();
        }
        let from = self.maker.kernel.clone();
        let mut copier = Copier::new(self.maker.program, &from, self.maker.kernel);
        for ((index, _), at) in self.inner.dims.iter().zip(at) {
            copier.map_index(*index, at);
        }
        for (index, other) in others {
            copier.map_index(*index, Subscript::index(*other));
        }
        copier.copy(body, &mut out);
        self.redirect(&mut out, places);
        out
    }

    /// Lets a block scatter to these places of the tables.
    fn redirect(&self, block: &mut Block, places: &[Place]) {
        for statement in block {
            if let Statement::Scatter { buffer, at, .. } = statement
                && let Some((table, place)) = self.tables.iter().zip(places).find(|(table, _)| table.whole == *buffer)
            {
                (*buffer, *at) = (place.buffer, place.at(&at[table.row.len()..]));
            }
            statement.blocks_mut().for_each(|inner| self.redirect(inner, places));
        }
    }

    /// A loop that stores the identity in every element at a place, for each setting of `dims`.
    fn clear(&mut self, table: &Table, place: &Place, mut dims: Vec<(IndexId, Extent)>) -> Statement {
        let axes = self.maker.axes(&table.shape);
        let mut body = vec![];
        let identity = table.monoid.identity(self.maker.program.buffers[place.buffer].dtype);
        let value = self.maker.define(&mut body, Op::Constant(identity));
        body.push(Statement::Store { buffer: place.buffer, at: place.at(&subscripts(&axes)), value });
        dims.extend(axes);
        Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body })
    }

    /// A loop over a part of a table of this shape. Each element is the result of those in the
    /// tables of some chunks, which `from` has one after another.
    fn combine(&mut self, table: &Table, from: BufferId, chunks: Extent, shape: &[Size], to: &Place) -> Loop {
        let dims = self.maker.axes(shape);
        let at = subscripts(&dims);
        let result = self.maker.kernel.values.push(self.maker.program.buffers[table.whole].dtype);
        let reduce = self.reduce(table, (from, chunks), at.clone(), result);
        let store = Statement::Store { buffer: to.buffer, at: to.at(&at), value: result };
        Loop { dims, kind: LoopKind::Parallel, body: vec![reduce, store] }
    }

    /// A loop that reduces the elements at a place in the tables of some chunks.
    fn reduce(
        &mut self,
        table: &Table,
        (from, chunks): (BufferId, Extent),
        at: Vec<Subscript>,
        result: ValueId,
    ) -> Statement {
        let chunk = self.maker.index("chunk");
        self.joins.push(chunk);
        let mut body = vec![];
        let one = Op::Load { buffer: from, view: None, at: [vec![Subscript::index(chunk)], at].concat() };
        let value = self.maker.define(&mut body, one);
        let dtype = self.maker.kernel.values[value];
        let order = if table.monoid.depends_on_order(dtype) { Order::Blocks } else { Order::Free };
        let kind = LoopKind::Reduce(vec![Reduction::monoid(result, table.monoid, order, value)]);
        Statement::Loop(Loop { dims: vec![(chunk, chunks)], kind, body })
    }

    /// A loop behind the reduction, with the statements `between` the two. The elements of tables
    /// that are read once are combined there, from those of all chunks, of which there are `count`.
    fn behind(&mut self, l: &Loop, between: &[Statement], read_once: &BTreeSet<BufferId>, count: &Size) -> Loop {
        let used = Vec::from_iter(visit::free_values(&l.body));
        let mut body = needed(&[self.before, between].concat(), |_| false, &used, &[]);
        let mut work = l.body.clone();
        let tables = self.tables;
        replace(&mut work, &mut |statement, out| {
            if let Statement::Let { value, op: Op::Load { buffer, at, .. } } = &statement
                && let Some(table) = tables.iter().find(|t| t.whole == *buffer && read_once.contains(buffer))
            {
                out.push(self.reduce(table, (table.chunks, Extent::size(count.clone())), at.clone(), *value));
                let stored = self.maker.program.buffers[*buffer].role != Role::Scratch;
                if stored && !sabotage::on(Bug::BehindStored) {
                    out.push(Statement::Store { buffer: *buffer, at: at.clone(), value: *value });
                }
            } else {
                out.push(statement);
            }
        });
        body.append(&mut work);
        Loop { dims: [self.outer, &l.dims].concat(), kind: LoopKind::Parallel, body }
    }
}

fn holds_loop(statement: &Statement) -> bool {
    statement.repeats() || statement.blocks().flatten().any(holds_loop)
}
