//! The facts that hold where an access stands: linear inequalities between indices, sizes and other
//! integer expressions, gathered from ranges, lengths, requirements and conditions, for the prover.

use std::cell::OnceCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use ir::checked::{ExprId, Extent, GuardId, IndexId, Kind};
use ir::size::Atom;
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, SymbolId, UnaryOp};

use super::arena::{Arena, keeps_value};
use super::prove::{Choice, Linear, Terms, Variable, follows};
use super::ranges::{Scalars, small, within};
use super::requirements::Requirements;

/// All that proofs may rest on: the nodes, indices and branches, and the requirements of the call.
#[derive(Clone, Copy)]
pub(super) struct Facts<'c> {
    pub arena: &'c Arena,
    pub requirements: &'c Requirements,
}

/// Facts: rows that are not negative, and choices with at least one case each that holds.
#[derive(Clone, Default)]
pub(super) struct Known {
    pub rows: Vec<Linear>,
    pub choices: Vec<Choice>,
    /// Scalar parameters that must lie within `MAX_SCALAR`, or a row may have wrapped.
    pub scalars: BTreeSet<SymbolId>,
    /// Whether the facts contradict each other, once somebody has asked.
    pub void: OnceCell<bool>,
}

/// Requirements beyond which a proof gives up on further ones.
const MAX_REQUIREMENTS: usize = 200;
/// Choices beyond which a proof gives up on further ones.
const MAX_CHOICES: usize = 5;
impl Facts<'_> {
    /// Whether a goal follows from facts, whichever cases of the choices hold. From a contradiction
    /// everything follows.
    pub fn proves(&self, known: &Known, goal: &Linear) -> bool {
        let follows = |goal: &Linear| {
            let choices = &known.choices[..known.choices.len().min(MAX_CHOICES)];
            let proof = follows(&known.rows, choices, goal);
            let combined = &self.requirements.combined;
            combined.set(combined.get() + proof.combined);
            proof.holds
        };
        follows(goal) || !goal.terms.is_empty() && *known.void.get_or_init(|| follows(&Linear::constant(-1)))
    }

    /// The value of an integer scalar as a linear form; what is not linear stands for itself.
    pub fn linear(&self, id: ExprId) -> Linear {
        let opaque = || self.opaque(id);
        if let Some(affine) = self.arena.affine(id) {
            return linear(affine).unwrap_or_else(opaque);
        }
        match &self.arena.out.exprs[id].kind {
            Kind::Cast(a) if keeps_value(self.arena.dtype(*a), self.arena.dtype(id)) => self.linear(*a),
            Kind::Unary(UnaryOp::Neg, a) if self.arena.dtype(id) == Dtype::I64 => {
                Linear::constant(0).minus(&self.linear(*a))
            }
            Kind::Binary(op, a, b) if self.arena.dtype(id) == Dtype::I64 => {
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
                    BinaryOp::Mul
                    | BinaryOp::Div
                    | BinaryOp::Rem
                    | BinaryOp::Min
                    | BinaryOp::Max
                    | BinaryOp::And
                    | BinaryOp::Or
                    | BinaryOp::Xor
                    | BinaryOp::Shl
                    | BinaryOp::Shr => opaque(),
                };
                if form.too_large() { opaque() } else { form }
            }
            _ => opaque(),
        }
    }

    /// The value of a scalar as a variable.
    pub fn opaque(&self, id: ExprId) -> Linear {
        Linear::variable(Variable::Opaque(self.arena.first_alike(id)))
    }

    /// The value of an integer scalar as a linear form, if computing it cannot wrap.
    pub fn exact(&self, id: ExprId) -> Option<Linear> {
        let form = self.linear(id);
        let single = matches!(form.terms.as_slice(), [(Variable::Opaque(_), 1)]) && form.constant == 0;
        (single || self.fits(&form, Scalars::Bounded)).then_some(form)
    }

    /// Notes that a form has its exact value only if the scalar parameters in it are bounded,
    /// unless it always does.
    fn rely_on(&self, form: &Linear, known: &mut Known) {
        known.scalars.append(&mut self.scalars_to_bound(form));
    }

    /// The scalar parameters that must be bounded for a form to have its exact value.
    pub fn scalars_to_bound(&self, form: &Linear) -> BTreeSet<SymbolId> {
        if self.fits(form, Scalars::Any) { BTreeSet::new() } else { self.scalars_in(form) }
    }

    /// The scalar parameters that must be bounded for these facts to prove these goals. Facts about
    /// others may stand around an access without having a part in the proof.
    pub fn scalars_of_proof(&self, known: &Known, goals: &[Linear]) -> BTreeSet<SymbolId> {
        let mut needed = known.scalars.clone();
        let (mut rows, mut choices) = (known.rows.clone(), known.choices.clone());
        for scalar in &known.scalars {
            let free = |form: &Linear| !self.scalars_in(form).contains(scalar);
            let without = Known {
                rows: rows.iter().filter(|row| free(row)).cloned().collect(),
                choices: choices.iter().filter(|choice| choice.iter().flatten().all(free)).cloned().collect(),
                ..Known::default()
            };
            if goals.iter().all(|goal| free(goal) && self.proves(&without, goal)) {
                needed.remove(scalar);
                (rows, choices) = (without.rows, without.choices);
            }
        }
        needed
    }

    /// The scalar parameters in a form, and in the ends of the indices in it.
    fn scalars_in(&self, form: &Linear) -> BTreeSet<SymbolId> {
        let mut scalars = BTreeSet::new();
        let mut pending: Vec<Variable> = form.terms.iter().map(|(variable, _)| variable.clone()).collect();
        let mut seen = BTreeSet::new();
        while let Some(variable) = pending.pop() {
            match variable {
                Variable::Product(atoms) => atoms.iter().for_each(|atom| self.scalars_of(&atom.into(), &mut scalars)),
                Variable::Index(index) if seen.insert(index) => {
                    if let Extent::Affine(extent) = &self.arena.out.indices[index].extent {
                        self.scalars_of(extent.constant_part(), &mut scalars);
                        for (outer, c) in extent.terms() {
                            self.scalars_of(c, &mut scalars);
                            pending.push(Variable::Index(*outer));
                        }
                    }
                }
                Variable::Index(_) | Variable::Opaque(_) => {}
            }
        }
        scalars
    }

    fn scalars_of(&self, size: &Size, scalars: &mut BTreeSet<SymbolId>) {
        size.for_each_symbol(&mut |s| {
            if !self.arena.out.symbols[s].source.is_length() {
                scalars.insert(s);
            }
        });
    }

    /// The same as [`Facts::conditions`]. Of rows that differ by a constant only the strongest is
    /// there.
    pub fn strongest_conditions(&self, guard: GuardId, outermost: GuardId) -> Known {
        let mut known = self.conditions(guard, outermost);
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
        known
    }

    /// The facts that the conditions around a branch state, up to those of an outer one;
    /// [`Checked::TOP`] is outside of all.
    pub fn conditions(&self, guard: GuardId, outermost: GuardId) -> Known {
        let mut known = Known::default();
        for (guard, branch) in self.arena.guards(guard).zip(self.arena.branches(guard)) {
            if let Some((condition, holds)) = branch.condition {
                self.assume(condition, holds, &mut known);
            }
            if guard == outermost {
                break;
            }
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
        let truth = |id: ExprId| match self.arena.out.exprs[id].kind {
            Kind::Constant(Scalar::Bool(b)) => Some(b),
            _ => None,
        };
        match &self.arena.out.exprs[condition].kind {
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
            Kind::Compare(op, a, b) if self.arena.dtype(*a).is_int() => {
                // A side that may wrap is compared as it is.
                let [a, b] = [*a, *b].map(|side| self.exact(side).unwrap_or_else(|| self.opaque(side)));
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

    /// All facts about the variables of some goals, inside the loops over some indices.
    pub fn known(&self, goals: &[Linear], scope: &[IndexId], mut known: Known) -> Known {
        let mut extents: Vec<Size> = vec![];
        let mut pending: Vec<Variable> = scope.iter().map(|i| Variable::Index(*i)).collect();
        for index in scope {
            if let Extent::Affine(extent) = &self.arena.out.indices[*index].extent {
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

    /// The facts about one variable by itself.
    fn facts(&self, variable: &Variable, known: &mut Known) {
        let this = Linear::variable(variable.clone());
        let one = Linear::constant(1);
        match variable {
            Variable::Index(index) => {
                known.rows.push(this.clone());
                let end = match &self.arena.out.indices[*index].extent {
                    Extent::Affine(extent) => linear(extent),
                    Extent::Dynamic(end) => self.exact(*end),
                };
                if let (Extent::Dynamic(_), Some(end)) = (&self.arena.out.indices[*index].extent, &end) {
                    self.rely_on(end, known);
                }
                known.rows.extend(end.map(|end| end.minus(&one).minus(&this)));
            }
            Variable::Product(atoms) => {
                let length = |a: &Atom| match a {
                    Atom::Symbol(s) => self.arena.out.symbols[*s].source.is_length(),
                    Atom::FloorDiv(..) | Atom::KeyedChunk(_) | Atom::Overflow(_) => false,
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
        let dtype = self.arena.dtype(id);
        let range: (Option<i128>, Option<i128>) = match dtype.narrow_range() {
            Some((least, greatest)) => (Some(least.into()), Some(greatest.into())),
            None => (matches!(dtype, Dtype::U32 | Dtype::U64).then_some(0), None),
        };
        known.rows.extend(range.0.map(|least| this.minus(&Linear::constant(least))));
        known.rows.extend(range.1.map(|most| Linear::constant(most).minus(this)));
        let Kind::Binary(op, a, b) = self.arena.out.exprs[id].kind else { return };
        if let Some(end) = self.end_of_digit(id) {
            known.rows.extend([this.clone(), Linear::size(&end).minus(&Linear::constant(1)).minus(this)]);
        }
        let [a, b] = [a, b].map(|side| self.exact(side).unwrap_or_else(|| self.opaque(side)));
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

    /// An upper bound (exclusive) of an expression that is not negative: of an index, or of a digit
    /// of one by sizes that divide its end. Where `l < n * m`, `l / m` is below `n` and `l % m` is
    /// below `m`: `m` is not 0, because there is an `l`.
    fn end_of_digit(&self, id: ExprId) -> Option<Size> {
        let is_length = |size: &Size| self.range_of_size(size, Scalars::Any).is_some_and(|(least, _)| least >= 0);
        if let Some(index) = self.arena.affine(id).and_then(Affine::as_index) {
            let Extent::Affine(end) = &self.arena.out.indices[index].extent else { return None };
            return end.as_size().filter(|end| is_length(end)).cloned();
        }
        let Kind::Binary(op @ (BinaryOp::Div | BinaryOp::Rem), a, b) = self.arena.out.exprs[id].kind else {
            return None;
        };
        let by = self.arena.affine(b)?.as_size()?;
        if !is_length(by) || !self.range_of_size(by, Scalars::Any).is_some_and(within) {
            return None;
        }
        let quotient = self.end_of_digit(a)?.exact_div(by)?;
        Some(if op == BinaryOp::Div { quotient } else { by.clone() })
    }
}

/// An affine expression as a linear form, if the coefficients of its indices are numbers.
pub(super) fn linear(affine: &Affine<IndexId>) -> Option<Linear> {
    affine.terms().iter().try_fold(Linear::size(affine.constant_part()), |sum, (index, c)| {
        Some(sum.plus(c.as_constant()?.into(), &Linear::variable(Variable::Index(*index))))
    })
}

/// `q` is the floor of `a / d`.
fn quotient(a: &Linear, q: &Linear, d: i128) -> [Linear; 2] {
    [a.plus(-d, q), Linear::constant(d - 1).plus(d, q).minus(a)]
}
