//! Constants of the expansions, made by `derive.py`, which says how. Do not edit.

#![expect(clippy::approx_constant, reason = "the literals are the constants, rounded to each float type")]

use super::builder::PerFloat;

/// (e^r - 1 - r) / r^2 in powers of r, for |r| <= 0.348. Error 2^-28.2 and 2^-57.9.
pub(super) const EXP: PerFloat<&[f64]> = PerFloat {
    f32: &[0.49999994, 0.16666518, 0.041668236, 0.008369013, 0.0013823969],
    f64: &[
        0.5000000000000011,
        0.16666666666666402,
        0.041666666666525444,
        0.008333333333499686,
        0.0013888888945021178,
        0.00019841269498586627,
        2.480149152338744e-05,
        2.755759049121158e-06,
        2.7630852433838697e-07,
        2.499972062512343e-08,
    ],
};

/// 1 / log 2.
pub(super) const LOG2_E: PerFloat<f64> = PerFloat { f32: 1.442695, f64: 1.4426950408889634 };

/// log 2.
pub(super) const LN_2: PerFloat<f64> = PerFloat { f32: 0.6931472, f64: 0.6931471805599453 };

/// What LN_2 leaves of it.
pub(super) const LN_2_LO: PerFloat<f64> = PerFloat { f32: -1.9046542e-09, f64: 2.3190468138462996e-17 };

/// (log(1 + f) - f) / f^2 in powers of f, for |f| <= 1/3. Error 2^-27.6.
pub(super) const LOG_DIRECT: &[f64] =
    &[-0.5, 0.3333321, -0.24999823, 0.20010714, -0.16679445, 0.14001615, -0.121978536, 0.14002825, -0.1283533];

/// (2 atanh(s) - 2 s) / s^3 in powers of s^2, for |s| <= 0.1717. Error 2^-59.5.
pub(super) const LOG_ATANH: &[f64] = &[
    0.6666666666666735,
    0.3999999999940966,
    0.2857142874358228,
    0.2222219844189485,
    0.18183571610648144,
    0.15313852421356858,
    0.14798048126197738,
];

/// (tanh x - x) / x^3 in powers of x^2, for |x| <= 0.55. Error 2^-29.7 and 2^-60.6.
pub(super) const TANH: PerFloat<&[f64]> = PerFloat {
    f32: &[-0.33333316, 0.13332556, -0.05384964, 0.021061981, -0.0062618377],
    f64: &[
        -0.333333333333333,
        0.1333333333332659,
        -0.053968253963746896,
        0.02186948838552482,
        -0.008863232596712194,
        0.003592091987798902,
        -0.001455542596470879,
        0.0005884435427295784,
        -0.00023337933423186184,
        8.331345094335096e-05,
        -1.9492942396047825e-05,
    ],
};
