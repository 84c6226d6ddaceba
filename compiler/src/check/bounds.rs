//! That every access is inside: proved, required of the call's sizes, or checked as the program runs.
//!
//! A subscript is proved from what is known where it stands: the ranges of the indices, that lengths are not negative,
//! what the call was already required to meet, and (if that is not enough) the conditions of the `if`s around it. Only
//! conditions whose sides cannot wrap are used. A subscript that depends on sizes alone becomes a requirement of the call;
//! one that is outside for all sizes at some index is an error; anything else is checked as the program runs.

use std::collections::BTreeSet;

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{Checked, ExprId, Extent, GuardId, IndexId, Kind};
use ir::nest::{Relation, Requirement, Site, SymbolSource};
use ir::size::Atom;
use ir::{Affine, BinaryOp, CompareOp, Dtype, ReduceOp, Scalar, Size, SymbolId, UnaryOp};

use super::index::sign;
use super::prove::{Linear, Variable, follows};
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
    /// The calls it stands in.
    pub calls: Vec<(usize, Option<Span>)>,
}

/// What is known: rows that are not negative, and choices of which one holds.
#[derive(Default)]
struct Known {
    rows: Vec<Linear>,
    choices: Vec<Vec<Vec<Linear>>>,
}

/// Choices beyond which a proof gives up on further ones.
const MAX_CHOICES: usize = 5;
/// Scalar parameters that take part in conditions lie within this, so that no condition wraps.
const MAX_SCALAR: i64 = 1 << 48;
/// Coefficients in conditions that cannot make sizes and indices wrap.
const MAX_CONDITION: i128 = 1 << 12;

impl Checker<'_> {
    /// Whether a size is never negative, whatever the lengths.
    pub(super) fn never_negative(&self, size: &Size) -> bool {
        let goal = Linear::size(size);
        let known = self.known(std::slice::from_ref(&goal), &[], Known::default());
        proves(&known, &goal)
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
        let value = self.linear(record.value);
        let one = Linear::constant(1);
        let goals = [value.clone(), Linear::size(&record.length).minus(&one).minus(&value)];
        // An expression is computed wherever the indices that it mentions have values, whatever other loops stand around
        // it in the source: that those run says nothing.
        let mut scope = self.bounded_by(self.free(record.access));
        let plain = self.known(&goals, &scope, Known::default());
        let open: Vec<&Linear> = goals.iter().filter(|g| !proves(&plain, g)).collect();
        if open.is_empty() {
            return;
        }
        if record.guard != Checked::TOP {
            let (facts, scalars) = self.conditions(record.guard);
            scope.extend(self.bounded_by(&record.mentions));
            let guarded = self.known(&goals, &scope, facts);
            if open.iter().all(|g| proves(&guarded, g)) {
                self.need(record.guard);
                scalars.into_iter().for_each(|s| self.bound_scalar(s, record.span));
                return;
            }
        } else if self.settle_by_corner(record, &plain, &scope) {
            return;
        }
        if record.guard != Checked::TOP && self.report_guarded_outside(record, &goals, &scope) {
            return;
        }
        self.need(record.guard);
        let site = Site { origin: origin(record.span), array: record.array.replace('`', ""), axis: record.axis };
        let site = self.out.sites.push(site);
        if let Kind::Access { at, .. } = &mut self.out.exprs[record.access].kind {
            at[record.axis].check = Some(site);
        }
    }

    /// Indices, and those that their extents mention.
    fn bounded_by(&self, indices: &[IndexId]) -> Vec<IndexId> {
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
        for (room, extreme, is_greatest) in [(&room_below, &least, false), (&room_above, &greatest, true)] {
            let outside = Linear::constant(-1).minus(&Linear::size(room));
            let known = self.known(std::slice::from_ref(&outside), scope, Known::default());
            if proves(&known, &outside) {
                self.report_outside(record, &at, extreme, is_greatest);
                return true;
            }
        }
        let what = format!("axis {} of {}", record.axis, record.array);
        if !proves(plain, &Linear::size(&room_below)) {
            self.require(Requirement {
                left: Size::default(),
                relation: Relation::AtMost,
                right: least,
                unless_empty: void.clone(),
                left_is: "zero".into(),
                right_is: format!("the least subscript of {what}"),
                origin: origin(record.span),
            });
        }
        if !proves(plain, &Linear::size(&room_above)) {
            self.require(Requirement {
                left: &greatest + &Size::constant(1),
                relation: Relation::AtMost,
                right: record.length.clone(),
                unless_empty: void,
                left_is: "the elements that this access needs".into(),
                right_is: what,
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
            let value = if (sign(coefficient) > Some(0)) == greatest { last } else { Some(Size::default()) };
            if let Some(value) = value {
                where_.push(format!("{} = {}", info.name, self.show(&value)));
            }
        }
        let at_index = if where_.is_empty() { String::new() } else { format!("at {} ", where_.join(", ")) };
        let (subscript, length) = (self.show(extreme), self.show(&record.length));
        let bound = if greatest { format!("has {length} elements") } else { "starts at 0".to_string() };
        let message = format!(
            "the access is outside: {at_index}the subscript is {subscript}, axis {} of {} {bound}",
            record.axis, record.array
        );
        let error = Diagnostic::new(codes::OUTSIDE, record.span, message);
        let outer = std::mem::replace(&mut self.calls, record.calls.clone());
        self.error(match where_.is_empty() {
            true => error,
            false => error.help("end the index earlier, or guard the access: `if ... then x[...] else 0`"),
        });
        self.calls = outer;
    }

    /// Reports a subscript of one index that the conditions around it let be outside: at an index value where one of
    /// them, or the index's range, only just holds, and whatever the sizes for which that value is reached.
    fn report_guarded_outside(&mut self, record: &Record, goals: &[Linear; 2], scope: &[IndexId]) -> bool {
        let [index] = self.free(record.value) else { return false };
        let (index, variable) = (*index, Variable::Index(*index));
        if self.affine(record.value).is_none() || !self.understood(record.guard) {
            return false;
        }
        let (conditions, _) = self.conditions(record.guard);
        if !conditions.choices.is_empty() {
            return false;
        }
        let known = self.known(goals, scope, conditions);
        let this = Linear::variable(variable.clone());
        for row in &known.rows {
            let Some((_, sign @ (1 | -1))) = row.terms.iter().find(|(v, _)| *v == variable) else { continue };
            let at = this.plus(-sign, row);
            let Some(shown) = self.linear_size(&at) else { continue };
            let mut rows = known.rows.clone();
            rows.extend([this.minus(&at), at.minus(&this)]);
            let reached = !follows(&rows, &Linear::constant(-1));
            let outside = |goal: &&Linear| follows(&rows, &Linear::constant(-1).minus(goal));
            if let (true, Some(goal)) = (reached, goals.iter().find(outside)) {
                let length = self.show(&record.length);
                let bound =
                    if *goal == goals[0] { "starts at 0".to_string() } else { format!("has {length} elements") };
                let name = self.out.indices[index].name.clone();
                let (shown, what) = (self.show(&shown), format!("axis {} of {}", record.axis, record.array));
                let message =
                    format!("the access is outside at {name} = {shown}, in spite of the condition: {what} {bound}");
                let outer = std::mem::replace(&mut self.calls, record.calls.clone());
                let help = "narrow the condition of the `if` around it";
                self.error(Diagnostic::new(codes::OUTSIDE, record.span, message).help(help));
                self.calls = outer;
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
    fn corner(&self, at: &Affine<IndexId>, greatest: bool) -> Option<Size> {
        let mut at = at.clone();
        while let Some((index, coefficient)) = at.terms().last().cloned() {
            let Extent::Affine(extent) = &self.out.indices[index].extent else { return None };
            let last = extent.sub(&Affine::constant(1));
            let to = if (sign(&coefficient)? > 0) == greatest { last } else { Affine::constant(0) };
            at = at.substitute(&mut |i| if i == index { to.clone() } else { Affine::index(i) });
        }
        at.as_size().cloned()
    }

    /// Notes that an access holds only inside a branch, and so inside all around it.
    fn need(&mut self, mut guard: GuardId) {
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
                origin: origin(span),
            });
        }
    }

    /// The value of an integer scalar as a linear form; what is not linear stands for itself.
    fn linear(&self, id: ExprId) -> Linear {
        if let Some(affine) = self.affine(id) {
            let constant = affine.terms().iter().all(|(_, c)| c.as_constant().is_some());
            if constant {
                let start = Linear::size(affine.constant_part());
                return affine.terms().iter().fold(start, |sum, (index, c)| {
                    let c = i128::from(c.as_constant().unwrap_or(0));
                    sum.plus(c, &Linear::variable(Variable::Index(*index)))
                });
            }
            return Linear::variable(Variable::Opaque(id));
        }
        match &self.out.exprs[id].kind {
            Kind::Cast(a) if self.dtype(*a).is_int() => self.linear(*a),
            Kind::Unary(UnaryOp::Neg, a) if self.dtype(id) == Dtype::I64 => Linear::constant(0).minus(&self.linear(*a)),
            Kind::Binary(op, a, b) if self.dtype(id) == Dtype::I64 => {
                let (x, y) = (self.linear(*a), self.linear(*b));
                match op {
                    BinaryOp::Add => x.plus(1, &y),
                    BinaryOp::Sub => x.minus(&y),
                    BinaryOp::Mul if y.terms.is_empty() && small(y.constant) => {
                        Linear::constant(0).plus(y.constant, &x)
                    }
                    BinaryOp::Mul if x.terms.is_empty() && small(x.constant) => {
                        Linear::constant(0).plus(x.constant, &y)
                    }
                    _ => Linear::variable(Variable::Opaque(id)),
                }
            }
            _ => Linear::variable(Variable::Opaque(id)),
        }
    }

    /// The value of an integer scalar as a linear form, if computing it cannot wrap.
    fn exact(&self, id: ExprId) -> Option<Linear> {
        let form = self.linear(id);
        let single = matches!(form.terms.as_slice(), [(Variable::Opaque(_), 1)]) && form.constant == 0;
        let tame = |(v, c): &(Variable, i128)| {
            small(*c)
                && match v {
                    Variable::Index(_) => true,
                    Variable::Product(atoms) => atoms.len() == 1,
                    Variable::Opaque(_) => false,
                }
        };
        let bounded = form.terms.iter().all(tame) && form.constant.abs() <= MAX_SCALAR.into();
        (single || bounded).then_some(form)
    }

    /// What the conditions around a branch say, and the scalar parameters they mention.
    fn conditions(&self, mut guard: GuardId) -> (Known, BTreeSet<SymbolId>) {
        let mut known = Known::default();
        while guard != Checked::TOP {
            if let Some((condition, holds)) = self.branches[guard].condition {
                self.assume(condition, holds, &mut known);
            }
            guard = self.out.guards[guard];
        }
        let choices = known.choices.iter().flatten().flatten();
        let mut scalars = BTreeSet::new();
        for (variable, _) in known.rows.iter().chain(choices).flat_map(|r| &r.terms) {
            if let Variable::Product(atoms) = variable {
                for atom in atoms {
                    if let Atom::Symbol(s) = atom
                        && matches!(self.out.symbols[*s].source, SymbolSource::Scalar { .. })
                    {
                        scalars.insert(*s);
                    }
                }
            }
        }
        (known, scalars)
    }

    fn assume(&self, condition: ExprId, holds: bool, known: &mut Known) {
        let truth = |id: ExprId| match self.out.exprs[id].kind {
            Kind::Constant(Scalar::Bool(b)) => Some(b),
            _ => None,
        };
        match &self.out.exprs[condition].kind {
            Kind::Unary(UnaryOp::Not, a) => self.assume(*a, !holds, known),
            // `a && b`, which is `if a then b else false`, and `a || b`.
            Kind::If { condition: a, then: b, otherwise } if truth(*otherwise) == Some(false) => match holds {
                true => [*a, *b].iter().for_each(|c| self.assume(*c, true, known)),
                false => self.assume_one(&[(*a, false), (*b, false)], known),
            },
            Kind::If { condition: a, then, otherwise: b } if truth(*then) == Some(true) => match holds {
                false => [*a, *b].iter().for_each(|c| self.assume(*c, false, known)),
                true => self.assume_one(&[(*a, true), (*b, true)], known),
            },
            Kind::Compare(op, a, b) if self.dtype(*a).is_int() => {
                let (Some(a), Some(b)) = (self.exact(*a), self.exact(*b)) else { return };
                let less = |x: &Linear, y: &Linear| y.minus(x).minus(&Linear::constant(1));
                let at_most = |x: &Linear, y: &Linear| y.minus(x);
                match (op, holds) {
                    (CompareOp::Lt, true) | (CompareOp::Ge, false) => known.rows.push(less(&a, &b)),
                    (CompareOp::Le, true) | (CompareOp::Gt, false) => known.rows.push(at_most(&a, &b)),
                    (CompareOp::Gt, true) | (CompareOp::Le, false) => known.rows.push(less(&b, &a)),
                    (CompareOp::Ge, true) | (CompareOp::Lt, false) => known.rows.push(at_most(&b, &a)),
                    (CompareOp::Eq, true) | (CompareOp::Ne, false) => {
                        known.rows.extend([at_most(&a, &b), at_most(&b, &a)]);
                    }
                    (CompareOp::Ne, true) | (CompareOp::Eq, false) => {
                        known.choices.push(vec![vec![less(&a, &b)], vec![less(&b, &a)]]);
                    }
                }
            }
            _ => {}
        }
    }

    /// One of two conditions has the given truth.
    fn assume_one(&self, sides: &[(ExprId, bool)], known: &mut Known) {
        let mut cases = vec![];
        for (condition, holds) in sides {
            let mut case = Known::default();
            self.assume(*condition, *holds, &mut case);
            cases.push(case.rows);
        }
        known.choices.push(cases);
    }

    /// All that is known of the variables of some goals, inside the loops over some indices.
    fn known(&self, goals: &[Linear], scope: &[IndexId], mut known: Known) -> Known {
        let mut extents: Vec<Size> = vec![];
        let mut pending: Vec<Variable> = scope.iter().map(|i| Variable::Index(*i)).collect();
        for index in scope {
            if let Extent::Affine(extent) = &self.out.indices[*index].extent {
                extents.extend(extent.as_size().cloned());
            }
        }
        let of = |rows: &[Linear]| -> Vec<Variable> {
            rows.iter().flat_map(|r| r.terms.iter().map(|(v, _)| v.clone())).collect()
        };
        pending.extend(of(goals));
        pending.extend(of(&known.rows));
        known.choices.iter().flatten().for_each(|rows| pending.extend(of(rows)));
        let requirements: Vec<(Linear, bool)> = self
            .out
            .requires
            .iter()
            .filter(|r| r.unless_empty.iter().all(|s| extents.contains(s)))
            .map(|r| (Linear::size(&r.right).minus(&Linear::size(&r.left)), r.relation == Relation::Equal))
            .collect();
        let mut used = vec![false; requirements.len()];
        let mut seen: BTreeSet<Variable> = BTreeSet::new();
        while let Some(variable) = pending.pop() {
            if !seen.insert(variable.clone()) {
                continue;
            }
            let (rows, choices) = (known.rows.len(), known.choices.len());
            self.facts(&variable, &mut known);
            for (k, (row, equal)) in requirements.iter().enumerate() {
                if !used[k] && row.terms.iter().any(|(v, _)| *v == variable) {
                    used[k] = true;
                    known.rows.push(row.clone());
                    if *equal {
                        known.rows.push(Linear::constant(0).minus(row));
                    }
                }
            }
            pending.extend(of(&known.rows[rows..]));
            known.choices[choices..].iter().flatten().for_each(|rows| pending.extend(of(rows)));
        }
        known
    }

    /// What is known of one variable by itself.
    fn facts(&self, variable: &Variable, known: &mut Known) {
        let this = Linear::variable(variable.clone());
        let one = Linear::constant(1);
        match variable {
            Variable::Index(index) => {
                known.rows.push(this.clone());
                let end = match &self.out.indices[*index].extent {
                    Extent::Affine(extent) if extent.terms().iter().all(|(_, c)| c.as_constant().is_some()) => {
                        let start = Linear::size(extent.constant_part());
                        Some(extent.terms().iter().fold(start, |sum, (i, c)| {
                            let c = i128::from(c.as_constant().unwrap_or(0));
                            sum.plus(c, &Linear::variable(Variable::Index(*i)))
                        }))
                    }
                    Extent::Affine(_) => None,
                    Extent::Dynamic(end) => self.exact(*end),
                };
                known.rows.extend(end.map(|end| end.minus(&one).minus(&this)));
            }
            Variable::Product(atoms) => {
                let length = |a: &Atom| match a {
                    Atom::Symbol(s) => matches!(self.out.symbols[*s].source, SymbolSource::Dimension { .. }),
                    Atom::FloorDiv(..) | Atom::Overflow => false,
                };
                if atoms.iter().all(length) {
                    known.rows.push(this.clone());
                }
                if let [Atom::FloorDiv(a, b)] = atoms.as_slice()
                    && let Some(b) = b.as_constant().filter(|b| *b > 0)
                {
                    let a = Linear::size(a);
                    known.rows.extend(quotient(&a, &this, b.into()));
                }
            }
            Variable::Opaque(id) => self.opaque_facts(*id, &this, known),
        }
    }

    fn opaque_facts(&self, id: ExprId, this: &Linear, known: &mut Known) {
        let Kind::Binary(op, a, b) = self.out.exprs[id].kind else { return };
        let (Some(a), Some(b)) = (self.exact(a), self.exact(b)) else { return };
        let equal = |x: &Linear| vec![x.minus(this), this.minus(x)];
        let divisor = (b.terms.is_empty() && b.constant > 0 && small(b.constant)).then_some(b.constant);
        let one = Linear::constant(1);
        let negative = Linear::constant(0).minus(&a).minus(&one);
        match (op, divisor) {
            (BinaryOp::Min, _) => {
                known.rows.extend([a.minus(this), b.minus(this)]);
                known.choices.push(vec![equal(&a), equal(&b)]);
            }
            (BinaryOp::Max, _) => {
                known.rows.extend([this.minus(&a), this.minus(&b)]);
                known.choices.push(vec![equal(&a), equal(&b)]);
            }
            // Division truncates: down where the dividend is not negative, up where it is.
            (BinaryOp::Div, Some(d)) => {
                let mut down = quotient(&a, this, d).to_vec();
                down.push(a.clone());
                let minus = |x: &Linear| Linear::constant(0).minus(x);
                let mut up = quotient(&minus(&a), &minus(this), d).to_vec();
                up.push(negative);
                known.choices.push(vec![down, up]);
            }
            (BinaryOp::Rem, Some(d)) => {
                let below = Linear::constant(d - 1);
                let down = vec![a.clone(), this.clone(), below.minus(this), a.minus(this)];
                let up = vec![negative, Linear::constant(0).minus(this), below.plus(1, this)];
                known.choices.push(vec![down, up]);
            }
            _ => {}
        }
    }

    /// Last steps over the whole function, when all bounds are known.
    pub(super) fn finish(&mut self) {
        for (id, guard) in std::mem::take(&mut self.short_circuits) {
            if self.branches[guard].needed {
                continue;
            }
            if let Kind::If { condition, then, otherwise } = self.out.exprs[id].kind {
                let and = matches!(self.out.exprs[otherwise].kind, Kind::Constant(Scalar::Bool(false)));
                let (op, right) = if and { (BinaryOp::And, then) } else { (BinaryOp::Or, otherwise) };
                self.out.exprs[id].kind = Kind::Binary(op, condition, right);
            }
        }
        for id in std::mem::take(&mut self.contractions) {
            let Kind::Reduce { over, body, .. } = &self.out.exprs[id].kind else { continue };
            let rectangular = |i: &IndexId| match &self.out.indices[*i].extent {
                Extent::Affine(extent) => extent.as_size().is_some(),
                Extent::Dynamic(_) => false,
            };
            if let (true, Kind::Binary(_, left, right)) = (over.iter().all(rectangular), &self.out.exprs[*body].kind) {
                let (over, left, right) = (over.clone(), *left, *right);
                self.out.exprs[id].kind = Kind::Contract { over, left, right };
            }
        }
        self.require_elements();
        // Only branches that protect an access stay.
        let ids: Vec<ExprId> = self.out.exprs.keys().collect();
        for id in ids {
            let mut guard = self.out.exprs[id].guard;
            while guard != Checked::TOP && !self.branches[guard].needed {
                guard = self.out.guards[guard];
            }
            self.out.exprs[id].guard = guard;
        }
    }

    /// `argmax` and `argmin` of nothing have no answer: the call must bring an element.
    fn require_elements(&mut self) {
        let mut wanted = vec![];
        for expr in self.out.exprs.values() {
            let Kind::Reduce { op: op @ (ReduceOp::ArgMax | ReduceOp::ArgMin), over, prefix: None, .. } = &expr.kind
            else {
                continue;
            };
            for index in over {
                if let Extent::Affine(extent) = &self.out.indices[*index].extent
                    && let Some(extent) = extent.as_size().filter(|s| s.as_constant().is_none_or(|c| c < 1))
                {
                    wanted.push((*op, extent.clone(), expr.origin));
                }
            }
        }
        for (op, extent, origin) in wanted {
            if extent.as_constant().is_some() {
                let span = Span { start: origin.start, end: origin.end };
                let message = format!("`{op}` of no element has no answer");
                self.error(Diagnostic::new(codes::EMPTY_REDUCTION, span, message));
                continue;
            }
            self.require(Requirement {
                left: Size::constant(1),
                relation: Relation::AtMost,
                right: extent,
                unless_empty: vec![],
                left_is: "one".into(),
                right_is: format!("the number of elements that `{op}` looks at"),
                origin,
            });
        }
    }
}

fn small(c: i128) -> bool {
    c.abs() <= MAX_CONDITION
}

/// `q` is the floor of `a / d`.
fn quotient(a: &Linear, q: &Linear, d: i128) -> [Linear; 2] {
    [a.plus(-d, q), Linear::constant(d - 1).plus(d, q).minus(a)]
}

/// Whether a goal follows whichever of the choices hold.
fn proves(known: &Known, goal: &Linear) -> bool {
    fn all(rows: &mut Vec<Linear>, choices: &[Vec<Vec<Linear>>], goal: &Linear) -> bool {
        if follows(rows, goal) {
            return true;
        }
        let Some((first, rest)) = choices.split_first() else { return false };
        first.iter().all(|case| {
            let depth = rows.len();
            rows.extend(case.iter().cloned());
            let proved = all(rows, rest, goal);
            rows.truncate(depth);
            proved
        })
    }
    let choices = &known.choices[..known.choices.len().min(MAX_CHOICES)];
    all(&mut known.rows.clone(), choices, goal)
}
