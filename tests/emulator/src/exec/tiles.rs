//! Products of tiles in shared memory: `wgmma`.
//!
//! Each warp of a group multiplies its 16 rows of the left tile. Tensor cores may read the tiles
//! at any time from the instruction until the wait. So they are read at both ends, and must not
//! have changed. The sums are undefined until then. Tiles must be written before a
//! `fence.proxy.async` of the writer, and a barrier after that.
//!
//! The PTX ISA has no rule for the order of sums; see `matrix`.

use std::collections::VecDeque;

use crate::exec::access::Spot;
use crate::exec::{Run, matrix, now};
use crate::fault::Problem;
use crate::lanes::Lane;
use crate::op::{Factors, Strength, Tile};
use crate::order::{Knowledge, Now, Stamp};
use crate::types::{Condition, LANES, Reg, Row, lanes};
use crate::warp::Stop;

/// The inner indices of an instruction, and the rows of a warp.
const DEPTH: u64 = 16;
const ROWS: u64 = 16;
/// The bytes of an element.
const WIDTH: u64 = 2;

/// The last fences of a thread; earlier ones matter only for writes of long ago.
const FENCES: usize = 8;

/// The fences behind writes of tiles, by thread.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    threads: Vec<VecDeque<Stamp>>,
}

impl Fences {
    fn add(&mut self, thread: usize, stamp: Stamp) {
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, VecDeque::new());
        }
        let fences = &mut self.threads[thread];
        fences.push_back(stamp);
        if fences.len() > FENCES {
            fences.pop_front();
        }
    }

    /// Whether the writer has fenced a write before something that happens before the reader's
    /// action.
    pub(crate) fn cover(&self, write: &Stamp, now: &Now<'_>, known: &Knowledge) -> bool {
        lanes(write.lanes).all(|lane| {
            let fences = self.threads.get(usize::from(write.warp) * LANES + lane);
            fences.into_iter().flatten().any(|fence| write.step <= fence.step && known.ordered(fence, now))
        })
    }
}

/// The products of a warp that nobody has waited for.
#[derive(Debug, Default)]
pub(crate) struct Products {
    /// Whether a fence came since the last wait.
    pub(crate) fenced: bool,
    waiting: Vec<Product>,
    groups: u32,
}

impl Products {
    /// The products that are not yet in a group form one.
    pub(crate) fn group(&mut self) {
        for product in self.waiting.iter_mut().filter(|product| product.group.is_none()) {
            product.group = Some(self.groups);
        }
        self.groups += 1;
    }
}

#[derive(Debug)]
struct Product {
    factors: Factors,
    sums: Vec<Reg>,
    tiles: [Elements; 2],
    /// The lanes that add to the contents of the registers.
    accumulate: u32,
    group: Option<u32>,
}

/// Rows of a tile with their elements when the product was issued.
#[derive(Debug)]
struct Elements {
    source: Source,
    elements: Vec<u64>,
}

/// Where the rows of a tile are.
#[derive(Clone, Debug)]
enum Source {
    Shared { layout: Layout, rows: std::ops::Range<u64> },
    Fragments([Reg; 4]),
}

/// Where a tile lies, as its descriptor says.
#[derive(Clone, Copy, Debug)]
struct Layout {
    start: u64,
    /// The bytes between boxes of 64 outer indices of a wide tile, and between groups of eight
    /// rows.
    boxes: u64,
    groups: u64,
    wide: bool,
}

impl Layout {
    /// Rows of 128 bytes, swizzled.
    fn of(descriptor: u64, wide: bool) -> Result<Layout, Problem> {
        let field = |from: u32| (descriptor >> from & 0x3fff) << 4;
        // Bits 49 to 51 are the offset of the swizzling's pattern; the highest two its kind.
        if descriptor >> 46 != 1 << 16 {
            return Err(Problem::BadDescriptor { descriptor });
        }
        Ok(Layout { start: field(0), boxes: field(16), groups: field(32), wide })
    }

    /// The address of an element.
    fn address(&self, outer: u64, inner: u64) -> u64 {
        let plain = if self.wide {
            outer / 64 * self.boxes + inner / 8 * self.groups + inner % 8 * 128 + outer % 64 * WIDTH
        } else {
            outer / 8 * self.groups + outer % 8 * 128 + inner * WIDTH
        };
        let address = self.start + plain;
        address ^ (address >> 7 & 7) << 4
    }
}

impl Run<'_, '_> {
    pub(super) fn fence_tiles(&mut self, active: u32) {
        for lane in lanes(active) {
            let now = now(self.shared, self.warp, (lane, self.line), Strength::Weak);
            self.shared.fences.add(usize::from(self.warp.number) * LANES + lane, now.stamp);
        }
    }

    /// Starts a product.
    pub(super) fn multiply_tiles(
        &mut self,
        factors: Factors,
        sums: &[Reg],
        tiles: [Tile; 2],
        accumulate: Condition,
    ) -> Result<(), Stop> {
        let fault = |what| Stop { lane: 0, what };
        if !self.warp.products.fenced {
            return Err(fault(Problem::ProductsNotFenced));
        }
        let accumulate = self.warp.condition(accumulate, u32::MAX)?;
        // Products may follow one another into the same registers.
        let follows = self.warp.products.waiting.iter().any(|product| product.sums == sums);
        if accumulate != 0 && !follows {
            sums.iter().try_for_each(|reg| self.warp.need(*reg, accumulate))?;
        }
        let first = u64::from(self.warp.number) % 4 * ROWS;
        let rows = [first..first + ROWS, 0..sums.len() as u64 * 2];
        let mut found = vec![];
        for (tile, rows) in tiles.into_iter().zip(rows) {
            let source = match tile {
                Tile::Shared { descriptor, wide } => {
                    let row = self.warp.read(descriptor, u32::MAX)?;
                    if let Some(lane) = (0..LANES).find(|lane| row[*lane] != row[0]) {
                        return Err(Stop { lane, what: Problem::BadDescriptor { descriptor: row[lane] } });
                    }
                    Source::Shared { layout: Layout::of(row[0], wide).map_err(fault)?, rows }
                }
                Tile::Fragments(regs) => Source::Fragments(regs),
            };
            found.push(Elements { elements: self.elements_of(&source)?, source });
        }
        let Ok(tiles) = <[Elements; 2]>::try_from(found) else { return Ok(()) };
        sums.iter().for_each(|reg| self.warp.forget(*reg));
        let sums = sums.to_vec();
        self.warp.products.waiting.push(Product { factors, sums, tiles, accumulate, group: None });
        Ok(())
    }

    fn elements_of(&mut self, source: &Source) -> Result<Vec<u64>, Stop> {
        match source {
            Source::Shared { layout, rows } => self.tile(layout, rows.clone()),
            Source::Fragments(regs) => self.fragments(*regs),
        }
    }

    /// The elements of the 16 rows of a left factor, row by row. A lane has pairs of two rows,
    /// eight apart, first of the lower inner indices.
    fn fragments(&mut self, regs: [Reg; 4]) -> Result<Vec<u64>, Stop> {
        let mut elements = vec![0; (ROWS * DEPTH) as usize];
        for (number, reg) in (0..).zip(regs) {
            let row = *self.warp.read(reg, u32::MAX)?;
            for (lane, pair) in (0..).zip(row) {
                let at = (lane / 4 + number % 2 * 8) * DEPTH as usize + lane % 4 * 2 + number / 2 * 8;
                elements[at] = pair & 0xffff;
                elements[at + 1] = pair >> 16 & 0xffff;
            }
        }
        Ok(elements)
    }

    /// The elements of some rows of a tile, row by row. They are read in chunks of 16 bytes,
    /// which are contiguous along the outer or the inner index, and each lane reads some.
    fn tile(&mut self, layout: &Layout, rows: std::ops::Range<u64>) -> Result<Vec<u64>, Stop> {
        const CHUNK: u64 = 8;
        let mut elements = vec![0; ((rows.end - rows.start) * DEPTH) as usize];
        let (step, inner_step) = if layout.wide { (8, 1) } else { (1, 8) };
        let outers = rows.clone().step_by(step);
        for (outer, inner) in outers.flat_map(|outer| (0..DEPTH).step_by(inner_step).map(move |inner| (outer, inner))) {
            let lane = (outer as usize / step) % LANES;
            let fault = |what| Stop { lane, what };
            let address = layout.address(outer, inner);
            let bytes = (CHUNK * WIDTH) as usize;
            let spot = Spot::shared(self.warp, address, bytes, lane);
            let now = now(self.shared, self.warp, (lane, self.line), Strength::Weak);
            let value = spot.load(self.grid, self.shared, &now).map_err(fault)?;
            let region = &mut self.grid.shared[self.shared.slot as usize];
            let extent = (address, bytes, region.len());
            let copied = self.grid.shape.warps() as u16;
            let covers =
                |write: &Stamp| write.warp == copied || self.shared.fences.cover(write, &now, &self.shared.knowledge);
            if !region.shadow.writes(extent).all(|write| covers(&write)) {
                return Err(fault(Problem::TileNotFenced { address }));
            }
            for k in 0..CHUNK {
                let (outer, inner) = if layout.wide { (outer + k, inner) } else { (outer, inner + k) };
                let at = (outer - rows.start) * DEPTH + inner;
                elements[at as usize] = (value >> (16 * k)) as u64 & 0xffff;
            }
        }
        Ok(elements)
    }

    /// Ends all products but those of the latest groups.
    pub(super) fn await_products(&mut self, but: u32) -> Result<(), Stop> {
        let groups = self.warp.products.groups;
        let is_due = |product: &Product| product.group.is_some_and(|group| group + but < groups);
        let (due, others) = std::mem::take(&mut self.warp.products.waiting).into_iter().partition::<Vec<_>, _>(is_due);
        self.warp.products.waiting = others;
        self.warp.products.fenced = false;
        // All lanes wait together, and none reads a tile for these products afterwards.
        let (members, step) = (self.warp.members, self.warp.step);
        self.warp.meetings.meet(members, members, step);
        for Product { factors, sums, tiles, accumulate, .. } in due {
            for Elements { source, elements } in &tiles {
                let found = self.elements_of(source)?;
                if let Some(at) = (0..found.len() as u64).find(|at| found[*at as usize] != elements[*at as usize]) {
                    let what = match source {
                        Source::Shared { layout, rows } => {
                            let address = layout.address(rows.start + at / DEPTH, at % DEPTH);
                            Problem::TileChanged { address }
                        }
                        Source::Fragments(_) => Problem::FragmentChanged,
                    };
                    return Err(Stop { lane: 0, what });
                }
            }
            let [left, right] = tiles.map(|tile| {
                let numbers = tile.elements.iter().map(|element| matrix::elements(factors, *element)[0]);
                numbers.collect::<Vec<f32>>()
            });
            for (index, reg) in sums.iter().enumerate() {
                let from = *self.warp.row(*reg);
                let result: Row = std::array::from_fn(|lane| {
                    let row = lane / 4 + index % 4 / 2 * 8;
                    let column = index / 4 * 8 + lane % 4 * 2 + index % 2;
                    let line = |factor: &[f32], number: usize| -> [f32; DEPTH as usize] {
                        std::array::from_fn(|k| factor[number * DEPTH as usize + k])
                    };
                    let start = if accumulate >> lane & 1 == 1 { f32::of(from[lane]) } else { 0.0 };
                    let pairs = line(&left, row).into_iter().zip(line(&right, column));
                    pairs.fold(start, |sum, (x, y)| x.mul_add(y, sum)).bits()
                });
                self.warp.write(*reg, u32::MAX, &result);
            }
        }
        // Those that still wait keep their registers.
        let waiting: Vec<Reg> = self.warp.products.waiting.iter().flat_map(|product| product.sums.clone()).collect();
        waiting.into_iter().for_each(|reg| self.warp.forget(reg));
        Ok(())
    }
}
