//! Loops over carried scalars in leaves. The elements of a vector take their steps together: a mask
//! has the elements that are still live, the others keep their state, and the loop ends when none
//! is live. Its body only computes, so an element that has ended cannot load or fault.

use super::build::{Build, Name};
use super::{Inst, LeafId, LeafStep, Obstacle};
use crate::nest::{Extent, IndexId, Statement, While};
use crate::{Affine, BinaryOp, CompareOp, Dtype, Size, UnaryOp};

/// A loop over carried scalars in a leaf.
pub struct Steps {
    /// The number of the current step.
    pub counter: IndexId,
    /// The greatest number of steps, unless it differs between elements.
    pub extent: Option<Extent>,
    /// The elements that the loop runs for, unless it runs for all.
    pub active: Option<LeafId>,
    /// Computes `holds`.
    pub condition: Vec<LeafStep>,
    /// The elements that take another step, unless all do until the extent.
    pub holds: Option<LeafId>,
    /// The steps of an iteration.
    pub body: Vec<LeafStep>,
    /// The elements that take the current step.
    pub live: LeafId,
    /// The carried values.
    pub state: Vec<Carried>,
}

/// A value that is carried from step to step, as in [`crate::nest::State`].
pub struct Carried {
    /// Its value before the first step.
    pub first: LeafId,
    /// Its value before a step, which the body sees.
    pub current: LeafId,
    /// Its value after a step.
    pub next: LeafId,
    /// Its value after the last step.
    pub result: LeafId,
}

impl Steps {
    /// Whether elements may end after different numbers of steps.
    pub fn masked(&self) -> bool {
        self.active.is_some() || self.holds.is_some()
    }

    /// Calls `visit` on each value that it uses in addition to those of its steps.
    pub fn for_each_operand(&self, mut visit: impl FnMut(LeafId)) {
        self.active.into_iter().chain(self.holds).for_each(&mut visit);
        self.state.iter().for_each(|s| [s.first, s.next].into_iter().for_each(&mut visit));
    }
}

/// Whether a block has a `while`.
pub(super) fn carries(block: &[Statement]) -> bool {
    block.iter().any(|s| matches!(s, Statement::While(_)) || s.blocks().any(|inner| carries(inner)))
}

/// The blocks of a loop under construction.
struct Blocks {
    condition: Vec<LeafStep>,
    /// The value of the condition.
    holds: Option<LeafId>,
    /// The next state.
    next: Vec<LeafId>,
}

impl Build<'_> {
    /// The elements for which one side of a branch runs.
    pub(super) fn active_in(&mut self, condition: LeafId, side: bool) -> LeafId {
        let own = if side { condition } else { self.push(Dtype::Bool, Inst::Unary(UnaryOp::Not, condition)) };
        match self.active {
            Some(outer) => self.push(Dtype::Bool, Inst::Binary(BinaryOp::And, outer, own)),
            None => own,
        }
    }

    /// Adds a loop over carried scalars, if its condition and body only compute.
    pub(super) fn carried(&mut self, w: &While) -> Result<(), Obstacle> {
        let (counter, extent) = &w.counter;
        let bound = self.varying_extent(extent);
        let active = self.active;
        let mut first = vec![];
        for state in &w.state {
            if self.dtype(state.first).is_storage() {
                return Err(Obstacle::Half);
            }
            first.push(self.varying(state.first));
        }
        let live = self.leaf.values.push((Dtype::Bool, Inst::Result));
        let mut current = vec![];
        for state in &w.state {
            let id = self.leaf.values.push((self.dtype(state.first), Inst::Result));
            self.names.insert(state.current, Name::Varying(id));
            current.push(id);
        }
        let splats = self.splats.clone();
        let inside = std::mem::replace(&mut self.inside, true);
        let outer = std::mem::take(&mut self.leaf.steps);
        let masked = active.is_some() || bound.is_some() || w.condition.is_some();
        self.active = masked.then_some(live);
        let inner = self.blocks_of(w, *counter, bound);
        let body = std::mem::replace(&mut self.leaf.steps, outer);
        self.active = active;
        self.inside = inside;
        // Values that were broadcast inside of the loop are not defined after it.
        self.splats = splats;
        let Blocks { condition, holds, next } = inner?;
        let mut state = vec![];
        for (((s, first), current), next) in w.state.iter().zip(first).zip(current).zip(next) {
            let result = self.leaf.values.push((self.dtype(s.first), Inst::Result));
            self.names.insert(s.result, Name::Varying(result));
            state.push(Carried { first, current, next, result });
        }
        let extent = bound.is_none().then(|| extent.clone());
        let steps = Steps { counter: *counter, extent, active, condition, holds, body, live, state };
        self.leaf.steps.push(LeafStep::While(steps));
        Ok(())
    }

    /// The steps of the condition, its value, and the next state. The steps of the body stay where
    /// they have been added.
    fn blocks_of(&mut self, w: &While, counter: IndexId, bound: Option<LeafId>) -> Result<Blocks, Obstacle> {
        let splats = self.splats.clone();
        let mut holds = None;
        if let Some(bound) = bound {
            let base = Affine::index(counter);
            let step = self.push(Dtype::I64, Inst::Affine { base, coefficient: Size::constant(0) });
            holds = Some(self.push(Dtype::Bool, Inst::Compare(CompareOp::Lt, step, bound)));
        }
        if let Some(condition) = &w.condition {
            self.block(&condition.body, false)?;
            let value = self.varying(condition.value);
            holds = Some(match holds {
                Some(below) => self.push(Dtype::Bool, Inst::Binary(BinaryOp::And, below, value)),
                None => value,
            });
        }
        let condition = std::mem::take(&mut self.leaf.steps);
        // The body broadcasts its values again, because wide vectors keep none of the condition's.
        self.splats = splats;
        self.block(&w.body, false)?;
        let next = w.state.iter().map(|state| self.varying(state.next)).collect();
        Ok(Blocks { condition, holds, next })
    }

    /// The greatest number of steps of each element, if it is not the same for all.
    fn varying_extent(&mut self, extent: &Extent) -> Option<LeafId> {
        match extent {
            Extent::Affine(affine) => {
                let coefficient = affine.coefficient(self.index);
                let base = affine.sub(&Affine::index(self.index).scale(&coefficient));
                (!coefficient.is_zero()).then(|| self.push(Dtype::I64, Inst::Affine { base, coefficient }))
            }
            Extent::Value(value) => match self.name(*value) {
                Name::Varying(id) => Some(id),
                Name::Constant(_) | Name::Uniform => None,
            },
        }
    }
}
