//! The report on fusion as a page. For a large program it shows the kernels that move the most, and
//! the most expensive decisions.

use std::collections::BTreeSet;

use compiler::analysis::cost::NOMINAL;
use compiler::explain::{Decided, KernelReport, Report, Stage, Verdict};
use grammar::Source;
use grammar::source::{one_line, visible};
use ir::decision::Pair;
use ir::nest::KernelId;
use maud::{Markup, html};

use super::graph::{self, Flow, Node};
use super::roofline::{self, Point};
use super::source::{self, Shade, Shown};
use super::{colour, figure, marked, page};
use crate::explain::fold::{self, Alike, Bundle};
use crate::explain::text::{amount, count, in_blocks, intensity, kept, loads, operations, peak, share};
use crate::roof::Roof;

/// The maximum number of kernels shown with their loops, before and after, and of lines of each.
const KERNELS: usize = 40;
const LINES: usize = 60;
/// The number of names in a list.
const NAMES: usize = 8;
/// The rows of the table of decisions: of pairs that are apart, and of those that are fused.
const ROWS: usize = 60;
/// Beyond this number of operations, kernels are drawn instead.
const OPERATIONS: usize = 150;
/// Kernels that are drawn separately; the others are combined into one node with those that run
/// next to them.
const ALONE: usize = 24;
/// The number of kernels under the roofline, before and after.
const POINTS: usize = 200;

/// A report, and for each operation its kernel after fusion, the first if there are several.
struct View<'r> {
    report: &'r Report,
    homes: Vec<usize>,
}

impl View<'_> {
    fn new(report: &Report) -> View<'_> {
        let mut homes = vec![0; report.operations.len()];
        for (k, kernel) in report.after.kernels.iter().enumerate().rev() {
            kernel.operations.iter().for_each(|operation| homes[operation.as_u32() as usize] = k);
        }
        View { report, homes }
    }

    fn home(&self, operation: Option<&KernelId>) -> usize {
        operation.and_then(|o| self.homes.get(o.as_u32() as usize)).copied().unwrap_or(0)
    }

    fn title(&self, operation: KernelId) -> &str {
        &self.report.operations[operation].title
    }
}

/// The page.
pub fn write(source: &Source, report: &Report, roof: Option<&Roof>) -> String {
    let (before, after) = (report.before.kernels.len(), report.after.kernels.len());
    let title = format!("{}: {before} kernels in {after}", report.function);
    page(&title, &body(source, Shown::All, report, roof))
}

/// The same without the head and the text of the program, for a page that has the style sheet and
/// shows the program itself.
pub fn write_part(source: &Source, report: &Report, roof: Option<&Roof>) -> String {
    body(source, Shown::Used, report, roof).into_string()
}

fn body(source: &Source, shown: Shown, report: &Report, roof: Option<&Roof>) -> Markup {
    let (before, after) = (&report.before, &report.after);
    let view = View::new(report);
    html! {
        h1 { code { (visible(&report.function)) } }
        p.faint { (one_line(&source.name)) ", passes: " (report.passes) (given(report)) }
        div.figures {
            (figure("kernels", &after.kernels.len().to_string(), &format!("{} without fusion", before.kernels.len())))
            (figure(
                "moves",
                &format!("{}{}", amount(report, &after.total.bytes), share(report)),
                &format!("{} without fusion", amount(report, &before.total.bytes)),
            ))
            (figure(
                "scalar operations",
                &format!("{}{}", count(report, &after.total.operations), intensity(&after.total)),
                &format!("{}{} without fusion", count(report, &before.total.operations), intensity(&before.total)),
            ))
            (figure("takes of memory", &peak(after), &format!("{} without fusion", peak(before))))
        }
        (source::write(source, shown, &shades(report)))
        h2 { "Loops" }
        div.columns {
            div { p.faint { "Without fusion" } (kernels(report, before, |k| view.home(before.kernels[k].operations.first()))) }
            div { p.faint { "Fused" } (kernels(report, after, |k| k)) }
        }
        (schedule(report))
        h2 { "Graph" }
        (drawing(&view))
        h2 { "Decisions" }
        (decisions(&view))
        (kept_states(report))
        (blocks(report))
        h2 { "Roofline" }
        (roofline(report, roof))
    }
}

/// The parts that the kernels run in, if that was requested.
fn schedule(report: &Report) -> Markup {
    html! {
        @if let Some(parts) = &report.schedule {
            h2 { "Schedule" }
            p.faint { "The parts that the kernels run in, one after another." }
            @for part in parts {
                section class={ "kernel " (colour(part.kernel)) } {
                    header {
                        h3 { (part.title()) }
                        p.faint { (part.how.as_deref().unwrap_or("nothing at these sizes")) }
                    }
                    @for line in part.ways.iter().chain(&part.refused) { p.faint { (line) } }
                    @if part.how.is_some() { (loops(&part.nest)) }
                }
            }
        }
    }
}

fn given(report: &Report) -> String {
    let one = |(symbol, value): (&ir::SymbolId, &i64)| format!(", {} = {value}", report.sizes.name(*symbol));
    report.given.iter().map(one).collect()
}

fn names(kernel: &KernelReport) -> Vec<&str> {
    kernel.titles.iter().map(String::as_str).collect()
}

/// The spans of the source that are operations, without repetition: functions are inlined, so one
/// span may be many operations.
pub fn shades(report: &Report) -> Vec<Shade<'_>> {
    let view = View::new(report);
    let mut known = BTreeSet::new();
    let operations = report.operations.iter().filter(|(_, operation)| operation.origin.end > operation.origin.start);
    let once = operations.filter(|(_, operation)| known.insert((operation.origin.start, operation.origin.end)));
    let shade = once.map(|(id, operation)| Shade {
        start: operation.origin.start as usize,
        end: operation.origin.end as usize,
        kernel: view.home(Some(&id)),
        title: &operation.title,
    });
    shade.collect()
}

fn kernels(report: &Report, stage: &Stage, home: impl Fn(usize) -> usize) -> Markup {
    let shown = fold::largest(stage, fold::alike(stage), KERNELS);
    let hidden = stage.kernels.len() - shown.iter().map(Vec::len).sum::<usize>();
    html! {
        @for group in &shown {
            @if let [k, others @ ..] = group.as_slice() {
                section class={ "kernel " (colour(home(*k))) } { (kernel(report, &stage.kernels[*k])) (alike(stage, others)) }
            }
        }
        @if hidden > 0 { p.faint { (hidden) " more kernels that move no more bytes than these" } }
    }
}

fn kernel(report: &Report, kernel: &KernelReport) -> Markup {
    html! {
        header {
            h3 { (marked(&fold::list(&names(kernel), NAMES))) }
            p.faint {
                "loads " (loads(report, &kernel.figures)) ", stores " (count(report, &kernel.figures.stores)) ", moves "
                (amount(report, &kernel.figures.bytes)) ", executes " (operations(report, &kernel.figures)) (intensity(&kernel.figures))
                @if kernel.scratch.value != Some(0) { ", keeps " (amount(report, &kernel.scratch)) " for each thread" }
            }
        }
        (loops(&kernel.nest))
    }
}

fn loops(nest: &[String]) -> Markup {
    let more = nest.len().saturating_sub(LINES);
    html! {
        pre {
            (visible(&nest[..nest.len() - more].join("\n")))
            @if more > 0 { "\n... " (more) " more lines" }
        }
    }
}

/// Kernels that are like the one above them.
fn alike(stage: &Stage, others: &[usize]) -> Markup {
    if others.is_empty() {
        return html! {};
    }
    let titles: Vec<&str> = others.iter().flat_map(|k| names(&stage.kernels[*k])).collect();
    html! {
        p.alike {
            "The same with other arrays: kernel" @if others.len() > 1 { "s" } " " (fold::numbers(others)) ", " (marked(&fold::list(&titles, NAMES)))
        }
    }
}

fn drawing(view: &View<'_>) -> Markup {
    let report = view.report;
    let each = report.operations.len() <= OPERATIONS;
    let (nodes, place) = if each { (operation_nodes(view), None) } else { kernel_nodes(&report.after) };
    let flow = |decided: &Decided| {
        let Pair::Flow { producer, consumer, .. } = decided.pair else { return None };
        let apart = matches!(decided.verdict, Verdict::Apart(..));
        let node = |operation: KernelId| match &place {
            Some(place) => place.get(view.home(Some(&operation))).copied(),
            None => Some(operation.as_u32() as usize),
        };
        Some(Flow { from: node(producer)?, to: node(consumer)?, apart }).filter(|flow| flow.from < flow.to)
    };
    let mut flows: BTreeSet<Flow> = report.pairs.iter().filter_map(flow).collect();
    // Between kernels everything goes through memory, whatever else a kernel recomputes for itself.
    if !each {
        flows = flows.into_iter().map(|flow| Flow { apart: false, ..flow }).collect();
    }
    html! {
        p.faint {
            @if each { "A dashed line goes through memory: the two stay apart." }
            @else if nodes.len() < report.after.kernels.len() {
                "The kernels that move the most, each kind once; several that run between them are one box."
            } @else { "The kernels, and what flows between them through memory." }
        }
        (graph::write(&nodes, &flows))
    }
}

fn operation_nodes(view: &View<'_>) -> Vec<Node> {
    let operations = view.report.operations.iter();
    operations.map(|(id, o)| Node { title: o.title.clone(), kernel: view.home(Some(&id)) }).collect()
}

/// The kernels in the order in which they run; consecutive ones are combined into one node unless
/// they are among the largest. Also the node of each kernel.
fn kernel_nodes(stage: &Stage) -> (Vec<Node>, Option<Vec<usize>>) {
    let few = stage.kernels.len() <= 2 * ALONE;
    let large: BTreeSet<usize> = fold::largest(stage, fold::alike(stage), ALONE)
        .iter()
        .filter_map(|group: &Alike| group.first().copied())
        .collect();
    let mut runs: Vec<(bool, Vec<usize>)> = vec![];
    for k in 0..stage.kernels.len() {
        let alone = few || large.contains(&k);
        match runs.last_mut() {
            Some((false, run)) if !alone => run.push(k),
            _ => runs.push((alone, vec![k])),
        }
    }
    let mut place = vec![0; stage.kernels.len()];
    let node = |(number, (_, run)): (usize, &(bool, Vec<usize>))| {
        run.iter().for_each(|k| place[*k] = number);
        let first = run.first().copied().unwrap_or(0);
        let titles = fold::list(&names(&stage.kernels[first]), 2);
        let title = if run.len() == 1 { titles } else { format!("kernels {}", fold::numbers(run)) };
        Node { title, kernel: first }
    };
    (runs.iter().enumerate().map(node).collect(), Some(place))
}

fn decisions(view: &View<'_>) -> Markup {
    let report = view.report;
    if report.pairs.is_empty() {
        return html! { p { "There were none: no two operations have an array in common." } };
    }
    html! {
        div.scroll {
            table {
                tr { th { "operations" } th { "array" } th.right { "apart they move" } th { "decision" } }
                @for fused in [false, true] {
                    @let (shown, hidden) = shown(report, fused);
                    @for bundle in &shown { (decision(view, bundle)) }
                    @if hidden > 0 {
                        tr { td.faint colspan="4" { (hidden) " more pairs that are " (if fused { "fused" } else { "apart" }) ", of at most as many bytes each" } }
                    }
                }
            }
        }
    }
}

/// The pairs that are fused, or those that are not, that the table shows, and the number of the
/// others.
fn shown(report: &Report, fused: bool) -> (Vec<Bundle<'_>>, usize) {
    let mut bundles = fold::bundles(report, fused);
    let few = if fused { vec![] } else { fold::without_few(&mut bundles) };
    let rest = bundles.split_off(bundles.len().min(ROWS));
    let hidden = rest.iter().chain(&few).map(Vec::len).sum();
    (bundles, hidden)
}

/// A row of the table: pairs with the same decision.
fn decision(view: &View<'_>, bundle: &[&Decided]) -> Markup {
    let [decided, others @ ..] = bundle else { return html! {} };
    let (first, second) = decided.operations();
    let between = if matches!(decided.pair, Pair::Flow { .. }) { " → " } else { " and " };
    let fused = matches!(decided.verdict, Verdict::Fused(_));
    html! {
        tr class=(if fused { format!("fused {}", colour(view.home(Some(&second)))) } else { "apart".to_owned() }) {
            td {
                (marked(view.title(first))) (between) (marked(view.title(second)))
                @if !others.is_empty() { p.faint { "and " (others.len()) " more like them" } }
            }
            td.code { (visible(&decided.array)) }
            td.right { (amount(view.report, &decided.bytes)) }
            td {
                @match &decided.verdict {
                    Verdict::Fused(Some(pass)) => { "fused: " strong { (pass) } " " (pass.purpose()) }
                    Verdict::Fused(None) => "fused, each with a third",
                    Verdict::Apart(reason, why) => {
                        "apart, " strong { (reason.name()) } ": " (marked(&why.sentence))
                        @if let Some(suggestion) = &why.suggestion { p.faint { (marked(suggestion)) } }
                    }
                }
            }
        }
    }
}

/// What derivatives keep of loops.
fn kept_states(report: &Report) -> Markup {
    html! {
        @if !report.kept.is_empty() {
            h2 { "Kept for the way back" }
            ul {
                @for one in &report.kept {
                    li { (marked(&one.title)) @for line in kept(report, one) { p { (line) } } }
                }
            }
        }
    }
}

/// How the arrays may be cut into blocks, with a change for those that cannot be.
fn blocks(report: &Report) -> Markup {
    let cuts = in_blocks(report);
    let hidden = cuts.len().saturating_sub(ROWS);
    html! {
        @if !cuts.is_empty() {
            h2 { "Blocks" }
            p.faint { "How arrays may be cut, to be computed in blocks on several machines." }
            ul {
                @for cut in &cuts[..cuts.len() - hidden] {
                    li {
                        (marked(&cut.to_string()))
                        @if let Some((_, help)) = &cut.refusal { p.faint { (marked(help)) } }
                    }
                }
                @if hidden > 0 { li.faint { (hidden) " more axes" } }
            }
        }
    }
}

fn roofline(report: &Report, roof: Option<&Roof>) -> Markup {
    let Some(roof) = roof else { return html! { p { "There is no memory to measure what this machine allows." } } };
    let points = |stage: &Stage, fused: bool| -> Vec<Point> {
        let point = |k: usize| Point {
            title: fold::list(&names(&stage.kernels[k]), NAMES),
            intensity: stage.kernels[k].figures.nominal_intensity().unwrap_or(0.0),
            rate: None,
            kernel: fused.then_some(k),
        };
        // Kernels that are alike are at the same point.
        fold::largest(stage, fold::alike(stage), POINTS)
            .iter()
            .filter_map(|group| group.first().copied())
            .map(point)
            .collect()
    };
    let missing: Vec<&str> =
        report.sizes.names().filter(|(symbol, _)| !report.given.contains_key(symbol)).map(|(_, name)| name).collect();
    html! {
        p {
            "What " (roof.device.as_deref().unwrap_or("an H200")) " allows at best, and where each kernel stands under it: the further to the right, the less it "
            "waits for memory."
            @if !missing.is_empty() { " Drawn for " (missing.join(" = ")) " = " (NOMINAL) ", which the report was not given." }
        }
        (roofline::write(roof, &points(&report.before, false).into_iter().chain(points(&report.after, true)).collect::<Vec<_>>()))
    }
}
