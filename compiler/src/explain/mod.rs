//! What fusion made of a function, and why: a report as plain data, in terms of the source.
//!
//! ```text
//! names     what to call operations and sizes
//! why       refusals in words, and what to write instead
//! values    which scalars of a fused kernel are values of the source
//! nests     kernels as readable loop nests
//! ```
//!
//! Nothing here is computed twice: figures come from `analysis`, decisions from `fusion`.

mod names;
mod nests;
mod values;
mod why;

use std::cell::Cell;
use std::collections::BTreeMap;

use cranelift_entity::PrimaryMap;
use ir::checked::Checked;
use ir::decision::{Decision, FusionPass, Outcome, Pair, Passes, Reason};
use ir::nest::{Kernel, KernelId, Program, Role};
use ir::{Arithmetic, Size, SymbolId, visit};

use crate::analysis::{cost, traffic, work};
use crate::pipeline::Compiled;
use crate::plan::{self, peak::Peak};

pub use names::{Operation, Sizes};
pub use why::Why;

use values::Formulas;
use why::Words;

/// What fusion made of a function.
#[derive(Clone, Debug)]
pub struct Report {
    /// The function.
    pub function: String,
    /// Its size names.
    pub sizes: Sizes,
    /// The values of size names that were given.
    pub given: BTreeMap<SymbolId, i64>,
    /// The passes that ran.
    pub passes: Passes,
    /// Its operations. An operation's id is that of its kernel before fusion.
    pub operations: PrimaryMap<KernelId, Operation>,
    /// One kernel an operation.
    pub before: Stage,
    /// The kernels that are launched.
    pub after: Stage,
    /// What was decided on each two operations that could share a kernel.
    pub pairs: Vec<Decided>,
}

/// The kernels before or after fusion.
#[derive(Clone, Debug)]
pub struct Stage {
    /// In the order they run.
    pub kernels: Vec<KernelReport>,
    /// All of them together.
    pub total: Figures,
    /// The memory that a call takes.
    pub peak: PeakMemory,
}

/// The memory that a call takes at most, arguments and results included.
#[derive(Clone, Debug)]
pub struct PeakMemory {
    /// All of it as a formula, in bytes.
    pub formula: String,
    /// Bytes beside what each thread keeps for itself, if all sizes are given.
    pub value: Option<u64>,
    /// Bytes that each thread keeps for itself, if all sizes are given.
    pub per_thread: Option<u64>,
    /// Whether there is no value because it is beyond 64 bits.
    pub overflows: bool,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct KernelReport {
    /// What it stores, in words of the source.
    pub title: String,
    /// The operations that it computes, ascending.
    pub operations: Vec<KernelId>,
    /// What it costs.
    pub figures: Figures,
    /// An estimate of the most scalars alive at once.
    pub live: u64,
    /// Bytes that each thread keeps for itself.
    pub scratch: Amount,
    /// Its loops, a line each.
    pub nest: Vec<String>,
}

/// What kernels cost.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Bytes that must cross between memory and caches.
    pub bytes: Amount,
    /// Elements that are loaded from arrays.
    pub loads: Amount,
    /// Elements that are stored to arrays.
    pub stores: Amount,
    /// Elements that are loaded from what a thread keeps for itself.
    pub scratch_loads: Amount,
    /// Elements that are stored to what a thread keeps for itself.
    pub scratch_stores: Amount,
    /// Floating-point operations: where not all sizes are given, with [`cost::NOMINAL`] for the others.
    pub flops: f64,
    /// Bytes at those sizes.
    bytes_there: f64,
}

impl Figures {
    /// Floating-point operations for each byte; not a number where the bytes are beyond 64 bits.
    pub fn intensity(&self) -> f64 {
        match self.bytes_there {
            bytes if !bytes.is_finite() => f64::NAN,
            bytes if bytes > 0.0 => self.flops / bytes,
            _ => 0.0,
        }
    }

    fn add(&mut self, other: &Figures) {
        self.bytes = self.bytes.plus(&other.bytes);
        self.loads = self.loads.plus(&other.loads);
        self.stores = self.stores.plus(&other.stores);
        self.scratch_loads = self.scratch_loads.plus(&other.scratch_loads);
        self.scratch_stores = self.scratch_stores.plus(&other.scratch_stores);
        self.flops += other.flops;
        self.bytes_there += other.bytes_there;
    }
}

/// A number that depends on sizes, those that are given put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Its formula; none where data decide, or the compiler keeps no formula.
    pub formula: Option<Size>,
    /// Its value, where that depends on no size that is not given.
    pub value: Option<u64>,
    /// Whether it is that much exactly, and not only at most: as where data decide whether something runs.
    pub exact: bool,
    /// Whether it has no value because it is beyond 64 bits.
    pub overflows: bool,
}

impl Default for Amount {
    fn default() -> Amount {
        Amount::of(Size::default())
    }
}

impl Amount {
    fn of(size: Size) -> Amount {
        let value = size.as_constant().and_then(|n| u64::try_from(n).ok());
        let overflows = size.eval(&|_| 1).is_err();
        Amount { formula: (!overflows).then_some(size), value, exact: true, overflows }
    }

    fn unknown() -> Amount {
        Amount { formula: None, value: None, exact: false, overflows: false }
    }

    fn plus(&self, other: &Amount) -> Amount {
        let formula = self.formula.as_ref().zip(other.formula.as_ref()).map(|(a, b)| a + b);
        let value = self.value.zip(other.value).and_then(|(a, b)| a.checked_add(b));
        let overflows = self.overflows || other.overflows || (self.value.zip(other.value).is_some() && value.is_none());
        let formula = formula.filter(|_| !overflows);
        Amount { formula, value, exact: self.exact && other.exact, overflows }
    }
}

/// What became of two operations that could share a kernel.
#[derive(Clone, Debug)]
pub struct Decided {
    /// Which two.
    pub pair: Pair,
    /// The name of the array between them, or that both read.
    pub array: String,
    /// What they move through memory if they are apart.
    pub bytes: Amount,
    /// The pass that merged them, or why none did.
    pub verdict: Verdict,
}

/// Whether two operations share a kernel.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// They do, by the work of a pass; of none where each was merged with a third.
    Fused(Option<FusionPass>),
    /// They do not.
    Apart(Reason, Why),
}

impl Decided {
    /// The two operations, in the order of the source.
    pub fn operations(&self) -> (KernelId, KernelId) {
        match self.pair {
            Pair::Flow { producer, consumer, .. } => (producer, consumer),
            Pair::Shared { first, second, .. } => (first, second),
        }
    }
}

impl Report {
    /// The pairs that stay apart.
    pub fn apart(&self) -> impl Iterator<Item = (&Decided, &Why)> {
        self.pairs.iter().filter_map(|decided| match &decided.verdict {
            Verdict::Apart(_, why) => Some((decided, why)),
            Verdict::Fused(_) => None,
        })
    }
}

/// Explains a compiled function. `source` is the text that it was checked from, `given` the sizes that are known.
/// Where guards and extents take arithmetic to tell how often something runs, it is done by `arithmetic`.
pub fn explain(
    checked: &Checked,
    compiled: &Compiled,
    passes: Passes,
    source: &str,
    given: &BTreeMap<SymbolId, i64>,
    arithmetic: &Arithmetic,
) -> Report {
    let sizes = Sizes::new(checked);
    let operations = names::operations(checked, &compiled.unfused, source);
    let mut formulas = Formulas::new(&compiled.unfused);
    let mut stage = |program: &Program, members: &[Vec<KernelId>]| {
        let formulas = &mut formulas;
        let mut stage = Stage { kernels: vec![], total: Figures::default(), peak: peak(program, &sizes, given) };
        for (kernel, members) in program.kernels.values().zip(members) {
            let report = KernelReport {
                title: title(program, kernel, &compiled.unfused, &operations, members),
                nest: nests::lines(program, kernel, &sizes, &formulas.names(program, kernel)),
                operations: members.clone(),
                ..measured(program, kernel, &sizes, given, arithmetic)
            };
            stage.total.add(&report.figures);
            stage.kernels.push(report);
        }
        stage
    };
    let alone: Vec<_> = compiled.unfused.kernels.keys().map(|id| vec![id]).collect();
    let mut before = stage(&compiled.unfused, &alone);
    // Arrays share memory without fusion too.
    let mut planned = compiled.unfused.clone();
    plan::plan(&mut planned);
    before.peak = peak(&planned, &sizes, given);
    let members: Vec<_> = compiled.program.kernels.keys().map(|id| compiled.members[id].clone()).collect();
    let after = stage(&compiled.program, &members);
    let words = Words { operations: &operations, sizes: &sizes };
    let together = |pair| {
        let (Pair::Flow { producer: a, consumer: b, .. } | Pair::Shared { first: a, second: b, .. }) = pair;
        members.iter().any(|members| members.contains(&a) && members.contains(&b))
    };
    let decided = |decision: &Decision| {
        let (Pair::Flow { buffer, .. } | Pair::Shared { buffer, .. }) = decision.pair;
        Decided {
            pair: decision.pair,
            array: compiled.unfused.buffers[buffer].name.clone(),
            bytes: Amount::of(sizes.known(&decision.bytes, given)),
            verdict: match &decision.outcome {
                Outcome::Fused(pass) => Verdict::Fused(Some(*pass)),
                Outcome::Refused(_) if together(decision.pair) => Verdict::Fused(None),
                Outcome::Refused(reason) => Verdict::Apart(reason.clone(), words.refusal(decision.pair, reason)),
            },
        }
    };
    let pairs = compiled.decisions.iter().map(decided).collect();
    Report { function: checked.name.clone(), given: given.clone(), passes, before, after, pairs, operations, sizes }
}

/// What a kernel is called: the operations whose results it leaves in memory.
fn title(
    program: &Program,
    kernel: &Kernel,
    unfused: &Program,
    operations: &PrimaryMap<KernelId, Operation>,
    members: &[KernelId],
) -> String {
    let stored = visit::stores(&kernel.body);
    let kept = stored.iter().filter(|b| program.buffers[**b].role != Role::Scratch).map(|b| &program.buffers[*b].name);
    let mut titles: Vec<&str> = vec![];
    for name in kept {
        let operation = members.iter().find(|m| unfused.kernels[**m].name == *name);
        if let Some(operation) = operation.and_then(|o| operations.get(*o))
            && !titles.contains(&operation.title.as_str())
        {
            titles.push(&operation.title);
        }
    }
    if titles.is_empty() { format!("`{}`", kernel.name) } else { titles.join(", ") }
}

/// A kernel's figures.
fn measured(
    program: &Program,
    kernel: &Kernel,
    sizes: &Sizes,
    given: &BTreeMap<SymbolId, i64>,
    arithmetic: &Arithmetic,
) -> KernelReport {
    let known = |size: &Size| sizes.known(size, given);
    let there = |size: &Size| cost::nominal(&known(size));
    let moved = cost::symbolic(program, kernel);
    let bytes = moved.iter().fold(Size::default(), |sum, m| &sum + &m.bytes);
    let mut scratch = Size::default();
    let mut stored = visit::stores(&kernel.body);
    stored.sort_unstable();
    stored.dedup();
    for buffer in stored.into_iter().map(|b| &program.buffers[b]).filter(|b| b.role == Role::Scratch) {
        let width = Size::constant(i64::try_from(buffer.dtype.bytes()).unwrap_or(i64::MAX));
        scratch = &scratch + &buffer.shape.iter().fold(width, |product, length| &product * length);
    }
    let work = work::kernel(program, kernel, &there);
    let mut figures = counted(program, kernel, sizes, given, arithmetic);
    figures.bytes = Amount::of(known(&bytes));
    (figures.flops, figures.bytes_there) = (work.flops, there(&bytes));
    KernelReport {
        title: String::new(),
        operations: vec![],
        figures,
        live: work.live,
        scratch: Amount::of(known(&scratch)),
        nest: vec![],
    }
}

/// The memory that a call of a program takes.
fn peak(program: &Program, sizes: &Sizes, given: &BTreeMap<SymbolId, i64>) -> PeakMemory {
    let peak = Peak::of(program);
    let known = program.symbols.keys().all(|s| sizes.known(&Size::symbol(s), given).as_constant().is_some());
    let bytes = |threads| {
        let bytes = peak.at(&|size| sizes.known(size, given).as_constant().unwrap_or(0), threads);
        u64::try_from(bytes).ok().filter(|_| known)
    };
    let (value, with_one) = (bytes(0), bytes(1));
    let overflows = Cell::new(false);
    let formula = peak.formula(&|size| {
        let size = sizes.known(size, given);
        overflows.set(overflows.get() || size.eval(&|_| 1).is_err());
        sizes.text(&size)
    });
    let overflows = overflows.get();
    PeakMemory {
        formula,
        overflows,
        value: value.filter(|_| !overflows),
        per_thread: with_one.zip(value).map(|(one, none)| one - none),
    }
}

/// How many elements a kernel loads and stores: as a formula, and if all sizes are given as the number that the interpreter of
/// loop nests would count.
fn counted(
    program: &Program,
    kernel: &Kernel,
    sizes: &Sizes,
    given: &BTreeMap<SymbolId, i64>,
    arithmetic: &Arithmetic,
) -> Figures {
    let known = |size: Size| sizes.known(&size, given);
    let symbol = |s: SymbolId| known(Size::symbol(s)).as_constant();
    let numbers = program.symbols.keys().all(|s| symbol(s).is_some());
    let numbers = numbers.then(|| traffic::predict_kernel(program, kernel, &|s| symbol(s).unwrap_or(0), arithmetic));
    let mut figures = Figures::default();
    for (buffer, symbolic) in traffic::polynomials(kernel) {
        let number = numbers.as_ref().and_then(|numbers| numbers.get(&buffer));
        let amount = |formula: traffic::Count<Size>, number: Option<traffic::Count<u64>>| {
            let amount = formula.elements.map_or_else(Amount::unknown, |size| Amount::of(known(size)));
            match number {
                Some(number) => Amount { value: number.elements, exact: number.exact, ..amount },
                None => Amount { exact: formula.exact, ..amount },
            }
        };
        let loads = amount(symbolic.loads, number.map(|n| n.loads));
        let stores = amount(symbolic.stores, number.map(|n| n.stores));
        let (to_loads, to_stores) = match program.buffers[buffer].role {
            Role::Scratch => (&mut figures.scratch_loads, &mut figures.scratch_stores),
            _ => (&mut figures.loads, &mut figures.stores),
        };
        *to_loads = to_loads.plus(&loads);
        *to_stores = to_stores.plus(&stores);
    }
    figures
}
