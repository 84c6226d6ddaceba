//! Functions that anybody may have written, called with what fits them: sizes are tried until they meet what the function
//! asks of them.

use compiler::check::check_all;
use compiler::pipeline::Options;
use ir::array::Array;
use ir::bind::Binding;
use ir::checked::Checked;
use ir::nest::{Buffer, Program, Statement, SymbolSource};
use ir::{Dtype, Passes, Scalar, visit};

use crate::engines::{Engine, Form, Outcome, hold_on};
use crate::generate::data::Random;
use crate::ways;

/// How often each function is called.
const CALLS: usize = 3;

/// Runs every function of a source on every engine, fused in several ways, and holds the results to each other.
///
/// Where a sum is left to a matrix library, in whatever order, its interpreters alone are held to the same bits.
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
    let engines = if contracts(&unfused.program) { &[Engine::Nest][..] } else { &Engine::ALL[1..] };
    let (mut calls, mut tries) = (0, 0);
    while calls < CALLS {
        tries += 1;
        if tries > 10_000 {
            return Err(format!("{}: no sizes fit", checked.name));
        }
        let inputs = inputs(&unfused.program, &mut random);
        let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
        if Binding::new(&unfused.program, &inputs).is_err() {
            continue;
        }
        let outcome = hold_on(engines, checked, &forms, &inputs).map_err(|why| format!("{}: {why}", checked.name))?;
        calls += usize::from(matches!(outcome, Outcome::Results(_)));
    }
    Ok(())
}

fn contracts(program: &Program) -> bool {
    let mut found = false;
    for kernel in program.kernels.values() {
        visit::for_each_statement(&kernel.body, &mut |s| found |= matches!(s, Statement::Contract(_)));
    }
    found
}

/// Small sizes, of which one may be larger, and elements that subscripts may be made of.
fn inputs(program: &Program, random: &mut Random) -> Vec<Array> {
    let mut sizes: Vec<i64> = program.symbols.keys().map(|_| 1 + random.below(7)).collect();
    let large = usize::try_from(random.below(2 * i64::try_from(sizes.len()).unwrap_or(0))).unwrap_or(0);
    sizes.iter_mut().skip(large).take(1).for_each(|n| *n *= 4);
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
