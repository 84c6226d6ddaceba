//! Fuses elementwise work into the input of the reduction or scan that uses it (`sum(x * x)`), and
//! work on a reduction's result into its end (`sqrt(sum(x * x))`). XLA's kInput: the root is a
//! reduction.
//!
//! A reduction moves only to a kernel that uses each of its results once, and not before a loop,
//! because the whole loop would have to wait for it.

use ir::Size;

use super::Graph;
use super::form::LoadContext;
use super::profit::TimeLimit;
use super::substitution::{self, Rule};

/// Runs the pass; says whether it changed anything.
pub fn run(graph: &mut Graph, limit: TimeLimit) -> bool {
    substitution::run(
        graph,
        &Rule {
            takes: |producer, uses| {
                let factor = uses.iter().any(|u| u.context == LoadContext::Factor);
                let reduction = uses.iter().any(|u| u.context == LoadContext::Reduction);
                let once = || matches!(uses, [u] if u.copies == Size::constant(1) && !u.before_loops);
                !factor && if producer.reduces { once() } else { reduction }
            },
        },
        limit,
    )
}
