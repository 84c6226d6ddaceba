//! How long it takes from text to something that can be called, stage by stage.

use std::path::Path;
use std::time::Duration;

use fuseloop::{Options, Program, Source, Times};
use serde::Serialize;

use crate::Error;

/// A function's times, in seconds: of the round with the median of their sums.
#[derive(Serialize)]
pub struct Compiled {
    name: String,
    /// Text to syntax tree.
    parse: f64,
    /// Names, types, shapes and bounds, of the whole program.
    check: f64,
    /// Loop nests, and fusion.
    lower: f64,
    /// Machine code.
    code: f64,
}

/// Compiles each function of a program so often, from its text.
pub fn functions(program: &Path, rounds: usize) -> Result<Vec<Compiled>, Error> {
    let text = std::fs::read_to_string(program)?;
    let source = || Source::new(program.display().to_string(), text.clone());
    let mut found = vec![];
    for signature in Program::parse(source())?.functions() {
        let mut times: Vec<Times> = vec![];
        for _ in 0..rounds.max(1) {
            times.push(Program::parse(source())?.function(&signature.name)?.compile(&Options::default())?.times());
        }
        times.sort_by_key(Times::total);
        let median = times[times.len() / 2];
        let [parse, check, lower, code] =
            [median.parse, median.check, median.lower, median.compile].map(|time: Duration| time.as_secs_f64());
        found.push(Compiled { name: signature.name.clone(), parse, check, lower, code });
    }
    Ok(found)
}
