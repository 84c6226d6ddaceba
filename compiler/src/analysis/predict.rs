//! Predicts the loads, stores and operations of a call from its sizes alone. Predicted loads and
//! stores equal the counts of the interpreter of loop nests where they are marked exact, and are
//! upper bounds elsewhere. A run that ends in a fault has no prediction.
//!
//! Bodies are run without data, on whole ranges of indices at once: an access counts as often as
//! the ranges have elements. If a branch or an inner extent is not the same over the whole range,
//! the range of the outermost responsible index is halved and both halves are run separately. So a
//! guard `i > 0` costs a few runs whatever the size, and a triangular loop one for each iteration
//! around it. A branch that depends on data counts as *at most* the more expensive side; a loop
//! with an extent from data runs at most as often as a check of its index in its body permits.
//! After `LIMIT` steps nothing is halved any more, and the rest is an upper bound.

use cranelift_entity::SecondaryMap;
use ir::nest::{
    Block, BufferId, Contraction, Extent, IndexId, Kernel, Op, Program, Role, Statement, SymbolSource, ValueId,
};
use ir::{Affine, Arithmetic, Dtype, Scalar, Size, SymbolId};

use super::accesses::Places;
use super::known::{self, Known, UNKNOWN};
use super::operations::{Calls, independent_indices};
use super::traffic::{Count, Counts, Traffic};
use super::work;

/// The steps spent on a kernel before counts become bounds: some tenths of a second.
const LIMIT: u64 = 1 << 23;

/// The counts of each kernel over all its runs, from the value of each size name.
pub fn predict(program: &Program, symbols: &impl Fn(SymbolId) -> i64, arithmetic: &Arithmetic) -> Vec<Counts<u64>> {
    let around = program.around();
    let counts = |(id, kernel)| {
        let once = predict_kernel(program, kernel, symbols, arithmetic);
        around[id].iter().fold(once, |counts, repeat| counts.repeated(repeat, symbols))
    };
    program.kernels.iter().map(counts).collect()
}

/// The counts of one run of a kernel.
pub fn predict_kernel(
    program: &Program,
    kernel: &Kernel,
    symbols: &impl Fn(SymbolId) -> i64,
    arithmetic: &Arithmetic,
) -> Counts<u64> {
    let calls = Calls::new(program);
    let mut planner = Planner { program, symbols, arithmetic, wanted: wanted(&kernel.body), buffers: vec![], calls };
    let steps = planner.block(&kernel.body, 0);
    let buffers = planner.buffers;
    let mut run = Run {
        program,
        arithmetic,
        types: &kernel.values,
        values: SecondaryMap::with_default(UNKNOWN),
        indices: SecondaryMap::with_default(UNKNOWN),
        counts: vec![Count { elements: Some(0), exact: true }; FIRST_BUFFER + 2 * buffers.len()],
        left: LIMIT,
    };
    // Without an index to blame nothing can fail.
    let _ = run.steps(&steps, Count { elements: Some(1), exact: true });
    let traffic = buffers.into_iter().zip(run.counts[FIRST_BUFFER..].chunks_exact(2));
    Counts {
        traffic: traffic.map(|(buffer, counts)| (buffer, Traffic { loads: counts[0], stores: counts[1] })).collect(),
        operations: run.counts[OPERATIONS],
    }
}

/// The counter of operations. The counters of buffers come after it.
const OPERATIONS: usize = 0;
const FIRST_BUFFER: usize = 1;

/// The values that decide which code runs: conditions and extents, and their operands.
fn wanted(body: &Block) -> SecondaryMap<ValueId, bool> {
    let mut made_of: SecondaryMap<ValueId, Vec<ValueId>> = SecondaryMap::new();
    let mut open = vec![];
    ir::visit::for_each_statement(body, &mut |statement| match statement {
        Statement::Let { value, op } if follows(op) => {
            op.for_each_operand(|operand| made_of[*value].push(operand));
        }
        Statement::If { condition, results, .. } => {
            open.push(*condition);
            results.iter().for_each(|(value, a, b)| made_of[*value].extend([*a, *b]));
        }
        Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => {
            open.extend(statement.dims().filter_map(|(_, extent)| value_of(extent)));
        }
        Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } => {}
    });
    let mut wanted: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    while let Some(value) = open.pop() {
        if !wanted[value] {
            wanted[value] = true;
            open.append(&mut made_of[value]);
        }
    }
    wanted
}

/// Whether the value of an operation follows from those of its operands.
fn follows(op: &Op) -> bool {
    match op {
        Op::Load { .. } | Op::Prefix(..) | Op::Place(_) => false,
        Op::Constant(_)
        | Op::Affine(_)
        | Op::Unary(..)
        | Op::Binary(..)
        | Op::Compare(..)
        | Op::Fma(..)
        | Op::Select(..)
        | Op::Cast(..)
        | Op::Bitcast(..)
        | Op::Call(..)
        | Op::Check { .. } => true,
    }
}

fn value_of(extent: &Extent) -> Option<ValueId> {
    if let Extent::Value(v) = extent { Some(*v) } else { None }
}

/// A step of a kernel without its data.
enum Step<'k> {
    /// Adds to a counter each time it is executed.
    Count {
        counter: usize,
        by: u64,
    },
    /// An integer of indices.
    Line(ValueId, Line),
    /// A value that was given with the sizes.
    Given(ValueId, Scalar),
    /// Any other value.
    Let(ValueId, &'k Op),
    If {
        condition: ValueId,
        branches: [Vec<Step<'k>>; 2],
        results: &'k [(ValueId, ValueId, ValueId)],
    },
    /// Steps that data may cut short: a `while` with a condition.
    AtMost(Vec<Step<'k>>),
    Loop {
        dims: Vec<Dim>,
        place: usize,
        body: Vec<Step<'k>>,
        steps: u64,
    },
}

/// An affine expression at the sizes of the call.
struct Line {
    constant: i64,
    terms: Vec<(IndexId, i64)>,
}

/// An index of a loop.
struct Dim {
    index: IndexId,
    extent: Reach,
}

/// How far an index runs.
enum Reach {
    Line(Line),
    /// As far as a value says. All that may be known is that it is at most the other.
    Value(ValueId, Option<Line>),
}

struct Planner<'k, S> {
    program: &'k Program,
    symbols: &'k S,
    arithmetic: &'k Arithmetic,
    wanted: SecondaryMap<ValueId, bool>,
    /// The buffers that have counters: two each.
    buffers: Vec<BufferId>,
    calls: Calls<'k>,
}

impl<'k, S: Fn(SymbolId) -> i64> Planner<'k, S> {
    fn block(&mut self, block: &'k Block, place: usize) -> Vec<Step<'k>> {
        let mut steps = vec![];
        let mut operations = 0u64;
        for statement in block {
            match statement {
                Statement::Let { value, op } => {
                    operations = operations.saturating_add(self.calls.of(op));
                    if let Some(load) = op.effects().load {
                        steps.push(Step::Count { counter: self.counter(load.buffer), by: 1 });
                    }
                    if self.wanted[*value] {
                        steps.extend(self.define(*value, op));
                    }
                }
                Statement::Store { buffer, .. } => {
                    steps.push(Step::Count { counter: self.counter(*buffer) + 1, by: 1 });
                }
                Statement::Scatter { buffer, .. } => {
                    operations = operations.saturating_add(1);
                    steps.push(Step::Count { counter: self.counter(*buffer) + 1, by: 1 });
                }
                Statement::If { condition, then, otherwise, results } => {
                    let branches = [self.block(then, place), self.block(otherwise, place)];
                    let joins = results.iter().any(|(value, _, _)| self.wanted[*value]);
                    if joins || branches.iter().any(|steps| !steps.is_empty()) {
                        steps.push(Step::If { condition: *condition, branches, results });
                    }
                }
                Statement::Loop(l) => {
                    let mut body = self.block(&l.body, place + l.dims.len());
                    let reductions = l.kind.reductions().len() as u64;
                    if reductions > 0 {
                        body.push(Step::Count { counter: OPERATIONS, by: reductions });
                    }
                    steps.extend(self.loop_(self.dims(&l.dims, &l.body), place, body));
                }
                Statement::While(w) => {
                    let body = statement.blocks().flat_map(|block| self.block(block, place + 1)).collect();
                    let counter = self.dims(std::slice::from_ref(&w.counter), &[]);
                    let all = self.loop_(counter, place, body).into_iter().collect::<Vec<_>>();
                    match w.condition {
                        Some(_) if !all.is_empty() => steps.push(Step::AtMost(all)),
                        _ => steps.extend(all),
                    }
                }
                Statement::Contract(c) => self.contract(c, place, &mut steps),
            }
        }
        if operations > 0 {
            steps.push(Step::Count { counter: OPERATIONS, by: operations });
        }
        steps
    }

    fn contract(&mut self, c: &'k Contraction, place: usize, steps: &mut Vec<Step<'k>>) {
        let inside = place + c.free.len();
        let mut body = vec![Step::Count { counter: OPERATIONS, by: work::PRODUCT }];
        for side in [&c.left, &c.right] {
            let [loads, elements] = [(); 2].map(|()| self.block(&side.body, inside + c.reduce.len()));
            // Loads count once for each product, operations once for each element of the factor.
            body.append(&mut only(loads, |counter| counter != OPERATIONS));
            let elements = only(elements, |counter| counter == OPERATIONS);
            let apart = independent_indices(c, side);
            let mut dims = self.dims(&c.free, &[]);
            for dim in dims.iter_mut().filter(|dim| apart.contains(&dim.index)) {
                dim.extent = Reach::Line(Line { constant: 1, terms: vec![] });
            }
            let elements = self.loop_(self.dims(&c.reduce, &[]), inside, elements);
            steps.extend(self.loop_(dims, place, elements.into_iter().collect()));
        }
        let mut points: Vec<_> = self.loop_(self.dims(&c.reduce, &[]), inside, body).into_iter().collect();
        points.append(&mut self.block(&c.epilogue, inside));
        steps.extend(self.loop_(self.dims(&c.free, &[]), place, points));
    }

    /// The extents of the indices of a loop with these statements as its body.
    fn dims(&self, dims: &[(IndexId, Extent)], statements: &[Statement]) -> Vec<Dim> {
        let dims = dims.iter().map(|(index, extent)| {
            let extent = match extent {
                Extent::Affine(a) => Reach::Line(self.line(a)),
                Extent::Value(v) => Reach::Value(*v, self.checked(*index, statements)),
            };
            Dim { index: *index, extent }
        });
        dims.collect()
    }

    fn loop_(&self, dims: Vec<Dim>, place: usize, body: Vec<Step<'k>>) -> Option<Step<'k>> {
        (!body.is_empty()).then(|| Step::Loop { dims, place, steps: 1 + count(&body), body })
    }

    /// The least extent at which a loop fails a check of its index in its body, less one.
    fn checked(&self, index: IndexId, body: &[Statement]) -> Option<Line> {
        let affine = |value| {
            body.iter().find_map(|statement| {
                let Statement::Let { value: v, op: Op::Affine(a) } = statement else { return None };
                (*v == value).then_some(a)
            })
        };
        body.iter().find_map(|statement| {
            let Statement::Let { op: Op::Check { value, bound, .. }, .. } = statement else { return None };
            let subscript = affine(*value)?;
            let rest = subscript.sub(&Affine::index(index));
            rest.coefficient(index).is_zero().then(|| self.line(&Affine::size(bound.clone()).sub(&rest)))
        })
    }

    fn define(&self, value: ValueId, op: &'k Op) -> Option<Step<'k>> {
        if let Op::Affine(a) = op {
            return Some(Step::Line(value, self.line(a)));
        }
        let Some(load) = op.effects().load else { return follows(op).then_some(Step::Let(value, op)) };
        let buffer = &self.program.buffers[load.buffer];
        let Role::Input(n) = buffer.role else { return None };
        let source = SymbolSource::Scalar { input: n };
        let symbol = self.program.symbols.iter().find(|(_, symbol)| symbol.source == source)?.0;
        let number = (self.symbols)(symbol);
        // A value that is not an `i64` counts as the greatest one.
        let sure = buffer.dtype != Dtype::U64 || number < i64::MAX;
        sure.then(|| Step::Given(value, (self.arithmetic.cast)(buffer.dtype, Scalar::I64(number))))
    }

    fn counter(&mut self, buffer: BufferId) -> usize {
        let known = self.buffers.iter().position(|b| *b == buffer);
        let number = known.unwrap_or_else(|| {
            self.buffers.push(buffer);
            self.buffers.len() - 1
        });
        FIRST_BUFFER + 2 * number
    }

    fn line(&self, affine: &Affine<IndexId>) -> Line {
        // Before the first kernel of a call, all sizes were found to have a value.
        let value = |size: &Size| size.eval(self.symbols).unwrap_or(0);
        let terms = affine.terms().iter().map(|(index, coefficient)| (*index, value(coefficient)));
        Line { constant: value(affine.constant_part()), terms: terms.filter(|(_, c)| *c != 0).collect() }
    }
}

/// The steps, with only some of the counters.
fn only(steps: Vec<Step<'_>>, counts: fn(usize) -> bool) -> Vec<Step<'_>> {
    let rest = steps.into_iter().filter_map(|step| match step {
        Step::Count { counter, .. } => counts(counter).then_some(step),
        Step::If { condition, branches, results } => {
            Some(Step::If { condition, branches: branches.map(|branch| only(branch, counts)), results })
        }
        Step::AtMost(steps) => Some(Step::AtMost(only(steps, counts))),
        Step::Loop { dims, place, body, steps } => Some(Step::Loop { dims, place, body: only(body, counts), steps }),
        Step::Line(..) | Step::Given(..) | Step::Let(..) => Some(step),
    });
    rest.collect()
}

fn count(steps: &[Step<'_>]) -> u64 {
    let inside = |step: &Step<'_>| match step {
        Step::Loop { steps, .. } => *steps,
        Step::AtMost(steps) => 1 + count(steps),
        Step::If { branches, .. } => 1 + branches.iter().map(|branch| count(branch)).sum::<u64>(),
        Step::Count { .. } | Step::Line(..) | Step::Given(..) | Step::Let(..) => 1,
    };
    steps.iter().map(inside).sum()
}

/// A value varies over the range of these indices.
struct Blame(Places);

struct Run<'k> {
    program: &'k Program,
    arithmetic: &'k Arithmetic,
    types: &'k cranelift_entity::PrimaryMap<ValueId, Dtype>,
    values: SecondaryMap<ValueId, Known>,
    indices: SecondaryMap<IndexId, Known>,
    counts: Vec<Count<u64>>,
    /// How many steps may be spent yet.
    left: u64,
}

impl<'k> Run<'k> {
    fn steps(&mut self, steps: &[Step<'k>], times: Count<u64>) -> Result<(), Blame> {
        for step in steps {
            match step {
                Step::Count { counter, by } => {
                    let elements = times.elements.and_then(|n| n.checked_mul(*by));
                    add(&mut self.counts[*counter], Count { elements, ..times });
                }
                Step::Line(value, line) => self.values[*value] = self.line(line),
                Step::Given(value, scalar) => self.values[*value] = Known::Value(*scalar),
                Step::Let(value, op) => self.values[*value] = self.op(*value, op),
                Step::If { condition, branches, results } => {
                    match self.values[*condition].truth() {
                        Ok(truth) => self.steps(&branches[usize::from(!truth)], times)?,
                        Err(because) => {
                            self.blame(because)?;
                            self.either([&branches[0], &branches[1]], times)?;
                        }
                    }
                    for (value, a, b) in *results {
                        self.values[*value] = self.select(*condition, *a, *b);
                    }
                }
                Step::AtMost(steps) => self.either([steps, &[]], times)?,
                Step::Loop { dims, place, body, steps } => self.loop_(dims, *place, body, *steps, times)?,
            }
        }
        Ok(())
    }

    /// Looks at fewer indices at a time, if that helps and steps are left.
    fn blame(&self, because: Places) -> Result<(), Blame> {
        if because.is_empty() || self.left == 0 { Ok(()) } else { Err(Blame(because)) }
    }

    /// One of two branches, and no telling which.
    fn either(&mut self, branches: [&[Step<'k>]; 2], times: Count<u64>) -> Result<(), Blame> {
        let nothing = vec![Count { elements: Some(0), exact: true }; self.counts.len()];
        let before = std::mem::replace(&mut self.counts, nothing.clone());
        self.steps(branches[0], times)?;
        let first = std::mem::replace(&mut self.counts, nothing);
        self.steps(branches[1], times)?;
        let second = std::mem::replace(&mut self.counts, before);
        for ((sum, a), b) in self.counts.iter_mut().zip(first).zip(second) {
            let most = a.elements.zip(b.elements).map(|(a, b)| a.max(b));
            add(sum, if a == b { a } else { Count { elements: most, exact: false } });
        }
        Ok(())
    }

    fn loop_(
        &mut self,
        dims: &[Dim],
        place: usize,
        body: &[Step<'k>],
        steps: u64,
        times: Count<u64>,
    ) -> Result<(), Blame> {
        let mut exact = times.exact;
        let mut whole = vec![];
        for (n, Dim { extent, .. }) in dims.iter().enumerate() {
            let reach = match extent {
                Reach::Line(line) => self.line(line),
                Reach::Value(v, _) => self.values[*v],
            };
            // If the body needs a single value of this index, its range can be halved.
            let mut because = Places::alone(place + n);
            let mut greatest = reach.range().map_or(i64::MAX, |(_, greatest)| greatest);
            if let Some(reason) = reach.because() {
                self.blame(reason)?;
                // The extent is data, but a check of the index in the body bounds it.
                if let Reach::Value(_, Some(checked)) = extent
                    && let Some((_, most)) = self.line(checked).range()
                {
                    greatest = greatest.min(most);
                }
                (exact, because) = (false, Places::NONE);
            }
            if greatest < 1 {
                return Ok(());
            }
            whole.push((0, greatest - 1, because));
        }
        let times = Count { exact, ..times };
        let mut open = vec![whole];
        while let Some(ranges) = open.pop() {
            let mut volume = times.elements;
            for (Dim { index, .. }, (least, greatest, because)) in dims.iter().zip(&ranges) {
                self.indices[*index] = Known::between(*least, *greatest, *because);
                let length = greatest.abs_diff(*least).saturating_add(1);
                volume = volume.zip(Some(length)).filter(|(_, n)| *n < 1 << 62).and_then(|(v, n)| v.checked_mul(n));
            }
            self.left = self.left.saturating_sub(steps);
            let before = self.counts.clone();
            if let Err(Blame(places)) = self.steps(body, Count { elements: volume, ..times }) {
                self.counts = before;
                let first = places.first();
                // An outer loop is responsible, so that one has to halve its range.
                if first < place {
                    return Err(Blame(places));
                }
                let halves = halve(ranges, first - place);
                open.extend(halves.into_iter().flatten());
            }
        }
        Ok(())
    }

    fn op(&self, value: ValueId, op: &Op) -> Known {
        let get = |v: &ValueId| self.values[*v];
        let (dtype, arithmetic) = (self.types[value], self.arithmetic);
        match op {
            Op::Constant(scalar) => Known::Value(*scalar),
            Op::Unary(op, a) => known::unary(arithmetic, *op, get(a), dtype),
            Op::Binary(op, a, b) => known::binary(arithmetic, *op, get(a), get(b), dtype),
            Op::Compare(op, a, b) => known::compare(arithmetic, *op, get(a), get(b)),
            Op::Fma(a, b, c) => match [get(a), get(b), get(c)] {
                [Known::Value(a), Known::Value(b), Known::Value(c)] => Known::Value((arithmetic.fma)(a, b, c)),
                unknown => Known::Nothing { because: known::because(&unknown) },
            },
            Op::Select(condition, a, b) => self.select(*condition, *a, *b),
            Op::Cast(to, a) => known::cast(arithmetic, *to, get(a)),
            Op::Bitcast(to, a) => match get(a) {
                Known::Value(a) => Known::Value((arithmetic.bitcast)(*to, a)),
                unknown @ (Known::Range { .. } | Known::Nothing { .. }) => {
                    Known::Nothing { because: known::because(&[unknown]) }
                }
            },
            Op::Check { value, .. } => get(value),
            Op::Call(function, arguments) => {
                let known: Vec<Known> = arguments.iter().map(get).collect();
                let values: Option<Vec<Scalar>> =
                    known.iter().map(|known| if let Known::Value(v) = known { Some(*v) } else { None }).collect();
                let Some(values) = values else { return Known::Nothing { because: known::because(&known) } };
                Known::Value((arithmetic.call)(&self.program.functions[*function], &values))
            }
            Op::Affine(_) | Op::Load { .. } | Op::Prefix(..) | Op::Place(_) => UNKNOWN,
        }
    }

    fn select(&self, condition: ValueId, a: ValueId, b: ValueId) -> Known {
        match self.values[condition].truth() {
            Ok(truth) => self.values[if truth { a } else { b }],
            Err(because) => Known::Nothing { because },
        }
    }

    fn line(&self, line: &Line) -> Known {
        let (mut least, mut greatest) = (i128::from(line.constant), i128::from(line.constant));
        let mut because: Option<Places> = None;
        for (index, coefficient) in &line.terms {
            let index = self.indices[*index];
            let (low, high) = index.range().unwrap_or((0, i64::MAX));
            let ends = [low, high].map(|end| i128::from(end) * i128::from(*coefficient));
            least += ends[0].min(ends[1]);
            greatest += ends[0].max(ends[1]);
            if let Known::Range { because: reason, .. } = index {
                because = Some(match because {
                    Some(other) if other.is_empty() || reason.is_empty() => Places::NONE,
                    Some(other) => other.and(reason),
                    None => reason,
                });
            }
        }
        let because = because.unwrap_or_default();
        match (i64::try_from(least), i64::try_from(greatest)) {
            (Ok(least), Ok(greatest)) => Known::between(least, greatest, because),
            _ => Known::Nothing { because },
        }
    }
}

/// Ranges of indices, and for each the place of the index if looking at fewer of its values helps.
type Ranges = Vec<(i64, i64, Places)>;

/// Both halves of some ranges, the first half last.
fn halve(mut ranges: Ranges, dim: usize) -> [Option<Ranges>; 2] {
    let Some((least, greatest, because)) = ranges.get(dim).copied() else { return [None, None] };
    let middle = least + (greatest - least) / 2;
    let mut upper = ranges.clone();
    upper[dim] = (middle + 1, greatest, because);
    ranges[dim] = (least, middle, because);
    [Some(upper), Some(ranges)]
}

fn add(sum: &mut Count<u64>, times: Count<u64>) {
    if times.elements != Some(0) {
        sum.elements = sum.elements.zip(times.elements).and_then(|(a, b)| a.checked_add(b));
        sum.exact &= times.exact && sum.elements.is_some();
    }
}
