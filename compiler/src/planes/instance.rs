//! Copies the body of an array of a recurrence, for one plane or for that of any step.

use std::collections::{BTreeMap, BTreeSet};

use ir::checked::{Checked, Expr, ExprId, Extent, GuardId, IndexId, Kind, RecurrenceId};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

use super::rewrite::{Known, Rewrite, copied, subscript};
use super::{Plan, Planes, array_of};

/// Which plane is computed.
#[derive(Clone, Copy)]
pub(super) enum Point {
    /// Plane 0.
    First,
    /// The plane of the step with this index.
    Step(IndexId),
}

/// A copy of a body in the making.
pub(super) struct Instance<'r, 'c> {
    rewrite: &'r mut Rewrite<'c>,
    recurrence: RecurrenceId,
    array: usize,
    point: Point,
    /// The planes of all arrays.
    known: &'r [Known],
    /// The expressions that are copied, in order.
    body: Vec<ExprId>,
    /// The values of conditions that the plane decides.
    decided: BTreeMap<ExprId, bool>,
    /// The copies so far.
    ids: BTreeMap<ExprId, ExprId>,
    indices: BTreeMap<IndexId, Affine<IndexId>>,
    guards: BTreeMap<GuardId, GuardId>,
}

impl<'r, 'c> Instance<'r, 'c> {
    pub fn new(
        rewrite: &'r mut Rewrite<'c>,
        recurrence: RecurrenceId,
        array: usize,
        point: Point,
        known: &'r [Known],
    ) -> Instance<'r, 'c> {
        let (ids, indices, guards) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (body, decided) = (vec![], BTreeMap::new());
        Instance { rewrite, recurrence, array, point, known, body, decided, ids, indices, guards }
    }

    fn plan(&self) -> (&'c Plan, &'c Planes) {
        let plan = &self.rewrite.plans[&self.recurrence];
        (plan, &plan.arrays[self.array])
    }

    /// The plane, as an array or scalar of the new program.
    pub fn plane(mut self) -> Option<ExprId> {
        let old = self.rewrite.old;
        let (plan, planes) = self.plan();
        let equation = &old.recurrences[self.recurrence].equations[self.array];
        self.body = self.needed(equation.body);
        let number = match self.point {
            Point::First => Affine::constant(0),
            Point::Step(step) => Affine::index(step).add(&Affine::constant(planes.offset)),
        };
        self.indices.insert(equation.indices[planes.axis], planes.at(plan, &number));
        let others: Vec<IndexId> = planes.others(&equation.indices).copied().collect();
        // Users of an index come before what binds it.
        let bound = self.body.iter().flat_map(|id| old.bound(&old.exprs[*id].kind));
        for index in others.iter().copied().chain(bound).collect::<Vec<_>>() {
            let copy = self.rewrite.new.indices.push(old.indices[index].clone());
            self.indices.insert(index, Affine::index(copy));
        }
        let others = others.into_iter().map(|index| self.index(index)).collect::<Option<Vec<_>>>()?;
        // Where the arrays have no planes at all, plane 0 has no elements to read.
        let origin = old.exprs[equation.body].origin;
        let runs = match self.point {
            Point::First => self.rewrite.runs(&plan.trips, origin),
            Point::Step(_) => None,
        };
        if runs.is_some() {
            let inside = self.rewrite.new.guards.push(Checked::TOP);
            self.guards.insert(Checked::TOP, inside);
        }
        self.decide(equation.indices[planes.axis]);
        for id in std::mem::take(&mut self.body) {
            let copy = self.expression(id)?;
            self.ids.insert(id, copy);
        }
        let mut body = self.get(equation.body)?;
        if let Some(condition) = runs {
            let dtype = old.exprs[equation.body].ty.dtype;
            let zero = Kind::Constant(Scalar::zero(dtype));
            let otherwise = self.rewrite.scalar(zero, dtype, origin, Checked::TOP);
            let kind = Kind::If { condition, then: body, otherwise };
            body = self.rewrite.scalar(kind, dtype, origin, Checked::TOP);
        }
        Some(self.rewrite.array(others, body))
    }

    /// The expressions that depend on the plane or the element, among those that one is computed
    /// from.
    fn needed(&self, root: ExprId) -> Vec<ExprId> {
        let (mut found, mut pending) = (BTreeSet::new(), vec![root]);
        while let Some(id) = pending.pop() {
            if self.rewrite.varies[id] && found.insert(id) {
                self.rewrite.old.for_each_operand(&self.rewrite.old.exprs[id].kind, |operand| pending.push(operand));
            }
        }
        found.into_iter().collect()
    }

    /// The copy of an expression.
    fn get(&self, id: ExprId) -> Option<ExprId> {
        self.ids.get(&id).copied().or(self.rewrite.ids[id].expand())
    }

    /// The copy of an index that is bound here, when whatever its extent needs is there.
    fn index(&mut self, index: IndexId) -> Option<IndexId> {
        let copy = self.to(index).as_index()?;
        self.rewrite.new.indices[copy].extent = match &self.rewrite.old.indices[index].extent {
            Extent::Affine(extent) => Extent::Affine(extent.substitute(&mut |index| self.to(index))),
            Extent::Dynamic(extent) => Extent::Dynamic(self.get(*extent)?),
        };
        Some(copy)
    }

    fn to(&self, index: IndexId) -> Affine<IndexId> {
        self.indices.get(&index).cloned().unwrap_or_else(|| Affine::index(index))
    }

    /// The copy of a guard.
    fn guard(&mut self, guard: GuardId) -> GuardId {
        if let Some(copy) = self.guards.get(&guard) {
            return *copy;
        }
        let parent = self.rewrite.old.guards[guard];
        if parent == guard {
            return guard;
        }
        let parent = self.guard(parent);
        let copy = self.rewrite.new.guards.push(parent);
        self.guards.insert(guard, copy);
        copy
    }

    fn expression(&mut self, id: ExprId) -> Option<ExprId> {
        let old = self.rewrite.old;
        let expr = &old.exprs[id];
        if let Kind::If { condition, then, otherwise } = expr.kind
            && let Some(holds) = self.condition(condition)
        {
            return self.get(if holds { then } else { otherwise });
        }
        let guard = self.guard(expr.guard);
        if let Some(holds) = self.decided.get(&id) {
            return Some(self.rewrite.scalar(Kind::Constant(Scalar::Bool(*holds)), Dtype::Bool, expr.origin, guard));
        }
        match &expr.kind {
            // The other side alone decides.
            Kind::Binary(BinaryOp::And | BinaryOp::Or, a, b) if self.condition(*a).is_some() => return self.get(*b),
            Kind::Binary(BinaryOp::And | BinaryOp::Or, a, b) if self.condition(*b).is_some() => return self.get(*a),
            Kind::Index(index) => {
                let at = self.to(*index);
                return Some(self.integer(&at, expr, guard));
            }
            // It stands for its elements, which are read from planes.
            Kind::Earlier { .. } => {
                return Some(self.rewrite.scalar(Kind::Constant(Scalar::I64(0)), Dtype::I64, expr.origin, guard));
            }
            Kind::Access { array, at } => {
                if let Some(read) = array_of(old, *array).filter(|read| read.recurrence == self.recurrence) {
                    let (plan, _) = self.plan();
                    let back = plan.back(old, &old.recurrences[self.recurrence], read, id)?;
                    let Some(plane) = self.known[read.array][usize::try_from(back).ok()?] else {
                        // Before the first plane: under a condition that does not hold.
                        let zero = Kind::Constant(Scalar::zero(expr.ty.dtype));
                        return Some(self.rewrite.scalar(zero, expr.ty.dtype, expr.origin, guard));
                    };
                    let at: Vec<_> = plan.arrays[read.array].others(at).collect();
                    let at = at.into_iter().map(|s| subscript(s, &|id| self.get(id), &|index| self.to(index)));
                    let at = at.collect::<Option<Vec<_>>>()?;
                    return Some(self.rewrite.element(plane, at, expr, guard));
                }
            }
            kind => {
                for index in old.bound(kind).collect::<Vec<_>>() {
                    self.index(index)?;
                }
            }
        }
        let kind = copied(&expr.kind, &|id| self.get(id), &|index| self.to(index))?;
        Some(self.rewrite.new.exprs.push(Expr { kind, guard, ..expr.clone() }))
    }

    /// An affine expression as a scalar.
    fn integer(&mut self, affine: &Affine<IndexId>, like: &Expr, guard: GuardId) -> ExprId {
        let scalar = |this: &mut Self, kind| this.rewrite.scalar(kind, Dtype::I64, like.origin, guard);
        let constant = affine.constant_part();
        let mut sum = match (constant.is_zero(), constant.as_constant()) {
            (true, _) => None,
            (_, Some(number)) => Some(scalar(self, Kind::Constant(Scalar::I64(number)))),
            (_, None) => Some(scalar(self, Kind::Size(constant.clone()))),
        };
        for (index, coefficient) in affine.terms() {
            let mut term = scalar(self, Kind::Index(*index));
            if coefficient.as_constant() != Some(1) {
                let factor = scalar(self, Kind::Size(coefficient.clone()));
                term = scalar(self, Kind::Binary(BinaryOp::Mul, term, factor));
            }
            sum = Some(match sum {
                Some(sum) => scalar(self, Kind::Binary(BinaryOp::Add, sum, term)),
                None => term,
            });
        }
        sum.unwrap_or_else(|| scalar(self, Kind::Constant(Scalar::I64(0))))
    }

    /// The value of a condition, if the plane decides it.
    fn condition(&self, id: ExprId) -> Option<bool> {
        match self.rewrite.old.exprs[id].kind {
            Kind::Constant(Scalar::Bool(value)) => Some(value),
            _ => self.decided.get(&id).copied(),
        }
    }

    /// Finds the conditions that the plane decides, and lets expressions in branches that are
    /// always taken stand where the `if` stands.
    fn decide(&mut self, deciding: IndexId) {
        let old = self.rewrite.old;
        let (plan, planes) = self.plan();
        let mut affine: BTreeMap<ExprId, Affine<IndexId>> = BTreeMap::new();
        for id in self.body.clone() {
            let expr = &old.exprs[id];
            let number = |id: ExprId| match &old.exprs[id].kind {
                Kind::Constant(Scalar::I64(number)) => {
                    Some(Affine::constant(*number)).filter(|number| number.constant_part().is_near(&planes.length))
                }
                Kind::Size(size) if size.is_near(&planes.length) => Some(Affine::size(size.clone())),
                _ => affine.get(&id).cloned(),
            };
            let as_affine = match &expr.kind {
                Kind::Index(index) if *index == deciding => Some(planes.at(plan, &Affine::index(deciding))),
                Kind::Binary(BinaryOp::Add, a, b) => number(*a).zip(number(*b)).map(|(a, b)| a.add(&b)),
                Kind::Binary(BinaryOp::Sub, a, b) => number(*a).zip(number(*b)).map(|(a, b)| a.sub(&b)),
                _ => None,
            };
            let decided = match &expr.kind {
                Kind::Compare(op, a, b) => {
                    let difference = number(*a).zip(number(*b)).map(|(a, b)| a.sub(&b));
                    difference.and_then(|difference| self.compare(*op, &difference, deciding))
                }
                Kind::Unary(UnaryOp::Not, a) => self.condition(*a).map(|holds| !holds),
                Kind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) if expr.ty.dtype == Dtype::Bool => {
                    let ends = *op == BinaryOp::Or;
                    let (a, b) = (self.condition(*a), self.condition(*b));
                    if a == Some(ends) || b == Some(ends) { Some(ends) } else { a.and(b) }
                }
                Kind::If { condition, then, otherwise } => {
                    self.condition(*condition).and_then(|holds| self.condition(if holds { *then } else { *otherwise }))
                }
                _ => None,
            };
            // A number that wraps would compare as another one.
            let plain = |affine: &Affine<IndexId>| {
                let unit = |(_, factor): &(IndexId, Size)| matches!(factor.as_constant(), Some(-1 | 1));
                affine.terms().iter().all(unit) && affine.constant_part().is_near(&planes.length)
            };
            let as_affine = as_affine.filter(|affine| expr.ty.dtype == Dtype::I64 && plain(affine));
            affine.extend(as_affine.map(|affine| (id, affine)));
            self.decided.extend(decided.map(|holds| (id, holds)));
        }
        for id in self.body.clone().into_iter().rev() {
            let expr = &old.exprs[id];
            if let Kind::If { condition, then, otherwise } = expr.kind
                && let Some(holds) = self.condition(condition)
            {
                let branch = old.exprs[if holds { then } else { otherwise }].guard;
                if branch != expr.guard {
                    let around = self.guard(expr.guard);
                    self.guards.insert(branch, around);
                }
            }
        }
    }

    /// A comparison of a number with 0, if the plane decides it. The number is an expression of
    /// that of the plane, for which the deciding index stands here.
    fn compare(&self, op: CompareOp, number: &Affine<IndexId>, plane: IndexId) -> Option<bool> {
        let base = number.constant_part().as_constant()?;
        let factor = match number.terms() {
            [] => 0,
            [(index, factor)] if *index == plane => factor.as_constant().filter(|f| matches!(f, -1 | 1))?,
            _ => return None,
        };
        // The least and the greatest value.
        let (least, greatest) = match (self.point, factor) {
            (Point::First, _) | (_, 0) => (Some(base), Some(base)),
            (Point::Step(_), 1) => (base.checked_add(self.plan().1.offset), None),
            (Point::Step(_), _) => (None, base.checked_sub(self.plan().1.offset)),
        };
        let (below, above) = (greatest.is_some_and(|n| n < 0), least.is_some_and(|n| n > 0));
        let (not_above, not_below) = (greatest.is_some_and(|n| n <= 0), least.is_some_and(|n| n >= 0));
        let pick = |yes: bool, no: bool| {
            if yes {
                Some(true)
            } else if no {
                Some(false)
            } else {
                None
            }
        };
        match op {
            CompareOp::Eq => pick(not_above && not_below, below || above),
            CompareOp::Ne => pick(below || above, not_above && not_below),
            CompareOp::Lt => pick(below, not_below),
            CompareOp::Le => pick(not_above, above),
            CompareOp::Gt => pick(above, not_above),
            CompareOp::Ge => pick(not_below, below),
        }
    }
}

impl Planes {
    /// The deciding index of a plane with this number.
    fn at(&self, plan: &Plan, number: &Affine<IndexId>) -> Affine<IndexId> {
        match plan.descending {
            true => Affine::size(&self.length - &Size::constant(1)).sub(number),
            false => number.clone(),
        }
    }
}
