//! Loads and stores: the address of each lane is computed, checked, and recorded as accessed.

use crate::exec::{Grid, Run, Shared, now};
use crate::fault::Problem;
use crate::op::{Access, Address, Strength};
use crate::order::{Knowledge, Now, Place, Stamp};
use crate::region::{Bad, Region};
use crate::shape::Shape;
use crate::types::{LANES, Reg, Space, Type, lanes, mask};
use crate::warp::{Stop, Transfer, Warp};
use crate::window;

/// Bytes of one lane in memory.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) space: Space,
    /// The block of the cluster that the memory belongs to, if it was named.
    pub(super) rank: Option<u32>,
    pub(super) address: u64,
    pub(super) bytes: usize,
    /// The number of the thread in its block.
    pub(super) thread: usize,
}

impl Spot {
    /// Where a lane accesses memory.
    ///
    /// # Errors
    /// The address is no multiple of the size.
    pub(super) fn new(warp: &Warp, at: Address, (access, bytes): (&Access, u32), lane: usize) -> Result<Spot, Problem> {
        let address = warp.row(at.base)[lane].wrapping_add_signed(at.offset) & at.mask;
        let (rank, (space, address)) = match access.space {
            Some(Space::Cluster) => {
                let (rank, address) = window::of_cluster(address);
                (rank, (Space::Shared, address))
            }
            Some(space) => (None, (space, address)),
            None => (None, window::resolve(address)),
        };
        if !address.is_multiple_of(u64::from(bytes)) {
            return Err(Problem::Misaligned { space, address });
        }
        let thread = usize::from(warp.number) * LANES + lane;
        Ok(Spot { space, rank, address, bytes: bytes as usize, thread })
    }

    /// Where a lane accesses the shared memory of its block.
    pub(super) fn shared(warp: &Warp, address: u64, bytes: usize, lane: usize) -> Spot {
        let thread = usize::from(warp.number) * LANES + lane;
        Spot { space: Space::Shared, rank: None, address, bytes, thread }
    }

    /// The place, for what values carry.
    pub(super) fn place(&self, block: u32, shape: &Shape) -> Place {
        let block = self.rank.map_or(block, |rank| shape.mate(block, rank));
        ((self.space == Space::Shared).then_some(block), self.address)
    }

    fn problem(&self, at: u64, bad: Bad) -> Problem {
        match bad {
            Bad::Outside => Problem::OutOfBounds { space: self.space, address: self.address },
            Bad::Unwritten(first) => Problem::Uninitialised { space: self.space, address: self.address + (first - at) },
        }
    }

    /// The region that contains the address, the offset in it, and the knowledge of the block.
    fn region<'s>(
        &self,
        grid: &'s mut Grid<'_>,
        shared: &'s mut Shared,
    ) -> Result<(&'s mut Region, u64, &'s Knowledge), Problem> {
        let outside = || Problem::OutOfBounds { space: self.space, address: self.address };
        let (region, at) = match self.space {
            Space::Global => grid.memory.find(self.address).ok_or_else(outside)?,
            Space::Shared | Space::Cluster => {
                if self.rank.is_some_and(|rank| rank >= grid.shape.cluster) {
                    return Err(outside());
                }
                let slot = self.rank.map_or(shared.slot, |rank| grid.shape.mate(shared.slot, rank));
                (&mut grid.shared[slot as usize], self.address)
            }
            Space::Local => (shared.locals.get_mut(self.thread).ok_or_else(outside)?, self.address),
            Space::Constant => (&mut grid.constants, self.address),
        };
        Ok((region, at, &shared.knowledge))
    }

    /// Whether other threads access the space too.
    fn is_common(&self) -> bool {
        matches!(self.space, Space::Global | Space::Shared)
    }

    /// The race with an earlier access.
    pub(super) fn race(&self, shape: &Shape, other: &Stamp, now: &Now<'_>) -> Problem {
        // Of several readers, one other than the thread itself, if there is one.
        let same_warp = (other.block, other.warp) == (now.stamp.block, now.stamp.warp);
        let others = if same_warp { other.lanes & !now.stamp.lanes } else { other.lanes };
        let lane = if others == 0 { now.lane } else { others.trailing_zeros() as usize };
        Problem::Race {
            space: self.space,
            address: self.address,
            other: shape.thread(other.block, usize::from(other.warp) * LANES + lane),
            line: other.line,
        }
    }

    pub(super) fn load(&self, grid: &mut Grid<'_>, shared: &mut Shared, now: &Now<'_>) -> Result<u128, Problem> {
        let shape = grid.shape;
        let (region, at, known) = self.region(grid, shared)?;
        let value = region.load(at, self.bytes).map_err(|bad| self.problem(at, bad))?;
        if self.is_common() {
            let extent = (at, self.bytes, region.len());
            region.shadow.read(extent, now, known).map_err(|other| self.race(&shape, &other, now))?;
        }
        Ok(value)
    }

    pub(super) fn store(
        &self,
        value: u128,
        grid: &mut Grid<'_>,
        shared: &mut Shared,
        now: &Now<'_>,
    ) -> Result<(), Problem> {
        if self.space == Space::Constant {
            return Err(Problem::ReadOnly { address: self.address });
        }
        let shape = grid.shape;
        let (region, at, known) = self.region(grid, shared)?;
        let changed = region.store(at, self.bytes, value).map_err(|bad| self.problem(at, bad))?;
        if self.is_common() {
            let extent = (at, self.bytes, region.len());
            region.shadow.write(extent, now, known).map_err(|other| self.race(&shape, &other, now))?;
        }
        if changed {
            grid.idle = 0;
        }
        Ok(())
    }
}

/// An access that promises nothing.
pub(super) fn plain(space: Space, ty: Type) -> Access {
    Access { space: Some(space), ty, strength: Strength::Weak, acquire: false, release: false }
}

/// The low bits of a value, extended to a register as a type says.
pub(super) fn extend(value: u64, ty: Type, register: u32) -> u64 {
    let low = value & ty.mask();
    if ty.signed() {
        let shift = 64 - ty.bits();
        ((low << shift) as i64 >> shift) as u64 & mask(register)
    } else {
        low
    }
}

impl Run<'_, '_> {
    pub(super) fn load(
        &mut self,
        into: &[Reg],
        at: Address,
        access: &Access,
        (register, active): (u32, u32),
    ) -> Result<(), Stop> {
        self.warp.need(at.base, active)?;
        let bytes = access.ty.bytes() * into.len() as u32;
        let mut rows = [[0; LANES]; 4];
        for lane in lanes(active) {
            let fault = |what| Stop { lane, what };
            let spot = Spot::new(self.warp, at, (access, bytes), lane).map_err(fault)?;
            let now = now(self.shared, self.warp, (lane, self.line), access.strength);
            let value = spot.load(self.grid, self.shared, &now).map_err(fault)?;
            let place = spot.place(self.shared.block, &self.grid.shape);
            self.grid.flags.read(place, access.acquire, &now, &mut self.shared.knowledge);
            for (index, row) in rows[..into.len()].iter_mut().enumerate() {
                row[lane] = extend((value >> (index as u32 * access.ty.bits())) as u64, access.ty, register);
            }
            if spot.space == Space::Global {
                self.grid.stats.loaded += u64::from(bytes);
            }
        }
        for (reg, row) in into.iter().zip(&rows) {
            self.warp.write(*reg, active, row);
        }
        Ok(())
    }

    /// A copy that is made when it is waited for: a thread that does not wait finds the old
    /// contents.
    pub(super) fn copy(
        &mut self,
        to: Address,
        from: Address,
        (bytes, read): (u32, Reg),
        active: u32,
    ) -> Result<(), Stop> {
        for reg in [to.base, from.base, read] {
            self.warp.need(reg, active)?;
        }
        for lane in lanes(active) {
            let spot = |at, space| Spot::new(self.warp, at, (&plain(space, Type::B8), bytes), lane);
            let both = spot(to, Space::Shared).and_then(|to| Ok((to.address, spot(from, Space::Global)?.address)));
            let (to, from) = both.map_err(|what| Stop { lane, what })?;
            let read = self.warp.row(read)[lane] as u32;
            if read > bytes {
                return Err(Stop { lane, what: Problem::OutOfBounds { space: Space::Global, address: from } });
            }
            self.warp.copies.push(Transfer { lane, to, from, bytes: bytes as usize, read: read as usize, group: None });
        }
        Ok(())
    }

    pub(super) fn await_copies(&mut self, but: Option<u32>, active: u32) -> Result<(), Stop> {
        let groups = self.warp.copy_groups;
        let is_due = |copy: &Transfer| {
            let asked = match (but, copy.group) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(but), Some(group)) => group + but < groups[copy.lane],
            };
            asked && active >> copy.lane & 1 == 1
        };
        let (due, others) = std::mem::take(&mut self.warp.copies).into_iter().partition::<Vec<_>, _>(is_due);
        self.warp.copies = others;
        for Transfer { lane, to, from, bytes, read, .. } in due {
            let fault = |what| Stop { lane, what };
            let thread = usize::from(self.warp.number) * LANES + lane;
            let now = now(self.shared, self.warp, (lane, self.line), Strength::Weak);
            let from = Spot { space: Space::Global, rank: None, address: from, bytes: read, thread };
            let value = if read > 0 { from.load(self.grid, self.shared, &now).map_err(fault)? } else { 0 };
            let to = Spot { space: Space::Shared, rank: None, address: to, bytes, thread };
            to.store(value, self.grid, self.shared, &now).map_err(fault)?;
            self.grid.stats.loaded += read as u64;
        }
        Ok(())
    }

    pub(super) fn store(&mut self, from: &[Reg], at: Address, access: &Access, active: u32) -> Result<(), Stop> {
        self.warp.need(at.base, active)?;
        for reg in from {
            self.warp.need(*reg, active)?;
        }
        let bytes = access.ty.bytes() * from.len() as u32;
        for lane in lanes(active) {
            let fault = |what| Stop { lane, what };
            let spot = Spot::new(self.warp, at, (access, bytes), lane).map_err(fault)?;
            let mut value = 0;
            for (index, reg) in from.iter().enumerate() {
                let element = self.warp.row(*reg)[lane] & access.ty.mask();
                value |= u128::from(element) << (index as u32 * access.ty.bits());
            }
            let now = now(self.shared, self.warp, (lane, self.line), access.strength);
            spot.store(value, self.grid, self.shared, &now).map_err(fault)?;
            let place = spot.place(self.shared.block, &self.grid.shape);
            self.grid.flags.write(place, (access.release, false), &now, &self.shared.knowledge);
            if spot.space == Space::Global {
                self.grid.stats.stored += u64::from(bytes);
            }
        }
        Ok(())
    }
}
