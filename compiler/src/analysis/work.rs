//! The cost of scalar code: weighted operations ([`ir::cost`]), code size, and the number of
//! simultaneously live scalars.
//!
//! Arithmetic on indices counts as often as the indices change, since engines hoist the parts that
//! depend on outer indices alone out of inner loops.

use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::nest::{
    Contraction, Extent, Function, FunctionId, IndexId, Kernel, Law, Loop, Merge, Op, Program, Reducer, ReducerId,
    Statement, ValueId, While,
};
use ir::{Affine, Dtype, Size};

/// The cost of a piece of code.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Operations executed, by weight. The more expensive branch of an `If` counts; in a function
    /// the cheaper one, since the other is a rare case that engines skip.
    pub operations: f64,
    /// The part of them that computes integers from indices, sizes and constants alone, as for
    /// subscripts.
    pub indexing: f64,
    /// Operations executed, as counted by [`operations`], in the same branches.
    pub executed: f64,
    /// Statements in the text, functions written out at each call.
    pub statements: u64,
    /// Statements in the text: a call counts as one.
    pub lines: u64,
    /// An estimate of the maximum number of live scalars. Constants and index arithmetic are not
    /// counted, because they can be rematerialized.
    pub live: u64,
}

/// The work of one call of each function of a program, and the cost of one merge of each reducer.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    calls: SecondaryMap<FunctionId, Work>,
    merges: SecondaryMap<ReducerId, f64>,
}

impl Functions {
    /// Those of a program.
    pub fn of(program: &Program) -> Functions {
        let mut functions = Functions::default();
        program.functions.iter().for_each(|(id, f)| functions.calls[id] = function(f));
        let merges = program.reducers.iter().map(|(id, r)| (id, merge(&functions, r))).collect::<Vec<_>>();
        merges.into_iter().for_each(|(id, cost)| functions.merges[id] = cost);
        functions
    }
}

/// The work of a kernel, with lengths from `sizes`. A count that depends on data is taken as
/// [`super::cost::NOMINAL`].
pub fn kernel(functions: &Functions, kernel: &Kernel, sizes: &impl Fn(&Size) -> f64) -> Work {
    block(functions, kernel, &kernel.body, sizes)
}

/// The work of some statements of a kernel, run once.
pub fn block(functions: &Functions, kernel: &Kernel, block: &[Statement], sizes: &impl Fn(&Size) -> f64) -> Work {
    let mut walk = Walk::new(functions, &kernel.values, sizes, false);
    walk.block(block, 1.0);
    walk.finish()
}

/// The cost of taking one element into a reduction by a reducer.
fn merge(functions: &Functions, reducer: &Reducer) -> f64 {
    match reducer.law {
        // The extreme is found first, so an element costs a comparison and little more.
        Law::First(_) => 3.0,
        Law::Ordered | Law::Free => {
            let mut walk = Walk::new(functions, &reducer.values, &|_| 0.0, true);
            walk.block(&reducer.body, 1.0);
            walk.finish().operations
        }
    }
}

/// The work of one call of a function.
pub fn function(function: &Function) -> Work {
    let none = Functions::default();
    let mut walk = Walk::new(&none, &function.values, &|_| 0.0, true);
    walk.block(&function.body, 1.0);
    walk.finish()
}

/// The number of scalar operations that reports count for `op`. Each arithmetic operation,
/// comparison and conversion between types counts as one, on elements of any type, and `fma` as
/// two. Selecting, moving or bit-casting a value counts nothing, nor does arithmetic on only
/// indices and sizes, which is loop overhead anyway.
pub fn operations(op: &Op) -> u64 {
    match op {
        Op::Constant(_) | Op::Affine(_) | Op::Load { .. } | Op::Check { .. } | Op::Call(..) => 0,
        Op::Select(..) | Op::Bitcast(..) => 0,
        Op::Unary(..) | Op::Binary(..) | Op::Compare(..) | Op::Cast(..) | Op::Prefix(..) | Op::Place(_) => 1,
        Op::Fma(..) => 2,
    }
}

/// Operations for each product that a contraction sums.
pub const PRODUCT: u64 = 2;

/// Rows or columns of a contraction's tile.
const TILE: f64 = 512.0;

/// When a value is defined, and in how many loops.
#[derive(Clone, Copy, Default)]
struct Birth {
    /// Counted in statements from 1; 0 for values that are not counted.
    time: usize,
    depth: usize,
}

/// Where a value comes from.
#[derive(Clone, Copy)]
struct Source {
    /// How often it changes.
    changes: f64,
    /// Whether it is an `i64`, or a comparison of such, computed from indices, sizes and constants
    /// alone.
    is_indexing: bool,
}

/// How often bodies of loops run.
pub(super) struct Trips<'s, S> {
    sizes: &'s S,
    /// The middle of the range of each index.
    middles: SecondaryMap<IndexId, f64>,
}

impl<'s, S: Fn(&Size) -> f64> Trips<'s, S> {
    pub fn new(sizes: &'s S) -> Trips<'s, S> {
        Trips { sizes, middles: SecondaryMap::new() }
    }

    /// How often a body runs for each run of its loop, on average if an extent depends on outer
    /// indices. Must be asked from the outside in.
    pub fn of(&mut self, dims: &[(IndexId, Extent)]) -> f64 {
        let mut product = 1.0;
        for (index, extent) in dims {
            let extent = match extent {
                Extent::Affine(a) => self.affine(a).max(0.0),
                Extent::Value(_) => super::cost::NOMINAL,
            };
            self.middles[*index] = (extent - 1.0).max(0.0) / 2.0;
            product *= extent;
        }
        product
    }

    fn affine(&self, a: &Affine<IndexId>) -> f64 {
        let terms = a.terms().iter().map(|(index, coefficient)| (self.sizes)(coefficient) * self.middles[*index]);
        (self.sizes)(a.constant_part()) + terms.sum::<f64>()
    }
}

struct Walk<'p, S> {
    functions: &'p Functions,
    values: &'p PrimaryMap<ValueId, Dtype>,
    trips: Trips<'p, S>,
    in_function: bool,
    work: Work,
    time: usize,
    /// How often each index changes, of loops.
    changes: SecondaryMap<IndexId, Option<f64>>,
    sources: SecondaryMap<ValueId, Option<Source>>,
    born: SecondaryMap<ValueId, Birth>,
    /// The time of the last use of each value.
    died: SecondaryMap<ValueId, usize>,
    /// For each enclosing loop, the values from outside that it uses, which are live until it ends.
    kept: Vec<Vec<ValueId>>,
    /// The times of calls, with the number of scalars that the function keeps alive.
    calls: Vec<(usize, u64)>,
}

impl<'p, S: Fn(&Size) -> f64> Walk<'p, S> {
    fn new(
        functions: &'p Functions,
        values: &'p PrimaryMap<ValueId, Dtype>,
        sizes: &'p S,
        in_function: bool,
    ) -> Walk<'p, S> {
        Walk {
            functions,
            values,
            trips: Trips::new(sizes),
            in_function,
            work: Work::default(),
            time: 0,
            changes: SecondaryMap::new(),
            sources: SecondaryMap::with_capacity(values.len()),
            born: SecondaryMap::with_capacity(values.len()),
            died: SecondaryMap::with_capacity(values.len()),
            kept: vec![],
            calls: vec![],
        }
    }

    fn block(&mut self, block: &[Statement], times: f64) {
        block.iter().for_each(|statement| self.statement(statement, &[], times));
    }

    /// A statement directly in a loop over `around`, or in none.
    fn statement(&mut self, statement: &Statement, around: &[(IndexId, Extent)], times: f64) {
        self.time += 1;
        self.work.statements += 1;
        self.work.lines += 1;
        ir::visit::for_each_use(statement, &mut |v| self.uses(v));
        match statement {
            Statement::Let { value, op } => {
                self.op(*value, op, times);
                if !matches!(op, Op::Constant(_) | Op::Affine(_)) {
                    self.defines(*value);
                }
            }
            Statement::Store { .. } => {}
            Statement::Scatter { .. } => {
                self.work.operations += times;
                self.work.executed += times;
            }
            Statement::If { then, otherwise, results, .. } => {
                let before = self.work;
                self.block(then, times);
                let first = self.work;
                (self.work.operations, self.work.executed) = (before.operations, before.executed);
                self.block(otherwise, times);
                let second = self.work;
                let take_first = (first.operations > second.operations) != self.in_function;
                let taken = if take_first { first } else { second };
                (self.work.operations, self.work.executed) = (taken.operations + times, taken.executed);
                for (value, a, b) in results {
                    self.uses(*a);
                    self.uses(*b);
                    self.defines(*value);
                }
            }
            Statement::Loop(l) => self.loop_(l, times),
            Statement::While(w) => self.while_(w, times),
            Statement::Contract(c) => self.contract(c, around, times),
        }
    }

    fn op(&mut self, value: ValueId, op: &Op, times: f64) {
        let mut source = self.source(op, times);
        source.is_indexing &= matches!(self.values[value], Dtype::I64 | Dtype::Bool) && !matches!(op, Op::Call(..));
        self.sources[value] = Some(source);
        let (operations, executed) = if let Op::Call(id, _) = op {
            let work = self.functions.calls[*id];
            self.work.statements += work.statements;
            self.calls.push((self.time, work.live));
            (work.operations, work.executed)
        } else {
            (op.weight(self.values[value]), operations(op) as f64)
        };
        if source.is_indexing {
            self.work.operations += operations * source.changes;
            self.work.indexing += operations * source.changes;
        } else {
            self.work.operations += operations * times;
        }
        self.work.executed += executed * times;
    }

    /// The origin of the result of an operation, in a block that runs `times` times.
    fn source(&self, op: &Op, times: f64) -> Source {
        let changes = if matches!(op, Op::Prefix(..) | Op::Place(_)) { times } else { 1.0 };
        let mut source = Source { changes, is_indexing: op.effects().load.is_none() };
        op.for_each_operand(&mut |operand| match self.sources[operand] {
            Some(of) => {
                source.changes = source.changes.max(of.changes);
                source.is_indexing &= of.is_indexing;
            }
            None => source = Source { changes: times, is_indexing: false },
        });
        op.for_each_affine(&mut |a| {
            for (index, _) in a.terms() {
                source.changes = source.changes.max(self.changes[*index].unwrap_or(times));
            }
        });
        source.changes = source.changes.min(times);
        source
    }

    fn loop_(&mut self, l: &Loop, times: f64) {
        let mut inner = times;
        for dim in &l.dims {
            inner *= self.trips.of(std::slice::from_ref(dim));
            self.changes[dim.0] = Some(inner);
        }
        let reductions = l.kind.reductions();
        // The results of reductions are live throughout the loop.
        let results = || reductions.iter().flat_map(|r| &r.results);
        results().for_each(|v| self.defines(*v));
        self.kept.push(vec![]);
        l.body.iter().for_each(|statement| self.statement(statement, &l.dims, inner));
        for r in reductions {
            let merge = match r.merge {
                Merge::Monoid(_) => 1.0,
                Merge::Reducer(id) => self.functions.merges[id],
            };
            self.spend(merge, 1.0, inner);
            r.values().for_each(|v| self.uses(v));
        }
        self.leave();
        results().for_each(|v| self.uses(*v));
    }

    fn while_(&mut self, w: &While, times: f64) {
        let steps = self.trips.of(std::slice::from_ref(&w.counter));
        let inner = times * if w.condition.is_some() { steps.min(super::cost::NOMINAL) } else { steps };
        self.changes[w.counter.0] = Some(inner);
        // The state is live throughout the loop.
        w.state.iter().for_each(|state| self.defines(state.result));
        self.kept.push(vec![]);
        w.condition.iter().for_each(|condition| self.block(&condition.body, inner));
        self.block(&w.body, inner);
        w.state.iter().for_each(|state| self.uses(state.next));
        self.leave();
        w.state.iter().for_each(|state| self.uses(state.result));
    }

    fn contract(&mut self, c: &Contraction, around: &[(IndexId, Extent)], times: f64) {
        let points = times * self.trips.of(&c.free);
        let inner = points * self.trips.of(&c.reduce);
        self.defines(c.result);
        self.kept.push(vec![]);
        for side in [&c.left, &c.right] {
            // A factor is computed as it is packed, once for each tile of the other factor. A tile
            // also has several iterations of a loop around contractions.
            let own = ir::visit::free_indices(&side.body);
            let others = c.free.iter().chain(around).filter(|(index, _)| !own.contains(index));
            let other: f64 = others.map(|dim| self.trips.of(std::slice::from_ref(dim))).product();
            self.block(&side.body, inner / other.clamp(1.0, TILE));
        }
        self.spend(1.0, PRODUCT as f64, inner);
        self.uses(c.left.value);
        self.uses(c.right.value);
        self.block(&c.epilogue, points);
        self.leave();
    }

    /// Ends a loop: values from outside that it uses are live until here.
    fn leave(&mut self) {
        self.time += 1;
        for value in self.kept.pop().unwrap_or_default() {
            self.died[value] = self.time;
        }
    }

    fn spend(&mut self, weight: f64, executed: f64, times: f64) {
        self.work.operations += weight * times;
        self.work.executed += executed * times;
    }

    fn defines(&mut self, value: ValueId) {
        self.born[value] = Birth { time: self.time, depth: self.kept.len() };
        self.died[value] = self.time;
    }

    fn uses(&mut self, value: ValueId) {
        let Birth { time, depth } = self.born[value];
        if time == 0 {
            return;
        }
        self.died[value] = self.time;
        if depth < self.kept.len() {
            // Recording it once would be enough, but finding duplicates costs more.
            self.kept[depth].push(value);
        }
    }

    fn finish(mut self) -> Work {
        // A value is live from the statement after its definition to its last use.
        let mut change = vec![0i64; self.time + 2];
        for value in self.values.keys() {
            let (from, to) = (self.born[value].time, self.died[value]);
            if from < to {
                change[from + 1] += 1;
                change[to + 1] -= 1;
            }
        }
        let mut calls = self.calls.iter().peekable();
        let (mut alive, mut most) = (0i64, 0i64);
        for (time, change) in change.into_iter().enumerate() {
            alive += change;
            most = most.max(alive);
            while let Some((_, inner)) = calls.next_if(|(at, _)| *at == time) {
                most = most.max(alive.saturating_add_unsigned(*inner));
            }
        }
        self.work.live = most.unsigned_abs();
        self.work
    }
}
