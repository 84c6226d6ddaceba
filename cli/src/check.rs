//! `fuseloop check`: every error of a file, or what each of its functions takes and gives.

use std::io::Write;
use std::path::PathBuf;

use fuseloop::json;

use crate::arguments;
use crate::failure::{Failure, Format};

/// Checks types, shapes and bounds; prints each function's inferred signature.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: fuseloop check examples/softmax.fl")]
pub struct Arguments {
    /// The program
    file: PathBuf,
    /// For whom errors and signatures are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let program = arguments::program(&arguments.file)?;
    let names = program.functions().map(|signature| program.function(&signature.name));
    let failures: Vec<Failure> = names.flatten().filter_map(|f| f.hold_kernels().err().map(Failure::Compile)).collect();
    if !failures.is_empty() {
        return Err(Failure::Several(failures));
    }
    for signature in program.functions() {
        match arguments.format {
            Format::Text => writeln!(stdout, "{signature}")?,
            Format::Json => writeln!(stdout, "{}", json::signature(signature))?,
        }
    }
    Ok(())
}
