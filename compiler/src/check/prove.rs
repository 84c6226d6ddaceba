//! A small prover for linear integer inequalities: Fourier-Motzkin elimination with integer
//! tightening (Williams, *Fourier-Motzkin elimination extension to integer programming problems*,
//! 1976).
//!
//! Indices, products of sizes and opaque integer expressions are its variables. It answers only
//! "proved" or "not proved": giving up is always sound.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::slice::Iter;

use ir::Size;
use ir::checked::{ExprId, IndexId};
use ir::sabotage::{self, Bug};
use ir::size::{Atom, Product};

/// A variable of a linear form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variable {
    /// The value of an index.
    Index(IndexId),
    /// A product of sizes.
    Product(Product),
    /// The value of an expression that is not affine.
    Opaque(ExprId),
}

/// Variables with their coefficients.
pub type Terms = Vec<(Variable, i128)>;

/// `constant + sum of coefficient * variable`, terms sorted, no zero coefficient.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Linear {
    /// The terms.
    pub terms: Terms,
    /// The constant.
    pub constant: i128,
}

/// Rows beyond which elimination gives up.
const MAX_ROWS: usize = 400;
/// Coefficients beyond which elimination gives up, far from overflow of a product.
const MAX_COEFFICIENT: i128 = 1 << 60;

/// A length that is greater than most numbers of a program.
const LARGE: i128 = 1 << 20;

impl Linear {
    /// A number.
    pub fn constant(constant: i128) -> Linear {
        Linear { terms: vec![], constant }
    }

    /// A variable alone.
    pub fn variable(variable: Variable) -> Linear {
        Linear { terms: vec![(variable, 1)], constant: 0 }
    }

    /// A size.
    pub fn size(size: &Size) -> Linear {
        let mut form = Linear::default();
        for (product, coefficient) in size.terms() {
            let coefficient = i128::from(*coefficient);
            if product.is_empty() {
                form.constant = coefficient;
            } else {
                form.terms.push((Variable::Product(product.clone()), coefficient));
            }
        }
        form.terms.sort();
        form
    }

    /// The form as a size, if it is one of size names alone.
    pub fn as_size(&self) -> Option<Size> {
        let mut size = Size::constant(i64::try_from(self.constant).ok()?);
        for (variable, coefficient) in &self.terms {
            let Variable::Product(atoms) = variable else { return None };
            let [Atom::Symbol(symbol)] = atoms.as_slice() else { return None };
            let coefficient = Size::constant(i64::try_from(*coefficient).ok()?);
            size = &size + &(&coefficient * &Size::symbol(*symbol));
        }
        Some(size)
    }

    /// `self + factor * other`
    pub fn plus(&self, factor: i128, other: &Linear) -> Linear {
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let take_a = match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some(x), Some(y)) if x.0 == y.0 => {
                    let sum = x.1 + factor * y.1;
                    if sum != 0 {
                        terms.push((x.0.clone(), sum));
                    }
                    a.next();
                    b.next();
                    continue;
                }
                (Some(x), Some(y)) => x.0 < y.0,
                (Some(_), None) => true,
                (None, Some(_)) => false,
            };
            if let (true, Some(x)) = (take_a, a.peek()) {
                terms.push((*x).clone());
                a.next();
            } else if let Some(y) = b.next() {
                terms.push((y.0.clone(), factor * y.1));
            }
        }
        terms.retain(|(_, c)| *c != 0);
        Linear { terms, constant: self.constant + factor * other.constant }
    }

    /// `self - other`
    pub fn minus(&self, other: &Linear) -> Linear {
        self.plus(-1, other)
    }

    /// Whether a product with another such form might overflow.
    pub fn too_large(&self) -> bool {
        self.constant.abs() > MAX_COEFFICIENT || self.terms.iter().any(|(_, c)| c.abs() > MAX_COEFFICIENT)
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A disjunction: in at least one of the cases all forms are not negative.
pub type Choice = Vec<Vec<Linear>>;

/// A set of choices by their numbers: those that a row was derived from.
type Choices = u64;

/// The terms of a row, by the numbers of their variables.
type Numbered = Vec<(usize, i128)>;

/// A form that is not negative.
#[derive(Clone)]
struct Row {
    terms: Numbered,
    constant: i128,
    because: Choices,
}

/// Rows by their terms. Of rows that differ by a constant only the strongest is kept.
type Rows = BTreeMap<Numbered, (i128, Choices)>;

/// A search for a contradiction.
struct System {
    /// The cases of each choice.
    choices: Vec<Vec<Vec<Row>>>,
    /// How many variables there are.
    variables: usize,
    /// How many rows have been combined.
    combined: usize,
}

impl System {
    /// The choices that a contradiction among the rows depends on, if there is one in every case of
    /// the choices from number `from` on.
    fn contradiction(&mut self, rows: Rows, from: usize) -> Option<Choices> {
        let Some(cases) = self.choices.get(from).map(Vec::len) else { return self.eliminate(rows) };
        let found = self.eliminate(rows.clone());
        if found.is_some() {
            return found;
        }
        let this = 1 << from;
        let mut because = 0;
        for case in 0..cases {
            let mut with = rows.clone();
            let case = &self.choices[from][case];
            let found = case.iter().try_for_each(|row| insert(&mut with, Row { because: this, ..row.clone() }));
            let found = found.err().or_else(|| self.contradiction(with, from + 1))?;
            if found & this == 0 {
                // It holds whatever the case.
                return Some(found);
            }
            because |= found & !this;
        }
        Some(because)
    }

    /// The same without cases.
    fn eliminate(&mut self, mut rows: Rows) -> Option<Choices> {
        let mut signs = vec![(0, 0); self.variables];
        loop {
            let variable = cheapest(&rows, &mut signs)?;
            let (mut ups, mut downs) = (vec![], vec![]);
            let with = |terms: &Numbered, _: &mut _| terms.iter().any(|(v, _)| *v == variable);
            for (terms, (constant, because)) in rows.extract_if(.., with) {
                let row = Row { terms, constant, because };
                match row.coefficient(variable) {
                    a @ 1.. => ups.push((a, row)),
                    b => downs.push((-b, row)),
                }
            }
            for (a, up) in &ups {
                for (b, down) in &downs {
                    self.combined += 1;
                    let row = up.combination(*b, down, *a);
                    if row.too_large() || rows.len() > MAX_ROWS {
                        return None;
                    }
                    if let Err(because) = insert(&mut rows, row) {
                        return Some(because);
                    }
                }
            }
        }
    }
}

/// Adds a row; if it says that a negative number is not negative, the choices that it was derived
/// from are the error.
fn insert(rows: &mut Rows, row: Row) -> Result<(), Choices> {
    let Row { terms, constant, because } = row.tightened();
    if terms.is_empty() {
        return if constant < 0 { Err(because) } else { Ok(()) };
    }
    let known = rows.entry(terms).or_insert((constant, because));
    if constant < known.0 {
        *known = (constant, because);
    }
    Ok(())
}

/// The variable that leads to the fewest new rows when it is eliminated.
fn cheapest(rows: &Rows, signs: &mut [(usize, usize)]) -> Option<usize> {
    signs.fill((0, 0));
    for (variable, coefficient) in rows.keys().flatten() {
        let (up, down) = &mut signs[*variable];
        *(if *coefficient > 0 { up } else { down }) += 1;
    }
    let cost = |(up, down): (usize, usize)| (up * down).saturating_sub(up + down);
    let there = signs.iter().enumerate().filter(|(_, signs)| **signs != (0, 0));
    there.min_by_key(|(_, signs)| cost(**signs)).map(|(variable, _)| variable)
}

impl Row {
    /// `factor * self + times * other`
    fn combination(&self, factor: i128, other: &Row, times: i128) -> Row {
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut xs, mut ys) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        while let Some(variable) = xs.peek().into_iter().chain(ys.peek()).map(|(variable, _)| *variable).min() {
            let next = |terms: &mut Peekable<Iter<'_, (usize, i128)>>| {
                terms.next_if(|(other, _)| *other == variable).map_or(0, |(_, coefficient)| *coefficient)
            };
            let coefficient = factor * next(&mut xs) + times * next(&mut ys);
            if coefficient != 0 {
                terms.push((variable, coefficient));
            }
        }
        let constant = factor * self.constant + times * other.constant;
        Row { terms, constant, because: self.because | other.because }
    }

    fn coefficient(&self, variable: usize) -> i128 {
        self.terms.binary_search_by_key(&variable, |(v, _)| *v).map_or(0, |k| self.terms[k].1)
    }

    /// The strongest equivalent over the integers.
    fn tightened(mut self) -> Row {
        let divisor = self.terms.iter().fold(0, |d, (_, c)| gcd(d, c.abs()));
        if divisor > 1 {
            for (_, c) in &mut self.terms {
                *c /= divisor;
            }
            self.constant = self.constant.div_euclid(divisor);
        }
        self
    }

    fn too_large(&self) -> bool {
        self.constant.abs() > MAX_COEFFICIENT || self.terms.iter().any(|(_, c)| c.abs() > MAX_COEFFICIENT)
    }
}

/// A proof that was tried.
pub struct Proof {
    /// Whether it is one.
    pub holds: bool,
    /// How many rows it combined.
    pub combined: usize,
}

/// Whether `goal >= 0` follows from facts (each says `fact >= 0`), whichever cases of some choices
/// hold. Only facts that are connected to the goal by common variables are looked at; all of them
/// if the goal has no variable. The search does not go through the cases of a choice that a
/// contradiction does not depend on: so choices that have no part in a proof cost little.
pub fn follows(facts: &[Linear], choices: &[Choice], goal: &Linear) -> Proof {
    // Over the integers, the opposite of goal >= 0 is -goal - 1 >= 0: search for a contradiction.
    let beyond = if sabotage::on(Bug::ProofByOne) { -2 } else { -1 };
    let opposite = Linear::constant(beyond).minus(goal);
    if is_example(facts, choices, &opposite) {
        return Proof { holds: false, combined: 0 };
    }
    let all = facts.iter().chain([&opposite]).chain(choices.iter().flatten().flatten());
    let mut variables: Vec<&Variable> = all.flat_map(|form| form.terms.iter().map(|(v, _)| v)).collect();
    variables.sort_unstable();
    variables.dedup();
    let numbered = |form: &Linear| {
        let number = |variable: &Variable| variables.partition_point(|known| *known < variable);
        let terms = form.terms.iter().map(|(variable, c)| (number(variable), *c)).collect();
        Row { terms, constant: form.constant, because: 0 }
    };
    let mut facts: Vec<Row> = facts.iter().map(numbered).collect();
    let case = |case: &Vec<Linear>| case.iter().map(numbered).collect();
    let mut choices: Vec<Vec<Vec<Row>>> = choices.iter().map(|choice| choice.iter().map(case).collect()).collect();
    let opposite = numbered(&opposite);
    if let Some((variable, _)) = opposite.terms.first() {
        let mut parts = Parts((0..variables.len()).collect());
        facts.iter().chain([&opposite]).for_each(|row| parts.join(&mut row.terms.iter()));
        choices.iter().for_each(|choice| parts.join(&mut choice.iter().flatten().flat_map(|row| &row.terms)));
        let part = parts.of(*variable);
        let mut belongs = |row: &Row| row.terms.first().is_none_or(|(variable, _)| parts.of(*variable) == part);
        facts.retain(&mut belongs);
        choices.retain(|choice| choice.iter().flatten().any(&mut belongs));
    }
    let mut system = System { choices, variables: variables.len(), combined: 0 };
    let mut rows = Rows::new();
    let found = facts.into_iter().chain([opposite]).try_for_each(|row| insert(&mut rows, row));
    let holds = found.is_err() || system.contradiction(rows, 0).is_some();
    Proof { holds, combined: system.combined }
}

/// Whether large lengths, with all indices and data 0, are an example in which all forms are not
/// negative and a case of each choice holds: then there is no contradiction to be searched for.
fn is_example(facts: &[Linear], choices: &[Choice], opposite: &Linear) -> bool {
    let holds = |form: &Linear| {
        let value = |(variable, coefficient): &(Variable, i128)| match variable {
            Variable::Product(_) => coefficient.checked_mul(LARGE),
            Variable::Index(_) | Variable::Opaque(_) => Some(0),
        };
        let sum = form.terms.iter().try_fold(form.constant, |sum, term| sum.checked_add(value(term)?));
        sum.is_some_and(|sum| sum >= 0)
    };
    holds(opposite)
        && facts.iter().all(holds)
        && choices.iter().all(|choice| choice.iter().any(|case| case.iter().all(holds)))
}

/// Which variables are connected, as a union-find forest: each with its parent, or itself.
struct Parts(Vec<usize>);

impl Parts {
    /// The representative of the part of a variable.
    fn of(&mut self, mut variable: usize) -> usize {
        while self.0[variable] != variable {
            self.0[variable] = self.0[self.0[variable]];
            variable = self.0[variable];
        }
        variable
    }

    /// Makes the parts of some variables one.
    fn join(&mut self, terms: &mut dyn Iterator<Item = &(usize, i128)>) {
        let Some((first, _)) = terms.next() else { return };
        for (variable, _) in terms {
            let (one, other) = (self.of(*first), self.of(*variable));
            self.0[other] = one;
        }
    }
}
