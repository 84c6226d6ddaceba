//! Splits a loop over merged axes into a loop over the axes. `reshape(x @ y, n * m)` and the merged
//! heads of attention, `z[i, l / 8, j, l % 8]`, load each element once, but in another order than a
//! loop of their own would; over the indices of the producer they store at `m * i + j`, and the
//! producer can do that itself. Conversely, a buffer that is loaded at `p[i, 8 * j + k]`, or as
//! `reshape(p, n, 8, 8)`, can be stored by the producer at the same places, over the indices of the
//! consumer.
//!
//! An index `l` becomes `c * i + j` with `j < c`, if its extent is a multiple of `c`. So a quotient
//! `l / c` is `i`, and a remainder `l % c` is `j`. Reductions can be split too, since their
//! elements are numbered row-major.

use std::collections::{BTreeMap, BTreeSet};

use ir::effects::Access;
use ir::nest::{BufferId, Extent, Index, IndexId, Kernel, LoopKind, Op, Program, Statement, Subscript, ValueId};
use ir::rewrite::{digits, for_each_affine_mut, fresh_name, replace, see_axes, see_plainly, simplify};
use ir::{Affine, BinaryOp, Scalar, Size, visit};

use super::form::{extents, loads_of, shape};

/// The lengths that an index is split into, from the outermost in.
type Parts = BTreeMap<IndexId, Vec<Size>>;

/// The second kernel with those indices split by which it loads a buffer through another shape, or
/// at quotients and remainders; and the first likewise, or if it stores the buffer where the second
/// loads at digits. `None` if there is nothing to split.
pub(super) fn split(
    program: &Program,
    (first, second): (&Kernel, &Kernel),
    buffer: BufferId,
) -> Option<(Kernel, Kernel)> {
    let own = |kernel| {
        let parts = merged_axes(program, kernel, buffer);
        (!parts.is_empty()).then(|| rewritten(program, kernel, &parts))
    };
    let flows = visit::stores(&first.body).contains(&buffer);
    let mut later = own(second);
    let earlier = if flows {
        let mut plain = later.as_ref().unwrap_or(second).clone();
        see_plainly(program, &mut plain, buffer);
        let parts = split_axes(program, (first, &plain), buffer);
        (!parts.is_empty()).then(|| {
            later = Some(plain);
            rewritten(program, first, &parts)
        })
    } else {
        own(first)
    };
    let any = earlier.is_some() || later.is_some();
    any.then(|| (earlier.unwrap_or_else(|| first.clone()), later.unwrap_or_else(|| second.clone())))
}

/// The indices by which a kernel loads a buffer through another shape, or at quotients and
/// remainders.
fn merged_axes(program: &Program, kernel: &Kernel, buffer: BufferId) -> Parts {
    let shape = shape(program, buffer);
    let extents = splittable(program, kernel);
    let quotients = quotients(kernel);
    let mut parts = Parts::new();
    visit::for_each_statement(&kernel.body, &mut |statement| {
        if let Some(Access { view: Some(view), at, .. }) = statement.effects().load.filter(|l| l.buffer == buffer) {
            parts.extend(grouped((at, view), shape, &extents).unwrap_or_default());
        }
    });
    // A quotient by a negative number runs backwards.
    let is_length = |by: &Size| by.as_constant().is_some_and(|by| by > 0) || shape.contains(by);
    for load in loads_of(kernel, buffer) {
        for quotient in load.at.iter().filter_map(|s| quotients.get(&value(s)?)).filter(|q| is_length(&q.by)) {
            let Some(rows) = extents.get(&quotient.index).and_then(|n| n.exact_div(&quotient.by)) else { continue };
            parts.insert(quotient.index, vec![rows, quotient.by.clone()]);
        }
    }
    parts.retain(|_, lengths| lengths.len() > 1);
    parts
}

/// The indices by which a kernel stores a buffer along whole axes on which the other loads it at
/// the digits of a number.
fn split_axes(program: &Program, (producer, consumer): (&Kernel, &Kernel), buffer: BufferId) -> Parts {
    let (own, others) = (splittable(program, producer), extents(&consumer.body));
    let mut parts = Parts::new();
    let loads = loads_of(consumer, buffer);
    visit::for_each_statement(&producer.body, &mut |statement| {
        let Some(store) = statement.effects().store.filter(|store| store.buffer == buffer) else { return };
        for (axis, length) in shape(program, buffer).iter().enumerate() {
            let index = store.at[axis].as_index().filter(|index| own.get(index) == Some(length));
            let numbers = loads.iter().filter_map(|load| match load.at.get(axis)? {
                Subscript::Affine(number) => digits(number, &others),
                Subscript::Value(_) => None,
            });
            let all = |digits: Vec<(IndexId, Size)>| {
                let lengths: Vec<Size> = digits.into_iter().rev().map(|(_, extent)| extent).collect();
                let product = lengths.iter().fold(Size::constant(1), |product, length| &product * length);
                (lengths.len() > 1 && product == *length).then_some(lengths)
            };
            if let (Some(index), Some(lengths)) = (index, numbers.filter_map(all).next()) {
                parts.insert(index, lengths);
            }
        }
    });
    parts
}

/// Whether an index may be split.
enum Split {
    Always,
    /// Where its extent has an exact value.
    Exact,
    Never,
}

/// The extents of the indices that may be split. Those of reductions may wrap, and would then be
/// split into more elements.
fn splittable(program: &Program, kernel: &Kernel) -> BTreeMap<IndexId, Size> {
    let mut extents = extents(&kernel.body);
    visit::for_each_statement(&kernel.body, &mut |statement| {
        let (dims, split): (&[_], _) = match statement {
            Statement::Loop(l) => (
                &l.dims,
                match l.kind {
                    LoopKind::Parallel => Split::Always,
                    LoopKind::Reduce(_) => Split::Exact,
                    LoopKind::Serial | LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => Split::Never,
                },
            ),
            Statement::While(w) => (std::slice::from_ref(&w.counter), Split::Never),
            Statement::Contract(c) => (&c.reduce, Split::Never),
            Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } | Statement::If { .. } => {
                return;
            }
        };
        for (index, _) in dims {
            let goes = |extent: &Size| match split {
                Split::Always => false,
                Split::Exact => !is_exact(program, extent),
                Split::Never => true,
            };
            if extents.get(index).is_some_and(goes) {
                extents.remove(index);
            }
        }
    });
    extents
}

/// Whether every call has an exact value for a size.
fn is_exact(program: &Program, size: &Size) -> bool {
    let of_call = || program.requires.iter().filter(|r| r.unless_empty.is_empty()).flat_map(|r| [&r.left, &r.right]);
    size.as_constant().is_some() || of_call().any(|exact| exact == size)
}

/// A quotient of an index, or its remainder.
struct Quotient {
    index: IndexId,
    by: Size,
    is_remainder: bool,
}

/// The values that are quotients of indices by sizes.
fn quotients(kernel: &Kernel) -> BTreeMap<ValueId, Quotient> {
    let (mut known, mut found) = (BTreeMap::new(), BTreeMap::new());
    visit::for_each_statement(&kernel.body, &mut |statement| {
        let Statement::Let { value, op } = statement else { return };
        if let Op::Affine(a) = op {
            known.insert(*value, a.clone());
        } else if let Op::Constant(Scalar::I64(c)) = op {
            known.insert(*value, Affine::constant(*c));
        } else if let Op::Binary(op @ (BinaryOp::Div | BinaryOp::Rem), a, b) = op {
            let index = known.get(a).and_then(Affine::as_index);
            if let (Some(index), Some(by)) = (index, known.get(b).and_then(Affine::as_size)) {
                let quotient = Quotient { index, by: by.clone(), is_remainder: *op == BinaryOp::Rem };
                found.insert(*value, quotient);
            }
        }
    });
    found
}

fn value(subscript: &Subscript) -> Option<ValueId> {
    if let Subscript::Value(v) = subscript { Some(*v) } else { None }
}

/// The lengths that each index of a load through another shape consists of: those of whole axes, or
/// a common divisor.
fn grouped((at, view): (&[Subscript], &[Size]), shape: &[Size], extents: &BTreeMap<IndexId, Size>) -> Option<Parts> {
    let one = Size::constant(1);
    let (mut axes, mut axis) = (shape, one.clone());
    let mut parts = Parts::new();
    for (subscript, length) in at.iter().zip(view) {
        let index = subscript.as_index().filter(|index| extents.get(index) == Some(length))?;
        let mut lengths = vec![];
        let mut left = length.clone();
        // Take axes, or parts of one, until their lengths multiply to that of the index.
        while left != one {
            if axis == one {
                if let Some(count) = whole(&left, axes) {
                    lengths.extend_from_slice(&axes[..count]);
                    axes = &axes[count..];
                    break;
                }
                (axis, axes) = axes.split_first().map(|(axis, rest)| (axis.clone(), rest))?;
            }
            // Either the axis divides the rest of the index, or the other way round.
            if let Some(rows) = left.exact_div(&axis) {
                lengths.push(std::mem::replace(&mut axis, one.clone()));
                left = rows;
            } else {
                axis = axis.exact_div(&left)?;
                lengths.push(std::mem::replace(&mut left, one.clone()));
            }
        }
        if parts.insert(index, lengths).is_some() {
            return None;
        }
    }
    (axis == one && axes.iter().all(|length| *length == one)).then_some(parts)
}

/// The number of leading axes of a shape that have this many elements together.
fn whole(elements: &Size, axes: &[Size]) -> Option<usize> {
    let mut product = Size::constant(1);
    let mut products = axes.iter().map(|axis| {
        product = &product * axis;
        product == *elements
    });
    products.position(|all| all).map(|last| last + 1)
}

/// The kernel with indices split.
fn rewritten(program: &Program, kernel: &Kernel, parts: &Parts) -> Kernel {
    let quotients = quotients(kernel);
    let mut kernel = kernel.clone();
    let sizes = program.symbols.values().map(|s| &s.name);
    let mut names: BTreeSet<String> = sizes.chain(kernel.indices.values().map(|index| &index.name)).cloned().collect();
    let mut digits: BTreeMap<IndexId, Vec<(IndexId, Size)>> = BTreeMap::new();
    for (index, lengths) in parts {
        let mut fresh = |length: &Size| {
            let name = fresh_name(&mut names, &kernel.indices[*index].name);
            (kernel.indices.push(Index { name }), length.clone())
        };
        digits.insert(*index, lengths.iter().map(&mut fresh).collect());
    }
    // The number with these digits replaces the index in affine expressions.
    let number = |digits: &Vec<(IndexId, Size)>| {
        let row = |number: Affine<IndexId>, (i, n): &(IndexId, Size)| number.scale(n).add(&Affine::index(*i));
        digits.iter().fold(Affine::constant(0), row)
    };
    let split = |(index, extent): (IndexId, Extent)| match digits.get(&index) {
        Some(digits) => digits.iter().map(|(i, n)| (*i, Extent::Affine(Affine::size(n.clone())))).collect(),
        None => vec![(index, extent)],
    };
    replace(&mut kernel.body, &mut |mut statement, out| {
        match &mut statement {
            Statement::Let { value, op } => {
                if let Some(quotient) = quotients.get(value)
                    && let Some([(i, _), (j, by)]) = digits.get(&quotient.index).map(Vec::as_slice)
                    && *by == quotient.by
                {
                    *op = Op::Affine(Affine::index(if quotient.is_remainder { *j } else { *i }));
                }
            }
            Statement::Loop(l) => l.dims = std::mem::take(&mut l.dims).into_iter().flat_map(split).collect(),
            Statement::Contract(c) => c.free = std::mem::take(&mut c.free).into_iter().flat_map(split).collect(),
            Statement::Store { .. } | Statement::Scatter { .. } | Statement::If { .. } | Statement::While(_) => {}
        }
        out.push(statement);
    });
    let with = |index: IndexId| digits.get(&index).map_or(Affine::index(index), number);
    for statement in &mut kernel.body {
        for_each_affine_mut(statement, &mut |affine| *affine = affine.substitute(&mut |index| with(index)));
    }
    simplify(&mut kernel);
    see_axes(program, &mut kernel);
    kernel
}
