//! Why two operations do not share a kernel, in words of the source, and the smallest change to it that would let them.

use cranelift_entity::PrimaryMap;
use ir::decision::{Pair, Reason};
use ir::nest::KernelId;

use super::names::{Operation, Sizes};

/// A refusal in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// What stands in the way.
    pub sentence: String,
    /// What to write instead; none where nothing needs to be mended.
    pub suggestion: Option<String>,
}

/// What the words are made of.
pub(super) struct Words<'a> {
    pub operations: &'a PrimaryMap<KernelId, Operation>,
    pub sizes: &'a Sizes,
}

impl Words<'_> {
    fn title(&self, operation: KernelId) -> &str {
        self.operations.get(operation).map_or("another operation", |o| o.title.as_str())
    }

    /// The table of refusals: for each reason what stands in the way, and what to do about it.
    pub fn refusal(&self, pair: Pair, reason: &Reason) -> Why {
        let (first, second) = match pair {
            Pair::Flow { producer, consumer, .. } => (producer, consumer),
            Pair::Shared { first, second, .. } => (first, second),
        };
        let (first, second) = (self.title(first), self.title(second));
        let (sentence, suggestion) = match reason {
            Reason::Disabled(pass) => (
                format!("the pass that {} is switched off", pass.purpose()),
                Some(format!("add `{pass}` to the passes of `--fuse`")),
            ),
            Reason::GlobalReduction => (
                format!("every element of {second} waits for the whole of {first}"),
                Some(
                    "reduce along an axis, as `sum(x, axis = 1)` does, or row by row, as in `let y[i] = f(x[i])`: then a row is \
                     finished before the next begins"
                        .to_owned(),
                ),
            ),
            Reason::OtherIterations if matches!(pair, Pair::Shared { .. }) => (
                format!("{first} and {second} go through what both read in loops that cannot be one"),
                Some("read it at the same indices, in loops of the same order".to_owned()),
            ),
            Reason::OtherIterations => (
                format!("an element of {second} needs elements of {first} that are computed elsewhere in its loops"),
                Some(format!("read {first} at the indices at which it is computed, in loops of the same order")),
            ),
            Reason::WouldDuplicate { copies, operations } => (
                match copies.as_constant() {
                    Some(n) => format!(
                        "{first} would be computed {n} times for each of its elements, at {} each time: storing it and reading \
                         it back is cheaper",
                        counted(*operations, "operation")
                    ),
                    None => format!(
                        "{first} would be computed `{}` times for each of its elements, at {} each time: storing it and \
                         reading it back is cheaper",
                        self.sizes.text(copies),
                        counted(*operations, "operation")
                    ),
                },
                Some(format!("use fewer elements of {first} for each element of what follows, or compute what is cheaper")),
            ),
            Reason::TooManyCopies { copies, limit } => (
                format!("the code of {first} would stand {copies} times in one kernel, more than {limit}"),
                Some(format!("read {first} at fewer places, or at all of them in one loop, as in `sum[k < 3](x[i + k])`")),
            ),
            Reason::ExtentsDiffer { first: a, second: b } => (
                format!(
                    "{first} runs over `{}` and {second} over `{}`: their loops cannot be one",
                    self.sizes.text(a),
                    self.sizes.text(b)
                ),
                Some("let both run over the same sizes, and take slices of the results".to_owned()),
            ),
            Reason::TooManyLiveValues { live, limit } => (
                format!("together they keep {live} values alive at once, and registers hold {limit}"),
                None,
            ),
            Reason::TooLarge { operations, limit } => (
                format!("together they have {operations} operations, and a kernel at most {limit}"),
                Some("make several functions of it, which the caller runs one after the other".to_owned()),
            ),
            Reason::NotProfitable { loss } => (
                format!(
                    "together they would take {loss} ns longer, where each size is {}",
                    crate::analysis::cost::NOMINAL
                ),
                None,
            ),
            Reason::OtherConsumer { consumer } => (
                format!("{first} has to be in memory anyway, for {}", self.title(*consumer)),
                Some(format!("let {first} and {} share a kernel first", self.title(*consumer))),
            ),
            Reason::PathBetween { through } => (
                format!("{} has to run between them", self.title(*through)),
                Some(format!("let {} share a kernel with one of them first", self.title(*through))),
            ),
            Reason::Contraction => (
                format!("{second} and {first} meet in a matrix product, which takes elementwise work over its own indices alone"),
                Some("do elementwise work, over the indices of the product, before and after it".to_owned()),
            ),
        };
        Why { sentence, suggestion }
    }
}

fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
