//! Splitting: a loop over merged axes of what it loads, as a loop over those axes. `reshape(x @ y, n * m)` and the merged heads of attention,
//! `z[i, l / 8, j, l % 8]`, load each element once and in another order than a loop of their own would say; over the indices of the
//! producer they store at `m * i + j`, and the producer can do that itself.
//!
//! An index `l` becomes `c * i + j` where `j < c`, and its extent is a multiple of `c`. So a quotient `l / c` is `i`, and a remainder `l % c` is `j`.

use std::collections::{BTreeMap, BTreeSet};

use ir::nest::{BufferId, Extent, Index, IndexId, Kernel, Loop, LoopKind, Op, Program, Statement, Subscript, ValueId};
use ir::rewrite::{for_each_affine_mut, fresh_name, replace, simplify};
use ir::{Affine, BinaryOp, Scalar, Size, visit};

use super::form::{loads_of, shape};

/// The lengths that an index is split into, from the outermost in.
type Parts = BTreeMap<IndexId, Vec<Size>>;

/// The kernel with the indices split by which it loads a buffer through another shape, or at quotients and remainders; none if there is
/// nothing to split.
pub(super) fn split(program: &Program, kernel: &Kernel, buffer: BufferId) -> Option<Kernel> {
    let (Statement::Loop(Loop { dims, kind: LoopKind::Parallel, .. }), before) = kernel.body.split_last()? else {
        return None;
    };
    if !before.iter().all(|s| matches!(s, Statement::Let { .. })) {
        return None;
    }
    let extents: BTreeMap<IndexId, &Size> = dims.iter().filter_map(|(i, e)| Some((*i, e.as_size()?))).collect();
    let quotients = quotients(kernel);
    let mut parts = Parts::new();
    visit::for_each_statement(&kernel.body, &mut |statement| {
        if let Statement::Let { op: Op::Load { buffer: from, view: Some(view), at }, .. } = statement
            && *from == buffer
        {
            parts.extend(grouped((at, view), shape(program, buffer), &extents).unwrap_or_default());
        }
    });
    // By what may be below 0, a quotient runs the other way.
    let is_length = |by: &Size| by.as_constant().is_some_and(|by| by > 0) || shape(program, buffer).contains(by);
    for load in loads_of(kernel, buffer) {
        for quotient in load.at.iter().filter_map(|s| quotients.get(&value(s)?)).filter(|q| is_length(&q.by)) {
            let Some(rows) = extents.get(&quotient.index).and_then(|n| n.exact_div(&quotient.by)) else { continue };
            parts.insert(quotient.index, vec![rows, quotient.by.clone()]);
        }
    }
    parts.retain(|_, lengths| lengths.len() > 1);
    (!parts.is_empty()).then(|| rewritten(program, kernel, (buffer, &parts), (&extents, &quotients)))
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
        match op {
            Op::Affine(a) => _ = known.insert(*value, a.clone()),
            Op::Constant(Scalar::I64(c)) => _ = known.insert(*value, Affine::constant(*c)),
            Op::Binary(op @ (BinaryOp::Div | BinaryOp::Rem), a, b) => {
                let index = known.get(a).and_then(Affine::as_index);
                if let (Some(index), Some(by)) = (index, known.get(b).and_then(Affine::as_size)) {
                    let quotient = Quotient { index, by: by.clone(), is_remainder: *op == BinaryOp::Rem };
                    found.insert(*value, quotient);
                }
            }
            _ => {}
        }
    });
    found
}

fn value(subscript: &Subscript) -> Option<ValueId> {
    if let Subscript::Value(v) = subscript { Some(*v) } else { None }
}

/// The axes of a shape that make up each index of a load that sees another one, if whole axes do.
fn grouped((at, view): (&[Subscript], &[Size]), shape: &[Size], extents: &BTreeMap<IndexId, &Size>) -> Option<Parts> {
    let mut axes = shape.iter();
    let mut parts = Parts::new();
    for (subscript, length) in at.iter().zip(view) {
        let index = subscript.as_index().filter(|index| extents.get(index) == Some(&length))?;
        let mut lengths = vec![];
        let mut product = Size::constant(1);
        while product != *length {
            let next = axes.next()?;
            product = &product * next;
            lengths.push(next.clone());
        }
        if parts.insert(index, lengths).is_some() {
            return None;
        }
    }
    axes.all(|length| *length == Size::constant(1)).then_some(parts)
}

fn rewritten(
    program: &Program,
    kernel: &Kernel,
    (buffer, parts): (BufferId, &Parts),
    (extents, quotients): (&BTreeMap<IndexId, &Size>, &BTreeMap<ValueId, Quotient>),
) -> Kernel {
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
    let number = |digits: &Vec<(IndexId, Size)>| {
        let row = |number: Affine<IndexId>, (i, n): &(IndexId, Size)| number.scale(n).add(&Affine::index(*i));
        digits.iter().fold(Affine::constant(0), row)
    };
    let axes = shape(program, buffer);
    replace(&mut kernel.body, &mut |mut statement, out| {
        match &mut statement {
            Statement::Let { op: Op::Load { buffer: from, view: view @ Some(_), at }, .. } if *from == buffer => {
                let groups = view.as_deref().and_then(|view| grouped((at, view), axes, extents));
                let Some(groups) = groups else { return out.push(statement) };
                let apart = |index: IndexId| match (digits.get(&index), groups[&index].as_slice()) {
                    (Some(digits), lengths) if digits.iter().map(|(_, n)| n).eq(lengths) => {
                        Some(digits.iter().map(|(i, _)| Subscript::index(*i)).collect())
                    }
                    (None, [_]) => Some(vec![Subscript::index(index)]),
                    _ => None,
                };
                let indices: Option<Vec<Vec<Subscript>>> = at.iter().map(|s| apart(s.as_index()?)).collect();
                let indices: Vec<Subscript> = indices.into_iter().flatten().flatten().collect();
                if indices.len() == axes.len() {
                    (*view, *at) = (None, indices);
                }
            }
            Statement::Let { value, op } => {
                if let Some(quotient) = quotients.get(value)
                    && let Some([(i, _), (j, by)]) = digits.get(&quotient.index).map(Vec::as_slice)
                    && *by == quotient.by
                {
                    *op = Op::Affine(Affine::index(if quotient.is_remainder { *j } else { *i }));
                }
            }
            Statement::Loop(l) => {
                let split = |(index, extent): (IndexId, Extent)| match digits.get(&index) {
                    Some(digits) => digits.iter().map(|(i, n)| (*i, Extent::Affine(Affine::size(n.clone())))).collect(),
                    None => vec![(index, extent)],
                };
                l.dims = std::mem::take(&mut l.dims).into_iter().flat_map(split).collect();
            }
            _ => {}
        }
        out.push(statement);
    });
    let with = |index: IndexId| digits.get(&index).map_or(Affine::index(index), number);
    for statement in &mut kernel.body {
        for_each_affine_mut(statement, &mut |affine| *affine = affine.substitute(&mut |index| with(index)));
    }
    simplify(&mut kernel);
    kernel
}
