//! One expression: operators, `if`, casts and literals.
//!
//! What moves a value keeps its type. Arithmetic, comparisons, scalar functions and reducers first widen a storage type
//! ([`Checker::compute`]), element by element, where they read it.

use grammar::Diagnostic;
use grammar::ast::{self, ExprKind, Span};
use ir::checked::{ExprId, GuardId, Kind, Type};
use ir::sabotage::{self, Bug};
use ir::{BinaryOp, CompareOp, Dtype, MathFn, Scalar, UnaryOp};

use super::{Binding, Branch, Checker, builtin, codes, foreign};

/// What becomes of operands that must have one type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// They keep their type.
    Moved,
    /// They are computed with, and storage types are widened.
    Computed,
}

impl Use {
    /// The type that a value of some type is used at.
    fn dtype(self, dtype: Dtype) -> Dtype {
        match self {
            Use::Moved => dtype,
            Use::Computed => dtype.compute(),
        }
    }
}

/// The greatest literal exponent that is written out as multiplications.
const MAX_EXPONENT: u64 = 64;

impl Checker<'_> {
    /// Checks an expression of one value. `None` means that its error is reported.
    pub(super) fn expr(&mut self, id: ast::ExprId, want: Option<Dtype>) -> Option<ExprId> {
        if self.too_large(self.ast(id).span) {
            return None;
        }
        stacker::maybe_grow(128 << 10, 4 << 20, || self.expr_inner(id, want))
    }

    fn expr_inner(&mut self, id: ast::ExprId, want: Option<Dtype>) -> Option<ExprId> {
        let ast::Expr { kind, span } = self.ast(id);
        let span = *span;
        match kind {
            ExprKind::Int(_) | ExprKind::Float(_) => self.literal(id, want),
            ExprKind::Name(name) => self.name(id, name, want),
            // The last value of a session is a parameter of that name.
            ExprKind::Hole if self.out.params.iter().any(|param| param.name == "_") => self.name(id, "_", want),
            ExprKind::Hole => {
                let message = "`_` stands for a size only in `reshape`";
                self.error(Diagnostic::new(codes::HOLE, span, message));
                None
            }
            ExprKind::Unary(ast::UnaryOp::Neg, operand) => self.negate(*operand, want, span),
            ExprKind::Unary(ast::UnaryOp::Not, operand) => {
                let operand = self.expr(*operand, None)?;
                self.expect_dtype(operand, Dtype::Bool, "`!`", span)?;
                self.unary(UnaryOp::Not, operand, span)
            }
            ExprKind::Binary(op, left, right) => self.operator(*op, *left, *right, want, span),
            ExprKind::If { condition, then, otherwise } => self.if_(*condition, *then, *otherwise, want, span),
            ExprKind::Call { .. } => {
                let mut values = self.call(id, want)?;
                match values.len() {
                    1 => values.pop(),
                    n => {
                        let message = format!("one value is expected, this call gives {n}");
                        let help = "take them apart first: `let (a, b) = ...`";
                        self.error(Diagnostic::new(codes::TUPLE_USE, span, message).help(help));
                        None
                    }
                }
            }
            ExprKind::Cast(dtype, operand) => self.cast_call(*dtype, *operand, span),
            ExprKind::Reduce { callee, binders, body } => self.reduce_indexed(callee, binders, *body, want, span),
            ExprKind::Index { base, items } => self.access(*base, items, span),
            ExprKind::Array(_) => self.array_literal(id, want),
            ExprKind::Tuple(_) => {
                let message = "a tuple can only be the result of a function";
                self.error(Diagnostic::new(codes::TUPLE_USE, span, message));
                None
            }
        }
    }

    fn name(&mut self, id: ast::ExprId, name: &str, want: Option<Dtype>) -> Option<ExprId> {
        let span = self.ast(id).span;
        match self.lookup(name).cloned() {
            Some(Binding::Value(value)) => return Some(value),
            Some(Binding::Size(size)) => return Some(self.size_node(size, span)),
            Some(Binding::Broken) => return None,
            None => {}
        }
        match name {
            "true" | "false" => Some(self.constant(Scalar::Bool(name == "true"), span)),
            "pi" | "inf" | "nan" => self.literal(id, want),
            _ if self.functions.contains_key(name) || builtin::is_function(name) => {
                let message = format!("`{name}` is a function, not a value");
                self.error(Diagnostic::new(codes::NOT_A_VALUE, span, message).help(format!("call it: `{name}(...)`")));
                None
            }
            // Beyond the errors that are shown nobody needs a hint.
            _ if self.full() => None,
            _ => {
                let names = self.scope.names();
                let near = builtin::nearest(name, names.chain(["pi", "inf", "nan", "true", "false"]));
                let error = Diagnostic::new(codes::UNKNOWN_NAME, span, format!("there is no `{name}` here"));
                self.error(match (foreign::value(name), near) {
                    _ if self.making == Some(name) => {
                        let message = format!("`{name}` is made from its own elements");
                        Diagnostic::new(codes::READS_ITSELF, span, message)
                            .note("all elements of an array are made at once")
                            .help(foreign::RUNNING)
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
        span: Span,
    ) -> Option<(ExprId, ExprId)> {
        let both = self.same_type(&[left, right], Use::Computed, want, span)?;
        Some((both[0], both[1]))
    }

    /// Operands of one type: literal ones take the others'. For arithmetic storage types count as what they widen to.
    pub(super) fn same_type(
        &mut self,
        asts: &[ast::ExprId],
        used: Use,
        want: Option<Dtype>,
        span: Span,
    ) -> Option<Vec<ExprId>> {
        let literal: Vec<bool> = asts.iter().map(|a| self.is_literal(*a)).collect();
        let mut values: Vec<Option<ExprId>> = vec![None; asts.len()];
        let mut failed = false;
        for k in (0..asts.len()).filter(|k| !literal[*k]) {
            values[k] = self.expr(asts[k], want);
            failed |= values[k].is_none();
        }
        let known = values.iter().flatten().next().map(|v| self.dtype(*v));
        if failed && known.is_none() {
            return None;
        }
        let point = asts.iter().any(|a| self.has_point(*a));
        let default = if point { Dtype::F32 } else { Dtype::I64 };
        let dtype = used.dtype(known.or(want).unwrap_or(default));
        for k in (0..asts.len()).filter(|k| literal[*k]) {
            values[k] = self.expr(asts[k], Some(dtype));
        }
        let values: Vec<ExprId> = values.into_iter().collect::<Option<_>>()?;
        let differs = values.iter().zip(asts).find(|(v, _)| used.dtype(self.dtype(**v)) != dtype);
        let Some((other, id)) = differs else { return Some(values) };
        let (first, of) = match values.iter().zip(asts).find(|(v, _)| used.dtype(self.dtype(**v)) == dtype) {
            Some((first, of)) => (self.dtype(*first), Some(*of)),
            None => (dtype, None),
        };
        let other = self.dtype(*other);
        let shown = |d: Dtype| match used.dtype(d) {
            same if same == d => format!("`{d}`"),
            wider => format!("`{d}` (`{wider}` in arithmetic)"),
        };
        let message = format!("the operands have different types: {} and {}", shown(first), shown(other));
        let help =
            format!("nothing converts by itself: write `{}(...)` or `{}(...)`", used.dtype(first), used.dtype(other));
        let mut error = Diagnostic::new(codes::DTYPE_MISMATCH, span, message);
        if let Some(of) = of {
            error = error.label(self.ast(of).span, format!("`{first}`"));
        }
        error = error.label(self.ast(*id).span, format!("`{other}`")).help(help);
        // The narrower one is converted: what it holds, the other holds too, or nearly.
        let of = of.unwrap_or(*id);
        let width = |d: Dtype| (d.is_float(), d.bytes());
        let (from, to) = match width(used.dtype(first)) < width(used.dtype(other)) {
            true => (of, used.dtype(other)),
            false => (*id, used.dtype(first)),
        };
        if first != Dtype::Bool && other != Dtype::Bool {
            error = error.wrap(self.ast(from).span, format!("{to}("), ")");
        }
        self.error(error);
        None
    }

    fn operator(
        &mut self,
        op: ast::BinaryOp,
        left: ast::ExprId,
        right: ast::ExprId,
        want: Option<Dtype>,
        span: Span,
    ) -> Option<ExprId> {
        match op {
            ast::BinaryOp::And | ast::BinaryOp::Or => return self.short_circuit(op, left, right, span),
            ast::BinaryOp::MatMul => return self.matmul(left, right, want, span),
            ast::BinaryOp::Pow => return self.power(left, right, want, span),
            _ => {}
        }
        if let Some(op) = comparison(op) {
            let (a, b) = self.operands(left, right, None, span)?;
            return self.compare(op, a, b, span);
        }
        let (a, b) = self.operands(left, right, want, span)?;
        let (op, symbol) = arithmetic(op)?;
        self.expect_number(a, symbol, span)?;
        self.binary(op, a, b, span)
    }

    /// `a && b` reads `b` only where `a` holds, `a || b` only where it does not. Where `b` has no access that this
    /// protects, it is the plain operation on both: `finish` decides.
    fn short_circuit(
        &mut self,
        op: ast::BinaryOp,
        left: ast::ExprId,
        right: ast::ExprId,
        span: Span,
    ) -> Option<ExprId> {
        let (and, symbol) = (op == ast::BinaryOp::And, if op == ast::BinaryOp::And { "`&&`" } else { "`||`" });
        let a = self.expr(left, None)?;
        self.expect_dtype(a, Dtype::Bool, symbol, span)?;
        let (guard, b) = self.branch(a, and, |c| {
            c.branches[c.guard].operator = true;
            c.expr(right, None)
        });
        let b = b?;
        self.expect_dtype(b, Dtype::Bool, symbol, span)?;
        if !self.ty(a).is_scalar() || !self.ty(b).is_scalar() {
            self.branches[guard] = Branch { eager: true, ..Branch::default() };
            return self.binary(if and { BinaryOp::And } else { BinaryOp::Or }, a, b, span);
        }
        let known = self.constant(Scalar::Bool(!and), span);
        let (then, otherwise) = if and != sabotage::on(Bug::SwappedLogic) { (b, known) } else { (known, b) };
        let id = self.node(Kind::If { condition: a, then, otherwise }, Type::scalar(Dtype::Bool), span);
        self.short_circuits.push((id, guard));
        Some(id)
    }

    fn if_(
        &mut self,
        condition: ast::ExprId,
        then: ast::ExprId,
        otherwise: ast::ExprId,
        want: Option<Dtype>,
        span: Span,
    ) -> Option<ExprId> {
        let condition_span = self.ast(condition).span;
        let condition = self.expr(condition, None)?;
        self.expect_dtype(condition, Dtype::Bool, "`if`", condition_span)?;
        let (literal_then, literal_else) = (self.is_literal(then), self.is_literal(otherwise));
        let mut want = want;
        if literal_then && literal_else && want.is_none() {
            let point = self.has_point(then) || self.has_point(otherwise);
            want = Some(if point { Dtype::F32 } else { Dtype::I64 });
        }
        // A literal branch takes the other's type, so the other one is looked at first.
        let mut branches = [None, None];
        let order = if literal_then { [1, 0] } else { [0, 1] };
        for k in order {
            let ast = [then, otherwise][k];
            let (guard, value) = self.branch(condition, k == 0, |c| c.expr(ast, want));
            if let (Some(value), true) = (value, [literal_else, literal_then][k]) {
                want = Some(self.dtype(value));
            }
            branches[k] = value.map(|v| (v, guard));
        }
        let ((a, guard_a), (b, guard_b)) = (branches[0]?, branches[1]?);
        let (da, db) = (self.dtype(a), self.dtype(b));
        if da != db {
            let message = format!("the branches have different types: `{da}` and `{db}`");
            let error = Diagnostic::new(codes::DTYPE_MISMATCH, span, message)
                .label(self.ast(then).span, format!("`{da}`"))
                .label(self.ast(otherwise).span, format!("`{db}`"));
            self.error(error.help(format!("convert one of them: `{da}(...)` or `{db}(...)`")));
            return None;
        }
        let indices = self.lifted_indices(&[condition, a, b], span)?;
        let outer = self.guard;
        let condition = self.lifted_element(condition, outer, &indices, span);
        let then = self.lifted_element(a, guard_a, &indices, span);
        let otherwise = self.lifted_element(b, guard_b, &indices, span);
        let value = self.node(Kind::If { condition, then, otherwise }, Type::scalar(da), span);
        Some(self.comprehension(indices, value, span))
    }

    /// Runs a check in a new branch where a condition holds (or does not).
    fn branch<T>(&mut self, condition: ExprId, holds: bool, body: impl FnOnce(&mut Self) -> T) -> (GuardId, T) {
        let guard = self.out.guards.push(self.guard);
        // A condition that is an array says nothing about the indices of a single access.
        let known = self.ty(condition).is_scalar().then_some((condition, holds || sabotage::on(Bug::ElseTaken)));
        self.branches[guard] = Branch { condition: known, ..Branch::default() };
        let outer = std::mem::replace(&mut self.guard, guard);
        let value = body(self);
        self.guard = outer;
        (guard, value)
    }

    /// `x ^ k`, and `pow(x, k)`: repeated multiplication by squaring for a small integer literal exponent, else a function.
    pub(super) fn power(
        &mut self,
        base: ast::ExprId,
        exponent: ast::ExprId,
        want: Option<Dtype>,
        span: Span,
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
            let (a, b) = self.operands(base, exponent, want, span)?;
            self.expect_number(a, "`^`", span)?;
            return self.math_function(MathFn::Pow, &[a, b], span);
        };
        let x = self.expr(base, want.map(Dtype::compute))?;
        self.expect_number(x, "`^`", span)?;
        let dtype = self.dtype(x).compute();
        let x = self.cast(dtype, x, span)?;
        if negative && magnitude > 0 && !dtype.is_float() {
            let message = format!("an integer (`{dtype}`) has no negative power");
            self.error(Diagnostic::new(codes::BAD_EXPONENT, span, message).help("convert the base: `f32(...)`"));
            return None;
        }
        let mut result: Option<ExprId> = None;
        let mut square = x;
        let mut k = magnitude - u64::from(sabotage::on(Bug::OddPower) && magnitude % 2 == 1);
        while k > 0 {
            if k & 1 == 1 {
                result = Some(match result {
                    Some(product) => self.binary(BinaryOp::Mul, product, square, span)?,
                    None => square,
                });
            }
            k >>= 1;
            if k > 0 {
                square = self.binary(BinaryOp::Mul, square, square, span)?;
            }
        }
        let one = self.constant(Scalar::one(dtype), span);
        match result {
            Some(power) if negative => self.binary(BinaryOp::Div, one, power, span),
            Some(power) => Some(power),
            None => self.lift(&[x], span, |_, _| one),
        }
    }

    /// `f32(e)`
    fn cast_call(&mut self, dtype: ast::Dtype, operand: ast::ExprId, span: Span) -> Option<ExprId> {
        let dtype = element_type(dtype);
        let want = match self.is_literal(operand) {
            true if dtype.is_float() || !self.has_point(operand) && dtype.is_int() => Some(dtype),
            true if self.has_point(operand) => Some(Dtype::F64),
            _ => None,
        };
        let value = self.expr(operand, want)?;
        self.cast(dtype, value, span)
    }

    pub(super) fn cast(&mut self, dtype: Dtype, value: ExprId, span: Span) -> Option<ExprId> {
        if self.dtype(value) == dtype {
            return Some(value);
        }
        self.lift(&[value], span, |c, v| c.node(Kind::Cast(v[0]), Type::scalar(dtype), span))
    }

    /// Applies an operation to operands of any ranks, each element first widened to the type it is computed in.
    pub(super) fn compute(
        &mut self,
        operands: &[ExprId],
        span: Span,
        operation: impl FnOnce(&mut Self, &[ExprId]) -> ExprId,
    ) -> Option<ExprId> {
        self.lift(operands, span, |c, elements| {
            let wide: Vec<ExprId> = elements.iter().map(|e| c.widened(*e, span)).collect();
            operation(c, &wide)
        })
    }

    /// A scalar, widened if its type is for storage alone.
    pub(super) fn widened(&mut self, value: ExprId, span: Span) -> ExprId {
        let dtype = self.dtype(value);
        if !dtype.is_storage() {
            return value;
        }
        self.node(Kind::Cast(value), Type::scalar(dtype.compute()), span)
    }

    pub(super) fn unary(&mut self, op: UnaryOp, a: ExprId, span: Span) -> Option<ExprId> {
        let ty = Type::scalar(self.dtype(a).compute());
        self.compute(&[a], span, |c, v| c.node(Kind::Unary(op, v[0]), ty, span))
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId, span: Span) -> Option<ExprId> {
        let ty = Type::scalar(self.dtype(a).compute());
        self.compute(&[a, b], span, |c, v| c.node(Kind::Binary(op, v[0], v[1]), ty, span))
    }

    pub(super) fn compare(&mut self, op: CompareOp, a: ExprId, b: ExprId, span: Span) -> Option<ExprId> {
        self.compute(&[a, b], span, |c, v| c.node(Kind::Compare(op, v[0], v[1]), Type::scalar(Dtype::Bool), span))
    }

    pub(super) fn expect_dtype(&mut self, value: ExprId, dtype: Dtype, who: &str, span: Span) -> Option<()> {
        let found = self.dtype(value);
        if found == dtype {
            return Some(());
        }
        let message = format!("{who} takes `{dtype}`, this is `{found}`");
        let error = Diagnostic::new(codes::DTYPE_EXPECTED, span, message);
        self.error(match dtype {
            Dtype::Bool => error.help("compare it: `... != 0`"),
            _ => error.help(format!("convert it: `{dtype}(...)`")),
        });
        None
    }

    pub(super) fn expect_number(&mut self, value: ExprId, who: &str, span: Span) -> Option<()> {
        if self.dtype(value) != Dtype::Bool {
            return Some(());
        }
        let message = format!("{who} takes numbers, this is `bool`");
        let help = "use `&&`, `||` and `!` on truth values, or convert: `i64(...)`";
        self.error(Diagnostic::new(codes::DTYPE_EXPECTED, span, message).help(help));
        None
    }
}

/// The type that a name in the source stands for.
pub(super) fn element_type(dtype: ast::Dtype) -> Dtype {
    match dtype {
        ast::Dtype::Bool => Dtype::Bool,
        ast::Dtype::I8 => Dtype::I8,
        ast::Dtype::U8 => Dtype::U8,
        ast::Dtype::I32 => Dtype::I32,
        ast::Dtype::I64 => Dtype::I64,
        ast::Dtype::U32 => Dtype::U32,
        ast::Dtype::U64 => Dtype::U64,
        ast::Dtype::F16 => Dtype::F16,
        ast::Dtype::Bf16 => Dtype::Bf16,
        ast::Dtype::F32 => Dtype::F32,
        ast::Dtype::F64 => Dtype::F64,
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
