//! Lets expansions read like formulas: a [`Value`] is a handle with operators, and each operation
//! on it appends a statement to the function being built.

use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Rem, Shl, Shr, Sub};

use cranelift_entity::PrimaryMap;
use ir::nest::{Block, Function, Law, Op, Reducer, Statement, ValueId};
use ir::{BinaryOp, CompareOp, Dtype, MathFn, ReduceOp, Scalar, UnaryOp};

/// A float type that functions are expanded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Float {
    F32,
    F64,
}

impl Float {
    /// The float type of `dtype`, if functions are expanded for it.
    pub(super) fn of(dtype: Dtype) -> Option<Float> {
        match dtype {
            Dtype::F32 => Some(Float::F32),
            Dtype::F64 => Some(Float::F64),
            _ => None,
        }
    }

    fn dtype(self) -> Dtype {
        PerFloat { f32: Dtype::F32, f64: Dtype::F64 }.of(self)
    }

    /// The integer type in which its bits are manipulated. In 64 bits it is unsigned, because
    /// 128-bit SIMD has no arithmetic right shift there.
    fn bits_dtype(self) -> Dtype {
        PerFloat { f32: Dtype::I32, f64: Dtype::U64 }.of(self)
    }

    /// The number of bits of the fraction, by which an exponent is shifted.
    pub(super) fn fraction(self) -> u32 {
        PerFloat { f32: 23, f64: 52 }.of(self)
    }

    /// The bias of the exponent.
    pub(super) fn bias(self) -> i64 {
        PerFloat { f32: 127, f64: 1023 }.of(self)
    }

    /// 2^fraction: floats from this size on are integers.
    pub(super) fn integral(self) -> f64 {
        PerFloat { f32: 8_388_608.0, f64: 4_503_599_627_370_496.0 }.of(self)
    }

    /// The least normal number.
    pub(super) fn least_normal(self) -> f64 {
        PerFloat { f32: f32::MIN_POSITIVE.into(), f64: f64::MIN_POSITIVE }.of(self)
    }

    /// The bits of the number nearest to `x`.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the type is the purpose")]
    pub(super) fn bits_of(self, x: f64) -> i64 {
        match self {
            Float::F32 => (x as f32).to_bits().into(),
            Float::F64 => x.to_bits().cast_signed(),
        }
    }
}

/// A constant that differs between the float types.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerFloat<T> {
    pub(super) f32: T,
    pub(super) f64: T,
}

impl<T: Copy> PerFloat<T> {
    pub(super) fn of(self, float: Float) -> T {
        match float {
            Float::F32 => self.f32,
            Float::F64 => self.f64,
        }
    }
}

/// The function being built.
pub(super) struct Builder {
    float: Float,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    values: PrimaryMap<ValueId, Dtype>,
    /// The blocks being written, the innermost last.
    open: Vec<Open>,
}

#[derive(Default)]
struct Open {
    statements: Block,
    /// The constants defined in this block: each is defined once, where it is first used.
    constants: Vec<(Scalar, ValueId)>,
}

/// Builds a function by applying `body` to its parameters, all of type `dtype`, or `u64` if it is a
/// random function.
pub(super) fn build(math: MathFn, dtype: Dtype, body: impl for<'b> FnOnce(&[Value<'b>]) -> Value<'b>) -> Function {
    let float = Float::of(dtype).unwrap_or(Float::F64);
    let parameter = if math.is_random() { Dtype::U64 } else { dtype };
    let builder = Builder { float, state: RefCell::new(State { open: vec![Open::default()], ..State::default() }) };
    let parameters: Vec<Value> = (0..math.arity())
        .map(|_| Value { builder: &builder, id: builder.state.borrow_mut().values.push(parameter), dtype: parameter })
        .collect();
    let params = parameters.iter().map(|p| p.id).collect();
    let result = body(&parameters).id;
    let State { values, open } = builder.state.into_inner();
    let body = open.into_iter().flat_map(|o| o.statements).collect();
    Function { name: format!("{math}.{dtype}"), math, params, values, body, result, quotients_in_range: false }
}

/// Builds a reducer: `body` computes its merge from two states, of earlier and of later elements.
pub(super) fn build_reducer(
    op: ReduceOp,
    dtype: Dtype,
    law: Law,
    identity: Vec<Scalar>,
    body: impl for<'b> FnOnce(&[Value<'b>], &[Value<'b>]) -> Vec<Value<'b>>,
) -> Reducer {
    let float = Float::of(dtype).unwrap_or(Float::F64);
    let builder = Builder { float, state: RefCell::new(State { open: vec![Open::default()], ..State::default() }) };
    let parameter = |dtype| Value { builder: &builder, id: builder.state.borrow_mut().values.push(dtype), dtype };
    let states = [(); 2].map(|()| identity.iter().map(|value| parameter(value.dtype())).collect::<Vec<_>>());
    let params = states.iter().flatten().map(|p| p.id).collect();
    let results = body(&states[0], &states[1]).into_iter().map(|value| value.id).collect();
    let State { values, open } = builder.state.into_inner();
    let body = open.into_iter().flat_map(|o| o.statements).collect();
    Reducer { name: format!("{op}.{dtype}"), identity, law, params, values, body, results }
}

impl Builder {
    fn define(&self, dtype: Dtype, op: Op) -> Value<'_> {
        let state = &mut *self.state.borrow_mut();
        let id = state.values.push(dtype);
        if let Some(block) = state.open.last_mut() {
            if let Op::Constant(scalar) = op {
                block.constants.push((scalar, id));
            }
            block.statements.push(Statement::Let { value: id, op });
        }
        Value { builder: self, id, dtype }
    }

    fn constant(&self, scalar: Scalar) -> Value<'_> {
        let dtype = scalar.dtype();
        let known = self.state.borrow().open.iter().flat_map(|o| &o.constants).find(|(s, _)| *s == scalar).map(|c| c.1);
        match known {
            Some(id) => Value { builder: self, id, dtype },
            None => self.define(dtype, Op::Constant(scalar)),
        }
    }

    fn block<'b, const N: usize>(&'b self, write: impl FnOnce() -> [Value<'b>; N]) -> (Block, [Value<'b>; N]) {
        self.state.borrow_mut().open.push(Open::default());
        let values = write();
        let block = self.state.borrow_mut().open.pop().map(|o| o.statements).unwrap_or_default();
        (block, values)
    }
}

/// A value of the function being built.
#[derive(Clone, Copy)]
pub(super) struct Value<'b> {
    builder: &'b Builder,
    id: ValueId,
    dtype: Dtype,
}

impl<'b> Value<'b> {
    /// The float type of this value, or the one that its bits belong to; for other values, that of
    /// the function.
    pub(super) fn float(self) -> Float {
        match self.dtype {
            Dtype::F32 | Dtype::I32 => Float::F32,
            Dtype::F64 | Dtype::U64 => Float::F64,
            _ => self.builder.float,
        }
    }

    /// A constant of this value's float type.
    #[expect(clippy::cast_possible_truncation, reason = "constants are given as f64 and rounded to the type")]
    pub(super) fn real(self, x: f64) -> Value<'b> {
        self.builder.constant(match self.float() {
            Float::F32 => Scalar::F32(x as f32),
            Float::F64 => Scalar::F64(x),
        })
    }

    /// An integer constant of this value's type.
    pub(super) fn integer(self, x: i64) -> Value<'b> {
        self.builder.constant(Scalar::from_bits(self.dtype, x.cast_unsigned()))
    }

    /// Whether this is a signed integer.
    pub(super) fn is_signed(self) -> bool {
        self.dtype.is_signed_int()
    }

    /// Whether this is a float.
    pub(super) fn is_float(self) -> bool {
        self.dtype.is_float()
    }

    /// How many bits this value has.
    pub(super) fn width(self) -> u32 {
        if self.dtype.bytes() == 4 { 32 } else { 64 }
    }

    fn unary(self, op: UnaryOp) -> Value<'b> {
        self.builder.define(self.dtype, Op::Unary(op, self.id))
    }

    fn binary(self, op: BinaryOp, other: Value<'b>) -> Value<'b> {
        self.builder.define(self.dtype, Op::Binary(op, self.id, other.id))
    }

    fn compare(self, op: CompareOp, other: impl Operand<'b>) -> Value<'b> {
        let other = other.beside(self);
        self.builder.define(Dtype::Bool, Op::Compare(op, self.id, other.id))
    }

    pub(super) fn abs(self) -> Value<'b> {
        self.unary(UnaryOp::Abs)
    }

    pub(super) fn sqrt(self) -> Value<'b> {
        self.unary(UnaryOp::Sqrt)
    }

    pub(super) fn floor(self) -> Value<'b> {
        self.unary(UnaryOp::Floor)
    }

    /// Of a `bool`.
    pub(super) fn not(self) -> Value<'b> {
        self.unary(UnaryOp::Not)
    }

    /// The lesser; NaN if either is.
    pub(super) fn min(self, other: impl Operand<'b>) -> Value<'b> {
        self.binary(BinaryOp::Min, other.beside(self))
    }

    /// The greater; NaN if either is.
    pub(super) fn max(self, other: impl Operand<'b>) -> Value<'b> {
        self.binary(BinaryOp::Max, other.beside(self))
    }

    pub(super) fn lt(self, other: impl Operand<'b>) -> Value<'b> {
        self.compare(CompareOp::Lt, other)
    }

    pub(super) fn le(self, other: impl Operand<'b>) -> Value<'b> {
        self.compare(CompareOp::Le, other)
    }

    pub(super) fn gt(self, other: impl Operand<'b>) -> Value<'b> {
        self.compare(CompareOp::Gt, other)
    }

    pub(super) fn eq(self, other: impl Operand<'b>) -> Value<'b> {
        self.compare(CompareOp::Eq, other)
    }

    pub(super) fn ne(self, other: impl Operand<'b>) -> Value<'b> {
        self.compare(CompareOp::Ne, other)
    }

    /// `self * factor + term`, rounded once.
    pub(super) fn fma(self, factor: impl Operand<'b>, term: impl Operand<'b>) -> Value<'b> {
        let (factor, term) = (factor.beside(self), term.beside(self));
        self.builder.define(self.dtype, Op::Fma(self.id, factor.id, term.id))
    }

    /// Where this `bool` is true `then`, else `otherwise`.
    pub(super) fn select(self, then: Value<'b>, otherwise: Value<'b>) -> Value<'b> {
        self.builder.define(then.dtype, Op::Select(self.id, then.id, otherwise.id))
    }

    /// The values of `then` where this `bool` is true, else those of `otherwise`. Only one of them
    /// is evaluated.
    pub(super) fn branch<const N: usize>(
        self,
        then: impl FnOnce() -> [Value<'b>; N],
        otherwise: impl FnOnce() -> [Value<'b>; N],
    ) -> [Value<'b>; N] {
        let (then, left) = self.builder.block(then);
        let (otherwise, right) = self.builder.block(otherwise);
        let state = &mut *self.builder.state.borrow_mut();
        let joined = left.map(|v| Value { id: state.values.push(v.dtype), ..v });
        let results = (0..N).map(|i| (joined[i].id, left[i].id, right[i].id)).collect();
        if let Some(block) = state.open.last_mut() {
            block.statements.push(Statement::If { condition: self.id, then, otherwise, results });
        }
        joined
    }

    /// The bits of a float, as integers of the same width.
    pub(super) fn bits(self) -> Value<'b> {
        self.bitcast(self.float().bits_dtype())
    }

    /// The float with these bits.
    pub(super) fn as_float(self) -> Value<'b> {
        self.bitcast(self.float().dtype())
    }

    pub(super) fn bitcast(self, to: Dtype) -> Value<'b> {
        self.builder.define(to, Op::Bitcast(to, self.id))
    }

    pub(super) fn cast(self, to: Dtype) -> Value<'b> {
        if self.dtype == to { self } else { self.builder.define(to, Op::Cast(to, self.id)) }
    }

    /// The sign bit of a float, alone.
    pub(super) fn sign_bit(self) -> Value<'b> {
        self.bits() & self.float().bits_of(-0.0)
    }

    /// This float with its sign flipped where `sign`, from [`Value::sign_bit`], is set.
    pub(super) fn flip_sign(self, sign: Value<'b>) -> Value<'b> {
        (self.bits() ^ sign).as_float()
    }

    /// `c[0] + c[1] x + c[2] x^2 + ...` by Horner's rule in fused steps.
    pub(super) fn polynomial(self, coefficients: &[f64]) -> Value<'b> {
        let mut steps = coefficients.iter().rev();
        let last = self.real(steps.next().copied().unwrap_or(0.0));
        steps.fold(last, |sum, &c| sum.fma(self, c))
    }

    /// The greater of this and `least`, a nonzero number; NaN stays.
    pub(super) fn at_least(self, least: f64) -> Value<'b> {
        self.max(least)
    }

    /// The lesser of this and `most`, a nonzero number; NaN stays.
    pub(super) fn at_most(self, most: f64) -> Value<'b> {
        self.min(most)
    }
}

/// The second operand of an operator: another value, or a literal, which takes the type of the
/// first.
pub(super) trait Operand<'b> {
    fn beside(self, neighbour: Value<'b>) -> Value<'b>;
}

impl<'b> Operand<'b> for Value<'b> {
    fn beside(self, _: Value<'b>) -> Value<'b> {
        self
    }
}

impl<'b> Operand<'b> for f64 {
    fn beside(self, neighbour: Value<'b>) -> Value<'b> {
        neighbour.real(self)
    }
}

impl<'b> Operand<'b> for i64 {
    fn beside(self, neighbour: Value<'b>) -> Value<'b> {
        neighbour.integer(self)
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $op:ident),* $(,)?) => {
        $(impl<'b, T: Operand<'b>> $trait<T> for Value<'b> {
            type Output = Value<'b>;
            fn $method(self, other: T) -> Value<'b> {
                self.binary(BinaryOp::$op, other.beside(self))
            }
        })*
    };
}

operator!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem, BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor,
    Shl shl Shl, Shr shr Shr);

impl<'b> Neg for Value<'b> {
    type Output = Value<'b>;
    fn neg(self) -> Value<'b> {
        self.unary(UnaryOp::Neg)
    }
}
