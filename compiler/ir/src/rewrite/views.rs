//! Chooses for each load the view in which its subscripts are simplest.
//!
//! Elements are stored row-major, so neighbouring axes may be viewed as one. If `x` has `c`
//! columns, `x[l / c, l % c]` is element `l` of its elements in a row, and element `c * i + j` of
//! these, with `j < c`, is `x[i, j]`. So reshapes are treated alike in any style of writing: no
//! quotients are computed for them, and loops over the same axes are recognized.
//!
//! Only one fact about the numbers is needed: the load is in bounds. Then the lengths are positive
//! and their product fits into memory, and a number with a nonnegative quotient and remainder is
//! nonnegative.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;

use crate::nest::{Block, BufferId, IndexId, Kernel, Op, Program, Statement, Subscript, ValueId};
use crate::{Affine, BinaryOp, Scalar, Size};

/// Rewrites the loads of a kernel and returns whether any changed.
pub fn see_axes(program: &Program, kernel: &mut Kernel) -> bool {
    see(program, kernel, None)
}

/// The same, but all loads from one buffer that can do so without quotients use its own shape,
/// whatever their subscripts become.
pub fn see_plainly(program: &Program, kernel: &mut Kernel, buffer: BufferId) -> bool {
    see(program, kernel, Some(buffer))
}

fn see(program: &Program, kernel: &mut Kernel, plainly: Option<BufferId>) -> bool {
    let mut seer = Seer { program, plainly, terms: SecondaryMap::new(), extents: BTreeMap::new(), changed: false };
    seer.block(&mut kernel.body);
    seer.changed
}

/// The indices of an expression that is a number with these as its digits, from the last one on,
/// each with its extent: the coefficient of each is the product of the extents after it.
pub fn digits(number: &Affine<IndexId>, extents: &BTreeMap<IndexId, Size>) -> Option<Vec<(IndexId, Size)>> {
    let (mut found, mut step) = (vec![], Size::constant(1));
    while found.len() < number.terms().len() {
        let (index, _) = number.terms().iter().find(|(_, coefficient)| *coefficient == step)?;
        let extent = extents.get(index)?;
        step = &step * extent;
        found.push((*index, extent.clone()));
    }
    number.constant_part().is_zero().then_some(found)
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
    /// A buffer to be loaded with its own shape.
    plainly: Option<BufferId>,
    terms: SecondaryMap<ValueId, Option<Term>>,
    extents: BTreeMap<IndexId, Size>,
    changed: bool,
}

impl Seer<'_> {
    fn block(&mut self, block: &mut Block) {
        for statement in block {
            for (index, extent) in statement.dims() {
                self.extents.extend(extent.as_size().map(|extent| (*index, extent.clone())));
            }
            match statement {
                Statement::Let { op: Op::Load { buffer, view, at }, .. } => {
                    let own = &self.program.buffers[*buffer].shape;
                    let mut seen = view.clone().unwrap_or_else(|| own.clone());
                    let merged = self.merge(&mut seen, at);
                    if self.regroup(&mut seen, at, own, self.plainly == Some(*buffer)) || merged {
                        *view = (seen != *own).then_some(seen);
                        self.changed = true;
                    }
                }
                Statement::Let { value, op } => self.terms[*value] = self.term(op),
                Statement::Store { .. }
                | Statement::Scatter { .. }
                | Statement::If { .. }
                | Statement::Loop(_)
                | Statement::While(_)
                | Statement::Contract(_) => {}
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
            Op::Constant(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Bitcast(..)
            | Op::Call(..)
            | Op::Load { .. }
            | Op::Check { .. }
            | Op::Prefix(..)
            | Op::Place(_) => None,
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

    /// Merges axes that are loaded at a quotient and a remainder.
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

    /// The number with a quotient and remainder by the length of the second axis that are these two
    /// subscripts. The lengths are those from the second axis on: the number itself may be a
    /// quotient by the product of the later ones.
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

    /// Replaces axes by those of the array with as many elements, if these are more, or in any case
    /// if the subscripts are numbers with their indices as digits.
    fn regroup(&self, seen: &mut Vec<Size>, at: &mut Vec<Subscript>, own: &[Size], always: bool) -> bool {
        let (mut axis, mut rest, mut changed) = (0, own, false);
        while axis < seen.len() {
            let Some((count, lengths)) = same_elements(&seen[axis..], rest) else { break };
            let (lengths, behind) = rest.split_at(lengths);
            rest = behind;
            let axes = axis..axis + count;
            let better = lengths.len() > count || (always && !lengths.is_empty() && seen[axes.clone()] != *lengths);
            let number = if better { number(&at[axes.clone()], &seen[axes.clone()]) } else { None };
            if let Some(digits) = number.and_then(|number| self.places(number, &lengths[1..])) {
                seen.splice(axes.clone(), lengths.iter().cloned());
                at.splice(axes, digits.into_iter().map(Subscript::Affine));
                (axis, changed) = (axis + lengths.len(), true);
            } else {
                axis += count;
            }
        }
        changed
    }

    /// The subscripts that a number stands for along axes; all axes but the first have these
    /// lengths.
    fn places(&self, mut number: Affine<IndexId>, lengths: &[Size]) -> Option<Vec<Affine<IndexId>>> {
        let mut places = vec![];
        for length in lengths.iter().rev() {
            let (quotient, rest) = number.split(length);
            if !self.is_below(&rest, length) {
                return None;
            }
            places.push(rest);
            number = quotient;
        }
        places.push(number);
        places.reverse();
        Some(places)
    }

    /// Whether an expression is a number from 0 up to a length, either by its digits or by constant
    /// extents.
    fn is_below(&self, affine: &Affine<IndexId>, length: &Size) -> bool {
        let product =
            |digits: Vec<(IndexId, Size)>| digits.iter().fold(Size::constant(1), |n, (_, extent)| &n * extent);
        if digits(affine, &self.extents).map(product).as_ref() == Some(length) {
            return true;
        }
        let least = affine.constant_part().as_constant().filter(|least| *least >= 0);
        let greatest = affine.terms().iter().try_fold(least, |sum, (index, step)| {
            let extent = self.extents.get(index)?.as_constant()?;
            let reach = step.as_constant().filter(|step| *step > 0)?.checked_mul((extent - 1).max(0))?;
            Some(sum?.checked_add(reach))
        });
        greatest.flatten().zip(length.as_constant()).is_some_and(|(greatest, length)| greatest < length)
    }
}

/// The row-major number of affine subscripts.
fn number(at: &[Subscript], lengths: &[Size]) -> Option<Affine<IndexId>> {
    at.iter().zip(lengths).try_fold(Affine::constant(0), |number, (subscript, length)| match subscript {
        Subscript::Affine(a) => Some(number.scale(length).add(a)),
        Subscript::Value(_) => None,
    })
}

/// The least number of leading axes of two shapes that have the same number of elements.
fn same_elements(first: &[Size], second: &[Size]) -> Option<(usize, usize)> {
    if first[0].as_constant() == Some(1) && second.first() != Some(&first[0]) {
        return Some((1, 0));
    }
    let products = |axes: &[Size]| -> Vec<Size> {
        let product = |product: &mut Size, axis: &Size| {
            *product = &*product * axis;
            Some(product.clone())
        };
        axes.iter().scan(Size::constant(1), product).collect()
    };
    if first.first() == second.first() {
        return Some((1, 1));
    }
    let (first, second) = (products(first), products(second));
    (1..).zip(&first).find_map(|(i, product)| Some((i, 1 + second.iter().position(|other| other == product)?)))
}
