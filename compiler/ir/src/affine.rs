//! Affine expressions of loop indices with symbolic sizes as coefficients: the subscripts and
//! bounds that the compiler reasons about.

use smallvec::{SmallVec, smallvec};

use crate::Size;
use crate::size::copy_of;

/// Indices with their coefficients: mostly one, in place.
type Terms<I> = SmallVec<[(I, Size); 1]>;

/// `constant + sum of coefficient * index`, terms sorted by index, no zero coefficient.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Affine<I> {
    constant: Size,
    terms: Terms<I>,
}

impl<I: Copy> Clone for Affine<I> {
    fn clone(&self) -> Affine<I> {
        let terms = copy_of(&self.terms, |(index, coefficient)| (*index, coefficient.clone()));
        Affine { constant: self.constant.clone(), terms }
    }
}

impl<I: Copy + Ord> Affine<I> {
    /// An expression without indices.
    pub fn size(constant: Size) -> Affine<I> {
        Affine { constant, terms: smallvec![] }
    }

    /// A number.
    pub fn constant(value: i64) -> Affine<I> {
        Affine::size(Size::constant(value))
    }

    /// An index alone.
    pub fn index(index: I) -> Affine<I> {
        Affine { constant: Size::default(), terms: smallvec![(index, Size::constant(1))] }
    }

    /// The part without indices.
    pub fn constant_part(&self) -> &Size {
        &self.constant
    }

    /// The indices, ascending, with their coefficients.
    pub fn terms(&self) -> &[(I, Size)] {
        &self.terms
    }

    /// The coefficient of an index (zero if it does not occur).
    pub fn coefficient(&self, index: I) -> Size {
        self.terms.iter().find(|(i, _)| *i == index).map_or_else(Size::default, |(_, c)| c.clone())
    }

    /// The index, if this is one alone with coefficient 1 and no constant.
    pub fn as_index(&self) -> Option<I> {
        match self.terms.as_slice() {
            [(i, c)] if self.constant.is_zero() && c.as_constant() == Some(1) => Some(*i),
            _ => None,
        }
    }

    /// The size, if no index takes part.
    pub fn as_size(&self) -> Option<&Size> {
        self.terms.is_empty().then_some(&self.constant)
    }

    /// The sum of two expressions.
    pub fn add(&self, other: &Affine<I>) -> Affine<I> {
        let constant = &self.constant + &other.constant;
        if self.terms.is_empty() || other.terms.is_empty() {
            let terms = if self.terms.is_empty() { other.terms.clone() } else { self.terms.clone() };
            return Affine { constant, terms };
        }
        let mut sum = Affine { constant, terms: self.terms.clone() };
        for (index, coefficient) in &other.terms {
            match sum.terms.binary_search_by(|(i, _)| i.cmp(index)) {
                Ok(k) => sum.terms[k].1 = &sum.terms[k].1 + coefficient,
                Err(k) => sum.terms.insert(k, (*index, coefficient.clone())),
            }
        }
        sum.terms.retain(|(_, c)| !c.is_zero());
        sum
    }

    /// The difference of two expressions.
    pub fn sub(&self, other: &Affine<I>) -> Affine<I> {
        self.add(&other.scale(&Size::constant(-1)))
    }

    /// The expression times a size.
    pub fn scale(&self, factor: &Size) -> Affine<I> {
        if factor.is_zero() {
            return Affine::constant(0);
        }
        Affine { constant: &self.constant * factor, terms: self.terms.iter().map(|(i, c)| (*i, c * factor)).collect() }
    }

    /// The product, if one side has no index.
    pub fn mul(&self, other: &Affine<I>) -> Option<Affine<I>> {
        match (self.as_size(), other.as_size()) {
            (_, Some(size)) => Some(self.scale(size)),
            (Some(size), _) => Some(other.scale(size)),
            _ => None,
        }
    }

    /// A quotient and a remainder that add up to the expression: `quotient * by + remainder`. The
    /// remainder is the part that the divisor does not divide.
    pub fn split(&self, by: &Size) -> (Affine<I>, Affine<I>) {
        let divided = |size: &Size| match (size.as_constant(), by.as_constant()) {
            (Some(a), Some(b)) if b > 0 => (Size::constant(a.div_euclid(b)), Size::constant(a.rem_euclid(b))),
            _ => size.exact_div(by).map_or_else(|| (Size::default(), size.clone()), |exact| (exact, Size::default())),
        };
        let (whole, left) = divided(&self.constant);
        let (mut quotient, mut rest) = (Affine::size(whole), Affine::size(left));
        for (index, coefficient) in &self.terms {
            match coefficient.exact_div(by) {
                Some(exact) => quotient.terms.push((*index, exact)),
                None => rest.terms.push((*index, coefficient.clone())),
            }
        }
        (quotient, rest)
    }

    /// The expression with each index replaced by another expression.
    pub fn substitute<J: Copy + Ord>(&self, with: &mut impl FnMut(I) -> Affine<J>) -> Affine<J> {
        let mut sum = Affine::size(self.constant.clone());
        for (index, coefficient) in &self.terms {
            sum = sum.add(&with(*index).scale(coefficient));
        }
        sum
    }

    /// The expression with its sizes rewritten.
    pub fn map_sizes(&self, map: &impl Fn(&Size) -> Size) -> Affine<I> {
        let mut terms: Terms<I> = self.terms.iter().map(|(i, c)| (*i, map(c))).collect();
        terms.retain(|(_, c)| !c.is_zero());
        Affine { constant: map(&self.constant), terms }
    }
}
