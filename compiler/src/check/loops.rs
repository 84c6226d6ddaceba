//! Loops: `loop x = first, t < n while c { next }`.
//!
//! The counter is an index like that of a reducer. A loop without one has an index as well, which
//! nothing mentions, so that the states of different steps are different nodes.
//!
//! A first value that is a literal takes the type that the body gives it. To find that, the body is
//! checked once with the literal itself in place of the state, as if it were written there. The
//! nodes that this makes are not used.

use std::collections::BTreeSet;

use grammar::Diagnostic;
use grammar::ast::{self, ExprKind, Span};
use ir::checked::{ExprId, Extent, GuardId, Index, IndexId, Kind, Loop, LoopId, State, Type};
use ir::{Affine, Dtype};

use super::arena::{Branch, Here};
use super::index::Binds;
use super::scope::Binding;
use super::{Checker, Side, codes, count, origin};

impl<'a> Checker<'a> {
    /// The last states of a loop.
    pub(super) fn loop_(&mut self, one: &'a ast::Loop, here: Here) -> Option<Vec<ExprId>> {
        self.expect_distinct(one.states.iter().map(|state| &state.name), |name| {
            format!("the loop has two states `{name}`")
        });
        let literal: Vec<bool> = one.states.iter().map(|state| self.is_literal(state.first)).collect();
        let mut firsts: Vec<Option<ExprId>> = vec![];
        for (state, literal) in one.states.iter().zip(&literal) {
            firsts.push(if *literal { None } else { Some(self.expr(state.first, None, here.guard)?) });
        }
        let depth = self.scope.len();
        let begin = self.arena.out.exprs.next_key();
        let step = self.step(one, here)?;
        if literal.contains(&true) {
            let types = self.literal_types(one, &firsts, here.guard);
            for ((first, state), ty) in firsts.iter_mut().zip(&one.states).zip(types) {
                if first.is_none() {
                    *first = Some(self.expr(state.first, Some(ty), here.guard)?);
                }
            }
        }
        let firsts: Vec<ExprId> = firsts.into_iter().flatten().collect();
        let made = self.steps(one, (step, begin), &firsts, here);
        self.scope.truncate(depth);
        self.close(&[step], Binds::Reducer);
        let of = made?;
        if !self.runs_kernels(of) {
            self.guard_ends(&[step], here.guard);
        }
        let sound = !self.arena.ends.any_poisoned(&[step]);
        let values = firsts.iter().enumerate().map(|(number, first)| {
            let ty = self.arena.ty(*first).clone();
            self.arena.node(Kind::Loop { of, number, step: [step] }, ty, here)
        });
        let values = values.collect();
        sound.then_some(values)
    }

    /// Whether the steps of a loop may have to run kernels, which no branch is around: its state has
    /// arrays, or a step goes through one.
    fn runs_kernels(&self, of: LoopId) -> bool {
        let Loop { step, begin, states, .. } = &self.arena.out.loops[of];
        let in_step = |id: &ExprId| id >= begin && self.arena.free(*id).contains(step);
        let goes_through = |id: ExprId| match self.arena.out.exprs[id].kind {
            Kind::Reduce { .. } | Kind::Contract { .. } | Kind::Sort { .. } | Kind::Recurrence { .. } => true,
            ref kind => matches!(kind, Kind::Loop { of, .. } if self.runs_kernels(*of)),
        };
        let is_array = |state: &State| !self.arena.ty(state.first).is_scalar();
        states.iter().any(is_array) || self.arena.out.exprs.keys().filter(in_step).any(goes_through)
    }

    /// The index that numbers the steps, with the counter in scope.
    fn step(&mut self, one: &'a ast::Loop, here: Here) -> Option<IndexId> {
        if let Some(counter) = &one.counter {
            return self.open(std::slice::from_ref(counter), Binds::Reducer, here.guard)?.pop();
        }
        let extent = Extent::Affine(Affine::constant(i64::MAX));
        let step = self.arena.out.indices.push(Index { name: "step".to_string(), extent, origin: origin(here.span) });
        self.arena.ends.open.push(step);
        Some(step)
    }

    /// The types that the body gives to states, found with literals in place of those that begin
    /// with one.
    fn literal_types(&mut self, one: &'a ast::Loop, firsts: &[Option<ExprId>], guard: GuardId) -> Vec<Dtype> {
        let (depth, errors) = (self.scope.len(), self.report.mark());
        let (place, untyped) = (self.scope.place(), self.untyped.mark());
        let accesses = std::mem::take(&mut self.accesses);
        let mut bindings = vec![];
        for (state, first) in one.states.iter().zip(firsts) {
            bindings.push(match first {
                Some(first) => Binding::Value(*first),
                None => self.untyped_state(state.first, place, guard),
            });
        }
        for (state, binding) in one.states.iter().zip(bindings) {
            self.scope.push(&state.name.text, binding);
        }
        let default: Vec<Dtype> = one.states.iter().map(|state| self.default_dtype(state.first)).collect();
        for statement in &one.body.lets {
            self.statement(statement, guard);
        }
        let nexts = self.several(one.body.result, &vec![None; one.states.len()], guard);
        self.scope.truncate(depth);
        self.report.back_to(errors);
        self.untyped.back_to(untyped);
        self.accesses = accesses;
        match nexts {
            Some(nexts) if nexts.len() == default.len() => nexts.iter().map(|next| self.arena.dtype(*next)).collect(),
            _ => default,
        }
    }

    /// The condition and the body of a loop.
    fn steps(
        &mut self,
        one: &'a ast::Loop,
        (step, begin): (IndexId, ExprId),
        firsts: &[ExprId],
        here: Here,
    ) -> Option<LoopId> {
        let around = self.arena.ends.around().filter(|index| *index != step).collect();
        let of = self.arena.begin_loop(step, begin, around, here.guard, true);
        let mut currents = vec![];
        for (number, (first, state)) in firsts.iter().zip(&one.states).enumerate() {
            let ty = self.arena.ty(*first).clone();
            let current = self.arena.node(Kind::State { of, number }, ty, Here { span: state.name.span, ..here });
            self.arena.out.exprs[current].name = Some(state.name.text.clone());
            self.scope.push(&state.name.text, Binding::Value(current));
            self.first_states.insert(current, *first);
            currents.push(current);
        }
        let mut guard = here.guard;
        if let Some(condition) = one.condition {
            let span = self.ast(condition).span;
            let value = self.expr(condition, None, guard)?;
            self.expect_dtype(value, Dtype::Bool, "`while`", span)?;
            if !self.arena.ty(value).is_scalar() {
                let shown = self.arena.show_type(&self.arena.ty(value).clone());
                let message = format!("the condition of a loop is a `bool`, this is {shown}");
                let error = Diagnostic::new(codes::DTYPE_EXPECTED, span, message);
                self.report.error(error.help("reduce it: `any(...)` or `all(...)`"));
                return None;
            }
            self.arena.out.loops[of].condition = Some(value);
            // The condition is no fact for proofs: it is about states, and proofs are about indices.
            guard = self.arena.branch(guard, Branch::default());
            self.arena.out.loops[of].guard = guard;
        }
        for statement in &one.body.lets {
            self.statement(statement, guard);
        }
        let wants: Vec<_> = firsts.iter().map(|first| Some(self.arena.dtype(*first))).collect();
        let nexts = self.several(one.body.result, &wants, guard)?;
        self.expect_states(one, firsts, &nexts)?;
        let mut needs = currents.iter().map(|_| BTreeSet::new()).collect::<Vec<_>>();
        let condition = self.arena.out.loops[of].condition;
        for (number, next) in nexts.iter().enumerate() {
            needs[number] = self.states_of(of, [Some(*next), condition].into_iter().flatten().collect());
            needs[number].insert(number);
        }
        // Dependences are transitive.
        while let Some((number, more)) = (0..needs.len()).find_map(|number| {
            let all: BTreeSet<usize> = needs[number].iter().flat_map(|other| &needs[*other]).copied().collect();
            (all.len() > needs[number].len()).then_some((number, all))
        }) {
            needs[number] = more;
        }
        let parts = firsts.iter().zip(currents).zip(nexts).zip(needs);
        let states = parts.map(|(((first, current), next), needs)| {
            let needs = needs.into_iter().collect();
            State { first: *first, current, next, needs }
        });
        self.arena.out.loops[of].states = states.collect();
        Some(of)
    }

    /// The parts of the state of a loop that expressions of its step mention.
    fn states_of(&self, of: LoopId, mut pending: Vec<ExprId>) -> BTreeSet<usize> {
        let step = self.arena.out.loops[of].step;
        let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
        while let Some(id) = pending.pop() {
            if !self.arena.free(id).contains(&step) || !seen.insert(id) {
                continue;
            }
            match self.arena.out.exprs[id].kind {
                Kind::State { of: other, number } if other == of => drop(found.insert(number)),
                ref kind => self.arena.out.for_each_operand(kind, |operand| pending.push(operand)),
            }
        }
        found
    }

    /// Reports next states that differ from the first ones in number, type or shape.
    fn expect_states(&mut self, one: &ast::Loop, firsts: &[ExprId], nexts: &[ExprId]) -> Option<()> {
        let result = self.ast(one.body.result);
        if nexts.len() != firsts.len() {
            let states = count(firsts.len(), "state", "states");
            let message = format!("the loop has {states}, its body gives {}", count(nexts.len(), "value", "values"));
            let error = Diagnostic::new(codes::LOOP_STATE, result.span, message);
            self.report.error(error.help("end the body with the next value of each state, `(a, b)`, in their order"));
            return None;
        }
        let spans: Vec<Span> = match &result.kind {
            ExprKind::Tuple(parts) if parts.len() == nexts.len() => {
                parts.iter().map(|part| self.ast(*part).span).collect()
            }
            _ => vec![result.span; nexts.len()],
        };
        for (((state, first), next), span) in one.states.iter().zip(firsts).zip(nexts).zip(spans) {
            let (before, after) = (self.arena.ty(*first).clone(), self.arena.ty(*next).clone());
            let name = &state.name.text;
            if before.dtype != after.dtype || before.shape.len() != after.shape.len() {
                let (begins, becomes) = (self.arena.show_type(&before), self.arena.show_type(&after));
                let message = format!("the state `{name}` begins as {begins} and becomes {becomes}");
                let at = self.ast(state.first).span;
                let error = Diagnostic::new(codes::LOOP_STATE, span, message).label(at, "its first value");
                self.report.error(match before.shape.len() == after.shape.len() {
                    true => error.help(format!("convert it: `{}(...)`", before.dtype)),
                    false => error.help("begin with an array of the shape that each step gives"),
                });
                return None;
            }
            self.expect_shape(name, &before, &after, span)?;
        }
        Some(())
    }

    fn expect_shape(&mut self, name: &str, before: &Type, after: &Type, span: Span) -> Option<()> {
        for (axis, (first, next)) in before.shape.iter().zip(&after.shape).enumerate() {
            let next = Side::new(next, format!("axis {axis} of the next `{name}`"));
            self.unify(next, Side::new(first, format!("axis {axis} of the first one")), span)?;
        }
        Some(())
    }
}
