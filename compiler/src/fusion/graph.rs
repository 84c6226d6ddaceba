//! The program between passes: its kernels, which of them store and load each buffer, the
//! operations that each kernel computes, and the decisions on pairs of operations.
//!
//! During a pass the kernels are in no order, and some are *gone* (merged into others);
//! [`Graph::settle`] puts the rest in an order in which every buffer is stored before it is loaded.
//! Every buffer is stored by one kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::choice::Choice;
use ir::choice::Policy;
use ir::decision::{Decision, FusionPass, Outcome, Pair, Reason};
use ir::nest::{BufferId, Kernel, KernelId, Program, Role};
use ir::rewrite::fresh_name;
use ir::{Size, live};

use super::cut::Parts;
use super::legality;
use super::memo::{Code, Mechanism, Memo};
use super::pairs;
use super::stretch::Stretches;
use crate::analysis::cost::{self, Price};
use crate::analysis::work::Functions;
use crate::pipeline::Options;

/// The program while it is being fused.
#[derive(Clone)]
pub struct Graph {
    /// The program without its kernels.
    frame: Rc<Program>,
    functions: Rc<Functions>,
    memo: Rc<Memo>,
    nodes: SecondaryMap<KernelId, Node>,
    edges: SecondaryMap<BufferId, Edges>,
    /// A number for each kernel, greater than those of its producers.
    position: SecondaryMap<KernelId, u32>,
    /// The kernels that load each buffer in the unfused program, and the one that stores it.
    flows: Rc<SecondaryMap<BufferId, Edges>>,
    /// The decisions, and the pass that made each.
    decisions: BTreeMap<Pair, (FusionPass, Outcome)>,
    /// The pass that runs.
    pass: FusionPass,
    options: Options,
    choice: Choice,
    parts: Rc<Parts>,
    stretches: Rc<Stretches>,
}

/// A kernel's place in the graph.
#[derive(Clone, Default)]
struct Node {
    /// The operations that it computes, as kernels of the unfused program, ascending. Empty if it
    /// is gone.
    members: Vec<KernelId>,
    code: Rc<Code>,
}

/// Who touches a buffer.
#[derive(Clone, Debug, Default)]
struct Edges {
    writer: Option<KernelId>,
    readers: BTreeSet<KernelId>,
}

impl Graph {
    /// A lowered program, one kernel an operation.
    pub fn new(unfused: &Program, options: &Options) -> Graph {
        let frame = Program {
            name: unfused.name.clone(),
            symbols: unfused.symbols.clone(),
            buffers: unfused.buffers.clone(),
            functions: unfused.functions.clone(),
            reducers: unfused.reducers.clone(),
            sites: unfused.sites.clone(),
            slots: unfused.slots.clone(),
            requires: unfused.requires.clone(),
            kernels: PrimaryMap::new(),
            body: unfused.body.clone(),
        };
        let mut graph = Graph {
            frame: Rc::new(frame),
            functions: Rc::new(Functions::of(unfused)),
            memo: Rc::default(),
            nodes: SecondaryMap::new(),
            edges: SecondaryMap::new(),
            position: SecondaryMap::new(),
            flows: Rc::default(),
            decisions: BTreeMap::new(),
            pass: FusionPass::ALL[0],
            options: options.clone(),
            parts: Rc::default(),
            choice: Choice::new(options.policy, options.fuel),
            stretches: Rc::new(Stretches::new(unfused)),
        };
        for (id, kernel) in unfused.kernels.iter() {
            let price = cost::nominally(unfused, &graph.functions, kernel, |_| false);
            graph.nodes[id] = Node { members: vec![id], code: graph.memo.enter(kernel.clone(), price) };
            graph.position[id] = id.as_u32();
            graph.enter(id);
        }
        graph.flows = Rc::new(graph.edges.clone());
        graph
    }

    /// Cuts the program: only kernels of one part may be merged. Returns the previous parts.
    pub fn cut(&mut self, parts: Parts) -> Rc<Parts> {
        std::mem::replace(&mut self.parts, Rc::new(parts))
    }

    /// The parts of the program.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Whether two kernels may become one as far as loops over kernels are concerned.
    pub(super) fn in_one_stretch(&self, first: KernelId, second: KernelId) -> bool {
        self.stretches.have_both(self.operation(first), self.operation(second))
    }

    /// Says which pass is next.
    pub fn begin(&mut self, pass: FusionPass) {
        self.pass = pass;
    }

    /// The time of all kernels in nanoseconds, each as often as it runs.
    pub(super) fn time(&self) -> f64 {
        self.kernels().map(|id| self.runs(id) * self.price(id).time).sum()
    }

    /// How often a kernel runs because of loops over kernels, with each size at its nominal value.
    pub(super) fn runs(&self, id: KernelId) -> f64 {
        self.stretches.runs(self.operation(id))
    }

    /// The program without its kernels.
    pub fn frame(&self) -> &Program {
        &self.frame
    }

    /// The work of the program's functions.
    pub(super) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The program after the passes that have run.
    pub fn program(&self) -> Program {
        let mut program = (*self.frame).clone();
        self.stretches.fill(&mut program, self.kernels().map(|id| (self.operation(id), self.kernel(id).clone())));
        // A kernel that another plan has merged from the same operations may have another's name.
        let mut names: BTreeSet<String> = program.kernels.values().map(|kernel| kernel.name.clone()).collect();
        let mut seen = BTreeSet::new();
        for kernel in program.kernels.values_mut() {
            if !seen.insert(kernel.name.clone()) {
                kernel.name = fresh_name(&mut names, &kernel.name);
            }
        }
        program
    }

    /// A kernel.
    pub fn kernel(&self, id: KernelId) -> &Kernel {
        &self.nodes[id].code.kernel
    }

    /// The kernels that are there.
    pub fn kernels(&self) -> impl Iterator<Item = KernelId> + '_ {
        self.nodes.keys().filter(|id| self.exists(*id))
    }

    /// Whether a kernel exists, that is, has not been merged into others.
    pub fn exists(&self, id: KernelId) -> bool {
        !self.nodes[id].members.is_empty()
    }

    /// The numbers of the existing kernels, ascending; equal kernels have equal numbers.
    pub(super) fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.kernels().map(|id| self.nodes[id].code.number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The total lines of all kernels rewritten by merges, in this graph and its clones.
    pub(super) fn lines_rewritten(&self) -> u64 {
        self.memo.lines()
    }

    /// The operations that a kernel computes, ascending.
    pub fn members(&self, id: KernelId) -> &[KernelId] {
        &self.nodes[id].members
    }

    /// The kernel that stores a buffer.
    pub fn writer(&self, buffer: BufferId) -> Option<KernelId> {
        self.edges[buffer].writer
    }

    /// The kernels that load a buffer, without the one that stores it.
    pub fn readers(&self, buffer: BufferId) -> impl Iterator<Item = KernelId> + '_ {
        let edges = &self.edges[buffer];
        edges.readers.iter().copied().filter(|reader| edges.writer != Some(*reader))
    }

    /// The buffers that a kernel loads.
    pub fn loads(&self, id: KernelId) -> &BTreeSet<BufferId> {
        &self.nodes[id].code.loads
    }

    /// The buffers that a kernel stores.
    pub fn stores(&self, id: KernelId) -> &BTreeSet<BufferId> {
        &self.nodes[id].code.stores
    }

    /// The price of a run of a kernel.
    pub fn price(&self, id: KernelId) -> &Price {
        &self.nodes[id].code.price
    }

    /// Whether a buffer is a result or carried by a loop over kernels, so that it must be stored in
    /// any case.
    pub fn is_result(&self, buffer: BufferId) -> bool {
        matches!(self.frame.buffers[buffer].role, Role::Output(_)) || self.stretches.mention(buffer)
    }

    /// Tells whether a buffer is a temporary that only these kernels mention.
    pub fn owned<'a>(&'a self, kernels: &'a [KernelId]) -> impl Fn(BufferId) -> bool + 'a {
        |buffer| {
            let Edges { writer, readers } = &self.edges[buffer];
            self.frame.buffers[buffer].role == Role::Temp
                && !self.stretches.mention(buffer)
                && writer.iter().chain(readers).all(|kernel| kernels.contains(kernel))
        }
    }

    /// The kernels that store what a kernel loads.
    pub fn producers(&self, id: KernelId) -> BTreeSet<KernelId> {
        let loads = self.loads(id).iter();
        loads.filter_map(|buffer| self.edges[*buffer].writer).filter(|writer| *writer != id).collect()
    }

    /// The kernels that load what a kernel stores.
    pub fn consumers(&self, id: KernelId) -> BTreeSet<KernelId> {
        self.stores(id).iter().flat_map(|buffer| self.readers(*buffer)).collect()
    }

    /// A kernel on a path of data from one kernel to another, which prevents merging the two.
    pub fn path_between(&self, from: KernelId, to: KernelId) -> Option<KernelId> {
        let behind = |id: &KernelId| self.position[*id] >= self.position[from];
        let mut seen = BTreeSet::from([to]);
        // Backwards: a kernel rarely has many producers.
        let direct = self.producers(to).into_iter().filter(|p| *p != from && behind(p));
        let mut open: Vec<(KernelId, KernelId)> = direct.map(|p| (p, p)).collect();
        while let Some((at, through)) = open.pop() {
            if at == from {
                return Some(through);
            }
            if seen.insert(at) {
                open.extend(self.producers(at).into_iter().filter(behind).map(|p| (p, through)));
            }
        }
        None
    }

    /// Replaces two kernels without a path between them by one, which takes the place of the
    /// second.
    pub(super) fn unite(&mut self, (first, second): pairs::Pair, code: Rc<Code>) {
        self.reorder(first, second);
        self.adopt(second, first);
        self.remove(first);
        self.replace(second, code);
    }

    /// The kernel that two are merged to by a mechanism, or the reason why they are not. `rewrite`
    /// makes it if no other plan has.
    pub(super) fn merged(
        &self,
        (first, second): pairs::Pair,
        mechanism: Mechanism,
        rewrite: impl FnOnce() -> Result<Kernel, Reason>,
    ) -> Result<Rc<Code>, Reason> {
        let (a, b) = (&self.nodes[first].code, &self.nodes[second].code);
        let pair = [first, second];
        let is_own = self.owned(&pair);
        let mut own: Vec<BufferId> =
            [&a.loads, &a.stores, &b.loads, &b.stores].into_iter().flatten().copied().collect();
        own.retain(|buffer| is_own(*buffer));
        own.sort_unstable();
        own.dedup();
        self.memo.merge((a, b), mechanism, own, || {
            let kernel = rewrite()?;
            let price = cost::nominally(&self.frame, &self.functions, &kernel, is_own);
            legality::compiles(&price)?;
            Ok((kernel, price))
        })
    }

    /// Finds a position for the kernel that two are merged to: after the producers of both and
    /// before their consumers. Only kernels between the two that depend on one of them move (Pearce
    /// and Kelly, 2006).
    fn reorder(&mut self, first: KernelId, second: KernelId) {
        let (early, late) =
            if self.position[first] < self.position[second] { (first, second) } else { (second, first) };
        let between = self.position[early] + 1..self.position[late];
        let reach = |start: KernelId, next: &dyn Fn(KernelId) -> BTreeSet<KernelId>| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
            while let Some(at) = open.pop() {
                let beside = next(at).into_iter().filter(|id| between.contains(&self.position[*id]));
                open.extend(beside.filter(|id| seen.insert((self.position[*id], *id))));
            }
            seen
        };
        let before = reach(late, &|id| self.producers(id));
        let behind = reach(early, &|id| self.consumers(id));
        let order: Vec<(u32, KernelId)> = before
            .into_iter()
            .chain([(self.position[early], first), (self.position[late], second)])
            .chain(behind)
            .collect();
        let mut positions: Vec<u32> = order.iter().map(|(position, _)| *position).collect();
        positions.sort_unstable();
        for ((_, id), position) in order.into_iter().zip(positions) {
            self.position[id] = position;
        }
    }

    /// Who chooses among legal merges.
    pub fn policy(&self) -> Policy {
        self.choice.policy()
    }

    /// Whether a legal merge is to be made.
    pub fn grants(&mut self, pays: bool) -> bool {
        self.choice.grants(pays)
    }

    /// Puts another kernel in place of one.
    pub(super) fn replace(&mut self, id: KernelId, code: Rc<Code>) {
        self.leave(id);
        self.nodes[id].code = code;
        self.enter(id);
    }

    /// Records that a kernel now also computes the operations of another one.
    pub fn adopt(&mut self, id: KernelId, from: KernelId) {
        let more = self.nodes[from].members.clone();
        let members = &mut self.nodes[id].members;
        members.extend(more);
        members.sort_unstable();
        members.dedup();
    }

    /// Removes a kernel after others have taken over its operations.
    pub fn remove(&mut self, id: KernelId) {
        self.leave(id);
        self.nodes[id] = Node::default();
    }

    /// Records that the flow of a buffer into a kernel is fused.
    pub fn fused(&mut self, buffer: BufferId, consumer: KernelId) {
        for pair in self.pairs(buffer, consumer) {
            self.decide(pair, Outcome::Fused(self.pass));
        }
    }

    /// Records why the flow of a buffer into a kernel is not fused.
    pub fn refused(&mut self, buffer: BufferId, consumer: KernelId, reason: &Reason) {
        for pair in self.pairs(buffer, consumer) {
            self.decide(pair, Outcome::Refused(reason.clone()));
        }
    }

    /// A recorded merge stays. Of refusals, those of the first pass that considered the pair count,
    /// since it knows best, and among these the last.
    fn decide(&mut self, pair: Pair, outcome: Outcome) {
        let stands = match (self.decisions.get(&pair), &outcome) {
            (Some((_, Outcome::Fused(_))), _) => true,
            (Some((pass, Outcome::Refused(_))), Outcome::Refused(_)) => *pass != self.pass,
            _ => false,
        };
        if !stands {
            self.decisions.insert(pair, (self.pass, outcome));
        }
    }

    /// Records for each pair that another plan fuses and this one does not that this plan is
    /// better.
    pub fn prefer_to(&mut self, other: &Graph) {
        for (pair, (_, outcome)) in &other.decisions {
            let own = self.decisions.get(pair).map(|(_, outcome)| outcome);
            if matches!(outcome, Outcome::Fused(_)) && !matches!(own, Some(Outcome::Fused(_))) {
                self.decisions.insert(*pair, (self.pass, Outcome::Refused(Reason::OtherPlan)));
            }
        }
    }

    /// Records the decision on two kernels that load the same buffer: merged, or refused for a
    /// reason. A pair of kernels stands for the first operations in them that load it.
    pub fn shared(&mut self, buffer: BufferId, (first, second): (KernelId, KernelId), refused: Option<&Reason>) {
        let reader = |kernel| self.readers_within(buffer, kernel).into_iter().next();
        if let (Some(first), Some(second)) = (reader(first), reader(second))
            && first != second
        {
            let pair = Pair::Shared { first: first.min(second), second: first.max(second), buffer };
            self.decide(pair, refused.map_or(Outcome::Fused(self.pass), |reason| Outcome::Refused(reason.clone())));
        }
    }

    /// The operation that represents a kernel in a refusal: the last that it computes.
    pub fn operation(&self, id: KernelId) -> KernelId {
        self.nodes[id].members.last().copied().unwrap_or(id)
    }

    fn readers_within(&self, buffer: BufferId, kernel: KernelId) -> Vec<KernelId> {
        let readers = &self.flows[buffer].readers;
        self.nodes[kernel].members.iter().copied().filter(|member| readers.contains(member)).collect()
    }

    fn pairs(&self, buffer: BufferId, consumer: KernelId) -> Vec<Pair> {
        let Some(producer) = self.flows[buffer].writer else { return vec![] };
        let readers = self.readers_within(buffer, consumer).into_iter().filter(|reader| *reader != producer);
        readers.map(|consumer| Pair::Flow { producer, consumer, buffer }).collect()
    }

    /// Puts a kernel's edges into the books.
    fn enter(&mut self, id: KernelId) {
        let code = &self.nodes[id].code;
        for buffer in &code.loads {
            self.edges[*buffer].readers.insert(id);
        }
        for buffer in &code.stores {
            self.edges[*buffer].writer = Some(id);
        }
    }

    fn leave(&mut self, id: KernelId) {
        let code = &self.nodes[id].code;
        for buffer in &code.loads {
            self.edges[*buffer].readers.remove(&id);
        }
        for buffer in &code.stores {
            let writer = &mut self.edges[*buffer].writer;
            *writer = writer.filter(|writer| *writer != id);
        }
    }

    /// Ends a pass: the existing kernels, each after those that it loads from, otherwise in the
    /// order of their operations.
    pub fn settle(&mut self) {
        let mut waiting: SecondaryMap<KernelId, usize> = SecondaryMap::new();
        let mut ready = BTreeSet::new();
        for id in self.kernels() {
            waiting[id] = self.producers(id).len();
            if waiting[id] == 0 {
                ready.insert((self.operation(id), id));
            }
        }
        let mut order = vec![];
        // A topological order; among kernels that are ready, the one with the earliest operation.
        while let Some((_, id)) = ready.pop_first() {
            order.push(id);
            for consumer in self.consumers(id) {
                waiting[consumer] -= 1;
                if waiting[consumer] == 0 {
                    ready.insert((self.operation(consumer), consumer));
                }
            }
        }
        let mut nodes: SecondaryMap<KernelId, Node> = SecondaryMap::new();
        for (old, number) in order.into_iter().zip(0..) {
            let new = KernelId::from_u32(number);
            nodes[new] = std::mem::take(&mut self.nodes[old]);
            self.position[new] = number;
        }
        self.nodes = nodes;
        self.edges.clear();
        let ids: Vec<KernelId> = self.kernels().collect();
        ids.into_iter().for_each(|id| self.enter(id));
    }

    /// The fused program, the operations of each of its kernels, and the decision on each pair of
    /// operations.
    pub fn finish(mut self) -> (Program, SecondaryMap<KernelId, Vec<KernelId>>, Vec<Decision>) {
        let (frame, mut decisions) = (Rc::clone(&self.frame), vec![]);
        let trips = frame.trips();
        // Each of these operations moves the buffer.
        let bytes = |buffer: BufferId, operations: &[KernelId]| {
            let each =
                |id: &KernelId| trips[*id].iter().fold(live::bytes(&frame.buffers[buffer]), |n, trips| &n * trips);
            operations.iter().map(each).fold(Size::default(), |sum, bytes| &sum + &bytes)
        };
        for (buffer, edges) in self.flows.iter() {
            let Some(producer) = edges.writer else { continue };
            for consumer in edges.readers.iter().copied().filter(|reader| *reader != producer) {
                let pair = Pair::Flow { producer, consumer, buffer };
                let outcome = self.decisions.remove(&pair).map(|(_, outcome)| outcome);
                let outcome = outcome.unwrap_or_else(|| Outcome::Refused(self.not_tried()));
                decisions.push(Decision { pair, outcome, bytes: bytes(buffer, &[producer, consumer]) });
            }
        }
        for (pair, (_, outcome)) in std::mem::take(&mut self.decisions) {
            if let Pair::Shared { second, buffer, .. } = pair {
                decisions.push(Decision { pair, outcome, bytes: bytes(buffer, &[second]) });
            }
        }
        decisions.sort_by_key(|d| d.pair);
        let mut members: SecondaryMap<KernelId, Vec<KernelId>> = SecondaryMap::new();
        let program = self.program();
        for id in program.kernels.keys() {
            members[id] = std::mem::take(&mut self.nodes[id].members);
        }
        (program, members, decisions)
    }

    /// The reason for a pair that no pass considered: the pass that would have is disabled.
    fn not_tried(&self) -> Reason {
        let mut for_flows = FusionPass::ALL.iter().filter(|pass| **pass != FusionPass::Siblings);
        let off = for_flows.find(|pass| !self.options.fuse.contains(**pass));
        off.map_or(Reason::OtherIterations, |pass| Reason::Disabled(*pass))
    }
}
