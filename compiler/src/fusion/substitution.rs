//! The search that `kloop` and `kinput` share: elementwise producers, those that save the most
//! bytes first, each substituted into all of its consumers or into none. Those with one consumer go
//! before those that would be computed in several places, since these are often merged in the
//! meantime. After a merge only the neighbours are priced again (XLA's priority fusion). Among
//! equal savings, smaller kernels go first, so that a chain merges like a tree and the search stays
//! near-linear.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use cranelift_entity::SecondaryMap;
use ir::choice::Policy;
use ir::decision::Reason;
use ir::nest::{BufferId, KernelId, Statement};
use ir::visit;

use super::Graph;
use super::form::{Elementwise, LoadContext, loads_of, shape};
use super::inline::inline;
use super::legality;
use super::memo::{Code, Mechanism};
use super::placed;
use super::profit::{self, Repetition, TimeLimit};

/// The producers that one of the passes handles.
pub(super) struct Rule {
    /// Whether it handles a producer with these uses.
    pub takes: fn(&Elementwise<'_>, &[Use]) -> bool,
}

/// A use of a producer's buffer by one consumer.
pub(super) struct Use {
    /// The consumer.
    pub consumer: KernelId,
    /// The most demanding context in which it loads the buffer.
    pub context: LoadContext,
    /// How many loads there are.
    pub sites: u64,
    /// Whether loops of the kernel have to wait for a load.
    pub before_loops: bool,
    /// How often each element is computed there, in all places together.
    pub copies: ir::Size,
}

/// First those computed in one place, then those with more bytes, then those with less code.
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

/// A rough estimate of the gain from a producer.
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

/// The merge of a producer, if it is legal; otherwise the refusals are recorded.
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
        if p.may_fault() && placed::loads_at_places(graph.kernel(u.consumer), buffer) {
            return Err(Reason::OtherIterations);
        }
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
        match graph.merged((producer, *id), Mechanism::Inline, rewrite) {
            Ok(code) => merged.push((*id, code)),
            Err(reason) => {
                readers.iter().for_each(|id| graph.refused(buffer, *id, &reason));
                return None;
            }
        }
    }
    let before: Vec<_> = readers.iter().chain([&producer]).map(|id| graph.price(*id)).collect();
    let after: Vec<_> = merged.iter().map(|(_, code)| &code.price).collect();
    let pays = repetition.pays(graph, (&before, &after), graph.runs(producer), limit);
    Some(Merge { buffer, merged, pays })
}

/// How a kernel uses a buffer.
fn look(graph: &Graph, p: &Elementwise<'_>, consumer: KernelId) -> Use {
    let shape = shape(graph.frame(), p.buffer);
    let kernel = graph.kernel(consumer);
    let loops = kernel.body.iter().any(Statement::repeats);
    // One that becomes several kernels waits for every loop that the kernel has before it.
    let mut several = false;
    visit::for_each_statement(&kernel.body, &mut |s| {
        several |= matches!(s, Statement::Loop(l) if l.kind.becomes_several());
    });
    let mut found =
        Use { consumer, context: LoadContext::Loop, sites: 0, before_loops: false, copies: ir::Size::default() };
    for load in loads_of(kernel, p.buffer) {
        found.before_loops |= several || loops && load.around.is_empty();
        found.context = found.context.max(load.context);
        found.sites += 1;
        found.copies = &found.copies + &load.reuse(shape, p.reduces);
    }
    found
}
