//! Order statistics: `sort`, `argsort`, `median`, `quantile`, `top`, `searchsorted`.

use grammar::Diagnostic;
use grammar::ast;
use ir::checked::{ExprId, IndexId, Kind, Sorted, State, Subscript, Type};
use ir::nest::{Purpose, Relation, Requirement};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

use super::arena::{Branch, Here};
use super::reducers::Takes;
use super::{Checker, codes, origin};

/// The rows of an array along an axis, sorted.
struct Rows {
    /// The indices of the other axes.
    kept: Vec<IndexId>,
    /// The row at these indices.
    row: ExprId,
    /// Its length.
    length: Size,
    /// The place of the axis among all.
    axis: usize,
}

impl Checker<'_> {
    /// `sort(x, axis = k)` or `argsort(x, axis = k)`, by default along the last axis.
    pub(super) fn sort(&mut self, x: ExprId, axis: Option<usize>, result: Sorted, here: Here) -> Option<ExprId> {
        let axis = axis.unwrap_or(self.arena.ty(x).shape.len().checked_sub(1)?);
        let rows = self.sorted_rows(x, axis, result, here);
        let place = self.arena.index("place", Affine::size(rows.length.clone()), here.span);
        Some(self.over_places(&rows, vec![place], here))
    }

    /// The rows of an array along an axis, each sorted.
    fn sorted_rows(&mut self, x: ExprId, axis: usize, result: Sorted, here: Here) -> Rows {
        // It needs no condition but those that the array needs.
        let here = Here { guard: self.arena.out.exprs[x].guard, ..here };
        let Type { dtype, shape } = self.arena.ty(x).clone();
        let mut kept = self.arena.axis_indices(&shape, here.span);
        let element = self.arena.element(x, kept.iter().map(|i| Affine::index(*i)).collect(), here);
        let index = kept.remove(axis);
        let length = shape[axis].clone();
        let dtype = if result == Sorted::Numbers { Dtype::I64 } else { dtype };
        let ty = Type { dtype, shape: vec![length.clone()] };
        let row = self.arena.node(Kind::Sort { index: [index], body: element, result }, ty, here);
        Rows { kept, row, length, axis }
    }

    /// An array of the elements at these places of each row.
    fn over_places(&mut self, rows: &Rows, places: Vec<IndexId>, here: Here) -> ExprId {
        let at = places.iter().map(|place| Affine::index(*place)).collect();
        let element = self.arena.element(rows.row, at, here);
        let mut indices = rows.kept.clone();
        indices.splice(rows.axis..rows.axis, places);
        self.arena.comprehension(indices, element, here)
    }

    /// `median(x)` of all elements, or along an axis.
    pub(super) fn median(&mut self, x: ExprId, axis: Option<usize>, here: Here) -> Option<ExprId> {
        let (x, axis) = self.along(x, axis, here);
        let rows = self.sorted_rows(x, axis, Sorted::Values, here);
        let n = rows.length.clone();
        let two = Size::constant(2);
        let value = self.of_some(&rows, here, |checker, here| {
            let low = (&n - &Size::constant(1)).floor_div(&two);
            let high = n.floor_div(&two);
            let [below, above] = [&low, &high].map(|place| checker.at_place(&rows, place, here));
            let sum = checker.binary(BinaryOp::Add, below, above, here)?;
            let half = checker.number_like(sum, 0.5, here);
            let middle = checker.binary(BinaryOp::Mul, sum, half, here)?;
            // The sum of two equal elements may be infinite.
            let [low, high] = [low, high].map(|place| checker.arena.size_node(place, here));
            let one = checker.compare(CompareOp::Eq, low, high, here)?;
            Some(checker.choose(one, below, middle, here))
        })?;
        Some(self.arena.comprehension(rows.kept, value, here))
    }

    /// `quantile(x, q)` of all elements, or along an axis: between the elements at both sides of
    /// `q * (n - 1)`, linearly, as NumPy has it.
    fn quantile(&mut self, x: ExprId, q: ExprId, axis: Option<usize>, here: Here) -> Option<ExprId> {
        let (x, axis) = self.along(x, axis, here);
        let rows = self.sorted_rows(x, axis, Sorted::Values, here);
        let last = &rows.length - &Size::constant(1);
        let wide = Type::scalar(Dtype::F64);
        let value = self.of_some(&rows, here, |checker, here| {
            let q = match checker.arena.dtype(q) {
                Dtype::F64 => q,
                _ => checker.arena.node(Kind::Cast(q), wide.clone(), here),
            };
            let last_node = checker.arena.size_node(last.clone(), here);
            let steps = checker.arena.node(Kind::Cast(last_node), wide.clone(), here);
            let virtual_place = checker.binary(BinaryOp::Mul, q, steps, here)?;
            let floor = checker.unary(UnaryOp::Floor, virtual_place, here)?;
            let part = checker.binary(BinaryOp::Sub, virtual_place, floor, here)?;
            // Wherever `q` is, both places are inside.
            let whole = checker.arena.node(Kind::Cast(floor), Type::scalar(Dtype::I64), here);
            let [zero, one] = [0, 1].map(|n| checker.arena.constant(Scalar::I64(n), here));
            let whole = checker.binary(BinaryOp::Max, whole, zero, here)?;
            let low = checker.binary(BinaryOp::Min, whole, last_node, here)?;
            let next = checker.binary(BinaryOp::Add, low, one, here)?;
            let high = checker.binary(BinaryOp::Min, next, last_node, here)?;
            let [below, above] = [low, high].map(|place| checker.at_value(&rows, place, here));
            let dtype = checker.arena.dtype(below);
            let part = match dtype {
                Dtype::F64 => part,
                _ => checker.arena.node(Kind::Cast(part), Type::scalar(dtype), here),
            };
            let between = checker.between(below, above, part, here)?;
            // A `q` that is none gives NaN.
            let [least, most] = [0.0, 1.0].map(|bound| checker.arena.constant(Scalar::F64(bound), here));
            let least = checker.compare(CompareOp::Ge, q, least, here)?;
            let most = checker.compare(CompareOp::Le, q, most, here)?;
            let legal = checker.binary(BinaryOp::And, least, most, here)?;
            let nan = checker.number_like(below, f64::NAN, here);
            Some(checker.choose(legal, between, nan, here))
        })?;
        Some(self.arena.comprehension(rows.kept, value, here))
    }

    /// `a + part * (b - a)`, from the nearer side, so that it is `b` where `part` is 1.
    fn between(&mut self, a: ExprId, b: ExprId, part: ExprId, here: Here) -> Option<ExprId> {
        let [half, one] = [0.5, 1.0].map(|value| self.number_like(part, value, here));
        let distance = self.binary(BinaryOp::Sub, b, a, here)?;
        let [up, rest] =
            [self.binary(BinaryOp::Mul, distance, part, here)?, self.binary(BinaryOp::Sub, one, part, here)?];
        let from_below = self.binary(BinaryOp::Add, a, up, here)?;
        let down = self.binary(BinaryOp::Mul, distance, rest, here)?;
        let from_above = self.binary(BinaryOp::Sub, b, down, here)?;
        let near = self.compare(CompareOp::Ge, part, half, here)?;
        let value = self.choose(near, from_above, from_below, here);
        // Between two equal infinities there is no distance.
        let equal = self.compare(CompareOp::Eq, a, b, here)?;
        Some(self.choose(equal, a, value, here))
    }

    /// A call of `quantile`.
    pub(super) fn quantile_call(
        &mut self,
        x: ast::ExprId,
        q: ast::ExprId,
        axis: Option<ast::ExprId>,
        here: Here,
    ) -> Option<ExprId> {
        let x = self.expr(x, None, here.guard)?;
        let axis = self.reduced_axis("quantile", x, axis, here)?;
        self.expect_elements(Takes::Floats, x, "quantile", here)?;
        let (span, q) = (self.ast(q).span, self.expr(q, Some(Dtype::F64), here.guard)?);
        let ty = self.arena.ty(q);
        if !ty.is_scalar() || !ty.dtype.compute().is_float() {
            let message = format!("`quantile` takes a float from 0 to 1, this is {}", self.arena.show_type(ty));
            let error = Diagnostic::new(codes::DTYPE_EXPECTED, span, message);
            let help = "for several quantiles: `let y[k] = quantile(x, q[k])`";
            self.report.error(if ty.is_scalar() { error } else { error.help(help) });
            return None;
        }
        let q = self.arena.widened(q, here);
        self.quantile(x, q, axis, here)
    }

    /// A call of `top`, which gives two arrays.
    pub(super) fn top_call(
        &mut self,
        k: ast::ExprId,
        x: ast::ExprId,
        axis: Option<ast::ExprId>,
        here: Here,
    ) -> Option<Vec<ExprId>> {
        let k = self.size_argument(k, here.guard)?;
        let x = self.expr(x, None, here.guard)?;
        let axis = self.reduced_axis("top", x, axis, here)?;
        self.expect_elements(Takes::Numbers, x, "top", here)?;
        self.top(k, x, axis, here)
    }

    /// `top(k, x)`: the `k` greatest elements of each row along the last axis, the greatest first,
    /// and their numbers. NaN counts as the least; of equal elements the first comes first.
    fn top(&mut self, k: Size, x: ExprId, axis: Option<usize>, here: Here) -> Option<Vec<ExprId>> {
        let Type { dtype, shape } = self.arena.ty(x).clone();
        let axis = axis.unwrap_or(shape.len().checked_sub(1)?);
        self.requirements.require(Requirement {
            left: k.clone(),
            relation: Relation::AtMost,
            right: shape[axis].clone(),
            unless_empty: vec![],
            left_is: "the number of elements that `top` gives".into(),
            right_is: "the length of the axis".into(),
            purpose: Purpose::Length,
            origin: origin(here.span),
        });
        let opposite = if dtype.is_float() { UnaryOp::Neg } else { UnaryOp::Not };
        let x_wide = self.unary(opposite, x, here)?;
        let rows = self.sorted_rows(x_wide, axis, Sorted::Numbers, here);
        let numbered = |checker: &mut Self| {
            let place = checker.arena.index("place", Affine::size(k.clone()), here.span);
            let number = checker.arena.element(rows.row, vec![Affine::index(place)], here);
            let mut indices = rows.kept.clone();
            indices.insert(axis, place);
            (indices, number)
        };
        let (indices, number) = numbered(self);
        let mut at: Vec<Subscript> = vec![];
        for (axis_of, index) in indices.iter().enumerate() {
            at.push(match axis_of == axis {
                true => Subscript { value: number, affine: None, check: None },
                false => self.arena.subscript(Affine::index(*index), here),
            });
        }
        let value = self.arena.node(Kind::Access { array: x, at }, Type::scalar(dtype), here);
        let values = self.arena.comprehension(indices, value, here);
        let (indices, number) = numbered(self);
        let numbers = self.arena.comprehension(indices, number, here);
        Some(vec![values, numbers])
    }

    /// `searchsorted(a, x)`: for each element of `x` the number of elements of the sorted `a`
    /// before it, by bisection.
    pub(super) fn searchsorted(&mut self, a: ast::ExprId, x: ast::ExprId, here: Here) -> Option<ExprId> {
        let a = self.expr(a, None, here.guard)?;
        let x = self.expr(x, Some(self.arena.dtype(a).compute()), here.guard)?;
        for value in [a, x] {
            self.expect_elements(Takes::Numbers, value, "searchsorted", here)?;
        }
        let [of, wanted] = [a, x].map(|value| self.arena.ty(value).clone());
        if of.shape.len() != 1 {
            let message = format!("`searchsorted` takes a sorted vector, this is {}", self.arena.show_type(&of));
            let error = Diagnostic::new(codes::RANK_MISMATCH, here.span, message);
            self.report.error(error.help("search one row: `searchsorted(a[i], x)`"));
            return None;
        }
        if of.dtype.compute() != wanted.dtype.compute() {
            let message = format!("the operands have different types: `{}` and `{}`", of.dtype, wanted.dtype);
            let error = Diagnostic::new(codes::DTYPE_MISMATCH, here.span, message);
            self.report.error(error.help(format!("convert one: `{}(...)`", of.dtype.compute())));
            return None;
        }
        let indices = self.arena.axis_indices(&wanted.shape, here.span);
        let element = self.arena.element(x, indices.iter().map(|i| Affine::index(*i)).collect(), here);
        let element = self.arena.widened(element, here);
        let place = self.bisect(a, element, &indices, here)?;
        Some(self.arena.comprehension(indices, place, here))
    }

    /// The number of elements of a sorted vector before a number.
    fn bisect(&mut self, a: ExprId, x: ExprId, around: &[IndexId], here: Here) -> Option<ExprId> {
        let integer = Type::scalar(Dtype::I64);
        let zero = self.arena.constant(Scalar::I64(0), here);
        let length = self.arena.ty(a).shape[0].clone();
        let firsts = [zero, self.arena.size_node(length, here)];
        let begin = self.arena.out.exprs.next_key();
        // Each step halves what is left.
        let step = self.arena.index("step", Affine::constant(i64::from(i64::BITS)), here.span);
        let around = self.arena.ends.around().chain(around.iter().copied()).collect();
        let guard = self.arena.branch(here.guard, Branch { needed: true, ..Branch::default() });
        let of = self.arena.begin_loop(step, begin, around, guard, false);
        let [low, high] = [0, 1].map(|number| self.arena.node(Kind::State { of, number }, integer.clone(), here));
        let condition = self.compare(CompareOp::Lt, low, high, here)?;
        self.arena.out.loops[of].condition = Some(condition);
        let outside = here;
        let here = Here { guard, ..here };
        let [one, two] = [1, 2].map(|n| self.arena.constant(Scalar::I64(n), here));
        let rest = self.binary(BinaryOp::Sub, high, low, here)?;
        let half = self.binary(BinaryOp::Div, rest, two, here)?;
        let middle = self.binary(BinaryOp::Add, low, half, here)?;
        let at = vec![Subscript { value: middle, affine: None, check: None }];
        let element = self.arena.node(Kind::Access { array: a, at }, Type::scalar(self.arena.dtype(a)), here);
        let element = self.arena.widened(element, here);
        let mut before = self.compare(CompareOp::Lt, element, x, here)?;
        if self.arena.dtype(x).is_float() {
            // NaN comes after all numbers.
            let is_nan = self.compare(CompareOp::Ne, x, x, here)?;
            let is_number = self.compare(CompareOp::Eq, element, element, here)?;
            let after = self.binary(BinaryOp::And, is_nan, is_number, here)?;
            before = self.binary(BinaryOp::Or, before, after, here)?;
        }
        let next = self.binary(BinaryOp::Add, middle, one, here)?;
        let nexts = [self.choose(before, next, low, here), self.choose(before, high, middle, here)];
        let states = firsts.into_iter().zip([low, high]).zip(nexts);
        let states = states.map(|((first, current), next)| State { first, current, next, needs: vec![0, 1] });
        self.arena.out.loops[of].states = states.collect();
        Some(self.arena.node(Kind::Loop { of, number: 0, step: [step] }, integer, outside))
    }

    /// An array and the axis to sort along: if none is given, all elements in one row.
    fn along(&mut self, x: ExprId, axis: Option<usize>, here: Here) -> (ExprId, usize) {
        let Type { dtype, shape } = self.arena.ty(x).clone();
        match axis {
            Some(axis) => (x, axis),
            None if shape.len() == 1 => (x, 0),
            None => {
                let count = shape.iter().fold(Size::constant(1), |product, n| &product * n);
                (self.arena.node(Kind::Reshape(x), Type { dtype, shape: vec![count] }, here), 0)
            }
        }
    }

    /// A value of each row that has elements and no NaN; NaN for any other.
    fn of_some(
        &mut self,
        rows: &Rows,
        here: Here,
        value: impl FnOnce(&mut Self, Here) -> Option<ExprId>,
    ) -> Option<ExprId> {
        // The accesses in the branch are inside by construction: no proof asks for the condition.
        let branch = Branch { needed: true, ..Branch::default() };
        let inside = Here { guard: self.arena.branch(here.guard, branch), ..here };
        let (length, zero) = (rows.length.clone(), self.arena.constant(Scalar::I64(0), here));
        let length_node = self.arena.size_node(length.clone(), here);
        let some = self.compare(CompareOp::Gt, length_node, zero, here)?;
        let last = self.at_place(rows, &(&length - &Size::constant(1)), inside);
        let value = value(self, inside)?;
        let nan = self.number_like(last, f64::NAN, inside);
        let is_number = self.compare(CompareOp::Eq, last, last, inside)?;
        let value = self.choose(is_number, value, nan, inside);
        let outside = self.number_like(last, f64::NAN, here);
        Some(self.choose(some, value, outside, here))
    }

    /// The element of a sorted row at a place, widened.
    fn at_place(&mut self, rows: &Rows, place: &Size, here: Here) -> ExprId {
        let element = self.arena.element(rows.row, vec![Affine::size(place.clone())], here);
        self.arena.widened(element, here)
    }

    /// The element of a sorted row at a place that is inside, widened.
    fn at_value(&mut self, rows: &Rows, place: ExprId, here: Here) -> ExprId {
        let at = vec![Subscript { value: place, affine: None, check: None }];
        let ty = Type::scalar(self.arena.dtype(rows.row));
        let element = self.arena.node(Kind::Access { array: rows.row, at }, ty, here);
        self.arena.widened(element, here)
    }

    fn number_like(&mut self, like: ExprId, value: f64, here: Here) -> ExprId {
        let value = match self.arena.dtype(like) {
            Dtype::F64 => Scalar::F64(value),
            _ => Scalar::F32(value as f32),
        };
        self.arena.constant(value, here)
    }

    fn choose(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId, here: Here) -> ExprId {
        let ty = self.arena.ty(then).clone();
        self.arena.node(Kind::If { condition, then, otherwise }, ty, here)
    }
}
