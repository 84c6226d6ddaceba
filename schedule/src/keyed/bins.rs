//! Chunks with large tables by *bins*, which are ranges of keys: the elements of each chunk are put
//! in order by bin, as one pass of a sort by radix does it, and each bin then merges its own into
//! its part of the chunk's table. The elements of a key stay in order.
//!
//! ```text
//! parallel chunk, part { serial e { scatter table[bin], sum 1 }; counts[chunk, bin, part] = table[bin] }
//! scan chunk, bin, part { places[chunk, bin, part] = the sum of the counts before this one }
//! parallel chunk, part {
//!   table[bin] = places[chunk, bin, part]
//!   serial e { numbers[table[bin]] = e; scatter table[bin], sum 1 }
//! }
//! parallel chunk, bin {
//!   parallel k in bin { store %y.chunks[chunk, k], 0 }
//!   serial e of bin { scatter %y.chunks[chunk, key], add v }
//! }
//! ```

use ir::nest::{
    Block, BufferId, Extent, IndexId, Input, Loop, LoopKind, Merge, Op, Prefix, Program, Role, Statement, Subscript,
};
use ir::order::KEYED_CHUNK;
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, Dtype, Monoid, Scalar, Size, visit};

use super::{Expansion, Place};
use crate::maker::{Maker, below, needed, subscripts};

/// The most bins of a chunk.
const BINS: i64 = 256;
/// The elements of a part: the counts of its bins are few in comparison. It divides a chunk.
const PART: i64 = 1 << 14;
/// The least number of keys for which chunks are taken by bins. Fewer keys have enough chunks, and
/// tables that caches hold.
const LEAST: i64 = 1 << 14;
/// The numbers of elements in a chunk are stored in 32 bits, and a chunk has at most eight times as
/// many elements as keys.
const MOST: i64 = 1 << 29;

/// 1 for a number of keys with which bins pay off, else 0.
pub(super) fn pay(keys: &Size) -> Size {
    &below(keys, MOST) - &below(keys, LEAST)
}

/// The first subscript within the tables of a keyed loop, if it is the same in all of them, and a
/// block without branches merges into all.
pub(super) fn key(program: &Program, l: &Loop, row: usize) -> Option<Subscript> {
    let block = innermost(&l.body)?;
    let (mut keys, mut lengths, mut inner, mut faults) = (vec![], vec![], vec![], false);
    visit::for_each_statement(&l.body, &mut |s| {
        faults |= s.may_fault();
        if let Statement::Scatter { buffer, at, .. } = s {
            keys.push(at.get(row));
            lengths.push(program.buffers[*buffer].shape.get(row));
        }
    });
    for statement in block.iter().filter(|s| scatters(s)) {
        visit::for_each_definition(statement, &mut |value| inner.push(value));
    }
    let key = (*keys.first()?)?;
    let known = match key {
        Subscript::Value(value) => !inner.contains(value),
        Subscript::Affine(at) => at.terms().iter().all(|(index, _)| !visit::bound_indices(block).contains(index)),
    };
    let same = keys.iter().all(|other| *other == Some(key)) && lengths.windows(2).all(|two| two[0] == two[1]);
    (known && same && !faults).then(|| key.clone())
}

/// Whether a statement merges into a table.
fn scatters(statement: &Statement) -> bool {
    matches!(statement, Statement::Scatter { .. }) || statement.blocks().flatten().any(scatters)
}

/// The block within which all merges are, none of them in a branch.
fn innermost(block: &Block) -> Option<&Block> {
    let mut with = block.iter().filter(|s| scatters(s));
    if let (Some(Statement::If { then, otherwise, .. }), None) = (with.next(), with.next()) {
        let mut branches = [then, otherwise].into_iter().filter(|branch| branch.iter().any(scatters));
        return branches.next().filter(|_| branches.next().is_none()).and_then(innermost);
    }
    (!block.iter().any(branches)).then_some(block)
}

/// Whether a statement merges into a table in a branch.
fn branches(statement: &Statement) -> bool {
    let branch = matches!(statement, Statement::If { .. }) && scatters(statement);
    branch || statement.blocks().flatten().any(branches)
}

/// The block with `merge` in place of what merges into tables, and what that needs.
fn with_merge(block: Block, merge: &Block) -> Block {
    let first = block.iter().position(scatters);
    let mut out = vec![];
    for (at, mut statement) in block.into_iter().enumerate() {
        if !scatters(&statement) {
            out.push(statement);
        } else if let Statement::If { then, otherwise, .. } = &mut statement {
            for branch in [then, otherwise].into_iter().filter(|branch| branch.iter().any(scatters)) {
                *branch = with_merge(std::mem::take(branch), merge);
            }
            out.push(statement);
        } else if Some(at) == first {
            out.extend_from_slice(merge);
        }
    }
    let acts = |s: &Statement| scatters(s) || matches!(s, Statement::Store { .. });
    needed(&out, acts, &[], &[])
}

/// The arrays that put elements in order.
struct Bins {
    /// 1 if chunks are taken by bins, else 0.
    when: Size,
    /// How many keys of the tables' first axis a bin has.
    width: Size,
    /// The parts of a chunk.
    parts: Size,
    /// How many elements each part of each chunk has in each bin, and the elements before these.
    counts: BufferId,
    places: BufferId,
    /// The numbers of the elements of each chunk, by bin.
    numbers: BufferId,
}

impl Bins {
    /// The place of a count: by chunk, bin and part.
    fn at(&self, chunk: IndexId, bin: Affine<IndexId>, part: Affine<IndexId>) -> Subscript {
        let of_chunk = Affine::index(chunk).scale(&Size::constant(BINS)).add(&bin);
        Subscript::Affine(of_chunk.scale(&self.parts).add(&part))
    }
}

impl Expansion<'_> {
    /// The loops that merge the elements of all chunks into the tables of these, if `when` is 1.
    pub(super) fn bins(&mut self, when: &Size) -> Vec<Loop> {
        let parts = self.chunk.floor_div(&Size::constant(PART));
        let all = &(&self.count * when) * &(&Size::constant(BINS) * &parts);
        // A power of two, as chunks are.
        let width = Size::keyed_chunk(&self.tables[0].shape[0]).floor_div(&Size::constant(KEYED_CHUNK / 4));
        let [counts, places] = ["counts", "places"].map(|part| self.buffer(part, Dtype::I64, all.clone()));
        let numbers = self.buffer("numbers", Dtype::U32, &self.elements * when);
        let bins = Bins { when: when.clone(), width, parts, counts, places, numbers };
        vec![self.count_bins(&bins), self.add_up(&bins, all), self.distribute(&bins), self.merge_bins(&bins)]
    }

    /// A temporary that has such an array for each iteration around the loop.
    fn buffer(&mut self, part: &str, dtype: Dtype, length: Size) -> BufferId {
        let rows = self.outer.iter().filter_map(|(_, extent)| extent.as_size().cloned());
        let shape = rows.chain([length]).collect();
        let name = self.maker.program.buffers[self.tables[0].whole].name.clone();
        self.maker.buffer(&name, part, dtype, shape, Role::Temp)
    }

    /// The subscripts of an element of such an array.
    fn row(&self, at: Subscript) -> Vec<Subscript> {
        [subscripts(self.outer), vec![at]].concat()
    }

    /// A loop over the parts of all chunks.
    fn over_parts(&mut self, bins: &Bins, make: impl FnOnce(&mut Self, &mut Block, IndexId, IndexId)) -> Loop {
        let [chunk, part] = [self.maker.index("chunk"), self.maker.index("part")];
        let mut body = self.before.to_vec();
        make(self, &mut body, chunk, part);
        let mut dims = vec![(chunk, Extent::size(&self.count * &bins.when)), (part, Extent::size(bins.parts.clone()))];
        dims.extend_from_slice(self.outer);
        Loop { dims, kind: LoopKind::Parallel, body }
    }

    /// Counts the elements of each part in each bin.
    fn count_bins(&mut self, bins: &Bins) -> Loop {
        self.over_parts(bins, |this, body, chunk, part| {
            let table = this.table();
            body.push(this.each_bin(|maker, body, bin| {
                let value = maker.define(body, Op::Constant(Scalar::I64(0)));
                Statement::Store { buffer: table, at: vec![Subscript::index(bin)], value }
            }));
            this.by_bin(bins, chunk, part, table, false, body);
            let outer = subscripts(this.outer);
            body.push(this.each_bin(|maker, body, bin| {
                let load = Op::Load { buffer: table, view: None, at: vec![Subscript::index(bin)] };
                let value = maker.define(body, load);
                let at = bins.at(chunk, Affine::index(bin), Affine::index(part));
                Statement::Store { buffer: bins.counts, at: [outer, vec![at]].concat(), value }
            }));
        })
    }

    /// The elements in front of those that each part has in each bin.
    fn add_up(&mut self, bins: &Bins, all: Size) -> Loop {
        let (index, mut body) = (self.maker.index("count"), vec![]);
        let at = self.row(Subscript::index(index));
        let number = self.maker.define(&mut body, Op::Load { buffer: bins.counts, view: None, at: at.clone() });
        let prefix = Prefix { merge: Merge::Monoid(Monoid::Sum), inputs: vec![Input::Value(number)], field: 0 };
        let through = self.maker.define(&mut body, Op::Prefix(prefix));
        let value = self.maker.define(&mut body, Op::Binary(BinaryOp::Sub, through, number));
        body.push(Statement::Store { buffer: bins.places, at, value });
        let scan = Loop { dims: vec![(index, Extent::size(all))], kind: LoopKind::Scan, body };
        match self.outer {
            [] => scan,
            outer => Loop { dims: outer.to_vec(), kind: LoopKind::Parallel, body: vec![Statement::Loop(scan)] },
        }
    }

    /// Stores the numbers of the elements of each chunk by bin.
    fn distribute(&mut self, bins: &Bins) -> Loop {
        self.over_parts(bins, |this, body, chunk, part| {
            let table = this.table();
            let outer = subscripts(this.outer);
            body.push(this.each_bin(|maker, body, bin| {
                let at = bins.at(chunk, Affine::index(bin), Affine::index(part));
                let at = [outer, vec![at]].concat();
                let value = maker.define(body, Op::Load { buffer: bins.places, view: None, at });
                Statement::Store { buffer: table, at: vec![Subscript::index(bin)], value }
            }));
            this.by_bin(bins, chunk, part, table, true, body);
        })
    }

    /// Merges the elements of each bin into its part of the table of its chunk.
    fn merge_bins(&mut self, bins: &Bins) -> Loop {
        let [chunk, bin] = [self.maker.index("chunk"), self.maker.index("bin")];
        let mut body = self.before.to_vec();
        let places: Vec<Place> = self.tables.iter().map(|table| table.place(chunk)).collect();
        let first = Affine::index(bin).scale(&bins.width);
        for (table, place) in self.tables.iter().zip(&places) {
            let [length, rest @ ..] = &table.shape[..] else { continue };
            let left = Affine::size(length.clone()).sub(&first);
            let [left, most] =
                [left, Affine::size(bins.width.clone())].map(|a| self.maker.define(&mut body, Op::Affine(a)));
            let length = self.maker.define(&mut body, Op::Binary(BinaryOp::Min, left, most));
            let key = self.maker.index("key");
            let axes = self.maker.axes(rest);
            let at = [vec![Subscript::Affine(first.add(&Affine::index(key)))], subscripts(&axes)].concat();
            let dims = [vec![(key, Extent::Value(length))], axes].concat();
            let mut each = vec![];
            let identity = table.monoid.identity(self.maker.program.buffers[place.buffer].dtype);
            let value = self.maker.define(&mut each, Op::Constant(identity));
            each.push(Statement::Store { buffer: place.buffer, at: place.at(&at), value });
            body.push(Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body: each }));
        }
        let last = Affine::size(&bins.parts - &Size::constant(1));
        let begin = self.row(bins.at(chunk, Affine::index(bin), Affine::constant(0)));
        let end = self.row(bins.at(chunk, Affine::index(bin), last));
        let mut load =
            |buffer, at: &Vec<Subscript>| self.maker.define(&mut body, Op::Load { buffer, view: None, at: at.clone() });
        let [begin, end, more] = [load(bins.places, &begin), load(bins.places, &end), load(bins.counts, &end)];
        let end = self.maker.define(&mut body, Op::Binary(BinaryOp::Add, end, more));
        let mut length = self.maker.define(&mut body, Op::Binary(BinaryOp::Sub, end, begin));
        if sabotage::on(Bug::BinEnd) {
            let one = self.maker.define(&mut body, Op::Constant(Scalar::I64(1)));
            length = self.maker.define(&mut body, Op::Binary(BinaryOp::Sub, length, one));
        }
        let (element, mut each) = (self.maker.index("element"), vec![]);
        let at = self.maker.define(&mut each, Op::Affine(Affine::index(element)));
        let at = self.maker.define(&mut each, Op::Binary(BinaryOp::Add, begin, at));
        let at = self.row(Subscript::Value(at));
        let number = self.maker.define(&mut each, Op::Load { buffer: bins.numbers, view: None, at });
        let number = self.maker.define(&mut each, Op::Cast(Dtype::I64, number));
        let from = self.maker.define(&mut each, Op::Affine(Affine::index(chunk).scale(&self.chunk)));
        let number = self.maker.define(&mut each, Op::Binary(BinaryOp::Add, from, number));
        each.extend(self.element(Subscript::Value(number), &places));
        let dims = vec![(element, Extent::Value(length))];
        body.push(Statement::Loop(Loop { dims, kind: LoopKind::Serial, body: each }));
        let mut dims = vec![(chunk, Extent::size(&self.count * &bins.when)), (bin, Extent::size(Size::constant(BINS)))];
        dims.extend_from_slice(self.outer);
        Loop { dims, kind: LoopKind::Parallel, body }
    }

    /// Appends a loop over the elements of a part, in order. Each merges 1 into that of its bin in
    /// a table, after it has stored its number there, if `stores`.
    fn by_bin(&mut self, bins: &Bins, chunk: IndexId, part: IndexId, table: BufferId, stores: bool, body: &mut Block) {
        let in_chunk = Affine::index(part).scale(&Size::constant(PART));
        let first = Affine::index(chunk).scale(&self.chunk).add(&in_chunk);
        let left = Affine::size(self.elements.clone()).sub(&first);
        let [left, most] = [left, Affine::constant(PART)].map(|a| self.maker.define(body, Op::Affine(a)));
        let length = self.maker.define(body, Op::Binary(BinaryOp::Min, left, most));
        let element = self.maker.index("element");
        let places: Vec<Place> = self.tables.iter().map(|table| table.place(chunk)).collect();
        let block = self.element(Subscript::Affine(first.add(&Affine::index(element))), &places);
        // It scatters to the tables of the chunk, where the key follows the leading subscripts.
        let mut key = None;
        visit::for_each_statement(&block, &mut |s| {
            if let Statement::Scatter { at, .. } = s {
                key.get_or_insert(at[places[0].lead.len()].clone());
            }
        });
        let mut merge = vec![];
        let key = key.map(|key| self.maker.value(&mut merge, &key));
        let width = self.maker.define(&mut merge, Op::Affine(Affine::size(bins.width.clone())));
        if let Some(key) = key {
            let bin = self.maker.define(&mut merge, Op::Binary(BinaryOp::Div, key, width));
            let at = vec![Subscript::Value(bin)];
            let load = Op::Load { buffer: table, view: None, at: at.clone() };
            let place = stores.then(|| self.maker.define(&mut merge, load));
            let one = self.maker.define(&mut merge, Op::Constant(Scalar::I64(1)));
            merge.push(Statement::Scatter { buffer: table, at, value: one, monoid: Monoid::Sum });
            if let Some(place) = place {
                let number = self.maker.define(&mut merge, Op::Affine(in_chunk.add(&Affine::index(element))));
                let value = self.maker.define(&mut merge, Op::Cast(Dtype::U32, number));
                merge.push(Statement::Store { buffer: bins.numbers, at: self.row(Subscript::Value(place)), value });
            }
        }
        let dims = vec![(element, Extent::Value(length))];
        body.push(Statement::Loop(Loop { dims, kind: LoopKind::Serial, body: with_merge(block, &merge) }));
    }

    /// A number for each bin, in scratch.
    fn table(&mut self) -> BufferId {
        let name = self.maker.program.buffers[self.tables[0].whole].name.clone();
        self.maker.buffer(&name, "table", Dtype::I64, vec![Size::constant(BINS)], Role::Scratch)
    }

    /// A loop over all bins.
    fn each_bin(&mut self, each: impl FnOnce(&mut Maker<'_>, &mut Block, IndexId) -> Statement) -> Statement {
        let (bin, mut body) = (self.maker.index("bin"), vec![]);
        let last = each(&mut self.maker, &mut body, bin);
        body.push(last);
        let dims = vec![(bin, Extent::size(Size::constant(BINS)))];
        Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body })
    }
}
