//! The happens-before relation. Two accesses are ordered if they are by the same thread, if a
//! barrier of their block or cluster or a `bar.warp.sync` of their lanes lies between them, or if
//! one thread released a value that the other then acquired.
//!
//! Time is counted per block in *epochs*, which end at barriers, and per warp in *steps*, one for
//! each instruction. A clock records which epochs of each block are past, and for some warps how
//! far each lane is known to have come.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::op::{Scope, Strength};
use crate::types::{LANES, lanes};

/// An access, or several by lanes of a warp at one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) block: u32,
    pub(crate) epoch: u32,
    pub(crate) step: u32,
    pub(crate) line: u32,
    /// The lanes of the warp; none if there was no access.
    pub(crate) lanes: u32,
    pub(crate) warp: u16,
    pub(crate) strength: Strength,
}

impl Stamp {
    pub(crate) const NONE: Stamp =
        Stamp { block: 0, epoch: 0, step: 0, line: 0, lanes: 0, warp: 0, strength: Strength::Weak };

    /// Whether both may happen at the same time: each is strong, with a scope that includes the
    /// other.
    pub(crate) fn tolerates(&self, other: &Stamp) -> bool {
        match (self.strength, other.strength) {
            (Strength::Strong(a), Strength::Strong(b)) => {
                self.block == other.block || a == Scope::Device && b == Scope::Device
            }
            _ => false,
        }
    }
}

/// How far each lane of a warp has come, as far as each other lane knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meetings {
    /// The step when all lanes last met.
    all: u32,
    /// For each lane, the steps of the others. Present once some lanes have synchronized without
    /// the rest.
    some: Option<Box<[[u32; LANES]; LANES]>>,
}

impl Meetings {
    /// The last step of lane `of` that lane `by` knows to be past.
    fn known(&self, by: usize, of: usize) -> u32 {
        self.some.as_ref().map_or(self.all, |some| some[by][of])
    }

    /// The lanes of a mask synchronize, in a warp that has `members`.
    pub(crate) fn meet(&mut self, mask: u32, members: u32, step: u32) {
        if mask == members {
            *self = Meetings { all: step, some: None };
            return;
        }
        let some = self.some.get_or_insert_with(|| Box::new([[self.all; LANES]; LANES]));
        let mut joined = [0; LANES];
        for lane in lanes(mask) {
            for (to, from) in joined.iter_mut().zip(&some[lane]) {
                *to = (*to).max(*from);
            }
        }
        for lane in lanes(mask) {
            joined[lane] = step;
        }
        for lane in lanes(mask) {
            some[lane] = joined;
        }
    }
}

/// The past, by block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    blocks: BTreeMap<u32, Past>,
}

#[derive(Clone, Debug, Default)]
struct Past {
    /// All epochs below.
    epoch: u32,
    /// By warp, the steps of each lane.
    steps: BTreeMap<u16, [u32; LANES]>,
}

impl Clock {
    /// Whether the accesses of these lanes are past.
    fn covers(&self, stamp: &Stamp, who: u32) -> bool {
        self.blocks.get(&stamp.block).is_some_and(|past| {
            stamp.epoch < past.epoch
                || past.steps.get(&stamp.warp).is_some_and(|steps| lanes(who).all(|lane| stamp.step <= steps[lane]))
        })
    }

    /// Whether all that is past for the other one is past.
    fn includes(&self, other: &Clock) -> bool {
        other.blocks.iter().all(|(block, theirs)| {
            self.blocks.get(block).is_some_and(|past| {
                let has = |(warp, theirs): (&u16, &[u32; LANES])| {
                    past.steps.get(warp).is_some_and(|steps| steps.iter().zip(theirs).all(|(own, step)| step <= own))
                };
                theirs.epoch <= past.epoch && theirs.steps.iter().all(has)
            })
        })
    }

    fn join(&mut self, other: &Clock) {
        for (block, theirs) in &other.blocks {
            let past = self.blocks.entry(*block).or_default();
            past.epoch = past.epoch.max(theirs.epoch);
            for (warp, theirs) in &theirs.steps {
                let steps = past.steps.entry(*warp).or_insert([0; LANES]);
                for (to, from) in steps.iter_mut().zip(theirs) {
                    *to = (*to).max(*from);
                }
            }
        }
    }
}

/// A clock that is passed on to the readers of a value.
#[derive(Clone, Debug)]
struct Released {
    clock: Rc<Clock>,
    scope: Scope,
    block: u32,
}

impl Released {
    fn reaches(&self, block: u32, scope: Scope) -> bool {
        self.block == block || self.scope == Scope::Device && scope == Scope::Device
    }
}

/// A clock that threads of a warp have acquired since the last barrier of their block.
#[derive(Debug)]
struct Acquired {
    lanes: u32,
    step: u32,
    clock: Rc<Clock>,
}

/// The effect of fences on a thread's relaxed accesses.
#[derive(Debug, Default)]
struct Fenced {
    /// The clock that the last fence released, for later writes.
    released: Option<Released>,
    /// The clocks that reads before the next fence have seen.
    seen: Vec<Released>,
}

/// The knowledge of a block's threads about others.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// All of them, since the last barrier.
    common: Clock,
    /// By warp.
    acquired: BTreeMap<u16, Vec<Acquired>>,
    fences: HashMap<(u16, usize), Fenced>,
}

/// A thread at a step, as it accesses memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now<'a> {
    /// Of this lane alone.
    pub(crate) stamp: Stamp,
    pub(crate) lane: usize,
    pub(crate) meetings: &'a Meetings,
}

impl Knowledge {
    /// All threads of the block have synchronized, so each knows what any of them knew.
    pub(crate) fn barrier(&mut self) {
        for acquired in std::mem::take(&mut self.acquired).into_values().flatten() {
            self.common.join(&acquired.clock);
        }
    }

    /// A thread arrives where a part of the block meets: the others gain its knowledge.
    pub(crate) fn tell(&self, clock: &mut Clock, now: &Now<'_>) {
        clock.join(&self.release(now));
    }

    /// A thread has met others, and has the knowledge of all, its own included.
    pub(crate) fn learn(&mut self, clock: &Rc<Clock>, now: &Now<'_>) {
        let of_warp = self.acquired.entry(now.stamp.warp).or_default();
        of_warp.iter_mut().for_each(|acquired| acquired.lanes &= !(1 << now.lane));
        of_warp.retain(|acquired| acquired.lanes != 0);
        of_warp.push(Acquired { lanes: 1 << now.lane, step: now.stamp.step, clock: Rc::clone(clock) });
    }

    /// Threads of a warp gain knowledge, all that are left of it or some.
    pub(crate) fn gain(&mut self, clock: &Rc<Clock>, (warp, lanes, step): (u16, u32, u32), whole: bool) {
        let of_warp = self.acquired.entry(warp).or_default();
        // A thread that asks again gains nothing.
        if of_warp.iter().any(|a| Rc::ptr_eq(&a.clock, clock) && a.lanes & lanes == lanes) {
            return;
        }
        // Clocks of long ago are part of the new one.
        of_warp.retain(|a| !(whole && clock.includes(&a.clock)));
        of_warp.push(Acquired { lanes, step, clock: Rc::clone(clock) });
    }

    /// The threads of a cluster have synchronized: each knows what any of them knew, and that
    /// everything in the past epochs of their blocks is past.
    pub(crate) fn meet(blocks: &mut [(u32, u32, &mut Knowledge)]) {
        let mut all = Clock::default();
        for (block, epoch, knowledge) in &*blocks {
            all.join(&knowledge.common);
            let past = all.blocks.entry(*block).or_default();
            past.epoch = past.epoch.max(*epoch);
        }
        blocks.iter_mut().for_each(|(.., knowledge)| knowledge.common = all.clone());
    }

    /// Whether the accesses of a past stamp happen before the present action of a thread.
    pub(crate) fn ordered(&self, past: &Stamp, now: &Now<'_>) -> bool {
        let mut who = past.lanes;
        if past.block == now.stamp.block {
            // A barrier of the block lies between them.
            if past.epoch < now.stamp.epoch {
                return true;
            }
            if past.warp == now.stamp.warp {
                // A thread is ordered after its own accesses; the other lanes must have
                // synchronized with it.
                who &= !(1 << now.lane);
                if lanes(who).all(|lane| past.step <= now.meetings.known(now.lane, lane)) {
                    return true;
                }
            }
        }
        let acquired = || self.visible(now).any(|a| a.clock.covers(past, who));
        self.common.covers(past, who) || acquired()
    }

    /// Everything that happens before the present action of a thread, this action included.
    pub(crate) fn release(&self, now: &Now<'_>) -> Rc<Clock> {
        let mut clock = self.common.clone();
        self.visible(now).for_each(|acquired| clock.join(&acquired.clock));
        let past = clock.blocks.entry(now.stamp.block).or_default();
        past.epoch = past.epoch.max(now.stamp.epoch);
        let steps = past.steps.entry(now.stamp.warp).or_insert([0; LANES]);
        for (lane, step) in steps.iter_mut().enumerate() {
            *step = (*step).max(now.meetings.known(now.lane, lane));
        }
        steps[now.lane] = now.stamp.step;
        Rc::new(clock)
    }

    fn acquire(&mut self, released: &Released, now: &Now<'_>) {
        let clock = &released.clock;
        self.gain(clock, (now.stamp.warp, 1 << now.lane, now.stamp.step), false);
    }

    /// The clocks that a thread has acquired, or knows another one to have acquired.
    fn visible<'k>(&'k self, now: &'k Now<'_>) -> impl Iterator<Item = &'k Acquired> {
        let is_known =
            |a: &&Acquired| lanes(a.lanes).any(|lane| lane == now.lane || a.step <= now.meetings.known(now.lane, lane));
        self.acquired.get(&now.stamp.warp).into_iter().flatten().filter(is_known)
    }

    /// A thread executes a fence: its earlier reads are acquired, and its later writes release.
    pub(crate) fn fence(&mut self, scope: Scope, now: &Now<'_>) {
        let thread = (now.stamp.warp, now.lane);
        let block = now.stamp.block;
        for seen in std::mem::take(&mut self.fences.entry(thread).or_default().seen) {
            if seen.reaches(block, scope) {
                self.acquire(&seen, now);
            }
        }
        let released = Released { clock: self.release(now), scope, block };
        self.fences.entry(thread).or_default().released = Some(released);
    }
}

/// The location of a value that carries a clock: in global memory, or in that of a block.
pub(crate) type Place = (Option<u32>, u64);

/// Values that carry what their writers released.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    carried: HashMap<Place, Vec<Released>>,
}

impl Flags {
    /// A thread reads a place.
    pub(crate) fn read(&self, place: Place, acquire: bool, now: &Now<'_>, knowledge: &mut Knowledge) {
        let Strength::Strong(scope) = now.stamp.strength else {
            return;
        };
        for released in self.carried.get(&place).into_iter().flatten() {
            if !released.reaches(now.stamp.block, scope) {
                continue;
            }
            if acquire {
                knowledge.acquire(released, now);
            } else {
                let seen = &mut knowledge.fences.entry((now.stamp.warp, now.lane)).or_default().seen;
                if !seen.iter().any(|s| Rc::ptr_eq(&s.clock, &released.clock)) {
                    seen.push(released.clone());
                }
            }
        }
    }

    /// A thread writes a location. With `modify`, the clocks of the old value are kept.
    pub(crate) fn write(
        &mut self,
        place: Place,
        (release, modify): (bool, bool),
        now: &Now<'_>,
        knowledge: &Knowledge,
    ) {
        let fresh = match now.stamp.strength {
            Strength::Strong(scope) if release => {
                Some(Released { clock: knowledge.release(now), scope, block: now.stamp.block })
            }
            // A fence may reach further than the write, but threads out of the write's reach race
            // with it already.
            Strength::Strong(_) => {
                let fenced = knowledge.fences.get(&(now.stamp.warp, now.lane));
                fenced.and_then(|f| f.released.clone())
            }
            _ => None,
        };
        if fresh.is_none() && (modify || self.carried.is_empty()) {
            return;
        }
        let carried = self.carried.entry(place).or_default();
        if !modify {
            carried.clear();
        }
        let Some(fresh) = fresh else {
            self.carried.remove(&place);
            return;
        };
        match carried.last_mut() {
            // Consecutive releases to the device merge into one clock.
            Some(last) if last.scope == Scope::Device && fresh.scope == Scope::Device => {
                Rc::make_mut(&mut last.clock).join(&fresh.clock);
            }
            _ => carried.push(fresh),
        }
    }
}
