//! Derivatives of random programs against difference quotients, in `f64`: the programs of the
//! fuzzer, with every float an `f64`. A point where the quotients on both sides differ is a kink,
//! and says nothing.
//!
//! All engines run the program that a derivative is written out as, so that they agree does not
//! show that it is right. This does.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use compiler::check::check;
use compiler::pipeline::{Options, compile};
use ir::checked::{Checked, ExprId};
use ir::{Array, Dtype, Passes, Scalar};

use crate::derived::{self, Direction};
use crate::generate::looped::{MOST, STEP};
use crate::generate::{Program, Recipe};

/// The relative change of arguments.
const CHANGE: f64 = 1e-5;

/// In one program out of this many, loops that a number ends take more steps: `grad` goes back
/// through long loops in blocks.
const LONG_ONCE_IN: u64 = 3;
/// How many steps more.
const MORE_STEPS: i64 = 64;

/// The results of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The derivatives agree with the quotient.
    Agrees,
    /// There is nothing to compare: no float goes in or comes out, or there is no derivative.
    Nothing,
    /// No result, or one that is not smooth here.
    Kink,
    /// A function has no finite slope at a value that is always the same, as the root of `x - x`.
    Singular,
}

/// The program with a number, with `f64` for every type of floats.
fn in_f64(seed: u64) -> Program {
    let mut program = Recipe::drawn(seed).program();
    if seed.is_multiple_of(LONG_ONCE_IN) {
        for steps in 1..=MOST {
            let [short, long] = [steps, steps + MORE_STEPS].map(|steps| format!(", {STEP} < {steps} {{"));
            program.source = program.source.replace(&short, &long);
        }
    }
    for ty in ["bf16", "f16", "f32"] {
        program.source = program.source.replace(ty, "f64");
    }
    for param in &mut program.params {
        if param.ty.is_float() {
            param.ty = Dtype::F64;
        }
    }
    program
}

fn checked(source: &str, entry: &str) -> Result<Checked, String> {
    let file = grammar::parse(source).map_err(|errors| errors[0].message.clone())?;
    check(&file, entry).map_err(|errors| format!("{} {}", errors[0].code, errors[0].message))
}

fn run(checked: &Checked, inputs: &[Array]) -> Option<Vec<Array>> {
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    interp::source::run(checked, &inputs, &compiler::math::define).ok()
}

fn float(array: &Array, number: usize) -> f64 {
    match array.get(number).map(|element| interp::scalar::cast(Dtype::F64, element)) {
        Some(Scalar::F64(value)) => value,
        _ => f64::NAN,
    }
}

fn floats(array: &Array) -> impl Iterator<Item = f64> {
    (0..array.len()).map(|k| float(array, k))
}

/// Arguments: floats between 0.2 and 1.2, other ones as they are.
fn smooth(inputs: Vec<Array>, seed: u64) -> Vec<Array> {
    let mut number = seed;
    let mut next = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) as f64 / (1u64 << 31) as f64
    };
    let one = |mut input: Array| {
        if input.dtype().is_float() {
            (0..input.len()).for_each(|k| _ = input.set(k, Scalar::F64(0.2 + next())));
        }
        input
    };
    inputs.into_iter().map(one).collect()
}

/// The arguments with each float changed in proportion.
fn moved(inputs: &[Array], by: f64) -> Vec<Array> {
    let one = |input: &Array| {
        let mut input = input.clone();
        if input.dtype().is_float() {
            (0..input.len()).for_each(|k| _ = input.set(k, Scalar::F64(float(&input, k) * (1.0 + by))));
        }
        input
    };
    inputs.iter().map(one).collect()
}

/// The derivative along the arguments themselves, by quotients, with the error that they may have;
/// `None` at a kink.
fn quotient(of: &Checked, result: usize, inputs: &[Array]) -> Option<(f64, f64)> {
    let total = |by: f64| Some(floats(&run(of, &moved(inputs, by))?[result]).sum::<f64>());
    let (before, here, after) = (total(-CHANGE)?, total(0.0)?, total(CHANGE)?);
    let (left, right) = ((here - before) / CHANGE, (after - here) / CHANGE);
    let wide = (after - before) / (2.0 * CHANGE);
    let narrow = (total(CHANGE / 2.0)? - total(-CHANGE / 2.0)?) / CHANGE;
    let scale = 1.0 + wide.abs() + here.abs() * 1e-3;
    let smooth = (left - right).abs() <= 1e-2 * scale && (wide - narrow).abs() <= 1e-6 * scale;
    // The steps of `floor` do not show in great numbers.
    (smooth && scale < 1e6).then_some((wide, 1e-5 * scale))
}

/// The first result of floats.
fn first_floats(of: &Checked) -> Option<usize> {
    let is_float = |(_, id): &(String, ExprId)| of.exprs[*id].ty.dtype.is_float();
    of.results.iter().position(is_float)
}

/// Compares the derivatives of a program; the text is that of a failure.
fn compare(program: &Program, seed: u64, depth: usize) -> Result<Found, String> {
    let Ok(of) = checked(&program.source, program.entry) else { return Ok(Found::Nothing) };
    let Some(result) = first_floats(&of) else { return Ok(Found::Nothing) };
    let mut derivatives = vec![];
    for direction in [Direction::Back, Direction::On] {
        let name = if depth == 0 { "derived" } else { "derived_again" };
        let Some(function) = derived::function(program, &of, direction, name) else { return Ok(Found::Nothing) };
        let source = format!("{}{function}", program.source);
        match checked(&source, name) {
            Ok(derivative) => derivatives.push((direction, derivative, source)),
            Err(error) if derived::REFUSED.iter().any(|code| error.starts_with(code)) => {}
            Err(error) => return Err(format!("{error}\n{source}")),
        }
    }
    if derivatives.is_empty() {
        return Ok(Found::Nothing);
    }
    for call in 0..2 {
        let inputs = program.call(call).inputs.into_iter().map(|(_, input)| input).collect();
        let inputs = smooth(inputs, seed);
        let Some((quotient, error)) = quotient(&of, result, &inputs) else { continue };
        for (direction, derivative, source) in &derivatives {
            let Some(results) = run(derivative, &inputs) else {
                return Err(format!("{direction:?} does not run\n{source}\n{inputs:?}"));
            };
            let terms: Vec<f64> = match direction {
                Direction::Back => {
                    let values = inputs.iter().filter(|input| input.dtype().is_float());
                    results.iter().zip(values).flat_map(|(d, x)| floats(d).zip(floats(x))).map(|(d, x)| d * x).collect()
                }
                Direction::On => floats(&results[0]).collect(),
            };
            let found: f64 = terms.iter().sum();
            if !found.is_finite() {
                return Ok(Found::Singular);
            }
            let rounding = 1e-9 * terms.iter().map(|term| term.abs()).sum::<f64>();
            if (found - quotient).abs() > error + rounding {
                return Err(format!("{direction:?} {found}, the quotient is {quotient}\n{source}\n{inputs:?}"));
            }
            if seed.is_multiple_of(4) {
                fused(derivative, &inputs, &results).map_err(|error| format!("{error}\n{source}"))?;
            }
            // The derivative of the derivative.
            if seed.is_multiple_of(5) && depth == 0 && *direction == Direction::Back {
                let program = Program { source: source.clone(), entry: "derived", ..program.clone() };
                compare(&program, seed, 1)?;
            }
        }
        return Ok(Found::Agrees);
    }
    Ok(Found::Kink)
}

/// Fused or not, a program gives the same bits.
fn fused(checked: &Checked, inputs: &[Array], expected: &[Array]) -> Result<(), String> {
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    for fuse in [Passes::NONE, Passes::ALL] {
        let options = Options { fuse, ..Options::default() };
        let program = compile(checked, &options).map_err(|error| error.to_string())?.program;
        // A subscript may be checked even if its value is not needed.
        if let Ok(outcome) = interp::nest::run(&program, &inputs)
            && outcome.outputs != expected
        {
            return Err(format!("{fuse}: {:?}, not {expected:?}\n{program}", outcome.outputs));
        }
    }
    Ok(())
}

/// Compares the derivatives of the program with a number. The error says what is wrong.
///
/// # Errors
///
/// If a derivative differs from the quotient, is refused for a reason that is none of
/// [`derived::REFUSED`], does not run, or has other bits if it is fused.
pub fn compared(number: u64) -> Result<Found, String> {
    compare(&in_f64(number), number, 0).map_err(|error| format!("number {number}: {error}"))
}

/// Compares those of the programs with some numbers, on all cores.
#[must_use]
pub fn all_compared(numbers: Range<u64>) -> Vec<Result<Found, String>> {
    let (next, found) = (AtomicU64::new(numbers.start), Mutex::new(vec![]));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    let outcome = compared(number);
                    found.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}
