//! Tells what keeps the kernels of a function apart.

use std::collections::BTreeSet;

use compiler::explain::explain;
use compiler::pipeline::Compiled;
use interp::scalar::ARITHMETIC;
use ir::Origin;
use ir::checked::Checked;
use ir::decision::Passes;

use crate::{Report, Source};

/// The maximum number of boundaries that an error lists.
const MAX_TOLD: usize = 8;

/// Adds to a refusal the pairs of operations that stay apart, each with its reason, and what to
/// write instead.
pub(super) fn tell(refusal: &mut Report, source: &Source, checked: &Checked, compiled: &Compiled) {
    let report = explain(checked, compiled, Passes::ALL, &source.text, &Default::default(), &ARITHMETIC);
    let mut told = BTreeSet::new();
    let mut suggestions: Vec<String> = vec![];
    for (decided, why) in report.apart() {
        let (first, second) = decided.operations();
        // For operations that flow to several kernels, or that share several arrays, the same
        // reason is listed once.
        if told.len() == MAX_TOLD || !told.insert(&why.sentence) {
            continue;
        }
        let (first, second) = (&report.operations[first], &report.operations[second]);
        refusal.notes.push(format!("{} and {} are apart: {}", first.title, second.title, why.sentence));
        if let Some(suggestion) = &why.suggestion
            && !suggestions.contains(suggestion)
        {
            suggestions.push(suggestion.clone());
        }
        for (operation, text) in [(second, format!("apart from {}", first.title)), (first, String::new())] {
            let Origin { start, end } = operation.origin;
            let range = start as usize..end as usize;
            if end != 0 && refusal.labels.iter().all(|(other, _)| *other != range) {
                refusal.labels.push((range, text));
            }
        }
    }
    if refusal.notes.is_empty() {
        for (k, kernel) in report.after.kernels.iter().take(MAX_TOLD).enumerate() {
            refusal.notes.push(format!("kernel {} computes {}", k + 1, kernel.title()));
        }
    }
    if !suggestions.is_empty() {
        refusal.help = Some(suggestions.join("; or "));
    }
}
