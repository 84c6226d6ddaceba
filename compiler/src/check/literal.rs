//! Literals: numbers, named constants and array literals, in the type of their context.
//!
//! A *literal expression* (numbers, `pi inf nan`, draws, and arithmetic, scalar functions and `if`
//! of those) has no type of its own: it takes the whole of its context's type, `want`. Without a
//! context it is `i64`, or `f32` if it has a point. In a context of a storage type a number is
//! rounded to it at once; arithmetic of numbers is arithmetic, and so happens in the wider type.
//!
//! An expression of sizes and indices and such takes the type of its context where that is `f32` or
//! `f64`: each size and index is converted. Elsewhere it is an `i64`, or `f32` if it has a point.

use grammar::Diagnostic;
use grammar::ast::{self, ExprKind};
use ir::checked::{ExprId, GuardId, Kind, Type};
use ir::sabotage::{self, Bug};
use ir::{Dtype, Scalar, Size, UnaryOp};

use super::arena::Here;
use super::expr::{Use, arithmetic};
use super::scope::Binding;
use super::untyped::UntypedId;
use super::{Checker, builtin, codes, random};

/// Where the type of an expression comes from: that of an operation is the last one of those of its
/// operands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Nature {
    /// It is literal: its context gives it any type.
    Literal,
    /// It is made of sizes, indices and literals: a context of `f32` or `f64` gives it its type.
    Sizes,
    /// It has a type of its own.
    Typed,
}

impl Nature {
    /// The type in a context of a type.
    pub(super) fn dtype(self, context: Dtype) -> Dtype {
        match (self, context) {
            (Nature::Sizes, Dtype::F32 | Dtype::F64) | (Nature::Literal | Nature::Typed, _) => context,
            (Nature::Sizes, _) => Dtype::I64,
        }
    }
}

impl Checker<'_> {
    /// Whether an expression is literal: it takes the type of its context, whatever that is.
    pub(super) fn is_literal(&self, id: ast::ExprId) -> bool {
        self.nature(id) == Nature::Literal
    }

    /// Where the type of an expression comes from.
    pub(super) fn nature(&self, id: ast::ExprId) -> Nature {
        let all = |parts: &mut dyn Iterator<Item = ast::ExprId>| {
            let mut nature = Nature::Literal;
            while let (true, Some(part)) = (nature != Nature::Typed, parts.next()) {
                nature = nature.max(stacker::maybe_grow(64 << 10, 1 << 20, || self.nature(part)));
            }
            nature
        };
        match &self.ast(id).kind {
            ExprKind::Int(_) | ExprKind::Float(_) => Nature::Literal,
            ExprKind::Name(name) => match self.scope.get(name) {
                None if matches!(name.as_str(), "pi" | "inf" | "nan") => Nature::Literal,
                Some(Binding::Literal(of)) => self.untyped.of(*of).nature,
                Some(Binding::Size(_) | Binding::Index(_) | Binding::Unbound) => Nature::Sizes,
                None | Some(Binding::Value(_) | Binding::Broken) => Nature::Typed,
            },
            ExprKind::Unary(ast::UnaryOp::Neg, a) => all(&mut [*a].into_iter()),
            ExprKind::Binary(op, a, b) if arithmetic(*op).is_some() => all(&mut [*a, *b].into_iter()),
            ExprKind::If { then, otherwise, .. } => all(&mut [*then, *otherwise].into_iter()),
            ExprKind::Array(elements) => all(&mut elements.iter().copied()),
            ExprKind::Call { callee, args } if !self.has_function(&callee.text) && !self.is_hidden(&callee.text) => {
                let name = callee.text.as_str();
                match name {
                    _ if random::function(name).is_some() => Nature::Literal,
                    "size" => Nature::Sizes,
                    // `min(x, axis = 0)` is a reducer, and no function of two numbers.
                    _ if args.iter().any(|arg| arg.name.is_some()) => Nature::Typed,
                    _ if !builtin::is_scalar_function(name, args.len()) => Nature::Typed,
                    _ => match all(&mut args.iter().map(|arg| arg.value)) {
                        Nature::Sizes if !builtin::takes_floats(name, args.len()) => Nature::Typed,
                        nature => nature,
                    },
                }
            }
            ExprKind::Index { base, .. } if let Some(of) = self.untyped_name(*base) => self.untyped.of(of).nature,
            _ => Nature::Typed,
        }
    }

    /// The definition without a type that a name stands for.
    pub(super) fn untyped_name(&self, id: ast::ExprId) -> Option<UntypedId> {
        match &self.ast(id).kind {
            ExprKind::Name(name) => match self.scope.get(name) {
                Some(Binding::Literal(of)) => Some(*of),
                _ => None,
            },
            _ => None,
        }
    }

    /// A size or an index in its context: it becomes a float where one is wanted.
    pub(super) fn in_context(&mut self, value: ExprId, want: Option<Dtype>, here: Here) -> Option<ExprId> {
        match want {
            Some(dtype @ (Dtype::F32 | Dtype::F64)) => self.cast(dtype, value, here),
            _ => Some(value),
        }
    }

    /// The type of a literal expression without a context.
    pub(super) fn default_dtype(&self, id: ast::ExprId) -> Dtype {
        if self.has_point(id) { Dtype::F32 } else { Dtype::I64 }
    }

    /// Whether an expression without a type of its own has something in it that is a float without
    /// a context.
    pub(super) fn has_point(&self, id: ast::ExprId) -> bool {
        let any = |id: &ast::ExprId| stacker::maybe_grow(64 << 10, 1 << 20, || self.has_point(*id));
        match &self.ast(id).kind {
            ExprKind::Name(name) => match self.scope.get(name) {
                Some(Binding::Literal(of)) => self.untyped.of(*of).point,
                found => found.is_none(),
            },
            ExprKind::Float(_) => true,
            ExprKind::Index { base, .. } => self.untyped_name(*base).is_some() && any(base),
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
    pub(super) fn literal(&mut self, id: ast::ExprId, want: Option<Dtype>, guard: GuardId) -> Option<ExprId> {
        let dtype = want.unwrap_or_else(|| self.default_dtype(id));
        let ast::Expr { kind, span, .. } = self.ast(id);
        let here = Here { span: *span, guard };
        let float = |text: &str| Scalar::parse(dtype, text).filter(|_| dtype.is_float());
        let value = match kind {
            ExprKind::Int(v) if dtype.is_int() => return self.integer(*v, false, dtype, here),
            ExprKind::Int(v) => float(&v.to_string()),
            ExprKind::Float(text) => float(text),
            ExprKind::Name(name) if name == "pi" => float("3.14159265358979323846264338327950288"),
            ExprKind::Name(name) => float(name),
            _ => None,
        };
        let Some(value) = value else {
            let message = format!("a literal of type `{dtype}` is expected here");
            let error = Diagnostic::new(codes::LITERAL_TYPE, *span, message);
            self.report.error(match dtype {
                Dtype::Bool => error.here("this is a number").help("compare it: `x != 0`"),
                _ => error
                    .here("this is not an integer")
                    .help(format!("convert the other side to a float, or this one: `{dtype}(...)`")),
            });
            return None;
        };
        let infinite = Scalar::parse(dtype, "inf") == Some(value);
        if infinite && !matches!(kind, ExprKind::Name(_)) {
            let message = format!("the literal is beyond the range of `{dtype}`");
            self.report
                .error(Diagnostic::new(codes::LITERAL_RANGE, *span, message).help("write `inf` if that is meant"));
            return None;
        }
        Some(self.arena.constant(value, here))
    }

    fn integer(&mut self, magnitude: u64, negative: bool, dtype: Dtype, here: Here) -> Option<ExprId> {
        let value =
            if negative && !sabotage::on(Bug::LiteralSign) { -i128::from(magnitude) } else { i128::from(magnitude) };
        let scalar = Scalar::parse(dtype, &value.to_string());
        if scalar.is_none() {
            let message = format!("the literal {value} does not fit `{dtype}`");
            self.report.error(Diagnostic::new(codes::LITERAL_RANGE, here.span, message));
        }
        Some(self.arena.constant(scalar?, here))
    }

    pub(super) fn negate(&mut self, operand: ast::ExprId, want: Option<Dtype>, here: Here) -> Option<ExprId> {
        let dtype = want.unwrap_or(Dtype::I64);
        if let (ExprKind::Int(v), true) = (&self.ast(operand).kind, dtype.is_int()) {
            return self.integer(*v, true, dtype, here);
        }
        let value = self.expr(operand, want, here.guard)?;
        self.expect_number(value, "`-`", here.span)?;
        if let (Kind::Constant(c), true) = (&self.arena.out.exprs[value].kind, self.is_literal(operand)) {
            let negative = match *c {
                Scalar::F16(v) => Some(Scalar::F16(-v)),
                Scalar::Bf16(v) => Some(Scalar::Bf16(-v)),
                Scalar::F32(v) => Some(Scalar::F32(-v)),
                Scalar::F64(v) => Some(Scalar::F64(-v)),
                _ => None,
            };
            if let Some(negative) = negative {
                return Some(self.arena.constant(negative, here));
            }
        }
        self.unary(UnaryOp::Neg, value, here)
    }

    /// `[a, b]`: scalars, or arrays of one shape, stacked along a new first axis.
    pub(super) fn array_literal(&mut self, id: ast::ExprId, want: Option<Dtype>, guard: GuardId) -> Option<ExprId> {
        let here = Here { span: self.ast(id).span, guard };
        let mut leaves = vec![];
        let shape = self.literal_shape(id, &mut leaves)?;
        self.check_rank(shape.len(), here.span)?;
        if leaves.is_empty() {
            let message = "an empty array literal has no element type";
            self.report
                .error(Diagnostic::new(codes::EMPTY_LITERAL, here.span, message).help("`iota(0)` is an empty array"));
            return None;
        }
        let elements = self.same_type(&leaves, Use::Moved, want, here)?;
        for (element, leaf) in elements.iter().zip(&leaves) {
            if !self.arena.ty(*element).is_scalar() {
                let message = "the elements of an array literal are scalars, this is an array";
                let help = "`concat` joins arrays";
                self.report.error(Diagnostic::new(codes::RANK_MISMATCH, self.ast(*leaf).span, message).help(help));
                return None;
            }
        }
        let ty = Type { dtype: self.arena.dtype(elements[0]), shape: shape.into_iter().map(Size::constant).collect() };
        Some(self.arena.node(Kind::ArrayLiteral(elements), ty, here))
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
                self.report.error(Diagnostic::new(codes::SIZE_MISMATCH, self.ast(*element).span, message));
                return None;
            }
            inner = Some(shape);
        }
        let mut shape = vec![i64::try_from(elements.len()).ok()?];
        shape.extend(inner.unwrap_or_default());
        Some(shape)
    }
}
