//! Rows sorted by radix: a stable distribution of the elements for each digit of their keys.

use ir::nest::{
    Block, BufferId, Extent, IndexId, Input, Loop, LoopKind, Merge, Op, Prefix, Role, Statement, Subscript, ValueId,
};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, Dtype, Monoid, Scalar, Size};

use super::select::Selected;
use super::{Sort, Stored};

/// The bits of a digit.
pub(super) const BITS: usize = 8;
/// The values of a digit.
const DIGITS: i64 = 1 << BITS;

/// The arrays of a sort by radix.
pub(super) struct Radix {
    /// The keys before and after each pass, in turn.
    pub keys: [BufferId; 2],
    /// The numbers of the elements, likewise; none if nothing that is stored needs them.
    pub numbers: Option<[BufferId; 2]>,
}

/// A number for each digit.
pub(super) struct Table {
    pub buffer: BufferId,
    /// The subscripts in front of the digit.
    pub lead: Vec<Subscript>,
}

impl Table {
    pub fn at(&self, digit: Subscript) -> Vec<Subscript> {
        [&self.lead[..], &[digit]].concat()
    }

    fn load(&self, sort: &mut Sort<'_>, body: &mut Block, digit: IndexId) -> ValueId {
        let at = self.at(Subscript::index(digit));
        sort.maker.define(body, Op::Load { buffer: self.buffer, view: None, at })
    }
}

/// Elements that one iteration takes in turn.
pub(super) struct Elements {
    pub index: IndexId,
    pub extent: Extent,
    /// The number of the element in its row.
    pub number: Affine<IndexId>,
}

/// Some bits of a key.
#[derive(Clone, Copy)]
pub(super) struct Digit {
    /// The lowest of them, in the type of the keys.
    pub shift: ValueId,
    pub bits: usize,
}

/// The passes that sort each row in chunks.
pub(super) struct Passes<'a> {
    /// 1 if rows are sorted in this way, otherwise 0.
    pub when: &'a Size,
    /// By how many digits, from the lowest one.
    pub digits: usize,
    /// If not all elements are sorted, which.
    pub only: Option<&'a Selected>,
    /// What the last pass stores, in place of keys and numbers.
    pub last: Option<&'a Stored<'a>>,
}

/// A pass over elements, for one digit.
struct Pass<'a> {
    /// The array of keys that it reads; it stores to the other one.
    from: usize,
    digit: Digit,
    /// Whether the elements are still in order, so that their numbers need not be stored yet.
    first: bool,
    /// In the last pass: what the sort stores, in place of keys, and which elements are sorted.
    last: Option<(&'a Stored<'a>, Option<&'a Selected>)>,
}

impl Radix {
    /// The arrays for `elements` in a row.
    pub fn new(sort: &mut Sort<'_>, keys: BufferId, numbered: bool, elements: &Size) -> Radix {
        let elements = std::slice::from_ref(elements);
        Radix {
            keys: [keys, sort.buffer("keys", sort.key.word, elements)],
            numbers: numbered.then(|| [0, 1].map(|_| sort.buffer("numbers", Dtype::I64, elements))),
        }
    }

    /// A loop that sorts whole rows, each in an iteration. It has none if `when` is 0.
    pub fn rows(&self, sort: &mut Sort<'_>, stored: &Stored<'_>, when: &Size) -> Loop {
        let mut body = stored.before.to_vec();
        let [counts, places] = ["counts", "places"].map(|part| Radix::scratch(sort, part));
        if let Some([numbers, _]) = self.numbers {
            let element = sort.maker.index("element");
            let mut each = vec![];
            let number = sort.maker.define(&mut each, Op::Affine(Affine::index(element)));
            let at = sort.row(&[Subscript::index(element)]);
            each.push(Statement::Store { buffer: numbers, at, value: number });
            let dims = vec![(element, Extent::size(sort.length.clone()))];
            body.push(Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body: each }));
        }
        // Two passes in an iteration, so that the keys end where they began.
        let pair = sort.maker.index("pair");
        let mut passes = vec![];
        for from in 0..2 {
            let first = Affine::index(pair).scale(&Size::constant(2 * BITS as i64));
            let shift = first.add(&Affine::constant((from * BITS) as i64));
            let shift = sort.maker.define(&mut passes, Op::Affine(shift));
            let shift = sort.maker.define(&mut passes, Op::Cast(sort.key.word, shift));
            let pass = Pass { from, digit: Digit { shift, bits: BITS }, first: false, last: None };
            let all = Elements::of_row(sort);
            passes.extend(count(sort, self.keys[from], pass.digit, &all, &counts));
            passes.push(begin(sort, &counts, &places));
            let all = Elements::of_row(sort);
            passes.push(self.distribute(sort, &pass, &all, &places));
        }
        let pairs = (sort.key.word.bytes() * 8 / BITS / 2) as i64;
        let dims = vec![(pair, Extent::size(Size::constant(pairs)))];
        body.push(Statement::Loop(Loop { dims, kind: LoopKind::Serial, body: passes }));
        let element = sort.maker.index("element");
        let mut each = vec![];
        let at = Subscript::index(element);
        let key = sort.load(&mut each, self.keys[0], std::slice::from_ref(&at));
        let number = self.numbers.map(|[numbers, _]| sort.load(&mut each, numbers, std::slice::from_ref(&at)));
        let place = sort.maker.define(&mut each, Op::Affine(Affine::index(element)));
        sort.store(&mut each, stored, key, place, number.map_or(at, Subscript::Value));
        let dims = vec![(element, Extent::size(sort.length.clone()))];
        body.push(Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body: each }));
        sort.over_rows(when, body)
    }

    /// The loops of the passes, for each digit in turn.
    pub fn passes(&self, sort: &mut Sort<'_>, passes: &Passes<'_>) -> Vec<Loop> {
        let Passes { when, digits, only, last } = *passes;
        let each = sort.chunk.clone();
        let chunks = &sort.length.ceil_div(&each) * when;
        let all = &Size::constant(DIGITS) * &chunks;
        let [counts, places] =
            ["counts", "places"].map(|part| sort.buffer(part, Dtype::I64, std::slice::from_ref(&all)));
        let mut loops = vec![];
        for number in 0..digits {
            let lowest = if sabotage::on(Bug::LostDigit) { number.min(digits.saturating_sub(2)) } else { number };
            let shift = sort.key.constant((lowest * BITS) as u64);
            let last = last.filter(|_| number + 1 == digits).map(|last| (last, only));
            // Selected keys have gone to the second array, with their numbers.
            let from = (number + usize::from(only.is_some())) % 2;
            let first = number == 0 && only.is_none();

            let (chunk, table) = (sort.maker.index("chunk"), Radix::scratch(sort, "table"));
            let mut body = vec![];
            let elements = Elements::of_chunk(sort, chunk, &each, only, &mut body);
            let digit = Digit { shift: sort.maker.define(&mut body, shift.clone()), bits: BITS };
            body.extend(count(sort, self.keys[from], digit, &elements, &table));
            body.push(each_digit(sort, |sort, body, digit| {
                let number = table.load(sort, body, digit);
                let at = sort.row(&[of_chunk(digit, chunk, &chunks)]);
                body.push(Statement::Store { buffer: counts, at, value: number });
            }));
            loops.push(sort.over_chunks(chunk, chunks.clone(), body));

            loops.push(add_up(sort, counts, places, &all));

            let (chunk, table) = (sort.maker.index("chunk"), Radix::scratch(sort, "table"));
            let mut body = last.map_or(vec![], |(last, _)| last.before.to_vec());
            body.push(each_digit(sort, |sort, body, digit| {
                let place = sort.load(body, places, &[of_chunk(digit, chunk, &chunks)]);
                let at = table.at(Subscript::index(digit));
                body.push(Statement::Store { buffer: table.buffer, at, value: place });
            }));
            let elements = Elements::of_chunk(sort, chunk, &each, only, &mut body);
            let digit = Digit { shift: sort.maker.define(&mut body, shift), bits: BITS };
            body.push(self.distribute(sort, &Pass { from, digit, first, last }, &elements, &table));
            loops.push(sort.over_chunks(chunk, chunks.clone(), body));
        }
        loops
    }

    /// Stores some elements at their places. Each place is that of the next element with its digit.
    fn distribute(&self, sort: &mut Sort<'_>, pass: &Pass<'_>, elements: &Elements, places: &Table) -> Statement {
        let (mut body, to) = (vec![], 1 - pass.from);
        let at = Subscript::Affine(elements.number.clone());
        let key = sort.load(&mut body, self.keys[pass.from], std::slice::from_ref(&at));
        let digit = places.at(Subscript::Value(pass.digit.of(sort, &mut body, key)));
        let place = sort.maker.define(&mut body, Op::Load { buffer: places.buffer, view: None, at: digit.clone() });
        let number = self.numbers.map(|numbers| match pass.first {
            true => sort.maker.define(&mut body, Op::Affine(elements.number.clone())),
            false => sort.load(&mut body, numbers[pass.from], std::slice::from_ref(&at)),
        });
        let one = sort.maker.define(&mut body, Op::Constant(Scalar::I64(1)));
        body.push(Statement::Scatter { buffer: places.buffer, at: digit, value: one, monoid: Monoid::Sum });
        match pass.last {
            None => {
                let at = sort.row(&[Subscript::Value(place)]);
                body.push(Statement::Store { buffer: self.keys[to], at: at.clone(), value: key });
                if let (Some(number), Some(numbers)) = (number, self.numbers) {
                    body.push(Statement::Store { buffer: numbers[to], at, value: number });
                }
            }
            Some((stored, only)) => {
                let place = only.map_or(place, |only| only.place(sort, &mut body, key, place));
                // Where no number is carried along, nothing mentions it.
                sort.store(&mut body, stored, key, place, number.map_or(at, Subscript::Value));
            }
        }
        let dims = vec![(elements.index, elements.extent.clone())];
        Statement::Loop(Loop { dims, kind: LoopKind::Serial, body })
    }

    /// Scratch for a table of one row.
    fn scratch(sort: &mut Sort<'_>, part: &str) -> Table {
        let shape = vec![Size::constant(DIGITS)];
        let buffer = sort.maker.buffer(&sort.name, part, Dtype::I64, shape, Role::Scratch);
        Table { buffer, lead: vec![] }
    }
}

impl Elements {
    /// All elements of a row.
    fn of_row(sort: &mut Sort<'_>) -> Elements {
        let index = sort.maker.index("element");
        Elements { index, extent: Extent::size(sort.length.clone()), number: Affine::index(index) }
    }

    /// The elements of a chunk of `most`, of those that are sorted.
    pub fn of_chunk(
        sort: &mut Sort<'_>,
        chunk: IndexId,
        most: &Size,
        only: Option<&Selected>,
        body: &mut Block,
    ) -> Elements {
        let first = Affine::index(chunk).scale(most);
        let left = match only {
            None => {
                let left = Affine::size(sort.length.clone()).sub(&first);
                sort.maker.define(body, Op::Affine(left))
            }
            Some(only) => {
                let number = sort.load(body, only.number, &[]);
                let first = sort.maker.define(body, Op::Affine(first.clone()));
                sort.maker.define(body, Op::Binary(BinaryOp::Sub, number, first))
            }
        };
        let most = sort.maker.define(body, Op::Affine(Affine::size(most.clone())));
        let length = sort.maker.define(body, Op::Binary(BinaryOp::Min, left, most));
        let index = sort.maker.index("element");
        Elements { index, extent: Extent::Value(length), number: first.add(&Affine::index(index)) }
    }
}

/// Counts the digits of the keys of some elements.
pub(super) fn count(sort: &mut Sort<'_>, keys: BufferId, digit: Digit, elements: &Elements, counts: &Table) -> Block {
    let index = sort.maker.index("digit");
    let mut clear = vec![];
    let zero = sort.maker.define(&mut clear, Op::Constant(Scalar::I64(0)));
    clear.push(Statement::Store { buffer: counts.buffer, at: counts.at(Subscript::index(index)), value: zero });
    let dims = vec![(index, Extent::size(Size::constant(1 << digit.bits)))];
    let clear = Loop { dims, kind: LoopKind::Parallel, body: clear };
    let mut body = vec![];
    let key = sort.load(&mut body, keys, &[Subscript::Affine(elements.number.clone())]);
    let of_key = digit.of(sort, &mut body, key);
    let one = sort.maker.define(&mut body, Op::Constant(Scalar::I64(1)));
    let at = counts.at(Subscript::Value(of_key));
    body.push(Statement::Scatter { buffer: counts.buffer, at, value: one, monoid: Monoid::Sum });
    let dims = vec![(elements.index, elements.extent.clone())];
    [clear, Loop { dims, kind: LoopKind::Serial, body }].map(Statement::Loop).to_vec()
}

/// Adds up the counts, which stand by digits and then by chunks: the place of the first element
/// with a digit in a chunk is behind all with lower digits, and those with the same one in earlier
/// chunks.
fn add_up(sort: &mut Sort<'_>, counts: BufferId, places: BufferId, all: &Size) -> Loop {
    let (index, mut body) = (sort.maker.index("count"), vec![]);
    let number = sort.load(&mut body, counts, &[Subscript::index(index)]);
    let value = before(sort, &mut body, number);
    let at = sort.row(&[Subscript::index(index)]);
    body.push(Statement::Store { buffer: places, at, value });
    let scan = Loop { dims: vec![(index, Extent::size(all.clone()))], kind: LoopKind::Scan, body };
    match sort.outer.is_empty() {
        true => scan,
        false => Loop { dims: sort.outer.clone(), kind: LoopKind::Parallel, body: vec![Statement::Loop(scan)] },
    }
}

/// A loop over all digits.
fn each_digit(sort: &mut Sort<'_>, each: impl FnOnce(&mut Sort<'_>, &mut Block, IndexId)) -> Statement {
    let (digit, mut body) = (sort.maker.index("digit"), vec![]);
    each(sort, &mut body, digit);
    let dims = vec![(digit, Extent::size(Size::constant(DIGITS)))];
    Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body })
}

/// The place of a digit's count in a chunk.
fn of_chunk(digit: IndexId, chunk: IndexId, chunks: &Size) -> Subscript {
    Subscript::Affine(Affine::index(digit).scale(chunks).add(&Affine::index(chunk)))
}

/// The place of the first element of a row with each digit: behind all with lower digits.
fn begin(sort: &mut Sort<'_>, totals: &Table, places: &Table) -> Statement {
    let (digit, mut body) = (sort.maker.index("digit"), vec![]);
    let total = totals.load(sort, &mut body, digit);
    let value = before(sort, &mut body, total);
    body.push(Statement::Store { buffer: places.buffer, at: places.at(Subscript::index(digit)), value });
    let dims = vec![(digit, Extent::size(Size::constant(DIGITS)))];
    Statement::Loop(Loop { dims, kind: LoopKind::Scan, body })
}

impl Digit {
    /// The digit of a key, as a subscript.
    pub fn of(self, sort: &mut Sort<'_>, body: &mut Block, key: ValueId) -> ValueId {
        let mask = sort.maker.define(body, sort.key.constant((1 << self.bits) - 1));
        let shifted = sort.maker.define(body, Op::Binary(BinaryOp::Shr, key, self.shift));
        let digit = sort.maker.define(body, Op::Binary(BinaryOp::And, shifted, mask));
        sort.maker.define(body, Op::Cast(Dtype::I64, digit))
    }
}

/// The sum of the values before this one in a scan.
pub(super) fn before(sort: &mut Sort<'_>, body: &mut Block, value: ValueId) -> ValueId {
    let prefix = Prefix { merge: Merge::Monoid(Monoid::Sum), inputs: vec![Input::Value(value)], field: 0 };
    let through = sort.maker.define(body, Op::Prefix(prefix));
    sort.maker.define(body, Op::Binary(BinaryOp::Sub, through, value))
}
