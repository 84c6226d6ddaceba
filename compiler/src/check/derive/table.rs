//! The derivatives of scalar operations, as a table: for each operand, how its change becomes a
//! change of the result. Both directions read it: a gradient multiplies what comes from the result,
//! `jvp` what comes from the operand.
//!
//! At kinks: `abs'(0)` and `relu'(0)` are 0, and of equals `max(a, b)` and `min(a, b)` follow `a`.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10, PI};

use ir::checked::{ExprId, Kind};
use ir::sabotage::{self, Bug};
use ir::{BinaryOp, CompareOp, MathFn, UnaryOp};

use super::super::Checker;
use super::super::arena::Here;

/// The change of a result for a change of an operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slope {
    /// None.
    Zero,
    /// The same.
    One,
    /// The opposite.
    Minus,
    /// That many times the change.
    Times(ExprId),
    /// The change divided by a number.
    Over(ExprId),
    /// The same where a condition holds, else none.
    Where(ExprId),
    /// The same where a condition does not hold, else none.
    Unless(ExprId),
    /// There is no function of the language for it.
    Unknown,
}

impl Checker<'_> {
    /// The operands of a scalar operation on floats, each with its slope; none if the node is no
    /// such operation.
    pub(super) fn slopes(&mut self, id: ExprId, here: Here) -> Option<Vec<(ExprId, Slope)>> {
        Some(match self.arena.out.exprs[id].kind.clone() {
            Kind::Unary(op, a) => vec![(a, self.unary_slope(op, a, id, here))],
            Kind::Binary(op, a, b) => {
                let [slope_a, slope_b] = self.binary_slopes(op, a, b, id, here);
                vec![(a, slope_a), (b, slope_b)]
            }
            Kind::Fma(a, b, c) => vec![(a, Slope::Times(b)), (b, Slope::Times(a)), (c, Slope::One)],
            Kind::Cast(a) => vec![(a, Slope::One)],
            Kind::Math(function, operands) => self.math_slopes(function, &operands, id, here),
            _ => return None,
        })
    }

    /// A change after a slope. Where there is no change, the slope may have no value.
    pub(super) fn follow(&mut self, slope: Slope, change: ExprId, here: Here) -> ExprId {
        if let Some((condition, holds, inner)) = self.selected_part(change) {
            let within = self.in_branch_of(inner, here);
            let inner = self.follow(slope, inner, within);
            return self.only_if(condition, inner, holds, here);
        }
        match slope {
            Slope::Zero | Slope::Unknown => self.zero_like(change, here),
            Slope::One => change,
            Slope::Minus => self.minus(change, here),
            Slope::Times(factor) => self.times(change, factor, here),
            Slope::Over(divisor) => self.over(change, divisor, here),
            Slope::Where(condition) => self.only_if(condition, change, true, here),
            Slope::Unless(condition) => self.only_if(condition, change, false, here),
        }
    }

    fn unary_slope(&mut self, op: UnaryOp, a: ExprId, y: ExprId, here: Here) -> Slope {
        match op {
            UnaryOp::Neg => Slope::Minus,
            UnaryOp::Abs => Slope::Times(self.function(MathFn::Sign, &[a], here)),
            UnaryOp::Sqrt => Slope::Over(self.scaled(2.0, y, here)),
            UnaryOp::Not | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round => Slope::Zero,
        }
    }

    fn binary_slopes(&mut self, op: BinaryOp, a: ExprId, b: ExprId, y: ExprId, here: Here) -> [Slope; 2] {
        match op {
            BinaryOp::Add => [Slope::One, Slope::One],
            BinaryOp::Sub => [Slope::One, Slope::Minus],
            BinaryOp::Mul => [Slope::Times(b), Slope::Times(a)],
            BinaryOp::Div => {
                let ratio = self.over(y, b, here);
                let in_divisor = if sabotage::on(Bug::SlopeSign) { ratio } else { self.minus(ratio, here) };
                [Slope::Over(b), Slope::Times(in_divisor)]
            }
            BinaryOp::Rem => {
                let quotient = self.over(a, b, here);
                let ty = self.arena.ty(a).clone();
                let whole = self.arena.node(Kind::Unary(UnaryOp::Trunc, quotient), ty, here);
                [Slope::One, Slope::Times(self.minus(whole, here))]
            }
            BinaryOp::Max => {
                let first = self.relation(CompareOp::Ge, a, b, here);
                [Slope::Where(first), Slope::Unless(first)]
            }
            BinaryOp::Min => {
                let first = self.relation(CompareOp::Le, a, b, here);
                [Slope::Where(first), Slope::Unless(first)]
            }
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => [Slope::Zero, Slope::Zero],
        }
    }

    fn math_slopes(&mut self, function: MathFn, operands: &[ExprId], y: ExprId, here: Here) -> Vec<(ExprId, Slope)> {
        let slopes = match (function, operands) {
            (MathFn::Atan2, [a, b]) => {
                let (aa, bb) = (self.times(*a, *a, here), self.times(*b, *b, here));
                let square = self.plus(aa, bb, here);
                let (left, right) = (self.over(*b, square, here), self.over(*a, square, here));
                vec![Slope::Times(left), Slope::Times(self.minus(right, here))]
            }
            (MathFn::Pow, [a, b]) => self.power_slopes(*a, *b, y, here),
            (MathFn::Mod, [a, b]) => {
                let quotient = self.over(*a, *b, here);
                let ty = self.arena.ty(*a).clone();
                let whole = self.arena.node(Kind::Unary(UnaryOp::Floor, quotient), ty, here);
                vec![Slope::One, Slope::Times(self.minus(whole, here))]
            }
            (MathFn::Clamp, [x, low, high]) => {
                let above = self.relation(CompareOp::Ge, *x, *low, here);
                let raised = self.arena.node(Kind::Binary(BinaryOp::Max, *x, *low), self.arena.ty(*x).clone(), here);
                let below = self.relation(CompareOp::Le, raised, *high, here);
                let lowered = self.relation(CompareOp::Lt, *x, *low, here);
                let both = [above, lowered].map(|one| self.conjunction(&[one, below], here).unwrap_or(one));
                vec![Slope::Where(both[0]), Slope::Where(both[1]), Slope::Unless(below)]
            }
            (_, [x]) => vec![self.function_slope(function, *x, y, here)],
            // Integers alone, or jumps.
            _ => vec![Slope::Zero; operands.len()],
        };
        operands.iter().copied().zip(slopes).collect()
    }

    /// The slopes of `a ^ b`: 0 in `a` where `b` is 0, and 0 in `b` where `a` is 0, where the
    /// formulas have no value.
    fn power_slopes(&mut self, a: ExprId, b: ExprId, y: ExprId, here: Here) -> Vec<Slope> {
        let zero = self.zero_like(a, here);
        let one = self.float(1.0, self.arena.dtype(a), here);
        let less = self.less(b, one, here);
        let power = self.function(MathFn::Pow, &[a, less], here);
        let steep = self.times(b, power, here);
        let constant = self.relation(CompareOp::Eq, b, zero, here);
        let log = self.function(MathFn::Log, &[a], here);
        let growth = self.times(y, log, here);
        let nothing = self.relation(CompareOp::Eq, a, zero, here);
        let in_base = self.only_if(constant, steep, false, here);
        vec![Slope::Times(in_base), Slope::Times(self.only_if(nothing, growth, false, here))]
    }

    /// The slope of a function of one float, `y = f(x)`.
    fn function_slope(&mut self, function: MathFn, x: ExprId, y: ExprId, here: Here) -> Slope {
        match function {
            MathFn::Exp => Slope::Times(y),
            MathFn::Exp2 => Slope::Times(self.scaled(LN_2, y, here)),
            MathFn::Expm1 => Slope::Times(self.function(MathFn::Exp, &[x], here)),
            MathFn::Log => Slope::Over(x),
            MathFn::Log2 => Slope::Over(self.scaled(LN_2, x, here)),
            MathFn::Log10 => Slope::Over(self.scaled(LN_10, x, here)),
            MathFn::Log1p => Slope::Over(self.shifted(1.0, x, here)),
            MathFn::Sin => Slope::Times(self.function(MathFn::Cos, &[x], here)),
            MathFn::Cos => {
                let sine = self.function(MathFn::Sin, &[x], here);
                Slope::Times(self.minus(sine, here))
            }
            MathFn::Tan => {
                let square = self.times(y, y, here);
                Slope::Times(self.shifted(1.0, square, here))
            }
            MathFn::Asin | MathFn::Acos => {
                let square = self.one_less_square(x, here);
                let root = self.root(square, here);
                Slope::Over(if function == MathFn::Acos { self.minus(root, here) } else { root })
            }
            MathFn::Atan => {
                let square = self.times(x, x, here);
                Slope::Over(self.shifted(1.0, square, here))
            }
            MathFn::Sinh => Slope::Times(self.function(MathFn::Cosh, &[x], here)),
            MathFn::Cosh => Slope::Times(self.function(MathFn::Sinh, &[x], here)),
            MathFn::Tanh => Slope::Times(self.one_less_square(y, here)),
            MathFn::Asinh => {
                let square = self.times(x, x, here);
                let more = self.shifted(1.0, square, here);
                Slope::Over(self.root(more, here))
            }
            MathFn::Acosh => {
                let (less, more) = (self.shifted(-1.0, x, here), self.shifted(1.0, x, here));
                let product = self.times(less, more, here);
                Slope::Over(self.root(product, here))
            }
            MathFn::Atanh => Slope::Over(self.one_less_square(x, here)),
            MathFn::Sigmoid => {
                let rest = self.one_less(y, here);
                Slope::Times(self.times(y, rest, here))
            }
            MathFn::Silu => {
                let s = self.function(MathFn::Sigmoid, &[x], here);
                let rest = self.one_less(s, here);
                let bend = self.times(x, rest, here);
                let more = self.shifted(1.0, bend, here);
                Slope::Times(self.times(s, more, here))
            }
            MathFn::Softplus => Slope::Times(self.function(MathFn::Sigmoid, &[x], here)),
            MathFn::Relu => {
                let zero = self.zero_like(x, here);
                Slope::Where(self.relation(CompareOp::Gt, x, zero, here))
            }
            MathFn::Erf => {
                let bell = self.bell(1.0, x, here);
                Slope::Times(self.scaled(FRAC_2_SQRT_PI, bell, here))
            }
            MathFn::ErfInv => {
                let bell = self.bell(-1.0, y, here);
                Slope::Times(self.scaled(1.0 / FRAC_2_SQRT_PI, bell, here))
            }
            MathFn::Gelu => Slope::Times(self.gelu_slope(x, here)),
            MathFn::GeluTanh => Slope::Times(self.gelu_tanh_slope(x, here)),
            MathFn::Lgamma => Slope::Times(self.function(MathFn::Digamma, &[x], here)),
            MathFn::Rsqrt => {
                let ratio = self.over(y, x, here);
                Slope::Times(self.scaled(-0.5, ratio, here))
            }
            MathFn::Cbrt => {
                let square = self.times(y, y, here);
                Slope::Over(self.scaled(3.0, square, here))
            }
            MathFn::Digamma => Slope::Unknown,
            MathFn::Sign
            | MathFn::Popcount
            | MathFn::FloorDiv
            | MathFn::Mod
            | MathFn::Pow
            | MathFn::Atan2
            | MathFn::Clamp
            | MathFn::Uniform
            | MathFn::Normal
            | MathFn::Subseed => Slope::Zero,
        }
    }

    /// `(1 + erf(x / sqrt(2))) / 2 + x * exp(-x^2 / 2) / sqrt(2 pi)`
    fn gelu_slope(&mut self, x: ExprId, here: Here) -> ExprId {
        let inner = self.scaled(0.5f64.sqrt(), x, here);
        let erf = self.function(MathFn::Erf, &[inner], here);
        let share = self.shifted(1.0, erf, here);
        let share = self.scaled(0.5, share, here);
        let bell = self.bell(0.5, x, here);
        let density = self.scaled(1.0 / (2.0 * PI).sqrt(), bell, here);
        let bend = self.times(x, density, here);
        self.plus(share, bend, here)
    }

    /// With `u = sqrt(2 / pi) * (x + 0.044715 x^3)` and `t = tanh(u)`:
    /// `(1 + t) / 2 + x / 2 * (1 - t^2) * u'`.
    fn gelu_tanh_slope(&mut self, x: ExprId, here: Here) -> ExprId {
        let k = (2.0 / PI).sqrt();
        let square = self.times(x, x, here);
        let cubic = self.scaled(k * 0.044_715, square, here);
        let inner = self.shifted(k, cubic, here);
        let u = self.times(x, inner, here);
        let t = self.function(MathFn::Tanh, &[u], here);
        let share = self.shifted(1.0, t, here);
        let share = self.scaled(0.5, share, here);
        let steep = self.scaled(k * 3.0 * 0.044_715, square, here);
        let steep = self.shifted(k, steep, here);
        let flat = self.one_less_square(t, here);
        let half = self.scaled(0.5, x, here);
        let bend = self.times(half, flat, here);
        let bend = self.times(bend, steep, here);
        self.plus(share, bend, here)
    }

    /// `exp(-k * x^2)`
    fn bell(&mut self, k: f64, x: ExprId, here: Here) -> ExprId {
        let square = self.times(x, x, here);
        let scaled = self.scaled(-k, square, here);
        self.function(MathFn::Exp, &[scaled], here)
    }

    fn scaled(&mut self, factor: f64, x: ExprId, here: Here) -> ExprId {
        let factor = self.float(factor, self.arena.dtype(x), here);
        self.times(factor, x, here)
    }

    fn shifted(&mut self, by: f64, x: ExprId, here: Here) -> ExprId {
        let by = self.float(by, self.arena.dtype(x), here);
        self.plus(by, x, here)
    }

    fn one_less(&mut self, x: ExprId, here: Here) -> ExprId {
        let one = self.float(1.0, self.arena.dtype(x), here);
        self.less(one, x, here)
    }

    /// `1 - x^2` as `(1 - x) * (1 + x)`, which is precise near 1.
    fn one_less_square(&mut self, x: ExprId, here: Here) -> ExprId {
        let (less, more) = (self.one_less(x, here), self.shifted(1.0, x, here));
        self.times(less, more, here)
    }
}
