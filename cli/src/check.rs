//! `fuseloop check`: reports every error of a file, or the signature of each of its functions.

use std::io::Write;
use std::path::{Path, PathBuf};

use fuseloop::json;
use fuseloop::render::visible;

use crate::arguments::{Entry, Warned};
use crate::failure::{Failure, Format};

/// Checks types, shapes and bounds; prints each function's inferred signature.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: fuseloop check examples/softmax.fl")]
pub struct Arguments {
    /// The programs; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    warned: Warned,
    /// The format of errors and signatures
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Checks each file, even if others have errors.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let mut failures = vec![];
    for file in &arguments.files {
        match one(file, arguments, stdout) {
            Ok(()) => {}
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
            Err(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::Several(failures)) }
}

/// Checks a file. If there are several, its signatures are printed under its name.
fn one(file: &Path, arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let program = arguments.warned.program(file, Entry::Main, arguments.format)?;
    let names = program.functions().map(|signature| program.function(&signature.name));
    let failures: Vec<Failure> = names.flatten().filter_map(|f| f.hold_kernels().err().map(Failure::Compile)).collect();
    if !failures.is_empty() {
        return Err(Failure::Several(failures));
    }
    if arguments.files.len() > 1 && arguments.format == Format::Text {
        let gap = if arguments.files.first().is_some_and(|first| first == file) { "" } else { "\n" };
        writeln!(stdout, "{gap}# {}", visible(&file.display().to_string()))?;
    }
    for signature in program.functions() {
        match arguments.format {
            Format::Text => writeln!(stdout, "{signature}")?,
            Format::Json => writeln!(stdout, "{}", json::signature(signature))?,
        }
    }
    Ok(())
}
