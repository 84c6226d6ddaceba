//! Decides which of the loops around an access must run, and which earlier checks must pass, for it
//! to be in bounds.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::hoist::Depths;
use crate::effects::Access;
use crate::nest::{BufferId, Extent, IndexId, Program, Relation, Statement, Subscript, ValueId};
use crate::size::Atom;
use crate::{Affine, Size};

/// A condition that holds wherever an access runs: an enclosing loop has an extent above 0, or an
/// earlier check has a bound above 0.
pub(super) struct Around {
    /// The depth of the block of the loop or check.
    pub depth: usize,
    /// The index that the loop binds.
    pub index: Option<IndexId>,
    pub extent: Extent,
}

impl Around {
    /// Whether it is the loop of one of these indices.
    fn is_of(&self, indices: &BTreeSet<IndexId>) -> bool {
        self.index.is_some_and(|index| indices.contains(&index))
    }
}

/// Proves accesses in bounds from a program's requirements on its calls.
pub struct Inside<'a> {
    program: &'a Program,
    rows: OnceCell<BTreeMap<Size, Vec<Row<'a>>>>,
}

/// Keyed by a size without its constant term: the size is not negative with this constant, unless
/// one of some other sizes is below 1.
struct Row<'a> {
    constant: i64,
    unless_empty: &'a [Size],
}

impl<'a> Inside<'a> {
    /// Of the accesses of this program.
    pub fn new(program: &'a Program) -> Inside<'a> {
        Inside { program, rows: OnceCell::new() }
    }

    /// Of the enclosing loops with indices that an access does not mention, outermost first, and of
    /// the earlier checks: those that the access needs to be in bounds, because the loops may have
    /// no iterations, the checks may fail, and nothing else proves it. `below` has values that are
    /// not negative, each with an exclusive upper bound as a size.
    pub(super) fn needs(
        &self,
        lengths: &[Size],
        at: &[Subscript],
        around: &[Around],
        below: &BTreeMap<ValueId, Size>,
    ) -> Depths {
        if around.is_empty() {
            return 0;
        }
        let mut mentioned = BTreeSet::new();
        let mut mention = |a: &Affine<IndexId>| mentioned.extend(a.terms().iter().map(|(index, _)| *index));
        for subscript in at {
            if let Subscript::Affine(a) = subscript {
                mention(a);
            }
        }
        // An index in the extent of a mentioned one counts as mentioned, because its loop has to
        // run too.
        for outer in around.iter().rev() {
            if let (true, Extent::Affine(a)) = (outer.is_of(&mentioned), &outer.extent) {
                mentioned.extend(a.terms().iter().map(|(index, _)| *index));
            }
        }
        let (kept, left): (Vec<&Around>, Vec<&Around>) = around.iter().partition(|a| a.is_of(&mentioned));
        let run: Vec<&Size> = kept.into_iter().filter_map(size).collect();
        // Start with all loops that may have no iterations and all checks that may fail.
        let mut needed = 0;
        for a in &left {
            if !size(a).is_some_and(|extent| is_positive(extent, &run)) {
                needed |= 1 << a.depth;
            }
        }
        if needed == 0 {
            return 0;
        }
        let Some(goals) = self.goals(lengths, at, around, below) else { return needed };
        let holds = |depths: Depths| {
            let mut run = run.clone();
            run.extend(left.iter().filter(|a| depths >> a.depth & 1 == 1).copied().filter_map(size));
            goals.iter().all(|goal| self.follows(goal, &run))
        };
        // Not even all of them prove the access in bounds, so it stays inside all of them.
        if !holds(needed) {
            return needed;
        }
        // Drop each one that the proof does not need, the innermost first.
        for a in left.iter().rev() {
            let without = needed & !(1 << a.depth);
            if holds(without) {
                needed = without;
            }
        }
        needed
    }

    /// Calls `found` with the subscripts of each load of a statement that may be out of bounds if
    /// an earlier check fails, because the statement's own loops do not prove otherwise. A
    /// subscript that is a value has its own check.
    pub fn each_leaning<'s>(&self, statement: &'s Statement, found: &mut dyn FnMut(BufferId, &'s [Subscript])) {
        self.look(statement, &mut vec![], found);
    }

    fn look<'s>(
        &self,
        statement: &'s Statement,
        around: &mut Vec<Around>,
        found: &mut dyn FnMut(BufferId, &'s [Subscript]),
    ) {
        if let Some(Access { buffer, view, at }) = statement.effects().load {
            let lengths = view.unwrap_or(&self.program.buffers[buffer].shape);
            let affine = |(subscript, _): &(&Subscript, &Size)| matches!(subscript, Subscript::Affine(_));
            let linear = at.iter().zip(lengths).filter(affine).map(|(at, length)| (at.clone(), length.clone()));
            let (affine, lengths): (Vec<Subscript>, Vec<Size>) = linear.unzip();
            let run: Vec<&Size> = around.iter().filter_map(size).collect();
            let goals = self.goals(&lengths, &affine, around, &BTreeMap::new());
            if !goals.is_some_and(|goals| goals.iter().all(|goal| self.follows(goal, &run))) {
                found(buffer, at);
            }
        }
        let bound = around.len();
        around.extend(statement.dims().map(|(i, e)| Around { depth: 0, index: Some(*i), extent: e.clone() }));
        statement.blocks().flatten().for_each(|inner| self.look(inner, around, found));
        around.truncate(bound);
    }

    /// The sizes that must not be negative for an access to be in bounds, without those that never
    /// are.
    fn goals(
        &self,
        lengths: &[Size],
        at: &[Subscript],
        around: &[Around],
        below: &BTreeMap<ValueId, Size>,
    ) -> Option<Vec<Size>> {
        let mut goals = vec![];
        for (subscript, length) in at.iter().zip(lengths) {
            match subscript {
                // Most indices run over a whole axis.
                Subscript::Affine(_) if runs_over(subscript, length, around) => {}
                Subscript::Affine(a) => {
                    goals.push(self.extreme(a, around, false)?);
                    let last = length - &Size::constant(1);
                    goals.push(&last - &self.extreme(a, around, true)?);
                }
                Subscript::Value(value) => goals.push(length - below.get(value)?),
            }
        }
        goals.retain(|goal| !self.never_negative(goal));
        Some(goals)
    }

    /// The greatest or least value of an expression over loops that run.
    fn extreme(&self, a: &Affine<IndexId>, around: &[Around], greatest: bool) -> Option<Size> {
        let mut a = a.clone();
        for Around { index, extent, .. } in around.iter().rev() {
            let Some(index) = index else { continue };
            let coefficient = a.coefficient(*index);
            if coefficient.is_zero() {
                continue;
            }
            let rises = self.never_negative(&coefficient);
            if !rises && !self.never_negative(&-&coefficient) {
                return None;
            }
            let end = match extent {
                _ if rises != greatest => Affine::constant(0),
                Extent::Affine(extent) => extent.sub(&Affine::constant(1)),
                Extent::Value(_) => return None,
            };
            a = a.substitute(&mut |i| if i == *index { end.clone() } else { Affine::index(i) });
        }
        a.as_size().filter(|size| !size.is_overflow()).cloned()
    }

    /// Whether a size cannot be negative if all of `run` are above 0.
    fn follows(&self, goal: &Size, run: &[&Size]) -> bool {
        let one = Size::constant(1);
        if run.iter().any(|extent| self.never_negative(&(goal - &(*extent - &one)))) {
            return true;
        }
        let (key, constant) = split(goal);
        let rows = self.rows().get(&key).into_iter().flatten();
        rows.into_iter().any(|row| row.constant <= constant && row.unless_empty.iter().all(|s| is_positive(s, run)))
    }

    fn rows(&self) -> &BTreeMap<Size, Vec<Row<'a>>> {
        self.rows.get_or_init(|| {
            let mut rows: BTreeMap<Size, Vec<Row<'a>>> = BTreeMap::new();
            for r in &self.program.requires {
                let room = &r.right - &r.left;
                let back = (r.relation == Relation::Equal).then(|| -&room);
                for form in [Some(room), back].into_iter().flatten().filter(|form| !form.is_overflow()) {
                    let (key, constant) = split(&form);
                    rows.entry(key).or_default().push(Row { constant, unless_empty: &r.unless_empty });
                }
            }
            rows
        })
    }

    fn never_negative(&self, size: &Size) -> bool {
        self.range(size).0 >= 0
    }

    /// The least and the greatest value that a size may have, by interval arithmetic over lengths,
    /// which have no upper limit.
    fn range(&self, size: &Size) -> (i128, i128) {
        size.terms().iter().fold((0, 0), |(least, greatest), (product, coefficient)| {
            let factors = product.iter().map(|atom| self.range_of(atom));
            let term = factors.fold(exactly(*coefficient), |a, b| corners(a, b, i128::saturating_mul));
            (least.saturating_add(term.0), greatest.saturating_add(term.1))
        })
    }

    fn range_of(&self, atom: &Atom) -> (i128, i128) {
        const UNKNOWN: (i128, i128) = (i128::MIN, i128::MAX);
        const LENGTH: (i128, i128) = (0, i128::MAX);
        match atom {
            Atom::Symbol(s) if self.program.symbols[*s].source.is_length() => LENGTH,
            Atom::KeyedChunk(_) => LENGTH,
            Atom::FloorDiv(a, b) => match self.range(b) {
                divisor @ (1.., _) => corners(self.range(a), divisor, i128::div_euclid),
                _ => UNKNOWN,
            },
            Atom::Symbol(_) | Atom::Overflow(_) => UNKNOWN,
        }
    }
}

fn exactly(number: i64) -> (i128, i128) {
    (number.into(), number.into())
}

/// The range of an operation that in each operand only rises or only falls.
fn corners(a: (i128, i128), b: (i128, i128), of: fn(i128, i128) -> i128) -> (i128, i128) {
    let all = [of(a.0, b.0), of(a.0, b.1), of(a.1, b.0), of(a.1, b.1)];
    all.into_iter().fold((i128::MAX, i128::MIN), |(least, greatest), c| (least.min(c), greatest.max(c)))
}

/// Whether a subscript is the index of a loop over a whole axis of this length.
fn runs_over(subscript: &Subscript, length: &Size, around: &[Around]) -> bool {
    let Some(index) = subscript.as_index() else { return false };
    around.iter().any(|a| a.index == Some(index) && size(a) == Some(length))
}

/// The extent of a loop, if it is a size.
fn size(a: &Around) -> Option<&Size> {
    match &a.extent {
        Extent::Affine(extent) => extent.as_size(),
        Extent::Value(_) => None,
    }
}

/// Whether a size is above 0 if all of `run` are.
fn is_positive(size: &Size, run: &[&Size]) -> bool {
    run.contains(&size) || size.as_constant().is_some_and(|c| c > 0)
}

/// A size without its constant, and the constant.
fn split(size: &Size) -> (Size, i64) {
    let constant = size.constant_part();
    (size - &Size::constant(constant), constant)
}
