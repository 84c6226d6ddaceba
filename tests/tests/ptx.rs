//! Random programs as PTX, on the emulator, give the bits of the interpreters: unfused, fused as the model judges, and by legal merges at
//! random; without races and without reads of what nobody wrote.
//!
//! 100 programs, or as many as `PROPTEST_CASES` says; the same ones each time unless `PROPTEST_RNG_SEED` is set.

use ir::array::Array;
use ir::{Dtype, Scalar};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use tests::engines::{Engine, Form, Rejected, compile_in, hold_on};
use tests::generate::{Program, recipes};
use tests::ways;

/// How often each program is called, with sizes and elements of its own.
const CALLS: u64 = 3;

#[test]
fn the_emulator_agrees() {
    let mut config = Config { failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 100;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(6);
    }
    let held = TestRunner::new(config).run(&recipes(), |recipe| hold(&recipe.program()).map_err(TestCaseError::fail));
    held.unwrap_or_else(|error| panic!("{error}"));
}

/// A check before a loop is made though the loop is empty.
#[test]
fn empty_loops_check() {
    let source = "fn main(z: i64[n], at: i64) { if z[clamp(at, 0, n - 1)] > 4 then z else z + 1 }";
    let compiled = compile_in(source, "main", &[]).unwrap();
    let forms: Vec<&Form> = compiled.forms.iter().collect();
    let inputs = [Array::zeros(Dtype::I64, &[0]).unwrap(), Array::scalar(Scalar::I64(0))];
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    hold_on(&[Engine::Ptx], &compiled.checked, &forms, &inputs).unwrap();
}

fn hold(program: &Program) -> Result<(), String> {
    let compiled = match compile_in(&program.source, program.entry, &ways::drawn(program.data)[..1]) {
        Ok(compiled) => compiled,
        Err(Rejected::Source(_)) => return Ok(()),
        Err(Rejected::Compiler(message)) => return Err(message),
    };
    let forms: Vec<&Form> = compiled.forms.iter().collect();
    (0..CALLS).try_for_each(|n| {
        let call = program.call(n);
        let inputs: Vec<_> = call.inputs.iter().map(|(_, array)| Array::as_ref(array)).collect();
        hold_on(&[Engine::Ptx], &compiled.checked, &forms, &inputs)
            .map(|_| ())
            .map_err(|why| format!("{why}\n{call:?}"))
    })
}
