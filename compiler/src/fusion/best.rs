//! The best partition of a small program: of all ways to part its operations among kernels the one that moves the fewest bytes. To hold
//! the plan against that the passes make.
//!
//! Dynamic programming over the sets of operations that may be done at one time: next runs any group of operations that needs nothing else
//! first. A group moves at least what it loads from outside and stores for others. Only groups on the cheapest way are merged for real, by
//! every merge that is legal and repeats no expensive work, under each order of the passes; then the search goes on with what that gave:
//! the bytes of the kernel, or that there is none. So the first way on which every group is a kernel is the best one, and most of the 2^n
//! groups are never merged.
//!
//! In a partition every operation runs in one kernel. A plan that repeats cheap work in several may move less.

use std::collections::BTreeMap;
use std::convert::Infallible;

use ir::Size;
use ir::nest::{BufferId, KernelId, Program};

use super::cut::Parts;
use super::search::{Cost, ORDERS, cost, run, search};
use super::{Graph, profit};
use crate::analysis::footprint;
use crate::pipeline::{Options, Policy};
use crate::plan::plan;

/// The most operations of a program whose partitions are all looked at.
pub const MAX_OPERATIONS: usize = 14;

/// The best partition of a program, and the plan beside it.
#[derive(Clone, Debug)]
pub struct Best {
    /// The operations of each kernel of the best partition, in an order in which they can run.
    pub kernels: Vec<Vec<KernelId>>,
    /// The bytes that it moves.
    pub bytes: Size,
    /// The bytes that the plan moves for each that the best partition moves, where each size is [`NOMINAL`](crate::analysis::cost::NOMINAL).
    /// Below 1 for a plan that repeats work.
    pub gap: f64,
    /// How many times as long as the plan the best partition takes by the cost model: above 1 where fewer bytes would cost more than they save.
    pub time: f64,
}

/// A set of operations, a bit each.
type Set = usize;

/// The bytes of a group of operations, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Weight {
    /// The bytes that it moves at least.
    AtLeast(f64),
    /// The bytes that it moves, or infinity if it is no kernel.
    Exactly(f64),
}

impl Weight {
    fn bytes(self) -> f64 {
        match self {
            Weight::AtLeast(bytes) | Weight::Exactly(bytes) => bytes,
        }
    }
}

/// The best partition of a program of at most [`MAX_OPERATIONS`] operations, if it has so few.
pub fn best(unfused: &Program, options: &Options) -> Option<Best> {
    let operations: Vec<KernelId> = unfused.kernels.keys().collect();
    if operations.len() > MAX_OPERATIONS {
        return None;
    }
    let mut groups = Groups::new(unfused, &operations);
    let kernels = loop {
        let way = groups.cheapest();
        let open: Vec<Set> = way.iter().copied().filter(|s| matches!(groups.weights[*s], Weight::AtLeast(_))).collect();
        if open.is_empty() {
            break way;
        }
        for set in open {
            let kernel = groups.kernel(set);
            groups.weights[set] = Weight::Exactly(kernel.map_or(f64::INFINITY, |(_, cost)| cost.memory));
        }
    };
    let mut bytes = Size::default();
    let mut least = Cost::default();
    for (size, cost) in kernels.iter().filter_map(|set| groups.kernel(*set)) {
        bytes = &bytes + &size;
        least = least + cost;
    }
    let Ok(graph) = search::<Infallible>(unfused, options, |_, _| Ok(()));
    let plan = cost(&graph);
    let ratio = |a: f64, b: f64| if a == b { 1.0 } else { a / b };
    let kernels = kernels.iter().map(|set| groups.members(*set)).collect();
    Some(Best { kernels, bytes, gap: ratio(plan.memory, least.memory), time: ratio(least.time, plan.time) })
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
        let touched: Vec<BTreeMap<BufferId, f64>> =
            operations.iter().map(|id| profit::touched(unfused, &unfused.kernels[*id]).collect()).collect();
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

    /// The groups of the way to run everything that moves the fewest bytes, as far as is known.
    fn cheapest(&self) -> Vec<Set> {
        let all = self.weights.len() - 1;
        let can_be_done = |set: Set| (0..self.operations.len()).all(|n| set >> n & 1 == 0 || self.needs[n] & !set == 0);
        let states: Vec<bool> = (0..=all).map(can_be_done).collect();
        let mut least = vec![(f64::INFINITY, 0); all + 1];
        least[0] = (0.0, 0);
        for done in (0..=all).filter(|set| states[*set]) {
            let left = all & !done;
            let mut group = left;
            while group != 0 {
                let then = done | group;
                let bytes = least[done].0 + self.weights[group].bytes();
                if states[then] && bytes < least[then].0 {
                    least[then] = (bytes, group);
                }
                group = (group - 1) & left;
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
            Some((bytes, Cost::of(graph.price(id))))
        })
    }
}

/// Who touches a buffer, and how many bytes of it.
struct Flow {
    writer: Set,
    readers: Set,
    is_result: bool,
    /// By each operation.
    bytes: Vec<f64>,
}

/// The fewest bytes that a group moves: those that it loads from others, each buffer once, and those that it stores for others. A group with a
/// part that has nothing to do with the rest is as good as two.
fn least(buffers: &[Flow], set: Set) -> Weight {
    let (mut reached, mut bytes) = (set & set.wrapping_neg(), 0.0);
    for _ in 0..set.count_ones() {
        for who in buffers.iter().map(|flow| flow.writer | flow.readers) {
            reached |= if who & reached == 0 { 0 } else { who & set };
        }
    }
    if reached != set {
        return Weight::Exactly(f64::INFINITY);
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
    Weight::AtLeast(bytes)
}
