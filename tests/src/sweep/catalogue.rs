//! The cases to visit: the functions of one argument, and the conversion from each type to each
//! other.

use compiler::math::define;
use fuseloop::Dtype;
use half::{bf16, f16};
use ir::MathFn;

use super::convert::{As, Number};
use super::reference::{reference, ulps_f32};
use super::{Case, Finding, Judge};

/// Parts of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Functions of `f32`, and the operations on one number.
    Functions,
    /// From each type to each other.
    Conversions,
}

impl Group {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Group::Functions => "functions",
            Group::Conversions => "conversions",
        }
    }
}

/// Every case, in the order in which they are run.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        exact("floor", "floor(x)", f32::floor),
        exact("ceil", "ceil(x)", f32::ceil),
        exact("trunc", "trunc(x)", f32::trunc),
        exact("round", "round(x)", f32::round_ties_even),
        exact("sqrt", "sqrt(x)", f32::sqrt),
        exact("abs", "abs(x)", f32::abs),
        exact("neg", "-x", |x: f32| -x),
        exact("isnan", "isnan(x)", f32::is_nan),
        exact("isinf", "isinf(x)", f32::is_infinite),
        exact("isfinite", "isfinite(x)", f32::is_finite),
        exact("abs(i32)", "abs(x)", i32::wrapping_abs),
        exact("neg(i32)", "-x", i32::wrapping_neg),
        exact("sign(i32)", "sign(x)", i32::signum),
        exact("bit_not(i32)", "bit_not(x)", |x: i32| !x),
        exact("popcount(i32)", "popcount(x)", |x: i32| x.count_ones().cast_signed()),
    ];
    cases.extend(MathFn::ALL.iter().filter_map(|&math| near(math)));
    cases.extend(conversions::<bool>());
    cases.extend(conversions::<i8>());
    cases.extend(conversions::<u8>());
    cases.extend(conversions::<i16>());
    cases.extend(conversions::<u16>());
    cases.extend(conversions::<f16>());
    cases.extend(conversions::<bf16>());
    cases.extend(conversions::<f32>());
    cases.extend(conversions::<i32>());
    cases.extend(conversions::<u32>());
    cases.extend(conversions::<f64>());
    cases.extend(conversions::<i64>());
    cases.extend(conversions::<u64>());
    cases
}

fn case(name: String, group: Group, body: &str, (from, to): (Dtype, Dtype), judge: Judge) -> Case {
    Case { name, group, source: format!("fn f(x: {from}[n]) = {body}"), from, to, judge }
}

/// A function that is held to an `f64`.
fn near(math: MathFn) -> Option<Case> {
    reference(math, 1.0)?;
    define(math, Dtype::F32)?;
    let judge = move |inputs: &[u8], outputs: &[u8], found: &mut Finding| {
        for (x, y) in inputs.chunks_exact(4).zip(outputs.chunks_exact(4)) {
            let (x, y) = (f32::read(x), f32::read(y));
            let exact = reference(math, x.into()).unwrap_or(f64::NAN);
            #[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
            let rounded = y.same(exact as f32);
            found.add(x.to_bits().into(), ulps_f32(y, exact), rounded);
        }
    };
    let name = math.name();
    Some(case(name.into(), Group::Functions, &format!("{name}(x)"), (Dtype::F32, Dtype::F32), Box::new(judge)))
}

/// A function that must reproduce the results of a Rust function exactly.
fn exact<A: Number, B: Number>(name: &str, body: &str, function: fn(A) -> B) -> Case {
    case(name.into(), Group::Functions, body, (A::DTYPE, B::DTYPE), exactly(function))
}

fn exactly<A: Number, B: Number>(function: fn(A) -> B) -> Judge {
    let (from, to) = (A::DTYPE.bytes(), B::DTYPE.bytes());
    Box::new(move |inputs, outputs, found| {
        for (x, y) in inputs.chunks_exact(from).zip(outputs.chunks_exact(to)) {
            if !function(A::read(x)).same(B::read(y)) {
                let mut bits = [0; 8];
                bits[..from].copy_from_slice(x);
                found.add(u64::from_le_bytes(bits), f64::INFINITY, false);
            }
        }
    })
}

fn conversions<A>() -> impl Iterator<Item = Case>
where
    A: Number
        + As<bool>
        + As<i8>
        + As<u8>
        + As<i16>
        + As<u16>
        + As<i32>
        + As<u32>
        + As<i64>
        + As<u64>
        + As<f16>
        + As<bf16>
        + As<f32>
        + As<f64>,
{
    [
        conversion::<A, bool>(),
        conversion::<A, i8>(),
        conversion::<A, u8>(),
        conversion::<A, i16>(),
        conversion::<A, u16>(),
        conversion::<A, i32>(),
        conversion::<A, u32>(),
        conversion::<A, i64>(),
        conversion::<A, u64>(),
        conversion::<A, f16>(),
        conversion::<A, bf16>(),
        conversion::<A, f32>(),
        conversion::<A, f64>(),
    ]
    .into_iter()
    .filter(|case| case.from != case.to)
}

fn conversion<A: Number + As<B>, B: Number>() -> Case {
    let (from, to) = (A::DTYPE, B::DTYPE);
    case(format!("{to}({from})"), Group::Conversions, &format!("{to}(x)"), (from, to), exactly(<A as As<B>>::to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_find_what_is_wrong() {
        let (inputs, outputs) = ([1.0f32, 2.5, 0.0].map(f32::to_ne_bytes), [1.0f32, 2.0, -0.0].map(f32::to_ne_bytes));
        let mut found = Finding::default();
        exactly(f32::floor)(inputs.as_flattened(), outputs.as_flattened(), &mut found);
        assert_eq!((found.unrounded, found.worst, found.at), (1, f64::INFINITY, 0));

        let one_off = 2f32.next_up().to_ne_bytes();
        let case = near(MathFn::Exp2).expect("there is a reference");
        let mut found = Finding::default();
        (case.judge)(&1f32.to_ne_bytes(), &one_off, &mut found);
        assert_eq!((found.unrounded, found.worst, found.at), (1, 1.0, 1f32.to_bits().into()));
        assert!(found.holds());
        (case.judge)(&f32::NAN.to_ne_bytes(), &one_off, &mut found);
        assert!(!found.holds());
    }
}
