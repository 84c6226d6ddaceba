//! That every access is inside: proved, required of the call's sizes, or checked as the program
//! runs.
//!
//! A subscript is proved from the facts that are known at its place: the ranges of the indices,
//! that lengths are not negative, the earlier requirements of the call, and (if that is not enough)
//! the conditions of the enclosing `if`s. Only conditions with sides that cannot wrap are used. A
//! subscript that depends on sizes alone becomes a requirement of the call; one that is out of
//! bounds for all sizes at some index is an error; anything else is checked at run time. So is a
//! subscript that is in bounds only because nothing runs there.
//!
//! Proofs are about exact numbers, but the end of a reducer's index wraps. Above 2^63 it wraps to a
//! smaller value, which is harmless: a proof holds for all indices below the exact end. Below -2^63
//! it wraps to a greater one, so a proof requires ends that might get there to have an exact value.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{Checked, ExprId, Extent, GuardId, IndexId, Kind};
use ir::nest::{CheckKind, Purpose, Relation, Requirement, Site};
use ir::{Affine, ReduceOp, Size, UnaryOp};

use super::arena::Arena;
use super::calls::CallId;
use super::earlier::Unordered;
use super::facts::{Facts, Known};
use super::position::{no_element, require_element};
use super::prove::{Linear, Variable};
use super::report::Report;
use super::requirements::Requirements;
use super::{codes, origin};

/// One subscript to be settled.
#[derive(Clone)]
pub(super) struct Record {
    /// The access it belongs to.
    pub access: ExprId,
    /// Which of its subscripts.
    pub axis: usize,
    /// Its value.
    pub value: ExprId,
    /// The length of the axis.
    pub length: Size,
    /// The branch it stands in.
    pub guard: GuardId,
    /// The indices around it.
    pub scope: Vec<IndexId>,
    /// The indices that the conditions around it mention.
    pub mentions: Vec<IndexId>,
    /// Those of them that conditions of an `if` mention: the access does not bound them.
    pub exempt: Vec<IndexId>,
    /// The array, described.
    pub array: String,
    /// Where it stands.
    pub span: Span,
    /// The call that contains it.
    pub call: CallId,
    /// Set if it is no access of the source, but states that a reducer has an element: then the
    /// value must not be negative.
    pub of: Option<ReduceOp>,
}

/// The subscripts that are still to be settled.
#[derive(Default)]
pub(super) struct Accesses {
    records: Vec<Record>,
    /// The records that may say where an index ends.
    mentions: SecondaryMap<IndexId, Vec<usize>>,
    /// The recurrences with an order that is still to be found.
    pub recurrences: Vec<Unordered>,
}

impl Accesses {
    /// Notes a subscript that mentions some indices, directly or as bounds of one another.
    pub fn push(&mut self, record: Record, mentioned: &[IndexId]) {
        for index in mentioned {
            self.mentions[*index].push(self.records.len());
        }
        self.records.push(record);
    }

    /// Adds later ones.
    pub fn append(&mut self, later: Accesses) {
        let before = self.records.len();
        for (index, records) in later.mentions.iter() {
            if !records.is_empty() {
                self.mentions[index].extend(records.iter().map(|k| before + k));
            }
        }
        self.records.extend(later.records);
        self.recurrences.extend(later.recurrences);
    }

    /// The subscripts that may say where an index ends.
    pub fn mentioning(&self, index: IndexId) -> impl Iterator<Item = &Record> {
        self.mentions[index].iter().map(|k| &self.records[*k])
    }
}

/// Settles subscripts, when a whole function has been gone through.
pub(super) struct Settler<'c, 'a> {
    pub(super) arena: &'c mut Arena,
    pub(super) requirements: &'c mut Requirements,
    pub(super) report: &'c mut Report<'a>,
    void: Void,
    /// The facts that the conditions around branches state, for those that were asked about: the
    /// innermost one and the outermost one.
    conditions: BTreeMap<(GuardId, GuardId), Known>,
}

/// The last answer of [`Settler::is_void`].
#[derive(Default)]
struct Void {
    /// The indices that it is about.
    scope: Vec<IndexId>,
    /// How much was required of the call then.
    required: usize,
    /// Whether they never have values.
    holds: bool,
}

impl<'c, 'a> Settler<'c, 'a> {
    /// Settles subscripts of nodes in an arena.
    pub fn new(arena: &'c mut Arena, requirements: &'c mut Requirements, report: &'c mut Report<'a>) -> Self {
        Settler { arena, requirements, report, void: Void::default(), conditions: BTreeMap::new() }
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        Facts { arena: self.arena, requirements: self.requirements }
    }

    /// Settles every subscript of the function, and the order of its recurrences.
    pub fn settle_all(&mut self, accesses: Accesses) {
        // The requirements of an order may prove that an access is inside.
        accesses.recurrences.iter().for_each(|recurrence| self.order(recurrence));
        for record in accesses.records {
            let indices = self.arena.free(record.value).iter().chain(&record.scope);
            if !self.arena.ends.any_poisoned(indices) {
                self.settle(&record);
            }
        }
    }

    fn settle(&mut self, record: &Record) {
        // Most subscripts are an index that runs along the very axis: no need for the prover.
        let index = self.arena.affine(record.value).and_then(Affine::as_index);
        if let Some(Extent::Affine(extent)) = index.map(|i| &self.arena.out.indices[i].extent)
            && extent.as_size() == Some(&record.length)
            && record.of.is_none()
        {
            return;
        }
        let value = self.facts().linear(record.value);
        let one = Linear::constant(1);
        let room = match record.of {
            Some(_) => Linear::constant(0),
            None => Linear::size(&record.length).minus(&one).minus(&value),
        };
        let goals = [value, room];
        // An expression is computed wherever the indices that it mentions have values, also where
        // the other loops around it in the source do not run. So those loops prove nothing.
        let mut scope = self.arena.bounded_by(self.arena.free(record.access));
        // Facts about variables that the goals do not mention come from these indices.
        let void = Known { void: self.is_void(&scope).into(), ..Known::default() };
        let plain = self.facts().known(&goals, &scope, void);
        let open: Vec<&Linear> = goals.iter().filter(|g| !self.facts().proves(&plain, g)).collect();
        if open.is_empty() && self.is_void(&scope) {
            return self.check_as_it_runs(record);
        }
        if open.is_empty() && self.rely_on_ends(&scope, record.span) {
            self.bound_scalars(&plain, &goals, record.span);
            return;
        }
        if record.guard != Checked::TOP {
            let open: Vec<Linear> = open.into_iter().cloned().collect();
            let (guarded, inside) = self.guarded(record, (&goals, &open), &mut scope, Checked::TOP);
            if inside && self.is_void(&scope) {
                return self.check_as_it_runs(record);
            }
            if inside && self.rely_on_ends(&scope, record.span) {
                let outermost = self.outermost(record.guard, |settler, outermost| {
                    let mut scope = settler.arena.bounded_by(settler.arena.free(record.access));
                    settler.guarded(record, (&goals, &open), &mut scope, outermost).1
                });
                self.arena.protect(record.access, record.guard, outermost);
                self.bound_scalars(&guarded, &goals, record.span);
                return;
            }
        } else if self.settle_by_corner(record, &plain, &scope) {
            return;
        }
        if record.of.is_none() && record.guard != Checked::TOP && self.report_guarded_outside(record, &goals, &scope) {
            return;
        }
        self.check_as_it_runs(record);
    }

    /// Requires that the scalar parameters that a proof rests on are bounded.
    fn bound_scalars(&mut self, known: &Known, goals: &[Linear], span: Span) {
        for scalar in self.facts().scalars_of_proof(known, goals) {
            self.requirements.bound_scalar(self.arena, scalar, span);
        }
    }

    /// The facts inside the branches around a subscript, up to an outer one, and whether they prove
    /// the goals that are open. Adds the indices that say so to the scope.
    fn guarded(
        &mut self,
        record: &Record,
        (goals, open): (&[Linear], &[Linear]),
        scope: &mut Vec<IndexId>,
        outermost: GuardId,
    ) -> (Known, bool) {
        let facts = self.conditions(record.guard, outermost);
        // A branch stays inside the loop of an index only if its conditions constrain that index.
        // Otherwise, when arrays are inlined, it may move to a place where the index has no value.
        let said = |i: &&IndexId| {
            let rows = facts.rows.iter().chain(facts.choices.iter().flatten().flatten());
            rows.flat_map(|row| &row.terms).any(|(variable, _)| *variable == Variable::Index(**i))
        };
        let mentions: Vec<IndexId> = record.mentions.iter().filter(said).copied().collect();
        scope.extend(self.arena.bounded_by(&mentions));
        let guarded = self.facts().known(goals, scope, facts);
        let inside = open.iter().all(|goal| self.facts().proves(&guarded, goal));
        (guarded, inside)
    }

    /// The innermost branch around a place that, with those inside it, is enough for a proof that
    /// all branches are enough for. It matters only to recurrences and sorts, which stand outside
    /// of branches that they do not need.
    pub(super) fn outermost(
        &mut self,
        guard: GuardId,
        mut is_enough: impl FnMut(&mut Self, GuardId) -> bool,
    ) -> GuardId {
        let mut around: Vec<GuardId> = self.arena.guards(guard).collect();
        let all = around.pop().unwrap_or(guard);
        if !self.arena.has_parts_alone() {
            return all;
        }
        around.into_iter().find(|guard| is_enough(self, *guard)).unwrap_or(all)
    }

    /// Whether the facts about the indices contradict each other, because the indices never have
    /// values. Anything follows from a contradiction, but it holds only inside those loops, and
    /// code that does not mention the indices may move out of them.
    pub(super) fn is_void(&mut self, scope: &[IndexId]) -> bool {
        // The subscripts of one access ask one after another about the same indices.
        let required = self.requirements.count();
        if self.void.scope != scope || self.void.required != required {
            let facts = self.facts();
            let holds = facts.proves(&facts.known(&[], scope, Known::default()), &Linear::constant(-1));
            self.void = Void { scope: scope.to_vec(), required, holds };
        }
        self.void.holds
    }

    /// The facts that the conditions around a branch state, up to those of an outer one, which many
    /// accesses of it ask for.
    pub(super) fn conditions(&mut self, guard: GuardId, outermost: GuardId) -> Known {
        let facts = Facts { arena: self.arena, requirements: self.requirements };
        let known = self.conditions.entry((guard, outermost));
        known.or_insert_with(|| facts.strongest_conditions(guard, outermost)).clone()
    }

    fn check_as_it_runs(&mut self, record: &Record) {
        // It fails only where the program asks for it, so it needs all conditions.
        let outermost = self.arena.guards(record.guard).last().unwrap_or(record.guard);
        self.arena.protect(record.access, record.guard, outermost);
        let what = match record.of {
            Some(op) => CheckKind::Elements(op),
            None => CheckKind::Axis { array: record.array.replace('`', ""), axis: record.axis },
        };
        let site = self.arena.out.sites.push(Site { origin: origin(record.span), what });
        if let Kind::Access { at, .. } = &mut self.arena.out.exprs[record.access].kind {
            at[record.axis].check = Some(site);
        }
    }

    /// Requires that the ends of these indices do not wrap to greater values, unless they never
    /// can.
    pub(super) fn rely_on_ends(&mut self, scope: &[IndexId], span: Span) -> bool {
        let mut ends = vec![];
        for index in scope {
            let Extent::Affine(extent) = &self.arena.out.indices[*index].extent else { continue };
            let Some(least) = self.facts().corner(extent, false) else { return false };
            if !self.facts().stays_above(&least) {
                ends.push((least, format!("the end of the index `{}`", self.arena.out.indices[*index].name)));
            }
        }
        for (least, what) in ends {
            self.requirements.require_value(self.arena, &least, &what, span);
        }
        true
    }

    /// Decides a subscript by its least and greatest value, if those are sizes: an error if one is
    /// outside for all sizes, else a requirement of the call.
    fn settle_by_corner(&mut self, record: &Record, plain: &Known, scope: &[IndexId]) -> bool {
        let Some(at) = self.arena.affine(record.value).cloned() else { return false };
        let (Some(least), Some(greatest)) = (self.facts().corner(&at, false), self.facts().corner(&at, true)) else {
            return false;
        };
        let mut void = vec![];
        for index in scope {
            match &self.arena.out.indices[*index].extent {
                Extent::Affine(extent) => void.extend(extent.as_size().cloned()),
                Extent::Dynamic(_) => return false,
            }
        }
        void.retain(|s| s.as_constant().is_none_or(|c| c < 1));
        void.sort();
        void.dedup();
        let room_below = least.clone();
        let room_above = &(&record.length - &Size::constant(1)) - &greatest;
        let sides = [(&room_below, &least, false), (&room_above, &greatest, true)];
        for (room, extreme, is_greatest) in sides.into_iter().take(if record.of.is_some() { 1 } else { 2 }) {
            let outside = Linear::constant(-1).minus(&Linear::size(room));
            let known = Known { void: self.is_void(scope).into(), ..Known::default() };
            let known = self.facts().known(std::slice::from_ref(&outside), scope, known);
            if self.facts().proves(&known, &outside) {
                self.report_outside(record, &at, extreme, is_greatest);
                return true;
            }
        }
        if let Some(op) = record.of {
            let count = &least + &Size::constant(1);
            require_element(self.requirements, self.report, op, &count, void, record.span);
            return true;
        }
        let what = format!("axis {} of {}", record.axis, record.array);
        if !self.facts().proves(plain, &Linear::size(&room_below)) {
            self.requirements.require(Requirement {
                left: Size::default(),
                relation: Relation::AtMost,
                right: least,
                unless_empty: void.clone(),
                left_is: "zero".into(),
                right_is: format!("the least subscript of {what}"),
                purpose: Purpose::Access,
                origin: origin(record.span),
            });
        }
        if !self.facts().proves(plain, &Linear::size(&room_above)) {
            self.requirements.require(Requirement {
                left: &greatest + &Size::constant(1),
                relation: Relation::AtMost,
                right: record.length.clone(),
                unless_empty: void,
                left_is: "the length that this access needs".into(),
                right_is: what,
                purpose: Purpose::Access,
                origin: origin(record.span),
            });
        }
        true
    }

    fn report_outside(&mut self, record: &Record, at: &Affine<IndexId>, extreme: &Size, greatest: bool) {
        let mut where_ = vec![];
        for (index, coefficient) in at.terms() {
            let info = &self.arena.out.indices[*index];
            let last = match &info.extent {
                Extent::Affine(extent) => self.facts().corner(&extent.sub(&Affine::constant(1)), true),
                Extent::Dynamic(_) => None,
            };
            let value =
                if (self.facts().sign(coefficient) > Some(0)) == greatest { last } else { Some(Size::default()) };
            if let Some(value) = value.and_then(|value| self.in_source(*index, &value)) {
                where_.push(format!("{} = {}", info.name, self.arena.show(&value)));
            }
        }
        if let Some(op) = record.of {
            let at = if where_.is_empty() { String::new() } else { format!("at {}, ", where_.join(", ")) };
            self.report.error_in(record.call, no_element(op, &at, record.span));
            return;
        }
        let at_index = if where_.is_empty() { String::new() } else { format!("at {} ", where_.join(", ")) };
        let (subscript, length) = (self.arena.show(extreme), self.arena.show(&record.length));
        let bound = if greatest { format!("has {length} elements") } else { "starts at 0".to_string() };
        let message = format!(
            "the access is outside: {at_index}the subscript is {subscript}, axis {} of {} {bound}",
            record.axis, record.array
        );
        let error = Diagnostic::new(codes::OUTSIDE, record.span, message);
        let own = self.report.calls.is_outermost(record.call);
        let from_the_end = extreme.as_constant().filter(|k| *k < 0 && own);
        let error = match where_.is_empty() {
            true if from_the_end.is_some() => {
                let subscript = self.arena.show(&(&record.length + extreme));
                let help = format!("negative subscripts do not count from the end: write `{subscript}`");
                error.help(help).suggest(record.span, subscript)
            }
            true => error,
            false => error.help("end the index earlier, or guard the access: `if ... then x[...] else 0`"),
        };
        self.report.error_in(record.call, error);
    }

    /// The value of an index as the source has it, which may begin elsewhere than at 0; none if it
    /// begins where no size says.
    fn in_source(&self, index: IndexId, value: &Size) -> Option<Size> {
        match self.arena.ends.first.get(&index) {
            Some(first) => self.arena.size_value(*first).map(|first| value + first),
            None => Some(value.clone()),
        }
    }

    /// Reports a subscript of one index that the conditions around it let be outside: at an index
    /// value where one of them, or the index's range, only just holds, and whatever the sizes for
    /// which that value is reached.
    fn report_guarded_outside(&mut self, record: &Record, goals: &[Linear; 2], scope: &[IndexId]) -> bool {
        let [index] = self.arena.free(record.value) else { return false };
        let (index, variable) = (*index, Variable::Index(*index));
        // An index that data end may not come that far.
        let by_data = |index: &IndexId| matches!(self.arena.out.indices[*index].extent, Extent::Dynamic(_));
        if scope.iter().chain([&index]).any(by_data)
            || self.arena.affine(record.value).is_none()
            || !self.understood(record.guard)
        {
            return false;
        }
        let conditions = self.facts().conditions(record.guard, Checked::TOP);
        if !conditions.choices.is_empty() {
            return false;
        }
        let known = self.facts().known(goals, scope, conditions);
        let this = Linear::variable(variable.clone());
        for row in &known.rows {
            let Some((_, sign @ (1 | -1))) = row.terms.iter().find(|(v, _)| *v == variable) else { continue };
            let at = this.plus(-sign, row);
            let Some(shown) = at.as_size().and_then(|at| self.in_source(index, &at)) else { continue };
            let mut there = Known { rows: known.rows.clone(), ..Known::default() };
            there.rows.extend([this.minus(&at), at.minus(&this)]);
            let reached = !self.facts().proves(&there, &Linear::constant(-1));
            let outside = |goal: &&Linear| self.facts().proves(&there, &Linear::constant(-1).minus(goal));
            if let (true, Some(goal)) = (reached, goals.iter().find(outside)) {
                let length = self.arena.show(&record.length);
                let bound =
                    if *goal == goals[0] { "starts at 0".to_string() } else { format!("has {length} elements") };
                let name = self.arena.out.indices[index].name.clone();
                let (shown, what) = (self.arena.show(&shown), format!("axis {} of {}", record.axis, record.array));
                let message =
                    format!("the access is outside at {name} = {shown}, in spite of the condition: {what} {bound}");
                let help = "narrow the condition around it";
                let error = Diagnostic::new(codes::OUTSIDE, record.span, message).help(help);
                self.report.error_in(record.call, error);
                return true;
            }
        }
        false
    }

    /// Whether every condition around a branch is wholly about indices and sizes, so that it surely
    /// holds somewhere.
    fn understood(&self, guard: GuardId) -> bool {
        let tame = |id| {
            let form = self.facts().exact(id);
            form.is_some_and(|f| f.terms.iter().all(|(v, _)| !matches!(v, Variable::Opaque(_))))
        };
        self.arena.branches(guard).all(|branch| {
            let Some((condition, _)) = branch.condition else { return false };
            let mut pending = vec![condition];
            while let Some(id) = pending.pop() {
                match &self.arena.out.exprs[id].kind {
                    Kind::Unary(UnaryOp::Not, a) => pending.push(*a),
                    Kind::If { condition, then, otherwise } => pending.extend([*condition, *then, *otherwise]),
                    Kind::Constant(_) => {}
                    Kind::Compare(_, a, b) if self.arena.dtype(*a).is_int() && tame(*a) && tame(*b) => {}
                    _ => return false,
                }
            }
            true
        })
    }
}
