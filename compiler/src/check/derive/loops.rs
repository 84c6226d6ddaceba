//! Loops: copies at other indices, changes of their last states, and the way back through their
//! steps.
//!
//! The change of a loop is a loop with more states: each state of floats has another one for its
//! change. For the way back, a loop like the given one keeps its states of all steps in arrays.
//! Another loop goes from the last step to the first, with a state for the derivative in each state
//! of the given one, and one for each value from outside that the steps use, which adds up what the
//! steps contribute.

use std::collections::{BTreeMap, BTreeSet};

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{ExprId, IndexId, Kind, Loop, LoopId, State, Type};
use ir::sabotage::{self, Bug};
use ir::{Affine, CompareOp, Scalar, Size};

use super::super::arena::Here;
use super::super::{Checker, codes};
use super::copy::Place;
use super::forward::Forward;
use super::reverse::{Part, Reverse};

/// The loop that has the changes of another one's states among its own.
#[derive(Clone)]
pub(super) struct Changed {
    of: LoopId,
    step: IndexId,
    /// The number of the state that is the change of each state, if that changes.
    numbers: Vec<Option<usize>>,
}

impl Checker<'_> {
    /// A copy of a last state of a loop.
    pub(super) fn copied_last(
        &mut self,
        (id, of, number): (ExprId, LoopId, usize),
        ty: Type,
        place: &mut Place,
        here: Here,
    ) -> Option<ExprId> {
        let mentioned = self.arena.free(id).iter().filter_map(|index| place.values.get(index).copied());
        let key = (of, mentioned.collect::<Vec<_>>());
        let (of, step) = match place.loops.get(&key) {
            Some(known) => *known,
            None => {
                let made = self.copied_loop(of, place, here)?;
                place.loops.insert(key, made);
                made
            }
        };
        Some(self.arena.node(Kind::Loop { of, number, step: [step] }, ty, here))
    }

    /// A copy of a loop, and the index that numbers its steps.
    fn copied_loop(&mut self, of: LoopId, place: &mut Place, here: Here) -> Option<(LoopId, IndexId)> {
        let Loop { step, around, states, condition, guard, written, .. } = self.arena.out.loops[of].clone();
        let mut firsts = vec![];
        for state in &states {
            firsts.push(self.copy(state.first, place)?);
        }
        let mut outer = BTreeSet::new();
        for index in around {
            match place.values.get(&index) {
                Some(value) => outer.extend(self.arena.free(*value).iter().copied()),
                None => drop(outer.insert(index)),
            }
        }
        let begin = self.arena.out.exprs.next_key();
        let own = self.copied_indices(&[step], place)?[0];
        let guard = self.copied_branch(guard, place)?;
        let copy = self.arena.begin_loop(own, begin, outer.into_iter().collect(), guard, written);
        let mut currents = vec![];
        for (number, state) in states.iter().enumerate() {
            let ty = self.arena.ty(state.current).clone();
            let current = self.arena.node(Kind::State { of: copy, number }, ty, here);
            self.arena.out.exprs[current].name = self.arena.out.exprs[state.current].name.clone();
            self.first_states.insert(current, firsts[number]);
            place.states.insert((of, number), current);
            currents.push(current);
        }
        if let Some(condition) = condition {
            self.arena.out.loops[copy].condition = Some(self.copy(condition, place)?);
        }
        let mut made = vec![];
        for ((state, first), current) in states.into_iter().zip(firsts).zip(currents) {
            made.push(State { first, current, next: self.copy(state.next, place)?, needs: state.needs });
        }
        self.arena.out.loops[copy].states = made;
        Some((copy, own))
    }

    /// Adds a state to a loop, of the type of a value and named after it; its next value is the
    /// state itself until it is set.
    pub(super) fn more_state(&mut self, of: LoopId, first: ExprId, name: Option<String>, here: Here) -> ExprId {
        let (number, ty) = (self.arena.out.loops[of].states.len(), self.arena.ty(first).clone());
        let current = self.arena.node(Kind::State { of, number }, ty, here);
        self.arena.out.exprs[current].name = name;
        self.first_states.insert(current, first);
        self.arena.out.loops[of].states.push(State { first, current, next: current, needs: vec![number] });
        current
    }

    /// Room for the states of all steps, which are like one: zeros.
    fn room(&mut self, state: ExprId, steps: &Size, here: Here) -> ExprId {
        let Type { dtype, shape } = self.arena.ty(state).clone();
        let zero = self.arena.constant(Scalar::zero(dtype), here);
        let shape: Vec<Size> = std::iter::once(steps.clone()).chain(shape).collect();
        let axes = self.arena.axis_indices(&shape, here.span);
        self.arena.comprehension(axes, zero, here)
    }

    /// Adds a state that keeps those of all steps, and gives its number: each step writes its
    /// element.
    fn keep_state(&mut self, (of, step): (LoopId, IndexId), number: usize, room: ExprId, here: Here) -> usize {
        let State { current, needs, .. } = self.arena.out.loops[of].states[number].clone();
        let Type { dtype, shape } = self.arena.ty(room).clone();
        let name = self.arena.out.exprs[current].name.as_ref().map(|name| format!("all_{name}"));
        let kept = self.more_state(of, room, name, here);
        let own = self.arena.axis_indices(&shape, here.span);
        let at: Vec<Affine<IndexId>> = own.iter().map(|index| Affine::index(*index)).collect();
        let (mine, now) = (self.arena.index_node(own[0], here), self.arena.index_node(step, here));
        let condition = self.relation(CompareOp::Eq, mine, now, here);
        let then = self.arena.element(current, at[1..].to_vec(), here);
        let otherwise = self.arena.element(kept, at, here);
        let element = self.arena.node(Kind::If { condition, then, otherwise }, Type::scalar(dtype), here);
        let next = self.arena.comprehension(own, element, here);
        let last = self.arena.out.loops[of].states.len() - 1;
        let state = &mut self.arena.out.loops[of].states[last];
        state.next = next;
        state.needs.extend(needs);
        state.needs.sort_unstable();
        last
    }

    /// A last state of a loop. It comes behind all that the steps compute.
    pub(super) fn last_state(&mut self, (of, step): (LoopId, IndexId), number: usize, here: Here) -> ExprId {
        let ty = self.arena.ty(self.arena.out.loops[of].states[number].current).clone();
        self.arena.node(Kind::Loop { of, number, step: [step] }, ty, here)
    }

    /// The sum of two scalars or arrays of one shape.
    pub(super) fn both(&mut self, a: ExprId, b: ExprId, here: Here) -> ExprId {
        let shape = self.arena.ty(a).shape.clone();
        let axes = self.arena.axis_indices(&shape, here.span);
        let at: Vec<Affine<IndexId>> = axes.iter().map(|index| Affine::index(*index)).collect();
        let (a, b) = (self.arena.element(a, at.clone(), here), self.arena.element(b, at, here));
        let sum = self.plus(a, b, here);
        self.arena.comprehension(axes, sum, here)
    }

    /// Reports a loop that the way back does not go through, because data ends it.
    fn ended_by_data(&mut self, id: ExprId) {
        let origin = self.arena.out.exprs[id].origin;
        let span = Span { start: origin.start, end: origin.end };
        let message = "there is no derivative of a `loop` that a condition or data ends";
        let error = Diagnostic::new(codes::NOT_DERIVED, span, message);
        let help = "let a counter alone end it, at a size, as `t < 100` or `t < n`; `jvp` goes through any `loop`";
        self.report.error(error.help(help));
    }
}

impl Forward {
    /// The change of a last state of a loop.
    pub(super) fn looped(
        &mut self,
        checker: &mut Checker<'_>,
        (of, number): (LoopId, usize),
        here: Here,
    ) -> Option<Option<ExprId>> {
        if !self.loops.contains_key(&of) {
            let changed = self.changed(checker, of, here)?;
            self.loops.insert(of, changed);
        }
        let Changed { of, step, numbers } = &self.loops[&of];
        let Some(number) = numbers[number] else { return Some(None) };
        Some(Some(checker.last_state((*of, *step), number, here)))
    }

    /// A copy of a loop with the changes of its states as further states.
    fn changed(&mut self, checker: &mut Checker<'_>, of: LoopId, here: Here) -> Option<Changed> {
        // Whatever a loop begins with comes before its steps.
        let mut firsts = vec![];
        for state in checker.arena.out.loops[of].states.clone() {
            let zeros = checker.arena.dtype(state.first).is_float().then(|| checker.zeros_like(state.first, here));
            firsts.push((self.change(checker, state.first)?, zeros));
        }
        let (copy, step) = checker.copied_loop(of, &mut Place::new(BTreeMap::new(), here.guard, here), here)?;
        let states = checker.arena.out.loops[copy].states.clone();
        let mut changes: Vec<Option<ExprId>> = vec![None; states.len()];
        let mut grows: Vec<bool> = firsts.iter().map(|(change, _)| change.is_some()).collect();
        // More states may change than those with a first value that does.
        loop {
            for (number, state) in states.iter().enumerate() {
                if grows[number]
                    && changes[number].is_none()
                    && let Some(first) = firsts[number].0.or(firsts[number].1)
                {
                    let name = checker.arena.out.exprs[state.current].name.as_ref().map(|name| format!("d{name}"));
                    changes[number] = Some(checker.more_state(copy, first, name, here));
                }
                self.changes.insert(state.current, changes[number]);
            }
            // All that was found for fewer states that change, loops inside the step among it.
            let before = self.clone();
            let mut nexts = vec![];
            for state in &states {
                nexts.push(self.change(checker, state.next)?);
            }
            let more = |number: &usize| nexts[*number].is_some() && changes[*number].is_none();
            let found: Vec<usize> = (0..states.len()).filter(more).collect();
            if found.is_empty() {
                return Some(self.closed(checker, (copy, step), &changes, &nexts, here));
            }
            found.into_iter().for_each(|number| grows[number] = true);
            *self = before;
        }
    }

    /// Gives the states for changes their next values.
    fn closed(
        &self,
        checker: &mut Checker<'_>,
        (of, step): (LoopId, IndexId),
        changes: &[Option<ExprId>],
        nexts: &[Option<ExprId>],
        here: Here,
    ) -> Changed {
        let number_of = |checker: &Checker<'_>, current: ExprId| match checker.arena.out.exprs[current].kind {
            Kind::State { number, .. } => Some(number),
            _ => None,
        };
        let numbers: Vec<Option<usize>> = changes.iter().map(|change| number_of(checker, (*change)?)).collect();
        for (number, change) in numbers.iter().enumerate() {
            let Some(change) = *change else { continue };
            let state = checker.arena.out.loops[of].states[number].clone();
            let next = self.or_zeros(checker, nexts[number], state.next, here);
            let mut needs = state.needs.clone();
            needs.extend(state.needs.iter().filter_map(|other| numbers[*other]));
            needs.sort_unstable();
            needs.dedup();
            let changed = &mut checker.arena.out.loops[of].states[change];
            (changed.next, changed.needs) = (next, needs);
        }
        Changed { of, step, numbers }
    }
}

impl Reverse<'_, '_> {
    /// Goes back through a loop: gives its first states, and the values in its steps, their shares.
    pub fn looped(
        &mut self,
        (id, of): (ExprId, LoopId),
        derivative: ExprId,
        context: &[IndexId],
        here: Here,
    ) -> Option<()> {
        let Loop { step, states, condition, written, .. } = self.checker.arena.out.loops[of].clone();
        let steps = self.checker.arena.out.indices[step].extent.as_size().cloned();
        let (Some(steps), None) = (steps, condition) else {
            self.checker.ended_by_data(id);
            return None;
        };
        let mut context = context.to_vec();
        let number_of = |kind: &Kind| match kind {
            Kind::Loop { of: other, number, .. } if *other == of => Some(*number),
            _ => None,
        };
        let last = self.of_one(number_of, (id, derivative), &mut context)?;
        if let Some(states) = self.checker.in_blocks((id, of), &steps, here)? {
            for (number, derivative) in last {
                self.share(states[number], Part::Whole, derivative, &context, here.guard);
            }
            return Some(());
        }
        let needed: BTreeSet<usize> = last.keys().flat_map(|number| &states[*number].needs).copied().collect();
        let nexts: Vec<ExprId> = needed.iter().map(|number| states[*number].next).collect();
        let outside = self.outside(&nexts, id, here);

        // Forward, once more, with all states kept.
        let mut place = Place::new(BTreeMap::new(), here.guard, here);
        let rooms: Vec<(usize, ExprId)> =
            needed.iter().map(|number| (*number, self.checker.room(states[*number].first, &steps, here))).collect();
        let forward = self.checker.copied_loop(of, &mut place, here)?;
        let kept = rooms.into_iter().map(|(number, room)| self.checker.keep_state(forward, number, room, here));
        let kept: Vec<usize> = kept.collect();
        let kept: Vec<ExprId> = kept.into_iter().map(|number| self.checker.last_state(forward, number, here)).collect();
        let zeros: BTreeMap<usize, ExprId> =
            needed.iter().map(|number| (*number, self.checker.zeros_like(states[*number].first, here))).collect();
        let nothing: Vec<ExprId> = outside.iter().map(|value| self.checker.zeros_like(*value, here)).collect();

        // Backward: a step with the states that it began with.
        let mut around: BTreeSet<IndexId> = self.checker.arena.free(id).iter().copied().collect();
        around.extend(last.values().flat_map(|derivative| self.checker.arena.free(*derivative)));
        let begin = self.checker.arena.out.exprs.next_key();
        let arena = &mut self.checker.arena;
        let name = arena.out.indices[step].name.clone();
        let own = arena.index(&name, Affine::size(steps.clone()), here.span);
        let back = arena.begin_loop(own, begin, around.into_iter().collect(), here.guard, written);
        let at = Affine::size(&steps - &Size::constant(1)).sub(&Affine::index(own));
        let value = self.checker.number_node(&at, here);
        let mut place = Place::new(BTreeMap::from([(step, value)]), here.guard, here);
        let mut parts = vec![];
        for (number, kept) in needed.iter().zip(kept) {
            let shape = self.checker.arena.ty(states[*number].current).shape.clone();
            let arena = &mut self.checker.arena;
            let axes = arena.axis_indices(&shape, here.span);
            let of_step = if sabotage::on(Bug::StateOfStep) { Affine::index(own) } else { at.clone() };
            let whole = std::iter::once(of_step).chain(axes.iter().map(|index| Affine::index(*index)));
            let element = arena.element(kept, whole.collect(), here);
            let state = arena.comprehension(axes, element, here);
            arena.out.exprs[state].name = arena.out.exprs[states[*number].current].name.clone();
            place.states.insert((of, *number), state);
            if !self.checker.arena.dtype(state).is_float() {
                continue;
            }
            let first = last.get(number).copied().unwrap_or(zeros[number]);
            let name = self.checker.arena.out.exprs[state].name.as_ref().map(|name| format!("d{name}"));
            let current = self.checker.more_state(back, first, name, here);
            parts.push((*number, state, current));
        }
        let mut seeds = vec![];
        for (number, _, current) in &parts {
            seeds.push((self.checker.copy(states[*number].next, &mut place)?, *current));
        }
        let of: Vec<ExprId> = parts.iter().map(|(_, state, _)| *state).chain(outside.iter().copied()).collect();
        let open = self.checker.arena.ends.open.clone();
        self.checker.arena.ends.open.extend(context.iter().copied().chain([own]));
        let found = Reverse::new(self.checker, of).derivatives(&seeds, here);
        self.checker.arena.ends.open = open;
        let mut found = found?.into_iter();
        let all: Vec<usize> = (0..parts.len()).collect();
        let mut sums = vec![];
        for (part, (number, _, current)) in parts.iter().enumerate() {
            let mut next = found.next().flatten().unwrap_or(zeros[number]);
            if sabotage::on(Bug::CarriedOn) {
                next = self.checker.both(*current, next, here);
            }
            let state = &mut self.checker.arena.out.loops[back].states[part];
            (state.next, state.needs) = (next, all.clone());
            sums.push(states[*number].first);
        }
        for ((value, first), found) in outside.into_iter().zip(nothing).zip(found) {
            let Some(found) = found else { continue };
            let part = self.checker.arena.out.loops[back].states.len();
            let current = self.checker.more_state(back, first, self.name_of(value), here);
            let next = self.checker.both(current, found, here);
            let state = &mut self.checker.arena.out.loops[back].states[part];
            (state.next, state.needs) = (next, all.iter().copied().chain([part]).collect());
            sums.push(value);
        }
        for (part, to) in sums.into_iter().enumerate() {
            let value = self.checker.last_state((back, own), part, here);
            self.share(to, Part::Whole, value, &context, here.guard);
        }
        Some(())
    }

    /// The values from outside of a loop that its steps depend on, and that have a derivative.
    fn outside(&mut self, nexts: &[ExprId], id: ExprId, here: Here) -> Vec<ExprId> {
        let around: Vec<IndexId> = self.checker.arena.free(id).to_vec();
        let (mut pending, mut seen, mut found) = (nexts.to_vec(), BTreeSet::new(), BTreeSet::new());
        while let Some(id) = pending.pop() {
            if !seen.insert(id) {
                continue;
            }
            let arena = &self.checker.arena;
            let is_within = arena.free(id).iter().any(|index| !around.contains(index))
                || self.checker.is_inside(arena.out.exprs[id].guard, here.guard);
            if is_within {
                arena.out.for_each_operand(&arena.out.exprs[id].kind, |operand| pending.push(operand));
            } else if self.is_active(id) {
                found.insert(id);
            }
        }
        found.into_iter().collect()
    }
}
