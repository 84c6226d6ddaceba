//! The rules of the tree of kernels: it has each kernel once, in order, and nothing but carried
//! buffers goes from one iteration of a loop to the next or out of it. A loop without a number of
//! iterations has an exit.

use std::collections::{BTreeMap, BTreeSet};

use super::{Result, fail, known_size};
use crate::nest::{Buffer, BufferId, Carried, KernelId, Node, Program, Repeat, Role, kernels_in};
use crate::{Dtype, visit};

/// Checks the tree.
pub(super) fn tree(program: &Program) -> Result {
    let kernels = kernels_in(&program.body);
    if !kernels.iter().copied().eq(program.kernels.keys()) {
        return fail("the tree of kernels", "does not have each kernel once, in the order of their numbers");
    }
    if program.body.iter().all(|node| matches!(node, Node::Kernel(_))) {
        return Ok(());
    }
    // Buffers that nothing fills at all are not for this check: engines add some.
    let mut filled: BTreeSet<BufferId> = program.buffers.keys().collect();
    program.kernels.values().flat_map(|kernel| visit::stores(&kernel.body)).for_each(|id| _ = filled.remove(&id));
    program.carried().flat_map(|carried| [carried.current, carried.next]).for_each(|id| _ = filled.remove(&id));
    filled.extend(program.buffers.iter().filter(|(_, b)| b.role == Role::Scratch).map(|(id, _)| id));
    let mut checker = Checker { program, filled, fillers: BTreeMap::new(), loops: 0 };
    checker.sequence(&program.body, Filler::Body(0))
}

/// Where a buffer gets its contents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filler {
    /// From kernels in the body of the n-th loop, of no loop inside it; 0 is the program.
    Body(usize),
    /// From what a loop carries.
    Carried,
}

/// The check of a program with loops over kernels, on its way through the tree.
struct Checker<'p> {
    program: &'p Program,
    /// The buffers that have contents here.
    filled: BTreeSet<BufferId>,
    fillers: BTreeMap<BufferId, Filler>,
    /// How many loops there have been.
    loops: usize,
}

impl Checker<'_> {
    fn sequence(&mut self, nodes: &[Node], here: Filler) -> Result {
        nodes.iter().try_for_each(|node| match node {
            Node::Kernel(id) => self.kernel(*id, here),
            Node::Repeat(repeat) => self.repeat(repeat),
            Node::Exit { unless } => self.exit(*unless, here),
        })
    }

    fn kernel(&mut self, id: KernelId, here: Filler) -> Result {
        let kernel = &self.program.kernels[id];
        let place = || format!("kernel @{}", kernel.name);
        let stores = visit::stores(&kernel.body);
        for buffer in stores.iter().copied() {
            if here != Filler::Body(0) && matches!(self.program.buffers[buffer].role, Role::Output(_)) {
                return fail(place(), format!("a loop over kernels stores the result {}", self.name(buffer)));
            }
            if *self.fillers.entry(buffer).or_insert(here) != here {
                return fail(place(), format!("{} gets its contents elsewhere", self.name(buffer)));
            }
        }
        self.filled.extend(stores);
        match visit::loads(&kernel.body).into_iter().find(|buffer| !self.filled.contains(buffer)) {
            Some(buffer) => fail(place(), format!("{} has no contents here", self.name(buffer))),
            None => Ok(()),
        }
    }

    fn repeat(&mut self, repeat: &Repeat) -> Result {
        let place = "a loop over kernels";
        if repeat.trips.as_ref().is_some_and(|trips| !known_size(self.program, trips)) {
            return fail(place, "a size name of its number of iterations is not there");
        }
        if repeat.carried.is_empty() {
            return fail(place, "carries nothing");
        }
        if repeat.trips.is_none() && repeat.conditions().next().is_none() {
            return fail(place, "never ends");
        }
        self.loops += 1;
        let here = Filler::Body(self.loops);
        repeat.carried.iter().try_for_each(|carried| self.carried(carried, here))?;
        self.filled.extend(repeat.carried.iter().map(|carried| carried.current));
        let around = self.filled.clone();
        self.sequence(&repeat.body, here)?;
        let filled = std::mem::replace(&mut self.filled, around);
        match repeat.carried.iter().find(|carried| !filled.contains(&carried.next)) {
            Some(carried) => fail(place, format!("its body does not store {}", self.name(carried.next))),
            None => Ok(()),
        }
    }

    /// Checks an exit of the loop whose body is `here`.
    fn exit(&self, unless: BufferId, here: Filler) -> Result {
        let place = || format!("exit unless {}", self.name(unless));
        if here == Filler::Body(0) {
            return fail(place(), "stands in no loop over kernels");
        }
        let is_flag = |b: &Buffer| b.dtype == Dtype::Bool && b.shape.is_empty() && b.role != Role::Scratch;
        if !self.program.buffers.get(unless).is_some_and(is_flag) {
            return fail(place(), "is no `bool` without axes");
        }
        if !self.filled.contains(&unless) {
            return fail(place(), "has no contents here");
        }
        Ok(())
    }

    /// Checks what a loop carries, whose body is `here`, and notes who fills it.
    fn carried(&mut self, carried: &Carried, here: Filler) -> Result {
        let [initial, current, next] = carried.buffers();
        let place = || format!("carried {}", self.name(current));
        let buffers = &self.program.buffers;
        let (Some(first), Some(own), Some(other)) = (buffers.get(initial), buffers.get(current), buffers.get(next))
        else {
            return fail(place(), "a buffer is not there");
        };
        let is_alike = |b: &Buffer| b.dtype == own.dtype && b.shape == own.shape;
        if !is_alike(first) || !is_alike(other) {
            return fail(place(), "is not of one type and shape with what it begins with and what is stored");
        }
        if first.role == Role::Scratch || own.role != Role::Temp || other.role != Role::Temp {
            return fail(place(), "begins as scratch, or is no temporary");
        }
        if !self.filled.contains(&initial) {
            return fail(place(), format!("{} has no contents here", self.name(initial)));
        }
        let taken = [current, next].into_iter().find(|id| self.fillers.contains_key(id));
        if let Some(taken) = taken.or((current == next).then_some(next)) {
            return fail(place(), format!("{} gets its contents elsewhere", self.name(taken)));
        }
        self.fillers.extend([(current, Filler::Carried), (next, here)]);
        Ok(())
    }

    fn name(&self, buffer: BufferId) -> String {
        self.program.buffers.get(buffer).map_or_else(|| buffer.to_string(), |b| format!("%{}", b.name))
    }
}
