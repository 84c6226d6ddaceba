//! Loops: all steps, one after another, at each setting of the indices around.

use std::rc::Rc;

use ir::Scalar;
use ir::checked::LoopId;

use super::machine::{Machine, Step, Stop};

/// The parts of a state that something needs, each with its elements, row-major; the others have
/// none.
pub(super) type State = Rc<Vec<Vec<Scalar>>>;

impl Machine<'_> {
    /// An element of a part of the state after the last step.
    pub(super) fn last_state(&mut self, of: LoopId, part: usize, number: usize) -> Step<Scalar> {
        if self.outcome(of).is_none() {
            let state = self.run(of)?;
            *self.outcome(of) = Some(state);
        }
        let found = self.outcome(of).as_ref().map(|state| state[part][number]);
        found.ok_or(Stop::NoStep)
    }

    /// An element of a part of the state within the step that is running.
    pub(super) fn state(&self, of: LoopId, part: usize, number: usize) -> Step<Scalar> {
        self.running.get(&of).map(|state| state[part][number]).ok_or(Stop::NoStep)
    }

    /// Runs all steps.
    fn run(&mut self, of: LoopId) -> Step<State> {
        let checked = self.checked;
        let one = &checked.loops[of];
        let needed = self.facts.needed(of).to_vec();
        let steps = self.extent(one.step)?;
        let mut state = vec![vec![]; one.states.len()];
        for part in &needed {
            state[*part] = self.elements(one.states[*part].first)?;
        }
        for step in 0..steps {
            self.set(one.step, step);
            self.running.insert(of, Rc::new(state));
            let goes_on = match one.condition {
                Some(condition) => self.value(condition)? == Scalar::Bool(true),
                None => true,
            };
            let mut next = vec![vec![]; one.states.len()];
            for part in needed.iter().filter(|_| goes_on) {
                next[*part] = self.elements(one.states[*part].next)?;
            }
            let before = self.running.remove(&of).ok_or(Stop::NoStep)?;
            if !goes_on {
                return Ok(before);
            }
            state = next;
        }
        Ok(Rc::new(state))
    }
}
