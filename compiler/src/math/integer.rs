//! The functions that exist for integers, too or only. They are exact and wrap, like all arithmetic
//! on integers.

use ir::MathFn;

use super::Body;
use super::builder::Value;
use super::random;

/// The body of a function of integers; `None` for functions of floats only.
pub(super) fn body(math: MathFn) -> Option<Body> {
    Some(match math {
        MathFn::Sign => Body::One(sign),
        MathFn::Pow => Body::Two(pow),
        MathFn::Mod => Body::Two(modulo),
        MathFn::FloorDiv => Body::Two(floor_div),
        MathFn::Popcount => Body::One(popcount),
        MathFn::Subseed => Body::Three(random::subseed),
        _ => return None,
    })
}

/// -1, 0 or 1
fn sign(x: Value) -> Value {
    x.gt(0).select(x.integer(1), x.lt(0).select(x.integer(-1), x))
}

/// The number of bits that are set, by sums of ever wider fields. From the first step on the top bit
/// is clear, so that shifts of signed types shift in zeros. There is no product, because 64-bit
/// vectors have none.
fn popcount<'b>(x: Value<'b>) -> Value<'b> {
    let fields = |pattern: u64| x.integer(pattern.cast_signed());
    let pairs = x - ((x >> 1) & fields(0x5555_5555_5555_5555));
    let mask = fields(0x3333_3333_3333_3333);
    let nibbles = (pairs & mask) + ((pairs >> 2) & mask);
    let bytes = (nibbles + (nibbles >> 4)) & fields(0x0f0f_0f0f_0f0f_0f0f);
    let sum = [8, 16, 32].into_iter().filter(|by| *by < x.width()).fold(bytes, |sum, by| sum + (sum >> i64::from(by)));
    sum & 0x7f
}

/// The remainder with the divisor's sign; 0 for a divisor of 0.
fn modulo<'b>(a: Value<'b>, b: Value<'b>) -> Value<'b> {
    let r = a % b;
    if !a.is_signed() {
        return r;
    }
    r.eq(0).select(r, (r ^ b).lt(0).select(r + b, r))
}

/// The quotient, rounded down; 0 by zero.
fn floor_div<'b>(a: Value<'b>, b: Value<'b>) -> Value<'b> {
    let q = a / b;
    if !a.is_signed() {
        return q;
    }
    let r = a % b;
    r.eq(0).select(q, (r ^ b).lt(0).select(q - 1, q))
}

/// The number of low bits of an exponent that are always processed; larger exponents are rare.
const COMMON: u32 = 6;

/// By squaring, over the bits of the exponent. A negative exponent gives `1 / a ^ -e`, truncated.
/// That is 0 unless the base is 1 or -1, where the lowest bit alone decides.
fn pow<'b>(a: Value<'b>, e: Value<'b>) -> Value<'b> {
    let mut square = a;
    let step = |k: u32, power: Value<'b>, square: &mut Value<'b>| {
        if k > 0 {
            *square = *square * *square;
        }
        (e & (1i64 << k)).eq(0).select(power, power * *square)
    };
    let common = (0..COMMON).fold(a.integer(1), |power, k| step(k, power, &mut square));
    let rest = || [(COMMON..a.width()).fold(common, |power, k| step(k, power, &mut square))];
    let [power] = (e >> i64::from(COMMON)).eq(0).branch(|| [common], rest);
    if !a.is_signed() {
        return power;
    }
    let unit = a.eq(1) | a.eq(-1);
    e.lt(0).select(unit.select(power, a.integer(0)), power)
}
