//! Splits loops at borders (index set splitting: Griebl, Feautrier, Lengauer, "Index Set
//! Splitting", 2000). An access like `u[i - 1]` under a condition like `i > 0` is a branch in each
//! iteration. But such a condition holds in all iterations of the interior, so a loop over the
//! interior has none, and can be vectorized.
//!
//! ```text
//! parallel i < n {                   parallel b < min(1, n) { the same for i = b }
//!   if i == 0 { x[i] }               parallel a < n - 1 {
//!   else { x[i - 1] }                  x[a + 1 - 1]
//! }                                  }
//! ```
//!
//! For several indices, the border of the outermost comes first; those of others leave it out.

use std::collections::{BTreeMap, BTreeSet};

use ir::choice::Choice;
use ir::nest::{Block, Extent, IndexId, Kernel, Loop, LoopKind, Op, Program, Statement, Subscript, ValueId};
use ir::rewrite::{Copier, erase_unused, simplify};
use ir::sabotage::{self, Bug};
use ir::sched::Scheduled;
use ir::{Affine, BinaryOp, CompareOp, Scalar, Size, visit};

use crate::forward::is_scratch;
use crate::maker::{Maker, in_place};

/// The greatest distance from either end that counts as a border.
const WIDEST: i64 = 16;
/// The most statements of a loop that is split.
const MOST: usize = 256;

/// Splits the loops of kernels that have branches at their borders, for targets that gain from it.
pub fn borders(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { machine, program, parts, .. } = scheduled;
    for part in parts.iter_mut().filter(|_| machine.splits_borders) {
        let original = part.kernel.clone();
        let body = std::mem::take(&mut part.kernel.body);
        let mut pass = Pass { program, original: &original, kernel: &mut part.kernel, choice };
        part.kernel.body = pass.block(body, true);
    }
}

struct Pass<'a> {
    program: &'a mut Program,
    /// The kernel before the pass.
    original: &'a Kernel,
    kernel: &'a mut Kernel,
    choice: &'a mut Choice,
}

impl Pass<'_> {
    /// Splits the loops of a block: at the top of a kernel all, elsewhere serial ones. (Ranges of
    /// iterations run at the top, and one loop inside is better than several short ones.)
    fn block(&mut self, block: Block, top: bool) -> Block {
        let mut out = vec![];
        for mut statement in block {
            for inner in statement.blocks_mut() {
                *inner = self.block(std::mem::take(inner), false);
            }
            if let Statement::Loop(l) = &statement
                && (top || l.kind == LoopKind::Serial)
                && let Some(loops) = split(self.program, self.original, self.kernel, l, top)
                && self.choice.grants(true)
            {
                out.extend(loops);
            } else {
                out.push(statement);
            }
        }
        out
    }
}

/// How many iterations at either end of an index are the border.
#[derive(Clone, Copy, Default)]
struct Border {
    low: i64,
    high: i64,
}

/// The loops in place of one with branches at its borders, which stands at the top of the original
/// kernel or in a loop of it.
fn split(program: &mut Program, original: &Kernel, kernel: &mut Kernel, l: &Loop, top: bool) -> Option<Block> {
    let mut statements = 0;
    visit::for_each_statement(&l.body, &mut |_| statements += 1);
    let flat = l.body.iter().all(|s| !s.repeats());
    let serial = l.kind == LoopKind::Serial;
    let splits = l.kind == LoopKind::Parallel && flat || serial && l.dims.len() == 1;
    if !splits || statements > MOST || guarded(&l.body) == 0 {
        return None;
    }
    let in_scratch = top && visit::stores(&l.body).iter().any(|buffer| is_scratch(program, *buffer));
    if in_scratch || !serial && in_place(program, &l.body) {
        return None;
    }
    let lengths = l.dims.iter().map(|(_, extent)| extent.as_size().cloned()).collect::<Option<Vec<_>>>()?;
    let (borders, comparisons) = find(original, l, &lengths);
    if borders.iter().all(|border| border.low + border.high == 0) {
        return None;
    }
    let from = kernel.clone();
    let mut splitter = Splitter { maker: Maker { program, kernel }, from: &from, l, lengths: &lengths, before: vec![] };
    let inner = splitter.region(&borders, l.dims.len(), None);
    let interior = splitter.interior(inner, &comparisons);
    if guarded(&interior.body) == guarded(&l.body) {
        *kernel = from;
        return None;
    }
    let mut loops = vec![];
    for (at, border) in borders.iter().enumerate() {
        for end in [End::Low, End::High] {
            if end.of(*border) > 0 {
                loops.push(Statement::Loop(splitter.region(&borders, at, Some(end)).0));
            }
        }
    }
    loops.push(Statement::Loop(interior));
    // (A serial loop has a border at its beginning alone, so this is its order.)
    Some(splitter.before.into_iter().chain(loops).collect())
}

/// The number of branches that guard a load.
fn guarded(block: &Block) -> usize {
    let mut count = 0;
    visit::for_each_statement(block, &mut |s| {
        count +=
            usize::from(matches!(s, Statement::If { .. }) && s.blocks().any(|inner| !visit::loads(inner).is_empty()));
    });
    count
}

/// The border of each index, and the comparisons that it decides, with their values in the interior.
/// Those at the end of a serial loop stay, because a border there would run backwards.
fn find(kernel: &Kernel, l: &Loop, lengths: &[Size]) -> (Vec<Border>, BTreeMap<ValueId, bool>) {
    let mut affine: BTreeMap<ValueId, Affine<IndexId>> = BTreeMap::new();
    let mut borders = vec![Border::default(); l.dims.len()];
    let mut comparisons = BTreeMap::new();
    let wanted = conditions(&l.body);
    let mut look = |value: ValueId, op: &Op| {
        if let Op::Affine(a) = op {
            affine.insert(value, a.clone());
        } else if let Op::Constant(Scalar::I64(n)) = op {
            affine.insert(value, Affine::constant(*n));
        } else if let Op::Compare(op, a, b) = op
            && wanted.contains(&value)
        {
            let Some((a, b)) = affine.get(a).zip(affine.get(b)) else { return };
            let difference = a.sub(b);
            let [(index, factor)] = difference.terms() else { return };
            let Some(at) = l.dims.iter().position(|(i, _)| i == index) else { return };
            // A side that wraps would compare as another number.
            let plain = |side: &Affine<IndexId>| {
                let own = |(i, factor): &(IndexId, Size)| i == index && matches!(factor.as_constant(), Some(-1 | 1));
                side.terms().iter().all(own) && side.constant_part().is_near(&lengths[at])
            };
            if !plain(a) || !plain(b) {
                return;
            }
            // The comparison of the index with a point.
            let (op, point) = match factor.as_constant() {
                Some(1) => (*op, &Size::constant(0) - difference.constant_part()),
                Some(-1) => (op.swapped(), difference.constant_part().clone()),
                _ => return,
            };
            // Whether the point itself is on the side of smaller indices.
            let equal_is_below = matches!(op, CompareOp::Le | CompareOp::Gt);
            let is_equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
            let border = &mut borders[at];
            let low = point.as_constant().map(|n| n + i64::from(equal_is_below || is_equality));
            let high = (&lengths[at] - &point).as_constant().map(|n| n - i64::from(equal_is_below));
            let interior = match (low, high) {
                (Some(low), _) if low <= WIDEST => {
                    border.low = border.low.max(low - i64::from(sabotage::on(Bug::NarrowBorder)));
                    matches!(op, CompareOp::Ne | CompareOp::Gt | CompareOp::Ge)
                }
                (_, Some(high)) if high <= WIDEST && l.kind == LoopKind::Parallel => {
                    border.high = border.high.max(high);
                    matches!(op, CompareOp::Ne | CompareOp::Lt | CompareOp::Le)
                }
                _ => return,
            };
            comparisons.insert(value, interior);
        }
    };
    visit::for_each_op(&kernel.body, &mut look);
    visit::for_each_op(&l.body, &mut look);
    (borders, comparisons)
}

/// The values that conditions are computed from.
fn conditions(body: &Block) -> BTreeSet<ValueId> {
    let mut wanted = BTreeSet::new();
    let mut ops = vec![];
    visit::for_each_statement(body, &mut |s| {
        if let Statement::If { condition, .. } = s {
            wanted.insert(*condition);
        }
    });
    visit::for_each_op(body, &mut |value, op| ops.push((value, op)));
    for (value, op) in ops.into_iter().rev() {
        if wanted.contains(&value) {
            op.for_each_operand(|operand| _ = wanted.insert(operand));
        }
    }
    wanted
}

/// An end of an index.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Low,
    High,
}

impl End {
    fn of(self, border: Border) -> i64 {
        if self == End::Low { border.low } else { border.high }
    }
}

struct Splitter<'a> {
    maker: Maker<'a>,
    /// The kernel before.
    from: &'a Kernel,
    l: &'a Loop,
    lengths: &'a [Size],
    /// The statements that compute the extents of borders.
    before: Block,
}

impl Splitter<'_> {
    /// The loop over the border of the index `at`, at one of its ends: over the interior of those
    /// before it, and all of those behind it. Without an end, over the interior of all. Also
    /// returns what its values became.
    fn region(&mut self, borders: &[Border], at: usize, end: Option<End>) -> (Loop, BTreeMap<ValueId, ValueId>) {
        let mut dims = vec![];
        let mut indices = vec![];
        for (number, (old, _)) in self.l.dims.iter().enumerate() {
            let (border, length) = (borders[number], &self.lengths[number]);
            let index = self.maker.index(&self.from.indices[*old].name);
            let [low, high] = [border.low, border.high].map(Size::constant);
            let here = Affine::index(index);
            let (extent, to) = if number < at {
                (Extent::size(&(length - &low) - &high), here.add(&Affine::size(low)))
            } else if number > at {
                (Extent::size(length.clone()), here)
            } else if end == Some(End::Low) {
                (self.at_most(border.low, length.clone()), here)
            } else {
                let last = Affine::size(length - &Size::constant(1));
                (self.at_most(border.high, length - &low), last.sub(&here))
            };
            dims.push((index, extent));
            indices.push((*old, to));
        }
        let mut copier = Copier::new(self.maker.program, self.from, self.maker.kernel);
        indices.into_iter().for_each(|(old, to)| copier.map_index(old, Subscript::Affine(to)));
        let mut body = vec![];
        copier.copy(&self.l.body, &mut body);
        let mut became = BTreeMap::new();
        visit::for_each_op(&self.l.body, &mut |value, _| _ = became.insert(value, copier.value(value)));
        let of_kind = |dims, body| Loop { dims, kind: self.l.kind.clone(), body };
        // The loop over the border itself stays inside, so that the others are ranges of known
        // lengths, which threads share.
        if end.is_some() && at > 0 {
            let inner = dims.split_off(at);
            body = vec![Statement::Loop(of_kind(inner, body))];
        }
        (of_kind(dims, body), became)
    }

    /// The interior, without the branches that it decides.
    fn interior(
        &mut self,
        (mut inner, became): (Loop, BTreeMap<ValueId, ValueId>),
        comparisons: &BTreeMap<ValueId, bool>,
    ) -> Loop {
        let copy = |value: &ValueId| became.get(value).copied().unwrap_or(*value);
        let decided = comparisons.iter().map(|(value, holds)| (copy(value), *holds)).collect();
        decide(&mut inner.body, &decided);
        let body = vec![Statement::Loop(inner.clone())];
        let mut alone = Kernel { body, ..self.maker.kernel.clone() };
        while simplify(&mut alone) {}
        self.maker.kernel.values = alone.values;
        match alone.body.pop() {
            Some(Statement::Loop(mut simple)) if alone.body.is_empty() => {
                erase_unused(&mut simple.body);
                simple
            }
            _ => inner,
        }
    }

    /// A number of iterations, or fewer.
    fn at_most(&mut self, number: i64, size: Size) -> Extent {
        let sizes = [Size::constant(number), size].map(|size| Op::Affine(Affine::size(size)));
        let [number, size] = sizes.map(|op| self.maker.define(&mut self.before, op));
        Extent::Value(self.maker.define(&mut self.before, Op::Binary(BinaryOp::Min, number, size)))
    }
}

/// Gives comparisons the values that they have.
fn decide(block: &mut Block, decided: &BTreeMap<ValueId, bool>) {
    for statement in block {
        if let Statement::Let { value, op } = statement
            && let Some(holds) = decided.get(value)
        {
            *op = Op::Constant(Scalar::Bool(*holds));
        }
        statement.blocks_mut().for_each(|inner| decide(inner, decided));
    }
}
