//! The text form of a scheduled program: the program with the parts as its kernels, followed by the
//! way in which each part runs.

use std::fmt;

use super::{Body, Printer, list, name};
use crate::Size;
use crate::nest::{BufferId, Index, IndexId};
use crate::sched::{Axis, Fill, Form, Inner, Level, LoopForm, Part, Row, Run, Scheduled, Staged, Tail, Variant};

impl fmt::Display for Scheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scheduled { machine, program, planned, operations, parts } = self;
        writeln!(f, "schedule for {}, {planned} buffers planned, {operations} operations", machine.name)?;
        write!(f, "{}", self.as_program())?;
        let printer = Printer::new(program);
        for part in parts {
            write!(f, "part @{} of {}: {}", name(&part.kernel.name), part.of, run(&printer, &part.run))?;
            let last = part.last.map(|id| format!(" in the last block by {}", printer.buffer_name(id)));
            writeln!(f, "{}{}", joins(part), last.unwrap_or_default())?;
            for (strategy, refusal) in &part.refused {
                writeln!(f, "  refused {}: {}", strategy.name(), refusal.name())?;
            }
            part.variants.iter().try_for_each(|v| f.write_str(&variant(&printer, part, v)))?;
            part.forms.iter().try_for_each(|loop_form| writeln!(f, "  {}", self::loop_form(part, loop_form)))?;
        }
        Ok(())
    }
}

fn joins(part: &Part) -> String {
    if part.joins.is_empty() {
        return String::new();
    }
    format!(" joins {}", indices(part, &part.joins))
}

/// The names of some indices of a part.
fn indices(part: &Part, ids: &[IndexId]) -> String {
    let index = |found: Option<&Index>| found.map_or_else(String::new, |index| name(&index.name));
    list(ids, |id| index(part.kernel.indices.get(*id)))
}

/// How a loop runs on a core.
fn loop_form(part: &Part, LoopForm { index, form }: &LoopForm) -> String {
    format!("loop {}: {}", indices(part, &[*index]), self::form(part, form))
}

fn form(part: &Part, form: &Form) -> String {
    match form {
        Form::Vectors => "vectors".to_owned(),
        Form::Single { obstacle, inside } => {
            let inside: String = inside.iter().map(|inner| format!("{} ", loop_form(part, inner))).collect();
            let inside = if inside.is_empty() { inside } else { format!(" {{ {inside}}}") };
            format!("single ({}){inside}", obstacle.name())
        }
        Form::Split { at, holds, fails } => {
            let [holds, fails] = [holds, fails].map(|side| self::form(part, side));
            format!("split {at} {{ {holds} }} else {{ {fails} }}")
        }
    }
}

/// A way to run a part.
fn variant(printer: &Printer<'_>, part: &Part, variant: &Variant) -> String {
    let Variant { strategy, at_most, axes, inner, tail, stages, resident, descending } = variant;
    let levels = |levels: &[Level]| list(levels, ToString::to_string);
    let axis = |axis: &Axis| format!("axis {}: {}", indices(part, &axis.indices), levels(&axis.levels));
    let numbers = |word: &str, sizes: &[(Size, i64)]| {
        list(sizes, |(size, number)| format!("{} {word} {number}", printer.size(size)))
    };
    let mut lines: Vec<String> = vec![];
    if !at_most.is_empty() {
        lines.push(format!("when {}", numbers("at most", at_most)));
    }
    lines.extend(axes.iter().map(axis));
    match inner {
        Inner::Alone => {}
        Inner::Together(threads) => lines.push(format!("together {threads}")),
        Inner::Row(row) => {
            let Row { length, levels: digits, fill, at_least, registers } = row.as_ref();
            let fill = match fill {
                Fill::Masked => "",
                Fill::Whole => " whole",
                Fill::Beyond(_) => " beyond",
            };
            let least = if *at_least > 0 { format!(" at least {at_least}") } else { String::new() };
            lines.push(format!("row {}{fill}{least}: {}", printer.size(length), levels(digits)));
            if !registers.is_empty() {
                let registers: Vec<BufferId> = registers.iter().copied().collect();
                lines.push(format!("registers {}", list(&registers, |id| printer.buffer_name(*id))));
            }
            if let Some(beyond) = row.beyond() {
                lines.push(format!("others: {}", levels(&beyond.levels)));
            }
            for Staged { buffer, step, rest, loops, offset, sole } in row.staged() {
                let sole = if *sole { " sole" } else { "" };
                let body = Body { indices: &part.kernel.indices, values: &part.kernel.values };
                let (rest, step) = (printer.affine(&body, rest), printer.size(step));
                let at = format!("at {offset} in loops {} to {}", loops.0, loops.1);
                lines.push(format!("staged {}[{rest} by {step}] {at}{sole}", printer.buffer_name(*buffer)));
            }
        }
    }
    if let Tail::Single(unless) = tail {
        let unless = if unless.is_empty() { String::new() } else { format!(" unless {}", numbers("by", unless)) };
        lines.push(format!("single{unless}"));
    }
    for stage in stages {
        lines.push(format!("stage {} padding {} {{", list(&stage.loads, ToString::to_string), stage.padding));
        lines.extend(stage.axes.iter().map(|a| format!("  {}", axis(a))));
        lines.push("}".to_owned());
    }
    if *descending {
        lines.push("descending".to_owned());
    }
    lines.extend(resident.map(|blocks| format!("resident {blocks}")));
    let lines: String = lines.into_iter().map(|line| format!("    {line}\n")).collect();
    format!("  {} {{\n{lines}  }}\n", strategy.name())
}

/// How a part runs.
fn run(printer: &Printer<'_>, run: &Run) -> String {
    let buffers = |ids: &[BufferId]| list(ids, |id| printer.buffer_name(*id));
    let sizes = |sizes: &[Size]| list(sizes, |size| printer.size(size));
    match run {
        Run::Whole => "whole".to_string(),
        Run::Ranges => "ranges".to_string(),
        Run::Sweeps => "sweeps".to_string(),
        Run::Transpose(t) => {
            let loads = list(&t.loads, ToString::to_string);
            format!("transpose dim {} of ({}), loads {loads} height {}", t.outer, sizes(&t.extents), t.height)
        }
        Run::Strips { joined: None } => "strips".to_string(),
        Run::Strips { joined: Some(count) } => format!("strips of {}", printer.size(count)),
        Run::Chunks { results } => format!("chunks to {}", buffers(results)),
        Run::Blocks { results } => format!("blocks to {}", buffers(results)),
        Run::HandOff(h) => format!("hand off {} in {}", h.prefixes, printer.buffer_name(h.buffer)),
        Run::Relay(r) => {
            format!("relay {} in {} window {}", r.prefixes, printer.buffer_name(r.buffer), r.window)
        }
        Run::Tiles(t) => {
            let sums = list(&t.sums, |sums| format!("({})", buffers(sums)));
            format!("tiles of {} by {}, rows {} sums {sums}", printer.size(&t.height), printer.size(&t.width), t.rows)
        }
    }
}
