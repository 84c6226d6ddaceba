//! `@kernels(n)`: refuses a function that takes more kernels with all passes enabled. The error
//! lists the reasons that keep its kernels apart.
//!
//! It is a property of the program, so passes that a user disables for comparison do not count.

use std::collections::BTreeSet;
use std::sync::Arc;

use compiler::explain::{Report, explain};
use compiler::pipeline::{self, Compiled};
use interp::scalar::ARITHMETIC;
use ir::Origin;
use ir::checked::Checked;
use ir::decision::Passes;

use crate::error::codes;
use crate::render::Report as Drawn;
use crate::{CompileError, Source};

/// The maximum number of boundaries that an error lists.
const MAX_TOLD: usize = 8;

/// Refuses a function that takes more kernels than it promises. `compiled` is the result of all
/// passes, if it exists already.
pub fn hold(source: &Arc<Source>, checked: &Checked, compiled: Option<&Compiled>) -> Result<(), CompileError> {
    let Some(most) = checked.max_kernels else { return Ok(()) };
    let own;
    let compiled = match compiled {
        Some(compiled) => compiled,
        None => {
            own = pipeline::compile(checked, &pipeline::Options::default())?;
            &own
        }
    };
    if compiled.program.kernels.len() as u64 <= most {
        return Ok(());
    }
    let report = explain(checked, compiled, Passes::ALL, &source.text, &Default::default(), &ARITHMETIC);
    Err(CompileError::new(refusal(&report, most)).at(source))
}

fn refusal(report: &Report, most: u64) -> Drawn {
    let (name, kernels) = (&report.function, report.after.kernels.len());
    let mut drawn = Drawn::new(
        codes::TOO_MANY_KERNELS,
        format!("`{name}` takes {kernels} kernels, and `@kernels({most})` allows {most}"),
    );
    let mut told = BTreeSet::new();
    let mut suggestions = vec![];
    for (decided, why) in report.apart() {
        let (first, second) = decided.operations();
        // For operations that flow to several kernels, or that share several arrays, the same
        // reason is listed once.
        if told.len() == MAX_TOLD || !told.insert(&why.sentence) {
            continue;
        }
        let (first, second) = (&report.operations[first], &report.operations[second]);
        drawn.notes.push(format!("{} and {} are apart: {}", first.title, second.title, why.sentence));
        if let Some(suggestion) = &why.suggestion
            && !suggestions.contains(suggestion)
        {
            suggestions.push(suggestion.clone());
        }
        for (operation, text) in [(second, format!("apart from {}", first.title)), (first, String::new())] {
            let Origin { start, end } = operation.origin;
            let range = start as usize..end as usize;
            if end != 0 && drawn.labels.iter().all(|(other, _)| *other != range) {
                drawn.labels.push((range, text));
            }
        }
    }
    if drawn.notes.is_empty() {
        for (k, kernel) in report.after.kernels.iter().take(MAX_TOLD).enumerate() {
            drawn.notes.push(format!("kernel {} computes {}", k + 1, kernel.title()));
        }
    }
    suggestions.push("`fuseloop explain` shows the kernels".to_owned());
    drawn.help = Some(suggestions.join("; or "));
    drawn
}
