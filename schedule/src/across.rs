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
//! }                                     the same for 4 < d <= 8, 8 < d <= 16
//!                                       parallel i < n * (else) { ... }
//! ```
//!
//! All pairs of rows, as `distance[i, j]`, are loops over `j` around a block of 64 rows `i`.
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

use crate::forward::is_scratch;
use crate::maker::{Maker, below, in_place, operations};
use crate::prepare::{copy, join};

/// The most elements of a reduction that becomes straight code, in each of the loops.
const WIDTHS: [i64; 3] = [4, 8, 16];
/// The least number of rows that vectors run across.
const ROWS: i64 = 4;
/// Rows of a block.
const BLOCK: i64 = 64;
/// The most statements of an inner loop of straight code, and of the loop around it with functions
/// inlined.
const MOST: usize = 256;
const MOST_INLINED: usize = 4096;

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

/// A parallel loop around one other loop, which only computes, or stores a row.
struct Rows {
    outer: Loop,
    /// Where in its body the inner loop stands.
    at: usize,
    /// 1 if there are rows for it, else 0.
    runs: Size,
}

/// Loops across rows in place of one, before their reductions are straight code.
struct Across {
    all: Vec<Rows>,
    /// 1 if there are enough rows for vectors, else 0.
    enough: Size,
    /// The length of the reductions in the inner loop, unless these are straight code already.
    reduced: Option<Size>,
}

impl Across {
    /// The loop itself, if it reduces something in each of its iterations.
    fn around(program: &Program, l: &Loop) -> Option<Across> {
        let loops: Vec<usize> = (0..l.body.len()).filter(|at| l.body[*at].repeats()).collect();
        let [at] = loops[..] else { return None };
        let Statement::Loop(inner) = &l.body[at] else { return None };
        let LoopKind::Reduce(reductions) = &inner.kind else { return None };
        let by_rows = reductions.iter().all(|r| matches!(r.order, Order::Free | Order::Blocks));
        if l.kind != LoopKind::Parallel || !by_rows || !visit::stores(&inner.body).is_empty() {
            return None;
        }
        let rows = lengths(program, &l.dims[l.dims.len().checked_sub(1)?..])?;
        let reduced = reduced(program, &inner.body)?;
        // Nothing is loaded before the inner loop that this would not load.
        let some = |size: &Size| &Size::constant(1) - &below(size, 1);
        let runs = lengths(program, &inner.dims)?.iter().map(some).fold(Size::constant(1), |all, one| &all * &one);
        let enough = &(&Size::constant(1) - &below(&rows[0], ROWS)) * &runs;
        let rows = Rows { outer: l.clone(), at, runs: Size::constant(1) };
        rows.promise(program).then_some(Across { all: vec![rows], enough, reduced })
    }

    /// A loop over rows and columns as loops over columns, each around a block of rows, and one
    /// around the rows that are left.
    fn of_pairs(program: &mut Program, kernel: &mut Kernel, l: &Loop) -> Option<Across> {
        let [others @ .., row, column] = l.dims.as_slice() else { return None };
        let sizes = lengths(program, &l.dims[others.len()..])?;
        let (height, width) = (&sizes[0], &sizes[1]);
        let reduced = reduced(program, &l.body)?;
        let along = |s: &Statement| {
            let Statement::Store { buffer, at, .. } = s else { return true };
            Linear::of(program, *buffer, None, at).affine.coefficient(column.0).as_constant() == Some(1)
        };
        let loads = Loads::of(program, &l.body, column.0, row.0)?;
        if l.kind != LoopKind::Parallel || !l.body.iter().all(along) || !loads.promise() {
            return None;
        }
        let from = kernel.clone();
        let mut maker = Maker { program, kernel };
        let block = Size::constant(BLOCK);
        let blocks = height.floor_div(&block);
        let left = height - &(&blocks * &block);
        let mut around = |whole: bool| {
            let name = |index: &IndexId| from.indices[*index].name.as_str();
            let mut dims = vec![];
            for (old, extent) in others {
                dims.push((maker.index(name(old)), extent.clone()));
            }
            let inner = maker.index(name(&row.0));
            let mut number = Affine::index(inner);
            if whole {
                let outer = maker.index(&format!("{}.block", name(&row.0)));
                number = number.add(&Affine::index(outer).scale(&block));
                dims.push((outer, Extent::size(blocks.clone())));
            } else {
                number = number.add(&Affine::size(&blocks * &block));
            }
            dims.push((maker.index(name(&column.0)), column.1.clone()));
            let mut copier = Copier::new(maker.program, &from, maker.kernel);
            for ((old, _), (new, _)) in others.iter().zip(&dims).chain(dims.last().map(|new| (column, new))) {
                copier.map_index(*old, Subscript::index(*new));
            }
            copier.map_index(row.0, Subscript::Affine(number));
            let mut body = vec![];
            copier.copy(&l.body, &mut body);
            let extent = Extent::size(if whole { block.clone() } else { left.clone() });
            let inner = Loop { dims: vec![(inner, extent)], kind: LoopKind::Parallel, body };
            let runs = if whole { Size::constant(1) } else { &Size::constant(1) - &below(&left, 1) };
            let outer = Loop { dims, kind: LoopKind::Parallel, body: vec![Statement::Loop(inner)] };
            Rows { outer, at: 0, runs }
        };
        let all = vec![around(true), around(false)];
        Some(Across { all, enough: &Size::constant(1) - &below(width, ROWS), reduced })
    }
}

/// The extents of some dims, if all are lengths.
fn lengths(program: &Program, dims: &[(IndexId, Extent)]) -> Option<Vec<Size>> {
    let length =
        |(_, extent): &(IndexId, Extent)| extent.as_size().filter(|size| is_length(&program.symbols, size)).cloned();
    dims.iter().map(length).collect()
}

/// The length of the reductions in a block, if there are any; `None` if it does anything else than
/// compute, reduce and store.
#[expect(clippy::option_option, reason = "whether there are reductions, and whether it is such a block")]
fn reduced(program: &Program, block: &Block) -> Option<Option<Size>> {
    let mut reduced = None;
    for statement in block {
        if let Statement::Loop(short) = statement {
            let size = length_of_short(short).filter(|_| lengths(program, &short.dims).is_some())?;
            if reduced.get_or_insert_with(|| size.clone()) != size {
                return None;
            }
        } else if !computes(statement) && !matches!(statement, Statement::Store { .. }) {
            return None;
        }
    }
    Some(reduced)
}

impl Rows {
    fn inner(&self) -> Option<&Loop> {
        if let Statement::Loop(inner) = &self.outer.body[self.at] { Some(inner) } else { None }
    }

    /// The loads of the inner loop.
    fn loads(&self, program: &Program) -> Option<Loads> {
        let inner = self.inner()?;
        Loads::of(program, &inner.body, self.outer.dims.last()?.0, inner.dims.last()?.0)
    }

    /// Whether vectors across its rows promise something.
    fn promise(&self, program: &Program) -> bool {
        self.loads(program).is_some_and(Loads::promise)
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

impl Loads {
    /// The loads of a block, for the indices of the outer and the inner loop; `None` if a subscript
    /// is a value.
    fn of(program: &Program, block: &Block, column: IndexId, row: IndexId) -> Option<Loads> {
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

    /// Whether vectors along the inner loop gather elements from far apart, and so do those along
    /// the outer one only for what can be loaded before the inner loop.
    fn promise(self) -> bool {
        self.crossing > 0 && self.apart > 0 && self.adjacent == 0
    }
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
    // Scratch belongs to one loop, and this makes several of it.
    let in_scratch = visit::stores(&l.body).iter().any(|buffer| is_scratch(program, *buffer));
    if in_scratch || in_place(program, &l.body) {
        return vec![l.clone()];
    }
    let whole = kernel.clone();
    let across = Across::around(program, l).or_else(|| Across::of_pairs(program, kernel, l));
    let Some(Across { all, enough, reduced }) = across else { return vec![l.clone()] };
    let mut ranges = vec![];
    match &reduced {
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
        let made: Option<Vec<Loop>> = all.iter().map(|rows| straight(program, kernel, rows, width)).collect();
        if let Some(made) = made.filter(|_| choice.grants(true)) {
            rest = &rest - &condition;
            for (mut variant, rows) in made.into_iter().zip(&all) {
                limit(&mut variant, &(&condition * &rows.runs));
                loops.push(variant);
            }
        }
    }
    if loops.is_empty() {
        *kernel = whole;
        return vec![l.clone()];
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
fn straight(program: &mut Program, kernel: &mut Kernel, rows: &Rows, width: i64) -> Option<Loop> {
    let from = kernel.clone();
    let mut maker = Maker { program, kernel };
    let mut dims = vec![];
    for (old, extent) in &rows.outer.dims {
        dims.push((maker.index(&from.indices[*old].name), extent.clone()));
    }
    let mut copier = Copier::new(maker.program, &from, maker.kernel);
    for ((old, _), (new, _)) in rows.outer.dims.iter().zip(&dims) {
        copier.map_index(*old, Subscript::index(*new));
    }
    let mut body = vec![];
    copier.copy(&rows.outer.body, &mut body);
    let outer = Loop { dims, kind: LoopKind::Parallel, body };
    let mut found = Rows { outer, at: rows.at, runs: rows.runs.clone() };
    let mut inner = found.inner()?.clone();
    let mut code = vec![];
    for statement in std::mem::take(&mut inner.body) {
        if let Statement::Loop(short) = &statement {
            unrolled(&mut maker, short, width, &mut code)?;
        } else {
            code.push(statement);
        }
    }
    let indices: BTreeSet<IndexId> = inner.dims.iter().map(|(index, _)| *index).collect();
    let (before, code) = apart(code, &indices);
    inner.body = code;
    let mut long = inner.body.len() > MOST;
    found.outer.body.splice(rows.at..=rows.at, before.into_iter().chain([Statement::Loop(inner)]));
    long |= operations(maker.program, &found.outer.body) > MOST_INLINED;
    found.at = found.outer.body.iter().position(Statement::repeats)?;
    let loads = found.loads(maker.program)?;
    (loads.crossing == 0 && loads.apart > 0 && !long).then_some(found.outer)
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
