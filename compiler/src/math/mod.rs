//! The mathematics: each named function as one fixed sequence of primitives for each float type.
//!
//! Every expansion obeys these rules:
//!
//! - One sequence for all engines: the interpreter evaluates it, code generators compile it, so all
//!   have the same bits.
//! - At most 2 units in the last place (ULP) from the correctly rounded result over the whole
//!   range: denormal arguments and results, and arguments of any size. (`lgamma` and `digamma` of
//!   negative `f64`s are the exception: where the result is below 1, in units of 1.)
//! - Exact where it should be: exp(0), log(1), sin(0), signs of zero, infinities; a NaN argument
//!   gives a NaN, whatever its payload.
//! - Outside of an `If`, no `min` or `max` except with a constant, no ordering of integers, no
//!   conversion between floats and integers, and no shift by a variable amount: 128-bit SIMD takes
//!   many instructions for these or lacks them. (The exception is clamp, which is defined by `min`
//!   and `max`.) Rare and expensive cases go into an `If`, which engines skip when no lane needs
//!   it; the rest is straight-line code.
//!
//! The accuracy of each, for `f32` over all 2^32 arguments and for `f64` over a table, is stated in
//! the language reference; `tests/all/accuracy` and the program `sweep` of the tests measure it.

mod builder;
mod coefficients;
mod erf;
mod exp;
mod gamma;
mod hyperbolic;
mod integer;
mod inverse;
mod log;
mod power;
mod random;
mod reducers;
mod simple;
mod trig;

use builder::{Float, Value};
use ir::nest::Function;
use ir::{Dtype, MathFn};
pub use reducers::define_reducer;

/// The body of a function, by its number of arguments.
enum Body {
    One(for<'b> fn(Value<'b>) -> Value<'b>),
    Two(for<'b> fn(Value<'b>, Value<'b>) -> Value<'b>),
    Three(for<'b> fn(Value<'b>, Value<'b>, Value<'b>) -> Value<'b>),
}

/// The expansion of `math` for results of type `dtype`, named such as `exp.f32`. Its arguments have
/// the same type, except those of random functions. `None` if the type has no such function.
pub fn define(math: MathFn, dtype: Dtype) -> Option<Function> {
    let body = match Float::of(dtype) {
        Some(_) => body(math)?,
        None if dtype.is_int() && !dtype.is_storage() => integer::body(math)?,
        None => return None,
    };
    let function = builder::build(math, dtype, |arguments| match (body, arguments) {
        (Body::One(f), &[x, ..]) => f(x),
        (Body::Two(f), &[x, y, ..]) => f(x, y),
        (Body::Three(f), &[x, y, z, ..]) => f(x, y, z),
        // No function has fewer arguments than its body takes, because the table below agrees with
        // `MathFn::arity`.
        _ => unreachable!("{math} takes {} arguments", math.arity()),
    });
    Some(Function { quotients_in_range: quotients_in_range(math), ..function })
}

/// Whether the quotients of a function lie in a range where they can be computed fast: those of a
/// gate have a divisor from 2^39 to 2^80, the one of tanh has a dividend of at least 0.4.
fn quotients_in_range(math: MathFn) -> bool {
    matches!(math, MathFn::Sigmoid | MathFn::Silu | MathFn::GeluTanh | MathFn::Tanh)
}

fn body(math: MathFn) -> Option<Body> {
    Some(match math {
        MathFn::Exp => Body::One(exp::exp),
        MathFn::Exp2 => Body::One(exp::exp2),
        MathFn::Expm1 => Body::One(exp::expm1),
        MathFn::Log => Body::One(log::log),
        MathFn::Log2 => Body::One(log::log2),
        MathFn::Log10 => Body::One(log::log10),
        MathFn::Log1p => Body::One(log::log1p),
        MathFn::Sin => Body::One(trig::sin),
        MathFn::Cos => Body::One(trig::cos),
        MathFn::Tan => Body::One(trig::tan),
        MathFn::Asin => Body::One(inverse::asin),
        MathFn::Acos => Body::One(inverse::acos),
        MathFn::Atan => Body::One(inverse::atan),
        MathFn::Atan2 => Body::Two(inverse::atan2),
        MathFn::Sinh => Body::One(hyperbolic::sinh),
        MathFn::Cosh => Body::One(hyperbolic::cosh),
        MathFn::Tanh => Body::One(hyperbolic::tanh),
        MathFn::Asinh => Body::One(hyperbolic::asinh),
        MathFn::Acosh => Body::One(hyperbolic::acosh),
        MathFn::Atanh => Body::One(hyperbolic::atanh),
        MathFn::Sigmoid => Body::One(exp::sigmoid),
        MathFn::Erf => Body::One(erf::erf),
        MathFn::ErfInv => Body::One(erf::erf_inv),
        MathFn::Lgamma => Body::One(gamma::lgamma),
        MathFn::Digamma => Body::One(gamma::digamma),
        MathFn::Rsqrt => Body::One(simple::rsqrt),
        MathFn::Mod => Body::Two(simple::modulo),
        MathFn::FloorDiv => Body::Two(simple::floor_div),
        MathFn::Cbrt => Body::One(power::cbrt),
        MathFn::Pow => Body::Two(power::pow),
        MathFn::Sign => Body::One(simple::sign),
        MathFn::Clamp => Body::Three(simple::clamp),
        MathFn::Relu => Body::One(simple::relu),
        MathFn::Gelu => Body::One(erf::gelu),
        MathFn::GeluTanh => Body::One(exp::gelu_tanh),
        MathFn::Silu => Body::One(exp::silu),
        MathFn::Softplus => Body::One(log::softplus),
        MathFn::Uniform => Body::Three(random::uniform),
        MathFn::Normal => Body::Three(random::normal),
        MathFn::Popcount | MathFn::Subseed => return None,
    })
}
