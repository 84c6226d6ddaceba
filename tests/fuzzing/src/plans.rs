//! Whether plans are good: none costs more than the plan of fewer passes, and few move more bytes than the best partition.

use std::fmt;

use compiler::analysis::cost;
use compiler::check::check;
use compiler::fusion::{self, best};
use compiler::lower::lower;
use compiler::pipeline::Options;
use ir::decision::{FusionPass, Passes};
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

/// How far a plan is from the best partition.
pub struct Gap {
    /// How many times the bytes the plan moves.
    pub bytes: f64,
    /// How many times as long the best partition takes.
    pub time: f64,
    /// Both.
    pub text: String,
}

/// The findings about a plan.
#[derive(Default)]
pub struct Held {
    /// A plan of fewer passes that is better.
    pub complaint: Option<String>,
    /// How many times the bytes of the best partition the plan moves, and both, if the program is small.
    pub gap: Option<Gap>,
}

/// Holds the plan of a function to others.
pub fn held(source: &Source) -> Held {
    let Some(unfused) = lowered(source) else { return Held::default() };
    let Ok(graph) = fusion::search::<std::convert::Infallible>(&unfused, &Options::default(), |_, _| Ok(()));
    let chosen = fusion::cost(&graph);
    let mut complaint = None;
    for n in 0..1u32 << FusionPass::ALL.len() {
        let passes = FusionPass::ALL.iter().copied().filter(|pass| n >> *pass as u32 & 1 != 0);
        let fuse: Passes = passes.collect();
        let options = Options { fuse, ..Options::default() };
        let Ok(other) = fusion::search::<std::convert::Infallible>(&unfused, &options, |_, _| Ok(()));
        let price = fusion::cost(&other);
        if chosen.is_beaten_by(&price) {
            let ns = cost::NOMINAL;
            complaint = Some(format!(
                "{fuse}: {price:?} ns and bytes, all passes {chosen:?}, sizes {ns}\n{}{}",
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
        Gap { bytes: found.gap, time: found.time, text }
    });
    Held { complaint, gap }
}

fn lowered(source: &Source) -> Option<Program> {
    let file = grammar::parse(&source.text).ok()?;
    let checked = check(&file, &source.entry).ok()?;
    lower(&checked).ok()
}

/// How far plans are from the best partitions, in bytes and in time.
#[derive(Clone, Debug, Default)]
pub struct Gaps(Vec<(f64, f64)>);

impl Gaps {
    /// Adds one.
    pub fn note(&mut self, gap: &Gap) {
        self.0.push((gap.bytes, gap.time));
    }
}

impl fmt::Display for Gaps {
    /// The cells of a row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |counts: &dyn Fn(f64, f64) -> bool| {
            let beyond = self.0.iter().filter(|(bytes, time)| counts(*bytes, *time)).count();
            100.0 * beyond as f64 / self.0.len().max(1) as f64
        };
        let best = share(&|bytes, _| bytes <= 1.0 + 1e-9);
        let beyond = share(&|bytes, _| bytes > 1.25);
        let missed = share(&|bytes, time| bytes > 1.25 && time <= 1.0);
        write!(f, "{} | {best:.1} % | {beyond:.1} % | {missed:.1} %", self.0.len())
    }
}
