//! Long loops, as loops over blocks of steps, which the way back takes one by one.
//!
//! ```text
//! loop s = first, b < steps / 32 {
//!     loop s = s, t < 32 { (step 32 * b + t) }
//! }
//! and then the steps that are left
//! ```
//!
//! The way back through a loop keeps the states of its steps. Through this one it keeps those that
//! blocks begin with, and, of one block at a time, those of its steps, which it computes again. So
//! the states take memory for `steps / 32 + 32` steps in place of `steps`, and a step passes over
//! that of 32 in place of `steps`. That costs the steps of the loop once more. If memory is short,
//! the loop over blocks goes by blocks too: then the states are those of `steps / 1024 + 64` steps,
//! and the steps are computed twice more.

use std::collections::BTreeMap;

use ir::checked::{Blocks, ExprId, IndexId, Loop, LoopId, State};
use ir::sabotage::{self, Bug};
use ir::{Affine, Size};

use super::super::Checker;
use super::super::arena::Here;
use super::copy::Place;

/// The number of steps in a block.
const STEPS: i64 = 32;

/// A part of the steps of a loop.
struct Steps {
    /// How many.
    count: Size,
    /// The number of the first one.
    first: Affine<IndexId>,
}

impl Checker<'_> {
    /// The last states of a loop, computed in blocks, if it is a long one.
    pub(super) fn in_blocks(
        &mut self,
        (id, of): (ExprId, LoopId),
        steps: &Size,
        here: Here,
    ) -> Option<Option<Vec<ExprId>>> {
        let depth = self.blocks.get(&of).copied().unwrap_or(self.depth);
        if !self.is_long(steps) || depth == 0 {
            return Some(None);
        }
        if !self.blocks.contains_key(&of) {
            self.note((id, of), steps);
        }
        let Loop { step, states, around, .. } = self.arena.out.loops[of].clone();
        let name = self.arena.out.indices[step].name.clone();
        let count = steps.floor_div(&Size::constant(STEPS));
        let begin = self.arena.out.exprs.next_key();
        let block = self.arena.index(&name, Affine::size(count.clone()), here.span);
        let outer = self.arena.begin_loop(block, begin, around.clone(), here.guard, false);
        let firsts = states.iter().map(|state| state.first).collect::<Vec<_>>();
        let currents = self.begin_states(outer, of, &firsts, here);
        let late = Affine::constant(i64::from(sabotage::on(Bug::BlockLate)));
        let first = Affine::index(block).scale(&Size::constant(STEPS)).add(&late);
        let inside: Vec<IndexId> = around.iter().copied().chain([block]).collect();
        let one = Steps { count: Size::constant(STEPS), first };
        let (_, nexts) = self.part_of(of, (&one, inside), &currents, here)?;
        for (number, next) in nexts.into_iter().enumerate() {
            let state = &mut self.arena.out.loops[outer].states[number];
            (state.next, state.needs) = (next, states[number].needs.clone());
        }
        let done = &count * &Size::constant(STEPS);
        let left = Steps { count: steps - &done, first: Affine::size(done) };
        let firsts: Vec<ExprId> =
            (0..states.len()).map(|number| self.last_state((outer, block), number, here)).collect();
        let (last, states) = self.part_of(of, (&left, around), &firsts, here)?;
        self.blocks.extend([(outer, depth - 1), (last, 0)]);
        Some(Some(states))
    }

    /// Whether a loop with this number of steps goes by blocks.
    fn is_long(&self, steps: &Size) -> bool {
        steps.as_constant().map_or_else(|| self.facts().never_negative(steps), |steps| steps > 2 * STEPS)
    }

    /// Notes that a loop goes by blocks.
    fn note(&mut self, (id, of): (ExprId, LoopId), steps: &Size) {
        let Loop { states, around, .. } = &self.arena.out.loops[of];
        let mut lengths = around.iter().map(|index| self.arena.out.indices[*index].extent.as_size().cloned());
        let loops = lengths.try_fold(Size::constant(1), |loops, length| Some(&loops * &length?));
        let of_one = |state: &State| {
            let ty = &self.arena.out.exprs[state.current].ty;
            let width = i64::try_from(ty.dtype.bytes()).unwrap_or(i64::MAX);
            ty.shape.iter().fold(Size::constant(width), |bytes, length| &bytes * length)
        };
        let one = states.iter().map(of_one).fold(Size::constant(0), |sum, bytes| &sum + &bytes);
        let bytes = loops.map(|loops| &loops * &one);
        let (mut depth, mut left) = (0, steps.clone());
        while depth < self.depth && self.is_long(&left) {
            (depth, left) = (depth + 1, left.floor_div(&Size::constant(STEPS)));
        }
        let (origin, steps) = (self.arena.out.exprs[id].origin, steps.clone());
        self.arena.out.blocks.push(Blocks { origin, steps, bytes, length: STEPS, depth });
    }

    /// A loop over a part of the steps of another one, and its last states.
    fn part_of(
        &mut self,
        of: LoopId,
        (steps, around): (&Steps, Vec<IndexId>),
        firsts: &[ExprId],
        here: Here,
    ) -> Option<(LoopId, Vec<ExprId>)> {
        let Loop { step, states, .. } = self.arena.out.loops[of].clone();
        let name = self.arena.out.indices[step].name.clone();
        let begin = self.arena.out.exprs.next_key();
        let own = self.arena.index(&name, Affine::size(steps.count.clone()), here.span);
        let part = self.arena.begin_loop(own, begin, around, here.guard, false);
        let currents = self.begin_states(part, of, firsts, here);
        let value = self.number_node(&steps.first.add(&Affine::index(own)), here);
        let mut place = Place::new(BTreeMap::from([(step, value)]), here.guard, here);
        place.states.extend(currents.iter().enumerate().map(|(number, current)| ((of, number), *current)));
        for (number, state) in states.iter().enumerate() {
            let next = self.copy(state.next, &mut place)?;
            let made = &mut self.arena.out.loops[part].states[number];
            (made.next, made.needs) = (next, state.needs.clone());
        }
        let last = (0..states.len()).map(|number| self.last_state((part, own), number, here)).collect();
        Some((part, last))
    }

    /// Gives a loop the states of another one, with other first values.
    fn begin_states(&mut self, to: LoopId, of: LoopId, firsts: &[ExprId], here: Here) -> Vec<ExprId> {
        let states = self.arena.out.loops[of].states.clone();
        let mut currents = vec![];
        for (state, first) in states.into_iter().zip(firsts) {
            let name = self.arena.out.exprs[state.current].name.clone();
            currents.push(self.more_state(to, *first, name, here));
        }
        currents
    }
}
