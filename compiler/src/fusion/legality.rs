//! The rules of merging: each is a function that says nothing, or the reason why not.

use ir::decision::Reason;

use crate::analysis::cost::Price;

use super::Graph;
use super::pairs::Pair;
use super::profit::{MAX_COPIES, MAX_LINES, fits};
use super::substitution::Use;

/// A producer may stand in place of a consumer's loads: no kernel grows beyond what compiles well.
pub(super) fn substitutes(producer: &Price, consumer: &Price, u: &Use) -> Result<(), Reason> {
    if u.sites > MAX_COPIES {
        return Err(Reason::TooManyCopies { copies: u.sites, limit: MAX_COPIES });
    }
    fits(consumer.statements + u.sites * producer.statements, consumer.lines + u.sites * producer.lines)
}

/// Two kernels may become one if nothing has to run between them, and if the one is not too large to look at.
pub(super) fn adjacent(graph: &Graph, (first, second): Pair) -> Result<(), Reason> {
    within_a_part(graph, (first, second))?;
    let (a, b) = (graph.price(first), graph.price(second));
    fits(a.statements + b.statements, a.lines + b.lines)?;
    match graph.path_between(first, second) {
        Some(through) => Err(Reason::PathBetween { through: graph.operation(through) }),
        None => Ok(()),
    }
}

/// Kernels on both sides of a cut stay apart.
pub(super) fn within_a_part(graph: &Graph, (first, second): Pair) -> Result<(), Reason> {
    let allowed = graph.parts().allow(graph.operation(first), graph.operation(second));
    allowed.map_err(|lines| Reason::Cut { operations: lines, limit: MAX_LINES })
}
