//! Elementwise work before and after a contraction: what becomes of a product, over just its own indices, is done to a
//! tile of it while that is in cache, and what a factor is made from is computed as the factor is packed.
//!
//! A reduction does not go into a factor, which is packed again for each tile.

use ir::decision::Reason;

use super::form::Place;
use super::join::Also;
use super::legality::contracts;
use super::profit::TimeLimit;
use super::substitution::{self, Rule};
use super::weave::weave;
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
            let kernel = weave(graph, pair, Also::Epilogues)?;
            profit::merge(graph, pair, kernel, limit, |graph| {
                flows.iter().for_each(|buffer| graph.fused(*buffer, pair.1))
            })
        },
    );
    let before = substitution::run(
        graph,
        &Rule { takes: |producer, uses| !producer.reduces && uses.iter().any(|u| u.place == Place::Factor) },
        limit,
    );
    // What is left between a contraction and what comes before it is no elementwise work.
    pairs::along_flows(graph, |graph, (_, consumer)| contracts(graph, consumer), |_, _, _| Err(Reason::Contraction));
    after || before
}
