//! Slots: temporaries that are not needed at the same time share memory.
//!
//! First, a buffer that can be computed in place of an operand joins the operand's *group*, if the
//! operand's lifetime ends there. Then the groups are assigned to slots, the largest first (at
//! nominal sizes), so that the first group in a slot determines its size: "greedy by size" of
//! Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020. Groups of
//! one size are assigned from the end of the program to its beginning. So results, which live to
//! the end, are then slots like others, free before they begin, and there are no more slots than
//! groups that are live at once. If no slot of its size is free, a group takes a gap in a larger
//! slot.
//!
//! Sizes are known only at a call, so a group may turn out larger than the one that opened its
//! slot. A slot is as large as its largest group, so sharing never takes more memory than no
//! sharing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use cranelift_entity::{EntityRef, EntitySet, PrimaryMap, SecondaryMap};
use ir::Size;
use ir::live::{LiveRange, Lives, bytes};
use ir::nest::{BufferId, KernelId, Program, Role, SlotId};
use ir::sabotage::{self, Bug};

use crate::analysis::cost::nominal;

/// How many slots of other sizes are tried for one group, which keeps planning near-linear.
const TRIES: usize = 32;

/// Buffers that share memory throughout, each but the first computed in place of the one before.
struct Group {
    members: Vec<BufferId>,
    range: LiveRange,
    size: Size,
}

/// A slot in the making.
#[derive(Default)]
struct Open {
    /// The groups in it by their first kernels, with the end of each.
    groups: BTreeMap<KernelId, (KernelId, Vec<BufferId>)>,
}

impl Open {
    fn is_free(&self, range: LiveRange) -> bool {
        self.groups.range(..=range.last).next_back().is_none_or(|(_, (last, _))| *last < range.first)
    }

    fn put(&mut self, group: Group) {
        self.groups.insert(group.range.first, (group.range.last, group.members));
    }
}

/// Slots of one size, by the first kernel in which they are taken so far; before it they are free.
type Free = BinaryHeap<(KernelId, usize)>;

/// The slots of all temporaries of a program.
pub(super) fn slots(program: &Program) -> PrimaryMap<SlotId, Vec<BufferId>> {
    let is_output = |id: &BufferId| matches!(program.buffers[*id].role, Role::Output(_));
    let (hosts, mut groups): (Vec<Group>, Vec<Group>) =
        groups(program).into_iter().partition(|group| group.members.last().is_some_and(is_output));
    let mut open: Vec<Open> = vec![];
    // Results, by the temporaries that they can hold: those with elements of the same width,
    // because the caller's memory may have no greater alignment.
    let mut results: BTreeMap<(Size, usize), Free> = BTreeMap::new();
    let width = |group: &Group| group.members.first().map_or(0, |id| program.buffers[*id].dtype.bytes());
    for group in hosts {
        results.entry((group.size.clone(), width(&group))).or_default().push((group.range.first, open.len()));
        let mut slot = Open::default();
        slot.put(group);
        open.push(slot);
    }
    let own = open.len();

    // The largest first, and among equal ones those that end last.
    groups.sort_by_cached_key(|g| {
        let last = (g.range.last, g.range.first, g.members.clone());
        (Reverse(nominal(&g.size).to_bits()), g.size.clone(), Reverse(last))
    });
    let mut size = Size::default();
    let mut same = Free::new();
    // The slots before it are larger.
    let mut larger = own;
    for group in groups {
        if group.size != size {
            same.clear();
            size = group.size.clone();
            larger = open.len();
        }
        let range = group.range;
        let take = |free: &mut Free| {
            let (first, slot) = free.peek().copied()?;
            (range.last < first || range.last == first && sabotage::on(Bug::OverlappingSlots)).then(|| free.pop())?;
            free.push((range.first, slot));
            Some(slot)
        };
        // A result is memory of the caller, which costs nothing; then slots of this size; then gaps
        // in larger ones.
        let result = results.get_mut(&(size.clone(), width(&group))).and_then(take);
        let found = result.or_else(|| take(&mut same));
        let found = found.or_else(|| (own..larger).rev().take(TRIES).find(|slot| open[*slot].is_free(range)));
        let slot = found.unwrap_or_else(|| {
            same.push((range.first, open.len()));
            open.push(Open::default());
            open.len() - 1
        });
        open[slot].put(group);
    }

    let mut slots: Vec<Vec<BufferId>> = vec![];
    for slot in open {
        let members: Vec<BufferId> = slot.groups.into_values().flat_map(|(_, members)| members).collect();
        // A result alone has its memory anyway.
        if !members.iter().all(is_output) {
            slots.push(members);
        }
    }
    slots.sort_unstable();
    slots.into_iter().collect()
}

/// Temporaries and results, each with the buffers computed in place of it.
fn groups(program: &Program) -> Vec<Group> {
    let lives = Lives::of(program);
    let mut ends: SecondaryMap<KernelId, Vec<BufferId>> = SecondaryMap::new();
    let mut begins: SecondaryMap<KernelId, Vec<BufferId>> = SecondaryMap::new();
    for (id, buffer) in &program.buffers {
        if let (Role::Temp | Role::Output(_), Some(range)) = (&buffer.role, lives.live_range(id)) {
            begins[range.first].push(id);
            if buffer.role == Role::Temp {
                ends[range.last].push(id);
            }
        }
    }
    let mut next: SecondaryMap<BufferId, Option<BufferId>> = SecondaryMap::new();
    let mut inherits = EntitySet::new();
    for (current, carried) in lives.replaced() {
        next[current] = Some(carried);
        inherits.insert(carried);
    }
    for kernel in program.kernels.keys() {
        for id in &begins[kernel] {
            // Each temporary passes its memory on to at most one other.
            let gives = ends[kernel].iter().find(|ending| {
                next[**ending].is_none() && (lives.in_place(**ending, *id) || sabotage::on(Bug::InPlace))
            });
            if let Some(ending) = gives {
                next[*ending] = Some(*id);
                inherits.insert(*id);
            }
        }
    }
    let mut groups = vec![];
    for kernel in program.kernels.keys() {
        for id in begins[kernel].iter().copied().filter(|id| !inherits.contains(*id)) {
            let members: Vec<BufferId> = std::iter::successors(Some(id), |id| next[*id]).collect();
            let end = members.last().and_then(|id| lives.live_range(*id)).map_or(KernelId::new(0), |range| range.last);
            groups.push(Group {
                members,
                range: LiveRange { first: kernel, last: end },
                size: bytes(&program.buffers[id]),
            });
        }
    }
    groups
}
