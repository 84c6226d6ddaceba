//! Elementwise work goes into the loops that use it: `relu(x * 2 + b)` is one loop, with nothing in memory between.
//! XLA's kLoop.
//!
//! A producer goes into all of its consumers or into none, unless computing it again costs no more than reading it
//! back; an expensive one is not computed again for each reuse.

use super::Graph;
use super::form::Place;
use super::profit::TimeLimit;
use super::substitution::{self, Rule};

/// Runs the pass; says whether it changed anything.
pub fn run(graph: &mut Graph, limit: TimeLimit) -> bool {
    substitution::run(
        graph,
        &Rule { takes: |producer, uses| !producer.reduces && uses.iter().all(|u| u.place == Place::Loop) },
        limit,
    )
}
