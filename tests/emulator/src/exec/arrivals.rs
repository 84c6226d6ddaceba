//! Arrival barriers (`mbarrier`) in the memory of a block, and bulk copies of boxes
//! (`cp.async.bulk.tensor`) that arrive at them.
//!
//! A copy is made as late as may be: when a thread asks whether its barrier's phase has ended. It
//! counts as a thread of its own, with the knowledge of the thread that started it, and is
//! known to those that have waited for the phase.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::exec::access::{Spot, plain};
use crate::exec::{Run, now};
use crate::fault::Problem;
use crate::op::{Address, Strength};
use crate::order::{Clock, Meetings, Now, Stamp};
use crate::tensor_map::{ALIGN, BYTES, TensorMap};
use crate::types::{Pred, Reg, Space, Type, lanes};
use crate::warp::Stop;
use crate::window;

/// The arrival barriers of a block, by their addresses, and the copies that nobody has waited
/// for.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    by_address: BTreeMap<u64, Barrier>,
    copies: Vec<Copy>,
    /// The copies so far.
    count: u32,
}

#[derive(Debug)]
struct Barrier {
    made: Stamp,
    /// The threads that arrive in a phase, and those that are still to arrive in this one.
    count: u32,
    pending: u32,
    /// The bytes that are still to arrive.
    bytes: i64,
    /// The phases that have ended.
    phases: u32,
    /// The knowledge of those that have arrived in this phase, and in the last one.
    clock: Clock,
    known: Rc<Clock>,
}

impl Barrier {
    /// Ends the phase if all has arrived.
    fn end(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phases += 1;
            self.pending = self.count;
            self.known = Rc::new(std::mem::take(&mut self.clock));
        }
    }
}

/// A copy that is not yet made.
#[derive(Debug)]
struct Copy {
    map: TensorMap,
    from: Vec<i64>,
    to: u64,
    barrier: u64,
    line: u32,
    /// The knowledge of the thread that started it.
    known: Rc<Clock>,
}

/// The bytes of an arrival barrier.
const BARRIER: u32 = 8;
/// The backward jumps that a wait in vain counts as.
const SLEEP: u64 = 15;
/// The bytes that a copy moves at a time.
const CHUNK: usize = 16;

impl Run<'_, '_> {
    /// The address of a barrier. The thread must know that it has been made.
    fn barrier(&mut self, at: Address, lane: usize) -> Result<u64, Stop> {
        let fault = |what| Stop { lane, what };
        let spot = Spot::new(self.warp, at, (&plain(Space::Shared, Type::B64), BARRIER), lane).map_err(fault)?;
        let now = now(self.shared, self.warp, (lane, self.line), Strength::Weak);
        let barrier = self.shared.arrivals.by_address.get(&spot.address);
        let barrier = barrier.ok_or(fault(Problem::NoBarrier { address: spot.address }))?;
        if self.shared.knowledge.ordered(&barrier.made, &now) {
            Ok(spot.address)
        } else {
            Err(fault(spot.race(&self.grid.shape, &barrier.made, &now)))
        }
    }

    pub(super) fn init_arrivals(&mut self, at: Address, count: Reg, active: u32) -> Result<(), Stop> {
        let counts = *self.warp.read(count, active)?;
        self.warp.need(at.base, active)?;
        for lane in lanes(active) {
            let fault = |what| Stop { lane, what };
            let spot = Spot::new(self.warp, at, (&plain(Space::Shared, Type::B64), BARRIER), lane).map_err(fault)?;
            let now = now(self.shared, self.warp, (lane, self.line), Strength::Weak);
            spot.store(0, self.grid, self.shared, &now).map_err(fault)?;
            let count = counts[lane] as u32;
            let (clock, known) = (Clock::default(), Rc::default());
            let made = now.stamp;
            let barrier = Barrier { made, count, pending: count, bytes: 0, phases: 0, clock, known };
            self.shared.arrivals.by_address.insert(spot.address, barrier);
        }
        Ok(())
    }

    pub(super) fn arrive(&mut self, at: Address, bytes: Reg, active: u32) -> Result<(), Stop> {
        let bytes = *self.warp.read(bytes, active)?;
        self.warp.need(at.base, active)?;
        for lane in lanes(active) {
            let address = self.barrier(at, lane)?;
            let now = now(self.shared, self.warp, (lane, self.line), Strength::Weak);
            let Some(barrier) = self.shared.arrivals.by_address.get_mut(&address) else { continue };
            if barrier.pending == 0 {
                return Err(Stop { lane, what: Problem::TooManyArrive { address } });
            }
            self.shared.knowledge.tell(&mut barrier.clock, &now);
            barrier.pending -= 1;
            barrier.bytes += bytes[lane] as i64;
            barrier.end();
            self.grid.idle = 0;
        }
        Ok(())
    }

    pub(super) fn try_wait(&mut self, to: Pred, at: Address, parity: Reg, active: u32) -> Result<(), Stop> {
        let parities = *self.warp.read(parity, active)?;
        self.warp.need(at.base, active)?;
        let mut ended = BTreeMap::<u64, u32>::new();
        for lane in lanes(active) {
            let address = self.barrier(at, lane)?;
            self.make_copies(address)?;
            let barrier = &self.shared.arrivals.by_address[&address];
            if u64::from(barrier.phases % 2) != parities[lane] {
                *ended.entry(address).or_default() |= 1 << lane;
            }
        }
        if ended.is_empty() {
            // A device would let the threads sleep for a while.
            self.grid.idle += SLEEP;
        }
        for (address, who) in &ended {
            let known = Rc::clone(&self.shared.arrivals.by_address[address].known);
            let whole = *who == self.warp.alive;
            self.shared.knowledge.gain(&known, (self.warp.number, *who, self.warp.step), whole);
        }
        self.warp.write_pred(to, active, ended.values().fold(0, |all, who| all | who));
        Ok(())
    }

    pub(super) fn copy_box(
        &mut self,
        to: Address,
        map: Reg,
        from: &[Reg],
        arrivals: Address,
        active: u32,
    ) -> Result<(), Stop> {
        for reg in from.iter().chain([&map, &to.base, &arrivals.base]) {
            self.warp.need(*reg, active)?;
        }
        for lane in lanes(active) {
            let fault = |what| Stop { lane, what };
            let address = self.warp.row(map)[lane];
            let bytes = window::in_parameters(address).filter(|at| at.is_multiple_of(ALIGN)).and_then(|at| {
                let at = usize::try_from(at).ok()?;
                self.grid.arguments.get(at..at.checked_add(BYTES)?)
            });
            let map = bytes.and_then(TensorMap::of).ok_or(fault(Problem::NoTensorMap { address }))?;
            if map.counts.len() != from.len() {
                return Err(fault(Problem::NoTensorMap { address }));
            }
            let barrier = self.barrier(arrivals, lane)?;
            let now = now(self.shared, self.warp, (lane, self.line), Strength::Weak);
            // Copies only find barriers that a fence has followed.
            let made = &self.shared.arrivals.by_address[&barrier].made;
            if !self.shared.fences.cover(made, &now, &self.shared.knowledge) {
                return Err(fault(Problem::TileNotFenced { address: barrier }));
            }
            // Swizzled boxes begin at a multiple of 128 bytes.
            let to = self.warp.row(to.base)[lane].wrapping_add_signed(to.offset) & to.mask;
            if !to.is_multiple_of(128) {
                return Err(fault(Problem::Misaligned { space: Space::Shared, address: to }));
            }
            let from = from.iter().map(|reg| i64::from(self.warp.row(*reg)[lane] as u32 as i32)).collect();
            let known = self.shared.knowledge.release(&now);
            let line = self.line;
            self.shared.arrivals.copies.push(Copy { map, from, to, barrier, line, known });
        }
        Ok(())
    }

    /// Makes the copies that arrive at a barrier.
    fn make_copies(&mut self, barrier: u64) -> Result<(), Stop> {
        let (due, others) = std::mem::take(&mut self.shared.arrivals.copies)
            .into_iter()
            .partition::<Vec<_>, _>(|copy| copy.barrier == barrier);
        self.shared.arrivals.copies = others;
        due.iter().try_for_each(|copy| self.make_copy(copy)).map_err(|what| Stop { lane: 0, what })
    }

    fn make_copy(&mut self, copy: &Copy) -> Result<(), Problem> {
        // A thread behind those of the block.
        let warp = self.grid.shape.warps() as u16;
        self.shared.arrivals.count += 1;
        let stamp = Stamp {
            block: self.shared.block,
            epoch: self.shared.epoch,
            step: self.shared.arrivals.count,
            line: copy.line,
            lanes: 1,
            warp,
            strength: Strength::Weak,
        };
        let meetings = Meetings::default();
        let now = Now { stamp, lane: 0, meetings: &meetings };
        self.shared.knowledge.learn(&copy.known, &now);
        let TensorMap { address, width, counts, strides, sides } = &copy.map;
        let in_chunk = CHUNK / width;
        let spot = |space, address, bytes| Spot { space, rank: None, address, bytes, thread: 0 };
        let mut bytes = 0;
        let rows: u64 = sides[1..].iter().map(|side| u64::from(*side)).product();
        for row in 0..rows {
            // The row's place in the tensor.
            let (mut rest, mut inside, mut start) = (row, true, *address);
            for dim in 1..counts.len() {
                let at = copy.from[dim] + (rest % u64::from(sides[dim])) as i64;
                rest /= u64::from(sides[dim]);
                inside &= (0..counts[dim] as i64).contains(&at);
                start = start.wrapping_add((at as u64).wrapping_mul(strides[dim - 1]));
            }
            for chunk in 0..sides[0] as usize / in_chunk {
                let mut value = 0;
                let first = copy.from[0] + (chunk * in_chunk) as i64;
                let is_in = |k: usize| inside && (0..counts[0] as i64).contains(&(first + k as i64));
                let element = |k: usize| start.wrapping_add(((first + k as i64) as u64).wrapping_mul(*width as u64));
                if (0..in_chunk).all(is_in) && element(0).is_multiple_of(CHUNK as u64) {
                    value = spot(Space::Global, element(0), CHUNK).load(self.grid, self.shared, &now)?;
                } else {
                    for k in (0..in_chunk).filter(|k| is_in(*k)) {
                        let one = spot(Space::Global, element(k), *width).load(self.grid, self.shared, &now)?;
                        value |= one << (8 * width * k);
                    }
                }
                let plain = copy.to + row * 128 + (chunk * CHUNK) as u64;
                let to = plain ^ (plain >> 7 & 7) << 4;
                spot(Space::Shared, to, CHUNK).store(value, self.grid, self.shared, &now)?;
                bytes += CHUNK as i64;
            }
        }
        self.grid.stats.loaded += bytes as u64;
        if let Some(barrier) = self.shared.arrivals.by_address.get_mut(&copy.barrier) {
            self.shared.knowledge.tell(&mut barrier.clock, &now);
            barrier.bytes -= bytes;
            barrier.end();
        }
        self.grid.idle = 0;
        Ok(())
    }
}
