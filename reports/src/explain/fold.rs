//! Shortens a report so that it can be read to the end: kernels that differ only in names are
//! merged, and so are decisions on the same places of the source, which is inlined wherever it is
//! called. The text and the page use the same rules.

use std::collections::BTreeMap;

use compiler::explain::{Decided, KernelReport, Report, Stage, Verdict};
use ir::Origin;
use ir::decision::FusionPass;

/// Kernels that differ only in names, by their positions; never empty.
pub(crate) type Alike = Vec<usize>;

/// The kernels of a stage grouped by likeness, in the order of the first of each group.
pub(crate) fn alike(stage: &Stage) -> Vec<Alike> {
    let mut groups: Vec<Alike> = vec![];
    let mut place: BTreeMap<usize, usize> = BTreeMap::new();
    for (k, kernel) in stage.kernels.iter().enumerate() {
        let group = *place.entry(kernel.like.unwrap_or(k)).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(group) => group.push(k),
            None => groups.push(vec![k]),
        }
    }
    groups
}

/// Of some kernels, the `most` that move the most bytes, in the order in which they run.
pub(crate) fn largest(stage: &Stage, mut of: Vec<Alike>, most: usize) -> Vec<Alike> {
    let bytes = |group: &Alike| {
        let kernel: Option<&KernelReport> = group.first().and_then(|k| stage.kernels.get(*k));
        kernel.and_then(|kernel| kernel.figures.bytes.nominal()).unwrap_or(f64::INFINITY)
    };
    of.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)));
    of.truncate(most);
    of.sort_unstable();
    of
}

/// Pairs of operations with the same decision; never empty, with the one with the most bytes first.
pub(crate) type Bundle<'r> = Vec<&'r Decided>;

/// One verdict, on one pair of places.
type Place = (Option<FusionPass>, &'static str, Origin, Origin);

/// The pairs that share a kernel, or those that do not, as bundles, with those of the most bytes
/// first.
pub(crate) fn bundles(report: &Report, fused: bool) -> Vec<Bundle<'_>> {
    let mut bundles: Vec<Bundle<'_>> = vec![];
    let mut by_place: BTreeMap<Place, usize> = BTreeMap::new();
    let mut by_sentence: BTreeMap<&str, usize> = BTreeMap::new();
    for decided in report.largest_first() {
        let (first, second) = decided.operations();
        let places = (report.operations[first].origin, report.operations[second].origin);
        let (pass, reason, sentence) = match &decided.verdict {
            Verdict::Fused(pass) if fused => (*pass, "", None),
            Verdict::Apart(reason, why) if !fused => (None, reason.name(), Some(why.sentence.as_str())),
            _ => continue,
        };
        let place = (pass, reason, places.0, places.1);
        let known = sentence.and_then(|sentence| by_sentence.get(sentence)).or_else(|| by_place.get(&place));
        let bundle = known.copied().unwrap_or(bundles.len());
        match bundles.get_mut(bundle) {
            Some(bundle) => bundle.push(decided),
            None => bundles.push(vec![decided]),
        }
        by_place.entry(place).or_insert(bundle);
        if let Some(sentence) = sentence {
            by_sentence.entry(sentence).or_insert(bundle);
        }
    }
    // Among equal ones, those of the most pairs come first.
    let bytes = |bundle: &Bundle<'_>| bundle.first().and_then(|decided| decided.bytes.nominal()).unwrap_or(0.0);
    bundles.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)).then(b.len().cmp(&a.len())));
    bundles
}

/// Removes the bundles that cost only a few bytes, unless there are no others.
pub(crate) fn without_few<'r>(bundles: &mut Vec<Bundle<'r>>) -> Vec<Bundle<'r>> {
    let few = |bundle: &Bundle<'_>| bundle.first().is_some_and(|decided| decided.bytes.is_few());
    let large = bundles.iter().position(few).filter(|first| *first > 0).unwrap_or(bundles.len());
    bundles.split_off(large)
}

/// Names separated by commas, up to a number: `a`, `b` and 14 more.
pub(crate) fn list(names: &[&str], most: usize) -> String {
    match names.get(..most) {
        Some(shown) if names.len() > most + 1 => format!("{} and {} more", shown.join(", "), names.len() - most),
        _ => names.join(", "),
    }
}

/// Kernels by their numbers, from 1: `2 to 9 and 11`.
pub(crate) fn numbers(kernels: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = vec![];
    for k in kernels {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *k => *last = *k,
            _ => runs.push((*k, *k)),
        }
    }
    let run = |(first, last): &(usize, usize)| match last - first {
        0 => (first + 1).to_string(),
        1 => format!("{}, {}", first + 1, last + 1),
        _ => format!("{} to {}", first + 1, last + 1),
    };
    let mut texts: Vec<String> = runs.iter().map(run).collect();
    if texts.len() > RUNS {
        let more: usize = runs[RUNS - 1..].iter().map(|(first, last)| last - first + 1).sum();
        texts.truncate(RUNS - 1);
        texts.push(format!("{more} more"));
    }
    match texts.as_slice() {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => texts.concat(),
    }
}

/// The maximum number of runs of kernels that are listed.
const RUNS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_fold() {
        assert_eq!(list(&["a", "b", "c"], 1), "a and 2 more");
        // A name is as short as "1 more".
        assert_eq!(list(&["a", "b", "c"], 2), "a, b, c");
        assert_eq!(list(&["a"], usize::MAX), "a");
        assert_eq!(numbers(&[1, 2, 3, 6]), "2 to 4 and 7");
        assert_eq!(numbers(&[1, 2]), "2, 3");
        assert_eq!(numbers(&[0]), "1");
        assert_eq!(numbers(&[0, 2, 4, 6, 8, 10, 12]), "1, 3, 5, 7, 9 and 2 more");
    }
}
