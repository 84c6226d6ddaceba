//! Runs inner loops across the rows of the loop around them, where vectors along the inner loop
//! would gather each element from another row of its arrays, as for the distances of points: their
//! coordinates lie side by side. So what the inner loop loads for the outer index alone is loaded
//! before it, and a reduction over the coordinates becomes straight code, with the elements that
//! are beyond its end left out.
//!
//! ```text
//! parallel i < n {                      parallel i < n * (4 <= n and 1 <= k and 1 <= d <= 4) {
//!   reduce j < k {                        a = load x[i, 0], b = load x[i, 1], ...
//!     reduce p < d {                      reduce j < k {
//!       x[i, p] * c[j, p]                   a * c[j, 0] + (if 1 < d then b * c[j, 1]) + ...
//!     } with sum                          } with min
//!   } with min                          }
//! }                                     the same for 4 < d <= 16
//!                                       parallel i < n * (else) { ... }
//! ```
//!
//! Which of the loops runs depends on sizes alone: the extents of the others are 0. (Index set
//! splitting and unswitching, on sizes; the bits stay those of the canonical order.)

use std::collections::BTreeSet;

use ir::choice::Choice;
use ir::linear::Linear;
use ir::nest::{
    Block, Extent, IndexId, Kernel, Loop, LoopKind, Op, Program, Single, Statement, Subscript, ValueId, is_length,
};
use ir::rewrite::Copier;
use ir::sabotage::{self, Bug};
use ir::sched::{Columns, Scheduled};
use ir::{Affine, CompareOp, Order, Size, visit};

use crate::maker::{Maker, below};
use crate::prepare::{copy, join};

/// The most elements of a reduction that becomes straight code, in each of the loops.
const WIDTHS: [i64; 2] = [4, 16];
/// The least number of rows that vectors run across.
const ROWS: i64 = 4;
/// The most statements of an inner loop of straight code.
const MOST: usize = 256;

/// Runs inner loops across rows, on targets where a loop down columns runs in vectors along these.
pub fn across(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { machine, program, parts, .. } = scheduled;
    for part in parts.iter_mut().filter(|_| machine.columns == Columns::Tiles) {
        let kernel = &mut part.kernel;
        let mut body = vec![];
        for statement in std::mem::take(&mut kernel.body) {
            if let Statement::Loop(l) = &statement {
                body.extend(variants(program, kernel, l, choice).into_iter().map(Statement::Loop));
            } else {
                body.push(statement);
            }
        }
        kernel.body = body;
    }
}

/// A parallel loop around one reducing loop.
struct Rows<'l> {
    /// The number of iterations of its last index.
    length: Size,
    /// Where in its body the inner loop stands.
    at: usize,
    inner: &'l Loop,
    /// The length of the reductions in the inner loop, unless these are straight code already.
    reduced: Option<Size>,
}

impl<'l> Rows<'l> {
    /// The parallel loop as one, if its inner loop only computes and if vectors across its rows
    /// promise something.
    fn new(program: &Program, l: &'l Loop) -> Option<Rows<'l>> {
        let length = l.dims.last()?.1.as_size()?.clone();
        let loops: Vec<usize> = (0..l.body.len()).filter(|at| l.body[*at].repeats()).collect();
        let [at] = loops[..] else { return None };
        let Statement::Loop(inner) = &l.body[at] else { return None };
        let sized = |dims: &[(IndexId, Extent)]| {
            dims.iter().all(|(_, extent)| extent.as_size().is_some_and(|size| is_length(&program.symbols, size)))
        };
        let LoopKind::Reduce(reductions) = &inner.kind else { return None };
        let by_rows = reductions.iter().all(|r| matches!(r.order, Order::Free | Order::Blocks));
        if l.kind != LoopKind::Parallel || !by_rows || !sized(&inner.dims) || !is_length(&program.symbols, &length) {
            return None;
        }
        let mut reduced = None;
        for statement in &inner.body {
            if let Statement::Loop(short) = statement {
                let size = length_of_short(short).filter(|_| sized(&short.dims))?;
                if reduced.get_or_insert_with(|| size.clone()) != size {
                    return None;
                }
            } else if !computes(statement) {
                return None;
            }
        }
        let rows = Rows { length, at, inner, reduced };
        let loads = rows.loads(program, l, &rows.inner.body)?;
        (loads.crossing > 0 && loads.apart > 0 && loads.adjacent == 0).then_some(rows)
    }

    /// The loads of a block in the inner loop; `None` if a subscript is a value.
    fn loads(&self, program: &Program, l: &Loop, block: &Block) -> Option<Loads> {
        let (column, row) = (l.dims.last()?.0, self.inner.dims.last()?.0);
        let (mut loads, mut known) = (Loads::default(), true);
        visit::for_each_statement(block, &mut |s| {
            let Some(load) = s.effects().load else { return };
            let linear = Linear::of(program, load.buffer, load.view, load.at);
            known &= linear.as_affine().is_some();
            let step = |index| linear.affine.coefficient(index).as_constant();
            loads.crossing += usize::from(!matches!(step(column), Some(0 | 1)));
            loads.adjacent += usize::from(step(row) == Some(1));
            loads.apart += usize::from(!matches!(step(row), Some(0 | 1)) && step(column) == Some(0));
        });
        known.then_some(loads)
    }
}

/// The loads of an inner loop, by where neighbouring iterations of both loops find their elements.
#[derive(Clone, Copy, Default)]
struct Loads {
    /// Neighbours of the outer loop are neither at the same element nor at adjacent ones.
    crossing: usize,
    /// Neighbours of the inner loop are at adjacent elements.
    adjacent: usize,
    /// Neighbours of the inner loop are far apart, those of the outer loop at the same element.
    apart: usize,
}

/// Whether a statement only computes a value.
fn computes(statement: &Statement) -> bool {
    matches!(statement, Statement::Let { .. }) && !statement.may_fault()
}

/// The length of a reduction that may become straight code.
fn length_of_short(l: &Loop) -> Option<&Size> {
    let LoopKind::Reduce(reductions) = &l.kind else { return None };
    let [(_, extent)] = l.dims.as_slice() else { return None };
    let simple = reductions.iter().all(|r| r.single().is_some_and(|r| r.order != Order::Scan));
    let straight = l.body.iter().all(computes);
    extent.as_size().filter(|_| simple && straight)
}

/// The loops in place of one: those across rows, if there are any, and the loop itself.
fn variants(program: &mut Program, kernel: &mut Kernel, l: &Loop, choice: &mut Choice) -> Vec<Loop> {
    let Some(rows) = Rows::new(program, l) else { return vec![l.clone()] };
    // Nothing is loaded before the inner loop that this would not load.
    let some = |size: &Size| &Size::constant(1) - &below(size, 1);
    let once = rows.inner.dims.iter().filter_map(|(_, extent)| extent.as_size()).map(some);
    let enough = once.fold(&Size::constant(1) - &below(&rows.length, ROWS), |all, one| &all * &one);
    let mut ranges = vec![];
    match &rows.reduced {
        None => ranges.push((0, enough)),
        Some(length) => {
            let mut from = 1;
            for width in WIDTHS {
                let within = &below(length, width + 1) - &below(length, from);
                ranges.push((width, &enough * &within));
                from = width + 1;
            }
        }
    }
    let mut loops = vec![];
    let mut rest = Size::constant(1);
    for (width, condition) in ranges {
        let before = kernel.clone();
        match straight(program, kernel, l, &rows, width).filter(|_| choice.grants(true)) {
            Some(mut variant) => {
                limit(&mut variant, &condition);
                rest = &rest - &condition;
                loops.push(variant);
            }
            None => *kernel = before,
        }
    }
    let mut original = l.clone();
    limit(&mut original, &rest);
    loops.push(original);
    loops
}

/// Makes a loop run only where a size is 1, and not where it is 0.
fn limit(l: &mut Loop, condition: &Size) {
    if let Some((_, extent)) = l.dims.last_mut()
        && let Some(length) = extent.as_size()
    {
        *extent = Extent::size(length * condition);
    }
}

/// The loop across rows, with reductions of at most `width` elements as straight code.
fn straight(program: &mut Program, kernel: &mut Kernel, l: &Loop, rows: &Rows<'_>, width: i64) -> Option<Loop> {
    let from = kernel.clone();
    let mut maker = Maker { program, kernel };
    let mut dims = vec![];
    for (old, extent) in &l.dims {
        dims.push((maker.index(&from.indices[*old].name), extent.clone()));
    }
    let mut copier = Copier::new(maker.program, &from, maker.kernel);
    for ((old, _), (new, _)) in l.dims.iter().zip(&dims) {
        copier.map_index(*old, Subscript::index(*new));
    }
    let mut body = vec![];
    copier.copy(&l.body, &mut body);
    let mut l = Loop { dims, kind: LoopKind::Parallel, body };
    let Statement::Loop(inner) = &l.body[rows.at] else { return None };
    let mut code = vec![];
    for statement in &inner.body {
        if let Statement::Loop(short) = statement {
            unrolled(&mut maker, short, width, &mut code)?;
        } else {
            code.push(statement.clone());
        }
    }
    let indices: BTreeSet<IndexId> = inner.dims.iter().map(|(index, _)| *index).collect();
    let (before, code) = apart(code, &indices);
    let mut inner = inner.clone();
    inner.body = code;
    let found = Rows { inner: &inner, length: rows.length.clone(), at: rows.at, reduced: None };
    let loads = found.loads(maker.program, &l, &inner.body)?;
    if loads.crossing > 0 || loads.apart == 0 || inner.body.len() > MOST {
        return None;
    }
    l.body.splice(rows.at..=rows.at, before.into_iter().chain([Statement::Loop(inner)]));
    Some(l)
}

/// Appends a reduction of at least 1 and at most `width` elements as straight code. An element
/// beyond the last is the first one, whose result is left out.
fn unrolled(maker: &mut Maker<'_>, short: &Loop, width: i64, code: &mut Block) -> Option<()> {
    let LoopKind::Reduce(reductions) = &short.kind else { return None };
    let (index, length) = (short.dims[0].0, length_of_short(short)?);
    let singles: Vec<Single> = reductions.iter().filter_map(|r| r.single()).collect();
    let mut elements: Vec<Vec<ValueId>> = vec![vec![]; singles.len()];
    for number in 0..width {
        // 1 as long as the number is below the length.
        let some = (length + &Size::constant(width - 1 - number)).floor_div(&Size::constant(width));
        let at = [(index, &some * &Size::constant(number))].into();
        let names = copy(&mut maker.kernel.values, &short.body, &at, code);
        let first = maker.define(code, Op::Affine(Affine::constant(number)));
        let length = maker.define(code, Op::Affine(Affine::size(length.clone())));
        let inside = maker.define(code, Op::Compare(CompareOp::Lt, first, length));
        for (elements, r) in elements.iter_mut().zip(&singles) {
            let value = names.get(&r.input).copied().unwrap_or(r.input);
            let none = r.monoid.identity(maker.kernel.values[value]);
            let none = maker.define(code, Op::Constant(none));
            elements.push(if number == 0 || sabotage::on(Bug::BeyondRow) {
                value
            } else {
                maker.define(code, Op::Select(inside, value, none))
            });
        }
    }
    for (elements, r) in elements.into_iter().zip(&singles) {
        join(&mut maker.kernel.values, r, elements, code);
    }
    Some(())
}

/// Straight code as what does not depend on some indices, and the rest.
fn apart(code: Block, indices: &BTreeSet<IndexId>) -> (Block, Block) {
    let mut inside: BTreeSet<ValueId> = BTreeSet::new();
    code.into_iter().partition(|statement| {
        let Statement::Let { value, op } = statement else { return false };
        let mut fixed = true;
        op.for_each_operand(|operand| fixed &= !inside.contains(&operand));
        op.for_each_affine(&mut |a| fixed &= indices.iter().all(|index| a.coefficient(*index).is_zero()));
        if !fixed {
            inside.insert(*value);
        }
        fixed
    })
}
