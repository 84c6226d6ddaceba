//! Consecutive nests that agree on outer loops become one: reduce, then pointwise, then reduce within a row are one
//! kernel, in which the row stays in cache. So softmax, layer norm and cross entropy are one kernel each, over any axis.
//!
//! A producer and a consumer agree on an index if what flows between them is stored with the producer's index and loaded
//! with the consumer's alone on the same axis. A reduction over everything agrees on none: every element after it waits
//! for all before it.

use super::join::Also;
use super::legality::contracts;
use super::profit::TimeLimit;
use super::weave::weave;
use super::{Graph, legality, pairs, profit};

/// Runs the pass; says whether it changed anything.
pub fn run(graph: &mut Graph, limit: TimeLimit) -> bool {
    pairs::along_flows(
        graph,
        |graph, (producer, consumer)| !(contracts(graph, producer) || contracts(graph, consumer)),
        |graph, pair, flows| {
            legality::adjacent(graph, pair)?;
            let kernel = weave(graph, pair, Also::SameExtents)?;
            profit::merge(graph, pair, kernel, limit, |graph| {
                flows.iter().for_each(|buffer| graph.fused(*buffer, pair.1))
            })
        },
    )
}
