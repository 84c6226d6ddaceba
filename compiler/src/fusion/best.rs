//! Finds the best partition of a small program: of all ways to distribute its operations over
//! kernels, the one that moves the fewest bytes. Plans are compared with it.
//!
//! Dynamic programming over the sets of operations that may have run at some time: the next kernel
//! is any group of operations that needs nothing else first. A group moves at least the elements
//! that it loads from outside and stores for others. Only groups on the cheapest way are actually
//! merged, by every merge that is legal and repeats no expensive work, under each order of the
//! passes. Then the search continues with the result: the bytes of the kernel, or that there is
//! none. So the first way on which every group is a kernel is the best one, and most of the 2^n
//! groups are never merged.
//!
//! The partition that moves the fewest bytes may take longer than the plan, because it repeats
//! cheap work so often that moving bytes costs less, or has too few iterations for all cores. So
//! the search continues to the best of those that take no longer, with every way to a set of
//! operations that is not worse than another in both bytes and time.
//!
//! In a partition every operation runs in one kernel. A plan that repeats cheap work in several
//! kernels may move less.

use std::collections::BTreeMap;
use std::convert::Infallible;

use ir::Size;
use ir::choice::Policy;
use ir::nest::{BufferId, KernelId, Program};

use super::cut::Parts;
use super::search::{Cost, ORDERS, cost, run, search};
use super::{Graph, profit};
use crate::analysis::cost::Machine;
use crate::analysis::footprint;
use crate::pipeline::Options;
use crate::plan::plan;

/// The maximum number of operations of a program for which all partitions are searched.
pub const MAX_OPERATIONS: usize = 14;

/// The best partition of a program, compared with the plan.
#[derive(Clone, Debug)]
pub struct Best {
    /// The operations of each kernel of the best partition, in an order in which they can run.
    pub kernels: Vec<Vec<KernelId>>,
    /// The bytes that it moves.
    pub bytes: Size,
    /// The bytes of the plan relative to those of the best partition, with each size at
    /// [`NOMINAL`](crate::analysis::cost::NOMINAL). Below 1 for a plan that repeats work.
    pub gap: f64,
    /// The time of the best partition relative to that of the plan, by the cost model: above 1 if
    /// moving fewer bytes costs more than it saves.
    pub time: f64,
    /// The bytes of the plan relative to the fewest of all partitions that take no longer than the
    /// plan: 1 if none of them moves fewer.
    pub no_slower: f64,
}

/// A set of operations, a bit each.
type Set = usize;

/// The cost of a group of operations, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Weight {
    /// A lower bound on its cost.
    AtLeast(Cost),
    /// Its cost; `None` if it cannot be one kernel.
    Exactly(Option<Cost>),
}

impl Weight {
    fn cost(self) -> Cost {
        match self {
            Weight::AtLeast(cost) | Weight::Exactly(Some(cost)) => cost,
            Weight::Exactly(None) => Cost { time: f64::INFINITY, memory: f64::INFINITY },
        }
    }
}

/// The best partition of a program, unless it has more than [`MAX_OPERATIONS`] operations.
pub fn best(unfused: &Program, options: &Options) -> Option<Best> {
    let operations: Vec<KernelId> = unfused.kernels.keys().collect();
    if operations.len() > MAX_OPERATIONS {
        return None;
    }
    let mut groups = Groups::new(unfused, &operations);
    let kernels = groups.known(Groups::cheapest);
    let mut bytes = Size::default();
    let mut least = Cost::default();
    for (size, cost) in kernels.iter().filter_map(|set| groups.kernel(*set)) {
        bytes = &bytes + &size;
        least = least + cost;
    }
    let Ok(graph) = search::<Infallible>(unfused, options, |_, _| Ok(()));
    let plan = cost(&graph);
    let ratio = |a: f64, b: f64| if a == b { 1.0 } else { a / b };
    let (gap, time) = (ratio(plan.memory, least.memory), ratio(least.time, plan.time));
    let no_slower = if time <= 1.0 || gap <= 1.0 {
        gap.max(1.0)
    } else {
        let way = groups.known(|groups| groups.cheaper_than(&plan));
        let memory = way.iter().map(|set| groups.weights[*set].cost().memory).sum();
        if way.is_empty() { 1.0 } else { ratio(plan.memory, memory) }
    };
    let kernels = kernels.iter().map(|set| groups.members(*set)).collect();
    Some(Best { kernels, bytes, gap, time, no_slower })
}

struct Groups<'p> {
    unfused: &'p Program,
    operations: &'p [KernelId],
    /// The operations that must run before each.
    needs: Vec<Set>,
    weights: Vec<Weight>,
}

impl<'p> Groups<'p> {
    fn new(unfused: &'p Program, operations: &'p [KernelId]) -> Groups<'p> {
        let graph = Graph::new(unfused, &Options::default());
        let number = |id: KernelId| operations.iter().position(|other| *other == id).map_or(0, |n| 1 << n);
        let set = |ids: &mut dyn Iterator<Item = KernelId>| ids.fold(0, |set: Set, id| set | number(id));
        let needs = operations.iter().map(|id| set(&mut graph.producers(*id).into_iter())).collect();
        let touched = |id: &KernelId| -> BTreeMap<BufferId, f64> {
            let runs = graph.runs(*id);
            profit::touched(unfused, &unfused.kernels[*id]).map(|(buffer, bytes)| (buffer, runs * bytes)).collect()
        };
        let touched: Vec<_> = operations.iter().map(touched).collect();
        let buffers: Vec<Flow> = unfused
            .buffers
            .keys()
            .map(|buffer| Flow {
                writer: set(&mut graph.writer(buffer).into_iter()),
                readers: set(&mut graph.readers(buffer)),
                is_result: graph.is_result(buffer),
                bytes: touched.iter().map(|of| of.get(&buffer).copied().unwrap_or(0.0)).collect(),
            })
            .collect();
        let weights = (0..1 << operations.len()).map(|set| least(&buffers, set)).collect();
        Groups { unfused, operations, needs, weights }
    }

    fn members(&self, set: Set) -> Vec<KernelId> {
        self.operations.iter().enumerate().filter(|(n, _)| set >> n & 1 != 0).map(|(_, id)| *id).collect()
    }

    /// The first way that a search finds on which the cost of each group is known. The search is
    /// repeated as costs become known.
    fn known(&mut self, search: impl Fn(&Self) -> Vec<Set>) -> Vec<Set> {
        loop {
            let way = search(self);
            let is_open = |set: &Set| matches!(self.weights[*set], Weight::AtLeast(_));
            let open: Vec<Set> = way.iter().copied().filter(is_open).collect();
            if open.is_empty() {
                return way;
            }
            for set in open {
                self.weights[set] = Weight::Exactly(self.kernel(set).map(|(_, cost)| cost));
            }
        }
    }

    /// The sets of operations that can have run at some time.
    fn states(&self) -> Vec<bool> {
        let can_be_done = |set: Set| (0..self.operations.len()).all(|n| set >> n & 1 == 0 || self.needs[n] & !set == 0);
        (0..self.weights.len()).map(can_be_done).collect()
    }

    /// The groups of the way to run everything that moves the fewest bytes, as far as is known.
    fn cheapest(&self) -> Vec<Set> {
        let all = self.weights.len() - 1;
        let states = self.states();
        let mut least = vec![(f64::INFINITY, 0); all + 1];
        least[0] = (0.0, 0);
        for done in (0..=all).filter(|set| states[*set]) {
            for group in groups_of(all & !done) {
                let then = done | group;
                let bytes = least[done].0 + self.weights[group].cost().memory;
                if states[then] && bytes < least[then].0 {
                    least[then] = (bytes, group);
                }
            }
        }
        let (mut way, mut done) = (vec![], all);
        while done != 0 {
            way.push(least[done].1);
            done &= !least[done].1;
        }
        way.reverse();
        way
    }

    /// The groups of the way to run everything that moves the fewest bytes among those that take no
    /// longer than a plan, as far as is known; `None` if no such way moves fewer bytes than the
    /// plan.
    fn cheaper_than(&self, plan: &Cost) -> Vec<Set> {
        let all = self.weights.len() - 1;
        let states = self.states();
        // The fewest bytes that what is left moves.
        let mut left = vec![f64::INFINITY; all + 1];
        left[all] = 0.0;
        for done in (0..all).rev().filter(|set| states[*set]) {
            left[done] = groups_of(all & !done)
                .filter(|group| states[done | group])
                .map(|group| self.weights[group].cost().memory + left[done | group])
                .fold(f64::INFINITY, f64::min);
        }
        let mut ways = vec![Way { cost: Cost::default(), last: 0, before: 0 }];
        let mut to: Vec<Vec<usize>> = vec![vec![]; all + 1];
        to[0].push(0);
        for done in (0..all).filter(|set| states[*set]) {
            for before in std::mem::take(&mut to[done]) {
                for group in groups_of(all & !done).filter(|group| states[done | group]) {
                    let cost = ways[before].cost + self.weights[group].cost();
                    let memory = cost.memory + left[done | group];
                    let is_worse = |way: &usize| {
                        let other = &ways[*way].cost;
                        other.memory <= cost.memory && other.time <= cost.time
                    };
                    if memory < (1.0 - 1e-9) * plan.memory
                        && cost.time <= plan.time
                        && !to[done | group].iter().any(is_worse)
                    {
                        to[done | group].push(ways.len());
                        ways.push(Way { cost, last: group, before });
                    }
                }
            }
        }
        let best = to[all].iter().min_by(|a, b| ways[**a].cost.memory.total_cmp(&ways[**b].cost.memory));
        let steps = std::iter::successors(best.map(|best| &ways[*best]), |way| Some(&ways[way.before]));
        steps.map(|way| way.last).take_while(|group| *group != 0).collect()
    }

    /// The cost of a group as one kernel, if it can be one, and its bytes as a formula.
    fn kernel(&self, set: Set) -> Option<(Size, Cost)> {
        let members = self.members(set);
        let options = Options { policy: Policy::Legal, ..Options::default() };
        ORDERS.iter().find_map(|order| {
            let mut graph = Graph::new(self.unfused, &options);
            graph.cut(Parts::together(self.operations, &members));
            let Ok(()) = run::<Infallible>(&mut graph, order, &mut |_, _| Ok(()));
            let id = graph.kernels().find(|id| graph.members(*id) == members)?;
            // Values that stay within an iteration are not in memory.
            let mut planned = graph.program();
            plan(&mut planned);
            let moved = footprint::symbolic(&planned, &planned.kernels[id]);
            let bytes = moved.iter().fold(Size::default(), |sum, moved| &sum + &moved.bytes);
            let bytes = planned.trips()[id].iter().fold(bytes, |product, trips| &product * trips);
            Some((bytes, Cost::of(graph.price(id), graph.runs(id))))
        })
    }
}

/// A way to a set of operations.
struct Way {
    cost: Cost,
    /// The group that runs last, or nothing at the beginning.
    last: Set,
    /// The number of the way without it.
    before: usize,
}

/// All groups of some operations except the empty one.
fn groups_of(operations: Set) -> impl Iterator<Item = Set> {
    let next = move |group: &Set| Some((group - 1) & operations).filter(|group| *group != 0);
    std::iter::successors(Some(operations).filter(|all| *all != 0), next)
}

/// The operations that access a buffer, and its bytes.
struct Flow {
    writer: Set,
    readers: Set,
    is_result: bool,
    /// By each operation.
    bytes: Vec<f64>,
}

/// A lower bound on the cost of a group: it moves the bytes that it loads from others, each buffer
/// once, and those that it stores for others. A group with a part unrelated to the rest is no
/// better than two groups.
fn least(buffers: &[Flow], set: Set) -> Weight {
    let (mut reached, mut bytes) = (set & set.wrapping_neg(), 0.0);
    for _ in 0..set.count_ones() {
        for who in buffers.iter().map(|flow| flow.writer | flow.readers) {
            reached |= if who & reached == 0 { 0 } else { who & set };
        }
    }
    if reached != set {
        return Weight::Exactly(None);
    }
    for flow in buffers {
        let of = |who: Set| {
            let touching = flow.bytes.iter().enumerate().filter(|(n, _)| who >> n & 1 != 0);
            touching.map(|(_, bytes)| *bytes).fold(0.0, f64::max)
        };
        if flow.writer & set == 0 {
            bytes += of(flow.readers & set);
        } else if flow.is_result || flow.readers & !set != 0 {
            bytes += of(flow.writer);
        }
    }
    let machine = Machine::NOMINAL;
    Weight::AtLeast(Cost { time: machine.launch + machine.time(0.0, 0.0, bytes), memory: bytes })
}
