//! Derivatives of random programs against difference quotients: see `fuzzing::quotients`.

use fuzzing::quotients::{Found, all_compared};

/// How many programs are drawn.
const PROGRAMS: u64 = 2000;
/// How many of them have something to compare at least: most others give integers.
const ENOUGH: usize = 700;

#[test]
fn of_random_programs() {
    let found = all_compared(0..PROGRAMS);
    let count = |what: Found| found.iter().filter(|outcome| **outcome == Ok(what)).count();
    let wrong: Vec<&String> = found.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let counts = [Found::Agrees, Found::Nothing, Found::Kink, Found::Singular].map(count);
    println!("{counts:?}");
    assert!(wrong.is_empty(), "{} are wrong, the first: {}", wrong.len(), wrong[0]);
    let [agrees, _, _, singular] = counts;
    assert!(agrees >= ENOUGH && singular * 100 < agrees, "{counts:?}");
}
