//! Selection by radix: where a program reads only a few places of a sorted row, only the elements
//! that may have these places are sorted.
//!
//! ```text
//! parallel chunk { serial e { scatter counts[chunk, digit], sum 1 } }
//! parallel d < 2048 { total[d] = sum of counts[chunk, d] over chunk }
//! scan d < 2048 {
//!   wanted[d] = 1 if a place that is read is among those of the elements with this digit
//!   offset[d] = the number of elements that are left out and have a lower digit
//! }
//! parallel chunk { selected[chunk] = sum of wanted[d] * counts[chunk, d] over d }
//! scan chunk { next[chunk] = selected[0] + ... + selected[chunk - 1] }
//! parallel chunk { serial e { if wanted[digit] == 1 { store the key at next[chunk], one after another } } }
//! ```
//!
//! The digit is made of the highest bits. The passes of a sort then run on the selected keys, and
//! add `offset[digit]` to the places where these end up.

use std::collections::BTreeMap;

use ir::nest::{
    Block, BufferId, Extent, IndexId, Loop, LoopKind, Op, Program, Reduction, Role, Statement, Subscript, ValueId,
    is_length,
};
use ir::sched::Part;
use ir::{Affine, BinaryOp, CompareOp, Dtype, Monoid, Order, Scalar, Size, visit};

use super::Sort;
use super::radix::{Digit, Elements, Radix, Table, before, count};

/// The bits of the digit that elements are selected by.
const BITS: usize = 11;
/// The elements of a chunk: the counts of its digits are few in comparison.
const CHUNK: i64 = 1 << 16;
/// Rows are sorted as a whole unless they are this many times as long as the places that are read.
const FEW: i64 = 8;

/// Consecutive places.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    first: Size,
    length: Size,
}

/// The elements of temporaries that a program reads.
pub struct Reads {
    /// By array and axis; `None` if they are not known.
    places: BTreeMap<(BufferId, usize), Option<Vec<Places>>>,
}

impl Reads {
    /// The reads of all parts of a program.
    pub fn of(program: &Program, parts: &[Part]) -> Reads {
        let mut reads = Reads { places: BTreeMap::new() };
        for (buffer, b) in program.buffers.iter().filter(|(_, b)| b.role == Role::Temp) {
            reads.places.extend((0..b.shape.len()).map(|axis| ((buffer, axis), Some(vec![]))));
        }
        for buffer in program.in_tree() {
            (0..program.buffers[buffer].shape.len()).for_each(|axis| _ = reads.places.insert((buffer, axis), None));
        }
        for kernel in parts.iter().map(|part| &part.kernel) {
            let mut lengths: BTreeMap<IndexId, &Size> = BTreeMap::new();
            visit::for_each_statement(&kernel.body, &mut |s| {
                lengths.extend(s.dims().filter_map(|(index, extent)| Some((*index, extent.as_size()?))));
            });
            visit::for_each_op(&kernel.body, &mut |_, op| {
                let Op::Load { buffer, view, at } = op else { return };
                for axis in 0..program.buffers[*buffer].shape.len() {
                    let Some(known) = reads.places.get_mut(&(*buffer, axis)) else { continue };
                    let one = at.get(axis).filter(|_| view.is_none()).and_then(|s| places(program, s, &lengths));
                    match (known.as_mut(), one) {
                        (Some(known), Some(one)) if !known.contains(&one) => known.push(one),
                        (_, Some(_)) => {}
                        (_, None) => *known = None,
                    }
                }
            });
        }
        reads
    }

    /// The places that a program reads of everything that these statements store at `place`.
    pub fn wanted(&self, stored: &Block, place: ValueId) -> Option<Vec<Places>> {
        let mut wanted: Vec<Places> = vec![];
        let mut known = true;
        visit::for_each_statement(stored, &mut |s| {
            let Statement::Store { buffer, at, .. } = s else { return };
            let axis = at.iter().position(|s| *s == Subscript::Value(place));
            match axis.and_then(|axis| self.places.get(&(*buffer, axis))) {
                Some(Some(places)) => wanted.extend(places.iter().cloned()),
                _ => known = false,
            }
        });
        Some(wanted).filter(|wanted| known && !wanted.is_empty())
    }
}

/// The places that a subscript may be, if they are consecutive.
fn places(program: &Program, at: &Subscript, lengths: &BTreeMap<IndexId, &Size>) -> Option<Places> {
    let Subscript::Affine(affine) = at else { return None };
    let (first, one) = (affine.constant_part(), Size::constant(1));
    match affine.terms() {
        [] => Some(Places { first: first.clone(), length: one }),
        [(index, factor)] => {
            let length = (*lengths.get(index)?).clone();
            if !is_length(&program.symbols, &length) {
                return None;
            }
            match factor.as_constant()? {
                1 => Some(Places { first: first.clone(), length }),
                -1 => Some(Places { first: first - &(&length - &one), length }),
                _ => None,
            }
        }
        _ => None,
    }
}

/// 1 if only the elements at these places are sorted in a row of this length, otherwise 0.
pub(super) fn pays(wanted: &[Places], length: &Size) -> Size {
    let all = wanted.iter().fold(Size::constant(0), |sum, places| &sum + &places.length);
    let one = Size::constant(1);
    let times = length.floor_div(&(&(&all * &Size::constant(FEW)) + &one));
    let few = times.ceil_div(&(&times + &one));
    &few * &(&one - &super::below(length, CHUNK))
}

/// The elements that are sorted in place of all.
pub(super) struct Selected {
    /// Their number.
    pub number: BufferId,
    /// The numbers added to their places, by their highest digits.
    offsets: BufferId,
}

impl Selected {
    /// The place of an element in its row, from that among the selected ones.
    pub fn place(&self, sort: &mut Sort<'_>, body: &mut Block, key: ValueId, place: ValueId) -> ValueId {
        let digit = highest(sort, body);
        let digit = digit.of(sort, body, key);
        let offset = sort.load(body, self.offsets, &[Subscript::Value(digit)]);
        sort.maker.define(body, Op::Binary(BinaryOp::Add, place, offset))
    }
}

/// The highest digit of a key.
fn highest(sort: &mut Sort<'_>, body: &mut Block) -> Digit {
    let shift = sort.key.constant((sort.key.word.bytes() * 8 - BITS) as u64);
    Digit { shift: sort.maker.define(body, shift), bits: BITS }
}

/// The loops that select the elements that may have these places. Their keys go from the first
/// array to the second one. The loops have no iterations if `when` is 0.
pub(super) fn select(sort: &mut Sort<'_>, radix: &Radix, wanted: &[Places], when: &Size) -> (Selected, Vec<Loop>) {
    let [chunks, digits] = [sort.length.ceil_div(&Size::constant(CHUNK)), Size::constant(1 << BITS)].map(|n| &n * when);
    let counts = sort.buffer("counts", Dtype::I64, &[chunks.clone(), digits.clone()]);
    let [totals, taken, offsets] =
        ["totals", "wanted", "offsets"].map(|part| sort.buffer(part, Dtype::I64, std::slice::from_ref(&digits)));
    let [own, next] = ["selected", "next"].map(|part| sort.buffer(part, Dtype::I64, std::slice::from_ref(&chunks)));
    let number = sort.buffer("number", Dtype::I64, &[]);
    let mut loops = vec![];

    let chunk = sort.maker.index("chunk");
    let mut body = vec![];
    let elements = Elements::of_chunk(sort, chunk, &Size::constant(CHUNK), None, &mut body);
    let digit = highest(sort, &mut body);
    let table = Table { buffer: counts, lead: sort.row(&[Subscript::index(chunk)]) };
    body.extend(count(sort, radix.keys[0], digit, &elements, &table));
    loops.push(sort.over_chunks(chunk, chunks.clone(), body));

    let digit = sort.maker.index("digit");
    let at = |chunk: IndexId| [Subscript::index(chunk), Subscript::index(digit)];
    let (mut body, total) = sum(sort, &chunks, |sort, body, chunk| sort.load(body, counts, &at(chunk)));
    body.push(sort.stored(totals, &[Subscript::index(digit)], total));
    let dims = [sort.outer.clone(), vec![(digit, Extent::size(digits.clone()))]].concat();
    loops.push(Loop { dims, kind: LoopKind::Parallel, body });

    loops.push(choose(sort, wanted, [totals, taken, offsets], &digits, when));

    let chunk = sort.maker.index("chunk");
    let (mut body, selected) = sum(sort, &digits, |sort, body, digit| {
        let [taken, count] =
            [(taken, vec![digit]), (counts, vec![chunk, digit])].map(|(buffer, at): (_, Vec<IndexId>)| {
                sort.load(body, buffer, &at.into_iter().map(Subscript::index).collect::<Vec<_>>())
            });
        sort.maker.define(body, Op::Binary(BinaryOp::Mul, taken, count))
    });
    body.push(sort.stored(own, &[Subscript::index(chunk)], selected));
    loops.push(sort.over_chunks(chunk, chunks.clone(), body));

    let (mut rows, all) = sum(sort, &chunks, |sort, body, chunk| sort.load(body, own, &[Subscript::index(chunk)]));
    rows.push(sort.stored(number, &[], all));
    let chunk = sort.maker.index("chunk");
    let mut body = vec![];
    let count = sort.load(&mut body, own, &[Subscript::index(chunk)]);
    let value = before(sort, &mut body, count);
    body.push(sort.stored(next, &[Subscript::index(chunk)], value));
    rows.push(Statement::Loop(Loop { dims: vec![(chunk, Extent::size(chunks.clone()))], kind: LoopKind::Scan, body }));
    loops.push(sort.over_rows(when, rows));

    let chunk = sort.maker.index("chunk");
    let mut body = vec![];
    let elements = Elements::of_chunk(sort, chunk, &Size::constant(CHUNK), None, &mut body);
    body.push(take(sort, radix, &elements, taken, (next, chunk)));
    loops.push(sort.over_chunks(chunk, chunks, body));
    (Selected { number, offsets }, loops)
}

/// A sum over an index, in a block of its own.
fn sum(
    sort: &mut Sort<'_>,
    length: &Size,
    value: impl FnOnce(&mut Sort<'_>, &mut Block, IndexId) -> ValueId,
) -> (Block, ValueId) {
    let (index, mut body) = (sort.maker.index("each"), vec![]);
    let value = value(sort, &mut body, index);
    let sum = sort.maker.kernel.values.push(Dtype::I64);
    let kind = LoopKind::Reduce(vec![Reduction::monoid(sum, Monoid::Sum, Order::Free, value)]);
    (vec![Statement::Loop(Loop { dims: vec![(index, Extent::size(length.clone()))], kind, body })], sum)
}

/// Decides for each digit whether its elements are selected, and how many with lower digits are
/// not.
fn choose(
    sort: &mut Sort<'_>,
    wanted: &[Places],
    [totals, taken, offsets]: [BufferId; 3],
    digits: &Size,
    when: &Size,
) -> Loop {
    let digit = sort.maker.index("digit");
    let at = [Subscript::index(digit)];
    let mut body = vec![];
    let total = sort.load(&mut body, totals, &at);
    let begin = before(sort, &mut body, total);
    let end = sort.maker.define(&mut body, Op::Binary(BinaryOp::Add, begin, total));
    let mut is_taken = sort.maker.define(&mut body, Op::Constant(Scalar::Bool(false)));
    for places in wanted {
        let to = &places.first + &places.length;
        let [from, to] =
            [&places.first, &to].map(|n| sort.maker.define(&mut body, Op::Affine(Affine::size(n.clone()))));
        let behind = sort.maker.define(&mut body, Op::Compare(CompareOp::Gt, end, from));
        let ahead = sort.maker.define(&mut body, Op::Compare(CompareOp::Lt, begin, to));
        let both = sort.maker.define(&mut body, Op::Binary(BinaryOp::And, behind, ahead));
        is_taken = sort.maker.define(&mut body, Op::Binary(BinaryOp::Or, is_taken, both));
    }
    let [zero, one] = [0, 1].map(|n| sort.maker.define(&mut body, Op::Constant(Scalar::I64(n))));
    let flag = sort.maker.define(&mut body, Op::Select(is_taken, one, zero));
    body.push(sort.stored(taken, &at, flag));
    let left_out = sort.maker.define(&mut body, Op::Select(is_taken, zero, total));
    let offset = before(sort, &mut body, left_out);
    body.push(sort.stored(offsets, &at, offset));
    let scan = Loop { dims: vec![(digit, Extent::size(digits.clone()))], kind: LoopKind::Scan, body };
    sort.over_rows(when, vec![Statement::Loop(scan)])
}

/// Stores the selected keys of a chunk, and their numbers, one after another.
fn take(
    sort: &mut Sort<'_>,
    radix: &Radix,
    elements: &Elements,
    taken: BufferId,
    (next, chunk): (BufferId, IndexId),
) -> Statement {
    let mut body = vec![];
    let number = Subscript::Affine(elements.number.clone());
    let key = sort.load(&mut body, radix.keys[0], std::slice::from_ref(&number));
    let digit = highest(sort, &mut body);
    let digit = digit.of(sort, &mut body, key);
    let flag = sort.load(&mut body, taken, &[Subscript::Value(digit)]);
    let one = sort.maker.define(&mut body, Op::Constant(Scalar::I64(1)));
    let condition = sort.maker.define(&mut body, Op::Compare(CompareOp::Eq, flag, one));
    let mut then = vec![];
    let place = [Subscript::Value(sort.load(&mut then, next, &[Subscript::index(chunk)]))];
    let at = sort.row(&[Subscript::index(chunk)]);
    then.push(Statement::Scatter { buffer: next, at, value: one, monoid: Monoid::Sum });
    then.push(sort.stored(radix.keys[1], &place, key));
    if let Some([_, numbers]) = radix.numbers {
        let number = sort.maker.define(&mut then, Op::Affine(elements.number.clone()));
        then.push(sort.stored(numbers, &place, number));
    }
    body.push(Statement::If { condition, then, otherwise: vec![], results: vec![] });
    Statement::Loop(Loop { dims: vec![(elements.index, elements.extent.clone())], kind: LoopKind::Serial, body })
}
