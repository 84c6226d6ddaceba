//! The choice among plans. A pass takes each merge that pays by itself, which the later passes can
//! then no longer use. So different orders of the passes are best for different programs, and a
//! pass may do more harm than good. The search follows the passes in every order from plan to plan,
//! as long as compiling stays quick. If two ways lead to the same kernels, it continues from there
//! only once, and a pair of kernels is merged only once, whichever plans merge it, so most plans
//! cost little. The cost of a whole plan decides: its time by the cost model; among plans that are
//! about as fast, the bytes that it moves; and among those, the memory that a call takes. In the
//! end the passes run over the best plan once more, and may make it insignificantly slower to move
//! fewer bytes.
//!
//! The search ends early with a plan that cannot be improved: only the arrays of the caller move,
//! once each; and either computing takes no additional time, or the plan is one loop that executes
//! no more operations than the unfused program, and every operation depends on all indices of the
//! loop.
//!
//! A program that is too large for one kernel is first fused in parts, cut where the fewest bytes
//! cross.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;

use ir::choice::Policy;
use ir::decision::FusionPass::{self, Kinput, Kloop, Koutput, Nest, Siblings};
use ir::decision::Passes;
use ir::nest::{BufferId, IndexId, Loop, Program, Statement, ValueId};
use ir::visit;

use super::cut::{self, Parts};
use super::profit::TimeLimit;
use super::{Graph, kinput, kloop, koutput, nest, profit, siblings};
use crate::analysis::cost::{Machine, Price, nominal};
use crate::pipeline::Options;
use crate::plan::peak::Peak;
use crate::plan::plan;

/// The orders of passes that are tried before all others, the usual one first. Of all 325 orders of
/// one to five passes, these six include the best one for 1,874 of 1,884 random programs.
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

/// Bytes count as equal up to this factor, since prices are floating-point numbers.
const SAME: f64 = 1.0 + 1e-9;

/// A plan needs no more memory than the unfused program if it needs at most this many times as
/// much.
const AS_MUCH: f64 = 1.02;

/// The work that the search may do to follow orders of passes beyond the usual one, see
/// [`Plans::work`]: compiling has to stay quick.
const EFFORT: u64 = 20_000;

/// For programs of up to this many lines before fusion, the search follows the usual order with
/// each set of passes alone, whatever work that takes. This is about 500 operations, and takes a
/// tenth of a second.
const ALL_SETS: u64 = 2_500;

/// The work that it may do to try further passes on the plans.
const FURTHER_EFFORT: u64 = 3_000;

/// The cheapest plan. `check` is called with the first plan after each pass that has changed it.
///
/// If only some passes may run, their plan is chosen among those that the search of all passes
/// finds on its way. So no plan is worse than one of fewer passes, except for programs of hundreds
/// of operations, where the search does not follow all ways.
pub fn search<E>(
    unfused: &Program,
    options: &Options,
    mut check: impl FnMut(FusionPass, &Graph) -> Result<(), E>,
) -> Result<Graph, E> {
    let chooses = options.policy == Policy::Model && options.fuel.is_none();
    let mut begin = Graph::new(unfused, options);
    begin.cut(cut::parts(&begin));
    let mut plans = Plans::new(begin);
    if chooses && options.fuse != Passes::NONE {
        plans.explore();
    }
    plans.end = None;
    let mut first = 0;
    for step in plans.steps(ORDERS[0], options.fuse) {
        let Some(next) = plans.after(first, step) else { break };
        if let (true, Step::Pass(pass)) = (next != first, step) {
            check(pass, &plans.all[next].graph)?;
        }
        first = next;
    }
    if !chooses {
        return Ok(plans.all.swap_remove(first).graph);
    }
    let found = plans.found(options.fuse);
    let best = plans.best(found.plans.clone());
    plans.end = Some(plans.work() + FURTHER_EFFORT);
    let passes = FusionPass::ALL.iter().copied().filter(|pass| options.fuse.contains(*pass));
    let others: Vec<usize> = passes.filter_map(|pass| plans.after(best, Step::Pass(pass))).collect();
    let mut graph = plans.replayed(best, &found, options.fuse);
    // Pairs that one of these plans fuses are reported as apart because this plan is better.
    for other in [first].into_iter().chain(others) {
        graph.prefer_to(&plans.all[other].graph);
    }
    Ok(graph)
}

/// A step from one plan to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A pass.
    Pass(FusionPass),
    /// A pass that may also make a plan slower, up to [`Plans::limit`], if that moves fewer bytes.
    Spend(FusionPass),
    /// Lifts the cuts: kernels on both sides may be small enough now.
    Lift,
}

/// A plan on the way.
struct Plan {
    graph: Graph,
    cost: Cost,
    peak: OnceCell<u128>,
}

impl Plan {
    /// The memory that a call takes, see [`peak`].
    fn peak(&self) -> u128 {
        *self.peak.get_or_init(|| peak(&self.graph))
    }

    /// Whether there is only one kernel, which stores nothing for another.
    fn is_one(&self) -> bool {
        self.graph.kernels().nth(1).is_none()
    }

    /// Whether no plan can be better.
    fn is_least(&self, least: &Least) -> bool {
        let computes_nothing_twice = || {
            let Some(l) = self.one_loop() else { return false };
            let only = self.graph.kernels().next();
            let (price, runs) = only.map(|id| (*self.graph.price(id), self.graph.runs(id))).unwrap_or_default();
            // It touches each element once, along its arrays, and no core is idle.
            let machine = Machine::NOMINAL;
            let at_best = machine.launch + machine.time(price.operations, price.memory, price.memory);
            runs * price.operations <= least.operations && price.time <= AS_FAST * at_best && depends_on_all(l)
        };
        let takes_no_time = self.cost.time <= AS_FAST * least.cost.time;
        self.cost.memory <= SAME * least.cost.memory && (takes_no_time || computes_nothing_twice())
    }

    /// The loop, if there is one kernel with no other loop.
    fn one_loop(&self) -> Option<&Loop> {
        let mut loops = vec![];
        for id in self.graph.kernels() {
            visit::for_each_statement(&self.graph.kernel(id).body, &mut |s| {
                if s.repeats() {
                    loops.push(s);
                }
            });
        }
        if let ([Statement::Loop(only)], true) = (&loops[..], self.is_one()) { Some(only) } else { None }
    }
}

/// Whether every operation of a loop's body depends on all indices of the loop, so that no other
/// loops would execute it less often.
fn depends_on_all(l: &Loop) -> bool {
    let mut along: BTreeMap<ValueId, BTreeSet<IndexId>> = BTreeMap::new();
    l.body.iter().all(|statement| match statement {
        Statement::Let { value, op } => {
            let mut indices = BTreeSet::new();
            visit::for_each_use(statement, &mut |used| indices.extend(along.get(&used).into_iter().flatten()));
            op.for_each_affine(&mut |a| indices.extend(a.terms().iter().map(|(index, _)| *index)));
            let depends = indices.len() == l.dims.len();
            along.insert(*value, indices);
            depends || !op.is_arithmetic()
        }
        Statement::Store { .. } => true,
        Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::Loop(_)
        | Statement::While(_)
        | Statement::Contract(_) => false,
    })
}

/// The plans that some steps lead to from the unfused program, which is the first.
struct Found {
    plans: Vec<usize>,
    /// The plan before each, and the steps from there; the last step makes the plan.
    from: BTreeMap<usize, (usize, Vec<Step>)>,
}

impl Default for Found {
    fn default() -> Found {
        Found { plans: vec![0], from: BTreeMap::new() }
    }
}

impl Found {
    /// Records a plan and the way to it, unless another way to it is known.
    fn note(&mut self, plan: usize, from: (usize, Vec<Step>)) {
        if plan != 0 && !self.from.contains_key(&plan) {
            self.plans.push(plan);
            self.from.insert(plan, from);
        }
    }
}

/// The plans that have been found.
struct Plans {
    all: Vec<Plan>,
    /// By the numbers of their kernels, and whether cuts are in force.
    known: BTreeMap<(Vec<u32>, bool), usize>,
    /// The plan that each step makes of another.
    after: BTreeMap<(usize, Step), usize>,
    /// A lower bound on the cost of every plan.
    least: Option<Least>,
    /// Whether a plan has been found that cannot be improved.
    done: bool,
    /// The longest time that a plan may take to be about as fast as the fastest, once that has been
    /// found.
    limit: TimeLimit,
    /// How many lines have been gone over.
    lines: u64,
    /// The limit on the work, if there is one.
    end: Option<u64>,
}

impl Plans {
    fn new(begin: Graph) -> Plans {
        let least = least(&begin);
        let (known, after) = Default::default();
        let mut plans = Plans { all: vec![], known, after, least, done: false, limit: None, lines: 0, end: None };
        plans.enter(begin);
        plans
    }

    fn enter(&mut self, graph: Graph) -> usize {
        let key = (graph.numbers(), graph.parts().are_several());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let plan = Plan { cost: cost(&graph), graph, peak: OnceCell::new() };
        if self.least.as_ref().is_some_and(|least| plan.is_least(least)) {
            self.done = true;
        }
        self.known.insert(key, self.all.len());
        self.all.push(plan);
        self.all.len() - 1
    }

    /// The steps of an order, without disabled passes: if there are cuts, first within the parts
    /// and then across.
    fn steps(&self, order: &[FusionPass], on: Passes) -> Vec<Step> {
        let passes = || order.iter().copied().filter(|pass| on.contains(*pass)).map(Step::Pass);
        if self.all[0].graph.parts().are_several() {
            passes().chain([Step::Lift]).chain(passes()).collect()
        } else {
            passes().collect()
        }
    }

    /// Takes a step; says whether it changed anything.
    fn take(&self, graph: &mut Graph, step: Step) -> bool {
        match step {
            Step::Pass(pass) => apply(graph, pass, None),
            Step::Spend(pass) => apply(graph, pass, self.limit),
            Step::Lift => graph.cut(Parts::default()).are_several(),
        }
    }

    /// The plan that a step makes of another one, unless it is not known and finding it takes too
    /// much work.
    fn after(&mut self, plan: usize, step: Step) -> Option<usize> {
        if let Some(known) = self.after.get(&(plan, step)) {
            return Some(*known);
        }
        let lines = self.lines_of(plan);
        if self.end.is_some_and(|end| self.work() + lines > end) {
            return None;
        }
        self.lines += lines;
        let mut graph = self.all[plan].graph.clone();
        let changed = self.take(&mut graph, step);
        let next = if changed { self.enter(graph) } else { plan };
        self.after.insert((plan, step), next);
        Some(next)
    }

    /// Finds plans until there are no others, one cannot be improved, or the work reaches its
    /// limit: those of some orders, and those that further passes make of these.
    fn explore(&mut self) {
        let mut found = Found::default();
        self.follow(ORDERS[0], Passes::ALL, &mut found);
        if self.done {
            return;
        }
        let begin = self.work();
        self.end = (self.lines_of(0) > ALL_SETS).then_some(begin + EFFORT);
        self.follow_sets(Passes::ALL, &mut found);
        self.end = Some(begin + EFFORT);
        self.follow_orders(Passes::ALL, &mut found);
        self.end = Some(self.work() + FURTHER_EFFORT);
        self.go_on(Passes::ALL, |pass| vec![Step::Pass(pass)], &mut found);
        let fastest = found.plans.iter().map(|n| self.all[*n].cost.time).fold(f64::INFINITY, f64::min);
        self.limit = Some(AS_FAST * fastest);
        let best = self.best(found.plans);
        let steps = FusionPass::ALL.iter().map(|pass| Step::Spend(*pass));
        steps.into_iter().try_fold(best, |plan, step| self.after(plan, step));
    }

    /// The plans that some passes make, as far as they are known.
    fn found(&mut self, on: Passes) -> Found {
        self.end = Some(0);
        let mut found = Found::default();
        self.follow(ORDERS[0], on, &mut found);
        self.follow_sets(on, &mut found);
        self.follow_orders(on, &mut found);
        self.go_on(on, |pass| vec![Step::Pass(pass), Step::Spend(pass)], &mut found);
        found
    }

    /// Follows the usual order with each set of the passes alone.
    fn follow_sets(&mut self, on: Passes, found: &mut Found) {
        Passes::sets().filter(|some| on.includes(*some)).for_each(|some| self.follow(ORDERS[0], some, found));
    }

    /// Follows the other orders with all passes.
    fn follow_orders(&mut self, on: Passes, found: &mut Found) {
        ORDERS[1..].iter().for_each(|order| self.follow(order, on, found));
    }

    fn follow(&mut self, order: &[FusionPass], on: Passes, found: &mut Found) {
        let (mut plan, mut taken) = (0, vec![]);
        for step in self.steps(order, on) {
            let Some(next) = self.after(plan, step) else { break };
            taken.push(step);
            if next != plan {
                found.note(next, (plan, std::mem::take(&mut taken)));
                plan = next;
            }
        }
    }

    /// Applies some steps to the plans that have been found, within the limits of the search.
    fn go_on(&mut self, on: Passes, steps: fn(FusionPass) -> Vec<Step>, found: &mut Found) {
        let passes = FusionPass::ALL.iter().copied().filter(|pass| on.contains(*pass));
        let steps: Vec<Step> = passes.flat_map(steps).chain([Step::Lift]).collect();
        let mut n = 0;
        while let Some(plan) = found.plans.get(n).copied() {
            for step in &steps {
                if let Some(next) = self.after(plan, *step) {
                    found.note(next, (plan, vec![*step]));
                }
            }
            n += 1;
        }
    }

    /// A plan, with the decisions of the passes on a way to it, and the final ones.
    fn replayed(&self, plan: usize, found: &Found, on: Passes) -> Graph {
        let mut way: Vec<&(usize, Vec<Step>)> =
            std::iter::successors(found.from.get(&plan), |(before, _)| found.from.get(before)).collect();
        way.reverse();
        let mut graph = self.all[0].graph.clone();
        way.into_iter().flat_map(|(_, steps)| steps).for_each(|step| _ = self.take(&mut graph, *step));
        if graph.numbers() != self.all[plan].graph.numbers() {
            // Equivalent kernels may differ in the order of their statements, and a pass may be
            // able to do more with one than with the other.
            graph = self.all[plan].graph.clone();
        }
        for pass in FusionPass::ALL.iter().filter(|pass| on.contains(**pass)) {
            let mut asked = graph.clone();
            if !apply(&mut asked, *pass, None) {
                graph = asked;
            }
        }
        graph
    }

    /// The lines of a plan's kernels.
    fn lines_of(&self, plan: usize) -> u64 {
        let graph = &self.all[plan].graph;
        graph.kernels().map(|id| graph.price(id).lines).sum()
    }

    /// The work done: lines visited, where a rewritten line counts as three.
    fn work(&self) -> u64 {
        self.lines + 3 * self.all[0].graph.lines_rewritten()
    }

    /// The best of some plans (the first is the unfused program). It is the cheapest, except that
    /// each byte of memory beyond the need of the cheapest plan that needs no more than the unfused
    /// program counts as one that it moves.
    fn best(&self, mut found: Vec<usize>) -> usize {
        let unfused = found[0];
        let fits = |n: usize| self.all[n].peak() as f64 <= AS_MUCH * self.all[unfused].peak() as f64;
        let mut candidates = vec![];
        loop {
            let next = self.cheapest(&found);
            candidates.push(next);
            if next == unfused || self.all[next].is_one() || fits(next) {
                break;
            }
            found.retain(|n| *n != next);
        }
        if let [only] = candidates[..] {
            return only;
        }
        let total = |n: &usize| self.all[*n].cost.with_peak(self.all[*n].peak());
        candidates.into_iter().min_by(|a, b| total(a).total_cmp(&total(b))).unwrap_or(unfused)
    }

    /// Of some plans, the one that moves the fewest bytes among those that are about as fast as the
    /// fastest; of several, the one that takes the least memory.
    fn cheapest(&self, of: &[usize]) -> usize {
        let fastest = of.iter().map(|n| self.all[*n].cost.time).fold(f64::INFINITY, f64::min);
        let fast = || of.iter().copied().filter(|n| self.all[*n].cost.time <= AS_FAST * fastest);
        let fewest = fast().map(|n| self.all[n].cost.memory).fold(f64::INFINITY, f64::min);
        let mut best: Vec<usize> = fast().filter(|n| self.all[*n].cost.memory <= fewest).collect();
        best.sort_by(|a, b| self.all[*a].cost.time.total_cmp(&self.all[*b].cost.time));
        let first = best.first().copied().unwrap_or(of[0]);
        if self.all[first].is_one() {
            return first;
        }
        best.into_iter().min_by_key(|n| self.all[*n].peak()).unwrap_or(first)
    }
}

/// Runs passes over a graph.
pub(super) fn run<E>(
    graph: &mut Graph,
    order: &[FusionPass],
    check: &mut impl FnMut(FusionPass, &Graph) -> Result<(), E>,
) -> Result<(), E> {
    for pass in order {
        if apply(graph, *pass, None) {
            check(*pass, graph)?;
        }
    }
    Ok(())
}

/// Runs a pass over a graph and returns whether it changed anything.
fn apply(graph: &mut Graph, pass: FusionPass, limit: TimeLimit) -> bool {
    graph.begin(pass);
    let changed = of(pass)(graph, limit);
    if changed {
        graph.settle();
    }
    changed
}

fn of(pass: FusionPass) -> fn(&mut Graph, TimeLimit) -> bool {
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
    /// The cost of a kernel that runs this often.
    pub(super) fn of(price: &Price, runs: f64) -> Cost {
        Cost { time: runs * price.time, memory: runs * price.memory }
    }

    /// The time, if each byte of memory that a call needs takes as long as moving it.
    pub fn with_peak(&self, peak: u128) -> f64 {
        self.time + peak as f64 / Machine::NOMINAL.memory_rate
    }

    /// Whether another plan would have been better: faster, or no slower with fewer bytes.
    pub fn is_beaten_by(&self, other: &Cost) -> bool {
        AS_FAST * other.time < self.time || (other.time <= self.time && SAME * other.memory < self.memory)
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
    graph.kernels().map(|id| Cost::of(graph.price(id), graph.runs(id))).fold(Cost::default(), Cost::add)
}

/// The peak memory of a call of a plan, at nominal sizes, with one thread's scratch, since that of
/// the others stays in caches too.
pub fn peak(graph: &Graph) -> u128 {
    let mut program = graph.program();
    plan(&mut program);
    Peak::of(&program).at(&|size| nominal(size) as i64, 1)
}

/// Lower bounds for all plans of a program.
struct Least {
    /// Each array of the caller moves once, and nothing is computed, because loops can share work
    /// in ways that no operation shows alone.
    cost: Cost,
    /// The operations of the unfused program. Plans with nested loops may have fewer, if some
    /// depend on few indices.
    operations: f64,
}

/// A lower bound on the cost of any plan of a program. `None` if some result is not used
/// completely, because it may be computed only in part.
fn least(unfused: &Graph) -> Option<Least> {
    let mut moved: BTreeMap<BufferId, f64> = BTreeMap::new();
    let mut stored = vec![];
    for id in unfused.kernels() {
        for (buffer, bytes) in profit::touched_by_each(unfused.frame(), unfused.kernel(id)) {
            let bytes = unfused.runs(id) * bytes;
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
    let (machine, memory) = (Machine::NOMINAL, moved.values().sum());
    let cost = Cost { time: machine.launch + machine.time(0.0, memory, memory), memory };
    let operations = unfused.kernels().map(|id| unfused.runs(id) * unfused.price(id).operations).sum();
    Some(Least { cost, operations })
}
