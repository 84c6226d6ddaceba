//! Loads under the shape in which their subscripts are simplest.
//!
//! Elements lie row-major, so neighbouring axes may be seen as one. Where `x` has `c` columns, `x[l / c, l % c]` is element `l` of all
//! its elements in a row, and element `c * i + j` of these, where `j < c`, is `x[i, j]`. So reshapes come out the same, whoever spells
//! them: no quotients are computed for their sake, and loops over the same axes are seen to be.
//!
//! All that is asked of the numbers is that the load is inside its array. Then the lengths are positive and their product is
//! no more than fits into memory; and a number whose quotient and remainder are not negative is not negative.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;

use crate::nest::{Block, IndexId, Kernel, Op, Program, Statement, Subscript, ValueId};
use crate::{Affine, BinaryOp, Scalar, Size};

/// Rewrites the loads of a kernel; says whether any changed.
pub fn see_axes(program: &Program, kernel: &mut Kernel) -> bool {
    let mut seer = Seer { program, terms: SecondaryMap::new(), extents: BTreeMap::new(), changed: false };
    seer.block(&mut kernel.body);
    seer.changed
}

/// A value that counts in a subscript.
#[derive(Clone)]
enum Term {
    Affine(Affine<IndexId>),
    Quotient(ValueId, Size),
    Remainder(ValueId, Size),
}

struct Seer<'p> {
    program: &'p Program,
    terms: SecondaryMap<ValueId, Option<Term>>,
    extents: BTreeMap<IndexId, Size>,
    changed: bool,
}

impl Seer<'_> {
    fn block(&mut self, block: &mut Block) {
        for statement in block {
            for (index, extent) in super::hoist::dims(statement) {
                self.extents.extend(extent.as_size().map(|extent| (*index, extent.clone())));
            }
            match statement {
                Statement::Let { op: Op::Load { buffer, view, at }, .. } => {
                    let own = &self.program.buffers[*buffer].shape;
                    let mut seen = view.clone().unwrap_or_else(|| own.clone());
                    let merged = self.merge(&mut seen, at);
                    if self.split(&mut seen, at, own) || merged {
                        *view = (seen != *own).then_some(seen);
                        self.changed = true;
                    }
                }
                Statement::Let { value, op } => self.terms[*value] = self.term(op),
                _ => {}
            }
            statement.blocks_mut().for_each(|inner| self.block(inner));
        }
    }

    fn term(&self, op: &Op) -> Option<Term> {
        match op {
            Op::Affine(a) => Some(Term::Affine(a.clone())),
            Op::Constant(Scalar::I64(c)) => Some(Term::Affine(Affine::constant(*c))),
            Op::Binary(op @ (BinaryOp::Div | BinaryOp::Rem), a, b) => {
                let Some(Term::Affine(by)) = &self.terms[*b] else { return None };
                let term = if *op == BinaryOp::Div { Term::Quotient } else { Term::Remainder };
                Some(term(*a, by.as_size()?.clone()))
            }
            _ => None,
        }
    }

    fn are_same(&self, a: ValueId, b: ValueId) -> bool {
        a == b
            || match (&self.terms[a], &self.terms[b]) {
                (Some(Term::Affine(a)), Some(Term::Affine(b))) => a == b,
                (Some(Term::Quotient(a, by)), Some(Term::Quotient(b, also))) => by == also && self.are_same(*a, *b),
                _ => false,
            }
    }

    /// Sees axes as one where they are loaded at a quotient and a remainder.
    fn merge(&self, seen: &mut Vec<Size>, at: &mut Vec<Subscript>) -> bool {
        let before = at.len();
        let mut axis = 0;
        while axis + 1 < at.len() {
            let Some(number) = self.number(&at[axis], &at[axis + 1], &seen[axis + 1..]) else {
                axis += 1;
                continue;
            };
            let columns = seen.remove(axis + 1);
            seen[axis] = &seen[axis] * &columns;
            at.remove(axis + 1);
            at[axis] = match &self.terms[number] {
                Some(Term::Affine(a)) => Subscript::Affine(a.clone()),
                _ => Subscript::Value(number),
            };
        }
        at.len() < before
    }

    /// The number whose quotient and remainder by the length of the second axis are the subscripts of two. The lengths are
    /// those from the second axis on: the number itself may be a quotient by what is behind it.
    fn number(&self, row: &Subscript, column: &Subscript, lengths: &[Size]) -> Option<ValueId> {
        let (Subscript::Value(row), Subscript::Value(column)) = (row, column) else { return None };
        let (Some(Term::Quotient(a, rows)), Some(Term::Remainder(b, columns))) =
            (&self.terms[*row], &self.terms[*column])
        else {
            return None;
        };
        if *columns != lengths[0] {
            return None;
        }
        let plain = columns == rows && self.are_same(*a, *b);
        let of_quotient = || match &self.terms[*b] {
            Some(Term::Quotient(b, behind)) => {
                let mut products = lengths[1..].iter().scan(Size::constant(1), |product, length| {
                    *product = &*product * length;
                    Some(product.clone())
                });
                self.are_same(*a, *b) && *rows == columns * behind && products.any(|product| product == *behind)
            }
            _ => false,
        };
        (plain || of_quotient()).then_some(*b)
    }

    /// Sees an axis as the axes of the array that it is made of where the subscript is a number of their indices.
    fn split(&self, seen: &mut Vec<Size>, at: &mut Vec<Subscript>, own: &[Size]) -> bool {
        let (mut axis, mut rest, mut changed) = (0, own, false);
        while axis < seen.len() {
            let Some(count) = made_of(&seen[axis], rest) else { break };
            let (lengths, behind) = rest.split_at(count);
            rest = behind;
            let digits = match &at[axis] {
                Subscript::Affine(number) if count > 1 => self.digits(number, &lengths[1..]),
                _ => None,
            };
            if let Some(digits) = digits {
                seen.splice(axis..=axis, lengths.iter().cloned());
                at.splice(axis..=axis, digits.into_iter().map(Subscript::Affine));
                (axis, changed) = (axis + count, true);
            } else {
                axis += 1;
            }
        }
        changed
    }

    /// The digits of a number, of which all but the first are below these lengths.
    fn digits(&self, number: &Affine<IndexId>, lengths: &[Size]) -> Option<Vec<Affine<IndexId>>> {
        let (mut number, mut digits) = (number.clone(), vec![]);
        for length in lengths.iter().rev() {
            let (quotient, rest) = number.split(length);
            let is_index = rest.as_index().is_some_and(|index| self.extents.get(&index) == Some(length));
            if !is_index && !self.is_within(&rest, length.as_constant()?) {
                return None;
            }
            digits.push(rest);
            number = quotient;
        }
        digits.push(number);
        digits.reverse();
        Some(digits)
    }

    /// Whether an expression is a number from 0 up to a length, for constant extents.
    fn is_within(&self, affine: &Affine<IndexId>, length: i64) -> bool {
        let least = affine.constant_part().as_constant().filter(|least| *least >= 0);
        let greatest = affine.terms().iter().try_fold(least, |sum, (index, step)| {
            let extent = self.extents.get(index)?.as_constant()?;
            let reach = step.as_constant().filter(|step| *step > 0)?.checked_mul((extent - 1).max(0))?;
            Some(sum?.checked_add(reach))
        });
        greatest.flatten().is_some_and(|greatest| greatest < length)
    }
}

/// How many of the first axes an axis is made of.
fn made_of(length: &Size, axes: &[Size]) -> Option<usize> {
    if axes.first() == Some(length) {
        return Some(1);
    }
    let mut product = Size::constant(1);
    let mut products = axes.iter().map(|axis| {
        product = &product * axis;
        product == *length
    });
    if length.as_constant() == Some(1) { Some(0) } else { products.position(|equal| equal).map(|last| last + 1) }
}
