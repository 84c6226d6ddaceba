//! Instructions on floats, compared with plain Rust at critical and at random values.

use half::{bf16, f16};

use crate::rows::{check, holds, inputs, results};

/// A float operation of Rust, with the canonical NaN.
fn f32s(f: impl Fn(&[f32]) -> f32) -> impl Fn(&[u64]) -> u64 {
    move |v| {
        let result = f(&v.iter().map(|b| f32::from_bits(*b as u32)).collect::<Vec<_>>());
        if result.is_nan() { 0x7fff_ffff } else { result.to_bits().into() }
    }
}

fn f64s(f: impl Fn(&[f64]) -> f64) -> impl Fn(&[u64]) -> u64 {
    move |v| {
        let result = f(&v.iter().map(|b| f64::from_bits(*b)).collect::<Vec<_>>());
        if result.is_nan() { u64::MAX >> 1 } else { result.to_bits() }
    }
}

#[test]
fn floats_round_to_nearest() {
    let (a, b, c) = (&["f32"; 1], &["f32"; 2], &["f32"; 3]);
    holds("add.rn.f32 %d, %a, %b;", "f32", b, f32s(|v| v[0] + v[1]));
    holds("sub.rn.f32 %d, %a, %b;", "f32", b, f32s(|v| v[0] - v[1]));
    holds("mul.rn.f32 %d, %a, %b;", "f32", b, f32s(|v| v[0] * v[1]));
    holds("mul.f32 %d, %a, %b;", "f32", b, f32s(|v| v[0] * v[1]));
    holds("fma.rn.f32 %d, %a, %b, %c;", "f32", c, f32s(|v| v[0].mul_add(v[1], v[2])));
    holds("div.rn.f32 %d, %a, %b;", "f32", b, f32s(|v| v[0] / v[1]));
    holds("sqrt.rn.f32 %d, %a;", "f32", a, f32s(|v| v[0].sqrt()));
    holds("rcp.rn.f32 %d, %a;", "f32", a, f32s(|v| 1.0 / v[0]));
    let (a, b, c) = (&["f64"; 1], &["f64"; 2], &["f64"; 3]);
    holds("add.rn.f64 %d, %a, %b;", "f64", b, f64s(|v| v[0] + v[1]));
    holds("sub.rn.f64 %d, %a, %b;", "f64", b, f64s(|v| v[0] - v[1]));
    holds("mul.rn.f64 %d, %a, %b;", "f64", b, f64s(|v| v[0] * v[1]));
    holds("fma.rn.f64 %d, %a, %b, %c;", "f64", c, f64s(|v| v[0].mul_add(v[1], v[2])));
    holds("div.rn.f64 %d, %a, %b;", "f64", b, f64s(|v| v[0] / v[1]));
    holds("sqrt.rn.f64 %d, %a;", "f64", a, f64s(|v| v[0].sqrt()));
    holds("rcp.rn.f64 %d, %a;", "f64", a, f64s(|v| 1.0 / v[0]));
}

/// The `f32` next to an exact value in some direction of rounding, given a double below or above
/// it.
fn directed(exact: impl Fn(&[f64]) -> (f64, f64), up: Option<bool>) -> impl Fn(&[u64]) -> u64 {
    move |v| {
        let operands: Vec<f64> = v.iter().map(|b| f64::from(f32::from_bits(*b as u32))).collect();
        let (value, rest) = exact(&operands);
        if value.is_nan() {
            return 0x7fff_ffff;
        }
        let near = value as f32;
        // Whether the exact value lies above or below its nearest neighbour.
        let error =
            if near.is_infinite() && value.is_finite() { -f64::from(near) } else { (value - f64::from(near)) + rest };
        let error = if near.is_infinite() && value.is_infinite() { 0.0 } else { error };
        let up = up.unwrap_or(value < 0.0 || value == 0.0 && rest < 0.0);
        let result = match (up, error.partial_cmp(&0.0)) {
            (true, Some(std::cmp::Ordering::Greater)) => near.next_up(),
            (false, Some(std::cmp::Ordering::Less)) => near.next_down(),
            _ => near,
        };
        result.to_bits().into()
    }
}

/// The sum and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, if sum.is_finite() { (a - (sum - part)) + (b - part) } else { 0.0 })
}

#[test]
fn floats_round_in_directions() {
    for (name, up) in [("rz", None), ("rm", Some(false)), ("rp", Some(true))] {
        let two = &["f32", "f32"];
        // The sign of a sum that cancels is tested below.
        let rows = |types: &[&str]| -> Vec<_> {
            let nonzero = |row: &Vec<u64>| {
                let [a, b] = [row[0], row[1]].map(|b| f32::from_bits(b as u32));
                a + b != 0.0 && a - b != 0.0
            };
            inputs(types).into_iter().filter(nonzero).collect()
        };
        check(&format!("add.{name}.f32 %d, %a, %b;"), "f32", two, &rows(two), directed(|v| two_sum(v[0], v[1]), up));
        check(&format!("sub.{name}.f32 %d, %a, %b;"), "f32", two, &rows(two), directed(|v| two_sum(v[0], -v[1]), up));
        let product = directed(|v| (v[0] * v[1], 0.0), up);
        check(&format!("mul.{name}.f32 %d, %a, %b;"), "f32", two, &rows(two), product);
        let three = &["f32", "f32", "f32"];
        let uncancelled = |row: &Vec<u64>| {
            let [a, b, c] = [row[0], row[1], row[2]].map(|b| f64::from(f32::from_bits(b as u32)));
            a * b + c != 0.0
        };
        let rows: Vec<_> = inputs(three).into_iter().filter(uncancelled).collect();
        let fused = directed(|v| two_sum(v[0] * v[1], v[2]), up);
        check(&format!("fma.{name}.f32 %d, %a, %b, %c;"), "f32", three, &rows, fused);
    }
    let cancelled = vec![vec![0x3f80_0000, 0xbf80_0000], vec![0, 0x8000_0000], vec![0, 0], vec![0x8000_0000; 2]];
    let sums = |name: &str| results(&format!("add.{name}.f32 %d, %a, %b;"), "f32", &["f32", "f32"], &cancelled);
    assert_eq!(sums("rm"), [0x8000_0000, 0x8000_0000, 0, 0x8000_0000]);
    assert_eq!(sums("rz"), [0, 0, 0, 0x8000_0000]);
}

#[test]
fn narrow_floats_round_once() {
    let f16s = |v: &[u64]| v.iter().map(|b| f16::from_bits(*b as u16).to_f64()).collect::<Vec<_>>();
    let bf16s = |v: &[u64]| v.iter().map(|b| bf16::from_bits(*b as u16).to_f64()).collect::<Vec<_>>();
    // Sums and products of 16-bit floats are exact in doubles, or nearly, so their nearest
    // neighbour is searched for.
    let half = |f: fn(&[f64]) -> f64| move |v: &[u64]| nearest(f(&f16s(v)), |b| f16::from_bits(b).to_f64());
    let brain = |f: fn(&[f64]) -> f64| move |v: &[u64]| nearest(f(&bf16s(v)), |b| bf16::from_bits(b).to_f64());
    let two = &["f16", "f16"];
    holds("add.rn.f16 %d, %a, %b;", "f16", two, half(|v| v[0] + v[1]));
    holds("sub.f16 %d, %a, %b;", "f16", two, half(|v| v[0] - v[1]));
    holds("mul.rn.f16 %d, %a, %b;", "f16", two, half(|v| v[0] * v[1]));
    let two = &["bf16", "bf16"];
    holds("mul.rn.bf16 %d, %a, %b;", "bf16", two, brain(|v| v[0] * v[1]));
    // The double of a sum of three magnitudes far apart is already rounded, so only exact ones are
    // compared.
    let exact = |v: &[f64]| two_sum(v[0] * v[1], v[2]).1 == 0.0;
    let rows: Vec<_> = inputs(&["f16"; 3]).into_iter().filter(|row| exact(&f16s(row))).collect();
    check("fma.rn.f16 %d, %a, %b, %c;", "f16", &["f16"; 3], &rows, half(|v| v[0] * v[1] + v[2]));
    let rows: Vec<_> = inputs(&["bf16"; 3]).into_iter().filter(|row| exact(&bf16s(row))).collect();
    check("fma.rn.bf16 %d, %a, %b, %c;", "bf16", &["bf16"; 3], &rows, brain(|v| v[0] * v[1] + v[2]));
    // Slightly more than half of a last place, which a double cannot tell from half of one.
    let row = vec![0x3f80u64, 0x3b80, 0x3f80];
    let tie = results("fma.rn.bf16 %d, %a, %b, %c;", "bf16", &["bf16"; 3], &[row]);
    assert_eq!(tie, [0x3f80], "1 + 2^-8 is a tie, to even");
    let row = vec![0x3b80u64, 0x3f81, 0x3f80];
    let above = results("fma.rn.bf16 %d, %a, %b, %c;", "bf16", &["bf16"; 3], &[row]);
    assert_eq!(above, [0x3f81], "a little more than a tie");
    let row = vec![0x0080u64, 0x0080, 0x3b80];
    let sticky = results("fma.rn.bf16 %d, %a, %b, %c;", "bf16", &["bf16"; 3], &[row]);
    assert_eq!(sticky, [0x3b80], "what is far below changes nothing");
}

/// The bits of the 16-bit float nearest to a number, ties to even bits.
fn nearest(value: f64, of: impl Fn(u16) -> f64) -> u64 {
    if value.is_nan() {
        return 0x7fff;
    }
    let magnitude = value.abs();
    // The finite values ascend with their bits; infinity comes where the next number would.
    let infinity = (0..0x7fffu16).find(|b| of(*b).is_infinite()).expect("there is infinity");
    let next = of(infinity - 1) + (of(infinity - 1) - of(infinity - 2));
    let at = |b: u16| if b == infinity { next } else { of(b) };
    let (mut low, mut high) = (0, infinity);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if at(middle) <= magnitude { low = middle } else { high = middle }
    }
    let (below, above) = (magnitude - at(low), at(high) - magnitude);
    let bits = if below < above || below == above && low % 2 == 0 { low } else { high };
    u64::from(bits) | u64::from(value.is_sign_negative()) << 15
}

#[test]
fn signs_and_extremes() {
    holds("neg.f32 %d, %a;", "f32", &["f32"], f32s(|v| -v[0]));
    holds("abs.f32 %d, %a;", "f32", &["f32"], f32s(|v| v[0].abs()));
    holds("neg.f64 %d, %a;", "f64", &["f64"], f64s(|v| -v[0]));
    holds("abs.f64 %d, %a;", "f64", &["f64"], f64s(|v| v[0].abs()));
    holds("copysign.f32 %d, %a, %b;", "f32", &["f32", "f32"], |v| v[0] & 1 << 31 | v[1] & !(1 << 31));
    holds("copysign.f64 %d, %a, %b;", "f64", &["f64", "f64"], |v| v[0] & 1 << 63 | v[1] & !(1 << 63));
    fn extreme(v: &[f64], less: bool, nan: bool) -> f64 {
        match (v[0].is_nan(), v[1].is_nan()) {
            (true, true) => f64::NAN,
            (true, false) => {
                if nan {
                    f64::NAN
                } else {
                    v[1]
                }
            }
            (false, true) => {
                if nan {
                    f64::NAN
                } else {
                    v[0]
                }
            }
            // The total order puts -0 below +0.
            _ if v[0].total_cmp(&v[1]).is_lt() == less => v[0],
            _ => v[1],
        }
    }
    for (name, less, nan) in
        [("min", true, false), ("max", false, false), ("min.NaN", true, true), ("max.NaN", false, true)]
    {
        let single = move |v: &[f32]| extreme(&[v[0].into(), v[1].into()], less, nan) as f32;
        holds(&format!("{name}.f32 %d, %a, %b;"), "f32", &["f32", "f32"], f32s(single));
        if !nan {
            holds(&format!("{name}.f64 %d, %a, %b;"), "f64", &["f64", "f64"], f64s(move |v| extreme(v, less, nan)));
        }
        let half = move |v: &[u64]| {
            let [a, b] = [v[0], v[1]].map(|b| f16::from_bits(b as u16).to_f64());
            nearest(extreme(&[a, b], less, nan), |b| f16::from_bits(b).to_f64())
        };
        holds(&format!("{name}.f16 %d, %a, %b;"), "f16", &["f16", "f16"], half);
    }
}

#[test]
fn approximations_are_near() {
    type Function = fn(f64) -> f64;
    let functions: [(&str, Function); 8] = [
        ("ex2", f64::exp2),
        ("lg2", f64::log2),
        ("rcp", f64::recip),
        ("rsqrt", |x| 1.0 / x.sqrt()),
        ("sqrt", f64::sqrt),
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("tanh", f64::tanh),
    ];
    for (name, function) in functions {
        let single = f32s(move |v| function(v[0].into()) as f32);
        holds(&format!("{name}.approx.f32 %d, %a;"), "f32", &["f32"], single);
    }
    let divided = || f32s(|v| (f64::from(v[0]) / f64::from(v[1])) as f32);
    holds("div.full.f32 %d, %a, %b;", "f32", &["f32", "f32"], divided());
    let flushed =
        results("rcp.approx.ftz.f32 %d, %a;", "f32", &["f32"], &[vec![1], vec![0x8000_0001], vec![0x7f00_0000]]);
    assert_eq!(flushed, [0x7f80_0000, 0xff80_0000, 0], "denormals are zeros on the way in and out");
}
