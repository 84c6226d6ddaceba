//! Maxima and minima that a value does not depend on. The maximum in `exp(x - max(x))` keeps `exp`
//! in range: in exact arithmetic, a softmax is the same with any other number in its place. So its
//! derivative in that number is 0, and nothing has to be computed for it.
//!
//! This is found by algebra. With `t` added to the maximum, or `e ^ t` multiplied by it, each
//! node on the way to the value either has a multiple of `t` added too (a *shift*), or is
//! multiplied by a power of `e ^ t` (a *scale*), or the analysis gives up. `exp` makes a scale of
//! a shift, `log` the other way around; sums keep scales, and quotients take them away.

use std::collections::{BTreeMap, BTreeSet};

use ir::checked::{ExprId, IndexId, Kind, Sorted};
use ir::{BinaryOp, MathFn, Monoid, ReduceOp, Scalar, UnaryOp};

use super::super::Checker;
use super::super::arena::Arena;

/// How a node changes with `t`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Weight {
    /// This many times `t` is added. A node that does not change has a shift of 0.
    Shift(f64),
    /// It is multiplied by this power of `e ^ t`, which is not 0.
    Scale(f64),
}

const SAME: Weight = Weight::Shift(0.0);

/// Only this many extremes are looked at, since each takes a pass over all nodes.
const MOST: usize = 32;

/// The weights of nodes above some equal extremes.
struct Weights<'c> {
    arena: &'c Arena,
    extremes: &'c [ExprId],
    /// The weight of the extremes.
    start: Weight,
    found: BTreeMap<ExprId, Option<Weight>>,
}

impl Checker<'_> {
    /// The maxima and minima below a value that it does not depend on.
    pub(super) fn idle_extremes(&self, value: ExprId) -> Vec<ExprId> {
        let out = &self.arena.out;
        let (mut pending, mut seen) = (vec![value], BTreeSet::new());
        while let Some(id) = pending.pop() {
            if seen.insert(id) {
                out.for_each_operand(&out.exprs[id].kind, |operand| pending.push(operand));
            }
        }
        let mut classes: Vec<Vec<ExprId>> = vec![];
        for id in seen {
            let Kind::Reduce { op: ReduceOp::Monoid(Monoid::Max | Monoid::Min), prefix: None, .. } = out.exprs[id].kind
            else {
                continue;
            };
            let class = classes.iter().position(|class| Pairs::new(&self.arena).are_equal(class[0], id));
            match class {
                Some(number) => classes[number].push(id),
                None if classes.len() < MOST => classes.push(vec![id]),
                None => {}
            }
        }
        let is_idle = |extremes: &Vec<ExprId>| {
            [Weight::Shift(1.0), Weight::Scale(1.0)].into_iter().any(|start| {
                let mut weights = Weights { arena: &self.arena, extremes, start, found: BTreeMap::new() };
                weights.of(value) == Some(SAME)
            })
        };
        classes.into_iter().filter(is_idle).flatten().collect()
    }
}

impl Weights<'_> {
    fn of(&mut self, id: ExprId) -> Option<Weight> {
        if self.extremes.contains(&id) {
            return Some(self.start);
        }
        if let Some(found) = self.found.get(&id) {
            return *found;
        }
        // A state of a loop leads to itself.
        self.found.insert(id, None);
        let weight = stacker::maybe_grow(128 << 10, 4 << 20, || self.computed(id));
        self.found.insert(id, weight);
        weight
    }

    fn computed(&mut self, id: ExprId) -> Option<Weight> {
        let arena = self.arena;
        let kind = &arena.out.exprs[id].kind;
        if let Kind::State { .. } | Kind::Loop { .. } | Kind::Recurrence { .. } | Kind::Earlier { .. } = kind {
            return None;
        }
        let mut operands = vec![];
        arena.out.for_each_operand(kind, |operand| operands.push(operand));
        let mut same = true;
        for operand in &operands {
            same &= self.of(*operand)? == SAME;
        }
        if same {
            return Some(SAME);
        }
        // With another value of an index, the extreme is another number.
        let own = |index| self.extremes.iter().any(|extreme| arena.free(*extreme).contains(&index));
        if arena.out.bound(kind).any(own) {
            return None;
        }
        match kind {
            Kind::Unary(op, a) => self.unary(*op, *a),
            Kind::Binary(op, a, b) => self.binary(*op, *a, *b),
            Kind::Math(MathFn::Exp, a) => self.shift(a[0]).map(scale),
            Kind::Math(MathFn::Log, a) => self.scale(a[0]).map(Weight::Shift),
            Kind::Math(MathFn::Sign, a) => self.scale(a[0]).map(|_| SAME),
            Kind::Compare(_, a, b) => self.common(&[*a, *b]).map(|_| SAME),
            Kind::Cast(a) if arena.dtype(id).is_float() => self.of(*a),
            Kind::If { condition, then, otherwise } => {
                let branches = self.common(&[*then, *otherwise]);
                branches.filter(|_| self.of(*condition) == Some(SAME))
            }
            Kind::Access { array, .. } => self.alone(*array, &operands),
            Kind::Reduce { op, body, .. } => match (op, self.alone(*body, &operands)?) {
                (ReduceOp::Position(_), _) => Some(SAME),
                (ReduceOp::Monoid(Monoid::Max | Monoid::Min), weight)
                | (ReduceOp::Monoid(Monoid::Sum), weight @ Weight::Scale(_)) => Some(weight),
                (ReduceOp::Monoid(_), _) => None,
            },
            Kind::Contract { left, right, .. } => Some(scale(self.scale(*left)? + self.scale(*right)?)),
            Kind::Comprehension { body, .. } => self.of(*body),
            Kind::Reshape(a) => self.of(*a),
            Kind::ArrayLiteral(parts) => self.common(parts),
            Kind::Sort { result: Sorted::Numbers, .. } => Some(SAME),
            Kind::Sort { body, result: Sorted::Values, .. } => self.of(*body),
            _ => None,
        }
    }

    fn unary(&mut self, op: UnaryOp, a: ExprId) -> Option<Weight> {
        match (op, self.of(a)?) {
            (UnaryOp::Neg, Weight::Shift(k)) => Some(Weight::Shift(-k)),
            (UnaryOp::Neg | UnaryOp::Abs, weight @ Weight::Scale(_)) => Some(weight),
            (UnaryOp::Sqrt, Weight::Scale(k)) => Some(Weight::Scale(k / 2.0)),
            _ => None,
        }
    }

    fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> Option<Weight> {
        match (op, self.of(a)?, self.of(b)?) {
            (BinaryOp::Add, Weight::Shift(a), Weight::Shift(b)) => Some(Weight::Shift(a + b)),
            (BinaryOp::Sub, Weight::Shift(a), Weight::Shift(b)) => Some(Weight::Shift(a - b)),
            (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Max | BinaryOp::Min, ..) => self.common(&[a, b]),
            (BinaryOp::Mul, Weight::Shift(k), SAME) if k != 0.0 => Some(Weight::Shift(k * self.constant(b)?)),
            (BinaryOp::Mul, SAME, Weight::Shift(k)) => Some(Weight::Shift(k * self.constant(a)?)),
            (BinaryOp::Div, Weight::Shift(k), SAME) if k != 0.0 => Some(Weight::Shift(k / self.constant(b)?)),
            (BinaryOp::Mul, ..) => Some(scale(self.scale(a)? + self.scale(b)?)),
            (BinaryOp::Div, ..) => Some(scale(self.scale(a)? - self.scale(b)?)),
            _ => None,
        }
    }

    /// The multiple of `t` that is added, if the node is not scaled.
    fn shift(&mut self, id: ExprId) -> Option<f64> {
        if let Weight::Shift(k) = self.of(id)? { Some(k) } else { None }
    }

    /// The power of `e ^ t` that the node is multiplied by, if nothing is added.
    fn scale(&mut self, id: ExprId) -> Option<f64> {
        match self.of(id)? {
            Weight::Scale(k) => Some(k),
            SAME => Some(0.0),
            Weight::Shift(_) => None,
        }
    }

    /// The weight of an operand, if the others of a node stay as they are.
    fn alone(&mut self, id: ExprId, operands: &[ExprId]) -> Option<Weight> {
        let mut others = operands.iter().filter(|operand| **operand != id);
        others.all(|operand| self.of(*operand) == Some(SAME)).then(|| self.of(id))?
    }

    /// The weight that all of some nodes have. An infinity has any, and 0 any scale.
    fn common(&mut self, ids: &[ExprId]) -> Option<Weight> {
        let mut common = None;
        for id in ids.iter().copied() {
            if self.constant(id).is_some_and(|number| number == 0.0 || number.is_infinite()) {
                continue;
            }
            let weight = self.of(id)?;
            if *common.get_or_insert(weight) != weight {
                return None;
            }
        }
        let zero = ids.iter().any(|id| self.constant(*id) == Some(0.0));
        common.filter(|weight| !zero || matches!(weight, Weight::Scale(_)))
    }

    fn constant(&self, id: ExprId) -> Option<f64> {
        match self.arena.out.exprs[id].kind {
            Kind::Constant(Scalar::F32(number)) => Some(number.into()),
            Kind::Constant(Scalar::F64(number)) => Some(number),
            _ => None,
        }
    }
}

fn scale(power: f64) -> Weight {
    if power == 0.0 { SAME } else { Weight::Scale(power) }
}

/// A comparison of expressions up to the numbers of their own indices.
struct Pairs<'c> {
    arena: &'c Arena,
    /// The indices that stand for each other, the innermost last.
    indices: Vec<(IndexId, IndexId)>,
    /// The nodes that have been found equal.
    equal: BTreeSet<(ExprId, ExprId)>,
}

impl<'c> Pairs<'c> {
    fn new(arena: &'c Arena) -> Pairs<'c> {
        Pairs { arena, indices: vec![], equal: BTreeSet::new() }
    }

    fn are_equal(&mut self, a: ExprId, b: ExprId) -> bool {
        if self.equal.contains(&(a, b)) {
            return true;
        }
        let equal = stacker::maybe_grow(128 << 10, 4 << 20, || self.compared(a, b));
        if equal {
            self.equal.insert((a, b));
        }
        equal
    }

    fn compared(&mut self, a: ExprId, b: ExprId) -> bool {
        let out = &self.arena.out;
        let (left, right) = (&out.exprs[a], &out.exprs[b]);
        if a == b {
            let free = self.arena.free(a);
            return self.indices.iter().all(|(x, y)| x == y || !free.contains(x) && !free.contains(y));
        }
        let same = match (&left.kind, &right.kind) {
            (Kind::Index(a), Kind::Index(b)) => {
                let pair = self.indices.iter().rev().find(|(x, y)| x == a || y == b);
                return pair.map_or(a == b, |pair| pair == &(*a, *b));
            }
            (Kind::Constant(a), Kind::Constant(b)) => a.bits() == b.bits(),
            (Kind::Unary(a, _), Kind::Unary(b, _)) => a == b,
            (Kind::Binary(a, ..), Kind::Binary(b, ..)) => a == b,
            (Kind::Math(a, _), Kind::Math(b, _)) => a == b,
            (Kind::Access { .. }, Kind::Access { .. })
            | (Kind::Cast(_), Kind::Cast(_))
            | (Kind::Comprehension { .. }, Kind::Comprehension { .. }) => true,
            (Kind::Reduce { op: a, prefix: None, by: x, .. }, Kind::Reduce { op: b, prefix: None, by: y, .. }) => {
                a == b && x.is_empty() && y.is_empty()
            }
            _ => false,
        };
        let (own, others): (Vec<_>, Vec<_>) = (out.bound(&left.kind).collect(), out.bound(&right.kind).collect());
        let as_long = |(a, b): (&IndexId, &IndexId)| {
            let [a, b] = [a, b].map(|index| out.indices[*index].extent.as_size());
            a.is_some() && a == b
        };
        if !same || left.ty != right.ty || own.len() != others.len() || !own.iter().zip(&others).all(as_long) {
            return false;
        }
        let [mut operands, mut of_other] = [vec![], vec![]];
        out.for_each_operand(&left.kind, |operand| operands.push(operand));
        out.for_each_operand(&right.kind, |operand| of_other.push(operand));
        let depth = self.indices.len();
        self.indices.extend(own.into_iter().zip(others));
        let equal =
            operands.len() == of_other.len() && operands.iter().zip(&of_other).all(|(a, b)| self.are_equal(*a, *b));
        self.indices.truncate(depth);
        equal
    }
}
