//! The random functions: Philox2x32-7, and functions of its words.
//!
//! Philox (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
//! maps a counter of two words under a key of one to two random words. It needs only integer
//! arithmetic and no state, and gives the same on every machine. With 7 rounds it is reported to
//! pass BigCrush. A round is one wide multiplication and two exclusive ors, so drawing keeps up
//! with memory. (10 rounds, the authors' safety margin, cost half as much again; our tests see no
//! pattern from 5 rounds on.)
//!
//! A draw has a seed and two numbers `a` and `b`, all of 64 bits, in words (s, s'), (a, a') and (b,
//! b'). The key is s + s' E and the counter (a + b' B, b + a' A + s' C), where + is exclusive or:
//! each low word has a place of its own, and the high words, mostly zero, are multiplied by odd
//! constants and combined with places other than their own low word's. So within a seed no two `a`
//! share a draw, nor do two `b`, and two pairs do with the probability of chance, one in 2^64. For
//! 32-bit arguments a draw is Philox as published. `check::random` says how callers choose `a` and
//! `b`.

use ir::Dtype;

use super::builder::{Float, PerFloat, Value};
use super::log::log;

/// Rounds of a block.
const ROUNDS: i64 = 7;

/// The published multiplier, and the step of the key from round to round.
const MULTIPLIER: i64 = 0xD256_D193;
const KEY_STEP: i64 = 0x9E37_79B9;

/// The multipliers of high words: 32-bit primes of xxHash.
const HIGH_A: i64 = 0x85EB_CA77;
const HIGH_B: i64 = 0xC2B2_AE3D;
const SEED_COUNTER: i64 = 0x27D4_EB2F;
const SEED_KEY: i64 = 0x1656_67B1;

/// sin(pi t) / t in powers of t^2 for |t| <= 1/2, by mpmath's `chebyfit`; relative error 2^-28 and
/// 2^-62.
#[expect(clippy::approx_constant, reason = "a fit, whose first coefficient is nearly pi")]
const SIN_PI: PerFloat<&[f64]> = PerFloat {
    f32: &[3.141_592_6, -5.167_71, 2.550_077_4, -0.598_290_4, 0.077_655_91],
    f64: &[
        3.141_592_653_589_793,
        -5.167_712_780_049_97,
        2.550_164_039_877_300_6,
        -0.599_264_529_318_944_7,
        0.082_145_886_573_102_9,
        -0.007_370_430_505_916_943,
        0.000_466_299_816_189_838_1,
        -0.000_021_903_497_074_626_017,
        0.000_000_769_782_676_822_419_1,
    ],
};

/// Two random words, `u32`, and the key that they were drawn under.
struct Words<'b> {
    key: Value<'b>,
    first: Value<'b>,
    second: Value<'b>,
}

/// The words of a draw.
fn draw<'b>(seed: Value<'b>, a: Value<'b>, b: Value<'b>) -> Words<'b> {
    let [(s, s_high), (a, a_high), (b, b_high)] = [seed, a, b].map(|v| (v.cast(Dtype::U32), high(v)));
    let key = s ^ (s_high * SEED_KEY);
    philox(key, a ^ (b_high * HIGH_B), b ^ (a_high * HIGH_A) ^ (s_high * SEED_COUNTER))
}

fn high(v: Value) -> Value {
    (v >> 32).cast(Dtype::U32)
}

/// Philox2x32 of a counter.
fn philox<'b>(key: Value<'b>, first: Value<'b>, second: Value<'b>) -> Words<'b> {
    let (mut left, mut right) = (first, second);
    for round in 0..ROUNDS {
        let product = left.cast(Dtype::U64) * MULTIPLIER;
        (left, right) = (high(product) ^ (key + round * KEY_STEP) ^ right, product.cast(Dtype::U32));
    }
    Words { key, first: left, second: right }
}

/// The words as one number: the seed of a stream of its own.
pub(super) fn subseed<'b>(seed: Value<'b>, a: Value<'b>, b: Value<'b>) -> Value<'b> {
    let words = draw(seed, a, b);
    words.first.cast(Dtype::U64) | (words.second.cast(Dtype::U64) << 32)
}

/// The leading bits of the words as a number in [0, 1), as many as the type holds. `f32` gives the
/// result of `f64`, truncated.
pub(super) fn uniform<'b>(seed: Value<'b>, a: Value<'b>, b: Value<'b>) -> Value<'b> {
    let words = draw(seed, a, b);
    match words.first.float() {
        // A number of 24 bits is converted exactly, and as a signed one in one instruction.
        Float::F32 => float_of(words.first >> 8) * 2f64.powi(-24),
        Float::F64 => fraction(&words),
    }
}

/// A normal number by the method of Box and Muller (1958) with sines: a radius from one word or
/// two, and the sine of an angle from others. The sine of an angle between -90 and 90 degrees has
/// the distribution of that of any angle.
pub(super) fn normal<'b>(seed: Value<'b>, a: Value<'b>, b: Value<'b>) -> Value<'b> {
    let words = draw(seed, a, b);
    let (u, turn) = match words.first.float() {
        Float::F32 => {
            let u = float_of(words.first >> 1).fma(2f64.powi(-31), 2f64.powi(-32));
            let turn = float_of(words.second).fma(2f64.powi(-32), 2f64.powi(-33));
            (u, turn)
        }
        // The words are too few for two numbers of 53 bits, so they serve as a counter for more.
        Float::F64 => {
            let u = fraction(&words) + 2f64.powi(-54);
            let more = philox(words.key, words.first, words.second);
            (u, fraction(&more) - 0.5 + 2f64.powi(-54))
        }
    };
    let radius = (log(u) * -2.0).sqrt();
    radius * (turn * (turn * turn).polynomial(SIN_PI.of(turn.float())))
}

/// An `u32` as `f32`, by its sign.
fn float_of(word: Value) -> Value {
    word.bitcast(Dtype::I32).cast(Dtype::F32)
}

/// The leading 53 bits of the words as an `f64` in [0, 1).
fn fraction<'b>(words: &Words<'b>) -> Value<'b> {
    let whole = |word: Value<'b>| {
        // Placed in the low bits of 2^52, a word becomes a float without a conversion.
        let float = word.float();
        (word.cast(Dtype::U64) | float.bits_of(float.integral())).as_float() - float.integral()
    };
    whole(words.first).fma(2f64.powi(-32), whole(words.second >> 11) * 2f64.powi(-53))
}
