//! The report as a graph for Graphviz: the operations before fusion, and again after it, with those
//! of a kernel in a box. A dashed edge is a pair that stays apart, with the reason.

use std::fmt::Write;

use compiler::explain::{Report, Verdict};
use grammar::source::one_line;
use ir::decision::{FusionPass, Pair};

/// The graph.
pub fn write(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = graph(&mut out, report);
    out
}

fn graph(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "digraph {} {{", quoted(&report.function))?;
    writeln!(out, "  node [shape=box, fontname=\"monospace\"]")?;
    writeln!(out, "  edge [fontname=\"monospace\", fontsize=10]")?;
    let (before, after) = (report.before.kernels.len(), report.after.kernels.len());
    writeln!(out, "  subgraph cluster_before {{")?;
    writeln!(out, "    label={}", quoted(&format!("before: {before} kernels")))?;
    for (id, operation) in &report.operations {
        writeln!(out, "    b{} [label={}]", id.as_u32(), quoted(&operation.title.replace('`', "")))?;
    }
    for decided in &report.pairs {
        let (first, second) = decided.operations();
        if matches!(decided.pair, Pair::Flow { .. }) {
            writeln!(out, "    b{} -> b{}", first.as_u32(), second.as_u32())?;
        }
    }
    writeln!(out, "  }}")?;
    writeln!(out, "  subgraph cluster_after {{")?;
    writeln!(out, "    label={}", quoted(&format!("after: {after} kernels")))?;
    // An operation that is computed in several kernels appears in each; its first place has its
    // edges.
    let mut places = vec![None; report.operations.len()];
    for (k, kernel) in report.after.kernels.iter().enumerate() {
        writeln!(out, "    subgraph cluster_{k} {{")?;
        writeln!(out, "      label={}", quoted(&format!("kernel {}", k + 1)))?;
        for operation in &kernel.operations {
            let title = report.operations[*operation].title.replace('`', "");
            let node = format!("a{k}_{}", operation.as_u32());
            writeln!(out, "      {node} [label={}]", quoted(&title))?;
            places[operation.as_u32() as usize].get_or_insert(node);
        }
        writeln!(out, "    }}")?;
    }
    for decided in &report.pairs {
        let (first, second) = decided.operations();
        let (Some(first), Some(second)) = (&places[first.as_u32() as usize], &places[second.as_u32() as usize]) else {
            continue;
        };
        let (style, label) = match &decided.verdict {
            Verdict::Fused(pass) => ("", pass.map_or("", FusionPass::name)),
            Verdict::Apart(reason, _) => ("style=dashed, ", reason.name()),
        };
        let ends = if matches!(decided.pair, Pair::Flow { .. }) { "" } else { "dir=none, " };
        writeln!(out, "    {first} -> {second} [{style}{ends}label={}]", quoted(label))?;
    }
    writeln!(out, "  }}")?;
    writeln!(out, "}}")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", one_line(text).replace('\\', "\\\\").replace('"', "\\\""))
}
