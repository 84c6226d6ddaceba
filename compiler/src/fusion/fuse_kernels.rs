//! Loop fusion of two kernels: their outer loops become one. The loops inside are fused likewise
//! (`fuse_loops`), stored elements are forwarded to the loads of the other part, and stores that
//! nothing else loads are removed.

use std::collections::BTreeSet;
use std::rc::Rc;

use ir::decision::Reason;
use ir::nest::{BufferId, Kernel, Program};
use ir::rewrite::{Copier, erase_stores, erase_unused, forward, hoist, join_branches, renumber, share};
use ir::sabotage::{self, Bug};
use ir::visit;

use super::Graph;
use super::fuse_loops::{Also, fuse_loops};
use super::legality::{self, Fusing};
use super::memo::{Code, Mechanism};
use super::pairs::{Pair, flows};
use super::split::split;

/// The kernel that does the work of two, or the reason why there is none. `first` loads nothing
/// that `second` stores, and no kernel has to run between them.
pub(super) fn fuse_kernels(graph: &Graph, pair: Pair, also: Also) -> Result<Rc<Code>, Reason> {
    graph.merged(pair, Mechanism::FuseLoops(also), || {
        let (first, second) = (graph.kernel(pair.0), graph.kernel(pair.1));
        let flows = flows(graph, pair);
        let fused = rewrite(graph, pair, (first, second), also);
        if fused.as_ref().is_ok_and(|kernel| !still_loaded(kernel, &flows)) {
            return fused;
        }
        // Over other indices they may have more in common.
        let common = graph.loads(pair.0).intersection(graph.loads(pair.1)).copied().filter(|_| fused.is_err());
        let mut split = flows.iter().copied().chain(common).filter_map(|buffer| {
            let (first, second) = split(graph.frame(), (first, second), buffer)?;
            let kernel = rewrite(graph, pair, (&first, &second), also).ok()?;
            (fused.is_err() || !still_loaded(&kernel, &flows)).then_some(kernel)
        });
        split.next().map_or_else(|| fused.clone(), Ok)
    })
}

/// The kernel that does the work of a pair with the code `a` and `b`.
fn rewrite(graph: &Graph, (first, second): Pair, (a, b): (&Kernel, &Kernel), also: Also) -> Result<Kernel, Reason> {
    let program = graph.frame();
    let flows = flows(graph, (first, second));
    let mut kernel = one_after_another(program, a, b);
    let fusing = Fusing { graph, pair: (first, second), parts: (a, b), flows: &flows };
    let mut changed = fuse_loops(program, &mut kernel.body, also);
    if !changed {
        fusing.shares_loops(&kernel)?;
    }
    loop {
        forward(program, &mut kernel);
        hoist(program, &mut kernel);
        share(&mut kernel);
        // Lengths from data are equal only where they have been found to be.
        changed = changed && fuse_loops(program, &mut kernel.body, also);
        if !changed {
            break;
        }
    }
    fusing.is_one(&kernel)?;
    let outside = |buffer: &BufferId| graph.readers(*buffer).any(|reader| reader != first && reader != second);
    let mut idle: BTreeSet<BufferId> = visit::stores(&kernel.body).into_iter().collect();
    idle.retain(|buffer| !graph.is_result(*buffer) && (sabotage::on(Bug::ErasedStore) || !outside(buffer)));
    for buffer in visit::loads(&kernel.body) {
        idle.remove(&buffer);
    }
    erase_stores(&mut kernel, &idle);
    erase_unused(&mut kernel.body);
    if join_branches(&mut kernel.body) > 0 {
        share(&mut kernel);
    }
    legality::depth(&kernel)?;
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

/// Whether a kernel still loads what flows between its parts.
pub(super) fn still_loaded(kernel: &Kernel, flows: &[BufferId]) -> bool {
    visit::loads(&kernel.body).iter().any(|buffer| flows.contains(buffer))
}
