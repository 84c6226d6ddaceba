//! A warp: the registers of its threads, and the position of each.
//!
//! Threads have separate program counters. Those at the same position form a group, and the group
//! that is furthest behind runs, so that diverged paths converge again.

use crate::exec::tiles::Products;
use crate::fault::Problem;
use crate::op::{Kernel, PredKind, RowKind, Special};
use crate::order::Meetings;
use crate::shape::Shape;
use crate::types::{Condition, LANES, Pred, Reg, Row, lanes};

/// One in this many steps runs the group that is furthest ahead instead, since the one behind may
/// wait for it.
const PERIOD: u32 = 1024;
const AHEAD: u32 = 32;

/// The reason why a group waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing: it can run.
    No,
    /// The other lanes of a mask.
    Lanes,
    /// For the other threads of the block, at the barrier of this number.
    Barrier(u32),
    /// The other threads of a part of the block, at a barrier that has been complete this often.
    Meeting { id: u32, before: u32 },
    /// The other threads of the cluster.
    Cluster,
}

/// Threads at the same place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) at: u32,
    pub(crate) lanes: u32,
    pub(crate) wait: Wait,
}

/// The reason why an instruction cannot be executed, and the thread to blame.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) lane: usize,
    pub(crate) what: Problem,
}

/// A warp.
#[derive(Debug)]
pub(crate) struct Warp {
    pub(crate) number: u16,
    rows: Vec<Row>,
    defined: Vec<u32>,
    preds: Vec<u32>,
    preds_defined: Vec<u32>,
    pub(crate) carry: u32,
    pub(crate) carry_defined: u32,
    /// The lanes that have a thread, and those with a thread that has not exited.
    pub(crate) members: u32,
    pub(crate) alive: u32,
    pub(crate) groups: Vec<Group>,
    /// Counts instructions.
    pub(crate) step: u32,
    pub(crate) meetings: Meetings,
    /// Copies that nobody has waited for.
    pub(crate) copies: Vec<Transfer>,
    /// Groups of copies so far, by lane.
    pub(crate) copy_groups: [u32; LANES],
    pub(crate) products: Products,
}

/// A lane's copy from global to shared memory.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) lane: usize,
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) bytes: usize,
    /// The number of bytes that are read; the others are zero.
    pub(crate) read: usize,
    /// The number of its group, once it has one.
    pub(crate) group: Option<u32>,
}

impl Warp {
    /// A warp for a kernel, not yet part of a block.
    pub(crate) fn new(kernel: &Kernel, number: u16, globals: &[u64], dynamic: u32) -> Warp {
        let mut warp = Warp {
            number,
            rows: vec![[0; LANES]; kernel.rows.len()],
            defined: vec![0; kernel.rows.len()],
            preds: vec![0; kernel.preds.len()],
            preds_defined: vec![0; kernel.preds.len()],
            carry: 0,
            carry_defined: 0,
            members: 0,
            alive: 0,
            groups: vec![],
            step: 0,
            meetings: Meetings::default(),
            copies: vec![],
            copy_groups: [0; LANES],
            products: Products::default(),
        };
        for (row, kind) in warp.rows.iter_mut().zip(&kernel.rows) {
            match kind {
                RowKind::Register | RowKind::Special(_) => {}
                RowKind::Constant(bits) => row.fill(*bits),
                RowKind::Global(global) => row.fill(globals[*global as usize]),
                RowKind::Dynamic => row.fill(u64::from(dynamic)),
            }
        }
        warp
    }

    /// Starts the threads of a block.
    pub(crate) fn start(&mut self, kernel: &Kernel, shape: &Shape, block: u32) {
        let first = usize::from(self.number) * LANES;
        let threads = (shape.threads() - first).min(LANES);
        self.members = ((1u64 << threads) - 1) as u32;
        self.alive = self.members;
        self.groups.clear();
        self.groups.push(Group { at: 0, lanes: self.members, wait: Wait::No });
        (self.step, self.carry_defined) = (0, 0);
        self.meetings = Meetings::default();
        self.copies.clear();
        self.copy_groups = [0; LANES];
        self.products = Products::default();
        for (index, kind) in kernel.rows.iter().enumerate() {
            self.defined[index] = if *kind == RowKind::Register { 0 } else { u32::MAX };
            if let RowKind::Special(special) = kind {
                let block = shape.block_at(block);
                for (lane, to) in self.rows[index].iter_mut().enumerate() {
                    *to = u64::from(value(*special, shape, block, first + lane));
                }
            }
        }
        for (index, kind) in kernel.preds.iter().enumerate() {
            (self.preds[index], self.preds_defined[index]) = match kind {
                PredKind::Register => (0, 0),
                PredKind::Constant(value) => (if *value { u32::MAX } else { 0 }, u32::MAX),
            };
        }
    }

    /// The group to run next, after merging it with those at the same position.
    pub(crate) fn pick(&mut self) -> Option<usize> {
        if let [only] = self.groups.as_slice() {
            return (only.wait == Wait::No).then_some(0);
        }
        // Mostly the group that is furthest behind, so that paths converge; sometimes the one
        // ahead, in case the others wait for it.
        let runnable = self.groups.iter().filter(|g| g.wait == Wait::No).map(|g| g.at);
        let at = if self.step % PERIOD < PERIOD - AHEAD { runnable.min()? } else { runnable.max()? };
        let mut joined = 0;
        self.groups.retain(|group| {
            let joins =
                group.at == at && !matches!(group.wait, Wait::Barrier(_) | Wait::Meeting { .. } | Wait::Cluster);
            joined |= if joins { group.lanes } else { 0 };
            !joins
        });
        self.groups.push(Group { at, lanes: joined, wait: Wait::No });
        Some(self.groups.len() - 1)
    }

    pub(crate) fn row(&self, reg: Reg) -> &Row {
        &self.rows[reg.index()]
    }

    /// # Errors
    /// An error if a lane of `active` has not written the register.
    pub(crate) fn need(&self, reg: Reg, active: u32) -> Result<(), Stop> {
        undefined(active & !self.defined[reg.index()])
    }

    /// A register becomes unwritten in all lanes.
    pub(crate) fn forget(&mut self, reg: Reg) {
        self.defined[reg.index()] = 0;
    }

    /// The register, which all these lanes must have written.
    pub(crate) fn read(&self, reg: Reg, active: u32) -> Result<&Row, Stop> {
        self.need(reg, active)?;
        Ok(&self.rows[reg.index()])
    }

    /// Writes the lanes of a mask.
    pub(crate) fn write(&mut self, reg: Reg, active: u32, from: &Row) {
        let row = &mut self.rows[reg.index()];
        if active == u32::MAX {
            *row = *from;
        } else {
            for (lane, (to, from)) in row.iter_mut().zip(from).enumerate() {
                let keep = u64::from(active >> lane & 1).wrapping_sub(1);
                *to = *to & keep | from & !keep;
            }
        }
        self.defined[reg.index()] |= active;
    }

    /// The lanes of `active` where a condition holds.
    pub(crate) fn condition(&self, condition: Condition, active: u32) -> Result<u32, Stop> {
        let index = condition.pred.index();
        undefined(active & !self.preds_defined[index])?;
        let flip = if condition.negated { u32::MAX } else { 0 };
        Ok((self.preds[index] ^ flip) & active)
    }

    pub(crate) fn write_pred(&mut self, pred: Pred, active: u32, value: u32) {
        let to = &mut self.preds[pred.index()];
        *to = *to & !active | value & active;
        self.preds_defined[pred.index()] |= active;
    }

    /// The copies of these lanes that are not yet in a group form one, even if there are none.
    pub(crate) fn group_copies(&mut self, active: u32) {
        for copy in self.copies.iter_mut().filter(|copy| active >> copy.lane & 1 == 1 && copy.group.is_none()) {
            copy.group = Some(self.copy_groups[copy.lane]);
        }
        lanes(active).for_each(|lane| self.copy_groups[lane] += 1);
    }

    /// Threads exit. Those that wait for them need no longer do so.
    pub(crate) fn exit(&mut self, who: u32) {
        self.alive &= !who;
        for group in &mut self.groups {
            if group.wait == Wait::Lanes {
                group.wait = Wait::No;
            }
        }
    }
}

fn undefined(lanes: u32) -> Result<(), Stop> {
    match lanes {
        0 => Ok(()),
        _ => Err(Stop { lane: lanes.trailing_zeros() as usize, what: Problem::UndefinedRegister }),
    }
}

/// A special register of a thread.
fn value(special: Special, shape: &Shape, block: [u32; 3], thread: usize) -> u32 {
    let lane = (thread % LANES) as u32;
    let equal = 1u32 << lane;
    match special {
        Special::Thread(d) => shape.thread_at(thread)[usize::from(d)],
        Special::Threads(d) => shape.block[usize::from(d)],
        Special::Block(d) => block[usize::from(d)],
        Special::Blocks(d) => shape.grid[usize::from(d)],
        Special::Lane => lane,
        Special::Warp => (thread / LANES) as u32,
        Special::LanesEqual => equal,
        Special::LanesBelow => equal - 1,
        Special::LanesUpTo => equal | (equal - 1),
        Special::LanesAbove => !(equal | (equal - 1)),
        Special::LanesFrom => !(equal - 1),
        Special::Rank => block[0] % shape.cluster,
    }
}
