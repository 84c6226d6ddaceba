//! Arithmetic on nodes for derivatives, which leaves out what does nothing: a derivative has many
//! terms that are 0 and factors that are 1.

use ir::checked::{ExprId, IndexId, Kind, Type};
use ir::{Affine, BinaryOp, CompareOp, Dtype, MathFn, Scalar, UnaryOp};

use super::super::Checker;
use super::super::arena::Here;

impl Checker<'_> {
    /// A number as a constant of a type of floats.
    pub(super) fn float(&mut self, value: f64, dtype: Dtype, here: Here) -> ExprId {
        let value = match dtype {
            Dtype::F64 => Scalar::F64(value),
            // One rounding: the constants of the table have more digits than an `f32`.
            _ => Scalar::F32(value as f32),
        };
        self.arena.constant(value, here)
    }

    /// The zero of the type that a node is computed in.
    pub(super) fn zero_like(&mut self, of: ExprId, here: Here) -> ExprId {
        let zero = Scalar::zero(self.arena.dtype(of).compute());
        self.arena.constant(zero, here)
    }

    /// Whether a node is the constant 0.
    pub(super) fn is_zero(&self, id: ExprId) -> bool {
        self.constant_value(id) == Some(0.0)
    }

    fn constant_value(&self, id: ExprId) -> Option<f64> {
        match self.arena.out.exprs[id].kind {
            Kind::Constant(Scalar::F32(v)) => Some(v.into()),
            Kind::Constant(Scalar::F64(v)) => Some(v),
            _ => None,
        }
    }

    fn negated(&self, id: ExprId) -> Option<ExprId> {
        match self.arena.out.exprs[id].kind {
            Kind::Unary(UnaryOp::Neg, of) => Some(of),
            _ => None,
        }
    }

    fn plain_binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId, here: Here) -> ExprId {
        let ty = Type::scalar(self.arena.dtype(a));
        self.arena.node(Kind::Binary(op, a, b), ty, here)
    }

    /// `a + b`
    pub(super) fn plus(&mut self, a: ExprId, b: ExprId, here: Here) -> ExprId {
        // Values that are 0 unless the same condition holds are added where it holds.
        if let (Some((condition, holds, then)), Some((other, same, more))) =
            (self.selected_part(a), self.selected_part(b))
            && condition == other
            && holds == same
        {
            let guards = [then, more].map(|id| self.arena.out.exprs[id].guard);
            if guards[0] == guards[1] {
                let sum = self.plus(then, more, Here { guard: guards[0], ..here });
                return self.only_if(condition, sum, holds, here);
            }
        }
        match (self.is_zero(a), self.is_zero(b)) {
            (true, _) => b,
            (_, true) => a,
            _ if self.arena.first_alike(a) == self.arena.first_alike(b) => {
                let two = self.float(2.0, self.arena.dtype(a), here);
                self.times(two, a, here)
            }
            _ => match (self.negated(a), self.negated(b)) {
                (_, Some(b)) => self.plain_binary(BinaryOp::Sub, a, b, here),
                (Some(a), None) => self.plain_binary(BinaryOp::Sub, b, a, here),
                (None, None) => self.plain_binary(BinaryOp::Add, a, b, here),
            },
        }
    }

    /// `a - b`
    pub(super) fn less(&mut self, a: ExprId, b: ExprId, here: Here) -> ExprId {
        let b = self.minus(b, here);
        self.plus(a, b, here)
    }

    /// `-a`
    pub(super) fn minus(&mut self, a: ExprId, here: Here) -> ExprId {
        if let Some(value) = self.constant_value(a) {
            return if value == 0.0 { a } else { self.float(-value, self.arena.dtype(a), here) };
        }
        match self.negated(a) {
            Some(of) => of,
            None => self.arena.node(Kind::Unary(UnaryOp::Neg, a), Type::scalar(self.arena.dtype(a)), here),
        }
    }

    /// `a * b`
    pub(super) fn times(&mut self, a: ExprId, b: ExprId, here: Here) -> ExprId {
        match (self.constant_value(a), self.constant_value(b)) {
            (Some(0.0), _) | (_, Some(1.0)) => a,
            (_, Some(0.0)) | (Some(1.0), _) => b,
            (Some(-1.0), _) => self.minus(b, here),
            (_, Some(-1.0)) => self.minus(a, here),
            _ => match (self.negated(a), self.negated(b)) {
                (Some(a), Some(b)) => self.plain_binary(BinaryOp::Mul, a, b, here),
                (None, None) => self.plain_binary(BinaryOp::Mul, a, b, here),
                (left, right) => {
                    let product = self.plain_binary(BinaryOp::Mul, left.unwrap_or(a), right.unwrap_or(b), here);
                    self.minus(product, here)
                }
            },
        }
    }

    /// `a / b`
    pub(super) fn over(&mut self, a: ExprId, b: ExprId, here: Here) -> ExprId {
        if self.is_zero(a) || self.constant_value(b) == Some(1.0) {
            return a;
        }
        match self.negated(a) {
            Some(a) => {
                let quotient = self.plain_binary(BinaryOp::Div, a, b, here);
                self.minus(quotient, here)
            }
            None => self.plain_binary(BinaryOp::Div, a, b, here),
        }
    }

    /// A function of floats.
    pub(super) fn function(&mut self, function: MathFn, arguments: &[ExprId], here: Here) -> ExprId {
        let ty = Type::scalar(self.arena.dtype(arguments[0]));
        self.arena.node(Kind::Math(function, arguments.to_vec()), ty, here)
    }

    /// The square root.
    pub(super) fn root(&mut self, a: ExprId, here: Here) -> ExprId {
        self.arena.node(Kind::Unary(UnaryOp::Sqrt, a), Type::scalar(self.arena.dtype(a)), here)
    }

    /// A comparison of two scalars of one type.
    pub(super) fn relation(&mut self, op: CompareOp, a: ExprId, b: ExprId, here: Here) -> ExprId {
        self.arena.node(Kind::Compare(op, a, b), Type::scalar(Dtype::Bool), here)
    }

    /// Whether a condition on integers holds wherever it is looked at.
    pub(super) fn always_holds(&self, condition: ExprId) -> bool {
        let (op, a, b) = match self.arena.out.exprs[condition].kind {
            Kind::Constant(constant) => return constant == Scalar::Bool(true),
            Kind::Compare(op, a, b) if !self.arena.dtype(a).is_float() => (op, a, b),
            _ => return false,
        };
        let (more, less, least) = match op {
            CompareOp::Eq => return self.arena.first_alike(a) == self.arena.first_alike(b),
            CompareOp::Le => (b, a, 0),
            CompareOp::Lt => (b, a, 1),
            CompareOp::Ge => (a, b, 0),
            CompareOp::Gt => (a, b, 1),
            CompareOp::Ne => return false,
        };
        let affine = self.arena.affine(more).zip(self.arena.affine(less));
        affine.is_some_and(|(more, less)| self.is_at_least(&more.sub(less), least))
    }

    /// Whether a condition says that two numbers are equal, and one of them is always greater.
    pub(super) fn never_holds(&self, condition: ExprId) -> bool {
        let Kind::Compare(CompareOp::Eq, a, b) = self.arena.out.exprs[condition].kind else { return false };
        let (Some(a), Some(b)) = (self.arena.affine(a), self.arena.affine(b)) else { return false };
        let apart = |more: &Affine<IndexId>, less: &Affine<IndexId>| self.is_at_least(&more.sub(less), 1);
        apart(a, b) || apart(b, a)
    }

    /// Whether all of some conditions hold; none if there are none.
    pub(super) fn conjunction(&mut self, conditions: &[ExprId], here: Here) -> Option<ExprId> {
        let both = |a, b| self.arena.node(Kind::Binary(BinaryOp::And, a, b), Type::scalar(Dtype::Bool), here);
        conditions.iter().copied().reduce(both)
    }

    /// `if condition then value else 0`. The value may stand in the branch.
    pub(super) fn only_if(&mut self, condition: ExprId, value: ExprId, holds: bool, here: Here) -> ExprId {
        if self.is_zero(value) {
            return value;
        }
        let zero = self.zero_like(value, here);
        let (then, otherwise) = if holds { (value, zero) } else { (zero, value) };
        self.arena.node(Kind::If { condition, then, otherwise }, Type::scalar(self.arena.dtype(value)), here)
    }

    /// The place of arithmetic on a value in a branch, which may have conditions of its own
    /// that read elements inside only there.
    pub(super) fn in_branch_of(&self, value: ExprId, here: Here) -> Here {
        let guard = self.arena.out.exprs[value].guard;
        if self.is_inside(guard, here.guard) { Here { guard, ..here } } else { here }
    }

    /// The condition and the value of an expression that is 0 otherwise.
    pub(super) fn selected_part(&self, id: ExprId) -> Option<(ExprId, bool, ExprId)> {
        match self.arena.out.exprs[id].kind {
            Kind::If { condition, then, otherwise } if self.is_zero(otherwise) => Some((condition, true, then)),
            Kind::If { condition, then, otherwise } if self.is_zero(then) => Some((condition, false, otherwise)),
            _ => None,
        }
    }

    /// A scalar in another type of floats.
    pub(super) fn converted(&mut self, value: ExprId, dtype: Dtype, here: Here) -> ExprId {
        if self.arena.dtype(value) == dtype {
            return value;
        }
        match self.constant_value(value) {
            Some(constant) if matches!(dtype, Dtype::F32 | Dtype::F64) => self.float(constant, dtype, here),
            _ => self.arena.node(Kind::Cast(value), Type::scalar(dtype), here),
        }
    }
}
