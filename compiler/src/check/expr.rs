//! One expression: operators, `if`, casts and literals.
//!
//! Operations that only move a value keep its type. Arithmetic, comparisons, scalar functions and
//! reducers first widen a storage type ([`Checker::compute`]), element by element, where they read
//! it.

use grammar::Diagnostic;
use grammar::ast::{self, ExprKind, Span};
use ir::checked::{ExprId, GuardId, Kind, Type};
use ir::sabotage::{self, Bug};
use ir::{BinaryOp, CompareOp, Dtype, MathFn, Scalar, UnaryOp};

use super::arena::{Arena, Branch, Here};
use super::generic::no_float;
use super::literal::Nature;
use super::reduce::Indexed;
use super::scope::Binding;
use super::{Checker, MAX_EXPRS, builtin, codes, other_languages};

/// The use of operands that must have one type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// They keep their type.
    Moved,
    /// They are computed with, and storage types are widened.
    Computed,
    /// They are compared: also integers of different types.
    Compared,
    /// They are compared for equality. An index or size stays an integer next to a float, because
    /// a float that is to equal one is meant as a key.
    Equated,
}

impl Use {
    /// The type that a value of some type is used at.
    fn dtype(self, dtype: Dtype) -> Dtype {
        match self {
            Use::Moved => dtype,
            Use::Computed | Use::Compared | Use::Equated => dtype.compute(),
        }
    }
}

/// The greatest literal exponent that is written out as multiplications.
const MAX_EXPONENT: u64 = 64;

impl<'a> Checker<'a> {
    /// Checks an expression of one value. `None` means that its error is reported.
    pub(super) fn expr(&mut self, id: ast::ExprId, want: Option<Dtype>, guard: GuardId) -> Option<ExprId> {
        if self.arena.out.exprs.len() > MAX_EXPRS {
            self.report.too_large(self.ast(id).span);
            return None;
        }
        stacker::maybe_grow(128 << 10, 4 << 20, || self.expr_inner(id, want, guard))
    }

    fn expr_inner(&mut self, id: ast::ExprId, want: Option<Dtype>, guard: GuardId) -> Option<ExprId> {
        let ast::Expr { kind, span, .. } = self.ast(id);
        let here = Here { span: *span, guard };
        match kind {
            ExprKind::Int(_) | ExprKind::Float(_) => self.literal(id, want, guard),
            ExprKind::Name(name) => self.name(id, name, want, guard),
            // The last value of a session is a parameter of that name.
            ExprKind::Hole if self.arena.out.params.iter().any(|param| param.name == "_") => {
                self.name(id, "_", want, guard)
            }
            ExprKind::Hole => {
                let message = "`_` stands for a size only in `reshape`";
                self.report.error(Diagnostic::new(codes::HOLE, here.span, message));
                None
            }
            ExprKind::Unary(ast::UnaryOp::Neg, operand) => self.negate(*operand, want, here),
            ExprKind::Unary(ast::UnaryOp::Not, operand) => {
                let operand = self.expr(*operand, None, guard)?;
                self.expect_dtype(operand, Dtype::Bool, "`!`", here.span)?;
                self.unary(UnaryOp::Not, operand, here)
            }
            ExprKind::Binary(op, left, right) => self.operator(*op, *left, *right, want, here),
            ExprKind::If { condition, then, otherwise } => self.if_(*condition, *then, *otherwise, want, here),
            ExprKind::Call { .. } | ExprKind::Loop(_) | ExprKind::Derivative(_) => self.single(id, want, here),
            ExprKind::Cast(dtype, operand) => self.cast_call(*dtype, *operand, here),
            ExprKind::Bitcast { callee, to, of } => {
                let Some(to) = self.type_here(*to) else {
                    self.report.error(no_float(here.span));
                    return None;
                };
                self.bitcast(callee, to, *of, here)
            }
            ExprKind::Reduce { callee, binders, filter, body } => {
                self.reduce_indexed(callee, Indexed { binders, filter: *filter, body: *body }, want, here)
            }
            ExprKind::Index { base, items } => self.access(*base, items, want, here),
            ExprKind::Array(_) => self.array_literal(id, want, guard),
            ExprKind::Tuple(_) => {
                let message = "a tuple can only be the result of a function";
                self.report.error(Diagnostic::new(codes::TUPLE_USE, here.span, message));
                None
            }
        }
    }

    /// The value of an expression that may give several.
    fn single(&mut self, id: ast::ExprId, want: Option<Dtype>, here: Here) -> Option<ExprId> {
        let mut values = self.several(id, &[want], here.guard)?;
        match values.len() {
            1 => values.pop(),
            n => {
                let what = match self.ast(id).kind {
                    ExprKind::Loop(_) => "loop",
                    ExprKind::Derivative(_) => "derivative",
                    _ => "call",
                };
                let message = format!("one value is expected, this {what} gives {n}");
                let help = "take them apart first: `let (a, b) = ...`";
                self.report.error(Diagnostic::new(codes::TUPLE_USE, here.span, message).help(help));
                None
            }
        }
    }

    fn name(&mut self, id: ast::ExprId, name: &str, want: Option<Dtype>, guard: GuardId) -> Option<ExprId> {
        let here = Here { span: self.ast(id).span, guard };
        let span = here.span;
        match self.scope.get(name).cloned() {
            Some(Binding::Value(value)) => return Some(value),
            Some(Binding::Index(value)) => return self.in_context(value, want, here),
            Some(Binding::Size(size)) => {
                let value = self.arena.size_node(size, here);
                return self.in_context(value, want, here);
            }
            Some(Binding::Literal(of)) => return self.untyped_value(of, name, want, span),
            Some(Binding::Unbound | Binding::Broken) => return None,
            None => {}
        }
        match name {
            "true" | "false" => Some(self.arena.constant(Scalar::Bool(name == "true"), here)),
            "pi" | "inf" | "nan" => self.literal(id, want, guard),
            _ if self.has_function(name) || builtin::is_function(name) => {
                let message = format!("`{name}` is a function, not a value");
                self.report
                    .error(Diagnostic::new(codes::NOT_A_VALUE, span, message).help(format!("call it: `{name}(...)`")));
                None
            }
            // Beyond the errors that are shown nobody needs a hint.
            _ if self.report.is_full() => None,
            _ => {
                let names = self.scope.names();
                let near = builtin::nearest(name, names.chain(["pi", "inf", "nan", "true", "false"]));
                let error = Diagnostic::new(codes::UNKNOWN_NAME, span, format!("there is no `{name}` here"));
                self.report.error(match (other_languages::value(name), near) {
                    _ if let Some(made) = self.scope.making(name) => {
                        let message = format!("`{name}` is made from its own elements");
                        Diagnostic::new(codes::READS_ITSELF, span, message)
                            .note("all elements of an array are made at once")
                            .help("an array that refers to earlier elements of itself is a recurrence: write `let rec`")
                            .suggest(Span { end: made.span.start, ..made.span }, "rec ")
                    }
                    (Some((help, Some(instead))), _) => error.help(help).suggest(span, instead),
                    (Some((help, None)), _) => error.help(help),
                    (None, Some(near)) => error.help(format!("did you mean `{near}`?")).suggest(span, near),
                    (None, None) => error.help("names come from parameters, sizes, `let` and indices"),
                });
                None
            }
        }
    }

    /// Two operands of an operation: a literal one takes the other's type.
    pub(super) fn operands(
        &mut self,
        left: ast::ExprId,
        right: ast::ExprId,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<(ExprId, ExprId)> {
        let both = self.same_type(&[left, right], Use::Computed, want, here)?;
        Some((both[0], both[1]))
    }

    /// Operands of one type: literal ones take the type of the others. In arithmetic, a storage
    /// type counts as the type that it widens to.
    pub(super) fn same_type(
        &mut self,
        asts: &[ast::ExprId],
        used: Use,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<Vec<ExprId>> {
        let natures: Vec<Nature> = asts.iter().map(|a| self.nature(*a)).collect();
        let mut values: Vec<Option<ExprId>> = vec![None; asts.len()];
        let mut failed = false;
        for k in (0..asts.len()).filter(|k| natures[*k] == Nature::Typed) {
            values[k] = self.expr(asts[k], want, here.guard);
            failed |= values[k].is_none();
        }
        let known = values.iter().flatten().next().map(|v| self.arena.dtype(*v));
        if failed && known.is_none() {
            return None;
        }
        let point = asts.iter().any(|a| self.has_point(*a));
        let default = if point { Dtype::F32 } else { Dtype::I64 };
        let mut dtype = used.dtype(known.or(want).unwrap_or(default));
        if known.is_none() && natures.contains(&Nature::Sizes) {
            dtype = Nature::Sizes.dtype(dtype);
        }
        for k in (0..asts.len()).filter(|k| natures[*k] != Nature::Typed) {
            let integer = used == Use::Equated && natures[k] == Nature::Sizes && known.is_some();
            let dtype = if integer { Dtype::I64 } else { natures[k].dtype(dtype) };
            values[k] = self.expr(asts[k], Some(dtype), here.guard);
        }
        let values: Vec<ExprId> = values.into_iter().collect::<Option<_>>()?;
        let differs = values.iter().zip(asts).find(|(v, _)| used.dtype(self.arena.dtype(**v)) != dtype);
        let Some((other, id)) = differs else { return Some(values) };
        let compared = matches!(used, Use::Compared | Use::Equated);
        if compared && values.iter().all(|v| self.arena.dtype(*v).is_int()) {
            return Some(values);
        }
        let (first, of) = match values.iter().zip(asts).find(|(v, _)| used.dtype(self.arena.dtype(**v)) == dtype) {
            Some((first, of)) => (self.arena.dtype(*first), Some(*of)),
            None => (dtype, None),
        };
        let other = self.arena.dtype(*other);
        let shown = |d: Dtype| match used.dtype(d) {
            same if same == d => format!("`{d}`"),
            wider => format!("`{d}` (`{wider}` in arithmetic)"),
        };
        let message = format!("the operands have different types: {} and {}", shown(first), shown(other));
        let help =
            format!("nothing converts by itself: write `{}(...)` or `{}(...)`", used.dtype(first), used.dtype(other));
        let mut error = Diagnostic::new(codes::DTYPE_MISMATCH, here.span, message);
        if let Some(of) = of {
            error = error.label(self.ast(of).span, format!("`{first}`"));
        }
        error = error.label(self.ast(*id).span, format!("`{other}`")).help(help);
        // The narrower one is converted: the other type holds its values too, or nearly. But
        // a float that an index is compared with is meant as a key, so it becomes an integer.
        let of = of.unwrap_or(*id);
        let width = |d: Dtype| (d.is_float(), d.bytes());
        let index = values.iter().any(|v| matches!(self.arena.out.exprs[*v].kind, Kind::Index(_)));
        let (from, to) = match width(used.dtype(first)) < width(used.dtype(other)) {
            true if compared && index => (*id, Dtype::I64),
            true => (of, used.dtype(other)),
            false if compared && index => (of, Dtype::I64),
            false => (*id, used.dtype(first)),
        };
        let convert = |error: Diagnostic| match first != Dtype::Bool && other != Dtype::Bool {
            true => error.wrap(self.ast(from).span, format!("{to}("), ")"),
            false => error,
        };
        let converted = values.iter().zip(asts).find(|(_, of)| **of == from).map(|(value, _)| *value);
        let error = match converted {
            Some(value) => self.with_origin(error, value, Some(to), convert),
            None => convert(error),
        };
        self.report.error(error);
        None
    }

    fn operator(
        &mut self,
        op: ast::BinaryOp,
        left: ast::ExprId,
        right: ast::ExprId,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        match op {
            ast::BinaryOp::And | ast::BinaryOp::Or => return self.short_circuit(op, left, right, here),
            ast::BinaryOp::MatMul => return self.matmul(left, right, want, here),
            ast::BinaryOp::Pow => return self.power(left, right, want, here),
            _ => {}
        }
        if let Some(op) = comparison(op) {
            let used = if matches!(op, CompareOp::Eq | CompareOp::Ne) { Use::Equated } else { Use::Compared };
            let both = self.same_type(&[left, right], used, None, here)?;
            return self.compare_numbers(op, both[0], both[1], here);
        }
        let (a, b) = self.operands(left, right, want, here)?;
        let (op, symbol) = arithmetic(op)?;
        self.expect_number(a, symbol, here.span)?;
        self.binary(op, a, b, here)
    }

    /// `a && b` reads `b` only where `a` holds, `a || b` only where it does not. Where `b` has no
    /// access that this protects, it is the plain operation on both: `finish` decides.
    fn short_circuit(
        &mut self,
        op: ast::BinaryOp,
        left: ast::ExprId,
        right: ast::ExprId,
        here: Here,
    ) -> Option<ExprId> {
        let (and, symbol) = (op == ast::BinaryOp::And, if op == ast::BinaryOp::And { "`&&`" } else { "`||`" });
        let a = self.expr(left, None, here.guard)?;
        self.expect_dtype(a, Dtype::Bool, symbol, here.span)?;
        let condition = self.condition(a, and);
        let guard = self.arena.branch(here.guard, Branch { condition, operator: true, ..Branch::default() });
        let b = self.expr(right, None, guard)?;
        self.expect_dtype(b, Dtype::Bool, symbol, here.span)?;
        if !self.arena.ty(a).is_scalar() || !self.arena.ty(b).is_scalar() {
            self.arena.evaluate_always(guard);
            return self.binary(if and { BinaryOp::And } else { BinaryOp::Or }, a, b, here);
        }
        let known = self.arena.constant(Scalar::Bool(!and), here);
        let (then, otherwise) = if and != sabotage::on(Bug::SwappedLogic) { (b, known) } else { (known, b) };
        let id = self.arena.node(Kind::If { condition: a, then, otherwise }, Type::scalar(Dtype::Bool), here);
        self.unfinished.short_circuits.push((id, guard));
        Some(id)
    }

    fn if_(
        &mut self,
        condition: ast::ExprId,
        then: ast::ExprId,
        otherwise: ast::ExprId,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        let condition_span = self.ast(condition).span;
        let condition = self.expr(condition, None, here.guard)?;
        self.expect_dtype(condition, Dtype::Bool, "`if`", condition_span)?;
        let natures = [self.nature(then), self.nature(otherwise)];
        let both = natures[0].max(natures[1]);
        let mut want = want;
        if both != Nature::Typed {
            let point = self.has_point(then) || self.has_point(otherwise);
            want = Some(both.dtype(want.unwrap_or(if point { Dtype::F32 } else { Dtype::I64 })));
        }
        // A branch without a type of its own takes the other's, so the other is looked at first.
        let mut branches = [None, None];
        let first = natures[0] == Nature::Literal || natures[0] < natures[1];
        let order = if first { [1, 0] } else { [0, 1] };
        for k in order {
            let ast = [then, otherwise][k];
            let known = self.condition(condition, k == 0);
            let guard = self.arena.branch(here.guard, Branch { condition: known, ..Branch::default() });
            let value = self.expr(ast, want, guard);
            if let (Some(value), Nature::Literal | Nature::Sizes) = (value, natures[1 - k]) {
                want = Some(natures[1 - k].dtype(self.arena.dtype(value)));
            }
            branches[k] = value.map(|v| (v, guard));
        }
        let mut branches = [branches[0]?, branches[1]?];
        // An operation on literals has the type that it computes in, where one for storage is wanted.
        for k in [0, 1].into_iter().filter(|_| both != Nature::Typed) {
            let [own, other] = [k, 1 - k].map(|k| self.arena.dtype(branches[k].0));
            if own.is_storage() && other == own.compute() {
                branches[k].0 = self.expr([then, otherwise][k], Some(other), branches[k].1)?;
            }
        }
        let [(a, guard_a), (b, guard_b)] = branches;
        let (da, db) = (self.arena.dtype(a), self.arena.dtype(b));
        if da != db {
            let message = format!("the branches have different types: `{da}` and `{db}`");
            let error = Diagnostic::new(codes::DTYPE_MISMATCH, here.span, message)
                .label(self.ast(then).span, format!("`{da}`"))
                .label(self.ast(otherwise).span, format!("`{db}`"));
            self.report.error(error.help(format!("convert one of them: `{da}(...)` or `{db}(...)`")));
            return None;
        }
        let indices = self.lifted_indices(&[condition, a, b], here.span)?;
        let condition = self.arena.lifted_element(condition, &indices, here);
        let then = self.arena.lifted_element(a, &indices, Here { guard: guard_a, ..here });
        let otherwise = self.arena.lifted_element(b, &indices, Here { guard: guard_b, ..here });
        let value = self.arena.node(Kind::If { condition, then, otherwise }, Type::scalar(da), here);
        Some(self.arena.comprehension(indices, value, here))
    }

    /// A condition and whether it holds in a branch. If it is an array, it says nothing about the
    /// indices of a single access.
    pub(super) fn condition(&self, condition: ExprId, holds: bool) -> Option<(ExprId, bool)> {
        self.arena.ty(condition).is_scalar().then_some((condition, holds || sabotage::on(Bug::ElseTaken)))
    }

    /// `x ^ k`, and `pow(x, k)`: repeated multiplication by squaring for a small integer literal
    /// exponent, else a function.
    pub(super) fn power(
        &mut self,
        base: ast::ExprId,
        exponent: ast::ExprId,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        let (negative, magnitude) = match &self.ast(exponent).kind {
            ExprKind::Int(k) => (false, Some(*k)),
            ExprKind::Unary(ast::UnaryOp::Neg, k) => match self.ast(*k).kind {
                ExprKind::Int(k) => (true, Some(k)),
                _ => (false, None),
            },
            _ => (false, None),
        };
        let Some(magnitude) = magnitude.filter(|k| *k <= MAX_EXPONENT) else {
            let (a, b) = self.operands(base, exponent, want, here)?;
            self.expect_number(a, "`^`", here.span)?;
            return self.math_function(MathFn::Pow, &[a, b], here);
        };
        let x = self.expr(base, want.map(Dtype::compute), here.guard)?;
        self.expect_number(x, "`^`", here.span)?;
        let dtype = self.arena.dtype(x).compute();
        let x = self.cast(dtype, x, here)?;
        if negative && magnitude > 0 && !dtype.is_float() {
            let message = format!("an integer (`{dtype}`) has no negative power");
            self.report
                .error(Diagnostic::new(codes::BAD_EXPONENT, here.span, message).help("convert the base: `f32(...)`"));
            return None;
        }
        let mut result: Option<ExprId> = None;
        let mut square = x;
        let mut k = magnitude - u64::from(sabotage::on(Bug::OddPower) && magnitude % 2 == 1);
        while k > 0 {
            if k & 1 == 1 {
                result = Some(match result {
                    Some(product) => self.binary(BinaryOp::Mul, product, square, here)?,
                    None => square,
                });
            }
            k >>= 1;
            if k > 0 {
                square = self.binary(BinaryOp::Mul, square, square, here)?;
            }
        }
        let one = self.arena.constant(Scalar::one(dtype), here);
        match result {
            Some(power) if negative => self.binary(BinaryOp::Div, one, power, here),
            Some(power) => Some(power),
            None => self.lift(&[x], here, |_, _| one),
        }
    }

    /// `f32(e)`
    fn cast_call(&mut self, dtype: ast::Dtype, operand: ast::ExprId, here: Here) -> Option<ExprId> {
        let dtype = self.expect_type(dtype, here.span)?;
        let want = match self.nature(operand) {
            Nature::Typed => None,
            _ if self.has_point(operand) => Some(if dtype.is_float() { dtype } else { Dtype::F64 }),
            Nature::Literal => Some(dtype).filter(|dtype| *dtype != Dtype::Bool),
            // `f32(i / 2)` converts the quotient of integers.
            Nature::Sizes => None,
        };
        let value = self.expr(operand, want, here.guard)?;
        let converted = self.cast(dtype, value, here)?;
        self.conversions.insert(converted);
        Some(converted)
    }

    pub(super) fn cast(&mut self, dtype: Dtype, value: ExprId, here: Here) -> Option<ExprId> {
        if self.arena.dtype(value) == dtype {
            return Some(value);
        }
        self.lift(&[value], here, |arena, v| arena.node(Kind::Cast(v[0]), Type::scalar(dtype), here))
    }

    /// Applies an operation to operands of any ranks, each element first widened to the type it is
    /// computed in.
    pub(super) fn compute(
        &mut self,
        operands: &[ExprId],
        here: Here,
        operation: impl FnOnce(&mut Arena, &[ExprId]) -> ExprId,
    ) -> Option<ExprId> {
        self.lift(operands, here, |arena, elements| {
            let wide: Vec<ExprId> = elements.iter().map(|e| arena.widened(*e, here)).collect();
            operation(arena, &wide)
        })
    }

    pub(super) fn unary(&mut self, op: UnaryOp, a: ExprId, here: Here) -> Option<ExprId> {
        let ty = Type::scalar(self.arena.dtype(a).compute());
        self.compute(&[a], here, |arena, v| arena.node(Kind::Unary(op, v[0]), ty, here))
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId, here: Here) -> Option<ExprId> {
        let ty = Type::scalar(self.arena.dtype(a).compute());
        self.compute(&[a, b], here, |arena, v| arena.node(Kind::Binary(op, v[0], v[1]), ty, here))
    }

    pub(super) fn compare(&mut self, op: CompareOp, a: ExprId, b: ExprId, here: Here) -> Option<ExprId> {
        self.compute(&[a, b], here, |arena, v| {
            arena.node(Kind::Compare(op, v[0], v[1]), Type::scalar(Dtype::Bool), here)
        })
    }

    /// Compares two numbers, which are integers if their types differ.
    fn compare_numbers(&mut self, op: CompareOp, a: ExprId, b: ExprId, here: Here) -> Option<ExprId> {
        let [x, y] = [a, b].map(|v| self.arena.dtype(v).compute());
        if x == y {
            return self.compare(op, a, b, here);
        }
        if x == Dtype::U64 || y == Dtype::U64 {
            // A number below 0 is less than every `u64`.
            let (signed, less) = if x == Dtype::U64 { (b, op.swapped()) } else { (a, op) };
            if self.arena.dtype(signed).is_signed_int() {
                let zero = self.arena.constant(Scalar::zero(self.arena.dtype(signed).compute()), here);
                let (a, b) = (self.cast(Dtype::U64, a, here)?, self.cast(Dtype::U64, b, here)?);
                let plain = self.compare(op, a, b, here)?;
                return match matches!(less, CompareOp::Lt | CompareOp::Le | CompareOp::Ne) {
                    true => {
                        let below = self.compare(CompareOp::Lt, signed, zero, here)?;
                        self.binary(BinaryOp::Or, below, plain, here)
                    }
                    false => {
                        let above = self.compare(CompareOp::Ge, signed, zero, here)?;
                        self.binary(BinaryOp::And, above, plain, here)
                    }
                };
            }
        }
        let wide = if x == Dtype::U64 || y == Dtype::U64 { Dtype::U64 } else { Dtype::I64 };
        let (a, b) = (self.cast(wide, a, here)?, self.cast(wide, b, here)?);
        self.compare(op, a, b, here)
    }

    pub(super) fn expect_dtype(&mut self, value: ExprId, dtype: Dtype, who: &str, span: Span) -> Option<()> {
        let found = self.arena.dtype(value);
        if found == dtype {
            return Some(());
        }
        let message = format!("{who} takes `{dtype}`, this is `{found}`");
        let error = Diagnostic::new(codes::DTYPE_EXPECTED, span, message);
        self.report.error(match dtype {
            Dtype::Bool => error.help("compare it: `... != 0`"),
            _ => error.help(format!("convert it: `{dtype}(...)`")),
        });
        None
    }

    pub(super) fn expect_number(&mut self, value: ExprId, who: &str, span: Span) -> Option<()> {
        if self.arena.dtype(value) != Dtype::Bool {
            return Some(());
        }
        let message = format!("{who} takes numbers, this is `bool`");
        let help = "use `&&`, `||` and `!` on truth values, or convert: `i64(...)`";
        self.report.error(Diagnostic::new(codes::DTYPE_EXPECTED, span, message).help(help));
        None
    }
}

/// The primitive of an arithmetic operator, and how to name it.
pub(super) fn arithmetic(op: ast::BinaryOp) -> Option<(BinaryOp, &'static str)> {
    Some(match op {
        ast::BinaryOp::Add => (BinaryOp::Add, "`+`"),
        ast::BinaryOp::Sub => (BinaryOp::Sub, "`-`"),
        ast::BinaryOp::Mul => (BinaryOp::Mul, "`*`"),
        ast::BinaryOp::Div => (BinaryOp::Div, "`/`"),
        ast::BinaryOp::Rem => (BinaryOp::Rem, "`%`"),
        ast::BinaryOp::Pow => (BinaryOp::Mul, "`^`"),
        _ => return None,
    })
}

fn comparison(op: ast::BinaryOp) -> Option<CompareOp> {
    Some(match op {
        ast::BinaryOp::Eq => CompareOp::Eq,
        ast::BinaryOp::Ne => CompareOp::Ne,
        ast::BinaryOp::Lt => CompareOp::Lt,
        ast::BinaryOp::Le => CompareOp::Le,
        ast::BinaryOp::Gt => CompareOp::Gt,
        ast::BinaryOp::Ge => CompareOp::Ge,
        _ => return None,
    })
}
