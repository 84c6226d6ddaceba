//! The order in which the elements of a recurrence are computed: for some of its indices, one after
//! another, each ascending or descending, every access to an array of the recurrence has subscripts
//! that are not after its own indices, and one of them, the deciding one, is before.
//!
//! The order is found greedily. An index that no open access passes can come first without harm,
//! because it decides some accesses and forbids none. So the index that decides the most is taken,
//! until the accesses that are left, those to elements at the same deciding indices, form no circle
//! of arrays. All comparisons are proved as subscripts are: from the ranges of the indices that an
//! access mentions, the requirements of the call, and the conditions around it.

use std::collections::BTreeSet;

use grammar::Diagnostic;
use grammar::ast::{Name, Span};
use ir::checked::{Checked, ExprId, GuardId, IndexId, Kind, RecurrenceId, Step};
use ir::nest::{Purpose, Relation, Requirement};
use ir::{Affine, Size, SymbolId};

use super::bounds::Settler;
use super::calls::CallId;
use super::facts::Known;
use super::prove::{Linear, Variable};
use super::{codes, origin};

/// A recurrence with an order that is still to be found.
#[derive(Clone)]
pub(super) struct Unordered {
    pub recurrence: RecurrenceId,
    /// The names of its arrays.
    pub names: Vec<Name>,
    /// The call that contains it.
    pub call: CallId,
}

/// An access to an array of the recurrence in the body of one.
struct Read {
    access: ExprId,
    /// The array that has it in its body.
    within: usize,
    /// The array that it reads.
    array: usize,
    guard: GuardId,
    span: Span,
}

/// How a subscript compares with the index.
enum Compared {
    /// It is before the index.
    Before(Proof),
    /// It is not after the index.
    NotAfter(Proof),
    /// Neither is proved.
    Unknown,
}

/// The facts that a proof rests on.
#[derive(Default)]
struct Proof {
    /// The outermost branch that it takes conditions from.
    guard: Option<GuardId>,
    /// The indices that it takes ranges from.
    scope: Vec<IndexId>,
    /// The scalar parameters that must be bounded.
    scalars: Vec<SymbolId>,
    /// A size that must not be negative.
    required: Option<Size>,
}

impl Proof {
    /// Both proofs.
    fn and(mut self, other: Proof) -> Proof {
        self.guard = self.guard.or(other.guard);
        self.scope.extend(other.scope);
        self.scalars.extend(other.scalars);
        self.required = self.required.or(other.required);
        self
    }
}

/// An index that may decide: its place among the indices of each array, and a direction.
#[derive(Clone)]
struct Candidate {
    step: Step,
    name: String,
}

impl Settler<'_, '_> {
    /// Finds the order of a recurrence, or reports an error.
    pub(super) fn order(&mut self, unordered: &Unordered) {
        let Some(reads) = self.reads(unordered) else { return };
        let mut open: Vec<&Read> = reads.iter().collect();
        let mut candidates = self.candidates(unordered.recurrence);
        let mut steps: Vec<Step> = vec![];
        let sequence = loop {
            let arrays = unordered.names.len();
            if let Some(sequence) = sequence(arrays, open.iter().map(|read| (read.within, read.array))) {
                break sequence;
            }
            let mut best: Option<(usize, usize, Vec<Compared>)> = None;
            for (k, candidate) in candidates.iter().enumerate() {
                let compared: Vec<Compared> =
                    open.iter().map(|read| self.compare(unordered.recurrence, read, &candidate.step)).collect();
                let before = compared.iter().filter(|c| matches!(c, Compared::Before(_))).count();
                let passes = compared.iter().any(|c| matches!(c, Compared::Unknown));
                if !passes && before > 0 && best.as_ref().is_none_or(|(_, most, _)| before > *most) {
                    best = Some((k, before, compared));
                }
            }
            let Some((chosen, _, compared)) = best else {
                self.report_order(unordered, &open, &candidates, &steps);
                return;
            };
            let step = candidates.remove(chosen).step;
            candidates.retain(|other| other.step.axes != step.axes);
            let mut left = vec![];
            for (read, compared) in open.into_iter().zip(compared) {
                match compared {
                    Compared::Before(proof) => self.rely_on(read, proof),
                    Compared::NotAfter(proof) => {
                        self.rely_on(read, proof);
                        left.push(read);
                    }
                    Compared::Unknown => {}
                }
            }
            open = left;
            steps.push(step);
        };
        let independent = candidates.iter().filter(|other| !other.step.descending).map(|other| other.step.axes.clone());
        let independent: Vec<Vec<usize>> =
            independent.filter(|axes| self.are_independent(unordered.recurrence, &reads, axes)).collect();
        let recurrence = &mut self.arena.out.recurrences[unordered.recurrence];
        (recurrence.steps, recurrence.sequence, recurrence.independent) = (steps, sequence, independent);
    }

    /// The accesses to the arrays of a recurrence in its bodies; none if something is read that
    /// cannot be.
    fn reads(&mut self, unordered: &Unordered) -> Option<Vec<Read>> {
        let mut reads = vec![];
        for (within, equation) in self.arena.out.recurrences[unordered.recurrence].equations.iter().enumerate() {
            let (mut pending, mut seen) = (vec![equation.body], BTreeSet::new());
            while let Some(id) = pending.pop() {
                if !self.arena.reads_earlier(id) || !seen.insert(id) {
                    continue;
                }
                let expr = &self.arena.out.exprs[id];
                let span = Span { start: expr.origin.start, end: expr.origin.end };
                let mut whole = matches!(expr.kind, Kind::Earlier { .. });
                if let Kind::Access { array: base, at } = &expr.kind
                    && let Kind::Earlier { recurrence, array, .. } = self.arena.out.exprs[*base].kind
                {
                    pending.extend(at.iter().map(|s| s.value));
                    whole = recurrence != unordered.recurrence;
                    reads.push(Read { access: id, within, array, guard: expr.guard, span });
                } else {
                    self.arena.out.for_each_operand(&expr.kind, |operand| pending.push(operand));
                }
                if whole {
                    let message = "a recurrence reads single elements and rows of its arrays, this needs all of one";
                    let help = "give each access subscripts, `y[t - 1]`; a recurrence inside another one must not read \
                                the arrays of the outer one";
                    let error = Diagnostic::new(codes::NOT_EARLIER, span, message).help(help);
                    self.report.error_in(unordered.call, error);
                    return None;
                }
            }
        }
        Some(reads)
    }

    /// The indices that all arrays have, by name, in both directions.
    fn candidates(&self, recurrence: RecurrenceId) -> Vec<Candidate> {
        let equations = &self.arena.out.recurrences[recurrence].equations;
        let name = |index: &IndexId| self.arena.out.indices[*index].name.as_str();
        let mut found = vec![];
        for first in equations.iter().take(1).flat_map(|equation| &equation.indices) {
            let place = |indices: &[IndexId]| indices.iter().position(|other| name(other) == name(first));
            let axes = equations.iter().map(|equation| place(&equation.indices)).collect::<Option<Vec<_>>>();
            let Some(axes) = axes.filter(|axes| self.arena.out.longest(recurrence, axes).is_some()) else { continue };
            for descending in [false, true] {
                let step = Step { axes: axes.clone(), descending };
                found.push(Candidate { step, name: name(first).to_owned() });
            }
        }
        found
    }

    /// An index that all arrays have by name, and their lengths along it, which differ by more than
    /// a number.
    fn unlike_lengths(&self, recurrence: RecurrenceId) -> Option<(String, String)> {
        let equations = &self.arena.out.recurrences[recurrence].equations;
        let indices = |equation: usize| equations[equation].indices.iter().map(|i| &self.arena.out.indices[*i]);
        indices(0).find_map(|first| {
            let same = (0..equations.len()).map(|k| indices(k).find(|index| index.name == first.name));
            let lengths = same.map(|index| Some(self.arena.show(index?.extent.as_size()?)));
            Some((first.name.clone(), lengths.collect::<Option<Vec<_>>>()?.join(", ")))
        })
    }

    /// The subscript of an access along an axis, and the index of the array that it stands in.
    fn sides(&self, recurrence: RecurrenceId, read: &Read, axes: &[usize]) -> Option<(ExprId, IndexId)> {
        let Kind::Access { at, .. } = &self.arena.out.exprs[read.access].kind else { return None };
        let own = &self.arena.out.recurrences[recurrence].equations[read.within].indices;
        Some((at.get(axes[read.array])?.value, *own.get(axes[read.within])?))
    }

    /// How a subscript of an access compares with the index of the same axis.
    fn compare(&mut self, recurrence: RecurrenceId, read: &Read, step: &Step) -> Compared {
        let Some((subscript, index)) = self.sides(recurrence, read, &step.axes) else { return Compared::Unknown };
        let index = Linear::variable(Variable::Index(index));
        let (form, whole) = (self.facts().linear(subscript), self.facts().opaque(subscript));
        match self.compare_form(read, &form, &index, step.descending) {
            // Where it may wrap, conditions are about its value as a whole.
            Compared::Unknown if form != whole => self.compare_form(read, &whole, &index, step.descending),
            compared => compared,
        }
    }

    /// The same of a subscript as a form.
    fn compare_form(&mut self, read: &Read, subscript: &Linear, index: &Linear, descending: bool) -> Compared {
        // A wrapped value could be an element after the index.
        let mut exact = Proof::default();
        if !self.facts().wraps_outside(subscript) {
            match self.proof(read, subscript) {
                Some(not_negative) if !descending => exact = not_negative,
                _ => return Compared::Unknown,
            }
        }
        let room = if descending { subscript.minus(index) } else { index.minus(subscript) };
        let before = room.minus(&Linear::constant(1));
        if let Some(proof) = self.proof(read, &before) {
            return Compared::Before(proof.and(exact));
        }
        // `y[t - lag]` needs a `lag` of at least 1, which the call can see to.
        if let Some(size) = before.as_size().filter(|_| before.terms.iter().all(|(_, c)| *c > 0))
            && size.as_constant().is_none()
        {
            return Compared::Before(Proof { required: Some(size), ..Proof::default() });
        }
        self.proof(read, &room).map_or(Compared::Unknown, |proof| Compared::NotAfter(proof.and(exact)))
    }

    /// A proof that a form is not negative where an access stands.
    fn proof(&mut self, read: &Read, goal: &Linear) -> Option<Proof> {
        let goals = std::slice::from_ref(goal);
        let scope = self.arena.bounded_by(self.arena.free(read.access));
        let void = Known { void: self.is_void(&scope).into(), ..Known::default() };
        let known = self.facts().known(goals, &scope, void);
        if self.facts().proves(&known, goal) {
            let scalars = self.facts().scalars_of_proof(&known, goals).into_iter().collect();
            return Some(Proof { scope, scalars, ..Proof::default() });
        }
        if read.guard == Checked::TOP {
            return None;
        }
        let all = self.proof_inside(read, goals, &scope, Checked::TOP)?;
        let outermost = self
            .outermost(read.guard, |settler, outermost| settler.proof_inside(read, goals, &scope, outermost).is_some());
        Some(Proof { guard: Some(outermost), ..all })
    }

    /// A proof from the conditions of the branches around an access, up to an outer one.
    fn proof_inside(&mut self, read: &Read, goals: &[Linear], scope: &[IndexId], outermost: GuardId) -> Option<Proof> {
        let mut scope = scope.to_vec();
        let conditions = self.conditions(read.guard, outermost);
        let rows = conditions.rows.iter().chain(conditions.choices.iter().flatten().flatten());
        let mentioned = rows.flat_map(|row| &row.terms).filter_map(|(variable, _)| match variable {
            Variable::Index(index) => Some(*index),
            _ => None,
        });
        let mentioned: Vec<IndexId> = mentioned.collect();
        scope.extend(self.arena.bounded_by(&mentioned));
        let known = self.facts().known(goals, &scope, conditions);
        let holds = goals.iter().all(|goal| self.facts().proves(&known, goal));
        let scalars = || self.facts().scalars_of_proof(&known, goals).into_iter().collect();
        holds.then(|| Proof { guard: Some(outermost), scalars: scalars(), scope, required: None })
    }

    /// Makes sure that the facts that a proof uses hold.
    fn rely_on(&mut self, read: &Read, proof: Proof) {
        self.rely_on_ends(&proof.scope, read.span);
        if let Some(outermost) = proof.guard {
            self.arena.protect(read.access, read.guard, outermost);
        }
        for symbol in proof.scalars {
            self.requirements.bound_scalar(self.arena, symbol, read.span);
        }
        if let Some(size) = proof.required {
            self.requirements.require(Requirement {
                left: Size::default(),
                relation: Relation::AtMost,
                right: size,
                unless_empty: vec![],
                left_is: "zero".into(),
                right_is: "the distance to the earlier element, less one".into(),
                purpose: Purpose::Access,
                origin: origin(read.span),
            });
        }
    }

    /// Whether each access has the same index along an axis, along which the arrays are equally
    /// long.
    fn are_independent(&self, recurrence: RecurrenceId, reads: &[Read], axes: &[usize]) -> bool {
        let equations = &self.arena.out.recurrences[recurrence].equations;
        let length = |array: usize| self.arena.out.indices[equations[array].indices[axes[array]]].extent.as_size();
        (1..axes.len()).all(|array| length(array) == length(0))
            && reads.iter().all(|read| {
                self.sides(recurrence, read, axes).is_some_and(|(subscript, index)| {
                    self.arena.affine(subscript).and_then(Affine::as_index) == Some(index)
                })
            })
    }

    /// Reports that no order has been found for some accesses.
    fn report_order(&mut self, unordered: &Unordered, open: &[&Read], candidates: &[Candidate], steps: &[Step]) {
        let Some(first) = open.first() else { return };
        let name = &unordered.names[first.array].text;
        let direction = |read: &Read, settler: &mut Self, descending: bool| {
            candidates.iter().any(|candidate| {
                candidate.step.descending == descending
                    && matches!(settler.compare(unordered.recurrence, read, &candidate.step), Compared::Before(_))
            })
        };
        let backward = open.iter().find(|read| direction(read, self, false));
        let forward = open.iter().find(|read| direction(read, self, true));
        let tried: Vec<String> =
            candidates.iter().filter(|c| !c.step.descending).map(|c| format!("`{}`", c.name)).collect();
        let error = |read: &Read, message: String| Diagnostic::new(codes::NOT_EARLIER, read.span, message);
        let report = match (backward, forward) {
            (Some(backward), Some(forward)) if !std::ptr::eq(*backward, *forward) => error(
                forward,
                format!("`{name}` looks forward here and backward elsewhere: neither can come first"),
            )
            .label(backward.span, "backward here")
            .help("elements may depend on elements on one side only: take those of the other side from another array"),
            _ if tried.is_empty() && !steps.is_empty() => {
                error(first, format!("this element of `{name}` is at the same indices: it depends on itself"))
                    .help("read an earlier one, such as `y[t - 1]`")
            }
            _ if tried.is_empty()
                && let Some((index, lengths)) = self.unlike_lengths(unordered.recurrence) =>
            {
                error(first, format!("along `{index}` the arrays of this recurrence have unlike lengths: {lengths}"))
                    .help("let their lengths differ by a number at most, and keep the first elements in another array")
            }
            _ if tried.is_empty() => error(first, "the arrays of this recurrence share no index".to_owned()).help(
                "give the index that decides which elements are earlier the same name in each: `a[t < n]`, `b[t < n]`",
            ),
            _ => {
                let tried = tried.join(", ");
                error(first, format!("this element of `{name}` is not known to be earlier"))
                    .note(format!("no subscript is proved to be before its own index, or after it: {tried}"))
                    .help("say so by a condition around it, `if j < t then y[j] else ...`, or read `y[t - 1]`")
            }
        };
        self.report.error_in(unordered.call, report);
    }
}

/// An order of arrays in which each comes after those that it reads: `(reader, read)`. None if
/// there is a circle.
fn sequence(arrays: usize, reads: impl Iterator<Item = (usize, usize)>) -> Option<Vec<usize>> {
    let reads: BTreeSet<(usize, usize)> = reads.collect();
    let mut sequence: Vec<usize> = vec![];
    while sequence.len() < arrays {
        let ready = |array: &usize| {
            !sequence.contains(array) && reads.iter().all(|(by, of)| by != array || sequence.contains(of))
        };
        let next = (0..arrays).find(ready)?;
        sequence.push(next);
    }
    Some(sequence)
}
