//! A small prover for linear integer inequalities: Fourier-Motzkin elimination with integer tightening
//! (Williams, *Fourier-Motzkin elimination extension to integer programming problems*, 1976).
//!
//! Indices, products of sizes and opaque integer expressions are its variables. It answers only "proved" or
//! "not proved": giving up is always sound.

use std::collections::BTreeSet;

use ir::Size;
use ir::checked::{ExprId, IndexId};
use ir::size::Atom;

/// What a linear form ranges over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variable {
    /// The value of an index.
    Index(IndexId),
    /// A product of sizes.
    Product(Vec<Atom>),
    /// The value of an expression that is not affine.
    Opaque(ExprId),
}

/// `constant + sum of coefficient * variable`, terms sorted, no zero coefficient.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Linear {
    /// The terms.
    pub terms: Vec<(Variable, i128)>,
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

    fn too_large(&self) -> bool {
        self.constant.abs() > MAX_COEFFICIENT || self.terms.iter().any(|(_, c)| c.abs() > MAX_COEFFICIENT)
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether `goal >= 0` follows from `facts`, each of which says `fact >= 0`.
pub fn follows(facts: &[Linear], goal: &Linear) -> bool {
    // Over the integers, the opposite of goal >= 0 is -goal - 1 >= 0: search for a contradiction.
    let mut rows: BTreeSet<Linear> = facts.iter().cloned().map(Linear::tightened).collect();
    rows.insert(Linear::constant(-1).minus(goal).tightened());
    loop {
        if rows.iter().any(|r| r.terms.is_empty() && r.constant < 0) {
            return true;
        }
        rows.retain(|r| !r.terms.is_empty());
        let variables: BTreeSet<&Variable> = rows.iter().flat_map(|r| r.terms.iter().map(|(v, _)| v)).collect();
        // The cheapest variable first: fewest new rows.
        let cost = |v: &Variable| {
            let signs = rows.iter().map(|r| r.coefficient(v).signum());
            let (up, down) = signs.fold((0usize, 0usize), |(u, d), s| (u + usize::from(s > 0), d + usize::from(s < 0)));
            (up * down).saturating_sub(up + down)
        };
        let Some(variable) = variables.into_iter().min_by_key(|v| cost(v)).cloned() else { return false };
        let (with, mut next): (Vec<Linear>, BTreeSet<Linear>) = {
            let (with, without): (Vec<_>, Vec<_>) = rows.into_iter().partition(|r| r.coefficient(&variable) != 0);
            (with, without.into_iter().collect())
        };
        for up in with.iter().filter(|r| r.coefficient(&variable) > 0) {
            for down in with.iter().filter(|r| r.coefficient(&variable) < 0) {
                let (a, b) = (up.coefficient(&variable), -down.coefficient(&variable));
                let row = Linear::default().plus(b, up).plus(a, down).tightened();
                if row.too_large() {
                    return false;
                }
                next.insert(row);
            }
        }
        if next.len() > MAX_ROWS {
            return false;
        }
        rows = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_entity::EntityRef;
    use ir::SymbolId;

    fn index(k: usize) -> Linear {
        Linear::variable(Variable::Index(IndexId::new(k)))
    }

    fn symbol(k: usize) -> Linear {
        Linear::size(&Size::symbol(SymbolId::new(k)))
    }

    #[test]
    fn an_index_in_range_is_inside() {
        // 0 <= i < n, m == n |- 0 <= m - 1 - i
        let (i, n, m) = (index(0), symbol(0), symbol(1));
        let one = Linear::constant(1);
        let facts = [i.clone(), n.minus(&one).minus(&i), m.minus(&n), n.minus(&m)];
        assert!(follows(&facts, &m.minus(&one).minus(&i)));
        assert!(!follows(&facts, &m.minus(&one).minus(&one).minus(&i)));
    }

    #[test]
    fn halves_need_integers() {
        // 2 i <= 2 n - 1 |- i <= n - 1
        let (i, n) = (index(0), symbol(0));
        let fact = Linear::constant(-1).plus(2, &n).plus(-2, &i);
        assert!(follows(&[fact], &n.minus(&i).minus(&Linear::constant(1))));
    }
}
