//! `uniform` and `normal`: the published values, a second implementation of the definition, and
//! statistics. Each statistic has fixed seeds, so that it passes always or never; its bound would
//! be exceeded by chance about once in a million.

use ir::array::Array;
use ir::{Dtype, Scalar};
use tests::engines::{Engine, Outcome, compile};

/// The result of a function of integer parameters, as `f64`.
fn call(source: &str, arguments: &[i64]) -> Vec<f64> {
    call_on(Engine::Cpu(2, backends::cpu::Simd::Auto), source, arguments)
}

fn call_on(engine: Engine, source: &str, arguments: &[i64]) -> Vec<f64> {
    let compiled = compile(source, "f").expect("the source is right");
    let inputs: Vec<Array> = arguments.iter().map(|v| Array::scalar(Scalar::I64(*v))).collect();
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let Outcome::Results(results) = compiled.run(engine, &inputs) else { panic!("no results") };
    (0..results[0].len())
        .map(|k| match results[0].get(k) {
            Some(Scalar::F32(v)) => v.into(),
            Some(Scalar::F64(v)) => v,
            other => panic!("{other:?} is no draw"),
        })
        .collect()
}

/// Philox2x32 with 7 rounds, as its authors write it.
fn philox(mut key: u32, mut left: u32, mut right: u32) -> (u32, u32) {
    for _ in 0..7 {
        let product = u64::from(left) * 0xD256_D193;
        (left, right) = ((product >> 32) as u32 ^ key ^ right, product as u32);
        key = key.wrapping_add(0x9E37_79B9);
    }
    (left, right)
}

/// The definition of a draw, a second time.
fn draw(seed: u64, a: u64, b: u64) -> (u32, u32) {
    let high = |v: u64, by: u32| ((v >> 32) as u32).wrapping_mul(by);
    let left = a as u32 ^ high(b, 0xC2B2_AE3D);
    let right = b as u32 ^ high(a, 0x85EB_CA77) ^ high(seed, 0x27D4_EB2F);
    philox(seed as u32 ^ high(seed, 0x1656_67B1), left, right)
}

fn words(seed: i64, indices: &[i64]) -> (u32, u32) {
    let mut seed = seed as u64;
    let (outer, last) = indices.split_at(indices.len().saturating_sub(2));
    for index in outer {
        let index = *index as u64;
        let (low, high) = draw(seed, index & 0xffff_ffff, index >> 32 ^ 0xB549_7A2D);
        seed = u64::from(high) << 32 | u64::from(low);
    }
    match *last {
        [i, j] => draw(seed, j as u64, i as u64 ^ 0x5BD1_E995),
        [i] => draw(seed, i as u64 & 0xffff_ffff, i as u64 >> 32),
        _ => panic!("a draw has an index"),
    }
}

/// Published in the Random123 distribution (`kat_vectors`): counter, key, words.
#[test]
fn published_values() {
    let cases: [([u32; 2], i64, [u32; 2]); 3] = [
        ([0, 0], 0, [0x257a_3673, 0xcd26_be2a]),
        ([0xffff_ffff, 0xffff_ffff], 0xffff_ffff, [0xab30_2c4d, 0x3dc9_d239]),
        ([0x243f_6a88, 0x85a3_08d3], 0x1319_8a2e, [0xbedb_be6b, 0xe4c7_70b3]),
    ];
    for ([low, high], key, [first, second]) in cases {
        let expected = (f64::from(first) * 2f64.powi(21) + f64::from(second >> 11)) * 2f64.powi(-53);
        let index = i64::from(high) << 32 | i64::from(low);
        for engine in Engine::ALL {
            let drawn = call_on(engine, "fn f(seed: i64, i: i64) = f64(uniform(seed, i))", &[key, index]);
            assert_eq!(drawn, [expected]);
        }
    }
}

#[test]
fn as_defined() {
    let numbers = [0, 1, -1, 77, 1 << 31, 1 << 32, i64::MIN, i64::MAX, 0x1234_5678_9abc_def0];
    for count in 1..=4 {
        let names = &["i", "j", "k", "l"][..count];
        let params: Vec<String> = names.iter().map(|n| format!("{n}: i64")).collect();
        let source = format!(
            "fn f(seed: i64, {}) = [f64(uniform(seed, {names})), f64(f32(uniform(seed, {names})))]",
            params.join(", "),
            names = names.join(", "),
        );
        let compiled = compile(&source, "f").expect("the source is right");
        for case in 0..60 {
            let arguments: Vec<i64> = (0..=count).map(|k| numbers[(case * 7 + k * (case / 9 + 1)) % 9]).collect();
            let inputs: Vec<Array> = arguments.iter().map(|v| Array::scalar(Scalar::I64(*v))).collect();
            let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
            let (first, second) = words(arguments[0], &arguments[1..]);
            let long = (f64::from(first) * 2f64.powi(21) + f64::from(second >> 11)) * 2f64.powi(-53);
            let short = f64::from(first >> 8) * 2f64.powi(-24);
            for engine in Engine::ALL {
                let Outcome::Results(results) = compiled.run(engine, &inputs) else { panic!("no results") };
                let found = [results[0].get(0), results[0].get(1)];
                assert_eq!(found, [Some(Scalar::F64(long)), Some(Scalar::F64(short))], "{arguments:?}");
            }
        }
    }
}

/// Every way of traversing draws: by index, by seed, along the first and the last of several
/// indices, by high words.
const WAYS: [(&str, &str); 9] = [
    ("counters", "uniform(seed, i)"),
    ("high words", "uniform(seed, shift_left(i, 32))"),
    ("seeds", "uniform(seed + i, 5)"),
    ("high seeds", "uniform(shift_left(i, 32), 5)"),
    ("first of two", "uniform(seed, i, 3)"),
    ("last of two", "uniform(seed, 3, i)"),
    ("high words of two", "uniform(seed, shift_left(i, 40), 3)"),
    ("first of three", "uniform(seed, i, 3, 4)"),
    ("diagonal", "uniform(seed, i, i)"),
];

const COUNT: i64 = 1 << 18;

fn draws(expression: &str) -> Vec<f64> {
    let source = format!("fn f(seed: i64, n: i64) -> f64[n] {{\n    let u[i < n] = f64({expression})\n    u\n}}");
    call(&source, &[20_261_121, COUNT])
}

/// The deviation of a chi-square statistic from its expectation, in standard deviations: its cube
/// root is almost normal (Wilson and Hilferty, 1931).
fn deviation(counts: &[u32]) -> f64 {
    let total: f64 = counts.iter().map(|c| f64::from(*c)).sum();
    let expected = total / counts.len() as f64;
    let squares: f64 = counts.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
    let freedom = counts.len() as f64 - 1.0;
    let spread = 2.0 / (9.0 * freedom);
    ((squares / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

#[test]
fn uniform_alone_and_beside_its_neighbours() {
    for (name, expression) in WAYS {
        let u = draws(expression);
        assert!(u.iter().all(|u| (0.0..1.0).contains(u)), "{name}");
        let mut alone = vec![0; 1024];
        u.iter().for_each(|u| alone[(u * 1024.0) as usize] += 1);
        assert!(deviation(&alone).abs() < 5.0, "{name}: {}", deviation(&alone));
        // The low bits: the rest after the first 32.
        let mut low = vec![0; 1024];
        u.iter().for_each(|u| low[((u * 2f64.powi(32)).fract() * 1024.0) as usize] += 1);
        assert!(deviation(&low).abs() < 5.0, "{name}, low bits: {}", deviation(&low));
        for distance in [1, 2, 4, 64, 4096] {
            let pairs = u.iter().zip(&u[distance..]);
            let mut joint = vec![0; 64 * 64];
            pairs.clone().for_each(|(u, v)| joint[(u * 64.0) as usize * 64 + (v * 64.0) as usize] += 1);
            assert!(deviation(&joint).abs() < 5.0, "{name}, {distance} apart: {}", deviation(&joint));
            let product: f64 = pairs.clone().map(|(u, v)| (u - 0.5) * (v - 0.5)).sum();
            let z = 12.0 * product / (pairs.len() as f64).sqrt();
            assert!(z.abs() < 5.0, "{name}, {distance} apart: {z}");
        }
    }
}

#[test]
fn different_calls_have_nothing_in_common() {
    let pairs = [
        ("uniform(seed, i, -9)", "uniform(seed, -9, i)"),
        ("uniform(seed, i)", "uniform(seed, i, 0)"),
        ("uniform(seed, i)", "uniform(seed, 0, i)"),
        ("uniform(seed, i)", "uniform(seed + 1, i)"),
        ("uniform(seed, i)", "uniform(seed, i + shift_left(1, 32))"),
        ("uniform(seed, i)", "uniform(seed + shift_left(1, 32), i)"),
        ("uniform(seed, 1, i)", "uniform(seed, 2, i)"),
        ("uniform(seed, 1, i)", "uniform(seed, 1 + shift_left(1, 32), i)"),
        ("uniform(seed, 1, 2, i)", "uniform(seed, 2, 1, i)"),
        ("uniform(seed, 1, i)", "uniform(seed, 1, 0, i)"),
        ("uniform(seed, 0, i)", "uniform(seed, 0, 0, i)"),
        ("uniform(i, -3)", "uniform(-3, i)"),
    ];
    for (left, right) in pairs {
        let (u, v) = (draws(left), draws(right));
        let mut joint = vec![0; 64 * 64];
        u.iter().zip(&v).for_each(|(u, v)| joint[(u * 64.0) as usize * 64 + (v * 64.0) as usize] += 1);
        assert!(deviation(&joint).abs() < 5.0, "{left} and {right}: {}", deviation(&joint));
        let z = 12.0 * u.iter().zip(&v).map(|(u, v)| (u - 0.5) * (v - 0.5)).sum::<f64>() / (u.len() as f64).sqrt();
        assert!(z.abs() < 5.0, "{left} and {right}: {z}");
        let mut both: Vec<u64> = u.iter().chain(&v).map(|u| u.to_bits()).collect();
        both.sort_unstable();
        both.dedup();
        // Half a million numbers of 53 bits: two are equal with a probability of one in sixty
        // thousand.
        assert_eq!(both.len(), u.len() + v.len(), "{left} and {right}");
    }
}

/// Changing any bit of the seed or of an index changes each bit of the draw with probability one
/// half.
#[test]
fn every_bit_matters() {
    let calls = [
        ("uniform(bit_xor(seed, bit), i)", "uniform(seed, i)"),
        ("uniform(seed, bit_xor(i, bit))", "uniform(seed, i)"),
        ("uniform(seed, bit_xor(i, bit), 9)", "uniform(seed, i, 9)"),
        ("uniform(seed, 9, bit_xor(i, bit))", "uniform(seed, 9, i)"),
        ("uniform(seed, bit_xor(i, bit), 9, 8)", "uniform(seed, i, 9, 8)"),
    ];
    let count = 1 << 11;
    for (changed, plain) in calls {
        let source = format!(
            "fn plain(seed: i64, i: i64, bit: i64) = f64({plain})
             fn changed(seed: i64, i: i64, bit: i64) = f64({changed})
             fn f(seed: i64, n: i64) {{
                 let u[c < 2, k < 64, i < n] = if c == 0 then plain(seed, i, 1) else changed(seed, i, shift_left(1, k))
                 u
             }}"
        );
        let u = call(&source, &[424_242, count]);
        let bits: Vec<u64> = u.iter().map(|u| (u * 2f64.powi(53)) as u64).collect();
        let (before, after) = bits.split_at(bits.len() / 2);
        for bit in 0..64 {
            let row = bit * count as usize..(bit + 1) * count as usize;
            let mut flips = [0u32; 53];
            for (a, b) in before[row.clone()].iter().zip(&after[row]) {
                (0..53).for_each(|k| flips[k] += u32::from((a ^ b) >> k & 1 == 1));
            }
            for flips in flips {
                let z = (f64::from(flips) - count as f64 / 2.0) / (count as f64 / 4.0).sqrt();
                assert!(z.abs() < 6.0, "bit {bit} in {changed}: {z}");
            }
        }
    }
}

#[test]
fn normal_has_its_moments_and_its_shape() {
    for (dtype, tail) in [(Dtype::F32, 6.67), (Dtype::F64, 8.66)] {
        for (way, expression) in
            [("i", "normal(seed, i)"), ("seeds", "normal(seed + i, 1)"), ("axes", "normal(i, 1, 2)")]
        {
            let source = format!(
                "fn f(seed: i64, n: i64) -> {dtype}[n] {{\n    let z[i < n] = {dtype}({expression})\n    z\n}}"
            );
            let mut z = call(&source, &[31_415, COUNT]);
            let n = z.len() as f64;
            let moment = |k: i32| z.iter().map(|z| z.powi(k)).sum::<f64>() / n;
            // Mean and variance of the k-th power: 0 and 1, 1 and 2, 0 and 15, 3 and 96.
            for (k, mean, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0f64)] {
                let deviation = (moment(k) - mean) / (variance / n).sqrt();
                assert!(deviation.abs() < 5.0, "{dtype}, {way}, moment {k}: {deviation}");
            }
            let lag: f64 = z.iter().zip(&z[1..]).map(|(a, b)| a * b).sum::<f64>() / n.sqrt();
            assert!(lag.abs() < 5.0, "{dtype}, {way}: neighbours {lag}");
            assert!(z.iter().all(|z| z.abs() < tail), "{dtype}, {way}");
            // Kolmogorov and Smirnov: sqrt(n) times the greatest distance exceeds 2.6 with
            // probability one in half a million.
            z.sort_unstable_by(f64::total_cmp);
            let distribution = |z: f64| 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2);
            let distance = z.iter().enumerate().map(|(k, z)| {
                let p = distribution(*z);
                (p - k as f64 / n).abs().max((p - (k + 1) as f64 / n).abs())
            });
            let distance = distance.fold(0.0, f64::max) * n.sqrt();
            assert!(distance < 2.6, "{dtype}, {way}: {distance}");
        }
    }
}
