//! The gain of merging: the price of kernels as they are against the price of kernels as they would
//! be, by the one cost model.

use std::collections::BTreeSet;
use std::rc::Rc;

use ir::Size;
use ir::decision::Reason;
use ir::nest::{BufferId, Kernel, KernelId, Program, Role};

use crate::analysis::accesses::{Access, Accesses};
use crate::analysis::cost::{self, Machine, Price};
use crate::analysis::footprint;
use crate::analysis::work::{self, Work};

use super::Graph;
use super::form::Elementwise;
use super::memo::Code;

/// The bytes of a buffer at nominal sizes.
pub(super) fn bytes(program: &Program, buffer: BufferId) -> f64 {
    let buffer = &program.buffers[buffer];
    buffer.shape.iter().map(|length| cost::nominal(length).max(0.0)).product::<f64>() * buffer.dtype.bytes() as f64
}

/// The buffers in memory that a kernel loads or stores, each with the bytes that this moves if each
/// element moves once.
pub(super) fn touched<'p>(program: &'p Program, kernel: &Kernel) -> impl Iterator<Item = (BufferId, f64)> + use<'p> {
    moved(program, &Accesses::of(kernel))
}

/// The same for each access: the bytes that any kernel with this access moves.
pub(super) fn touched_by_each(program: &Program, kernel: &Kernel) -> Vec<(BufferId, f64)> {
    let accesses = Accesses::of(kernel);
    let mut buffers = BTreeSet::new();
    if accesses.list.iter().all(|access| buffers.insert(access.buffer)) {
        return moved(program, &accesses).collect();
    }
    let alone = |access: &Access<'_>| moved(program, &Accesses { list: vec![*access], ..accesses.clone() });
    accesses.list.iter().flat_map(alone).collect()
}

fn moved<'p>(program: &'p Program, accesses: &Accesses<'_>) -> impl Iterator<Item = (BufferId, f64)> + use<'p> {
    let moved = footprint::moved::<f64>(program, accesses, &cost::nominal, &Machine::NOMINAL);
    let in_memory = |id: BufferId| !matches!(program.buffers[id].role, Role::Scratch | Role::Constant(_));
    let of = moved.into_iter().filter(move |m| in_memory(m.buffer));
    of.map(|m| (m.buffer, m.bytes.clamp(0.0, bytes(program, m.buffer))))
}

/// A producer computed where it is used.
pub(super) struct Repetition {
    /// How often each element is computed.
    copies: Size,
    /// The work for each element.
    work: Work,
    /// The bytes of an element.
    width: f64,
}

impl Repetition {
    /// A producer with each element computed this many times.
    pub fn new(graph: &Graph, (kernel, p): (&Kernel, &Elementwise<'_>), copies: Size) -> Repetition {
        let (program, functions) = (graph.frame(), graph.functions());
        let work = work::block(functions, kernel, p.body, &cost::nominal);
        Repetition { copies, work, width: program.buffers[p.buffer].dtype.bytes() as f64 }
    }

    /// Whether recomputing an element costs less than storing it and reading it back, determined
    /// before anything is rewritten.
    pub fn is_affordable(&self) -> Result<(), Reason> {
        // Arithmetic for subscripts mostly disappears when it is combined with other subscripts.
        let costly = Machine::NOMINAL.is_expensive(self.work.operations - self.work.indexing, self.width);
        if costly && self.copies != Size::constant(1) { Err(self.reason()) } else { Ok(()) }
    }

    /// Whether kernels of some prices, each running this often, may become others.
    pub fn pays(
        &self,
        graph: &Graph,
        prices: (&[&Price], &[&Price]),
        runs: f64,
        limit: TimeLimit,
    ) -> Result<(), Reason> {
        self.is_affordable()?;
        worthwhile(graph, prices, runs, limit)
            .map_err(|loss| if self.copies == Size::constant(1) { loss } else { self.reason() })
    }

    fn reason(&self) -> Reason {
        Reason::WouldDuplicate { copies: self.copies.clone(), operations: self.work.executed as u64 }
    }
}

/// How long the whole plan may take, in nanoseconds: within it, a merge that saves bytes may make
/// the plan slower. Without a limit no merge may.
pub(super) type TimeLimit = Option<f64>;

/// Whether kernels of some prices, `before`, may become others, `after`. Each runs this often.
fn worthwhile(
    graph: &Graph,
    (before, after): (&[&Price], &[&Price]),
    runs: f64,
    limit: TimeLimit,
) -> Result<(), Reason> {
    let sum = |prices: &[&Price], of: fn(&Price) -> f64| prices.iter().map(|price| of(price)).sum::<f64>();
    let more = |of: fn(&Price) -> f64| sum(after, of) - sum(before, of);
    let (loss, idle) = (more(|price| price.time), more(|price| price.idle));
    let has_time = || limit.is_some_and(|limit| graph.time() + runs * loss <= limit);
    if loss <= 0.0 || more(|price| price.memory) < 0.0 && has_time() {
        Ok(())
    } else if loss <= idle {
        Err(Reason::LessParallel { loss: loss as u64 })
    } else {
        Err(Reason::NotProfitable { loss: loss as u64 })
    }
}

/// Kernels that share nothing but a launch are merged only if the launch is most of their cost.
pub(super) fn small(graph: &Graph, (first, second): (KernelId, KernelId)) -> Result<(), Reason> {
    let launch = Machine::NOMINAL.launch;
    let work = graph.price(first).time.max(graph.price(second).time) - launch;
    if work > launch { Err(Reason::NotProfitable { loss: (work - launch) as u64 }) } else { Ok(()) }
}

/// Replaces two kernels by one that does their work, if it pays; `record` records it in the graph.
pub(super) fn merge(
    graph: &mut Graph,
    (first, second): (KernelId, KernelId),
    code: Rc<Code>,
    limit: TimeLimit,
    record: impl FnOnce(&mut Graph),
) -> Result<(), Reason> {
    let before = [graph.price(first), graph.price(second)];
    let worthwhile = worthwhile(graph, (&before, &[&code.price]), graph.runs(first), limit);
    if !graph.grants(worthwhile.is_ok()) {
        return Err(worthwhile.err().unwrap_or(Reason::NotProfitable { loss: 0 }));
    }
    record(graph);
    graph.unite((first, second), code);
    Ok(())
}
