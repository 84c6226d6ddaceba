//! Merges consecutive nests that agree on outer loops: a reduction, then pointwise work, then a
//! reduction within a row become one kernel, where the row stays in cache. So softmax, layer norm
//! and cross entropy are one kernel each, over any axis.
//!
//! A producer and a consumer agree on an index if the buffer between them is stored with the
//! producer's index, and loaded with the consumer's index, alone on the same axis. They agree on
//! none with a reduction over everything, because every later element has to wait for all of it.
//!
//! Elementwise work on sorted elements becomes part of the sort (`placed`). Contractions take part
//! with loops over their rows (`rows`), so that attention is one kernel.

use super::fuse_kernels::fuse_kernels;
use super::fuse_loops::Also;
use super::profit::TimeLimit;
use super::{Graph, legality, pairs, profit};

/// Runs the pass; says whether it changed anything.
pub fn run(graph: &mut Graph, limit: TimeLimit) -> bool {
    pairs::along_flows(
        graph,
        |_, _| true,
        |graph, pair, flows| {
            legality::adjacent(graph, pair)?;
            let kernel = fuse_kernels(graph, pair, Also::Rows)?;
            profit::merge(graph, pair, kernel, limit, |graph| {
                flows.iter().for_each(|buffer| graph.fused(*buffer, pair.1))
            })
        },
    )
}
