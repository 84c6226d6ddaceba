//! Random schedules of random programs mean what the programs mean: whichever rewrites a coin
//! decides on and however soon its fuel ends, the interpreter gives the bits that it gives without
//! any rewrite. Each schedule reads back from its text.
//!
//! It runs 170 programs, or `PROPTEST_CASES`, with 12 random schedules each: 2,040. They are the
//! same ones each time unless `PROPTEST_RNG_SEED` is set. (The engines run random schedules too:
//! forms that are fused by a coin are scheduled by it.)

use interp::nest::run_scheduled;
use ir::array::{Array, ArrayRef};
use ir::choice::{Choice, Policy};
use ir::sched::{Machine, Scheduled, verify};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use schedule::schedule_with;
use tests::engines::{Form, Outcome, Rejected, compile_in};
use tests::generate::{Program, recipes};

/// Schedules for each form and target.
const SCHEDULES: u64 = 3;

#[test]
fn random_schedules_mean_the_same() {
    let config = Config { max_shrink_iters: 300, ..crate::random_cases(170, 9) };
    let held = TestRunner::new(config).run(&recipes(), |recipe| hold(&recipe.program()).map_err(TestCaseError::fail));
    held.unwrap_or_else(|error| panic!("{error}"));
}

fn hold(program: &Program) -> Result<(), String> {
    let compiled = match compile_in(&program.source, program.entry, &[]) {
        Ok(compiled) => compiled,
        Err(Rejected::Source(_)) => return Ok(()),
        Err(Rejected::Compiler(error)) => return Err(error),
    };
    let call = program.call(0);
    let inputs: Vec<_> = call.inputs.iter().map(|(_, array)| Array::as_ref(array)).collect();
    for form in &compiled.forms {
        for machine in Machine::ALL {
            let plain = scheduled(form, machine, &mut Choice::new(Policy::Model, Some(0)))?;
            let meant = run(&plain, &inputs);
            for seed in 0..SCHEDULES {
                let fuel = (seed == 2).then_some(program.data % 8);
                let policy = if seed == 0 { Policy::Model } else { Policy::Random(program.data.wrapping_add(seed)) };
                let other = scheduled(form, machine, &mut Choice::new(policy, fuel))?;
                let found = run(&other, &inputs);
                if found != meant {
                    let text = format!("{policy:?}, fuel {fuel:?}\n{other}\ninstead of\n{plain}");
                    return Err(format!("{}\n{text}{found:?}\n{meant:?}\n{call:?}", program.source));
                }
            }
        }
    }
    Ok(())
}

/// A form scheduled within a choice; the same read back from its text keeps the rules too.
fn scheduled(form: &Form, machine: Machine, choice: &mut Choice) -> Result<Scheduled, String> {
    let scheduled = schedule_with(&form.program, machine, choice).map_err(|error| error.to_string())?;
    let again: Scheduled = scheduled.to_string().parse().map_err(|error| format!("{error}\n{scheduled}"))?;
    verify(&again).map_err(|error| format!("{error}\n{again}"))?;
    Ok(scheduled)
}

fn run(scheduled: &Scheduled, inputs: &[ArrayRef<'_>]) -> Outcome {
    match run_scheduled(scheduled, inputs) {
        Ok(outputs) => Outcome::Results(outputs),
        Err(interp::nest::RunError::Bind(error)) => Outcome::Refused(error),
        Err(interp::nest::RunError::Fault(fault)) => Outcome::Fault(fault),
        Err(other) => Outcome::Broken(format!("{other:?}")),
    }
}
