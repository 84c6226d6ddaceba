//! Random elements: each a function of a seed, a stream and its number.

use ir::{Dtype, Scalar};

/// Element `number` of a counter-based generator, as a pure function of the arguments.
///
/// With `mix` the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014), the bits are `mix(mix(mix(seed) + stream) + (number + 1) *
/// 0x9e3779b97f4a7c15)`: SplitMix64 started at a key that depends on seed and stream. Floats are
/// the top bits, as many as the significand has, in [0, 1); integers are 0 to 9, so that they may
/// serve as labels and subscripts.
pub fn random(dtype: Dtype, seed: u64, stream: u64, number: u64) -> Scalar {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
    fn mix(z: u64) -> u64 {
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    let key = mix(mix(seed).wrapping_add(stream));
    let bits = mix(key.wrapping_add(number.wrapping_add(1).wrapping_mul(GAMMA)));
    let significand = match dtype {
        Dtype::F64 => 53,
        Dtype::F32 => 24,
        Dtype::F16 => 11,
        Dtype::Bf16 => 8,
        Dtype::Bool => return Scalar::Bool(bits >> 63 == 1),
        _ => {
            // The high half of the product with 10 is uniform on 0 to 9.
            let digit = (u128::from(bits) * 10) >> 64;
            return Scalar::from_bits(dtype, digit as u64 & 15);
        }
    };
    #[expect(clippy::cast_precision_loss, reason = "at most 53 bits")]
    let unit = (bits >> (64 - significand)) as f64 / (1u64 << significand) as f64;
    float(dtype, unit)
}

/// A floating-point value, rounded to the type; zero if the type is not a float.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
pub(crate) fn float(dtype: Dtype, value: f64) -> Scalar {
    match dtype {
        Dtype::F16 => Scalar::F16(half::f16::from_f64(value)),
        Dtype::Bf16 => Scalar::Bf16(half::bf16::from_f64(value)),
        Dtype::F32 => Scalar::F32(value as f32),
        Dtype::F64 => Scalar::F64(value),
        _ => Scalar::zero(dtype),
    }
}
