//! Targets as the passes see them: a table of the abilities of each, which is all that a pass may
//! ask about a target.

use crate::build::Values;
use crate::groups::{Dims, Groups};
use crate::nest::Contraction;
use crate::{Dtype, Size};

/// A target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name in text.
    pub name: &'static str,
    /// The contractions that stay whole. Others become loops.
    pub contractions: Contractions,
    /// The iterations of the shortest tile, if loops around contractions run in tiles.
    pub rows: Option<i64>,
    /// Which loops over rows of products run in sweeps, if any do.
    pub sweeps: Option<SweepSizes>,
    /// How long scans run.
    pub scans: Scans,
    /// How sums of columns run.
    pub columns: Columns,
    /// Whether reductions by blocks run in chunks, as those by lanes do.
    pub chunks_blocks: bool,
    /// How the chunks of reductions by key run.
    pub keyed: Keyed,
    /// How rows are sorted by radix.
    pub radix: Radix,
    /// Whether bounds checks of gathered indices are hoisted out of loops.
    pub hoists_checks: bool,
    /// Whether loops with branches at their borders are split.
    pub splits_borders: bool,
    /// How many iterations run together if each is a chain of dependent steps.
    pub jams: i64,
    /// The maximum number of operations of a kernel, with functions inlined, if there is a limit.
    pub operations: Option<usize>,
    /// The units that strategies lay loops out on, if it is a GPU.
    pub gpu: Option<Gpu>,
}

/// The sizes of loops that run in sweeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepSizes {
    /// The least number of rows.
    pub fewest: i64,
    /// The most indices that the product sums over, and the most results of a row.
    pub widest: i64,
    /// The same without a second product, and with more indices to sum over: the least number of
    /// all rows, if there are more columns than in a tile.
    pub many: i64,
    /// The columns of a tile.
    pub tile: i64,
    /// The most indices that two sweeps sum over there, one of them again.
    pub again: i64,
}

impl SweepSizes {
    /// The most indices that a number of sweeps sum over without a second product, if there is a
    /// limit.
    pub fn again(&self, sweeps: usize) -> Option<i64> {
        let more = i64::try_from(sweeps).unwrap_or(i64::MAX) - 1;
        (more > 0).then(|| self.again / more)
    }
}

/// How rows are sorted by radix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Radix {
    /// Rows of this length are sorted in chunks, shorter ones in a single iteration.
    pub row: i64,
    /// The same length for fewer rows than this number, in which there is less to do at once.
    pub few: Option<(i64, i64)>,
    /// The least elements of a chunk.
    pub chunk: i64,
    /// The most chunks of a row, if there is a limit.
    pub chunks: Option<i64>,
}

impl Radix {
    /// The elements of a chunk of a row.
    pub fn chunk(self, row: &Size) -> Size {
        let least = Size::constant(self.chunk);
        let Some(most) = self.chunks else { return least };
        let times = row.floor_div(&Size::constant(self.chunk.saturating_mul(most)));
        &least * &(&times + &Size::constant(1))
    }
}

/// The units of a GPU that strategies lay loops out on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The threads of a warp, and the most of a block.
    pub warp: i64,
    /// See `warp`.
    pub most_threads: i64,
    /// The blocks of a cluster.
    pub cluster: i64,
    /// The threads of a block of threads that work independently.
    pub threads: i64,
    /// The most iterations of inner loops that one thread runs.
    pub sequential: i64,
    /// The widest access in bytes, and the most elements that it has.
    pub access: (i64, i64),
    /// The static shared memory of a block in bytes, and the part of it for reductions.
    pub shared: i64,
    /// See `shared`.
    pub reductions: usize,
    /// The side lengths of tiles in shared memory.
    pub tiles: &'static [i64],
    /// The width of a bank of shared memory in bytes.
    pub bank: i64,
    /// The rows of a stencil for a thread.
    pub rows: i64,
    /// With this many operations for each byte, a body is bound by computation.
    pub heavy: usize,
    /// The elements of a thread that it loads at a time.
    pub at_once: i64,
    /// Up to this many elements of a thread leave registers for all blocks that a multiprocessor
    /// can hold, and the number of blocks then and otherwise.
    pub registers: (i64, u32, u32),
}

/// The contractions that a target multiplies by a library or by tiles of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contractions {
    /// The element types.
    pub dtypes: &'static [Dtype],
    /// Whether they may stand in loops and branches.
    pub nested: bool,
    /// The minimum number of rows and of columns, if there is one.
    pub narrowest: Option<i64>,
}

/// How long scans run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scans {
    /// In one piece.
    Whole,
    /// In chunks, with threads that pass the prefixes on.
    HandOff,
    /// In chunks, with a block that relays to each what is before it.
    Relay,
}

/// How sums of columns run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// In blocks of rows, together with loops over the same rows.
    Tiles,
    /// In strips of columns; long ones first in blocks of rows.
    Strips,
}

/// How the chunks of reductions by key run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyed {
    /// This many in turn, if their tables are small.
    Groups(i64),
    /// One by one; if their tables are large, by ranges of keys.
    Bins,
}

const ALL_BUT_BOOL: &[Dtype] = &[
    Dtype::I8,
    Dtype::U8,
    Dtype::I16,
    Dtype::U16,
    Dtype::I32,
    Dtype::I64,
    Dtype::U32,
    Dtype::U64,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::F32,
    Dtype::F64,
];

impl Machine {
    /// The threads of this process, by the JIT compiler.
    pub const CPU: Machine = Machine {
        name: "cpu",
        contractions: Contractions { dtypes: &[Dtype::F32, Dtype::F64], nested: true, narrowest: None },
        rows: Some(28),
        sweeps: None,
        scans: Scans::HandOff,
        columns: Columns::Tiles,
        chunks_blocks: true,
        keyed: Keyed::Groups(4),
        radix: Radix { row: 1 << 14, few: None, chunk: 1 << 14, chunks: None },
        hoists_checks: true,
        splits_borders: true,
        jams: 4,
        operations: Some(20_000),
        gpu: None,
    };

    /// One thread of a process that links an object file. (A product packs its factors, which does
    /// not pay off for a vector; and one thread has no other to pass a prefix to.)
    pub const OBJECT: Machine = Machine {
        name: "object",
        contractions: Contractions { dtypes: &[Dtype::F32, Dtype::F64], nested: true, narrowest: Some(0) },
        scans: Scans::Whole,
        ..Machine::CPU
    };

    /// A CUDA device.
    pub const PTX: Machine = Machine {
        name: "ptx",
        contractions: Contractions { dtypes: ALL_BUT_BOOL, nested: false, narrowest: Some(9) },
        rows: None,
        sweeps: Some(SweepSizes { fewest: 64, widest: 128, many: 80 * 128, tile: 256, again: 128 }),
        scans: Scans::Relay,
        columns: Columns::Strips,
        chunks_blocks: false,
        keyed: Keyed::Bins,
        radix: Radix { row: 1 << 14, few: Some((1 << 11, 1 << 7)), chunk: 1 << 8, chunks: Some(1 << 13) },
        hoists_checks: false,
        splits_borders: false,
        jams: 1,
        operations: None,
        gpu: Some(Gpu {
            warp: 32,
            most_threads: 1024,
            cluster: 8,
            threads: 256,
            sequential: 64,
            access: (16, 8),
            shared: 48 << 10,
            reductions: 40 << 10,
            tiles: &[64, 32],
            bank: 4,
            rows: 8,
            heavy: 3,
            at_once: 8,
            registers: (24, 8, 4),
        }),
    };

    /// All of them.
    pub const ALL: [Machine; 3] = [Machine::CPU, Machine::OBJECT, Machine::PTX];

    /// The one of a name.
    pub fn from_name(name: &str) -> Option<Machine> {
        Machine::ALL.into_iter().find(|machine| machine.name == name)
    }
}

impl Contractions {
    /// Whether a contraction stays whole: the target supports its type and its shape, and sums over
    /// as many elements as sizes say.
    pub fn keep(&self, values: &Values, c: &Contraction) -> bool {
        let sized = |dims: &Dims| dims.iter().all(|(_, extent)| extent.as_size().is_some());
        let wide = |dims: &Dims, narrowest: i64| {
            let known: Option<i64> = dims.iter().map(|(_, e)| e.as_size().and_then(Size::as_constant)).product();
            !dims.is_empty() && known.is_none_or(|n| n >= narrowest)
        };
        let matrix = self.narrowest.is_none_or(|narrowest| {
            let groups = Groups::new(c);
            wide(&groups.rows, narrowest) && wide(&groups.columns, narrowest)
        });
        (self.nested || sized(&c.free)) && sized(&c.reduce) && matrix && self.dtypes.contains(&values[c.result])
    }
}
