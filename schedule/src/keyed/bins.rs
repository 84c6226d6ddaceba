//! Chunks with large tables by *bins*, which are ranges of keys: the elements are sorted by bin,
//! and each bin then merges those of each chunk into its part of the chunk's table. The elements
//! of a key stay in order.
//!
//! ```text
//! parallel e < n { bins[e] = key / width, or the number of bins if it merges nothing }
//! sort the bins, and the numbers of their elements with them
//! parallel p < n {
//!   begins[chunk, bin] = p, if the bin or the chunk in front of p is another one
//!   ends[chunk, bin] = p + 1, if that behind p is
//! }
//! parallel chunk, bin {
//!   serial k in bin { store %y.chunks[chunk, k], 0 }
//!   serial p from begins[chunk, bin] to ends[chunk, bin] { scatter %y.chunks[chunk, key], add v }
//! }
//! ```
//!
//! An iteration of the last loop takes several elements at a time, so that their loads overlap.

use ir::nest::{Block, BufferId, Extent, IndexId, Loop, LoopKind, Op, Program, Role, Statement, Subscript, ValueId};
use ir::sabotage::{self, Bug};
use ir::sched::Radix;
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, visit};

use super::{Expansion, Place, holds_loop};
use crate::maker::{Maker, below, needed, subscripts};
use crate::sort::{self, Binned};

/// Bins have numbers of 16 bits, as have elements without one.
const BINS: i64 = 1 << 16;
/// The least number of keys for which chunks are taken by bins. Fewer keys have enough chunks, and
/// tables that caches hold.
const LEAST: i64 = 1 << 11;
/// Chunks have at most eight times as many elements as keys.
const MOST: i64 = 1 << 29;
/// With this many chunks, or 16 times as many columns of chunks, a GPU has enough to do without
/// bins.
const ENOUGH: i64 = 1 << 7;
/// The elements that are taken at a time.
const AT_ONCE: i64 = 4;

/// 1 if bins pay off for this many keys, chunks and columns, else 0.
pub(super) fn pay(keys: &Size, chunks: &Size, columns: &Size) -> Size {
    let much = chunks + &(chunks * columns).floor_div(&Size::constant(16));
    &(&below(keys, MOST) - &below(keys, LEAST)) * &below(&much, ENOUGH)
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
pub(super) fn scatters(statement: &Statement) -> bool {
    matches!(statement, Statement::Scatter { .. }) || statement.blocks().flatten().any(scatters)
}

/// The block within which all merges are, none of them in a branch.
fn innermost(block: &Block) -> Option<&Block> {
    let mut with = block.iter().filter(|s| scatters(s));
    if let (Some(Statement::If { then, otherwise, results, .. }), None) = (with.next(), with.next())
        && results.is_empty()
    {
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

/// The elements in order.
pub(super) struct Bins {
    /// 1 if chunks are taken by bins, else 0.
    when: Size,
    /// How many keys of the tables' first axis a bin has, and how many bins there are.
    width: Size,
    bins: Size,
    /// The numbers of the elements.
    numbers: BufferId,
    /// Where those of each chunk and bin begin and end.
    begins: BufferId,
    ends: BufferId,
}

/// The elements of a bin.
pub(super) struct InBin<'b> {
    all: &'b Bins,
    chunk: IndexId,
    bin: IndexId,
}

impl Bins {
    /// Indices for the bins of `count` chunks.
    pub(super) fn dims(&self, maker: &mut Maker<'_>, count: &Size) -> (InBin<'_>, [(IndexId, Extent); 2]) {
        let [chunk, bin] = [maker.index("chunk"), maker.index("bin")];
        let dims = [(chunk, Extent::size(count * &self.when)), (bin, Extent::size(self.bins.clone()))];
        (InBin { all: self, chunk, bin }, dims)
    }
}

impl InBin<'_> {
    /// The first key of the bin, and how many keys it has.
    pub(super) fn keys(&self, maker: &mut Maker<'_>, keys: &Size, body: &mut Block) -> (Affine<IndexId>, ValueId) {
        let first = Affine::index(self.bin).scale(&self.all.width);
        let left = Affine::size(keys.clone()).sub(&first);
        let [left, most] =
            [left, Affine::size(self.all.width.clone())].map(|affine| maker.define(body, Op::Affine(affine)));
        (first, maker.define(body, Op::Binary(BinaryOp::Min, left, most)))
    }
}

impl Expansion<'_> {
    /// The loops that put the elements in order, if `when` is 1.
    pub(super) fn bins(&mut self, radix: Radix, when: &Size) -> (Bins, Vec<Loop>) {
        let keys = self.tables[0].shape[0].clone();
        // The least power of two with which there are few enough.
        let width = Size::keyed_chunk(&(&keys + &Size::constant(1))).floor_div(&Size::constant(4 * BINS));
        let width = &width + &below(&width, 1);
        let bins = keys.ceil_div(&width);
        let name = self.maker.program.buffers[self.tables[0].whole].name.clone();
        let length = &self.elements * when;
        let of_elements = self.buffer("bins", Dtype::U32, vec![length]);
        let mut loops = vec![self.find_bins(of_elements, (&width, &bins), when)];
        let maker = Maker { program: &mut *self.maker.program, kernel: &mut *self.maker.kernel };
        let row = sort::Row { outer: self.outer, name, length: self.elements.clone() };
        let Binned { bins: sorted, numbers, passes } = sort::bins(maker, radix, row, of_elements, when);
        loops.extend(passes);
        let shape = vec![&self.count * when, &bins + &Size::constant(1)];
        let [begins, ends] = ["begins", "ends"].map(|part| self.buffer(part, Dtype::I64, shape.clone()));
        let bins = Bins { when: when.clone(), width, bins, numbers, begins, ends };
        loops.extend(self.find_borders(&bins, sorted, &shape));
        (bins, loops)
    }

    /// A temporary that has such an array for each iteration around the loop.
    fn buffer(&mut self, part: &str, dtype: Dtype, inner: Vec<Size>) -> BufferId {
        let rows = self.outer.iter().filter_map(|(_, extent)| extent.as_size().cloned());
        let shape = rows.chain(inner).collect();
        let name = self.maker.program.buffers[self.tables[0].whole].name.clone();
        self.maker.buffer(&name, part, dtype, shape, Role::Temp)
    }

    /// The subscripts of an element of such an array.
    fn row(&self, at: &[Subscript]) -> Vec<Subscript> {
        [&subscripts(self.outer), at].concat()
    }

    fn load(&mut self, body: &mut Block, buffer: BufferId, at: &[Subscript]) -> ValueId {
        let at = self.row(at);
        self.maker.define(body, Op::Load { buffer, view: None, at })
    }

    /// Stores the bin of each element.
    fn find_bins(&mut self, to: BufferId, (width, bins): (&Size, &Size), when: &Size) -> Loop {
        let element = self.maker.index("element");
        let mut body = self.before.to_vec();
        let none = self.maker.define(&mut body, Op::Affine(Affine::size(bins.clone())));
        // It scatters to the tables of any chunk, where the key follows the leading subscripts.
        let places: Vec<Place> = self.tables.iter().map(|table| table.place(element)).collect();
        let block = self.element(Subscript::index(element), &places);
        let bin = self.bin(block, places[0].lead.len(), width, none, &mut body);
        let value = self.maker.define(&mut body, Op::Cast(Dtype::U32, bin));
        let mut body = needed(&body, |_| false, &[value], &[]);
        body.push(Statement::Store { buffer: to, at: self.row(&[Subscript::index(element)]), value });
        let dims = [vec![(element, Extent::size(&self.elements * when))], self.outer.to_vec()].concat();
        Loop { dims, kind: LoopKind::Parallel, body }
    }

    /// Appends a block up to where it merges into tables. Returns the bin of the key there, or
    /// `none` if a condition does not hold.
    fn bin(&mut self, block: Block, axis: usize, width: &Size, none: ValueId, out: &mut Block) -> ValueId {
        for statement in block {
            if !scatters(&statement) {
                out.push(statement);
                continue;
            }
            if let Statement::If { condition, then, otherwise, .. } = statement {
                let mut branch = |block: Block| {
                    let mut inner = vec![];
                    let bin = match block.iter().any(scatters) {
                        true => self.bin(block, axis, width, none, &mut inner),
                        false => none,
                    };
                    (inner, bin)
                };
                let ((then, yes), (otherwise, no)) = (branch(then), branch(otherwise));
                let bin = self.maker.kernel.values.push(Dtype::I64);
                out.push(Statement::If { condition, then, otherwise, results: vec![(bin, yes, no)] });
                return bin;
            }
            let mut key = None;
            visit::for_each_statement(&[statement], &mut |s| {
                if let Statement::Scatter { at, .. } = s {
                    key.get_or_insert(at[axis].clone());
                }
            });
            let Some(key) = key else { continue };
            let key = self.maker.value(out, &key);
            let width = self.maker.define(out, Op::Affine(Affine::size(width.clone())));
            return self.maker.define(out, Op::Binary(BinaryOp::Div, key, width));
        }
        none
    }

    /// Finds where the elements of each chunk and bin begin and end.
    fn find_borders(&mut self, bins: &Bins, sorted: BufferId, shape: &[Size]) -> [Loop; 2] {
        let [chunk, bin] = [self.maker.index("chunk"), self.maker.index("bin")];
        let mut body = vec![];
        let zero = self.maker.define(&mut body, Op::Constant(Scalar::I64(0)));
        let at = self.row(&[chunk, bin].map(Subscript::index));
        for buffer in [bins.begins, bins.ends] {
            body.push(Statement::Store { buffer, at: at.clone(), value: zero });
        }
        let dims = [chunk, bin].into_iter().zip(shape.iter().cloned().map(Extent::size));
        let dims = dims.chain(self.outer.iter().cloned()).collect();
        let clear = Loop { dims, kind: LoopKind::Parallel, body };

        let place = self.maker.index("place");
        let mut body = vec![];
        let here = self.chunk_and_bin(&mut body, bins, sorted, &Affine::index(place));
        let at = self.maker.define(&mut body, Op::Affine(Affine::index(place)));
        let [zero, one] = [0, 1].map(|n| self.maker.define(&mut body, Op::Constant(Scalar::I64(n))));
        let behind = self.maker.define(&mut body, Op::Binary(BinaryOp::Add, at, one));
        let all = self.maker.define(&mut body, Op::Affine(Affine::size(self.elements.clone())));
        for (buffer, value, step, (end, is_end)) in
            [(bins.begins, at, -1, (zero, at)), (bins.ends, behind, 1, (all, behind))]
        {
            let inside = self.maker.define(&mut body, Op::Compare(CompareOp::Ne, is_end, end));
            let mut then = vec![];
            let next = Affine::index(place).add(&Affine::constant(step));
            let next = self.chunk_and_bin(&mut then, bins, sorted, &next);
            let [chunk, bin] =
                [0, 1].map(|n| self.maker.define(&mut then, Op::Compare(CompareOp::Ne, here[n], next[n])));
            let differs = self.maker.define(&mut then, Op::Binary(BinaryOp::Or, chunk, bin));
            let mut otherwise = vec![];
            let yes = self.maker.define(&mut otherwise, Op::Constant(Scalar::Bool(true)));
            let is_border = self.maker.kernel.values.push(Dtype::Bool);
            let results = vec![(is_border, differs, yes)];
            body.push(Statement::If { condition: inside, then, otherwise, results });
            let at = self.row(&here.map(Subscript::Value));
            let store = vec![Statement::Store { buffer, at, value }];
            body.push(Statement::If { condition: is_border, then: store, otherwise: vec![], results: vec![] });
        }
        let dims = [vec![(place, Extent::size(&self.elements * &bins.when))], self.outer.to_vec()].concat();
        [clear, Loop { dims, kind: LoopKind::Parallel, body }]
    }

    /// The chunk and the bin of the element at a place.
    fn chunk_and_bin(
        &mut self,
        body: &mut Block,
        bins: &Bins,
        sorted: BufferId,
        place: &Affine<IndexId>,
    ) -> [ValueId; 2] {
        let at = [Subscript::Affine(place.clone())];
        let number = self.load(body, bins.numbers, &at);
        let chunk = self.maker.define(body, Op::Affine(Affine::size(self.chunk.clone())));
        let chunk = self.maker.define(body, Op::Binary(BinaryOp::Div, number, chunk));
        let bin = self.load(body, sorted, &at);
        [chunk, self.maker.define(body, Op::Cast(Dtype::I64, bin))]
    }

    /// Appends a loop over the elements of a bin, with `each` as the body for one of them.
    pub(super) fn elements_of_bin(
        &mut self,
        each: &Block,
        bin: &InBin<'_>,
        others: &[(IndexId, IndexId)],
        places: &[Place],
        body: &mut Block,
    ) {
        let at = [bin.chunk, bin.bin].map(Subscript::index);
        let [begin, end] = [bin.all.begins, bin.all.ends].map(|buffer| self.load(body, buffer, &at));
        let one = self.maker.define(body, Op::Constant(Scalar::I64(1)));
        let mut length = self.maker.define(body, Op::Binary(BinaryOp::Sub, end, begin));
        if sabotage::on(Bug::BinEnd) {
            length = self.maker.define(body, Op::Binary(BinaryOp::Sub, length, one));
        }
        let last = self.maker.define(body, Op::Binary(BinaryOp::Sub, length, one));
        let at_once = if each.iter().any(holds_loop) { 1 } else { AT_ONCE };
        let more = self.maker.define(body, Op::Constant(Scalar::I64(at_once)));
        let rounds = self.maker.define(body, Op::Binary(BinaryOp::Add, last, more));
        let rounds = self.maker.define(body, Op::Binary(BinaryOp::Div, rounds, more));
        let (round, mut inner) = (self.maker.index("round"), vec![]);
        let (mut numbers, mut valid) = (vec![], vec![]);
        for number in 0..at_once {
            let at = Affine::index(round).scale(&Size::constant(at_once)).add(&Affine::constant(number));
            let at = self.maker.define(&mut inner, Op::Affine(at));
            valid.push(self.maker.define(&mut inner, Op::Compare(CompareOp::Le, at, last)));
            // Past the end, the last one once more.
            let at = self.maker.define(&mut inner, Op::Binary(BinaryOp::Min, at, last));
            let at = self.maker.define(&mut inner, Op::Binary(BinaryOp::Add, begin, at));
            numbers.push(self.load(&mut inner, bin.all.numbers, &[Subscript::Value(at)]));
        }
        let mut merges = vec![];
        let mut values = vec![];
        for (number, valid) in numbers.into_iter().zip(valid) {
            let element = self.element_of(each, Subscript::Value(number), others, places);
            let element = needed(&merging(element), scatters, &[], &[]);
            let (merge, value): (Block, Block) = element.into_iter().partition(scatters);
            values.push(value);
            match at_once {
                1 => merges.extend(merge),
                _ => merges.push(Statement::If { condition: valid, then: merge, otherwise: vec![], results: vec![] }),
            }
        }
        // Statement by statement, so that the loads of all elements are under way at once.
        for at in 0..values[0].len() {
            inner.extend(values.iter().map(|value| value[at].clone()));
        }
        inner.extend(merges);
        let dims = vec![(round, Extent::Value(rounds))];
        body.push(Statement::Loop(Loop { dims, kind: LoopKind::Serial, body: inner }));
    }
}

/// The statements of an element that merges into tables: its conditions hold.
fn merging(block: Block) -> Block {
    let mut out = vec![];
    for statement in block {
        let branch = if let Statement::If { then, otherwise, .. } = &statement {
            [then, otherwise].into_iter().find(|branch| branch.iter().any(scatters))
        } else {
            None
        };
        match branch {
            Some(branch) => out.extend(merging(branch.clone())),
            None => out.push(statement),
        }
    }
    out
}
