//! One expression: operators, `if`, casts and literals.
//!
//! A *literal expression* (numbers, `pi inf nan`, and arithmetic, scalar functions and `if` of those) has no type of
//! its own: it takes the whole of its context's type, `want`. Without a context it is `i64`, or `f32` if it has a point.

use grammar::Diagnostic;
use grammar::ast::{self, ExprKind, Span};
use ir::checked::{ExprId, GuardId, Kind, Type};
use ir::{BinaryOp, CompareOp, Dtype, MathFn, Scalar, Size, UnaryOp};

use super::{Binding, Branch, Checker, builtin, codes};

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
            _ => {
                let names = self.scope.iter().map(|(n, _)| n.as_str());
                let near = builtin::nearest(name, names.chain(["pi", "inf", "nan", "true", "false"]));
                let error = Diagnostic::new(codes::UNKNOWN_NAME, span, format!("there is no `{name}` here"));
                self.error(match near {
                    Some(near) => error.help(format!("did you mean `{near}`?")),
                    None => error.help("names come from parameters, sizes, `let` and indices"),
                });
                None
            }
        }
    }

    /// Whether an expression is literal: it takes the type of its context.
    pub(super) fn is_literal(&self, id: ast::ExprId) -> bool {
        let literal = |id: &ast::ExprId| stacker::maybe_grow(64 << 10, 1 << 20, || self.is_literal(*id));
        match &self.ast(id).kind {
            ExprKind::Int(_) | ExprKind::Float(_) => true,
            ExprKind::Name(name) => matches!(name.as_str(), "pi" | "inf" | "nan") && self.lookup(name).is_none(),
            ExprKind::Unary(ast::UnaryOp::Neg, a) => literal(a),
            ExprKind::Binary(op, a, b) => arithmetic(*op).is_some() && literal(a) && literal(b),
            ExprKind::If { then, otherwise, .. } => literal(then) && literal(otherwise),
            ExprKind::Array(elements) => elements.iter().all(literal),
            ExprKind::Call { callee, args } => {
                builtin::is_scalar_function(&callee.text, args.len())
                    && !self.functions.contains_key(callee.text.as_str())
                    && args.iter().all(|a| literal(&a.value))
            }
            _ => false,
        }
    }

    /// The type of a literal expression without a context.
    pub(super) fn default_dtype(&self, id: ast::ExprId) -> Dtype {
        if self.has_point(id) { Dtype::F32 } else { Dtype::I64 }
    }

    fn has_point(&self, id: ast::ExprId) -> bool {
        let any = |id: &ast::ExprId| stacker::maybe_grow(64 << 10, 1 << 20, || self.has_point(*id));
        match &self.ast(id).kind {
            ExprKind::Float(_) | ExprKind::Name(_) => true,
            ExprKind::Unary(_, a) => any(a),
            ExprKind::Binary(_, a, b) | ExprKind::If { then: a, otherwise: b, .. } => any(a) || any(b),
            ExprKind::Array(elements) => elements.iter().any(any),
            ExprKind::Call { callee, args } => {
                builtin::is_float_function(&callee.text) || args.iter().any(|a| any(&a.value))
            }
            _ => false,
        }
    }

    /// A number or a named constant of the type that its context wants.
    fn literal(&mut self, id: ast::ExprId, want: Option<Dtype>) -> Option<ExprId> {
        let dtype = want.unwrap_or_else(|| self.default_dtype(id));
        let ast::Expr { kind, span } = self.ast(id);
        let value = match (kind, dtype) {
            (ExprKind::Int(v), Dtype::I32 | Dtype::I64) => return self.integer(*v, false, dtype, *span),
            (ExprKind::Int(v), _) => float_scalar(dtype, &v.to_string()),
            (ExprKind::Float(text), _) => float_scalar(dtype, text),
            (ExprKind::Name(name), _) if name == "pi" => float_scalar(dtype, "3.14159265358979323846264338327950288"),
            (ExprKind::Name(name), _) => float_scalar(dtype, name),
            _ => None,
        };
        let Some(value) = value else {
            let message = format!("a literal of type `{dtype}` is expected here");
            let error = Diagnostic::new(codes::LITERAL_TYPE, *span, message);
            self.error(match dtype {
                Dtype::Bool => error.here("this is a number").help("compare it: `x != 0`"),
                _ => error
                    .here("this is no integer")
                    .help(format!("convert the other side to a float, or this one: `{dtype}(...)`")),
            });
            return None;
        };
        let overflow =
            matches!(value, Scalar::F32(v) if v.is_infinite()) || matches!(value, Scalar::F64(v) if v.is_infinite());
        if overflow && !matches!(kind, ExprKind::Name(_)) {
            let message = format!("the literal is beyond the range of `{dtype}`");
            self.error(Diagnostic::new(codes::LITERAL_RANGE, *span, message).help("write `inf` if that is meant"));
            return None;
        }
        Some(self.constant(value, *span))
    }

    fn integer(&mut self, magnitude: u64, negative: bool, dtype: Dtype, span: Span) -> Option<ExprId> {
        let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
        let scalar = match dtype {
            Dtype::I32 => i32::try_from(value).ok().map(Scalar::I32),
            _ => i64::try_from(value).ok().map(Scalar::I64),
        };
        if scalar.is_none() {
            let message = format!("the literal {value} does not fit `{dtype}`");
            self.error(Diagnostic::new(codes::LITERAL_RANGE, span, message));
        }
        Some(self.constant(scalar?, span))
    }

    fn negate(&mut self, operand: ast::ExprId, want: Option<Dtype>, span: Span) -> Option<ExprId> {
        let dtype = want.unwrap_or(Dtype::I64);
        if let (ExprKind::Int(v), Dtype::I32 | Dtype::I64) = (&self.ast(operand).kind, dtype) {
            return self.integer(*v, true, dtype, span);
        }
        let value = self.expr(operand, want)?;
        self.expect_number(value, "`-`", span)?;
        if let Kind::Constant(c) = self.out.exprs[value].kind {
            match c {
                Scalar::F32(v) => return Some(self.constant(Scalar::F32(-v), span)),
                Scalar::F64(v) => return Some(self.constant(Scalar::F64(-v), span)),
                _ => {}
            }
        }
        self.unary(UnaryOp::Neg, value, span)
    }

    /// Two operands of one type: a literal one takes the other's.
    pub(super) fn operands(
        &mut self,
        left: ast::ExprId,
        right: ast::ExprId,
        want: Option<Dtype>,
        span: Span,
    ) -> Option<(ExprId, ExprId)> {
        let both = self.same_type(&[left, right], want, span)?;
        Some((both[0], both[1]))
    }

    /// Operands of one type: literal ones take the others'.
    pub(super) fn same_type(&mut self, asts: &[ast::ExprId], want: Option<Dtype>, span: Span) -> Option<Vec<ExprId>> {
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
        let dtype = known.or(want).unwrap_or(default);
        for k in (0..asts.len()).filter(|k| literal[*k]) {
            values[k] = self.expr(asts[k], Some(dtype));
        }
        let values: Vec<ExprId> = values.into_iter().collect::<Option<_>>()?;
        for (value, id) in values.iter().zip(asts) {
            let found = self.dtype(*value);
            if found != dtype {
                let message = format!("the operands have different types: `{dtype}` and `{found}`");
                let help = format!("nothing converts by itself: write `{dtype}(...)` or `{found}(...)`");
                let error = Diagnostic::new(codes::DTYPE_MISMATCH, span, message);
                let first = asts.iter().zip(&values).find(|(_, v)| self.dtype(**v) == dtype);
                let error = match first {
                    Some((first, _)) => error.label(self.ast(*first).span, format!("`{dtype}`")),
                    None => error,
                };
                self.error(error.label(self.ast(*id).span, format!("`{found}`")).help(help));
                return None;
            }
        }
        Some(values)
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
        let (then, otherwise) = if and { (b, known) } else { (known, b) };
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
        let known = self.ty(condition).is_scalar().then_some((condition, holds));
        self.branches[guard] = Branch { condition: known, ..Branch::default() };
        let outer = std::mem::replace(&mut self.guard, guard);
        let value = body(self);
        self.guard = outer;
        (guard, value)
    }

    /// `x ^ k`: repeated multiplication by squaring for an integer literal exponent, `pow` otherwise.
    fn power(&mut self, base: ast::ExprId, exponent: ast::ExprId, want: Option<Dtype>, span: Span) -> Option<ExprId> {
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
            return self.math_function(MathFn::Pow, &[a, b], span);
        };
        let x = self.expr(base, want)?;
        self.expect_number(x, "`^`", span)?;
        let dtype = self.dtype(x);
        if negative && !dtype.is_float() {
            let message = format!("an integer (`{dtype}`) has no negative power");
            self.error(Diagnostic::new(codes::BAD_EXPONENT, span, message).help("convert the base: `f32(...)`"));
            return None;
        }
        let mut result: Option<ExprId> = None;
        let mut square = x;
        let mut k = magnitude;
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
        let dtype = self.taken_dtype(dtype, span)?;
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

    /// An element type of the source, if this version takes it.
    pub(super) fn taken_dtype(&mut self, dtype: ast::Dtype, span: Span) -> Option<Dtype> {
        let taken = match dtype {
            ast::Dtype::Bool => Dtype::Bool,
            ast::Dtype::I32 => Dtype::I32,
            ast::Dtype::I64 => Dtype::I64,
            ast::Dtype::F32 => Dtype::F32,
            ast::Dtype::F64 => Dtype::F64,
            other => {
                let message = format!("the type `{}` is not taken yet", other.name());
                let help = "this version has `bool`, `i32`, `i64`, `f32` and `f64`";
                self.error(Diagnostic::new(codes::NOT_YET, span, message).help(help));
                return None;
            }
        };
        Some(taken)
    }

    pub(super) fn unary(&mut self, op: UnaryOp, a: ExprId, span: Span) -> Option<ExprId> {
        let ty = Type::scalar(self.dtype(a));
        self.lift(&[a], span, |c, v| c.node(Kind::Unary(op, v[0]), ty, span))
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId, span: Span) -> Option<ExprId> {
        let ty = Type::scalar(self.dtype(a));
        self.lift(&[a, b], span, |c, v| c.node(Kind::Binary(op, v[0], v[1]), ty, span))
    }

    pub(super) fn compare(&mut self, op: CompareOp, a: ExprId, b: ExprId, span: Span) -> Option<ExprId> {
        self.lift(&[a, b], span, |c, v| c.node(Kind::Compare(op, v[0], v[1]), Type::scalar(Dtype::Bool), span))
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

    /// `[a, b]`: scalars, or arrays of one shape, stacked along a new first axis.
    fn array_literal(&mut self, id: ast::ExprId, want: Option<Dtype>) -> Option<ExprId> {
        let span = self.ast(id).span;
        let mut leaves = vec![];
        let shape = self.literal_shape(id, &mut leaves)?;
        self.check_rank(shape.len(), span)?;
        if leaves.is_empty() {
            let message = "an empty array literal has no element type";
            self.error(Diagnostic::new(codes::EMPTY_LITERAL, span, message).help("`iota(0)` is an empty array"));
            return None;
        }
        let elements = self.same_type(&leaves, want, span)?;
        for (element, leaf) in elements.iter().zip(&leaves) {
            if !self.ty(*element).is_scalar() {
                let message = "the elements of an array literal are scalars, this is an array";
                let help = "`concat` joins arrays";
                self.error(Diagnostic::new(codes::RANK_MISMATCH, self.ast(*leaf).span, message).help(help));
                return None;
            }
        }
        let ty = Type { dtype: self.dtype(elements[0]), shape: shape.into_iter().map(Size::constant).collect() };
        Some(self.node(Kind::ArrayLiteral(elements), ty, span))
    }

    fn literal_shape(&mut self, id: ast::ExprId, leaves: &mut Vec<ast::ExprId>) -> Option<Vec<i64>> {
        let ExprKind::Array(elements) = &self.ast(id).kind else {
            leaves.push(id);
            return Some(vec![]);
        };
        let mut inner: Option<Vec<i64>> = None;
        for element in elements {
            let shape = self.literal_shape(*element, leaves)?;
            if inner.as_ref().is_some_and(|s| *s != shape) {
                let message = "the rows of an array literal have different lengths";
                self.error(Diagnostic::new(codes::SIZE_MISMATCH, self.ast(*element).span, message));
                return None;
            }
            inner = Some(shape);
        }
        let mut shape = vec![i64::try_from(elements.len()).ok()?];
        shape.extend(inner.unwrap_or_default());
        Some(shape)
    }
}

fn float_scalar(dtype: Dtype, text: &str) -> Option<Scalar> {
    match dtype {
        Dtype::F32 => text.parse().ok().map(Scalar::F32),
        Dtype::F64 => text.parse().ok().map(Scalar::F64),
        _ => None,
    }
}

fn arithmetic(op: ast::BinaryOp) -> Option<(BinaryOp, &'static str)> {
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
