//! Symbolic sizes: integer polynomials over the size names of a program, with floor division as an
//! opaque atom. They are kept in a normal form, so that equal values have equal structure, except
//! for identities of division.

use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};

use cranelift_entity::entity_impl;
use smallvec::{SmallVec, smallvec};

use crate::order;

/// A size name of the program: a dimension of an input, or an integer scalar parameter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolId(u32);
entity_impl!(SymbolId, "s");

/// A factor of a polynomial's terms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A size name.
    Symbol(SymbolId),
    /// Floor of the first over the second; evaluating it with a divisor below 1 is an error.
    FloorDiv(Box<Size>, Box<Size>),
    /// The elements of a chunk in the order by this number of keys; see
    /// [`keyed_chunk`](crate::order::keyed_chunk).
    KeyedChunk(Box<Size>),
    /// A polynomial with a coefficient that overflowed `i64` during compilation, with its
    /// coefficients modulo 2^64. It has no exact value; [`Size::wrapping`] is still right.
    Overflow(Box<Size>),
}

/// Atoms that are multiplied, sorted: mostly one, in place.
pub type Product = SmallVec<[Atom; 1]>;

/// Products of atoms with their coefficients: mostly one, stored inline.
type Terms = SmallVec<[(Product, i64); 1]>;

/// An integer-valued symbolic expression in normal form: a sum of `coefficient * product of atoms`.
/// The term without atoms is the constant. Arithmetic never panics: overflow turns into
/// [`Atom::Overflow`].
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size {
    /// Products of atoms (sorted) with non-zero coefficients, sorted by product. Empty for zero.
    terms: Terms,
}

/// Why a size has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// The value leaves the range of `i64`.
    Overflow,
    /// Division by a size below 1.
    DivisionByZero,
}

/// A copy of a few elements. (The function of `SmallVec` takes several times as long, and sizes are
/// copied all the time.)
pub(crate) fn copy_of<T>(elements: &SmallVec<[T; 1]>, copy: impl Fn(&T) -> T) -> SmallVec<[T; 1]> {
    match elements.as_slice() {
        [] => SmallVec::new(),
        [one] => SmallVec::from_buf([copy(one)]),
        several => several.iter().map(copy).collect(),
    }
}

fn copy_of_term((product, coefficient): &(Product, i64)) -> (Product, i64) {
    (copy_of(product, Atom::clone), *coefficient)
}

impl Clone for Size {
    fn clone(&self) -> Size {
        Size { terms: copy_of(&self.terms, copy_of_term) }
    }
}

impl Size {
    /// The constant `value`.
    pub fn constant(value: i64) -> Size {
        let terms = if value == 0 { smallvec![] } else { smallvec![(smallvec![], value)] };
        Size { terms }
    }

    /// The value of a size name.
    pub fn symbol(symbol: SymbolId) -> Size {
        Size::atom(Atom::Symbol(symbol))
    }

    fn atom(atom: Atom) -> Size {
        Size { terms: smallvec![(smallvec![atom], 1)] }
    }

    /// A size without an exact value, with the coefficients of `wrapped` modulo 2^64.
    pub fn overflow(wrapped: Size) -> Size {
        Size::atom(Atom::Overflow(Box::new(wrapped)))
    }

    /// Whether it has no exact value for any values of the size names, because a coefficient
    /// overflowed `i64`.
    pub fn is_overflow(&self) -> bool {
        self.terms.iter().flat_map(|(product, _)| product).any(|atom| match atom {
            Atom::Symbol(_) => false,
            Atom::FloorDiv(a, b) => a.is_overflow() || b.is_overflow(),
            Atom::KeyedChunk(keys) => keys.is_overflow(),
            Atom::Overflow(_) => true,
        })
    }

    /// The value, if no size name takes part.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [(product, value)] if product.is_empty() => Some(*value),
            _ => None,
        }
    }

    /// The size name, if this is one alone.
    pub fn as_symbol(&self) -> Option<SymbolId> {
        match self.terms.as_slice() {
            [(product, 1)] => match product.as_slice() {
                [Atom::Symbol(s)] => Some(*s),
                _ => None,
            },
            _ => None,
        }
    }

    /// The terms: sorted products of atoms with their non-zero coefficients.
    pub fn terms(&self) -> &[(Product, i64)] {
        &self.terms
    }

    /// The constant part.
    pub fn constant_part(&self) -> i64 {
        self.terms.iter().find(|(p, _)| p.is_empty()).map_or(0, |(_, c)| *c)
    }

    /// Whether the value is surely zero.
    pub fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it is a number, or a length plus a number, that is small enough for arithmetic with
    /// an index not to wrap.
    pub fn is_near(&self, length: &Size) -> bool {
        let small = |size: &Size| size.as_constant().is_some_and(|n| n.unsigned_abs() <= 1 << 32);
        small(self) || small(&(self - length))
    }

    /// Floor of `self / divisor`. A divisor that is a constant below 1 gives an error when
    /// evaluated.
    pub fn floor_div(&self, divisor: &Size) -> Size {
        let apart = |size: Size| Size::atom(Atom::FloorDiv(Box::new(size), Box::new(divisor.clone())));
        let Some(by) = divisor.as_constant().filter(|by| *by > 0) else { return apart(self.clone()) };
        // Terms that the divisor divides are extracted: `(2 * m + n) / 2` is `m + n / 2`. A
        // constant is extracted only if no size name is left with it, so that `(n - 1) / 2` stays
        // as it was written.
        let (mut whole, mut rest): (Terms, Terms) = self.terms.iter().cloned().partition(|(_, c)| c % by == 0);
        whole.iter_mut().for_each(|(_, c)| *c /= by);
        if rest.iter().any(|(product, _)| !product.is_empty()) {
            let constant = whole.iter().position(|(product, _)| product.is_empty());
            rest.extend(constant.map(|k| whole.remove(k)).map(|(product, c)| (product, c * by)));
            return &Size { terms: whole } + &apart(Size::from_sum(rest));
        }
        let rest = Size { terms: rest }.as_constant().unwrap_or_default();
        &Size { terms: whole } + &Size::constant(rest.div_euclid(by))
    }

    /// The elements of a chunk in the order by `keys` keys; see
    /// [`keyed_chunk`](crate::order::keyed_chunk).
    pub fn keyed_chunk(keys: &Size) -> Size {
        match keys.as_constant() {
            Some(keys) => Size::constant(order::keyed_chunk(keys)),
            None => Size::atom(Atom::KeyedChunk(Box::new(keys.clone()))),
        }
    }

    /// `self / divisor`, rounded up. Its [wrapping value](Size::wrapping) is computed from the
    /// wrapping value of `self`. The divisor is positive.
    pub fn ceil_div(&self, divisor: &Size) -> Size {
        if let (Some(count), Some(by)) = (self.as_constant(), divisor.as_constant().filter(|by| *by > 0)) {
            return Size::constant(count.div_euclid(by) + i64::from(count.rem_euclid(by) > 0));
        }
        // Not `(self + divisor - 1) / divisor`, which wraps if `self` is close to 2^63, and not by
        // `floor_div`: dividing the coefficients would be wrong for a product that wraps.
        let before = self - &Size::constant(1);
        &Size::atom(Atom::FloorDiv(Box::new(before), Box::new(divisor.clone()))) + &Size::constant(1)
    }

    /// `self / divisor`, if the divisor is a single product that every term contains.
    pub fn exact_div(&self, divisor: &Size) -> Option<Size> {
        let [(product, by)] = divisor.terms.as_slice() else { return None };
        let mut quotient = Terms::new();
        for (term, coefficient) in &self.terms {
            let mut rest = term.clone();
            for atom in product {
                rest.remove(rest.iter().position(|a| a == atom)?);
            }
            if coefficient.checked_rem(*by)? != 0 {
                return None;
            }
            quotient.push((rest, coefficient.checked_div(*by)?));
        }
        Some(Size::from_sum(quotient))
    }

    /// The value, given the value of each size name.
    pub fn eval(&self, symbols: &impl Fn(SymbolId) -> i64) -> Result<i64, SizeError> {
        let mut sum = 0i64;
        for (product, coefficient) in &self.terms {
            let mut value = *coefficient;
            for atom in product {
                let factor = match atom {
                    Atom::Symbol(s) => symbols(*s),
                    Atom::FloorDiv(a, b) => {
                        let (a, b) = (a.eval(symbols)?, b.eval(symbols)?);
                        if b < 1 {
                            return Err(SizeError::DivisionByZero);
                        }
                        a.div_euclid(b)
                    }
                    Atom::KeyedChunk(keys) => order::keyed_chunk(keys.eval(symbols)?),
                    Atom::Overflow(_) => return Err(SizeError::Overflow),
                };
                value = value.checked_mul(factor).ok_or(SizeError::Overflow)?;
            }
            sum = sum.checked_add(value).ok_or(SizeError::Overflow)?;
        }
        Ok(sum)
    }

    /// The value modulo 2^64, as integer arithmetic computes it at run time; a quotient by a
    /// divisor below 1 is 0. It equals [`Size::eval`] wherever that has a value.
    pub fn wrapping(&self, symbols: &impl Fn(SymbolId) -> i64) -> i64 {
        let mut sum = 0i64;
        for (product, coefficient) in &self.terms {
            let mut value = *coefficient;
            for atom in product {
                value = value.wrapping_mul(match atom {
                    Atom::Symbol(s) => symbols(*s),
                    Atom::FloorDiv(a, b) => match b.wrapping(symbols) {
                        ..1 => 0,
                        b => a.wrapping(symbols).div_euclid(b),
                    },
                    Atom::KeyedChunk(keys) => order::keyed_chunk(keys.wrapping(symbols)),
                    Atom::Overflow(wrapped) => wrapped.wrapping(symbols),
                });
            }
            sum = sum.wrapping_add(value);
        }
        sum
    }

    /// The same expression with each size name replaced.
    pub fn substitute(&self, with: &impl Fn(SymbolId) -> Size) -> Size {
        let mut sum = Size::default();
        for (product, coefficient) in &self.terms {
            let mut value = Size::constant(*coefficient);
            for atom in product {
                let factor = match atom {
                    Atom::Symbol(s) => with(*s),
                    Atom::FloorDiv(a, b) => a.substitute(with).floor_div(&b.substitute(with)),
                    Atom::KeyedChunk(keys) => Size::keyed_chunk(&keys.substitute(with)),
                    Atom::Overflow(wrapped) => Size::overflow(wrapped.substitute(with)),
                };
                value = &value * &factor;
            }
            sum = &sum + &value;
        }
        sum
    }

    /// Calls `visit` for each size name in the expression.
    pub fn for_each_symbol(&self, visit: &mut impl FnMut(SymbolId)) {
        for (product, _) in &self.terms {
            for atom in product {
                match atom {
                    Atom::Symbol(s) => visit(*s),
                    Atom::FloorDiv(a, b) => {
                        a.for_each_symbol(visit);
                        b.for_each_symbol(visit);
                    }
                    Atom::KeyedChunk(inner) | Atom::Overflow(inner) => inner.for_each_symbol(visit),
                }
            }
        }
    }

    /// The expression as text, with size names from `name`: `n * m + 2 * k - 1`, `(m + 1) / 2`.
    pub fn display<'a, N: Fn(SymbolId) -> &'a str>(&'a self, name: &'a N) -> impl fmt::Display + 'a {
        Display { size: self, name }
    }

    /// The multiple by a number: its products stay as they are, and in order.
    fn scaled(mut self, by: i64) -> Size {
        let mut exact = true;
        for (_, coefficient) in &mut self.terms {
            let (wrapped, overflows) = coefficient.overflowing_mul(by);
            exact &= !overflows;
            *coefficient = wrapped;
        }
        self.terms.retain(|(_, coefficient)| *coefficient != 0);
        if exact { self } else { Size::overflow(self) }
    }

    fn from_sum(mut terms: Terms) -> Size {
        terms.sort_by(|a, b| a.0.cmp(&b.0));
        let mut merged = Terms::with_capacity(terms.len());
        let mut exact = true;
        for (product, coefficient) in terms {
            match merged.last_mut() {
                Some((last, sum)) if *last == product => {
                    let (wrapped, overflows) = sum.overflowing_add(coefficient);
                    exact &= !overflows;
                    *sum = wrapped;
                }
                _ => merged.push((product, coefficient)),
            }
        }
        merged.retain(|(_, c)| *c != 0);
        let size = Size { terms: merged };
        if exact { size } else { Size::overflow(size) }
    }
}

impl From<&Atom> for Size {
    fn from(atom: &Atom) -> Size {
        match atom {
            Atom::FloorDiv(a, b) => a.floor_div(b),
            Atom::KeyedChunk(keys) => Size::keyed_chunk(keys),
            atom => Size::atom(atom.clone()),
        }
    }
}

impl From<i64> for Size {
    fn from(value: i64) -> Size {
        Size::constant(value)
    }
}

impl Add for &Size {
    type Output = Size;
    fn add(self, other: &Size) -> Size {
        if self.is_zero() || other.is_zero() {
            return if self.is_zero() { other.clone() } else { self.clone() };
        }
        if let (Some(a), Some(b)) = (self.as_constant(), other.as_constant())
            && let Some(sum) = a.checked_add(b)
        {
            return Size::constant(sum);
        }
        Size::from_sum(self.terms.iter().chain(&other.terms).map(copy_of_term).collect())
    }
}

impl Neg for &Size {
    type Output = Size;
    fn neg(self) -> Size {
        self * &Size::constant(-1)
    }
}

impl Sub for &Size {
    type Output = Size;
    fn sub(self, other: &Size) -> Size {
        self + &-other
    }
}

impl Mul for &Size {
    type Output = Size;
    fn mul(self, other: &Size) -> Size {
        match (self.as_constant(), other.as_constant()) {
            (Some(1), _) => return other.clone(),
            (_, Some(1)) => return self.clone(),
            (Some(by), _) => return other.clone().scaled(by),
            (_, Some(by)) => return self.clone().scaled(by),
            _ => {}
        }
        let mut terms = Terms::with_capacity(self.terms.len() * other.terms.len());
        let mut exact = true;
        for (p, a) in &self.terms {
            for (q, b) in &other.terms {
                let (c, overflows) = a.overflowing_mul(*b);
                exact &= !overflows;
                let mut product: Product = p.iter().chain(q).cloned().collect();
                product.sort();
                terms.push((product, c));
            }
        }
        let size = Size::from_sum(terms);
        if exact { size } else { Size::overflow(size) }
    }
}

struct Display<'a, N> {
    size: &'a Size,
    name: &'a N,
}

impl<'a, N: Fn(SymbolId) -> &'a str> fmt::Display for Display<'a, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.size.is_zero() {
            return f.write_str("0");
        }
        // Names first and the constant last, as usual, but a positive term first if there is one.
        let mut terms: Vec<_> = self.size.terms.iter().collect();
        terms.sort_by_key(|(product, c)| (product.is_empty(), *c < 0));
        for (k, (product, coefficient)) in terms.into_iter().enumerate() {
            match (k, *coefficient < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            let magnitude = coefficient.unsigned_abs();
            // A quotient within a larger expression, or behind a leading minus, needs parentheses.
            let alone = magnitude == 1 && product.len() == 1 && !(k == 0 && *coefficient < 0);
            let mut first = true;
            if magnitude != 1 || product.is_empty() {
                write!(f, "{magnitude}")?;
                first = false;
            }
            for atom in product {
                if !first {
                    f.write_str(" * ")?;
                }
                first = false;
                match atom {
                    Atom::Symbol(s) => f.write_str((self.name)(*s))?,
                    Atom::FloorDiv(a, b) => {
                        let brackets = if a.as_symbol().is_some() { ["", ""] } else { ["(", ")"] };
                        let a = Display { size: a, name: self.name };
                        let a = format!("{}{a}{}", brackets[0], brackets[1]);
                        let b = Display { size: b, name: self.name };
                        let (open, close) = if alone { ("", "") } else { ("(", ")") };
                        match b.size.as_constant().is_some() || b.size.as_symbol().is_some() {
                            true => write!(f, "{open}{a} / {b}{close}")?,
                            false => write!(f, "{open}{a} / ({b}){close}")?,
                        }
                    }
                    Atom::KeyedChunk(keys) => {
                        write!(f, "keyed_chunk({})", Display { size: keys, name: self.name })?;
                    }
                    Atom::Overflow(wrapped) => {
                        write!(f, "overflow({})", Display { size: wrapped, name: self.name })?;
                    }
                }
            }
        }
        Ok(())
    }
}
