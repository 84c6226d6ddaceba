//! Calls arbitrary functions with suitable arguments: sizes are tried until they meet the
//! function's requirements.

use backends::cpu::MemoryRegime;
use compiler::check::check_all;
use compiler::pipeline::Options;
use ir::array::Array;
use ir::bind::Binding;
use ir::checked::Checked;
use ir::nest::{Buffer, Program, SymbolSource};
use ir::{Dtype, Passes, Scalar};

use fuzzing::case::{Arguments, Setting, Through};
use fuzzing::judge::{Rigour, Verdict, judge};

use crate::engines::{Engine, Form, Outcome, has_contractions, hold_on};
use crate::generate::data::Random;
use crate::ways;

/// How often each function is called with results.
const CALLS: usize = 3;
/// How often suitable arguments are tried; some calls end in faults.
const TRIES: usize = 100;
/// The size that may be larger, as a multiple of four small sizes, in each call of a function that
/// is run on one engine alone.
const LARGER: [i64; 4] = [1, 1, 40, 160];

/// Runs every function of a source on every engine, fused in several ways, and compares the
/// results.
///
/// If a sum is left to a matrix library, in any order, only the interpreters are compared on bits.
pub fn hold(source: &str) -> Result<(), String> {
    let file = grammar::parse(source).map_err(|errors| errors[0].message.clone())?;
    let all = check_all(&file).map_err(|errors| errors[0].message.clone())?;
    all.iter().enumerate().try_for_each(|(n, checked)| function(checked, n as u64))
}

fn function(checked: &Checked, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let unfused = Form::new(checked, &Options { fuse: Passes::NONE, ..Options::default() })?;
    let ways = [Options::default()].into_iter().chain(ways::drawn(seed)).chain(ways::drawn(seed + 100));
    let fused: Vec<Form> = ways.map(|way| Form::new(checked, &way)).collect::<Result<_, _>>()?;
    let forms: Vec<&Form> = [&unfused].into_iter().chain(&fused).collect();
    let engines = if has_contractions(&unfused.program) { &[Engine::Nest][..] } else { &Engine::ALL[1..] };
    let mut calls = 0;
    for _ in 0..TRIES {
        if calls == CALLS {
            return Ok(());
        }
        let inputs = fitting(&unfused.program, &mut random, 1)?;
        let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
        let outcome = hold_on(engines, checked, &forms, &inputs).map_err(|why| format!("{}: {why}", checked.name))?;
        calls += usize::from(matches!(outcome, Outcome::Results(_)));
    }
    match calls {
        CALLS => Ok(()),
        _ => Err(format!("{}: of {TRIES} calls {calls} have results", checked.name)),
    }
}

/// Runs every function of a source on one engine, unfused and fused, and compares the results with
/// the meaning of the source (approximately for matrix products of floats). The arrays are small,
/// or one of their sizes is larger. Returns the number of calls.
pub fn hold_alone(source: &str, engine: Engine) -> Result<usize, String> {
    let file = grammar::parse(source).map_err(|errors| errors[0].message.clone())?;
    let all = check_all(&file).map_err(|errors| errors[0].message.clone())?;
    let mut count = 0;
    for checked in &all {
        let unfused = Options { fuse: Passes::NONE, ..Options::default() };
        let program = Form::new(checked, &unfused)?.program;
        let mut random = Random::new(1);
        let mut calls: Vec<Arguments> = vec![];
        for larger in LARGER {
            let names = program.inputs().into_iter().map(|id| program.buffers[id].name.clone());
            calls.push(names.zip(fitting(&program, &mut random, larger)?).collect());
        }
        for options in [unfused, Options::default()] {
            let (source, entry) = (source.to_owned(), checked.name.clone());
            let setting = Setting {
                source,
                entry,
                options,
                engine,
                through: Through::Backend,
                meet: true,
                far: MemoryRegime::Auto,
                variation: None,
            };
            if let Verdict::Failed { message, .. } = judge(&setting, &calls, Rigour::Products).verdict {
                return Err(format!("{}: {message}", checked.name));
            }
            count += calls.len();
        }
    }
    Ok(count)
}

/// Inputs that a function takes.
pub fn fitting(program: &Program, random: &mut Random, larger: i64) -> Result<Vec<Array>, String> {
    let all = (0..10_000).map(|_| inputs(program, random, larger));
    let takes = |inputs: &Vec<Array>| {
        let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
        Binding::new(program, &inputs).is_ok()
    };
    { all }.find(takes).ok_or_else(|| format!("{}: no sizes fit", program.name))
}

/// Small sizes, one of them possibly `larger` times four of these, and elements that can serve as
/// subscripts.
fn inputs(program: &Program, random: &mut Random, larger: i64) -> Vec<Array> {
    let mut sizes: Vec<i64> = program.symbols.keys().map(|_| 1 + random.below(7)).collect();
    let large = usize::try_from(random.below(2 * i64::try_from(sizes.len()).unwrap_or(0))).unwrap_or(0);
    sizes.iter_mut().skip(large).take(1).for_each(|n| *n *= 4 * larger);
    let mut array = |buffer: &Buffer| {
        let length = |size: &ir::Size| size.eval(&|symbol| sizes[symbol.as_u32() as usize]).unwrap_or(0);
        let shape: Vec<usize> = buffer.shape.iter().map(|n| usize::try_from(length(n)).unwrap_or(0)).collect();
        let elements: Vec<Scalar> = (0..shape.iter().product()).map(|_| element(buffer.dtype, random)).collect();
        Array::from_scalars(buffer.dtype, &shape, &elements).expect("as many elements as the shape says")
    };
    let mut inputs: Vec<Array> = program.inputs().into_iter().map(|id| array(&program.buffers[id])).collect();
    for (symbol, size) in program.symbols.values().zip(&sizes) {
        if let SymbolSource::Scalar { input } = symbol.source {
            inputs[input] = Array::scalar(interp::scalar::cast(inputs[input].dtype(), Scalar::I64(*size)));
        }
    }
    inputs
}

fn element(dtype: Dtype, random: &mut Random) -> Scalar {
    let value = match dtype {
        float if float.is_float() => f64::from(i32::try_from(random.below(4000)).unwrap_or(0)) / 1000.0 - 2.0,
        _ => f64::from(i32::try_from(random.below(3)).unwrap_or(0)),
    };
    interp::scalar::cast(dtype, Scalar::F64(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_without_results_comes_to_an_end() {
        let why = hold("fn f(x: f32[n], i: i64[m]) = x[i - 1000]").expect_err("each subscript is outside");
        assert_eq!(why, "f: of 100 calls 0 have results");
        assert_eq!(hold("fn f(x: f32[n], i: i64[m]) = x[i]"), Ok(()));
    }
}
