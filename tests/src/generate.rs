//! The program generator, for proptest: it draws the numbers that make a program, and shrinks them.

use proptest::collection::vec;
use proptest::prelude::*;

pub use fuzzing::generate::*;

/// Recipes for random programs.
pub fn recipes() -> impl Strategy<Value = Recipe> {
    let words = |most: usize| vec(any::<u16>(), most / 3..most);
    (words(60), vec(words(60), 0..3), vec(words(120), 0..6), words(90), any::<u64>())
        .prop_map(|(header, helpers, lets, result, data)| Recipe { header, helpers, lets, result, data })
}
