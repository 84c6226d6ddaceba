//! `fuseloop check`: every error of a file, or what each of its functions takes and gives.

use std::io::Write;
use std::path::PathBuf;

use fuseloop::Style;

use crate::arguments;
use crate::failure::Failure;

/// Checks types, shapes and bounds; prints each function's inferred signature.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: fuseloop check examples/softmax.fl")]
pub struct Arguments {
    /// The program
    file: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments, style: Style, stdout: &mut impl Write) -> Result<(), Failure> {
    let program = arguments::program(&arguments.file, style)?;
    for signature in program.functions() {
        writeln!(stdout, "{signature}")?;
    }
    Ok(())
}
