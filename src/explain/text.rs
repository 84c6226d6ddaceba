//! The report for people: kernels with their loops and figures, then every decision, those that keep operations apart drawn
//! over the source.

use std::fmt::Write;

use compiler::explain::{Amount, Decided, Figures, KernelReport, Report, Stage, Verdict, Why};
use ir::Origin;
use ir::decision::{FusionPass, Pair};

use super::roof::Roof;
use crate::render::{Report as Drawn, draw_note, visible};
use crate::{Source, Style};

/// More pairs that stay apart are not drawn.
const MAX_DRAWN: usize = 100;

/// The report, without a newline at the end.
pub fn render(source: &Source, report: &Report, roof: Option<&Roof>, style: Style) -> String {
    let mut out = String::new();
    // A string takes any text.
    let _ = write(&mut out, source, report, roof, style);
    out.truncate(out.trim_end().len());
    out
}

fn write(out: &mut String, source: &Source, report: &Report, roof: Option<&Roof>, style: Style) -> std::fmt::Result {
    let (before, after) = (report.before.kernels.len(), report.after.kernels.len());
    let one = if after == 1 { "kernel" } else { "kernels" };
    let many = if before == 1 { "operation" } else { "operations" };
    writeln!(out, "{}: {before} {many} in {after} {one}", visible(&report.function))?;
    let bytes = |stage: &Stage| amount(report, &stage.total.bytes);
    writeln!(out, "  moves {}, {} without fusion{}", bytes(&report.after), bytes(&report.before), share(report))?;
    let [now, before] = [&report.after, &report.before].map(|stage| {
        let operations = [operations(report, &stage.total), count(report, &stage.total.operations)];
        operations.map(|operations| format!("{operations}{}", intensity(&stage.total)))
    });
    writeln!(out, "  executes {}, {} without fusion", now[0], before[1])?;
    writeln!(out, "  takes {} of memory, {} without fusion", peak(&report.after), peak(&report.before))?;
    for line in roof.iter().flat_map(|roof| roof.lines(report)) {
        writeln!(out, "  {}", visible(&line))?;
    }
    for (k, kernel) in report.after.kernels.iter().enumerate() {
        writeln!(out, "\nkernel {} of {after}: {}", k + 1, visible(&kernel.title))?;
        self::kernel(out, report, kernel)?;
    }
    if report.before.kernels.len() > report.after.kernels.len() {
        writeln!(out, "\nwithout fusion:\n")?;
        for kernel in &report.before.kernels {
            kernel.nest.iter().try_for_each(|line| writeln!(out, "    {}", visible(line)))?;
        }
    }
    let fused: Vec<_> = report.pairs.iter().filter_map(|d| fused(report, d)).collect();
    if !fused.is_empty() {
        writeln!(out, "\nfused:\n")?;
        fused.iter().try_for_each(|line| writeln!(out, "    {}", visible(line)))?;
        for pass in FusionPass::ALL {
            if report.pairs.iter().any(|d| matches!(d.verdict, Verdict::Fused(Some(p)) if p == *pass)) {
                writeln!(out, "  {pass} {}", pass.purpose())?;
            }
        }
    }
    let mut apart = report.apart().map(|(decided, why)| drawn(report, decided, why));
    for note in apart.by_ref().take(MAX_DRAWN) {
        writeln!(out, "\n{}", draw_note(source, &note, style))?;
    }
    let more = apart.count();
    if more > 0 {
        writeln!(out, "\n{more} more pairs stay apart; the JSON form has all of them")?;
    }
    Ok(())
}

fn kernel(out: &mut String, report: &Report, kernel: &KernelReport) -> std::fmt::Result {
    if kernel.operations.len() > 1 {
        let titles: Vec<&str> = kernel.operations.iter().map(|o| report.operations[*o].title.as_str()).collect();
        writeln!(out, "  computes {}", visible(&titles.join(", ")))?;
    }
    let live = kernel.live;
    let values = if live == 1 { "value" } else { "values" };
    let figures = &kernel.figures;
    writeln!(out, "  loads {}, stores {}", loads(report, figures), count(report, &figures.stores))?;
    writeln!(out, "  moves {}, {live} live {values}", amount(report, &figures.bytes))?;
    writeln!(out, "  executes {}{}", operations(report, figures), intensity(figures))?;
    if kernel.scratch.value != Some(0) {
        let (loads, stores) =
            (count(report, &kernel.figures.scratch_loads), count(report, &kernel.figures.scratch_stores));
        let scratch = amount(report, &kernel.scratch);
        writeln!(out, "  keeps {scratch} for each thread, in cache: loads {loads} elements, stores {stores}")?;
    }
    writeln!(out)?;
    kernel.nest.iter().try_for_each(|line| writeln!(out, "    {}", visible(line)))
}

/// Who was merged with whom.
fn fused(report: &Report, decided: &Decided) -> Option<String> {
    let Verdict::Fused(pass) = decided.verdict else { return None };
    let (first, second) = decided.operations();
    let (first, second) = (&report.operations[first].title, &report.operations[second].title);
    let saved = amount(report, &decided.bytes);
    let by = pass.map_or_else(String::new, |pass| format!(" by {pass}"));
    Some(match decided.pair {
        Pair::Flow { .. } => format!("{first} -> {second}{by}, saves {saved}"),
        Pair::Shared { .. } => format!("{first} and {second}{by}, read `{}` once, saves {saved}", decided.array),
    })
}

/// A pair that stays apart.
fn drawn(report: &Report, decided: &Decided, why: &Why) -> Drawn {
    let (first, second) = decided.operations();
    let (first, second) = (&report.operations[first], &report.operations[second]);
    let mut drawn = Drawn { message: why.sentence.clone(), help: why.suggestion.clone(), ..Drawn::default() };
    let (here, there) = match decided.pair {
        Pair::Flow { .. } => ("in another kernel", "computed here"),
        Pair::Shared { .. } => ("in another kernel", "than this"),
    };
    for (origin, label) in [(second.origin, here), (first.origin, there)] {
        if origin != Origin::default() {
            drawn.labels.push((origin.start as usize..origin.end as usize, label.to_owned()));
        }
    }
    drawn.notes.push(format!("{} and {} apart move {}", first.title, second.title, amount(report, &decided.bytes)));
    drawn
}

/// Such as ` (-57 %)`, where both are known.
pub(crate) fn share(report: &Report) -> String {
    match (report.before.total.bytes.value, report.after.total.bytes.value) {
        (Some(before), Some(after)) if before > 0 && before != after => {
            format!(" ({:+.0} %)", (after as f64 / before as f64 - 1.0) * 100.0)
        }
        _ => String::new(),
    }
}

/// An amount of bytes, as text.
pub(crate) fn amount(report: &Report, amount: &Amount) -> String {
    counted(report, amount, "bytes")
}

/// The scalar operations, as text.
pub(crate) fn operations(report: &Report, figures: &Figures) -> String {
    counted(report, &figures.operations, "scalar operations")
}

fn counted(report: &Report, amount: &Amount, what: &str) -> String {
    let most = if amount.exact { "" } else { "at most " };
    match number(report, amount) {
        Some(number) => format!("{most}{number} {what}"),
        None => format!("as many {what} as the data say"),
    }
}

/// A number or a formula; `None` if it depends on data.
fn number(report: &Report, amount: &Amount) -> Option<String> {
    match (amount.value, &amount.formula) {
        (Some(value), _) => Some(grouped(value)),
        (None, Some(formula)) if formula.is_overflow() => Some("more than 2^63".to_owned()),
        (None, Some(formula)) => Some(report.sizes.text(formula)),
        (None, None) => None,
    }
}

/// The elements that are loaded, and whether from memory or cache.
pub(crate) fn loads(report: &Report, figures: &Figures) -> String {
    let all = counted(report, &figures.loads, "elements");
    let number = |amount| number(report, amount);
    match number(&figures.loads) == number(&figures.memory_loads) {
        true => format!("{all} from memory"),
        false => format!("{all} ({} from memory, the others from cache)", count(report, &figures.memory_loads)),
    }
}

/// The operations per byte, such as ` (0.25 a byte)`, if the same for all sizes; else empty.
pub(crate) fn intensity(figures: &Figures) -> String {
    figures.intensity().map_or_else(String::new, |operations| format!(" ({operations:.2} a byte)"))
}

pub(crate) fn peak(stage: &Stage) -> String {
    match (stage.peak.value, stage.peak.per_thread) {
        (Some(value), Some(0)) => format!("{} bytes", grouped(value)),
        (Some(value), Some(each)) => format!("{} bytes and {} for each thread", grouped(value), grouped(each)),
        _ => format!("{} bytes", stage.peak.formula),
    }
}

/// A count without its unit, which the text has already named.
pub(crate) fn count(report: &Report, amount: &Amount) -> String {
    let most = if amount.exact { "" } else { "at most " };
    match number(report, amount) {
        Some(number) => format!("{most}{number}"),
        None => "as many as the data say".to_owned(),
    }
}

/// `1,234,567`
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (k, digit) in digits.chars().enumerate() {
        if k > 0 && (digits.len() - k).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
