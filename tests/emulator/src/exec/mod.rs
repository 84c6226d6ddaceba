//! Executes operations: one instruction for one group of a warp at a time.

mod access;
pub(crate) mod arrivals;
mod atomic;
mod collective;
mod matrix;
pub(crate) mod meeting;
pub(crate) mod tiles;

use crate::fault::Problem;
use crate::lanes::Lane;
use crate::launch::Stats;
use crate::memory::Memory;
use crate::op::{Carry, Kernel, Op, Strength};
use crate::order::{Flags, Knowledge, Now, Stamp};
use crate::region::Region;
use crate::shape::Shape;
use crate::types::{LANES, Reg, Row, lanes, mask};
use crate::warp::{Group, Stop, Wait, Warp};

/// State that all blocks of a launch share.
pub(crate) struct Grid<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) shape: Shape,
    pub(crate) arguments: &'a [u8],
    pub(crate) memory: &'a mut Memory,
    pub(crate) constants: Region,
    /// The shared memory of the running blocks, by slot; blocks of one cluster have adjacent slots.
    pub(crate) shared: Vec<Region>,
    pub(crate) flags: Flags,
    pub(crate) stats: Stats,
    /// Backward jumps since the last change that another thread could see.
    pub(crate) idle: u64,
}

/// State that the threads of a block share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The block's number.
    pub(crate) block: u32,
    /// Where its memory is.
    pub(crate) slot: u32,
    /// Barriers so far.
    pub(crate) epoch: u32,
    /// By thread.
    pub(crate) locals: Vec<Region>,
    pub(crate) knowledge: Knowledge,
    pub(crate) fences: tiles::Fences,
    pub(crate) meetings: meeting::Meetings,
    pub(crate) arrivals: arrivals::Arrivals,
}

/// A lane of a warp that accesses memory now.
fn now<'w>(shared: &Shared, warp: &'w Warp, (lane, line): (usize, u32), strength: Strength) -> Now<'w> {
    let stamp = Stamp {
        block: shared.block,
        epoch: shared.epoch,
        step: warp.step,
        line,
        lanes: 1 << lane,
        warp: warp.number,
        strength,
    };
    Now { stamp, lane, meetings: &warp.meetings }
}

/// Runs the next instruction of a warp and returns whether there was one.
pub(crate) fn step(grid: &mut Grid<'_>, shared: &mut Shared, warp: &mut Warp) -> Result<bool, (Stop, u32)> {
    meeting::wake(shared, warp, grid.kernel);
    let Some(index) = warp.pick() else {
        return match warp.groups.iter().find(|group| group.wait == Wait::Lanes) {
            // Nobody is left to come.
            Some(group) => Err((collective::stuck(warp, grid.kernel, group), line(grid.kernel, group))),
            None => Ok(false),
        };
    };
    let group = warp.groups[index];
    let kernel = grid.kernel;
    let instruction = &kernel.operations[group.at as usize];
    warp.step += 1;
    grid.stats.instructions += 1;
    let mut run = Run { grid, shared, warp, line: instruction.line };
    let active = match instruction.guard {
        None => group.lanes,
        Some(guard) => run.warp.condition(guard, group.lanes).map_err(|stop| (stop, instruction.line))?,
    };
    run.execute(&instruction.op, index, group, active).map_err(|stop| (stop, instruction.line))?;
    Ok(true)
}

fn line(kernel: &Kernel, group: &Group) -> u32 {
    kernel.operations[group.at as usize].line
}

/// An instruction of a warp as it runs.
struct Run<'r, 'a> {
    grid: &'r mut Grid<'a>,
    shared: &'r mut Shared,
    warp: &'r mut Warp,
    line: u32,
}

impl Run<'_, '_> {
    /// Executes an operation for the lanes of `active`, and advances the group.
    fn execute(&mut self, op: &Op, index: usize, group: Group, active: u32) -> Result<(), Stop> {
        match *op {
            Op::Branch { target } => self.branch(index, group, (target, active)),
            Op::Exit => self.exit(index, group, active),
            Op::Barrier { id, .. } => self.leave(index, group, active, Wait::Barrier(id)),
            Op::AwaitCluster { .. } => self.leave(index, group, active, Wait::Cluster),
            Op::Meet { id, threads, waits } => return self.meet((id, threads, waits), index, group, active),
            Op::SyncWarp { .. }
            | Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Reduce { .. }
            | Op::Multiply { .. }
            | Op::MultiplyTiles { .. }
            | Op::FenceProducts { .. }
            | Op::GroupProducts { .. }
            | Op::AwaitProducts { .. }
            | Op::LoadMatrices { .. } => {
                let done = self.collective(op, active)?;
                self.leave(index, group, active & !done, Wait::Lanes);
            }
            _ => {
                if active != 0 {
                    self.plain(op, active)?;
                }
                self.warp.groups[index].at += 1;
            }
        }
        Ok(())
    }

    fn branch(&mut self, index: usize, group: Group, (target, taken): (u32, u32)) {
        if target <= group.at && taken != 0 {
            self.grid.idle += 1;
        }
        let straight = group.lanes & !taken;
        let groups = &mut self.warp.groups;
        if taken == 0 {
            groups[index].at += 1;
        } else {
            groups[index] = Group { at: target, lanes: taken, wait: Wait::No };
            if straight != 0 {
                groups.push(Group { at: group.at + 1, lanes: straight, wait: Wait::No });
            }
        }
    }

    fn exit(&mut self, index: usize, group: Group, who: u32) {
        let stay = group.lanes & !who;
        if stay == 0 {
            self.warp.groups.remove(index);
        } else {
            self.warp.groups[index] = Group { at: group.at + 1, lanes: stay, wait: Wait::No };
        }
        if who != 0 {
            self.warp.exit(who);
            self.grid.idle = 0;
        }
    }

    /// Leaves some lanes of a group waiting where they are; the others go on.
    fn leave(&mut self, index: usize, group: Group, waiting: u32, wait: Wait) {
        let on = Group { at: group.at + 1, lanes: group.lanes & !waiting, wait: Wait::No };
        let left = Group { lanes: waiting, wait, ..group };
        self.warp.groups[index] = if waiting == 0 { on } else { left };
        if waiting != 0 && on.lanes != 0 {
            self.warp.groups.push(on);
        }
    }

    /// An operation after which every lane goes on.
    fn plain(&mut self, op: &Op, active: u32) -> Result<(), Stop> {
        let warp = &mut *self.warp;
        match *op {
            Op::Map { map, d, from } => {
                for reg in from {
                    warp.need(reg, active)?;
                }
                let mut result = [0; LANES];
                map(&mut result, from.map(|reg| warp.row(reg)));
                warp.write(d, active, &result);
            }
            Op::Divide { map, d, a, b, mask } => {
                let by = warp.read(b, active)?;
                if let Some(lane) = lanes(active).find(|lane| by[*lane] & mask == 0) {
                    return Err(Stop { lane, what: Problem::DivisionByZero });
                }
                let a = warp.read(a, active)?;
                let mut result = [0; LANES];
                map(&mut result, [a, by, by, by]);
                warp.write(d, active, &result);
            }
            Op::Convert { ref how, d, a } => {
                let from = warp.read(a, active)?;
                let mut result = [0; LANES];
                for lane in lanes(active) {
                    result[lane] = how.apply(from[lane]);
                }
                warp.write(d, active, &result);
            }
            Op::Carry { how, d, a, b } => return self.carry(how, (d, a, b), active),
            Op::Compare { how, p, q, a, b, combine } => {
                let holds = how(warp.read(a, active)?, warp.read(b, active)?);
                let (yes, no) = match combine {
                    None => (holds, !holds),
                    Some((logic, c)) => {
                        let c = warp.condition(c, active)?;
                        (logic.apply(holds, c), logic.apply(!holds, c))
                    }
                };
                warp.write_pred(p, active, yes);
                if let Some(q) = q {
                    warp.write_pred(q, active, no);
                }
            }
            Op::Set { how, d, a, b, combine, yes } => {
                let mut holds = how(warp.read(a, active)?, warp.read(b, active)?);
                if let Some((logic, c)) = combine {
                    holds = logic.apply(holds, warp.condition(c, active)?);
                }
                let result = std::array::from_fn(|lane| if holds >> lane & 1 == 1 { yes } else { 0 });
                warp.write(d, active, &result);
            }
            Op::Select { d, a, b, p } => {
                let chosen = warp.condition(p, active)?;
                // Only what is chosen is read.
                let (yes, no) = (warp.read(a, chosen)?, warp.read(b, active & !chosen)?);
                let result = std::array::from_fn(|lane| if chosen >> lane & 1 == 1 { yes[lane] } else { no[lane] });
                warp.write(d, active, &result);
            }
            Op::Logic { how, d, a, b } => {
                let value = how.apply(warp.condition(a, active)?, warp.condition(b, active)?);
                warp.write_pred(d, active, value);
            }
            Op::Pack { d, ref parts, bits } => {
                let mut result = [0; LANES];
                for (index, part) in parts.iter().enumerate() {
                    let row = warp.read(*part, active)?;
                    for (to, from) in result.iter_mut().zip(row) {
                        *to |= (from & mask(bits)) << (index as u32 * bits);
                    }
                }
                warp.write(d, active, &result);
            }
            Op::Unpack { ref parts, a, bits } => {
                let from = *warp.read(a, active)?;
                for (index, part) in parts.iter().enumerate() {
                    let result = from.map(|value| value >> (index as u32 * bits) & mask(bits));
                    warp.write(*part, active, &result);
                }
            }
            Op::ActiveMask { d } => warp.write(d, active, &[u64::from(active); LANES]),
            Op::Trap => return Err(Stop { lane: active.trailing_zeros() as usize, what: Problem::Trap }),
            Op::LoadParameter { ref into, at, ty, register } => {
                let size = ty.bytes() as usize;
                for (index, reg) in into.iter().enumerate() {
                    let start = at as usize + index * size;
                    let mut bytes = [0; 8];
                    bytes[..size].copy_from_slice(&self.grid.arguments[start..start + size]);
                    let value = access::extend(u64::from_le_bytes(bytes), ty, register);
                    warp.write(*reg, active, &[value; LANES]);
                }
            }
            Op::Load { ref into, at, access, register } => return self.load(into, at, &access, (register, active)),
            Op::Store { ref from, at, access } => return self.store(from, at, &access, active),
            Op::Copy { to, from, bytes, read } => return self.copy(to, from, (bytes, read), active),
            Op::GroupCopies => self.warp.group_copies(active),
            Op::AwaitCopies { but } => return self.await_copies(but, active),
            Op::Atomic { how, d, at, b, c, access } => return self.atomic((how, d, at), (b, c), &access, active),
            Op::Fence { scope } => {
                for lane in lanes(active) {
                    let now = now(self.shared, self.warp, (lane, self.line), Strength::Weak);
                    self.shared.knowledge.fence(scope, &now);
                }
            }
            Op::FenceTiles => self.fence_tiles(active),
            Op::InitArrivals { at, count } => return self.init_arrivals(at, count, active),
            Op::Arrive { at, bytes } => return self.arrive(at, bytes, active),
            Op::TryWait { to, at, parity } => return self.try_wait(to, at, parity, active),
            Op::CopyBox { to, map, ref from, arrivals } => return self.copy_box(to, map, from, arrivals, active),
            Op::Nothing
            | Op::Branch { .. }
            | Op::Exit
            | Op::Barrier { .. }
            | Op::Meet { .. }
            | Op::ArriveInCluster
            | Op::AwaitCluster { .. }
            | Op::SyncWarp { .. }
            | Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Reduce { .. }
            | Op::Multiply { .. }
            | Op::MultiplyTiles { .. }
            | Op::FenceProducts { .. }
            | Op::GroupProducts { .. }
            | Op::AwaitProducts { .. }
            | Op::LoadMatrices { .. } => {}
        }
        Ok(())
    }

    fn carry(&mut self, how: Carry, (d, a, b): (Reg, Reg, Reg), active: u32) -> Result<(), Stop> {
        let warp = &mut *self.warp;
        if how.takes && active & !warp.carry_defined != 0 {
            let lane = (active & !warp.carry_defined).trailing_zeros() as usize;
            return Err(Stop { lane, what: Problem::UndefinedRegister });
        }
        let (a, b) = (warp.read(a, active)?, warp.read(b, active)?);
        let mut result: Row = [0; LANES];
        let mut out = 0;
        for lane in lanes(active) {
            let bit = if how.takes { u128::from(warp.carry >> lane & 1) } else { 0 };
            let (x, y) = (u128::from(u64::of(a[lane])), u128::from(u64::of(b[lane])));
            // The flag is set by a carry out of a sum, and by a borrow out of a difference.
            let wide = if how.subtract { x.wrapping_sub(y).wrapping_sub(bit) } else { x + y + bit };
            result[lane] = wide as u64 & mask(how.bits);
            out |= u32::from(wide >> how.bits & 1 == 1) << lane;
        }
        warp.write(d, active, &result);
        if how.gives {
            warp.carry = warp.carry & !active | out;
            warp.carry_defined |= active;
        }
        Ok(())
    }
}
