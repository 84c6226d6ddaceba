//! The search that `kloop` and `kinput` share: elementwise producers, the most bytes saved first, each put into all of its
//! consumers or into none. Those of one consumer go before those that would be computed in several: often those become one kernel
//! in the meantime. After a merge only the neighbours are weighed anew (XLA's priority fusion). Of equal
//! savings the smaller kernels go first, so that a chain merges like a tree and stays near-linear.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use cranelift_entity::SecondaryMap;
use ir::choice::Policy;
use ir::decision::Reason;
use ir::nest::{BufferId, KernelId, Statement};

use super::Graph;
use super::form::{Elementwise, Place, loads_of, shape};
use super::inline::inline;
use super::legality;
use super::memo::{Code, Mechanic};
use super::profit::{self, Repetition, TimeLimit};

/// What one of the passes takes on.
pub(super) struct Rule {
    /// Whether a producer that goes to such places is its business.
    pub takes: fn(&Elementwise<'_>, &[Use]) -> bool,
}

/// What one consumer makes of a producer's buffer.
pub(super) struct Use {
    /// The consumer.
    pub consumer: KernelId,
    /// Where it loads the buffer: the place that asks most.
    pub place: Place,
    /// How many loads there are.
    pub sites: u64,
    /// Whether loops of the kernel wait for a load.
    pub before_loops: bool,
    /// How often each element is computed there, all sites together.
    pub copies: ir::Size,
}

/// What is computed in one place first, then more bytes, then less code.
type Key = (bool, Reverse<u64>, u64, KernelId);

/// Producers that wait to be looked at.
#[derive(Default)]
struct Queue {
    order: BTreeSet<Key>,
    keys: SecondaryMap<KernelId, Option<Key>>,
}

impl Queue {
    fn put(&mut self, graph: &Graph, id: KernelId) {
        if let Some(old) = self.keys[id].take() {
            self.order.remove(&old);
        }
        self.keys[id] = weigh(graph, id);
        self.order.extend(self.keys[id]);
    }

    fn pop(&mut self) -> Option<KernelId> {
        let (.., id) = self.order.pop_first()?;
        self.keys[id] = None;
        Some(id)
    }
}

/// How much there is to gain from a producer, roughly.
fn weigh(graph: &Graph, id: KernelId) -> Option<Key> {
    let mut stores = graph.stores(id).iter();
    let (Some(buffer), None) = (stores.next(), stores.next()) else { return None };
    if graph.is_result(*buffer) {
        return None;
    }
    let (mut readers, mut size) = (0u32, graph.price(id).statements);
    for reader in graph.readers(*buffer) {
        readers += 1;
        size += graph.price(reader).statements;
    }
    let bytes = profit::bytes(graph.frame(), *buffer) * f64::from(1 + readers);
    (readers > 0).then_some((readers > 1, Reverse(bytes as u64), size, id))
}

/// Runs the search; says whether it changed anything.
pub(super) fn run(graph: &mut Graph, rule: &Rule, limit: TimeLimit) -> bool {
    let mut queue = Queue::default();
    let all: Vec<KernelId> = graph.kernels().collect();
    all.into_iter().for_each(|id| queue.put(graph, id));
    let mut changed = false;
    while let Some(producer) = queue.pop() {
        let Some(merge) = propose(graph, rule, producer, limit) else { continue };
        if !graph.grants(merge.pays.is_ok()) {
            if let Err(reason) = &merge.pays {
                merge.merged.iter().for_each(|(consumer, _)| graph.refused(merge.buffer, *consumer, reason));
            }
            continue;
        }
        changed = true;
        let mut neighbours = graph.producers(producer);
        for (consumer, code) in merge.merged {
            graph.replace(consumer, code);
            graph.fused(merge.buffer, consumer);
            graph.adopt(consumer, producer);
            neighbours.insert(consumer);
            neighbours.extend(graph.producers(consumer));
        }
        if graph.readers(merge.buffer).next().is_none() {
            graph.remove(producer);
        }
        neighbours.remove(&producer);
        neighbours.into_iter().for_each(|id| queue.put(graph, id));
    }
    changed
}

/// A producer's merge into its consumers.
struct Merge {
    buffer: BufferId,
    merged: Vec<(KernelId, Rc<Code>)>,
    pays: Result<(), Reason>,
}

/// The merge of a producer, if it is legal; else the refusals are on record.
fn propose(graph: &mut Graph, rule: &Rule, producer: KernelId, limit: TimeLimit) -> Option<Merge> {
    let p = Elementwise::of(graph.frame(), graph.kernel(producer))?;
    let buffer = p.buffer;
    let readers: Vec<KernelId> = graph.readers(buffer).collect();
    let uses: Vec<Use> = readers.iter().map(|id| look(graph, &p, *id)).collect();
    if uses.is_empty() || !(rule.takes)(&p, &uses) {
        return None;
    }
    let legal = |u: &Use| {
        legality::within_a_part(graph, (producer, u.consumer))?;
        legality::substitutes(graph.price(producer), graph.price(u.consumer), u)
    };
    let refusals: Vec<(KernelId, Reason)> = uses.iter().filter_map(|u| Some((u.consumer, legal(u).err()?))).collect();
    if let [(first, _), ..] = refusals.as_slice() {
        // Into all of them or into none.
        let blocking = graph.operation(*first);
        for consumer in readers {
            let own = refusals.iter().find(|(id, _)| *id == consumer).map(|(_, reason)| reason.clone());
            graph.refused(buffer, consumer, &own.unwrap_or(Reason::OtherConsumer { consumer: blocking }));
        }
        return None;
    }
    let program = graph.frame();
    let copies = uses.iter().fold(ir::Size::default(), |sum, u| &sum + &u.copies);
    let repetition = Repetition::new(graph, (graph.kernel(producer), &p), copies);
    if let (Err(reason), Policy::Model | Policy::Legal) = (repetition.is_affordable(), graph.policy()) {
        readers.iter().for_each(|id| graph.refused(buffer, *id, &reason));
        return None;
    }
    let mut merged = vec![];
    for id in &readers {
        let rewrite = || Ok(inline(program, graph.kernel(*id), graph.kernel(producer), &p));
        match graph.merged((producer, *id), Mechanic::Inline, rewrite) {
            Ok(code) => merged.push((*id, code)),
            Err(reason) => {
                readers.iter().for_each(|id| graph.refused(buffer, *id, &reason));
                return None;
            }
        }
    }
    let before: Vec<_> = readers.iter().chain([&producer]).map(|id| graph.price(*id)).collect();
    let after: Vec<_> = merged.iter().map(|(_, code)| &code.price).collect();
    let pays = repetition.pays(graph, (&before, &after), limit);
    Some(Merge { buffer, merged, pays })
}

/// How a kernel uses a buffer.
fn look(graph: &Graph, p: &Elementwise<'_>, consumer: KernelId) -> Use {
    let shape = shape(graph.frame(), p.buffer);
    let kernel = graph.kernel(consumer);
    let loops = kernel.body.iter().any(Statement::repeats);
    let mut found = Use { consumer, place: Place::Loop, sites: 0, before_loops: false, copies: ir::Size::default() };
    for load in loads_of(kernel, p.buffer) {
        found.before_loops |= loops && load.around.is_empty();
        found.place = found.place.max(load.place);
        found.sites += 1;
        found.copies = &found.copies + &load.reuse(shape, p.reduces);
    }
    found
}
