//! The report as a line of JSON. `docs/json.md` lists the fields.

use std::collections::BTreeMap;

use compiler::explain::{Amount, Best, Decided, Figures, Kept, KernelReport, PartReport, Report, Stage, Verdict};
use compiler::partition::{AxisSummary, CutSummary, JoinSummary};
use grammar::Source;
use grammar::source::clamp;
use ir::Origin;
use ir::decision::{FusionPass, Pair};
use serde::Serialize;

use crate::roof::{Least, Roof};

/// Incremented when a field changes its meaning, but not when one is added.
const VERSION: u32 = 2;

#[derive(Serialize)]
struct Line<'a> {
    r#type: &'static str,
    version: u32,
    function: &'a str,
    file: &'a str,
    fuse: String,
    sizes: BTreeMap<&'a str, Option<i64>>,
    kernels: Kernels,
    operations: Vec<Operation<'a>>,
    before: StageLine<'a>,
    after: StageLine<'a>,
    pairs: Vec<PairLine<'a>>,
    partition: Vec<CutLine<'a>>,
    kept: Vec<KeptLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<BestLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<Vec<PartLine<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<OnGpu<'a>>,
}

#[derive(Serialize)]
struct PartLine<'a> {
    kernel: usize,
    part: usize,
    of: usize,
    how: Option<&'a str>,
    ways: &'a [String],
    refused: &'a [String],
    nest: &'a [String],
}

#[derive(Serialize)]
struct KeptLine<'a> {
    r#loop: &'a str,
    steps: Number,
    kept: Number,
    bytes: Number,
    all: Number,
    again: u32,
}

#[derive(Serialize)]
struct CutLine<'a> {
    arguments: Vec<AxisLine<'a>>,
    results: Vec<AxisLine<'a>>,
    ways: Vec<&'static str>,
    joins: Vec<JoinLine<'a>>,
    why: Option<&'a str>,
    suggestion: Option<&'a str>,
}

#[derive(Serialize)]
struct AxisLine<'a> {
    name: &'a str,
    axis: usize,
    reach: Option<[&'a str; 2]>,
}

#[derive(Serialize)]
struct JoinLine<'a> {
    what: &'a str,
    way: &'static str,
    chunk: Option<&'a str>,
}

#[derive(Serialize)]
struct OnGpu<'a> {
    #[serde(flatten)]
    roof: &'a Roof,
    kernels: Vec<Option<Least>>,
}

#[derive(Serialize)]
struct Kernels {
    before: usize,
    after: usize,
}

#[derive(Serialize)]
struct Operation<'a> {
    title: &'a str,
    name: Option<&'a str>,
    span: Span<'a>,
}

#[derive(Serialize)]
struct Span<'a> {
    /// The file, if it is not that of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    start: usize,
    end: usize,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

#[derive(Serialize)]
struct StageLine<'a> {
    #[serde(flatten)]
    figures: FiguresLine,
    peak: Peak<'a>,
    kernels: Vec<KernelLine<'a>>,
}

#[derive(Serialize)]
struct Peak<'a> {
    formula: &'a str,
    value: Option<u64>,
    per_thread: Option<u64>,
}

#[derive(Serialize)]
struct FiguresLine {
    bytes: Number,
    loads: Number,
    memory_loads: Number,
    stores: Number,
    scratch_loads: Number,
    scratch_stores: Number,
    scalar_operations: Number,
    intensity: Option<f64>,
}

#[derive(Serialize)]
struct KernelLine<'a> {
    title: String,
    operations: Vec<u32>,
    #[serde(flatten)]
    figures: FiguresLine,
    live: u64,
    scratch: Number,
    nest: &'a [String],
    like: Option<usize>,
}

#[derive(Serialize)]
struct BestLine {
    kernels: Vec<Vec<u32>>,
    bytes: Number,
    gap: f64,
    time: f64,
    no_slower: f64,
}

#[derive(Serialize)]
struct Number {
    formula: Option<String>,
    value: Option<u64>,
    exact: bool,
}

#[derive(Serialize)]
struct PairLine<'a> {
    kind: &'static str,
    first: u32,
    second: u32,
    array: &'a str,
    bytes: Number,
    fused: bool,
    pass: Option<&'static str>,
    reason: Option<&'static str>,
    why: Option<&'a str>,
    suggestion: Option<&'a str>,
}

fn part(PartReport { kernel, part: (part, of), how, ways, refused, nest }: &PartReport) -> PartLine<'_> {
    PartLine { kernel: *kernel, part: *part, of: *of, how: how.as_deref(), ways, refused, nest }
}

/// The line.
pub fn write(source: &Source, report: &Report, roof: Option<&Roof>) -> String {
    let places = Places::new(source);
    let operations = report.operations.values();
    let size = |(symbol, name)| (name, report.given.get(&symbol).copied());
    crate::json::write(&Line {
        r#type: "explanation",
        version: VERSION,
        function: &report.function,
        file: &source.name,
        fuse: report.passes.to_string(),
        sizes: report.sizes.names().map(size).collect(),
        kernels: Kernels { before: report.before.kernels.len(), after: report.after.kernels.len() },
        operations: operations
            .map(|o| Operation { title: &o.title, name: o.name.as_deref(), span: places.span(o.origin) })
            .collect(),
        before: stage(report, &report.before),
        after: stage(report, &report.after),
        pairs: report.pairs.iter().map(|decided| pair(report, decided)).collect(),
        partition: report.partition.iter().map(cut).collect(),
        kept: report.kept.iter().map(|one| kept(report, one)).collect(),
        best: report.best.as_ref().and_then(|best| match best {
            Best::TooLarge => None,
            Best::Partition { kernels, bytes, gap, time, no_slower } => Some(BestLine {
                kernels: kernels.iter().map(|kernel| kernel.iter().map(|id| id.as_u32()).collect()).collect(),
                bytes: number(report, bytes),
                gap: *gap,
                time: *time,
                no_slower: *no_slower,
            }),
        }),
        schedule: report.schedule.as_ref().map(|parts| parts.iter().map(part).collect()),
        gpu: roof.map(|roof| OnGpu {
            roof,
            kernels: report.after.kernels.iter().map(|kernel| roof.least(&kernel.figures)).collect(),
        }),
    })
}

fn kept<'a>(report: &Report, kept: &'a Kept) -> KeptLine<'a> {
    let Kept { title, steps, kept, bytes: [bytes, all], again } = kept;
    let [steps, kept, bytes, all] = [steps, kept, bytes, all].map(|amount| number(report, amount));
    KeptLine { r#loop: title, steps, kept, bytes, all, again: *again }
}

fn cut(cut: &CutSummary) -> CutLine<'_> {
    CutLine {
        arguments: cut.params.iter().map(axis).collect(),
        results: cut.results.iter().map(axis).collect(),
        ways: cut.ways(),
        joins: cut.joins.iter().map(join).collect(),
        why: cut.refusal.as_ref().map(|(why, _)| why.as_str()),
        suggestion: cut.refusal.as_ref().map(|(_, suggestion)| suggestion.as_str()),
    }
}

fn axis(axis: &AxisSummary) -> AxisLine<'_> {
    let reach = axis.reach.as_ref().map(|(lo, hi)| [lo.as_str(), hi.as_str()]);
    AxisLine { name: &axis.name, axis: axis.axis, reach }
}

fn join(join: &JoinSummary) -> JoinLine<'_> {
    JoinLine { what: &join.what, way: join.kind.name(), chunk: join.chunk.as_deref() }
}

fn stage<'a>(report: &Report, stage: &'a Stage) -> StageLine<'a> {
    let peak = &stage.peak;
    StageLine {
        figures: figures(report, &stage.total),
        peak: Peak { formula: &peak.formula, value: peak.value, per_thread: peak.per_thread },
        kernels: stage.kernels.iter().map(|k| kernel(report, k)).collect(),
    }
}

fn figures(report: &Report, figures: &Figures) -> FiguresLine {
    let number = |amount| number(report, amount);
    FiguresLine {
        bytes: number(&figures.bytes),
        loads: number(&figures.loads),
        memory_loads: number(&figures.memory_loads),
        stores: number(&figures.stores),
        scratch_loads: number(&figures.scratch_loads),
        scratch_stores: number(&figures.scratch_stores),
        scalar_operations: number(&figures.operations),
        intensity: figures.intensity(),
    }
}

fn kernel<'a>(report: &Report, kernel: &'a KernelReport) -> KernelLine<'a> {
    KernelLine {
        title: kernel.title(),
        operations: kernel.operations.iter().map(|o| o.as_u32()).collect(),
        figures: figures(report, &kernel.figures),
        live: kernel.live,
        scratch: number(report, &kernel.scratch),
        nest: &kernel.nest,
        like: kernel.like,
    }
}

fn number(report: &Report, amount: &Amount) -> Number {
    let formula = amount.formula.as_ref().filter(|f| !f.is_overflow()).map(|f| report.sizes.text(f));
    Number { formula, value: amount.value, exact: amount.exact }
}

fn pair<'a>(report: &Report, decided: &'a Decided) -> PairLine<'a> {
    let (first, second) = decided.operations();
    let (pass, refusal) = match &decided.verdict {
        Verdict::Fused(pass) => (pass.map(FusionPass::name), None),
        Verdict::Apart(reason, why) => (None, Some((reason, why))),
    };
    PairLine {
        kind: match decided.pair {
            Pair::Flow { .. } => "flow",
            Pair::Shared { .. } => "shared",
        },
        first: first.as_u32(),
        second: second.as_u32(),
        array: &decided.array,
        bytes: number(report, &decided.bytes),
        fused: refusal.is_none(),
        pass,
        reason: refusal.map(|(reason, _)| reason.name()),
        why: refusal.map(|(_, why)| why.sentence.as_str()),
        suggestion: refusal.and_then(|(_, why)| why.suggestion.as_deref()),
    }
}

/// The beginnings of lines, to find the line of a byte without reading the text again.
struct Places<'a> {
    source: &'a Source,
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    fn new(source: &'a Source) -> Places<'a> {
        let ends = source.text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1);
        Places { source, lines: std::iter::once(0).chain(ends).collect() }
    }

    fn span(&self, origin: Origin) -> Span<'a> {
        let range = clamp(&self.source.text, &(origin.start as usize..origin.end as usize));
        let (part, name, first) = self.source.part(range.start);
        let within = |line| first + line - self.line(part.start);
        let ((line, column), (end_line, end_column)) = (self.place(range.start), self.place(range.end));
        Span {
            file: Some(name).filter(|name| *name != self.source.name),
            start: range.start - part.start,
            end: range.end - part.start,
            line: within(line),
            column,
            end_line: within(end_line),
            end_column,
        }
    }

    /// The number of the line of a byte in the whole text, from 1.
    fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    fn place(&self, at: usize) -> (usize, usize) {
        let line = self.line(at);
        (line, self.source.text[self.lines[line - 1]..at].chars().count() + 1)
    }
}
