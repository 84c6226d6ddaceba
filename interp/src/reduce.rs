//! Reductions and scans, written step by step from the definition in `ir::order`.

use ir::nest::{Program, Reducer};
use ir::order::{BLOCK, LANES, LANES_CHUNK, SCAN_CHUNK, SCAN_GROUP};
use ir::{Dtype, Monoid, Order, Scalar};
use smallvec::SmallVec;

use crate::scalar::{Evaluator, binary};

/// The state of a reduction.
pub type State = SmallVec<[Scalar; 2]>;

/// How two states are merged.
pub enum Merger<'p> {
    /// By a primitive, over elements of a type.
    Monoid(Monoid, Dtype),
    /// By a reducer of the program.
    Reducer(&'p Reducer, Box<Evaluator<'p>>),
}

impl<'p> Merger<'p> {
    /// By a reducer of `program`.
    pub fn of(program: &'p Program, reducer: &'p Reducer) -> Merger<'p> {
        Merger::Reducer(reducer, Box::new(Evaluator::of_merge(program, reducer)))
    }

    /// The state of no elements.
    fn identity(&self) -> State {
        match self {
            Merger::Monoid(monoid, dtype) => State::from_slice(&[monoid.identity(*dtype)]),
            Merger::Reducer(reducer, _) => State::from_slice(&reducer.identity),
        }
    }

    /// The state of the elements of `a` and then those of `b`.
    fn merge(&mut self, a: &[Scalar], b: &[Scalar]) -> State {
        match self {
            Merger::Monoid(monoid, _) => {
                State::from_iter(a.iter().zip(b).map(|(a, b)| binary(monoid.primitive(), *a, *b)))
            }
            Merger::Reducer(_, evaluator) => {
                let states: SmallVec<[Scalar; 4]> = a.iter().chain(b).copied().collect();
                evaluator.run(&states).collect()
            }
        }
    }
}

/// A reduction in progress. It takes its elements one by one and keeps those of the current chunk.
pub struct Reduction<'p> {
    order: Order,
    merger: Merger<'p>,
    /// The elements of the current chunk or block, value by value.
    pending: Vec<Scalar>,
    /// The results of full chunks or blocks. Each carries its height in the tree. Pairs of equal
    /// height are merged as they arrive, so heights decrease.
    done: Vec<(u32, State)>,
    /// The result so far in the other orders, which need no chunks.
    running: Running,
    last: State,
}

impl<'p> Reduction<'p> {
    /// A reduction of no elements yet.
    pub fn new(merger: Merger<'p>, order: Order) -> Reduction<'p> {
        let last = merger.identity();
        Reduction { order, running: Running::new(&merger, order), merger, pending: vec![], done: vec![], last }
    }

    /// Takes the next element.
    pub fn push(&mut self, x: State) {
        let full = match self.order {
            Order::Lanes => LANES_CHUNK,
            Order::Blocks => BLOCK,
            Order::Free | Order::Scan => {
                self.last = self.running.push(&mut self.merger, x);
                return;
            }
        };
        self.pending.extend_from_slice(&x);
        if self.pending.len() == full * x.len() {
            self.end_chunk();
        }
    }

    /// Takes the result of the next chunk or block in place of its elements.
    pub fn push_result(&mut self, x: State) {
        match self.order {
            Order::Lanes | Order::Blocks => self.join(x),
            Order::Free | Order::Scan => self.push(x),
        }
    }

    /// The state of all elements.
    pub fn finish(mut self) -> State {
        if !self.pending.is_empty() {
            self.end_chunk();
        }
        let merger = &mut self.merger;
        match self.order {
            Order::Lanes | Order::Blocks => {
                let states = self.done.into_iter().map(|(_, x)| x).rev();
                let joined = states.reduce(|right, x| merger.merge(&x, &right));
                joined.unwrap_or_else(|| merger.identity())
            }
            Order::Free | Order::Scan => self.last,
        }
    }

    fn end_chunk(&mut self) {
        let merger = &mut self.merger;
        let sum = match self.order {
            Order::Lanes => lanes(merger, &self.pending),
            Order::Free | Order::Blocks | Order::Scan => ascending(merger, &self.pending),
        };
        self.pending.clear();
        self.join(sum);
    }

    /// Merges the result of a chunk or block with those before it, by pairwise levels.
    fn join(&mut self, mut sum: State) {
        let merger = &mut self.merger;
        let mut height = 0;
        while let Some((_, left)) = self.done.pop_if(|(other, _)| *other == height) {
            sum = merger.merge(&left, &sum);
            height += 1;
        }
        self.done.push((height, sum));
    }
}

/// The reduction of the elements of one key, in the order by keys.
pub struct ByKey {
    identity: Scalar,
    /// The results of chunks that have an element, with their numbers.
    chunks: Vec<(i64, Scalar)>,
}

impl ByKey {
    /// A reduction of no elements yet.
    pub fn new(monoid: Monoid, dtype: Dtype) -> ByKey {
        ByKey { identity: monoid.identity(dtype), chunks: vec![] }
    }

    /// Takes the next element, which belongs to the chunk of that number.
    pub fn push(&mut self, monoid: Monoid, chunk: i64, value: Scalar) {
        if self.chunks.last().is_none_or(|(last, _)| *last != chunk) {
            self.chunks.push((chunk, self.identity));
        }
        if let Some((_, result)) = self.chunks.last_mut() {
            *result = binary(monoid.primitive(), *result, value);
        }
    }

    /// The result of all elements. A chunk without elements has the identity, which changes
    /// nothing.
    pub fn finish(self, monoid: Monoid) -> Scalar {
        let mut results = self.chunks;
        while results.len() > 1 {
            let mut next: Vec<(i64, Scalar)> = vec![];
            for (number, result) in results {
                match next.last_mut() {
                    Some((pair, left)) if *pair == number / 2 => *left = binary(monoid.primitive(), *left, result),
                    _ => next.push((number / 2, result)),
                }
            }
            results = next;
        }
        results.pop().map_or(self.identity, |(_, result)| result)
    }
}

/// The result of a chunk in the order by lanes.
fn lanes(merger: &mut Merger<'_>, chunk: &[Scalar]) -> State {
    let mut lane = vec![merger.identity(); LANES];
    for (i, x) in chunk.chunks(lane[0].len()).enumerate() {
        lane[i % LANES] = merger.merge(&lane[i % LANES], x);
    }
    let mut h = LANES / 2;
    while h >= 1 {
        for l in 0..h {
            lane[l] = merger.merge(&lane[l], &lane[l + h]);
        }
        h /= 2;
    }
    lane.swap_remove(0)
}

fn ascending(merger: &mut Merger<'_>, elements: &[Scalar]) -> State {
    let identity = merger.identity();
    let width = identity.len();
    elements.chunks(width).fold(identity, |acc, x| merger.merge(&acc, x))
}

/// A scan: takes an element and returns the prefix that ends with it.
pub struct Running {
    order: Order,
    /// The number of elements so far.
    count: usize,
    /// The reduction of all of them, if order does not matter.
    total: State,
    /// The elements of the current group.
    group: Vec<State>,
    carry: State,
    chunk: State,
}

impl Running {
    /// A running reduction in [`Order::Scan`] or [`Order::Free`].
    pub fn new(merger: &Merger<'_>, order: Order) -> Running {
        let e = merger.identity();
        Running { order, count: 0, total: e.clone(), group: vec![], carry: e.clone(), chunk: e }
    }

    /// The reduction of the elements up to and with this one.
    pub fn push(&mut self, merger: &mut Merger<'_>, x: State) -> State {
        self.count += 1;
        if self.order == Order::Scan {
            return self.scan(merger, x);
        }
        self.total = merger.merge(&self.total, &x);
        self.total.clone()
    }

    fn scan(&mut self, merger: &mut Merger<'_>, x: State) -> State {
        self.group.push(x);
        // The prefix of an element in its group depends on no later element, so a partial group
        // serves as well.
        let mut p = self.group.clone();
        let mut d = 1;
        while d < SCAN_GROUP {
            let before = p.clone();
            for i in d..p.len() {
                p[i] = merger.merge(&before[i - d], &before[i]);
            }
            d *= 2;
        }
        let last = p.swap_remove(p.len() - 1);
        let in_chunk = merger.merge(&self.carry, &last);
        let prefix = merger.merge(&self.chunk, &in_chunk);
        if self.group.len() == SCAN_GROUP {
            self.carry = in_chunk;
            self.group.clear();
        }
        if self.count.is_multiple_of(SCAN_CHUNK) {
            self.chunk = merger.merge(&self.chunk, &self.carry);
            self.carry = merger.identity();
        }
        prefix
    }
}
