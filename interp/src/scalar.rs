//! Each scalar primitive, defined once: the code for the words of `ir::ops` and `ir::nest::Op`.
//!
//! Every function here is total. Operands of the wrong types cannot occur in verified IR; for those
//! alone the answer is `ill_typed`.

use ir::build::Values;
use ir::nest::{Block, Function, Op, Program, Reducer, Statement, ValueId};
use ir::{Arithmetic, BinaryOp, CompareOp, Dtype, Scalar, UnaryOp};
use smallvec::SmallVec;

/// All of it as one value, for callers that compute with scalars without importing this crate.
pub const ARITHMETIC: Arithmetic = Arithmetic { unary, binary, compare, fma, cast, bitcast, call };

/// The value of an operation that the verifier would have rejected.
fn ill_typed(dtype: Dtype) -> Scalar {
    Scalar::zero(dtype)
}

/// A primitive of one operand.
pub fn unary(op: UnaryOp, a: Scalar) -> Scalar {
    match a {
        Scalar::Bool(v) if op == UnaryOp::Not => Some(Scalar::Bool(!v)),
        Scalar::I32(v) => i32::unary(op, v).map(Scalar::I32),
        Scalar::I64(v) => i64::unary(op, v).map(Scalar::I64),
        Scalar::U32(v) => u32::unary(op, v).map(Scalar::U32),
        Scalar::U64(v) => u64::unary(op, v).map(Scalar::U64),
        Scalar::F32(v) => f32::unary(op, v).map(Scalar::F32),
        Scalar::F64(v) => f64::unary(op, v).map(Scalar::F64),
        _ => None,
    }
    .unwrap_or_else(|| ill_typed(a.dtype()))
}

/// A primitive of two operands.
pub fn binary(op: BinaryOp, a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        (Scalar::Bool(x), Scalar::Bool(y)) => bool_binary(op, x, y).map(Scalar::Bool),
        (Scalar::I32(x), Scalar::I32(y)) => Some(Scalar::I32(i32::binary(op, x, y))),
        (Scalar::I64(x), Scalar::I64(y)) => Some(Scalar::I64(i64::binary(op, x, y))),
        (Scalar::U32(x), Scalar::U32(y)) => Some(Scalar::U32(u32::binary(op, x, y))),
        (Scalar::U64(x), Scalar::U64(y)) => Some(Scalar::U64(u64::binary(op, x, y))),
        (Scalar::F32(x), Scalar::F32(y)) => f32::binary(op, x, y).map(Scalar::F32),
        (Scalar::F64(x), Scalar::F64(y)) => f64::binary(op, x, y).map(Scalar::F64),
        _ => None,
    }
    .unwrap_or_else(|| ill_typed(a.dtype()))
}

/// A comparison. With a NaN all but `Ne` are false; `bool` orders false first.
pub fn compare(op: CompareOp, a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::Bool(x), Scalar::Bool(y)) => holds(op, x, y),
        (Scalar::I8(x), Scalar::I8(y)) => holds(op, x, y),
        (Scalar::U8(x), Scalar::U8(y)) => holds(op, x, y),
        (Scalar::I16(x), Scalar::I16(y)) => holds(op, x, y),
        (Scalar::U16(x), Scalar::U16(y)) => holds(op, x, y),
        (Scalar::I32(x), Scalar::I32(y)) => holds(op, x, y),
        (Scalar::I64(x), Scalar::I64(y)) => holds(op, x, y),
        (Scalar::U32(x), Scalar::U32(y)) => holds(op, x, y),
        (Scalar::U64(x), Scalar::U64(y)) => holds(op, x, y),
        (Scalar::F16(x), Scalar::F16(y)) => holds(op, x, y),
        (Scalar::Bf16(x), Scalar::Bf16(y)) => holds(op, x, y),
        (Scalar::F32(x), Scalar::F32(y)) => holds(op, x, y),
        (Scalar::F64(x), Scalar::F64(y)) => holds(op, x, y),
        _ => ill_typed(Dtype::Bool) == Scalar::Bool(true),
    }
}

/// The numbers of elements in ascending order, NaN last and -0.0 before 0.0. Equal ones stay in
/// order.
pub fn sorted(elements: &[Scalar]) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..elements.len()).collect();
    let computed: Vec<Scalar> = elements.iter().map(|x| cast(x.dtype().compute(), *x)).collect();
    numbers.sort_by(|a, b| order(computed[*a], computed[*b]));
    numbers
}

/// The order in a sort of two numbers of a type for computing.
fn order(a: Scalar, b: Scalar) -> std::cmp::Ordering {
    match (a, b) {
        (Scalar::I32(x), Scalar::I32(y)) => x.cmp(&y),
        (Scalar::I64(x), Scalar::I64(y)) => x.cmp(&y),
        (Scalar::U32(x), Scalar::U32(y)) => x.cmp(&y),
        (Scalar::U64(x), Scalar::U64(y)) => x.cmp(&y),
        (Scalar::F32(x), Scalar::F32(y)) if x.is_nan() || y.is_nan() => x.is_nan().cmp(&y.is_nan()),
        (Scalar::F64(x), Scalar::F64(y)) if x.is_nan() || y.is_nan() => x.is_nan().cmp(&y.is_nan()),
        (Scalar::F32(x), Scalar::F32(y)) => x.total_cmp(&y),
        (Scalar::F64(x), Scalar::F64(y)) => x.total_cmp(&y),
        _ => std::cmp::Ordering::Equal,
    }
}

/// `a * b + c`, rounded once.
pub fn fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar {
    match (a, b, c) {
        (Scalar::F32(x), Scalar::F32(y), Scalar::F32(z)) => Scalar::F32(x.mul_add(y, z)),
        (Scalar::F64(x), Scalar::F64(y), Scalar::F64(z)) => Scalar::F64(x.mul_add(y, z)),
        _ => ill_typed(a.dtype()),
    }
}

/// Conversion to a type: integers wrap, float to integer saturates with NaN to 0, anything to a
/// narrower float rounds once to nearest even, to `bool` is `!= 0`.
pub fn cast(to: Dtype, a: Scalar) -> Scalar {
    if a.dtype() == to {
        return a;
    }
    match a {
        Scalar::Bool(v) => from_int(to, v.into()),
        Scalar::I8(v) => from_int(to, v.into()),
        Scalar::U8(v) => from_int(to, v.into()),
        Scalar::I16(v) => from_int(to, v.into()),
        Scalar::U16(v) => from_int(to, v.into()),
        Scalar::I32(v) => from_int(to, v.into()),
        Scalar::I64(v) => from_int(to, v.into()),
        Scalar::U32(v) => from_int(to, v.into()),
        Scalar::U64(v) => from_int(to, v.into()),
        Scalar::F16(v) => from_float(to, v.to_f64()),
        Scalar::Bf16(v) => from_float(to, v.to_f64()),
        Scalar::F32(v) => from_float(to, v.into()),
        Scalar::F64(v) => from_float(to, v),
    }
}

/// The same bits as another type of the same width.
pub fn bitcast(to: Dtype, a: Scalar) -> Scalar {
    if to.bytes() == a.dtype().bytes() { Scalar::from_bits(to, a.bits()) } else { ill_typed(to) }
}

/// The value of a scalar function. To evaluate one often, keep an [`Evaluator`].
pub fn call(function: &Function, arguments: &[Scalar]) -> Scalar {
    Evaluator::new(function).call(arguments)
}

/// A scalar function, or the merge of a reducer, with preallocated space for its values, for
/// repeated calls.
pub struct Evaluator<'f> {
    params: &'f [ValueId],
    dtypes: &'f Values,
    body: &'f Block,
    results: &'f [ValueId],
    values: Vec<Scalar>,
    /// The functions of the program, which a merge may call; a function calls none.
    functions: Vec<Evaluator<'f>>,
}

impl<'f> Evaluator<'f> {
    /// An evaluator of `function`.
    pub fn new(function: &'f Function) -> Evaluator<'f> {
        let Function { params, values, body, result, .. } = function;
        Evaluator::over(params, values, body, std::slice::from_ref(result), vec![])
    }

    /// An evaluator of the merge of `reducer`, which belongs to `program`.
    pub fn of_merge(program: &'f Program, reducer: &'f Reducer) -> Evaluator<'f> {
        let functions = program.functions.values().map(Evaluator::new).collect();
        Evaluator::over(&reducer.params, &reducer.values, &reducer.body, &reducer.results, functions)
    }

    fn over(
        params: &'f [ValueId],
        dtypes: &'f Values,
        body: &'f Block,
        results: &'f [ValueId],
        functions: Vec<Evaluator<'f>>,
    ) -> Evaluator<'f> {
        let values = dtypes.values().map(|&dtype| Scalar::zero(dtype)).collect();
        Evaluator { params, dtypes, body, results, values, functions }
    }

    /// The function's value at `arguments`.
    pub fn call(&mut self, arguments: &[Scalar]) -> Scalar {
        self.evaluate(arguments);
        self.values[slot(self.results[0])]
    }

    /// The results at `arguments`.
    pub fn run(&mut self, arguments: &[Scalar]) -> impl Iterator<Item = Scalar> {
        self.evaluate(arguments);
        self.results.iter().map(|result| self.values[slot(*result)])
    }

    fn evaluate(&mut self, arguments: &[Scalar]) {
        for (&parameter, &argument) in self.params.iter().zip(arguments) {
            self.values[slot(parameter)] = argument;
        }
        let body = self.body;
        self.block(body);
    }

    fn block(&mut self, block: &Block) {
        for statement in block {
            match statement {
                Statement::Let { value, op } => self.values[slot(*value)] = self.op(*value, op),
                Statement::If { condition, then, otherwise, results } => {
                    let taken = self.get(*condition) == Scalar::Bool(true);
                    self.block(if taken { then } else { otherwise });
                    for &(result, a, b) in results {
                        self.values[slot(result)] = self.get(if taken { a } else { b });
                    }
                }
                // A scalar function contains no other statements.
                Statement::Store { .. }
                | Statement::Scatter { .. }
                | Statement::Loop(_)
                | Statement::While(_)
                | Statement::Contract(_) => {}
            }
        }
    }

    fn op(&mut self, value: ValueId, op: &Op) -> Scalar {
        match *op {
            Op::Constant(scalar) => scalar,
            Op::Unary(op, a) => unary(op, self.get(a)),
            Op::Binary(op, a, b) => binary(op, self.get(a), self.get(b)),
            Op::Compare(op, a, b) => Scalar::Bool(compare(op, self.get(a), self.get(b))),
            Op::Fma(a, b, c) => fma(self.get(a), self.get(b), self.get(c)),
            Op::Select(c, a, b) => self.get(if self.get(c) == Scalar::Bool(true) { a } else { b }),
            Op::Cast(to, a) => cast(to, self.get(a)),
            Op::Bitcast(to, a) => bitcast(to, self.get(a)),
            Op::Call(function, ref arguments) => {
                let arguments: SmallVec<[Scalar; 4]> = arguments.iter().map(|a| self.get(*a)).collect();
                self.functions[function.as_u32() as usize].call(&arguments)
            }
            Op::Affine(_) | Op::Load { .. } | Op::Check { .. } | Op::Prefix(..) | Op::Place(_) => {
                ill_typed(self.dtypes[value])
            }
        }
    }

    fn get(&self, value: ValueId) -> Scalar {
        self.values[slot(value)]
    }
}

fn slot(value: ValueId) -> usize {
    value.as_u32() as usize
}

fn holds<T: PartialOrd>(op: CompareOp, a: T, b: T) -> bool {
    match op {
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
    }
}

fn bool_binary(op: BinaryOp, a: bool, b: bool) -> Option<bool> {
    match op {
        BinaryOp::And | BinaryOp::Min => Some(a & b),
        BinaryOp::Or | BinaryOp::Max => Some(a | b),
        BinaryOp::Xor => Some(a ^ b),
        _ => None,
    }
}

trait Integer: Sized {
    fn unary(op: UnaryOp, a: Self) -> Option<Self>;
    fn binary(op: BinaryOp, a: Self, b: Self) -> Self;
}

macro_rules! integer {
    ($type:ty, abs: $abs:expr, beyond: $beyond:expr) => {
        impl Integer for $type {
            fn unary(op: UnaryOp, a: $type) -> Option<$type> {
                let abs: fn($type) -> $type = $abs;
                match op {
                    UnaryOp::Neg => Some(a.wrapping_neg()),
                    UnaryOp::Not => Some(!a),
                    UnaryOp::Abs => Some(abs(a)),
                    _ => None,
                }
            }

            fn binary(op: BinaryOp, a: $type, b: $type) -> $type {
                // The result of a right shift by the full width or more, or by a negative amount.
                let beyond: fn($type) -> $type = $beyond;
                let amount = u32::try_from(b).unwrap_or(u32::MAX);
                match op {
                    BinaryOp::Add => a.wrapping_add(b),
                    BinaryOp::Sub => a.wrapping_sub(b),
                    BinaryOp::Mul => a.wrapping_mul(b),
                    BinaryOp::Div if b == 0 => 0,
                    BinaryOp::Div => a.wrapping_div(b),
                    BinaryOp::Rem if b == 0 => 0,
                    BinaryOp::Rem => a.wrapping_rem(b),
                    BinaryOp::Min => a.min(b),
                    BinaryOp::Max => a.max(b),
                    BinaryOp::And => a & b,
                    BinaryOp::Or => a | b,
                    BinaryOp::Xor => a ^ b,
                    BinaryOp::Shl => a.checked_shl(amount).unwrap_or(0),
                    BinaryOp::Shr => a.checked_shr(amount).unwrap_or(beyond(a)),
                }
            }
        }
    };
}

integer!(i32, abs: i32::wrapping_abs, beyond: |a| a >> 31);
integer!(i64, abs: i64::wrapping_abs, beyond: |a| a >> 63);
integer!(u32, abs: |a| a, beyond: |_| 0);
integer!(u64, abs: |a| a, beyond: |_| 0);

trait Float: Sized {
    fn unary(op: UnaryOp, a: Self) -> Option<Self>;
    fn binary(op: BinaryOp, a: Self, b: Self) -> Option<Self>;
}

macro_rules! float {
    ($type:ty) => {
        impl Float for $type {
            fn unary(op: UnaryOp, a: $type) -> Option<$type> {
                match op {
                    UnaryOp::Neg => Some(-a),
                    UnaryOp::Not => None,
                    UnaryOp::Abs => Some(a.abs()),
                    UnaryOp::Sqrt => Some(a.sqrt()),
                    UnaryOp::Floor => Some(a.floor()),
                    UnaryOp::Ceil => Some(a.ceil()),
                    UnaryOp::Trunc => Some(a.trunc()),
                    UnaryOp::Round => Some(a.round_ties_even()),
                }
            }

            fn binary(op: BinaryOp, a: $type, b: $type) -> Option<$type> {
                match op {
                    BinaryOp::Add => Some(a + b),
                    BinaryOp::Sub => Some(a - b),
                    BinaryOp::Mul => Some(a * b),
                    BinaryOp::Div => Some(a / b),
                    BinaryOp::Rem => Some(a % b),
                    BinaryOp::Min | BinaryOp::Max if a.is_nan() || b.is_nan() => Some(<$type>::NAN),
                    // The total order puts -0 below +0.
                    BinaryOp::Min => Some(if a.total_cmp(&b).is_le() { a } else { b }),
                    BinaryOp::Max => Some(if a.total_cmp(&b).is_le() { b } else { a }),
                    BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => None,
                }
            }
        }
    };
}

float!(f32);
float!(f64);

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "integers wrap and floats round: that is the definition"
)]
fn from_int(to: Dtype, v: i128) -> Scalar {
    match to {
        Dtype::Bool => Scalar::Bool(v != 0),
        Dtype::I8 => Scalar::I8(v as i8),
        Dtype::U8 => Scalar::U8(v as u8),
        Dtype::I16 => Scalar::I16(v as i16),
        Dtype::U16 => Scalar::U16(v as u16),
        Dtype::I32 => Scalar::I32(v as i32),
        Dtype::I64 => Scalar::I64(v as i64),
        Dtype::U32 => Scalar::U32(v as u32),
        Dtype::U64 => Scalar::U64(v as u64),
        Dtype::F32 => Scalar::F32(v as f32),
        Dtype::F64 => Scalar::F64(v as f64),
        Dtype::F16 | Dtype::Bf16 => from_float(to, int_to_odd(v)),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, turns NaN into 0 and rounds to nearest even: the definition"
)]
fn from_float(to: Dtype, v: f64) -> Scalar {
    match to {
        Dtype::Bool => Scalar::Bool(v != 0.0),
        Dtype::I8 => Scalar::I8(v as i8),
        Dtype::U8 => Scalar::U8(v as u8),
        Dtype::I16 => Scalar::I16(v as i16),
        Dtype::U16 => Scalar::U16(v as u16),
        Dtype::I32 => Scalar::I32(v as i32),
        Dtype::I64 => Scalar::I64(v as i64),
        Dtype::U32 => Scalar::U32(v as u32),
        Dtype::U64 => Scalar::U64(v as u64),
        Dtype::F32 => Scalar::F32(v as f32),
        Dtype::F64 => Scalar::F64(v),
        Dtype::F16 => Scalar::F16(half::f16::from_f32(float_to_odd(v))),
        Dtype::Bf16 => Scalar::Bf16(half::bf16::from_f32(float_to_odd(v))),
    }
}

/// `v` rounded to odd: an inexact result is the neighbour with an odd last bit. Rounding that to a
/// format at least two bits narrower gives what rounding `v` itself would (Boldo and Melquiond,
/// "When double rounding is odd").
#[expect(clippy::cast_possible_truncation, reason = "the rounding is put right below")]
fn float_to_odd(v: f64) -> f32 {
    let near = v as f32;
    let even = near.to_bits() & 1 == 0;
    if v.is_nan() || f64::from(near) == v || !even {
        near
    } else if f64::from(near).abs() > v.abs() {
        f32::from_bits(near.to_bits() - 1)
    } else {
        f32::from_bits(near.to_bits() + 1)
    }
}

/// `v`, of at most 65 bits, rounded to odd; see [`float_to_odd`].
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the rounding is put right below")]
fn int_to_odd(v: i128) -> f64 {
    let near = v as f64;
    let even = near.to_bits() & 1 == 0;
    if near as i128 == v || !even {
        near
    } else if (near as i128).abs() > v.abs() {
        f64::from_bits(near.to_bits() - 1)
    } else {
        f64::from_bits(near.to_bits() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_total() {
        let i = Scalar::I32;
        assert_eq!(binary(BinaryOp::Div, i(i32::MIN), i(-1)), i(i32::MIN));
        assert_eq!(binary(BinaryOp::Rem, i(i32::MIN), i(-1)), i(0));
        assert_eq!(binary(BinaryOp::Div, i(7), i(0)), i(0));
        assert_eq!(binary(BinaryOp::Rem, i(7), i(0)), i(0));
        assert_eq!(binary(BinaryOp::Rem, i(-7), i(2)), i(-1));
        assert_eq!(binary(BinaryOp::Shl, i(1), i(32)), i(0));
        assert_eq!(binary(BinaryOp::Shl, i(1), i(-1)), i(0));
        assert_eq!(binary(BinaryOp::Shr, i(-8), i(99)), i(-1));
        assert_eq!(binary(BinaryOp::Shr, i(-8), i(-1)), i(-1));
        assert_eq!(binary(BinaryOp::Shr, i(8), i(-1)), i(0));
        assert_eq!(binary(BinaryOp::Shr, Scalar::U64(u64::MAX), Scalar::U64(1 << 40)), Scalar::U64(0));
        assert_eq!(unary(UnaryOp::Abs, i(i32::MIN)), i(i32::MIN));
        assert_eq!(unary(UnaryOp::Neg, Scalar::U32(1)), Scalar::U32(u32::MAX));
    }

    #[test]
    fn floats_are_ieee() {
        let f = Scalar::F32;
        let (min, max) = (BinaryOp::Min, BinaryOp::Max);
        assert_eq!(binary(min, f(0.0), f(-0.0)), f(-0.0));
        assert_eq!(binary(max, f(-0.0), f(0.0)), f(0.0));
        assert_eq!(binary(max, f(f32::NAN), f(1.0)), f(f32::NAN));
        assert_eq!(binary(min, f(1.0), f(-f32::NAN)), f(f32::NAN));
        assert_eq!(binary(min, f(f32::NEG_INFINITY), f(-1.0)), f(f32::NEG_INFINITY));
        assert_eq!(binary(BinaryOp::Rem, f(-5.5), f(2.0)), f(-1.5));
        assert_eq!(binary(BinaryOp::Rem, f(1e30), f(0.7)), f(1e30 % 0.7));
        assert_eq!(binary(BinaryOp::Rem, f(1.0), f(0.0)), f(f32::NAN));
        assert_eq!(unary(UnaryOp::Neg, f(0.0)), f(-0.0));
        assert_eq!(unary(UnaryOp::Round, f(2.5)), f(2.0));
        assert_eq!(unary(UnaryOp::Round, f(-0.5)), f(-0.0));
        assert!(!compare(CompareOp::Eq, f(f32::NAN), f(f32::NAN)));
        assert!(compare(CompareOp::Ne, f(f32::NAN), f(f32::NAN)));
        assert!(compare(CompareOp::Lt, Scalar::Bool(false), Scalar::Bool(true)));
        let eps = 1.0 + f32::EPSILON;
        assert_eq!(fma(f(eps), f(eps), f(-1.0)), f(f32::EPSILON.mul_add(f32::EPSILON, 2.0 * f32::EPSILON)));
    }

    #[test]
    fn casts_saturate_wrap_and_round_once() {
        let f = Scalar::F64;
        assert_eq!(cast(Dtype::I32, f(f64::NAN)), Scalar::I32(0));
        assert_eq!(cast(Dtype::I32, f(-1e30)), Scalar::I32(i32::MIN));
        assert_eq!(cast(Dtype::U8, f(300.0)), Scalar::U8(255));
        assert_eq!(cast(Dtype::I64, Scalar::F32(f32::INFINITY)), Scalar::I64(i64::MAX));
        assert_eq!(cast(Dtype::I8, Scalar::I32(200)), Scalar::I8(-56));
        assert_eq!(cast(Dtype::I32, Scalar::I64(1 << 32)), Scalar::I32(0));
        assert_eq!(cast(Dtype::Bool, f(f64::NAN)), Scalar::Bool(true));
        assert_eq!(cast(Dtype::Bool, f(-0.0)), Scalar::Bool(false));
        assert_eq!(cast(Dtype::F32, Scalar::Bool(true)), Scalar::F32(1.0));
        // Just above the midpoint of two neighbouring f16 (and bf16) values: rounding to f32 first
        // would land on the tie.
        let above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(cast(Dtype::F16, f(above_tie)), Scalar::from_bits(Dtype::F16, 0x3c01));
        let above_tie = (1_i64 << 62) + (1 << 54) + 1;
        assert_eq!(cast(Dtype::Bf16, Scalar::I64(above_tie)), Scalar::from_bits(Dtype::Bf16, 0x5e81));
        assert_eq!(cast(Dtype::F16, f(1e300)), Scalar::F16(half::f16::INFINITY));
        assert_eq!(bitcast(Dtype::I32, Scalar::F32(-0.0)), Scalar::I32(i32::MIN));
    }
}
