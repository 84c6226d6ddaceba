//! A second oracle with a separate front end: programs that are written twice, in the language and
//! in NumPy, and compared on bits.
//!
//! Every engine relies on the same parser and checker, so all of them share the mistakes of these;
//! NumPy does not. It has wrapping integers and exact float operations, so the programs consist of
//! these: operators, comparisons, conversions, choices, shifts, reductions of integers, slices,
//! gathers and transposes, but neither `exp` nor float sums.

mod draw;
mod tree;
mod whole;

use std::fmt::Write;

use fuseloop::{Device, Options, Program, Simd, Style};
use ir::array::Array;

pub use draw::{Drawn, drawn};

/// The operations of the language in NumPy; a batch's programs and calls follow it.
const PRELUDE: &str = include_str!("prelude.py");

/// Programs with Fuseloop's results, as a Python script that compares them with NumPy's.
pub struct Batch {
    /// The script. It prints a line for each program that differs, then the number of programs
    /// compared and of those without results.
    pub script: String,
    /// Failures of Fuseloop: programs that it rejects, and internal errors.
    pub faults: Vec<String>,
}

impl Batch {
    /// The programs of some numbers, run by Fuseloop.
    pub fn new(seeds: impl Iterator<Item = u64>) -> Batch {
        let mut batch = Batch { script: format!("{PRELUDE}\n\n"), faults: vec![] };
        for seed in seeds {
            let function = format!("p{seed}");
            let drawn = drawn(seed, &function);
            match run(&drawn, seed) {
                Ok(Given::Limited) => batch.script.push_str("refused += 1\n\n\n"),
                Ok(given) => {
                    let arrays = |all: &[Array]| all.iter().map(text).collect::<Vec<_>>().join(", ");
                    let results = match given {
                        Given::Results(results) => format!("[{}]", arrays(&results)),
                        Given::Refused | Given::Limited => "None".to_owned(),
                    };
                    let arguments = arrays(&drawn.arguments);
                    let _ = write!(
                        batch.script,
                        "{}\n\ncall({seed}, {function}, [{arguments}], {results})\n\n\n",
                        drawn.numpy
                    );
                }
                Err(what) => batch.faults.push(format!("program {seed}: {what}\n{}", drawn.source)),
            }
        }
        batch.script.push_str("print(f\"{compared} compared, {refused} without results\")\n");
        batch
    }
}

/// Fuseloop's result for a program.
enum Given {
    /// Results.
    Results(Vec<Array>),
    /// None, and NumPy must have none: the sizes of the call (or any sizes) do not fit, or a
    /// subscript is out of bounds.
    Refused,
    /// None, because a scalar exceeds the limit of proofs, or because sizes could only be equal if
    /// they were stated to be, or if they were 0.
    Limited,
}

/// Runs a program.
fn run(drawn: &Drawn, seed: u64) -> Result<Given, String> {
    let program = match Program::parse(drawn.source.as_str()) {
        Ok(program) => program,
        Err(errors) => {
            let codes: Vec<String> = errors.diagnostics().iter().map(|e| e.code.to_string()).collect();
            // Sizes that can never be equal, or an access that is out of bounds for any sizes.
            let never = |code: &String| matches!(code.as_str(), "E0115" | "E0124");
            let unstated = |code: &String| code == "E0147";
            return match codes.iter().all(|code| never(code) || unstated(code)) {
                true if codes.iter().any(unstated) => Ok(Given::Limited),
                true => Ok(Given::Refused),
                false => Err(errors.to_string()),
            };
        }
    };
    // Compiling takes longer than interpreting, and this test is about the front end.
    let device = if seed.is_multiple_of(4) { Device::Cpu } else { Device::Interp };
    let options = Options { device, threads: 1, simd: Simd::W128, ..Options::default() };
    let function = program.main().map_err(|e| e.to_string())?;
    let kernel = function.compile(&options).map_err(|e| e.render(Style::Plain))?;
    match kernel.call(&drawn.arguments) {
        Ok(results) => Ok(Given::Results(results)),
        Err(error) => match &*error.code().to_string() {
            "E0299" => Err(error.render(Style::Plain)),
            "E0209" => Ok(Given::Limited),
            _ => Ok(Given::Refused),
        },
    }
}

/// An array as the script reads it.
fn text(array: &Array) -> String {
    let mut hex = String::with_capacity(2 * array.bytes().len());
    array.bytes().iter().for_each(|byte| _ = write!(hex, "{byte:02x}"));
    format!("array('{}', {:?}, '{hex}')", array.dtype(), array.shape())
}
