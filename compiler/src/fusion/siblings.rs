//! Merges kernels without a path between them that read the same array: sine and cosine of one `x`,
//! sum and maximum, row sums and column sums each read `x` once. It also merges small kernels over
//! the same indices, which cost little except their launch.
//!
//! Each of the kernels that load a buffer is tried with the few that follow it in the program,
//! since related reads are close together.

use std::collections::BTreeMap;

use ir::decision::Reason;
use ir::nest::{BufferId, KernelId, Statement};

use super::fuse_kernels::fuse_kernels;
use super::fuse_loops::Also;
use super::pairs::{Pair, Pairs, flows};
use super::profit::TimeLimit;
use super::{Graph, legality, profit};

/// How many of the following readers are tried with each.
const NEAR: usize = 3;

/// Runs the pass; says whether it changed anything.
pub fn run(graph: &mut Graph, limit: TimeLimit) -> bool {
    let mut pairs = Pairs::default();
    for group in groups(graph) {
        for (n, first) in group.iter().enumerate() {
            for second in group.iter().skip(n + 1).take(NEAR) {
                pairs.put(graph, (*first, *second));
            }
        }
    }
    let mut changed = false;
    while let Some((first, second)) = pairs.pop(graph) {
        let pair = (first.min(second), first.max(second));
        if !(flows(graph, (first, second)).is_empty() && flows(graph, (second, first)).is_empty()) {
            // A flow between the two is the concern of other passes.
            continue;
        }
        let common: Vec<BufferId> = graph.loads(first).intersection(graph.loads(second)).copied().collect();
        match merge(graph, pair, &common, limit) {
            Ok(()) => {
                changed = true;
                pairs.merge(graph, pair);
            }
            Err(reason) => {
                common.iter().for_each(|buffer| graph.shared(*buffer, pair, Some(&reason)));
                pairs.refuse((first, second), &reason);
            }
        }
    }
    changed
}

/// Kernels that may be siblings: the readers of each buffer, and the kernels of each iteration
/// space.
fn groups(graph: &Graph) -> Vec<Vec<KernelId>> {
    let mut readers: BTreeMap<BufferId, Vec<KernelId>> = BTreeMap::new();
    let mut spaces: BTreeMap<Vec<ir::Size>, Vec<KernelId>> = BTreeMap::new();
    for id in graph.kernels() {
        for buffer in graph.loads(id) {
            readers.entry(*buffer).or_default().push(id);
        }
        let space = graph.kernel(id).body.iter().find_map(|s| {
            let Statement::Loop(l) = s else { return None };
            l.dims.iter().map(|(_, extent)| extent.as_size().cloned()).collect()
        });
        spaces.entry(space.unwrap_or_default()).or_default().push(id);
    }
    readers.into_values().chain(spaces.into_values()).collect()
}

fn merge(graph: &mut Graph, pair: Pair, common: &[BufferId], limit: TimeLimit) -> Result<(), Reason> {
    legality::adjacent(graph, pair)?;
    legality::adjacent(graph, (pair.1, pair.0))?;
    if common.is_empty() {
        profit::small(graph, pair)?;
    }
    let kernel = fuse_kernels(graph, pair, Also::SameExtents)?;
    profit::merge(graph, pair, kernel, limit, |graph| {
        common.iter().for_each(|buffer| graph.shared(*buffer, pair, None));
    })
}
