//! Loops over carried scalars in leaves. The elements of a group take their steps together: a mask
//! has the elements that are still live, the others keep their state, and the loop ends when none
//! is live. Its body only computes, so an element that has ended cannot load or fault.

use cranelift_codegen::ir::Value;
use ir::nest::{Extent, IndexId, Statement, While};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

use super::lanes128::{Lanes128, Registers, is_wide};
use super::leaf::{Build, Done, Inst, Leaf, LeafEmitter, LeafId, LeafStep, Name};

/// A loop over carried scalars in a leaf.
pub(super) struct Steps {
    pub(super) counter: IndexId,
    /// The greatest number of steps, unless it differs between elements.
    pub(super) extent: Option<Extent>,
    /// The elements that the loop runs for, unless it runs for all.
    pub(super) active: Option<LeafId>,
    /// Computes `holds`.
    pub(super) condition: Vec<LeafStep>,
    /// The elements that take another step, unless all do until the extent.
    pub(super) holds: Option<LeafId>,
    pub(super) body: Vec<LeafStep>,
    /// The elements that take the current step.
    pub(super) live: LeafId,
    pub(super) state: Vec<Carried>,
}

/// A value that is carried from step to step, as in [`ir::nest::State`].
pub(super) struct Carried {
    pub(super) first: LeafId,
    pub(super) current: LeafId,
    pub(super) next: LeafId,
    pub(super) result: LeafId,
}

impl Steps {
    /// Whether elements may end after different numbers of steps.
    fn masked(&self) -> bool {
        self.active.is_some() || self.holds.is_some()
    }

    /// Calls `visit` on each value that it uses in addition to those of its steps.
    pub(super) fn for_each_operand(&self, mut visit: impl FnMut(LeafId)) {
        self.active.into_iter().chain(self.holds).for_each(&mut visit);
        self.state.iter().for_each(|s| [s.first, s.next].into_iter().for_each(&mut visit));
    }
}

/// How many groups take their steps together: as many as keep their state in registers, because the
/// steps of one depend on each other and leave most units idle.
pub(super) fn together(leaf: &Leaf) -> usize {
    let mut registers = None;
    leaf.for_each_step(&leaf.steps, &mut |step| {
        if let LeafStep::While(steps) = step {
            let wide = |s: &Carried| 1 + usize::from(is_wide(leaf.values[s.current].0));
            let own: usize = steps.state.iter().map(wide).sum();
            registers = registers.max(Some(own + usize::from(steps.masked())));
        }
    });
    match registers {
        None => 1,
        Some(0..=2) => 4,
        Some(3..=6) => 2,
        Some(_) => 1,
    }
}

/// Whether a block has a `while`.
pub(super) fn carries(block: &[Statement]) -> bool {
    block.iter().any(|s| matches!(s, Statement::While(_)) || s.blocks().any(|inner| carries(inner)))
}

impl Build<'_, '_> {
    /// The elements for which one side of a branch runs.
    pub(super) fn active_in(&mut self, condition: LeafId, side: bool) -> LeafId {
        let own = if side { condition } else { self.push(Dtype::Bool, Inst::Unary(UnaryOp::Not, condition)) };
        match self.active {
            Some(outer) => self.push(Dtype::Bool, Inst::Binary(BinaryOp::And, outer, own)),
            None => own,
        }
    }

    /// Adds a loop over carried scalars, if its condition and body only compute.
    pub(super) fn carried(&mut self, w: &While) -> Option<()> {
        let (counter, extent) = &w.counter;
        let bound = self.varying_extent(extent);
        let active = self.active;
        let mut first = vec![];
        for state in &w.state {
            if self.dtype(state.first).is_storage() {
                return None;
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
        let (condition, holds, next) = inner?;
        let mut state = vec![];
        for (((s, first), current), next) in w.state.iter().zip(first).zip(current).zip(next) {
            let result = self.leaf.values.push((self.dtype(s.first), Inst::Result));
            self.names.insert(s.result, Name::Varying(result));
            state.push(Carried { first, current, next, result });
        }
        let extent = bound.is_none().then(|| extent.clone());
        let steps = Steps { counter: *counter, extent, active, condition, holds, body, live, state };
        self.leaf.steps.push(LeafStep::While(steps));
        Some(())
    }

    /// The steps of the condition, its value, and the next state. The steps of the body stay where
    /// they have been added.
    fn blocks_of(
        &mut self,
        w: &While,
        counter: IndexId,
        bound: Option<LeafId>,
    ) -> Option<(Vec<LeafStep>, Option<LeafId>, Vec<LeafId>)> {
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
        Some((condition, holds, next))
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

impl Lanes128<'_, '_> {
    /// Emits the loop and defines its results.
    pub(super) fn run_steps(&mut self, steps: &Steps, done: &mut Done<Registers>) {
        let extent = match &steps.extent {
            Some(extent) => self.e.extent(extent),
            None => self.e.int(i64::MAX),
        };
        let mut values = vec![];
        if steps.masked() {
            let all = match steps.active {
                Some(active) => done.get(active),
                None => self.constant(Scalar::Bool(true)),
            };
            values.push((steps.live, self.one_form(steps.live, all)));
        }
        for s in &steps.state {
            values.push((s.current, self.one_form(s.current, done.get(s.first))));
        }
        let lengths: Vec<(LeafId, usize)> = values.iter().map(|(id, v)| (*id, v.len())).collect();
        let first: Registers = values.into_iter().flat_map(|(_, v)| v).collect();
        let at = self.at;
        let last = self.e.steps(extent, &first, |e, step, current, exit| {
            e.poll();
            e.bind(steps.counter, step);
            define(&lengths, current, done);
            let mut l = Lanes128 { e, at };
            at.leaf.emit_steps(&steps.condition, &mut l, done);
            if let Some(holds) = steps.holds {
                let live = l.binary(BinaryOp::And, Dtype::Bool, &done.get(steps.live), &done.get(holds));
                done.set(steps.live, live);
            }
            if steps.masked() {
                let any = l.any(&done.get(steps.live), true);
                l.e.leave_unless(any, exit, current);
            }
            at.leaf.emit_steps(&steps.body, &mut l, done);
            l.next_state(steps, done)
        });
        define(&lengths, &last, done);
        for s in &steps.state {
            done.set(s.result, done.get(s.current));
        }
    }

    /// The registers that the next step begins with.
    fn next_state(&mut self, steps: &Steps, done: &Done<Registers>) -> Registers {
        let live = steps.masked().then(|| done.get(steps.live));
        let mut all = live.clone().unwrap_or_default();
        for s in &steps.state {
            let dtype = self.at.leaf.values[s.current].0;
            let mut next = self.one_form(s.next, done.get(s.next));
            if let Some(live) = live.as_ref().filter(|_| !sabotage::on(Bug::EndedLane)) {
                next = self.select(dtype, live, &next, &done.get(s.current));
            }
            all.extend(next);
        }
        all
    }
}

/// Defines values as consecutive registers.
fn define(lengths: &[(LeafId, usize)], mut registers: &[Value], done: &mut Done<Registers>) {
    for (id, length) in lengths {
        let (own, rest) = registers.split_at(*length);
        done.set(*id, own.to_vec());
        registers = rest;
    }
}
