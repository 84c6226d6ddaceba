//! Tests of the whole compiler. Tests that need a process of their own stand next to this folder.

mod attention;
mod blocks;
mod cancelled;
mod cuda_c;
mod derivatives;
mod differential;
mod docs;
mod ends;
mod everywhere;
mod few_rows;
mod files;
mod format;
mod gradients;
mod house;
mod kernels;
mod limits;
mod mutants;
mod nan;
mod objects;
mod pairs;
mod plans;
mod products;
mod prose;
mod ptx;
mod random;
mod recordings;
mod reducers;
mod samples;
mod schedules;
mod steps;
mod streamed;
mod sweep;
mod sweeps;
mod time_tiles;
mod traffic;
mod variants;
mod warnings;
mod whiles;

use proptest::test_runner::{Config, RngSeed};

/// Runs `cases` random cases unless `PROPTEST_CASES` says how many, and the same ones each time
/// unless `PROPTEST_RNG_SEED` is set.
fn random_cases(cases: u32, seed: u64) -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(seed);
    }
    config
}
