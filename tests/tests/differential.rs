//! Random programs give the same bits, or the same error, on every engine at 1 and 2 threads.
//!
//! 300 programs, or as many as `PROPTEST_CASES` says; the same ones each time unless `PROPTEST_RNG_SEED` is set.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ir::array::Array;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use tests::engines::{Engine, Outcome, Rejected, compile};
use tests::generate::{Program, recipes};

/// How often each program is called, with sizes and elements of its own.
const CALLS: u64 = 2;

/// What happened over all programs.
#[derive(Default)]
struct Tally {
    programs: usize,
    accepted: usize,
    outcomes: BTreeMap<&'static str, usize>,
    constructs: BTreeMap<&'static str, usize>,
    rejections: BTreeMap<String, (usize, String)>,
}

#[test]
fn engines_agree() {
    let mut config = Config { failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 300;
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
    println!("{} programs, {} accepted; calls: {:?}", tally.programs, tally.accepted, tally.outcomes);
    println!("constructs: {:?}", tally.constructs);
    for (message, (count, source)) in &tally.rejections {
        println!("rejected {count} times: {message}\n{source}");
    }
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(tally.accepted * 100 >= tally.programs * 90, "more than one program in ten was rejected");
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
        let expected = compiled.run(Engine::ALL[0], &inputs);
        let kind = match &expected {
            Outcome::Results(_) => "results",
            Outcome::Refused(_) => "refused",
            Outcome::Fault(_) => "fault",
            Outcome::Broken(what) => return Err(format!("{what}\ncall {n}: {call:?}")),
        };
        *tally.outcomes.entry(kind).or_default() += 1;
        for engine in &Engine::ALL[1..] {
            let found = compiled.run(*engine, &inputs);
            if !found.agrees(&expected) {
                return Err(format!(
                    "{engine:?} differs\nexpected {expected:?}\nfound    {found:?}\ncall {n}: {call:?}"
                ));
            }
        }
    }
    Ok(())
}
