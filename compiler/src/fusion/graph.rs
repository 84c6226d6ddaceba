//! The program between passes: its kernels, who stores and loads what, which operations each kernel computes, and the
//! record of what was decided on each pair of operations.
//!
//! During a pass the kernels stand in no order and some are *gone* (merged into others); [`Graph::settle`] puts the rest
//! in an order in which every buffer is stored before it is loaded. Every buffer is stored by one kernel.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::decision::{Decision, FusionPass, Outcome, Pair, Reason};
use ir::nest::{BufferId, Kernel, KernelId, Program, Role};
use ir::{Size, visit};

use super::cut::Parts;
use crate::analysis::cost::{self, Price};
use crate::pipeline::{Options, Policy};

/// The program while it is being fused.
#[derive(Clone)]
pub struct Graph {
    program: Program,
    nodes: SecondaryMap<KernelId, Node>,
    edges: SecondaryMap<BufferId, Edges>,
    /// A number for each kernel, greater than those of its producers.
    position: SecondaryMap<KernelId, u32>,
    /// The kernels that load each buffer in the unfused program, and the one that stores it.
    flows: SecondaryMap<BufferId, Edges>,
    /// What was decided, and by which pass.
    decisions: BTreeMap<Pair, (FusionPass, Outcome)>,
    /// The pass that runs.
    pass: FusionPass,
    options: Options,
    merges: u64,
    coin: u64,
    parts: Parts,
}

/// A kernel's place in the graph.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The operations that it computes, as kernels of the unfused program, ascending. None if it is gone.
    members: Vec<KernelId>,
    loads: BTreeSet<BufferId>,
    stores: BTreeSet<BufferId>,
    price: Price,
}

impl Node {
    fn new(members: Vec<KernelId>, kernel: &Kernel, price: Price) -> Node {
        let loads = visit::loads(&kernel.body).into_iter().collect();
        let stores = visit::stores(&kernel.body).into_iter().collect();
        Node { members, loads, stores, price }
    }
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
        let mut graph = Graph {
            program: unfused.clone(),
            nodes: SecondaryMap::new(),
            edges: SecondaryMap::new(),
            position: SecondaryMap::new(),
            flows: SecondaryMap::new(),
            decisions: BTreeMap::new(),
            pass: FusionPass::ALL[0],
            options: options.clone(),
            merges: 0,
            parts: Parts::default(),
            coin: if let Policy::Random(seed) = options.policy { seed } else { 0 },
        };
        for id in unfused.kernels.keys() {
            let kernel = &unfused.kernels[id];
            graph.nodes[id] = Node::new(vec![id], kernel, cost::nominally(unfused, kernel, |_| false));
            graph.position[id] = id.as_u32();
            graph.enter(id);
        }
        graph.flows = graph.edges.clone();
        graph
    }

    /// Cuts the program: only kernels of one part may become one.
    pub fn cut(&mut self, parts: Parts) {
        self.parts = parts;
    }

    /// The parts of the program.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Says which pass is next, and whether it may run.
    pub fn begin(&mut self, pass: FusionPass) -> bool {
        self.pass = pass;
        self.enabled(pass)
    }

    /// The program. During a pass, kernels that are gone have an empty body.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The program, to add functions or look at buffers while a kernel is rewritten.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// A kernel.
    pub fn kernel(&self, id: KernelId) -> &Kernel {
        &self.program.kernels[id]
    }

    /// The kernels that are there.
    pub fn kernels(&self) -> impl Iterator<Item = KernelId> + '_ {
        self.program.kernels.keys().filter(|id| self.exists(*id))
    }

    /// Whether a kernel is there: not merged into others.
    pub fn exists(&self, id: KernelId) -> bool {
        !self.nodes[id].members.is_empty()
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
        &self.nodes[id].loads
    }

    /// The buffers that a kernel stores.
    pub fn stores(&self, id: KernelId) -> &BTreeSet<BufferId> {
        &self.nodes[id].stores
    }

    /// What a kernel costs.
    pub fn price(&self, id: KernelId) -> &Price {
        &self.nodes[id].price
    }

    /// Whether a buffer is a result, so that it has to be stored whoever loads it.
    pub fn is_result(&self, buffer: BufferId) -> bool {
        matches!(self.program.buffers[buffer].role, Role::Output(_))
    }

    /// Says of a buffer whether it is a temporary that only these kernels mention.
    pub fn owned<'a>(&'a self, kernels: &'a [KernelId]) -> impl Fn(BufferId) -> bool + 'a {
        |buffer| {
            let Edges { writer, readers } = &self.edges[buffer];
            self.program.buffers[buffer].role == Role::Temp
                && writer.iter().chain(readers).all(|kernel| kernels.contains(kernel))
        }
    }

    /// The kernels that store what a kernel loads.
    pub fn producers(&self, id: KernelId) -> BTreeSet<KernelId> {
        let loads = self.nodes[id].loads.iter();
        loads.filter_map(|buffer| self.edges[*buffer].writer).filter(|writer| *writer != id).collect()
    }

    /// The kernels that load what a kernel stores.
    pub fn consumers(&self, id: KernelId) -> BTreeSet<KernelId> {
        self.nodes[id].stores.iter().flat_map(|buffer| self.readers(*buffer)).collect()
    }

    /// A kernel through which data go from one kernel to another, so that the two cannot become one.
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

    /// Puts a kernel in place of two between which no path goes: it is the second of them.
    pub fn unite(&mut self, first: KernelId, second: KernelId, kernel: Kernel, price: Price) {
        self.reorder(first, second);
        self.adopt(second, first);
        self.remove(first);
        self.replace(second, kernel, price);
    }

    /// Finds a position for two kernels that become one, the second: behind the producers of both and before their
    /// consumers. Only what stands between the two and hangs on one of them moves (Pearce and Kelly, 2006).
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
        self.options.policy
    }

    /// Whether a legal merge is to be made: by the model if it pays, at random by a coin; never beyond the fuel.
    pub fn grants(&mut self, pays: bool) -> bool {
        if self.options.fuel.is_some_and(|fuel| self.merges >= fuel) {
            return false;
        }
        let granted = match self.options.policy {
            Policy::Model => pays,
            Policy::Legal => true,
            Policy::Random(_) => self.toss(),
        };
        self.merges += u64::from(granted);
        granted
    }

    /// Three of four, by the generator SplitMix64 (Steele, Lea and Flood, 2014).
    fn toss(&mut self) -> bool {
        self.coin = self.coin.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.coin;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) & 3 != 0
    }

    /// Whether a pass may merge.
    pub fn enabled(&self, pass: FusionPass) -> bool {
        self.options.fuse.contains(pass)
    }

    /// Puts another kernel in place of one, at its price.
    pub fn replace(&mut self, id: KernelId, kernel: Kernel, price: Price) {
        self.leave(id);
        let members = std::mem::take(&mut self.nodes[id].members);
        self.nodes[id] = Node::new(members, &kernel, price);
        self.program.kernels[id] = kernel;
        self.enter(id);
    }

    /// Takes a kernel out to be rewritten; [`Graph::replace`] puts it back.
    pub fn take(&mut self, id: KernelId) -> Kernel {
        self.leave(id);
        std::mem::take(&mut self.program.kernels[id])
    }

    /// Says that a kernel now computes also what another one computes.
    pub fn adopt(&mut self, id: KernelId, from: KernelId) {
        let more = self.nodes[from].members.clone();
        let members = &mut self.nodes[id].members;
        members.extend(more);
        members.sort_unstable();
        members.dedup();
    }

    /// Takes away a kernel whose work others do.
    pub fn remove(&mut self, id: KernelId) {
        self.take(id);
        self.nodes[id].members.clear();
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

    /// A merge stays; of refusals that of the first pass that looked at the pair, which knows best, and of its refusals the
    /// last.
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

    /// Records of each pair that another plan fuses and this one does not that this plan is better.
    pub fn prefer_to(&mut self, other: &Graph) {
        for (pair, (_, outcome)) in &other.decisions {
            let own = self.decisions.get(pair).map(|(_, outcome)| outcome);
            if matches!(outcome, Outcome::Fused(_)) && !matches!(own, Some(Outcome::Fused(_))) {
                self.decisions.insert(*pair, (self.pass, Outcome::Refused(Reason::OtherPlan)));
            }
        }
    }

    /// Records what became of two kernels that load the same buffer: merged, or refused for a reason. A pair of kernels stands
    /// for the first operations in them that load it.
    pub fn shared(&mut self, buffer: BufferId, (first, second): (KernelId, KernelId), refused: Option<&Reason>) {
        let reader = |kernel| self.readers_within(buffer, kernel).into_iter().next();
        if let (Some(first), Some(second)) = (reader(first), reader(second))
            && first != second
        {
            let pair = Pair::Shared { first: first.min(second), second: first.max(second), buffer };
            self.decide(pair, refused.map_or(Outcome::Fused(self.pass), |reason| Outcome::Refused(reason.clone())));
        }
    }

    /// The operation that a refusal names for a kernel: the last that it computes.
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
        let node = &self.nodes[id];
        for buffer in &node.loads {
            self.edges[*buffer].readers.insert(id);
        }
        for buffer in &node.stores {
            self.edges[*buffer].writer = Some(id);
        }
    }

    fn leave(&mut self, id: KernelId) {
        let node = &mut self.nodes[id];
        for buffer in std::mem::take(&mut node.loads) {
            self.edges[buffer].readers.remove(&id);
        }
        for buffer in std::mem::take(&mut node.stores) {
            if self.edges[buffer].writer == Some(id) {
                self.edges[buffer].writer = None;
            }
        }
    }

    /// Ends a pass: the kernels that are there, each after those whose results it loads, else in the order of their
    /// operations.
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
        while let Some((_, id)) = ready.pop_first() {
            order.push(id);
            for consumer in self.consumers(id) {
                waiting[consumer] -= 1;
                if waiting[consumer] == 0 {
                    ready.insert((self.operation(consumer), consumer));
                }
            }
        }
        let mut kernels = PrimaryMap::new();
        let mut nodes: SecondaryMap<KernelId, Node> = SecondaryMap::new();
        for old in order {
            let new = kernels.push(std::mem::take(&mut self.program.kernels[old]));
            nodes[new] = std::mem::take(&mut self.nodes[old]);
            self.position[new] = new.as_u32();
        }
        self.program.kernels = kernels;
        self.nodes = nodes;
        self.edges.clear();
        let ids: Vec<KernelId> = self.program.kernels.keys().collect();
        ids.into_iter().for_each(|id| self.enter(id));
    }

    /// The fused program, the operations of each of its kernels, and what was decided on each pair of operations.
    pub fn finish(mut self) -> (Program, SecondaryMap<KernelId, Vec<KernelId>>, Vec<Decision>) {
        let mut decisions = vec![];
        for (buffer, edges) in self.flows.iter() {
            let Some(producer) = edges.writer else { continue };
            for consumer in edges.readers.iter().copied().filter(|reader| *reader != producer) {
                let pair = Pair::Flow { producer, consumer, buffer };
                let outcome = self.decisions.remove(&pair).map(|(_, outcome)| outcome);
                let outcome = outcome.unwrap_or_else(|| Outcome::Refused(self.not_tried()));
                decisions.push(Decision { pair, outcome, bytes: self.bytes(buffer, 2) });
            }
        }
        for (pair, (_, outcome)) in std::mem::take(&mut self.decisions) {
            if let Pair::Shared { buffer, .. } = pair {
                decisions.push(Decision { pair, outcome, bytes: self.bytes(buffer, 1) });
            }
        }
        decisions.sort_by_key(|d| d.pair);
        let mut members: SecondaryMap<KernelId, Vec<KernelId>> = SecondaryMap::new();
        for id in self.program.kernels.keys() {
            members[id] = std::mem::take(&mut self.nodes[id].members);
        }
        (self.program, members, decisions)
    }

    /// Why a pair that no pass looked at is apart: the pass that would have is off.
    fn not_tried(&self) -> Reason {
        let mut for_flows = FusionPass::ALL.iter().filter(|pass| **pass != FusionPass::Siblings);
        let off = for_flows.find(|pass| !self.enabled(**pass));
        off.map_or(Reason::OtherIterations, |pass| Reason::Disabled(*pass))
    }

    /// The bytes of a buffer, so many times.
    fn bytes(&self, buffer: BufferId, times: i64) -> Size {
        let buffer = &self.program.buffers[buffer];
        let width = i64::try_from(buffer.dtype.bytes()).unwrap_or(0);
        buffer.shape.iter().fold(Size::constant(width * times), |product, n| &product * n)
    }
}
