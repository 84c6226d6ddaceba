//! The cost model: how much a kernel moves and computes, and how long that takes on a nominal
//! machine.
//!
//! The time of a kernel is its launch plus the longer of two: moving the data that must cross from
//! memory, or computing with data from the caches. A core overlaps both, but not perfectly: an
//! eighth of the shorter is added. The constants are those of one machine, rounded. They decide
//! which kernels are merged, so that decisions are the same everywhere, but never affect results.
//!
//! Rates are those of one core while all of them are busy. A kernel with fewer iterations than
//! there are cores takes longer: see `analysis/idle`.
//!
//! A kernel is priced at *nominal sizes*, with each size name at [`NOMINAL`], so that no decision
//! depends on the sizes of a call. Reports price at the sizes of a call with [`given`].

use std::collections::BTreeSet;

use ir::nest::{BufferId, Kernel, Program, Repeat, Role, Subscript};
use ir::order::keyed_chunk;
use ir::size::Atom;
use ir::{Size, SymbolId};

use super::accesses::{Access, Accesses, ScopeId, ScopeKind};
use super::footprint::{self, Moved};
use super::idle;
use super::work::{self, Functions, Trips, Work};
use crate::plan::contract;

/// The value of a size name that has none.
pub const NOMINAL: f64 = 1024.0;

/// The fraction of the shorter of moving and computing that does not overlap with the longer.
const APART: f64 = 0.125;

/// A machine, as far as prices go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Bytes that a core moves to or from memory in a nanosecond, streaming.
    pub memory_rate: f64,
    /// Bytes that a core moves to or from its L2 cache in a nanosecond.
    pub cache_rate: f64,
    /// Bytes that stay in a core's second-level cache.
    pub cache: f64,
    /// Bytes that memory moves at once.
    pub line: i64,
    /// The slowdown of memory for an array that is not accessed contiguously: strips of columns.
    pub across: f64,
    /// The same, if the kernel keeps arrays of its own for a column. Strips are then narrow, so
    /// that these stay in a cache, and only a few lines of each page are read at a time.
    pub narrow: f64,
    /// Operations of weight 1 that a core executes in a nanosecond, using vectors.
    pub operation_rate: f64,
    /// How many scalars' vectors stay in registers.
    pub registers: u64,
    /// Nanoseconds to start a kernel on all threads and to wait for its end.
    pub launch: f64,
    /// Nanoseconds between a loop and the next of the same kernel.
    pub barrier: f64,
}

impl Machine {
    /// A core of a server of 2023 (AVX-512 Xeon, 2.7 GHz) using 128-bit vectors. It streams 12 to
    /// 14 GB/s of copies while all cores do, and 88 GB/s in its L2 cache of 2 MB, where the model
    /// counts on half. It executes two vector operations of 4 lanes per cycle. A spin barrier takes
    /// 0.4 us, and waking threads up to 37 us, which is rare. Narrow strips take 2 times as long as
    /// streaming on a GPU, 4 on a few cores and 6 on many.
    pub const NOMINAL: Machine = Machine {
        memory_rate: 12.0,
        cache_rate: 80.0,
        cache: 1_048_576.0,
        line: 64,
        across: 1.25,
        narrow: 2.0,
        operation_rate: 20.0,
        registers: 16,
        launch: 3000.0,
        barrier: 400.0,
    };

    /// A GPU of 2024 (H200) as a whole: 4.3 TB/s of copies, 60 MB of L2 cache at about twice that,
    /// 63 TFLOP/s in fused multiply-adds counted as two. A launch from a program's thread takes 3
    /// us, and a barrier that blocks pass together about one.
    pub const GPU: Machine = Machine {
        memory_rate: 4000.0,
        cache_rate: 8000.0,
        cache: 30_000_000.0,
        line: 32,
        across: 1.0,
        narrow: 2.0,
        operation_rate: 25_000.0,
        registers: 64,
        launch: 3000.0,
        barrier: 1000.0,
    };

    /// The number of operations that take as long as moving a byte to or from memory.
    pub fn operations_per_byte(&self) -> f64 {
        self.operation_rate / self.memory_rate
    }

    /// The nanoseconds for executing some operations while `touched` bytes move between caches and
    /// registers and `moved` of them to or from memory.
    pub fn time(&self, operations: f64, touched: f64, moved: f64) -> f64 {
        let busy = operations / self.operation_rate + touched / self.cache_rate;
        let moving = moved / self.memory_rate;
        busy.max(moving) + APART * busy.min(moving)
    }

    /// Whether recomputing a value costs more than storing it and reading it back.
    pub fn is_expensive(&self, operations: f64, bytes: f64) -> bool {
        operations > 2.0 * bytes * self.operations_per_byte()
    }
}

/// The cost of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Bytes that cross between memory and caches; see [`super::footprint`].
    pub memory: f64,
    /// Bytes that only move between caches and registers: data that is touched again, and scratch.
    pub cache: f64,
    /// Operations, by weight; see [`Work::operations`].
    pub operations: f64,
    /// The most scalars alive at once; see [`Work::live`].
    pub live: u64,
    /// Code size; see [`Work::statements`].
    pub statements: u64,
    /// Length of the text; see [`Work::lines`].
    pub lines: u64,
    /// How long it takes, in nanoseconds.
    pub time: f64,
    /// The part of the time that cores are idle, see `analysis/idle`.
    pub idle: f64,
}

impl Price {
    /// All of it, for comparison bit by bit.
    pub fn bits(&self) -> [u64; 8] {
        let Price { memory, cache, operations, live, statements, lines, time, idle } = *self;
        let [memory, cache, operations, time, idle] = [memory, cache, operations, time, idle].map(f64::to_bits);
        [memory, cache, operations, live, statements, lines, time, idle]
    }
}

/// A size at nominal extents, where each size name has the value [`NOMINAL`].
pub fn nominal(size: &Size) -> f64 {
    evaluate(size, &|_| NOMINAL)
}

/// Sizes by the values of their names, for [`price`].
pub fn given(symbols: impl Fn(SymbolId) -> i64) -> impl Fn(&Size) -> f64 {
    move |size| evaluate(size, &|symbol| symbols(symbol) as f64)
}

fn evaluate(size: &Size, symbols: &impl Fn(SymbolId) -> f64) -> f64 {
    let atom = |atom: &Atom| match atom {
        Atom::Symbol(symbol) => symbols(*symbol),
        Atom::FloorDiv(a, b) => (evaluate(a, symbols) / evaluate(b, symbols).max(1.0)).floor(),
        Atom::KeyedChunk(keys) => keyed_chunk(evaluate(keys, symbols) as i64) as f64,
        Atom::Overflow(_) => f64::INFINITY,
    };
    size.terms()
        .iter()
        .map(|(product, coefficient)| *coefficient as f64 * product.iter().map(atom).product::<f64>())
        .sum()
}

/// How often each kernel of a program runs, in their order: as often as the loops over kernels
/// around it say. Prices are those of one run.
pub fn runs(program: &Program, sizes: &impl Fn(&Size) -> f64) -> Vec<f64> {
    let around = program.around();
    let product = |id| around[id].iter().map(|repeat| iterations(repeat, sizes)).product();
    program.kernels.keys().map(product).collect()
}

/// How often a loop over kernels runs. If it has an exit, at most as often as a size nominally is.
pub fn iterations(repeat: &Repeat, sizes: &impl Fn(&Size) -> f64) -> f64 {
    let most = if repeat.conditions().next().is_some() { NOMINAL } else { f64::INFINITY };
    repeat.trips.as_ref().map_or(most, |trips| sizes(trips).max(0.0).min(most))
}

/// The price of a kernel on the nominal machine, at nominal sizes; fusion decides by it. A
/// temporary that no other kernel mentions, according to `is_own`, is priced as [`contract`] will
/// leave it. A kernel without statements costs nothing.
pub fn nominally(
    program: &Program,
    functions: &Functions,
    kernel: &Kernel,
    is_own: impl Fn(BufferId) -> bool,
) -> Price {
    let machine = &Machine::NOMINAL;
    let kept = kept(program, kernel, machine, is_own);
    let of = |kernel: &Kernel| weigh((program, functions), kernel, &nominal, machine, &kept);
    let price = of(kernel);
    let idle = idle::idle(kernel, price.time - machine.launch, machine.launch, |part| of(part).time - machine.launch);
    Price { time: price.time + idle, idle, ..price }
}

/// The price of a kernel. Lengths come from `sizes`, mostly [`nominal`] or [`given`].
pub fn price(program: &Program, kernel: &Kernel, sizes: &impl Fn(&Size) -> f64, machine: &Machine) -> Price {
    weigh((program, &Functions::of(program)), kernel, sizes, machine, &BTreeSet::new())
}

/// The temporaries that will stay in a cache because an iteration of the kernel's outermost loop
/// needs little of them: all that become scratch, if together they fit.
fn kept(
    program: &Program,
    kernel: &Kernel,
    machine: &Machine,
    is_own: impl Fn(BufferId) -> bool,
) -> BTreeSet<BufferId> {
    let lost = contract::lost_axes(program, kernel, is_own);
    let left = |(buffer, lost): &(BufferId, Vec<bool>)| {
        let buffer = &program.buffers[*buffer];
        let axes = buffer.shape.iter().zip(lost).filter(|(_, lost)| !**lost);
        axes.map(|(length, _)| nominal(length).max(0.0)).product::<f64>() * buffer.dtype.bytes() as f64
    };
    // A whole one is never stored.
    let (part, whole): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(_, lost)| lost.contains(&true));
    let fits = part.iter().map(left).sum::<f64>() <= machine.cache;
    part.into_iter().filter(|_| fits).chain(whole).map(|(buffer, _)| buffer).collect()
}

fn weigh(
    (program, functions): (&Program, &Functions),
    kernel: &Kernel,
    sizes: &impl Fn(&Size) -> f64,
    machine: &Machine,
    kept: &BTreeSet<BufferId>,
) -> Price {
    if kernel.body.is_empty() {
        return Price::default();
    }
    let accesses = Accesses::of(kernel);
    let mut moved: Vec<Moved<f64>> = footprint::moved(program, &accesses, sizes, machine);
    moved.retain(|m| !kept.contains(&m.buffer));
    // A length such as `n / k - 2` may be negative at nominal sizes.
    moved.iter_mut().for_each(|m| m.bytes = m.bytes.max(0.0));
    let memory = moved.iter().map(|m| m.bytes).sum::<f64>();
    let across = across(&accesses);
    let slow = moved.iter().filter(|m| across.contains(&m.buffer)).map(|m| m.bytes).sum::<f64>();
    let tables = kernel.tables_read_once(program);
    let keeps = |access: &Access<'_>| {
        let is_kept = program.buffers[access.buffer].role == Role::Scratch || kept.contains(&access.buffer);
        is_kept && !access.at.is_empty() && !tables.contains(&access.buffer)
    };
    let slower = if accesses.list.iter().any(keeps) { machine.narrow } else { machine.across };
    let Work { operations, live, statements, lines, .. } = work::kernel(functions, kernel, sizes);
    let (touched, again) = touched(program, &accesses, sizes, kept);
    let cache = again + (touched - memory).max(0.0);
    let loops = accesses.inside(ScopeId::from_u32(0)).filter(|(_, scope)| !scope.dims.is_empty()).count();
    let barriers = machine.barrier * loops.saturating_sub(1) as f64;
    // Data from memory passes through the caches too.
    let moved = memory + slow * (slower - 1.0);
    let time = machine.launch + barriers + machine.time(operations, touched + again, moved);
    Price { memory, cache, operations, live, statements, lines, time, idle: 0.0 }
}

/// The buffers that loops run across: in some access to them, the fastest-moving index is not along
/// the last axis.
fn across(accesses: &Accesses<'_>) -> BTreeSet<BufferId> {
    let fastest = |subscript: &Subscript| match subscript {
        Subscript::Affine(a) => a.terms().iter().filter_map(|(i, _)| Some(accesses.indices[*i]?.place)).max(),
        Subscript::Value(_) => None,
    };
    let runs_across = |access: &&Access<'_>| {
        let along = access.at.last().and_then(fastest);
        let factor = accesses.scopes[access.scope].kind == ScopeKind::Sum;
        !factor && along.is_some() && access.at.iter().filter_map(fastest).max() != along
    };
    accesses.list.iter().filter(runs_across).map(|access| access.buffer).collect()
}

/// The bytes that loads and stores touch, counted each time: of buffers in memory, of scratch, of
/// `kept` temporaries like it, and of constants. The factors of contractions are not counted: tuned
/// products read them from registers, and their time is determined by their operations.
fn touched(
    program: &Program,
    accesses: &Accesses<'_>,
    sizes: &impl Fn(&Size) -> f64,
    kept: &BTreeSet<BufferId>,
) -> (f64, f64) {
    let mut trips: Vec<f64> = vec![];
    let mut lengths = Trips::new(sizes);
    for scope in accesses.scopes.values() {
        let around = scope.parent.map_or(1.0, |parent| trips[parent.as_u32() as usize]);
        let own = lengths.of(scope.dims);
        trips.push(if scope.kind == ScopeKind::Sum { 0.0 } else { around * own });
    }
    let (mut memory, mut inside) = (0.0, 0.0);
    for access in &accesses.list {
        let buffer = &program.buffers[access.buffer];
        let bytes = trips[access.scope.as_u32() as usize] * buffer.dtype.bytes() as f64;
        match buffer.role {
            Role::Scratch | Role::Constant(_) => inside += bytes,
            Role::Temp if kept.contains(&access.buffer) => inside += bytes,
            Role::Input(_) | Role::Output(_) | Role::Temp => memory += bytes,
        }
    }
    (memory, inside)
}
