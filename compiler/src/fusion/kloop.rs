//! Fuses elementwise work into the loops that use it: `relu(x * 2 + b)` is one loop, without
//! intermediate arrays in memory. XLA's kLoop.
//!
//! A producer is fused into all of its consumers or into none, unless recomputing it costs no more
//! than reading it back. An expensive one is not recomputed for each use.

use super::Graph;
use super::form::LoadContext;
use super::profit::TimeLimit;
use super::substitution::{self, Rule};

/// Runs the pass; says whether it changed anything.
pub fn run(graph: &mut Graph, limit: TimeLimit) -> bool {
    substitution::run(
        graph,
        &Rule { takes: |producer, uses| !producer.reduces && uses.iter().all(|u| u.context == LoadContext::Loop) },
        limit,
    )
}
