//! The report for people: kernels with their loops and figures, then every decision. Those that
//! keep operations apart are drawn over the source.

use std::fmt::Write;

use compiler::explain::{Amount, Best, Decided, Figures, Kept, KernelReport, Report, Stage, Verdict};
use compiler::fusion::MAX_OPERATIONS;
use compiler::partition::CutSummary;
use grammar::source::visible;
use grammar::{Report as Drawn, Source, Style};
use ir::Origin;
use ir::decision::{FusionPass, Pair};

use super::fold::{self, Bundle};
use crate::draw::draw_note;
use crate::roof::Roof;

/// How far from 1 a ratio may be and still count as 1.
const TIE: f64 = 1e-9;

/// Columns and rows of two screens, where a report should fit.
const COLUMNS: usize = 100;
const ROWS: usize = 100;

/// How much is shown.
#[derive(Clone, Copy)]
struct Most {
    /// Kernels, and lines of the loops of each.
    kernels: usize,
    lines: usize,
    /// Lines of the loops without fusion.
    before: usize,
    /// Lines on pairs that are fused, and notes on others.
    fused: usize,
    notes: usize,
    /// The number of names in a list.
    names: usize,
    /// Whether kernels and decisions that are alike are shown once.
    folded: bool,
}

const ALL: Most = Most {
    kernels: usize::MAX,
    lines: usize::MAX,
    before: usize::MAX,
    fused: usize::MAX,
    notes: usize::MAX,
    names: usize::MAX,
    folded: false,
};

/// From the loosest to the tightest: the first that fits is used.
const SHORT: [Most; 6] = [
    Most { notes: 6, folded: true, ..ALL },
    Most { before: 16, fused: 12, notes: 4, folded: true, ..ALL },
    Most { kernels: 8, lines: 24, before: 8, fused: 8, notes: 4, names: 8, folded: true },
    Most { kernels: 6, lines: 12, before: 6, fused: 6, notes: 3, names: 6, folded: true },
    Most { kernels: 5, lines: 8, before: 4, fused: 4, notes: 2, names: 5, folded: true },
    Most { kernels: 3, lines: 6, before: 4, fused: 4, notes: 2, names: 4, folded: true },
];

/// The report, without a newline at the end: shortened until it fits on two screens, or all of it.
pub fn render(source: &Source, report: &Report, roof: Option<&Roof>, style: Style, all: bool) -> String {
    let levels = if all { &[ALL][..] } else { &SHORT };
    let mut text = String::new();
    for most in levels {
        let mut out = Text { out: String::new(), source, report, style, most: *most };
        // Writing to a string cannot fail.
        let _ = out.write(roof);
        text = out.out;
        text.truncate(text.trim_end().len());
        let rows = |line: &str| line.chars().count().div_ceil(COLUMNS).max(1);
        if text.lines().map(rows).sum::<usize>() <= ROWS {
            break;
        }
    }
    text
}

/// A report being written.
struct Text<'r> {
    out: String,
    source: &'r Source,
    report: &'r Report,
    style: Style,
    most: Most,
}

impl Text<'_> {
    fn write(&mut self, roof: Option<&Roof>) -> std::fmt::Result {
        self.head()?;
        if let Some(roof) = roof {
            let lines = roof.lines(self.report);
            // The first is a heading.
            self.lines("  ", &lines, self.most.kernels.saturating_add(1), "kernels")?;
        }
        self.kernels()?;
        self.schedule()?;
        let report = self.report;
        if report.before.kernels.len() > report.after.kernels.len() {
            writeln!(self.out, "\nwithout fusion:\n")?;
            let lines: Vec<String> = report.before.kernels.iter().flat_map(|kernel| kernel.nest.clone()).collect();
            self.lines("    ", &lines, self.most.before, "lines")?;
        }
        self.fused()?;
        self.apart()?;
        self.kept()?;
        self.blocks()
    }

    /// What derivatives keep of loops.
    fn kept(&mut self) -> std::fmt::Result {
        if self.report.kept.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\nkept for the way back:\n")?;
        for one in &self.report.kept {
            writeln!(self.out, "    {}", visible(&one.title))?;
            kept(self.report, one).iter().try_for_each(|line| writeln!(self.out, "      {line}"))?;
        }
        Ok(())
    }

    /// The parts that the kernels run in, if that was requested.
    fn schedule(&mut self) -> std::fmt::Result {
        let Some(parts) = &self.report.schedule else { return Ok(()) };
        writeln!(self.out, "\nin parts, one after another:")?;
        let idle = parts.iter().filter(|part| part.how.is_none()).count();
        let run: Vec<_> = parts.iter().filter_map(|part| Some((part, part.how.as_ref()?))).collect();
        for (part, how) in run.iter().take(self.most.kernels) {
            writeln!(self.out, "\n  {}: {how}", part.title())?;
            for line in part.ways.iter().chain(&part.refused) {
                writeln!(self.out, "    {line}")?;
            }
            writeln!(self.out)?;
            self.lines("    ", &part.nest, self.most.lines, "lines")?;
        }
        if run.len() > self.most.kernels {
            writeln!(self.out, "\n  ... {} more parts (--all)", run.len() - self.most.kernels)?;
        }
        match idle {
            0 => Ok(()),
            1 => writeln!(self.out, "\n  1 other part has nothing to do at these sizes"),
            _ => writeln!(self.out, "\n  {idle} other parts have nothing to do at these sizes"),
        }
    }

    /// How the arrays may be cut into blocks.
    fn blocks(&mut self) -> std::fmt::Result {
        let cuts = in_blocks(self.report);
        if cuts.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\nin blocks, on several machines:\n")?;
        let lines: Vec<String> = cuts.iter().map(|cut| visible(&cut.to_string()).to_string()).collect();
        self.lines("    ", &lines, self.most.fused, "axes")
    }

    fn head(&mut self) -> std::fmt::Result {
        let report = self.report;
        let (before, after) = (report.before.kernels.len(), report.after.kernels.len());
        let one = if after == 1 { "kernel" } else { "kernels" };
        let many = if before == 1 { "operation" } else { "operations" };
        writeln!(self.out, "{}: {before} {many} in {after} {one}", visible(&report.function))?;
        let bytes = |stage: &Stage| amount(report, &stage.total.bytes);
        let (now, then) = (bytes(&report.after), bytes(&report.before));
        writeln!(self.out, "  moves {now}, {then} without fusion{}", share(report))?;
        let [now, before] = [&report.after, &report.before].map(|stage| {
            let operations = [operations(report, &stage.total), count(report, &stage.total.operations)];
            operations.map(|operations| format!("{operations}{}", intensity(&stage.total)))
        });
        writeln!(self.out, "  executes {}, {} without fusion", now[0], before[1])?;
        writeln!(self.out, "  takes {} of memory, {} without fusion", peak(&report.after), peak(&report.before))?;
        self.best()
    }

    /// The distance of the plan from the best partition, if that was requested.
    fn best(&mut self) -> std::fmt::Result {
        let report = self.report;
        match &report.best {
            None => Ok(()),
            Some(Best::TooLarge) => {
                writeln!(
                    self.out,
                    "  best partition: not looked for, since there are more than {MAX_OPERATIONS} operations"
                )
            }
            Some(Best::Partition { gap, .. }) if *gap < 1.0 - TIE => {
                writeln!(
                    self.out,
                    "  best partition: moves more, since this plan computes some operations more than once"
                )
            }
            Some(Best::Partition { gap, .. }) if *gap <= 1.0 + TIE => {
                writeln!(self.out, "  best partition: moves as many bytes as this plan")
            }
            Some(Best::Partition { kernels, bytes, gap, time, no_slower }) => {
                let (bytes, count) = (amount(report, bytes), kernels.len());
                let s = if count == 1 { "" } else { "s" };
                let fewer = 100.0 * (1.0 - 1.0 / gap);
                writeln!(
                    self.out,
                    "  best partition: {count} kernel{s} that would move {bytes} (-{fewer:.0} %), in {time:.2} times the time by the cost model"
                )?;
                for kernel in kernels {
                    let titles = kernel.iter().filter_map(|id| Some(report.operations.get(*id)?.title.as_str()));
                    writeln!(self.out, "    {}", visible(&fold::list(&titles.collect::<Vec<_>>(), self.most.names)))?;
                }
                if *time > 1.0 && *no_slower <= 1.0 + TIE {
                    writeln!(self.out, "  no partition that takes no longer than this plan moves fewer bytes")?;
                }
                Ok(())
            }
        }
    }

    fn kernels(&mut self) -> std::fmt::Result {
        let stage = &self.report.after;
        let count = stage.kernels.len();
        let each = || (0..count).map(|k| vec![k]).collect();
        let groups = if self.most.folded { fold::alike(stage) } else { each() };
        // A line that says that the last one is missing would save little.
        let shown = if groups.len() > self.most.kernels.saturating_add(1) { self.most.kernels } else { groups.len() };
        let shown = fold::largest(stage, groups, shown);
        for group in &shown {
            let [k, others @ ..] = group.as_slice() else { continue };
            let kernel = &stage.kernels[*k];
            writeln!(self.out, "\nkernel {} of {count}: {}", k + 1, visible(&self.names(&texts(&kernel.titles))))?;
            self.kernel(kernel)?;
            if !others.is_empty() {
                let s = if others.len() == 1 { "" } else { "s" };
                let titles: Vec<&str> = others.iter().flat_map(|k| texts(&stage.kernels[*k].titles)).collect();
                let titles = visible(&fold::list(&titles, self.most.names.min(ALIKE)));
                let numbers = fold::numbers(others);
                writeln!(self.out, "\nkernel{s} {numbers}: as kernel {}, with other arrays: {titles}", k + 1)?;
            }
        }
        let hidden = count - shown.iter().map(Vec::len).sum::<usize>();
        if hidden > 0 {
            writeln!(self.out, "\n... {hidden} more kernels that move no more bytes than these (--all)")?;
        }
        Ok(())
    }

    fn kernel(&mut self, kernel: &KernelReport) -> std::fmt::Result {
        let report = self.report;
        if kernel.operations.len() > 1 {
            let titles: Vec<&str> = kernel.operations.iter().map(|o| report.operations[*o].title.as_str()).collect();
            writeln!(self.out, "  computes {}", visible(&self.names(&titles)))?;
        }
        let live = kernel.live;
        let values = if live == 1 { "value" } else { "values" };
        let figures = &kernel.figures;
        writeln!(self.out, "  loads {}, stores {}", loads(report, figures), count(report, &figures.stores))?;
        writeln!(self.out, "  moves {}, {live} live {values}", amount(report, &figures.bytes))?;
        writeln!(self.out, "  executes {}{}", operations(report, figures), intensity(figures))?;
        if kernel.scratch.value != Some(0) {
            let (loads, stores) = (count(report, &figures.scratch_loads), count(report, &figures.scratch_stores));
            let scratch = amount(report, &kernel.scratch);
            writeln!(self.out, "  keeps {scratch} for each thread, in cache: loads {loads} elements, stores {stores}")?;
        }
        writeln!(self.out)?;
        self.lines("    ", &kernel.nest, self.most.lines, "lines")
    }

    /// The first of some lines, with long ones cut.
    fn lines(&mut self, indent: &str, lines: &[String], most: usize, what: &str) -> std::fmt::Result {
        // A line that says that the last one is missing would be as long.
        let shown = if lines.len() > most.saturating_add(1) { most } else { lines.len() };
        for line in &lines[..shown] {
            let line = visible(line);
            match line.char_indices().nth(COLUMNS - indent.len()) {
                Some((end, _)) if most < usize::MAX => writeln!(self.out, "{indent}{} ...", &line[..end])?,
                _ => writeln!(self.out, "{indent}{line}")?,
            }
        }
        if shown < lines.len() {
            writeln!(self.out, "{indent}... {} more {what} (--all)", lines.len() - shown)?;
        }
        Ok(())
    }

    /// The first names, and the number of the others: at most two lines.
    fn names(&self, names: &[&str]) -> String {
        let fit = |most: &usize| fold::list(names, *most).chars().count() <= 2 * COLUMNS;
        match self.most.names {
            usize::MAX => names.join(", "),
            most => fold::list(names, (1..=most).rev().find(fit).unwrap_or(1)),
        }
    }

    /// The operations that were merged, and the pass that did it.
    fn fused(&mut self) -> std::fmt::Result {
        let report = self.report;
        let largest = report.largest_first();
        let is_fused = |decided: &&&Decided| matches!(decided.verdict, Verdict::Fused(_));
        let mut lines: Vec<String> = largest.iter().filter(is_fused).map(|decided| merged(report, decided)).collect();
        if lines.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\nfused:\n")?;
        if lines.len() > self.most.fused {
            let alike = |bundle: Bundle<'_>| {
                let line = merged(report, bundle[0]);
                if bundle.len() == 1 { line } else { format!("{line}, {} times", bundle.len()) }
            };
            let bundles = fold::bundles(report, true);
            let hidden = bundles.iter().skip(self.most.fused).map(Vec::len).sum::<usize>();
            lines = bundles.into_iter().take(self.most.fused).map(alike).collect();
            if hidden > 0 {
                lines.push(format!("... {hidden} more merges (--all)"));
            }
        }
        self.lines("    ", &lines, usize::MAX, "")?;
        for pass in FusionPass::ALL {
            if report.pairs.iter().any(|d| matches!(d.verdict, Verdict::Fused(Some(p)) if p == *pass)) {
                writeln!(self.out, "  {pass} {}", pass.purpose())?;
            }
        }
        Ok(())
    }

    /// Notes on the pairs that stay apart.
    fn apart(&mut self) -> std::fmt::Result {
        let report = self.report;
        let mut notes = fold::bundles(report, false);
        let mut rest = vec![];
        if self.most.folded {
            rest = fold::without_few(&mut notes);
            rest.splice(0..0, notes.split_off(notes.len().min(self.most.notes)));
        } else {
            notes = report.apart().map(|(decided, _)| vec![decided]).collect();
        }
        for note in notes {
            let note = draw_note(self.source, &drawn(report, &note), self.style);
            writeln!(self.out, "\n{note}")?;
        }
        let mut ties: Vec<(String, usize)> = vec![];
        for decided in rest.into_iter().flatten() {
            let bytes = amount(report, &decided.bytes);
            match ties.iter_mut().find(|(other, _)| *other == bytes) {
                Some((_, pairs)) => *pairs += 1,
                None => ties.push((bytes, 1)),
            }
        }
        if ties.is_empty() {
            return Ok(());
        }
        let tie = |(bytes, pairs): &(String, usize)| match pairs {
            1 => format!("1 of {bytes}"),
            _ => format!("{pairs} of {bytes} each"),
        };
        let ties: Vec<String> = ties.iter().map(tie).collect();
        writeln!(self.out, "\nmore pairs that are apart: {} (--all)", fold::list(&texts(&ties), TIES))
    }
}

/// How many names of kernels that are like another, and amounts of bytes, are listed.
const ALIKE: usize = 4;
const TIES: usize = 4;

fn texts(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// Two operations that share a kernel.
fn merged(report: &Report, decided: &Decided) -> String {
    let (first, second) = decided.operations();
    let (first, second) = (&report.operations[first].title, &report.operations[second].title);
    let saved = amount(report, &decided.bytes);
    let by = match decided.verdict {
        Verdict::Fused(Some(pass)) => format!(" by {pass}"),
        _ => String::new(),
    };
    match decided.pair {
        Pair::Flow { .. } => format!("{first} -> {second}{by}, saves {saved}"),
        Pair::Shared { .. } => format!("{first} and {second}{by}, read `{}` once, saves {saved}", decided.array),
    }
}

/// Pairs that stay apart for the same reason, with the first of them drawn.
fn drawn(report: &Report, bundle: &[&Decided]) -> Drawn {
    let mut drawn = Drawn::default();
    let [decided, others @ ..] = bundle else { return drawn };
    let whys = bundle.iter().filter_map(|decided| match &decided.verdict {
        Verdict::Apart(_, why) => Some(why),
        Verdict::Fused(_) => None,
    });
    drawn.message = whys.clone().next().map(|why| why.sentence.clone()).unwrap_or_default();
    drawn.help = whys.clone().find_map(|why| why.suggestion.clone());
    let (first, second) = decided.operations();
    let (first, second) = (&report.operations[first], &report.operations[second]);
    let (here, there) = match decided.pair {
        Pair::Flow { .. } => ("in another kernel", "computed here"),
        Pair::Shared { .. } => ("in another kernel", "than this"),
    };
    for (origin, label) in [(second.origin, here), (first.origin, there)] {
        if origin != Origin::default() {
            drawn.labels.push((origin.start as usize..origin.end as usize, label.to_owned()));
        }
    }
    let note = |decided: &Decided| {
        let (first, second) = decided.operations();
        let [first, second] = [first, second].map(|operation| &report.operations[operation].title);
        format!("{first} and {second} apart move {}", amount(report, &decided.bytes))
    };
    drawn.notes.push(note(decided));
    match others {
        [] => {}
        [other] => drawn.notes.push(note(other)),
        _ => {
            let bytes = amount(report, &decided.bytes);
            let equal = others.iter().all(|other| amount(report, &other.bytes) == bytes);
            let bytes = if equal { "as many" } else { "at most as many" };
            drawn
                .notes
                .push(format!("{} more pairs are apart for the same reason, and move {bytes} each", others.len()));
        }
    }
    drawn
}

/// A change such as ` (-57 %)`, if both amounts are known.
pub(crate) fn share(report: &Report) -> String {
    match (report.before.total.bytes.value, report.after.total.bytes.value) {
        (Some(before), Some(after)) if before > 0 && before != after => {
            format!(" ({:+.0} %)", (after as f64 / before as f64 - 1.0) * 100.0)
        }
        _ => String::new(),
    }
}

/// What a derivative keeps of a loop, with the price of keeping all.
pub(crate) fn kept(report: &Report, kept: &Kept) -> [String; 2] {
    let Kept { steps, kept, bytes: [now, all], again, .. } = kept;
    let [steps, states] = [steps, kept].map(|n| number(report, n).unwrap_or_default());
    let again = match again {
        1 => "once more".to_owned(),
        2 => "twice more".to_owned(),
        n => format!("{n} times more"),
    };
    [
        format!("keeps the states of {states} steps, of {steps} in all: {}", amount(report, now)),
        format!("computes the steps {again}; all states would take {}", amount(report, all)),
    ]
}

/// The axes of arrays that a call may have in blocks.
pub(crate) fn in_blocks(report: &Report) -> Vec<&CutSummary> {
    report.partition.iter().filter(|cut| !cut.params.is_empty()).collect()
}

/// An amount of bytes, as text.
pub fn amount(report: &Report, amount: &Amount) -> String {
    counted(report, amount, "bytes")
}

/// The scalar operations, as text.
pub fn operations(report: &Report, figures: &Figures) -> String {
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
