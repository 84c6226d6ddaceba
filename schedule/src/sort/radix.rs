//! Rows sorted by radix: a stable distribution of the elements for each digit of their keys.

use ir::nest::{
    Block, BufferId, Extent, IndexId, Input, Loop, LoopKind, Merge, Op, Prefix, Reduction, Statement, Subscript,
    ValueId,
};
use ir::{Affine, BinaryOp, Dtype, Monoid, Order, Scalar, Size};

use super::{Sort, Stored};

/// The bits of a digit.
const BITS: usize = 8;
/// The values of a digit.
const DIGITS: i64 = 1 << BITS;
/// The elements of a chunk: the counts of its digits are few in comparison.
const CHUNK: i64 = 1 << 14;

/// The arrays of a sort by radix.
pub(super) struct Radix {
    /// The keys before and after each pass, in turn.
    keys: [BufferId; 2],
    /// The numbers of the elements, likewise; none if nothing that is stored needs them.
    numbers: Option<[BufferId; 2]>,
    /// The number of chunks; 0 if the row is short.
    chunks: Size,
    /// The number of digits; 0 if the row is short.
    digits: Size,
    /// How often a chunk has each digit.
    counts: BufferId,
    /// Where the next element of a chunk with each digit goes.
    places: BufferId,
    /// How often a row has each digit.
    totals: BufferId,
    /// The place of the first element with each digit.
    firsts: BufferId,
}

impl Radix {
    /// The arrays, for rows where `long` is 1. In others it is 0, and there is nothing to do.
    pub fn new(sort: &mut Sort<'_>, keys: BufferId, numbered: bool, long: &Size) -> Radix {
        let elements = [&sort.length * long];
        let [chunks, digits] =
            [sort.length.ceil_div(&Size::constant(CHUNK)), Size::constant(DIGITS)].map(|n| &n * long);
        let table = [chunks.clone(), digits.clone()];
        Radix {
            keys: [keys, sort.buffer("keys", sort.key.word, &elements)],
            numbers: numbered.then(|| [0, 1].map(|_| sort.buffer("numbers", Dtype::I64, &elements))),
            counts: sort.buffer("counts", Dtype::I64, &table),
            places: sort.buffer("places", Dtype::I64, &table),
            totals: sort.buffer("totals", Dtype::I64, &table[1..]),
            firsts: sort.buffer("firsts", Dtype::I64, &table[1..]),
            chunks,
            digits,
        }
    }

    /// The loops of all passes. The last one stores what the sort stores.
    pub fn passes(&self, sort: &mut Sort<'_>, stored: &Stored<'_>) -> Vec<Loop> {
        let mut loops = vec![];
        let passes = sort.key.word.bytes() * 8 / BITS;
        for pass in 0..passes {
            let last = (pass + 1 == passes).then_some(stored);
            loops.extend([self.count(sort, pass), self.total(sort), self.first(sort), self.begin(sort)]);
            loops.push(self.distribute(sort, pass, last));
        }
        loops
    }

    /// Counts the digits of each chunk.
    fn count(&self, sort: &mut Sort<'_>, pass: usize) -> Loop {
        let chunk = sort.maker.index("chunk");
        let mut body = vec![];
        let digit = sort.maker.index("digit");
        let mut clear = vec![];
        let zero = sort.maker.define(&mut clear, Op::Constant(Scalar::I64(0)));
        let at = sort.row(&[Subscript::index(chunk), Subscript::index(digit)]);
        clear.push(Statement::Store { buffer: self.counts, at, value: zero });
        let dims = vec![(digit, Extent::size(self.digits.clone()))];
        body.push(Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body: clear }));
        let (element, at) = elements(sort, chunk, &mut body);
        let mut each = vec![];
        let key = sort.load(&mut each, self.keys[pass % 2], &[at]);
        let digit = digit_of(sort, &mut each, key, pass);
        let one = sort.maker.define(&mut each, Op::Constant(Scalar::I64(1)));
        let at = sort.row(&[Subscript::index(chunk), Subscript::Value(digit)]);
        each.push(Statement::Scatter { buffer: self.counts, at, value: one, monoid: Monoid::Sum });
        body.push(Statement::Loop(Loop { dims: vec![element], kind: LoopKind::Serial, body: each }));
        self.over_chunks(sort, chunk, body)
    }

    /// Adds up the counts of the chunks.
    fn total(&self, sort: &mut Sort<'_>) -> Loop {
        let [chunk, digit] = [sort.maker.index("chunk"), sort.maker.index("digit")];
        let mut each = vec![];
        let count = sort.load(&mut each, self.counts, &[Subscript::index(chunk), Subscript::index(digit)]);
        let total = sort.maker.kernel.values.push(Dtype::I64);
        let reduction = Reduction::monoid(total, Monoid::Sum, Order::Free, count);
        let dims = vec![(chunk, Extent::size(self.chunks.clone()))];
        let sum = Statement::Loop(Loop { dims, kind: LoopKind::Reduce(vec![reduction]), body: each });
        let at = sort.row(&[Subscript::index(digit)]);
        let body = vec![sum, Statement::Store { buffer: self.totals, at, value: total }];
        self.over_digits(sort, digit, body)
    }

    /// The place of the first element with each digit.
    fn first(&self, sort: &mut Sort<'_>) -> Loop {
        let digit = sort.maker.index("digit");
        let mut each = vec![];
        let total = sort.load(&mut each, self.totals, &[Subscript::index(digit)]);
        let first = before(sort, &mut each, total);
        let at = sort.row(&[Subscript::index(digit)]);
        each.push(Statement::Store { buffer: self.firsts, at, value: first });
        let dims = vec![(digit, Extent::size(self.digits.clone()))];
        let scan = Loop { dims, kind: LoopKind::Scan, body: each };
        if sort.outer.is_empty() {
            return scan;
        }
        Loop { dims: sort.outer.clone(), kind: LoopKind::Parallel, body: vec![Statement::Loop(scan)] }
    }

    /// The place of the first element with each digit in each chunk.
    fn begin(&self, sort: &mut Sort<'_>) -> Loop {
        let [chunk, digit] = [sort.maker.index("chunk"), sort.maker.index("digit")];
        let mut body = vec![];
        let first = sort.load(&mut body, self.firsts, &[Subscript::index(digit)]);
        let mut each = vec![];
        let count = sort.load(&mut each, self.counts, &[Subscript::index(chunk), Subscript::index(digit)]);
        let before = before(sort, &mut each, count);
        let place = sort.maker.define(&mut each, Op::Binary(BinaryOp::Add, first, before));
        let at = sort.row(&[Subscript::index(chunk), Subscript::index(digit)]);
        each.push(Statement::Store { buffer: self.places, at, value: place });
        let dims = vec![(chunk, Extent::size(self.chunks.clone()))];
        body.push(Statement::Loop(Loop { dims, kind: LoopKind::Scan, body: each }));
        self.over_digits(sort, digit, body)
    }

    /// Stores the elements of each chunk at their places.
    fn distribute(&self, sort: &mut Sort<'_>, pass: usize, last: Option<&Stored<'_>>) -> Loop {
        let chunk = sort.maker.index("chunk");
        let mut body = last.map_or(vec![], |last| last.before.to_vec());
        let (element, at) = elements(sort, chunk, &mut body);
        let mut each = vec![];
        let key = sort.load(&mut each, self.keys[pass % 2], std::slice::from_ref(&at));
        let digit = digit_of(sort, &mut each, key, pass);
        let slot = [Subscript::index(chunk), Subscript::Value(digit)];
        let place = sort.load(&mut each, self.places, &slot);
        let carried = self.numbers.map(|numbers| match (&at, pass) {
            (Subscript::Affine(number), 0) => sort.maker.define(&mut each, Op::Affine(number.clone())),
            _ => sort.load(&mut each, numbers[pass % 2], std::slice::from_ref(&at)),
        });
        let one = sort.maker.define(&mut each, Op::Constant(Scalar::I64(1)));
        each.push(Statement::Scatter { buffer: self.places, at: sort.row(&slot), value: one, monoid: Monoid::Sum });
        match last {
            None => {
                let at = sort.row(&[Subscript::Value(place)]);
                each.push(Statement::Store { buffer: self.keys[(pass + 1) % 2], at: at.clone(), value: key });
                if let (Some(number), Some(numbers)) = (carried, self.numbers) {
                    each.push(Statement::Store { buffer: numbers[(pass + 1) % 2], at, value: number });
                }
            }
            // Where no number is carried along, nothing mentions it.
            Some(last) => sort.store(&mut each, last, key, place, carried.map_or(at, Subscript::Value)),
        }
        body.push(Statement::Loop(Loop { dims: vec![element], kind: LoopKind::Serial, body: each }));
        self.over_chunks(sort, chunk, body)
    }

    /// A loop over the chunks of each row.
    fn over_chunks(&self, sort: &Sort<'_>, chunk: IndexId, body: Block) -> Loop {
        let dims = [vec![(chunk, Extent::size(self.chunks.clone()))], sort.outer.clone()].concat();
        Loop { dims, kind: LoopKind::Parallel, body }
    }

    /// A loop over the digits of each row.
    fn over_digits(&self, sort: &Sort<'_>, digit: IndexId, body: Block) -> Loop {
        let dims = [sort.outer.clone(), vec![(digit, Extent::size(self.digits.clone()))]].concat();
        Loop { dims, kind: LoopKind::Parallel, body }
    }
}

/// The digit of a key, as a subscript.
fn digit_of(sort: &mut Sort<'_>, body: &mut Block, key: ValueId, pass: usize) -> ValueId {
    let shift = sort.maker.define(body, sort.key.constant((pass * BITS) as u64));
    let mask = sort.maker.define(body, sort.key.constant(DIGITS as u64 - 1));
    let shifted = sort.maker.define(body, Op::Binary(BinaryOp::Shr, key, shift));
    let digit = sort.maker.define(body, Op::Binary(BinaryOp::And, shifted, mask));
    sort.maker.define(body, Op::Cast(Dtype::I64, digit))
}

/// The sum of the values before this one in a scan.
fn before(sort: &mut Sort<'_>, body: &mut Block, value: ValueId) -> ValueId {
    let prefix = Prefix { merge: Merge::Monoid(Monoid::Sum), inputs: vec![Input::Value(value)], field: 0 };
    let through = sort.maker.define(body, Op::Prefix(prefix));
    sort.maker.define(body, Op::Binary(BinaryOp::Sub, through, value))
}

/// The index of the elements of a chunk, and their numbers.
fn elements(sort: &mut Sort<'_>, chunk: IndexId, body: &mut Block) -> ((IndexId, Extent), Subscript) {
    let first = Affine::index(chunk).scale(&Size::constant(CHUNK));
    let left = Affine::size(sort.length.clone()).sub(&first);
    let [left, most] = [left, Affine::constant(CHUNK)].map(|a| sort.maker.define(body, Op::Affine(a)));
    let length = sort.maker.define(body, Op::Binary(BinaryOp::Min, left, most));
    let element = sort.maker.index("element");
    let number = first.add(&Affine::index(element));
    ((element, Extent::Value(length)), Subscript::Affine(number))
}
