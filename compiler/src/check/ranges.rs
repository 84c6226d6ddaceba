//! How far sizes, indices and linear forms reach, for facts and proofs: ranges, signs, least and
//! greatest values, and which of them cannot wrap.

use ir::checked::{ExprId, Extent, IndexId};
use ir::size::Atom;
use ir::{Affine, Dtype, Size};

use super::facts::{Facts, Known};
use super::prove::{Linear, Variable};

/// Scalar parameters that take part in conditions lie within this, as the lengths of arguments do,
/// so that no condition wraps.
pub const MAX_SCALAR: i64 = ir::bind::MAX_LENGTH.cast_signed();
/// Indices that end one another beyond which the ends of further ones are not looked at.
const MAX_ENDS: usize = 8;
/// Coefficients in conditions that cannot make sizes and indices wrap.
const MAX_CONDITION: i128 = 1 << 12;

/// At most this many lengths with small coefficients: together they stay below 2^63.
const MAX_TERMS: usize = 7;

impl Facts<'_> {
    /// Whether a size is never negative, whatever the lengths.
    pub fn never_negative(&self, size: &Size) -> bool {
        // Most sizes are sums of products of lengths: no need for the prover.
        let is_length = |atom: &Atom| matches!(atom, Atom::Symbol(s) if self.arena.out.symbols[*s].source.is_length());
        if size.terms().iter().all(|(product, coefficient)| *coefficient > 0 && product.iter().all(is_length)) {
            return true;
        }
        let goal = Linear::size(size);
        // Nothing is known but what has to do with the goal.
        let known = Known { void: false.into(), ..Known::default() };
        let known = self.known(std::slice::from_ref(&goal), &[], known);
        self.proves(&known, &goal)
    }

    /// Whether a form has a value of 64 bits whatever its variables are.
    pub fn fits(&self, form: &Linear, scalars: Scalars) -> bool {
        self.range_of(form, scalars, |_| None).is_some_and(within)
    }

    /// Whether a form with data in it is no subscript where computing it wraps: then it is far less
    /// than 2^64 away from zero, and its wrapped value is no length from it.
    pub fn wraps_outside(&self, form: &Linear) -> bool {
        let is_data = |(variable, _): &(Variable, i128)| matches!(variable, Variable::Opaque(_));
        if !form.terms.iter().any(is_data) {
            return true;
        }
        let range = self.range_of(form, Scalars::Bounded, |id| match self.arena.dtype(id) {
            Dtype::I64 => Some((i64::MIN.into(), i64::MAX.into())),
            Dtype::I32 => Some((i32::MIN.into(), i32::MAX.into())),
            Dtype::U32 => Some((0, u32::MAX.into())),
            narrow => narrow.narrow_range().map(|(least, most)| (least.into(), most.into())),
        });
        let limit = i128::from(u64::MAX) - i128::from(MAX_SCALAR);
        range.is_some_and(|(least, most)| -limit < least && most < limit)
    }

    /// The least and greatest value of a form, given those of the data in it.
    fn range_of(
        &self,
        form: &Linear,
        scalars: Scalars,
        data: impl Fn(ExprId) -> Option<(i128, i128)>,
    ) -> Option<(i128, i128)> {
        form.terms.iter().try_fold((form.constant, form.constant), |sum, (variable, c)| {
            let range = match variable {
                Variable::Index(index) => (0, self.most_of_index(*index, scalars, MAX_ENDS)),
                Variable::Product(atoms) => match atoms.as_slice() {
                    [atom] => self.range_of_atom(atom, scalars)?,
                    _ => return None,
                },
                Variable::Opaque(id) => data(*id)?,
            };
            add(sum, times((*c, *c), range)?).filter(|_| small(*c))
        })
    }

    /// The greatest value of an index; `ends` limits how many indices that end one another are
    /// looked at.
    fn most_of_index(&self, index: IndexId, scalars: Scalars, ends: usize) -> i128 {
        let end = || {
            let Extent::Affine(extent) = &self.arena.out.indices[index].extent else { return None };
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
    pub fn range_of_size(&self, size: &Size, scalars: Scalars) -> Option<Range> {
        size.terms().iter().try_fold((0, 0), |sum, (product, c)| {
            let c = i128::from(*c);
            let term = product.iter().try_fold((c, c), |range, atom| times(range, self.range_of_atom(atom, scalars)?));
            add(sum, term?)
        })
    }

    fn range_of_atom(&self, atom: &Atom, scalars: Scalars) -> Option<Range> {
        let most = i128::from(MAX_SCALAR);
        match atom {
            Atom::Symbol(s) => Some(match (self.arena.out.symbols[*s].source.is_length(), scalars) {
                (true, _) => (0, most),
                (false, Scalars::Bounded) => (-most, most),
                (false, Scalars::Any) => (i64::MIN.into(), i64::MAX.into()),
            }),
            Atom::FloorDiv(a, b) => {
                let b = i128::from(b.as_constant().filter(|b| *b > 0)?);
                let (least, greatest) = self.range_of_size(a, scalars).filter(|a| within(*a))?;
                Some((least.div_euclid(b), greatest.div_euclid(b)))
            }
            Atom::KeyedChunk(_) | Atom::Overflow(_) => None,
        }
    }

    /// Whether a size is a sum of lengths with small coefficients: no call has enough memory to
    /// make it wrap.
    pub fn is_small(&self, size: &Size) -> bool {
        let few = size.terms().len() <= MAX_TERMS;
        few && size.terms().iter().all(|(product, coefficient)| match product.as_slice() {
            [] => coefficient.unsigned_abs() <= MAX_SCALAR.unsigned_abs(),
            [atom] => small((*coefficient).into()) && self.is_length(atom),
            _ => false,
        })
    }

    /// Whether an atom is a length, or a quotient of a small size.
    fn is_length(&self, atom: &Atom) -> bool {
        match atom {
            Atom::Symbol(s) => self.arena.out.symbols[*s].source.is_length(),
            Atom::FloorDiv(a, b) => b.as_constant().is_some_and(|b| b > 0) && self.is_small(a),
            Atom::KeyedChunk(_) | Atom::Overflow(_) => false,
        }
    }

    /// Whether a size is known not to be below -2^63.
    pub fn stays_above(&self, size: &Size) -> bool {
        if self.is_small(size) {
            return true;
        }
        let scalar = |atom: &Atom| match atom {
            Atom::Symbol(s) => !self.arena.out.symbols[*s].source.is_length(),
            Atom::FloorDiv(..) | Atom::KeyedChunk(_) | Atom::Overflow(_) => false,
        };
        let mut scalars = 0;
        let grows = size.terms().iter().all(|(product, coefficient)| match product.as_slice() {
            [atom] if *coefficient == 1 && scalar(atom) => {
                scalars += 1;
                true
            }
            product => {
                *coefficient > 0 && product.iter().all(|atom| self.is_length(atom) && self.never_negative(&atom.into()))
            }
        });
        grows && scalars < 2
    }

    /// The least or greatest value of an expression over the ranges of its indices, if it is a
    /// size.
    pub fn corner(&self, at: &Affine<IndexId>, greatest: bool) -> Option<Size> {
        let mut at = at.clone();
        while let Some((index, coefficient)) = at.terms().last().cloned() {
            let Extent::Affine(extent) = &self.arena.out.indices[index].extent else { return None };
            if self.arena.ends.unsolved.contains(&index) {
                return None;
            }
            let last = extent.sub(&Affine::constant(1));
            let to = if (self.sign(&coefficient)? > 0) == greatest { last } else { Affine::constant(0) };
            at = at.substitute(&mut |i| if i == index { to.clone() } else { Affine::index(i) });
        }
        at.as_size().cloned()
    }

    /// The sign of a coefficient, where it is known to be the same for all sizes.
    pub fn sign(&self, coefficient: &Size) -> Option<i64> {
        match coefficient.as_constant() {
            Some(c) => Some(c.signum()),
            None if self.never_negative(coefficient) => Some(1),
            None if self.never_negative(&-coefficient) => Some(-1),
            None => None,
        }
    }
}

/// The assumption that ranges are computed on, of scalar parameters.
#[derive(Clone, Copy)]
pub(super) enum Scalars {
    /// That they are within [`MAX_SCALAR`].
    Bounded,
    /// Nothing.
    Any,
}

/// The least and the greatest value.
pub(super) type Range = (i128, i128);

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
pub(super) fn within((least, greatest): Range) -> bool {
    least >= i64::MIN.into() && greatest <= i64::MAX.into()
}

/// Whether a coefficient is small enough that lengths, indices and bounded scalars times it do not
/// wrap.
pub(super) fn small(c: i128) -> bool {
    c.abs() <= MAX_CONDITION
}
