//! Fuses elementwise work before and after a contraction: work on a product, over exactly its own
//! indices, is applied to each tile while that is in cache, and the computation of a factor is done
//! while the factor is packed.
//!
//! A reduction is not fused into a factor, because the factor is packed again for each tile.

use ir::decision::Reason;

use super::form::LoadContext;
use super::fuse_kernels::fuse_kernels;
use super::fuse_loops::Also;
use super::legality::contracts;
use super::profit::TimeLimit;
use super::substitution::{self, Rule};
use super::{Graph, legality, pairs, profit};

/// Runs the pass; says whether it changed anything.
pub fn run(graph: &mut Graph, limit: TimeLimit) -> bool {
    if !graph.kernels().any(|id| contracts(graph, id)) {
        return false;
    }
    let after = pairs::along_flows(
        graph,
        |graph, (producer, _)| contracts(graph, producer),
        |graph, pair, flows| {
            legality::adjacent(graph, pair)?;
            let kernel = fuse_kernels(graph, pair, Also::Epilogues)?;
            profit::merge(graph, pair, kernel, limit, |graph| {
                flows.iter().for_each(|buffer| graph.fused(*buffer, pair.1))
            })
        },
    );
    let before = substitution::run(
        graph,
        &Rule { takes: |producer, uses| !producer.reduces && uses.iter().any(|u| u.context == LoadContext::Factor) },
        limit,
    );
    // The remaining work before and after a contraction is not elementwise.
    pairs::along_flows(graph, |graph, (_, consumer)| contracts(graph, consumer), |_, _, _| Err(Reason::Contraction));
    after || before
}
