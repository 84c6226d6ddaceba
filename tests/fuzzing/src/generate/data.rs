//! Inputs for a generated program: interesting sizes (0, 1, primes, the edges of chunks) within a
//! budget of work, and interesting elements (NaN, infinities, -0, denormals, extremes).

use std::collections::BTreeMap;
use std::fmt;

use ir::{Array, Dtype, Scalar};

use super::{ParamRole, Program};

/// Sizes worth trying: small ones, then the constants of the orders (`ir::order`) and their
/// neighbours: groups of scans (16), lanes (128), blocks (256) and chunks (4,096).
const SIZES: [i64; 21] = [3, 5, 2, 7, 1, 16, 0, 17, 15, 31, 127, 128, 129, 255, 256, 257, 1031, 4095, 4096, 4097, 511];

/// Sizes beyond the blocks and chunks of reductions, and beyond the chunks of sorts and keyed
/// reductions (16,384), the longest first.
const LONG: [i64; 12] = [40_000, 16_385, 12_345, 9000, 8193, 8192, 5000, 4097, 4096, 4095, 1031, 600];

/// Values of scalars that bound loops after some arithmetic: values that wrap, and values larger
/// than any axis.
const EXTREME_SCALARS: [i64; 12] = [2, 0, 1, -1, 3, 1 << 31, 1 << 48, 1 << 62, i64::MAX, i64::MIN, (1 << 31) - 1, 7];

/// The number of the call from which on calls are small again.
pub const SMALL_AGAIN: u64 = 8;

/// The budget of elements that all loop nests of a call may visit.
const BUDGET: i64 = 30_000;

/// The same for calls with one size beyond the blocks and chunks of reductions.
const LONG_BUDGET: i64 = 200_000;

/// The same for the rare calls that are large enough for several threads.
const LARGE_BUDGET: i64 = 500_000;

/// Random numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n` (0 if `n` is below 1).
    pub fn below(&mut self, n: i64) -> i64 {
        let n = u64::try_from(n).unwrap_or(0);
        self.bits().checked_rem(n).and_then(|v| i64::try_from(v).ok()).unwrap_or(0)
    }

    /// A number from 0 to 1.
    fn unit(&mut self) -> f64 {
        f64::from(u32::try_from(self.bits() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }
}

/// The value of each size name.
type Sizes = BTreeMap<String, i64>;

/// The arguments of one call.
#[derive(Clone)]
pub struct Call {
    /// The value of each size name.
    pub sizes: BTreeMap<String, i64>,
    /// Names and values, in parameter order.
    pub inputs: Vec<(String, Array)>,
}

impl fmt::Debug for Call {
    /// Sizes, and what is short of the inputs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sizes {:?}", self.sizes)?;
        for (name, array) in &self.inputs {
            let shown = (0..array.len().min(24)).filter_map(|n| array.get(n)).map(|s| format!("{s:?}"));
            let shown: Vec<String> = shown.collect();
            let more = if array.len() > shown.len() { ", ..." } else { "" };
            writeln!(f, "  {name}: {}{:?} = [{}{more}]", array.dtype(), array.shape(), shown.join(", "))?;
        }
        Ok(())
    }
}

impl Program {
    /// The n-th call. Its sizes and elements follow from the program's seed.
    pub fn call(&self, n: u64) -> Call {
        let mut random = Random::new(self.data.wrapping_add(n.wrapping_mul(0x1234_5678_9abc_def1)));
        let sizes = self.choose_sizes(&mut random, n);
        let inputs = self.params.iter().map(|param| {
            let shape: Vec<usize> = param.shape.iter().map(|dim| at(dim, &sizes)).collect();
            let count = if shape.contains(&0) { 0 } else { shape.iter().product() };
            // Occasionally an input does not fit.
            let elements: Vec<Scalar> = match &param.role {
                ParamRole::Size => vec![integer(param.ty, sizes[&param.name])],
                ParamRole::Extreme => vec![extreme(param.ty, &mut random)],
                ParamRole::Small => (0..count).map(|_| integer(param.ty, random.below(7) - 3)).collect(),
                ParamRole::Below(dim) => {
                    let bound = dim.value(&|name| sizes[name]);
                    let astray =
                        if random.below(3) == 0 { random.below(i64::try_from(count).unwrap_or(0)) } else { -1 };
                    let element = |n| match n == astray {
                        true => {
                            let outside = [-1, bound, bound + 1, -bound, i64::MIN, bound - 1];
                            integer(param.ty, outside[usize::try_from(random.below(6)).unwrap_or(0)])
                        }
                        false => integer(param.ty, random.below(bound)),
                    };
                    (0..i64::try_from(count).unwrap_or(0)).map(element).collect()
                }
                ParamRole::Ordinary => {
                    let wild = [0, 0, 3, 15, 40][usize::try_from(random.below(5)).unwrap_or(0)];
                    (0..count).map(|_| element(param.ty, wild, &mut random)).collect()
                }
            };
            let array = Array::from_scalars(param.ty, &shape, &elements);
            (param.name.clone(), array.expect("as many elements as the shape says"))
        });
        let inputs = inputs.collect();
        Call { sizes, inputs }
    }

    /// Random sizes. The first call is small, and so are those from [`SMALL_AGAIN`] on. Each of the
    /// others has one long size if the work allows, and a few have several.
    fn choose_sizes(&self, random: &mut Random, n: u64) -> Sizes {
        let mut sizes: Sizes = self.sizes.iter().map(|name| (name.clone(), small_size(random))).collect();
        let mut budget = BUDGET;
        let is_small = n == 0 || n >= SMALL_AGAIN;
        if !is_small && random.below(10) == 0 {
            budget = LARGE_BUDGET;
            sizes.values_mut().for_each(|n| *n = *n * 401 + 5);
        } else if n > 1 && !is_small {
            let lengths = i64::try_from(LONG.len()).unwrap_or(1);
            let longest = usize::try_from(random.below(lengths).min(random.below(lengths))).unwrap_or(0);
            let short: Sizes = sizes.keys().map(|name| (name.clone(), 1 + random.below(3))).collect();
            let first = usize::try_from(random.below(3)).unwrap_or(0);
            let names = sizes.keys().cycle().skip(first).take(sizes.len());
            // The longest size that the work allows, for any axis.
            let with = |(long, name): (&i64, &String)| {
                let mut sizes = short.clone();
                sizes.insert(name.clone(), *long);
                (self.work(&sizes) <= LONG_BUDGET).then_some(sizes)
            };
            let mut all = LONG[longest..].iter().flat_map(|long| names.clone().map(move |name| (long, name)));
            if let Some(fitting) = all.find_map(with) {
                sizes = fitting;
                budget = LONG_BUDGET;
            }
        }
        // An integer scalar that bounds accesses should keep most of them in bounds.
        if sizes.contains_key("count") && random.below(4) > 0 {
            let least = sizes.iter().filter(|(name, _)| *name != "count").map(|(_, n)| *n).min().unwrap_or(3);
            sizes.insert("count".into(), random.below(least + 1));
        }
        // A value that a parameter of a narrow type cannot hold cannot be its size.
        if let Some(count) = sizes.get_mut("count") {
            *count = (*count).min(i8::MAX.into());
        }
        // Most calls should come through: no negative length.
        if random.below(8) > 0 {
            for _ in 0..4 {
                if self.lengths.iter().any(|d| d.value(&|name| sizes[name]) < 0) {
                    sizes.values_mut().for_each(|n| *n += 1);
                }
            }
        }
        while self.work(&sizes) > budget
            && let Some(largest) = sizes.values_mut().max()
            && *largest > 1
        {
            *largest /= 2;
        }
        if random.below(100) == 0 {
            self.beyond_limit(&mut sizes);
        }
        sizes
    }

    /// Makes one of the sizes greater than an axis may be, if all arrays with such an axis are then
    /// empty, so that nothing is computed.
    fn beyond_limit(&self, sizes: &mut Sizes) {
        let most = ir::bind::MAX_LENGTH as usize;
        let names: Vec<String> = sizes.keys().cloned().collect();
        for (long, zero) in names.iter().flat_map(|long| names.iter().map(move |zero| (long, zero))) {
            let mut tried = sizes.clone();
            tried.insert(zero.clone(), 0);
            tried.insert(long.clone(), ir::bind::MAX_LENGTH as i64 + 1);
            let shapes =
                self.params.iter().map(|param| param.shape.iter().map(|dim| at(dim, &tried)).collect::<Vec<_>>());
            let shapes: Vec<Vec<usize>> = shapes.filter(|shape| shape.iter().any(|n| *n > most >> 16)).collect();
            let beyond = shapes.iter().flatten().any(|n| *n > most);
            // Both are counted: with axes of 0 made longer, and with a further axis of 2, the
            // number of bytes must not overflow.
            let counted =
                |shape: &[usize]| shape.iter().filter(|n| **n > 0).try_fold(16usize, |sum, n| sum.checked_mul(*n));
            if beyond && shapes.iter().all(|shape| shape.contains(&0) && counted(shape).is_some()) {
                *sizes = tried;
                return;
            }
        }
    }

    /// The number of elements that a call visits. A size of 0 counts as 1, because loop-invariant
    /// reductions are computed even if the loop is empty.
    fn work(&self, sizes: &Sizes) -> i64 {
        let value = |dim: &super::Dim| dim.work(&|name| sizes[name].max(1)).max(0);
        let inputs = self.params.iter().map(|p| p.shape.iter().fold(1, |n, dim| value(dim).saturating_mul(n)));
        self.work.iter().map(value).chain(inputs).fold(0, i64::saturating_add)
    }
}

/// A size worth trying, mostly a small one.
fn small_size(random: &mut Random) -> i64 {
    let count = if random.below(3) > 0 { 8 } else { SIZES.len() };
    SIZES[usize::try_from(random.below(i64::try_from(count).unwrap_or(0))).unwrap_or(0)]
}

fn at(dim: &super::Dim, sizes: &Sizes) -> usize {
    usize::try_from(dim.value(&|name| sizes[name])).unwrap_or(0)
}

/// An integer as an element, clamped to the range of the type.
fn integer(ty: Dtype, value: i64) -> Scalar {
    let (least, greatest) = match (ty, ty.narrow_range()) {
        (_, Some((least, greatest))) => (least.into(), greatest.into()),
        (Dtype::I32, _) => (i32::MIN.into(), i32::MAX.into()),
        (Dtype::U32, _) => (0, u32::MAX.into()),
        (Dtype::U64, _) => (0, i64::MAX),
        _ => (i64::MIN, i64::MAX),
    };
    interp::scalar::cast(ty, Scalar::I64(value.clamp(least, greatest)))
}

/// A scalar that is small or extreme.
fn extreme(ty: Dtype, random: &mut Random) -> Scalar {
    let count = i64::try_from(EXTREME_SCALARS.len()).unwrap_or(1);
    let value = EXTREME_SCALARS[usize::try_from(random.below(count)).unwrap_or(0)];
    if ty == Dtype::U64 && value < 0 { Scalar::from_bits(ty, value as u64) } else { integer(ty, value) }
}

/// A NaN with any sign and payload.
fn nan(ty: Dtype, random: &mut Random) -> Scalar {
    let (exponent, all) = match ty {
        Dtype::F64 => (0x7ff0_0000_0000_0000, u64::MAX),
        Dtype::F32 => (0x7f80_0000, u64::from(u32::MAX)),
        Dtype::F16 => (0x7c00, u64::from(u16::MAX)),
        _ => (0x7f80, u64::from(u16::MAX)),
    };
    Scalar::from_bits(ty, exponent | 1 | random.bits() & all)
}

/// The extremes of integers, in their high bits.
const EXTREMES: [u64; 6] = [1 << 63, (1 << 63) - 1, 0, u64::MAX, (1 << 63) + 1, u64::MAX - 1];

const WILD: [f64; 16] = [
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    -0.0,
    0.0,
    1e-40,
    -5e-324,
    1e300,
    -3.4028234663852886e38,
    1.1754943508222875e-38,
    88.72,
    -104.0,
    1e10,
    0.5,
];

/// An element. `wild` percent of them are out of the ordinary.
fn element(ty: Dtype, wild: i64, random: &mut Random) -> Scalar {
    let strange = random.below(100) < wild;
    if ty == Dtype::Bool {
        return Scalar::Bool(random.below(2) == 1);
    }
    // Now and then any bits at all.
    if strange && random.below(4) == 0 {
        return Scalar::from_bits(ty, random.bits());
    }
    if ty.is_int() {
        return match strange {
            true => {
                Scalar::from_bits(ty, EXTREMES[usize::try_from(random.below(6)).unwrap_or(0)] >> (64 - 8 * ty.bytes()))
            }
            false => integer(ty, random.below(21) - if ty.is_signed_int() { 10 } else { 0 }),
        };
    }
    if strange && random.below(8) == 0 {
        return nan(ty, random);
    }
    let value = match strange {
        true => WILD[usize::try_from(random.below(16)).unwrap_or(0)],
        false => match random.below(4) {
            0 => f64::from(i32::try_from(random.below(9)).unwrap_or(0) - 4),
            _ => random.unit() * 8.0 - 4.0,
        },
    };
    interp::scalar::cast(ty, Scalar::F64(value))
}
