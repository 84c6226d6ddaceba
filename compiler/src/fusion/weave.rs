//! Weaving: two kernels become one by making their outer loops one. The loops inside are joined likewise (`join`), what one
//! part stored the other finds at hand, and what nobody else loads is not stored at all.

use std::collections::BTreeSet;
use std::rc::Rc;

use ir::decision::Reason;
use ir::nest::{Block, BufferId, IndexId, Kernel, KernelId, Op, Program, Statement, Subscript};
use ir::rewrite::{Copier, erase_stores, erase_unused, forward, hoist, renumber, share};
use ir::sabotage::{self, Bug};
use ir::{Size, verify, visit};

use super::Graph;
use super::join::{Also, join};
use super::memo::{Code, Mechanic};
use super::pairs::{Pair, flows};
use super::split::split;

/// The most top-level loops of a kernel that read the same one after another.
const MAX_PHASES: usize = 4;

/// The kernel that does the work of two, or why there is none. `first` loads nothing that `second` stores, and no
/// kernel stands between them.
pub(super) fn weave(graph: &Graph, pair: Pair, also: Also) -> Result<Rc<Code>, Reason> {
    graph.merged(pair, Mechanic::Weave(also), || {
        let (first, second) = (graph.kernel(pair.0), graph.kernel(pair.1));
        let flows = flows(graph, pair);
        let woven = rewrite(graph, pair, (first, second), also);
        if woven.as_ref().is_ok_and(|kernel| !still_loaded(kernel, &flows)) {
            return woven;
        }
        // Over other indices they may have more in common.
        let common = graph.loads(pair.0).intersection(graph.loads(pair.1)).copied().filter(|_| woven.is_err());
        let mut split = flows.iter().copied().chain(common).filter_map(|buffer| {
            let (first, second) = split(graph.frame(), (first, second), buffer)?;
            let kernel = rewrite(graph, pair, (&first, &second), also).ok()?;
            (woven.is_err() || !still_loaded(&kernel, &flows)).then_some(kernel)
        });
        split.next().map_or_else(|| woven.clone(), Ok)
    })
}

/// The kernel that does the work of a pair, of which the code is `a` and `b`.
fn rewrite(graph: &Graph, (first, second): Pair, (a, b): (&Kernel, &Kernel), also: Also) -> Result<Kernel, Reason> {
    let program = graph.frame();
    let flows = flows(graph, (first, second));
    let mut kernel = one_after_another(program, a, b);
    let apart = loops(&a.body).max(loops(&b.body));
    let refusal = |together: usize| {
        if flows.is_empty() {
            let phases = together <= MAX_PHASES && reads_the_same(program, a, b);
            (together > apart && !phases).then(|| why_apart(graph, (first, second)))
        } else if together > apart {
            Some(why_not(graph, (first, second), &flows))
        } else {
            None
        }
    };
    let mut joined = join(program, &mut kernel.body, also);
    if let (false, Some(reason)) = (joined, refusal(loops(&kernel.body))) {
        return Err(reason);
    }
    loop {
        forward(program, &mut kernel);
        hoist(program, &mut kernel);
        share(&mut kernel);
        // Lengths that the data give are the same only where they have been found to be.
        joined = joined && join(program, &mut kernel.body, also);
        if !joined {
            break;
        }
    }
    let together = loops(&kernel.body);
    if let Some(reason) = refusal(together) {
        return Err(reason);
    }
    if together == loops(&a.body) + loops(&b.body) && still_loaded(&kernel, &flows) {
        return Err(why_not(graph, (first, second), &flows));
    }
    let outside = |buffer: &BufferId| graph.readers(*buffer).any(|reader| reader != first && reader != second);
    let mut idle: BTreeSet<BufferId> = visit::stores(&kernel.body).into_iter().collect();
    idle.retain(|buffer| !graph.is_result(*buffer) && (sabotage::on(Bug::ErasedStore) || !outside(buffer)));
    for buffer in visit::loads(&kernel.body) {
        idle.remove(&buffer);
    }
    erase_stores(&mut kernel, &idle);
    erase_unused(&mut kernel.body);
    if depth(&kernel.body) > verify::MAX_DEPTH {
        return Err(Reason::OtherIterations);
    }
    Ok(renumber(program, &kernel))
}

/// The statements of both kernels in one, which has the second's name.
fn one_after_another(program: &Program, first: &Kernel, second: &Kernel) -> Kernel {
    let mut kernel = second.clone();
    let mut body = vec![];
    Copier::new(program, first, &mut kernel).copy(&first.body, &mut body);
    body.append(&mut kernel.body);
    kernel.body = body;
    kernel.origins.extend(first.origins.iter().copied());
    kernel.origins.sort_unstable();
    kernel.origins.dedup();
    kernel
}

/// How many loops and contractions stand side by side.
fn loops(block: &Block) -> usize {
    block.iter().filter(|s| matches!(s, Statement::Loop(_) | Statement::Contract(_))).count()
}

fn depth(block: &Block) -> usize {
    1 + block.iter().flat_map(Statement::blocks).map(depth).max().unwrap_or(0)
}

fn still_loaded(kernel: &Kernel, flows: &[BufferId]) -> bool {
    visit::loads(&kernel.body).iter().any(|buffer| flows.contains(buffer))
}

/// Why loops between which buffers flow do not become one.
fn why_not(graph: &Graph, (first, second): Pair, flows: &[BufferId]) -> Reason {
    if contracts(graph, first) || contracts(graph, second) {
        return Reason::Contraction;
    }
    let (program, first, second) = (graph.frame(), graph.kernel(first), graph.kernel(second));
    let mut reason = None;
    for buffer in flows {
        let stored = outer_axes(program, first, *buffer, Access::Store);
        let loaded = outer_axes(program, second, *buffer, Access::Load);
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Load,
    Store,
}

/// For each axis of a buffer: the extent of the outermost index that stands there alone in all accesses.
fn outer_axes(program: &Program, kernel: &Kernel, buffer: BufferId, access: Access) -> Vec<Option<Size>> {
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
        visit::for_each_statement(std::slice::from_ref(statement), &mut |s| match s {
            Statement::Store { buffer: to, at, .. } if *to == buffer && access == Access::Store => note(at, &outer),
            Statement::Let { op: Op::Load { buffer: from, view, at }, .. }
                if *from == buffer && access == Access::Load =>
            {
                let plain = view.as_ref().is_none_or(|view| *view == program.buffers[buffer].shape);
                note(if plain { at } else { &[] }, &outer);
            }
            _ => {}
        });
    }
    axes.unwrap_or_default()
}

/// Whether a kernel holds a contraction.
pub(super) fn contracts(graph: &Graph, id: KernelId) -> bool {
    graph.kernel(id).body.iter().any(|s| matches!(s, Statement::Contract(_)))
}

/// Why kernels that do not hang on each other do not become one: the first outer extents in which they differ.
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

/// Whether kernels read a buffer of several axes over the same box, whatever the order: row sums and column sums.
fn reads_the_same(program: &Program, first: &Kernel, second: &Kernel) -> bool {
    let loads: BTreeSet<BufferId> = visit::loads(&first.body).into_iter().collect();
    visit::loads(&second.body).into_iter().any(|buffer| {
        let shape = &program.buffers[buffer].shape;
        loads.contains(&buffer)
            && shape.len() > 1
            && reads_all(first, buffer, shape)
            && reads_all(second, buffer, shape)
    })
}

/// Whether some load runs over the whole buffer, an index for each axis.
fn reads_all(kernel: &Kernel, buffer: BufferId, shape: &[Size]) -> bool {
    let mut extents = std::collections::BTreeMap::new();
    let mut all = false;
    visit::for_each_statement(&kernel.body, &mut |s| match s {
        Statement::Loop(l) => extents.extend(l.dims.iter().map(|(i, extent)| (*i, extent))),
        Statement::Let { op: Op::Load { buffer: from, view: None, at }, .. } if *from == buffer => {
            let along = |(s, n): (&Subscript, &Size)| {
                s.as_index().and_then(|i| extents.get(&i)).is_some_and(|extent| extent.as_size() == Some(n))
            };
            let mut indices: Vec<_> = at.iter().filter_map(Subscript::as_index).collect();
            indices.sort_unstable();
            indices.dedup();
            all |= indices.len() == at.len() && at.iter().zip(shape).all(along);
        }
        _ => {}
    });
    all
}
