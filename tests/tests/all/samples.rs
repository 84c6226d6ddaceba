//! Prints programs of the generator, for people to read:
//! `cargo test --test all samples:: -- --nocapture`.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use tests::generate::recipes;

#[test]
fn twenty_programs() {
    let mut runner = TestRunner::deterministic();
    for number in 1..=20 {
        let recipe = recipes().new_tree(&mut runner).expect("recipes have no filters").current();
        let program = recipe.program();
        println!("# {number}: {:?}\n{}", program.call(0).sizes, program.source);
        assert_eq!(program.source, recipe.program().source, "the same recipe gives the same program");
    }
}
