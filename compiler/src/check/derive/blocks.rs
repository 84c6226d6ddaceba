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
//! that of 32 in place of `steps`. That costs the steps of the loop once more.

use std::collections::BTreeMap;

use ir::checked::{ExprId, IndexId, Loop, LoopId};
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
    pub(super) fn in_blocks(&mut self, of: LoopId, steps: &Size, here: Here) -> Option<Option<Vec<ExprId>>> {
        let long = steps.as_constant().map_or_else(|| self.facts().never_negative(steps), |steps| steps > 2 * STEPS);
        if !long || self.blocks.contains(&of) {
            return Some(None);
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
        self.blocks.extend([outer, last]);
        Some(Some(states))
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
