//! The quality of plans: none should cost more than the plan of fewer passes or take more memory
//! without need, and few should move more bytes than the best partition.

use std::fmt;

use compiler::analysis::cost;
use compiler::check::check;
use compiler::fusion::{self, best};
use compiler::lower::lower;
use compiler::pipeline::Options;
use ir::decision::Passes;
use ir::nest::Program;

/// A function to be compiled.
pub struct Source {
    /// The program.
    pub text: String,
    /// The function.
    pub entry: String,
}

/// The functions of a file.
pub fn functions(text: &str) -> Vec<Source> {
    let Ok(file) = grammar::parse(text) else { return vec![] };
    file.functions.iter().map(|f| Source { text: text.to_owned(), entry: f.name.text.to_string() }).collect()
}

/// The distance of a plan from the best partition.
pub struct Gap {
    /// How many times the bytes the plan moves.
    pub bytes: f64,
    /// The plan's time, relative to that of the best partition.
    pub time: f64,
    /// The plan's bytes, relative to those of the best partition that takes no longer.
    pub no_slower: f64,
    /// The best partition and the plan.
    pub text: String,
}

/// The findings about a plan.
#[derive(Default)]
pub struct Held {
    /// A plan of fewer passes that is better.
    pub complaint: Option<String>,
    /// The distance of the plan from the best partition, if the program is small.
    pub gap: Option<Gap>,
}

/// Holds the plan of a function to others.
pub fn held(source: &Source) -> Held {
    let Some(unfused) = lowered(source) else { return Held::default() };
    let Ok(graph) = fusion::search::<std::convert::Infallible>(&unfused, &Options::default(), |_, _| Ok(()));
    let (chosen, taken) = (fusion::cost(&graph), fusion::peak(&graph));
    let mut complaint = None;
    for fuse in Passes::sets() {
        let options = Options { fuse, ..Options::default() };
        let Ok(other) = fusion::search::<std::convert::Infallible>(&unfused, &options, |_, _| Ok(()));
        let (price, takes) = (fusion::cost(&other), fusion::peak(&other));
        let is_cheaper = chosen.is_beaten_by(&price) && price.with_peak(takes) < chosen.with_peak(taken);
        let needs_less =
            1.02 * (takes as f64) < taken as f64 && price.time <= chosen.time && price.memory <= chosen.memory;
        if is_cheaper || needs_less {
            complaint = Some(format!(
                "{fuse}: {price:?} and {takes} bytes at the peak, all passes {chosen:?} and {taken}, where each size is {}\n{}{}",
                cost::NOMINAL,
                graph.program(),
                other.program()
            ));
            break;
        }
    }
    let gap = best(&unfused, &Options::default()).map(|found| {
        let names = |ids: &Vec<_>| ids.iter().map(|id| unfused.kernels[*id].name.clone()).collect::<Vec<_>>().join(" ");
        let kernels: Vec<String> = found.kernels.iter().map(names).collect();
        let text = format!("best: {}\n{}", kernels.join(" | "), graph.program());
        Gap { bytes: found.gap, time: found.time, no_slower: found.no_slower, text }
    });
    Held { complaint, gap }
}

fn lowered(source: &Source) -> Option<Program> {
    let file = grammar::parse(&source.text).ok()?;
    let checked = check(&file, &source.entry).ok()?;
    lower(&checked, None).ok()
}

/// The distances of plans from the best partitions, and from the best that take no longer.
#[derive(Clone, Debug, Default)]
pub struct Gaps(Vec<(f64, f64)>);

impl Gaps {
    /// Adds one.
    pub fn note(&mut self, gap: &Gap) {
        self.0.push((gap.bytes, gap.no_slower));
    }
}

impl fmt::Display for Gaps {
    /// The cells of a row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |counts: &dyn Fn(f64, f64) -> bool| {
            let counted = self.0.iter().filter(|(bytes, no_slower)| counts(*bytes, *no_slower)).count();
            100.0 * counted as f64 / self.0.len().max(1) as f64
        };
        let fewest = share(&|bytes, _| bytes <= 1.0 + 1e-9);
        let no_slower = share(&|_, no_slower| no_slower <= 1.0 + 1e-9);
        let beyond = share(&|_, no_slower| no_slower > 1.25);
        write!(f, "{} | {fewest:.1} % | {no_slower:.1} % | {beyond:.1} %", self.0.len())
    }
}
