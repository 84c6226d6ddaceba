//! Writes the words behind `uniform` to standard output without end, for a battery of tests of
//! random numbers:
//!
//! ```text
//! cargo run --release -p tests --bin random-stream -- --mode counters --seed 1 | dieharder -a -g 200
//! ```
//!
//! A word is the leading 32 bits of an `f64` draw, which has 53; little-endian. `counters` draws
//! along one index, `seeds` by consecutive seeds at one index, `axes` along the outermost of three
//! indices, then the next.

use std::io::Write;
use std::process::ExitCode;

use fuseloop::{Options, Program};

const SOURCE: &str = "
fn counters(seed: i64, from: i64, n: i64) -> f64[n] {
    let u[i < n] = f64(uniform(seed, from + i))
    u
}
fn seeds(seed: i64, from: i64, n: i64) -> f64[n] {
    let u[i < n] = f64(uniform(seed + from + i, 0))
    u
}
fn axes(seed: i64, from: i64, n: i64) -> f64[n, 64, 64] {
    let u[k < n, j < 64, i < 64] = f64(uniform(seed, i, j, from + k))
    u
}
";

/// Draws of a call.
const DRAWS: i64 = 1 << 20;

fn main() -> ExitCode {
    let (mut mode, mut seed) = ("counters".to_owned(), 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next();
        match (argument.as_str(), value.as_deref()) {
            ("--mode", Some(name @ ("counters" | "seeds" | "axes"))) => mode = name.into(),
            ("--seed", Some(number)) if number.parse::<i64>().is_ok() => seed = number.parse().unwrap_or(seed),
            _ => {
                eprintln!("usage: random-stream [--mode counters|seeds|axes] [--seed n]");
                return ExitCode::from(2);
            }
        }
    }
    match stream(&mode, seed) {
        // The reader has what it wants.
        Err(error) if error.downcast_ref::<std::io::Error>().is_some() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

fn stream(mode: &str, seed: i64) -> Result<(), Box<dyn std::error::Error>> {
    let options = Options { threads: 1, ..Options::default() };
    let kernel = Program::parse(SOURCE)?.function(mode)?.compile(&options)?;
    let step = if mode == "axes" { DRAWS / (64 * 64) } else { DRAWS };
    let mut out = std::io::stdout().lock();
    let mut bytes = vec![];
    for from in (0..).step_by(usize::try_from(step)?) {
        bytes.clear();
        for draw in kernel.call((seed, from, step))?[0].as_slice::<f64>()? {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "draws are in [0, 1)")]
            let word = (*draw * 4_294_967_296.0) as u32;
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        out.write_all(&bytes)?;
    }
    Ok(())
}
