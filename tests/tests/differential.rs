//! Random programs give the same bits, or end in an error, on every engine: as the source reads, as loop nests, and compiled
//! at 1 and 2 threads.
//!
//! 500 programs, or as many as `PROPTEST_CASES` says; the same ones each time unless `PROPTEST_RNG_SEED` is set.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ir::array::Array;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use tests::engines::{Outcome, Rejected, compile};
use tests::generate::{Program, recipes};

/// How often each program is called, with sizes and elements of its own.
const CALLS: u64 = 4;

/// What happened over all programs.
#[derive(Default)]
struct Tally {
    programs: usize,
    accepted: usize,
    outcomes: BTreeMap<&'static str, usize>,
    constructs: BTreeMap<&'static str, usize>,
    rejections: BTreeMap<String, (usize, String)>,
    /// Calls with an input beyond a chunk of a reduction.
    long: usize,
    /// Calls whose results hold more than one value.
    telling: usize,
}

#[test]
fn engines_agree() {
    let mut config = Config { failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 500;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(2);
    }
    let tally = RefCell::new(Tally::default());
    let result = TestRunner::new(config).run(&recipes(), |recipe| {
        let program = recipe.program();
        let calls = hold(&program, &mut tally.borrow_mut());
        calls.map_err(TestCaseError::fail)
    });
    let tally = tally.into_inner();
    let rejected = tally.programs - tally.accepted;
    println!(
        "{} programs, {rejected} of them rejected ({} in a thousand)",
        tally.programs,
        rejected * 1000 / tally.programs.max(1)
    );
    println!("calls: {:?}", tally.outcomes);
    println!("{} calls with long inputs, {} with results that vary", tally.long, tally.telling);
    println!("constructs: {:?}", tally.constructs);
    for (message, (count, source)) in &tally.rejections {
        println!("rejected {count} times: {message}\n{source}");
    }
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(rejected * 50 <= tally.programs, "more than one program in fifty was rejected");
}

/// Holds the engines to the first on some calls of a program.
fn hold(program: &Program, tally: &mut Tally) -> Result<(), String> {
    tally.programs += 1;
    let compiled = match compile(&program.source, program.entry) {
        Ok(compiled) => compiled,
        Err(Rejected::Source(diagnostics)) => {
            let message = diagnostics.first().map(|d| format!("{} {}", d.code, d.message)).unwrap_or_default();
            tally.rejections.entry(message).or_insert((0, program.source.clone())).0 += 1;
            return Ok(());
        }
        Err(Rejected::Compiler(message)) => return Err(message),
    };
    tally.accepted += 1;
    for construct in &program.constructs {
        *tally.constructs.entry(construct).or_default() += 1;
    }
    for n in 0..CALLS {
        let call = program.call(n);
        let inputs: Vec<_> = call.inputs.iter().map(|(_, array)| Array::as_ref(array)).collect();
        let outcome = compiled.hold(&inputs).map_err(|why| format!("{why}\ncall {n}: {call:?}"))?;
        let kind = match &outcome {
            Outcome::Results(_) => "results",
            Outcome::Refused(_) => "refused",
            Outcome::Fault(_) => "fault",
            Outcome::Broken(what) => return Err(what.clone()),
        };
        *tally.outcomes.entry(kind).or_default() += 1;
        tally.long += usize::from(call.inputs.iter().any(|(_, input)| input.len() > ir::order::LANES_CHUNK));
        if let Outcome::Results(results) = &outcome {
            let varies = |array: &Array| (1..array.len()).any(|n| array.get(n) != array.get(0));
            tally.telling += usize::from(results.iter().any(varies));
        }
    }
    Ok(())
}
