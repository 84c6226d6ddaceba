//! The report on what fusion did with a function and why, as plain data in terms of the source.
//!
//! ```text
//! names     the names of operations and sizes
//! why       refusals in words, with suggestions
//! values    the values of the source among the scalars of a fused kernel
//! nests     kernels as readable loop nests
//! constants values that are the same in every iteration, for `nests`
//! uses      how often and where values are used, for `nests`
//! ```
//!
//! Nothing here is computed twice: figures come from `analysis`, decisions from `fusion`.

mod constants;
mod forms;
mod layout;
mod names;
mod nests;
mod schedule;
mod uses;
mod values;
mod why;

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::PrimaryMap;
use ir::checked::Checked;
use ir::decision::{Decision, FusionPass, Outcome, Pair, Passes, Reason};
use ir::nest::{Buffer, BufferId, Kernel, KernelId, Program, Repeat, Role};
use ir::{Arithmetic, Size, SymbolId, visit};

use crate::analysis::{cost, footprint, traffic, work};
use crate::fusion;
use crate::partition::{CutSummary, Partition};
use crate::pipeline::{Compiled, Options};
use crate::plan::{self, peak::Peak};

pub use names::{Operation, Sizes};
pub use schedule::PartReport;
pub use why::Why;

use values::Formulas;
use why::Words;

/// The report on a function.
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
    /// The decision on each pair of operations that could share a kernel.
    pub pairs: Vec<Decided>,
    /// How its arrays may be cut into blocks that are computed apart from each other.
    pub partition: Vec<CutSummary>,
    /// The loops whose states a derivative keeps in blocks.
    pub kept: Vec<Kept>,
    /// How far the plan is from the best one, if that was requested.
    pub best: Option<Best>,
    /// The parts that its kernels run in, if that was requested.
    pub schedule: Option<Vec<PartReport>>,
}

/// A loop whose derivative keeps some of its states, and computes the others again.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The loop, in words of the source.
    pub title: String,
    /// The number of its steps.
    pub steps: Amount,
    /// The most steps that the states are kept of at once.
    pub kept: Amount,
    /// The bytes of these states, and of those of all steps.
    pub bytes: [Amount; 2],
    /// How often the steps are computed again.
    pub again: u32,
}

/// The partition of the operations into kernels that moves the fewest bytes.
#[derive(Clone, Debug)]
pub enum Best {
    /// The program has more than [`fusion::MAX_OPERATIONS`] operations, too many to try all
    /// partitions.
    TooLarge,
    /// It was found.
    Partition {
        /// The operations of each kernel, in an order in which they can run.
        kernels: Vec<Vec<KernelId>>,
        /// The bytes that it moves.
        bytes: Amount,
        /// The bytes of the plan, relative to those of this partition, with each size at
        /// [`cost::NOMINAL`]. Below 1 for a plan that repeats work.
        gap: f64,
        /// The time of this partition by the cost model, relative to that of the plan, at the same
        /// sizes.
        time: f64,
        /// The same as `gap`, compared with the best of the partitions that take no longer than the
        /// plan.
        no_slower: f64,
    },
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

/// The peak memory of a call, including arguments and results.
#[derive(Clone, Debug)]
pub struct PeakMemory {
    /// All of it as a formula, in bytes.
    pub formula: String,
    /// Bytes without the private memory of threads, if all sizes are given.
    pub value: Option<u64>,
    /// Bytes of each thread's private memory, if all sizes are given.
    pub per_thread: Option<u64>,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct KernelReport {
    /// The values that it stores, in words of the source.
    pub titles: Vec<String>,
    /// The operations that it computes, ascending.
    pub operations: Vec<KernelId>,
    /// Its cost, over all iterations of the loops over kernels around it.
    pub figures: Figures,
    /// An estimate of the maximum number of live scalars.
    pub live: u64,
    /// Bytes that each thread keeps for itself.
    pub scratch: Amount,
    /// Its loops, a line each.
    pub nest: Vec<String>,
    /// The number of the first earlier kernel with the same loops and figures, which differs only
    /// in names.
    pub like: Option<usize>,
}

impl KernelReport {
    /// All that it stores, in words of the source.
    pub fn title(&self) -> String {
        self.titles.join(", ")
    }
}

/// The cost of kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes that must cross between memory and caches.
    pub bytes: Amount,
    /// Elements that are loaded from arrays.
    pub loads: Amount,
    /// The loads among these that come from memory; the others hit a cache.
    pub memory_loads: Amount,
    /// Elements that are stored to arrays.
    pub stores: Amount,
    /// Elements loaded from a thread's private memory.
    pub scratch_loads: Amount,
    /// Elements stored to a thread's private memory.
    pub scratch_stores: Amount,
    /// Scalar operations; [`work::operations`] defines what counts as one.
    pub operations: Amount,
}

impl Figures {
    /// Operations per byte, if the ratio is the same for all values of the sizes that are not
    /// given.
    pub fn intensity(&self) -> Option<f64> {
        if let (Some(operations), Some(bytes)) = (self.operations.value, self.bytes.value) {
            return (bytes > 0).then(|| operations as f64 / bytes as f64);
        }
        let (operations, bytes) = (self.operations.formula.as_ref()?, self.bytes.formula.as_ref()?);
        let pairs = || operations.terms().iter().zip(bytes.terms());
        let ratios: Option<Vec<f64>> =
            pairs().map(|((p, a), (q, b))| (p == q).then(|| *a as f64 / *b as f64)).collect();
        let ratios = ratios.filter(|_| operations.terms().len() == bytes.terms().len() || operations.is_zero())?;
        let first = ratios.first().copied().unwrap_or(0.0);
        (!bytes.is_zero() && ratios.iter().all(|ratio| *ratio == first)).then_some(first)
    }

    /// Operations per byte, with [`cost::NOMINAL`] for sizes that are not given; `None` if the
    /// counts depend on data.
    pub fn nominal_intensity(&self) -> Option<f64> {
        let (operations, bytes) = (self.operations.nominal()?, self.bytes.nominal()?);
        (bytes > 0.0).then(|| operations / bytes)
    }

    /// The figures of all runs of a kernel, from those of one and the numbers of iterations of the
    /// loops around it.
    fn repeated(&mut self, around: &[&Repeat], known: &Known<'_>) {
        let Figures { bytes, loads, memory_loads, stores, scratch_loads, scratch_stores, operations } = self;
        for amount in [bytes, loads, memory_loads, stores, scratch_loads, scratch_stores, operations] {
            for repeat in around {
                *amount = known.repeated(amount, repeat);
            }
        }
    }

    fn add(&mut self, other: &Figures, known: &Known<'_>) {
        let of = [
            (&mut self.bytes, &other.bytes),
            (&mut self.loads, &other.loads),
            (&mut self.memory_loads, &other.memory_loads),
            (&mut self.stores, &other.stores),
            (&mut self.scratch_loads, &other.scratch_loads),
            (&mut self.scratch_stores, &other.scratch_stores),
            (&mut self.operations, &other.operations),
        ];
        for (sum, more) in of {
            *sum = known.sum(sum, more);
        }
    }
}

/// A number that depends on sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Its formula, with the sizes that are given substituted if the result does not overflow.
    /// `None` if it depends on data or the compiler keeps no formula.
    pub formula: Option<Size>,
    /// Its value, if that depends only on sizes that are given.
    pub value: Option<u64>,
    /// Whether the amount is exact rather than an upper bound, as when data decide whether
    /// something runs.
    pub exact: bool,
    /// The formula in size names only.
    named: Option<Size>,
}

/// Arrays with at most this number of bytes, whatever the sizes, are a few scalars: moving them
/// less gains nothing.
const FEW: i64 = 64;

impl Amount {
    /// The approximate amount, with [`cost::NOMINAL`] for sizes that are not given; `None` if it
    /// depends on data.
    pub fn nominal(&self) -> Option<f64> {
        match (self.value, &self.formula) {
            (Some(value), _) => Some(value as f64),
            (None, formula) => formula.as_ref().map(cost::nominal),
        }
    }

    /// Whether it is the amount of a few scalars, whatever the sizes are.
    pub fn is_few(&self) -> bool {
        self.named.as_ref().and_then(Size::as_constant).is_some_and(|bytes| bytes <= FEW)
    }
}

impl Default for Amount {
    fn default() -> Amount {
        let nothing = Some(Size::default());
        Amount { formula: nothing.clone(), value: Some(0), exact: true, named: nothing }
    }
}

/// The values of sizes that are known.
struct Known<'a> {
    sizes: &'a Sizes,
    given: &'a BTreeMap<SymbolId, i64>,
}

impl Known<'_> {
    /// A size with the known ones substituted, unless the result overflows.
    fn size(&self, size: &Size) -> Size {
        Some(self.sizes.known(size, self.given))
            .filter(|size| !size.is_overflow())
            .unwrap_or_else(|| self.sizes.known(size, &BTreeMap::new()))
    }

    fn value(&self, symbol: SymbolId) -> Option<i64> {
        self.sizes.known(&Size::symbol(symbol), self.given).as_constant()
    }

    fn amount(&self, named: Option<Size>, exact: bool) -> Amount {
        let formula = named.as_ref().map(|size| self.size(size));
        let value = formula.as_ref().and_then(Size::as_constant).and_then(|n| u64::try_from(n).ok());
        Amount { formula, value, exact, named }
    }

    fn sum(&self, a: &Amount, b: &Amount) -> Amount {
        let named = a.named.as_ref().zip(b.named.as_ref()).map(|(a, b)| a + b);
        let value = a.value.zip(b.value).and_then(|(a, b)| a.checked_add(b));
        Amount { value, ..self.amount(named, a.exact && b.exact) }
    }

    /// An amount in all iterations of a loop over kernels. An exit makes it a bound.
    fn repeated(&self, a: &Amount, repeat: &Repeat) -> Amount {
        let exact = a.exact && repeat.conditions().next().is_none();
        let trips = repeat.trips.as_ref();
        let often = trips.and_then(|trips| self.size(trips).as_constant().map(|n| u64::try_from(n).unwrap_or(0)));
        let value = a.value.zip(often).and_then(|(a, often)| a.checked_mul(often));
        Amount { value, ..self.amount(a.named.as_ref().zip(trips).map(|(a, trips)| a * trips), exact) }
    }

    /// A count as a formula, and as a number if all sizes are given.
    fn count(&self, formula: traffic::Count<Size>, number: Option<traffic::Count<u64>>) -> Amount {
        let amount = self.amount(formula.elements, formula.exact);
        match number.and_then(|number| Some((number.elements?, number.exact))) {
            Some((value, exact)) => Amount { value: Some(value), exact, ..amount },
            None => amount,
        }
    }
}

/// The decision on two operations that could share a kernel.
#[derive(Clone, Debug)]
pub struct Decided {
    /// Which two.
    pub pair: Pair,
    /// The name of the array that flows between them, or that both read.
    pub array: String,
    /// The bytes that they move through memory if they are in separate kernels.
    pub bytes: Amount,
    /// The pass that merged them, or the reason why none did.
    pub verdict: Verdict,
}

/// Whether two operations share a kernel.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// They share a kernel because of this pass; of none if each was merged with a third operation.
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
    /// Finds the best partition of the program. `unfused` is the program with one kernel for each
    /// operation.
    pub fn find_best(&mut self, unfused: &Program, options: &Options) {
        let known = Known { sizes: &self.sizes, given: &self.given };
        let found = fusion::best(unfused, options);
        self.best = Some(found.map_or(Best::TooLarge, |fusion::Best { kernels, bytes, gap, time, no_slower }| {
            Best::Partition { kernels, bytes: known.amount(Some(bytes), true), gap, time, no_slower }
        }));
    }

    /// The pairs, with those that move or save the most bytes first.
    pub fn largest_first(&self) -> Vec<&Decided> {
        let mut pairs: Vec<&Decided> = self.pairs.iter().collect();
        let bytes = |decided: &Decided| decided.bytes.nominal().unwrap_or(0.0);
        pairs.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)));
        pairs
    }

    /// The pairs in separate kernels, with those that move the most bytes first.
    pub fn apart(&self) -> impl Iterator<Item = (&Decided, &Why)> {
        self.largest_first().into_iter().filter_map(|decided| match &decided.verdict {
            Verdict::Apart(_, why) => Some((decided, why)),
            Verdict::Fused(_) => None,
        })
    }
}

/// Explains a compiled function. `source` is the text that it was checked from, `given` the known
/// sizes. `arithmetic` evaluates guards and extents, which tell how often something runs.
pub fn explain(
    checked: &Checked,
    compiled: &Compiled,
    passes: Passes,
    source: &str,
    given: &BTreeMap<SymbolId, i64>,
    arithmetic: &Arithmetic,
) -> Report {
    let sizes = Sizes::new(checked);
    let known = Known { sizes: &sizes, given };
    let operations = names::operations(checked, &compiled.unfused, source);
    let mut formulas = Formulas::new(&compiled.unfused);
    let mut stage = |program: &Program, members: &[Vec<KernelId>]| {
        let formulas = &mut formulas;
        let mut stage = Stage { kernels: vec![], total: Figures::default(), peak: peak(program, &known) };
        let mut firsts: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        let around = program.around();
        let functions = work::Functions::of(program);
        for ((id, kernel), members) in program.kernels.iter().zip(members) {
            let form = nests::form(program, kernel, &sizes, arithmetic);
            let lines = nests::lines(program, kernel, &sizes, &formulas.names(program, kernel), arithmetic);
            let mut report = KernelReport {
                titles: titles(program, kernel, &compiled.unfused, &operations, members),
                nest: nests::inside(program, &around[id], &sizes, lines),
                operations: members.clone(),
                ..measured((program, &functions), kernel, &known, arithmetic)
            };
            report.figures.repeated(&around[id], &known);
            let first = *firsts.entry(form).or_insert(stage.kernels.len());
            report.like = stage.kernels.get(first).filter(|other| other.figures == report.figures).map(|_| first);
            stage.total.add(&report.figures, &known);
            stage.kernels.push(report);
        }
        stage
    };
    let alone: Vec<_> = compiled.unfused.kernels.keys().map(|id| vec![id]).collect();
    let mut before = stage(&compiled.unfused, &alone);
    // Arrays share memory without fusion too.
    let mut planned = compiled.unfused.clone();
    plan::plan(&mut planned);
    before.peak = peak(&planned, &known);
    let members: Vec<_> = compiled.program.kernels.keys().map(|id| compiled.members[id].clone()).collect();
    let after = stage(&compiled.program, &members);
    let words = Words::new(&operations, &sizes, compiled);
    let decided = |decision: &Decision| {
        let (Pair::Flow { buffer, .. } | Pair::Shared { buffer, .. }) = decision.pair;
        Decided {
            pair: decision.pair,
            array: compiled.unfused.buffers[buffer].name.clone(),
            bytes: known.amount(Some(decision.bytes.clone()), true),
            verdict: match &decision.outcome {
                Outcome::Fused(pass) => Verdict::Fused(Some(*pass)),
                Outcome::Refused(_) if words.share_a_kernel(decision.pair) => Verdict::Fused(None),
                Outcome::Refused(reason) => {
                    let reason = words.reason(decision.pair, reason);
                    let why = words.refusal(decision.pair, &reason);
                    Verdict::Apart(reason, why)
                }
            },
        }
    };
    let pairs = compiled.decisions.iter().map(decided).collect();
    let best = None;
    let partition = Partition::new(checked, source).summary(checked);
    let kept = checked.blocks.iter().map(|blocks| {
        let of = |steps: &Size| known.amount(blocks.bytes.as_ref().map(|bytes| bytes * steps), true);
        Kept {
            title: names::quoted(source, blocks.origin),
            steps: known.amount(Some(blocks.steps.clone()), true),
            kept: known.amount(Some(blocks.kept()), true),
            bytes: [of(&blocks.kept()), of(&blocks.steps)],
            again: blocks.depth,
        }
    });
    let kept = kept.collect();
    Report {
        function: checked.name.clone(),
        given: given.clone(),
        passes,
        before,
        after,
        pairs,
        operations,
        sizes,
        partition,
        kept,
        best,
        schedule: None,
    }
}

/// The titles of a kernel: the operations with results that it leaves in memory.
fn titles(
    program: &Program,
    kernel: &Kernel,
    unfused: &Program,
    operations: &PrimaryMap<KernelId, Operation>,
    members: &[KernelId],
) -> Vec<String> {
    let stored = visit::stores(&kernel.body);
    let kept = stored.iter().filter(|b| program.buffers[**b].role != Role::Scratch).map(|b| &program.buffers[*b].name);
    let mut titles: Vec<String> = vec![];
    for name in kept {
        let operation = members.iter().find(|m| unfused.kernels[**m].name == *name);
        if let Some(operation) = operation.and_then(|o| operations.get(*o))
            && !titles.contains(&operation.title)
        {
            titles.push(operation.title.clone());
        }
    }
    if titles.is_empty() {
        titles.push(format!("`{}`", kernel.name));
    }
    titles
}

/// A kernel's figures.
fn measured(
    (program, functions): (&Program, &work::Functions),
    kernel: &Kernel,
    known: &Known<'_>,
    arithmetic: &Arithmetic,
) -> KernelReport {
    let mut scratch = Size::default();
    let stored: BTreeSet<BufferId> = visit::stores(&kernel.body).into_iter().collect();
    let kept = &stored - &kernel.tables_read_once(program);
    for buffer in kept.into_iter().map(|b| &program.buffers[b]).filter(|b| b.role == Role::Scratch) {
        scratch = &scratch + &buffer.shape.iter().fold(width(buffer), |product, length| &product * length);
    }
    KernelReport {
        titles: vec![],
        operations: vec![],
        figures: figures(program, kernel, known, arithmetic),
        live: work::kernel(functions, kernel, &|size| cost::nominal(&known.size(size))).live,
        scratch: known.amount(Some(scratch), true),
        nest: vec![],
        like: None,
    }
}

/// The size of an element in bytes.
fn width(buffer: &Buffer) -> Size {
    Size::constant(i64::try_from(buffer.dtype.bytes()).unwrap_or(i64::MAX))
}

/// The peak memory of a call of a program.
fn peak(program: &Program, known: &Known<'_>) -> PeakMemory {
    let peak = Peak::of(program);
    let all = program.symbols.keys().all(|s| known.value(s).is_some());
    let bytes = |threads| {
        let bytes = peak.at(&|size| known.size(size).as_constant().unwrap_or(i64::MAX), threads);
        u64::try_from(bytes).ok().filter(|_| all)
    };
    let (value, with_one) = (bytes(0), bytes(1));
    PeakMemory {
        formula: peak.formula(&|size| known.sizes.text(&known.size(size))),
        value: value.filter(|_| with_one.is_some()),
        per_thread: with_one.zip(value).map(|(one, none)| one - none),
    }
}

/// The number of elements that a kernel loads and stores, of those that reach memory, and of
/// operations that it executes: as formulas, and as numbers if all sizes are given.
fn figures(program: &Program, kernel: &Kernel, known: &Known<'_>, arithmetic: &Arithmetic) -> Figures {
    let numbers = program.symbols.keys().all(|s| known.value(s).is_some());
    let numbers =
        numbers.then(|| traffic::predict_kernel(program, kernel, &|s| known.value(s).unwrap_or(0), arithmetic));
    let counts = traffic::polynomials(program, kernel);
    let operations = numbers.as_ref().map(|numbers| numbers.operations);
    let mut figures = Figures { operations: known.count(counts.operations, operations), ..Figures::default() };
    let moved = footprint::symbolic(program, kernel);
    for (buffer, symbolic) in counts.traffic {
        let number = numbers.as_ref().and_then(|numbers| numbers.traffic.get(&buffer));
        let loads = known.count(symbolic.loads, number.map(|n| n.loads));
        let stores = known.count(symbolic.stores, number.map(|n| n.stores));
        let described = &program.buffers[buffer];
        let (to_loads, to_stores) = match described.role {
            Role::Scratch => (&mut figures.scratch_loads, &mut figures.scratch_stores),
            Role::Input(_) | Role::Output(_) | Role::Temp | Role::Constant(_) => {
                (&mut figures.loads, &mut figures.stores)
            }
        };
        *to_loads = known.sum(to_loads, &loads);
        *to_stores = known.sum(to_stores, &stores);
        if let Some(moved) = moved.iter().find(|m| m.buffer == buffer) {
            let bytes = known.amount(Some(moved.bytes.clone()), true);
            figures.bytes = known.sum(&figures.bytes, &bytes);
            let from = from_memory(&moved.bytes, described, loads, &stores, known);
            figures.memory_loads = known.sum(&figures.memory_loads, &from);
        }
    }
    figures
}

/// The loads of a buffer that come from memory: the elements that cross to or from memory, less
/// those that are stored, and at most all loads.
fn from_memory(moved: &Size, buffer: &Buffer, loads: Amount, stores: &Amount, known: &Known<'_>) -> Amount {
    let crossing = moved.floor_div(&width(buffer));
    let read = match &stores.named {
        Some(stores) => &crossing - stores,
        None => Size::default(),
    };
    let there = cost::given(|symbol| known.value(symbol).unwrap_or(cost::NOMINAL as i64));
    if there(&read) <= 0.0 {
        return Amount::default();
    }
    match &loads.named {
        Some(all) if there(all) <= there(&read) => loads,
        _ => known.amount(Some(read), true),
    }
}
