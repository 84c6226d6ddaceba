//! Runs a loop over kernels in time tiles, which [`ir::sched::time_tiles`] finds: some iterations
//! on some rows, while these are in the cache, then the next rows. Threads work on bands of rows
//! ("split tiling": Henretty et al., "A stencil compiler for short-vector SIMD architectures",
//! 2013):
//!
//! ```text
//! for each group of iterations {
//!     parallel for each band { stage s covers its rows, less s * reach at each border }
//!     parallel for each border between bands { stage s covers s * reach rows on either side }
//! }
//! ```
//!
//! Nothing is computed twice and nothing copied: the kernels are those of whole iterations, called
//! for ranges of rows. Within a band or around a border, stage `s` is always `s * reach` rows
//! behind the first one. So whatever a stage loads, the stages before it have stored, and whatever
//! it overwrites, they have loaded.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use cranelift_codegen::entity::EntityRef;
use ir::Size;
use ir::nest::{BufferId, Carried, Node, Repeat};
use ir::sched::time_tiles::{Rows, Strip, TimeTiles};

use super::distribute::{Address, Task};
use super::pool::{self, Thread};
use super::steps::Steps;
use crate::error::RunError;

/// The part of a cache that the rows of a tile may fill, in bytes: half of a second-level cache.
const CACHE: i64 = 512 << 10;
/// The bytes of rows that a stage covers at a time: enough for the call of a kernel not to matter.
const WINDOW: i64 = 64 << 10;
/// The most iterations in a tile. More save little, because the arrays are then read from memory
/// once in as many iterations.
const MOST_TRIPS: i64 = 32;
/// The least, because smaller tiles would save less than they cost.
const LEAST_TRIPS: i64 = 4;
/// Bands a thread, so that a slow thread does not hold up the others.
const BANDS: i64 = 4;

/// A stage of a tile: a part of an iteration on rows that are not yet known.
struct Stage {
    kernel: usize,
    rows: At,
}

/// [`Rows`] at the sizes of a call.
enum At {
    Each { first: i64, count: i64, row: i64 },
    Once { first: i64 },
}

/// The shape of tiles.
struct Shape {
    /// The number of rows of the longest array, at least 1.
    rows: i64,
    /// Iterations in a tile.
    trips: i64,
    /// The rows that a stage covers at a time.
    window: i64,
    /// The bands, and what they leave out at their borders.
    regions: [Vec<Region>; 2],
    threads: usize,
}

/// What the threads of a tile share.
struct Tile<'t> {
    steps: &'t Steps<'t, 't>,
    stages: &'t [Vec<Stage>],
    shape: &'t Shape,
    reach: i64,
    /// The addresses of buffers in the first iteration, in odd ones, and in other even ones.
    tables: &'t [Vec<Address>; 3],
}

/// A region of a tile: rows from `low` to `high` in its first stage. Each further stage begins
/// `down` times the reach lower, and ends `up` times the reach higher.
#[derive(Clone, Copy)]
struct Region {
    low: i64,
    high: i64,
    down: i64,
    up: i64,
}

impl Steps<'_, '_> {
    /// Runs a loop in time tiles, where they are possible and save time. Returns whether it did.
    pub(super) fn in_time_tiles(&mut self, repeat: &Repeat) -> Result<bool, RunError> {
        let Some(Node::Kernel(first)) = repeat.body.first() else { return Ok(false) };
        let all: &[TimeTiles] = self.time_tiles;
        let Some(tiles) = all.iter().find(|tiles| tiles.stages[0][0].part == *first) else { return Ok(false) };
        let trips = repeat.trips.as_ref().map_or(0, |trips| self.binding.number(trips));
        let parts = || tiles.stages.iter().flatten().map(|strip| strip.part.index());
        // In strips of columns, a piece has to be a whole number of strips.
        let in_strips = parts().any(|n| self.kernels[n].columns.strips);
        if in_strips || trips < 1 || !self.are_apart(tiles, repeat) {
            return Ok(false);
        }
        let estimate = parts().map(|n| self.extents[n].estimate).fold(0, u64::saturating_add);
        let Some(shape) = self.shape(tiles, trips, estimate) else { return Ok(false) };
        let stages: Vec<Vec<Stage>> = tiles
            .stages
            .iter()
            .map(|stage| stage.iter().map(|strip| self.at_sizes(strip, shape.rows)).collect())
            .collect();
        let tables = [0, 1, 2].map(|trip| self.addresses_in(repeat, trip));
        let start = self.watch.times.is_some().then(Instant::now);
        let tile = Tile { steps: self, stages: &stages, shape: &shape, reach: tiles.reach, tables: &tables };
        for begin in (0..trips).step_by(usize::try_from(shape.trips).unwrap_or(1)) {
            tile.run(&(begin..trips.min(begin.saturating_add(shape.trips))), estimate)?;
        }
        self.exchange(repeat, trips);
        if let (Some(times), Some(start)) = (self.watch.times.as_deref_mut(), start) {
            let elapsed = start.elapsed();
            for strip in tiles.stages.iter().flatten() {
                let n = strip.part.index();
                let share = self.extents[n].estimate as f64 / estimate.max(1) as f64;
                if let Some(time) = times.get_mut(self.kernels[n].part_of.index()) {
                    *time += elapsed.mul_f64(share.clamp(0.0, 1.0));
                }
            }
        }
        Ok(true)
    }

    /// Whether no two arrays that the loop changes share memory, where stages would overwrite rows
    /// of each other that are far apart.
    fn are_apart(&self, tiles: &TimeTiles, repeat: &Repeat) -> bool {
        let own = |id: BufferId| self.initial_addresses[id.index()];
        let mut memory: Vec<*mut u8> = tiles.arrays.iter().map(|id| own(*id).0).collect();
        let apart = |Carried { initial, current, .. }: &Carried| {
            let from = self.addresses[initial.index()];
            from == own(*current) || !memory.contains(&from.0)
        };
        let initials = repeat.carried.iter().all(apart);
        memory.sort_unstable();
        initials && memory.windows(2).all(|two| two[0] != two[1])
    }

    /// The addresses of all buffers in an iteration of a loop.
    fn addresses_in(&self, repeat: &Repeat, trip: i64) -> Vec<Address> {
        let mut table = self.addresses.to_vec();
        for carried in &repeat.carried {
            let [current, next] = self.carried_in(carried, trip);
            table[carried.current.index()] = current;
            table[carried.next.index()] = next;
        }
        table
    }

    fn product(&self, sizes: &[Size]) -> i64 {
        sizes.iter().fold(1, |product: i64, size| product.saturating_mul(self.binding.number(size).max(0)))
    }

    fn at_sizes(&self, Strip { part, rows }: &Strip, most: i64) -> Stage {
        let number = |size: &Size| self.binding.number(size);
        let rows = match rows {
            Rows::Each { first, count, row } => {
                At::Each { first: number(first), count: number(count).max(0), row: self.product(row) }
            }
            Rows::Once { first, .. } => At::Once { first: number(first).clamp(0, most - 1) },
        };
        Stage { kernel: part.index(), rows }
    }

    /// The shape of the tiles of a loop with an estimated time of an iteration, or none if tiles
    /// would not save time.
    fn shape(&self, tiles: &TimeTiles, trips: i64, estimate: u64) -> Option<Shape> {
        let buffers = &self.program.buffers;
        let heights = tiles.arrays.iter().filter_map(|id| buffers[*id].shape.first());
        let rows = heights.map(|height| self.binding.number(height)).max()?.max(1);
        let bytes = tiles.arrays.iter().map(|id| {
            let row = self.product(buffers[*id].shape.get(1..).unwrap_or_default());
            row.saturating_mul(buffers[*id].dtype.bytes() as i64)
        });
        let row = bytes.fold(0, i64::saturating_add).max(1);
        // The lag of an iteration in rows.
        let lag = tiles.reach * tiles.stages.len() as i64;
        let worth = estimate.checked_div(self.options.least_share).and_then(|n| usize::try_from(n).ok());
        let threads = self.threads.min(self.options.threads).min(worth.unwrap_or(usize::MAX)).min(pool::MOST_THREADS);
        let many = i64::try_from(threads).unwrap_or(1);
        // For tests, which have any work shared, however small: any loop, in the smallest of tiles.
        let always = self.options.least_share == 0;
        let (trips, window, bands) = if always {
            (trips.min(3), 1, many * 2)
        } else {
            let window = (WINDOW / row).clamp(1, rows);
            let room = (CACHE / row - window).max(0);
            let fit = room.checked_div(lag).unwrap_or(MOST_TRIPS).min(MOST_TRIPS).min(trips);
            let far = row.saturating_mul(rows) > 4 * CACHE * many;
            if !far || fit < LEAST_TRIPS {
                return None;
            }
            (fit, window, if threads > 1 { many * BANDS } else { 1 })
        };
        // The rows of a band last until its last stage.
        let least = (2 * lag * trips).max(1);
        let bands = bands.min(rows / least).max(1);
        let border = |n: i64| (i128::from(rows) * i128::from(n) / i128::from(bands)) as i64;
        let band = |n: i64| {
            let (down, up) = (-i64::from(n > 0), -i64::from(n + 1 < bands));
            Region { low: border(n), high: border(n + 1), down, up }
        };
        let between = |n: i64| Region { low: border(n), high: border(n), down: 1, up: 1 };
        let regions = [(0..bands).map(band).collect(), (1..bands).map(between).collect()];
        Some(Shape { rows, trips, window, regions, threads })
    }
}

impl Tile<'_> {
    /// Runs some iterations.
    fn run(&self, trips: &Range<i64>, estimate: u64) -> Result<(), RunError> {
        let estimate = estimate.saturating_mul(trips.end.abs_diff(trips.start));
        for regions in &self.shape.regions {
            self.regions(regions, trips, estimate);
            if self.steps.watch.is_cancelled() {
                return Err(RunError::Cancelled);
            }
        }
        Ok(())
    }

    /// Runs some iterations in regions that do not depend on each other.
    fn regions(&self, regions: &[Region], trips: &Range<i64>, estimate: u64) {
        let next = AtomicI64::new(0);
        let work = |scratch: Address| {
            while let Some(region) =
                usize::try_from(next.fetch_add(1, Ordering::Relaxed)).ok().and_then(|n| regions.get(n))
            {
                self.region(*region, trips, scratch);
            }
        };
        let steps = self.steps;
        let threads = self.shape.threads.min(regions.len());
        if threads < 2 {
            return work(steps.scratch);
        }
        let most = self.stages.iter().flatten().map(|stage| steps.extents[stage.kernel].own.bytes).max().unwrap_or(0);
        pool::run(threads - 1, estimate, steps.options.wake_from, &|thread| match thread {
            Thread::Alone | Thread::Caller => work(steps.scratch),
            Thread::Helper(number) => {
                // Without scratch memory this thread cannot help, so the others do its part.
                let Ok(mut block) = steps.memory.take(number, most) else { return };
                work(Address(block.pointer()));
                steps.memory.keep(number, block);
            }
        });
    }

    /// Runs some iterations in a region: each stage on the next rows, then again.
    fn region(&self, region: Region, trips: &Range<i64>, scratch: Address) {
        let Region { low, high, down, up } = region;
        let count = (trips.end - trips.start) * self.stages.len() as i64;
        let (reach, window) = (self.reach, self.shape.window);
        // The first stage would cover these rows if all stages were as far as it is.
        let end = high.max(high + (up + 1) * reach * (count - 1));
        let mut at = low;
        while at < end && !self.steps.watch.is_cancelled() {
            for stage in 0..count {
                let back = stage * reach;
                let rows = (at - back).max(low - down * back)..(at - back + window).min(high + up * back);
                if rows.is_empty() {
                    continue;
                }
                let (trip, number) = (trips.start + stage / self.stages.len() as i64, stage % self.stages.len() as i64);
                let table = if trip == 0 { 0 } else { 2 - (trip % 2) };
                self.stage(&self.stages[number as usize], &self.tables[table as usize], rows, scratch);
            }
            at += window;
        }
    }

    /// Runs the parts of a stage on some rows.
    fn stage(&self, parts: &[Stage], addresses: &[Address], rows: Range<i64>, scratch: Address) {
        for Stage { kernel, rows: own } in parts {
            let piece = match *own {
                At::Each { first, count, row } => {
                    let [begin, end] = [rows.start, rows.end].map(|at| at.saturating_sub(first).clamp(0, count));
                    begin.saturating_mul(row)..end.saturating_mul(row)
                }
                At::Once { first } if rows.contains(&first) => 0..self.steps.extents[*kernel].total(),
                At::Once { .. } => 0..0,
            };
            if !piece.is_empty() {
                // No part can end the run.
                let _ = self.task(*kernel, addresses).piece(addresses, scratch, piece);
            }
        }
    }

    fn task<'a>(&'a self, kernel: usize, addresses: &'a [Address]) -> Task<'a> {
        let steps = self.steps;
        Task {
            kernel: &steps.kernels[kernel],
            extents: &steps.extents[kernel],
            addresses,
            sizes: steps.near,
            scratch: steps.scratch,
            memory: steps.memory,
            cancelled: steps.watch.cancelled,
        }
    }
}
