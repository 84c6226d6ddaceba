//! The search over pairs of kernels that `siblings`, `nest` and `koutput` share: the pair that
//! saves the most bytes first, and smaller kernels first among equal savings. Work that takes the
//! results of two products follows the one that ends later: so the other one need not wait, and
//! nothing waits for the two of them in turn. When two are merged,
//! pairs with either become pairs with the result; of refused pairs, only those that may have
//! changed are tried again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ir::decision::Reason;
use ir::nest::{BufferId, KernelId};

use super::{Graph, profit};

pub(super) type Pair = (KernelId, KernelId);

/// More bytes first, and among those with about the same, less code, so that long chains merge like
/// a tree. The last producer comes first.
type Key = (Reverse<u32>, u64, Reverse<u32>, Pair);

/// Pairs that wait to be looked at.
#[derive(Default)]
pub(super) struct Pairs {
    order: BTreeSet<Key>,
    /// The kernel that a merged one has become part of.
    became: SecondaryMap<KernelId, PackedOption<KernelId>>,
    refused: BTreeSet<Pair>,
    /// How many kernels run one after another before each has run.
    depths: SecondaryMap<KernelId, u32>,
    /// Refused pairs with a kernel that may be accepted when it changes.
    again: BTreeMap<KernelId, Vec<Pair>>,
}

impl Pairs {
    /// Adds a pair, if it saves anything.
    pub fn put(&mut self, graph: &Graph, pair: Pair) {
        self.order.insert(self.weigh(graph, pair));
    }

    /// The next pair.
    pub fn pop(&mut self, graph: &Graph) -> Option<Pair> {
        while let Some(key) = self.order.pop_first() {
            let (first, second) = key.3;
            let pair = (self.resolve(first), self.resolve(second));
            if pair.0 == pair.1 || self.refused.contains(&pair) {
                continue;
            }
            // It may have grown since it was weighed.
            let now = self.weigh(graph, pair);
            if now <= (key.0, key.1, key.2, pair) {
                return Some(pair);
            }
            self.order.insert(now);
        }
        None
    }

    fn weigh(&self, graph: &Graph, pair: Pair) -> Key {
        let statements = graph.price(pair.0).statements + graph.price(pair.1).statements;
        (Reverse(saved(graph, pair).ilog2()), statements, Reverse(self.depths[pair.0]), pair)
    }

    fn resolve(&mut self, mut kernel: KernelId) -> KernelId {
        let mut root = kernel;
        while let Some(next) = self.became[root].expand() {
            root = next;
        }
        while let Some(next) = self.became[kernel].expand() {
            self.became[kernel] = root.into();
            kernel = next;
        }
        root
    }

    /// Says that a pair stays apart.
    pub fn refuse(&mut self, pair: Pair, reason: &Reason) {
        self.refused.insert(pair);
        if matches!(reason, Reason::PathBetween { .. } | Reason::NotProfitable { .. } | Reason::LessParallel { .. }) {
            self.again.entry(pair.0).or_default().push(pair);
            self.again.entry(pair.1).or_default().push(pair);
        }
    }

    /// Records that a pair has been merged into its second kernel.
    pub fn merge(&mut self, graph: &Graph, (first, second): Pair) {
        self.became[first] = second.into();
        for kernel in [first, second] {
            for pair in self.again.remove(&kernel).unwrap_or_default() {
                if self.refused.remove(&pair) {
                    let pair = (self.resolve(pair.0), self.resolve(pair.1));
                    if pair.0 != pair.1 {
                        self.put(graph, pair);
                    }
                }
            }
        }
    }
}

/// The buffers that flow from the first kernel to the second.
pub(super) fn flows(graph: &Graph, (producer, consumer): Pair) -> Vec<BufferId> {
    graph.stores(producer).intersection(graph.loads(consumer)).copied().collect()
}

/// The bytes that a merge may save, plus one: a buffer that flows is not read back, and one that
/// both read is read once.
pub(super) fn saved(graph: &Graph, (first, second): Pair) -> u64 {
    let flows = graph.stores(first).intersection(graph.loads(second));
    let common = graph.loads(first).intersection(graph.loads(second));
    let bytes = |buffer: &BufferId| profit::bytes(graph.frame(), *buffer);
    ((flows.map(|b| 2.0 * bytes(b)).sum::<f64>() + common.map(bytes).sum::<f64>()) as u64).saturating_add(1)
}

/// Merges producers with consumers by `merge`, for those pairs that are `wanted`. Returns whether
/// anything changed.
pub(super) fn along_flows(
    graph: &mut Graph,
    wanted: impl Fn(&Graph, Pair) -> bool,
    merge: impl Fn(&mut Graph, Pair, &[BufferId]) -> Result<(), Reason>,
) -> bool {
    let mut pairs = Pairs::default();
    let consumers: Vec<KernelId> = graph.kernels().collect();
    for consumer in &consumers {
        let before = graph.producers(*consumer).into_iter().map(|producer| pairs.depths[producer]).max();
        pairs.depths[*consumer] = before.unwrap_or(0) + 1;
    }
    for consumer in consumers {
        for producer in graph.producers(consumer) {
            pairs.put(graph, (producer, consumer));
        }
    }
    let mut changed = false;
    while let Some(pair) = pairs.pop(graph) {
        let flows = flows(graph, pair);
        // The flow may have ended, because the consumer turned out not to need it.
        if flows.is_empty() || !wanted(graph, pair) {
            continue;
        }
        match merge(graph, pair, &flows) {
            Ok(()) => {
                changed = true;
                pairs.merge(graph, pair);
            }
            Err(reason) => {
                flows.iter().for_each(|buffer| graph.refused(*buffer, pair.1, &reason));
                pairs.refuse(pair, &reason);
            }
        }
    }
    changed
}
