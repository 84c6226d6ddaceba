//! Explains in words of the source why two operations do not share a kernel, and the smallest
//! change that would let them.
//!
//! A change is suggested only if it can be made and gives a better plan;
//! `compiler/tests/all/helps.rs` makes each.

use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::decision::{Pair, Reason};
use ir::nest::{Block, BufferId, Kernel, KernelId, LoopKind, Statement, Subscript};
use ir::visit;

use super::names::{Operation, Sizes};
use crate::fusion::Stretches;
use crate::pipeline::Compiled;

/// A refusal in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The obstacle, as a sentence.
    pub sentence: String,
    /// The change to make; `None` if nothing needs to be changed.
    pub suggestion: Option<String>,
}

/// The names and sizes that sentences are made from.
pub(super) struct Words<'a> {
    operations: &'a PrimaryMap<KernelId, Operation>,
    sizes: &'a Sizes,
    compiled: &'a Compiled,
    /// The kernels after fusion that compute each operation.
    homes: SecondaryMap<KernelId, Vec<KernelId>>,
    stretches: Stretches,
}

impl<'a> Words<'a> {
    pub fn new(operations: &'a PrimaryMap<KernelId, Operation>, sizes: &'a Sizes, compiled: &'a Compiled) -> Words<'a> {
        let mut homes: SecondaryMap<KernelId, Vec<KernelId>> = SecondaryMap::new();
        for id in compiled.program.kernels.keys() {
            compiled.members[id].iter().for_each(|operation| homes[*operation].push(id));
        }
        Words { operations, sizes, compiled, homes, stretches: Stretches::new(&compiled.unfused) }
    }

    fn title(&self, operation: KernelId) -> &str {
        self.operations.get(operation).map_or("another operation", |o| o.title.as_str())
    }

    /// The kernel of an operation without fusion.
    fn kernel(&self, operation: KernelId) -> Option<&Kernel> {
        self.compiled.unfused.kernels.get(operation)
    }

    /// Whether one of the kernels that compute an operation has a statement of some kind.
    fn has(&self, operation: KernelId, kind: fn(&Statement) -> bool) -> bool {
        let kernels = self.homes[operation].iter().filter_map(|id| self.compiled.program.kernels.get(*id));
        kernels.into_iter().any(|kernel| has(&kernel.body, kind))
    }

    /// Whether two operations are in one kernel, whatever was decided on this pair.
    pub fn share_a_kernel(&self, pair: Pair) -> bool {
        let (Pair::Flow { producer: a, consumer: b, .. } | Pair::Shared { first: a, second: b, .. }) = pair;
        self.homes[a].iter().any(|home| self.homes[b].contains(home))
    }

    /// The reason that applies to the final kernels: an operation that has become part of a matrix
    /// product's kernel is separate because of that, whatever kept the two apart before.
    pub fn reason(&self, pair: Pair, reason: &Reason) -> Reason {
        match (reason, pair) {
            (Reason::OtherIterations, Pair::Flow { producer, .. }) if self.has(producer, is_product) => {
                Reason::Contraction
            }
            _ => reason.clone(),
        }
    }

    /// The table of refusals: the obstacle for each reason, and the remedy.
    pub fn refusal(&self, pair: Pair, reason: &Reason) -> Why {
        let (first, second) = match pair {
            Pair::Flow { producer, consumer, .. } => (producer, consumer),
            Pair::Shared { first, second, .. } => (first, second),
        };
        let suggestion = self.suggestion(pair, reason);
        let (a, b) = (self.title(first), self.title(second));
        let sentence = match reason {
            Reason::Disabled(pass) => format!("the pass that {} is switched off", pass.purpose()),
            Reason::GlobalReduction => format!("every element of {b} waits for the whole of {a}"),
            Reason::OtherIterations if !self.stretches.have_both(first, second) => {
                format!("a loop begins or ends between {a} and {b}: one of them may run more often than the other")
            }
            Reason::OtherIterations if matches!(pair, Pair::Shared { .. }) => {
                format!("{a} and {b} read the same array in loops that cannot become one")
            }
            Reason::OtherIterations => {
                format!("an element of {b} needs elements of {a} that other iterations of its loops compute")
            }
            Reason::WouldDuplicate { copies, operations } => {
                let copies = match copies.as_constant() {
                    Some(n) => n.to_string(),
                    None => format!("`{}`", self.sizes.text(copies)),
                };
                let operations = counted(*operations, "operation");
                format!(
                    "recomputed wherever it is read, {a} would take {copies} times {operations} for each element: storing it \
                     and reading it back is cheaper"
                )
            }
            Reason::TooManyCopies { copies, limit } => {
                format!("the code of {a} would be repeated {copies} times in one kernel, and {limit} is the limit")
            }
            Reason::ExtentsDiffer { first, second } => {
                let (first, second) = (self.sizes.text(first), self.sizes.text(second));
                format!("{a} runs over `{first}` and {b} over `{second}`: their loops cannot become one")
            }
            Reason::TooManyLiveValues { live, limit } => {
                format!("together they keep {live} values alive at once, and registers hold {limit}")
            }
            Reason::TooLarge { operations, limit } => {
                format!("together they have {operations} operations, and {limit} is the limit for a kernel")
            }
            Reason::Cut { operations, limit } => {
                format!(
                    "the program has {operations} operations, and {limit} is the limit for a kernel: it is cut between {a} and {b}, \
                     since few bytes cross there"
                )
            }
            Reason::NotProfitable { loss } => {
                format!(
                    "together they would take {loss} ns longer, where each size is {}",
                    crate::analysis::cost::NOMINAL
                )
            }
            Reason::LessParallel { .. } => {
                format!(
                    "one loop for {a} and {b} has too few iterations to keep all cores busy: apart, one of them has more"
                )
            }
            Reason::OtherConsumer { consumer } => {
                format!("{a} has to be stored anyway, for {}, which it cannot be fused with", self.title(*consumer))
            }
            Reason::OtherPlan => {
                format!("{a} and {b} could share a kernel, but then the whole program would cost more")
            }
            Reason::PathBetween { through } => format!("{} has to run between {a} and {b}", self.title(*through)),
            Reason::Contraction => {
                let [first, second] = [first, second].map(|operation| (operation, self.is_product(operation)));
                match (first, second) {
                    ((_, true), (_, true)) => format!("{b} cannot be fused with {a}: both are matrix products"),
                    ((other, false), (_, true)) => self.beside_a_product(other, b),
                    ((_, true), (other, false)) => self.beside_a_product(other, a),
                    ((_, false), (other, false)) => self.beside_a_product(other, &format!("that {a} belongs to")),
                }
            }
        };
        Why { sentence, suggestion }
    }

    /// The reason why an operation is not fused into a matrix product.
    fn beside_a_product(&self, operation: KernelId, product: &str) -> String {
        let title = self.title(operation);
        let is_elementwise = self.kernel(operation).is_some_and(|kernel| !has(&kernel.body, is_reduction));
        let why = match is_elementwise {
            true if self.has(operation, is_product) => "it is part of another product's kernel",
            true if self.has(operation, is_reduction) => {
                "only elementwise work and loops over its rows can, and it shares a kernel with a reduction"
            }
            _ => "only elementwise work over the product's own indices and loops over its rows can",
        };
        format!("{title} cannot be fused into the matrix product {product}: {why}")
    }

    /// A change that makes the plan better, for the refusals that have one.
    fn suggestion(&self, pair: Pair, reason: &Reason) -> Option<String> {
        let (first, second, buffer) = match pair {
            Pair::Flow { producer, consumer, buffer } => (producer, consumer, buffer),
            Pair::Shared { first, second, buffer } => (first, second, buffer),
        };
        let (a, consumer) = (self.title(first), self.kernel(second)?);
        match reason {
            Reason::Disabled(pass) => Some(format!("add `{pass}` to the passes of `--fuse`")),
            Reason::GlobalReduction if reduced(&self.kernel(first)?.body) > 1 => Some(
                "reduce along an axis, as `sum(x, axis = 1)` does, or row by row, as in `let y[i] = f(x[i])`: then a row is \
                 finished before the next begins"
                    .to_owned(),
            ),
            Reason::OtherIterations
                if matches!(pair, Pair::Flow { .. })
                    && self.stretches.have_both(first, second)
                    && is_displaced(consumer, buffer) =>
            {
                Some(format!("read {a} at the indices at which it is computed"))
            }
            Reason::WouldDuplicate { .. } if sites(&consumer.body, buffer) > 1 || is_displaced(consumer, buffer) => Some(format!(
                "use fewer elements of {a} for each element of {}, or make {a} cheaper to compute",
                self.title(second)
            )),
            Reason::TooManyCopies { .. } if sites(&consumer.body, buffer) > 1 => {
                Some(format!("read {a} in one place, in a loop, as `sum[k < 3](x[i + k])` does"))
            }
            Reason::ExtentsDiffer { first: a, second: b } if matches!(pair, Pair::Shared { .. }) => {
                let longer = self.sizes.text(if (a - b).as_constant()? > 0 { a } else { b });
                Some(format!("compute both over `{longer}`, and let the caller take the slice"))
            }
            Reason::GlobalReduction
            | Reason::OtherIterations
            | Reason::WouldDuplicate { .. }
            | Reason::TooManyCopies { .. }
            | Reason::ExtentsDiffer { .. }
            | Reason::TooManyLiveValues { .. }
            | Reason::TooLarge { .. }
            | Reason::Cut { .. }
            | Reason::NotProfitable { .. }
            | Reason::LessParallel { .. }
            | Reason::OtherConsumer { .. }
            | Reason::PathBetween { .. }
            | Reason::Contraction
            | Reason::OtherPlan => None,
        }
    }

    fn is_product(&self, operation: KernelId) -> bool {
        self.kernel(operation).is_some_and(|kernel| has(&kernel.body, is_product))
    }
}

/// Whether one of these statements, or one nested in them, is of some kind.
fn has(block: &Block, kind: fn(&Statement) -> bool) -> bool {
    let mut has = false;
    visit::for_each_statement(block, &mut |statement| has |= kind(statement));
    has
}

fn is_product(statement: &Statement) -> bool {
    matches!(statement, Statement::Contract(_))
}

fn is_reduction(statement: &Statement) -> bool {
    matches!(statement, Statement::Loop(l) if matches!(l.kind, LoopKind::Reduce(_)))
}

/// The number of places in which a kernel loads from an array.
fn sites(block: &Block, buffer: BufferId) -> usize {
    visit::loads(block).into_iter().filter(|from| *from == buffer).count()
}

/// The number of indices that reductions of a kernel run over.
fn reduced(block: &Block) -> usize {
    let mut most = 0;
    visit::for_each_statement(block, &mut |statement| {
        if let Statement::Loop(l) = statement
            && matches!(l.kind, LoopKind::Reduce(_))
        {
            most = most.max(l.dims.len());
        }
    });
    most
}

/// Whether a kernel loads from an array at positions other than its own indices: `x[n - 1 - i]`,
/// `x[i + 1]`.
fn is_displaced(kernel: &Kernel, buffer: BufferId) -> bool {
    let mut displaced = false;
    visit::for_each_statement(&kernel.body, &mut |statement| {
        let load = statement.effects().load.filter(|load| load.buffer == buffer);
        let is_index = |subscript: &Subscript| subscript.as_index().is_some();
        displaced |= load.is_some_and(|load| !load.at.iter().all(is_index));
    });
    displaced
}

fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
