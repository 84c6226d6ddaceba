//! What is known where an access stands: linear facts about indices, sizes and other integer expressions, gathered
//! from ranges, lengths, requirements and conditions, for the prover.

use std::cell::OnceCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use ir::checked::{Checked, ExprId, Extent, GuardId, IndexId, Kind};
use ir::nest::{Relation, Requirement, SymbolSource};
use ir::size::Atom;
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, SymbolId, UnaryOp};

use super::Checker;
use super::node::keeps_value;
use super::prove::{Choice, Linear, Terms, Variable, follows};

/// What is known: rows that are not negative, and choices of which one holds.
#[derive(Clone, Default)]
pub(super) struct Known {
    pub rows: Vec<Linear>,
    pub choices: Vec<Choice>,
    /// Scalar parameters that have to lie within [`MAX_SCALAR`], or what is known may have wrapped.
    pub scalars: BTreeSet<SymbolId>,
    /// Whether it contradicts itself, once that has been asked.
    pub void: OnceCell<bool>,
}

/// Requirements beyond which a proof gives up on further ones.
const MAX_REQUIREMENTS: usize = 200;
/// Indices that end one another beyond which the ends of further ones are not looked at.
const MAX_ENDS: usize = 8;
/// Choices beyond which a proof gives up on further ones.
const MAX_CHOICES: usize = 5;
/// Scalar parameters that take part in conditions lie within this, as the lengths of arguments do, so that no condition wraps.
pub const MAX_SCALAR: i64 = ir::bind::MAX_LENGTH.cast_signed();
/// Coefficients in conditions that cannot make sizes and indices wrap.
const MAX_CONDITION: i128 = 1 << 12;

/// What a call must meet, as rows that are not negative. Of rows that differ by a constant only the strongest is kept.
#[derive(Default)]
pub(super) struct Requirements {
    /// Those that are noted: sides, and when they are void.
    seen: BTreeSet<(bool, Size, Size, Vec<Size>)>,
    rows: Vec<Row>,
    /// Row by terms and when it is void.
    strongest: BTreeMap<(Terms, Vec<Size>), usize>,
    /// Rows by each variable in them.
    mentions: BTreeMap<Variable, Vec<usize>>,
}

/// A form that is not negative unless a size is below 1.
pub(super) struct Row {
    form: Linear,
    unless_empty: Vec<Size>,
}

impl Requirements {
    /// Notes a requirement; whether it is new.
    pub fn insert(&mut self, r: &Requirement) -> bool {
        let equal = r.relation == Relation::Equal;
        let (first, second) = match equal && r.right < r.left {
            true => (&r.right, &r.left),
            false => (&r.left, &r.right),
        };
        if !self.seen.insert((equal, first.clone(), second.clone(), r.unless_empty.clone())) {
            return false;
        }
        let form = Linear::size(&r.right).minus(&Linear::size(&r.left));
        if equal {
            self.row(Linear::constant(0).minus(&form), &r.unless_empty);
        }
        self.row(form, &r.unless_empty);
        true
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.seen.len()
    }

    fn row(&mut self, form: Linear, unless_empty: &[Size]) {
        match self.strongest.entry((form.terms.clone(), unless_empty.to_vec())) {
            Entry::Occupied(at) => {
                let known = &mut self.rows[*at.get()].form.constant;
                *known = form.constant.min(*known);
            }
            Entry::Vacant(at) => {
                for (variable, _) in &form.terms {
                    self.mentions.entry(variable.clone()).or_default().push(self.rows.len());
                }
                at.insert(self.rows.len());
                self.rows.push(Row { form, unless_empty: unless_empty.to_vec() });
            }
        }
    }

    /// The rows that mention a variable, each with its number.
    fn of(&self, variable: &Variable) -> impl Iterator<Item = (usize, &Row)> {
        self.mentions.get(variable).into_iter().flatten().map(|k| (*k, &self.rows[*k]))
    }
}

impl Checker<'_> {
    /// Whether a goal follows from what is known, whichever of the choices hold: as everything does from a contradiction.
    pub(super) fn proves(&self, known: &Known, goal: &Linear) -> bool {
        let follows = |goal: &Linear| {
            let choices = &known.choices[..known.choices.len().min(MAX_CHOICES)];
            let proof = follows(&known.rows, choices, goal);
            self.combined.set(self.combined.get() + proof.combined);
            proof.holds
        };
        follows(goal) || !goal.terms.is_empty() && *known.void.get_or_init(|| follows(&Linear::constant(-1)))
    }

    /// The value of an integer scalar as a linear form; what is not linear stands for itself.
    pub(super) fn linear(&self, id: ExprId) -> Linear {
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
            Kind::Cast(a) if keeps_value(self.dtype(*a), self.dtype(id)) => self.linear(*a),
            Kind::Unary(UnaryOp::Neg, a) if self.dtype(id) == Dtype::I64 => Linear::constant(0).minus(&self.linear(*a)),
            Kind::Binary(op, a, b) if self.dtype(id) == Dtype::I64 => {
                let (x, y) = (self.linear(*a), self.linear(*b));
                let form = match op {
                    BinaryOp::Add => x.plus(1, &y),
                    BinaryOp::Sub => x.minus(&y),
                    BinaryOp::Mul if y.terms.is_empty() && small(y.constant) => {
                        Linear::constant(0).plus(y.constant, &x)
                    }
                    BinaryOp::Mul if x.terms.is_empty() && small(x.constant) => {
                        Linear::constant(0).plus(x.constant, &y)
                    }
                    _ => Linear::variable(Variable::Opaque(id)),
                };
                if form.too_large() { Linear::variable(Variable::Opaque(id)) } else { form }
            }
            _ => Linear::variable(Variable::Opaque(id)),
        }
    }

    /// The value of an integer scalar as a linear form, if computing it cannot wrap.
    pub(super) fn exact(&self, id: ExprId) -> Option<Linear> {
        let form = self.linear(id);
        let single = matches!(form.terms.as_slice(), [(Variable::Opaque(_), 1)]) && form.constant == 0;
        (single || self.fits(&form, Scalars::Bounded)).then_some(form)
    }

    /// Whether a form has a value of 64 bits whatever its variables are.
    fn fits(&self, form: &Linear, scalars: Scalars) -> bool {
        let range = form.terms.iter().try_fold((form.constant, form.constant), |sum, (variable, c)| {
            let range = match variable {
                Variable::Index(index) => (0, self.most_of_index(*index, scalars, MAX_ENDS)),
                Variable::Product(atoms) => match atoms.as_slice() {
                    [atom] => self.range_of_atom(atom, scalars)?,
                    _ => return None,
                },
                Variable::Opaque(_) => return None,
            };
            add(sum, times((*c, *c), range)?).filter(|_| small(*c))
        });
        range.is_some_and(within)
    }

    /// The greatest value of an index; `ends` limits how many indices that end one another are looked at.
    fn most_of_index(&self, index: IndexId, scalars: Scalars, ends: usize) -> i128 {
        let end = || {
            let Extent::Affine(extent) = &self.out.indices[index].extent else { return None };
            let ends = ends.checked_sub(1)?;
            let start = self.range_of_size(extent.constant_part(), scalars)?;
            extent.terms().iter().try_fold(start, |sum, (i, c)| {
                let most = self.most_of_index(*i, scalars, ends);
                add(sum, times(self.range_of_size(c, scalars)?, (0, most))?)
            })
        };
        end().map_or(i64::MAX.into(), |(_, most)| most.min(i64::MAX.into())) - 1
    }

    /// The least and greatest value of a size.
    fn range_of_size(&self, size: &Size, scalars: Scalars) -> Option<Range> {
        size.terms().iter().try_fold((0, 0), |sum, (product, c)| {
            let c = i128::from(*c);
            let term = product.iter().try_fold((c, c), |range, atom| times(range, self.range_of_atom(atom, scalars)?));
            add(sum, term?)
        })
    }

    fn range_of_atom(&self, atom: &Atom, scalars: Scalars) -> Option<Range> {
        let most = i128::from(MAX_SCALAR);
        match atom {
            Atom::Symbol(s) => Some(match (self.out.symbols[*s].source, scalars) {
                (SymbolSource::Dimension { .. }, _) => (0, most),
                (SymbolSource::Scalar { .. }, Scalars::Bounded) => (-most, most),
                (SymbolSource::Scalar { .. }, Scalars::Any) => (i64::MIN.into(), i64::MAX.into()),
            }),
            Atom::FloorDiv(a, b) => {
                let b = i128::from(b.as_constant().filter(|b| *b > 0)?);
                let (least, greatest) = self.range_of_size(a, scalars).filter(|a| within(*a))?;
                Some((least.div_euclid(b), greatest.div_euclid(b)))
            }
            Atom::Overflow(_) => None,
        }
    }

    /// Notes that a form has its exact value only if the scalar parameters in it are bounded, unless it always does.
    fn rely_on(&self, form: &Linear, known: &mut Known) {
        if !self.fits(form, Scalars::Any) {
            self.note_scalars(form.terms.iter().map(|(variable, _)| variable.clone()).collect(), &mut known.scalars);
        }
    }

    /// Adds the scalar parameters in these variables, and in the ends of the indices among them.
    fn note_scalars(&self, mut pending: Vec<Variable>, scalars: &mut BTreeSet<SymbolId>) {
        let mut seen = BTreeSet::new();
        while let Some(variable) = pending.pop() {
            match variable {
                Variable::Product(atoms) => atoms.iter().for_each(|atom| self.scalars_of(&atom.into(), scalars)),
                Variable::Index(index) if seen.insert(index) => {
                    if let Extent::Affine(extent) = &self.out.indices[index].extent {
                        self.scalars_of(extent.constant_part(), scalars);
                        for (outer, c) in extent.terms() {
                            self.scalars_of(c, scalars);
                            pending.push(Variable::Index(*outer));
                        }
                    }
                }
                Variable::Index(_) | Variable::Opaque(_) => {}
            }
        }
    }

    fn scalars_of(&self, size: &Size, scalars: &mut BTreeSet<SymbolId>) {
        size.for_each_symbol(&mut |s| {
            if matches!(self.out.symbols[s].source, SymbolSource::Scalar { .. }) {
                scalars.insert(s);
            }
        });
    }

    /// The same as [`Checker::conditions`], which many accesses of a branch ask for. Of rows that differ by a constant only the strongest
    /// is there.
    pub(super) fn strongest_conditions(&mut self, guard: GuardId) -> Known {
        if let Some(known) = self.conditions.get(&guard) {
            return known.clone();
        }
        let mut known = self.conditions(guard);
        let mut places: BTreeMap<Terms, usize> = BTreeMap::new();
        for row in std::mem::take(&mut known.rows) {
            match places.entry(row.terms.clone()) {
                Entry::Occupied(at) => {
                    let constant = &mut known.rows[*at.get()].constant;
                    *constant = row.constant.min(*constant);
                }
                Entry::Vacant(at) => {
                    at.insert(known.rows.len());
                    known.rows.push(row);
                }
            }
        }
        self.conditions.insert(guard, known.clone());
        known
    }

    /// The facts that the conditions around a branch state.
    pub(super) fn conditions(&self, mut guard: GuardId) -> Known {
        let mut known = Known::default();
        while guard != Checked::TOP {
            if let Some((condition, holds)) = self.branches[guard].condition {
                self.assume(condition, holds, &mut known);
            }
            guard = self.out.guards[guard];
        }
        let choices = known.choices.iter().flatten().flatten();
        for (variable, _) in known.rows.iter().chain(choices).flat_map(|r| &r.terms) {
            if let Variable::Product(atoms) = variable {
                atoms.iter().for_each(|atom| self.scalars_of(&atom.into(), &mut known.scalars));
            }
        }
        known
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
                self.rely_on(&a, known);
                self.rely_on(&b, known);
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
            known.scalars.append(&mut case.scalars);
            cases.push(case.rows);
        }
        known.choices.push(cases);
    }

    /// All that is known of the variables of some goals, inside the loops over some indices.
    pub(super) fn known(&self, goals: &[Linear], scope: &[IndexId], mut known: Known) -> Known {
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
        let mut used: BTreeSet<usize> = BTreeSet::new();
        let mut seen: BTreeSet<Variable> = BTreeSet::new();
        while let Some(variable) = pending.pop() {
            if !seen.insert(variable.clone()) {
                continue;
            }
            let (rows, choices) = (known.rows.len(), known.choices.len());
            self.facts(&variable, &mut known);
            for (k, row) in self.requirements.of(&variable) {
                let holds = row.unless_empty.iter().all(|s| extents.contains(s));
                if used.len() < MAX_REQUIREMENTS && holds && used.insert(k) {
                    known.rows.push(row.form.clone());
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
                if let (Extent::Dynamic(_), Some(end)) = (&self.out.indices[*index].extent, &end) {
                    self.rely_on(end, known);
                }
                known.rows.extend(end.map(|end| end.minus(&one).minus(&this)));
            }
            Variable::Product(atoms) => {
                let length = |a: &Atom| match a {
                    Atom::Symbol(s) => matches!(self.out.symbols[*s].source, SymbolSource::Dimension { .. }),
                    Atom::FloorDiv(..) | Atom::Overflow(_) => false,
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
        // A table of 256 elements can be indexed by any `u8`.
        let range: (Option<i128>, Option<i128>) = match self.dtype(id) {
            Dtype::I8 => (Some(i8::MIN.into()), Some(i8::MAX.into())),
            Dtype::U8 => (Some(0), Some(u8::MAX.into())),
            Dtype::U32 | Dtype::U64 => (Some(0), None),
            _ => (None, None),
        };
        known.rows.extend(range.0.map(|least| this.minus(&Linear::constant(least))));
        known.rows.extend(range.1.map(|most| Linear::constant(most).minus(this)));
        let Kind::Binary(op, a, b) = self.out.exprs[id].kind else { return };
        if let Some(end) = self.end_of_digit(id) {
            known.rows.extend([this.clone(), Linear::size(&end).minus(&Linear::constant(1)).minus(this)]);
        }
        let (Some(a), Some(b)) = (self.exact(a), self.exact(b)) else { return };
        self.rely_on(&a, known);
        self.rely_on(&b, known);
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

    /// A size that an expression is below and not negative: an index, or a digit of one by sizes that divide its end. `l / m` is below
    /// `n` and `l % m` below `m` where `l < n * m`: that there is an `l` says that `m` is not 0.
    fn end_of_digit(&self, id: ExprId) -> Option<Size> {
        let is_length = |size: &Size| self.range_of_size(size, Scalars::Any).is_some_and(|(least, _)| least >= 0);
        if let Some(index) = self.affine(id).and_then(Affine::as_index) {
            let Extent::Affine(end) = &self.out.indices[index].extent else { return None };
            return end.as_size().filter(|end| is_length(end)).cloned();
        }
        let Kind::Binary(op @ (BinaryOp::Div | BinaryOp::Rem), a, b) = self.out.exprs[id].kind else { return None };
        let by = self.affine(b)?.as_size()?;
        if !is_length(by) || !self.range_of_size(by, Scalars::Any).is_some_and(within) {
            return None;
        }
        let quotient = self.end_of_digit(a)?.exact_div(by)?;
        Some(if op == BinaryOp::Div { quotient } else { by.clone() })
    }
}

/// The assumption that ranges are computed on, of scalar parameters.
#[derive(Clone, Copy)]
enum Scalars {
    /// That they are within [`MAX_SCALAR`].
    Bounded,
    /// Nothing.
    Any,
}

/// The least and the greatest value.
type Range = (i128, i128);

/// The range of the sum of numbers from two ranges.
fn add((a, b): Range, (c, d): Range) -> Option<Range> {
    Some((a.checked_add(c)?, b.checked_add(d)?))
}

/// The range of their product.
fn times((a, b): Range, (c, d): Range) -> Option<Range> {
    let corners = [a.checked_mul(c)?, a.checked_mul(d)?, b.checked_mul(c)?, b.checked_mul(d)?];
    Some((corners.into_iter().min()?, corners.into_iter().max()?))
}

/// Whether all numbers of a range have 64 bits.
fn within((least, greatest): Range) -> bool {
    least >= i64::MIN.into() && greatest <= i64::MAX.into()
}

/// Whether a coefficient is small enough that lengths, indices and bounded scalars times it do not
/// wrap.
pub(super) fn is_small_coefficient(c: i64) -> bool {
    small(c.into())
}

fn small(c: i128) -> bool {
    c.abs() <= MAX_CONDITION
}

/// `q` is the floor of `a / d`.
fn quotient(a: &Linear, q: &Linear, d: i128) -> [Linear; 2] {
    [a.plus(-d, q), Linear::constant(d - 1).plus(d, q).minus(a)]
}
