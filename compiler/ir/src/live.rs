//! The lifetimes of buffers, in kernels, which decide whether buffers may share memory.
//!
//! A temporary lives from the first kernel that mentions it to the last; an output, from the first
//! to the end of the call. If one ends in the kernel in which another begins, the second may still
//! take over the first's memory *in place*: iterations of parallel loops must store the second
//! exactly where, in the same block, they have loaded the first, and nothing else there may load
//! it. Then no element is overwritten before its last read, however iterations are distributed over
//! vectors and threads, since only this iteration uses it. (The body of a loop around contractions
//! is no such block: its statements run over many iterations, one after another.)
//!
//! In a loop over kernels every iteration reads again what was there before the loop, which lives to
//! the end of the loop at least. So does what the loop carries: its two buffers exchange their memory,
//! and if there is no iteration, the loop leaves what it began with. None of these is taken over in
//! place, except that of the two buffers one may replace the other within the memory of both.

use std::collections::BTreeMap;

use cranelift_entity::{EntityRef, EntitySet, SecondaryMap};

use crate::Size;
use crate::nest::{
    Block, Buffer, BufferId, Carried, KernelId, LoopKind, Node, Program, Repeat, Role, Statement, Subscript,
    kernels_in, repeats_in,
};

/// The life of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRange {
    /// The first kernel that mentions it.
    pub first: KernelId,
    /// The last one; for outputs, one beyond the program's last kernel.
    pub last: KernelId,
}

/// The lives of a program's temporaries and outputs.
pub struct Lives<'p> {
    program: &'p Program,
    ranges: SecondaryMap<BufferId, Option<LiveRange>>,
    places: SecondaryMap<KernelId, AccessPoints<'p>>,
    /// Buffers that live longer than kernels mention them, because of loops over kernels.
    held: EntitySet<BufferId>,
    /// The buffers that an iteration may replace in place: each `current` with its `next`.
    replaced: BTreeMap<BufferId, BufferId>,
}

/// The place where a kernel accesses each buffer, if it does so in one place only.
#[derive(Clone, Default)]
struct AccessPoints<'p> {
    loads: BTreeMap<BufferId, Option<AccessPoint<'p>>>,
    stores: BTreeMap<BufferId, Option<AccessPoint<'p>>>,
}

/// A place in a block of a kernel, inside at least one loop and only parallel ones.
#[derive(Clone, Copy)]
struct AccessPoint<'p> {
    /// The block, in text order.
    block: usize,
    at: &'p [Subscript],
    /// The statement, in its block.
    statement: usize,
}

impl<'p> Lives<'p> {
    /// Looks at a program.
    pub fn of(program: &'p Program) -> Lives<'p> {
        let (ranges, places) = (SecondaryMap::new(), SecondaryMap::new());
        let mut lives = Lives { program, ranges, places, held: EntitySet::new(), replaced: BTreeMap::new() };
        for (id, kernel) in &program.kernels {
            let mut walk = Walk { places: AccessPoints::default(), blocks: 0 };
            walk.block(&kernel.body, Inside { top: true, ..Inside::default() });
            for buffer in walk.places.loads.keys().chain(walk.places.stores.keys()) {
                let last = match program.buffers[*buffer].role {
                    Role::Output(_) => KernelId::new(program.kernels.len()),
                    Role::Input(_) | Role::Temp | Role::Scratch | Role::Constant(_) => id,
                };
                lives.ranges[*buffer].get_or_insert(LiveRange { first: id, last }).last = last;
            }
            lives.places[id] = walk.places;
        }
        let repeats = program.repeats();
        repeats.iter().for_each(|repeat| lives.begin(repeat));
        repeats.iter().for_each(|repeat| lives.exits(repeat));
        // Later and inner loops first: they may begin with what an earlier or outer one carries.
        repeats.iter().rev().for_each(|repeat| lives.hold(repeat));
        for repeat in repeats {
            let replaced = repeat.carried.iter().filter(|carried| lives.replaces(repeat, carried));
            let replaced: Vec<_> = replaced.map(|carried| (carried.current, carried.next)).collect();
            lives.replaced.extend(replaced);
        }
        lives
    }

    /// Whether an iteration of a loop may replace what is carried in place: the kernel that stores
    /// the new contents is the last one to read the old ones, element by element.
    fn replaces(&self, repeat: &Repeat, carried: &Carried) -> bool {
        let Carried { current, next, .. } = *carried;
        let stores = |node: &Node| matches!(node, Node::Kernel(id) if self.places[*id].stores.contains_key(&next));
        let Some(at) = repeat.body.iter().position(stores) else { return false };
        let [Node::Kernel(id), after @ ..] = &repeat.body[at..] else { return false };
        // A loop that begins with the old contents may leave them for later kernels, and one that
        // ends here leaves them for those behind it.
        let begins = |inner: &&Repeat| inner.carried.iter().any(|other| other.initial == current);
        !repeats_in(&repeat.body).iter().any(begins)
            && !after.iter().any(|node| matches!(node, Node::Exit { .. }))
            && !kernels_in(after).iter().any(|id| self.places[*id].loads.contains_key(&current))
            && same_elements(&self.program.buffers[current], &self.program.buffers[next])
            && self.places[*id].replaces(current, next)
    }

    /// Makes what a loop over kernels carries live from its beginning, even if only kernels of a
    /// later loop mention it.
    fn begin(&mut self, repeat: &Repeat) {
        let Some(begin) = kernels_in(&repeat.body).first().copied() else { return };
        for buffer in repeat.carried.iter().flat_map(|carried| carried.buffers()) {
            let range = self.ranges[buffer].get_or_insert(LiveRange { first: begin, last: begin });
            range.first = range.first.min(begin);
        }
    }

    /// Makes the conditions of a loop's exits live until they are looked at: to the kernel before.
    fn exits(&mut self, repeat: &Repeat) {
        for (at, node) in repeat.body.iter().enumerate() {
            let Node::Exit { unless } = node else { continue };
            let before = kernels_in(&repeat.body[..at]).last().copied();
            let Some(last) = before.or_else(|| kernels_in(&repeat.body).first().copied()) else { continue };
            if let Some(range) = &mut self.ranges[*unless] {
                range.last = range.last.max(last);
            }
        }
    }

    /// Makes what a loop over kernels needs live as long as it has to.
    fn hold(&mut self, repeat: &Repeat) {
        let kernels = kernels_in(&repeat.body);
        let (Some(begin), Some(end)) = (kernels.first().copied(), kernels.last().copied()) else { return };
        for carried in &repeat.carried {
            let own = LiveRange { first: begin, last: end };
            let last = self.ranges[carried.current].unwrap_or(own).last.max(end);
            for buffer in carried.buffers() {
                let range = self.ranges[buffer].get_or_insert(own);
                *range = LiveRange { first: range.first.min(begin), last: range.last.max(last) };
                self.held.insert(buffer);
            }
        }
        for buffer in self.program.buffers.keys() {
            if let Some(range) = &mut self.ranges[buffer]
                && range.first < begin
                && (begin..=end).contains(&range.last)
            {
                range.last = end;
                self.held.insert(buffer);
            }
        }
    }

    /// The lifetime of a buffer, unless no kernel mentions it.
    pub fn live_range(&self, buffer: BufferId) -> Option<LiveRange> {
        self.ranges[buffer]
    }

    /// Whether a buffer may use the memory that another one had before.
    pub fn follows(&self, earlier: BufferId, later: BufferId) -> bool {
        let (Some(before), Some(after)) = (self.ranges[earlier], self.ranges[later]) else { return false };
        before.last < after.first || self.in_place(earlier, later)
    }

    /// Whether a buffer begins in the kernel in which another ends, and can take over its memory
    /// element by element.
    pub fn in_place(&self, earlier: BufferId, later: BufferId) -> bool {
        if self.replaced.get(&earlier) == Some(&later) {
            return true;
        }
        let (Some(before), Some(after)) = (self.ranges[earlier], self.ranges[later]) else { return false };
        let [from, to] = [earlier, later].map(|id| &self.program.buffers[id]);
        if self.held.contains(earlier) || self.held.contains(later) {
            return false;
        }
        if !(before.first < before.last && before.last == after.first && same_elements(from, to)) {
            return false;
        }
        self.places[after.first].replaces(earlier, later)
    }

    /// The buffers that iterations of loops over kernels may replace in place: `current`, `next`.
    pub fn replaced(&self) -> impl Iterator<Item = (BufferId, BufferId)> {
        self.replaced.iter().map(|(current, next)| (*current, *next))
    }
}

impl AccessPoints<'_> {
    /// Whether the kernel stores one buffer exactly where it has just loaded another.
    fn replaces(&self, earlier: BufferId, later: BufferId) -> bool {
        let (Some(Some(load)), Some(Some(store))) = (self.loads.get(&earlier), self.stores.get(&later)) else {
            return false;
        };
        load.block == store.block && load.statement < store.statement && load.at == store.at
    }
}

/// Whether elements with the same subscripts occupy the same bytes of their buffers.
fn same_elements(a: &Buffer, b: &Buffer) -> bool {
    a.dtype.bytes() == b.dtype.bytes() && a.shape == b.shape
}

/// The bytes of a buffer. (For a temporary with a length that can be negative, at a call where it
/// is not.)
pub fn bytes(buffer: &Buffer) -> Size {
    let width = Size::constant(i64::try_from(buffer.dtype.bytes()).unwrap_or(i64::MAX));
    buffer.shape.iter().fold(width, |product, length| &product * length)
}

/// Where a block stands.
#[derive(Clone, Copy, Default)]
struct Inside {
    /// It is the kernel's.
    top: bool,
    /// It is inside parallel loops only.
    parallel: bool,
    /// It is the body of a loop around contractions.
    distributed: bool,
}

/// The search for the places of one kernel.
struct Walk<'p> {
    places: AccessPoints<'p>,
    blocks: usize,
}

impl<'p> Walk<'p> {
    /// Visits a block.
    fn block(&mut self, block: &'p Block, inside: Inside) {
        let number = self.blocks;
        self.blocks += 1;
        for (at_statement, statement) in block.iter().enumerate() {
            let apart = inside.parallel && !inside.distributed;
            let place = |at| apart.then_some(AccessPoint { block: number, at, statement: at_statement });
            let effects = statement.effects();
            if let Some(load) = effects.load {
                let place = if load.view.is_none() { place(load.at) } else { None };
                let known = self.places.loads.entry(load.buffer).or_insert(place);
                // Several loads of one element in one block still allow an in-place store after the
                // last of them.
                *known = known.zip(place).filter(|(a, b)| a.block == b.block && a.at == b.at).map(|(_, later)| later);
            }
            if let Some(store) = effects.store {
                // A second store, wherever it is, rules out taking over memory in place.
                let known = self.places.stores.contains_key(&store.buffer);
                self.places.stores.insert(store.buffer, if known { None } else { place(store.at) });
            }
            let parallel = matches!(statement, Statement::Loop(l) if matches!(l.kind, LoopKind::Parallel));
            let distributed = matches!(statement, Statement::Loop(l) if l.multiplies());
            let parallel = parallel && (inside.parallel || inside.top);
            for inner in statement.blocks() {
                self.block(inner, Inside { top: false, parallel, distributed });
            }
        }
    }
}
