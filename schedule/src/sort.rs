//! Sorts as loops that every target runs. First, the elements become keys: unsigned integers in the
//! same order.
//!
//! ```text
//! sort i < n {                       parallel i < n { store keys[i], key of v }
//!   p = place v
//!   store %y[p], v
//! }
//! ```
//!
//! In a short row, an element's place is the number of keys before its own.
//!
//! ```text
//! parallel i < n {
//!   p = reduce j < n { keys[j] < keys[i] || keys[j] == keys[i] && j < i } with sum
//!   store %y[p], element of keys[i]
//! }
//! ```
//!
//! Other rows are sorted by radix, from the lowest digit of the keys to the highest (Knuth, The Art
//! of Computer Programming, volume 3, section 5.2.5). One of middle length is sorted in a single
//! iteration, with its tables in scratch; a long one in chunks:
//!
//! ```text
//! for each digit:
//!   parallel chunk { serial e { scatter table[digit], sum 1 }; counts[d, chunk] = table[d] }
//!   scan d, chunk { places[d, chunk] = the sum of the counts before this one }
//!   parallel chunk { table[d] = places[d, chunk]; serial e { store the key at its place } }
//! ```
//!
//! The last pass stores what the sort stores. It decodes an element from its key; for anything else
//! that an iteration stores, the passes carry its number along. If the program reads only a few
//! places of the result, the others are not sorted (`select`). The length decides when the program
//! runs: the loops of the other ways then have no iterations.

mod radix;
pub mod select;

use ir::nest::{
    Block, BufferId, Extent, IndexId, Kernel, Loop, LoopKind, Op, Program, Reduction, Role, Rows, Statement, Subscript,
    ValueId,
};
use ir::rewrite::Copier;
use ir::sabotage::{self, Bug};
use ir::sched::Machine;
use ir::{Affine, BinaryOp, CompareOp, Dtype, Monoid, Order, Scalar, Size, UnaryOp, visit};

use crate::maker::{Expanded, Maker, below, needed, subscripts};
use radix::{Passes, Radix};
use select::Reads;

/// Rows of at least this length are long: comparing all pairs would take longer than counting
/// digits.
const LONG: i64 = 256;

/// The loops in place of a statement that is a sort, or a parallel loop around one. `None` for any
/// other.
pub fn expand(
    program: &mut Program,
    machine: &Machine,
    kernel: &mut Kernel,
    statement: &Statement,
    reads: &Reads,
) -> Option<Expanded> {
    let Rows { outer, before, inner, .. } = Rows::of(statement)?;
    let [(index, extent)] = &inner.dims[..] else { return None };
    let length = extent.as_size()?.clone();
    let (place, by) = visit::places(&inner.body).next()?;
    let key = Key::of(kernel.values[by])?;
    let rows = outer.iter().map(|(_, extent)| extent.as_size().cloned()).collect::<Option<Vec<_>>>()?;
    let name = visit::stores(&inner.body).first().map(|buffer| program.buffers[*buffer].name.clone())?;
    let stored = needed(&inner.body, |s| matches!(s, Statement::Store { .. }), &[], &[by, place]);
    let mentions = visit::free_indices(&stored).contains(index);
    // One of the four is 1, the others are 0.
    let short = below(&length, LONG);
    let alone = alone(machine.radix, &rows, &length);
    let middle = &alone - &short;
    let wanted = reads.wanted(&stored, place);
    let selects = wanted.as_ref().map_or(Size::constant(0), |wanted| select::pays(wanted, &length));
    let long = &(&Size::constant(1) - &alone) - &selects;
    // The first loop makes all checks. After one that fails, the others still sort the keys, so
    // that no two elements have the same place.
    let again = needed(before, |_| false, &Vec::from_iter(visit::free_values(&stored)), &[]);
    let result = Stored { before: &again, statements: &stored, by, place, index: *index };
    let chunk = machine.radix.chunk(&length);
    let mut sort = Sort { maker: Maker { program, kernel }, outer: outer.to_vec(), rows, name, key, length, chunk };
    let keys = sort.buffer("keys", key.word, std::slice::from_ref(&sort.length.clone()));
    let mut loops = vec![sort.encode(before, inner, by, keys)];
    if !short.is_zero() {
        loops.push(sort.compare(&result, keys, &short));
    }
    let by_radix = &sort.length * &(&(&middle + &long) + &selects);
    if !by_radix.is_zero() {
        let radix = Radix::new(&mut sort, keys, mentions, &by_radix);
        if !middle.is_zero() {
            loops.push(radix.rows(&mut sort, &result, &middle));
        }
        if !long.is_zero() {
            let all = Passes { when: &long, digits: key.digits(), only: None, last: Some(&result) };
            loops.extend(radix.passes(&mut sort, &all));
        }
        if let Some(wanted) = wanted.filter(|_| !selects.is_zero()) {
            let (selected, select) = select::select(&mut sort, &radix, &wanted, &selects);
            loops.extend(select);
            let only = Some(&selected);
            let some = Passes { when: &selects, digits: key.digits(), only, last: Some(&result) };
            loops.extend(radix.passes(&mut sort, &some));
        }
    }
    Some(Expanded { loops, joins: vec![] })
}

/// 1 if a row is sorted in a single iteration, else 0.
fn alone(radix: ir::sched::Radix, rows: &[Size], length: &Size) -> Size {
    let short = below(length, radix.row);
    let Some((row, few)) = radix.few else { return short };
    let rows = rows.iter().fold(Size::constant(1), |product, n| &product * n);
    &short - &(&(&short - &below(length, row)) * &below(&rows, few))
}

/// A row of elements that are sorted by bins.
pub(crate) struct Row<'a> {
    /// The loops around it.
    pub outer: &'a [(IndexId, Extent)],
    /// The name of what is computed by way of it.
    pub name: String,
    /// Its length.
    pub length: Size,
}

/// A row sorted by bins.
pub(crate) struct Binned {
    /// The bins in order.
    pub bins: BufferId,
    /// The numbers of their elements.
    pub numbers: BufferId,
    /// The loops that sort them.
    pub passes: Vec<Loop>,
}

/// Sorts elements by the numbers of their bins, which have 16 bits, if `when` is 1.
pub(crate) fn bins(maker: Maker<'_>, radix: ir::sched::Radix, row: Row<'_>, bins: BufferId, when: &Size) -> Binned {
    let Row { outer, name, length } = row;
    let rows = outer.iter().filter_map(|(_, extent)| extent.as_size().cloned()).collect();
    let (chunk, elements) = (radix.chunk(&length), &length * when);
    let key = Key { element: Dtype::U32, word: Dtype::U32 };
    let mut sort = Sort { maker, outer: outer.to_vec(), rows, name, key, length, chunk };
    let elements = std::slice::from_ref(&elements);
    let numbers = [0, 1].map(|_| sort.buffer("numbers", Dtype::I64, elements));
    let radix = Radix { keys: [bins, sort.buffer("bins", Dtype::U32, elements)], numbers: Some(numbers) };
    // After two passes they are where they began.
    let passes = radix.passes(&mut sort, &Passes { when, digits: 16 / radix::BITS, only: None, last: None });
    Binned { bins, numbers: numbers[0], passes }
}

/// How elements become keys.
#[derive(Clone, Copy)]
struct Key {
    element: Dtype,
    /// The unsigned integers of the same width.
    word: Dtype,
}

impl Key {
    fn of(element: Dtype) -> Option<Key> {
        let word = match element {
            Dtype::F32 | Dtype::I32 | Dtype::U32 => Dtype::U32,
            Dtype::F64 | Dtype::I64 | Dtype::U64 => Dtype::U64,
            Dtype::Bool | Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::Bf16 => return None,
        };
        Some(Key { element, word })
    }

    fn constant(self, value: u64) -> Op {
        Op::Constant(if self.word == Dtype::U32 { Scalar::U32(value as u32) } else { Scalar::U64(value) })
    }

    /// The digits of a key.
    fn digits(self) -> usize {
        self.word.bytes() * 8 / radix::BITS
    }

    /// The highest bit.
    fn top(self) -> u64 {
        1 << (self.word.bytes() * 8 - 1)
    }
}

/// The values that the sort stores, and how they are computed.
struct Stored<'a> {
    /// The statements before the sort that the others need.
    before: &'a [Statement],
    /// The statements that compute and store it from the element and its place.
    statements: &'a Block,
    by: ValueId,
    place: ValueId,
    index: IndexId,
}

/// A sort on its way to other loops.
struct Sort<'a> {
    maker: Maker<'a>,
    outer: Vec<(IndexId, Extent)>,
    /// The extents of `outer`.
    rows: Vec<Size>,
    /// The name of what it stores first.
    name: String,
    key: Key,
    /// The length of a row.
    length: Size,
    /// The elements of a chunk of a row.
    chunk: Size,
}

impl Sort<'_> {
    /// Stores the keys.
    fn encode(&mut self, before: &[Statement], inner: &Loop, by: ValueId, keys: BufferId) -> Loop {
        let mut body = before.to_vec();
        body.extend(needed(&inner.body, Statement::may_fault, &[by], &[]));
        let element = self.key.element;
        let top = self.maker.define(&mut body, self.key.constant(self.key.top()));
        let key = if element.is_float() {
            let bits = self.maker.define(&mut body, Op::Bitcast(self.key.word, by));
            let negative = self.maker.define(&mut body, Op::Compare(CompareOp::Ge, bits, top));
            let below = self.maker.define(&mut body, Op::Unary(UnaryOp::Not, bits));
            let above = self.maker.define(&mut body, Op::Binary(BinaryOp::Or, bits, top));
            let number = self.maker.define(&mut body, Op::Select(negative, below, above));
            let is_nan = self.maker.define(&mut body, Op::Compare(CompareOp::Ne, by, by));
            let last = self.maker.define(&mut body, self.key.constant(u64::MAX));
            self.maker.define(&mut body, Op::Select(is_nan, last, number))
        } else if element.is_signed_int() {
            let bits = self.maker.define(&mut body, Op::Bitcast(self.key.word, by));
            self.maker.define(&mut body, Op::Binary(BinaryOp::Xor, bits, top))
        } else {
            by
        };
        let at = self.row(&[Subscript::index(inner.dims[0].0)]);
        body.push(Statement::Store { buffer: keys, at, value: key });
        let dims = [&self.outer[..], &inner.dims].concat();
        Loop { dims, kind: LoopKind::Parallel, body }
    }

    /// The element of a key.
    fn decode(&mut self, body: &mut Block, key: ValueId) -> ValueId {
        let element = self.key.element;
        if element == self.key.word {
            return key;
        }
        let top = self.maker.define(body, self.key.constant(self.key.top()));
        let above = self.maker.define(body, Op::Binary(BinaryOp::Xor, key, top));
        if element.is_int() {
            return self.maker.define(body, Op::Bitcast(element, above));
        }
        let positive = self.maker.define(body, Op::Compare(CompareOp::Ge, key, top));
        let below = self.maker.define(body, Op::Unary(UnaryOp::Not, key));
        let bits = self.maker.define(body, Op::Select(positive, above, below));
        let number = self.maker.define(body, Op::Bitcast(element, bits));
        let nan = self.maker.define(body, Op::Constant(nan(element)));
        let last = self.maker.define(body, self.key.constant(u64::MAX));
        let is_nan = self.maker.define(body, Op::Compare(CompareOp::Eq, key, last));
        self.maker.define(body, Op::Select(is_nan, nan, number))
    }

    /// Finds the places in a short row by comparing all pairs.
    fn compare(&mut self, result: &Stored<'_>, keys: BufferId, short: &Size) -> Loop {
        let [element, other] = [self.maker.index("element"), self.maker.index("other")];
        let mut body = result.before.to_vec();
        let key = self.load(&mut body, keys, &[Subscript::index(element)]);
        let mut each = vec![];
        let before = self.load(&mut each, keys, &[Subscript::index(other)]);
        let less = self.maker.define(&mut each, Op::Compare(CompareOp::Lt, before, key));
        let equal = self.maker.define(&mut each, Op::Compare(CompareOp::Eq, before, key));
        let [own, others] = [element, other].map(|i| self.maker.define(&mut each, Op::Affine(Affine::index(i))));
        let stable = if sabotage::on(Bug::EqualPlaces) { CompareOp::Gt } else { CompareOp::Lt };
        let earlier = self.maker.define(&mut each, Op::Compare(stable, others, own));
        let tie = self.maker.define(&mut each, Op::Binary(BinaryOp::And, equal, earlier));
        let counts = self.maker.define(&mut each, Op::Binary(BinaryOp::Or, less, tie));
        let [zero, one] = [0, 1].map(|n| self.maker.define(&mut each, Op::Constant(Scalar::I32(n))));
        let counted = self.maker.define(&mut each, Op::Select(counts, one, zero));
        let count = self.maker.kernel.values.push(Dtype::I32);
        let reduction = Reduction::monoid(count, Monoid::Sum, Order::Free, counted);
        let dims = vec![(other, Extent::size(self.length.clone()))];
        body.push(Statement::Loop(Loop { dims, kind: LoopKind::Reduce(vec![reduction]), body: each }));
        let place = self.maker.define(&mut body, Op::Cast(Dtype::I64, count));
        self.store(&mut body, result, key, place, Subscript::index(element));
        let dims = [self.outer.clone(), vec![(element, Extent::size(&self.length * short))]].concat();
        Loop { dims, kind: LoopKind::Parallel, body }
    }

    /// Stores what the sort stores for an element: its key, its place and its number are known.
    fn store(&mut self, body: &mut Block, result: &Stored<'_>, key: ValueId, place: ValueId, number: Subscript) {
        let by = match visit::free_values(result.statements).contains(&result.by) {
            true => self.decode(body, key),
            false => key,
        };
        let from = self.maker.kernel.clone();
        let mut copier = Copier::new(self.maker.program, &from, self.maker.kernel);
        copier.map_value(result.by, by);
        copier.map_value(result.place, place);
        copier.map_index(result.index, number);
        copier.copy(result.statements, body);
    }

    /// A parallel loop over the chunks of each row.
    fn over_chunks(&self, chunk: IndexId, chunks: Size, body: Block) -> Loop {
        let dims = [vec![(chunk, Extent::size(chunks))], self.outer.clone()].concat();
        Loop { dims, kind: LoopKind::Parallel, body }
    }

    /// The subscripts of an element of the row.
    fn row(&self, at: &[Subscript]) -> Vec<Subscript> {
        [&subscripts(&self.outer), at].concat()
    }

    /// A temporary that has such an array for each row.
    fn buffer(&mut self, part: &str, dtype: Dtype, inner: &[Size]) -> BufferId {
        self.maker.buffer(&self.name, part, dtype, [&self.rows, inner].concat(), Role::Temp)
    }

    /// A parallel loop over the rows, if `when` is 1.
    fn over_rows(&mut self, when: &Size, body: Block) -> Loop {
        let dims = [vec![(self.maker.index("whole"), Extent::size(when.clone()))], self.outer.clone()].concat();
        Loop { dims, kind: LoopKind::Parallel, body }
    }

    /// Stores an element of a buffer that has an array for each row.
    fn stored(&self, buffer: BufferId, at: &[Subscript], value: ValueId) -> Statement {
        Statement::Store { buffer, at: self.row(at), value }
    }

    fn load(&mut self, body: &mut Block, buffer: BufferId, at: &[Subscript]) -> ValueId {
        let at = self.row(at);
        self.maker.define(body, Op::Load { buffer, view: None, at })
    }
}

/// The NaN that is stored for any.
fn nan(dtype: Dtype) -> Scalar {
    if dtype == Dtype::F64 { Scalar::F64(f64::NAN) } else { Scalar::F32(f32::NAN) }
}
