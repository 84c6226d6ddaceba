//! The choice among plans. A pass takes each edge that pays by itself, and what it takes is gone for the passes that follow. So one order of
//! the passes is best for one program and another for another, and a pass may do more harm than good. The search follows the passes in every
//! order from plan to plan, as long as compiling stays quick. Where two ways come to the same kernels it goes on from there once, and a
//! pair of kernels is merged once, whichever plans merge it: so most plans cost little. The cost of a whole plan decides: its time by the cost model, and among
//! plans that are about as fast the bytes that it moves.
//!
//! The search ends early with a plan that cannot be better: nothing moves but each array of the caller once, and that takes about as long
//! as it must.
//!
//! A program that is larger than a kernel may be is first fused in parts, cut where the fewest bytes cross.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Add;

use ir::decision::FusionPass::{self, Kinput, Kloop, Koutput, Nest, Siblings};
use ir::nest::{BufferId, Program};

use super::cut::{self, Parts};
use super::{Graph, kinput, kloop, koutput, nest, profit, siblings};
use crate::analysis::cost::{Machine, Price};
use crate::pipeline::{Options, Policy};

/// The orders of passes that are tried before all others, the usual one first. Of all 325 orders of one to five passes these six hold the best plan of
/// 1,874 of 1,884 random programs.
pub(super) const ORDERS: &[&[FusionPass]] = &[
    &[Kloop, Kinput, Siblings, Nest, Koutput],
    &[Koutput, Siblings, Nest, Kloop, Kinput],
    &[Kinput, Kloop, Koutput, Nest, Siblings],
    &[Nest, Kinput, Siblings, Kloop, Koutput],
    &[Koutput, Siblings, Kinput, Kloop, Nest],
    &[Kloop, Nest, Kinput, Koutput],
];

/// Plans count as equally fast if none takes more than this many times as long as the fastest.
const AS_FAST: f64 = 1.02;

/// How much work the search does beyond the first plan, see [`Plans::work`]: compiling has to stay quick.
const EFFORT: u64 = 4_000;

/// The cheapest plan. `check` looks at the first plan after each pass that has changed it.
pub fn search<E>(
    unfused: &Program,
    options: &Options,
    mut check: impl FnMut(FusionPass, &Graph) -> Result<(), E>,
) -> Result<Graph, E> {
    let mut begin = Graph::new(unfused, options);
    begin.cut(cut::parts(&begin));
    let mut plans = Plans::new(begin);
    let mut first = 0;
    for step in plans.steps(ORDERS[0]) {
        let Some(next) = plans.after(first, step) else { break };
        if let (true, Step::Pass(pass)) = (next != first, step) {
            check(pass, &plans.all[next].graph)?;
        }
        first = next;
    }
    let chooses = options.policy == Policy::Model && options.fuel.is_none();
    if !chooses {
        return Ok(plans.all.swap_remove(first).graph);
    }
    plans.end = plans.work() + EFFORT;
    plans.explore();
    let best = plans.best();
    let others: Vec<usize> = FusionPass::ALL.iter().filter_map(|pass| plans.after(best, Step::Pass(*pass))).collect();
    let mut graph = plans.all[best].graph.clone();
    for other in [first].into_iter().chain(others) {
        graph.prefer_to(&plans.all[other].graph);
    }
    Ok(graph)
}

/// What makes one plan of another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A pass.
    Pass(FusionPass),
    /// Kernels on both sides of a cut may be small enough now.
    Lift,
}

/// A plan on the way.
struct Plan {
    graph: Graph,
    cost: Cost,
}

impl Plan {
    /// Whether no plan can be better, but for how often one kernel goes over what is in caches.
    fn is_least(&self, least: &Least) -> bool {
        if self.cost.memory > (1.0 + 1e-9) * least.memory {
            return false;
        }
        let mut kernels = self.graph.kernels();
        let only = kernels.next().filter(|_| kernels.next().is_none()).map(|id| self.graph.price(id));
        only.is_some_and(|only| only.operations <= least.operations) || self.cost.time <= AS_FAST * least.time()
    }
}

/// The plans that have been found.
struct Plans {
    all: Vec<Plan>,
    /// By the numbers of their kernels, and whether cuts are in force.
    known: BTreeMap<(Vec<u32>, bool), usize>,
    /// The plan that each step makes of another.
    after: BTreeMap<(usize, Step), usize>,
    /// How many lines have been gone over.
    lines: u64,
    /// How much work may be done.
    end: u64,
}

impl Plans {
    fn new(begin: Graph) -> Plans {
        let mut plans = Plans { all: vec![], known: BTreeMap::new(), after: BTreeMap::new(), lines: 0, end: u64::MAX };
        plans.enter(begin);
        plans
    }

    fn enter(&mut self, graph: Graph) -> usize {
        let Plans { all, known, .. } = self;
        *known.entry((graph.numbers(), graph.parts().are_several())).or_insert_with(|| {
            all.push(Plan { cost: cost(&graph), graph });
            all.len() - 1
        })
    }

    /// The steps of an order: where there are cuts, first within the parts and then across.
    fn steps(&self, order: &[FusionPass]) -> Vec<Step> {
        let passes = || order.iter().copied().map(Step::Pass);
        if self.all[0].graph.parts().are_several() {
            passes().chain([Step::Lift]).chain(passes()).collect()
        } else {
            passes().collect()
        }
    }

    /// The plan that a step makes of one, unless it is not known and finding it takes too much work.
    fn after(&mut self, plan: usize, step: Step) -> Option<usize> {
        if let Some(known) = self.after.get(&(plan, step)) {
            return Some(*known);
        }
        let graph = &self.all[plan].graph;
        let lines = graph.kernels().map(|id| graph.price(id).lines).sum::<u64>();
        if self.work().saturating_add(lines) > self.end {
            return None;
        }
        self.lines += lines;
        let mut graph = graph.clone();
        let changed = match step {
            Step::Pass(pass) => apply(&mut graph, pass),
            Step::Lift => graph.cut(Parts::default()).are_several(),
        };
        let next = if changed {
            self.enter(graph)
        } else {
            // It knows now why the pass merges nothing.
            self.all[plan].graph = graph;
            plan
        };
        self.after.insert((plan, step), next);
        Some(next)
    }

    /// Finds plans until there are no others, one cannot be better, or enough work is done.
    fn explore(&mut self) {
        let least = least(&self.all[0].graph);
        let is_least = |plan: &Plan| least.as_ref().is_some_and(|least| plan.is_least(least));
        for order in ORDERS {
            if self.all.iter().any(is_least) {
                return;
            }
            self.steps(order).into_iter().try_fold(0, |plan, step| self.after(plan, step));
        }
        let steps: Vec<Step> = FusionPass::ALL.iter().copied().map(Step::Pass).chain([Step::Lift]).collect();
        let mut plan = 0;
        while plan < self.all.len() && !self.all.iter().any(is_least) {
            for step in &steps {
                self.after(plan, *step);
            }
            plan += 1;
        }
    }

    /// The work that has been done: lines gone over, where a line that is rewritten counts as three.
    fn work(&self) -> u64 {
        self.lines + 3 * self.all[0].graph.lines_rewritten()
    }

    /// The cheapest plan.
    fn best(&self) -> usize {
        let fastest = self.all.iter().map(|plan| plan.cost.time).fold(f64::INFINITY, f64::min);
        let fast = (0..self.all.len()).filter(|n| self.all[*n].cost.time <= AS_FAST * fastest);
        let key = |n: &usize| (self.all[*n].cost.memory, self.all[*n].cost.time);
        fast.min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal)).unwrap_or(0)
    }
}

/// Runs passes over a graph.
pub(super) fn run<E>(
    graph: &mut Graph,
    order: &[FusionPass],
    check: &mut impl FnMut(FusionPass, &Graph) -> Result<(), E>,
) -> Result<(), E> {
    for pass in order {
        if apply(graph, *pass) {
            check(*pass, graph)?;
        }
    }
    Ok(())
}

/// Runs a pass over a graph, if it may run; says whether it changed anything.
fn apply(graph: &mut Graph, pass: FusionPass) -> bool {
    let changed = graph.begin(pass) && of(pass)(graph);
    if changed {
        graph.settle();
    }
    changed
}

fn of(pass: FusionPass) -> fn(&mut Graph) -> bool {
    match pass {
        Kloop => kloop::run,
        Kinput => kinput::run,
        Siblings => siblings::run,
        Nest => nest::run,
        Koutput => koutput::run,
    }
}

/// The cost of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The time of all kernels in nanoseconds.
    pub time: f64,
    /// The bytes that cross between memory and caches.
    pub memory: f64,
}

impl Cost {
    /// The cost of a kernel.
    pub(super) fn of(price: &Price) -> Cost {
        Cost { time: price.time, memory: price.memory }
    }

    /// Whether another plan would have been better: faster, or no slower with fewer bytes.
    pub fn is_beaten_by(&self, other: &Cost) -> bool {
        AS_FAST * other.time < self.time || (other.time <= self.time && other.memory < self.memory)
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost { time: self.time + other.time, memory: self.memory + other.memory }
    }
}

/// The cost of a plan, at nominal sizes.
pub fn cost(graph: &Graph) -> Cost {
    graph.kernels().map(|id| Cost::of(graph.price(id))).fold(Cost::default(), Cost::add)
}

/// The least that any plan costs: each array of the caller moves once, and each operation is executed as often as in the unfused program.
struct Least {
    memory: f64,
    operations: f64,
}

impl Least {
    fn time(&self) -> f64 {
        let machine = Machine::NOMINAL;
        machine.launch + machine.time(self.operations, self.memory, self.memory)
    }
}

/// The least that any plan of a program costs. None if that has results of which not all is used: what computes these may compute less.
fn least(unfused: &Graph) -> Option<Least> {
    let mut moved: BTreeMap<BufferId, f64> = BTreeMap::new();
    let mut stored = vec![];
    for id in unfused.kernels() {
        for (buffer, bytes) in profit::touched(unfused.frame(), unfused.kernel(id)) {
            if unfused.stores(id).contains(&buffer) {
                stored.push((buffer, bytes));
            } else {
                let most = moved.entry(buffer).or_default();
                *most = most.max(bytes);
            }
        }
    }
    for (buffer, bytes) in stored {
        let used = moved.remove(&buffer);
        if unfused.is_result(buffer) {
            moved.insert(buffer, bytes);
        } else if used? < bytes {
            return None;
        }
    }
    let operations = unfused.kernels().map(|id| unfused.price(id).operations).sum();
    Some(Least { memory: moved.values().sum(), operations })
}
