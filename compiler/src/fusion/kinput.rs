//! Elementwise work goes into the input of the reduction or scan that takes it (`sum(x * x)`), and what becomes of a
//! reduction's result into its end (`sqrt(sum(x * x))`). XLA's kInput: the root is a reduction.
//!
//! A reduction moves only to where each of its results is wanted once, and not before a loop, all of which would wait for it.

use ir::Size;

use super::Graph;
use super::form::Place;
use super::profit::TimeLimit;
use super::substitution::{self, Rule};

/// Runs the pass; says whether it changed anything.
pub fn run(graph: &mut Graph, limit: TimeLimit) -> bool {
    substitution::run(
        graph,
        &Rule {
            takes: |producer, uses| {
                let factor = uses.iter().any(|u| u.place == Place::Factor);
                let reduction = uses.iter().any(|u| u.place == Place::Reduction);
                let once = || matches!(uses, [u] if u.copies == Size::constant(1) && !u.before_loops);
                !factor && if producer.reduces { once() } else { reduction }
            },
        },
        limit,
    )
}
