//! The rules of merging: each is a function that says nothing, or the reason why not.

use ir::decision::Reason;

use super::Graph;
use super::pairs::Pair;
use super::profit::{MAX_COPIES, MAX_SIZE};
use super::substitution::Use;

/// A producer of some size may stand in place of a consumer's loads: no kernel grows beyond what compiles well.
pub(super) fn substitutes(producer: u64, consumer: u64, u: &Use) -> Result<(), Reason> {
    if u.sites > MAX_COPIES {
        return Err(Reason::TooManyCopies { copies: u.sites, limit: MAX_COPIES });
    }
    let operations = consumer + u.sites * producer;
    if operations > MAX_SIZE {
        return Err(Reason::TooLarge { operations, limit: MAX_SIZE });
    }
    Ok(())
}

/// Two kernels may become one if nothing has to run between them, and if the one is not too large to look at.
pub(super) fn adjacent(graph: &Graph, (first, second): Pair) -> Result<(), Reason> {
    let operations = graph.price(first).statements + graph.price(second).statements;
    if operations > MAX_SIZE {
        return Err(Reason::TooLarge { operations, limit: MAX_SIZE });
    }
    match graph.path_between(first, second) {
        Some(through) => Err(Reason::PathBetween { through: graph.operation(through) }),
        None => Ok(()),
    }
}
