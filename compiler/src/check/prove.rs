//! A small prover for linear integer inequalities: Fourier-Motzkin elimination with integer tightening
//! (Williams, *Fourier-Motzkin elimination extension to integer programming problems*, 1976).
//!
//! Indices, products of sizes and opaque integer expressions are its variables. It answers only "proved" or
//! "not proved": giving up is always sound.

use std::collections::BTreeMap;

use ir::Size;
use ir::checked::{ExprId, IndexId};
use ir::sabotage::{self, Bug};
use ir::size::Product;

/// What a linear form ranges over.
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

    fn coefficient(&self, variable: &Variable) -> i128 {
        self.terms.binary_search_by(|(v, _)| v.cmp(variable)).map_or(0, |k| self.terms[k].1)
    }

    /// The strongest equivalent over the integers of `self >= 0`.
    fn tightened(mut self) -> Linear {
        let divisor = self.terms.iter().fold(0, |d, (_, c)| gcd(d, c.abs()));
        if divisor > 1 {
            for (_, c) in &mut self.terms {
                *c /= divisor;
            }
            self.constant = self.constant.div_euclid(divisor);
        }
        self
    }

    /// Whether a product with another such form might overflow.
    pub fn too_large(&self) -> bool {
        self.constant.abs() > MAX_COEFFICIENT || self.terms.iter().any(|(_, c)| c.abs() > MAX_COEFFICIENT)
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Rows that are not negative, by their terms. Of rows that differ by a constant only the strongest is kept.
#[derive(Default)]
struct Rows {
    rows: BTreeMap<Terms, i128>,
    /// Whether one of them says that a negative number is not negative.
    contradiction: bool,
}

impl Rows {
    fn insert(&mut self, row: Linear) {
        let Linear { terms, constant } = row.tightened();
        if terms.is_empty() {
            self.contradiction |= constant < 0;
        } else {
            let known = self.rows.entry(terms).or_insert(constant);
            *known = constant.min(*known);
        }
    }

    /// The variable whose elimination makes the fewest new rows.
    fn cheapest(&self) -> Option<Variable> {
        let mut signs: BTreeMap<&Variable, (usize, usize)> = BTreeMap::new();
        for (variable, coefficient) in self.rows.keys().flatten() {
            let (up, down) = signs.entry(variable).or_default();
            *(if *coefficient > 0 { up } else { down }) += 1;
        }
        let cost = |(up, down): (usize, usize)| (up * down).saturating_sub(up + down);
        signs.into_iter().min_by_key(|(_, counts)| cost(*counts)).map(|(variable, _)| variable.clone())
    }
}

/// Whether `goal >= 0` follows from `facts`, each of which says `fact >= 0`.
pub fn follows(facts: &[Linear], goal: &Linear) -> bool {
    // Over the integers, the opposite of goal >= 0 is -goal - 1 >= 0: search for a contradiction.
    let mut rows = Rows::default();
    facts.iter().cloned().for_each(|fact| rows.insert(fact));
    let beyond = if sabotage::on(Bug::ProofByOne) { -2 } else { -1 };
    rows.insert(Linear::constant(beyond).minus(goal));
    while !rows.contradiction {
        let Some(variable) = rows.cheapest() else { return false };
        let (mut ups, mut downs, mut next) = (vec![], vec![], Rows::default());
        for (terms, constant) in rows.rows {
            let row = Linear { terms, constant };
            match row.coefficient(&variable) {
                0 => drop(next.rows.insert(row.terms, row.constant)),
                a @ 1.. => ups.push((a, row)),
                b => downs.push((-b, row)),
            }
        }
        for (a, up) in &ups {
            for (b, down) in &downs {
                let row = Linear::default().plus(*b, up).plus(*a, down);
                if row.too_large() || next.rows.len() > MAX_ROWS {
                    return false;
                }
                next.insert(row);
            }
        }
        rows = next;
    }
    true
}
