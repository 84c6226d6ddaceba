//! What fused and why, as a page.

use compiler::analysis::cost::NOMINAL;
use compiler::explain::{Decided, KernelReport, Report, Stage, Verdict};
use ir::decision::Pair;
use ir::nest::KernelId;
use maud::{Markup, html};

use super::graph::{self, Flow, Node};
use super::roofline::{self, Point};
use super::source::{self, Shade};
use super::{colour, figure, page};
use crate::Source;
use crate::explain::roof::Roof;
use crate::explain::text::{amount, count, intensity, loads, operations, peak, share};
use crate::render::{one_line, visible};

/// The page.
pub(crate) fn write(source: &Source, report: &Report, roof: Option<&Roof>) -> String {
    let (before, after) = (&report.before, &report.after);
    let body = html! {
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
        h2 { "Source" }
        p.faint { "Each operation has the colour of the kernel that computes it." }
        (source::write(&source.text, &shades(report)))
        h2 { "Loops" }
        div.columns {
            div { p.faint { "Without fusion" } (kernels(report, before, |k| home(report, before.kernels[k].operations.first()))) }
            div { p.faint { "Fused" } (kernels(report, after, |k| k)) }
        }
        h2 { "Graph" }
        (drawing(report))
        h2 { "Decisions" }
        (decisions(report))
        h2 { "Roofline" }
        (roofline(report, roof))
    };
    page(&format!("{}: {} kernels in {}", report.function, before.kernels.len(), after.kernels.len()), &body)
}

fn given(report: &Report) -> String {
    let one = |(symbol, value): (&ir::SymbolId, &i64)| format!(", {} = {value}", report.sizes.name(*symbol));
    report.given.iter().map(one).collect()
}

/// The kernel after fusion that an operation belongs to, the first of several.
fn home(report: &Report, operation: Option<&KernelId>) -> usize {
    let contains = |kernel: &KernelReport| operation.is_some_and(|o| kernel.operations.contains(o));
    report.after.kernels.iter().position(contains).unwrap_or(0)
}

fn shades(report: &Report) -> Vec<Shade<'_>> {
    let operations = report.operations.iter().filter(|(_, operation)| operation.origin.end > operation.origin.start);
    let shade = operations.map(|(id, operation)| Shade {
        start: operation.origin.start as usize,
        end: operation.origin.end as usize,
        kernel: home(report, Some(&id)),
        title: &operation.title,
    });
    shade.collect()
}

fn kernels(report: &Report, stage: &Stage, home: impl Fn(usize) -> usize) -> Markup {
    html! {
        @for (k, kernel) in stage.kernels.iter().enumerate() {
            section class={ "kernel " (colour(home(k))) } {
                header {
                    h3 { (visible(&kernel.title)) }
                    p.faint {
                        "loads " (loads(report, &kernel.figures)) ", stores " (count(report, &kernel.figures.stores)) ", moves "
                        (amount(report, &kernel.figures.bytes)) ", executes " (operations(report, &kernel.figures)) (intensity(&kernel.figures))
                        @if kernel.scratch.value != Some(0) { ", keeps " (amount(report, &kernel.scratch)) " for each thread" }
                    }
                }
                pre { (visible(&kernel.nest.join("\n"))) }
            }
        }
    }
}

fn drawing(report: &Report) -> Markup {
    if report.operations.len() > graph::MOST {
        return html! {
            p { (report.operations.len()) " operations are too many to draw: the form for Graphviz has them all (" code { "--format dot" } ")." }
        };
    }
    let nodes: Vec<_> =
        report.operations.iter().map(|(id, o)| Node { title: &o.title, kernel: home(report, Some(&id)) }).collect();
    let flow = |decided: &Decided| {
        let Pair::Flow { producer, consumer, .. } = decided.pair else { return None };
        let apart = matches!(decided.verdict, Verdict::Apart(..));
        Some(Flow { from: producer.as_u32() as usize, to: consumer.as_u32() as usize, apart })
    };
    let flows: Vec<_> = report.pairs.iter().filter_map(flow).collect();
    html! {
        p.faint { "A dashed line goes through memory: the two stay apart." }
        (graph::write(&nodes, &flows))
    }
}

fn decisions(report: &Report) -> Markup {
    if report.pairs.is_empty() {
        return html! { p { "There were none: no two operations have an array in common." } };
    }
    html! {
        div.scroll {
            table {
                tr { th { "operations" } th { "array" } th.right { "apart they move" } th { "decision" } }
                @for decided in &report.pairs {
                    @let (first, second) = decided.operations();
                    @let between = if matches!(decided.pair, Pair::Flow { .. }) { " → " } else { " and " };
                    @let fused = matches!(decided.verdict, Verdict::Fused(_));
                    tr class=(if fused { format!("fused {}", colour(home(report, Some(&second)))) } else { "apart".to_owned() }) {
                        td { (visible(&report.operations[first].title)) (between) (visible(&report.operations[second].title)) }
                        td.code { (visible(&decided.array)) }
                        td.right { (amount(report, &decided.bytes)) }
                        td {
                            @match &decided.verdict {
                                Verdict::Fused(Some(pass)) => { "fused: " strong { (pass) } " " (pass.purpose()) }
                                Verdict::Fused(None) => "fused, each with a third",
                                Verdict::Apart(reason, why) => {
                                    "apart, " strong { (reason.name()) } ": " (visible(&why.sentence))
                                    @if let Some(suggestion) = &why.suggestion { p.faint { (visible(suggestion)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn roofline(report: &Report, roof: Option<&Roof>) -> Markup {
    let Some(roof) = roof else { return html! { p { "There is no memory to measure what this machine allows." } } };
    let points = |stage: &Stage, fused: bool| -> Vec<Point> {
        let point = |(k, kernel): (usize, &KernelReport)| Point {
            title: kernel.title.clone(),
            intensity: kernel.figures.nominal_intensity().unwrap_or(0.0),
            rate: None,
            kernel: fused.then_some(k),
        };
        stage.kernels.iter().enumerate().map(point).collect()
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
