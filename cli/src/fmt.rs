//! `fuseloop fmt`: programs in the one style, in place.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use fuseloop::Source;
use fuseloop::render::{one_line, visible};
use similar::TextDiff;

use crate::arguments;
use crate::failure::Failure;

/// After this long a difference need not be the smallest.
const DIFF_TIME: Duration = Duration::from_secs(1);

/// Formats programs in place; comments stay, and so does what a program means.
#[derive(Debug, clap::Args)]
#[command(after_help = "A file with errors is left as it is.

Example: fuseloop fmt --check examples/*.fl")]
pub struct Arguments {
    /// The programs; `-` is standard input, formatted to standard output
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write nothing: show what would change, and exit with 1 if anything would
    #[arg(long)]
    check: bool,
}

/// Runs the command on each file, whatever becomes of the others.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let mut failures = vec![];
    let mut unformatted = 0;
    for file in &arguments.files {
        match one(file, arguments.check, stdout) {
            Ok(changes) => unformatted += usize::from(changes && arguments.check),
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
            Err(failure) => failures.push(failure),
        }
    }
    if unformatted > 0 {
        let all = arguments.files.len();
        failures.push(Failure::Wrong(format!("{unformatted} of {all} files not formatted; `fuseloop fmt` does it")));
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::Several(failures)) }
}

/// Formats a file; whether that changes it.
fn one(file: &PathBuf, check: bool, stdout: &mut impl Write) -> Result<bool, Failure> {
    let stdin = file.as_os_str() == "-";
    let source = if stdin { arguments::stdin()? } else { arguments::source(file)? };
    let formatted = fuseloop::format(source.clone())?;
    let changes = formatted != source.text;
    if check {
        if changes {
            write!(stdout, "{}", difference(&source, &formatted))?;
        }
    } else if stdin {
        stdout.write_all(formatted.as_bytes())?;
    } else if changes {
        fs::write(file, formatted).map_err(|e| Failure::wrong(format_args!("{}: {e}", one_line(&source.name))))?;
    }
    Ok(changes)
}

/// A unified diff.
fn difference(source: &Source, formatted: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(source.text.as_str(), formatted);
    let name = source.name.as_str();
    visible(&diff.unified_diff().header(name, &format!("{name} (formatted)")).to_string())
}
