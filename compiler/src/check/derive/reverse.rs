//! From users to operands: the shares of nodes, and the derivative of each from its shares.

use std::collections::{BTreeMap, BTreeSet};

use grammar::ast::Span;
use ir::checked::{Checked, Expr, ExprId, GuardId, IndexId, Kind, Sorted, Type};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, ReduceOp};

use super::super::Checker;
use super::super::arena::Here;
use super::copy::Place;
use super::kept::Kept;
use super::table::Slope;

/// A part of the derivative of a node, from one of its users.
pub(super) struct Share {
    /// The part of the node that has it.
    pub of: Part,
    /// A scalar; for an array as a whole an array of its shape.
    pub value: ExprId,
    /// The indices that are bound around it, the outermost first. There is a share for each of
    /// their values.
    pub context: Vec<IndexId>,
    /// The branch that it stands in.
    pub guard: GuardId,
}

/// The part of a node that a share is of.
pub(super) enum Part {
    /// All of it.
    Whole,
    /// The element at some subscripts, scalars.
    Element(Vec<ExprId>),
}

/// The derivative of a scalar in some of the nodes below it.
pub(super) struct Reverse<'c, 'a> {
    pub checker: &'c mut Checker<'a>,
    /// The nodes that the derivative is in.
    of: Vec<ExprId>,
    /// Whether a node depends on those, as far as somebody has asked.
    active: BTreeMap<ExprId, bool>,
    /// The shares of nodes with users that are done.
    shares: BTreeMap<ExprId, Vec<Share>>,
    /// The conditions of branches, and whether they hold there.
    pub branches: BTreeMap<GuardId, (ExprId, bool)>,
    /// The elements with slopes that are kept.
    pub kept: Kept,
}

impl<'c, 'a> Reverse<'c, 'a> {
    /// A derivative in some nodes.
    pub fn new(checker: &'c mut Checker<'a>, of: Vec<ExprId>) -> Self {
        Reverse {
            checker,
            of,
            active: BTreeMap::new(),
            shares: BTreeMap::new(),
            branches: BTreeMap::new(),
            kept: Kept::default(),
        }
    }

    /// The derivative of a scalar in each of the nodes.
    pub fn gradients(mut self, value: ExprId, here: Here) -> Option<Vec<ExprId>> {
        let dtype = self.checker.arena.dtype(value).compute();
        let one = self.checker.float(1.0, dtype, here);
        let idle = self.checker.idle_extremes(value);
        self.active.extend(idle.into_iter().map(|id| (id, false)));
        let found = self.derivatives(&[(value, one)], here)?;
        let of = self.of.iter().zip(found);
        Some(of.map(|(id, found)| found.unwrap_or_else(|| self.checker.zeros_like(*id, here))).collect())
    }

    /// The derivative in each of the nodes of the sum of some values, each times a weight of its
    /// shape; `None` where it is 0.
    pub fn derivatives(&mut self, values: &[(ExprId, ExprId)], here: Here) -> Option<Vec<Option<ExprId>>> {
        for (value, weight) in values {
            self.share(*value, Part::Whole, *weight, &[], here.guard);
        }
        let mut found = BTreeMap::new();
        while let Some(id) = self.shares.keys().next_back().copied() {
            if self.checker.is_full(here.span) {
                return None;
            }
            let (derivative, context) = self.finished(id)?;
            if self.of.contains(&id) {
                found.insert(id, derivative);
            } else {
                self.pass_on(id, derivative, &context)?;
            }
        }
        Some(self.of.iter().map(|id| found.get(id).copied()).collect())
    }

    /// The derivative of a node with users that are done, and the indices that it depends on.
    pub fn finished(&mut self, id: ExprId) -> Option<(ExprId, Vec<IndexId>)> {
        let shares = self.shares.remove(&id).unwrap_or_default();
        let derivative = self.total(id, &shares)?;
        self.name(derivative, id);
        let stays = self.around(id);
        let mut context: Vec<IndexId> = vec![];
        for index in shares.into_iter().flat_map(|share| share.context) {
            if stays.contains(&index) && !context.contains(&index) {
                context.push(index);
            }
        }
        Some((derivative, context))
    }

    /// The nodes with shares that the derivative goes through, and not those that it is in.
    pub fn with_shares(&self) -> Vec<ExprId> {
        self.shares.keys().filter(|id| !self.of.contains(id)).copied().collect()
    }

    /// Passes all shares on to the nodes that the derivative is in.
    pub fn pass_all_on(&mut self, here: Here) -> Option<()> {
        while let Some(id) = self.shares.keys().rev().find(|id| !self.of.contains(id)).copied() {
            if self.checker.is_full(here.span) {
                return None;
            }
            let (derivative, context) = self.finished(id)?;
            self.pass_on(id, derivative, &context)?;
        }
        Some(())
    }

    /// The shares of a node.
    pub fn take_shares(&mut self, id: ExprId) -> Vec<Share> {
        self.shares.remove(&id).unwrap_or_default()
    }

    /// Notes that some nodes do not depend on those that the derivative is in, or are counted
    /// elsewhere.
    pub fn active_not(&mut self, nodes: &[ExprId]) {
        self.active.extend(nodes.iter().map(|id| (*id, false)));
    }

    /// The derivatives in all nodes of one kind, by the numbers of these: several nodes may have
    /// one number. That in one node is given.
    pub fn of_one(
        &mut self,
        number_of: impl Fn(&Kind) -> Option<usize>,
        (id, derivative): (ExprId, ExprId),
        context: &mut Vec<IndexId>,
    ) -> Option<BTreeMap<usize, ExprId>> {
        let number = |id: ExprId, this: &Self| number_of(&this.checker.arena.out.exprs[id].kind);
        let mut found: BTreeMap<usize, ExprId> =
            number(id, self).map(|number| (number, derivative)).into_iter().collect();
        let others: Vec<(ExprId, usize)> =
            self.with_shares().into_iter().filter_map(|other| Some((other, number(other, self)?))).collect();
        for (other, number) in others {
            let (derivative, more) = self.finished(other)?;
            context.extend(more.into_iter().filter(|index| !context.contains(index)).collect::<Vec<_>>());
            let here = self.here(other);
            let sum = match found.get(&number) {
                Some(known) => self.checker.both(*known, derivative, here),
                None => derivative,
            };
            found.insert(number, sum);
        }
        Some(found)
    }

    /// A name for a derivative, after the value that it is in.
    pub fn name_of(&self, of: ExprId) -> Option<String> {
        let out = &self.checker.arena.out;
        match (&out.exprs[of].name, &out.exprs[of].kind) {
            (Some(name), _) => Some(format!("d{name}")),
            (None, Kind::Param(number)) => Some(format!("d{}", out.params[*number].name)),
            (None, _) => None,
        }
    }

    /// Names a derivative after the value that it is in.
    fn name(&mut self, derivative: ExprId, of: ExprId) {
        let name = self.name_of(of);
        let expr = &mut self.checker.arena.out.exprs[derivative];
        if derivative > of && expr.name.is_none() {
            expr.name = name;
        }
    }

    /// The place of what is computed for a node.
    pub fn here(&self, id: ExprId) -> Here {
        let Expr { origin, guard, .. } = self.checker.arena.out.exprs[id];
        let here = Here { span: Span { start: origin.start, end: origin.end }, guard };
        // A branch that depends on other indices was left where these were solved for.
        let (stays, open) = (self.around(id), &self.checker.arena.ends.open);
        self.outside_of(|index| !stays.contains(index) && !open.contains(index), here)
    }

    /// Whether a node depends on one that the derivative is in.
    pub fn is_active(&mut self, id: ExprId) -> bool {
        if !self.checker.arena.dtype(id).is_float() {
            return false;
        }
        if self.of.contains(&id) {
            return true;
        }
        if let Some(active) = self.active.get(&id) {
            return *active;
        }
        self.active.insert(id, false);
        let mut operands = vec![];
        let out = &self.checker.arena.out;
        out.for_each_operand(&out.exprs[id].kind, |operand| operands.push(operand));
        let active =
            stacker::maybe_grow(128 << 10, 4 << 20, || operands.into_iter().any(|operand| self.is_active(operand)));
        self.active.insert(id, active);
        active
    }

    /// Gives a node a share, unless that is nothing.
    pub fn share(&mut self, to: ExprId, of: Part, value: ExprId, context: &[IndexId], guard: GuardId) {
        if self.is_active(to) && !self.checker.is_zero(value) {
            let share = Share { of, value, context: context.to_vec(), guard };
            self.shares.entry(to).or_default().push(share);
        }
    }

    /// The derivative of a node: the sum of its shares.
    fn total(&mut self, id: ExprId, shares: &[Share]) -> Option<ExprId> {
        let here = self.here(id);
        if !self.checker.arena.ty(id).is_scalar() {
            return self.array(id, shares, here);
        }
        let mut total = self.checker.zero_like(id, here);
        for share in shares {
            let value = self.summed(id, share, here)?;
            total = self.checker.plus(total, value, here);
        }
        Some(total)
    }

    /// A scalar share, summed over the indices that its node does not depend on.
    fn summed(&mut self, id: ExprId, share: &Share, here: Here) -> Option<ExprId> {
        let over = self.extra(id, share);
        let value = self.leave(share, share.value, &over, here);
        let dtype = self.checker.arena.dtype(id).compute();
        let value = self.checker.sum_over(value, &over, here)?;
        Some(self.checker.converted(value, dtype, here))
    }

    /// The indices of a share that its node does not depend on.
    pub fn extra(&self, id: ExprId, share: &Share) -> Vec<IndexId> {
        let stays = self.around(id);
        share.context.iter().copied().filter(|index| !stays.contains(index)).collect()
    }

    /// The indices that a node depends on, itself or by the branch that it stands in, and those that
    /// these end at.
    fn around(&self, id: ExprId) -> Vec<IndexId> {
        let arena = &self.checker.arena;
        let mut indices = arena.free(id).to_vec();
        for branch in arena.branches(arena.out.exprs[id].guard) {
            indices.extend(branch.condition.iter().flat_map(|(condition, _)| arena.free(*condition)));
        }
        arena.bounded_by(&indices)
    }

    /// The branches around a place that count for a share, the innermost first. Conditions on other
    /// indices have been left where those were summed over.
    pub fn branches_of(&self, share: &Share, guard: GuardId) -> Vec<GuardId> {
        let bound = |index: &IndexId| share.context.contains(index) || self.checker.arena.ends.open.contains(index);
        let counts = |guard: &GuardId| {
            let condition = self.branches.get(guard).map(|(condition, _)| self.checker.arena.free(*condition));
            condition.is_none_or(|free| free.iter().all(bound))
        };
        self.checker.arena.guards(guard).filter(counts).collect()
    }

    /// A share outside the branches that its node does not stand in: it is 0 where they are not
    /// taken. So is a sum, which goes over elements of all branches that depend on its indices.
    pub fn leave(&mut self, share: &Share, mut value: ExprId, over: &[IndexId], here: Here) -> ExprId {
        let around = self.branches_of(share, share.guard);
        for (k, guard) in around.iter().enumerate() {
            let Some((condition, holds)) = self.branches.get(guard).copied() else { continue };
            let mentions = self.checker.arena.free(condition).iter().any(|index| over.contains(index));
            if self.checker.arena.out.within(here.guard, *guard) && !mentions {
                continue;
            }
            let outer = around.get(k + 1).copied().unwrap_or(Checked::TOP);
            value = self.checker.only_if(condition, value, holds, Here { guard: outer, ..here });
        }
        value
    }

    /// Gives the operands of a node their shares of its derivative.
    fn pass_on(&mut self, id: ExprId, derivative: ExprId, context: &[IndexId]) -> Option<()> {
        let here = self.here(id);
        let kind = self.checker.arena.out.exprs[id].kind.clone();
        let mut inner = context.to_vec();
        inner.extend(self.checker.arena.out.bound(&kind));
        match kind {
            Kind::Constant(_) | Kind::Size(_) | Kind::Index(_) | Kind::Param(_) | Kind::Compare(..) => {}
            // A term of a sum under a condition, which stands in both factors.
            Kind::Binary(BinaryOp::Mul, a, b)
                if let Some((condition, true, left)) = self.checker.selected_part(a)
                    && let Some((same, true, right)) = self.checker.selected_part(b)
                    && condition == same =>
            {
                for (factor, other) in [(left, right), (right, left)] {
                    let value = self.checker.times(derivative, other, self.checker.in_branch_of(other, here));
                    self.branch((factor, here.guard), (condition, true), value, context, here);
                }
            }
            Kind::Unary(..) | Kind::Binary(..) | Kind::Fma(..) | Kind::Cast(_) | Kind::Math(..) => {
                // An operand that stands there twice, as in `x * x`, gets one share.
                let mut values: Vec<(ExprId, ExprId)> = vec![];
                for (operand, slope) in self.checker.slopes(id, here)? {
                    if !self.is_active(operand) {
                        continue;
                    }
                    if let Slope::Unknown = slope {
                        self.checker.not_derived(id, "this function");
                        return None;
                    }
                    let slope = self.kept_slope(slope, context, here)?;
                    let value = self.checker.follow(slope, derivative, here);
                    match values.iter_mut().find(|(other, _)| *other == operand) {
                        Some(_) if sabotage::on(Bug::SecondFactor) => {}
                        Some((_, sum)) => *sum = self.checker.plus(*sum, value, here),
                        None => values.push((operand, value)),
                    }
                }
                for (operand, value) in values {
                    self.share(operand, Part::Whole, value, context, here.guard);
                }
            }
            // Bits are integers on one side, which have no derivative.
            Kind::Bitcast(_) => {}
            Kind::If { condition, then, otherwise } => {
                let own = self.checker.arena.out.exprs[id].guard;
                for (branch, holds) in [(then, true), (otherwise, false)] {
                    self.branch((branch, own), (condition, holds), derivative, context, here);
                }
            }
            Kind::Access { array, at } => {
                let at = at.iter().map(|subscript| subscript.value).collect();
                self.share(array, Part::Element(at), derivative, context, here.guard);
            }
            Kind::Reduce { op, over, body, prefix, .. } => match (op, prefix) {
                (ReduceOp::Monoid(monoid), None) => {
                    let slope = self.checker.reduced_slope(id, monoid, &over, body, here)?;
                    let value = self.checker.follow(slope, derivative, here);
                    self.share(body, Part::Whole, value, &inner, here.guard);
                }
                (ReduceOp::Monoid(monoid), Some(prefix)) => {
                    self.scanned(id, monoid, prefix, (over[0], body), derivative, context)?;
                }
                (ReduceOp::Position(_), _) => {}
            },
            Kind::Contract { left, right, .. } => {
                for (factor, mut other) in [(left, right), (right, left)] {
                    if sabotage::on(Bug::OwnFactor) {
                        other = left;
                    }
                    let value = self.checker.times(derivative, other, here);
                    self.share(factor, Part::Whole, value, &inner, here.guard);
                }
            }
            Kind::Comprehension { indices, body } => {
                let value = self.row(derivative, &indices, body, here)?;
                self.share(body, Part::Whole, value, &inner, here.guard);
            }
            Kind::Reshape(of) => {
                let ty = Type { dtype: self.checker.arena.dtype(derivative), ..self.checker.arena.ty(of).clone() };
                let value = self.checker.arena.node(Kind::Reshape(derivative), ty, here);
                self.share(of, Part::Whole, value, context, here.guard);
            }
            Kind::ArrayLiteral(parts) => {
                let shape: Vec<i64> =
                    self.checker.arena.ty(id).shape.iter().filter_map(|length| length.as_constant()).collect();
                for (number, part) in parts.into_iter().enumerate() {
                    let at = position(number, &shape).into_iter().map(Affine::constant).collect();
                    let value = self.checker.arena.element(derivative, at, here);
                    self.share(part, Part::Whole, value, context, here.guard);
                }
            }
            Kind::Sort { index, body, result: Sorted::Values } => {
                self.sorted(index[0], body, derivative, &inner, here)?;
            }
            Kind::Sort { result: Sorted::Numbers, .. } => {}
            // They depend on earlier steps of a loop around them, or on earlier elements of a
            // recurrence, which are not those of this one.
            Kind::State { .. } | Kind::Earlier { .. } => {}
            Kind::Loop { of, .. } => self.looped((id, of), derivative, context, here)?,
            Kind::Recurrence { recurrence, .. } => self.recurred((id, recurrence), derivative, context, here)?,
        }
        Some(())
    }

    /// Whether a scalar is computed from reductions that depend on the values.
    fn reduces(&mut self, id: ExprId) -> bool {
        let mut pending = vec![id];
        let mut seen = BTreeSet::new();
        while let Some(id) = pending.pop() {
            if !self.is_active(id) || !seen.insert(id) {
                continue;
            }
            match &self.checker.arena.out.exprs[id].kind {
                Kind::Reduce { .. } | Kind::Contract { .. } => return true,
                Kind::Access { .. } => {}
                kind => self.checker.arena.out.for_each_operand(kind, |operand| pending.push(operand)),
            }
        }
        false
    }

    /// Gives a branch of an `if`, which stands in `own`, its share.
    fn branch(
        &mut self,
        (branch, own): (ExprId, GuardId),
        (condition, holds): (ExprId, bool),
        value: ExprId,
        context: &[IndexId],
        here: Here,
    ) {
        let guard = self.checker.arena.out.exprs[branch].guard;
        // The branch of the `if` that the value stands in, unless it was computed before.
        let inside = |guard: &GuardId| self.checker.arena.out.guards[*guard] == own;
        let within = self.checker.is_inside(guard, own);
        match within.then(|| self.checker.arena.guards(guard).find(inside)).flatten() {
            Some(outermost) => {
                self.branches.insert(outermost, (condition, holds));
                self.share(branch, Part::Whole, value, context, outermost);
            }
            None => {
                let holds = holds || sabotage::on(Bug::BranchOfBoth);
                let value = self.checker.only_if(condition, value, holds, here);
                self.share(branch, Part::Whole, value, context, here.guard);
            }
        }
    }

    /// The part of a derivative that belongs to one setting of its first indices. Nothing else
    /// reads it, so its elements are written out where they are read, unless these go into sums.
    fn row(&mut self, array: ExprId, indices: &[IndexId], like: ExprId, here: Here) -> Option<ExprId> {
        let shape = self.checker.arena.ty(like).shape.clone();
        let axes = self.checker.arena.axis_indices(&shape, here.span);
        let at: Vec<IndexId> = indices.iter().chain(&axes).copied().collect();
        let whole = at.iter().map(|index| Affine::index(*index)).collect();
        let Kind::Comprehension { indices: own, body } = self.checker.arena.out.exprs[array].kind.clone() else {
            let element = self.checker.arena.element(array, whole, here);
            return Some(self.checker.arena.comprehension(axes, element, here));
        };
        let at = at.iter().map(|index| self.checker.arena.index_node(*index, here)).collect::<Vec<_>>();
        let is_same = !own.iter().any(|index| self.checker.arena.free(body).contains(index));
        let mut place = Place::new(own.into_iter().zip(at).collect(), here.guard, here);
        let element = match self.checker.selected_part(body) {
            _ if is_same || !self.reduces(like) => self.checker.copy(body, &mut place)?,
            Some((condition, holds, _)) => {
                let condition = self.checker.copy(condition, &mut place)?;
                let element = self.checker.arena.element(array, whole, here);
                self.checker.only_if(condition, element, holds, here)
            }
            None => self.checker.arena.element(array, whole, here),
        };
        Some(self.checker.arena.comprehension(axes, element, here))
    }
}

/// The subscripts of the element with a row-major number in an array of a shape.
fn position(mut number: usize, shape: &[i64]) -> Vec<i64> {
    let mut at = vec![];
    for length in shape.iter().rev() {
        let length = usize::try_from(*length).unwrap_or(1).max(1);
        at.push(i64::try_from(number % length).unwrap_or(0));
        number /= length;
    }
    at.reverse();
    at
}
