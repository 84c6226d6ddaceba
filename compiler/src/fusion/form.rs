//! The form of a kernel as seen from outside: the buffer that it computes element by element, and
//! its loads from another one.

use std::collections::BTreeMap;

use ir::nest::{Block, BufferId, Extent, IndexId, Kernel, Loop, LoopKind, Op, Program, Statement, Subscript, ValueId};
use ir::{Affine, Size, visit};

/// A kernel that computes every element of one buffer independently, so that its body can replace
/// any load of an element.
pub(super) struct Elementwise<'k> {
    /// The statements that are executed once.
    pub scalars: &'k [Statement],
    /// The index for each axis of the buffer; `None` for an axis of length 1.
    pub axes: Vec<Option<IndexId>>,
    /// The statements that are executed for each element.
    pub body: &'k [Statement],
    /// The buffer.
    pub buffer: BufferId,
    /// The element's value, defined by the body.
    pub value: ValueId,
    /// Whether the body has a `while`, or reduces over extents that are not small constants.
    pub reduces: bool,
}

/// Reductions over at most this number of elements count as straight-line code: a stencil.
const SMALL_REDUCTION: i64 = 64;

impl<'k> Elementwise<'k> {
    /// The kernel in this form, if it has it: one parallel loop, or none, that ends in its only
    /// store, at its own indices.
    pub fn of(program: &Program, kernel: &'k Kernel) -> Option<Elementwise<'k>> {
        let (last, before) = kernel.body.split_last()?;
        let (scalars, dims, all): (&[Statement], &[_], &[Statement]) =
            if let Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body }) = last {
                (before, dims, body)
            } else {
                (&[], &[], &kernel.body)
            };
        let (Statement::Store { buffer, at, value }, body) = all.split_last()? else { return None };
        let axis = |(s, length): (&Subscript, &Size)| match s.as_index() {
            Some(index) => Some(Some(index)),
            None => (*length == Size::constant(1)).then_some(None),
        };
        let axes = at.iter().zip(shape(program, *buffer)).map(axis).collect::<Option<Vec<_>>>()?;
        let each_once =
            axes.iter().flatten().count() == dims.len() && dims.iter().all(|(i, _)| axes.contains(&Some(*i)));
        let sized = dims.iter().all(|(_, extent)| extent.as_size().is_some());
        let plain = scalars.iter().all(|s| matches!(s, Statement::Let { .. }));
        let mut reduces = false;
        if !(each_once && sized && plain && computes_only(body, &mut reduces)) {
            return None;
        }
        Some(Elementwise { scalars, axes, body, buffer: *buffer, value: *value, reduces })
    }

    /// Whether it has a check that may fail.
    pub fn may_fault(&self) -> bool {
        self.scalars.iter().chain(self.body).any(Statement::may_fault)
    }
}

/// Whether a block only computes: it stores nothing and its only loops are reductions and `while`s.
fn computes_only(block: &[Statement], reduces: &mut bool) -> bool {
    block.iter().all(|statement| match statement {
        Statement::Let { .. } => true,
        Statement::If { then, otherwise, .. } => computes_only(then, reduces) && computes_only(otherwise, reduces),
        Statement::Loop(Loop { dims, kind: LoopKind::Reduce(_), body }) => {
            let mut count = Some(1i64);
            for (_, extent) in dims {
                let extent = extent.as_size().and_then(Size::as_constant);
                count = count.zip(extent).and_then(|(a, b)| a.checked_mul(b.max(0)));
            }
            *reduces |= count.is_none_or(|count| count > SMALL_REDUCTION);
            computes_only(body, reduces)
        }
        Statement::While(_) => {
            *reduces = true;
            statement.blocks().all(|block| computes_only(block, reduces))
        }
        Statement::Store { .. } | Statement::Scatter { .. } | Statement::Loop(_) | Statement::Contract(_) => false,
    })
}

/// The construct around a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LoadContext {
    /// Parallel loops, small reductions at most.
    Loop,
    /// The body of a reduction, scan or `while`.
    Reduction,
    /// A factor of a contraction.
    Factor,
}

/// A load of a buffer in a kernel.
pub(super) struct Load<'k> {
    /// The subscripts.
    pub at: &'k [Subscript],
    /// The construct around it.
    pub context: LoadContext,
    /// The loops around it, from the outermost in.
    pub around: Vec<(IndexId, &'k Extent)>,
}

impl Load<'_> {
    /// The approximate number of loads of each element that is reached: the product of the extents
    /// of the enclosing loops, except those that move the load along an axis of its own. If several
    /// of these move it along one axis and coincide, they count as often as they reach each place.
    /// A place given by data may be any: if an element is `costly`, a loop counts with as many
    /// iterations as there are for each element along the axis, which has its length in `shape`.
    pub fn reuse(&self, shape: &[Size], costly: bool) -> Size {
        let (mut moving, mut times) = (vec![], Size::constant(1));
        for (subscript, length) in self.at.iter().zip(shape) {
            let candidates = self.around.iter().filter(|(index, _)| !moving.contains(index));
            match subscript {
                Subscript::Affine(a) => {
                    let own = candidates.filter(|(index, _)| !a.coefficient(*index).is_zero());
                    let own: Vec<Run> = own.map(|(index, extent)| Run::new(a, *index, extent)).collect();
                    if are_apart(&own) {
                        moving.extend(own.iter().map(|run| run.index));
                    } else if let Some(often) = meetings(&own) {
                        moving.extend(own.iter().map(|run| run.index));
                        times = &times * &Size::constant(often);
                    } else {
                        // The one with the largest extent moves it; the others run over a window.
                        moving
                            .extend(own.iter().max_by_key(|run| run.length().unwrap_or(i64::MAX)).map(|run| run.index));
                    }
                }
                Subscript::Value(_) => {
                    let Some((index, extent)) = candidates.copied().next() else { continue };
                    moving.push(index);
                    if let Some(extent) = extent.as_size().filter(|extent| costly && *extent != length) {
                        times = &times * &extent.floor_div(length);
                    }
                }
            }
        }
        let others = self.around.iter().filter(|(index, _)| !moving.contains(index));
        others.fold(times, |product, (_, extent)| match extent.as_size() {
            Some(size) => &product * size,
            None => product,
        })
    }
}

/// How an index moves along an axis.
struct Run<'k> {
    index: IndexId,
    /// How far at a time, whatever the direction.
    step: Size,
    /// The number of times, if it is always the same.
    extent: Option<&'k Size>,
}

impl<'k> Run<'k> {
    fn new(subscript: &Affine<IndexId>, index: IndexId, extent: &'k Extent) -> Run<'k> {
        let step = subscript.coefficient(index);
        let back = step.terms().iter().all(|(_, c)| *c < 0);
        let step = if back { &Size::default() - &step } else { step };
        Run { index, step, extent: extent.as_size() }
    }

    fn length(&self) -> Option<i64> {
        self.extent?.as_constant()
    }
}

/// Whether indices that move along one axis together reach different places each time, like the
/// digits of a number: the step of each is at least the range of those below it.
fn are_apart(runs: &[Run<'_>]) -> bool {
    let mut left: Vec<&Run<'_>> = runs.iter().collect();
    left.sort_by_key(|run| run.step.as_constant().unwrap_or(i64::MAX));
    let mut reach = Size::constant(1);
    loop {
        let clears = |run: &&Run<'_>| match (run.step.as_constant(), reach.as_constant()) {
            (Some(step), Some(reach)) => step >= reach,
            _ => run.step == reach,
        };
        let Some(next) = left.iter().position(clears) else { return left.is_empty() };
        let run = left.remove(next);
        match run.extent {
            Some(extent) if !left.is_empty() => reach = &reach + &(&run.step * &(extent - &Size::constant(1))),
            _ => return left.is_empty(),
        }
    }
}

/// How often indices that move along one axis together reach each place, rounded up, if everything
/// is known.
fn meetings(runs: &[Run<'_>]) -> Option<i64> {
    let (mut points, mut span, mut unit) = (1i64, 0i64, 0i64);
    for run in runs {
        let (step, length) = (run.step.as_constant()?, run.length()?.max(1));
        points = points.checked_mul(length)?;
        span = span.checked_add(step.checked_mul(length - 1)?)?;
        unit = gcd(unit, step);
    }
    let places = span / unit.max(1) + 1;
    Some(points.div_euclid(places) + i64::from(points % places != 0))
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The loads of a buffer in a kernel, in text order.
pub(super) fn loads_of(kernel: &Kernel, buffer: BufferId) -> Vec<Load<'_>> {
    let mut walk = Walk { buffer, around: vec![], found: vec![] };
    walk.block(&kernel.body, LoadContext::Loop);
    walk.found
}

struct Walk<'k> {
    buffer: BufferId,
    around: Vec<(IndexId, &'k Extent)>,
    found: Vec<Load<'k>>,
}

impl<'k> Walk<'k> {
    fn block(&mut self, block: &'k Block, context: LoadContext) {
        for statement in block {
            match statement {
                Statement::Let { op, .. } => {
                    if let Some(load) = op.effects().load.filter(|load| load.buffer == self.buffer) {
                        self.found.push(Load { at: load.at, context, around: self.around.clone() });
                    }
                }
                Statement::Store { .. } | Statement::Scatter { .. } => {}
                Statement::If { then, otherwise, .. } => {
                    self.block(then, context);
                    self.block(otherwise, context);
                }
                Statement::Loop(l) => {
                    let mut reduces = false;
                    let context = match l.kind {
                        LoopKind::Parallel | LoopKind::Serial => context,
                        LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => LoadContext::Reduction,
                        LoopKind::Reduce(_) => {
                            // A small reduction becomes straight-line code, so its loads are like
                            // any other.
                            computes_only(std::slice::from_ref(statement), &mut reduces);
                            if reduces { LoadContext::Reduction } else { context }
                        }
                    };
                    self.inside(&l.dims, |walk| walk.block(&l.body, context));
                }
                Statement::While(w) => self.inside(std::slice::from_ref(&w.counter), |walk| {
                    statement.blocks().for_each(|block| walk.block(block, LoadContext::Reduction));
                }),
                Statement::Contract(c) => self.inside(&c.free, |walk| {
                    walk.inside(&c.reduce, |walk| {
                        walk.block(&c.left.body, LoadContext::Factor);
                        walk.block(&c.right.body, LoadContext::Factor);
                    });
                    walk.block(&c.epilogue, context);
                }),
            }
        }
    }

    fn inside(&mut self, dims: &'k [(IndexId, Extent)], walk: impl FnOnce(&mut Self)) {
        let depth = self.around.len();
        self.around.extend(dims.iter().map(|(index, extent)| (*index, extent)));
        walk(self);
        self.around.truncate(depth);
    }
}

/// The subscripts under one shape of the element that other subscripts reach under another shape
/// with as many elements. New values are appended to `out`; `integer` creates them.
pub(super) fn position(
    (at, seen): (&[Subscript], &[Size]),
    shape: &[Size],
    integer: &mut impl FnMut(Op) -> ValueId,
) -> Vec<Subscript> {
    if seen == shape {
        return at.to_vec();
    }
    let mut found = BTreeMap::new();
    // From the last axis on, the shortest groups of axes with as many elements on both sides.
    let (mut old, mut new) = (seen.len(), shape.len());
    while new > 0 {
        let (old_end, new_end) = (old, new);
        let (mut old_count, mut new_count) = (Size::constant(1), Size::constant(1));
        loop {
            if new > 0 && (new == new_end || shorter(&new_count, &old_count) || old == 0) {
                new -= 1;
                new_count = &new_count * &shape[new];
            } else if old > 0 {
                old -= 1;
                old_count = &old_count * &seen[old];
            } else {
                break;
            }
            if old_count == new_count && old < old_end {
                break;
            }
        }
        let number = number((&at[old..old_end], &seen[old..old_end]), integer);
        for (axis, subscript) in split(number, &shape[new..new_end], integer).into_iter().enumerate() {
            found.insert(new + axis, subscript);
        }
    }
    found.into_values().collect()
}

/// Whether a product has fewer factors and should grow first to equal the other: a guess that only
/// orders the search.
fn shorter(a: &Size, b: &Size) -> bool {
    let degree = |s: &Size| s.terms().iter().map(|(product, _)| product.len()).max().unwrap_or(0);
    let constant = |s: &Size| s.as_constant().unwrap_or(0);
    (degree(a), constant(a)) < (degree(b), constant(b))
}

/// The row-major number of a position.
fn number((at, shape): (&[Subscript], &[Size]), integer: &mut impl FnMut(Op) -> ValueId) -> Subscript {
    let mut number = Subscript::Affine(Affine::constant(0));
    for (subscript, length) in at.iter().zip(shape) {
        number = match (&number, subscript) {
            (Subscript::Affine(n), Subscript::Affine(s)) => Subscript::Affine(n.scale(length).add(s)),
            (Subscript::Affine(n), Subscript::Value(_)) if *n == Affine::constant(0) => subscript.clone(),
            (number, subscript) => {
                let (number, subscript) = (value(number, integer), value(subscript, integer));
                let length = integer(Op::Affine(Affine::size(length.clone())));
                let row = integer(Op::Binary(ir::BinaryOp::Mul, number, length));
                Subscript::Value(integer(Op::Binary(ir::BinaryOp::Add, row, subscript)))
            }
        };
    }
    number
}

/// The position of a row-major number.
fn split(number: Subscript, shape: &[Size], integer: &mut impl FnMut(Op) -> ValueId) -> Vec<Subscript> {
    if shape.len() <= 1 {
        return shape.iter().map(|_| number.clone()).collect();
    }
    let mut rest = value(&number, integer);
    let mut at = vec![];
    for length in shape[1..].iter().rev() {
        let length = integer(Op::Affine(Affine::size(length.clone())));
        at.push(Subscript::Value(integer(Op::Binary(ir::BinaryOp::Rem, rest, length))));
        rest = integer(Op::Binary(ir::BinaryOp::Div, rest, length));
    }
    at.push(Subscript::Value(rest));
    at.reverse();
    at
}

fn value(subscript: &Subscript, integer: &mut impl FnMut(Op) -> ValueId) -> ValueId {
    match subscript {
        Subscript::Affine(affine) => integer(Op::Affine(affine.clone())),
        Subscript::Value(value) => *value,
    }
}

/// The extents of the indices that statements bind, if they are sizes.
pub(super) fn extents(block: &[Statement]) -> BTreeMap<IndexId, Size> {
    let mut extents = BTreeMap::new();
    visit::for_each_statement(block, &mut |statement| {
        extents.extend(statement.dims().filter_map(|(index, extent)| Some((*index, extent.as_size()?.clone()))));
    });
    extents
}

/// The shape of a buffer.
pub(super) fn shape(program: &Program, buffer: BufferId) -> &[Size] {
    &program.buffers[buffer].shape
}
