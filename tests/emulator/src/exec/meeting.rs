//! Barriers for a part of a block: `bar.sync` and `bar.arrive` with a number of threads.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::exec::{Run, Shared, now};
use crate::fault::Problem;
use crate::op::{Kernel, Strength};
use crate::order::Clock;
use crate::types::{LANES, Reg, lanes};
use crate::warp::{Group, Stop, Wait, Warp};

/// The barriers of a block, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    by_id: BTreeMap<u32, Meeting>,
}

#[derive(Debug, Default)]
struct Meeting {
    /// The threads that have arrived, and of how many.
    arrived: u32,
    threads: u32,
    /// The knowledge of those.
    clock: Clock,
    /// How often all have arrived, and their knowledge the last time.
    times: u32,
    known: Rc<Clock>,
}

/// Lets the threads of a warp go on that have met the others they wait for.
pub(super) fn wake(shared: &mut Shared, warp: &mut Warp, kernel: &Kernel) {
    for number in 0..warp.groups.len() {
        let Group { wait, lanes: who, at } = warp.groups[number];
        let Wait::Meeting { id, before } = wait else { continue };
        let Some(meeting) = shared.meetings.by_id.get(&id).filter(|meeting| meeting.times > before) else { continue };
        let known = Rc::clone(&meeting.known);
        for lane in lanes(who) {
            let line = kernel.operations[at as usize].line;
            let now = now(shared, warp, (lane, line), Strength::Weak);
            shared.knowledge.learn(&known, &now);
        }
        warp.groups[number] = Group { at: at + 1, wait: Wait::No, lanes: who };
    }
}

impl Run<'_, '_> {
    /// A warp arrives at a barrier.
    pub(super) fn meet(
        &mut self,
        (id, threads, waits): (Reg, Reg, bool),
        index: usize,
        group: Group,
        active: u32,
    ) -> Result<(), Stop> {
        let lane = group.lanes.trailing_zeros() as usize;
        let fault = |what| Stop { lane, what };
        // All threads of a warp count, so all must come.
        if active != self.warp.alive || self.warp.alive != u32::MAX {
            return Err(fault(Problem::BarrierDivergence));
        }
        let [id, threads] = [id, threads].map(|reg| self.warp.read(reg, active).map(|row| row[lane] as u32));
        let (id, threads) = (id?, threads?);
        if id > 15 || threads == 0 || !threads.is_multiple_of(LANES as u32) {
            return Err(fault(Problem::MixedBarriers));
        }
        let mut meeting = self.shared.meetings.by_id.remove(&id).unwrap_or_default();
        if meeting.arrived > 0 && meeting.threads != threads {
            return Err(fault(Problem::MixedBarriers));
        }
        for lane in lanes(active) {
            let now = now(self.shared, self.warp, (lane, self.line), Strength::Weak);
            self.shared.knowledge.tell(&mut meeting.clock, &now);
        }
        let before = meeting.times;
        (meeting.threads, meeting.arrived) = (threads, meeting.arrived + LANES as u32);
        if meeting.arrived == threads {
            meeting.known = Rc::new(std::mem::take(&mut meeting.clock));
            (meeting.arrived, meeting.times) = (0, before + 1);
            self.grid.stats.barriers += 1;
        }
        self.grid.idle = 0;
        self.shared.meetings.by_id.insert(id, meeting);
        self.leave(index, group, if waits { active } else { 0 }, Wait::Meeting { id, before });
        Ok(())
    }
}
