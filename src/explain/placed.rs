//! Kernels and decisions at their places in the source, for editors.

use std::ops::Range;

use compiler::explain::Verdict;
use ir::Origin;
use ir::decision::Pair;
use reports::explain::{amount, operations};

use super::Explanation;

/// A kernel that is launched, with its operations where they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The results that it leaves in memory, in words of the source.
    pub title: String,
    /// Its operations: their names or texts between backquotes, and their places.
    pub operations: Vec<(String, Range<usize>)>,
    /// The bytes that it moves: `8 * n bytes`.
    pub bytes: String,
    /// The arithmetic that it executes: `3 * n scalar operations`.
    pub work: String,
    /// Its loops, a line each.
    pub nest: Vec<String>,
}

/// An operation that reads what another kernel leaves in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The operation that waits.
    pub at: Range<usize>,
    /// The one that it waits for: its name or text between backquotes.
    pub on: String,
    /// The bytes that go through memory between the two.
    pub bytes: String,
    /// The reason, as a sentence.
    pub why: String,
    /// A change of the program that would avoid it, if there is one.
    pub suggestion: Option<String>,
}

fn bytes(origin: Origin) -> Range<usize> {
    origin.start as usize..origin.end as usize
}

impl Explanation {
    /// The kernels that are launched, in the order in which they run.
    ///
    /// ```
    /// use fuseloop::{Options, Program};
    ///
    /// let program = Program::parse("fn f(x: f32[n]) { let y = x * 2\n y + 1 }")?;
    /// let explanation = program.main()?.explain(&Options::default(), &[])?;
    /// let kernels = explanation.kernels();
    /// assert_eq!(kernels.len(), 1);
    /// assert_eq!(kernels[0].operations[0], ("`y`".to_owned(), 26..31));
    /// assert_eq!(kernels[0].bytes, "8 * n bytes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kernels(&self) -> Vec<Placed> {
        let report = &self.report;
        let placed = report.after.kernels.iter().map(|kernel| Placed {
            title: kernel.title(),
            operations: kernel
                .operations
                .iter()
                .filter_map(|id| report.operations.get(*id))
                .map(|operation| (operation.title.clone(), bytes(operation.origin)))
                .collect(),
            bytes: amount(report, &kernel.figures.bytes),
            work: operations(report, &kernel.figures),
            nest: kernel.nest.clone(),
        });
        placed.collect()
    }

    /// The bytes that all kernels move: `8 * n bytes`.
    pub fn moves(&self) -> String {
        amount(&self.report, &self.report.after.total.bytes)
    }

    /// The arithmetic that all kernels execute: `3 * n scalar operations`.
    pub fn executes(&self) -> String {
        operations(&self.report, &self.report.after.total)
    }

    /// The operations that read what another kernel leaves in memory, with those that move the most
    /// bytes first.
    pub fn waits(&self) -> Vec<Wait> {
        let report = &self.report;
        let waits = report.largest_first().into_iter().filter_map(|decided| {
            let (Pair::Flow { producer, consumer, .. }, Verdict::Apart(_, why)) = (decided.pair, &decided.verdict)
            else {
                return None;
            };
            Some(Wait {
                at: bytes(report.operations.get(consumer)?.origin),
                on: report.operations.get(producer)?.title.clone(),
                bytes: amount(report, &decided.bytes),
                why: why.sentence.clone(),
                suggestion: why.suggestion.clone(),
            })
        });
        waits.collect()
    }
}
