//! Expands contractions that the target does not keep whole into loops, and unrolls small loops of
//! constant extent (a 3 x 3 stencil, the coordinates of a point), so that the loop around them can
//! be vectorized.

use std::collections::BTreeMap;

use ir::build::Values;
use ir::choice::Choice;
use ir::nest::{
    Block, Contraction, Extent, IndexId, Loop, LoopKind, Op, Program, Reduction, Single, Statement, Subscript, ValueId,
};
use ir::order::{BLOCK, Distribution, LANES, Scope, Step};
use ir::sched::{Contractions, Scheduled};
use ir::{Affine, BinaryOp, Monoid, Order, Size};

use crate::forward::is_scratch;

/// The maximum number of iterations that are unrolled, and of the resulting statements.
const UNROLL_ITERATIONS: i64 = 32;
const UNROLL_STATEMENTS: i64 = 256;
/// The maximum number of unrolled iterations of a loop that keeps its results in scratch: fewer
/// than the elements of a vector.
const UNROLL_KEPT: i64 = 4;

/// Expands contractions and unrolls loops.
pub fn prepare(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { machine, program, parts, .. } = scheduled;
    for kernel in parts.iter_mut().map(|part| &mut part.kernel) {
        for statement in std::mem::take(&mut kernel.body) {
            let may_keep = machine.contractions.nested || matches!(statement, Statement::Contract(_));
            let kept = may_keep.then_some(machine.contractions);
            let mut preparation = Preparation { program, values: &mut kernel.values, kept, choice, depth: 0 };
            let prepared = preparation.block(vec![statement]);
            kernel.body.extend(prepared);
        }
    }
}

/// The state of preparing a kernel.
struct Preparation<'p> {
    program: &'p Program,
    values: &'p mut Values,
    /// The contractions that stay whole.
    kept: Option<Contractions>,
    choice: &'p mut Choice,
    /// Loops around.
    depth: usize,
}

impl Preparation<'_> {
    fn block(&mut self, body: Block) -> Block {
        let mut out = vec![];
        for statement in body {
            match statement {
                Statement::If { condition, then, otherwise, results } => {
                    let (then, otherwise) = (self.block(then), self.block(otherwise));
                    out.push(Statement::If { condition, then, otherwise, results });
                }
                Statement::Loop(mut l) => {
                    self.depth += 1;
                    l.body = self.block(l.body);
                    self.depth -= 1;
                    match self.unroll(&l) {
                        Some(straight) => out.extend(straight),
                        None => out.push(Statement::Loop(l)),
                    }
                }
                Statement::While(mut w) => {
                    self.depth += 1;
                    if let Some(condition) = &mut w.condition {
                        condition.body = self.block(std::mem::take(&mut condition.body));
                    }
                    w.body = self.block(w.body);
                    self.depth -= 1;
                    out.push(Statement::While(w));
                }
                Statement::Contract(mut c) => {
                    if !self.kept.is_some_and(|kept| kept.keep(self.values, &c)) {
                        let expanded = expand(self.values, c);
                        out.extend(self.block(expanded));
                        continue;
                    }
                    c.left.body = self.block(c.left.body);
                    c.right.body = self.block(c.right.body);
                    c.epilogue = self.block(c.epilogue);
                    out.push(Statement::Contract(c));
                }
                other @ (Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. }) => {
                    out.push(other);
                }
            }
        }
        out
    }

    /// The loop unrolled, if it is small and constant: a reduction in its canonical order, or one
    /// inside another loop that keeps its results in scratch.
    fn unroll(&mut self, l: &Loop) -> Option<Block> {
        match &l.kind {
            LoopKind::Reduce(reductions) => unroll(self.values, l, reductions, self.choice),
            LoopKind::Parallel if self.depth > 0 => {
                let in_scratch = |s: &Statement| match s {
                    Statement::Let { .. } => true,
                    Statement::Store { buffer, .. } => is_scratch(self.program, *buffer),
                    Statement::Scatter { .. }
                    | Statement::If { .. }
                    | Statement::Loop(_)
                    | Statement::While(_)
                    | Statement::Contract(_) => false,
                };
                let extents = few(l, UNROLL_KEPT)?;
                if !l.body.iter().all(in_scratch) || !self.choice.grants(true) {
                    return None;
                }
                let mut out = vec![];
                for at in iterations(&extents) {
                    copy(self.values, &l.body, &at, &mut out);
                }
                Some(out)
            }
            LoopKind::Parallel | LoopKind::Serial | LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => None,
        }
    }
}

/// A contraction as ordinary loops.
pub(crate) fn expand(values: &mut Values, c: Contraction) -> Block {
    let dtype = values[c.result];
    let product = values.push(dtype);
    let mut body = c.left.body;
    body.extend(c.right.body);
    body.push(Statement::Let { value: product, op: Op::Binary(BinaryOp::Mul, c.left.value, c.right.value) });
    let order = if Monoid::Sum.depends_on_order(dtype) { c.order } else { Order::Free };
    let sum = Reduction::monoid(c.result, Monoid::Sum, order, product);
    let reduce = Loop { dims: c.reduce, kind: LoopKind::Reduce(vec![sum]), body };
    let mut point = vec![Statement::Loop(reduce)];
    point.extend(c.epilogue);
    if c.free.is_empty() {
        return point;
    }
    vec![Statement::Loop(Loop { dims: c.free, kind: LoopKind::Parallel, body: point })]
}

/// The extents of a loop, if they are constant and it may be unrolled into at most this many
/// iterations.
fn few(l: &Loop, most: i64) -> Option<Vec<(IndexId, i64)>> {
    let mut extents = vec![];
    let mut count = 1i64;
    for (index, extent) in &l.dims {
        let Extent::Affine(extent) = extent else { return None };
        let extent = extent.as_size()?.as_constant()?.max(0);
        count = count.checked_mul(extent)?;
        extents.push((*index, extent));
    }
    let size = i64::try_from(l.body.len()).ok()?;
    (count <= most && count * size <= UNROLL_STATEMENTS).then_some(extents)
}

/// The values of the indices in each iteration, in order.
fn iterations(extents: &[(IndexId, i64)]) -> impl Iterator<Item = BTreeMap<IndexId, Size>> {
    (0..extents.iter().map(|(_, extent)| extent).product()).map(|number| {
        let mut at = BTreeMap::new();
        let mut rest: i64 = number;
        for (index, extent) in extents.iter().rev() {
            at.insert(*index, Size::constant(rest % extent));
            rest /= extent;
        }
        at
    })
}

/// The reduction unrolled in its canonical order, if it is small and constant.
fn unroll(values: &mut Values, l: &Loop, reductions: &[Reduction], choice: &mut Choice) -> Option<Block> {
    let extents = few(l, UNROLL_ITERATIONS)?;
    let straight = l.body.iter().all(|s| matches!(s, Statement::Let { .. }));
    let singles: Vec<Single> = reductions.iter().map(Reduction::single).collect::<Option<_>>()?;
    if !straight || singles.iter().any(|r| r.order == Order::Scan) || !choice.grants(true) {
        return None;
    }
    let mut out = vec![];
    let mut elements: Vec<Vec<ValueId>> = vec![vec![]; reductions.len()];
    for at in iterations(&extents) {
        let names = copy(values, &l.body, &at, &mut out);
        for (elements, r) in elements.iter_mut().zip(&singles) {
            elements.push(names.get(&r.input).copied().unwrap_or(r.input));
        }
    }
    for (elements, r) in elements.into_iter().zip(&singles) {
        join(values, r, elements, &mut out);
    }
    Some(out)
}

/// One iteration of a straight-line body with its indices fixed. Returns the new names of its
/// values.
pub(crate) fn copy(
    values: &mut Values,
    body: &Block,
    at: &BTreeMap<IndexId, Size>,
    out: &mut Block,
) -> BTreeMap<ValueId, ValueId> {
    let fix = |affine: &mut Affine<IndexId>| {
        *affine =
            affine.substitute(&mut |i| at.get(&i).map_or_else(|| Affine::index(i), |size| Affine::size(size.clone())));
    };
    let mut names = BTreeMap::new();
    let new = |names: &BTreeMap<ValueId, ValueId>, v: ValueId| names.get(&v).copied().unwrap_or(v);
    for statement in body {
        match statement {
            Statement::Let { value, op } => {
                let mut op = op.clone();
                op.for_each_operand_mut(|v| *v = new(&names, *v));
                op.for_each_affine_mut(&mut |affine| fix(affine));
                let copied = values.push(values[*value]);
                names.insert(*value, copied);
                out.push(Statement::Let { value: copied, op });
            }
            Statement::Store { buffer, at, value } => {
                let mut at = at.clone();
                for subscript in &mut at {
                    match subscript {
                        Subscript::Affine(affine) => fix(affine),
                        Subscript::Value(v) => *v = new(&names, *v),
                    }
                }
                out.push(Statement::Store { buffer: *buffer, at, value: new(&names, *value) });
            }
            // Bodies with others are not unrolled.
            Statement::Scatter { .. }
            | Statement::If { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => {}
        }
    }
    names
}

/// Combines the elements of a reduction in its order. There are fewer than a block, or than the
/// lanes of a chunk.
pub(crate) fn join(values: &mut Values, r: &Single, elements: Vec<ValueId>, out: &mut Block) {
    // At most one element for each lane, and less than a block.
    const { assert!(UNROLL_ITERATIONS as usize <= LANES && LANES <= BLOCK) };
    let dtype = values[r.input];
    let define = |values: &mut Values, out: &mut Block, op: Op| {
        let value = values.push(dtype);
        out.push(Statement::Let { value, op });
        value
    };
    let empty = define(values, out, Op::Constant(r.monoid.identity(dtype)));
    let join = |a, b| Op::Binary(r.monoid.primitive(), a, b);
    let lanes = r.order == Order::Lanes;
    let mut sums =
        if lanes { elements.into_iter().map(|x| define(values, out, join(empty, x))).collect() } else { elements };
    if lanes {
        let steps = Order::Lanes.tree().steps(&Distribution::new([Scope::Register.of(LANES)]));
        let count = sums.len();
        // Lanes without elements are left out.
        for (lane, other) in steps.into_iter().flat_map(Step::pairs).filter(|(_, other)| *other < count) {
            sums[lane] = define(values, out, join(sums[lane], sums[other]));
        }
        sums.truncate(1);
    }
    let mut sum = empty;
    for x in sums {
        // In the order by lanes there is one left, and combining it with the identity changes
        // nothing.
        sum = define(values, out, join(sum, x));
    }
    out.push(Statement::Let { value: r.result, op: Op::Cast(dtype, sum) });
}
