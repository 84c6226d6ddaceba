//! Reducers: `sum[k](e)`, `sum[k where c](e)`, `sum(x, axis = 1)`, prefixes, means and
//! contractions.

use std::collections::BTreeSet;

use grammar::Diagnostic;
use grammar::ast::{self, ExprKind};
use ir::checked::{ExprId, Extent, GuardId, IndexId, Kind, Prefix, Type};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, Dtype, Monoid, Order, ReduceOp, Scalar, Size};

use super::arena::{Arena, Branch, Here};
use super::derived::derived;
use super::index::Binds;
use super::reducers::{Finish, Reducer, Takes, reducer};
use super::{Checker, Side, codes};

/// A reducer over indices as it is written, without its name.
#[derive(Clone, Copy)]
pub(super) struct Indexed<'a> {
    /// Its indices.
    pub binders: &'a [ast::Binder],
    /// The condition on its elements.
    pub filter: Option<ast::ExprId>,
    /// The expression that is reduced.
    pub body: ast::ExprId,
}

impl Indexed<'_> {
    /// The expressions inside its indices.
    pub fn parts(&self) -> Vec<ast::ExprId> {
        self.filter.into_iter().chain([self.body]).collect()
    }
}

/// The body of a reducer, with the indices that it is reduced over.
pub(super) struct Body {
    /// The indices, the outermost first.
    pub over: Vec<IndexId>,
    /// Whether an element takes part, if that is a condition.
    pub filter: Option<ExprId>,
    /// The value at each setting of the indices.
    pub value: ExprId,
}

impl Checker<'_> {
    /// `sum[k < n where c](e)`
    pub(super) fn reduce_indexed(
        &mut self,
        callee: &ast::Name,
        indexed: Indexed<'_>,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        self.expect_function(callee)?;
        let user = self.has_function(&callee.text);
        let Some(reducer) = reducer(&callee.text).filter(|_| !user) else {
            let message = format!("`{}` is not a reducer: it takes no indices", callee.text);
            let help = match derived(&callee.text).filter(|_| !user) {
                Some(function) => function.indexed,
                None => "the reducers are sum, prod, max, min, mean, any, all, argmax and argmin",
            };
            self.report.error(Diagnostic::new(codes::NOT_A_REDUCER, callee.span, message).help(help));
            return None;
        };
        if !reducer.is_position()
            && let Some(suffix) = self.suffix(indexed)
        {
            return self.suffix_scan(reducer, &suffix, indexed, want, here);
        }
        let outer = self.prefix_bound(indexed.binders);
        let aside = self.arena.ends.aside.len();
        let same = outer.map(|p| p.of).filter(|of| !self.mentions(indexed.parts(), "", Some(*of)));
        self.arena.ends.aside.extend(same);
        let body = self.under(indexed, want, here.guard);
        let Some(body) = body else {
            self.arena.ends.aside.truncate(aside);
            return None;
        };
        let of = |id: ExprId, p: &Prefix| self.arena.free(id).contains(&p.of);
        let whole = |id: ExprId, p: &Prefix| !of(id, p) && !self.arena.reads_earlier(id);
        let prefix = outer.filter(|p| [Some(body.value), body.filter].into_iter().flatten().all(|id| whole(id, p)));
        // Where indices bound one another or elements are left out, some reducers go through them
        // twice.
        let uneven = body.filter.is_some() || self.arena.bound_one_another(&body.over);
        let again = match uneven && (reducer.finish == Finish::OverCount || reducer.is_position()) {
            true => self.under(indexed, want, here.guard).map(Some),
            false => Some(None),
        };
        self.arena.ends.aside.truncate(aside);
        self.elements(reducer, body, again?, prefix, here)
    }

    /// Reduces a body, of an array each of its elements. `again` is the body over other indices, for
    /// reducers that go through the elements twice.
    pub(super) fn elements(
        &mut self,
        reducer: Reducer,
        body: Body,
        again: Option<Body>,
        prefix: Option<Prefix>,
        here: Here,
    ) -> Option<ExprId> {
        let axes = self.arena.axis_indices(&self.arena.ty(body.value).shape.clone(), here.span);
        let at: Vec<_> = axes.iter().map(|i| Affine::index(*i)).collect();
        let element = Body { value: self.arena.element(body.value, at.clone(), here), ..body };
        let value = match (reducer.op, again) {
            (op @ ReduceOp::Position(extreme), Some(again)) => {
                self.expect_number(again.value, &format!("`{op}`"), here.span)?;
                let again = Body { value: self.arena.element(again.value, at, here), ..again };
                self.ragged_position(extreme, element, again, here)?
            }
            (ReduceOp::Monoid(_), Some(again)) => self.ragged_mean(reducer, element, again, prefix, here)?,
            (op, None) => {
                let first = self.first_value(&element.over).filter(|_| matches!(op, ReduceOp::Position(_)));
                let value = self.reduction(reducer, element, prefix, here)?;
                match first {
                    Some(first) => self.binary(BinaryOp::Add, first, value, here)?,
                    None => value,
                }
            }
        };
        Some(self.arena.comprehension(axes, value, here))
    }

    /// An expression under the indices of a reducer.
    fn under(&mut self, indexed: Indexed<'_>, want: Option<Dtype>, guard: GuardId) -> Option<Body> {
        let depth = self.scope.len();
        let indices = self.open(indexed.binders, Binds::Reducer, guard)?;
        self.inside(indices, depth, indexed, want, guard)
    }

    /// The condition and the body of a reducer inside its indices, which are then closed. `depth`
    /// is the scope before them.
    pub(super) fn inside(
        &mut self,
        indices: Vec<IndexId>,
        depth: usize,
        Indexed { filter, body, .. }: Indexed<'_>,
        want: Option<Dtype>,
        guard: GuardId,
    ) -> Option<Body> {
        let filter = filter.map(|filter| self.filter(filter, guard));
        let inside = match filter {
            Some(Some(filter)) => {
                let condition = self.condition(filter, true);
                self.arena.branch(guard, Branch { condition, ..Branch::default() })
            }
            Some(None) | None => guard,
        };
        let body = self.expr(body, want, inside);
        self.scope.truncate(depth);
        let sound = body.is_some() && filter.is_none_or(|filter| filter.is_some());
        self.excuse(&indices, sound);
        self.close(&indices, Binds::Reducer);
        let (value, true) = (body?, sound) else { return None };
        let sound = !self.arena.ends.any_poisoned(&indices);
        sound.then_some(Body { over: indices, filter: filter.flatten(), value })
    }

    /// `k <= i` or `k < i` where `i` is an index: the bound of a prefix.
    fn prefix_bound(&self, binders: &[ast::Binder]) -> Option<Prefix> {
        let [ast::Binder { lower: None, upper: Some(bound), .. }] = binders else { return None };
        let ExprKind::Name(name) = &self.ast(bound.limit).kind else { return None };
        let value = self.scope.get(name)?.value()?;
        match self.arena.out.exprs[value].kind {
            // Steps of loops run one after another: nothing goes over all of them at once.
            Kind::Index(of) if self.arena.out.steps[of].is_none() => {
                Some(Prefix { of, inclusive: bound.inclusive || sabotage::on(Bug::PrefixToo) })
            }
            _ => None,
        }
    }

    /// The element of a reduction where a condition holds, else one that changes nothing.
    pub(super) fn selected(&mut self, filter: Option<ExprId>, value: ExprId, monoid: Monoid, here: Here) -> ExprId {
        let Some(condition) = filter else { return value };
        let dtype = self.arena.dtype(value);
        let otherwise = self.arena.constant(monoid.identity(dtype), here);
        let kind = Kind::If { condition, then: value, otherwise };
        self.arena.node(kind, Type::scalar(dtype), here)
    }

    /// A term of a sum where a condition holds, else 0. Of a product that may become a contraction,
    /// both factors are selected, so that it stays one; where the condition does not hold, the
    /// product of zeros has the same bits.
    fn selected_term(&mut self, filter: Option<ExprId>, term: ExprId, here: Here) -> ExprId {
        if let (Some(_), Kind::Binary(BinaryOp::Mul, a, b)) = (filter, &self.arena.out.exprs[term].kind) {
            let [a, b] = [*a, *b].map(|factor| self.selected(filter, factor, Monoid::Sum, here));
            if self.arena.each_has_own(a, b) {
                let ty = self.arena.ty(term).clone();
                return self.arena.node(Kind::Binary(BinaryOp::Mul, a, b), ty, here);
            }
        }
        self.selected(filter, term, Monoid::Sum, here)
    }

    /// The first value of the only index, if it is not 0.
    pub(super) fn first_value(&self, over: &[IndexId]) -> Option<ExprId> {
        let [index] = over else { return None };
        self.arena.ends.first.get(index).copied()
    }

    /// The condition on the elements of a reducer: one truth value.
    fn filter(&mut self, filter: ast::ExprId, guard: GuardId) -> Option<ExprId> {
        let span = self.ast(filter).span;
        let filter = self.expr(filter, None, guard)?;
        self.expect_dtype(filter, Dtype::Bool, "`where`", span)?;
        if !self.arena.ty(filter).is_scalar() {
            let shown = self.arena.show_type(&self.arena.ty(filter).clone());
            let message = format!("`where` takes one truth value for each element, this is {shown}");
            let help = "give its arrays subscripts: `sum[i where x[i] > 0](x[i])`";
            self.report.error(Diagnostic::new(codes::RANK_MISMATCH, span, message).help(help));
            return None;
        }
        Some(filter)
    }

    /// `sum(x)` and `sum(x, axis = k)`
    pub(super) fn reduce_array(
        &mut self,
        reducer: Reducer,
        x: ast::ExprId,
        axis: Option<ast::ExprId>,
        here: Here,
    ) -> Option<ExprId> {
        let x = self.expr(x, None, here.guard)?;
        let axis = self.reduced_axis(reducer.name, x, axis, here)?;
        self.reduce_along(reducer, x, axis, here)
    }

    /// The axis of an array that a function is given, if it is given one.
    pub(super) fn reduced_axis(
        &mut self,
        name: &str,
        x: ExprId,
        axis: Option<ast::ExprId>,
        here: Here,
    ) -> Option<Option<usize>> {
        let rank = self.arena.ty(x).shape.len();
        if rank == 0 {
            let message = format!("`{name}` takes an array, this is a scalar");
            self.report.error(Diagnostic::new(codes::RANK_MISMATCH, here.span, message));
            return None;
        }
        Some(match axis {
            Some(axis) => Some(self.literal_axis(axis, rank)?),
            None => None,
        })
    }

    /// Reduces an array along an axis, or all of it.
    pub(super) fn reduce_along(
        &mut self,
        reducer: Reducer,
        x: ExprId,
        axis: Option<usize>,
        here: Here,
    ) -> Option<ExprId> {
        let shape = self.arena.ty(x).shape.clone();
        let indices = self.arena.axis_indices(&shape, here.span);
        let element = self.arena.element(x, indices.iter().map(|i| Affine::index(*i)).collect(), here);
        let (over, kept): (Vec<IndexId>, Vec<IndexId>) = match axis {
            None => (indices, vec![]),
            Some(k) => {
                (vec![indices[k]], indices.into_iter().enumerate().filter(|(j, _)| *j != k).map(|(_, i)| i).collect())
            }
        };
        let value = self.reduction(reducer, Body { over, filter: None, value: element }, None, here)?;
        Some(self.arena.comprehension(kept, value, here))
    }

    pub(super) fn reduction(
        &mut self,
        reducer: Reducer,
        body: Body,
        prefix: Option<Prefix>,
        here: Here,
    ) -> Option<ExprId> {
        let Body { over, filter, value: body } = body;
        let Reducer { name, op, takes, finish } = reducer;
        self.expect_elements(takes, body, name, here)?;
        let body = self.arena.widened(body, here);
        let body = match op {
            ReduceOp::Monoid(Monoid::Sum) => self.selected_term(filter, body, here),
            ReduceOp::Monoid(monoid) => self.selected(filter, body, monoid, here),
            ReduceOp::Position(_) => body,
        };
        let dtype = self.arena.dtype(body);
        let order = match (op.depends_on_order(dtype), prefix) {
            (false, _) => Order::Free,
            (true, Some(_)) => Order::Scan,
            (true, None) => self.arena.order_of(body, *over.last()?),
        };
        let count = match finish {
            Finish::OverCount => Some(self.count(&over, prefix, here)?),
            Finish::State => None,
        };
        let product = matches!(self.arena.out.exprs[body].kind, Kind::Binary(BinaryOp::Mul, a, b) if self.arena.each_has_own(a, b));
        let ty = Type::scalar(op.result(dtype));
        let value = self.arena.node(Kind::Reduce { op, over: over.clone(), body, order, prefix, by: vec![] }, ty, here);
        if filter.is_some() {
            self.unfinished.keyed.push(value);
        }
        self.guard_ends(&over, here.guard);
        // A prefix with the element itself is never empty.
        let empty = prefix.is_none_or(|p| !p.inclusive);
        if let (ReduceOp::Position(_), true) = (op, empty) {
            return self.position(op, value, &over, here);
        }
        if product && reducer.is_sum() && prefix.is_none() {
            self.unfinished.contractions.push(value);
        }
        match count {
            Some(count) => {
                let count = self.cast(dtype, count, here)?;
                self.binary(BinaryOp::Div, value, count, here)
            }
            None => Some(value),
        }
    }

    /// Keeps a reduction or a loop in its branch if an arbitrary number or data determines where it
    /// ends, because it may take arbitrarily long.
    pub(super) fn guard_ends(&mut self, over: &[IndexId], guard: GuardId) {
        let open = |index: &IndexId| match &self.arena.out.indices[*index].extent {
            Extent::Affine(extent) => extent.as_size().is_some_and(|size| !self.facts().is_small(size)),
            Extent::Dynamic(_) => true,
        };
        if over.iter().any(open) {
            self.arena.protect_ends(over, guard);
        }
    }

    /// Reports elements of a type that a reducer or function of that name does not take.
    pub(super) fn expect_elements(&mut self, takes: Takes, x: ExprId, name: &str, here: Here) -> Option<()> {
        let (who, found) = (format!("`{name}`"), self.arena.dtype(x));
        match takes {
            Takes::Floats if !found.is_float() => {
                let message = format!("{who} takes floats, this is `{found}`");
                let error = Diagnostic::new(codes::DTYPE_EXPECTED, here.span, message);
                self.report.error(error.help("convert it: `f32(...)`"));
                None
            }
            Takes::Bools => self.expect_dtype(x, Dtype::Bool, &who, here.span),
            Takes::Numbers | Takes::Floats => self.expect_number(x, &who, here.span),
        }
    }

    /// A mean where indices bound one another or elements are left out: the elements are counted
    /// by a second reduction, over indices of its own.
    fn ragged_mean(
        &mut self,
        mean: Reducer,
        body: Body,
        again: Body,
        prefix: Option<Prefix>,
        here: Here,
    ) -> Option<ExprId> {
        let sum = self.reduction(Reducer { finish: Finish::State, ..mean }, body, prefix, here)?;
        let one = self.arena.constant(Scalar::I64(1), here);
        let body = self.selected(again.filter, one, Monoid::Sum, here);
        let op = ReduceOp::Monoid(Monoid::Sum);
        let ones = Kind::Reduce { op, over: again.over, body, order: Order::Free, prefix, by: vec![] };
        let count = self.arena.node(ones, Type::scalar(Dtype::I64), here);
        if again.filter.is_some() {
            self.unfinished.keyed.push(count);
        }
        let count = self.cast(self.arena.dtype(sum), count, here)?;
        self.binary(BinaryOp::Div, sum, count, here)
    }

    /// How many elements a mean has, as `i64`.
    fn count(&mut self, over: &[IndexId], prefix: Option<Prefix>, here: Here) -> Option<ExprId> {
        if let Some(Prefix { of, inclusive }) = prefix {
            let count = Affine::index(of).add(&Affine::constant(i64::from(inclusive)));
            return Some(self.arena.affine_node(&count, here));
        }
        let mut product: Option<ExprId> = None;
        for index in over {
            if self.arena.ends.unsolved.contains(index) {
                self.arena.ends.poison(*index);
                let name = self.arena.out.indices[*index].name.clone();
                let message = format!("nothing says where the index `{name}` ends, so its mean has no count");
                let help = format!("give it a bound: `{name} < n`");
                self.report.error(Diagnostic::new(codes::UNBOUNDED_INDEX, here.span, message).help(help));
                return None;
            }
            let count = match self.arena.out.indices[*index].extent.clone() {
                Extent::Affine(extent) if extent.as_size().is_some_and(|s| self.facts().never_negative(s)) => {
                    self.arena.affine_node(&extent, here)
                }
                extent => {
                    let count = match extent {
                        Extent::Affine(extent) => self.arena.affine_node(&extent, here),
                        Extent::Dynamic(count) => count,
                    };
                    let zero = self.arena.constant(Scalar::I64(0), here);
                    self.binary(BinaryOp::Max, count, zero, here)?
                }
            };
            product = Some(match product {
                Some(product) => self.binary(BinaryOp::Mul, product, count, here)?,
                None => count,
            });
        }
        product
    }

    /// `a @ b`: the last axis of `a` with the last but one of `b` (or its only one); axes before
    /// those go together as in any operation on two arrays.
    pub(super) fn matmul(
        &mut self,
        left: ast::ExprId,
        right: ast::ExprId,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        let (a, b) = self.operands(left, right, want, here)?;
        self.expect_number(a, "`@`", here.span)?;
        let (sa, sb) = (self.arena.ty(a).shape.clone(), self.arena.ty(b).shape.clone());
        if sa.is_empty() || sb.is_empty() {
            let message = "`@` multiplies arrays, this is a scalar";
            self.report
                .error(Diagnostic::new(codes::RANK_MISMATCH, here.span, message).help("a scalar is multiplied by `*`"));
            return None;
        }
        let (k_a, k_b) = (sa.len() - 1, sb.len().saturating_sub(2));
        let (name_a, name_b) = (self.arena.describe(a), self.arena.describe(b));
        let axis_a = |k: usize| Side::new(&sa[k], format!("axis {k} of {name_a}"));
        let axis_b = |k: usize| Side::new(&sb[k], format!("axis {k} of {name_b}"));
        let inner = self.unify(axis_a(k_a), axis_b(k_b), here.span)?;
        let rows = (sa.len() > 1).then(|| sa[k_a - 1].clone());
        let columns = (sb.len() > 1).then(|| sb[sb.len() - 1].clone());
        let (batch_a, batch_b) = (sa.len().saturating_sub(2), sb.len().saturating_sub(2));
        // The batch axes, matched from the last backwards.
        let count = batch_a.max(batch_b);
        let mut batch: Vec<Size> = vec![];
        for k in 0..count {
            let own_a = (k + batch_a).checked_sub(count).map(axis_a);
            let own_b = (k + batch_b).checked_sub(count).map(axis_b);
            batch.push(match (own_a, own_b) {
                (Some(side), None) | (None, Some(side)) => side.size,
                (Some(a), Some(b)) if a.size.as_constant() == Some(1) => b.size,
                (Some(a), Some(b)) if b.size.as_constant() == Some(1) => a.size,
                (Some(a), Some(b)) => self.unify(a, b, here.span)?,
                (None, None) => Size::constant(1),
            });
        }
        let batch = self.arena.axis_indices(&batch, here.span);
        let row = rows.map(|n| self.arena.index("i", Affine::size(n), here.span));
        let column = columns.map(|n| self.arena.index("j", Affine::size(n), here.span));
        let along = self.arena.index("k", Affine::size(inner), here.span);
        let own = |shape: &[Size], axes: usize| -> Vec<Affine<IndexId>> {
            let indices = &batch[count - axes..];
            let stretched = |(i, n): (&IndexId, &Size)| match n.as_constant() {
                Some(1) => Affine::constant(0),
                _ => Affine::index(*i),
            };
            indices.iter().zip(shape).map(stretched).collect()
        };
        let mut at_a = own(&sa, batch_a);
        at_a.extend(row.into_iter().chain([along]).map(Affine::index));
        let mut at_b = own(&sb, batch_b);
        at_b.extend([along].into_iter().chain(column).map(Affine::index));
        let (left, right) = (self.arena.element(a, at_a, here), self.arena.element(b, at_b, here));
        let (left, right) = (self.arena.widened(left, here), self.arena.widened(right, here));
        let ty = Type::scalar(self.arena.dtype(left));
        let value = self.arena.node(Kind::Contract { over: vec![along], left, right }, ty, here);
        let indices = batch.into_iter().chain(row).chain(column).collect();
        Some(self.arena.comprehension(indices, value, here))
    }
}

impl Arena {
    /// The order of a reduction. Among the accesses that mention the last reduced index, those that
    /// mention the most indices decide: by lanes if the index stands in the last subscript of one
    /// of them, else by blocks. So a weight for each row does not change the order of a sum of the
    /// rows of a matrix. An earlier element of a recurrence counts as one of an array without the
    /// index that decides, as in a loop over arrays.
    pub fn order_of(&self, body: ExprId, last: IndexId) -> Order {
        let mut seen = BTreeSet::new();
        let mut pending = vec![body];
        let (mut most, mut order) = (0, Order::Blocks);
        while let Some(id) = pending.pop() {
            // Skip whatever does not mention the index, such as everything that was computed
            // before.
            if !self.free(id).contains(&last) || !seen.insert(id) {
                continue;
            }
            match &self.out.exprs[id].kind {
                Kind::Constant(_)
                | Kind::Size(_)
                | Kind::Index(_)
                | Kind::Param(_)
                | Kind::State { .. }
                | Kind::Earlier { .. } => {}
                Kind::Loop { of, .. } => {
                    pending.extend(self.out.loops[*of].states.iter().flat_map(|state| [state.first, state.next]));
                }
                Kind::Unary(_, a) | Kind::Cast(a) | Kind::Bitcast(a) | Kind::Reshape(a) => pending.push(*a),
                Kind::Binary(_, a, b) | Kind::Compare(_, a, b) => pending.extend([*a, *b]),
                Kind::Fma(a, b, c) | Kind::If { condition: a, then: b, otherwise: c } => pending.extend([*a, *b, *c]),
                Kind::Math(_, list) | Kind::ArrayLiteral(list) => pending.extend(list),
                Kind::Access { array, at } => {
                    let mentioned: BTreeSet<IndexId> = at.iter().flat_map(|s| self.free(s.value)).copied().collect();
                    let is_earlier = matches!(self.out.exprs[*array].kind, Kind::Earlier { .. });
                    let count = mentioned.len() - usize::from(is_earlier && mentioned.len() > 1);
                    if mentioned.contains(&last) && count >= most {
                        let along = at.last().is_some_and(|s| self.free(s.value).contains(&last));
                        let others = if count > most { Order::Blocks } else { order };
                        (most, order) = (count, if along { Order::Lanes } else { others });
                    }
                    pending.push(*array);
                    pending.extend(at.iter().map(|s| s.value));
                }
                Kind::Reduce { body, .. } | Kind::Comprehension { body, .. } | Kind::Sort { body, .. } => {
                    pending.push(*body);
                }
                Kind::Contract { left, right, .. } => pending.extend([*left, *right]),
                Kind::Recurrence { recurrence, .. } => {
                    pending.extend(self.out.recurrences[*recurrence].equations.iter().map(|equation| equation.body));
                }
            }
        }
        order
    }

    /// Whether each of two factors mentions an index that the other lacks. The step of a loop is
    /// none, so that an unrolled loop has the same bits.
    pub fn each_has_own(&self, a: ExprId, b: ExprId) -> bool {
        let is_own = |i: &IndexId, other: ExprId| self.out.steps[*i].is_none() && !self.free(other).contains(i);
        let lacks = |x: ExprId, y: ExprId| self.free(x).iter().any(|i| is_own(i, y));
        lacks(a, b) && lacks(b, a)
    }
}
