//! The rules of merging kernels: each is a function that says nothing, or the reason why not. The
//! rules for the loops inside a kernel are in [`loops`].

pub(super) mod loops;

use std::collections::{BTreeMap, BTreeSet};

use ir::decision::Reason;
use ir::effects::{Access, Effects};
use ir::nest::{Block, BufferId, IndexId, Kernel, KernelId, Program, Rows, Statement, Subscript};
use ir::{Size, verify, visit};

use super::Graph;
use super::fuse_kernels::still_loaded;
use super::pairs::Pair;
use super::substitution::Use;
use crate::analysis::cost::Price;

/// The maximum size of a kernel, in statements with functions inlined: beyond it, compiling takes
/// longer than it saves.
pub(super) const MAX_SIZE: u64 = 2_000;

/// The maximum length of a kernel, in statements of its text. Every merge rewrites them, so the
/// limit keeps fusion near-linear.
pub(super) const MAX_LINES: u64 = 640;

/// The maximum number of live scalars: beyond it, code mostly moves them around.
const MAX_LIVE: u64 = 128;

/// The maximum number of places in which one kernel may compute a producer: XLA's bound on the uses
/// created by indexing.
const MAX_COPIES: u64 = 15;

/// The maximum number of top-level loops of a kernel that read the same array one after another.
const MAX_PHASES: usize = 4;

/// A producer may replace a consumer's loads if no kernel grows beyond the size that compiles well.
pub(super) fn substitutes(producer: &Price, consumer: &Price, u: &Use) -> Result<(), Reason> {
    if u.sites > MAX_COPIES {
        return Err(Reason::TooManyCopies { copies: u.sites, limit: MAX_COPIES });
    }
    fits(consumer.statements + u.sites * producer.statements, consumer.lines + u.sites * producer.lines)
}

/// Two kernels may be merged if nothing has to run between them, and neither is too large to
/// analyse.
pub(super) fn adjacent(graph: &Graph, (first, second): Pair) -> Result<(), Reason> {
    within_a_part(graph, (first, second))?;
    let (a, b) = (graph.price(first), graph.price(second));
    fits(a.statements + b.statements, a.lines + b.lines)?;
    match graph.path_between(first, second) {
        Some(through) => Err(Reason::PathBetween { through: graph.operation(through) }),
        None => Ok(()),
    }
}

/// Kernels on both sides of a cut stay separate, and so do kernels in different loops over kernels.
pub(super) fn within_a_part(graph: &Graph, (first, second): Pair) -> Result<(), Reason> {
    if !graph.in_one_stretch(first, second) {
        return Err(Reason::OtherIterations);
    }
    let allowed = graph.parts().allow(graph.operation(first), graph.operation(second));
    allowed.map_err(|lines| Reason::Cut { operations: lines, limit: MAX_LINES })
}

/// Whether a kernel is small enough to compile well.
pub(super) fn compiles(price: &Price) -> Result<(), Reason> {
    let Price { statements, lines, live, .. } = *price;
    fits(statements, lines)?;
    if live > MAX_LIVE {
        return Err(Reason::TooManyLiveValues { live, limit: MAX_LIVE });
    }
    Ok(())
}

/// Whether a kernel with this many statements, with functions inlined and in its text, is small
/// enough.
pub(super) fn fits(statements: u64, lines: u64) -> Result<(), Reason> {
    if lines > MAX_LINES {
        return Err(Reason::TooLarge { operations: lines, limit: MAX_LINES });
    }
    if statements > MAX_SIZE {
        return Err(Reason::TooLarge { operations: statements, limit: MAX_SIZE });
    }
    Ok(())
}

/// A kernel does not nest deeper than one may.
pub(super) fn depth(kernel: &Kernel) -> Result<(), Reason> {
    fn of(block: &Block) -> usize {
        1 + block.iter().flat_map(Statement::blocks).map(of).max().unwrap_or(0)
    }
    if of(&kernel.body) > verify::MAX_DEPTH { Err(Reason::OtherIterations) } else { Ok(()) }
}

/// Two kernels that are being fused.
pub(super) struct Fusing<'g> {
    pub graph: &'g Graph,
    pub pair: Pair,
    /// The code of the pair.
    pub parts: (&'g Kernel, &'g Kernel),
    /// The buffers that the first stores and the second loads.
    pub flows: &'g [BufferId],
}

impl Fusing<'_> {
    /// Every loop of the part with fewer loops must be fused with a loop of the other part. Parts
    /// that read the same array may also read it one after another, if nothing flows between them.
    pub fn shares_loops(&self, fused: &Kernel) -> Result<(), Reason> {
        let (a, b) = self.parts;
        let together = loops_of(fused);
        if together <= loops_of(a).max(loops_of(b)) {
            return Ok(());
        }
        if !self.flows.is_empty() {
            return Err(why_flows_stay(self.graph, self.pair, self.flows));
        }
        let phases = together <= MAX_PHASES && reads_the_same(self.graph.frame(), a, b);
        if phases { Ok(()) } else { Err(why_apart(self.graph, self.pair)) }
    }

    /// The parts must share loops, or the second must not load from memory what the first stores.
    pub fn is_one(&self, fused: &Kernel) -> Result<(), Reason> {
        self.shares_loops(fused)?;
        let (a, b) = self.parts;
        if loops_of(fused) == loops_of(a) + loops_of(b) && still_loaded(fused, self.flows) {
            return Err(why_flows_stay(self.graph, self.pair, self.flows));
        }
        Ok(())
    }
}

/// The number of loops and contractions directly in a kernel.
fn loops_of(kernel: &Kernel) -> usize {
    kernel.body.iter().filter(|s| s.repeats()).count()
}

/// The reason why loops with flows between them are not fused.
fn why_flows_stay(graph: &Graph, (first, second): Pair, flows: &[BufferId]) -> Reason {
    if contracts(graph, first) || contracts(graph, second) {
        return Reason::Contraction;
    }
    let (program, first, second) = (graph.frame(), graph.kernel(first), graph.kernel(second));
    let mut reason = None;
    for buffer in flows {
        let stored = outer_axes(program, first, *buffer, |effects| effects.store);
        let loaded = outer_axes(program, second, *buffer, |effects| effects.load);
        if stored.iter().all(Option::is_none) {
            return Reason::GlobalReduction;
        }
        let alone = stored.into_iter().zip(loaded).find_map(|(a, b)| Some((a?, b?)));
        if let Some((first, second)) = alone
            && first != second
        {
            reason = Some(Reason::ExtentsDiffer { first, second });
        }
    }
    reason.unwrap_or(Reason::OtherIterations)
}

/// For each axis of a buffer: the extent of the outermost index that stands there alone in all
/// accesses of a kind.
fn outer_axes(
    program: &Program,
    kernel: &Kernel,
    buffer: BufferId,
    of: for<'s> fn(&Effects<'s>) -> Option<Access<'s>>,
) -> Vec<Option<Size>> {
    let mut axes: Option<Vec<Option<Size>>> = None;
    let mut note = |at: &[Subscript], outer: &[(IndexId, &Size)]| {
        let found: Vec<Option<Size>> = at
            .iter()
            .map(|s| outer.iter().find(|(i, _)| s.as_index() == Some(*i)).map(|(_, size)| (*size).clone()))
            .collect();
        match &mut axes {
            None => axes = Some(found),
            Some(axes) => {
                for (known, axis) in axes.iter_mut().zip(found) {
                    *known = known.take().filter(|size| Some(size) == axis.as_ref());
                }
            }
        }
    };
    for statement in &kernel.body {
        let mut outer = vec![];
        if let Statement::Loop(l) = statement {
            outer = l.dims.iter().filter_map(|(i, extent)| Some((*i, extent.as_size()?))).collect();
        }
        visit::for_each_statement(std::slice::from_ref(statement), &mut |s| {
            if let Some(access) = of(&s.effects()).filter(|access| access.buffer == buffer) {
                let plain = access.view.is_none_or(|view| *view == program.buffers[buffer].shape);
                note(if plain { access.at } else { &[] }, &outer);
            }
        });
    }
    axes.unwrap_or_default()
}

/// Whether a kernel holds a contraction.
pub(super) fn contracts(graph: &Graph, id: KernelId) -> bool {
    let mut found = false;
    visit::for_each_statement(&graph.kernel(id).body, &mut |s| found |= matches!(s, Statement::Contract(_)));
    found
}

/// The reason why independent kernels are not merged: the first outer extents in which they differ.
fn why_apart(graph: &Graph, (first, second): Pair) -> Reason {
    let extents = |id: KernelId| -> Vec<Size> {
        let outer =
            graph.kernel(id).body.iter().find_map(|s| if let Statement::Loop(l) = s { Some(&l.dims) } else { None });
        outer.into_iter().flatten().filter_map(|(_, extent)| extent.as_size().cloned()).collect()
    };
    if contracts(graph, first) || contracts(graph, second) {
        return Reason::Contraction;
    }
    let pair = extents(first).into_iter().zip(extents(second)).find(|(a, b)| a != b);
    pair.map_or(Reason::OtherIterations, |(first, second)| Reason::ExtentsDiffer { first, second })
}

/// Whether kernels read a buffer of several axes over the same box, in any order: row sums and
/// column sums. A loop that becomes several kernels reads it on its own.
fn reads_the_same(program: &Program, first: &Kernel, second: &Kernel) -> bool {
    if first.body.iter().chain(&second.body).any(|s| Rows::of(s).is_some()) {
        return false;
    }
    let loads: BTreeSet<BufferId> = visit::loads(&first.body).into_iter().collect();
    visit::loads(&second.body).into_iter().any(|buffer| {
        let shape = &program.buffers[buffer].shape;
        loads.contains(&buffer)
            && shape.len() > 1
            && reads_all(first, buffer, shape)
            && reads_all(second, buffer, shape)
    })
}

/// Whether some load runs over the whole buffer, with an index for each axis.
fn reads_all(kernel: &Kernel, buffer: BufferId, shape: &[Size]) -> bool {
    let mut extents = BTreeMap::new();
    let mut all = false;
    visit::for_each_statement(&kernel.body, &mut |s| {
        if let Statement::Loop(l) = s {
            extents.extend(l.dims.iter().map(|(i, extent)| (*i, extent)));
        }
        if let Some(Access { view: None, at, .. }) = s.effects().load.filter(|load| load.buffer == buffer) {
            let along = |(s, n): (&Subscript, &Size)| {
                s.as_index().and_then(|i| extents.get(&i)).is_some_and(|extent| extent.as_size() == Some(n))
            };
            let mut indices: Vec<_> = at.iter().filter_map(Subscript::as_index).collect();
            indices.sort_unstable();
            indices.dedup();
            all |= indices.len() == at.len() && at.iter().zip(shape).all(along);
        }
    });
    all
}
