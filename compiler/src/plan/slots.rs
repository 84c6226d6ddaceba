//! Slots: temporaries that are not needed at once share memory.
//!
//! First, what can be computed in place of an operand that ends there is: both are one *group*. Then the groups
//! go into slots, the largest first (at nominal sizes), so that a slot is made as large as it will be by its first
//! one: "greedy by size" of Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020. Of
//! slots that are free for as long as a group lives, it takes a result that is not yet begun and has its size; one of its
//! size; a larger one. Among groups of one size this needs no more slots than live at once.
//!
//! Sizes are known at a call only, so a group may turn out larger than the one that opened its slot. A slot is as large as
//! the largest in it: sharing never takes more than doing without.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use cranelift_entity::{EntityRef, EntitySet, PrimaryMap, SecondaryMap};
use ir::Size;
use ir::live::{Lives, Span, bytes};
use ir::nest::{BufferId, KernelId, Program, Role, SlotId};

use crate::analysis::cost::nominal;

/// How many slots of other sizes, and how many results, are looked at for one group: planning stays near-linear.
const TRIES: usize = 32;

/// Buffers that have the same memory from the first to the last, each but the first in place of the one before.
struct Group {
    members: Vec<BufferId>,
    span: Span,
    size: Size,
}

/// A slot in the making.
#[derive(Default)]
struct Open {
    /// The groups in it by their first kernels, and when each ends.
    groups: BTreeMap<KernelId, (KernelId, Vec<BufferId>)>,
}

impl Open {
    fn is_free(&self, span: Span) -> bool {
        self.groups.range(..=span.last).next_back().is_none_or(|(_, (last, _))| *last < span.first)
    }

    fn put(&mut self, group: Group) {
        self.groups.insert(group.span.first, (group.span.last, group.members));
    }
}

/// The slots of all temporaries of a program.
pub(super) fn slots(program: &Program) -> PrimaryMap<SlotId, Vec<BufferId>> {
    let is_output = |id: &BufferId| matches!(program.buffers[*id].role, Role::Output(_));
    let (hosts, mut groups): (Vec<Group>, Vec<Group>) =
        groups(program).into_iter().partition(|group| group.members.last().is_some_and(is_output));
    let mut open: Vec<Open> = vec![];
    // Results by what they can hold: elements of their width (the caller's memory may be aligned to no more).
    let mut results: BTreeMap<(Size, usize), Vec<usize>> = BTreeMap::new();
    let width = |group: &Group| group.members.first().map_or(0, |id| program.buffers[*id].dtype.bytes());
    for group in hosts {
        results.entry((group.size.clone(), width(&group))).or_default().push(open.len());
        let mut slot = Open::default();
        slot.put(group);
        open.push(slot);
    }
    let own = open.len();

    groups
        .sort_by_cached_key(|g| (Reverse(nominal(&g.size).to_bits()), g.size.clone(), g.span.first, g.members.clone()));
    // When each slot that was opened for the size at hand is free again.
    let mut same: BinaryHeap<Reverse<(KernelId, usize)>> = BinaryHeap::new();
    let mut size = Size::default();
    let mut larger = own;
    for group in groups {
        if group.size != size {
            same.clear();
            size = group.size.clone();
            larger = open.len();
        }
        let span = group.span;
        let hosts = results.get(&(size.clone(), width(&group))).map_or(&[][..], Vec::as_slice);
        let host = hosts.iter().take(TRIES).copied().find(|slot| open[*slot].is_free(span));
        let again = || same.peek().filter(|Reverse((last, _))| *last < span.first).map(|Reverse((_, slot))| *slot);
        let gap = || (own..larger).rev().take(TRIES).find(|slot| open[*slot].is_free(span));
        let found = host.or_else(again).or_else(gap);
        let slot = found.unwrap_or_else(|| {
            open.push(Open::default());
            open.len() - 1
        });
        open[slot].put(group);
        if slot >= larger {
            if found.is_some() {
                same.pop();
            }
            same.push(Reverse((span.last, slot)));
        }
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

/// Temporaries and results with what is computed in place of them.
fn groups(program: &Program) -> Vec<Group> {
    let lives = Lives::of(program);
    let mut ends: SecondaryMap<KernelId, Vec<BufferId>> = SecondaryMap::new();
    let mut begins: SecondaryMap<KernelId, Vec<BufferId>> = SecondaryMap::new();
    for (id, buffer) in &program.buffers {
        if let (Role::Temp | Role::Output(_), Some(span)) = (&buffer.role, lives.span(id)) {
            begins[span.first].push(id);
            if buffer.role == Role::Temp {
                ends[span.last].push(id);
            }
        }
    }
    let mut next: SecondaryMap<BufferId, Option<BufferId>> = SecondaryMap::new();
    let mut inherits = EntitySet::new();
    for kernel in program.kernels.keys() {
        for id in &begins[kernel] {
            let gives = ends[kernel].iter().find(|ending| next[**ending].is_none() && lives.in_place(**ending, *id));
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
            let end = members.last().and_then(|id| lives.span(*id)).map_or(KernelId::new(0), |span| span.last);
            groups.push(Group { members, span: Span { first: kernel, last: end }, size: bytes(&program.buffers[id]) });
        }
    }
    groups
}
