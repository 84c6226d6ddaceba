//! That every access is inside: proved, required of the call's sizes, or checked as the program runs.
//!
//! A subscript is proved from what is known where it stands: the ranges of the indices, that lengths are not negative,
//! what the call was already required to meet, and (if that is not enough) the conditions of the `if`s around it. Only
//! conditions whose sides cannot wrap are used. A subscript that depends on sizes alone becomes a requirement of the call;
//! one that is outside for all sizes at some index is an error; anything else, also what is inside only because nothing runs there, is
//! checked as the program runs.
//!
//! Proofs are about exact numbers, but the end of a reducer's index wraps. Above 2^63 it wraps to a
//! smaller value, which is harmless: a proof holds for all indices below the exact end. Below -2^63
//! it wraps to a greater one, so a proof requires ends that might get there to have an exact value.

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{Checked, ExprId, Extent, GuardId, IndexId, Kind};
use ir::nest::{Place, Purpose, Relation, Requirement, Site, SymbolSource};
use ir::size::Atom;
use ir::{Affine, ReduceOp, Size, SymbolId, UnaryOp};

use super::calls::CallId;
use super::facts::{Known, MAX_SCALAR, is_small_coefficient};
use super::prove::{Linear, Variable};
use super::{Checker, codes, origin};

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
    pub call: Option<CallId>,
    /// Set if it is no access of the source, but says that a reducer has an element: then the value must not be negative.
    pub of: Option<ReduceOp>,
}

/// At most this many lengths with small coefficients: together they stay below 2^63.
const MAX_TERMS: usize = 7;

impl Checker<'_> {
    /// Whether a size is never negative, whatever the lengths.
    pub(super) fn never_negative(&self, size: &Size) -> bool {
        let goal = Linear::size(size);
        // Nothing is known but what has to do with the goal.
        let known = Known { void: false.into(), ..Known::default() };
        let known = self.known(std::slice::from_ref(&goal), &[], known);
        self.proves(&known, &goal)
    }

    /// Settles every subscript of the function.
    pub(super) fn prove_accesses(&mut self) {
        for record in std::mem::take(&mut self.records) {
            let free = self.free(record.value).to_vec();
            if !free.iter().chain(&record.scope).any(|i| self.poisoned.contains(i)) {
                self.settle(&record);
            }
        }
    }

    fn settle(&mut self, record: &Record) {
        // Most subscripts are an index that runs along the very axis: no need for the prover.
        let index = self.affine(record.value).and_then(Affine::as_index);
        if let Some(Extent::Affine(extent)) = index.map(|i| &self.out.indices[i].extent)
            && extent.as_size() == Some(&record.length)
            && record.of.is_none()
        {
            return;
        }
        let value = self.linear(record.value);
        let one = Linear::constant(1);
        let room = match record.of {
            Some(_) => Linear::constant(0),
            None => Linear::size(&record.length).minus(&one).minus(&value),
        };
        let goals = [value, room];
        // An expression is computed wherever the indices that it mentions have values, whatever other loops stand around
        // it in the source: that those run says nothing.
        let mut scope = self.bounded_by(self.free(record.access));
        // What is known of other variables than the goals' comes of these indices.
        let void = Known { void: self.is_void(&scope).into(), ..Known::default() };
        let plain = self.known(&goals, &scope, void);
        let open: Vec<&Linear> = goals.iter().filter(|g| !self.proves(&plain, g)).collect();
        if open.is_empty() && self.is_void(&scope) {
            return self.check_as_it_runs(record);
        }
        if open.is_empty() && self.rely_on_ends(&scope, record.span) {
            plain.scalars.iter().for_each(|s| self.bound_scalar(*s, record.span));
            return;
        }
        if record.guard != Checked::TOP {
            let facts = self.strongest_conditions(record.guard);
            // Only an index that the conditions say something of is certain to be theirs still when arrays have been inlined: without one
            // a branch moves to where that index never runs.
            let said = |i: &&IndexId| {
                let rows = facts.rows.iter().chain(facts.choices.iter().flatten().flatten());
                rows.flat_map(|row| &row.terms).any(|(variable, _)| *variable == Variable::Index(**i))
            };
            let mentions: Vec<IndexId> = record.mentions.iter().filter(said).copied().collect();
            scope.extend(self.bounded_by(&mentions));
            let guarded = self.known(&goals, &scope, facts);
            let inside = open.iter().all(|g| self.proves(&guarded, g));
            if inside && self.is_void(&scope) {
                return self.check_as_it_runs(record);
            }
            if inside && self.rely_on_ends(&scope, record.span) {
                self.need(record.guard);
                guarded.scalars.iter().for_each(|s| self.bound_scalar(*s, record.span));
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

    /// Whether what is known of the indices contradicts itself, because they never have values. Anything follows from that, but it holds
    /// only where the indices run, and code that does not mention them moves.
    fn is_void(&mut self, scope: &[IndexId]) -> bool {
        // The subscripts of an access ask one after another, of the same indices.
        let required = self.requirements.count();
        if self.void.0 != scope || self.void.1 != required {
            let void = self.proves(&self.known(&[], scope, Known::default()), &Linear::constant(-1));
            self.void = (scope.to_vec(), required, void);
        }
        self.void.2
    }

    fn check_as_it_runs(&mut self, record: &Record) {
        self.need(record.guard);
        let what = match record.of {
            Some(op) => Place::Elements(op),
            None => Place::Axis { array: record.array.replace('`', ""), axis: record.axis },
        };
        let site = self.out.sites.push(Site { origin: origin(record.span), what });
        if let Kind::Access { at, .. } = &mut self.out.exprs[record.access].kind {
            at[record.axis].check = Some(site);
        }
    }

    /// Requires that the ends of these indices do not wrap to greater values, unless they never
    /// can.
    fn rely_on_ends(&mut self, scope: &[IndexId], span: Span) -> bool {
        let mut ends = vec![];
        for index in scope {
            let Extent::Affine(extent) = &self.out.indices[*index].extent else { continue };
            let Some(least) = self.corner(extent, false) else { return false };
            if !self.stays_above(&least) {
                ends.push((least, format!("the end of the index `{}`", self.out.indices[*index].name)));
            }
        }
        for (least, what) in ends {
            self.require_value(&least, &what, span);
        }
        true
    }

    /// Whether a size is a sum of lengths with small coefficients: no call has enough memory to
    /// make it wrap.
    pub(super) fn is_small(&self, size: &Size) -> bool {
        let few = size.terms().len() <= MAX_TERMS;
        few && size.terms().iter().all(|(product, coefficient)| match product.as_slice() {
            [] => coefficient.unsigned_abs() <= MAX_SCALAR.unsigned_abs(),
            [atom] => is_small_coefficient(*coefficient) && self.is_length(atom),
            _ => false,
        })
    }

    /// Whether an atom is a length, or a quotient of a small size.
    fn is_length(&self, atom: &Atom) -> bool {
        match atom {
            Atom::Symbol(s) => matches!(self.out.symbols[*s].source, SymbolSource::Dimension { .. }),
            Atom::FloorDiv(a, b) => b.as_constant().is_some_and(|b| b > 0) && self.is_small(a),
            Atom::Overflow(_) => false,
        }
    }

    /// Whether a size is known not to be below -2^63.
    fn stays_above(&self, size: &Size) -> bool {
        let scalar = |atom: &Atom| match atom {
            Atom::Symbol(s) => matches!(self.out.symbols[*s].source, SymbolSource::Scalar { .. }),
            Atom::FloorDiv(..) | Atom::Overflow(_) => false,
        };
        let mut scalars = 0;
        let grows = size.terms().iter().all(|(product, coefficient)| match product.as_slice() {
            [atom] if *coefficient == 1 && scalar(atom) => {
                scalars += 1;
                true
            }
            product => {
                *coefficient > 0 && product.iter().all(|atom| self.is_length(atom) && self.never_negative(&atom.into()))
            }
        });
        self.is_small(size) || grows && scalars < 2
    }

    /// Requires a size to have an exact value, unless it always does.
    pub(super) fn require_value(&mut self, size: &Size, what: &str, span: Span) {
        if !(self.is_small(size) || size.as_symbol().is_some()) {
            self.require(Requirement {
                left: size.clone(),
                relation: Relation::AtMost,
                right: size.clone(),
                unless_empty: vec![],
                left_is: what.to_string(),
                right_is: what.to_string(),
                purpose: Purpose::Value,
                origin: origin(span),
            });
        }
    }

    /// Indices, and those that their extents mention.
    pub(super) fn bounded_by(&self, indices: &[IndexId]) -> Vec<IndexId> {
        let mut all: Vec<IndexId> = vec![];
        let mut pending = indices.to_vec();
        while let Some(index) = pending.pop() {
            if all.contains(&index) {
                continue;
            }
            all.push(index);
            match &self.out.indices[index].extent {
                Extent::Affine(extent) => pending.extend(extent.terms().iter().map(|(i, _)| *i)),
                Extent::Dynamic(extent) => pending.extend_from_slice(self.free(*extent)),
            }
        }
        all
    }

    /// Decides a subscript by its least and greatest value, if those are sizes: an error if one is outside for all
    /// sizes, else a requirement of the call.
    fn settle_by_corner(&mut self, record: &Record, plain: &Known, scope: &[IndexId]) -> bool {
        let Some(at) = self.affine(record.value).cloned() else { return false };
        let (Some(least), Some(greatest)) = (self.corner(&at, false), self.corner(&at, true)) else { return false };
        let mut void = vec![];
        for index in scope {
            match &self.out.indices[*index].extent {
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
            let known = self.known(std::slice::from_ref(&outside), scope, known);
            if self.proves(&known, &outside) {
                self.report_outside(record, &at, extreme, is_greatest);
                return true;
            }
        }
        if let Some(op) = record.of {
            self.want_element(op, &(&least + &Size::constant(1)), void, record.span);
            return true;
        }
        let what = format!("axis {} of {}", record.axis, record.array);
        if !self.proves(plain, &Linear::size(&room_below)) {
            self.require(Requirement {
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
        if !self.proves(plain, &Linear::size(&room_above)) {
            self.require(Requirement {
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
            let info = &self.out.indices[*index];
            let last = match &info.extent {
                Extent::Affine(extent) => self.corner(&extent.sub(&Affine::constant(1)), true),
                Extent::Dynamic(_) => None,
            };
            let value = if (self.sign(coefficient) > Some(0)) == greatest { last } else { Some(Size::default()) };
            if let Some(value) = value {
                where_.push(format!("{} = {}", info.name, self.show(&value)));
            }
        }
        if let Some(op) = record.of {
            let at = if where_.is_empty() { String::new() } else { format!("at {}, ", where_.join(", ")) };
            let outer = self.calls.look_from(record.call);
            self.no_element(op, &at, record.span);
            self.calls.look_from(outer);
            return;
        }
        let at_index = if where_.is_empty() { String::new() } else { format!("at {} ", where_.join(", ")) };
        let (subscript, length) = (self.show(extreme), self.show(&record.length));
        let bound = if greatest { format!("has {length} elements") } else { "starts at 0".to_string() };
        let message = format!(
            "the access is outside: {at_index}the subscript is {subscript}, axis {} of {} {bound}",
            record.axis, record.array
        );
        let error = Diagnostic::new(codes::OUTSIDE, record.span, message);
        let outer = self.calls.look_from(record.call);
        let from_the_end = extreme.as_constant().filter(|k| *k < 0 && self.calls.is_outermost(record.call));
        self.error(match where_.is_empty() {
            true if from_the_end.is_some() => {
                let subscript = self.show(&(&record.length + extreme));
                let help = format!("negative subscripts do not count from the end: write `{subscript}`");
                error.help(help).suggest(record.span, subscript)
            }
            true => error,
            false => error.help("end the index earlier, or guard the access: `if ... then x[...] else 0`"),
        });
        self.calls.look_from(outer);
    }

    /// Reports a subscript of one index that the conditions around it let be outside: at an index value where one of
    /// them, or the index's range, only just holds, and whatever the sizes for which that value is reached.
    fn report_guarded_outside(&mut self, record: &Record, goals: &[Linear; 2], scope: &[IndexId]) -> bool {
        let [index] = self.free(record.value) else { return false };
        let (index, variable) = (*index, Variable::Index(*index));
        // An index whose end is data may not come so far.
        let by_data = |index: &IndexId| matches!(self.out.indices[*index].extent, Extent::Dynamic(_));
        if scope.iter().chain([&index]).any(by_data)
            || self.affine(record.value).is_none()
            || !self.understood(record.guard)
        {
            return false;
        }
        let conditions = self.conditions(record.guard);
        if !conditions.choices.is_empty() {
            return false;
        }
        let known = self.known(goals, scope, conditions);
        let this = Linear::variable(variable.clone());
        for row in &known.rows {
            let Some((_, sign @ (1 | -1))) = row.terms.iter().find(|(v, _)| *v == variable) else { continue };
            let at = this.plus(-sign, row);
            let Some(shown) = self.linear_size(&at) else { continue };
            let mut there = Known { rows: known.rows.clone(), ..Known::default() };
            there.rows.extend([this.minus(&at), at.minus(&this)]);
            let reached = !self.proves(&there, &Linear::constant(-1));
            let outside = |goal: &&Linear| self.proves(&there, &Linear::constant(-1).minus(goal));
            if let (true, Some(goal)) = (reached, goals.iter().find(outside)) {
                let length = self.show(&record.length);
                let bound =
                    if *goal == goals[0] { "starts at 0".to_string() } else { format!("has {length} elements") };
                let name = self.out.indices[index].name.clone();
                let (shown, what) = (self.show(&shown), format!("axis {} of {}", record.axis, record.array));
                let message =
                    format!("the access is outside at {name} = {shown}, in spite of the condition: {what} {bound}");
                let outer = self.calls.look_from(record.call);
                let help = "narrow the condition of the `if` around it";
                self.error(Diagnostic::new(codes::OUTSIDE, record.span, message).help(help));
                self.calls.look_from(outer);
                return true;
            }
        }
        false
    }

    /// Whether every condition around a branch is wholly about indices and sizes, so that it surely holds somewhere.
    fn understood(&self, mut guard: GuardId) -> bool {
        let tame = |id| {
            let form = self.exact(id);
            form.is_some_and(|f| f.terms.iter().all(|(v, _)| !matches!(v, Variable::Opaque(_))))
        };
        while guard != Checked::TOP {
            let Some((condition, _)) = self.branches[guard].condition else { return false };
            let mut pending = vec![condition];
            while let Some(id) = pending.pop() {
                match &self.out.exprs[id].kind {
                    Kind::Unary(UnaryOp::Not, a) => pending.push(*a),
                    Kind::If { condition, then, otherwise } => pending.extend([*condition, *then, *otherwise]),
                    Kind::Constant(_) => {}
                    Kind::Compare(_, a, b) if self.dtype(*a).is_int() && tame(*a) && tame(*b) => {}
                    _ => return false,
                }
            }
            guard = self.out.guards[guard];
        }
        true
    }

    /// A linear form of size names alone, as a size.
    fn linear_size(&self, form: &Linear) -> Option<Size> {
        let mut size = Size::constant(i64::try_from(form.constant).ok()?);
        for (variable, coefficient) in &form.terms {
            let Variable::Product(atoms) = variable else { return None };
            let [Atom::Symbol(symbol)] = atoms.as_slice() else { return None };
            let coefficient = Size::constant(i64::try_from(*coefficient).ok()?);
            size = &size + &(&coefficient * &Size::symbol(*symbol));
        }
        Some(size)
    }

    /// The least or greatest value of an expression over the ranges of its indices, if it is a size.
    pub(super) fn corner(&self, at: &Affine<IndexId>, greatest: bool) -> Option<Size> {
        let mut at = at.clone();
        while let Some((index, coefficient)) = at.terms().last().cloned() {
            let Extent::Affine(extent) = &self.out.indices[index].extent else { return None };
            if self.unsolved.contains(&index) {
                return None;
            }
            let last = extent.sub(&Affine::constant(1));
            let to = if (self.sign(&coefficient)? > 0) == greatest { last } else { Affine::constant(0) };
            at = at.substitute(&mut |i| if i == index { to.clone() } else { Affine::index(i) });
        }
        at.as_size().cloned()
    }

    /// The sign of a coefficient, where it is known to be the same for all sizes.
    fn sign(&self, coefficient: &Size) -> Option<i64> {
        match coefficient.as_constant() {
            Some(c) => Some(c.signum()),
            None if self.never_negative(coefficient) => Some(1),
            None if self.never_negative(&-coefficient) => Some(-1),
            None => None,
        }
    }

    /// Records that something is computed only inside a branch, and so only inside the enclosing
    /// ones.
    pub(super) fn need(&mut self, mut guard: GuardId) {
        while guard != Checked::TOP {
            self.branches[guard].needed |= !self.branches[guard].eager;
            guard = self.out.guards[guard];
        }
    }

    /// Requires a scalar parameter to be small enough for conditions on it not to wrap.
    fn bound_scalar(&mut self, symbol: SymbolId, span: Span) {
        let name = format!("`{}`", self.out.symbols[symbol].name);
        let name = name.as_str();
        let value = Size::symbol(symbol);
        let limit = Size::constant(MAX_SCALAR);
        let sides =
            [(-&limit, value.clone(), "the least it may be", name), (value, limit, name, "the greatest it may be")];
        for (left, right, left_is, right_is) in sides {
            self.require(Requirement {
                left,
                relation: Relation::AtMost,
                right,
                unless_empty: vec![],
                left_is: left_is.to_string(),
                right_is: right_is.to_string(),
                purpose: Purpose::Scalar,
                origin: origin(span),
            });
        }
    }
}
